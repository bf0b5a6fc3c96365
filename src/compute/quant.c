/* compute/quant.c: um_quantize_view and um_dequantize_view of umbel/compute.h. The rules are in
 * op/quant.c. */
#include "compute/compute.h"

static um_status call_quant(um_stream *stream, um_op_id id, const um_quant_desc *desc,
                            const um_view *from, const um_view *scale, const um_view *zero,
                            const um_view *to)
{
    um_call call = um_call_begin(id);
    bool packs = id == UM_OP_QUANTIZE;
    um_call_input(&call, packs ? "x" : "q", from);
    um_call_input(&call, "scale", scale);
    if (zero) um_call_input(&call, "zero", zero);
    um_call_output(&call, packs ? "q" : "x", to);
    if (desc) {
        call.op.attrs.quant.axis = desc->axis;
        call.op.attrs.quant.bits = desc->bits;
        call.op.attrs.quant.block = desc->block;
    }
    return um_call_run(&call, stream);
}

um_status um_quantize_view(um_stream *stream, const um_quant_desc *desc, const um_view *x,
                           const um_view *scale, const um_view *zero, const um_view *q)
{
    return call_quant(stream, UM_OP_QUANTIZE, desc, x, scale, zero, q);
}

um_status um_dequantize_view(um_stream *stream, const um_quant_desc *desc, const um_view *q,
                             const um_view *scale, const um_view *zero, const um_view *x)
{
    return call_quant(stream, UM_OP_DEQUANTIZE, desc, q, scale, zero, x);
}
