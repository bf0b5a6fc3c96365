/* umbel/tensor.h: lazy n-dimensional tensors.
 *
 * An op call records a node; reading a tensor (or um_realize) computes what it needs, fused. Ops
 * TAKE their tensor arguments; pass um_ref(x) to keep x. Every op returns a tensor, never NULL: a
 * failed one is an error tensor, ops on it give error tensors with the same first error, and
 * reading it returns that error. So a chain is checked once, at its end.
 *
 *     um_tensor *y = um_relu(um_add(um_matmul(um_ref(x), um_ref(w)), um_ref(b)));
 *     um_status s = um_read_f32(y, out, count);    // computes
 *     um_release(y);
 *
 * C evaluates arguments in any order, so an expression that uses x in several calls passes
 * um_ref(x) to all of them: um_matmul(um_ref(x), um_transpose(um_ref(x), 0, 1)), and releases x
 * after it.
 *
 * All of a device's tensors share one stream. Where an op finds out late that it fails (of a bad
 * index, OUT_OF_RANGE), whatever was computed or uploaded since the last read that went well is
 * lost with it, for all threads: reading such a tensor gives that error, now and later; newer ones
 * are good.
 *
 * Different tensors may be used in parallel threads, one tensor (with what it was made from) from
 * one at a time. Shapes broadcast as NumPy's do. Binary ops promote dtypes by the Python array
 * API's table; a mix that table does not have is an error. Letters: R the rank.
 */
#ifndef UMBEL_TENSOR_H
#define UMBEL_TENSOR_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct um_tensor um_tensor;

/* ---- ownership and looking ---------------------------------------------------------------- */

UM_API UM_GIVE um_tensor *um_ref(UM_KEEP um_tensor *x); /* one reference more; returns x */
UM_API void um_release(UM_TAKE um_tensor *x);           /* NULL is legal */

/* What it is, without computing it. Of an error tensor: UM_DTYPE_NONE, rank 0. */
UM_API um_dtype um_tensor_dtype(UM_KEEP const um_tensor *x);
UM_API int32_t um_tensor_rank(UM_KEEP const um_tensor *x);
UM_API const int64_t *um_tensor_shape(UM_KEEP const um_tensor *x); /* R sizes; lives as long as x */
UM_API int64_t um_tensor_count(UM_KEEP const um_tensor *x);        /* elements */
UM_API um_device *um_tensor_device(
    UM_KEEP const um_tensor *x); /* borrowed; NULL for an error tensor */
/* OK, or the first error of the chain (also recorded as the last error). Computes nothing. */
UM_API UM_MUST_CHECK um_status um_tensor_status(UM_KEEP const um_tensor *x);

/* ---- making ------------------------------------------------------------------------------- */

/* Copies count(shape) elements of host data, row-major, packed. data may be NULL only for zero
 * elements. */
UM_API UM_GIVE um_tensor *um_from_host(um_device *device, um_dtype dtype, int32_t rank,
                                       const int64_t *shape, const void *data);
/* Every element = value, converted. (Integers beyond 2^53: um_from_host.) */
UM_API UM_GIVE um_tensor *um_full(um_device *device, um_dtype dtype, int32_t rank,
                                  const int64_t *shape, double value);
UM_API UM_GIVE um_tensor *um_zeros(um_device *device, um_dtype dtype, int32_t rank,
                                   const int64_t *shape);
/* start, start + step, ...: count elements, rank 1. Of an integer dtype start and step must be
 * whole, and the elements wrap. */
UM_API UM_GIVE um_tensor *um_arange(um_device *device, um_dtype dtype, int64_t count, double start,
                                    double step);
/* Rank 0, dtype and device of `like`: the constant of an expression, x * 2 is um_mul(um_ref(x),
 * um_scalar(x, 2)). */
UM_API UM_GIVE um_tensor *um_scalar(UM_KEEP const um_tensor *like, double value);
/* Device memory of the caller as a tensor, no copy; it must outlive the tensor and all that was
 * made from it. */
UM_API UM_GIVE um_tensor *um_wrap(um_device *device, const um_view *view);

/* ---- computing and reading ---------------------------------------------------------------- */

