/* backend/vulkan/memory.c: memory comes from the device in blocks, each under one buffer, and is
 * given out in pieces of them. Large pieces are blocks of their own. */
#include "backend/vulkan/vulkan.h"

#define BLOCK_BYTES   ((uint64_t)64 << 20)
#define LARGE_BYTES   (BLOCK_BYTES / 4) /* a piece of a block is smaller */
#define STAGING_BYTES ((uint64_t)1 << 18)
#define STAGING_KEPT  ((uint64_t)64 << 20)
/* Of pieces; that of a descriptor's offset is at most as much. */
#define ALIGN ((uint64_t)256)
/* Between blocks of addresses of ours, so that one past the end of a block is in none. */
#define GAP ((uint64_t)1 << 16)

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The first type of memory that has all those flags; -1: none. */
static int32_t find_type(const um_backend_device *device, uint32_t bits, uint32_t flags)
{
    const vk_memory_properties *m = &device->physical->memory;
    for (uint32_t i = 0; i < m->type_count; i++)
        if ((bits >> i & 1) && (m->memory[i].flags & flags) == flags) return (int32_t)i;
    return -1;
}

static int32_t choose_type(const um_backend_device *device, uint32_t bits, bool for_host)
{
    enum { HOST = VK_MEMORY_VISIBLE | VK_MEMORY_COHERENT };
    const uint32_t host[] = {HOST | VK_MEMORY_CACHED, HOST};
    const uint32_t both[] = {HOST | VK_MEMORY_CACHED | VK_MEMORY_LOCAL, HOST | VK_MEMORY_LOCAL};
    const uint32_t local[] = {VK_MEMORY_LOCAL, 0};
    const uint32_t *flags = for_host ? host : device->is_mapped ? both : local;
    int32_t type = find_type(device, bits, flags[0]);
    return type >= 0 ? type : find_type(device, bits, flags[1]);
}

static void block_destroy(const um_backend_device *device, um_vk_block *block)
{
    if (!block) return;
    if (block->buffer) device->vk.vkDestroyBuffer(device->handle, block->buffer, NULL);
    if (block->memory) device->vk.vkFreeMemory(device->handle, block->memory, NULL);
    um_mem_free(block->piece);
    um_mem_free(block);
}

static um_status fill_block(const um_backend_device *device, um_vk_block *block, bool for_host)
{
    bool addressed = device->by_address;
    vk_buffer_info info = {.type = VK_IS_BUFFER,
                           .size_bytes = block->size_bytes,
                           .usage = VK_BUFFER_COPY_FROM | VK_BUFFER_COPY_TO | VK_BUFFER_STORAGE |
                                    (addressed ? VK_BUFFER_HAS_ADDRESS : 0u)};
    vk_requirements needs;
    UM_VK_TRY(device, vkCreateBuffer, device->handle, &info, NULL, &block->buffer);
    device->vk.vkGetBufferMemoryRequirements(device->handle, block->buffer, &needs);
    int32_t type = choose_type(device, needs.memory_bits, for_host);
    vk_memory_flags flags = {.type = VK_IS_MEMORY_FLAGS, .flags = VK_MEMORY_HAS_ADDRESS};
    vk_memory_info memory = {.type = VK_IS_MEMORY,
                             .next = addressed ? &flags : NULL,
                             .size_bytes = needs.size_bytes,
                             .memory = (uint32_t)type};
    if (type < 0) return um_vk_fail("looking for a type of memory", VK_NO_DEVICE_MEMORY);
    UM_VK_TRY(device, vkAllocateMemory, device->handle, &memory, NULL, &block->memory);
    UM_VK_TRY(device, vkBindBufferMemory, device->handle, block->buffer, block->memory, 0);
    if (for_host || device->is_mapped) {
        void *mapped = NULL;
        UM_VK_TRY(device, vkMapMemory, device->handle, block->memory, 0, UINT64_MAX, 0, &mapped);
        block->mapped = mapped;
    }
    vk_address_info address = {.type = VK_IS_ADDRESS, .buffer = block->buffer};
    if (addressed) block->base = device->vk.vkGetBufferDeviceAddress(device->handle, &address);
    return UM_OK;
}

/* Of device memory, or where the host sees it. */
static um_status block_create(const um_backend_device *device, uint64_t size_bytes, bool for_host,
                              um_vk_block **out)
{
    *out = NULL;
    if (size_bytes > device->physical->allocation_max_bytes)
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: %llu bytes, the device gives %llu at most",
                       (unsigned long long)size_bytes,
                       (unsigned long long)device->physical->allocation_max_bytes);
    um_vk_block *block = um_mem_zalloc(sizeof *block);
    if (!block) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a block");
    block->size_bytes = size_bytes;
    um_status status = fill_block(device, block, for_host);
    if (status == UM_OK)
        *out = block;
    else
        block_destroy(device, block);
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Here and below the device's mutex is held. */

/* false: no room, or no memory to note it. */
static bool take_piece(um_vk_block *block, uint64_t size_bytes, um_ptr *out)
{
    int64_t i = 0;
    while (i < block->count && (block->piece[i].used || block->piece[i].size_bytes < size_bytes))
        i++;
    void *pieces = block->piece;
    if (i == block->count || um_vec_reserve(&pieces, &block->capacity, block->count,
                                            sizeof *block->piece, "vulkan") != UM_OK)
        return false;
    block->piece = pieces;
    um_vk_piece *piece = &block->piece[i];
    if (piece->size_bytes > size_bytes) {
        memmove(piece + 1, piece, (size_t)(block->count++ - i) * sizeof *piece);
        piece[1].offset += size_bytes;
        piece[1].size_bytes -= size_bytes;
        piece->size_bytes = size_bytes;
    }
    piece->used = true;
    *out = block->base + piece->offset;
    return true;
}

