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

/* ---- matrix products --------------------------------------------------------------------------
 */

enum { UM_COLUMN_MAJOR = 0, UM_ROW_MAJOR = 1 };
enum { UM_NO_TRANS = 0, UM_TRANS = 1, UM_CONJ_TRANS = 2 }; /* the last two are one for reals */
enum { UM_BIAS_OF_ROWS = 0, UM_BIAS_OF_COLUMNS = 1 };

/* What is done to alpha op(A) op(B) + beta C before it is rounded and stored. Where bias or
 * residual is 0 there is none. */
typedef struct um_gemm_epilogue {
    um_ptr bias;         /* m numbers, one for each row, or n, one for each column */
    um_dtype bias_type;  /* 0: C's; or f32 where that is a narrower float */
    int32_t bias_axis;   /* UM_BIAS_OF_ROWS, UM_BIAS_OF_COLUMNS */
    um_op_id activation; /* an elementwise op of one float: UM_OP_RELU, UM_OP_GELU, ...; 0: none */
    double a;            /* slope of UM_OP_ELU and UM_OP_LEAKY_RELU */
    um_ptr residual;     /* m x n in the desc's layout */
    um_dtype residual_type; /* as bias_type */
    int64_t ld_residual;
    double scale;                         /* 0: 1 */
    int64_t stride_bias, stride_residual; /* strided batches only; 0: the same for all */
} um_gemm_epilogue;

/* D = scale * (activation(alpha op(A) op(B) + beta C + bias) + residual), where op(A) is m x k,
 * op(B) k x n, C and D m x n. Types: f64, f32; f16 or bf16, C of that type or f32; 8-bit floats
 * (E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ; A and B may differ), C f32, f16, bf16, or their one type; i8
 * and u8 in any mixture, C i32, where everything wraps, alpha and beta are integers, and there is
 * no activation and no scale. Floats add up in f32 (f64), and the result is rounded once.
 *
 * beta = 0: C is not read. alpha = 0 or k = 0: A and B are not read, nor are their pointers looked
 * at. m = 0 or n = 0: OK, and no pointer is looked at. Leading dimensions count elements from a
 * column to the next (row-major: from a row to the next); the padding in between is not touched,
 * and the last column needs only its rows. INVALID_ARGUMENT: a negative size, a leading dimension
 * smaller than 1 or its column (k = 0 or not), sizes that overflow 64 bits, a type that is not
 * named here, memory outside one live allocation, D (or C, where it is the result) overlapping A, B
 * or bias, or overlapping C or residual other than exactly. */
typedef struct um_gemm_desc {
    um_dtype a_type, b_type, c_type; /* b 0: A's; c (and D) 0: A's, i32 for integers */
    um_dtype round_to; /* 0, or f16, bf16 or an 8-bit float: A and B of f32 are rounded to it (by
                          um_convert's rules) and multiplied and added up in f32 */
    int32_t layout;    /* of all matrices */
    int32_t trans_a, trans_b; /* UM_NO_TRANS, ... */
    int64_t m, n, k;
    double alpha, beta; /* taken as they are: an alpha left out is 0 */
    um_ptr a, b, c;
    int64_t lda, ldb, ldc;
    um_ptr d; /* 0: the result goes to C; else C is only read, and only where beta is not 0 */
    int64_t ldd;
    int64_t stride_a, stride_b, stride_c, stride_d; /* strided batches only: elements from a matrix
                                                       to the next; 0 repeats an input */
    const um_gemm_epilogue *epilogue;               /* may be NULL */
} um_gemm_desc;
UM_API UM_MUST_CHECK um_status um_gemm(um_stream *stream, const um_gemm_desc *desc);

/* batch_count products whose matrices lie the strides apart. INVALID_ARGUMENT, further: results
 * that overlap each other (stride_c 0). */
UM_API UM_MUST_CHECK um_status um_gemm_strided_batched(um_stream *stream, const um_gemm_desc *desc,
                                                       int64_t batch_count);

