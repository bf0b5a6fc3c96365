/* backend/vulkan/batch.c: commands on their way. A stream records into one batch, which is
 * submitted when somebody asks for its end, or it is full, or the device has nothing else to do;
 * batches are used again, with their pools. Here the stream's mutex is held, but where vulkan.h
 * says otherwise.
 */
#include "backend/vulkan/vulkan.h"

enum {
    COMMANDS_MAX = 128,
    COMMANDS_EAGER = 16, /* so many are worth a submission to an idle device */
    DESCRIPTORS_MAX = 8 * COMMANDS_MAX,
    STAGED_MAX = 32 << 20,
    STAGING_LEAST = 1 << 18
};

/* ---- what batches hold ------------------------------------------------------------------------
 */

um_status um_vk_timeline_create(um_backend_device *device, um_vk_timeline **out)
{
    vk_timeline_info timeline = {.type = VK_IS_TIMELINE, .is_timeline = 1, .value = 1};
    vk_semaphore_info info = {.type = VK_IS_SEMAPHORE, .next = &timeline};
    um_vk_timeline *t = um_mem_zalloc(sizeof *t);
    *out = NULL;
    if (!t) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a stream");
    int32_t code = device->vk.vkCreateSemaphore(device->handle, &info, NULL, &t->semaphore);
    if (code != 0) {
        um_mem_free(t);
        return um_vk_fail("vkCreateSemaphore", code);
    }
    t->refs = 1;
    *out = t;
    return UM_OK;
}

void um_vk_timeline_unref(um_backend_device *device, um_vk_timeline *timeline)
{
    if (!timeline || atomic_fetch_sub(&timeline->refs, 1) > 1) return;
    device->vk.vkDestroySemaphore(device->handle, timeline->semaphore, NULL);
    um_mem_free(timeline);
}

void um_vk_fault_unref(um_backend_device *device, um_vk_fault *fault)
{
    if (atomic_fetch_sub(&fault->refs, 1) > 1) return;
    um_mutex_lock(&device->mutex);
    device->fault_free[device->fault_free_count++] = fault->word;
    um_mutex_unlock(&device->mutex);
    um_mem_free(fault);
}

