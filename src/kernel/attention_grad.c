/* kernel/attention_grad.c: the gradients of attention. A launch takes delta = sum(dout * out) of
 * each query; then each gradient has its own, which makes scores anew from q and k:
 *   p = exp(score - lse)   ds = p (dout v^T - delta)   dv = p^T dout   dbias = ds
 *   dq = ds' k   dk = ds'^T q, with ds' = ds slope scale   dsink = -sum(exp(sink - lse) delta)
 * For dq, dk and dv a work-group makes up to A_TILE columns of one query's or key's row: its
 * invocations weigh a tile of the others, one each, and then add up a column each. */
#include "kernel/attention.h"

#include <stdio.h>

typedef enum target { DQ, DK, DV, DBIAS } target;

typedef struct grad {
    um_kattention a;
    int64_t rows;        /* queries of all heads and sequences */
    uint32_t numbers_at; /* in the scratch memory, in words: deltas, then who sees a key */
    um_val delta_at, sees_at, local;
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
    uint32_t sees_at = g->numbers_at + (uint32_t)g->rows * words_of(g);
    g->delta_at = um_klaunch_scalar(a->k, a->launch, "delta_at", g->numbers_at);
    g->sees_at = um_klaunch_scalar(a->k, a->launch, "sees_at", sees_at);
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
    um_val count = um_klaunch_scalar(k, a->launch, "count", (uint32_t)g->rows);
    um_val row = own_number(g);
    um_k_if(k, um_k_lt(k, row, count));
    um_val rest = um_k_div(k, row, a->queries);
    um_val place[4] = {um_k_div(k, rest, a->heads), um_k_rem(k, rest, a->heads),
                       um_k_rem(k, row, a->queries), 0};
    store_delta(g, row, um_kattention_dot(a, A_DOUT, place, A_RESULT, place, a->dv, "delta"));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- one pair of a query and a key ---------------------------------------------------------- */

/* What the target's sum takes of it, 0 where it is not seen. */
static um_val weigh(const grad *g, target t, const um_kquery *q, um_val row, um_val j, um_val *seen)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_val slope, q_place[4] = {q->b, q->h, q->i, 0}, v_place[4] = {q->b, q->kv_head, j, 0};
    um_mem weight = um_kattention_var(a, "weight", um_kattention_real(a, 0));
    um_val bias = um_kattention_bias(a, q, j, seen);
    um_k_if(k, *seen);
    um_val score = um_k_add(k, um_kattention_score(a, q, j, &slope), bias);
    um_val w = um_k_exp(k, um_k_sub(k, score, um_kattention_load(a, A_LSE, q_place)));
    if (t != DV) {
        um_val dp = um_kattention_dot(a, A_DOUT, q_place, A_V, v_place, a->dv, "dp");
        w = um_k_mul(k, w, um_k_sub(k, dp, load_delta(g, row)));
    }
    if (t == DQ || t == DK) {
        if (a->op->attrs.attention.softcap > 0) w = um_k_mul(k, slope, w);
        w = um_k_mul(k, w, a->scale);
    }
    um_k_set(k, weight, w);
    um_k_end(k);
    return um_k_get(k, weight);
}

static um_val is_in_reach(const grad *g, const um_kquery *q, um_val j)
{
    um_kernel *k = g->a.k;
    um_val key = um_k_bitcast(k, UM_I32, 1, j);
    return um_k_and(k, um_k_ge(k, key, q->begin), um_k_lt(k, key, q->end));
}

/* ---- dq, dk, dv ----------------------------------------------------------------------------- */

/* The row that a work-group makes: a query's, or a key's, which meets others. */
typedef struct own {
    um_val b, head, i; /* of the row */
    um_val row;        /* of a query */
    um_val begin, end; /* of the partners */
} own;

static own own_of(const grad *g, target t, um_val number)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_val size = t == DQ ? a->queries : a->keys, heads = t == DQ ? a->heads : a->kv_heads;
    um_val rest = um_k_div(k, number, size);
    own o = {.b = um_k_div(k, rest, heads), .head = um_k_rem(k, rest, heads), .row = number};
    o.i = um_k_rem(k, number, size);
    o.begin = a->zero;
    o.end = um_k_mul(k, a->group, a->queries);
    if (t != DQ) return o;
    um_kquery q = um_kattention_query(a, number);
    um_kattention_bounds(a, &q, g->local, &o.begin, &o.end);
    return o;
}

/* Partner f of a key: a query's head and place. */
static void find_query(const grad *g, const own *o, um_val f, um_val *h, um_val *i)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_val first = um_k_mul(k, o->head, a->group);
    *h = um_k_add(k, first, um_k_div(k, f, a->queries));
    *i = um_k_rem(k, f, a->queries);
}

