/* test/test_interp_kernels.c: what goes across invocations, at every subgroup size; whole
 * algorithms against plain C; and an interpreter without memory. */
#include "interp_util.h"

#include <math.h>
#include <stdlib.h>

static float random_f32(void) { return (float)(random_u32() >> 8) * 0x1p-23f - 1; }

static um_val local_index(um_kernel *k) { return um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0); }

/* ---- across invocations --------------------------------------------------------------------- */

enum { LANES = 100 };

static uint32_t join(int32_t operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case UM_K_ADD: return a + b;
    case UM_K_MUL: return a * b;
    case UM_K_MIN: return a < b ? a : b;
    case UM_K_MAX: return a > b ? a : b;
    case UM_K_AND: return a & b;
    case UM_K_OR: return a | b;
    default: return a ^ b;
    }
}

static uint32_t nothing_of(int32_t operation)
{
    if (operation == UM_K_MUL) return 1;
    return operation == UM_K_MIN || operation == UM_K_AND ? UINT32_MAX : 0;
}

/* out[LANES * row + i], of which there are three rows an operation for groups of `size`. */
static void check_combined(const uint32_t *x, const uint32_t *out, uint32_t size, const char *what)
{
    for (int32_t operation = UM_K_ADD; operation <= UM_K_XOR; operation++, out += 3 * LANES)
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t lo = i / size * size, hi = UM_MIN(lo + size, LANES);
            uint32_t all = nothing_of(operation), before = all;
            for (uint32_t j = lo; j < hi; j++) {
                all = join(operation, all, x[j]);
                if (j < i) before = join(operation, before, x[j]);
            }
            bool ok = out[i] == all && out[LANES + i] == join(operation, before, x[i]) &&
                      out[2 * LANES + i] == before;
            CHECK_MSG(ok, "%s, operation %d, groups of %u, invocation %u", what, operation, size,
                      i);
        }
}

static void reduces_and_scans(void)
{
    enum { ROWS = 2 * 7 * 3 };
    static _Alignas(16) uint32_t x[LANES], out[ROWS * LANES];
    um_kernel *k = kernel_make(LANES);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ),
           to = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_val i = local_index(k), a = um_k_load(k, in, i);
    for (uint32_t row = 0; row < ROWS; row++) {
        int32_t operation = 1 + (int32_t)(row / 3 % 7), form = (int32_t)(row % 3);
        bool group = row >= ROWS / 2;
        um_val v = form == 0 ? (group ? um_k_group_reduce(k, operation, a)
                                      : um_k_subgroup_reduce(k, operation, a))
                             : (group ? um_k_group_scan(k, operation, form == 2, a)
                                      : um_k_subgroup_scan(k, operation, form == 2, a));
        um_k_store(k, to, um_k_add(k, i, um_k_u32(k, row * LANES)), v);
    }
    CHECK_OK(um_kernel_finish(k));
    for (size_t j = 0; j < LANES; j++) x[j] = random_u32() | 1;
    um_kernel_buffer buffers[2] = {{x, sizeof x}, {out, sizeof out}};
    for (uint32_t size = 1; size <= 128; size *= 2) {
        CHECK_OK(run_kernel(k, 1, size, 2, buffers, 0, NULL));
        check_combined(x, out, size, "subgroup");
        check_combined(x, out + 3 * 7 * LANES, LANES, "work-group");
    }
    um_kernel_release(k);
}

/* What an exclusive scan begins with, of every type; the sum of floats. */
static void scans_of_every_type(void)
{
    static const struct {
        um_dtype dtype;
        int32_t operation;
        double first, last; /* of 1 2 3 4 */
    } rows[] = {
        {UM_F32, UM_K_ADD, 0, 6},
        {UM_F64, UM_K_MUL, 1, 6},
        {UM_F16, UM_K_MIN, (double)INFINITY, 1},
        {UM_F32, UM_K_MAX, -(double)INFINITY, 3},
        {UM_I32, UM_K_MIN, INT32_MAX, 1},
        {UM_I32, UM_K_MAX, INT32_MIN, 3},
        {UM_U32, UM_K_MIN, UINT32_MAX, 1},
        {UM_I64, UM_K_MIN, 0x1p63, 1},
        {UM_I64, UM_K_MAX, -0x1p63, 3},
        {UM_U64, UM_K_MIN, 0x1p64, 1},
        {UM_U64, UM_K_AND, 0x1p64, 0},
        {UM_I32, UM_K_AND, -1, 0},
    };
    for (size_t r = 0; r < UM_COUNT_OF(rows); r++) {
        _Alignas(16) char out[32];
        double got[4];
        um_kernel *k = kernel_make(4);
        um_dtype kept = rows[r].dtype == UM_F16 ? UM_F32 : rows[r].dtype; /* a word each */
        um_mem to = um_k_buffer(k, "y", kept, UM_K_WRITE);
        um_val i = local_index(k);
        um_val x = um_k_convert(k, rows[r].dtype, um_k_add(k, i, um_k_u32(k, 1)));
        um_val scanned = um_k_subgroup_scan(k, rows[r].operation, true, x);
        um_k_store(k, to, i, um_k_convert(k, kept, scanned));
        CHECK_OK(run_and_release(k, 1, 4, 1, &(um_kernel_buffer){out, sizeof out}, 0, NULL));
        CHECK_OK(um_convert(UM_F64, got, kept, out, 4));
        CHECK_MSG(got[0] == rows[r].first && got[3] == rows[r].last, "row %zu: %g, %g", r, got[0],
                  got[3]);
    }
}

