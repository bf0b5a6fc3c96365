/* test/onnx/ops_norm.c: normalizations, losses, optimizers. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

static double epsilon(const run *r) { return (double)attr_float(r, "epsilon", 1e-5f); }

/* The views of a call whose x, scale and bias are inputs 0, 1 and 2; they live in `room`. */
typedef struct norm_room {
    um_view x, w, b, y, mean, inverse;
} norm_room;

static um_norm_views norm_views(run *r, norm_room *room, int32_t rank, const int64_t *shape)
{
    *room = (norm_room){.x = in(r, 0)};
    room->y = fresh(r, room->x.dtype, room->x.rank, room->x.shape);
    um_norm_views v = {.x = &room->x, .y = &room->y};
    if (has_in(r, 1)) room->w = expand(r, in(r, 1), rank, shape), v.w = &room->w;
    if (has_in(r, 2)) room->b = expand(r, in(r, 2), rank, shape), v.b = &room->b;
    return v;
}

/* Statistics are f32, of f64 f64. */
static void want_statistics(run *r, norm_room *room, um_norm_views *v, int32_t rank,
                            const int64_t *shape)
{
    um_dtype dtype = room->x.dtype == UM_F64 ? UM_F64 : UM_F32;
    room->mean = fresh(r, dtype, rank, shape);
    room->inverse = fresh(r, dtype, rank, shape);
    v->mean = &room->mean;
    v->inverse = &room->inverse;
}

void on_layer_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    um_norm_desc desc = {.eps = epsilon(r), .dims = x.rank - axis};
    norm_room room;
    um_norm_views v = norm_views(r, &room, x.rank - axis, x.shape + axis);
    want_statistics(r, &room, &v, axis, x.shape);
    if (r->failed || !run_ok(r, um_layer_norm_forward(r->stream, &desc, &v))) return;
    for (int32_t d = axis; d < x.rank; d++) {
        room.mean = unsqueeze(r, room.mean, room.mean.rank);
        room.inverse = unsqueeze(r, room.inverse, room.inverse.rank);
    }
    out(r, 0, room.y);
    out(r, 1, room.mean);
    out(r, 2, room.inverse);
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

/* Before opset 21 scale and bias are those of groups. */
void on_group_norm(run *r, um_op_id id)
{
    (void)id;
    int64_t groups = attr_int(r, "num_groups", 1), c = size(&r->in[0].view, 1);
    if (groups < 1 || groups > INT32_MAX || c % groups) run_refuse(r, "GroupNormalization: groups");
    if (r->failed) return;
    for (int32_t i = 1; r->opset < 21 && i < 3 && has_in(r, i); i++) {
        int64_t each[] = {groups, c / groups};
        um_view of_channels = expand(r, unsqueeze(r, in(r, i), 1), 2, each);
        r->in[i].view = reshape(r, of_channels, 1, &c);
    }
    um_norm_desc desc = {.eps = epsilon(r), .groups = (int32_t)groups};
    norm_room room;
    um_norm_views v = norm_views(r, &room, 1, &c);
    if (!r->failed) run_ok(r, um_group_norm_forward(r->stream, &desc, &v));
    out(r, 0, room.y);
}

void on_instance_norm(run *r, um_op_id id)
{
    (void)id;
    um_norm_desc desc = {.eps = epsilon(r)};
    norm_room room;
    um_norm_views v = norm_views(r, &room, 1, &r->in[0].view.shape[1]);
    if (!r->failed) run_ok(r, um_instance_norm_forward(r->stream, &desc, &v));
    out(r, 0, room.y);
}

/* Inputs x, scale, bias, mean, var. Training: of the batch, and the running ones come out. */
void on_batch_norm(run *r, um_op_id id)
{
    (void)id;
    um_norm_desc desc = {.eps = epsilon(r), .momentum = (double)attr_float(r, "momentum", 0.9f)};
    desc.training = attr_int(r, "training_mode", 0) != 0;
    um_view mean = in(r, 3), var = in(r, 4), new_mean, new_var;
    norm_room room;
    um_norm_views v = norm_views(r, &room, 1, &r->in[0].view.shape[1]);
    v.old_mean = &mean;
    v.old_var = &var;
    if (desc.training) {
        want_statistics(r, &room, &v, 1, mean.shape);
        new_mean = fresh(r, mean.dtype, 1, mean.shape);
        new_var = fresh(r, var.dtype, 1, var.shape);
        v.new_mean = &new_mean;
        v.new_var = &new_var;
        out(r, 1, new_mean);
        out(r, 2, new_var);
    }
    if (!r->failed) run_ok(r, um_batch_norm_forward(r->stream, &desc, &v));
    out(r, 0, room.y);
}

void on_mean_variance_norm(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints axes = attr_ints(r, "axes");
    uint32_t bits = axes.count ? axes_of(r, &axes, x.rank) : 1u | 1u << 2 | 1u << 3;
    um_view off = sub(r, x, reduce(r, UM_OP_MEAN, x, bits, true));
    um_view deviation = m1(r, UM_OP_SQRT, reduce(r, UM_OP_VAR, x, bits, true));
    out(r, 0, quo(r, off, addc(r, deviation, 1e-9)));
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
