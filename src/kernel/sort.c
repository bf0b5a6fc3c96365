/* kernel/sort.c: order by keys: sort, argsort, topk, arg_topk. A first launch makes keys of one or
 * two words, whose order as unsigned numbers is that of the elements; others sort them, stably. */
#include "kernel/library.h"

#include <stdio.h>

/* ---- order ---------------------------------------------------------------------------------- */

/* What is ordered are records: a key's words, low first, and its place in the line. Sorted runs of
 * them become twice as long at a time: a record's place in a pair of runs is its own, and as many
 * further as there are in the other run that come before it. A tile is sorted in shared memory;
 * longer runs are made by a launch each, from one side of the plan's scratch memory to the other.
 */
enum { TILE = 1024, MOST_WORDS = 3 }; /* TILE: words of keys; two sides of it take 16 KiB */

typedef struct order {
    const um_korder *o;
    um_kplan *plan;
    um_kernel *k;
    um_klaunch *launch;
    int64_t lines, most; /* most: how many of each line, or run, are wanted */
    uint32_t tile;       /* records */
    um_val length, limit;
} order;

/* Records from number `first` on. */
typedef struct side {
    um_mem mem;
    um_val first;
} side;

bool um_korder_fits(const um_op *op, int64_t count, char *why, size_t why_size)
{
    if (count <= INT32_MAX / 2) return true; /* of three words; lines may be filled up to twice */
    return um_kplan_refuse(op, why, why_size, "for 2^30 elements or more");
}

static uint64_t side_bytes(const um_korder *o)
{
    return ((uint64_t)UM_MAX(o->count, 1) * (uint64_t)(o->words + 1) * 4 + 15) / 16 * 16;
}

static um_mem declare_side(um_klaunch *launch, const um_korder *o, int32_t which)
{
    uint64_t bytes = side_bytes(o), offset = UM_KFAULT_BYTES + (uint64_t)which * bytes;
    return um_klaunch_scratch(launch, which ? "side1" : "side0", UM_U32, offset, bytes);
}

um_mem um_korder_declare(um_klaunch *launch, const um_korder *o)
{
    return declare_side(launch, o, 0);
}

static int32_t merges_of(const um_korder *o)
{
    int32_t count = 0;
    while (o->length > (int64_t)TILE / o->words << count) count++;
    return count;
}

um_mem um_korder_declare_sorted(um_klaunch *launch, const um_korder *o)
{
    return declare_side(launch, o, (merges_of(o) + 1) % 2);
}

static um_val word_at(um_kernel *k, um_val e, int32_t size, int32_t w)
{
    return um_k_add(k, um_k_mul(k, e, um_k_u32(k, (uint32_t)size)), um_k_u32(k, (uint32_t)w));
}

static void load_record(um_kernel *k, side s, int32_t size, um_val i, um_val *record)
{
    um_val e = um_k_add(k, s.first, i);
    for (int32_t w = 0; w < size; w++) record[w] = um_k_load(k, s.mem, word_at(k, e, size, w));
}

static void store_record(um_kernel *k, side s, int32_t size, um_val i, const um_val *record)
{
    um_val e = um_k_add(k, s.first, i);
    for (int32_t w = 0; w < size; w++) um_k_store(k, s.mem, word_at(k, e, size, w), record[w]);
}

void um_korder_store(um_kernel *k, um_mem keys, int32_t words, um_val e, const um_val *key)
{
    store_record(k, (side){keys, um_k_u32(k, 0)}, words, e, key);
}

static um_val less(um_kernel *k, int32_t words, const um_val *a, const um_val *b)
{
    um_val low = um_k_lt(k, a[0], b[0]);
    if (words == 1) return low;
    um_val same = um_k_eq(k, a[1], b[1]);
    return um_k_or(k, um_k_lt(k, a[1], b[1]), um_k_and(k, same, low));
}

/* How many of `count` sorted records, fewer than 2^(top + 1), have a key before `key`, or the same
 * where or_equal holds. */
