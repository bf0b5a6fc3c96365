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

/* Whether its commands mean what they meant: its memory is where it was, and nothing was found that
 * would be found again. */
static bool is_good(const um_backend_stream *recorder)
{
    um_mutex_lock(&recorder->device->mutex);
    bool good = um_block_list_holds(&recorder->places, &recorder->device->blocks);
    um_mutex_unlock(&recorder->device->mutex);
    for (const um_vk_fault *fault = recorder->faults; fault; fault = fault->next)
        good = good && !um_vk_is_found(fault);
    return good;
}

/* With the stream's mutex. */
static um_status replay(um_backend_stream *stream, um_backend_stream *recorder)
{
    const um_vk_fault *faults = recorder->faults;
    for (; faults && !recorder->was_replayed; faults = faults->next) {
        UM_TRY(um_vk_begin(stream));
        um_vk_fill_words(stream, faults->origin, UM_KFAULT_BYTES, 0);
    }
    for (const um_vk_batch *batch = recorder->first; batch; batch = batch->next) {
        UM_TRY(um_vk_begin(stream));
        um_vk_held held = um_vk_ref(&recorder->shared);
        held.fault = recorder->faults;
        UM_TRY(um_vk_keep(stream, held));
        stream->open->replayed = batch->commands;
        UM_TRY(um_vk_flush(stream));
    }
    recorder->was_replayed = true;
    return UM_OK;
}

um_status um_vk_replay(um_backend_stream *stream, um_backend_stream *recorder)
{
    UM_TRY(um_vk_flush(recorder)); /* what it noted last */
    UM_TRY(um_error_status(&recorder->error));
    UM_TRY(um_vk_make_room(stream));
    um_mutex_lock(&stream->mutex);
    um_status status = is_good(recorder) ? replay(stream, recorder) : UM_NOT_READY;
    um_mutex_unlock(&stream->mutex);
    return status;
}
