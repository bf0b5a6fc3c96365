/* The opencl backend: whatever an OpenCL driver (1.2 or later) computes on, through the loader
 * opened at run time. Every op is the kernel library's (src/kernel), rendered as OpenCL C. */
#include "backend/opencl/stream.h"

#include <stdio.h>

static const um_cl_device *device_at(int32_t ordinal)
{
    const um_cl_device *devices;
    um_cl_devices(&devices, NULL, 0);
    return &devices[ordinal];
}

static um_status opencl_enumerate(int32_t *count, char *why, size_t why_size)
{
    const um_cl_device *devices;
    *count = um_cl_devices(&devices, why, why_size);
    return UM_OK;
}

/* Only what rounds to the nearest and keeps subnormals, infinities and NaN. */
static bool has_f16(cl_any id)
{
    enum { ALL_THREE = 7 };
    return um_cl_has(id, "cl_khr_fp16") &&
           (um_cl_number(id, UM_CL_DEVICE_HALF_CONFIG) & ALL_THREE) == ALL_THREE;
}

static um_status opencl_describe(int32_t ordinal, um_device_info *out)
{
    const um_cl_device *device = device_at(ordinal);
    out->kind = UM_DEVICE_OPENCL;
    out->ordinal = ordinal;
    out->is_gpu = (device->type & UM_CL_TYPE_CPU) == 0;
    snprintf(out->backend, sizeof out->backend, "opencl");
    um_cl_text(device->id, UM_CL_DEVICE_NAME, out->name, sizeof out->name);
    um_cl_text(device->id, UM_CL_DEVICE_VERSION, out->version, sizeof out->version);
    if (um_cl_has(device->id, "cl_khr_fp64")) out->features |= UM_FEATURE_F64;
    if (has_f16(device->id)) out->features |= UM_FEATURE_FP16;
    out->memory_kind =
        um_cl_number(device->id, UM_CL_DEVICE_UNIFIED_MEMORY) ? UM_MEMORY_SHARED : UM_MEMORY_DEVICE;
    out->memory_total_bytes = um_cl_number(device->id, UM_CL_DEVICE_MEMORY);
    return UM_OK;
}

extern const um_backend um_backend_opencl;

/* What is on disk is good for one driver and one set of options. A driver that computes on the CPU
 * is for trying things out: there forms are timed only if UMBEL_TUNE says so, and programs not kept
 * (PoCL compiles them once more to give them to us, and has a cache of its own). */
static um_status open_kernels(um_backend_device *device, int32_t ordinal, bool is_cpu)
{
    static const um_kunit processor = {.own_tile = 8};
    char driver[64], version[128], all[300];
    um_cl_text(device->id, UM_CL_DEVICE_DRIVER, driver, sizeof driver);
    um_cl_text(device->id, UM_CL_DEVICE_VERSION, version, sizeof version);
    snprintf(all, sizeof all, "%s, %s, %s", driver, version, device->build);
    return um_kdriver_open(&device->k, &(um_kdriver_desc){.backend = &um_backend_opencl,
                                                          .device = device,
                                                          .ordinal = ordinal,
                                                          .driver = all,
                                                          .disk = is_cpu ? NULL : "programs",
                                                          .tune = !is_cpu,
                                                          .unit = is_cpu ? &processor : NULL,
                                                          .compile = um_cl_program_compile,
                                                          .destroy = um_cl_program_destroy,
                                                          .enqueue = um_cl_enqueue_form});
}

static void set_limits(um_backend_device *device)
{
    cl_any id = device->id;
    device->k.limits =
        (um_klimits){um_cl_number(id, UM_CL_DEVICE_MAX_ALLOC), {INT32_MAX, INT32_MAX}, 0};
    device->k.types = UINT32_MAX;
    if (!has_f16(id)) device->k.types &= ~(uint32_t)UM_BIT(UM_F16);
    if (!um_cl_has(id, "cl_khr_fp64")) device->k.types &= ~(uint32_t)UM_BIT(UM_F64);
    uint64_t floats = um_cl_number(id, UM_CL_DEVICE_FLOAT_CONFIG);
    device->build = floats & UM_CL_CORRECTLY_ROUNDED_DIVIDE
                        ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                        : "-cl-std=CL1.2";
}

static void opencl_close(um_backend_device *device)
{
    um_kdriver_close(&device->k);
    for (um_cl_fault *fault; (fault = device->unused) != NULL;) {
        device->unused = fault->next;
        um_mem_free(fault);
    }
    if (device->context) um_cl.clReleaseContext(device->context);
    um_mutex_destroy(&device->mutex);
    um_mem_free(device);
}

static um_status opencl_open(int32_t ordinal, um_backend_device **out)
{
    const um_cl_device *found = device_at(ordinal);
    int32_t code = 0;
    *out = NULL;
    um_backend_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return UM_FAIL(UM_OUT_OF_MEMORY, "opencl: no memory for a device");
    um_status status = um_mutex_init(&device->mutex);
    if (status != UM_OK) {
        um_mem_free(device);
        return status;
    }
    device->id = found->id;
    set_limits(device);
    device->context = um_cl.clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    status = device->context ? open_kernels(device, ordinal, found->type & UM_CL_TYPE_CPU)
                             : um_cl_fail("clCreateContext", code);
    if (status == UM_OK)
        *out = device;
    else
        opencl_close(device);
    return status;
}

static um_status opencl_caps(um_backend_device *device, um_caps *out)
{
    size_t sizes[3] = {0};
    cl_any id = device->id;
    um_kdriver_caps(&device->k, out);
    out->compute_units = (int32_t)um_cl_number(id, UM_CL_DEVICE_COMPUTE_UNITS);
    out->buffer_max_bytes = out->binding_max_bytes;
    out->l2_bytes = um_cl_number(id, UM_CL_DEVICE_GLOBAL_CACHE);
    um_cl.clGetDeviceInfo(id, UM_CL_DEVICE_ITEM_SIZES, sizeof sizes, sizes, NULL);
    for (int32_t d = 0; d < 3; d++)
        out->group_size_max[d] = (int32_t)UM_MIN(sizes[d], (size_t)INT32_MAX);
    out->group_invocations_max = (int32_t)um_cl_number(id, UM_CL_DEVICE_GROUP_SIZE);
    out->group_shared_bytes = um_cl_number(id, UM_CL_DEVICE_SHARED_MEMORY);
    return UM_OK;
}

static bool opencl_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    return um_kdriver_supports(&device->k, op, why, why_size);
}

const um_backend um_backend_opencl = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "opencl",
    .enumerate = opencl_enumerate,
    .describe = opencl_describe,
    .open = opencl_open,
    .close = opencl_close,
    .caps = opencl_caps,
    .alloc = um_cl_alloc,
    .free = um_cl_free,
    .stream_create = um_cl_stream_create,
    .stream_destroy = um_cl_stream_destroy,
    .write = um_cl_write,
    .read = um_cl_read,
    .copy = um_cl_copy,
    .fill = um_cl_fill,
    .record = um_cl_record,
    .wait = um_cl_wait,
    .query = um_cl_query,
    .synchronize = um_cl_synchronize,
    .clear_error = um_cl_clear_error,
    .supports = opencl_supports,
    .enqueue = um_cl_enqueue,
    .recorder = um_cl_recorder,
    .replay = um_cl_replay,
};
