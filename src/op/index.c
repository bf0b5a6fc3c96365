/* op/index.c: ops that read or write through indices. What the indices hold is seen only on the
 * device; the kernel reports one that is out of range. Test samples: index_sample.c. */
#include "op/rule.h"

/* ---- shared --------------------------------------------------------------------------------- */

static um_status check_indices(const um_op *op, int32_t input)
{
    const um_view *indices = &op->in[input];
    if (um_dtype_is_index(indices->dtype)) return UM_OK;
    return um_rule_fail_view(op, "indices must be i32 or i64", "it", indices);
}

/* The axis of x that attrs.index.axis names. */
static um_status resolve_axis(const um_op *op, const um_view *x, int32_t *axis)
{
    if (um_axis_resolve(op->attrs.index.axis, x->rank, axis)) return UM_OK;
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "axis %d is outside %s", (int)op->attrs.index.axis,
                        um_view_text(x, text, sizeof text));
}

static um_status check_mode(const um_op *op)
{
    int32_t mode = op->attrs.index.mode;
    if (mode < UM_SCATTER_ASSIGN || mode > UM_SCATTER_MAX)
        return um_rule_fail(op, "mode must be assign, add, mul, min or max (0 to 4), got %d",
                            (int)mode);
    if (op->in[0].dtype == UM_BOOL && (mode == UM_SCATTER_ADD || mode == UM_SCATTER_MUL))
        return um_rule_fail(op, "bool has no add and no mul");
    return UM_OK;
}

/* Input 2 holds the values for y, input 0; `wanted` is the shape they need. */
static um_status check_values(const um_op *op, const um_view *wanted)
{
    if (op->in[2].dtype != op->in[0].dtype)
        return um_rule_fail_views(op, "dtypes differ", "y", &op->in[0], "values", &op->in[2]);
    if (um_shapes_equal(&op->in[2], wanted)) return UM_OK;
    return um_rule_fail_views(op, "wrong shape of values", "it", &op->in[2], "wanted", wanted);
}

/* ---- along an axis -------------------------------------------------------------------------- */

/* Indices at every element: of x's rank, and no larger but along the axis. */
static um_status check_element_indices(const um_op *op)
{
    const um_view *x = &op->in[0], *indices = &op->in[1];
    int32_t axis;
    UM_TRY(check_indices(op, 1));
    UM_TRY(resolve_axis(op, x, &axis));
    bool fits = indices->rank == x->rank;
    for (int32_t i = 0; fits && i < x->rank; i++)
        fits = i == axis || indices->shape[i] <= x->shape[i];
    if (fits) return UM_OK;
    return um_rule_fail_views(op, "indices must have the rank and fit but along the axis", "it", x,
                              "indices", indices);
}

um_status um_infer_gather(const um_op *op, um_view *out)
{
    UM_TRY(check_element_indices(op));
    um_rule_like(out, op->in[0].dtype, &op->in[1]);
    return UM_OK;
}

um_status um_infer_scatter(const um_op *op, um_view *out)
{
    UM_TRY(check_element_indices(op));
    UM_TRY(check_mode(op));
    um_view wanted = op->in[1];
    wanted.dtype = op->in[0].dtype;
    UM_TRY(check_values(op, &wanted));
    um_rule_like(out, op->in[0].dtype, &op->in[0]);
    return UM_OK;
}

/* `slices` = x with as many slices along the axis as there are indices. */
static um_status slices_of(const um_op *op, um_view *slices)
{
    const um_view *x = &op->in[0], *indices = &op->in[1];
    int32_t axis;
    UM_TRY(check_indices(op, 1));
    UM_TRY(resolve_axis(op, x, &axis));
    if (indices->rank != 1) return um_rule_fail_view(op, "indices need a rank of 1", "it", indices);
    um_rule_like(slices, x->dtype, x);
    slices->shape[axis] = indices->shape[0];
    return UM_OK;
}

um_status um_infer_index_select(const um_op *op, um_view *out) { return slices_of(op, out); }

um_status um_infer_index_add(const um_op *op, um_view *out)
{
    um_view slices = {0};
    UM_TRY(slices_of(op, &slices));
    UM_TRY(check_values(op, &slices));
    um_rule_like(out, op->in[0].dtype, &op->in[0]);
    return UM_OK;
}

