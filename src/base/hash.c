/* base/hash.c: a 64-bit hash of bytes, for tables in memory. Not for input that an adversary picks.
 * Words are read in the machine's byte order, so values are not for files. */
#include "base/base.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): each input bit reaches every output bit.
 */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t um_hash(const void *data, size_t size_bytes, uint64_t seed)
{
    const unsigned char *bytes = data;
    uint64_t state = mix(seed + 0x9e3779b97f4a7c15u * (size_bytes + 1)), word;
    for (; size_bytes >= 8; bytes += 8, size_bytes -= 8) {
        memcpy(&word, bytes, 8);
        state = mix(state + word) + 0x9e3779b97f4a7c15u;
    }
    if (size_bytes == 0) return state;
    word = 0;
    memcpy(&word, bytes, size_bytes);
    return mix(state + word);
}
