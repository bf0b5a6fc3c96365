/* backend/cpu/kernel/norm_columns_body.h: softmax and log_softmax along an axis that is not the
 * innermost in memory, for one REAL type (real.h): many lines at once, a line a lane, by rows of
 * memory. Included by norm.c. y may be x. */
#ifndef COLUMNS_BLOCK
#define COLUMNS_BLOCK 32 /* rows that are summed up plainly */
#endif

/* What there is of each of `width` lines, next to each other; and their elements, row by row. */
typedef struct REAL_FN(columns) {
    REAL *max, *sum, *lost, *rows;
} REAL_FN(columns);

static size_t REAL_FN(columns_bytes)(const norm_job *job)
{
    return (size_t)(job->width * (job->size + 3)) * sizeof(REAL);
}

/* Loads `count` lines and finds their largest; NaN does not count. */
static void REAL_FN(columns_load)(const norm_job *job, int64_t x_at, int64_t count,
                                  REAL_FN(columns) * c)
{
    const um_view *in = job->in;
    int64_t width = job->width;
    for (int64_t i = 0; i < width; i++) c->max[i] = (REAL)-INFINITY;
    for (int64_t r = 0; r < job->size; r++) {
        REAL *row = c->rows + r * width;
        um_load(REAL_CLASS, row, in->dtype, (const void *)(uintptr_t)in->ptr,
                x_at + r * job->x_stride, um_walk_step(&job->lines, 0), count);
        for (int64_t i = count; i < width; i++) row[i] = 0;
        for (int64_t i = 0; i < width; i += REAL_LANES) VREAL_FN(store)
        (c->max + i, REAL_FN(vmax)(VREAL_FN(load)(row + i), VREAL_FN(load)(c->max + i)));
    }
}

/* sum = the sums of exp(x - max), which take x's place when `keep` is set. */
UM_INLINE void REAL_FN(columns_exp)(const norm_job *job, bool keep, REAL_FN(columns) * c)
{
    int64_t width = job->width;
    for (int64_t i = 0; i < width; i++) c->sum[i] = c->lost[i] = 0;
    for (int64_t first = 0; first < job->size; first += COLUMNS_BLOCK) {
        int64_t n = UM_MIN(job->size - first, COLUMNS_BLOCK);
        for (int64_t i = 0; i < width; i += REAL_LANES) {
            REAL part[REAL_LANES], *x = c->rows + first * width + i;
            VREAL max = VREAL_FN(load)(c->max + i), sum = {0};
            for (int64_t r = 0; r < n; r++) {
                VREAL e = VREAL_FN(exp)(VREAL_FN(load)(x + r * width) - max);
                if (keep) VREAL_FN(store)(x + r * width, e);
                sum += e;
            }
            VREAL_FN(store)(part, sum);
            REAL_FN(sum_add)(c->sum + i, c->lost + i, part, REAL_LANES);
        }
    }
    REAL_FN(sum_close)(c->sum, c->lost, width);
}

static void REAL_FN(columns_end)(const norm_job *job, REAL *row, const REAL_FN(columns) * c)
{
    for (int64_t i = 0; i < job->width; i += REAL_LANES) {
        VREAL x = VREAL_FN(load)(row + i), sum = VREAL_FN(load)(c->sum + i);
        if (job->id == UM_OP_SOFTMAX)
            x /= sum;
        else
            x = (x - VREAL_FN(load)(c->max + i)) - sum; /* by then its logarithm */
        VREAL_FN(store)(row + i, x);
    }
}

static void REAL_FN(norm_columns)(const norm_job *job, int64_t x_at, int64_t y_at, int64_t count,
                                  REAL *scratch)
{
    const um_view *out = job->out;
    int64_t width = job->width;
    REAL_FN(columns)
    c = {scratch, scratch + width, scratch + 2 * width, scratch + 3 * width};
    REAL_FN(columns_load)(job, x_at, count, &c);
    if (job->id == UM_OP_SOFTMAX) {
        REAL_FN(columns_exp)(job, true, &c);
    } else {
        REAL_FN(columns_exp)(job, false, &c);
        for (int64_t i = 0; i < width; i++) c.sum[i] = (REAL)log((double)c.sum[i]);
    }
    for (int64_t r = 0; r < job->size; r++) {
        REAL *row = c.rows + r * width;
        REAL_FN(columns_end)(job, row, &c);
        um_store(out->dtype, (void *)(uintptr_t)out->ptr, y_at + r * job->y_stride,
                 um_walk_step(&job->lines, 1), REAL_CLASS, row, count);
    }
}
