/* op/rule.h: what the family files share with table.c: the prototypes of every rule, failing with
 * the op's name, and building samples (sample.c). Included inside src/op/ only. */
#ifndef UM_OP_RULE_H
#define UM_OP_RULE_H

#include "op/table.h"

/* Room for um_view_text of any view. */
#define UM_VIEW_TEXT 200

/* ---- views (view.c) ------------------------------------------------------------------------- */

/* What is wrong with dtype, rank or sizes, as the end of a sentence about the view; NULL: nothing.
 * Sizes of 0 count as 1, so that every partial product of sizes, in bytes too, is known to fit. */
const char *um_view_fault(const um_view *view);
/* Sets row-major strides. The view has no fault. */
void um_view_pack(um_view *view);
bool um_shapes_equal(const um_view *a, const um_view *b);
/* i32 or i64. */
bool um_dtype_is_index(um_dtype dtype);

/* ---- the rules: see um_op_row -------------------------------------------------------------- */

#define UM_RULE(rule)                                                                              \
    um_status um_infer_##rule(const um_op *op, um_view *out);                                      \
    bool um_sample_##rule(int32_t index, um_dtype dtype, um_sample *sample);
UM_RULE(map)
UM_RULE(program)
UM_RULE(reduce)
UM_RULE(reduce_arg)
UM_RULE(scan)
UM_RULE(copy)
UM_RULE(fill)
UM_RULE(arange)
UM_RULE(linspace)
UM_RULE(embedding)
UM_RULE(gather)
UM_RULE(index_select)
UM_RULE(gather_nd)
UM_RULE(scatter)
UM_RULE(index_add)
UM_RULE(scatter_nd)
UM_RULE(embedding_backward)
UM_RULE(one_hot)
UM_RULE(nonzero)
UM_RULE(sort)
UM_RULE(topk)
UM_RULE(random)
UM_RULE(bernoulli)
UM_RULE(permutation)
UM_RULE(dropout)
UM_RULE(matmul)
UM_RULE(softmax)
UM_RULE(rms_norm)
UM_RULE(softmax_backward)
UM_RULE(rms_norm_backward)
UM_RULE(layer_norm)
UM_RULE(layer_norm_backward)
UM_RULE(group_norm)
UM_RULE(group_norm_backward)
UM_RULE(batch_norm)
UM_RULE(batch_norm_backward)
UM_RULE(rope)
UM_RULE(attention)
UM_RULE(attention_backward)
UM_RULE(conv)
UM_RULE(conv_backward_data)
UM_RULE(conv_backward_filter)
UM_RULE(max_pool)
UM_RULE(avg_pool)
UM_RULE(max_pool_backward)
UM_RULE(avg_pool_backward)
UM_RULE(resize)
UM_RULE(resize_backward)
UM_RULE(quantize)
UM_RULE(dequantize)
#undef UM_RULE

/* ---- for infer_ ---------------------------------------------------------------------------- */

/* INVALID_ARGUMENT with "<op>: <message>"; the op's name goes into the error record too. */
um_status um_rule_fail(const um_op *op, const char *format, ...) UM_PRINTF(2, 3);
/* INVALID_ARGUMENT: "<op>: <what>: <a_name> is f32[2,3], <b_name> is f32[4]". */
um_status um_rule_fail_views(const um_op *op, const char *what, const char *a_name,
                             const um_view *a, const char *b_name, const um_view *b);
/* INVALID_ARGUMENT: "<op>: <what>: <name> is f32[2,3]". */
um_status um_rule_fail_view(const um_op *op, const char *what, const char *name, const um_view *v);
/* attrs.norm.eps of every norm. */
um_status um_rule_check_eps(const um_op *op);
/* What every program must be, as um_map_program says; whose: "" or the start of a message. */
um_status um_rule_check_program(const um_op *op, const um_map_program *program, const char *whose);
bool um_rule_has_rider(const um_op *op);
/* Of programs that ride on the op (fused.c): all but shapes; shapes, and the output's dtype, once
 * the op's own rule has been asked. */
um_status um_rule_check_riders(const um_op *op);
um_status um_rule_check_rider_views(const um_op *op, um_view *out);
/* Whether that input is read by an epilogue, and by no prologue. */
bool um_rule_epilogue_alone_reads(const um_op *op, int32_t index);
/* out = dtype[a's shape]. */
void um_rule_like(um_view *out, um_dtype dtype, const um_view *a);

/* ---- for sample_ --------------------------------------------------------------------------- */

/* A shape in a sample table: UM_DIMS(3, 5) or UM_SCALAR. */
typedef struct um_dims {
    int32_t rank;
    int32_t size[UM_MAX_RANK];
} um_dims;
#define UM_DIMS(...)                                                                               \
    {                                                                                              \
        (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), { __VA_ARGS__ }             \
    }
#define UM_SCALAR                                                                                  \
    {                                                                                              \
        0, { 0 }                                                                                   \
    }

/* Appends an input with values in [lo, hi], the range cut to what dtype holds. */
void um_sample_input(um_sample *sample, um_dtype dtype, const um_dims *dims, double lo, double hi);
/* ... with integers in [lo, hi], of any dtype that holds them. */
void um_sample_indices(um_sample *sample, um_dtype dtype, const um_dims *dims, double lo,
                       double hi);
/* A magnitude whose square is beyond what dtype is computed in, or dtype's own largest. */
double um_sample_large(um_dtype dtype);
void um_sample_label(um_sample *sample, const char *format, ...) UM_PRINTF(2, 3);
/* "f32[64,128]" of input 0 into the label. */
void um_sample_label_input(um_sample *sample);
/* Appends an optional input that is not there. */
void um_sample_none(um_sample *sample, um_dtype dtype);
/* Puts programs on the op that the sample has, the index'th that suit it, with their inputs, and
 * finishes it; false: there are no more (fused.c). The output has the dtype and shape that it would
 * have without. */
bool um_sample_ride(int32_t index, um_sample *sample);
/* Infers the outputs, all that the op has where out_count is 0; returns true. out_dtype: for ops
 * with a FREE result, else 0. */
bool um_sample_finish(um_sample *sample, um_dtype out_dtype);

#endif
