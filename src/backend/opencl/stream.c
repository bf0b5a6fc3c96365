/* backend/opencl/stream.c: an in-order queue each. A ticket is a marker's event; events that are
 * done are let go when somebody asks or gives more work, which is also when what an op found out
 * late becomes its stream's error. */
#include "backend/opencl/stream.h"

enum { AHEAD_BYTES = 128 << 20 }; /* of the host's memory, for what is on its way */

/* ---- items ---------------------------------------------------------------------------------- */

/* Here and below, what is not an entry of the backend is called with the device's mutex held. */

static void fault_unref(um_backend_device *device, um_cl_fault *fault)
{
    if (!fault || --fault->refs > 0) return;
    fault->next = device->unused;
    device->unused = fault;
}

um_cl_fault *um_cl_fault_get(um_backend_device *device, const um_error *error)
{
    um_mutex_lock(&device->mutex);
    um_cl_fault *fault = device->unused;
    if (fault) device->unused = fault->next;
    um_mutex_unlock(&device->mutex);
    if (!fault) fault = um_mem_alloc(sizeof *fault);
    if (fault)
        *fault = (um_cl_fault){.refs = 1, .error = *error};
    else
        UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory to note what an op finds out");
    return fault;
}

static um_status reserve(um_backend_stream *stream)
{
    if (stream->first > 0 && stream->count == stream->capacity) {
        stream->count -= stream->first;
        memmove(stream->item, stream->item + stream->first,
                (size_t)stream->count * sizeof *stream->item);
        stream->first = 0;
    }
    void *items = stream->item;
    um_status status =
        um_vec_reserve(&items, &stream->capacity, stream->count, sizeof *stream->item, "opencl");
    stream->item = items;
    return status;
}

static void note(um_backend_stream *stream, um_cl_item item)
{
    stream->item[stream->count++] = item;
    stream->kept_bytes += item.bytes;
    stream->has_work = item.ticket == 0;
}

static void let_go(um_backend_device *device, um_cl_item *item)
{
    if (item->event) um_cl.clReleaseEvent(item->event);
    um_mem_free(item->memory);
    fault_unref(device, item->fault);
}

static void look_at(um_backend_stream *stream, const um_cl_item *item, int32_t event_status)
{
    if (event_status < 0) {
        um_error saved = *um_last_error();
        um_cl_fail("a command", event_status);
        um_error_keep(&stream->error, um_last_error());
        um_fail_again(&saved);
    } else if (item->fault && item->fault->found) {
        um_error_keep(&stream->error, &item->fault->error);
    }
}

/* Lets go of what is done. */
static void settle(um_backend_stream *stream)
{
    for (; stream->first < stream->count; stream->first++) {
        um_cl_item *item = &stream->item[stream->first];
        int32_t event_status = 0, code = 0;
        if (item->event)
            code = um_cl.clGetEventInfo(item->event, UM_CL_EVENT_STATUS, sizeof event_status,
                                        &event_status, NULL);
        if (code != 0) {
            event_status = code;
            um_cl.clWaitForEvents(1, &item->event); /* memory may be in the driver's hands */
        }
        if (event_status > 0) return;
        look_at(stream, item, event_status);
        if (item->ticket) stream->done = item->ticket;
        stream->kept_bytes -= item->bytes;
        let_go(stream->device, item);
    }
    stream->first = stream->count = 0;
}

void um_cl_note(um_backend_stream *stream, um_cl_item item)
{
    um_error saved = *um_last_error();
    int32_t event_status = 0;
    um_mutex_lock(&stream->device->mutex);
    if (reserve(stream) == UM_OK) {
        note(stream, item);
    } else { /* no memory to keep it */
        um_fail_again(&saved);
        um_cl.clWaitForEvents(1, &item.event);
        um_cl.clGetEventInfo(item.event, UM_CL_EVENT_STATUS, sizeof event_status, &event_status,
                             NULL);
        look_at(stream, &item, event_status);
        let_go(stream->device, &item);
    }
    um_mutex_unlock(&stream->device->mutex);
}

