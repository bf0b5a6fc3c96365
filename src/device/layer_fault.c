/* The fault layer: fails on purpose, by what its parameters say (umbel/layer.h), so that programs
 * and the core can be tested for what they do then. A call that fails does nothing; one that waits
 * waits all the same, since what the core frees after it must be idle. */
#include "base/os.h"
#include "device/layer.h"
#include "device/memmap.h"

#include <stdatomic.h>
#include <stdio.h>

typedef unsigned long long ull; /* for messages */

struct um_backend_device {
    um_driver inner;
    const char *name;
    uint64_t fail_call, lose_call; /* from 1; 0: none */
    uint64_t memory_max_bytes;     /* UINT64_MAX: any */
    _Atomic uint64_t calls;
    um_mutex mutex;
    /* under mutex */
    uint64_t memory_bytes;
    um_memmap map; /* kept only where memory_max_bytes asks for it */
};

struct um_backend_stream {
    um_backend_device *device;
    um_backend_stream *inner;
};

/* Counts a call, and fails it if it is its turn. */
static um_status strike(um_backend_device *d, const char *entry)
{
    uint64_t call = atomic_fetch_add_explicit(&d->calls, 1, memory_order_relaxed) + 1;
    if (d->lose_call > 0 && call >= d->lose_call) {
        return um_backend_fail(UM_DEVICE_LOST, "fault", NULL, 0,
                               "%s: %s: the device is lost, since call %llu", d->name, entry,
                               (ull)d->lose_call);
    }
    if (call != d->fail_call) return UM_OK;
    return um_backend_fail(UM_DEVICE_ERROR, "fault", NULL, 0, "%s: %s: call %llu fails on purpose",
                           d->name, entry, (ull)call);
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* "call:17" into *out. */
static bool read_number(const char *text, size_t length, const char *key, uint64_t *out)
{
    size_t key_length = strlen(key);
    if (length <= key_length || strncmp(text, key, key_length) != 0) return false;
    uint64_t value = 0;
    for (size_t i = key_length; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (UINT64_MAX - 9) / 10) return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

static um_status read_params(um_backend_device *d, const char *params)
{
    for (;;) {
        size_t length = strcspn(params, ",");
        bool known = (read_number(params, length, "call:", &d->fail_call) && d->fail_call > 0) ||
                     (read_number(params, length, "lost:", &d->lose_call) && d->lose_call > 0) ||
                     read_number(params, length, "memory:", &d->memory_max_bytes);
        if (!known) {
            return UM_FAIL(UM_NOT_FOUND, "um_open: fault=%.*s, wanted %s", (int)length, params,
                           um_layer_fault.params);
        }
        if (!params[length]) return UM_OK;
        params += length + 1;
    }
}

/* ---- device --------------------------------------------------------------------------------- */

static um_status fault_wrap(um_driver inner, const char *name, const char *params,
                            um_backend_device **out)
{
    *out = NULL;
    um_backend_device *d = um_mem_zalloc(sizeof *d);
    if (!d) return UM_FAIL(UM_OUT_OF_MEMORY, "fault: no memory");
    d->inner = inner;
    d->name = name;
    d->memory_max_bytes = UINT64_MAX;
    um_status status = read_params(d, params);
    if (status == UM_OK) status = um_mutex_init(&d->mutex);
    if (status != UM_OK) {
        um_mem_free(d);
        return status;
    }
    *out = d;
    return UM_OK;
}

static void fault_close(um_backend_device *d)
{
    d->inner.table->close(d->inner.device);
    um_mutex_destroy(&d->mutex);
    um_mem_free(d);
}

static um_status fault_caps(um_backend_device *d, um_caps *out)
{
    UM_TRY(strike(d, "caps"));
    return d->inner.table->caps(d->inner.device, out);
}

/* Whether so much more is allowed; it is counted then. */
static bool take_memory(um_backend_device *d, uint64_t size_bytes)
{
    um_mutex_lock(&d->mutex);
    bool fits = size_bytes <= d->memory_max_bytes - d->memory_bytes;
    if (fits) d->memory_bytes += size_bytes;
    um_mutex_unlock(&d->mutex);
    return fits;
}

static um_status alloc_counted(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    if (!take_memory(d, size_bytes)) {
        return um_backend_fail(UM_OUT_OF_MEMORY, "fault", NULL, 0,
                               "%s: %llu bytes more than the %llu allowed", d->name,
                               (ull)size_bytes, (ull)d->memory_max_bytes);
    }
    um_ptr ptr = 0;
    um_status status = d->inner.table->alloc(d->inner.device, size_bytes, &ptr);
    um_mutex_lock(&d->mutex);
    if (status == UM_OK) status = um_memmap_insert(&d->map, ptr, size_bytes);
    if (status != UM_OK) d->memory_bytes -= size_bytes;
    um_mutex_unlock(&d->mutex);
    if (status == UM_OK) {
        *out = ptr;
    } else if (ptr != 0) {
        d->inner.table->free(d->inner.device, ptr);
    }
    return status;
}

static um_status fault_alloc(um_backend_device *d, uint64_t size_bytes, um_ptr *out)
{
    *out = 0;
    UM_TRY(strike(d, "alloc"));
    if (d->memory_max_bytes != UINT64_MAX) return alloc_counted(d, size_bytes, out);
    return d->inner.table->alloc(d->inner.device, size_bytes, out);
}

static void fault_free(um_backend_device *d, um_ptr ptr)
{
    um_ptr base;
    uint64_t size_bytes;
    um_mutex_lock(&d->mutex);
    if (um_memmap_find(&d->map, ptr, &base, &size_bytes)) {
        um_memmap_remove(&d->map, base);
        d->memory_bytes -= size_bytes;
    }
    um_mutex_unlock(&d->mutex);
    d->inner.table->free(d->inner.device, ptr);
}

static bool fault_supports(um_backend_device *d, const um_op *op, char *why, size_t why_size)
{
    return um_driver_supports(d->inner, op, why, why_size);
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status fault_stream_create_priority(um_backend_device *d, int32_t priority,
                                              um_backend_stream **out)
{
    *out = NULL;
    UM_TRY(strike(d, "stream_create"));
    um_backend_stream *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "fault: no memory for a stream");
    um_status status = um_driver_stream_create(d->inner, priority, &s->inner);
    if (status != UM_OK) {
        um_mem_free(s);
        return status;
    }
    s->device = d;
    *out = s;
    return UM_OK;
}

static um_status fault_stream_create(um_backend_device *d, um_backend_stream **out)
{
    return fault_stream_create_priority(d, 0, out);
}

static void fault_stream_destroy(um_backend_stream *s)
{
    s->device->inner.table->stream_destroy(s->inner);
    um_mem_free(s);
}

static um_status fault_write(um_backend_stream *s, um_ptr dst, const void *src, uint64_t size_bytes)
{
    UM_TRY(strike(s->device, "write"));
    return s->device->inner.table->write(s->inner, dst, src, size_bytes);
}

static um_status fault_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(strike(s->device, "read"));
    return s->device->inner.table->read(s->inner, dst, src, size_bytes);
}

static um_status fault_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(strike(s->device, "copy"));
    return s->device->inner.table->copy(s->inner, dst, src, size_bytes);
}

