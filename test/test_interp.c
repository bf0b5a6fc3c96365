/* test/test_interp.c: the interpreter, instruction by instruction: every opcode on every type
 * against values worked out by hand, control flow. Its checks are tested in test_interp_checks.c,
 * whole algorithms in test_interp_kernels.c. */
#include "interp_util.h"

#include <math.h>

/* ---- opcodes made from rows of kernel.def -------------------------------------------------------
 */

typedef struct float_row {
    um_kop op;
    double a, b, c, want;
    double ulps; /* 0: exactly, after rounding to the type */
} float_row;

#define INF  ((double)INFINITY)
#define NONE ((double)NAN)

/* On f16, f32 and f64; comparisons give 0 or 1. */
static const float_row float_rows[] = {
    {UM_KOP_ADD, 1.5, 2.25, 0, 3.75, 0},
    {UM_KOP_ADD, INF, -INF, 0, NONE, 0},
    {UM_KOP_SUB, 1.5, 2.25, 0, -0.75, 0},
    {UM_KOP_MUL, 1.5, -2.5, 0, -3.75, 0},
    {UM_KOP_DIV, 1, 3, 0, 1.0 / 3, 0},
    {UM_KOP_DIV, -1, 0, 0, -INF, 0},
    {UM_KOP_NEG, 0, 0, 0, -0.0, 0},
    {UM_KOP_NEG, -2, 0, 0, 2, 0},
    {UM_KOP_ABS, -2.5, 0, 0, 2.5, 0},
    {UM_KOP_ABS, -0.0, 0, 0, 0, 0},
    {UM_KOP_MIN, 2, -3, 0, -3, 0},
    {UM_KOP_MAX, 2, -3, 0, 2, 0},
    {UM_KOP_FMA, 3, 5, -14, 1, 0},
    {UM_KOP_SQRT, 2.25, 0, 0, 1.5, 0},
    {UM_KOP_SQRT, 2, 0, 0, 1.4142135623730951, 0},
    {UM_KOP_SQRT, -1, 0, 0, NONE, 0},
    {UM_KOP_RSQRT, 0.25, 0, 0, 2, 0},
    {UM_KOP_RSQRT, 0, 0, 0, INF, 0},
    {UM_KOP_FLOOR, -1.5, 0, 0, -2, 0},
    {UM_KOP_CEIL, -1.5, 0, 0, -1, 0},
    {UM_KOP_CEIL, 1.25, 0, 0, 2, 0},
    {UM_KOP_TRUNC, -1.75, 0, 0, -1, 0},
    {UM_KOP_ROUND, 2.5, 0, 0, 2, 0},
    {UM_KOP_ROUND, 3.5, 0, 0, 4, 0},
    {UM_KOP_ROUND, -0.5, 0, 0, -0.0, 0},
    {UM_KOP_EQ, 0, -0.0, 0, 1, 0},
    {UM_KOP_EQ, NONE, NONE, 0, 0, 0},
    {UM_KOP_NE, NONE, NONE, 0, 1, 0},
    {UM_KOP_NE, 2, 2, 0, 0, 0},
    {UM_KOP_LT, 1, 2, 0, 1, 0},
    {UM_KOP_LT, NONE, 2, 0, 0, 0},
    {UM_KOP_LE, 2, 2, 0, 1, 0},
    {UM_KOP_LE, 3, 2, 0, 0, 0},
    {UM_KOP_GT, INF, 2, 0, 1, 0},
    {UM_KOP_GT, 2, 2, 0, 0, 0},
    {UM_KOP_GE, 2, 2, 0, 1, 0},
    {UM_KOP_GE, NONE, 2, 0, 0, 0},
    {UM_KOP_EXP, 1, 0, 0, 2.718281828459045, 1},
    {UM_KOP_EXP, -INF, 0, 0, 0, 0},
    {UM_KOP_EXP2, 3.5, 0, 0, 11.313708498984761, 1},
    {UM_KOP_EXPM1, 1, 0, 0, 1.718281828459045, 1},
    {UM_KOP_LOG, 2, 0, 0, 0.6931471805599453, 1},
    {UM_KOP_LOG, 0, 0, 0, -INF, 0},
    {UM_KOP_LOG2, 8, 0, 0, 3, 0},
    {UM_KOP_LOG10, 1000, 0, 0, 3, 0},
    {UM_KOP_LOG1P, 1, 0, 0, 0.6931471805599453, 1},
    {UM_KOP_SIN, 1, 0, 0, 0.8414709848078965, 1},
    {UM_KOP_COS, 1, 0, 0, 0.5403023058681398, 1},
    {UM_KOP_TAN, 1, 0, 0, 1.5574077246549023, 1},
    {UM_KOP_ASIN, 1, 0, 0, 1.5707963267948966, 1},
    {UM_KOP_ACOS, -1, 0, 0, 3.141592653589793, 1},
    {UM_KOP_ATAN, 1, 0, 0, 0.7853981633974483, 1},
    {UM_KOP_SINH, 1, 0, 0, 1.1752011936438014, 1},
    {UM_KOP_COSH, 1, 0, 0, 1.5430806348152437, 1},
    {UM_KOP_TANH, 1, 0, 0, 0.7615941559557649, 1},
    {UM_KOP_TANH, INF, 0, 0, 1, 0},
    {UM_KOP_ASINH, 1, 0, 0, 0.881373587019543, 1},
    {UM_KOP_ACOSH, 2, 0, 0, 1.3169578969248166, 1},
    {UM_KOP_ATANH, 0.5, 0, 0, 0.5493061443340548, 1},
    {UM_KOP_ERF, 1, 0, 0, 0.8427007929497149, 1},
    {UM_KOP_POW, 2, 0.5, 0, 1.4142135623730951, 1},
    {UM_KOP_POW, NONE, 0, 0, 1, 0},
    {UM_KOP_ATAN2, 1, -1, 0, 2.356194490192345, 1},
};

