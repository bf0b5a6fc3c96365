/* What the core does where a backend leaves an optional entry out. Called by the public calls and
 * by the layers, which have every entry whatever is inside them. */
#include "device/layer.h"

#include "device/device.h"

#include <stdio.h>

bool um_driver_supports(um_driver driver, const um_op *op, char *why, size_t why_size)
{
    if (why_size > 0) why[0] = 0;
    if (driver.table->supports) return driver.table->supports(driver.device, op, why, why_size);
    if (why_size > 0) snprintf(why, why_size, "%s runs no ops itself", driver.table->name);
    return false;
}

um_status um_table_enqueue_batch(const um_backend *table, um_backend_stream *stream, int64_t count,
                                 const um_op *const *ops)
{
    if (table->enqueue_batch) return table->enqueue_batch(stream, count, ops);
    for (int64_t i = 0; i < count; i++) UM_TRY(table->enqueue(stream, ops[i]));
    return UM_OK;
}

um_status um_driver_stream_create(um_driver driver, int32_t priority, um_backend_stream **out)
{
    if (priority != 0 && driver.table->stream_create_priority)
        return driver.table->stream_create_priority(driver.device, priority, out);
    return driver.table->stream_create(driver.device, out);
}

um_status um_table_call(const um_backend *table, um_backend_stream *stream, um_stream_fn fn,
                        void *user)
{
    if (table->call) return table->call(stream, fn, user);
    UM_TRY(table->synchronize(stream, UINT64_MAX));
    fn(user, UM_OK);
    return UM_OK;
}

/* ---- copies --------------------------------------------------------------------------------- */

typedef struct host_copy {
    void *dst;
    const void *src;
    uint64_t size_bytes;
} host_copy;

static void copy_now(void *user, um_status status)
{
    const host_copy *copy = user;
    if (status == UM_OK) memcpy(copy->dst, copy->src, (size_t)copy->size_bytes);
    um_mem_free(user);
}

static um_status copy_in_host(const um_backend *table, um_backend_stream *stream, void *dst,
                              const void *src, uint64_t size_bytes)
{
    host_copy *copy = um_mem_alloc(sizeof *copy);
    if (!copy) return UM_FAIL(UM_OUT_OF_MEMORY, "um_copy_async: no memory to note it");
    *copy = (host_copy){dst, src, size_bytes};
    um_status status = um_table_call(table, stream, copy_now, copy);
    if (status != UM_OK) um_mem_free(copy);
    return status;
}

um_status um_table_copy_host(const um_backend *table, um_backend_stream *stream, um_copy_kind kind,
                             um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    if (table->copy_host) return table->copy_host(stream, kind, dst, src, size_bytes);
    void *to = (void *)(uintptr_t)dst;
    const void *from = (const void *)(uintptr_t)src;
    switch (kind) {
    case UM_COPY_HOST_TO_DEVICE: return table->write(stream, dst, from, size_bytes);
    case UM_COPY_DEVICE_TO_HOST: return table->read(stream, to, src, size_bytes);
    case UM_COPY_HOST_TO_HOST: return copy_in_host(table, stream, to, from, size_bytes);
    default: return table->copy(stream, dst, src, size_bytes);
    }
}
