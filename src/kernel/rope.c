/* kernel/rope.c: rotary embedding; an invocation for each element. The frequency is
 * theta^(-i / pairs): its exponent is made in two parts, and so is the angle. */
#include "ir/math.h"
#include "kernel/lines.h"

#include <math.h>

typedef struct rope {
    const um_op *op;
    um_kernel *k;
    um_dtype compute;
    um_keach each; /* out, x */
    um_kview ids;
    um_val pairs;
} rope;

static int64_t pairs_of(const um_op *op)
{
    const um_view *x = &op->in[0];
    return (op->attrs.rope.dims ? op->attrs.rope.dims : x->shape[x->rank - 1]) / 2;
}

/* i64 */
static um_val position_of(const rope *r)
{
    um_kernel *k = r->k;
    um_val row = r->each.place[r->each.walk.rank - 2];
    if (r->op->in_count == 2) return um_kvalue_as(k, UM_I64, um_kview_load_at(k, &r->ids, 1, &row));
    int64_t offset = r->op->attrs.rope.offset;
    um_klaunch *launch = r->each.launch;
    um_val part[2] = {um_klaunch_scalar(launch, offset, "offset"),
                      um_klaunch_scalar(launch, offset >> 32, "offset_high")};
    um_val first = um_k_bitcast(k, UM_I64, 1, um_k_vector(k, 2, part));
    return um_k_add(k, first, um_k_convert(k, UM_I64, row));
}

/* theta^(-pair / pairs), of -log(theta) in two parts. */
static um_val frequency_of(const rope *r, um_val pair)
{
    um_kernel *k = r->k;
    long double log_theta = -logl((long double)r->op->attrs.rope.theta);
    double high = r->compute == UM_F32 ? (double)(float)log_theta : (double)log_theta;
    double low = (double)(log_theta - (long double)high);
    um_val factor = um_klaunch_real(r->each.launch, r->compute, high, "log_theta");
    um_val rest = um_klaunch_real(r->each.launch, r->compute, low, "log_theta_rest");
    um_val i = um_k_convert(k, r->compute, pair), n = um_k_convert(k, r->compute, r->pairs);
    um_val ratio = um_k_div(k, i, n), lost, back = um_k_product(k, ratio, n, &lost);
    um_val ratio_low = um_k_div(k, um_k_sub(k, um_k_sub(k, i, back), lost), n);
    um_val x = um_k_product(k, ratio, factor, &lost);
    lost = um_k_add(k, lost, um_k_mul(k, ratio, rest));
    lost = um_k_add(k, lost, um_k_mul(k, ratio_low, factor));
    return um_k_exp_of_sum(k, x, lost);
}

/* Of the position times the frequency. */
static void turn_of(const rope *r, um_val frequency, um_val *cosine, um_val *sine)
{
    um_kernel *k = r->k;
    um_val position = position_of(r), high = um_k_convert(k, r->compute, position), low;
    um_val rest = um_k_sub(k, position, um_k_convert(k, UM_I64, high));
    um_val angle = um_k_product(k, high, frequency, &low);
    low = um_k_add(k, low, um_k_mul(k, um_k_convert(k, r->compute, rest), frequency));
    um_val c = um_k_cos(k, angle), s = um_k_sin(k, angle);
    *cosine = um_k_sub(k, c, um_k_mul(k, s, low));
    *sine = um_k_add(k, s, um_k_mul(k, c, low));
}

static um_val load_at(const rope *r, um_val last)
{
    um_keach at = r->each;
    at.place[at.walk.rank - 1] = last;
    return um_keach_load(&at, 1);
}

/* The element at its place among those that turn. */
static um_val turned(const rope *r, um_val last)
{
    um_kernel *k = r->k;
    bool interleaved = r->op->attrs.rope.layout == UM_ROPE_INTERLEAVED;
    um_val one = um_k_u32(k, 1), pair, is_second, cosine, sine;
    if (interleaved) {
        pair = um_k_shr(k, last, one);
        is_second = um_k_ne(k, um_k_and(k, last, one), um_k_u32(k, 0));
    } else {
        is_second = um_k_ge(k, last, r->pairs);
        pair = um_k_select(k, is_second, um_k_sub(k, last, r->pairs), last);
    }
    um_val step = interleaved ? one : r->pairs;
    um_val other = um_k_select(k, is_second, um_k_sub(k, last, step), um_k_add(k, last, step));
    um_val x = um_kvalue_as(k, r->compute, load_at(r, last));
    um_val y = um_kvalue_as(k, r->compute, load_at(r, other));
    turn_of(r, frequency_of(r, pair), &cosine, &sine);
    um_val part = um_k_mul(k, y, sine);
    part = um_k_select(k, is_second, part, um_k_neg(k, part));
    return um_k_add(k, um_k_mul(k, x, cosine), part);
}

um_status um_krope_plan(const um_op *op, um_kplan *plan)
{
    const um_view *out = &op->out[0];
    rope r = {.op = op, .compute = um_kvalue_compute(out->dtype)};
    r.each.walk = um_kwalk_apart(2, (const um_view *[]){out, &op->in[0]});
    UM_TRY(um_keach_create(&r.each, plan, um_op_name(op->id)));
    um_kernel *k = r.k = r.each.k;
    um_keach_read(&r.each, 1);
    if (op->in_count == 2) {
        um_kwalk ids = {.view_count = 3, .rank = 1, .view = {NULL, NULL, &op->in[1]}};
        ids.stride[2][0] = op->in[1].stride[0];
        r.ids = um_kview_read(r.each.launch, &ids, 2);
    }
    r.pairs = um_klaunch_scalar(r.each.launch, pairs_of(op), "pairs");
    um_keach_begin(&r.each);
    um_val last = r.each.place[r.each.walk.rank - 1];
    um_k_if(k, um_k_lt(k, last, um_k_add(k, r.pairs, r.pairs)));
    um_keach_store(&r.each, turned(&r, last));
    um_k_else(k);
    um_keach_store(&r.each, load_at(&r, last));
    um_k_end(k);
    return um_keach_finish(&r.each);
}
