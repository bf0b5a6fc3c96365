/* The trace layer: a line of text for every call that reaches the backend, on stderr or appended to
 * the file UMBEL_TRACE; or, in a file *.json, an event in Chrome's format (trace_json.c). Changes
 * nothing that passes, but that JSON asks the stream to say when work is done. */
#include "base/os.h"
#include "device/layer.h"
#include "device/trace_json.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

typedef unsigned long long ull; /* for printing */

enum { TEXT_BYTES = 800 };

struct um_backend_device {
    um_driver inner;
    const char *name;
    FILE *file;          /* text, or NULL */
    um_trace_file *json; /* or NULL */
    int32_t number;      /* of the traced devices of this process, from 1 */
    int64_t start_ns;
    _Atomic int32_t last_stream;
};

struct um_backend_stream {
    um_backend_device *device;
    um_backend_stream *inner;
    int32_t number;      /* of the device's, from 1 */
    int64_t last_end_ns; /* of its last event; by its calls, which are in order */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* A call under way. stream NULL: of the device. */
typedef struct note {
    um_backend_device *device;
    um_backend_stream *stream;
    const char *name, *category;
    int64_t start_ns;
} note;

static note begin(um_backend_device *d, um_backend_stream *s, const char *name)
{
    return (note){d, s, name, "call", um_os_now_ns()};
}

/* "   0.001234 cpu:0+trace write 0x...: 64 bytes to 0x... -> OK". One write a line, so that threads
 * don't mix. */
static void write_line(const note *n, um_status status, const char *text)
{
    char stream[32] = "", line[TEXT_BYTES + 256];
    double seconds = (double)(um_os_now_ns() - n->device->start_ns) * 1e-9;
    if (n->stream) snprintf(stream, sizeof stream, " %p:", (const void *)n->stream);
    snprintf(line, sizeof line, "%11.6f %s %s%s%s%s -> %s\n", seconds, n->device->name, n->name,
             stream, text[0] ? " " : "", text, um_status_name(status));
    fputs(line, n->device->file);
}

static void write_event(const note *n, um_status status, const char *text, int64_t end_ns)
{
    char escaped[TEXT_BYTES + 64], args[TEXT_BYTES + 128];
    um_json_escape(text, escaped, sizeof escaped);
    snprintf(args, sizeof args, "\"what\":\"%s\",\"status\":\"%s\"", escaped,
             um_status_name(status));
    um_trace_event event = {.name = n->name,
                            .category = n->category,
                            .args = args,
                            .process = n->device->number,
                            .thread = n->stream ? n->stream->number : 0,
                            .start_ns = n->start_ns,
                            .end_ns = end_ns};
    um_trace_file_event(n->device->json, &event);
}

static um_status say(const note *n, um_status status, const char *format, ...) UM_PRINTF(3, 4);
static um_status say(const note *n, um_status status, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n->device->json) {
        write_event(n, status, text, um_os_now_ns());
    } else {
        write_line(n, status, text);
    }
    return status;
}

/* ---- work that is done later ---------------------------------------------------------------- */

typedef struct span {
    note note;
    char text[TEXT_BYTES];
} span;

/* A stream does one thing after the other: this one began when it was queued, or when the last one
 * ended. */
static void span_is_done(void *user, um_status status)
{
    span *done = user;
    um_backend_stream *s = done->note.stream;
    int64_t end_ns = um_os_now_ns();
    done->note.start_ns = UM_MAX(done->note.start_ns, s->last_end_ns);
    s->last_end_ns = end_ns;
    write_event(&done->note, status, done->text, end_ns);
    um_mem_free(done);
}

/* As say, of what the stream does in its own time; JSON has it when it is done, if the backend can
 * tell. */
static um_status say_work(const note *n, um_status status, const char *text)
{
    const um_backend *table = n->device->inner.table;
    if (!n->device->json || status != UM_OK || !table->call) return say(n, status, "%s", text);
    um_error saved = *um_last_error();
    span *later = um_mem_alloc(sizeof *later);
    if (later) {
        later->note = *n;
        snprintf(later->text, sizeof later->text, "%s", text);
    }
    if (!later || table->call(n->stream->inner, span_is_done, later) != UM_OK) {
        um_mem_free(later);
        um_fail_again(&saved);
        return say(n, status, "%s", text);
    }
    return status;
}

static um_status say_bytes(const note *n, um_status status, const char *format, ...)
    UM_PRINTF(3, 4);
static um_status say_bytes(const note *n, um_status status, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return say_work(n, status, text);
}

/* ---- device --------------------------------------------------------------------------------- */

