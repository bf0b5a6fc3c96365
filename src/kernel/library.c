/* kernel/library.c: which ops have kernels, and the life of a plan. */
#include "kernel/library.h"

#include <stdio.h>

/* supports: of an op whose views fit; NULL: whatever it is. */
typedef struct family {
    bool (*supports)(const um_op *op, char *why, size_t why_size);
    um_status (*plan)(const um_op *op, um_kplan *plan);
} family;

static const family *family_of(const um_op *op)
{
    static const family scan = {NULL, um_kscan_plan}, nonzero = {NULL, um_knonzero_plan};
    static const family families[] = {
        [UM_FAMILY_MAP] = {NULL, um_kmap_plan},
        [UM_FAMILY_REDUCE] = {um_kreduce_supports, um_kreduce_plan},
        [UM_FAMILY_MOVE] = {NULL, um_kmap_plan},
        [UM_FAMILY_INDEX] = {um_kindex_supports, um_kindex_plan},
        [UM_FAMILY_MATMUL] = {um_kmatmul_supports, um_kmatmul_plan},
        [UM_FAMILY_NORM] = {um_knorm_supports, um_knorm_plan},
        [UM_FAMILY_CONV] = {um_kconv_supports, um_kconv_plan},
        [UM_FAMILY_ATTENTION] = {um_kattention_supports, um_kattention_plan},
        [UM_FAMILY_POOL] = {um_kpool_supports, um_kpool_plan},
        [UM_FAMILY_SORT] = {um_ksort_supports, um_ksort_plan},
        [UM_FAMILY_RESIZE] = {um_kresize_supports, um_kresize_plan},
        [UM_FAMILY_RANDOM] = {um_krandom_supports, um_krandom_plan},
        [UM_FAMILY_QUANT] = {NULL, um_kquant_plan}};
    if (op->id >= UM_OP_CUMSUM && op->id <= UM_OP_CUMMAX) return &scan;
    return op->id == UM_OP_NONZERO ? &nonzero : &families[um_op_get_row(op->id)->family];
}

bool um_kplan_supports(const um_op *op, char *why, size_t why_size)
{
    const family *f = family_of(op);
    if (why_size > 0) why[0] = '\0';
    return um_kop_fits(op, why, why_size) && (!f->supports || f->supports(op, why, why_size));
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
    UM_TRY(um_kernel_create(&desc, &(*launch)->kernel));
    (*launch)->kernel->fma_twice = plan->unit && plan->unit->fma_twice;
    return UM_OK;
}
