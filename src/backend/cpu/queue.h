/* backend/cpu/queue.h: a stream's records in order: a ring of blocks that one thread fills and one
 * thread empties, without a lock. Blocks are reused, so a warm queue never allocates. Used by
 * stream.c only.
 *
 * Invariant: the blocks from read_block to write_block, following next, hold what is not popped;
 * all others are free. pushed and popped count records and only grow; both start at 1, so that a
 * stream's first ticket is not 0. */
#ifndef UM_BACKEND_CPU_QUEUE_H
#define UM_BACKEND_CPU_QUEUE_H

#include "base/base.h"

#include <stdatomic.h>

typedef struct um_cpu_block um_cpu_block;

/* Every record starts with this; size_bytes is a multiple of 8. Kind 0 is the queue's own. */
typedef struct um_cpu_record {
    uint32_t kind;
    uint32_t size_bytes;
} um_cpu_record;

/* One cache line for each side, so that neither slows the other down by looking. */
typedef struct um_cpu_queue {
    _Alignas(64) _Atomic uint64_t pushed; /* the filling thread writes these */
    um_cpu_block *write_block;
    uint32_t write_offset;
    int32_t block_count;
    _Alignas(64) _Atomic uint64_t popped; /* the emptying thread writes these */
    _Atomic(um_cpu_block *) read_block;
    uint64_t pushed_seen; /* pushed, when it last looked */
    uint32_t read_offset;
} um_cpu_queue;

um_status um_cpu_queue_init(um_cpu_queue *queue);
/* Records still inside are dropped. */
void um_cpu_queue_release(um_cpu_queue *queue);

/* The filling thread. */
/* Whether a record of that size would make the queue larger than it should get. */
bool um_cpu_queue_is_full(const um_cpu_queue *queue, size_t size_bytes);
/* Room for a record, head filled in; nobody sees it before the push. NULL: out of memory. */
void *um_cpu_queue_reserve(um_cpu_queue *queue, uint32_t kind, size_t size_bytes);
void um_cpu_queue_push(um_cpu_queue *queue);

/* The emptying thread. */
/* The oldest record, or NULL. */
um_cpu_record *um_cpu_queue_peek(um_cpu_queue *queue);
/* The record is done; its memory is gone. */
void um_cpu_queue_pop(um_cpu_queue *queue, const um_cpu_record *record);

#endif
