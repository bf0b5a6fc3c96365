/* op/pool.c: pooling over 1 to 3 spatial axes, largest and mean, and the gradients. */
#include "op/pool.h"

#include "op/rule.h"

um_pool_axis um_pool_get_axis(const um_op *op, const um_view *wide, const um_view *narrow,
                              int32_t axis)
{
    const um_pool_desc *d = &op->attrs.pool;
    int32_t at = um_space_axis(d->layout) + axis;
    return (um_pool_axis){.in = wide->shape[at],
                          .out = narrow->shape[at],
                          .kernel = d->kernel[axis],
                          .stride = d->stride[axis],
                          .dilation = d->dilation[axis],
                          .pad_before = d->pad_before[axis],
                          .pad_after = d->pad_after[axis],
                          .adaptive = d->adaptive,
                          .include_pad = d->count_include_pad};
}

/* ---- attributes ----------------------------------------------------------------------------- */

static um_status check_axis_attrs(const um_op *op, int32_t axis)
{
    const um_pool_desc *d = &op->attrs.pool;
    if (d->kernel[axis] < 1 || d->stride[axis] < 1 || d->dilation[axis] < 1)
        return um_rule_fail(op,
                            "kernel, stride and dilation must be 1 or more, got %d, %d and %d of "
                            "axis %d",
                            (int)d->kernel[axis], (int)d->stride[axis], (int)d->dilation[axis],
                            (int)axis);
    if (d->pad_before[axis] < 0 || d->pad_after[axis] < 0)
        return um_rule_fail(op, "padding must not be negative, got %d and %d of axis %d",
                            (int)d->pad_before[axis], (int)d->pad_after[axis], (int)axis);
    return UM_OK;
}

