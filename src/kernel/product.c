/* kernel/product.c: sums of products, for whoever says what the factors are: matmul.c, conv.c.
 * out[batch,row,column] = sum over depth of a[batch,row,depth] b[batch,column,depth]. A work-group
 * makes a tile of the output, from parts of a and b in shared memory; or some of its invocations
 * make one element, each a part of the depth; or, on processors, which have no such memory, an
 * invocation makes a tile by itself. Where tiles are few and deep, work-groups share the depth of
 * one, too, and a second launch adds up what they made.
 *
 * Floats are added plainly for at most TILE_DEPTH numbers, and then with what each addition loses
 * kept in a second number: the error does not grow with the depth. */
#include "kernel/product.h"
#include "ir/math.h"

#include <stdio.h>

enum {
    TILE = 64, /* columns of a tile, and rows, or twice as many: for each of 16 by 16 invocations */
    LANES = 4, /* 4 columns and 4 or 8 rows */
    TILE_DEPTH = 16,
    CHUNK_OF = 64,
    FEW = 8,        /* rows or columns, for which most of a tile would be made for nothing */
    TILES_FEW = 64, /* below, the depth is split, so that there are about TILES_WANTED */
    TILES_WANTED = 256,
    SPLIT_DEPTH = 256, /* at least that deep */
    DIRECT = 8,        /* rows and columns that an invocation makes by itself where nobody says, */
    DIRECT_MAX = 16,
    DIRECT_FOURS_MAX = DIRECT_MAX * DIRECT_MAX / LANES,
    DIRECT_GROUP = 16,    /* of so many */
    DIRECT_MUCH = 1 << 21 /* multiplications, for a larger tile where the device has one */
};
#define PARTIAL_MAX ((int64_t)1 << 24) /* numbers in scratch memory */

/* ---- sums ----------------------------------------------------------------------------------- */

static bool is_float(const um_product *s) { return um_dtype_is_float(s->p->compute); }

static um_val zero_of(const um_product *s, int32_t lanes)
{
    return um_k_splat(s->k, lanes, um_kvalue_number(s->k, s->p->compute, 0));
}

um_ksum um_ksum_new(um_kernel *k, um_val first, const char *name, ...)
{
    char text[32];
    um_ktype type = um_val_type(k, first);
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    um_ksum s = {um_kvar(k, first, "%s", text), 0};
    um_val zero = um_k_splat(k, type.lanes, um_kvalue_number(k, type.dtype, 0));
    if (um_dtype_is_float(type.dtype)) s.lost = um_kvar(k, zero, "%s_lost", text);
    return s;
}

void um_ksum_add(um_kernel *k, um_ksum s, um_val x)
{
    um_val before = um_k_get(k, s.sum), off;
    if (!s.lost) {
        um_k_set(k, s.sum, um_k_add(k, before, x));
        return;
    }
    um_k_set(k, s.sum, um_k_sum(k, before, x, &off));
    um_k_set(k, s.lost, um_k_add(k, um_k_get(k, s.lost), off));
}

/* What was lost of an infinity is a NaN. */
um_val um_ksum_get(um_kernel *k, um_ksum s)
{
    um_val a = um_k_get(k, s.sum);
    if (!s.lost) return a;
    um_ktype type = um_val_type(k, a);
    um_val off = um_k_get(k, s.lost), zero = um_kvalue_number(k, type.dtype, 0);
    um_val finite = um_k_eq(k, um_k_sub(k, off, off), um_k_splat(k, type.lanes, zero));
    return um_k_select(k, finite, um_k_add(k, a, off), a);
}

/* ---- a tile --------------------------------------------------------------------------------- */

static uint32_t tile_depth(const um_product *s)
{
    if (s->tile) return um_kfrag_depth(s);
    return s->p->compute == UM_F64 ? TILE_DEPTH / 2 : TILE_DEPTH;
}

static uint32_t tile_size(const um_product *s, bool of_b)
{
    if (s->tile) return of_b ? UM_KFRAG_COLUMNS : UM_KFRAG_ROWS;
    return of_b ? TILE : TILE / LANES * s->block;
}

