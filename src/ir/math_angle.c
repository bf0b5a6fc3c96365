/* ir/math_angle.c: sine, cosine, tangent and their inverses, as math.c has the other functions. */
#include "ir/math.h"
#include "ir/math_verbs.h"

#include <math.h>
#include <stdio.h>

enum { WORDS = 6 }; /* of 2 / pi, that count for a large f64 */

/* ---- inverse trigonometric ------------------------------------------------------------------ */

/* pi / 2 is HALF_PI + HALF_PI_LOW. */
#define HALF_PI     OF(0x1.921fb6p+0, 0x1.921fb54442d18p+0)
#define HALF_PI_LOW OF(-0x1.777a5cp-25, 0x1.1a62633145c07p-54)
#define PI          OF(0x1.921fb6p+1, 0x1.921fb54442d18p+1)
#define PI_LOW      OF(-0x1.777a5cp-24, 0x1.1a62633145c07p-53)

/* asin(x) for |x| <= 1/2. */
static um_val asin_near(um_kernel *k, um_val x)
{
    um_val s = MUL(x, x);
    um_val p = POLY(s, ASIN);
    return FMA(MUL(s, x), p, x);
}

/* Beyond 1/2 by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)). */
um_val um_k_asin_of(um_kernel *k, um_val x)
{
    um_val a = um_k_abs(k, x), is_near = um_k_le(k, a, NUM(0.5));
    um_val root = um_k_sqrt(k, MUL(NUM(0.5), SUB(NUM(1), a)));
    um_val y = asin_near(k, SELECT(is_near, x, root));
    um_val far = ADD(SUB(HALF_PI, ADD(y, y)), HALF_PI_LOW);
    return SELECT(is_near, y, copysign_of(k, far, x));
}

um_val um_k_acos_of(um_kernel *k, um_val x)
{
    um_val a = um_k_abs(k, x), is_near = um_k_le(k, a, NUM(0.5));
    um_val root = um_k_sqrt(k, MUL(NUM(0.5), SUB(NUM(1), a)));
    um_val y = asin_near(k, SELECT(is_near, x, root));
    um_val near = SUB(HALF_PI, SUB(y, HALF_PI_LOW));
    um_val twice = ADD(y, y);
    um_val below = SUB(PI, SUB(twice, PI_LOW));
    um_val far = SELECT(um_k_lt(k, x, NUM(0)), below, twice);
    return SELECT(is_near, near, far);
}

/* atan(y / x) for y, x >= 0, turned by what `turned` says. */
static um_val atan_ratio(um_kernel *k, um_val y, um_val x)
{
    um_val steep = um_k_gt(k, y, x), low = SELECT(steep, x, y), high = SELECT(steep, y, x);
    um_val t = DIV(low, high);                                         /* 0 .. 1 */
    um_val is_far = um_k_gt(k, t, NUM(0x1.a8279ap-2));                 /* tan(pi / 8) */
    um_val u = SELECT(is_far, DIV(SUB(low, high), ADD(low, high)), t); /* atan(t) - pi / 4 */
    um_val s = MUL(u, u);
    um_val p = POLY(s, ATAN);
    um_val rest = MUL(MUL(s, u), p);
    um_val half = NUM(0.5), base = SELECT(is_far, MUL(half, HALF_PI), NUM(0)),
           base_low = SELECT(is_far, MUL(half, HALF_PI_LOW), NUM(0));
    um_val plain = ADD(base, ADD(u, ADD(rest, base_low)));
    um_val turned_base = SUB(HALF_PI, base);
    um_val turned = SUB(turned_base, ADD(u, ADD(rest, SUB(base_low, HALF_PI_LOW))));
    return SELECT(steep, turned, plain);
}

um_val um_k_atan_of(um_kernel *k, um_val x)
{
    um_val a = um_k_abs(k, x), is_inf = um_k_eq(k, a, NUM((double)INFINITY));
    um_val y = atan_ratio(k, a, NUM(1));
    y = SELECT(is_inf, HALF_PI, y);
    return copysign_of(k, y, x);
}

