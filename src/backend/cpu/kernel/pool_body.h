/* backend/cpu/kernel/pool_body.h: avg_pool and the gradients of both pools for one REAL type
 * (real.h). Included by pool.c. Where many numbers meet in one they are added up exactly. */
#ifndef POOL_PLAIN
#define POOL_PLAIN 16 /* up to here a plain chain of additions will do */
#endif

/* Rows added up; lo takes what is lost, when it is there. */
static void REAL_FN(pool_add)(REAL *hi, REAL *lo, const REAL *row, int64_t n)
{
    if (lo)
        REAL_FN(sum_add)(hi, lo, row, n);
    else
        for (int64_t j = 0; j < n; j++) hi[j] += row[j];
}

static REAL REAL_FN(pool_sum)(const um_pool_window *w, const REAL *row)
{
    REAL hi = 0, lo = 0;
    bool plain = w->count <= POOL_PLAIN;
    for (int64_t i = 0; i < w->count; i++)
        REAL_FN(pool_add)(&hi, plain ? NULL : &lo, row + w->first + i * w->step, 1);
    if (!plain) REAL_FN(sum_close)(&hi, &lo, 1);
    return hi;
}

/* ---- avg_pool ------------------------------------------------------------------------------- */

/* The rows of the window (down, deep) added up in sum. */
static void REAL_FN(avg_rows)(const pool *p, int64_t plane, const um_pool_window *deep,
                              const um_pool_window *down, REAL *sum)
{
    const pool_side *x = &p->wide;
    int64_t n = p->wide_count, rows = deep->count * down->count;
    REAL *buffer = sum + n, *lo = rows > POOL_PLAIN ? buffer + n : NULL;
    memset(sum, 0, (size_t)n * sizeof *sum);
    if (lo) memset(lo, 0, (size_t)n * sizeof *lo);
    for (int64_t k = 0; k < rows; k++) {
        int64_t d = deep->first + k / down->count * deep->step;
        int64_t h = down->first + k % down->count * down->step;
        int64_t first = plane_first(p, x, plane) + d * x->axis[0] + h * x->axis[1];
        const REAL *row =
            REAL_FN(line_load)(x->dtype, x->data, first, x->axis[POOL_ACROSS], n, buffer);
        REAL_FN(pool_add)(sum, lo, row, n);
    }
    if (lo) REAL_FN(sum_close)(sum, lo, n);
}

/* Task: rows of y. */
static void REAL_FN(avg_task)(void *ctx, int64_t task, int32_t lane)
{
    const pool *p = ctx;
    const pool_side *y = &p->narrow;
    int64_t heights = p->axis[1].out, rows = p->axis[0].out * heights;
    int64_t end = UM_MIN((task + 1) * p->rows_a_task, p->planes * rows);
    REAL *sum = (REAL *)(void *)(p->own + (size_t)lane * p->own_bytes);
    REAL *made = sum + 3 * p->wide_count;
    for (int64_t row = task * p->rows_a_task; row < end; row++) {
        int64_t plane = row / rows, d = row % rows / heights, h = row % heights;
        um_pool_window deep = um_pool_get_window(&p->axis[0], d);
        um_pool_window down = um_pool_get_window(&p->axis[1], h);
        REAL_FN(avg_rows)(p, plane, &deep, &down, sum);
        for (int64_t i = 0; i < p->narrow_count; i++) {
            const um_pool_window *w = &p->across[i];
            REAL divisor = (REAL)(deep.divisor * down.divisor * w->divisor);
            made[i] = divisor > 0 ? REAL_FN(pool_sum)(w, sum) / divisor : 0;
        }
        um_store(y->dtype, y->data, plane_first(p, y, plane) + d * y->axis[0] + h * y->axis[1],
                 y->axis[POOL_ACROSS], REAL_CLASS, made, p->narrow_count);
    }
}

/* ---- avg_pool_backward ----------------------------------------------------------------------- */

/* What the windows that hold row (d, h) give it, still one number a window across. */
static void REAL_FN(spread_rows)(const pool *p, int64_t plane, int64_t d, int64_t h, REAL *sum)
{
    const pool_side *dy = &p->narrow;
    int64_t n = p->narrow_count, from[2], to[2];
    um_pool_get_windows(&p->axis[0], d, &from[0], &to[0]);
    um_pool_get_windows(&p->axis[1], h, &from[1], &to[1]);
    bool plain = (to[0] - from[0] + 1) * (to[1] - from[1] + 1) <= POOL_PLAIN;
    REAL *line = sum + n, *lo = plain ? NULL : line + n;
    memset(sum, 0, (size_t)n * sizeof *sum);
    if (lo) memset(lo, 0, (size_t)n * sizeof *lo);
    for (int64_t o = from[0]; o <= to[0]; o++)
        for (int64_t u = from[1]; u <= to[1]; u++) {
            um_pool_window deep = um_pool_get_window(&p->axis[0], o);
            um_pool_window down = um_pool_get_window(&p->axis[1], u);
            if (!um_pool_holds(&deep, d) || !um_pool_holds(&down, h)) continue;
            um_load(REAL_CLASS, line, dy->dtype, dy->data,
                    plane_first(p, dy, plane) + o * dy->axis[0] + u * dy->axis[1],
                    dy->axis[POOL_ACROSS], n);
            for (int64_t i = 0; i < n; i++)
                line[i] /= (REAL)(deep.divisor * down.divisor * p->across[i].divisor);
            REAL_FN(pool_add)(sum, lo, line, n);
        }
    if (lo) REAL_FN(sum_close)(sum, lo, n);
}

