/* tensor/context.c: what the tensors of one device share: the stream, buffers (of the device's
 * pool), and which results an asynchronous failure took. */
#include "tensor/tensor.h"

#include "device/device.h"

/* ---- the context ------------------------------------------------------------------------------
 */

static void context_destroy(void *pointer)
{
    um_context *context = pointer;
    um_stream_release(context->stream);
    um_mem_free(context->lost);
    um_mem_free(context->order);
    um_mutex_destroy(&context->lock);
    um_mem_free(context);
}

/* Of a kernel; where there is no limit, or it isn't known, more than any op has. */
static int32_t buffer_count_max(um_device *device)
{
    um_caps caps = {.struct_size = sizeof caps};
    bool known = um_device_caps(device, &caps) == UM_OK && caps.bindings_max > 0;
    return known ? caps.bindings_max : INT32_MAX;
}

static um_status context_make(um_device *device, void **out)
{
    *out = NULL;
    um_context *context = um_mem_zalloc(sizeof *context);
    if (!context) return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for a device's context");
    context->device = device;
    context->buffer_count_max = buffer_count_max(device);
    UM_TRY_OR(um_mutex_init(&context->lock), fail);
    UM_TRY_OR(um_stream_open(device, 0, true, &context->stream), fail_lock);
    *out = context;
    return UM_OK;
fail_lock:
    um_mutex_destroy(&context->lock);
fail:
    um_mem_free(context);
    return um_status_last();
}

um_status um_context_get(um_device *device, um_context **out)
{
    void *context = NULL;
    um_status status = um_device_attach(device, context_make, context_destroy, &context);
    *out = context;
    return status;
}

um_status um_tensor_stream(um_device *device, um_stream **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "tensor_stream: out is NULL");
    *out = NULL;
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "tensor_stream: device is NULL");
    um_context *context;
    UM_TRY(um_context_get(device, &context));
    *out = context->stream;
    return UM_OK;
}

/* ---- buffers ------------------------------------------------------------------------------------
 */

um_status um_buffer_make(um_context *context, uint64_t size_bytes, um_buffer **out)
{
    *out = NULL;
    um_buffer *buffer = um_mem_alloc(sizeof *buffer);
    if (!buffer) return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for a buffer's record");
    *buffer = (um_buffer){.context = context, .is_own = true};
    atomic_init(&buffer->refs, 1);
    um_status status = um_alloc_async(context->stream, size_bytes, &buffer->ptr);
    if (status != UM_OK) {
        um_mem_free(buffer);
        return status;
    }
    *out = buffer;
    return UM_OK;
}

um_status um_buffer_wrap(um_context *context, um_ptr ptr, um_buffer **out)
{
    *out = um_mem_zalloc(sizeof **out);
    if (!*out) return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for a buffer's record");
    atomic_init(&(*out)->refs, 1);
    (*out)->context = context;
    (*out)->ptr = ptr;
    return UM_OK;
}

/* Any thread may be here, while another one runs a schedule. */
void um_buffer_release(um_buffer *buffer)
{
    if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
    if (buffer->is_own) {
        /* Cannot fail: it is the start of a live block. */
        um_status ignored = um_free_behind(buffer->context->stream, buffer->ptr);
        (void)ignored;
    }
    um_mem_free(buffer);
}

/* ---- asynchronous failures
 * ------------------------------------------------------------------------ */

um_status um_context_waited(um_context *context, um_status status)
{
    if (status == UM_OK) {
        context->known_good = context->sequence;
        return UM_OK;
    }
    um_error error = *um_last_error();
    if (um_stream_clear_error(context->stream) == UM_OK) return um_fail_again(&error);
    error = *um_last_error();
    /* The stream skips what comes after its first failure, so all that is not known to be good is
     * lost. No memory to note it: the last span grows to cover it. */
    void *spans = context->lost;
    um_status grown = um_vec_reserve(&spans, &context->lost_capacity, context->lost_count,
                                     sizeof *context->lost, "tensor");
    context->lost = spans;
    if (grown == UM_OK)
        context->lost[context->lost_count++] =
            (um_lost_span){.first = context->known_good, .last = context->sequence, .error = error};
    else if (context->lost_count > 0)
        context->lost[context->lost_count - 1].last = context->sequence;
    context->known_good = context->sequence;
    return um_fail_again(&error);
}

um_status um_context_check(um_context *context, uint64_t sequence)
{
    for (int64_t i = 0; i < context->lost_count; i++) {
        const um_lost_span *span = &context->lost[i];
        if (sequence > span->first && sequence <= span->last) return um_fail_again(&span->error);
    }
    return UM_OK;
}
