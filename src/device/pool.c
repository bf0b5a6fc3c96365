/* The pool of a device: blocks that um_alloc_async hands out and that come back in stream order. A
 * block keeps its place in the memory map for as long as the pool has it, dead while it is idle, so
 * that handing it out again allocates nothing. Used by the tensor face too. */
#include "device/device.h"

typedef unsigned long long ull; /* for messages */

/* Idle blocks are kept for as many bytes as are in use, and so many more. */
#define SLACK_BYTES ((uint64_t)256 << 20)
#define LOOK_AT     8 /* idle blocks of a size, for one of the caller's stream */

struct um_pool_block {
    um_pool_block *next; /* idle: in its list */
    um_ptr ptr;
    uint64_t size_bytes; /* as the backend gave them */
    um_event freed;      /* idle: done when nobody uses it any more */
};

/* Sizes are rounded up to 64 bytes times (4 .. 7) * 2^k: four classes to each power of two, so at
 * most a quarter is wasted. */
static int32_t size_class(uint64_t size_bytes, uint64_t *rounded)
{
    uint64_t lines = UM_MAX((size_bytes + 63) / 64, 4);
    int32_t shift = 61 - __builtin_clzll(lines); /* lines >> shift is 4 .. 7 */
    uint64_t top = (lines + ((uint64_t)1 << shift) - 1) >> shift;
    *rounded = (top << shift) * 64;
    return shift * 4 + (int32_t)(top - 4); /* top 8 is the next class up, rightly */
}

static um_pool_block **list_of(um_pool *pool, const um_pool_block *block)
{
    uint64_t rounded;
    return &pool->idle[size_class(block->size_bytes, &rounded)];
}

/* ---- idle blocks ---------------------------------------------------------------------------- */

/* With the device's mutex held, these three. */
static void push(um_pool *pool, um_pool_block *block)
{
    um_pool_block **list = list_of(pool, block);
    block->next = *list;
    *list = block;
    pool->idle_bytes += block->size_bytes;
}

static um_pool_block *unlink_block(um_pool *pool, um_pool_block **link)
{
    um_pool_block *block = *link;
    *link = block->next;
    pool->idle_bytes -= block->size_bytes;
    return block;
}

/* One that the stream itself gave back, else an old one of another stream, else NULL. */
static um_pool_block *pick(um_pool *pool, int32_t class, uint64_t stream_id)
{
    um_pool_block **link = &pool->idle[class], **other = NULL;
    for (int i = 0; *link && i < LOOK_AT; i++, link = &(*link)->next) {
        if ((*link)->freed.stream_id == stream_id) return unlink_block(pool, link);
        other = link;
    }
    return other ? unlink_block(pool, other) : NULL;
}

static void push_back(um_device *device, um_pool_block *block)
{
    um_mutex_lock(&device->mutex);
    push(&device->pool, block);
    um_mutex_unlock(&device->mutex);
}

/* *out: a block that nobody uses any more by the time that the stream comes to it, or NULL. */
static um_status take_idle(um_stream *stream, int32_t class, um_pool_block **out)
{
    um_device *device = stream->device;
    um_mutex_lock(&device->mutex);
    um_pool_block *block = *out = pick(&device->pool, class, stream->id);
    um_mutex_unlock(&device->mutex);
    if (!block || block->freed.stream_id == stream->id) return UM_OK;
    /* In a callback nobody may look: a stream that failed is waited for. */
    bool done = false;
    um_status status = um_in_callback() ? UM_OK : um_event_settle(block->freed, false, &done);
    if (done && status == UM_OK) return UM_OK;
    push_back(device, block);
    *out = NULL;
    return status;
}

static void destroy(um_device *device, um_pool_block *block)
{
    um_mutex_lock(&device->mutex);
    um_memmap_remove(&device->map, block->ptr);
    um_mutex_unlock(&device->mutex);
    device->driver.table->free(device->driver.device, block->ptr);
    um_mem_free(block);
}

/* Largest first. */
static um_pool_block *take_beyond(um_device *device, uint64_t keep_bytes)
{
    um_pool *pool = &device->pool;
    um_pool_block *block = NULL;
    um_mutex_lock(&device->mutex);
    for (int32_t c = UM_POOL_CLASSES - 1; c >= 0 && !block && pool->idle_bytes > 0; c--) {
        if (pool->in_use_bytes + pool->idle_bytes <= keep_bytes) break;
        if (pool->idle[c]) block = unlink_block(pool, &pool->idle[c]);
    }
    um_mutex_unlock(&device->mutex);
    return block;
}

/* Without `wait` it stops at a block that somebody may still use. */
static um_status shrink(um_device *device, uint64_t keep_bytes, bool wait)
{
    um_pool_block *block;
    while ((block = take_beyond(device, keep_bytes))) {
        bool done;
        um_status status = um_event_settle(block->freed, wait, &done);
        if (!done || status != UM_OK) {
            push_back(device, block);
            return status;
        }
        destroy(device, block);
    }
    return UM_OK;
}