bool um_product_is_deep(const um_product *s, bool of_b)
{
    return of_b ? s->p->b_deep : s->p->a_deep;
}

/* Elements from one depth to the next, or of parts for a matrix unit that are deep from one row to
 * the next; more than there are, so that a column of it lies in many banks, where there is room. */
uint32_t um_product_step(const um_product *s, bool of_b)
{
    uint32_t size = tile_size(s, of_b);
    if (s->tile) size = um_product_is_deep(s, of_b) ? tile_depth(s) : size;
    if (s->tile) return size + 128 / (uint32_t)um_dtype_bits(s->factor);
    return size + (s->factor == UM_F64 ? 0 : LANES);
}

static int32_t lanes_of(const um_product *s, bool of_b)
{
    if (s->async) return 128 / um_dtype_bits(s->factor);
    return of_b ? s->p->b_lanes : s->p->a_lanes;
}

/* Where in a tile vector i of those that this invocation brings to shared memory lies:
 * invocations next to each other bring what lies next to each other. */
void um_product_place(const um_product *s, bool of_b, uint32_t i, um_val *place, um_val *depth)
{
    um_kernel *k = s->k;
    bool deep = um_product_is_deep(s, of_b);
    uint32_t fast = deep ? tile_depth(s) : tile_size(s, of_b);
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    l = um_k_add(k, l, um_k_u32(k, i * s->group));
    l = um_k_mul(k, l, um_k_u32(k, (uint32_t)lanes_of(s, of_b)));
    um_val low = um_k_rem(k, l, um_k_u32(k, fast)), high = um_k_div(k, l, um_k_u32(k, fast));
    *place = deep ? high : low;
    *depth = deep ? low : high;
}

uint32_t um_product_part_count(const um_product *s, bool of_b)
{
    return tile_size(s, of_b) * tile_depth(s) / s->group / (uint32_t)lanes_of(s, of_b);
}

um_val um_product_in(const um_product *s, bool of_b, um_val place, um_val depth)
{
    um_val in = um_k_lt(s->k, place, of_b ? s->columns : s->rows);
    return um_k_and(s->k, in, um_k_lt(s->k, depth, s->depth));
}

void um_product_new_fetched(um_product *s)
{
    um_val zero = um_k_const(s->k, s->factor, 0);
    for (int32_t of_b = 0; of_b < 2; of_b++) {
        um_val none = um_k_splat(s->k, lanes_of(s, of_b), zero);
        for (uint32_t i = 0; i < um_product_part_count(s, of_b); i++)
            s->fetched[of_b][i] = um_kvar(s->k, none, of_b ? "next_b%u" : "next_a%u", i);
    }
}

void um_product_fetch(const um_product *s, um_val row, um_val column, um_val begin)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    for (int32_t of_b = 0; of_b < 2; of_b++)
        for (uint32_t i = 0; i < um_product_part_count(s, of_b); i++) {
            um_val place, d;
            um_product_place(s, of_b, i, &place, &d);
            um_val at = um_k_add(k, of_b ? column : row, place), depth = um_k_add(k, begin, d);
            um_val in = um_product_in(s, of_b, at, depth);
            um_val x = (of_b ? p->b : p->a)(p->ctx, k, at, depth, in, lanes_of(s, of_b));
            um_k_set(k, s->fetched[of_b][i], um_kvalue_as(k, s->factor, x));
        }
}

static void store_part(const um_product *s, bool of_b, uint32_t i)
{
    um_kernel *k = s->k;
    um_val place, d;
    um_product_place(s, of_b, i, &place, &d);
    um_val step = um_k_u32(k, um_product_step(s, of_b)), x = um_k_get(k, s->fetched[of_b][i]);
    bool deep = um_product_is_deep(s, of_b), turned = s->tile && deep;
    um_val line = um_k_mul(k, turned ? place : d, step);
    um_val to = um_k_add(k, line, turned ? d : place);
    if (lanes_of(s, of_b) == 1 || !deep || turned) {
        um_k_store(k, s->shared[of_b], to, x);
        return;
    }
    for (uint32_t lane = 0; lane < LANES; lane++, to = um_k_add(k, to, step))
        um_k_store(k, s->shared[of_b], to, um_k_extract(k, x, lane));
}

