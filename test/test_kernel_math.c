/* The functions of ir/math.h, run by the interpreter, against the C library's in long double. */
#include "ir/math.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { GROUP = 256, COUNT = 512 * GROUP };

static float x[COUNT], y[COUNT], z[COUNT];

static const struct function {
    um_kop op;
    long double (*oracle)(long double);
    double ulp;
} functions[] = {
    {UM_KOP_EXP, expl, 1.1},     {UM_KOP_EXP2, exp2l, 1.1},   {UM_KOP_EXPM1, expm1l, 1.5},
    {UM_KOP_LOG, logl, 1},       {UM_KOP_LOG2, log2l, 1},     {UM_KOP_LOG10, log10l, 1},
    {UM_KOP_LOG1P, log1pl, 1.5}, {UM_KOP_SIN, sinl, 1.6},     {UM_KOP_COS, cosl, 1.6},
    {UM_KOP_TAN, tanl, 2},       {UM_KOP_ASIN, asinl, 2},     {UM_KOP_ACOS, acosl, 1.5},
    {UM_KOP_ATAN, atanl, 2},     {UM_KOP_SINH, sinhl, 1.6},   {UM_KOP_COSH, coshl, 1.5},
    {UM_KOP_TANH, tanhl, 1.5},   {UM_KOP_ASINH, asinhl, 1.5}, {UM_KOP_ACOSH, acoshl, 2},
    {UM_KOP_ATANH, atanhl, 1.5}, {UM_KOP_ERF, erfl, 1.2},
};

/* In units of the wanted value's last place; NaN and infinities must be met. */
static double ulp(float got, long double want)
{
    float near = (float)want;
    int exponent;
    if (isnan(near) || isnan(got)) return isnan(near) && isnan(got) ? 0 : HUGE_VAL;
    if (isinf(near) && isinf(got)) return near == got ? 0 : HUGE_VAL;
    if (isinf(got)) return fabsl(want) > 0x1.fffffep127L ? 1 : HUGE_VAL;
    frexpl(want, &exponent);
    if (exponent < -125) exponent = -125;
    return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - 24));
}

/* z = op(x, y) */
static void run(um_kop op, int32_t lanes)
{
    um_kernel *k;
    bool two = op == UM_KOP_POW || op == UM_KOP_ATAN2;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "f", .group_size = {GROUP}}, &k));
    um_mem a = um_k_buffer(k, "a", UM_F32, UM_K_READ), b = um_k_buffer(k, "b", UM_F32, UM_K_READ);
    um_mem c = um_k_buffer(k, "c", UM_F32, UM_K_WRITE);
    um_val i = um_k_mul(k, um_k_global_index(k, 0), um_k_u32(k, (uint32_t)lanes));
    um_val second = two ? um_k_load_lanes(k, b, i, lanes) : 0;
    um_k_store(k, c, i, um_k_math(k, op, um_k_load_lanes(k, a, i, lanes), second));
    CHECK_OK(um_kernel_finish(k));
    um_kernel_buffer buffers[] = {{x, sizeof x}, {y, sizeof y}, {z, sizeof z}};
    um_kernel_run it = {.group_count = {COUNT / GROUP / (uint32_t)lanes, 1, 1},
                        .buffers = buffers,
                        .buffer_count = 3};
    CHECK_OK(um_kernel_interpret(k, &it));
    um_kernel_release(k);
}

/* Floats all over their range, subnormal, infinite and NaN too, and some near 1. */
static void fill(void)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits = i * 32749u; /* a prime below 2^32 / COUNT */
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 4 == 1)
            x[i] = ldexpf(1 + (float)i / COUNT, (int)(i % 16) - 8) * (i % 8 < 4 ? 1.0f : -1.0f);
    }
    static const float special[] = {0.0f,      -0.0f,           1,   -1, INFINITY, -INFINITY, NAN,
                                    0x1p-149f, 0x1.fffffep127f, 0.5f};
    memcpy(x, special, sizeof special);
}

static void test_functions(void)
{
    fill();
    for (size_t f = 0; f < UM_COUNT_OF(functions); f++) {
        double worst = 0;
        float at = 0;
        bool signs = true;
        run(functions[f].op, f % 3 == 0 ? 4 : 1);
        for (int i = 0; i < COUNT; i++) {
            long double want = functions[f].oracle((long double)x[i]);
            double error = ulp(z[i], want);
            if (error > worst) at = x[i];
            worst = fmax(worst, error);
            if (want == 0 && !signbit(want) != !signbit(z[i])) signs = false;
        }
        printf("     %-6s %.3f ulp at %a\n", um_kop_rows[functions[f].op].name, worst, (double)at);
        CHECK_MSG(worst <= functions[f].ulp, "%s: %g ulp at %a", um_kop_rows[functions[f].op].name,
                  worst, (double)at);
        CHECK_MSG(signs, "%s: sign of zero", um_kop_rows[functions[f].op].name);
    }
}