/* ---- by rows of indices --------------------------------------------------------------------- */

/* `slices` = [indices' shape without its last size Q, x's shape without its first Q sizes]. */
static um_status nd_slices_of(const um_op *op, um_view *slices)
{
    const um_view *x = &op->in[0], *indices = &op->in[1];
    UM_TRY(check_indices(op, 1));
    if (indices->rank < 1 || indices->shape[indices->rank - 1] > x->rank)
        return um_rule_fail_views(op, "indices must be [..., Q], Q at most the rank", "it", x,
                                  "indices", indices);
    int32_t rows = indices->rank - 1, parts = (int32_t)indices->shape[rows];
    if (rows + x->rank - parts > UM_MAX_RANK)
        return um_rule_fail_views(op, "the result has more than 8 dimensions", "it", x, "indices",
                                  indices);
    slices->dtype = x->dtype;
    slices->rank = 0;
    for (int32_t i = 0; i < rows; i++) slices->shape[slices->rank++] = indices->shape[i];
    for (int32_t i = parts; i < x->rank; i++) slices->shape[slices->rank++] = x->shape[i];
    return UM_OK;
}

um_status um_infer_gather_nd(const um_op *op, um_view *out) { return nd_slices_of(op, out); }

um_status um_infer_scatter_nd(const um_op *op, um_view *out)
{
    um_view slices = {0};
    UM_TRY(nd_slices_of(op, &slices));
    UM_TRY(check_mode(op));
    UM_TRY(check_values(op, &slices));
    um_rule_like(out, op->in[0].dtype, &op->in[0]);
    return UM_OK;
}

/* ---- rows of a table ------------------------------------------------------------------------ */

um_status um_infer_embedding(const um_op *op, um_view *out)
{
    const um_view *table = &op->in[0], *ids = &op->in[1];
    if (table->rank < 1)
        return um_rule_fail_view(op, "the table needs a rank of 1 or more", "table", table);
    if (!um_dtype_is_index(ids->dtype))
        return um_rule_fail_view(op, "ids must be i32 or i64", "ids", ids);
    if (ids->rank + table->rank - 1 > UM_MAX_RANK)
        return um_rule_fail_views(op, "the result has more than 8 dimensions", "table", table,
                                  "ids", ids);
    um_rule_like(out, table->dtype, ids);
    for (int32_t i = 1; i < table->rank; i++) out->shape[out->rank++] = table->shape[i];
    return UM_OK;
}

um_status um_infer_embedding_backward(const um_op *op, um_view *out)
{
    const um_view *dy = &op->in[0], *ids = &op->in[1];
    UM_TRY(check_indices(op, 1));
    bool fits = ids->rank <= dy->rank;
    for (int32_t i = 0; fits && i < ids->rank; i++) fits = dy->shape[i] == ids->shape[i];
    if (!fits) return um_rule_fail_views(op, "dy must be [ids' shape, row]", "dy", dy, "ids", ids);
    if (dy->rank - ids->rank + 1 > UM_MAX_RANK)
        return um_rule_fail_view(op, "the table has more than 8 dimensions", "dy", dy);
    out->dtype = dy->dtype;
    out->rank = 0;
    out->shape[out->rank++] = op->attrs.index.count;
    for (int32_t i = ids->rank; i < dy->rank; i++) out->shape[out->rank++] = dy->shape[i];
    return UM_OK;
}

/* ---- positions ------------------------------------------------------------------------------ */

um_status um_infer_one_hot(const um_op *op, um_view *out)
{
    UM_TRY(check_indices(op, 0));
    if (op->in[0].rank == UM_MAX_RANK)
        return um_rule_fail_view(op, "the result has more than 8 dimensions", "indices",
                                 &op->in[0]);
    um_rule_like(out, out->dtype, &op->in[0]);
    out->shape[out->rank++] = op->attrs.index.count;
    return UM_OK;
}

um_status um_infer_nonzero(const um_op *op, um_view *out)
{
    out[0].dtype = UM_I64;
    out[0].rank = 2;
    out[0].shape[0] = op->attrs.index.count;
    out[0].shape[1] = op->in[0].rank;
    if (op->out_count < 2) return UM_OK;
    out[1].dtype = UM_I64;
    out[1].rank = 1;
    out[1].shape[0] = 1;
    return UM_OK;
}
