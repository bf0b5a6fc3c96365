/* The elementwise kernels: precision of each function against the C library in f64 and long double,
 * special values, integers against plain arithmetic, views, fused programs. */
#include "test/test_kernel.h"

/* ---- running one op on arrays --------------------------------------------------------------- */

static um_op map_op(um_op_id id, um_dtype dtype, int64_t n, void *out, const void *a, const void *b,
                    const void *c)
{
    const void *in[3] = {a, b, c};
    um_op op = {.id = id, .out_count = 1, .in_count = um_op_get_row(id)->in_max};
    for (int32_t i = 0; i < op.in_count; i++)
        op.in[i] = view_1d(in[i], id == UM_OP_WHERE && i == 0 ? UM_BOOL : dtype, n);
    op.out[0] = view_1d(out, um_op_get_row(id)->result == UM_RESULT_BOOL ? UM_BOOL : dtype, n);
    return op;
}

static void run_map(um_op_id id, um_dtype dtype, int64_t n, void *out, const void *a, const void *b,
                    const void *c)
{
    um_op op = map_op(id, dtype, n, out, a, b, c);
    if (id == UM_OP_ELU) op.attrs.map.a = 0.5;
    if (id == UM_OP_LEAKY_RELU) op.attrs.map.a = 0.25;
    CHECK_OK(run_op(&op));
}

/* ---- precision of functions of one input ----------------------------------------------------- */

