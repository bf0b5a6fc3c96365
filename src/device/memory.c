/* Device memory: allocating, freeing (at once or behind a stream's work), finding the allocation an
 * address is in, and moving bytes. */
#include "device/device.h"

#include <umbel/backend.h>

typedef unsigned long long ull; /* for messages */

/* What may wait to be freed before anybody looks whether it can be. */
#define PENDING_BYTES_MAX ((uint64_t)64 << 20)
#define PENDING_COUNT_MAX 256

#define ALLOC_ALIGN 64

#define PEER_BYTES ((uint64_t)64 << 20) /* on their way through the host, at once */

/* ---- frees that wait for their stream ------------------------------------------------------- */

/* Asking for an event makes its backend hurry, so it is not done for a few small blocks. */
static bool pending_is_much(um_device *device)
{
    um_mutex_lock(&device->mutex);
    bool much = device->pending_bytes >= PENDING_BYTES_MAX ||
                device->pending_count - device->pending_first >= PENDING_COUNT_MAX;
    um_mutex_unlock(&device->mutex);
    return much;
}

static bool oldest_pending(um_device *device, um_pending_free *out)
{
    um_mutex_lock(&device->mutex);
    bool some = device->pending_first < device->pending_count;
    if (some) *out = device->pending[device->pending_first];
    um_mutex_unlock(&device->mutex);
    return some;
}

/* Takes the oldest out, if it is still that one. */
static bool take_pending(um_device *device, const um_pending_free *item)
{
    um_mutex_lock(&device->mutex);
    const um_pending_free *oldest = &device->pending[device->pending_first];
    bool same = device->pending_first < device->pending_count && oldest->ptr == item->ptr &&
                oldest->event.stream_id == item->event.stream_id &&
                oldest->event.ticket == item->event.ticket;
    if (same) {
        device->pending_bytes -= item->size_bytes;
        device->pending_first++;
    }
    um_mutex_unlock(&device->mutex);
    return same;
}

um_status um_memory_reclaim(um_device *device, bool wait)
{
    um_pending_free item;
    if (um_in_callback()) return UM_OK; /* a stream that failed is waited for */
    while (oldest_pending(device, &item)) {
        bool done;
        UM_TRY(um_event_settle(item.event, wait, &done));
        if (!done) break;
        if (take_pending(device, &item)) {
            device->driver.table->free(device->driver.device, item.ptr);
        }
    }
    return UM_OK;
}

static bool add_pending(um_device *device, um_pending_free item)
{
    um_mutex_lock(&device->mutex);
    if (device->pending_count == device->pending_capacity && device->pending_first > 0) {
        device->pending_count -= device->pending_first;
        memmove(device->pending, device->pending + device->pending_first,
                (size_t)device->pending_count * sizeof *device->pending);
        device->pending_first = 0;
    }
    void *items = device->pending;
    bool room = um_vec_reserve(&items, &device->pending_capacity, device->pending_count,
                               sizeof *device->pending, "um_free_async") == UM_OK;
    device->pending = items;
    if (room) {
        device->pending[device->pending_count++] = item;
        device->pending_bytes += item.size_bytes;
    }
    um_mutex_unlock(&device->mutex);
    return room;
}

void um_memory_release(um_device *device)
{
    um_ptr ptr;
    void *block;
    um_status ignored = um_memory_reclaim(device, true); /* nobody is asked: no stream is left */
    (void)ignored;
    while (um_memmap_take_any(&device->map, &ptr, &block)) {
        device->driver.table->free(device->driver.device, ptr);
        um_pool_forget(block);
    }
    um_mem_free(device->pending);
}

/* ---- allocating and freeing ----------------------------------------------------------------- */

static bool something_is_idle(um_device *device)
{
    um_mutex_lock(&device->mutex);
    bool some = device->pending_first < device->pending_count || device->pool.idle_bytes > 0;
    um_mutex_unlock(&device->mutex);
    return some;
}

/* When memory is short, what waits to be freed and what the pool keeps may be enough. */
static um_status backend_alloc(um_device *device, uint64_t size_bytes, um_ptr *out)
{
    um_driver driver = device->driver;
    um_error saved = *um_last_error();
    um_status status = driver.table->alloc(driver.device, size_bytes, out);
    if (status != UM_OUT_OF_MEMORY || um_in_callback() || !something_is_idle(device)) return status;
    UM_TRY(um_memory_reclaim(device, true));
    UM_TRY(um_pool_shrink(device, 0));
    um_fail_again(&saved);
    return driver.table->alloc(driver.device, size_bytes, out);
}

