/* tensor/move.c: views (reshape, permute, slice, expand, flip) and the movements that copy (concat,
 * pad, tile, roll, update). */
#include "tensor/tensor.h"

static um_tensor *refuse_axis(const char *who, um_tensor *x, int32_t axis)
{
    (void)UM_FAIL(UM_INVALID_ARGUMENT, "%s: axis %d is outside rank %d", who, axis, x->rank);
    return um_node_fail(1, &x);
}

/* ---- reshape ------------------------------------------------------------------------------------
 */

/* Fills in a -1 and checks the counts. */
static um_status resolve_shape(const um_tensor *x, int32_t rank, const int64_t *wanted,
                               int64_t *shape)
{
    if (rank < 0 || rank > UM_MAX_RANK || (rank > 0 && !wanted))
        return UM_FAIL(UM_INVALID_ARGUMENT, "reshape: got rank %d, wanted 0 to %d and its sizes",
                       rank, UM_MAX_RANK);
    int64_t count = um_tensor_count(x), known = 1;
    int32_t open = -1;
    for (int32_t i = 0; i < rank; i++) {
        shape[i] = wanted[i];
        if (wanted[i] == -1 && open < 0)
            open = i;
        else if (wanted[i] < 0 || !um_mul_i64(known, wanted[i], &known))
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "reshape: got size %lld at axis %d, wanted 0 or more, at most one -1, "
                           "and %lld elements",
                           (long long)wanted[i], i, (long long)count);
    }
    if (open >= 0) shape[open] = known > 0 ? count / known : 0;
    if (open >= 0 && known > 0) known *= shape[open];
    if (known != count)
        return UM_FAIL(UM_INVALID_ARGUMENT, "reshape: got %lld elements, wanted %lld",
                       (long long)known, (long long)count);
    return UM_OK;
}

/* Strides that show x in the new shape, when there are any: each run of new axes must cover a run
 * of old ones that lie behind each other in memory. */
static bool restride(const um_tensor *x, int32_t rank, const int64_t *shape, int64_t *stride)
{
    int64_t old_shape[UM_MAX_RANK], old_stride[UM_MAX_RANK];
    int32_t old_rank = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (x->shape[i] == 1) continue;
        old_shape[old_rank] = x->shape[i];
        old_stride[old_rank++] = x->stride[i];
    }
    int32_t o = 0, n = 0;
    while (o < old_rank && n < rank) {
        int64_t old_size = old_shape[o], new_size = shape[n];
        int32_t o_end = o + 1, n_end = n + 1;
        while (old_size != new_size) {
            if (new_size < old_size) {
                if (n_end == rank) return false;
                new_size *= shape[n_end++];
            } else {
                if (o_end == old_rank) return false;
                old_size *= old_shape[o_end++];
            }
        }
        for (int32_t i = o; i < o_end - 1; i++)
            if (old_stride[i] != old_shape[i + 1] * old_stride[i + 1]) return false;
        int64_t step = old_stride[o_end - 1];
        for (int32_t i = n_end - 1; i >= n; i--) {
            stride[i] = step;
            step *= shape[i];
        }
        o = o_end;
        n = n_end;
    }
    for (; n < rank; n++) stride[n] = 1; /* what is left has size 1 */
    return o == old_rank;
}

um_tensor *um_reshape(um_tensor *x, int32_t rank, const int64_t *wanted)
{
    um_tensor *error = um_node_refuse("reshape", 1, &x);
    if (error) return error;
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK];
    if (resolve_shape(x, rank, wanted, shape) != UM_OK) return um_node_fail(1, &x);
    if (um_tensor_count(x) == 0) {
        for (int32_t i = 0; i < rank; i++) stride[i] = 1;
        return um_node_view(x, rank, shape, stride, x->offset);
    }
    if (!restride(x, rank, shape, stride)) {
        x = um_contiguous(x);
        if (x->kind == UM_NODE_ERROR) return x;
        (void)restride(x, rank, shape, stride); /* packed: always possible */
    }
    return um_node_view(x, rank, shape, stride, x->offset);
}

/* ---- other views --------------------------------------------------------------------------------
 */

