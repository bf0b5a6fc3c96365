/* The vulkan backend: whatever a Vulkan driver (1.1 or later) computes on, through the loader
 * opened at run time. Every op is the kernel library's (src/kernel), rendered as SPIR-V. */
#include "backend/vulkan/vulkan.h"
#include "ir/math.h"

#include <stdio.h>

enum { LIMIT_BYTES = INT32_MAX };

static const um_vk_physical *physical_at(int32_t ordinal)
{
    const um_vk_physical *devices;
    um_vk_devices(&devices, NULL, 0);
    return &devices[ordinal];
}

static um_status vulkan_enumerate(int32_t *count, char *why, size_t why_size)
{
    const um_vk_physical *devices;
    *count = um_vk_devices(&devices, why, why_size);
    return UM_OK;
}

/* Of one memory for the CPU and the device. */
static bool is_shared(const um_vk_physical *p)
{
    uint32_t kind = p->properties.kind;
    return kind == VK_DEVICE_CPU || kind == VK_DEVICE_INTEGRATED || kind == VK_DEVICE_OTHER;
}

static uint64_t memory_bytes(const um_vk_physical *p)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->memory.heap_count; i++)
        if (p->memory.heap[i].flags & VK_HEAP_LOCAL)
            most = UM_MAX(most, p->memory.heap[i].size_bytes);
    return most;
}

static void version_of(const um_vk_physical *p, char *out, size_t out_size)
{
    uint32_t version = p->properties.api_version;
    snprintf(out, out_size, "Vulkan %u.%u.%u", version >> 22 & 127, version >> 12 & 1023,
             version & 4095);
}

static um_status vulkan_describe(int32_t ordinal, um_device_info *out)
{
    const um_vk_physical *p = physical_at(ordinal);
    out->kind = UM_DEVICE_VULKAN;
    out->ordinal = ordinal;
    out->is_gpu = p->properties.kind != VK_DEVICE_CPU;
    snprintf(out->backend, sizeof out->backend, "vulkan");
    snprintf(out->name, sizeof out->name, "%.127s", p->properties.name);
    version_of(p, out->version, sizeof out->version);
    if (p->has & UM_VK_F64) out->features |= UM_FEATURE_F64;
    out->memory_kind = is_shared(p) ? UM_MEMORY_SHARED : UM_MEMORY_DEVICE;
    out->memory_total_bytes = memory_bytes(p);
    return UM_OK;
}

/* ---- devices ----------------------------------------------------------------------------------
 */

extern const um_backend um_backend_vulkan;

static int32_t choose(void *ctx, const um_op *op, int32_t form_count)
{
    const um_backend_device *device = ctx;
    return um_tune_choose(device->tune, op, form_count);
}

/* A driver that computes on the CPU is for trying things out: there forms are timed only if
 * UMBEL_TUNE says so. */
static um_status open_kernels(um_backend_device *device)
{
    const vk_properties *p = &device->physical->properties;
    char driver[64];
    int used = snprintf(driver, sizeof driver, "%x-%x-", p->api_version, p->driver_version);
    for (int i = 0; i < 16; i++) used += snprintf(driver + used, 3, "%02x", p->uuid[i]);
    UM_TRY(um_disk_create(
        &(um_disk_desc){
            .what = "pipelines", .kind = UM_DEVICE_VULKAN, .name = p->name, .driver = driver},
        &device->pipelines));
    device->timed = (um_tune_device){&um_backend_vulkan, device, um_vk_enqueue_form};
    UM_TRY(um_tune_create(&(um_tune_desc){.kind = UM_DEVICE_VULKAN,
                                          .name = p->name,
                                          .driver = driver,
                                          .on = p->kind != VK_DEVICE_CPU,
                                          .ctx = &device->timed,
                                          .time = um_tune_time},
                          &device->tune));
    return um_kcache_create(&(um_kcache_desc){.ctx = device,
                                              .compile = um_vk_program_compile,
                                              .destroy = um_vk_program_destroy,
                                              .choose = choose},
                            &device->kernels);
}

/* Whether UMBEL_VULKAN has the word. */
static bool is_asked(const char *word)
{
    const char *text = um_env_get(UM_ENV_VULKAN);
    return text && strstr(text, word);
}

/* An index of an element counts as signed, so no buffer has more than 2^31 bytes. */
static void set_ways(um_backend_device *device)
{
    const um_vk_physical *p = device->physical;
    const vk_limits *l = &p->properties.limits;
    device->next_base = (um_ptr)1 << 40;
    device->by_address = (p->has & UM_VK_ADDRESSES) && !is_asked("descriptors");
    device->is_mapped = is_shared(p) && !is_asked("staging");
    uint64_t most = LIMIT_BYTES;
    if (!device->by_address) most = UM_MIN(most, l->storage_range - l->storage_alignment);
    device->limits = (um_klimits){most / 256 * 256, {l->group_count[0], l->group_count[1]}, 0};
    const struct {
        uint32_t has, types;
    } rows[] = {{UM_VK_F64, UM_BIT(UM_F64)},
                {UM_VK_I64, UM_BIT(UM_I64) | UM_BIT(UM_U64)},
                {UM_VK_I16, UM_BIT(UM_I16) | UM_BIT(UM_U16)},
                {UM_VK_I8, UM_BIT(UM_I8) | UM_BIT(UM_U8)}};
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++)
        if (p->has & rows[i].has) device->types |= rows[i].types;
}

