/* test/onnx/ops_move.c: ops that make, move and reshape, and those that ask for shapes. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

void on_identity(run *r, um_op_id id)
{
    (void)id;
    (void)in(r, 0);
    r->out[0] = r->in[0];
}

/* Of optional values: just those that are tensors, or nothing at all. */
void on_optional_has_element(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, num(r, UM_BOOL, has_in(r, 0)));
}

/* ---- shapes -------------------------------------------------------------------------------------
 */

/* Same elements, and the same type, under another shape. */
static void out_reshaped(run *r, int32_t rank, const int64_t *shape)
{
    r->out[0] = (value){reshape(r, in(r, 0), rank, shape), r->in[0].type};
}

void on_reshape(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints to = in_or_attr(r, 1, "shape");
    int64_t known = 1, unknown = -1, total = um_view_count(&x);
    if (to.count > UM_MAX_RANK) run_refuse(r, "Reshape: to a rank of %lld", (long long)to.count);
    for (int64_t i = 0; i < to.count && !r->failed; i++) {
        if (to.at[i] == 0 && !attr_int(r, "allowzero", 0)) to.at[i] = size(&x, i);
        if (to.at[i] == -1)
            unknown = i;
        else
            known *= to.at[i];
    }
    if (unknown >= 0) to.at[unknown] = known == 0 ? 0 : total / known;
    out_reshaped(r, (int32_t)to.count, to.at);
}

void on_flatten(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t axis = attr_int(r, "axis", 1);
    r->out[0] = (value){flatten(r, x, (int32_t)(axis < 0 ? axis + x.rank : axis)), r->in[0].type};
}

void on_squeeze(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints axes = in_or_attr(r, 1, "axes");
    uint32_t gone = axes_of(r, &axes, x.rank);
    for (int32_t d = x.rank; d-- > 0;)
        if (axes.count ? gone >> d & 1 : x.shape[d] == 1) x = squeeze(r, x, d);
    r->out[0] = (value){x, r->in[0].type};
}

void on_unsqueeze(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints axes = in_or_attr(r, 1, "axes");
    int32_t rank = x.rank + (int32_t)axes.count;
    if (rank > UM_MAX_RANK) run_refuse(r, "Unsqueeze: to a rank of %d", (int)rank);
    uint32_t added = axes_of(r, &axes, rank);
    for (int32_t d = 0; d < rank && !r->failed; d++)
        if (added >> d & 1) x = unsqueeze(r, x, d);
    r->out[0] = (value){x, r->in[0].type};
}

void on_transpose(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints perm = attr_ints(r, "perm");
    if (perm.count == 0)
        for (int32_t d = 0; d < x.rank; d++) perm.at[d] = x.rank - 1 - d;
    else if (perm.count != x.rank)
        run_refuse(r, "Transpose: perm of %lld axes", (long long)perm.count);
    r->out[0] = (value){transpose(r, x, perm.at), r->in[0].type};
}

void on_shape(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t start = attr_int(r, "start", 0), end = attr_int(r, "end", x.rank);
    start = UM_MIN(UM_MAX(start < 0 ? start + x.rank : start, 0), x.rank);
    end = UM_MIN(UM_MAX(end < 0 ? end + x.rank : end, 0), x.rank);
    out(r, 0, put_ints(r, UM_MAX(end - start, 0), x.shape + start));
}

void on_size(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    out(r, 0, put_i64(r, um_view_count(&x)));
}

void on_expand(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints to = run_ints(r, in(r, 1));
    int32_t rank = (int32_t)UM_MAX(to.count, x.rank);
    if (to.count > UM_MAX_RANK) run_refuse(r, "Expand: to a rank of %lld", (long long)to.count);
    if (r->failed) return;
    int64_t shape[UM_MAX_RANK];
    for (int32_t d = 0; d < rank; d++) {
        int32_t at_x = d - (rank - x.rank), at_to = d - (rank - (int32_t)to.count);
        int64_t of_x = at_x >= 0 ? x.shape[at_x] : 1, of_to = at_to >= 0 ? to.at[at_to] : 1;
        shape[d] = of_to == 1 ? of_x : of_to;
    }
    out(r, 0, expand(r, x, rank, shape));
}

/* ---- pieces -------------------------------------------------------------------------------------
 */

void on_concat(run *r, um_op_id id)
{
    (void)id;
    um_view parts[RUN_MAX_IN];
    for (int32_t i = 0; i < r->in_count; i++) parts[i] = in(r, i);
    if (r->failed || r->in_count == 0) return;
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), parts[0].rank);
    out(r, 0, concat(r, axis, r->in_count, parts));
}

