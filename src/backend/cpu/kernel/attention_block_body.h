/* backend/cpu/kernel/attention_block_body.h: attention of many queries at once, for one REAL type
 * (real.h): FlashAttention's loop (Dao et al. 2022) in strips (attention_tile_body.h), a query a
 * lane. Included by attention.c. */

typedef struct REAL_FN(block) {
    REAL *q;                /* the task's, in slivers of TILE_COLS over D */
    REAL *k, *v;            /* a block of keys: slivers of TILE_ROWS over D, of Dv over the keys */
    REAL *strip;            /* scores, then weights */
    REAL *bias;             /* of a strip */
    REAL *sums;             /* a sliver of queries [Dv, TILE_COLS] */
    REAL *buffer;           /* rows, a line */
    REAL *max, *sum, *seen; /* of each query; seen: 1 when there is a key */
    int64_t dv_padded;
    bool finite; /* v's block */
} REAL_FN(block);

/* scratch NULL: only the size, in REALs. */
static size_t REAL_FN(block_layout)(const attention_job *job, REAL *scratch, REAL_FN(block) * b)
{
    enum { R = ATTENTION_ROWS };
    b->dv_padded = REAL_FN(sliver_rows)(job->dv);
    int64_t cols = REAL_FN(sliver_cols)(job->rows_a_task), most = UM_MAX(job->d, job->dv);
    REAL **part[] = {&b->q,    &b->k,      &b->v,   &b->strip, &b->bias,
                     &b->sums, &b->buffer, &b->max, &b->sum,   &b->seen};
    int64_t size[] = {cols * job->d,
                      R * job->d,
                      R * b->dv_padded,
                      R * TILE_COLS,
                      R * TILE_COLS,
                      cols * b->dv_padded,
                      UM_MAX(cols, R) * UM_MAX(most, 1),
                      cols,
                      cols,
                      cols};
    size_t total = 0;
    for (size_t i = 0; i < UM_COUNT_OF(part); i++) {
        *part[i] = scratch ? scratch + total : NULL;
        total += (size_t)um_ceil_div(size[i], 16) * 16;
    }
    return total;
}

/* Finishes the strip's scores, lanes c .., masked ones -inf. Gives their largest; NaN does not
 * count. */
UM_INLINE VREAL REAL_FN(lanes_max)(const attention_job *job, const REAL_FN(mask) * mask, int64_t c,
                                   REAL *strip, VREAL max, VREAL *seen)
{
    VREAL t, one = VREAL_FN(set)(1), none = VREAL_FN(set)((REAL)-INFINITY), other = none;
    int64_t r = mask->from;
    if (mask->all && !mask->bias && job->softcap == 0) {
        VREAL scale = VREAL_FN(set)((REAL)job->scale);
        for (; r + 2 <= mask->to; r += 2) { /* two chains: a comparison takes its time */
            REAL *p = strip + r * TILE_COLS + c;
            VREAL x = VREAL_FN(load)(p) * scale, y = VREAL_FN(load)(p + TILE_COLS) * scale;
            VREAL_FN(store)(p, x), VREAL_FN(store)(p + TILE_COLS, y);
            max = REAL_FN(vmax)(x, max), other = REAL_FN(vmax)(y, other);
        }
        *seen = one;
    }
    for (; r < mask->to; r++) {
        VREAL x = VREAL_FN(load)(strip + r * TILE_COLS + c);
        VMASK m = REAL_FN(lanes_seen)(mask, r, c);
        x = VREAL_FN(select)(m, REAL_FN(finish_score)(job, mask, x, r, c, &t), none);
        VREAL_FN(store)(strip + r * TILE_COLS + c, x);
        max = REAL_FN(vmax)(x, max);
        *seen = VREAL_FN(select)(m, one, *seen);
    }
    return REAL_FN(vmax)(max, other);
}

/* A score of +inf makes the sum NaN; the log-sum-exp is then +inf unless a score is, or was, NaN.
 */
