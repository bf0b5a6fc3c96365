/* The vulkan backend: whatever a Vulkan driver (1.1 or later) computes on, through the loader
 * opened at run time. Every op is the kernel library's (src/kernel), rendered as SPIR-V. */
#include "backend/vulkan/vulkan.h"

#include <stdio.h>

enum { LIMIT_BYTES = INT32_MAX };

/* Of one memory for the CPU and the device; others show the CPU a window of theirs at most. */
static bool is_shared(const um_vk_physical *p)
{
    uint32_t kind = p->properties.kind;
    return kind != VK_DEVICE_DISCRETE && kind != VK_DEVICE_VIRTUAL &&
           um_vk_memory_type(p, UINT32_MAX, UM_VK_SHARED, 0) >= 0;
}

/* Which of the device's own memory heaps is the largest. */
static uint32_t heap_of(const vk_memory_properties *m)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < m->heap_count; i++)
        if (m->heap[i].flags & VK_HEAP_LOCAL && (!(m->heap[best].flags & VK_HEAP_LOCAL) ||
                                                 m->heap[i].size_bytes > m->heap[best].size_bytes))
            best = i;
    return best;
}

static uint64_t free_bytes(const um_vk_physical *p)
{
    uint32_t heap = heap_of(&p->memory);
    vk_memory_budget budget = {.type = VK_IS_MEMORY_BUDGET};
    vk_memory_properties memory = {.type = VK_IS_MEMORY_PROPERTIES, .next = &budget};
    if (!p->has_budget) return 0;
    um_vk.vkGetPhysicalDeviceMemoryProperties2(p->handle, &memory);
    return budget.budget_bytes[heap] - UM_MIN(budget.used_bytes[heap], budget.budget_bytes[heap]);
}

static um_status vulkan_describe(int32_t ordinal, um_device_info *out)
{
    const um_vk_physical *p = um_vk_device_at(ordinal);
    uint32_t version = p->properties.api_version;
    out->kind = UM_DEVICE_VULKAN;
    out->ordinal = ordinal;
    out->is_gpu = p->properties.kind != VK_DEVICE_CPU;
    snprintf(out->backend, sizeof out->backend, "vulkan");
    snprintf(out->name, sizeof out->name, "%.127s", p->properties.name);
    snprintf(out->version, sizeof out->version, "Vulkan %u.%u.%u", version >> 22 & 127,
             version >> 12 & 1023, version & 4095);
    if (p->types & UM_BIT(UM_F64)) out->features |= UM_FEATURE_F64;
    if (p->types & UM_BIT(UM_F16)) out->features |= UM_FEATURE_FP16;
    if (p->unit.tile_count) out->features |= UM_FEATURE_TENSOR_CORES;
    out->memory_kind = is_shared(p) ? UM_MEMORY_SHARED : UM_MEMORY_DEVICE;
    out->memory_total_bytes = p->memory.heap[heap_of(&p->memory)].size_bytes;
    return UM_OK;
}

/* ---- devices ----------------------------------------------------------------------------------
 */

extern const um_backend um_backend_vulkan;

/* Whether UMBEL_VULKAN has the word. */
static bool is_asked(const char *word) { return um_list_has(um_env_get(UM_ENV_VULKAN), word); }

/* A driver that computes on the CPU is for trying things out: there forms are timed only if
 * UMBEL_TUNE says so. */
static um_status open_kernels(um_backend_device *device, int32_t ordinal)
{
    /* What lavapipe loads, it loads lane by lane: a larger tile loads less. */
    static const um_kunit processor = {.own_tile = 16, .fma_twice = true};
    const vk_properties *p = &device->physical->properties;
    bool is_cpu = p->kind == VK_DEVICE_CPU;
    const um_kunit *unit = is_cpu && !is_asked("gpu") ? &processor : &device->physical->unit;
    char driver[64];
    int used = snprintf(driver, sizeof driver, "%x-%x-", p->api_version, p->driver_version);
    for (int i = 0; i < 16; i++) used += snprintf(driver + used, 3, "%02x", p->uuid[i]);
    return um_kdriver_open(&device->k, &(um_kdriver_desc){.backend = &um_backend_vulkan,
                                                          .device = device,
                                                          .ordinal = ordinal,
                                                          .driver = driver,
                                                          .disk = "pipelines",
                                                          .tune = !is_cpu,
                                                          .unit = unit,
                                                          .compile = um_vk_program_compile,
                                                          .destroy = um_vk_unref,
                                                          .enqueue = um_vk_enqueue_form});
}

/* An index of an element counts as signed, so no buffer has more than 2^31 bytes. By descriptors,
 * one more may be what a kernel's words are in. */
static void set_ways(um_backend_device *device)
{
    const um_vk_physical *p = device->physical;
    const vk_limits *l = &p->properties.limits;
    device->by_address = p->more[VK_WITH_ADDRESSES].has[0] && !is_asked("descriptors");
    device->is_mapped = is_shared(p) && !is_asked("staging");
    device->k.types = p->types;
    uint64_t most = LIMIT_BYTES;
    if (!device->by_address) most = UM_MIN(most, l->storage_range - l->storage_alignment);
    device->k.limits = (um_klimits){most / 256 * 256, {l->group_count[0], l->group_count[1]}, 0};
    if (device->by_address) return;
    device->descriptor_count = UM_MIN(l->stage_storage, (uint32_t)UM_K_MAX_BUFFERS + 1);
    device->k.limits.buffer_count_max = (int32_t)device->descriptor_count - 1;
}

static void vulkan_close(um_backend_device *device)
{
    um_kdriver_close(&device->k);
    if (device->handle) {
        (void)device->vk.vkDeviceWaitIdle(device->handle); /* its threads, too, are done then */
        um_vk_timelines_release(device);
        um_vk_batches_release(device);
        um_vk_faults_release(device);
        um_blocks_release(&device->blocks);
        if (device->layout)
            device->vk.vkDestroyPipelineLayout(device->handle, device->layout, NULL);
        if (device->set_layout)
            device->vk.vkDestroyDescriptorSetLayout(device->handle, device->set_layout, NULL);
        device->vk.vkDestroyDevice(device->handle, NULL);
    }
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
    device->physical = um_vk_device_at(ordinal);
    um_vk_memory_init(device);
    set_ways(device);
    status = um_vk_open(device);
    if (status == UM_OK) status = um_vk_layout_create(device);
    if (status == UM_OK) status = open_kernels(device, ordinal);
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
    um_kdriver_caps(&device->k, out);
    out->subgroup_min = out->subgroup_max = (int32_t)p->subgroup_size;
    out->buffer_max_bytes = p->allocation_max_bytes;
    for (int32_t d = 0; d < 3; d++)
        out->group_size_max[d] = (int32_t)UM_MIN(l->group_size[d], (uint32_t)INT32_MAX);
    out->group_invocations_max = (int32_t)l->group_invocations;
    out->group_shared_bytes = l->shared_bytes;
    out->memory_free_bytes = free_bytes(p);
    return UM_OK;
}

static bool vulkan_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    return um_kdriver_supports(&device->k, op, why, why_size);
}

const um_backend um_backend_vulkan = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "vulkan",
    .enumerate = um_vk_enumerate,
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
    .recorder = um_vk_recorder,
    .replay = um_vk_replay,
};
