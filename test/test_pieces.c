/* Pieces of memory (device/pieces.h) against a map of who has each byte. */
#include "device/pieces.h"
#include "test.h"

#include <stdlib.h>

enum { SIZE = 500, PIECES = 64, STEPS = 20000 };

typedef struct taken {
    uint64_t offset, size_bytes; /* size 0: none */
} taken;

static void check_all(const um_pieces *p, const char *owner)
{
    uint64_t end = 0;
    for (int64_t i = 0; i < p->count; i++) {
        CHECK(p->at[i].offset == end && p->at[i + 1].offset > end);
        CHECK(p->at[i].used || p->at[i + 1].used || i + 1 == p->count);
        end = p->at[i + 1].offset;
        for (uint64_t at = p->at[i].offset; at < end; at++)
            CHECK((owner[at] != 0) == p->at[i].used);
    }
    CHECK(end == SIZE);
}

static void take(um_pieces *p, taken *t, char *owner)
{
    uint64_t size = 1 + (uint64_t)rand() % 40, run = 0, longest = 0;
    for (uint64_t at = 0; at < SIZE; at++) {
        run = owner[at] ? 0 : run + 1;
        longest = UM_MAX(longest, run);
    }
    bool got = um_pieces_take(p, size, &t->offset);
    CHECK(got == (longest >= size));
    if (!got) return;
    t->size_bytes = size;
    CHECK(t->offset + size <= SIZE && um_is_zero((uint8_t *)owner + t->offset, size));
    memset(owner + t->offset, 1, size);
}

static void test_pieces(void)
{
    um_pieces p;
    taken t[PIECES] = {{0}};
    char owner[SIZE] = {0};
    CHECK_OK(um_pieces_create(SIZE, &p));
    CHECK(um_pieces_unused(&p));
    for (int step = 0; step < STEPS; step++) {
        taken *one = &t[rand() % (step % 1000 < 500 ? PIECES : 8)];
        if (one->size_bytes) {
            um_pieces_give(&p, one->offset);
            memset(owner + one->offset, 0, one->size_bytes);
            one->size_bytes = 0;
        } else {
            take(&p, one, owner);
        }
        check_all(&p, owner);
    }
    for (int i = 0; i < PIECES; i++)
        if (t[i].size_bytes) um_pieces_give(&p, t[i].offset);
    CHECK(um_pieces_unused(&p) && p.count == 1);
    uint64_t offset;
    CHECK(um_pieces_take(&p, SIZE, &offset) && offset == 0 && !um_pieces_unused(&p));
    um_pieces_release(&p);
}

static void test_without_memory(void)
{
    um_pieces p;
    uint64_t offset;
    um_mem_fail_at(1, false);
    CHECK_FAILS(um_pieces_create(SIZE, &p), UM_OUT_OF_MEMORY, "pieces");
    um_pieces_release(&p);
    CHECK_OK(um_pieces_create(SIZE, &p));
    int64_t count = 0;
    um_mem_fail_at(1, true);
    while (um_pieces_take(&p, 1, &offset)) CHECK(offset == (uint64_t)count++);
    um_mem_fail_at(0, false);
    CHECK_MSG(count >= 1 && count < SIZE, "%lld", (long long)count);
    CHECK(um_pieces_take(&p, 1, &offset) && offset == (uint64_t)count);
    um_pieces_release(&p);
}

int main(void)
{
    TEST(test_pieces);
    TEST(test_without_memory);
    return TEST_RESULT();
}
