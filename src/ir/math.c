/* ir/math.c: exp, log, sine and their kin, built of the IR's arithmetic. Coefficients are our own
 * minimax fits, the same as the CPU's (backend/cpu/kernel/vmath.h) where both have one. Products
 * with constants of few bits (of ln 2, pi / 2) are exact, so that nothing depends on fused
 * rounding. test/test_math.c watches the worst errors. */
#include "ir/math.h"
#include "ir/math_verbs.h"

#include <math.h>
#include <stdio.h>

/* Of f32 and of f64; a 0 is behind the last. */
#define LIST(...) __VA_ARGS__
static const double polynomials[][2][24] = {
#define UM_POLY(name, narrow, wide, doc) {{LIST narrow}, {LIST wide}},
#include "ir/math.def"
};

um_val um_k_polynomial(um_kernel *k, int32_t which, um_val t)
{
    const double *c = polynomials[which][is_wide(k, t)];
    um_val sum = number(k, t, *c++);
    while (*c != 0) sum = FMA(sum, t, number(k, t, *c++));
    return sum;
}

um_val um_k_sum(um_kernel *k, um_val a, um_val b, um_val *lost)
{
    um_val sum = ADD(a, b), part = SUB(sum, a), rest = SUB(a, SUB(sum, part));
    *lost = ADD(rest, SUB(b, part));
    return sum;
}

um_val um_k_product(um_kernel *k, um_val a, um_val b, um_val *lost)
{
    um_val p = MUL(a, b), ah = head_of(k, a), bh = head_of(k, b), al = SUB(a, ah), bl = SUB(b, bh);
    *lost = ADD(ADD(ADD(SUB(MUL(ah, bh), p), MUL(ah, bl)), MUL(al, bh)), MUL(al, bl));
    return p;
}

/* ---- exp ------------------------------------------------------------------------------------ */

/* 2^n as x's type for an i32 n between 2's exponents. */
static um_val exp2i(um_kernel *k, um_val x, um_val n)
{
    bool wide = is_wide(k, x);
    um_val biased = ADD(n, constant(k, n, UM_I32, wide ? 1023 : 127));
    um_val bits = um_k_shl(k, biased, constant(k, n, UM_I32, wide ? 20 : 23));
    return with_bits(k, x, um_k_bitcast(k, UM_U32, lanes_of(k, n), bits), false);
}

/* hi + lo = *n ln 2 + r: gives r, |r| <= ln 2 / 2. */
static um_val exp_reduce(um_kernel *k, um_val x, um_val lo, um_val *n)
{
    um_val turns = um_k_round(k, MUL(x, NUM(0x1.71547652b82fep+0)));
    *n = um_k_convert(k, UM_I32, turns);
    um_val r = SUB(x, MUL(turns, OF(0x1.63p-1, 0x1.62e42feep-1))); /* few bits of ln 2: exact */
    r = FMA(turns, OF(0x1.bd0106p-13, -0x1.a39ef35793c76p-33), r);
    return lo ? ADD(r, lo) : r;
}

/* e^r - 1 for |r| <= ln 2 / 2. */
static um_val expm1_near(um_kernel *k, um_val r)
{
    um_val q = POLY(r, EXPM1);
    return FMA(MUL(r, r), q, r);
}

/* e^(x + lo) 2^more, x within -120 .. 90, of f64 -750 .. 710: rounded once where the result is
 * subnormal. */
static um_val exp_scaled(um_kernel *k, um_val x, um_val lo, int32_t more)
{
    um_val n, r = exp_reduce(k, x, lo, &n);
    um_val one = constant(k, x, UM_I32, 1);
    if (more) n = ADD(n, constant(k, x, UM_I32, (uint32_t)more));
    um_val half = um_k_shr(k, n, one);
    um_val e = MUL(ADD(NUM(1), expm1_near(k, r)), exp2i(k, x, half));
    return MUL(e, exp2i(k, x, SUB(n, half)));
}

um_val um_k_exp_of_sum(um_kernel *k, um_val x, um_val low) { return exp_scaled(k, x, low, 0); }

static um_val exp_of(um_kernel *k, um_val x)
{
    bool wide = is_wide(k, x);
    return exp_scaled(k, limit(k, x, wide ? -746 : -104, wide ? 710 : 89), 0, 0);
}