/* Host arrays of batch_count pointers each, read during the call. a and b may be NULL where they
 * are not read, d where the results go to c, c where it is neither read nor the result, bias and
 * residual where there is none, or the epilogue's pointer is for all. */
typedef struct um_gemm_pointers {
    const um_ptr *a, *b, *c, *d;
    const um_ptr *bias, *residual;
} um_gemm_pointers;
/* batch_count products of one shape in one launch; the desc's a, b, c, d are not looked at. As with
 * um_enqueue_batch none runs unless all are right: a result must not overlap another product's
 * result or input. */
UM_API UM_MUST_CHECK um_status um_gemm_batched(um_stream *stream, const um_gemm_desc *desc,
                                               int64_t batch_count,
                                               const um_gemm_pointers *pointers);
/* Products of any shapes and types in one launch; otherwise as um_gemm_batched. */
UM_API UM_MUST_CHECK um_status um_gemm_grouped(um_stream *stream, int64_t group_count,
                                               const um_gemm_desc *descs);

/* ---- elementwise --------------------------------------------------------------------------------
 */

/* op: an elementwise row of umbel/op.def (UM_OP_ADD, ...), with its dtypes. Inputs broadcast to y's
 * shape as NumPy does. All have one dtype, but for where's condition, which is bool; y has it too,
 * or is bool where the op gives that. y may lie exactly on inputs of its own shape.
 * INVALID_ARGUMENT: no such op of that many inputs, shapes or dtypes that do not fit, other
 * overlaps. */
/* a: the slope of elu and leaky_relu. */
UM_API UM_MUST_CHECK um_status um_unary_view(um_stream *stream, um_op_id op, double a,
                                             const um_view *x, const um_view *y);
UM_API UM_MUST_CHECK um_status um_binary_view(um_stream *stream, um_op_id op, const um_view *a,
                                              const um_view *b, const um_view *y);
/* where (condition, a, b), clamp (x, lo, hi), fma (a, b, c). */
UM_API UM_MUST_CHECK um_status um_ternary_view(um_stream *stream, um_op_id op, const um_view *a,
                                               const um_view *b, const um_view *c,
                                               const um_view *y);

/* f of a float dtype, i of integers and bool (u64: the same bits). */
typedef struct um_number {
    double f;
    int64_t i;
} um_number;
/* A view, or where that is NULL a number of the other inputs' dtype. */
typedef struct um_operand {
    const um_view *view;
    um_number number;
} um_operand;
/* The same for views and numbers in any mixture; count operands. With a number no dtype of 8 bits
 * or less but integers and bool. Floats are rounded to the dtype; INVALID_ARGUMENT: an integer that
 * it does not hold. */
UM_API UM_MUST_CHECK um_status um_map_view(um_stream *stream, um_op_id op, int32_t count,
                                           const um_operand *operands, const um_view *y);

/* ---- reductions ---------------------------------------------------------------------------------
 */

/* op: UM_OP_SUM to UM_OP_STD of umbel/op.def, with its dtypes. axes: UM_AXIS bits, UM_ALL_AXES;
 * argmax and argmin: one axis, or all. y has x's shape without those axes, or with size 1 there; of
 * argmax and argmin it is i64, of any and all bool. Of nothing: sum 0, prod 1, max -inf and min
 * +inf (integers: the type's ends), mean NaN, any 0, all 1, argmax and argmin INVALID_ARGUMENT.
 * correction: var and std divide by count - correction (1 is usual); not looked at otherwise. */
UM_API UM_MUST_CHECK um_status um_reduce_view(um_stream *stream, um_op_id op, uint32_t axes,
                                              double correction, const um_view *x,
                                              const um_view *y);
/* op: UM_OP_CUMSUM, UM_OP_CUMPROD or UM_OP_CUMMAX; f64, f32, f16, bf16, integers. y has x's shape.
 */
UM_API UM_MUST_CHECK um_status um_scan_view(um_stream *stream, um_op_id op, int32_t axis,
                                            const um_view *x, const um_view *y);

