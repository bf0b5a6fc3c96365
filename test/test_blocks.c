/* Memory in blocks, and memory that commands use (device/blocks.h, device/hazards.h). */
#include "device/blocks.h"
#include "device/hazards.h"
#include "test.h"

#include <stdlib.h>

enum { BLOCK = 1024, ALIGN = 16, TAKEN = 40, STEPS = 20000 };

/* ---- blocks --------------------------------------------------------------------------------- */

/* A device of so many bytes, whose blocks have addresses, or numbers of ours. */
typedef struct memory {
    uint64_t left_bytes, next;
    int64_t count[UM_BLOCK_KINDS];
    bool addressed;
} memory;

static um_status create(void *ctx, uint64_t size_bytes, int32_t kind, um_block **out)
{
    memory *m = ctx;
    if (size_bytes > m->left_bytes) return UM_FAIL(UM_OUT_OF_MEMORY, "the device is full");
    um_block *block = um_mem_zalloc(sizeof *block);
    if (!block) return UM_FAIL(UM_OUT_OF_MEMORY, "no memory for a block");
    if (m->addressed) block->base = m->next;
    m->next += size_bytes + BLOCK;
    m->left_bytes -= size_bytes;
    m->count[kind]++;
    *out = block;
    return UM_OK;
}

static void destroy(void *ctx, um_block *block)
{
    memory *m = ctx;
    m->left_bytes += block->size_bytes;
    m->count[block->kind]--;
    um_mem_free(block);
}

static um_blocks blocks_of(memory *m)
{
    return (um_blocks){
        .ctx = m, .block_bytes = BLOCK, .align_bytes = ALIGN, .create = create, .destroy = destroy};
}

typedef struct taken {
    um_ptr ptr;
    uint64_t size_bytes; /* 0: none */
    int32_t kind;
} taken;

/* In a block of its kind, and apart from all others. */
static void check_taken(const um_blocks *blocks, const taken *all, const taken *one)
{
    const um_block *block = um_blocks_find(blocks, one->ptr + one->size_bytes - 1);
    CHECK(block == um_blocks_find(blocks, one->ptr) && block->kind == one->kind);
    CHECK((one->ptr - block->base) % ALIGN == 0);
    CHECK(one->ptr + one->size_bytes <= block->base + block->size_bytes);
    for (int i = 0; i < TAKEN; i++) {
        const taken *other = &all[i];
        if (other == one || other->size_bytes == 0) continue;
        CHECK(other->ptr + other->size_bytes <= one->ptr ||
              one->ptr + one->size_bytes <= other->ptr);
    }
}

static void take_some(bool addressed, uint64_t device_bytes)
{
    memory m = {.left_bytes = device_bytes, .next = 1 << 20, .addressed = addressed};
    um_blocks blocks = blocks_of(&m);
    taken all[TAKEN] = {{0}};
    int failed = 0;
    for (int step = 0; step < STEPS; step++) {
        taken *one = &all[rand() % TAKEN];
        if (one->size_bytes) {
            um_blocks_give(&blocks, one->ptr);
            one->size_bytes = 0;
            continue;
        }
        uint64_t size = 1 + (uint64_t)rand() % (step % 7 ? 200 : 3 * BLOCK);
        int32_t kind = rand() % UM_BLOCK_KINDS;
        um_status status = um_blocks_take(&blocks, size, kind, &one->ptr);
        CHECK(status == UM_OK || (status == UM_OUT_OF_MEMORY && one->ptr == 0));
        failed += status != UM_OK;
        if (status != UM_OK) continue;
        *one = (taken){one->ptr, size, kind};
        check_taken(&blocks, all, one);
    }
    CHECK((failed > 0) == (device_bytes < UINT32_MAX));
    for (int i = 0; i < TAKEN; i++)
        if (all[i].size_bytes) um_blocks_give(&blocks, all[i].ptr);
    CHECK(m.count[0] <= 1 && m.count[1] <= 1); /* at hand */
    um_blocks_release(&blocks);
    CHECK(m.count[0] == 0 && m.count[1] == 0 && m.left_bytes == device_bytes);
}

static void test_blocks(void)
{
    for (int i = 0; i < 4; i++) take_some(i % 2, i / 2 ? UINT64_MAX / 2 : 16 * BLOCK);
}

/* A block that is only at hand goes where the device has no other memory; one too large for the
 * usual size is as large as what is asked for. */