/* out: shuffle to lane ^ 1 where there is one, up by 3, down by 5 (where these have a source), the
 * ballot's word of the lane, invocation 41's value. */
static void shuffles_and_ballot(void)
{
    static _Alignas(16) uint32_t out[5 * LANES];
    um_kernel *k = kernel_make(LANES);
    um_mem to = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_val i = local_index(k), lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0);
    um_val x = um_k_add(k, um_k_mul(k, i, i), um_k_u32(k, 7)), v[5];
    um_val size = um_k_builtin(k, UM_KOP_SUBGROUP_SIZE, 0), one = um_k_u32(k, 1);
    um_val other = um_k_select(k, um_k_gt(k, size, one), um_k_xor(k, lane, one), lane);
    v[0] = um_k_subgroup_shuffle(k, x, other);
    v[1] = um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_UP, x, 3);
    v[2] = um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_DOWN, x, 5);
    um_val odd = um_k_eq(k, um_k_rem(k, i, um_k_u32(k, 3)), one);
    um_val votes = um_k_subgroup_ballot(k, odd), word = um_k_shr(k, lane, um_k_u32(k, 5));
    v[3] = um_k_extract(k, votes, 0);
    for (uint32_t w = 1; w < 4; w++)
        v[3] = um_k_select(k, um_k_eq(k, word, um_k_u32(k, w)), um_k_extract(k, votes, w), v[3]);
    v[4] = um_k_group_broadcast(k, x, 41);
    for (uint32_t r = 0; r < 5; r++)
        um_k_store(k, to, um_k_add(k, i, um_k_u32(k, r * LANES)), v[r]);
    CHECK_OK(um_kernel_finish(k));
    for (uint32_t s = 1; s <= 128; s *= 2) {
        CHECK_OK(run_kernel(k, 1, s, 1, &(um_kernel_buffer){out, sizeof out}, 0, NULL));
        for (uint32_t j = 0; j < LANES; j++) {
            uint32_t lo = j / s * s, hi = UM_MIN(lo + s, LANES), from = s > 1 ? j ^ 1 : j;
            uint32_t bits = 0, first = lo + (j - lo) / 32 * 32;
            for (uint32_t p = first; p < UM_MIN(first + 32, hi); p++)
                bits |= (uint32_t)(p % 3 == 1) << (p - first);
            CHECK_MSG(out[j] == from * from + 7, "xor, %u of %u", j, s);
            CHECK_MSG(j < lo + 3 || out[LANES + j] == (j - 3) * (j - 3) + 7, "up, %u of %u", j, s);
            CHECK_MSG(j + 5 >= hi || out[2 * LANES + j] == (j + 5) * (j + 5) + 7, "down, %u of %u",
                      j, s);
            CHECK_MSG(out[3 * LANES + j] == bits, "ballot, %u of %u", j, s);
            CHECK_MSG(out[4 * LANES + j] == 41 * 41 + 7, "broadcast, %u of %u", j, s);
        }
    }
    um_kernel_release(k);
}

/* ---- algorithms ----------------------------------------------------------------------------- */

/* c[m,n] = a[m,k] b[k,n], a tile of 16 by 16 for a work-group of 16 by 4, in which each invocation
 * has 4 rows. */
