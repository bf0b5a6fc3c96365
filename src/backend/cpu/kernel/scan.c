/* backend/cpu/kernel/scan.c: cumsum, cumprod, cummax. Floats run in f64, sums of them with what
 * each addition lost carried along (Neumaier 1974), so a running sum of any length is right to its
 * last rounding; integers run in 64 bits and wrap. One line at a time, or many next to each other
 * where the input is packed that way. */
#include "backend/cpu/kernel/walk.h"

#include <math.h>

um_status UM_ISA_FN(um_run_scan)(um_cpu_exec *exec, const um_op *op);

enum {
    PIECE = 512,   /* elements of a line at a time */
    WIDTH = 256,   /* lines side by side */
    TASK = 1 << 15 /* elements */
};

enum { OUT, IN };

typedef struct scan_plan {
    const um_op *op;
    um_class class;                    /* F64, I64 or U64 */
    um_walk lines;                     /* OUT, IN: all axes but the one */
    int64_t length, out_step, in_step; /* of a line */
    bool wide;
    int64_t width, pieces; /* groups of lines along the innermost axis of `lines` */
    int64_t groups, groups_a_task;
} scan_plan;

typedef union value {
    double f;
    int64_t i;
    uint64_t u;
} value;

typedef struct state {
    value so_far;
    double lost;
} state;

/* ---- one step ------------------------------------------------------------------------------- */

typedef value (*step_fn)(state *s, value x);

UM_INLINE value sum_f64(state *s, value x)
{
    double before = s->so_far.f, sum = before + x.f;
    s->lost += fabs(before) >= fabs(x.f) ? before - sum + x.f : x.f - sum + before;
    s->so_far.f = sum;
    return (value){.f = isfinite(sum) ? sum + s->lost : sum};
}
UM_INLINE value prod_f64(state *s, value x)
{
    s->so_far.f *= x.f;
    return s->so_far;
}
UM_INLINE value max_f64(state *s, value x)
{
    double top = s->so_far.f;
    if (x.f > top || isnan(x.f) || (x.f == top && signbit(top)))
        s->so_far.f = isnan(top) ? top : x.f;
    return s->so_far;
}
UM_INLINE value sum_int(state *s, value x)
{
    s->so_far.u += x.u;
    return s->so_far;
}
UM_INLINE value prod_int(state *s, value x)
{
    s->so_far.u *= x.u;
    return s->so_far;
}
UM_INLINE value max_i64(state *s, value x)
{
    if (x.i > s->so_far.i) s->so_far = x;
    return s->so_far;
}
UM_INLINE value max_u64(state *s, value x)
{
    if (x.u > s->so_far.u) s->so_far = x;
    return s->so_far;
}

/* x[i] becomes the result at i. state_step: 0 for a line, 1 for one element of each of n lines. */
UM_INLINE void scan_values(state *s, int64_t state_step, value *x, int64_t n, step_fn step)
{
    for (int64_t i = 0; i < n; i++) x[i] = step(s + i * state_step, x[i]);
}

UM_INLINE void scan_piece(const scan_plan *p, state *s, int64_t state_step, value *x, int64_t n)
{
    bool is_float = p->class == UM_CLASS_F64;
    switch (p->op->id) {
    case UM_OP_CUMSUM: scan_values(s, state_step, x, n, is_float ? sum_f64 : sum_int); return;
    case UM_OP_CUMPROD: scan_values(s, state_step, x, n, is_float ? prod_f64 : prod_int); return;
    case UM_OP_CUMMAX:
        scan_values(s, state_step, x, n,
                    is_float                   ? max_f64
                    : p->class == UM_CLASS_I64 ? max_i64
                                               : max_u64);
        return;
    }
}

/* ---- lines ---------------------------------------------------------------------------------- */

