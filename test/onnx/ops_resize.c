/* test/onnx/ops_resize.c: Resize and Upsample: Umbel's resize where the rules agree, else axis by
 * axis a product with a matrix of weights, which is made by ops from the places' coordinates. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

/* What becomes of one axis. */
typedef struct resized {
    int64_t in, out;
    double scale, start, end; /* start, end: tf_crop_and_resize */
} resized;

typedef struct resize_rule {
    const char *mode, *coordinates, *nearest;
    double cubic_a;
    bool exclude_outside, antialias;
} resize_rule;

/* Where in the input each place of the output lies: [out], f32. */
static um_view coordinates(run *r, const resize_rule *rule, const resized *axis)
{
    um_view i = arange(r, UM_F32, axis->out);
    const char *mode = rule->coordinates;
    double whole = axis->scale * (double)axis->in, n = (double)axis->in;
    um_view half = addc(r, mulc(r, addc(r, i, 0.5), 1 / axis->scale), -0.5);
    if (strcmp(mode, "half_pixel") == 0) return half;
    if (strcmp(mode, "asymmetric") == 0) return mulc(r, i, 1 / axis->scale);
    if (strcmp(mode, "half_pixel_symmetric") == 0)
        return addc(r, half, n / 2 * (1 - (double)axis->out / whole));
    if (strcmp(mode, "pytorch_half_pixel") == 0) return axis->out > 1 ? half : mulc(r, i, 0);
    if (strcmp(mode, "align_corners") == 0)
        return mulc(r, i, whole > 1 ? (n - 1) / (whole - 1) : 0);
    if (strcmp(mode, "tf_crop_and_resize") != 0) run_refuse(r, "Resize: coordinates %s", mode);
    double span = (axis->end - axis->start) * (n - 1);
    if (axis->out == 1) return addc(r, i, 0.5 * (axis->start + axis->end) * (n - 1));
    return addc(r, mulc(r, i, span / (double)(axis->out - 1)), axis->start * (n - 1));
}

/* Keys' kernel at distances |d|: one polynomial up to 1, another up to 2. */
um_view cubic_weights(run *r, um_view d, double a)
{
    um_view zero = num(r, d.dtype, 0), one = num(r, d.dtype, 1), two = num(r, d.dtype, 2);
    /* ((a + 2) d - (a + 3)) d d + 1, and ((a d - 5 a) d + 8 a) d - 4 a */
    um_view near = addc(r, mulc(r, d, a + 2), -(a + 3));
    near = addc(r, mul(r, near, mul(r, d, d)), 1);
    um_view far = addc(r, mul(r, addc(r, mulc(r, d, a), -5 * a), d), 8 * a);
    far = addc(r, mul(r, far, d), -4 * a);
    um_view weights = where(r, m2(r, UM_OP_LT, d, two), far, zero);
    return where(r, m2(r, UM_OP_LE, d, one), near, weights);
}

/* [out, in]: how much of each element of the input is in each of the output's. Neighbours beyond
 * the edge are the edge, or do not count. */
static um_view weights_of(run *r, const resize_rule *rule, const resized *axis)
{
    bool cubic = strcmp(rule->mode, "cubic") == 0;
    double stretch = rule->antialias ? fmin(axis->scale, 1) : 1;
    int64_t reach = (int64_t)ceil(2 / stretch) + 1;
    um_view at = unsqueeze(r, coordinates(r, rule, axis), 1);
    um_view place = addc(r, arange(r, UM_F32, axis->in + 2 * reach), (double)-reach);
    um_view d = mulc(r, m1(r, UM_OP_ABS, sub(r, at, place)), stretch);
    um_view w =
        cubic ? cubic_weights(r, d, rule->cubic_a) : m1(r, UM_OP_RELU, addc(r, mulc(r, d, -1), 1));
    um_view zero = num(r, UM_F32, 0), last = num(r, UM_F32, (double)(axis->in - 1));
    um_view inside = m3(r, UM_OP_CLAMP, place, zero, last);
    if (rule->exclude_outside) w = where(r, m2(r, UM_OP_EQ, inside, place), w, zero);
    if (rule->exclude_outside || rule->antialias)
        w = quo(r, w, reduce(r, UM_OP_SUM, w, 1u << 1, true));
    um_view element = arange(r, UM_F32, axis->in);
    um_view fold = cast(r, m2(r, UM_OP_EQ, unsqueeze(r, inside, 1), element), UM_F32);
    return matmul(r, w, fold);
}