static um_kernel *make_gemm(void)
{
    enum { TILE = 16 };
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "gemm", .group_size = {TILE, 4}}, &k));
    um_mem a = um_k_buffer(k, "a", UM_F32, UM_K_READ), b = um_k_buffer(k, "b", UM_F32, UM_K_READ);
    um_mem c = um_k_buffer(k, "c", UM_F32, UM_K_WRITE);
    um_val m = um_k_scalar(k, "m", UM_U32), n = um_k_scalar(k, "n", UM_U32);
    um_val depth = um_k_scalar(k, "depth", UM_U32);
    um_mem ta = um_k_shared(k, "ta", UM_F32, TILE * TILE);
    um_mem tb = um_k_shared(k, "tb", UM_F32, TILE * TILE), sum[4];
    um_val x = um_k_builtin(k, UM_KOP_LOCAL_ID, 0), y = um_k_builtin(k, UM_KOP_LOCAL_ID, 1);
    um_val zero = um_k_f32(k, 0), tile = um_k_u32(k, TILE), none = um_k_u32(k, 0), row[4], at[4];
    um_val column = um_k_add(k, um_k_mul(k, um_k_builtin(k, UM_KOP_GROUP_ID, 0), tile), x);
    um_val top = um_k_mul(k, um_k_builtin(k, UM_KOP_GROUP_ID, 1), tile);
    for (uint32_t r = 0; r < 4; r++) {
        sum[r] = um_k_var(k, (const char *[]){"s0", "s1", "s2", "s3"}[r], UM_F32, 1);
        um_k_set(k, sum[r], zero);
        um_val in_tile = um_k_add(k, um_k_mul(k, y, um_k_u32(k, 4)), um_k_u32(k, r));
        at[r] = um_k_mul(k, in_tile, tile);
        row[r] = um_k_add(k, top, in_tile);
    }
    um_val first = um_k_for(k, none, depth, tile);
    for (uint32_t r = 0; r < 4; r++) {
        um_val p = um_k_add(k, first, x), q = um_k_sub(k, um_k_add(k, first, row[r]), top);
        um_val in_a = um_k_and(k, um_k_lt(k, row[r], m), um_k_lt(k, p, depth));
        um_val in_b = um_k_and(k, um_k_lt(k, q, depth), um_k_lt(k, column, n));
        um_val va = um_k_load_if(k, a, um_k_add(k, um_k_mul(k, row[r], depth), p), in_a, zero);
        um_val vb = um_k_load_if(k, b, um_k_add(k, um_k_mul(k, q, n), column), in_b, zero);
        um_k_store(k, ta, um_k_add(k, at[r], x), va);
        um_k_store(k, tb, um_k_add(k, at[r], x), vb);
    }
    um_k_barrier(k);
    um_val p = um_k_for(k, none, tile, um_k_u32(k, 1));
    um_val vb = um_k_load(k, tb, um_k_add(k, um_k_mul(k, p, tile), x));
    for (uint32_t r = 0; r < 4; r++)
        um_k_set(k, sum[r],
                 um_k_fma(k, um_k_load(k, ta, um_k_add(k, at[r], p)), vb, um_k_get(k, sum[r])));
    um_k_end(k);
    um_k_barrier(k);
    um_k_end(k);
    for (uint32_t r = 0; r < 4; r++) {
        um_val here = um_k_and(k, um_k_lt(k, row[r], m), um_k_lt(k, column, n));
        um_k_store_if(k, c, um_k_add(k, um_k_mul(k, row[r], n), column), um_k_get(k, sum[r]), here);
    }
    CHECK_OK(um_kernel_finish(k));
    return k;
}

/* Also that the bits do not depend on the subgroup size, of which the kernel does not speak. */
static void tiled_gemm(void)
{
    static const uint32_t sizes[][3] = {{1, 1, 1},    {16, 16, 16}, {17, 15, 33},
                                        {64, 64, 64}, {61, 67, 70}, {5, 40, 0}};
    um_kernel *k = make_gemm();
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++) {
        static _Alignas(16) float a[4900], b[4900], c[4900], before[4900];
        uint32_t m = sizes[s][0], n = sizes[s][1], depth = sizes[s][2];
        for (size_t i = 0; i < 4900; i++) a[i] = random_f32(), b[i] = random_f32();
        um_kernel_buffer buffers[3] = {
            {a, 4 * m * depth}, {b, 4 * depth * n}, {c, 4 * (uint64_t)m * n}};
        um_kernel_run run = {.group_count = {(n + 15) / 16, (m + 15) / 16, 1},
                             .buffers = buffers,
                             .buffer_count = 3,
                             .scalars = sizes[s],
                             .scalar_count = 3};
        for (run.subgroup_size = 1; run.subgroup_size <= 128; run.subgroup_size *= 4) {
            CHECK_OK(um_kernel_interpret(k, &run));
            if (run.subgroup_size > 1) CHECK(memcmp(before, c, 4 * m * n) == 0);
            memcpy(before, c, sizeof c);
        }
        for (uint32_t i = 0; i < m * n; i++) {
            double want = 0;
            for (uint32_t p = 0; p < depth; p++)
                want += (double)a[i / n * depth + p] * (double)b[p * n + i % n];
            CHECK_MSG(fabs((double)c[i] - want) < 1e-5, "%ux%ux%u, %u", m, n, depth, i);
        }
    }
    um_kernel_release(k);
}