void um_product_store(const um_product *s)
{
    for (int32_t of_b = 0; of_b < 2; of_b++)
        for (uint32_t i = 0; i < um_product_part_count(s, of_b); i++) store_part(s, of_b, i);
}

/* Rows lie in fours, TILE apart. */
static um_val four_of(const um_product *s, bool of_b, um_val depth, um_val number, uint32_t four)
{
    um_kernel *k = s->k;
    um_val at = um_k_mul(k, depth, um_k_u32(k, um_product_step(s, of_b)));
    at = um_k_add(k, at, um_k_u32(k, four * TILE));
    at = um_k_add(k, at, um_k_mul(k, number, um_k_u32(k, LANES)));
    return um_k_load_lanes(k, s->shared[of_b], at, LANES);
}

static void multiply_add(const um_product *s, um_mem part, um_val x, um_val y)
{
    um_kernel *k = s->k;
    um_val sum = um_k_get(k, part);
    um_k_set(k, part, is_float(s) ? um_k_fma(k, x, y, sum) : um_k_add(k, sum, um_k_mul(k, x, y)));
}

/* This invocation's elements, over the depth that is in shared memory. */
static void multiply_parts(const um_product *s, um_val across, um_val down, const um_mem *part)
{
    um_kernel *k = s->k;
    for (uint32_t i = 0; i < s->block; i++) um_k_set(k, part[i], zero_of(s, LANES));
    um_val d = um_k_for(k, s->zero, um_k_u32(k, tile_depth(s)), s->one), a = 0;
    um_val b = four_of(s, true, d, across, 0);
    for (uint32_t i = 0; i < s->block; i++) {
        if (i % LANES == 0) a = four_of(s, false, d, down, i / LANES);
        multiply_add(s, part[i], um_k_splat(k, LANES, um_k_extract(k, a, i % LANES)), b);
    }
    um_k_end(k);
}

void um_product_finish(const um_product *s, um_val row, um_val column, um_val value, um_mem partial,
                       um_val base)
{
    um_kernel *k = s->k;
    um_k_if(k, um_k_and(k, um_k_lt(k, row, s->rows), um_k_lt(k, column, s->columns)));
    if (partial)
        um_k_store(k, partial, um_k_add(k, base, um_k_add(k, um_k_mul(k, row, s->columns), column)),
                   value);
    else
        s->p->finish(s->p->ctx, k, row, column, value);
    um_k_end(k);
}

/* The elements, one by one, so that what comes after the sum is there once; partial: what is only a
 * part of the depth goes there, from `base` on. */
static void finish_tile(const um_product *s, um_val row, um_val column, const um_ksum *totals,
                        um_mem partial, um_val base)
{
    um_kernel *k = s->k;
    um_mem made = um_k_private(k, "made", s->p->compute, s->block * LANES);
    um_val four = um_k_u32(k, LANES);
    for (uint32_t i = 0; i < s->block; i++) {
        um_val sums = um_ksum_get(k, totals[i]);
        for (uint32_t j = 0; j < LANES; j++)
            um_k_store(k, made, um_k_u32(k, i * LANES + j), um_k_extract(k, sums, j));
    }
    um_val e = um_k_for(k, s->zero, um_k_u32(k, s->block * LANES), s->one);
    um_val i = um_k_div(k, e, four), far = um_k_mul(k, um_k_div(k, i, four), um_k_u32(k, TILE));
    row = um_k_add(k, um_k_add(k, row, far), um_k_rem(k, i, four));
    column = um_k_add(k, column, um_k_rem(k, e, four));
    um_product_finish(s, row, column, um_k_load(k, made, e), partial, base);
    um_k_end(k);
}

