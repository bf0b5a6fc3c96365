/* op/normalize.c: layer, group and batch norm, and the gradients of all norms and of softmax. The
 * forward rows of softmax and rms_norm are in norm.c. Letters: N batch, C channels, G groups. */
#include "op/rule.h"

#include <math.h>

/* ---- shared ---------------------------------------------------------------------------------- */

/* A view of x's axes first .. end - 1. */
static um_view axes_of(um_dtype dtype, const um_view *x, int32_t first, int32_t end)
{
    um_view v = {.dtype = dtype, .rank = end - first};
    for (int32_t i = first; i < end; i++) v.shape[i - first] = x->shape[i];
    return v;
}

static um_view channels_of(um_dtype dtype, const um_view *x, int32_t layout)
{
    int32_t axis = layout == UM_CHANNELS_LAST ? x->rank - 1 : 1;
    return axes_of(dtype, x, axis, axis + 1);
}

static um_dtype statistics_dtype(um_dtype dtype) { return dtype == UM_F64 ? UM_F64 : UM_F32; }

/* An input, when it is there, has to be as `wanted`. */
static um_status check_input(const um_op *op, int32_t index, const char *name,
                             const um_view *wanted)
{
    if (!um_op_has_input(op, index)) return UM_OK;
    const um_view *v = &op->in[index];
    if (v->dtype == wanted->dtype && um_shapes_equal(v, wanted)) return UM_OK;
    return um_rule_fail_views(op, "wrong parameter", name, v, "wanted", wanted);
}

/* dy and x of a gradient. */
static um_status check_pair(const um_op *op, const char *a_name, const char *b_name)
{
    const um_view *a = &op->in[0], *b = &op->in[1];
    if (a->dtype == b->dtype && um_shapes_equal(a, b)) return UM_OK;
    return um_rule_fail_views(op, "they must be alike", a_name, a, b_name, b);
}

/* The parameters of the op, and what of it is like them: inputs w and b from `first` on. */
static um_status check_weights(const um_op *op, int32_t first, const um_view *like)
{
    UM_TRY(um_rule_check_eps(op));
    UM_TRY(check_input(op, first, "w", like));
    return first == 1 ? check_input(op, 2, "b", like) : UM_OK;
}

/* dx, and dw and db where wanted. */
static um_status set_gradients(const um_op *op, const um_view *like, um_view *out)
{
    um_rule_like(&out[0], op->in[1].dtype, &op->in[1]);
    for (int32_t i = 1; i < op->out_count; i++) um_rule_like(&out[i], like->dtype, like);
    return UM_OK;
}

/* y, and mean and inverse where wanted. */
static um_status set_outputs(const um_op *op, const um_view *statistics, um_view *out)
{
    um_rule_like(&out[0], op->in[0].dtype, &op->in[0]);
    for (int32_t i = 1; i < op->out_count; i++)
        um_rule_like(&out[i], statistics->dtype, statistics);
    return UM_OK;
}

/* ---- softmax, rms_norm ----------------------------------------------------------------------- */

um_status um_infer_softmax_backward(const um_op *op, um_view *out)
{
    UM_TRY(check_pair(op, "y", "dy"));
    return um_infer_softmax(op, out);
}

um_status um_infer_rms_norm_backward(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[1];
    if (x->rank < 1) return um_rule_fail_view(op, "x needs a rank of 1 or more", "x", x);
    UM_TRY(check_pair(op, "dy", "x"));
    um_view w = axes_of(x->dtype, x, x->rank - 1, x->rank);
    UM_TRY(check_weights(op, 2, &w));
    return set_gradients(op, &w, out);
}

/* ---- layer_norm -------------------------------------------------------------------------------
 */

static um_status line_shape(const um_op *op, const um_view *x, um_view *line)
{
    int32_t dims = op->attrs.norm.dims;
    *line = (um_view){0};
    if (dims < 1 || dims > x->rank)
        return um_rule_fail(op, "dims must be 1 to x's rank, %d, got %d", (int)x->rank, (int)dims);
    *line = axes_of(x->dtype, x, x->rank - dims, x->rank);
    return UM_OK;
}

