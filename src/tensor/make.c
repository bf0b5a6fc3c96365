/* tensor/make.c: tensors from host data, constants and device memory of the caller. */
#include "tensor/tensor.h"

/* An error tensor for a shape that cannot be, else NULL; *context is the device's. */
static um_tensor *start(const char *who, um_device *device, um_dtype dtype, int32_t rank,
                        const int64_t *shape, um_context **context, um_view *view)
{
    if (!device)
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "%s: device is NULL, wanted an open one", who);
    else if (rank > 0 && !shape)
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "%s: shape is NULL, wanted %d sizes", who, rank);
    else if (um_view_make(0, dtype, rank, shape, view) == UM_OK &&
             um_context_get(device, context) == UM_OK)
        return NULL;
    return um_node_fail(0, NULL);
}

um_tensor *um_from_host(um_device *device, um_dtype dtype, int32_t rank, const int64_t *shape,
                        const void *data)
{
    um_context *context;
    um_view view;
    um_tensor *x = start("from_host", device, dtype, rank, shape, &context, &view);
    if (x) return x;
    um_buffer *buffer = NULL;
    size_t size_bytes;
    UM_TRY_OR(um_dtype_size(dtype, um_view_count(&view), &size_bytes), fail);
    if (!data && size_bytes) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "from_host: data is NULL, wanted %zu bytes", size_bytes);
        goto fail;
    }
    UM_TRY_OR(um_buffer_make(context, size_bytes, &buffer), fail);
    x = um_node_make(context, UM_NODE_LEAF, dtype, rank, view.shape, 0, NULL);
    if (x->kind == UM_NODE_ERROR) {
        um_buffer_release(buffer);
        return x;
    }
    x->buffer = buffer;
    um_mutex_lock(&context->lock);
    um_status status = um_write(context->stream, buffer->ptr, data, size_bytes);
    x->sequence = ++context->sequence;
    um_mutex_unlock(&context->lock);
    if (status == UM_OK) return x;
    return um_node_fail(1, &x);
fail:
    um_buffer_release(buffer);
    return um_node_fail(0, NULL);
}

/* A node of an op without inputs. */
static um_tensor *generator(um_context *context, um_op_id op, const um_attrs *attrs,
                            const um_view *view)
{
    um_tensor *x = um_node_make(context, UM_NODE_OP, view->dtype, view->rank, view->shape, 0, NULL);
    if (x->kind == UM_NODE_ERROR) return x;
    x->op = op;
    x->u.attrs = *attrs;
    return x;
}

/* The 64-bit integer through which a double becomes a value of an integer dtype. */
static um_dtype integer_of(um_dtype dtype) { return dtype == UM_U64 ? UM_U64 : UM_I64; }

um_status um_fill_attrs(um_dtype dtype, double value, um_attrs *out)
{
    *out = (um_attrs){.fill = {.f = value}};
    if (um_dtype_is_float(dtype)) return UM_OK;
    uint64_t converted = 0;
    UM_TRY(um_convert(dtype, &converted, UM_F64, &value, 1));
    return um_convert(integer_of(dtype), &out->fill.i, dtype, &converted, 1);
}

um_tensor *um_full(um_device *device, um_dtype dtype, int32_t rank, const int64_t *shape,
                   double value)
{
    um_context *context;
    um_view view;
    um_tensor *x = start("full", device, dtype, rank, shape, &context, &view);
    if (x) return x;
    um_attrs attrs;
    if (um_fill_attrs(dtype, value, &attrs) != UM_OK) return um_node_fail(0, NULL);
    return generator(context, UM_OP_FILL, &attrs, &view);
}

um_tensor *um_zeros(um_device *device, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    return um_full(device, dtype, rank, shape, 0);
}

um_tensor *um_scalar(const um_tensor *like, double value)
{
    if (um_tensor_status(like) != UM_OK) return um_node_fail(0, NULL);
    return um_full(like->context->device, like->dtype, 0, NULL, value);
}

