/* base/dtype.h: what the dtype_*.c files share. Raw memory (void *raw) holds packed elements and
 * may be unaligned; values of a class are aligned. No two ranges overlap. */
#ifndef UM_BASE_DTYPE_H
#define UM_BASE_DTYPE_H

#include "base/base.h"

/* Elements that pass through the stack at once: 2 KiB of f64, well inside any L1. */
enum { UM_DTYPE_CHUNK = 256 };

typedef union um_class_chunk {
    float f32[UM_DTYPE_CHUNK];
    double f64[UM_DTYPE_CHUNK];
    int64_t i64[UM_DTYPE_CHUNK];
    uint64_t u64[UM_DTYPE_CHUNK];
} um_class_chunk;

/* dtype_float.c: floats of at most 16 bits, f4e2m1 with one element a byte. */
void um_small_decode(um_dtype dtype, float *dst, const void *raw, int64_t n);
void um_small_encode(um_dtype dtype, void *raw, const float *src, int64_t n);

/* A float format of at most 16 bits whose exponent is not 8 bits. Decoding and encoding in
 * dtype_float.c say what the fields mean; kernels do the same where a target lacks the type. */
typedef struct um_float_format {
    uint32_t exp_bits, man_bits, bias;
    uint32_t max;  /* code of the largest finite value */
    uint32_t over; /* what is larger becomes this: inf, or max where there is none */
    uint32_t nan;  /* what NaN becomes, the sign bit apart */
    bool keeps_zero_sign, keeps_nan_sign;
    uint32_t minus_zero; /* the code of -0 where it means NaN (the FNUZ types), else UM_NO_CODE */
} um_float_format;
enum { UM_NO_CODE = 0x10000 };
/* NULL for the others: bf16, f8e8m0, and what is no such float. */
const um_float_format *um_dtype_float_format(um_dtype dtype);

/* dtype_class.c. raw is packed f32, f64, i64 or u64. */
void um_class_convert(um_class to, void *raw, um_class from, const void *src, int64_t n);
/* To f32 rounded to odd: rounding that to a type of at most 22 bits precision gives what rounding
 * the source at once would have. */
void um_class_to_odd(float *dst, um_class from, const void *src, int64_t n);
/* Truncates and saturates to the integer dtype's range. */
void um_class_saturate(um_dtype dtype, int64_t *dst, um_class from, const void *src, int64_t n);
/* 1 where x != 0. */
void um_class_to_bool(uint8_t *dst, um_class from, const void *src, int64_t n);

#endif
