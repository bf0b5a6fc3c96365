/* test/onnx/ops_sample.c: values between the elements of an image: GridSample, AffineGrid,
 * DeformConv, RoiAlign. Letters: N images, C channels, P points, A axes. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

enum { MAX_TAPS = 4 };

typedef struct sampler {
    const char *padding; /* "zeros", "border", "reflection" */
    int32_t taps;        /* 1 nearest, 2 linear, 4 cubic */
    bool corners;        /* the edges are the outer elements' centres, else their far sides */
    um_op_id join;       /* of the taps' shares: UM_OP_ADD, or UM_OP_MAX for RoiAlign's odd mode */
} sampler;

/* To and fro between the edges. */
static um_view reflect(run *r, um_view x, double low, double high)
{
    double range = high - low;
    if (range <= 0) return mulc(r, x, 0);
    um_view t = m1(r, UM_OP_ABS, addc(r, x, -low));
    t = m2(r, UM_OP_REMAINDER, t, num(r, t.dtype, 2 * range));
    return addc(r, mini(r, t, addc(r, mulc(r, t, -1), 2 * range)), low);
}

static um_view into_image(run *r, const sampler *s, um_view at, int64_t n)
{
    double last = (double)(n - 1), far = s->corners ? 0 : 0.5;
    if (strcmp(s->padding, "reflection") == 0) return reflect(r, at, -far, last + far);
    if (strcmp(s->padding, "border") != 0) return at;
    return m3(r, UM_OP_CLAMP, at, num(r, at.dtype, 0), num(r, at.dtype, last));
}

/* Along one axis: for each tap of each point the element's index and its weight. */
static void axis_taps(run *r, const sampler *s, um_view at, int64_t n, um_view *index,
                      um_view *weight)
{
    if (s->taps == 1) at = m1(r, UM_OP_ROUND, at);
    at = into_image(r, s, at, n);
    um_view first = m1(r, s->taps == 1 ? UM_OP_ROUND : UM_OP_FLOOR, at);
    um_view zero = num(r, at.dtype, 0), last = num(r, at.dtype, (double)(n - 1));
    for (int32_t tap = 0; tap < s->taps; tap++) {
        um_view place = addc(r, first, tap - (s->taps == 4));
        um_view d = m1(r, UM_OP_ABS, sub(r, at, place));
        um_view w = s->taps == 4 ? cubic_weights(r, d, -0.75) : addc(r, mulc(r, d, -1), 1);
        um_view inside = m3(r, UM_OP_CLAMP, place, zero, last);
        if (strcmp(s->padding, "zeros") == 0)
            w = where(r, m2(r, UM_OP_EQ, inside, place), w, zero);
        else if (strcmp(s->padding, "reflection") == 0)
            inside = m3(r, UM_OP_CLAMP, m1(r, UM_OP_ROUND, into_image(r, s, place, n)), zero, last);
        index[tap] = cast(r, inside, UM_I64);
        weight[tap] = w;
    }
}

/* x [N, C, ...] at coordinates [N, P], one view an axis: [N, C, P]. */
static um_view sample(run *r, const sampler *s, um_view x, const um_view *at)
{
    int32_t axes = x.rank - 2, combinations = 1;
    um_view index[3][MAX_TAPS], weight[3][MAX_TAPS], all = num(r, x.dtype, 0);
    for (int32_t d = 0; d < axes; d++) {
        axis_taps(r, s, at[d], size(&x, d + 2), index[d], weight[d]);
        combinations *= s->taps;
    }
    int64_t elements = 1, points = size(&at[0], 1);
    for (int32_t d = 0; d < axes; d++) elements *= size(&x, d + 2);
    int64_t shape[] = {size(&x, 0), size(&x, 1), points};
    um_view flat = reshape(r, x, 3, (const int64_t[]){shape[0], shape[1], elements});
    for (int32_t c = 0; c < combinations && !r->failed; c++) {
        um_view place = put_i64(r, 0), w = num(r, x.dtype, 1);
        for (int32_t d = 0, rest = c; d < axes; d++, rest /= s->taps) {
            place = add(r, mul(r, place, put_i64(r, size(&x, d + 2))), index[d][rest % s->taps]);
            w = mul(r, w, weight[d][rest % s->taps]);
        }
        place = expand(r, unsqueeze(r, place, 1), 3, shape);
        um_view share = mul(r, gather_along(r, flat, 2, place), unsqueeze(r, w, 1));
        all = c == 0 ? share : m2(r, s->join, all, share);
    }
    return all;
}

