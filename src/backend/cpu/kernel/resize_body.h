/* backend/cpu/kernel/resize_body.h: resize and its gradient for one REAL type (real.h). Included by
 * resize.c. Rows are put together first (the first two axes), then places along the row. */
#ifndef RESIZE_PLAIN
#define RESIZE_PLAIN 16 /* numbers that a plain chain of additions may add up */
#endif

/* sum += weight * row. */
static void REAL_FN(resize_add)(REAL *sum, REAL *lost, REAL weight, REAL *row, int64_t n)
{
    if (!lost) {
        for (int64_t j = 0; j < n; j++) sum[j] += weight * row[j];
        return;
    }
    for (int64_t j = 0; j < n; j++) row[j] *= weight;
    REAL_FN(sum_add)(sum, lost, row, n);
}

/* Task: rows of y. */
static void REAL_FN(resize_task)(void *ctx, int64_t task, int32_t lane)
{
    const resize *r = ctx;
    const resize_axis *deep = &r->axis[0], *down = &r->axis[1], *across = &r->axis[RESIZE_ACROSS];
    int64_t n = across->in, rows = deep->out * down->out;
    int64_t end = UM_MIN((task + 1) * r->rows_a_task, r->planes * rows);
    REAL *sum = (REAL *)(void *)(r->own + (size_t)lane * r->own_bytes);
    REAL *line = sum + n, *made = line + n;
    for (int64_t row = task * r->rows_a_task; row < end; row++) {
        int64_t plane = row / rows, d = row % rows / down->out, h = row % down->out;
        const resize_taps *td = &deep->taps[d], *th = &down->taps[h];
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t k = 0; k < td->count * th->count; k++) {
            int64_t i = k / th->count, j = k % th->count;
            int64_t first = plane_first(r, &r->x, plane) + td->place[i] * r->x.axis[0] +
                            th->place[j] * r->x.axis[1];
            um_load(REAL_CLASS, line, r->x.dtype, r->x.data, first, r->x.axis[RESIZE_ACROSS], n);
            REAL_FN(resize_add)(sum, NULL, (REAL)(td->weight[i] * th->weight[j]), line, n);
        }
        for (int64_t o = 0; o < across->out; o++) {
            const resize_taps *t = &across->taps[o];
            made[o] = (REAL)t->weight[0] * sum[t->place[0]];
            for (int64_t k = 1; k < t->count; k++) made[o] += (REAL)t->weight[k] * sum[t->place[k]];
        }
        um_store(r->y.dtype, r->y.data,
                 plane_first(r, &r->y, plane) + d * r->y.axis[0] + h * r->y.axis[1],
                 r->y.axis[RESIZE_ACROSS], REAL_CLASS, made, across->out);
    }
}

/* What row (d, h) of dx is given, still one number a place of dy across. */
static void REAL_FN(given_rows)(const resize *r, int64_t plane, int64_t d, int64_t h, REAL *sum)
{
    resize_range od = r->axis[0].given[d], oh = r->axis[1].given[h];
    int64_t n = r->axis[RESIZE_ACROSS].out;
    bool plain = (od.last - od.first + 1) * (oh.last - oh.first + 1) <= RESIZE_PLAIN;
    REAL *line = sum + n, *lost = plain ? NULL : line + n;
    memset(sum, 0, (size_t)(3 * n) * sizeof *sum);
    for (int64_t i = od.first; i <= od.last; i++)
        for (int64_t j = oh.first; j <= oh.last; j++) {
            double weight = weight_of(&r->axis[0].taps[i], d) * weight_of(&r->axis[1].taps[j], h);
            if (weight == 0) continue;
            um_load(REAL_CLASS, line, r->y.dtype, r->y.data,
                    plane_first(r, &r->y, plane) + i * r->y.axis[0] + j * r->y.axis[1],
                    r->y.axis[RESIZE_ACROSS], n);
            REAL_FN(resize_add)(sum, lost, (REAL)weight, line, n);
        }
    if (lost) REAL_FN(sum_close)(sum, lost, n);
}

/* Task: rows of dx. */
static void REAL_FN(resize_back_task)(void *ctx, int64_t task, int32_t lane)
{
    const resize *r = ctx;
    const resize_axis *deep = &r->axis[0], *down = &r->axis[1], *across = &r->axis[RESIZE_ACROSS];
    int64_t n = across->in, rows = deep->in * down->in;
    int64_t end = UM_MIN((task + 1) * r->rows_a_task, r->planes * rows);
    REAL *sum = (REAL *)(void *)(r->own + (size_t)lane * r->own_bytes);
    REAL *hi = sum + 3 * across->out, *lo = hi + n;
    for (int64_t row = task * r->rows_a_task; row < end; row++) {
        int64_t plane = row / rows, d = row % rows / down->in, h = row % down->in;
        REAL_FN(given_rows)(r, plane, d, h, sum);
        memset(hi, 0, (size_t)(2 * n) * sizeof *hi);
        for (int64_t o = 0; o < across->out; o++) {
            const resize_taps *t = &across->taps[o];
            for (int64_t k = 0; k < t->count; k++) {
                REAL part = (REAL)t->weight[k] * sum[o];
                REAL_FN(sum_add)(hi + t->place[k], lo + t->place[k], &part, 1);
            }
        }
        REAL_FN(sum_close)(hi, lo, n);
        um_store(r->x.dtype, r->x.data,
                 plane_first(r, &r->x, plane) + d * r->x.axis[0] + h * r->x.axis[1],
                 r->x.axis[RESIZE_ACROSS], REAL_CLASS, hi, n);
    }
}
