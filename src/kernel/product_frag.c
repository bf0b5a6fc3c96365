/* kernel/product_frag.c: product.c's tile by a matrix unit. A work-group makes 128 x 64 of the
 * output, each subgroup a block of it in fragments, from parts of a and b in shared memory that lie
 * there as in memory; the next parts come by asynchronous copies into a second pair, or through
 * variables.
 *
 * Sums: at most SHORT numbers go into one fragment, at most LONG into a second, and these into a
 * third: with plain additions the error stays below CONTRACT.md's bound up to DEPTH_MAX numbers (at
 * SHORT / 2 + LONG / SHORT / 2 + DEPTH_MAX / LONG / 2 eps). Integers wrap. */
#include "kernel/product.h"

#include <stdio.h>

enum { SHORT = 64, LONG = 4096, DEPTH_MAX = 1 << 18, FRAGS = 32 };

/* Subgroups of a work-group. */
typedef struct grid {
    uint32_t down, across;
} grid;

typedef struct frags {
    um_product *s;
    uint32_t m, n, k, down, across;
    uint32_t rows, columns; /* of a subgroup's block */
    um_val row, column;     /* of it in the tile */
    um_val subgroup;
    um_frag a[FRAGS], b[FRAGS], sum[3][FRAGS];
    int32_t levels;
} frags;

static um_dtype sum_dtype(const um_kproduct *p)
{
    return p->compute == UM_F64 || p->compute == UM_I32 ? p->compute : UM_F32;
}

static grid grid_of(const um_product *s)
{
    uint32_t all = s->group / s->subgroup, down = all >= 8 ? 4 : 2;
    return (grid){down, all / down};
}

static uint32_t bytes_of(um_dtype dtype) { return (uint32_t)um_dtype_bits(dtype) / 8; }

uint32_t um_kfrag_depth(const um_product *s)
{
    return UM_MAX(64 / bytes_of(s->factor), (uint32_t)s->tile->k);
}

/* What the work-group's parts and its results take at most. */
static uint32_t shared_bytes(const um_product *s)
{
    uint32_t part =
        (UM_KFRAG_ROWS + UM_KFRAG_COLUMNS) * (um_kfrag_depth(s) * bytes_of(s->factor) + 16);
    grid g = grid_of(s);
    uint32_t lines = g.down * g.across * (uint32_t)s->tile->m;
    uint32_t made = lines * (UM_KFRAG_COLUMNS / g.across * bytes_of(sum_dtype(s->p)) + 16);
    return (s->async ? 2 : 1) * part + made;
}

/* 256 invocations, of small subgroups fewer, so that not too many share the parts. */
void um_kfrag_begin(um_product *s, const um_kunit *unit)
{
    const um_kproduct *p = s->p;
    um_product with = *s;
    if (!unit || p->depth > DEPTH_MAX || unit->subgroup < 4) return;
    with.subgroup = unit->subgroup;
    with.group = unit->subgroup >= 32 ? 256 : unit->subgroup == 16 ? 128 : 16 * unit->subgroup;
    with.factor = p->narrow;
    for (int32_t i = 0; i < unit->tile_count; i++) {
        const um_matrix_tile *t = &unit->tiles[i];
        if (t->input != p->narrow || t->accumulator != sum_dtype(p) || t->m > 32 || t->n > 16)
            continue;
        with.tile = t;
        with.async = unit->async_copy && p->at && p->a_whole && p->b_whole;
        if (shared_bytes(&with) > UM_KUNIT_SHARED_BYTES) with.async = false;
        if (shared_bytes(&with) > UM_KUNIT_SHARED_BYTES) continue;
        *s = with;
        return;
    }
}

/* ---- fragments ------------------------------------------------------------------------------ */

