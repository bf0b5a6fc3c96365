/* compute/pool.c: um_max_pool_* and um_avg_pool_* of umbel/compute.h. The rules are in op/pool.c.
 */
#include "compute/compute.h"

/* Zeros are defaults here, and errors in an op. */
static um_call begin(um_op_id id, const um_pool_desc *desc)
{
    um_call call = um_call_begin(id);
    um_pool_desc *d = &call.op.attrs.pool;
    if (desc) *d = *desc;
    for (int32_t i = 0; i < 3; i++) {
        if (d->stride[i] == 0) d->stride[i] = d->kernel[i];
        if (d->dilation[i] == 0) d->dilation[i] = 1;
    }
    return call;
}

um_status um_max_pool_forward(um_stream *stream, const um_pool_desc *desc, const um_view *x,
                              const um_view *y, const um_view *indices)
{
    um_call call = begin(UM_OP_MAX_POOL, desc);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    if (indices) um_call_output(&call, "indices", indices);
    return um_call_run(&call, stream);
}

um_status um_max_pool_backward(um_stream *stream, const um_pool_desc *desc, const um_view *dy,
                               const um_view *indices, const um_view *dx)
{
    um_call call = begin(UM_OP_MAX_POOL_BACKWARD, desc);
    um_call_input(&call, "dy", dy);
    um_call_input(&call, "indices", indices);
    um_call_output(&call, "dx", dx);
    return um_call_run(&call, stream);
}

um_status um_avg_pool_forward(um_stream *stream, const um_pool_desc *desc, const um_view *x,
                              const um_view *y)
{
    um_call call = begin(UM_OP_AVG_POOL, desc);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    return um_call_run(&call, stream);
}

um_status um_avg_pool_backward(um_stream *stream, const um_pool_desc *desc, const um_view *dy,
                               const um_view *dx)
{
    um_call call = begin(UM_OP_AVG_POOL_BACKWARD, desc);
    um_call_input(&call, "dy", dy);
    um_call_output(&call, "dx", dx);
    return um_call_run(&call, stream);
}
