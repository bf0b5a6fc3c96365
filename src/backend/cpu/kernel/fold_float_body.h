/* backend/cpu/kernel/fold_float_body.h: fold.h for floats. Included by fold_f32.c and fold_f64.c,
 * which define FS, FV, UV, IV (scalar and its vectors: float, unsigned, signed), LANES, F(fn)
 * (vf32_fn or vf64_fn) and LOOPS (the table to define). */

typedef FV (*step_fn)(FV x, FV shift);
typedef FV (*join_fn)(FV a, FV b);

UM_INLINE FV step_plain(FV x, FV shift) { return (void)shift, x; }
UM_INLINE FV step_abs(FV x, FV shift) { return (void)shift, F(abs)(x); }
UM_INLINE FV step_square(FV x, FV shift) { return (void)shift, x * x; }
UM_INLINE FV step_scaled(FV x, FV shift) { return (x / shift) * (x / shift); }
UM_INLINE FV step_gap(FV x, FV shift) { return x - shift; }
UM_INLINE FV step_gap2(FV x, FV shift) { return (x - shift) * (x - shift); }
UM_INLINE FV step_exp(FV x, FV shift) { return F(exp)(x - shift); }
UM_INLINE FV step_truth(FV x, FV shift) { return (void)shift, (FV)((UV)(x != 0) & (UV)F(set)(1)); }

UM_INLINE FV join_sum(FV a, FV b) { return a + b; }
UM_INLINE FV join_prod(FV a, FV b) { return a * b; }
UM_INLINE FV join_max(FV a, FV b) { return F(max)(a, b); }
UM_INLINE FV join_min(FV a, FV b) { return F(min)(a, b); }

static FS empty_fold(um_fold fold)
{
    switch (fold) {
    case UM_FOLD_SUM:
    case UM_FOLD_ABS:
    case UM_FOLD_SQUARE:
    case UM_FOLD_SCALED:
    case UM_FOLD_GAP:
    case UM_FOLD_GAP2:
    case UM_FOLD_EXP:
    case UM_FOLD_MAX_ABS:
    case UM_FOLD_ANY: return 0;
    case UM_FOLD_PROD:
    case UM_FOLD_ALL: return 1;
    case UM_FOLD_MAX: return -(FS)INFINITY;
    case UM_FOLD_MIN: return (FS)INFINITY;
    }
    return 0;
}

static void clear(um_fold fold, void *result, int64_t n)
{
    FS *to = result, empty = empty_fold(fold);
    for (int64_t i = 0; i < n; i++) to[i] = empty;
}

/* The first n lanes, n < LANES. */
UM_INLINE FV load_first(const FS *x, int64_t n)
{
    FS lanes[LANES] = {0};
    memcpy(lanes, x, (size_t)n * sizeof(FS));
    return F(load)(lanes);
}
UM_INLINE IV first_lanes(int64_t n)
{
    IV mask;
    for (int i = 0; i < LANES; i++) mask[i] = i < n ? -1 : 0;
    return mask;
}

UM_INLINE void fold_across(FS *result, const FS *x, const FS *shift, int64_t n, step_fn step,
                           join_fn join)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        FV s = shift ? F(load)(shift + i) : F(set)(0);
        F(store)(result + i, join(F(load)(result + i), step(F(load)(x + i), s)));
    }
    if (i == n) return;
    FV s = shift ? load_first(shift + i, n - i) : F(set)(0);
    FS lanes[LANES];
    F(store)(lanes, join(load_first(result + i, n - i), step(load_first(x + i, n - i), s)));
    memcpy(result + i, lanes, (size_t)(n - i) * sizeof(FS));
}

/* The rows' vectors at x as one; n < LANES: only the first n lanes. */
UM_INLINE FV join_rows(const FS *x, int64_t row, FV s, int64_t n, step_fn step, join_fn join)
{
    FV v[UM_FOLD_ROWS];
    for (int64_t r = 0; r < UM_FOLD_ROWS; r++)
        v[r] = step(n < LANES ? load_first(x + r * row, n) : F(load)(x + r * row), s);
    for (int64_t half = UM_FOLD_ROWS / 2; half > 0; half /= 2)
        for (int64_t r = 0; r < half; r++) v[r] = join(v[r], v[r + half]);
    return v[0];
}

UM_INLINE void fold_rows(FS *result, const FS *x, int64_t row, const FS *shift, int64_t n,
                         step_fn step, join_fn join)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        FV s = shift ? F(load)(shift + i) : F(set)(0);
        F(store)
        (result + i, join(F(load)(result + i), join_rows(x + i, row, s, LANES, step, join)));
    }
    if (i == n) return;
    FV s = shift ? load_first(shift + i, n - i) : F(set)(0);
    FS lanes[LANES];
    F(store)
    (lanes, join(load_first(result + i, n - i), join_rows(x + i, row, s, n - i, step, join)));
    memcpy(result + i, lanes, (size_t)(n - i) * sizeof(FS));
}