void on_grid_sample(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), grid = in(r, 1), at[3];
    const char *mode = attr_str(r, "mode", "linear");
    sampler s = {.padding = attr_str(r, "padding_mode", "zeros"), .taps = 2, .join = UM_OP_ADD};
    s.corners = attr_int(r, "align_corners", 0) != 0;
    if (strcmp(mode, "nearest") == 0) s.taps = 1;
    if (strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0) s.taps = 4;
    int32_t axes = x.rank - 2;
    if (axes < 1 || axes > 3 || size(&grid, -1) != axes || grid.rank != x.rank)
        run_refuse(r, "GridSample: %d axes", (int)axes);
    if (r->failed) return;
    int64_t points = 1, shape[UM_MAX_RANK] = {size(&x, 0), size(&x, 1)};
    for (int32_t d = 1; d <= axes; d++) points *= shape[d + 1] = size(&grid, d);
    for (int32_t d = 0; d < axes; d++) {
        /* The grid has the last axis first; -1 and 1 are the edges. */
        um_view g = squeeze(r, slice(r, grid, -1, axes - 1 - d, 1, 1), grid.rank - 1);
        g = reshape(r, g, 2, (const int64_t[]){shape[0], points});
        double n = (double)size(&x, d + 2), span = s.corners ? n - 1 : n;
        at[d] = addc(r, mulc(r, addc(r, g, 1), span / 2), s.corners ? 0 : -0.5);
    }
    out(r, 0, reshape(r, sample(r, &s, x, at), x.rank, shape));
}

/* theta [N, A, A + 1] on the places of an image of that size, x first. */
void on_affine_grid(run *r, um_op_id id)
{
    (void)id;
    um_view theta = in(r, 0), parts[4];
    ints to = run_ints(r, in(r, 1));
    int32_t axes = (int32_t)to.count - 2;
    if (axes < 1 || axes > 3) run_refuse(r, "AffineGrid: %d axes", (int)axes);
    if (r->failed) return;
    int64_t shape[4] = {0};
    for (int32_t d = 0; d < axes; d++) shape[d] = to.at[d + 2];
    shape[axes] = 1;
    for (int32_t d = 0; d < axes; d++) {
        um_view i = arange(r, theta.dtype, shape[d]);
        double n = (double)shape[d];
        bool corners = attr_int(r, "align_corners", 0) != 0;
        i = corners ? addc(r, mulc(r, i, n > 1 ? 2 / (n - 1) : 0), -1)
                    : addc(r, mulc(r, i, 2 / n), 1 / n - 1);
        parts[axes - 1 - d] = expand(r, along(r, i, d, axes + 1), axes + 1, shape);
    }
    parts[axes] = full(r, theta.dtype, axes + 1, shape, 1);
    um_view places = concat(r, axes, axes + 1, parts);
    int64_t points = um_view_count(&places) / (axes + 1);
    places = reshape(r, places, 2, (const int64_t[]){points, axes + 1});
    int64_t full_shape[5] = {size(&theta, 0)};
    memcpy(full_shape + 1, shape, sizeof shape);
    full_shape[axes + 1] = axes;
    um_view y = matmul(r, places, swap_axes(r, theta, 1, 2));
    out(r, 0, reshape(r, y, axes + 2, full_shape));
}

/* Coordinates of one tap of the kernel along one axis, [N, P]: the regular place and the offset. */
static um_view deformed(run *r, int64_t tap, int32_t d, const int64_t *places, um_view offset)
{
    ints strides = attr_ints(r, "strides"), dilations = attr_ints(r, "dilations");
    ints pads = attr_ints(r, "pads");
    double stride = strides.count ? (double)strides.at[d] : 1;
    double dilation = dilations.count ? (double)dilations.at[d] : 1;
    um_view i = mulc(r, arange(r, UM_F32, places[d]), stride);
    i = addc(r, i, (double)tap * dilation - (double)pads.at[d]);
    um_view at = add(r, d == 0 ? unsqueeze(r, i, 1) : i, offset);
    return reshape(r, at, 2, (const int64_t[]){size(&offset, 0), places[0] * places[1]});
}

