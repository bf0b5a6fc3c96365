/* test/onnx/ops_quant.c: quantized values and back. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>

um_view quantize(run *r, um_view x, um_view scale, um_view zero, int32_t axis, int64_t block)
{
    um_op op = {.id = UM_OP_QUANTIZE, .in_count = 3};
    op.attrs.quant.axis = axis;
    op.attrs.quant.block = block;
    op.in[0] = x;
    op.in[1] = cast(r, scale, x.dtype == UM_F64 ? UM_F64 : UM_F32);
    op.in[2] = zero;
    op.out[0].dtype = zero.dtype;
    return run_op(r, &op);
}

/* Integers of `bits` as they saturate, in the dtype that holds them. */
static um_view saturate_bits(run *r, um_view q, int32_t bits)
{
    if (bits == 0) return q;
    bool is_signed = q.dtype == UM_I8;
    double high = (1 << (is_signed ? bits - 1 : bits)) - 1, low = is_signed ? -high - 1 : 0;
    return m3(r, UM_OP_CLAMP, q, num(r, q.dtype, low), num(r, q.dtype, high));
}

/* A scale or zero point along the axis; one of one element is a scalar. */
static um_view one_or_more(run *r, um_view view, int64_t block)
{
    bool one = view.rank == 1 && view.shape[0] == 1;
    return one && block == 0 ? reshape(r, view, 0, NULL) : view;
}

void on_quantize_linear(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t block = attr_int(r, "block_size", 0);
    um_view scale = one_or_more(r, in(r, 1), block);
    int32_t axis = scale.rank ? axis_of(r, attr_int(r, "axis", 1), x.rank) : 0;
    int32_t type = (int32_t)attr_int(r, "output_dtype", 0);
    if (has_in(r, 2)) type = r->in[2].type;
    if (type == ONNX_NONE) type = onnx_type(UM_U8);
    um_dtype dtype = onnx_dtype(type);
    if (um_dtype_get_kind(dtype) == UM_KIND_FLOAT) {
        if (block) run_refuse(r, "QuantizeLinear: blocks of floats");
        um_view scaled = quo(r, widen(r, x), cast(r, along(r, scale, axis, x.rank), UM_F32));
        scaled = addc(r, scaled, 0); /* the zero point, which takes the sign off a zero */
        r->out[0] = (value){cast_to(r, scaled, type, attr_int(r, "saturate", 1) != 0), type};
        return;
    }
    um_view zero =
        has_in(r, 2) ? one_or_more(r, in(r, 2), block) : full(r, dtype, scale.rank, scale.shape, 0);
    um_view q = quantize(r, x, scale, zero, axis, block);
    r->out[0] = (value){saturate_bits(r, q, onnx_narrow_bits(type)), type};
}

void on_dequantize_linear(run *r, um_op_id id)
{
    /* The zero point of a float is 0. */
    bool zero = has_in(r, 2) && um_dtype_get_kind(in(r, 2).dtype) != UM_KIND_FLOAT;
    um_op op = {.id = id, .in_count = zero ? 3 : 2};
    int64_t block = attr_int(r, "block_size", 0);
    um_view scale = one_or_more(r, in(r, 1), block);
    op.in[0] = in(r, 0);
    op.in[1] = cast(r, scale, scale.dtype == UM_F64 ? UM_F64 : UM_F32);
    op.attrs.quant.block = block;
    if (scale.rank) op.attrs.quant.axis = axis_of(r, attr_int(r, "axis", 1), op.in[0].rank);
    if (zero) op.in[2] = one_or_more(r, in(r, 2), block);
    op.out[0].dtype = scale.dtype;
    out(r, 0, run_op(r, &op));
}

/* u8 with a scale and zero point that take the range of x and 0. */
void on_dynamic_quantize(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), zero = num(r, UM_F32, 0);
    um_view low = mini(r, reduce(r, UM_OP_REDUCE_MIN, x, 0, false), zero);
    um_view high = maxi(r, reduce(r, UM_OP_REDUCE_MAX, x, 0, false), zero);
    um_view scale = mulc(r, sub(r, high, low), 1.0 / 255);
    scale = where(r, m2(r, UM_OP_EQ, scale, zero), num(r, UM_F32, 1), scale);
    um_view point = m1(r, UM_OP_ROUND, m1(r, UM_OP_NEG, quo(r, low, scale)));
    um_view as_u8 = cast(r, point, UM_U8); /* saturates */
    out(r, 0, quantize(r, x, scale, as_u8, 0, 0));
    out(r, 1, scale);
    out(r, 2, as_u8);
}
