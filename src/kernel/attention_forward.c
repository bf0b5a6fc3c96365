/* kernel/attention_forward.c: attention in the flash form: a work-group makes rows of the output
 * from tile after tile of keys and values (attention_tile.c), under maxima that grow as tiles come.
 * Where work-groups would be few, they share the keys of a row, and a second launch merges what
 * they made. */
#include "kernel/attention.h"

#include <math.h>
#include <stdio.h>

enum { SPLIT_KEYS = 256, SPLIT_GROUPS = 128, SPLIT_WANTED = 512, SPLIT_MAX = 64 };
enum { STATS = 3 }; /* of a row in a part of the keys: top, total, whether it sees any */

/* Where each part of the keys makes its own results, in numbers of the plan's scratch memory: the
 * sums of every row and column, part by part, and then STATS of each row. */
typedef struct forward {
    um_kattention a;
    um_kform form;
    int64_t rows, chunks, tiles, heads, splits; /* rows of a head of keys, of all heads */
    um_mem partial, own, shrink;                /* of scratch; shared: of a tile's rows */
    um_mem top[UM_KTILE_ROWS], total[UM_KTILE_ROWS], total_lost[UM_KTILE_ROWS], any;
    um_kquery query[UM_KTILE_ROWS]; /* of the scores' rows; end: 0 where there is none */
    um_val number, stats_at;
} forward;

/* Which form when. The keys are shared by several work-groups where there are few: decoding. */
static forward forward_of(const um_op *op, um_kplan *plan)
{
    const um_view *key = &op->in[1], *v = &op->in[2];
    forward f = {.a = um_kattention_of(op, plan), .rows = um_ktile_row_count(op, true)};
    f.form = um_ktile_form(&f.a, f.rows, v->shape[3]);
    f.heads = key->shape[0] * key->shape[1];
    f.tiles = um_ceil_div(f.rows, f.form.own);
    f.chunks = UM_MAX(um_ceil_div(v->shape[3], f.form.wide * UM_KTILE_COLUMNS), 1);
    int64_t groups = UM_MAX(f.heads * f.tiles * f.chunks, 1), keys = key->shape[2];
    f.splits = 1;
    if (groups < SPLIT_GROUPS && keys >= 2 * SPLIT_KEYS)
        f.splits = UM_MIN(um_ceil_div(SPLIT_WANTED, groups), UM_MIN(keys / SPLIT_KEYS, SPLIT_MAX));
    return f;
}

static uint64_t partial_bytes(const forward *f)
{
    uint64_t numbers = (uint64_t)(f->splits * f->heads * f->rows);
    numbers *= (uint64_t)f->a.op->in[2].shape[3] + STATS;
    return f->splits > 1 ? numbers * (uint64_t)um_dtype_bits(f->a.compute) / 8 : 0;
}

static um_mem declare_partial(forward *f)
{
    um_kattention *a = &f->a;
    int64_t sums = f->splits * f->heads * f->rows * a->op->in[2].shape[3];
    f->stats_at = um_klaunch_scalar(a->k, a->launch, "stats_at", (uint32_t)sums);
    f->number = um_klaunch_scalar(a->k, a->launch, "rows", (uint32_t)(f->heads * f->rows));
    uint64_t at = um_kattention_length_bytes(a);
    return um_klaunch_scratch(a->k, a->launch, "partial", a->compute, at, partial_bytes(f));
}

/* The keys that some row of the work-group sees, and those that all see: as i32. */
static void find_keys(const um_ktile *t, um_val *begin, um_val *end, um_val *all_begin,
                      um_val *all_end)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_val rows = um_k_mul(k, a->group, a->queries), none = um_k_i32(k, 0);
    um_val last = um_k_add(k, t->first, um_k_u32(k, t->form.own));
    last = um_k_sub(k, um_k_min(k, last, rows), a->one);
    um_kquery from = um_ktile_query(t, t->first), to = um_ktile_query(t, last);
    um_val count = um_k_max(k, from.query_count, um_k_i32(k, 1));
    um_val i = um_k_min(k, um_k_sub(k, count, um_k_i32(k, 1)), um_kattention_i32(a, to.i));
    to = um_kattention_query_at(a, to.b, to.h, um_k_bitcast(k, UM_U32, 1, i));
    um_kquery some = from;
    um_val there = um_k_lt(k, um_kattention_i32(a, from.i), from.query_count);
    some.end = um_k_select(k, there, to.end, none);
    um_kattention_bounds(a, &some, t->local, begin, end);
    *all_begin = um_k_bitcast(k, UM_U32, 1, to.begin);
    *all_end = um_k_bitcast(k, UM_U32, 1, from.end);
}