static um_view nearest_places(run *r, const resize_rule *rule, const resized *axis)
{
    um_view at = coordinates(r, rule, axis);
    const char *how = rule->nearest;
    if (strcmp(how, "floor") == 0)
        at = m1(r, UM_OP_FLOOR, at);
    else if (strcmp(how, "ceil") == 0)
        at = m1(r, UM_OP_CEIL, at);
    else if (strcmp(how, "round_prefer_ceil") == 0)
        at = m1(r, UM_OP_FLOOR, addc(r, at, 0.5));
    else
        at = m1(r, UM_OP_CEIL, addc(r, at, -0.5));
    return cast(r,
                m3(r, UM_OP_CLAMP, at, num(r, UM_F32, 0), num(r, UM_F32, (double)(axis->in - 1))),
                UM_I64);
}

static um_view resize_axis(run *r, const resize_rule *rule, um_view x, int32_t at,
                           const resized *axis)
{
    if (strcmp(rule->mode, "nearest") == 0)
        return select_rows(r, x, at, nearest_places(r, rule, axis));
    um_view w = swap_axes(r, weights_of(r, rule, axis), 0, 1);
    if (x.rank == 1) return matmul(r, x, w);
    return swap_axes(r, matmul(r, swap_axes(r, x, at, -1), w), at, -1);
}

/* Umbel's own op, where its rule is the node's. */
static bool resize_by_op(run *r, const resize_rule *rule, um_view x, const resized *axes)
{
    bool nearest = strcmp(rule->mode, "nearest") == 0, cubic = strcmp(rule->mode, "cubic") == 0;
    bool corners = strcmp(rule->coordinates, "align_corners") == 0;
    bool half = strcmp(rule->coordinates, "half_pixel") == 0;
    bool asymmetric = strcmp(rule->coordinates, "asymmetric") == 0;
    if (x.rank < 3 || x.rank > 5 || rule->antialias || rule->exclude_outside) return false;
    if (um_dtype_get_kind(x.dtype) != UM_KIND_FLOAT || (cubic && rule->cubic_a != -0.75))
        return false;
    if (nearest ? !asymmetric || strcmp(rule->nearest, "floor") != 0 : !corners && !half)
        return false;
    int64_t shape[UM_MAX_RANK];
    for (int32_t d = 0; d < x.rank; d++) {
        shape[d] = axes[d].out;
        bool exact = axes[d].scale * (double)axes[d].in == (double)axes[d].out;
        if (!exact || (d < 2 && axes[d].in != axes[d].out)) return false;
    }
    um_op op = {.id = UM_OP_RESIZE, .in_count = 1, .out_count = 1};
    op.attrs.resize.mode = nearest ? UM_RESIZE_NEAREST : cubic ? UM_RESIZE_CUBIC : UM_RESIZE_LINEAR;
    op.attrs.resize.align_corners = corners;
    op.in[0] = x;
    if (!run_ok(r, um_view_make(0, x.dtype, x.rank, shape, &op.out[0]))) return true;
    out(r, 0, run_op(r, &op));
    return true;
}

/* Sizes, of a policy that keeps the ratio of the sides: one scale for all. */
static void keep_ratio(const run *r, const ints *at, ints *sizes, const um_view *x, double *scale)
{
    const char *policy = attr_str(r, "keep_aspect_ratio_policy", "stretch");
    bool smaller = strcmp(policy, "not_smaller") == 0;
    if (!smaller && strcmp(policy, "not_larger") != 0) return;
    double one = smaller ? 0 : (double)INFINITY;
    for (int64_t i = 0; i < sizes->count; i++) {
        double s = (double)sizes->at[i] / (double)UM_MAX(size(x, at->at[i]), 1);
        one = smaller ? fmax(one, s) : fmin(one, s);
    }
    for (int64_t i = 0; i < sizes->count; i++) {
        sizes->at[i] = (int64_t)floor(one * (double)size(x, at->at[i]) + 0.5);
        scale[at->at[i]] = one;
    }
}