/* ---- moving elements ----------------------------------------------------------------------------
 */

/* Views of views (slice, permute, flip, broadcast) are in umbel/op.h and move nothing. */
/* y = x, broadcast to y's shape and converted by um_convert's rules. Every dtype. */
UM_API UM_MUST_CHECK um_status um_copy_view(um_stream *stream, const um_view *x, const um_view *y);
/* The same, with a rule of its own for what is too large for y's float: UM_OVERFLOW_...; where y is
 * no float, or of x's dtype, it changes nothing. INVALID_ARGUMENT: no such rule. */
UM_API UM_MUST_CHECK um_status um_convert_view(um_stream *stream, um_overflow overflow,
                                               const um_view *x, const um_view *y);
/* y = the number, converted. Every dtype. */
UM_API UM_MUST_CHECK um_status um_fill_view(um_stream *stream, um_number value, const um_view *y);
/* Element i of y [n] = start + i * step, in f64 and rounded once; integers wrap. f64, f32, f16,
 * bf16, integers. */
UM_API UM_MUST_CHECK um_status um_arange_view(um_stream *stream, um_number start, um_number step,
                                              const um_view *y);
/* Element i of y [n] = start + i * ((stop - start) / (n - 1)), in f64 and rounded once; the last is
 * stop itself, that of n = 1 is start. f64, f32, f16, bf16. */
UM_API UM_MUST_CHECK um_status um_linspace_view(um_stream *stream, double start, double stop,
                                                const um_view *y);

/* From here on x and y have one dtype, any, and one rank, and do not overlap. */
/* y = x, back to front along the axes (UM_AXIS bits; 0: all). */
UM_API UM_MUST_CHECK um_status um_flip_view(um_stream *stream, uint32_t axes, const um_view *x,
                                            const um_view *y);
/* y's element (i + shift) mod n along axis = x's element i. */
UM_API UM_MUST_CHECK um_status um_roll_view(um_stream *stream, int32_t axis, int64_t shift,
                                            const um_view *x, const um_view *y);
/* y = x repeated along each axis; its sizes are multiples of x's. */
UM_API UM_MUST_CHECK um_status um_tile_view(um_stream *stream, const um_view *x, const um_view *y);
/* y = x[0], x[1], ... x[count - 1] behind each other along axis. */
UM_API UM_MUST_CHECK um_status um_concat_view(um_stream *stream, int32_t axis, int32_t count,
                                              const um_view *x, const um_view *y);

typedef int32_t um_pad_mode;
enum {
    UM_PAD_CONSTANT = 0, /* the number, converted */
    UM_PAD_EDGE = 1,     /* x's first and last elements */
    UM_PAD_REFLECT = 2,  /* x mirrored about them; at most x's size - 1 on each side */
    UM_PAD_WRAP = 3      /* x again; at most x's size on each side */
};
/* y = x with before[axis] elements in front of it and the rest of y behind it. */
UM_API UM_MUST_CHECK um_status um_pad_view(um_stream *stream, um_pad_mode mode,
                                           const int64_t *before, um_number value, const um_view *x,
                                           const um_view *y);

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

/* ---- attention --------------------------------------------------------------------------------
 */

/* q [B,H,Sq,D], k [B,Hkv,Sk,D], v [B,Hkv,Sk,Dv], H a multiple of Hkv: query head h goes with k's
 * head h / (H / Hkv). The rest may be NULL. */
