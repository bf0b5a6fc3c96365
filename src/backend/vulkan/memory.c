/* backend/vulkan/memory.c: memory comes from the device in blocks, each under one buffer. */
#include "backend/vulkan/vulkan.h"

/* One buffer over memory of its own. */
typedef struct block {
    um_block head; /* its kind: whether the host's, for bytes on their way */
    vk_object buffer, memory;
    uint8_t *mapped; /* NULL: the host does not see it */
} block;

/* ---- blocks ---------------------------------------------------------------------------------- */

int32_t um_vk_memory_type(const um_vk_physical *p, uint32_t bits, uint32_t must, uint32_t better)
{
    int32_t best = -1;
    for (int32_t i = (int32_t)p->memory.type_count - 1; i >= 0; i--) {
        uint32_t flags = p->memory.memory[i].flags;
        if (!(bits >> i & 1) || (flags & must) != must) continue;
        if (best < 0 || (flags & better) || !(p->memory.memory[best].flags & better)) best = i;
    }
    return best;
}

/* Made, or on the way to it. */
static void block_destroy(void *ctx, um_block *head)
{
    um_backend_device *device = ctx;
    block *b = (block *)head;
    if (b->buffer) device->vk.vkDestroyBuffer(device->handle, b->buffer, NULL);
    if (b->memory) device->vk.vkFreeMemory(device->handle, b->memory, NULL);
    um_mem_free(b);
}

static um_status fill_block(um_backend_device *device, uint64_t size_bytes, bool is_host, block *b)
{
    bool addressed = device->by_address;
    vk_buffer_info info = {.type = VK_IS_BUFFER,
                           .size_bytes = size_bytes,
                           .usage = VK_BUFFER_COPY_FROM | VK_BUFFER_COPY_TO | VK_BUFFER_STORAGE |
                                    (addressed ? VK_BUFFER_HAS_ADDRESS : 0u)};
    vk_requirements needs;
    UM_VK_TRY(device, vkCreateBuffer, device->handle, &info, NULL, &b->buffer);
    device->vk.vkGetBufferMemoryRequirements(device->handle, b->buffer, &needs);
    uint32_t must = is_host ? UM_VK_HOST : device->is_mapped ? UM_VK_SHARED : 0;
    int32_t type = um_vk_memory_type(device->physical, needs.memory_bits, must,
                                     must ? VK_MEMORY_CACHED : VK_MEMORY_LOCAL);
    vk_memory_flags flags = {.type = VK_IS_MEMORY_FLAGS, .flags = VK_MEMORY_HAS_ADDRESS};
    vk_memory_info memory = {.type = VK_IS_MEMORY,
                             .next = addressed ? &flags : NULL,
                             .size_bytes = needs.size_bytes,
                             .memory = (uint32_t)type};
    if (type < 0) return um_vk_fail("looking for a type of memory", VK_NO_DEVICE_MEMORY);
    UM_VK_TRY(device, vkAllocateMemory, device->handle, &memory, NULL, &b->memory);
    UM_VK_TRY(device, vkBindBufferMemory, device->handle, b->buffer, b->memory, 0);
    if (is_host || device->is_mapped) {
        void *mapped = NULL;
        UM_VK_TRY(device, vkMapMemory, device->handle, b->memory, 0, UINT64_MAX, 0, &mapped);
        b->mapped = mapped;
    }
    vk_address_info address = {.type = VK_IS_ADDRESS, .buffer = b->buffer};
    if (addressed) b->head.base = device->vk.vkGetBufferDeviceAddress(device->handle, &address);
    return UM_OK;
}

static um_status block_create(void *ctx, uint64_t size_bytes, int32_t is_host, um_block **out)
{
    um_backend_device *device = ctx;
    if (size_bytes > device->physical->allocation_max_bytes)
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: %llu bytes, the device gives %llu at most",
                       (unsigned long long)size_bytes,
                       (unsigned long long)device->physical->allocation_max_bytes);
    block *b = um_mem_zalloc(sizeof *b);
    if (!b) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a block");
    *out = &b->head;
    um_status status = fill_block(device, size_bytes, is_host, b);
    if (status != UM_OK) block_destroy(device, &b->head);
    return status;
}

/* Memory ends at a multiple of the alignment or later, and a descriptor's offset needs as much at
 * most. */
void um_vk_memory_init(um_backend_device *device)
{
    device->blocks = (um_blocks){.ctx = device,
                                 .block_bytes = 64 << 20,
                                 .align_bytes = 256,
                                 .create = block_create,
                                 .destroy = block_destroy};
}

/* ---- memory ---------------------------------------------------------------------------------- */

um_status um_vk_take(um_backend_device *device, uint64_t size_bytes, bool is_host, um_ptr *out)
{
    um_mutex_lock(&device->mutex);
    um_status status = um_blocks_take(&device->blocks, size_bytes, is_host, out);
    um_mutex_unlock(&device->mutex);
    return status;
}

um_status um_vk_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    return um_vk_take(device, size_bytes, false, out);
}

void um_vk_free(um_backend_device *device, um_ptr ptr)
{
    um_mutex_lock(&device->mutex);
    um_blocks_give(&device->blocks, ptr);
    um_mutex_unlock(&device->mutex);
}

vk_range um_vk_find(um_backend_device *device, um_ptr ptr, uint64_t size_bytes, void **host)
{
    um_mutex_lock(&device->mutex);
    const block *b = (const block *)um_blocks_find(&device->blocks, ptr);
    um_mutex_unlock(&device->mutex);
    uint64_t offset = ptr - b->head.base;
    if (host) *host = b->mapped ? b->mapped + offset : NULL;
    return (vk_range){b->buffer, offset, size_bytes};
}
