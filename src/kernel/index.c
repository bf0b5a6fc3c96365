/* kernel/index.c: ops that read or write slices of a table through indices. What reads has an
 * invocation for each element that is made. So has what writes, after the indices are sorted: its
 * element finds those that name it and meets their values in order, so equal ones need no care. An
 * index that is out of range is the plan's fault; it reads as 0, and nothing meets its value. */
#include "kernel/library.h"

#include "ir/math.h"

#include <math.h>
#include <stdio.h>

/* How an op's indices lie to its table: those axes of the table that indices name (parts), in
 * order, and the rest (kept). */
typedef struct layout {
    const um_view *table, *entries, *indices; /* entries: what is read or written besides */
    int32_t parts, part[UM_MAX_RANK], kept_count, kept[UM_MAX_RANK];
    int64_t kept_entries[UM_MAX_RANK], kept_indices[UM_MAX_RANK]; /* strides along kept axes */
    um_view updates[2]; /* entries and indices along the axes on which indices lie side by side */
    int64_t part_step;  /* of indices, from part to part */
} layout;

enum { ENTRIES, INDICES };

typedef struct indexed {
    const um_op *op;
    um_kernel *k;
    um_klaunch *launch;
    layout x;
    um_dtype dtype, compute;
    um_kview index; /* the indices */
    um_val part_size[UM_MAX_RANK], part_stride[UM_MAX_RANK], part_step;
} indexed;

/* ---- layouts -------------------------------------------------------------------------------- */

static void keep(layout *x, int32_t axis, int64_t entries, int64_t indices)
{
    x->kept_entries[x->kept_count] = entries;
    x->kept_indices[x->kept_count] = indices;
    x->kept[x->kept_count++] = axis;
}

static void add_update(layout *x, int64_t size, int64_t entries, int64_t indices)
{
    int64_t stride[2] = {entries, indices};
    for (int32_t i = 0; i < 2; i++) {
        um_view *u = &x->updates[i];
        u->shape[u->rank] = size;
        u->stride[u->rank++] = stride[i];
    }
}

static layout layout_of(const um_op *op, const um_view *table, const um_view *entries)
{
    layout x = {.table = table, .entries = entries, .indices = &op->in[1]};
    const um_view *indices = x.indices;
    bool by_element = op->id == UM_OP_GATHER || op->id == UM_OP_SCATTER;
    bool by_slice = op->id == UM_OP_INDEX_SELECT || op->id == UM_OP_INDEX_ADD;
    if (by_element || by_slice) {
        int32_t axis = op->attrs.index.axis + (op->attrs.index.axis < 0 ? table->rank : 0);
        int32_t index_axis = by_element ? axis : 0;
        for (int32_t d = 0; d < table->rank; d++)
            if (d != axis) keep(&x, d, entries->stride[d], by_element ? indices->stride[d] : 0);
        add_update(&x, indices->shape[index_axis], entries->stride[axis],
                   indices->stride[index_axis]);
        x.part[x.parts++] = axis;
        return x;
    }
    bool nd = op->id == UM_OP_GATHER_ND || op->id == UM_OP_SCATTER_ND;
    int32_t rows = indices->rank - nd;
    x.parts = nd ? (int32_t)indices->shape[rows] : 1;
    x.part_step = nd ? indices->stride[rows] : 0;
    for (int32_t p = 0; p < x.parts; p++) x.part[p] = p;
    for (int32_t d = x.parts; d < table->rank; d++)
        keep(&x, d, entries->stride[rows + d - x.parts], 0);
    for (int32_t d = 0; d < rows; d++)
        add_update(&x, indices->shape[d], entries->stride[d], indices->stride[d]);
    return x;
}

static bool is_gather(um_op_id id)
{
    return id == UM_OP_EMBEDDING || id == UM_OP_GATHER || id == UM_OP_INDEX_SELECT ||
           id == UM_OP_GATHER_ND;
}

