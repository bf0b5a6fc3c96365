/* backend/cpu/kernel/walk.h: several views of one shape, visited together in runs of the innermost
 * axis. Used by map, reduce, scan and move. */
#ifndef UM_CPU_WALK_H
#define UM_CPU_WALK_H

#include "backend/cpu/kernel/simd.h"

enum { UM_WALK_MAX = UM_OP_MAX_INPUTS + 1 };

/* Axes of size 1 are gone and axes that one stride can cover are one. Linear positions 0 .. total-1
 * count the walk's own axes row-major. */
typedef struct um_walk {
    int32_t views, rank; /* rank >= 1 */
    int64_t total;
    int64_t shape[UM_MAX_RANK];
    int64_t stride[UM_WALK_MAX][UM_MAX_RANK];
} um_walk;

/* A position in it and, of each view, the element there. */
typedef struct um_walk_at {
    int64_t index[UM_MAX_RANK];
    int64_t element[UM_WALK_MAX];
} um_walk_at;

UM_INLINE int64_t um_walk_inner(const um_walk *w) { return w->shape[w->rank - 1]; }
UM_INLINE int64_t um_walk_step(const um_walk *w, int32_t view)
{
    return w->stride[view][w->rank - 1];
}

/* Empty, to be given views and axes. */
UM_INLINE void um_walk_begin(um_walk *w, int32_t views)
{
    w->views = views;
    w->rank = 0;
    w->total = 1;
}

/* One more axis, inside those there are; stride[v] is view v's. */
UM_INLINE void um_walk_add_axis(um_walk *w, int64_t size, const int64_t *stride)
{
    w->total *= size;
    if (size == 1) return;
    bool merges = w->rank > 0;
    for (int32_t v = 0; v < w->views && merges; v++)
        merges = w->stride[v][w->rank - 1] == stride[v] * size;
    int32_t axis = merges ? w->rank - 1 : w->rank++;
    w->shape[axis] = merges ? w->shape[axis] * size : size;
    for (int32_t v = 0; v < w->views; v++) w->stride[v][axis] = stride[v];
}

UM_INLINE void um_walk_end(um_walk *w)
{
    if (w->rank > 0) return;
    w->rank = 1;
    w->shape[0] = w->total;
    for (int32_t v = 0; v < w->views; v++) w->stride[v][0] = 1;
}

void UM_ISA_FN(um_walk_make)(um_walk *w, int32_t views, const um_view *const *view);
void UM_ISA_FN(um_walk_seek)(const um_walk *w, int64_t position, um_walk_at *at);

/* n elements on, n no more than what is left of the innermost axis. */
UM_INLINE void um_walk_advance(const um_walk *w, um_walk_at *at, int64_t n)
{
    int32_t axis = w->rank - 1;
    at->index[axis] += n;
    for (int32_t v = 0; v < w->views; v++) at->element[v] += n * w->stride[v][axis];
    while (at->index[axis] == w->shape[axis] && axis > 0) {
        for (int32_t v = 0; v < w->views; v++)
            at->element[v] += w->stride[v][axis - 1] - w->shape[axis] * w->stride[v][axis];
        at->index[axis] = 0;
        at->index[--axis]++;
    }
}

#endif
