/* kernel/value.c: what each elementwise op is, on values of f32 (f64) and of integers. A new op is
 * a row in op.def and, unless the row says what it is, a function here: f_<name> where floats have
 * it, i_<name> where integers do. bool is computed as u32. */
#include "kernel/library.h"

#include "ir/math.h"

#include <math.h>

/* ---- words --------------------------------------------------------------------------------- */

um_val um_kvalue_number(um_kernel *k, um_dtype dtype, double value)
{
    uint64_t bits = 0;
    float f4;
    if (dtype != UM_F4E2M1) return um_k_number(k, dtype, 1, value);
    um_store(dtype, &bits, 0, 1, UM_CLASS_F64, &value, 1);
    um_load(UM_CLASS_F32, &f4, dtype, &bits, 0, 1, 1);
    return um_k_f32(k, f4);
}

um_val um_kvalue_as(um_kernel *k, um_dtype dtype, um_val a)
{
    if (dtype == UM_F4E2M1) return um_kvalue_from_f4_bits(k, um_kvalue_f4_bits(k, a));
    return um_val_type(k, a).dtype == dtype ? a : um_k_convert(k, dtype, a);
}

um_dtype um_kvalue_compute(um_dtype dtype)
{
    switch (dtype) {
    case UM_F64:
    case UM_I64:
    case UM_U64: return dtype;
    case UM_I8:
    case UM_I16:
    case UM_I32: return UM_I32;
    case UM_U8:
    case UM_U16:
    case UM_U32:
    case UM_BOOL: return UM_U32;
    default: return UM_F32;
    }
}

