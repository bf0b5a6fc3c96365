/* Trace files in Chrome's format; see trace_json.h. The file is one array; its end is written over
 * by whoever opens it again. */
#include "device/trace_json.h"

#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <umbel/backend.h>

static const char end_mark[] = "\n]\n";
enum { END_BYTES = sizeof end_mark - 1 };

struct um_trace_file {
    um_trace_file *next;
    char *path;
    int32_t refs;
    FILE *file;
    bool filled; /* there is an event, so a comma goes before the next one */
};

/* Held while writing, too: an event is short. */
static struct {
    um_mutex mutex;
    um_trace_file *first;
} files = {.mutex = UM_MUTEX_INIT};

const char *um_json_escape(const char *text, char *out, size_t out_size)
{
    size_t used = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c && used + 7 < out_size; c++) {
        if (*c == '"' || *c == '\\') out[used++] = '\\';
        if (*c >= 0x20) {
            out[used++] = (char)*c;
        } else {
            used += (size_t)snprintf(out + used, out_size - used, "\\u%04x", (unsigned)*c);
        }
    }
    if (out_size > 0) out[used] = 0;
    return out;
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* Goes on before the end of a trace that is there. */
static FILE *open_again(const char *path, bool *filled)
{
    char tail[END_BYTES + 1] = "";
    FILE *file = fopen(path, "r+");
    if (!file) return NULL;
    bool ends = fgetc(file) == '[' && fseek(file, -(long)END_BYTES, SEEK_END) == 0 &&
                fread(tail, 1, END_BYTES, file) == END_BYTES && strcmp(tail, end_mark) == 0 &&
                fseek(file, -(long)END_BYTES, SEEK_END) == 0;
    if (!ends) {
        fclose(file);
        return NULL;
    }
    *filled = ftell(file) > 1;
    return file;
}

static um_trace_file *find(const char *path)
{
    um_trace_file *file = files.first;
    while (file && strcmp(file->path, path) != 0) file = file->next;
    return file;
}

static um_status create(const char *path, um_trace_file **out)
{
    size_t length = strlen(path) + 1;
    um_trace_file *file = um_mem_zalloc(sizeof *file + length);
    if (!file) return UM_FAIL(UM_OUT_OF_MEMORY, "trace: no memory for a file");
    file->path = memcpy(file + 1, path, length);
    file->file = open_again(path, &file->filled);
    if (!file->file) {
        file->file = fopen(path, "w");
        if (file->file) fputc('[', file->file);
    }
    if (!file->file) {
        int error = errno;
        um_mem_free(file);
        return um_backend_fail(UM_IO_ERROR, NULL, NULL, error,
                               "trace: cannot write to UMBEL_TRACE '%s': error %d", path, error);
    }
    *out = file;
    return UM_OK;
}

um_status um_trace_file_open(const char *path, um_trace_file **out)
{
    um_status status = UM_OK;
    um_mutex_lock(&files.mutex);
    *out = find(path);
    if (!*out) {
        status = create(path, out);
        if (status == UM_OK) {
            (*out)->next = files.first;
            files.first = *out;
        }
    }
    if (*out) (*out)->refs++;
    um_mutex_unlock(&files.mutex);
    return status;
}

bool um_trace_file_close(um_trace_file *file)
{
    bool good = true;
    um_mutex_lock(&files.mutex);
    bool last = --file->refs == 0;
    if (last) {
        um_trace_file **link = &files.first;
        while (*link != file) link = &(*link)->next;
        *link = file->next;
        fputs(end_mark, file->file);
        good = !(ferror(file->file) | fclose(file->file));
    }
    um_mutex_unlock(&files.mutex);
    if (last) um_mem_free(file);
    return good;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Before an event. With the mutex held. */
static void begin(um_trace_file *file)
{
    fputs(file->filled ? ",\n" : "\n", file->file);
    file->filled = true;
}

void um_trace_file_event(um_trace_file *file, const um_trace_event *event)
{
    char name[128];
    um_json_escape(event->name, name, sizeof name);
    um_mutex_lock(&files.mutex);
    begin(file);
    fprintf(file->file,
            "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,"
            "\"tid\":%d,\"args\":{%s}}",
            name, event->category, (double)event->start_ns / 1e3,
            (double)(event->end_ns - event->start_ns) / 1e3, event->process, event->thread,
            event->args);
    um_mutex_unlock(&files.mutex);
}

void um_trace_file_name(um_trace_file *file, int32_t process, int32_t thread, const char *name)
{
    char text[512];
    um_json_escape(name, text, sizeof text);
    um_mutex_lock(&files.mutex);
    begin(file);
    fprintf(file->file,
            "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
            thread < 0 ? "process_name" : "thread_name", process, thread < 0 ? 0 : thread, text);
    um_mutex_unlock(&files.mutex);
}
