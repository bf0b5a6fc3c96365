/* The record layer: keeps each call that reaches the backend, to be read back (umbel/layer.h).
 * Changes nothing that passes. */
#include "base/os.h"
#include "device/device.h"
#include "device/layer.h"

#include <umbel/layer.h>

struct um_backend_device {
    um_driver inner;
    um_mutex mutex;
    /* under mutex */
    int64_t count, kept, capacity; /* calls; the first `kept` of them are in calls */
    um_call *calls;
    int32_t last_stream;
};

struct um_backend_stream {
    um_backend_device *device;
    um_backend_stream *inner;
    int32_t number;
};

/* ---- the record ----------------------------------------------------------------------------- */

/* The layer must not get in the way: without memory the call is only counted. */
static void keep(um_backend_device *d, um_call call)
{
    um_error saved = *um_last_error();
    um_mutex_lock(&d->mutex);
    void *calls = d->calls;
    if (d->kept == d->count &&
        um_vec_reserve(&calls, &d->capacity, d->kept, sizeof call, "record") == UM_OK) {
        d->calls = calls;
        call.struct_size = sizeof call;
        d->calls[d->kept++] = call;
    }
    d->count++;
    um_mutex_unlock(&d->mutex);
    um_fail_again(&saved);
}

static um_status keep_bytes(um_backend_stream *s, um_call_kind kind, um_ptr ptr,
                            uint64_t size_bytes, um_status status)
{
    keep(s->device, (um_call){.kind = kind,
                              .status = status,
                              .stream = s->number,
                              .size_bytes = size_bytes,
                              .ptr = ptr});
    return status;
}

static uint64_t packed_bytes(const um_view *view)
{
    size_t bytes;
    return um_dtype_size(view->dtype, um_view_count(view), &bytes) == UM_OK ? bytes : 0;
}

static void keep_op(um_backend_device *d, um_call call, const um_op *op)
{
    call.op = op->id;
    for (int32_t i = 0; i < op->in_count; i++) call.size_bytes += packed_bytes(&op->in[i]);
    for (int32_t i = 0; i < op->out_count; i++) {
        call.size_bytes += packed_bytes(&op->out[i]);
        call.elements += um_view_count(&op->out[i]);
    }
    if (op->out_count > 0) {
        call.dtype = op->out[0].dtype;
        call.ptr = op->out[0].ptr;
    }
    keep(d, call);
}

/* ---- reading it ----------------------------------------------------------------------------- */

/* The outermost record layer, or NULL. */
static um_backend_device *find_record(um_device *device)
{
    for (int32_t i = device ? device->layer_count - 1 : -1; i >= 0; i--) {
        if (device->layers[i].table == um_layer_record.table) return device->layers[i].device;
    }
    return NULL;
}

int64_t um_call_count(um_device *device)
{
    um_backend_device *d = find_record(device);
    if (!d) return 0;
    um_mutex_lock(&d->mutex);
    int64_t count = d->count;
    um_mutex_unlock(&d->mutex);
    return count;
}

um_status um_call_get(um_device *device, int64_t index, um_call *out)
{
    if (!device || !out || out->struct_size < sizeof out->struct_size) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_call_get: %s",
                       !device ? "device is NULL"
                       : !out  ? "out is NULL"
                               : "out->struct_size is not set");
    }
    um_backend_device *d = find_record(device);
    if (!d) {
        return UM_FAIL(UM_NOT_FOUND, "um_call_get: %s has no record layer; open it with +record",
                       device->name);
    }
    uint32_t size = out->struct_size;
    um_mutex_lock(&d->mutex);
    int64_t kept = d->kept;
    bool found = index >= 0 && index < kept;
    if (found) memcpy(out, &d->calls[index], UM_MIN((size_t)size, sizeof *out));
    um_mutex_unlock(&d->mutex);
    out->struct_size = size;
    if (found) return UM_OK;
    return UM_FAIL(UM_OUT_OF_RANGE, "um_call_get: call %lld of %lld", (long long)index,
                   (long long)kept);
}

