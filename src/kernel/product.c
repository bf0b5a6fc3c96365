/* kernel/product.c: sums of products, for whoever says what the factors are: matmul.c, conv.c.
 * out[batch,row,column] = sum over depth of a[batch,row,depth] b[batch,column,depth]. Two forms: a
 * work-group makes a tile of the output, from parts of a and b in shared memory; or some of its
 * invocations make one element, each a part of the depth.
 *
 * Floats are added plainly for at most TILE_DEPTH numbers, and then with what each addition loses
 * kept in a second number: the error does not grow with the depth. */
#include "kernel/library.h"

#include <stdio.h>

enum {
    TILE = 64, /* rows, and columns, of a tile; 4 by 4 for each of 16 by 16 invocations */
    TILE_DEPTH = 16,
    ACROSS = 4,
    FEW = 8 /* rows or columns, for which most of a tile would be made for nothing */
};

typedef struct product {
    const um_kproduct *p;
    um_kernel *k;
    um_val rows, columns, depth, one, zero;
    um_mem shared[2]; /* of a and b */
} product;

/* ---- sums ----------------------------------------------------------------------------------- */

/* A sum of one lane or four, in variables. */
typedef struct total {
    um_mem sum, lost; /* lost: 0 of integers */
} total;

static bool is_float(const product *s) { return um_dtype_is_float(s->p->compute); }

static um_val zero_of(const product *s, int32_t lanes)
{
    return um_k_splat(s->k, lanes, um_kvalue_number(s->k, s->p->compute, 0));
}

static um_mem new_var(const product *s, const char *name, int32_t number, int32_t lanes)
{
    char text[32];
    snprintf(text, sizeof text, "%s%d", name, (int)number);
    um_mem var = um_k_var(s->k, text, s->p->compute, lanes);
    um_k_set(s->k, var, zero_of(s, lanes));
    return var;
}

static total total_new(const product *s, int32_t number, int32_t lanes)
{
    total t = {new_var(s, "sum", number, lanes), 0};
    if (is_float(s)) t.lost = new_var(s, "lost", number, lanes);
    return t;
}

static void total_add(const product *s, const total *t, um_val x)
{
    um_ksum_add(s->k, t->sum, t->lost, x);
}

void um_ksum_add(um_kernel *k, um_mem sum, um_mem lost, um_val x)
{
    um_val before = um_k_get(k, sum), after = um_k_add(k, before, x);
    um_k_set(k, sum, after);
    if (!lost) return;
    um_val part = um_k_sub(k, after, before);
    um_val off = um_k_sub(k, before, um_k_sub(k, after, part));
    off = um_k_add(k, off, um_k_sub(k, x, part));
    um_k_set(k, lost, um_k_add(k, um_k_get(k, lost), off));
}

/* What was lost of an infinity is a NaN. */
um_val um_ksum_get(um_kernel *k, um_mem sum, um_mem lost)
{
    um_val a = um_k_get(k, sum);
    if (!lost) return a;
    um_ktype type = um_val_type(k, a);
    um_val off = um_k_get(k, lost), zero = um_kvalue_number(k, type.dtype, 0);
    um_val finite = um_k_eq(k, um_k_sub(k, off, off), um_k_splat(k, type.lanes, zero));
    return um_k_select(k, finite, um_k_add(k, a, off), a);
}

/* ---- a tile --------------------------------------------------------------------------------- */

static uint32_t tile_depth(const product *s)
{
    return s->p->compute == UM_F64 ? TILE_DEPTH / 2 : TILE_DEPTH;
}

/* Elements from one depth to the next; more than TILE, so that a column of it lies in many banks,
 * where there is room. */
static uint32_t tile_step(const product *s) { return s->p->compute == UM_F64 ? TILE : TILE + 4; }

/* A part of a (b) from depth `begin`: TILE rows (columns) from `first`, those of one depth next to
 * each other. Invocations next to each other load what lies next to each other. */