/* Schedules x and what it needs; returns before the work is done. */
UM_API UM_MUST_CHECK um_status um_realize(UM_KEEP um_tensor *x);
/* The same for several, in one schedule. */
UM_API UM_MUST_CHECK um_status um_realize_all(int32_t count, UM_KEEP um_tensor *const *x);
/* Realizes, waits, and copies the elements, row-major, packed, in x's own dtype.
 * INVALID_ARGUMENT: size_bytes is not exactly x's size. */
UM_API UM_MUST_CHECK um_status um_to_host(UM_KEEP um_tensor *x, void *dst, size_t size_bytes);
/* ... converted to f32 or f64; count must be x's element count. */
UM_API UM_MUST_CHECK um_status um_read_f32(UM_KEEP um_tensor *x, float *dst, int64_t count);
UM_API UM_MUST_CHECK um_status um_read_f64(UM_KEEP um_tensor *x, double *dst, int64_t count);
/* Realizes and shows where the elements are: a view good until the last reference to x goes. Work
 * may still be under way on um_tensor_stream. */
UM_API UM_MUST_CHECK um_status um_tensor_view(UM_KEEP um_tensor *x, um_view *out);
/* The stream on which the tensor face works on this device. Borrowed. */
UM_API UM_MUST_CHECK um_status um_tensor_stream(um_device *device, um_stream **out);

/* ---- elementwise: one function a MAP row of umbel/op.def ----------------------------------- */

#define UM_TENSOR_FN_1(name) UM_API UM_GIVE um_tensor *um_##name(UM_TAKE um_tensor *x);
#define UM_TENSOR_FN_2(name)                                                                       \
    UM_API UM_GIVE um_tensor *um_##name(UM_TAKE um_tensor *a, UM_TAKE um_tensor *b);
#define UM_TENSOR_FN_3(name)                                                                       \
    UM_API UM_GIVE um_tensor *um_##name(UM_TAKE um_tensor *a, UM_TAKE um_tensor *b,                \
                                        UM_TAKE um_tensor *c);
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc) UM_TENSOR_FN_##arity(name)
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#include <umbel/op.def>

/* elu and leaky_relu above use a = 1 and a = 0.01; these name it. */
UM_API UM_GIVE um_tensor *um_elu_with(UM_TAKE um_tensor *x, double a);
UM_API UM_GIVE um_tensor *um_leaky_relu_with(UM_TAKE um_tensor *x, double a);
UM_API UM_GIVE um_tensor *um_cast(UM_TAKE um_tensor *x, um_dtype dtype);

/* ---- reductions: axes are UM_AXIS bits, 0 is all ------------------------------------------- */

