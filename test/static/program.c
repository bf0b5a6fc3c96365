/* A program in the functions of umbel/static.h, built both ways by test/CMakeLists.txt. Prints what
 * it computes: both builds have to print the same. With a number it times that many small ops
 * instead: enqueuing each, and waiting for every 64. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <umbel/static.h>

#define TRY(expression)                                                                            \
    do {                                                                                           \
        um_status status_ = (expression);                                                          \
        if (status_ != UM_OK) {                                                                    \
            printf("%s: %s\n", #expression, um_last_error()->message);                             \
            return status_;                                                                        \
        }                                                                                          \
    } while (0)

#ifdef UMBEL_STATIC_UNCHECKED
enum { CHECKED = 0 };
#else
enum { CHECKED = 1 };
#endif
enum { N = 16, BYTES = 4096, EVERY = 64 };

static um_view view(um_ptr ptr, int32_t rank, int64_t rows, int64_t columns)
{
    um_view out = {.ptr = ptr, .dtype = UM_F32, .rank = rank};
    out.shape[0] = rank == 2 ? rows : columns;
    out.shape[1] = rank == 2 ? columns : 0;
    out.stride[0] = rank == 2 ? columns : 1;
    out.stride[1] = rank == 2 ? 1 : 0;
    return out;
}

static um_op add(um_ptr y, um_ptr a, um_ptr b, int64_t n)
{
    return (um_op){.id = UM_OP_ADD,
                   .in_count = 2,
                   .out_count = 1,
                   .in = {view(a, 1, 1, n), view(b, 1, 1, n)},
                   .out = {view(y, 1, 1, n)}};
}

static um_op matmul(um_ptr y, um_ptr a, um_ptr b)
{
    return (um_op){.id = UM_OP_MATMUL,
                   .in_count = 2,
                   .out_count = 1,
                   .attrs.matmul = {.alpha = 1},
                   .in = {view(a, 2, 4, 4), view(b, 2, 4, 4)},
                   .out = {view(y, 2, 4, 4)}};
}

/* The one function whose machine code is looked at: it queues an op. */
um_status step(um_static_stream stream, const um_op *op);
__attribute__((noinline)) um_status step(um_static_stream stream, const um_op *op)
{
    return um_static_enqueue(stream, op);
}

static void show(const char *what, const float *data, int count)
{
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %g", (double)data[i]);
    putchar('\n');
}

static um_status compute(um_static_device device, um_static_stream stream, um_ptr memory)
{
    float data[3 * N];
    um_static_stream other;
    um_static_event event;
    um_op op;
    for (int i = 0; i < N; i++) data[i] = (float)i - 5, data[N + i] = 0.5f * (float)i;
    TRY(um_static_write(stream, memory, data, 2 * N * sizeof *data));
    TRY(um_static_fill(stream, memory + 8 * N, 4 * N, "\0\0\200\77", 4)); /* 1.0f */
    op = add(memory + 12 * N, memory, memory + 4 * N, N);
    TRY(step(stream, &op));
    TRY(um_static_record(stream, &event));
    TRY(um_static_stream_create(device, &other));
    TRY(um_static_wait(other, event));
    op = matmul(memory + 16 * N, memory + 12 * N, memory + 8 * N);
    TRY(step(other, &op));
    TRY(um_static_copy(other, memory + 20 * N, memory + 16 * N, 4 * N));
    op = add(1, 2, 3, 0); /* nothing to write: no pointer is looked at */
    TRY(step(other, &op));
    TRY(um_static_read(other, data, memory + 20 * N, N * sizeof *data));
    show("matmul", data, N);
    TRY(um_static_read(other, data, memory + 12 * N, N * sizeof *data));
    show("add", data, N);
    TRY(um_static_event_synchronize(event));
    TRY(um_static_query(event));
    um_static_stream_release(other);
    return UM_OK;
}

/* What is wrong is refused with the same words. */
static void refuse(um_static_device device, um_static_stream stream, um_ptr memory)
{
    um_op op = add(memory + 64, memory, memory + 128, N);
    op.in[1].shape[0] = 3;
    um_status status = step(stream, &op);
    printf("%s: %s\n", um_status_name(status), um_last_error()->message);
    op = add(memory + 4, memory, memory + 128, N);
    status = step(stream, &op);
    printf("%s: %s\n", um_status_name(status), um_last_error()->message);
    um_ptr none;
    printf("%s\n", um_status_name(um_static_alloc(device, UINT64_MAX / 2, &none)));
    printf("%s\n", um_status_name(um_static_synchronize(stream)));
    printf("supports: %d\n", um_static_supports(device, &op, NULL, 0));
}

static double now_ns(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static um_status measure(um_static_stream stream, um_ptr memory, long count)
{
    um_op ops[] = {add(memory + 1024, memory, memory + 512, 4),
                   matmul(memory + 1024, memory, memory + 512)};
    static const char *const names[] = {"add f32[4]", "matmul f32 4x4x4"};
    TRY(um_static_fill(stream, memory, BYTES, "\0\0\200\77", 4));
    for (int kind = 0; kind < 2; kind++) {
        double least = 1e30;
        for (int round = 0; round < 5; round++) {
            double start = now_ns();
            for (long i = 0; i < count; i++) {
                TRY(step(stream, &ops[kind]));
                if (i % EVERY == EVERY - 1) TRY(um_static_synchronize(stream));
            }
            TRY(um_static_synchronize(stream));
            double each = (now_ns() - start) / (double)count;
            least = each < least ? each : least;
        }
        printf("%-18s %6.0f ns\n", names[kind], least);
    }
    return UM_OK;
}

static um_status run(long count)
{
    um_static_device device = {0};
    um_static_stream stream = {0};
    um_ptr memory;
    um_caps caps = {.struct_size = sizeof caps};
    TRY(um_static_open("cpu", 0, &device));
    TRY(um_static_caps(device, &caps));
    TRY(um_static_stream_create(device, &stream));
    TRY(um_static_alloc(device, BYTES, &memory));
    if (count == 0) {
        printf("kind %d, f32 %u\n", caps.kind, caps.arithmetic >> UM_F32 & 1u);
        TRY(compute(device, stream, memory));
        if (CHECKED) refuse(device, stream, memory);
    } else {
        TRY(measure(stream, memory, count));
    }
    TRY(um_static_clear_error(stream));
    um_static_stream_release(stream);
    um_static_free(device, memory);
    um_static_close(device);
    return UM_OK;
}

int main(int argc, char **argv)
{
    return run(argc > 1 ? strtol(argv[1], NULL, 10) : 0) == UM_OK ? 0 : 1;
}