static um_status fault_copy_host(um_backend_stream *s, um_copy_kind kind, um_ptr dst, um_ptr src,
                                 uint64_t size_bytes)
{
    UM_TRY(strike(s->device, "copy_host"));
    return um_table_copy_host(s->device->inner.table, s->inner, kind, dst, src, size_bytes);
}

static um_status fault_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                            uint32_t pattern_bytes)
{
    UM_TRY(strike(s->device, "fill"));
    return s->device->inner.table->fill(s->inner, dst, size_bytes, pattern, pattern_bytes);
}

static um_status fault_record(um_backend_stream *s, uint64_t *ticket)
{
    *ticket = 0;
    UM_TRY(strike(s->device, "record"));
    return s->device->inner.table->record(s->inner, ticket);
}

static um_status fault_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    UM_TRY(strike(s->device, "wait"));
    return s->device->inner.table->wait(s->inner, other->inner, ticket);
}

static um_status fault_query(um_backend_stream *s, uint64_t ticket)
{
    UM_TRY(strike(s->device, "query"));
    return s->device->inner.table->query(s->inner, ticket);
}

static um_status fault_synchronize(um_backend_stream *s, uint64_t ticket)
{
    um_status status = s->device->inner.table->synchronize(s->inner, ticket);
    UM_TRY(strike(s->device, "synchronize"));
    return status;
}

static um_status fault_clear_error(um_backend_stream *s)
{
    UM_TRY(strike(s->device, "clear_error"));
    return s->device->inner.table->clear_error(s->inner);
}

static um_status fault_call(um_backend_stream *s, um_stream_fn fn, void *user)
{
    UM_TRY(strike(s->device, "call"));
    return um_table_call(s->device->inner.table, s->inner, fn, user);
}

static um_status fault_enqueue(um_backend_stream *s, const um_op *op)
{
    UM_TRY(strike(s->device, "enqueue"));
    return s->device->inner.table->enqueue(s->inner, op);
}

static um_status fault_enqueue_batch(um_backend_stream *s, int64_t count, const um_op *const *ops)
{
    UM_TRY(strike(s->device, "enqueue_batch"));
    return um_table_enqueue_batch(s->device->inner.table, s->inner, count, ops);
}

static const um_backend table = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "fault",
    .close = fault_close,
    .caps = fault_caps,
    .alloc = fault_alloc,
    .free = fault_free,
    .stream_create = fault_stream_create,
    .stream_create_priority = fault_stream_create_priority,
    .stream_destroy = fault_stream_destroy,
    .write = fault_write,
    .read = fault_read,
    .copy = fault_copy,
    .copy_host = fault_copy_host,
    .fill = fault_fill,
    .record = fault_record,
    .wait = fault_wait,
    .query = fault_query,
    .synchronize = fault_synchronize,
    .clear_error = fault_clear_error,
    .call = fault_call,
    .supports = fault_supports,
    .enqueue = fault_enqueue,
    .enqueue_batch = fault_enqueue_batch,
};

const um_layer um_layer_fault = {.name = "fault",
                                 .table = &table,
                                 .wrap = fault_wrap,
                                 .params = "call:N, lost:N, memory:BYTES, or several, with commas"};
