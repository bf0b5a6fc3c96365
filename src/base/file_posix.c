/* base/file_posix.c: whole files, mapped where that works, and replaced; folders and paths. */
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <umbel/backend.h>
#include <unistd.h>

static um_status fail_errno(const char *path, const char *what, int error)
{
    um_status code = error == ENOENT || error == ENOTDIR ? UM_NOT_FOUND
                     : error == ENOMEM                   ? UM_OUT_OF_MEMORY
                                                         : UM_IO_ERROR;
    return um_backend_fail(code, NULL, NULL, error, "file: cannot %s '%s': %s", what, path,
                           strerror(error));
}

static um_status read_whole(int fd, const char *path, um_file *file)
{
    uint8_t *data = um_mem_alloc((size_t)file->size_bytes);
    if (!data)
        return UM_FAIL(UM_OUT_OF_MEMORY, "file: no memory for the %llu bytes of '%s'",
                       (unsigned long long)file->size_bytes, path);
    uint64_t done = 0;
    while (done < file->size_bytes) {
        ssize_t got = read(fd, data + done, (size_t)(file->size_bytes - done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            int error = got < 0 ? errno : EIO; /* the file became shorter meanwhile */
            um_mem_free(data);
            return fail_errno(path, "read", error);
        }
        done += (uint64_t)got;
    }
    file->data = data;
    return UM_OK;
}

static um_status load(int fd, const char *path, um_file *file)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_errno(path, "examine", errno);
    if (S_ISDIR(info.st_mode)) return fail_errno(path, "read", EISDIR);
    if (!S_ISREG(info.st_mode))
        return UM_FAIL(UM_IO_ERROR, "file: '%s' is a pipe or a device, wanted a regular file",
                       path);
    if ((uintmax_t)info.st_size > SIZE_MAX / 2)
        return UM_FAIL(UM_OUT_OF_MEMORY, "file: '%s' has %lld bytes, more than can be addressed",
                       path, (long long)info.st_size);
    file->size_bytes = (uint64_t)info.st_size;
    if (file->size_bytes == 0) return UM_OK;
    void *map = mmap(NULL, (size_t)file->size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return read_whole(fd, path, file);
    file->data = map;
    file->mapped = true;
    return UM_OK;
}

um_status um_file_open(const char *path, um_file *out)
{
    um_file file = {NULL, 0, false};
    *out = file;
    if (!path) return UM_FAIL(UM_INVALID_ARGUMENT, "file: the path is NULL");
    /* Not blocking: opening a pipe would wait for its writer; regular files do not care. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(path, "open", errno);
    um_status status = load(fd, path, &file);
    close(fd);
    if (status == UM_OK) *out = file;
    return status;
}

void um_file_close(um_file *file)
{
    if (!file || !file->data) return;
    void *data = (void *)(uintptr_t)file->data; /* ours: const is for the readers */
    if (file->mapped)
        munmap(data, (size_t)file->size_bytes);
    else
        um_mem_free(data);
    *file = (um_file){NULL, 0, false};
}

/* The folders that lead to the file. */
static um_status make_folders(char *path)
{
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        int error = mkdir(path, 0700) == 0 ? 0 : errno;
        um_status status = error == 0 || error == EEXIST ? UM_OK : fail_errno(path, "make", error);
        *c = '/';
        if (status != UM_OK) return status;
    }
    return UM_OK;
}

static um_status write_whole(int fd, const char *path, const char *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t put = write(fd, data, size_bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return fail_errno(path, "write", put < 0 ? errno : EIO);
        data += put;
        size_bytes -= (size_t)put;
    }
    return UM_OK;
}

um_status um_file_replace(const char *path, const void *data, size_t size_bytes)
{
    static _Atomic unsigned number;
    char part[1200];
    int length = snprintf(part, sizeof part, "%s.%ld.%u", path, (long)getpid(), number++);
    if (length < 0 || (size_t)length >= sizeof part)
        return UM_FAIL(UM_IO_ERROR, "file: the path has %zu bytes", strlen(path));
    UM_TRY(make_folders(part));
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return fail_errno(part, "create", errno);
    um_status status = write_whole(fd, part, data, size_bytes);
    if (close(fd) != 0 && status == UM_OK) status = fail_errno(part, "write", errno);
    if (status == UM_OK && rename(part, path) != 0) status = fail_errno(path, "replace", errno);
    if (status != UM_OK) unlink(part);
    return status;
}

/* ---- folders and paths ---------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

um_status um_os_list(const char *folder, const char *suffix,
                     void (*fn)(void *user, const char *name), void *user)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0) return fail_errno(folder, "list", errno);
    for (int i = 0; i < count; i++) {
        if (ends_with(entries[i]->d_name, suffix)) fn(user, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return UM_OK;
}

um_status um_os_real_path(const char *path, char *out, size_t out_size)
{
    out[0] = 0;
    char *real = realpath(path, NULL);
    if (!real) return fail_errno(path, "find", errno);
    int length = snprintf(out, out_size, "%s", real);
    free(real);
    if (length >= 0 && (size_t)length < out_size) return UM_OK;
    out[0] = 0;
    return UM_FAIL(UM_OUT_OF_RANGE, "file: the path of '%s' has %d bytes, at most %zu", path,
                   length, out_size - 1);
}
