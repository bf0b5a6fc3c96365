/* backend/cpu/kernel/resize.c: resize and its gradient: which places each place takes, by what
 * weights (in integers, so that a place that is met exactly is met exactly), and the splitting into
 * rows of the output. Pooling: pool.c. */
#include "backend/cpu/kernel/resize.h"

um_status UM_ISA_FN(um_run_resize)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_resize_backward)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the second is a task's least. */
#define RESIZE_SHARED ((int64_t)1 << 16)
#define RESIZE_TASK   ((int64_t)1 << 13)

static int64_t plane_first(const resize *r, const resize_side *side, int64_t plane)
{
    return plane / r->channels * side->batch + plane % r->channels * side->channel;
}

/* What place i takes by these taps, in all. */
static double weight_of(const resize_taps *t, int64_t i)
{
    double weight = 0;
    for (int64_t k = 0; k < t->count; k++) weight += t->place[k] == i ? t->weight[k] : 0;
    return weight;
}

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/resize_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/resize_body.h"

/* ---- taps ----------------------------------------------------------------------------------- */

static void add_tap(resize_taps *t, const resize_axis *x, int64_t place, double weight)
{
    if (weight == 0) return;
    t->place[t->count] = UM_MIN(UM_MAX(place, 0), x->in - 1);
    t->weight[t->count++] = weight;
}

/* Keys 1981, with a = -0.75, for a place that lies t after x's `place` and u = 1 - t before the
 * next; in factors, so that small weights are exact, too. */
static void add_cubic(resize_taps *taps, const resize_axis *x, int64_t place, double t, double u)
{
    add_tap(taps, x, place - 1, -0.75 * t * u * u);
    add_tap(taps, x, place, u * (1 + t - 1.25 * t * t));
    add_tap(taps, x, place + 1, t * (1 + u - 1.25 * u * u));
    add_tap(taps, x, place + 2, -0.75 * u * t * t);
}

static resize_taps taps_of(const um_resize_desc *d, const resize_axis *x, int64_t o)
{
    resize_taps t = {.count = 0};
    if (d->mode == UM_RESIZE_NEAREST) {
        add_tap(&t, x, o * x->in / x->out, 1);
        return t;
    }
    bool corners = d->align_corners;
    int64_t above = corners ? o * (x->in - 1) : (2 * o + 1) * x->in - x->out;
    int64_t below = corners ? UM_MAX(x->out - 1, 1) : 2 * x->out;
    if (d->mode == UM_RESIZE_LINEAR) above = UM_MAX(above, 0);
    int64_t place = above / below, rest = above % below;
    if (rest < 0) place--, rest += below;
    double part = (double)rest / (double)below, left = (double)(below - rest) / (double)below;
    if (d->mode == UM_RESIZE_CUBIC) {
        add_cubic(&t, x, place, part, left);
    } else if (place >= x->in - 1) {
        add_tap(&t, x, place, 1);
    } else {
        add_tap(&t, x, place, left);
        add_tap(&t, x, place + 1, part);
    }
    return t;
}

static void find_taps(const um_resize_desc *d, resize_axis *x)
{
    for (int64_t i = 0; i < x->in; i++) x->given[i] = (resize_range){x->out, -1};
    for (int64_t o = 0; o < x->out; o++) {
        x->taps[o] = taps_of(d, x, o);
        for (int64_t k = 0; k < x->taps[o].count; k++) {
            resize_range *given = &x->given[x->taps[o].place[k]];
            given->first = UM_MIN(given->first, o);
            given->last = o;
        }
    }
}

/* ---- the op as a resize --------------------------------------------------------------------- */

static resize_side side_of(const um_view *view, int32_t layout)
{
    resize_side s = {.data = (void *)(uintptr_t)view->ptr, .dtype = view->dtype};
    int32_t axes = view->rank - 2;
    s.batch = view->stride[0];
    s.channel = view->stride[um_channel_axis(layout, view->rank)];
    for (int32_t i = 0; i < axes; i++)
        s.axis[RESIZE_AXES - axes + i] = view->stride[um_space_axis(layout) + i];
    return s;
}