typedef struct int_row {
    um_kop op;
    const char *types; /* i: i32, u: u32, l: i64, m: u64, b: bool */
    int64_t a, b, c, want;
} int_row;

static const int_row int_rows[] = {
    {UM_KOP_ADD, "iulm", 7, 5, 0, 12},
    {UM_KOP_ADD, "i", INT32_MAX, 1, 0, INT32_MIN},
    {UM_KOP_ADD, "u", 0xffffffff, 2, 0, 1},
    {UM_KOP_ADD, "l", INT64_MAX, 1, 0, INT64_MIN},
    {UM_KOP_ADD, "m", -1, 2, 0, 1},
    {UM_KOP_SUB, "iulm", 7, 5, 0, 2},
    {UM_KOP_SUB, "u", 0, 1, 0, 0xffffffff},
    {UM_KOP_SUB, "il", -7, 5, 0, -12},
    {UM_KOP_MUL, "iulm", 7, 5, 0, 35},
    {UM_KOP_MUL, "i", 0x10001, 0x10001, 0, 0x20001},
    {UM_KOP_MUL, "u", 0xffffffff, 0xffffffff, 0, 1},
    {UM_KOP_MUL, "l", INT64_MIN, -1, 0, INT64_MIN},
    {UM_KOP_DIV, "iulm", 7, 2, 0, 3},
    {UM_KOP_DIV, "il", -7, 2, 0, -3},
    {UM_KOP_DIV, "u", 0xfffffffe, 2, 0, 0x7fffffff},
    {UM_KOP_DIV, "m", -2, 2, 0, INT64_MAX},
    {UM_KOP_REM, "iulm", 7, 4, 0, 3},
    {UM_KOP_REM, "il", -7, 4, 0, -3},
    {UM_KOP_REM, "m", -1, 10, 0, 5},
    {UM_KOP_NEG, "il", 5, 0, 0, -5},
    {UM_KOP_NEG, "i", INT32_MIN, 0, 0, INT32_MIN},
    {UM_KOP_NEG, "um", 0, 0, 0, 0},
    {UM_KOP_ABS, "il", -5, 0, 0, 5},
    {UM_KOP_ABS, "l", INT64_MIN, 0, 0, INT64_MIN},
    {UM_KOP_ABS, "um", -1, 0, 0, -1},
    {UM_KOP_MIN, "il", -5, 3, 0, -5},
    {UM_KOP_MIN, "um", -5, 3, 0, 3},
    {UM_KOP_MAX, "il", -5, 3, 0, 3},
    {UM_KOP_MAX, "um", -5, 3, 0, -5},
    {UM_KOP_MUL_HIGH, "i", -3, INT32_MAX, 0, -2},
    {UM_KOP_MUL_HIGH, "u", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
    {UM_KOP_AND, "iulm", 12, 10, 0, 8},
    {UM_KOP_AND, "b", 1, 0, 0, 0},
    {UM_KOP_AND, "b", 1, 1, 0, 1},
    {UM_KOP_OR, "iulm", 12, 10, 0, 14},
    {UM_KOP_OR, "b", 1, 0, 0, 1},
    {UM_KOP_XOR, "iulm", 12, 10, 0, 6},
    {UM_KOP_XOR, "b", 1, 1, 0, 0},
    {UM_KOP_NOT, "iulm", 12, 0, 0, -13},
    {UM_KOP_NOT, "b", 1, 0, 0, 0},
    {UM_KOP_NOT, "b", 0, 0, 0, 1},
    {UM_KOP_SHL, "iulm", 3, 4, 0, 48},
    {UM_KOP_SHL, "iu", 3, 33, 0, 6},
    {UM_KOP_SHL, "lm", 3, 65, 0, 6},
    {UM_KOP_SHR, "iulm", 48, 4, 0, 3},
    {UM_KOP_SHR, "il", -16, 2, 0, -4},
    {UM_KOP_SHR, "u", 0xfffffff0, 34, 0, 0x3ffffffc},
    {UM_KOP_SHR, "m", -1, 63, 0, 1},
    {UM_KOP_POPCOUNT, "iu", -1, 0, 0, 32},
    {UM_KOP_POPCOUNT, "iu", 0x70f, 0, 0, 7},
    {UM_KOP_CLZ, "iu", 0, 0, 0, 32},
    {UM_KOP_CLZ, "iu", 1, 0, 0, 31},
    {UM_KOP_CLZ, "iu", -1, 0, 0, 0},
    {UM_KOP_DOT4_I8, "i", (int32_t)0x80ff0203, 0x7f040506, 100, 100 - 16256 - 4 + 10 + 18},
    {UM_KOP_DOT4_U8, "u", 0x80ff0203, 0x7f040506, 100, 100 + 16256 + 1020 + 10 + 18},
    {UM_KOP_EQ, "iulmb", 1, 1, 0, 1},
    {UM_KOP_EQ, "iulmb", 1, 0, 0, 0},
    {UM_KOP_NE, "iulmb", 1, 1, 0, 0},
    {UM_KOP_NE, "iulmb", 1, 0, 0, 1},
    {UM_KOP_LT, "il", -1, 1, 0, 1},
    {UM_KOP_LT, "um", -1, 1, 0, 0},
    {UM_KOP_LE, "iulm", 1, 1, 0, 1},
    {UM_KOP_LE, "um", -1, 1, 0, 0},
    {UM_KOP_GT, "il", -1, 1, 0, 0},
    {UM_KOP_GT, "um", -1, 1, 0, 1},
    {UM_KOP_GE, "iulm", 1, 1, 0, 1},
    {UM_KOP_GE, "il", -1, 1, 0, 0},
};

static bool covered[UM_KOP_LIMIT][UM_BOOL + 1];

/* op on operands of one dtype and 1, 2, 4 lanes; the first lane's result, which all must have. */
static void run_row(um_kop op, um_dtype dtype, const void *const operand[3], uint64_t *got)
{
    const um_kop_row *row = &um_kop_rows[op];
    um_dtype result = row->rule == UM_KRULE_BOOL ? UM_BOOL : dtype;
    size_t size = (size_t)um_dtype_bits(dtype) / 8, out_size = (size_t)um_dtype_bits(result) / 8;
    for (int32_t lanes = 1; lanes <= 4; lanes *= 2) {
        _Alignas(16) char in[3][64], out[64];
        um_kernel_buffer buffers[4] = {{in[0], 64}, {in[1], 64}, {in[2], 64}, {out, 64}};
        um_kernel *k = kernel_make(1);
        um_val value[3], zero = um_k_u32(k, 0);
        for (int32_t i = 0; i < 3; i++) {
            um_mem mem = um_k_buffer(k, (const char *[]){"a", "b", "c"}[i], dtype, UM_K_READ);
            for (size_t l = 0; l < 4; l++) memcpy(in[i] + l * size, operand[i], size);
            value[i] = um_k_load_lanes(k, mem, zero, lanes);
        }
        um_kinst inst = {.op = (uint16_t)op, .type = {(uint8_t)result, (uint8_t)lanes}};
        memcpy(inst.arg, value, row->arity * sizeof *value);
        um_k_store(k, um_k_buffer(k, "d", result, UM_K_WRITE), zero, um_kernel_append(k, &inst));
        CHECK_OK(run_and_release(k, 1, 0, 4, buffers, 0, NULL));
        memset(got, 0, 8);
        memcpy(got, out, out_size);
        for (int32_t l = 1; l < lanes; l++)
            CHECK_MSG(memcmp(out, out + (size_t)l * out_size, out_size) == 0, "%s %s, lane %d",
                      row->name, um_dtype_name(dtype), l);
    }
    covered[op][dtype] = true;
}

static void check_float(const float_row *row, um_dtype dtype)
{
    static const double eps[] = {[UM_F64] = 0x1p-52, [UM_F32] = 0x1p-23, [UM_F16] = 0x1p-10};
    double operand[3] = {row->a, row->b, row->c}, want, got;
    uint64_t in[3], bits;
    bool truth = um_kop_rows[row->op].rule == UM_KRULE_BOOL;
    for (int32_t i = 0; i < 3; i++) CHECK_OK(um_convert(dtype, &in[i], UM_F64, &operand[i], 1));
    run_row(row->op, dtype, (const void *const[]){&in[0], &in[1], &in[2]}, &bits);
    if (truth) {
        CHECK_MSG(bits == (row->want != 0), "%s %s", um_kop_rows[row->op].name,
                  um_dtype_name(dtype));
        return;
    }
    CHECK_OK(um_convert(dtype, &in[0], UM_F64, &row->want, 1));
    CHECK_OK(um_convert(UM_F64, &want, dtype, &in[0], 1));
    CHECK_OK(um_convert(UM_F64, &got, dtype, &bits, 1));
    bool same = memcmp(&want, &got, sizeof got) == 0 || (isnan(want) && isnan(got));
    bool close = fabs(got - want) <= row->ulps * eps[dtype] * fabs(want);
    CHECK_MSG(same || (row->ulps > 0 && close), "%s %s: %.17g, want %.17g",
              um_kop_rows[row->op].name, um_dtype_name(dtype), got, want);
}

static void opcodes_on_floats(void)
{
    for (size_t r = 0; r < UM_COUNT_OF(float_rows); r++)
        for (um_dtype dtype = UM_F64; dtype <= UM_F16; dtype++) check_float(&float_rows[r], dtype);
}

static um_dtype dtype_of_letter(char letter)
{
    return letter == 'i'   ? UM_I32
           : letter == 'u' ? UM_U32
           : letter == 'l' ? UM_I64
           : letter == 'm' ? UM_U64
                           : UM_BOOL;
}

static void opcodes_on_integers(void)
{
    for (size_t r = 0; r < UM_COUNT_OF(int_rows); r++) {
        const int_row *row = &int_rows[r];
        for (const char *type = row->types; *type; type++) {
            um_dtype dtype = dtype_of_letter(*type);
            bool truth = dtype == UM_BOOL || um_kop_rows[row->op].rule == UM_KRULE_BOOL;
            int32_t bits = um_dtype_bits(dtype);
            uint64_t got, want = (uint64_t)row->want;
            run_row(row->op, dtype, (const void *const[]){&row->a, &row->b, &row->c}, &got);
            if (!truth && bits < 64) want &= ((uint64_t)1 << bits) - 1;
            CHECK_MSG(got == want, "%s %s of %lld, %lld: %llx, want %llx",
                      um_kop_rows[row->op].name, um_dtype_name(dtype), (long long)row->a,
                      (long long)row->b, (unsigned long long)got, (unsigned long long)want);
        }
    }
}

/* No opcode of a row was forgotten above, on no type that it takes. */
static void every_row_was_tried(void)
{
    static const um_dtype dtypes[] = {UM_F16, UM_F32, UM_F64, UM_I32,
                                      UM_U32, UM_I64, UM_U64, UM_BOOL};
    for (um_kop op = 1; op < UM_KOP_LIMIT; op++) {
        const um_kop_row *row = &um_kop_rows[op];
        if (!row->name || (row->rule != UM_KRULE_SAME && row->rule != UM_KRULE_BOOL)) continue;
        bool narrow = op == UM_KOP_MUL_HIGH || op == UM_KOP_POPCOUNT || op == UM_KOP_CLZ;
        for (size_t d = 0; d < UM_COUNT_OF(dtypes); d++) {
            uint32_t type = d < 3 ? UM_KTYPES_F : d < 7 ? UM_KTYPES_I : UM_KTYPES_B;
            bool wide = dtypes[d] == UM_I64 || dtypes[d] == UM_U64;
            if (!(row->types & type) || (narrow && wide)) continue;
            if (op == UM_KOP_DOT4_I8 && dtypes[d] != UM_I32) continue;
            if (op == UM_KOP_DOT4_U8 && dtypes[d] != UM_U32) continue;
            CHECK_MSG(covered[op][dtypes[d]], "%s %s", row->name, um_dtype_name(dtypes[d]));
        }
    }
}

/* Each rounds once: a product that is rounded before the sum gives another result. */
static void fma_rounds_once(void)
{
    static const struct {
        um_dtype dtype;
        double a, b, c, want;
    } rows[] = {
        {UM_F32, 1 + 0x1p-23, 1 + 0x1p-23, -1, 0x1p-22 + 0x1p-46},
        {UM_F64, 1 + 0x1p-52, 1 + 0x1p-52, -1, 0x1p-51 + 0x1p-104},
        {UM_F16, 1 + 0x1p-10, 1 + 0x1p-10, -1, 0x1p-9 + 0x1p-20},
        /* 2049 and 2051 are ties, which what is far below decides. */
        {UM_F16, 683, 3, 0, 2048},
        {UM_F16, 683, 3, 0x1p-24, 2050},
        {UM_F16, 293, 7, 0, 2052},
        {UM_F16, 293, 7, -0x1p-24, 2050},
    };
    for (size_t r = 0; r < UM_COUNT_OF(rows); r++) {
        float_row row = {UM_KOP_FMA, rows[r].a, rows[r].b, rows[r].c, rows[r].want, 0};
        check_float(&row, rows[r].dtype);
    }
}

/* ---- values out of nothing, types, lanes ------------------------------------------------------
 */

static void builtins_say_where(void)
{
    static const struct {
        um_kop op;
        uint32_t dim, want;
    } rows[] = {
        {UM_KOP_GROUP_ID, 0, 1},      {UM_KOP_GROUP_ID, 1, 2},    {UM_KOP_GROUP_ID, 2, 0},
        {UM_KOP_GROUP_COUNT, 0, 2},   {UM_KOP_GROUP_COUNT, 1, 3}, {UM_KOP_LOCAL_ID, 0, 3},
        {UM_KOP_LOCAL_ID, 1, 1},      {UM_KOP_LOCAL_ID, 2, 1},    {UM_KOP_LOCAL_INDEX, 0, 19},
        {UM_KOP_SUBGROUP_SIZE, 0, 8}, {UM_KOP_SUBGROUP_ID, 0, 2}, {UM_KOP_SUBGROUP_LANE, 0, 3}};
    um_kernel *k;
    _Alignas(16) uint32_t out[16] = {0};
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "t", .group_size = {4, 3, 2}}, &k));
    um_mem mem = um_k_buffer(k, "out", UM_U32, UM_K_WRITE);
    um_val last = um_k_eq(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), um_k_u32(k, 19));
    um_val x = um_k_builtin(k, UM_KOP_GROUP_ID, 0), y = um_k_builtin(k, UM_KOP_GROUP_ID, 1);
    last = um_k_and(k, last, um_k_eq(k, x, um_k_u32(k, 1)));
    last = um_k_and(k, last, um_k_eq(k, y, um_k_u32(k, 2)));
    for (uint32_t r = 0; r < UM_COUNT_OF(rows); r++)
        um_k_store_if(k, mem, um_k_u32(k, r), um_k_builtin(k, rows[r].op, rows[r].dim), last);
    CHECK_OK(um_kernel_finish(k));
    um_kernel_run run = {.group_count = {2, 3, 1},
                         .subgroup_size = 8,
                         .buffers = &(um_kernel_buffer){out, sizeof out},
                         .buffer_count = 1};
    CHECK_OK(um_kernel_interpret(k, &run));
    for (uint32_t r = 0; r < UM_COUNT_OF(rows); r++)
        CHECK_MSG(out[r] == rows[r].want, "%s %u: %u", um_kop_rows[rows[r].op].name, rows[r].dim,
                  out[r]);
    um_kernel_release(k);
}