/* A tile's sums, over depth begin .. end - 1. */
static void sum_tile(um_product *s, um_val row, um_val column, um_val begin, um_val end,
                     um_ksum *totals)
{
    um_kernel *k = s->k;
    um_mem part[2 * LANES];
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), sixteen = um_k_u32(k, TILE / LANES);
    um_val x = um_k_rem(k, l, sixteen), y = um_k_div(k, l, sixteen);
    for (int32_t of_b = 0; of_b < 2; of_b++)
        s->shared[of_b] = um_k_shared(k, of_b ? "part_b" : "part_a", s->factor,
                                      tile_depth(s) * um_product_step(s, of_b));
    um_product_new_fetched(s);
    for (uint32_t i = 0; i < s->block; i++) {
        totals[i] = um_ksum_new(k, zero_of(s, LANES), "sum%u", i);
        part[i] = um_kvar(k, zero_of(s, LANES), "part%u", i);
    }
    um_product_fetch(s, row, column, begin);
    um_val step = um_k_u32(k, tile_depth(s)), at = um_k_for(k, begin, end, step);
    um_product_store(s);
    um_k_barrier(k);
    um_val next = um_k_add(k, at, step);
    um_product_fetch(s, row, column, next);
    multiply_parts(s, x, y, part);
    for (uint32_t i = 0; i < s->block; i++) um_ksum_add(k, totals[i], um_k_get(k, part[i]));
    um_k_barrier(k);
    um_k_end(k);
}

static int64_t output_count(const um_kproduct *p) { return p->batches * p->rows * p->columns; }

/* What is made of each part of the depth, one after the other. */
static um_mem partial_sums(const um_product *s)
{
    uint64_t bytes = (uint64_t)(s->splits * output_count(s->p) * um_dtype_bits(s->p->compute) / 8);
    return um_klaunch_scratch(s->launch, "partial", s->p->compute, UM_KFAULT_BYTES, bytes);
}

/* Whole parts of the depth, of any form. */
static int64_t chunk_of(const um_kproduct *p, int64_t splits)
{
    return um_ceil_div(um_ceil_div(p->depth, splits), CHUNK_OF) * CHUNK_OF;
}

static void make_tile(um_product *s)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    int64_t down = um_ceil_div(p->rows, tile_size(s, false)),
            across = um_ceil_div(p->columns, tile_size(s, true));
    int64_t tiles = p->batches * down * across, chunk = p->depth;
    um_val count = um_klaunch_scalar(s->launch, tiles * s->splits, "tiles");
    um_val tiles_down = um_klaunch_scalar(s->launch, down, "tiles_down");
    um_val tiles_across = um_klaunch_scalar(s->launch, across, "tiles_across");
    um_klaunch_groups(s->launch, tiles * s->splits);
    um_mem partial = s->splits > 1 ? partial_sums(s) : 0;
    um_val number = um_klaunch_group_number(k);
    um_k_if(k, um_k_lt(k, number, count));
    um_val column = um_k_mul(k, um_k_rem(k, number, tiles_across), um_k_u32(k, tile_size(s, true)));
    um_val rest = um_k_div(k, number, tiles_across), begin = s->zero, end = s->depth, base = 0;
    um_val row = um_k_mul(k, um_k_rem(k, rest, tiles_down), um_k_u32(k, tile_size(s, false)));
    um_val batch = um_k_div(k, rest, tiles_down);
    if (partial) {
        chunk = chunk_of(p, s->splits);
        um_val batches = um_klaunch_scalar(s->launch, p->batches, "batches");
        um_val by = um_klaunch_scalar(s->launch, chunk, "chunk");
        base = um_k_mul(k, batch, um_k_mul(k, s->rows, s->columns));
        begin = um_k_mul(k, um_k_div(k, batch, batches), by);
        end = um_k_min(k, um_k_add(k, begin, by), s->depth);
        batch = um_k_rem(k, batch, batches);
    }
    p->begin(p->ctx, k, batch);
    if (s->tile) {
        um_kfrag_make(s, row, column, begin, end, chunk, partial, base);
        um_k_end(k);
        return;
    }
    um_ksum totals[2 * LANES];
    sum_tile(s, row, column, begin, end, totals);
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), sixteen = um_k_u32(k, TILE / LANES);
    um_val four = um_k_u32(k, LANES);
    row = um_k_add(k, row, um_k_mul(k, um_k_div(k, l, sixteen), four));
    column = um_k_add(k, column, um_k_mul(k, um_k_rem(k, l, sixteen), four));
    finish_tile(s, row, column, totals, partial, base);
    um_k_end(k);
}