static bool is_json(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

static um_status open_text(um_backend_device *d, const char *path)
{
    d->file = path ? fopen(path, "a") : stderr;
    if (!d->file) {
        int error = errno;
        return um_backend_fail(UM_IO_ERROR, NULL, NULL, error,
                               "trace: cannot write to UMBEL_TRACE '%s': error %d", path, error);
    }
    if (path) setvbuf(d->file, NULL, _IOLBF, BUFSIZ);
    return UM_OK;
}

static um_status trace_wrap(um_driver inner, const char *name, const char *params,
                            um_backend_device **out)
{
    static _Atomic int32_t last_device;
    (void)params;
    *out = NULL;
    const char *path = um_env_get(UM_ENV_TRACE);
    um_backend_device *d = um_mem_zalloc(sizeof *d);
    if (!d) return UM_FAIL(UM_OUT_OF_MEMORY, "trace: no memory");
    d->inner = inner;
    d->name = name;
    d->number = atomic_fetch_add(&last_device, 1) + 1;
    d->start_ns = um_os_now_ns();
    um_status status = is_json(path) ? um_trace_file_open(path, &d->json) : open_text(d, path);
    if (status != UM_OK) {
        um_mem_free(d);
        return status;
    }
    if (d->json) {
        um_trace_file_name(d->json, d->number, -1, name);
        um_trace_file_name(d->json, d->number, 0, "host");
    }
    note n = begin(d, NULL, "open");
    (void)say(&n, UM_OK, "%s", "");
    *out = d;
    return UM_OK;
}

static void trace_close(um_backend_device *d)
{
    note n = begin(d, NULL, "close");
    (void)say(&n, UM_OK, "%s", "");
    bool good = d->json ? um_trace_file_close(d->json)
                        : d->file == stderr || !(ferror(d->file) | fclose(d->file));
    if (!good) um_log_write(UM_LOG_WARNING, "trace: the trace of %s is not complete", d->name);
    d->inner.table->close(d->inner.device);
    um_mem_free(d);
}

static um_status trace_caps(um_backend_device *d, um_caps *out)
{
    note n = begin(d, NULL, "caps");
    return say(&n, d->inner.table->caps(d->inner.device, out), "%s", "");
}

static um_status trace_alloc(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    note n = begin(d, NULL, "alloc");
    um_status status = d->inner.table->alloc(d->inner.device, size_bytes, out);
    return say(&n, status, "%llu bytes: 0x%llx", (ull)size_bytes, (ull)*out);
}

static void trace_free(um_backend_device *d, um_ptr ptr)
{
    note n = begin(d, NULL, "free");
    d->inner.table->free(d->inner.device, ptr);
    (void)say(&n, UM_OK, "0x%llx", (ull)ptr);
}

static bool trace_supports(um_backend_device *d, const um_op *op, char *why, size_t why_size)
{
    char text[512], reason[256];
    note n = begin(d, NULL, "supports");
    if (!why || why_size == 0) {
        why = reason;
        why_size = sizeof reason;
    }
    bool yes = um_driver_supports(d->inner, op, why, why_size);
    (void)say(&n, yes ? UM_OK : UM_UNSUPPORTED, "%s: %s%s", um_op_text(op, text, sizeof text),
              yes ? "yes" : "no, ", yes ? "" : why);
    return yes;
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status trace_stream_create_priority(um_backend_device *d, int32_t priority,
                                              um_backend_stream **out)
{
    char name[32];
    *out = NULL;
    um_backend_stream *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "trace: no memory for a stream");
    s->device = d;
    s->number = atomic_fetch_add(&d->last_stream, 1) + 1;
    note n = begin(d, s, "stream_create");
    um_status status = um_driver_stream_create(d->inner, priority, &s->inner);
    snprintf(name, sizeof name, "stream %d", s->number);
    if (d->json) um_trace_file_name(d->json, d->number, s->number, name);
    (void)say(&n, status, "%s, priority %d", name, priority);
    if (status == UM_OK) {
        *out = s;
    } else {
        um_mem_free(s);
    }
    return status;
}

static um_status trace_stream_create(um_backend_device *d, um_backend_stream **out)
{
    return trace_stream_create_priority(d, 0, out);
}

static void trace_stream_destroy(um_backend_stream *s)
{
    note n = begin(s->device, s, "stream_destroy");
    s->device->inner.table->stream_destroy(s->inner);
    (void)say(&n, UM_OK, "%s", "");
    um_mem_free(s);
}

static um_status trace_write(um_backend_stream *s, um_ptr dst, const void *src, uint64_t size_bytes)
{
    note n = begin(s->device, s, "write");
    um_status status = s->device->inner.table->write(s->inner, dst, src, size_bytes);
    return say_bytes(&n, status, "%llu bytes to 0x%llx", (ull)size_bytes, (ull)dst);
}

static um_status trace_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    note n = begin(s->device, s, "read");
    um_status status = s->device->inner.table->read(s->inner, dst, src, size_bytes);
    return say(&n, status, "%llu bytes from 0x%llx", (ull)size_bytes, (ull)src);
}

