/* Elementwise ops, reductions and running sums through the compute face: broadcasting, numbers as
 * operands, what is refused. Every op and dtype against the oracle: umbel check. */
#include "face.h"

#include <math.h>

enum { X, Y };

static void test_broadcast(void)
{
    face f = face_open();
    float a[] = {1, 2, 3}, b[] = {10, 20}, y[6];
    um_view va = face_put(&f, UM_F32, SHAPE(3), a), vb = face_put(&f, UM_F32, SHAPE(2, 1), b);
    um_view vy = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    CHECK_OK(um_binary_view(f.stream, UM_OP_ADD, &va, &vb, &vy));
    CHECK(face_holds(&f, &vy, (float[]){11, 12, 13, 21, 22, 23}));
    CHECK_OK(um_binary_view(f.stream, UM_OP_SUB, &vy, &vb, &vy)); /* in place */
    CHECK(face_holds(&f, &vy, (float[]){1, 2, 3, 1, 2, 3}));
    CHECK_OK(um_unary_view(f.stream, UM_OP_NEG, 0, &va, &vy));
    CHECK(face_holds(&f, &vy, (float[]){-1, -2, -3, -1, -2, -3}));
    CHECK_OK(um_unary_view(f.stream, UM_OP_LEAKY_RELU, 0.5, &vy, &vy));
    CHECK(face_holds(&f, &vy, (float[]){-0.5f, -1, -1.5f, -0.5f, -1, -1.5f}));
    uint8_t c[] = {1, 0, 1};
    um_view vc = face_put(&f, UM_BOOL, SHAPE(3), c), zero = face_put(&f, UM_F32, SHAPE(1), y);
    CHECK_OK(um_fill_view(f.stream, (um_number){.f = 7}, &zero));
    CHECK_OK(um_ternary_view(f.stream, UM_OP_WHERE, &vc, &va, &zero, &vy));
    CHECK(face_holds(&f, &vy, (float[]){1, 7, 3, 1, 7, 3}));
    face_close(&f);
}

/* The same op over a view that repeats the number. */
static void check_number(face *f, um_op_id op, um_dtype dtype, const void *x, um_number n)
{
    um_view a = face_put(f, dtype, SHAPE(5), x), one = face_put(f, dtype, SHAPE(1), NULL);
    bool tests = op == UM_OP_LT;
    um_dtype to = tests ? UM_BOOL : dtype;
    um_view y[2] = {face_put(f, to, SHAPE(5), NULL), face_put(f, to, SHAPE(5), NULL)};
    uint8_t want[40];
    CHECK_OK(um_fill_view(f->stream, n, &one));
    for (int32_t side = 0; side < 2; side++) {
        um_operand in[2] = {{.view = &a}, {.view = &a}};
        in[side] = (um_operand){.number = n};
        CHECK_OK(um_binary_view(f->stream, op, side ? &a : &one, side ? &one : &a, &y[X]));
        face_get(f, &y[X], want);
        CHECK_OK(um_map_view(f->stream, op, 2, in, &y[Y]));
        CHECK_MSG(face_holds(f, &y[Y], want), "%s %s", um_op_name(op), um_dtype_name(dtype));
    }
    f->block_count -= 4;
    for (int32_t i = 0; i < 4; i++) CHECK_OK(um_free(f->device, f->block[f->block_count + i]));
}

static void test_numbers(void)
{
    static const um_op_id ops[] = {UM_OP_ADD, UM_OP_SUB, UM_OP_MUL, UM_OP_MAX, UM_OP_LT};
    float x32[] = {1.5f, -2, 0, 1e30f, NAN};
    double x64[] = {1.5, -2, 0, 1e300, (double)NAN};
    uint16_t x16[] = {0x3c00, 0xc000, 0, 0x7bff, 0x3555};
    int8_t i8[] = {1, -128, 127, 0, 5};
    int64_t i64[] = {1, INT64_MIN, INT64_MAX, 0, -1};
    face f = face_open();
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        check_number(&f, ops[i], UM_F32, x32, (um_number){.f = 0.1});
        check_number(&f, ops[i], UM_F64, x64, (um_number){.f = 0.1});
        check_number(&f, ops[i], UM_F16, x16, (um_number){.f = 0.1});
        check_number(&f, ops[i], UM_BF16, x16, (um_number){.f = (double)-INFINITY});
        check_number(&f, ops[i], UM_I8, i8, (um_number){.i = -128});
        check_number(&f, ops[i], UM_U64, i64, (um_number){.i = -1});
        check_number(&f, ops[i], UM_U64, i64, (um_number){.i = INT64_MIN});
        static const int64_t large[] = {INT64_MAX, INT64_MIN, -1, ((int64_t)1 << 53) + 1,
                                        -((int64_t)1 << 53) - 1};
        for (int k = 0; k < 5; k++)
            check_number(&f, ops[i], UM_I64, i64, (um_number){.i = large[k]});
    }
    face_close(&f);
}

