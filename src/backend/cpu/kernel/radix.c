/* backend/cpu/kernel/radix.c: see radix.h. */
#include "backend/cpu/kernel/radix.h"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, MAX_PASSES = 64 / DIGIT_BITS, FEW = 48 };

static void insertion_sort(um_keyed *items, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        um_keyed item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

static void count_digits(const um_keyed *items, int64_t count, int32_t passes,
                         int64_t counts[MAX_PASSES][DIGITS])
{
    memset(counts, 0, (size_t)passes * sizeof counts[0]);
    for (int64_t i = 0; i < count; i++)
        for (int32_t pass = 0; pass < passes; pass++)
            counts[pass][items[i].key >> pass * DIGIT_BITS & (DIGITS - 1)]++;
}

/* Whether one digit has all items: the pass would move nothing. */
static bool is_uniform(const int64_t counts[DIGITS], int64_t count)
{
    for (int32_t digit = 0; digit < DIGITS; digit++)
        if (counts[digit]) return counts[digit] == count;
    return true;
}

static void move_by_digit(um_keyed *to, const um_keyed *from, int64_t count, int32_t shift,
                          int64_t counts[DIGITS])
{
    int64_t next = 0;
    for (int32_t digit = 0; digit < DIGITS; digit++) {
        int64_t here = counts[digit];
        counts[digit] = next;
        next += here;
    }
    for (int64_t i = 0; i < count; i++) to[counts[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

void UM_ISA_FN(um_radix_sort)(um_keyed *items, um_keyed *spare, int64_t count, int32_t key_bits)
{
    if (count < FEW) {
        insertion_sort(items, count);
        return;
    }
    int64_t counts[MAX_PASSES][DIGITS];
    int32_t passes = (key_bits + DIGIT_BITS - 1) / DIGIT_BITS;
    um_keyed *from = items, *to = spare;
    count_digits(items, count, passes, counts);
    for (int32_t pass = 0; pass < passes; pass++) {
        if (is_uniform(counts[pass], count)) continue;
        move_by_digit(to, from, count, pass * DIGIT_BITS, counts[pass]);
        um_keyed *moved = to;
        to = from;
        from = moved;
    }
    if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}
