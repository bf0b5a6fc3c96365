/* backend/vulkan/batch.c: commands on their way. A stream records into one batch, which is
 * submitted when somebody asks for its end, or it is full, or the device has nothing else to do;
 * batches are used again, with their pools. Here the stream's mutex is held, but where vulkan.h
 * says otherwise.
 */
#include "backend/vulkan/vulkan.h"

enum {
    COMMANDS_EAGER = 16, /* so many are worth a submission to an idle device */
    STAGED_MAX = 32 << 20
};

/* ---- what batches hold ------------------------------------------------------------------------
 */

void um_vk_unref(void *device, void *shared)
{
    um_vk_shared *s = shared;
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) s->destroy(device, s);
}

um_vk_held um_vk_ref(um_vk_shared *shared)
{
    atomic_fetch_add(&shared->refs, 1);
    return (um_vk_held){.shared = shared};
}

static void let_go(um_backend_device *device, const um_vk_held *held)
{
    um_vk_unref(device, held->shared);
    if (held->memory) um_vk_free(device, held->memory);
}

um_status um_vk_keep(um_backend_stream *stream, um_vk_held held)
{
    um_vk_batch *batch = stream->open;
    void *items = batch->held;
    um_status status = um_vec_reserve(&items, &batch->held_capacity, batch->held_count,
                                      sizeof *batch->held, "vulkan");
    batch->held = items;
    if (status == UM_OK)
        batch->held[batch->held_count++] = held;
    else
        let_go(stream->device, &held);
    return status;
}

um_status um_vk_stage(um_backend_stream *stream, const void *bytes, uint64_t size_bytes,
                      um_ptr *out)
{
    void *host;
    UM_TRY(um_vk_take(stream->device, size_bytes, true, out));
    UM_TRY(um_vk_keep(stream, (um_vk_held){.memory = *out}));
    um_vk_find(stream->device, *out, size_bytes, &host);
    memcpy(host, bytes, (size_t)size_bytes);
    stream->open->staged_bytes += size_bytes;
    stream->staged_bytes += size_bytes;
    return UM_OK;
}

/* ---- a batch's life ---------------------------------------------------------------------------
 */

void um_vk_batches_release(um_backend_device *device)
{
    for (um_vk_batch *batch; (batch = device->idle) != NULL;) {
        device->idle = batch->next;
        if (batch->pool) device->vk.vkDestroyCommandPool(device->handle, batch->pool, NULL);
        if (batch->sets) device->vk.vkDestroyDescriptorPool(device->handle, batch->sets, NULL);
        um_mem_free(batch->held);
        um_mem_free(batch);
    }
}

void um_vk_give_batch(um_backend_device *device, um_vk_batch *batch)
{
    for (int64_t i = 0; i < batch->held_count; i++) let_go(device, &batch->held[i]);
    batch->held_count = 0;
    um_mutex_lock(&device->mutex);
    batch->next = device->idle;
    device->idle = batch;
    um_mutex_unlock(&device->mutex);
}

static um_status make_sets(const um_backend_device *device, um_vk_batch *batch)
{
    vk_object layout[UM_VK_COMMANDS];
    for (int i = 0; i < UM_VK_COMMANDS; i++) layout[i] = device->set_layout;
    vk_pool_size size = {VK_STORAGE_DESCRIPTOR, UM_VK_COMMANDS * device->descriptor_count};
    vk_set_pool_info pool = {
        .type = VK_IS_SET_POOL, .sets_max = UM_VK_COMMANDS, .size_count = 1, .size = &size};
    if (!batch->sets)
        UM_VK_TRY(device, vkCreateDescriptorPool, device->handle, &pool, NULL, &batch->sets);
    vk_set_info sets = {
        .type = VK_IS_SET, .pool = batch->sets, .count = UM_VK_COMMANDS, .layout = layout};
    UM_VK_TRY(device, vkAllocateDescriptorSets, device->handle, &sets, batch->set);
    return UM_OK;
}

