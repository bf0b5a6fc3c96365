/* op/conv.c: convolution and its gradients for data and filter, 1-D to 3-D, plain and transposed.
 * Letters: N batch, C channels of the wide side, K filters, G groups. See conv.h. */
#include "op/conv.h"

#include "op/rule.h"

um_conv_views um_conv_get_views(const um_op *op, const um_view *out)
{
    const um_view *a = &op->in[0], *b = &op->in[1];
    bool turned = op->attrs.conv.transposed;
    if (op->id == UM_OP_CONV_BACKWARD_FILTER)
        return turned ? (um_conv_views){b, out, a, "dy", "dw", "x"}
                      : (um_conv_views){a, out, b, "x", "dw", "dy"};
    if (op->id == UM_OP_CONV_BACKWARD_DATA)
        return turned ? (um_conv_views){a, b, out, "dy", "w", "dx"}
                      : (um_conv_views){out, b, a, "dx", "w", "dy"};
    return turned ? (um_conv_views){out, b, a, "y", "w", "x"}
                  : (um_conv_views){a, b, out, "x", "w", "y"};
}

/* ---- attributes ----------------------------------------------------------------------------- */

static um_status check_axis_attrs(const um_op *op, int32_t axis)
{
    const um_conv_desc *d = &op->attrs.conv;
    if (d->stride[axis] < 1 || d->dilation[axis] < 1)
        return um_rule_fail(op, "stride and dilation must be 1 or more, got %d and %d of axis %d",
                            (int)d->stride[axis], (int)d->dilation[axis], (int)axis);
    if (d->pad_before[axis] < 0 || d->pad_after[axis] < 0)
        return um_rule_fail(op, "padding must not be negative, got %d and %d of axis %d",
                            (int)d->pad_before[axis], (int)d->pad_after[axis], (int)axis);
    int32_t extra = d->output_padding[axis];
    if (extra < 0 || extra >= (d->transposed ? d->stride[axis] : 1))
        return um_rule_fail(op,
                            "output padding must be 0, or with transposed less than the stride "
                            "%d, got %d of axis %d",
                            (int)d->stride[axis], (int)extra, (int)axis);
    return UM_OK;
}

