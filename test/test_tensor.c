/* The tensor face: ownership, views against plain index arithmetic, fusion against single ops,
 * update in place, errors that travel, promotion. Numbers of single ops are the conformance
 * driver's business. */
#include "tensor/tensor.h"
#include "test/test.h"

#include <math.h>
#include <stdlib.h>

static um_device *device;

static um_tensor *tensor_f32(int32_t rank, const int64_t *shape, const float *data)
{
    return um_from_host(device, UM_F32, rank, shape, data);
}

static um_tensor *vector(int64_t count, const float *data) { return tensor_f32(1, &count, data); }

/* 0, 1, 2, ... in the given shape. */
static um_tensor *counting(int32_t rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    return um_reshape(um_arange(device, UM_F32, count, 0, 1), rank, shape);
}

/* Takes x; its elements must be these. */
static void check_is(um_tensor *x, int64_t count, const float *wanted, int line)
{
    float got[64] = {0};
    um_status status = um_read_f32(x, got, count);
    CHECK_MSG(status == UM_OK, "line %d: %s", line, um_last_error()->message);
    for (int64_t i = 0; i < count && status == UM_OK; i++)
        CHECK_MSG(got[i] == wanted[i], "line %d: element %lld is %g, wanted %g", line, (long long)i,
                  (double)got[i], (double)wanted[i]);
    um_release(x);
}
#define IS(x, ...)                                                                                 \
    check_is((x), sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__}, __LINE__)

/* Takes x; reading it must fail so. */
static void check_error(um_tensor *x, um_status code, const char *text, int line)
{
    float room[64];
    um_status status = um_tensor_status(x);
    if (status == UM_OK) status = um_read_f32(x, room, um_tensor_count(x));
    CHECK_MSG(status == code, "line %d: got %s", line, um_status_name(status));
    CHECK_MSG(strstr(um_last_error()->message, text), "line %d: message: %s", line,
              um_last_error()->message);
    um_release(x);
}
#define FAILS(x, code, text) check_error((x), (code), (text), __LINE__)

static uint64_t runs(void)
{
    um_context *context;
    CHECK_OK(um_context_get(device, &context));
    return context->sequence;
}

/* ---- ---------------------------------------------------------------------------------------- */

