/* base/os_posix.c: threads, locks, time, the heap and libraries by POSIX. What a system has beyond
 * that is in os_linux.c or os_generic.c, files in file_posix.c. */
#include "base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <umbel/backend.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, MIN_STACK = 512 << 10, NAME_SIZE = 16 };

static um_status fail_errno(int error, const char *what)
{
    return um_backend_fail(UM_OUT_OF_MEMORY, NULL, NULL, error, "%s: the system refuses: %s", what,
                           strerror(error));
}

um_status um_mutex_init(um_mutex *mutex)
{
    int error = pthread_mutex_init(mutex, NULL);
    return error ? fail_errno(error, "mutex") : UM_OK;
}

void um_mutex_destroy(um_mutex *mutex) { pthread_mutex_destroy(mutex); }

void um_mutex_lock(um_mutex *mutex) { pthread_mutex_lock(mutex); }

void um_mutex_unlock(um_mutex *mutex) { pthread_mutex_unlock(mutex); }

um_status um_cond_init(um_cond *cond)
{
    int error = pthread_cond_init(cond, NULL);
    return error ? fail_errno(error, "condition variable") : UM_OK;
}

void um_cond_destroy(um_cond *cond) { pthread_cond_destroy(cond); }

void um_cond_wait(um_cond *cond, um_mutex *mutex) { pthread_cond_wait(cond, mutex); }

void um_cond_signal(um_cond *cond) { pthread_cond_signal(cond); }

void um_cond_broadcast(um_cond *cond) { pthread_cond_broadcast(cond); }

void um_call_once(um_once *once, void (*fn)(void)) { pthread_once(once, fn); }

typedef struct thread_start {
    void (*fn)(void *);
    void *arg;
    char name[NAME_SIZE];
} thread_start;

static void *thread_main(void *given)
{
    thread_start start = *(thread_start *)given;
    um_mem_free(given);
    um_os_name_thread(start.name);
    start.fn(start.arg);
    return NULL;
}

/* Some systems give threads less by default than deep recursion in a driver wants. */
static void raise_stack(pthread_attr_t *attr)
{
    size_t size = 0;
    if (pthread_attr_getstacksize(attr, &size) == 0 && size < MIN_STACK)
        pthread_attr_setstacksize(attr, MIN_STACK);
}

um_status um_thread_start(um_thread *thread, void (*fn)(void *), void *arg, const char *name)
{
    thread_start *start = um_mem_alloc(sizeof *start);
    if (!start) return UM_FAIL(UM_OUT_OF_MEMORY, "thread '%s': no memory to start it", name);
    *start = (thread_start){.fn = fn, .arg = arg};
    snprintf(start->name, sizeof start->name, "%s", name);

    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (!error) {
        raise_stack(&attr);
        sigset_t all, before; /* the program's signal handlers are not to run on our threads */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(thread, &attr, thread_main, start);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    if (!error) return UM_OK;
    um_mem_free(start);
    return um_backend_fail(UM_OUT_OF_MEMORY, NULL, NULL, error,
                           "thread '%s': the system refuses to start it: %s", name,
                           strerror(error));
}

void um_thread_join(um_thread thread) { pthread_join(thread, NULL); }

int64_t um_os_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Huge pages make the first touch of 64 MiB five times faster (45 ms to 9 ms, x86-64 Linux). */
void *um_os_alloc(size_t size_bytes, size_t align_bytes)
{
    if (size_bytes > PTRDIFF_MAX) return NULL;
    bool large = size_bytes >= HUGE_PAGE;
    if (!large && align_bytes <= _Alignof(max_align_t)) return malloc(size_bytes);
    void *ptr = NULL;
    if (posix_memalign(&ptr, large ? HUGE_PAGE : align_bytes, size_bytes) != 0) return NULL;
    if (large) um_os_want_huge(ptr, size_bytes / HUGE_PAGE * HUGE_PAGE);
    return ptr;
}

void um_os_free(void *ptr) { free(ptr); }

void um_os_machine(char *name, size_t name_size)
{
    struct utsname system;
    snprintf(name, name_size, "%s", uname(&system) >= 0 ? system.machine : "");
}

/* ---- libraries ------------------------------------------------------------------------------ */

um_status um_os_library_open(const char *path, void **out)
{
    *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*out) return UM_OK;
    const char *reason = dlerror();
    return UM_FAIL(UM_IO_ERROR, "library: cannot load '%s': %s", path,
                   reason ? reason : "no reason");
}

void *um_os_library_open_any(const char *const *names, size_t count)
{
    void *library = NULL;
    for (size_t i = 0; i < count && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

um_os_fn um_os_library_find(void *library, const char *symbol)
{
    um_os_fn fn = NULL;
    void *found = dlsym(library, symbol);
    memcpy(&fn, &found, sizeof fn); /* POSIX: a function's address fits; C has no cast for it */
    return fn;
}

void um_os_library_close(void *library)
{
    if (library) dlclose(library);
}

/* ---- memory and rights ---------------------------------------------------------------------- */

/* The system reads the bytes for us: through a pipe, so that it says EFAULT where we would crash.
 */
static um_status copy_through(const int ends[2], uint8_t *dst, const uint8_t *src,
                              size_t size_bytes)
{
    enum { PIECE = 512 }; /* what a pipe takes at once, by POSIX */
    for (size_t at = 0; at < size_bytes;) {
        size_t piece = UM_MIN(size_bytes - at, (size_t)PIECE);
        ssize_t put = write(ends[1], src + at, piece);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EFAULT)
            return UM_FAIL(UM_INVALID_ARGUMENT, "memory: %zu bytes at %p cannot be read",
                           size_bytes, (const void *)src);
        ssize_t got = put > 0 ? read(ends[0], dst + at, (size_t)put) : -1;
        if (got != put) return UM_FAIL(UM_IO_ERROR, "memory: cannot look through a pipe");
        at += (size_t)put;
    }
    return UM_OK;
}

um_status um_os_copy_unsure(void *dst, const void *src, size_t size_bytes)
{
    int ends[2];
    memset(dst, 0, size_bytes);
    if (pipe(ends) != 0)
        return um_backend_fail(UM_IO_ERROR, NULL, NULL, errno,
                               "memory: no pipe to look through: %s", strerror(errno));
    for (int i = 0; i < 2; i++) (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    um_status status = copy_through(ends, dst, src, size_bytes);
    close(ends[0]);
    close(ends[1]);
    return status;
}

bool um_os_is_privileged(void) { return getuid() != geteuid() || getgid() != getegid(); }