/* 0, 0.5, 1, 1.5, 2, 3, 4, 6 by the borders between them, of which ties go to even: a NaN is 6. */
um_val um_kvalue_f4_bits(um_kernel *k, um_val a)
{
    static const double borders[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
    um_dtype dtype = um_val_type(k, a).dtype == UM_F64 ? UM_F64 : UM_F32;
    a = um_kvalue_as(k, dtype, a);
    um_val size = um_k_abs(k, a), code = um_k_u32(k, 0), one = um_k_u32(k, 1), zero = code;
    for (uint32_t i = 0; i < UM_COUNT_OF(borders); i++) {
        um_val border = um_kvalue_number(k, dtype, borders[i]);
        um_val over = i % 2 ? um_k_ge(k, size, border) : um_k_gt(k, size, border);
        code = um_k_add(k, code, um_k_select(k, over, one, zero));
    }
    um_dtype word = dtype == UM_F64 ? UM_U64 : UM_U32;
    um_val sign = um_k_shr(k, um_k_bitcast(k, word, 1, a),
                           um_kvalue_number(k, word, um_dtype_bits(dtype) - 1));
    sign = um_k_shl(k, um_kvalue_as(k, UM_U32, sign), um_k_u32(k, 3));
    return um_k_select(k, um_k_ne(k, a, a), um_k_u32(k, 7), um_k_or(k, code, sign));
}

/* The exponent moved; 0.5, which is subnormal, is chosen apart. */
um_val um_kvalue_from_f4_bits(um_kernel *k, um_val bits)
{
    um_val size = um_k_and(k, bits, um_k_u32(k, 7)), zero = um_k_u32(k, 0);
    um_val normal = um_k_add(k, um_k_shl(k, size, um_k_u32(k, 22)), um_k_u32(k, 126u << 23));
    um_val half = um_k_select(k, um_k_eq(k, size, zero), zero, um_k_u32(k, 126u << 23));
    um_val low = um_k_lt(k, size, um_k_u32(k, 2));
    um_val sign = um_k_shl(k, um_k_shr(k, bits, um_k_u32(k, 3)), um_k_u32(k, 31));
    return um_k_bitcast(k, UM_F32, 1, um_k_or(k, um_k_select(k, low, half, normal), sign));
}

static um_dtype dtype_of(const um_kernel *k, um_val x) { return um_val_type(k, x).dtype; }

/* A constant of x's dtype. */
static um_val num(um_kernel *k, um_val x, double value)
{
    return um_kvalue_number(k, dtype_of(k, x), value);
}

static um_val plus(um_kernel *k, um_val a, double b) { return um_k_add(k, a, num(k, a, b)); }
static um_val times(um_kernel *k, um_val a, double b) { return um_k_mul(k, a, num(k, a, b)); }
static um_val below(um_kernel *k, um_val a, double b) { return um_k_lt(k, a, num(k, a, b)); }
static um_val is_zero(um_kernel *k, um_val a) { return um_k_eq(k, a, num(k, a, 0)); }
static um_val is_nonzero(um_kernel *k, um_val a) { return um_k_ne(k, a, num(k, a, 0)); }

static bool is_f64(const um_kernel *k, um_val x) { return dtype_of(k, x) == UM_F64; }

/* Floats of one magnitude: bits that both (either) have set. */
static um_val join_bits(um_kernel *k, um_val a, um_val b, bool both)
{
    um_dtype dtype = dtype_of(k, a), bits = is_f64(k, a) ? UM_U64 : UM_U32;
    a = um_k_bitcast(k, bits, 1, a);
    b = um_k_bitcast(k, bits, 1, b);
    return um_k_bitcast(k, dtype, 1, both ? um_k_and(k, a, b) : um_k_or(k, a, b));
}

/* Equal ones may be zeros of two signs, and where neither is larger nor equal one is a NaN. */
static um_val larger(um_kernel *k, um_val a, um_val b, bool max)
{
    um_val first = max ? um_k_gt(k, a, b) : um_k_lt(k, a, b), same = um_k_eq(k, a, b);
    um_val second = max ? um_k_lt(k, a, b) : um_k_gt(k, a, b);
    um_val rest = um_k_select(k, same, join_bits(k, a, b, max), um_k_add(k, a, b));
    return um_k_select(k, first, a, um_k_select(k, second, b, rest));
}

static um_val f_max(um_kernel *k, um_val a, um_val b) { return larger(k, a, b, true); }
static um_val f_min(um_kernel *k, um_val a, um_val b) { return larger(k, a, b, false); }

um_val um_kvalue_max(um_kernel *k, um_val a, um_val b)
{
    return um_dtype_is_float(dtype_of(k, a)) ? f_max(k, a, b) : um_k_max(k, a, b);
}

um_val um_kvalue_min(um_kernel *k, um_val a, um_val b)
{
    return um_dtype_is_float(dtype_of(k, a)) ? f_min(k, a, b) : um_k_min(k, a, b);
}

/* ---- what an opcode is ---------------------------------------------------------------------- */

#define FLOAT_1(row)                                                                               \
    row(neg) row(abs) row(tanh) row(exp) row(exp2) row(expm1) row(log) row(log1p) row(log2)        \
        row(log10) row(sqrt) row(rsqrt) row(sin) row(cos) row(tan) row(asin) row(acos) row(atan)   \
            row(sinh) row(cosh) row(asinh) row(acosh) row(atanh) row(floor) row(ceil) row(trunc)   \
                row(round) row(erf)
#define FLOAT_2(row)                                                                               \
    row(add) row(sub) row(mul) row(div) row(pow) row(atan2) row(eq) row(ne) row(lt) row(le)        \
        row(gt) row(ge)
#define INT_2(row)                                                                                 \
    row(add) row(sub) row(mul) row(max) row(min) row(eq) row(ne) row(lt) row(le) row(gt) row(ge)
#define F1(name)                                                                                   \
    static um_val f_##name(um_kernel *k, um_val a) { return um_k_##name(k, a); }
#define F2(name)                                                                                   \
    static um_val f_##name(um_kernel *k, um_val a, um_val b) { return um_k_##name(k, a, b); }
#define I2(name)                                                                                   \
    static um_val i_##name(um_kernel *k, um_val a, um_val b) { return um_k_##name(k, a, b); }
FLOAT_1(F1)
FLOAT_2(F2)
INT_2(I2)
#define i_neg um_k_neg
#define i_abs um_k_abs

/* ---- floats, one input ---------------------------------------------------------------------- */

static um_val f_sign(um_kernel *k, um_val x)
{
    um_val down = um_k_select(k, below(k, x, 0), num(k, x, -1), x);
    return um_k_select(k, um_k_gt(k, x, num(k, x, 0)), num(k, x, 1), down);
}

static um_val f_square(um_kernel *k, um_val x) { return um_k_mul(k, x, x); }

static um_val f_relu(um_kernel *k, um_val x)
{
    um_val zero = num(k, x, 0);
    return um_k_select(k, um_k_le(k, x, zero), zero, x); /* false of NaN */
}

static um_val f_sigmoid(um_kernel *k, um_val x)
{
    um_val e = um_k_exp(k, um_k_neg(k, um_k_abs(k, x))), one = num(k, x, 1);
    return um_k_div(k, um_k_select(k, below(k, x, 0), e, one), um_k_add(k, one, e));
}

/* x, but no lower than where exp(x) is 0, so that -inf times it is no NaN. */
static um_val floored(um_kernel *k, um_val x)
{
    double floor = is_f64(k, x) ? -800 : -120;
    return um_k_select(k, below(k, x, floor), num(k, x, floor), x);
}

/* Where e^x is tiny, it comes as the square of what keeps its digits, h: x h / (1 + h h) h. */
static um_val f_silu(um_kernel *k, um_val x)
{
    um_val low = floored(k, x), one = num(k, x, 1);
    um_val h = um_k_exp(k, times(k, um_k_neg(k, um_k_abs(k, low)), 0.5));
    um_val down = um_k_fma(k, h, h, one);
    um_val negative = um_k_mul(k, um_k_div(k, um_k_mul(k, low, h), down), h);
    return um_k_select(k, below(k, x, 0), negative, um_k_div(k, x, down));
}

static um_val f_softplus(um_kernel *k, um_val x)
{
    um_val e = um_k_exp(k, um_k_neg(k, um_k_abs(k, x))), zero = num(k, x, 0);
    return um_k_add(k, um_k_select(k, um_k_gt(k, x, zero), x, zero), um_k_log1p(k, e));
}

/* tanh(log(1 + w)) = w (w + 2) / (w (w + 2) + 2) with w = e^x = h h; from x = 40 on it is 1. */
static um_val f_mish(um_kernel *k, um_val x)
{
    um_val low = floored(k, x), top = num(k, x, 40), two = num(k, x, 2);
    um_val h = um_k_exp(k, times(k, um_k_select(k, um_k_gt(k, x, top), top, low), 0.5));
    um_val w = um_k_mul(k, h, h), w2 = um_k_add(k, w, two);
    um_val part = um_k_div(k, um_k_mul(k, h, w2), um_k_fma(k, w, w2, two));
    return um_k_mul(k, um_k_mul(k, low, part), h);
}

static um_val f_hardswish(um_kernel *k, um_val x)
{
    um_val gate = um_k_min(k, um_k_max(k, plus(k, x, 3), num(k, x, 0)), num(k, x, 6));
    um_val all_below = um_k_le(k, x, num(k, x, -3));
    um_val y = um_k_mul(k, x, um_k_div(k, gate, num(k, x, 6)));
    return um_k_select(k, all_below, num(k, x, -0.0), y);
}

static um_val f_elu(um_kernel *k, um_val x, um_val slope)
{
    um_val down = um_k_mul(k, slope, um_k_expm1(k, x));
    return um_k_select(k, um_k_gt(k, x, num(k, x, 0)), x, down);
}

static um_val f_leaky_relu(um_kernel *k, um_val x, um_val slope)
{
    return um_k_select(k, um_k_ge(k, x, num(k, x, 0)), x, um_k_mul(k, slope, x));
}

/* x times the normal distribution's integral up to x. The tail beyond a = |x| is h h times a ratio,
 * h being e^(-a^2/4): a^2 is taken in two parts, so that it keeps its relative precision. */
static um_val f_gelu(um_kernel *k, um_val x)
{
    bool wide = um_val_type(k, x).dtype == UM_F64;
    um_val a = um_k_min(k, um_k_abs(k, x), num(k, x, wide ? 38.6 : 14.5)), low;
    um_val square = um_k_product(k, a, a, &low);
    um_val h = um_k_exp_of_sum(k, times(k, square, -0.25), times(k, low, -0.25));
    um_val tail = um_k_mul(k, h, um_k_normal_tail(k, a));
    um_val negative = um_k_mul(k, um_k_mul(k, um_k_neg(k, a), tail), h);
    um_val kept = um_k_sub(k, num(k, x, 1), um_k_mul(k, tail, h));
    um_val y = um_k_select(k, below(k, x, 0), negative, um_k_mul(k, x, kept));
    return um_k_select(k, um_k_ne(k, x, x), x, y);
}

/* x sigmoid(2u), 2u = a (c + d a^2), a = |x|; with what is rounded off on the way, and h as in
 * f_silu. */
static um_val f_gelu_tanh(um_kernel *k, um_val x)
{
    bool wide = um_val_type(k, x).dtype == UM_F64;
    const double c = 0x1.9884533d43651p+0,
                 d = 0x1.2444f2a4d8b4bp-4; /* and what f64 lacks of them: */
    const double c_low = wide ? -0x1.cbc0d30ebfd15p-54 : c - (double)(float)c;
    const double d_low = wide ? -0x1.6c843a29d1c70p-61 : d - (double)(float)d;
    um_val a = um_k_min(k, um_k_abs(k, x), num(k, x, wide ? 21.6 : 11.2));
    um_val by = num(k, x, d), high = num(k, x, c), square_low, part_low, u_low;
    um_val square = um_k_product(k, a, a, &square_low);
    um_val part = um_k_product(k, by, square, &part_low);
    part_low = um_k_add(k, part_low, um_k_mul(k, by, square_low));
    part_low = um_k_add(k, part_low, times(k, square, d_low));
    part_low = plus(k, part_low, c_low);
    um_val lost, sum = um_k_sum(k, high, part, &lost);
    um_val u = um_k_product(k, a, sum, &u_low);
    u_low = um_k_add(k, u_low, um_k_mul(k, a, um_k_add(k, lost, part_low)));
    um_val h = um_k_exp_of_sum(k, times(k, u, -0.5), times(k, u_low, -0.5));
    um_val down = um_k_fma(k, h, h, num(k, x, 1));
    um_val negative = um_k_mul(k, um_k_div(k, um_k_mul(k, um_k_neg(k, a), h), down), h);
    um_val y = um_k_select(k, below(k, x, 0), negative, um_k_div(k, x, down));
    return um_k_select(k, um_k_ne(k, x, x), x, y);
}

#define f_logical_not is_zero
static um_val f_isnan(um_kernel *k, um_val x) { return um_k_ne(k, x, x); }
static um_val f_isinf(um_kernel *k, um_val x)
{
    return um_k_eq(k, um_k_abs(k, x), num(k, x, (double)INFINITY));
}

/* ---- floats, more inputs -------------------------------------------------------------------- */

static um_val bits_of(um_kernel *k, um_val x)
{
    return um_k_bitcast(k, is_f64(k, x) ? UM_I64 : UM_I32, 1, x);
}

static um_val float_of(um_kernel *k, um_val bits)
{
    return um_k_bitcast(k, dtype_of(k, bits) == UM_I64 ? UM_F64 : UM_F32, 1, bits);
}

/* a + b; where that is not exact, its neighbour whose last bit is 1: what is rounded further is
 * rounded as if it were exact. */
static um_val sum_to_odd(um_kernel *k, um_val a, um_val b)
{
    um_val lost, sum = um_k_sum(k, a, b, &lost), bits = bits_of(k, sum);
    um_val even = is_zero(k, um_k_and(k, bits, num(k, bits, 1)));
    um_val inward = below(k, um_k_xor(k, bits, bits_of(k, lost)), 0);
    um_val odd = um_k_select(k, inward, plus(k, bits, -1), plus(k, bits, 1));
    return float_of(k, um_k_select(k, um_k_and(k, even, is_nonzero(k, lost)), odd, bits));
}

/* x + y + z rounded once, and what that lost, itself to odd. */
static um_val sum_of_three(um_kernel *k, um_val x, um_val y, um_val z, um_val *lost)
{
    um_val y_low, x_low, sum = um_k_sum(k, x, um_k_sum(k, y, z, &y_low), &x_low);
    return um_k_sum(k, sum, sum_to_odd(k, x_low, y_low), lost);
}

/* The upper half of x's digits, so that products of halves are exact: Veltkamp. */
static um_val half_of(um_kernel *k, um_val x)
{
    um_val wide = times(k, x, is_f64(k, x) ? 0x1p27 + 1 : 0x1p12 + 1);
    return um_k_sub(k, wide, um_k_sub(k, wide, x));
}

/* A float's digits after the point, its exponent's bias, how far f_fma lets exponents be apart. */
typedef struct format {
    int32_t digits, bias, apart;
} format;

static um_val exponent_of(um_kernel *k, const format *f, um_val bits)
{
    um_val field = um_k_shr(k, bits, num(k, bits, f->digits));
    return um_k_and(k, field, num(k, bits, 2 * f->bias + 1));
}

/* A finite x is s 2^(e - bias): gives s, |s| < 2. */
static um_val significand_of(um_kernel *k, const format *f, um_val x, um_val *e)
{
    um_val bits = bits_of(k, x), field = exponent_of(k, f, bits), one = bits_of(k, num(k, x, 1));
    um_val low = um_k_and(k, bits, num(k, bits, ldexp(1, f->digits) - 1));
    um_val s = float_of(k, um_k_or(k, low, one));
    s = um_k_select(k, is_zero(k, field), plus(k, s, -1), s);
    *e = um_k_max(k, field, num(k, bits, 1));
    return um_k_select(k, below(k, bits, 0), um_k_neg(k, s), s);
}

/* r + rest, times 2^(e - bias), without its sign: bits. Where that is subnormal, a power of two
 * whose last digit is its last one makes the sum round there. */
static um_val scaled_bits(um_kernel *k, const format *f, um_val r, um_val rest, um_val e)
{
    um_val bits = bits_of(k, r), off = um_k_sub(k, num(k, e, f->bias), e), digits;
    um_val at = um_k_sub(k, exponent_of(k, f, bits), off), small = below(k, at, 1);
    off = um_k_add(k, off, um_k_select(k, small, num(k, e, 1), num(k, e, 0)));
    off = um_k_shl(k, off, num(k, e, f->digits));
    digits = float_of(k, um_k_select(k, small, off, num(k, e, 0)));
    digits = um_k_select(k, below(k, bits, 0), um_k_neg(k, digits), digits);
    um_val size = bits_of(k, um_k_abs(k, sum_of_three(k, digits, r, rest, &rest)));
    um_val infinite = um_k_ge(k, at, num(k, e, 2 * f->bias + 1));
    um_val inf = bits_of(k, num(k, r, (double)INFINITY));
    return um_k_select(k, infinite, inf, um_k_sub(k, size, off));
}

/* Rounded once on any target: Boldo and Melquiond, Emulation of a FMA (2008), on significands, so
 * that nothing leaves the range. Exponents further apart than `apart` make no difference: the
 * smaller one is below all that the larger one has. */
static um_val f_fma(um_kernel *k, um_val a, um_val b, um_val c)
{
    if (is_f64(k, a) && !k->fma_twice) return um_k_fma(k, a, b, c);
    const format f = is_f64(k, a) ? (format){52, 1023, 164} : (format){23, 127, 77};
    um_val e[3], x = significand_of(k, &f, a, &e[0]), y = significand_of(k, &f, b, &e[1]);
    um_val z = significand_of(k, &f, c, &e[2]), x_high = half_of(k, x), y_high = half_of(k, y);
    um_val x_low = um_k_sub(k, x, x_high), y_low = um_k_sub(k, y, y_high), p = um_k_mul(k, x, y);
    um_val lost = um_k_sub(k, um_k_mul(k, x_high, y_high), p);
    lost = um_k_add(k, lost, um_k_mul(k, x_high, y_low));
    lost = um_k_add(k, lost, um_k_mul(k, x_low, y_high));
    lost = um_k_add(k, lost, um_k_mul(k, x_low, y_low));
    um_val base = um_k_max(k, plus(k, um_k_add(k, e[0], e[1]), -f.bias), plus(k, e[2], -f.apart));
    base = um_k_select(k, is_zero(k, p), e[2], base);
    um_val down = um_k_max(k, um_k_sub(k, e[2], base), num(k, base, -f.apart));
    um_val scale = um_k_shl(k, plus(k, down, f.bias), num(k, base, f.digits));
    um_val rest, r = sum_of_three(k, p, um_k_mul(k, z, float_of(k, scale)), lost, &rest);
    um_val none = is_zero(k, r), c_bits = bits_of(k, c);
    um_val p_sign = um_k_xor(k, bits_of(k, a), bits_of(k, b));
    um_val minus = um_k_select(k, none, um_k_and(k, p_sign, c_bits), bits_of(k, r));
    um_val size = um_k_select(k, none, num(k, base, 0), scaled_bits(k, &f, r, rest, base));
    um_val sign = um_k_and(k, minus, num(k, base, is_f64(k, a) ? -0x1p63 : -0x1p31));
    um_val result = float_of(k, um_k_or(k, size, sign)); /* a negation may lose subnormal ones */
    um_val inf = num(k, a, (double)INFINITY), a_real = um_k_lt(k, um_k_abs(k, a), inf);
    um_val b_real = um_k_lt(k, um_k_abs(k, b), inf), both = um_k_and(k, a_real, b_real);
    p = um_k_mul(k, um_k_select(k, a_real, x, a), um_k_select(k, b_real, y, b));
    um_val special = um_k_add(k, um_k_select(k, both, c, p), c);
    both = um_k_and(k, both, um_k_lt(k, um_k_abs(k, c), inf));
    return um_k_select(k, both, result, special);
}

/* Scaled by a power of two where squares would overflow, or vanish. */
static um_val f_hypot(um_kernel *k, um_val a, um_val b)
{
    double big = is_f64(k, a) ? 0x1p500 : 0x1p60, small = is_f64(k, a) ? 0x1p-450 : 0x1p-40;
    double shift = is_f64(k, a) ? 0x1p-600 : 0x1p-75, one = 1;
    um_val inf = num(k, a, (double)INFINITY), large;
    a = um_k_abs(k, a);
    b = um_k_abs(k, b);
    large = um_k_max(k, a, b);
    um_val is_big = um_k_gt(k, large, num(k, a, big)), is_small = below(k, large, small);
    um_val up = um_k_select(k, is_small, num(k, a, one / shift), num(k, a, one));
    um_val scale = um_k_select(k, is_big, num(k, a, shift), up);
    up = um_k_select(k, is_small, num(k, a, shift), num(k, a, one));
    um_val unscale = um_k_select(k, is_big, num(k, a, one / shift), up);
    um_val x = um_k_mul(k, a, scale), y = um_k_mul(k, b, scale);
    um_val root = um_k_sqrt(k, um_k_fma(k, x, x, um_k_mul(k, y, y)));
    um_val infinite = um_k_or(k, um_k_eq(k, a, inf), um_k_eq(k, b, inf));
    return um_k_select(k, infinite, inf, um_k_mul(k, root, unscale));
}

static um_mem new_var(um_kernel *k, um_val value)
{
    return um_kvar(k, value, "var%lld", (long long)k->mem_count);
}

/* r - q t of f32 or f64, exactly where that is one; scaled where q t could be too large. */
static um_val less_product(um_kernel *k, um_val r, um_val q, um_val t)
{
    um_val lost, one = num(k, r, 1);
    um_val large = um_k_gt(k, r, num(k, r, is_f64(k, r) ? 0x1p900 : 0x1p100));
    um_val down = um_k_select(k, large, num(k, r, 0x1p-30), one);
    um_val p = um_k_product(k, q, um_k_mul(k, t, down), &lost);
    um_val rest = um_k_sub(k, um_k_sub(k, um_k_mul(k, r, down), p), lost);
    return um_k_mul(k, rest, um_k_select(k, large, num(k, r, 0x1p30), one));
}

/* Long division: while r >= y, t = y 2^e with t <= r < t 2^22 takes q t from it, which is exact,
 * and q is at most 1 too large. Of what is not finite, and of b = 0, the rules at the end. */
static um_val f_fmod(um_kernel *k, um_val a, um_val b)
{
    um_val y = um_k_abs(k, b), zero = num(k, a, 0), inf = num(k, a, (double)INFINITY);
    um_val step = num(k, a, is_f64(k, a) ? 0x1p20 : 0x1p21),
           back = num(k, a, is_f64(k, a) ? 0x1p-20 : 0x1p-21);
    um_val size = um_k_abs(k, a);
    um_val good = um_k_and(k, um_k_lt(k, size, inf), um_k_gt(k, y, zero)); /* false of NaN */
    um_val divides = um_k_and(k, good, um_k_lt(k, y, inf));
    um_mem rest = new_var(k, size), by = new_var(k, y);
    um_k_if(k, divides);
    /* The largest y step^i that is no more than r: each one's quotient is below step. */
    um_k_loop(k);
    um_val larger_by = um_k_mul(k, um_k_get(k, by), step);
    um_k_break_if(k, um_k_gt(k, larger_by, size));
    um_k_set(k, by, larger_by);
    um_k_end(k);
    um_k_loop(k);
    um_val t = um_k_get(k, by), r = um_k_get(k, rest);
    um_val q = um_k_trunc(k, um_k_div(k, r, t));
    r = less_product(k, r, q, t);
    um_k_set(k, rest, um_k_select(k, um_k_lt(k, r, zero), um_k_add(k, r, t), r));
    um_k_break_if(k, um_k_le(k, t, y));
    um_k_set(k, by, um_k_mul(k, t, back));
    um_k_end(k);
    um_k_end(k);
    um_val left = um_k_select(k, good, um_k_get(k, rest), num(k, a, (double)NAN));
    um_val negative = um_k_lt(k, um_k_bitcast(k, is_f64(k, a) ? UM_I64 : UM_I32, 1, a),
                              um_kvalue_number(k, is_f64(k, a) ? UM_I64 : UM_I32, 0));
    return um_k_select(k, negative, um_k_neg(k, left), left);
}

static um_val f_remainder(um_kernel *k, um_val a, um_val b)
{
    um_val m = f_fmod(k, a, b), zero = num(k, a, 0);
    um_val other_sign = um_k_xor(k, um_k_lt(k, m, zero), um_k_lt(k, b, zero));
    um_val signed_zero = um_k_select(k, um_k_lt(k, b, zero), num(k, a, -0.0), zero);
    um_val moved = um_k_select(k, other_sign, um_k_add(k, m, b), m);
    return um_k_select(k, um_k_eq(k, m, zero), signed_zero, moved);
}

static um_val f_logaddexp(um_kernel *k, um_val a, um_val b)
{
    um_val same = um_k_eq(k, a, b), gap = um_k_abs(k, um_k_sub(k, a, b));
    gap = um_k_select(k, same, num(k, a, 0), gap); /* of equal infinities too */
    um_val top = um_k_select(k, um_k_gt(k, a, b), a, b);
    return um_k_add(k, top, um_k_log1p(k, um_k_exp(k, um_k_neg(k, gap))));
}

static um_val f_logical_and(um_kernel *k, um_val a, um_val b)
{
    return um_k_and(k, is_nonzero(k, a), is_nonzero(k, b));
}
static um_val f_logical_or(um_kernel *k, um_val a, um_val b)
{
    return um_k_or(k, is_nonzero(k, a), is_nonzero(k, b));
}
static um_val f_logical_xor(um_kernel *k, um_val a, um_val b)
{
    return um_k_xor(k, is_nonzero(k, a), is_nonzero(k, b));
}

static um_val f_where(um_kernel *k, um_val c, um_val a, um_val b)
{
    return um_k_select(k, is_nonzero(k, c), a, b);
}
static um_val f_clamp(um_kernel *k, um_val x, um_val low, um_val high)
{
    return f_min(k, f_max(k, x, low), high);
}

/* ---- integers ------------------------------------------------------------------------------- */

static bool is_signed(const um_kernel *k, um_val x)
{
    return um_dtype_get_kind(dtype_of(k, x)) == UM_KIND_INT;
}

static um_val same(um_kernel *k, um_val x) { return (void)k, x; }
static um_val never(um_kernel *k, um_val x) { return (void)x, um_k_bool(k, false); }

#define i_square      f_square
#define i_floor       same
#define i_ceil        same
#define i_trunc       same
#define i_round       same
#define i_logical_not is_zero
#define i_bitwise_not um_k_not
#define i_isnan       never
#define i_isinf       never
#define i_logical_and f_logical_and
#define i_logical_or  f_logical_or
#define i_logical_xor f_logical_xor
#define i_bitwise_and um_k_and
#define i_bitwise_or  um_k_or
#define i_bitwise_xor um_k_xor
#define i_where       f_where

static um_val i_sign(um_kernel *k, um_val x)
{
    um_val up = um_k_min(k, x, num(k, x, 1));
    return is_signed(k, x) ? um_k_max(k, up, num(k, x, -1)) : up;
}

static um_val i_relu(um_kernel *k, um_val x) { return um_k_max(k, x, num(k, x, 0)); }

/* Whether b is -1, by which the lowest value must not be divided. */
static um_val is_minus_one(um_kernel *k, um_val b)
{
    return is_signed(k, b) ? um_k_eq(k, b, num(k, b, -1)) : um_k_bool(k, false);
}

/* b, or 1 where nothing is to be divided by it. */
static um_val safe_divisor(um_kernel *k, um_val b)
{
    return um_k_select(k, um_k_or(k, is_zero(k, b), is_minus_one(k, b)), num(k, b, 1), b);
}

static um_val i_div(um_kernel *k, um_val a, um_val b)
{
    um_val y = um_k_div(k, a, safe_divisor(k, b));
    y = um_k_select(k, is_minus_one(k, b), um_k_neg(k, a), y);
    return um_k_select(k, is_zero(k, b), num(k, a, 0), y);
}

/* x rem 1 is 0, as the rest for b = 0 and b = -1 is to be. */
static um_val i_fmod(um_kernel *k, um_val a, um_val b)
{
    return um_k_rem(k, a, safe_divisor(k, b));
}

static um_val i_remainder(um_kernel *k, um_val a, um_val b)
{
    um_val m = i_fmod(k, a, b);
    if (!is_signed(k, a)) return m;
    um_val apart = um_k_xor(k, below(k, m, 0), below(k, b, 0));
    return um_k_select(k, um_k_and(k, apart, is_nonzero(k, m)), um_k_add(k, m, b), m);
}

/* By squaring; of a negative exponent all but 1 and -1 have a power that truncates to 0. */
static um_val i_pow(um_kernel *k, um_val a, um_val b)
{
    um_dtype wide = um_val_type(k, a).dtype == UM_I64   ? UM_U64
                    : um_val_type(k, a).dtype == UM_I32 ? UM_U32
                                                        : dtype_of(k, a);
    um_val one = num(k, a, 1), zero = num(k, a, 0);
    um_mem power = new_var(k, one), factor = new_var(k, a);
    um_val exponent = is_signed(k, b) ? um_k_max(k, b, zero) : b;
    um_mem rest = new_var(k, um_k_bitcast(k, wide, 1, exponent));
    um_k_loop(k);
    um_val r = um_k_get(k, rest), f = um_k_get(k, factor), unit = um_kvalue_number(k, wide, 1);
    um_k_break_if(k, is_zero(k, r));
    um_k_if(k, is_nonzero(k, um_k_and(k, r, unit)));
    um_k_set(k, power, um_k_mul(k, um_k_get(k, power), f));
    um_k_end(k);
    um_k_set(k, factor, um_k_mul(k, f, f));
    um_k_set(k, rest, um_k_shr(k, r, unit));
    um_k_end(k);
    um_val y = um_k_get(k, power);
    if (!is_signed(k, a)) return y;
    um_val odd = is_nonzero(k, um_k_and(k, b, one)), minus = num(k, a, -1);
    um_val small = um_k_select(k, is_minus_one(k, a), um_k_select(k, odd, minus, one), zero);
    small = um_k_select(k, um_k_eq(k, a, one), one, small);
    return um_k_select(k, below(k, b, 0), small, y);
}

/* Whether b is a number of bits that a can be shifted by. A narrower dtype is cut, or its sign is
 * there already, when it is shifted by more than its bits. */
static um_val is_shift(um_kernel *k, um_val b)
{
    um_val in = below(k, b, (double)um_dtype_bits(dtype_of(k, b)));
    return is_signed(k, b) ? um_k_and(k, in, um_k_ge(k, b, num(k, b, 0))) : in;
}

static um_val i_shift_left(um_kernel *k, um_val a, um_val b)
{
    return um_k_select(k, is_shift(k, b), um_k_shl(k, a, b), num(k, a, 0));
}

static um_val i_shift_right(um_kernel *k, um_val a, um_val b)
{
    um_val all = um_k_shr(k, a, num(k, a, um_dtype_bits(dtype_of(k, a)) - 1));
    um_val out = is_signed(k, a) ? all : num(k, a, 0);
    return um_k_select(k, is_shift(k, b), um_k_shr(k, a, b), out);
}

static um_val i_clamp(um_kernel *k, um_val x, um_val low, um_val high)
{
    return um_k_min(k, um_k_max(k, x, low), high);
}

/* ---- by op ---------------------------------------------------------------------------------- */

/* What is defined by others. */
#define PARAMS_1             um_val x
#define PARAMS_2             um_val x, um_val y
#define PARAMS_3             um_val x, um_val y, um_val z
#define UM_NUM(number)       num(k, x, number)
#define UM_E1(name, a)       f_##name(k, a)
#define UM_E2(name, a, b)    f_##name(k, a, b)
#define UM_E3(name, a, b, c) f_##name(k, a, b, c)
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)
#define UM_MAP_AS(id, NAME, name, arity, dtypes, result, doc, as)                                  \
    static um_val f_##name(um_kernel *k, PARAMS_##arity) { return as; }
