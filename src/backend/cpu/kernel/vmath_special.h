/* backend/cpu/kernel/vmath_special.h: erf, gelu, softplus, sine and cosine on whole vectors, for
 * the loops of map. f32 is ours; f64 is the C library's, lane by lane. exp, log and tanh are in
 * vmath.h. */
#ifndef UM_CPU_VMATH_SPECIAL_H
#define UM_CPU_VMATH_SPECIAL_H

#include "backend/cpu/kernel/vmath.h"

/* ---- f32 and f64 of one vector -------------------------------------------------------------- */

#if defined(__AVX2__)
UM_INLINE vf64 vf32_low_f64(vf32 x)
{
    return (vf64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
}
UM_INLINE vf64 vf32_high_f64(vf32 x)
{
    return (vf64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
}
UM_INLINE vf32 vf32_from_f64(vf64 low, vf64 high)
{
    return (vf32)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
UM_INLINE bool vi32_any(vi32 mask) { return !_mm256_testz_si256((__m256i)mask, (__m256i)mask); }
#elif defined(__SSE2__)
UM_INLINE vf64 vf32_low_f64(vf32 x) { return (vf64)_mm_cvtps_pd((__m128)x); }
UM_INLINE vf64 vf32_high_f64(vf32 x)
{
    return (vf64)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x));
}
UM_INLINE vf32 vf32_from_f64(vf64 low, vf64 high)
{
    return (vf32)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
}
UM_INLINE bool vi32_any(vi32 mask) { return _mm_movemask_epi8((__m128i)mask) != 0; }
#else
UM_INLINE vf64 vf32_low_f64(vf32 x)
{
    vf64 y;
    for (int i = 0; i < VF64_LANES; i++) y[i] = (double)x[i];
    return y;
}
UM_INLINE vf64 vf32_high_f64(vf32 x)
{
    vf64 y;
    for (int i = 0; i < VF64_LANES; i++) y[i] = (double)x[i + VF64_LANES];
    return y;
}
UM_INLINE vf32 vf32_from_f64(vf64 low, vf64 high)
{
    vf32 x;
    for (int i = 0; i < VF64_LANES; i++) {
        x[i] = (float)low[i];
        x[i + VF64_LANES] = (float)high[i];
    }
    return x;
}
UM_INLINE bool vi32_any(vi32 mask)
{
    int32_t any = 0;
    for (int i = 0; i < VF32_LANES; i++) any |= mask[i];
    return any != 0;
}
#endif

/* ---- erf, gelu ------------------------------------------------------------------------------ */

/* e^(a^2/2) times the normal distribution's tail beyond a, which is erfc(a / sqrt 2) / 2, for 0 <=
 * a <= 14.6. All terms are positive, so nothing cancels. */
UM_INLINE vf32 vf32_tail_ratio(vf32 a)
{
    vf32 p = vf32_fma(a, vf32_set(0x1.0b99c8p-8f), vf32_set(0x1.4b3686p-5f));
    p = vf32_fma(p, a, vf32_set(0x1.761a08p-3f));
    p = vf32_fma(p, a, vf32_set(0x1.c013ecp-2f));
    p = vf32_fma(p, a, vf32_set(0.5f));
    vf32 q = vf32_fma(a, vf32_set(0x1.4f623ep-7f), vf32_set(0x1.9f2408p-4f));
    q = vf32_fma(q, a, vf32_set(0x1.df3132p-2f));
    q = vf32_fma(q, a, vf32_set(0x1.3341a2p+0f));
    q = vf32_fma(q, a, vf32_set(0x1.ac4c24p+0f));
    q = vf32_fma(q, a, vf32_set(1));
    return p / q;
}

UM_INLINE vf32 vf32_erf(vf32 x)
{
    vf32 s = x * x;
    vf32 p = vf32_fma(s, vf32_set(0x1.496a44p-14f), vf32_set(-0x1.a3f706p-11f));
    p = vf32_fma(p, s, vf32_set(0x1.5405b2p-8f));
    p = vf32_fma(p, s, vf32_set(-0x1.b7f90ep-6f));
    p = vf32_fma(p, s, vf32_set(0x1.ce2cf8p-4f));
    p = vf32_fma(p, s, vf32_set(-0x1.81273ep-2f));
    p = vf32_fma(p, s, vf32_set(0x1.06eba8p-3f));
    vf32 near = vf32_fma(x, p, x);
    vf32 a = vf32_abs(x);
    vf32 z = vf32_select(a > 4.0f, vf32_set(4), a); /* erf(4) rounds to 1 */
    vf32 far =
        1.0f - 2.0f * vf32_exp_mid(-z * z) * vf32_tail_ratio(0x1.6a09e6p+0f * z); /* sqrt 2 */
    return vf32_copysign(vf32_select(a < 1.0f, near, far), x);
}

/* x times the normal distribution's integral up to x. The square is kept in two
 * parts (12 bits of x squared exactly, and the rest), so that the tail keeps its relative
 * precision. */
UM_INLINE vf32 vf32_gelu(vf32 x)
{
    vf32 a = vf32_limit(vf32_abs(x), 0.0f, 14.5f);
    vf32 head = (vf32)((vu32)a & 0xfffff000u);
    vf32 scale, e = vf32_exp_parts(-0.5f * head * head, -0.5f * (a - head) * (a + head), &scale);
    vf32 tail = e * vf32_tail_ratio(a);
    return vf32_select(x < 0, -a * tail * scale, x * (1.0f - tail * scale));
}

/* x * sigmoid(2u), 2u = sqrt(8 / pi) (x + 0.044715 x^3) computed in f64 for the tail's sake. */
UM_INLINE vf64 vf64_gelu_tanh_arg(vf64 x)
{
    return x * (0x1.9884533d43651p+0 + 0x1.2444f2a4d8b4bp-4 * x * x);
}
UM_INLINE vf32 vf32_gelu_tanh(vf32 x)
{
    vf32 a = vf32_limit(vf32_abs(x), 0.0f, 11.2f);
    vf64 low = -vf64_gelu_tanh_arg(vf32_low_f64(a)), high = -vf64_gelu_tanh_arg(vf32_high_f64(a));
    vf32 arg = vf32_from_f64(low, high);
    vf32 rest = vf32_from_f64(low - vf32_low_f64(arg), high - vf32_high_f64(arg));
    vf32 scale, e = vf32_exp_parts(arg, rest, &scale);
    vf32 down = 1.0f + e * scale;
    return vf32_select(x < 0, -a * e / down * scale, x / down);
}

/* The same for f64, lane by lane; where a product is rounded on the way into erfc or exp, what was
 * lost is put back to first order, because the tails magnify it. */
UM_INLINE double gelu_f64(double x)
{
    double a = fabs(x),
           z = a * 0x1.6a09e667f3bcdp-1; /* sqrt(1/2), and below what its rounding left */
    double lost = fma(a, 0x1.6a09e667f3bcdp-1, -z) + a * -0x1.bdd3413b26456p-55;
    double tail = 0.5 * erfc(z);
    if (z > 0.5 && z < 27) tail -= 0x1.20dd750429b6dp-1 * exp(-z * z) * lost; /* 1 / sqrt pi */
    if (x > 0) return x * (1 - tail);
    return x < 0 && tail == 0 ? -0.0 : x * tail;
}
UM_INLINE double gelu_tanh_f64(double x)
{
    if (!(fabs(x) < 30)) return x < 0 ? -0.0 : x;
    long double a = (long double)fabs(x);
    long double arg = a * (1.595769121605730711759784L + 0.07135481627260024877634L * a * a);
    double half = exp(-0.5 * (double)arg); /* its square may be subnormal: multiplied in last */
    half -= half * (double)(0.5L * (arg - (long double)(double)arg));
    double down = 1 + half * half;
    return x < 0 ? x * half / down * half : x / down;
}
UM_INLINE vf64 vf64_erf(vf64 x) { return vf64_lanes(x, erf); }
UM_INLINE vf64 vf64_gelu(vf64 x) { return vf64_lanes(x, gelu_f64); }
UM_INLINE vf64 vf64_gelu_tanh(vf64 x) { return vf64_lanes(x, gelu_tanh_f64); }

/* ---- softplus ------------------------------------------------------------------------------- */

/* log(1 + e) for 0 <= e <= 1. */
UM_INLINE vf32 vf32_log1p_unit(vf32 e)
{
    vi32 halve = e > 0.5f;
    vf32 f = vf32_select(halve, 0.5f * (e - 1.0f), e);
    return vf32_log_sum(vf32_select(halve, vf32_set(1), vf32_set(0)), f);
}
UM_INLINE vf32 vf32_softplus(vf32 x)
{
    vf32 positive = (vf32)((vi32)x & ~(x <= 0)); /* NaN stays */
    return positive + vf32_log1p_unit(vf32_exp(-vf32_abs(x)));
}

UM_INLINE double softplus_f64(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
UM_INLINE vf64 vf64_softplus(vf64 x) { return vf64_lanes(x, softplus_f64); }

/* ---- sine and cosine ------------------------------------------------------------------------ */

/* x - n pi/2 for |x| <= 2^20: 33 bits of pi/2 times n are exact, the next 53 finish it. */
UM_INLINE vf64 vf64_turn_reduce(vf64 x, vf64 *n)
{
    *n = x * 0x1.45f306dc9c883p-1 + 0x1.8p52 - 0x1.8p52;
    return x - *n * 0x1.921fb544p+0 - *n * 0x1.0b4611a626331p-34;
}

/* sin(x + quarter pi/2); any lane beyond 2^20 sends the vector to the C library. */
UM_INLINE vf32 vf32_sin_turned(vf32 x, uint32_t quarter)
{
    vf64 n_low, n_high;
    vf64 low = vf64_turn_reduce(vf32_low_f64(x), &n_low);
    vf64 high = vf64_turn_reduce(vf32_high_f64(x), &n_high);
    vf32 r = vf32_from_f64(low, high), s = r * r;
    vf32 p = vf32_fma(s, vf32_set(-0x1.994062p-13f), vf32_set(0x1.110730p-7f));
    p = vf32_fma(p, s, vf32_set(-0x1.555546p-3f));
    vf32 sine = vf32_select(r == 0, r, vf32_fma(s * r, p, r));
    vf32 q = vf32_fma(s, vf32_set(0x1.99e86ap-16f), vf32_set(-0x1.6c0c28p-10f));
    q = vf32_fma(q, s, vf32_set(0x1.55554ap-5f));
    vf32 cosine = vf32_fma(s * s, q, vf32_fma(s, vf32_set(-0.5f), vf32_set(1)));
    vu32 turn = (vu32)(vf32_from_f64(n_low, n_high) + 0x1.8p23f) + quarter; /* low bits: n */
    vf32 y = vf32_select((turn & 1u) != 0, cosine, sine);
    return (vf32)((vu32)y ^ ((turn & 2u) << 30));
}
UM_INLINE vf32 vf32_sin(vf32 x)
{
    vf32 y = vf32_sin_turned(x, 0);
    if (vi32_any(vf32_abs(x) > 0x1p20f))
        for (int i = 0; i < VF32_LANES; i++) y[i] = (float)sin((double)x[i]);
    return y;
}
UM_INLINE vf32 vf32_cos(vf32 x)
{
    vf32 y = vf32_sin_turned(x, 1);
    if (vi32_any(vf32_abs(x) > 0x1p20f))
        for (int i = 0; i < VF32_LANES; i++) y[i] = (float)cos((double)x[i]);
    return y;
}

UM_INLINE vf64 vf64_sin(vf64 x) { return vf64_lanes(x, sin); }
UM_INLINE vf64 vf64_cos(vf64 x) { return vf64_lanes(x, cos); }

#endif
