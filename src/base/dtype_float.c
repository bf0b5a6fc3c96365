/* base/dtype_float.c: floats of at most 16 bits, to and from f32. One decoder and one encoder, in
 * integer arithmetic without branches, take every format but bf16 (a cut f32) and e8m0 (a bare
 * exponent). Called by dtype_load.c. */
#include "base/dtype.h"

#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

enum { F32_INF = 0x7f800000, F32_NAN = 0x7fc00000, NO_CODE = UM_NO_CODE };

typedef um_float_format format;

/* Sources in umbel/dtype.def. NaN becomes +max where a type has none, as in OCP MX hardware. */
static const format f16_format = {5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true, true, NO_CODE};

static const format formats[] = {
    [UM_F8E4M3FN] = {4, 3, 7, 0x7e, 0x7e, 0x7f, true, true, NO_CODE},
    [UM_F8E4M3FNUZ] = {4, 3, 8, 0x7f, 0x7f, 0x80, false, false, 0x80},
    [UM_F8E5M2] = {5, 2, 15, 0x7b, 0x7c, 0x7e, true, true, NO_CODE},
    [UM_F8E5M2FNUZ] = {5, 2, 16, 0x7f, 0x7f, 0x80, false, false, 0x80},
    [UM_F4E2M1] = {2, 1, 1, 0x07, 0x07, 0x07, true, false, NO_CODE},
    [UM_F6E2M3] = {2, 3, 1, 0x1f, 0x1f, 0x1f, true, false, NO_CODE},
    [UM_F6E3M2] = {3, 2, 3, 0x1f, 0x1f, 0x1f, true, false, NO_CODE},
};

const um_float_format *um_dtype_float_format(um_dtype dtype)
{
    if (dtype == UM_F16) return &f16_format;
    bool has = dtype >= 0 && dtype < (um_dtype)UM_COUNT_OF(formats) && formats[dtype].exp_bits;
    return has ? &formats[dtype] : NULL;
}

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Normal numbers only need their exponent moved; a subnormal is its mantissa times the smallest
 * one, exact because f32 reaches far lower. */
static ALWAYS_INLINE float decode(const format *f, uint32_t code)
{
    const uint32_t shift = 23 - f->man_bits, sign_bit = f->exp_bits + f->man_bits;
    const uint32_t rebias = (127 - f->bias) << 23, min_normal = 1u << f->man_bits;
    const float smallest = bits_float((128 - f->bias - f->man_bits) << 23);
    uint32_t magnitude = code & ((1u << sign_bit) - 1);
    uint32_t sign = (code >> sign_bit & 1) << 31;
    uint32_t normal = (magnitude << shift) + rebias;
    uint32_t subnormal = float_bits((float)(int32_t)magnitude * smallest);
    uint32_t special = f->over != f->max && magnitude == f->over ? F32_INF : F32_NAN;
    uint32_t bits = magnitude < min_normal ? subnormal : normal;
    bits = magnitude > f->max ? special : bits;
    return bits_float(code == f->minus_zero ? F32_NAN : bits | sign);
}

/* Normal: the exponent moved, half an ulp (less one when the last kept bit is 0: ties to even)
 * added, and the rest cut; a carry moves into the exponent as it should. Subnormal: adding a power
 * of two whose ulp is the smallest subnormal makes the hardware round there. */
static ALWAYS_INLINE uint32_t encode(const format *f, float value)
{
    const uint32_t shift = 23 - f->man_bits, sign_bit = f->exp_bits + f->man_bits;
    const uint32_t rebias = (127 - f->bias) << 23, min_normal = (128 - f->bias) << 23;
    const uint32_t magic = (151 - f->bias - f->man_bits) << 23;
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
    uint32_t half = (1u << (shift - 1)) - 1 + (magnitude >> shift & 1);
    uint32_t normal = (magnitude - rebias + half) >> shift;
    uint32_t subnormal = float_bits(bits_float(magnitude) + bits_float(magic)) - magic;
    uint32_t code = magnitude < min_normal ? subnormal : normal;
    code = code > f->max ? f->over : code;
    uint32_t sign = bits >> 31 << sign_bit;
    sign = f->keeps_zero_sign || code != 0 ? sign : 0;
    uint32_t nan = f->keeps_nan_sign ? f->nan | sign : f->nan;
    return magnitude > F32_INF ? nan : code | sign;
}

