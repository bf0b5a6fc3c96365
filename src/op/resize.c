/* op/resize.c: a tensor at other spatial sizes, nearest, linear or cubic, and its gradient. */
#include "op/conv.h"
#include "op/rule.h"

static um_status check_attrs(const um_op *op, int32_t rank)
{
    const um_resize_desc *d = &op->attrs.resize;
    if (rank < 3 || rank > 2 + UM_CONV_MAX_AXES)
        return um_rule_fail(op, "wants tensors of rank 3 to 5, got rank %d", (int)rank);
    if (d->layout != UM_CHANNELS_FIRST && d->layout != UM_CHANNELS_LAST)
        return um_rule_fail(op, "there is no layout %d", (int)d->layout);
    if (d->mode < UM_RESIZE_NEAREST || d->mode > UM_RESIZE_CUBIC)
        return um_rule_fail(op, "there is no mode %d", (int)d->mode);
    return UM_OK;
}

/* From x (dx) to y (dy). */
static um_status check_fit(const um_op *op, const um_view *x, const um_view *y)
{
    int32_t layout = op->attrs.resize.layout, channel = um_channel_axis(layout, x->rank);
    if (x->shape[0] != y->shape[0] || x->shape[channel] != y->shape[channel])
        return um_rule_fail_views(op, "batches or channels differ", "one side", x, "the other", y);
    for (int32_t i = 0; i < x->rank - 2; i++) {
        int64_t in = x->shape[um_space_axis(layout) + i], out = y->shape[um_space_axis(layout) + i];
        int64_t product;
        if (in == 0 && out != 0)
            return um_rule_fail_views(op, "there is nothing to take from", "one side", x,
                                      "the other", y);
        /* 2 in out is the largest number there is on the way. */
        if (!um_mul_i64(in, out + 1, &product) || product > INT64_MAX / 4)
            return um_rule_fail_views(op, "sizes overflow", "one side", x, "the other", y);
    }
    return UM_OK;
}

um_status um_infer_resize(const um_op *op, um_view *out)
{
    const um_view *in = &op->in[0];
    UM_TRY(check_attrs(op, in->rank));
    out->dtype = in->dtype;
    if (um_view_fault(out) || out->rank != in->rank)
        return um_rule_fail_views(op, "the output's shape, which the caller names, does not fit",
                                  "it", out, "the input", in);
    return op->id == UM_OP_RESIZE ? check_fit(op, in, out) : check_fit(op, out, in);
}

um_status um_infer_resize_backward(const um_op *op, um_view *out)
{
    return um_infer_resize(op, out);
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct resize_row {
    int32_t n, c, axes, in[3], out[3];
} resize_rows[] = {
    {2, 3, 2, {5, 7}, {10, 14}}, {1, 2, 2, {8, 9}, {3, 5}},       {2, 3, 1, {17}, {33}},
    {1, 2, 1, {3}, {101}},       {1, 2, 3, {3, 4, 5}, {5, 2, 7}}, {2, 2, 2, {1, 6}, {4, 1}},
    {2, 2, 2, {5, 6}, {5, 6}},   {0, 3, 2, {5, 7}, {6, 6}},       {2, 0, 2, {5, 7}, {6, 6}},
    {1, 2, 2, {4, 4}, {0, 3}},   {2, 8, 2, {20, 21}, {41, 40}},
};

bool um_sample_resize(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= 12 * (int32_t)UM_COUNT_OF(resize_rows)) return false;
    const struct resize_row *row = &resize_rows[index / 12];
    um_resize_desc *d = &sample->op.attrs.resize;
    bool backward = sample->op.id == UM_OP_RESIZE_BACKWARD;
    d->layout = index % 2;
    d->align_corners = index / 2 % 2;
    d->mode = index / 4 % 3;
    um_dims from = {row->axes + 2, {row->n}}, to = from;
    int32_t channel = um_channel_axis(d->layout, from.rank), space = um_space_axis(d->layout);
    from.size[channel] = to.size[channel] = row->c;
    for (int32_t i = 0; i < row->axes; i++) {
        from.size[space + i] = backward ? row->out[i] : row->in[i];
        to.size[space + i] = backward ? row->in[i] : row->out[i];
    }
    um_sample_input(sample, dtype, &from, -2, 2);
    sample->op.out[0].rank = to.rank;
    for (int32_t i = 0; i < to.rank; i++) sample->op.out[0].shape[i] = to.size[i];
    um_sample_label(sample, "row=%d mode=%d %s%s", (int)(index / 12), (int)d->mode,
                    d->layout ? "last" : "first", d->align_corners ? " corners" : "");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_resize_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    return um_sample_resize(index, dtype, sample);
}
