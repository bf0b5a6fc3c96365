/* compute/gemm.c: matrix products as BLAS says them: um_gemm, batched by strides, by pointers, and
 * grouped. A column-major or transposed matrix is a view with its strides exchanged; the rules of
 * the product are in op/matmul.c. Batches by pointers and groups are one um_enqueue_batch. */
#include "compute/compute.h"

typedef long long ll; /* for messages */

/* One matrix as the caller describes it: op(X) has rows x cols. */
typedef struct operand {
    const char *name;
    um_dtype dtype;
    um_ptr ptr;
    int64_t rows, cols, ld, stride;
    bool is_turned;
} operand;

/* ---- what is said about all products --------------------------------------------------------- */

static um_status check_desc(const um_gemm_desc *d)
{
    if (!d) return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: desc is NULL");
    if (d->layout != UM_COLUMN_MAJOR && d->layout != UM_ROW_MAJOR)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: there is no layout %d", (int)d->layout);
    if (d->trans_a < UM_NO_TRANS || d->trans_a > UM_CONJ_TRANS || d->trans_b < UM_NO_TRANS ||
        d->trans_b > UM_CONJ_TRANS)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: trans_a is %d and trans_b %d, wants 0, 1 or 2",
                       (int)d->trans_a, (int)d->trans_b);
    if (d->m < 0 || d->n < 0 || d->k < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: m, n, k are %lld, %lld, %lld, wants 0 or more",
                       (ll)d->m, (ll)d->n, (ll)d->k);
    if (d->epilogue && d->epilogue->bias_axis != UM_BIAS_OF_ROWS &&
        d->epilogue->bias_axis != UM_BIAS_OF_COLUMNS)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: there is no bias_axis %d",
                       (int)d->epilogue->bias_axis);
    return UM_OK;
}

static um_dtype result_of(const um_gemm_desc *d)
{
    if (d->c_type != UM_DTYPE_NONE) return d->c_type;
    return d->a_type == UM_I8 || d->a_type == UM_U8 ? UM_I32 : d->a_type;
}

/* The view of op(X): rank 2, or 3 with batch_count (-1: none). */
static um_status view_of(const um_gemm_desc *d, int64_t batch_count, const operand *x,
                         um_view *view)
{
    bool rows_lead = (d->layout == UM_COLUMN_MAJOR) != x->is_turned;
    int64_t lead = rows_lead ? x->rows : x->cols;
    if (x->ld < UM_MAX(lead, 1))
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm: ld%s is %lld, wants %lld or more", x->name,
                       (ll)x->ld, (ll)UM_MAX(lead, 1));
    int32_t r = batch_count < 0 ? 0 : 1;
    *view = (um_view){.ptr = x->ptr, .dtype = x->dtype, .rank = r + 2};
    if (r) {
        view->shape[0] = batch_count;
        view->stride[0] = x->stride;
    }
    view->shape[r] = x->rows;
    view->shape[r + 1] = x->cols;
    view->stride[r] = rows_lead ? 1 : x->ld;
    view->stride[r + 1] = rows_lead ? x->ld : 1;
    return UM_OK;
}

/* ---- the op ---------------------------------------------------------------------------------- */

/* A product of nothing, or times 0, reads neither a nor b: then they are m x 0 and 0 x n, and their
 * pointers are not looked at. */
static um_status add_factors(const um_gemm_desc *d, int64_t batch_count, um_op *op)
{
    operand a = {.name = "a", .ptr = d->a, .rows = d->m, .cols = d->k, .ld = d->lda};
    operand b = {.name = "b", .ptr = d->b, .rows = d->k, .cols = d->n, .ld = d->ldb};
    a.dtype = d->a_type, b.dtype = d->b_type ? d->b_type : d->a_type;
    a.stride = d->stride_a, b.stride = d->stride_b;
    a.is_turned = d->trans_a != UM_NO_TRANS, b.is_turned = d->trans_b != UM_NO_TRANS;
    UM_TRY(view_of(d, batch_count, &a, &op->in[0]));
    UM_TRY(view_of(d, batch_count, &b, &op->in[1]));
    op->in_count = 2;
    if (d->alpha != 0 && d->k != 0) return UM_OK;
    op->in[0].shape[op->in[0].rank - 1] = 0;
    op->in[1].shape[op->in[1].rank - 2] = 0;
    return UM_OK;
}

