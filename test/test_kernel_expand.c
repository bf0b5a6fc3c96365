/* test/test_kernel_expand.c: kernels without what a target lacks do the same: they run in the
 * interpreter before and after. */
#include "interp_util.h"
#include "kernel_ir.h"

#include <math.h>
#include <stdlib.h>

/* ---- across the work-group ------------------------------------------------------------------ */

/* Each invocation's value, 1 or 2, by every operation of its type, reduced, scanned, broadcast;
 * sums and products are exact, so their order does not matter. *count: results of an invocation. */
static um_kernel *group_kernel(um_dtype dtype, uint32_t n, uint32_t *count)
{
    um_kernel *k = kernel_make(n);
    bool truth = dtype == UM_BOOL, is_float = um_dtype_is_float(dtype);
    um_mem x = um_k_buffer(k, "x", UM_U32, UM_K_READ_WRITE);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), one = um_k_u32(k, 1), got[24];
    um_val bit = um_k_and(k, um_k_load(k, x, i), one);
    um_val a = um_k_convert(k, dtype, truth ? bit : um_k_add(k, bit, one));
    uint32_t c = 0;
    for (int32_t op = truth ? UM_K_AND : UM_K_ADD; op <= (is_float ? UM_K_MAX : UM_K_XOR); op++) {
        got[c++] = um_k_group_reduce(k, op, a);
        if (!truth) got[c++] = um_k_group_scan(k, op, true, a);
        if (!truth) got[c++] = um_k_group_scan(k, op, false, a);
    }
    got[c++] = um_k_group_broadcast(k, a, n / 2);
    /* the result counts as the same for all: a barrier may depend on it */
    um_k_if(k, um_k_eq(k, um_k_convert(k, UM_U32, got[0]), one));
    um_k_barrier(k);
    um_k_end(k);
    for (uint32_t r = 0; r < c; r++)
        um_k_store(k, x, um_k_add(k, i, um_k_u32(k, (r + 1) * n)), um_k_convert(k, UM_U32, got[r]));
    CHECK_OK(um_kernel_finish(k));
    *count = c;
    return k;
}

static void check_group_ops(um_dtype dtype, uint32_t n)
{
    static _Alignas(16) uint32_t want[100 * 25], got[100 * 25];
    um_kernel_buffer w = {want, sizeof want}, g = {got, sizeof got};
    uint32_t count;
    um_kernel *k = group_kernel(dtype, n, &count), *e = NULL;
    for (uint32_t i = 0; i < UM_COUNT_OF(want); i++) want[i] = random_u32();
    CHECK_OK(run_kernel(k, 1, 8, 1, &w, 0, NULL));
    for (uint32_t form = 0; form < 2; form++) {
        um_klacks lacks = {.group_ops = true, .subgroups = form};
        CHECK_OK(um_kernel_expand(k, &lacks, &e));
        for (int64_t i = 1; e && i < e->inst_count; i++)
            CHECK(e->inst[i].op < UM_KOP_GROUP_BROADCAST || e->inst[i].op > UM_KOP_GROUP_SCAN);
        for (uint32_t size = 1; e && size <= 64; size *= 4) {
            memset(got, 0, sizeof got);
            memcpy(got, want, n * sizeof *got);
            CHECK_OK(run_kernel(e, 1, size, 1, &g, 0, NULL));
            for (uint32_t i = 0; i < (count + 1) * n; i++)
                CHECK_MSG(got[i] == want[i], "%s, %u invocations, result %u, subgroups of %u: %u",
                          um_dtype_name(dtype), n, i / n - 1, size, got[i]);
        }
        um_kernel_release(e);
    }
    um_kernel_release(k);
}

static void group_ops_through_memory(void)
{
    static const uint32_t sizes[] = {1, 2, 3, 7, 24, 64, 100};
    static const um_dtype dtypes_of[] = {UM_U32, UM_I32, UM_F32, UM_BOOL, UM_F16, UM_U64};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (size_t d = 0; d < UM_COUNT_OF(dtypes_of); d++) check_group_ops(dtypes_of[d], sizes[s]);
}

/* ---- subgroups by shuffles ------------------------------------------------------------------ */

static um_kernel *subgroup_kernel(um_dtype dtype, uint32_t n, uint32_t *count)
{
    um_kernel *k = kernel_make(n);
    bool truth = dtype == UM_BOOL, is_float = um_dtype_is_float(dtype);
    um_mem x = um_k_buffer(k, "x", UM_U32, UM_K_READ_WRITE);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), one = um_k_u32(k, 1), got[32];
    um_val bit = um_k_and(k, um_k_load(k, x, i), one);
    um_val a = um_k_convert(k, dtype, truth ? bit : um_k_add(k, bit, one));
    uint32_t c = 0;
    for (int32_t op = truth ? UM_K_AND : UM_K_ADD; op <= (is_float ? UM_K_MAX : UM_K_XOR); op++) {
        got[c++] = um_k_subgroup_reduce(k, op, a);
        if (!truth) got[c++] = um_k_subgroup_scan(k, op, true, a);
        if (!truth) got[c++] = um_k_subgroup_scan(k, op, false, a);
    }
    um_val all = um_k_subgroup_ballot(k, um_k_ne(k, bit, um_k_u32(k, 0)));
    for (uint32_t w = 0; w < 4; w++) got[c++] = um_k_extract(k, all, w);
    got[c++] = um_k_builtin(k, UM_KOP_SUBGROUP_SIZE, 0);
    /* the result counts as the same in the subgroup */
    um_k_if(k, um_k_eq(k, um_k_convert(k, UM_U32, got[0]), one));
    um_k_subgroup_reduce(k, truth ? UM_K_OR : UM_K_MAX, got[0]);
    um_k_end(k);
    for (uint32_t r = 0; r < c; r++)
        um_k_store(k, x, um_k_add(k, i, um_k_u32(k, (r + 1) * n)), um_k_convert(k, UM_U32, got[r]));
    CHECK_OK(um_kernel_finish(k));
    *count = c;
    return k;
}