bool um_kindex_supports(const um_op *op, char *why, size_t why_size)
{
    if (op->id == UM_OP_ONE_HOT || is_gather(op->id)) return true;
    return um_korder_fits(op, um_view_count(&op->in[1]), why, why_size);
}

/* ---- indices -------------------------------------------------------------------------------- */

static um_mem declare_flags(um_klaunch *launch)
{
    return um_klaunch_scratch(launch, "flags", UM_U32, 0, UM_KFAULT_BYTES);
}

/* The low 32 bits of the index there; the others are 0 where *small holds. */
static um_val load_index(um_kernel *k, const um_kview *index, um_val at, um_val *small)
{
    um_val i = um_kview_load(k, index, at);
    if (index->dtype == UM_I32) {
        *small = um_k_bool(k, true);
        return um_k_bitcast(k, UM_U32, 1, i); /* below 0: larger than any size */
    }
    um_val words = um_k_bitcast(k, UM_U32, 2, i);
    *small = um_k_eq(k, um_k_extract(k, words, 1), um_k_u32(k, 0));
    return um_k_extract(k, words, 0);
}

static um_val in_range(um_kernel *k, const um_kview *index, um_val at, um_val size, um_val *i)
{
    um_val small;
    *i = load_index(k, index, at, &small);
    return um_k_and(k, small, um_k_lt(k, *i, size));
}

/* What an index says along part p of the table; `good` becomes false where it is out of range. */
static um_val take_part(const indexed *x, um_val at, int32_t p, um_val *good)
{
    um_kernel *k = x->k;
    um_val i;
    if (p > 0) at = um_k_add(k, at, um_k_mul(k, um_k_u32(k, (uint32_t)p), x->part_step));
    *good = um_k_and(k, *good, in_range(k, &x->index, at, x->part_size[p], &i));
    return i;
}

static void declare_parts(indexed *x, bool strides)
{
    const layout *l = &x->x;
    for (int32_t p = 0; p < l->parts; p++) {
        int32_t axis = l->part[p];
        x->part_size[p] = um_klaunch_scalar(x->launch, l->table->shape[axis], "part%d", (int)p);
        if (strides)
            x->part_stride[p] =
                um_klaunch_scalar(x->launch, l->table->stride[axis], "part_stride%d", (int)p);
    }
    if (l->parts > 1) x->part_step = um_klaunch_scalar(x->launch, l->part_step, "part_step");
}

/* ---- what reads ----------------------------------------------------------------------------- */

/* The table (moves: 0) or the indices (1) as a view of the output's shape, without what the index
 * gives. */
static um_view spread(const um_op *op, const layout *x, int32_t which)
{
    um_view v = op->out[0];
    bool by_axis = op->id == UM_OP_GATHER || op->id == UM_OP_INDEX_SELECT;
    int32_t next = 0;
    for (int32_t d = 0; d < x->kept_count; d++) {
        int32_t axis = by_axis ? x->kept[d] : x->updates[0].rank + d;
        v.stride[axis] = which ? x->kept_indices[d] : x->table->stride[x->kept[d]];
    }
    for (int32_t u = 0; u < x->updates[0].rank; u++) {
        int32_t axis = by_axis ? x->part[0] : next++;
        v.stride[axis] = which ? x->updates[INDICES].stride[u] : 0;
    }
    return v;
}