typedef struct um_attention_inputs {
    const um_view *q, *k, *v;
    const um_view *mask; /* [B|1,H|1,Sq,Sk]: bool, true = attend; or of q's dtype, added to the
                            scores, where -inf masks as false does */
    const um_view *key_lengths, *query_lengths; /* [B], i32 or i64: how many keys and queries of a
                                                   sequence exist */
    const um_view
        *sinks; /* [H], f32 or q's dtype: a score in each row's softmax that has no value */
} um_attention_inputs;
/* out [B,H,Sq,Dv] = softmax(cap(scale q k^T) + mask) v over the keys that the query sees. lse
 * [B,H,Sq], f32 (f64 for f64), or NULL: log(sum(exp(scores))), the sink's among them. f64, f32,
 * f16, bf16, in f32 (f64) inside; no Sq x Sk is ever stored. desc may be NULL: all zeros.
 *
 * Positions: key j is at j; query i at i (top-left), or at i + key length - query length
 * (bottom-right: the last query at the last key, of each sequence's own lengths, as flash-attention
 * and cuDNN have it). Causal: keys up to the query's position; a window: the last so many of those,
 * also without causal, then bottom-right. Without either a query sees each key that exists.
 * A key that is not seen does not exist: a NaN in it, its value or its score reaches nothing. A
 * query that sees none, and one beyond the query length, gives out = 0, and lse = -inf or its sink.
 * NaN and infinities otherwise follow IEEE: a row with a score of +inf, or of none but -inf, is
 * NaN.
 *
 * INVALID_ARGUMENT: dtypes or shapes that do not fit, a scale, softcap or window that is negative
 * or not finite (scale may be negative). A length on the device that is not in 0 .. Sk (Sq) counts
 * as the nearest that is, and the stream's error becomes OUT_OF_RANGE. */
UM_API UM_MUST_CHECK um_status um_attention_forward(um_stream *stream,
                                                    const um_attention_desc *desc,
                                                    const um_attention_inputs *in,
                                                    const um_view *out, const um_view *lse);
/* Shaped as what they are gradients of, and of its dtype; they overwrite. mask (of a float mask;
 * summed over what it is broadcast to) and sinks may be NULL: not wanted. */
typedef struct um_attention_grads {
    const um_view *q, *k, *v, *mask, *sinks;
} um_attention_grads;
/* From dout, and the forward call's desc, inputs, out and lse. Scores are computed again, tile by
 * tile. Where no key is seen all gradients are 0. The same bits for any number of threads. */
UM_API UM_MUST_CHECK um_status um_attention_backward(
    um_stream *stream, const um_attention_desc *desc, const um_attention_inputs *in,
    const um_view *out, const um_view *lse, const um_view *dout, const um_attention_grads *grads);

/* ---- softmax and normalisation ------------------------------------------------------------------
 */

/* y = exp(x - max) / sum along axis, or its logarithm; a row of -inf gives NaN. f64, f32, f16,
 * bf16. dx from y and dy. */
UM_API UM_MUST_CHECK um_status um_softmax_forward(um_stream *stream, int32_t axis, const um_view *x,
                                                  const um_view *y);
UM_API UM_MUST_CHECK um_status um_softmax_backward(um_stream *stream, int32_t axis,
                                                   const um_view *y, const um_view *dy,
                                                   const um_view *dx);
UM_API UM_MUST_CHECK um_status um_log_softmax_forward(um_stream *stream, int32_t axis,
                                                      const um_view *x, const um_view *y);
UM_API UM_MUST_CHECK um_status um_log_softmax_backward(um_stream *stream, int32_t axis,
                                                       const um_view *y, const um_view *dy,
                                                       const um_view *dx);

/* y = (x - mean) * inverse * w + b, inverse = 1 / sqrt(var + eps), var the biased variance, of
 *
 *   rms_norm       the last axis, with mean = 0, var = mean(x^2), no b; w [D]
 *   layer_norm     the last `dims` axes (0: 1); w and b of their shape, statistics of the others'
 *   group_norm     C / groups channels of a sample and all their places; x [N,C,...], w and b [C],
 *                  statistics [N,groups]; groups 0: 1
 *   instance_norm  group_norm with a group a channel
 *   batch_norm     a channel of all samples; x [N,C,...], w, b and statistics [C]
 *
 * f64, f32, f16, bf16; statistics are f32, of f64 f64, and safe for large offsets and magnitudes.
 * INVALID_ARGUMENT: eps < 0, groups that do not divide C, shapes or dtypes that do not fit. */
