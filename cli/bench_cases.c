/* cli/bench_cases.c: what `umbel bench` measures: sizes that models and numerical programs have. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

typedef struct shape {
    int32_t rank;
    int64_t size[4];
} shape;

/* One row a case: op, dtype, shapes of the inputs, and what the op's own attributes need. */
typedef struct bench_row {
    const char *label; /* after op and dtype in the name */
    um_op_id op;
    um_dtype dtype;
    shape in[6];
    um_attrs attrs;
    um_dtype out_dtype; /* FREE results */
    bool transposed;    /* input 0 is read through a transposed view */
    int32_t out_count;  /* 0: 1 */
} bench_row;

#define MATRIX(m, n)                                                                               \
    {                                                                                              \
        2, { m, n }                                                                                \
    }
#define SQUARE(name, type, n)                                                                      \
    {                                                                                              \
        name, UM_OP_MATMUL, type, {MATRIX(n, n), MATRIX(n, n)}, {.matmul = {.alpha = 1}}, type,    \
            false, 0                                                                               \
    }
#define PRODUCT(name, type, m, k, n, out)                                                          \
    {                                                                                              \
        name, UM_OP_MATMUL, type, {MATRIX(m, k), MATRIX(k, n)}, {.matmul = {.alpha = 1}}, out,     \
            false, 0                                                                               \
    }
/* gelu(a b + a bias for each column) */
#define WITH_EPILOGUE(name, type, n)                                                               \
    {                                                                                              \
        name, UM_OP_MATMUL, type, {MATRIX(n, n), MATRIX(n, n), {1, {0}}, MATRIX(n, n)},            \
            {.matmul = {.alpha = 1, .activation = UM_OP_GELU}}, type, false, 0                     \
    }
#define MANY ((int64_t)16 << 20)
#define MAP1(op)                                                                                   \
    {                                                                                              \
        "16M", op, UM_F32, {{1, {MANY}}}, {.map = {0}}, 0, false, 0                                \
    }
#define REDUCE(name, ax)                                                                           \
    {                                                                                              \
        name, UM_OP_SUM, UM_F32, {MATRIX(4096, 4096)}, {.reduce.axes = ax}, 0, false, 0            \
    }
/* a: x, or dy and x; then w, and of a forward b */
#define ROWS(op, outputs, ...)                                                                     \
    {                                                                                              \
        "4096x1024", op, UM_F32, {__VA_ARGS__}, {.norm = {.eps = 1e-5, .dims = 1}}, 0, false,      \
            outputs                                                                                \
    }
#define IMAGES(name, op, place, outputs, ...)                                                      \
    {                                                                                              \
        name, op, UM_F32, {__VA_ARGS__},                                                           \
            {.norm = {.eps = 1e-5, .groups = 32, .layout = place, .training = 1}}, 0, false,       \
            outputs                                                                                \
    }
#define ATTENTION(name, type, sq, mask)                                                            \
    {                                                                                              \
        name, UM_OP_ATTENTION, type, {HEADS(sq), HEADS(512), HEADS(512)},                          \
            {.attention = {.causal = mask}}, 0, false, 0                                           \
    }
/* The log-sum-exp may be any numbers. */
#define ATTENTION_BACKWARD(name, type, mask)                                                       \
    {                                                                                              \
        name, UM_OP_ATTENTION_BACKWARD, type,                                                      \
            {HEADS(512), HEADS(512), HEADS(512), HEADS(512), HEADS(512), {3, {1, 8, 512}}},        \
            {.attention = {.causal = mask}}, 0, false, 3                                           \
    }
#define HEADS(n)                                                                                   \
    {                                                                                              \
        4, { 1, 8, n, 64 }                                                                         \
    }