/* A double as the 64-bit integer of the same value; u64's upper half as its bits. */
static bool whole(um_dtype dtype, double value, int64_t *out)
{
    um_dtype wide = integer_of(dtype);
    double back;
    if (um_convert(wide, out, UM_F64, &value, 1) != UM_OK ||
        um_convert(UM_F64, &back, wide, out, 1) != UM_OK)
        return false;
    return back == value && value < (wide == UM_U64 ? 0x1p64 : 0x1p63); /* the ends saturate */
}

um_tensor *um_arange(um_device *device, um_dtype dtype, int64_t count, double first, double step)
{
    um_context *context;
    um_op op = {.id = UM_OP_ARANGE, .out_count = 1};
    um_tensor *x = start("arange", device, dtype, 1, &count, &context, &op.out[0]);
    if (x) return x;
    op.attrs.arange.start = first;
    op.attrs.arange.step = step;
    um_attrs *attrs = &op.attrs;
    if (um_op_infer(&op) != UM_OK) return um_node_fail(0, NULL);
    if (!um_dtype_is_float(dtype) &&
        !(whole(first < 0 ? UM_I64 : dtype, first, &attrs->arange.i_start) &&
          whole(UM_I64, step, &attrs->arange.i_step))) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "arange: %s from %g by %g, wanted whole 64-bit numbers",
                      um_dtype_name(dtype), first, step);
        return um_node_fail(0, NULL);
    }
    return generator(context, UM_OP_ARANGE, &op.attrs, &op.out[0]);
}

/* Whether all elements are in one live allocation, so that views of the tensor are too. */
static um_status check_wrapped(um_device *device, const um_view *view)
{
    char text[96];
    um_view_text(view, text, sizeof text);
    unsigned long long ptr = view->ptr;
    if (!um_view_is_aligned(view))
        return UM_FAIL(UM_INVALID_ARGUMENT, "wrap: %s at 0x%llx, wanted a multiple of its %d bytes",
                       text, ptr, um_dtype_bits(view->dtype) / 8);
    int64_t low, high;
    if (!um_view_extent(view, &low, &high))
        return UM_FAIL(UM_INVALID_ARGUMENT, "wrap: %s reaches further than 64 bits by its strides",
                       text);
    um_ptr first = view->ptr + (um_ptr)low, base;
    uint64_t held;
    if (um_ptr_resolve(device, first, &base, &held) == UM_OK &&
        (uint64_t)high - (uint64_t)low <= held - (first - base))
        return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "wrap: %s at 0x%llx, bytes %lld to %lld from there, is not inside one live "
                   "allocation of %s",
                   text, ptr, (long long)low, (long long)high, um_device_name(device));
}

um_tensor *um_wrap(um_device *device, const um_view *view)
{
    if (!view) {
        (void)UM_FAIL(UM_INVALID_ARGUMENT, "wrap: view is NULL");
        return um_node_fail(0, NULL);
    }
    um_context *context;
    um_view packed;
    um_tensor *x = start("wrap", device, view->dtype, view->rank, view->shape, &context, &packed);
    if (x) return x;
    if (um_view_count(&packed) > 0 && check_wrapped(device, view) != UM_OK)
        return um_node_fail(0, NULL);
    um_buffer *buffer;
    if (um_buffer_wrap(context, view->ptr, &buffer) != UM_OK) return um_node_fail(0, NULL);
    x = um_node_make(context, UM_NODE_LEAF, view->dtype, view->rank, view->shape, 0, NULL);
    if (x->kind == UM_NODE_ERROR) {
        um_buffer_release(buffer);
        return x;
    }
    x->buffer = buffer;
    for (int32_t i = 0; i < view->rank && um_view_count(&packed) > 0; i++)
        if (view->shape[i] > 1) x->stride[i] = view->stride[i]; /* others may be any number */
    return x;
}
