/* check/oracle_attention.c: softmax(scale * q k^T, capped, + bias, masked) v, one query at a time,
 * and its gradients, one pair of a query and a key at a time. A masked key does not exist: its key
 * and value are not looked at.
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
    long double slope; /* of the softcap at the score */
    double slope_off;
} seen;

typedef struct query {
    const um_op *op;
    shape s;
    um_dtype work;
    const um_array *q, *k, *v, *bias, *key_lengths, *query_lengths, *sinks; /* NULL: none */
    int64_t b, h, i, row, kv; /* row: of q; kv: head of k */
    int64_t bias_first;       /* its element for key 0 */
    int64_t key_count, query_count;
    long double scale;
    seen *keys;
    bool overflows;
} query;

static const um_array *find_input(const um_op *op, const um_array *in, int32_t index)
{
    if (index >= op->in_count || (in[index].rank == 1 && in[index].shape[0] == 0)) return NULL;
    return &in[index];
}

static int32_t first_optional(const um_op *op) { return op->id == UM_OP_ATTENTION ? 3 : 6; }

bool um_oracle_has_bad_length(const um_op *op, const um_array *in)
{
    for (int32_t k = 0; k < 2; k++) {
        const um_array *lengths = find_input(op, in, first_optional(op) + 1 + k);
        for (int64_t b = 0; lengths && b < lengths->count; b++)
            if (lengths->item[b].i < 0 || lengths->item[b].i > in[k == 0].shape[2]) return true;
    }
    return false;
}

static um_status begin(query *at, const um_op *op, const um_array *in)
{
    int32_t first = first_optional(op);
    *at = (query){.op = op,
                  .work = um_oracle_worker(in[0].dtype),
                  .q = &in[0],
                  .k = &in[1],
                  .v = &in[2],
                  .bias = find_input(op, in, first),
                  .key_lengths = find_input(op, in, first + 1),
                  .query_lengths = find_input(op, in, first + 2),
                  .sinks = find_input(op, in, first + 3)};
    at->s = (shape){in[0].shape[1], in[1].shape[1], in[0].shape[2],
                    in[1].shape[2], in[0].shape[3], in[2].shape[3]};
    at->scale = (long double)op->attrs.attention.scale;
    if (at->scale == 0) at->scale = 1 / sqrtl((long double)at->s.d);
    at->keys = calloc((size_t)at->s.keys + 1, sizeof *at->keys);
    return at->keys ? UM_OK : UM_OUT_OF_MEMORY;
}

/* A length outside 0 to most counts as the nearest inside. */
static int64_t get_length(const um_array *lengths, int64_t b, int64_t most)
{
    if (!lengths) return most;
    int64_t length = lengths->item[b].i;
    return length < 0 ? 0 : length > most ? most : length;
}

static void select_query(query *at, int64_t row)
{
    const um_array *bias = at->bias;
    at->row = row;
    at->i = row % at->s.queries;
    at->h = row / at->s.queries % at->s.heads;
    at->b = row / at->s.queries / at->s.heads;
    at->kv = at->b * at->s.kv_heads + at->h / (at->s.heads / at->s.kv_heads);
    at->key_count = get_length(at->key_lengths, at->b, at->s.keys);
    at->query_count = get_length(at->query_lengths, at->b, at->s.queries);
    at->overflows = false;
    if (!bias) return;
    int64_t b = bias->shape[0] == 1 ? 0 : at->b, h = bias->shape[1] == 1 ? 0 : at->h;
    at->bias_first = ((b * bias->shape[1] + h) * bias->shape[2] + at->i) * bias->shape[3];
}

