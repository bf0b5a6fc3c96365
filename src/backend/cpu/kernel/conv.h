/* backend/cpu/kernel/conv.h: one convolution as its bodies see it (conv_gemm_body.h,
 * conv_filter_body.h, conv_direct_body.h): two sides, a filter, and for each part of the work the
 * positions it makes and where each of them finds its operands. Made by conv.c.
 *
 * Wide side, filter, narrow side: see op/conv.h. m counts the channels of a group that are made, q
 * those that are added up. The batch is one more axis, the first, with a filter of size 1; so there
 * are always four, those that a tensor lacks having size 1. */
#ifndef UM_CPU_CONV_H
#define UM_CPU_CONV_H

#include "backend/cpu/kernel/program.h"
#include "backend/cpu/kernel/simd.h"
#include "op/conv.h"

enum { CONV_AXES = 4, CONV_INNER = CONV_AXES - 1 };

/* A wide or narrow tensor; steps in elements. */
typedef struct conv_side {
    void *data;
    um_dtype dtype;
    int64_t channel, group;
    int64_t axis[CONV_AXES];
} conv_side;

typedef struct conv_filter {
    void *data;
    um_dtype dtype;
    int64_t m, q, group;
    int64_t axis[CONV_AXES];
} conv_filter;

/* Sizes of an axis: wide, narrow and of the filter. */
typedef struct conv_axis {
    int64_t wide, narrow, kernel, stride, dilation, pad;
} conv_axis;

typedef struct conv {
    um_cpu_exec *exec;
    conv_side wide, narrow;
    conv_filter filter;
    const um_view *bias;   /* NULL: none */
    const um_rider *rider; /* NULL: none; more: its inputs, from the second on */
    conv_side more[UM_MAP_MAX_INPUTS];
    int64_t groups, m, q;
    conv_axis axis[CONV_AXES];
    int64_t taps;      /* of the filter, over all axes */
    int64_t positions; /* of the narrow side, the batch among them */
    bool shared;       /* enough work for more than one thread */
} conv;

/* One axis of one part of the work: positions j = 0 .. count - 1 are made, at first_made + j *
 * step_made of the made side, from taps first_tap + i * step_tap, i < taps, of the filter and
 * places offset + i * step_offset + j * step of the other side, of `size` places; beyond it are
 * zeros. */
typedef struct conv_reach {
    int64_t count, first_made, step_made;
    int64_t taps, first_tap, step_tap;
    int64_t offset, step_offset, step, size;
} conv_reach;

/* A run of positions along the innermost axis; index: its first one's. */
typedef struct conv_run {
    int64_t column, count;
    int64_t index[CONV_AXES];
} conv_run;

/* What one tap finds for a run: `lead` zeros, `count` elements from `first` on, `tail` zeros. */
typedef struct conv_span {
    int64_t column, lead, count, tail, first;
} conv_span;

/* A part's positions [first, first + count), and how they lie. */
enum { CONV_COLUMNS = 256 };
typedef struct conv_block {
    conv_reach reach[CONV_AXES];
    int64_t count;
    int32_t runs;
    conv_run run[CONV_COLUMNS];
} conv_block;

#endif
