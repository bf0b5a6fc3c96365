/* op/norm.c: row-wise ops of the layers: softmax and its logarithm, RMS norm, rotary embedding. The
 * other norms and the gradients are in normalize.c.
 * Letters: D the last axis, S the one before it. */
#include "op/rule.h"

#include <math.h>

um_status um_infer_softmax(const um_op *op, um_view *out) { return um_infer_scan(op, out); }

um_status um_rule_check_eps(const um_op *op)
{
    double eps = op->attrs.norm.eps;
    if (eps >= 0 && isfinite(eps)) return UM_OK;
    return um_rule_fail(op, "eps must be finite and not negative, got %g", eps);
}

/* ---- rms_norm ------------------------------------------------------------------------------- */

um_status um_infer_rms_norm(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0], *w = &op->in[1];
    if (x->rank < 1) return um_rule_fail_view(op, "x needs a rank of 1 or more", "x", x);
    UM_TRY(um_rule_check_eps(op));
    if (op->in_count == 2) {
        if (w->rank != 1 || w->shape[0] != x->shape[x->rank - 1])
            return um_rule_fail_views(op, "w must be as long as x's last axis", "x", x, "w", w);
        if (w->dtype != x->dtype) return um_rule_fail_views(op, "dtypes differ", "x", x, "w", w);
    }
    um_rule_like(out, x->dtype, x);
    return UM_OK;
}

/* ---- rope ----------------------------------------------------------------------------------- */

static um_status check_positions(const um_op *op, int64_t rows)
{
    int64_t last;
    if (op->in_count == 1) {
        if (um_add_i64(op->attrs.rope.offset, rows, &last)) return UM_OK;
        return um_rule_fail(op, "positions overflow: offset %lld, %lld rows",
                            (long long)op->attrs.rope.offset, (long long)rows);
    }
    const um_view *ids = &op->in[1];
    if (!um_dtype_is_index(ids->dtype))
        return um_rule_fail_view(op, "ids must be i32 or i64", "ids", ids);
    if (ids->rank != 1 || ids->shape[0] != rows)
        return um_rule_fail_views(op, "ids must be one a row", "x", &op->in[0], "ids", ids);
    return UM_OK;
}

um_status um_infer_rope(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    double theta = op->attrs.rope.theta;
    int32_t layout = op->attrs.rope.layout, dims = op->attrs.rope.dims;
    if (x->rank < 2) return um_rule_fail_view(op, "x needs a rank of 2 or more", "x", x);
    if (!(theta > 0) || !isfinite(theta))
        return um_rule_fail(op, "theta must be finite and above 0, got %g", theta);
    if (layout != UM_ROPE_INTERLEAVED && layout != UM_ROPE_HALF_SPLIT)
        return um_rule_fail(op, "there is no layout %d", (int)layout);
    int64_t size = x->shape[x->rank - 1], turned = dims == 0 ? size : dims;
    if (turned < 0 || turned > size || turned % 2 != 0)
        return um_rule_fail(op, "dims must be even and at most %lld, got %lld", (long long)size,
                            (long long)turned);
    UM_TRY(check_positions(op, x->shape[x->rank - 2]));
    um_rule_like(out, x->dtype, x);
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

bool um_sample_softmax(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        um_dims dims;
        int32_t axis;
        double range;
    } rows[] = {
        {UM_DIMS(33, 65), 1, 4},
        {UM_DIMS(33, 65), 0, 4},
        {UM_DIMS(33, 65), -1, 1000},
        {UM_DIMS(0), 0, 1},
        {UM_DIMS(1), 0, 1},
        {UM_DIMS(17), -1, 10},
        {UM_DIMS(10007), 0, 1},
        {UM_DIMS(3, 0, 5), 1, 1},
        {UM_DIMS(3, 0, 5), -1, 1},
        {UM_DIMS(1, 1000), 0, 1},
        {UM_DIMS(4, 129, 6), 1, 4},
        {UM_DIMS(2, 3, 1, 5, 7), -2, 4},
        {UM_DIMS(2, 3, 1, 5, 7), 2, 4},
        {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), -8, 4},
        {UM_DIMS(300, 257), 0, 8},
        {UM_DIMS(300, 257), 1, 8},
    };
    if (index >= (int32_t)UM_COUNT_OF(rows)) return false;
    um_sample_input(sample, dtype, &rows[index].dims, -rows[index].range, rows[index].range);
    sample->op.attrs.axis.axis = rows[index].axis;
    um_sample_label_input(sample);
    um_sample_label(sample, " axis=%d range=%g", (int)rows[index].axis, rows[index].range);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_rms_norm(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        um_dims dims;
        double range, eps; /* range 0: um_sample_large */
    } rows[] = {
        {UM_DIMS(33, 65), 2, 1e-5},
        {UM_DIMS(33, 65), 1000, 1e-5},
        {UM_DIMS(33, 65), 1e-3, 1e-6},
        {UM_DIMS(33, 65), 0, 1e-5},
        {UM_DIMS(5, 257), 2, 0},
        {UM_DIMS(0), 1, 1e-5},
        {UM_DIMS(1), 1, 1e-5},
        {UM_DIMS(17), 4, 1e-5},
        {UM_DIMS(3, 0), 1, 1e-5},
        {UM_DIMS(0, 3), 1, 1e-5},
        {UM_DIMS(129, 1), 1, 1e-5},
        {UM_DIMS(2, 4096), 2, 1e-5},
        {UM_DIMS(2, 3, 1, 5, 7), 2, 1e-5},
        {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), 2, 0.1},
        {UM_DIMS(300, 257), 2, 1e-5},
    };
    if (index >= 2 * (int32_t)UM_COUNT_OF(rows)) return false;
    const um_dims *dims = &rows[index / 2].dims;
    um_dims w = UM_DIMS(0);
    w.size[0] = dims->size[dims->rank - 1];
    double range = rows[index / 2].range > 0 ? rows[index / 2].range : um_sample_large(dtype);
    um_sample_input(sample, dtype, dims, -range, range);
    if (index % 2) um_sample_input(sample, dtype, &w, -2, 2);
    sample->op.attrs.norm.eps = rows[index / 2].eps;
    um_sample_label_input(sample);
    um_sample_label(sample, " range=%g eps=%g%s", range, rows[index / 2].eps,
                    index % 2 ? " w" : "");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

