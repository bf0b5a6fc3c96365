/* kernel/pool.c: pooling and its gradients; an invocation for each element that is made, which
 * gathers what it is made of. Numbers of places are i32. What a window is: op/pool.h. */
#include "op/pool.h"

#include "kernel/library.h"

#include <math.h>
#include <stdio.h>

#define PLACES_MAX   ((int64_t)1 << 30) /* of a padded axis */
#define ADAPTIVE_MAX ((int64_t)1 << 16) /* of an axis: products of two fit in u32 */

/* One axis; scalars. Adaptive: in, out, and of both ratios the whole part and the rest. */
typedef struct axis {
    um_val in, out, kernel, stride, dilation, pad, padded;
    um_val whole, rest, back_whole, back_rest;
} axis;

typedef struct window {
    um_val first, step, count, divisor;
} window;

typedef struct pool {
    const um_op *op;
    um_kernel *k;
    um_dtype compute;
    int32_t axes, space; /* the first spatial axis of the views */
    um_keach each;       /* its views: see below */
    axis axis[UM_CONV_MAX_AXES];
    um_val zero, one; /* i32 */
    um_ksum sum;      /* or the largest, and where it is */
} pool;

/* What is made, what it is made of, and the places where there are such. */
enum { MADE, FROM, PLACES };

static bool is_forward(const um_op *op)
{
    return op->id == UM_OP_MAX_POOL || op->id == UM_OP_AVG_POOL;
}

static bool is_max(const um_op *op)
{
    return op->id == UM_OP_MAX_POOL || op->id == UM_OP_MAX_POOL_BACKWARD;
}

/* The places of max_pool; NULL: none. */
static const um_view *places_of(const um_op *op)
{
    if (op->id == UM_OP_MAX_POOL && op->out_count > 1) return &op->out[1];
    return op->id == UM_OP_MAX_POOL_BACKWARD ? &op->in[1] : NULL;
}

static um_pool_axis axis_of(const um_op *op, int32_t i)
{
    const um_view *out = &op->out[0], *in = &op->in[0];
    return um_pool_get_axis(op, is_forward(op) ? in : out, is_forward(op) ? out : in, i);
}