um_status um_infer_layer_norm(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    um_view line;
    UM_TRY(line_shape(op, x, &line));
    UM_TRY(check_weights(op, 1, &line));
    um_view lines = axes_of(statistics_dtype(x->dtype), x, 0, x->rank - line.rank);
    return set_outputs(op, &lines, out);
}

um_status um_infer_layer_norm_backward(const um_op *op, um_view *out)
{
    um_view line;
    UM_TRY(check_pair(op, "dy", "x"));
    UM_TRY(line_shape(op, &op->in[1], &line));
    UM_TRY(check_weights(op, 2, &line));
    return set_gradients(op, &line, out);
}

/* ---- group_norm -------------------------------------------------------------------------------
 */

static um_status channel_shape(const um_op *op, const um_view *x, um_view *channels)
{
    int32_t layout = op->attrs.norm.layout;
    *channels = (um_view){0};
    if (layout != UM_CHANNELS_FIRST && layout != UM_CHANNELS_LAST)
        return um_rule_fail(op, "there is no layout %d", (int)layout);
    if (x->rank < 2) return um_rule_fail_view(op, "x needs a rank of 2 or more", "x", x);
    *channels = channels_of(x->dtype, x, layout);
    return UM_OK;
}

static um_status check_groups(const um_op *op, const um_view *channels)
{
    int32_t groups = op->attrs.norm.groups;
    if (groups >= 1 && channels->shape[0] % groups == 0) return UM_OK;
    return um_rule_fail(op, "groups must divide the %lld channels, got %d",
                        (long long)channels->shape[0], (int)groups);
}

um_status um_infer_group_norm(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    um_view channels, lines = {.dtype = statistics_dtype(x->dtype), .rank = 2};
    UM_TRY(channel_shape(op, x, &channels));
    UM_TRY(check_groups(op, &channels));
    UM_TRY(check_weights(op, 1, &channels));
    lines.shape[0] = x->shape[0];
    lines.shape[1] = op->attrs.norm.groups;
    return set_outputs(op, &lines, out);
}

um_status um_infer_group_norm_backward(const um_op *op, um_view *out)
{
    um_view channels;
    UM_TRY(check_pair(op, "dy", "x"));
    UM_TRY(channel_shape(op, &op->in[1], &channels));
    UM_TRY(check_groups(op, &channels));
    UM_TRY(check_weights(op, 2, &channels));
    return set_gradients(op, &channels, out);
}

/* ---- batch_norm -------------------------------------------------------------------------------
 */

/* mean and var, inputs 3 and 4: both or none, and not none where they are used as they are. */
static um_status check_statistics(const um_op *op, const um_view *channels, bool wanted)
{
    um_view like = *channels;
    like.dtype = statistics_dtype(channels->dtype);
    UM_TRY(check_input(op, 3, "mean", &like));
    UM_TRY(check_input(op, 4, "var", &like));
    bool has_mean = um_op_has_input(op, 3), has_var = um_op_has_input(op, 4);
    if (has_mean != has_var) return um_rule_fail(op, "wants mean and var, got one of them");
    if (wanted && !has_mean && channels->shape[0] > 0)
        return um_rule_fail(op, "wants mean and var when not in training");
    return UM_OK;
}

um_status um_infer_batch_norm(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    um_view channels;
    bool training = op->attrs.norm.training;
    double momentum = op->attrs.norm.momentum;
    int32_t extra = op->out_count;
    UM_TRY(channel_shape(op, x, &channels));
    UM_TRY(check_weights(op, 1, &channels));
    UM_TRY(check_statistics(op, &channels, !training));
    if (training && !(momentum >= 0 && momentum <= 1))
        return um_rule_fail(op, "momentum must be 0 to 1, got %g", momentum);
    if (!training && extra != 1)
        return um_rule_fail(op, "has one output when not in training, got %d", (int)extra);
    bool updates = channels.shape[0] == 0 ? extra == 5 : um_op_has_input(op, 3);
    if (training && (extra == 4 || (extra == 5) != updates))
        return um_rule_fail(op, "wants 5 outputs with mean and var, else at most 3, got %d",
                            (int)extra);
    channels.dtype = statistics_dtype(x->dtype);
    return set_outputs(op, &channels, out);
}

