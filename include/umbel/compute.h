/* umbel/compute.h: the compute face: ops on buffers and streams, BLAS- and cuDNN-like.
 *
 * Every call builds a um_op, checks it (umbel/op.h, CONTRACT of each op) and enqueues it: it
 * returns before the work is done, in stream order. Failures that the arguments show are returned
 * at once and write nothing: INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY; what only the device can
 * see (a device index out of range) becomes the stream's error. Descriptors are read during the
 * call; zero-initialised fields mean defaults. Nothing is converted silently.
 *
 * Names: what works on views ends in _view; ops with gradients are a _forward and its _backwards.
 * Letters: M, N, K of a matrix product; N batch, C channels, K filters, G groups, D H W sizes of a
 * convolution.
 */
#ifndef UMBEL_COMPUTE_H
#define UMBEL_COMPUTE_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution ----------------------------------------------------------------------------- */

/* Correlation over 1 to 3 spatial axes. x [N,C,...], w [K,C/G,...], bias [K] or NULL, y [N,K,...];
 * transposed: x [N,K,...], w [K,C/G,...], bias [C], y [N,C,...], of the sizes that the plain
 * convolution makes x's from, + output_padding. A desc of NULL is all zeros; strides, dilations and
 * groups of 0 mean 1. Padding counts as zeros: where an infinite or NaN weight meets it, the result
 * may be NaN. f64, f32, f16, bf16, all tensors alike. INVALID_ARGUMENT: a stride or dilation < 1,
 * negative padding, groups that do not divide, a filter larger than the padded input, shapes that
 * do not fit. */
UM_API UM_MUST_CHECK um_status um_conv_forward(um_stream *stream, const um_conv_desc *desc,
                                               const um_view *x, const um_view *w,
                                               const um_view *bias, const um_view *y);
/* Gradients of it, with the same desc; they overwrite. dx and dw have x's and w's shape. */
UM_API UM_MUST_CHECK um_status um_conv_backward_data(um_stream *stream, const um_conv_desc *desc,
                                                     const um_view *dy, const um_view *w,
                                                     const um_view *dx);
UM_API UM_MUST_CHECK um_status um_conv_backward_filter(um_stream *stream, const um_conv_desc *desc,
                                                       const um_view *x, const um_view *dy,
                                                       const um_view *dw);
/* dbias: one a channel of dy. Only desc's layout is looked at. */
UM_API UM_MUST_CHECK um_status um_conv_backward_bias(um_stream *stream, const um_conv_desc *desc,
                                                     const um_view *dy, const um_view *dbias);
/* The 2-D forward by its usual name: the rank must be 4. */
UM_API UM_MUST_CHECK um_status um_conv2d_forward(um_stream *stream, const um_conv_desc *desc,
                                                 const um_view *x, const um_view *w,
                                                 const um_view *bias, const um_view *y);

#ifdef __cplusplus
}
#endif
#endif