/* Once more, or for the first time; one that failed half-way goes on from there. */
static um_status start_batch(const um_backend_device *device, um_vk_batch *batch, uint32_t flags)
{
    vk_command_pool_info pool = {
        .type = VK_IS_COMMAND_POOL, .flags = VK_POOL_TRANSIENT, .family = device->physical->family};
    vk_begin_info begin = {.type = VK_IS_BEGIN, .flags = flags};
    if (!batch->pool)
        UM_VK_TRY(device, vkCreateCommandPool, device->handle, &pool, NULL, &batch->pool);
    vk_commands_info commands = {.type = VK_IS_COMMANDS, .pool = batch->pool, .count = 1};
    if (!batch->commands)
        UM_VK_TRY(device, vkAllocateCommandBuffers, device->handle, &commands, &batch->commands);
    if (!batch->set[0] && !device->by_address) UM_TRY(make_sets(device, batch));
    UM_VK_TRY(device, vkResetCommandPool, device->handle, batch->pool, 0);
    UM_VK_TRY(device, vkBeginCommandBuffer, batch->commands, &begin);
    batch->next = NULL;
    batch->wait = batch->staged_bytes = 0;
    batch->command_count = 0;
    batch->replayed = NULL;
    return UM_OK;
}

enum { AT_COMMANDS = VK_AT_COMPUTE | VK_AT_TRANSFER };

static void barrier(um_backend_stream *stream, uint32_t before)
{
    vk_barrier memory = {
        .type = VK_IS_BARRIER, .from = VK_ACCESS_WRITE, .to = VK_ACCESS_READ | VK_ACCESS_WRITE};
    stream->device->vk.vkCmdPipelineBarrier(stream->open->commands, AT_COMMANDS, before, 0, 1,
                                            &memory, 0, NULL, 0, NULL);
}

static um_status open_batch(um_backend_stream *stream)
{
    um_backend_device *device = stream->device;
    um_mutex_lock(&device->mutex);
    um_vk_batch *batch = device->idle;
    if (batch) device->idle = batch->next;
    um_mutex_unlock(&device->mutex);
    if (!batch) batch = um_mem_zalloc(sizeof *batch);
    if (!batch) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for commands");
    um_status status = start_batch(device, batch, stream->records ? VK_BEGIN_MANY : VK_BEGIN_ONCE);
    if (status != UM_OK) {
        um_vk_give_batch(device, batch);
        return status;
    }
    batch->number = ++stream->last;
    stream->open = batch;
    barrier(stream, AT_COMMANDS); /* behind what was submitted, of this stream or one waited for */
    stream->hazards.count = 0;
    return UM_OK;
}

/* ---- recording --------------------------------------------------------------------------------
 */

um_status um_vk_begin(um_backend_stream *stream)
{
    const um_vk_batch *batch = stream->open;
    UM_TRY(um_error_status(&stream->error));
    int32_t count = batch ? batch->command_count : 0;
    bool eager = !stream->records && count > 0 && count % COMMANDS_EAGER == 0;
    if (eager) um_vk_settle(stream);
    if (count == UM_VK_COMMANDS || (eager && !stream->first) ||
        (batch && batch->staged_bytes >= STAGED_MAX))
        UM_TRY(um_vk_flush(stream));
    if (!stream->open) UM_TRY(open_batch(stream));
    stream->open->command_count++;
    return UM_OK;
}

void um_vk_order(um_backend_stream *stream, int32_t count, const um_use *use)
{
    if (um_hazards_meet(&stream->hazards, count, use)) barrier(stream, AT_COMMANDS);
    if (stream->records) um_vk_note(stream, count, use);
}

void um_vk_copy_bytes(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    vk_range to = um_vk_find(stream->device, dst, size_bytes, NULL);
    vk_range from = um_vk_find(stream->device, src, size_bytes, NULL);
    const vk_copy region = {from.offset, to.offset, size_bytes};
    const um_use use[] = {{src, src + size_bytes, false}, {dst, dst + size_bytes, true}};
    um_vk_order(stream, 2, use);
    stream->device->vk.vkCmdCopyBuffer(stream->open->commands, from.buffer, to.buffer, 1, &region);
}

