/* backend/cpu/kernel/attention_grad_body.h: the gradients of attention for one REAL type (real.h),
 * in strips (attention_tile_body.h). Scores are made anew from q, k and the log-sum-exp, strip by
 * strip (Dao et al. 2022), and once for each of dq, (dk, dv) and dbias, so that every task has its
 * own part of one gradient and sums it in one order. Included by attention_grad.c.
 *
 *   p = exp(score - lse)   ds = p * (dout v^T - delta)   delta = sum(dout * out)
 *   dv = p^T dout   dbias = ds   dq = ds' k   dk = ds'^T q, with ds' = ds * scale * softcap's slope
 *
 * A task's own rows, the columns of its strips, are queries (q and dout) and meet keys (k and v),
 * or the other way round. */

typedef struct REAL_FN(grad) {
    REAL *col[2];      /* the task's own rows, in slivers of TILE_COLS over D, Dv */
    REAL *row[2];      /* a block of the others, in slivers of TILE_ROWS */
    REAL *turned[2];   /* the same in slivers of TILE_ROWS of D, Dv over the rows */
    REAL *strip[2];    /* scores, then p; dout v^T, then ds */
    REAL *bias;        /* of a strip */
    REAL *sum[2];      /* a sliver of own rows [D or Dv, TILE_COLS], for dbias [rows, TILE_COLS] */
    REAL *lse, *delta; /* of the queries, own or of the block */
    REAL *buffer;      /* rows; lines of dout and out */
    int64_t size[2], padded[2];
    bool own_keys;
    bool finite[2]; /* the block */
} REAL_FN(grad);

