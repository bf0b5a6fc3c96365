/* tensor/read.c: realize tensors and bring them to the host. */
#include "tensor/tensor.h"

static um_status realize_locked(um_context *context, um_tensor *x)
{
    UM_TRY(um_schedule(context, 1, &x));
    return um_context_check(context, um_node_base(x)->sequence);
}

um_status um_realize_all(int32_t count, um_tensor *const *x)
{
    if (count < 0 || (count > 0 && !x))
        return UM_FAIL(UM_INVALID_ARGUMENT, "realize: got %d tensors and %s list", count,
                       x ? "a" : "no");
    for (int32_t i = 0; i < count; i++) {
        UM_TRY(um_tensor_status(x[i]));
        if (x[i]->context != x[0]->context)
            return UM_FAIL(UM_INVALID_ARGUMENT, "realize: tensors of two devices in one call");
    }
    if (count == 0) return UM_OK;
    um_context *context = x[0]->context;
    um_mutex_lock(&context->lock);
    um_status status = um_schedule(context, count, x);
    for (int32_t i = 0; i < count && status == UM_OK; i++)
        status = um_context_check(context, um_node_base(x[i])->sequence);
    um_mutex_unlock(&context->lock);
    return status;
}

um_status um_realize(um_tensor *x) { return um_realize_all(1, &x); }

um_status um_tensor_view(um_tensor *x, um_view *out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "tensor_view: out is NULL");
    *out = (um_view){0};
    UM_TRY(um_realize(x));
    return um_node_memory_view(x, out);
}

um_status um_to_host(um_tensor *x, void *dst, size_t size_bytes)
{
    UM_TRY(um_tensor_status(x));
    size_t wanted;
    UM_TRY(um_dtype_size(x->dtype, um_tensor_count(x), &wanted));
    if (size_bytes != wanted)
        return UM_FAIL(UM_INVALID_ARGUMENT, "to_host: got room of %zu bytes, wanted %zu",
                       size_bytes, wanted);
    if (wanted > 0 && !dst) return UM_FAIL(UM_INVALID_ARGUMENT, "to_host: dst is NULL");
    um_tensor *packed = um_contiguous(um_ref(x));
    um_status status = um_tensor_status(packed);
    if (status != UM_OK) goto done;
    um_context *context = x->context;
    um_mutex_lock(&context->lock);
    status = realize_locked(context, packed);
    um_view view;
    if (status == UM_OK) status = um_node_memory_view(packed, &view);
    if (status == UM_OK) {
        status = um_read(context->stream, dst, view.ptr, wanted);
        status = um_context_waited(context, status);
    }
    um_mutex_unlock(&context->lock);
done:
    um_release(packed);
    return status;
}

/* Reads x as another dtype, which the device need not have. */
static um_status read_as(um_tensor *x, um_dtype dtype, void *dst, int64_t count, size_t item_bytes)
{
    size_t size;
    UM_TRY(um_tensor_status(x));
    if (count != um_tensor_count(x))
        return UM_FAIL(UM_INVALID_ARGUMENT, "read: got room for %lld elements, wanted %lld",
                       (long long)count, (long long)um_tensor_count(x));
    if (x->dtype == dtype) return um_to_host(x, dst, (size_t)count * item_bytes);
    if (count > 0 && !dst) return UM_FAIL(UM_INVALID_ARGUMENT, "read: dst is NULL");
    UM_TRY(um_dtype_size(x->dtype, count, &size));
    void *raw = um_mem_alloc(size);
    if (!raw) return UM_FAIL(UM_OUT_OF_MEMORY, "read: no memory for %zu bytes", size);
    um_status status = um_to_host(x, raw, size);
    if (status == UM_OK) status = um_convert(dtype, dst, x->dtype, raw, count);
    um_mem_free(raw);
    return status;
}

um_status um_read_f32(um_tensor *x, float *dst, int64_t count)
{
    return read_as(x, UM_F32, dst, count, sizeof *dst);
}

um_status um_read_f64(um_tensor *x, double *dst, int64_t count)
{
    return read_as(x, UM_F64, dst, count, sizeof *dst);
}
