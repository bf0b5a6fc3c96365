/* kernel/attention_tile.c: what attention and its gradients do tile by tile: a work-group's rows of
 * queries meet a tile of keys, or the other way round, in a sum of products over the head size,
 * from parts of both in shared memory; what is made of that, weights, is put there, and multiplied
 * by rows of a third view. Who calls it says what weights are.
 *
 * Shared memory is 16 KiB at most: parts, which also hold the third view's rows; weights; who sees
 * whom; and little more of the caller's. */
#include "kernel/attention.h"

#include <math.h>

enum {
    GROUP = UM_KTILE_GROUP,
    LANES = 4,
    ACROSS = UM_KTILE_COLUMNS / LANES, /* invocations across the columns that are made */
    PARTS = 8,                         /* vectors that an invocation fetches at a time, at most */
    TERMS_FEW = 1024 /* sums of parts of that many lose less than the contract allows */
};

/* ---- forms ---------------------------------------------------------------------------------- */

/* Columns of more than one number of UM_KTILE_COLUMNS cost an invocation the rows that it can keep
 * sums of; f64 has half of all. */
um_ktile um_ktile_of(um_kattention *a, bool queries, int64_t columns)
{
    const um_view *q = &a->op->in[0], *key = &a->op->in[1];
    bool f64 = a->compute == UM_F64, wide = columns > UM_KTILE_COLUMNS && !f64;
    int64_t heads = key->shape[0] * key->shape[1], rows = key->shape[2];
    if (queries) rows = q->shape[1] / UM_MAX(key->shape[1], 1) * q->shape[2];
    um_ktile t = {.a = a, .queries = queries, .own = 32, .other = 64, .splits = 1};
    t.column_count = columns;
    if (f64) t.own = 16, t.other = 32;
    if (rows <= 8) t.own = 8, t.other = 64;
    t.wide = wide ? 2 : 1;
    t.deep = f64 ? 8 : 16;
    t.across = t.other / LANES;
    t.score_rows = t.own * t.across / GROUP;
    t.sum_rows = t.own * ACROSS / GROUP;
    t.tiles = um_ceil_div(rows, t.own);
    t.chunks = UM_MAX(um_ceil_div(columns, t.wide * UM_KTILE_COLUMNS), 1);
    t.groups = heads * t.tiles * t.chunks;
    return t;
}

static um_mem new_sum(um_ktile *t, const char *name, int32_t lanes)
{
    um_val none = um_k_splat(t->a->k, lanes, um_kattention_real(t->a, 0));
    return um_kvar(t->a->k, none, "%s%d", name, (int)t->names++);
}

/* Of so many terms. */
static um_ksum new_long_sum(um_ktile *t, const char *name, int64_t terms)
{
    um_val none = um_k_splat(t->a->k, LANES, um_kattention_real(t->a, 0));
    if (terms <= TERMS_FEW) return (um_ksum){new_sum(t, name, LANES), 0};
    return um_ksum_new(t->a->k, none, "%s%d", name, (int)t->names++);
}

/* x * by + plus */
static um_val scaled(const um_ktile *t, um_val x, uint32_t by, um_val plus)
{
    um_kernel *k = t->a->k;
    return um_k_add(k, um_k_mul(k, x, um_k_u32(k, by)), plus);
}

static um_val rows_of(const um_ktile *t, bool queries)
{
    const um_kattention *a = t->a;
    return queries ? um_k_mul(a->k, a->group, a->queries) : a->keys;
}

/* The keys that some of the tile's queries see, and those that all see: those of the last query
 * that there is begin and end last. */
static um_kquery find_keys(um_ktile *t, um_val last, um_val *all_begin, um_val *all_end)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_kquery from = um_ktile_query(t, t->first), to = um_ktile_query(t, last);
    um_val one = um_k_i32(k, 1), end = um_k_sub(k, um_k_max(k, from.query_count, one), one);
    um_val i = um_k_bitcast(k, UM_U32, 1, um_k_min(k, end, um_kattention_i32(a, to.i)));
    *all_end = um_k_min(k, from.end, to.end);
    to = um_kattention_query_at(a, to.b, to.h, i);
    *all_begin = to.begin;
    um_val there = um_k_lt(k, um_kattention_i32(a, from.i), from.query_count);
    from.end = um_k_select(k, there, to.end, um_k_i32(k, 0));
    return from;
}

