/* umbel/op.h: the op descriptor every call of either face becomes, and the op table.
 *
 * A um_op says what to compute, on which views, with which attributes. Its rules are checked once,
 * by um_op_check, before any backend sees it. um_enqueue (umbel/device.h) runs one.
 */
#ifndef UMBEL_OP_H
#define UMBEL_OP_H

#include <umbel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UM_MAX_RANK       8
#define UM_OP_MAX_INPUTS  10
#define UM_OP_MAX_OUTPUTS 5
#define UM_MAP_MAX_INPUTS 8 /* of a fused elementwise program */
#define UM_MAP_MAX_INSTS  24

/* An address in some device's memory. Arithmetic on it counts bytes; any address inside a live
 * allocation is legal. */
typedef uint64_t um_ptr;

/* A strided window on memory. Element (i0, i1, ...) is at ptr + sum(i * stride) elements. Strides
 * may be 0 (inputs only) or negative. ptr is a multiple of the dtype's bytes; a 4-bit dtype needs
 * it at a whole byte, i.e. an even element. */
typedef struct um_view {
    um_ptr ptr; /* of element (0, 0, ...) */
    um_dtype dtype;
    int32_t rank; /* 0 (one element) to 8 */
    int64_t shape[UM_MAX_RANK];
    int64_t stride[UM_MAX_RANK]; /* in elements */
} um_view;

typedef int32_t um_op_id;
enum {
    UM_OP_NONE = 0,
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)        \
    UM_OP_##NAME = id,
#include <umbel/op.def>
};

/* Axes as bits. UM_AXIS counts from the front (0..7) or, negative, from the back (-1..-8). No bit
 * set: every axis. */
#define UM_AXIS(i)  ((uint32_t)1 << ((uint32_t)(i)&31u))
#define UM_ALL_AXES ((uint32_t)0)

/* One step of a fused elementwise program: value (input_count + own index) = op(values
 * src[0..arity-1]). Values 0 .. input_count - 1 are the op's inputs, converted to the program's
 * dtype as they are loaded. */
typedef struct um_map_inst {
    uint16_t op;    /* a MAP-family op with arity 1, 2 or 3, or UM_OP_FILL: the constant `value`,
                       converted to the program's dtype */
    uint8_t src[3]; /* value numbers, each less than this instruction's own */
    uint8_t reserved;
    double value; /* FILL's constant; attrs.map.a of elu and leaky_relu */
} um_map_inst;

/* The last instruction's value is converted to the output's dtype. Arithmetic is in `dtype`: float
 * programs keep f32 (f64 for f64) between steps and round once at the end; integer values wrap to
 * `dtype` after each step; comparisons and logical ops yield 0 or 1. Intermediates are never
 * stored. */
typedef struct um_map_program {
    um_dtype dtype;
    int32_t inst_count; /* 1 to UM_MAP_MAX_INSTS */
    um_map_inst inst[UM_MAP_MAX_INSTS];
} um_map_program;

enum { UM_ROPE_INTERLEAVED = 0, UM_ROPE_HALF_SPLIT = 1 };
enum { UM_CAUSAL_NONE = 0, UM_CAUSAL_BOTTOM_RIGHT = 1, UM_CAUSAL_TOP_LEFT = 2 };

/* What a scatter does with a value and the element it meets: y = value, y + value, y * value,
 * min(y, value), max(y, value). */
typedef int32_t um_scatter_mode;
enum {
    UM_SCATTER_ASSIGN = 0,
    UM_SCATTER_ADD = 1,
    UM_SCATTER_MUL = 2,
    UM_SCATTER_MIN = 3,
    UM_SCATTER_MAX = 4
};

/* What a copy to a float of another dtype makes of numbers that round to more than its largest:
 * what um_convert does; the largest; infinity, or NaN in a type without (f8e4m3fn and the FNUZ
 * types; FP4 and FP6 have neither and saturate). Infinities count as such numbers, NaN does not. */
typedef int32_t um_overflow;
enum { UM_OVERFLOW_CONVERT = 0, UM_OVERFLOW_SATURATE = 1, UM_OVERFLOW_SPECIAL = 2 };

