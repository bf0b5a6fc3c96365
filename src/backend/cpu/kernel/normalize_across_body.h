/* backend/cpu/kernel/normalize_across_body.h: group and batch norm where neighbours in memory are
 * channels (channels last, or no places), for one REAL type: rows of all channels, with arrays of
 * what a channel's line would hold. Included by normalize.c after normalize_body.h.
 *
 * A set shares no statistics with another: a sample of group_norm, all of batch_norm. Its rows are
 * summed in blocks of ROWS, those exactly. Deviations that need a scale are left to the lines. */

/* One of the set's arrays, a value a channel. */
UM_INLINE REAL *REAL_FN(across_slot)(const across_job *a, int64_t set, int32_t slot)
{
    return (REAL *)a->slots + (set * SLOTS + slot) * a->columns;
}

/* Two sums a channel: of a block, or, in block 0, at last of the set. */
UM_INLINE double *REAL_FN(across_sums)(const across_job *a, int64_t set, int64_t block)
{
    return a->sums + (set * a->blocks + block) * 2 * a->columns;
}

/* The rows of one block and some columns. */
typedef struct ROWS_OF {
    const across_job *a;
    um_walk_at set, at;
    int64_t left, column, n;
    REAL buffer[OUT + 1][CHUNK];
} ROWS_OF;

static void REAL_FN(seek_set)(const across_job *a, int64_t set, um_walk_at *at)
{
    UM_ISA_FN(um_walk_seek)(&a->job->lines, set * a->groups, at);
}

static void REAL_FN(begin_rows)(ROWS_OF *r, const across_job *a, int64_t set, int64_t block,
                                int64_t column)
{
    r->a = a;
    r->column = column;
    r->n = UM_MIN(a->columns - column, CHUNK);
    r->left = UM_MIN(a->rows - block * ROWS, ROWS);
    REAL_FN(seek_set)(a, set, &r->set);
    UM_ISA_FN(um_walk_seek)(&a->job->inner, block * ROWS, &r->at);
}

UM_INLINE bool REAL_FN(next_row)(ROWS_OF *r)
{
    if (--r->left == 0) return false;
    um_walk_advance(&r->a->job->inner, &r->at, 1);
    return true;
}

UM_INLINE int64_t REAL_FN(row_first)(const ROWS_OF *r, int32_t view)
{
    return r->set.element[view] + r->at.element[view] + r->column;
}

UM_INLINE const REAL *REAL_FN(load_row)(ROWS_OF *r, int32_t view)
{
    const normalize_job *job = r->a->job;
    return REAL_FN(line_load)(job->dtype, REAL_FN(view_data)(job, view),
                              REAL_FN(row_first)(r, view), 1, r->n, r->buffer[view]);
}

UM_INLINE REAL *REAL_FN(open_row)(ROWS_OF *r)
{
    const normalize_job *job = r->a->job;
    return REAL_FN(line_open)(job->dtype, REAL_FN(view_data)(job, OUT), REAL_FN(row_first)(r, OUT),
                              1, r->n, r->buffer[OUT]);
}

UM_INLINE void REAL_FN(store_row)(ROWS_OF *r, const REAL *y)
{
    const normalize_job *job = r->a->job;
    REAL_FN(line_store)
    (job->dtype, REAL_FN(view_data)(job, OUT), REAL_FN(row_first)(r, OUT), 1, r->n, y);
}

/* ---- a block ----------------------------------------------------------------------------------
 */

static void REAL_FN(across_moments)(ROWS_OF *r, const REAL *shift, double *sum, double *square)
{
    for (bool more = true; more; more = REAL_FN(next_row)(r)) {
        const REAL *x = REAL_FN(load_row)(r, X);
        for (int64_t i = 0; i < r->n; i++) {
            double d = (double)x[i] - (double)shift[i];
            sum[i] += d;
            square[i] += d * d;
        }
    }
}

/* The sums of dy and of dy * normal. */
static void REAL_FN(across_products)(ROWS_OF *r, const REAL *hi, const REAL *lo,
                                     const REAL *inverse, double *sum, double *product)
{
    REAL part[2][CHUNK];
    memset(part, 0, sizeof part);
    for (bool more = true; more; more = REAL_FN(next_row)(r)) {
        const REAL *x = REAL_FN(load_row)(r, X), *dy = REAL_FN(load_row)(r, DY);
        for (int64_t i = 0; i < r->n; i++) {
            part[0][i] += dy[i];
            part[1][i] += dy[i] * ((x[i] - hi[i] - lo[i]) * inverse[i]);
        }
    }
    for (int64_t i = 0; i < r->n; i++) {
        sum[i] = (double)part[0][i];
        product[i] = (double)part[1][i];
    }
}

/* w and b: constants where they are NULL, as in write_normal. */
UM_INLINE void REAL_FN(write_row)(const REAL *x, REAL *y, int64_t n, const REAL *hi, const REAL *lo,
                                  const REAL *inverse, const REAL *w, const REAL *b)
{
    for (int64_t i = 0; i < n; i++) {
        REAL value = (x[i] - hi[i] - lo[i]) * inverse[i];
        if (w) value *= w[i];
        y[i] = b ? value + b[i] : value;
    }
}