UM_API UM_GIVE um_tensor *um_sum(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_mean(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_prod(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_reduce_max(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_reduce_min(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_any(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_all(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_argmax(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_argmin(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_logsumexp(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_l1(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_l2(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims);
UM_API UM_GIVE um_tensor *um_var(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims,
                                 double correction);
UM_API UM_GIVE um_tensor *um_std(UM_TAKE um_tensor *x, uint32_t axes, bool keepdims,
                                 double correction);
UM_API UM_GIVE um_tensor *um_cumsum(UM_TAKE um_tensor *x, int32_t axis);
UM_API UM_GIVE um_tensor *um_cumprod(UM_TAKE um_tensor *x, int32_t axis);
UM_API UM_GIVE um_tensor *um_cummax(UM_TAKE um_tensor *x, int32_t axis);

/* ---- moving: views, no data moves unless it says so ---------------------------------------- */
/* f4e2m1 has two elements to a byte: where a view, or a block that is copied, starts at an odd
 * element of memory, reading it fails (INVALID_ARGUMENT, UNSUPPORTED). */

/* One size may be -1. Copies when x's strides do not allow a view. */
UM_API UM_GIVE um_tensor *um_reshape(UM_TAKE um_tensor *x, int32_t rank, const int64_t *shape);
/* Axis i of the result is axis perm[i] of x. */
UM_API UM_GIVE um_tensor *um_permute(UM_TAKE um_tensor *x, const int32_t *perm);
UM_API UM_GIVE um_tensor *um_transpose(UM_TAKE um_tensor *x, int32_t axis_a, int32_t axis_b);
/* Elements start, start + step, ... before (step > 0) or after (step < 0) stop, as Python's
 * x[start:stop:step]: negative start and stop count from the end, beyond the ends is clipped;
 * INT64_MAX / INT64_MIN stand for "the end". step != 0. */
UM_API UM_GIVE um_tensor *um_slice(UM_TAKE um_tensor *x, int32_t axis, int64_t start, int64_t stop,
                                   int64_t step);
/* Broadcast to the shape, NumPy's rules. */
UM_API UM_GIVE um_tensor *um_expand(UM_TAKE um_tensor *x, int32_t rank, const int64_t *shape);
UM_API UM_GIVE um_tensor *um_flip(UM_TAKE um_tensor *x, uint32_t axes);
UM_API UM_GIVE um_tensor *um_squeeze(UM_TAKE um_tensor *x, int32_t axis);
UM_API UM_GIVE um_tensor *um_unsqueeze(UM_TAKE um_tensor *x, int32_t axis);
/* A packed row-major copy, or x itself when it is one. */
UM_API UM_GIVE um_tensor *um_contiguous(UM_TAKE um_tensor *x);
/* Copies. All dtypes equal, shapes equal but for the axis. */
UM_API UM_GIVE um_tensor *um_concat(int32_t count, UM_TAKE um_tensor *const *x, int32_t axis);
/* Copies. before and after: R counts >= 0. */
UM_API UM_GIVE um_tensor *um_pad(UM_TAKE um_tensor *x, const int64_t *before, const int64_t *after,
                                 double value);
/* Copies. x repeated repeats[i] >= 0 times along axis i. */
UM_API UM_GIVE um_tensor *um_tile(UM_TAKE um_tensor *x, const int64_t *repeats);
/* Copies. Element i moves to (i + shift) mod size. */
UM_API UM_GIVE um_tensor *um_roll(UM_TAKE um_tensor *x, int32_t axis, int64_t shift);
/* x with the block at `starts` (R of them) replaced by value (same rank and dtype, fits inside). In
 * place when the call holds the only reference to x, else on a copy: so `cache = um_update(cache,
 * v, starts)` appends in place. */
UM_API UM_GIVE um_tensor *um_update(UM_TAKE um_tensor *x, UM_TAKE um_tensor *value,
                                    const int64_t *starts);

/* ---- linear algebra and layers -------------------------------------------------------------- */

/* NumPy's matmul: vectors, batch broadcast. */
UM_API UM_GIVE um_tensor *um_matmul(UM_TAKE um_tensor *a, UM_TAKE um_tensor *b);
/* x [..., I] times the transpose of w [O, I], plus b [O] unless it is NULL: the layer as
 * checkpoints store it. */
UM_API UM_GIVE um_tensor *um_linear(UM_TAKE um_tensor *x, UM_TAKE um_tensor *w,
                                    UM_TAKE um_tensor *b);
UM_API UM_GIVE um_tensor *um_softmax(UM_TAKE um_tensor *x, int32_t axis);
UM_API UM_GIVE um_tensor *um_log_softmax(UM_TAKE um_tensor *x, int32_t axis);
/* Over the last axis D; w [D] may be NULL. */
UM_API UM_GIVE um_tensor *um_rms_norm(UM_TAKE um_tensor *x, UM_TAKE um_tensor *w, double eps);
/* table [N, ...] rows by ids (i32, i64) of any shape. */
UM_API UM_GIVE um_tensor *um_embedding(UM_TAKE um_tensor *table, UM_TAKE um_tensor *ids);

typedef struct um_rope_desc {
    double theta;   /* 0: 10000 */
    int64_t offset; /* position of row 0; not used with ids */
    int32_t layout; /* UM_ROPE_INTERLEAVED, UM_ROPE_HALF_SPLIT */
    int32_t dims;   /* 0: all */
} um_rope_desc;
/* x [..., S, D]; ids [S] (i32, i64) may be NULL; desc NULL: all zero. */
UM_API UM_GIVE um_tensor *um_rope(UM_TAKE um_tensor *x, UM_TAKE um_tensor *ids,
                                  const um_rope_desc *desc);

/* q [B,H,Sq,D], k [B,Hkv,Sk,D], v [B,Hkv,Sk,Dv], H a multiple of Hkv -> [B,H,Sq,Dv]. mask may be
 * NULL: bool (true = attend) or float (added), [B|1,H|1,Sq,Sk]. A row that sees no key gives 0.
 * desc NULL: all zero. */
UM_API UM_GIVE um_tensor *um_attention(UM_TAKE um_tensor *q, UM_TAKE um_tensor *k,
                                       UM_TAKE um_tensor *v, UM_TAKE um_tensor *mask,
                                       const um_attention_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
