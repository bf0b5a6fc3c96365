/* kernel/reduce.c: reductions over any axes, and the index of an extreme. An element of the output
 * is made by one invocation, or where many are reduced by all of a work-group, or some that lie
 * across it where outputs are nearer to each other than what is reduced: each takes every
 * so-many'th, and what they have is joined by halving in shared memory. Some ops go over their
 * elements more than once, and use the result of one pass in the next.
 *
 * Few outputs of many elements are made in stages: a pass is a launch of several work-groups an
 * output, which leave their parts in scratch memory; whoever comes later joins them.
 *
 * A pass keeps two values: a sum of floats and what its roundings lost (so that its error does not
 * grow with the count), or an extreme and its index. */
#include "ir/math.h"
#include "kernel/library.h"

#include <math.h>
#include <stdio.h>

typedef enum fold { FOLD_SUM, FOLD_MUL, FOLD_MAX, FOLD_MIN, FOLD_OR, FOLD_AND, FOLD_ARG } fold;

typedef enum term {
    TERM_X,
    TERM_ABS,
    TERM_TRUTH,  /* x != 0 */
    TERM_EXP,    /* exp(x - by) */
    TERM_SQUARE, /* (x / by)^2 */
    TERM_OFF,    /* x - by */
    TERM_OFF_SQUARE
} term;

typedef struct reduction {
    const um_op *op;
    um_kernel *k;
    um_klaunch *launch;
    um_kwalk walk; /* view 0 is the output, 1 + i input i; the axes that stay lead */
    um_kview out, in[UM_OP_MAX_INPUTS];
    bool rides[UM_PROGRAMS];
    um_rider rider[UM_PROGRAMS];
    uint32_t lanes, apart; /* invocations of an output; from one of them to the next */
    int64_t outs, parts;   /* parts: work-groups of an output */
    int32_t stage;         /* which pass the launch makes; as many as there are: it finishes */
    uint64_t scratch;      /* bytes of parts' results that are declared */
    um_dtype dtype, compute;
    um_val size[UM_MAX_RANK];
    um_val local, lane, number, in_range, part; /* of the invocation; number: of the output */
    um_val part_count;
    um_val first, end;             /* of what it takes */
    um_val from[UM_OP_MAX_INPUTS]; /* of the inputs, for this element */
    um_mem room[2];                /* shared, of several lanes; of the two values */
    int32_t passes;
} reduction;

typedef struct pair {
    um_val v, w; /* w: 0 where the fold has none */
} pair;

/* ---- folds ---------------------------------------------------------------------------------- */

static bool is_float(const reduction *r) { return um_dtype_is_float(r->compute); }

/* Whether b at its index comes before a at its: a NaN, then the larger (smaller), then the lower
 * index. UINT32_MAX is the index of nothing. */
static um_val comes_first(const reduction *r, pair a, pair b)
{
    um_kernel *k = r->k;
    bool max = r->op->id == UM_OP_ARGMAX;
    um_val better = max ? um_k_gt(k, b.v, a.v) : um_k_lt(k, b.v, a.v), tie = um_k_eq(k, a.v, b.v);
    um_val none = um_k_u32(k, UINT32_MAX);
    if (is_float(r)) {
        um_val a_nan = um_k_ne(k, a.v, a.v), b_nan = um_k_ne(k, b.v, b.v);
        better = um_k_or(k, better, um_k_and(k, b_nan, um_k_not(k, a_nan)));
        tie = um_k_or(k, tie, um_k_and(k, a_nan, b_nan));
    }
    um_val first = um_k_or(k, better, um_k_and(k, tie, um_k_lt(k, b.w, a.w)));
    um_val here = um_k_ne(k, b.w, none);
    return um_k_or(k, um_k_eq(k, a.w, none), um_k_and(k, here, first));
}

