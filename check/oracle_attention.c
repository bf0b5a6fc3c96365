/* check/oracle_attention.c: softmax(scale * q k^T, capped, + bias, masked) v, one query at a time.
 * A masked key does not exist: its key and value are not looked at.
 */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

typedef struct shape {
    int64_t heads, kv_heads, queries, keys, d, dv;
} shape;

/* One key as a query sees it. */
typedef struct seen {
    bool visible;
    long double score; /* then exp(score - max) */
    double off;        /* how far a kernel's score may be off */
} seen;

typedef struct query {
    const um_op *op;
    shape s;
    um_dtype work;
    const um_num *q, *k, *v; /* of this query; of its head's keys and values */
    const um_array *bias;    /* NULL: none */
    int64_t bias_first;      /* its element for key 0 */
    int64_t number;
    seen *keys;
    bool overflows;
} query;

/* Whether the position rules let the query see key j. */
static bool is_in_reach(const query *at, int64_t j)
{
    int32_t causal = at->op->attrs.attention.causal;
    int64_t window = at->op->attrs.attention.window;
    int64_t own = at->number;
    if (causal != UM_CAUSAL_TOP_LEFT) own += at->s.keys - at->s.queries;
    if (causal == UM_CAUSAL_NONE && window == 0) return true;
    return j <= own && (window == 0 || j > own - window);
}

/* The bias of key j; false: masked. A bias of -inf masks, too. */
static bool get_bias(const query *at, int64_t j, long double *bias)
{
    *bias = 0;
    if (!at->bias) return true;
    um_num value = at->bias->item[at->bias_first + j];
    if (at->bias->dtype == UM_BOOL) return value.i != 0;
    *bias = (long double)value.f;
    return !(isinf(*bias) && *bias < 0);
}

static void score_key(query *at, int64_t j, long double scale)
{
    seen *key = &at->keys[j];
    um_total total = {0};
    long double bias, softcap = (long double)at->op->attrs.attention.softcap;
    double eps = um_oracle_eps(at->work);
    key->visible = is_in_reach(at, j) && get_bias(at, j, &bias);
    if (!key->visible) return;
    for (int64_t i = 0; i < at->s.d; i++)
        um_total_add(&total, (long double)at->q[i].f * (long double)at->k[j * at->s.d + i].f);
    double size = (double)(total.magnitude * fabsl(scale));
    key->score = scale * um_total_get(&total);
    key->off = um_oracle_sum_bound(at->work, at->s.d, (long double)size) + 3 * eps * size;
    if (softcap > 0) {
        key->score = softcap * tanhl(key->score / softcap);
        key->off += 6 * eps * (double)fabsl(key->score);
    }
    key->score += bias;
    key->off += eps * (double)(fabsl(key->score) + fabsl(bias));
    at->overflows |= fmax((double)total.magnitude, size) > um_oracle_max(at->work);
}

/* Turns scores into weights exp(score - max); gives the largest score, their sum, and the weighted
 * mean of their errors. */
static void weigh(query *at, long double *top, long double *sum, double *mean_off)
{
    um_total total = {0};
    long double off = 0;
    *top = -(long double)INFINITY;
    for (int64_t j = 0; j < at->s.keys; j++) {
        if (!at->keys[j].visible) continue;
        long double score = at->keys[j].score;
        if (isnan(score) || score > *top) *top = score;
        if (isnan(score)) break;
    }
    for (int64_t j = 0; j < at->s.keys; j++) {
        seen *key = &at->keys[j];
        if (!key->visible) continue;
        key->off += um_oracle_eps(at->work) * (5 + (double)fmaxl(0, *top - key->score));
        key->score = expl(key->score - *top);
        um_total_add(&total, key->score);
        if (key->score > 0) off += key->score * (long double)key->off;
    }
    *sum = um_total_get(&total);
    *mean_off = (double)(off / *sum);
}

/* Output element i of the query from its weights. */
static um_expect blend(const query *at, int64_t i, long double sum, double mean_off)
{
    um_total total = {0};
    double bound = 0, largest = 0, tiny = um_oracle_ulp(at->work, 0);
    um_expect expect = um_expect_near(0, UM_ANY_ZERO);
    int64_t n = 0;
    for (int64_t j = 0; j < at->s.keys; j++) {
        const seen *key = &at->keys[j];
        if (!key->visible) continue;
        long double value = (long double)at->v[j * at->s.dv + i].f, p = key->score / sum;
        um_total_add(&total, p * value);
        n++;
        /* An infinity times a weight that may or may not have underflowed. */
        if (!isfinite(value) && p < (at->work == UM_F64 ? 1e-290L : 1e-30L))
            expect.judge = UM_JUDGE_LOOSE;
        largest = fmax(largest, (double)fabsl(value));
        bound += (double)fabsl(value) * ((double)p * expm1(key->off + mean_off) + tiny);
    }
    double eps = um_oracle_eps(at->work);
    bound +=
        2 * um_oracle_sum_bound(at->work, n, total.magnitude) + 3 * eps * (double)total.magnitude;
    bound = fmin(bound, 2 * largest);
    if (n > 0) expect.want = um_total_get(&total);
    if (n > 0) expect.bound = bound + tiny;
    bool overflows = at->overflows || largest * (double)n > um_oracle_max(at->work);
    if (overflows) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static void expect_query(query *at, um_expect *expect)
{
    long double scale = (long double)at->op->attrs.attention.scale, top, sum;
    double mean_off;
    at->overflows = false;
    if (scale == 0) scale = 1 / sqrtl((long double)at->s.d);
    for (int64_t j = 0; j < at->s.keys; j++) score_key(at, j, scale);
    weigh(at, &top, &sum, &mean_off);
    for (int64_t i = 0; i < at->s.dv; i++) expect[i] = blend(at, i, sum, mean_off);
}

/* The bias element of the first key, for batch b, head h, query i. */
static int64_t find_bias(const um_array *bias, int64_t b, int64_t h, int64_t i)
{
    if (bias->shape[0] == 1) b = 0;
    if (bias->shape[1] == 1) h = 0;
    return ((b * bias->shape[1] + h) * bias->shape[2] + i) * bias->shape[3];
}

um_status um_oracle_attention(const um_op *op, const um_array *in, const um_array *out,
                              um_expect *expect)
{
    const um_array *q = &in[0], *k = &in[1], *v = &in[2];
    shape s = {q->shape[1], k->shape[1], q->shape[2], k->shape[2], q->shape[3], v->shape[3]};
    query at = {.op = op, .s = s, .work = um_oracle_worker(q->dtype)};
    if (op->in_count == 4) at.bias = &in[3];
    if (out->count == 0) return UM_OK;
    at.keys = calloc((size_t)s.keys + 1, sizeof *at.keys);
    if (!at.keys) return UM_OUT_OF_MEMORY;
    for (int64_t row = 0; row < q->shape[0] * s.heads * s.queries; row++) {
        int64_t i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
        int64_t kv = b * s.kv_heads + h / (s.heads / s.kv_heads);
        at.q = q->item + row * s.d;
        at.k = k->item + kv * s.keys * s.d;
        at.v = v->item + kv * s.keys * s.dv;
        at.number = i;
        if (at.bias) at.bias_first = find_bias(at.bias, b, h, i);
        expect_query(&at, expect + row * s.dv);
    }
    free(at.keys);
    return UM_OK;
}