static long double sigmoid(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double rsqrt(long double x) { return 1 / sqrtl(x); }
static long double reciprocal(long double x) { return 1 / x; }
static long double gelu(long double x)
{
    return isinf(x) && x < 0 ? -0.0L : x * 0.5L * erfcl(-x * 0.707106781186547524400844362104849L);
}
static long double gelu_tanh(long double x)
{
    if (isinf(x)) return x < 0 ? -0.0L : x;
    return x * sigmoid(1.595769121605730711759784L * (x + 0.044715L * x * x * x));
}
static long double silu(long double x) { return isinf(x) && x < 0 ? -0.0L : x * sigmoid(x); }
static long double softplus(long double x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}
static long double mish(long double x)
{
    return isinf(x) && x < 0 ? -0.0L : x * tanhl(softplus(x));
}
static long double hardswish(long double x)
{
    return x <= -3 ? -0.0L : x >= 3 ? x : x * ((x + 3) / 6);
}
static long double elu_half(long double x) { return x > 0 ? x : 0.5L * expm1l(x); }
static long double leaky_quarter(long double x) { return x >= 0 ? x : 0.25L * x; }
static long double relu(long double x) { return x > 0 || isnan(x) ? x : 0; }

/* Limits in ulp. Of gelu, f64 loses digits only where its result is subnormal. */
static const struct function {
    um_op_id op;
    long double (*oracle)(long double);
    double f32_ulp, f64_ulp;
} functions[] = {
    {UM_OP_SIGMOID, sigmoid, 2.5, 4}, {UM_OP_TANH, tanhl, 2, 4},
    {UM_OP_EXP, expl, 1, 2},          {UM_OP_EXP2, exp2l, 2, 2},
    {UM_OP_EXPM1, expm1l, 2, 2},      {UM_OP_LOG, logl, 1, 2},
    {UM_OP_LOG1P, log1pl, 0.51, 2},   {UM_OP_LOG2, log2l, 0.51, 2},
    {UM_OP_LOG10, log10l, 0.51, 2},   {UM_OP_SQRT, sqrtl, 0.51, 0.51},
    {UM_OP_RSQRT, rsqrt, 1.51, 1.51}, {UM_OP_RECIPROCAL, reciprocal, 0.51, 0.51},
    {UM_OP_SIN, sinl, 2, 2},          {UM_OP_COS, cosl, 2, 2},
    {UM_OP_TAN, tanl, 0.51, 2},       {UM_OP_ASIN, asinl, 0.51, 2},
    {UM_OP_ACOS, acosl, 0.51, 2},     {UM_OP_ATAN, atanl, 0.51, 2},
    {UM_OP_SINH, sinhl, 0.51, 4},     {UM_OP_COSH, coshl, 0.51, 4},
    {UM_OP_ASINH, asinhl, 0.51, 4},   {UM_OP_ACOSH, acoshl, 0.51, 4},
    {UM_OP_ATANH, atanhl, 0.51, 4},   {UM_OP_ERF, erfl, 2, 2},
    {UM_OP_GELU, gelu, 8, 24},        {UM_OP_GELU_TANH, gelu_tanh, 4, 8},
    {UM_OP_SILU, silu, 4, 4},         {UM_OP_SOFTPLUS, softplus, 2, 4},
    {UM_OP_MISH, mish, 4, 6},         {UM_OP_HARDSWISH, hardswish, 2, 2},
    {UM_OP_ELU, elu_half, 2, 2},      {UM_OP_LEAKY_RELU, leaky_quarter, 0.51, 0.51},
    {UM_OP_FLOOR, floorl, 0, 0},      {UM_OP_CEIL, ceill, 0, 0},
    {UM_OP_TRUNC, truncl, 0, 0},      {UM_OP_ROUND, rintl, 0, 0},
    {UM_OP_RELU, relu, 0, 0},         {UM_OP_ABS, fabsl, 0, 0},
};

enum { SWEEP = 4096 };

/* Every `step`-th of the 2^32 floats, so subnormals, infinities and NaN too. */
static void sweep_f32(const struct function *f, uint64_t step)
{
    static float x[SWEEP], y[SWEEP];
    double worst = 0;
    float worst_x = 0;
    bool zero_signs_agree = true;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += step * SWEEP) {
        for (uint64_t i = 0; i < SWEEP; i++) x[i] = f32_of_bits((uint32_t)(bits + i * step));
        run_map(f->op, UM_F32, SWEEP, y, x, NULL, NULL);
        for (int i = 0; i < SWEEP; i++) {
            long double want = f->oracle((long double)x[i]);
            double ulp = ulp_f32(y[i], want);
            if (ulp > worst) worst_x = x[i];
            worst = fmax(worst, ulp);
            if (want == 0 && !signbit(want) != !signbit(y[i])) zero_signs_agree = false;
        }
    }
    printf("     %-10s f32 %.3f ulp at %a\n", um_op_name(f->op), worst, (double)worst_x);
    CHECK_MSG(worst <= f->f32_ulp, "%s f32: %g ulp at %a", um_op_name(f->op), worst,
              (double)worst_x);
    CHECK_MSG(zero_signs_agree, "%s f32: sign of zero", um_op_name(f->op));
}

static void sweep_f64(const struct function *f)
{
    static double x[SWEEP], y[SWEEP];
    static const double special[] = {0.0,    -0.0,    1,     -1,     F64_INF, -F64_INF, F64_NAN,
                                     5e-324, -5e-324, 1e308, -1e308, 709.78,  -745.1,   1e22};
    double worst = 0, worst_x = 0;
    for (int round = 0; round < 4; round++) {
        double range = (double[]){1, 10, 800, 1e6}[round];
        for (int i = 0; i < SWEEP; i++) x[i] = random_between(-range, range);
        memcpy(x, special, sizeof special);
        run_map(f->op, UM_F64, SWEEP, y, x, NULL, NULL);
        for (int i = 0; i < SWEEP; i++) {
            double ulp = ulp_f64(y[i], f->oracle((long double)x[i]));
            if (ulp > worst) worst_x = x[i];
            worst = fmax(worst, ulp);
        }
    }
    CHECK_MSG(worst <= f->f64_ulp, "%s f64: %g ulp at %a", um_op_name(f->op), worst, worst_x);
}

/* A quarter of a million inputs; the long test gives 331 as the program's argument. */
static uint64_t sweep_step = 16381;

