/* kernel/attention_forward.c: attention in the flash form: a work-group makes rows of the output
 * from tile after tile of keys and values (attention_tile.c), under maxima that grow as tiles come.
 * Where work-groups would be few, as in decoding, they share the keys of a row: each makes an
 * output and a log-sum-exp of its own, in the plan's scratch memory, and a second launch merges
 * them. */
#include "kernel/attention.h"

#include <math.h>
#include <stdio.h>

/* Keys that are worth a work-group; below so many groups keys are split, so that there are about as
 * many as wanted. */
enum { SPLIT_KEYS = 256, SPLIT_GROUPS = 128, SPLIT_WANTED = 512, SPLIT_MAX = 64 };

typedef struct forward {
    um_kattention a;
    um_ktile t;
    /* Of the scores' rows: the largest score, the sum of this invocation's weights. */
    um_mem top[UM_KTILE_ROWS];
    um_ksum total[UM_KTILE_ROWS];
    um_mem any;    /* bits: keys seen, as um_ktile_score has them */
    um_mem shrink; /* shared: by how much a row's sums shrink; then its top */
    um_kquery query[UM_KTILE_ROWS];
} forward;

static int64_t split_count(const forward *f)
{
    int64_t keys = f->a.op->in[1].shape[2], groups = UM_MAX(f->t.groups, 1);
    if (groups >= SPLIT_GROUPS || keys < 2 * SPLIT_KEYS) return 1;
    return UM_MIN(um_ceil_div(SPLIT_WANTED, groups), UM_MIN(keys / SPLIT_KEYS, SPLIT_MAX));
}

static int64_t row_count(const um_op *op)
{
    const um_view *q = &op->in[0];
    return q->shape[0] * q->shape[1] * q->shape[2];
}

static uint64_t partial_bytes(const forward *f)
{
    int64_t numbers = row_count(f->a.op) * (f->a.op->in[2].shape[3] + 1) * f->t.splits;
    return f->t.splits > 1 ? (uint64_t)(numbers * um_dtype_bits(f->a.compute) / 8) : 0;
}

/* Outputs and, behind them, log-sum-exps of all parts of the keys, in place of the op's. */
static void declare_partial(forward *f, um_kview view[2])
{
    um_kattention *a = &f->a;
    um_kernel *k = a->k;
    uint64_t at = um_kattention_length_bytes(a);
    um_mem mem = um_klaunch_scratch(a->launch, "partial", a->compute, at, partial_bytes(f));
    int64_t sums = row_count(a->op) * a->op->in[2].shape[3] * f->t.splits;
    um_val second = um_klaunch_scalar(a->launch, sums, "lse_at");
    um_val each = um_k_mul(k, a->queries, a->dv);
    view[0] = (um_kview){mem,
                         a->compute,
                         UM_KSTORE_PLAIN,
                         a->zero,
                         {um_k_mul(k, a->heads, each), each, a->dv, a->one}};
    view[1] = (um_kview){mem,
                         a->compute,
                         UM_KSTORE_PLAIN,
                         second,
                         {um_k_mul(k, a->heads, a->queries), a->queries, a->one}};
}

/* The views of part `split`; batch: of the op. */
static void move_partial(um_kernel *k, um_kview view[2], um_val split, um_val batch)
{
    for (int32_t i = 0; i < 2; i++) {
        um_val each = um_k_mul(k, batch, view[i].stride[0]);
        view[i].base = um_k_add(k, view[i].base, um_k_mul(k, split, each));
    }
}

/* ---- a tile --------------------------------------------------------------------------------- */

static void begin_rows(forward *f)
{
    um_kattention *a = &f->a;
    um_kernel *k = a->k;
    const um_ktile *t = &f->t;
    um_val none = um_kattention_real(a, 0), lowest = um_kattention_real(a, -(double)INFINITY);
    um_val adds = um_k_eq(k, um_k_add(k, t->x, t->split), a->zero); /* the sink's weight, once */
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val first = lowest, all = none;
        f->query[i] = um_ktile_query(t, um_k_add(k, t->first, um_ktile_own(t, false, i)));
        if (um_kattention_has(a, A_SINKS)) {
            first = um_kattention_load(a, A_SINKS, &f->query[i].h);
            all = um_k_exp(k, um_k_sub(k, first, um_kattention_shift(a, first)));
            all = um_k_select(k, adds, all, none);
            first = um_k_select(k, um_k_eq(k, t->split, a->zero), first, lowest);
        }
        f->top[i] = um_kvar(k, first, "top%u", i);
        f->total[i] = t->sum[0].lost ? um_ksum_new(k, all, "total%u", i)
                                     : (um_ksum){um_kvar(k, all, "total%u", i), 0};
    }
    f->any = um_kvar(k, a->zero, "any");
    f->shrink = um_k_shared(k, "shrink", a->compute, t->own);
}

