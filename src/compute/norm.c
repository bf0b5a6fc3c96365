/* compute/norm.c: softmax and the norms of umbel/compute.h. The rules are in op/norm.c and
 * op/normalize.c. */
#include "compute/compute.h"

/* ---- softmax ------------------------------------------------------------------------------------
 */

static um_status softmax(um_stream *stream, um_op_id id, int32_t axis, const um_view *x,
                         const um_view *y)
{
    um_call call = um_call_begin(id);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    call.op.attrs.axis.axis = axis;
    return um_call_run(&call, stream);
}

static um_status softmax_backward(um_stream *stream, um_op_id id, int32_t axis, const um_view *y,
                                  const um_view *dy, const um_view *dx)
{
    um_call call = um_call_begin(id);
    um_call_input(&call, "y", y);
    um_call_input(&call, "dy", dy);
    um_call_output(&call, "dx", dx);
    call.op.attrs.axis.axis = axis;
    return um_call_run(&call, stream);
}

um_status um_softmax_forward(um_stream *stream, int32_t axis, const um_view *x, const um_view *y)
{
    return softmax(stream, UM_OP_SOFTMAX, axis, x, y);
}

um_status um_softmax_backward(um_stream *stream, int32_t axis, const um_view *y, const um_view *dy,
                              const um_view *dx)
{
    return softmax_backward(stream, UM_OP_SOFTMAX_BACKWARD, axis, y, dy, dx);
}

um_status um_log_softmax_forward(um_stream *stream, int32_t axis, const um_view *x,
                                 const um_view *y)
{
    return softmax(stream, UM_OP_LOG_SOFTMAX, axis, x, y);
}

um_status um_log_softmax_backward(um_stream *stream, int32_t axis, const um_view *y,
                                  const um_view *dy, const um_view *dx)
{
    return softmax_backward(stream, UM_OP_LOG_SOFTMAX_BACKWARD, axis, y, dy, dx);
}

/* ---- norms --------------------------------------------------------------------------------------
 */

/* Zeros are defaults here, and errors in an op. */
static um_call begin(um_op_id id, const um_norm_desc *desc)
{
    um_call call = um_call_begin(id);
    um_norm_desc d = desc ? *desc : (um_norm_desc){0};
    call.op.attrs.norm.eps = d.eps;
    call.op.attrs.norm.momentum = d.momentum;
    call.op.attrs.norm.dims = d.dims == 0 ? 1 : d.dims;
    call.op.attrs.norm.groups = d.groups == 0 ? 1 : d.groups;
    call.op.attrs.norm.layout = d.layout;
    call.op.attrs.norm.training = d.training;
    return call;
}

/* In place `index` of the inputs: what was left out before it is marked as not there. */
static void optional_input(um_call *call, int32_t index, const char *name, const um_view *view)
{
    if (!view || call->status != UM_OK) return;
    while (call->op.in_count < index)
        call->op.in[call->op.in_count++] = um_view_none(call->op.in[0].dtype);
    um_call_input(call, name, view);
}

/* Of outputs that come together none may be missing where a later one is there. */
static void optional_outputs(um_call *call, int32_t count, const char *const *names,
                             const um_view *const *views)
{
    int32_t last = count;
    while (last > 0 && !views[last - 1]) last--;
    for (int32_t i = 0; i < last; i++) um_call_output(call, names[i], views[i]);
}

static um_status forward(um_stream *stream, um_op_id id, const um_norm_desc *desc,
                         const um_norm_views *v)
{
    static const char *const names[] = {"mean", "inverse", "new_mean", "new_var"};
    if (!v) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: the views are NULL", um_op_name(id));
    um_call call = begin(id, desc);
    um_call_input(&call, "x", v->x);
    optional_input(&call, 1, "w", v->w);
    optional_input(&call, 2, "b", v->b);
    if (id == UM_OP_BATCH_NORM) {
        optional_input(&call, 3, "old_mean", v->old_mean);
        optional_input(&call, 4, "old_var", v->old_var);
    }
    um_call_output(&call, "y", v->y);
    optional_outputs(&call, id == UM_OP_BATCH_NORM ? 4 : 2, names,
                     (const um_view *[]){v->mean, v->inverse, v->new_mean, v->new_var});
    return um_call_run(&call, stream);
}

static um_status backward(um_stream *stream, um_op_id id, const um_norm_desc *desc,
                          const um_norm_views *v)
{
    static const char *const names[] = {"dw", "db"};
    if (!v) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: the views are NULL", um_op_name(id));
    um_call call = begin(id, desc);
    um_call_input(&call, "dy", v->dy);
    um_call_input(&call, "x", v->x);
    optional_input(&call, 2, "w", v->w);
    if (id == UM_OP_BATCH_NORM_BACKWARD && !call.op.attrs.norm.training) {
        optional_input(&call, 3, "old_mean", v->old_mean);
        optional_input(&call, 4, "old_var", v->old_var);
    }
    um_call_output(&call, "dx", v->dx);
    optional_outputs(&call, 2, names, (const um_view *[]){v->dw, v->db});
    return um_call_run(&call, stream);
}

/* A group a channel. */
static um_norm_desc instance_desc(const um_norm_desc *desc, const um_norm_views *v)
{
    um_norm_desc d = desc ? *desc : (um_norm_desc){0};
    const um_view *x = v ? v->x : NULL;
    bool has_channels = x && x->rank >= 2 && x->rank <= UM_MAX_RANK;
    int64_t channels = has_channels ? x->shape[d.layout == UM_CHANNELS_LAST ? x->rank - 1 : 1] : 0;
    d.groups = channels <= INT32_MAX ? (int32_t)channels : 0;
    return d;
}

um_status um_rms_norm_forward(um_stream *stream, const um_norm_desc *desc, const um_norm_views *v)
{
    return forward(stream, UM_OP_RMS_NORM, desc, v);
}

um_status um_rms_norm_backward(um_stream *stream, const um_norm_desc *desc, const um_norm_views *v)
{
    return backward(stream, UM_OP_RMS_NORM_BACKWARD, desc, v);
}

um_status um_layer_norm_forward(um_stream *stream, const um_norm_desc *desc, const um_norm_views *v)
{
    return forward(stream, UM_OP_LAYER_NORM, desc, v);
}

um_status um_layer_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                 const um_norm_views *v)
{
    return backward(stream, UM_OP_LAYER_NORM_BACKWARD, desc, v);
}

um_status um_group_norm_forward(um_stream *stream, const um_norm_desc *desc, const um_norm_views *v)
{
    return forward(stream, UM_OP_GROUP_NORM, desc, v);
}

um_status um_group_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                 const um_norm_views *v)
{
    return backward(stream, UM_OP_GROUP_NORM_BACKWARD, desc, v);
}

um_status um_instance_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                   const um_norm_views *v)
{
    um_norm_desc d = instance_desc(desc, v);
    return forward(stream, UM_OP_GROUP_NORM, &d, v);
}

um_status um_instance_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                    const um_norm_views *v)
{
    um_norm_desc d = instance_desc(desc, v);
    return backward(stream, UM_OP_GROUP_NORM_BACKWARD, &d, v);
}

um_status um_batch_norm_forward(um_stream *stream, const um_norm_desc *desc, const um_norm_views *v)
{
    return forward(stream, UM_OP_BATCH_NORM, desc, v);
}

um_status um_batch_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                 const um_norm_views *v)
{
    return backward(stream, UM_OP_BATCH_NORM_BACKWARD, desc, v);
}
