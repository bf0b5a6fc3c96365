/* op/table.h: the op table as the core and the conformance driver see it. Rows come from
 * umbel/op.def; each rule's um_infer_<rule> and um_sample_<rule> are in its family's file (map.c,
 * reduce.c, move.c, index.c, matmul.c, norm.c, attention.c, conv.c, pool.c, resize.c); parts of ops
 * are part.c's. */
#ifndef UM_OP_TABLE_H
#define UM_OP_TABLE_H

#include "base/base.h"

#include <umbel/op.h>

typedef enum um_op_family {
    UM_FAMILY_MAP,
    UM_FAMILY_REDUCE,
    UM_FAMILY_MOVE,
    UM_FAMILY_INDEX,
    UM_FAMILY_MATMUL,
    UM_FAMILY_NORM,
    UM_FAMILY_ATTENTION,
    UM_FAMILY_CONV,
    UM_FAMILY_POOL,
    UM_FAMILY_SORT,
    UM_FAMILY_RESIZE,
    UM_FAMILY_RANDOM,
    UM_FAMILY_QUANT
} um_op_family;

/* The dtype column as bits (1u << um_dtype). */
#define UM_BIT(dtype) ((uint32_t)1 << (dtype))
#define UM_DTYPES_F   (UM_BIT(UM_F64) | UM_BIT(UM_F32) | UM_BIT(UM_F16) | UM_BIT(UM_BF16))
#define UM_DTYPES_I                                                                                \
    (UM_BIT(UM_I8) | UM_BIT(UM_I16) | UM_BIT(UM_I32) | UM_BIT(UM_I64) | UM_BIT(UM_U8) |            \
     UM_BIT(UM_U16) | UM_BIT(UM_U32) | UM_BIT(UM_U64))
#define UM_DTYPES_IX (UM_BIT(UM_I32) | UM_BIT(UM_I64))
#define UM_DTYPES_Q                                                                                \
    (UM_BIT(UM_I8) | UM_BIT(UM_U8) | UM_BIT(UM_I16) | UM_BIT(UM_U16) | UM_BIT(UM_F8E4M3FN) |       \
     UM_BIT(UM_F8E4M3FNUZ) | UM_BIT(UM_F8E5M2) | UM_BIT(UM_F8E5M2FNUZ))
#define UM_DTYPES_MM                                                                               \
    (UM_DTYPES_F | UM_BIT(UM_I8) | UM_BIT(UM_U8) | UM_BIT(UM_F8E4M3FN) | UM_BIT(UM_F8E4M3FNUZ) |   \
     UM_BIT(UM_F8E5M2) | UM_BIT(UM_F8E5M2FNUZ))
#define UM_DTYPES_IB  (UM_DTYPES_I | UM_BIT(UM_BOOL))
#define UM_DTYPES_FI  (UM_DTYPES_F | UM_DTYPES_I)
#define UM_DTYPES_FIB (UM_DTYPES_FI | UM_BIT(UM_BOOL))
#define UM_DTYPES_ALL                                                                              \
    (UM_DTYPES_FIB | UM_BIT(UM_F8E4M3FN) | UM_BIT(UM_F8E4M3FNUZ) | UM_BIT(UM_F8E5M2) |             \
     UM_BIT(UM_F8E5M2FNUZ) | UM_BIT(UM_F4E2M1) | UM_BIT(UM_F6E2M3) | UM_BIT(UM_F6E3M2) |           \
     UM_BIT(UM_F8E8M0))

typedef enum um_op_result {
    UM_RESULT_SAME,
    UM_RESULT_BOOL,
    UM_RESULT_I64,
    UM_RESULT_FREE,
    UM_RESULT_RULE
} um_op_result;

/* How the driver fills an input. */
typedef enum um_fill_kind {
    UM_FILL_VALUES,  /* random in [lo, hi]; the driver adds special values (NaN, inf, -0, extremes)
                        in rounds of its own */
    UM_FILL_INDICES, /* random integers in [lo, hi] */
    UM_FILL_BOOL     /* random 0 and 1 */
} um_fill_kind;

enum { UM_PROLOGUE, UM_EPILOGUE, UM_PROGRAMS };

/* One test input: a complete op, outputs inferred, but for pointers and strides (views are packed;
 * the driver makes them strided, broadcast, reversed). In a copy, um_sample_own_programs makes the
 * op point to its own. */
typedef struct um_sample {
    um_op op;
    um_map_program program[UM_PROGRAMS]; /* the op's attributes point here when used */
    char label[64];                      /* "m=5 k=7 n=3" */
    double lo[UM_OP_MAX_INPUTS], hi[UM_OP_MAX_INPUTS];
    um_fill_kind fill[UM_OP_MAX_INPUTS];
    bool no_specials; /* NaN and inf rounds make no sense for it */
} um_sample;

void um_sample_own_programs(um_sample *sample);

