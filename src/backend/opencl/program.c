/* backend/opencl/program.c: kernels, rendered and compiled when they are met for the first time.
 * What the driver makes of one is kept on disk, for the next process, by its text and the build's
 * options.
 */
#include "backend/opencl/stream.h"
#include "render/render.h"

#include <stdio.h>

void um_cl_program_destroy(void *ctx, void *object)
{
    um_cl_program *p = object;
    (void)ctx;
    if (p->kernel) um_cl.clReleaseKernel(p->kernel);
    if (p->program) um_cl.clReleaseProgram(p->program);
    um_mem_free(p);
}

/* What the compiler says, in one line. */
static um_status build_failed(const um_backend_device *device, const um_cl_program *p, int32_t code)
{
    char log[300] = "";
    um_cl.clGetProgramBuildInfo(p->program, device->id, UM_CL_BUILD_LOG, sizeof log - 1, log, NULL);
    for (char *at = log; *at; at++)
        if (*at == '\n') *at = ' ';
    return um_backend_fail(UM_DEVICE_ERROR, "opencl", NULL, code,
                           "opencl: the driver does not compile kernel %s: %s", p->name, log);
}

/* The text is what the disk knows a program by. */
static um_status build(const um_backend_device *device, const um_text *text, um_cl_program *p)
{
    int32_t code = 0;
    const char *source = text->data;
    size_t size = (size_t)text->size;
    p->program = um_cl.clCreateProgramWithSource(device->context, 1, &source, &size, &code);
    if (!p->program) return um_cl_fail("clCreateProgramWithSource", code);
    code = um_cl.clBuildProgram(p->program, 1, &device->id, device->build, NULL, NULL);
    if (code != 0) return build_failed(device, p, code);
    p->kernel = um_cl.clCreateKernel(p->program, p->name, &code);
    return p->kernel ? UM_OK : um_cl_fail("clCreateKernel", code);
}

/* false: it has to be built. */
static bool load(const um_backend_device *device, const um_text *text, um_cl_program *p)
{
    um_disk_entry entry;
    int32_t code = 0, each = 0;
    if (!device->k.disk || !um_disk_get(device->k.disk, text->data, (size_t)text->size, &entry))
        return false;
    const uint8_t *binary = entry.data;
    size_t size = (size_t)entry.size_bytes;
    p->program = um_cl.clCreateProgramWithBinary(device->context, 1, &device->id, &size, &binary,
                                                 &each, &code);
    um_disk_entry_release(&entry);
    if (p->program &&
        um_cl.clBuildProgram(p->program, 1, &device->id, device->build, NULL, NULL) == 0)
        p->kernel = um_cl.clCreateKernel(p->program, p->name, &code);
    if (!p->kernel && p->program) {
        um_cl.clReleaseProgram(p->program);
        p->program = NULL;
    }
    return p->kernel != NULL;
}

static void save(const um_backend_device *device, const um_text *text, const um_cl_program *p)
{
    size_t size = 0;
    uint8_t *binary = NULL;
    if (!device->k.disk ||
        um_cl.clGetProgramInfo(p->program, UM_CL_BINARY_SIZES, sizeof size, &size, NULL) != 0 ||
        size == 0)
        return;
    um_error before = *um_last_error();
    binary = um_mem_alloc(size);
    if (binary &&
        um_cl.clGetProgramInfo(p->program, UM_CL_BINARIES, sizeof binary, &binary, NULL) == 0)
        um_disk_put(device->k.disk, text->data, (size_t)text->size, binary, size);
    um_mem_free(binary);
    um_fail_again(&before);
}

um_status um_cl_program_compile(void *ctx, const um_kernel *kernel, void **object)
{
    const um_backend_device *device = ctx;
    um_klacks lacks = um_text_lacks(UM_TARGET_OPENCL, device->k.types, 0);
    um_kernel *lowered = NULL;
    um_text text = {0};
    um_cl_program *p = um_mem_zalloc(sizeof *p);
    if (!p) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory for a kernel");
    snprintf(p->name, sizeof p->name, "um_%s", kernel->name);
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK) status = um_render_text(lowered, UM_TARGET_OPENCL, &text);
    if (status == UM_OK && !load(device, &text, p)) {
        status = build(device, &text, p);
        if (status == UM_OK) save(device, &text, p);
    }
    if (status == UM_OK) um_kbuffers_of(lowered, &p->buffers);
    um_text_release(&text);
    um_kernel_release(lowered);
    if (status == UM_OK)
        *object = p;
    else
        um_cl_program_destroy(ctx, p);
    return status;
}