static pair join(const reduction *r, fold f, pair a, pair b)
{
    um_kernel *k = r->k;
    um_val lost, first;
    switch (f) {
    case FOLD_SUM:
        if (!is_float(r)) return (pair){um_k_add(k, a.v, b.v), 0};
        a.v = um_k_sum(k, a.v, b.v, &lost);
        a.w = um_k_add(k, a.w, b.w ? um_k_add(k, b.w, lost) : lost);
        return a;
    case FOLD_MUL: return (pair){um_k_mul(k, a.v, b.v), 0};
    case FOLD_MAX: return (pair){um_kvalue_max(k, a.v, b.v), 0};
    case FOLD_MIN: return (pair){um_kvalue_min(k, a.v, b.v), 0};
    case FOLD_OR: return (pair){um_k_or(k, a.v, b.v), 0};
    case FOLD_AND: return (pair){um_k_and(k, a.v, b.v), 0};
    case FOLD_ARG:
        first = comes_first(r, a, b);
        return (pair){um_k_select(k, first, b.v, a.v), um_k_select(k, first, b.w, a.w)};
    }
    return a;
}

/* What the fold of nothing is: of max and min the ends of the input's dtype. */
static pair nothing(const reduction *r, fold f)
{
    um_kernel *k = r->k;
    um_val zero = um_kvalue_number(k, r->compute, 0);
    double end = f == FOLD_MAX ? -(double)INFINITY : (double)INFINITY;
    if (r->dtype == UM_BOOL) end = f == FOLD_MIN;
    switch (f) {
    case FOLD_SUM: return (pair){zero, is_float(r) ? zero : 0};
    case FOLD_MUL: return (pair){um_kvalue_number(k, r->compute, 1), 0};
    case FOLD_MAX:
    case FOLD_MIN:
        return (pair){um_kvalue_as(k, r->compute, um_kvalue_number(k, r->dtype, end)), 0};
    case FOLD_OR: return (pair){um_k_bool(k, false), 0};
    case FOLD_AND: return (pair){um_k_bool(k, true), 0};
    case FOLD_ARG: return (pair){zero, um_k_u32(k, UINT32_MAX)};
    }
    return (pair){zero, 0};
}

/* ---- a pass --------------------------------------------------------------------------------- */

static um_val term_of(const reduction *r, term t, um_val x, um_val by)
{
    um_kernel *k = r->k;
    um_val off;
    switch (t) {
    case TERM_X: return x;
    case TERM_ABS: return um_k_abs(k, x);
    case TERM_TRUTH: return um_k_ne(k, x, um_kvalue_number(k, r->compute, 0));
    case TERM_EXP: return um_k_exp(k, um_k_sub(k, x, by));
    case TERM_SQUARE: off = um_k_div(k, x, by); return um_k_mul(k, off, off);
    case TERM_OFF: return um_k_sub(k, x, by);
    case TERM_OFF_SQUARE: off = um_k_sub(k, x, by); return um_k_mul(k, off, off);
    }
    return x;
}

/* Joins what the invocations of an output have; all get the result. */
static pair join_lanes(const reduction *r, fold f, pair own)
{
    um_kernel *k = r->k;
    if (r->lanes == 1) return own;
    um_val begin = um_k_sub(k, r->local, um_k_mul(k, r->lane, um_k_u32(k, r->apart)));
    um_k_store(k, r->room[0], r->local, own.v);
    if (own.w) um_k_store(k, r->room[1], r->local, own.w);
    for (uint32_t half = r->lanes / 2; half > 0; half /= 2) {
        um_k_barrier(k);
        um_k_if(k, um_k_lt(k, r->lane, um_k_u32(k, half)));
        um_val i = r->local, j = um_k_add(k, i, um_k_u32(k, half * r->apart));
        pair a = {um_k_load(k, r->room[0], i), own.w ? um_k_load(k, r->room[1], i) : 0};
        pair b = {um_k_load(k, r->room[0], j), own.w ? um_k_load(k, r->room[1], j) : 0};
        a = join(r, f, a, b);
        um_k_store(k, r->room[0], i, a.v);
        if (own.w) um_k_store(k, r->room[1], i, a.w);
        um_k_end(k);
    }
    um_k_barrier(k);
    pair all = {um_k_load(k, r->room[0], begin), own.w ? um_k_load(k, r->room[1], begin) : 0};
    um_k_barrier(k); /* before the next pass writes there */
    return all;
}