static const bench_row rows[] = {
    SQUARE("64", UM_F32, 64),
    SQUARE("128", UM_F32, 128),
    SQUARE("256", UM_F32, 256),
    SQUARE("512", UM_F32, 512),
    SQUARE("1024", UM_F32, 1024),
    SQUARE("2048", UM_F32, 2048),
    SQUARE("64", UM_F64, 64),
    SQUARE("256", UM_F64, 256),
    SQUARE("1024", UM_F64, 1024),
    SQUARE("2048", UM_F64, 2048),
    {"1x4096x4096",
     UM_OP_MATMUL,
     UM_F32,
     {MATRIX(1, 4096), MATRIX(4096, 4096)},
     {.matmul = {.alpha = 1}},
     UM_F32,
     false,
     0},
    {"4096x4096x1",
     UM_OP_MATMUL,
     UM_F32,
     {MATRIX(4096, 4096), MATRIX(4096, 1)},
     {.matmul = {.alpha = 1}},
     UM_F32,
     false,
     0},
    {"64x4096x4096",
     UM_OP_MATMUL,
     UM_F32,
     {MATRIX(64, 4096), MATRIX(4096, 4096)},
     {.matmul = {.alpha = 1}},
     UM_F32,
     false,
     0},
    PRODUCT("1024", UM_BF16, 1024, 1024, 1024, UM_BF16),
    PRODUCT("1024:to_f32", UM_F8E4M3FN, 1024, 1024, 1024, UM_F32),
    PRODUCT("1024:to_i32", UM_I8, 1024, 1024, 1024, UM_I32),
    PRODUCT("4096x4096x1:to_f32", UM_F8E4M3FN, 4096, 4096, 1, UM_F32),
    PRODUCT("4096x4096x1:to_i32", UM_I8, 4096, 4096, 1, UM_I32),
    WITH_EPILOGUE("256:bias:gelu", UM_F32, 256),
    {"256x256", UM_OP_ADD, UM_F32, {MATRIX(256, 256), MATRIX(256, 256)}, {.map = {0}}, 0, false, 0},
    {"256x256", UM_OP_GELU, UM_F32, {MATRIX(256, 256)}, {.map = {0}}, 0, false, 0},
    {"16M", UM_OP_ADD, UM_F32, {{1, {MANY}}, {1, {MANY}}}, {.map = {0}}, 0, false, 0},
    MAP1(UM_OP_RELU),
    MAP1(UM_OP_EXP),
    MAP1(UM_OP_TANH),
    MAP1(UM_OP_SILU),
    MAP1(UM_OP_GELU),
    REDUCE("4096x4096:all", 3),
    REDUCE("4096x4096:rows", 2),
    REDUCE("4096x4096:columns", 1),
    {"4096x4096", UM_OP_SOFTMAX, UM_F32, {MATRIX(4096, 4096)}, {.axis = {1}}, 0, false, 0},
    {"4096x4096",
     UM_OP_SOFTMAX_BACKWARD,
     UM_F32,
     {MATRIX(4096, 4096), MATRIX(4096, 4096)},
     {.axis = {1}},
     0,
     false,
     0},
    ROWS(UM_OP_RMS_NORM, 1, MATRIX(4096, 1024), {1, {1024}}),
    ROWS(UM_OP_RMS_NORM_BACKWARD, 2, MATRIX(4096, 1024), MATRIX(4096, 1024), {1, {1024}}),
    ROWS(UM_OP_LAYER_NORM, 1, MATRIX(4096, 1024), {1, {1024}}, {1, {1024}}),
    ROWS(UM_OP_LAYER_NORM_BACKWARD, 3, MATRIX(4096, 1024), MATRIX(4096, 1024), {1, {1024}}),
    IMAGES("32x64x56x56", UM_OP_GROUP_NORM, UM_CHANNELS_FIRST, 1, {4, {32, 64, 56, 56}}, {1, {64}}),
    IMAGES("32x64x56x56", UM_OP_BATCH_NORM, UM_CHANNELS_FIRST, 1, {4, {32, 64, 56, 56}}, {1, {64}}),
    IMAGES("32x64x56x56", UM_OP_BATCH_NORM_BACKWARD, UM_CHANNELS_FIRST, 3, {4, {32, 64, 56, 56}},
           {4, {32, 64, 56, 56}}, {1, {64}}),
    IMAGES("32x56x56x64:last", UM_OP_BATCH_NORM, UM_CHANNELS_LAST, 1, {4, {32, 56, 56, 64}},
           {1, {64}}),
    IMAGES("32x56x56x64:last", UM_OP_BATCH_NORM_BACKWARD, UM_CHANNELS_LAST, 3,
           {4, {32, 56, 56, 64}}, {4, {32, 56, 56, 64}}, {1, {64}}),
    ATTENTION("h8:s512:d64", UM_F32, 512, UM_CAUSAL_NONE),
    ATTENTION("h8:s512:d64:causal", UM_F32, 512, UM_CAUSAL_BOTTOM_RIGHT),
    ATTENTION("h8:s512:d64:decode", UM_F32, 1, UM_CAUSAL_BOTTOM_RIGHT),
    ATTENTION("h8:s512:d64:causal", UM_F64, 512, UM_CAUSAL_BOTTOM_RIGHT),
    ATTENTION("h8:s512:d64:causal", UM_F16, 512, UM_CAUSAL_BOTTOM_RIGHT),
    ATTENTION_BACKWARD("h8:s512:d64", UM_F32, UM_CAUSAL_NONE),
    ATTENTION_BACKWARD("h8:s512:d64:causal", UM_F32, UM_CAUSAL_BOTTOM_RIGHT),
    ATTENTION_BACKWARD("h8:s512:d64:causal", UM_F64, UM_CAUSAL_BOTTOM_RIGHT),
    {"4096x4096:transposed",
     UM_OP_COPY,
     UM_F32,
     {MATRIX(4096, 4096)},
     {.map = {0}},
     UM_F32,
     true,
     0},
    {"16M:to_f16", UM_OP_COPY, UM_F32, {{1, {MANY}}}, {.map = {0}}, UM_F16, false, 0},
};

