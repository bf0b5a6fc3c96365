/* check/oracle_random.c: Philox 4x32-10 from its paper (Salmon et al., SC 2011) and what is made of
 * its words. Exact, but for normal numbers. */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t low = 0xD2511F53ull * c[0], high = 0xCD9E8D57ull * c[2];
        uint32_t next[4] = {(uint32_t)(high >> 32) ^ c[1] ^ k[0], (uint32_t)high,
                            (uint32_t)(low >> 32) ^ c[3] ^ k[1], (uint32_t)low};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

static uint32_t word(const um_op *op, uint64_t number)
{
    uint64_t at = op->attrs.random.offset + number / 4, seed = op->attrs.random.seed;
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0}, out[4];
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    philox(counter, key, out);
    return out[number % 4];
}

static uint64_t wide_word(const um_op *op, uint64_t number)
{
    return (uint64_t)word(op, 2 * number + 1) << 32 | word(op, 2 * number);
}

/* Element i of [0, 1), with the dtype's number of bits or, for normal numbers, 24 or 53. */
static long double unit(const um_op *op, um_dtype dtype, int bits, int64_t i)
{
    uint64_t whole = dtype == UM_F64 ? wide_word(op, (uint64_t)i) >> (64 - bits)
                                     : word(op, (uint64_t)i) >> (32 - bits);
    return ldexpl((long double)whole, -bits);
}

static int bits_of(um_dtype dtype)
{
    return dtype == UM_F64 ? 53 : dtype == UM_F32 ? 24 : dtype == UM_F16 ? 11 : 8;
}

static um_expect expect_uniform(const um_op *op, um_dtype dtype, int64_t i)
{
    double u = (double)unit(op, dtype, bits_of(dtype), i), a = op->attrs.random.a;
    double span = op->attrs.random.b - a;
    if (dtype == UM_F64) return um_expect_near((long double)(a + u * span), 0);
    float moved = (float)u * (float)span, sum = (float)a + moved;
    return um_expect_near((long double)sum, 0);
}

static um_expect expect_normal(const um_op *op, um_dtype dtype, int64_t i)
{
    int bits = dtype == UM_F64 ? 53 : 24;
    long double pi = 3.14159265358979323846264338327950288L;
    long double u = unit(op, dtype, bits, i - i % 2) + ldexpl(1, -bits);
    long double quarters = 4 * unit(op, dtype, bits, i - i % 2 + 1);
    if (i % 2) quarters -= 1; /* sin(t) = cos(t - pi / 2) */
    long double whole = rintl(quarters), angle = (quarters - whole) * pi / 2;
    int turn = ((int)whole % 4 + 4) % 4;
    long double wave = turn % 2 ? sinl(angle) : cosl(angle);
    if (turn == 1 || turn == 2) wave = -wave;
    long double z = sqrtl(-2 * logl(u)) * wave;
    long double a = (long double)op->attrs.random.a, moved = (long double)op->attrs.random.b * z;
    return um_expect_near(
        a + moved, 2 * (um_oracle_ulp(dtype, moved) + (a != 0 ? um_oracle_ulp(dtype, a) : 0)));
}

static bool is_hit(const um_op *op, int64_t i)
{
    return (double)word(op, (uint64_t)i) < op->attrs.random.a * 0x1p32;
}

static um_expect expect_flag(um_dtype dtype, bool flag)
{
    um_num value = um_oracle_convert(dtype, UM_I64, (um_num){.i = flag});
    return um_oracle_is_float(dtype) ? um_expect_near((long double)value.f, 0)
                                     : um_expect_num(value);
}

static um_expect expect_bits(const um_op *op, um_dtype dtype, int64_t i)
{
    uint64_t bits =
        um_oracle_bits(dtype) == 64 ? wide_word(op, (uint64_t)i) : word(op, (uint64_t)i);
    return um_expect_num(um_oracle_wrap(dtype, bits));
}

static um_expect expect_dropout(const um_op *op, um_dtype dtype, um_num x, int64_t i)
{
    if (is_hit(op, i)) return um_expect_near(0, 0);
    double kept = 1 - op->attrs.random.a;
    if (dtype == UM_F64) return um_expect_near((long double)(x.f / kept), 0);
    return um_expect_near((long double)((float)x.f / (float)kept), 0);
}

/* ---- permutation --------------------------------------------------------------------------------
 */

typedef struct draw {
    uint64_t key;
    int64_t number;
} draw;

static int compare(const void *a_draw, const void *b_draw)
{
    const draw *a = a_draw, *b = b_draw;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static um_status expect_permutation(const um_op *op, int64_t count, um_expect *expect)
{
    draw *draws = malloc(((size_t)count + 1) * sizeof *draws);
    if (!draws) return UM_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) draws[i] = (draw){wide_word(op, (uint64_t)i), i};
    qsort(draws, (size_t)count, sizeof *draws, compare);
    for (int64_t i = 0; i < count; i++) expect[i] = um_expect_num((um_num){.i = draws[i].number});
    free(draws);
    return UM_OK;
}

um_status um_oracle_random(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *const *expect)
{
    um_dtype dtype = out[0].dtype;
    if (op->id == UM_OP_RANDOM_PERMUTATION) return expect_permutation(op, out[0].count, expect[0]);
    for (int64_t i = 0; i < out[0].count; i++) {
        switch (op->id) {
        case UM_OP_RANDOM_UNIFORM: expect[0][i] = expect_uniform(op, dtype, i); break;
        case UM_OP_RANDOM_NORMAL: expect[0][i] = expect_normal(op, dtype, i); break;
        case UM_OP_RANDOM_BITS: expect[0][i] = expect_bits(op, dtype, i); break;
        case UM_OP_RANDOM_BERNOULLI: expect[0][i] = expect_flag(dtype, is_hit(op, i)); break;
        default:
            expect[0][i] = expect_dropout(op, dtype, in[0].item[i], i);
            if (op->out_count > 1) expect[1][i] = expect_flag(UM_BOOL, !is_hit(op, i));
        }
    }
    return UM_OK;
}
