/* backend/cpu/kernel/simd.h: the vector verbs the kernels are written in. Types are GCC/Clang
 * vector extensions, so
 * + - * / & | ^ ~ << >> and comparisons are plain operators (a comparison gives all-ones lanes).
 * What has no operator is here. Every file of this folder is compiled once a kernel set (UM_ISA:
 * base, avx2), and its external names end in it.
 *
 * Compiled with -ffp-contract=off: a fused multiply-add happens where vf32_fma says so and nowhere
 * else, so every build type and compiler gives the same bits. The base set has no fused
 * instruction; its _fma rounds twice. */
#ifndef UM_CPU_SIMD_H
#define UM_CPU_SIMD_H

#include "backend/cpu/cpu.h"

#define UM_PASTE2(a, b) a##_##b
#define UM_PASTE(a, b)  UM_PASTE2(a, b)
/* um_run_matmul -> um_run_matmul_avx2 */
#define UM_ISA_FN(name) UM_PASTE(name, UM_ISA)

#if defined(__AVX2__)
#include <immintrin.h>
#define UM_VECTOR_BYTES 32
#else
#define UM_VECTOR_BYTES 16
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

#define UM_INLINE static inline __attribute__((always_inline, unused))

typedef float vf32 __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef double vf64 __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef int64_t vi64 __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef float vf32_any __attribute__((vector_size(UM_VECTOR_BYTES), aligned(4), may_alias));
typedef double vf64_any __attribute__((vector_size(UM_VECTOR_BYTES), aligned(8), may_alias));

enum { VF32_LANES = UM_VECTOR_BYTES / 4, VF64_LANES = UM_VECTOR_BYTES / 8 };

UM_INLINE vf32 vf32_load(const float *p) { return *(const vf32_any *)p; }
UM_INLINE vf64 vf64_load(const double *p) { return *(const vf64_any *)p; }
UM_INLINE void vf32_store(float *p, vf32 v) { *(vf32_any *)p = v; }
UM_INLINE void vf64_store(double *p, vf64 v) { *(vf64_any *)p = v; }
UM_INLINE vf32 vf32_set(float x) { return x - (vf32){0}; }
UM_INLINE vf64 vf64_set(double x) { return x - (vf64){0}; }
UM_INLINE vf32 vf32_select(vi32 mask, vf32 a, vf32 b)
{
    return (vf32)((mask & (vi32)a) | (~mask & (vi32)b));
}
UM_INLINE vf64 vf64_select(vi64 mask, vf64 a, vf64 b)
{
    return (vf64)((mask & (vi64)a) | (~mask & (vi64)b));
}

#if defined(__AVX2__)
UM_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c)
{
    return (vf32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
UM_INLINE vf64 vf64_fma(vf64 a, vf64 b, vf64 c)
{
    return (vf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
UM_INLINE vf32 vf32_sqrt(vf32 a) { return (vf32)_mm256_sqrt_ps((__m256)a); }
UM_INLINE vf64 vf64_sqrt(vf64 a) { return (vf64)_mm256_sqrt_pd((__m256d)a); }
#else
UM_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c) { return a * b + c; }
UM_INLINE vf64 vf64_fma(vf64 a, vf64 b, vf64 c) { return a * b + c; }
#if defined(__SSE2__)
UM_INLINE vf32 vf32_sqrt(vf32 a) { return (vf32)_mm_sqrt_ps((__m128)a); }
UM_INLINE vf64 vf64_sqrt(vf64 a) { return (vf64)_mm_sqrt_pd((__m128d)a); }
#else
UM_INLINE vf32 vf32_sqrt(vf32 a)
{
    for (int i = 0; i < VF32_LANES; i++) a[i] = __builtin_sqrtf(a[i]);
    return a;
}
UM_INLINE vf64 vf64_sqrt(vf64 a)
{
    for (int i = 0; i < VF64_LANES; i++) a[i] = __builtin_sqrt(a[i]);
    return a;
}
#endif
#endif

/* Lane sums in one fixed order: halves are added until one is left. */
UM_INLINE float vf32_sum(vf32 v)
{
    float x[VF32_LANES];
    vf32_store(x, v);
    for (int half = VF32_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}
UM_INLINE double vf64_sum(vf64 v)
{
    double x[VF64_LANES];
    vf64_store(x, v);
    for (int half = VF64_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

#endif
