/* backend/cpu/kernel/reduce.c: sum, mean, prod, max, min, any, all, logsumexp, l1, l2, var, std.
 * Each is one or more folds (fold.h) over the same elements and an end. The tree of a fold depends
 * on shapes only: blocks, of which 32 make a level and 32 of that the next (so a sum's error grows
 * with the logarithm of n), within chunks, which are joined the same way. Few outputs with many
 * chunks spread their chunks over the threads. */
#include "backend/cpu/kernel/reduce.h"

#include <math.h>

um_status UM_ISA_FN(um_run_reduce)(um_cpu_exec *exec, const um_op *op);

enum {
    LEVELS = 6,
    FAN_IN = 32,
    SPREAD_BELOW = 8 /* groups */
};

/* One value an output of a group, in the plan's class. */
typedef union values {
    float f32[UM_REDUCE_WIDTH_BYTES / 4];
    double f64[UM_REDUCE_WIDTH_BYTES / 8];
    int64_t i64[UM_REDUCE_WIDTH_BYTES / 8];
} values;

typedef struct cascade {
    int32_t count[LEVELS];
    values level[LEVELS];
} cascade;

/* ---- one fold ------------------------------------------------------------------------------- */

static void cascade_begin(const um_reduce_plan *p, cascade *c, um_fold fold, int64_t n)
{
    for (int32_t i = 0; i < LEVELS; i++) c->count[i] = 0;
    p->loops->clear(fold, &c->level[0], n);
}

/* Level 0 has got one addend more; full levels move up. `first` is the fold of level 0. */
static void cascade_carry(const um_reduce_plan *p, cascade *c, um_fold first, int64_t n)
{
    um_fold join = um_fold_join(first);
    c->count[0]++;
    for (int32_t i = 0; i + 1 < LEVELS && c->count[i] == FAN_IN; i++) {
        if (c->count[i + 1] == 0) p->loops->clear(join, &c->level[i + 1], n);
        p->loops->across(join, &c->level[i + 1], &c->level[i], NULL, n);
        c->count[i + 1]++;
        c->count[i] = 0;
        p->loops->clear(i == 0 ? first : join, &c->level[i], n);
    }
}

static void cascade_end(const um_reduce_plan *p, cascade *c, um_fold first, int64_t n, void *result)
{
    memcpy(result, &c->level[0], (size_t)(n * p->bytes));
    for (int32_t i = 1; i < LEVELS; i++)
        if (c->count[i] > 0) p->loops->across(um_fold_join(first), result, &c->level[i], NULL, n);
}

/* One more element of each output, or some: how many, at most `most`. */
static int64_t fold_rows(const um_reduce_plan *p, const um_reduce_group *g, um_fold fold,
                         const void *shift, um_walk_at *at, int64_t most, values *result)
{
    values buffer;
    int64_t step;
    const void *rows = NULL;
    if (most >= UM_FOLD_ROWS) rows = UM_ISA_FN(um_reduce_rows)(p, g, at, &step);
    if (rows) {
        p->loops->across_rows(fold, result, rows, step, shift, g->n);
        return UM_FOLD_ROWS;
    }
    p->loops->across(fold, result, UM_ISA_FN(um_reduce_across)(p, g, at, &buffer), shift, g->n);
    return 1;
}

/* The fold of one chunk of the elements, for each output of the group. */
static void fold_chunk(const um_reduce_plan *p, const um_reduce_group *g, um_fold fold,
                       const void *shift, int64_t chunk, void *result)
{
    cascade c;
    values buffer, block;
    int64_t first = chunk * p->chunk, last = UM_MIN(first + p->chunk, p->reduced.total);
    um_fold level = p->wide ? fold : um_fold_join(fold);
    if (first >= last) {
        p->loops->clear(fold, result, g->n);
        return;
    }
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->reduced, first, &at);
    cascade_begin(p, &c, level, g->n);
    for (int64_t n; first < last; first += n) {
        n = p->wide ? 1 : UM_MIN(p->block, last - first);
        if (p->wide) {
            n = fold_rows(p, g, fold, shift, &at, last - first, &c.level[0]);
        } else {
            p->loops->along(fold, &block, UM_ISA_FN(um_reduce_along)(p, g, &at, n, &buffer), shift,
                            n);
            p->loops->across(level, &c.level[0], &block, NULL, 1);
        }
        cascade_carry(p, &c, level, g->n);
    }
    cascade_end(p, &c, level, g->n, result);
}

