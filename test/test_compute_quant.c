/* test/test_compute_quant.c: quantize and dequantize of the compute face: each rule of the contract
 * for them. Values over shapes, views and dtypes: umbel check. */
#include "face.h"

#include <math.h>

static void test_rounding(void)
{
    face f = face_open();
    const float data[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 300, -300, NAN, INFINITY, -INFINITY};
    um_view x = face_put(&f, UM_F32, SHAPE(10), data);
    um_view one = face_put(&f, UM_F32, 0, NULL, (const float[]){1});
    um_view zero = face_put(&f, UM_I8, 0, NULL, (const int8_t[]){3});
    um_view q = face_put(&f, UM_I8, SHAPE(10), NULL), u = face_put(&f, UM_U8, SHAPE(10), NULL);
    const um_quant_desc four = {.bits = 4};
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &one, NULL, &q));
    CHECK(face_holds(&f, &q, (const int8_t[]){0, 2, 2, 0, -2, 127, -128, 0, 127, -128}));
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &one, &zero, &q));
    CHECK(face_holds(&f, &q, (const int8_t[]){3, 5, 5, 3, 1, 127, -128, 3, 127, -128}));
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &one, NULL, &u));
    CHECK(face_holds(&f, &u, (const uint8_t[]){0, 2, 2, 0, 0, 255, 0, 0, 255, 0}));
    CHECK_OK(um_quantize_view(f.stream, &four, &x, &one, NULL, &q));
    CHECK(face_holds(&f, &q, (const int8_t[]){0, 2, 2, 0, -2, 7, -8, 0, 7, -8}));
    face_close(&f);
}

static void test_zero_scale(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(4), (const float[]){0, 5, -3, NAN});
    um_view scale = face_put(&f, UM_F32, 0, NULL, (const float[]){0});
    um_view q = face_put(&f, UM_I8, SHAPE(4), NULL), e = face_put(&f, UM_F8E4M3FN, SHAPE(4), NULL);
    um_view y = face_put(&f, UM_F32, SHAPE(4), NULL);
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &scale, NULL, &q));
    CHECK(face_holds(&f, &q, (const int8_t[]){0, 0, 0, 0}));
    CHECK_OK(um_dequantize_view(f.stream, NULL, &q, &scale, NULL, &y));
    CHECK(face_holds(&f, &y, (const float[]){0, 0, 0, 0}));
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &scale, NULL, &e));
    CHECK(face_holds(&f, &e, (const uint8_t[]){0, 0, 0, 0}));
    face_close(&f);
}

static void test_axis_and_blocks(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(2, 3), (const float[]){2, 4, 6, 20, 40, 60});
    um_view rows = face_put(&f, UM_F32, SHAPE(2), (const float[]){2, 20});
    um_view blocks = face_put(&f, UM_F32, SHAPE(2, 2), (const float[]){1, 2, 4, 5});
    um_view q = face_put(&f, UM_U8, SHAPE(2, 3), NULL), y = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    const um_quant_desc axis = {.axis = 0}, block = {.axis = -1, .block = 2};
    CHECK_OK(um_quantize_view(f.stream, &axis, &x, &rows, NULL, &q));
    CHECK(face_holds(&f, &q, (const uint8_t[]){1, 2, 3, 1, 2, 3}));
    CHECK_OK(um_dequantize_view(f.stream, &axis, &q, &rows, NULL, &y));
    CHECK(face_holds(&f, &y, (const float[]){2, 4, 6, 20, 40, 60}));
    CHECK_OK(um_quantize_view(f.stream, &block, &x, &blocks, NULL, &q));
    CHECK(face_holds(&f, &q, (const uint8_t[]){2, 4, 3, 5, 10, 12}));
    face_close(&f);
}

