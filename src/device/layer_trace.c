/* The trace layer: a line of text for every call that reaches the backend, on stderr or appended to
 * the file UMBEL_TRACE. Changes nothing that passes. */
#include "base/os.h"
#include "device/layer.h"

#include <errno.h>
#include <stdio.h>

typedef unsigned long long ull; /* for printing */

struct um_backend_device {
    um_driver inner;
    const char *name;
    FILE *file;
    int64_t start_ns;
};

struct um_backend_stream {
    um_backend_device *device;
    um_backend_stream *inner;
};

/* "   0.001234 cpu:0+trace alloc 64 bytes -> 0x...". One write a line, so that threads don't mix.
 */
static void line(um_backend_device *d, const char *format, ...) UM_PRINTF(2, 3);
static void line(um_backend_device *d, const char *format, ...)
{
    char text[1024];
    va_list args;
    double seconds = (double)(um_os_now_ns() - d->start_ns) * 1e-9;
    int used = snprintf(text, sizeof text, "%11.6f %s ", seconds, d->name);
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    fprintf(d->file, "%s\n", text);
}

/* ---- device --------------------------------------------------------------------------------- */

static um_status trace_wrap(um_driver inner, const char *name, const char *params,
                            um_backend_device **out)
{
    (void)params;
    *out = NULL;
    const char *path = um_env_get(UM_ENV_TRACE);
    um_backend_device *d = um_mem_zalloc(sizeof *d);
    if (!d) return UM_FAIL(UM_OUT_OF_MEMORY, "trace: no memory");
    *d = (um_backend_device){inner, name, stderr, um_os_now_ns()};
    if (path) d->file = fopen(path, "a");
    if (!d->file) {
        int error = errno;
        um_mem_free(d);
        return um_backend_fail(UM_IO_ERROR, NULL, NULL, error,
                               "trace: cannot write to UMBEL_TRACE '%s': error %d", path, error);
    }
    if (path) setvbuf(d->file, NULL, _IOLBF, BUFSIZ);
    line(d, "open");
    *out = d;
    return UM_OK;
}

static void trace_close(um_backend_device *d)
{
    line(d, "close");
    if (d->file != stderr && (ferror(d->file) | fclose(d->file))) {
        um_log_write(UM_LOG_WARNING, "trace: the trace of %s is not complete", d->name);
    }
    d->inner.table->close(d->inner.device);
    um_mem_free(d);
}

static um_status trace_caps(um_backend_device *d, um_caps *out)
{
    um_status status = d->inner.table->caps(d->inner.device, out);
    line(d, "caps -> %s", um_status_name(status));
    return status;
}

static um_status trace_alloc(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    um_status status = d->inner.table->alloc(d->inner.device, size_bytes, out);
    line(d, "alloc %llu bytes: 0x%llx -> %s", (ull)size_bytes, (ull)*out, um_status_name(status));
    return status;
}

static void trace_free(um_backend_device *d, um_ptr ptr)
{
    line(d, "free 0x%llx", (ull)ptr);
    d->inner.table->free(d->inner.device, ptr);
}

static bool trace_supports(um_backend_device *d, const um_op *op, char *why, size_t why_size)
{
    char text[768], reason[256];
    if (!why || why_size == 0) {
        why = reason;
        why_size = sizeof reason;
    }
    bool yes = um_driver_supports(d->inner, op, why, why_size);
    line(d, "supports %s: %s%s", um_op_text(op, text, sizeof text), yes ? "yes" : "no, ",
         yes ? "" : why);
    return yes;
}

/* ---- streams -------------------------------------------------------------------------------- */

/* A stream's place in memory is its name in the trace. */
static const void *id(const um_backend_stream *s) { return s; }

static um_status trace_stream_create(um_backend_device *d, um_backend_stream **out)
{
    *out = NULL;
    um_backend_stream *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "trace: no memory for a stream");
    s->device = d;
    um_status status = d->inner.table->stream_create(d->inner.device, &s->inner);
    line(d, "stream_create: %p -> %s", id(s), um_status_name(status));
    if (status == UM_OK) {
        *out = s;
    } else {
        um_mem_free(s);
    }
    return status;
}

static void trace_stream_destroy(um_backend_stream *s)
{
    s->device->inner.table->stream_destroy(s->inner);
    line(s->device, "stream_destroy %p", id(s));
    um_mem_free(s);
}