static um_status plan_gather(const um_op *op, um_kplan *plan)
{
    indexed x = {.op = op, .x = layout_of(op, &op->in[0], &op->out[0])};
    um_view table = spread(op, &x.x, 0), indices = spread(op, &x.x, 1);
    const um_view *views[3] = {&op->out[0], &table, &indices};
    um_keach each = {.walk = um_kwalk_make(3, views, 0)};
    for (int32_t i = 0; i < 2; i++) each.walk.view[1 + i] = &op->in[i]; /* whose ranges are bound */
    UM_TRY(um_keach_create(&each, plan, um_op_name(op->id)));
    um_kernel *k = x.k = each.k;
    x.launch = each.launch;
    for (int32_t i = 1; i < 3; i++) um_keach_read(&each, i);
    x.index = each.view[2];
    declare_parts(&x, true);
    um_mem flags = declare_flags(x.launch);
    um_keach_begin(&each);
    um_val in = um_kview_place(k, &each.view[1], each.walk.rank, each.place);
    um_val at = um_kview_place(k, &x.index, each.walk.rank, each.place), good = um_k_bool(k, true);
    for (int32_t p = 0; p < x.x.parts; p++)
        in = um_k_add(k, in, um_k_mul(k, take_part(&x, at, p, &good), x.part_stride[p]));
    um_k_if(k, good);
    um_keach_store(&each, um_kview_load(k, &each.view[1], in));
    um_k_else(k);
    um_keach_store(&each, um_kvalue_number(k, op->out[0].dtype, 0));
    um_k_end(k);
    um_kflag(k, flags, 0, um_k_not(k, good));
    return um_keach_finish(&each);
}

/* ---- one_hot -------------------------------------------------------------------------------- */

static um_status plan_one_hot(const um_op *op, um_kplan *plan)
{
    um_view indices = op->in[0];
    int32_t last = indices.rank++;
    indices.shape[last] = op->out[0].shape[last];
    indices.stride[last] = 0;
    um_keach each = {.walk = um_kwalk_apart(2, (const um_view *[]){&op->out[0], &indices})};
    um_val i;
    each.walk.view[1] = &op->in[0];
    UM_TRY(um_keach_create(&each, plan, um_op_name(op->id)));
    um_kernel *k = each.k;
    um_keach_read(&each, 1);
    um_val depth = um_klaunch_scalar(each.launch, op->out[0].shape[last], "depth");
    um_mem flags = declare_flags(each.launch);
    um_keach_begin(&each);
    um_val at = um_kview_place(k, &each.view[1], last + 1, each.place);
    um_val good = in_range(k, &each.view[1], at, depth, &i);
    um_keach_store(&each, um_k_and(k, good, um_k_eq(k, i, each.place[last])));
    um_kflag(k, flags, 0, um_k_not(k, good));
    return um_keach_finish(&each);
}

/* ---- what writes ---------------------------------------------------------------------------- */

/* An element of the table, and what it has met. */
typedef struct scatter {
    indexed *x;
    int32_t mode;
    um_keach each;    /* the table, and where that does not start at 0, what it was */
    um_kwalk updates; /* their first axes are the kept ones */
    um_kview values;
    bool starts_at_0;
    um_val update_size[UM_MAX_RANK];
    um_korder order; /* of the rows that indices name: a line, or of scatter one for each slice */
    um_mem sorted;
    um_val update_count, top; /* of a line; top: less than 2^(top + 1) */
    um_mem met;
    um_ksum sum;
    um_mem scale;    /* of f32 that is added up: what sum and lost are too small by */
    um_mem exponent; /* of f32 that is multiplied, i32: sum and lost are to be times 2^this */
} scatter;

/* The kept axes, of scatter of the indices' sizes, then the updates', as few as there can be. */
static um_kwalk updates_walk(const layout *x, bool by_element, um_view made[2])
{
    um_kwalk w = um_kwalk_make(2, (const um_view *[]){&x->updates[0], &x->updates[1]}, 0);
    for (int32_t v = 0; v < 2; v++) {
        made[v] = *(v ? x->indices : x->entries);
        made[v].rank = 0;
        for (int32_t d = 0; d < x->kept_count; d++) {
            const um_view *sizes = by_element ? x->indices : x->table;
            made[v].shape[made[v].rank] = sizes->shape[x->kept[d]];
            made[v].stride[made[v].rank++] = v ? x->kept_indices[d] : x->kept_entries[d];
        }
        for (int32_t d = 0; d < w.rank; d++) {
            made[v].shape[made[v].rank] = w.shape[d];
            made[v].stride[made[v].rank++] = w.stride[v][d];
        }
    }
    return um_kwalk_apart(2, (const um_view *[]){&made[0], &made[1]});
}