/* Every pair of dtypes, on random bits. */
static void converts_as_um_convert_does(void)
{
    enum { N = 64 };
    _Alignas(16) char in[N * 8], out[N * 8], want[N * 8];
    for (um_dtype from = UM_F64; from <= UM_BOOL; from++)
        for (um_dtype to = UM_F64; to <= UM_BOOL; to++) {
            if (um_dtype_bits(from) < 8 || um_dtype_bits(to) < 8) continue;
            um_kernel *k = kernel_make(N / 4);
            um_mem a = um_k_buffer(k, "a", from, UM_K_READ);
            um_mem b = um_k_buffer(k, "b", to, UM_K_WRITE);
            um_val i = um_k_mul(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), um_k_u32(k, 4));
            um_k_store(k, b, i, um_k_convert(k, to, um_k_load_lanes(k, a, i, 4)));
            for (size_t j = 0; j < sizeof in; j++) in[j] = (char)random_u32();
            for (size_t j = 0; j < N && from == UM_F6E2M3; j++) in[j] &= 63;
            for (size_t j = 0; j < N && from == UM_F6E3M2; j++) in[j] &= 63;
            size_t from_bytes = N * (size_t)um_dtype_bits(from) / 8;
            size_t to_bytes = N * (size_t)um_dtype_bits(to) / 8;
            um_kernel_buffer buffers[2] = {{in, from_bytes}, {out, to_bytes}};
            CHECK_OK(run_and_release(k, 1, 0, 2, buffers, 0, NULL));
            CHECK_OK(um_convert(to, want, from, in, N));
            CHECK_MSG(memcmp(out, want, to_bytes) == 0, "%s to %s", um_dtype_name(from),
                      um_dtype_name(to));
        }
}

