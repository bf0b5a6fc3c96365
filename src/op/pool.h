/* op/pool.h: the windows of pooling, for its rule (pool.c) and its kernels. */
#ifndef UM_OP_POOL_H
#define UM_OP_POOL_H

#include "op/conv.h"

/* One axis: `in` places of x, `out` windows. */
typedef struct um_pool_axis {
    int64_t in, out, kernel, stride, dilation, pad_before, pad_after;
    bool adaptive, include_pad;
} um_pool_axis;

/* Places first + i * step, i < count, of x; `divisor` counts those that the average divides by. */
typedef struct um_pool_window {
    int64_t first, step, count, divisor;
} um_pool_window;

/* Of spatial axis `axis`; wide: x or dx, narrow: y or dy. */
um_pool_axis um_pool_get_axis(const um_op *op, const um_view *wide, const um_view *narrow,
                              int32_t axis);

/* How many of the window's places lie below `end`, the first at `first`. */
static inline int64_t um_pool_below(const um_pool_axis *x, int64_t first, int64_t end)
{
    if (first >= end) return 0;
    return UM_MIN(um_ceil_div(end - first, x->dilation), x->kernel);
}

static inline um_pool_window um_pool_get_window(const um_pool_axis *x, int64_t o)
{
    if (x->adaptive) {
        int64_t first = o * x->in / x->out, count = um_ceil_div((o + 1) * x->in, x->out) - first;
        return (um_pool_window){first, 1, count, count};
    }
    int64_t first = o * x->stride - x->pad_before;
    int64_t skipped = first < 0 ? UM_MIN(um_ceil_div(-first, x->dilation), x->kernel) : 0;
    int64_t count = UM_MAX(um_pool_below(x, first, x->in) - skipped, 0);
    return (um_pool_window){first + skipped * x->dilation, x->dilation, count,
                            x->include_pad ? um_pool_below(x, first, x->in + x->pad_after) : count};
}

/* The windows that may hold place i: first .. last. */
static inline void um_pool_get_windows(const um_pool_axis *x, int64_t i, int64_t *first,
                                       int64_t *last)
{
    if (x->adaptive) {
        *first = i * x->out / x->in;
        *last = ((i + 1) * x->out - 1) / x->in;
    } else {
        int64_t place = i + x->pad_before, reach = x->dilation * (x->kernel - 1);
        *first = place > reach ? um_ceil_div(place - reach, x->stride) : 0;
        *last = place / x->stride;
    }
    *last = UM_MIN(*last, x->out - 1);
}

static inline bool um_pool_holds(const um_pool_window *w, int64_t i)
{
    return i >= w->first && (i - w->first) % w->step == 0 && (i - w->first) / w->step < w->count;
}

#endif
