/* compute/resize.c: um_resize_* of umbel/compute.h. The rules are in op/resize.c. */
#include "compute/compute.h"

um_status um_resize_forward(um_stream *stream, const um_resize_desc *desc, const um_view *x,
                            const um_view *y)
{
    um_call call = um_call_begin(UM_OP_RESIZE);
    if (desc) call.op.attrs.resize = *desc;
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    return um_call_run(&call, stream);
}

um_status um_resize_backward(um_stream *stream, const um_resize_desc *desc, const um_view *dy,
                             const um_view *dx)
{
    um_call call = um_call_begin(UM_OP_RESIZE_BACKWARD);
    if (desc) call.op.attrs.resize = *desc;
    um_call_input(&call, "dy", dy);
    um_call_output(&call, "dx", dx);
    return um_call_run(&call, stream);
}