static void subgroups_through_shuffles(void)
{
    static const uint32_t groups[] = {1, 5, 64, 100, 128};
    static const um_dtype dtypes_of[] = {UM_U32, UM_F32, UM_BOOL, UM_I64};
    static _Alignas(16) uint32_t want[128 * 33], got[128 * 33];
    um_kernel_buffer w = {want, sizeof want}, g = {got, sizeof got};
    for (size_t c = 0; c < UM_COUNT_OF(groups) * UM_COUNT_OF(dtypes_of); c++) {
        uint32_t n = groups[c / UM_COUNT_OF(dtypes_of)], count;
        um_kernel *k = subgroup_kernel(dtypes_of[c % UM_COUNT_OF(dtypes_of)], n, &count);
        for (uint32_t size = 1; size <= 128; size *= 2) {
            um_kernel *e = NULL;
            for (uint32_t i = 0; i < UM_COUNT_OF(want); i++) want[i] = random_u32();
            memcpy(got, want, sizeof got);
            CHECK_OK(run_kernel(k, 1, size, 1, &w, 0, NULL));
            CHECK_OK(um_kernel_expand(k, &(um_klacks){.shuffles = size}, &e));
            if (e) CHECK_OK(run_kernel(e, 1, size, 1, &g, 0, NULL));
            for (uint32_t i = 0; i < (count + 1) * n; i++)
                CHECK_MSG(got[i] == want[i], "case %zu, result %u, subgroups of %u: %u, wanted %u",
                          c, i / n - 1, size, got[i], want[i]);
            for (int64_t i = 1; e && i < e->inst_count; i++)
                CHECK(e->inst[i].op != UM_KOP_SUBGROUP_REDUCE &&
                      e->inst[i].op != UM_KOP_SUBGROUP_SCAN &&
                      e->inst[i].op != UM_KOP_SUBGROUP_BALLOT);
            um_kernel_release(e);
        }
        um_kernel_release(k);
    }
}

/* ---- asynchronous copies -------------------------------------------------------------------- */

static void copies_as_loads(void)
{
    static const um_dtype dtypes_of[] = {UM_U8, UM_F16, UM_F32, UM_F64};
    static _Alignas(16) uint8_t in[1024], want[1024], got[1024];
    for (size_t d = 0; d < UM_COUNT_OF(dtypes_of); d++) {
        um_kernel *k = kernel_make(64), *e = NULL;
        uint32_t each = 128 / (uint32_t)um_dtype_bits(dtypes_of[d]);
        um_mem r = um_k_buffer(k, "r", dtypes_of[d], UM_K_READ);
        um_mem w = um_k_buffer(k, "w", dtypes_of[d], UM_K_WRITE);
        um_mem s = um_k_shared(k, "s", dtypes_of[d], 64 * each);
        um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), size = um_k_u32(k, each);
        um_val from = um_k_mul(k, i, size);
        um_val to = um_k_mul(k, um_k_sub(k, um_k_u32(k, 63), i), size);
        um_k_async_copy(k, s, to, r, from);
        um_k_async_commit(k);
        um_k_async_wait(k, 0);
        um_k_barrier(k);
        um_val j = um_k_for(k, um_k_u32(k, 0), size, um_k_u32(k, 1));
        /* whole words of the output */
        um_val at = um_k_add(k, from, j);
        um_k_store(k, w, at, um_k_load(k, s, at));
        um_k_end(k);
        CHECK_OK(um_kernel_finish(k));
        CHECK_OK(um_kernel_expand(k, &(um_klacks){.async_copy = true}, &e));
        for (size_t b = 0; b < sizeof in; b++) in[b] = (uint8_t)random_u32();
        um_kernel_buffer first[2] = {{in, sizeof in}, {want, sizeof want}};
        um_kernel_buffer second[2] = {{in, sizeof in}, {got, sizeof got}};
        memset(got, 0, sizeof got);
        CHECK_OK(run_kernel(k, 1, 32, 2, first, 0, NULL));
        if (e) CHECK_OK(run_kernel(e, 1, 32, 2, second, 0, NULL));
        CHECK_MSG(memcmp(want, got, sizeof got) == 0, "%s", um_dtype_name(dtypes_of[d]));
        CHECK(memcmp(want, in + sizeof in - 16, 16) == 0);
        for (int64_t n = 1; e && n < e->inst_count; n++) CHECK(e->inst[n].op != UM_KOP_ASYNC_COPY);
        um_kernel_release(e);
        um_kernel_release(k);
    }
}

/* ---- types ---------------------------------------------------------------------------------- */

