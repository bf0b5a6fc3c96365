/* backend/cpu/kernel/attention_body.h: attention with an online softmax (Milakov & Gimelshein 2018;
 * FlashAttention, Dao et al. 2022) for one REAL type (real.h). Included by attention.c after
 * tile_body.h, dot_body.h and exp_body.h.
 *
 * Keys are taken in blocks. A query's state is the largest score so far and the sum of exp(score -
 * largest); what it has summed of v is rescaled when the largest grows. A masked key weighs -0 and
 * is not multiplied with v, so a NaN in a masked value stays out, and one in a seen value does not.
 *
 * Few queries are done row by row on k and v where they lie; more in blocks of packed products. */
#ifndef ATTENTION_KEYS
#define ATTENTION_KEYS    128 /* a block */
#define ATTENTION_QUERIES 96  /* a block: 16 slivers */
#define REAL_MASKED                                                                                \
    (-(REAL)0) /* the weight of a masked key; of the others only a NaN may have a sign */
#endif

typedef struct REAL_FN(query) {
    REAL max, sum;
    bool seen; /* some key */
} REAL_FN(query);

/* ---- scores to weights ---------------------------------------------------------------------- */

/* s: a block's q k^T, padded to whole vectors. */
UM_INLINE void REAL_FN(scale_scores)(const attention_job *job, REAL *s, int64_t n)
{
    VREAL scale = VREAL_FN(set)((REAL)job->scale), cap = VREAL_FN(set)((REAL)job->softcap);
    for (int64_t i = 0; i < n; i += REAL_LANES) {
        VREAL x = VREAL_FN(load)(s + i) * scale;
        if (job->softcap > 0) x = cap * VREAL_FN(tanh)(x / cap);
        VREAL_FN(store)(s + i, x);
    }
}

/* Adds the bias of keys first .. first + n - 1, or masks; whether some key is left. */
static bool REAL_FN(add_bias)(const attention_job *job, int64_t bias_at, int64_t first, int64_t n,
                              REAL *s, bool *masked)
{
    REAL buffer[ATTENTION_KEYS];
    const um_view *bias = job->bias;
    bool is_mask = bias->dtype == UM_BOOL, seen = false;
    um_load(REAL_CLASS, buffer, bias->dtype, (const void *)(uintptr_t)bias->ptr,
            bias_at + first * bias->stride[3], bias->stride[3], n);
    for (int64_t i = 0; i < n; i++) {
        masked[i] = is_mask ? buffer[i] == 0 : buffer[i] == (REAL)-INFINITY;
        seen = seen || !masked[i];
        s[i] = masked[i] ? (REAL)-INFINITY : is_mask ? s[i] : s[i] + buffer[i];
    }
    return seen;
}

static bool REAL_FN(has_nan)(const REAL *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (s[i] != s[i]) return true;
    return false;
}

/* Turns the scores of n keys into weights in place. Gives the factor for what the query has summed
 * before. */
static REAL REAL_FN(weigh_seen)(int64_t n, REAL *s, REAL_FN(query) * query)
{
    REAL old = query->max, max = REAL_FN(line_max)(s, n);
    if (!(max > old)) max = old;
    if (max == (REAL)-INFINITY) { /* nothing but -inf so far, or NaN */
        if (REAL_FN(has_nan)(s, n)) query->sum = (REAL)NAN;
        for (int64_t i = 0; i < n; i++) s[i] = 0;
        return 1;
    }
    REAL factor = 1;
    if (old != max) factor = VREAL_FN(exp)(VREAL_FN(set)(old - max))[0];
    REAL part = REAL_FN(block_exp)(s, s, n, max);
    query->max = max;
    query->sum = query->sum * factor + part;
    return factor;
}

/* The same from the q k^T of n keys from `first` on, of which the query sees `range` by position.
 */
static REAL REAL_FN(weigh)(const attention_job *job, int64_t bias_at, int64_t first, int64_t n,
                           key_range range, REAL *s, REAL_FN(query) * query)
{
    bool masked[ATTENTION_KEYS];
    int64_t from = UM_MAX(range.first - first, 0), end = UM_MIN(range.end - first, n);
    bool seen = from < end;
    REAL factor = 1;
    if (seen) REAL_FN(scale_scores)(job, s, n);
    if (seen && job->bias)
        seen = REAL_FN(add_bias)(job, bias_at, first + from, end - from, s + from, masked + from);
    if (seen)
        factor = REAL_FN(weigh_seen)(end - from, s + from, query);
    else
        from = end = 0;
    query->seen = query->seen || seen;
    for (int64_t i = 0; i < from; i++) s[i] = REAL_MASKED;
    for (int64_t i = from; job->bias && i < end; i++) s[i] = masked[i] ? REAL_MASKED : s[i];
    for (int64_t i = end; i < n; i++) s[i] = REAL_MASKED;
    return factor;
}

