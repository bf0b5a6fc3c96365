/* test/onnx/ops_conv.c: convolutions and pools. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

/* What convolutions and pools share: per spatial axis. */
typedef struct windows {
    int32_t axes;
    int64_t kernel[3], stride[3], dilation[3], before[3], after[3];
} windows;

/* auto_pad: the output has ceil(size / stride) places; an odd rest goes behind or before. */
static void auto_pads(const run *r, const um_view *x, windows *w)
{
    bool upper = attr_is(r, "auto_pad", "NOTSET", "SAME_UPPER");
    if (!upper && !attr_is(r, "auto_pad", "NOTSET", "SAME_LOWER")) return;
    for (int32_t d = 0; d < w->axes; d++) {
        int64_t places = (size(x, d + 2) + w->stride[d] - 1) / w->stride[d];
        int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        int64_t total = UM_MAX((places - 1) * w->stride[d] + reach - size(x, d + 2), 0);
        w->before[d] = upper ? total / 2 : total - total / 2;
        w->after[d] = total - w->before[d];
    }
}

static windows read_windows(run *r, const um_view *x, const int64_t *kernel)
{
    windows w = {.axes = x->rank - 2};
    ints shape = attr_ints(r, "kernel_shape"), pads = attr_ints(r, "pads");
    ints strides = attr_ints(r, "strides"), dilations = attr_ints(r, "dilations");
    if (w.axes < 1 || w.axes > 3) run_refuse(r, "%s: %d axes", r->node->op, (int)w.axes);
    if (r->failed) return w;
    for (int32_t d = 0; d < w.axes; d++) {
        w.kernel[d] = kernel ? kernel[d] : shape.at[d];
        w.stride[d] = strides.count ? strides.at[d] : 1;
        w.dilation[d] = dilations.count ? dilations.at[d] : 1;
        w.before[d] = pads.at[d];
        w.after[d] = pads.at[w.axes + d];
        if (w.kernel[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1)
            run_refuse(r, "%s: the kernel", r->node->op);
    }
    if (!r->failed) auto_pads(r, x, &w);
    return w;
}

static um_conv_desc conv_desc(const run *r, const windows *w)
{
    um_conv_desc desc = {.groups = (int32_t)attr_int(r, "group", 1)};
    for (int32_t d = 0; d < w->axes; d++) {
        desc.stride[d] = (int32_t)w->stride[d];
        desc.dilation[d] = (int32_t)w->dilation[d];
        desc.pad_before[d] = (int32_t)w->before[d];
        desc.pad_after[d] = (int32_t)w->after[d];
    }
    return desc;
}

static um_view conv(run *r, const um_conv_desc *desc, um_view x, um_view w, const um_view *bias)
{
    um_op op = {.id = UM_OP_CONV, .in_count = bias ? 3 : 2};
    op.attrs.conv = *desc;
    op.in[0] = x;
    op.in[1] = w;
    if (bias) op.in[2] = *bias;
    return run_op(r, &op);
}

static um_view conv_by_node(run *r, um_view x, um_view w, const um_view *bias)
{
    windows at = read_windows(r, &x, w.shape + 2);
    um_conv_desc desc = conv_desc(r, &at);
    return conv(r, &desc, x, w, bias);
}

void on_conv(run *r, um_op_id id)
{
    (void)id;
    um_view bias;
    if (has_in(r, 2)) bias = in(r, 2);
    out(r, 0, conv_by_node(r, in(r, 0), in(r, 1), has_in(r, 2) ? &bias : NULL));
}

/* The output's size may be given: what the padding leaves is split in halves. */
void on_conv_transpose(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), w = in(r, 1), bias;
    windows at = read_windows(r, &x, w.shape + 2);
    ints more = attr_ints(r, "output_padding"), shape = attr_ints(r, "output_shape");
    bool upper = attr_is(r, "auto_pad", "NOTSET", "SAME_UPPER");
    bool same = upper || attr_is(r, "auto_pad", "NOTSET", "SAME_LOWER");
    um_conv_desc desc = conv_desc(r, &at);
    desc.transposed = 1;
    for (int32_t d = 0; d < at.axes && !r->failed; d++) {
        desc.output_padding[d] = (int32_t)more.at[d];
        int64_t full_size = at.stride[d] * (size(&x, d + 2) - 1) + more.at[d] +
                            (at.kernel[d] - 1) * at.dilation[d] + 1;
        int64_t wanted =
            shape.count ? shape.at[shape.count - at.axes + d] : size(&x, d + 2) * at.stride[d];
        if (!shape.count && !same) continue;
        int64_t total = full_size - wanted;
        if (total < 0) {
            desc.output_padding[d] -= (int32_t)total;
            total = 0;
        }
        desc.pad_before[d] = (int32_t)(upper ? total / 2 : total - total / 2);
        desc.pad_after[d] = (int32_t)(total - desc.pad_before[d]);
    }
    if (has_in(r, 2)) bias = in(r, 2);
    out(r, 0, conv(r, &desc, x, w, has_in(r, 2) ? &bias : NULL));
}