typedef struct um_op_row {
    um_op_id id;
    const char *name;
    um_op_family family;
    int32_t in_min, in_max, out_count;
    uint32_t dtypes; /* of the main input (the output for ops without one) */
    um_op_result result;
    const char *doc;
    /* Writes dtype, rank and shape of `out` (out_count views; they hold op->out on entry, for FREE
     * results). The generic part (counts, ranks, sizes, dtype mask, dims >= 0) is checked before.
     * Fails with INVALID_ARGUMENT. */
    um_status (*infer)(const um_op *op, um_view *out);
    /* Sample `index` for the main dtype, or false past the last. sample->op.id is set on entry, the
     * rest is zero. */
    bool (*sample)(int32_t index, um_dtype dtype, um_sample *sample);
} um_op_row;

/* Whether the op allows the output to lie exactly on that input, with the same elements. */
bool um_op_updates_input(const um_op *op, int32_t index);

/* ---- programs (fused.c) --------------------------------------------------------------------- */

/* That program of the op, or NULL. map's own counts as its epilogue. */
const um_map_program *um_op_program(const um_op *op, int32_t which);
/* Its attributes, NULL where they point to programs. */
um_attrs um_op_plain_attrs(const um_op *op);
/* What the op's programs take as um_op_move_programs copies them: to `to`, at a multiple of 8
 * bytes, whereupon the op points there. */
size_t um_op_program_bytes(const um_op *op);
void um_op_move_programs(um_op *op, void *to);
/* How many inputs the op has without those of programs: optional ones in between count. */
int32_t um_op_own_inputs(const um_op *op);
/* The dtype that the op's own result has, or would have without an epilogue, as it is computed. */
um_dtype um_op_made_dtype(const um_op *op);

/* A prologue or epilogue as map has its program: inputs numbered without gaps, the element or
 * result first. */
typedef struct um_rider {
    um_map_program program;
    int32_t in_count;
    int32_t input[UM_MAP_MAX_INPUTS]; /* which of the op's each is; input[0] is 0 */
} um_rider;
/* false: there is none. The op is checked. */
bool um_op_rider(const um_op *op, int32_t which, um_rider *out);

/* Whether matrix units are what it wants: products, convolutions, attention. */
static inline bool um_op_is_product(const um_op_row *row)
{
    return row->family == UM_FAMILY_MATMUL || row->family == UM_FAMILY_CONV ||
           row->family == UM_FAMILY_ATTENTION;
}

/* NULL when id is no op. */
const um_op_row *um_op_get_row(um_op_id id);
/* Index of the input whose dtype is the main one (where: 1, others 0); -1 when that is the
 * output's: the op has no inputs, or only indices (one_hot). */
int32_t um_op_main_input(um_op_id id);

/* Optional inputs and outputs in the middle of the list are left out as a view of no elements,
 * um_view_none. */
static inline um_view um_view_none(um_dtype dtype)
{
    return (um_view){.dtype = dtype, .rank = 1, .shape = {0}, .stride = {1}};
}
static inline bool um_view_is_none(const um_view *view)
{
    return view->rank == 1 && view->shape[0] == 0;
}
static inline bool um_op_has_input(const um_op *op, int32_t index)
{
    return index < op->in_count && !um_view_is_none(&op->in[index]);
}

/* "f32[64,128]" into text (for messages); returns text. */
const char *um_view_text(const um_view *view, char *text, size_t text_size);
/* Lowest and one past the highest byte the view reaches, relative to ptr. false: overflow. Empty
 * views: 0, 0. */
bool um_view_extent(const um_view *view, int64_t *low_bytes, int64_t *high_bytes);
/* Whether two elements of one view share a byte (4-bit dtypes: a half byte); whether two views of
 * the same address space do. Exact within a bounded search, and "true" where the search gives up,
 * or where two 4-bit views come closer than a byte. */
bool um_view_self_overlaps(const um_view *view);
bool um_views_overlap(const um_view *a, const um_view *b);
bool um_views_identical(const um_view *a,
                        const um_view *b);    /* same pointer, element size, shape and strides */
bool um_view_is_aligned(const um_view *view); /* ptr is a multiple of the element's bytes */
bool um_view_is_packed(const um_view *view); /* row-major, no gaps (axes of size 1 do not matter) */
/* The op that makes elements begin .. begin + count - 1 along an axis of the first output of a
 * checked op, and nothing else (part.c). false: they cannot be made apart from the rest. */
bool um_op_part(const um_op *op, int32_t axis, int64_t begin, int64_t count, um_op *part);
/* The bits of `axes` as plain axis bits 0 .. rank-1; 0, every axis, stays 0. false: an axis outside
 * the rank or named twice. */
bool um_axes_resolve(uint32_t axes, int32_t rank, uint32_t *resolved);
bool um_axis_resolve(int32_t axis, int32_t rank, int32_t *resolved);
/* Python's slice of an axis: the first element, from 0, and how many. step != 0. */
void um_slice_range(int64_t size, int64_t *start, int64_t *count, int64_t stop, int64_t step);

#endif
