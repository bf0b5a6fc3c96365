/* op/move.h: what copy makes of numbers that are too large, for its kernels. Made by move.c. */
#ifndef UM_OP_MOVE_H
#define UM_OP_MOVE_H

#include "op/table.h"

/* Where a rule for what is too large differs from the conversion's own: |x| >= at becomes `at`
 * itself (SATURATE) or NaN (SPECIAL). Half way between the largest and what would follow it, ties
 * go to even: upwards but for f8e4m3fn. */
typedef struct um_limit {
    um_dtype dtype;
    um_overflow rule;
    double at;
} um_limit;

/* NULL: none. */
const um_limit *um_limit_find(um_overflow rule, um_dtype to, um_dtype from);

#endif
