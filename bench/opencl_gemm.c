/* opencl_gemm: an OpenCL device against what others make of it, in one process and in turns:
 * products of f32 matrices against CLBlast, and from a call to its result against OpenCL itself.
 * CLBlast and the OpenCL loader are opened at run time.
 *
 *   opencl_gemm [DEVICE]      default: opencl:0 */
#include "backend/opencl/cl.h"
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <umbel/umbel.h>

enum { ROUNDS = 9, ROW_MAJOR = 101, NOT_TRANSPOSED = 111 };

typedef int (*sgemm_fn)(int, int, int, size_t, size_t, size_t, float, cl_any, size_t, size_t,
                        cl_any, size_t, size_t, float, cl_any, size_t, size_t, cl_any *, cl_any *);

static cl_any context, queue;
static sgemm_fn clblast;

static void die(const char *what, int code)
{
    fprintf(stderr, "opencl_gemm: %s: %d %s\n", what, code, um_last_error()->message);
    exit(1);
}

static void must(um_status status, const char *what)
{
    if (status != UM_OK) die(what, status);
}

static void must_cl(int32_t code, const char *what)
{
    if (code != 0) die(what, code);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, ROUNDS, sizeof *samples, compare);
    return samples[ROUNDS / 2];
}

static double seconds(void) { return (double)um_os_now_ns() * 1e-9; }

static cl_any buffer_of(const void *data, size_t size)
{
    enum { READ_WRITE = 1 };
    int32_t code;
    cl_any mem = um_cl.clCreateBuffer(context, READ_WRITE, size, NULL, &code);
    must_cl(code, "clCreateBuffer");
    if (data)
        must_cl(um_cl.clEnqueueWriteBuffer(queue, mem, 1, 0, size, data, 0, NULL, NULL), "write");
    return mem;
}

/* ---- products ------------------------------------------------------------------------------- */

typedef struct product {
    int64_t n;
    um_stream *stream;
    um_op op;
    um_ptr ours[3];
    cl_any theirs[3];
    float *data[2], *made[2];
} product;

static void product_begin(product *p, um_device *device, um_stream *stream, int64_t n)
{
    size_t size = (size_t)(n * n) * sizeof(float);
    const int64_t shape[2] = {n, n};
    *p = (product){.n = n, .stream = stream};
    p->op = (um_op){.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1, .attrs.matmul.alpha = 1};
    for (int i = 0; i < 2; i++) {
        p->data[i] = malloc(size);
        p->made[i] = malloc(size);
        for (int64_t e = 0; e < n * n; e++) p->data[i][e] = (float)(e * (i ? 7 : 5) % 17 - 8) / 8;
    }
    for (int i = 0; i < 3; i++) {
        must(um_alloc(device, size, &p->ours[i]), "um_alloc");
        if (i < 2) must(um_write(stream, p->ours[i], p->data[i], size), "um_write");
        if (clblast) p->theirs[i] = buffer_of(i < 2 ? p->data[i] : NULL, size);
        must(um_view_make(p->ours[i], UM_F32, 2, shape, i < 2 ? &p->op.in[i] : &p->op.out[0]),
             "view");
    }
}

static void run_ours(product *p)
{
    must(um_enqueue(p->stream, &p->op), "um_enqueue");
    must(um_synchronize(p->stream), "um_synchronize");
}

static void run_theirs(product *p)
{
    size_t n = (size_t)p->n;
    must_cl(clblast(ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, n, n, n, 1, p->theirs[0], 0, n,
                    p->theirs[1], 0, n, 0, p->theirs[2], 0, n, &queue, NULL),
            "CLBlastSgemm");
    must_cl(um_cl.clFinish(queue), "clFinish");
}

/* Both must have the same numbers, or the times say nothing. */
static void product_end(product *p, um_device *device)
{
    size_t size = (size_t)(p->n * p->n) * sizeof(float);
    must(um_read(p->stream, p->made[0], p->ours[2], size), "um_read");
    if (clblast) {
        must_cl(
            um_cl.clEnqueueReadBuffer(queue, p->theirs[2], 1, 0, size, p->made[1], 0, NULL, NULL),
            "read");
        for (int64_t e = 0; e < p->n * p->n; e++) {
            float off = p->made[0][e] - p->made[1][e];
            if (!(off > -0.01f && off < 0.01f)) die("other numbers, at", (int)e);
        }
    }
    for (int i = 0; i < 3; i++) {
        must(um_free(device, p->ours[i]), "um_free");
        if (clblast) um_cl.clReleaseMemObject(p->theirs[i]);
    }
    for (int i = 0; i < 2; i++) {
        free(p->data[i]);
        free(p->made[i]);
    }
}

static void bench_product(um_device *device, um_stream *stream, int64_t n, const char *how)
{
    double ours[ROUNDS], theirs[ROUNDS] = {0};
    product p;
    product_begin(&p, device, stream, n);
    run_ours(&p); /* compiles */
    if (clblast) run_theirs(&p);
    for (int i = 0; i < ROUNDS; i++) {
        double start = seconds();
        run_ours(&p);
        ours[i] = seconds() - start;
        start = seconds();
        if (clblast) run_theirs(&p);
        theirs[i] = seconds() - start;
    }
    product_end(&p, device);
    double flops = 2e-9 * (double)n * (double)n * (double)n, a = median(ours), b = median(theirs);
    printf("%-8s sgemm %4lld %9.2f GFLOP/s", how, (long long)n, flops / a);
    if (clblast) printf(", CLBlast %7.2f, ratio %.2f", flops / b, b / a);
    putchar('\n');
    fflush(stdout);
}

