/* bench/gpu_opencl.c: OpenCL by hand, and CLBlast's products; both libraries are opened at run
 * time.
 */
#include "backend/opencl/cl.h"
#include "bench/gpu.h"

#include <stdio.h>

enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, MEMS = 3 };

typedef int (*sgemm_fn)(int, int, int, size_t, size_t, size_t, float, cl_any, size_t, size_t,
                        cl_any, size_t, size_t, float, cl_any, size_t, size_t, cl_any *, cl_any *);

static cl_any device, context, queue, program, kernel, mem[MEMS];
static size_t order; /* of the matrices */
static sgemm_fn clblast;

static void must(int32_t code, const char *what)
{
    if (code != 0) gpu_die(what, code);
}

static void open_device(int32_t ordinal)
{
    const um_cl_device *devices;
    char why[200], name[128];
    void *library = NULL;
    int32_t code;
    if (um_cl_devices(&devices, why, sizeof why) <= ordinal)
        gpu_die(why[0] ? why : "no such device", ordinal);
    device = devices[ordinal].id;
    um_cl_text(device, UM_CL_DEVICE_NAME, name, sizeof name);
    printf("%s%s\n", name, devices[ordinal].type & UM_CL_TYPE_CPU ? " (a software device)" : "");
    context = um_cl.clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    must(code, "clCreateContext");
    queue = um_cl.clCreateCommandQueue(context, device, 0, &code);
    must(code, "clCreateCommandQueue");
    if (um_os_library_open("libclblast.so.1", &library) == UM_OK) {
        um_os_fn fn = um_os_library_find(library, "CLBlastSgemm");
        memcpy(&clblast, &fn, sizeof fn);
    }
    if (clblast)
        gpu_opencl.product = "CLBlast";
    else
        printf("without CLBlast (Debian's libclblast1)\n");
}

static void close_device(void)
{
    um_cl.clReleaseCommandQueue(queue);
    um_cl.clReleaseContext(context);
}

static void make_buffer(int32_t i, const void *data, size_t size)
{
    enum { READ_WRITE = 1 };
    int32_t code;
    mem[i] = um_cl.clCreateBuffer(context, READ_WRITE, size, NULL, &code);
    must(code, "clCreateBuffer");
    if (data)
        must(um_cl.clEnqueueWriteBuffer(queue, mem[i], 1, 0, size, data, 0, NULL, NULL), "write");
}

static void release_buffers(void)
{
    for (int32_t i = 0; i < MEMS; i++) um_cl.clReleaseMemObject(mem[i]);
}

static void begin_product(int64_t n, const float *x, const float *y)
{
    order = (size_t)n;
    make_buffer(0, x, order * order * sizeof *x);
    make_buffer(1, y, order * order * sizeof *y);
    make_buffer(2, NULL, order * order * sizeof *x);
}

static void run_product(void)
{
    must(clblast(ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, order, order, order, 1, mem[0], 0,
                 order, mem[1], 0, order, 0, mem[2], 0, order, &queue, NULL),
         "CLBlastSgemm");
    must(um_cl.clFinish(queue), "clFinish");
}

static void end_product(float *z)
{
    must(
        um_cl.clEnqueueReadBuffer(queue, mem[2], 1, 0, order * order * sizeof *z, z, 0, NULL, NULL),
        "read");
    release_buffers();
}

static void begin_call(void)
{
    static const char text[] =
        "__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void add(__global float *z, "
        "__global const float *x, __global const float *y, uint n) {"
        "uint i = get_global_id(0); if (i < n) z[i] = x[i] + y[i]; }";
    const char *source = text;
    uint32_t one = 1;
    int32_t code;
    program = um_cl.clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must(code, "clCreateProgramWithSource");
    must(um_cl.clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = um_cl.clCreateKernel(program, "add", &code);
    must(code, "clCreateKernel");
    for (int32_t i = 0; i < MEMS; i++) {
        make_buffer(i, NULL, 64);
        must(um_cl.clSetKernelArg(kernel, (uint32_t)i, sizeof mem[i], &mem[i]), "clSetKernelArg");
    }
    must(um_cl.clSetKernelArg(kernel, MEMS, sizeof one, &one), "clSetKernelArg");
}

static void run_call(void)
{
    const size_t size = 256;
    must(um_cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, &size, 0, NULL, NULL),
         "clEnqueueNDRangeKernel");
    must(um_cl.clFinish(queue), "clFinish");
}

static void end_call(void)
{
    release_buffers();
    um_cl.clReleaseKernel(kernel);
    um_cl.clReleaseProgram(program);
}

gpu_peer gpu_opencl = {.backend = "opencl",
                       .api = "OpenCL",
                       .open = open_device,
                       .close = close_device,
                       .begin_product = begin_product,
                       .run_product = run_product,
                       .end_product = end_product,
                       .begin_call = begin_call,
                       .run_call = run_call,
                       .end_call = end_call};