void um_vk_fill_words(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint32_t word)
{
    vk_range to = um_vk_find(stream->device, dst, size_bytes, NULL);
    const um_use use = {dst, dst + size_bytes, true};
    um_vk_order(stream, 1, &use);
    stream->device->vk.vkCmdFillBuffer(stream->open->commands, to.buffer, to.offset, size_bytes,
                                       word);
}

/* ---- submitting and settling ------------------------------------------------------------------
 */

/* What it holds may be what earlier work still uses: it goes with that. */
void um_vk_discard(um_backend_stream *stream)
{
    um_vk_batch *batch = stream->open;
    stream->open = NULL;
    if (batch && stream->first) {
        batch->number = stream->newest->number;
        stream->newest = stream->newest->next = batch;
        stream->batch_count++;
    } else if (batch) {
        stream->staged_bytes -= batch->staged_bytes;
        um_vk_give_batch(stream->device, batch);
    }
}

static int32_t submit(um_backend_stream *stream, const um_vk_batch *batch)
{
    const uint32_t at = AT_COMMANDS, waits = batch->wait != 0;
    const vk_handle commands[] = {batch->commands, batch->replayed};
    vk_timeline_submit values = {.type = VK_IS_TIMELINE_SUBMIT,
                                 .wait_count = waits,
                                 .wait = &batch->wait_value,
                                 .signal_count = 1,
                                 .signal = &batch->number};
    vk_submit_info info = {.type = VK_IS_SUBMIT,
                           .next = &values,
                           .wait_count = waits,
                           .wait = &batch->wait,
                           .wait_at = &at,
                           .commands_count = batch->replayed ? 2 : 1,
                           .commands = commands,
                           .signal_count = 1,
                           .signal = &stream->timeline->semaphore};
    um_mutex_lock(&stream->device->mutex); /* others may have the same queue */
    int32_t code = stream->device->vk.vkQueueSubmit(stream->queue, 1, &info, 0);
    um_mutex_unlock(&stream->device->mutex);
    return code;
}

um_status um_vk_flush(um_backend_stream *stream)
{
    um_vk_batch *batch = stream->open;
    if (!batch) return UM_OK;
    barrier(stream, VK_AT_HOST);
    int32_t code = stream->device->vk.vkEndCommandBuffer(batch->commands);
    if (code == 0 && !stream->records) code = submit(stream, batch);
    if (code != 0) {
        um_vk_fail("vkQueueSubmit", code);
        um_error_keep(&stream->error, um_last_error());
        um_vk_discard(stream);
        return um_fail_again(&stream->error);
    }
    stream->open = NULL;
    *(stream->first ? &stream->newest->next : &stream->first) = batch;
    stream->newest = batch;
    stream->batch_count++;
    return UM_OK;
}

static void look_at(um_backend_stream *stream, const um_vk_fault *fault)
{
    const volatile uint32_t *word = fault->host;
    for (int32_t i = 0; i < fault->count; i++)
        if (word[i]) um_error_keep(&stream->error, &fault->findings[i].error);
}

void um_vk_settle_to(um_backend_stream *stream, uint64_t value, int32_t code)
{
    if (code < 0) {
        um_error saved = *um_last_error();
        um_vk_fail("waiting for a stream", code);
        um_error_keep(&stream->error, um_last_error());
        um_fail_again(&saved);
        value = code == VK_LOST ? UINT64_MAX : 0; /* one that is lost does nothing any more */
    }
    while (stream->first && stream->first->number <= value) {
        um_vk_batch *batch = stream->first;
        stream->first = batch->next;
        stream->batch_count--;
        stream->staged_bytes -= batch->staged_bytes;
        for (int64_t i = 0; i < batch->held_count; i++)
            if (batch->held[i].fault) look_at(stream, batch->held[i].fault);
        um_vk_give_batch(stream->device, batch);
    }
}

/* Without an answer nothing is done, yet. */
void um_vk_settle(um_backend_stream *stream)
{
    const um_backend_device *device = stream->device;
    uint64_t value = 0;
    if (!stream->first || stream->records) return;
    int32_t code =
        device->vk.vkGetSemaphoreCounterValue(device->handle, stream->timeline->semaphore, &value);
    if (code == 0 || code == VK_LOST) um_vk_settle_to(stream, value, code);
}
