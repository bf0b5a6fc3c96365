/* The conformance driver's own test: the oracle against values worked out by hand from the
 * contract, the judge against right and wrong results, and the driver on results that are spoiled
 * on purpose. */
#include "check/check.h"
#include "check/oracle.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <umbel/umbel.h>

#define INF  ((double)INFINITY)
#define NAN_ ((double)NAN)
enum { MOST = 64 };

/* ---- the oracle's dtypes ----------------------------------------------------------------------
 */

static void every_bit_pattern_survives(void)
{
    const um_dtype dtypes[] = {UM_F16,        UM_BF16,   UM_F8E4M3FN, UM_F8E4M3FNUZ, UM_F8E5M2,
                               UM_F8E5M2FNUZ, UM_F4E2M1, UM_F6E2M3,   UM_F6E3M2,     UM_F8E8M0};
    const int bits[] = {16, 16, 8, 8, 8, 8, 4, 6, 6, 8};
    for (size_t d = 0; d < sizeof bits / sizeof *bits; d++) {
        double largest = 0;
        for (uint64_t b = 0; b < (uint64_t)1 << bits[d]; b++) {
            um_num value = um_oracle_decode(dtypes[d], b);
            if (isnan(value.f)) continue;
            CHECK_MSG(um_oracle_encode(dtypes[d], value) == b, "%d: %llx", dtypes[d],
                      (unsigned long long)b);
            CHECK(um_oracle_round(dtypes[d], (long double)value.f) == value.f);
            if (isfinite(value.f)) largest = fmax(largest, value.f);
        }
        CHECK(largest == um_oracle_max(dtypes[d]));
    }
}