static um_val search(um_kernel *k, int32_t words, side s, um_val count, um_val top,
                     const um_val *key, um_val or_equal)
{
    um_val one = um_k_u32(k, 1), zero = um_k_u32(k, 0), other[MOST_WORDS] = {0};
    um_mem found = um_kvar(k, zero, "found");
    um_val i = um_k_for(k, zero, um_k_add(k, top, one), one);
    um_val next = um_k_add(k, um_k_get(k, found), um_k_shl(k, one, um_k_sub(k, top, i)));
    um_k_if(k, um_k_le(k, next, count));
    load_record(k, s, words + 1, um_k_sub(k, next, one), other);
    um_val same = um_k_and(k, or_equal, um_k_not(k, less(k, words, key, other)));
    um_val is_before = um_k_or(k, less(k, words, other, key), same);
    um_k_set(k, found, um_k_select(k, is_before, next, um_k_get(k, found)));
    um_k_end(k);
    um_k_end(k);
    return um_k_get(k, found);
}

um_val um_korder_search(um_kernel *k, um_mem sorted, um_val first, um_val count, um_val top,
                        um_val key, bool or_equal)
{
    return search(k, 1, (side){sorted, first}, count, top, &key, um_k_bool(k, or_equal));
}

void um_korder_load(um_kernel *k, um_mem sorted, int32_t words, um_val e, um_val *record)
{
    load_record(k, (side){sorted, um_k_u32(k, 0)}, words + 1, e, record);
}

static um_status begin_launch(order *s, const char *name, int64_t groups)
{
    UM_TRY(um_kplan_launch(s->plan, name, UM_KGROUP, &s->launch));
    um_klaunch_groups(s->launch, groups);
    s->k = s->launch->kernel;
    s->length = um_klaunch_scalar(s->launch, s->o->length, "length");
    s->limit = um_klaunch_scalar(s->launch, s->most, "limit");
    return UM_OK;
}

/* Record i of `length`, which lie in sorted runs of 1 << top, to its place in runs twice as long.
 */
static void merge(const order *s, um_val i, um_val length, um_val top, side from, side to)
{
    um_kernel *k = s->k;
    int32_t words = s->o->words;
    um_val one = um_k_u32(k, 1), run = um_k_shl(k, one, top), record[MOST_WORDS] = {0};
    um_val in_run = um_k_and(k, i, um_k_sub(k, run, one)), own = um_k_sub(k, i, in_run);
    um_val other = um_k_xor(k, own, run), is_second = um_k_lt(k, other, own);
    um_val left = um_k_sub(k, um_k_max(k, length, other), other);
    um_val count = um_k_min(k, um_k_min(k, run, left), s->limit);
    um_k_if(k, um_k_lt(k, in_run, s->limit));
    load_record(k, from, words + 1, i, record);
    side others = {from.mem, um_k_add(k, from.first, other)};
    um_val place = um_k_add(k, in_run, search(k, words, others, count, top, record, is_second));
    um_k_if(k, um_k_lt(k, place, s->limit));
    store_record(k, to, words + 1, um_k_add(k, um_k_min(k, own, other), place), record);
    um_k_end(k);
    um_k_end(k);
}

/* Record i of a side is number `rank` of the line that begins there with key `first`. */
static void put(const order *s, side from, um_val i, um_val first, um_val rank)
{
    um_val record[MOST_WORDS] = {0};
    load_record(s->k, from, s->o->words + 1, i, record);
    um_val place = record[s->o->words];
    s->o->put(s->o->ctx, s->k, um_k_add(s->k, first, place), place, rank);
}

/* A place in a tile, of which there are `filled` for a line. */
typedef struct slot {
    um_val number, first, i, in; /* in the tile; of the line; in the line; whether it has a key */
} slot;

/* Begins a loop over this invocation's slots. */
static slot each_slot(const order *s, um_val used, um_val filled, um_val lines)
{
    um_kernel *k = s->k;
    um_val begin = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, s->tile));
    um_val local = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_val number = um_k_for(k, local, used, um_k_u32(k, UM_KGROUP));
    um_val all = um_k_add(k, begin, number), line = um_k_div(k, all, filled);
    um_val i = um_k_rem(k, all, filled), first = um_k_mul(k, line, s->length);
    um_val in = um_k_and(k, um_k_lt(k, line, lines), um_k_lt(k, i, s->length));
    return (slot){number, first, i, in};
}