static void test_functions(void)
{
    for (size_t i = 0; i < UM_COUNT_OF(functions); i++) {
        sweep_f32(&functions[i], sweep_step);
        sweep_f64(&functions[i]);
    }
}

/* ---- functions of two and three inputs --------------------------------------------------------
 */

static double max_of(double a, double b)
{
    return isnan(a) || isnan(b) ? F64_NAN : a == b ? (signbit(a) ? b : a) : fmax(a, b);
}
static double min_of(double a, double b)
{
    return isnan(a) || isnan(b) ? F64_NAN : a == b ? (signbit(a) ? a : b) : fmin(a, b);
}
static double add_of(double a, double b) { return a + b; }
static double sub_of(double a, double b) { return a - b; }
static double mul_of(double a, double b) { return a * b; }
static double div_of(double a, double b) { return a / b; }
static double remainder_of(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m == 0 ? copysign(0, b) : m;
}
static double logaddexp_of(double a, double b)
{
    if (a == b) return a + log(2);
    return fmax(a, b) + log1p(exp(fmin(a, b) - fmax(a, b))) + (isnan(a) || isnan(b) ? F64_NAN : 0);
}
static double eq_of(double a, double b) { return a == b; }
static double ne_of(double a, double b) { return a != b; }
static double lt_of(double a, double b) { return a < b; }
static double le_of(double a, double b) { return a <= b; }
static double gt_of(double a, double b) { return a > b; }
static double ge_of(double a, double b) { return a >= b; }
static double and_of(double a, double b) { return a != 0 && b != 0; }
static double or_of(double a, double b) { return a != 0 || b != 0; }
static double xor_of(double a, double b) { return (a != 0) != (b != 0); }

static const struct pair {
    um_op_id op;
    double (*oracle)(double, double);
} pairs[] = {
    {UM_OP_ADD, add_of},
    {UM_OP_SUB, sub_of},
    {UM_OP_MUL, mul_of},
    {UM_OP_DIV, div_of},
    {UM_OP_MAX, max_of},
    {UM_OP_MIN, min_of},
    {UM_OP_POW, pow},
    {UM_OP_ATAN2, atan2},
    {UM_OP_HYPOT, hypot},
    {UM_OP_FMOD, fmod},
    {UM_OP_REMAINDER, remainder_of},
    {UM_OP_LOGADDEXP, logaddexp_of},
    {UM_OP_EQ, eq_of},
    {UM_OP_NE, ne_of},
    {UM_OP_LT, lt_of},
    {UM_OP_LE, le_of},
    {UM_OP_GT, gt_of},
    {UM_OP_GE, ge_of},
    {UM_OP_LOGICAL_AND, and_of},
    {UM_OP_LOGICAL_OR, or_of},
    {UM_OP_LOGICAL_XOR, xor_of},
};

static const double pair_values[] = {0.0,   -0.0,    1,        -1,      0.5,   -2.5,
                                     3,     -3,      7.25,     1e-3,    100.5, 1e20,
                                     -1e20, F64_INF, -F64_INF, F64_NAN, 1e-40};
enum { PAIR_VALUES = UM_COUNT_OF(pair_values), PAIRS = PAIR_VALUES * PAIR_VALUES };

static bool same(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
}

static void check_pair_f32(const struct pair *p)
{
    float a[PAIRS], b[PAIRS], y[PAIRS];
    bool flags[PAIRS];
    bool is_bool = um_op_get_row(p->op)->result == UM_RESULT_BOOL;
    for (int i = 0; i < PAIRS; i++)
        a[i] = (float)pair_values[i / PAIR_VALUES], b[i] = (float)pair_values[i % PAIR_VALUES];
    run_map(p->op, UM_F32, PAIRS, is_bool ? (void *)flags : y, a, b, NULL);
    for (int i = 0; i < PAIRS; i++) {
        double want = (double)(float)p->oracle((double)a[i], (double)b[i]),
               got = is_bool ? flags[i] : (double)y[i];
        CHECK_MSG(same(got, want), "%s(%g, %g) = %g, want %g", um_op_name(p->op), (double)a[i],
                  (double)b[i], got, want);
    }
}