static void lanes_are_moved(void)
{
    _Alignas(16) uint32_t out[64] = {0};
    um_kernel *k = kernel_make(1);
    um_mem mem = um_k_buffer(k, "out", UM_U32, UM_K_WRITE);
    um_val item[4] = {um_k_u32(k, 1), um_k_u32(k, 2), um_k_u32(k, 3), um_k_u32(k, 4)};
    um_val four = um_k_vector(k, 4, item), two = um_k_vector(k, 2, item + 2);
    um_val big = um_k_const(k, UM_U64, 0x0123456789abcdef);
    um_k_store(k, mem, um_k_u32(k, 0), four);
    um_k_store(k, mem, um_k_u32(k, 4), um_k_extract(k, four, 2));
    um_k_store(k, mem, um_k_u32(k, 6), two);
    um_k_store(k, mem, um_k_u32(k, 8), um_k_splat(k, 4, item[2]));
    um_k_store(k, mem, um_k_u32(k, 12), um_k_bitcast(k, UM_U32, 2, big));
    um_val halves = um_k_bitcast(k, UM_U16, 2, um_k_u32(k, 0xdead1234));
    um_k_store(k, mem, um_k_u32(k, 14), um_k_convert(k, UM_U32, um_k_extract(k, halves, 1)));
    um_k_store(k, mem, um_k_u32(k, 15), um_k_bitcast(k, UM_U32, 1, um_k_f32(k, -1)));
    um_val choice = um_k_vector(k, 4,
                                (um_val[]){um_k_bool(k, true), um_k_bool(k, false),
                                           um_k_bool(k, false), um_k_bool(k, true)});
    um_val nines = um_k_splat(k, 4, um_k_u32(k, 9));
    um_k_store(k, mem, um_k_u32(k, 16), um_k_select(k, choice, four, nines));
    um_k_store(k, mem, um_k_u32(k, 20), um_k_select(k, um_k_bool(k, false), four, nines));
    CHECK_OK(run_and_release(k, 1, 0, 1, &(um_kernel_buffer){out, sizeof out}, 0, NULL));
    const uint32_t want[24] = {1,          2,          3,      4,          3, 0, 3, 4, 3, 3, 3, 3,
                               0x89abcdef, 0x01234567, 0xdead, 0xbf800000, 1, 9, 9, 4, 9, 9, 9, 9};
    for (size_t i = 0; i < 24; i++) CHECK_MSG(out[i] == want[i], "%zu: %x", i, out[i]);
}