static void state_begin(forward *f, const um_ktile *t, um_val split)
{
    um_kattention *a = &f->a;
    um_kernel *k = a->k;
    char name[32];
    um_val none = um_kattention_real(a, 0), lowest = um_kattention_real(a, -(double)INFINITY);
    um_val adds = um_k_eq(k, t->x, a->zero); /* the sink's weight, once */
    if (split) adds = um_k_and(k, adds, um_k_eq(k, split, a->zero));
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val first = lowest, all = none, rows = um_k_mul(k, a->group, a->queries);
        um_val row = um_k_add(k, um_k_mul(k, t->y, um_k_u32(k, t->score_rows)), um_k_u32(k, i));
        row = um_k_add(k, t->first, row);
        um_kquery *q = &f->query[i];
        *q = um_ktile_query(t, row);
        q->end = um_k_select(k, um_k_lt(k, row, rows), q->end, um_k_i32(k, 0));
        if (um_kattention_has(a, A_SINKS)) {
            first = um_kattention_load(a, A_SINKS, &q->h);
            all = um_k_exp(k, um_k_sub(k, first, um_kattention_shift(a, first)));
            all = um_k_select(k, adds, all, none);
        }
        snprintf(name, sizeof name, "top%d", (int)i);
        f->top[i] = um_kattention_var(a, name, first);
        snprintf(name, sizeof name, "total%d", (int)i);
        f->total[i] = um_kattention_var(a, name, all);
        snprintf(name, sizeof name, "total_lost%d", (int)i);
        f->total_lost[i] = t->lost[0] ? um_kattention_var(a, name, none) : 0;
    }
    f->any = um_kattention_var(a, "any", a->zero);
    f->shrink = um_k_shared(k, "shrink", a->compute, t->form.own);
}

/* The scores of a row, and -inf of what it does not see, whose bits are not in *seen. */
static um_val finish_scores(const forward *f, const um_ktile *t, um_mem sum, uint32_t i,
                            um_val first, um_val *seen)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    const um_kquery *q = &f->query[i];
    um_val s = um_kattention_finish(a, um_k_get(k, sum), NULL), item[4];
    first = um_k_add(k, first, um_k_mul(k, t->x, um_k_u32(k, 4)));
    for (uint32_t j = 0; j < 4; j++) {
        um_val key = um_k_add(k, first, um_k_u32(k, j)), at = um_kattention_i32(a, key);
        um_val in = um_k_and(k, um_k_ge(k, at, q->begin), um_k_lt(k, at, q->end));
        um_val bias = um_kattention_bias(a, q, key, &in);
        item[j] = um_k_extract(k, s, j);
        if (um_kattention_has(a, A_BIAS)) item[j] = um_k_add(k, item[j], bias);
        item[j] = um_k_select(k, in, item[j], um_kattention_real(a, -(double)INFINITY));
        um_val bit = um_k_select(k, in, um_k_u32(k, (uint32_t)1 << (4 * i + j)), a->zero);
        *seen = um_k_or(k, *seen, bit);
    }
    return um_k_vector(k, 4, item);
}

/* The largest of each row: the invocations that share a row tell each other. */
static void raise_tops(const forward *f, const um_ktile *t, const um_val *scores)
{
    um_kernel *k = t->a->k;
    um_val at[UM_KTILE_ROWS], across = um_k_u32(k, t->across), largest[UM_KTILE_ROWS];
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val row = um_k_add(k, um_k_mul(k, t->y, um_k_u32(k, t->score_rows)), um_k_u32(k, i));
        at[i] = um_k_mul(k, row, across);
        um_val low = um_kvalue_max(k, um_k_extract(k, scores[i], 0), um_k_extract(k, scores[i], 1));
        um_val high =
            um_kvalue_max(k, um_k_extract(k, scores[i], 2), um_k_extract(k, scores[i], 3));
        um_k_store(k, t->parts, um_k_add(k, at[i], t->x), um_kvalue_max(k, low, high));
    }
    um_k_barrier(k);
    um_val n = um_k_for(k, t->a->zero, across, t->a->one);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        largest[i] = um_k_load(k, t->parts, um_k_add(k, at[i], n));
        um_k_set(k, f->top[i], um_kvalue_max(k, um_k_get(k, f->top[i]), largest[i]));
    }
    um_k_end(k);
}

