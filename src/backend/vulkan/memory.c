/* backend/vulkan/memory.c: memory comes from the device in blocks, each under one buffer, and is
 * given out in pieces of them. Large pieces are blocks of their own. */
#include "backend/vulkan/vulkan.h"
#include "device/pieces.h"

#define BLOCK_BYTES ((uint64_t)64 << 20)
#define LARGE_BYTES (BLOCK_BYTES / 4) /* a piece of a block is smaller */
/* Of pieces; that of a descriptor's offset is at most as much. */
#define ALIGN ((uint64_t)256)

/* One buffer over memory of its own. Addresses are the device's where it has such; else our own
 * numbers, given once and never again. */
struct um_vk_block {
    um_vk_block *next;
    um_ptr base;
    uint64_t size_bytes;
    bool is_host; /* for bytes on their way */
    vk_object buffer, memory;
    uint8_t *mapped; /* NULL: the host does not see it */
    um_pieces pieces;
};

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
static void block_destroy(um_backend_device *device, um_vk_block *block)
{
    um_memmap_remove(&device->map, block->base);
    if (block->buffer) device->vk.vkDestroyBuffer(device->handle, block->buffer, NULL);
    if (block->memory) device->vk.vkFreeMemory(device->handle, block->memory, NULL);
    um_pieces_release(&block->pieces);
    um_mem_free(block);
}

static um_status fill_block(um_backend_device *device, um_vk_block *block)
{
    bool addressed = device->by_address;
    vk_buffer_info info = {.type = VK_IS_BUFFER,
                           .size_bytes = block->size_bytes,
                           .usage = VK_BUFFER_COPY_FROM | VK_BUFFER_COPY_TO | VK_BUFFER_STORAGE |
                                    (addressed ? VK_BUFFER_HAS_ADDRESS : 0u)};
    vk_requirements needs;
    UM_VK_TRY(device, vkCreateBuffer, device->handle, &info, NULL, &block->buffer);
    device->vk.vkGetBufferMemoryRequirements(device->handle, block->buffer, &needs);
    uint32_t must = block->is_host ? UM_VK_HOST : device->is_mapped ? UM_VK_SHARED : 0;
    int32_t type = um_vk_memory_type(device->physical, needs.memory_bits, must,
                                     must ? VK_MEMORY_CACHED : VK_MEMORY_LOCAL);
    vk_memory_flags flags = {.type = VK_IS_MEMORY_FLAGS, .flags = VK_MEMORY_HAS_ADDRESS};
    vk_memory_info memory = {.type = VK_IS_MEMORY,
                             .next = addressed ? &flags : NULL,
                             .size_bytes = needs.size_bytes,
                             .memory = (uint32_t)type};
    if (type < 0) return um_vk_fail("looking for a type of memory", VK_NO_DEVICE_MEMORY);
    UM_VK_TRY(device, vkAllocateMemory, device->handle, &memory, NULL, &block->memory);
    UM_VK_TRY(device, vkBindBufferMemory, device->handle, block->buffer, block->memory, 0);
    if (block->is_host || device->is_mapped) {
        void *mapped = NULL;
        UM_VK_TRY(device, vkMapMemory, device->handle, block->memory, 0, UINT64_MAX, 0, &mapped);
        block->mapped = mapped;
    }
    vk_address_info address = {.type = VK_IS_ADDRESS, .buffer = block->buffer};
    if (addressed) block->base = device->vk.vkGetBufferDeviceAddress(device->handle, &address);
    UM_TRY(um_pieces_create(block->size_bytes, &block->pieces));
    return um_memmap_place(&device->map, block->size_bytes, block, &block->base);
}

static um_status block_create(um_backend_device *device, uint64_t size_bytes, bool is_host)
{
    if (size_bytes > device->physical->allocation_max_bytes)
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: %llu bytes, the device gives %llu at most",
                       (unsigned long long)size_bytes,
                       (unsigned long long)device->physical->allocation_max_bytes);
    um_vk_block *block = um_mem_zalloc(sizeof *block);
    if (!block) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a block");
    block->size_bytes = size_bytes;
    block->is_host = is_host;
    um_status status = fill_block(device, block);
    if (status != UM_OK) {
        block_destroy(device, block);
        return status;
    }
    block->next = device->blocks[is_host];
    device->blocks[is_host] = block;
    return UM_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Here the device's mutex is held. */

static um_vk_block *find(const um_backend_device *device, um_ptr ptr)
{
    um_ptr base;
    uint64_t size_bytes;
    um_memmap_find(&device->map, ptr, &base, &size_bytes);
    return um_memmap_owner(&device->map, base);
}

/* Those that are unused, but for so many of the usual size to have at hand; -1: all. */
static void drop_blocks(um_backend_device *device, bool is_host, int32_t spares)
{
    bool all = spares < 0;
    for (um_vk_block *block, **at = &device->blocks[is_host]; (block = *at) != NULL;) {
        bool unused = um_pieces_unused(&block->pieces);
        if (all || (unused && (block->size_bytes != BLOCK_BYTES || spares == 0))) {
            *at = block->next;
            block_destroy(device, block);
        } else {
            spares -= unused;
            at = &block->next;
        }
    }
}

static um_status take(um_backend_device *device, uint64_t size_bytes, bool is_host, um_ptr *out)
{
    bool large = size_bytes >= LARGE_BYTES, taken = false;
    um_vk_block *block = device->blocks[is_host];
    uint64_t offset = 0;
    while (block && !large && !(taken = um_pieces_take(&block->pieces, size_bytes, &offset)))
        block = block->next;
    if (!taken) {
        um_error before = *um_last_error();
        um_status status = block_create(device, large ? size_bytes : BLOCK_BYTES, is_host);
        if (status == UM_OUT_OF_MEMORY) { /* with what else there is */
            um_fail_again(&before);
            for (int of_host = 0; of_host < 2; of_host++) drop_blocks(device, of_host, 0);
            status = block_create(device, size_bytes, is_host);
        }
        UM_TRY(status);
        block = device->blocks[is_host];
        um_pieces_take(&block->pieces, size_bytes, &offset);
    }
    *out = block->base + offset;
    return UM_OK;
}

um_status um_vk_take(um_backend_device *device, uint64_t size_bytes, bool is_host, um_ptr *out)
{
    *out = 0;
    if (size_bytes > INT64_MAX - ALIGN)
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: %llu bytes", (unsigned long long)size_bytes);
    um_mutex_lock(&device->mutex);
    um_status status = take(device, (size_bytes + ALIGN - 1) / ALIGN * ALIGN, is_host, out);
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
    um_vk_block *block = find(device, ptr);
    um_pieces_give(&block->pieces, ptr - block->base);
    if (um_pieces_unused(&block->pieces)) drop_blocks(device, block->is_host, 1);
    um_mutex_unlock(&device->mutex);
}

vk_range um_vk_find(um_backend_device *device, um_ptr ptr, uint64_t size_bytes, void **host)
{
    um_mutex_lock(&device->mutex);
    const um_vk_block *block = find(device, ptr);
    um_mutex_unlock(&device->mutex);
    uint64_t offset = ptr - block->base;
    if (host) *host = block->mapped ? block->mapped + offset : NULL;
    return (vk_range){block->buffer, offset, size_bytes};
}

void um_vk_memory_release(um_backend_device *device)
{
    for (int is_host = 0; is_host < 2; is_host++) drop_blocks(device, is_host, -1);
}