/* Bytes of a buffer of bools may be anything. */
static void bools_are_0_or_1(void)
{
    _Alignas(16) uint8_t x[16] = {0, 1, 2, 128, 255}, y[64];
    um_kernel *k = kernel_make(1);
    um_mem in = um_k_buffer(k, "x", UM_BOOL, UM_K_READ),
           out = um_k_buffer(k, "y", UM_BOOL, UM_K_WRITE);
    um_val at = um_k_for(k, um_k_u32(k, 0), um_k_u32(k, 5), um_k_u32(k, 1));
    um_k_store(k, out, at, um_k_and(k, um_k_load(k, in, at), um_k_bool(k, true)));
    um_k_end(k);
    um_kernel_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
    CHECK_OK(run_and_release(k, 1, 0, 2, buffers, 0, NULL));
    for (size_t i = 0; i < 5; i++) CHECK_MSG(y[i] == (i > 0), "%zu: %u", i, y[i]);
}

/* ---- control flow --------------------------------------------------------------------------- */

enum { N = 96 };

/* Runs a kernel of N invocations with u32 buffers x (in) and y (out). */
static void run_flow(um_kernel *k, const uint32_t *x, uint32_t *y)
{
    _Alignas(16) uint32_t in[N];
    memcpy(in, x, sizeof in);
    um_kernel_buffer buffers[2] = {{in, sizeof in}, {y, N * sizeof *y}};
    CHECK_OK(run_and_release(k, 1, 0, 2, buffers, 0, NULL));
}

