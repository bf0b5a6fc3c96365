/* kernel/attention.c: what attention (attention_forward.c) and its gradients (attention_grad.c)
 * share: parameters, lengths, which keys a query sees, scores. */
#include "kernel/attention.h"

#include <math.h>
#include <stdio.h>

#define SIZE_MAX_32 ((int64_t)1 << 30) /* of queries and keys: places are i32 */

/* ---- parameters ----------------------------------------------------------------------------- */

um_val um_kattention_real(const um_kattention *a, double value)
{
    return um_kvalue_number(a->k, a->compute, value);
}

bool um_kattention_fits(const um_op *op, char *why, size_t why_size)
{
    bool fits = op->in[0].shape[2] < SIZE_MAX_32 && op->in[1].shape[2] < SIZE_MAX_32;
    return fits || um_kplan_refuse(op, why, why_size, "for such sizes");
}

static const um_view *input(const um_op *op, int32_t index)
{
    return um_op_has_input(op, index) ? &op->in[index] : NULL;
}

um_kattention um_kattention_of(const um_op *op, um_kplan *plan)
{
    bool forward = op->id == UM_OP_ATTENTION;
    um_kattention a = {.op = op, .plan = plan, .optional = forward ? 3 : 6};
    a.compute = um_kvalue_compute(op->in[0].dtype);
    a.walk = (um_kwalk){.view_count = A_COUNT, .rank = 4};
    const um_view **v = a.walk.view;
    for (int32_t i = 0; i < 3; i++) v[A_Q + i] = &op->in[i];
    v[A_BIAS] = input(op, a.optional);
    v[A_SINKS] = input(op, a.optional + 3);
    v[A_OUT] = &op->out[0];
    if (forward) {
        v[A_LSE] = op->out_count > 1 ? &op->out[1] : NULL;
    } else {
        v[A_RESULT] = &op->in[3];
        v[A_DOUT] = &op->in[4];
        v[A_LSE] = &op->in[5];
    }
    return a;
}

bool um_kattention_has(const um_kattention *a, int32_t view) { return a->walk.view[view] != NULL; }

static bool has_lengths(const um_kattention *a)
{
    return um_op_has_input(a->op, a->optional + 1) || um_op_has_input(a->op, a->optional + 2);
}

uint64_t um_kattention_length_bytes(const um_kattention *a)
{
    uint64_t batch = (uint64_t)a->op->in[0].shape[0];
    return has_lengths(a) ? (UM_KFAULT_BYTES + 8 * batch + 15) / 16 * 16 : UM_KFAULT_BYTES;
}

um_status um_kattention_begin(um_kattention *a, const char *name, int64_t groups, uint32_t size)
{
    const um_op *op = a->op;
    const um_view *q = &op->in[0], *key = &op->in[1], *v = &op->in[2];
    const um_attention_desc *attrs = &op->attrs.attention;
    double scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)q->shape[3]);
    a->in_fours = false;
    memset(a->view, 0, sizeof a->view);
    UM_TRY(um_kplan_launch(a->plan, name, size, &a->launch));
    um_klaunch *launch = a->launch;
    um_kernel *k = a->k = launch->kernel;
    int64_t kv_heads = UM_MAX(key->shape[1], 1);
    um_klaunch_groups(launch, groups);
    a->zero = um_k_u32(k, 0);
    a->one = um_k_u32(k, 1);
    a->heads = um_klaunch_scalar(launch, q->shape[1], "heads");
    a->kv_heads = um_klaunch_scalar(launch, kv_heads, "kv_heads");
    a->queries = um_klaunch_scalar(launch, q->shape[2], "queries");
    a->keys = um_klaunch_scalar(launch, key->shape[2], "keys");
    a->d = um_klaunch_scalar(launch, q->shape[3], "d");
    a->dv = um_klaunch_scalar(launch, v->shape[3], "dv");
    a->group = um_klaunch_scalar(launch, q->shape[1] / kv_heads, "group");
    a->window = um_klaunch_scalar(launch, UM_MIN(attrs->window, SIZE_MAX_32), "window");
    a->scale = um_klaunch_real(launch, a->compute, scale, "scale");
    a->softcap = um_klaunch_real(launch, a->compute, attrs->softcap, "softcap");
    return UM_OK;
}

