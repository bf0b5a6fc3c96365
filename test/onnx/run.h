/* test/onnx/run.h: running ONNX nodes with Umbel's ops: what every handler uses.
 *
 * A handler takes r->in (values on the device) to r->out, and r->node for the attributes. The
 * arithmetic is Umbel's alone; the host looks at shapes and at the few tensors that say what shape
 * or axis is meant (run_ints). Failure sticks: after one every call below gives a view of one
 * element at no address and does nothing, so handlers need not look. */
#ifndef UM_TEST_ONNX_RUN_H
#define UM_TEST_ONNX_RUN_H

#include "model.h"

#include <umbel/compute.h>

enum { RUN_MAX_IN = 32, RUN_MAX_OUT = 8, RUN_WHY = 200 };

typedef struct value {
    um_view view;
    int32_t type; /* ONNX's; ONNX_NONE: there is no value */
} value;

typedef struct run {
    um_device *device;
    um_stream *stream;
    onnx_arena *arena;
    struct run_block *blocks; /* device memory to free at the end */
    struct scope *scope;      /* the names that graph.c knows now */
    bool failed;
    bool exact; /* no op so far may round */
    char why[RUN_WHY];
    int64_t opset;
    const onnx_node *node;
    value in[RUN_MAX_IN], out[RUN_MAX_OUT];
    int32_t in_count, out_count;
} run;

/* ---- the frame (run.c) --------------------------------------------------------------------------
 */

void run_open(run *r, um_device *device, um_stream *stream, onnx_arena *arena);
/* Waits, frees, and leaves the stream usable. */
void run_close(run *r);
/* The first reason stays. */
void run_refuse(run *r, const char *format, ...) UM_PRINTF(2, 3);
/* Whether a status is OK; else its message becomes the reason. */
bool run_ok(run *r, um_status status);

bool has_in(const run *r, int32_t i);
bool wants_out(const run *r, int32_t i);
/* Input i's view; refuses when it is not there. */
um_view in(run *r, int32_t i);
/* Sets output i; its type is the dtype's. */
void out(run *r, int32_t i, um_view view);

/* Attributes; what is not there has the given value. The count of ints is 0 then. */
int64_t attr_int(const run *r, const char *name, int64_t otherwise);
float attr_float(const run *r, const char *name, float otherwise);
const char *attr_str(const run *r, const char *name, const char *otherwise);
bool attr_is(const run *r, const char *name, const char *otherwise, const char *wanted);
const onnx_attr *attr_find(const run *r, const char *name);

/* Integers of a tensor (any shape) or an attribute, on the host: shapes, axes, sizes. */
typedef struct ints {
    int64_t count;
    int64_t at[64];
} ints;
ints run_ints(run *r, um_view view);
double run_number(run *r, um_view view); /* the first element */
ints attr_ints(run *r, const char *name);
/* Input i if it is there, else the attribute. */
ints in_or_attr(run *r, int32_t i, const char *name);
/* -rank .. rank - 1 to 0 .. rank - 1; refuses others. */
int32_t axis_of(run *r, int64_t axis, int32_t rank);
uint32_t axes_of(run *r, const ints *axes, int32_t rank);

/* ---- values on the device -----------------------------------------------------------------------
 */

um_view put(run *r, um_dtype dtype, int32_t rank, const int64_t *shape, const void *data);
um_view put_ints(run *r, int64_t count, const int64_t *data); /* i64, rank 1: indices, shapes */
um_view put_i64(run *r, int64_t number);                      /* rank 0 */
void read_packed(run *r, um_view view, void *data, size_t bytes);

/* New memory, uninitialised. */
um_view fresh(run *r, um_dtype dtype, int32_t rank, const int64_t *shape);
um_view full(run *r, um_dtype dtype, int32_t rank, const int64_t *shape, double number);
um_view num(run *r, um_dtype dtype, double number); /* rank 0 */
um_view arange(run *r, um_dtype dtype, int64_t count);
/* A row-major copy; what is packed already stays. */
um_view pack(run *r, um_view view);
void copy_to(run *r, um_view from, um_view to);
um_view cast(run *r, um_view view, um_dtype dtype);
/* The narrow floats to f32, others as they are: for what ONNX's own reference computes so. */
um_view widen(run *r, um_view view);