um_status um_pool_shrink(um_device *device, uint64_t keep_bytes)
{
    return shrink(device, keep_bytes, true);
}

um_status um_pool_tidy(um_device *device, bool wait)
{
    um_mutex_lock(&device->mutex);
    const um_pool *pool = &device->pool;
    bool much = pool->idle_bytes > pool->in_use_bytes + SLACK_BYTES;
    uint64_t keep_bytes = 2 * pool->in_use_bytes + SLACK_BYTES;
    um_mutex_unlock(&device->mutex);
    return much && !um_in_callback() ? shrink(device, keep_bytes, wait) : UM_OK;
}

/* ---- handing out and taking back ------------------------------------------------------------ */

/* With the device's mutex held. */
static void hand_out(um_device *device, um_pool_block *block, uint64_t size_bytes, bool is_new)
{
    um_pool *pool = &device->pool;
    um_memmap_set(&device->map, block->ptr, size_bytes, block, true);
    pool->in_use_bytes += block->size_bytes;
    pool->alloc_count++;
    pool->reuse_count += !is_new;
    pool->in_use_high_bytes = UM_MAX(pool->in_use_high_bytes, pool->in_use_bytes);
    pool->reserved_high_bytes =
        UM_MAX(pool->reserved_high_bytes, pool->in_use_bytes + pool->idle_bytes);
}

static um_status make_block(um_device *device, uint64_t rounded, um_pool_block **out)
{
    UM_TRY(um_pool_tidy(device, true));
    um_pool_block *block = um_mem_zalloc(sizeof *block);
    if (!block) return UM_FAIL(UM_OUT_OF_MEMORY, "um_alloc_async: no memory to note a block");
    um_status status = um_alloc(device, rounded, &block->ptr);
    if (status != UM_OK) {
        um_mem_free(block);
        return status;
    }
    block->size_bytes = rounded;
    *out = block;
    return UM_OK;
}

um_status um_alloc_async(um_stream *stream, uint64_t size_bytes, um_ptr *out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_alloc_async: out is NULL");
    *out = 0;
    if (!stream) return UM_FAIL(UM_INVALID_ARGUMENT, "um_alloc_async: stream is NULL");
    UM_TRY(um_not_capturing(stream, "um_alloc_async"));
    if (size_bytes > INT64_MAX / 2) {
        return UM_FAIL(UM_OUT_OF_MEMORY, "um_alloc_async: no memory for %llu bytes",
                       (ull)size_bytes);
    }
    uint64_t rounded;
    um_device *device = stream->device;
    um_pool_block *block;
    UM_TRY(take_idle(stream, size_class(size_bytes, &rounded), &block));
    bool is_new = !block;
    if (!block) UM_TRY(make_block(device, rounded, &block));
    um_mutex_lock(&device->mutex);
    hand_out(device, block, size_bytes, is_new);
    um_mutex_unlock(&device->mutex);
    *out = block->ptr;
    return UM_OK;
}

void um_pool_take_back(um_device *device, um_pool_block *block, um_event freed)
{
    um_mutex_lock(&device->mutex);
    block->freed = freed;
    device->pool.in_use_bytes -= block->size_bytes;
    push(&device->pool, block);
    um_mutex_unlock(&device->mutex);
}

void um_pool_forget(um_pool_block *block) { um_mem_free(block); }

/* ---- for people ----------------------------------------------------------------------------- */

um_status um_pool_get_stats(um_device *device, um_pool_stats *out)
{
    if (!device || !out || out->struct_size < sizeof out->struct_size) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_pool_get_stats: %s",
                       !device ? "device is NULL"
                       : !out  ? "out is NULL"
                               : "out->struct_size is not set");
    }
    um_mutex_lock(&device->mutex);
    const um_pool *pool = &device->pool;
    um_pool_stats stats = {.struct_size = out->struct_size,
                           .in_use_bytes = pool->in_use_bytes,
                           .reserved_bytes = pool->in_use_bytes + pool->idle_bytes,
                           .in_use_high_bytes = pool->in_use_high_bytes,
                           .reserved_high_bytes = pool->reserved_high_bytes,
                           .alloc_count = pool->alloc_count,
                           .reuse_count = pool->reuse_count};
    um_mutex_unlock(&device->mutex);
    memcpy(out, &stats, UM_MIN((size_t)out->struct_size, sizeof stats));
    return UM_OK;
}

um_status um_pool_trim(um_device *device, uint64_t keep_bytes)
{
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_pool_trim: device is NULL");
    UM_TRY(um_may_wait("um_pool_trim"));
    return um_pool_shrink(device, keep_bytes);
}