/* 2^(hi + lo); lo may be none: 0. */
static um_val exp2_parts(um_kernel *k, um_val hi, um_val lo)
{
    bool wide = is_wide(k, hi);
    um_val x = limit(k, hi, wide ? -1100 : -160, wide ? 1030 : 130), turns = um_k_round(k, x), e;
    um_val r = SUB(x, turns);
    if (lo) r = ADD(r, lo);
    if (wide) {
        e = ADD(NUM(1), expm1_near(k, MUL(r, NUM(0x1.62e42fefa39efp-1))));
    } else {
        um_val p = POLY(r, EXP2);
        e = FMA(p, r, NUM(1));
    }
    um_val n = um_k_convert(k, UM_I32, turns), half = um_k_shr(k, n, constant(k, x, UM_I32, 1));
    return MUL(MUL(e, exp2i(k, x, half)), exp2i(k, x, SUB(n, half)));
}

/* Half of 2^n keeps n = 128 in range. */
static um_val expm1_of(um_kernel *k, um_val x)
{
    bool wide = is_wide(k, x);
    um_val n, r = exp_reduce(k, limit(k, x, wide ? -50 : -25, wide ? 710 : 89), 0, &n);
    um_val scale = exp2i(k, x, SUB(n, constant(k, x, UM_I32, 1)));
    um_val y = FMA(expm1_near(k, r), scale, SUB(scale, NUM(0.5)));
    um_val tiny =
        um_k_lt(k, um_k_abs(k, x), OF(0x1p-30, 0x1p-60)); /* half of it may be no number */
    return SELECT(tiny, x, copysign_of(k, MUL(NUM(2), y), x));
}

/* ---- log ------------------------------------------------------------------------------------ */

/* x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); x positive and finite. */
static um_val log_split(um_kernel *k, um_val x, um_val *n)
{
    bool wide = is_wide(k, x);
    uint32_t digits = wide ? 20 : 23;
    um_val root_half = WORD(wide ? 0x3fe6a09e : 0x3f3504f3); /* sqrt(1/2) */
    um_val tiny = um_k_lt(k, x, OF(0x1p-126, 0x1p-1022));
    um_val scaled = SELECT(tiny, MUL(x, OF(0x1p23, 0x1p54)), x);
    um_val above = SUB(to_bits(k, scaled), root_half);
    um_val exponent =
        um_k_shr(k, um_k_bitcast(k, UM_I32, lanes_of(k, x), above), constant(k, x, UM_I32, digits));
    *n = SUB(um_k_convert(k, wide ? UM_F64 : UM_F32, exponent), SELECT(tiny, OF(23, 54), NUM(0)));
    um_val m = ADD(um_k_and(k, above, WORD((1u << digits) - 1)), root_half);
    return SUB(with_bits(k, scaled, m, true), NUM(1));
}

/* log(1 + f) - f for -0.2935 <= f <= 0.5; of f64 by s = f / (2 + f). */
static um_val log1p_rest(um_kernel *k, um_val x)
{
    um_val square = MUL(x, x);
    if (is_wide(k, x)) {
        um_val s = DIV(x, ADD(NUM(2), x)), z = MUL(s, s), half = MUL(NUM(0.5), square);
        um_val p = POLY(z, LOG1P_RATIO);
        return SUB(MUL(s, FMA(z, p, half)), half);
    }
    um_val p = POLY(x, LOG1P);
    return FMA(MUL(square, x), p, MUL(NUM(-0.5), square));
}

/* n ln 2 + log(1 + f). */
static um_val log_sum(um_kernel *k, um_val n, um_val x)
{
    um_val low = FMA(n, OF(-0x1.bd0106p-13, 0x1.a39ef35793c76p-33), log1p_rest(k, x));
    return ADD(MUL(n, OF(0x1.63p-1, 0x1.62e42feep-1)), ADD(x, low));
}

/* y where 0 < x < inf; else what a logarithm is there. */
static um_val log_ends(um_kernel *k, um_val x, um_val y)
{
    y = SELECT(um_k_lt(k, x, NUM((double)INFINITY)), y, x); /* inf, NaN */
    y = SELECT(um_k_lt(k, x, NUM(0)), NUM((double)NAN), y);
    return SELECT(um_k_eq(k, x, NUM(0)), NUM(-(double)INFINITY), y);
}