static um_frag new_frag(const frags *f, const char *what, uint32_t number, int32_t role)
{
    char name[32];
    um_dtype dtype = role == UM_K_FRAG_C ? sum_dtype(f->s->p) : f->s->factor;
    snprintf(name, sizeof name, "%s%u", what, number);
    um_frag frag = um_k_frag(f->s->k, name, role, f->m, f->n, f->k, dtype);
    if (role == UM_K_FRAG_C) um_k_frag_fill(f->s->k, frag, um_kvalue_number(f->s->k, dtype, 0));
    return frag;
}

static frags frags_of(um_product *s, int64_t chunk)
{
    um_kernel *k = s->k;
    const um_matrix_tile *t = s->tile;
    grid g = grid_of(s);
    frags f = {.s = s, .m = (uint32_t)t->m, .n = (uint32_t)t->n, .k = (uint32_t)t->k};
    f.down = g.down;
    f.across = g.across;
    f.rows = UM_KFRAG_ROWS / f.down;
    f.columns = UM_KFRAG_COLUMNS / f.across;
    f.levels = s->p->compute == UM_I32 ? 1 : chunk <= LONG ? 2 : 3;
    f.subgroup = um_k_builtin(k, UM_KOP_SUBGROUP_ID, 0);
    um_val across = um_k_u32(k, f.across);
    f.row = um_k_mul(k, um_k_div(k, f.subgroup, across), um_k_u32(k, f.rows));
    f.column = um_k_mul(k, um_k_rem(k, f.subgroup, across), um_k_u32(k, f.columns));
    static const char *const names[] = {"short", "long", "whole"};
    uint32_t down = f.rows / f.m, over = f.columns / f.n;
    for (uint32_t i = 0; i < down; i++) f.a[i] = new_frag(&f, "fa", i, UM_K_FRAG_A);
    for (uint32_t j = 0; j < over; j++) f.b[j] = new_frag(&f, "fb", j, UM_K_FRAG_B);
    for (int32_t l = 0; l < f.levels; l++)
        for (uint32_t i = 0; i < down * over; i++)
            f.sum[l][i] = new_frag(&f, names[l], i, UM_K_FRAG_C);
    return f;
}

/* The sums of a level onto those of the next. */
static void add_level(const frags *f, int32_t level)
{
    um_kernel *k = f->s->k;
    um_val zero = um_kvalue_number(k, sum_dtype(f->s->p), 0);
    for (uint32_t i = 0; i < f->rows / f->m * (f->columns / f->n); i++) {
        um_frag from = f->sum[level][i], to = f->sum[level + 1][i];
        um_val e = um_k_for(k, f->s->zero, um_k_frag_count(k, from), f->s->one);
        um_k_frag_set(k, to, e, um_k_add(k, um_k_frag_get(k, to, e), um_k_frag_get(k, from, e)));
        um_k_end(k);
        um_k_frag_fill(k, from, zero);
    }
}

/* Whether the depth that is done with this step is a multiple of `every`. */
static void add_level_every(const frags *f, int32_t level, um_val done, uint32_t every)
{
    um_kernel *k = f->s->k;
    uint32_t step = um_kfrag_depth(f->s);
    if (level + 1 >= f->levels) return;
    um_val rest = um_k_rem(k, done, um_k_u32(k, every));
    um_k_if(k, um_k_eq(k, rest, um_k_u32(k, every > step ? every - step : 0)));
    add_level(f, level);
    um_k_end(k);
}

static void load_factor(const frags *f, bool of_b, um_frag frag, um_val place, um_val depth,
                        um_val begin)
{
    um_kernel *k = f->s->k;
    um_val step = um_k_u32(k, um_product_step(f->s, of_b));
    bool deep = um_product_is_deep(f->s, of_b);
    um_val line = deep ? place : depth, at = deep ? depth : place;
    at = um_k_add(k, begin, um_k_add(k, um_k_mul(k, line, step), at));
    um_k_frag_load(k, frag, f->s->shared[of_b], at, step, deep == of_b);
}