void on_slice(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints starts = in_or_attr(r, 1, "starts"), ends = in_or_attr(r, 2, "ends");
    ints axes = in_or_attr(r, 3, "axes"), steps = in_or_attr(r, 4, "steps");
    for (int64_t i = 0; i < starts.count && !r->failed; i++) {
        int32_t axis = axis_of(r, axes.count ? axes.at[i] : i, x.rank);
        int64_t n = x.shape[axis], step = steps.count ? steps.at[i] : 1;
        int64_t start = starts.at[i], end = ends.at[i];
        if (step == 0 || step == INT64_MIN) run_refuse(r, "Slice: a step of 0");
        if (r->failed) return;
        if (start < 0) start = UM_MAX(start + n, -1);
        if (end < 0) end = UM_MAX(end, -n - 1) + n;
        int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
        start = UM_MIN(UM_MAX(start, step > 0 ? 0 : UM_MIN(0, n - 1)), high);
        end = UM_MIN(UM_MAX(end, low), high);
        int64_t span = step > 0 ? end - start : start - end;
        int64_t stride = step > 0 ? step : -step;
        x = slice(r, x, axis, start, span <= 0 ? 0 : (span - 1) / stride + 1, step);
    }
    out(r, 0, x);
}

void on_split(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    ints parts = in_or_attr(r, 1, "split");
    if (r->failed) return;
    int64_t n = x.shape[axis], at = 0, each = (n + r->out_count - 1) / r->out_count;
    for (int32_t i = 0; i < r->out_count && !r->failed; i++) {
        int64_t count = i < parts.count ? parts.at[i] : UM_MIN(each, n - at);
        out(r, i, slice(r, x, axis, at, count, 1));
        at += count;
    }
}

void on_tile(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints repeats = run_ints(r, in(r, 1));
    if (repeats.count != x.rank) run_refuse(r, "Tile: repeats of other axes");
    for (int32_t d = 0; d < x.rank && !r->failed; d++) {
        um_view y = unsqueeze(r, x, d);
        int64_t shape[UM_MAX_RANK];
        memcpy(shape, y.shape, sizeof shape);
        shape[d] = repeats.at[d];
        y = expand(r, y, y.rank, shape);
        memcpy(shape, x.shape, sizeof shape);
        shape[d] *= repeats.at[d];
        x = reshape(r, y, x.rank, shape);
    }
    out(r, 0, x);
}

