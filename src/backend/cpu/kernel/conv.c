/* backend/cpu/kernel/conv.c: convolution: turns the op into a `conv` (conv.h), says which positions
 * a part of the work makes and from where, and chooses a form: products of packed matrices whose
 * one side is gathered from the tensor as it is needed (conv_gemm_body.h, and conv_filter_body.h
 * for the filter's gradient), or, with one channel a group, lines added up in place
 * (conv_direct_body.h).
 *
 * The gradient for the data gathers, too: the places of the wide side that are equal modulo the
 * stride are met by the same taps, and along them it is a convolution of stride 1. So no two tasks
 * write one element. */
#include "backend/cpu/kernel/conv.h"

um_status UM_ISA_FN(um_run_conv)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_conv_filter)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_program)(um_cpu_exec *exec, const um_op *op);

/* Multiply-adds below which one thread is enough: 2M take ~50 us. */
#define CONV_SHARED_WORK ((int64_t)1 << 21)

/* ---- parts of the work ---------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The narrow side is made from the wide one. */
static conv_reach reach_forward(const conv_axis *x)
{
    return (conv_reach){x->narrow, 0, 1, x->kernel, 0, 1, -x->pad, x->dilation, x->stride, x->wide};
}

/* Parts that the wide side's places fall into. */
static int64_t phases_of(const conv_axis *x) { return UM_MIN(x->stride, UM_MAX(x->wide, 1)); }

/* Taps whose numbers are equal modulo this meet the same places of the wide side. */
static int64_t tap_classes(const conv_axis *x) { return x->stride / gcd(x->stride, x->dilation); }

/* The wide side's places `phase` + j * stride are made from the narrow one. */
static conv_reach reach_backward(const conv_axis *x, int64_t phase)
{
    int64_t classes = tap_classes(x), shift = phase + x->pad, tap = 0;
    conv_reach r = {.first_made = phase, .step_made = x->stride, .step = 1, .size = x->narrow};
    r.count = um_ceil_div(UM_MAX(x->wide - phase, 0), x->stride);
    while (tap < UM_MIN(classes, x->kernel) && (shift - tap * x->dilation) % x->stride != 0) tap++;
    if (tap >= UM_MIN(classes, x->kernel)) return r;
    r.taps = um_ceil_div(x->kernel - tap, classes);
    r.first_tap = tap;
    r.step_tap = classes;
    r.offset = (shift - tap * x->dilation) / x->stride;
    r.step_offset = -x->dilation * classes / x->stride;
    return r;
}

/* ---- positions ------------------------------------------------------------------------------ */

static int64_t count_positions(const conv_reach *reach)
{
    int64_t count = 1;
    for (int32_t a = 0; a < CONV_AXES; a++) count *= reach[a].count;
    return count;
}

static int64_t count_taps(const conv_reach *reach)
{
    int64_t count = 1;
    for (int32_t a = 0; a < CONV_AXES; a++) count *= reach[a].taps;
    return count;
}

/* Splits positions [first, first + count) of block->reach into runs. */
static void find_runs(conv_block *b, int64_t first, int64_t count)
{
    int64_t index[CONV_AXES], rest = first;
    b->count = count;
    b->runs = 0;
    for (int32_t a = CONV_INNER; a >= 0 && count > 0; a--) {
        index[a] = rest % b->reach[a].count;
        rest /= b->reach[a].count;
    }
    for (int64_t column = 0; column < count;) {
        conv_run *run = &b->run[b->runs++];
        run->column = column;
        run->count = UM_MIN(b->reach[CONV_INNER].count - index[CONV_INNER], count - column);
        memcpy(run->index, index, sizeof index);
        column += run->count;
        index[CONV_INNER] = 0;
        for (int32_t a = CONV_INNER - 1; a >= 0 && ++index[a] == b->reach[a].count; a--)
            index[a] = 0;
    }
}

/* Where each position lies in the made side, in elements from its channel's first. */
static void place_positions(const conv_block *b, const conv_side *made, int64_t *at)
{
    for (int32_t r = 0; r < b->runs; r++) {
        const conv_run *run = &b->run[r];
        int64_t element = 0;
        for (int32_t a = 0; a < CONV_AXES; a++)
            element +=
                (b->reach[a].first_made + run->index[a] * b->reach[a].step_made) * made->axis[a];
        int64_t step = b->reach[CONV_INNER].step_made * made->axis[CONV_INNER];
        for (int64_t i = 0; i < run->count; i++) at[run->column + i] = element + i * step;
    }
}

