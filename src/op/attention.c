/* op/attention.c: softmax(scale * q k^T + bias, masked) v.
 * Letters: B batch, H heads of q, Hkv heads of k and v, Sq queries, Sk keys, D and Dv head sizes.
 */
#include "op/rule.h"

#include <math.h>

static um_status check_shapes(const um_op *op)
{
    const um_view *q = &op->in[0], *k = &op->in[1], *v = &op->in[2];
    static const char *const names[] = {"q", "k", "v"};
    for (int32_t i = 0; i < 3; i++) {
        if (op->in[i].rank != 4)
            return um_rule_fail_view(op, "wants a rank of 4", names[i], &op->in[i]);
        if (op->in[i].dtype != q->dtype)
            return um_rule_fail_views(op, "dtypes differ", "q", q, names[i], &op->in[i]);
        if (op->in[i].shape[0] != q->shape[0])
            return um_rule_fail_views(op, "batch sizes differ", "q", q, names[i], &op->in[i]);
    }
    if (k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2])
        return um_rule_fail_views(op, "heads or keys differ", "k", k, "v", v);
    if (q->shape[3] != k->shape[3])
        return um_rule_fail_views(op, "head sizes differ", "q", q, "k", k);
    int64_t heads = q->shape[1], kv_heads = k->shape[1];
    if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)
        return um_rule_fail_views(op, "q's heads are no multiple of k's", "q", q, "k", k);
    return UM_OK;
}

static um_status check_bias(const um_op *op)
{
    const um_view *q = &op->in[0], *k = &op->in[1], *bias = &op->in[3];
    if (bias->dtype != UM_BOOL && bias->dtype != q->dtype)
        return um_rule_fail_views(op, "the bias must be bool or of q's dtype", "q", q, "bias",
                                  bias);
    if (bias->rank != 4 || bias->shape[2] != q->shape[2] || bias->shape[3] != k->shape[2] ||
        (bias->shape[0] != 1 && bias->shape[0] != q->shape[0]) ||
        (bias->shape[1] != 1 && bias->shape[1] != q->shape[1])) {
        char text[UM_VIEW_TEXT];
        return um_rule_fail(op, "the bias must be [%lld or 1,%lld or 1,%lld,%lld], it is %s",
                            (long long)q->shape[0], (long long)q->shape[1], (long long)q->shape[2],
                            (long long)k->shape[2], um_view_text(bias, text, sizeof text));
    }
    return UM_OK;
}

static um_status check_attrs(const um_op *op)
{
    double scale = op->attrs.attention.scale, softcap = op->attrs.attention.softcap;
    int32_t causal = op->attrs.attention.causal;
    if (!isfinite(scale)) return um_rule_fail(op, "scale must be finite, got %g", scale);
    if (!(softcap >= 0) || !isfinite(softcap))
        return um_rule_fail(op, "softcap must be finite and not negative, got %g", softcap);
    if (causal < UM_CAUSAL_NONE || causal > UM_CAUSAL_TOP_LEFT)
        return um_rule_fail(op, "there is no causal mode %d", (int)causal);
    if (op->attrs.attention.window < 0)
        return um_rule_fail(op, "window must not be negative, got %lld",
                            (long long)op->attrs.attention.window);
    return UM_OK;
}

um_status um_infer_attention(const um_op *op, um_view *out)
{
    UM_TRY(check_shapes(op));
    if (op->in_count == 4) UM_TRY(check_bias(op));
    UM_TRY(check_attrs(op));
    um_rule_like(out, op->in[0].dtype, &op->in[0]);
    out->shape[3] = op->in[2].shape[3];
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

enum { BIAS_NONE, BIAS_BOOL, BIAS_FLOAT };

static const struct attention_row {
    int32_t b, h, hkv, sq, sk, d, dv;
    int32_t bias, bias_b, bias_h; /* its first two sizes */
    int32_t causal, window;
    double softcap, scale;
} attention_rows[] = {
    {1, 1, 1, 5, 7, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0},
    {2, 4, 2, 17, 33, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {2, 4, 1, 33, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {2, 4, 1, 33, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 0, 0, 0},
    {1, 2, 2, 17, 33, 16, 24, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 0, 0, 0.3},
    {1, 8, 4, 1, 65, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {1, 2, 1, 33, 33, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 5, 0, 0},
    {1, 2, 1, 33, 33, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 1, 0, 0},
    {1, 2, 1, 9, 17, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 3, 0, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_BOOL, 2, 4, UM_CAUSAL_NONE, 0, 0, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_BOOL, 1, 1, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_FLOAT, 2, 1, UM_CAUSAL_NONE, 0, 0, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_FLOAT, 1, 4, UM_CAUSAL_TOP_LEFT, 4, 2, -0.5},
    {1, 2, 2, 17, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 5, 2},
    {1, 1, 1, 1, 1, 1, 1, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0},
    {1, 1, 1, 3, 0, 4, 5, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0},
    {1, 2, 1, 0, 5, 4, 4, BIAS_FLOAT, 1, 1, UM_CAUSAL_NONE, 0, 0, 0},
    {0, 2, 1, 3, 5, 4, 4, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0},
    {1, 2, 2, 3, 5, 0, 4, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 1},
    {1, 2, 2, 3, 5, 4, 0, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0},
    {1, 3, 1, 65, 129, 64, 64, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {1, 2, 1, 5, 257, 40, 33, BIAS_BOOL, 1, 2, UM_CAUSAL_NONE, 0, 0, 0},
};

static void add_input(um_sample *s, um_dtype dtype, const int32_t *size, double lo, double hi)
{
    um_dims dims = {4, {size[0], size[1], size[2], size[3]}};
    um_sample_input(s, dtype, &dims, lo, hi);
}

bool um_sample_attention(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= (int32_t)UM_COUNT_OF(attention_rows)) return false;
    const struct attention_row *row = &attention_rows[index];
    add_input(sample, dtype, (int32_t[]){row->b, row->h, row->sq, row->d}, -2, 2);
    add_input(sample, dtype, (int32_t[]){row->b, row->hkv, row->sk, row->d}, -2, 2);
    add_input(sample, dtype, (int32_t[]){row->b, row->hkv, row->sk, row->dv}, -2, 2);
    if (row->bias)
        add_input(sample, row->bias == BIAS_BOOL ? UM_BOOL : dtype,
                  (int32_t[]){row->bias_b, row->bias_h, row->sq, row->sk}, -3, 3);
    sample->op.attrs.attention.scale = row->scale;
    sample->op.attrs.attention.causal = row->causal;
    sample->op.attrs.attention.window = row->window;
    sample->op.attrs.attention.softcap = row->softcap;
    um_sample_label(sample, "h=%d/%d sq=%d sk=%d d=%d/%d bias=%d causal=%d w=%d cap=%g",
                    (int)row->h, (int)row->hkv, (int)row->sq, (int)row->sk, (int)row->d,
                    (int)row->dv, (int)row->bias, (int)row->causal, (int)row->window, row->softcap);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
