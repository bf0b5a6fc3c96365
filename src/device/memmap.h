/* device/memmap.h: which allocations are alive: address ranges, found by any address inside. A
 * treap, so that insertion, removal and search take O(log n) steps whatever the order of calls. No
 * lock of its own. Used by memory.c and by the validate layer. */
#ifndef UM_DEVICE_MEMMAP_H
#define UM_DEVICE_MEMMAP_H

#include "base/base.h"

#include <umbel/op.h>

typedef struct um_memmap_node um_memmap_node;
typedef struct um_memmap {
    um_memmap_node *root;
    um_ptr placed; /* all addresses given are below */
} um_memmap;

/* A range of size 0 takes one address. OUT_OF_MEMORY; INTERNAL: it overlaps a range that is there.
 */
um_status um_memmap_insert(um_memmap *map, um_ptr base, uint64_t size_bytes);
/* Inserts a range for an owner; of a *base of 0 at an address that is given once and never again,
 * with nothing at the one behind its end. */
um_status um_memmap_place(um_memmap *map, uint64_t size_bytes, void *owner, um_ptr *base);
/* Of the range that starts there: another size, no larger than at first; what it is a part of, for
 * the caller; and whether it is to be found. New ranges have NULL, and are. */
void um_memmap_set(um_memmap *map, um_ptr base, uint64_t size_bytes, void *owner, bool is_alive);
/* The owner of the range that starts there and is alive, or NULL. */
void *um_memmap_owner(const um_memmap *map, um_ptr base);
/* The range that holds ptr and is alive. */
bool um_memmap_find(const um_memmap *map, um_ptr ptr, um_ptr *base, uint64_t *size_bytes);
/* false: no range starts there. */
bool um_memmap_remove(um_memmap *map, um_ptr base);
/* Takes some range out, alive or not; false: none is left. owner may be NULL. */
bool um_memmap_take_any(um_memmap *map, um_ptr *base, void **owner);

#endif
