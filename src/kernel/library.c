/* kernel/library.c: which ops have kernels, and the life of a plan. */
#include "kernel/library.h"

#include <stdio.h>

typedef struct family {
    bool (*supports)(const um_op *op, char *why, size_t why_size);
    um_status (*plan)(const um_op *op, um_kplan *plan);
} family;

static const family *family_of(const um_op *op)
{
    static const family map = {um_kmap_supports, um_kmap_plan};
    static const family reduce = {um_kreduce_supports, um_kreduce_plan};
    static const family matmul = {um_kmatmul_supports, um_kmatmul_plan};
    static const family conv = {um_kconv_supports, um_kconv_plan};
    static const family pool = {um_kpool_supports, um_kpool_plan};
    static const family resize = {um_kresize_supports, um_kresize_plan};
    static const family norm = {um_knorm_supports, um_knorm_plan};
    static const family attention = {um_kattention_supports, um_kattention_plan};
    static const family quant = {um_kquant_supports, um_kquant_plan};
    static const family random = {um_krandom_supports, um_krandom_plan};
    static const family index = {um_kindex_supports, um_kindex_plan};
    static const family nonzero = {um_knonzero_supports, um_knonzero_plan};
    static const family sort = {um_ksort_supports, um_ksort_plan};
    static const family scan = {um_kscan_supports, um_kscan_plan};
    const um_op_row *row = um_op_get_row(op->id);
    if (row->family == UM_FAMILY_MAP) return &map;
    if (row->family == UM_FAMILY_MOVE) return &map;
    if (row->family == UM_FAMILY_REDUCE && op->id <= UM_OP_STD) return &reduce;
    if (row->family == UM_FAMILY_MATMUL) return &matmul;
    if (row->family == UM_FAMILY_CONV) return &conv;
    if (row->family == UM_FAMILY_POOL) return &pool;
    if (row->family == UM_FAMILY_RESIZE) return &resize;
    if (row->family == UM_FAMILY_NORM) return &norm;
    if (row->family == UM_FAMILY_ATTENTION) return &attention;
    if (op->id == UM_OP_QUANTIZE || op->id == UM_OP_DEQUANTIZE) return &quant;
    if (op->id == UM_OP_NONZERO) return &nonzero;
    if (row->family == UM_FAMILY_INDEX) return &index;
    if (row->family == UM_FAMILY_SORT) return &sort;
    if (op->id >= UM_OP_CUMSUM && op->id <= UM_OP_CUMMAX) return &scan;
    if (row->family == UM_FAMILY_RANDOM) return &random;
    return NULL;
}

bool um_kplan_supports(const um_op *op, char *why, size_t why_size)
{
    const family *f = family_of(op);
    if (why_size > 0) why[0] = '\0';
    if (f) return f->supports(op, why, why_size);
    if (why_size > 0) snprintf(why, why_size, "%s: no kernel in the library", um_op_name(op->id));
    return false;
}

um_status um_kplan_make(const um_op *op, um_kplan *out)
{
    return um_kplan_make_for(op, NULL, 0, out);
}

um_status um_kplan_make_form(const um_op *op, int32_t form, um_kplan *out)
{
    return um_kplan_make_for(op, NULL, form, out);
}

um_status um_kplan_make_for(const um_op *op, const um_kunit *unit, int32_t form, um_kplan *out)
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