/* Both are scaled to where their sum and ratio are ordinary numbers. */
um_val um_k_atan2_of(um_kernel *k, um_val y, um_val x)
{
    um_val a = um_k_abs(k, y), b = um_k_abs(k, x);
    um_val both_inf =
        um_k_and(k, um_k_eq(k, a, NUM((double)INFINITY)), um_k_eq(k, b, NUM((double)INFINITY)));
    um_val both_zero = um_k_and(k, um_k_eq(k, a, NUM(0)), um_k_eq(k, b, NUM(0)));
    um_val large = um_k_gt(k, SELECT(um_k_gt(k, a, b), a, b), OF(0x1p100, 0x1p900));
    um_val scale = SELECT(large, OF(0x1p-60, 0x1p-600), OF(0x1p24, 0x1p54));
    a = SELECT(both_inf, NUM(1), MUL(a, scale));
    b = SELECT(both_inf, NUM(1), MUL(b, scale));
    b = SELECT(both_zero, NUM(1), b);
    um_val is_steep_inf = um_k_eq(k, a, NUM((double)INFINITY)),
           is_flat_inf = um_k_eq(k, b, NUM((double)INFINITY));
    um_val angle = atan_ratio(k, a, b);
    angle = SELECT(is_steep_inf, HALF_PI, angle);
    angle = SELECT(is_flat_inf, NUM(0), angle);
    um_val negative = um_k_ge(k, to_bits(k, x), WORD(0x80000000));
    um_val behind = SUB(PI, SUB(angle, PI_LOW));
    um_val nan = um_k_or(k, um_k_ne(k, x, x), um_k_ne(k, y, y));
    return SELECT(nan, ADD(x, y), copysign_of(k, SELECT(negative, behind, angle), y));
}

/* ---- sine, cosine, tangent ------------------------------------------------------------------- */

/* a 2 / pi modulo 4 for finite a >= 2^14, by the bits of 2 / pi that count: gives the angle that is
 * left over to the nearest quarter turn *n. */
static um_val turn_large(um_kernel *k, um_val x, um_val *n)
{
    static const uint32_t two_over_pi[8] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                            0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    um_val bits = to_bits(k, x), g[3], window[4];
    um_val m = um_k_or(k, um_k_shl(k, bits, WORD(8)), WORD(0x80000000));
    um_val start = SUB(um_k_shr(k, bits, WORD(23)), WORD(128)); /* exponent - 1 */
    um_val at = um_k_shr(k, start, WORD(5)), shift = um_k_and(k, start, WORD(31));
    for (int32_t i = 0; i < 4; i++) {
        window[i] = WORD(two_over_pi[3 + i]);
        for (int32_t j = 2; j >= 0; j--)
            window[i] =
                SELECT(um_k_eq(k, at, WORD((uint32_t)j)), WORD(two_over_pi[j + i]), window[i]);
    }
    for (int32_t i = 0; i < 3; i++) {
        um_val low = um_k_shr(k, um_k_shr(k, window[i + 1], WORD(1)), SUB(WORD(31), shift));
        g[i] = um_k_or(k, um_k_shl(k, window[i], shift), low);
    }
    um_val middle = MUL(m, g[1]), low = ADD(middle, um_k_mul_high(k, m, g[2]));
    um_val carry = SELECT(um_k_lt(k, low, middle), WORD(1), WORD(0));
    um_val high = ADD(ADD(MUL(m, g[0]), um_k_mul_high(k, m, g[1])), carry);
    um_val quarters = um_k_shr(k, ADD(high, WORD(0x20000000)), WORD(30));
    um_val left = um_k_bitcast(k, UM_I32, 1, SUB(high, um_k_shl(k, quarters, WORD(30))));
    um_val main_part = um_k_convert(k, UM_F32, left), lost;
    um_val rest = um_k_convert(k, UM_F32, SUB(left, um_k_convert(k, UM_I32, main_part)));
    rest = FMA(um_k_convert(k, UM_F32, low), NUM(0x1p-32), rest);
    um_val r = um_k_product(k, main_part, NUM(0x1.921fb6p-30), &lost); /* 2 pi / 2^32 */
    lost = FMA(main_part, NUM(-0x1.777a5cp-55), lost);
    *n = quarters;
    return ADD(r, FMA(rest, NUM(0x1.921fb6p-30), lost));
}

/* An angle of at most pi / 4, in two parts, and how many quarter turns come before it. */
typedef struct angle {
    um_val turns, high, low;
} angle;

/* a for a below 2^15, of f64 2^20: the parts of pi / 2 have 9 bits, or 33, so that products with
 * the turns are exact. */
static angle turn_small(um_kernel *k, um_val x)
{
    static const double narrow[] = {0x1.92p+0, 0x1.fbp-12, 0x1.51p-22, 0x1.0bp-34, 0x1.18469ap-44};
    static const double wide[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e0p-69,
                                  0x1.b839a252049c1p-104};
    const double *parts = is_wide(k, x) ? wide : narrow;
    size_t count = is_wide(k, x) ? UM_COUNT_OF(wide) : UM_COUNT_OF(narrow);
    um_val q = um_k_round(k, MUL(x, NUM(0x1.45f306dc9c883p-1))), left = x, low = NUM(0);
    for (size_t i = 0; i < count; i++) {
        um_val part = MUL(q, NUM(parts[i])), next = SUB(left, part);
        low = ADD(low, SUB(SUB(left, next), part));
        left = next;
    }
    um_val high = ADD(left, low);
    return (angle){um_k_convert(k, UM_U32, q), high, SUB(low, SUB(high, left))};
}

