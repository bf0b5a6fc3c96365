/* kernel/resize.c: resize and its gradient; an invocation for each element that is made. Weights
 * are made from integers, so that a place that is met exactly is met exactly. The rule:
 * um_resize_desc. */
#include "op/conv.h"

#include "kernel/library.h"

enum { TAPS = 4 };

/* One axis; integers in the dtype `whole`, which holds 4 in out. */
typedef struct axis {
    um_val in, out, zero, one;
    um_mem weight, place; /* forward: what this element takes */
} axis;

typedef struct resize {
    const um_op *op;
    const um_resize_desc *desc;
    um_kernel *k;
    um_dtype compute, whole;
    int32_t axes, space, taps;
    um_keach each; /* what is made, what it is made of */
    axis axis[UM_CONV_MAX_AXES];
    um_ksum sum;
} resize;

/* Places beside each other that a place of the output may take, and their weights. */
typedef struct taps {
    um_val place[TAPS], weight[TAPS];
} taps;

static bool is_backward(const um_op *op) { return op->id == UM_OP_RESIZE_BACKWARD; }

static void sizes_of(const um_op *op, int32_t i, int64_t *in, int64_t *out)
{
    int32_t at = um_space_axis(op->attrs.resize.layout) + i;
    *in = (is_backward(op) ? op->out[0] : op->in[0]).shape[at];
    *out = (is_backward(op) ? op->in[0] : op->out[0]).shape[at];
}