/* Sorts tiles, of a part of a line or of some short lines, and what is wanted of lines as short as
 * that is put out. Behind the keys of a line there are more, which come last and stay there. */
static um_status plan_tiles(order *s, const char *name)
{
    bool puts = s->o->put && merges_of(s->o) == 0;
    int64_t filled = 1;
    int32_t words = s->o->words;
    uint32_t rounds = 0;
    for (; filled < s->o->length && filled < s->tile; filled *= 2) rounds++;
    filled = um_ceil_div(s->o->length, filled) * filled;
    UM_TRY(begin_launch(s, name, um_ceil_div(s->lines * filled, s->tile)));
    um_kernel *k = s->k;
    um_val size = um_klaunch_scalar(s->launch, filled, "filled");
    um_val lines = um_klaunch_scalar(s->launch, s->lines, "lines");
    um_val used = um_klaunch_scalar(s->launch, UM_MIN(s->lines * filled, s->tile), "used");
    um_val end = um_klaunch_scalar(s->launch, rounds, "rounds");
    um_val zero = um_k_u32(k, 0), one = um_k_u32(k, 1), record[MOST_WORDS] = {0};
    um_mem keys = um_korder_declare(s->launch, s->o);
    side out = {puts ? 0 : declare_side(s->launch, s->o, 1), zero};
    if (puts) s->o->declare(s->o->ctx, s->launch);
    um_val half = um_k_u32(k, s->tile);
    side room = {um_k_shared(k, "room", UM_U32, 2 * s->tile * (uint32_t)(words + 1)), zero};
    slot at = each_slot(s, used, size, lines);
    for (int32_t w = 0; w < words; w++)
        record[w] = um_k_load_if(k, keys, word_at(k, um_k_add(k, at.first, at.i), words, w), at.in,
                                 um_k_u32(k, UINT32_MAX));
    record[words] = at.i;
    store_record(k, room, words + 1, at.number, record);
    um_k_end(k);
    um_k_barrier(k);
    um_val top = um_k_for(k, zero, end, one), odd = um_k_and(k, top, one);
    side from = {room.mem, um_k_mul(k, odd, half)};
    side to = {room.mem, um_k_sub(k, half, from.first)};
    merge(s, each_slot(s, used, size, lines).number, used, top, from, to);
    um_k_end(k);
    um_k_barrier(k);
    um_k_end(k);
    room.first = um_k_mul(k, um_k_and(k, end, one), half);
    at = each_slot(s, used, size, lines);
    um_val in_run = um_k_and(k, at.number, um_k_sub(k, um_k_shl(k, one, end), one));
    um_k_if(k, um_k_and(k, at.in, um_k_lt(k, in_run, s->limit)));
    if (puts) {
        put(s, room, at.number, at.first, at.i);
    } else {
        load_record(k, room, words + 1, at.number, record);
        store_record(k, out, words + 1, um_k_add(k, at.first, at.i), record);
    }
    um_k_end(k);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* Launches that differ in the runs' length and change sides. */
static um_status plan_merges(order *s)
{
    uint32_t run = (uint32_t)__builtin_ctz(s->tile);
    UM_TRY(begin_launch(s, "merge_runs", um_ceil_div(s->o->count, UM_KGROUP)));
    um_kernel *k = s->k;
    um_val count = um_klaunch_scalar(s->launch, s->o->count, "count");
    um_val top = um_klaunch_scalar(s->launch, run, "run_log2"), e = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, e, count));
    um_val i = um_k_rem(k, e, s->length), first = um_k_sub(k, e, i);
    side from = {declare_side(s->launch, s->o, 1), first};
    merge(s, i, s->length, top, from, (side){declare_side(s->launch, s->o, 0), first});
    um_k_end(k);
    for (int32_t n = 1; n < merges_of(s->o); n++, s->launch++) {
        um_klaunch *next = &s->plan->launch[s->plan->launch_count++];
        *next = *s->launch; /* the kernel, too */
        next->scalar[next->scalar_count - 1]++;
        next->buffer[0] = s->launch->buffer[1];
        next->buffer[1] = s->launch->buffer[0];
    }
    return um_kernel_finish(k);
}