/* A view of the updates; its names are those of view `number`. */
static um_kview declare_updates(const scatter *s, int32_t v, int32_t number)
{
    um_kwalk w = {.view_count = number + 1, .rank = s->updates.rank};
    w.view[number] = v == INDICES ? s->x->x.indices : s->x->x.entries;
    memcpy(w.stride[number], s->updates.stride[v], sizeof w.stride[number]);
    return um_kview_read(s->x->launch, &w, number);
}

static void declare_scatter(scatter *s)
{
    indexed *x = s->x;
    uint32_t top = 0;
    if (!s->starts_at_0) um_keach_read(&s->each, 1);
    s->values = declare_updates(s, ENTRIES, 2);
    s->sorted = um_korder_declare_sorted(x->launch, &s->order);
    for (int32_t d = x->x.kept_count + 1; d < s->updates.rank; d++)
        s->update_size[d] = um_klaunch_scalar(x->launch, s->updates.shape[d], "updates%d", (int)d);
    while (s->order.length >> top > 1) top++;
    s->top = um_klaunch_scalar(x->launch, top, "updates_log2");
    s->update_count = um_klaunch_scalar(x->launch, s->order.length, "updates");
}

/* Whether the element has a place among the indices at all, and the line of the order it is in. */
static um_val is_inside(const scatter *s, um_val *line)
{
    um_kernel *k = s->x->k;
    um_val inside = um_k_bool(k, true);
    *line = um_k_u32(k, 0);
    for (int32_t d = 0; s->x->op->id == UM_OP_SCATTER && d < s->x->x.kept_count; d++) {
        um_val place = s->each.place[s->x->x.kept[d]];
        um_val limit = um_klaunch_scalar(s->x->launch, s->updates.shape[d], "limit%d", (int)d);
        inside = um_k_and(k, inside, um_k_lt(k, place, limit));
        *line = um_k_add(k, um_k_mul(k, *line, limit), place);
    }
    return inside;
}

/* f32 for which f64 would be right: from the first large value on all are made smaller, so that no
 * sum overflows which the last one does not. */
static void add_scaled(const scatter *s, um_val v)
{
    um_kernel *k = s->x->k;
    um_val one = um_k_f32(k, 1), large = um_k_ge(k, um_k_abs(k, v), um_k_f32(k, 0x1p64f));
    um_k_if(k, um_k_and(k, large, um_k_eq(k, um_k_get(k, s->scale), one)));
    um_val scale = um_k_f32(k, 0x1p-64f);
    um_k_set(k, s->scale, scale);
    um_k_set(k, s->sum.sum, um_k_mul(k, um_k_get(k, s->sum.sum), scale));
    um_k_set(k, s->sum.lost, um_k_mul(k, um_k_get(k, s->sum.lost), scale));
    um_k_end(k);
    um_ksum_add(k, s->sum, um_k_mul(k, v, um_k_get(k, s->scale)));
}

/* v = m 2^e of f32, m with the sign and within 1 .. 2; 0, infinities and NaN with e = 0. */
static um_val split(um_kernel *k, um_val v, um_val *e)
{
    um_val tiny = um_k_lt(k, um_k_abs(k, v), um_k_f32(k, 0x1p-126f));
    um_val w = um_k_mul(k, v, um_k_select(k, tiny, um_k_f32(k, 0x1p64f), um_k_f32(k, 1)));
    um_val bits = um_k_bitcast(k, UM_U32, 1, w), zero = um_k_i32(k, 0);
    um_val field = um_k_and(k, um_k_shr(k, bits, um_k_u32(k, 23)), um_k_u32(k, 255));
    um_val normal = um_k_lt(k, um_k_sub(k, field, um_k_u32(k, 1)), um_k_u32(k, 254));
    um_val m = um_k_or(k, um_k_and(k, bits, um_k_u32(k, 0x807fffffu)), um_k_u32(k, 0x3f800000u));
    um_val bias = um_k_select(k, tiny, um_k_i32(k, 127 + 64), um_k_i32(k, 127));
    *e = um_k_sub(k, um_k_bitcast(k, UM_I32, 1, field), bias);
    *e = um_k_select(k, normal, *e, zero);
    return um_k_select(k, normal, um_k_bitcast(k, UM_F32, 1, m), v);
}