static void load_part(const product *s, bool of_b, um_val first, um_val begin)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    uint32_t depth = tile_depth(s), step = tile_step(s);
    bool deep = of_b ? p->b_deep : p->a_deep;
    uint32_t fast = deep ? depth : TILE, each = UM_KGROUP / fast;
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_val low = um_k_rem(k, l, um_k_u32(k, fast)), high = um_k_div(k, l, um_k_u32(k, fast));
    for (uint32_t i = 0; i < TILE * depth / UM_KGROUP; i++) {
        um_val moved = um_k_add(k, high, um_k_u32(k, i * each));
        um_val place = deep ? moved : low, d = deep ? low : moved;
        um_val row = um_k_add(k, first, place), at = um_k_add(k, begin, d);
        um_val in = um_k_lt(k, row, of_b ? s->columns : s->rows);
        in = um_k_and(k, in, um_k_lt(k, at, s->depth));
        um_val x = (of_b ? p->b : p->a)(p->ctx, k, row, at, in);
        um_val to = um_k_add(k, um_k_mul(k, d, um_k_u32(k, step)), place);
        um_k_store(k, s->shared[of_b], to, x);
    }
}

/* This invocation's 4 by 4 elements, over the depth that is in shared memory. */
static void multiply_parts(const product *s, um_val across, um_val down, const um_mem *part)
{
    um_kernel *k = s->k;
    for (int32_t i = 0; i < ACROSS; i++) um_k_set(k, part[i], zero_of(s, ACROSS));
    um_val d = um_k_for(k, s->zero, um_k_u32(k, tile_depth(s)), s->one);
    um_val at = um_k_mul(k, d, um_k_u32(k, tile_step(s))), four = um_k_u32(k, ACROSS);
    um_val a = um_k_load_lanes(k, s->shared[0], um_k_add(k, at, um_k_mul(k, down, four)), ACROSS);
    um_val b = um_k_load_lanes(k, s->shared[1], um_k_add(k, at, um_k_mul(k, across, four)), ACROSS);
    for (uint32_t i = 0; i < ACROSS; i++) {
        um_val x = um_k_splat(k, ACROSS, um_k_extract(k, a, i)), sum = um_k_get(k, part[i]);
        um_k_set(k, part[i],
                 is_float(s) ? um_k_fma(k, x, b, sum) : um_k_add(k, sum, um_k_mul(k, x, b)));
    }
    um_k_end(k);
}

/* The 16 elements, one by one, so that what comes after the sum is there once. */
static void finish_tile(const product *s, um_val row, um_val column, const total *totals)
{
    um_kernel *k = s->k;
    um_mem made = um_k_private(k, "made", s->p->compute, ACROSS * ACROSS);
    um_val four = um_k_u32(k, ACROSS);
    for (uint32_t i = 0; i < ACROSS; i++) {
        um_val sums = um_ksum_get(k, totals[i].sum, totals[i].lost);
        for (uint32_t j = 0; j < ACROSS; j++)
            um_k_store(k, made, um_k_u32(k, i * ACROSS + j), um_k_extract(k, sums, j));
    }
    um_val e = um_k_for(k, s->zero, um_k_u32(k, ACROSS * ACROSS), s->one);
    row = um_k_add(k, row, um_k_div(k, e, four));
    column = um_k_add(k, column, um_k_rem(k, e, four));
    um_k_if(k, um_k_and(k, um_k_lt(k, row, s->rows), um_k_lt(k, column, s->columns)));
    s->p->finish(s->p->ctx, k, row, column, um_k_load(k, made, e));
    um_k_end(k);
    um_k_end(k);
}

static void make_tile(product *s, um_klaunch *launch)
{
    um_kernel *k = s->k;
    int64_t down = um_ceil_div(s->p->rows, TILE), across = um_ceil_div(s->p->columns, TILE);
    um_val count = um_klaunch_scalar(k, launch, "tiles", (uint32_t)(s->p->batches * down * across));
    um_val tiles_down = um_klaunch_scalar(k, launch, "tiles_down", (uint32_t)down);
    um_val tiles_across = um_klaunch_scalar(k, launch, "tiles_across", (uint32_t)across);
    um_klaunch_groups(launch, s->p->batches * down * across);
    for (int32_t i = 0; i < 2; i++)
        s->shared[i] =
            um_k_shared(k, i ? "part_b" : "part_a", s->p->compute, tile_depth(s) * tile_step(s));
    um_val number = um_klaunch_group_number(k), tile = um_k_u32(k, TILE);
    um_k_if(k, um_k_lt(k, number, count));
    um_val column = um_k_mul(k, um_k_rem(k, number, tiles_across), tile);
    um_val rest = um_k_div(k, number, tiles_across);
    um_val row = um_k_mul(k, um_k_rem(k, rest, tiles_down), tile);
    s->p->begin(s->p->ctx, k, um_k_div(k, rest, tiles_down));
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), sixteen = um_k_u32(k, TILE / ACROSS);
    um_val x = um_k_rem(k, l, sixteen), y = um_k_div(k, l, sixteen), four = um_k_u32(k, ACROSS);
    total totals[ACROSS];
    um_mem part[ACROSS];
    for (int32_t i = 0; i < ACROSS; i++) {
        totals[i] = total_new(s, i, ACROSS);
        part[i] = new_var(s, "part", i, ACROSS);
    }
    um_val begin = um_k_for(k, s->zero, s->depth, um_k_u32(k, tile_depth(s)));
    load_part(s, false, row, begin);
    load_part(s, true, column, begin);
    um_k_barrier(k);
    multiply_parts(s, x, y, part);
    for (int32_t i = 0; i < ACROSS; i++) total_add(s, &totals[i], um_k_get(k, part[i]));
    um_k_barrier(k);
    um_k_end(k);
    finish_tile(s, um_k_add(k, row, um_k_mul(k, y, four)),
                um_k_add(k, column, um_k_mul(k, x, four)), totals);
    um_k_end(k);
}

