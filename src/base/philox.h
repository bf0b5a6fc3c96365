/* base/philox.h: Philox 4x32-10, the library's random generator: a counter and a key in, four
 * random words out, no state. J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011. */
#ifndef UM_BASE_PHILOX_H
#define UM_BASE_PHILOX_H

#include <stdint.h>

typedef struct um_philox_words {
    uint32_t w[4];
} um_philox_words;

static inline um_philox_words um_philox(uint64_t key, um_philox_words counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    um_philox_words x = counter;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x.w[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * x.w[2];
        x = (um_philox_words){{(uint32_t)(b >> 32) ^ x.w[1] ^ k0, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ x.w[3] ^ k1, (uint32_t)a}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return x;
}

/* Draw number `index` of the sequence of `key`: 53 random bits, in [0, 1). */
static inline double um_philox_uniform(uint64_t key, uint64_t index)
{
    um_philox_words counter = {{(uint32_t)index, (uint32_t)(index >> 32), 0, 0}};
    um_philox_words x = um_philox(key, counter);
    uint64_t bits = ((uint64_t)x.w[1] << 32 | x.w[0]) >> 11;
    return (double)bits * 0x1p-53;
}

#endif
