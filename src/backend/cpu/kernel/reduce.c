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

/* One chunk of the elements on their way into a cascade. */
typedef struct chunk_fold {
    const um_reduce_plan *p;
    const um_reduce_group *g;
    um_fold fold, level; /* level: of the cascade's level 0 */
    const void *shift;
    int64_t first, last;
    cascade c;
} chunk_fold;

static void fold_wide(chunk_fold *f)
{
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&f->p->reduced, f->first, &at);
    while (f->first < f->last) {
        f->first +=
            fold_rows(f->p, f->g, f->fold, f->shift, &at, f->last - f->first, &f->c.level[0]);
        cascade_carry(f->p, &f->c, f->level, f->g->n);
    }
}

static void fold_narrow(chunk_fold *f)
{
    const um_reduce_plan *p = f->p;
    values buffer, block;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->reduced, f->first, &at);
    for (int64_t n; f->first < f->last; f->first += n) {
        n = UM_MIN(p->block, f->last - f->first);
        p->loops->along(f->fold, &block, UM_ISA_FN(um_reduce_along)(p, f->g, &at, n, &buffer),
                        f->shift, n);
        p->loops->across(f->level, &f->c.level[0], &block, NULL, 1);
        cascade_carry(p, &f->c, f->level, 1);
    }
}

/* n values of the prologue, from `at` on. */
static void make_values(const um_program *program, void *slots, um_walk_at *at, int64_t n,
                        int64_t bytes, void *to)
{
    char *next = to;
    for (int64_t done = 0, m; done < n; done += m, next += m * bytes) {
        m = um_program_most(program, at, n - done);
        UM_ISA_FN(um_program_tile)(program, slots, at, m, next);
    }
}

/* Rows of values, n apart, made before they are folded. */
static void fold_made_rows(chunk_fold *f, const um_program *program, void *slots)
{
    const um_reduce_plan *p = f->p;
    values row[UM_FOLD_ROWS];
    um_walk_at at;
    int64_t n = f->g->n, inner = um_walk_inner(&p->kept);
    bool by_eight = UM_ISA_FN(um_reduce_by_eight)(p);
    for (int64_t rows; f->first < f->last; f->first += rows) {
        rows = UM_MIN(UM_FOLD_ROWS, f->last - f->first);
        int64_t together = n == inner ? rows : 1; /* they go on from each other */
        for (int64_t r = 0; r < rows; r += together) {
            UM_ISA_FN(um_walk_seek)(&program->walk, (f->first + r) * inner, &at);
            make_values(program, slots, &at, n * together, p->bytes,
                        (char *)row + r * n * p->bytes);
        }
        if (by_eight && rows == UM_FOLD_ROWS) {
            p->loops->across_rows(f->fold, &f->c.level[0], row, n, f->shift, n);
            cascade_carry(p, &f->c, f->level, n);
            continue;
        }
        for (int64_t r = 0; r < rows; r++) {
            p->loops->across(f->fold, &f->c.level[0], (char *)row + r * n * p->bytes, f->shift, n);
            cascade_carry(p, &f->c, f->level, n);
        }
    }
}

static void fold_made(chunk_fold *f)
{
    const um_reduce_plan *p = f->p;
    um_program program = p->prologue;
    _Alignas(64) uint8_t slots[UM_SLOT_BYTES];
    for (int32_t i = 0; i < program.in_count; i++) {
        int64_t bytes = um_dtype_bits(program.in_dtype[i]) / 8;
        program.data[i] = (const char *)program.data[i] + f->g->element[i] * bytes;
    }
    UM_ISA_FN(um_program_begin)(&program, slots, program.tile);
    if (p->wide) {
        fold_made_rows(f, &program, slots);
        return;
    }
    values buffer, block;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&program.walk, f->first, &at);
    for (int64_t n; f->first < f->last; f->first += n) {
        n = UM_MIN(p->block, f->last - f->first);
        make_values(&program, slots, &at, n, p->bytes, &buffer);
        p->loops->along(f->fold, &block, &buffer, f->shift, n);
        p->loops->across(f->level, &f->c.level[0], &block, NULL, 1);
        cascade_carry(p, &f->c, f->level, 1);
    }
}