enum { UM_CHANNELS_FIRST = 0, UM_CHANNELS_LAST = 1 }; /* NCHW, NHWC and their 1-D and 3-D kin */

/* Spatial axes in order (W; H W; D H W): as many as the tensors' rank less 2; what stands beyond
 * them is not looked at. */
typedef struct um_conv_desc {
    int32_t layout;                      /* of all but the filter, which is [K, C/G, ...] in both */
    int32_t groups;                      /* divides C and K */
    int32_t stride[3], dilation[3];      /* 1 or more */
    int32_t pad_before[3], pad_after[3]; /* of the wide side, 0 or more */
    int32_t transposed;                  /* the gradient's direction as the forward one */
    int32_t output_padding[3];           /* transposed only: more at the end, less than stride */
} um_conv_desc;

/* Spatial axes as in um_conv_desc. A window's places are kernel, dilation apart, stride from the
 * window before. */
typedef struct um_pool_desc {
    int32_t layout;                            /* UM_CHANNELS_FIRST, ... */
    int32_t kernel[3], stride[3], dilation[3]; /* 1 or more */
    int32_t pad_before[3], pad_after[3];       /* 0 or more */
    int32_t ceil_mode;         /* a last window may reach past the padding; none starts past x */
    int32_t count_include_pad; /* average: divides by the window's places in the padded extent, else
                                  by those in x */
    int32_t adaptive; /* instead of all of the above but layout: along an axis of n places y's o'th
                         window is floor(o n / count) .. ceil((o + 1) n / count) - 1 */
} um_pool_desc;

enum { UM_RESIZE_NEAREST = 0, UM_RESIZE_LINEAR = 1, UM_RESIZE_CUBIC = 2 };

/* Place o of y, of `out` places, lies at s in x's `in`: (o + 1/2) in / out - 1/2, or o (in - 1) /
 * (out - 1) with align_corners (0 when out is 1). Nearest takes floor(o in / out) in any case;
 * linear floor(s) and the next, cubic one more on either side, by their distance; s < 0 counts as 0
 * for linear, and places beyond x are its first and last. */
typedef struct um_resize_desc {
    int32_t layout; /* UM_CHANNELS_FIRST, ... */
    int32_t mode;
    int32_t align_corners;
} um_resize_desc;

typedef struct um_attention_desc {
    double scale;   /* 0: 1 / sqrt(D) */
    int32_t causal; /* UM_CAUSAL_NONE, _BOTTOM_RIGHT, _TOP_LEFT */
    int32_t reserved;
    int64_t window; /* 0: none; else a query sees that many keys up to and including its own
                       position, and none after it: bottom-right without `causal` */
    double softcap; /* 0: none; else scores become softcap * tanh(score / softcap) */
} um_attention_desc;

