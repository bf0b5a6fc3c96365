/* The validate layer: checks, at every call that reaches the backend, the rules of umbel/backend.h:
 * what a backend may rely on, and what the core may expect of it. A broken rule is INTERNAL, with a
 * message that names it, from that call and every later one. Where an entry cannot answer, the next
 * one does. */
#include "base/os.h"
#include "device/layer.h"
#include "device/memmap.h"
#include "op/table.h"

#include <stdio.h>

typedef unsigned long long ull; /* for messages */

#define ALLOC_ALIGN 64

struct um_backend_device {
    um_driver inner;
    const char *name;
    um_mutex mutex;
    /* all under mutex */
    um_memmap map; /* what the backend gave and did not take back */
    int64_t stream_count;
    bool is_broken;
    um_error broken; /* the first */
};

struct um_backend_stream {
    um_backend_device *device;
    um_backend_stream *inner;
    uint64_t ticket; /* the last one given; under device->mutex */
};

/* ---- broken rules --------------------------------------------------------------------------- */

static um_status broken(um_backend_device *d, const char *format, ...) UM_PRINTF(2, 3);
static um_status broken(um_backend_device *d, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    um_status status =
        um_backend_fail(UM_INTERNAL, d->inner.table->name, NULL, 0, "validate: %s", text);
    um_log_write(UM_LOG_ERROR, "%s: %s", d->name, um_last_error()->message);
    um_mutex_lock(&d->mutex);
    if (!d->is_broken) d->broken = *um_last_error();
    d->is_broken = true;
    um_mutex_unlock(&d->mutex);
    return status;
}

static um_status unbroken(um_backend_device *d)
{
    um_error error = {.code = UM_OK};
    um_mutex_lock(&d->mutex);
    if (d->is_broken) error = d->broken;
    um_mutex_unlock(&d->mutex);
    return error.code == UM_OK ? UM_OK : um_fail_again(&error);
}

/* What an entry returned: a failure has to be the thread's last error. */
static um_status told(um_backend_device *d, const char *entry, um_status status)
{
    if (status == UM_OK || um_last_error()->code == status) return status;
    return broken(d, "%s: fails with %d and leaves no message", entry, status);
}

/* ---- device --------------------------------------------------------------------------------- */

static um_status validate_wrap(um_driver inner, const char *name, const char *params,
                               um_backend_device **out)
{
    (void)params;
    *out = NULL;
    um_backend_device *d = um_mem_zalloc(sizeof *d);
    if (!d) return UM_FAIL(UM_OUT_OF_MEMORY, "validate: no memory");
    if (um_mutex_init(&d->mutex) != UM_OK) {
        um_mem_free(d);
        return um_status_last();
    }
    d->inner = inner;
    d->name = name;
    *out = d;
    return UM_OK;
}

static void validate_close(um_backend_device *d)
{
    um_ptr ptr;
    int64_t left = 0;
    while (um_memmap_take_any(&d->map, &ptr, NULL)) left++;
    if (left > 0 || d->stream_count > 0) {
        um_log_write(UM_LOG_ERROR, "%s: validate: closed with %lld allocations and %lld streams",
                     d->name, (long long)left, (long long)d->stream_count);
    }
    d->inner.table->close(d->inner.device);
    um_mutex_destroy(&d->mutex);
    um_mem_free(d);
}

static um_status validate_caps(um_backend_device *d, um_caps *out)
{
    UM_TRY(unbroken(d));
    UM_TRY(told(d, "caps", d->inner.table->caps(d->inner.device, out)));
    if (out->kind == UM_DEVICE_NONE) return broken(d, "caps: no device kind");
    return UM_OK;
}

