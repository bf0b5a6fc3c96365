/* compute/attention.c: um_attention_* of umbel/compute.h. The rules are in op/attention.c. */
#include "compute/compute.h"

static um_call begin(um_op_id id, const um_attention_desc *desc, const um_attention_inputs *in)
{
    um_call call = um_call_begin(id);
    if (desc) call.op.attrs.attention = *desc;
    if (!in) {
        call.status = UM_FAIL(UM_INVALID_ARGUMENT, "%s: the inputs are NULL", um_op_name(id));
        return call;
    }
    um_call_input(&call, "q", in->q);
    um_call_input(&call, "k", in->k);
    um_call_input(&call, "v", in->v);
    return call;
}

/* Those that are missing at the end are left out. */
static void add_optional(um_call *call, const um_attention_inputs *in)
{
    if (call->status != UM_OK) return;
    const um_view *views[] = {in->mask, in->key_lengths, in->query_lengths, in->sinks};
    int32_t count = 4;
    while (count > 0 && !views[count - 1]) count--;
    for (int32_t i = 0; i < count; i++)
        call->op.in[call->op.in_count++] = views[i] ? *views[i] : um_view_none(in->q->dtype);
}

um_status um_attention_forward(um_stream *stream, const um_attention_desc *desc,
                               const um_attention_inputs *in, const um_view *out,
                               const um_view *lse)
{
    um_call call = begin(UM_OP_ATTENTION, desc, in);
    add_optional(&call, in);
    um_call_output(&call, "out", out);
    if (lse) um_call_output(&call, "lse", lse);
    return um_call_run(&call, stream);
}

um_status um_attention_backward(um_stream *stream, const um_attention_desc *desc,
                                const um_attention_inputs *in, const um_view *out,
                                const um_view *lse, const um_view *dout,
                                const um_attention_grads *grads)
{
    um_call call = begin(UM_OP_ATTENTION_BACKWARD, desc, in);
    um_call_input(&call, "out", out);
    um_call_input(&call, "dout", dout);
    um_call_input(&call, "lse", lse);
    add_optional(&call, in);
    if (!grads) return UM_FAIL(UM_INVALID_ARGUMENT, "attention_backward: the gradients are NULL");
    um_call_output(&call, "the gradient of q", grads->q);
    um_call_output(&call, "the gradient of k", grads->k);
    um_call_output(&call, "the gradient of v", grads->v);
    um_view none = um_view_none(call.op.in[0].dtype);
    if (grads->mask || grads->sinks)
        um_call_output(&call, "the gradient of the mask", grads->mask ? grads->mask : &none);
    if (grads->sinks) um_call_output(&call, "the gradient of the sinks", grads->sinks);
    return um_call_run(&call, stream);
}