/* Scores become weights under a top that has grown; what there is of sums shrinks to that. */
static void weigh(const forward *f, um_ktile *t, const um_mem *sums, um_val first)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_val scores[UM_KTILE_ROWS], before[UM_KTILE_ROWS], weights[UM_KTILE_ROWS], seen = a->zero;
    um_val none = um_kattention_real(a, 0), one = um_kattention_real(a, 1), zero = a->zero;
    for (uint32_t i = 0; i < t->score_rows; i++) {
        scores[i] = finish_scores(f, t, sums[i], i, first, &seen);
        before[i] = um_k_get(k, f->top[i]);
    }
    raise_tops(f, t, scores);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val top = um_k_get(k, f->top[i]), shift = um_kattention_shift(a, top), item[4];
        um_val w = um_k_exp(k, um_k_sub(k, scores[i], um_k_splat(k, 4, shift))), all = none;
        for (uint32_t j = 0; j < 4; j++) {
            um_val bit = um_k_and(k, seen, um_k_u32(k, (uint32_t)1 << (4 * i + j)));
            item[j] = um_k_select(k, um_k_ne(k, bit, zero), um_k_extract(k, w, j), none);
            all = um_k_add(k, all, item[j]);
        }
        weights[i] = um_k_vector(k, 4, item);
        um_val less = um_k_exp(k, um_k_sub(k, before[i], shift));
        um_val same = um_k_eq(k, before[i], top); /* or all that is there is 0 */
        same = um_k_or(k, same, um_k_eq(k, before[i], um_kattention_real(a, -(double)INFINITY)));
        less = um_k_select(k, same, one, less);
        um_k_set(k, f->total[i], um_k_mul(k, um_k_get(k, f->total[i]), less));
        if (f->total_lost[i])
            um_k_set(k, f->total_lost[i], um_k_mul(k, um_k_get(k, f->total_lost[i]), less));
        um_ksum_add(k, f->total[i], f->total_lost[i], all);
        um_val row = um_k_add(k, um_k_mul(k, t->y, um_k_u32(k, t->score_rows)), um_k_u32(k, i));
        um_k_if(k, um_k_eq(k, t->x, zero));
        um_k_store(k, f->shrink, row, less);
        um_k_end(k);
    }
    um_k_set(k, f->any, um_k_or(k, um_k_get(k, f->any), seen));
    um_ktile_put(t, weights, seen);
    um_k_barrier(k);
    for (uint32_t i = 0; i < t->sum_rows * t->form.wide; i++) {
        um_val row = um_k_add(k, um_k_mul(k, t->sum_y, um_k_u32(k, t->sum_rows)),
                              um_k_u32(k, i / t->form.wide));
        um_val less = um_k_splat(k, 4, um_k_load(k, f->shrink, row));
        um_k_set(k, t->sum[i], um_k_mul(k, um_k_get(k, t->sum[i]), less));
        if (t->lost[i]) um_k_set(k, t->lost[i], um_k_mul(k, um_k_get(k, t->lost[i]), less));
    }
}

/* To shared memory, for those who finish rows: tops, and totals by invocation, -1 where it saw
 * nothing and has no part of the sink. */
static void share_totals(const forward *f, const um_ktile *t)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    for (uint32_t i = 0; i < t->score_rows; i++) {
        um_val row = um_k_add(k, um_k_mul(k, t->y, um_k_u32(k, t->score_rows)), um_k_u32(k, i));
        um_val mask = um_k_u32(k, (uint32_t)15 << (4 * i));
        um_val any = um_k_ne(k, um_k_and(k, um_k_get(k, f->any), mask), a->zero);
        um_val at = um_k_add(k, um_k_mul(k, row, um_k_u32(k, t->across)), t->x);
        um_k_store(k, t->parts, at, um_ksum_get(k, f->total[i], f->total_lost[i]));
        um_k_store(k, t->weights, at,
                   um_k_select(k, any, um_kattention_real(a, 1), um_kattention_real(a, 0)));
        um_k_if(k, um_k_eq(k, t->x, a->zero));
        um_k_store(k, f->shrink, row, um_k_get(k, f->top[i]));
        um_k_end(k);
    }
    um_k_barrier(k);
}

