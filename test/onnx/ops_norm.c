/* test/onnx/ops_norm.c: normalizations, losses, optimizers. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

/* (x - mean) / sqrt(var + eps) over axes, all kept; NULL: not wanted. */
static um_view standardize(run *r, um_view x, uint32_t axes, double eps, um_view *mean,
                           um_view *inverse)
{
    um_view m = reduce(r, UM_OP_MEAN, x, axes, true), v = reduce(r, UM_OP_VAR, x, axes, true);
    um_view i = m1(r, UM_OP_RSQRT, addc(r, v, eps));
    if (mean) *mean = m;
    if (inverse) *inverse = i;
    return mul(r, sub(r, x, m), i);
}

static uint32_t axes_from(int32_t first, int32_t rank)
{
    uint32_t bits = 0;
    for (int32_t d = first; d < rank; d++) bits |= 1u << d;
    return bits;
}

static double epsilon(const run *r) { return (double)attr_float(r, "epsilon", 1e-5f); }

/* y * scale + bias where they are there. */
static um_view affine(run *r, um_view y, int32_t scale_at, int32_t bias_at, int32_t channels)
{
    if (has_in(r, scale_at)) {
        um_view scale = in(r, scale_at);
        y = mul(r, y, channels ? along(r, scale, channels, y.rank) : scale);
    }
    if (has_in(r, bias_at)) {
        um_view bias = in(r, bias_at);
        y = add(r, y, channels ? along(r, bias, channels, y.rank) : bias);
    }
    return y;
}

void on_layer_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), mean, inverse;
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    um_view wide = widen(r, x);
    um_view y = standardize(r, wide, axes_from(axis, x.rank), epsilon(r), &mean, &inverse);
    out(r, 0, affine(r, cast(r, y, x.dtype), 1, 2, 0));
    out(r, 1, mean);
    out(r, 2, inverse);
}

/* Over the axes from `axis` on, taken as one. */
void on_rms_norm(run *r, um_op_id id)
{
    um_view x = in(r, 0), scale = in(r, 1);
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    int64_t count = um_view_count(&scale);
    um_op op = {.id = id, .in_count = 2};
    op.attrs.norm.eps = epsilon(r);
    op.in[0] = flatten(r, x, axis);
    op.in[1] = reshape(r, scale, 1, &count);
    out(r, 0, reshape(r, run_op(r, &op), x.rank, x.shape));
}

void on_group_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t groups = attr_int(r, "num_groups", 1), n = size(&x, 0), c = size(&x, 1);
    if (groups < 1 || r->failed || c % groups) run_refuse(r, "GroupNormalization: the groups");
    if (r->failed) return;
    int64_t rest = UM_MAX(um_view_count(&x), 1) / UM_MAX(n * groups, 1);
    um_view y = reshape(r, x, 3, (const int64_t[]){n, groups, rest});
    y = standardize(r, y, 1u << 2, epsilon(r), NULL, NULL);
    out(r, 0, affine(r, reshape(r, y, x.rank, x.shape), 1, 2, 1));
}

void on_instance_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    um_view y = standardize(r, x, axes_from(2, x.rank), epsilon(r), NULL, NULL);
    out(r, 0, affine(r, y, 1, 2, 1));
}

void on_mean_variance_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints axes = attr_ints(r, "axes");
    uint32_t bits = axes.count ? axes_of(r, &axes, x.rank) : 1u | 1u << 2 | 1u << 3;
    out(r, 0, standardize(r, x, bits, 1e-9, NULL, NULL));
}

/* Inputs x, scale, bias, mean, var. Training: of the batch, and the running ones come out. */
void on_batch_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), mean = in(r, 3), var = in(r, 4), y;
    if (attr_int(r, "training_mode", 0)) {
        uint32_t axes = axes_from(2, x.rank) | 1;
        double keep = (double)attr_float(r, "momentum", 0.9f);
        um_view m = reduce(r, UM_OP_MEAN, x, axes, false);
        um_view v = reduce(r, UM_OP_VAR, x, axes, false);
        out(r, 1, add(r, mulc(r, mean, keep), mulc(r, m, 1 - keep)));
        out(r, 2, add(r, mulc(r, var, keep), mulc(r, v, 1 - keep)));
        y = standardize(r, x, axes, epsilon(r), NULL, NULL);
    } else {
        um_view inverse = m1(r, UM_OP_RSQRT, addc(r, var, epsilon(r)));
        y = mul(r, sub(r, x, along(r, mean, 1, x.rank)), along(r, inverse, 1, x.rank));
    }
    out(r, 0, affine(r, y, 1, 2, 1));
}

/* x / (bias + alpha / size * sum of x^2 over the nearest `size` channels)^beta */
void on_lrn(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), zero = num(r, x.dtype, 0), sum = zero;
    int64_t near = attr_int(r, "size", 1);
    if (near < 1 || near > 64) run_refuse(r, "LRN: the size");
    um_view squares =
        pad_axis(r, m1(r, UM_OP_SQUARE, x), 1, (near - 1) / 2, near / 2, "constant", zero);
    for (int64_t i = 0; i < near && !r->failed; i++)
        sum = add(r, sum, slice(r, squares, 1, i, size(&x, 1), 1));
    double alpha = (double)attr_float(r, "alpha", 1e-4f) / (double)near;
    um_view base = addc(r, mulc(r, sum, alpha), (double)attr_float(r, "bias", 1));
    um_view beta = num(r, x.dtype, (double)attr_float(r, "beta", 0.75f));
    out(r, 0, quo(r, x, m2(r, UM_OP_POW, base, beta)));
}

