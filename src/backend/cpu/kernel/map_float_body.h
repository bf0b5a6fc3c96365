/* backend/cpu/kernel/map_float_body.h: what each elementwise op is for floats, and its loop.
 * Included by map_f32.c and map_f64.c, which define FS, FV, UV   the scalar, its vector, the
 * unsigned vector of the same lanes LANES, F(fn) lanes of FV; vf32_fn or vf64_fn WHOLE        from
 * this magnitude on every value is an integer EXP_FLOOR    below this x, x * exp(x) is 0 MAP_LOOP
 * the function to define A new op is a row in op.def and one function op_<name> here (and in
 * map_int_body.h if integers have it). */

/* ---- helpers -------------------------------------------------------------------------------- */

/* 1 where the mask is set, else 0. */
#define TRUTH(mask) ((FV)((UV)(mask) & (UV)F(set)(1)))

UM_INLINE FV lanes_1(FV x, double (*fn)(double))
{
    for (int i = 0; i < LANES; i++) x[i] = (FS)fn((double)x[i]);
    return x;
}
UM_INLINE FV lanes_2(FV a, FV b, double (*fn)(double, double))
{
    for (int i = 0; i < LANES; i++) a[i] = (FS)fn((double)a[i], (double)b[i]);
    return a;
}

UM_INLINE double remainder_floor(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}
UM_INLINE double log_add_exp(double a, double b)
{
    double gap = a == b ? 0 : fabs(a - b); /* equal infinities have no gap either */
    return (a > b ? a : b) + log1p(exp(-gap));
}

/* ---- one input ------------------------------------------------------------------------------ */

UM_INLINE FV op_neg(FV x) { return -x; }
UM_INLINE FV op_abs(FV x) { return F(abs)(x); }
UM_INLINE FV op_sign(FV x) { return F(select)((x < 0) | (x > 0), F(copysign)(F(set)(1), x), x); }
UM_INLINE FV op_square(FV x) { return x * x; }
UM_INLINE FV op_relu(FV x) { return (FV)((UV)x & ~(UV)(x <= 0)); } /* NaN <= 0 is false */

UM_INLINE FV op_sigmoid(FV x)
{
    FV e = F(exp)(-F(abs)(x));
    return F(select)(x < 0, e, F(set)(1)) / (1 + e);
}
UM_INLINE FV op_tanh(FV x) { return F(tanh)(x); }
UM_INLINE FV op_exp(FV x) { return F(exp)(x); }
UM_INLINE FV op_exp2(FV x) { return F(exp2)(x); }
UM_INLINE FV op_expm1(FV x) { return F(expm1)(x); }
UM_INLINE FV op_log(FV x) { return F(log)(x); }
UM_INLINE FV op_log1p(FV x) { return lanes_1(x, log1p); }
UM_INLINE FV op_log2(FV x) { return lanes_1(x, log2); }
UM_INLINE FV op_log10(FV x) { return lanes_1(x, log10); }
UM_INLINE FV op_sqrt(FV x) { return F(sqrt)(x); }
UM_INLINE FV op_rsqrt(FV x) { return 1 / F(sqrt)(x); }
UM_INLINE FV op_sin(FV x) { return F(sin)(x); }
UM_INLINE FV op_cos(FV x) { return F(cos)(x); }
UM_INLINE FV op_tan(FV x) { return lanes_1(x, tan); }
UM_INLINE FV op_asin(FV x) { return lanes_1(x, asin); }
UM_INLINE FV op_acos(FV x) { return lanes_1(x, acos); }
UM_INLINE FV op_atan(FV x) { return lanes_1(x, atan); }
UM_INLINE FV op_sinh(FV x) { return lanes_1(x, sinh); }
UM_INLINE FV op_cosh(FV x) { return lanes_1(x, cosh); }
UM_INLINE FV op_asinh(FV x) { return lanes_1(x, asinh); }
UM_INLINE FV op_acosh(FV x) { return lanes_1(x, acosh); }
UM_INLINE FV op_atanh(FV x) { return lanes_1(x, atanh); }

/* Adding and taking away WHOLE leaves no room for a fraction, and rounds ties to even. */
UM_INLINE FV op_round(FV x)
{
    FV a = F(abs)(x), near = a + WHOLE - WHOLE;
    return F(select)(a < WHOLE, F(copysign)(near, x), x);
}
UM_INLINE FV op_floor(FV x)
{
    FV near = op_round(x);
    return F(select)(near > x, near - 1, near);
}
UM_INLINE FV op_ceil(FV x) { return -op_floor(-x); }
UM_INLINE FV op_trunc(FV x) { return F(copysign)(op_floor(F(abs)(x)), x); }