/* What is kept of a row: its total, and how many of its invocations saw a key. */
static void add_totals(const um_ktile *t, um_val row, um_mem total, um_mem any)
{
    um_kernel *k = t->a->k;
    um_val across = um_k_u32(k, t->across), none = um_kattention_real(t->a, 0);

    um_k_set(k, total, none);
    um_k_set(k, any, none);
    um_val n = um_k_for(k, t->a->zero, across, t->a->one);
    um_val at = um_k_add(k, um_k_mul(k, row, across), n);
    um_k_set(k, total, um_k_add(k, um_k_get(k, total), um_k_load(k, t->parts, at)));
    um_k_set(k, any, um_k_add(k, um_k_get(k, any), um_k_load(k, t->weights, at)));
    um_k_end(k);
}

/* Four columns of a row of memory, or what there is of them. */
static void store_four(const forward *f, um_mem partial, um_val at, um_val column, um_val y)
{
    const um_kattention *a = &f->a;
    um_kernel *k = a->k;
    const um_kview *out = &a->view[A_OUT];
    um_val step = partial ? a->one : out->stride[3];
    at = um_k_add(k, at, um_k_mul(k, column, step));
    if (!partial && a->in_fours) {
        um_k_if(k, um_k_lt(k, column, a->dv));
        um_k_store(k, out->mem, at, um_kvalue_as(k, out->dtype, y));
        um_k_end(k);
        return;
    }
    for (uint32_t j = 0; j < 4; j++, at = um_k_add(k, at, step)) {
        um_k_if(k, um_k_lt(k, um_k_add(k, column, um_k_u32(k, j)), a->dv));
        if (partial)
            um_k_store(k, partial, at, um_k_extract(k, y, j));
        else
            um_kview_store(k, out, at, um_kvalue_as(k, out->dtype, um_k_extract(k, y, j)));
        um_k_end(k);
    }
}

static void store_lse(const um_kattention *a, const um_val *place, um_val top, um_val total)
{
    um_kernel *k = a->k;
    const um_kview *lse = &a->view[A_LSE];
    um_val off = um_k_sub(k, top, top), log_sum = um_k_add(k, top, um_k_log(k, total));
    log_sum = um_k_select(k, um_k_eq(k, off, um_kattention_real(a, 0)), log_sum, top);
    um_kview_store(k, lse, um_kview_index(k, lse, lse->base, 0, 3, place), log_sum);
}

/* number: of the row in the scratch memory. */
static void finish_row(forward *f, const um_ktile *t, uint32_t i, um_val number, um_mem total_var,
                       um_mem any_var)
{
    um_kattention *a = &f->a;
    um_kernel *k = a->k;
    uint32_t wide = t->form.wide;
    um_val none = um_kattention_real(a, 0), place[4], own = t->sum_y;
    own = um_k_add(k, um_k_mul(k, own, um_k_u32(k, t->sum_rows)), um_k_u32(k, i));
    um_val row = um_k_add(k, t->first, own), rows = um_k_mul(k, a->group, a->queries);
    add_totals(t, own, total_var, any_var);
    um_val total = um_k_get(k, total_var), any = um_k_get(k, any_var);
    um_val top = um_k_load(k, f->shrink, own), at = 0;
    um_k_if(k, um_k_lt(k, row, rows));
    um_kquery q = um_ktile_query(t, row);
    memcpy(place, (um_val[]){q.b, q.h, q.i, a->zero}, sizeof place);
    number = um_k_add(k, number, row);
    if (f->partial)
        at = um_k_mul(k, number, a->dv);
    else
        at = um_kview_index(k, &a->view[A_OUT], a->view[A_OUT].base, 0, 3, place);
    for (uint32_t c = 0; c < wide; c++) {
        um_val y = um_ksum_get(k, t->sum[i * wide + c], t->lost[i * wide + c]);
        um_val column = um_k_add(k, t->column, um_k_mul(k, t->sum_x, um_k_u32(k, 4)));
        column = um_k_add(k, column, um_k_u32(k, c * UM_KTILE_COLUMNS));
        if (!f->partial) {
            um_val none4 = um_k_splat(k, 4, none);
            y = um_k_div(k, y, um_k_splat(k, 4, total));
            y = um_k_select(k, um_k_eq(k, any, none), none4, y);
        }
        store_four(f, f->partial, at, column, y);
    }
    if (f->partial || um_kattention_has(a, A_LSE)) {
        um_val first = um_k_eq(k, um_k_add(k, t->column, t->sum_x), a->zero);
        um_k_if(k, first);
        if (f->partial) {
            um_val stats[STATS] = {top, total, any};
            at = um_k_add(k, f->stats_at, um_k_mul(k, number, um_k_u32(k, STATS)));
            for (uint32_t j = 0; j < STATS; j++, at = um_k_add(k, at, a->one))
                um_k_store(k, f->partial, at, stats[j]);
        } else {
            store_lse(a, place, top, total);
        }
        um_k_end(k);
    }
    um_k_end(k);
}

