/* ir/math_verbs.h: the short words that ir/math.c is written in, for f32 of any lanes and f64 of
 * one.
 */
#ifndef UM_IR_MATH_VERBS_H
#define UM_IR_MATH_VERBS_H

#include "ir/ir.h"

#define ADD(a, b)       um_k_add(k, (a), (b))
#define SUB(a, b)       um_k_sub(k, (a), (b))
#define MUL(a, b)       um_k_mul(k, (a), (b))
#define DIV(a, b)       um_k_div(k, (a), (b))
#define FMA(a, b, c)    um_k_fma(k, (a), (b), (c))
#define SELECT(c, a, b) um_k_select(k, (c), (a), (b))
#define NUM(value)      number(k, x, (value))
#define WORD(bits)      word(k, x, (bits))
/* One of math.def. */
#define POLY(t, name) um_k_polynomial(k, POLY_##name, (t))
/* Of f32, and of f64. */
#define OF(narrow, wide) NUM(is_wide(k, x) ? (wide) : (narrow))

enum {
#define UM_POLY(name, narrow, wide, doc) POLY_##name,
#include "ir/math.def"
};
um_val um_k_polynomial(um_kernel *k, int32_t which, um_val t); /* math.c */

/* A constant of as many lanes as `like` has. */
static inline um_val constant(um_kernel *k, um_val like, um_dtype dtype, uint64_t bits)
{
    return um_k_bits(k, dtype, like < k->inst_count ? um_val_type(k, like).lanes : 1, bits);
}

static inline bool is_wide(const um_kernel *k, um_val x)
{
    return x < k->inst_count && um_val_type(k, x).dtype == UM_F64;
}

/* Of f64 where `like` is, else of f32. */
static inline um_val number(um_kernel *k, um_val like, double value)
{
    int32_t lanes = like < k->inst_count ? um_val_type(k, like).lanes : 1;
    return um_k_number(k, is_wide(k, like) ? UM_F64 : UM_F32, lanes, value);
}

static inline um_val word(um_kernel *k, um_val like, uint32_t bits)
{
    return constant(k, like, UM_U32, bits);
}

static inline int32_t lanes_of(const um_kernel *k, um_val v) { return um_val_type(k, v).lanes; }

/* Of f64 the upper word: what has it there has one lane. */
static inline um_val to_bits(um_kernel *k, um_val x)
{
    if (is_wide(k, x)) return um_k_extract(k, um_k_bitcast(k, UM_U32, 2, x), 1);
    return um_k_bitcast(k, UM_U32, lanes_of(k, x), x);
}
static inline um_val from_bits(um_kernel *k, um_val x)
{
    return um_k_bitcast(k, UM_F32, lanes_of(k, x), x);
}

/* x with other upper bits; below them are `low`, or zeros. */
static inline um_val with_bits(um_kernel *k, um_val x, um_val bits, bool keeps_low)
{
    if (!is_wide(k, x)) return from_bits(k, bits);
    um_val low = um_k_u32(k, 0);
    if (keeps_low) low = um_k_extract(k, um_k_bitcast(k, UM_U32, 2, x), 0);
    return um_k_bitcast(k, UM_F64, 1, um_k_vector(k, 2, (um_val[]){low, bits}));
}

/* x kept between low and high; NaN stays NaN. */
static inline um_val limit(um_kernel *k, um_val x, double low, double high)
{
    x = SELECT(um_k_gt(k, x, NUM(high)), NUM(high), x);
    return SELECT(um_k_lt(k, x, NUM(low)), NUM(low), x);
}

static inline um_val copysign_of(um_kernel *k, um_val x, um_val sign)
{
    um_val magnitude = um_k_and(k, to_bits(k, x), WORD(0x7fffffff));
    um_val top = um_k_and(k, to_bits(k, sign), WORD(0x80000000));
    return with_bits(k, x, um_k_or(k, magnitude, top), true);
}

/* The upper 12 bits of the significand, or 21 of f64, so that products of two are exact. */
static inline um_val head_of(um_kernel *k, um_val x)
{
    um_val bits = to_bits(k, x);
    if (!is_wide(k, x)) bits = um_k_and(k, bits, WORD(0xfffff000));
    return with_bits(k, x, bits, false);
}

#endif