static void shrink(const forward *f, um_ksum s, um_val by)
{
    um_kernel *k = f->a.k;
    um_k_set(k, s.sum, um_k_mul(k, um_k_get(k, s.sum), by));
    if (s.lost) um_k_set(k, s.lost, um_k_mul(k, um_k_get(k, s.lost), by));
}

/* Where in shared memory row i has a number of each invocation that shares it. */
static um_val shared_row(const um_ktile *t, bool sums, uint32_t i)
{
    return um_k_mul(t->a->k, um_ktile_own(t, sums, i), um_k_u32(t->a->k, t->across));
}

/* The largest score of each row: the invocations that share a row tell each other. */
static void raise_tops(const forward *f, const um_val *scores)
{
    const um_ktile *t = &f->t;
    um_kernel *k = f->a.k;
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val most = um_k_extract(k, scores[i], 0);
        for (uint32_t j = 1; j < 4; j++)
            most = um_kvalue_max(k, most, um_k_extract(k, scores[i], j));
        um_k_store(k, t->parts, um_k_add(k, shared_row(t, false, i), t->x), most);
    }
    um_k_barrier(k);
    um_val n = um_k_for(k, f->a.zero, um_k_u32(k, t->across), f->a.one);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val other = um_k_load(k, t->parts, um_k_add(k, shared_row(t, false, i), n));
        um_k_set(k, f->top[i], um_kvalue_max(k, um_k_get(k, f->top[i]), other));
    }
    um_k_end(k);
}

/* The row's numbers become weights, under a top that was `before`; what there is shrinks. */
static um_val weigh_row(const forward *f, uint32_t i, um_val score, um_val before)
{
    const um_kattention *a = &f->a;
    um_kernel *k = a->k;
    um_val lowest = um_kattention_real(a, -(double)INFINITY), top = um_k_get(k, f->top[i]);
    um_val shift = um_kattention_shift(a, top), all = um_kattention_real(a, 0);
    um_val weight = um_k_exp(k, um_k_sub(k, score, um_k_splat(k, 4, shift)));
    for (uint32_t j = 0; j < 4; j++) all = um_k_add(k, all, um_k_extract(k, weight, j));
    um_val same = um_k_eq(k, before, top); /* or all that is there is 0 */
    same = um_k_or(k, same, um_k_eq(k, before, lowest));
    um_val less =
        um_k_select(k, same, um_kattention_real(a, 1), um_k_exp(k, um_k_sub(k, before, shift)));
    shrink(f, f->total[i], less);
    um_ksum_add(k, f->total[i], all);
    um_k_if(k, um_k_eq(k, f->t.x, a->zero));
    um_k_store(k, f->shrink, um_ktile_own(&f->t, false, i), less);
    um_k_end(k);
    return weight;
}

static void add_tile(forward *f, um_val first)
{
    const um_kattention *a = &f->a;
    um_kernel *k = a->k;
    um_ktile *t = &f->t;
    um_mem sums[UM_KTILE_ROWS];
    um_val value[UM_KTILE_ROWS], before[UM_KTILE_ROWS], in, seen = a->zero;
    um_ktile_multiply(t, A_Q, A_K, a->d, first, sums);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        value[i] = um_ktile_score(t, sums[i], i, first, f->query, &seen, &in, NULL);
        before[i] = um_k_get(k, f->top[i]);
    }
    um_k_set(k, f->any, um_k_or(k, um_k_get(k, f->any), seen));
    raise_tops(f, value);
    for (uint32_t i = 0; i < t->score_rows; i++) value[i] = weigh_row(f, i, value[i], before[i]);
    um_k_barrier(k);
    for (uint32_t i = 0; i < t->sum_rows; i++) {
        um_val less = um_k_splat(k, 4, um_k_load(k, f->shrink, um_ktile_own(t, true, i)));
        for (uint32_t c = 0; c < t->wide; c++) shrink(f, t->sum[i * t->wide + c], less);
    }
    um_ktile_blend(t, value, seen, A_V, first);
}