/* The sum of n elements: each work-group of 64 has one of what it reads with a stride, by halving
 * in shared memory. */
static um_kernel *make_sum(void)
{
    enum { SIZE = 64 };
    um_kernel *k = kernel_make(SIZE);
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ), y = um_k_buffer(k, "y", UM_F32, UM_K_WRITE);
    um_mem part = um_k_shared(k, "part", UM_F32, SIZE), sum = um_k_var(k, "sum", UM_F32, 1);
    um_val n = um_k_scalar(k, "n", UM_U32), i = local_index(k), zero = um_k_u32(k, 0);
    um_val all = um_k_mul(k, um_k_builtin(k, UM_KOP_GROUP_COUNT, 0), um_k_u32(k, SIZE));
    um_k_set(k, sum, um_k_f32(k, 0));
    um_val at = um_k_for(k, um_k_global_index(k, 0), n, all);
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), um_k_load(k, x, at)));
    um_k_end(k);
    um_k_store(k, part, i, um_k_get(k, sum));
    for (uint32_t half = SIZE / 2; half > 0; half /= 2) {
        um_k_barrier(k);
        um_val h = um_k_u32(k, half);
        um_k_if(k, um_k_lt(k, i, h));
        um_val a = um_k_load(k, part, i), b = um_k_load(k, part, um_k_add(k, i, h));
        um_k_store(k, part, i, um_k_add(k, a, b));
        um_k_end(k);
    }
    um_k_if(k, um_k_eq(k, i, zero));
    um_k_store(k, y, um_k_builtin(k, UM_KOP_GROUP_ID, 0), um_k_load(k, part, zero));
    um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    return k;
}

static void two_stage_sum(void)
{
    static _Alignas(16) float x[10000], part[16], y[4];
    um_kernel *k = make_sum();
    double want = 0;
    uint32_t n = 10000, parts = 7;
    for (uint32_t i = 0; i < n; i++) want += (double)(x[i] = random_f32());
    CHECK_OK(run_kernel(k, parts, 0, 2, (um_kernel_buffer[]){{x, sizeof x}, {part, sizeof part}}, 1,
                        &n));
    CHECK_OK(
        run_kernel(k, 1, 0, 2, (um_kernel_buffer[]){{part, 4 * parts}, {y, sizeof y}}, 1, &parts));
    CHECK_MSG(fabs((double)y[0] - want) < 1e-3, "%g, want %g", (double)y[0], want);
    um_kernel_release(k);
}

/* A row a work-group of 32; work-group operations. */
static void softmax_of_rows(void)
{
    enum { ROWS = 5, COLUMNS = 77 };
    static _Alignas(16) float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    um_kernel *k = kernel_make(32);
    um_mem in = um_k_buffer(k, "x", UM_F32, UM_K_READ),
           out = um_k_buffer(k, "y", UM_F32, UM_K_WRITE);
    um_mem best = um_k_var(k, "best", UM_F32, 1), sum = um_k_var(k, "sum", UM_F32, 1);
    um_val n = um_k_scalar(k, "n", UM_U32), size = um_k_u32(k, 32), i = local_index(k);
    um_val row = um_k_mul(k, um_k_builtin(k, UM_KOP_GROUP_ID, 0), n);
    um_k_set(k, best, um_k_f32(k, -INFINITY));
    um_val j = um_k_for(k, i, n, size);
    um_k_set(k, best, um_k_max(k, um_k_get(k, best), um_k_load(k, in, um_k_add(k, row, j))));
    um_k_end(k);
    um_val top = um_k_group_reduce(k, UM_K_MAX, um_k_get(k, best));
    um_k_set(k, sum, um_k_f32(k, 0));
    j = um_k_for(k, i, n, size);
    um_val e = um_k_exp(k, um_k_sub(k, um_k_load(k, in, um_k_add(k, row, j)), top));
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), e));
    um_k_end(k);
    um_val total = um_k_group_reduce(k, UM_K_ADD, um_k_get(k, sum));
    j = um_k_for(k, i, n, size);
    e = um_k_exp(k, um_k_sub(k, um_k_load(k, in, um_k_add(k, row, j)), top));
    um_k_store(k, out, um_k_add(k, row, j), um_k_div(k, e, total));
    um_k_end(k);
    for (size_t p = 0; p < UM_COUNT_OF(x); p++) x[p] = 10 * random_f32();
    um_kernel_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
    CHECK_OK(run_and_release(k, ROWS, 8, 2, buffers, 1, (uint32_t[]){COLUMNS}));
    for (size_t r = 0; r < ROWS; r++) {
        double high = -(double)INFINITY, all = 0;
        for (size_t c = 0; c < COLUMNS; c++) high = fmax(high, (double)x[r * COLUMNS + c]);
        for (size_t c = 0; c < COLUMNS; c++) all += exp((double)x[r * COLUMNS + c] - high);
        for (size_t c = 0; c < COLUMNS; c++) {
            double want = exp((double)x[r * COLUMNS + c] - high) / all;
            CHECK_MSG(fabs((double)y[r * COLUMNS + c] - want) < 1e-6, "%zu, %zu", r, c);
        }
    }
}