static void test_clamp_and_where(void)
{
    face f = face_open();
    float x[] = {-1, 0.5f, 7, NAN}, y[4];
    uint8_t c[] = {1, 0, 0, 1};
    um_view vx = face_put(&f, UM_F32, SHAPE(4), x), vc = face_put(&f, UM_BOOL, SHAPE(4), c);
    um_operand clamp[] = {{&vx, {0, 0}}, {NULL, {0, 0}}, {NULL, {6, 0}}};
    CHECK_OK(um_map_view(f.stream, UM_OP_CLAMP, 3, clamp, &vx)); /* in place */
    face_get(&f, &vx, y);
    CHECK(y[0] == 0 && y[1] == 0.5f && y[2] == 6 && isnan(y[3]));
    clamp[1].number.f = 3, clamp[2].number.f = 2; /* lo > hi gives hi */
    CHECK_OK(um_map_view(f.stream, UM_OP_CLAMP, 3, clamp, &vx));
    face_get(&f, &vx, y);
    CHECK(y[0] == 2 && y[1] == 2 && y[2] == 2 && isnan(y[3]));
    um_operand where[] = {{&vc, {0, 0}}, {NULL, {1.5, 0}}, {NULL, {(double)-INFINITY, 0}}};
    CHECK_OK(um_map_view(f.stream, UM_OP_WHERE, 3, where, &vx));
    CHECK(face_holds(&f, &vx, (float[]){1.5f, -INFINITY, -INFINITY, 1.5f}));
    face_close(&f);
}

static void test_map_refusals(void)
{
    face f = face_open();
    um_view a = face_put(&f, UM_F32, SHAPE(4), NULL), i = face_put(&f, UM_I8, SHAPE(4), NULL);
    um_view wide = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    um_view e4m3 = face_put(&f, UM_F8E4M3FN, SHAPE(4), NULL);
    um_operand both[] = {{.view = &i}, {.number.i = 128}};
    CHECK_FAILS(um_map_view(f.stream, UM_OP_ADD, 2, both, &i), UM_INVALID_ARGUMENT,
                "add: i8 does not hold the number 128");
    both[1].number.i = 5;
    CHECK_FAILS(um_map_view(f.stream, UM_OP_ADD, 2, both, &a), UM_INVALID_ARGUMENT,
                "add: y is f32, wants i8");
    CHECK_FAILS(um_map_view(f.stream, UM_OP_LT, 2, both, &i), UM_INVALID_ARGUMENT, "wants bool");
    CHECK_FAILS(um_map_view(f.stream, UM_OP_ADD, 2, NULL, &a), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_map_view(f.stream, UM_OP_EXP, 2, both, &a), UM_INVALID_ARGUMENT,
                "exp is no elementwise op of 2 inputs");
    CHECK_FAILS(um_map_view(f.stream, UM_OP_MAP, 0, both, &a), UM_INVALID_ARGUMENT, "no element");
    CHECK_FAILS(um_binary_view(f.stream, UM_OP_MATMUL, &a, &a, &a), UM_INVALID_ARGUMENT, "matmul");
    CHECK_FAILS(um_binary_view(f.stream, 9999, &a, &a, &a), UM_INVALID_ARGUMENT, "none is no");
    CHECK_FAILS(um_binary_view(f.stream, UM_OP_ADD, &a, NULL, &a), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_binary_view(f.stream, UM_OP_ADD, &a, &a, NULL), UM_INVALID_ARGUMENT,
                "y is NULL");
    CHECK_FAILS(um_binary_view(f.stream, UM_OP_ADD, &a, &i, &a), UM_INVALID_ARGUMENT,
                "dtypes differ");
    CHECK_FAILS(um_binary_view(f.stream, UM_OP_ADD, &a, &a, &wide), UM_INVALID_ARGUMENT,
                "f32[4] does not broadcast to f32[2,3]");
    CHECK_FAILS(um_unary_view(f.stream, UM_OP_NEG, 0, &a, &i), UM_INVALID_ARGUMENT, "wrong output");
    um_operand where[] = {{.number.i = 1}, {.view = &e4m3}, {.view = &e4m3}};
    CHECK_FAILS(um_map_view(f.stream, UM_OP_WHERE, 3, where, &e4m3), UM_INVALID_ARGUMENT,
                "input 0 is f8e4m3fn");
    where[0].view = &a;
    where[1] = (um_operand){.number.f = 1};
    CHECK_FAILS(um_map_view(f.stream, UM_OP_WHERE, 3, where, &a), UM_INVALID_ARGUMENT,
                "the condition must be bool");
    face_close(&f);
}

