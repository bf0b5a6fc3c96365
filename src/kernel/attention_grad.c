/* kernel/attention_grad.c: the gradients of attention. A launch takes delta = sum(dout * out) of
 * each query; then each gradient has its own, which makes scores anew from q and k:
 *   p = exp(score - lse)   ds = p (dout v^T - delta)   dv = p^T dout   dbias = ds
 *   dq = ds' k   dk = ds'^T q, with ds' = ds slope scale   dsink = -sum(exp(sink - lse) delta)
 * For dq, dk and dv a work-group makes rows of queries or keys from tile after tile of the others
 * (attention_tile.c). */
#include "kernel/attention.h"

#include <stdio.h>

typedef enum target { DQ, DK, DV, DBIAS } target;

typedef struct grad {
    um_kattention a;
    int64_t rows;        /* queries of all heads and sequences */
    uint32_t numbers_at; /* in the scratch memory, in words: deltas */
    um_val delta_at, local;
} grad;

static bool has_output(const um_op *op, int32_t index)
{
    return index < op->out_count && !um_view_is_none(&op->out[index]) &&
           um_view_count(&op->out[index]) > 0;
}

static uint32_t words_of(const grad *g) { return g->a.compute == UM_F64 ? 2 : 1; }

/* ---- numbers of queries --------------------------------------------------------------------- */

static um_val load_delta(const grad *g, um_val row)
{
    um_kernel *k = g->a.k;
    if (words_of(g) == 1) {
        um_val bits = um_k_load(k, g->a.scratch, um_k_add(k, g->delta_at, row));
        return um_k_bitcast(k, UM_F32, 1, bits);
    }
    um_val at = um_k_add(k, g->delta_at, um_k_add(k, row, row));
    um_val bits[2] = {um_k_load(k, g->a.scratch, at),
                      um_k_load(k, g->a.scratch, um_k_add(k, at, g->a.one))};
    return um_k_bitcast(k, UM_F64, 1, um_k_vector(k, 2, bits));
}

static void store_delta(const grad *g, um_val row, um_val delta)
{
    um_kernel *k = g->a.k;
    if (words_of(g) == 1) {
        um_val bits = um_k_bitcast(k, UM_I32, 1, delta);
        um_k_store(k, g->a.scratch, um_k_add(k, g->delta_at, row), bits);
        return;
    }
    um_val at = um_k_add(k, g->delta_at, um_k_add(k, row, row));
    um_val bits = um_k_bitcast(k, UM_I32, 2, delta);
    um_k_store(k, g->a.scratch, at, um_k_extract(k, bits, 0));
    um_k_store(k, g->a.scratch, um_k_add(k, at, g->a.one), um_k_extract(k, bits, 1));
}

/* A kernel with the views of `wanted`; out: what it makes, or NULL. */
static um_status begin(grad *g, const char *name, int64_t groups, uint32_t wanted,
                       const um_view *out)
{
    um_kattention *a = &g->a;
    UM_TRY(um_kattention_begin(a, name, groups, A_TILE));
    um_kattention_declare(a, wanted | (out ? UM_BIT(A_OUT) : 0), out);
    g->delta_at = um_klaunch_scalar(a->launch, g->numbers_at, "delta_at");
    g->local = um_k_builtin(a->k, UM_KOP_LOCAL_INDEX, 0);
    return UM_OK;
}

/* The number of the invocation, of groups of A_TILE. */
static um_val own_number(const grad *g)
{
    um_kernel *k = g->a.k;
    um_val first = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, A_TILE));
    return um_k_add(k, first, g->local);
}

static um_status plan_delta(grad *g)
{
    um_kattention *a = &g->a;
    UM_TRY(begin(g, "attention_delta", um_ceil_div(g->rows, A_TILE),
                 UM_BIT(A_DOUT) | UM_BIT(A_RESULT), NULL));
    um_kernel *k = a->k;
    um_val count = um_klaunch_scalar(a->launch, g->rows, "count");
    um_val row = own_number(g);
    um_k_if(k, um_k_lt(k, row, count));
    um_val rest = um_k_div(k, row, a->queries);
    um_val place[4] = {um_k_div(k, rest, a->heads), um_k_rem(k, rest, a->heads),
                       um_k_rem(k, row, a->queries), 0};
    store_delta(g, row, um_kattention_dot(a, A_DOUT, place, A_RESULT, place, a->dv, "delta"));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- pairs of a query and a key ------------------------------------------------------------- */

/* What the target's sum takes of a pair, or of 4, by its score; dp: 0 for DV; slope: the softcap's.
 */
static um_val weigh(const grad *g, target t, um_val score, um_val lse, um_val dp, um_val delta,
                    um_val slope)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_val w = um_k_exp(k, um_k_sub(k, score, lse));
    if (t != DV) w = um_k_mul(k, w, um_k_sub(k, dp, delta));
    if (t == DV || t == DBIAS) return w;
    if (a->op->attrs.attention.softcap > 0) w = um_k_mul(k, slope, w);
    return um_k_mul(k, w, um_k_splat(k, um_val_type(k, w).lanes, a->scale));
}