static um_val log_of(um_kernel *k, um_val x)
{
    um_val n, f = log_split(k, x, &n);
    return log_ends(k, x, log_sum(k, n, f));
}

/* n unit + log(1 + f) / ln b, with 1 / ln b and unit in parts of which the first has few bits. */
static um_val log_based(um_kernel *k, um_val a, const double unit[2], const double factor[2])
{
    um_val n, x = log_split(k, a, &n), low = log1p_rest(k, x);
    um_val head = head_of(k, x), tail = SUB(x, head);
    um_val large = ADD(MUL(n, NUM(unit[0])), MUL(head, NUM(factor[0])));
    um_val lost = SUB(MUL(head, NUM(factor[0])), SUB(large, MUL(n, NUM(unit[0]))));
    um_val rest = FMA(tail, NUM(factor[0]), MUL(x, NUM(factor[1])));
    rest = FMA(low, NUM(factor[0] + factor[1]), rest);
    rest = ADD(rest, ADD(lost, MUL(n, NUM(unit[1]))));
    return log_ends(k, a, ADD(large, rest));
}

static um_val log2_of(um_kernel *k, um_val x)
{
    static const double unit[] = {1, 0}, narrow[] = {0x1.714p+0, 0x1.47652cp-12};
    static const double wide[] = {0x1.71547650p+0, 0x1.5c17f0bbbe880p-31};
    return log_based(k, x, unit, is_wide(k, x) ? wide : narrow);
}

static um_val log10_of(um_kernel *k, um_val x)
{
    static const double unit[] = {0x1.34p-2, 0x1.04d428p-12};
    static const double factor[] = {0x1.bc8p-2, 0x1.bd8a94p-13};
    static const double wide_unit[] = {0x1.34413509f8p-2, -0x1.80433b83b532ap-44};
    static const double wide_factor[] = {0x1.bcb7b15p-2, 0x1.37287195355bbp-33};
    bool wide = is_wide(k, x);
    return log_based(k, x, wide ? wide_unit : unit, wide ? wide_factor : factor);
}

/* Near 0 directly; elsewhere of 1 + x, and what that sum lost. */
static um_val log1p_of(um_kernel *k, um_val x)
{
    um_val sum = ADD(NUM(1), x), n, f = log_split(k, sum, &n);
    um_val larger = um_k_gt(k, x, NUM(1));
    um_val lost = SELECT(larger, SUB(NUM(1), SUB(sum, x)), SUB(x, SUB(sum, NUM(1))));
    um_val far = ADD(log_sum(k, n, f), DIV(lost, sum));
    far = log_ends(k, sum, far);
    um_val near = ADD(x, log1p_rest(k, x));
    um_val is_near = um_k_and(k, um_k_gt(k, x, NUM(-0.29)), um_k_lt(k, x, NUM(0.5)));
    um_val y = SELECT(is_near, near, far);
    return SELECT(um_k_eq(k, x, NUM(0)), x, y); /* -0 */
}

/* ---- hyperbolic ----------------------------------------------------------------------------- */

static um_val sinh_of(um_kernel *k, um_val x)
{
    um_val s = MUL(x, x);
    um_val p = POLY(s, SINH);
    um_val near = FMA(MUL(s, x), p, x), a = um_k_abs(k, x);
    um_val half = exp_scaled(k, limit(k, a, 0, is_wide(k, x) ? 711 : 90), 0, -1);
    um_val far = SUB(half, DIV(NUM(0.25), half));
    return SELECT(um_k_lt(k, a, NUM(1)), near, copysign_of(k, far, x));
}

static um_val cosh_of(um_kernel *k, um_val x)
{
    um_val a = limit(k, um_k_abs(k, x), 0, is_wide(k, x) ? 711 : 90);
    um_val half = exp_scaled(k, a, 0, -1);
    return ADD(half, DIV(NUM(0.25), half));
}

