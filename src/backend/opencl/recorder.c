/* backend/opencl/recorder.c: commands for a queue, and recorders, which note them. A replay asks
 * for each command again, and the queue is in order: that is as if the ops were enqueued again. */
#include "backend/opencl/stream.h"

/* ---- commands ------------------------------------------------------------------------------- */

static um_status fetch_fault(um_backend_stream *stream, const um_cl_step *s)
{
    cl_any event = NULL;
    um_cl_fault *fault = um_cl_fault_get(stream->device, s->error);
    if (!fault) return UM_OUT_OF_MEMORY;
    int32_t code = um_cl.clEnqueueReadBuffer(stream->queue, s->src, 0, 0, sizeof fault->found,
                                             &fault->found, 0, NULL, &event);
    if (code != 0) {
        um_mem_free(fault);
        return um_cl_fail("clEnqueueReadBuffer", code);
    }
    um_cl_note(stream, (um_cl_item){.event = event, .fault = fault});
    return UM_OK;
}

static um_status enqueue(um_backend_stream *stream, const um_cl_step *s)
{
    const char *call = NULL;
    int32_t code = 0;
    switch (s->kind) {
    case UM_CL_KERNEL:
        call = "clEnqueueNDRangeKernel";
        code = um_cl.clEnqueueNDRangeKernel(stream->queue, s->kernel, 3, NULL, s->global, s->local,
                                            0, NULL, NULL);
        break;
    case UM_CL_COPY:
        call = "clEnqueueCopyBuffer";
        code = um_cl.clEnqueueCopyBuffer(stream->queue, s->src, s->dst, s->from, s->to,
                                         s->size_bytes, 0, NULL, NULL);
        break;
    case UM_CL_FILL:
        call = "clEnqueueFillBuffer";
        code = um_cl.clEnqueueFillBuffer(stream->queue, s->dst, s->pattern, s->pattern_bytes, s->to,
                                         s->size_bytes, 0, NULL, NULL);
        break;
    case UM_CL_FAULT: return fetch_fault(stream, s);
    case UM_CL_KEEP: break;
    }
    return code == 0 ? UM_OK : um_cl_fail(call, code);
}

/* ---- recorders ------------------------------------------------------------------------------ */

static um_status note(um_backend_stream *recorder, const um_cl_step *s)
{
    um_cl_step own = *s;
    UM_TRY(um_vec_reserve((void **)&recorder->step, &recorder->step_capacity, recorder->step_count,
                          sizeof own, "opencl"));
    if (s->error) {
        own.error = um_mem_alloc(sizeof *own.error);
        if (!own.error) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory to record an op");
        *own.error = *s->error;
    }
    recorder->step[recorder->step_count++] = own;
    return UM_OK;
}

um_status um_cl_run(um_backend_stream *stream, const um_cl_step *step)
{
    return stream->is_recorder ? note(stream, step) : enqueue(stream, step);
}

um_status um_cl_recorder(um_backend_stream *stream, um_backend_stream **out)
{
    *out = um_mem_zalloc(sizeof **out);
    if (!*out) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory for a recorder");
    (*out)->device = stream->device;
    (*out)->is_recorder = true;
    return UM_OK;
}

um_status um_cl_replay(um_backend_stream *stream, um_backend_stream *recorder)
{
    um_status status = um_cl_state(stream);
    UM_TRY(status);
    for (int64_t i = 0; i < recorder->step_count && status == UM_OK; i++)
        status = enqueue(stream, &recorder->step[i]);
    return um_cl_worked(stream, status);
}

/* The driver keeps kernels and scratch until the work is done that uses them. */
void um_cl_recorder_destroy(um_backend_stream *recorder)
{
    for (int64_t i = 0; i < recorder->step_count; i++) {
        const um_cl_step *s = &recorder->step[i];
        if (s->kernel) um_cl.clReleaseKernel(s->kernel);
        if (s->kind == UM_CL_KEEP) um_cl.clReleaseMemObject(s->dst);
        um_mem_free(s->error);
    }
    if (recorder->scratch) um_cl.clReleaseMemObject(recorder->scratch);
    um_mem_free(recorder->step);
    um_mem_free(recorder);
}
