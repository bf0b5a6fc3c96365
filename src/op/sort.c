/* op/sort.c: sort, argsort, top-k: along one axis, stable, NaN the largest. */
#include "op/rule.h"

static um_status resolve_axis(const um_op *op, int32_t *axis)
{
    const um_view *x = &op->in[0];
    if (um_axis_resolve(op->attrs.sort.axis, x->rank, axis)) return UM_OK;
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "axis %d is outside x: x is %s", (int)op->attrs.sort.axis,
                        um_view_text(x, text, sizeof text));
}

static bool is_indices_only(const um_op *op)
{
    return op->id == UM_OP_ARGSORT || op->id == UM_OP_ARG_TOPK;
}

um_status um_infer_sort(const um_op *op, um_view *out)
{
    int32_t axis;
    UM_TRY(resolve_axis(op, &axis));
    um_rule_like(&out[0], is_indices_only(op) ? UM_I64 : op->in[0].dtype, &op->in[0]);
    if (op->out_count > 1) um_rule_like(&out[1], UM_I64, &op->in[0]);
    return UM_OK;
}

um_status um_infer_topk(const um_op *op, um_view *out)
{
    const um_view *x = &op->in[0];
    int64_t k = op->attrs.sort.k;
    int32_t axis;
    UM_TRY(resolve_axis(op, &axis));
    if (k < 0 || k > x->shape[axis]) {
        char text[UM_VIEW_TEXT];
        return um_rule_fail(op, "k is %lld, wants 0 to the size of axis %d of %s", (long long)k,
                            (int)axis, um_view_text(x, text, sizeof text));
    }
    UM_TRY(um_infer_sort(op, out));
    for (int32_t i = 0; i < op->out_count; i++) out[i].shape[axis] = k;
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct sort_row {
    um_dims dims;
    int32_t axis, k;
} rows[] = {
    {UM_DIMS(1031), 0, 5}, /* longer than a tile of kernel/sort.c */
    {UM_DIMS(5, 7), 0, 2},
    {UM_DIMS(5, 7), -1, 7},
    {UM_DIMS(1), 0, 1},
    {UM_DIMS(0), 0, 0},
    {UM_DIMS(3, 0), 0, 0},
    {UM_DIMS(2, 3, 1, 5, 7), -2, 3},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), 6, 2},
    {UM_DIMS(4, 129, 6), 1, 10},
    {UM_DIMS(17), 0, 3},
    {UM_DIMS(2, 1200), 1, 1100},
    {UM_DIMS(5, 300), 1, 300},
};

/* Odd ones with many ties; falling in turn. */
static void fill_sample(int32_t index, um_dtype dtype, um_sample *sample,
                        const struct sort_row *row)
{
    bool ties = index % 2, descending = index / 2 % 2;
    if (ties)
        um_sample_indices(sample, dtype, &row->dims, 0, dtype == UM_BOOL ? 1 : 9);
    else
        um_sample_input(sample, dtype, &row->dims, -100, 100);
    sample->op.attrs.sort.axis = row->axis;
    sample->op.attrs.sort.descending = descending;
    um_sample_label_input(sample);
    um_sample_label(sample, " axis=%d%s%s", (int)row->axis, descending ? " falling" : "",
                    ties ? " ties" : "");
}

static const struct sort_row *row_of(int32_t index, um_dtype dtype)
{
    bool all = dtype == UM_F32 || dtype == UM_F16 || dtype == UM_I8 || dtype == UM_U64;
    int32_t count = all ? (int32_t)UM_COUNT_OF(rows) : 3;
    return index < 4 * count ? &rows[index / 4] : NULL;
}

bool um_sample_sort(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct sort_row *row = row_of(index, dtype);
    if (!row) return false;
    fill_sample(index, dtype, sample, row);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

bool um_sample_topk(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct sort_row *row = row_of(index, dtype);
    if (!row) return false;
    fill_sample(index, dtype, sample, row);
    sample->op.attrs.sort.k = row->k;
    um_sample_label(sample, " k=%d", (int)row->k);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