bool um_kpool_supports(const um_op *op, char *why, size_t why_size)
{
    int64_t places_count = 1; /* of a channel */
    for (int32_t i = 0; i < op->in[0].rank - 2; i++) {
        um_pool_axis x = axis_of(op, i);
        int64_t padded, pads = x.pad_before + x.pad_after;
        bool fits = um_add_i64(x.in, x.adaptive ? 0 : pads, &padded) && padded < PLACES_MAX;
        if (x.adaptive) fits = x.in <= ADAPTIVE_MAX && x.out <= ADAPTIVE_MAX;
        fits = fits && um_mul_i64(places_count, x.in, &places_count) && places_count < INT32_MAX;
        if (!fits) return um_kplan_refuse(op, why, why_size, "for such sizes");
    }
    return true;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static um_val number(const pool *p, const char *what, int32_t i, int64_t value)
{
    um_val bits = um_klaunch_scalar(p->each.launch, value, "%s%d", what, (int)i);
    return um_k_bitcast(p->k, UM_I32, 1, bits);
}

static axis declare_axis(const pool *p, int32_t i)
{
    um_pool_axis x = axis_of(p->op, i);
    axis a = {.in = number(p, "in", i, x.in), .out = number(p, "out", i, x.out)};
    if (x.adaptive) {
        a.whole = number(p, "whole", i, x.in / UM_MAX(x.out, 1));
        a.rest = number(p, "rest", i, x.in % UM_MAX(x.out, 1));
        a.back_whole = number(p, "back_whole", i, x.out / UM_MAX(x.in, 1));
        a.back_rest = number(p, "back_rest", i, x.out % UM_MAX(x.in, 1));
        return a;
    }
    a.kernel = number(p, "kernel", i, x.kernel);
    a.stride = number(p, "step", i, x.stride);
    a.dilation = number(p, "dilation", i, x.kernel > 1 ? x.dilation : 1); /* below PLACES_MAX */
    a.pad = number(p, "pad", i, x.pad_before);
    a.padded = number(p, "padded", i, x.in + x.pad_after);
    return a;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* ceil(a / b); a > 0. */
static um_val ceil_div(const pool *p, um_val a, um_val b)
{
    return um_k_add(p->k, um_k_div(p->k, um_k_sub(p->k, a, p->one), b), p->one);
}

/* floor(i n / by), or rounded up, n / by being whole + rest / by. */
static um_val share(const pool *p, um_val i, um_val whole, um_val rest, um_val by, bool up)
{
    um_kernel *k = p->k;
    um_val u = um_k_bitcast(k, UM_U32, 1, i), b = um_k_bitcast(k, UM_U32, 1, by);
    um_val part = um_k_mul(k, u, um_k_bitcast(k, UM_U32, 1, rest));
    if (up) part = um_k_add(k, part, um_k_sub(k, b, um_k_u32(k, 1)));
    part = um_k_bitcast(k, UM_I32, 1, um_k_div(k, part, b));
    return um_k_add(k, um_k_mul(k, i, whole), part);
}

/* How many of a window's places from `first` on lie below `end`. */
static um_val below(const pool *p, const axis *x, um_val first, um_val end)
{
    um_kernel *k = p->k;
    um_val some = um_k_lt(k, first, end);
    um_val span = um_k_select(k, some, um_k_sub(k, end, first), p->one);
    um_val count = um_k_min(k, ceil_div(p, span, x->dilation), x->kernel);
    return um_k_select(k, some, count, p->zero);
}

static window window_of(const pool *p, const axis *x, um_val o)
{
    um_kernel *k = p->k;
    if (p->op->attrs.pool.adaptive) {
        um_val begin = share(p, o, x->whole, x->rest, x->out, false);
        um_val end = share(p, um_k_add(k, o, p->one), x->whole, x->rest, x->out, true);
        um_val count = um_k_sub(k, end, begin);
        return (window){begin, p->one, count, count};
    }
    um_val first = um_k_sub(k, um_k_mul(k, o, x->stride), x->pad);
    um_val outside = um_k_lt(k, first, p->zero);
    um_val gap = um_k_select(k, outside, um_k_neg(k, first), p->one);
    um_val skipped = um_k_min(k, ceil_div(p, gap, x->dilation), x->kernel);
    skipped = um_k_select(k, outside, skipped, p->zero);
    um_val count = um_k_sub(k, below(p, x, first, x->in), skipped);
    count = um_k_max(k, count, p->zero);
    um_val inside = um_k_add(k, first, um_k_mul(k, skipped, x->dilation)), divisor = count;
    if (p->op->attrs.pool.count_include_pad) divisor = below(p, x, first, x->padded);
    return (window){inside, x->dilation, count, divisor};
}

/* The windows that may hold place i: first .. end - 1. */
static void windows_of(const pool *p, const axis *x, um_val i, um_val *first, um_val *end)
{
    um_kernel *k = p->k;
    if (p->op->attrs.pool.adaptive) {
        *first = share(p, i, x->back_whole, x->back_rest, x->in, false);
        *end = share(p, um_k_add(k, i, p->one), x->back_whole, x->back_rest, x->in, true);
    } else {
        um_val place = um_k_add(k, i, x->pad);
        um_val reach = um_k_mul(k, x->dilation, um_k_sub(k, x->kernel, p->one));
        um_val late = um_k_gt(k, place, reach);
        um_val rest = um_k_select(k, late, um_k_sub(k, place, reach), p->one);
        *first = um_k_select(k, late, ceil_div(p, rest, x->stride), p->zero);
        *end = um_k_add(k, um_k_div(k, place, x->stride), p->one);
    }
    *end = um_k_min(k, *end, x->out);
}

static um_val holds(const pool *p, const window *w, um_val i)
{
    um_kernel *k = p->k;
    um_val far = um_k_sub(k, i, w->first), steps = um_k_div(k, far, w->step);
    um_val met = um_k_eq(k, um_k_mul(k, steps, w->step), far);
    met = um_k_and(k, met, um_k_ge(k, far, p->zero));
    return um_k_and(k, met, um_k_lt(k, steps, w->count));
}

/* ---- elements ------------------------------------------------------------------------------- */

static um_val as_u32(const pool *p, um_val i) { return um_k_bitcast(p->k, UM_U32, 1, i); }
static um_val as_i32(const pool *p, um_val i) { return um_k_bitcast(p->k, UM_I32, 1, i); }

/* The places of the made element along the spatial axes. */
static void get_place(const pool *p, um_val *i)
{
    for (int32_t a = 0; a < p->axes; a++) i[a] = as_i32(p, p->each.place[p->space + a]);
}

/* At the made element's batch and channel, and `at` of the spatial axes. */
static um_val load_at(const pool *p, int32_t view, const um_val *at)
{
    um_keach from = p->each;
    for (int32_t i = 0; i < p->axes; i++) from.place[p->space + i] = as_u32(p, at[i]);
    return um_keach_load(&from, view);
}

static um_val load_from(const pool *p, const um_val *at)
{
    return um_kvalue_as(p->k, p->compute, load_at(p, FROM, at));
}

/* The place in the channel. */
static um_val number_of(const pool *p, const um_val *at)
{
    um_val n = at[0];
    for (int32_t i = 1; i < p->axes; i++)
        n = um_k_add(p->k, um_k_mul(p->k, n, p->axis[i].in), at[i]);
    return n;
}

static um_val divisor_of(const pool *p, const window *w)
{
    um_val by = um_k_convert(p->k, p->compute, w[0].divisor);
    for (int32_t i = 1; i < p->axes; i++)
        by = um_k_mul(p->k, by, um_k_convert(p->k, p->compute, w[i].divisor));
    return by;
}

/* ---- the ops -------------------------------------------------------------------------------- */

/* x against the largest so far, which is at place `lost`. */
static void take_larger(const pool *p, um_val x, const um_val *at)
{
    um_kernel *k = p->k;
    um_val best = um_k_get(k, p->sum.sum), where = um_k_get(k, p->sum.lost);
    um_val take = um_k_or(k, um_k_gt(k, x, best), um_k_lt(k, where, p->zero));
    if (um_dtype_is_float(p->compute)) {
        um_val nan = um_k_and(k, um_k_ne(k, x, x), um_k_eq(k, best, best));
        take = um_k_or(k, take, nan);
    }
    um_k_set(k, p->sum.sum, um_k_select(k, take, x, best));
    um_k_set(k, p->sum.lost, um_k_select(k, take, number_of(p, at), where));
}

static void make_forward(pool *p)
{
    um_kernel *k = p->k;
    window w[UM_CONV_MAX_AXES] = {{0}};
    um_val at[UM_CONV_MAX_AXES] = {0}, o[UM_CONV_MAX_AXES] = {0};
    get_place(p, o);
    for (int32_t i = 0; i < p->axes; i++) w[i] = window_of(p, &p->axis[i], o[i]);
    for (int32_t i = 0; i < p->axes; i++) {
        um_val t = um_k_for(k, p->zero, w[i].count, p->one);
        at[i] = um_k_add(k, w[i].first, um_k_mul(k, t, w[i].step));
    }
    if (is_max(p->op))
        take_larger(p, load_from(p, at), at);
    else
        um_ksum_add(k, p->sum, load_from(p, at));
    for (int32_t i = 0; i < p->axes; i++) um_k_end(k);
    if (is_max(p->op)) {
        const um_kview *places = &p->each.view[PLACES];
        um_keach_store(&p->each, um_k_get(k, p->sum.sum));
        if (!places_of(p->op)) return;
        um_val to = um_kview_place(k, places, p->each.walk.rank, p->each.place);
        um_kview_store(k, places, to, um_kvalue_as(k, places->dtype, um_k_get(k, p->sum.lost)));
        return;
    }
    um_val by = divisor_of(p, w), none = um_kvalue_number(k, p->compute, 0);
    um_val mean = um_k_div(k, um_ksum_get(k, p->sum), by);
    um_keach_store(&p->each, um_k_select(k, um_k_eq(k, by, none), none, mean));
}

/* Opens loops and ifs over the windows that hold place i: twice as many blocks as axes. */
static void each_window(const pool *p, const um_val *i, um_val *o, window *w)
{
    um_kernel *k = p->k;
    for (int32_t a = 0; a < p->axes; a++) {
        um_val first, end;
        windows_of(p, &p->axis[a], i[a], &first, &end);
        o[a] = um_k_for(k, first, end, p->one);
        w[a] = window_of(p, &p->axis[a], o[a]);
        um_k_if(k, holds(p, &w[a], i[a]));
    }
}

/* What window `at` gives to place `here` of the channel, if that is its choice. */
static void take_chosen(const pool *p, const um_val *at, um_val here)
{
    um_kernel *k = p->k;
    um_k_if(k, um_k_eq(k, load_at(p, PLACES, at), here));
    um_ksum_add(k, p->sum, load_from(p, at));
    um_k_end(k);
}

/* From the windows that hold this place; from every window where one has chosen a place that it
 * does not hold, as max_pool never does. */
static void gather_chosen(const pool *p, um_val strays)
{
    um_kernel *k = p->k;
    um_val at[UM_CONV_MAX_AXES] = {0}, i[UM_CONV_MAX_AXES] = {0};
    window w[UM_CONV_MAX_AXES];
    get_place(p, i);
    um_val here = um_k_convert(k, UM_I64, number_of(p, i));
    um_k_if(k, um_k_eq(k, strays, um_k_u32(k, 0)));
    each_window(p, i, at, w);
    take_chosen(p, at, here);
    for (int32_t a = 0; a < 2 * p->axes; a++) um_k_end(k);
    um_k_else(k);
    for (int32_t a = 0; a < p->axes; a++) at[a] = um_k_for(k, p->zero, p->axis[a].out, p->one);
    take_chosen(p, at, here);
    for (int32_t a = 0; a < p->axes; a++) um_k_end(k);
    um_k_end(k);
}

/* The choice of one window: outside of the channel is a fault, outside of the window a stray. */
static void check_choice(const pool *p, int32_t places, um_mem flags)
{
    um_kernel *k = p->k;
    um_val o[UM_CONV_MAX_AXES] = {0};
    get_place(p, o);
    um_val chosen = load_at(p, places, o), count = p->axis[0].in;
    for (int32_t a = 1; a < p->axes; a++) count = um_k_mul(k, count, p->axis[a].in);
    um_val none = um_k_eq(k, chosen, um_k_const(k, UM_I64, UINT64_MAX));
    um_val in = um_k_and(k, um_k_ge(k, chosen, um_k_const(k, UM_I64, 0)),
                         um_k_lt(k, chosen, um_k_convert(k, UM_I64, count)));
    um_kflag(k, flags, 0, um_k_not(k, um_k_or(k, none, in)));
    um_val rest = um_k_convert(k, UM_I32, um_k_select(k, in, chosen, um_k_const(k, UM_I64, 0)));
    um_val held = um_k_bool(k, true);
    for (int32_t a = p->axes - 1; a >= 0; a--) {
        window w = window_of(p, &p->axis[a], o[a]);
        held = um_k_and(k, held, holds(p, &w, a > 0 ? um_k_rem(k, rest, p->axis[a].in) : rest));
        rest = um_k_div(k, rest, p->axis[a].in);
    }
    um_kflag(k, flags, 1, um_k_and(k, in, um_k_not(k, held)));
}

/* Its part from every window that holds this place. */
static void gather_shares(const pool *p)
{
    um_kernel *k = p->k;
    um_val o[UM_CONV_MAX_AXES] = {0}, i[UM_CONV_MAX_AXES] = {0};
    window w[UM_CONV_MAX_AXES];
    get_place(p, i);
    each_window(p, i, o, w);
    um_ksum_add(k, p->sum, um_k_div(k, load_from(p, o), divisor_of(p, w)));
    for (int32_t a = 0; a < 2 * p->axes; a++) um_k_end(k);
}

/* What an element begins with. */
static void begin(pool *p)
{
    um_kernel *k = p->k;
    um_dtype dtype = p->op->in[0].dtype;
    if (p->op->id != UM_OP_MAX_POOL) {
        p->sum = um_ksum_new(k, um_kvalue_number(k, p->compute, 0), "sum");
        return;
    }
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    int64_t lowest = is_signed ? -((int64_t)1 << (um_dtype_bits(dtype) - 2)) * 2 : 0;
    um_val first = um_dtype_is_float(dtype) ? um_kvalue_number(k, p->compute, -(double)INFINITY)
                                            : um_k_const(k, p->compute, (uint64_t)lowest);
    p->sum = (um_ksum){um_kvar(k, first, "sum"), um_kvar(k, um_k_i32(k, -1), "where")};
}

/* What all elements begin with. */
static void declare(pool *p)
{
    p->k = p->each.k;
    p->zero = um_k_i32(p->k, 0);
    p->one = um_k_i32(p->k, 1);
    for (int32_t i = 0; i < p->axes; i++) p->axis[i] = declare_axis(p, i);
}

/* max_pool_backward's first launch: are the places good? */
static um_status plan_checks(pool *p, um_kplan *plan)
{
    const um_view *places = places_of(p->op);
    p->each = (um_keach){.walk = um_kwalk_apart(1, &places)};
    UM_TRY(um_keach_start(&p->each, plan, "max_pool_places"));
    declare(p);
    p->each.view[0] = um_kview_read(p->each.launch, &p->each.walk, 0);
    um_mem flags = um_klaunch_scratch(p->each.launch, "flags", UM_U32, 0, UM_KFAULT_BYTES);
    um_keach_begin(&p->each);
    check_choice(p, 0, flags);
    return um_keach_finish(&p->each);
}

static um_status plan_main(pool *p, um_kplan *plan)
{
    const um_op *op = p->op;
    const um_view *views[3] = {&op->out[0], &op->in[0], places_of(op)};
    um_mem flags = 0;
    p->each = (um_keach){.walk = um_kwalk_apart(views[PLACES] ? 3 : 2, views)};
    UM_TRY(um_keach_create(&p->each, plan, um_op_name(op->id)));
    um_klaunch *launch = p->each.launch;
    declare(p);
    um_keach_read(&p->each, FROM);
    if (views[PLACES])
        p->each.view[PLACES] = is_forward(op) ? um_kview_write(launch, &p->each.walk, PLACES)
                                              : um_kview_read(launch, &p->each.walk, PLACES);
    if (plan->scratch_bytes > 0)
        flags = um_klaunch_scratch(launch, "flags", UM_U32, 0, UM_KFAULT_BYTES);
    um_keach_begin(&p->each);
    begin(p);
    if (is_forward(op)) {
        make_forward(p);
        return um_keach_finish(&p->each);
    }
    if (is_max(op))
        gather_chosen(p, um_k_load(p->k, flags, um_k_u32(p->k, 1)));
    else
        gather_shares(p);
    um_keach_store(&p->each, um_ksum_get(p->k, p->sum));
    return um_keach_finish(&p->each);
}

um_status um_kpool_plan(const um_op *op, um_kplan *plan)
{
    pool p = {.op = op, .axes = op->in[0].rank - 2, .space = um_space_axis(op->attrs.pool.layout)};
    p.compute = um_kvalue_compute(op->in[0].dtype);
    if (op->id == UM_OP_MAX_POOL_BACKWARD) {
        int64_t count = 1;
        for (int32_t i = 0; i < p.axes; i++) count *= axis_of(op, i).in;
        plan->scratch_bytes = UM_KFAULT_BYTES;
        snprintf(plan->fault, sizeof plan->fault, "%s: an index is outside its channel of %lld",
                 um_op_name(op->id), (long long)count);
        if (um_view_count(&op->in[1]) > 0) UM_TRY(plan_checks(&p, plan));
    }
    return plan_main(&p, plan);
}