static void check_pair_f64(const struct pair *p)
{
    double a[PAIRS], b[PAIRS], y[PAIRS];
    bool flags[PAIRS];
    bool is_bool = um_op_get_row(p->op)->result == UM_RESULT_BOOL;
    for (int i = 0; i < PAIRS; i++)
        a[i] = pair_values[i / PAIR_VALUES], b[i] = pair_values[i % PAIR_VALUES];
    run_map(p->op, UM_F64, PAIRS, is_bool ? (void *)flags : y, a, b, NULL);
    for (int i = 0; i < PAIRS; i++) {
        double want = p->oracle(a[i], b[i]), got = is_bool ? flags[i] : y[i];
        bool close = same(got, want) || (want != 0 && ulp_f64(got, (long double)want) <= 4);
        CHECK_MSG(close, "%s(%g, %g) = %g, want %g", um_op_name(p->op), a[i], b[i], got, want);
    }
}

static void test_pairs(void)
{
    for (size_t i = 0; i < UM_COUNT_OF(pairs); i++) {
        check_pair_f32(&pairs[i]);
        check_pair_f64(&pairs[i]);
    }
}

static void test_three(void)
{
    const float x[] = {-5, -0.0f, 0, 2, 9, NAN, 1, 1, 3},
                low[] = {-1, 0, -0.0f, 0, 0, 0, NAN, 0, 4}, high[] = {1, 1, 1, 1, 1, 1, 1, NAN, 2},
                want[] = {-1, 0, 0, 1, 1, NAN, NAN, NAN, 2};
    float y[9];
    run_map(UM_OP_CLAMP, UM_F32, 9, y, x, low, high);
    for (int i = 0; i < 9; i++)
        CHECK_MSG(same((double)y[i], (double)want[i]), "clamp %d: %g", i, (double)y[i]);

    const bool choose[] = {true, false, true, true, false, false, true, false, true};
    run_map(UM_OP_WHERE, UM_F32, 9, y, choose, x, low);
    for (int i = 0; i < 9; i++) CHECK(memcmp(&y[i], choose[i] ? &x[i] : &low[i], 4) == 0);

    float a = 1 + 0x1p-12f, c = -1 - 0x1p-11f, fused;
    run_map(UM_OP_FMA, UM_F32, 1, &fused, &a, &a, &c);
    CHECK_MSG(fused == 0x1p-24f, "fma rounds once: %a", (double)fused);
    double da = 1 + 0x1p-27, dc = -1 - 0x1p-26, dfused;
    run_map(UM_OP_FMA, UM_F64, 1, &dfused, &da, &da, &dc);
    CHECK_MSG(dfused == 0x1p-54, "fma rounds once: %a", dfused);
}

static void test_one_special(void)
{
    const float x[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -3, 2};
    float y[7];
    bool flags[7];
    run_map(UM_OP_SIGN, UM_F32, 7, y, x, NULL, NULL);
    const float sign[] = {0, -0.0f, 1, -1, NAN, -1, 1};
    for (int i = 0; i < 7; i++)
        CHECK_MSG(same((double)y[i], (double)sign[i]), "sign %g: %g", (double)x[i], (double)y[i]);
    run_map(UM_OP_NEG, UM_F32, 7, y, x, NULL, NULL);
    for (int i = 0; i < 7; i++) CHECK(isnan(x[i]) || same((double)y[i], (double)-x[i]));
    run_map(UM_OP_ISNAN, UM_F32, 7, flags, x, NULL, NULL);
    for (int i = 0; i < 7; i++) CHECK(flags[i] == (i == 4));
    run_map(UM_OP_ISINF, UM_F32, 7, flags, x, NULL, NULL);
    for (int i = 0; i < 7; i++) CHECK(flags[i] == (i == 2 || i == 3));
    run_map(UM_OP_LOGICAL_NOT, UM_F32, 7, flags, x, NULL, NULL);
    for (int i = 0; i < 7; i++) CHECK(flags[i] == (i < 2));
}