um_tensor *um_permute(um_tensor *x, const int32_t *perm)
{
    um_tensor *error = um_node_refuse("permute", 1, &x);
    if (error) return error;
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK];
    uint32_t seen = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t axis;
        bool good = perm && um_axis_resolve(perm[i], x->rank, &axis);
        if (!good || (seen & (1u << axis))) {
            if (perm)
                (void)UM_FAIL(UM_INVALID_ARGUMENT,
                              "permute: got axis %d at %d, wanted each of %d axes once", perm[i], i,
                              x->rank);
            else
                (void)UM_FAIL(UM_INVALID_ARGUMENT, "permute: perm is NULL, wanted %d axes",
                              x->rank);
            return um_node_fail(1, &x);
        }
        seen |= 1u << axis;
        shape[i] = x->shape[axis];
        stride[i] = x->stride[axis];
    }
    return um_node_view(x, x->rank, shape, stride, x->offset);
}

um_tensor *um_transpose(um_tensor *x, int32_t axis_a, int32_t axis_b)
{
    um_tensor *error = um_node_refuse("transpose", 1, &x);
    if (error) return error;
    int32_t a, b, perm[UM_MAX_RANK];
    if (!um_axis_resolve(axis_a, x->rank, &a)) return refuse_axis("transpose", x, axis_a);
    if (!um_axis_resolve(axis_b, x->rank, &b)) return refuse_axis("transpose", x, axis_b);
    for (int32_t i = 0; i < x->rank; i++) perm[i] = i;
    perm[a] = b;
    perm[b] = a;
    return um_permute(x, perm);
}

um_tensor *um_slice(um_tensor *x, int32_t axis, int64_t start, int64_t stop, int64_t step)
{
    um_tensor *error = um_node_refuse("slice", 1, &x);
    if (error) return error;
    int32_t a;
    if (!um_axis_resolve(axis, x->rank, &a)) return refuse_axis("slice", x, axis);
    if (step == 0) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "slice: step is 0, wanted any other");
        return um_node_fail(1, &x);
    }
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK], offset = x->offset;
    memcpy(shape, x->shape, sizeof shape);
    memcpy(stride, x->stride, sizeof stride);
    um_slice_range(x->shape[a], &start, &shape[a], stop, step);
    if (shape[a] > 0) offset += start * x->stride[a];
    /* of one element or none the step says nothing, and may be huge */
    stride[a] = shape[a] > 1 ? x->stride[a] * step : 1;
    return um_node_view(x, x->rank, shape, stride, offset);
}

um_tensor *um_expand(um_tensor *x, int32_t rank, const int64_t *shape)
{
    um_tensor *error = um_node_refuse("expand", 1, &x);
    if (error) return error;
    um_view checked;
    if (rank > 0 && !shape) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "expand: shape is NULL, wanted %d sizes", rank);
        return um_node_fail(1, &x);
    }
    if (um_view_make(0, x->dtype, rank, shape, &checked) != UM_OK) return um_node_fail(1, &x);
    int64_t stride[UM_MAX_RANK];
    int32_t lead = rank - x->rank;
    bool good = lead >= 0;
    for (int32_t i = 0; good && i < rank; i++) {
        int64_t own = i < lead ? 1 : x->shape[i - lead];
        good = own == shape[i] || own == 1;
        stride[i] = i < lead || own == 1 ? 0 : x->stride[i - lead];
    }
    if (!good) {
        char from[96], to[96];
        um_view view;
        um_node_shape_view(x, &view);
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "expand: %s does not broadcast to %s",
                      um_view_text(&view, from, sizeof from),
                      um_view_text(&checked, to, sizeof to));
        return um_node_fail(1, &x);
    }
    if (rank == x->rank && memcmp(shape, x->shape, (size_t)rank * sizeof *shape) == 0) return x;
    return um_node_view(x, rank, shape, stride, x->offset);
}

um_tensor *um_flip(um_tensor *x, uint32_t axes)
{
    um_tensor *error = um_node_refuse("flip", 1, &x);
    if (error) return error;
    uint32_t resolved;
    if (!um_axes_resolve(axes, x->rank, &resolved)) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "flip: axes %#x do not fit rank %d", axes, x->rank);
        return um_node_fail(1, &x);
    }
    int64_t stride[UM_MAX_RANK], offset = x->offset;
    for (int32_t i = 0; i < x->rank; i++) {
        stride[i] = x->stride[i];
        bool flipped = axes == UM_ALL_AXES || (resolved & UM_AXIS(i));
        if (!flipped || x->shape[i] == 0) continue;
        offset += (x->shape[i] - 1) * stride[i];
        stride[i] = -stride[i];
    }
    return um_node_view(x, x->rank, x->shape, stride, offset);
}