static void test_last_memory(void)
{
    memory m = {.left_bytes = BLOCK, .addressed = false};
    um_blocks blocks = blocks_of(&m);
    um_ptr ptr, other;
    CHECK_OK(um_blocks_take(&blocks, 1, 0, &ptr));
    CHECK_FAILS(um_blocks_take(&blocks, 1, 1, &other), UM_OUT_OF_MEMORY, "full");
    um_blocks_give(&blocks, ptr);
    CHECK(m.count[0] == 1);
    CHECK_OK(um_blocks_take(&blocks, 1, 1, &ptr));
    CHECK(m.count[0] == 0 && m.count[1] == 1);
    um_blocks_give(&blocks, ptr);
    m.left_bytes = 0;
    um_blocks_release(&blocks);
    m.left_bytes = 3 * ALIGN;
    CHECK_OK(um_blocks_take(&blocks, 2 * ALIGN, 0, &ptr));
    CHECK(m.left_bytes == ALIGN);
    CHECK_FAILS(um_blocks_take(&blocks, UINT64_MAX, 0, &other), UM_OUT_OF_MEMORY, "bytes");
    um_blocks_release(&blocks);
}

static void test_without_memory(void)
{
    memory m = {.left_bytes = 16 * BLOCK, .addressed = true, .next = 4096};
    um_blocks blocks = blocks_of(&m);
    um_ptr ptr;
    for (int64_t at = 1; at <= 3; at++) { /* a block, its pieces, its range */
        um_mem_fail_at(at, true);
        CHECK_FAILS(um_blocks_take(&blocks, 1, 0, &ptr), UM_OUT_OF_MEMORY, "memory");
        um_mem_fail_at(0, false);
        CHECK(m.count[0] == 0 && ptr == 0);
    }
    CHECK_OK(um_blocks_take(&blocks, 1, 0, &ptr));
    um_blocks_release(&blocks);
}

/* A list holds until one of its blocks goes, though another one has its address then. */
static void test_list(void)
{
    memory m = {.left_bytes = 16 * BLOCK, .addressed = true, .next = 1 << 16};
    um_blocks blocks = blocks_of(&m);
    um_block_list list = {0};
    um_ptr ptr, large, again;
    CHECK(um_block_list_holds(&list, &blocks));
    CHECK_OK(um_blocks_take(&blocks, 1, 0, &ptr));
    m.next = 1 << 20;
    CHECK_OK(um_blocks_take(&blocks, 2 * BLOCK, 0, &large));
    for (int i = 0; i < 3; i++) CHECK_OK(um_block_list_add(&list, &blocks, ptr));
    CHECK(list.count == 1);
    CHECK_OK(um_block_list_add(&list, &blocks, large + BLOCK));
    CHECK(list.count == 2 && um_block_list_holds(&list, &blocks));
    um_blocks_give(&blocks, ptr); /* stays at hand */
    CHECK(um_block_list_holds(&list, &blocks));
    um_blocks_give(&blocks, large);
    CHECK(!um_block_list_holds(&list, &blocks));
    m.next = 1 << 20;
    CHECK_OK(um_blocks_take(&blocks, 2 * BLOCK, 0, &again));
    CHECK(again == large && !um_block_list_holds(&list, &blocks));
    um_mem_free(list.at);
    um_blocks_release(&blocks);
}

/* ---- hazards -------------------------------------------------------------------------------- */

static void test_hazards(void)
{
    static um_hazards h;
    const um_use read = {100, 200, false}, write = {200, 300, true}, inside = {150, 160, true};
    CHECK(!um_hazards_meet(&h, 1, &read) && !um_hazards_meet(&h, 1, &read) && h.count == 2);
    CHECK(!um_hazards_meet(&h, 1, &write));
    CHECK(um_hazards_meet(&h, 1, &inside) && h.count == 1); /* behind what reads it */
    CHECK(um_hazards_meet(&h, 1, &read) && h.count == 1);   /* behind what writes it */
    CHECK(!um_hazards_meet(&h, 1, &write) && um_hazards_meet(&h, 1, &write));
    const um_use both[] = {read, {180, 190, true}}; /* one command: no order within */
    h.count = 0;
    CHECK(!um_hazards_meet(&h, 2, both) && um_hazards_meet(&h, 2, both) && h.count == 2);
    h.count = 0;
    for (int i = 0; i < UM_HAZARD_USES; i++) CHECK(!um_hazards_meet(&h, 1, &read));
    CHECK(um_hazards_meet(&h, 1, &read) && h.count == 1);
}

int main(void)
{
    TEST(test_blocks);
    TEST(test_last_memory);
    TEST(test_without_memory);
    TEST(test_list);
    TEST(test_hazards);
    return TEST_RESULT();
}