/* Counts in shared memory, then in the buffer. */
static void histogram(void)
{
    enum { BINS = 10, COUNT = 1000 };
    static _Alignas(16) uint32_t x[COUNT], bin[BINS + 2];
    uint32_t want[BINS] = {0};
    um_kernel *k = kernel_make(64);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ);
    um_mem out = um_k_buffer(k, "bin", UM_U32, UM_K_READ_WRITE);
    um_mem own = um_k_shared(k, "own", UM_U32, BINS);
    um_val n = um_k_scalar(k, "n", UM_U32), i = local_index(k), one = um_k_u32(k, 1);
    um_val bins = um_k_u32(k, BINS), zero = um_k_u32(k, 0);
    um_k_store_if(k, own, i, zero, um_k_lt(k, i, bins));
    um_k_barrier(k);
    um_val at = um_k_global_index(k, 0);
    um_k_if(k, um_k_lt(k, at, n));
    um_k_atomic(k, UM_K_ADD, own, um_k_rem(k, um_k_load(k, in, at), bins), one);
    um_k_end(k);
    um_k_barrier(k);
    um_k_if(k, um_k_lt(k, i, bins));
    um_k_atomic(k, UM_K_ADD, out, i, um_k_load(k, own, i));
    um_k_end(k);
    for (size_t j = 0; j < COUNT; j++) want[(x[j] = random_u32()) % BINS]++;
    um_kernel_buffer buffers[2] = {{x, sizeof x}, {bin, sizeof bin}};
    CHECK_OK(run_and_release(k, 16, 0, 2, buffers, 1, (uint32_t[]){COUNT}));
    for (size_t b = 0; b < BINS; b++) CHECK_MSG(bin[b] == want[b], "%zu: %u", b, bin[b]);
}

/* Each operation on one element by 5 invocations: what is left, and that each saw another value. */
static void atomics_of_every_operation(void)
{
    static const struct {
        um_dtype dtype;
        int32_t operation;
        uint32_t before, after; /* joined with 3, 4, ... 7 */
    } rows[] = {{UM_I32, UM_K_ADD, 100, 125},
                {UM_U32, UM_K_MIN, 100, 3},
                {UM_I32, UM_K_MIN, 5, 3},
                {UM_I32, UM_K_MAX, (uint32_t)-9, 7},
                {UM_U32, UM_K_MAX, (uint32_t)-9, (uint32_t)-9},
                {UM_U32, UM_K_AND, 0xff, 0},
                {UM_U32, UM_K_OR, 0x10, 0x17},
                {UM_I32, UM_K_XOR, 1, 2},
                {UM_U32, UM_K_EXCHANGE, 9, 7},
                {UM_F32, UM_K_ADD, 0x3f800000, 0x41d00000}};
    for (size_t r = 0; r < UM_COUNT_OF(rows); r++) {
        _Alignas(16) uint32_t x[4] = {0, rows[r].before, 0, 0};
        um_kernel *k = kernel_make(5);
        um_mem mem = um_k_buffer(k, "x", rows[r].dtype, UM_K_READ_WRITE);
        um_val v = um_k_convert(k, rows[r].dtype, um_k_add(k, local_index(k), um_k_u32(k, 3)));
        um_k_atomic(k, rows[r].operation, mem, um_k_u32(k, 1), v);
        CHECK_OK(run_and_release(k, 1, 0, 1, &(um_kernel_buffer){x, sizeof x}, 0, NULL));
        CHECK_MSG(x[1] == rows[r].after, "row %zu: %x", r, x[1]);
    }
    /* A lock-free maximum by compare and swap: a loop that invocations leave one by one. */
    _Alignas(16) uint32_t x[4] = {50, 0, 0, 0};
    um_kernel *k = kernel_make(64);
    um_mem mem = um_k_buffer(k, "x", UM_U32, UM_K_READ_WRITE),
           seen = um_k_var(k, "seen", UM_U32, 1);
    um_val zero = um_k_u32(k, 0), i = um_k_mul(k, local_index(k), um_k_u32(k, 3));
    um_k_set(k, seen, zero);
    um_k_loop(k);
    um_val old = um_k_get(k, seen);
    um_val got = um_k_atomic_cas(k, mem, zero, old, um_k_max(k, old, i));
    um_k_set(k, seen, got);
    um_k_break_if(k, um_k_eq(k, got, old));
    um_k_end(k);
    CHECK_OK(run_and_release(k, 1, 0, 1, &(um_kernel_buffer){x, sizeof x}, 0, NULL));
    CHECK(x[0] == 189);
}