/* What to multiply a query's sums with at the end. Seen keys that all score -inf: 0 / 0. */
static REAL REAL_FN(inverse_sum)(const REAL_FN(query) * query)
{
    return query->seen ? 1 / query->sum : 0;
}

/* A row of output, sum[i] * factor, in place of sum. No key seen: zeros, whatever sum holds. */
static void REAL_FN(put_row)(const attention_job *job, int64_t out_at, REAL *sum,
                             const REAL_FN(query) * query)
{
    REAL factor = REAL_FN(inverse_sum)(query);
    for (int64_t i = 0; i < job->dv; i++) sum[i] = query->seen ? sum[i] * factor : 0;
    um_store(job->out->dtype, (void *)(uintptr_t)job->out->ptr, out_at, job->out->stride[3],
             REAL_CLASS, sum, job->dv);
}

/* sum[i] = sum[i] * factor + weights times n rows of v from row `first` on, but those of
 * masked keys. buffer: n * dv, for rows that cannot be read in place. */
static void REAL_FN(add_values)(const attention_job *job, int64_t v_at, int64_t first, int64_t n,
                                const REAL *weight, REAL factor, REAL *sum, REAL *buffer)
{
    enum { L = REAL_LANES };
    const um_view *v = job->v;
    const void *data = (const void *)(uintptr_t)v->ptr;
    const REAL *rows = (const REAL *)data + v_at + first * v->stride[2];
    int64_t stride = v->stride[2], i = 0;
    if (!REAL_FN(line_is_direct)(v->dtype, v->stride[3], job->dv)) {
        for (int64_t j = 0; j < n; j++)
            um_load(REAL_CLASS, buffer + j * job->dv, v->dtype, data,
                    v_at + (first + j) * v->stride[2], v->stride[3], job->dv);
        rows = buffer, stride = job->dv;
    }
    for (; i + 4 * L <= job->dv; i += 4 * L) {
        VREAL f = VREAL_FN(set)(factor), a = f * VREAL_FN(load)(sum + i);
        VREAL b = f * VREAL_FN(load)(sum + i + L), c = f * VREAL_FN(load)(sum + i + 2 * L);
        VREAL d = f * VREAL_FN(load)(sum + i + 3 * L);
        for (int64_t j = 0; j < n; j++) {
            if (__builtin_signbit(weight[j])) continue;
            VREAL w = VREAL_FN(set)(weight[j]);
            const REAL *row = rows + j * stride + i;
            a = VREAL_FN(fma)(w, VREAL_FN(load)(row), a);
            b = VREAL_FN(fma)(w, VREAL_FN(load)(row + L), b);
            c = VREAL_FN(fma)(w, VREAL_FN(load)(row + 2 * L), c);
            d = VREAL_FN(fma)(w, VREAL_FN(load)(row + 3 * L), d);
        }
        VREAL_FN(store)(sum + i, a), VREAL_FN(store)(sum + i + L, b);
        VREAL_FN(store)(sum + i + 2 * L, c), VREAL_FN(store)(sum + i + 3 * L, d);
    }
    for (; i < job->dv; i += L) {
        int64_t part = UM_MIN(job->dv - i, L);
        VREAL a = VREAL_FN(set)(factor) * REAL_FN(load_rest)(sum + i, part, 0);
        for (int64_t j = 0; j < n; j++) {
            if (__builtin_signbit(weight[j])) continue;
            const REAL *row = rows + j * stride + i;
            VREAL value = part == L ? VREAL_FN(load)(row) : REAL_FN(load_part)(row, part);
            a = VREAL_FN(fma)(VREAL_FN(set)(weight[j]), value, a);
        }
        REAL_FN(store_part)(sum + i, a, part);
    }
}

/* ---- one query at a time -------------------------------------------------------------------- */

/* scores = q k^T of n keys from `first` on. buffer: 4 * d. */
static void REAL_FN(score_keys)(const attention_job *job, int64_t k_at, int64_t first, int64_t n,
                                const REAL *q, REAL *s, REAL *buffer)
{
    const um_view *k = job->k;
    const REAL *keys = (const REAL *)(uintptr_t)k->ptr;
    bool direct = REAL_FN(line_is_direct)(k->dtype, k->stride[3], job->d);
    for (int64_t j = 0; j < n; j += 4) {
        const REAL *row[4];
        for (int64_t i = 0; i < 4; i++) {
            int64_t at = k_at + (first + UM_MIN(j + i, n - 1)) * k->stride[2];
            row[i] = direct ? keys + at : buffer + i * job->d;
            if (!direct)
                um_load(REAL_CLASS, buffer + i * job->d, k->dtype, keys, at, k->stride[3], job->d);
        }
        REAL_FN(dot4)(row, q, job->d, s + j);
    }
}