UM_INLINE FV op_erf(FV x) { return F(erf)(x); }
UM_INLINE FV op_gelu(FV x) { return F(gelu)(x); }
UM_INLINE FV op_gelu_tanh(FV x) { return F(gelu_tanh)(x); }
UM_INLINE FV op_softplus(FV x) { return F(softplus)(x); }

/* The scale of the small exponential is multiplied in last, or tiny results would lose their
 * digits. */
UM_INLINE FV op_silu(FV x)
{
    FV low = F(select)(x < EXP_FLOOR, F(set)(EXP_FLOOR), x);
    FV scale, e = F(exp_parts)(F(limit)(-F(abs)(x), EXP_FLOOR, 0), F(set)(0), &scale);
    FV down = 1 + e * scale;
    return F(select)(x < 0, low * e / down * scale, x / down);
}
/* tanh(log(1 + w)) = w (w + 2) / (w (w + 2) + 2) with w = e^x; from x = 40 on it is 1. */
UM_INLINE FV op_mish(FV x)
{
    FV low = F(select)(x < EXP_FLOOR, F(set)(EXP_FLOOR), x);
    FV scale, e = F(exp_parts)(F(limit)(x, EXP_FLOOR, 40), F(set)(0), &scale);
    FV w = e * scale;
    return low * (e * (w + 2) / (w * (w + 2) + 2)) * scale;
}
UM_INLINE FV op_hardswish(FV x)
{
    FV gate = F(limit)(x + 3, 0, 6) / 6;
    return F(select)(x <= -3, F(set)((FS)-0.0), x * gate);
}
UM_INLINE FV op_elu(FV x, FV slope) { return F(select)(x > 0, x, slope * F(expm1)(x)); }
UM_INLINE FV op_leaky_relu(FV x, FV slope) { return F(select)(x >= 0, x, slope * x); }
UM_INLINE FV op_logical_not(FV x) { return TRUTH(x == 0); }
UM_INLINE FV op_isnan(FV x) { return TRUTH(x != x); }
UM_INLINE FV op_isinf(FV x) { return TRUTH(F(abs)(x) == (FS)INFINITY); }

/* ---- two inputs ----------------------------------------------------------------------------- */

UM_INLINE FV op_add(FV a, FV b) { return a + b; }
UM_INLINE FV op_sub(FV a, FV b) { return a - b; }
UM_INLINE FV op_mul(FV a, FV b) { return a * b; }
UM_INLINE FV op_div(FV a, FV b) { return a / b; }
UM_INLINE FV op_max(FV a, FV b) { return F(max)(a, b); }
UM_INLINE FV op_min(FV a, FV b) { return F(min)(a, b); }
UM_INLINE FV op_pow(FV a, FV b) { return lanes_2(a, b, pow); }
UM_INLINE FV op_atan2(FV a, FV b) { return lanes_2(a, b, atan2); }
UM_INLINE FV op_hypot(FV a, FV b) { return lanes_2(a, b, hypot); }
UM_INLINE FV op_remainder(FV a, FV b) { return lanes_2(a, b, remainder_floor); }
UM_INLINE FV op_fmod(FV a, FV b) { return lanes_2(a, b, fmod); }
UM_INLINE FV op_logaddexp(FV a, FV b) { return lanes_2(a, b, log_add_exp); }
UM_INLINE FV op_eq(FV a, FV b) { return TRUTH(a == b); }
UM_INLINE FV op_ne(FV a, FV b) { return TRUTH(a != b); }
UM_INLINE FV op_lt(FV a, FV b) { return TRUTH(a < b); }
UM_INLINE FV op_le(FV a, FV b) { return TRUTH(a <= b); }
UM_INLINE FV op_gt(FV a, FV b) { return TRUTH(a > b); }
UM_INLINE FV op_ge(FV a, FV b) { return TRUTH(a >= b); }
UM_INLINE FV op_logical_and(FV a, FV b) { return TRUTH((a != 0) & (b != 0)); }
UM_INLINE FV op_logical_or(FV a, FV b) { return TRUTH((a != 0) | (b != 0)); }
UM_INLINE FV op_logical_xor(FV a, FV b) { return TRUTH((a != 0) ^ (b != 0)); }