um_status um_cl_state(um_backend_stream *stream)
{
    um_mutex_lock(&stream->device->mutex);
    settle(stream);
    um_status status = um_error_status(&stream->error);
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

um_status um_cl_stream_create(um_backend_device *device, um_backend_stream **out)
{
    int32_t code = 0;
    *out = NULL;
    um_backend_stream *stream = um_mem_zalloc(sizeof *stream);
    if (!stream) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory for a stream");
    stream->device = device;
    stream->queue = um_cl.clCreateCommandQueue(device->context, device->id, 0, &code);
    if (!stream->queue) {
        um_mem_free(stream);
        return um_cl_fail("clCreateCommandQueue", code);
    }
    *out = stream;
    return UM_OK;
}

void um_cl_stream_destroy(um_backend_stream *stream)
{
    if (stream->is_recorder) {
        um_cl_recorder_destroy(stream);
        return;
    }
    bool finished = um_cl.clFinish(stream->queue) == 0;
    for (int64_t i = stream->first; i < stream->count; i++) {
        /* else memory may go under the driver's hands */
        if (!finished) um_cl.clWaitForEvents(1, &stream->item[i].event);
        um_mutex_lock(&stream->device->mutex);
        let_go(stream->device, &stream->item[i]);
        um_mutex_unlock(&stream->device->mutex);
    }
    if (stream->scratch) um_cl.clReleaseMemObject(stream->scratch);
    um_cl.clReleaseCommandQueue(stream->queue);
    um_mem_free(stream->item);
    um_mem_free(stream);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* A marker is sent off at once: somebody will ask for it. */
static um_status record(um_backend_stream *stream)
{
    cl_any event = NULL;
    if (!stream->has_work && stream->given > 0) return UM_OK;
    UM_TRY(reserve(stream));
    int32_t code = um_cl.clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event);
    if (code != 0) return um_cl_fail("clEnqueueMarkerWithWaitList", code);
    note(stream, (um_cl_item){.ticket = ++stream->given, .event = event});
    code = um_cl.clFlush(stream->queue);
    return code == 0 ? UM_OK : um_cl_fail("clFlush", code);
}

um_status um_cl_record(um_backend_stream *stream, uint64_t *ticket)
{
    um_mutex_lock(&stream->device->mutex);
    um_status status = record(stream);
    *ticket = stream->given;
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

static um_status retain(cl_any event)
{
    int32_t code = um_cl.clRetainEvent(event);
    return code == 0 ? UM_OK : um_cl_fail("clRetainEvent", code);
}

/* The first marker that the ticket is behind, held for the caller; NULL: it is done. */
static um_status find_marker(um_backend_stream *stream, uint64_t ticket, cl_any *out)
{
    *out = NULL;
    for (int64_t i = stream->first; i < stream->count; i++) {
        const um_cl_item *item = &stream->item[i];
        if (item->ticket < ticket || item->ticket == 0) continue;
        UM_TRY(retain(item->event));
        *out = item->event;
        return UM_OK;
    }
    return UM_OK;
}

/* What the work up to there may still find out becomes the stream's business too. */
static um_status share_faults(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    for (int64_t i = other->first; i < other->count; i++) {
        um_cl_item item = {.event = other->item[i].event, .fault = other->item[i].fault};
        if (item.fault) {
            UM_TRY(reserve(stream));
            UM_TRY(retain(item.event));
            item.fault->refs++;
            note(stream, item);
        }
        if (other->item[i].ticket >= ticket) break;
    }
    return UM_OK;
}

um_status um_cl_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    cl_any marker = NULL;
    um_mutex_lock(&stream->device->mutex);
    um_status status = um_error_status(&stream->error);
    settle(other);
    if (status == UM_OK) um_error_keep(&stream->error, &other->error);
    if (status == UM_OK && stream->error.code == UM_OK)
        status = find_marker(other, ticket, &marker);
    if (marker) status = share_faults(stream, other, ticket);
    if (marker && status == UM_OK) {
        int32_t code = um_cl.clEnqueueBarrierWithWaitList(stream->queue, 1, &marker, NULL);
        if (code != 0) status = um_cl_fail("clEnqueueBarrierWithWaitList", code);
        stream->has_work = true;
    }
    if (marker) um_cl.clReleaseEvent(marker);
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

um_status um_cl_query(um_backend_stream *stream, uint64_t ticket)
{
    um_mutex_lock(&stream->device->mutex);
    um_status status = ticket == UINT64_MAX ? record(stream) : UM_OK;
    if (status == UM_OK) {
        settle(stream);
        status = um_error_status(&stream->error);
        if (status == UM_OK && UM_MIN(ticket, stream->given) > stream->done) status = UM_NOT_READY;
    }
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

um_status um_cl_synchronize(um_backend_stream *stream, uint64_t ticket)
{
    int32_t code = 0;
    cl_any marker = NULL;
    um_mutex_lock(&stream->device->mutex);
    um_status status = ticket == UINT64_MAX ? UM_OK : find_marker(stream, ticket, &marker);
    um_mutex_unlock(&stream->device->mutex);
    UM_TRY(status);
    if (marker) {
        code = um_cl.clWaitForEvents(1, &marker);
        um_cl.clReleaseEvent(marker);
    } else if (ticket == UINT64_MAX) {
        code = um_cl.clFinish(stream->queue);
    }
    if (code != 0) um_cl_fail(marker ? "clWaitForEvents" : "clFinish", code);
    um_mutex_lock(&stream->device->mutex);
    if (code != 0) um_error_keep(&stream->error, um_last_error());
    settle(stream);
    status = um_error_status(&stream->error);
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

um_status um_cl_clear_error(um_backend_stream *stream)
{
    um_mutex_lock(&stream->device->mutex);
    settle(stream);
    um_status status = um_error_status(&stream->error);
    stream->error = (um_error){.code = UM_OK};
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

um_status um_cl_worked(um_backend_stream *stream, um_status status)
{
    um_mutex_lock(&stream->device->mutex);
    stream->has_work = true;
    um_mutex_unlock(&stream->device->mutex);
    return status;
}

static bool has_room(um_backend_stream *stream, uint64_t size_bytes)
{
    um_mutex_lock(&stream->device->mutex);
    bool has = stream->kept_bytes + size_bytes <= AHEAD_BYTES;
    um_mutex_unlock(&stream->device->mutex);
    return has;
}

/* From a copy, which goes when it is done; where copies take much memory already, at once. */
um_status um_cl_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes)
{
    uint64_t offset;
    cl_any event = NULL;
    UM_TRY(um_cl_state(stream));
    if (!has_room(stream, size_bytes)) {
        cl_any at = um_cl_find(stream->device, dst, &offset);
        int32_t code = um_cl.clEnqueueWriteBuffer(stream->queue, at, 1, offset, (size_t)size_bytes,
                                                  src, 0, NULL, NULL);
        return um_cl_worked(stream, code == 0 ? UM_OK : um_cl_fail("clEnqueueWriteBuffer", code));
    }
    void *copy = um_mem_alloc((size_t)size_bytes);
    if (!copy)
        return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory to keep %llu bytes until they are sent",
                       (unsigned long long)size_bytes);
    memcpy(copy, src, (size_t)size_bytes);
    cl_any mem = um_cl_find(stream->device, dst, &offset);
    int32_t code = um_cl.clEnqueueWriteBuffer(stream->queue, mem, 0, offset, (size_t)size_bytes,
                                              copy, 0, NULL, &event);
    if (code != 0) {
        um_mem_free(copy);
        return um_cl_fail("clEnqueueWriteBuffer", code);
    }
    um_cl_note(stream, (um_cl_item){.event = event, .memory = copy, .bytes = size_bytes});
    return UM_OK;
}

um_status um_cl_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    uint64_t offset;
    UM_TRY(um_cl_state(stream));
    cl_any mem = um_cl_find(stream->device, src, &offset);
    int32_t code = um_cl.clEnqueueReadBuffer(stream->queue, mem, 1, offset, (size_t)size_bytes, dst,
                                             0, NULL, NULL);
    um_status status = um_cl_state(stream);
    return status != UM_OK || code == 0 ? status : um_cl_fail("clEnqueueReadBuffer", code);
}

um_status um_cl_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    um_cl_step step = {.kind = UM_CL_COPY, .size_bytes = (size_t)size_bytes};
    UM_TRY(um_cl_state(stream));
    step.dst = um_cl_find(stream->device, dst, &step.to);
    step.src = um_cl_find(stream->device, src, &step.from);
    return um_cl_worked(stream, um_cl_run(stream, &step));
}

/* OpenCL fills from a multiple of the pattern's size on. */
um_status um_cl_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                     uint32_t pattern_bytes)
{
    um_cl_step step = {
        .kind = UM_CL_FILL, .pattern_bytes = pattern_bytes, .size_bytes = (size_t)size_bytes};
    UM_TRY(um_cl_state(stream));
    step.dst = um_cl_find(stream->device, dst, &step.to);
    if (step.to % pattern_bytes != 0)
        return um_kdriver_fill(stream, um_cl_enqueue, dst, size_bytes, pattern, pattern_bytes);
    memcpy(step.pattern, &pattern, pattern_bytes);
    return um_cl_worked(stream, um_cl_run(stream, &step));
}
