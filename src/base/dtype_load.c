/* base/dtype_load.c: um_load and um_store: elements of any dtype and stride to and from arrays of a
 * class. Strided elements are first gathered into packed ones, so that every conversion is one
 * loop over packed memory. Called by um_convert and by kernels. */
#include "base/dtype.h"

/* ---- strided to packed and back, by element size ------------------------------------------- */

static inline void gather_size(char *restrict dst, const char *restrict src, int64_t step,
                               int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * (int64_t)size, src + i * step, size);
}

static inline void scatter_size(char *restrict dst, int64_t step, const char *restrict src,
                                int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * step, src + i * (int64_t)size, size);
}

/* 4-bit elements come out one a byte. Element k is the half k & 1 of byte k >> 1, for k < 0 too. */
static void gather_half(uint8_t *dst, const uint8_t *src, int64_t first, int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = first + i * stride;
        dst[i] = src[k >> 1] >> (k & 1) * 4 & 15;
    }
}

static void scatter_half(uint8_t *dst, int64_t first, int64_t stride, const uint8_t *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = first + i * stride;
        uint8_t keep = k & 1 ? 0x0f : 0xf0;
        dst[k >> 1] = (uint8_t)((dst[k >> 1] & keep) | src[i] << (k & 1) * 4);
    }
}

static void gather(int32_t bits, void *dst, const void *src, int64_t first, int64_t stride,
                   int64_t n)
{
    int64_t bytes = bits / 8;
    const char *from = (const char *)src + first * bytes;
    switch (bits) {
    case 4: gather_half(dst, src, first, stride, n); return;
    case 8: gather_size(dst, from, stride, n, 1); return;
    case 16: gather_size(dst, from, stride * bytes, n, 2); return;
    case 32: gather_size(dst, from, stride * bytes, n, 4); return;
    case 64: gather_size(dst, from, stride * bytes, n, 8); return;
    }
}

static void scatter(int32_t bits, void *dst, int64_t first, int64_t stride, const void *src,
                    int64_t n)
{
    int64_t bytes = bits / 8;
    char *to = (char *)dst + first * bytes;
    switch (bits) {
    case 4: scatter_half(dst, first, stride, src, n); return;
    case 8: scatter_size(to, stride, src, n, 1); return;
    case 16: scatter_size(to, stride * bytes, src, n, 2); return;
    case 32: scatter_size(to, stride * bytes, src, n, 4); return;
    case 64: scatter_size(to, stride * bytes, src, n, 8); return;
    }
}

/* ---- packed integers ------------------------------------------------------------------------ */

static void widen_i16(int64_t *restrict dst, const char *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int16_t x;
        memcpy(&x, raw + 2 * i, sizeof x);
        dst[i] = x;
    }
}

static void widen_i32(int64_t *restrict dst, const char *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t x;
        memcpy(&x, raw + 4 * i, sizeof x);
        dst[i] = x;
    }
}

static void widen_u16(int64_t *restrict dst, const char *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, raw + 2 * i, sizeof x);
        dst[i] = x;
    }
}

static void widen_u32(int64_t *restrict dst, const char *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, raw + 4 * i, sizeof x);
        dst[i] = x;
    }
}

static void widen(um_dtype dtype, int64_t *restrict dst, const void *restrict raw, int64_t n)
{
    const int8_t *restrict i8 = raw;
    const uint8_t *restrict u8 = raw;
    switch (dtype) {
    case UM_I8:
        for (int64_t i = 0; i < n; i++) dst[i] = i8[i];
        return;
    case UM_I16: widen_i16(dst, raw, n); return;
    case UM_I32: widen_i32(dst, raw, n); return;
    case UM_U8:
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i];
        return;
    case UM_U16: widen_u16(dst, raw, n); return;
    case UM_U32: widen_u32(dst, raw, n); return;
    case UM_BOOL:
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i] != 0;
        return;
    default: memcpy(dst, raw, 8 * (size_t)n); /* i64 and u64 */
    }
}

/* The low bits of 64-bit integers: wraps. */
static void narrow(int32_t bits, void *restrict raw, const void *restrict src, int64_t n)
{
    const int64_t *restrict x = src;
    char *restrict to = raw;
    switch (bits) {
    case 8:
        for (int64_t i = 0; i < n; i++) to[i] = (char)x[i];
        return;
    case 16:
        for (int64_t i = 0; i < n; i++) {
            uint16_t low = (uint16_t)x[i];
            memcpy(to + 2 * i, &low, sizeof low);
        }
        return;
    case 32:
        for (int64_t i = 0; i < n; i++) {
            uint32_t low = (uint32_t)x[i];
            memcpy(to + 4 * i, &low, sizeof low);
        }
        return;
    default: memcpy(to, src, 8 * (size_t)n);
    }
}

