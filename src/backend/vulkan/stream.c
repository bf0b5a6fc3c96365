/* backend/vulkan/stream.c: streams. A ticket is the number of a batch, and a batch's number what
 * the stream's semaphore becomes with it; so a ticket needs nothing of its own. */
#include "backend/vulkan/vulkan.h"

enum { PIECE_BYTES = 8 << 20, AHEAD_BYTES = 16 * PIECE_BYTES, AHEAD_BATCHES = 256 };

/* ---- life ----------------------------------------------------------------------------------- */

/* Goes with the device: that a batch is done says not yet that the driver is done with what it
 * waited for (lavapipe's thread writes to that a moment later). */
static void give_timeline(um_backend_device *device, void *self)
{
    um_vk_timeline *timeline = self;
    um_mutex_lock(&device->mutex);
    timeline->next = device->timelines;
    device->timelines = timeline;
    um_mutex_unlock(&device->mutex);
}

static um_status make_timeline(um_backend_device *device, um_vk_timeline **out)
{
    vk_timeline_info timeline = {.type = VK_IS_TIMELINE, .is_timeline = 1, .value = 1};
    vk_semaphore_info info = {.type = VK_IS_SEMAPHORE, .next = &timeline};
    um_vk_timeline *t = um_mem_zalloc(sizeof *t);
    if (!t) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a stream");
    int32_t code = device->vk.vkCreateSemaphore(device->handle, &info, NULL, &t->semaphore);
    t->last = 1;
    *out = t;
    if (code == 0) return UM_OK;
    um_mem_free(t);
    *out = NULL;
    return um_vk_fail("vkCreateSemaphore", code);
}

void um_vk_timelines_release(um_backend_device *device)
{
    for (um_vk_timeline *t; (t = device->timelines) != NULL;) {
        device->timelines = t->next;
        device->vk.vkDestroySemaphore(device->handle, t->semaphore, NULL);
        um_mem_free(t);
    }
}

um_status um_vk_stream_create(um_backend_device *device, um_backend_stream **out)
{
    um_backend_stream *stream = *out = um_mem_zalloc(sizeof *stream);
    if (!stream) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a stream");
    stream->device = device;
    um_mutex_lock(&device->mutex);
    stream->queue = device->queue[device->next_queue++ % device->queue_count];
    um_vk_timeline *t = device->timelines;
    if (t) device->timelines = t->next;
    um_mutex_unlock(&device->mutex);
    um_status status = t ? UM_OK : make_timeline(device, &t);
    if (status == UM_OK) {
        t->shared = (um_vk_shared){1, give_timeline};
        stream->timeline = t;
        stream->last = t->last;
        status = um_mutex_init(&stream->mutex);
    }
    if (status != UM_OK) {
        um_vk_unref(device, stream->timeline);
        um_mem_free(stream);
        *out = NULL;
    }
    return status;
}