/* The second launch: an invocation adds up the parts of an element. */
static void add_partial_sums(const um_product *s)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    um_mem partial = partial_sums(s);
    um_val count = um_klaunch_scalar(s->launch, output_count(p), "count");
    um_val end = um_klaunch_scalar(s->launch, s->splits * output_count(p), "end");
    um_klaunch_groups(s->launch, um_ceil_div(output_count(p), UM_KGROUP));
    um_val e = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, e, count));
    um_val rest = um_k_div(k, e, s->columns);
    p->begin(p->ctx, k, um_k_div(k, rest, s->rows));
    um_ksum t = um_ksum_new(k, zero_of(s, 1), "sum");
    um_ksum_add(k, t, um_k_load(k, partial, um_k_for(k, e, end, count)));
    um_k_end(k);
    p->finish(p->ctx, k, um_k_rem(k, rest, s->rows), um_k_rem(k, e, s->columns), um_ksum_get(k, t));
    um_k_end(k);
}

/* ---- a tile an invocation ------------------------------------------------------------------- */

/* Four columns of b from `column` on. What is not there may be any of the numbers: nobody will see
 * what becomes of it. */
static um_val direct_four(const um_product *s, um_val column, um_val depth)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    um_val item[LANES], yes = um_k_bool(k, true);
    if (!p->b_deep && p->b_lanes == LANES) {
        um_val last = um_k_sub(k, s->columns, um_k_u32(k, LANES));
        um_val x = p->b(p->ctx, k, um_k_min(k, column, last), depth, yes, LANES);
        return um_kvalue_as(k, p->compute, x);
    }
    um_val last = um_k_sub(k, s->columns, s->one);
    for (uint32_t j = 0; j < LANES; j++) {
        um_val at = um_k_min(k, um_k_add(k, column, um_k_u32(k, j)), last);
        item[j] = um_kvalue_as(k, p->compute, p->b(p->ctx, k, at, depth, yes, 1));
    }
    return um_k_vector(k, LANES, item);
}

static void direct_sum(const um_product *s, um_val row, um_val column, um_ksum *totals)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    uint32_t fours = s->direct / LANES;
    um_mem part[DIRECT_FOURS_MAX];
    um_val b[DIRECT_MAX / LANES], last = um_k_sub(k, s->rows, s->one), yes = um_k_bool(k, true);
    for (uint32_t i = 0; i < fours * s->direct; i++) {
        totals[i] = um_ksum_new(k, zero_of(s, LANES), "sum%u", i);
        part[i] = um_kvar(k, zero_of(s, LANES), "part%u", i);
    }
    um_val step = um_k_u32(k, tile_depth(s)), at = um_k_for(k, s->zero, s->depth, step);
    um_val end = um_k_min(k, um_k_add(k, at, step), s->depth);
    for (uint32_t i = 0; i < fours * s->direct; i++) um_k_set(k, part[i], zero_of(s, LANES));
    um_val d = um_k_for(k, at, end, s->one);
    for (uint32_t j = 0; j < fours; j++)
        b[j] = direct_four(s, um_k_add(k, column, um_k_u32(k, j * LANES)), d);
    for (uint32_t i = 0; i < s->direct; i++) {
        um_val r = um_k_min(k, um_k_add(k, row, um_k_u32(k, i)), last);
        um_val a = um_kvalue_as(k, p->compute, p->a(p->ctx, k, r, d, yes, 1));
        for (uint32_t j = 0; j < fours; j++)
            multiply_add(s, part[fours * i + j], um_k_splat(k, LANES, a), b[j]);
    }
    um_k_end(k);
    for (uint32_t i = 0; i < fours * s->direct; i++)
        um_ksum_add(k, totals[i], um_k_get(k, part[i]));
    um_k_end(k);
}

