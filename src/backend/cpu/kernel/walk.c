/* backend/cpu/kernel/walk.c: see walk.h. */
#include "backend/cpu/kernel/walk.h"

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Orders axes so that the first view's strides fall: writes go forward in memory. The order of
 * equals stays. */
static void order_axes(const um_view *first, int32_t *order)
{
    for (int32_t i = 0; i < first->rank; i++) {
        int32_t at = i;
        for (; at > 0 && magnitude(first->stride[order[at - 1]]) < magnitude(first->stride[i]);
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* All views have the first one's shape. */
void UM_ISA_FN(um_walk_make)(um_walk *w, int32_t views, const um_view *const *view)
{
    int32_t order[UM_MAX_RANK];
    order_axes(view[0], order);
    um_walk_begin(w, views);
    for (int32_t i = 0; i < view[0]->rank; i++) {
        int64_t stride[UM_WALK_MAX];
        for (int32_t v = 0; v < views; v++) stride[v] = view[v]->stride[order[i]];
        um_walk_add_axis(w, view[0]->shape[order[i]], stride);
    }
    um_walk_end(w);
}

void UM_ISA_FN(um_walk_seek)(const um_walk *w, int64_t position, um_walk_at *at)
{
    for (int32_t v = 0; v < w->views; v++) at->element[v] = 0;
    for (int32_t axis = w->rank - 1; axis >= 0; axis--) {
        at->index[axis] = axis > 0 ? position % w->shape[axis] : position;
        if (axis > 0) position /= w->shape[axis];
        for (int32_t v = 0; v < w->views; v++)
            at->element[v] += at->index[axis] * w->stride[v][axis];
    }
}
