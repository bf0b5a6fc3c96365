/* kernel/library.c: which ops have kernels, and the life of a plan. */
#include "kernel/library.h"

#include <stdio.h>

typedef struct family {
    bool (*supports)(const um_op *op, char *why, size_t why_size);
    um_status (*plan)(const um_op *op, um_kplan *plan);
} family;

#define FAMILY(name)                                                                               \
    {                                                                                              \
        um_k##name##_supports, um_k##name##_plan                                                   \
    }

static const family *family_of(const um_op *op)
{
    static const family scan = FAMILY(scan), nonzero = FAMILY(nonzero);
    static const family families[] = {
        [UM_FAMILY_MAP] = FAMILY(map),       [UM_FAMILY_REDUCE] = FAMILY(reduce),
        [UM_FAMILY_MOVE] = FAMILY(map),      [UM_FAMILY_INDEX] = FAMILY(index),
        [UM_FAMILY_MATMUL] = FAMILY(matmul), [UM_FAMILY_NORM] = FAMILY(norm),
        [UM_FAMILY_CONV] = FAMILY(conv),     [UM_FAMILY_ATTENTION] = FAMILY(attention),
        [UM_FAMILY_POOL] = FAMILY(pool),     [UM_FAMILY_SORT] = FAMILY(sort),
        [UM_FAMILY_RESIZE] = FAMILY(resize), [UM_FAMILY_RANDOM] = FAMILY(random),
        [UM_FAMILY_QUANT] = FAMILY(quant)};
    if (op->id >= UM_OP_CUMSUM && op->id <= UM_OP_CUMMAX) return &scan;
    return op->id == UM_OP_NONZERO ? &nonzero : &families[um_op_get_row(op->id)->family];
}

bool um_kplan_supports(const um_op *op, char *why, size_t why_size)
{
    if (why_size > 0) why[0] = '\0';
    return family_of(op)->supports(op, why, why_size);
}

bool um_kplan_refuse(const um_op *op, char *why, size_t why_size, const char *what)
{
    snprintf(why, why_size, "%s: no kernel %s", um_op_name(op->id), what);
    return false;
}

um_status um_kplan_make(const um_op *op, const um_kunit *unit, int32_t form, um_kplan *out)
{
    out->unit = unit;
    out->form = form;
    out->form_count = 1;
    out->launch_count = 0;
    out->scratch_bytes = 0;
    out->fault[0] = '\0';
    for (int32_t i = 0; i < UM_KPLAN_LAUNCHES; i++) out->launch[i] = (um_klaunch){.kernel = NULL};
    return family_of(op)->plan(op, out);
}

void um_kplan_release(um_kplan *plan)
{
    for (int32_t i = 0; i < plan->launch_count; i++)
        if (i == 0 || plan->launch[i].kernel != plan->launch[i - 1].kernel)
            um_kernel_release(plan->launch[i].kernel);
    plan->launch_count = 0;
}

um_status um_kplan_launch(um_kplan *plan, const char *name, uint32_t size, um_klaunch **launch)
{
    um_kernel_desc desc = {.name = name, .group_size = {size}};
    *launch = &plan->launch[plan->launch_count++];
    return um_kernel_create(&desc, &(*launch)->kernel);
}
