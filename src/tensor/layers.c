/* tensor/layers.c: matmul and linear, softmax, norms, embedding, rotary embedding, attention. */
#include "tensor/tensor.h"

/* ---- matmul ------------------------------------------------------------------------------------
 */

/* Broadcasts all axes but the last two of both to one shape. */
static um_status match_batch(um_tensor **a, um_tensor **b)
{
    um_tensor *x[2] = {*a, *b};
    int32_t rank = UM_MAX(x[0]->rank, x[1]->rank);
    int64_t shape[2][UM_MAX_RANK];
    for (int32_t axis = 0; axis < rank; axis++) {
        int64_t size[2];
        for (int32_t i = 0; i < 2; i++) {
            int32_t own = axis - (rank - x[i]->rank);
            size[i] = own < 0 ? 1 : x[i]->shape[own];
        }
        bool batch = axis < rank - 2;
        if (batch && size[0] != size[1] && size[0] != 1 && size[1] != 1)
            return UM_FAIL(
                UM_INVALID_ARGUMENT,
                "matmul: batch sizes do not broadcast at axis %d: a has %lld, b has %lld", axis,
                (long long)size[0], (long long)size[1]);
        int64_t common = size[0] == 1 ? size[1] : size[0];
        for (int32_t i = 0; i < 2; i++) shape[i][axis] = batch ? common : size[i];
    }
    *a = um_expand(x[0], rank, shape[0]);
    *b = um_expand(x[1], rank, shape[1]);
    return UM_OK;
}

um_tensor *um_matmul(um_tensor *a, um_tensor *b)
{
    um_tensor *error = um_node_refuse("matmul", 2, (um_tensor *[]){a, b});
    if (error) return error;
    um_dtype dtype;
    if (um_promote("matmul", a->dtype, b->dtype, &dtype) != UM_OK) goto fail;
    if (a->rank == 0 || b->rank == 0) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "matmul: got ranks %d and %d, wanted at least 1",
                      a->rank, b->rank);
        goto fail;
    }
    a = um_cast(a, dtype);
    b = um_cast(b, dtype);
    bool a_vector = um_tensor_rank(a) == 1, b_vector = um_tensor_rank(b) == 1;
    if (a_vector) a = um_unsqueeze(a, 0);
    if (b_vector) b = um_unsqueeze(b, 1);
    if (um_tensor_status(a) == UM_OK && um_tensor_status(b) == UM_OK &&
        match_batch(&a, &b) != UM_OK)
        goto fail;
    um_attrs attrs = {.matmul = {.alpha = 1}};
    um_tensor *y = um_node_op(UM_OP_MATMUL, &attrs, dtype, 2, (um_tensor *[]){a, b});
    if (b_vector) y = um_squeeze(y, -1);
    if (a_vector) y = um_squeeze(y, b_vector ? -1 : -2);
    return y;
fail:
    return um_node_fail(2, (um_tensor *[]){a, b});
}

um_tensor *um_linear(um_tensor *x, um_tensor *w, um_tensor *b)
{
    um_tensor *in[3] = {x, w, b};
    um_tensor *error = um_node_refuse("linear", b ? 3 : 2, in);
    if (error) return error;
    if (w->rank != 2 || x->rank < 1) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT,
                      "linear: got x of rank %d and w of rank %d, wanted at least 1 and exactly 2",
                      x->rank, w->rank);
        return um_node_fail(b ? 3 : 2, in);
    }
    if (b && (b->rank != 1 || b->shape[0] != w->shape[0])) {
        char text[96];
        um_view view;
        um_node_shape_view(b, &view);
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "linear: b is %s, wanted [%lld], a row of w each",
                      um_view_text(&view, text, sizeof text), (long long)w->shape[0]);
        return um_node_fail(3, in);
    }
    /* one matrix product over all leading axes together, not a batch of small ones */
    int32_t rank = x->rank;
    int64_t shape[UM_MAX_RANK], rows = 1;
    for (int32_t i = 0; i < rank - 1; i++) rows *= shape[i] = x->shape[i];
    shape[rank - 1] = w->shape[0];
    if (rank != 2) x = um_reshape(x, 2, (int64_t[]){rows, x->shape[rank - 1]});
    um_tensor *y = um_matmul(x, um_transpose(w, 0, 1));
    if (rank != 2) y = um_reshape(y, rank, shape);
    return b ? um_add(y, b) : y;
}

/* ---- the rest -----------------------------------------------------------------------------------
 */

static um_tensor *softmax(um_op_id op, um_tensor *x, int32_t axis)
{
    um_attrs attrs = {.axis = {.axis = axis}};
    return um_node_op(op, &attrs, UM_DTYPE_NONE, 1, &x);
}

um_tensor *um_softmax(um_tensor *x, int32_t axis) { return softmax(UM_OP_SOFTMAX, x, axis); }
um_tensor *um_log_softmax(um_tensor *x, int32_t axis)
{
    return softmax(UM_OP_LOG_SOFTMAX, x, axis);
}

um_tensor *um_rms_norm(um_tensor *x, um_tensor *w, double eps)
{
    um_attrs attrs = {.norm = {.eps = eps}};
    return um_node_op(UM_OP_RMS_NORM, &attrs, UM_DTYPE_NONE, w ? 2 : 1, (um_tensor *[]){x, w});
}

um_tensor *um_embedding(um_tensor *table, um_tensor *ids)
{
    return um_node_op(UM_OP_EMBEDDING, NULL, UM_DTYPE_NONE, 2, (um_tensor *[]){table, ids});
}

um_tensor *um_rope(um_tensor *x, um_tensor *ids, const um_rope_desc *desc)
{
    um_attrs attrs = {.rope = {.theta = 10000}};
    if (desc) {
        if (desc->theta != 0) attrs.rope.theta = desc->theta;
        attrs.rope.offset = desc->offset;
        attrs.rope.layout = desc->layout;
        attrs.rope.dims = desc->dims;
    }
    return um_node_op(UM_OP_ROPE, &attrs, UM_DTYPE_NONE, ids ? 2 : 1, (um_tensor *[]){x, ids});
}

um_tensor *um_attention(um_tensor *q, um_tensor *k, um_tensor *v, um_tensor *mask,
                        const um_attention_desc *desc)
{
    um_attrs attrs = {.attention = {.scale = 0}};
    if (desc) attrs.attention = *desc;
    return um_node_op(UM_OP_ATTENTION, &attrs, UM_DTYPE_NONE, mask ? 4 : 3,
                      (um_tensor *[]){q, k, v, mask});
}