/* The weight of this invocation's partner. */
static um_val weigh_partner(const grad *g, target t, const own *o, um_val f, um_val *seen)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_val in = um_k_lt(k, f, o->end), j = o->i, row = o->row, h, i;
    f = um_k_select(k, in, f, a->zero);
    if (t == DQ) {
        j = f;
    } else {
        find_query(g, o, f, &h, &i);
        row = um_k_add(k, um_k_mul(k, o->b, a->heads), h);
        row = um_k_add(k, um_k_mul(k, row, a->queries), i);
    }
    um_kquery q = um_kattention_query(a, row);
    *seen = um_k_and(k, in, is_in_reach(g, &q, j));
    return weigh(g, t, &q, row, j, seen);
}

/* Adds up this invocation's column of the tile's partners. */
static void blend(const grad *g, target t, const own *o, um_val first, um_val column, um_val in,
                  const um_mem *mem)
{
    const um_kattention *a = &g->a;
    um_kernel *k = a->k;
    um_mem weights = mem[0], seen = mem[1], sum = mem[2], lost = mem[3], any = mem[4];
    um_mem part = um_kattention_var(a, "part", um_kattention_real(a, 0));
    um_val p = um_k_for(k, a->zero, um_k_u32(k, A_TILE), a->one);
    um_k_if(k, um_k_ne(k, um_k_load(k, seen, p), a->zero));
    um_k_set(k, any, um_k_i32(k, 1));
    um_k_if(k, in);
    um_val f = um_k_add(k, first, p), place[4] = {o->b, 0, f, column};
    if (t == DQ)
        place[1] = um_k_div(k, o->head, a->group);
    else
        find_query(g, o, f, &place[1], &place[2]);
    um_val x = um_kattention_load(a, t == DQ ? A_K : t == DK ? A_Q : A_DOUT, place);
    um_k_set(k, part, um_k_fma(k, um_k_load(k, weights, p), x, um_k_get(k, part)));
    um_k_end(k);
    um_k_end(k);
    um_k_end(k);
    um_ksum_add(k, sum, lost, um_k_get(k, part));
}