/* ---- f64 ------------------------------------------------------------------------------------ */

static double wide_x[COUNT], wide_y[COUNT], wide_z[COUNT];

static const struct function wide_functions[] = {
    {UM_KOP_EXP, expl, 1.1},   {UM_KOP_EXP2, exp2l, 1.2}, {UM_KOP_EXPM1, expm1l, 2},
    {UM_KOP_LOG, logl, 1},     {UM_KOP_LOG2, log2l, 1.2}, {UM_KOP_LOG10, log10l, 1.2},
    {UM_KOP_LOG1P, log1pl, 2}, {UM_KOP_SIN, sinl, 1.6},   {UM_KOP_COS, cosl, 1.6},
    {UM_KOP_TAN, tanl, 2},     {UM_KOP_ASIN, asinl, 2},   {UM_KOP_ACOS, acosl, 2},
    {UM_KOP_ATAN, atanl, 2},   {UM_KOP_SINH, sinhl, 2},   {UM_KOP_COSH, coshl, 2},
    {UM_KOP_TANH, tanhl, 3},   {UM_KOP_ASINH, asinhl, 3}, {UM_KOP_ACOSH, acoshl, 3},
    {UM_KOP_ATANH, atanhl, 3}, {UM_KOP_ERF, erfl, 2},
};

static double wide_ulp(double got, long double want)
{
    double near = (double)want;
    int exponent;
    if (isnan(near) || isnan(got)) return isnan(near) && isnan(got) ? 0 : HUGE_VAL;
    if (isinf(near) || isinf(got)) return near == got ? 0 : HUGE_VAL;
    frexpl(want, &exponent);
    if (exponent < -1021) exponent = -1021;
    return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - 53));
}

static void run_wide(um_kop op, int32_t lanes)
{
    um_kernel *k;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "f", .group_size = {GROUP}}, &k));
    bool two = op == UM_KOP_POW || op == UM_KOP_ATAN2;
    um_mem a = um_k_buffer(k, "a", UM_F64, UM_K_READ), b = um_k_buffer(k, "b", UM_F64, UM_K_READ);
    um_mem c = um_k_buffer(k, "c", UM_F64, UM_K_WRITE);
    um_val i = um_k_mul(k, um_k_global_index(k, 0), um_k_u32(k, (uint32_t)lanes));
    um_val second = two ? um_k_load_lanes(k, b, i, lanes) : 0;
    um_k_store(k, c, i, um_k_math(k, op, um_k_load_lanes(k, a, i, lanes), second));
    CHECK_OK(um_kernel_finish(k));
    um_kernel_buffer buffers[] = {
        {wide_x, sizeof wide_x}, {wide_y, sizeof wide_y}, {wide_z, sizeof wide_z}};
    um_kernel_run it = {.group_count = {COUNT / GROUP / (uint32_t)lanes, 1, 1},
                        .buffers = buffers,
                        .buffer_count = 3};
    CHECK_OK(um_kernel_interpret(k, &it));
    um_kernel_release(k);
}

static void test_wide_functions(void)
{
    static const double special[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN,
                                     0x1p-1074,
                                     DBL_MAX,
                                     0.5,
                                     709.5,
                                     -745,
                                     1e-300,
                                     0x1.6ac5b262ca1ffp+849, /* nearest to a multiple of pi / 2 */
                                     0x1.921fb54442d18p+20,
                                     -0x1.921fb54442d18p+31,
                                     0x1p20,
                                     0x1.fffffffffffffp19,
                                     1e22};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t bits = i * 140737488355327u; /* all over the range */
        memcpy(&wide_x[i], &bits, sizeof bits);
        if (i % 4 != 1) wide_x[i] = ldexp(1 + (double)i / COUNT, (int)(i % 19) - 8);
        if (i % 4 == 2) wide_x[i] = -wide_x[i];
    }
    memcpy(wide_x, special, sizeof special);
    for (size_t f = 0; f < UM_COUNT_OF(wide_functions); f++) {
        const struct function *it = &wide_functions[f];
        double worst = 0, at = 0;
        bool signs = true;
        run_wide(it->op, f % 3 == 0 ? 2 : 1);
        for (int i = 0; i < COUNT; i++) {
            long double want = it->oracle((long double)wide_x[i]);
            double error = wide_ulp(wide_z[i], want);
            if (error > worst) at = wide_x[i];
            worst = fmax(worst, error);
            if (want == 0 && !signbit(want) != !signbit(wide_z[i])) signs = false;
        }
        printf("     %-6s %.3f ulp of f64 at %a\n", um_kop_rows[it->op].name, worst, at);
        CHECK_MSG(worst <= it->ulp, "%s of f64: %g ulp at %a", um_kop_rows[it->op].name, worst, at);
        CHECK_MSG(signs, "%s of f64: sign of zero", um_kop_rows[it->op].name);
    }
}

