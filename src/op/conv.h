/* op/conv.h: what a convolution op's rule and its kernels share: which of its tensors is which, and
 * the sizes along each axis. Made by conv.c, read by the kernels.
 *
 * Whatever an op computes, three tensors belong together: the wide one [N,C,...] (x of a plain
 * forward convolution), the filter [K,C/G,...] and the narrow one [N,K,...] (its y), with
 *   narrow[n,k,o] ~ wide[n,c, o * stride - pad + t * dilation] * filter[k,c,t]. */
#ifndef UM_OP_CONV_H
#define UM_OP_CONV_H

#include "op/table.h"

enum { UM_CONV_MAX_AXES = 3 };

typedef struct um_conv_views {
    const um_view *wide, *filter, *narrow;
    const char *wide_name, *filter_name, *narrow_name; /* as the op calls them */
} um_conv_views;

/* out: the op's output, or the one being inferred. */
um_conv_views um_conv_get_views(const um_op *op, const um_view *out);

/* The axis of a wide or narrow tensor with the channels, and the first spatial one. */
static inline int32_t um_channel_axis(int32_t layout, int32_t rank)
{
    return layout == UM_CHANNELS_LAST ? rank - 1 : 1;
}
static inline int32_t um_space_axis(int32_t layout) { return layout == UM_CHANNELS_LAST ? 1 : 2; }

#endif
