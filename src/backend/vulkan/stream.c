/* backend/vulkan/stream.c: streams. A ticket is the number of a batch, and a batch's number what
 * the stream's semaphore becomes with it; so a ticket needs nothing of its own. */
#include "backend/vulkan/vulkan.h"

#include <stdlib.h>

enum { PIECE_BYTES = 16 << 20, FILL_BYTES = 1 << 16, REGIONS = 256 };

/* ---- life ----------------------------------------------------------------------------------- */

um_status um_vk_stream_create(um_backend_device *device, um_backend_stream **out)
{
    *out = NULL;
    um_backend_stream *stream = um_mem_zalloc(sizeof *stream);
    if (!stream) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a stream");
    stream->device = device;
    stream->last = 1;
    UM_TRY_OR(um_vk_timeline_create(device, &stream->timeline), fail);
    UM_TRY_OR(um_mutex_init(&stream->mutex), fail);
    um_mutex_lock(&device->mutex);
    stream->queue = &device->queue[device->next_queue++ % device->queue_count];
    um_mutex_unlock(&device->mutex);
    *out = stream;
    return UM_OK;
fail:
    um_vk_timeline_unref(device, stream->timeline);
    um_mem_free(stream);
    return um_status_last();
}

void um_vk_stream_destroy(um_backend_stream *stream)
{
    um_backend_device *device = stream->device;
    if (um_vk_synchronize(stream, UINT64_MAX) != UM_OK) um_vk_discard(stream);
    if (stream->scratch) um_vk_free(device, stream->scratch);
    um_vk_timeline_unref(device, stream->timeline);
    um_mutex_destroy(&stream->mutex);
    um_mem_free(stream);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Here the mutex is held. */
static um_status state(um_backend_stream *stream)
{
    return stream->error.code == UM_OK ? UM_OK : um_fail_again(&stream->error);
}

/* The newest batch submitted that the ticket is behind; 0: they are done. */
static uint64_t newest_of(const um_backend_stream *stream, uint64_t ticket)
{
    uint64_t number = 0;
    for (const um_vk_batch *batch = stream->first; batch && batch->number <= ticket;
         batch = batch->next)
        number = batch->number;
    return number;
}

um_status um_vk_state(um_backend_stream *stream)
{
    um_mutex_lock(&stream->mutex);
    um_status status = state(stream);
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_record(um_backend_stream *stream, uint64_t *ticket)
{
    um_mutex_lock(&stream->mutex);
    *ticket = stream->last;
    um_mutex_unlock(&stream->mutex);
    return UM_OK;
}

/* What another stream has at its ticket. */
typedef struct point {
    um_error error;
    um_vk_timeline *timeline; /* a reference; NULL: the work is done */
    uint64_t value;
    um_vk_held *fault; /* references to what that work may still find out */
    int64_t fault_count, fault_capacity;
} point;

static um_status take_faults(point *p, const um_vk_batch *batch)
{
    for (int64_t i = 0; i < batch->held_count; i++) {
        um_vk_fault *fault = batch->held[i].object;
        if (batch->held[i].what != UM_VK_HOLDS_FAULT) continue;
        void *items = p->fault;
        um_status status =
            um_vec_reserve(&items, &p->fault_capacity, p->fault_count, sizeof *p->fault, "vulkan");
        p->fault = items;
        UM_TRY(status);
        atomic_fetch_add(&fault->refs, 1);
        p->fault[p->fault_count++] = batch->held[i];
    }
    return UM_OK;
}

static um_status take_point(um_backend_stream *other, uint64_t ticket, point *p)
{
    um_status status = UM_OK;
    um_mutex_lock(&other->mutex);
    if (other->open && other->open->number <= ticket) (void)um_vk_flush(other); /* its error */
    um_vk_settle(other);
    p->error = other->error;
    p->value = newest_of(other, ticket);
    if (p->value && p->error.code == UM_OK) {
        p->timeline = other->timeline;
        atomic_fetch_add(&p->timeline->refs, 1);
        for (const um_vk_batch *b = other->first; b && b->number <= ticket && status == UM_OK;
             b = b->next)
            status = take_faults(p, b);
    }
    um_mutex_unlock(&other->mutex);
    return status;
}

/* In the next batch: what was recorded before does not wait. */
static um_status wait_for(um_backend_stream *stream, point *p)
{
    if (stream->open && (stream->open->command_count || stream->open->wait_count == UM_VK_WAITS))
        UM_TRY(um_vk_flush(stream));
    UM_TRY(um_vk_begin(stream, 0));
    um_vk_batch *batch = stream->open;
    batch->command_count = 0;
    while (p->fault_count > 0) UM_TRY(um_vk_keep(stream, p->fault[--p->fault_count]));
    um_vk_timeline *timeline = p->timeline;
    p->timeline = NULL;
    UM_TRY(um_vk_keep(stream, (um_vk_held){.what = UM_VK_HOLDS_TIMELINE, .object = timeline}));
    batch->wait[batch->wait_count] = timeline->semaphore;
    batch->wait_value[batch->wait_count++] = p->value;
    return UM_OK;
}

um_status um_vk_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    um_backend_device *device = stream->device;
    point p = {.value = 0};
    UM_TRY(um_vk_state(stream));
    if (stream == other) return UM_OK;
    um_status status = take_point(other, ticket, &p);
    um_mutex_lock(&stream->mutex);
    if (p.error.code != UM_OK) um_vk_become(stream, &p.error);
    if (status == UM_OK && p.timeline) status = wait_for(stream, &p);
    um_mutex_unlock(&stream->mutex);
    while (p.fault_count > 0) um_vk_fault_unref(device, p.fault[--p.fault_count].object);
    um_vk_timeline_unref(device, p.timeline);
    um_mem_free(p.fault);
    return status;
}

/* What nobody has sent off is, once the device has nothing else of the stream to do: who asks again
 * and again gets it in the end. */
um_status um_vk_query(um_backend_stream *stream, uint64_t ticket)
{
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = state(stream);
    ticket = UM_MIN(ticket, stream->last);
    if (status == UM_OK && stream->first && stream->first->number <= ticket) status = UM_NOT_READY;
    if (status == UM_OK && stream->open && stream->open->number <= ticket)
        status = um_vk_flush(stream) == UM_OK ? UM_NOT_READY : stream->error.code;
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_synchronize(um_backend_stream *stream, uint64_t ticket)
{
    int32_t code = 0;
    um_mutex_lock(&stream->mutex);
    if (stream->error.code != UM_OK) um_vk_discard(stream);
    if (stream->open && stream->open->number <= ticket) (void)um_vk_flush(stream); /* its error */
    uint64_t value = newest_of(stream, ticket);
    um_mutex_unlock(&stream->mutex);
    if (value) code = um_vk_await(stream->device, stream->timeline, value);
    um_mutex_lock(&stream->mutex);
    um_vk_settle_to(stream, value, "vkWaitSemaphores", code);
    um_status status = state(stream);
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_clear_error(um_backend_stream *stream)
{
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = state(stream);
    stream->error = (um_error){.code = UM_OK};
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Copies from staging memory, of which regions may read the same bytes. */
static void copy_in(um_backend_stream *stream, const um_vk_block *from, const um_vk_block *to,
                    const vk_copy *region, uint32_t count)
{
    const vk_copy *last = &region[count - 1];
    um_vk_use use = {to->base + region->to, to->base + last->to + last->size_bytes, true};
    um_vk_order(stream, 1, &use);
    stream->device->vk.vkCmdCopyBuffer(stream->open->commands, from->buffer, to->buffer, count,
                                       region);
}

static um_status write_piece(um_backend_stream *stream, const um_vk_block *to, uint64_t offset,
                             const void *src, uint64_t size_bytes)
{
    const um_vk_block *from;
    vk_copy region = {.to = offset, .size_bytes = size_bytes};
    UM_TRY(um_vk_begin(stream, 0));
    UM_TRY(um_vk_stage(stream, size_bytes, &from, &region.from));
    memcpy(from->mapped + region.from, src, (size_t)size_bytes);
    copy_in(stream, from, to, &region, 1);
    return UM_OK;
}

/* At once, where the host sees the memory and no work of the stream is before it. */
um_status um_vk_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes)
{
    uint64_t offset;
    const um_vk_block *to = um_vk_find(stream->device, dst, &offset);
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = state(stream);
    if (status == UM_OK && to->mapped && !stream->first && !stream->open) {
        memcpy(to->mapped + offset, src, (size_t)size_bytes);
        size_bytes = 0;
    }
    for (uint64_t at = 0; at < size_bytes && status == UM_OK; at += PIECE_BYTES)
        status = write_piece(stream, to, offset + at, (const char *)src + at,
                             UM_MIN(size_bytes - at, (uint64_t)PIECE_BYTES));
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* To staging memory, which the caller gives back. */
static um_status read_piece(um_backend_stream *stream, const um_vk_block *from, uint64_t offset,
                            uint64_t size_bytes, const um_vk_block *to)
{
    vk_copy region = {.from = offset, .size_bytes = size_bytes};
    um_vk_use use = {from->base + offset, from->base + offset + size_bytes, false};
    um_mutex_lock(&stream->mutex);
    um_status status = state(stream);
    if (status == UM_OK) status = um_vk_begin(stream, 0);
    if (status == UM_OK) {
        um_vk_order(stream, 1, &use);
        stream->device->vk.vkCmdCopyBuffer(stream->open->commands, from->buffer, to->buffer, 1,
                                           &region);
    }
    um_mutex_unlock(&stream->mutex);
    return status == UM_OK ? um_vk_synchronize(stream, UINT64_MAX) : status;
}

um_status um_vk_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    uint64_t offset, most = UM_MIN(size_bytes, (uint64_t)PIECE_BYTES);
    um_vk_block *to;
    UM_TRY(um_vk_state(stream));
    const um_vk_block *from = um_vk_find(stream->device, src, &offset);
    if (from->mapped) {
        UM_TRY(um_vk_synchronize(stream, UINT64_MAX));
        memcpy(dst, from->mapped + offset, (size_t)size_bytes);
        return UM_OK;
    }
    UM_TRY(um_vk_staging_take(stream->device, most, &to));
    um_status status = UM_OK;
    for (uint64_t at = 0; at < size_bytes && status == UM_OK; at += most) {
        uint64_t piece = UM_MIN(size_bytes - at, most);
        status = read_piece(stream, from, offset + at, piece, to);
        if (status == UM_OK) memcpy((char *)dst + at, to->mapped, (size_t)piece);
    }
    um_vk_staging_give(stream->device, to);
    return status;
}

um_status um_vk_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    vk_copy region = {.size_bytes = size_bytes};
    const um_vk_block *to = um_vk_find(stream->device, dst, &region.to);
    const um_vk_block *from = um_vk_find(stream->device, src, &region.from);
    const um_vk_use use[] = {{src, src + size_bytes, false}, {dst, dst + size_bytes, true}};
    um_mutex_lock(&stream->mutex);
    um_status status = state(stream);
    if (status == UM_OK) status = um_vk_begin(stream, 0);
    if (status == UM_OK) {
        um_vk_order(stream, 2, use);
        stream->device->vk.vkCmdCopyBuffer(stream->open->commands, from->buffer, to->buffer, 1,
                                           &region);
    }
    um_mutex_unlock(&stream->mutex);
    return status;
}

/* Whole words of one value, from a multiple of 4: the device's own fill. */
static void fill_words(um_backend_stream *stream, const um_vk_block *to, uint64_t offset,
                       uint64_t size_bytes, uint32_t word)
{
    um_vk_use use = {to->base + offset, to->base + offset + size_bytes, true};
    um_vk_order(stream, 1, &use);
    stream->device->vk.vkCmdFillBuffer(stream->open->commands, to->buffer, offset, size_bytes,
                                       word);
}

/* Anything else: many copies of a stretch that the host has filled. */
static um_status fill_pieces(um_backend_stream *stream, const um_vk_block *to, uint64_t offset,
                             uint64_t size_bytes, const uint8_t *pattern, uint32_t pattern_bytes)
{
    vk_copy region[REGIONS];
    uint32_t count = 0;
    const um_vk_block *from;
    uint64_t at, stretch = UM_MIN(size_bytes, (uint64_t)FILL_BYTES);
    UM_TRY(um_vk_stage(stream, stretch, &from, &at));
    for (uint64_t i = 0; i < stretch; i += pattern_bytes)
        memcpy(from->mapped + at + i, pattern, pattern_bytes);
    for (uint64_t done = 0; done < size_bytes; done += stretch) {
        region[count++] = (vk_copy){at, offset + done, UM_MIN(stretch, size_bytes - done)};
        if (count < REGIONS && done + stretch < size_bytes) continue;
        copy_in(stream, from, to, region, count);
        count = 0;
    }
    return UM_OK;
}

um_status um_vk_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                     uint32_t pattern_bytes)
{
    uint64_t offset;
    uint8_t bytes[8];
    uint32_t word[2];
    const um_vk_block *to = um_vk_find(stream->device, dst, &offset);
    for (uint32_t i = 0; i < 8; i += pattern_bytes) memcpy(bytes + i, &pattern, pattern_bytes);
    memcpy(word, bytes, sizeof word);
    um_mutex_lock(&stream->mutex);
    um_status status = state(stream);
    if (status == UM_OK) status = um_vk_begin(stream, 0);
    if (status == UM_OK && word[0] == word[1] && offset % 4 == 0 && size_bytes % 4 == 0)
        fill_words(stream, to, offset, size_bytes, word[0]);
    else if (status == UM_OK)
        status = fill_pieces(stream, to, offset, size_bytes, bytes, pattern_bytes);
    um_mutex_unlock(&stream->mutex);
    return status;
}