/* scratch NULL: only the size, in REALs. */
static size_t REAL_FN(grad_layout)(const attention_job *job, REAL *scratch, REAL_FN(grad) * g)
{
    enum { R = ATTENTION_ROWS, C = ATTENTION_COLS };
    int64_t d = job->d, dv = job->dv, most = UM_MAX(UM_MAX(d, dv), 1);
    g->size[0] = d, g->size[1] = dv;
    g->padded[0] = REAL_FN(sliver_rows)(d), g->padded[1] = REAL_FN(sliver_rows)(dv);
    REAL **part[] = {&g->col[0],    &g->col[1],   &g->row[0],   &g->row[1], &g->turned[0],
                     &g->turned[1], &g->strip[0], &g->strip[1], &g->bias,   &g->sum[0],
                     &g->sum[1],    &g->lse,      &g->delta,    &g->buffer};
    int64_t size[] = {C * d,
                      C * dv,
                      R * d,
                      R * dv,
                      R * g->padded[0],
                      R * g->padded[1],
                      R * TILE_COLS,
                      R * TILE_COLS,
                      R * TILE_COLS,
                      C * UM_MAX(g->padded[0], job->dbias ? R : 0),
                      C * g->padded[1],
                      C,
                      C,
                      UM_MAX(C * UM_MAX(most, 2), TILE_COLS * R)};
    size_t total = 0;
    for (size_t i = 0; i < UM_COUNT_OF(part); i++) {
        *part[i] = scratch ? scratch + total : NULL;
        total += (size_t)um_ceil_div(size[i], 16) * 16;
    }
    return total;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Input `which` (0: for scores, 1: for dout v^T) of the queries' side or the keys'. */
static REAL_FN(rows)
    REAL_FN(open_side)(const attention_job *job, const attention_head *at, bool keys, int32_t which,
                       int64_t first, int64_t n, REAL *buffer)
{
    const um_view *x = keys ? (which ? job->v : job->k) : (which ? job->dout : job->q);
    return REAL_FN(open_rows)(x, attention_at(x, at->b, keys ? at->kv : at->h), first, n, buffer);
}

/* lse and delta of n queries. */
static void REAL_FN(load_stats)(const attention_job *job, const attention_head *at, int64_t first,
                                int64_t n, REAL_FN(grad) * g)
{
    const um_view *lse = job->lse, *out = job->out, *dout = job->dout;
    int64_t out_at = attention_at(out, at->b, at->h), dout_at = attention_at(dout, at->b, at->h);
    um_load(REAL_CLASS, g->lse, lse->dtype, (const void *)(uintptr_t)lse->ptr,
            attention_at(lse, at->b, at->h) + first * lse->stride[2], lse->stride[2], n);
    for (int64_t i = 0; i < n; i++) {
        const REAL *x = REAL_FN(line_load)(out->dtype, (const void *)(uintptr_t)out->ptr,
                                           out_at + (first + i) * out->stride[2], out->stride[3],
                                           job->dv, g->buffer);
        const REAL *y = REAL_FN(line_load)(dout->dtype, (const void *)(uintptr_t)dout->ptr,
                                           dout_at + (first + i) * dout->stride[2], dout->stride[3],
                                           job->dv, g->buffer + job->dv);
        VREAL sum = {0};
        for (int64_t e = 0; e < job->dv; e += REAL_LANES) {
            int64_t part = UM_MIN(job->dv - e, REAL_LANES);
            sum = VREAL_FN(fma)(REAL_FN(load_part)(x + e, part), REAL_FN(load_part)(y + e, part),
                                sum);
        }
        g->delta[i] = VREAL_FN(sum)(sum);
    }
}

static void REAL_FN(load_own)(const attention_job *job, const attention_head *at, bool own_keys,
                              int64_t first, int64_t n, REAL_FN(grad) * g)
{
    g->own_keys = own_keys;
    for (int32_t i = 0; i < 2; i++) {
        REAL_FN(rows)
        x = REAL_FN(open_side)(job, at, own_keys, i, first, n, g->buffer);
        REAL_FN(pack_rows)(&x, TILE_COLS, g->col[i]);
    }
    if (own_keys) return;
    for (int64_t i = 0; i < REAL_FN(sliver_cols)(n); i++) g->lse[i] = g->delta[i] = 0;
    REAL_FN(load_stats)(job, at, first, n, g);
}

/* A block of the other side, the first `turned` of its tensors in the second form, too. */
static void REAL_FN(load_block)(const attention_job *job, const attention_head *at, int64_t first,
                                int64_t n, int32_t turned, REAL_FN(grad) * g)
{
    for (int32_t i = 0; i < 2; i++) {
        REAL_FN(rows)
        x = REAL_FN(open_side)(job, at, !g->own_keys, i, first, n, g->buffer);
        REAL_FN(pack_rows)(&x, TILE_ROWS, g->row[i]);
        if (i >= turned) continue;
        REAL_FN(pack_turned_rows)(&x, g->turned[i]);
        g->finite[i] = REAL_FN(all_finite)(g->turned[i], n * g->padded[i]);
    }
    if (g->own_keys) REAL_FN(load_stats)(job, at, first, n, g);
}

/* ---- a strip -------------------------------------------------------------------------------- */

/* Lanes c .. of the strips: p, and ds or, for the products, ds'. Masked: 0. own: the lanes' place
 * among the task's rows. */
UM_INLINE void REAL_FN(lanes_grad)(const attention_job *job, const REAL_FN(mask) * mask,
                                   int64_t own, int64_t c, bool sloped, REAL_FN(grad) * g)
{
    VREAL zero = {0}, t = zero, scale = VREAL_FN(set)((REAL)job->scale);
    VREAL lse = zero, delta = zero;
    if (!g->own_keys)
        lse = VREAL_FN(load)(g->lse + own + c), delta = VREAL_FN(load)(g->delta + own + c);
    for (int64_t r = mask->from; r < mask->to; r++) {
        REAL *x = g->strip[0] + r * TILE_COLS + c, *y = g->strip[1] + r * TILE_COLS + c;
        if (g->own_keys) lse = VREAL_FN(set)(g->lse[r]), delta = VREAL_FN(set)(g->delta[r]);
        VREAL score = REAL_FN(finish_score)(job, mask, VREAL_FN(load)(x), r, c, &t);
        VREAL p = VREAL_FN(exp)(score - lse), ds = p * (VREAL_FN(load)(y) - delta);
        if (sloped && job->softcap > 0) ds *= 1 - t * t;
        if (sloped) ds *= scale;
        if (!mask->all || mask->bias) {
            VMASK seen = REAL_FN(lanes_seen)(mask, r, c);
            p = VREAL_FN(select)(seen, p, zero), ds = VREAL_FN(select)(seen, ds, zero);
        }
        VREAL_FN(store)(x, p), VREAL_FN(store)(y, ds);
    }
}

/* p and ds of the sliver of own rows at `own` of the task, which starts at row `index`, and the
 * block of n rows from `first` on. false: none sees another. */
static bool REAL_FN(grad_strip)(const attention_job *job, const attention_head *at, int64_t index,
                                int64_t own, int64_t cols, int64_t first, int64_t n, bool sloped,
                                REAL_FN(mask) * mask, REAL_FN(grad) * g)
{
    const um_view *bias = job->bias;
    mask->bias = bias ? g->bias : NULL;
    REAL_FN(find_mask)(job, at, g->own_keys, index + own, cols, first, n, mask);
    if (mask->from >= mask->to) return false;
    if (bias) {
        int64_t col = bias->stride[g->own_keys ? 3 : 2], row = bias->stride[g->own_keys ? 2 : 3];
        REAL_FN(pack_bias)
        (bias, attention_bias_at(bias, at) + (index + own) * col + first * row, col, row, cols, n,
         g->bias, g->buffer);
    }
    for (int32_t i = 0; i < 2; i++) REAL_FN(strip_product)
    (mask, g->size[i], g->row[i], g->col[i] + own * g->size[i], g->strip[i]);
    for (int64_t c = 0; c < TILE_COLS; c += REAL_LANES)
        if (sloped)
            REAL_FN(lanes_grad)(job, mask, own, c, true, g);
        else
            REAL_FN(lanes_grad)(job, mask, own, c, false, g);
    return true;
}

/* ---- dq, and dk with dv --------------------------------------------------------------------- */

/* What the others that one head has add to the own rows' sums. */
static void REAL_FN(sum_head)(const attention_job *job, const attention_head *at, int64_t index,
                              int64_t rows, REAL_FN(grad) * g)
{
    REAL_FN(mask) mask;
    attention_span reach = attention_reach(job, at, g->own_keys, index, rows);
    for (int64_t first = reach.first; first < reach.end; first += ATTENTION_ROWS) {
        int64_t n = UM_MIN(reach.end - first, ATTENTION_ROWS);
        REAL_FN(load_block)(job, at, first, n, g->own_keys ? 2 : 1, g);
        for (int64_t own = 0; own < rows; own += TILE_COLS) {
            int64_t cols = UM_MIN(rows - own, TILE_COLS);
            if (!REAL_FN(grad_strip)(job, at, index, own, cols, first, n, true, &mask, g)) continue;
            REAL_FN(add_strip)
            (&mask, n, job->d, g->turned[0], g->finite[0], g->strip[1],
             g->sum[0] + own * g->padded[0]);
            if (g->own_keys) REAL_FN(add_strip)
            (&mask, n, job->dv, g->turned[1], g->finite[1], g->strip[0],
             g->sum[1] + own * g->padded[1]);
        }
    }
}

static void REAL_FN(put_sums)(const um_view *x, int64_t at, int64_t index, int64_t rows,
                              int32_t which, REAL_FN(grad) * g)
{
    for (int64_t own = 0; own < rows; own += TILE_COLS) REAL_FN(put_columns)
    (x, at + (index + own) * x->stride[2], UM_MIN(rows - own, TILE_COLS), g->size[which],
     g->sum[which] + own * g->padded[which], g->buffer);
}

static void REAL_FN(clear_sums)(REAL_FN(grad) * g)
{
    for (int32_t i = 0; i < 2; i++)
        memset(g->sum[i], 0, (size_t)(ATTENTION_COLS * g->padded[i]) * sizeof(REAL));
}

static void REAL_FN(grad_queries)(const attention_job *job, int64_t b, int64_t h, int64_t index,
                                  int64_t rows, REAL *scratch)
{
    REAL_FN(grad) g;
    REAL_FN(grad_layout)(job, scratch, &g);
    attention_head at = attention_head_of(job, b, h);
    REAL_FN(clear_sums)(&g);
    REAL_FN(load_own)(job, &at, false, index, rows, &g);
    REAL_FN(sum_head)(job, &at, index, rows, &g);
    REAL_FN(put_sums)(job->dq, attention_at(job->dq, b, h), index, rows, 0, &g);
}

static void REAL_FN(grad_keys)(const attention_job *job, int64_t b, int64_t kv, int64_t index,
                               int64_t rows, REAL *scratch)
{
    REAL_FN(grad) g;
    REAL_FN(grad_layout)(job, scratch, &g);
    attention_head at = attention_head_of(job, b, kv * job->group);
    REAL_FN(clear_sums)(&g);
    REAL_FN(load_own)(job, &at, true, index, rows, &g);
    for (int64_t i = 0; i < job->group && job->heads > 0; i++, at.h++) REAL_FN(sum_head)
    (job, &at, index, rows, &g);
    REAL_FN(put_sums)(job->dk, attention_at(job->dk, b, kv), index, rows, 0, &g);
    REAL_FN(put_sums)(job->dv_out, attention_at(job->dv_out, b, kv), index, rows, 1, &g);
}

/* ---- dbias ---------------------------------------------------------------------------------- */

/* What one head adds to the bias of `rows` queries and n keys. */
static void REAL_FN(add_bias_grad)(const attention_job *job, const attention_head *at,
                                   int64_t index, int64_t rows, int64_t first, int64_t n,
                                   REAL_FN(grad) * g)
{
    REAL_FN(mask) mask;
    attention_span reach = attention_reach(job, at, false, index, rows);
    if (reach.first >= first + n || reach.end <= first) return;
    REAL_FN(load_own)(job, at, false, index, rows, g);
    REAL_FN(load_block)(job, at, first, n, 0, g);
    for (int64_t own = 0; own < rows; own += TILE_COLS) {
        int64_t cols = UM_MIN(rows - own, TILE_COLS);
        REAL *sum = g->sum[0] + own * ATTENTION_ROWS;
        if (!REAL_FN(grad_strip)(job, at, index, own, cols, first, n, false, &mask, g)) continue;
        for (int64_t i = mask.from * TILE_COLS; i < mask.to * TILE_COLS; i++)
            sum[i] += g->strip[1][i];
    }
}

/* The gradient of the bias (b, h), which may stand for many, for some queries and keys. */
static void REAL_FN(grad_bias)(const attention_job *job, int64_t b, int64_t h, int64_t index,
                               int64_t rows, int64_t first, int64_t n, REAL *scratch)
{
    const um_view *dbias = job->dbias;
    int64_t batch = dbias->shape[0] == 1 ? job->batch : b + 1;
    int64_t heads = dbias->shape[1] == 1 ? job->heads : h + 1;
    REAL_FN(grad) g;
    REAL_FN(grad_layout)(job, scratch, &g);
    memset(g.sum[0], 0, sizeof(REAL) * ATTENTION_COLS * ATTENTION_ROWS);
    for (int64_t i = dbias->shape[0] == 1 ? 0 : b; i < batch; i++)
        for (int64_t j = dbias->shape[1] == 1 ? 0 : h; j < heads; j++) {
            attention_head at = attention_head_of(job, i, j);
            REAL_FN(add_bias_grad)(job, &at, index, rows, first, n, &g);
        }
    for (int64_t own = 0; own < rows; own += TILE_COLS) REAL_FN(put_columns)
    (dbias, attention_at(dbias, b, h) + (index + own) * dbias->stride[2] + first * dbias->stride[3],
     UM_MIN(rows - own, TILE_COLS), n, g.sum[0] + own * ATTENTION_ROWS, g.buffer);
}

/* ---- dsinks --------------------------------------------------------------------------------- */

static bool REAL_FN(sees_a_key)(const attention_job *job, const attention_head *at, int64_t query,
                                REAL *buffer)
{
    attention_span span = attention_keys_of(job, at, query);
    const um_view *bias = job->bias;
    if (!bias) return span.first < span.end;
    int64_t bias_at = attention_bias_at(bias, at) + query * bias->stride[2];
    for (int64_t first = span.first; first < span.end; first += ATTENTION_COLS) {
        int64_t n = UM_MIN(span.end - first, ATTENTION_COLS);
        um_load(REAL_CLASS, buffer, bias->dtype, (const void *)(uintptr_t)bias->ptr,
                bias_at + first * bias->stride[3], bias->stride[3], n);
        for (int64_t j = 0; j < n; j++)
            if (bias->dtype == UM_BOOL ? buffer[j] != 0 : buffer[j] != (REAL)-INFINITY) return true;
    }
    return false;
}

static void REAL_FN(grad_sink)(const attention_job *job, int64_t h, REAL *scratch)
{
    REAL sink, sum = 0, low = 0;
    REAL_FN(grad) g;
    REAL_FN(grad_layout)(job, scratch, &g);
    um_load(REAL_CLASS, &sink, job->sinks->dtype, (const void *)(uintptr_t)job->sinks->ptr,
            h * job->sinks->stride[0], 1, 1);
    for (int64_t b = 0; b < job->batch; b++) {
        attention_head at = attention_head_of(job, b, h);
        for (int64_t i = 0; i < at.queries; i++) {
            if (!REAL_FN(sees_a_key)(job, &at, i, g.buffer)) continue;
            REAL_FN(load_stats)(job, &at, i, 1, &g);
            REAL p = VREAL_FN(exp)(VREAL_FN(set)(sink - g.lse[0]))[0], ds = -p * g.delta[0];
            REAL_FN(sum_add)(&sum, &low, &ds, 1);
        }
    }
    REAL_FN(sum_close)(&sum, &low, 1);
    um_store(job->dsinks->dtype, (void *)(uintptr_t)job->dsinks->ptr, h * job->dsinks->stride[0], 1,
             REAL_CLASS, &sum, 1);
}