/* ---- integers ------------------------------------------------------------------------------- */

/* Arithmetic in 128 bits, so nothing below wraps before the dtype does. */
__extension__ typedef __int128 wide;

static wide wide_pow(wide a, wide b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t power = 1;
    for (wide i = 0; i < b && i < 4096; i++)
        power *= (uint64_t)a; /* the samples' exponents are small */
    return (wide)power;
}

static bool wide_op(um_op_id op, wide a, wide b, int bits, wide *y)
{
    switch (op) {
    case UM_OP_NEG: *y = -a; return true;
    case UM_OP_ABS: *y = a < 0 ? -a : a; return true;
    case UM_OP_SIGN: *y = (a > 0) - (a < 0); return true;
    case UM_OP_SQUARE: *y = (wide)((uint64_t)a * (uint64_t)a); return true;
    case UM_OP_RELU: *y = a > 0 ? a : 0; return true;
    case UM_OP_FLOOR: *y = a; return true;
    case UM_OP_BITWISE_NOT: *y = ~a; return true;
    case UM_OP_ADD: *y = a + b; return true;
    case UM_OP_SUB: *y = a - b; return true;
    case UM_OP_MUL: *y = (wide)((uint64_t)a * (uint64_t)b); return true;
    case UM_OP_DIV: *y = b ? a / b : 0; return true;
    case UM_OP_FMOD: *y = b ? a % b : 0; return true;
    case UM_OP_REMAINDER:
        *y = b ? (a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b) : 0;
        return true;
    case UM_OP_MAX: *y = a > b ? a : b; return true;
    case UM_OP_MIN: *y = a < b ? a : b; return true;
    case UM_OP_POW: *y = wide_pow(a, b); return b < 4096;
    case UM_OP_BITWISE_AND: *y = a & b; return true;
    case UM_OP_BITWISE_OR: *y = a | b; return true;
    case UM_OP_BITWISE_XOR: *y = a ^ b; return true;
    case UM_OP_SHIFT_LEFT: *y = b < 0 || b >= bits ? 0 : (wide)((uint64_t)a << (int)b); return true;
    case UM_OP_SHIFT_RIGHT: *y = b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> (int)b; return true;
    case UM_OP_LT: *y = a < b; return true;
    case UM_OP_EQ: *y = a == b; return true;
    case UM_OP_LOGICAL_AND: *y = a && b; return true;
    default: return false;
    }
}

static wide wide_get(um_dtype dtype, const void *x, int64_t i)
{
    int64_t v;
    um_load(um_dtype_class(dtype), &v, dtype, x, i, 1, 1);
    return dtype == UM_U64 ? (wide)(uint64_t)v : (wide)v;
}