/* Runs k, which reads buffer 0 and writes buffer 1, and what is left of it without what lacks; the
 * outputs have to be the same. */
static void check_expanded(um_kernel *k, const um_klacks *lacks, const void *in, size_t in_bytes,
                           size_t out_bytes, const char *what)
{
    um_kernel *e = NULL;
    char *want = NULL, *got = NULL, *source = NULL;
    CHECK_OK(um_kernel_finish(k));
    CHECK_OK(um_kernel_expand(k, lacks, &e));
    source = aligned_alloc(16, (in_bytes + 15) / 16 * 16);
    want = aligned_alloc(16, (out_bytes + 15) / 16 * 16);
    got = aligned_alloc(16, (out_bytes + 15) / 16 * 16);
    if (e && source && want && got) {
        memcpy(source, in, in_bytes);
        memset(want, 0xa5, out_bytes);
        memset(got, 0xa5, out_bytes);
        um_kernel_buffer first[2] = {{source, in_bytes}, {want, out_bytes}};
        um_kernel_buffer second[2] = {{source, in_bytes}, {got, out_bytes}};
        CHECK_OK(run_kernel(k, 1, 32, 2, first, 0, NULL));
        CHECK_OK(run_kernel(e, 1, 32, 2, second, 0, NULL));
        size_t at = 0;
        while (at < out_bytes && want[at] == got[at]) at++;
        CHECK_MSG(at == out_bytes, "%s: byte %zu of %zu is %02x, wanted %02x", what, at, out_bytes,
                  (unsigned)(unsigned char)got[UM_MIN(at, out_bytes - 1)],
                  (unsigned)(unsigned char)want[UM_MIN(at, out_bytes - 1)]);
    }
    free(source);
    free(want);
    free(got);
    um_kernel_release(e);
    um_kernel_release(k);
}

/* y[i] = x[i] converted, `lanes` at a time by each of 64 invocations, in rounds. */
static um_kernel *convert_kernel(um_dtype from, um_dtype to, uint32_t count, int32_t lanes)
{
    um_kernel *k = kernel_make(64);
    um_mem x = um_k_buffer(k, "x", from, UM_K_READ), y = um_k_buffer(k, "y", to, UM_K_WRITE);
    /* whoever stores to a word has to own it */
    um_val own = um_k_u32(k, 4), i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_val begin = um_k_mul(k, i, own);
    um_val block = um_k_for(k, begin, um_k_u32(k, count), um_k_u32(k, 256));
    um_val j = um_k_for(k, um_k_u32(k, 0), own, um_k_u32(k, (uint32_t)lanes));
    um_val at = um_k_add(k, block, j);
    um_k_store(k, y, at, um_k_convert(k, to, um_k_load_lanes(k, x, at, lanes)));
    um_k_end(k);
    um_k_end(k);
    return k;
}

static const uint32_t narrow_types =
    1u << UM_F16 | 1u << UM_BF16 | 1u << UM_F8E4M3FN | 1u << UM_F8E4M3FNUZ | 1u << UM_F8E5M2 |
    1u << UM_F8E5M2FNUZ | 1u << UM_F6E2M3 | 1u << UM_F6E3M2 | 1u << UM_F8E8M0 | 1u << UM_I8 |
    1u << UM_I16 | 1u << UM_U8 | 1u << UM_U16 | 1u << UM_BOOL;
static const um_dtype narrow_list[] = {
    UM_F16,    UM_BF16,   UM_F8E4M3FN, UM_F8E4M3FNUZ, UM_F8E5M2, UM_F8E5M2FNUZ, UM_F6E2M3,
    UM_F6E3M2, UM_F8E8M0, UM_I8,       UM_I16,        UM_U8,     UM_U16,        UM_BOOL};

/* clang-format off */
static const double special[] = {
    0.0, -0.0, 0.5, 1.5, 2.5, -0.75, 127.5, 128, -128.9, 255.99, 65504, 65519.99, 65520, 448,
    464, 465, 57344, 61440, 240, 248, 1e30, -1e300, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-17,
    0x1p-10, 0x1.01p127, 0x1.feffffffp127, 2147483647.0, 2147483648.0, 4294967295.0,
    4294967296.0, -2147483649.0, HUGE_VAL, -HUGE_VAL, 257, 258, 259, 16777217.0,
    0x1.0100000001p5, 0x1.00ffffffffp5};
/* clang-format on */

/* 4096 values of a type, the special ones, ties and the ends of ranges among them. */
static size_t fill(um_dtype dtype, void *out, uint32_t count)
{
    size_t size = (size_t)um_dtype_bits(dtype) / 8;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = (uint64_t)random_u32() << 32 | random_u32();
        double value = special[i % UM_COUNT_OF(special)];
        char *to = (char *)out + i * size;
        bool is_small = um_dtype_bits(dtype) <= 16, is_float = um_dtype_is_float(dtype);
        if (dtype == UM_BOOL)
            bits &= 1;
        else if (is_small)
            bits = i;                     /* every code */
        else if (!is_float && i % 3 == 1) /* a few bits far apart, near a tie */
            bits = ((uint64_t)1 << i % 63) + ((uint64_t)1 << random_u32() % 55) + i % 5 - 2;
        else if (!is_float)
            bits >>= i % 64;
        else if (i % 3 == 1)
            value = ((double)random_u32() - 0x1p31) * (i % 2 ? 0x1p-36 : 0x1p-16);
        memcpy(to, &bits, size);
        if (!is_small && (i % 3 == 0 || (is_float && i % 3 == 1)))
            CHECK_OK(um_convert(dtype, to, UM_F64, &value, 1));
    }
    return size * count;
}

