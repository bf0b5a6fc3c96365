/* backend/opencl/memory.c: buffers. A um_ptr is a number of ours, in a range that one buffer has
 * for its own: OpenCL 1.2 has handles and no addresses. */
#include "backend/opencl/stream.h"

/* Of whole 16 bytes, because kernels may see small elements as words. */
um_status um_cl_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    enum { READ_WRITE = 1 };
    uint64_t most = device->k.limits.binding_max_bytes;
    if (most == 0) most = INT64_MAX - 16; /* it does not say */
    int32_t code;
    *out = 0;
    if (size_bytes > most)
        return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: %llu bytes, the device gives %llu at most",
                       (unsigned long long)size_bytes, (unsigned long long)most);
    cl_any mem =
        um_cl.clCreateBuffer(device->context, READ_WRITE, (size_bytes + 15) / 16 * 16, NULL, &code);
    if (!mem) return um_cl_fail("clCreateBuffer", code);
    um_mutex_lock(&device->mutex);
    um_status status = um_memmap_place(&device->map, size_bytes, mem, out);
    um_mutex_unlock(&device->mutex);
    if (status != UM_OK) um_cl.clReleaseMemObject(mem);
    return status;
}

void um_cl_free(um_backend_device *device, um_ptr ptr)
{
    um_mutex_lock(&device->mutex);
    cl_any mem = um_memmap_owner(&device->map, ptr);
    um_memmap_remove(&device->map, ptr);
    um_mutex_unlock(&device->mutex);
    um_cl.clReleaseMemObject(mem);
}

cl_any um_cl_find_locked(const um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes)
{
    um_ptr base;
    uint64_t size_bytes;
    um_memmap_find(&device->map, ptr, &base, &size_bytes);
    *offset_bytes = ptr - base;
    return um_memmap_owner(&device->map, base);
}

cl_any um_cl_find(um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes)
{
    um_mutex_lock(&device->mutex);
    cl_any mem = um_cl_find_locked(device, ptr, offset_bytes);
    um_mutex_unlock(&device->mutex);
    return mem;
}