static void check_int_op(um_op_id op, um_dtype dtype)
{
    static const int64_t values[] = {
        0,   1,  -1, 2,   -2,   3,   -3,     7,     -7,        8,         31,        33,
        100, 63, 64, 127, -128, 255, -32768, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    enum { N = UM_COUNT_OF(values) };
    uint64_t a[N * N], b[N * N], y[N * N];
    int bits = um_dtype_bits(dtype);
    for (int i = 0; i < N * N; i++) {
        um_store(dtype, a, i, 1, UM_CLASS_I64, &values[i / N], 1);
        um_store(dtype, b, i, 1, UM_CLASS_I64, &values[i % N], 1);
    }
    run_map(op, dtype, N * N, y, a, b, NULL);
    um_dtype out = um_op_get_row(op)->result == UM_RESULT_BOOL ? UM_BOOL : dtype;
    for (int i = 0; i < N * N; i++) {
        wide x0 = wide_get(dtype, a, i), x1 = wide_get(dtype, b, i), want;
        if (!wide_op(op, x0, x1, bits, &want)) continue;
        uint64_t low = (uint64_t)want, stored = 0;
        um_store(out, &stored, 0, 1, UM_CLASS_U64, &low, 1);
        CHECK_MSG(wide_get(out, y, i) == wide_get(out, &stored, 0), "%s %s(%lld, %lld) = %lld",
                  um_dtype_name(dtype), um_op_name(op), (long long)x0, (long long)x1,
                  (long long)wide_get(out, y, i));
    }
}

static void test_integers(void)
{
    for (um_dtype dtype = UM_I8; dtype <= UM_U64; dtype++)
        for (um_op_id op = UM_OP_NEG; op <= UM_OP_LOGADDEXP; op++)
            if (um_op_get_row(op)->dtypes & UM_BIT(dtype)) check_int_op(op, dtype);
    const bool a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1};
    bool y[4];
    run_map(UM_OP_BITWISE_NOT, UM_BOOL, 4, y, a, NULL, NULL);
    for (int i = 0; i < 4; i++) CHECK(y[i] == !a[i]);
    run_map(UM_OP_MAX, UM_BOOL, 4, y, a, b, NULL);
    for (int i = 0; i < 4; i++) CHECK(y[i] == (a[i] || b[i]));
}

/* ---- small floats, views, programs ------------------------------------------------------------
 */

static void test_where_moves_bits(void)
{
    uint8_t a[64], b[64], y[64];
    bool choose[32];
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++) {
        int bits = um_dtype_bits(dtype);
        int64_t n = bits == 64 ? 8 : 32 * 8 / UM_MAX(bits, 8);
        for (int i = 0; i < 64; i++)
            a[i] = (uint8_t)(i * 3 + 1) & 0x3b, b[i] = (uint8_t)(i * 5) & 0x3d;
        if (dtype == UM_BOOL)
            for (int i = 0; i < 64; i++) a[i] &= 1, b[i] &= 1;
        for (int i = 0; i < n; i++) choose[i] = i % 3 == 0;
        run_map(UM_OP_WHERE, dtype, n, y, choose, a, b);
        for (int64_t i = 0; i < n; i++) {
            uint64_t want = 0, got = 0;
            um_class c = um_dtype_class(dtype);
            um_load(c, &want, dtype, choose[i] ? a : b, i, 1, 1);
            um_load(c, &got, dtype, y, i, 1, 1);
            CHECK_MSG(want == got, "%s element %d", um_dtype_name(dtype), (int)i);
        }
    }
}

static void test_f16_rounds_once(void)
{
    for (int i = 0; i < 2000; i++) {
        uint16_t a = um_f32_to_f16((float)random_between(-8, 8)),
                 b = um_f32_to_f16((float)random_between(-8, 8)), y;
        run_map(UM_OP_ADD, UM_F16, 1, &y, &a, &b, NULL);
        CHECK(y == um_f32_to_f16(um_f16_to_f32(a) + um_f16_to_f32(b)));
        run_map(UM_OP_MUL, UM_BF16, 1, &y, &a, &b, NULL);
        CHECK(y == um_f32_to_bf16(um_bf16_to_f32(a) * um_bf16_to_f32(b)));
    }
}

static float at_2d(const um_view *v, int64_t i, int64_t k)
{
    return ((const float *)(uintptr_t)v->ptr)[i * v->stride[0] + k * v->stride[1]];
}

