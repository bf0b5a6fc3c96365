/* tensor/tensor.h: the tensor face's inside.
 *
 * tensor.c    references, errors, nodes          make.c      tensors from data and constants
 * promote.c   dtype promotion                    move.c      views, concat, pad, tile, roll, update
 * ops.c       elementwise, reductions            layers.c    matmul, softmax, norm, attention, ...
 * schedule.c  order and running ops              fuse.c      elementwise chains as one program
 * read.c      realize, bring to the host         context.c   what a device's tensors share
 *
 * A tensor is a node. Its value, once there, is a buffer; a VIEW borrows that of its base. A node
 * that has been run drops its inputs and becomes a LEAF, so the reference counts always tell who
 * can still see an intermediate. */
#ifndef UM_TENSOR_TENSOR_H
#define UM_TENSOR_TENSOR_H

#include "base/base.h"
#include "base/os.h"
#include "op/table.h"

#include <stdatomic.h>
#include <umbel/tensor.h>

typedef struct um_context um_context;

/* ---- buffers and contexts (context.c) ------------------------------------------------------- */

typedef struct um_buffer {
    atomic_int refs;
    um_context *context;
    um_ptr ptr;
    bool is_own; /* else borrowed memory (um_wrap) */
} um_buffer;

/* Work whose results are lost to an asynchronous failure: sequence numbers first + 1 .. last. */
typedef struct um_lost_span {
    uint64_t first, last;
    um_error error;
} um_lost_span;

/* One per device, made with its first tensor and gone with the device. All tensor work of a device
 * goes through one stream, so a buffer may be handed on as soon as its last user is in the stream.
 */
struct um_context {
    um_device *device; /* borrowed: the device owns the context */
    um_stream *stream;
    int32_t buffer_count_max; /* of an op that is fused, with one of scratch memory */
    um_mutex lock;            /* held while a schedule runs; guards everything */
    uint64_t sequence;        /* counts runs of ops and writes */
    uint64_t known_good;      /* everything up to here is known to have worked */
    um_lost_span *lost;
    int64_t lost_count, lost_capacity;
    um_tensor **order; /* the schedule under way; kept, so that a warm one allocates nothing */
    int64_t order_count, order_capacity;
};

um_status um_context_get(um_device *device, um_context **out);
/* A buffer of at least size_bytes, with one reference. */
um_status um_buffer_make(um_context *context, uint64_t size_bytes, um_buffer **out);
um_status um_buffer_wrap(um_context *context, um_ptr ptr, um_buffer **out);
void um_buffer_release(um_buffer *buffer); /* NULL is legal */
/* After a wait on the stream that gave `status`: remembers that all is well, or what is lost. */
um_status um_context_waited(um_context *context, um_status status);
/* OK, or the error that lost the result with this sequence number. */
um_status um_context_check(um_context *context, uint64_t sequence);

/* ---- nodes (tensor.c) ----------------------------------------------------------------------- */

typedef enum um_node_kind {
    UM_NODE_LEAF,     /* has its value in `buffer` */
    UM_NODE_VIEW,     /* strides over in[0], which is no view */
    UM_NODE_OP,       /* a row of the op table, not run yet */
    UM_NODE_ASSEMBLE, /* an output filled block by block from the inputs (`place`), not run yet */
    UM_NODE_ERROR
} um_node_kind;

typedef enum um_assemble_mode {
    UM_ASSEMBLE_CONCAT,
    UM_ASSEMBLE_PAD,
    UM_ASSEMBLE_UPDATE
} um_assemble_mode;

typedef struct um_place {
    um_assemble_mode mode;
    int32_t axis;               /* concat */
    double value;               /* pad */
    int64_t start[UM_MAX_RANK]; /* pad, update: where the block goes */
} um_place;

typedef struct um_error_box {
    atomic_int refs;
    um_error error;
} um_error_box;