um_status um_infer_batch_norm_backward(const um_op *op, um_view *out)
{
    um_view channels;
    bool training = op->attrs.norm.training;
    UM_TRY(check_pair(op, "dy", "x"));
    UM_TRY(channel_shape(op, &op->in[1], &channels));
    UM_TRY(check_weights(op, 2, &channels));
    UM_TRY(check_statistics(op, &channels, !training));
    if (training && um_op_has_input(op, 3))
        return um_rule_fail(op, "takes no mean and var in training");
    return set_gradients(op, &channels, out);
}

/* ---- samples ----------------------------------------------------------------------------------
 */

bool um_sample_softmax_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    um_sample like = {.op.id = UM_OP_SOFTMAX};
    if (!um_sample_softmax(index, dtype, &like)) return false;
    um_dims dims = {.rank = like.op.in[0].rank};
    for (int32_t i = 0; i < dims.rank; i++) dims.size[i] = (int32_t)like.op.in[0].shape[i];
    bool is_log = sample->op.id == UM_OP_LOG_SOFTMAX_BACKWARD;
    um_sample_input(sample, dtype, &dims, is_log ? -8 : 0, is_log ? 0 : 1);
    um_sample_input(sample, dtype, &dims, -3, 3);
    sample->op.attrs.axis = like.op.attrs.axis;
    um_sample_label_input(sample);
    um_sample_label(sample, " axis=%d", (int)sample->op.attrs.axis.axis);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

/* x around `offset`; range 0: um_sample_large. form: which of w and b there are (bits 1 and 2), and
 * fewer outputs (4). */
static const struct norm_row {
    um_dims x;
    double offset, range, eps;
    int32_t dims, groups, layout;
} norm_rows[] = {
    {UM_DIMS(33, 65), 0, 2, 1e-5, 1, 5, UM_CHANNELS_FIRST},
    {UM_DIMS(5, 6, 7), 0, 2, 1e-5, 2, 3, UM_CHANNELS_FIRST},
    {UM_DIMS(5, 6, 7), 0, 2, 1e-5, 1, 7, UM_CHANNELS_LAST},
    {UM_DIMS(9, 1200), 3e3, 4, 1e-3, 1, 4, UM_CHANNELS_FIRST},
    {UM_DIMS(2, 4, 33, 33), 0, 0, 1e-5, 2, 2, UM_CHANNELS_FIRST},
    {UM_DIMS(3, 4, 5, 8), 0, 2, 1e-5, 3, 1, UM_CHANNELS_LAST},
    {UM_DIMS(0, 6, 4), 0, 2, 1e-5, 2, 3, UM_CHANNELS_FIRST},
    {UM_DIMS(4, 6, 0), 0, 2, 1e-5, 1, 6, UM_CHANNELS_FIRST},
    {UM_DIMS(4, 0, 3), 0, 2, 1e-5, 1, 1, UM_CHANNELS_FIRST},
    {UM_DIMS(17, 3), 0, 2, 1e-5, 1, 3, UM_CHANNELS_FIRST},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 4), 0, 2, 0.1, 4, 2, UM_CHANNELS_LAST},
    {UM_DIMS(5, 1), 0, 2, 1e-5, 1, 1, UM_CHANNELS_FIRST},
    {UM_DIMS(300, 257), 10, 2, 1e-5, 1, 257, UM_CHANNELS_FIRST},
    {UM_DIMS(40, 12, 12, 10), 0, 2, 1e-5, 1, 4, UM_CHANNELS_FIRST},
    {UM_DIMS(40, 12, 12, 16), 0, 2, 1e-5, 1, 4, UM_CHANNELS_LAST},
};
enum { NORM_FORMS = 4 };

static const struct norm_row *find_norm_row(int32_t index)
{
    bool is_in = index / NORM_FORMS < (int32_t)UM_COUNT_OF(norm_rows);
    return is_in ? &norm_rows[index / NORM_FORMS] : NULL;
}