/* The chunks of one group, for threads. Their results go to the scratch of worker 0, which all can
 * write. */
typedef struct chunks_ctx {
    const um_reduce_plan *p;
    const um_reduce_group *g;
    um_fold fold;
    const void *shift;
    char *results; /* one after the other */
} chunks_ctx;

static void chunk_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const chunks_ctx *c = ctx;
    fold_chunk(c->p, c->g, c->fold, c->shift, task, c->results + task * c->g->n * c->p->bytes);
}

static bool should_spread(const um_reduce_plan *p)
{
    return p->chunks > 1 && p->groups < SPREAD_BELOW;
}

static void fold_group(um_cpu_exec *exec, const um_reduce_plan *p, const um_reduce_group *g,
                       um_fold fold, const void *shift, void *result)
{
    if (p->chunks <= 1) {
        fold_chunk(p, g, fold, shift, 0, result);
        return;
    }
    bool spread = should_spread(p);
    values one;
    chunks_ctx ctx = {p, g, fold, shift, spread ? um_cpu_scratch(exec, 0) : &one};
    if (spread) um_cpu_parallel(exec, p->chunks, chunk_task, &ctx);
    cascade c;
    um_fold join = um_fold_join(fold);
    cascade_begin(p, &c, join, g->n);
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        if (!spread) fold_chunk(p, g, fold, shift, chunk, &one);
        const char *part = ctx.results + (spread ? chunk * g->n * p->bytes : 0);
        p->loops->across(join, &c.level[0], part, NULL, g->n);
        cascade_carry(p, &c, join, g->n);
    }
    cascade_end(p, &c, join, g->n, result);
}

/* ---- floats: folds with more than one pass, and ends ------------------------------------------
 */

static double value_get(const um_reduce_plan *p, const values *v, int64_t i)
{
    return p->class == UM_CLASS_F32 ? (double)v->f32[i] : v->f64[i];
}

static void value_set(const um_reduce_plan *p, values *v, int64_t i, double x)
{
    if (p->class == UM_CLASS_F32)
        v->f32[i] = (float)x;
    else
        v->f64[i] = x;
}

static void end_mean(const um_reduce_plan *p, const um_reduce_group *g, values *result)
{
    for (int64_t i = 0; i < g->n; i++)
        value_set(p, result, i, value_get(p, result, i) / (double)p->reduced.total);
}

/* An infinite maximum would make inf - inf of itself; without a shift its exponential is right as
 * it is. */
static void fold_logsumexp(um_cpu_exec *exec, const um_reduce_plan *p, const um_reduce_group *g,
                           values *result)
{
    values shift;
    fold_group(exec, p, g, UM_FOLD_MAX, NULL, &shift);
    for (int64_t i = 0; i < g->n; i++)
        if (!isfinite(value_get(p, &shift, i))) value_set(p, &shift, i, 0);
    fold_group(exec, p, g, UM_FOLD_EXP, &shift, result);
    for (int64_t i = 0; i < g->n; i++)
        value_set(p, result, i, log(value_get(p, result, i)) + value_get(p, &shift, i));
}

/* Squares that all stayed well within the range, or a NaN that nothing can change. */
static bool is_safe_square(const um_reduce_plan *p, double x)
{
    return isnan(x) || (isfinite(x) && x >= (p->class == UM_CLASS_F32 ? 0x1p-80 : 0x1p-900));
}

static void fold_l2(um_cpu_exec *exec, const um_reduce_plan *p, const um_reduce_group *g,
                    values *result)
{
    fold_group(exec, p, g, UM_FOLD_SQUARE, NULL, result);
    bool safe = true;
    for (int64_t i = 0; i < g->n; i++) safe = safe && is_safe_square(p, value_get(p, result, i));
    if (safe) {
        for (int64_t i = 0; i < g->n; i++) value_set(p, result, i, sqrt(value_get(p, result, i)));
        return;
    }
    values scale;
    fold_group(exec, p, g, UM_FOLD_MAX_ABS, NULL, &scale);
    for (int64_t i = 0; i < g->n; i++) {
        double largest = value_get(p, &scale, i);
        if (largest == 0 || !isfinite(largest)) value_set(p, &scale, i, 1);
    }
    fold_group(exec, p, g, UM_FOLD_SCALED, &scale, result);
    for (int64_t i = 0; i < g->n; i++)
        value_set(p, result, i, value_get(p, &scale, i) * sqrt(value_get(p, result, i)));
}