/* Depthwise over the past's tail and the input; the new tail comes back. */
void on_causal_conv(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), w = in(r, 1), bias;
    int64_t tail = size(&w, 2) - 1;
    int64_t shape[] = {size(&x, 0), size(&x, 1), tail};
    um_view past = has_in(r, 3) ? in(r, 3) : full(r, x.dtype, 3, shape, 0);
    um_view parts[] = {past, x};
    um_view all = concat(r, 2, 2, parts);
    um_conv_desc desc = {.groups = (int32_t)size(&x, 1), .stride = {1}, .dilation = {1}};
    if (has_in(r, 2)) bias = in(r, 2);
    um_view y = conv(r, &desc, all, w, has_in(r, 2) ? &bias : NULL);
    if (!attr_is(r, "activation", "none", "none")) y = m1(r, UM_OP_SILU, y);
    out(r, 0, y);
    out(r, 1, slice(r, all, 2, size(&all, 2) - tail, tail, 1));
}

/* Columns [N, C * block, L] back into an image: a transposed convolution with one filter for each
 * place of the block. */
void on_col2im(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints image = run_ints(r, in(r, 1)), block = run_ints(r, in(r, 2));
    int32_t axes = (int32_t)image.count;
    if (axes < 1 || axes > 3 || block.count != axes) run_refuse(r, "Col2Im: %d axes", (int)axes);
    if (r->failed) return;
    int64_t taps = 1, shape[5] = {size(&x, 0), size(&x, 1)};
    for (int32_t d = 0; d < axes; d++) taps *= block.at[d];
    um_view like = {.dtype = x.dtype, .rank = axes + 2};
    for (int32_t d = 0; d < axes; d++) like.shape[d + 2] = image.at[d];
    windows at = read_windows(r, &like, block.at);
    for (int32_t d = 0; d < axes && !r->failed; d++) {
        int64_t reach = (at.kernel[d] - 1) * at.dilation[d] + 1;
        int64_t room = image.at[d] + at.before[d] + at.after[d] - reach;
        shape[d + 2] = room / at.stride[d] + 1;
    }
    if (taps < 1 || r->failed) return;
    um_conv_desc desc = conv_desc(r, &at);
    desc.groups = (int32_t)(shape[1] / taps);
    desc.transposed = 1;
    for (int32_t d = 0; d < axes; d++) {
        int64_t reach = (at.kernel[d] - 1) * at.dilation[d] + 1;
        int64_t room = image.at[d] + at.before[d] + at.after[d] - reach;
        desc.output_padding[d] = (int32_t)(room % at.stride[d]);
    }
    um_view tap = arange(r, UM_I64, taps);
    um_view eye = cast(r, m2(r, UM_OP_EQ, unsqueeze(r, tap, 1), tap), x.dtype);
    int64_t filter[5] = {shape[1], 1};
    memcpy(filter + 2, block.at, sizeof block.at[0] * (size_t)axes);
    eye = expand(r, eye, 3, (const int64_t[]){desc.groups, taps, taps});
    eye = reshape(r, eye, axes + 2, filter);
    out(r, 0, conv(r, &desc, reshape(r, x, axes + 2, shape), eye, NULL));
}

/* ---- integers -----------------------------------------------------------------------------------
 */

