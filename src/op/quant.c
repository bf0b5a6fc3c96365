/* op/quant.c: affine quantization: one scale, and one zero point, a tensor, an index of an axis, or
 * a block of elements along an axis. */
#include "op/rule.h"

static bool is_fp8(um_dtype dtype) { return dtype >= UM_F8E4M3FN && dtype <= UM_F8E5M2FNUZ; }

static um_status check_storage(const um_op *op, um_dtype dtype)
{
    int32_t bits = op->attrs.quant.bits;
    bool narrow = dtype == UM_I8 || dtype == UM_U8;
    if (!narrow && !is_fp8(dtype) && dtype != UM_I16 && dtype != UM_U16)
        return um_rule_fail(op, "q must be i8, u8, i16, u16 or an fp8, got %s",
                            um_dtype_name(dtype));
    if (bits != 0 && bits != um_dtype_bits(dtype) && !(bits == 4 && narrow))
        return um_rule_fail(op, "bits must be 0, or 4 of i8 and u8, got %d of %s", (int)bits,
                            um_dtype_name(dtype));
    return UM_OK;
}

/* The shape that scale needs. */
static um_status scale_shape(const um_op *op, const um_view *x, um_view *wanted)
{
    const um_view *scale = &op->in[1];
    int64_t block = op->attrs.quant.block;
    int32_t axis = 0;
    char text[UM_VIEW_TEXT];
    *wanted = (um_view){.dtype = scale->dtype};
    if (block < 0) return um_rule_fail(op, "block must be 0 or more, got %lld", (long long)block);
    if (block == 0 && scale->rank == 0) return UM_OK;
    if (!um_axis_resolve(op->attrs.quant.axis, x->rank, &axis))
        return um_rule_fail(op, "axis %d is outside %s", (int)op->attrs.quant.axis,
                            um_view_text(x, text, sizeof text));
    if (block == 0) {
        wanted->rank = 1;
        wanted->shape[0] = x->shape[axis];
        return UM_OK;
    }
    um_rule_like(wanted, scale->dtype, x);
    wanted->shape[axis] = um_ceil_div(x->shape[axis], block);
    return UM_OK;
}

/* real: the float side's dtype; q: the other's. */
static um_status check_scale(const um_op *op, um_dtype real, um_dtype q)
{
    const um_view *scale = &op->in[1];
    um_view wanted;
    UM_TRY(check_storage(op, q));
    if (scale->dtype != (real == UM_F64 ? UM_F64 : UM_F32))
        return um_rule_fail(op, "scale must be %s for %s, got %s", real == UM_F64 ? "f64" : "f32",
                            um_dtype_name(real), um_dtype_name(scale->dtype));
    UM_TRY(scale_shape(op, &op->in[0], &wanted));
    if (!um_shapes_equal(scale, &wanted))
        return um_rule_fail_views(op, "wrong shape of scale", "it", scale, "wanted", &wanted);
    if (op->in_count < 3) return UM_OK;
    if (is_fp8(q)) return um_rule_fail(op, "fp8 has no zero point");
    wanted.dtype = q;
    if (op->in[2].dtype != q || !um_shapes_equal(&op->in[2], &wanted))
        return um_rule_fail_views(op, "wrong zero point", "it", &op->in[2], "wanted", &wanted);
    return UM_OK;
}

um_status um_infer_quantize(const um_op *op, um_view *out)
{
    UM_TRY(check_scale(op, op->in[0].dtype, out->dtype));
    um_rule_like(out, out->dtype, &op->in[0]);
    return UM_OK;
}

um_status um_infer_dequantize(const um_op *op, um_view *out)
{
    if (!um_dtype_valid(out->dtype) || !(UM_DTYPES_F & UM_BIT(out->dtype)))
        return um_rule_fail(op, "x must be f64, f32, f16 or bf16, got %s",
                            um_dtype_name(out->dtype));
    UM_TRY(check_scale(op, out->dtype, op->in[0].dtype));
    um_rule_like(out, out->dtype, &op->in[0]);
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct quant_row {
    um_dims x, scale;
    int32_t axis, block;
    bool has_zero;
    int32_t bits;
} rows[] = {
    {UM_DIMS(33), UM_SCALAR, 0, 0, false, 0},
    {UM_DIMS(7, 5), UM_SCALAR, 0, 0, true, 4},
    {UM_DIMS(7, 5), UM_DIMS(5), 1, 0, true, 0},
    {UM_DIMS(7, 5), UM_DIMS(7), -2, 0, false, 4},
    {UM_DIMS(3, 64), UM_DIMS(3, 2), 1, 32, true, 0},
    {UM_DIMS(65, 3), UM_DIMS(3, 3), 0, 32, false, 4},
    {UM_SCALAR, UM_SCALAR, 0, 0, true, 0},
    {UM_DIMS(0, 4), UM_DIMS(0), 0, 0, false, 0},
    {UM_DIMS(2, 3, 700), UM_DIMS(2, 3, 6), -1, 128, true, 0},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_DIMS(2, 1, 3, 2, 1, 2, 2, 2), 6, 2, true, 4},
    {UM_DIMS(1000), UM_DIMS(1000), 0, 0, true, 0},
};

static const um_dtype stored[] = {UM_I8,       UM_U8,         UM_I16,    UM_U16,
                                  UM_F8E4M3FN, UM_F8E4M3FNUZ, UM_F8E5M2, UM_F8E5M2FNUZ};

/* Scales from 0, which is a case of its own, up; zero points within 4 bits. */
static bool finish(um_sample *sample, const struct quant_row *row, int32_t index, um_dtype real,
                   um_dtype q, um_dtype result)
{
    um_sample_input(sample, real == UM_F64 ? UM_F64 : UM_F32, &row->scale, index % 3 ? 1e-3 : 0,
                    index % 3 ? 0.5 : 0);
    if (row->has_zero && !is_fp8(q)) um_sample_indices(sample, q, &row->scale, 0, 7);
    sample->op.attrs.quant.axis = row->axis;
    sample->op.attrs.quant.block = row->block;
    bool four = row->bits == 4 && (q == UM_I8 || q == UM_U8);
    sample->op.attrs.quant.bits = four ? 4 : 0;
    um_sample_label_input(sample);
    um_sample_label(sample, " row=%d %s%s", (int)index, um_dtype_name(q), four ? " 4 bits" : "");
    return um_sample_finish(sample, result);
}

bool um_sample_quantize(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t kinds = (int32_t)UM_COUNT_OF(stored), row_count = (int32_t)UM_COUNT_OF(rows);
    if (index >= kinds + row_count) return false;
    um_dtype q = index < kinds ? stored[index] : index % 2 ? UM_I8 : UM_U8;
    const struct quant_row *row = &rows[index < kinds ? index % 4 : index - kinds];
    um_sample_input(sample, dtype, &row->x, -100, 100);
    return finish(sample, row, index, dtype, q, q);
}

bool um_sample_dequantize(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const um_dtype reals[] = {UM_F32, UM_F16, UM_F64, UM_BF16};
    int32_t row_count = (int32_t)UM_COUNT_OF(rows);
    if (index >= row_count) return false;
    um_dtype real = reals[index % 4];
    um_sample_input(sample, dtype, &rows[index].x, -1000, 1000);
    return finish(sample, &rows[index], index, real, dtype, real);
}