/* In two parts, with an exponent that f64 would have. */
static void multiply(const scatter *s, um_val v)
{
    um_kernel *k = s->x->k;
    um_val by, lost, m = split(k, v, &by), two = um_k_f32(k, 2), far = um_k_i32(k, 1 << 28);
    um_val p = um_k_product(k, um_k_get(k, s->sum.sum), m, &lost), size = um_k_abs(k, p);
    lost = um_k_add(k, um_k_mul(k, um_k_get(k, s->sum.lost), m), lost);
    um_val half = um_k_and(k, um_k_ge(k, size, two), um_k_le(k, size, um_k_f32(k, 4)));
    um_val scale = um_k_select(k, half, um_k_f32(k, 0.5f), um_k_f32(k, 1));
    um_val e = um_k_add(k, um_k_get(k, s->exponent), by);
    e = um_k_add(k, e, um_k_bitcast(k, UM_I32, 1, um_k_convert(k, UM_U32, half)));
    um_k_set(k, s->exponent, um_k_max(k, um_k_min(k, e, far), um_k_neg(k, far)));
    um_k_set(k, s->sum.sum, um_k_mul(k, p, scale));
    um_k_set(k, s->sum.lost, um_k_mul(k, lost, scale));
}

/* (sum + lost) 2^exponent as f32, rounded once: to nearest, or to odd for a narrower float. */
static um_val product_of(const scatter *s)
{
    um_kernel *k = s->x->k;
    um_val one = um_k_u32(k, 1), none = um_k_u32(k, 0), zero = um_k_f32(k, 0), more;
    um_val sum = um_k_get(k, s->sum.sum), lost = um_k_get(k, s->sum.lost);
    um_val some = um_k_lt(k, um_k_abs(k, lost), um_k_f32(k, 1)); /* not of infinities, NaN */
    lost = um_k_select(k, some, lost, zero);
    um_val whole = um_k_select(k, some, um_k_add(k, sum, lost), sum);
    um_val rest = um_k_select(k, some, um_k_sub(k, lost, um_k_sub(k, whole, sum)), zero);
    um_val m = um_k_bitcast(k, UM_U32, 1, split(k, whole, &more));
    um_val e = um_k_add(k, um_k_get(k, s->exponent), more);
    /* 24 bits, 6 more, of which the last says that there is a rest. */
    um_val digits = um_k_or(k, um_k_and(k, m, um_k_u32(k, 0x7fffff)), um_k_u32(k, 0x800000));
    digits = um_k_shl(k, digits, um_k_u32(k, 6));
    um_val away = um_k_eq(k, um_k_lt(k, rest, zero), um_k_lt(k, whole, zero));
    um_val last = um_k_select(k, away, one, um_k_u32(k, UINT32_MAX));
    last = um_k_select(k, um_k_eq(k, rest, zero), none, last);
    digits = um_k_add(k, digits, last);
    /* Below 2^-126 there are fewer; what rounding carries goes into the exponent. */
    um_val cut = um_k_sub(k, um_k_i32(k, -120), e);
    cut = um_k_max(k, um_k_min(k, cut, um_k_i32(k, 31)), um_k_i32(k, 6));
    cut = um_k_bitcast(k, UM_U32, 1, cut);
    um_val q = um_k_shr(k, digits, cut), off = um_k_sub(k, digits, um_k_shl(k, q, cut));
    um_val half = um_k_shl(k, one, um_k_sub(k, cut, one)), odd = um_k_and(k, q, one);
    um_val up = um_k_gt(k, um_k_add(k, off, odd), half); /* a tie: to even */
    if (um_dtype_bits(s->x->dtype) < 32)
        q = um_k_or(k, q, um_k_convert(k, UM_U32, um_k_ne(k, off, none)));
    else
        q = um_k_add(k, q, um_k_convert(k, UM_U32, up));
    um_val high = um_k_max(k, um_k_add(k, um_k_min(k, e, um_k_i32(k, 128)), um_k_i32(k, 126)),
                           um_k_i32(k, 0));
    high = um_k_shl(k, um_k_bitcast(k, UM_U32, 1, high), um_k_u32(k, 23));
    um_val bits = um_k_min(k, um_k_add(k, q, high), um_k_u32(k, 0x7f800000u));
    bits = um_k_or(k, bits, um_k_and(k, m, um_k_u32(k, 0x80000000u)));
    um_val size = um_k_abs(k, whole), good = um_k_lt(k, size, um_k_f32(k, INFINITY));
    good = um_k_and(k, good, um_k_gt(k, size, zero));
    return um_k_select(k, good, um_k_bitcast(k, UM_F32, 1, bits), whole);
}