/* A zero point along an axis, in a dtype; 0 where there is none. */
static um_view zero_along(run *r, int32_t i, um_dtype dtype, int32_t axis, int32_t rank)
{
    if (!has_in(r, i)) return num(r, dtype, 0);
    um_view zero = cast(r, in(r, i), dtype);
    if (um_view_count(&zero) == 1) zero = reshape(r, zero, 0, NULL);
    return along(r, zero, axis, rank);
}

/* x - zero of a convolution, in f64: its 53 bits hold every sum. */
static um_view less_zero(run *r, int32_t x_at, int32_t zero_at)
{
    um_view x = cast(r, in(r, x_at), UM_F64);
    return sub(r, x, zero_along(r, zero_at, UM_F64, 0, x.rank));
}

/* (a - za) (b - zb) of bytes, in i32: their product, less what the zero points add to it. */
static um_view product_of_bytes(run *r, int32_t a_at, int32_t za_at, int32_t b_at, int32_t zb_at)
{
    um_view a = in(r, a_at), b = in(r, b_at), y = matmul_to(r, a, b, UM_I32);
    if (a.rank < 2 || b.rank < 2) run_refuse(r, "%s: of vectors", r->node->op);
    if (r->failed) return y;
    um_view za = zero_along(r, za_at, UM_I32, a.rank - 2, a.rank);
    um_view zb = zero_along(r, zb_at, UM_I32, b.rank - 1, b.rank);
    um_view rows = reduce(r, UM_OP_SUM, cast(r, a, UM_I32), 1u << (a.rank - 1), true);
    um_view columns = reduce(r, UM_OP_SUM, cast(r, b, UM_I32), 1u << (b.rank - 2), true);
    um_view both = mul(r, mulc(r, za, (double)size(&a, -1)), zb);
    return add(r, sub(r, sub(r, y, mul(r, za, columns)), mul(r, rows, zb)), both);
}

void on_conv_integer(run *r, um_op_id id)
{
    (void)id;
    um_view y = conv_by_node(r, less_zero(r, 0, 2), less_zero(r, 1, 3), NULL);
    out(r, 0, cast(r, y, UM_I32));
}

void on_matmul_integer(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, product_of_bytes(r, 0, 2, 1, 3));
}

static um_view f32_scalar(run *r, int32_t i)
{
    um_view x = cast(r, in(r, i), UM_F32);
    return um_view_count(&x) == 1 ? reshape(r, x, 0, NULL) : x;
}

/* Inputs a, scale, zero, b, scale, zero, y's scale and zero. */
static void out_requantized(run *r, um_view product, int32_t channels)
{
    um_view scale = mul(r, f32_scalar(r, 1), along(r, f32_scalar(r, 4), channels, product.rank));
    um_view real = mul(r, cast(r, product, UM_F32), scale);
    out(r, 0, quantize(r, real, f32_scalar(r, 6), reshape(r, in(r, 7), 0, NULL), 0, 0));
}

void on_qlinear_conv(run *r, um_op_id id)
{
    (void)id;
    um_view bias, x = less_zero(r, 0, 2), w = less_zero(r, 3, 5);
    if (has_in(r, 8)) bias = cast(r, in(r, 8), UM_F64);
    out_requantized(r, conv_by_node(r, x, w, has_in(r, 8) ? &bias : NULL), 1);
}

void on_qlinear_matmul(run *r, um_op_id id)
{
    (void)id;
    um_view product = product_of_bytes(r, 0, 2, 3, 5);
    out_requantized(r, product, product.rank - 1);
}

/* ---- pools --------------------------------------------------------------------------------------
 */

static um_pool_desc pool_desc(run *r, const um_view *x)
{
    windows w = read_windows(r, x, NULL);
    um_pool_desc desc = {.ceil_mode = (int32_t)attr_int(r, "ceil_mode", 0),
                         .count_include_pad = (int32_t)attr_int(r, "count_include_pad", 0)};
    for (int32_t d = 0; d < w.axes && !r->failed; d++) {
        desc.kernel[d] = (int32_t)w.kernel[d];
        desc.stride[d] = (int32_t)w.stride[d];
        desc.dilation[d] = (int32_t)w.dilation[d];
        desc.pad_before[d] = (int32_t)w.before[d];
        desc.pad_after[d] = (int32_t)w.after[d];
    }
    return desc;
}