/* ---- other windows on the same memory -----------------------------------------------------------
 */

um_view expand(run *r, um_view view, int32_t rank, const int64_t *shape);
um_view expand_like(run *r, um_view view, const um_view *like);
um_view reshape(run *r, um_view view, int32_t rank, const int64_t *shape); /* may copy */
um_view flatten(run *r, um_view view, int32_t axis);                       /* [before, from axis] */
um_view transpose(run *r, um_view view, const int64_t *perm);
um_view swap_axes(run *r, um_view view, int64_t a, int64_t b);
um_view unsqueeze(run *r, um_view view, int64_t axis); /* axis of the result */
um_view squeeze(run *r, um_view view, int64_t axis);
/* Elements start, start + step, ... of an axis. */
um_view slice(run *r, um_view view, int64_t axis, int64_t start, int64_t count, int64_t step);
um_view flip(run *r, um_view view, int64_t axis);
/* A vector [n] or scalar along an axis of something of that rank. */
um_view along(run *r, um_view view, int32_t axis, int32_t rank);
int64_t size(const um_view *view, int64_t axis);

/* ---- ops ----------------------------------------------------------------------------------------
 */

/* Infers, allocates and enqueues; the first output. */
um_view run_op(run *r, um_op *op);
um_view m1(run *r, um_op_id id, um_view a);
um_view m1a(run *r, um_op_id id, um_view a, double attr); /* elu, leaky_relu */
um_view m2(run *r, um_op_id id, um_view a, um_view b);    /* broadcasts, as m3 */
um_view m3(run *r, um_op_id id, um_view a, um_view b, um_view c);
um_view reduce(run *r, um_op_id id, um_view a, uint32_t axes, bool keepdims);
um_view scan(run *r, um_op_id id, um_view a, int32_t axis); /* also the softmaxes */
um_view matmul(run *r, um_view a, um_view b);               /* NumPy's rules */
um_view matmul_to(run *r, um_view a, um_view b, um_dtype dtype);
um_view select_rows(run *r, um_view x, int32_t axis, um_view indices);
um_view concat(run *r, int32_t axis, int32_t count, const um_view *parts);

static inline um_view add(run *r, um_view a, um_view b) { return m2(r, UM_OP_ADD, a, b); }
static inline um_view sub(run *r, um_view a, um_view b) { return m2(r, UM_OP_SUB, a, b); }
static inline um_view mul(run *r, um_view a, um_view b) { return m2(r, UM_OP_MUL, a, b); }
static inline um_view quo(run *r, um_view a, um_view b) { return m2(r, UM_OP_DIV, a, b); }
static inline um_view maxi(run *r, um_view a, um_view b) { return m2(r, UM_OP_MAX, a, b); }
static inline um_view mini(run *r, um_view a, um_view b) { return m2(r, UM_OP_MIN, a, b); }
/* With a constant of the other's dtype. */
static inline um_view addc(run *r, um_view a, double c) { return add(r, a, num(r, a.dtype, c)); }
static inline um_view mulc(run *r, um_view a, double c) { return mul(r, a, num(r, a.dtype, c)); }
static inline um_view where(run *r, um_view c, um_view a, um_view b)
{
    return m3(r, UM_OP_WHERE, c, a, b);
}

/* ---- graphs and handlers ------------------------------------------------------------------------
 */

/* A tensor of the model or of a file on the device. */
value run_load(run *r, const onnx_tensor *tensor);
/* Runs a graph on these inputs, as many as it has; names that it does not know itself are those of
 * the graph around it. */
void run_graph(run *r, const onnx_graph *graph, const value *inputs, int32_t in_count,
               value *outputs, int32_t out_count);

typedef struct onnx_op {
    const char *name;
    void (*handle)(run *r, um_op_id id);
    um_op_id id;
    bool exact;         /* moves, compares and counts, but never rounds */
    const char *reason; /* of those without a handler */
} onnx_op;
const onnx_op *onnx_find_op(const char *name);

#endif