/* The next free name that begins so. */
static const char *free_name(const um_kernel *k, const char *stem, char name[32])
{
    int64_t number = k->inst_count;
    do snprintf(name, 32, "%s%lld", stem, (long long)number++);
    while (!um_kernel_name_is_free(k, name));
    return name;
}

/* r[i] += a b from word `first` on, below 2^192; words from the lowest on. */
static void add_product(um_kernel *k, um_val a, const um_val *b, int32_t first, um_val *r)
{
    um_val carry = um_k_u32(k, 0), one = um_k_u32(k, 1), zero = carry;
    for (int32_t i = 0; first + i < WORDS; i++) {
        um_val low = MUL(a, b[i]), sum = ADD(r[first + i], low), whole = ADD(sum, carry);
        um_val over = ADD(SELECT(um_k_lt(k, sum, low), one, zero),
                          SELECT(um_k_lt(k, whole, carry), one, zero));
        if (first + i + 1 < WORDS) carry = ADD(um_k_mul_high(k, a, b[i]), over);
        r[first + i] = whole;
    }
}

/* As turn_large, of f64 from 2^20 on: 192 bits of 2 / pi count. */
static angle turn_large_wide(um_kernel *k, um_val x)
{
    static const uint32_t two_over_pi[] = {
        0,          0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
        0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c,
        0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639,
        0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f,
        0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7,
        0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};
    char name[32];
    um_val pair = um_k_bitcast(k, UM_U32, 2, x), low = um_k_extract(k, pair, 0),
           top = to_bits(k, x);
    um_val m_high =
        um_k_or(k, um_k_shl(k, top, um_k_u32(k, 11)), um_k_shr(k, low, um_k_u32(k, 21)));
    um_val m_low = um_k_shl(k, low, um_k_u32(k, 11));
    m_high = um_k_or(k, m_high, um_k_u32(k, 0x80000000));
    um_val start = SUB(um_k_shr(k, top, um_k_u32(k, 20)), um_k_u32(k, 1024)); /* exponent - 1 */
    start = um_k_min(k, start, um_k_u32(k, 1022));                            /* of inf and NaN */
    um_val at = um_k_shr(k, start, um_k_u32(k, 5)), shift = um_k_and(k, start, um_k_u32(k, 31));
    um_val back = SUB(um_k_u32(k, 31), shift), g[WORDS], r[WORDS], window[WORDS + 1];
    um_mem table = um_k_private(k, free_name(k, "two_over_pi", name), UM_U32,
                                (uint32_t)UM_COUNT_OF(two_over_pi));
    for (uint32_t i = 0; i < UM_COUNT_OF(two_over_pi); i++)
        um_k_store(k, table, um_k_u32(k, i), um_k_u32(k, two_over_pi[i]));
    for (uint32_t i = 0; i <= WORDS; i++) window[i] = um_k_load(k, table, ADD(at, um_k_u32(k, i)));
    for (int32_t i = 0; i < WORDS; i++) {
        um_val next = um_k_shr(k, um_k_shr(k, window[i + 1], um_k_u32(k, 1)), back);
        g[WORDS - 1 - i] = um_k_or(k, um_k_shl(k, window[i], shift), next);
        r[i] = um_k_u32(k, 0);
    }
    add_product(k, m_low, g, 0, r);
    add_product(k, m_high, g, 1, r);
    um_val turns = um_k_shr(k, ADD(r[WORDS - 1], um_k_u32(k, 0x20000000)), um_k_u32(k, 30));
    um_val left = SUB(r[WORDS - 1], um_k_shl(k, turns, um_k_u32(k, 30)));
    um_val sum = um_k_convert(k, UM_F64, um_k_bitcast(k, UM_I32, 1, left)), rest = NUM(0), lost;
    sum = MUL(sum, NUM(0x1p-30));
    for (int32_t i = 1; i < 4; i++) {
        um_val word = um_k_convert(k, UM_F64, r[WORDS - 1 - i]);
        sum = um_k_sum(k, sum, MUL(word, NUM(ldexp(1, -30 - 32 * i))), &lost);
        rest = ADD(rest, lost);
    }
    um_val high = um_k_product(k, sum, HALF_PI, &lost);
    rest = ADD(lost, FMA(sum, HALF_PI_LOW, MUL(rest, HALF_PI)));
    um_val whole = ADD(high, rest);
    return (angle){turns, whole, SUB(rest, SUB(whole, high))};
}

