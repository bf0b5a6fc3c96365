/* compute/reduce.c: um_reduce_view and um_scan_view of umbel/compute.h. The rules are in
 * op/reduce.c. */
#include "compute/compute.h"

/* Other ops of the family have other attributes. */
static um_status check_kind(const char *who, um_op_id id, bool scans)
{
    const um_op_row *row = um_op_get_row(id);
    bool is_scan = id == UM_OP_CUMSUM || id == UM_OP_CUMPROD || id == UM_OP_CUMMAX;
    if (row && row->family == UM_FAMILY_REDUCE && is_scan == scans) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s is no such op", who, um_op_name(id));
}

um_status um_reduce_view(um_stream *stream, um_op_id op, uint32_t axes, double correction,
                         const um_view *x, const um_view *y)
{
    UM_TRY(check_kind("reduce_view", op, false));
    um_call call = um_call_begin(op);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    call.op.attrs.reduce.axes = axes;
    call.op.attrs.reduce.keepdims = x && y && x->rank == y->rank;
    call.op.attrs.reduce.correction = correction;
    return um_call_run(&call, stream);
}

um_status um_scan_view(um_stream *stream, um_op_id op, int32_t axis, const um_view *x,
                       const um_view *y)
{
    UM_TRY(check_kind("scan_view", op, true));
    um_call call = um_call_begin(op);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    call.op.attrs.axis.axis = axis;
    return um_call_run(&call, stream);
}