static um_status trace_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    note n = begin(s->device, s, "copy");
    um_status status = s->device->inner.table->copy(s->inner, dst, src, size_bytes);
    return say_bytes(&n, status, "%llu bytes from 0x%llx to 0x%llx", (ull)size_bytes, (ull)src,
                     (ull)dst);
}

static um_status trace_copy_host(um_backend_stream *s, um_copy_kind kind, um_ptr dst, um_ptr src,
                                 uint64_t size_bytes)
{
    static const char *const names[] = {"device to device", "host to device", "device to host",
                                        "host to host"};
    note n = begin(s->device, s, "copy_host");
    um_status status =
        um_table_copy_host(s->device->inner.table, s->inner, kind, dst, src, size_bytes);
    return say_bytes(&n, status, "%llu bytes from 0x%llx to 0x%llx, %s", (ull)size_bytes, (ull)src,
                     (ull)dst, names[kind & 3]);
}

static um_status trace_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                            uint32_t pattern_bytes)
{
    note n = begin(s->device, s, "fill");
    um_status status =
        s->device->inner.table->fill(s->inner, dst, size_bytes, pattern, pattern_bytes);
    return say_bytes(&n, status, "%llu bytes at 0x%llx with 0x%llx (%u bytes)", (ull)size_bytes,
                     (ull)dst, (ull)pattern, pattern_bytes);
}

static um_status trace_record(um_backend_stream *s, uint64_t *ticket)
{
    *ticket = 0;
    note n = begin(s->device, s, "record");
    um_status status = s->device->inner.table->record(s->inner, ticket);
    return say(&n, status, "ticket %llu", (ull)*ticket);
}

static um_status trace_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    note n = begin(s->device, s, "wait");
    um_status status = s->device->inner.table->wait(s->inner, other->inner, ticket);
    return say_bytes(&n, status, "for stream %d, ticket %llu", other->number, (ull)ticket);
}

static um_status trace_query(um_backend_stream *s, uint64_t ticket)
{
    note n = begin(s->device, s, "query");
    return say(&n, s->device->inner.table->query(s->inner, ticket), "ticket %llu", (ull)ticket);
}

static um_status trace_synchronize(um_backend_stream *s, uint64_t ticket)
{
    note n = begin(s->device, s, "synchronize");
    um_status status = s->device->inner.table->synchronize(s->inner, ticket);
    if (ticket == UINT64_MAX) return say(&n, status, "all");
    return say(&n, status, "ticket %llu", (ull)ticket);
}

static um_status trace_clear_error(um_backend_stream *s)
{
    note n = begin(s->device, s, "clear_error");
    return say(&n, s->device->inner.table->clear_error(s->inner), "%s", "");
}

static um_status trace_call(um_backend_stream *s, um_stream_fn fn, void *user)
{
    note n = begin(s->device, s, "call");
    return say_bytes(&n, um_table_call(s->device->inner.table, s->inner, fn, user), "%s", "");
}

/* ---- ops ------------------------------------------------------------------------------------ */

static um_status trace_enqueue(um_backend_stream *s, const um_op *op)
{
    char text[TEXT_BYTES];
    um_op_text(op, text, sizeof text);
    note n = begin(s->device, s, "enqueue");
    um_status status = s->device->inner.table->enqueue(s->inner, op);
    if (s->device->json) {
        n.name = um_op_name(op->id);
        n.category = "op";
    }
    return say_work(&n, status, text);
}

static um_status trace_enqueue_batch(um_backend_stream *s, int64_t count, const um_op *const *ops)
{
    char text[TEXT_BYTES], first[TEXT_BYTES - 64];
    note n = begin(s->device, s, "enqueue_batch");
    um_status status = um_table_enqueue_batch(s->device->inner.table, s->inner, count, ops);
    snprintf(text, sizeof text, "%lld ops, from %s", (long long)count,
             um_op_text(ops[0], first, sizeof first));
    n.category = "op";
    (void)say_work(&n, status, text);
    n.name = "  op of it";
    for (int64_t i = 0; i < count && !s->device->json; i++)
        (void)say(&n, status, "%s", um_op_text(ops[i], text, sizeof text));
    return status;
}

static const um_backend table = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "trace",
    .close = trace_close,
    .caps = trace_caps,
    .alloc = trace_alloc,
    .free = trace_free,
    .stream_create = trace_stream_create,
    .stream_create_priority = trace_stream_create_priority,
    .stream_destroy = trace_stream_destroy,
    .write = trace_write,
    .read = trace_read,
    .copy = trace_copy,
    .copy_host = trace_copy_host,
    .fill = trace_fill,
    .record = trace_record,
    .wait = trace_wait,
    .query = trace_query,
    .synchronize = trace_synchronize,
    .clear_error = trace_clear_error,
    .call = trace_call,
    .supports = trace_supports,
    .enqueue = trace_enqueue,
    .enqueue_batch = trace_enqueue_batch,
};

const um_layer um_layer_trace = {.name = "trace", .table = &table, .wrap = trace_wrap};
