/* base/dtype_class.c: conversions between the four classes kernels compute in, and from them to
 * integers and bool. Called by dtype_load.c. */
#include "base/dtype.h"

typedef void convert_fn(void *restrict raw, const void *restrict src, int64_t n);

/* 2^63 and 2^64 are exact in double; no double lies between INT64_MAX and 2^63. NaN fails every
 * comparison. */
static inline int64_t i64_of(double x)
{
    if (x >= 0x1p63) return INT64_MAX;
    if (x < -0x1p63) return INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

static inline uint64_t u64_of(double x)
{
    if (x >= 0x1p64) return UINT64_MAX;
    return x > 0 ? (uint64_t)x : 0;
}

static inline void put_f32(void *raw, int64_t i, float x) { memcpy((char *)raw + 4 * i, &x, 4); }

static inline void put_f64(void *raw, int64_t i, double x) { memcpy((char *)raw + 8 * i, &x, 8); }

static inline void put_i64(void *raw, int64_t i, int64_t x) { memcpy((char *)raw + 8 * i, &x, 8); }

static inline void put_u64(void *raw, int64_t i, uint64_t x) { memcpy((char *)raw + 8 * i, &x, 8); }

static void copy4(void *restrict raw, const void *restrict src, int64_t n)
{
    memcpy(raw, src, 4 * (size_t)n);
}

static void copy8(void *restrict raw, const void *restrict src, int64_t n)
{
    memcpy(raw, src, 8 * (size_t)n);
}

static void f32_to_f64(void *restrict raw, const void *restrict src, int64_t n)
{
    const float *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f64(raw, i, (double)x[i]);
}

static void f32_to_i64(void *restrict raw, const void *restrict src, int64_t n)
{
    const float *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_i64(raw, i, i64_of((double)x[i]));
}

static void f32_to_u64(void *restrict raw, const void *restrict src, int64_t n)
{
    const float *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_u64(raw, i, u64_of((double)x[i]));
}

static void f64_to_f32(void *restrict raw, const void *restrict src, int64_t n)
{
    const double *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f32(raw, i, (float)x[i]);
}

static void f64_to_i64(void *restrict raw, const void *restrict src, int64_t n)
{
    const double *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_i64(raw, i, i64_of(x[i]));
}

static void f64_to_u64(void *restrict raw, const void *restrict src, int64_t n)
{
    const double *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_u64(raw, i, u64_of(x[i]));
}

static void i64_to_f32(void *restrict raw, const void *restrict src, int64_t n)
{
    const int64_t *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f32(raw, i, (float)x[i]);
}

static void i64_to_f64(void *restrict raw, const void *restrict src, int64_t n)
{
    const int64_t *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f64(raw, i, (double)x[i]);
}

static void u64_to_f32(void *restrict raw, const void *restrict src, int64_t n)
{
    const uint64_t *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f32(raw, i, (float)x[i]);
}

static void u64_to_f64(void *restrict raw, const void *restrict src, int64_t n)
{
    const uint64_t *restrict x = src;
    for (int64_t i = 0; i < n; i++) put_f64(raw, i, (double)x[i]);
}

void um_class_convert(um_class to, void *raw, um_class from, const void *src, int64_t n)
{
    static convert_fn *const table[4][4] = {
        /* [to][from]; between integers the bits stay, which wraps */
        [UM_CLASS_F32] = {copy4, f64_to_f32, i64_to_f32, u64_to_f32},
        [UM_CLASS_F64] = {f32_to_f64, copy8, i64_to_f64, u64_to_f64},
        [UM_CLASS_I64] = {f32_to_i64, f64_to_i64, copy8, copy8},
        [UM_CLASS_U64] = {f32_to_u64, f64_to_u64, copy8, copy8},
    };
    table[to][from](raw, src, n);
}

/* Towards zero, and the last bit set when anything was cut off. */
static inline float odd_of(double x)
{
    float nearest = (float)x;
    double back = (double)nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    bits -= (back < 0 ? -back : back) > (x < 0 ? -x : x);
    bits |= back != x;
    memcpy(&nearest, &bits, sizeof bits);
    return nearest;
}

/* To a double rounded to odd: the 11 bits it cannot hold leave their mark on the last it can. */
static inline double odd_double(uint64_t magnitude)
{
    uint64_t cut = (magnitude & ~(uint64_t)0x7ff) | (uint64_t)((magnitude & 0x7ff) != 0) << 11;
    return (double)(magnitude < (uint64_t)1 << 53 ? magnitude : cut);
}

void um_class_to_odd(float *restrict dst, um_class from, const void *restrict src, int64_t n)
{
    switch (from) {
    case UM_CLASS_F32: memcpy(dst, src, 4 * (size_t)n); return;
    case UM_CLASS_F64: {
        const double *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = odd_of(x[i]);
        return;
    }
    case UM_CLASS_I64: {
        const int64_t *restrict x = src;
        for (int64_t i = 0; i < n; i++) {
            double magnitude = odd_double(x[i] < 0 ? 0 - (uint64_t)x[i] : (uint64_t)x[i]);
            dst[i] = odd_of(x[i] < 0 ? -magnitude : magnitude);
        }
        return;
    }
    case UM_CLASS_U64: {
        const uint64_t *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = odd_of(odd_double(x[i]));
        return;
    }
    }
}

/* For types of at most 32 bits, whose ends are exact in double. Clamping before truncating gives
 * the same as after. */
static inline int64_t clamped(double x, double low, double high)
{
    x = x == x ? x : 0;
    x = x < low ? low : x;
    return (int64_t)(x > high ? high : x);
}

void um_class_saturate(um_dtype dtype, int64_t *restrict dst, um_class from,
                       const void *restrict src, int64_t n)
{
    int32_t bits = um_dtype_bits(dtype);
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    if (bits == 64) {
        um_class_convert(is_signed ? UM_CLASS_I64 : UM_CLASS_U64, dst, from, src, n);
        return;
    }
    int64_t span = (int64_t)1 << (bits - is_signed);
    double low = is_signed ? (double)-span : 0, high = (double)(span - 1);
    if (from == UM_CLASS_F32) {
        const float *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = clamped((double)x[i], low, high);
    } else {
        const double *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = clamped(x[i], low, high);
    }
}

void um_class_to_bool(uint8_t *restrict dst, um_class from, const void *restrict src, int64_t n)
{
    if (from == UM_CLASS_F32) {
        const float *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = x[i] != 0;
    } else if (from == UM_CLASS_F64) {
        const double *restrict x = src;
        for (int64_t i = 0; i < n; i++) dst[i] = x[i] != 0;
    } else {
        for (int64_t i = 0; i < n; i++) {
            uint64_t x;
            memcpy(&x, (const char *)src + 8 * i, sizeof x);
            dst[i] = x != 0;
        }
    }
}