static um_status validate_alloc(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    *out = 0;
    um_ptr ptr;
    UM_TRY(unbroken(d));
    if (size_bytes == 0) return broken(d, "alloc: the core asked for 0 bytes");
    UM_TRY(told(d, "alloc", d->inner.table->alloc(d->inner.device, size_bytes, &ptr)));
    if (ptr == 0 || ptr % ALLOC_ALIGN != 0) {
        return broken(d, "alloc: got 0x%llx, wanted a multiple of %d", (ull)ptr, ALLOC_ALIGN);
    }
    um_mutex_lock(&d->mutex);
    um_status status = um_memmap_insert(&d->map, ptr, size_bytes);
    um_mutex_unlock(&d->mutex);
    if (status == UM_INTERNAL) return broken(d, "alloc: %s", um_last_error()->message);
    if (status != UM_OK) {
        d->inner.table->free(d->inner.device, ptr);
        return status;
    }
    *out = ptr;
    return UM_OK;
}

static void validate_free(um_backend_device *d, um_ptr ptr)
{
    um_mutex_lock(&d->mutex);
    bool known = um_memmap_remove(&d->map, ptr);
    um_mutex_unlock(&d->mutex);
    if (known) {
        d->inner.table->free(d->inner.device, ptr);
    } else {
        (void)broken(d, "free: 0x%llx is no live allocation; freed twice?", (ull)ptr);
    }
}

static bool validate_supports(um_backend_device *d, const um_op *op, char *why, size_t why_size)
{
    um_error saved = *um_last_error();
    if (um_op_get_row(op->id) == NULL) {
        (void)broken(d, "supports: %d is no op", op->id);
        um_fail_again(&saved);
    }
    bool yes = um_driver_supports(d->inner, op, why, why_size);
    if (!yes && why && why_size > 0 && !why[0]) {
        (void)broken(d, "supports: %s refused without a reason", um_op_name(op->id));
        um_fail_again(&saved);
    }
    return yes;
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status validate_stream_create_priority(um_backend_device *d, int32_t priority,
                                                 um_backend_stream **out)
{
    *out = NULL;
    UM_TRY(unbroken(d));
    um_backend_stream *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "validate: no memory for a stream");
    um_status status =
        told(d, "stream_create", um_driver_stream_create(d->inner, priority, &s->inner));
    if (status != UM_OK) {
        um_mem_free(s);
        return status;
    }
    s->device = d;
    um_mutex_lock(&d->mutex);
    d->stream_count++;
    um_mutex_unlock(&d->mutex);
    *out = s;
    return UM_OK;
}

static um_status validate_stream_create(um_backend_device *d, um_backend_stream **out)
{
    return validate_stream_create_priority(d, 0, out);
}

static void validate_stream_destroy(um_backend_stream *s)
{
    um_backend_device *d = s->device;
    um_error saved = *um_last_error();
    if (d->inner.table->query(s->inner, s->ticket) == UM_NOT_READY) {
        (void)broken(d, "stream_destroy: the stream's work is not done");
    }
    um_fail_again(&saved);
    d->inner.table->stream_destroy(s->inner);
    um_mutex_lock(&d->mutex);
    d->stream_count--;
    um_mutex_unlock(&d->mutex);
    um_mem_free(s);
}

static um_status check_range(um_backend_device *d, um_ptr first, uint64_t size_bytes,
                             const char *entry)
{
    um_ptr base;
    uint64_t held;
    um_mutex_lock(&d->mutex);
    bool found = um_memmap_find(&d->map, first, &base, &held);
    um_mutex_unlock(&d->mutex);
    if (found && size_bytes >= 1 && size_bytes <= held - (first - base)) return UM_OK;
    return broken(d, "%s: %llu bytes at 0x%llx are not inside one live allocation", entry,
                  (ull)size_bytes, (ull)first);
}

static um_status validate_write(um_backend_stream *s, um_ptr dst, const void *src,
                                uint64_t size_bytes)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_range(s->device, dst, size_bytes, "write"));
    return told(s->device, "write", s->device->inner.table->write(s->inner, dst, src, size_bytes));
}

static um_status validate_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_range(s->device, src, size_bytes, "read"));
    return told(s->device, "read", s->device->inner.table->read(s->inner, dst, src, size_bytes));
}