typedef struct um_norm_desc {
    double eps;      /* taken as it is: 0 is 0 */
    double momentum; /* batch_norm, 0 to 1: new = momentum * old + (1 - momentum) * batch's, as ONNX
                        has it; others name the batch's share */
    int32_t dims, groups;
    int32_t layout;   /* group_norm, instance_norm, batch_norm: UM_CHANNELS_FIRST, ... */
    int32_t training; /* batch_norm: else old_mean and old_var are the statistics */
} um_norm_desc;

/* NULL: w and b are 1 and 0; outputs are not wanted. The backwards need x and the same w again,
 * not what the forward gave: statistics are taken anew (batch_norm when not in training: old_mean
 * and old_var again). */
typedef struct um_norm_views {
    const um_view *x, *w, *b;
    const um_view *y;                  /* of a forward */
    const um_view *mean, *inverse;     /* also, both or none; not of rms_norm */
    const um_view *old_mean, *old_var; /* batch_norm's running statistics, both or none */
    const um_view *new_mean, *new_var; /* ... after training, with mean and inverse wanted, too;
                                          they may lie on the old ones */
    const um_view *dy;                 /* of a backward */
    const um_view *dx;                 /* ... of a backward */
    const um_view *dw, *db;            /* also; db only with dw */
} um_norm_views;

/* What each is over, and which views it has, is said at the two structs. INVALID_ARGUMENT: v is
 * NULL. */
