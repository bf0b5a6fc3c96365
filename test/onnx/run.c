/* test/onnx/run.c: the frame that handlers run in: failures, attributes, device memory. */
#include "run.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 28 }; /* of a tensor: no case has one of more than some megabytes */

struct run_block {
    struct run_block *next;
    um_ptr ptr;
};

void run_open(run *r, um_device *device, um_stream *stream, onnx_arena *arena)
{
    *r = (run){.device = device, .stream = stream, .arena = arena, .exact = true};
}

void run_close(run *r)
{
    (void)um_stream_clear_error(r->stream);
    for (struct run_block *block = r->blocks; block; block = block->next)
        if (um_free(r->device, block->ptr) != UM_OK) abort(); /* a test's own fault */
    r->blocks = NULL;
}

void run_refuse(run *r, const char *format, ...)
{
    if (r->failed) return;
    r->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
}

bool run_ok(run *r, um_status status)
{
    if (status != UM_OK) run_refuse(r, "%s", um_last_error()->message);
    return !r->failed;
}

/* What everything gives after a failure: nothing divides by its sizes. */
static um_view nothing(void)
{
    um_view view = {.dtype = UM_F32};
    for (int32_t i = 0; i < UM_MAX_RANK; i++) view.shape[i] = 1;
    return view;
}

/* ---- inputs, outputs, attributes ----------------------------------------------------------------
 */

bool has_in(const run *r, int32_t i) { return i < r->in_count && r->in[i].type != ONNX_NONE; }

bool wants_out(const run *r, int32_t i) { return i < r->out_count && r->node->out[i][0] != 0; }

um_view in(run *r, int32_t i)
{
    if (has_in(r, i)) return r->in[i].view;
    run_refuse(r, "%s: input %d is missing", r->node->op, (int)i);
    return nothing();
}

void out(run *r, int32_t i, um_view view)
{
    if (i < RUN_MAX_OUT) r->out[i] = (value){view, onnx_type(view.dtype)};
}

const onnx_attr *attr_find(const run *r, const char *name)
{
    for (size_t i = 0; i < r->node->attr_count; i++)
        if (strcmp(r->node->attrs[i].name, name) == 0) return &r->node->attrs[i];
    return NULL;
}

int64_t attr_int(const run *r, const char *name, int64_t otherwise)
{
    const onnx_attr *attr = attr_find(r, name);
    return attr ? attr->i : otherwise;
}

float attr_float(const run *r, const char *name, float otherwise)
{
    const onnx_attr *attr = attr_find(r, name);
    return attr ? attr->f : otherwise;
}

const char *attr_str(const run *r, const char *name, const char *otherwise)
{
    const onnx_attr *attr = attr_find(r, name);
    return attr ? attr->s : otherwise;
}

bool attr_is(const run *r, const char *name, const char *otherwise, const char *wanted)
{
    return strcmp(attr_str(r, name, otherwise), wanted) == 0;
}

ints attr_ints(run *r, const char *name)
{
    ints list = {0};
    const onnx_attr *attr = attr_find(r, name);
    if (!attr) return list;
    if (attr->int_count > UM_COUNT_OF(list.at)) {
        run_refuse(r, "%s: %zu numbers in %s", r->node->op, attr->int_count, name);
        return list;
    }
    list.count = (int64_t)attr->int_count;
    for (int64_t i = 0; i < list.count; i++) list.at[i] = attr->ints[i];
    return list;
}

ints in_or_attr(run *r, int32_t i, const char *name)
{
    return has_in(r, i) ? run_ints(r, in(r, i)) : attr_ints(r, name);
}

ints run_ints(run *r, um_view view)
{
    ints list = {0};
    um_view longs = pack(r, cast(r, view, UM_I64));
    int64_t count = um_view_count(&longs);
    if (count > (int64_t)UM_COUNT_OF(list.at))
        run_refuse(r, "%s: %lld numbers for the host", r->node->op, (long long)count);
    if (r->failed) return list;
    list.count = count;
    read_packed(r, longs, list.at, (size_t)count * 8);
    return list;
}

double run_number(run *r, um_view view)
{
    double number = 0;
    um_view wide = cast(r, view, UM_F64);
    if (!r->failed && um_view_count(&wide) == 0) run_refuse(r, "%s: no number", r->node->op);
    read_packed(r, wide, &number, sizeof number);
    return number;
}

int32_t axis_of(run *r, int64_t axis, int32_t rank)
{
    if (axis >= -rank && axis < rank) return (int32_t)(axis < 0 ? axis + rank : axis);
    run_refuse(r, "%s: axis %lld of rank %d", r->node->op, (long long)axis, (int)rank);
    return 0;
}