static void meet(const scatter *s, um_val v)
{
    um_kernel *k = s->x->k;
    um_val y = um_k_get(k, s->sum.sum);
    switch (s->mode) {
    case UM_SCATTER_ADD:
        if (s->scale)
            add_scaled(s, v);
        else
            um_ksum_add(k, s->sum, v);
        break;
    case UM_SCATTER_MIN: um_k_set(k, s->sum.sum, um_kvalue_min(k, y, v)); break;
    case UM_SCATTER_MAX: um_k_set(k, s->sum.sum, um_kvalue_max(k, y, v)); break;
    default:
        if (s->exponent)
            multiply(s, v);
        else
            um_k_set(k, s->sum.sum, um_k_mul(k, y, v));
    }
}

/* Goes through the updates that name this element, in order; of assign only the last counts. */
static void meet_updates(const scatter *s, um_val line)
{
    indexed *x = s->x;
    um_kernel *k = x->k;
    um_val zero = um_k_u32(k, 0), one = um_k_u32(k, 1), place[UM_MAX_RANK] = {0}, row = zero;
    int32_t kept = x->x.kept_count, rank = s->updates.rank;
    bool assigns = s->mode == UM_SCATTER_ASSIGN;
    for (int32_t d = 0; d < kept; d++) place[d] = s->each.place[x->x.kept[d]];
    for (int32_t p = 0; p < x->x.parts; p++) {
        int32_t axis = x->x.part[p];
        row = p ? um_k_add(k, um_k_mul(k, row, s->each.size[axis]), s->each.place[axis])
                : s->each.place[axis];
    }
    um_val base = um_kview_place(k, &s->values, kept, place);
    um_val first = um_k_mul(k, line, s->update_count), update[2] = {0};
    um_val from = um_korder_search(k, s->sorted, first, s->update_count, s->top, row, assigns);
    um_val end = assigns ? from : s->update_count;
    if (assigns) from = um_k_sub(k, um_k_max(k, from, one), one);
    um_val n = um_k_for(k, from, end, one);
    um_korder_load(k, s->sorted, 1, um_k_add(k, first, n), update);
    um_k_if(k, um_k_ne(k, update[0], row));
    um_k_break(k);
    um_k_end(k);
    um_k_set(k, s->met, one);
    um_kwalk_places(k, update[1], kept, rank, s->update_size, place);
    um_val at = um_kview_index(k, &s->values, base, kept, rank, place);
    if (assigns)
        um_k_set(k, s->sum.sum, at);
    else
        meet(s, um_kvalue_as(k, x->compute, um_kview_load(k, &s->values, at)));
    um_k_end(k);
}