static void remove_piece(um_vk_block *block, int64_t i)
{
    block->piece[i - 1].size_bytes += block->piece[i].size_bytes;
    block->count--;
    memmove(block->piece + i, block->piece + i + 1,
            (size_t)(block->count - i) * sizeof *block->piece);
}

static void give_piece(um_vk_block *block, uint64_t offset)
{
    int64_t low = 0, high = block->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (block->piece[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    block->piece[low].used = false;
    if (low + 1 < block->count && !block->piece[low + 1].used) remove_piece(block, low + 1);
    if (low > 0 && !block->piece[low - 1].used) remove_piece(block, low);
}

static bool is_empty(const um_vk_block *block)
{
    return block->count == 1 && !block->piece[0].used;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The first block that begins after ptr. */
static int64_t block_after(const um_backend_device *device, um_ptr ptr)
{
    int64_t low = 0, high = device->block_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (device->block[middle]->base <= ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One unused piece, at its place among the blocks. */
static um_status insert(um_backend_device *device, um_vk_block *block)
{
    void *blocks = device->block, *pieces = NULL;
    UM_TRY(um_vec_reserve(&blocks, &device->block_capacity, device->block_count,
                          sizeof *device->block, "vulkan"));
    device->block = blocks;
    UM_TRY(um_vec_reserve(&pieces, &block->capacity, 0, sizeof *block->piece, "vulkan"));
    block->piece = pieces;
    block->piece[block->count++] = (um_vk_piece){0, block->size_bytes, false};
    if (!device->by_address) {
        block->base = device->next_base;
        device->next_base += (block->size_bytes + GAP - 1) / GAP * GAP + GAP;
    }
    int64_t at = block_after(device, block->base);
    memmove(device->block + at + 1, device->block + at,
            (size_t)(device->block_count++ - at) * sizeof *device->block);
    device->block[at] = block;
    return UM_OK;
}

static um_status alloc_locked(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    um_vk_block *block = NULL;
    bool large = size_bytes >= LARGE_BYTES;
    for (int64_t i = 0; i < device->block_count && !large; i++)
        if (take_piece(device->block[i], size_bytes, out)) return UM_OK;
    um_error before = *um_last_error();
    um_status status = block_create(device, large ? size_bytes : BLOCK_BYTES, false, &block);
    if (status == UM_OUT_OF_MEMORY && !large) { /* as much as there is */
        um_fail_again(&before);
        status = block_create(device, size_bytes, false, &block);
    }
    if (status == UM_OK) status = insert(device, block);
    if (status != UM_OK) {
        block_destroy(device, block);
        return status;
    }
    if (take_piece(block, size_bytes, out)) return UM_OK;
    return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a piece of memory");
}

um_status um_vk_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    *out = 0;
    if (size_bytes > INT64_MAX - ALIGN)
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: %llu bytes", (unsigned long long)size_bytes);
    um_mutex_lock(&device->mutex);
    um_status status = alloc_locked(device, (size_bytes + ALIGN - 1) / ALIGN * ALIGN, out);
    um_mutex_unlock(&device->mutex);
    return status;
}

/* A block that is unused goes, but for one to have at hand. */
void um_vk_free(um_backend_device *device, um_ptr ptr)
{
    um_mutex_lock(&device->mutex);
    int64_t at = block_after(device, ptr) - 1, others = 0;
    um_vk_block *block = device->block[at];
    give_piece(block, ptr - block->base);
    for (int64_t i = 0; i < device->block_count; i++)
        others +=
            i != at && device->block[i]->size_bytes == BLOCK_BYTES && is_empty(device->block[i]);
    if (is_empty(block) && (block->size_bytes != BLOCK_BYTES || others > 0)) {
        device->block_count--;
        memmove(device->block + at, device->block + at + 1,
                (size_t)(device->block_count - at) * sizeof *device->block);
        block_destroy(device, block);
    }
    um_mutex_unlock(&device->mutex);
}

const um_vk_block *um_vk_find(um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes)
{
    um_mutex_lock(&device->mutex);
    const um_vk_block *block = device->block[block_after(device, ptr) - 1];
    um_mutex_unlock(&device->mutex);
    *offset_bytes = ptr - block->base;
    return block;
}

/* ---- staging --------------------------------------------------------------------------------- */

um_status um_vk_staging_take(um_backend_device *device, uint64_t size_bytes, um_vk_block **out)
{
    um_mutex_lock(&device->mutex);
    um_vk_block **at = &device->staging, *block;
    while (*at && (*at)->size_bytes < size_bytes) at = &(*at)->next;
    *out = block = *at;
    if (block) {
        *at = block->next;
        device->staging_bytes -= block->size_bytes;
    }
    um_mutex_unlock(&device->mutex);
    if (block) return UM_OK;
    uint64_t rounded = (size_bytes + STAGING_BYTES - 1) / STAGING_BYTES * STAGING_BYTES;
    return block_create(device, rounded, true, out);
}

void um_vk_staging_give(um_backend_device *device, um_vk_block *block)
{
    um_mutex_lock(&device->mutex);
    bool keep = device->staging_bytes + block->size_bytes <= STAGING_KEPT;
    if (keep) {
        block->next = device->staging;
        device->staging = block;
        device->staging_bytes += block->size_bytes;
    }
    um_mutex_unlock(&device->mutex);
    if (!keep) block_destroy(device, block);
}

void um_vk_memory_release(um_backend_device *device)
{
    for (int64_t i = 0; i < device->block_count; i++) block_destroy(device, device->block[i]);
    um_mem_free(device->block);
    for (um_vk_block *block = device->staging, *next; block; block = next) {
        next = block->next;
        block_destroy(device, block);
    }
    block_destroy(device, device->fault_words);
}