/* The pass's two variables, and of several lanes two arrays. bool and numbers do not share them. */
static void declare_state(reduction *r, pair start, um_mem var[2])
{
    static const char *const rooms[] = {"room0", "room1"};
    um_val part[2] = {start.v, start.w};
    for (int32_t i = 0; i < 2 && part[i]; i++) {
        var[i] = um_kvar(r->k, part[i], "state%d_%d", (int)r->passes, (int)i);
        if (r->lanes > 1 && !r->room[i])
            r->room[i] = um_k_shared(r->k, rooms[i], um_val_type(r->k, part[i]).dtype, UM_KGROUP);
    }
}

/* What a program makes of x, and of its other inputs at that place of axes first .. end - 1. */
static um_val run_rider(const reduction *r, int32_t which, um_val x, int32_t first, int32_t end,
                        const um_val *place)
{
    const um_rider *rider = &r->rider[which];
    um_val in[UM_MAP_MAX_INPUTS] = {x};
    for (int32_t i = 1; i < rider->in_count; i++) {
        const um_kview *view = &r->in[rider->input[i]];
        um_val at = um_kview_index(r->k, view, r->from[rider->input[i]], first, end, place);
        in[i] = um_kview_load(r->k, view, at);
    }
    return um_kprogram_run(r->k, &rider->program, rider->in_count, in);
}

/* An element of what is reduced; place: along the axes that go. */
static um_val element(const reduction *r, const um_val *place)
{
    int32_t lead = r->walk.lead, rank = r->walk.rank;
    um_val x = um_kview_load(r->k, &r->in[0],
                             um_kview_index(r->k, &r->in[0], r->from[0], lead, rank, place));
    if (r->rides[UM_PROLOGUE]) x = run_rider(r, UM_PROLOGUE, x, lead, rank, place);
    return um_kvalue_as(r->k, r->compute, x);
}

/* The next place for parts' results, of that dtype; bool is kept as u32. */
static um_mem declare_parts(reduction *r, const char *name, um_dtype dtype)
{
    if (dtype == UM_BOOL) dtype = UM_U32;
    uint64_t size = (uint64_t)(r->outs * r->parts * um_dtype_bits(dtype) / 8), at = r->scratch;
    r->scratch += (size + 15) / 16 * 16;
    return um_klaunch_scratch(r->launch, name, dtype, at, size);
}

/* Appends the loop over `first` to `end`; of one round what is in e. */
static um_val begin_pass(reduction *r, pair start, um_mem var[2], um_val first, um_val end)
{
    declare_state(r, start, var);
    return um_k_for(r->k, first, end, um_k_u32(r->k, r->lanes));
}

static pair end_pass(reduction *r, fold f, const um_mem var[2], pair next)
{
    um_kernel *k = r->k;
    next = join(r, f, (pair){um_k_get(k, var[0]), var[1] ? um_k_get(k, var[1]) : 0}, next);
    um_k_set(k, var[0], next.v);
    if (next.w) um_k_set(k, var[1], next.w);
    um_k_end(k);
    return join_lanes(r, f, (pair){um_k_get(k, var[0]), var[1] ? um_k_get(k, var[1]) : 0});
}

static pair pass_over_elements(reduction *r, fold f, term t, um_val by)
{
    um_val place[UM_MAX_RANK] = {0};
    um_mem var[2] = {0};
    um_val e = begin_pass(r, nothing(r, f), var, r->first, r->end);
    um_kwalk_places(r->k, e, r->walk.lead, r->walk.rank, r->size, place);
    return end_pass(r, f, var, (pair){term_of(r, t, element(r, place), by), f == FOLD_ARG ? e : 0});
}

