/* ir/math.h: mathematical functions as f32 arithmetic of the IR, within CONTRACT.md's bounds on any
 * target whose add, sub, mul, div and sqrt are IEEE's: none of them needs an fma that rounds once.
 */
#ifndef UM_IR_MATH_H
#define UM_IR_MATH_H

#include "ir/ir.h"

/* Opcodes EXP to ATAN2. */
bool um_kop_is_math(um_kop op);
/* The function of a (and b: pow, atan2), f32 of any lanes, appended to k. */
um_val um_k_math(um_kernel *k, um_kop op, um_val a, um_val b);

/* Parts of them that other functions are made of, of f32. a b, and what its rounding lost. */
um_val um_k_product(um_kernel *k, um_val a, um_val b, um_val *lost);
/* e^(x + low), x within -104 .. 89. */
um_val um_k_exp_of_sum(um_kernel *k, um_val x, um_val low);
/* e^(a^2/2) times the normal distribution's tail beyond a, 0 <= a <= 14.6. */
um_val um_k_normal_tail(um_kernel *k, um_val a);

#endif
