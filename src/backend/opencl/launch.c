/* backend/opencl/launch.c: an op as launches of the kernel library's plans. */
#include "backend/opencl/stream.h"

#include <stdio.h>

static int32_t set_buffer(um_backend_stream *stream, const um_cl_program *p, int32_t number,
                          const um_kbinding *b)
{
    uint64_t offset = b->begin;
    cl_any mem =
        b->scratch ? stream->scratch : um_cl_find_locked(stream->device, b->begin, &offset);
    uint64_t base = offset / p->buffers.element_bytes[number];
    int32_t code = um_cl.clSetKernelArg(p->kernel, (uint32_t)(2 * number), sizeof mem, &mem);
    if (code != 0) return code;
    return um_cl.clSetKernelArg(p->kernel, (uint32_t)(2 * number + 1), sizeof base, &base);
}

/* With the device's mutex held: a kernel keeps its arguments in itself. */
static um_status launch(um_backend_stream *stream, const um_cl_program *p, const um_klaunch *l)
{
    size_t global[3], local[3];
    int32_t code = 0;
    for (int i = 0; i < 3; i++) {
        if (l->group_count[i] == 0) return UM_OK;
        local[i] = l->kernel->group_size[i];
        global[i] = local[i] * l->group_count[i];
    }
    for (int32_t i = 0; i < l->buffer_count && code == 0; i++)
        code = set_buffer(stream, p, i, &l->buffer[i]);
    for (int32_t i = 0; i < l->scalar_count && code == 0; i++)
        code = um_cl.clSetKernelArg(p->kernel, (uint32_t)(2 * l->buffer_count + i),
                                    sizeof l->scalar[i], &l->scalar[i]);
    if (code != 0) return um_cl_fail("clSetKernelArg", code);
    code = um_cl.clEnqueueNDRangeKernel(stream->queue, p->kernel, 3, NULL, global, local, 0, NULL,
                                        NULL);
    stream->has_work = true;
    return code == 0 ? UM_OK : um_cl_fail("clEnqueueNDRangeKernel", code);
}

/* The stream's own, as large as any op needed: its work is in order. */
static um_status prepare_scratch(um_backend_stream *stream, const um_kplan *plan)
{
    static const uint32_t zero = 0;
    uint64_t size_bytes = plan->scratch_bytes;
    int32_t code = 0;
    if (size_bytes > stream->scratch_bytes) {
        enum { READ_WRITE = 1 };
        size_t rounded = (size_t)(size_bytes + 65535) / 65536 * 65536;
        cl_any mem =
            um_cl.clCreateBuffer(stream->device->context, READ_WRITE, rounded, NULL, &code);
        if (!mem) return um_cl_fail("clCreateBuffer", code);
        if (stream->scratch) um_cl.clReleaseMemObject(stream->scratch); /* once its work is done */
        stream->scratch = mem;
        stream->scratch_bytes = rounded;
    }
    if (!plan->fault[0]) return UM_OK;
    code = um_cl.clEnqueueFillBuffer(stream->queue, stream->scratch, &zero, sizeof zero, 0,
                                     UM_KFAULT_BYTES, 0, NULL, NULL);
    return code == 0 ? UM_OK : um_cl_fail("clEnqueueFillBuffer", code);
}

/* The op's word is read behind it, and looked at when somebody waits. */
static um_status fetch_fault(um_backend_stream *stream, const um_op *op, const um_kplan *plan)
{
    cl_any event = NULL;
    if (!plan->fault[0]) return UM_OK;
    um_cl_fault *fault = um_mem_zalloc(sizeof *fault);
    if (!fault) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory to note what an op finds out");
    fault->refs = 1;
    fault->error = um_kdriver_fault(&stream->device->k, op, plan);
    int32_t code = um_cl.clEnqueueReadBuffer(stream->queue, stream->scratch, 0, 0,
                                             sizeof fault->found, &fault->found, 0, NULL, &event);
    if (code != 0) {
        um_mem_free(fault);
        return um_cl_fail("clEnqueueReadBuffer", code);
    }
    um_cl_note(stream, (um_cl_item){.event = event, .fault = fault});
    return UM_OK;
}

static um_status enqueue_plan(um_backend_stream *stream, const um_op *op, const um_kplan *plan,
                              void *const *object)
{
    um_status status = prepare_scratch(stream, plan);
    um_mutex_lock(&stream->device->mutex);
    for (int32_t i = 0; i < plan->launch_count && status == UM_OK; i++)
        status = launch(stream, object[i], &plan->launch[i]);
    um_mutex_unlock(&stream->device->mutex);
    return status == UM_OK ? fetch_fault(stream, op, plan) : status;
}

um_status um_cl_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form)
{
    UM_TRY(um_cl_state(stream));
    return um_kdriver_run(&stream->device->k, op, form, enqueue_plan, stream);
}

um_status um_cl_enqueue(um_backend_stream *stream, const um_op *op)
{
    return um_cl_enqueue_form(stream, op, 0);
}
