/* backend/cpu/kernel/fold.h: folding many values of one class into one, the inner loops of
 * reduce.c. fold_f32.c, fold_f64.c and fold_int.c define them. */
#ifndef UM_CPU_FOLD_H
#define UM_CPU_FOLD_H

#include "backend/cpu/kernel/simd.h"

/* What is done to each value, and how they come together. s is a shift or scale the caller gives.
 */
typedef enum um_fold {
    UM_FOLD_SUM,    /* x */
    UM_FOLD_ABS,    /* |x| */
    UM_FOLD_SQUARE, /* x^2 */
    UM_FOLD_SCALED, /* (x / s)^2 */
    UM_FOLD_GAP,    /* x - s */
    UM_FOLD_GAP2,   /* (x - s)^2 */
    UM_FOLD_EXP,    /* e^(x - s) */
    UM_FOLD_PROD,
    UM_FOLD_MAX, /* NaN if any is, +0 larger than -0 */
    UM_FOLD_MIN,
    UM_FOLD_MAX_ABS,
    UM_FOLD_ANY, /* x != 0, largest */
    UM_FOLD_ALL  /* x != 0, smallest */
} um_fold;

/* How results of the fold come together. */
static inline um_fold um_fold_join(um_fold fold)
{
    if (fold <= UM_FOLD_EXP) return UM_FOLD_SUM;
    if (fold == UM_FOLD_MAX_ABS || fold == UM_FOLD_ANY) return UM_FOLD_MAX;
    return fold == UM_FOLD_ALL ? UM_FOLD_MIN : fold;
}

enum { UM_FOLD_ROWS = 8 };

/* Pointers are to values of the class, packed. Integers have SUM, ABS, PROD, MAX, MIN, ANY and ALL.
 */
typedef struct um_fold_loops {
    /* result[0 .. n-1] = the fold of nothing. */
    void (*clear)(um_fold fold, void *result, int64_t n);
    /* result[i] = result[i] folded with x[i] under shift[i], for i < n. */
    void (*across)(um_fold fold, void *result, const void *x, const void *shift, int64_t n);
    /* The same with UM_FOLD_ROWS rows of x at once, `step` values apart, folded by pairs first.
     * NULL: there is no such. */
    void (*across_rows)(um_fold fold, void *result, const void *x, int64_t step, const void *shift,
                        int64_t n);
    /* *result = the fold of x[0 .. n-1] under *shift, in one fixed order: at most n / 32 + 8
     * roundings deep. */
    void (*along)(um_fold fold, void *result, const void *x, const void *shift, int64_t n);
    /* best[i], index[i] = x[i], at where x[i] is better, for i < n. Better: larger (smaller if
     * !largest), or the first NaN. */
    void (*pick_across)(bool largest, void *best, int64_t *index, const void *x, int64_t at,
                        int64_t n);
    /* The same for one best and x[i] at first + i. */
    void (*pick_along)(bool largest, void *best, int64_t *index, const void *x, int64_t first,
                       int64_t n);
} um_fold_loops;

extern const um_fold_loops UM_ISA_FN(um_fold_f32);
extern const um_fold_loops UM_ISA_FN(um_fold_f64);
extern const um_fold_loops UM_ISA_FN(um_fold_i64);
extern const um_fold_loops UM_ISA_FN(um_fold_u64);

#endif