/* i with offset + i * step >= 0, the least. */
static int64_t first_inside(int64_t offset, int64_t step)
{
    return offset >= 0 ? 0 : um_ceil_div(-offset, step);
}

/* What tap tap[a] of each axis finds in `other` for one run. */
static conv_span find_span(const conv_block *b, const conv_run *run, const int64_t *axis_step,
                           const int64_t *tap)
{
    int64_t place = 0, first = 0;
    bool inside = true;
    for (int32_t a = 0; a < CONV_AXES; a++) {
        const conv_reach *r = &b->reach[a];
        place = r->offset + tap[a] * r->step_offset + run->index[a] * r->step;
        if (a == CONV_INNER) break;
        inside = inside && place >= 0 && place < r->size;
        if (inside) first += place * axis_step[a];
    }
    const conv_reach *r = &b->reach[CONV_INNER];
    int64_t from = UM_MIN(first_inside(place, r->step), run->count);
    int64_t to = place < r->size ? UM_MIN(um_ceil_div(r->size - place, r->step), run->count) : 0;
    if (!inside || from >= to) return (conv_span){run->column, run->count, 0, 0, 0};
    first += (place + from * r->step) * axis_step[CONV_INNER];
    return (conv_span){run->column, from, to - from, run->count - to, first};
}

static void split_tap(const conv_reach *reach, int64_t number, int64_t *tap)
{
    for (int32_t a = CONV_INNER; a >= 0; a--) {
        tap[a] = number % reach[a].taps;
        number /= reach[a].taps;
    }
}

/* What tap `number` of the block's finds. */
static void find_spans(const conv_block *b, const int64_t *axis_step, int64_t number,
                       conv_span *span)
{
    int64_t tap[CONV_AXES];
    split_tap(b->reach, number, tap);
    for (int32_t r = 0; r < b->runs; r++) span[r] = find_span(b, &b->run[r], axis_step, tap);
}

/* Runs fn for each task, by all lanes or by this one alone. */
static void each_task(const conv *c, int64_t count, um_cpu_task_fn fn, void *ctx)
{
    if (c->shared)
        um_cpu_parallel(c->exec, count, fn, ctx);
    else
        for (int64_t i = 0; i < count; i++) fn(ctx, i, 0);
}

/* ---- epilogues ------------------------------------------------------------------------------ */

static int64_t run_element(const conv_side *side, const conv_block *b, const conv_run *run)
{
    int64_t at = 0;
    for (int32_t a = 0; a < CONV_AXES; a++)
        at += (b->reach[a].first_made + run->index[a] * b->reach[a].step_made) * side->axis[a];
    return at;
}

/* From channel `channel` on (counted through all groups) rows channels, by count positions from a
 * run's first on, in the order that lies together. */
static um_view run_view(const conv_side *side, const conv_block *b, const conv_run *run,
                        int64_t count, int64_t channel, int64_t rows, bool turned)
{
    um_view v = {.dtype = side->dtype, .rank = 2};
    int64_t first = channel * side->channel + run_element(side, b, run);
    v.ptr = (um_ptr)(uintptr_t)side->data + (um_ptr)(first * (um_dtype_bits(v.dtype) / 8));
    v.shape[turned] = rows;
    v.shape[!turned] = count;
    v.stride[turned] = side->channel;
    v.stride[!turned] = b->reach[CONV_INNER].step_made * side->axis[CONV_INNER];
    return v;
}

/* Whether a side goes on evenly from a run to the next. */
static bool runs_join(const conv_side *side, const conv_block *b, const conv_run *run)
{
    int64_t step = b->reach[CONV_INNER].step_made * side->axis[CONV_INNER];
    return run_element(side, b, run) + run->count * step == run_element(side, b, run + 1);
}

/* The program on what a task has made of a block: element [row, position] is at value + row *
 * row_step + position * step. */