static resize resize_of(um_cpu_exec *exec, const um_op *op, const um_view *x, const um_view *y)
{
    int32_t layout = op->attrs.resize.layout, axes = x->rank - 2;
    resize r = {.exec = exec, .x = side_of(x, layout), .y = side_of(y, layout)};
    r.channels = x->shape[um_channel_axis(layout, x->rank)];
    r.planes = x->shape[0] * r.channels;
    for (int32_t i = 0; i < RESIZE_AXES; i++) r.axis[i] = (resize_axis){.in = 1, .out = 1};
    for (int32_t i = 0; i < axes; i++) {
        r.axis[RESIZE_AXES - axes + i].in = x->shape[um_space_axis(layout) + i];
        r.axis[RESIZE_AXES - axes + i].out = y->shape[um_space_axis(layout) + i];
    }
    const resize_axis *across = &r.axis[RESIZE_ACROSS];
    r.shared = um_view_count(x) + um_view_count(y) >= RESIZE_SHARED;
    r.rows_a_task = um_ceil_div(RESIZE_TASK, UM_MAX(UM_MAX(across->in, across->out), 1));
    return r;
}

/* Scratch: taps and ranges, and three rows of each size for each lane. */
static um_status reserve(resize *r, const um_resize_desc *d)
{
    size_t at[RESIZE_AXES], tables = 0, own, total;
    int32_t lanes = r->shared ? r->exec->lanes : 1;
    const resize_axis *across = &r->axis[RESIZE_ACROSS];
    for (int32_t i = 0; i < RESIZE_AXES; i++) {
        size_t taps, given;
        at[i] = tables;
        if (__builtin_mul_overflow((size_t)r->axis[i].out, sizeof(resize_taps), &taps) ||
            __builtin_mul_overflow((size_t)r->axis[i].in, sizeof(resize_range), &given) ||
            __builtin_add_overflow(tables, taps, &tables) ||
            __builtin_add_overflow(tables, given, &tables))
            goto too_large;
    }
    if (__builtin_mul_overflow((size_t)across->in + (size_t)across->out + 8, 24, &own) ||
        __builtin_add_overflow(own, tables / (size_t)lanes + 256, &total))
        goto too_large;
    UM_TRY(um_cpu_scratch_reserve(r->exec, total));
    r->own_bytes = own / 64 * 64;
    r->own = r->exec->scratch + (tables + 63) / 64 * 64;
    for (int32_t i = 0; i < RESIZE_AXES; i++) {
        r->axis[i].taps = (resize_taps *)(void *)(r->exec->scratch + at[i]);
        r->axis[i].given = (resize_range *)(void *)(r->axis[i].taps + r->axis[i].out);
        find_taps(d, &r->axis[i]);
    }
    return UM_OK;
too_large:
    return UM_FAIL(UM_OUT_OF_MEMORY, "resize: rows of %lld and %lld do not fit in memory",
                   (long long)across->in, (long long)across->out);
}

static void each_row(resize *r, int64_t rows, um_cpu_task_fn fn)
{
    int64_t count = um_ceil_div(r->planes * rows, r->rows_a_task);
    if (r->shared)
        um_cpu_parallel(r->exec, count, fn, r);
    else
        for (int64_t i = 0; i < count; i++) fn(r, i, 0);
}

um_status UM_ISA_FN(um_run_resize)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    resize r = resize_of(exec, op, &op->in[0], &op->out[0]);
    UM_TRY(reserve(&r, &op->attrs.resize));
    each_row(&r, r.axis[0].out * r.axis[1].out,
             r.x.dtype == UM_F64 ? resize_task_f64 : resize_task_f32);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_resize_backward)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    resize r = resize_of(exec, op, &op->out[0], &op->in[0]);
    UM_TRY(reserve(&r, &op->attrs.resize));
    each_row(&r, r.axis[0].in * r.axis[1].in,
             r.x.dtype == UM_F64 ? resize_back_task_f64 : resize_back_task_f32);
    return UM_OK;
}
