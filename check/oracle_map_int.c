/* check/oracle_map_int.c: elementwise ops on integers and bools, exactly. Work is done on the
 * 64-bit pattern and kept modulo 2^bits at the end.
 */
#include "check/oracle.h"

static int compare(um_dtype dtype, um_num a, um_num b)
{
    if (dtype == UM_U64) return (a.u > b.u) - (a.u < b.u);
    return (a.i > b.i) - (a.i < b.i);
}

static bool is_negative(um_dtype dtype, um_num a) { return dtype != UM_U64 && a.i < 0; }

static uint64_t magnitude(um_dtype dtype, um_num a)
{
    return is_negative(dtype, a) ? 0 - a.u : a.u;
}

/* Quotient and remainder that truncate; of a division by 0 both are 0. */
static void divide(um_dtype dtype, um_num a, um_num b, uint64_t *quotient, uint64_t *rest)
{
    *quotient = *rest = 0;
    if (b.u == 0) return;
    uint64_t top = magnitude(dtype, a), bottom = magnitude(dtype, b);
    *quotient = top / bottom;
    *rest = top % bottom;
    if (is_negative(dtype, a) != is_negative(dtype, b)) *quotient = 0 - *quotient;
    if (is_negative(dtype, a)) *rest = 0 - *rest;
}

static uint64_t power(um_dtype dtype, um_num base, um_num exponent)
{
    if (is_negative(dtype, exponent)) {
        if (base.u == 1) return 1;
        if (base.i == -1 && dtype != UM_U64) return exponent.u & 1 ? base.u : 1;
        return 0;
    }
    uint64_t result = 1;
    for (uint64_t bit = (uint64_t)1 << 63; bit; bit >>= 1) {
        result *= result;
        if (exponent.u & bit) result *= base.u;
    }
    return result;
}

static uint64_t shift(um_dtype dtype, um_num a, um_num b, bool left)
{
    int32_t width = um_oracle_bits(dtype);
    bool outside = is_negative(dtype, b) || b.u >= (uint64_t)width;
    if (left) return outside ? 0 : a.u << b.u;
    uint64_t ones = is_negative(dtype, a) ? ~(uint64_t)0 : 0;
    if (outside) return ones;
    return a.u >> b.u | (b.u ? ones << (64 - b.u) : 0);
}

static uint64_t remainder_of(um_dtype dtype, um_num a, um_num b)
{
    uint64_t quotient, rest;
    divide(dtype, a, b, &quotient, &rest);
    if (rest && is_negative(dtype, a) != is_negative(dtype, b)) rest += b.u;
    return rest;
}

static uint64_t unary(um_op_id op, um_dtype dtype, um_num x)
{
    switch (op) {
    case UM_OP_NEG: return 0 - x.u;
    case UM_OP_ABS: return magnitude(dtype, x);
    case UM_OP_SIGN: return is_negative(dtype, x) ? ~(uint64_t)0 : x.u != 0;
    case UM_OP_SQUARE: return x.u * x.u;
    case UM_OP_RELU: return is_negative(dtype, x) ? 0 : x.u;
    case UM_OP_LOGICAL_NOT: return x.u == 0;
    case UM_OP_BITWISE_NOT: return ~x.u;
    case UM_OP_ISNAN:
    case UM_OP_ISINF: return 0;
    default: return x.u; /* floor, ceil, trunc, round */
    }
}

static uint64_t binary(um_op_id op, um_dtype dtype, um_num a, um_num b)
{
    uint64_t quotient, rest;
    int order = compare(dtype, a, b);
    divide(dtype, a, b, &quotient, &rest);
    switch (op) {
    case UM_OP_ADD: return a.u + b.u;
    case UM_OP_SUB: return a.u - b.u;
    case UM_OP_MUL: return a.u * b.u;
    case UM_OP_DIV: return quotient;
    case UM_OP_FMOD: return rest;
    case UM_OP_REMAINDER: return remainder_of(dtype, a, b);
    case UM_OP_MAX: return order > 0 ? a.u : b.u;
    case UM_OP_MIN: return order < 0 ? a.u : b.u;
    case UM_OP_POW: return power(dtype, a, b);
    case UM_OP_EQ: return order == 0;
    case UM_OP_NE: return order != 0;
    case UM_OP_LT: return order < 0;
    case UM_OP_LE: return order <= 0;
    case UM_OP_GT: return order > 0;
    case UM_OP_GE: return order >= 0;
    case UM_OP_LOGICAL_AND: return a.u != 0 && b.u != 0;
    case UM_OP_LOGICAL_OR: return a.u != 0 || b.u != 0;
    case UM_OP_LOGICAL_XOR: return (a.u != 0) != (b.u != 0);
    case UM_OP_BITWISE_AND: return a.u & b.u;
    case UM_OP_BITWISE_OR: return a.u | b.u;
    case UM_OP_BITWISE_XOR: return a.u ^ b.u;
    default: return shift(dtype, a, b, op == UM_OP_SHIFT_LEFT);
    }
}

static uint64_t ternary(um_op_id op, um_dtype dtype, const um_num *x)
{
    if (op == UM_OP_WHERE) return x[0].u ? x[1].u : x[2].u;
    if (op == UM_OP_FMA) return x[0].u * x[1].u + x[2].u;
    um_num low = compare(dtype, x[0], x[1]) > 0 ? x[0] : x[1];
    return compare(dtype, low, x[2]) < 0 ? low.u : x[2].u;
}

um_num um_oracle_map_int(um_op_id op, um_dtype dtype, const um_num *x)
{
    uint64_t bits = 0;
    switch (um_oracle_map_arity(op)) {
    case 1: bits = unary(op, dtype, x[0]); break;
    case 2: bits = binary(op, dtype, x[0], x[1]); break;
    case 3: bits = ternary(op, dtype, x); break;
    }
    return um_oracle_map_is_test(op) ? (um_num){.u = bits} : um_oracle_wrap(dtype, bits);
}