static um_status trace_write(um_backend_stream *s, um_ptr dst, const void *src, uint64_t size_bytes)
{
    um_status status = s->device->inner.table->write(s->inner, dst, src, size_bytes);
    line(s->device, "write %p: %llu bytes to 0x%llx -> %s", id(s), (ull)size_bytes, (ull)dst,
         um_status_name(status));
    return status;
}

static um_status trace_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    um_status status = s->device->inner.table->read(s->inner, dst, src, size_bytes);
    line(s->device, "read %p: %llu bytes from 0x%llx -> %s", id(s), (ull)size_bytes, (ull)src,
         um_status_name(status));
    return status;
}

static um_status trace_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    um_status status = s->device->inner.table->copy(s->inner, dst, src, size_bytes);
    line(s->device, "copy %p: %llu bytes from 0x%llx to 0x%llx -> %s", id(s), (ull)size_bytes,
         (ull)src, (ull)dst, um_status_name(status));
    return status;
}

static um_status trace_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                            uint32_t pattern_bytes)
{
    um_status status =
        s->device->inner.table->fill(s->inner, dst, size_bytes, pattern, pattern_bytes);
    line(s->device, "fill %p: %llu bytes at 0x%llx with 0x%llx (%u bytes) -> %s", id(s),
         (ull)size_bytes, (ull)dst, (ull)pattern, pattern_bytes, um_status_name(status));
    return status;
}

static um_status trace_record(um_backend_stream *s, uint64_t *ticket)
{
    *ticket = 0;
    um_status status = s->device->inner.table->record(s->inner, ticket);
    line(s->device, "record %p: ticket %llu -> %s", id(s), (ull)*ticket, um_status_name(status));
    return status;
}

static um_status trace_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    um_status status = s->device->inner.table->wait(s->inner, other->inner, ticket);
    line(s->device, "wait %p: for %p, ticket %llu -> %s", id(s), id(other), (ull)ticket,
         um_status_name(status));
    return status;
}

static um_status trace_query(um_backend_stream *s, uint64_t ticket)
{
    um_status status = s->device->inner.table->query(s->inner, ticket);
    line(s->device, "query %p: ticket %llu -> %s", id(s), (ull)ticket, um_status_name(status));
    return status;
}

static um_status trace_synchronize(um_backend_stream *s, uint64_t ticket)
{
    um_status status = s->device->inner.table->synchronize(s->inner, ticket);
    if (ticket == UINT64_MAX) {
        line(s->device, "synchronize %p -> %s", id(s), um_status_name(status));
    } else {
        line(s->device, "synchronize %p: ticket %llu -> %s", id(s), (ull)ticket,
             um_status_name(status));
    }
    return status;
}

static um_status trace_clear_error(um_backend_stream *s)
{
    um_status status = s->device->inner.table->clear_error(s->inner);
    line(s->device, "clear_error %p -> %s", id(s), um_status_name(status));
    return status;
}

static um_status trace_enqueue(um_backend_stream *s, const um_op *op)
{
    char text[768];
    um_op_text(op, text, sizeof text);
    um_status status = s->device->inner.table->enqueue(s->inner, op);
    line(s->device, "enqueue %p: %s -> %s", id(s), text, um_status_name(status));
    return status;
}

static um_status trace_enqueue_batch(um_backend_stream *s, int64_t count, const um_op *const *ops)
{
    char text[768];
    um_status status = um_table_enqueue_batch(s->device->inner.table, s->inner, count, ops);
    line(s->device, "enqueue_batch %p: %lld ops -> %s", id(s), (long long)count,
         um_status_name(status));
    for (int64_t i = 0; i < count; i++)
        line(s->device, "  op %lld: %s", (long long)i, um_op_text(ops[i], text, sizeof text));
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
    .stream_destroy = trace_stream_destroy,
    .write = trace_write,
    .read = trace_read,
    .copy = trace_copy,
    .fill = trace_fill,
    .record = trace_record,
    .wait = trace_wait,
    .query = trace_query,
    .synchronize = trace_synchronize,
    .clear_error = trace_clear_error,
    .supports = trace_supports,
    .enqueue = trace_enqueue,
    .enqueue_batch = trace_enqueue_batch,
};

const um_layer um_layer_trace = {.name = "trace", .table = &table, .wrap = trace_wrap};