static um_status check_attrs(const um_op *op, int32_t rank)
{
    const um_conv_desc *d = &op->attrs.conv;
    if (rank < 3 || rank > 2 + UM_CONV_MAX_AXES)
        return um_rule_fail(op, "wants tensors of rank 3 to 5, got rank %d", (int)rank);
    if (d->layout != UM_CHANNELS_FIRST && d->layout != UM_CHANNELS_LAST)
        return um_rule_fail(op, "there is no layout %d", (int)d->layout);
    if (d->groups < 1) return um_rule_fail(op, "groups must be 1 or more, got %d", (int)d->groups);
    for (int32_t axis = 0; axis < rank - 2; axis++) UM_TRY(check_axis_attrs(op, axis));
    return UM_OK;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* How far one filter reaches: dilation * (kernel - 1) + 1. */
static bool filter_reach(const um_op *op, int32_t axis, int64_t kernel, int64_t *reach)
{
    int64_t dilation = op->attrs.conv.dilation[axis];
    return um_mul_i64(dilation, kernel - 1, reach) && um_add_i64(*reach, 1, reach);
}

static um_status narrow_size(const um_op *op, int32_t axis, int64_t wide, int64_t kernel,
                             int64_t *out)
{
    const um_conv_desc *d = &op->attrs.conv;
    int64_t reach, padded, pads = (int64_t)d->pad_before[axis] + d->pad_after[axis];
    *out = 0;
    if (kernel < 1)
        return um_rule_fail(op, "the filter has size %lld along axis %d", (long long)kernel,
                            (int)axis);
    if (!filter_reach(op, axis, kernel, &reach) || !um_add_i64(wide, pads, &padded))
        return um_rule_fail(op, "sizes overflow along axis %d", (int)axis);
    if (reach > padded)
        return um_rule_fail(op,
                            "the filter is larger than the padded input along axis %d: it "
                            "reaches over %lld of %lld",
                            (int)axis, (long long)reach, (long long)padded);
    *out = (padded - reach) / d->stride[axis] + 1;
    return UM_OK;
}

/* The output size of a transposed convolution. */
static um_status wide_size(const um_op *op, int32_t axis, int64_t narrow, int64_t kernel,
                           int64_t *out)
{
    const um_conv_desc *d = &op->attrs.conv;
    int64_t reach, size, pads = (int64_t)d->pad_before[axis] + d->pad_after[axis];
    *out = 0;
    if (kernel < 1 || narrow < 1)
        return um_rule_fail(op, "x and w have sizes %lld and %lld along axis %d", (long long)narrow,
                            (long long)kernel, (int)axis);
    if (!filter_reach(op, axis, kernel, &reach) ||
        !um_mul_i64(narrow - 1, d->stride[axis], &size) || !um_add_i64(size, reach, &size) ||
        !um_add_i64(size, d->output_padding[axis], &size))
        return um_rule_fail(op, "sizes overflow along axis %d", (int)axis);
    if (size < pads)
        return um_rule_fail(op,
                            "the padding %lld takes more than the whole output %lld along axis "
                            "%d",
                            (long long)pads, (long long)size, (int)axis);
    *out = size - pads;
    return UM_OK;
}

/* ---- three tensors that fit ------------------------------------------------------------------ */

static um_status check_channels(const um_op *op, const um_conv_views *v)
{
    int32_t channel = um_channel_axis(op->attrs.conv.layout, v->wide->rank);
    int64_t groups = op->attrs.conv.groups, channels;
    if (v->filter->shape[0] % groups != 0 || v->wide->shape[channel] % groups != 0)
        return um_rule_fail(op, "%lld groups do not divide %lld channels and %lld filters",
                            (long long)groups, (long long)v->wide->shape[channel],
                            (long long)v->filter->shape[0]);
    if (!um_mul_i64(v->filter->shape[1], groups, &channels) || channels != v->wide->shape[channel])
        return um_rule_fail_views(op, "channels differ", v->wide_name, v->wide, v->filter_name,
                                  v->filter);
    if (v->narrow->shape[channel] != v->filter->shape[0])
        return um_rule_fail_views(op, "the number of filters differs", v->narrow_name, v->narrow,
                                  v->filter_name, v->filter);
    return UM_OK;
}

static um_status check_fit(const um_op *op, const um_conv_views *v)
{
    int32_t rank = v->wide->rank, space = um_space_axis(op->attrs.conv.layout);
    if (v->wide->shape[0] != v->narrow->shape[0])
        return um_rule_fail_views(op, "batch sizes differ", v->wide_name, v->wide, v->narrow_name,
                                  v->narrow);
    UM_TRY(check_channels(op, v));
    for (int32_t axis = 0; axis < rank - 2; axis++) {
        int64_t size;
        UM_TRY(
            narrow_size(op, axis, v->wide->shape[space + axis], v->filter->shape[2 + axis], &size));
        if (size == v->narrow->shape[space + axis]) continue;
        char text[UM_VIEW_TEXT];
        return um_rule_fail(op,
                            "%s has size %lld along axis %d, %s and the filter give %lld: %s "
                            "is %s",
                            v->narrow_name, (long long)v->narrow->shape[space + axis], (int)axis,
                            v->wide_name, (long long)size, v->wide_name,
                            um_view_text(v->wide, text, sizeof text));
    }
    return UM_OK;
}

/* Dtype and rank of both inputs, then the attributes. */
static um_status check_inputs(const um_op *op)
{
    const um_conv_views v = um_conv_get_views(op, NULL);
    const um_view *a = &op->in[0], *b = &op->in[1];
    const char *a_name = a == v.wide ? v.wide_name : v.narrow_name;
    const char *b_name = b == v.filter ? v.filter_name : b == v.wide ? v.wide_name : v.narrow_name;
    if (op->id != UM_OP_CONV && op->attrs.conv_fused.epilogue)
        return um_rule_fail(op, "has no epilogue");
    if (a->dtype != b->dtype) return um_rule_fail_views(op, "dtypes differ", a_name, a, b_name, b);
    if (a->rank != b->rank) return um_rule_fail_views(op, "ranks differ", a_name, a, b_name, b);
    return check_attrs(op, a->rank);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static um_status check_bias(const um_op *op, const um_view *out)
{
    const um_view *bias = &op->in[2];
    um_dtype dtype = op->in[0].dtype;
    int64_t channels = out->shape[um_channel_axis(op->attrs.conv.layout, out->rank)];
    if (bias->dtype == dtype && bias->rank == 1 && bias->shape[0] == channels) return UM_OK;
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "the bias must be %s[%lld], it is %s", um_dtype_name(dtype),
                        (long long)channels, um_view_text(bias, text, sizeof text));
}

um_status um_infer_conv(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0], *w = &op->in[1];
    UM_TRY(check_inputs(op));
    int32_t layout = op->attrs.conv.layout, space = um_space_axis(layout);
    int32_t channel = um_channel_axis(layout, x->rank);
    bool transposed = op->attrs.conv.transposed;
    um_rule_like(out, x->dtype, x);
    out->shape[channel] = transposed ? 0 : w->shape[0];
    if (transposed && !um_mul_i64(w->shape[1], op->attrs.conv.groups, &out->shape[channel]))
        return um_rule_fail_view(op, "sizes overflow", "w", w);
    for (int32_t axis = 0; axis < x->rank - 2; axis++)
        UM_TRY((transposed ? wide_size : narrow_size)(
            op, axis, x->shape[space + axis], w->shape[2 + axis], &out->shape[space + axis]));
    um_conv_views v = um_conv_get_views(op, out);
    UM_TRY(check_fit(op, &v));
    return um_op_has_input(op, 2) ? check_bias(op, out) : UM_OK;
}