/* Signalling NaN of bf16 stay what they are, others become quiet: the input has none. */
static void quieten(void *codes, uint32_t count)
{
    uint16_t *code = codes;
    for (uint32_t i = 0; i < count; i++)
        if ((code[i] & 0x7fff) > 0x7f80) code[i] |= 0x40;
}

static void conversions_by_arithmetic(void)
{
    static const um_dtype others[] = {UM_F32,  UM_I32, UM_U32, UM_F64, UM_BOOL, UM_F16,
                                      UM_BF16, UM_I8,  UM_U16, UM_I64, UM_U64,  UM_F8E4M3FN};
    static _Alignas(16) char in[65536 * 8];
    for (size_t n = 0; n < UM_COUNT_OF(narrow_list); n++)
        for (size_t o = 0; o < UM_COUNT_OF(others); o++)
            for (int32_t way = 0; way < 2; way++) {
                um_dtype from = way ? others[o] : narrow_list[n];
                um_dtype to = way ? narrow_list[n] : others[o];
                uint32_t count =
                    !way && others[o] == UM_F32 && um_dtype_bits(from) == 16 ? 65536 : 4096;
                char what[64];
                int32_t lanes = 1 << (n + o) % 3;
                snprintf(what, sizeof what, "%s to %s", um_dtype_name(from), um_dtype_name(to));
                size_t in_bytes = fill(from, in, count);
                if (from == UM_BF16) quieten(in, count);
                size_t out_bytes = count * (size_t)um_dtype_bits(to) / 8;
                check_expanded(convert_kernel(from, to, count, lanes),
                               &(um_klacks){.types = narrow_types}, in, in_bytes, out_bytes, what);
                /* only the type itself: what it is stored as is there */
                check_expanded(convert_kernel(from, to, count, 4),
                               &(um_klacks){.types = 1u << narrow_list[n]}, in, in_bytes, out_bytes,
                               what);
            }
}

static void wide_conversions(void)
{
    static const um_dtype wide[] = {UM_I64, UM_U64};
    static const um_dtype others[] = {UM_F32, UM_F64, UM_F16, UM_BF16, UM_F8E4M3FN, UM_I32,
                                      UM_U32, UM_I8,  UM_U16, UM_BOOL, UM_I64,      UM_U64};
    static _Alignas(16) char in[4096 * 8];
    char what[64];
    for (size_t c = 0; c < 2 * UM_COUNT_OF(others); c++)
        for (int32_t way = 0; way < 2; way++) {
            um_dtype from = way ? others[c / 2] : wide[c % 2];
            um_dtype to = way ? wide[c % 2] : others[c / 2];
            size_t bytes = fill(from, in, 4096);
            if (from == UM_BF16) quieten(in, 4096);
            snprintf(what, sizeof what, "%s to %s", um_dtype_name(from), um_dtype_name(to));
            for (int32_t lanes = 1; lanes <= 4; lanes *= 2)
                check_expanded(convert_kernel(from, to, 4096, lanes),
                               &(um_klacks){.types = 1u << UM_U64}, in, bytes,
                               4096 * (size_t)um_dtype_bits(to) / 8, what);
        }
}

/* y[i] = x[i] op x[i + 512] */
static um_kernel *wide_kernel(um_dtype dtype, um_kop op)
{
    um_kernel *k = kernel_make(64);
    um_mem x = um_k_buffer(k, "x", dtype, UM_K_READ), y = um_k_buffer(k, "y", dtype, UM_K_WRITE);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), two = um_k_u32(k, 2);
    um_val begin = um_k_mul(k, i, two);
    um_val at = um_k_for(k, begin, um_k_u32(k, 512), um_k_u32(k, 128));
    um_val a = um_k_load_lanes(k, x, at, 2);
    um_val b = um_k_load_lanes(k, x, um_k_add(k, at, um_k_u32(k, 512)), 2);
    um_val one = um_k_splat(k, 2, um_k_const(k, dtype, 1));
    if (op == UM_KOP_DIV || op == UM_KOP_REM) { /* neither by 0 nor the lowest by -1 */
        b = um_k_or(k, b, one);
        a = um_k_select(k, um_k_eq(k, um_k_add(k, b, one), um_k_sub(k, one, one)), one, a);
    }
    bool truth = um_kop_rows[op].rule == UM_KRULE_BOOL;
    um_kinst inst = {.op = (uint16_t)op, .type = um_val_type(k, a), .arg = {a, b}};
    if (truth) inst.type.dtype = UM_BOOL;
    if (um_kop_rows[op].arity == 1) inst.arg[1] = 0;
    um_val got = um_kernel_append(k, &inst);
    um_k_store(k, y, at, truth ? um_k_convert(k, dtype, got) : got);
    um_k_end(k);
    return k;
}

