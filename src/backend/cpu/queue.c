/* The ring of blocks behind a CPU stream; see queue.h. Knows nothing of what records mean. */
#include "backend/cpu/queue.h"

#define BLOCK_BYTES (32 * 1024)
#define BLOCKS_MAX  512 /* 16 MiB: a caller that far ahead gains nothing from going on */

enum { RECORD_JUMP = 0 }; /* the next record is at the start of the next block */

struct um_cpu_block {
    um_cpu_block *next; /* a ring; written by the filling thread before it pushes past it */
    _Alignas(8) uint8_t data[BLOCK_BYTES - 8];
};

static size_t record_bytes(size_t size_bytes) { return (size_bytes + 7) & ~(size_t)7; }

static bool fits(const um_cpu_queue *queue, size_t size_bytes)
{
    return queue->write_offset + record_bytes(size_bytes) + sizeof(um_cpu_record) <=
           sizeof queue->write_block->data;
}

static bool next_is_free(const um_cpu_queue *queue)
{
    /* acquire pairs with the release in um_cpu_queue_peek: the block has been read */
    return queue->write_block->next !=
           atomic_load_explicit(&queue->read_block, memory_order_acquire);
}

um_status um_cpu_queue_init(um_cpu_queue *queue)
{
    um_cpu_block *block = um_mem_alloc(sizeof *block);
    if (!block) return UM_FAIL(UM_OUT_OF_MEMORY, "cpu: no memory for a stream's queue");
    block->next = block;
    queue->write_block = block;
    queue->block_count = 1;
    atomic_init(&queue->read_block, block);
    atomic_init(&queue->pushed, 1);
    atomic_init(&queue->popped, 1);
    queue->pushed_seen = 1;
    return UM_OK;
}

void um_cpu_queue_release(um_cpu_queue *queue)
{
    um_cpu_block *block = queue->write_block;
    for (int32_t i = 0; i < queue->block_count; i++) {
        um_cpu_block *next = block->next;
        um_mem_free(block);
        block = next;
    }
}

bool um_cpu_queue_is_full(const um_cpu_queue *queue, size_t size_bytes)
{
    return queue->block_count >= BLOCKS_MAX && !fits(queue, size_bytes) && !next_is_free(queue);
}

static void write_head(um_cpu_queue *queue, uint32_t kind, size_t size_bytes)
{
    um_cpu_record *record =
        (um_cpu_record *)(void *)(queue->write_block->data + queue->write_offset);
    *record = (um_cpu_record){kind, (uint32_t)size_bytes};
}

static bool next_block(um_cpu_queue *queue)
{
    um_cpu_block *block = queue->write_block;
    if (!next_is_free(queue)) {
        um_cpu_block *fresh = um_mem_alloc(sizeof *fresh);
        if (!fresh) return false;
        fresh->next = block->next;
        block->next = fresh;
        queue->block_count++;
    }
    write_head(queue, RECORD_JUMP, sizeof(um_cpu_record));
    queue->write_block = block->next;
    queue->write_offset = 0;
    return true;
}

void *um_cpu_queue_reserve(um_cpu_queue *queue, uint32_t kind, size_t size_bytes)
{
    if (!fits(queue, size_bytes) && !next_block(queue)) return NULL;
    write_head(queue, kind, record_bytes(size_bytes));
    return queue->write_block->data + queue->write_offset;
}

void um_cpu_queue_push(um_cpu_queue *queue)
{
    const um_cpu_record *record =
        (const um_cpu_record *)(const void *)(queue->write_block->data + queue->write_offset);
    queue->write_offset += record->size_bytes;
    /* seq_cst: the caller then looks whether the stream is being drained (stream.c, publish) */
    atomic_fetch_add(&queue->pushed, 1);
}

um_cpu_record *um_cpu_queue_peek(um_cpu_queue *queue)
{
    uint64_t popped = atomic_load_explicit(&queue->popped, memory_order_relaxed);
    /* pairs with um_cpu_queue_push: the record is written */
    if (popped == queue->pushed_seen) queue->pushed_seen = atomic_load(&queue->pushed);
    if (popped == queue->pushed_seen) return NULL;
    um_cpu_block *block = atomic_load_explicit(&queue->read_block, memory_order_relaxed);
    um_cpu_record *record = (um_cpu_record *)(void *)(block->data + queue->read_offset);
    if (record->kind != RECORD_JUMP) return record;
    um_cpu_block *next = block->next;
    queue->read_offset = 0;
    atomic_store_explicit(&queue->read_block, next, memory_order_release);
    return (um_cpu_record *)(void *)next->data;
}

void um_cpu_queue_pop(um_cpu_queue *queue, const um_cpu_record *record)
{
    queue->read_offset += record->size_bytes;
    /* seq_cst: the caller then looks for who waits (stream.c, finish) */
    atomic_fetch_add(&queue->popped, 1);
}