static void rounding_follows_the_contract(void)
{
    const struct {
        um_dtype dtype;
        double value, want;
    } rows[] = {
        {UM_F16, 2049, 2048},        {UM_F16, 2051, 2052},        {UM_F16, 65519.99, 65504},
        {UM_F16, 65520, INF},        {UM_F16, 0x1p-25, 0},        {UM_F16, 0x1.8p-25, 0x1p-24},
        {UM_BF16, 257, 256},         {UM_BF16, 259, 260},         {UM_BF16, 3.4e38, INF},
        {UM_F8E4M3FN, 464, 448},     {UM_F8E4M3FN, INF, 448},     {UM_F8E4M3FN, -1e9, -448},
        {UM_F8E4M3FNUZ, 1000, 240},  {UM_F8E5M2, 61439, 57344},   {UM_F8E5M2, 61440, INF},
        {UM_F8E5M2FNUZ, INF, 57344}, {UM_F4E2M1, 0.25, 0},        {UM_F4E2M1, 0.75, 1},
        {UM_F4E2M1, 2.5, 2},         {UM_F4E2M1, 3.5, 4},         {UM_F4E2M1, -5, -4},
        {UM_F4E2M1, NAN_, 6},        {UM_F6E2M3, 100, 7.5},       {UM_F6E3M2, NAN_, 28},
        {UM_F8E8M0, 3, 4},           {UM_F8E8M0, 2.99, 2},        {UM_F8E8M0, 0, 0x1p-127},
        {UM_F8E8M0, -7, 0x1p-127},   {UM_F8E8M0, 1e300, 0x1p127}, {UM_F32, 16777217, 16777216},
        {UM_F32, 1e39, INF},         {UM_F32, 0x1p-150, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(um_oracle_round(rows[i].dtype, (long double)rows[i].value) == rows[i].want,
                  "row %zu", i);
    CHECK(isnan(um_oracle_round(UM_F8E8M0, (long double)INF)));
    CHECK(isnan(um_oracle_round(UM_F8E4M3FN, (long double)NAN_)));
}

static int64_t to_int(um_dtype to, um_dtype from, um_num value)
{
    return um_oracle_convert(to, from, value).i;
}

static void integers_convert_by_the_contract(void)
{
    CHECK(to_int(UM_I8, UM_F32, (um_num){.f = -1.9}) == -1);
    CHECK(to_int(UM_I8, UM_F32, (um_num){.f = 1000}) == 127);
    CHECK(to_int(UM_U8, UM_F32, (um_num){.f = -5}) == 0);
    CHECK(to_int(UM_I32, UM_F64, (um_num){.f = NAN_}) == 0);
    CHECK(to_int(UM_I64, UM_F64, (um_num){.f = 1e30}) == INT64_MAX);
    CHECK(to_int(UM_I8, UM_I32, (um_num){.i = 200}) == -56);
    CHECK(to_int(UM_BOOL, UM_I32, (um_num){.i = -3}) == 1);
    CHECK(to_int(UM_BOOL, UM_F16, (um_num){.f = NAN_}) == 1);
    CHECK(um_oracle_convert(UM_F32, UM_U64, (um_num){.u = UINT64_MAX}).f == 0x1p64);
    CHECK(um_oracle_convert(UM_F64, UM_I64, (um_num){.i = INT64_MAX}).f == 0x1p63);
}

/* ---- elementwise ------------------------------------------------------------------------------
 */

/* Same value, and same sign of zero. */
static bool same(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b && (a != 0 || signbit(a) == signbit(b));
}

static void floats_follow_the_contract(void)
{
    const struct {
        um_op_id op;
        double a, b, c, want;
    } rows[] = {
        {UM_OP_MAX, -0.0, 0, 0, 0},
        {UM_OP_MAX, 0, -0.0, 0, 0},
        {UM_OP_MIN, 0, -0.0, 0, -0.0},
        {UM_OP_MAX, 1, NAN_, 0, NAN_},
        {UM_OP_MIN, NAN_, 1, 0, NAN_},
        {UM_OP_RELU, -0.0, 0, 0, 0},
        {UM_OP_RELU, NAN_, 0, 0, NAN_},
        {UM_OP_RELU, -3, 0, 0, 0},
        {UM_OP_SIGN, -0.0, 0, 0, -0.0},
        {UM_OP_SIGN, NAN_, 0, 0, NAN_},
        {UM_OP_SIGN, -7, 0, 0, -1},
        {UM_OP_CLAMP, 5, 3, 1, 1},
        {UM_OP_CLAMP, NAN_, 0, 1, NAN_},
        {UM_OP_CLAMP, 0, NAN_, 1, NAN_},
        {UM_OP_ROUND, 2.5, 0, 0, 2},
        {UM_OP_ROUND, 3.5, 0, 0, 4},
        {UM_OP_ROUND, -0.5, 0, 0, -0.0},
        {UM_OP_FLOOR, -1.5, 0, 0, -2},
        {UM_OP_POW, NAN_, 0, 0, 1},
        {UM_OP_POW, -2, 3, 0, -8},
        {UM_OP_LOG, -0.0, 0, 0, -INF},
        {UM_OP_LOG, -1, 0, 0, NAN_},
        {UM_OP_LOGADDEXP, -INF, -INF, 0, -INF},
        {UM_OP_LOGADDEXP, INF, 1, 0, INF},
        {UM_OP_LOGADDEXP, INF, -INF, 0, INF},
        {UM_OP_SILU, -INF, 0, 0, -0.0},
        {UM_OP_MISH, -INF, 0, 0, -0.0},
        {UM_OP_HARDSWISH, -INF, 0, 0, -0.0},
        {UM_OP_HARDSWISH, 1e300, 0, 0, 1e300},
        {UM_OP_GELU, INF, 0, 0, INF},
        {UM_OP_SIGMOID, -INF, 0, 0, 0},
        {UM_OP_SOFTPLUS, 1000, 0, 0, 1000},
        {UM_OP_REMAINDER, -1, 3, 0, 2},
        {UM_OP_REMAINDER, 5, -3, 0, -1},
        {UM_OP_FMOD, -5, 3, 0, -2},
        {UM_OP_FMOD, -6, 3, 0, -0.0},
        {UM_OP_DIV, 1, -0.0, 0, -INF},
        {UM_OP_RSQRT, 0, 0, 0, INF},
        {UM_OP_FMA, 0x1.000002p0, 0x1.000002p0, -0x1.000004p0, 0x1p-46},
        {UM_OP_NE, NAN_, NAN_, 0, 1},
        {UM_OP_LE, NAN_, 1, 0, 0},
        {UM_OP_LOGICAL_NOT, NAN_, 0, 0, 0},
        {UM_OP_HYPOT, 1e300, 1e300, 0, 1.4142135623730951e300},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const long double x[3] = {(long double)rows[i].a, (long double)rows[i].b,
                                  (long double)rows[i].c};
        um_expect expect = um_oracle_map_float(rows[i].op, UM_F64, x, NULL, 0);
        double got = um_oracle_round(UM_F64, expect.want);
        CHECK_MSG(same((long double)got, (long double)rows[i].want), "%s, row %zu: %g",
                  um_op_name(rows[i].op), i, got);
    }
}

static void integers_follow_the_contract(void)
{
    const struct {
        um_op_id op;
        um_dtype dtype;
        int64_t a, b, want;
    } rows[] = {
        {UM_OP_DIV, UM_I32, 7, 0, 0},           {UM_OP_DIV, UM_I32, -7, 2, -3},
        {UM_OP_DIV, UM_I8, -128, -1, -128},     {UM_OP_FMOD, UM_I32, -7, 3, -1},
        {UM_OP_REMAINDER, UM_I32, -7, 3, 2},    {UM_OP_REMAINDER, UM_I32, 7, -3, -2},
        {UM_OP_REMAINDER, UM_I32, 7, 0, 0},     {UM_OP_REMAINDER, UM_I8, -128, -1, 0},
        {UM_OP_ADD, UM_I8, 100, 100, -56},      {UM_OP_MUL, UM_U8, 16, 17, 16},
        {UM_OP_NEG, UM_I8, -128, 0, -128},      {UM_OP_ABS, UM_I16, -32768, 0, -32768},
        {UM_OP_POW, UM_I32, 0, 0, 1},           {UM_OP_POW, UM_I32, 2, -1, 0},
        {UM_OP_POW, UM_I32, -1, -3, -1},        {UM_OP_POW, UM_I32, 0, -2, 0},
        {UM_OP_POW, UM_U8, 3, 6, 217},          {UM_OP_SHIFT_LEFT, UM_I8, 1, 8, 0},
        {UM_OP_SHIFT_LEFT, UM_I8, 1, 7, -128},  {UM_OP_SHIFT_LEFT, UM_I32, 5, -1, 0},
        {UM_OP_SHIFT_RIGHT, UM_I32, -5, 1, -3}, {UM_OP_SHIFT_RIGHT, UM_I32, -5, 99, -1},
        {UM_OP_SHIFT_RIGHT, UM_U8, 200, 3, 25}, {UM_OP_BITWISE_NOT, UM_U8, 5, 0, 250},
        {UM_OP_BITWISE_NOT, UM_BOOL, 1, 0, 0},  {UM_OP_MAX, UM_U64, -1, 1, -1},
        {UM_OP_MIN, UM_I64, -1, 1, -1},         {UM_OP_SIGN, UM_I32, -9, 0, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const um_num x[3] = {{.i = rows[i].a}, {.i = rows[i].b}};
        um_num got = um_oracle_map_int(rows[i].op, rows[i].dtype, x);
        CHECK_MSG(got.i == rows[i].want, "%s, row %zu: %lld", um_op_name(rows[i].op), i,
                  (long long)got.i);
    }
}

/* ---- whole ops ---------------------------------------------------------------------------------
 */

/* A rank-1 array over values. */
static um_array line(um_dtype dtype, int64_t count, um_num *item)
{
    return (um_array){.dtype = dtype, .rank = 1, .shape = {count}, .count = count, .item = item};
}

/* Runs an op over one line of f64; the reduced axis is the only one. */
static um_expect reduce(um_op_id id, int64_t count, const double *x, double correction,
                        um_dtype out_dtype)
{
    um_num item[MOST] = {{0}};
    um_expect expect = {0}, *outputs[UM_OP_MAX_OUTPUTS] = {&expect};
    for (int64_t i = 0; i < count; i++) item[i].f = x[i];
    um_op op = {.id = id, .in_count = 1, .out_count = 1};
    op.attrs.reduce.correction = correction;
    um_array in = line(UM_F64, count, item), out = {.dtype = out_dtype, .count = 1};
    CHECK_OK(um_oracle_run(&op, &in, &out, outputs));
    return expect;
}

static void reductions_follow_the_contract(void)
{
    const double five[] = {1, 2, 3, 4, 5}, infs[] = {INF, 2, 3}, ties[] = {2, 7, 7, 1};
    const double nans[] = {1, NAN_, 9, NAN_}, zeros[] = {-0.0, 0, -0.0}, lows[] = {-INF, -INF};
    CHECK(reduce(UM_OP_SUM, 5, five, 0, UM_F64).want == 15);
    CHECK(reduce(UM_OP_SUM, 0, NULL, 0, UM_F64).want == 0);
    CHECK(reduce(UM_OP_PROD, 0, NULL, 0, UM_F64).want == 1);
    CHECK(isnan(reduce(UM_OP_MEAN, 0, NULL, 0, UM_F64).want));
    CHECK(same(reduce(UM_OP_REDUCE_MAX, 0, NULL, 0, UM_F64).want, -(long double)INF));
    CHECK(same(reduce(UM_OP_REDUCE_MIN, 0, NULL, 0, UM_F64).want, (long double)INF));
    CHECK(reduce(UM_OP_ANY, 0, NULL, 0, UM_BOOL).num.i == 0);
    CHECK(reduce(UM_OP_ALL, 0, NULL, 0, UM_BOOL).num.i == 1);
    CHECK(reduce(UM_OP_VAR, 5, five, 1, UM_F64).want == 2.5L);
    CHECK(reduce(UM_OP_VAR, 5, five, 0, UM_F64).want == 2);
    CHECK(isnan(reduce(UM_OP_VAR, 1, five, 1, UM_F64).want));
    CHECK(same(reduce(UM_OP_LOGSUMEXP, 3, infs, 0, UM_F64).want, (long double)INF));
    CHECK(same(reduce(UM_OP_LOGSUMEXP, 2, lows, 0, UM_F64).want, -(long double)INF));
    CHECK(same(reduce(UM_OP_LOGSUMEXP, 0, NULL, 0, UM_F64).want, -(long double)INF));
    CHECK(reduce(UM_OP_ARGMAX, 4, ties, 0, UM_I64).num.i == 1);
    CHECK(reduce(UM_OP_ARGMAX, 4, nans, 0, UM_I64).num.i == 1);
    CHECK(reduce(UM_OP_ARGMIN, 4, nans, 0, UM_I64).num.i == 1);
    CHECK(reduce(UM_OP_ARGMAX, 3, zeros, 0, UM_I64).num.i == 0);
    CHECK(isnan(reduce(UM_OP_REDUCE_MAX, 4, nans, 0, UM_F64).want));
    CHECK(same(reduce(UM_OP_REDUCE_MAX, 3, zeros, 0, UM_F64).want, 0));
    CHECK(same(reduce(UM_OP_REDUCE_MIN, 3, zeros, 0, UM_F64).want, -0.0L));
    CHECK(reduce(UM_OP_L1, 5, five, 0, UM_F64).want == 15);
    CHECK(reduce(UM_OP_L2, 2, (const double[]){3, 4}, 0, UM_F64).want == 5);
}

static void along_an_axis(um_op_id id, int64_t count, const double *x, um_expect *expect)
{
    um_num item[MOST] = {{0}};
    um_expect *outputs[UM_OP_MAX_OUTPUTS] = {expect};
    for (int64_t i = 0; i < count; i++) item[i].f = x[i];
    um_op op = {.id = id, .in_count = 1, .out_count = 1};
    um_array in = line(UM_F64, count, item), out = line(UM_F64, count, NULL);
    CHECK_OK(um_oracle_run(&op, &in, &out, outputs));
}

static void softmax_and_scans_follow_the_contract(void)
{
    um_expect got[4];
    along_an_axis(UM_OP_SOFTMAX, 2, (const double[]){-INF, -INF}, got);
    CHECK(isnan(got[0].want) && isnan(got[1].want));
    along_an_axis(UM_OP_SOFTMAX, 2, (const double[]){INF, 1}, got);
    CHECK(isnan(got[0].want) && isnan(got[1].want));
    along_an_axis(UM_OP_SOFTMAX, 2, (const double[]){1e300, 1e300}, got);
    CHECK(got[0].want == 0.5L && got[1].want == 0.5L);
    along_an_axis(UM_OP_LOG_SOFTMAX, 2, (const double[]){0, -INF}, got);
    CHECK(got[0].want == 0 && same(got[1].want, -(long double)INF));
    along_an_axis(UM_OP_CUMSUM, 3, (const double[]){1, 2, 4}, got);
    CHECK(got[0].want == 1 && got[1].want == 3 && got[2].want == 7);
    along_an_axis(UM_OP_CUMMAX, 4, (const double[]){2, 1, NAN_, 9}, got);
    CHECK(got[1].want == 2 && isnan(got[2].want) && isnan(got[3].want));
}

static void matmul_does_not_read_what_it_must_not(void)
{
    um_num a[2] = {{.f = NAN_}, {.f = 2}}, b[2] = {{.f = 3}, {.f = 5}}, c[1] = {{.f = 7}};
    um_array in[3] = {
        {UM_F64, 2, {1, 2}, 2, a}, {UM_F64, 2, {2, 1}, 2, b}, {UM_F64, 2, {1, 1}, 1, c}};
    um_array out = {UM_F64, 2, {1, 1}, 1, NULL};
    um_expect expect, *outputs[UM_OP_MAX_OUTPUTS] = {&expect};
    um_op op = {.id = UM_OP_MATMUL, .in_count = 3, .out_count = 1, .attrs.matmul = {.beta = 2}};
    CHECK_OK(um_oracle_run(&op, in, &out, outputs));
    CHECK(expect.want == 14);
    c[0].f = NAN_;
    a[0].f = 1;
    op.attrs.matmul.alpha = 2;
    op.attrs.matmul.beta = 0;
    CHECK_OK(um_oracle_run(&op, in, &out, outputs));
    CHECK(expect.want == 26);
}

/* Two keys, of which the query sees the first: the second is NaN. */
static void masked_keys_do_not_exist(void)
{
    um_num q[1] = {{.f = 1}}, k[2] = {{.f = 1}, {.f = NAN_}}, v[2] = {{.f = 3}, {.f = NAN_}};
    um_num mask[2] = {{.i = 1}, {.i = 0}};
    um_array in[4] = {{UM_F64, 4, {1, 1, 1, 1}, 1, q},
                      {UM_F64, 4, {1, 1, 2, 1}, 2, k},
                      {UM_F64, 4, {1, 1, 2, 1}, 2, v},
                      {UM_BOOL, 4, {1, 1, 1, 2}, 2, mask}};
    um_array out = {UM_F64, 4, {1, 1, 1, 1}, 1, NULL};
    um_expect expect, *outputs[UM_OP_MAX_OUTPUTS] = {&expect};
    um_op op = {.id = UM_OP_ATTENTION, .in_count = 4, .out_count = 1};
    CHECK_OK(um_oracle_run(&op, in, &out, outputs));
    CHECK(expect.want == 3);
    mask[0].i = 0;
    CHECK_OK(um_oracle_run(&op, in, &out, outputs));
    CHECK(expect.want == 0);
}

/* ---- the judge ---------------------------------------------------------------------------------
 */

static bool accepts(um_dtype dtype, double want, double bound, double got)
{
    um_expect expect = um_expect_near((long double)want, bound);
    return um_expect_accepts(&expect, dtype, (um_num){.f = got});
}

static void the_judge_tells_right_from_wrong(void)
{
    CHECK(accepts(UM_F32, 1, 0, 1));
    CHECK(!accepts(UM_F32, 1, 0, 1 + 0x1p-23));
    CHECK(accepts(UM_F32, 1, 0x1p-22, 1 + 0x1p-22));
    CHECK(!accepts(UM_F32, 1, 0x1p-22, 1 + 0x1.8p-22));
    CHECK(!accepts(UM_F32, 1, 0x1p-22, NAN_));
    CHECK(!accepts(UM_F32, NAN_, 1, 1) && accepts(UM_F32, NAN_, 0, NAN_));
    CHECK(!accepts(UM_F32, INF, 1, 0x1.fffffep127) && accepts(UM_F32, INF, 1, INF));
    CHECK(!accepts(UM_F32, INF, 0, -INF) && !accepts(UM_F32, 5, 1, INF));
    CHECK(!accepts(UM_F32, 0, 0, -0.0) && accepts(UM_F32, 0, UM_ANY_ZERO, -0.0));
    CHECK(!accepts(UM_F32, 0, UM_ANY_ZERO, 0x1p-149));
    /* Storage rounds once more: 1 + 2^-12 is 1 in f16, and so is what a little error makes of it.
     */
    CHECK(accepts(UM_F16, 1 + 0x1p-12, 0x1p-22, 1));
    CHECK(!accepts(UM_F16, 1 + 0x1p-12, 0x1p-22, 1 + 0x1p-10));
    CHECK(accepts(UM_F16, 70000, 1, INF) && !accepts(UM_F16, 70000, 1, 65504));
    CHECK(accepts(UM_F8E4M3FN, 1e9, 0, 448));
    um_expect seven = um_expect_num((um_num){.i = 7});
    CHECK(um_expect_accepts(&seven, UM_I32, (um_num){.i = 7}));
    CHECK(!um_expect_accepts(&seven, UM_I32, (um_num){.i = 8}));
}

/* ---- the driver ---------------------------------------------------------------------------------
 */

typedef enum spoil {
    SPOIL_NOTHING,
    SPOIL_ELEMENT, /* the first element's lowest byte, by a little */
    SPOIL_MORE,    /* its second byte */
    SPOIL_AFTER,   /* the byte after the last element */
    SPOIL_BEFORE,
    SPOIL_INPUT,
    SPOIL_SECOND /* every second run's first element */
} spoil;

typedef struct spoiler {
    spoil what;
    int runs;
    char detail[1024];
} spoiler;

static void add_to_byte(um_stream *stream, um_ptr at, uint8_t change)
{
    uint8_t byte;
    CHECK_OK(um_read(stream, &byte, at, 1));
    byte = (uint8_t)(byte + change);
    CHECK_OK(um_write(stream, at, &byte, 1));
}

static void spoil_results(void *user, um_stream *stream, const um_op *op)
{
    spoiler *it = user;
    um_ptr out = op->out[0].ptr;
    uint64_t bytes = (uint64_t)(um_view_count(&op->out[0]) * um_dtype_bits(op->out[0].dtype) / 8);
    switch (it->what) {
    case SPOIL_NOTHING: break;
    case SPOIL_ELEMENT: add_to_byte(stream, out, 16); break;
    case SPOIL_MORE: add_to_byte(stream, out + 1, 16); break;
    case SPOIL_AFTER: add_to_byte(stream, out + bytes, 1); break;
    case SPOIL_BEFORE: add_to_byte(stream, out - 1, 1); break;
    case SPOIL_INPUT: add_to_byte(stream, op->in[0].ptr, 1); break;
    case SPOIL_SECOND:
        if (++it->runs % 2 == 0) add_to_byte(stream, out, 1);
        break;
    }
}

static void keep_detail(void *user, const um_check_case *result)
{
    spoiler *it = user;
    if (result->outcome == UM_CHECK_FAILED)
        snprintf(it->detail, sizeof it->detail, "%s", result->detail);
}

static um_check_result drive(const char *pattern, uint64_t seed, spoil what, const char *text)
{
    um_device *device;
    um_check_result result = {0};
    spoiler it = {.what = what};
    CHECK_OK(um_open("cpu", &device));
    um_check_options options = {.device = device,
                                .pattern = pattern,
                                .seed = seed,
                                .on_case = keep_detail,
                                .after_run = spoil_results,
                                .user = &it};
    CHECK_OK(um_check_run(&options, &result));
    CHECK_MSG(strstr(it.detail, text) != NULL, "got: %s", it.detail);
    um_device_release(device);
    return result;
}

static void the_driver_can_fail(void)
{
    const char *sum = "sum/f32/0:*/packed/random", *add = "add/f32/0:*/packed/random";
    const char *index = "argmax/f32/0:*/packed/random", *copy = "copy/f16/6:*/packed/random";
    CHECK(drive(sum, 1, SPOIL_NOTHING, "").passed == 1);
    CHECK(drive(sum, 1, SPOIL_MORE, "1 of 33 elements are wrong").failed == 1);
    CHECK(drive(add, 1, SPOIL_ELEMENT, "got").failed == 1);
    CHECK(drive(index, 1, SPOIL_ELEMENT, "wanted").failed == 1);
    CHECK(drive(copy, 1, SPOIL_ELEMENT, "element [0,0]").failed == 1);
    CHECK(drive(sum, 1, SPOIL_AFTER, "outside its output").failed == 1);
    CHECK(drive(sum, 1, SPOIL_BEFORE, "byte -1").failed == 1);
    CHECK(drive(sum, 1, SPOIL_INPUT, "wrote to its input 0").failed == 1);
    CHECK(drive("exp/f32/0:*/packed/random", 1, SPOIL_SECOND, "other bits").failed == 1);
}

static void a_seed_gives_the_same_bits(void)
{
    um_check_result first = drive("softmax/f32/0:*", 7, SPOIL_NOTHING, "");
    um_check_result again = drive("softmax/f32/0:*", 7, SPOIL_NOTHING, "");
    um_check_result other = drive("softmax/f32/0:*", 8, SPOIL_NOTHING, "");
    CHECK(first.passed > 5 && first.failed == 0 && first.skipped == 0);
    CHECK(first.digest == again.digest);
    CHECK(first.digest != other.digest);
}

static void patterns_pick_cases(void)
{
    const char *name = "max/f16/3:f16[5,7]/mixed/random";
    CHECK(um_check_matches(NULL, "max", name) && um_check_matches("", "max", name));
    CHECK(um_check_matches("max", "max", name));
    CHECK(!um_check_matches("max", "softmax", "softmax/f16/3:f16[5,7]/mixed/random"));
    CHECK(um_check_matches("*/f16/*", "max", name) && !um_check_matches("*/f32/*", "max", name));
    CHECK(um_check_matches("/mixed/", "max", name) && um_check_matches(name, "max", name));
    CHECK(um_check_matches("m?x/*random", "max", name) && !um_check_matches("m?x", "max", name));
    um_device *device;
    um_check_result result;
    CHECK_OK(um_open("cpu", &device));
    um_check_options options = {.device = device, .pattern = "no such op"};
    CHECK_FAILS(um_check_run(&options, &result), UM_NOT_FOUND, "no such op");
    um_device_release(device);
}

int main(void)
{
    TEST(every_bit_pattern_survives);
    TEST(rounding_follows_the_contract);
    TEST(integers_convert_by_the_contract);
    TEST(floats_follow_the_contract);
    TEST(integers_follow_the_contract);
    TEST(reductions_follow_the_contract);
    TEST(softmax_and_scans_follow_the_contract);
    TEST(matmul_does_not_read_what_it_must_not);
    TEST(masked_keys_do_not_exist);
    TEST(the_judge_tells_right_from_wrong);
    TEST(the_driver_can_fail);
    TEST(a_seed_gives_the_same_bits);
    TEST(patterns_pick_cases);
    return TEST_RESULT();
}