static size_t REAL_FN(row_scratch)(const attention_job *job)
{
    bool direct = REAL_FN(line_is_direct)(job->v->dtype, job->v->stride[3], job->dv);
    return (size_t)(5 * job->d + (direct ? 1 : 1 + ATTENTION_KEYS) * job->dv) * sizeof(REAL);
}

static void REAL_FN(attend_row)(const attention_job *job, const head_at *at, int64_t index,
                                REAL *scratch)
{
    REAL s[ATTENTION_KEYS + 4], *buffer = scratch + job->d;
    REAL *sum = buffer + 4 * job->d, *values = sum + job->dv;
    const REAL *q =
        REAL_FN(line_load)(job->q->dtype, (const void *)(uintptr_t)job->q->ptr,
                           at->q + index * job->q->stride[2], job->q->stride[3], job->d, scratch);
    REAL_FN(query) query = {.max = (REAL)-INFINITY};
    key_range range = visible_keys(job, index, index);
    int64_t bias_at = job->bias ? at->bias + index * job->bias->stride[2] : 0;
    for (int64_t i = 0; i < job->dv; i++) sum[i] = 0;
    for (int64_t first = range.first; first < range.end; first += ATTENTION_KEYS) {
        int64_t n = UM_MIN(range.end - first, ATTENTION_KEYS);
        REAL_FN(score_keys)(job, at->k, first, n, q, s, buffer);
        REAL factor = REAL_FN(weigh)(job, bias_at, first, n, range, s, &query);
        REAL_FN(add_values)(job, at->v, first, n, s, factor, sum, values);
    }
    REAL_FN(put_row)(job, at->out + index * job->out->stride[2], sum, &query);
}

/* ---- a block of queries --------------------------------------------------------------------- */

/* All packed; sums are register tiles, one after the other down a column of tiles. */
typedef struct REAL_FN(block) {
    REAL *q, *k, *v;    /* [queries, D], [keys, D], [keys, Dv] in slivers */
    REAL *scores;       /* [ATTENTION_QUERIES, ATTENTION_KEYS] */
    REAL *weights;      /* the same in slivers */
    REAL *sums;         /* [ATTENTION_QUERIES, Dv] in register tiles */
    REAL *row, *values; /* a row of anything; buffer of add_values */
    REAL factor[ATTENTION_QUERIES];
    REAL_FN(query) query[ATTENTION_QUERIES];
    int64_t dv_padded;
} REAL_FN(block);

/* scratch NULL: only the size, in REALs. */
static size_t REAL_FN(block_layout)(const attention_job *job, REAL *scratch, REAL_FN(block) * b)
{
    enum { Q = ATTENTION_QUERIES, K = ATTENTION_KEYS };
    b->dv_padded = um_ceil_div(job->dv, TILE_COLS) * TILE_COLS;
    REAL **part[] = {&b->q, &b->k, &b->v, &b->scores, &b->weights, &b->sums, &b->row, &b->values};
    int64_t row = UM_MAX(UM_MAX(b->dv_padded, job->d), K);
    int64_t size[] = {Q * job->d,       K * job->d, K * b->dv_padded, Q * K, Q * K,
                      Q * b->dv_padded, row,        K * job->dv};
    size_t total = 0;
    for (size_t i = 0; i < UM_COUNT_OF(part); i++) {
        *part[i] = scratch ? scratch + total : NULL;
        total += (size_t)um_ceil_div(size[i], 16) * 16;
    }
    return total;
}

/* `count` rows of a view, as slivers of `width` rows. */
static void REAL_FN(pack_rows)(const um_view *x, int64_t at, int64_t count, int64_t size,
                               int64_t width, REAL *dst, REAL *buffer)
{
    for (int64_t i = 0; i < count; i += width) REAL_FN(pack)
    (dst + i * size, width, x->dtype, (const void *)(uintptr_t)x->ptr, at + i * x->stride[2],
     x->stride[2], x->stride[3], UM_MIN(count - i, width), size, buffer);
}

/* Whether all of v's block is finite. */
static bool REAL_FN(pack_values)(const attention_job *job, int64_t at, int64_t n,
                                 REAL_FN(block) * b)
{
    const um_view *v = job->v;
    for (int64_t j = 0; j < job->dv; j += TILE_COLS) REAL_FN(pack)
    (b->v + j * n, TILE_COLS, v->dtype, (const void *)(uintptr_t)v->ptr, at + j * v->stride[3],
     v->stride[3], v->stride[2], UM_MIN(job->dv - j, TILE_COLS), n, b->row);
    VREAL zero = {0};
    for (int64_t i = 0; i < n * b->dv_padded; i += REAL_LANES) zero += VREAL_FN(load)(b->v + i) * 0;
    return VREAL_FN(sum)(zero) == 0;
}

