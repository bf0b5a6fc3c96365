/* backend/cpu/kernel/attention_body.h: attention with an online softmax (Milakov & Gimelshein 2018)
 * for one REAL type (real.h), a query at a time on k and v where they lie: for few queries.
 * Included by attention.c after dot_body.h and exp_body.h.
 *
 * Keys are taken in blocks. A query's state is the largest score so far and the sum of exp(score -
 * largest); what it has summed of v is rescaled when the largest grows. A masked key weighs -0 and
 * is not multiplied with v, so a NaN in a masked value stays out, and one in a seen value does not.
 */
#ifndef ATTENTION_KEYS
#define ATTENTION_KEYS 128 /* a block */
#define REAL_MASKED                                                                                \
    (-(REAL)0) /* the weight of a masked key; of the others only a NaN may have a sign */
#endif

typedef struct REAL_FN(query) {
    REAL max, sum;
    bool seen; /* some key */
} REAL_FN(query);

/* ---- the sink and the log-sum-exp ----------------------------------------------------------- */

/* The sum of exp(score - *max) before there is any key: of the sink alone. */
static REAL REAL_FN(first_sum)(const attention_job *job, const attention_head *at, REAL *max)
{
    *max = (REAL)-INFINITY;
    if (!job->sinks) return 0;
    um_load(REAL_CLASS, max, job->sinks->dtype, (const void *)(uintptr_t)job->sinks->ptr,
            at->h * job->sinks->stride[0], 1, 1);
    return *max == (REAL)-INFINITY ? 0 : 1 + (*max - *max); /* NaN for inf and NaN */
}

static void REAL_FN(put_lse)(const attention_job *job, const attention_head *at, int64_t index,
                             REAL max, REAL sum)
{
    const um_view *lse = job->lse;
    REAL *data = (REAL *)(uintptr_t)lse->ptr + attention_at(lse, at->b, at->h);
    if (max != (REAL)INFINITY) max += VREAL_FN(log)(VREAL_FN(set)(sum))[0];
    data[index * lse->stride[2]] = max;
}

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
    /* The sum is NaN from here on: that a score was has to be known for the log-sum-exp. */
    if (max == (REAL)INFINITY &&
        (REAL_FN(has_nan)(s, n) || (old < max && query->sum != query->sum)))
        max = (REAL)NAN;
    REAL factor = 1;
    if (old != max) factor = VREAL_FN(exp)(VREAL_FN(set)(old - max))[0];
    REAL part = REAL_FN(block_exp)(s, s, n, max);
    query->max = max;
    query->sum = query->sum * factor + part;
    return factor;
}

/* The same from the q k^T of n keys from `first` on, of which the query sees `span` by position.
 */
static REAL REAL_FN(weigh)(const attention_job *job, int64_t bias_at, int64_t first, int64_t n,
                           attention_span span, REAL *s, REAL_FN(query) * query)
{
    bool masked[ATTENTION_KEYS];
    int64_t from = UM_MAX(span.first - first, 0), end = UM_MIN(span.end - first, n);
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

static void REAL_FN(attend_row)(const attention_job *job, const attention_head *at, int64_t index,
                                REAL *scratch)
{
    REAL s[ATTENTION_KEYS + 4], *buffer = scratch + job->d;
    REAL *sum = buffer + 4 * job->d, *values = sum + job->dv;
    int64_t q_at = attention_at(job->q, at->b, at->h),
            out_at = attention_at(job->out, at->b, at->h);
    int64_t k_at = attention_at(job->k, at->b, at->kv), v_at = attention_at(job->v, at->b, at->kv);
    const REAL *q =
        REAL_FN(line_load)(job->q->dtype, (const void *)(uintptr_t)job->q->ptr,
                           q_at + index * job->q->stride[2], job->q->stride[3], job->d, scratch);
    REAL_FN(query) query = {.seen = false};
    query.sum = REAL_FN(first_sum)(job, at, &query.max);
    attention_span span = attention_keys_of(job, at, index);
    int64_t bias_at = 0;
    if (job->bias) bias_at = attention_bias_at(job->bias, at) + index * job->bias->stride[2];
    for (int64_t i = 0; i < job->dv; i++) sum[i] = 0;
    for (int64_t first = span.first; first < span.end; first += ATTENTION_KEYS) {
        int64_t n = UM_MIN(span.end - first, ATTENTION_KEYS);
        REAL_FN(score_keys)(job, k_at, first, n, q, s, buffer);
        REAL factor = REAL_FN(weigh)(job, bias_at, first, n, span, s, &query);
        REAL_FN(add_values)(job, v_at, first, n, s, factor, sum, values);
    }
    REAL_FN(put_row)(job, out_at + index * job->out->stride[2], sum, &query);
    if (job->lse) REAL_FN(put_lse)(job, at, index, query.max, query.sum);
}