static void wide_arithmetic(void)
{
    static const um_kop ops[] = {
        UM_KOP_ADD, UM_KOP_SUB, UM_KOP_MUL, UM_KOP_DIV, UM_KOP_REM, UM_KOP_NEG, UM_KOP_ABS,
        UM_KOP_MIN, UM_KOP_MAX, UM_KOP_AND, UM_KOP_OR,  UM_KOP_XOR, UM_KOP_NOT, UM_KOP_SHL,
        UM_KOP_SHR, UM_KOP_EQ,  UM_KOP_NE,  UM_KOP_LT,  UM_KOP_LE,  UM_KOP_GT,  UM_KOP_GE};
    static _Alignas(16) char in[1024 * 8];
    for (size_t o = 0; o < UM_COUNT_OF(ops); o++)
        for (um_dtype dtype = UM_I64; dtype <= UM_U64; dtype += UM_U64 - UM_I64) {
            fill(dtype, in, 1024);
            memcpy(in + 4096, in, 256); /* equal ones */
            check_expanded(wide_kernel(dtype, ops[o]), &(um_klacks){.types = 1u << dtype}, in,
                           sizeof in, 512 * 8, um_kop_rows[ops[o]].name);
        }
}

/* What was the same in the whole work-group still counts so, whatever else is divided. */
static void uniform_divisions(void)
{
    um_kernel *k = NULL, *e = NULL;
    CHECK_OK(um_kernel_parse("kernel t group 8 1 1\nscalar n u32\nbuffer x u32 write\nbegin\n"
                             "%1 = scalar u32 n\n%2 = local_index u32\n%3 = convert i64 %1\n"
                             "%4 = convert i64 %2\n%5 = const i64 0x7\n%6 = div i64 %4, %5\n"
                             "%7 = div i64 %3, %5\n%8 = lt bool %7, %5\nif %8\nbarrier\nend\n"
                             "%12 = convert u32 %6\nstore x, %2, %12\n",
                             &k));
    CHECK_OK(um_kernel_expand(k, &(um_klacks){.types = 1u << UM_I64}, &e));
    um_kernel_release(e);
    um_kernel_release(k);
}

static void conversions_that_saturate(void)
{
    static const um_dtype ints[] = {UM_I8, UM_U8, UM_I16, UM_U16, UM_I32, UM_U32, UM_I64, UM_U64};
    static const um_dtype floats[] = {UM_F32, UM_F64, UM_F16, UM_BF16, UM_F8E5M2};
    static _Alignas(16) char in[4096 * 8];
    for (size_t i = 0; i < UM_COUNT_OF(ints); i++)
        for (size_t f = 0; f < UM_COUNT_OF(floats); f++) {
            size_t bytes = fill(floats[f], in, 4096);
            if (floats[f] == UM_BF16) quieten(in, 4096);
            check_expanded(convert_kernel(floats[f], ints[i], 4096, 2),
                           &(um_klacks){.saturation = true}, in, bytes,
                           4096 * (size_t)um_dtype_bits(ints[i]) / 8, um_dtype_name(ints[i]));
        }
}

static void products_of_bytes(void)
{
    static const char text[] =
        "kernel t group 128 1 1\nbuffer x u32 read\nbuffer y u32 write\nbegin\n"
        "%1 = local_index u32\n%2 = const u32 0x2\n%3 = mul u32 %1, %2\n%4 = load u32x2 x, %3\n"
        "%5 = const u32 0x100\n%6 = add u32 %3, %5\n%7 = load u32x2 x, %6\n"
        "%8 = dot4_u8 u32x2 %4, %7, %4\n%9 = bitcast i32x2 %4\n%10 = bitcast i32x2 %7\n"
        "%11 = dot4_i8 i32x2 %9, %10, %9\n%12 = bitcast u32x2 %11\n%13 = xor u32x2 %8, %12\n"
        "store y, %3, %13\n";
    static _Alignas(16) char in[2048];
    um_kernel *k = NULL;
    fill(UM_U32, in, 512);
    CHECK_OK(um_kernel_parse(text, &k));
    check_expanded(k, &(um_klacks){.dot4 = true}, in, sizeof in, 1024, "dot4");
}

static void whole_numbers(void)
{
    static const char text[] =
        "kernel t group 128 1 1\nbuffer x f64 read\nbuffer y f64 write\nbegin\n"
        "%1 = local_index u32\n%2 = const u32 0x2\n%3 = mul u32 %1, %2\n%4 = load f64x2 x, %3\n"
        "%5 = trunc f64x2 %4\n%6 = round f64x2 %4\n%7 = const u32 0x100\n%8 = add u32 %3, %7\n"
        "store y, %3, %5\nstore y, %8, %6\n";
    static _Alignas(16) double in[256] = {-0.0,     0.5,       -0.5,    1.5,       -1.5,
                                          -2.5,     0x1p52,    -0x1p52, -0x1.8p51, 0x1p53,
                                          INFINITY, -INFINITY, NAN,     0x1p-1074};
    um_kernel *k = NULL, *e = NULL;
    for (int i = 16; i < 256; i++)
        in[i] = ldexp((double)random_u32() - 0x1p31, (int)(random_u32() % 54) - 31);
    CHECK_OK(um_kernel_parse(text, &k));
    CHECK_OK(um_kernel_expand(k, &(um_klacks){.whole = true}, &e));
    for (int64_t i = 1; e && i < e->inst_count; i++) CHECK(e->inst[i].op != UM_KOP_ROUND);
    um_kernel_release(e);
    check_expanded(k, &(um_klacks){.whole = true}, in, sizeof in, 2 * sizeof in, "whole numbers");
}