/* UMBEL_TUNE is read when a device is opened. */
static void bench_products(const char *spec, const char *tune, const char *how)
{
    um_device *device;
    um_stream *stream;
    if (setenv("UMBEL_TUNE", tune, 1) != 0) die("setenv", 0);
    must(um_open(spec, &device), "um_open");
    must(um_stream_create(device, &stream), "um_stream_create");
    for (int64_t n = 256; n <= 1024; n *= 2) bench_product(device, stream, n, how);
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- from a call to its result -------------------------------------------------------------- */

static cl_any add_one_kernel(cl_any device, const cl_any *mem)
{
    static const char text[] =
        "__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void add(__global float *z, "
        "__global const float *x, __global const float *y, uint n) {"
        "uint i = get_global_id(0); if (i < n) z[i] = x[i] + y[i]; }";
    const char *source = text;
    uint32_t one = 1;
    int32_t code;
    cl_any program = um_cl.clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must_cl(code, "clCreateProgramWithSource");
    must_cl(um_cl.clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_any kernel = um_cl.clCreateKernel(program, "add", &code);
    must_cl(code, "clCreateKernel");
    for (uint32_t i = 0; i < 3; i++)
        must_cl(um_cl.clSetKernelArg(kernel, i, sizeof mem[i], &mem[i]), "clSetKernelArg");
    must_cl(um_cl.clSetKernelArg(kernel, 3, sizeof one, &one), "clSetKernelArg");
    return kernel;
}

/* One element plus one, which is nothing but the way there and back. */
static void bench_call(const char *spec, cl_any id)
{
    enum { TIMES = 500 };
    double ours[ROUNDS], theirs[ROUNDS], start;
    um_device *device;
    um_stream *stream;
    um_ptr ptr[3];
    cl_any mem[3];
    const int64_t shape[1] = {1};
    const size_t global = 256, local = 256;
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    must(um_open(spec, &device), "um_open");
    must(um_stream_create(device, &stream), "um_stream_create");
    for (int i = 0; i < 3; i++) {
        must(um_alloc(device, 64, &ptr[i]), "um_alloc");
        must(um_view_make(ptr[i], UM_F32, 1, shape, i < 2 ? &op.in[i] : &op.out[0]), "view");
        mem[i] = buffer_of(NULL, 64);
    }
    cl_any kernel = add_one_kernel(id, mem);
    for (int i = -1; i < ROUNDS; i++) { /* the first compiles */
        int at = UM_MAX(i, 0);
        start = seconds();
        for (int t = 0; t < TIMES; t++) {
            must(um_enqueue(stream, &op), "um_enqueue");
            must(um_synchronize(stream), "um_synchronize");
        }
        ours[at] = seconds() - start;
        start = seconds();
        for (int t = 0; t < TIMES; t++) {
            must_cl(um_cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL,
                                                 NULL),
                    "clEnqueueNDRangeKernel");
            must_cl(um_cl.clFinish(queue), "clFinish");
        }
        theirs[at] = seconds() - start;
    }
    double a = median(ours) / TIMES * 1e6, b = median(theirs) / TIMES * 1e6;
    printf("an op and its result %.1f us, OpenCL alone %.1f us: %.1f us more\n", a, b, a - b);
    for (int i = 0; i < 3; i++) {
        must(um_free(device, ptr[i]), "um_free");
        um_cl.clReleaseMemObject(mem[i]);
    }
    um_stream_release(stream);
    um_device_release(device);
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "opencl:0", *colon = strchr(spec, ':');
    const um_cl_device *devices;
    char why[200], name[128];
    void *library = NULL;
    int32_t code, ordinal = colon ? atoi(colon + 1) : 0;
    if (um_cl_devices(&devices, why, sizeof why) <= ordinal) {
        fprintf(stderr, "opencl_gemm: %s: no such device; %s\n", spec, why);
        return 1;
    }
    cl_any id = devices[ordinal].id;
    um_cl_text(id, UM_CL_DEVICE_NAME, name, sizeof name);
    printf("%s: %s%s\n", spec, name,
           devices[ordinal].type & UM_CL_TYPE_CPU ? " (a software device)" : "");
    context = um_cl.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    must_cl(code, "clCreateContext");
    queue = um_cl.clCreateCommandQueue(context, id, 0, &code);
    must_cl(code, "clCreateCommandQueue");
    if (um_os_library_open("libclblast.so.1", &library) == UM_OK) {
        um_os_fn fn = um_os_library_find(library, "CLBlastSgemm");
        memcpy(&clblast, &fn, sizeof fn);
    }
    if (!clblast) printf("without CLBlast (Debian's libclblast1)\n");
    bench_call(spec, id);
    bench_products(spec, "off", "untuned");
    bench_products(spec, "force", "tuned");
    return 0;
}