static void REAL_FN(across_forward)(ROWS_OF *r, const REAL *hi, const REAL *lo, const REAL *inverse)
{
    const REAL *w = r->a->job->w, *b = r->a->job->b;
    if (w) w += r->column;
    if (b) b += r->column;
    for (bool more = true; more; more = REAL_FN(next_row)(r)) {
        const REAL *x = REAL_FN(load_row)(r, X);
        REAL *y = REAL_FN(open_row)(r);
        if (w && b)
            REAL_FN(write_row)(x, y, r->n, hi, lo, inverse, w, b);
        else if (w)
            REAL_FN(write_row)(x, y, r->n, hi, lo, inverse, w, NULL);
        else if (b)
            REAL_FN(write_row)(x, y, r->n, hi, lo, inverse, NULL, b);
        else
            REAL_FN(write_row)(x, y, r->n, hi, lo, inverse, NULL, NULL);
        REAL_FN(store_row)(r, y);
    }
}

/* slot: the set's, `columns` apart; w as in write_row. */
UM_INLINE void REAL_FN(write_row_gradient)(const REAL *x, const REAL *dy, REAL *dx, int64_t n,
                                           const REAL *slot, int64_t columns, const REAL *w)
{
    const REAL *hi = slot + HI * columns, *lo = slot + LO * columns,
               *inverse = slot + INV * columns;
    const REAL *mean_g = slot + MEAN_G * columns, *mean_p = slot + MEAN_P * columns;
    for (int64_t i = 0; i < n; i++) {
        REAL normal = (x[i] - hi[i] - lo[i]) * inverse[i], g = w ? dy[i] * w[i] : dy[i];
        dx[i] = (g - mean_g[i] - normal * mean_p[i]) * inverse[i];
    }
}

UM_INLINE void REAL_FN(write_row_scaled)(const REAL *dy, REAL *dx, int64_t n, const REAL *inverse,
                                         const REAL *w)
{
    for (int64_t i = 0; i < n; i++) dx[i] = (w ? dy[i] * w[i] : dy[i]) * inverse[i];
}

static void REAL_FN(across_backward)(ROWS_OF *r, const REAL *slot)
{
    const REAL *w = r->a->job->w;
    bool given = r->a->job->given;
    int64_t columns = r->a->columns;
    if (w) w += r->column;
    for (bool more = true; more; more = REAL_FN(next_row)(r)) {
        const REAL *x = REAL_FN(load_row)(r, X), *dy = REAL_FN(load_row)(r, DY);
        REAL *dx = REAL_FN(open_row)(r);
        if (given && w)
            REAL_FN(write_row_scaled)(dy, dx, r->n, slot + INV * columns, w);
        else if (given)
            REAL_FN(write_row_scaled)(dy, dx, r->n, slot + INV * columns, NULL);
        else if (w)
            REAL_FN(write_row_gradient)(x, dy, dx, r->n, slot, columns, w);
        else
            REAL_FN(write_row_gradient)(x, dy, dx, r->n, slot, columns, NULL);
        REAL_FN(store_row)(r, dx);
    }
}

static void REAL_FN(across_block)(const across_job *a, int64_t set, int64_t block)
{
    double *sums = REAL_FN(across_sums)(a, set, block);
    const REAL *slot = REAL_FN(across_slot)(a, set, 0);
    int64_t columns = a->columns;
    ROWS_OF r;
    if (a->phase <= ACROSS_PRODUCTS) memset(sums, 0, 2 * (size_t)columns * sizeof *sums);
    for (int64_t c = 0; c < columns; c += CHUNK) {
        const REAL *hi = slot + HI * columns + c, *lo = slot + LO * columns + c;
        const REAL *inverse = slot + INV * columns + c;
        REAL_FN(begin_rows)(&r, a, set, block, c);
        switch (a->phase) {
        case ACROSS_MEAN:
        case ACROSS_MOMENTS: REAL_FN(across_moments)(&r, hi, sums + c, sums + columns + c); break;
        case ACROSS_PRODUCTS:
            REAL_FN(across_products)(&r, hi, lo, inverse, sums + c, sums + columns + c);
            break;
        case ACROSS_FORWARD: REAL_FN(across_forward)(&r, hi, lo, inverse); break;
        case ACROSS_BACKWARD: REAL_FN(across_backward)(&r, slot + c); break;
        }
    }
}

/* ---- a group's channels, from all blocks --------------------------------------------------------
 */

/* Columns first .. first + n - 1 of block 0 become the sums of all blocks. */
static void REAL_FN(across_join)(const across_job *a, int64_t set, int64_t first, int64_t n)
{
    double lost[JOINED] = {0};
    for (int32_t which = 0; which < 2; which++) {
        double *sum = REAL_FN(across_sums)(a, set, 0) + which * a->columns + first;
        memset(lost, 0, sizeof lost);
        for (int64_t block = 1; block < a->blocks; block++)
            sum_add_f64(sum, lost, REAL_FN(across_sums)(a, set, block) + which * a->columns + first,
                        n);
        sum_close_f64(sum, lost, n);
    }
}