void um_kattention_declare(um_kattention *a, uint32_t wanted, const um_view *out)
{
    um_kwalk *w = &a->walk;
    if (out) w->view[A_OUT] = out;
    for (int32_t i = 0; i < A_COUNT; i++) {
        const um_view *v = w->view[i];
        if (!v || !(wanted >> i & 1)) continue;
        for (int32_t axis = 0; axis < v->rank; axis++)
            w->stride[i][axis] = v->shape[axis] == 1 ? 0 : v->stride[axis];
        bool written = i == A_OUT || (i == A_LSE && a->op->id == UM_OP_ATTENTION);
        bool narrow = written && um_dtype_bits(v->dtype) < 32 && !a->in_fours;
        w->rank = v->rank;
        a->view[i] = um_kview_declare(a->launch, w, i, written ? UM_K_WRITE : UM_K_READ,
                                      narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
    }
    uint64_t bytes = a->plan->scratch_bytes;
    a->scratch = um_klaunch_scratch(a->launch, "scratch", UM_I32, 0, bytes);
}

/* ---- lengths -------------------------------------------------------------------------------- */

/* A length in 0 .. most, the nearest to what view `which` gives, as u32. */
static um_val take_length(const um_kattention *a, int32_t which, um_val b, int64_t most,
                          um_mem flags)
{
    um_kernel *k = a->k;
    const um_kview *v = &a->view[which];
    um_val n = um_kvalue_as(k, UM_I64, um_kview_load_at(k, v, 1, &b)),
           low = um_k_const(k, UM_I64, 0);
    um_val high = um_klaunch_scalar(a->launch, most, "most%d", which);
    high = um_k_convert(k, UM_I64, high);
    um_val small = um_k_lt(k, n, low), large = um_k_gt(k, n, high);
    um_kflag(k, flags, 0, um_k_or(k, small, large));
    n = um_k_select(k, small, low, um_k_select(k, large, high, n));
    return um_k_convert(k, UM_U32, n);
}

um_status um_kattention_plan_lengths(um_kattention *a)
{
    const um_op *op = a->op;
    if (!has_lengths(a)) return UM_OK;
    int64_t batch = op->in[0].shape[0];
    snprintf(a->plan->fault, sizeof a->plan->fault,
             "%s: a length is outside 0 to %lld keys, %lld queries", um_op_name(op->id),
             (long long)op->in[1].shape[2], (long long)op->in[0].shape[2]);
    UM_TRY(um_kplan_launch(a->plan, "attention_lengths", UM_KGROUP, &a->launch));
    um_klaunch *launch = a->launch;
    um_kernel *k = a->k = launch->kernel;
    um_klaunch_groups(launch, um_ceil_div(batch, UM_KGROUP));
    um_val count = um_klaunch_scalar(launch, batch, "count");
    um_mem scratch =
        um_klaunch_scratch(launch, "scratch", UM_U32, 0, um_kattention_length_bytes(a));
    um_val b = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, b, count));
    for (int32_t i = 0; i < 2; i++) {
        if (!um_op_has_input(op, a->optional + 1 + i)) continue;
        um_kwalk w = {.view_count = 2, .rank = 1};
        w.view[i] = &op->in[a->optional + 1 + i];
        w.stride[i][0] = w.view[i]->stride[0];
        a->view[i] = um_kview_read(launch, &w, i);
        um_val n = take_length(a, i, b, op->in[i == 0].shape[2], scratch);
        um_val at = um_k_add(k, um_k_mul(k, b, um_k_u32(k, 2)),
                             um_k_u32(k, UM_KFAULT_BYTES / 4 + (uint32_t)i));
        um_k_store(k, scratch, at, n);
    }
    um_k_end(k);
    return um_kernel_finish(k);
}

um_val um_kattention_i32(const um_kattention *a, um_val u)
{
    return um_k_bitcast(a->k, UM_I32, 1, u);
}

/* i32: the keys (0) or queries (1) of sequence b. */
static um_val length_of(const um_kattention *a, um_val b, uint32_t which)
{
    um_kernel *k = a->k;
    if (!um_op_has_input(a->op, a->optional + 1 + (int32_t)which))
        return um_kattention_i32(a, which ? a->queries : a->keys);
    um_val at =
        um_k_add(k, um_k_mul(k, b, um_k_u32(k, 2)), um_k_u32(k, UM_KFAULT_BYTES / 4 + which));
    return um_k_load(k, a->scratch, at);
}

/* ---- queries and scores --------------------------------------------------------------------- */

um_kquery um_kattention_query(const um_kattention *a, um_val row)
{
    um_kernel *k = a->k;
    um_val rest = um_k_div(k, row, a->queries);
    return um_kattention_query_at(a, um_k_div(k, rest, a->heads), um_k_rem(k, rest, a->heads),
                                  um_k_rem(k, row, a->queries));
}

um_kquery um_kattention_query_at(const um_kattention *a, um_val b, um_val h, um_val query)
{
    um_kernel *k = a->k;
    const um_attention_desc *attrs = &a->op->attrs.attention;
    um_kquery q = {.b = b, .h = h, .i = query, .kv_head = um_k_div(k, h, a->group)};
    um_val none = um_k_i32(k, 0);
    q.key_count = length_of(a, q.b, 0);
    q.query_count = length_of(a, q.b, 1);
    q.begin = none;
    q.end = q.key_count;
    um_val i = um_kattention_i32(a, q.i), own = i;
    if (attrs->causal != UM_CAUSAL_TOP_LEFT)
        own = um_k_add(k, own, um_k_sub(k, q.key_count, q.query_count));
    if (attrs->causal != UM_CAUSAL_NONE || attrs->window > 0)
        q.end = um_k_min(k, q.end, um_k_add(k, own, um_k_i32(k, 1)));
    if (attrs->window > 0) {
        um_val first =
            um_k_add(k, um_k_sub(k, own, um_kattention_i32(a, a->window)), um_k_i32(k, 1));
        q.begin = um_k_max(k, first, none);
    }
    q.end = um_k_select(k, um_k_lt(k, i, q.query_count), um_k_max(k, q.end, none), none);
    return q;
}