static state start_state(const scan_plan *p)
{
    state s = {.so_far.u = 0};
    bool is_float = p->class == UM_CLASS_F64;
    if (p->op->id == UM_OP_CUMPROD && is_float) s.so_far.f = 1;
    if (p->op->id == UM_OP_CUMPROD && !is_float) s.so_far.u = 1;
    if (p->op->id == UM_OP_CUMMAX && is_float) s.so_far.f = -(double)INFINITY;
    if (p->op->id == UM_OP_CUMMAX && p->class == UM_CLASS_I64) s.so_far.i = INT64_MIN;
    return s;
}

/* Elements first + i * step of one view through the running state to the other. */
static void scan_elements(const scan_plan *p, state *s, int64_t state_step, int64_t to,
                          int64_t to_step, int64_t from, int64_t from_step, int64_t n)
{
    value x[PIECE];
    const um_view *in = &p->op->in[0], *out = &p->op->out[0];
    um_load(p->class, x, in->dtype, (const void *)(uintptr_t)in->ptr, from, from_step, n);
    scan_piece(p, s, state_step, x, n);
    um_store(out->dtype, (void *)(uintptr_t)out->ptr, to, to_step, p->class, x, n);
}

static void scan_group(const scan_plan *p, int64_t group)
{
    int64_t inner = um_walk_inner(&p->lines), line = group % p->pieces * p->width;
    int64_t n = UM_MIN(p->width, inner - line);
    state s[WIDTH];
    for (int64_t i = 0; i < n; i++) s[i] = start_state(p);
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->lines, group / p->pieces * inner + line, &at);
    for (int64_t i = 0, m; i < p->length; i += m) {
        m = p->wide ? 1 : UM_MIN(PIECE, p->length - i);
        int64_t to = at.element[OUT] + i * p->out_step, from = at.element[IN] + i * p->in_step;
        if (p->wide)
            scan_elements(p, s, 1, to, um_walk_step(&p->lines, OUT), from,
                          um_walk_step(&p->lines, IN), n);
        else
            scan_elements(p, s, 0, to, p->out_step, from, p->in_step, m);
    }
}

static void scan_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const scan_plan *p = ctx;
    int64_t last = UM_MIN((task + 1) * p->groups_a_task, p->groups);
    for (int64_t group = task * p->groups_a_task; group < last; group++) scan_group(p, group);
}

static um_view without_axis(um_view v, int32_t axis)
{
    v.rank--;
    for (int32_t i = axis; i < v.rank; i++) {
        v.shape[i] = v.shape[i + 1];
        v.stride[i] = v.stride[i + 1];
    }
    return v;
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

um_status UM_ISA_FN(um_run_scan)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *in = &op->in[0], *out = &op->out[0];
    int32_t axis;
    if (um_view_count(out) == 0 || !um_axis_resolve(op->attrs.axis.axis, in->rank, &axis))
        return UM_OK;
    um_view out_lines = without_axis(*out, axis), in_lines = without_axis(*in, axis);
    scan_plan p = {.op = op,
                   .length = in->shape[axis],
                   .out_step = out->stride[axis],
                   .in_step = in->stride[axis]};
    um_class class = um_dtype_class(in->dtype);
    p.class = class == UM_CLASS_F32 ? UM_CLASS_F64 : class;
    UM_ISA_FN(um_walk_make)(&p.lines, 2, (const um_view *[]){&out_lines, &in_lines});
    int64_t inner = um_walk_inner(&p.lines);
    p.wide = inner > 1 && magnitude(um_walk_step(&p.lines, IN)) < magnitude(p.in_step);
    p.width = p.wide ? WIDTH : 1;
    p.pieces = um_ceil_div(inner, p.width);
    p.groups = p.lines.total / inner * p.pieces;
    p.groups_a_task = um_ceil_div(TASK, p.length * UM_MIN(p.width, inner));
    int64_t task_count = um_ceil_div(p.groups, p.groups_a_task);
    if (task_count > 1)
        um_cpu_parallel(exec, task_count, scan_task, &p);
    else
        scan_task(&p, 0, 0);
    return UM_OK;
}