/* ---- fragments, asynchronous copies --------------------------------------------------------- */

/* Without matrix tiles, subgroups, the type: the same bits. */
static void check_fragments_expanded(const um_kernel *k, uint32_t subgroup,
                                     const um_kernel_buffer *buffers)
{
    static _Alignas(16) char got[4096], want[4096];
    uint32_t small = 1u << UM_F16 | 1u << UM_BF16 | 1u << UM_F8E4M3FN;
    const um_klacks forms[] = {{.fragments = true},
                               {.subgroups = true},
                               {.types = small},
                               {.fragments = true, .shuffles = subgroup, .types = small}};
    memcpy(want, buffers[2].data, sizeof want);
    um_kernel_buffer to[3] = {buffers[0], buffers[1], {want, sizeof want}};
    CHECK_OK(run_kernel(k, 1, subgroup, 3, to, 0, NULL));
    to[2].data = got;
    for (size_t i = 0; i < UM_COUNT_OF(forms); i++) {
        um_kernel *e = NULL;
        if (forms[i].subgroups && subgroup > 1) continue; /* all would do the same */
        if (k->frag[2].dtype == UM_F16 && !forms[i].subgroups) {
            CHECK_FAILS(um_kernel_lower(k, &forms[i], &e), UM_UNSUPPORTED, "frag_");
            continue;
        }
        CHECK_OK(um_kernel_lower(k, &forms[i], &e));
        CHECK(!e || (e->frag_count == 0) == (forms[i].fragments || forms[i].subgroups));
        memcpy(got, buffers[2].data, sizeof got);
        if (e) CHECK_OK(run_kernel(e, 1, subgroup, 3, to, 0, NULL));
        CHECK_MSG(memcmp(got, want, sizeof got) == 0, "form %zu, subgroup %u", i, subgroup);
        um_kernel_release(e);
    }
}

/* d = a b + c with one fragment a matrix; to each element row * 100 + column is added by who holds
 * it. */