static um_status open_queues(um_backend_device *device)
{
    uint32_t count = UM_MIN(device->physical->queue_count, (uint32_t)UM_VK_QUEUES);
    for (; device->queue_count < count; device->queue_count++) {
        um_vk_queue *queue = &device->queue[device->queue_count];
        UM_TRY(um_mutex_init(&queue->mutex));
        device->vk.vkGetDeviceQueue(device->handle, device->physical->family, device->queue_count,
                                    &queue->handle);
    }
    UM_TRY(um_vk_staging_take(device, UM_VK_FAULTS * sizeof(uint32_t), &device->fault_words));
    while (device->fault_free_count < UM_VK_FAULTS) {
        device->fault_free[device->fault_free_count] = (uint16_t)device->fault_free_count;
        device->fault_free_count++;
    }
    return UM_OK;
}

static void vulkan_close(um_backend_device *device)
{
    um_kcache_release(device->kernels);
    um_tune_release(device->tune);
    um_disk_release(device->pipelines);
    if (device->handle) {
        um_vk_batches_release(device);
        um_vk_memory_release(device);
        device->vk.vkDestroyDevice(device->handle, NULL);
    }
    while (device->queue_count > 0) um_mutex_destroy(&device->queue[--device->queue_count].mutex);
    um_mutex_destroy(&device->mutex);
    um_mem_free(device);
}

static um_status vulkan_open(int32_t ordinal, um_backend_device **out)
{
    *out = NULL;
    um_backend_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a device");
    um_status status = um_mutex_init(&device->mutex);
    if (status != UM_OK) {
        um_mem_free(device);
        return status;
    }
    device->physical = physical_at(ordinal);
    set_ways(device);
    status = um_vk_open(device->physical, &device->handle, &device->vk);
    if (status == UM_OK) status = open_queues(device);
    if (status == UM_OK) status = open_kernels(device);
    if (status == UM_OK)
        *out = device;
    else
        vulkan_close(device);
    return status;
}

static um_status vulkan_caps(um_backend_device *device, um_caps *out)
{
    const um_vk_physical *p = device->physical;
    const vk_limits *l = &p->properties.limits;
    out->kind = UM_DEVICE_VULKAN;
    snprintf(out->name, sizeof out->name, "%.127s", p->properties.name);
    version_of(p, out->version, sizeof out->version);
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++)
        if (dtype != UM_F64 || (p->has & UM_VK_F64)) out->storage |= UM_BIT(dtype);
    out->arithmetic = UM_DTYPES_FIB & out->storage;
    if (p->has & UM_VK_F64) out->features |= UM_FEATURE_F64;
    out->subgroup_min = out->subgroup_max = (int32_t)p->subgroup_size;
    out->memory_kind = is_shared(p) ? UM_MEMORY_SHARED : UM_MEMORY_DEVICE;
    out->memory_total_bytes = memory_bytes(p);
    out->buffer_max_bytes = p->allocation_max_bytes;
    out->binding_max_bytes = device->limits.binding_max_bytes;
    for (int32_t d = 0; d < 3; d++) {
        out->group_size_max[d] = (int32_t)UM_MIN(l->group_size[d], (uint32_t)INT32_MAX);
        out->group_count_max[d] = (int32_t)UM_MIN(l->group_count[d], (uint32_t)INT32_MAX);
    }
    out->group_invocations_max = (int32_t)l->group_invocations;
    out->bindings_max = UM_K_MAX_BUFFERS;
    if (!device->by_address)
        out->bindings_max = (int32_t)UM_MIN(l->stage_storage, (uint32_t)UM_K_MAX_BUFFERS);
    out->group_shared_bytes = l->shared_bytes;
    return UM_OK;
}

static bool has_f64(const um_op *op)
{
    bool has = false;
    for (int32_t i = 0; i < op->in_count; i++) has = has || op->in[i].dtype == UM_F64;
    for (int32_t i = 0; i < op->out_count; i++) has = has || op->out[i].dtype == UM_F64;
    return has;
}

/* Which is to round once; of f64 SPIR-V does not promise that, and the library does not make it. */
static bool has_fma(const um_op *op)
{
    bool has = op->id == UM_OP_FMA;
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        const um_map_program *p = um_op_program(op, which);
        for (int32_t i = 0; p && i < p->inst_count; i++) has |= p->inst[i].op == UM_OP_FMA;
    }
    return has;
}

static bool vulkan_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    bool good = um_planner_supports(device->kernels, &device->limits, op, why, why_size);
    if (!good || !has_f64(op)) return good;
    const char *lacks = !(device->types & UM_BIT(UM_F64)) ? "the device has no f64"
                        : has_fma(op)                     ? "SPIR-V's fma of f64 may round twice"
                                                          : NULL;
    if (lacks && why_size > 0) snprintf(why, why_size, "%s: %s", um_op_name(op->id), lacks);
    return !lacks;
}

const um_backend um_backend_vulkan = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "vulkan",
    .enumerate = vulkan_enumerate,
    .describe = vulkan_describe,
    .open = vulkan_open,
    .close = vulkan_close,
    .caps = vulkan_caps,
    .alloc = um_vk_alloc,
    .free = um_vk_free,
    .stream_create = um_vk_stream_create,
    .stream_destroy = um_vk_stream_destroy,
    .write = um_vk_write,
    .read = um_vk_read,
    .copy = um_vk_copy,
    .fill = um_vk_fill,
    .record = um_vk_record,
    .wait = um_vk_wait,
    .query = um_vk_query,
    .synchronize = um_vk_synchronize,
    .clear_error = um_vk_clear_error,
    .supports = vulkan_supports,
    .enqueue = um_vk_enqueue,
};
