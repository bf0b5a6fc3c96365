/* check/oracle_quant.c: affine quantization by its formula, exactly: every step is one rounding in
 * f32 (f64 for f64). */
#include "check/oracle.h"

#include <math.h>

static bool is_fp8(um_dtype dtype) { return dtype >= UM_F8E4M3FN && dtype <= UM_F8E5M2FNUZ; }

/* The number of the scale for element i. */
static int64_t factor_at(const um_op *op, const um_array *x, const um_array *scale, int64_t i)
{
    int64_t place[UM_MAX_RANK] = {0}, block = op->attrs.quant.block, at = 0;
    int32_t axis = op->attrs.quant.axis < 0 ? op->attrs.quant.axis + x->rank : op->attrs.quant.axis;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        place[d] = i % x->shape[d];
        i /= x->shape[d];
    }
    if (block == 0) return scale->rank == 0 ? 0 : place[axis];
    place[axis] /= block;
    for (int32_t d = 0; d < x->rank; d++) at = at * scale->shape[d] + place[d];
    return at;
}

static double quotient(bool is_wide, double x, double scale)
{
    if (scale == 0) return 0;
    return is_wide ? x / scale : (double)((float)x / (float)scale);
}

static um_expect quantize(const um_op *op, um_dtype q, bool is_wide, double x, double scale,
                          int64_t zero)
{
    double value = quotient(is_wide, x, scale);
    if (is_fp8(q)) return um_expect_near((long double)value, 0);
    int64_t low = um_oracle_lowest(q).i, high = um_oracle_highest(q).i;
    if (op->attrs.quant.bits == 4) {
        low = q == UM_I8 ? -8 : 0;
        high = q == UM_I8 ? 7 : 15;
    }
    if (isnan(value)) value = 0;
    double moved = nearbyint(value) + (double)zero;
    if (moved < (double)low) moved = (double)low;
    if (moved > (double)high) moved = (double)high;
    return um_expect_num((um_num){.i = (int64_t)moved});
}

static um_expect dequantize(um_dtype q, bool is_wide, um_num stored, double scale, int64_t zero)
{
    double value = is_fp8(q) ? stored.f : (double)(stored.i - zero);
    if (is_wide) return um_expect_near((long double)(value * scale), 0);
    float product = (float)value * (float)scale;
    return um_expect_near((long double)product, 0);
}

um_status um_oracle_quant(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *const *expect)
{
    const um_array *x = &in[0], *scales = &in[1];
    bool is_wide = scales->dtype == UM_F64;
    for (int64_t i = 0; i < out[0].count; i++) {
        int64_t at = factor_at(op, x, scales, i);
        double scale = scales->item[at].f;
        int64_t zero = op->in_count > 2 ? in[2].item[at].i : 0;
        expect[0][i] = op->id == UM_OP_QUANTIZE
                           ? quantize(op, out[0].dtype, is_wide, x->item[i].f, scale, zero)
                           : dequantize(x->dtype, is_wide, x->item[i], scale, zero);
    }
    return UM_OK;
}