#include <umbel/op.def>

typedef um_val fn_1(um_kernel *, um_val);
typedef um_val fn_2(um_kernel *, um_val, um_val);
typedef um_val fn_3(um_kernel *, um_val, um_val, um_val);

static um_val call_1(um_kernel *k, const um_val *x, double a, fn_1 *fn)
{
    return (void)a, fn(k, x[0]);
}
/* A function of one input that takes a second argument gets attrs.map.a there. */
static um_val call_1_value(um_kernel *k, const um_val *x, double a, fn_2 *fn)
{
    return fn(k, x[0], num(k, x[0], a));
}
static um_val call_2(um_kernel *k, const um_val *x, fn_2 *fn) { return fn(k, x[0], x[1]); }
static um_val call_3(um_kernel *k, const um_val *x, fn_3 *fn) { return fn(k, x[0], x[1], x[2]); }

#define CALL_1(fn) _Generic(&fn, fn_1 * : call_1, fn_2 * : call_1_value)(k, x, a, fn)
#define CALL_2(fn) call_2(k, x, fn)
#define CALL_3(fn) call_3(k, x, fn)

#define FLOAT_F(arity, name)   CALL_##arity(f_##name)
#define FLOAT_FI(arity, name)  CALL_##arity(f_##name)
#define FLOAT_FIB(arity, name) CALL_##arity(f_##name)
#define FLOAT_ALL(arity, name) CALL_##arity(f_##name)
#define FLOAT_IB(arity, name)  0
#define FLOAT_I(arity, name)   0
#define INT_F(arity, name)     0
#define INT_FI(arity, name)    CALL_##arity(i_##name)
#define INT_FIB(arity, name)   CALL_##arity(i_##name)
#define INT_ALL(arity, name)   CALL_##arity(i_##name)
#define INT_IB(arity, name)    CALL_##arity(i_##name)
#define INT_I(arity, name)     CALL_##arity(i_##name)
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)                                         \
    case id: return is_float ? FLOAT_##dtypes(arity, name) : INT_##dtypes(arity, name);

um_val um_kvalue_map(um_kernel *k, um_op_id op, const um_val *x, double a)
{
    bool is_float = um_dtype_is_float(dtype_of(k, x[0]));
    switch (op) {
#include <umbel/op.def>
    default: return 0;
    }
}