void um_vk_stream_destroy(um_backend_stream *stream)
{
    um_backend_device *device = stream->device;
    if (stream->records) {
        um_vk_unref(device, stream);
        return;
    }
    if (um_vk_synchronize(stream, UINT64_MAX) != UM_OK) um_vk_discard(stream);
    if (stream->first) return; /* the driver does not tell whether that is done: all of it stays */
    if (stream->scratch) um_vk_free(device, stream->scratch);
    stream->timeline->last = stream->last;
    um_vk_unref(device, stream->timeline);
    um_mutex_destroy(&stream->mutex);
    um_mem_free(stream);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Here the mutex is held. */

/* The newest batch submitted that the ticket is behind; 0: they are done. */
static uint64_t newest_of(const um_backend_stream *stream, uint64_t ticket)
{
    uint64_t number = 0;
    for (const um_vk_batch *b = stream->first; b && b->number <= ticket; b = b->next)
        number = b->number;
    return number;
}

um_status um_vk_record(um_backend_stream *stream, uint64_t *ticket)
{
    um_mutex_lock(&stream->mutex);
    *ticket = stream->last;
    um_mutex_unlock(&stream->mutex);
    return UM_OK;
}

/* The next batch waits, and no command before it; it depends on what that work may find out. */
static um_status wait_for(um_backend_stream *stream, um_backend_stream *other, uint64_t value)
{
    if (stream->open && (stream->open->command_count || stream->open->wait))
        UM_TRY(um_vk_flush(stream));
    UM_TRY(um_vk_begin(stream));
    um_vk_batch *batch = stream->open;
    batch->command_count = 0;
    for (const um_vk_batch *b = other->first; b && b->number <= value; b = b->next) {
        for (int64_t i = 0; i < b->held_count; i++) {
            if (!b->held[i].fault) continue;
            um_vk_ref(b->held[i].shared);
            UM_TRY(um_vk_keep(stream, b->held[i]));
        }
    }
    UM_TRY(um_vk_keep(stream, um_vk_ref(&other->timeline->shared)));
    batch->wait = other->timeline->semaphore;
    batch->wait_value = value;
    return UM_OK;
}

/* With both mutexes. */
static um_status wait_locked(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    UM_TRY(um_error_status(&stream->error));
    if (other->open && other->open->number <= ticket) (void)um_vk_flush(other); /* its error */
    um_vk_settle(other);
    uint64_t value = newest_of(other, ticket);
    if (other->error.code != UM_OK) um_error_keep(&stream->error, &other->error);
    return value && stream->error.code == UM_OK ? wait_for(stream, other, value) : UM_OK;
}

um_status um_vk_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    bool before = (uintptr_t)stream < (uintptr_t)other;
    if (stream == other) return um_vk_make_room(stream);
    um_mutex_lock(before ? &stream->mutex : &other->mutex);
    um_mutex_lock(before ? &other->mutex : &stream->mutex);
    um_status status = wait_locked(stream, other, ticket);
    um_mutex_unlock(&other->mutex);
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* What nobody has sent off is, once the device has nothing else of the stream to do: who asks again
 * and again gets it in the end. */
um_status um_vk_query(um_backend_stream *stream, uint64_t ticket)
{
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = um_error_status(&stream->error);
    ticket = UM_MIN(ticket, stream->last);
    if (status == UM_OK && stream->first && stream->first->number <= ticket) status = UM_NOT_READY;
    if (status == UM_OK && stream->open && stream->open->number <= ticket)
        status = um_vk_flush(stream) == UM_OK ? UM_NOT_READY : stream->error.code;
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* Without the mutex: until the semaphore has the value; a VkResult. */
static int32_t await(const um_backend_stream *stream, uint64_t value)
{
    const um_backend_device *device = stream->device;
    vk_wait_info info = {
        .type = VK_IS_WAIT, .count = 1, .semaphore = &stream->timeline->semaphore, .value = &value};
    int32_t code = VK_TIMEOUT;
    for (int tries = 0; code != 0 && code != VK_LOST && tries < 100; tries += code < 0)
        code = device->vk.vkWaitSemaphores(device->handle, &info, UINT64_MAX);
    return code;
}

um_status um_vk_synchronize(um_backend_stream *stream, uint64_t ticket)
{
    int32_t code = 0;
    um_mutex_lock(&stream->mutex);
    if (stream->error.code != UM_OK) um_vk_discard(stream);
    if (stream->open && stream->open->number <= ticket) (void)um_vk_flush(stream); /* its error */
    uint64_t value = newest_of(stream, ticket);
    um_mutex_unlock(&stream->mutex);
    if (value) code = await(stream, value);
    um_mutex_lock(&stream->mutex);
    um_vk_settle_to(stream, value, code);
    um_status status = um_error_status(&stream->error);
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_clear_error(um_backend_stream *stream)
{
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = um_error_status(&stream->error);
    stream->error = (um_error){.code = UM_OK};
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

um_status um_vk_make_room(um_backend_stream *stream)
{
    um_mutex_lock(&stream->mutex);
    uint64_t bytes = stream->staged_bytes, ticket = stream->last - AHEAD_BATCHES / 2;
    bool full = bytes >= AHEAD_BYTES || stream->batch_count >= AHEAD_BATCHES;
    um_status status = um_error_status(&stream->error);
    um_mutex_unlock(&stream->mutex);
    if (!full || stream->records) return status;
    return um_vk_synchronize(stream, bytes >= AHEAD_BYTES ? UINT64_MAX : ticket);
}

/* At once, where the host sees the memory and no work of the stream is before it. */
um_status um_vk_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes)
{
    void *host;
    um_vk_find(stream->device, dst, size_bytes, &host);
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = um_error_status(&stream->error);
    if (status == UM_OK && host && !stream->first && !stream->open) {
        memcpy(host, src, (size_t)size_bytes);
        size_bytes = 0;
    }
    um_mutex_unlock(&stream->mutex);
    for (uint64_t at = 0; at < size_bytes && status == UM_OK; at += PIECE_BYTES) {
        uint64_t piece = UM_MIN(size_bytes - at, (uint64_t)PIECE_BYTES);
        um_ptr staged;
        UM_TRY(um_vk_make_room(stream));
        um_mutex_lock(&stream->mutex);
        status = um_vk_begin(stream);
        if (status == UM_OK) status = um_vk_stage(stream, (const char *)src + at, piece, &staged);
        if (status == UM_OK) um_vk_copy_bytes(stream, dst + at, staged, piece);
        um_mutex_unlock(&stream->mutex);
    }
    return status;
}

um_status um_vk_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    uint64_t most = UM_MIN(size_bytes, (uint64_t)PIECE_BYTES);
    um_ptr staged;
    void *host;
    um_vk_find(stream->device, src, size_bytes, &host);
    if (host) {
        UM_TRY(um_vk_synchronize(stream, UINT64_MAX));
        memcpy(dst, host, (size_t)size_bytes);
        return UM_OK;
    }
    UM_TRY(um_vk_take(stream->device, most, true, &staged));
    um_vk_find(stream->device, staged, most, &host);
    um_status status = UM_OK;
    for (uint64_t at = 0; at < size_bytes && status == UM_OK; at += most) {
        uint64_t piece = UM_MIN(size_bytes - at, most);
        status = um_vk_copy(stream, staged, src + at, piece);
        if (status == UM_OK) status = um_vk_synchronize(stream, UINT64_MAX);
        if (status == UM_OK) memcpy((char *)dst + at, host, (size_t)piece);
    }
    um_vk_free(stream->device, staged);
    return status;
}

um_status um_vk_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(um_vk_make_room(stream));
    um_mutex_lock(&stream->mutex);
    um_status status = um_vk_begin(stream);
    if (status == UM_OK) um_vk_copy_bytes(stream, dst, src, size_bytes);
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* Whole words of one value by the device's own fill. */
um_status um_vk_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                     uint32_t pattern_bytes)
{
    uint64_t words = pattern;
    for (uint32_t bits = 8 * pattern_bytes; bits < 64; bits *= 2) words |= words << bits;
    if (words >> 32 != (uint32_t)words || dst % 4 != 0 || size_bytes % 4 != 0)
        return um_kdriver_fill(stream, um_vk_enqueue, dst, size_bytes, pattern, pattern_bytes);
    UM_TRY(um_vk_make_room(stream));
    um_mutex_lock(&stream->mutex);
    um_status status = um_vk_begin(stream);
    if (status == UM_OK) um_vk_fill_words(stream, dst, size_bytes, (uint32_t)words);
    um_mutex_unlock(&stream->mutex);
    return status;
}