um_tensor *um_squeeze(um_tensor *x, int32_t axis)
{
    um_tensor *error = um_node_refuse("squeeze", 1, &x);
    if (error) return error;
    int32_t a;
    if (!um_axis_resolve(axis, x->rank, &a)) return refuse_axis("squeeze", x, axis);
    if (x->shape[a] != 1) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "squeeze: axis %d has size %lld, wanted 1", axis,
                      (long long)x->shape[a]);
        return um_node_fail(1, &x);
    }
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (i == a) continue;
        shape[rank] = x->shape[i];
        stride[rank++] = x->stride[i];
    }
    return um_node_view(x, rank, shape, stride, x->offset);
}

um_tensor *um_unsqueeze(um_tensor *x, int32_t axis)
{
    um_tensor *error = um_node_refuse("unsqueeze", 1, &x);
    if (error) return error;
    int32_t a;
    if (x->rank == UM_MAX_RANK || !um_axis_resolve(axis, x->rank + 1, &a)) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT,
                      "unsqueeze: got axis %d for rank %d, wanted -%d to %d, "
                      "and a rank of at most %d",
                      axis, x->rank, x->rank + 1, x->rank, UM_MAX_RANK);
        return um_node_fail(1, &x);
    }
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK];
    for (int32_t i = 0; i <= x->rank; i++) {
        shape[i] = i == a ? 1 : x->shape[i - (i > a)];
        stride[i] = i == a ? 1 : x->stride[i - (i > a)];
    }
    return um_node_view(x, x->rank + 1, shape, stride, x->offset);
}

um_tensor *um_contiguous(um_tensor *x)
{
    um_tensor *error = um_node_refuse("contiguous", 1, &x);
    if (error) return error;
    if (um_node_is_packed(x)) return x;
    return um_node_op(UM_OP_COPY, NULL, x->dtype, 1, &x);
}

/* ---- movements that copy ------------------------------------------------------------------------
 */

static um_tensor *assemble(um_dtype dtype, int32_t rank, const int64_t *shape, int32_t in_count,
                           um_tensor *const *in, const um_place *place)
{
    um_view checked;
    if (um_view_make(0, dtype, rank, shape, &checked) != UM_OK) return um_node_fail(in_count, in);
    um_tensor *y = um_node_make(in[0]->context, UM_NODE_ASSEMBLE, dtype, rank, shape, in_count, in);
    if (y->kind != UM_NODE_ERROR) y->u.place = *place;
    return y;
}

static um_status concat_shape(int32_t count, um_tensor *const *x, int32_t axis, int64_t *shape)
{
    memcpy(shape, x[0]->shape, sizeof x[0]->shape);
    for (int32_t i = 1; i < count; i++) {
        bool good = x[i]->dtype == x[0]->dtype && x[i]->rank == x[0]->rank;
        for (int32_t d = 0; good && d < x[0]->rank; d++)
            good = d == axis || x[i]->shape[d] == x[0]->shape[d];
        if (good && um_add_i64(shape[axis], x[i]->shape[axis], &shape[axis])) continue;
        char first[96], this[96];
        um_view view;
        um_node_shape_view(x[0], &view);
        um_view_text(&view, first, sizeof first);
        um_node_shape_view(x[i], &view);
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "concat: argument %d is %s, wanted dtype and sizes of argument 0, %s, but "
                       "for axis %d",
                       i, um_view_text(&view, this, sizeof this), first, axis);
    }
    return UM_OK;
}

um_tensor *um_concat(int32_t count, um_tensor *const *x, int32_t axis)
{
    if (count < 1 || !x) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "concat: got %d tensors%s, wanted at least 1", count,
                      x ? "" : " at NULL");
        return um_node_fail(0, NULL);
    }
    um_tensor *error = um_node_refuse("concat", count, x);
    if (error) return error;
    um_place place = {.mode = UM_ASSEMBLE_CONCAT};
    if (!um_axis_resolve(axis, x[0]->rank, &place.axis)) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "concat: axis %d is outside rank %d", axis, x[0]->rank);
        return um_node_fail(count, x);
    }
    int64_t shape[UM_MAX_RANK];
    if (concat_shape(count, x, place.axis, shape) != UM_OK) return um_node_fail(count, x);
    return assemble(x[0]->dtype, x[0]->rank, shape, count, x, &place);
}

