/* backend/cpu/kernel/fold_int_body.h: fold.h for integers and bool. Included by fold_int.c for
 * int64_t and uint64_t, with INT, NAME(fn) (fn ending in the type's name), LOWEST, HIGHEST, ABS(x)
 * and LOOPS (the table to define). Sums and products wrap, and plain loops over them vectorise:
 * their order does not matter. */

static INT NAME(empty_fold)(um_fold fold)
{
    if (fold == UM_FOLD_PROD || fold == UM_FOLD_ALL) return 1;
    if (fold == UM_FOLD_MAX) return LOWEST;
    return fold == UM_FOLD_MIN ? HIGHEST : 0;
}

static void NAME(clear)(um_fold fold, void *result, int64_t n)
{
    INT *to = result, empty = NAME(empty_fold)(fold);
    for (int64_t i = 0; i < n; i++) to[i] = empty;
}

UM_INLINE INT NAME(add)(INT a, INT x) { return (INT)((uint64_t)a + (uint64_t)x); }
UM_INLINE INT NAME(add_abs)(INT a, INT x) { return NAME(add)(a, ABS(x)); }
UM_INLINE INT NAME(multiply)(INT a, INT x) { return (INT)((uint64_t)a * (uint64_t)x); }
UM_INLINE INT NAME(larger)(INT a, INT x) { return x > a ? x : a; }
UM_INLINE INT NAME(smaller)(INT a, INT x) { return x < a ? x : a; }
UM_INLINE INT NAME(any)(INT a, INT x) { return a | (x != 0); }
UM_INLINE INT NAME(all)(INT a, INT x) { return a & (x != 0); }

UM_INLINE void NAME(fold_across)(INT *result, const INT *x, int64_t n, INT (*fn)(INT, INT))
{
    for (int64_t i = 0; i < n; i++) result[i] = fn(result[i], x[i]);
}
UM_INLINE INT NAME(fold_along)(INT result, const INT *x, int64_t n, INT (*fn)(INT, INT))
{
    for (int64_t i = 0; i < n; i++) result = fn(result, x[i]);
    return result;
}

#define FOLD_SWITCH(fold, LOOP)                                                                    \
    switch (fold) {                                                                                \
    case UM_FOLD_SUM: LOOP(NAME(add)); break;                                                      \
    case UM_FOLD_ABS: LOOP(NAME(add_abs)); break;                                                  \
    case UM_FOLD_PROD: LOOP(NAME(multiply)); break;                                                \
    case UM_FOLD_MAX: LOOP(NAME(larger)); break;                                                   \
    case UM_FOLD_MIN: LOOP(NAME(smaller)); break;                                                  \
    case UM_FOLD_ANY: LOOP(NAME(any)); break;                                                      \
    case UM_FOLD_ALL: LOOP(NAME(all)); break;                                                      \
    case UM_FOLD_SQUARE:                                                                           \
    case UM_FOLD_SCALED:                                                                           \
    case UM_FOLD_GAP:                                                                              \
    case UM_FOLD_GAP2:                                                                             \
    case UM_FOLD_EXP:                                                                              \
    case UM_FOLD_MAX_ABS: break; /* of floats only */                                              \
    }

static void NAME(across)(um_fold fold, void *result, const void *x, const void *shift, int64_t n)
{
    (void)shift;
#define LOOP_ACROSS(fn) NAME(fold_across)(result, x, n, fn)
    FOLD_SWITCH(fold, LOOP_ACROSS)
}

static void NAME(along)(um_fold fold, void *result, const void *x, const void *shift, int64_t n)
{
    (void)shift;
    INT y = NAME(empty_fold)(fold);
#define LOOP_ALONG(fn) y = NAME(fold_along)(y, x, n, fn)
    FOLD_SWITCH(fold, LOOP_ALONG)
    *(INT *)result = y;
}

static void NAME(pick_across)(bool largest, void *best, int64_t *index, const void *x, int64_t at,
                              int64_t n)
{
    INT *top = best;
    const INT *from = x;
    for (int64_t i = 0; i < n; i++) {
        if (largest ? from[i] <= top[i] : from[i] >= top[i]) continue;
        top[i] = from[i];
        index[i] = at;
    }
}

static void NAME(pick_along)(bool largest, void *best, int64_t *index, const void *x, int64_t first,
                             int64_t n)
{
    const INT *from = x;
    for (int64_t i = 0; i < n; i++) NAME(pick_across)(largest, best, index, from + i, first + i, 1);
}

const um_fold_loops LOOPS = {NAME(clear), NAME(across),      NULL,
                             NAME(along), NAME(pick_across), NAME(pick_along)};

#undef FOLD_SWITCH
#undef LOOP_ACROSS
#undef LOOP_ALONG
#undef INT
#undef NAME
#undef LOWEST
#undef HIGHEST
#undef ABS
#undef LOOPS
