/* backend/cpu/kernel/narrow.h: packed f16, bf16 and 8-bit floats to f32, eight at a time where the
 * kernel set has an instruction for it. um_load does the same for everything, one by one. */
#ifndef UM_CPU_NARROW_H
#define UM_CPU_NARROW_H

#include "backend/cpu/kernel/simd.h"

#if defined(__AVX2__)

UM_INLINE __m256 narrow_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

UM_INLINE __m256 narrow_bf16(const uint8_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

UM_INLINE __m128i narrow_bytes(const uint8_t *p)
{
    return _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* The upper half of an f16. */
UM_INLINE __m256 narrow_e5m2(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_slli_epi16(narrow_bytes(p), 8));
}

/* An f16 with one exponent bit less, and so 2^8 too small; all ones are NaN. */
UM_INLINE __m256 narrow_e4m3(const uint8_t *p)
{
    __m128i x = narrow_bytes(p), magnitude = _mm_and_si128(x, _mm_set1_epi16(0x7f));
    __m128i is_nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
    __m128i sign = _mm_slli_epi16(_mm_xor_si128(x, magnitude), 8);
    __m128i half = _mm_or_si128(_mm_slli_epi16(magnitude, 7), sign);
    half = _mm_or_si128(half, _mm_and_si128(is_nan, _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
}

/* Converts the first of n elements; how many: a multiple of 8, none of other types. */
static int64_t narrow_load(float *dst, um_dtype dtype, const void *src, int64_t n)
{
    const uint8_t *p = src;
    int64_t whole = n & ~(int64_t)7;
    if (dtype == UM_F16)
        for (int64_t i = 0; i < whole; i += 8) _mm256_storeu_ps(dst + i, narrow_f16(p + 2 * i));
    else if (dtype == UM_BF16)
        for (int64_t i = 0; i < whole; i += 8) _mm256_storeu_ps(dst + i, narrow_bf16(p + 2 * i));
    else if (dtype == UM_F8E5M2)
        for (int64_t i = 0; i < whole; i += 8) _mm256_storeu_ps(dst + i, narrow_e5m2(p + i));
    else if (dtype == UM_F8E4M3FN)
        for (int64_t i = 0; i < whole; i += 8) _mm256_storeu_ps(dst + i, narrow_e4m3(p + i));
    else
        return 0;
    return whole;
}

#else

UM_INLINE int64_t narrow_load(float *dst, um_dtype dtype, const void *src, int64_t n)
{
    (void)dst, (void)dtype, (void)src, (void)n;
    return 0;
}

#endif
#endif
