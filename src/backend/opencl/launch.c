/* backend/opencl/launch.c: an op as launches of the kernel library's plans. */
#include "backend/opencl/stream.h"

#include <stdio.h>

static int32_t set_buffer(um_backend_stream *stream, const um_cl_program *p, cl_any kernel,
                          int32_t number, const um_kbinding *b)
{
    uint64_t offset = b->begin;
    cl_any mem =
        b->scratch ? stream->scratch : um_cl_find_locked(stream->device, b->begin, &offset);
    uint64_t base = offset / p->buffers.element_bytes[number];
    int32_t code = um_cl.clSetKernelArg(kernel, (uint32_t)(2 * number), sizeof mem, &mem);
    if (code != 0) return code;
    return um_cl.clSetKernelArg(kernel, (uint32_t)(2 * number + 1), sizeof base, &base);
}

static um_status set_arguments(um_backend_stream *stream, const um_cl_program *p, cl_any kernel,
                               const um_klaunch *l)
{
    int32_t code = 0;
    for (int32_t i = 0; i < l->buffer_count && code == 0; i++)
        code = set_buffer(stream, p, kernel, i, &l->buffer[i]);
    for (int32_t i = 0; i < l->scalar_count && code == 0; i++)
        code = um_cl.clSetKernelArg(kernel, (uint32_t)(2 * l->buffer_count + i),
                                    sizeof l->scalar[i], &l->scalar[i]);
    return code == 0 ? UM_OK : um_cl_fail("clSetKernelArg", code);
}

/* With the device's mutex held: a kernel keeps its arguments in itself. What is noted needs one of
 * its own for that. */
static um_status launch(um_backend_stream *stream, const um_cl_program *p, const um_klaunch *l)
{
    um_cl_step step = {.kind = UM_CL_KERNEL, .kernel = p->kernel};
    int32_t code = 0;
    for (int i = 0; i < 3; i++) {
        if (l->group_count[i] == 0) return UM_OK;
        step.local[i] = l->kernel->group_size[i];
        step.global[i] = step.local[i] * l->group_count[i];
    }
    if (stream->is_recorder) step.kernel = um_cl.clCreateKernel(p->program, p->name, &code);
    if (!step.kernel) return um_cl_fail("clCreateKernel", code);
    um_status status = set_arguments(stream, p, step.kernel, l);
    if (status == UM_OK) status = um_cl_run(stream, &step);
    if (status != UM_OK && stream->is_recorder) um_cl.clReleaseKernel(step.kernel);
    stream->has_work = true;
    return status;
}

/* Of one that is too small: the driver keeps it until its work is done, a recorder for the steps
 * that it has noted. */
static um_status drop_scratch(um_backend_stream *stream)
{
    const um_cl_step keep = {.kind = UM_CL_KEEP, .dst = stream->scratch};
    if (stream->is_recorder)
        UM_TRY(um_cl_run(stream, &keep));
    else
        um_cl.clReleaseMemObject(stream->scratch);
    stream->scratch = NULL;
    stream->scratch_bytes = 0;
    return UM_OK;
}

/* The stream's own, as large as any op needed: its work is in order. */
static um_status prepare_scratch(um_backend_stream *stream, const um_kplan *plan)
{
    uint64_t size_bytes = plan->scratch_bytes;
    int32_t code = 0;
    if (size_bytes > stream->scratch_bytes) {
        enum { READ_WRITE = 1 };
        size_t rounded = (size_t)(size_bytes + 65535) / 65536 * 65536;
        if (stream->scratch) UM_TRY(drop_scratch(stream));
        stream->scratch =
            um_cl.clCreateBuffer(stream->device->context, READ_WRITE, rounded, NULL, &code);
        if (!stream->scratch) return um_cl_fail("clCreateBuffer", code);
        stream->scratch_bytes = rounded;
    }
    if (!plan->fault[0]) return UM_OK;
    return um_cl_run(stream, &(um_cl_step){.kind = UM_CL_FILL,
                                           .dst = stream->scratch,
                                           .size_bytes = UM_KFAULT_BYTES,
                                           .pattern_bytes = 4});
}

/* The op's word is read behind it, and looked at when somebody waits. */
static um_status fetch_fault(um_backend_stream *stream, const um_op *op, const um_kplan *plan)
{
    if (!plan->fault[0]) return UM_OK;
    um_error error = um_kdriver_fault(&stream->device->k, op, plan);
    return um_cl_run(stream,
                     &(um_cl_step){.kind = UM_CL_FAULT, .src = stream->scratch, .error = &error});
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