void on_average_pool(run *r, um_op_id id)
{
    um_op op = {.id = id, .in_count = 1};
    op.in[0] = in(r, 0);
    op.attrs.pool = pool_desc(r, &op.in[0]);
    out(r, 0, run_op(r, &op));
}

/* Umbel's places are within a channel, row-major; ONNX counts through the whole tensor, by columns
 * on request. */
static um_view whole_places(run *r, um_view places, const um_view *x)
{
    int64_t channel = 1, columns = size(x, -1);
    for (int32_t d = 2; d < x->rank; d++) channel *= x->shape[d];
    if (attr_int(r, "storage_order", 0) && x->rank == 4) {
        um_view row = m2(r, UM_OP_DIV, places, put_i64(r, columns));
        um_view column = m2(r, UM_OP_REMAINDER, places, put_i64(r, columns));
        places = add(r, mul(r, column, put_i64(r, size(x, 2))), row);
    }
    um_view first = arange(r, UM_I64, size(x, 0) * size(x, 1));
    first = reshape(r, mul(r, first, put_i64(r, channel)), 2,
                    (const int64_t[]){size(x, 0), size(x, 1)});
    return add(r, places, along(r, first, 1, x->rank));
}

void on_max_pool(run *r, um_op_id id)
{
    um_op op = {.id = id, .in_count = 1, .out_count = wants_out(r, 1) ? 2 : 1};
    op.in[0] = in(r, 0);
    op.attrs.pool = pool_desc(r, &op.in[0]);
    out(r, 0, run_op(r, &op));
    if (wants_out(r, 1)) out(r, 1, whole_places(r, op.out[1], &op.in[0]));
}

/* The p-th root of the sum of |x|^p: of the mean, times the number of places. */
void on_lp_pool(run *r, um_op_id id)
{
    um_op op = {.id = id, .in_count = 1};
    um_view x = in(r, 0), p = num(r, x.dtype, (double)attr_int(r, "p", 2));
    op.in[0] = m2(r, UM_OP_POW, m1(r, UM_OP_ABS, x), p);
    op.attrs.pool = pool_desc(r, &x);
    op.attrs.pool.count_include_pad = 1;
    double places = 1;
    for (int32_t d = 0; d < x.rank - 2 && d < 3; d++) places *= op.attrs.pool.kernel[d];
    um_view sum = mulc(r, run_op(r, &op), places);
    out(r, 0, m2(r, UM_OP_POW, sum, m1(r, UM_OP_RECIPROCAL, p)));
}

void on_global_pool(run *r, um_op_id id)
{
    um_op op = {.id = id, .in_count = 1, .out_count = 1};
    um_view x = in(r, 0);
    int64_t shape[UM_MAX_RANK] = {size(&x, 0), size(&x, 1), 1, 1, 1, 1, 1, 1};
    op.in[0] = x;
    op.attrs.pool.adaptive = 1;
    if (r->failed || !run_ok(r, um_view_make(0, x.dtype, x.rank, shape, &op.out[0]))) return;
    out(r, 0, run_op(r, &op));
}

/* Values back to where they were the largest, in the smallest input that pools to x; a larger
 * output_shape adds zeros behind. */
void on_max_unpool(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), places = in(r, 1);
    windows w = read_windows(r, &x, NULL);
    ints to = {0};
    int64_t shape[5] = {size(&x, 0), size(&x, 1)}, total = shape[0] * shape[1];
    int64_t count = um_view_count(&x);
    if (has_in(r, 2)) to = run_ints(r, in(r, 2));
    for (int32_t d = 0; d < w.axes && !r->failed; d++) {
        shape[d + 2] = (size(&x, d + 2) - 1) * w.stride[d] + w.kernel[d] - w.before[d] - w.after[d];
        total *= shape[d + 2];
    }
    um_view y = scatter_along(r, full(r, x.dtype, 1, &total, 0), 0, UM_SCATTER_ASSIGN,
                              reshape(r, places, 1, &count), reshape(r, x, 1, &count));
    y = reshape(r, y, x.rank, shape);
    for (int32_t d = 0; d < to.count && d < x.rank && !r->failed; d++)
        y = pad_axis(r, y, d, 0, to.at[d] - shape[d], "constant", num(r, x.dtype, 0));
    out(r, 0, y);
}
