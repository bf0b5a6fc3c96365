/* fma by the kernel library, bit for bit the C library's: of any numbers, sums that cancel, results
 * that are subnormal; on the interpreter, once as a target whose own may round twice, or on the
 * device of the argument, where one is. */
#include "test/test_kernel.h"

#include <stdlib.h>
#include <umbel/umbel.h>

enum { COUNT = 4096, ROUNDS = 8 };

typedef struct device_memory {
    um_stream *stream;
    um_ptr in[3], out;
} device_memory;

/* Of a float's bits the exponent is near `at`, at it, any, or next to 0; the digits are any, none,
 * all, or one. */
static uint64_t float_bits(int32_t digits, int64_t top, int64_t at)
{
    const uint64_t all = (UINT64_C(1) << digits) - 1;
    const uint64_t low[] = {random_bits(), 0, all, UINT64_C(1) << random_bits() % 52};
    const int64_t any = (int64_t)(random_bits() % (uint64_t)(top + 1));
    const int64_t exponent[] = {at + (int64_t)(random_bits() % 128) - 64, at, any, any % 4};
    int64_t field = UM_MIN(UM_MAX(exponent[random_bits() % 4], 0), top);
    uint64_t sign = (uint64_t)(top + 1) << digits;
    return (uint64_t)field << digits | (low[random_bits() % 4] & all) |
           (random_bits() % 2 ? sign : 0);
}

static bool same(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
}

static void run_fma(const device_memory *m, um_dtype dtype, const void *const *in, void *out)
{
    const int64_t count = COUNT, bytes = COUNT * um_dtype_bits(dtype) / 8;
    um_op op = {.id = UM_OP_FMA, .in_count = 3, .out_count = 1};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(um_write(m->stream, m->in[i], in[i], (uint64_t)bytes));
        CHECK_OK(um_view_make(m->in[i], dtype, 1, &count, &op.in[i]));
    }
    CHECK_OK(um_view_make(m->out, dtype, 1, &count, &op.out[0]));
    CHECK_OK(um_enqueue(m->stream, &op));
    CHECK_OK(um_read(m->stream, out, m->out, (uint64_t)bytes));
}

static void try_f64(const device_memory *m)
{
    static double x[3][COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int64_t a = (int64_t)(random_bits() % 2047), b = (int64_t)(random_bits() % 2047);
        const int64_t at[] = {a, b, a + b - 1023};
        for (int which = 0; which < 3; which++) {
            uint64_t bits = float_bits(52, 2047, at[which]);
            memcpy(&x[which][i], &bits, sizeof bits);
        }
        if (i % 8 == 0) x[2][i] = -(x[0][i] * x[1][i]);
    }
    run_fma(m, UM_F64, (const void *[]){x[0], x[1], x[2]}, y);
    for (int i = 0; i < COUNT; i++) {
        double want = fma(x[0][i], x[1][i], x[2][i]);
        CHECK_MSG(same(y[i], want), "%a * %a + %a: %a, wanted %a", x[0][i], x[1][i], x[2][i], y[i],
                  want);
    }
}

static void try_f32(const device_memory *m)
{
    static float x[3][COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int64_t a = (int64_t)(random_bits() % 255), b = (int64_t)(random_bits() % 255);
        const int64_t at[] = {a, b, a + b - 127};
        for (int which = 0; which < 3; which++)
            x[which][i] = f32_of_bits((uint32_t)float_bits(23, 255, at[which]));
        if (i % 8 == 0) x[2][i] = -(x[0][i] * x[1][i]);
    }
    run_fma(m, UM_F32, (const void *[]){x[0], x[1], x[2]}, y);
    for (int i = 0; i < COUNT; i++) {
        float want = fmaf(x[0][i], x[1][i], x[2][i]);
        CHECK_MSG(same((double)y[i], (double)want), "%a * %a + %a: %a, wanted %a", (double)x[0][i],
                  (double)x[1][i], (double)x[2][i], (double)y[i], (double)want);
    }
}

/* false: there is no such device. */
static bool try_device(const char *name)
{
    um_device *device;
    device_memory m;
    if (um_open(name, &device) != UM_OK) return false;
    um_caps caps = {.struct_size = sizeof caps};
    CHECK_OK(um_device_caps(device, &caps));
    CHECK_OK(um_stream_create(device, &m.stream));
    for (int i = 0; i < 3; i++) CHECK_OK(um_alloc(device, 8 * COUNT, &m.in[i]));
    CHECK_OK(um_alloc(device, 8 * COUNT, &m.out));
    for (int round = 0; round < ROUNDS; round++) {
        try_f32(&m);
        if (caps.features & UM_FEATURE_F64) try_f64(&m);
    }
    for (int i = 0; i < 3; i++) CHECK_OK(um_free(device, m.in[i]));
    CHECK_OK(um_free(device, m.out));
    um_stream_release(m.stream);
    um_device_release(device);
    return true;
}

static void test_interp(void)
{
    CHECK(try_device("interp:0"));
    CHECK(setenv("UMBEL_INTERP_AS", "opencl", 1) == 0);
    CHECK(try_device("interp:0"));
}

int main(int argc, char **argv)
{
    setenv("UMBEL_STRICT", "1", 1);
    if (argc > 1 && !try_device(argv[1])) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    if (argc == 1) TEST(test_interp);
    return TEST_RESULT();
}
