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

/* Axes of an input of x's shape of one kind as a view of their own. */
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

/* The output, or a view of its shape, without the axes that keepdims left in it. */
static um_view kept_output(const um_op *op, const um_view *view, uint32_t axes)
{
    return op->attrs.reduce.keepdims ? pick_axes(view, ~axes) : *view;
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

/* ---- programs ------------------------------------------------------------------------------- */

static bool reads(const um_rider *r, int32_t input)
{
    for (int32_t i = 1; i < r->in_count; i++)
        if (r->input[i] == input) return true;
    return false;
}

/* `kept` and `reduced` of a reduction with programs. */
static void make_walks(um_reduce_plan *p, uint32_t axes)
{
    const um_op *op = p->op;
    um_view kept[UM_WALK_MAX], gone[UM_MAP_MAX_INPUTS];
    const um_view *views[UM_WALK_MAX], *others[1 + UM_MAP_MAX_INPUTS] = {gone};
    kept[OUT] = kept_output(op, &op->out[0], axes);
    for (int32_t i = 0; i < op->in_count; i++) {
        bool like_x = i == 0 || (p->has_prologue && reads(&p->before, i));
        kept[IN + i] = like_x ? pick_axes(&op->in[i], ~axes) : kept_output(op, &op->in[i], axes);
    }
    for (int32_t v = 0; v <= op->in_count; v++) views[v] = &kept[v];
    UM_ISA_FN(um_walk_make)(&p->kept, op->in_count + 1, views);
    int32_t count = p->has_prologue ? p->before.in_count : 1;
    gone[0] = pick_axes(&op->in[0], axes);
    for (int32_t i = 0; i < count; i++) {
        if (i > 0) gone[i] = pick_axes(&op->in[p->before.input[i]], axes);
        others[1 + i] = &gone[i];
    }
    UM_ISA_FN(um_walk_make)(&p->reduced, 1 + count, others);
}

static void make_prologue(um_reduce_plan *p)
{
    um_program *program = &p->prologue;
    const um_rider *r = &p->before;
    program->inst = r->program.inst;
    program->inst_count = r->program.inst_count;
    program->dtype = r->program.dtype;
    program->in_count = r->in_count;
    for (int32_t i = 0; i < r->in_count; i++) {
        const um_view *view = &p->op->in[r->input[i]];
        program->data[i] = (const void *)(uintptr_t)view->ptr;
        program->in_dtype[i] = view->dtype;
    }
    program->walk = p->reduced;
    if (p->wide) {
        int64_t stride[UM_WALK_MAX] = {0};
        um_walk *w = &program->walk;
        um_walk_begin(w, p->reduced.views);
        for (int32_t axis = 0; axis < p->reduced.rank; axis++) {
            for (int32_t v = 0; v < w->views; v++) stride[v] = p->reduced.stride[v][axis];
            um_walk_add_axis(w, p->reduced.shape[axis], stride);
        }
        stride[0] = um_walk_step(&p->kept, IN);
        for (int32_t i = 0; i < r->in_count; i++)
            stride[1 + i] = um_walk_step(&p->kept, IN + r->input[i]);
        um_walk_add_axis(w, um_walk_inner(&p->kept), stride);
        um_walk_end(w);
    }
    UM_ISA_FN(um_program_make)(program, false);
}

static void make_epilogue(um_reduce_plan *p)
{
    um_map_plan *plan = &p->epilogue;
    const um_rider *r = &p->after;
    um_walk *w = &plan->program.walk;
    int64_t packed = 1;
    plan->out = p->op->out[0];
    plan->program.inst = r->program.inst;
    plan->program.inst_count = r->program.inst_count;
    plan->program.dtype = r->program.dtype;
    plan->program.in_count = r->in_count;
    *w = p->kept;
    w->views = 1 + r->in_count;
    for (int32_t axis = w->rank - 1; axis >= 0; packed *= w->shape[axis], axis--)
        w->stride[1][axis] = packed;
    plan->program.data[0] = NULL;
    plan->program.in_dtype[0] = p->made;
    for (int32_t i = 1; i < r->in_count; i++) {
        const um_view *view = &p->op->in[r->input[i]];
        plan->program.data[i] = (const void *)(uintptr_t)view->ptr;
        plan->program.in_dtype[i] = view->dtype;
        memcpy(w->stride[1 + i], p->kept.stride[IN + r->input[i]], sizeof w->stride[0]);
    }
    UM_ISA_FN(um_map_finish)(plan);
}

/* ---- all of it ------------------------------------------------------------------------------ */

void UM_ISA_FN(um_reduce_make)(um_reduce_plan *p, const um_op *op, bool ordered)
{
    const um_view *in = &op->in[0];
    uint32_t all = (1u << in->rank) - 1, axes;
    if (!um_axes_resolve(op->attrs.reduce.axes, in->rank, &axes) || axes == 0) axes = all;
    um_view out = kept_output(op, &op->out[0], axes), kept = pick_axes(in, ~axes),
            reduced = pick_axes(in, axes);
    p->op = op;
    p->has_prologue = um_op_rider(op, UM_PROLOGUE, &p->before);
    p->has_epilogue = um_op_rider(op, UM_EPILOGUE, &p->after);
    p->dtype = p->has_prologue ? p->before.program.dtype : in->dtype;
    p->made = um_op_made_dtype(op);
    p->class = um_dtype_class(p->dtype);
    p->bytes = (int64_t)um_class_bytes(p->class);
    p->block = UM_REDUCE_WIDTH_BYTES / p->bytes;
    p->loops = class_loops(p->class);
    UM_ISA_FN(um_walk_make)(&p->kept, 2, (const um_view *[]){&out, &kept});
    if (p->has_prologue || p->has_epilogue) {
        make_walks(p, axes);
    } else if (ordered) {
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
    if (p->has_prologue) make_prologue(p);
    if (p->has_epilogue) make_epilogue(p);
}

um_reduce_group UM_ISA_FN(um_reduce_find)(const um_reduce_plan *p, int64_t group)
{
    int64_t inner = um_walk_inner(&p->kept), first = group % p->pieces * p->width;
    um_reduce_group g = {.first = group / p->pieces * inner + first,
                         .n = UM_MIN(p->width, inner - first)};
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->kept, g.first, &at);
    g.out = at.element[OUT];
    g.in = at.element[IN];
    for (int32_t i = 0; p->has_prologue && i < p->before.in_count; i++)
        g.element[i] = at.element[IN + p->before.input[i]];
    return g;
}

const void *UM_ISA_FN(um_reduce_along)(const um_reduce_plan *p, const um_reduce_group *g,
                                       um_walk_at *at, int64_t n, void *buffer)
{
    const um_view *in = &p->op->in[0];
    const char *from = (const char *)(uintptr_t)in->ptr;
    int64_t axis = p->reduced.rank - 1, step = um_walk_step(&p->reduced, 0);
    int64_t run = UM_MIN(n, p->reduced.shape[axis] - at->index[axis]);
    if (run == n && step == 1 && um_is_class_dtype(in->dtype)) {
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
    if (step == 1 && um_is_class_dtype(in->dtype)) return from + first * p->bytes;
    um_load(p->class, buffer, in->dtype, from, first, step, g->n);
    return buffer;
}

static bool is_far(const um_reduce_plan *p)
{
    return magnitude(um_walk_step(&p->reduced, 0)) * p->bytes >= ROWS_APART_BYTES;
}

bool UM_ISA_FN(um_reduce_by_eight)(const um_reduce_plan *p)
{
    return p->loops->across_rows && p->reduced.rank == 1 && is_far(p);
}

const void *UM_ISA_FN(um_reduce_rows)(const um_reduce_plan *p, const um_reduce_group *g,
                                      um_walk_at *at, int64_t *step)
{
    const um_view *in = &p->op->in[0];
    int64_t axis = p->reduced.rank - 1, first = g->in + at->element[0];
    *step = um_walk_step(&p->reduced, 0);
    bool direct = um_walk_step(&p->kept, IN) == 1 && um_is_class_dtype(in->dtype);
    if (!direct || !is_far(p) || !p->loops->across_rows) return NULL;
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
    c->fn(c->exec, c->p, task * c->groups_a_task, last);
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
