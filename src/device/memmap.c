/* The map of live allocations; see memmap.h. */
#include "device/memmap.h"

/* What placed ranges begin at multiples of, and lie apart. */
#define PLACE_BYTES ((uint64_t)1 << 16)

/* Invariant: bases ascend from left to right, and no node's priority is above its parent's. The
 * priorities are hashes of the bases, which keeps the tree shallow. */
struct um_memmap_node {
    um_memmap_node *left, *right;
    um_ptr base;
    uint64_t size_bytes, room_bytes; /* what is in use of it, and what it was made with */
    uint64_t priority;
    void *owner;
    bool is_dead;
};

/* The last node with base <= ptr, or NULL. */
static const um_memmap_node *floor_node(const um_memmap *map, um_ptr ptr)
{
    const um_memmap_node *node = map->root, *best = NULL;
    while (node) {
        if (node->base <= ptr) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best;
}

/* Parts a tree into the nodes below base and the others. */
static void split(um_memmap_node *node, um_ptr base, um_memmap_node **below, um_memmap_node **above)
{
    while (node) {
        if (node->base < base) {
            *below = node;
            below = &node->right;
            node = node->right;
        } else {
            *above = node;
            above = &node->left;
            node = node->left;
        }
    }
    *below = *above = NULL;
}

/* All of `below` is below all of `above`. */
static void merge(um_memmap_node **out, um_memmap_node *below, um_memmap_node *above)
{
    while (below && above) {
        if (below->priority > above->priority) {
            *out = below;
            out = &below->right;
            below = below->right;
        } else {
            *out = above;
            out = &above->left;
            above = above->left;
        }
    }
    *out = below ? below : above;
}

um_status um_memmap_insert(um_memmap *map, um_ptr base, uint64_t size_bytes)
{
    const um_memmap_node *before = floor_node(map, base + (UM_MAX(size_bytes, 1) - 1));
    if (before && (before->base >= base || base - before->base < before->room_bytes)) {
        return UM_FAIL(UM_INTERNAL,
                       "memory map: %llu bytes at 0x%llx overlap the live %llu bytes at 0x%llx",
                       (unsigned long long)size_bytes, (unsigned long long)base,
                       (unsigned long long)before->room_bytes, (unsigned long long)before->base);
    }
    um_memmap_node *node = um_mem_alloc(sizeof *node);
    if (!node) return UM_FAIL(UM_OUT_OF_MEMORY, "memory map: no memory for an entry");
    *node = (um_memmap_node){
        .base = base, .size_bytes = size_bytes, .room_bytes = UM_MAX(size_bytes, 1)};
    node->priority = um_hash(&base, sizeof base, 0);
    um_memmap_node **link = &map->root;
    while (*link && (*link)->priority >= node->priority) {
        link = (*link)->base < base ? &(*link)->right : &(*link)->left;
    }
    split(*link, base, &node->left, &node->right);
    *link = node;
    return UM_OK;
}

um_status um_memmap_place(um_memmap *map, uint64_t size_bytes, void *owner, um_ptr *base)
{
    um_ptr at = *base ? *base : UM_MAX(map->placed, (um_ptr)1 << 40);
    UM_TRY(um_memmap_insert(map, at, size_bytes));
    um_memmap_set(map, at, size_bytes, owner, true);
    if (!*base) map->placed = at + (size_bytes / PLACE_BYTES + 2) * PLACE_BYTES;
    *base = at;
    return UM_OK;
}

bool um_memmap_find(const um_memmap *map, um_ptr ptr, um_ptr *base, uint64_t *size_bytes)
{
    const um_memmap_node *node = floor_node(map, ptr);
    if (!node || node->is_dead || ptr - node->base >= UM_MAX(node->size_bytes, 1)) {
        *base = 0;
        *size_bytes = 0;
        return false;
    }
    *base = node->base;
    *size_bytes = node->size_bytes;
    return true;
}

bool um_memmap_remove(um_memmap *map, um_ptr base)
{
    um_memmap_node **link = &map->root;
    while (*link && (*link)->base != base) {
        link = (*link)->base < base ? &(*link)->right : &(*link)->left;
    }
    um_memmap_node *node = *link;
    if (!node) return false;
    merge(link, node->left, node->right);
    um_mem_free(node);
    return true;
}

static um_memmap_node *find_start(const um_memmap *map, um_ptr base)
{
    um_memmap_node *node = map->root;
    while (node && node->base != base) node = node->base < base ? node->right : node->left;
    return node;
}

void um_memmap_set(um_memmap *map, um_ptr base, uint64_t size_bytes, void *owner, bool is_alive)
{
    um_memmap_node *node = find_start(map, base);
    if (!node) return;
    node->size_bytes = UM_MIN(size_bytes, node->room_bytes);
    node->owner = owner;
    node->is_dead = !is_alive;
}

void *um_memmap_owner(const um_memmap *map, um_ptr base)
{
    const um_memmap_node *node = find_start(map, base);
    return node && !node->is_dead ? node->owner : NULL;
}

bool um_memmap_take_any(um_memmap *map, um_ptr *base, void **owner)
{
    if (!map->root) return false;
    *base = map->root->base;
    if (owner) *owner = map->root->owner;
    return um_memmap_remove(map, *base);
}
