/* backend/cpu/kernel/attention_tile_body.h: what attention and its backward share, for one REAL
 * type (real.h). Included by attention.c and attention_grad.c after pack_body.h and tile_body.h.
 *
 * Scores are made in strips [rows, TILE_COLS]: a sliver of columns, which are the task's own
 * queries (or keys), against a block of rows, the keys (or queries) it meets. A strip is a sliver
 * for the next product as it stands, and what is said of a column is said of a lane. */
#ifndef ATTENTION_ROWS
#define ATTENTION_ROWS 126 /* a block: 21 slivers */
#define ATTENTION_COLS 192 /* a task, at most */
#endif

UM_INLINE int64_t REAL_FN(sliver_rows)(int64_t n) { return um_ceil_div(n, TILE_ROWS) * TILE_ROWS; }
UM_INLINE int64_t REAL_FN(sliver_cols)(int64_t n) { return um_ceil_div(n, TILE_COLS) * TILE_COLS; }

/* ---- packing -------------------------------------------------------------------------------- */

/* Rows of a tensor as REALs: row i's element e is data[i * step + e * stride]. */
typedef struct REAL_FN(rows) {
    const REAL *data;
    int64_t count, size, step, stride;
} REAL_FN(rows);

/* Row `first` of the head at element `at`, and those that follow; in place, or copied. */
static REAL_FN(rows)
    REAL_FN(open_rows)(const um_view *x, int64_t at, int64_t first, int64_t count, REAL *buffer)
{
    const void *data = (const void *)(uintptr_t)x->ptr;
    int64_t size = x->shape[3];
    at += first * x->stride[2];
    if (x->dtype == REAL_DTYPE)
        return (REAL_FN(rows)){(const REAL *)data + at, count, size, x->stride[2], x->stride[3]};
    for (int64_t i = 0; i < count; i++)
        um_load(REAL_CLASS, buffer + i * size, x->dtype, data, at + i * x->stride[2], x->stride[3],
                size);
    return (REAL_FN(rows)){buffer, count, size, size, 1};
}

/* Slivers of `width` rows over their elements. */
static void REAL_FN(pack_rows)(const REAL_FN(rows) * x, int64_t width, REAL *dst)
{
    for (int64_t i = 0; i < x->count; i += width) REAL_FN(pack)
    (dst + i * x->size, width, REAL_DTYPE, x->data, i * x->step, x->step, x->stride,
     UM_MIN(x->count - i, width), x->size, NULL);
}

/* Slivers of TILE_ROWS elements over the rows. */
static void REAL_FN(pack_turned_rows)(const REAL_FN(rows) * x, REAL *dst)
{
    for (int64_t e = 0; e < x->size; e += TILE_ROWS) REAL_FN(pack)
    (dst + e * x->count, TILE_ROWS, REAL_DTYPE, x->data, e * x->stride, x->stride, x->step,
     UM_MIN(x->size - e, TILE_ROWS), x->count, NULL);
}

static bool REAL_FN(all_finite)(const REAL *x, int64_t n)
{
    VREAL zero = {0};
    int64_t i = 0;
    for (; i + REAL_LANES <= n; i += REAL_LANES) zero += VREAL_FN(load)(x + i) * 0;
    for (; i < n; i++) zero[0] += x[i] * 0;
    return VREAL_FN(sum)(zero) == 0;
}

/* The bias of a strip, -inf where it masks. buffer: n. */
static void REAL_FN(pack_bias)(const um_view *bias, int64_t at, int64_t col_stride,
                               int64_t row_stride, int64_t cols, int64_t n, REAL *dst, REAL *buffer)
{
    REAL_FN(pack)
    (dst, TILE_COLS, bias->dtype, (const void *)(uintptr_t)bias->ptr, at, col_stride, row_stride,
     cols, n, buffer);
    for (int64_t i = 0; bias->dtype == UM_BOOL && i < n * TILE_COLS; i++)
        dst[i] = dst[i] != 0 ? 0 : (REAL)-INFINITY;
}

/* The columns of sums [size, TILE_COLS] as rows of x, from element `at` on. buffer: cols * size. */
static void REAL_FN(put_columns)(const um_view *x, int64_t at, int64_t cols, int64_t size,
                                 const REAL *sums, REAL *buffer)
{
    REAL_FN(pack)(buffer, size, REAL_DTYPE, sums, 0, TILE_COLS, 1, size, cols, NULL);
    for (int64_t c = 0; c < cols; c++)
        um_store(x->dtype, (void *)(uintptr_t)x->ptr, at + c * x->stride[2], x->stride[3],
                 REAL_CLASS, buffer + c * size, size);
}

/* ---- who sees whom in a strip --------------------------------------------------------------- */

/* Column c sees rows lo[c] <= row < hi[c] whose bias is not -inf. A strip is made of the rows from
 * `from`, a sliver's first, to `to` only. */
typedef struct REAL_FN(mask) {
    REAL lo[TILE_COLS], hi[TILE_COLS];
    const REAL *bias; /* [rows, TILE_COLS], or NULL */
    int64_t from, to; /* from >= to: none sees another */
    bool all;         /* by position, each column sees each of those rows */
} REAL_FN(mask);