static VREAL REAL_FN(nan_beside_inf)(const REAL_FN(mask) * mask, int64_t c, const REAL *strip,
                                     VREAL old, VREAL sum, VREAL max)
{
    VMASK nan = (VMASK)(old != max) & (VMASK)(sum != sum);
    for (int64_t r = mask->from; r < mask->to; r++) {
        VREAL x = VREAL_FN(load)(strip + r * TILE_COLS + c);
        nan |= (VMASK)(x != x);
    }
    nan &= (VMASK)(max == VREAL_FN(set)((REAL)INFINITY));
    return VREAL_FN(select)(nan, VREAL_FN(set)((REAL)NAN), max);
}

/* The strip's exp(score - max), in place, and their sum. */
UM_INLINE VREAL REAL_FN(lanes_exp)(const REAL_FN(mask) * mask, int64_t c, REAL *strip, VREAL max)
{
    VREAL a = {0}, b = {0};
    int64_t r = mask->from;
    for (; r + 2 <= mask->to; r += 2) {
        REAL *x = strip + r * TILE_COLS + c, *y = x + TILE_COLS;
        VREAL e = VREAL_FN(exp)(VREAL_FN(load)(x) - max);
        VREAL f = VREAL_FN(exp)(VREAL_FN(load)(y) - max);
        VREAL_FN(store)(x, e), VREAL_FN(store)(y, f);
        a += e, b += f;
    }
    if (r < mask->to) {
        REAL *x = strip + r * TILE_COLS + c;
        VREAL e = VREAL_FN(exp)(VREAL_FN(load)(x) - max);
        VREAL_FN(store)(x, e);
        a += e;
    }
    return a + b;
}

/* Scores to weights. What the queries have summed before is rescaled to their new largest. */
static void REAL_FN(weigh_strip)(const attention_job *job, const REAL_FN(mask) * mask, int64_t own,
                                 REAL_FN(block) * b)
{
    REAL *sums = b->sums + own * b->dv_padded;
    for (int64_t c = 0; c < TILE_COLS; c += REAL_LANES) {
        VREAL old = VREAL_FN(load)(b->max + own + c), seen = VREAL_FN(load)(b->seen + own + c);
        VREAL sum = VREAL_FN(load)(b->sum + own + c);
        VREAL max = REAL_FN(lanes_max)(job, mask, c, b->strip, old, &seen);
        if (VREAL_FN(sum)(max - max) != 0) /* -inf, inf or NaN */
            max = REAL_FN(nan_beside_inf)(mask, c, b->strip, old, sum, max);
        /* Nothing but -inf so far: exp(-inf - 0) = 0. */
        VREAL top = VREAL_FN(select)((VMASK)(max == (REAL)-INFINITY), VREAL_FN(set)(0), max);
        VREAL factor = VREAL_FN(exp)(old - top);
        VREAL part = REAL_FN(lanes_exp)(mask, c, b->strip, top);
        VREAL_FN(store)(b->sum + own + c, sum * factor + part);
        VREAL_FN(store)(b->max + own + c, max);
        VREAL_FN(store)(b->seen + own + c, seen);
        for (int64_t e = 0; e < b->dv_padded; e++) {
            REAL *at = sums + e * TILE_COLS + c;
            VREAL_FN(store)(at, VREAL_FN(load)(at) * factor);
        }
    }
}