static void make_direct(um_product *s)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    int64_t down = um_ceil_div(p->rows, s->direct), across = um_ceil_div(p->columns, s->direct);
    int64_t tiles = p->batches * down * across;
    uint32_t fours = s->direct / LANES;
    um_ksum totals[DIRECT_FOURS_MAX];
    um_val count = um_klaunch_scalar(s->launch, tiles, "tiles");
    um_val tiles_down = um_klaunch_scalar(s->launch, down, "tiles_down");
    um_val tiles_across = um_klaunch_scalar(s->launch, across, "tiles_across");
    um_val size = um_k_u32(k, s->direct);
    um_klaunch_groups(s->launch, um_ceil_div(tiles, DIRECT_GROUP));
    um_val number = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, DIRECT_GROUP));
    number = um_k_add(k, number, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0));
    um_k_if(k, um_k_lt(k, number, count));
    um_val column = um_k_mul(k, um_k_rem(k, number, tiles_across), size);
    um_val rest = um_k_div(k, number, tiles_across);
    um_val row = um_k_mul(k, um_k_rem(k, rest, tiles_down), size);
    p->begin(p->ctx, k, um_k_div(k, rest, tiles_down));
    direct_sum(s, row, column, totals);
    um_mem made = um_k_private(k, "made", p->compute, s->direct * s->direct);
    for (uint32_t i = 0; i < fours * s->direct; i++) {
        um_val sums = um_ksum_get(k, totals[i]);
        for (uint32_t j = 0; j < LANES; j++)
            um_k_store(k, made, um_k_u32(k, i * LANES + j), um_k_extract(k, sums, j));
    }
    um_val e = um_k_for(k, s->zero, um_k_u32(k, s->direct * s->direct), s->one);
    row = um_k_add(k, row, um_k_div(k, e, size));
    column = um_k_add(k, column, um_k_rem(k, e, size));
    um_product_finish(s, row, column, um_k_load(k, made, e), 0, 0);
    um_k_end(k);
    um_k_end(k);
}

/* ---- element by element --------------------------------------------------------------------- */

/* Invocations that share the depth of an element. */
static uint32_t lane_count(const um_kproduct *p)
{
    if (p->depth < 64) return 1;
    if (output_count(p) < 1024 && p->depth >= 4096) return UM_KGROUP;
    if (p->a_deep && p->b_deep) return 64;
    return output_count(p) < 1 << 16 ? 8 : 1;
}

/* The sum of x over the lanes, in the first of them; `apart` invocations from one to the next. */
static um_val sum_lanes(const um_product *s, um_val x, um_val lane, uint32_t lanes, uint32_t apart)
{
    um_kernel *k = s->k;
    um_mem sums = um_k_shared(k, "sums", s->p->compute, UM_KGROUP);
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_k_store(k, sums, l, x);
    for (uint32_t half = lanes / 2; half > 0; half /= 2) {
        um_k_barrier(k);
        um_k_if(k, um_k_lt(k, lane, um_k_u32(k, half)));
        um_val other = um_k_load(k, sums, um_k_add(k, l, um_k_u32(k, half * apart)));
        um_k_store(k, sums, l, um_k_add(k, um_k_load(k, sums, l), other));
        um_k_end(k);
    }
    return um_k_load(k, sums, l);
}

