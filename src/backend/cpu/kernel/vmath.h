/* backend/cpu/kernel/vmath.h: exp, log, tanh and their kin on whole vectors, for the loops of map,
 * norm and attention. Coefficients are our own minimax fits (relative error below 2^-27 for f32,
 * 2^-57 for f64). Every lane's result depends on that lane only; worst errors are watched by
 * test/test_kernel_map.c. f64 log and tanh are the C library's, lane by lane. */
#ifndef UM_CPU_VMATH_H
#define UM_CPU_VMATH_H

#include "backend/cpu/kernel/simd.h"

#include <math.h>

typedef uint32_t vu32 __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef uint64_t vu64 __attribute__((vector_size(UM_VECTOR_BYTES)));

/* ---- verbs ---------------------------------------------------------------------------------- */

UM_INLINE vf32 vf32_abs(vf32 x) { return (vf32)((vu32)x & 0x7fffffffu); }
UM_INLINE vf64 vf64_abs(vf64 x) { return (vf64)((vu64)x & 0x7fffffffffffffffu); }
UM_INLINE vf32 vf32_copysign(vf32 x, vf32 sign)
{
    return (vf32)(((vu32)x & 0x7fffffffu) | ((vu32)sign & 0x80000000u));
}
UM_INLINE vf64 vf64_copysign(vf64 x, vf64 sign)
{
    return (vf64)(((vu64)x & 0x7fffffffffffffffu) | ((vu64)sign & 0x8000000000000000u));
}
/* x kept between low and high; NaN stays NaN. */
UM_INLINE vf32 vf32_limit(vf32 x, float low, float high)
{
    x = vf32_select(x > high, vf32_set(high), x);
    return vf32_select(x < low, vf32_set(low), x);
}
UM_INLINE vf64 vf64_limit(vf64 x, double low, double high)
{
    x = vf64_select(x > high, vf64_set(high), x);
    return vf64_select(x < low, vf64_set(low), x);
}

/* NaN if either is; +0 is larger than -0. Equal values differ at most in the sign of zero, and
 * unordered ones add up to NaN. */
UM_INLINE vf32 vf32_max(vf32 a, vf32 b)
{
    vf32 other = vf32_select(a == b, (vf32)((vu32)a & (vu32)b), a + b);
    return vf32_select(a > b, a, vf32_select(a < b, b, other));
}
UM_INLINE vf32 vf32_min(vf32 a, vf32 b)
{
    vf32 other = vf32_select(a == b, (vf32)((vu32)a | (vu32)b), a + b);
    return vf32_select(a < b, a, vf32_select(a > b, b, other));
}
UM_INLINE vf64 vf64_max(vf64 a, vf64 b)
{
    vf64 other = vf64_select(a == b, (vf64)((vu64)a & (vu64)b), a + b);
    return vf64_select(a > b, a, vf64_select(a < b, b, other));
}
UM_INLINE vf64 vf64_min(vf64 a, vf64 b)
{
    vf64 other = vf64_select(a == b, (vf64)((vu64)a | (vu64)b), a + b);
    return vf64_select(a < b, a, vf64_select(a > b, b, other));
}

/* The C library's function on each lane. */
UM_INLINE vf64 vf64_lanes(vf64 x, double (*fn)(double))
{
    for (int i = 0; i < VF64_LANES; i++) x[i] = fn(x[i]);
    return x;
}

/* ---- exp ------------------------------------------------------------------------------------ */

/* 2^k for -127 < k < 128. */
UM_INLINE vf32 vf32_exp2i(vu32 k) { return (vf32)((k + 127u) << 23); }
UM_INLINE vf64 vf64_exp2i(vu64 k) { return (vf64)((k + 1023u) << 52); }

/* r + r^2 q(r) = e^r - 1 for |r| <= ln 2 / 2. */
UM_INLINE vf32 vf32_expm1_poly(vf32 r)
{
    vf32 q = vf32_fma(r, vf32_set(0x1.6a2446p-10f), vf32_set(0x1.1239e2p-7f));
    q = vf32_fma(q, r, vf32_set(0x1.5558f2p-5f));
    q = vf32_fma(q, r, vf32_set(0x1.555492p-3f));
    q = vf32_fma(q, r, vf32_set(0x1.fffffcp-2f));
    return vf32_fma(r * r, q, r);
}

/* hi + lo = k ln 2 + r: gives r, |r| <= ln 2 / 2. |hi| < 2^15. lo is what hi's rounding left out.
 */