static void test_reduce(void)
{
    face f = face_open();
    float x[] = {1, 5, 3, 4, 2, 6};
    um_view vx = face_put(&f, UM_F32, SHAPE(2, 3), x), row = face_put(&f, UM_F32, SHAPE(3), NULL);
    um_view kept = face_put(&f, UM_F32, SHAPE(2, 1), NULL),
            all = face_put(&f, UM_F32, 0, NULL, NULL);
    um_view best = face_put(&f, UM_I64, SHAPE(2), NULL);
    um_view some = face_put(&f, UM_BOOL, 0, NULL, NULL);
    CHECK_OK(um_reduce_view(f.stream, UM_OP_SUM, UM_AXIS(0), 0, &vx, &row));
    CHECK(face_holds(&f, &row, (float[]){5, 7, 9}));
    CHECK_OK(um_reduce_view(f.stream, UM_OP_REDUCE_MAX, UM_AXIS(-1), 0, &vx, &kept));
    CHECK(face_holds(&f, &kept, (float[]){5, 6}));
    CHECK_OK(um_reduce_view(f.stream, UM_OP_VAR, UM_ALL_AXES, 1, &vx, &all));
    CHECK(face_holds(&f, &all, (float[]){3.5f}));
    CHECK_OK(um_reduce_view(f.stream, UM_OP_VAR, UM_AXIS(1), 0, &vx, &kept));
    CHECK(face_holds(&f, &kept, (float[]){8.0f / 3, 8.0f / 3}));
    CHECK_OK(um_reduce_view(f.stream, UM_OP_ARGMAX, UM_AXIS(1), 0, &vx, &best));
    CHECK(face_holds(&f, &best, (int64_t[]){1, 2}));
    CHECK_OK(um_reduce_view(f.stream, UM_OP_ALL, UM_ALL_AXES, 0, &vx, &some));
    CHECK(face_holds(&f, &some, (uint8_t[]){1}));
    CHECK_FAILS(um_reduce_view(f.stream, UM_OP_CUMSUM, 0, 0, &vx, &all), UM_INVALID_ARGUMENT,
                "reduce_view: cumsum is no such op");
    CHECK_FAILS(um_reduce_view(f.stream, UM_OP_SUM, UM_AXIS(0), 0, &vx, &kept), UM_INVALID_ARGUMENT,
                "wrong output");
    CHECK_FAILS(um_reduce_view(f.stream, UM_OP_SUM, UM_AXIS(2), 0, &vx, &row), UM_INVALID_ARGUMENT,
                "outside x");
    CHECK_FAILS(um_reduce_view(f.stream, UM_OP_SUM, 0, 0, NULL, &row), UM_INVALID_ARGUMENT,
                "x is NULL");
    face_close(&f);
}

static void test_scan(void)
{
    face f = face_open();
    int32_t x[] = {1, 5, 3, 4, 2, 6};
    um_view vx = face_put(&f, UM_I32, SHAPE(2, 3), x), vy = face_put(&f, UM_I32, SHAPE(2, 3), NULL);
    CHECK_OK(um_scan_view(f.stream, UM_OP_CUMSUM, -1, &vx, &vy));
    CHECK(face_holds(&f, &vy, (int32_t[]){1, 6, 9, 4, 6, 12}));
    CHECK_OK(um_scan_view(f.stream, UM_OP_CUMPROD, 0, &vx, &vy));
    CHECK(face_holds(&f, &vy, (int32_t[]){1, 5, 3, 4, 10, 18}));
    CHECK_OK(um_scan_view(f.stream, UM_OP_CUMMAX, 1, &vx, &vy));
    CHECK(face_holds(&f, &vy, (int32_t[]){1, 5, 5, 4, 4, 6}));
    CHECK_FAILS(um_scan_view(f.stream, UM_OP_SUM, 1, &vx, &vy), UM_INVALID_ARGUMENT, "scan_view");
    CHECK_FAILS(um_scan_view(f.stream, UM_OP_CUMSUM, 2, &vx, &vy), UM_INVALID_ARGUMENT, "outside");
    face_close(&f);
}

int main(void)
{
    TEST(test_broadcast);
    TEST(test_numbers);
    TEST(test_clamp_and_where);
    TEST(test_map_refusals);
    TEST(test_reduce);
    TEST(test_scan);
    return TEST_RESULT();
}