um_status um_alloc(um_device *device, uint64_t size_bytes, um_ptr *out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_alloc: out is NULL");
    *out = 0;
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_alloc: device is NULL");
    um_ptr ptr;
    if (pending_is_much(device)) UM_TRY(um_memory_reclaim(device, false));
    UM_TRY(backend_alloc(device, UM_MAX(size_bytes, 1), &ptr));
    if (ptr == 0 || ptr % ALLOC_ALIGN != 0 || ptr + size_bytes < ptr)
        return UM_FAIL(UM_INTERNAL,
                       "um_alloc: %s gives %llu bytes at 0x%llx, wanted a multiple of %d",
                       device->name, (ull)size_bytes, (ull)ptr, ALLOC_ALIGN);
    um_mutex_lock(&device->mutex);
    um_status status = um_memmap_insert(&device->map, ptr, size_bytes);
    um_mutex_unlock(&device->mutex);
    if (status != UM_OK) { /* a block on top of a live one is not this caller's to free */
        if (status == UM_OUT_OF_MEMORY) device->driver.table->free(device->driver.device, ptr);
        return status;
    }
    *out = ptr;
    return UM_OK;
}

/* Takes ptr out of the map: from here on it is dead for everybody. *block: what it is of the pool.
 */
static um_status unmap(um_device *device, um_ptr ptr, uint64_t *size_bytes, um_pool_block **block,
                       const char *who)
{
    um_ptr base;
    um_mutex_lock(&device->mutex);
    bool found = um_memmap_find(&device->map, ptr, &base, size_bytes);
    *block = um_memmap_owner(&device->map, ptr);
    if (*block) {
        um_memmap_set(&device->map, ptr, 0, *block, false);
    } else if (found && base == ptr) {
        um_memmap_remove(&device->map, ptr);
    }
    um_mutex_unlock(&device->mutex);
    if (!found) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "%s: 0x%llx is in no live allocation of %s", who,
                       (ull)ptr, device->name);
    }
    if (base != ptr) {
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "%s: 0x%llx is inside the %llu bytes at 0x%llx, not their start", who,
                       (ull)ptr, (ull)*size_bytes, (ull)base);
    }
    return UM_OK;
}

um_status um_free(um_device *device, um_ptr ptr)
{
    if (ptr == 0) return UM_OK;
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_free: device is NULL");
    UM_TRY(um_may_wait("um_free"));
    uint64_t size_bytes;
    um_pool_block *block;
    UM_TRY(unmap(device, ptr, &size_bytes, &block, "um_free"));
    um_status status = um_streams_synchronize(device, true);
    if (block) {
        um_pool_take_back(device, block, (um_event){0});
        if (status == UM_OK) status = um_pool_tidy(device, false);
    } else {
        device->driver.table->free(device->driver.device, ptr);
    }
    return status == UM_OK ? um_memory_reclaim(device, false) : status;
}

static um_status free_after(um_stream *stream, um_ptr ptr, um_event event)
{
    um_device *device = stream->device;
    um_pending_free item = {.ptr = ptr, .event = event};
    um_pool_block *block;
    UM_TRY(unmap(device, ptr, &item.size_bytes, &block, "um_free_async"));
    if (block) {
        um_pool_take_back(device, block, event);
        return um_pool_tidy(device, false);
    }
    um_error saved = *um_last_error();
    if (add_pending(device, item))
        return pending_is_much(device) ? um_memory_reclaim(device, false) : UM_OK;
    /* No memory to keep it. */
    um_fail_again(&saved);
    bool done;
    um_status status = um_event_settle(event, true, &done);
    device->driver.table->free(device->driver.device, ptr);
    return status;
}

um_status um_free_behind(um_stream *stream, um_ptr ptr)
{
    return free_after(stream, ptr, (um_event){stream->id, UINT64_MAX});
}

um_status um_free_async(um_stream *stream, um_ptr ptr)
{
    if (ptr == 0) return UM_OK;
    if (!stream) return UM_FAIL(UM_INVALID_ARGUMENT, "um_free_async: stream is NULL");
    UM_TRY(um_not_capturing(stream, "um_free_async"));
    um_event event, now = {stream->id, UINT64_MAX};
    um_error saved = *um_last_error();
    if (um_record(stream, &event) == UM_OK) return free_after(stream, ptr, event);
    um_error error = *um_last_error();
    um_fail_again(&saved);
    UM_TRY(um_free_behind(stream, ptr));
    um_status status = um_query(now);
    if (status == UM_OK || status == UM_NOT_READY) return um_fail_again(&error);
    um_fail_again(&saved); /* the stream has failed, and tells it */
    return UM_OK;
}