bool um_kresize_supports(const um_op *op, char *why, size_t why_size)
{
    for (int32_t i = 0; i < op->in[0].rank - 2; i++) {
        int64_t in, out;
        sizes_of(op, i, &in, &out);
        if (in >= INT32_MAX || out >= INT32_MAX / 8) /* 8 in out in 64 bits */
            return um_kplan_refuse(op, why, why_size, "for such sizes");
    }
    return true;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static um_val integer(const resize *r, int64_t value)
{
    return um_k_const(r->k, r->whole,
                      (uint64_t)value & (r->whole == UM_I64 ? UINT64_MAX : UINT32_MAX));
}

static um_val declare_number(const resize *r, const char *what, int32_t i, int64_t value)
{
    um_val bits = um_klaunch_scalar(r->each.launch, value, "%s%d", what, (int)i);
    return um_kvalue_as(r->k, r->whole, um_k_bitcast(r->k, UM_I32, 1, bits));
}

static void declare_axis(resize *r, int32_t i)
{
    static const char *const weights[] = {"weight0", "weight1", "weight2"};
    static const char *const places[] = {"place0", "place1", "place2"};
    int64_t in, out;
    axis *x = &r->axis[i];
    sizes_of(r->op, i, &in, &out);
    x->in = declare_number(r, "in", i, in);
    x->out = declare_number(r, "out", i, out);
    x->zero = integer(r, 0);
    x->one = integer(r, 1);
    if (is_backward(r->op)) return;
    x->weight = um_k_private(r->k, weights[i], r->compute, (uint32_t)r->taps);
    x->place = um_k_private(r->k, places[i], UM_U32, (uint32_t)r->taps);
}

/* ---- taps ----------------------------------------------------------------------------------- */

static um_val real(const resize *r, double value)
{
    return um_kvalue_number(r->k, r->compute, value);
}

/* floor(a / b), b > 0, and the rest. */
static um_val floor_div(const resize *r, um_val a, um_val b, um_val *rest)
{
    um_kernel *k = r->k;
    um_val q = um_k_div(k, a, b);
    *rest = um_k_sub(k, a, um_k_mul(k, q, b));
    um_val under = um_k_lt(k, *rest, integer(r, 0));
    *rest = um_k_select(k, under, um_k_add(k, *rest, b), *rest);
    return um_k_select(k, under, um_k_sub(k, q, integer(r, 1)), q);
}

/* Keys 1981, with a = -0.75, for a place that lies t after another and u = 1 - t before the next;
 * in factors, so that small weights are exact, too. The outer one before, and the inner one. */
static um_val cubic_outer(const resize *r, um_val t, um_val u)
{
    um_kernel *k = r->k;
    return um_k_mul(k, um_k_mul(k, um_k_mul(k, real(r, -0.75), t), u), u);
}

static um_val cubic_inner(const resize *r, um_val t, um_val u)
{
    um_kernel *k = r->k;
    um_val bent = um_k_mul(k, um_k_mul(k, real(r, 1.25), t), t);
    return um_k_mul(k, u, um_k_sub(k, um_k_add(k, real(r, 1), t), bent));
}

/* What place o takes, by weights of which some may be 0. */
static taps taps_of(const resize *r, const axis *x, um_val o)
{
    um_kernel *k = r->k;
    um_val two = integer(r, 2), rest, above, below, last = um_k_sub(k, x->in, x->one);
    taps t;
    if (r->desc->mode == UM_RESIZE_NEAREST)
        return (taps){{um_k_div(k, um_k_mul(k, o, x->in), x->out)}, {real(r, 1)}};
    if (r->desc->align_corners) {
        above = um_k_mul(k, o, last);
        below = um_k_max(k, um_k_sub(k, x->out, x->one), x->one);
    } else {
        um_val middle = um_k_add(k, um_k_mul(k, o, two), x->one);
        above = um_k_sub(k, um_k_mul(k, middle, x->in), x->out);
        below = um_k_mul(k, x->out, two);
    }
    bool linear = r->desc->mode == UM_RESIZE_LINEAR;
    if (linear) above = um_k_max(k, above, x->zero);
    um_val place = floor_div(r, above, below, &rest), by = um_k_convert(k, r->compute, below);
    um_val part = um_k_div(k, um_k_convert(k, r->compute, rest), by);
    um_val left = um_k_div(k, um_k_convert(k, r->compute, um_k_sub(k, below, rest)), by);
    if (linear) {
        um_val at_end = um_k_ge(k, place, last);
        t = (taps){
            {place, um_k_add(k, place, x->one)},
            {um_k_select(k, at_end, real(r, 1), left), um_k_select(k, at_end, real(r, 0), part)}};
    } else {
        t = (taps){{um_k_sub(k, place, x->one), place, um_k_add(k, place, x->one),
                    um_k_add(k, place, two)},
                   {cubic_outer(r, part, left), cubic_inner(r, part, left),
                    cubic_inner(r, left, part), cubic_outer(r, left, part)}};
    }
    for (int32_t i = 0; i < r->taps; i++)
        t.place[i] = um_k_min(k, um_k_max(k, t.place[i], x->zero), last);
    return t;
}

/* What place i is given by place o. */
static um_val weight_of(const resize *r, const axis *x, um_val o, um_val i)
{
    taps t = taps_of(r, x, o);
    um_val zero = real(r, 0), weight = zero;
    for (int32_t n = 0; n < r->taps; n++) {
        um_val met = um_k_eq(r->k, t.place[n], i);
        weight = um_k_add(r->k, weight, um_k_select(r->k, met, t.weight[n], zero));
    }
    return weight;
}

/* Places first .. end - 1 of the output are all that may give to place i, and few more. Within the
 * edges o gives to i if its place s is in [i - 2, i + 2); what lies beyond is the edges'. */
static void range_of(const resize *r, const axis *x, um_val i, um_val *first, um_val *end)
{
    um_kernel *k = r->k;
    um_val two = integer(r, 2), rest, ends[2];
    um_val last = um_k_sub(k, x->in, x->one);
    for (int32_t side = 0; side < 2; side++) {
        um_val s = side ? um_k_add(k, i, two) : um_k_sub(k, i, two), above, below;
        if (r->desc->mode != UM_RESIZE_NEAREST && r->desc->align_corners) {
            above = um_k_mul(k, s, um_k_sub(k, x->out, x->one));
            below = um_k_max(k, last, x->one);
        } else { /* (s + 1/2) out / in - 1/2, and floor(o in / out) is within that, too */
            above = um_k_mul(k, um_k_add(k, um_k_mul(k, s, two), x->one), x->out);
            above = um_k_sub(k, above, x->in);
            below = um_k_mul(k, x->in, two);
        }
        ends[side] = floor_div(r, above, below, &rest);
    }
    um_val from = um_k_max(k, um_k_sub(k, ends[0], x->one), x->zero);
    um_val to = um_k_min(k, um_k_add(k, ends[1], two), x->out);
    *first = um_k_select(k, um_k_eq(k, i, x->zero), x->zero, from);
    *end = um_k_select(k, um_k_eq(k, i, last), x->out, to);
}

/* ---- the ops -------------------------------------------------------------------------------- */

static um_val to_u32(const resize *r, um_val a) { return um_k_convert(r->k, UM_U32, a); }

/* The made element's place along spatial axis i. */
static um_val here(const resize *r, int32_t i)
{
    return um_k_convert(r->k, r->whole, r->each.place[r->space + i]);
}

/* Adds weight times the element at `at`, u32. */
static void add(const resize *r, const um_val *at, um_val weight)
{
    um_keach from = r->each;
    for (int32_t i = 0; i < r->axes; i++) from.place[r->space + i] = at[i];
    um_val x = um_keach_load_as(&from, 1, r->compute);
    um_ksum_add(r->k, r->sum, um_k_mul(r->k, weight, x));
}

static void make_forward(const resize *r)
{
    um_kernel *k = r->k;
    um_val at[UM_CONV_MAX_AXES] = {0}, weight = 0, one = um_k_u32(k, 1);
    for (int32_t i = 0; i < r->axes; i++) {
        taps t = taps_of(r, &r->axis[i], here(r, i));
        for (int32_t n = 0; n < r->taps; n++) {
            um_val number = um_k_u32(k, (uint32_t)n);
            um_k_store(k, r->axis[i].weight, number, t.weight[n]);
            um_k_store(k, r->axis[i].place, number, to_u32(r, t.place[n]));
        }
    }
    for (int32_t i = 0; i < r->axes; i++) {
        um_val n = um_k_for(k, um_k_u32(k, 0), um_k_u32(k, (uint32_t)r->taps), one);
        um_val own = um_k_load(k, r->axis[i].weight, n);
        um_k_if(k, um_k_ne(k, own, real(r, 0)));
        at[i] = um_k_load(k, r->axis[i].place, n);
        weight = weight ? um_k_mul(k, weight, own) : own;
    }
    add(r, at, weight);
    for (int32_t i = 0; i < 2 * r->axes; i++) um_k_end(k);
}

/* Loops count in i32. */
static void make_backward(const resize *r)
{
    um_kernel *k = r->k;
    um_val at[UM_CONV_MAX_AXES] = {0}, weight = 0;
    for (int32_t i = 0; i < r->axes; i++) {
        um_val first, end;
        range_of(r, &r->axis[i], here(r, i), &first, &end);
        um_val o = um_k_for(k, um_kvalue_as(k, UM_I32, first), um_kvalue_as(k, UM_I32, end),
                            um_k_i32(k, 1));
        um_val own = weight_of(r, &r->axis[i], um_kvalue_as(k, r->whole, o), here(r, i));
        um_k_if(k, um_k_ne(k, own, real(r, 0)));
        at[i] = um_k_bitcast(k, UM_U32, 1, o);
        weight = weight ? um_k_mul(k, weight, own) : own;
    }
    add(r, at, weight);
    for (int32_t i = 0; i < 2 * r->axes; i++) um_k_end(k);
}

static um_dtype whole_of(const um_op *op)
{
    for (int32_t i = 0; i < op->in[0].rank - 2; i++) {
        int64_t in, out;
        sizes_of(op, i, &in, &out);
        if (8 * (in + 3) * (out + 3) > INT32_MAX) return UM_I64;
    }
    return UM_I32;
}

um_status um_kresize_plan(const um_op *op, um_kplan *plan)
{
    const um_view *views[2] = {&op->out[0], &op->in[0]};
    resize r = {.op = op, .desc = &op->attrs.resize, .whole = whole_of(op)};
    r.each.walk = um_kwalk_apart(2, views);
    r.compute = um_kvalue_compute(op->in[0].dtype);
    r.axes = op->in[0].rank - 2;
    r.space = um_space_axis(r.desc->layout);
    r.taps = r.desc->mode == UM_RESIZE_NEAREST ? 1 : r.desc->mode == UM_RESIZE_LINEAR ? 2 : TAPS;
    UM_TRY(um_keach_create(&r.each, plan, um_op_name(op->id)));
    r.k = r.each.k;
    um_keach_read(&r.each, 1);
    for (int32_t i = 0; i < r.axes; i++) declare_axis(&r, i);
    um_keach_begin(&r.each);
    r.sum = um_ksum_new(r.k, real(&r, 0), "sum");
    (is_backward(op) ? make_backward : make_forward)(&r);
    um_keach_store(&r.each, um_ksum_get(r.k, r.sum));
    return um_keach_finish(&r.each);
}
