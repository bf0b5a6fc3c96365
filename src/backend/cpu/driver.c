/* The CPU as a backend: the table of entries, and what is simple enough to be here: memory and
 * capabilities. Streams are in stream.c, threads in pool.c, kernels in kernels.c. */
#include "backend/cpu/stream.h"

#include <stdio.h>

#define ALLOC_ALIGN 64

struct um_backend_device {
    um_cpu_pool *pool;
    uint64_t buffer_max_bytes; /* the machine's memory: more would only be promised, not there */
};

static um_status cpu_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 1;
    if (why_size > 0) why[0] = 0;
    return UM_OK;
}

/* Dtypes some kernel computes on: moving values, and choosing between them, is not computing. */
static uint32_t arithmetic_dtypes(void)
{
    uint32_t dtypes = 0;
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        const um_cpu_kernel *kernel = um_cpu_kernel_find(id);
        const um_op_row *row = um_op_get_row(id);
        bool moves =
            row->family == UM_FAMILY_MOVE || row->family == UM_FAMILY_INDEX || id == UM_OP_WHERE;
        if (kernel && !moves) dtypes |= kernel->dtypes;
    }
    return dtypes;
}

static uint32_t features(void)
{
    static const struct {
        uint32_t dtypes, feature;
    } rows[] = {
        {UM_BIT(UM_F16), UM_FEATURE_FP16},
        {UM_BIT(UM_BF16), UM_FEATURE_BF16},
        {UM_BIT(UM_F8E4M3FN) | UM_BIT(UM_F8E5M2), UM_FEATURE_FP8},
        {UM_BIT(UM_F64), UM_FEATURE_F64},
    };
    uint32_t dtypes = arithmetic_dtypes(), found = UM_FEATURE_UNIFIED_MEMORY;
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++) {
        if ((dtypes & rows[i].dtypes) == rows[i].dtypes) found |= rows[i].feature;
    }
    return found;
}

static um_status cpu_describe(int32_t ordinal, um_device_info *out)
{
    uint64_t free_bytes;
    out->kind = UM_DEVICE_CPU;
    out->ordinal = ordinal;
    snprintf(out->backend, sizeof out->backend, "cpu");
    um_os_cpu_name(out->name, sizeof out->name);
    um_os_machine(out->version, sizeof out->version);
    out->features = features();
    out->memory_kind = UM_MEMORY_HOST;
    um_os_memory(&out->memory_total_bytes, &free_bytes);
    return UM_OK;
}

um_status um_cpu_entry_open(int32_t ordinal, um_backend_device **out)
{
    (void)ordinal;
    *out = NULL;
    um_backend_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0, "cpu: no memory to open");
    um_status status = um_cpu_pool_get(&device->pool);
    if (status != UM_OK) {
        um_mem_free(device);
        return status;
    }
    uint64_t total_bytes, free_bytes;
    um_os_memory(&total_bytes, &free_bytes);
    device->buffer_max_bytes = total_bytes ? total_bytes : PTRDIFF_MAX;
    *out = device;
    return UM_OK;
}

void um_cpu_entry_close(um_backend_device *device)
{
    um_cpu_pool_put(device->pool);
    um_mem_free(device);
}

um_status um_cpu_entry_caps(um_backend_device *device, um_caps *out)
{
    out->kind = UM_DEVICE_CPU;
    um_os_cpu_name(out->name, sizeof out->name);
    snprintf(out->isa, sizeof out->isa, "%s", um_cpu_isa_name());
    out->storage = UM_DTYPES_ALL;
    out->arithmetic = arithmetic_dtypes();
    out->compute_units = um_cpu_pool_threads(device->pool);
    out->subgroup_min = out->subgroup_max = um_cpu_simd_f32_lanes();
    out->features = features();
    um_os_memory(&out->memory_total_bytes, &out->memory_free_bytes);
    out->buffer_max_bytes = device->buffer_max_bytes;
    um_os_caches(&out->l1_bytes, &out->l2_bytes, &out->l3_bytes);
    um_os_machine(out->version, sizeof out->version);
    out->memory_kind = UM_MEMORY_HOST;
    out->cores_physical = um_os_core_count();
    out->cores_logical = um_os_cpu_count();
    return UM_OK;
}

um_status um_cpu_entry_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    *out = 0;
    void *memory = NULL;
    if (size_bytes <= device->buffer_max_bytes) {
        memory = um_mem_alloc_aligned((size_t)size_bytes, ALLOC_ALIGN);
    }
    if (!memory) {
        return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0, "cpu: no memory for %llu bytes",
                               (unsigned long long)size_bytes);
    }
    *out = (um_ptr)(uintptr_t)memory;
    return UM_OK;
}

void um_cpu_entry_free(um_backend_device *device, um_ptr ptr)
{
    (void)device;
    um_mem_free((void *)(uintptr_t)ptr);
}

static um_status cpu_stream_create_priority(um_backend_device *device, int32_t priority,
                                            um_backend_stream **out)
{
    enum { FURTHEST = 2 }; /* any number would do; few are enough */
    priority = UM_MAX(-FURTHEST, UM_MIN(priority, FURTHEST));
    return um_cpu_stream_create(device->pool, priority, out);
}

um_status um_cpu_entry_stream_create(um_backend_device *device, um_backend_stream **out)
{
    return cpu_stream_create_priority(device, 0, out);
}

bool um_cpu_entry_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    (void)device;
    return um_cpu_kernel_supports(op, why, why_size);
}

const um_backend um_backend_cpu = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "cpu",
    .enumerate = cpu_enumerate,
    .describe = cpu_describe,
    .open = um_cpu_entry_open,
    .close = um_cpu_entry_close,
    .caps = um_cpu_entry_caps,
    .alloc = um_cpu_entry_alloc,
    .free = um_cpu_entry_free,
    .stream_create = um_cpu_entry_stream_create,
    .stream_destroy = um_cpu_entry_stream_destroy,
    .write = um_cpu_entry_write,
    .read = um_cpu_entry_read,
    .copy = um_cpu_entry_copy,
    .fill = um_cpu_entry_fill,
    .record = um_cpu_entry_record,
    .wait = um_cpu_entry_wait,
    .query = um_cpu_entry_query,
    .synchronize = um_cpu_entry_synchronize,
    .clear_error = um_cpu_entry_clear_error,
    .supports = um_cpu_entry_supports,
    .enqueue = um_cpu_entry_enqueue,
    .enqueue_batch = um_cpu_stream_enqueue_batch,
    .stream_create_priority = cpu_stream_create_priority,
    .copy_host = um_cpu_stream_copy_host,
    .call = um_cpu_stream_call,
};
