/* op/view.c: views and axes: sizes, text, extent, packed, identical, and views of views. Overlap is
 * in overlap.c.
 * Called by the rules, the device layer, the tensor face and the CPU kernels. */
#include "op/rule.h"

#include <stdio.h>

const char *um_view_fault(const um_view *view)
{
    if (!um_dtype_valid(view->dtype)) return "has no such dtype";
    if (view->rank < 0 || view->rank > UM_MAX_RANK) return "needs a rank of 0 to 8";
    int64_t count = 1;
    for (int32_t i = 0; i < view->rank; i++) {
        if (view->shape[i] < 0) return "has a negative size";
        if (!um_mul_i64(count, UM_MAX(view->shape[i], 1), &count)) return "is too large";
    }
    if (count > INT64_MAX / 8 && count > INT64_MAX / UM_MAX(um_dtype_bits(view->dtype) / 8, 1))
        return "is too large";
    return NULL;
}

void um_view_pack(um_view *view)
{
    int64_t stride = 1;
    for (int32_t i = view->rank - 1; i >= 0; i--) {
        view->stride[i] = stride;
        stride *= UM_MAX(view->shape[i], 1);
    }
}

um_status um_view_make(um_ptr ptr, um_dtype dtype, int32_t rank, const int64_t *shape, um_view *out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "view_make: out is NULL");
    *out = (um_view){0};
    if (!shape && rank > 0) return UM_FAIL(UM_INVALID_ARGUMENT, "view_make: shape is NULL");
    um_view view = {.ptr = ptr, .dtype = dtype, .rank = rank};
    for (int32_t i = 0; i < UM_MIN(rank, UM_MAX_RANK); i++) view.shape[i] = shape[i];
    const char *fault = um_view_fault(&view);
    if (fault) {
        char text[UM_VIEW_TEXT];
        return UM_FAIL(UM_INVALID_ARGUMENT, "view_make: %s %s",
                       um_view_text(&view, text, sizeof text), fault);
    }
    um_view_pack(&view);
    *out = view;
    return UM_OK;
}

bool um_view_is_aligned(const um_view *view)
{
    return view->ptr % (um_ptr)UM_MAX(um_dtype_bits(view->dtype) / 8, 1) == 0;
}

int64_t um_view_count(const um_view *view)
{
    if (!view) return 0;
    int64_t count = 1;
    for (int32_t i = 0; i < view->rank; i++) count *= view->shape[i];
    return count;
}

const char *um_view_text(const um_view *view, char *text, size_t text_size)
{
    if (text_size == 0) return text;
    const char *dtype = um_dtype_name(view->dtype);
    if (view->rank < 0 || view->rank > UM_MAX_RANK) {
        snprintf(text, text_size, "%s[rank %d]", dtype, (int)view->rank);
        return text;
    }
    char all[UM_VIEW_TEXT];
    int at = snprintf(all, sizeof all, "%s[", dtype);
    for (int32_t i = 0; i < view->rank; i++)
        at += snprintf(all + at, sizeof all - (size_t)at, i ? ",%lld" : "%lld",
                       (long long)view->shape[i]);
    snprintf(text, text_size, "%s]", all);
    return text;
}

/* The lowest and the highest element reached, relative to element (0, 0, ...). */
static bool element_span(const um_view *view, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int32_t i = 0; i < view->rank; i++) {
        int64_t reach, *end = view->stride[i] < 0 ? low : high;
        if (!um_mul_i64(view->stride[i], view->shape[i] - 1, &reach)) return false;
        if (!um_add_i64(*end, reach, end)) return false;
    }
    return true;
}

bool um_view_extent(const um_view *view, int64_t *low_bytes, int64_t *high_bytes)
{
    *low_bytes = *high_bytes = 0;
    for (int32_t i = 0; i < view->rank; i++)
        if (view->shape[i] == 0) return true;
    int64_t low, high;
    if (!element_span(view, &low, &high) || !um_add_i64(high, 1, &high)) return false;
    int64_t bits = um_dtype_bits(view->dtype);
    if (bits >= 8)
        return um_mul_i64(low, bits / 8, low_bytes) && um_mul_i64(high, bits / 8, high_bytes);
    *low_bytes = low / 2 - (low % 2 != 0); /* low <= 0: towards minus infinity */
    *high_bytes = high / 2 + high % 2;
    return true;
}