static double count_bytes(const um_op *op)
{
    double bytes = (double)um_view_count(&op->out[0]) * um_dtype_bits(op->out[0].dtype) / 8;
    for (int32_t k = 0; k < op->in_count; k++)
        bytes += (double)um_view_count(&op->in[k]) * um_dtype_bits(op->in[k].dtype) / 8;
    return bytes;
}

/* Multiply-adds count two; a causal mask halves the work; attention is two products, its gradients
 * are five. A matrix that is used once, or for one query, is bounded by reading it. */
static void set_work(bench_case *out)
{
    const um_op *op = &out->op;
    const int64_t *a = op->in[0].shape, *b = op->in[1].shape;
    bool f64 = op->in[0].dtype == UM_F64;
    out->limit = f64 ? BENCH_F64_PEAK : BENCH_F32_PEAK;
    if (op->id == UM_OP_MATMUL && a[0] > 1 && b[1] > 1) {
        out->work = 2.0 * (double)a[0] * (double)a[1] * (double)b[1];
    } else if (op->id == UM_OP_ATTENTION_BACKWARD || (op->id == UM_OP_ATTENTION && a[2] > 1)) {
        double products = op->id == UM_OP_ATTENTION ? 2 : 5;
        out->work = 2 * products * (double)(a[0] * a[1] * a[2]) * (double)(b[2] * a[3]);
        if (op->attrs.attention.causal) out->work /= 2;
    } else {
        out->limit = BENCH_BANDWIDTH;
        out->work = count_bytes(op);
    }
}

bool bench_get_case(int32_t index, bench_case *out)
{
    if (index >= (int32_t)(sizeof rows / sizeof rows[0])) return false;
    const bench_row *row = &rows[index];
    *out = (bench_case){.op = {.id = row->op, .attrs = row->attrs}};
    out->op.out_count = row->out_count ? row->out_count : 1;
    snprintf(out->name, sizeof out->name, "%s/%s/%s", um_op_name(row->op),
             um_dtype_name(row->dtype), row->label);
    for (int32_t k = 0; k < 6 && row->in[k].rank; k++) {
        um_status status =
            um_view_make(0, row->dtype, row->in[k].rank, row->in[k].size, &out->op.in[k]);
        if (status != UM_OK) return false;
        out->op.in_count++;
    }
    if (row->op == UM_OP_MATMUL && out->op.in_count == 4) out->op.in[3].stride[0] = 0;
    if (row->transposed) {
        out->op.in[0].stride[0] = 1;
        out->op.in[0].stride[1] = out->op.in[0].shape[0];
    }
    out->op.out[0].dtype = row->out_dtype;
    if (um_op_infer(&out->op) != UM_OK) return false;
    set_work(out);
    return true;
}
