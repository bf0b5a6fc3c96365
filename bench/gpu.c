/* gpu: a device against what others make of it, in one process and in turns: products of f32
 * matrices, and from a call to its result. OpenCL: against CLBlast and a program by hand; Vulkan:
 * against a kernel with an invocation for each element and a program by hand.
 *
 *   gpu [DEVICE]      default: opencl:0 */
#include "bench/gpu.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, CALLS = 4000 };

static const gpu_peer *peer;

void gpu_die(const char *what, int code)
{
    fprintf(stderr, "gpu: %s: %d %s\n", what, code, um_last_error()->message);
    exit(1);
}

static void must(um_status status, const char *what)
{
    if (status != UM_OK) gpu_die(what, status);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return samples[count / 2];
}

static double seconds(void) { return (double)um_os_now_ns() * 1e-9; }

/* UMBEL_TUNE is read when a device is opened. */
static void open_ours(const char *spec, const char *tune, um_device **device, um_stream **stream)
{
    if (setenv("UMBEL_TUNE", tune, 1) != 0) gpu_die("setenv", 0);
    must(um_open(spec, device), "um_open");
    must(um_stream_create(*device, stream), "um_stream_create");
}

static void run_ours(um_stream *stream, const um_op *op)
{
    must(um_enqueue(stream, op), "um_enqueue");
    must(um_synchronize(stream), "um_synchronize");
}

/* ---- products ------------------------------------------------------------------------------- */

typedef struct product {
    int64_t n;
    um_op op;
    um_ptr ptr[3];
    float *data[2], *made[2];
} product;

static void product_begin(product *p, um_device *device, um_stream *stream, int64_t n)
{
    size_t size = (size_t)(n * n) * sizeof(float);
    const int64_t shape[2] = {n, n};
    *p = (product){.n = n};
    p->op = (um_op){.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1, .attrs.matmul.alpha = 1};
    for (int i = 0; i < 2; i++) {
        p->data[i] = malloc(size);
        p->made[i] = malloc(size);
        if (!p->data[i] || !p->made[i]) gpu_die("malloc", (int)n);
        for (int64_t e = 0; e < n * n; e++) p->data[i][e] = (float)(e * (i ? 7 : 5) % 17 - 8) / 8;
    }
    for (int i = 0; i < 3; i++) {
        must(um_alloc(device, size, &p->ptr[i]), "um_alloc");
        if (i < 2) must(um_write(stream, p->ptr[i], p->data[i], size), "um_write");
        must(um_view_make(p->ptr[i], UM_F32, 2, shape, i < 2 ? &p->op.in[i] : &p->op.out[0]),
             "view");
    }
    if (peer->product) peer->begin_product(n, p->data[0], p->data[1]);
}

/* Both must have the same numbers, or the times say nothing. */
static void product_end(product *p, um_device *device, um_stream *stream)
{
    must(um_read(stream, p->made[0], p->ptr[2], (size_t)(p->n * p->n) * sizeof(float)), "um_read");
    if (peer->product) {
        peer->end_product(p->made[1]);
        for (int64_t e = 0; e < p->n * p->n; e++) {
            float off = p->made[0][e] - p->made[1][e];
            if (!(off > -0.01f && off < 0.01f)) gpu_die("other numbers, at", (int)e);
        }
    }
    for (int i = 0; i < 3; i++) must(um_free(device, p->ptr[i]), "um_free");
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
    for (int i = -1; i < ROUNDS; i++) { /* the first compiles */
        int at = UM_MAX(i, 0);
        double start = seconds();
        run_ours(stream, &p.op);
        ours[at] = seconds() - start;
        start = seconds();
        if (peer->product) peer->run_product();
        theirs[at] = seconds() - start;
    }
    product_end(&p, device, stream);
    double flops = 2e-9 * (double)n * (double)n * (double)n, a = median(ours, ROUNDS),
           b = median(theirs, ROUNDS);
    printf("%-8s sgemm %4lld %9.2f GFLOP/s", how, (long long)n, flops / a);
    if (peer->product) printf(", %s %7.2f, ratio %.2f", peer->product, flops / b, b / a);
    putchar('\n');
    fflush(stdout);
}

static void bench_products(const char *spec, const char *tune, const char *how)
{
    um_device *device;
    um_stream *stream;
    open_ours(spec, tune, &device, &stream);
    for (int64_t n = 256; n <= 1024; n *= 2) bench_product(device, stream, n, how);
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- from a call to its result -------------------------------------------------------------- */

/* One element plus one, which is nothing but the way there and back; in turns call by call, since
 * what else the machine does comes in longer waves. */
static void bench_call(const char *spec)
{
    static double ours[CALLS], theirs[CALLS];
    um_device *device;
    um_stream *stream;
    um_ptr ptr[3];
    const int64_t shape[1] = {1};
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    open_ours(spec, "off", &device, &stream);
    for (int i = 0; i < 3; i++) {
        must(um_alloc(device, 64, &ptr[i]), "um_alloc");
        must(um_view_make(ptr[i], UM_F32, 1, shape, i < 2 ? &op.in[i] : &op.out[0]), "view");
    }
    peer->begin_call();
    for (int i = -1; i < CALLS; i++) { /* the first compiles */
        int at = UM_MAX(i, 0);
        double start = seconds();
        run_ours(stream, &op);
        double middle = seconds();
        peer->run_call();
        ours[at] = middle - start;
        theirs[at] = seconds() - middle;
    }
    peer->end_call();
    double a = median(ours, CALLS) * 1e6, b = median(theirs, CALLS) * 1e6;
    printf("an op and its result %.1f us, %s alone %.1f us: %.1f us more, ratio %.2f\n", a,
           peer->api, b, a - b, a / b);
    for (int i = 0; i < 3; i++) must(um_free(device, ptr[i]), "um_free");
    um_stream_release(stream);
    um_device_release(device);
}

int main(int argc, char **argv)
{
    static const gpu_peer *const peers[] = {&gpu_opencl, &gpu_vulkan};
    const char *spec = argc > 1 ? argv[1] : "opencl:0", *colon = strchr(spec, ':');
    for (size_t i = 0; i < UM_COUNT_OF(peers); i++)
        if (strncmp(spec, peers[i]->backend, strlen(peers[i]->backend)) == 0) peer = peers[i];
    if (!peer) {
        fprintf(stderr, "gpu: '%s' is no device of OpenCL or Vulkan (opencl:0, vulkan:0, ...)\n",
                spec);
        return 2;
    }
    printf("%s: ", spec);
    peer->open(colon ? atoi(colon + 1) : 0);
    bench_call(spec);
    bench_products(spec, "off", "untuned");
    bench_products(spec, "force", "tuned");
    peer->close();
    return 0;
}
