/* tensor/context.c: what the tensors of one device share: the stream, recycled buffers, and which
 * results an asynchronous failure took. */
#include "tensor/tensor.h"

#include "device/device.h"

/* Buffers kept for reuse beyond what is in use now, at most. */
static const uint64_t POOL_SLACK_BYTES = (uint64_t)256 << 20;

/* ---- the context ------------------------------------------------------------------------------
 */

static void trim(um_context *context, uint64_t keep_bytes);

static void context_destroy(void *pointer)
{
    um_context *context = pointer;
    trim(context, 0);
    um_stream_release(context->stream);
    um_mem_free(context->lost);
    um_mem_free(context->order);
    um_mutex_destroy(&context->lock);
    um_mutex_destroy(&context->pool_lock);
    um_mem_free(context);
}

static um_status context_make(um_device *device, void **out)
{
    *out = NULL;
    um_context *context = um_mem_zalloc(sizeof *context);
    if (!context) return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for a device's context");
    context->device = device;
    UM_TRY_OR(um_mutex_init(&context->lock), fail);
    UM_TRY_OR(um_mutex_init(&context->pool_lock), fail_lock);
    UM_TRY_OR(um_stream_open(device, 0, true, &context->stream), fail_pool_lock);
    *out = context;
    return UM_OK;
fail_pool_lock:
    um_mutex_destroy(&context->pool_lock);
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

/* Sizes are rounded up to 64 bytes times (4 .. 7) * 2^k: four classes to each power of two, so at
 * most a quarter is wasted. */
static int32_t size_class(uint64_t size_bytes, uint64_t *rounded)
{
    uint64_t lines = (size_bytes + 63) / 64;
    if (lines < 4) lines = 4;
    int32_t shift = 61 - __builtin_clzll(lines); /* lines >> shift is 4 .. 7 */
    uint64_t top = (lines + ((uint64_t)1 << shift) - 1) >> shift;
    *rounded = (top << shift) * 64;
    return shift * 4 + (int32_t)(top - 4); /* top 8 is the next class up, rightly */
}

static um_buffer *pool_take(um_context *context, int32_t class)
{
    um_mutex_lock(&context->pool_lock);
    um_buffer *buffer = context->free_lists[class];
    if (buffer) {
        context->free_lists[class] = buffer->next;
        context->pooled_bytes -= buffer->size_bytes;
        context->live_bytes += buffer->size_bytes;
    }
    um_mutex_unlock(&context->pool_lock);
    return buffer;
}

static void buffer_destroy(um_context *context, um_buffer *buffer)
{
    /* Stream-ordered: work that still uses it is before it. A failure leaves the memory to the
     * device, which frees all when it closes. */
    if (buffer->size_bytes) {
        um_status ignored = um_free_async(context->stream, buffer->ptr);
        (void)ignored;
    }
    um_mem_free(buffer);
}

/* Gives back pooled buffers, largest first, until at most keep_bytes are left. */
static void trim(um_context *context, uint64_t keep_bytes)
{
    for (int32_t class = UM_SIZE_CLASSES - 1; class >= 0; class --) {
        for (;;) {
            um_mutex_lock(&context->pool_lock);
            um_buffer *buffer =
                context->pooled_bytes > keep_bytes ? context->free_lists[class] : NULL;
            if (buffer) {
                context->free_lists[class] = buffer->next;
                context->pooled_bytes -= buffer->size_bytes;
            }
            um_mutex_unlock(&context->pool_lock);
            if (!buffer) break;
            buffer_destroy(context, buffer);
        }
    }
}

um_status um_buffer_make(um_context *context, uint64_t size_bytes, um_buffer **out)
{
    *out = NULL;
    uint64_t rounded;
    if (size_bytes > INT64_MAX / 2)
        return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for %llu bytes",
                       (unsigned long long)size_bytes);
    int32_t class = size_class(size_bytes, &rounded);
    um_buffer *buffer = pool_take(context, class);
    if (!buffer) {
        buffer = um_mem_zalloc(sizeof *buffer);
        if (!buffer) return UM_FAIL(UM_OUT_OF_MEMORY, "tensor: no memory for a buffer's record");
        um_status status = um_alloc(context->device, rounded, &buffer->ptr);
        if (status == UM_OUT_OF_MEMORY) {
            trim(context, 0);
            status = um_alloc(context->device, rounded, &buffer->ptr);
        }
        if (status != UM_OK) {
            um_mem_free(buffer);
            return status;
        }
        buffer->size_bytes = rounded;
        buffer->context = context;
        um_mutex_lock(&context->pool_lock);
        context->live_bytes += rounded;
        um_mutex_unlock(&context->pool_lock);
    }
    atomic_init(&buffer->refs, 1);
    buffer->next = NULL;
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

void um_buffer_release(um_buffer *buffer)
{
    if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
    um_context *context = buffer->context;
    if (!buffer->size_bytes) {
        um_mem_free(buffer);
        return;
    }
    uint64_t rounded;
    int32_t class = size_class(buffer->size_bytes, &rounded);
    um_mutex_lock(&context->pool_lock);
    context->live_bytes -= buffer->size_bytes;
    bool keep =
        context->pooled_bytes + buffer->size_bytes <= context->live_bytes + POOL_SLACK_BYTES;
    if (keep) {
        buffer->next = context->free_lists[class];
        context->free_lists[class] = buffer;
        context->pooled_bytes += buffer->size_bytes;
    }
    um_mutex_unlock(&context->pool_lock);
    if (!keep) buffer_destroy(context, buffer);
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
