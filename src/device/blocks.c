/* Memory in blocks; see blocks.h. */
#include "device/blocks.h"

static void drop(um_blocks *blocks, um_block *block)
{
    um_memmap_remove(&blocks->map, block->base);
    um_pieces_release(&block->pieces);
    blocks->destroy(blocks->ctx, block);
}

/* Those that are unused, but for so many of the usual size; -1: all. */
static void drop_some(um_blocks *blocks, int32_t kind, int32_t spares)
{
    bool all = spares < 0;
    for (um_block *block, **at = &blocks->first[kind]; (block = *at) != NULL;) {
        bool unused = um_pieces_unused(&block->pieces);
        if (all || (unused && (block->size_bytes != blocks->block_bytes || spares == 0))) {
            *at = block->next;
            drop(blocks, block);
        } else {
            spares -= unused;
            at = &block->next;
        }
    }
}

static um_status add(um_blocks *blocks, uint64_t size_bytes, int32_t kind)
{
    um_block *block;
    UM_TRY(blocks->create(blocks->ctx, size_bytes, kind, &block));
    block->size_bytes = size_bytes;
    block->number = ++blocks->made;
    block->kind = kind;
    um_status status = um_pieces_create(size_bytes, &block->pieces);
    if (status == UM_OK) status = um_memmap_place(&blocks->map, size_bytes, block, &block->base);
    if (status != UM_OK) {
        drop(blocks, block);
        return status;
    }
    block->next = blocks->first[kind];
    blocks->first[kind] = block;
    return UM_OK;
}

/* A quarter of a block or more is one of its own. */
static um_status add_for(um_blocks *blocks, uint64_t size_bytes, int32_t kind)
{
    bool large = size_bytes >= blocks->block_bytes / 4;
    um_error before = *um_last_error();
    um_status status = add(blocks, large ? size_bytes : blocks->block_bytes, kind);
    if (status != UM_OUT_OF_MEMORY) return status;
    um_fail_again(&before);
    for (int32_t k = 0; k < UM_BLOCK_KINDS; k++) drop_some(blocks, k, 0);
    return add(blocks, size_bytes, kind); /* with what else there is */
}

um_status um_blocks_take(um_blocks *blocks, uint64_t size_bytes, int32_t kind, um_ptr *out)
{
    uint64_t align = blocks->align_bytes, offset = 0;
    *out = 0;
    if (size_bytes > INT64_MAX - align)
        return UM_FAIL(UM_OUT_OF_MEMORY, "%llu bytes of memory", (unsigned long long)size_bytes);
    size_bytes = (size_bytes + align - 1) / align * align;
    um_block *block = blocks->first[kind];
    if (size_bytes >= blocks->block_bytes / 4) block = NULL;
    while (block && !um_pieces_take(&block->pieces, size_bytes, &offset)) block = block->next;
    if (!block) {
        UM_TRY(add_for(blocks, size_bytes, kind));
        block = blocks->first[kind];
        um_pieces_take(&block->pieces, size_bytes, &offset);
    }
    *out = block->base + offset;
    return UM_OK;
}

void um_blocks_give(um_blocks *blocks, um_ptr ptr)
{
    um_block *block = um_blocks_find(blocks, ptr);
    um_pieces_give(&block->pieces, ptr - block->base);
    if (um_pieces_unused(&block->pieces)) drop_some(blocks, block->kind, 1);
}

um_block *um_blocks_find(const um_blocks *blocks, um_ptr ptr)
{
    um_ptr base;
    uint64_t size_bytes;
    if (!um_memmap_find(&blocks->map, ptr, &base, &size_bytes)) return NULL;
    return um_memmap_owner(&blocks->map, base);
}

void um_blocks_release(um_blocks *blocks)
{
    for (int32_t kind = 0; kind < UM_BLOCK_KINDS; kind++) drop_some(blocks, kind, -1);
}

um_status um_block_list_add(um_block_list *list, const um_blocks *blocks, um_ptr ptr)
{
    uint64_t number = um_blocks_find(blocks, ptr)->number;
    for (int64_t i = 0; i < list->count; i++)
        if (list->at[i].number == number) return UM_OK;
    void *items = list->at;
    UM_TRY(um_vec_reserve(&items, &list->capacity, list->count, sizeof *list->at, "blocks"));
    list->at = items;
    list->at[list->count++] = (struct um_block_place){ptr, number};
    return UM_OK;
}

bool um_block_list_holds(const um_block_list *list, const um_blocks *blocks)
{
    for (int64_t i = 0; i < list->count; i++) {
        const um_block *block = um_blocks_find(blocks, list->at[i].ptr);
        if (!block || block->number != list->at[i].number) return false;
    }
    return true;
}