static void test_making(void)
{
    IS(vector(3, (float[]){1, 2, 3}), 1, 2, 3);
    IS(um_full(device, UM_F32, 2, (int64_t[]){2, 2}, 7), 7, 7, 7, 7);
    IS(um_arange(device, UM_F32, 4, 1, 0.5), 1, 1.5f, 2, 2.5f);
    IS(um_arange(device, UM_I16, 3, -1, -2), -1, -3, -5);
    IS(um_full(device, UM_U8, 1, (int64_t[]){2}, -3), 0, 0); /* saturates as a conversion does */
    IS(um_full(device, UM_U8, 1, (int64_t[]){2}, 300), 255, 255);
    IS(um_full(device, UM_U64, 0, NULL, 0x1p63), 0x1p63f);
    IS(um_add(um_full(device, UM_U64, 0, NULL, 0x1p63), um_zeros(device, UM_U64, 0, NULL)),
       0x1p63f);
    um_tensor *empty = um_zeros(device, UM_F32, 3, (int64_t[]){2, 0, 3});
    CHECK(um_tensor_count(empty) == 0 && um_tensor_rank(empty) == 3);
    CHECK_OK(um_read_f32(empty, NULL, 0));
    um_release(empty);
    um_tensor *scalar = um_full(device, UM_F32, 0, NULL, 3);
    IS(um_mul(um_ref(scalar), um_scalar(scalar, 2)), 6);
    um_release(scalar);
    FAILS(um_zeros(NULL, UM_F32, 0, NULL), UM_INVALID_ARGUMENT, "device");
    FAILS(um_zeros(device, 99, 0, NULL), UM_INVALID_ARGUMENT, "dtype");
    FAILS(um_zeros(device, UM_F32, 9, (int64_t[9]){0}), UM_INVALID_ARGUMENT, "rank");
    FAILS(um_zeros(device, UM_F32, 1, (int64_t[]){-1}), UM_INVALID_ARGUMENT, "-1");
    FAILS(um_zeros(device, UM_F32, 2, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40}),
          UM_INVALID_ARGUMENT, "");
    FAILS(um_from_host(device, UM_F32, 1, (int64_t[]){3}, NULL), UM_INVALID_ARGUMENT, "data");
    IS(um_arange(device, UM_I8, 4, 126, 1), 126, 127, -128, -127);
    IS(um_shift_right(um_arange(device, UM_U64, 2, 0x1p63, 0),
                      um_full(device, UM_U64, 0, NULL, 63)),
       1, 1);
    FAILS(um_arange(device, UM_I32, 4, 0.5, 0.5), UM_INVALID_ARGUMENT, "i32 from 0.5 by 0.5");
    FAILS(um_arange(device, UM_I32, 4, 0, (double)NAN), UM_INVALID_ARGUMENT, "whole");
    FAILS(um_arange(device, UM_I64, 4, 0x1p63, 1), UM_INVALID_ARGUMENT, "64-bit");
    CHECK_FAILS(um_tensor_stream(device, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    FAILS(um_zeros(device, UM_F32, 1, (int64_t[]){(int64_t)1 << 55}), UM_OUT_OF_MEMORY, "");
}

static void test_views(void)
{
    um_tensor *x = counting(2, (int64_t[]){2, 3});
    IS(um_transpose(um_ref(x), 0, 1), 0, 3, 1, 4, 2, 5);
    IS(um_slice(um_ref(x), 1, 2, INT64_MIN, -1), 2, 1, 0, 5, 4, 3);
    IS(um_slice(um_ref(x), -1, 0, INT64_MAX, 2), 0, 2, 3, 5);
    IS(um_slice(um_ref(x), 1, -2, -1, 1), 1, 4);
    IS(um_slice(um_ref(x), 0, -100, 100, INT64_MAX), 0, 1, 2);
    IS(um_slice(um_ref(x), 0, 1, INT64_MIN, INT64_MIN), 3, 4, 5);
    IS(um_flip(um_ref(x), 0), 5, 4, 3, 2, 1, 0);
    IS(um_flip(um_ref(x), UM_AXIS(-1)), 2, 1, 0, 5, 4, 3);
    IS(um_reshape(um_transpose(um_ref(x), 0, 1), 1, (int64_t[]){-1}), 0, 3, 1, 4, 2, 5);
    IS(um_reshape(um_flip(um_ref(x), UM_AXIS(0)), 3, (int64_t[]){2, 1, 3}), 3, 4, 5, 0, 1, 2);
    IS(um_expand(um_slice(um_ref(x), 0, 1, 2, 1), 2, (int64_t[]){2, 3}), 3, 4, 5, 3, 4, 5);
    IS(um_permute(um_unsqueeze(um_ref(x), 1), (int32_t[]){2, 1, 0}), 0, 3, 1, 4, 2, 5);
    IS(um_squeeze(um_unsqueeze(um_ref(x), -1), 2), 0, 1, 2, 3, 4, 5);
    IS(um_contiguous(um_transpose(um_ref(x), 0, 1)), 0, 3, 1, 4, 2, 5);
    um_tensor *none = um_slice(um_ref(x), 1, 2, 1, 1);
    CHECK(um_tensor_count(none) == 0 && um_tensor_shape(none)[1] == 0);
    um_release(none);
    FAILS(um_reshape(um_ref(x), 1, (int64_t[]){5}), UM_INVALID_ARGUMENT, "got 5");
    FAILS(um_reshape(um_ref(x), 2, (int64_t[]){-1, -1}), UM_INVALID_ARGUMENT, "-1");
    FAILS(um_slice(um_ref(x), 2, 0, 1, 1), UM_INVALID_ARGUMENT, "axis 2");
    FAILS(um_slice(um_ref(x), 0, 0, 1, 0), UM_INVALID_ARGUMENT, "step");
    FAILS(um_expand(um_ref(x), 2, (int64_t[]){2, 4}), UM_INVALID_ARGUMENT, "broadcast");
    FAILS(um_permute(um_ref(x), (int32_t[]){0, 0}), UM_INVALID_ARGUMENT, "each");
    FAILS(um_squeeze(um_ref(x), 0), UM_INVALID_ARGUMENT, "wanted 1");
    CHECK_FAILS(um_tensor_view(x, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    um_release(x);
}

static void test_copies(void)
{
    um_tensor *x = counting(2, (int64_t[]){2, 2});
    IS(um_concat(2, (um_tensor *[]){um_ref(x), um_ref(x)}, 0), 0, 1, 2, 3, 0, 1, 2, 3);
    IS(um_concat(2, (um_tensor *[]){um_ref(x), um_neg(um_ref(x))}, -1), 0, 1, -0.f, -1, 2, 3, -2,
       -3);
    IS(um_pad(um_ref(x), (int64_t[]){0, 1}, (int64_t[]){1, 0}, 9), 9, 0, 1, 9, 2, 3, 9, 9, 9);
    IS(um_tile(um_ref(x), (int64_t[]){2, 2}), 0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3);
    IS(um_tile(um_reshape(um_ref(x), 8, (int64_t[]){1, 1, 2, 1, 1, 1, 1, 2}),
               (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2}),
       0, 1, 0, 1, 2, 3, 2, 3);
    um_tensor *none = um_tile(um_ref(x), (int64_t[]){0, 2});
    CHECK(um_tensor_count(none) == 0 && um_tensor_shape(none)[1] == 4);
    um_release(none);
    IS(um_roll(um_arange(device, UM_F32, 5, 0, 1), 0, 2), 3, 4, 0, 1, 2);
    IS(um_roll(um_arange(device, UM_F32, 5, 0, 1), 0, -6), 1, 2, 3, 4, 0);
    IS(um_roll(um_arange(device, UM_F32, 5, 0, 1), 0, INT64_MIN), 3, 4, 0, 1, 2);
    FAILS(um_concat(2, (um_tensor *[]){um_ref(x), counting(2, (int64_t[]){1, 3})}, 0),
          UM_INVALID_ARGUMENT, "argument 1");
    FAILS(um_concat(0, NULL, 0), UM_INVALID_ARGUMENT, "at least 1");
    FAILS(um_pad(um_ref(x), (int64_t[]){0, -1}, (int64_t[]){0, 0}, 0), UM_INVALID_ARGUMENT,
          "axis 1");
    um_release(x);
}

static void test_update(void)
{
    um_tensor *cache = um_zeros(device, UM_F32, 2, (int64_t[]){3, 2});
    CHECK_OK(um_realize(cache));
    um_view before, after;
    CHECK_OK(um_tensor_view(cache, &before));
    cache = um_update(cache, counting(2, (int64_t[]){1, 2}), (int64_t[]){1, 0});
    CHECK_OK(um_tensor_view(cache, &after));
    CHECK(before.ptr == after.ptr); /* the only reference: in place */
    um_tensor *seen = um_slice(um_ref(cache), 0, 1, 2, 1);
    um_tensor *next = um_update(um_ref(cache), counting(2, (int64_t[]){1, 2}), (int64_t[]){2, 0});
    CHECK_OK(um_tensor_view(next, &after));
    CHECK(before.ptr != after.ptr); /* seen by others: on a copy */
    IS(next, 0, 0, 0, 1, 0, 1);
    IS(seen, 0, 1);
    /* a reader that is still lazy keeps its old value */
    um_tensor *sum = um_sum(um_ref(cache), 0, false);
    cache = um_update(cache, um_full(device, UM_F32, 2, (int64_t[]){1, 2}, 5), (int64_t[]){0, 0});
    IS(um_ref(cache), 5, 5, 0, 1, 0, 0);
    IS(sum, 1);
    FAILS(um_update(um_ref(cache), counting(2, (int64_t[]){1, 2}), (int64_t[]){3, 0}),
          UM_INVALID_ARGUMENT, "does not fit");
    FAILS(
        um_update(um_ref(cache), um_zeros(device, UM_F64, 2, (int64_t[]){1, 2}), (int64_t[]){0, 0}),
        UM_INVALID_ARGUMENT, "dtype");
    um_release(cache);
}

static void test_fusion(void)
{
    um_tensor *x = vector(3, (float[]){-1, 2, 3}), *b = vector(3, (float[]){1, 1, -9});
    uint64_t start = runs();
    /* relu(x * 2 + b): one run, the constant inside */
    um_tensor *y = um_relu(um_add(um_mul(um_ref(x), um_scalar(x, 2)), um_ref(b)));
    IS(y, 0, 5, 0);
    CHECK_MSG(runs() == start + 1, "%llu runs", (unsigned long long)(runs() - start));
    /* where(x > 0, x, b), the comparison inside */
    start = runs();
    IS(um_where(um_gt(um_ref(x), um_scalar(x, 0)), um_ref(x), um_ref(b)), 1, 2, 3);
    CHECK(runs() == start + 1);
    /* something others hold is not absorbed, and is there afterwards */
    um_tensor *square = um_square(um_ref(x));
    start = runs();
    IS(um_add(um_ref(square), um_ref(b)), 2, 5, 0);
    IS(um_ref(square), 1, 4, 9);
    CHECK(runs() == start + 2);
    um_release(square);
    /* a chain longer than a program */
    start = runs();
    y = um_ref(x);
    for (int i = 0; i < 100; i++) y = um_add(y, um_scalar(x, 1));
    IS(y, 99, 102, 103);
    CHECK_MSG(runs() - start <= 10, "%llu runs", (unsigned long long)(runs() - start));
    /* more inputs than a program has room for */
    y = um_ref(x);
    for (int i = 0; i < 20; i++) y = um_add(y, vector(3, (float[]){1, 2, 3}));
    IS(y, 19, 42, 63);
    /* one tensor twice, and twice the same absorbed one */
    IS(um_mul(um_ref(x), um_ref(x)), 1, 4, 9);
    square = um_square(um_ref(x));
    IS(um_mul(um_ref(square), square), 1, 16, 81);
    /* integers wrap between the steps as they would alone */
    um_tensor *i8 = um_full(device, UM_I8, 1, (int64_t[]){1}, 100);
    IS(um_div(um_add(um_ref(i8), um_ref(i8)), um_scalar(i8, 2)), -28);
    um_release(i8);
    /* a dying operand's buffer becomes the result's */
    um_view mine, result;
    um_tensor *dying = vector(3, (float[]){4, 5, 6});
    CHECK_OK(um_tensor_view(dying, &mine));
    y = um_neg(dying);
    CHECK_OK(um_tensor_view(y, &result));
    CHECK(mine.ptr == result.ptr);
    IS(y, -4, -5, -6);
    um_release(x);
    um_release(b);
}

/* The value, by one run. */
#define ONE_RUN(tensor, ...)                                                                       \
    do {                                                                                           \
        uint64_t start_ = runs();                                                                  \
        IS(tensor, __VA_ARGS__);                                                                   \
        CHECK_MSG(runs() == start_ + 1, "%llu runs", (unsigned long long)(runs() - start_));       \
    } while (0)

static void test_fusion_of_others(void)
{
    const float one[] = {1, 2, 3, 4}, two[] = {1, -30, 1, 1};
    um_tensor *x = vector(3, (float[]){-1, 2, 3}), *b = vector(3, (float[]){1, 1, -9});
    um_tensor *a = tensor_f32(2, (int64_t[]){2, 2}, one);
    um_tensor *c = tensor_f32(2, (int64_t[]){2, 2}, two);
    /* in front of a reduction, behind it, both */
    ONE_RUN(um_sum(um_mul(um_ref(x), um_ref(b)), UM_ALL_AXES, false), -26);
    ONE_RUN(um_sqrt(um_add(um_sum(um_ref(x), UM_ALL_AXES, true), um_scalar(x, 5))), 3);
    ONE_RUN(um_sqrt(um_mean(um_square(um_sub(um_ref(x), um_ref(b))), UM_ALL_AXES, false)),
            7.0474582f);
    /* behind a product; of two products one */
    ONE_RUN(um_relu(um_add(um_matmul(um_ref(a), um_ref(c)), um_ref(a))), 4, 0, 10, 0);
    ONE_RUN(um_mul(um_matmul(um_ref(a), um_ref(c)), um_scalar(a, 2)), 6, -56, 14, -172);
    uint64_t start = runs();
    IS(um_sub(um_matmul(um_ref(a), um_ref(c)), um_matmul(um_ref(a), um_ref(a))), -4, -38, -8, -108);
    CHECK(runs() == start + 2);
    /* what others hold is there afterwards */
    um_tensor *product = um_matmul(um_ref(a), um_ref(c)), *square = um_square(um_ref(x));
    start = runs();
    IS(um_neg(um_ref(product)), -3, 28, -7, 86);
    IS(um_sum(um_ref(square), UM_ALL_AXES, false), 14);
    CHECK(runs() == start + 4);
    IS(product, 3, -28, 7, -86);
    IS(square, 1, 4, 9);
    /* nothing from memory; more passes than one */
    IS(um_sum(um_exp(um_zeros(device, UM_F32, 1, (int64_t[]){5})), UM_ALL_AXES, false), 5);
    start = runs();
    IS(um_var(um_abs(um_sub(um_ref(x), um_ref(x))), UM_ALL_AXES, false, 0), 0);
    CHECK(runs() == start + 2);
    /* more inputs than an op has room for */
    um_tensor *y = um_matmul(um_ref(a), um_ref(c));
    for (int i = 0; i < 20; i++) y = um_add(y, tensor_f32(2, (int64_t[]){2, 2}, one));
    IS(y, 23, 12, 67, -6);
    y = um_ref(x);
    for (int i = 0; i < 12; i++) y = um_add(y, vector(3, (float[]){1, 2, 3}));
    y = um_sum(y, UM_ALL_AXES, true);
    for (int i = 0; i < 12; i++) y = um_add(y, vector(1, (float[]){1}));
    IS(y, 88);
    um_release(x);
    um_release(b);
    um_release(a);
    um_release(c);
}

static void test_long_graphs(void)
{
    um_tensor *y = vector(2, (float[]){0, 0.5f});
    for (int i = 0; i < 200000; i++) y = um_neg(y);
    um_release(um_ref(y));
    IS(y, 0, 0.5f);
    y = vector(1, (float[]){1});
    for (int i = 0; i < 200000; i++) y = um_abs(y);
    um_release(y); /* never run */
}

static void test_promotion(void)
{
    static const struct {
        um_dtype a, b, result;
    } rows[] = {{UM_I8, UM_I32, UM_I32},   {UM_U8, UM_I8, UM_I16},   {UM_U16, UM_I8, UM_I32},
                {UM_U32, UM_I64, UM_I64},  {UM_U32, UM_I32, UM_I64}, {UM_U8, UM_U64, UM_U64},
                {UM_F32, UM_F64, UM_F64},  {UM_F16, UM_F32, UM_F32}, {UM_F16, UM_BF16, UM_F32},
                {UM_BF16, UM_F64, UM_F64}, {UM_U64, UM_I64, 0},      {UM_I32, UM_F32, 0},
                {UM_BOOL, UM_I8, 0},       {UM_F8E5M2, UM_F32, 0}};
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++)
        for (int turn = 0; turn < 2; turn++) {
            um_dtype a = turn ? rows[i].b : rows[i].a, b = turn ? rows[i].a : rows[i].b;
            um_tensor *y = um_add(um_full(device, a, 0, NULL, 1), um_full(device, b, 0, NULL, 1));
            CHECK_MSG(um_tensor_dtype(y) == rows[i].result, "%s + %s is %s", um_dtype_name(a),
                      um_dtype_name(b), um_dtype_name(um_tensor_dtype(y)));
            if (rows[i].result)
                IS(y, 2);
            else
                FAILS(y, UM_INVALID_ARGUMENT, "um_cast");
        }
}

static void test_errors(void)
{
    um_tensor *x = counting(2, (int64_t[]){2, 3});
    um_tensor *bad = um_add(um_ref(x), counting(1, (int64_t[]){2}));
    CHECK_FAILS(um_tensor_status(bad), UM_INVALID_ARGUMENT, "broadcast");
    /* the first error goes through everything, also past a second one */
    um_tensor *chain = um_matmul(um_relu(bad), um_reshape(um_ref(x), 1, (int64_t[]){7}));
    FAILS(um_sum(chain, 0, false), UM_INVALID_ARGUMENT, "broadcast");
    FAILS(um_add(NULL, um_ref(x)), UM_INVALID_ARGUMENT, "NULL");
    FAILS(um_matmul(um_ref(x), um_ref(x)), UM_INVALID_ARGUMENT, "matmul");
    FAILS(um_linear(um_ref(x), um_zeros(device, UM_F32, 2, (int64_t[]){4, 3}),
                    um_zeros(device, UM_F32, 2, (int64_t[]){2, 4})),
          UM_INVALID_ARGUMENT, "b is f32[2,4], wanted [4]");
    FAILS(um_exp(um_zeros(device, UM_I32, 0, NULL)), UM_INVALID_ARGUMENT, "exp");
    float room[6];
    CHECK_FAILS(um_read_f32(x, room, 5), UM_INVALID_ARGUMENT, "wanted 6");
    CHECK_FAILS(um_to_host(x, room, 5), UM_INVALID_ARGUMENT, "wanted 24");
    um_device *other;
    CHECK_OK(um_open("cpu+validate", &other));
    FAILS(um_add(um_ref(x), um_zeros(other, UM_F32, 0, NULL)), UM_INVALID_ARGUMENT, "devices");
    um_device_release(other);
    CHECK_OK(um_read_f32(x, room, 6));
    um_release(x);
}

/* As another dtype, each value once rounded: 2^53 + 1 has no f64, 2^24 + 1 no f32. */
static void test_read_as(void)
{
    const int64_t x[] = {((int64_t)1 << 53) + 1, -7, ((int64_t)1 << 24) + 1};
    double wide[3];
    float narrow[3];
    um_tensor *t = um_from_host(device, UM_I64, 1, (int64_t[]){3}, x);
    CHECK_OK(um_read_f64(t, wide, 3));
    CHECK(wide[0] == 0x1p53 && wide[1] == -7 && wide[2] == 0x1p24 + 1);
    CHECK_OK(um_read_f32(t, narrow, 3));
    CHECK(narrow[0] == 0x1p53f && narrow[1] == -7 && narrow[2] == 0x1p24f);
    CHECK_FAILS(um_read_f64(t, wide, 2), UM_INVALID_ARGUMENT, "wanted 3");
    CHECK_FAILS(um_read_f64(t, NULL, 3), UM_INVALID_ARGUMENT, "dst is NULL");
    um_release(t);
    t = um_full(device, UM_F64, 1, (int64_t[]){3}, 1 + 0x1p-30);
    CHECK_OK(um_read_f64(t, wide, 3));
    CHECK_OK(um_read_f32(t, narrow, 3));
    CHECK(wide[2] == 1 + 0x1p-30 && narrow[2] == 1);
    um_release(t);
}

/* An index outside its table is found while the stream runs: what depends on it fails for good,
 * what was there before and what comes after is whole. */
static void test_async_error(void)
{
    um_tensor *table = counting(2, (int64_t[]){4, 2}), *before = um_neg(um_ref(table));
    float room[8];
    CHECK_OK(um_read_f32(before, room, 8));
    um_tensor *rows = um_embedding(
        um_ref(table), um_from_host(device, UM_I32, 1, (int64_t[]){2}, (int32_t[]){1, 4}));
    CHECK_FAILS(um_read_f32(rows, room, 4), UM_OUT_OF_RANGE, "4");
    CHECK_FAILS(um_read_f32(rows, room, 4), UM_OUT_OF_RANGE, "4");
    FAILS(um_neg(um_ref(rows)), UM_OUT_OF_RANGE, "4");
    um_release(rows);
    IS(before, 0, -1, -2, -3, -4, -5, -6, -7);
    IS(um_embedding(table, um_from_host(device, UM_I64, 1, (int64_t[]){2}, (int64_t[]){3, 0})), 6,
       7, 0, 1);
}

static void test_layers(void)
{
    um_tensor *a = counting(2, (int64_t[]){2, 3}), *v = vector(3, (float[]){1, 0, -1});
    IS(um_matmul(um_ref(a), um_transpose(um_ref(a), 0, 1)), 5, 14, 14, 50);
    IS(um_matmul(um_ref(a), um_ref(v)), -2, -2);
    IS(um_matmul(um_ref(v), um_transpose(um_ref(a), 0, 1)), -2, -2);
    IS(um_matmul(um_ref(v), um_ref(v)), 2);
    um_tensor *batch = um_matmul(um_reshape(um_ref(a), 3, (int64_t[]){2, 1, 3}),
                                 um_reshape(um_ref(v), 4, (int64_t[]){1, 1, 3, 1}));
    CHECK(um_tensor_rank(batch) == 4 && um_tensor_shape(batch)[1] == 2);
    IS(batch, -2, -2);
    IS(um_linear(um_reshape(um_ref(a), 3, (int64_t[]){1, 2, 3}), um_ref(a),
                 vector(2, (float[]){100, 200})),
       105, 214, 114, 250);
    IS(um_linear(um_ref(v), um_ref(a), NULL), -2, -2);
    IS(um_softmax(um_zeros(device, UM_F32, 2, (int64_t[]){1, 4}), 1), .25f, .25f, .25f, .25f);
    IS(um_rms_norm(vector(2, (float[]){3, 3}), NULL, 0), 1, 1);
    IS(um_argmax(um_ref(a), UM_AXIS(1), false), 2, 2);
    IS(um_sum(um_ref(a), UM_AXIS(0) | UM_AXIS(-1), true), 15);
    IS(um_cumsum(um_ref(v), 0), 1, 1, 0);
    IS(um_cast(um_div(um_ref(v), um_scalar(v, 0)), UM_I8), 127, 0, -128);
    um_release(a);
    um_release(v);
}

static void test_wrap(void)
{
    um_ptr memory;
    CHECK_OK(um_alloc(device, 64, &memory));
    um_stream *stream;
    CHECK_OK(um_tensor_stream(device, &stream));
    CHECK_OK(um_write(stream, memory, (float[]){0, 1, 2, 3, 4, 5}, 24));
    um_view view = {.ptr = memory + 20, .dtype = UM_F32, .rank = 1, .shape = {3}, .stride = {-2}};
    um_tensor *x = um_wrap(device, &view);
    IS(um_neg(um_ref(x)), -5, -3, -1);
    IS(um_reshape(um_ref(x), 2, (int64_t[]){3, 1}), 5, 3, 1);
    IS(um_update(x, vector(1, (float[]){9}), (int64_t[]){1}), 5, 9,
       1); /* never in the caller's memory */
    float back[6];
    CHECK_OK(um_read(stream, back, memory, 24));
    CHECK(back[3] == 3);
    view.ptr = memory + 1;
    view.stride[0] = 1;
    FAILS(um_wrap(device, &view), UM_INVALID_ARGUMENT, "wanted a multiple of its 4 bytes");
    view.ptr = memory + 56;
    FAILS(um_wrap(device, &view), UM_INVALID_ARGUMENT, "bytes 0 to 12 from there");
    view.stride[0] = INT64_MIN;
    FAILS(um_wrap(device, &view), UM_INVALID_ARGUMENT, "further than 64 bits");
    view.shape[0] = 1; /* now the stride is not used */
    CHECK_OK(um_write(stream, memory + 56, (float[]){7}, 4));
    IS(um_flip(um_slice(um_wrap(device, &view), 0, 0, 1, 1), 0), 7);
    CHECK_OK(um_free(device, memory));
    FAILS(um_wrap(device, &view), UM_INVALID_ARGUMENT, "allocation");
}

/* On a device whose kernels take few buffers less is fused. */
static void test_few_buffers(void)
{
    um_device *other = device;
    uint64_t took[2];
    for (int few = 0; few < 2; few++) {
        setenv("UMBEL_INTERP_LIMITS", few ? "buffers:5" : "buffers:11", 1);
        CHECK_OK(um_open("interp", &device));
        um_tensor *y = vector(3, (float[]){1, 2, 3});
        uint64_t start = runs();
        for (int i = 0; i < 20; i++) y = um_add(y, vector(3, (float[]){1, 2, 3}));
        y = um_mul(um_sum(um_ref(y), 1u << 0, true), y);
        IS(y, 21 * 126, 42 * 126, 63 * 126);
        took[few] = runs() - start;
        um_device_release(device);
    }
    CHECK(took[0] < took[1]);
    unsetenv("UMBEL_INTERP_LIMITS");
    device = other;
}

/* The program of the failing allocator: everything is released whatever fails. */
static um_status little_program(void)
{
    um_device *own = NULL;
    um_status status = um_open("cpu", &own);
    if (status != UM_OK) return status;
    float data[6] = {1, 2, 3, 4, 5, 6}, out[4];
    um_tensor *x = um_from_host(own, UM_F32, 2, (int64_t[]){2, 3}, data);
    um_tensor *y = um_matmul(um_ref(x), um_transpose(um_ref(x), 0, 1));
    y = um_softmax(um_add(um_relu(y), um_scalar(y, 1)), -1);
    y = um_update(y, um_slice(um_ref(x), 1, 0, 2, 1), (int64_t[]){0, 0});
    um_tensor *row = um_slice(um_ref(y), 0, 0, 1, 1);
    y = um_concat(2, (um_tensor *[]){row, um_slice(y, 0, 1, 2, 1)}, 1);
    status = um_read_f32(y, out, 4);
    um_release(y);
    um_release(x);
    um_device_release(own);
    return status;
}

static void test_failing_allocator(void)
{
    CHECK_OK(little_program()); /* what a process keeps is made once, here */
    int64_t live = um_mem_live_count();
    for (int forever = 0; forever < 2; forever++)
        for (int64_t n = 1; n < 10000; n++) {
            um_mem_fail_at(n, forever);
            um_status status = little_program();
            bool failed = um_mem_failed();
            um_mem_fail_at(0, false);
            CHECK_MSG(um_mem_live_count() == live, "call %lld: %lld blocks more", (long long)n,
                      (long long)(um_mem_live_count() - live));
            if (!failed) {
                CHECK(status == UM_OK && n > 10);
                break;
            }
            CHECK_MSG(status == UM_OK || status == UM_OUT_OF_MEMORY, "call %lld: %s: %s",
                      (long long)n, um_status_name(status), um_last_error()->message);
        }
}

int main(void)
{
    CHECK_OK(um_open("cpu", &device));
    if (!device) return 1;
    TEST(test_making);
    TEST(test_views);
    TEST(test_copies);
    TEST(test_update);
    TEST(test_fusion);
    TEST(test_fusion_of_others);
    TEST(test_long_graphs);
    TEST(test_promotion);
    TEST(test_errors);
    TEST(test_read_as);
    TEST(test_async_error);
    TEST(test_layers);
    TEST(test_wrap);
    TEST(test_few_buffers);
    um_device_release(device);
    device = NULL;
    TEST(test_failing_allocator);
    return TEST_RESULT();
}