float um_f16_to_f32(uint16_t bits) { return decode(&f16_format, bits); }

uint16_t um_f32_to_f16(float value) { return (uint16_t)encode(&f16_format, value); }

/* A signalling NaN becomes a quiet one. */
static ALWAYS_INLINE float bf16_decode(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    return bits_float((bits & 0x7fffffff) > F32_INF ? bits | 0x400000 : bits);
}

static ALWAYS_INLINE uint16_t bf16_encode(float value)
{
    uint32_t bits = float_bits(value), rounded = bits + 0x7fff + (bits >> 16 & 1);
    rounded = (bits & 0x7fffffff) > F32_INF ? bits | 0x400000 : rounded;
    return (uint16_t)(rounded >> 16);
}

float um_bf16_to_f32(uint16_t bits) { return bf16_decode(bits); }

uint16_t um_f32_to_bf16(float value) { return bf16_encode(value); }

/* 2^(code - 127); 255 is NaN. The lowest is a subnormal of f32. */
static float e8m0_decode(uint8_t code)
{
    return bits_float(code == 0 ? 0x400000u : code == 255 ? F32_NAN : (uint32_t)code << 23);
}

/* Halfway between two powers of two is a mantissa of 1.5. Above the largest stays the largest. */
static uint8_t e8m0_encode(float value)
{
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
    if (magnitude >= F32_INF) return 255;
    if (bits >> 31) return 0;
    if (magnitude < 0x800000) return magnitude >= 0x600000;
    uint32_t code = (magnitude + 0x400000) >> 23;
    return (uint8_t)UM_MIN(code, 254);
}

static void decode_f16(float *restrict dst, const void *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t code;
        memcpy(&code, (const char *)raw + 2 * i, 2);
        dst[i] = decode(&f16_format, code);
    }
}

static void encode_f16(void *restrict raw, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t code = (uint16_t)encode(&f16_format, src[i]);
        memcpy((char *)raw + 2 * i, &code, 2);
    }
}

static void decode_bf16(float *restrict dst, const void *restrict raw, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t code;
        memcpy(&code, (const char *)raw + 2 * i, 2);
        dst[i] = bf16_decode(code);
    }
}

static void encode_bf16(void *restrict raw, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t code = bf16_encode(src[i]);
        memcpy((char *)raw + 2 * i, &code, 2);
    }
}

void um_small_decode(um_dtype dtype, float *restrict dst, const void *restrict raw, int64_t n)
{
    const uint8_t *restrict codes = raw;
    if (dtype == UM_F16) {
        decode_f16(dst, raw, n);
    } else if (dtype == UM_BF16) {
        decode_bf16(dst, raw, n);
    } else if (dtype == UM_F8E8M0) {
        for (int64_t i = 0; i < n; i++) dst[i] = e8m0_decode(codes[i]);
    } else {
        const format f = formats[dtype];
        for (int64_t i = 0; i < n; i++) dst[i] = decode(&f, codes[i]);
    }
}

void um_small_encode(um_dtype dtype, void *restrict raw, const float *restrict src, int64_t n)
{
    uint8_t *restrict codes = raw;
    if (dtype == UM_F16) {
        encode_f16(raw, src, n);
    } else if (dtype == UM_BF16) {
        encode_bf16(raw, src, n);
    } else if (dtype == UM_F8E8M0) {
        for (int64_t i = 0; i < n; i++) codes[i] = e8m0_encode(src[i]);
    } else {
        const format f = formats[dtype];
        for (int64_t i = 0; i < n; i++) codes[i] = (uint8_t)encode(&f, src[i]);
    }
}