/* Where place i of a padded axis of n comes from. */
static int64_t pad_source(const char *mode, int64_t i, int64_t n)
{
    if (n < 2) return 0;
    if (strcmp(mode, "edge") == 0) return UM_MIN(UM_MAX(i, 0), n - 1);
    if (strcmp(mode, "wrap") == 0) return (i % n + n) % n;
    int64_t period = 2 * n - 2;
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

/* pads may be negative: they cut. */
um_view pad_axis(run *r, um_view x, int32_t axis, int64_t before, int64_t after, const char *mode,
                 um_view fill)
{
    int64_t n = x.shape[axis], count = n + before + after;
    if (r->failed || (before == 0 && after == 0)) return x;
    if (count < 0 || (n == 0 && strcmp(mode, "constant") != 0))
        run_refuse(r, "%s: a padded size below 0", r->node->op);
    if (strcmp(mode, "constant") != 0) {
        int64_t *from = onnx_alloc(r->arena, (size_t)UM_MAX(count, 1), sizeof *from);
        if (!from) run_refuse(r, "no memory");
        for (int64_t i = 0; i < count && from && !r->failed; i++)
            from[i] = pad_source(mode, i - before, n);
        return r->failed ? x : select_rows(r, x, axis, put_ints(r, count, from));
    }
    int64_t shape[UM_MAX_RANK], skip = UM_MAX(-before, 0);
    memcpy(shape, x.shape, sizeof shape);
    shape[axis] = UM_MAX(count, 0);
    um_view y = fresh(r, x.dtype, x.rank, shape);
    copy_to(r, fill, y);
    int64_t kept = UM_MIN(n - skip, count - UM_MAX(before, 0));
    if (kept > 0)
        copy_to(r, slice(r, x, axis, skip, kept, 1), slice(r, y, axis, UM_MAX(before, 0), kept, 1));
    return y;
}

void on_pad(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints pads = in_or_attr(r, 1, "pads"), axes = {0};
    if (has_in(r, 3)) axes = run_ints(r, in(r, 3));
    um_view fill = has_in(r, 2) ? reshape(r, in(r, 2), 0, NULL)
                                : num(r, x.dtype, (double)attr_float(r, "value", 0));
    int64_t count = axes.count ? axes.count : x.rank;
    if (pads.count != 2 * count) run_refuse(r, "Pad: %lld pads", (long long)pads.count);
    for (int64_t i = 0; i < count && !r->failed; i++) {
        int32_t axis = axis_of(r, axes.count ? axes.at[i] : i, x.rank);
        x = pad_axis(r, x, axis, pads.at[i], pads.at[count + i], attr_str(r, "mode", "constant"),
                     fill);
    }
    out(r, 0, x);
}

void on_center_crop_pad(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    ints to = run_ints(r, in(r, 1)), axes = attr_ints(r, "axes");
    for (int64_t i = 0; i < to.count && !r->failed; i++) {
        int32_t axis = axis_of(r, axes.count ? axes.at[i] : i, x.rank);
        int64_t more = to.at[i] - x.shape[axis];
        /* Odd amounts: one more is cut or added behind. */
        int64_t before = more >= 0 ? more / 2 : -(-more / 2);
        x = pad_axis(r, x, axis, before, more - before, "constant", num(r, x.dtype, 0));
    }
    out(r, 0, x);
}

/* [N, C, H, W] with H and W in or out of blocks; order of the channel's parts by mode. */
void on_depth_to_space(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t b = attr_int(r, "blocksize", 1), n = size(&x, 0), h = size(&x, 2), w = size(&x, 3);
    if (x.rank != 4 || b < 1) run_refuse(r, "DepthToSpace: rank %d", (int)x.rank);
    if (r->failed) return;
    int64_t c = size(&x, 1) / (b * b);
    bool dcr = attr_is(r, "mode", "DCR", "DCR");
    int64_t split_dcr[] = {n, b, b, c, h, w}, perm_dcr[] = {0, 3, 4, 1, 5, 2};
    int64_t split_crd[] = {n, c, b, b, h, w}, perm_crd[] = {0, 1, 4, 2, 5, 3};
    x = reshape(r, x, 6, dcr ? split_dcr : split_crd);
    x = transpose(r, x, dcr ? perm_dcr : perm_crd);
    out(r, 0, reshape(r, x, 4, (const int64_t[]){n, c, h * b, w * b}));
}

void on_space_to_depth(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int64_t b = attr_int(r, "blocksize", 1), n = size(&x, 0), c = size(&x, 1);
    if (x.rank != 4 || b < 1) run_refuse(r, "SpaceToDepth: rank %d", (int)x.rank);
    if (r->failed) return;
    int64_t h = size(&x, 2) / b, w = size(&x, 3) / b;
    x = reshape(r, x, 6, (const int64_t[]){n, c, h, b, w, b});
    x = transpose(r, x, (const int64_t[]){0, 3, 5, 1, 2, 4});
    out(r, 0, reshape(r, x, 4, (const int64_t[]){n, c * b * b, h, w}));
}

/* ---- making -------------------------------------------------------------------------------------
 */

void on_constant_of_shape(run *r, um_op_id id)
{
    (void)id;
    ints shape = run_ints(r, in(r, 0));
    const onnx_attr *attr = attr_find(r, "value");
    um_view one = attr && attr->t ? run_load(r, attr->t).view : num(r, UM_F32, 0);
    if (shape.count > UM_MAX_RANK) run_refuse(r, "ConstantOfShape: the rank");
    um_view y = fresh(r, one.dtype, (int32_t)shape.count, shape.at);
    copy_to(r, reshape(r, one, 0, NULL), y);
    out(r, 0, y);
}

/* The count is the shape's; the numbers are the op's. */
void on_range(run *r, um_op_id id)
{
    (void)id;
    um_view first = in(r, 0);
    double start = run_number(r, first), limit = run_number(r, in(r, 1));
    double delta = run_number(r, in(r, 2)), count = ceil((limit - start) / delta);
    if (!(count < 1e9)) run_refuse(r, "Range: %g numbers", count);
    um_op op = {.id = UM_OP_ARANGE, .out_count = 1};
    int64_t n = count > 0 && !r->failed ? (int64_t)count : 0;
    if (um_dtype_get_kind(first.dtype) == UM_KIND_FLOAT) {
        op.attrs.arange.start = start;
        op.attrs.arange.step = delta;
    } else {
        op.attrs.arange.i_start = (int64_t)start;
        op.attrs.arange.i_step = (int64_t)delta;
    }
    if (r->failed || !run_ok(r, um_view_make(0, first.dtype, 1, &n, &op.out[0]))) return;
    out(r, 0, run_op(r, &op));
}

/* Column minus row of the last two axes of a shape, i64. */
static um_view diagonals(run *r, const um_view *like)
{
    um_view rows = unsqueeze(r, arange(r, UM_I64, size(like, -2)), 1);
    return sub(r, arange(r, UM_I64, size(like, -1)), rows);
}

void on_eye_like(run *r, um_op_id id)
{
    um_view x = in(r, 0), k = put_i64(r, attr_int(r, "k", 0));
    int32_t type = (int32_t)attr_int(r, "dtype", r->in_count ? r->in[0].type : ONNX_FLOAT);
    out(r, 0, cast(r, m2(r, id, diagonals(r, &x), k), onnx_dtype(type)));
}

void on_trilu(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    um_view k = has_in(r, 1) ? reshape(r, in(r, 1), 0, NULL) : put_i64(r, 0);
    um_op_id kept = attr_int(r, "upper", 1) ? UM_OP_GE : UM_OP_LE;
    out(r, 0, where(r, m2(r, kept, diagonals(r, &x), k), x, num(r, x.dtype, 0)));
}
