/* compute/sort.c: um_sort_view and um_topk_view of umbel/compute.h. The rules are in op/sort.c. */
#include "compute/compute.h"

/* `both` gives values and, wanted or not, indices; `indices_only` only those. */
static um_call begin(um_op_id both, um_op_id indices_only, const um_view *x, const um_view *values,
                     const um_view *indices)
{
    um_call call = um_call_begin(values || !indices ? both : indices_only);
    um_call_input(&call, "x", x);
    if (values || !indices) um_call_output(&call, "values", values);
    if (indices) um_call_output(&call, "indices", indices);
    return call;
}

um_status um_sort_view(um_stream *stream, int32_t axis, bool descending, const um_view *x,
                       const um_view *values, const um_view *indices)
{
    um_call call = begin(UM_OP_SORT, UM_OP_ARGSORT, x, values, indices);
    call.op.attrs.sort.axis = axis;
    call.op.attrs.sort.descending = descending;
    return um_call_run(&call, stream);
}

um_status um_topk_view(um_stream *stream, int32_t axis, bool smallest, const um_view *x,
                       const um_view *values, const um_view *indices)
{
    um_call call = begin(UM_OP_TOPK, UM_OP_ARG_TOPK, x, values, indices);
    int32_t at = 0;
    call.op.attrs.sort.axis = axis;
    call.op.attrs.sort.descending = !smallest;
    if (call.status == UM_OK && um_axis_resolve(axis, call.op.out[0].rank, &at) && at < UM_MAX_RANK)
        call.op.attrs.sort.k = call.op.out[0].shape[at];
    return um_call_run(&call, stream);
}
