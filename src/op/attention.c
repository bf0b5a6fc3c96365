/* op/attention.c: softmax(scale * q k^T + bias, masked) v, and its gradients.
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

/* Where the optional inputs start: bias, lengths of keys and queries, sinks. */
static int32_t first_optional(const um_op *op) { return op->id == UM_OP_ATTENTION ? 3 : 6; }

static um_status check_bias(const um_op *op, const um_view *bias)
{
    const um_view *q = &op->in[0], *k = &op->in[1];
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

static um_status check_lengths(const um_op *op, const char *name, const um_view *lengths)
{
    if (!um_dtype_is_index(lengths->dtype))
        return um_rule_fail_view(op, "lengths must be i32 or i64", name, lengths);
    if (lengths->rank != 1 || lengths->shape[0] != op->in[0].shape[0])
        return um_rule_fail_views(op, "lengths must be one a sequence", "q", &op->in[0], name,
                                  lengths);
    return UM_OK;
}

static um_status check_sinks(const um_op *op, const um_view *sinks)
{
    const um_view *q = &op->in[0];
    if (sinks->dtype != UM_F32 && sinks->dtype != q->dtype)
        return um_rule_fail_views(op, "sinks must be f32 or of q's dtype", "q", q, "sinks", sinks);
    if (sinks->rank != 1 || sinks->shape[0] != q->shape[1])
        return um_rule_fail_views(op, "sinks must be one a head", "q", q, "sinks", sinks);
    return UM_OK;
}

static um_status check_optional(const um_op *op)
{
    int32_t first = first_optional(op);
    const um_view *in = &op->in[first];
    if (um_op_has_input(op, first)) UM_TRY(check_bias(op, &in[0]));
    if (um_op_has_input(op, first + 1)) UM_TRY(check_lengths(op, "key_lengths", &in[1]));
    if (um_op_has_input(op, first + 2)) UM_TRY(check_lengths(op, "query_lengths", &in[2]));
    if (um_op_has_input(op, first + 3)) UM_TRY(check_sinks(op, &in[3]));
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

static void lse_like(um_view *out, const um_view *q)
{
    um_rule_like(out, q->dtype == UM_F64 ? UM_F64 : UM_F32, q);
    out->rank = 3;
}

um_status um_infer_attention(const um_op *op, um_view *out)
{
    UM_TRY(check_shapes(op));
    UM_TRY(check_optional(op));
    UM_TRY(check_attrs(op));
    um_rule_like(&out[0], op->in[0].dtype, &op->in[0]);
    out[0].shape[3] = op->in[2].shape[3];
    if (op->out_count > 1) lse_like(&out[1], &op->in[0]);
    return UM_OK;
}

/* ---- backward ------------------------------------------------------------------------------- */

static um_status check_results(const um_op *op)
{
    const um_view *q = &op->in[0];
    um_view want, lse;
    um_rule_like(&want, q->dtype, q);
    want.shape[3] = op->in[2].shape[3];
    lse_like(&lse, q);
    static const char *const names[] = {"out", "dout", "log-sum-exp"};
    for (int32_t i = 0; i < 3; i++) {
        const um_view *got = &op->in[3 + i], *wanted = i < 2 ? &want : &lse;
        if (got->dtype != wanted->dtype || !um_shapes_equal(got, wanted))
            return um_rule_fail_views(op, "it is not what the forward op gives", names[i], got,
                                      "that", wanted);
    }
    return UM_OK;
}

/* The gradient of an optional input, unless the input is missing, has none, or its gradient is
 * not wanted. */
static void optional_like(const um_op *op, um_view *out, int32_t input)
{
    bool wanted = um_op_has_input(op, input) && op->in[input].dtype != UM_BOOL;
    if (wanted && !um_view_is_none(out))
        um_rule_like(out, op->in[input].dtype, &op->in[input]);
    else
        *out = um_view_none(op->in[0].dtype);
}

um_status um_infer_attention_backward(const um_op *op, um_view *out)
{
    UM_TRY(check_shapes(op));
    UM_TRY(check_results(op));
    UM_TRY(check_optional(op));
    UM_TRY(check_attrs(op));
    if (op->out_count < 3)
        return um_rule_fail(op, "wants 3 to 5 outputs, got %d", (int)op->out_count);
    for (int32_t i = 0; i < 3; i++) um_rule_like(&out[i], op->in[i].dtype, &op->in[i]);
    if (op->out_count > 3) optional_like(op, &out[3], 6);
    if (op->out_count > 4) optional_like(op, &out[4], 9);
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

enum { BIAS_NONE, BIAS_BOOL, BIAS_FLOAT };

static const struct attention_row {
    int32_t b, h, hkv, sq, sk, d, dv;
    int32_t bias, bias_b, bias_h; /* its first two sizes */
    int32_t causal, window;
    double softcap, scale;
    bool key_lengths, query_lengths;
    um_dtype sinks; /* 0: none; UM_F32, or UM_F64 for q's */
} attention_rows[] = {
    {1, 1, 1, 5, 7, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
    {2, 4, 2, 17, 33, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, true, 0},
    {2, 4, 1, 33, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, 0, UM_F64},
    {2, 4, 2, 9, 11, 8, 8, BIAS_FLOAT, 1, 4, UM_CAUSAL_TOP_LEFT, 4, 2, -0.5, true, true, UM_F32},
    {1, 8, 4, 1, 65, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, false, UM_F32},
    {2, 4, 2, 9, 11, 8, 8, BIAS_BOOL, 1, 1, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, false, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_FLOAT, 2, 1, UM_CAUSAL_NONE, 0, 0, 0, false, true, 0},
    {1, 2, 1, 33, 33, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 5, 0, 0, false, false, 0},
    {2, 2, 1, 20, 35, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 6, 3, 0, true, true, UM_F64},
    {2, 4, 1, 33, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 0, 0, 0, true, false, 0},
    {1, 2, 2, 17, 33, 16, 24, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 0, 0, 0.3, false, false, 0},
    {1, 2, 1, 33, 33, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 1, 0, 0, false, false, UM_F32},
    {1, 2, 1, 9, 17, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_TOP_LEFT, 3, 0, 0, false, false, 0},
    {2, 4, 2, 9, 11, 8, 8, BIAS_BOOL, 2, 4, UM_CAUSAL_NONE, 0, 0, 0, false, false, UM_F32},
    {1, 2, 2, 17, 17, 16, 16, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 5, 2, false, false, 0},
    {1, 1, 1, 1, 1, 1, 1, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
    {1, 1, 1, 3, 0, 4, 5, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, false, UM_F32},
    {1, 2, 1, 0, 5, 4, 4, BIAS_FLOAT, 1, 1, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
    {0, 2, 1, 3, 5, 4, 4, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, false, UM_F32},
    {1, 2, 2, 3, 5, 0, 4, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 1, false, false, 0},
    {1, 2, 2, 3, 5, 4, 0, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
    {1, 3, 1, 65, 129, 64, 64, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, false, 0},
    {1, 2, 1, 5, 257, 40, 33, BIAS_BOOL, 1, 2, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
    {1, 2, 1, 210, 145, 8, 7, BIAS_FLOAT, 1, 1, UM_CAUSAL_TOP_LEFT, 130, 0, 0, true, true, UM_F32},
    {2, 2, 1, 20, 70, 4, 5, BIAS_NONE, 0, 0, UM_CAUSAL_NONE, 0, 0, 0, false, true, 0},
    {1, 2, 1, 17, 70, 72, 132, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, false, 0},
    {2, 4, 2, 1, 777, 8, 12, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 600, 0, 0, true, false,
     UM_F32},
    {6, 32, 16, 33, 37, 8, 8, BIAS_NONE, 0, 0, UM_CAUSAL_BOTTOM_RIGHT, 20, 0, 0, true, false, 0},
    {1, 2, 1, 3, 2050, 4, 5, BIAS_BOOL, 1, 2, UM_CAUSAL_NONE, 0, 0, 0, false, false, 0},
};

static void add_input(um_sample *s, um_dtype dtype, const int32_t *size, double lo, double hi)
{
    um_dims dims = {4, {size[0], size[1], size[2], size[3]}};
    um_sample_input(s, dtype, &dims, lo, hi);
}

static void add_none(um_sample *s) { um_sample_input(s, UM_BOOL, &(um_dims)UM_DIMS(0), 0, 0); }

/* Bias, lengths, sinks. */
static void add_optional(um_sample *s, um_dtype dtype, const struct attention_row *row)
{
    um_dims batch = UM_DIMS(row->b), heads = UM_DIMS(row->h);
    if (row->bias)
        add_input(s, row->bias == BIAS_BOOL ? UM_BOOL : dtype,
                  (int32_t[]){row->bias_b, row->bias_h, row->sq, row->sk}, -3, 3);
    else
        add_none(s);
    if (row->key_lengths)
        um_sample_indices(s, row->window ? UM_I64 : UM_I32, &batch, 0, row->sk);
    else
        add_none(s);
    if (row->query_lengths)
        um_sample_indices(s, row->bias ? UM_I64 : UM_I32, &batch, 0, row->sq);
    else
        add_none(s);
    if (row->sinks) um_sample_input(s, row->sinks == UM_F32 ? UM_F32 : dtype, &heads, -3, 3);
}

static const struct attention_row *sample_begin(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= (int32_t)UM_COUNT_OF(attention_rows)) return NULL;
    const struct attention_row *row = &attention_rows[index];
    add_input(sample, dtype, (int32_t[]){row->b, row->h, row->sq, row->d}, -2, 2);
    add_input(sample, dtype, (int32_t[]){row->b, row->hkv, row->sk, row->d}, -2, 2);
    add_input(sample, dtype, (int32_t[]){row->b, row->hkv, row->sk, row->dv}, -2, 2);
    um_attention_desc *attrs = &sample->op.attrs.attention;
    attrs->scale = row->scale;
    attrs->causal = row->causal;
    attrs->window = row->window;
    attrs->softcap = row->softcap;
    um_sample_label(sample, "h=%d/%d sq=%d sk=%d d=%d/%d bias=%d causal=%d w=%d cap=%g",
                    (int)row->h, (int)row->hkv, (int)row->sq, (int)row->sk, (int)row->d,
                    (int)row->dv, (int)row->bias, (int)row->causal, (int)row->window, row->softcap);
    return row;
}

bool um_sample_attention(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct attention_row *row = sample_begin(index, dtype, sample);
    if (!row) return false;
    add_optional(sample, dtype, row);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

/* out and the log-sum-exp need not be the forward op's. */
bool um_sample_attention_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    const struct attention_row *row = sample_begin(index, dtype, sample);
    if (!row) return false;
    um_dims lse = UM_DIMS(row->b, row->h, row->sq);
    for (int32_t i = 0; i < 2; i++)
        add_input(sample, dtype, (int32_t[]){row->b, row->h, row->sq, row->dv}, -2, 2);
    um_sample_input(sample, dtype == UM_F64 ? UM_F64 : UM_F32, &lse, 1, 6);
    add_optional(sample, dtype, row);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