static void check_fragments(um_dtype factor, um_dtype total, uint32_t m, uint32_t n, uint32_t depth,
                            uint32_t subgroup, bool by_columns)
{
    static _Alignas(16) char a[4096], b[4096], c[4096];
    static double va[512], vb[512], vc[512], got[512];
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "t", .group_size = {subgroup}}, &k));
    um_mem ma = um_k_buffer(k, "a", factor, UM_K_READ), mb = um_k_buffer(k, "b", factor, UM_K_READ);
    um_mem mc = um_k_buffer(k, "c", total, UM_K_READ_WRITE);
    um_frag fa = um_k_frag(k, "fa", UM_K_FRAG_A, m, n, depth, factor);
    um_frag fb = um_k_frag(k, "fb", UM_K_FRAG_B, m, n, depth, factor);
    um_frag fc = um_k_frag(k, "fc", UM_K_FRAG_C, m, n, depth, total);
    um_val zero = um_k_u32(k, 0), one = um_k_u32(k, 1);
    um_k_frag_load(k, fa, ma, zero, um_k_u32(k, by_columns ? m : depth), by_columns);
    um_k_frag_load(k, fb, mb, zero, um_k_u32(k, by_columns ? depth : n), by_columns);
    um_k_frag_load(k, fc, mc, zero, um_k_u32(k, n), false);
    um_k_frag_mma(k, fc, fa, fb, fc);
    um_val item = um_k_for(k, zero, um_k_frag_count(k, fc), one);
    um_val row = um_k_mul(k, um_k_frag_row(k, fc, item), um_k_u32(k, 100));
    um_val bias = um_k_convert(k, total, um_k_add(k, row, um_k_frag_column(k, fc, item)));
    um_k_frag_set(k, fc, item, um_k_add(k, um_k_frag_get(k, fc, item), bias));
    um_k_end(k);
    um_k_frag_store(k, fc, mc, zero, um_k_u32(k, n), false);
    for (size_t i = 0; i < 512; i++) {
        va[i] = random_u32() % 9 - 4.0, vb[i] = random_u32() % 7 - 3.0, vc[i] = random_u32() % 5;
        if (factor == UM_U8) va[i] += 4, vb[i] += 3;
    }
    CHECK_OK(um_convert(factor, a, UM_F64, va, 512));
    CHECK_OK(um_convert(factor, b, UM_F64, vb, 512));
    CHECK_OK(um_convert(total, c, UM_F64, vc, 512));
    um_kernel_buffer buffers[3] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
    CHECK_OK(um_kernel_finish(k));
    check_fragments_expanded(k, subgroup, buffers);
    CHECK_OK(run_and_release(k, 1, subgroup, 3, buffers, 0, NULL));
    CHECK_OK(um_convert(UM_F64, got, total, c, 512));
    for (uint32_t i = 0; i < m * n; i++) {
        uint32_t r = i / n, col = i % n;
        double want = vc[i] + 100.0 * r + col;
        for (uint32_t p = 0; p < depth; p++)
            want += by_columns ? va[p * m + r] * vb[col * depth + p]
                               : va[r * depth + p] * vb[p * n + col];
        CHECK_MSG(got[i] == want, "%s %ux%ux%u, subgroup %u: %u: %g, want %g",
                  um_dtype_name(factor), m, n, depth, subgroup, i, got[i], want);
    }
}

static void fragments_multiply(void)
{
    for (uint32_t subgroup = 1; subgroup <= 128; subgroup *= 2) {
        check_fragments(UM_F16, UM_F32, 16, 16, 16, subgroup, false);
        check_fragments(UM_BF16, UM_F32, 16, 8, 16, subgroup, true);
        check_fragments(UM_F16, UM_F16, 8, 8, 4, subgroup, false);
        check_fragments(UM_I8, UM_I32, 16, 16, 32, subgroup, true);
        check_fragments(UM_U8, UM_I32, 8, 8, 16, subgroup, false);
        check_fragments(UM_F8E4M3FN, UM_F32, 3, 5, 7, subgroup, false);
        check_fragments(UM_F32, UM_F32, 8, 16, 4, subgroup, true);
        check_fragments(UM_F64, UM_F64, 8, 8, 4, subgroup, false);
    }
}

/* Where items lie, as kernel.h says: by rows, of B by columns. */
static void fragments_have_a_layout(void)
{
    enum { M = 3, K = 4, L = 8 };
    static _Alignas(16) uint32_t out[2 * 2 * L];
    for (int32_t role = UM_K_FRAG_A; role <= UM_K_FRAG_B; role++) {
        um_kernel *k = kernel_make(L);
        um_frag f = um_k_frag(k, "f", role, M, M, K, UM_F32); /* A is 3x4, B 4x3: 12 elements */
        um_mem mem = um_k_buffer(k, "out", UM_U32, UM_K_WRITE);
        um_val i = local_index(k),
               item = um_k_for(k, um_k_u32(k, 0), um_k_frag_count(k, f), um_k_u32(k, 1));
        um_val at = um_k_add(k, um_k_mul(k, item, um_k_u32(k, L)), i), two = um_k_u32(k, 2);
        um_k_store(k, mem, um_k_mul(k, at, two), um_k_frag_row(k, f, item));
        um_k_store(k, mem, um_k_add(k, um_k_mul(k, at, two), um_k_u32(k, 1)),
                   um_k_frag_column(k, f, item));
        um_k_end(k);
        memset(out, 0xff, sizeof out);
        CHECK_OK(run_and_release(k, 1, L, 1, &(um_kernel_buffer){out, sizeof out}, 0, NULL));
        for (uint32_t e = 0; e < 2 * L; e++) {
            bool by_columns = role == UM_K_FRAG_B, held = e < M * K;
            uint32_t row = by_columns ? e % K : e / K, column = by_columns ? e / K : e % K;
            CHECK_MSG(out[2 * e] == (held ? row : UINT32_MAX), "role %d, %u", role, e);
            CHECK_MSG(out[2 * e + 1] == (held ? column : UINT32_MAX), "role %d, %u", role, e);
        }
    }
}