/* sums = sums * factor + weights * v */
static void REAL_FN(block_values)(const attention_job *job, int64_t rows, int64_t n,
                                  REAL_FN(block) * b)
{
    for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        REAL_FN(pack)
        (b->weights, TILE_ROWS, REAL_DTYPE, b->scores, i * ATTENTION_KEYS, ATTENTION_KEYS, 1,
         UM_MIN(rows - i, TILE_ROWS), n, NULL);
        for (int64_t j = 0; j < job->dv; j += TILE_COLS) {
            REAL *sum = b->sums + i * b->dv_padded + j * TILE_ROWS;
            for (int64_t r = 0; r < TILE_ROWS; r++)
                for (int64_t c = 0; c < TILE_COLS; c++) sum[r * TILE_COLS + c] *= b->factor[i + r];
            REAL_FN(tile_run)(n, b->weights, b->v + j * n, sum, TILE_COLS, sum);
        }
    }
}

/* Row r of the sums, out of the tiles or (put) back into them. */
static void REAL_FN(block_row)(const attention_job *job, const REAL_FN(block) * b, int64_t r,
                               bool put)
{
    REAL *tiles = b->sums + r / TILE_ROWS * TILE_ROWS * b->dv_padded + r % TILE_ROWS * TILE_COLS;
    for (int64_t j = 0; j < job->dv; j += TILE_COLS) {
        REAL *tile = tiles + j * TILE_ROWS;
        memcpy(put ? tile : b->row + j, put ? b->row + j : tile, TILE_COLS * sizeof(REAL));
    }
}

/* ... where v holds inf or NaN, which the weight of a masked key must not meet. */
static void REAL_FN(block_values_slowly)(const attention_job *job, int64_t v_at, int64_t first,
                                         int64_t rows, int64_t n, REAL_FN(block) * b)
{
    for (int64_t r = 0; r < rows; r++) {
        REAL_FN(block_row)(job, b, r, false);
        REAL_FN(add_values)
        (job, v_at, first, n, b->scores + r * ATTENTION_KEYS, b->factor[r], b->row, b->values);
        REAL_FN(block_row)(job, b, r, true);
    }
}

/* n keys from `first` on, for `rows` queries from query `index` on. */
static void REAL_FN(attend_keys)(const attention_job *job, const head_at *at, int64_t index,
                                 int64_t rows, int64_t first, int64_t n, REAL_FN(block) * b)
{
    REAL_FN(pack_rows)
    (job->k, at->k + first * job->k->stride[2], n, job->d, TILE_COLS, b->k, b->row);
    for (int64_t j = 0; j < n; j += TILE_COLS)
        for (int64_t i = 0; i < rows; i += TILE_ROWS) REAL_FN(tile_run)
    (job->d, b->q + i * job->d, b->k + j * job->d, b->scores + i * ATTENTION_KEYS + j,
     ATTENTION_KEYS, NULL);
    for (int64_t r = 0; r < rows; r++) {
        int64_t bias_at = job->bias ? at->bias + (index + r) * job->bias->stride[2] : 0;
        b->factor[r] =
            REAL_FN(weigh)(job, bias_at, first, n, visible_keys(job, index + r, index + r),
                           b->scores + r * ATTENTION_KEYS, &b->query[r]);
    }
    if (REAL_FN(pack_values)(job, at->v + first * job->v->stride[2], n, b))
        REAL_FN(block_values)(job, rows, n, b);
    else
        REAL_FN(block_values_slowly)(job, at->v, first, rows, n, b);
}

static void REAL_FN(attend_block)(const attention_job *job, const head_at *at, int64_t index,
                                  int64_t rows, REAL *scratch)
{
    REAL_FN(block) b;
    REAL_FN(block_layout)(job, scratch, &b);
    REAL_FN(pack_rows)
    (job->q, at->q + index * job->q->stride[2], rows, job->d, TILE_ROWS, b.q, b.row);
    memset(b.sums, 0, (size_t)(ATTENTION_QUERIES * b.dv_padded) * sizeof(REAL));
    for (int64_t r = 0; r < ATTENTION_QUERIES; r++) {
        b.query[r] = (REAL_FN(query)){.max = (REAL)-INFINITY};
        b.factor[r] = 1;
    }
    key_range range = visible_keys(job, index, index + rows - 1);
    for (int64_t first = range.first; first < range.end; first += ATTENTION_KEYS)
        REAL_FN(attend_keys)
    (job, at, index, rows, first, UM_MIN(range.end - first, ATTENTION_KEYS), &b);
    for (int64_t r = 0; r < rows; r++) {
        REAL_FN(block_row)(job, &b, r, false);
        REAL_FN(put_row)(job, at->out + (index + r) * job->out->stride[2], b.row, &b.query[r]);
    }
}