/* In a loop with a break in an if in an if: how many steps to 1 a number takes (3 n + 1), at
 * most 50. */
static void nested_divergence(void)
{
    _Alignas(16) uint32_t x[N], y[N];
    um_kernel *k = kernel_make(N);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ),
           out = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_mem at = um_k_var(k, "at", UM_U32, 1), steps = um_k_var(k, "steps", UM_U32, 1);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), one = um_k_u32(k, 1), two = um_k_u32(k, 2);
    um_k_set(k, at, um_k_load(k, in, i));
    um_k_set(k, steps, um_k_u32(k, 0));
    um_k_loop(k);
    um_k_if(k, um_k_le(k, um_k_get(k, at), one));
    um_k_break(k);
    um_k_else(k);
    um_k_if(k, um_k_eq(k, um_k_rem(k, um_k_get(k, at), two), one));
    um_k_set(k, at, um_k_add(k, um_k_mul(k, um_k_get(k, at), um_k_u32(k, 3)), one));
    um_k_break_if(k, um_k_ge(k, um_k_get(k, steps), um_k_u32(k, 50)));
    um_k_else(k);
    um_k_set(k, at, um_k_div(k, um_k_get(k, at), two));
    um_k_end(k);
    um_k_end(k);
    um_k_set(k, steps, um_k_add(k, um_k_get(k, steps), one));
    um_k_end(k);
    um_k_store(k, out, i, um_k_get(k, steps));
    for (uint32_t j = 0; j < N; j++) x[j] = j;
    run_flow(k, x, y);
    for (uint32_t j = 0; j < N; j++) {
        uint32_t n = j, count = 0;
        for (; n > 1; count++) {
            bool odd = n % 2 == 1;
            n = odd ? 3 * n + 1 : n / 2;
            if (odd && count >= 50) break;
        }
        CHECK_MSG(y[j] == count, "%u: %u, want %u", j, y[j], count);
    }
}