void um_call_clear(um_device *device)
{
    um_backend_device *d = find_record(device);
    if (!d) return;
    um_mutex_lock(&d->mutex);
    d->count = d->kept = 0;
    um_mutex_unlock(&d->mutex);
}

const char *um_call_kind_name(um_call_kind kind)
{
    static const char *const names[] = {
        "none",           "caps",    "alloc",         "free",        "stream_create",
        "stream_destroy", "write",   "read",          "copy",        "fill",
        "record",         "wait",    "query",         "synchronize", "clear_error",
        "supports",       "enqueue", "enqueue_batch", "copy_host",   "call",
    };
    return kind > 0 && kind < (int32_t)UM_COUNT_OF(names) ? names[kind] : names[0];
}

/* ---- device --------------------------------------------------------------------------------- */

static um_status record_wrap(um_driver inner, const char *name, const char *params,
                             um_backend_device **out)
{
    (void)name, (void)params;
    *out = NULL;
    um_backend_device *d = um_mem_zalloc(sizeof *d);
    if (!d) return UM_FAIL(UM_OUT_OF_MEMORY, "record: no memory");
    d->inner = inner;
    if (um_mutex_init(&d->mutex) != UM_OK) {
        um_mem_free(d);
        return um_status_last();
    }
    *out = d;
    return UM_OK;
}

static void record_close(um_backend_device *d)
{
    d->inner.table->close(d->inner.device);
    um_mutex_destroy(&d->mutex);
    um_mem_free(d->calls);
    um_mem_free(d);
}

static um_status record_caps(um_backend_device *d, um_caps *out)
{
    um_status status = d->inner.table->caps(d->inner.device, out);
    keep(d, (um_call){.kind = UM_CALL_CAPS, .status = status});
    return status;
}

static um_status record_alloc(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    um_status status = d->inner.table->alloc(d->inner.device, size_bytes, out);
    keep(d,
         (um_call){.kind = UM_CALL_ALLOC, .status = status, .size_bytes = size_bytes, .ptr = *out});
    return status;
}

static void record_free(um_backend_device *d, um_ptr ptr)
{
    d->inner.table->free(d->inner.device, ptr);
    keep(d, (um_call){.kind = UM_CALL_FREE, .ptr = ptr});
}

static bool record_supports(um_backend_device *d, const um_op *op, char *why, size_t why_size)
{
    bool yes = um_driver_supports(d->inner, op, why, why_size);
    keep_op(d, (um_call){.kind = UM_CALL_SUPPORTS, .status = yes ? UM_OK : UM_UNSUPPORTED}, op);
    return yes;
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status record_stream_create_priority(um_backend_device *d, int32_t priority,
                                               um_backend_stream **out)
{
    *out = NULL;
    um_backend_stream *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "record: no memory for a stream");
    s->device = d;
    um_status status = um_driver_stream_create(d->inner, priority, &s->inner);
    if (status == UM_OK) {
        um_mutex_lock(&d->mutex);
        s->number = ++d->last_stream;
        um_mutex_unlock(&d->mutex);
    }
    (void)keep_bytes(s, UM_CALL_STREAM_CREATE, 0, 0, status);
    if (status == UM_OK) {
        *out = s;
    } else {
        um_mem_free(s);
    }
    return status;
}

static um_status record_stream_create(um_backend_device *d, um_backend_stream **out)
{
    return record_stream_create_priority(d, 0, out);
}

static void record_stream_destroy(um_backend_stream *s)
{
    s->device->inner.table->stream_destroy(s->inner);
    (void)keep_bytes(s, UM_CALL_STREAM_DESTROY, 0, 0, UM_OK);
    um_mem_free(s);
}

static um_status record_write(um_backend_stream *s, um_ptr dst, const void *src,
                              uint64_t size_bytes)
{
    um_status status = s->device->inner.table->write(s->inner, dst, src, size_bytes);
    return keep_bytes(s, UM_CALL_WRITE, dst, size_bytes, status);
}