/* d, where there is one, else c is the result; c is read when beta is not 0. */
static um_status add_result(const um_gemm_desc *d, int64_t batch_count, um_op *op)
{
    um_dtype dtype = result_of(d);
    operand c = {.name = "c", .dtype = dtype, .rows = d->m, .cols = d->n}, out = c;
    c.ptr = d->c, c.ld = d->ldc, c.stride = d->stride_c;
    out.name = "d", out.ptr = d->d, out.ld = d->ldd, out.stride = d->stride_d;
    op->out_count = 1;
    UM_TRY(view_of(d, batch_count, d->d ? &out : &c, &op->out[0]));
    op->in[2] = um_view_none(dtype);
    if (d->beta != 0) UM_TRY(view_of(d, batch_count, &c, &op->in[2]));
    op->in_count += d->beta != 0;
    return UM_OK;
}

static um_status add_epilogue(const um_gemm_desc *d, int64_t batch_count, um_op *op)
{
    const um_gemm_epilogue *e = d->epilogue;
    um_dtype dtype = result_of(d);
    op->attrs.matmul.activation = e->activation;
    op->attrs.matmul.a = e->a;
    op->attrs.matmul.scale = e->scale;
    if (!e->bias && !e->residual) return UM_OK;
    op->in[3] = um_view_none(dtype);
    op->in_count = e->residual ? 5 : 4;
    if (e->bias) {
        int32_t r = op->out[0].rank - 2;
        bool of_rows = e->bias_axis == UM_BIAS_OF_ROWS;
        op->in[3] = op->out[0];
        op->in[3].ptr = e->bias;
        op->in[3].dtype = e->bias_type ? e->bias_type : dtype;
        op->in[3].stride[r] = of_rows ? 1 : 0;
        op->in[3].stride[r + 1] = of_rows ? 0 : 1;
        if (r) op->in[3].stride[0] = e->stride_bias;
    }
    if (!e->residual) return UM_OK;
    const operand residual = {.name = "_residual",
                              .dtype = e->residual_type ? e->residual_type : dtype,
                              .ptr = e->residual,
                              .rows = d->m,
                              .cols = d->n,
                              .ld = e->ld_residual,
                              .stride = e->stride_residual};
    return view_of(d, batch_count, &residual, &op->in[4]);
}

static um_status make_op(const um_gemm_desc *d, int64_t batch_count, um_op *op)
{
    *op = (um_op){.id = UM_OP_MATMUL};
    UM_TRY(check_desc(d));
    op->attrs.matmul.alpha = d->alpha;
    op->attrs.matmul.beta = d->beta;
    op->attrs.matmul.round_to = d->round_to;
    UM_TRY(add_factors(d, batch_count, op));
    UM_TRY(add_result(d, batch_count, op));
    return d->epilogue ? add_epilogue(d, batch_count, op) : UM_OK;
}

/* ---- the calls ------------------------------------------------------------------------------- */

um_status um_gemm(um_stream *stream, const um_gemm_desc *desc)
{
    um_op op;
    UM_TRY(make_op(desc, -1, &op));
    return um_enqueue(stream, &op);
}

um_status um_gemm_strided_batched(um_stream *stream, const um_gemm_desc *desc, int64_t batch_count)
{
    um_op op;
    if (batch_count < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm_strided_batched: a batch of %lld",
                       (ll)batch_count);
    UM_TRY(make_op(desc, batch_count, &op));
    return um_enqueue(stream, &op);
}