static void make_elements(const um_product *s)
{
    um_kernel *k = s->k;
    um_klaunch *launch = s->launch;
    const um_kproduct *p = s->p;
    uint32_t lanes = lane_count(p), each = UM_KGROUP / lanes;
    bool near = p->a_deep && p->b_deep; /* lanes of an element are next to each other */
    um_val count = um_klaunch_scalar(launch, output_count(p), "count");
    um_klaunch_groups(launch, um_ceil_div(output_count(p), each));
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), by = um_k_u32(k, near ? lanes : each);
    um_val low = um_k_rem(k, l, by), high = um_k_div(k, l, by), lane = near ? low : high;
    um_val e = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, each));
    e = um_k_add(k, e, near ? high : low);
    um_val in = um_k_lt(k, e, count), end = um_k_select(k, in, s->depth, s->zero);
    um_val column = um_k_rem(k, e, s->columns), rest = um_k_div(k, e, s->columns);
    um_val row = um_k_rem(k, rest, s->rows);
    p->begin(p->ctx, k, um_k_div(k, rest, s->rows));
    int32_t together = near && !p->meets ? UM_MIN(p->a_lanes, p->b_lanes) : 1;
    um_ksum t = um_ksum_new(k, zero_of(s, together), "sum");
    if (p->depth > 0) {
        um_val four = um_k_u32(k, (uint32_t)together), step = um_k_mul(k, um_k_u32(k, lanes), four);
        um_val at = um_k_for(k, um_k_mul(k, lane, four), end, step);
        um_val both = p->meets ? p->meets(p->ctx, k, row, column, at) : um_k_bool(k, true);
        um_val a = um_kvalue_as(k, s->factor, p->a(p->ctx, k, row, at, both, together));
        um_val b = um_kvalue_as(k, s->factor, p->b(p->ctx, k, column, at, both, together));
        um_ksum_add(k, t, um_k_mul(k, a, b));
        um_k_end(k);
    }
    um_val sums = um_ksum_get(k, t), sum = um_k_extract(k, sums, 0);
    for (int32_t i = 1; i < together; i++)
        sum = um_k_add(k, sum, um_k_extract(k, sums, (uint32_t)i));
    if (lanes > 1) {
        sum = sum_lanes(s, sum, lane, lanes, near ? 1 : each);
        in = um_k_and(k, in, um_k_eq(k, lane, s->zero));
    }
    um_k_if(k, in);
    p->finish(p->ctx, k, row, column, sum);
    um_k_end(k);
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool is_tiled(const um_kproduct *p)
{
    return !p->meets && p->depth > 0 && p->rows > FEW && p->columns > FEW;
}

static int64_t split_count(const um_product *s, uint32_t block)
{
    const um_kproduct *p = s->p;
    int64_t down = um_ceil_div(p->rows, s->tile ? UM_KFRAG_ROWS : TILE / LANES * block);
    int64_t tiles = p->batches * down * um_ceil_div(p->columns, tile_size(s, true));
    if (!is_tiled(p) || tiles >= TILES_FEW) return 1;
    int64_t splits = UM_MIN(um_ceil_div(TILES_WANTED, tiles), p->depth / SPLIT_DEPTH);
    splits = UM_MIN(splits, PARTIAL_MAX / output_count(p));
    if (splits < 2) return 1;
    /* Of whole parts of the depth: the last may have less, none has nothing. */
    return um_ceil_div(p->depth, chunk_of(p, splits));
}

/* What a form is: tall tiles (not of f64), a tile an invocation, the depth not split where it would
 * be. The plan's form 1 is the first of those that there are. */
enum { FORM_TALL = 1, FORM_DIRECT = 2, FORM_WHOLE = 4, FORMS = 5 };
static const uint8_t forms[FORMS] = {0, FORM_TALL, FORM_DIRECT, FORM_WHOLE, FORM_WHOLE | FORM_TALL};

/* By the library's rules: a processor's is direct; tall tiles load less from shared memory for each
 * product, but of f64 registers do not suffice. */
static int32_t rule_of(const um_product *s, const um_kunit *unit)
{
    if (unit && unit->own_tile > 0 && is_tiled(s->p) && !s->tile) return FORM_DIRECT;
    return s->p->compute != UM_F64 && s->p->rows > 2 * TILE ? FORM_TALL : 0;
}

