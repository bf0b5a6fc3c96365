/* ir/math.h: mathematical functions as arithmetic of the IR, within CONTRACT.md's bounds on any
 * target whose add, sub, mul, div and sqrt are IEEE's: none of them needs an fma that rounds once.
 */
#ifndef UM_IR_MATH_H
#define UM_IR_MATH_H

#include "ir/ir.h"

/* Opcodes EXP to ATAN2. */
bool um_kop_is_math(um_kop op);
/* The function of a (and b: pow, atan2) of any lanes, f32 or f64, appended to k. */
um_val um_k_math(um_kernel *k, um_kop op, um_val a, um_val b);

/* math_angle.c: those it is made of; of f64, sine and tangent of one lane. */
um_val um_k_sin_of(um_kernel *k, um_val x);
um_val um_k_cos_of(um_kernel *k, um_val x);
um_val um_k_tan_of(um_kernel *k, um_val x);
um_val um_k_asin_of(um_kernel *k, um_val x);
um_val um_k_acos_of(um_kernel *k, um_val x);
um_val um_k_atan_of(um_kernel *k, um_val x);
um_val um_k_atan2_of(um_kernel *k, um_val y, um_val x);

/* a + b, and what its rounding lost: Knuth. */
um_val um_k_sum(um_kernel *k, um_val a, um_val b, um_val *lost);
/* Parts of them that other functions are made of, of f32, and of f64 of one lane. a b, and what its
 * rounding lost. */
um_val um_k_product(um_kernel *k, um_val a, um_val b, um_val *lost);
/* e^(x + low), x within -104 .. 89, of f64 -750 .. 710. */
um_val um_k_exp_of_sum(um_kernel *k, um_val x, um_val low);
/* e^(a^2/2) times the normal distribution's tail beyond a, 0 <= a <= 14.6, of f64 39. */
um_val um_k_normal_tail(um_kernel *k, um_val a);

#endif
