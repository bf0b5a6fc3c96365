/* test/onnx/window.c: other windows on a value's memory: see run.h. */
#include "base/base.h"
#include "run.h"

#include <string.h>

int64_t size(const um_view *view, int64_t axis)
{
    int64_t at = axis < 0 ? axis + view->rank : axis;
    return at >= 0 && at < view->rank ? view->shape[at] : 1;
}

um_view expand(run *r, um_view view, int32_t rank, const int64_t *shape)
{
    um_view y = {.ptr = view.ptr, .dtype = view.dtype, .rank = rank};
    if (r->failed) return view;
    if (view.rank > rank || rank > UM_MAX_RANK) {
        run_refuse(r, "%s: rank %d does not broadcast to %d", r->node->op, (int)view.rank,
                   (int)rank);
        return view;
    }
    for (int32_t d = 0; d < rank; d++) {
        int32_t at = d - (rank - view.rank);
        y.shape[d] = shape[d];
        if (at < 0 || view.shape[at] == 1) continue;
        if (view.shape[at] != shape[d])
            run_refuse(r, "%s: size %lld does not broadcast to %lld", r->node->op,
                       (long long)view.shape[at], (long long)shape[d]);
        y.stride[d] = view.stride[at];
    }
    return y;
}

um_view expand_like(run *r, um_view view, const um_view *like)
{
    return expand(r, view, like->rank, like->shape);
}

um_view reshape(run *r, um_view view, int32_t rank, const int64_t *shape)
{
    um_view y, packed = pack(r, view);
    if (r->failed || !run_ok(r, um_view_make(packed.ptr, view.dtype, rank, shape, &y)))
        return packed;
    if (um_view_count(&y) != um_view_count(&packed)) {
        run_refuse(r, "%s: %lld elements reshaped to %lld", r->node->op,
                   (long long)um_view_count(&packed), (long long)um_view_count(&y));
        return packed;
    }
    return y;
}

um_view flatten(run *r, um_view view, int32_t axis)
{
    int64_t shape[2] = {1, 1};
    for (int32_t d = 0; d < view.rank; d++) shape[d >= axis] *= view.shape[d];
    return reshape(r, view, 2, shape);
}

um_view transpose(run *r, um_view view, const int64_t *perm)
{
    um_view y = view;
    uint32_t seen = 0;
    for (int32_t d = 0; d < view.rank && !r->failed; d++) {
        int32_t from = axis_of(r, perm[d], view.rank);
        seen |= 1u << from;
        y.shape[d] = view.shape[from];
        y.stride[d] = view.stride[from];
    }
    if (!r->failed && seen != (1u << view.rank) - 1)
        run_refuse(r, "%s: no permutation of the axes", r->node->op);
    return y;
}

um_view swap_axes(run *r, um_view view, int64_t a, int64_t b)
{
    int64_t perm[UM_MAX_RANK];
    if (r->failed) return view;
    int32_t at_a = axis_of(r, a, view.rank), at_b = axis_of(r, b, view.rank);
    for (int32_t d = 0; d < UM_MAX_RANK; d++) perm[d] = d;
    perm[at_a] = at_b;
    perm[at_b] = at_a;
    return transpose(r, view, perm);
}

um_view unsqueeze(run *r, um_view view, int64_t axis)
{
    if (r->failed) return view;
    if (view.rank == UM_MAX_RANK) {
        run_refuse(r, "%s: a rank over %d", r->node->op, UM_MAX_RANK);
        return view;
    }
    int32_t at = axis_of(r, axis, view.rank + 1);
    um_view y = view;
    y.rank++;
    for (int32_t d = view.rank; d > at; d--) {
        y.shape[d] = view.shape[d - 1];
        y.stride[d] = view.stride[d - 1];
    }
    y.shape[at] = 1;
    /* As in a packed tensor, so that pack need not copy. */
    y.stride[at] = at + 1 < y.rank ? y.stride[at + 1] * UM_MAX(y.shape[at + 1], 1) : 1;
    return y;
}

um_view squeeze(run *r, um_view view, int64_t axis)
{
    if (r->failed) return view;
    int32_t at = axis_of(r, axis, view.rank);
    if (view.shape[at] != 1)
        run_refuse(r, "%s: axis %d of size %lld is not 1", r->node->op, (int)at,
                   (long long)view.shape[at]);
    if (r->failed) return view;
    um_view y = view;
    for (int32_t d = at; d + 1 < view.rank; d++) {
        y.shape[d] = view.shape[d + 1];
        y.stride[d] = view.stride[d + 1];
    }
    y.rank--;
    y.shape[y.rank] = y.stride[y.rank] = 0;
    return y;
}

um_view slice(run *r, um_view view, int64_t axis, int64_t start, int64_t count, int64_t step)
{
    if (r->failed) return view;
    int32_t at = axis_of(r, axis, view.rank);
    int64_t last = start + (count - 1) * step, n = view.shape[at];
    if (count < 0 || (count > 0 && (start < 0 || start >= n || last < 0 || last >= n)))
        run_refuse(r, "%s: a slice beyond the axis", r->node->op);
    if (um_dtype_bits(view.dtype) < 8) run_refuse(r, "%s: a slice of 4 bits", r->node->op);
    if (r->failed) return view;
    um_view y = view;
    int64_t bytes = um_dtype_bits(view.dtype) / 8;
    if (count > 0) y.ptr += (um_ptr)(start * view.stride[at] * bytes);
    y.shape[at] = count;
    y.stride[at] = step * view.stride[at];
    return y;
}

um_view flip(run *r, um_view view, int64_t axis)
{
    int64_t n = size(&view, axis);
    return n == 0 ? view : slice(r, view, axis, n - 1, n, -1);
}

um_view along(run *r, um_view view, int32_t axis, int32_t rank)
{
    if (view.rank == 0) return view;
    for (int32_t d = axis + 1; d < rank; d++) view = unsqueeze(r, view, view.rank);
    return view;
}