static um_status make_ops(int64_t count, um_op **out)
{
    int64_t bytes;
    *out = um_mul_i64(count, (int64_t)sizeof **out, &bytes) ? um_mem_alloc((size_t)bytes) : NULL;
    if (*out) return UM_OK;
    return UM_FAIL(UM_OUT_OF_MEMORY, "gemm: no memory for %lld products", (ll)count);
}

/* The pointers that the op looks at. */
static um_status check_pointer_arrays(const um_gemm_desc *d, const um_gemm_pointers *p)
{
    const char *missing = NULL;
    if (!p) return UM_FAIL(UM_INVALID_ARGUMENT, "gemm_batched: pointers is NULL");
    bool reads = d->alpha != 0 && d->k != 0;
    if (reads && !p->a) missing = "a";
    if (reads && !p->b) missing = "b";
    if (!p->c && (!p->d || d->beta != 0)) missing = "c";
    if (!missing) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "gemm_batched: pointers->%s is NULL", missing);
}

static void set_pointers(const um_gemm_pointers *p, int64_t i, um_op *op)
{
    if (p->a) op->in[0].ptr = p->a[i];
    if (p->b) op->in[1].ptr = p->b[i];
    if (op->in_count > 2 && p->c) op->in[2].ptr = p->c[i];
    if (op->in_count > 3 && p->bias) op->in[3].ptr = p->bias[i];
    if (op->in_count > 4 && p->residual) op->in[4].ptr = p->residual[i];
    op->out[0].ptr = p->d ? p->d[i] : p->c[i];
}

/* The op of each product of a batch, but for its pointers. */
static um_status make_shared_op(const um_gemm_desc *desc, const um_gemm_pointers *p, um_op *op)
{
    const um_ptr any = 64; /* "there is one" */
    UM_TRY(check_desc(desc));
    um_gemm_desc each = *desc;
    um_gemm_epilogue epilogue = {0};
    if (desc->epilogue) epilogue = *desc->epilogue;
    each.d = p && p->d ? any : 0;
    if (p && p->bias) epilogue.bias = any;
    if (p && p->residual) epilogue.residual = any;
    each.epilogue = &epilogue;
    return make_op(&each, -1, op);
}

um_status um_gemm_batched(um_stream *stream, const um_gemm_desc *desc, int64_t batch_count,
                          const um_gemm_pointers *pointers)
{
    um_op one, *ops;
    if (batch_count < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm_batched: a batch of %lld", (ll)batch_count);
    UM_TRY(make_shared_op(desc, pointers, &one));
    if (batch_count == 0 || desc->m == 0 || desc->n == 0) {
        UM_TRY(um_op_infer(&one));
        return um_enqueue_batch(stream, 0, NULL);
    }
    UM_TRY(check_pointer_arrays(desc, pointers));
    UM_TRY(make_ops(batch_count, &ops));
    size_t bytes = offsetof(um_op, in) + (size_t)one.in_count * sizeof one.in[0];
    for (int64_t i = 0; i < batch_count; i++) {
        memcpy(&ops[i], &one, bytes);
        set_pointers(pointers, i, &ops[i]);
    }
    um_status status = um_enqueue_batch(stream, batch_count, ops);
    um_mem_free(ops);
    return status;
}

um_status um_gemm_grouped(um_stream *stream, int64_t group_count, const um_gemm_desc *descs)
{
    um_op *ops;
    if (group_count < 0 || (group_count > 0 && !descs))
        return UM_FAIL(UM_INVALID_ARGUMENT, "gemm_grouped: %lld products at %p", (ll)group_count,
                       (const void *)descs);
    if (group_count == 0) return um_enqueue_batch(stream, 0, NULL);
    UM_TRY(make_ops(group_count, &ops));
    um_status status = UM_OK;
    for (int64_t i = 0; status == UM_OK && i < group_count; i++)
        status = make_op(&descs[i], -1, &ops[i]);
    if (status == UM_OK) status = um_enqueue_batch(stream, group_count, ops);
    um_mem_free(ops);
    return status;
}
