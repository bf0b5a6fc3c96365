/* compute/conv.c: um_conv_* of umbel/compute.h. The rules are in op/conv.c. */
#include "compute/compute.h"

/* Zeros are defaults here, and errors in an op. */
static um_conv_desc desc_of(const um_conv_desc *desc)
{
    um_conv_desc d = desc ? *desc : (um_conv_desc){0};
    if (d.groups == 0) d.groups = 1;
    for (int32_t i = 0; i < 3; i++) {
        if (d.stride[i] == 0) d.stride[i] = 1;
        if (d.dilation[i] == 0) d.dilation[i] = 1;
    }
    return d;
}

static um_call begin(um_op_id id, const um_conv_desc *desc)
{
    um_call call = um_call_begin(id);
    call.op.attrs.conv = desc_of(desc);
    return call;
}

um_status um_conv_forward(um_stream *stream, const um_conv_desc *desc, const um_view *x,
                          const um_view *w, const um_view *bias, const um_view *y)
{
    um_call call = begin(UM_OP_CONV, desc);
    um_call_input(&call, "x", x);
    um_call_input(&call, "w", w);
    if (bias) um_call_input(&call, "bias", bias);
    um_call_output(&call, "y", y);
    return um_call_run(&call, stream);
}

um_status um_conv_backward_data(um_stream *stream, const um_conv_desc *desc, const um_view *dy,
                                const um_view *w, const um_view *dx)
{
    um_call call = begin(UM_OP_CONV_BACKWARD_DATA, desc);
    um_call_input(&call, "dy", dy);
    um_call_input(&call, "w", w);
    um_call_output(&call, "dx", dx);
    return um_call_run(&call, stream);
}

um_status um_conv_backward_filter(um_stream *stream, const um_conv_desc *desc, const um_view *x,
                                  const um_view *dy, const um_view *dw)
{
    um_call call = begin(UM_OP_CONV_BACKWARD_FILTER, desc);
    um_call_input(&call, "x", x);
    um_call_input(&call, "dy", dy);
    um_call_output(&call, "dw", dw);
    return um_call_run(&call, stream);
}

/* The sum over all axes but the channels'. */
um_status um_conv_backward_bias(um_stream *stream, const um_conv_desc *desc, const um_view *dy,
                                const um_view *dbias)
{
    um_conv_desc d = desc_of(desc);
    um_call call = um_call_begin(UM_OP_SUM);
    um_call_input(&call, "dy", dy);
    um_call_output(&call, "dbias", dbias);
    if (call.status != UM_OK) return call.status;
    if (dy->rank < 3 || dy->rank > 5)
        return UM_FAIL(UM_INVALID_ARGUMENT, "conv_backward_bias: dy has rank %d, wants 3 to 5",
                       (int)dy->rank);
    if (d.layout != UM_CHANNELS_FIRST && d.layout != UM_CHANNELS_LAST)
        return UM_FAIL(UM_INVALID_ARGUMENT, "conv_backward_bias: there is no layout %d",
                       (int)d.layout);
    uint32_t all = (1u << dy->rank) - 1;
    call.op.attrs.reduce.axes = all & ~UM_AXIS(d.layout == UM_CHANNELS_LAST ? dy->rank - 1 : 1);
    return um_call_run(&call, stream);
}

um_status um_conv2d_forward(um_stream *stream, const um_conv_desc *desc, const um_view *x,
                            const um_view *w, const um_view *bias, const um_view *y)
{
    if (x && x->rank != 4)
        return UM_FAIL(UM_INVALID_ARGUMENT, "conv2d_forward: x has rank %d, wants 4", (int)x->rank);
    return um_conv_forward(stream, desc, x, w, bias, y);
}