/* The queries' rows that see some of the tile's keys, and those that see all. */
static um_kquery find_queries(um_ktile *t, um_val last, um_val *all_begin, um_val *all_end)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    const um_attention_desc *attrs = &a->op->attrs.attention;
    um_kquery q = um_kattention_query_at(a, t->b, um_k_mul(k, t->head, a->group), a->zero);
    um_val none = um_k_i32(k, 0), shift = um_k_sub(k, q.key_count, q.query_count);
    um_val group = um_kattention_i32(a, a->group), high = um_kattention_i32(a, last);
    um_val low = um_kattention_i32(a, t->first), in = um_k_lt(k, low, q.key_count);
    um_val all = um_k_lt(k, high, q.key_count), window = um_kattention_i32(a, a->window);
    um_val most = um_k_i32(k, (1 << 30) - 1); /* so that no sum wraps */
    if (attrs->causal == UM_CAUSAL_TOP_LEFT) shift = none;
    low = um_k_min(k, um_k_sub(k, low, shift), most);
    high = um_k_min(k, um_k_sub(k, high, shift), most);
    q.begin = *all_begin = none;
    q.end = *all_end = q.query_count;
    if (attrs->causal != UM_CAUSAL_NONE || attrs->window > 0) {
        q.begin = um_k_max(k, low, none);
        *all_begin = um_k_max(k, high, none);
    }
    if (attrs->window > 0) {
        q.end = um_k_max(k, um_k_min(k, q.end, um_k_add(k, high, window)), none);
        *all_end = um_k_max(k, um_k_min(k, *all_end, um_k_add(k, low, window)), none);
    }
    q.begin = um_k_mul(k, q.begin, group);
    q.end = um_k_mul(k, um_k_select(k, in, q.end, none), group);
    *all_begin = um_k_mul(k, *all_begin, group);
    *all_end = um_k_mul(k, um_k_select(k, all, *all_end, none), group);
    return q;
}

/* begin and end as u32 that count as the same in the whole work-group, as they are. */
static void share_bounds(um_ktile *t, const um_kquery *q)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_mem bounds = um_k_shared(k, "bounds", UM_U32, 2);
    um_k_if(k, um_k_eq(k, t->local, a->zero));
    um_k_store(k, bounds, a->zero, um_k_bitcast(k, UM_U32, 1, q->begin));
    um_k_store(k, bounds, a->one, um_k_bitcast(k, UM_U32, 1, q->end));
    um_k_end(k);
    t->begin = um_k_load_uniform(k, bounds, a->zero);
    t->end = um_k_load_uniform(k, bounds, a->one);
}

static void find_others(um_ktile *t)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_val all_begin, all_end, last = um_k_add(k, t->first, um_k_u32(k, t->own));
    last = um_k_sub(k, um_k_min(k, last, rows_of(t, t->queries)), a->one);
    um_kquery q = (t->queries ? find_keys : find_queries)(t, last, &all_begin, &all_end);
    share_bounds(t, &q);
    t->all_begin = um_k_bitcast(k, UM_U32, 1, all_begin);
    t->all_end = um_k_bitcast(k, UM_U32, 1, all_end);
    if (t->splits == 1) return;
    um_val by = um_k_mul(k, t->split_count, um_k_u32(k, t->other));
    um_val size = um_k_sub(k, um_k_max(k, t->begin, t->end), t->begin);
    um_val each = um_k_add(k, um_k_div(k, size, by), a->one);
    each = um_k_mul(k, each, um_k_u32(k, t->other));
    t->begin = um_k_add(k, t->begin, um_k_mul(k, t->split, each));
    t->end = um_k_min(k, t->end, um_k_add(k, t->begin, each));
}

