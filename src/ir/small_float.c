/* ir/small_float.c: f32 to and from float types of at most 16 bits, as instructions on u32 and f32:
 * base/dtype_float.c said again in the IR, where the comments to the arithmetic are. */
#include "base/dtype.h"
#include "ir/expand.h"

enum { F32_INF = 0x7f800000, F32_NAN = 0x7fc00000, F32_QUIET = 0x400000, F32_SIGN = INT32_MIN };

/* The builder with the lanes of what is converted. */
typedef struct lanes {
    um_kernel *k;
    int32_t count;
} lanes;

static um_val u32(lanes l, uint32_t bits) { return um_k_bits(l.k, UM_U32, l.count, bits); }

static um_val as_u32(lanes l, um_val v) { return um_k_bitcast(l.k, UM_U32, l.count, v); }
static um_val as_f32(lanes l, um_val v) { return um_k_bitcast(l.k, UM_F32, l.count, v); }
static um_val f32(lanes l, uint32_t bits) { return as_f32(l, u32(l, bits)); }

/* ---- one format after another --------------------------------------------------------------- */

static um_val decode(lanes l, const um_float_format *f, um_val code)
{
    um_kernel *k = l.k;
    const uint32_t shift = 23 - f->man_bits, sign_bit = f->exp_bits + f->man_bits;
    um_val magnitude = um_k_and(k, code, u32(l, (1u << sign_bit) - 1));
    um_val sign = um_k_and(k, um_k_shl(k, code, u32(l, 31 - sign_bit)), u32(l, (uint32_t)F32_SIGN));
    um_val normal =
        um_k_add(k, um_k_shl(k, magnitude, u32(l, shift)), u32(l, (127 - f->bias) << 23));
    um_val smallest = f32(l, (128 - f->bias - f->man_bits) << 23);
    um_val tiny = as_u32(l, um_k_mul(k, um_k_convert(k, UM_F32, magnitude), smallest));
    um_val is_tiny = um_k_lt(k, magnitude, u32(l, 1u << f->man_bits));
    um_val bits = um_k_select(k, is_tiny, tiny, normal), special = u32(l, F32_NAN);
    if (f->over != f->max)
        special = um_k_select(k, um_k_eq(k, magnitude, u32(l, f->over)), u32(l, F32_INF), special);
    bits = um_k_select(k, um_k_gt(k, magnitude, u32(l, f->max)), special, bits);
    bits = um_k_or(k, bits, sign);
    if (f->minus_zero != UM_NO_CODE)
        bits = um_k_select(k, um_k_eq(k, code, u32(l, f->minus_zero)), u32(l, F32_NAN), bits);
    return as_f32(l, bits);
}

static um_val encode(lanes l, const um_float_format *f, um_val value)
{
    um_kernel *k = l.k;
    const uint32_t shift = 23 - f->man_bits, sign_bit = f->exp_bits + f->man_bits;
    const uint32_t rebias = (127 - f->bias) << 23, magic = (151 - f->bias - f->man_bits) << 23;
    um_val bits = as_u32(l, value), magnitude = um_k_and(k, bits, u32(l, INT32_MAX));
    um_val odd = um_k_and(k, um_k_shr(k, magnitude, u32(l, shift)), u32(l, 1));
    um_val half = um_k_add(k, u32(l, (1u << (shift - 1)) - 1 - rebias), odd);
    um_val normal = um_k_shr(k, um_k_add(k, magnitude, half), u32(l, shift));
    um_val sum = um_k_add(k, as_f32(l, magnitude), f32(l, magic));
    um_val tiny = um_k_sub(k, as_u32(l, sum), u32(l, magic));
    um_val is_tiny = um_k_lt(k, magnitude, u32(l, (128 - f->bias) << 23));
    um_val code = um_k_select(k, is_tiny, tiny, normal);
    code = um_k_select(k, um_k_gt(k, code, u32(l, f->max)), u32(l, f->over), code);
    um_val sign = um_k_shl(k, um_k_shr(k, bits, u32(l, 31)), u32(l, sign_bit));
    if (!f->keeps_zero_sign) sign = um_k_select(k, um_k_eq(k, code, u32(l, 0)), u32(l, 0), sign);
    um_val nan = f->keeps_nan_sign ? um_k_or(k, sign, u32(l, f->nan)) : u32(l, f->nan);
    um_val is_nan = um_k_gt(k, magnitude, u32(l, F32_INF));
    return um_k_select(k, is_nan, nan, um_k_or(k, code, sign));
}

static um_val bf16_encode(lanes l, um_val value)
{
    um_kernel *k = l.k;
    um_val bits = as_u32(l, value), sixteen = u32(l, 16);
    um_val odd = um_k_and(k, um_k_shr(k, bits, sixteen), u32(l, 1));
    um_val rounded = um_k_add(k, bits, um_k_add(k, odd, u32(l, 0x7fff)));
    um_val is_nan = um_k_gt(k, um_k_and(k, bits, u32(l, INT32_MAX)), u32(l, F32_INF));
    um_val nan = um_k_or(k, bits, u32(l, F32_QUIET));
    return um_k_shr(k, um_k_select(k, is_nan, nan, rounded), sixteen);
}

static um_val e8m0_decode(lanes l, um_val code)
{
    um_kernel *k = l.k;
    um_val bits = um_k_shl(k, code, u32(l, 23));
    bits = um_k_select(k, um_k_eq(k, code, u32(l, 0)), u32(l, F32_QUIET), bits);
    return as_f32(l, um_k_select(k, um_k_eq(k, code, u32(l, 255)), u32(l, F32_NAN), bits));
}

static um_val e8m0_encode(lanes l, um_val value)
{
    um_kernel *k = l.k;
    um_val bits = as_u32(l, value), magnitude = um_k_and(k, bits, u32(l, INT32_MAX));
    um_val code = um_k_shr(k, um_k_add(k, magnitude, u32(l, 0x400000)), u32(l, 23));
    code = um_k_min(k, code, u32(l, 254));
    um_val tiny = um_k_select(k, um_k_ge(k, magnitude, u32(l, 0x600000)), u32(l, 1), u32(l, 0));
    code = um_k_select(k, um_k_lt(k, magnitude, u32(l, 0x800000)), tiny, code);
    code = um_k_select(k, um_k_gt(k, bits, u32(l, INT32_MAX)), u32(l, 0), code);
    return um_k_select(k, um_k_ge(k, magnitude, u32(l, F32_INF)), u32(l, 255), code);
}

/* ---- by dtype ------------------------------------------------------------------------------- */

um_val um_expand_narrow(um_kernel *k, um_dtype dtype, um_val value)
{
    lanes l = {k, um_val_type(k, value).lanes};
    if (dtype == UM_BF16) return bf16_encode(l, value);
    if (dtype == UM_F8E8M0) return e8m0_encode(l, value);
    return encode(l, um_dtype_float_format(dtype), value);
}

/* A signalling bf16 NaN stays one, until something is computed from it. */
um_val um_expand_widen(um_kernel *k, um_dtype dtype, um_val bits)
{
    lanes l = {k, um_val_type(k, bits).lanes};
    if (dtype == UM_BF16) return as_f32(l, um_k_shl(k, bits, u32(l, 16)));
    if (dtype == UM_F8E8M0) return e8m0_decode(l, bits);
    return decode(l, um_dtype_float_format(dtype), bits);
}