static um_val number_of(const grad *g, const um_kquery *q)
{
    um_kernel *k = g->a.k;
    um_val row = um_k_add(k, um_k_mul(k, q->b, g->a.heads), q->h);
    return um_k_add(k, um_k_mul(k, row, g->a.queries), q->i);
}

static um_val load_lse(const grad *g, const um_kquery *q)
{
    return um_kattention_load(&g->a, A_LSE, (um_val[4]){q->b, q->h, q->i, 0});
}

/* ---- dq, dk, dv ----------------------------------------------------------------------------- */

/* Of the tile's queries that this invocation meets, row by row or lane by lane. */
typedef struct met {
    um_kquery query[UM_KTILE_ROWS];
    um_val lse[UM_KTILE_ROWS], delta[UM_KTILE_ROWS];
} met;

static met meet(const grad *g, target t, const um_ktile *tile, um_val first)
{
    um_kernel *k = g->a.k;
    met m = {0};
    um_val lse[UM_KTILE_ROWS], delta[UM_KTILE_ROWS];
    uint32_t count = t == DQ ? tile->score_rows : 4;
    if (t != DQ) first = um_k_add(k, first, um_k_mul(k, tile->x, um_k_u32(k, 4)));
    for (uint32_t i = 0; i < count; i++) {
        um_val place = t == DQ ? um_ktile_own(tile, false, i) : um_k_u32(k, i);
        m.query[i] = um_ktile_query(tile, um_k_add(k, first, place));
        lse[i] = load_lse(g, &m.query[i]);
        delta[i] = t == DV ? lse[i] : load_delta(g, number_of(g, &m.query[i]));
    }
    for (uint32_t i = 0; i < tile->score_rows; i++) {
        m.lse[i] = t == DQ ? um_k_splat(k, 4, lse[i]) : um_k_vector(k, 4, lse);
        m.delta[i] = t == DQ ? um_k_splat(k, 4, delta[i]) : um_k_vector(k, 4, delta);
    }
    return m;
}

static void add_tile(const grad *g, target t, um_ktile *tile, um_val first, const met *own)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_mem scores[UM_KTILE_ROWS], dp[UM_KTILE_ROWS] = {0};
    um_val weights[UM_KTILE_ROWS], seen = a->zero, in, slope;
    um_val none = um_k_splat(k, 4, um_kattention_real(a, 0));
    met m = t == DQ ? *own : meet(g, t, tile, first);
    um_ktile_multiply(tile, t == DQ ? A_Q : A_K, t == DQ ? A_K : A_Q, a->d, first, scores);
    if (t != DV)
        um_ktile_multiply(tile, t == DQ ? A_DOUT : A_V, t == DQ ? A_V : A_DOUT, a->dv, first, dp);
    for (uint32_t i = 0; i < tile->score_rows; i++) {
        um_val score = um_ktile_score(tile, scores[i], i, first, m.query, &seen, &in, &slope);
        um_val up = t == DV ? 0 : um_k_get(k, dp[i]);
        um_val w = weigh(g, t, score, m.lse[i], up, m.delta[i], slope);
        weights[i] = um_k_select(k, in, w, none);
    }
    um_ktile_blend(tile, weights, seen, t == DQ ? A_K : t == DK ? A_Q : A_DOUT, first);
}