static void run_program(const conv *c, const conv_side *made, const conv_block *b, int64_t channel,
                        int64_t rows, const void *value, um_dtype dtype, int64_t row_step,
                        int64_t step)
{
    bool turned = row_step == 1 && step != 1;
    for (int32_t r = 0, end; r < b->runs; r = end) {
        const conv_run *run = &b->run[r];
        bool joins = true;
        for (end = r + 1; end < b->runs; end++) {
            joins = runs_join(made, b, run + (end - 1 - r));
            for (int32_t i = 1; i < c->rider->in_count; i++)
                joins = joins && runs_join(&c->more[i], b, run + (end - 1 - r));
            if (!joins) break;
        }
        int64_t count = b->run[end - 1].column + b->run[end - 1].count - run->column;
        um_view out = run_view(made, b, run, count, channel, rows, turned), in[UM_MAP_MAX_INPUTS];
        const um_view *views[UM_MAP_MAX_INPUTS];
        um_map_plan plan;
        int64_t first = run->column * step * (um_dtype_bits(dtype) / 8);
        in[0] = out;
        in[0].dtype = dtype;
        in[0].ptr = (um_ptr)(uintptr_t)value + (um_ptr)first;
        in[0].stride[turned] = row_step;
        in[0].stride[!turned] = step;
        for (int32_t i = 0; i < c->rider->in_count; i++) {
            if (i > 0) in[i] = run_view(&c->more[i], b, run, count, channel, rows, turned);
            views[i] = &in[i];
        }
        UM_ISA_FN(um_map_make)(&plan, &c->rider->program, &out, c->rider->in_count, views);
        UM_ISA_FN(um_map_range)(&plan, 0, rows * count);
    }
}

/* ---- the bodies ----------------------------------------------------------------------------- */

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/conv_gemm_body.h"

#include "backend/cpu/kernel/conv_filter_body.h"

#include "backend/cpu/kernel/conv_direct_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/conv_gemm_body.h"

#include "backend/cpu/kernel/conv_filter_body.h"

#include "backend/cpu/kernel/conv_direct_body.h"

/* ---- the op as a conv ----------------------------------------------------------------------- */

static conv_side side_of(const um_view *view, int32_t layout, int64_t groups)
{
    conv_side s = {.data = (void *)(uintptr_t)view->ptr, .dtype = view->dtype};
    int32_t axes = view->rank - 2;
    int32_t channel = um_channel_axis(layout, view->rank);
    s.channel = view->stride[channel];
    s.group = groups > 1 ? s.channel * (view->shape[channel] / groups) : 0;
    s.axis[0] = view->stride[0];
    for (int32_t i = 0; i < axes; i++)
        s.axis[CONV_AXES - axes + i] = view->stride[um_space_axis(layout) + i];
    return s;
}

static conv_axis axis_of(const um_op *op, const um_conv_views *v, int32_t i)
{
    const um_conv_desc *d = &op->attrs.conv;
    int32_t at = um_space_axis(d->layout) + i;
    return (conv_axis){v->wide->shape[at], v->narrow->shape[at], v->filter->shape[2 + i],
                       d->stride[i],       d->dilation[i],       d->pad_before[i]};
}

static bool is_trivial(const conv_axis *x)
{
    return x->kernel == 1 && x->stride == 1 && x->pad == 0 && x->wide == x->narrow;
}

/* Two axes become one, the inner, where the filter has one tap and strides line up. */
static void fold_axes(conv *c, int32_t outer)
{
    conv_axis *x = &c->axis[outer], *y = &c->axis[outer + 1];
    conv_side *sides[1 + UM_MAP_MAX_INPUTS] = {&c->wide, &c->narrow};
    int32_t count = 2;
    for (int32_t i = 1; c->rider && i < c->rider->in_count; i++) sides[count++] = &c->more[i];
    if (!is_trivial(x) || !is_trivial(y)) return;
    for (int32_t i = 0; i < count; i++) {
        const int64_t *step = &sides[i]->axis[outer];
        int64_t whole;
        if (!um_mul_i64(step[1], y->wide, &whole)) return;
        if (x->wide != 1 && y->wide != 1 && step[0] != whole) return;
    }
    for (int32_t i = 0; i < count; i++) {
        int64_t *step = &sides[i]->axis[outer];
        if (y->wide == 1) step[1] = step[0];
    }
    y->wide = y->narrow = x->wide * y->wide;
    x->wide = x->narrow = 1;
}

