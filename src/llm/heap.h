/* llm/heap.h: a binary heap of (score, index) in the caller's array, best on top: the highest
 * score, of equal scores the lowest index. The tokenizer's merges and the sampler's order. */
#ifndef UM_LLM_HEAP_H
#define UM_LLM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct um_heap_item {
    float score; /* never NaN */
    int32_t index;
} um_heap_item;

static inline bool um_heap_before(um_heap_item a, um_heap_item b)
{
    return a.score > b.score || (a.score == b.score && a.index < b.index);
}

static inline void um_heap_sink(um_heap_item *items, int64_t count, int64_t at)
{
    um_heap_item moving = items[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && um_heap_before(items[child + 1], items[child])) child++;
        if (!um_heap_before(items[child], moving)) break;
        items[at] = items[child];
    }
    items[at] = moving;
}

static inline void um_heap_build(um_heap_item *items, int64_t count)
{
    for (int64_t at = count / 2; at-- > 0;) um_heap_sink(items, count, at);
}

/* items has room for one more than count. */
static inline void um_heap_push(um_heap_item *items, int64_t count, um_heap_item item)
{
    int64_t at = count;
    for (int64_t parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!um_heap_before(item, items[parent])) break;
        items[at] = items[parent];
    }
    items[at] = item;
}

/* Moves the best to items[count - 1]; the first count - 1 stay a heap. */
static inline um_heap_item um_heap_pop(um_heap_item *items, int64_t count)
{
    um_heap_item best = items[0];
    items[0] = items[count - 1];
    um_heap_sink(items, count - 1, 0);
    items[count - 1] = best;
    return best;
}

#endif