struct um_tensor {
    atomic_int refs; /* the program's and those of nodes that have it as input */
    um_node_kind kind;
    um_dtype dtype;
    int32_t rank;
    int64_t shape[UM_MAX_RANK];
    int64_t stride[UM_MAX_RANK]; /* elements of the base's buffer; packed unless VIEW or wrapped */
    int64_t offset;              /* VIEW: of element 0 in the base's buffer */
    um_context *context;         /* keeps its device alive; NULL: error */
    um_buffer *buffer;           /* LEAF */
    uint64_t sequence;           /* LEAF: which run made it */
    um_error_box *error;         /* ERROR; NULL in the one that means out of memory */
    union {
        um_attrs attrs; /* OP */
        um_place place; /* ASSEMBLE */
    } u;
    um_op_id op;
    int32_t cursor;  /* schedule: next input to visit */
    um_tensor *link; /* schedule: whom it is visited from; release: the next dead one */
    bool ordered;    /* schedule: has been reached */
    bool absorbed;   /* schedule: part of a consumer's op */
    int32_t riding;  /* schedule: inputs of the epilogue that it carries, beside its own result */
    int32_t in_count;
    um_tensor *in[];
};

/* A node with one reference and packed strides, or an error tensor. Takes the inputs in every case.
 * The shape must have been checked. */
um_tensor *um_node_make(um_context *context, um_node_kind kind, um_dtype dtype, int32_t rank,
                        const int64_t *shape, int32_t in_count, um_tensor *const *in);
/* The thread's last error as a tensor. Takes and releases the inputs. */
um_tensor *um_node_fail(int32_t in_count, um_tensor *const *in);
/* When an input is NULL, an error tensor or on another device than the first: the error tensor that
 * the op shall return, all inputs released. Else NULL, and nothing is released. */
um_tensor *um_node_refuse(const char *who, int32_t in_count, um_tensor *const *in);
/* The run node drops its inputs and shows the buffer (whose reference it takes). */
void um_node_become_leaf(um_tensor *node, um_buffer *buffer, uint64_t sequence);
static inline um_tensor *um_node_base(um_tensor *x)
{
    return x->kind == UM_NODE_VIEW ? x->in[0] : x;
}
bool um_node_is_packed(const um_tensor *x);
/* Shape and dtype as a view without memory, for um_op_infer. */
void um_node_shape_view(const um_tensor *x, um_view *out);
/* Where a realized tensor lies. */
um_status um_node_memory_view(um_tensor *x, um_view *out);

/* An op-table node: dtype and shape by the op's rule. result is for FREE rows. Takes the inputs. */
um_tensor *um_node_op(um_op_id op, const um_attrs *attrs, um_dtype result, int32_t in_count,
                      um_tensor *const *in);
/* A view of x (taken), strides and offset in elements of x's base. */
um_tensor *um_node_view(um_tensor *x, int32_t rank, const int64_t *shape, const int64_t *stride,
                        int64_t offset);

/* The attributes of a fill: value by the rules of conversion from f64 (make.c). */
um_status um_fill_attrs(um_dtype dtype, double value, um_attrs *out);

/* ---- promotion (promote.c) ------------------------------------------------------------------ */

/* The Python array API's table, with f16 and bf16 as narrower floats (together: f32). */
um_status um_promote(const char *who, um_dtype a, um_dtype b, um_dtype *out);

/* ---- schedule (schedule.c, fuse.c) ---------------------------------------------------------- */

/* Runs all that x[0..count-1] need; the context's lock must be held. A failed run leaves the nodes
 * that were not reached as they were, so that it can be tried again. */
um_status um_schedule(um_context *context, int32_t count, um_tensor *const *x);

bool um_node_is_map(const um_tensor *x);
/* Whether this node takes that input as a constant of its program instead of as memory. */
bool um_fuse_is_constant(const um_tensor *node, int32_t input);
/* Marks the inputs, and their inputs, that become part of this node's op. To be called of consumers
 * first. */
void um_fuse_plan(um_tensor *node);
/* The root as an op: its inputs by their tensors in `memory` (NULL: none), programs in `program`,
 * room for UM_PROGRAMS, that op may point to. The number of inputs that are not an elementwise
 * program's alone and so not exactly in place of the output. */
int32_t um_fuse_op(um_tensor *root, um_op *op, um_map_program *program, um_tensor **memory);
/* Takes a prologue or an epilogue off the root's op again: *out is to be run before it. */
void um_fuse_part(um_tensor *root, um_tensor **out);

#endif
