/* backend/cpu/kernel/reduce_arg.c: argmax and argmin. */
#include "backend/cpu/kernel/reduce.h"

um_status UM_ISA_FN(um_run_reduce_arg)(um_cpu_exec *exec, const um_op *op);

static void arg_group(const um_reduce_plan *p, int64_t group)
{
    um_reduce_group g = UM_ISA_FN(um_reduce_find)(p, group);
    int64_t best[UM_REDUCE_WIDTH_BYTES / 8], buffer[UM_REDUCE_WIDTH_BYTES / 8];
    int64_t index[UM_REDUCE_WIDTH_BYTES / 4];
    for (int64_t i = 0; i < g.n; i++) index[i] = 0;
    bool largest = p->op->id == UM_OP_ARGMAX;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->reduced, 0, &at);
    for (int64_t i = 0, n; i < p->reduced.total; i += n) {
        n = p->wide ? 1 : UM_MIN(p->block, p->reduced.total - i);
        const void *x = p->wide ? UM_ISA_FN(um_reduce_across)(p, &g, &at, buffer)
                                : UM_ISA_FN(um_reduce_along)(p, &g, &at, n, buffer);
        if (i == 0) memcpy(best, x, (size_t)(g.n * p->bytes));
        if (p->wide)
            p->loops->pick_across(largest, best, index, x, i, g.n);
        else
            p->loops->pick_along(largest, best, index, x, i, n);
    }
    const um_view *out = &p->op->out[0];
    um_store(out->dtype, (void *)(uintptr_t)out->ptr, g.out, um_walk_step(&p->kept, 0),
             UM_CLASS_I64, index, g.n);
}

static void arg_groups(um_cpu_exec *exec, const um_reduce_plan *p, int64_t first, int64_t end)
{
    (void)exec;
    for (int64_t group = first; group < end; group++) arg_group(p, group);
}

um_status UM_ISA_FN(um_run_reduce_arg)(um_cpu_exec *exec, const um_op *op)
{
    um_reduce_plan plan;
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    UM_ISA_FN(um_reduce_make)(&plan, op, true);
    UM_ISA_FN(um_reduce_groups)(exec, &plan, arg_groups);
    return UM_OK;
}