/* ---- element by element --------------------------------------------------------------------- */

static int64_t output_count(const um_kproduct *p) { return p->batches * p->rows * p->columns; }

/* Invocations that share the depth of an element. */
static uint32_t lane_count(const um_kproduct *p)
{
    if (p->depth < 64) return 1;
    if (output_count(p) < 1024 && p->depth >= 4096) return UM_KGROUP;
    if (p->a_deep && p->b_deep) return 64;
    return output_count(p) < 1 << 16 ? 8 : 1;
}

/* The sum of x over the lanes, in the first of them; `apart` invocations from one to the next. */
static um_val sum_lanes(const product *s, um_val x, um_val lane, uint32_t lanes, uint32_t apart)
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

static void make_elements(const product *s, um_klaunch *launch)
{
    um_kernel *k = s->k;
    const um_kproduct *p = s->p;
    uint32_t lanes = lane_count(p), each = UM_KGROUP / lanes;
    bool near = p->a_deep && p->b_deep; /* lanes of an element are next to each other */
    um_val count = um_klaunch_scalar(k, launch, "count", (uint32_t)output_count(p));
    um_klaunch_groups(launch, um_ceil_div(output_count(p), each));
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), by = um_k_u32(k, near ? lanes : each);
    um_val low = um_k_rem(k, l, by), high = um_k_div(k, l, by), lane = near ? low : high;
    um_val e = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, each));
    e = um_k_add(k, e, near ? high : low);
    um_val in = um_k_lt(k, e, count), end = um_k_select(k, in, s->depth, s->zero);
    um_val column = um_k_rem(k, e, s->columns), rest = um_k_div(k, e, s->columns);
    um_val row = um_k_rem(k, rest, s->rows);
    p->begin(p->ctx, k, um_k_div(k, rest, s->rows));
    total t = total_new(s, 0, 1);
    if (p->depth > 0) {
        um_val at = um_k_for(k, lane, end, um_k_u32(k, lanes));
        um_val both = p->meets ? p->meets(p->ctx, k, row, column, at) : um_k_bool(k, true);
        um_val a = p->a(p->ctx, k, row, at, both), b = p->b(p->ctx, k, column, at, both);
        total_add(s, &t, um_k_mul(k, a, b));
        um_k_end(k);
    }
    um_val sum = um_ksum_get(k, t.sum, t.lost);
    if (lanes > 1) {
        sum = sum_lanes(s, sum, lane, lanes, near ? 1 : each);
        in = um_k_and(k, in, um_k_eq(k, lane, s->zero));
    }
    um_k_if(k, in);
    p->finish(p->ctx, k, row, column, sum);
    um_k_end(k);
}

/* ---- both ----------------------------------------------------------------------------------- */

bool um_kproduct_is_tiled(const um_kproduct *p)
{
    return !p->meets && p->depth > 0 && p->rows > FEW && p->columns > FEW;
}

void um_kproduct_make(um_kernel *k, um_klaunch *launch, const um_kproduct *p)
{
    product s = {.p = p, .k = k, .one = um_k_u32(k, 1), .zero = um_k_u32(k, 0)};
    s.rows = um_klaunch_scalar(k, launch, "rows", (uint32_t)p->rows);
    s.columns = um_klaunch_scalar(k, launch, "columns", (uint32_t)p->columns);
    s.depth = um_klaunch_scalar(k, launch, "depth", (uint32_t)p->depth);
    if (um_kproduct_is_tiled(p))
        make_tile(&s, launch);
    else
        make_elements(&s, launch);
}