uint32_t axes_of(run *r, const ints *axes, int32_t rank)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < axes->count; i++) bits |= 1u << axis_of(r, axes->at[i], rank);
    return bits;
}

/* ---- memory -------------------------------------------------------------------------------------
 */

um_view fresh(run *r, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_view view = nothing();
    size_t bytes;
    if (r->failed || !run_ok(r, um_view_make(0, dtype, rank, shape, &view)) ||
        !run_ok(r, um_dtype_size(dtype, um_view_count(&view), &bytes)))
        return nothing();
    if (bytes > MAX_BYTES) run_refuse(r, "a tensor of %zu bytes", bytes);
    struct run_block *block = onnx_alloc(r->arena, 1, sizeof *block);
    if (!block) run_refuse(r, "no memory");
    if (r->failed || !run_ok(r, um_alloc(r->device, bytes, &view.ptr))) return nothing();
    block->ptr = view.ptr;
    block->next = r->blocks;
    r->blocks = block;
    return view;
}

um_view put(run *r, um_dtype dtype, int32_t rank, const int64_t *shape, const void *data)
{
    um_view view = fresh(r, dtype, rank, shape);
    size_t bytes;
    if (r->failed || !run_ok(r, um_dtype_size(dtype, um_view_count(&view), &bytes)) ||
        !run_ok(r, um_write(r->stream, view.ptr, data, bytes)))
        return nothing();
    return view;
}

um_view put_ints(run *r, int64_t count, const int64_t *data)
{
    return put(r, UM_I64, 1, &count, data);
}

um_view put_i64(run *r, int64_t number) { return put(r, UM_I64, 0, NULL, &number); }

void read_packed(run *r, um_view view, void *data, size_t bytes)
{
    um_view packed = pack(r, view);
    if (!r->failed) run_ok(r, um_read(r->stream, data, packed.ptr, bytes));
}

/* ---- ops ----------------------------------------------------------------------------------------
 */

um_view run_op(run *r, um_op *op)
{
    op->out_count = UM_MAX(op->out_count, 1);
    if (r->failed || !run_ok(r, um_op_infer(op))) return nothing();
    for (int32_t i = 0; i < op->out_count; i++)
        op->out[i] = fresh(r, op->out[i].dtype, op->out[i].rank, op->out[i].shape);
    if (r->failed || !run_ok(r, um_enqueue(r->stream, op))) return nothing();
    return op->out[0];
}

um_view full(run *r, um_dtype dtype, int32_t rank, const int64_t *shape, double number)
{
    um_op op = {.id = UM_OP_FILL, .out_count = 1};
    op.attrs.fill.f = number;
    if (um_dtype_get_kind(dtype) != UM_KIND_FLOAT) op.attrs.fill.i = (int64_t)number;
    if (r->failed || !run_ok(r, um_view_make(0, dtype, rank, shape, &op.out[0]))) return nothing();
    return run_op(r, &op);
}

um_view num(run *r, um_dtype dtype, double number) { return full(r, dtype, 0, NULL, number); }

um_view arange(run *r, um_dtype dtype, int64_t count)
{
    um_op op = {.id = UM_OP_ARANGE, .out_count = 1};
    if (um_dtype_get_kind(dtype) == UM_KIND_FLOAT)
        op.attrs.arange.step = 1;
    else
        op.attrs.arange.i_step = 1;
    if (r->failed || !run_ok(r, um_view_make(0, dtype, 1, &count, &op.out[0]))) return nothing();
    return run_op(r, &op);
}

um_view cast(run *r, um_view view, um_dtype dtype)
{
    if (view.dtype == dtype) return view;
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = view;
    op.out[0].dtype = dtype;
    return run_op(r, &op);
}

um_view widen(run *r, um_view view)
{
    bool narrow = um_dtype_get_kind(view.dtype) == UM_KIND_FLOAT && um_dtype_bits(view.dtype) < 32;
    return narrow ? cast(r, view, UM_F32) : view;
}

um_view pack(run *r, um_view view)
{
    um_view packed;
    if (r->failed || !run_ok(r, um_view_make(0, view.dtype, view.rank, view.shape, &packed)))
        return nothing();
    if (memcmp(packed.stride, view.stride, sizeof packed.stride) == 0) return view;
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = view;
    op.out[0].dtype = view.dtype;
    return run_op(r, &op);
}

void copy_to(run *r, um_view from, um_view to)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = expand_like(r, from, &to);
    op.out[0] = to;
    if (!r->failed) run_ok(r, um_enqueue(r->stream, &op));
}