static void let_go(um_backend_device *device, const um_vk_held *held)
{
    switch (held->what) {
    case UM_VK_HOLDS_PROGRAM: um_vk_program_destroy(device, held->object); return;
    case UM_VK_HOLDS_FAULT: um_vk_fault_unref(device, held->object); return;
    case UM_VK_HOLDS_TIMELINE: um_vk_timeline_unref(device, held->object); return;
    case UM_VK_HOLDS_STAGING: um_vk_staging_give(device, held->object); return;
    case UM_VK_HOLDS_MEMORY: um_vk_free(device, held->memory); return;
    }
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

/* ---- a batch's life ---------------------------------------------------------------------------
 */

static void batch_destroy(const um_backend_device *device, um_vk_batch *batch)
{
    if (batch->pool) device->vk.vkDestroyCommandPool(device->handle, batch->pool, NULL);
    if (batch->sets) device->vk.vkDestroyDescriptorPool(device->handle, batch->sets, NULL);
    um_mem_free(batch->held);
    um_mem_free(batch);
}

void um_vk_batches_release(um_backend_device *device)
{
    for (um_vk_batch *batch = device->idle, *next; batch; batch = next) {
        next = batch->next;
        batch_destroy(device, batch);
    }
}

static um_status fill_batch(const um_backend_device *device, um_vk_batch *batch)
{
    vk_command_pool_info pool = {
        .type = VK_IS_COMMAND_POOL, .flags = VK_POOL_TRANSIENT, .family = device->physical->family};
    UM_VK_TRY(device, vkCreateCommandPool, device->handle, &pool, NULL, &batch->pool);
    vk_commands_info commands = {.type = VK_IS_COMMANDS, .pool = batch->pool, .count = 1};
    UM_VK_TRY(device, vkAllocateCommandBuffers, device->handle, &commands, &batch->commands);
    if (device->by_address) return UM_OK;
    vk_pool_size size = {VK_STORAGE_DESCRIPTOR, DESCRIPTORS_MAX};
    vk_set_pool_info sets = {
        .type = VK_IS_SET_POOL, .sets_max = COMMANDS_MAX, .size_count = 1, .size = &size};
    UM_VK_TRY(device, vkCreateDescriptorPool, device->handle, &sets, NULL, &batch->sets);
    return UM_OK;
}

static um_status take_batch(um_backend_device *device, um_vk_batch **out)
{
    um_mutex_lock(&device->mutex);
    um_vk_batch *batch = device->idle;
    if (batch) device->idle = batch->next;
    um_mutex_unlock(&device->mutex);
    *out = batch;
    if (!batch) {
        batch = um_mem_zalloc(sizeof *batch);
        if (!batch) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for commands");
        um_status status = fill_batch(device, batch);
        if (status != UM_OK) {
            batch_destroy(device, batch);
            return status;
        }
        *out = batch;
    }
    batch->next = NULL;
    batch->staging = NULL;
    batch->staged_bytes = 0;
    batch->command_count = batch->descriptor_count = batch->wait_count = 0;
    return UM_OK;
}

/* With what it held. Nothing of it runs any more. */
static void give_batch(um_backend_device *device, um_vk_batch *batch)
{
    for (int64_t i = 0; i < batch->held_count; i++) let_go(device, &batch->held[i]);
    batch->held_count = 0;
    um_mutex_lock(&device->mutex);
    batch->next = device->idle;
    device->idle = batch;
    um_mutex_unlock(&device->mutex);
}

/* ---- recording --------------------------------------------------------------------------------
 */

static void barrier(um_backend_stream *stream)
{
    enum { AT = VK_AT_COMPUTE | VK_AT_TRANSFER };
    vk_barrier memory = {.type = VK_IS_BARRIER,
                         .from = VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE,
                         .to = VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE |
                               VK_ACCESS_TRANSFER_READ | VK_ACCESS_TRANSFER_WRITE};
    stream->device->vk.vkCmdPipelineBarrier(stream->open->commands, AT, AT, 0, 1, &memory, 0, NULL,
                                            0, NULL);
    stream->use_count = 0;
}

static um_status open_batch(um_backend_stream *stream)
{
    const um_backend_device *device = stream->device;
    vk_begin_info begin = {.type = VK_IS_BEGIN, .flags = VK_BEGIN_ONCE};
    um_vk_batch *batch;
    UM_TRY(take_batch(stream->device, &batch));
    int32_t code = device->vk.vkResetCommandPool(device->handle, batch->pool, 0);
    if (code == 0 && batch->sets)
        code = device->vk.vkResetDescriptorPool(device->handle, batch->sets, 0);
    if (code == 0) code = device->vk.vkBeginCommandBuffer(batch->commands, &begin);
    if (code != 0) {
        give_batch(stream->device, batch);
        return um_vk_fail("vkBeginCommandBuffer", code);
    }
    batch->number = ++stream->last;
    stream->open = batch;
    barrier(stream); /* behind what was submitted before, of this stream or one waited for */
    return UM_OK;
}

/* Whether the device has nothing of the stream to do. */
static bool is_idle(um_backend_stream *stream)
{
    um_vk_settle(stream);
    return stream->first == NULL;
}

um_status um_vk_begin(um_backend_stream *stream, int32_t descriptors)
{
    const um_vk_batch *batch = stream->open;
    bool full =
        batch &&
        (batch->command_count == COMMANDS_MAX || batch->staged_bytes >= STAGED_MAX ||
         batch->descriptor_count + descriptors > DESCRIPTORS_MAX ||
         (batch->command_count && batch->command_count % COMMANDS_EAGER == 0 && is_idle(stream)));
    if (full) UM_TRY(um_vk_flush(stream));
    if (!stream->open) UM_TRY(open_batch(stream));
    stream->open->command_count++;
    stream->open->descriptor_count += descriptors;
    return UM_OK;
}

static bool meets(const um_backend_stream *stream, const um_vk_use *use)
{
    for (int32_t i = 0; i < stream->use_count; i++) {
        const um_vk_use *before = &stream->use[i];
        if ((before->written || use->written) && before->begin < use->end &&
            use->begin < before->end)
            return true;
    }
    return false;
}

void um_vk_order(um_backend_stream *stream, int32_t count, const um_vk_use *use)
{
    bool apart = stream->use_count + count > UM_VK_USES;
    for (int32_t i = 0; i < count && !apart; i++) apart = meets(stream, &use[i]);
    if (apart) barrier(stream);
    for (int32_t i = 0; i < count; i++) stream->use[stream->use_count++] = use[i];
}

um_status um_vk_stage(um_backend_stream *stream, uint64_t size_bytes, const um_vk_block **block,
                      uint64_t *offset)
{
    um_vk_batch *batch = stream->open;
    uint64_t rounded = (size_bytes + 255) / 256 * 256;
    if (!batch->staging || batch->staging->size_bytes - batch->staging_used < rounded) {
        um_vk_block *taken;
        UM_TRY(
            um_vk_staging_take(stream->device, UM_MAX(rounded, (uint64_t)STAGING_LEAST), &taken));
        UM_TRY(um_vk_keep(stream, (um_vk_held){.what = UM_VK_HOLDS_STAGING, .object = taken}));
        batch->staging = taken;
        batch->staging_used = 0;
    }
    *block = batch->staging;
    *offset = batch->staging_used;
    batch->staging_used += rounded;
    batch->staged_bytes += rounded;
    return UM_OK;
}

/* ---- submitting and settling ------------------------------------------------------------------
 */

void um_vk_become(um_backend_stream *stream, const um_error *error)
{
    if (stream->error.code == UM_OK) stream->error = *error;
}

void um_vk_discard(um_backend_stream *stream)
{
    um_vk_batch *batch = stream->open;
    stream->open = NULL;
    if (batch) give_batch(stream->device, batch);
}

static int32_t submit(um_backend_stream *stream, const um_vk_batch *batch)
{
    uint32_t at[UM_VK_WAITS];
    for (int32_t i = 0; i < batch->wait_count; i++) at[i] = VK_AT_COMPUTE | VK_AT_TRANSFER;
    vk_timeline_submit values = {.type = VK_IS_TIMELINE_SUBMIT,
                                 .wait_count = (uint32_t)batch->wait_count,
                                 .wait = batch->wait_value,
                                 .signal_count = 1,
                                 .signal = &batch->number};
    vk_submit_info info = {.type = VK_IS_SUBMIT,
                           .next = &values,
                           .wait_count = (uint32_t)batch->wait_count,
                           .wait = batch->wait,
                           .wait_at = at,
                           .commands_count = 1,
                           .commands = &batch->commands,
                           .signal_count = 1,
                           .signal = &stream->timeline->semaphore};
    um_mutex_lock(&stream->queue->mutex);
    int32_t code = stream->device->vk.vkQueueSubmit(stream->queue->handle, 1, &info, 0);
    um_mutex_unlock(&stream->queue->mutex);
    return code;
}

um_status um_vk_flush(um_backend_stream *stream)
{
    const um_vk_calls *vk = &stream->device->vk;
    um_vk_batch *batch = stream->open;
    if (!batch) return UM_OK;
    vk_barrier host = {.type = VK_IS_BARRIER,
                       .from = VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE,
                       .to = VK_ACCESS_HOST_READ};
    vk->vkCmdPipelineBarrier(batch->commands, VK_AT_COMPUTE | VK_AT_TRANSFER, VK_AT_HOST, 0, 1,
                             &host, 0, NULL, 0, NULL);
    int32_t code = vk->vkEndCommandBuffer(batch->commands);
    if (code == 0) code = submit(stream, batch);
    if (code != 0) {
        um_vk_fail("vkQueueSubmit", code);
        um_vk_become(stream, um_last_error());
        um_vk_discard(stream);
        return um_fail_again(&stream->error);
    }
    stream->open = NULL;
    *(stream->first ? &stream->newest->next : &stream->first) = batch;
    stream->newest = batch;
    return UM_OK;
}

static void look_at(um_backend_stream *stream, const um_vk_batch *batch)
{
    const uint32_t *words = (const uint32_t *)(const void *)stream->device->fault_words->mapped;
    for (int64_t i = 0; i < batch->held_count; i++) {
        if (batch->held[i].what != UM_VK_HOLDS_FAULT) continue;
        const um_vk_fault *fault = batch->held[i].object;
        if (((const volatile uint32_t *)words)[fault->word]) um_vk_become(stream, &fault->error);
    }
}

void um_vk_settle_to(um_backend_stream *stream, uint64_t value, const char *call, int32_t code)
{
    if (code < 0) {
        um_error saved = *um_last_error();
        um_vk_fail(call, code);
        um_vk_become(stream, um_last_error());
        um_fail_again(&saved);
        value = UINT64_MAX; /* a device that is lost does nothing any more */
    }
    while (stream->first && stream->first->number <= value) {
        um_vk_batch *batch = stream->first;
        stream->first = batch->next;
        look_at(stream, batch);
        give_batch(stream->device, batch);
    }
}

/* Without an answer nothing is done, yet. */
void um_vk_settle(um_backend_stream *stream)
{
    const um_backend_device *device = stream->device;
    uint64_t value = 0;
    if (!stream->first) return;
    int32_t code =
        device->vk.vkGetSemaphoreCounterValue(device->handle, stream->timeline->semaphore, &value);
    if (code == 0 || code == VK_LOST)
        um_vk_settle_to(stream, value, "vkGetSemaphoreCounterValue", code);
}

int32_t um_vk_await(um_backend_device *device, const um_vk_timeline *timeline, uint64_t value)
{
    vk_wait_info info = {
        .type = VK_IS_WAIT, .count = 1, .semaphore = &timeline->semaphore, .value = &value};
    int32_t code = VK_TIMEOUT;
    for (int tries = 0; code != 0 && code != VK_LOST && tries < 100; tries += code < 0)
        code = device->vk.vkWaitSemaphores(device->handle, &info, UINT64_MAX);
    return code;
}