/* What compilers of Vulkan drivers get wrong. */
static void integers_in_other_words(void)
{
    static const um_dtype dtypes_of[] = {UM_I32, UM_U32, UM_I64, UM_U64};
    static _Alignas(16) char in[4096 * 8];
    for (size_t d = 0; d < UM_COUNT_OF(dtypes_of); d++)
        for (um_kop op = UM_KOP_MIN; op <= UM_KOP_MAX; op += UM_KOP_MAX - UM_KOP_MIN) {
            size_t size = fill(dtypes_of[d], in, 1024);
            check_expanded(wide_kernel(dtypes_of[d], op), &(um_klacks){.integers = true}, in, size,
                           size / 2, um_kop_rows[op].name);
        }
    size_t size = fill(UM_U32, in, 4096);
    for (int32_t lanes = 1; lanes <= 4; lanes += 3) {
        check_expanded(convert_kernel(UM_U32, UM_F32, 4096, lanes), &(um_klacks){.integers = true},
                       in, size, size, "u32 as f32");
        check_expanded(convert_kernel(UM_I32, UM_I64, 4096, lanes), &(um_klacks){.widening = true},
                       in, size, 2 * size, "i32 as i64");
    }
}

/* Constants of 0, of either sign: no target sees them, and the results are the same. */
static void hidden_zeros(void)
{
    static const um_dtype dtypes_of[] = {UM_F16, UM_F32, UM_F64};
    static _Alignas(16) char in[256 * 8], want[256 * 8], got[256 * 8];
    for (size_t d = 0; d < UM_COUNT_OF(dtypes_of); d++) {
        um_dtype dtype = dtypes_of[d];
        um_kernel *k = kernel_make(64), *e = NULL;
        um_mem x = um_k_buffer(k, "x", dtype, UM_K_READ),
               y = um_k_buffer(k, "y", dtype, UM_K_WRITE);
        um_val at = um_k_mul(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), um_k_u32(k, 4));
        um_val a = um_k_load_lanes(k, x, at, 4), zero = um_k_number(k, dtype, 4, 0);
        um_val less = um_k_number(k, dtype, 4, -0.0);
        um_k_store(k, y, at, um_k_add(k, um_k_mul(k, a, less), um_k_sub(k, zero, a)));
        CHECK_OK(um_kernel_finish(k));
        CHECK_OK(um_kernel_lower(k, &(um_klacks){.zeros = true}, &e));
        size_t size = fill(dtype, in, 256);
        um_kernel_buffer first[2] = {{in, size}, {want, size}},
                         second[2] = {{in, size}, {got, size}};
        CHECK_OK(run_kernel(k, 1, 32, 2, first, 0, NULL));
        CHECK_OK(run_kernel(e, 1, 32, 2, second, 0, NULL));
        CHECK_MSG(memcmp(want, got, size) == 0, "%s", um_dtype_name(dtype));
        for (int64_t i = 1; i < e->inst_count; i++)
            CHECK(e->inst[i].op != UM_KOP_CONST || !um_dtype_is_float(e->inst[i].type.dtype));
        um_kernel_release(e);
        um_kernel_release(k);
    }
}

/* Every way in which values of the type go through a kernel. */
static um_kernel *ways_kernel(um_dtype dtype)
{
    um_kernel *k = kernel_make(32);
    bool truth = dtype == UM_BOOL, wide = um_dtype_bits(dtype) == 16;
    um_mem x = um_k_buffer(k, "x", dtype, UM_K_READ), y = um_k_buffer(k, "y", dtype, UM_K_WRITE);
    um_mem s = um_k_shared(k, "s", dtype, 128), p = um_k_private(k, "p", dtype, 4);
    um_mem v = um_k_var(k, "v", dtype, 2);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), four = um_k_u32(k, 4);
    um_val at = um_k_mul(k, i, four),
           odd = um_k_ne(k, um_k_and(k, i, um_k_u32(k, 1)), um_k_u32(k, 0));
    um_val all = um_k_load_lanes(k, x, at, 4);
    um_k_store(k, s, at, all);
    um_k_barrier(k);
    um_val next = um_k_and(k, um_k_add(k, at, four), um_k_u32(k, 127));
    um_k_store(k, p, um_k_u32(k, 0), um_k_load_lanes(k, s, next, 4));
    um_val pair = um_k_load_lanes(k, p, um_k_u32(k, 2), 2);
    um_k_set(k, v, um_k_select(k, odd, pair, um_k_load_lanes(k, x, at, 2)));
    um_val got = um_k_get(k, v), zero = um_k_const(k, dtype, 0);
    um_val first = um_k_extract(k, got, 0), same = um_k_load_uniform(k, s, um_k_u32(k, 5));
    um_val other = um_k_load_if(k, x, um_k_add(k, at, um_k_u32(k, 3)), odd, zero);
    um_val moved = um_k_subgroup_shuffle(k, first, um_k_u32(k, 0));
    um_k_store(k, y, at, um_k_vector(k, 4, (um_val[]){first, same, other, moved}));
    um_k_store_if(k, y, um_k_add(k, at, um_k_u32(k, 2)), got, odd);
    um_k_store(k, y, um_k_add(k, at, um_k_u32(k, 1)), um_k_extract(k, all, 3));
    if (!truth) { /* bits: 4 elements as words and back, turned round */
        um_val words = um_k_bitcast(k, UM_U32, wide ? 2 : 1, all);
        um_val turned = um_k_not(k, words);
        um_val back = um_k_bitcast(k, dtype, 4, turned);
        um_k_store(k, y, um_k_add(k, at, um_k_u32(k, 128)), back);
        if (wide) {
            um_val twin = um_k_bitcast(k, UM_U64, 1, all);
            um_val same_type = um_k_bitcast(k, UM_U16, 4, all);
            um_k_store(k, y, um_k_add(k, at, um_k_u32(k, 128)),
                       um_k_bitcast(k, dtype, 4, um_k_bitcast(k, UM_U64, 1, same_type)));
            um_k_store(k, y, um_k_add(k, at, um_k_u32(k, 128)), um_k_bitcast(k, dtype, 4, twin));
        }
    }
    return k;
}