/* x, before it dy for a gradient; then w, and for a forward b, there or not. */
static void add_norm_inputs(um_sample *s, const struct norm_row *row, int32_t form, um_dtype dtype,
                            const um_dims *weights, bool backward)
{
    double range = row->range > 0 ? row->range : um_sample_large(dtype);
    double offset = dtype == UM_F16 || dtype == UM_BF16 ? 0 : row->offset;
    if (backward) um_sample_input(s, dtype, &row->x, -2, 2);
    um_sample_input(s, dtype, &row->x, offset - range, offset + range);
    for (int32_t i = 0; i < (backward ? 1 : 2); i++) {
        if (form >> i & 1)
            um_sample_input(s, dtype, weights, -2, 2);
        else
            um_sample_none(s, dtype);
    }
    s->op.attrs.norm.eps = row->eps;
    um_sample_label_input(s);
    um_sample_label(s, " at=%g range=%g", offset, range);
    if (form & 1) um_sample_label(s, " w");
    if (form >> 1 & !backward) um_sample_label(s, " b");
    s->op.out_count = form == 0 ? 1 : backward && form == 2 ? 2 : 3;
}

bool um_sample_rms_norm_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct norm_row *row = find_norm_row(index);
    um_dims w = UM_DIMS(0);
    if (!row) return false;
    w.size[0] = row->x.size[row->x.rank - 1];
    add_norm_inputs(sample, row, index % NORM_FORMS, dtype, &w, true);
    sample->op.out_count = UM_MIN(sample->op.out_count, 2);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

static bool sample_layer_norm(int32_t index, um_dtype dtype, bool backward, um_sample *sample)
{
    const struct norm_row *row = find_norm_row(index);
    if (!row) return false;
    um_dims w = {.rank = row->dims};
    for (int32_t i = 0; i < w.rank; i++) w.size[i] = row->x.size[row->x.rank - w.rank + i];
    add_norm_inputs(sample, row, index % NORM_FORMS, dtype, &w, backward);
    sample->op.attrs.norm.dims = row->dims;
    um_sample_label(sample, " dims=%d", (int)row->dims);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_layer_norm(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_layer_norm(index, dtype, false, sample);
}

bool um_sample_layer_norm_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_layer_norm(index, dtype, true, sample);
}

static um_dims row_channels(const struct norm_row *row)
{
    um_dims c = UM_DIMS(0);
    c.size[0] = row->x.size[row->layout == UM_CHANNELS_LAST ? row->x.rank - 1 : 1];
    return c;
}

static bool sample_group_norm(int32_t index, um_dtype dtype, bool backward, um_sample *sample)
{
    const struct norm_row *row = find_norm_row(index);
    if (!row) return false;
    um_dims c = row_channels(row);
    add_norm_inputs(sample, row, index % NORM_FORMS, dtype, &c, backward);
    sample->op.attrs.norm.groups = row->groups;
    sample->op.attrs.norm.layout = row->layout;
    um_sample_label(sample, " groups=%d layout=%d", (int)row->groups, (int)row->layout);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_group_norm(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_group_norm(index, dtype, false, sample);
}

bool um_sample_group_norm_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_group_norm(index, dtype, true, sample);
}

/* With given statistics, and without. */
static bool sample_batch_norm(int32_t index, um_dtype dtype, bool backward, um_sample *sample)
{
    const struct norm_row *row = find_norm_row(index / 2);
    bool training = index % 2;
    int32_t form = index / 2 % NORM_FORMS;
    if (!row) return false;
    um_dims c = row_channels(row);
    add_norm_inputs(sample, row, form, dtype, &c, backward);
    bool given = !training || (!backward && form == 3);
    while (given && sample->op.in_count < 3) um_sample_none(sample, dtype);
    if (given) um_sample_input(sample, statistics_dtype(dtype), &c, -1, 1);
    if (given) um_sample_input(sample, statistics_dtype(dtype), &c, 0.5, 2);
    if (!backward && given) sample->op.out_count = training ? 5 : 1;
    sample->op.attrs.norm.layout = row->layout;
    sample->op.attrs.norm.training = training;
    sample->op.attrs.norm.momentum = 0.875;
    um_sample_label(sample, " layout=%d%s", (int)row->layout, training ? " training" : "");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_batch_norm(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_batch_norm(index, dtype, false, sample);
}

bool um_sample_batch_norm_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    return sample_batch_norm(index, dtype, true, sample);
}
