/* compute/index.c: the compute face's ops on indices: umbel/compute.h, "indices". */
#include "compute/compute.h"

um_status um_check_indices(um_dtype dtype, const void *indices, int64_t count, int64_t size)
{
    if (dtype != UM_I32 && dtype != UM_I64)
        return UM_FAIL(UM_INVALID_ARGUMENT, "check_indices: indices must be i32 or i64, got %s",
                       um_dtype_name(dtype));
    if (count < 0 || size < 0 || (!indices && count > 0))
        return UM_FAIL(UM_INVALID_ARGUMENT, "check_indices: %lld indices at %p, size %lld",
                       (long long)count, indices, (long long)size);
    for (int64_t i = 0; i < count; i++) {
        int64_t index =
            dtype == UM_I32 ? ((const int32_t *)indices)[i] : ((const int64_t *)indices)[i];
        if (index < 0 || index >= size)
            return UM_FAIL(UM_OUT_OF_RANGE,
                           "check_indices: index %lld, number %lld of the indices, is outside 0 "
                           "to %lld",
                           (long long)index, (long long)i, (long long)size - 1);
    }
    return UM_OK;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static um_status gather(um_stream *stream, um_op_id id, int32_t axis, const um_view *x,
                        const um_view *indices, const um_view *y)
{
    um_call call = um_call_begin(id);
    um_call_input(&call, id == UM_OP_EMBEDDING ? "table" : "x", x);
    um_call_input(&call, id == UM_OP_EMBEDDING ? "ids" : "indices", indices);
    um_call_output(&call, "y", y);
    call.op.attrs.index.axis = axis;
    return um_call_run(&call, stream);
}

um_status um_gather_view(um_stream *stream, int32_t axis, const um_view *x, const um_view *indices,
                         const um_view *y)
{
    return gather(stream, UM_OP_GATHER, axis, x, indices, y);
}

um_status um_index_select_view(um_stream *stream, int32_t axis, const um_view *x,
                               const um_view *indices, const um_view *y)
{
    return gather(stream, UM_OP_INDEX_SELECT, axis, x, indices, y);
}

um_status um_gather_nd_view(um_stream *stream, const um_view *x, const um_view *indices,
                            const um_view *y)
{
    return gather(stream, UM_OP_GATHER_ND, 0, x, indices, y);
}

um_status um_embedding_forward(um_stream *stream, const um_view *table, const um_view *ids,
                               const um_view *y)
{
    return gather(stream, UM_OP_EMBEDDING, 0, table, ids, y);
}

/* ---- writing: y is the first input, too ---------------------------------------------------------
 */

static um_status scatter(um_stream *stream, um_op_id id, int32_t axis, um_scatter_mode mode,
                         const um_view *indices, const um_view *values, const um_view *y)
{
    um_call call = um_call_begin(id);
    um_call_input(&call, "y", y);
    um_call_input(&call, "indices", indices);
    um_call_input(&call, "values", values);
    um_call_output(&call, "y", y);
    call.op.attrs.index.axis = axis;
    call.op.attrs.index.mode = mode;
    return um_call_run(&call, stream);
}

um_status um_scatter_view(um_stream *stream, int32_t axis, um_scatter_mode mode,
                          const um_view *indices, const um_view *values, const um_view *y)
{
    return scatter(stream, UM_OP_SCATTER, axis, mode, indices, values, y);
}

um_status um_index_add_view(um_stream *stream, int32_t axis, const um_view *indices,
                            const um_view *values, const um_view *y)
{
    return scatter(stream, UM_OP_INDEX_ADD, axis, UM_SCATTER_ADD, indices, values, y);
}

um_status um_scatter_nd_view(um_stream *stream, um_scatter_mode mode, const um_view *indices,
                             const um_view *values, const um_view *y)
{
    return scatter(stream, UM_OP_SCATTER_ND, 0, mode, indices, values, y);
}

um_status um_embedding_backward(um_stream *stream, const um_view *dy, const um_view *ids,
                                const um_view *dtable)
{
    um_call call = um_call_begin(UM_OP_EMBEDDING_BACKWARD);
    um_call_input(&call, "dy", dy);
    um_call_input(&call, "ids", ids);
    um_call_output(&call, "dtable", dtable);
    call.op.attrs.index.count = dtable && dtable->rank > 0 ? dtable->shape[0] : 0;
    return um_call_run(&call, stream);
}

/* ---- positions ---------------------------------------------------------------------------------
 */

um_status um_one_hot_view(um_stream *stream, const um_view *indices, const um_view *y)
{
    um_call call = um_call_begin(UM_OP_ONE_HOT);
    um_call_input(&call, "indices", indices);
    um_call_output(&call, "y", y);
    bool has_depth = y && y->rank > 0 && y->rank <= UM_MAX_RANK;
    call.op.attrs.index.count = has_depth ? y->shape[y->rank - 1] : 0;
    return um_call_run(&call, stream);
}

um_status um_nonzero_view(um_stream *stream, const um_view *x, const um_view *indices,
                          const um_view *count)
{
    um_call call = um_call_begin(UM_OP_NONZERO);
    um_call_input(&call, "x", x);
    um_call_output(&call, "indices", indices);
    if (count) um_call_output(&call, "count", count);
    call.op.attrs.index.count = indices && indices->rank > 0 ? indices->shape[0] : 0;
    return um_call_run(&call, stream);
}