/* Loops with bounds of their own in each invocation, one in the other, and a break of the inner one
 * that leaves the outer going. */
static void nested_loops(void)
{
    _Alignas(16) uint32_t x[N], y[N];
    um_kernel *k = kernel_make(N);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ),
           out = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_mem sum = um_k_var(k, "sum", UM_U32, 1);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), zero = um_k_u32(k, 0);
    um_val limit = um_k_load(k, in, i);
    um_k_set(k, sum, zero);
    um_val a = um_k_for(k, um_k_rem(k, i, um_k_u32(k, 3)), limit, um_k_u32(k, 2));
    um_val b = um_k_for(k, um_k_i32(k, -2), um_k_convert(k, UM_I32, a), um_k_i32(k, 1));
    um_k_break_if(k, um_k_gt(k, b, um_k_i32(k, 4)));
    um_val b2 = um_k_convert(k, UM_U32, b);
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), um_k_add(k, um_k_mul(k, a, i), b2)));
    um_k_end(k);
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), um_k_u32(k, 1)));
    um_k_end(k);
    um_k_store(k, out, i, um_k_get(k, sum));
    for (uint32_t j = 0; j < N; j++) x[j] = j % 13;
    run_flow(k, x, y);
    for (uint32_t j = 0; j < N; j++) {
        uint32_t want = 0;
        for (uint32_t p = j % 3; p < j % 13; p += 2) {
            for (int32_t q = -2; q < (int32_t)p && q <= 4; q++) want += p * j + (uint32_t)q;
            want++;
        }
        CHECK_MSG(y[j] == want, "%u: %u, want %u", j, y[j], want);
    }
}