static void types_as_words(void)
{
    static _Alignas(16) char in[256 * 2];
    for (size_t b = 0; b < sizeof in; b++) in[b] = (char)random_u32();
    for (size_t n = 0; n < UM_COUNT_OF(narrow_list); n++) {
        um_dtype dtype = narrow_list[n];
        size_t size = (size_t)um_dtype_bits(dtype) / 8;
        for (size_t b = 0; dtype == UM_BOOL && b < sizeof in; b++) in[b] &= 1;
        check_expanded(ways_kernel(dtype), &(um_klacks){.types = narrow_types}, in, 256 * size,
                       256 * size, um_dtype_name(dtype));
        check_expanded(ways_kernel(dtype), &(um_klacks){.types = 1u << dtype}, in, 256 * size,
                       256 * size, um_dtype_name(dtype));
        check_expanded(ways_kernel(dtype), &(um_klacks){.lane_bitcasts = true}, in, 256 * size,
                       256 * size, um_dtype_name(dtype));
        check_expanded(ways_kernel(dtype),
                       &(um_klacks){.lane_bitcasts = true, .types = narrow_types | 1u << UM_I64},
                       in, 256 * size, 256 * size, um_dtype_name(dtype));
    }
}

static void half_arithmetic_in_f32(void)
{
    static const um_kop ops[] = {UM_KOP_ADD, UM_KOP_SUB,   UM_KOP_MUL, UM_KOP_DIV, UM_KOP_SQRT,
                                 UM_KOP_NEG, UM_KOP_FLOOR, UM_KOP_LT,  UM_KOP_EXP};
    static _Alignas(16) uint16_t in[4096];
    for (uint32_t i = 0; i < UM_COUNT_OF(in); i++) do
            in[i] = (uint16_t)random_u32();
        while ((in[i] & 0x7fff) >= 0x7c00); /* which NaN comes of two is not said */
    for (size_t o = 0; o < UM_COUNT_OF(ops); o++)
        for (int32_t types = 0; types < 2; types++) {
            um_kernel *k = kernel_make(64);
            um_mem x = um_k_buffer(k, "x", UM_F16, UM_K_READ);
            um_mem y = um_k_buffer(k, "y", UM_F32, UM_K_WRITE);
            um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
            um_val at = um_k_for(k, i, um_k_u32(k, 2048), um_k_u32(k, 64));
            um_val a = um_k_load(k, x, at), b = um_k_load(k, x, um_k_add(k, at, um_k_u32(k, 2048)));
            um_kinst inst = {.op = (uint16_t)ops[o], .type = {UM_F16, 1}, .arg = {a, b}};
            if (um_kop_rows[ops[o]].arity == 1) inst.arg[1] = 0;
            if (ops[o] == UM_KOP_LT) inst.type.dtype = UM_BOOL;
            um_val c = um_k_convert(k, UM_F32, um_kernel_append(k, &inst));
            um_k_if(k, um_k_eq(k, c, c)); /* no NaN */
            um_k_store(k, y, at, c);
            um_k_end(k);
            um_k_end(k);
            um_klacks lacks = {.arithmetic = 1u << UM_F16};
            if (types) lacks = (um_klacks){.types = narrow_types};
            check_expanded(k, &lacks, in, sizeof in, 2048 * 4, um_kop_rows[ops[o]].name);
        }
}

static void functions_by_arithmetic(void)
{
    static const um_kop ops[] = {UM_KOP_EXP, UM_KOP_LOG, UM_KOP_SIN, UM_KOP_ERF, UM_KOP_POW};
    static _Alignas(16) float in[64], want[64], got[64];
    um_kernel_buffer first[2] = {{in, sizeof in}, {want, sizeof want}};
    um_kernel_buffer second[2] = {{in, sizeof in}, {got, sizeof got}};
    for (uint32_t i = 0; i < 64; i++) in[i] = 0.3f + (float)i / 16;
    for (size_t o = 0; o < UM_COUNT_OF(ops); o++) {
        um_kernel *k = kernel_make(64), *e = NULL;
        um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ),
               y = um_k_buffer(k, "y", UM_F32, UM_K_WRITE);
        um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), a = um_k_load(k, x, i);
        um_kinst inst = {.op = (uint16_t)ops[o], .type = {UM_F32, 1}, .arg = {a}};
        if (um_kop_rows[ops[o]].arity == 2) inst.arg[1] = a;
        um_k_store(k, y, i, um_kernel_append(k, &inst));
        CHECK_OK(um_kernel_finish(k));
        CHECK_OK(um_kernel_expand(k, &(um_klacks){.math = true}, &e));
        CHECK_OK(run_kernel(k, 1, 32, 2, first, 0, NULL));
        if (e) CHECK_OK(run_kernel(e, 1, 32, 2, second, 0, NULL));
        for (uint32_t n = 0; n < 64; n++)
            CHECK_MSG(fabsf(got[n] - want[n]) <= 1e-6f * fabsf(want[n]), "%s: %g, %g",
                      um_kop_rows[ops[o]].name, (double)got[n], (double)want[n]);
        for (int64_t n = 1; e && n < e->inst_count; n++) CHECK(e->inst[n].op != ops[o]);
        um_kernel_release(e);
        um_kernel_release(k);
    }
}