/* out = a - b for every layout of the three, around the sizes where the code changes its mind. */
static void check_layouts(int64_t rows, int64_t columns)
{
    static float a[90000], b[90000], y[90000];
    for (int i = 0; i < 90000; i++) a[i] = (float)i, b[i] = (float)(2 * i + 1);
    for (int layout = 0; layout < 5 * 5 * 3; layout++) {
        um_op op = {.id = UM_OP_SUB, .in_count = 2, .out_count = 1};
        for (int v = 0; v < 2; v++) {
            int kind = v ? layout / 5 % 5 : layout % 5;
            const float *x = v ? b : a;
            op.in[v] = kind == 1 ? transposed(view_2d(x, UM_F32, columns, rows))
                                 : view_2d(x, UM_F32, rows, columns);
            if (kind == 2) op.in[v].stride[0] = 0;
            if (kind == 3) op.in[v].stride[0] = op.in[v].stride[1] = 0;
            if (kind == 4 && rows > 0 && columns > 0) op.in[v] = reversed(op.in[v], v);
        }
        int out = layout / 25;
        op.out[0] = out == 1 ? transposed(view_2d(y, UM_F32, columns, rows))
                             : view_2d(y, UM_F32, rows, columns);
        if (out == 2) op.out[0].stride[0] = 2 * columns, op.out[0].stride[1] = 2;
        CHECK_OK(run_op(&op));
        bool right = true;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < columns; k++)
                right = right &&
                        at_2d(&op.out[0], i, k) == at_2d(&op.in[0], i, k) - at_2d(&op.in[1], i, k);
        CHECK_MSG(right, "%dx%d layout %d", (int)rows, (int)columns, layout);
    }
}

static void test_layouts(void)
{
    check_layouts(0, 5);
    check_layouts(1, 1);
    check_layouts(3, 7);
    check_layouts(17, 63);
    check_layouts(5, 65);
    check_layouts(300, 129);
    check_layouts(1, 40000);
    check_layouts(13001, 3);
}

static void test_in_place(void)
{
    static float x[100000];
    for (int i = 0; i < 100000; i++) x[i] = (float)i;
    um_op op = map_op(UM_OP_ADD, UM_F32, 100000, x, x, x, NULL);
    CHECK_OK(run_op(&op));
    bool right = true;
    for (int i = 0; i < 100000; i++) right = right && x[i] == 2 * (float)i;
    CHECK(right);
}

/* Streaming stores, and an output that is not aligned to a vector. */
static void test_large(void)
{
    int64_t n = (8 << 20) / 4 + 1003;
    float *x = malloc((size_t)n * 4), *y = malloc((size_t)n * 4 + 4);
    if (x && y) {
        for (int64_t i = 0; i < n; i++) x[i] = (float)i;
        run_map(UM_OP_SQUARE, UM_F32, n, y + 1, x, NULL, NULL);
        bool right = true;
        for (int64_t i = 0; i < n; i++) right = right && y[i + 1] == x[i] * x[i];
        CHECK(right);
    }
    free(x);
    free(y);
}

static um_op program_op(const um_map_program *program, um_dtype out_dtype, void *out, int64_t n)
{
    um_op op = {.id = UM_OP_MAP, .out_count = 1, .attrs.program = program};
    op.out[0] = view_1d(out, out_dtype, n);
    return op;
}

static void test_program_float(void)
{
    enum { N = 1000 };
    float a[N], y[N];
    uint8_t gate[N];
    for (int i = 0; i < N; i++) a[i] = (float)(i - 500) / 16, gate[i] = (uint8_t)(i % 3);
    /* gate < 2 ? relu(a) * 3 + a : -1 */
    um_map_program program = {.dtype = UM_F32, .inst_count = 8};
    program.inst[0] = (um_map_inst){.op = UM_OP_FILL, .value = 3};
    program.inst[1] = (um_map_inst){.op = UM_OP_RELU, .src = {0}};
    program.inst[2] = (um_map_inst){.op = UM_OP_FMA, .src = {3, 2, 0}};
    program.inst[3] = (um_map_inst){.op = UM_OP_FILL, .value = 2};
    program.inst[4] = (um_map_inst){.op = UM_OP_LT, .src = {1, 5}};
    program.inst[5] = (um_map_inst){.op = UM_OP_FILL, .value = -1};
    program.inst[6] = (um_map_inst){.op = UM_OP_NEG, .src = {0}}; /* nobody reads it */
    program.inst[7] = (um_map_inst){.op = UM_OP_WHERE, .src = {6, 4, 7}};
    um_op op = program_op(&program, UM_F32, y, N);
    op.in_count = 2;
    op.in[0] = view_1d(a, UM_F32, N);
    op.in[1] = view_1d(gate, UM_U8, N);
    CHECK_OK(run_op(&op));
    for (int i = 0; i < N; i++)
        CHECK_MSG(y[i] == (gate[i] < 2 ? (a[i] > 0 ? a[i] : 0) * 3 + a[i] : -1), "element %d: %g",
                  i, (double)y[i]);
}