/* ---- three inputs --------------------------------------------------------------------------- */

UM_INLINE FV op_where(FV c, FV a, FV b) { return F(select)(c != 0, a, b); }
UM_INLINE FV op_clamp(FV x, FV low, FV high) { return op_min(op_max(x, low), high); }
UM_INLINE FV op_fma(FV a, FV b, FV c) { return F(fma_once)(a, b, c); }

/* ---- what is defined by others --------------------------------------------------------------- */

#define PARAMS_1             FV x
#define PARAMS_2             FV x, FV y
#define PARAMS_3             FV x, FV y, FV z
#define UM_NUM(number)       F(set)((FS)(number))
#define UM_E1(name, a)       op_##name(a)
#define UM_E2(name, a, b)    op_##name(a, b)
#define UM_E3(name, a, b, c) op_##name(a, b, c)
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)
#define UM_MAP_AS(id, NAME, name, arity, dtypes, result, doc, as)                                  \
    UM_INLINE FV op_##name(PARAMS_##arity) { return as; }
#include <umbel/op.def>

/* ---- loops ---------------------------------------------------------------------------------- */

typedef FV (*fn_1)(FV);
typedef FV (*fn_2)(FV, FV);
typedef FV (*fn_3)(FV, FV, FV);

UM_INLINE void each_1(FS *dst, const FS *const *src, double value, int64_t n, fn_1 fn)
{
    (void)value;
    const FS *a = src[0];
    for (int64_t i = 0; i < n; i += LANES) F(store)(dst + i, fn(F(load)(a + i)));
}
UM_INLINE void each_1_value(FS *dst, const FS *const *src, double value, int64_t n, fn_2 fn)
{
    const FS *a = src[0];
    FV b = F(set)((FS)value);
    for (int64_t i = 0; i < n; i += LANES) F(store)(dst + i, fn(F(load)(a + i), b));
}
UM_INLINE void each_2(FS *dst, const FS *const *src, int64_t n, fn_2 fn)
{
    const FS *a = src[0], *b = src[1];
    for (int64_t i = 0; i < n; i += LANES) F(store)(dst + i, fn(F(load)(a + i), F(load)(b + i)));
}
UM_INLINE void each_3(FS *dst, const FS *const *src, int64_t n, fn_3 fn)
{
    const FS *a = src[0], *b = src[1], *c = src[2];
    for (int64_t i = 0; i < n; i += LANES)
        F(store)(dst + i, fn(F(load)(a + i), F(load)(b + i), F(load)(c + i)));
}

/* A function of one input that takes a second argument gets attrs.map.a there. */
#define EACH_1(fn) _Generic(&fn, fn_1 : each_1, fn_2 : each_1_value)(dst, src, value, n, fn)
#define EACH_2(fn) each_2(dst, src, n, fn)
#define EACH_3(fn) each_3(dst, src, n, fn)
#define CASE_F(id, arity, fn)                                                                      \
    case id:                                                                                       \
        EACH_##arity(fn);                                                                          \
        break;
#define CASE_FI(id, arity, fn)  CASE_F(id, arity, fn)
#define CASE_FIB(id, arity, fn) CASE_F(id, arity, fn)
#define CASE_ALL(id, arity, fn) CASE_F(id, arity, fn)
#define CASE_IB(id, arity, fn)
#define CASE_I(id, arity, fn)

/* n is a multiple of LANES. */
static void run_vectors(um_op_id op, FS *dst, const FS *const *src, double value, int64_t n)
{
    switch (op) {
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc) CASE_##dtypes(id, arity, op_##name)
#include <umbel/op.def>
    }
}

void MAP_LOOP(um_op_id op, void *dst, const void *const *src, double value, int64_t n)
{
    int64_t whole = n - n % LANES;
    FS *out = dst;
    const FS *in[3] = {src[0], src[1], src[2]};
    if (whole) run_vectors(op, out, in, value, whole);
    if (whole == n) return;
    FS last_in[3][LANES] = {{0}}, last_out[LANES] = {0};
    size_t last_bytes = (size_t)(n - whole) * sizeof(FS);
    const FS *last[3] = {last_in[0], last_in[1], last_in[2]};
    for (int i = 0; i < 3; i++)
        if (in[i]) memcpy(last_in[i], in[i] + whole, last_bytes);
    run_vectors(op, last_out, last, value, LANES);
    memcpy(out + whole, last_out, last_bytes);
}
