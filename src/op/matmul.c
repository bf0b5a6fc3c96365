/* op/matmul.c: the matrix product. Letters: M rows and K columns of a, N columns of b. */
#include "op/rule.h"

/* f16 and bf16 may leave their f32 sums unrounded. */
static bool result_allowed(um_dtype in, um_dtype out)
{
    return out == in || (out == UM_F32 && (in == UM_F16 || in == UM_BF16));
}

static um_status check_shapes(const um_op *op, const um_view *a, const um_view *b)
{
    if (a->rank < 2 || b->rank < 2)
        return um_rule_fail_views(op, "wants a rank of 2 or more", "a", a, "b", b);
    if (a->rank != b->rank) return um_rule_fail_views(op, "ranks differ", "a", a, "b", b);
    for (int32_t i = 0; i < a->rank - 2; i++)
        if (a->shape[i] != b->shape[i])
            return um_rule_fail_views(op, "batch sizes differ", "a", a, "b", b);
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return um_rule_fail_views(op, "inner sizes differ", "a", a, "b", b);
    return UM_OK;
}

um_status um_infer_matmul(const um_op *op, um_view *out)
{
    const um_view *a = &op->in[0], *b = &op->in[1];
    if (a->dtype != b->dtype) return um_rule_fail_views(op, "dtypes differ", "a", a, "b", b);
    UM_TRY(check_shapes(op, a, b));
    if (!result_allowed(a->dtype, out->dtype))
        return um_rule_fail(op, "a product of %s cannot be %s", um_dtype_name(a->dtype),
                            um_dtype_name(out->dtype));
    um_rule_like(out, out->dtype, a);
    out->shape[out->rank - 1] = b->shape[b->rank - 1];
    if (op->in_count == 3) {
        const um_view *c = &op->in[2];
        if (c->dtype != out->dtype || !um_shapes_equal(c, out))
            return um_rule_fail_views(op, "c is not like the output", "c", c, "out", out);
    } else if (op->attrs.matmul.beta != 0) {
        return um_rule_fail(op, "beta is %g and there is no c", op->attrs.matmul.beta);
    }
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const struct matmul_row {
    int32_t m, k, n;
    um_dims batch;
    double alpha, beta;
    bool has_c;
} matmul_rows[] = {
    {5, 7, 3, UM_SCALAR, 1, 0, false},          {129, 130, 131, UM_SCALAR, 1, 0, false},
    {1, 1, 1, UM_SCALAR, 1, 0, false},          {1, 257, 65, UM_SCALAR, 1, 0, false},
    {65, 257, 1, UM_SCALAR, 1, 0, false},       {1, 1000, 1, UM_SCALAR, 1, 0, false},
    {33, 1, 65, UM_SCALAR, 1, 0, false},        {17, 0, 9, UM_SCALAR, 1, 0, false},
    {17, 0, 9, UM_SCALAR, 1, 0.5, true},        {0, 7, 3, UM_SCALAR, 1, 0, false},
    {5, 7, 0, UM_SCALAR, 1, 1, true},           {33, 17, 65, UM_SCALAR, 0, 0, false},
    {33, 17, 65, UM_SCALAR, 0, -2, true},       {33, 17, 65, UM_SCALAR, -0.75, 1, true},
    {33, 17, 65, UM_SCALAR, 1, 0, true},        {17, 33, 16, UM_SCALAR, 2, 0.25, true},
    {17, 31, 9, UM_DIMS(3), 1, 0, false},       {1, 65, 33, UM_DIMS(2, 3), 1, 0, false},
    {7, 5, 11, UM_DIMS(2, 1, 3), 0.5, 1, true}, {3, 2, 5, UM_DIMS(2, 1, 2, 1, 2, 1), 1, 0, false},
    {4, 5, 6, UM_DIMS(0), 1, 0, false},         {64, 64, 64, UM_SCALAR, 1, 0, false},
    {8, 512, 8, UM_SCALAR, 1, 0, false},
};

static um_dims matrix(const um_dims *batch, int32_t rows, int32_t columns)
{
    um_dims dims = *batch;
    dims.size[dims.rank++] = rows;
    dims.size[dims.rank++] = columns;
    return dims;
}

bool um_sample_matmul(int32_t index, um_dtype dtype, um_sample *sample)
{
    const int32_t row_count = (int32_t)UM_COUNT_OF(matmul_rows);
    um_dtype out_dtype = index < row_count ? dtype : UM_F32;
    if (index >= row_count * (dtype == UM_F16 || dtype == UM_BF16 ? 2 : 1)) return false;
    const struct matmul_row *row = &matmul_rows[index % row_count];
    um_dims a = matrix(&row->batch, row->m, row->k), b = matrix(&row->batch, row->k, row->n);
    um_dims c = matrix(&row->batch, row->m, row->n);
    um_sample_input(sample, dtype, &a, -1, 1);
    um_sample_input(sample, dtype, &b, -1, 1);
    if (row->has_c) um_sample_input(sample, out_dtype, &c, -1, 1);
    sample->op.attrs.matmul.alpha = row->alpha;
    sample->op.attrs.matmul.beta = row->beta;
    um_sample_label(sample, "m=%d k=%d n=%d batch=%dd alpha=%g", (int)row->m, (int)row->k,
                    (int)row->n, (int)row->batch.rank, row->alpha);
    if (row->has_c) um_sample_label(sample, " beta=%g", row->beta);
    if (out_dtype != dtype) um_sample_label(sample, " to f32");
    return um_sample_finish(sample, out_dtype);
}