static um_val tanh_of(um_kernel *k, um_val x)
{
    if (is_wide(k, x)) {
        um_val e = expm1_of(k, MUL(NUM(2), limit(k, um_k_abs(k, x), 0, 20)));
        return copysign_of(k, DIV(e, ADD(e, NUM(2))), x);
    }
    um_val s = MUL(x, x);
    um_val p = POLY(s, TANH);
    um_val near = FMA(MUL(s, x), p, x), a = limit(k, um_k_abs(k, x), 0, 10);
    um_val e = exp_scaled(k, MUL(NUM(2), a), 0, 0);
    um_val far = SUB(NUM(1), DIV(NUM(2), ADD(e, NUM(1))));
    return copysign_of(k, SELECT(um_k_lt(k, a, NUM(0.625)), near, far), x);
}

/* sqrt(1 + a^2) and what its rounding lost, for a >= 0. */
static um_val hypot_one(um_kernel *k, um_val x, um_val *lost)
{
    um_val square_low, square = um_k_product(k, x, x, &square_low), sum = ADD(square, NUM(1));
    um_val larger = um_k_gt(k, x, NUM(1));
    um_val sum_low = SELECT(larger, SUB(NUM(1), SUB(sum, square)), SUB(square, SUB(sum, NUM(1))));
    um_val root = um_k_sqrt(k, sum), back_low, back = um_k_product(k, root, root, &back_low);
    um_val rest = ADD(SUB(SUB(sum, back), back_low), ADD(sum_low, square_low));
    *lost = DIV(rest, ADD(root, root));
    return root;
}

static um_val asinh_of(um_kernel *k, um_val x)
{
    um_val s = MUL(x, x), a = um_k_abs(k, x), huge = um_k_gt(k, a, OF(0x1p12, 0x1p28)), far, near;
    if (is_wide(k, x)) {
        um_val root = um_k_sqrt(k, ADD(NUM(1), s));
        near = log1p_of(k, ADD(a, DIV(s, ADD(NUM(1), root))));
        far = ADD(log_of(k, a), NUM(0x1.62e42fefa39efp-1)); /* ln 2 */
        return copysign_of(k, SELECT(huge, far, near), x);
    }
    um_val p = POLY(s, ASINH);
    um_val rest, root = hypot_one(k, a, &rest), sum = ADD(root, a);
    um_val lost = ADD(SUB(a, SUB(sum, root)), rest);
    near = FMA(MUL(s, x), p, x);
    far = log_of(k, SELECT(huge, a, sum));
    far = ADD(far, SELECT(huge, NUM(0x1.62e43p-1), DIV(lost, sum)));
    return copysign_of(k, SELECT(um_k_lt(k, a, NUM(0.5)), near, far), x); /* -0 too */
}

static um_val acosh_of(um_kernel *k, um_val x)
{
    um_val t = SUB(x, NUM(1)), huge = um_k_gt(k, x, OF(0x1p12, 0x1p28));
    um_val far = ADD(log_of(k, x), NUM(0x1.62e42fefa39efp-1));
    um_val near = log1p_of(k, ADD(t, um_k_sqrt(k, FMA(t, t, ADD(t, t)))));
    return SELECT(um_k_lt(k, x, NUM(1)), NUM((double)NAN), SELECT(huge, far, near));
}

static um_val atanh_of(um_kernel *k, um_val x)
{
    um_val s = MUL(x, x), a = um_k_abs(k, x), near, far;
    if (is_wide(k, x)) {
        um_val twice = ADD(a, a), rest = SUB(NUM(1), a);
        um_val small = um_k_lt(k, a, NUM(0.5)), ratio = DIV(SELECT(small, a, twice), rest);
        near = log1p_of(k, SELECT(small, FMA(twice, ratio, twice), ratio));
        return copysign_of(k, MUL(NUM(0.5), near), x);
    }
    um_val p = POLY(s, ATANH);
    near = FMA(MUL(s, x), p, x);
    far = MUL(NUM(0.5), log_of(k, DIV(ADD(NUM(1), a), SUB(NUM(1), a))));
    return SELECT(um_k_lt(k, a, NUM(0.5)), near, copysign_of(k, far, x));
}

/* ---- erf ------------------------------------------------------------------------------------ */

