/* device/blocks.h: memory in blocks, for drivers whose allocations are few or slow: a block is one
 * of the device's, and is given out in pieces; a large piece is a block of its own. No lock of its
 * own.
 */
#ifndef UM_DEVICE_BLOCKS_H
#define UM_DEVICE_BLOCKS_H

#include "device/memmap.h"
#include "device/pieces.h"

enum { UM_BLOCK_KINDS = 2 }; /* of memory, each in blocks of its own */

/* The head of a driver's own. */
typedef struct um_block {
    struct um_block *next;
    um_ptr base;
    uint64_t size_bytes, number; /* of all that were made: a later one may get its address */
    int32_t kind;
    um_pieces pieces;
} um_block;

typedef struct um_blocks {
    /* The driver's to say: */
    void *ctx;
    uint64_t block_bytes, align_bytes; /* of a block as a rule; of every piece */
    /* A block all 0 but for its base: its address on the device, or 0, and it gets a number that is
     * given once and never again. OUT_OF_MEMORY: blocks that are unused go, and it is asked once
     * more. */
    um_status (*create)(void *ctx, uint64_t size_bytes, int32_t kind, um_block **out);
    void (*destroy)(void *ctx, um_block *block);
    /* 0 at first: */
    uint64_t made; /* blocks */
    um_memmap map;
    um_block *first[UM_BLOCK_KINDS];
} um_blocks;

/* OUT_OF_MEMORY; what create says. */
um_status um_blocks_take(um_blocks *blocks, uint64_t size_bytes, int32_t kind, um_ptr *out);
/* What was taken. Of each kind one unused block stays at hand. */
void um_blocks_give(um_blocks *blocks, um_ptr ptr);
/* The block of an address, or NULL. */
um_block *um_blocks_find(const um_blocks *blocks, um_ptr ptr);
void um_blocks_release(um_blocks *blocks); /* with all that was taken; of one that is all 0, too */

/* Blocks that something made once relies on; all 0: none. */
typedef struct um_block_list {
    struct um_block_place {
        um_ptr ptr;
        uint64_t number;
    } * at;
    int64_t count, capacity;
} um_block_list;

/* The block of an address in one, once. OUT_OF_MEMORY. */
um_status um_block_list_add(um_block_list *list, const um_blocks *blocks, um_ptr ptr);
/* Whether all are still there, and none is another one at its address. */
bool um_block_list_holds(const um_block_list *list, const um_blocks *blocks);

#endif