static um_status validate_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_range(s->device, dst, size_bytes, "copy to"));
    UM_TRY(check_range(s->device, src, size_bytes, "copy from"));
    if ((dst > src ? dst - src : src - dst) < size_bytes) {
        return broken(s->device, "copy: the ranges overlap");
    }
    return told(s->device, "copy", s->device->inner.table->copy(s->inner, dst, src, size_bytes));
}

static um_status validate_copy_host(um_backend_stream *s, um_copy_kind kind, um_ptr dst, um_ptr src,
                                    uint64_t size_bytes)
{
    um_backend_device *d = s->device;
    UM_TRY(unbroken(d));
    if (kind < UM_COPY_DEVICE_TO_DEVICE || kind > UM_COPY_HOST_TO_HOST) {
        return broken(d, "copy_host: kind %d", kind);
    }
    bool to_host = kind == UM_COPY_DEVICE_TO_HOST || kind == UM_COPY_HOST_TO_HOST;
    bool from_host = kind == UM_COPY_HOST_TO_DEVICE || kind == UM_COPY_HOST_TO_HOST;
    if (!to_host) UM_TRY(check_range(d, dst, size_bytes, "copy_host to"));
    if (!from_host) UM_TRY(check_range(d, src, size_bytes, "copy_host from"));
    if (size_bytes == 0 || (dst > src ? dst - src : src - dst) < size_bytes) {
        return broken(d, "copy_host: %llu bytes, or the ranges overlap", (ull)size_bytes);
    }
    return um_table_copy_host(d->inner.table, s->inner, kind, dst, src, size_bytes);
}

static um_status validate_call(um_backend_stream *s, um_stream_fn fn, void *user)
{
    UM_TRY(unbroken(s->device));
    if (!fn) return broken(s->device, "call: no function");
    return um_table_call(s->device->inner.table, s->inner, fn, user);
}

static um_status validate_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes,
                               uint64_t pattern, uint32_t pattern_bytes)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_range(s->device, dst, size_bytes, "fill"));
    bool known =
        pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8;
    if (!known || size_bytes % pattern_bytes != 0) {
        return broken(s->device, "fill: %llu bytes with a pattern of %u", (ull)size_bytes,
                      pattern_bytes);
    }
    return told(s->device, "fill",
                s->device->inner.table->fill(s->inner, dst, size_bytes, pattern, pattern_bytes));
}

/* ---- tickets -------------------------------------------------------------------------------- */

static um_status validate_record(um_backend_stream *s, uint64_t *ticket)
{
    *ticket = 0;
    uint64_t given;
    UM_TRY(unbroken(s->device));
    UM_TRY(told(s->device, "record", s->device->inner.table->record(s->inner, &given)));
    um_mutex_lock(&s->device->mutex);
    uint64_t before = s->ticket;
    s->ticket = given;
    um_mutex_unlock(&s->device->mutex);
    if (given < 1 || given < before) {
        return broken(s->device, "record: ticket %llu after %llu", (ull)given, (ull)before);
    }
    *ticket = given;
    return UM_OK;
}

static um_status check_ticket(um_backend_stream *s, uint64_t ticket, const char *entry)
{
    um_mutex_lock(&s->device->mutex);
    uint64_t last = s->ticket;
    um_mutex_unlock(&s->device->mutex);
    if (ticket <= last || ticket == UINT64_MAX) return UM_OK;
    return broken(s->device, "%s: ticket %llu, the last given is %llu", entry, (ull)ticket,
                  (ull)last);
}

static um_status validate_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_ticket(other, ticket, "wait"));
    if (other->device != s->device) return broken(s->device, "wait: for another device's stream");
    return told(s->device, "wait", s->device->inner.table->wait(s->inner, other->inner, ticket));
}

static um_status validate_query(um_backend_stream *s, uint64_t ticket)
{
    UM_TRY(unbroken(s->device));
    UM_TRY(check_ticket(s, ticket, "query"));
    um_status status = s->device->inner.table->query(s->inner, ticket);
    return status == UM_NOT_READY ? status : told(s->device, "query", status);
}

