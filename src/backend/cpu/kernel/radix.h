/* backend/cpu/kernel/radix.h: a stable sort of keyed records, for scatters that bring together what
 * meets one element, and for sort, top-k and permutations. */
#ifndef UM_CPU_RADIX_H
#define UM_CPU_RADIX_H

#include "backend/cpu/kernel/simd.h"

typedef struct um_keyed {
    uint64_t key;
    int64_t value;
} um_keyed;

/* Sorts by the low key_bits bits of the key (the others are 0); equal keys keep their order. The
 * result is in items; spare has room for as many. */
void UM_ISA_FN(um_radix_sort)(um_keyed *items, um_keyed *spare, int64_t count, int32_t key_bits);

/* Bits that numbers below `count` need. */
UM_INLINE int32_t um_bits_below(uint64_t count)
{
    int32_t bits = 0;
    while (bits < 64 && count > (uint64_t)1 << bits) bits++;
    return bits;
}

#endif