/* Drivers take seconds to compile a large one, which is for products of so much. */
static uint32_t direct_of(const um_kproduct *p, const um_kunit *unit)
{
    bool much = output_count(p) >= um_ceil_div(DIRECT_MUCH, UM_MAX(p->depth, 1));
    return unit && unit->own_tile && much ? unit->own_tile : DIRECT;
}

static void take_form(um_product *s, um_kplan *plan)
{
    const um_kproduct *p = s->p;
    bool has_tall = p->compute != UM_F64, splits = split_count(s, LANES) > 1;
    int32_t form = rule_of(s, plan->unit), count = 0;
    for (int32_t i = 0; i < FORMS; i++) {
        if ((forms[i] & FORM_TALL && !has_tall) || (forms[i] & FORM_WHOLE && !splits)) continue;
        if (++count == plan->form) form = forms[i];
    }
    s->block = form & FORM_TALL ? 2 * LANES : LANES;
    s->direct = form & FORM_DIRECT ? direct_of(p, plan->unit) : 0;
    if (s->direct) s->group = DIRECT_GROUP;
    s->splits = form & (FORM_WHOLE | FORM_DIRECT) ? 1 : split_count(s, s->block);
    if (is_tiled(p) && !s->tile) plan->form_count = count; /* of a matrix unit there is one form */
}

void um_kproduct_tile(int32_t form, int32_t tile[3])
{
    int32_t bits = forms[form - 1];
    tile[0] = bits & FORM_DIRECT ? DIRECT : bits & FORM_TALL ? 2 * TILE : TILE;
    tile[1] = bits & FORM_DIRECT ? DIRECT : TILE;
    tile[2] = TILE_DEPTH;
}

static um_status begin_launch(um_product *s, um_kplan *plan, const char *name, int32_t parts,
                              bool in_fours)
{
    s->launch = &plan->launch[plan->launch_count++];
    um_kernel_desc desc = {.name = name, .group_size = {s->group}, .subgroup_size = s->subgroup};
    UM_TRY(um_kernel_create(&desc, &s->launch->kernel));
    um_kernel *k = s->k = s->launch->kernel;
    s->p->declare(s->p->ctx, s->launch, parts, in_fours);
    s->one = um_k_u32(k, 1);
    s->zero = um_k_u32(k, 0);
    s->rows = um_klaunch_scalar(s->launch, s->p->rows, "rows");
    s->columns = um_klaunch_scalar(s->launch, s->p->columns, "columns");
    s->depth = um_klaunch_scalar(s->launch, s->p->depth, "depth");
    return UM_OK;
}

um_status um_kproduct_plan(const char *name, um_kplan *plan, const um_kproduct *p)
{
    um_product s = {.p = p, .group = UM_KGROUP, .factor = p->compute};
    if (is_tiled(p)) um_kfrag_begin(&s, plan->unit);
    int32_t parts = UM_KPRODUCT_FACTORS | UM_KPRODUCT_RESULT;
    char second[48];
    take_form(&s, plan);
    if (s.splits > 1) parts = UM_KPRODUCT_FACTORS;
    UM_TRY(begin_launch(&s, plan, name, parts, is_tiled(p)));
    if (is_tiled(p) && s.direct)
        make_direct(&s);
    else if (is_tiled(p))
        make_tile(&s);
    else
        make_elements(&s);
    UM_TRY(um_kernel_finish(s.k));
    if (s.splits == 1) return UM_OK;
    plan->scratch_bytes =
        UM_KFAULT_BYTES + (uint64_t)(s.splits * output_count(p) * um_dtype_bits(p->compute) / 8);
    snprintf(second, sizeof second, "%s_sum", name);
    s.group = UM_KGROUP;
    s.subgroup = 0;
    UM_TRY(begin_launch(&s, plan, second, UM_KPRODUCT_RESULT, false));
    add_partial_sums(&s);
    return um_kernel_finish(s.k);
}