/* ---- results -------------------------------------------------------------------------------- */

static void store_lse(const um_kattention *a, const um_val *place, um_val top, um_val total)
{
    um_kernel *k = a->k;
    const um_kview *lse = &a->view[A_LSE];
    um_val off = um_k_sub(k, top, top), log_sum = um_k_add(k, top, um_k_log(k, total));
    log_sum = um_k_select(k, um_k_eq(k, off, um_kattention_real(a, 0)), log_sum, top);
    um_kview_store(k, lse, um_kview_place(k, lse, 3, place), log_sum);
}

/* To those who finish rows: tops, totals, and 1 or 0 for whether any key was seen. */
static void share_totals(const forward *f)
{
    const um_kattention *a = &f->a;
    const um_ktile *t = &f->t;
    um_kernel *k = a->k;
    um_val one = um_kattention_real(a, 1), none = um_kattention_real(a, 0);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val bits = um_k_and(k, um_k_get(k, f->any), um_k_u32(k, (uint32_t)15 << (4 * i)));
        um_val at = um_k_add(k, shared_row(t, false, i), t->x);
        um_k_store(k, t->parts, at, um_ksum_get(k, f->total[i]));
        um_k_store(k, t->weights, at, um_k_select(k, um_k_ne(k, bits, a->zero), one, none));
        um_k_if(k, um_k_eq(k, t->x, a->zero));
        um_k_store(k, f->shrink, um_ktile_own(t, false, i), um_k_get(k, f->top[i]));
        um_k_end(k);
    }
    um_k_barrier(k);
}

/* total and any: variables. */
static void finish_row(const forward *f, uint32_t i, um_mem total, um_mem any)
{
    const um_kattention *a = &f->a;
    const um_ktile *t = &f->t;
    const um_kview *out = &a->view[A_OUT];
    um_kernel *k = a->k;
    um_val none = um_kattention_real(a, 0), own = um_ktile_own(t, true, i);
    um_k_set(k, total, none);
    um_k_set(k, any, none);
    um_val n = um_k_for(k, a->zero, um_k_u32(k, t->across), a->one);
    um_val at = um_k_add(k, shared_row(t, true, i), n);
    um_k_set(k, total, um_k_add(k, um_k_get(k, total), um_k_load(k, t->parts, at)));
    um_k_set(k, any, um_k_add(k, um_k_get(k, any), um_k_load(k, t->weights, at)));
    um_k_end(k);
    um_val row = um_k_add(k, t->first, own), rows = um_k_mul(k, a->group, a->queries);
    um_val there = um_k_lt(k, row, rows);
    um_kquery q = um_ktile_query(t, row);
    um_val place[3] = {q.b, q.h, q.i};
    at = um_kview_place(k, out, 3, place);
    for (uint32_t c = 0; c < t->wide; c++) {
        um_val y = um_k_div(k, um_ktile_sum(t, i, c), um_k_splat(k, 4, um_k_get(k, total)));
        um_val seen = um_k_ne(k, um_k_get(k, any), none);
        um_ktile_store(t, c, at, um_k_select(k, seen, y, um_k_splat(k, 4, none)), there);
    }
    if (a->view[A_LSE].mem) {
        um_k_if(k, um_k_and(k, there, um_k_eq(k, um_k_add(k, t->column, t->sum_x), a->zero)));
        store_lse(a, place, um_k_load(k, f->shrink, own), um_k_get(k, total));
        um_k_end(k);
    }
}

/* ---- launches ------------------------------------------------------------------------------- */

static um_val batch_of(const um_kattention *a)
{
    return um_klaunch_scalar(a->launch, a->op->in[0].shape[0], "batch");
}

