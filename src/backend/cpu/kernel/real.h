/* backend/cpu/kernel/real.h: one real type for a generic body. A file defines REAL_BITS (32 or 64),
 * includes this, then its body, once a type; names made with REAL_FN end in _f32 or _f64. f16 and
 * bf16 run through the f32 body: they are converted as a line of elements is loaded or stored.
 *
 * Beside the type: parts of vectors, four lane sums at once, lines of any stride and dtype, and
 * sums that stay exact across blocks. */
#include "backend/cpu/kernel/simd.h"

#undef REAL
#undef VREAL
#undef VMASK
#undef REAL_LANES
#undef REAL_DTYPE
#undef REAL_CLASS
#undef REAL_FN
#undef VREAL_FN
#if REAL_BITS == 32
#define REAL           float
#define VREAL          vf32
#define VMASK          vi32
#define REAL_LANES     VF32_LANES
#define REAL_DTYPE     UM_F32
#define REAL_CLASS     UM_CLASS_F32
#define REAL_FN(name)  name##_f32
#define VREAL_FN(name) vf32_##name
#else
#define REAL           double
#define VREAL          vf64
#define VMASK          vi64
#define REAL_LANES     VF64_LANES
#define REAL_DTYPE     UM_F64
#define REAL_CLASS     UM_CLASS_F64
#define REAL_FN(name)  name##_f64
#define VREAL_FN(name) vf64_##name
#endif

/* ---- vectors -------------------------------------------------------------------------------- */

/* The first n <= REAL_LANES elements, the other lanes 0. */
UM_INLINE VREAL REAL_FN(load_part)(const REAL *p, int64_t n)
{
#if defined(__AVX2__) && REAL_BITS == 32
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (VREAL)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane));
#elif defined(__AVX2__)
    __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return (VREAL)_mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lane));
#else
    REAL lane[REAL_LANES] = {0};
    for (int64_t i = 0; i < n; i++) lane[i] = p[i];
    return VREAL_FN(load)(lane);
#endif
}

/* The first n <= REAL_LANES elements, the other lanes `rest`. */
UM_INLINE VREAL REAL_FN(load_rest)(const REAL *p, int64_t n, REAL rest)
{
    REAL lane[REAL_LANES];
    if (n == REAL_LANES) return VREAL_FN(load)(p);
    for (int64_t i = 0; i < REAL_LANES; i++) lane[i] = i < n ? p[i] : rest;
    return VREAL_FN(load)(lane);
}

UM_INLINE void REAL_FN(store_part)(REAL *p, VREAL v, int64_t n)
{
#if defined(__AVX2__) && REAL_BITS == 32
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane), (__m256)v);
#elif defined(__AVX2__)
    __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    _mm256_maskstore_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lane), (__m256d)v);
#else
    REAL lane[REAL_LANES];
    VREAL_FN(store)(lane, v);
    for (int64_t i = 0; i < n; i++) p[i] = lane[i];
#endif
}

UM_INLINE VREAL REAL_FN(vmax)(VREAL a, VREAL b) { return VREAL_FN(select)((VMASK)(a > b), a, b); }

/* out[r] = the lane sum of v_r, in the order of VREAL_FN(sum). */
UM_INLINE void REAL_FN(sum4)(VREAL v0, VREAL v1, VREAL v2, VREAL v3, REAL *out)
{
#if defined(__AVX2__) && REAL_BITS == 32
    __m128 a = _mm_add_ps(_mm256_castps256_ps128((__m256)v0), _mm256_extractf128_ps((__m256)v0, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128((__m256)v1), _mm256_extractf128_ps((__m256)v1, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128((__m256)v2), _mm256_extractf128_ps((__m256)v2, 1));
    __m128 d = _mm_add_ps(_mm256_castps256_ps128((__m256)v3), _mm256_extractf128_ps((__m256)v3, 1));
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
#elif defined(__AVX2__)
    __m256d a = (__m256d)v0, b = (__m256d)v1, c = (__m256d)v2, d = (__m256d)v3;
    __m256d ac =
        _mm256_add_pd(_mm256_permute2f128_pd(a, c, 0x20), _mm256_permute2f128_pd(a, c, 0x31));
    __m256d bd =
        _mm256_add_pd(_mm256_permute2f128_pd(b, d, 0x20), _mm256_permute2f128_pd(b, d, 0x31));
    _mm256_storeu_pd(out, _mm256_add_pd(_mm256_unpacklo_pd(ac, bd), _mm256_unpackhi_pd(ac, bd)));
#else
    out[0] = VREAL_FN(sum)(v0), out[1] = VREAL_FN(sum)(v1);
    out[2] = VREAL_FN(sum)(v2), out[3] = VREAL_FN(sum)(v3);
#endif
}

UM_INLINE REAL REAL_FN(fma1)(REAL a, REAL b, REAL c)
{
#if defined(__FMA__) && REAL_BITS == 32
    return __builtin_fmaf(a, b, c);
#elif defined(__FMA__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* ---- lines: n elements, `first` + i * stride, of a tensor of any float dtype --------------------
 */

UM_INLINE bool REAL_FN(line_is_direct)(um_dtype dtype, int64_t stride, int64_t n)
{
    return dtype == REAL_DTYPE && (stride == 1 || n <= 1);
}

/* The line itself when it is packed REALs, else a copy in buffer. */
UM_INLINE const REAL *REAL_FN(line_load)(um_dtype dtype, const void *data, int64_t first,
                                         int64_t stride, int64_t n, REAL *buffer)
{
    if (REAL_FN(line_is_direct)(dtype, stride, n)) return (const REAL *)data + first;
    um_load(REAL_CLASS, buffer, dtype, data, first, stride, n);
    return buffer;
}

/* Where to compute a line that line_store then puts in its place. */
UM_INLINE REAL *REAL_FN(line_open)(um_dtype dtype, void *data, int64_t first, int64_t stride,
                                   int64_t n, REAL *buffer)
{
    return REAL_FN(line_is_direct)(dtype, stride, n) ? (REAL *)data + first : buffer;
}

UM_INLINE void REAL_FN(line_store)(um_dtype dtype, void *data, int64_t first, int64_t stride,
                                   int64_t n, const REAL *line)
{
    if (!REAL_FN(line_is_direct)(dtype, stride, n))
        um_store(dtype, data, first, stride, REAL_CLASS, line, n);
}

/* ---- sums across blocks: hi + lo keeps what hi alone would round away (Knuth's TwoSum) ----------
 */

UM_INLINE void REAL_FN(sum_add)(REAL *hi, REAL *lo, const REAL *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        REAL a = hi[i], b = x[i], sum = a + b, part = sum - a;
        hi[i] = sum;
        lo[i] += (a - (sum - part)) + (b - part);
    }
}

/* hi becomes the sum. Where it is inf, lo is NaN and does not count. */
UM_INLINE void REAL_FN(sum_close)(REAL *hi, const REAL *lo, int64_t n)
{
    for (int64_t i = 0; i < n; i++) hi[i] = lo[i] == lo[i] ? hi[i] + lo[i] : hi[i];
}
