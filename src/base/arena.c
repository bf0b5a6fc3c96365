/* base/arena.c: a bump allocator over blocks of um_mem_alloc. A reset keeps the blocks, so a loop
 * that resets its arena stops allocating once it is warm. */
#include "base/base.h"

enum { ARENA_ALIGN = 64, ARENA_MIN_BLOCK = 16 << 10, ARENA_MAX_STEP = 1 << 20 };

struct um_arena_block {
    um_arena_block *next;
    size_t size_bytes, used_bytes; /* of the room behind the header */
};

/* The header takes one aligned unit, so that the room behind it is aligned like the block. */
_Static_assert(sizeof(um_arena_block) <= ARENA_ALIGN, "the header has to fit in one unit");

static void *take(um_arena_block *block, size_t size_bytes)
{
    if (block->size_bytes - block->used_bytes < size_bytes) return NULL;
    unsigned char *room = (unsigned char *)block + ARENA_ALIGN + block->used_bytes;
    block->used_bytes += size_bytes;
    return room;
}

/* Each block is twice the one before, up to a limit, and at least as large as asked for. */
static um_arena_block *add_block(um_arena *arena, size_t size_bytes)
{
    um_arena_block *tail = arena->current;
    size_t room = tail ? UM_MIN(tail->size_bytes * 2, (size_t)ARENA_MAX_STEP) : ARENA_MIN_BLOCK;
    room = UM_MAX(room, size_bytes);
    um_arena_block *block = um_mem_alloc_aligned(ARENA_ALIGN + room, ARENA_ALIGN);
    if (!block) return NULL;
    *block = (um_arena_block){.size_bytes = room};
    if (tail)
        tail->next = block;
    else
        arena->first = block;
    arena->current = block;
    return block;
}

void *um_arena_alloc(um_arena *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / 2) return NULL;
    size_t rounded = (UM_MAX(size_bytes, 1) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (!arena->current) arena->current = arena->first;
    while (arena->current) {
        void *room = take(arena->current, rounded);
        if (room) return room;
        if (!arena->current->next) break;
        arena->current = arena->current->next;
        arena->current->used_bytes = 0;
    }
    um_arena_block *block = add_block(arena, rounded);
    return block ? take(block, rounded) : NULL;
}

void um_arena_reset(um_arena *arena)
{
    arena->current = arena->first;
    if (arena->first) arena->first->used_bytes = 0;
}

void um_arena_release(um_arena *arena)
{
    for (um_arena_block *block = arena->first, *next; block; block = next) {
        next = block->next;
        um_mem_free(block);
    }
    *arena = (um_arena){NULL, NULL};
}