/* Lanes by halves. */
UM_INLINE FS join_lanes(FV v, join_fn join)
{
    FS lanes[2 * LANES] = {0};
    for (int half = LANES / 2; half > 0; half /= 2) {
        F(store)(lanes, v);
        v = join(v, F(load)(lanes + half));
    }
    return v[0];
}

/* Four vectors side by side. */
UM_INLINE FS fold_along(const FS *x, FS shift, int64_t n, step_fn step, join_fn join, FS empty)
{
    FV s = F(set)(shift), a = F(set)(empty), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = join(a, step(F(load)(x + i), s));
        b = join(b, step(F(load)(x + i + LANES), s));
        c = join(c, step(F(load)(x + i + 2 * LANES), s));
        d = join(d, step(F(load)(x + i + 3 * LANES), s));
    }
    for (; i + LANES <= n; i += LANES) a = join(a, step(F(load)(x + i), s));
    if (i < n)
        b = join(b,
                 F(select)(first_lanes(n - i), step(load_first(x + i, n - i), s), F(set)(empty)));
    return join_lanes(join(join(a, b), join(c, d)), join);
}

/* Every fold as the loop's last two arguments. */
#define FOLD_SWITCH(fold, LOOP)                                                                    \
    switch (fold) {                                                                                \
    case UM_FOLD_SUM: LOOP(step_plain, join_sum); break;                                           \
    case UM_FOLD_ABS: LOOP(step_abs, join_sum); break;                                             \
    case UM_FOLD_SQUARE: LOOP(step_square, join_sum); break;                                       \
    case UM_FOLD_SCALED: LOOP(step_scaled, join_sum); break;                                       \
    case UM_FOLD_GAP: LOOP(step_gap, join_sum); break;                                             \
    case UM_FOLD_GAP2: LOOP(step_gap2, join_sum); break;                                           \
    case UM_FOLD_EXP: LOOP(step_exp, join_sum); break;                                             \
    case UM_FOLD_PROD: LOOP(step_plain, join_prod); break;                                         \
    case UM_FOLD_MAX: LOOP(step_plain, join_max); break;                                           \
    case UM_FOLD_MIN: LOOP(step_plain, join_min); break;                                           \
    case UM_FOLD_MAX_ABS: LOOP(step_abs, join_max); break;                                         \
    case UM_FOLD_ANY: LOOP(step_truth, join_max); break;                                           \
    case UM_FOLD_ALL: LOOP(step_truth, join_min); break;                                           \
    }

static void across(um_fold fold, void *result, const void *x, const void *shift, int64_t n)
{
#define LOOP_ACROSS(step, join) fold_across(result, x, shift, n, step, join)
    FOLD_SWITCH(fold, LOOP_ACROSS)
}

static void across_rows(um_fold fold, void *result, const void *x, int64_t row, const void *shift,
                        int64_t n)
{
#define LOOP_ROWS(step, join) fold_rows(result, x, row, shift, n, step, join)
    FOLD_SWITCH(fold, LOOP_ROWS)
}

static void along(um_fold fold, void *result, const void *x, const void *shift, int64_t n)
{
    FS s = shift ? *(const FS *)shift : 0, empty = empty_fold(fold), y = empty;
#define LOOP_ALONG(step, join) y = fold_along(x, s, n, step, join, empty)
    FOLD_SWITCH(fold, LOOP_ALONG)
    *(FS *)result = y;
}

static bool better(bool largest, FS x, FS best)
{
    if (x != x) return best == best;
    return largest ? x > best : x < best;
}

static void pick_across(bool largest, void *best, int64_t *index, const void *x, int64_t at,
                        int64_t n)
{
    FS *top = best;
    const FS *from = x;
    for (int64_t i = 0; i < n; i++) {
        if (!better(largest, from[i], top[i])) continue;
        top[i] = from[i];
        index[i] = at;
    }
}

/* Looks for where the best is only when there is a better one. */
static void pick_along(bool largest, void *best, int64_t *index, const void *x, int64_t first,
                       int64_t n)
{
    FS *top = best, block;
    const FS *from = x;
    along(largest ? UM_FOLD_MAX : UM_FOLD_MIN, &block, x, NULL, n);
    if (!better(largest, block, *top)) return;
    int64_t i = 0;
    while (from[i] != block && (block == block || from[i] == from[i])) i++;
    *top = from[i];
    *index = first + i;
}

const um_fold_loops LOOPS = {clear, across, across_rows, along, pick_across, pick_along};