void on_lp_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    um_op_id norm = attr_int(r, "p", 2) == 1 ? UM_OP_L1 : UM_OP_L2;
    um_view total = reduce(r, norm, x, 1u << axis, true);
    um_view zero = m2(r, UM_OP_EQ, total, num(r, x.dtype, 0));
    out(r, 0, quo(r, x, where(r, zero, num(r, x.dtype, 1), total)));
}

/* ---- losses -------------------------------------------------------------------------------------
 */

/* -weight[t] * logp[n, t, ...], none where t is ignore_index. */
static um_view nll_loss(run *r, um_view logp, um_view target, bool weighted)
{
    um_view t = cast(r, target, UM_I64), ignored = num(r, UM_BOOL, 0);
    if (attr_find(r, "ignore_index")) {
        ignored = m2(r, UM_OP_EQ, t, put_i64(r, attr_int(r, "ignore_index", 0)));
        t = where(r, ignored, put_i64(r, 0), t);
    }
    um_view picked = squeeze(r, gather_along(r, logp, 1, unsqueeze(r, t, 1)), 1);
    um_view weight = num(r, logp.dtype, 1);
    if (weighted) {
        int64_t count = um_view_count(&t);
        weight = select_rows(r, in(r, 2), 0, reshape(r, t, 1, &count));
        weight = reshape(r, weight, t.rank, t.shape);
    }
    weight = where(r, ignored, num(r, logp.dtype, 0), weight);
    um_view loss = mul(r, m1(r, UM_OP_NEG, picked), weight);
    if (attr_is(r, "reduction", "mean", "none")) return loss;
    um_view sum = reduce(r, UM_OP_SUM, loss, 0, false);
    if (attr_is(r, "reduction", "mean", "sum")) return sum;
    weight = expand_like(r, weight, &loss);
    return quo(r, sum, reduce(r, UM_OP_SUM, weight, 0, false));
}

void on_nll_loss(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, nll_loss(r, in(r, 0), in(r, 1), has_in(r, 2)));
}

void on_softmax_cross_entropy(run *r, um_op_id id)
{
    um_view logp = scan(r, id, in(r, 0), 1);
    out(r, 0, nll_loss(r, logp, in(r, 1), has_in(r, 2)));
    out(r, 1, logp);
}

/* ---- optimizers: rate, step, then n each of values, gradients and states ------------------------
 */

static um_view regularized(run *r, um_view x, um_view g)
{
    return add(r, g, mulc(r, x, (double)attr_float(r, "norm_coefficient", 0)));
}

void on_adagrad(run *r, um_op_id id)
{
    (void)id;
    int32_t n = (r->in_count - 2) / 3;
    um_view step = cast(r, in(r, 1), in(r, 0).dtype);
    um_view slower = addc(r, mulc(r, step, (double)attr_float(r, "decay_factor", 0)), 1);
    um_view rate = quo(r, in(r, 0), slower);
    for (int32_t i = 0; i < n && !r->failed; i++) {
        um_view x = in(r, 2 + i), g = regularized(r, x, in(r, 2 + n + i));
        um_view squares = add(r, in(r, 2 + 2 * n + i), mul(r, g, g));
        um_view root = addc(r, m1(r, UM_OP_SQRT, squares), (double)attr_float(r, "epsilon", 1e-6f));
        out(r, i, sub(r, x, mul(r, rate, quo(r, g, root))));
        out(r, n + i, squares);
    }
}

/* v * a + g * b */
static um_view blend(run *r, um_view v, double a, um_view g, double b)
{
    return add(r, mulc(r, v, a), mulc(r, g, b));
}

void on_momentum(run *r, um_op_id id)
{
    (void)id;
    int32_t n = (r->in_count - 2) / 3;
    double step = run_number(r, in(r, 1)), alpha = (double)attr_float(r, "alpha", 0);
    double beta = step > 0 ? (double)attr_float(r, "beta", 0) : 1;
    for (int32_t i = 0; i < n && !r->failed; i++) {
        um_view x = in(r, 2 + i), g = regularized(r, x, in(r, 2 + n + i));
        um_view v = blend(r, in(r, 2 + 2 * n + i), alpha, g, beta);
        um_view d = attr_is(r, "mode", "standard", "nesterov") ? blend(r, v, alpha, g, 1) : v;
        out(r, i, sub(r, x, mul(r, in(r, 0), d)));
        out(r, n + i, v);
    }
}

void on_adam(run *r, um_op_id id)
{
    (void)id;
    int32_t n = (r->in_count - 2) / 4;
    double alpha = (double)attr_float(r, "alpha", 0.9f),
           beta = (double)attr_float(r, "beta", 0.999f);
    um_view rate = in(r, 0);
    um_view step = cast(r, in(r, 1), rate.dtype), one = num(r, rate.dtype, 1);
    um_view of_squares = sub(r, one, m2(r, UM_OP_POW, num(r, rate.dtype, beta), step));
    um_view of_means = sub(r, one, m2(r, UM_OP_POW, num(r, rate.dtype, alpha), step));
    um_view warm = quo(r, m1(r, UM_OP_SQRT, of_squares), of_means);
    bool started = run_number(r, in(r, 1)) > 0;
    for (int32_t i = 0; i < n && !r->failed; i++) {
        um_view x = in(r, 2 + i), g = regularized(r, x, in(r, 2 + n + i));
        um_view v = blend(r, in(r, 2 + 2 * n + i), alpha, g, 1 - alpha);
        um_view h = blend(r, in(r, 2 + 3 * n + i), beta, mul(r, g, g), 1 - beta);
        um_view root = addc(r, m1(r, UM_OP_SQRT, h), (double)attr_float(r, "epsilon", 1e-6f));
        um_view moved = mul(r, started ? mul(r, rate, warm) : rate, quo(r, v, root));
        out(r, i, sub(r, x, moved));
        out(r, n + i, v);
        out(r, 2 * n + i, h);
    }
}
