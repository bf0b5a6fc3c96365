/* backend/vulkan/recorder.c: what a stream does again and again. A recorder is a stream whose
 * batches are not submitted and stay; replaying them is a submission each. */
#include "backend/vulkan/vulkan.h"

/* Once nobody replays it any more. */
static void destroy(um_backend_device *device, void *self)
{
    um_backend_stream *recorder = self;
    um_vk_discard(recorder);
    for (um_vk_batch *batch; (batch = recorder->first) != NULL;) {
        recorder->first = batch->next;
        um_vk_give_batch(device, batch);
    }
    if (recorder->scratch) um_vk_free(device, recorder->scratch);
    um_mem_free(recorder->places.at);
    um_mem_free(recorder->finding);
    recorder->timeline->last = recorder->last;
    um_vk_unref(device, recorder->timeline);
    um_mutex_destroy(&recorder->mutex);
    um_mem_free(recorder);
}

um_status um_vk_recorder(um_backend_stream *stream, um_backend_stream **out)
{
    UM_TRY(um_vk_stream_create(stream->device, out));
    (*out)->shared = (um_vk_shared){1, destroy};
    (*out)->records = true;
    return UM_OK;
}

void um_vk_note(um_backend_stream *recorder, int32_t count, const um_use *use)
{
    um_status status = UM_OK;
    um_mutex_lock(&recorder->device->mutex);
    for (int32_t i = 0; i < count && status == UM_OK; i++)
        status = um_block_list_add(&recorder->places, &recorder->device->blocks, use[i].begin);
    um_mutex_unlock(&recorder->device->mutex);
    if (status != UM_OK) um_error_keep(&recorder->error, um_last_error());
}

um_status um_vk_collect(um_backend_stream *recorder, const um_error *error)
{
    int64_t count = recorder->finding_count;
    void *items = recorder->finding;
    um_status status = um_vec_reserve(&items, &recorder->finding_capacity, count,
                                      sizeof *recorder->finding, "vulkan");
    recorder->finding = items;
    UM_TRY(status);
    UM_TRY(um_vk_begin(recorder));
    um_vk_finding *own = &recorder->finding[count];
    own->error = *error;
    if (count % UM_VK_WORDS == 0) {
        um_vk_held words = {0};
        UM_TRY(um_vk_alloc(recorder->device, UM_VK_WORDS * sizeof(uint32_t), &words.memory));
        UM_TRY(um_vk_keep(recorder, words));
        own->word = words.memory;
    } else {
        own->word = own[-1].word + sizeof(uint32_t);
    }
    recorder->finding_count++;
    um_vk_copy_bytes(recorder, own->word, recorder->scratch, sizeof(uint32_t));
    return UM_OK;
}

/* With the stream's mutex. What was found is fetched behind each replay for itself. */
static um_status replay(um_backend_stream *stream, um_backend_stream *recorder)
{
    for (const um_vk_batch *batch = recorder->first; batch; batch = batch->next) {
        UM_TRY(um_vk_begin(stream));
        UM_TRY(um_vk_keep(stream, um_vk_ref(&recorder->shared)));
        stream->open->replayed = batch->commands;
        UM_TRY(um_vk_flush(stream));
    }
    for (int64_t i = 0; i < recorder->finding_count; i += UM_VK_WORDS)
        UM_TRY(um_vk_fetch(stream, (int32_t)UM_MIN(recorder->finding_count - i, UM_VK_WORDS),
                           &recorder->finding[i], recorder));
    return UM_OK;
}

um_status um_vk_replay(um_backend_stream *stream, um_backend_stream *recorder)
{
    um_backend_device *device = stream->device;
    UM_TRY(um_vk_flush(recorder)); /* what it noted last */
    UM_TRY(um_error_status(&recorder->error));
    um_mutex_lock(&device->mutex);
    bool good = um_block_list_holds(&recorder->places, &device->blocks);
    um_mutex_unlock(&device->mutex);
    if (!good) return UM_NOT_READY; /* memory went that its commands use */
    UM_TRY(um_vk_make_room(stream));
    um_mutex_lock(&stream->mutex);
    um_vk_settle(stream);
    um_status status = replay(stream, recorder);
    um_mutex_unlock(&stream->mutex);
    return status;
}