/* ---- packed elements to and from a class ---------------------------------------------------- */

/* To the dtype's own class, exactly. 4-bit elements lie one a byte. */
static void decode(um_dtype dtype, void *dst, const void *raw, int64_t n)
{
    if (dtype == UM_F64)
        memcpy(dst, raw, 8 * (size_t)n);
    else if (dtype == UM_F32)
        memcpy(dst, raw, 4 * (size_t)n);
    else if (um_dtype_is_float(dtype))
        um_small_decode(dtype, dst, raw, n);
    else
        widen(dtype, dst, raw, n);
}

static void encode_small(um_dtype dtype, void *raw, um_class c, const void *src, int64_t n)
{
    if (c == UM_CLASS_F32) {
        um_small_encode(dtype, raw, src, n);
        return;
    }
    float odd[UM_DTYPE_CHUNK];
    um_class_to_odd(odd, c, src, n);
    um_small_encode(dtype, raw, odd, n);
}

static void encode_int(um_dtype dtype, void *raw, um_class c, const void *src, int64_t n)
{
    if (c == UM_CLASS_I64 || c == UM_CLASS_U64) {
        narrow(um_dtype_bits(dtype), raw, src, n);
        return;
    }
    int64_t whole[UM_DTYPE_CHUNK];
    um_class_saturate(dtype, whole, c, src, n);
    narrow(um_dtype_bits(dtype), raw, whole, n);
}

/* n is at most a chunk. */
static void encode(um_dtype dtype, void *raw, um_class c, const void *src, int64_t n)
{
    if (dtype == UM_F64)
        um_class_convert(UM_CLASS_F64, raw, c, src, n);
    else if (dtype == UM_F32)
        um_class_convert(UM_CLASS_F32, raw, c, src, n);
    else if (um_dtype_is_float(dtype))
        encode_small(dtype, raw, c, src, n);
    else if (dtype == UM_BOOL)
        um_class_to_bool(raw, c, src, n);
    else
        encode_int(dtype, raw, c, src, n);
}

static void load_chunk(um_class c, void *dst, um_dtype dtype, const void *raw, int64_t n)
{
    um_class own = um_dtype_class(dtype);
    if (own == c) {
        decode(dtype, dst, raw, n);
        return;
    }
    um_class_chunk values;
    decode(dtype, &values, raw, n);
    um_class_convert(c, dst, own, &values, n);
}

void um_load(um_class c, void *dst, um_dtype dtype, const void *src, int64_t first, int64_t stride,
             int64_t n)
{
    int32_t bits = um_dtype_bits(dtype);
    bool packed = stride == 1 && bits >= 8;
    if (n == 0) return; /* src may be NULL then, which memcpy must not get */
    if (packed && um_dtype_class(dtype) == c) {
        decode(dtype, dst, (const char *)src + first * (bits / 8), n);
        return;
    }
    um_class_chunk gathered;
    for (int64_t i = 0; i < n; i += UM_DTYPE_CHUNK) {
        int64_t some = UM_MIN(n - i, UM_DTYPE_CHUNK), at = first + i * stride;
        const void *raw = packed ? (const void *)((const char *)src + at * (bits / 8)) : &gathered;
        if (!packed) gather(bits, &gathered, src, at, stride, some);
        load_chunk(c, (char *)dst + i * (int64_t)um_class_bytes(c), dtype, raw, some);
    }
}

void um_store(um_dtype dtype, void *dst, int64_t first, int64_t stride, um_class c, const void *src,
              int64_t n)
{
    int32_t bits = um_dtype_bits(dtype);
    bool packed = stride == 1 && bits >= 8;
    um_class_chunk encoded;
    for (int64_t i = 0; i < n; i += UM_DTYPE_CHUNK) {
        int64_t some = UM_MIN(n - i, UM_DTYPE_CHUNK), at = first + i * stride;
        void *raw = packed ? (void *)((char *)dst + at * (bits / 8)) : &encoded;
        encode(dtype, raw, c, (const char *)src + i * (int64_t)um_class_bytes(c), some);
        if (!packed) scatter(bits, dst, at, stride, raw, some);
    }
}
