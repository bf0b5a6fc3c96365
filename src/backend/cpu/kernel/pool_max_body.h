/* backend/cpu/kernel/pool_max_body.h: max_pool for one class of values. Included by pool.c after
 * MAX_VALUE (float, double, int64_t, uint64_t), MAX_CLASS, MAX_DTYPE (whose rows are read in
 * place), MAX_FN, MAX_IS_NAN(x) and MAX_LOWEST(pool), and undefines them. */

/* A row of x: in place, or loaded into buffer. */
static const MAX_VALUE *MAX_FN(max_row)(const pool_side *x, int64_t first, int64_t n,
                                        MAX_VALUE *buffer)
{
    int64_t step = x->axis[POOL_ACROSS];
    if (x->dtype == MAX_DTYPE && step == 1) return (const MAX_VALUE *)x->data + first;
    um_load(MAX_CLASS, buffer, x->dtype, x->data, first, step, n);
    return buffer;
}

/* best[j] = the larger of it and row[j]; at, when there is one, the place it is from. */
static void MAX_FN(max_down)(MAX_VALUE *best, int64_t *at, const MAX_VALUE *row, int64_t place,
                             int64_t n)
{
    if (!at)
        for (int64_t j = 0; j < n; j++)
            best[j] = row[j] > best[j] || MAX_IS_NAN(row[j]) ? row[j] : best[j];
    for (int64_t j = 0; at && j < n; j++) {
        bool take = row[j] > best[j] || (MAX_IS_NAN(row[j]) && !MAX_IS_NAN(best[j]));
        best[j] = take ? row[j] : best[j];
        at[j] = take ? place + j : at[j];
    }
}

/* The largest of one window of a row; of equals the one with the lowest place. */
static MAX_VALUE MAX_FN(max_of)(const um_pool_window *w, const MAX_VALUE *best, const int64_t *at,
                                int64_t *place)
{
    const MAX_VALUE *x = best + w->first;
    MAX_VALUE result = x[0];
    int64_t from = at ? at[w->first] : 0;
    for (int64_t i = 1; i < w->count; i++) {
        MAX_VALUE v = x[i * w->step];
        bool take = v > result || (MAX_IS_NAN(v) && !MAX_IS_NAN(result));
        if (at) {
            bool same = v == result || (MAX_IS_NAN(v) && MAX_IS_NAN(result));
            int64_t here = at[w->first + i * w->step];
            take = take || (same && here < from);
            from = take ? here : from;
        }
        result = take ? v : result;
    }
    *place = from;
    return result;
}

/* Puts the rows of the window (down, deep) together; false: there are none. */
static bool MAX_FN(max_rows)(const pool *p, int64_t plane, const um_pool_window *deep,
                             const um_pool_window *down, MAX_VALUE *best, int64_t *at,
                             MAX_VALUE *buffer)
{
    const pool_side *x = &p->wide;
    int64_t n = p->wide_count;
    for (int64_t k = 0; k < deep->count * down->count; k++) {
        int64_t d = deep->first + k / down->count * deep->step;
        int64_t h = down->first + k % down->count * down->step;
        int64_t first = plane_first(p, x, plane) + d * x->axis[0] + h * x->axis[1];
        int64_t place = (d * p->axis[1].in + h) * n;
        const MAX_VALUE *row = MAX_FN(max_row)(x, first, n, buffer);
        if (k > 0) {
            MAX_FN(max_down)(best, at, row, place, n);
            continue;
        }
        memcpy(best, row, (size_t)n * sizeof *best);
        for (int64_t j = 0; at && j < n; j++) at[j] = place + j;
    }
    return deep->count * down->count > 0;
}

/* Task: rows of y. */
static void MAX_FN(max_task)(void *ctx, int64_t task, int32_t lane)
{
    const pool *p = ctx;
    const pool_side *y = &p->narrow, *places = &p->places;
    int64_t heights = p->axis[1].out, rows = p->axis[0].out * heights;
    int64_t end = UM_MIN((task + 1) * p->rows_a_task, p->planes * rows);
    MAX_VALUE *best = (MAX_VALUE *)(void *)(p->own + (size_t)lane * p->own_bytes);
    MAX_VALUE *buffer = best + p->wide_count, *made = buffer + p->wide_count;
    int64_t *from = (int64_t *)(void *)(p->own + (size_t)lane * p->own_bytes) + 2 * p->wide_count +
                    p->narrow_count;
    int64_t *at = p->has_places ? from + p->narrow_count : NULL;
    for (int64_t row = task * p->rows_a_task; row < end; row++) {
        int64_t plane = row / rows, d = row % rows / heights, h = row % heights;
        um_pool_window deep = um_pool_get_window(&p->axis[0], d);
        um_pool_window down = um_pool_get_window(&p->axis[1], h);
        bool some = MAX_FN(max_rows)(p, plane, &deep, &down, best, at, buffer);
        for (int64_t i = 0; i < p->narrow_count; i++) {
            bool none = !some || p->across[i].count == 0;
            from[i] = -1;
            made[i] = none ? MAX_LOWEST(p) : MAX_FN(max_of)(&p->across[i], best, at, &from[i]);
        }
        um_store(y->dtype, y->data, plane_first(p, y, plane) + d * y->axis[0] + h * y->axis[1],
                 y->axis[POOL_ACROSS], MAX_CLASS, made, p->narrow_count);
        if (p->has_places)
            um_store(UM_I64, places->data,
                     plane_first(p, places, plane) + d * places->axis[0] + h * places->axis[1],
                     places->axis[POOL_ACROSS], UM_CLASS_I64, from, p->narrow_count);
    }
}

#undef MAX_VALUE
#undef MAX_CLASS
#undef MAX_DTYPE
#undef MAX_FN
#undef MAX_IS_NAN
#undef MAX_LOWEST