/* ---- two arguments -------------------------------------------------------------------------- */

/* Every pair of special values, then ordinary ones. */
static void test_pairs(void)
{
    static const float special[] = {
        0.0f,   -0.0f,  1,        -1,        2,   -2,       3,        -3,    0.5f,   -0.5f, 1e30f,
        -1e30f, 1e-40f, INFINITY, -INFINITY, NAN, 16777216, 16777215, 3e38f, 1e-38f, 5,     -7};
    enum { N = UM_COUNT_OF(special) };
    uint64_t seed = 1;
    for (int which = 0; which < 2; which++) {
        um_kop op = which ? UM_KOP_ATAN2 : UM_KOP_POW;
        long double (*oracle)(long double, long double) = which ? atan2l : powl;
        for (int i = 0; i < COUNT; i++) {
            float u[2];
            for (int j = 0; j < 2; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                u[j] = (float)(seed >> 40) * 0x1p-24f;
            }
            x[i] =
                ldexpf(0.5f + u[0], i % 3 ? i % 40 - 20 : 0) * (which && i % 5 == 0 ? -1.0f : 1.0f);
            y[i] = (u[1] - 0.5f) * (i % 2 ? 20.0f : 200.0f);
            if (i < N * N) {
                x[i] = special[i / N];
                y[i] = special[i % N];
            }
        }
        run(op, 1);
        double worst = 0;
        int at = 0;
        for (int i = 0; i < COUNT; i++) {
            double error = ulp(z[i], oracle((long double)x[i], (long double)y[i]));
            if (error > worst) at = i;
            worst = fmax(worst, error);
        }
        printf("     %-6s %.3f ulp at %a, %a\n", um_kop_rows[op].name, worst, (double)x[at],
               (double)y[at]);
        CHECK_MSG(worst <= (which ? 2 : 4), "%s: %g ulp at %a, %a: %a", um_kop_rows[op].name, worst,
                  (double)x[at], (double)y[at], (double)z[at]);
    }
}

static void test_wide_pairs(void)
{
    static const double special[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     3,
                                     -3,
                                     0.5,
                                     -0.5,
                                     1e300,
                                     -1e300,
                                     1e-320,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN,
                                     0x1p53,
                                     0x1p53 - 1,
                                     1e308,
                                     1e-308,
                                     5,
                                     -7};
    enum { N = UM_COUNT_OF(special) };
    uint64_t seed = 1;
    for (int which = 0; which < 2; which++) {
        um_kop op = which ? UM_KOP_ATAN2 : UM_KOP_POW;
        long double (*oracle)(long double, long double) = which ? atan2l : powl;
        double worst = 0;
        int at = 0;
        for (int i = 0; i < COUNT; i++) {
            double u[2];
            for (int j = 0; j < 2; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                u[j] = (double)(seed >> 11) * 0x1p-53;
            }
            double sign = which && i % 5 == 0 ? -1 : 1;
            wide_x[i] = ldexp(0.5 + u[0], i % 3 ? i % 40 - 20 : 0) * sign;
            wide_y[i] = (u[1] - 0.5) * (i % 2 ? 20 : 1500);
            if (i >= N * N) continue;
            wide_x[i] = special[i / N];
            wide_y[i] = special[i % N];
        }
        run_wide(op, which + 1);
        for (int i = 0; i < COUNT; i++) {
            double error =
                wide_ulp(wide_z[i], oracle((long double)wide_x[i], (long double)wide_y[i]));
            if (error > worst) at = i;
            worst = fmax(worst, error);
        }
        printf("     %-6s %.3f ulp of f64 at %a, %a\n", um_kop_rows[op].name, worst, wide_x[at],
               wide_y[at]);
        CHECK_MSG(worst <= (which ? 2 : 3), "%s of f64: %g ulp at %a, %a: %a", um_kop_rows[op].name,
                  worst, wide_x[at], wide_y[at], wide_z[at]);
    }
}

int main(void)
{
    TEST(test_functions);
    TEST(test_wide_functions);
    TEST(test_pairs);
    TEST(test_wide_pairs);
    return TEST_RESULT();
}