UM_API UM_MUST_CHECK um_status um_rms_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                                   const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_rms_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                                    const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_layer_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                                     const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_layer_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                                      const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_group_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                                     const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_group_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                                      const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_instance_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                                        const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_instance_norm_backward(um_stream *stream,
                                                         const um_norm_desc *desc,
                                                         const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_batch_norm_forward(um_stream *stream, const um_norm_desc *desc,
                                                     const um_norm_views *v);
UM_API UM_MUST_CHECK um_status um_batch_norm_backward(um_stream *stream, const um_norm_desc *desc,
                                                      const um_norm_views *v);

/* ---- indices ------------------------------------------------------------------------------------
 */

/* Indices are i32 or i64, on the device; one out of range (negative too): the element reads as 0 or
 * is dropped, the rest is done, and the stream's error becomes OUT_OF_RANGE (an op that runs on
 * another device is not done at all, see umbel/select.h). Host indices are checked with
 * um_check_indices before they are copied to the device. Any dtype of integers, bool, f64, f32, f16
 * and bf16, unless said otherwise. */

/* OUT_OF_RANGE: one of the count indices is not in 0 .. size - 1. */
UM_API UM_MUST_CHECK um_status um_check_indices(um_dtype dtype, const void *indices, int64_t count,
                                                int64_t size);
/* y[i..] = x[i..] with the index along axis replaced by indices[i..]. indices and y are of one
 * shape, of x's rank and no larger than x but along axis. */
UM_API UM_MUST_CHECK um_status um_gather_view(um_stream *stream, int32_t axis, const um_view *x,
                                              const um_view *indices, const um_view *y);
/* The other way round, in place: y[i.. with indices[i..] along axis] takes values[i..], in the
 * order of the indices: assigned, so that the last stays, added, multiplied, smaller, larger (NaN
 * wins). Floats add up and multiply in f64 and round once. bool has no add and no mul. */
UM_API UM_MUST_CHECK um_status um_scatter_view(um_stream *stream, int32_t axis,
                                               um_scatter_mode mode, const um_view *indices,
                                               const um_view *values, const um_view *y);
/* y = whole slices of x along axis, by indices [I]. */
UM_API UM_MUST_CHECK um_status um_index_select_view(um_stream *stream, int32_t axis,
                                                    const um_view *x, const um_view *indices,
                                                    const um_view *y);
/* y's slices along axis, in place, plus the values' slices. No bool. */
UM_API UM_MUST_CHECK um_status um_index_add_view(um_stream *stream, int32_t axis,
                                                 const um_view *indices, const um_view *values,
                                                 const um_view *y);
/* indices [.., Q]: each row is an index into x's first Q axes; y [.., x's other axes]. */
UM_API UM_MUST_CHECK um_status um_gather_nd_view(um_stream *stream, const um_view *x,
                                                 const um_view *indices, const um_view *y);
/* As um_scatter_view with such indices; values [.., y's other axes]. */
UM_API UM_MUST_CHECK um_status um_scatter_nd_view(um_stream *stream, um_scatter_mode mode,
                                                  const um_view *indices, const um_view *values,
                                                  const um_view *y);
/* y [ids' shape, row] = rows of table [N, row] by ids of any shape. */
UM_API UM_MUST_CHECK um_status um_embedding_forward(um_stream *stream, const um_view *table,
                                                    const um_view *ids, const um_view *y);
/* dtable = 0, then dtable[ids] += dy. Floats, added in f64 and rounded once. */
UM_API UM_MUST_CHECK um_status um_embedding_backward(um_stream *stream, const um_view *dy,
                                                     const um_view *ids, const um_view *dtable);
/* y [indices' shape, depth]: 1 where the index is, else 0; a bad index gives a row of 0. */
UM_API UM_MUST_CHECK um_status um_one_hot_view(um_stream *stream, const um_view *indices,
                                               const um_view *y);
/* The row-major positions of x != 0 (NaN is) as indices, i64 [room, x's rank], -1 in the rows that
 * are left; count, i64 [1] or NULL: how many there are, also beyond the room. */
UM_API UM_MUST_CHECK um_status um_nonzero_view(um_stream *stream, const um_view *x,
                                               const um_view *indices, const um_view *count);

/* ---- pooling and resizing ---------------------------------------------------------------------
 */

/* Over 1 to 3 spatial axes; x [N,C,...], y [N,C,...]. Strides of 0 mean the kernel's size,
 * dilations of 0 mean 1; adaptive (y's sizes of 1: global) looks at the layout only.
 * INVALID_ARGUMENT: a kernel, stride or dilation < 1, negative padding, a window larger than the
 * padded input, shapes that do not fit, windows on an empty axis. */
/* Padding is -inf (the type's lowest) and NaN wins. indices: i64, y's shape, NULL: not wanted:
 * where in its channel each maximum is, the spatial axes taken as one: the lowest place of equals,
 * the first NaN's, -1 for a window wholly in padding. f64, f32, f16, bf16, integers. */
UM_API UM_MUST_CHECK um_status um_max_pool_forward(um_stream *stream, const um_pool_desc *desc,
                                                   const um_view *x, const um_view *y,
                                                   const um_view *indices);
/* Gradients have the same desc, and overwrite; dx has x's shape. An index outside the channel (-1
 * aside, which is none) is dropped and makes the stream's error OUT_OF_RANGE. */
UM_API UM_MUST_CHECK um_status um_max_pool_backward(um_stream *stream, const um_pool_desc *desc,
                                                    const um_view *dy, const um_view *indices,
                                                    const um_view *dx);
/* A window wholly in padding gives 0. f64, f32, f16, bf16. */
UM_API UM_MUST_CHECK um_status um_avg_pool_forward(um_stream *stream, const um_pool_desc *desc,
                                                   const um_view *x, const um_view *y);
UM_API UM_MUST_CHECK um_status um_avg_pool_backward(um_stream *stream, const um_pool_desc *desc,
                                                    const um_view *dy, const um_view *dx);

/* Other spatial sizes: x [N,C,...] to y's, by um_resize_desc's rule along each axis. f64, f32, f16,
 * bf16. INVALID_ARGUMENT: an empty axis to one that is not. */
UM_API UM_MUST_CHECK um_status um_resize_forward(um_stream *stream, const um_resize_desc *desc,
                                                 const um_view *x, const um_view *y);
UM_API UM_MUST_CHECK um_status um_resize_backward(um_stream *stream, const um_resize_desc *desc,
                                                  const um_view *dy, const um_view *dx);

/* ---- sorting ------------------------------------------------------------------------------------
 */

/* Along axis, rising or falling; stable in both directions, NaN the largest, both zeros equal. Any
 * dtype of integers, bool, f64, f32, f16 and bf16. values (x's dtype) or indices (i64, where along
 * the axis they were) may be NULL. */
UM_API UM_MUST_CHECK um_status um_sort_view(um_stream *stream, int32_t axis, bool descending,
                                            const um_view *x, const um_view *values,
                                            const um_view *indices);
/* The first k of that: k is the outputs' size along axis. The largest first, or the smallest. */
UM_API UM_MUST_CHECK um_status um_topk_view(um_stream *stream, int32_t axis, bool smallest,
                                            const um_view *x, const um_view *values,
                                            const um_view *indices);

/* ---- random numbers -----------------------------------------------------------------------------
 */

typedef int32_t um_random_kind;
enum {
    UM_RANDOM_UNIFORM = 0,    /* floats: a + u (b - a), u in [0, 1); a = b = 0: [0, 1) */
    UM_RANDOM_NORMAL = 1,     /* floats: mean a, deviation b (0: 1); Box-Muller */
    UM_RANDOM_BERNOULLI = 2,  /* 1 with probability a, else 0 */
    UM_RANDOM_BITS = 3,       /* integers: every bit pattern */
    UM_RANDOM_PERMUTATION = 4 /* i32 or i64, rank 1: 0 .. n-1 in random order */
};
/* Philox 4x32-10: 32-bit word j is word j mod 4 for the counter offset + j / 4 and the key seed.
 * Element i of the row-major output takes word i, of f64, 64-bit integers and permutations words 2i
 * and 2i + 1; normal numbers are made in pairs. Same seed and offset, same bits on every backend
 * (normal: within 2 ulp). For numbers that go on where the last call ended, advance offset by
 * (words + 3) / 4. */
typedef struct um_random_desc {
    um_random_kind kind;
    uint64_t seed, offset;
    double a, b;
} um_random_desc;
UM_API UM_MUST_CHECK um_status um_random_view(um_stream *stream, const um_random_desc *desc,
                                              const um_view *y);
/* y = x / (1 - p) where the word is not below p 2^32, else 0 (whatever x is); in place too. mask:
 * bool, where x was kept; may be NULL. 0 <= p <= 1. The gradient: the same call on dy. Floats. */
UM_API UM_MUST_CHECK um_status um_dropout_view(um_stream *stream, uint64_t seed, uint64_t offset,
                                               double p, const um_view *x, const um_view *y,
                                               const um_view *mask);

/* ---- quantization -------------------------------------------------------------------------------
 */

/* scale (f32, f64 where x is f64) and zero (q's dtype, NULL: 0) hold one value (rank 0), one an
 * index of `axis` (rank 1), or, with `block`, one a block of that many elements along axis: x's
 * shape with ceil(size / block) along axis. */
typedef struct um_quant_desc {
    int32_t axis;
    int32_t bits;  /* 0: the dtype's; 4: of i8 -8 .. 7, of u8 0 .. 15, one element a byte */
    int64_t block; /* 0: none */
} um_quant_desc;
/* q (i8, u8, i16, u16) = saturate(round_to_even(x / scale) + zero); where x is NaN or scale is 0, x
 * counts as 0. q (fp8) = x / scale, 0 where scale is 0, by um_convert's rules; no zero. x: f64,
 * f32, f16, bf16. desc may be NULL: all zeros. */
UM_API UM_MUST_CHECK um_status um_quantize_view(um_stream *stream, const um_quant_desc *desc,
                                                const um_view *x, const um_view *scale,
                                                const um_view *zero, const um_view *q);
/* x = (q - zero) * scale, in f32 (f64 for f64), then rounded to x's dtype. */
UM_API UM_MUST_CHECK um_status um_dequantize_view(um_stream *stream, const um_quant_desc *desc,
                                                  const um_view *q, const um_view *scale,
                                                  const um_view *zero, const um_view *x);

#ifdef __cplusplus
}
#endif
#endif