static um_status plan_rows(grad *g, target t)
{
    static const char *const names[] = {"attention_dq", "attention_dk", "attention_dv"};
    um_kattention *a = &g->a;
    const um_view *out = &a->op->out[t];
    int64_t rows = out->shape[0] * out->shape[1] * out->shape[2];
    int64_t chunks = UM_MAX(um_ceil_div(out->shape[3], A_TILE), 1);
    uint32_t wanted = UM_BIT(A_Q) | UM_BIT(A_K) | UM_BIT(A_BIAS) | UM_BIT(A_LSE) | UM_BIT(A_DOUT);
    if (t != DV) wanted |= UM_BIT(A_V);
    UM_TRY(begin(g, names[t], rows * chunks, wanted, out));
    um_kernel *k = a->k;
    um_val groups = um_klaunch_scalar(k, a->launch, "groups", (uint32_t)(rows * chunks));
    um_val across = um_klaunch_scalar(k, a->launch, "chunks", (uint32_t)chunks);
    um_val number = um_klaunch_group_number(k), tile = um_k_u32(k, A_TILE), seen;
    um_val none = um_kattention_real(a, 0);
    um_k_if(k, um_k_lt(k, number, groups));
    own o = own_of(g, t, um_k_div(k, number, across));
    um_val column = um_k_add(k, um_k_mul(k, um_k_rem(k, number, across), tile), g->local);
    um_val in = um_k_lt(k, column, t == DV ? a->dv : a->d);
    const um_mem mem[] = {um_k_shared(k, "weights", a->compute, A_TILE),
                          um_k_shared(k, "seen", UM_U32, A_TILE), um_kattention_var(a, "sum", none),
                          um_kattention_var(a, "rest", none),
                          um_kattention_var(a, "any", um_k_i32(k, 0))};
    um_val first = um_k_for(k, o.begin, o.end, tile);
    um_val weight = weigh_partner(g, t, &o, um_k_add(k, first, g->local), &seen);
    um_k_store(k, mem[0], g->local, weight);
    um_k_store(k, mem[1], g->local, um_k_convert(k, UM_U32, seen));
    um_k_barrier(k);
    blend(g, t, &o, first, column, in, mem);
    um_k_barrier(k);
    um_k_end(k);
    um_val place[4] = {o.b, o.head, o.i, column};
    um_k_if(k, in);
    um_val y = um_kvalue_as(k, out->dtype, um_ksum_get(k, mem[2], mem[3]));
    um_kview_store(k, &a->view[A_OUT],
                   um_kview_index(k, &a->view[A_OUT], a->view[A_OUT].base, 0, 4, place), y);
    um_k_end(k);
    if (t == DQ) {
        um_k_if(k, um_k_eq(k, column, a->zero));
        um_k_store(k, a->scratch, um_k_add(k, g->sees_at, o.row), um_k_get(k, mem[4]));
        um_k_end(k);
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
    um_val all = um_klaunch_scalar(k, a->launch, "count", (uint32_t)count), size[4] = {0}, place[4];
    um_val batch = um_klaunch_scalar(k, a->launch, "batch", (uint32_t)a->op->in[0].shape[0]);
    size[1] = um_klaunch_scalar(k, a->launch, "bias_heads", (uint32_t)out->shape[1]);
    size[2] = a->queries;
    size[3] = a->keys;
    um_val e = own_number(g), none = um_kattention_real(a, 0);
    um_k_if(k, um_k_lt(k, e, all));
    um_kwalk_places(k, e, 0, 4, size, place);
    um_mem sum = um_kattention_var(a, "sum", none), lost = um_kattention_var(a, "rest", none);
    um_val b = each_of(g, out->shape[0] == 1, place[0], batch);
    um_val h = each_of(g, out->shape[1] == 1, place[1], a->heads);
    um_val row = um_k_add(k, um_k_mul(k, b, a->heads), h);
    row = um_k_add(k, um_k_mul(k, row, a->queries), place[2]);
    um_kquery q = um_kattention_query(a, row);
    um_val seen = is_in_reach(g, &q, place[3]);
    um_ksum_add(k, sum, lost, weigh(g, DBIAS, &q, row, place[3], &seen));
    um_k_end(k);
    um_k_end(k);
    um_val at = um_kview_index(k, &a->view[A_OUT], a->view[A_OUT].base, 0, 4, place);
    um_kview_store(k, &a->view[A_OUT], at, um_kvalue_as(k, out->dtype, um_ksum_get(k, sum, lost)));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* A work-group a head, of whose queries an invocation takes every A_TILE'th; the first adds up. */
static um_status plan_sinks(grad *g)
{
    um_kattention *a = &g->a;
    const um_view *out = &a->op->out[4];
    UM_TRY(begin(g, "attention_dsinks", out->shape[0], UM_BIT(A_SINKS) | UM_BIT(A_LSE), out));
    um_kernel *k = a->k;
    int64_t each = a->op->in[0].shape[0] * a->op->in[0].shape[2];
    um_val count = um_klaunch_scalar(k, a->launch, "count", (uint32_t)each);
    um_val h = um_klaunch_group_number(k), none = um_kattention_real(a, 0);
    um_mem sums = um_k_shared(k, "sums", a->compute, A_TILE);
    um_mem sum = um_kattention_var(a, "sum", none), lost = um_kattention_var(a, "rest", none);
    um_k_if(k, um_k_lt(k, h, a->heads));
    um_val f = um_k_for(k, g->local, count, um_k_u32(k, A_TILE));
    um_val place[3] = {um_k_div(k, f, a->queries), h, um_k_rem(k, f, a->queries)};
    um_val row = um_k_add(k, um_k_mul(k, place[0], a->heads), h);
    row = um_k_add(k, um_k_mul(k, row, a->queries), place[2]);
    um_val sees = um_k_load(k, a->scratch, um_k_add(k, g->sees_at, row));
    um_k_if(k, um_k_ne(k, sees, um_k_i32(k, 0)));
    um_val sink = um_kattention_load(a, A_SINKS, &h), lse = um_kattention_load(a, A_LSE, place);
    um_val p = um_k_exp(k, um_k_sub(k, sink, lse));
    um_ksum_add(k, sum, lost, um_k_neg(k, um_k_mul(k, p, load_delta(g, row))));
    um_k_end(k);
    um_k_end(k);
    um_k_store(k, sums, g->local, um_ksum_get(k, sum, lost));
    um_k_barrier(k);
    um_k_if(k, um_k_eq(k, g->local, a->zero));
    um_k_set(k, sum, none);
    um_k_set(k, lost, none);
    um_val t = um_k_for(k, a->zero, um_k_u32(k, A_TILE), a->one);
    um_ksum_add(k, sum, lost, um_k_load(k, sums, t));
    um_k_end(k);
    um_val at = um_kview_index(k, &a->view[A_OUT], a->view[A_OUT].base, 0, 1, &h);
    um_kview_store(k, &a->view[A_OUT], at, um_kvalue_as(k, out->dtype, um_ksum_get(k, sum, lost)));
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
    if (rows_of(op) < (int64_t)1 << 29) return true;
    if (why_size > 0)
        snprintf(why, why_size, "%s: no kernel for so many queries", um_op_name(op->id));
    return false;
}

um_status um_kattention_grad_plan(const um_op *op, um_kplan *plan)
{
    grad g = {.a = um_kattention_of(op, plan), .rows = rows_of(op)};
    uint64_t lengths = um_kattention_length_bytes(&g.a);
    g.numbers_at = (uint32_t)(lengths / 4);
    plan->scratch_bytes = lengths + 4 * (uint64_t)g.rows * (words_of(&g) + 1);
    UM_TRY(um_kattention_plan_lengths(&g.a));
    if (g.rows > 0) UM_TRY(plan_delta(&g));
    if (g.rows > 0) UM_TRY(plan_rows(&g, DQ)); /* also says who sees a key */
    for (target t = DK; t <= DV; t++)
        if (has_output(op, (int32_t)t)) UM_TRY(plan_rows(&g, t));
    if (has_output(op, 3)) UM_TRY(plan_bias(&g));
    return has_output(op, 4) ? plan_sinks(&g) : UM_OK;
}