um_val um_kattention_load(const um_kattention *a, int32_t view, const um_val *place)
{
    const um_kview *v = &a->view[view];
    um_val x = um_kview_load_at(a->k, v, a->walk.view[view]->rank, place);
    return um_kvalue_as(a->k, a->compute, x);
}

/* Plain sums of up to PART products, which are added with what is lost. */
um_val um_kattention_dot(const um_kattention *a, int32_t x, const um_val *x_place, int32_t y,
                         const um_val *y_place, um_val n, const char *tag)
{
    enum { PART = 16 };
    um_kernel *k = a->k;
    um_val none = um_kattention_real(a, 0), at_x[4], at_y[4], size = um_k_u32(k, PART);
    um_ksum sum = um_ksum_new(k, none, "dot_%s", tag);
    um_mem part = um_kvar(k, none, "few_%s", tag);
    memcpy(at_x, x_place, sizeof at_x);
    memcpy(at_y, y_place, sizeof at_y);
    um_val first = um_k_for(k, a->zero, n, size);
    um_k_set(k, part, none);
    um_val e = um_k_for(k, first, um_k_min(k, n, um_k_add(k, first, size)), a->one);
    at_x[3] = at_y[3] = e;
    um_val p = um_k_fma(k, um_kattention_load(a, x, at_x), um_kattention_load(a, y, at_y),
                        um_k_get(k, part));
    um_k_set(k, part, p);
    um_k_end(k);
    um_ksum_add(k, sum, um_k_get(k, part));
    um_k_end(k);
    return um_ksum_get(k, sum);
}

um_val um_kattention_bias(const um_kattention *a, const um_kquery *q, um_val j, um_val *seen)
{
    um_kernel *k = a->k;
    if (!um_kattention_has(a, A_BIAS)) return um_kattention_real(a, 0);
    const um_kview *v = &a->view[A_BIAS];
    bool is_mask = v->dtype == UM_BOOL;
    um_val place[4] = {q->b, q->h, q->i, j};
    um_val at = um_kview_place(k, v, 4, place);
    um_val other = um_k_const(k, is_mask ? UM_U8 : v->dtype, 0);
    um_val value = um_kvalue_as(k, a->compute, um_k_load_if(k, v->mem, at, *seen, other));
    um_val masked = um_kattention_real(a, is_mask ? 0 : -(double)INFINITY);
    *seen = um_k_and(k, *seen, um_k_ne(k, value, masked));
    return is_mask ? um_kattention_real(a, 0) : value;
}

um_val um_kattention_finish(const um_kattention *a, um_val dot, um_val *slope)
{
    um_kernel *k = a->k;
    int32_t lanes = um_val_type(k, dot).lanes;
    um_val score = um_k_mul(k, dot, um_k_splat(k, lanes, a->scale));
    um_val one = um_k_splat(k, lanes, um_kattention_real(a, 1));
    if (slope) *slope = one;
    if (!(a->op->attrs.attention.softcap > 0)) return score;
    um_val softcap = um_k_splat(k, lanes, a->softcap);
    um_val t = um_k_tanh(k, um_k_div(k, score, softcap));
    if (slope) *slope = um_k_sub(k, one, um_k_mul(k, t, t));
    return um_k_mul(k, softcap, t);
}

um_val um_kattention_score(const um_kattention *a, const um_kquery *q, um_val j)
{
    um_val q_place[4] = {q->b, q->h, q->i, 0}, k_place[4] = {q->b, q->kv_head, j, 0};
    um_val dot = um_kattention_dot(a, A_Q, q_place, A_K, k_place, a->d, "qk");
    return um_kattention_finish(a, dot, NULL);
}

um_val um_kattention_shift(const um_kattention *a, um_val top)
{
    um_kernel *k = a->k;
    um_val lowest = um_kattention_real(a, -(double)INFINITY);
    return um_k_select(k, um_k_eq(k, top, lowest), um_kattention_real(a, 0), top);
}

/* ---- the family ----------------------------------------------------------------------------- */

bool um_kattention_supports(const um_op *op, char *why, size_t why_size)
{
    if (op->id == UM_OP_ATTENTION) return um_kattention_fits(op, why, why_size);
    return um_kattention_grad_supports(op, why, why_size);
}

um_status um_kattention_plan(const um_op *op, um_kplan *plan)
{
    return op->id == UM_OP_ATTENTION ? um_kattention_forward_plan(op, plan)
                                     : um_kattention_grad_plan(op, plan);
}
