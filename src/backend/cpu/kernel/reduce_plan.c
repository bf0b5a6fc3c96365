/* backend/cpu/kernel/reduce_plan.c: see reduce.h. */
#include "backend/cpu/kernel/reduce.h"

enum { OUT, IN };

/* Rows so far apart are read eight at once (4096x4096 floats: 25 against 11 GB/s on one core); the
 * processor reads closer ones ahead by itself (65536x256: 13 against 30). */
enum { ROWS_APART_BYTES = 4096 };

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

static const um_fold_loops *class_loops(um_class class)
{
    switch (class) {
    case UM_CLASS_F32: return &UM_ISA_FN(um_fold_f32);
    case UM_CLASS_F64: return &UM_ISA_FN(um_fold_f64);
    case UM_CLASS_I64: return &UM_ISA_FN(um_fold_i64);
    case UM_CLASS_U64: return &UM_ISA_FN(um_fold_u64);
    }
    return NULL;
}

/* The input's axes of one kind as a view of their own. */
static um_view pick_axes(const um_view *in, uint32_t axes)
{
    um_view part = {.ptr = in->ptr, .dtype = in->dtype};
    for (int32_t i = 0; i < in->rank; i++) {
        if (!(axes >> i & 1)) continue;
        part.shape[part.rank] = in->shape[i];
        part.stride[part.rank++] = in->stride[i];
    }
    return part;
}

/* The output without the axes that keepdims left in it. */
static um_view kept_output(const um_op *op, uint32_t axes)
{
    um_view out = op->out[0];
    if (!op->attrs.reduce.keepdims) return out;
    out.rank = 0;
    for (int32_t i = 0; i < op->in[0].rank; i++) {
        if (axes >> i & 1) continue;
        out.shape[out.rank] = op->out[0].shape[i];
        out.stride[out.rank++] = op->out[0].stride[i];
    }
    return out;
}

/* Whether to take many outputs at once: when the input is packed along them, or when each has
 * little to fold. */
static bool should_be_wide(const um_reduce_plan *p)
{
    int64_t across = magnitude(um_walk_step(&p->kept, IN)),
            along = magnitude(um_walk_step(&p->reduced, 0));
    int64_t outputs = um_walk_inner(&p->kept);
    if (outputs == 1 || p->reduced.total == 1) return outputs > 1;
    return across < along || (um_walk_inner(&p->reduced) < 16 && outputs >= 16);
}

void UM_ISA_FN(um_reduce_make)(um_reduce_plan *p, const um_op *op, bool ordered)
{
    const um_view *in = &op->in[0];
    uint32_t all = (1u << in->rank) - 1, axes;
    if (!um_axes_resolve(op->attrs.reduce.axes, in->rank, &axes) || axes == 0) axes = all;
    um_view out = kept_output(op, axes), kept = pick_axes(in, all & ~axes),
            reduced = pick_axes(in, axes);
    p->op = op;
    p->class = um_dtype_class(in->dtype);
    p->bytes = (int64_t)um_class_bytes(p->class);
    p->block = UM_REDUCE_WIDTH_BYTES / p->bytes;
    p->loops = class_loops(p->class);
    UM_ISA_FN(um_walk_make)(&p->kept, 2, (const um_view *[]){&out, &kept});
    if (ordered) {
        um_walk_begin(&p->reduced, 1);
        for (int32_t i = 0; i < reduced.rank; i++)
            um_walk_add_axis(&p->reduced, reduced.shape[i], &reduced.stride[i]);
        um_walk_end(&p->reduced);
    } else {
        UM_ISA_FN(um_walk_make)(&p->reduced, 1, (const um_view *[]){&reduced});
    }
    p->wide = should_be_wide(p);
    p->width = p->wide ? p->block : 1;
    p->pieces = um_ceil_div(um_walk_inner(&p->kept), p->width);
    p->groups = p->kept.total / um_walk_inner(&p->kept) * p->pieces;
    p->chunk = p->wide ? UM_REDUCE_ROWS : UM_REDUCE_CHUNK;
    p->chunks = um_ceil_div(p->reduced.total, p->chunk);
}