static um_status record_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    um_status status = s->device->inner.table->read(s->inner, dst, src, size_bytes);
    return keep_bytes(s, UM_CALL_READ, src, size_bytes, status);
}

static um_status record_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    um_status status = s->device->inner.table->copy(s->inner, dst, src, size_bytes);
    return keep_bytes(s, UM_CALL_COPY, dst, size_bytes, status);
}

static um_status record_copy_host(um_backend_stream *s, um_copy_kind kind, um_ptr dst, um_ptr src,
                                  uint64_t size_bytes)
{
    um_status status =
        um_table_copy_host(s->device->inner.table, s->inner, kind, dst, src, size_bytes);
    return keep_bytes(s, UM_CALL_COPY_HOST, dst, size_bytes, status);
}

static um_status record_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes,
                             uint64_t pattern, uint32_t pattern_bytes)
{
    um_status status =
        s->device->inner.table->fill(s->inner, dst, size_bytes, pattern, pattern_bytes);
    return keep_bytes(s, UM_CALL_FILL, dst, size_bytes, status);
}

static um_status record_record(um_backend_stream *s, uint64_t *ticket)
{
    return keep_bytes(s, UM_CALL_RECORD, 0, 0, s->device->inner.table->record(s->inner, ticket));
}

static um_status record_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    um_status status = s->device->inner.table->wait(s->inner, other->inner, ticket);
    return keep_bytes(s, UM_CALL_WAIT, 0, 0, status);
}

static um_status record_query(um_backend_stream *s, uint64_t ticket)
{
    return keep_bytes(s, UM_CALL_QUERY, 0, 0, s->device->inner.table->query(s->inner, ticket));
}

static um_status record_synchronize(um_backend_stream *s, uint64_t ticket)
{
    um_status status = s->device->inner.table->synchronize(s->inner, ticket);
    return keep_bytes(s, UM_CALL_SYNCHRONIZE, 0, 0, status);
}

static um_status record_clear_error(um_backend_stream *s)
{
    return keep_bytes(s, UM_CALL_CLEAR_ERROR, 0, 0, s->device->inner.table->clear_error(s->inner));
}

static um_status record_call(um_backend_stream *s, um_stream_fn fn, void *user)
{
    um_status status = um_table_call(s->device->inner.table, s->inner, fn, user);
    return keep_bytes(s, UM_CALL_CALL, 0, 0, status);
}

static um_status record_enqueue(um_backend_stream *s, const um_op *op)
{
    um_status status = s->device->inner.table->enqueue(s->inner, op);
    keep_op(s->device, (um_call){.kind = UM_CALL_ENQUEUE, .status = status, .stream = s->number},
            op);
    return status;
}

static um_status record_enqueue_batch(um_backend_stream *s, int64_t count, const um_op *const *ops)
{
    um_status status = um_table_enqueue_batch(s->device->inner.table, s->inner, count, ops);
    for (int64_t i = 0; i < count; i++) {
        keep_op(s->device,
                (um_call){.kind = UM_CALL_ENQUEUE_BATCH,
                          .status = status,
                          .stream = s->number,
                          .batch_index = i,
                          .batch_count = count},
                ops[i]);
    }
    return status;
}

static const um_backend table = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "record",
    .close = record_close,
    .caps = record_caps,
    .alloc = record_alloc,
    .free = record_free,
    .stream_create = record_stream_create,
    .stream_create_priority = record_stream_create_priority,
    .stream_destroy = record_stream_destroy,
    .write = record_write,
    .read = record_read,
    .copy = record_copy,
    .copy_host = record_copy_host,
    .fill = record_fill,
    .record = record_record,
    .wait = record_wait,
    .query = record_query,
    .synchronize = record_synchronize,
    .clear_error = record_clear_error,
    .call = record_call,
    .supports = record_supports,
    .enqueue = record_enqueue,
    .enqueue_batch = record_enqueue_batch,
};

const um_layer um_layer_record = {.name = "record", .table = &table, .wrap = record_wrap};