/* Each step wraps, and a float input saturates to the program's dtype before anything else. */
static void test_program_int(void)
{
    const float a[4] = {1e9f, -1e9f, 1.9f, NAN};
    int32_t y[4];
    um_map_program program = {.dtype = UM_I16, .inst_count = 2};
    program.inst[0] = (um_map_inst){.op = UM_OP_ADD, .src = {0, 0}};
    program.inst[1] = (um_map_inst){.op = UM_OP_MUL, .src = {1, 1}};
    um_op op = program_op(&program, UM_I32, y, 4);
    op.in_count = 1;
    op.in[0] = view_1d(a, UM_F32, 4);
    CHECK_OK(run_op(&op));
    CHECK(y[0] == 4 && y[1] == 0 && y[2] == 4 && y[3] == 0); /* 32767 + 32767 = -2, ... */
}

static void test_program_full(void)
{
    enum { N = 777 };
    static double in[UM_MAP_MAX_INPUTS][N], y[N];
    um_map_program program = {.dtype = UM_F64, .inst_count = UM_MAP_MAX_INSTS};
    um_op op = program_op(&program, UM_F64, y, N);
    op.in_count = UM_MAP_MAX_INPUTS;
    for (int v = 0; v < UM_MAP_MAX_INPUTS; v++) {
        for (int i = 0; i < N; i++) in[v][i] = v + i;
        op.in[v] = reversed(view_1d(in[v], UM_F64, N), 0);
    }
    for (int i = 0; i < 12; i++) program.inst[i] = (um_map_inst){.op = UM_OP_FILL, .value = i};
    for (int i = 12; i < UM_MAP_MAX_INSTS; i++) /* sums up everything so far, two at a time */
        program.inst[i] = (um_map_inst){
            .op = UM_OP_FMA, .src = {(uint8_t)(2 * (i - 12)), 9, (uint8_t)(2 * (i - 12) + 1)}};
    program.inst[23] = (um_map_inst){.op = UM_OP_ADD, .src = {7, 19}};
    CHECK_OK(run_op(&op));
    for (int i = 0; i < N; i++) CHECK(y[i] == 7 + (N - 1 - i) + 11.0);
    um_map_program constant = {
        .dtype = UM_F32, .inst_count = 1, .inst[0] = {.op = UM_OP_FILL, .value = 2.5}};
    op = program_op(&constant, UM_F64, y, N);
    CHECK_OK(run_op(&op));
    for (int i = 0; i < N; i++) CHECK(y[i] == 2.5);
}

static void tests(void)
{
    TEST(test_functions);
    TEST(test_pairs);
    TEST(test_three);
    TEST(test_one_special);
    TEST(test_integers);
    TEST(test_where_moves_bits);
    TEST(test_f16_rounds_once);
    TEST(test_layouts);
    TEST(test_in_place);
    TEST(test_large);
    TEST(test_program_float);
    TEST(test_program_int);
    TEST(test_program_full);
}

int main(int argc, char **argv)
{
    if (argc > 1) sweep_step = strtoull(argv[1], NULL, 10);
    if (sweep_step == 0) sweep_step = 1;
    run_all(tests);
    return TEST_RESULT();
}