/* What the parts of an earlier launch come to. */
static pair pass_over_parts(reduction *r, fold f, const um_mem mem[2])
{
    um_kernel *k = r->k;
    um_mem var[2] = {0};
    um_val base = um_k_mul(k, r->number, r->part_count);
    um_val end = um_k_select(k, r->in_range, r->part_count, um_k_u32(k, 0));
    um_val e = um_k_add(k, base, begin_pass(r, nothing(r, f), var, r->lane, end));
    pair next = {um_k_load(k, mem[0], e), mem[1] ? um_k_load(k, mem[1], e) : 0};
    if (f == FOLD_OR || f == FOLD_AND) next.v = um_k_ne(k, next.v, um_k_u32(k, 0));
    return end_pass(r, f, var, next);
}

/* Begins an if of one invocation for each output. */
static void begin_once(const reduction *r)
{
    um_kernel *k = r->k;
    um_k_if(k, um_k_and(k, r->in_range, um_k_eq(k, r->lane, um_k_u32(k, 0))));
}

static pair run_pass(reduction *r, fold f, term t, um_val by)
{
    um_kernel *k = r->k;
    int32_t pass = r->passes++;
    char name[2][32];
    um_mem mem[2] = {0};
    pair start = nothing(r, f);
    if (r->parts == 1) return pass_over_elements(r, f, t, by);
    if (pass > r->stage) return start; /* nobody looks at it */
    for (int32_t i = 0; i < (start.w ? 2 : 1); i++) {
        snprintf(name[i], sizeof name[i], "parts%d_%d", (int)pass, (int)i);
        mem[i] = declare_parts(r, name[i], um_val_type(k, i ? start.w : start.v).dtype);
    }
    if (pass < r->stage) return pass_over_parts(r, f, mem);
    pair own = pass_over_elements(r, f, t, by);
    um_val at = um_k_add(k, um_k_mul(k, r->number, r->part_count), r->part);
    begin_once(r);
    bool is_bool = f == FOLD_OR || f == FOLD_AND;
    um_k_store(k, mem[0], at, is_bool ? um_k_convert(k, UM_U32, own.v) : own.v);
    if (own.w) um_k_store(k, mem[1], at, own.w);
    um_k_end(k);
    return own;
}