/* sum + lost in f32, to odd where it is not exact: a narrower float is then rounded but once. */
static um_val odd_sum(um_kernel *k, um_val sum, um_val lost)
{
    um_val s = um_k_add(k, sum, lost), rest = um_k_sub(k, lost, um_k_sub(k, s, sum));
    um_val bits = um_k_bitcast(k, UM_U32, 1, s), one = um_k_u32(k, 1), zero = um_k_f32(k, 0);
    um_val away = um_k_eq(k, um_k_lt(k, rest, zero), um_k_lt(k, s, zero));
    um_val moved = um_k_select(k, away, one, um_k_u32(k, UINT32_MAX));
    um_val even = um_k_eq(k, um_k_and(k, bits, one), um_k_u32(k, 0));
    um_val is_off = um_k_gt(k, um_k_abs(k, rest), zero); /* not of NaN */
    moved = um_k_select(k, um_k_and(k, even, is_off), moved, um_k_u32(k, 0));
    return um_k_bitcast(k, UM_F32, 1, um_k_add(k, bits, moved));
}

/* What nothing was lost of keeps the sign of its zero, and of an infinity a NaN was. */
static um_val result_of(const scatter *s)
{
    um_kernel *k = s->x->k;
    um_val y = um_k_get(k, s->sum.sum);
    if (s->mode == UM_SCATTER_ASSIGN) return um_kview_load(k, &s->values, y);
    if (s->exponent) {
        y = product_of(s);
    } else if (s->sum.lost) {
        um_val zero = um_kvalue_number(k, s->x->compute, 0), lost = um_k_get(k, s->sum.lost);
        um_val some = um_k_gt(k, um_k_abs(k, lost), zero);
        bool narrow = um_dtype_bits(s->x->dtype) < 32;
        um_val all = narrow ? odd_sum(k, y, lost) : um_ksum_get(k, s->sum);
        y = um_k_select(k, some, all, y);
        if (s->scale) y = um_k_div(k, y, um_k_get(k, s->scale));
    }
    return um_kvalue_as(k, s->x->dtype, y);
}

/* What is added up, or multiplied, from the element that was there. */
static void begin_sum(scatter *s, um_val first)
{
    um_kernel *k = s->x->k;
    um_dtype compute = s->x->compute;
    bool is_f32 = compute == UM_F32, adds = s->mode == UM_SCATTER_ADD;
    um_val one = um_k_f32(k, 1), e;
    first = um_kvalue_as(k, compute, first);
    if (adds && is_f32) {
        um_val large = um_k_ge(k, um_k_abs(k, first), um_k_f32(k, 0x1p64f));
        um_val scale = um_k_select(k, large, um_k_f32(k, 0x1p-64f), one);
        s->scale = um_kvar(k, scale, "scale");
        first = um_k_mul(k, first, scale);
    }
    if (s->mode == UM_SCATTER_MUL && is_f32) {
        first = split(k, first, &e);
        s->exponent = um_kvar(k, e, "exponent");
    }
    if (adds || s->mode == UM_SCATTER_MUL)
        s->sum = um_ksum_new(k, first, "sum");
    else
        s->sum.sum = um_kvar(k, first, "sum");
}

static void make_element(scatter *s)
{
    um_kernel *k = s->x->k;
    um_val line, zero = um_k_u32(k, 0), first = um_kvalue_number(k, s->x->dtype, 0);
    if (!s->starts_at_0) first = um_keach_load(&s->each, 1);
    s->met = um_kvar(k, zero, "met");
    if (s->mode == UM_SCATTER_ASSIGN)
        s->sum.sum = um_kvar(k, zero, "last");
    else
        begin_sum(s, first);
    um_k_if(k, is_inside(s, &line));
    meet_updates(s, line);
    um_k_end(k);
    um_k_if(k, um_k_ne(k, um_k_get(k, s->met), zero));
    um_keach_store(&s->each, result_of(s));
    um_k_else(k);
    um_keach_store(&s->each, first);
    um_k_end(k);
}