static um_status plan_rows(grad *g, target t)
{
    static const char *const names[] = {"attention_dq", "attention_dk", "attention_dv"};
    um_kattention *a = &g->a;
    const um_view *out = &a->op->out[t], *q = &a->op->in[0], *key = &a->op->in[1];
    int64_t terms = t == DQ ? key->shape[2] : q->shape[1] * q->shape[2];
    um_ktile tile = um_ktile_of(a, t == DQ, out->shape[3]);
    uint32_t wanted = UM_BIT(A_Q) | UM_BIT(A_K) | UM_BIT(A_BIAS) | UM_BIT(A_LSE) | UM_BIT(A_DOUT);
    if (t != DV) wanted |= UM_BIT(A_V);
    UM_TRY(um_ktile_begin(&tile, names[t], wanted | UM_BIT(A_OUT), out, terms));
    um_kernel *k = a->k;
    g->delta_at = um_klaunch_scalar(a->launch, g->numbers_at, "delta_at");
    met own = {0};
    if (t == DQ) own = meet(g, t, &tile, tile.first);
    add_tile(g, t, &tile, um_ktile_each(&tile), &own);
    um_k_end(k);
    um_val rows = t == DQ ? um_k_mul(k, a->group, a->queries) : a->keys;
    for (uint32_t i = 0; i < tile.sum_rows; i++) {
        um_val row = um_k_add(k, tile.first, um_ktile_own(&tile, true, i));
        um_val at = um_ktile_index(&tile, A_OUT, t == DQ, row, a->zero);
        for (uint32_t c = 0; c < tile.wide; c++)
            um_ktile_store(&tile, c, at, um_ktile_sum(&tile, i, c), um_k_lt(k, row, rows));
    }
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- dbias, dsinks -------------------------------------------------------------------------- */

/* Where one element stands for all of `size`, as for a bias of size 1: begins a loop over them. */
static um_val each_of(const grad *g, bool all, um_val place, um_val size)
{
    um_kernel *k = g->a.k;
    um_val end = all ? size : um_k_add(k, place, g->a.one);
    return um_k_for(k, all ? g->a.zero : place, end, g->a.one);
}

static um_status plan_bias(grad *g)
{
    um_kattention *a = &g->a;
    const um_view *out = &a->op->out[3];
    int64_t count = um_view_count(out);
    UM_TRY(begin(g, "attention_dbias", um_ceil_div(count, A_TILE),
                 UM_BIT(A_Q) | UM_BIT(A_K) | UM_BIT(A_V) | UM_BIT(A_BIAS) | UM_BIT(A_LSE) |
                     UM_BIT(A_DOUT),
                 out));
    um_kernel *k = a->k;
    um_val all = um_klaunch_scalar(a->launch, count, "count"), size[4] = {0}, place[4];
    um_val batch = um_klaunch_scalar(a->launch, a->op->in[0].shape[0], "batch");
    size[1] = um_klaunch_scalar(a->launch, out->shape[1], "bias_heads");
    size[2] = a->queries;
    size[3] = a->keys;
    um_val e = own_number(g), none = um_kattention_real(a, 0);
    um_k_if(k, um_k_lt(k, e, all));
    um_kwalk_places(k, e, 0, 4, size, place);
    um_ksum sum = um_ksum_new(k, none, "sum");
    um_val b = each_of(g, out->shape[0] == 1, place[0], batch);
    um_val h = each_of(g, out->shape[1] == 1, place[1], a->heads);
    um_val row = um_k_add(k, um_k_mul(k, b, a->heads), h);
    row = um_k_add(k, um_k_mul(k, row, a->queries), place[2]);
    um_kquery q = um_kattention_query(a, row);
    um_val key = um_kattention_i32(a, place[3]), seen = um_k_ge(k, key, q.begin);
    seen = um_k_and(k, seen, um_k_lt(k, key, q.end));
    um_val bias = um_kattention_bias(a, &q, place[3], &seen);
    um_k_if(k, seen);
    um_val q_place[4] = {q.b, q.h, q.i, 0}, v_place[4] = {q.b, q.kv_head, place[3], 0};
    um_val score = um_k_add(k, um_kattention_score(a, &q, place[3]), bias);
    um_val dp = um_kattention_dot(a, A_DOUT, q_place, A_V, v_place, a->dv, "dp");
    um_ksum_add(k, sum, weigh(g, DBIAS, score, load_lse(g, &q), dp, load_delta(g, row), 0));
    um_k_end(k);
    um_k_end(k);
    um_k_end(k);
    um_val at = um_kview_place(k, &a->view[A_OUT], 4, place);
    um_kview_store(k, &a->view[A_OUT], at, um_kvalue_as(k, out->dtype, um_ksum_get(k, sum)));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* Whether the query sees a key. */
static um_val sees_any(const grad *g, const um_kquery *q)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    if (!um_kattention_has(a, A_BIAS)) return um_k_lt(k, q->begin, q->end);
    um_mem any = um_kvar(k, a->zero, "any");
    um_k_set(k, any, a->zero);
    um_val in = um_k_bool(k, true), j = um_k_for(k, q->begin, q->end, um_k_i32(k, 1));
    um_kattention_bias(a, q, um_k_bitcast(k, UM_U32, 1, j), &in);
    um_k_set(k, any, um_k_convert(k, UM_U32, in));
    um_k_break_if(k, in);
    um_k_end(k);
    return um_k_ne(k, um_k_get(k, any), a->zero);
}

/* A work-group a head, of whose queries an invocation takes every A_TILE'th; the first adds up. */
static um_status plan_sinks(grad *g)
{
    um_kattention *a = &g->a;
    const um_view *out = &a->op->out[4];
    uint32_t wanted = UM_BIT(A_SINKS) | UM_BIT(A_LSE) | UM_BIT(A_BIAS);
    UM_TRY(begin(g, "attention_dsinks", out->shape[0], wanted, out));
    um_kernel *k = a->k;
    int64_t each = a->op->in[0].shape[0] * a->op->in[0].shape[2];
    um_val count = um_klaunch_scalar(a->launch, each, "count");
    um_val h = um_klaunch_group_number(k), none = um_kattention_real(a, 0);
    um_mem sums = um_k_shared(k, "sums", a->compute, A_TILE);
    um_ksum sum = um_ksum_new(k, none, "sum");
    um_k_if(k, um_k_lt(k, h, a->heads));
    um_val f = um_k_for(k, g->local, count, um_k_u32(k, A_TILE));
    um_val place[3] = {um_k_div(k, f, a->queries), h, um_k_rem(k, f, a->queries)};
    um_kquery q = um_kattention_query_at(a, place[0], h, place[2]);
    um_k_if(k, sees_any(g, &q));
    um_val sink = um_kattention_load(a, A_SINKS, &h), lse = um_kattention_load(a, A_LSE, place);
    um_val p = um_k_exp(k, um_k_sub(k, sink, lse));
    um_ksum_add(k, sum, um_k_neg(k, um_k_mul(k, p, load_delta(g, number_of(g, &q)))));
    um_k_end(k);
    um_k_end(k);
    um_k_store(k, sums, g->local, um_ksum_get(k, sum));
    um_k_barrier(k);
    um_k_if(k, um_k_eq(k, g->local, a->zero));
    um_ksum all = um_ksum_new(k, none, "all");
    um_val t = um_k_for(k, a->zero, um_k_u32(k, A_TILE), a->one);
    um_ksum_add(k, all, um_k_load(k, sums, t));
    um_k_end(k);
    um_val at = um_kview_place(k, &a->view[A_OUT], 1, &h);
    um_kview_store(k, &a->view[A_OUT], at, um_kvalue_as(k, out->dtype, um_ksum_get(k, all)));
    um_k_end(k);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- the plan ------------------------------------------------------------------------------- */

static int64_t rows_of(const um_op *op)
{
    const um_view *q = &op->in[0];
    return q->shape[0] * q->shape[1] * q->shape[2];
}

bool um_kattention_grad_supports(const um_op *op, char *why, size_t why_size)
{
    if (!um_kattention_fits(op, why, why_size)) return false;
    return rows_of(op) < (int64_t)1 << 29 ||
           um_kplan_refuse(op, why, why_size, "for so many queries");
}

um_status um_kattention_grad_plan(const um_op *op, um_kplan *plan)
{
    grad g = {.a = um_kattention_of(op, plan), .rows = rows_of(op)};
    uint64_t lengths = um_kattention_length_bytes(&g.a);
    g.numbers_at = (uint32_t)(lengths / 4);
    plan->scratch_bytes = lengths + 4 * (uint64_t)g.rows * words_of(&g);
    UM_TRY(um_kattention_plan_lengths(&g.a));
    if (g.rows > 0) UM_TRY(plan_delta(&g));
    for (target t = DQ; t <= DV; t++)
        if (has_output(op, (int32_t)t)) UM_TRY(plan_rows(&g, t));
    if (has_output(op, 3)) UM_TRY(plan_bias(&g));
    return has_output(op, 4) ? plan_sinks(&g) : UM_OK;
}