um_status um_ptr_resolve(um_device *device, um_ptr ptr, um_ptr *base, uint64_t *size_bytes)
{
    um_ptr found_base = 0;
    uint64_t found_size = 0;
    bool found = false;
    if (device) {
        um_mutex_lock(&device->mutex);
        found = um_memmap_find(&device->map, ptr, &found_base, &found_size);
        um_mutex_unlock(&device->mutex);
    }
    if (base) *base = found_base;
    if (size_bytes) *size_bytes = found_size;
    if (found) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "um_ptr_resolve: 0x%llx is in no live allocation of %s",
                   (ull)ptr, device ? device->name : "a NULL device");
}

/* ---- moving bytes --------------------------------------------------------------------------- */

bool um_memory_holds(um_device *device, um_ptr first, uint64_t size_bytes)
{
    um_ptr base;
    uint64_t held;
    return um_memmap_find(&device->map, first, &base, &held) &&
           size_bytes <= held - UM_MIN(held, first - base);
}

static um_status check_memory(um_device *device, um_ptr ptr, uint64_t size_bytes, const char *who)
{
    um_mutex_lock(&device->mutex);
    bool ok = size_bytes == 0 || um_memory_holds(device, ptr, size_bytes);
    um_mutex_unlock(&device->mutex);
    if (ok) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "%s: %llu bytes at 0x%llx are not inside one live allocation of %s", who,
                   (ull)size_bytes, (ull)ptr, device->name);
}

static um_status check_apart(um_ptr dst, um_ptr src, uint64_t size_bytes, const char *who)
{
    if ((dst > src ? dst - src : src - dst) >= size_bytes) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %llu bytes at 0x%llx and at 0x%llx overlap", who,
                   (ull)size_bytes, (ull)dst, (ull)src);
}

static um_status check_range(um_stream *stream, um_ptr ptr, uint64_t size_bytes, const char *who)
{
    if (!stream) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: stream is NULL", who);
    return check_memory(stream->device, ptr, size_bytes, who);
}

um_status um_write(um_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes)
{
    UM_TRY(check_range(stream, dst, size_bytes, "um_write"));
    if (size_bytes == 0) return UM_OK;
    if (!src) return UM_FAIL(UM_INVALID_ARGUMENT, "um_write: src is NULL");
    if (stream->capture) return um_capture_write(stream, dst, src, size_bytes);
    return stream->device->driver.table->write(stream->handle, dst, src, size_bytes);
}

um_status um_read(um_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(check_range(stream, src, size_bytes, "um_read"));
    UM_TRY(um_may_wait("um_read"));
    UM_TRY(um_not_capturing(stream, "um_read"));
    if (size_bytes == 0) return um_synchronize(stream);
    if (!dst) return UM_FAIL(UM_INVALID_ARGUMENT, "um_read: dst is NULL");
    UM_TRY(stream->device->driver.table->read(stream->handle, dst, src, size_bytes));
    return um_memory_reclaim(stream->device, false);
}

um_status um_copy(um_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(check_range(stream, dst, size_bytes, "um_copy: to"));
    UM_TRY(check_range(stream, src, size_bytes, "um_copy: from"));
    if (size_bytes == 0) return UM_OK;
    UM_TRY(check_apart(dst, src, size_bytes, "um_copy"));
    if (stream->capture) {
        return um_capture_copy(stream, UM_COPY_DEVICE_TO_DEVICE, dst, src, size_bytes);
    }
    return stream->device->driver.table->copy(stream->handle, dst, src, size_bytes);
}

/* ---- asynchronous copies --------------------------------------------------------------------- */

/* One side of a copy. */
static um_status check_side(um_device *device, bool is_host, um_ptr ptr, uint64_t size_bytes,
                            const char *who)
{
    if (!is_host) return check_memory(device, ptr, size_bytes, who);
    if (ptr != 0 && ptr <= UINTPTR_MAX - size_bytes) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %llu bytes of host memory at 0x%llx", who,
                   (ull)size_bytes, (ull)ptr);
}