um_view m1a(run *r, um_op_id id, um_view a, double attr)
{
    um_op op = {.id = id, .in_count = 1};
    op.attrs.map.a = attr;
    op.in[0] = a;
    return run_op(r, &op);
}

um_view m1(run *r, um_op_id id, um_view a) { return m1a(r, id, a, 0); }

/* NumPy's: sizes of 1 repeat, missing leading axes too. */
static void broadcast(run *r, int32_t count, um_view *views)
{
    int64_t shape[UM_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < count; i++) rank = UM_MAX(rank, views[i].rank);
    for (int32_t d = 0; d < rank; d++) {
        shape[d] = 1;
        for (int32_t i = 0; i < count; i++) {
            int32_t at = d - (rank - views[i].rank);
            if (at >= 0 && views[i].shape[at] != 1) shape[d] = views[i].shape[at];
        }
    }
    for (int32_t i = 0; i < count; i++) views[i] = expand(r, views[i], rank, shape);
}

um_view m2(run *r, um_op_id id, um_view a, um_view b)
{
    um_view views[2] = {a, b};
    broadcast(r, 2, views);
    um_op op = {.id = id, .in_count = 2};
    memcpy(op.in, views, sizeof views);
    return run_op(r, &op);
}

um_view m3(run *r, um_op_id id, um_view a, um_view b, um_view c)
{
    um_view views[3] = {a, b, c};
    broadcast(r, 3, views);
    um_op op = {.id = id, .in_count = 3};
    memcpy(op.in, views, sizeof views);
    return run_op(r, &op);
}

um_view reduce(run *r, um_op_id id, um_view a, uint32_t axes, bool keepdims)
{
    um_op op = {.id = id, .in_count = 1};
    op.attrs.reduce.axes = axes;
    op.attrs.reduce.keepdims = keepdims;
    op.in[0] = a;
    return run_op(r, &op);
}

um_view scan(run *r, um_op_id id, um_view a, int32_t axis)
{
    um_op op = {.id = id, .in_count = 1};
    op.attrs.axis.axis = axis;
    op.in[0] = a;
    return run_op(r, &op);
}

um_view matmul(run *r, um_view a, um_view b) { return matmul_to(r, a, b, a.dtype); }

um_view matmul_to(run *r, um_view a, um_view b, um_dtype dtype)
{
    bool vector_a = a.rank == 1, vector_b = b.rank == 1;
    if (a.rank == 0 || b.rank == 0) run_refuse(r, "%s: a product of scalars", r->node->op);
    if (r->failed) return nothing();
    if (vector_a) a = unsqueeze(r, a, 0);
    if (vector_b) b = unsqueeze(r, b, 1);
    int64_t shape[UM_MAX_RANK];
    int32_t rank = UM_MAX(a.rank, b.rank);
    for (int32_t d = 0; d < rank - 2; d++) {
        int32_t at_a = d - (rank - a.rank), at_b = d - (rank - b.rank);
        shape[d] = at_a >= 0 ? a.shape[at_a] : 1;
        if (shape[d] == 1 && at_b >= 0) shape[d] = b.shape[at_b];
    }
    um_op op = {.id = UM_OP_MATMUL, .in_count = 2};
    op.attrs.matmul.alpha = 1;
    op.out[0].dtype = dtype;
    um_view *views[] = {&a, &b};
    for (int32_t i = 0; i < 2; i++) {
        shape[rank - 2] = size(views[i], -2);
        shape[rank - 1] = size(views[i], -1);
        op.in[i] = expand(r, *views[i], rank, shape);
    }
    um_view y = run_op(r, &op);
    if (vector_a) y = squeeze(r, y, y.rank - 2);
    if (vector_b) y = squeeze(r, y, y.rank - 1);
    return y;
}

um_view select_rows(run *r, um_view x, int32_t axis, um_view indices)
{
    um_op op = {.id = UM_OP_INDEX_SELECT, .in_count = 2};
    op.attrs.index.axis = axis;
    op.in[0] = x;
    op.in[1] = indices;
    return run_op(r, &op);
}

um_view concat(run *r, int32_t axis, int32_t count, const um_view *parts)
{
    int64_t shape[UM_MAX_RANK], at = 0;
    memcpy(shape, parts[0].shape, sizeof shape);
    shape[axis] = 0;
    for (int32_t i = 0; i < count; i++) shape[axis] += parts[i].shape[axis];
    um_view y = fresh(r, parts[0].dtype, parts[0].rank, shape);
    for (int32_t i = 0; i < count && !r->failed; i++) {
        copy_to(r, parts[i], slice(r, y, axis, at, parts[i].shape[axis], 1));
        at += parts[i].shape[axis];
    }
    return y;
}