/* The row that each index names, as one number: that of none where it is out of range. */
static um_status plan_rows(scatter *s, um_kplan *plan)
{
    indexed *x = s->x;
    int32_t rank = s->updates.rank, first = s->x->op->id == UM_OP_SCATTER ? 0 : x->x.kept_count;
    um_val size[UM_MAX_RANK] = {0}, place[UM_MAX_RANK] = {0};
    UM_TRY(um_kplan_launch(plan, "index_rows", UM_KGROUP, &x->launch));
    um_kernel *k = x->k = x->launch->kernel;
    um_val count = um_klaunch_scalar(x->launch, s->order.count, "count");
    um_klaunch_groups(x->launch, um_ceil_div(s->order.count, UM_KGROUP));
    um_kwalk_sizes(x->launch, &s->updates, first, rank, size);
    x->index = declare_updates(s, INDICES, 0);
    declare_parts(x, false);
    um_mem flags = declare_flags(x->launch);
    um_mem rows = um_korder_declare(x->launch, &s->order);
    um_val e = um_klaunch_number(k), good = um_k_bool(k, true), row = um_k_u32(k, 0);
    um_k_if(k, um_k_lt(k, e, count));
    um_kwalk_places(k, e, first, rank, size, place);
    um_val at = um_kview_index(k, &x->index, x->index.base, first, rank, place);
    for (int32_t p = 0; p < x->x.parts; p++) {
        um_val i = take_part(x, at, p, &good);
        row = um_k_add(k, um_k_mul(k, row, x->part_size[p]), i);
    }
    row = um_k_select(k, good, row, um_k_u32(k, UINT32_MAX));
    um_korder_store(k, rows, 1, e, &row);
    um_kflag(k, flags, 0, um_k_not(k, good));
    um_k_end(k);
    return um_kernel_finish(k);
}

static um_korder order_of(const scatter *s)
{
    um_korder o = {.count = 1, .length = 1, .words = 1};
    int32_t kept = s->x->x.kept_count;
    for (int32_t d = kept; d < s->updates.rank; d++) o.length *= s->updates.shape[d];
    for (int32_t d = 0; d < kept && s->x->op->id == UM_OP_SCATTER; d++)
        o.count *= s->updates.shape[d];
    o.count *= o.length;
    return o;
}

static um_status plan_scatter(const um_op *op, um_kplan *plan)
{
    const um_view *out = &op->out[0];
    bool backward = op->id == UM_OP_EMBEDDING_BACKWARD;
    indexed x = {.op = op, .x = layout_of(op, out, &op->in[backward ? 0 : 2])};
    scatter s = {.x = &x, .mode = op->attrs.index.mode, .starts_at_0 = backward};
    um_view updates[2];
    if (backward || op->id == UM_OP_INDEX_ADD) s.mode = UM_SCATTER_ADD;
    x.dtype = out->dtype;
    x.compute = um_kvalue_compute(x.dtype);
    s.updates = updates_walk(&x.x, op->id == UM_OP_SCATTER, updates);
    s.order = order_of(&s);
    if (s.order.count > 0) UM_TRY(plan_rows(&s, plan));
    UM_TRY(um_korder_plan("sort_rows", plan, &s.order));
    s.each.walk = um_kwalk_apart(backward ? 1 : 2, (const um_view *[]){out, &op->in[0]});
    UM_TRY(um_keach_create(&s.each, plan, um_op_name(op->id)));
    x.k = s.each.k;
    x.launch = s.each.launch;
    declare_scatter(&s);
    um_keach_begin(&s.each);
    make_element(&s);
    return um_keach_finish(&s.each);
}

um_status um_kindex_plan(const um_op *op, um_kplan *plan)
{
    plan->scratch_bytes = UM_KFAULT_BYTES;
    snprintf(plan->fault, sizeof plan->fault, "%s: an index is out of range", um_op_name(op->id));
    if (op->id == UM_OP_ONE_HOT) return plan_one_hot(op, plan);
    return is_gather(op->id) ? plan_gather(op, plan) : plan_scatter(op, plan);
}
