/* tensor/promote.c: which dtype two operands meet in. Called by ops.c, move.c and layers.c. */
#include "tensor/tensor.h"

static um_dtype promote_floats(um_dtype a, um_dtype b)
{
    if (a == UM_F64 || b == UM_F64) return UM_F64;
    return UM_F32; /* f32 with a narrower one, or f16 with bf16: neither holds the other */
}

static um_dtype promote_ints(um_dtype a, um_dtype b)
{
    int32_t a_bits = um_dtype_bits(a), b_bits = um_dtype_bits(b);
    if (um_dtype_get_kind(a) == um_dtype_get_kind(b)) return a_bits >= b_bits ? a : b;
    bool a_signed = um_dtype_get_kind(a) == UM_KIND_INT;
    int32_t signed_bits = a_signed ? a_bits : b_bits;
    int32_t unsigned_bits = a_signed ? b_bits : a_bits;
    int32_t bits = signed_bits > unsigned_bits ? signed_bits : 2 * unsigned_bits;
    switch (bits) {
    case 16: return UM_I16;
    case 32: return UM_I32;
    case 64: return UM_I64;
    default: return UM_DTYPE_NONE; /* u64 with a signed one */
    }
}

static bool is_int(um_dtype d)
{
    return um_dtype_get_kind(d) == UM_KIND_INT || um_dtype_get_kind(d) == UM_KIND_UINT;
}

um_status um_promote(const char *who, um_dtype a, um_dtype b, um_dtype *out)
{
    *out = UM_DTYPE_NONE;
    if (a == b)
        *out = a;
    else if ((UM_DTYPES_F & UM_BIT(a)) && (UM_DTYPES_F & UM_BIT(b)))
        *out = promote_floats(a, b);
    else if (is_int(a) && is_int(b))
        *out = promote_ints(a, b);
    if (*out) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "%s: no common dtype for %s and %s; convert one of them with um_cast", who,
                   um_dtype_name(a), um_dtype_name(b));
}