static um_status check_attrs(const um_op *op, int32_t rank)
{
    const um_pool_desc *d = &op->attrs.pool;
    if (rank < 3 || rank > 2 + UM_CONV_MAX_AXES)
        return um_rule_fail(op, "wants tensors of rank 3 to 5, got rank %d", (int)rank);
    if (d->layout != UM_CHANNELS_FIRST && d->layout != UM_CHANNELS_LAST)
        return um_rule_fail(op, "there is no layout %d", (int)d->layout);
    for (int32_t axis = 0; axis < rank - 2 && !d->adaptive; axis++)
        UM_TRY(check_axis_attrs(op, axis));
    return UM_OK;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* How many windows fit on x->in places. */
static um_status count_windows(const um_op *op, const um_pool_axis *x, int32_t axis, int64_t *out)
{
    int64_t padded, reach = x->dilation * (x->kernel - 1) + 1; /* of 32-bit numbers */
    *out = 0;
    if (!um_add_i64(x->in, x->pad_before + x->pad_after, &padded))
        return um_rule_fail(op, "sizes overflow along axis %d", (int)axis);
    if (reach > padded)
        return um_rule_fail(op,
                            "the window is larger than the padded input along axis %d: it "
                            "reaches over %lld of %lld",
                            (int)axis, (long long)reach, (long long)padded);
    *out = (padded - reach) / x->stride + 1;
    if (!op->attrs.pool.ceil_mode || (padded - reach) % x->stride == 0) return UM_OK;
    if (*out * x->stride < x->in + x->pad_before) ++*out;
    return UM_OK;
}

static um_status check_adaptive(const um_op *op, const um_pool_axis *x, int32_t axis)
{
    int64_t product;
    if (x->in == 0 && x->out != 0)
        return um_rule_fail(op, "%lld windows on an empty axis %d", (long long)x->out, (int)axis);
    if (!um_mul_i64(x->in, x->out + 1, &product) || !um_mul_i64(x->in + 1, x->out, &product))
        return um_rule_fail(op, "sizes overflow along axis %d", (int)axis);
    return UM_OK;
}

static const char *wide_name(const um_op *op)
{
    return op->id == UM_OP_MAX_POOL || op->id == UM_OP_AVG_POOL ? "x" : "dx";
}

static const char *narrow_name(const um_op *op)
{
    return op->id == UM_OP_MAX_POOL || op->id == UM_OP_AVG_POOL ? "y" : "dy";
}

/* Whether the tensors belong together. */
static um_status check_fit(const um_op *op, const um_view *wide, const um_view *narrow)
{
    const um_pool_desc *d = &op->attrs.pool;
    int32_t rank = wide->rank, channel = um_channel_axis(d->layout, rank);
    if (narrow->rank != rank || narrow->shape[0] != wide->shape[0] ||
        narrow->shape[channel] != wide->shape[channel])
        return um_rule_fail_views(op, "batches or channels differ", wide_name(op), wide,
                                  narrow_name(op), narrow);
    for (int32_t axis = 0; axis < rank - 2; axis++) {
        um_pool_axis x = um_pool_get_axis(op, wide, narrow, axis);
        int64_t count = x.out;
        UM_TRY(d->adaptive ? check_adaptive(op, &x, axis) : count_windows(op, &x, axis, &count));
        if (count == x.out) continue;
        char text[UM_VIEW_TEXT];
        return um_rule_fail(op, "%s has size %lld along axis %d, %s gives %lld windows: it is %s",
                            narrow_name(op), (long long)x.out, (int)axis, wide_name(op),
                            (long long)count, um_view_text(wide, text, sizeof text));
    }
    return UM_OK;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static um_status check_named_shape(const um_op *op, const um_view *out)
{
    if (!um_view_fault(out) && out->rank == op->in[0].rank) return UM_OK;
    return um_rule_fail_views(op, "the output's shape, which the caller names, does not fit", "it",
                              out, "the input", &op->in[0]);
}

um_status um_infer_avg_pool(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    const um_pool_desc *d = &op->attrs.pool;
    UM_TRY(check_attrs(op, x->rank));
    out->dtype = x->dtype;
    if (d->adaptive) {
        UM_TRY(check_named_shape(op, out));
        return check_fit(op, x, out);
    }
    um_rule_like(out, x->dtype, x);
    for (int32_t axis = 0; axis < x->rank - 2; axis++) {
        um_pool_axis a = um_pool_get_axis(op, x, x, axis);
        UM_TRY(count_windows(op, &a, axis, &out->shape[um_space_axis(d->layout) + axis]));
    }
    return UM_OK;
}

um_status um_infer_max_pool(const um_op *op, um_view *out)
{
    UM_TRY(um_infer_avg_pool(op, out));
    if (op->out_count == 2) um_rule_like(&out[1], UM_I64, &out[0]);
    return UM_OK;
}

um_status um_infer_avg_pool_backward(const um_op *op, um_view *out)
{
    UM_TRY(check_attrs(op, op->in[0].rank));
    out->dtype = op->in[0].dtype;
    UM_TRY(check_named_shape(op, out));
    return check_fit(op, out, &op->in[0]);
}

um_status um_infer_max_pool_backward(const um_op *op, um_view *out)
{
    const um_view *dy = &op->in[0], *indices = &op->in[1];
    if (indices->dtype != UM_I64 || !um_shapes_equal(dy, indices))
        return um_rule_fail_views(op, "the indices must be i64 of dy's shape", "dy", dy, "indices",
                                  indices);
    return um_infer_avg_pool_backward(op, out);
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct pool_row {
    int32_t n, c, axes;
    int32_t in[3], kernel[3], stride[3], dilation[3], before[3], after[3];
    int32_t ceil_mode;
    int32_t out[3]; /* adaptive */
} pool_rows[] = {
    {2, 3, 2, {8, 9}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 0, {0}},
    {2, 3, 2, {8, 9}, {3, 2}, {2, 3}, {1, 1}, {1, 0}, {1, 1}, 0, {0}},
    {1, 2, 2, {7, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, {0}},
    {1, 2, 2, {11, 10}, {3, 3}, {1, 1}, {2, 3}, {2, 0}, {2, 1}, 0, {0}},
    {1, 3, 2, {5, 4}, {2, 2}, {3, 3}, {1, 1}, {4, 3}, {3, 5}, 1, {0}},
    {2, 4, 1, {33}, {5}, {2}, {1}, {2}, {2}, 0, {0}},
    {1, 2, 1, {300}, {260}, {13}, {1}, {0}, {0}, 1, {0}},
    {1, 2, 3, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1}, {0, 1, 1}, 1, {0}},
    {0, 3, 2, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, {0}},
    {2, 0, 2, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, {0}},
    {2, 3, 2, {7, 9}, {0}, {0}, {0}, {0}, {0}, 0, {1, 1}},
    {2, 3, 2, {7, 9}, {0}, {0}, {0}, {0}, {0}, 0, {3, 4}},
    {1, 2, 2, {3, 4}, {0}, {0}, {0}, {0}, {0}, 0, {7, 4}},
    {1, 2, 3, {4, 3, 5}, {0}, {0}, {0}, {0}, {0}, 0, {2, 2, 3}},
    {1, 2, 2, {1, 5}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}, 0, {0}},
    {2, 16, 2, {31, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, {0}},
};

static um_dims side_dims(const struct pool_row *row, int32_t layout, const int32_t *size)
{
    um_dims dims = {row->axes + 2, {row->n}};
    dims.size[um_channel_axis(layout, dims.rank)] = row->c;
    for (int32_t i = 0; i < row->axes; i++) dims.size[um_space_axis(layout) + i] = size[i];
    return dims;
}

/* The attributes, and y's sizes. */
static const struct pool_row *sample_begin(int32_t index, um_sample *sample, int32_t *out)
{
    if (index >= 2 * (int32_t)UM_COUNT_OF(pool_rows)) return NULL;
    const struct pool_row *row = &pool_rows[index / 2];
    um_pool_desc *d = &sample->op.attrs.pool;
    d->layout = index % 2;
    d->adaptive = row->out[0] != 0;
    d->ceil_mode = row->ceil_mode;
    d->count_include_pad = index / 2 % 2;
    for (int32_t i = 0; i < row->axes; i++) {
        d->kernel[i] = row->kernel[i];
        d->stride[i] = row->stride[i];
        d->dilation[i] = row->dilation[i];
        d->pad_before[i] = row->before[i];
        d->pad_after[i] = row->after[i];
        um_pool_axis x = {
            row->in[i],    0,     row->kernel[i], row->stride[i], row->dilation[i], row->before[i],
            row->after[i], false, false};
        int64_t count = row->out[i];
        if (!d->adaptive && count_windows(&sample->op, &x, i, &count) != UM_OK) return NULL;
        out[i] = (int32_t)count;
    }
    um_sample_label(sample, "row=%d %dd %s", (int)(index / 2), (int)row->axes,
                    index % 2 ? "last" : "first");
    return row;
}

static void set_output(um_sample *sample, const um_dims *dims)
{
    um_view *out = &sample->op.out[0];
    out->rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) out->shape[i] = dims->size[i];
}

bool um_sample_avg_pool(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t out[3];
    const struct pool_row *row = sample_begin(index, sample, out);
    if (!row) return false;
    um_dims x = side_dims(row, index % 2, row->in), y = side_dims(row, index % 2, out);
    if (sample->op.id == UM_OP_MAX_POOL && index / 2 % 3 == 1)
        um_sample_indices(sample, dtype, &x, -3, 3);
    else
        um_sample_input(sample, dtype, &x, -100, 100);
    set_output(sample, &y);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_max_pool(int32_t index, um_dtype dtype, um_sample *sample)
{
    return um_sample_avg_pool(index, dtype, sample);
}

bool um_sample_avg_pool_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t out[3];
    const struct pool_row *row = sample_begin(index, sample, out);
    if (!row) return false;
    um_dims dy = side_dims(row, index % 2, out), dx = side_dims(row, index % 2, row->in);
    um_sample_input(sample, dtype, &dy, -1, 1);
    int32_t places = 1;
    for (int32_t i = 0; i < row->axes; i++) places *= row->in[i];
    if (sample->op.id == UM_OP_MAX_POOL_BACKWARD)
        um_sample_indices(sample, UM_I64, &dy, -1, places - 1);
    set_output(sample, &dx);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_max_pool_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    return um_sample_avg_pool_backward(index, dtype, sample);
}