static void read_axes(run *r, um_view x, resized *axes)
{
    ints at = attr_ints(r, "axes"), sizes = {0};
    if (at.count == 0)
        for (at.count = 0; at.count < x.rank; at.count++) at.at[at.count] = at.count;
    for (int64_t i = 0; i < at.count; i++) at.at[i] = axis_of(r, at.at[i], x.rank);
    bool upsample = r->opset < 11;
    int32_t scales_at = upsample ? 1 : 2;
    double scale[UM_MAX_RANK] = {0}, values[2 * UM_MAX_RANK];
    for (int32_t d = 0; d < x.rank; d++) axes[d] = (resized){x.shape[d], x.shape[d], 1, 0, 1};
    if (has_in(r, 3) && !upsample) {
        sizes = run_ints(r, in(r, 3));
        if (sizes.count != at.count) run_refuse(r, "Resize: %lld sizes", (long long)sizes.count);
        if (!r->failed) keep_ratio(r, &at, &sizes, &x, scale);
        for (int64_t i = 0; i < sizes.count && !r->failed; i++) {
            resized *axis = &axes[at.at[i]];
            axis->out = sizes.at[i];
            axis->scale = scale[at.at[i]] > 0 ? scale[at.at[i]]
                                              : (double)axis->out / (double)UM_MAX(axis->in, 1);
        }
    } else {
        um_view scales = cast(r, in(r, scales_at), UM_F64);
        if (um_view_count(&scales) != at.count) run_refuse(r, "Resize: the scales");
        if (!r->failed) read_packed(r, scales, values, (size_t)at.count * 8);
        for (int64_t i = 0; i < at.count && !r->failed; i++) {
            axes[at.at[i]].scale = values[i];
            axes[at.at[i]].out = (int64_t)floor((double)axes[at.at[i]].in * values[i]);
        }
    }
    if (!has_in(r, 1) || upsample) return;
    um_view roi = cast(r, in(r, 1), UM_F64);
    if (um_view_count(&roi) != 2 * at.count) return; /* only one mode looks at it */
    read_packed(r, roi, values, (size_t)at.count * 16);
    for (int64_t i = 0; i < at.count && !r->failed; i++) {
        axes[at.at[i]].start = values[i];
        axes[at.at[i]].end = values[at.count + i];
    }
}

/* What lies beyond the input in a cropping resize. */
static um_view extrapolate(run *r, const resize_rule *rule, um_view y, const resized *axes)
{
    um_view other = num(r, y.dtype, (double)attr_float(r, "extrapolation_value", 0));
    for (int32_t d = 0; d < y.rank && !r->failed; d++) {
        um_view at = coordinates(r, rule, &axes[d]);
        um_view last = num(r, UM_F32, (double)(axes[d].in - 1));
        um_view beyond = m2(r, UM_OP_LOGICAL_OR, m2(r, UM_OP_LT, at, num(r, UM_F32, 0)),
                            m2(r, UM_OP_GT, at, last));
        y = where(r, along(r, beyond, d, y.rank), other, y);
    }
    return y;
}

void on_resize(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    bool old = r->opset < 11;
    resize_rule rule = {
        .mode = attr_str(r, "mode", "nearest"),
        .coordinates =
            attr_str(r, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
        .nearest = attr_str(r, "nearest_mode", old ? "floor" : "round_prefer_floor"),
        .cubic_a = (double)attr_float(r, "cubic_coeff_a", -0.75f),
        .exclude_outside = attr_int(r, "exclude_outside", 0) != 0,
        .antialias = attr_int(r, "antialias", 0) != 0,
    };
    resized axes[UM_MAX_RANK];
    read_axes(r, x, axes);
    for (int32_t d = 0; d < x.rank && !r->failed; d++)
        if (axes[d].in < 1 || axes[d].out < 0 || !(axes[d].scale > 0))
            run_refuse(r, "%s: an axis of %lld to %lld", r->node->op, (long long)axes[d].in,
                       (long long)axes[d].out);
    if (r->failed || resize_by_op(r, &rule, x, axes)) return;
    bool crop = strcmp(rule.coordinates, "tf_crop_and_resize") == 0;
    for (int32_t d = 0; d < x.rank && !r->failed; d++)
        if (axes[d].in != axes[d].out || axes[d].scale != 1 || crop)
            x = resize_axis(r, &rule, x, d, &axes[d]);
    out(r, 0, crop ? extrapolate(r, &rule, x, axes) : x);
}