/* The attributes of each op. Ops that are not named here have none. */
typedef union um_attrs {
    struct {
        double a; /* elu, leaky_relu: the slope below 0 */
    } map;
    const um_map_program *program; /* map; read during the call only, never kept */
    struct {
        uint32_t axes; /* UM_AXIS bits; 0 is every axis (argmax, argmin: exactly one bit, or 0 for
                          the flattened input) */
        int32_t keepdims;
        double correction;                         /* var, std: divisor is count - correction */
        const um_map_program *prologue, *epilogue; /* sum .. std; NULL: none; see below */
    } reduce;
    struct {
        int32_t axis; /* cumsum, cumprod, cummax, softmax, log_softmax and their backwards; negative
                         counts from the back */
    } axis;
    struct {
        double f;  /* fill's value for a float output */
        int64_t i; /* ... for an integer or bool output (u64: the same bits) */
    } fill;
    struct {
        um_overflow overflow;
    } copy;
    struct {
        double start, step;      /* arange, float output */
        int64_t i_start, i_step; /* ... integer output, wraps */
    } arange;
    struct {
        double start, stop;
    } linspace;
    struct {
        double alpha, beta;  /* of 8-bit integers: integers up to 2^53 */
        um_dtype round_to;   /* f16, bf16, an 8-bit float: f32 operands are rounded to it; 0: not */
        um_op_id activation; /* a MAP op of one float to its own dtype; 0: none */
        double a;            /* elu, leaky_relu */
        double scale;        /* 0: 1 */
        const um_map_program *epilogue; /* NULL: none; see below */
    } matmul;
    struct {
        double eps;
        double momentum;  /* batch_norm: how much of the running statistics stays */
        int32_t dims;     /* layer_norm: the trailing axes that one line has, 1 or more */
        int32_t groups;   /* group_norm: divides C */
        int32_t layout;   /* group_norm, batch_norm: UM_CHANNELS_FIRST, ... */
        int32_t training; /* batch_norm: statistics of the batch, not the given ones */
    } norm;               /* rms_norm has eps alone */
    struct {
        double theta;   /* base of the frequencies, > 0 */
        int64_t offset; /* position of row 0, when no ids are given */
        int32_t layout; /* UM_ROPE_INTERLEAVED: pairs (2i, 2i+1); HALF_SPLIT: (i, i + dims/2) */
        int32_t dims;   /* leading dims that turn, even; 0: all of D */
    } rope;
    um_attention_desc attention; /* attention and its backward */
    um_conv_desc conv;           /* conv, conv_backward_data, conv_backward_filter */
    struct {
        um_conv_desc desc;              /* the same: conv */
        const um_map_program *epilogue; /* conv alone; NULL: none; see below */
    } conv_fused;
    struct {
        int32_t axis; /* gather, scatter, index_select, index_add; negative counts from the back */
        um_scatter_mode mode; /* scatter, scatter_nd: UM_SCATTER_ASSIGN, ... */
        int64_t count; /* rows of embedding_backward's result, depth of one_hot, room of nonzero */
    } index;
    um_pool_desc pool;     /* max_pool, avg_pool and their backwards */
    um_resize_desc resize; /* resize, resize_backward */
    struct {
        int32_t axis;       /* sort, argsort, topk, arg_topk; negative counts from the back */
        int32_t descending; /* sort, argsort; topk, arg_topk: the largest, else the smallest */
        int64_t k;          /* topk, arg_topk */
    } sort;
    struct {
        uint64_t seed, offset; /* Philox key and first counter, see op.def */
        double a, b; /* uniform: the ends; normal: mean, deviation; bernoulli, dropout: a is the
                        probability */
    } random;
    struct {
        int32_t axis;  /* quantize, dequantize: of scales a slice or a block */
        int32_t bits;  /* 0: the dtype's; 4 of i8 and u8 */
        int64_t block; /* elements along axis that share a scale; 0: no blocks */
    } quant;
    int64_t raw[10];
} um_attrs;

/* matmul: out = scale * (activation(alpha * a b + beta * c + bias) + residual), in f32 (f64 of
 * f64), rounded once; inputs a, b, c, bias, residual. The last three are optional (in the middle of
 * the list: rank 1, no elements) and of the output's shape; a bias over rows or columns has strides
 * of 0. c has the output's dtype, bias and residual that or f32. Of 8-bit integers all wraps to
 * i32, and there is no activation and no scale. */
/* Programs may ride on an op. A reduction with a prologue reduces what that makes of each element
 * of x; with an epilogue the output is what that makes of each result of the reduction, matmul or
 * convolution. Like map's they are read during the call only, never kept.
 *
 * A program's value 0 is the element, or the result: floats in what the op computes in, f32 (f64 of
 * f64), not rounded to a narrower dtype on the way; integers as their dtype has them. Its other
 * inputs follow the op's own, those of the most that the op has: from input 1 of a reduction, 5 of
 * matmul, 3 of conv (own ones in between that are left out: rank 1, no elements). They are numbered
 * as the op's inputs are, and the first instruction's value is in_count, as in map. An input that
 * the prologue reads has x's shape, one that the epilogue reads the output's, broadcast by strides
 * of 0; each is read by some program, and no program reads more than UM_MAP_MAX_INPUTS values,
 * value 0 among them.
 *
 * A reduction with a prologue is one of the prologue's dtype. The output of an op with a program
 * has the dtype that the caller names, one that map may have, and is rounded to it once. So f32,
 * f64 and integers become what the ops one after the other make of them, by the same bounds; f16
 * and bf16 lose less. The output may be an input of the epilogue exactly in place. */