UM_INLINE vf32 vf32_exp_reduce(vf32 hi, vf32 lo, vu32 *k)
{
    vf32 shifted = vf32_fma(hi, vf32_set(0x1.715476p+0f), vf32_set(0x1.8p23f));
    vf32 n = shifted - 0x1.8p23f;
    *k = (vu32)shifted - 0x4b400000u;                /* the bits of 0x1.8p23f */
    vf32 r = vf32_fma(n, vf32_set(-0x1.63p-1f), hi); /* ten bits of ln 2: the product is exact */
    return vf32_fma(n, vf32_set(0x1.bd0106p-13f), r) + lo;
}

/* e^(hi + lo) = result * *scale, for -120 <= hi <= 89; results below the normal range are rounded
 * once if the caller's multiplication by *scale is his last. */
UM_INLINE vf32 vf32_exp_parts(vf32 hi, vf32 lo, vf32 *scale)
{
    vu32 k;
    vf32 r = vf32_exp_reduce(hi, lo, &k);
    vu32 half = (vu32)((vi32)k >> 1);
    *scale = vf32_exp2i(k - half);
    return (1.0f + vf32_expm1_poly(r)) * vf32_exp2i(half);
}

UM_INLINE vf32 vf32_exp(vf32 x)
{
    vf32 scale, e = vf32_exp_parts(vf32_limit(x, -104.0f, 89.0f), vf32_set(0), &scale);
    return e * scale;
}

/* ... for |x| <= 87, where one scaling is enough. */
UM_INLINE vf32 vf32_exp_mid(vf32 x)
{
    vu32 k;
    vf32 r = vf32_exp_reduce(x, vf32_set(0), &k);
    return (1.0f + vf32_expm1_poly(r)) * vf32_exp2i(k);
}

UM_INLINE vf32 vf32_exp2(vf32 x)
{
    x = vf32_limit(x, -151.0f, 129.0f);
    vf32 shifted = x + 0x1.8p23f;
    vf32 r = x - (shifted - 0x1.8p23f);
    vf32 p = vf32_fma(r, vf32_set(0x1.470b5cp-13f), vf32_set(0x1.5f727cp-10f));
    p = vf32_fma(p, r, vf32_set(0x1.3b270ep-7f));
    p = vf32_fma(p, r, vf32_set(0x1.c6ae72p-5f));
    p = vf32_fma(p, r, vf32_set(0x1.ebfbe2p-3f));
    p = vf32_fma(p, r, vf32_set(0x1.62e432p-1f));
    vu32 k = (vu32)shifted - 0x4b400000u;
    vu32 half = (vu32)((vi32)k >> 1);
    return vf32_fma(p, r, vf32_set(1)) * vf32_exp2i(half) * vf32_exp2i(k - half);
}

/* Half of 2^k keeps k = 128 in range. */
UM_INLINE vf32 vf32_expm1(vf32 x)
{
    vu32 k;
    vf32 r = vf32_exp_reduce(vf32_limit(x, -25.0f, 89.0f), vf32_set(0), &k);
    vf32 scale = vf32_exp2i(k - 1u);
    return vf32_copysign(2.0f * vf32_fma(vf32_expm1_poly(r), scale, scale - 0.5f), x);
}

UM_INLINE vf64 vf64_expm1_poly(vf64 r)
{
    vf64 q = vf64_fma(r, vf64_set(0x1.ad7f702f9376bp-26), vf64_set(0x1.28ad72db5eee9p-22));
    q = vf64_fma(q, r, vf64_set(0x1.71df2551a8768p-19));
    q = vf64_fma(q, r, vf64_set(0x1.a0199a0c55b70p-16));
    q = vf64_fma(q, r, vf64_set(0x1.a01a012a57da6p-13));
    q = vf64_fma(q, r, vf64_set(0x1.6c16c1842a18ep-10));
    q = vf64_fma(q, r, vf64_set(0x1.1111111127be5p-7));
    q = vf64_fma(q, r, vf64_set(0x1.555555555087cp-5));
    q = vf64_fma(q, r, vf64_set(0x1.55555555554fap-3));
    q = vf64_fma(q, r, vf64_set(0x1.000000000000ap-1));
    return vf64_fma(r * r, q, r);
}