/* Task: rows of dx. */
static void REAL_FN(spread_task)(void *ctx, int64_t task, int32_t lane)
{
    const pool *p = ctx;
    const pool_side *dx = &p->wide;
    const um_pool_axis *x = &p->axis[POOL_ACROSS];
    int64_t heights = p->axis[1].in, rows = p->axis[0].in * heights, n = p->wide_count;
    int64_t end = UM_MIN((task + 1) * p->rows_a_task, p->planes * rows);
    bool plain = x->adaptive ? x->out <= x->in : x->kernel <= x->stride * POOL_PLAIN;
    REAL *sum = (REAL *)(void *)(p->own + (size_t)lane * p->own_bytes);
    REAL *hi = sum + 3 * p->narrow_count, *lo = hi + n;
    for (int64_t row = task * p->rows_a_task; row < end; row++) {
        int64_t plane = row / rows, d = row % rows / heights, h = row % heights;
        REAL_FN(spread_rows)(p, plane, d, h, sum);
        memset(hi, 0, (size_t)(2 * n) * sizeof *hi);
        for (int64_t i = 0; i < p->narrow_count; i++) {
            const um_pool_window *w = &p->across[i];
            for (int64_t k = 0, at = w->first; k < w->count; k++, at += w->step) REAL_FN(pool_add)
            (hi + at, plain ? NULL : lo + at, sum + i, 1);
        }
        if (!plain) REAL_FN(sum_close)(hi, lo, n);
        um_store(dx->dtype, dx->data, plane_first(p, dx, plane) + d * dx->axis[0] + h * dx->axis[1],
                 dx->axis[POOL_ACROSS], REAL_CLASS, hi, n);
    }
}

/* ---- max_pool_backward ----------------------------------------------------------------------- */

/* Adds a row of dy where its places say; a place that is not there sets bad. */
static void REAL_FN(give_row)(const pool *p, int64_t dy, int64_t places, REAL *hi, REAL *lo,
                              int64_t plane_count, atomic_bool *bad)
{
    REAL line[POOL_CHUNK];
    int64_t at[POOL_CHUNK], step = p->narrow.axis[POOL_ACROSS];
    int64_t place_step = p->places.axis[POOL_ACROSS];
    for (int64_t first = 0; first < p->narrow_count; first += POOL_CHUNK) {
        int64_t n = UM_MIN(p->narrow_count - first, POOL_CHUNK);
        um_load(REAL_CLASS, line, p->narrow.dtype, p->narrow.data, dy + first * step, step, n);
        um_load(UM_CLASS_I64, at, UM_I64, p->places.data, places + first * place_step, place_step,
                n);
        for (int64_t i = 0; i < n; i++) {
            if (at[i] >= 0 && at[i] < plane_count)
                REAL_FN(sum_add)(hi + at[i], lo + at[i], line + i, 1);
            else if (at[i] != -1)
                atomic_store_explicit(bad, true, memory_order_relaxed);
        }
    }
}

/* Task: one plane. */
static void REAL_FN(give_task)(void *ctx, int64_t plane, int32_t lane)
{
    const give *g = ctx;
    const pool *p = g->p;
    const pool_side *dy = &p->narrow, *places = &p->places, *dx = &p->wide;
    int64_t rows = p->axis[0].in * p->axis[1].in, n = p->wide_count, count = rows * n;
    REAL *hi = (REAL *)(void *)(p->own + (size_t)lane * p->own_bytes), *lo = hi + count;
    memset(hi, 0, (size_t)(2 * count) * sizeof *hi);
    for (int64_t row = 0; row < p->axis[0].out * p->axis[1].out; row++) {
        int64_t d = row / p->axis[1].out, h = row % p->axis[1].out;
        REAL_FN(give_row)
        (p, plane_first(p, dy, plane) + d * dy->axis[0] + h * dy->axis[1],
         plane_first(p, places, plane) + d * places->axis[0] + h * places->axis[1], hi, lo, count,
         g->bad);
    }
    REAL_FN(sum_close)(hi, lo, count);
    for (int64_t row = 0; row < rows; row++) {
        int64_t d = row / p->axis[1].in, h = row % p->axis[1].in;
        um_store(dx->dtype, dx->data, plane_first(p, dx, plane) + d * dx->axis[0] + h * dx->axis[1],
                 dx->axis[POOL_ACROSS], REAL_CLASS, hi + row * n, n);
    }
}