bool um_shapes_equal(const um_view *a, const um_view *b)
{
    if (a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

bool um_views_identical(const um_view *a, const um_view *b)
{
    if (a->ptr != b->ptr || um_dtype_bits(a->dtype) != um_dtype_bits(b->dtype)) return false;
    if (!um_shapes_equal(a, b)) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

bool um_view_is_packed(const um_view *view)
{
    int64_t count = 1;
    for (int32_t i = view->rank - 1; i >= 0; i--) {
        if (view->shape[i] > 1 && view->stride[i] != count) return false;
        count *= UM_MAX(view->shape[i], 1);
    }
    return true;
}

bool um_axes_resolve(uint32_t axes, int32_t rank, uint32_t *resolved)
{
    *resolved = 0;
    for (int32_t bit = 0; bit < 32; bit++) {
        if (!(axes >> bit & 1u)) continue;
        int32_t axis = bit < UM_MAX_RANK ? bit : bit - 32 + rank; /* bits 24..31 are -8..-1 */
        if (axis < 0 || axis >= rank || (*resolved & UM_AXIS(axis))) return false;
        *resolved |= UM_AXIS(axis);
    }
    return true;
}

bool um_axis_resolve(int32_t axis, int32_t rank, int32_t *resolved)
{
    *resolved = 0;
    if (axis < -rank || axis >= rank) return false;
    *resolved = axis < 0 ? axis + rank : axis;
    return true;
}

bool um_dtype_is_index(um_dtype dtype) { return dtype == UM_I32 || dtype == UM_I64; }

/* ---- views of views ---------------------------------------------------------------------------
 */

void um_slice_range(int64_t size, int64_t *start, int64_t *count, int64_t stop, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    int64_t first = *start, last = stop;
    bool to_the_front = stop == INT64_MIN; /* "the end" of a backward slice */
    if (first < 0) first = first < -size ? low : first + size;
    if (last < 0 && !to_the_front) last = last < -size ? low : last + size;
    if (to_the_front) last = low;
    first = UM_MAX(low, UM_MIN(first, high));
    last = UM_MAX(low, UM_MIN(last, high));
    *start = first;
    if (step > 0)
        *count = last > first ? (last - first - 1) / step + 1 : 0;
    else if (step == INT64_MIN)
        *count = first > last ? 1 : 0;
    else
        *count = first > last ? (first - last - 1) / -step + 1 : 0;
}

/* What every view of a view starts with: a copy of x, which may be *out, and out for a failure. */
static um_status begin_view(const char *who, const um_view *x, um_view *copy, um_view *out)
{
    if (!x || !out) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s is NULL", who, x ? "out" : "x");
    *copy = *x;
    *out = (um_view){0};
    const char *fault = um_view_fault(copy);
    return fault ? UM_FAIL(UM_INVALID_ARGUMENT, "%s: x %s", who, fault) : UM_OK;
}

/* Moves element (0, 0, ...) by that many elements. */
static um_status shift_view(const char *who, um_view *view, int64_t elements)
{
    int64_t bits = um_dtype_bits(view->dtype), moved;
    bool whole = bits >= 8 || elements % 2 == 0;
    if (whole && um_mul_i64(elements, bits, &moved)) {
        view->ptr += (um_ptr)(moved / 8);
        return UM_OK;
    }
    *view = (um_view){0};
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: element %lld %s", who, (long long)elements,
                   whole ? "is beyond the address space" : "starts in the middle of a byte");
}

um_status um_view_slice(const um_view *x, int32_t axis, int64_t start, int64_t stop, int64_t step,
                        um_view *out)
{
    int32_t a;
    um_view view;
    UM_TRY(begin_view("view_slice", x, &view, out));
    if (!um_axis_resolve(axis, view.rank, &a))
        return UM_FAIL(UM_INVALID_ARGUMENT, "view_slice: axis %d is outside rank %d", (int)axis,
                       (int)view.rank);
    if (step == 0) return UM_FAIL(UM_INVALID_ARGUMENT, "view_slice: step is 0, wanted any other");
    um_slice_range(view.shape[a], &start, &view.shape[a], stop, step);
    int64_t offset = 0, stride = 1; /* of one element or none the step says nothing */
    bool fits = view.shape[a] == 0 || um_mul_i64(start, view.stride[a], &offset);
    if (view.shape[a] > 1) fits = fits && um_mul_i64(view.stride[a], step, &stride);
    if (!fits) return UM_FAIL(UM_INVALID_ARGUMENT, "view_slice: the stride overflows");
    view.stride[a] = stride;
    if (um_view_count(&view) > 0) UM_TRY(shift_view("view_slice", &view, offset));
    *out = view;
    return UM_OK;
}

um_status um_view_permute(const um_view *x, const int32_t *axes, um_view *out)
{
    uint32_t seen = 0;
    um_view view;
    UM_TRY(begin_view("view_permute", x, &view, out));
    if (!axes && view.rank > 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "view_permute: axes is NULL, wanted %d",
                       (int)view.rank);
    um_view from = view;
    for (int32_t i = 0; i < view.rank; i++) {
        int32_t axis;
        if (!um_axis_resolve(axes[i], view.rank, &axis) || (seen & UM_AXIS(axis)))
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "view_permute: got axis %d at %d, wanted each of %d axes once",
                           (int)axes[i], (int)i, (int)view.rank);
        seen |= UM_AXIS(axis);
        view.shape[i] = from.shape[axis];
        view.stride[i] = from.stride[axis];
    }
    *out = view;
    return UM_OK;
}

um_status um_view_flip(const um_view *x, uint32_t axes, um_view *out)
{
    uint32_t resolved;
    int64_t offset = 0;
    um_view view;
    UM_TRY(begin_view("view_flip", x, &view, out));
    if (!um_axes_resolve(axes, view.rank, &resolved))
        return UM_FAIL(UM_INVALID_ARGUMENT, "view_flip: axes 0x%x do not fit rank %d",
                       (unsigned)axes, (int)view.rank);
    for (int32_t i = 0; i < view.rank; i++) {
        bool flips = (axes == UM_ALL_AXES || (resolved & UM_AXIS(i))) && view.shape[i] > 1;
        int64_t reach;
        if (!flips) continue;
        if (view.stride[i] == INT64_MIN || !um_mul_i64(view.shape[i] - 1, view.stride[i], &reach) ||
            !um_add_i64(offset, reach, &offset))
            return UM_FAIL(UM_INVALID_ARGUMENT, "view_flip: the strides overflow");
        view.stride[i] = -view.stride[i];
    }
    if (um_view_count(&view) > 0) UM_TRY(shift_view("view_flip", &view, offset));
    *out = view;
    return UM_OK;
}

um_status um_view_broadcast(const um_view *x, int32_t rank, const int64_t *shape, um_view *out)
{
    um_view view, from;
    UM_TRY(begin_view("view_broadcast", x, &from, out));
    UM_TRY(um_view_make(from.ptr, from.dtype, rank, shape, &view));
    int32_t lead = rank - from.rank;
    bool good = lead >= 0;
    for (int32_t i = 0; good && i < rank; i++) {
        int64_t own = i < lead ? 1 : from.shape[i - lead];
        good = own == shape[i] || own == 1;
        view.stride[i] = own == shape[i] && i >= lead ? from.stride[i - lead] : 0;
    }
    if (!good) {
        char text[UM_VIEW_TEXT], wanted[UM_VIEW_TEXT];
        return UM_FAIL(UM_INVALID_ARGUMENT, "view_broadcast: %s does not broadcast to %s",
                       um_view_text(&from, text, sizeof text),
                       um_view_text(&view, wanted, sizeof wanted));
    }
    *out = view;
    return UM_OK;
}
