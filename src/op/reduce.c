/* op/reduce.c: reductions over a set of axes, the index of an extreme, running sums. */
#include "op/rule.h"

#include <math.h>

/* ---- reduce, reduce_arg --------------------------------------------------------------------- */

static um_status resolve_axes(const um_op *op, uint32_t *axes)
{
    const um_view *x = &op->in[0];
    if (um_axes_resolve(op->attrs.reduce.axes, x->rank, axes)) return UM_OK;
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "axes 0x%x are outside x or named twice: x is %s",
                        (unsigned)op->attrs.reduce.axes, um_view_text(x, text, sizeof text));
}

static void reduced_shape(const um_op *op, uint32_t axes, um_view *out)
{
    const um_view *x = &op->in[0];
    out->rank = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        bool gone = axes == 0 || (axes & UM_AXIS(i));
        if (gone && !op->attrs.reduce.keepdims) continue;
        out->shape[out->rank++] = gone ? 1 : x->shape[i];
    }
}

um_status um_infer_reduce(const um_op *op, um_view *out)
{
    uint32_t axes;
    UM_TRY(resolve_axes(op, &axes));
    if ((op->id == UM_OP_VAR || op->id == UM_OP_STD) && !isfinite(op->attrs.reduce.correction))
        return um_rule_fail(op, "correction must be finite, got %g", op->attrs.reduce.correction);
    bool is_bool = um_op_get_row(op->id)->result == UM_RESULT_BOOL;
    out->dtype = is_bool ? UM_BOOL : op->in[0].dtype;
    reduced_shape(op, axes, out);
    return UM_OK;
}

um_status um_infer_reduce_arg(const um_op *op, um_view *out)
{
    uint32_t axes;
    UM_TRY(resolve_axes(op, &axes));
    if (op->attrs.reduce.prologue || op->attrs.reduce.epilogue)
        return um_rule_fail(op, "has no prologue and no epilogue");
    if (axes & (axes - 1))
        return um_rule_fail(op, "wants one axis, or 0 for the flattened input, got axes 0x%x",
                            (unsigned)op->attrs.reduce.axes);
    out->dtype = UM_I64;
    reduced_shape(op, axes, out);
    if (um_view_count(&op->in[0]) == 0 && um_view_count(out) != 0)
        return um_rule_fail_view(op, "nothing to choose from along the axis", "x", &op->in[0]);
    return UM_OK;
}

/* ---- scan ----------------------------------------------------------------------------------- */

um_status um_infer_scan(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    int32_t axis;
    if (!um_axis_resolve(op->attrs.axis.axis, x->rank, &axis)) {
        char text[UM_VIEW_TEXT];
        return um_rule_fail(op, "axis %d is outside x: x is %s", (int)op->attrs.axis.axis,
                            um_view_text(x, text, sizeof text));
    }
    um_rule_like(out, x->dtype, x);
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct reduce_row {
    um_dims dims;
    uint32_t axes;
    int32_t keepdims;
    double correction;
} reduce_rows[] = {
    {UM_DIMS(33, 65), UM_AXIS(1), 0, 1},
    {UM_DIMS(33, 65), UM_AXIS(0), 1, 0},
    {UM_DIMS(33, 65), UM_ALL_AXES, 0, 2},
    {UM_SCALAR, UM_ALL_AXES, 0, 0},
    {UM_DIMS(0), UM_ALL_AXES, 0, 1},
    {UM_DIMS(1), UM_AXIS(0), 0, 1},
    {UM_DIMS(17), UM_AXIS(-1), 1, 1},
    {UM_DIMS(257), UM_ALL_AXES, 1, 0.5},
    {UM_DIMS(10007), UM_AXIS(0), 0, 1},
    {UM_DIMS(3, 0, 5), UM_AXIS(1), 0, 1},
    {UM_DIMS(3, 0, 5), UM_AXIS(0), 1, 1},
    {UM_DIMS(1, 1000), UM_AXIS(0), 0, 0},
    {UM_DIMS(1000, 1), UM_AXIS(-2), 0, 1},
    {UM_DIMS(4, 5, 6), UM_AXIS(0) | UM_AXIS(2), 0, 1},
    {UM_DIMS(4, 129, 6), UM_AXIS(1), 1, 2},
    {UM_DIMS(4, 5, 6), UM_AXIS(0) | UM_AXIS(1) | UM_AXIS(2), 1, 1},
    {UM_DIMS(2, 3, 1, 5, 7), UM_AXIS(1) | UM_AXIS(-2), 0, 1},
    {UM_DIMS(2, 3, 1, 5, 7), UM_AXIS(-1) | UM_AXIS(0), 1, 1},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_AXIS(0) | UM_AXIS(2) | UM_AXIS(4) | UM_AXIS(6), 0, 1},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_AXIS(1) | UM_AXIS(3) | UM_AXIS(5) | UM_AXIS(7), 0, 1},
    {UM_DIMS(300, 257), UM_AXIS(0), 0, 1},
    {UM_DIMS(300, 257), UM_AXIS(1), 0, 1},
    {UM_DIMS(300, 257), UM_ALL_AXES, 0, 1},
};

/* Few different numbers where ties or a single 0 decide; near 1 where products would run away; far
 * out where a plain sum of squares or of exponentials would. */