/* Whether the position rules let the query see key j. */
static bool is_in_reach(const query *at, int64_t j)
{
    int32_t causal = at->op->attrs.attention.causal;
    int64_t window = at->op->attrs.attention.window;
    int64_t own = at->i;
    if (j >= at->key_count || at->i >= at->query_count) return false;
    if (causal != UM_CAUSAL_TOP_LEFT) own += at->key_count - at->query_count;
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

static void score_key(query *at, int64_t j)
{
    seen *key = &at->keys[j];
    um_total total = {0};
    long double bias, softcap = (long double)at->op->attrs.attention.softcap;
    double eps = um_oracle_eps(at->work);
    key->visible = is_in_reach(at, j) && get_bias(at, j, &bias);
    if (!key->visible) return;
    const um_num *q = at->q->item + at->row * at->s.d;
    const um_num *k = at->k->item + (at->kv * at->s.keys + j) * at->s.d;
    for (int64_t i = 0; i < at->s.d; i++)
        um_total_add(&total, (long double)q[i].f * (long double)k[i].f);
    double size = (double)(total.magnitude * fabsl(at->scale));
    key->score = at->scale * um_total_get(&total);
    key->off = um_oracle_sum_bound(at->work, at->s.d, (long double)size) + 3 * eps * size;
    key->slope = 1;
    key->slope_off = 0;
    if (softcap > 0) {
        long double t = tanhl(key->score / softcap);
        key->slope = 1 - t * t;
        key->slope_off = 2 * key->off / (double)softcap + 12 * eps;
        key->score = softcap * t;
        key->off += 6 * eps * (double)fabsl(key->score);
    }
    key->score += bias;
    key->off += eps * (double)(fabsl(key->score) + fabsl(bias));
    at->overflows |= fmax((double)total.magnitude, size) > um_oracle_max(at->work);
}

/* ---- forward -------------------------------------------------------------------------------- */

static long double larger_or_nan(long double score, long double top)
{
    return isnan(score) || score > top ? score : top;
}

/* Turns scores into weights exp(score - max); gives the largest score, their sum, and the weighted
 * mean of their errors. */
static void weigh(query *at, long double *top, long double *sum, double *mean_off)
{
    um_total total = {0};
    long double off = 0, sink = -(long double)INFINITY;
    if (at->sinks) sink = (long double)at->sinks->item[at->h].f;
    *top = sink;
    for (int64_t j = 0; j < at->s.keys && !isnan(*top); j++)
        if (at->keys[j].visible) *top = larger_or_nan(at->keys[j].score, *top);
    for (int64_t j = 0; j < at->s.keys; j++) {
        seen *key = &at->keys[j];
        if (!key->visible) continue;
        key->off += um_oracle_eps(at->work) * (5 + (double)fmaxl(0, *top - key->score));
        key->score = expl(key->score - *top);
        um_total_add(&total, key->score);
        if (key->score > 0) off += key->score * (long double)key->off;
    }
    if (!(isinf(sink) && sink < 0)) {
        um_total_add(&total, expl(sink - *top));
        off += expl(sink - *top) * (long double)um_oracle_eps(at->work) * (5 + fabsl(*top - sink));
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
        long double value = (long double)at->v->item[(at->kv * at->s.keys + j) * at->s.dv + i].f;
        long double p = key->score / sum;
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
    if (um_oracle_sum_overflows(at->work, n, (long double)largest * n))
        expect.judge = UM_JUDGE_LOOSE;
    if (at->overflows) expect.judge = UM_JUDGE_ANY; /* a score of -inf drops its key */
    return expect;
}

/* log(sum of exp(score)); +inf for a score of +inf, unless one is NaN. */
static um_expect log_sum(const query *at, long double top, long double sum, double mean_off)
{
    um_expect expect = um_expect_near(top, 0);
    int64_t n = 1;
    for (int64_t j = 0; j < at->s.keys; j++) n += at->keys[j].visible;
    if (at->overflows) expect.judge = UM_JUDGE_ANY;
    if (!isfinite(top)) return expect;
    long double log = logl(sum);
    expect.want = top + log;
    if (n > 1)
        expect.bound =
            mean_off + 2 * um_oracle_sum_bound(at->work, n, 1) +
            um_oracle_eps(at->work) * (double)(4 * log + fabsl(top) + fabsl(expect.want));
    return expect;
}

static um_status attend(const um_op *op, const um_array *in, const um_array *out,
                        um_expect *const *expect)
{
    query at;
    um_status status = begin(&at, op, in);
    int64_t rows = in[0].shape[0] * at.s.heads * at.s.queries;
    for (int64_t row = 0; status == UM_OK && row < rows; row++) {
        long double top, sum;
        double mean_off;
        select_query(&at, row);
        for (int64_t j = 0; j < at.s.keys; j++) score_key(&at, j);
        weigh(&at, &top, &sum, &mean_off);
        for (int64_t i = 0; out[0].count > 0 && i < at.s.dv; i++)
            expect[0][row * at.s.dv + i] = blend(&at, i, sum, mean_off);
        if (op->out_count > 1) expect[1][row] = log_sum(&at, top, sum, mean_off);
    }
    free(at.keys);
    return status;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* A value that a kernel has about right. */
typedef struct about {
    long double value;
    double off;
    bool any; /* it may be anything */
} about;

/* A gradient's element on its way. */
typedef struct tally {
    um_total total;
    double off;
    int64_t n;
    bool any;
} tally;

typedef struct gradients {
    query at;
    const um_array *out, *dout, *lse;
    tally *sum[5]; /* dq, dk, dv, dbias, dsinks; NULL: not wanted */
} gradients;

static void add_term(tally *sum, const about *weight, long double x)
{
    /* An infinity times what may be 0 or of either sign. */
    bool unsure =
        isinf(x) && !isnan(weight->value) && !(fabsl(weight->value) > (long double)weight->off);
    sum->any = sum->any || unsure || weight->any;
    um_total_add(&sum->total, weight->value * x);
    sum->off += weight->off * (double)fabsl(x);
    sum->n++;
}

static um_expect settle(const tally *sum, um_dtype work)
{
    if (sum->n == 0) return um_expect_near(0, UM_ANY_ZERO);
    double magnitude = (double)sum->total.magnitude, eps = um_oracle_eps(work);
    um_expect expect = um_expect_near(um_total_get(&sum->total), sum->off);
    expect.bound += 2 * um_oracle_sum_bound(work, sum->n, sum->total.magnitude) +
                    3 * eps * magnitude + (double)sum->n * um_oracle_ulp(work, 0);
    bool lost = isfinite(expect.want) && !isfinite(expect.bound);
    if (sum->any || lost || magnitude > um_oracle_max(work)) expect.judge = UM_JUDGE_ANY;
    return expect;
}

static about dot(um_dtype work, int64_t n, const um_num *a, const um_num *b)
{
    um_total total = {0};
    for (int64_t i = 0; i < n; i++) um_total_add(&total, (long double)a[i].f * (long double)b[i].f);
    double magnitude = (double)total.magnitude;
    return (about){um_total_get(&total),
                   um_oracle_sum_bound(work, n, total.magnitude) + um_oracle_eps(work) * magnitude +
                       (double)n * um_oracle_ulp(work, 0),
                   magnitude > um_oracle_max(work)};
}

static about times(um_dtype work, about a, about b)
{
    double eps = um_oracle_eps(work);
    about y = {a.value * b.value, 0, a.any || b.any};
    y.off = a.off * (double)fabsl(b.value) + b.off * ((double)fabsl(a.value) + a.off) +
            eps * (double)fabsl(y.value) + um_oracle_ulp(work, 0);
    bool unsure = isinf(b.value) && !isnan(a.value) && !(fabsl(a.value) > (long double)a.off);
    y.any = y.any || unsure || fabsl(y.value) > (long double)um_oracle_max(work);
    if (isinf(a.value) || isinf(b.value)) y.any = a.any || b.any || unsure;
    return y;
}

/* exp(score - lse), of a score that is off by so much. */
static about weight_of(um_dtype work, long double score, double off, long double lse)
{
    double eps = um_oracle_eps(work), x = (double)(score - lse);
    about p = {expl(score - lse), um_oracle_ulp(work, 0), false};
    if (!isfinite(score - lse)) return p;
    p.off += (double)p.value * expm1(fmin(off + eps * (6 + fabs(x)), 700));
    p.any = x > log(um_oracle_max(work)) - 1;
    return p;
}

static about minus(um_dtype work, about a, about b)
{
    about y = {a.value - b.value, a.off + b.off, a.any || b.any};
    if (isinf(a.value) || isinf(b.value)) return y;
    y.off += um_oracle_eps(work) * (double)fabsl(y.value);
    y.any = y.any || fabsl(y.value) > (long double)um_oracle_max(work);
    return y;
}

static void add_pair(gradients *g, int64_t j, about delta)
{
    query *at = &g->at;
    const shape *s = &at->s;
    um_dtype work = at->work;
    const seen *key = &at->keys[j];
    const um_num *q = at->q->item + at->row * s->d, *dout = g->dout->item + at->row * s->dv;
    int64_t kv = at->kv * s->keys + j;
    const um_num *k = at->k->item + kv * s->d, *v = at->v->item + kv * s->dv;
    about p = weight_of(work, key->score, key->off, (long double)g->lse->item[at->row].f);
    p.any = p.any || at->overflows;
    about ds = times(work, p, minus(work, dot(work, s->dv, dout, v), delta));
    for (int64_t e = 0; e < s->dv; e++)
        add_term(&g->sum[2][kv * s->dv + e], &p, (long double)dout[e].f);
    if (g->sum[3]) add_term(&g->sum[3][at->bias_first + j], &ds, 1);
    if (at->op->attrs.attention.softcap > 0)
        ds = times(work, (about){key->slope, key->slope_off, false}, ds);
    ds = times(work, ds, (about){at->scale, um_oracle_eps(work) * (double)fabsl(at->scale), false});
    for (int64_t e = 0; e < s->d; e++) {
        add_term(&g->sum[0][at->row * s->d + e], &ds, (long double)k[e].f);
        add_term(&g->sum[1][kv * s->d + e], &ds, (long double)q[e].f);
    }
}

static void add_query(gradients *g, int64_t row)
{
    query *at = &g->at;
    bool sees = false;
    select_query(at, row);
    for (int64_t j = 0; j < at->s.keys; j++) score_key(at, j);
    about delta =
        dot(at->work, at->s.dv, g->dout->item + row * at->s.dv, g->out->item + row * at->s.dv);
    for (int64_t j = 0; j < at->s.keys; j++) {
        if (!at->keys[j].visible) continue;
        sees = true;
        add_pair(g, j, delta);
    }
    if (!g->sum[4] || !sees) return;
    long double sink = (long double)at->sinks->item[at->h].f,
                lse = (long double)g->lse->item[row].f;
    about ds = times(at->work, weight_of(at->work, sink, 0, lse), delta);
    add_term(&g->sum[4][at->h], &ds, -1);
}

static um_status take_gradients(const um_op *op, const um_array *in, const um_array *out,
                                um_expect *const *expect)
{
    gradients g = {.out = &in[3], .dout = &in[4], .lse = &in[5]};
    um_status status = begin(&g.at, op, in);
    int64_t rows = in[0].shape[0] * g.at.s.heads * g.at.s.queries;
    for (int32_t k = 0; status == UM_OK && k < op->out_count; k++) {
        if (k >= 3 && out[k].rank == 1 && out[k].shape[0] == 0) continue;
        g.sum[k] = calloc((size_t)out[k].count + 1, sizeof *g.sum[k]);
        if (!g.sum[k]) status = UM_OUT_OF_MEMORY;
    }
    for (int64_t row = 0; status == UM_OK && row < rows; row++) add_query(&g, row);
    for (int32_t k = 0; k < 5; k++) {
        for (int64_t i = 0; status == UM_OK && g.sum[k] && i < out[k].count; i++)
            expect[k][i] = settle(&g.sum[k][i], g.at.work);
        free(g.sum[k]);
    }
    free(g.at.keys);
    return status;
}

um_status um_oracle_attention(const um_op *op, const um_array *in, const um_array *out,
                              um_expect *const *expect)
{
    if (op->id == UM_OP_ATTENTION) return attend(op, in, out, expect);
    return take_gradients(op, in, out, expect);
}