/* n keys from `first` on, for `rows` queries from query `index` on. */
static void REAL_FN(attend_keys)(const attention_job *job, const attention_head *at, int64_t index,
                                 int64_t rows, int64_t first, int64_t n, REAL_FN(block) * b)
{
    const um_view *bias = job->bias;
    REAL_FN(mask) mask = {.bias = bias ? b->bias : NULL};
    REAL_FN(rows)
    k = REAL_FN(open_rows)(job->k, attention_at(job->k, at->b, at->kv), first, n, b->buffer);
    REAL_FN(pack_rows)(&k, TILE_ROWS, b->k);
    REAL_FN(rows)
    v = REAL_FN(open_rows)(job->v, attention_at(job->v, at->b, at->kv), first, n, b->buffer);
    REAL_FN(pack_turned_rows)(&v, b->v);
    b->finite = REAL_FN(all_finite)(b->v, n * b->dv_padded);
    for (int64_t i = 0; i < rows; i += TILE_COLS) {
        int64_t cols = UM_MIN(rows - i, TILE_COLS);
        REAL_FN(find_mask)(job, at, false, index + i, cols, first, n, &mask);
        if (mask.from >= mask.to) continue;
        if (bias) REAL_FN(pack_bias)
        (bias,
         attention_bias_at(bias, at) + (index + i) * bias->stride[2] + first * bias->stride[3],
         bias->stride[2], bias->stride[3], cols, n, b->bias, b->buffer);
        REAL_FN(strip_product)(&mask, job->d, b->k, b->q + i * job->d, b->strip);
        REAL_FN(weigh_strip)(job, &mask, i, b);
        REAL_FN(add_strip)
        (&mask, n, job->dv, b->v, b->finite, b->strip, b->sums + i * b->dv_padded);
    }
}

/* The sliver of queries at `own` of the task, which starts at query `index`. */
static void REAL_FN(put_sliver)(const attention_job *job, const attention_head *at, int64_t index,
                                int64_t own, int64_t cols, REAL_FN(block) * b)
{
    const um_view *out = job->out;
    REAL *sums = b->sums + own * b->dv_padded;
    for (int64_t c = 0; c < TILE_COLS; c += REAL_LANES) {
        VREAL zero = {0}, one = VREAL_FN(set)(1);
        VMASK seen = (VMASK)(VREAL_FN(load)(b->seen + own + c) != zero);
        VREAL factor = one / VREAL_FN(load)(b->sum + own + c); /* keys that all score -inf: 0 / 0 */
        for (int64_t e = 0; e < job->dv; e++) {
            REAL *sum = sums + e * TILE_COLS + c;
            VREAL_FN(store)(sum, VREAL_FN(select)(seen, VREAL_FN(load)(sum) * factor, zero));
        }
    }
    REAL_FN(put_columns)
    (out, attention_at(out, at->b, at->h) + (index + own) * out->stride[2], cols, job->dv, sums,
     b->buffer);
    for (int64_t i = own; job->lse && i < own + cols; i++)
        REAL_FN(put_lse)(job, at, index + i, b->max[i], b->sum[i]);
}

static void REAL_FN(attend_block)(const attention_job *job, const attention_head *at, int64_t index,
                                  int64_t rows, REAL *scratch)
{
    REAL_FN(block) b;
    REAL_FN(block_layout)(job, scratch, &b);
    REAL_FN(rows)
    q = REAL_FN(open_rows)(job->q, attention_at(job->q, at->b, at->h), index, rows, b.buffer);
    REAL_FN(pack_rows)(&q, TILE_COLS, b.q);
    memset(b.sums, 0, (size_t)(REAL_FN(sliver_cols)(rows) * b.dv_padded) * sizeof(REAL));
    REAL max, sum = REAL_FN(first_sum)(job, at, &max);
    for (int64_t i = 0; i < REAL_FN(sliver_cols)(rows); i++)
        b.max[i] = max, b.sum[i] = sum, b.seen[i] = 0;
    attention_span reach = attention_reach(job, at, false, index, rows);
    for (int64_t first = reach.first; first < reach.end; first += ATTENTION_ROWS)
        REAL_FN(attend_keys)
    (job, at, index, rows, first, UM_MIN(reach.end - first, ATTENTION_ROWS), &b);
    for (int64_t own = 0; own < rows; own += TILE_COLS)
        REAL_FN(put_sliver)(job, at, index, own, UM_MIN(rows - own, TILE_COLS), &b);
}