/* Of the work-group's number: which columns, part of the keys, tile (the last comes first: a causal
 * one has most to do), head, batch entry. */
static um_val find_tile(forward *f, um_ktile *t)
{
    um_kattention *a = &f->a;
    um_kernel *k = a->k;
    um_klaunch *launch = a->launch;
    um_val n = um_klaunch_group_number(k), place[5];
    um_val size[5] = {0, a->kv_heads, um_klaunch_scalar(k, launch, "splits", (uint32_t)f->splits),
                      um_klaunch_scalar(k, launch, "tiles", (uint32_t)f->tiles),
                      um_klaunch_scalar(k, launch, "chunks", (uint32_t)f->chunks)};
    um_kwalk_places(k, n, 0, 5, size, place);
    t->b = place[0];
    t->head = place[1];
    um_val tile = um_k_sub(k, um_k_sub(k, size[3], place[3]), a->one);
    t->first = um_k_mul(k, tile, um_k_u32(k, t->form.own));
    t->column = um_k_mul(k, place[4], um_k_u32(k, t->form.wide * UM_KTILE_COLUMNS));
    return place[2];
}

static um_status plan_forward(forward *f)
{
    um_kattention *a = &f->a;
    const um_op *op = a->op;
    int64_t groups = f->heads * f->tiles * f->chunks * f->splits;
    UM_TRY(um_kattention_begin(a, um_op_name(op->id), groups, UM_KTILE_GROUP));
    um_kernel *k = a->k;
    uint32_t results = f->splits > 1 ? 0 : UM_BIT(A_OUT) | UM_BIT(A_LSE);
    um_kattention_declare(
        a, UM_BIT(A_Q) | UM_BIT(A_K) | UM_BIT(A_V) | UM_BIT(A_BIAS) | UM_BIT(A_SINKS) | results,
        NULL);
    f->partial = f->splits > 1 ? declare_partial(f) : 0;
    um_val count = um_klaunch_scalar(k, a->launch, "groups", (uint32_t)groups);
    um_k_if(k, um_k_lt(k, um_klaunch_group_number(k), count));
    int64_t terms = um_ceil_div(op->in[1].shape[2], f->splits);
    um_ktile t = um_ktile_make(a, f->form, true, terms);
    um_val split = find_tile(f, &t), begin, end, all_begin, all_end, head;
    find_keys(&t, &begin, &end, &all_begin, &all_end);
    um_val other = um_k_u32(k, f->form.other);
    if (f->splits > 1) {
        um_val splits = um_k_u32(k, (uint32_t)f->splits);
        um_val left = um_k_select(k, um_k_lt(k, begin, end), um_k_sub(k, end, begin), a->zero);
        um_val each = um_k_add(k, um_k_div(k, left, um_k_mul(k, splits, other)), a->one);
        each = um_k_mul(k, each, other);
        begin = um_k_add(k, begin, um_k_mul(k, split, each));
        end = um_k_min(k, end, um_k_add(k, begin, each));
    }
    state_begin(f, &t, f->splits > 1 ? split : 0);
    um_val first = um_k_for(k, begin, end, other);
    um_mem scores[UM_KTILE_ROWS];
    um_ktile_multiply(&t, A_Q, A_K, a->d, first, scores);
    weigh(f, &t, scores, first);
    um_val ragged = um_k_lt(k, first, all_begin);
    ragged = um_k_or(k, ragged, um_k_gt(k, um_k_add(k, first, other), all_end));
    if (um_kattention_has(a, A_BIAS)) ragged = um_k_bool(k, true);
    um_ktile_blend(&t, A_V, first, ragged);
    um_k_end(k);
    share_totals(f, &t);
    um_mem total = um_kattention_var(a, "all", um_kattention_real(a, 0));
    um_mem any = um_kattention_var(a, "seen_by", um_kattention_real(a, 0));
    head = um_k_add(k, um_k_mul(k, t.b, a->kv_heads), t.head);
    um_val number = um_k_mul(k, head, um_k_mul(k, a->group, a->queries));
    if (f->partial) number = um_k_add(k, number, um_k_mul(k, split, f->number));
    for (uint32_t i = 0; i < t.sum_rows; i++) finish_row(f, &t, i, number, total, any);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* The second launch: an invocation adds up the parts of an element, under the largest of tops. */
static um_status plan_merge(forward *f)
{
    um_kattention *a = &f->a;
    int64_t count = f->heads * f->rows * a->op->in[2].shape[3];
    UM_TRY(um_kattention_begin(a, "attention_merge", um_ceil_div(count, UM_KGROUP), UM_KGROUP));
    um_kernel *k = a->k;
    a->in_fours = false;
    um_kattention_declare(a, UM_BIT(A_OUT) | UM_BIT(A_LSE), NULL);
    um_mem partial = declare_partial(f);
    um_val all = um_klaunch_scalar(k, a->launch, "count", (uint32_t)count);
    um_val splits = um_klaunch_scalar(k, a->launch, "splits", (uint32_t)f->splits);
    um_val e = um_klaunch_number(k), none = um_kattention_real(a, 0), three = um_k_u32(k, STATS);
    um_k_if(k, um_k_lt(k, e, all));
    um_val row = um_k_div(k, e, a->dv), column = um_k_rem(k, e, a->dv);
    um_mem top = um_kattention_var(a, "top", um_kattention_real(a, -(double)INFINITY));
    um_mem total = um_kattention_var(a, "total", none), sum = um_kattention_var(a, "sum", none);
    um_mem any = um_kattention_var(a, "any", none);
    um_val s = um_k_for(k, a->zero, splits, a->one);
    um_val at = um_k_mul(k, um_k_add(k, um_k_mul(k, s, f->number), row), three);
    um_val own = um_k_load(k, partial, um_k_add(k, f->stats_at, at));
    um_k_set(k, top, um_kvalue_max(k, um_k_get(k, top), own));
    um_k_end(k);
    um_val shift = um_kattention_shift(a, um_k_get(k, top));
    s = um_k_for(k, a->zero, splits, a->one);
    um_val number = um_k_add(k, um_k_mul(k, s, f->number), row);
    at = um_k_add(k, f->stats_at, um_k_mul(k, number, three));
    um_val less = um_k_exp(k, um_k_sub(k, um_k_load(k, partial, at), shift));
    at = um_k_add(k, at, a->one);
    um_val part = um_k_mul(k, um_k_load(k, partial, at), less);
    um_k_set(k, total, um_k_add(k, um_k_get(k, total), part));
    um_val seen = um_k_load(k, partial, um_k_add(k, at, a->one));
    um_k_if(k, um_k_ne(k, seen, none));
    um_k_set(k, any, um_kattention_real(a, 1));
    part = um_k_load(k, partial, um_k_add(k, um_k_mul(k, number, a->dv), column));
    um_k_set(k, sum, um_k_fma(k, part, less, um_k_get(k, sum)));
    um_k_end(k);
    um_k_end(k);
    um_val rows = um_k_mul(k, a->group, a->queries), head = um_k_div(k, row, rows);
    um_val in_head = um_k_rem(k, row, rows), h = um_k_rem(k, head, a->kv_heads);
    h = um_k_add(k, um_k_mul(k, h, a->group), um_k_rem(k, in_head, a->group));
    um_val place[4] = {um_k_div(k, head, a->kv_heads), h, um_k_div(k, in_head, a->group), column};
    um_val y = um_k_div(k, um_k_get(k, sum), um_k_get(k, total));
    y = um_k_select(k, um_k_eq(k, um_k_get(k, any), none), none, y);
    const um_kview *out = &a->view[A_OUT];
    um_kview_store(k, out, um_kview_index(k, out, out->base, 0, 4, place),
                   um_kvalue_as(k, out->dtype, y));
    if (um_kattention_has(a, A_LSE)) {
        um_k_if(k, um_k_eq(k, column, a->zero));
        store_lse(a, place, um_k_get(k, top), um_k_get(k, total));
        um_k_end(k);
    }
    um_k_end(k);
    return um_kernel_finish(k);
}

um_status um_kattention_forward_plan(const um_op *op, um_kplan *plan)
{
    forward f = forward_of(op, plan);
    uint64_t lengths = um_kattention_length_bytes(&f.a);
    plan->scratch_bytes = lengths + partial_bytes(&f);
    UM_TRY(um_kattention_plan_lengths(&f.a));
    f.a.in_fours = um_kwalk_lanes(&op->out[0], 3) == 4;
    UM_TRY(plan_forward(&f));
    return f.splits > 1 ? plan_merge(&f) : UM_OK;
}