/* ---- what cannot be ---------------------------------------------------------------------------
 */

static void what_cannot_be_expanded(void)
{
    static const struct {
        const char *body;
        um_klacks lacks;
        um_status code;
        const char *message;
    } cases[] = {
        {"", {.types = 1u << UM_F32}, UM_INVALID_ARGUMENT, "expanding f32; only 8- and 16-bit"},
        {"frag_load fa, h, %6, %3\n",
         {.types = 1u << UM_F16 | 1u << UM_U16},
         UM_UNSUPPORTED,
         "instruction 13, frag_load, of a type that the target lacks"},
        {"frag_fill fa, %11\n", {.types = 1u << UM_F16}, UM_UNSUPPORTED, "13, frag_fill"},
        {"frag_set fa, %6, %11\n", {.fragments = true}, UM_UNSUPPORTED, "13, frag_set of fa"},
        {"async_copy sh, h, %6, %6\n",
         {.types = 1u << UM_F16 | 1u << UM_U16},
         UM_UNSUPPORTED,
         "13, async_copy"},
        {"%13 = convert f64 %4\n%14 = neg f64 %13\n",
         {.arithmetic = 1u << UM_F64},
         UM_UNSUPPORTED,
         "neg of f64: the target has no such arithmetic"},
    };
    um_kernel *k = NULL, *e = NULL;
    for (size_t i = 0; i < UM_COUNT_OF(cases); i++) {
        CHECK_OK(parse_body(cases[i].body, &k));
        CHECK_FAILS(um_kernel_expand(k, &cases[i].lacks, &e), cases[i].code, cases[i].message);
        CHECK(e == NULL);
        um_kernel_release(k);
    }
    CHECK_OK(um_kernel_parse("kernel t group 8 1 1 subgroup 4\nbegin\nbarrier\n", &k));
    CHECK_FAILS(um_kernel_expand(k, &(um_klacks){.subgroups = true}, &e), UM_UNSUPPORTED,
                "it needs subgroups of 4");
    CHECK_FAILS(um_kernel_expand(k, &(um_klacks){.shuffles = 32}, &e), UM_UNSUPPORTED,
                "it needs subgroups of 4; the target has them of 32");
    CHECK_FAILS(um_kernel_expand(k, &(um_klacks){.shuffles = 24}, &e), UM_INVALID_ARGUMENT,
                "expanding to subgroups of 24");
    CHECK_OK(um_kernel_expand(k, &(um_klacks){0}, &e));
    CHECK(e && same_kernel(k, e));
    um_kernel_release(e);
    um_kernel_release(k);
}

static void no_memory(void)
{
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_parse("kernel t group 24 1 1\nbuffer x f16 read_write\nvar v i64\nbegin\n"
                             "%1 = local_index u32\n%2 = load f16 x, %1\n"
                             "%3 = group_reduce f16 add %2\nstore x, %1, %3\n%5 = convert i64 %3\n"
                             "%6 = div i64 %5, %5\nset v, %6\n",
                             &k));
    int64_t live = um_mem_live_count();
    for (int64_t n = 1;; n++) {
        um_kernel *e = NULL, *s = NULL;
        um_klacks lacks = {.group_ops = true,
                           .shuffles = 8,
                           .async_copy = true,
                           .math = true,
                           .saturation = true,
                           .types = narrow_types | 1u << UM_I64};
        um_mem_fail_at(n, n % 2);
        um_status status = um_kernel_expand(k, &lacks, &e);
        if (status == UM_OK) status = um_kernel_simplify(e, &s);
        bool failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(status == (failed ? UM_OUT_OF_MEMORY : UM_OK));
        um_kernel_release(e);
        um_kernel_release(s);
        CHECK(um_mem_live_count() == live);
        if (!failed) break;
    }
    um_kernel_release(k);
}

int main(void)
{
    TEST(group_ops_through_memory);
    TEST(subgroups_through_shuffles);
    TEST(copies_as_loads);
    TEST(conversions_by_arithmetic);
    TEST(wide_conversions);
    TEST(wide_arithmetic);
    TEST(uniform_divisions);
    TEST(conversions_that_saturate);
    TEST(products_of_bytes);
    TEST(whole_numbers);
    TEST(integers_in_other_words);
    TEST(hidden_zeros);
    TEST(types_as_words);
    TEST(half_arithmetic_in_f32);
    TEST(functions_by_arithmetic);
    TEST(what_cannot_be_expanded);
    TEST(no_memory);
    return TEST_RESULT();
}