um_reduce_group UM_ISA_FN(um_reduce_find)(const um_reduce_plan *p, int64_t group)
{
    int64_t inner = um_walk_inner(&p->kept), first = group % p->pieces * p->width;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->kept, group / p->pieces * inner + first, &at);
    return (um_reduce_group){at.element[OUT], at.element[IN], UM_MIN(p->width, inner - first)};
}

static bool is_class_dtype(um_dtype dtype)
{
    return dtype == UM_F32 || dtype == UM_F64 || dtype == UM_I64 || dtype == UM_U64;
}

const void *UM_ISA_FN(um_reduce_along)(const um_reduce_plan *p, const um_reduce_group *g,
                                       um_walk_at *at, int64_t n, void *buffer)
{
    const um_view *in = &p->op->in[0];
    const char *from = (const char *)(uintptr_t)in->ptr;
    int64_t axis = p->reduced.rank - 1, step = um_walk_step(&p->reduced, 0);
    int64_t run = UM_MIN(n, p->reduced.shape[axis] - at->index[axis]);
    if (run == n && step == 1 && is_class_dtype(in->dtype)) {
        const void *here = from + (g->in + at->element[0]) * p->bytes;
        um_walk_advance(&p->reduced, at, n);
        return here;
    }
    for (int64_t done = 0; done < n; done += run) {
        run = UM_MIN(n - done, p->reduced.shape[axis] - at->index[axis]);
        um_load(p->class, (char *)buffer + done * p->bytes, in->dtype, from, g->in + at->element[0],
                step, run);
        um_walk_advance(&p->reduced, at, run);
    }
    return buffer;
}

const void *UM_ISA_FN(um_reduce_across)(const um_reduce_plan *p, const um_reduce_group *g,
                                        um_walk_at *at, void *buffer)
{
    const um_view *in = &p->op->in[0];
    const char *from = (const char *)(uintptr_t)in->ptr;
    int64_t first = g->in + at->element[0], step = um_walk_step(&p->kept, IN);
    um_walk_advance(&p->reduced, at, 1);
    if (step == 1 && is_class_dtype(in->dtype)) return from + first * p->bytes;
    um_load(p->class, buffer, in->dtype, from, first, step, g->n);
    return buffer;
}

const void *UM_ISA_FN(um_reduce_rows)(const um_reduce_plan *p, const um_reduce_group *g,
                                      um_walk_at *at, int64_t *step)
{
    const um_view *in = &p->op->in[0];
    int64_t axis = p->reduced.rank - 1, first = g->in + at->element[0];
    *step = um_walk_step(&p->reduced, 0);
    bool direct = um_walk_step(&p->kept, IN) == 1 && is_class_dtype(in->dtype);
    bool far = magnitude(*step) * p->bytes >= ROWS_APART_BYTES;
    if (!direct || !far || !p->loops->across_rows) return NULL;
    if (p->reduced.shape[axis] - at->index[axis] < UM_FOLD_ROWS) return NULL;
    um_walk_advance(&p->reduced, at, UM_FOLD_ROWS);
    return (const char *)(uintptr_t)in->ptr + first * p->bytes;
}

typedef struct groups_ctx {
    um_cpu_exec *exec;
    const um_reduce_plan *p;
    um_reduce_fn fn;
    int64_t groups_a_task;
} groups_ctx;

static void groups_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const groups_ctx *c = ctx;
    int64_t last = UM_MIN((task + 1) * c->groups_a_task, c->p->groups);
    for (int64_t group = task * c->groups_a_task; group < last; group++)
        c->fn(c->exec, c->p, group);
}

void UM_ISA_FN(um_reduce_groups)(um_cpu_exec *exec, const um_reduce_plan *p, um_reduce_fn fn)
{
    int64_t elements = UM_MAX(p->reduced.total, 1) * UM_MIN(p->width, um_walk_inner(&p->kept));
    groups_ctx ctx = {exec, p, fn, um_ceil_div(UM_REDUCE_CHUNK / 2, elements)};
    int64_t task_count = um_ceil_div(p->groups, ctx.groups_a_task);
    if (task_count > 1)
        um_cpu_parallel(exec, task_count, groups_task, &ctx);
    else
        groups_task(&ctx, 0, 0);
}