/* The output's shape is the caller's; it has to fit. */
static um_status infer_gradient(const um_op *op, um_view *out)
{
    UM_TRY(check_inputs(op));
    out->dtype = op->in[0].dtype;
    const char *fault = um_view_fault(out);
    bool good = !fault && out->rank == op->in[0].rank;
    um_conv_views v = um_conv_get_views(op, out);
    const char *name = out == v.filter ? v.filter_name
                       : out == v.wide ? v.wide_name
                                       : v.narrow_name;
    if (!good)
        return um_rule_fail_views(op, "the output's shape, which the caller names, does not fit",
                                  name, out, "the first input", &op->in[0]);
    return check_fit(op, &v);
}

um_status um_infer_conv_backward_data(const um_op *op, um_view *out)
{
    return infer_gradient(op, out);
}

um_status um_infer_conv_backward_filter(const um_op *op, um_view *out)
{
    return infer_gradient(op, out);
}

/* ---- samples -------------------------------------------------------------------------------- */

/* Sizes of the wide side, the filter and what they make of each other. */
static const struct conv_row {
    int32_t n, c, k, groups, axes;
    int32_t in[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} conv_rows[] = {
    {2, 3, 5, 1, 2, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 4, 6, 2, 2, {9, 8}, {3, 2}, {2, 3}, {1, 1}, {1, 0}, {0, 2}},
    {1, 2, 3, 1, 2, {11, 10}, {3, 3}, {1, 1}, {2, 3}, {2, 2}, {2, 1}},
    {2, 4, 4, 4, 2, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 3, 6, 3, 2, {8, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 17, 19, 1, 2, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 5, 7, 1, 1, {33}, {5}, {2}, {1}, {2}, {2}},
    {1, 2, 2, 2, 1, {40}, {7}, {1}, {3}, {9}, {4}},
    {1, 2, 3, 1, 3, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1}, {0, 1, 1}},
    {0, 3, 5, 1, 2, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 0, 4, 2, 2, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 0, 1, 2, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 37, 7, 1, 2, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 460, 2, 1, 2, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 3, 4, 1, 2, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {1, 2, 2, 1, 2, {13, 13}, {2, 2}, {5, 5}, {1, 1}, {0, 0}, {0, 0}},
    {1, 1, 3, 1, 1, {43}, {6}, {4}, {2}, {1}, {3}},
    {9, 2, 17, 1, 2, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 8, 16, 1, 2, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 6, 6, 6, 2, {40, 41}, {5, 5}, {2, 1}, {1, 1}, {2, 2}, {2, 2}},
    {1, 2, 3, 1, 2, {20, 17}, {3, 2}, {9, 8}, {1, 1}, {1, 0}, {0, 1}},
    {2, 8, 12, 2, 2, {7, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 12, 9, 3, 1, {33}, {1}, {1}, {1}, {0}, {0}},
};

static um_dims side_dims(const struct conv_row *row, int32_t layout, bool wide)
{
    um_dims dims = {row->axes + 2, {row->n}};
    dims.size[um_channel_axis(layout, dims.rank)] = wide ? row->c : row->k;
    for (int32_t i = 0; i < row->axes; i++) {
        int32_t reach = row->dilation[i] * (row->kernel[i] - 1) + 1;
        int32_t padded = row->in[i] + row->before[i] + row->after[i];
        dims.size[um_space_axis(layout) + i] =
            wide ? row->in[i] : (padded - reach) / row->stride[i] + 1;
    }
    return dims;
}

static um_dims filter_dims(const struct conv_row *row)
{
    um_dims dims = {row->axes + 2, {row->k, row->c / row->groups}};
    for (int32_t i = 0; i < row->axes; i++) dims.size[2 + i] = row->kernel[i];
    return dims;
}

static um_conv_desc sample_desc(const struct conv_row *row, int32_t layout, bool transposed)
{
    um_conv_desc d = {.layout = layout, .groups = row->groups, .transposed = transposed};
    um_dims narrow = side_dims(row, layout, false);
    for (int32_t i = 0; i < row->axes; i++) {
        d.stride[i] = row->stride[i];
        d.dilation[i] = row->dilation[i];
        d.pad_before[i] = row->before[i];
        d.pad_after[i] = row->after[i];
        int32_t span = (narrow.size[um_space_axis(layout) + i] - 1) * row->stride[i] +
                       row->dilation[i] * (row->kernel[i] - 1) + 1;
        if (transposed) d.output_padding[i] = row->in[i] + row->before[i] + row->after[i] - span;
    }
    return d;
}

static void set_output(um_sample *sample, const um_dims *dims)
{
    um_view *out = &sample->op.out[0];
    out->rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) out->shape[i] = dims->size[i];
}

static const struct conv_row *sample_begin(int32_t index, um_sample *sample)
{
    if (index >= 4 * (int32_t)UM_COUNT_OF(conv_rows)) return NULL;
    const struct conv_row *row = &conv_rows[index / 4];
    sample->op.attrs.conv = sample_desc(row, index % 2, index / 2 % 2);
    um_sample_label(sample, "row=%d %dd %s%s", (int)(index / 4), (int)row->axes,
                    index % 2 ? "last" : "first", index / 2 % 2 ? " transposed" : "");
    return row;
}

/* Rows that have programs, too, behind those that have none. */
static const int32_t fused_rows[] = {1, 3, 5, 8};

bool um_sample_conv(int32_t index, um_dtype dtype, um_sample *sample)
{
    const int32_t plain = 4 * (int32_t)UM_COUNT_OF(conv_rows);
    const int32_t fused = 4 * (int32_t)UM_COUNT_OF(fused_rows);
    int32_t ride = index < plain ? -1 : (index - plain) / fused, rest = (index - plain) % fused;
    if (ride >= 0) index = 4 * fused_rows[rest / 4] + rest % 4;
    const struct conv_row *row = sample_begin(index, sample);
    if (!row) return false;
    bool transposed = sample->op.attrs.conv.transposed;
    um_dims x = side_dims(row, sample->op.attrs.conv.layout, !transposed);
    um_dims w = filter_dims(row), bias = UM_DIMS(transposed ? row->c : row->k);
    um_sample_input(sample, dtype, &x, -1, 1);
    um_sample_input(sample, dtype, &w, -1, 1);
    if (index / 4 % 2 == 0) um_sample_input(sample, dtype, &bias, -1, 1);
    um_sample_finish(sample, UM_DTYPE_NONE);
    return ride < 0 || um_sample_ride(ride, sample);
}

bool um_sample_conv_backward_data(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct conv_row *row = sample_begin(index, sample);
    if (!row) return false;
    const um_conv_desc *d = &sample->op.attrs.conv;
    um_dims dy = side_dims(row, d->layout, d->transposed), w = filter_dims(row);
    um_dims dx = side_dims(row, d->layout, !d->transposed);
    um_sample_input(sample, dtype, &dy, -1, 1);
    um_sample_input(sample, dtype, &w, -1, 1);
    set_output(sample, &dx);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_conv_backward_filter(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct conv_row *row = sample_begin(index, sample);
    if (!row) return false;
    const um_conv_desc *d = &sample->op.attrs.conv;
    um_dims x = side_dims(row, d->layout, !d->transposed), dw = filter_dims(row);
    um_dims dy = side_dims(row, d->layout, d->transposed);
    um_sample_input(sample, dtype, &x, -1, 1);
    um_sample_input(sample, dtype, &dy, -1, 1);
    set_output(sample, &dw);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
