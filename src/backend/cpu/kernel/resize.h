/* backend/cpu/kernel/resize.h: one resize as its body sees it. Made by resize.c. A plane is one
 * channel of one batch entry; there are always three axes, the first ones of size 1 where the
 * tensors have fewer. */
#ifndef UM_CPU_RESIZE_H
#define UM_CPU_RESIZE_H

#include "backend/cpu/kernel/simd.h"
#include "op/conv.h"

enum { RESIZE_AXES = 3, RESIZE_ACROSS = RESIZE_AXES - 1, RESIZE_TAPS = 4 };

/* What one place of y takes, without the weights of 0. */
typedef struct resize_taps {
    int64_t place[RESIZE_TAPS];
    double weight[RESIZE_TAPS];
    int64_t count;
} resize_taps;

/* The places of y that one place of x gives to lie in first .. last. */
typedef struct resize_range {
    int64_t first, last;
} resize_range;

typedef struct resize_axis {
    int64_t in, out;
    resize_taps *taps;   /* of each place of y, in shared scratch */
    resize_range *given; /* of each place of x; the gradient's */
} resize_axis;

/* Steps in elements. */
typedef struct resize_side {
    void *data;
    um_dtype dtype;
    int64_t batch, channel, axis[RESIZE_AXES];
} resize_side;

typedef struct resize {
    um_cpu_exec *exec;
    resize_side x, y; /* or dx and dy */
    resize_axis axis[RESIZE_AXES];
    int64_t planes, channels, rows_a_task;
    bool shared; /* enough work for more than one thread */
    uint8_t *own;
    size_t own_bytes;
} resize;

#endif