static conv conv_of(um_cpu_exec *exec, const um_op *op, bool to_wide, const um_rider *rider)
{
    um_conv_views v = um_conv_get_views(op, &op->out[0]);
    const um_conv_desc *d = &op->attrs.conv;
    int32_t axes = v.wide->rank - 2;
    int64_t filters = v.filter->shape[0] / d->groups, channels = v.filter->shape[1];
    conv c = {.exec = exec, .groups = d->groups, .taps = 1, .positions = 1, .rider = rider};
    c.wide = side_of(v.wide, d->layout, d->groups);
    c.narrow = side_of(v.narrow, d->layout, d->groups);
    c.m = to_wide ? channels : filters;
    c.q = to_wide ? filters : channels;
    c.filter = (conv_filter){.data = (void *)(uintptr_t)v.filter->ptr, .dtype = v.filter->dtype};
    c.filter.m = v.filter->stride[to_wide ? 1 : 0];
    c.filter.q = v.filter->stride[to_wide ? 0 : 1];
    c.filter.group = d->groups > 1 ? v.filter->stride[0] * filters : 0;
    for (int32_t a = 0; a < CONV_AXES; a++) c.axis[a] = (conv_axis){1, 1, 1, 1, 1, 0};
    c.axis[0].wide = c.axis[0].narrow = v.wide->shape[0];
    for (int32_t i = 0; i < axes; i++) {
        c.axis[CONV_AXES - axes + i] = axis_of(op, &v, i);
        c.filter.axis[CONV_AXES - axes + i] = v.filter->stride[2 + i];
    }
    for (int32_t i = 1; rider && i < rider->in_count; i++)
        c.more[i] = side_of(&op->in[rider->input[i]], d->layout, d->groups);
    for (int32_t a = 0; a < CONV_INNER; a++) fold_axes(&c, a);
    for (int32_t a = 0; a < CONV_AXES; a++) {
        c.taps *= c.axis[a].kernel;
        c.positions *= c.axis[a].narrow;
    }
    c.bias = op->id == UM_OP_CONV && um_op_has_input(op, 2) ? &op->in[2] : NULL;
    double work = (double)c.groups * (double)c.m * (double)c.q * (double)c.taps;
    c.shared = work * (double)c.positions >= (double)CONV_SHARED_WORK;
    return c;
}

/* So few products a tile of them would be mostly empty. */
static bool is_direct(const conv *c) { return c->q == 1 && c->m < 4; }

static um_status run_conv(um_cpu_exec *exec, const um_op *op, const um_rider *rider)
{
    bool to_wide = !op->attrs.conv.transposed == (op->id == UM_OP_CONV_BACKWARD_DATA);
    conv c = conv_of(exec, op, to_wide, rider);
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    bool f64 = op->in[0].dtype == UM_F64;
    if (is_direct(&c)) return f64 ? direct_run_f64(&c, to_wide) : direct_run_f32(&c, to_wide);
    return f64 ? conv_gemm_run_f64(&c, to_wide) : conv_gemm_run_f32(&c, to_wide);
}

/* Whether what the epilogue reads first can lie where its result goes. */
static bool takes_place(const um_op *op, const um_rider *rider)
{
    for (int32_t i = 1; i < rider->in_count; i++)
        if (um_views_identical(&op->in[rider->input[i]], &op->out[0])) return false;
    return op->out[0].dtype == um_op_made_dtype(op);
}

/* Then the epilogue goes over the whole output, which is faster by a tenth than over each block's
 * rows, short and far apart as they are. */
um_status UM_ISA_FN(um_run_conv)(um_cpu_exec *exec, const um_op *op)
{
    um_rider rider;
    if (!um_op_rider(op, UM_EPILOGUE, &rider)) return run_conv(exec, op, NULL);
    if (!takes_place(op, &rider)) return run_conv(exec, op, &rider);
    um_op after = {.id = UM_OP_MAP, .in_count = rider.in_count, .out_count = 1};
    after.attrs.program = &rider.program;
    after.out[0] = after.in[0] = op->out[0];
    for (int32_t i = 1; i < rider.in_count; i++) after.in[i] = op->in[rider.input[i]];
    UM_TRY(run_conv(exec, op, NULL));
    return UM_ISA_FN(um_run_program)(exec, &after);
}

um_status UM_ISA_FN(um_run_conv_filter)(um_cpu_exec *exec, const um_op *op)
{
    conv c = conv_of(exec, op, false, NULL);
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    bool f64 = op->in[0].dtype == UM_F64;
    if (is_direct(&c)) return f64 ? direct_filter_run_f64(&c) : direct_filter_run_f32(&c);
    return f64 ? conv_filter_run_f64(&c) : conv_filter_run_f32(&c);
}