static void REAL_FN(find_mask)(const attention_job *job, const attention_head *at, bool own_keys,
                               int64_t own, int64_t cols, int64_t first, int64_t n,
                               REAL_FN(mask) * mask)
{
    int64_t all_from = 0, all_to = n;
    mask->from = n, mask->to = 0;
    for (int64_t c = 0; c < TILE_COLS; c++) {
        mask->lo[c] = mask->hi[c] = 0;
        if (c >= cols) continue; /* what becomes of it is not looked at */
        attention_span span = attention_span_of(job, at, own_keys, own + c);
        int64_t lo = UM_MIN(UM_MAX(span.first - first, 0), n);
        int64_t hi = UM_MIN(UM_MAX(span.end - first, 0), n);
        mask->lo[c] = (REAL)lo, mask->hi[c] = (REAL)hi;
        all_from = UM_MAX(all_from, lo), all_to = UM_MIN(all_to, hi);
        if (lo >= hi) continue;
        mask->from = UM_MIN(mask->from, lo), mask->to = UM_MAX(mask->to, hi);
    }
    mask->from -= mask->from % TILE_ROWS;
    mask->all = all_from <= mask->from && all_to >= mask->to;
}

/* Lanes c .. c + REAL_LANES - 1 of row r. */
UM_INLINE VMASK REAL_FN(lanes_seen)(const REAL_FN(mask) * mask, int64_t r, int64_t c)
{
    VREAL row = VREAL_FN(set)((REAL)r);
    VMASK seen =
        (VMASK)(row >= VREAL_FN(load)(mask->lo + c)) & (VMASK)(row < VREAL_FN(load)(mask->hi + c));
    if (mask->bias) {
        VREAL bias = VREAL_FN(load)(mask->bias + r * TILE_COLS + c);
        seen &= ~(VMASK)(bias == VREAL_FN(set)((REAL)-INFINITY));
    }
    return seen;
}

static bool REAL_FN(is_seen)(const REAL_FN(mask) * mask, int64_t r, int64_t c)
{
    if ((REAL)r < mask->lo[c] || (REAL)r >= mask->hi[c]) return false;
    return !mask->bias || mask->bias[r * TILE_COLS + c] != (REAL)-INFINITY;
}

/* A strip's scores, of which x is a vector at row r, lane c: scaled and capped (tanh in *t), and
 * with the bias. */
UM_INLINE VREAL REAL_FN(finish_score)(const attention_job *job, const REAL_FN(mask) * mask, VREAL x,
                                      int64_t r, int64_t c, VREAL *t)
{
    x *= VREAL_FN(set)((REAL)job->scale);
    if (job->softcap > 0) {
        VREAL cap = VREAL_FN(set)((REAL)job->softcap);
        *t = VREAL_FN(tanh)(x / cap);
        x = cap * *t;
    }
    return mask->bias ? x + VREAL_FN(load)(mask->bias + r * TILE_COLS + c) : x;
}

/* ---- products ------------------------------------------------------------------------------- */

/* Not inlined: in the loops below gcc 12 spills accumulators (attention 66 against 71 GFLOP/s). */
static __attribute__((noinline)) void REAL_FN(tile_apart)(int64_t k, const REAL *a, const REAL *b,
                                                          REAL *out, const REAL *sum)
{
    REAL_FN(tile_run)(k, a, b, out, TILE_COLS, sum);
}

/* strip [rows, TILE_COLS] = slivers of rows times one of columns, over size. */
static void REAL_FN(strip_product)(const REAL_FN(mask) * mask, int64_t size, const REAL *rows,
                                   const REAL *cols, REAL *strip)
{
    for (int64_t i = mask->from; i < mask->to; i += TILE_ROWS) REAL_FN(tile_apart)
    (size, rows + i * size, cols, strip + i * TILE_COLS, NULL);
}

/* ... of seen rows only, one element after the other: where a tensor holds inf or NaN, which the
 * weight of a masked row must not meet. */
static void REAL_FN(add_seen)(const REAL_FN(mask) * mask, int64_t n, int64_t size,
                              const REAL *turned, const REAL *strip, REAL *sums)
{
    for (int64_t e = 0; e < size; e++) {
        const REAL *line = turned + e / TILE_ROWS * TILE_ROWS * n + e % TILE_ROWS;
        for (int64_t c = 0; c < TILE_COLS; c++)
            for (int64_t r = mask->from; r < mask->to; r++)
                if (REAL_FN(is_seen)(mask, r, c))
                    sums[e * TILE_COLS + c] += strip[r * TILE_COLS + c] * line[r * TILE_ROWS];
    }
}

/* sums [size, TILE_COLS] += the elements of a block of n rows times the strip. */
static void REAL_FN(add_strip)(const REAL_FN(mask) * mask, int64_t n, int64_t size,
                               const REAL *turned, bool finite, const REAL *strip, REAL *sums)
{
    if (!finite && (!mask->all || mask->bias)) {
        REAL_FN(add_seen)(mask, n, size, turned, strip, sums);
        return;
    }
    for (int64_t e = 0; e < size; e += TILE_ROWS) REAL_FN(tile_apart)
    (mask->to - mask->from, turned + e * n + mask->from * TILE_ROWS, strip + mask->from * TILE_COLS,
     sums + e * TILE_COLS, sums + e * TILE_COLS);
}