/* The fold of one chunk of the elements, for each output of the group. */
static void fold_chunk(const um_reduce_plan *p, const um_reduce_group *g, um_fold fold,
                       const void *shift, int64_t number, void *result)
{
    chunk_fold f; /* of the cascade only what is used is set */
    f.p = p, f.g = g, f.shift = shift, f.fold = fold;
    f.level = p->wide ? fold : um_fold_join(fold);
    f.first = number * p->chunk, f.last = UM_MIN(f.first + p->chunk, p->reduced.total);
    if (f.first >= f.last) {
        p->loops->clear(fold, result, g->n);
        return;
    }
    cascade_begin(p, &f.c, f.level, g->n);
    if (p->has_prologue)
        fold_made(&f);
    else if (p->wide)
        fold_wide(&f);
    else
        fold_narrow(&f);
    cascade_end(p, &f.c, f.level, g->n, result);
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
    um_dtype dtype = p->dtype;
    bool lowest = p->op->id == UM_OP_REDUCE_MAX;
    const double infinite = lowest ? -(double)INFINITY : (double)INFINITY;
    uint64_t end = 0; /* bool's false; converting an infinity would give true */
    if (dtype != UM_BOOL || !lowest) um_store(dtype, &end, 0, 1, UM_CLASS_F64, &infinite, 1);
    um_load(p->class, result, dtype, &end, 0, 0, g->n);
}

static void reduce_group(um_cpu_exec *exec, const um_reduce_plan *p, const um_reduce_group *g,
                         values *result)
{
    um_op_id op = p->op->id;
    bool extreme = op == UM_OP_REDUCE_MAX || op == UM_OP_REDUCE_MIN;
    if (extreme && p->reduced.total == 0)
        clear_to_end_of_dtype(p, g, result);
    else if (op == UM_OP_LOGSUMEXP)
        fold_logsumexp(exec, p, g, result);
    else if (op == UM_OP_L2)
        fold_l2(exec, p, g, result);
    else if (op == UM_OP_VAR || op == UM_OP_STD)
        fold_var(exec, p, g, result);
    else
        fold_group(exec, p, g, op_fold(op), NULL, result);
    if (op == UM_OP_MEAN) end_mean(p, g, result);
}

/* ---- results -------------------------------------------------------------------------------- */

static void reduce_plain(um_cpu_exec *exec, const um_reduce_plan *p, int64_t first, int64_t end)
{
    const um_view *out = &p->op->out[0];
    void *to = (void *)(uintptr_t)out->ptr;
    for (int64_t group = first; group < end; group++) {
        values result, made;
        um_reduce_group g = UM_ISA_FN(um_reduce_find)(p, group);
        reduce_group(exec, p, &g, &result);
        if (out->dtype != p->made && p->has_prologue) { /* integers wrap */
            um_store(p->made, &made, 0, 1, p->class, &result, g.n);
            um_load(p->class, &result, p->made, &made, 0, 1, g.n);
        }
        um_store(out->dtype, to, g.out, um_walk_step(&p->kept, 0), p->class, &result, g.n);
    }
}

/* Results as the epilogue's input 0, as many as it is worth being run for. */
typedef struct made {
    char data[2 * UM_REDUCE_WIDTH_BYTES];
    int64_t first, count; /* first: the first one's place in `kept` */
} made;

static void run_epilogue(const um_reduce_plan *p, made *m)
{
    um_map_plan plan = p->epilogue;
    uintptr_t before = (uintptr_t)(m->first * (um_dtype_bits(p->made) / 8));
    plan.program.data[0] = (const void *)((uintptr_t)m->data - before);
    UM_ISA_FN(um_map_range)(&plan, m->first, m->first + m->count);
    m->first += m->count;
    m->count = 0;
}

static void reduce_groups(um_cpu_exec *exec, const um_reduce_plan *p, int64_t first, int64_t end)
{
    made m;
    if (!p->has_epilogue) {
        reduce_plain(exec, p, first, end);
        return;
    }
    m.count = 0;
    for (int64_t group = first; group < end; group++) {
        values result;
        um_reduce_group g = UM_ISA_FN(um_reduce_find)(p, group);
        reduce_group(exec, p, &g, &result);
        if (group == first) m.first = g.first;
        if (m.count + g.n > 2 * p->block) run_epilogue(p, &m);
        um_store(p->made, m.data, m.count, 1, p->class, &result, g.n);
        m.count += g.n;
    }
    run_epilogue(p, &m);
}

um_status UM_ISA_FN(um_run_reduce)(um_cpu_exec *exec, const um_op *op)
{
    um_reduce_plan plan;
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    UM_ISA_FN(um_reduce_make)(&plan, op, false);
    if (!should_spread(&plan)) {
        UM_ISA_FN(um_reduce_groups)(exec, &plan, reduce_groups);
        return UM_OK;
    }
    UM_TRY(um_cpu_scratch_reserve(exec, (size_t)(plan.chunks * plan.width * plan.bytes)));
    reduce_groups(exec, &plan, 0, plan.groups);
    return UM_OK;
}