/* From the moments of a group's channels, which share a shift: false, the lines must do it. */
static bool REAL_FN(across_stats)(const across_job *a, int64_t set, int64_t first)
{
    REAL *slot = REAL_FN(across_slot)(a, set, 0) + first;
    const double *sums = REAL_FN(across_sums)(a, set, 0) + first;
    int64_t columns = a->columns, channels = a->job->channels;
    double n = (double)a->job->size, total[2] = {0}, lost[2] = {0};
    for (int64_t k = 0; k < channels; k++)
        sum_add_f64(total, lost, (double[]){sums[k], sums[columns + k]}, 2);
    sum_close_f64(total, lost, 2);
    double shift = (double)slot[HI * columns], rest = total[0] / n;
    double var = total[1] / n - rest * rest;
    if (a->phase == ACROSS_MEAN) {
        for (int64_t k = 0; k < channels; k++) slot[HI * columns + k] = (REAL)rest;
        return isfinite(rest);
    }
    if (var < 0) var = 0;
    double root = sqrt(var + a->job->op->attrs.norm.eps);
    STATS s = REAL_FN(make_stats)(1, shift, rest, root);
    for (int64_t k = 0; k < channels; k++) {
        slot[HI * columns + k] = s.hi;
        slot[LO * columns + k] = s.lo;
        slot[INV * columns + k] = s.inverse;
        slot[MEAN_G * columns + k] = (REAL)var;
    }
    return root > 1e-30 && root < 1e30 && isfinite(s.hi);
}

/* A channel's sums are its gradients; the group's, weighted, over its size, its means. */
static void REAL_FN(across_means)(const across_job *a, int64_t set, int64_t first)
{
    const normalize_job *job = a->job;
    REAL *slot = REAL_FN(across_slot)(a, set, 0) + first;
    const REAL *w = job->w;
    const double *sums = REAL_FN(across_sums)(a, set, 0) + first;
    int64_t columns = a->columns, channels = job->channels;
    double total[2] = {0};
    for (int64_t k = 0; k < channels; k++) {
        double weight = w ? (double)w[first + k] : 1;
        total[0] += sums[k] * weight;
        total[1] += sums[columns + k] * weight;
        if (job->blocks == 0) continue;
        REAL *row = REAL_FN(partial_row)(job, set) + first + k;
        row[0] = (REAL)sums[columns + k];
        row[job->weight_count] = (REAL)sums[k];
    }
    for (int64_t k = 0; k < channels; k++) {
        slot[MEAN_G * columns + k] = (REAL)(total[0] / (double)job->size);
        slot[MEAN_P * columns + k] = (REAL)(total[1] / (double)job->size);
    }
}

/* What the first pass measures from: nothing, or (f32, in f64) the first element of the group; or
 * the statistics that the op is given. */
static void REAL_FN(across_start)(across_job *a, int64_t set)
{
    const normalize_job *job = a->job;
    REAL *slot = REAL_FN(across_slot)(a, set, 0);
    int64_t columns = a->columns;
    CURSOR c;
    um_walk_at at;
    REAL_FN(seek_set)(a, set, &at);
    c.job = job;
    c.line = &at;
    for (int64_t g = 0; g < a->groups; g++, um_walk_advance(&job->lines, &at, 1)) {
        REAL shift = 0, *first = slot + g * job->channels;
        if (job->given) {
            STATS s = REAL_FN(find_stats)(&c);
            first[HI * columns] = s.hi, first[LO * columns] = s.lo;
            first[INV * columns] = s.inverse;
            if (s.scale != 1) a->far = true;
            continue;
        }
#if REAL_BITS == 32
        shift = REAL_FN(line_load)(job->dtype, REAL_FN(view_data)(job, X), at.element[X], 1, 1,
                                   c.buffer[X])[0];
#endif
        for (int64_t k = 0; k < job->channels; k++) first[HI * columns + k] = shift;
    }
}

/* The outputs beside y. */
static void REAL_FN(across_write)(const across_job *a, int64_t set)
{
    const normalize_job *job = a->job;
    const REAL *slot = REAL_FN(across_slot)(a, set, 0);
    CURSOR c;
    um_walk_at at;
    REAL_FN(seek_set)(a, set, &at);
    c.job = job;
    c.line = &at;
    for (int64_t g = 0; g < a->groups; g++, um_walk_advance(&job->lines, &at, 1)) {
        const REAL *first = slot + g * job->channels;
        STATS s = {.scale = 1,
                   .hi = first[HI * a->columns],
                   .lo = first[LO * a->columns],
                   .inverse = first[INV * a->columns],
                   .var = (double)first[MEAN_G * a->columns]};
        REAL_FN(write_statistics)(&c, &s);
    }
}
