/* op/matmul.c: the matrix product. Letters: M rows and K columns of a, N columns of b. */
#include "op/rule.h"

#include <math.h>
#include <stdio.h>

typedef enum operand_kind { FLOATS, EIGHT_BIT_FLOATS, BYTES } operand_kind;

static operand_kind kind_of(um_dtype dtype)
{
    if (dtype >= UM_F8E4M3FN && dtype <= UM_F8E5M2FNUZ) return EIGHT_BIT_FLOATS;
    return dtype == UM_I8 || dtype == UM_U8 ? BYTES : FLOATS;
}

static bool operands_allowed(um_dtype a, um_dtype b)
{
    return a == b || (kind_of(a) != FLOATS && kind_of(a) == kind_of(b));
}

/* Narrow floats may leave their f32 sums unrounded. */
static bool result_allowed(um_dtype a, um_dtype b, um_dtype out)
{
    bool is_half = out == UM_F16 || out == UM_BF16;
    switch (kind_of(a)) {
    case FLOATS: return out == a || (out == UM_F32 && a != UM_F64);
    case EIGHT_BIT_FLOATS: return out == UM_F32 || is_half || (out == a && a == b);
    case BYTES: return out == UM_I32;
    }
    return false;
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

static um_status check_round_to(const um_op *op)
{
    um_dtype to = op->attrs.matmul.round_to, a = op->in[0].dtype;
    if (to == UM_DTYPE_NONE) return UM_OK;
    if (to != UM_F16 && to != UM_BF16 && kind_of(to) != EIGHT_BIT_FLOATS)
        return um_rule_fail(op, "round_to must be f16, bf16, an fp8 or 0, got %s",
                            um_dtype_name(to));
    if (a == UM_F32) return UM_OK;
    return um_rule_fail(op, "round_to is for operands of f32, not of %s", um_dtype_name(a));
}

static um_status check_activation(const um_op *op)
{
    um_op_id id = op->attrs.matmul.activation;
    if (id == UM_OP_NONE) return UM_OK;
    const um_op_row *row = um_op_get_row(id);
    bool good = row && row->family == UM_FAMILY_MAP && row->in_min == 1 && row->in_max == 1 &&
                row->result == UM_RESULT_SAME && (row->dtypes & UM_BIT(UM_F32));
    if (good) return UM_OK;
    return um_rule_fail(op, "activation must be an elementwise op of one float, got %d (%s)",
                        (int)id, um_op_name(id));
}

static bool is_exact_integer(double x) { return fabs(x) <= 0x1p53 && trunc(x) == x; }

static um_status check_bytes(const um_op *op)
{
    double scale = op->attrs.matmul.scale;
    if (!is_exact_integer(op->attrs.matmul.alpha) || !is_exact_integer(op->attrs.matmul.beta))
        return um_rule_fail(op, "alpha and beta of %s must be integers, got %g and %g",
                            um_dtype_name(op->in[0].dtype), op->attrs.matmul.alpha,
                            op->attrs.matmul.beta);
    if (op->attrs.matmul.activation != UM_OP_NONE || (scale != 0 && scale != 1))
        return um_rule_fail(op, "a product of %s has no activation and no scale",
                            um_dtype_name(op->in[0].dtype));
    return UM_OK;
}

/* An optional input of the output's shape. */
static um_status check_like_out(const um_op *op, int32_t index, const char *name, bool may_be_f32,
                                const um_view *out)
{
    if (!um_op_has_input(op, index)) return UM_OK;
    const um_view *x = &op->in[index];
    bool wide = may_be_f32 && x->dtype == UM_F32 && out->dtype != UM_F64 && out->dtype != UM_I32;
    bool good = op->attrs.matmul.epilogue
                    ? result_allowed(op->in[0].dtype, op->in[1].dtype, x->dtype)
                    : x->dtype == out->dtype || wide;
    if (good && um_shapes_equal(x, out)) return UM_OK;
    char what[48];
    snprintf(what, sizeof what, "%s is not like the output", name);
    return um_rule_fail_views(op, what, name, x, "out", out);
}

um_status um_infer_matmul(const um_op *op, um_view *out)
{
    const um_view *a = &op->in[0], *b = &op->in[1];
    if (!operands_allowed(a->dtype, b->dtype))
        return um_rule_fail_views(op, "dtypes differ", "a", a, "b", b);
    UM_TRY(check_shapes(op, a, b));
    if (!op->attrs.matmul.epilogue && !result_allowed(a->dtype, b->dtype, out->dtype))
        return um_rule_fail(op, "a product of %s%s%s cannot be %s", um_dtype_name(a->dtype),
                            a->dtype == b->dtype ? "" : " and ",
                            a->dtype == b->dtype ? "" : um_dtype_name(b->dtype),
                            um_dtype_name(out->dtype));
    UM_TRY(check_round_to(op));
    UM_TRY(check_activation(op));
    if (kind_of(a->dtype) == BYTES) UM_TRY(check_bytes(op));
    um_rule_like(out, out->dtype, a);
    out->shape[out->rank - 1] = b->shape[b->rank - 1];
    if (op->attrs.matmul.beta != 0 && !um_op_has_input(op, 2))
        return um_rule_fail(op, "beta is %g and there is no c", op->attrs.matmul.beta);
    if (op->in_count == 2) return UM_OK;
    UM_TRY(check_like_out(op, 2, "c", false, out));
    UM_TRY(check_like_out(op, 3, "bias", true, out));
    return check_like_out(op, 4, "residual", true, out);
}

/* ---- samples -------------------------------------------------------------------------------- */

enum { HAS_C = 1, HAS_BIAS = 2, HAS_RESIDUAL = 4, WIDE_BIAS = 8 };

typedef struct matmul_row {
    int32_t m, k, n;
    um_dims batch;
    double alpha, beta;
    int32_t has;
    /* not of bytes */
    um_op_id activation;
    double scale;
    um_dtype round_to; /* of f32 only */
} matmul_row;

/* The first ten are in every run. */
static const matmul_row matmul_rows[] = {
    {5, 7, 3, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {129, 130, 131, UM_SCALAR, 1, 0, 0, 0, 0, UM_BF16},
    {13, 34, 35, UM_SCALAR, 2, 1, HAS_C | HAS_BIAS | HAS_RESIDUAL, UM_OP_GELU, 0.5, 0},
    {1, 257, 65, UM_SCALAR, 1, 0, HAS_BIAS | WIDE_BIAS, UM_OP_RELU, 0, UM_F8E4M3FN},
    {65, 257, 1, UM_SCALAR, 1, 0, HAS_RESIDUAL, 0, -3, 0},
    {17, 0, 9, UM_SCALAR, 1, 3, HAS_C | HAS_BIAS, UM_OP_SIGMOID, 0, 0},
    {33, 17, 65, UM_SCALAR, 0, -2, HAS_C, 0, 0, 0},
    {7, 5, 11, UM_DIMS(2, 1, 3), 3, 1, HAS_C, 0, 0, 0},
    {3, 300, 18, UM_DIMS(2), 1, 0, HAS_BIAS | HAS_RESIDUAL | WIDE_BIAS, UM_OP_SILU, 0, UM_F16},
    {12, 36, 20, UM_SCALAR, 1, 0, HAS_BIAS, UM_OP_LEAKY_RELU, 2, UM_F8E5M2},
    {1, 1, 1, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {1, 1000, 1, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {33, 1, 65, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {17, 0, 9, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {17, 0, 9, UM_SCALAR, 1, 0.5, HAS_C, 0, 0, 0},
    {0, 7, 3, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {5, 7, 0, UM_SCALAR, 1, 1, HAS_C, 0, 0, 0},
    {33, 17, 65, UM_SCALAR, 0, 0, 0, 0, 0, 0},
    {33, 17, 65, UM_SCALAR, -0.75, 1, HAS_C, 0, 0, 0},
    {33, 17, 65, UM_SCALAR, 1, 0, HAS_C, 0, 0, 0},
    {17, 33, 16, UM_SCALAR, 2, 0.25, HAS_C, 0, 0, 0},
    {17, 31, 9, UM_DIMS(3), 1, 0, 0, 0, 0, 0},
    {1, 65, 33, UM_DIMS(2, 3), 1, 0, 0, 0, 0, 0},
    {3, 2, 5, UM_DIMS(2, 1, 2, 1, 2, 1), 1, 0, 0, 0, 0, 0},
    {4, 5, 6, UM_DIMS(0), 1, 0, 0, 0, 0, 0},
    {64, 64, 64, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {8, 512, 8, UM_SCALAR, 1, 0, 0, 0, 0, 0},
    {20, 3, 40, UM_SCALAR, 1, 1, HAS_C | HAS_RESIDUAL, UM_OP_TANH, 0, UM_F8E4M3FNUZ},
    {1, 90, 70, UM_SCALAR, 0, 0, HAS_BIAS, UM_OP_ELU, 0.25, 0},
    {12, 1030, 20, UM_SCALAR, 2, 1, HAS_C | HAS_BIAS | HAS_RESIDUAL, UM_OP_TANH, 0.5, UM_F16},
    {70, 9, 1, UM_DIMS(3), 1, 0, HAS_BIAS | HAS_RESIDUAL, UM_OP_GELU_TANH, 0, UM_F8E5M2FNUZ},
};

static um_dims matrix(const um_dims *batch, int32_t rows, int32_t columns)
{
    um_dims dims = *batch;
    dims.size[dims.rank++] = rows;
    dims.size[dims.rank++] = columns;
    return dims;
}

/* Every result that the dtype may have, in turn; every second product of two 8-bit types mixes
 * them. */
static um_dtype sample_result(int32_t index, um_dtype a, um_dtype *b)
{
    static const um_dtype of_fp8[] = {UM_F32, UM_F16, UM_BF16};
    int32_t turn = index % 4;
    *b = a;
    switch (kind_of(a)) {
    case FLOATS: return a != UM_F64 && turn % 2 == 1 ? UM_F32 : a;
    case EIGHT_BIT_FLOATS:
        if (turn % 2 == 0) *b = a == UM_F8E4M3FN ? UM_F8E5M2 : UM_F8E4M3FN;
        return turn == 3 && a == *b ? a : of_fp8[index % 3];
    case BYTES:
        if (turn % 2 == 1) *b = a == UM_I8 ? UM_U8 : UM_I8;
        return UM_I32;
    }
    return a;
}

static void sample_attrs(const matmul_row *row, um_dtype dtype, um_sample *sample)
{
    um_attrs *attrs = &sample->op.attrs;
    attrs->matmul.alpha = row->alpha;
    attrs->matmul.beta = row->beta;
    if (kind_of(dtype) == BYTES) {
        attrs->matmul.alpha = ceil(row->alpha);
        attrs->matmul.beta = ceil(row->beta);
        return;
    }
    attrs->matmul.activation = row->activation;
    if (row->activation) attrs->matmul.a = 0.25;
    attrs->matmul.scale = row->scale;
    if (dtype == UM_F32) attrs->matmul.round_to = row->round_to;
}

/* Rows that have programs, too, behind those that have none. */
static const int32_t fused_rows[] = {1, 2, 4, 6, 7, 22, 29};

bool um_sample_matmul(int32_t index, um_dtype dtype, um_sample *sample)
{
    const int32_t plain = (int32_t)UM_COUNT_OF(matmul_rows);
    const int32_t fused = (int32_t)UM_COUNT_OF(fused_rows);
    int32_t ride = index < plain ? -1 : (index - plain) / fused;
    if (ride >= 0) index = fused_rows[(index - plain) % fused];
    const matmul_row *row = &matmul_rows[index];
    um_dtype other, result = sample_result(index, dtype, &other);
    um_dtype added = row->has & WIDE_BIAS && result != UM_F64 && result != UM_I32 ? UM_F32 : result;
    um_dims a = matrix(&row->batch, row->m, row->k), b = matrix(&row->batch, row->k, row->n);
    um_dims c = matrix(&row->batch, row->m, row->n);
    um_dims none = UM_DIMS(0);
    double most = kind_of(dtype) == BYTES ? 255 : 1;
    um_sample_input(sample, dtype, &a, -most, most);
    um_sample_input(sample, other, &b, -most, most);
    sample_attrs(row, dtype, sample);
    if (row->has) um_sample_input(sample, result, row->has & HAS_C ? &c : &none, -1, 1);
    if (row->has & (HAS_BIAS | HAS_RESIDUAL))
        um_sample_input(sample, added, row->has & HAS_BIAS ? &c : &none, -1, 1);
    if (row->has & HAS_RESIDUAL) um_sample_input(sample, added, &c, -1, 1);
    um_sample_label(sample, "m=%d k=%d n=%d batch=%dd alpha=%g", (int)row->m, (int)row->k,
                    (int)row->n, (int)row->batch.rank, sample->op.attrs.matmul.alpha);
    if (sample->op.attrs.matmul.activation)
        um_sample_label(sample, " %s", um_op_name(row->activation));
    um_sample_label(sample, " to %s", um_dtype_name(result));
    um_sample_finish(sample, result);
    return ride < 0 || um_sample_ride(ride, sample);
}