/* Inputs of MAP ops have the output's shape and one dtype (where: a bool condition first; map: any
 * dtypes); an input is broadcast by strides of 0. */
/* Trailing outputs that an op has beyond the first are optional: out_count says how many are
 * wanted. An input or output in the middle of the list is left out as a view of rank 1 and size 0.
 */
typedef struct um_op {
    um_op_id id;
    int32_t in_count;
    int32_t out_count;
    int32_t reserved;
    um_attrs attrs;
    um_view out[UM_OP_MAX_OUTPUTS];
    um_view in[UM_OP_MAX_INPUTS]; /* last, so that copying an op can stop at in_count */
} um_op;

/* The number of rows; valid ids are 1 .. um_op_count(). */
UM_API int32_t um_op_count(void);
/* The op's name ("matmul"), or "none". Never NULL. */
UM_API const char *um_op_name(um_op_id id);
/* The id with that name, or UM_OP_NONE. */
UM_API um_op_id um_op_find(const char *name);
/* One line on what it computes, or "". Never NULL. */
UM_API const char *um_op_doc(um_op_id id);

/* Sets dtype, rank, shape and row-major strides of every op->out from the inputs and attributes;
 * ptr stays. For ops with a FREE result or a program the caller sets out[].dtype (and, for fill,
 * arange and linspace, rank and shape) first; for conv_backward_*, adaptive and backward pools and
 * resize rank and shape. INVALID_ARGUMENT with who, what, got, wanted when the inputs break the
 * op's rule. Touches no memory. */
UM_API UM_MUST_CHECK um_status um_op_infer(um_op *op);

/* Checks a complete op: counts, ranks, sizes (overflow is an error), dtypes, shapes, attributes,
 * outputs whose elements overlap each other, outputs that overlap an input (exactly in place is
 * legal for MAP ops, inputs of epilogues and copy of equal-sized dtypes; matmul's c or residual may
 * be its output).
 * Looks at no memory and at no device. INVALID_ARGUMENT with a message; otherwise OK. */
UM_API UM_MUST_CHECK um_status um_op_check(const um_op *op);

/* A row-major view. Strides are set; with overflowing sizes INVALID_ARGUMENT and an all-zero *out.
 */
UM_API UM_MUST_CHECK um_status um_view_make(um_ptr ptr, um_dtype dtype, int32_t rank,
                                            const int64_t *shape, um_view *out);

/* Views of views: another look at the same memory, no op and no copy. out may be x. Each gives
 * INVALID_ARGUMENT and an all-zero *out for an x that is no view (rank, sizes, dtype), what does
 * not fit it, strides that overflow, or a 4-bit view that would start in the middle of a byte. */
/* Elements start, start + step, ... before (step > 0) or after (step < 0) stop along axis, as
 * Python's x[start:stop:step]: negative start and stop count from the end, beyond the ends is
 * clipped; INT64_MAX and INT64_MIN stand for "the end". step != 0. */
UM_API UM_MUST_CHECK um_status um_view_slice(const um_view *x, int32_t axis, int64_t start,
                                             int64_t stop, int64_t step, um_view *out);
/* Axis i of the result is axis axes[i] of x: all of x's, each once. */
UM_API UM_MUST_CHECK um_status um_view_permute(const um_view *x, const int32_t *axes, um_view *out);
/* Back to front along the axes (UM_AXIS bits; 0: all). */
UM_API UM_MUST_CHECK um_status um_view_flip(const um_view *x, uint32_t axes, um_view *out);
/* To a larger shape as NumPy broadcasts: axes of size 1, and those that x lacks in front, repeat by
 * strides of 0. */
UM_API UM_MUST_CHECK um_status um_view_broadcast(const um_view *x, int32_t rank,
                                                 const int64_t *shape, um_view *out);

/* The number of elements; 1 for rank 0. The view must be valid (um_op_check, um_view_make). */
UM_API int64_t um_view_count(const um_view *view);

#ifdef __cplusplus
}
#endif
#endif