/* Variables and private arrays are each invocation's own, vectors whole. */
static void memories_of_an_invocation(void)
{
    _Alignas(16) uint32_t x[N], y[N];
    um_kernel *k = kernel_make(N);
    um_mem in = um_k_buffer(k, "x", UM_U32, UM_K_READ),
           out = um_k_buffer(k, "y", UM_U32, UM_K_WRITE);
    um_mem own = um_k_private(k, "own", UM_U32, 8), pair = um_k_var(k, "pair", UM_U32, 2);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), zero = um_k_u32(k, 0), one = um_k_u32(k, 1);
    um_val j = um_k_for(k, zero, um_k_u32(k, 8), one);
    um_k_store(k, own, j, um_k_mul(k, i, j));
    um_k_end(k);
    um_k_if(k, um_k_lt(k, i, um_k_u32(k, 40)));
    um_k_set(k, pair, um_k_load_lanes(k, own, um_k_u32(k, 2), 2));
    um_k_else(k);
    um_k_set(k, pair, um_k_load_lanes(k, own, um_k_u32(k, 4), 2));
    um_k_end(k);
    um_val got = um_k_get(k, pair);
    um_val other = um_k_load_if(k, in, i, um_k_lt(k, i, um_k_u32(k, 50)), um_k_u32(k, 1000));
    um_k_store(k, out, i,
               um_k_add(k, other, um_k_add(k, um_k_extract(k, got, 0), um_k_extract(k, got, 1))));
    for (uint32_t p = 0; p < N; p++) x[p] = p * 7;
    run_flow(k, x, y);
    for (uint32_t p = 0; p < N; p++)
        CHECK_MSG(y[p] == (p < 50 ? p * 7 : 1000) + (p < 40 ? 5 : 9) * p, "%u: %u", p, y[p]);
}

int main(void)
{
    TEST(opcodes_on_floats);
    TEST(opcodes_on_integers);
    TEST(every_row_was_tried);
    TEST(fma_rounds_once);
    TEST(builtins_say_where);
    TEST(converts_as_um_convert_does);
    TEST(lanes_are_moved);
    TEST(bools_are_0_or_1);
    TEST(nested_divergence);
    TEST(nested_loops);
    TEST(memories_of_an_invocation);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