/* The work-group's number: the last tile comes first, a causal one has most to do. */
static void find_place(um_ktile *t)
{
    um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_klaunch *l = a->launch;
    um_val place[5], n = um_klaunch_group_number(k);
    um_val size[5] = {0, a->kv_heads, um_klaunch_scalar(l, t->splits, "splits"),
                      um_klaunch_scalar(l, t->tiles, "tiles"),
                      um_klaunch_scalar(l, t->chunks, "chunks")};
    t->columns = um_klaunch_scalar(l, t->column_count, "columns");
    um_val count = um_klaunch_scalar(l, t->groups * t->splits, "groups");
    um_k_if(k, um_k_lt(k, n, count));
    um_kwalk_places(k, n, 0, 5, size, place);
    um_val tile = um_k_sub(k, um_k_sub(k, size[3], place[3]), a->one);
    t->b = place[0];
    t->head = place[1];
    t->split = place[2];
    t->split_count = size[2];
    t->first = um_k_mul(k, tile, um_k_u32(k, t->own));
    t->column = um_k_mul(k, place[4], um_k_u32(k, t->wide * UM_KTILE_COLUMNS));
}

um_status um_ktile_begin(um_ktile *t, const char *name, uint32_t wanted, const um_view *out,
                         int64_t terms)
{
    um_kattention *a = t->a;
    UM_TRY(um_kattention_begin(a, name, t->groups * t->splits, GROUP));
    um_kernel *k = a->k;
    a->in_fours = wanted >> A_OUT & 1 && um_kwalk_lanes(out, 3) == LANES;
    um_kattention_declare(a, wanted, out);
    find_place(t);
    um_val across = um_k_u32(k, t->across), sum_across = um_k_u32(k, ACROSS);
    t->local = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    t->x = um_k_rem(k, t->local, across);
    t->y = um_k_div(k, t->local, across);
    t->sum_x = um_k_rem(k, t->local, sum_across);
    t->sum_y = um_k_div(k, t->local, sum_across);
    t->parts = um_k_shared(k, "parts", a->compute, t->deep * (t->own + t->other + LANES));
    t->weights = um_k_shared(k, "weights", a->compute, t->other * (t->own + LANES));
    t->seen = um_k_shared(k, "seen", UM_U32, GROUP);
    for (uint32_t i = 0; i < t->sum_rows * t->wide; i++) t->sum[i] = new_long_sum(t, "sum", terms);
    find_others(t);
    return UM_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

um_val um_ktile_own(const um_ktile *t, bool sums, uint32_t i)
{
    um_val place = um_k_u32(t->a->k, i);
    return sums ? scaled(t, t->sum_y, t->sum_rows, place) : scaled(t, t->y, t->score_rows, place);
}

static um_val head_of(const um_ktile *t, um_val row)
{
    um_kernel *k = t->a->k;
    um_val first = um_k_mul(k, t->head, t->a->group);
    return um_k_add(k, first, um_k_rem(k, row, t->a->group));
}

um_val um_ktile_index(const um_ktile *t, int32_t view, bool queries, um_val row, um_val column)
{
    const um_kattention *a = t->a;
    const um_kview *v = &a->view[view];
    um_val place[4] = {t->b, t->head, row, column};
    if (queries) {
        place[1] = head_of(t, row);
        place[2] = um_k_div(a->k, row, a->group);
    }
    return um_kview_place(a->k, v, a->walk.view[view]->rank, place);
}

um_kquery um_ktile_query(const um_ktile *t, um_val row)
{
    const um_kattention *a = t->a;
    um_val rows = rows_of(t, true), there = um_k_lt(a->k, row, rows);
    row = um_k_min(a->k, row, um_k_sub(a->k, rows, a->one));
    um_kquery q = um_kattention_query_at(a, t->b, head_of(t, row), um_k_div(a->k, row, a->group));
    q.end = um_k_select(a->k, there, q.end, um_k_i32(a->k, 0));
    return q;
}

um_val um_ktile_each(const um_ktile *t)
{
    return um_k_for(t->a->k, t->begin, t->end, um_k_u32(t->a->k, t->other));
}

static void load_rows(um_kernel *k, um_mem mem, um_val at, uint32_t count, um_val *out)
{
    uint32_t lanes = UM_MIN(count, LANES);
    for (uint32_t i = 0; i < count; i += lanes) {
        um_val from = um_k_add(k, at, um_k_u32(k, i));
        um_val x = um_k_load_lanes(k, mem, from, (int32_t)lanes);
        for (uint32_t j = 0; j < lanes; j++) out[i + j] = um_k_extract(k, x, j);
    }
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Rows of a view, `deep` elements of each, that this invocation brings to shared memory. */
typedef struct rows {
    int32_t view, lanes;
    uint32_t size, deep, count; /* rows; vectors of this invocation */
    um_val row[PARTS], depth[PARTS], index[PARTS], in[PARTS];
    um_mem fetched[PARTS];
} rows;

static rows rows_make(um_ktile *t, int32_t view, bool own, um_val first, uint32_t size,
                      uint32_t deep)
{
    um_kernel *k = t->a->k;
    bool queries = own == t->queries;
    rows r = {.view = view, .size = size, .deep = deep};
    r.lanes = um_kwalk_lanes(t->a->walk.view[view], 3);
    uint32_t vectors = deep / (uint32_t)r.lanes;
    r.count = UM_MAX(size * vectors / GROUP, 1);
    for (uint32_t i = 0; i < r.count; i++) {
        um_val l = um_k_add(k, t->local, um_k_u32(k, i * GROUP)), by = um_k_u32(k, vectors);
        r.row[i] = um_k_div(k, l, by);
        r.depth[i] = um_k_mul(k, um_k_rem(k, l, by), um_k_u32(k, (uint32_t)r.lanes));
        um_val row = um_k_add(k, first, r.row[i]);
        r.in[i] = um_k_lt(k, row, rows_of(t, queries));
        r.index[i] = um_ktile_index(t, view, queries, row, r.depth[i]);
        r.fetched[i] = new_sum(t, "next", r.lanes);
    }
    return r;
}

/* Elements `from` on, up to `end`; others are 0. */
static void fetch(const um_ktile *t, const rows *r, um_val from, um_val end)
{
    um_kernel *k = t->a->k;
    const um_kview *v = &t->a->view[r->view];
    um_val far = um_k_mul(k, from, v->stride[3]);
    um_val none = um_k_splat(k, r->lanes, um_k_const(k, v->dtype, 0));
    for (uint32_t i = 0; i < r->count; i++) {
        um_val in = um_k_and(k, r->in[i], um_k_lt(k, um_k_add(k, from, r->depth[i]), end));
        um_val x = um_k_load_if(k, v->mem, um_k_add(k, r->index[i], far), in, none);
        um_k_set(k, r->fetched[i], um_kvalue_as(k, t->a->compute, x));
    }
}

/* From `offset` on, row after row, or element after element, `step` apart. */
static void store_fetched(const um_ktile *t, const rows *r, uint32_t offset, uint32_t step,
                          bool by_rows)
{
    um_kernel *k = t->a->k;
    bool few = r->size * r->deep / (uint32_t)r->lanes < GROUP; /* for some invocations */
    for (uint32_t i = 0; i < r->count; i++) {
        um_val x = um_k_get(k, r->fetched[i]), to = scaled(t, r->depth[i], step, r->row[i]);
        if (by_rows) to = scaled(t, r->row[i], step, r->depth[i]);
        to = um_k_add(k, to, um_k_u32(k, offset));
        if (few) um_k_if(k, um_k_lt(k, r->row[i], um_k_u32(k, r->size)));
        if (by_rows) um_k_store(k, t->parts, to, x);
        for (int32_t j = 0; j < r->lanes && !by_rows; j++, to = um_k_add(k, to, um_k_u32(k, step)))
            um_k_store(k, t->parts, to, um_k_extract(k, x, (uint32_t)j));
        if (few) um_k_end(k);
    }
}

void um_ktile_multiply(um_ktile *t, int32_t x, int32_t y, um_val depth, um_val first,
                       um_mem scores[UM_KTILE_ROWS])
{
    um_kernel *k = t->a->k;
    const um_kattention *a = t->a;
    um_mem part[UM_KTILE_ROWS];
    um_ksum sum[UM_KTILE_ROWS];
    um_val row[UM_KTILE_ROWS], none = um_k_splat(k, LANES, um_kattention_real(a, 0));
    /* A row's depths lie in different banks. */
    uint32_t step = t->other + LANES, offset = t->deep * t->own;
    rows own = rows_make(t, x, true, t->first, t->own, t->deep);
    rows other = rows_make(t, y, false, first, t->other, t->deep);
    for (uint32_t i = 0; i < t->score_rows; i++) {
        sum[i] = new_long_sum(t, "score", a->walk.view[x]->shape[3]);
        part[i] = new_sum(t, "part", LANES);
        scores[i] = sum[i].sum;
    }
    um_val deep = um_k_u32(k, t->deep);
    fetch(t, &own, a->zero, depth);
    fetch(t, &other, a->zero, depth);
    um_val from = um_k_for(k, a->zero, depth, deep), next = um_k_add(k, from, deep);
    store_fetched(t, &own, 0, t->own, false);
    store_fetched(t, &other, offset, step, false);
    um_k_barrier(k);
    fetch(t, &own, next, depth);
    fetch(t, &other, next, depth);
    for (uint32_t i = 0; i < t->score_rows; i++) um_k_set(k, part[i], none);
    um_val d = um_k_for(k, a->zero, deep, a->one);
    um_val at = scaled(t, d, t->own, um_ktile_own(t, false, 0));
    load_rows(k, t->parts, at, t->score_rows, row);
    at = scaled(t, d, step, scaled(t, t->x, LANES, um_k_u32(k, offset)));
    um_val four = um_k_load_lanes(k, t->parts, at, LANES);
    for (uint32_t i = 0; i < t->score_rows; i++)
        um_k_set(k, part[i], um_k_fma(k, um_k_splat(k, LANES, row[i]), four, um_k_get(k, part[i])));
    um_k_end(k);
    for (uint32_t i = 0; i < t->score_rows; i++) um_ksum_add(k, sum[i], um_k_get(k, part[i]));
    um_k_barrier(k);
    um_k_end(k);
    for (uint32_t i = 0; i < t->score_rows && sum[i].lost; i++)
        um_k_set(k, scores[i], um_ksum_get(k, sum[i]));
}

um_val um_ktile_score(const um_ktile *t, um_mem sum, uint32_t i, um_val first,
                      const um_kquery *query, um_val *seen, um_val *in, um_val *slope)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    um_val s = um_kattention_finish(a, um_k_get(k, sum), slope), item[LANES], ins[LANES];
    um_val own = um_k_add(k, t->first, um_ktile_own(t, false, i));
    first = scaled(t, t->x, LANES, first);
    for (uint32_t j = 0; j < LANES; j++) {
        const um_kquery *q = &query[t->queries ? i : j];
        um_val key = t->queries ? um_k_add(k, first, um_k_u32(k, j)) : own;
        um_val at = um_kattention_i32(a, key), bit = um_k_u32(k, (uint32_t)1 << (LANES * i + j));
        ins[j] = um_k_and(k, um_k_ge(k, at, q->begin), um_k_lt(k, at, q->end));
        um_val bias = um_kattention_bias(a, q, key, &ins[j]);
        item[j] = um_k_extract(k, s, j);
        if (um_kattention_has(a, A_BIAS)) item[j] = um_k_add(k, item[j], bias);
        item[j] = um_k_select(k, ins[j], item[j], um_kattention_real(a, -(double)INFINITY));
        *seen = um_k_or(k, *seen, um_k_select(k, ins[j], bit, a->zero));
    }
    *in = um_k_vector(k, LANES, ins);
    return um_k_vector(k, LANES, item);
}

/* ---- weights and what they make ------------------------------------------------------------- */

/* From one row of the others to the next. */
static uint32_t weight_step(const um_ktile *t) { return t->own + LANES; }

static void put_weights(const um_ktile *t, const um_val *weights, um_val seen)
{
    um_kernel *k = t->a->k;
    um_val at = scaled(t, t->x, LANES * weight_step(t), um_ktile_own(t, false, 0)), row[LANES];
    for (uint32_t j = 0; j < LANES; j++, at = um_k_add(k, at, um_k_u32(k, weight_step(t)))) {
        for (uint32_t i = 0; i < t->score_rows; i++) row[i] = um_k_extract(k, weights[i], j);
        um_k_store(k, t->weights, at, um_k_vector(k, (int32_t)t->score_rows, row));
    }
    um_k_store(k, t->seen, t->local, seen);
}

/* Whether own row i of the invocation's sums sees other row `at`, by what put_weights had. */
static um_val sees(const um_ktile *t, um_val at, uint32_t i)
{
    um_kernel *k = t->a->k;
    uint32_t each = t->score_rows;
    um_val four = um_k_u32(k, LANES), y = um_k_u32(k, i / each);
    y = scaled(t, t->sum_y, t->sum_rows / each, y);
    um_val bits = um_k_load(k, t->seen, scaled(t, y, t->across, um_k_div(k, at, four)));
    um_val bit = um_k_add(k, um_k_rem(k, at, four), um_k_u32(k, i % each * LANES));
    return um_k_ne(k, um_k_and(k, um_k_shr(k, bits, bit), t->a->one), t->a->zero);
}

/* Over `count` rows in shared memory, the tile's from `from` on. */
static void add_rows(const um_ktile *t, um_val from, uint32_t count, const um_mem *part,
                     bool ragged)
{
    um_kernel *k = t->a->k;
    uint32_t wide = t->wide;
    um_val n = um_k_for(k, t->a->zero, um_k_u32(k, count), t->a->one), at = um_k_add(k, from, n);
    um_val row[UM_KTILE_ROWS], four[2];
    load_rows(k, t->weights, scaled(t, at, weight_step(t), um_ktile_own(t, true, 0)), t->sum_rows,
              row);
    for (uint32_t f = 0; f < wide; f++) {
        um_val column = scaled(t, t->sum_x, LANES, um_k_u32(k, f * UM_KTILE_COLUMNS));
        column = scaled(t, n, wide * UM_KTILE_COLUMNS, column);
        four[f] = um_k_load_lanes(k, t->parts, column, LANES);
    }
    for (uint32_t i = 0; i < t->sum_rows; i++) {
        if (ragged) um_k_if(k, sees(t, at, i));
        for (uint32_t f = 0; f < wide; f++) {
            um_mem p = part[i * wide + f];
            um_k_set(k, p, um_k_fma(k, um_k_splat(k, LANES, row[i]), four[f], um_k_get(k, p)));
        }
        if (ragged) um_k_end(k);
    }
    um_k_end(k);
}

void um_ktile_blend(um_ktile *t, const um_val *weights, um_val seen, int32_t view, um_val first)
{
    um_kernel *k = t->a->k;
    um_mem part[UM_KTILE_ROWS];
    uint32_t sums = t->sum_rows * t->wide, width = t->wide * UM_KTILE_COLUMNS, count = t->other;
    while (count * width > t->deep * (t->own + t->other + LANES)) count /= 2;
    um_val end = um_k_add(k, first, um_k_u32(k, t->other)), ragged = um_k_bool(k, true);
    if (!um_kattention_has(t->a, A_BIAS))
        ragged = um_k_or(k, um_k_lt(k, first, t->all_begin), um_k_gt(k, end, t->all_end));
    put_weights(t, weights, seen);
    for (uint32_t i = 0; i < sums; i++) part[i] = new_sum(t, "part", LANES);
    um_val from = um_k_for(k, t->a->zero, um_k_u32(k, t->other), um_k_u32(k, count));
    rows other = rows_make(t, view, false, um_k_add(k, first, from), count, width);
    fetch(t, &other, t->column, view == A_V || view == A_DOUT ? t->a->dv : t->a->d);
    store_fetched(t, &other, 0, width, true);
    um_k_barrier(k);
    um_k_if(k, ragged);
    add_rows(t, from, count, part, true);
    um_k_else(k);
    add_rows(t, from, count, part, false);
    um_k_end(k);
    um_k_barrier(k);
    um_k_end(k);
    for (uint32_t i = 0; i < sums; i++) um_ksum_add(k, t->sum[i], um_k_get(k, part[i]));
}

um_val um_ktile_sum(const um_ktile *t, uint32_t i, uint32_t c)
{
    return um_ksum_get(t->a->k, t->sum[i * t->wide + c]);
}

void um_ktile_store(const um_ktile *t, uint32_t c, um_val at, um_val y, um_val there)
{
    const um_kattention *a = t->a;
    um_kernel *k = a->k;
    const um_kview *out = &a->view[A_OUT];
    uint32_t step = a->in_fours ? LANES : 1;
    um_val column = scaled(t, t->sum_x, LANES, um_k_u32(k, c * UM_KTILE_COLUMNS));
    column = um_k_add(k, t->column, column);
    for (uint32_t j = 0; j < LANES; j += step) {
        um_val to = um_k_add(k, column, um_k_u32(k, j));
        um_k_if(k, um_k_and(k, there, um_k_lt(k, to, t->columns)));
        um_val value = um_kvalue_as(k, out->dtype, step > 1 ? y : um_k_extract(k, y, j));
        um_kview_store(k, out, um_k_add(k, at, um_k_mul(k, to, out->stride[3])), value);
        um_k_end(k);
    }
}