static um_status validate_synchronize(um_backend_stream *s, uint64_t ticket)
{
    um_backend_device *d = s->device;
    UM_TRY(unbroken(d));
    UM_TRY(check_ticket(s, ticket, "synchronize"));
    UM_TRY(told(d, "synchronize", d->inner.table->synchronize(s->inner, ticket)));
    if (ticket != UINT64_MAX && d->inner.table->query(s->inner, ticket) == UM_NOT_READY) {
        return broken(d, "synchronize: ticket %llu is not ready after it", (ull)ticket);
    }
    return UM_OK;
}

static um_status validate_clear_error(um_backend_stream *s)
{
    UM_TRY(unbroken(s->device));
    return told(s->device, "clear_error", s->device->inner.table->clear_error(s->inner));
}

/* ---- ops ------------------------------------------------------------------------------------ */

static um_status check_view(um_backend_device *d, const um_op *op, const um_view *view)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high)) {
        return broken(d, "enqueue: %s: a view's extent overflows", um_op_name(op->id));
    }
    if (low == high) return UM_OK;
    return check_range(d, view->ptr + (uint64_t)low, (uint64_t)high - (uint64_t)low,
                       um_op_name(op->id));
}

static um_status check_enqueue(um_backend_device *d, const um_op *op)
{
    char why[256];
    if (um_op_check(op) != UM_OK) return broken(d, "enqueue: %s", um_last_error()->message);
    for (int32_t i = 0; i < op->in_count; i++) UM_TRY(check_view(d, op, &op->in[i]));
    for (int32_t i = 0; i < op->out_count; i++) UM_TRY(check_view(d, op, &op->out[i]));
    if (um_driver_supports(d->inner, op, why, sizeof why)) return UM_OK;
    return broken(d, "enqueue: %s, which the backend refuses: %s", um_op_name(op->id), why);
}

static um_status validate_enqueue(um_backend_stream *s, const um_op *op)
{
    um_backend_device *d = s->device;
    UM_TRY(unbroken(d));
    UM_TRY(check_enqueue(d, op));
    um_status status = told(d, "enqueue", d->inner.table->enqueue(s->inner, op));
    if (status != UM_UNSUPPORTED) return status;
    return broken(d, "enqueue: %s is supported, yet refused: %s", um_op_name(op->id),
                  um_last_error()->message);
}

static um_status validate_enqueue_batch(um_backend_stream *s, int64_t count,
                                        const um_op *const *ops)
{
    um_backend_device *d = s->device;
    UM_TRY(unbroken(d));
    if (count < 2) return broken(d, "enqueue_batch: a batch of %lld", (long long)count);
    for (int64_t i = 0; i < count; i++) UM_TRY(check_enqueue(d, ops[i]));
    um_status status = um_ops_check_independent(count, ops);
    if (status == UM_INVALID_ARGUMENT)
        return broken(d, "enqueue_batch: %s", um_last_error()->message);
    UM_TRY(status);
    status = um_table_enqueue_batch(d->inner.table, s->inner, count, ops);
    if (status != UM_UNSUPPORTED) return status;
    return broken(d, "enqueue_batch: each op is supported, yet all are refused: %s",
                  um_last_error()->message);
}

static const um_backend table = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "validate",
    .close = validate_close,
    .caps = validate_caps,
    .alloc = validate_alloc,
    .free = validate_free,
    .stream_create = validate_stream_create,
    .stream_create_priority = validate_stream_create_priority,
    .stream_destroy = validate_stream_destroy,
    .write = validate_write,
    .read = validate_read,
    .copy = validate_copy,
    .copy_host = validate_copy_host,
    .fill = validate_fill,
    .record = validate_record,
    .wait = validate_wait,
    .query = validate_query,
    .synchronize = validate_synchronize,
    .clear_error = validate_clear_error,
    .call = validate_call,
    .supports = validate_supports,
    .enqueue = validate_enqueue,
    .enqueue_batch = validate_enqueue_batch,
};

const um_layer um_layer_validate = {.name = "validate", .table = &table, .wrap = validate_wrap};