/* Two passes around the mean; what the mean's own rounding adds to the sum of squares is taken away
 * again. */
static void fold_var(um_cpu_exec *exec, const um_reduce_plan *p, const um_reduce_group *g,
                     values *result)
{
    values mean, gap;
    fold_group(exec, p, g, UM_FOLD_SUM, NULL, &mean);
    end_mean(p, g, &mean);
    fold_group(exec, p, g, UM_FOLD_GAP, &mean, &gap);
    fold_group(exec, p, g, UM_FOLD_GAP2, &mean, result);
    double count = (double)p->reduced.total,
           divisor = fmax(count - p->op->attrs.reduce.correction, 0);
    for (int64_t i = 0; i < g->n; i++) {
        double rest = value_get(p, &gap, i);
        double sum = count > 0 ? value_get(p, result, i) - rest * rest / count : 0;
        double var = (sum < 0 ? 0 : sum) / divisor;
        value_set(p, result, i, p->op->id == UM_OP_STD ? sqrt(var) : var);
    }
}

/* ---- ops ------------------------------------------------------------------------------------ */

/* The fold that is the whole op, or the first part of it. */
static um_fold op_fold(um_op_id op)
{
    switch (op) {
    case UM_OP_PROD: return UM_FOLD_PROD;
    case UM_OP_REDUCE_MAX: return UM_FOLD_MAX;
    case UM_OP_REDUCE_MIN: return UM_FOLD_MIN;
    case UM_OP_ANY: return UM_FOLD_ANY;
    case UM_OP_ALL: return UM_FOLD_ALL;
    case UM_OP_L1: return UM_FOLD_ABS;
    default: return UM_FOLD_SUM; /* sum, mean */
    }
}

/* The ends of an integer dtype narrower than its class, for max and min of nothing: -1 without its
 * lowest bits converts to the lowest value, and so on. */
static void clear_to_end_of_dtype(const um_reduce_plan *p, const um_reduce_group *g, values *result)
{
    um_dtype dtype = p->op->in[0].dtype;
    bool lowest = p->op->id == UM_OP_REDUCE_MAX;
    const double infinite = lowest ? -(double)INFINITY : (double)INFINITY;
    uint64_t end = 0; /* bool's false; converting an infinity would give true */
    if (dtype != UM_BOOL || !lowest) um_store(dtype, &end, 0, 1, UM_CLASS_F64, &infinite, 1);
    um_load(p->class, result, dtype, &end, 0, 0, g->n);
}

static void reduce_group(um_cpu_exec *exec, const um_reduce_plan *p, int64_t group)
{
    values result;
    um_reduce_group g = UM_ISA_FN(um_reduce_find)(p, group);
    um_op_id op = p->op->id;
    bool extreme = op == UM_OP_REDUCE_MAX || op == UM_OP_REDUCE_MIN;
    if (extreme && p->reduced.total == 0)
        clear_to_end_of_dtype(p, &g, &result);
    else if (op == UM_OP_LOGSUMEXP)
        fold_logsumexp(exec, p, &g, &result);
    else if (op == UM_OP_L2)
        fold_l2(exec, p, &g, &result);
    else if (op == UM_OP_VAR || op == UM_OP_STD)
        fold_var(exec, p, &g, &result);
    else
        fold_group(exec, p, &g, op_fold(op), NULL, &result);
    if (op == UM_OP_MEAN) end_mean(p, &g, &result);
    const um_view *out = &p->op->out[0];
    um_store(out->dtype, (void *)(uintptr_t)out->ptr, g.out, um_walk_step(&p->kept, 0), p->class,
             &result, g.n);
}

um_status UM_ISA_FN(um_run_reduce)(um_cpu_exec *exec, const um_op *op)
{
    um_reduce_plan plan;
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    UM_ISA_FN(um_reduce_make)(&plan, op, false);
    if (!should_spread(&plan)) {
        UM_ISA_FN(um_reduce_groups)(exec, &plan, reduce_group);
        return UM_OK;
    }
    UM_TRY(um_cpu_scratch_reserve(exec, (size_t)(plan.chunks * plan.width * plan.bytes)));
    for (int64_t group = 0; group < plan.groups; group++) reduce_group(exec, &plan, group);
    return UM_OK;
}