/* Two axes, one group. Every tap of the kernel looks at the image a little aside. */
void on_deform_conv(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), w = in(r, 1), offset = in(r, 2), sum = num(r, x.dtype, 0);
    int64_t groups = attr_int(r, "offset_group", 1), c = size(&x, 1), kw = size(&w, 3);
    if (x.rank != 4 || attr_int(r, "group", 1) != 1 || groups < 1 || c % groups)
        run_refuse(r, "DeformConv: the groups");
    if (r->failed) return;
    const sampler s = {.padding = "zeros", .taps = 2, .join = UM_OP_ADD};
    int64_t taps = size(&w, 2) * kw, places[] = {size(&offset, 2), size(&offset, 3)};
    for (int64_t t = 0; t < taps && !r->failed; t++) {
        um_view parts[8], at[2];
        if (groups > 8) run_refuse(r, "DeformConv: %lld groups", (long long)groups);
        for (int64_t g = 0; g < groups && !r->failed; g++) {
            for (int32_t d = 0; d < 2; d++) {
                int64_t channel = (g * taps + t) * 2 + d;
                um_view o = squeeze(r, slice(r, offset, 1, channel, 1, 1), 1);
                at[d] = deformed(r, d == 0 ? t / kw : t % kw, d, places, o);
            }
            parts[g] = sample(r, &s, slice(r, x, 1, g * (c / groups), c / groups, 1), at);
        }
        if (r->failed) return;
        um_view column = concat(r, 1, (int32_t)groups, parts); /* [N, C, P] */
        if (has_in(r, 4)) {
            um_view mask = slice(r, in(r, 4), 1, t, 1, 1);
            if (groups > 1) run_refuse(r, "DeformConv: masks of groups");
            column =
                mul(r, column,
                    reshape(r, mask, 3, (const int64_t[]){size(&x, 0), 1, places[0] * places[1]}));
        }
        um_view tap = slice(r, slice(r, w, 2, t / kw, 1, 1), 3, t % kw, 1, 1);
        tap = reshape(r, tap, 2, (const int64_t[]){size(&w, 0), c});
        sum = add(r, sum, matmul(r, tap, column));
    }
    if (has_in(r, 3)) sum = add(r, sum, unsqueeze(r, in(r, 3), 1));
    out(r, 0,
        reshape(r, sum, 4, (const int64_t[]){size(&x, 0), size(&w, 0), places[0], places[1]}));
}

/* ---- RoiAlign: regions R of images, cut into bins of which each looks at `ratio` places an axis -
 */

/* Places along one axis: [R, bins * ratio]. start and length are [R, 1]. */
static um_view roi_places(run *r, um_view start, um_view length, int64_t bins, int64_t ratio)
{
    um_view i = arange(r, start.dtype, bins * ratio);
    i = mulc(r, addc(r, i, 0.5), 1 / (double)UM_MAX(bins * ratio, 1));
    return add(r, start, mul(r, length, i));
}

static um_view roi_column(run *r, um_view rois, int64_t i, double scale, double offset)
{
    return addc(r, mulc(r, slice(r, rois, 1, i, 1, 1), scale), -offset);
}

/* 1 up to one place beyond the edge, else 0. */
static um_view near_image(run *r, um_view at, int64_t n)
{
    um_view inside = m2(r, UM_OP_LOGICAL_AND, m2(r, UM_OP_GE, at, num(r, at.dtype, -1)),
                        m2(r, UM_OP_LE, at, num(r, at.dtype, (double)n)));
    return cast(r, inside, at.dtype);
}

void on_roi_align(run *r, um_op_id id)
{
    (void)id;
    bool half = attr_is(r, "coordinate_transformation_mode", "half_pixel", "half_pixel");
    bool largest = attr_is(r, "mode", "avg", "max");
    int64_t ratio = attr_int(r, "sampling_ratio", 0), count = size(&r->in[1].view, 0);
    int64_t bins[2] = {attr_int(r, "output_height", 1), attr_int(r, "output_width", 1)};
    um_view x = select_rows(r, in(r, 0), 0, in(r, 2)), rois = in(r, 1), at[2], inside[2];
    if (x.rank != 4 || rois.rank != 2 || ratio < 1 || bins[0] < 1 || bins[1] < 1)
        run_refuse(r, "RoiAlign: a ratio by the region's size");
    int64_t points[3] = {count, bins[0] * ratio, bins[1] * ratio};
    double scale = (double)attr_float(r, "spatial_scale", 1);
    for (int32_t d = 0; d < 2 && !r->failed; d++) {
        um_view start = roi_column(r, rois, 1 - d, scale, half ? 0.5 : 0);
        um_view length = sub(r, roi_column(r, rois, 3 - d, scale, half ? 0.5 : 0), start);
        if (!half) length = maxi(r, length, num(r, length.dtype, 1));
        at[d] = unsqueeze(r, roi_places(r, start, length, bins[d], ratio), d == 0 ? 2 : 1);
        at[d] = expand(r, at[d], 3, points);
        at[d] = reshape(r, at[d], 2, (const int64_t[]){count, points[1] * points[2]});
        inside[d] = near_image(r, at[d], size(&x, d + 2));
    }
    if (r->failed) return;
    const sampler s = {.padding = "border", .taps = 2, .join = largest ? UM_OP_MAX : UM_OP_ADD};
    um_view y = sample(r, &s, x, at);
    y = mul(r, y, unsqueeze(r, mul(r, inside[0], inside[1]), 1));
    int64_t shape[] = {count, size(&x, 1), bins[0], ratio, bins[1], ratio};
    y = reshape(r, y, 6, shape);
    out(r, 0, reduce(r, largest ? UM_OP_REDUCE_MAX : UM_OP_MEAN, y, 1u << 3 | 1u << 5, false));
}
