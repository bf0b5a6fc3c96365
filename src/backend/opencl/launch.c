/* backend/opencl/launch.c: an op as launches of the kernel library's plans, whose kernels are
 * rendered and compiled when they are met for the first time. */
#include "backend/opencl/stream.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>

/* What the driver makes of a kernel. */
typedef struct program {
    cl_any program, kernel;
    uint8_t element_bytes[UM_K_MAX_BUFFERS];
} program;

/* ---- programs ------------------------------------------------------------------------------- */

void um_cl_program_destroy(void *ctx, void *object)
{
    program *p = object;
    (void)ctx;
    if (p->kernel) um_cl.clReleaseKernel(p->kernel);
    if (p->program) um_cl.clReleaseProgram(p->program);
    um_mem_free(p);
}

/* What the compiler says, in one line. */
static um_status build_failed(const um_backend_device *device, const program *p, const char *name,
                              int32_t code)
{
    char log[300] = "";
    um_cl.clGetProgramBuildInfo(p->program, device->id, UM_CL_BUILD_LOG, sizeof log - 1, log, NULL);
    for (char *at = log; *at; at++)
        if (*at == '\n') *at = ' ';
    return um_backend_fail(UM_DEVICE_ERROR, "opencl", NULL, code,
                           "opencl: the driver does not compile kernel %s: %s", name, log);
}

static um_status build(const um_backend_device *device, const um_kernel *kernel,
                       const um_text *text, program *p)
{
    int32_t code = 0;
    const char *source = text->data;
    size_t size = (size_t)text->size;
    char entry[64];
    snprintf(entry, sizeof entry, "um_%s", kernel->name);
    p->program = um_cl.clCreateProgramWithSource(device->context, 1, &source, &size, &code);
    if (!p->program) return um_cl_fail("clCreateProgramWithSource", code);
    code = um_cl.clBuildProgram(p->program, 1, &device->id, device->build, NULL, NULL);
    if (code != 0) return build_failed(device, p, kernel->name, code);
    p->kernel = um_cl.clCreateKernel(p->program, entry, &code);
    return p->kernel ? UM_OK : um_cl_fail("clCreateKernel", code);
}

um_status um_cl_program_compile(void *ctx, const um_kernel *kernel, void **object)
{
    const um_backend_device *device = ctx;
    um_klacks lacks = um_text_lacks(UM_TARGET_OPENCL, device->types, 0);
    um_kernel *lowered = NULL;
    um_text text = {0};
    program *p = um_mem_zalloc(sizeof *p);
    if (!p) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory for a kernel");
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK) status = um_render_text(lowered, UM_TARGET_OPENCL, &text);
    if (status == UM_OK) status = build(device, lowered, &text, p);
    for (int32_t m = 0, b = 0; status == UM_OK && m < lowered->mem_count; m++)
        if (lowered->mem[m].space == UM_SPACE_BUFFER)
            p->element_bytes[b++] = (uint8_t)(um_ktype_bits(lowered->mem[m].type) / 8);
    um_text_release(&text);
    um_kernel_release(lowered);
    if (status == UM_OK)
        *object = p;
    else
        um_cl_program_destroy(ctx, p);
    return status;
}

/* ---- launches ------------------------------------------------------------------------------- */

static int32_t set_buffer(um_backend_stream *stream, const program *p, int32_t number,
                          const um_kbinding *b)
{
    uint64_t offset = b->begin;
    cl_any mem =
        b->scratch ? stream->scratch : um_cl_find_locked(stream->device, b->begin, &offset);
    uint64_t base = offset / p->element_bytes[number];
    int32_t code = um_cl.clSetKernelArg(p->kernel, (uint32_t)(2 * number), sizeof mem, &mem);
    if (code != 0) return code;
    return um_cl.clSetKernelArg(p->kernel, (uint32_t)(2 * number + 1), sizeof base, &base);
}

/* With the device's mutex held: a kernel keeps its arguments in itself. */
static um_status launch(um_backend_stream *stream, um_klaunch *l)
{
    void *object;
    size_t global[3], local[3];
    int32_t code = 0;
    for (int i = 0; i < 3; i++) {
        if (l->group_count[i] == 0) return UM_OK;
        local[i] = l->kernel->group_size[i];
        global[i] = local[i] * l->group_count[i];
    }
    UM_TRY(um_kcache_compiled(l, &object));
    const program *p = object;
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
static um_status prepare_scratch(um_backend_stream *stream, uint64_t size_bytes)
{
    static const uint32_t zero = 0;
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
    if (size_bytes == 0) return UM_OK;
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
    fault->error.code = UM_OUT_OF_RANGE;
    snprintf(fault->error.backend, sizeof fault->error.backend, "opencl");
    snprintf(fault->error.op, sizeof fault->error.op, "%s", um_op_name(op->id));
    snprintf(fault->error.message, sizeof fault->error.message, "%s", plan->fault);
    int32_t code = um_cl.clEnqueueReadBuffer(stream->queue, stream->scratch, 0, 0,
                                             sizeof fault->found, &fault->found, 0, NULL, &event);
    if (code != 0) {
        um_mem_free(fault);
        return um_cl_fail("clEnqueueReadBuffer", code);
    }
    um_cl_note(stream, (um_cl_item){.event = event, .fault = fault});
    return UM_OK;
}

static um_status enqueue_plan(void *ctx, const um_op *op, um_kplan *plan)
{
    um_backend_stream *stream = ctx;
    um_status status = prepare_scratch(stream, plan->scratch_bytes);
    um_mutex_lock(&stream->device->mutex);
    for (int32_t i = 0; i < plan->launch_count && status == UM_OK; i++)
        status = launch(stream, &plan->launch[i]);
    um_mutex_unlock(&stream->device->mutex);
    return status == UM_OK ? fetch_fault(stream, op, plan) : status;
}

um_status um_cl_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form)
{
    const um_backend_device *device = stream->device;
    UM_TRY(um_cl_state(stream));
    um_status status =
        um_planner_run(device->kernels, &device->limits, op, form, enqueue_plan, stream);
    return status == UM_OK ? UM_OK : um_fail_tag("opencl", um_op_name(op->id));
}

um_status um_cl_enqueue(um_backend_stream *stream, const um_op *op)
{
    return um_cl_enqueue_form(stream, op, 0);
}