/* Blocks of 32 elements come through two buffers, one ahead; each invocation sums the others'. */
static void asynchronous_pipeline(void)
{
    enum { BLOCK = 32, BLOCKS = 5 };
    static _Alignas(16) uint32_t x[BLOCK * BLOCKS], y[8];
    um_kernel *k = kernel_make(8);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ),
           out = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_mem ring = um_k_shared(k, "ring", UM_U32, 2 * BLOCK), sum = um_k_var(k, "sum", UM_U32, 1);
    um_val i = local_index(k), zero = um_k_u32(k, 0), four = um_k_u32(k, 4), one = um_k_u32(k, 1);
    um_val block = um_k_u32(k, BLOCK), blocks = um_k_u32(k, BLOCKS), two = um_k_u32(k, 2);
    um_val own = um_k_mul(k, i, four);
    um_k_set(k, sum, zero);
    um_k_async_copy(k, ring, own, in, own);
    um_k_async_commit(k);
    um_val b = um_k_for(k, zero, blocks, one), next = um_k_add(k, b, one);
    um_k_if(k, um_k_lt(k, next, blocks));
    um_val to = um_k_mul(k, um_k_rem(k, next, two), block);
    um_k_async_copy(k, ring, um_k_add(k, to, own), in, um_k_add(k, um_k_mul(k, next, block), own));
    um_k_end(k);
    um_k_async_commit(k);
    um_k_async_wait(k, 1);
    um_k_barrier(k);
    um_val j = um_k_for(k, zero, block, one);
    um_val at = um_k_add(k, um_k_mul(k, um_k_rem(k, b, two), block), j);
    um_val term = um_k_mul(k, um_k_load(k, ring, at), um_k_add(k, i, one));
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), term));
    um_k_end(k);
    um_k_barrier(k);
    um_k_end(k);
    um_k_store(k, out, i, um_k_get(k, sum));
    uint32_t want = 0;
    for (size_t p = 0; p < UM_COUNT_OF(x); p++) want += x[p] = random_u32();
    um_kernel_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
    CHECK_OK(run_and_release(k, 1, 0, 2, buffers, 0, NULL));
    for (uint32_t p = 0; p < 8; p++) CHECK_MSG(y[p] == want * (p + 1), "%u: %u", p, y[p]);
}

/* ---- no memory ------------------------------------------------------------------------------ */

/* Every allocation of a run that needs all kinds of it fails in turn. */
static void every_allocation_may_fail(void)
{
    static _Alignas(16) float x[16 * 4096 + 64];
    um_kernel *k = kernel_make(64);
    um_mem mem = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_mem s = um_k_shared(k, "s", UM_F32, 4096), p = um_k_private(k, "p", UM_F32, 64);
    um_frag f = um_k_frag(k, "f", UM_K_FRAG_C, 16, 16, 16, UM_F32);
    um_val i = um_k_mul(k, local_index(k), um_k_u32(k, 1024)), one = um_k_f32(k, 1);
    um_k_frag_fill(k, f, one);
    um_k_store(k, p, um_k_u32(k, 0), one);
    um_k_store(k, mem, i, one);
    um_k_async_copy(k, s, um_k_mul(k, local_index(k), um_k_u32(k, 4)), mem, i);
    CHECK_OK(um_kernel_finish(k));
    um_kernel_buffer buffer = {x, sizeof x};
    int64_t live = um_mem_live_count();
    int32_t n = 1;
    for (;; n++) {
        um_mem_fail_at(n, n % 2);
        um_status status = run_kernel(k, 1, 0, 1, &buffer, 0, NULL);
        bool failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(um_mem_live_count() == live);
        if (!failed) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == UM_OUT_OF_MEMORY);
        CHECK(strstr(um_last_error()->message, "kernel t") != NULL);
    }
    CHECK_MSG(n > 5, "%d allocations", n);
    um_kernel_release(k);
}

int main(void)
{
    TEST(reduces_and_scans);
    TEST(scans_of_every_type);
    TEST(shuffles_and_ballot);
    TEST(tiled_gemm);
    TEST(two_stage_sum);
    TEST(softmax_of_rows);
    TEST(histogram);
    TEST(atomics_of_every_operation);
    TEST(fragments_multiply);
    TEST(fragments_have_a_layout);
    TEST(asynchronous_pipeline);
    TEST(every_allocation_may_fail);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