/* E4M3 saturates, E5M2 goes to infinity; NaN stays. */
static void test_fp8(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(3), (const float[]){1, 1e6f, NAN});
    um_view half = face_put(&f, UM_F32, 0, NULL, (const float[]){0.5f});
    um_view e4 = face_put(&f, UM_F8E4M3FN, SHAPE(3), NULL),
            e5 = face_put(&f, UM_F8E5M2, SHAPE(3), NULL);
    um_view y = face_put(&f, UM_F32, SHAPE(3), NULL);
    float got[3];
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &half, NULL, &e4));
    CHECK_OK(um_dequantize_view(f.stream, NULL, &e4, &half, NULL, &y));
    face_get(&f, &y, got);
    CHECK(got[0] == 1 && got[1] == 224 && isnan(got[2]));
    CHECK_OK(um_quantize_view(f.stream, NULL, &x, &half, NULL, &e5));
    CHECK_OK(um_dequantize_view(f.stream, NULL, &e5, &half, NULL, &y));
    face_get(&f, &y, got);
    CHECK(got[0] == 1 && isinf(got[1]) && isnan(got[2]));
    face_close(&f);
}

static void test_refusals(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(2, 3), NULL), q = face_put(&f, UM_I8, SHAPE(2, 3), NULL);
    um_view one = face_put(&f, UM_F32, 0, NULL, (const float[]){1});
    um_view two = face_put(&f, UM_F32, SHAPE(2), NULL), wide = face_put(&f, UM_F64, 0, NULL, NULL);
    um_view e = face_put(&f, UM_F8E5M2, SHAPE(2, 3), NULL),
            i = face_put(&f, UM_I32, SHAPE(2, 3), NULL);
    um_quant_desc desc = {.axis = 1};
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &two, NULL, &q), UM_INVALID_ARGUMENT,
                "quantize: wrong shape of scale: it is f32[2], wanted is f32[3]");
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &wide, NULL, &q), UM_INVALID_ARGUMENT,
                "scale must be f32 for f32, got f64");
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &one, NULL, &i), UM_INVALID_ARGUMENT,
                "q must be i8, u8, i16, u16 or an fp8, got i32");
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &one, &one, &e), UM_INVALID_ARGUMENT,
                "fp8 has no zero point");
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &one, &one, &q), UM_INVALID_ARGUMENT,
                "wrong zero point: it is f32[], wanted is i8[]");
    CHECK_FAILS(um_dequantize_view(f.stream, &desc, &q, &one, NULL, &i), UM_INVALID_ARGUMENT,
                "x must be f64, f32, f16 or bf16, got i32");
    desc = (um_quant_desc){.bits = 3};
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &one, NULL, &q), UM_INVALID_ARGUMENT,
                "bits must be 0, or 4 of i8 and u8, got 3 of i8");
    desc = (um_quant_desc){.block = -1};
    CHECK_FAILS(um_quantize_view(f.stream, &desc, &x, &one, NULL, &q), UM_INVALID_ARGUMENT,
                "block must be 0 or more, got -1");
    CHECK_FAILS(um_quantize_view(f.stream, NULL, &x, NULL, NULL, &q), UM_INVALID_ARGUMENT,
                "quantize: scale is NULL");
    um_view none, no_q;
    CHECK_OK(um_view_make(0, UM_F32, SHAPE(0), &none));
    CHECK_OK(um_view_make(0, UM_I8, SHAPE(0), &no_q));
    CHECK_OK(um_quantize_view(f.stream, NULL, &none, &one, NULL, &no_q));
    face_close(&f);
}

enum { MANY = 100000 };

static void quantize_many(face *f, void *bits)
{
    float *x = malloc(MANY * sizeof *x), scale[MANY / 100];
    for (int i = 0; i < MANY; i++) x[i] = (float)(i % 1013) - 500;
    for (int i = 0; i < MANY / 100; i++) scale[i] = (float)(1 + i % 7);
    um_view v = face_put(f, UM_F32, SHAPE(10, MANY / 10), x),
            q = face_put(f, UM_I8, SHAPE(10, MANY / 10), NULL);
    um_view s = face_put(f, UM_F32, SHAPE(10, MANY / 1000), scale);
    const um_quant_desc blocks = {.axis = 1, .block = 100};
    CHECK_OK(um_quantize_view(f->stream, &blocks, &v, &s, NULL, &q));
    face_get(f, &q, bits);
    free(x);
}

static void test_same_bits_for_any_threads(void)
{
    CHECK(same_for_any_threads(quantize_many, MANY));
}

int main(void)
{
    TEST(test_rounding);
    TEST(test_zero_scale);
    TEST(test_axis_and_blocks);
    TEST(test_fp8);
    TEST(test_refusals);
    TEST(test_same_bits_for_any_threads);
    return TEST_RESULT();
}