static um_status plan_put(order *s, const char *name)
{
    UM_TRY(begin_launch(s, name, um_ceil_div(s->lines * s->most, UM_KGROUP)));
    um_kernel *k = s->k;
    um_val outs = um_klaunch_scalar(s->launch, s->lines * s->most, "outs");
    um_mem sorted = um_korder_declare_sorted(s->launch, s->o);
    s->o->declare(s->o->ctx, s->launch);
    um_val n = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, n, outs));
    um_val line = um_k_div(k, n, s->limit), rank = um_k_rem(k, n, s->limit);
    um_val first = um_k_mul(k, line, s->length);
    put(s, (side){sorted, first}, rank, first, rank);
    um_k_end(k);
    return um_kernel_finish(k);
}

um_status um_korder_plan(const char *name, um_kplan *plan, const um_korder *o)
{
    order s = {.o = o, .plan = plan, .lines = o->count / UM_MAX(o->length, 1)};
    bool is_long = merges_of(o) > 0;
    s.tile = TILE / (uint32_t)o->words;
    s.most = o->limit ? o->limit : o->length;
    plan->scratch_bytes = UM_KFAULT_BYTES + side_bytes(o) * (is_long || !o->put ? 2 : 1);
    if (o->count == 0) return UM_OK;
    UM_TRY(plan_tiles(&s, o->put && !is_long ? name : "sort_tiles"));
    if (is_long) UM_TRY(plan_merges(&s));
    return is_long && o->put ? plan_put(&s, name) : UM_OK;
}

/* ---- keys of elements ----------------------------------------------------------------------- */

/* Of a float's words, low first, of which `key` is the highest: a NaN is the largest, zeros are
 * equal. exponent: the bits of infinity in the highest. */
static void order_float(um_kernel *k, int32_t words, uint32_t exponent, um_val *key)
{
    um_val zero = um_k_u32(k, 0), ones = um_k_u32(k, UINT32_MAX), top = um_k_u32(k, 0x80000000u);
    um_val high = key[words - 1], size = um_k_and(k, high, um_k_not(k, top));
    um_val negative = um_k_ge(k, high, top), is_zero = um_k_eq(k, size, zero);
    um_val infinite = um_k_u32(k, exponent), is_nan = um_k_gt(k, size, infinite);
    if (words == 2) {
        um_val some = um_k_ne(k, key[0], zero);
        is_nan = um_k_or(k, is_nan, um_k_and(k, um_k_eq(k, size, infinite), some));
        is_zero = um_k_and(k, is_zero, um_k_not(k, some));
        key[0] = um_k_xor(k, key[0], um_k_select(k, negative, ones, zero));
        key[0] = um_k_select(k, is_nan, ones, um_k_select(k, is_zero, zero, key[0]));
    }
    high = um_k_xor(k, high, um_k_select(k, negative, ones, top));
    high = um_k_select(k, is_zero, top, high);
    key[words - 1] = um_k_select(k, is_nan, ones, high);
}

static int32_t words_of(um_dtype dtype) { return um_dtype_bits(dtype) == 64 ? 2 : 1; }

static void key_of(um_kernel *k, um_val x, bool falls, um_val key[2])
{
    um_dtype compute = um_kvalue_compute(um_val_type(k, x).dtype);
    int32_t words = words_of(compute);
    x = um_kvalue_as(k, compute, x);
    if (words == 2) {
        um_val both = um_k_bitcast(k, UM_U32, 2, x);
        for (uint32_t w = 0; w < 2; w++) key[w] = um_k_extract(k, both, w);
    } else {
        key[0] = um_kvalue_bits(k, x);
    }
    if (um_dtype_is_float(compute))
        order_float(k, words, words == 2 ? 0x7ff00000u : 0x7f800000u, key);
    else if (um_dtype_get_kind(compute) == UM_KIND_INT)
        key[words - 1] = um_k_xor(k, key[words - 1], um_k_u32(k, 0x80000000u));
    for (int32_t w = 0; w < words && falls; w++) key[w] = um_k_not(k, key[w]);
}