static void add_reduce_input(um_sample *s, int32_t index, um_dtype dtype, const um_dims *dims)
{
    um_op_id op = s->op.id;
    bool is_float = um_dtype_is_float(dtype);
    if (op == UM_OP_ANY || op == UM_OP_ALL)
        um_sample_indices(s, dtype, dims, index % 3 == 1, index % 3 != 2);
    else if ((op == UM_OP_PROD || op == UM_OP_CUMPROD) && is_float)
        um_sample_input(s, dtype, dims, 0.9, 1.1);
    else if (op == UM_OP_PROD || op == UM_OP_CUMPROD)
        um_sample_indices(s, dtype, dims, -3, 3);
    else if (op == UM_OP_L2 && index % 3 == 1)
        um_sample_input(s, dtype, dims, -um_sample_large(dtype), um_sample_large(dtype));
    else if (op == UM_OP_LOGSUMEXP && index % 3 == 1)
        um_sample_input(s, dtype, dims, -1000, 1000);
    else if ((op == UM_OP_VAR || op == UM_OP_STD) && index % 3 == 1)
        um_sample_input(s, dtype, dims, 1000, 1004);
    else if (index % 2 && (um_op_get_row(op)->result == UM_RESULT_I64 || op == UM_OP_CUMMAX))
        um_sample_indices(s, dtype, dims, -9, 9);
    else
        um_sample_input(s, dtype, dims, is_float ? -4 : -100, is_float ? 4 : 100);
}

/* Rows that have programs, too, behind those that have none. */
static const int32_t fused_rows[] = {0, 1, 9, 14, 16, 21};

bool um_sample_reduce(int32_t index, um_dtype dtype, um_sample *sample)
{
    const int32_t plain = (int32_t)UM_COUNT_OF(reduce_rows);
    const int32_t fused = (int32_t)UM_COUNT_OF(fused_rows);
    int32_t ride = index < plain ? -1 : (index - plain) / fused;
    if (ride >= 0) index = fused_rows[(index - plain) % fused];
    const struct reduce_row *row = &reduce_rows[index];
    add_reduce_input(sample, index, dtype, &row->dims);
    sample->op.attrs.reduce.axes = row->axes;
    sample->op.attrs.reduce.keepdims = row->keepdims;
    um_sample_label_input(sample);
    um_sample_label(sample, " axes=0x%x keep=%d", (unsigned)row->axes, (int)row->keepdims);
    if (sample->op.id == UM_OP_VAR || sample->op.id == UM_OP_STD) {
        sample->op.attrs.reduce.correction = row->correction;
        um_sample_label(sample, " corr=%g", row->correction);
    }
    um_sample_finish(sample, UM_DTYPE_NONE);
    return ride < 0 || um_sample_ride(ride, sample);
}

static const struct axis_row {
    um_dims dims;
    uint32_t axes;
} arg_rows[] = {
    {UM_DIMS(33, 65), UM_AXIS(1)},
    {UM_DIMS(33, 65), UM_AXIS(0)},
    {UM_DIMS(33, 65), UM_ALL_AXES},
    {UM_SCALAR, UM_ALL_AXES},
    {UM_DIMS(1), UM_AXIS(0)},
    {UM_DIMS(17), UM_AXIS(-1)},
    {UM_DIMS(10007), UM_ALL_AXES},
    {UM_DIMS(3, 0, 5), UM_AXIS(0)},
    {UM_DIMS(5, 7, 0), UM_AXIS(1)},
    {UM_DIMS(1, 1000), UM_AXIS(0)},
    {UM_DIMS(4, 129, 6), UM_AXIS(1)},
    {UM_DIMS(2, 3, 1, 5, 7), UM_AXIS(-2)},
    {UM_DIMS(2, 3, 1, 5, 7), UM_ALL_AXES},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_AXIS(3)},
    {UM_DIMS(300, 257), UM_AXIS(0)},
    {UM_DIMS(300, 257), UM_AXIS(1)},
};

bool um_sample_reduce_arg(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t row_count = (int32_t)UM_COUNT_OF(arg_rows);
    if (index >= 2 * row_count) return false;
    const struct axis_row *row = &arg_rows[index / 2];
    add_reduce_input(sample, index, dtype, &row->dims); /* odd: with many ties */
    sample->op.attrs.reduce.axes = row->axes;
    sample->op.attrs.reduce.keepdims = index / 2 % 2;
    um_sample_label_input(sample);
    um_sample_label(sample, " axes=0x%x keep=%d", (unsigned)row->axes, index / 2 % 2);
    if (index % 2) um_sample_label(sample, " ties");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

static const struct {
    um_dims dims;
    int32_t axis;
} scan_rows[] = {
    {UM_DIMS(33, 65), 1},
    {UM_DIMS(33, 65), 0},
    {UM_DIMS(0), 0},
    {UM_DIMS(1), -1},
    {UM_DIMS(17), 0},
    {UM_DIMS(257), -1},
    {UM_DIMS(10007), 0},
    {UM_DIMS(3, 0, 5), 1},
    {UM_DIMS(3, 0, 5), 0},
    {UM_DIMS(1, 1000), 0},
    {UM_DIMS(4, 129, 6), 1},
    {UM_DIMS(2, 3, 1, 5, 7), -2},
    {UM_DIMS(2, 3, 1, 5, 7), 2},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), 0},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), -8},
    {UM_DIMS(300, 257), 0},
    {UM_DIMS(300, 257), 1},
};

bool um_sample_scan(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= (int32_t)UM_COUNT_OF(scan_rows)) return false;
    add_reduce_input(sample, index, dtype, &scan_rows[index].dims);
    sample->op.attrs.axis.axis = scan_rows[index].axis;
    um_sample_label_input(sample);
    um_sample_label(sample, " axis=%d", (int)scan_rows[index].axis);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