um_val um_k_normal_tail(um_kernel *k, um_val a)
{
    if (is_wide(k, a)) {
        um_val t = DIV(ADD(a, number(k, a, -5)), ADD(a, number(k, a, 5)));
        um_val r = POLY(t, NORMAL_TAIL);
        return DIV(r, ADD(a, number(k, a, 2.5)));
    }
    um_val p = POLY(a, TAIL_ABOVE);
    um_val q = POLY(a, TAIL_BELOW);
    return DIV(p, q);
}

static um_val erf_of(um_kernel *k, um_val x)
{
    bool wide = is_wide(k, x);
    um_val s = MUL(x, x);
    um_val p = POLY(s, ERF);
    um_val near = FMA(x, p, x), a = um_k_abs(k, x);
    um_val z = limit(k, a, 0, wide ? 6 : 4); /* erf of that rounds to 1 */
    um_val e = exp_scaled(k, um_k_neg(k, MUL(z, z)), 0, 1);
    um_val tail = um_k_normal_tail(k, MUL(NUM(0x1.6a09e667f3bcdp+0), z));
    um_val far = SUB(NUM(1), MUL(e, tail));
    return copysign_of(k, SELECT(um_k_lt(k, a, NUM(1)), near, far), x);
}

/* ---- pow ------------------------------------------------------------------------------------ */

/* s + s_low and what follows it in atanh(s) for |s| <= 0.172, in two parts; of f64. */
static um_val atanh_parts(um_kernel *k, um_val x, um_val x_low, um_val *low)
{
    um_val q_low, q = um_k_product(k, x, x, &q_low), third = NUM(0x1.5555555555555p-2);
    q_low = FMA(MUL(NUM(2), x), x_low, q_low);
    um_val t_low, t = um_k_product(k, q, third, &t_low);
    t_low = ADD(t_low, FMA(q, NUM(0x1.5555555555555p-56), MUL(q_low, third)));
    um_val tail = MUL(MUL(q, q), POLY(q, ATANH_TAIL));
    um_val c_low, c = um_k_sum(k, t, tail, &c_low), lost;
    c_low = ADD(c_low, t_low);
    um_val v_low, v = um_k_product(k, x, c, &v_low);
    v_low = ADD(v_low, ADD(FMA(x, c_low, x_low), MUL(x_low, c)));
    um_val sum = um_k_sum(k, x, v, &lost);
    *low = ADD(lost, v_low);
    return sum;
}

/* log2 of a positive finite a in two parts, within 2^-30 of it, of f64 2^-63. */
static um_val log2_parts(um_kernel *k, um_val a, um_val *low)
{
    um_val n, x = log_split(k, a, &n), lost;
    um_val down = ADD(x, NUM(2)), down_low = SUB(x, SUB(down, NUM(2)));
    um_val s = DIV(x, down); /* log(1 + x) = 2 atanh(s) */
    um_val back = um_k_product(k, s, down, &lost);
    um_val s_low = DIV(SUB(SUB(SUB(x, back), lost), MUL(s, down_low)), down);
    um_val rest, factor = OF(0x1.715476p+1, 0x1.71547652b82fep+1); /* 2 / ln 2 */
    if (is_wide(k, x)) {
        s = atanh_parts(k, s, s_low, &rest);
    } else {
        um_val square = MUL(s, s);
        um_val p = POLY(square, LOG2);
        rest = FMA(MUL(square, s), p, s_low);
    }
    um_val main_low, main_part = um_k_product(k, s, factor, &main_low);
    um_val more = FMA(s, OF(0x1.4ae0cp-25, 0x1.777d0ffda0d24p-55), MUL(rest, factor));
    main_low = ADD(main_low, more);
    um_val sum = ADD(n, main_part);
    um_val n_larger = SELECT(um_k_eq(k, n, NUM(0)), NUM(0), SUB(main_part, SUB(sum, n)));
    um_val rest_low = ADD(n_larger, main_low), whole = ADD(sum, rest_low);
    *low = SUB(rest_low, SUB(whole, sum));
    return whole;
}

