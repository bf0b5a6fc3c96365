/* backend/opencl/memory.c: buffers. A um_ptr is a number of ours, in a range that one buffer has
 * for its own: OpenCL 1.2 has handles and no addresses. */
#include "backend/opencl/stream.h"

/* Between buffers, so that an address past the end of one is in none. */
#define GAP ((uint64_t)1 << 16)

/* The first buffer that begins after ptr. With the device's mutex held. */
static int64_t buffer_after(const um_backend_device *device, um_ptr ptr)
{
    int64_t low = 0, high = device->buffer_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (device->buffer[middle].base <= ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of whole 16 bytes, because kernels may see small elements as words. */
um_status um_cl_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    enum { READ_WRITE = 1 };
    int32_t code = -61;
    *out = 0;
    cl_any mem = NULL;
    if (size_bytes < INT64_MAX - 16)
        mem = um_cl.clCreateBuffer(device->context, READ_WRITE, (size_bytes + 15) / 16 * 16, NULL,
                                   &code);
    if (!mem) return um_cl_fail("clCreateBuffer", code);
    um_mutex_lock(&device->mutex);
    void *items = device->buffer;
    um_status status = um_vec_reserve(&items, &device->buffer_capacity, device->buffer_count,
                                      sizeof *device->buffer, "opencl");
    device->buffer = items;
    if (status == UM_OK) {
        *out = device->next_base;
        device->buffer[device->buffer_count++] = (um_cl_buffer){*out, size_bytes, mem};
        device->next_base += (size_bytes + GAP - 1) / GAP * GAP + GAP;
    }
    um_mutex_unlock(&device->mutex);
    if (status != UM_OK) um_cl.clReleaseMemObject(mem);
    return status;
}

void um_cl_free(um_backend_device *device, um_ptr ptr)
{
    um_mutex_lock(&device->mutex);
    int64_t at = buffer_after(device, ptr) - 1;
    cl_any mem = device->buffer[at].mem;
    device->buffer_count--;
    memmove(device->buffer + at, device->buffer + at + 1,
            (size_t)(device->buffer_count - at) * sizeof *device->buffer);
    um_mutex_unlock(&device->mutex);
    um_cl.clReleaseMemObject(mem);
}

cl_any um_cl_find_locked(const um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes)
{
    const um_cl_buffer *buffer = &device->buffer[buffer_after(device, ptr) - 1];
    *offset_bytes = ptr - buffer->base;
    return buffer->mem;
}

cl_any um_cl_find(um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes)
{
    um_mutex_lock(&device->mutex);
    cl_any mem = um_cl_find_locked(device, ptr, offset_bytes);
    um_mutex_unlock(&device->mutex);
    return mem;
}