static um_val run_fold(reduction *r, fold f, term t, um_val by)
{
    um_kernel *k = r->k;
    pair all = run_pass(r, f, t, by);
    if (f != FOLD_SUM || !is_float(r)) return all.v;
    um_val finite = um_k_eq(k, all.w, all.w); /* what inf rounds off is NaN */
    return um_k_select(k, finite, um_k_add(k, all.v, all.w), all.v);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static um_val is_infinite(const reduction *r, um_val x)
{
    return um_k_eq(r->k, um_k_abs(r->k, x), um_kvalue_number(r->k, r->compute, (double)INFINITY));
}

static um_val log_sum_exp(reduction *r)
{
    um_kernel *k = r->k;
    um_val top = run_fold(r, FOLD_MAX, TERM_X, 0), zero = um_kvalue_number(k, r->compute, 0);
    um_val by = um_k_select(k, is_infinite(r, top), zero, top);
    return um_k_add(k, by, um_k_log(k, run_fold(r, FOLD_SUM, TERM_EXP, by)));
}

/* Scaled by the largest, so that no square overflows or vanishes. */
static um_val norm(reduction *r)
{
    um_kernel *k = r->k;
    um_val top = run_fold(r, FOLD_MAX, TERM_ABS, 0), zero = um_kvalue_number(k, r->compute, 0);
    um_val start = um_kvalue_max(k, top, zero); /* of nothing top is -inf */
    um_val trivial = um_k_or(k, um_k_eq(k, start, zero), is_infinite(r, start));
    um_val by = um_k_select(k, trivial, um_kvalue_number(k, r->compute, 1), top);
    um_val sum = um_k_sqrt(k, run_fold(r, FOLD_SUM, TERM_SQUARE, by));
    return um_k_select(k, trivial, start, um_k_mul(k, by, sum));
}

static double reduced_count(const reduction *r)
{
    double count = 1;
    for (int32_t axis = r->walk.lead; axis < r->walk.rank; axis++)
        count *= (double)r->walk.shape[axis];
    return count;
}

static um_val mean(reduction *r)
{
    um_val count = um_klaunch_real(r->launch, r->compute, reduced_count(r), "divisor");
    return um_k_div(r->k, run_fold(r, FOLD_SUM, TERM_X, 0), count);
}

/* The mean is rounded, so the sum of what is off it is not 0; its square's share is taken off. */
static um_val variance(reduction *r)
{
    um_kernel *k = r->k;
    double count = reduced_count(r), left = count - r->op->attrs.reduce.correction;
    um_val middle = mean(r),
           divisor = um_klaunch_real(r->launch, r->compute, UM_MAX(left, 0), "freedom");
    um_val n = um_klaunch_real(r->launch, r->compute, count, "all");
    um_val off = run_fold(r, FOLD_SUM, TERM_OFF, middle);
    um_val squares = run_fold(r, FOLD_SUM, TERM_OFF_SQUARE, middle);
    um_val share = um_k_div(k, um_k_mul(k, off, off), n);
    um_val zero = um_kvalue_number(k, r->compute, 0), rest = um_k_sub(k, squares, share);
    rest = um_k_select(k, um_k_lt(k, rest, zero), zero, rest);
    return um_k_div(k, rest, divisor);
}

static um_val result_of(reduction *r)
{
    switch (r->op->id) {
    case UM_OP_SUM: return run_fold(r, FOLD_SUM, TERM_X, 0);
    case UM_OP_MEAN: return mean(r);
    case UM_OP_PROD: return run_fold(r, FOLD_MUL, TERM_X, 0);
    case UM_OP_REDUCE_MAX: return run_fold(r, FOLD_MAX, TERM_X, 0);
    case UM_OP_REDUCE_MIN: return run_fold(r, FOLD_MIN, TERM_X, 0);
    case UM_OP_ANY: return run_fold(r, FOLD_OR, TERM_TRUTH, 0);
    case UM_OP_ALL: return run_fold(r, FOLD_AND, TERM_TRUTH, 0);
    case UM_OP_LOGSUMEXP: return log_sum_exp(r);
    case UM_OP_L1: return run_fold(r, FOLD_SUM, TERM_ABS, 0);
    case UM_OP_L2: return norm(r);
    case UM_OP_VAR: return variance(r);
    case UM_OP_STD: return um_k_sqrt(r->k, variance(r));
    default: return run_pass(r, FOLD_ARG, TERM_X, 0).w; /* argmax, argmin */
    }
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static bool has_shape_of_x(const reduction *r, int32_t input)
{
    bool found = input == 0;
    for (int32_t i = 0; r->rides[UM_PROLOGUE] && i < r->rider[UM_PROLOGUE].in_count; i++)
        found = found || r->rider[UM_PROLOGUE].input[i] == input;
    return found;
}

/* The inputs with the axes that stay in front; the output, and what has its shape, with no stride
 * along the others. */
static um_kwalk walk_of(const reduction *r)
{
    const um_op *op = r->op;
    const um_view *x = &op->in[0], *y = &op->out[0], *views[UM_KVIEWS];
    um_view part[UM_KVIEWS];
    uint32_t axes = 0;
    int32_t kept = 0, rank = 0;
    um_axes_resolve(op->attrs.reduce.axes, x->rank, &axes); /* checked */
    for (int32_t v = 0; v <= op->in_count; v++) {
        part[v] = v == 0 ? *y : op->in[v - 1];
        part[v].rank = x->rank;
        views[v] = &part[v];
    }
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0, o = 0; i < x->rank; i++) {
            bool gone = axes == 0 || (axes & UM_AXIS(i)), has_place = !gone || y->rank == x->rank;
            int32_t place = has_place ? o++ : -1;
            if (gone != (pass == 1)) continue;
            for (int32_t v = 0; v <= op->in_count; v++) {
                bool like_x = v > 0 && has_shape_of_x(r, v - 1);
                const um_view *from = v == 0 ? y : &op->in[v - 1];
                part[v].shape[rank] = x->shape[i];
                part[v].stride[rank] = like_x ? from->stride[i] : gone ? 0 : from->stride[place];
            }
            rank++;
            kept += !gone;
        }
    um_kwalk w = um_kwalk_make(op->in_count + 1, views, kept);
    for (int32_t v = 0; v <= op->in_count; v++) /* whose ranges are bound */
        w.view[v] = v == 0 ? y : &op->in[v - 1];
    return w;
}

static reduction reduction_of(const um_op *op)
{
    reduction r = {.op = op, .dtype = op->in[0].dtype};
    for (int32_t i = 0; i < UM_PROGRAMS; i++) r.rides[i] = um_op_rider(op, i, &r.rider[i]);
    if (r.rides[UM_PROLOGUE]) r.dtype = r.rider[UM_PROLOGUE].program.dtype;
    r.compute = um_kvalue_compute(r.dtype);
    r.walk = walk_of(&r);
    return r;
}

bool um_kreduce_supports(const um_op *op, char *why, size_t why_size)
{
    reduction r = reduction_of(op);
    if ((r.walk.view_count + 1) * (r.walk.rank + 1) + 12 <= UM_K_MAX_SCALARS) return true;
    return um_kplan_refuse(op, why, why_size, "for so many inputs and axes");
}

/* Whether what is reduced lies further apart than outputs do, of which there are so many in a row.
 */
static bool is_across(const reduction *r, int64_t row)
{
    const um_kwalk *w = &r->walk;
    if (w->lead == 0 || w->rank == w->lead || w->shape[w->lead - 1] < row) return false;
    int64_t inner = w->stride[1][w->rank - 1], outer = w->stride[1][w->lead - 1];
    return (inner < 0 ? -inner : inner) > (outer < 0 ? -outer : outer);
}

/* Who makes an output. */
static void share_out(reduction *r)
{
    enum { WIDE_FROM = 64, ROW = 32, EACH = 16, GROUPS = 256, PARTS_MAX = 256 };
    int64_t count = (int64_t)reduced_count(r);
    bool across = is_across(r, ROW);
    r->outs = um_view_count(&r->op->out[0]);
    r->lanes = count < WIDE_FROM ? 1 : across ? UM_KGROUP / ROW : UM_KGROUP;
    r->apart = across ? ROW : 1;
    int64_t groups = um_ceil_div(r->outs * r->lanes, UM_KGROUP);
    int64_t parts = UM_MIN(count / (r->lanes * EACH), PARTS_MAX);
    r->parts = groups < GROUPS ? UM_MAX(UM_MIN(parts, 4 * GROUPS / groups), 1) : 1;
    if (r->lanes == 1) r->parts = 1;
}

/* The invocation's place, and its first and last element. */
static void declare_places(reduction *r)
{
    um_kernel *k = r->k;
    bool staged = r->parts > 1, finishes = r->stage > 0 && r->stage == r->passes;
    int64_t count = (int64_t)reduced_count(r), chunk = um_ceil_div(count, r->parts);
    um_val each = um_k_u32(k, UM_KGROUP / r->lanes), zero = um_k_u32(k, 0), group;
    um_val outs = um_klaunch_scalar(r->launch, r->outs, "outs");
    um_val all = um_klaunch_scalar(r->launch, count, "count");
    um_klaunch_groups(r->launch, um_ceil_div(r->outs * r->lanes, UM_KGROUP) *
                                     (staged && !finishes ? r->parts : 1));
    group = um_klaunch_group_number(k);
    r->local = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    r->part = zero;
    r->end = all;
    if (staged) r->part_count = um_klaunch_scalar(r->launch, r->parts, "parts");
    if (staged && !finishes) {
        um_val size = um_klaunch_scalar(r->launch, chunk, "chunk");
        r->part = um_k_rem(k, group, r->part_count);
        group = um_k_div(k, group, r->part_count);
        r->end = um_k_min(k, all, um_k_mul(k, um_k_add(k, r->part, um_k_u32(k, 1)), size));
        r->first = um_k_mul(k, r->part, size);
    } else {
        r->first = zero;
    }
    bool across = r->apart > 1 || r->lanes == 1;
    um_val by = across ? each : um_k_u32(k, r->lanes);
    um_val low = um_k_rem(k, r->local, by), high = um_k_div(k, r->local, by);
    r->lane = across ? high : low;
    r->number = um_k_add(k, um_k_mul(k, group, each), across ? low : high);
    r->in_range = um_k_lt(k, r->number, outs);
    r->first = um_k_add(k, r->first, r->lane);
    r->end = um_k_select(k, r->in_range, r->end, zero);
}

static void declare(reduction *r)
{
    um_klaunch *launch = r->launch;
    bool narrow = um_dtype_bits(r->op->out[0].dtype) < 32;
    um_kwalk_sizes(launch, &r->walk, 0, r->walk.lead, r->size);
    um_kwalk_sizes(launch, &r->walk, r->walk.lead, r->walk.rank, r->size);
    r->out = um_kview_output(launch, &r->walk, narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
    for (int32_t i = 0; i < r->op->in_count; i++)
        r->in[i] = i == 0 ? um_kview_read(launch, &r->walk, 1)
                          : um_kview_input(launch, &r->walk, i + 1, &r->out);
    declare_places(r);
}

/* One launch; of several stages that of the reduction's. */
static um_status plan_stage(reduction *r, um_kplan *plan)
{
    const um_op *op = r->op;
    um_val place[UM_MAX_RANK] = {0};
    char name[32];
    snprintf(name, sizeof name, r->parts > 1 ? "%s_%d" : "%s", um_op_name(op->id), (int)r->stage);
    UM_TRY(um_kplan_launch(plan, name, UM_KGROUP, &r->launch));
    um_kernel *k = r->k = r->launch->kernel;
    declare(r);
    um_kwalk_places(k, r->number, 0, r->walk.lead, r->size, place);
    for (int32_t i = 0; i < op->in_count; i++)
        r->from[i] = um_kview_place(k, &r->in[i], r->walk.lead, place);
    um_val to = um_kview_place(k, &r->out, r->walk.lead, place);
    bool finishes = r->parts == 1 || (r->stage > 0 && r->stage == r->passes);
    r->passes = 0;
    r->scratch = 0;
    for (int32_t i = 0; i < 2; i++) r->room[i] = 0;
    um_val y = result_of(r);
    if (!finishes) return um_kernel_finish(k);
    begin_once(r);
    if (r->rides[UM_PROLOGUE] || r->rides[UM_EPILOGUE])
        y = um_kvalue_as(k, um_op_made_dtype(op), y);
    if (r->rides[UM_EPILOGUE]) y = run_rider(r, UM_EPILOGUE, y, 0, 0, NULL);
    um_kview_store(k, &r->out, to, um_kvalue_as(k, op->out[0].dtype, y));
    um_k_end(k);
    return um_kernel_finish(k);
}

um_status um_kreduce_plan(const um_op *op, um_kplan *plan)
{
    reduction r = reduction_of(op);
    share_out(&r);
    do {
        UM_TRY(plan_stage(&r, plan));
        plan->scratch_bytes = UM_MAX(plan->scratch_bytes, r.scratch);
    } while (r.parts > 1 && r.stage++ < r.passes);
    return UM_OK;
}