/* C's pow: x^0 = 1^y = 1 even for NaN, (-x)^y for integers y only. */
static um_val pow_ends(um_kernel *k, um_val x, um_val y, um_val power)
{
    um_val a = um_k_abs(k, x), b = um_k_abs(k, y), one = NUM(1), zero = NUM(0),
           inf = NUM((double)INFINITY);
    um_val y_up = um_k_gt(k, y, zero);
    power = SELECT(um_k_eq(k, a, inf), SELECT(y_up, inf, zero), power);
    power = SELECT(um_k_eq(k, a, zero), SELECT(y_up, zero, inf), power);
    um_val grows =
        um_k_eq(k, um_k_convert(k, UM_U32, um_k_gt(k, a, one)), um_k_convert(k, UM_U32, y_up));
    um_val far = SELECT(um_k_eq(k, a, one), one, SELECT(grows, inf, zero));
    power = SELECT(um_k_eq(k, b, inf), far, power);
    um_val whole = um_k_eq(k, um_k_trunc(k, y), y), half = MUL(y, NUM(0.5));
    um_val odd = um_k_and(k, um_k_and(k, whole, um_k_ne(k, um_k_trunc(k, half), half)),
                          um_k_lt(k, b, OF(0x1p24, 0x1p53)));
    um_val negative = um_k_ge(k, to_bits(k, x), WORD(0x80000000));
    um_val minus = um_k_neg(k, power);
    power = SELECT(um_k_and(k, negative, odd), minus, power);
    um_val no_root = um_k_and(k, um_k_lt(k, x, zero), um_k_not(k, whole));
    no_root = um_k_and(k, no_root, um_k_lt(k, a, inf));
    power = SELECT(no_root, NUM((double)NAN), power);
    um_val nan = um_k_or(k, um_k_ne(k, x, x), um_k_ne(k, y, y));
    power = SELECT(nan, ADD(x, y), power);
    um_val is_one = um_k_or(k, um_k_eq(k, x, one), um_k_eq(k, y, zero));
    return SELECT(is_one, one, power);
}

static um_val pow_of(um_kernel *k, um_val x, um_val y)
{
    um_val low, high = log2_parts(k, um_k_abs(k, x), &low), lost;
    um_val wide = limit(k, y, -0x1p60, 0x1p60);
    um_val p = um_k_product(k, wide, high, &lost);
    lost = FMA(wide, low, lost);
    um_val fits = um_k_lt(k, um_k_abs(k, p), OF(200, 2000));
    um_val power = exp2_parts(k, p, SELECT(fits, lost, NUM(0)));
    return pow_ends(k, x, y, power);
}

/* ---- all ------------------------------------------------------------------------------------ */

bool um_kop_is_math(um_kop op) { return op >= UM_KOP_EXP && op <= UM_KOP_ATAN2; }

/* What branches, and what is made of words of f64, goes lane by lane. */
static um_val lane_by_lane(um_kernel *k, um_kop op, um_val a, um_val b)
{
    um_val items[4];
    int32_t lanes = lanes_of(k, a);
    for (int32_t i = 0; i < lanes; i++) {
        um_val second = b ? um_k_extract(k, b, (uint32_t)i) : 0;
        items[i] = um_k_math(k, op, um_k_extract(k, a, (uint32_t)i), second);
    }
    return um_k_vector(k, lanes, items);
}

static um_val exp2_of(um_kernel *k, um_val x) { return exp2_parts(k, x, 0); }
static um_val (*const functions[])(um_kernel *, um_val) = {
    /* EXP to ERF */
    exp_of,      exp2_of,     expm1_of,    log_of,       log2_of,      log10_of,     log1p_of,
    um_k_sin_of, um_k_cos_of, um_k_tan_of, um_k_asin_of, um_k_acos_of, um_k_atan_of, sinh_of,
    cosh_of,     tanh_of,     asinh_of,    acosh_of,     atanh_of,     erf_of};

um_val um_k_math(um_kernel *k, um_kop op, um_val a, um_val b)
{
    if (!k || k->status != UM_OK || a >= k->inst_count) return 0;
    bool turns = op == UM_KOP_SIN || op == UM_KOP_COS || op == UM_KOP_TAN;
    if ((turns || is_wide(k, a)) && lanes_of(k, a) > 1) return lane_by_lane(k, op, a, b);
    if (op == UM_KOP_POW) return pow_of(k, a, b);
    if (op == UM_KOP_ATAN2) return um_k_atan2_of(k, a, b);
    if (um_kop_is_math(op)) return functions[op - UM_KOP_EXP](k, a);
    return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "opcode %d is no function", op);
}