/* ---- the ops -------------------------------------------------------------------------------- */

typedef struct sort {
    const um_op *op;
    um_kwalk walk; /* the outputs, then the input, the axis last */
    um_kview view[3];
    um_val size[UM_MAX_RANK];
} sort;

bool um_ksort_supports(const um_op *op, char *why, size_t why_size)
{
    return um_korder_fits(op, um_view_count(&op->in[0]), why, why_size);
}

static um_kwalk walk_of(const um_op *op)
{
    const um_view *views[3] = {&op->out[0], &op->out[1]};
    views[op->out_count] = &op->in[0];
    return um_kwalk_behind(op->out_count + 1, views, op->attrs.sort.axis);
}

static bool has_values(const um_op *op) { return op->id == UM_OP_SORT || op->id == UM_OP_TOPK; }

static void declare(void *ctx, um_klaunch *launch)
{
    sort *s = ctx;
    int32_t in = s->op->out_count;
    um_kwalk_sizes(launch, &s->walk, 0, s->walk.rank, s->size);
    if (has_values(s->op)) s->view[in] = um_kview_read(launch, &s->walk, in);
    for (int32_t v = 0; v < in; v++) s->view[v] = um_kview_write(launch, &s->walk, v);
}

static void put_element(void *ctx, um_kernel *k, um_val e, um_val i, um_val rank)
{
    const sort *s = ctx;
    int32_t axes = s->walk.rank, in = s->op->out_count;
    um_val place[UM_MAX_RANK] = {0}, where = um_k_convert(k, UM_I64, i);
    um_kwalk_places(k, e, 0, axes, s->size, place);
    um_val x = has_values(s->op) ? um_kview_load_at(k, &s->view[in], axes, place) : where;
    place[axes - 1] = rank;
    for (int32_t v = 0; v < in; v++) {
        um_val to = um_kview_place(k, &s->view[v], axes, place);
        um_kview_store(k, &s->view[v], to, v == 0 ? x : where);
    }
}

static um_status plan_keys(sort *s, um_kplan *plan, const um_korder *o)
{
    um_keach each = {.walk = {.view_count = 1, .rank = s->walk.rank, .view = {&s->op->in[0]}}};
    um_val key[2] = {0};
    memcpy(each.walk.shape, s->walk.shape, sizeof each.walk.shape);
    memcpy(each.walk.stride, s->walk.stride[s->op->out_count], sizeof each.walk.stride[0]);
    UM_TRY(um_keach_start(&each, plan, "sort_keys"));
    um_kernel *k = each.k;
    each.view[0] = um_kview_read(each.launch, &each.walk, 0);
    um_mem keys = um_korder_declare(each.launch, o);
    um_keach_begin(&each);
    key_of(k, um_keach_load(&each, 0), s->op->attrs.sort.descending != 0, key);
    um_korder_store(k, keys, o->words, each.number, key);
    return um_keach_finish(&each);
}

um_status um_ksort_plan(const um_op *op, um_kplan *plan)
{
    sort s = {.op = op, .walk = walk_of(op)};
    bool cuts = op->id == UM_OP_TOPK || op->id == UM_OP_ARG_TOPK;
    um_korder o = {.count = um_view_count(&op->in[0]),
                   .length = s.walk.shape[s.walk.rank - 1],
                   .words = words_of(um_kvalue_compute(op->in[0].dtype)),
                   .limit = cuts ? op->attrs.sort.k : 0,
                   .ctx = &s,
                   .declare = declare,
                   .put = put_element};
    UM_TRY(plan_keys(&s, plan, &o));
    return um_korder_plan(um_op_name(op->id), plan, &o);
}