/* The parts in shared memory, which begin there at elements begin[0] and begin[1]. */
static void multiply(const frags *f, const um_val *begin)
{
    um_kernel *k = f->s->k;
    uint32_t down = f->rows / f->m, over = f->columns / f->n;
    um_val d = um_k_for(k, f->s->zero, um_k_u32(k, um_kfrag_depth(f->s)), um_k_u32(k, f->k));
    for (uint32_t i = 0; i < down; i++)
        load_factor(f, false, f->a[i], um_k_add(k, f->row, um_k_u32(k, i * f->m)), d, begin[0]);
    for (uint32_t j = 0; j < over; j++)
        load_factor(f, true, f->b[j], um_k_add(k, f->column, um_k_u32(k, j * f->n)), d, begin[1]);
    for (uint32_t i = 0; i < down * over; i++)
        um_k_frag_mma(k, f->sum[0][i], f->a[i / over], f->b[i % over], f->sum[0][i]);
    um_k_end(k);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static uint32_t part_elements(const um_product *s, bool of_b)
{
    uint32_t size = of_b ? UM_KFRAG_COLUMNS : UM_KFRAG_ROWS;
    return (um_product_is_deep(s, of_b) ? size : um_kfrag_depth(s)) * um_product_step(s, of_b);
}

/* What um_product_fetch and _store do, to element `to` of the shared array. */
static void copy_part(const um_product *s, bool of_b, um_val first, um_val begin, um_val to)
{
    um_kernel *k = s->k;
    uint32_t whole = 16 / bytes_of(s->factor), lanes = UM_MIN(whole, 4);
    um_val step = um_k_u32(k, um_product_step(s, of_b));
    bool deep = um_product_is_deep(s, of_b);
    for (uint32_t i = 0; i < um_product_part_count(s, of_b); i++) {
        um_val place, d;
        um_mem from = 0;
        um_product_place(s, of_b, i, &place, &d);
        um_val line = um_k_mul(k, deep ? place : d, step);
        um_val at = um_k_add(k, to, um_k_add(k, line, deep ? d : place));
        place = um_k_add(k, first, place);
        d = um_k_add(k, begin, d);
        um_k_if(k, um_product_in(s, of_b, place, d));
        um_val index = s->p->at(s->p->ctx, k, of_b, place, d, &from);
        um_k_async_copy(k, s->shared[of_b], at, from, index);
        um_k_else(k);
        um_val none = um_k_splat(k, (int32_t)lanes, um_k_const(k, s->factor, 0));
        for (uint32_t e = 0; e < whole; e += lanes)
            um_k_store(k, s->shared[of_b], um_k_add(k, at, um_k_u32(k, e)), none);
        um_k_end(k);
    }
}

static void copy_parts(const um_product *s, um_val row, um_val column, um_val begin,
                       const um_val *to)
{
    copy_part(s, false, row, begin, to[0]);
    copy_part(s, true, column, begin, to[1]);
    um_k_async_commit(s->k);
}

/* The step from `at` on, with the next one under way. */
static void step_async(const frags *f, um_val row, um_val column, um_val done, um_val next)
{
    const um_product *s = f->s;
    um_kernel *k = s->k;
    um_val odd = um_k_rem(k, um_k_div(k, done, um_k_u32(k, um_kfrag_depth(s))), um_k_u32(k, 2));
    um_val now[2], then[2];
    for (int32_t of_b = 0; of_b < 2; of_b++) {
        um_val size = um_k_u32(k, part_elements(s, of_b));
        now[of_b] = um_k_mul(k, odd, size);
        then[of_b] = um_k_sub(k, size, now[of_b]);
    }
    copy_parts(s, row, column, next, then);
    um_k_async_wait(k, 1);
    um_k_barrier(k);
    multiply(f, now);
}

static void step_fetched(const frags *f, um_val row, um_val column, um_val next)
{
    um_product *s = f->s;
    um_product_store(s);
    um_k_barrier(s->k);
    um_product_fetch(s, row, column, next);
    multiply(f, (um_val[]){s->zero, s->zero});
}

/* ---- results -------------------------------------------------------------------------------- */

/* Through shared memory, a row of fragments of each subgroup at once. */
static void finish(const frags *f, um_val row, um_val column, um_mem partial, um_val base)
{
    um_product *s = f->s;
    um_kernel *k = s->k;
    um_dtype dtype = sum_dtype(s->p);
    uint32_t over = f->columns / f->n, fours = f->columns / 4;
    uint32_t stride = f->columns + 16 / bytes_of(dtype), lines = f->down * f->across * f->m;
    um_mem made = um_k_shared(k, "made", dtype, lines * stride);
    um_val i = um_k_for(k, s->zero, um_k_u32(k, f->rows / f->m), s->one);
    um_val first = um_k_mul(k, f->subgroup, um_k_u32(k, f->m * stride));
    for (uint32_t r = 0; r < f->rows / f->m; r++) {
        um_k_if(k, um_k_eq(k, i, um_k_u32(k, r)));
        for (uint32_t j = 0; j < over; j++)
            um_k_frag_store(k, f->sum[f->levels - 1][r * over + j], made,
                            um_k_add(k, first, um_k_u32(k, j * f->n)), um_k_u32(k, stride), false);
        um_k_end(k);
    }
    um_k_barrier(k);
    um_val q = um_k_for(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), um_k_u32(k, lines * fours),
                        um_k_u32(k, s->group));
    um_val line = um_k_div(k, q, um_k_u32(k, fours)), across = um_k_u32(k, f->across);
    um_val at = um_k_mul(k, um_k_rem(k, q, um_k_u32(k, fours)), um_k_u32(k, 4));
    um_val subgroup = um_k_div(k, line, um_k_u32(k, f->m));
    um_val down = um_k_mul(k, um_k_div(k, subgroup, across), um_k_u32(k, f->rows));
    down = um_k_add(k, down, um_k_mul(k, i, um_k_u32(k, f->m)));
    down = um_k_add(k, down, um_k_rem(k, line, um_k_u32(k, f->m)));
    um_val right = um_k_mul(k, um_k_rem(k, subgroup, across), um_k_u32(k, f->columns));
    right = um_k_add(k, column, um_k_add(k, right, at));
    at = um_k_add(k, at, um_k_mul(k, line, um_k_u32(k, stride)));
    um_val e = um_k_for(k, s->zero, um_k_u32(k, 4), s->one);
    um_val value = um_k_load(k, made, um_k_add(k, at, e));
    um_product_finish(s, um_k_add(k, row, down), um_k_add(k, right, e), value, partial, base);
    um_k_end(k);
    um_k_end(k);
    um_k_barrier(k);
    um_k_end(k);
}