/* e^(hi + lo) = result * *scale, for -800 <= hi <= 710. */
UM_INLINE vf64 vf64_exp_parts(vf64 hi, vf64 lo, vf64 *scale)
{
    vf64 shifted = vf64_fma(hi, vf64_set(0x1.71547652b82fep+0), vf64_set(0x1.8p52));
    vf64 n = shifted - 0x1.8p52;
    vu64 k = (vu64)shifted - 0x4338000000000000u; /* the bits of 0x1.8p52 */
    vf64 r =
        vf64_fma(n, vf64_set(-0x1.62e42fefp-1), hi); /* 33 bits of ln 2: the product is exact */
    r = vf64_fma(n, vf64_set(-0x1.473de6af278edp-34), r) + lo;
    vu64 half = ((k + 4096u) >> 1) - 2048u; /* k / 2; AVX2 cannot shift in 64-bit signs */
    *scale = vf64_exp2i(k - half);
    return (1.0 + vf64_expm1_poly(r)) * vf64_exp2i(half);
}

UM_INLINE vf64 vf64_exp(vf64 x)
{
    vf64 scale, e = vf64_exp_parts(vf64_limit(x, -746.0, 710.0), vf64_set(0), &scale);
    return e * scale;
}

UM_INLINE vf64 vf64_exp2(vf64 x) { return vf64_lanes(x, exp2); }
UM_INLINE vf64 vf64_expm1(vf64 x) { return vf64_lanes(x, expm1); }

/* ---- log ------------------------------------------------------------------------------------ */

/* log(1 + f) - f for -0.2935 <= f <= 0.5. */
UM_INLINE vf32 vf32_log1p_poly(vf32 f)
{
    vf32 p = vf32_fma(f, vf32_set(0x1.8b1822p-5f), vf32_set(-0x1.ad21d6p-4f));
    p = vf32_fma(p, f, vf32_set(0x1.f1097cp-4f));
    p = vf32_fma(p, f, vf32_set(-0x1.02c204p-3f));
    p = vf32_fma(p, f, vf32_set(0x1.232020p-3f));
    p = vf32_fma(p, f, vf32_set(-0x1.551348p-3f));
    p = vf32_fma(p, f, vf32_set(0x1.99a330p-3f));
    p = vf32_fma(p, f, vf32_set(-0x1.0000b6p-2f));
    p = vf32_fma(p, f, vf32_set(0x1.55554cp-2f));
    vf32 f2 = f * f;
    return vf32_fma(f2 * f, p, -0.5f * f2);
}

/* n ln 2 + log(1 + f). */
UM_INLINE vf32 vf32_log_sum(vf32 n, vf32 f)
{
    vf32 low = vf32_fma(n, vf32_set(-0x1.bd0106p-13f), vf32_log1p_poly(f));
    return vf32_fma(n, vf32_set(0x1.63p-1f), f + low);
}

/* x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); x positive and finite. */
UM_INLINE vf32 vf32_log_split(vf32 x, vf32 *n)
{
    vi32 tiny = x < 0x1p-126f;
    x = vf32_select(tiny, x * 0x1p23f, x);
    vu32 above = (vu32)x - 0x3f3504f3u; /* sqrt(1/2) */
    *n = __builtin_convertvector((vi32)above >> 23, vf32) -
         vf32_select(tiny, vf32_set(23), vf32_set(0));
    return (vf32)((above & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
}

UM_INLINE vf32 vf32_log(vf32 x)
{
    vf32 n, f = vf32_log_split(x, &n);
    vf32 y = vf32_log_sum(n, f);
    y = vf32_select(x < INFINITY, y, x); /* inf, NaN */
    y = vf32_select(x < 0, vf32_set(NAN), y);
    return vf32_select(x == 0, vf32_set(-INFINITY), y);
}

UM_INLINE vf64 vf64_log(vf64 x) { return vf64_lanes(x, log); }

/* ---- tanh, sigmoid -------------------------------------------------------------------------- */

UM_INLINE vf32 vf32_tanh(vf32 x)
{
    vf32 s = x * x;
    vf32 p = vf32_fma(s, vf32_set(-0x1.75e1c6p-8f), vf32_set(0x1.52269ap-6f));
    p = vf32_fma(p, s, vf32_set(-0x1.b83c5ap-5f));
    p = vf32_fma(p, s, vf32_set(0x1.110726p-3f));
    p = vf32_fma(p, s, vf32_set(-0x1.555532p-2f));
    vf32 near = vf32_fma(s * x, p, x);
    vf32 a = vf32_abs(x);
    vf32 e = vf32_exp_mid(2.0f * vf32_select(a > 10.0f, vf32_set(10.0f), a));
    vf32 far = 1.0f - 2.0f / (e + 1.0f);
    return vf32_copysign(vf32_select(a < 0.625f, near, far), x);
}

UM_INLINE vf64 vf64_tanh(vf64 x) { return vf64_lanes(x, tanh); }

#endif