um_status um_copy_async(um_stream *stream, um_copy_kind kind, um_ptr dst, um_ptr src,
                        uint64_t size_bytes)
{
    if (kind == UM_COPY_DEVICE_TO_DEVICE) return um_copy(stream, dst, src, size_bytes);
    if (!stream) return UM_FAIL(UM_INVALID_ARGUMENT, "um_copy_async: stream is NULL");
    if (kind < UM_COPY_DEVICE_TO_DEVICE || kind > UM_COPY_HOST_TO_HOST) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_copy_async: there is no kind %d", kind);
    }
    if (size_bytes == 0) return UM_OK;
    um_device *device = stream->device;
    const um_backend *table = device->driver.table;
    UM_TRY(
        check_side(device, kind != UM_COPY_HOST_TO_DEVICE, dst, size_bytes, "um_copy_async: to"));
    UM_TRY(
        check_side(device, kind != UM_COPY_DEVICE_TO_HOST, src, size_bytes, "um_copy_async: from"));
    UM_TRY(check_apart(dst, src, size_bytes, "um_copy_async"));
    if (stream->capture) return um_capture_copy(stream, kind, dst, src, size_bytes);
    if (!table->copy_host) UM_TRY(um_may_wait("um_copy_async"));
    return um_table_copy_host(table, stream->handle, kind, dst, src, size_bytes);
}

/* Through the host, a piece at a time: the stream's own side in its order, the other side by a
 * stream of its own. */
static um_status copy_by_host(um_stream *stream, um_device *other, bool to_other, um_ptr dst,
                              um_ptr src, uint64_t size_bytes)
{
    um_stream *there = NULL;
    uint64_t most = UM_MIN(size_bytes, (uint64_t)PEER_BYTES);
    UM_TRY(um_may_wait("um_copy_peer"));
    void *host = um_mem_alloc((size_t)most);
    if (!host)
        return UM_FAIL(UM_OUT_OF_MEMORY, "um_copy_peer: no memory for %llu bytes on their way",
                       (ull)most);
    um_status status = um_stream_create(other, &there);
    if (status == UM_OK && !to_other) status = um_synchronize(stream); /* what it writes there */
    for (uint64_t at = 0; at < size_bytes && status == UM_OK; at += most) {
        uint64_t piece = UM_MIN(size_bytes - at, most);
        status = um_read(to_other ? stream : there, host, src + at, piece);
        if (status == UM_OK) status = um_write(to_other ? there : stream, dst + at, host, piece);
    }
    if (status == UM_OK) status = um_synchronize(there);
    um_stream_release(there);
    um_mem_free(host);
    return status;
}

um_status um_copy_peer(um_stream *stream, um_device *dst_device, um_ptr dst, um_device *src_device,
                       um_ptr src, uint64_t size_bytes)
{
    if (!stream || !dst_device || !src_device) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_copy_peer: %s is NULL",
                       !stream       ? "stream"
                       : !dst_device ? "dst_device"
                                     : "src_device");
    }
    um_device *own = stream->device, *other = own == dst_device ? src_device : dst_device;
    if (own != dst_device && own != src_device) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_copy_peer: the stream is of %s, not of %s or %s",
                       own->name, dst_device->name, src_device->name);
    }
    UM_TRY(um_not_capturing(stream, "um_copy_peer"));
    if (dst_device == src_device) return um_copy(stream, dst, src, size_bytes);
    if (size_bytes == 0) return UM_OK;
    UM_TRY(check_memory(dst_device, dst, size_bytes, "um_copy_peer: to"));
    UM_TRY(check_memory(src_device, src, size_bytes, "um_copy_peer: from"));
    bool unified = own->info.features & other->info.features & UM_FEATURE_UNIFIED_MEMORY;
    if (!unified) return copy_by_host(stream, other, own == src_device, dst, src, size_bytes);
    um_copy_kind kind = own == dst_device ? UM_COPY_HOST_TO_DEVICE : UM_COPY_DEVICE_TO_HOST;
    return um_table_copy_host(own->driver.table, stream->handle, kind, dst, src, size_bytes);
}

/* ---- filling -------------------------------------------------------------------------------- */

/* The pattern's bytes as a number, first byte lowest. */
static uint64_t pattern_value(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

um_status um_fill(um_stream *stream, um_ptr dst, uint64_t size_bytes, const void *pattern,
                  uint32_t pattern_bytes)
{
    if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_fill: a pattern of %u bytes, wanted 1, 2, 4 or 8",
                       pattern_bytes);
    }
    if (size_bytes % pattern_bytes != 0) {
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_fill: %llu bytes are no multiple of the pattern's %u", (ull)size_bytes,
                       pattern_bytes);
    }
    UM_TRY(check_range(stream, dst, size_bytes, "um_fill"));
    if (size_bytes == 0) return UM_OK;
    if (!pattern) return UM_FAIL(UM_INVALID_ARGUMENT, "um_fill: pattern is NULL");
    uint64_t value = pattern_value(pattern, pattern_bytes);
    if (stream->capture) return um_capture_fill(stream, dst, size_bytes, value, pattern_bytes);
    return stream->device->driver.table->fill(stream->handle, dst, size_bytes, value,
                                              pattern_bytes);
}