/* |x|; x is of one lane. */
static angle turn(um_kernel *k, um_val x)
{
    char name[32];
    bool wide = is_wide(k, x);
    um_dtype dtype = wide ? UM_F64 : UM_F32;
    um_mem turns = um_k_var(k, free_name(k, "turns", name), UM_U32, 1);
    um_mem high = um_k_var(k, free_name(k, "angle", name), dtype, 1);
    um_mem low = um_k_var(k, free_name(k, "rest", name), dtype, 1);
    um_val a = um_k_abs(k, x), n;
    angle at = turn_small(k, a);
    um_k_set(k, turns, at.turns);
    um_k_set(k, high, at.high);
    um_k_set(k, low, at.low);
    um_k_if(k, um_k_not(k, um_k_lt(k, a, OF(0x1p15, 0x1p20))));
    if (wide) {
        at = turn_large_wide(k, a);
    } else {
        at.high = turn_large(k, a, &n);
        at.turns = n;
        at.low = NUM(0);
    }
    um_k_set(k, turns, at.turns);
    um_k_set(k, high, SELECT(um_k_lt(k, a, NUM((double)INFINITY)), at.high, NUM((double)NAN)));
    um_k_set(k, low, at.low);
    um_k_end(k);
    return (angle){um_k_get(k, turns), um_k_get(k, high), um_k_get(k, low)};
}

/* A value and what its rounding lost. */
typedef struct parts {
    um_val high, low;
} parts;

/* a + b, |a| >= |b|. */
static parts sum_of(um_kernel *k, um_val a, um_val b)
{
    um_val high = ADD(a, b);
    return (parts){high, ADD(SUB(a, high), b)};
}

/* sin and cos of the angle that is left. */
static void sine_near(um_kernel *k, angle at, parts *sine, parts *cosine)
{
    um_val x = at.high, s_low, s = um_k_product(k, x, x, &s_low), half = NUM(-0.5);
    um_val p = POLY(s, SIN);
    um_val q = POLY(s, COS);
    parts c = sum_of(k, NUM(1), MUL(half, s));
    c.low = FMA(half, s_low, SUB(c.low, MUL(at.low, x)));
    *sine = sum_of(k, x, FMA(MUL(s, x), p, MUL(at.low, c.high)));
    *cosine = sum_of(k, c.high, FMA(MUL(s, s), q, c.low));
}

/* Whether the turns are an odd number. */
static um_val is_odd(um_kernel *k, um_val x)
{
    return um_k_ne(k, um_k_and(k, x, WORD(1)), WORD(0));
}

static um_val sine_turned(um_kernel *k, um_val x, bool cosine)
{
    parts s, c;
    um_val sign = um_k_and(k, to_bits(k, x), WORD(0x80000000));
    angle at = turn(k, x);
    sine_near(k, at, &s, &c);
    um_val n = cosine ? ADD(at.turns, WORD(1)) : at.turns;
    um_val y = SELECT(is_odd(k, n), c.high, s.high),
           flip = um_k_shl(k, um_k_and(k, n, WORD(2)), WORD(30));
    if (!cosine) flip = um_k_xor(k, flip, sign);
    return with_bits(k, y, um_k_xor(k, to_bits(k, y), flip), true);
}

um_val um_k_sin_of(um_kernel *k, um_val x) { return sine_turned(k, x, false); }
um_val um_k_cos_of(um_kernel *k, um_val x) { return sine_turned(k, x, true); }

/* -cos / sin after an odd number of quarter turns; the quotient of both parts. */
um_val um_k_tan_of(um_kernel *k, um_val x)
{
    parts s, c;
    um_val lost, sign = um_k_and(k, to_bits(k, x), WORD(0x80000000));
    angle at = turn(k, x);
    sine_near(k, at, &s, &c);
    um_val odd = is_odd(k, at.turns);
    um_val a = SELECT(odd, um_k_neg(k, c.high), s.high),
           a_low = SELECT(odd, um_k_neg(k, c.low), s.low);
    um_val b = SELECT(odd, s.high, c.high), b_low = SELECT(odd, s.low, c.low);
    um_val y = DIV(a, b), back = um_k_product(k, y, b, &lost);
    um_val rest = ADD(SUB(SUB(a, back), lost), SUB(a_low, MUL(y, b_low)));
    um_val better = ADD(y, DIV(rest, b));
    y = SELECT(um_k_lt(k, um_k_abs(k, y), OF(0x1p60, 0x1p500)), better, y);
    return with_bits(k, y, um_k_xor(k, to_bits(k, y), sign), true);
}