static const struct rope_row {
    um_dims x;
    int32_t layout, dims;
    um_dtype ids; /* NONE: positions from offset */
    int64_t offset;
    double theta;
} rope_rows[] = {
    {UM_DIMS(17, 64), UM_ROPE_INTERLEAVED, 0, 0, 0, 1e4},
    {UM_DIMS(17, 64), UM_ROPE_HALF_SPLIT, 0, 0, 0, 1e4},
    {UM_DIMS(17, 64), UM_ROPE_INTERLEAVED, 32, 0, 5, 1e4},
    {UM_DIMS(17, 65), UM_ROPE_HALF_SPLIT, 48, 0, 129, 5e5},
    {UM_DIMS(3, 5, 10), UM_ROPE_INTERLEAVED, 0, UM_I32, 0, 1e4},
    {UM_DIMS(3, 5, 10), UM_ROPE_HALF_SPLIT, 6, UM_I64, 0, 1e4},
    {UM_DIMS(1, 2), UM_ROPE_HALF_SPLIT, 0, 0, 1, 1e4},
    {UM_DIMS(1, 2), UM_ROPE_INTERLEAVED, 2, UM_I64, 0, 1e4},
    {UM_DIMS(0, 4), UM_ROPE_INTERLEAVED, 0, UM_I32, 0, 1e4},
    {UM_DIMS(4, 0), UM_ROPE_HALF_SPLIT, 0, 0, 3, 1e4},
    {UM_DIMS(2, 0, 4), UM_ROPE_HALF_SPLIT, 0, 0, 0, 1e4},
    {UM_DIMS(2, 4, 33, 16), UM_ROPE_INTERLEAVED, 0, 0, 7, 1e4},
    {UM_DIMS(2, 4, 33, 16), UM_ROPE_HALF_SPLIT, 0, UM_I32, 0, 5e5},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 6), UM_ROPE_INTERLEAVED, 4, 0, 2, 100},
    {UM_DIMS(4, 129, 128), UM_ROPE_HALF_SPLIT, 0, 0, 4000, 1e4},
};

bool um_sample_rope(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= (int32_t)UM_COUNT_OF(rope_rows)) return false;
    const struct rope_row *row = &rope_rows[index];
    um_dims ids = UM_DIMS(0);
    ids.size[0] = row->x.size[row->x.rank - 2];
    um_sample_input(sample, dtype, &row->x, -2, 2);
    if (row->ids) um_sample_indices(sample, row->ids, &ids, 0, 2000);
    sample->op.attrs.rope.theta = row->theta;
    sample->op.attrs.rope.offset = row->offset;
    sample->op.attrs.rope.layout = row->layout;
    sample->op.attrs.rope.dims = row->dims;
    um_sample_label_input(sample);
    um_sample_label(sample, " layout=%d dims=%d offset=%lld ids=%s", (int)row->layout,
                    (int)row->dims, (long long)row->offset, um_dtype_name(row->ids));
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