um_tensor *um_pad(um_tensor *x, const int64_t *before, const int64_t *after, double value)
{
    um_tensor *error = um_node_refuse("pad", 1, &x);
    if (error) return error;
    um_place place = {.mode = UM_ASSEMBLE_PAD, .value = value};
    int64_t shape[UM_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) {
        if (before && after && before[i] >= 0 && after[i] >= 0 &&
            um_add_i64(x->shape[i], before[i], &shape[i]) &&
            um_add_i64(shape[i], after[i], &shape[i])) {
            place.start[i] = before[i];
            continue;
        }
        if (!before || !after)
            (void)UM_FAIL(UM_INVALID_ARGUMENT, "pad: %s is NULL, wanted %d counts",
                          before ? "after" : "before", x->rank);
        else
            (void)UM_FAIL(UM_INVALID_ARGUMENT,
                          "pad: got %lld before and %lld after the %lld of axis %d, wanted 0 or "
                          "more and a size that fits",
                          (long long)before[i], (long long)after[i], (long long)x->shape[i], i);
        return um_node_fail(1, &x);
    }
    return assemble(x->dtype, x->rank, shape, 1, &x, &place);
}

um_tensor *um_tile(um_tensor *x, const int64_t *repeats)
{
    um_tensor *error = um_node_refuse("tile", 1, &x);
    if (error) return error;
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t size;
        if (repeats && repeats[i] >= 0 && um_mul_i64(x->shape[i], repeats[i], &size)) continue;
        if (!repeats)
            (void)UM_FAIL(UM_INVALID_ARGUMENT, "tile: repeats is NULL, wanted %d counts", x->rank);
        else
            (void)UM_FAIL(UM_INVALID_ARGUMENT,
                          "tile: got %lld times the %lld of axis %d, wanted 0 or more and a size "
                          "that fits",
                          (long long)repeats[i], (long long)x->shape[i], i);
        return um_node_fail(1, &x);
    }
    /* axis by axis, seen as [outer, n * inner] -> [outer, repeats, n * inner] by stride 0 */
    for (int32_t i = 0; x->kind != UM_NODE_ERROR && i < x->rank; i++) {
        if (repeats[i] == 1) continue;
        int64_t wide[3] = {1, repeats[i], 1}, narrow[3], shape[UM_MAX_RANK];
        for (int32_t d = 0; d < x->rank; d++) {
            wide[d < i ? 0 : 2] *= x->shape[d];
            shape[d] = x->shape[d] * (d == i ? repeats[i] : 1);
        }
        memcpy(narrow, wide, sizeof narrow);
        narrow[1] = 1;
        int32_t rank = x->rank;
        x = um_reshape(um_expand(um_reshape(x, 3, narrow), 3, wide), rank, shape);
    }
    return x;
}

um_tensor *um_roll(um_tensor *x, int32_t axis, int64_t shift)
{
    um_tensor *error = um_node_refuse("roll", 1, &x);
    if (error) return error;
    int32_t a;
    if (!um_axis_resolve(axis, x->rank, &a)) return refuse_axis("roll", x, axis);
    int64_t size = x->shape[a];
    if (size < 2) return x;
    int64_t back = (size - shift % size) % size; /* the element that comes first */
    if (back == 0) return x;
    um_tensor *halves[2] = {um_slice(um_ref(x), a, back, size, 1),
                            um_slice(um_ref(x), a, 0, back, 1)};
    um_release(x);
    return um_concat(2, halves, a);
}

um_tensor *um_update(um_tensor *x, um_tensor *value, const int64_t *starts)
{
    um_tensor *in[2] = {x, value};
    um_tensor *error = um_node_refuse("update", 2, in);
    if (error) return error;
    um_place place = {.mode = UM_ASSEMBLE_UPDATE};
    int32_t axis = 0;
    bool good = value->dtype == x->dtype && value->rank == x->rank && (starts || x->rank == 0);
    for (; good && axis < x->rank; axis++) {
        place.start[axis] = starts[axis];
        good = starts[axis] >= 0 && value->shape[axis] <= x->shape[axis] &&
               starts[axis] <= x->shape[axis] - value->shape[axis];
        if (!good) break;
    }
    if (good) return assemble(x->dtype, x->rank, x->shape, 2, in, &place);
    char target[96], block[96];
    um_view view;
    um_node_shape_view(x, &view);
    um_view_text(&view, target, sizeof target);
    um_node_shape_view(value, &view);
    um_view_text(&view, block, sizeof block);
    if (value->dtype != x->dtype || value->rank != x->rank)
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "update: a block %s in %s, wanted its dtype and rank",
                      block, target);
    else if (!starts)
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "update: starts is NULL, wanted %d of them", x->rank);
    else
        (void)UM_FAIL(UM_INVALID_ARGUMENT,
                      "update: a block %s from %lld of axis %d on does not fit into %s", block,
                      (long long)starts[axis], axis, target);
    return um_node_fail(2, in);
}