static um_status plan_tiles(forward *f)
{
    um_kattention *a = &f->a;
    um_ktile *t = &f->t;
    const um_op *op = a->op;
    uint32_t wanted = UM_BIT(A_Q) | UM_BIT(A_K) | UM_BIT(A_V) | UM_BIT(A_BIAS) | UM_BIT(A_SINKS);
    if (t->splits == 1) wanted |= UM_BIT(A_OUT) | UM_BIT(A_LSE);
    int64_t terms = um_ceil_div(op->in[1].shape[2], t->splits);
    UM_TRY(um_ktile_begin(t, um_op_name(op->id), wanted, &op->out[0], terms));
    um_kernel *k = a->k;
    if (t->splits > 1) {
        declare_partial(f, &a->view[A_OUT]);
        move_partial(k, &a->view[A_OUT], t->split, batch_of(a));
    }
    begin_rows(f);
    add_tile(f, um_ktile_each(t));
    um_k_end(k);
    share_totals(f);
    um_mem total = um_kvar(k, um_kattention_real(a, 0), "all");
    um_mem any = um_kvar(k, um_kattention_real(a, 0), "seen_by");
    for (uint32_t i = 0; i < t->sum_rows; i++) finish_row(f, i, total, any);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* The log-sum-exp of part s, with the views at it. */
static um_val load_lse(um_kernel *k, um_kview view[2], um_val s, um_val batch, const um_val *place)
{
    move_partial(k, view, s, batch);
    return um_kview_load_at(k, &view[1], 3, place);
}

/* An invocation adds up the parts of an element. One that sees nothing, or only scores of -inf,
 * counts where all are so. */
static um_status plan_merge(forward *f)
{
    um_kattention *a = &f->a;
    int64_t count = um_view_count(&a->op->out[0]);
    UM_TRY(um_kattention_begin(a, "attention_merge", um_ceil_div(count, UM_KGROUP), UM_KGROUP));
    um_kernel *k = a->k;
    um_kview part[2], view[2];
    um_kattention_declare(a, UM_BIT(A_OUT) | UM_BIT(A_LSE), NULL);
    declare_partial(f, part);
    um_val all = um_klaunch_scalar(a->launch, count, "count"), batch = batch_of(a);
    um_val splits = um_klaunch_scalar(a->launch, f->t.splits, "splits");
    um_val e = um_klaunch_number(k), none = um_kattention_real(a, 0), place[4];
    um_val lowest = um_kattention_real(a, -(double)INFINITY);
    um_k_if(k, um_k_lt(k, e, all));
    um_kwalk_places(k, e, 0, 4, (um_val[]){0, a->heads, a->queries, a->dv}, place);
    um_mem top = um_kvar(k, lowest, "top"), total = um_kvar(a->k, none, "total");
    um_mem sum = um_kvar(k, none, "sum"), rest = um_kvar(a->k, none, "rest");
    um_val s = um_k_for(k, a->zero, splits, a->one);
    memcpy(view, part, sizeof view);
    um_val lse = load_lse(k, view, s, batch, place);
    um_k_set(k, top, um_kvalue_max(k, um_k_get(k, top), lse));
    um_k_end(k);
    um_val shift = um_kattention_shift(a, um_k_get(k, top));
    s = um_k_for(k, a->zero, splits, a->one);
    memcpy(view, part, sizeof view);
    lse = load_lse(k, view, s, batch, place);
    um_val y = um_kview_load_at(k, &view[0], 4, place);
    um_val weight = um_k_exp(k, um_k_sub(k, lse, shift));
    um_k_set(k, total, um_k_add(k, um_k_get(k, total), weight));
    um_k_if(k, um_k_ne(k, lse, lowest));
    um_k_set(k, sum, um_k_fma(k, weight, y, um_k_get(k, sum)));
    um_k_else(k);
    um_k_set(k, rest, um_k_add(k, um_k_get(k, rest), y));
    um_k_end(k);
    um_k_end(k);
    y = um_k_div(k, um_k_get(k, sum), um_k_get(k, total));
    y = um_k_select(k, um_k_eq(k, um_k_get(k, top), lowest), um_k_get(k, rest), y);
    const um_kview *out = &a->view[A_OUT];
    um_val at = um_kview_place(k, out, 4, place);
    um_kview_store(k, out, at, um_kvalue_as(k, out->dtype, y));
    if (a->view[A_LSE].mem) {
        um_k_if(k, um_k_eq(k, place[3], a->zero));
        store_lse(a, place, um_k_get(k, top), um_k_get(k, total));
        um_k_end(k);
    }
    um_k_end(k);
    return um_kernel_finish(k);
}

um_status um_kattention_forward_plan(const um_op *op, um_kplan *plan)
{
    forward f = {.a = um_kattention_of(op, plan)};
    f.t = um_ktile_of(&f.a, true, op->in[2].shape[3]);
    f.t.splits = split_count(&f);
    plan->scratch_bytes = um_kattention_length_bytes(&f.a) + partial_bytes(&f);
    UM_TRY(um_kattention_plan_lengths(&f.a));
    UM_TRY(plan_tiles(&f));
    return f.t.splits > 1 ? plan_merge(&f) : UM_OK;
}