void um_kfrag_make(um_product *s, um_val row, um_val column, um_val begin, um_val end,
                   int64_t chunk, um_mem partial, um_val base)
{
    um_kernel *k = s->k;
    frags f = frags_of(s, chunk);
    for (int32_t of_b = 0; of_b < 2; of_b++)
        s->shared[of_b] = um_k_shared(k, of_b ? "part_b" : "part_a", s->factor,
                                      part_elements(s, of_b) * (s->async ? 2 : 1));
    if (s->async) {
        copy_parts(s, row, column, begin, (um_val[]){s->zero, s->zero});
    } else {
        um_product_new_fetched(s);
        um_product_fetch(s, row, column, begin);
    }
    um_val step = um_k_u32(k, um_kfrag_depth(s)), at = um_k_for(k, begin, end, step);
    um_val done = um_k_sub(k, at, begin), next = um_k_add(k, at, step);
    if (s->async)
        step_async(&f, row, column, done, next);
    else
        step_fetched(&f, row, column, next);
    add_level_every(&f, 0, done, SHORT);
    add_level_every(&f, 1, done, LONG);
    um_k_barrier(k);
    um_k_end(k);
    for (int32_t level = 0; level + 1 < f.levels; level++) add_level(&f, level);
    if (s->async) um_k_async_wait(k, 0);
    finish(&f, row, column, partial, base);
}
