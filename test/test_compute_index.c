/* test/test_compute_index.c: the compute face's ops on indices: each rule of the contract for
 * them. Values over shapes, views and dtypes: umbel check. */
#include "face.h"

#include <math.h>

#define PUT_F32(f, shape, ...)  face_put((f), UM_F32, shape, (const float[]){__VA_ARGS__})
#define PUT_I32(f, shape, ...)  face_put((f), UM_I32, shape, (const int32_t[]){__VA_ARGS__})
#define PUT_I64(f, shape, ...)  face_put((f), UM_I64, shape, (const int64_t[]){__VA_ARGS__})
#define HOLDS_F32(f, view, ...) face_holds((f), &(view), (const float[]){__VA_ARGS__})

/* ---- host indices ---------------------------------------------------------------------------- */

static void test_host_indices(void)
{
    const int32_t narrow[] = {0, 4, 2};
    const int64_t wide[] = {3, -1};
    CHECK_OK(um_check_indices(UM_I32, narrow, 3, 5));
    CHECK_OK(um_check_indices(UM_I64, NULL, 0, 0));
    CHECK_FAILS(um_check_indices(UM_I32, narrow, 3, 4), UM_OUT_OF_RANGE,
                "index 4, number 1 of the indices, is outside 0 to 3");
    CHECK_FAILS(um_check_indices(UM_I64, wide, 2, 5), UM_OUT_OF_RANGE, "index -1");
    CHECK_FAILS(um_check_indices(UM_F32, narrow, 3, 4), UM_INVALID_ARGUMENT, "got f32");
    CHECK_FAILS(um_check_indices(UM_I32, NULL, 3, 4), UM_INVALID_ARGUMENT, "3 indices at");
    CHECK_FAILS(um_check_indices(UM_I32, narrow, -1, 4), UM_INVALID_ARGUMENT, "-1 indices");
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void test_gather(void)
{
    face f = face_open();
    um_view x = PUT_F32(&f, SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    um_view columns = PUT_I32(&f, SHAPE(2, 2), 2, 0, 1, 1);
    um_view rows = PUT_I64(&f, SHAPE(1, 3), 1, 0, 1);
    um_view y = face_put(&f, UM_F32, SHAPE(2, 2), NULL);
    um_view z = face_put(&f, UM_F32, SHAPE(1, 3), NULL);
    CHECK_OK(um_gather_view(f.stream, 1, &x, &columns, &y));
    CHECK(HOLDS_F32(&f, y, 3, 1, 5, 5));
    CHECK_OK(um_gather_view(f.stream, -2, &x, &rows, &z));
    CHECK(HOLDS_F32(&f, z, 4, 2, 6));
    um_view picks = PUT_I32(&f, SHAPE(2), 2, 2);
    CHECK_OK(um_index_select_view(f.stream, 1, &x, &picks, &y));
    CHECK(HOLDS_F32(&f, y, 3, 3, 6, 6));
    um_view pairs = PUT_I64(&f, SHAPE(2, 2), 1, 0, 0, 2);
    um_view w = face_put(&f, UM_F32, SHAPE(2), NULL);
    CHECK_OK(um_gather_nd_view(f.stream, &x, &pairs, &w));
    CHECK(HOLDS_F32(&f, w, 4, 3));
    um_view ids = PUT_I32(&f, SHAPE(2, 1), 1, 1);
    um_view rows2 = face_put(&f, UM_F32, SHAPE(2, 1, 3), NULL);
    CHECK_OK(um_embedding_forward(f.stream, &x, &ids, &rows2));
    CHECK(HOLDS_F32(&f, rows2, 4, 5, 6, 4, 5, 6));
    face_close(&f);
}

static void test_gather_views(void)
{
    face f = face_open();
    um_view x = PUT_F32(&f, SHAPE(4), 1, 2, 3, 4);
    um_view index = PUT_I32(&f, SHAPE(1), 1);
    um_view y = face_put(&f, UM_F32, SHAPE(3), NULL);
    um_view back = x, again = index;
    back.ptr += 3 * sizeof(float);
    back.stride[0] = -1;
    again.shape[0] = 3;
    again.stride[0] = 0;
    CHECK_OK(um_gather_view(f.stream, 0, &back, &again, &y));
    CHECK(HOLDS_F32(&f, y, 3, 3, 3));
    face_close(&f);
}

static void test_bad_index_reads_zero(void)
{
    face f = face_open();
    um_view x = PUT_F32(&f, SHAPE(3), 1, 2, 3);
    um_view indices = PUT_I64(&f, SHAPE(5), 2, -1, 3, INT64_MIN, 0);
    um_view y = face_put(&f, UM_F32, SHAPE(5), NULL);
    CHECK_OK(um_gather_view(f.stream, 0, &x, &indices, &y));
    CHECK_FAILS(um_synchronize(f.stream), UM_OUT_OF_RANGE,
                "gather: index -1, number 1 of the indices, is outside 0 to 2");
    CHECK(strcmp(um_last_error()->op, "gather") == 0);
    CHECK(um_gather_view(f.stream, 0, &x, &indices, &y) == UM_OUT_OF_RANGE); /* sticky */
    CHECK(um_stream_clear_error(f.stream) == UM_OUT_OF_RANGE);
    CHECK(HOLDS_F32(&f, y, 3, 0, 0, 0, 1));
    face_close(&f);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void test_bad_index_is_dropped(void)
{
    face f = face_open();
    um_view y = PUT_F32(&f, SHAPE(2, 2), 1, 2, 3, 4);
    um_view indices = PUT_I32(&f, SHAPE(3, 2), 0, 1, 0, 2, -5, 0);
    um_view values = PUT_F32(&f, SHAPE(3), 10, 20, 30);
    CHECK_OK(um_scatter_nd_view(f.stream, UM_SCATTER_ASSIGN, &indices, &values, &y));
    CHECK_FAILS(um_synchronize(f.stream), UM_OUT_OF_RANGE,
                "scatter_nd: index 2, number 3 of the indices, is outside 0 to 1");
    CHECK(um_stream_clear_error(f.stream) == UM_OUT_OF_RANGE);
    CHECK(HOLDS_F32(&f, y, 1, 10, 3, 4));
    um_view ids = PUT_I32(&f, SHAPE(3), 1, 7, 1);
    um_view dy = PUT_F32(&f, SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    CHECK_OK(um_embedding_backward(f.stream, &dy, &ids, &y));
    CHECK(um_stream_clear_error(f.stream) == UM_OUT_OF_RANGE);
    CHECK(HOLDS_F32(&f, y, 0, 0, 6, 8));
    um_view hot = face_put(&f, UM_F32, SHAPE(3, 2), NULL);
    CHECK_OK(um_one_hot_view(f.stream, &ids, &hot));
    CHECK(um_stream_clear_error(f.stream) == UM_OUT_OF_RANGE);
    CHECK(HOLDS_F32(&f, hot, 0, 1, 0, 0, 0, 1));
    face_close(&f);
}

static void test_last_duplicate_wins(void)
{
    face f = face_open();
    um_view y = PUT_F32(&f, SHAPE(4), 1, 2, 3, 4);
    um_view indices = PUT_I32(&f, SHAPE(5), 2, 0, 2, 0, 2);
    um_view values = PUT_F32(&f, SHAPE(5), 10, 20, 30, 40, 50);
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_ASSIGN, &indices, &values, &y));
    CHECK(HOLDS_F32(&f, y, 40, 2, 50, 4));
    CHECK_OK(um_scatter_view(f.stream, -1, UM_SCATTER_MUL, &indices, &values, &y));
    CHECK(HOLDS_F32(&f, y, 32000, 2, 750000, 4));
    face_close(&f);
}

static void test_min_max(void)
{
    face f = face_open();
    um_view y = PUT_F32(&f, SHAPE(5), 0.0f, -0.0f, 1, 1, NAN);
    um_view indices = PUT_I32(&f, SHAPE(5), 0, 1, 2, 3, 4);
    um_view values = PUT_F32(&f, SHAPE(5), -0.0f, 0.0f, NAN, 2, 3);
    float got[5];
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_MIN, &indices, &values, &y));
    face_get(&f, &y, got);
    CHECK(signbit(got[0]) && signbit(got[1]) && isnan(got[2]) && got[3] == 1 && isnan(got[4]));
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_MAX, &indices, &values, &y));
    face_get(&f, &y, got);
    CHECK(got[0] == 0 && !signbit(got[1]) && isnan(got[2]) && got[3] == 2 && isnan(got[4]));
    face_close(&f);
}

/* 5000 ones in f16: one after another in f16 they would stop at 2048. */
static void test_add_rounds_once(void)
{
    enum { COUNT = 5000 };
    static float ones[COUNT];
    static uint16_t half[COUNT];
    face f = face_open();
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    CHECK_OK(um_convert(UM_F16, half, UM_F32, ones, COUNT));
    um_view values = face_put(&f, UM_F16, SHAPE(COUNT), half);
    um_view zero = PUT_I32(&f, SHAPE(1), 0);
    um_view y = face_put(&f, UM_F16, SHAPE(1), (const uint16_t[]){0});
    zero.shape[0] = COUNT;
    zero.stride[0] = 0;
    float got;
    uint16_t bits;
    CHECK_OK(um_index_add_view(f.stream, 0, &zero, &values, &y));
    face_get(&f, &y, &bits);
    CHECK_OK(um_convert(UM_F32, &got, UM_F16, &bits, 1));
    CHECK(got == COUNT);
    face_close(&f);
}

/* The contract's bound on sums, where many values meet: 200,000 times 0.1. */
static void test_add_is_accurate(void)
{
    enum { COUNT = 200000 };
    float *tenths = malloc(COUNT * sizeof *tenths), got;
    for (int i = 0; i < COUNT; i++) tenths[i] = 0.1f;
    face f = face_open();
    um_view values = face_put(&f, UM_F32, SHAPE(COUNT), tenths);
    um_view zero = PUT_I64(&f, SHAPE(1), 0);
    um_view y = PUT_F32(&f, SHAPE(1), 0);
    zero.shape[0] = COUNT;
    zero.stride[0] = 0;
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_ADD, &zero, &values, &y));
    face_get(&f, &y, &got);
    CHECK(got == (float)(COUNT * (double)0.1f));
    free(tenths);
    face_close(&f);
}

static void test_integers(void)
{
    face f = face_open();
    um_view y = face_put(&f, UM_U8, SHAPE(3), (const uint8_t[]){250, 3, 200});
    um_view indices = PUT_I32(&f, SHAPE(4), 0, 0, 1, 2);
    um_view values = face_put(&f, UM_U8, SHAPE(4), (const uint8_t[]){5, 6, 255, 100});
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_ADD, &indices, &values, &y));
    CHECK(face_holds(&f, &y, (const uint8_t[]){5, 2, 44}));
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_MAX, &indices, &values, &y));
    CHECK(face_holds(&f, &y, (const uint8_t[]){6, 255, 100}));
    um_view bools = face_put(&f, UM_BOOL, SHAPE(3), (const uint8_t[]){0, 1, 0});
    um_view truths = face_put(&f, UM_BOOL, SHAPE(4), (const uint8_t[]){1, 0, 0, 1});
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_MAX, &indices, &truths, &bools));
    CHECK(face_holds(&f, &bools, (const uint8_t[]){1, 1, 1}));
    CHECK_FAILS(um_scatter_view(f.stream, 0, UM_SCATTER_ADD, &indices, &truths, &bools),
                UM_INVALID_ARGUMENT, "scatter: bool has no add and no mul");
    face_close(&f);
}

/* ---- positions --------------------------------------------------------------------------------
 */

static void test_nonzero(void)
{
    face f = face_open();
    um_view x = PUT_F32(&f, SHAPE(2, 3), 0, NAN, -0.0f, 4, 0, 6);
    um_view indices = face_put(&f, UM_I64, SHAPE(4, 2), NULL);
    um_view count = face_put(&f, UM_I64, SHAPE(1), NULL);
    CHECK_OK(um_nonzero_view(f.stream, &x, &indices, &count));
    CHECK(face_holds(&f, &indices, (const int64_t[]){0, 1, 1, 0, 1, 2, -1, -1}));
    CHECK(face_holds(&f, &count, (const int64_t[]){3}));
    um_view few = indices;
    few.shape[0] = 2;
    CHECK_OK(um_fill(f.stream, indices.ptr, 64, "\x07", 1));
    CHECK_OK(um_nonzero_view(f.stream, &x, &few, &count));
    const int64_t sevens = 0x0707070707070707;
    CHECK(face_holds(&f, &indices, (const int64_t[]){0, 1, 1, 0, sevens, sevens, sevens, sevens}));
    CHECK(face_holds(&f, &count, (const int64_t[]){3}));
    few.shape[0] = 0;
    CHECK_OK(um_nonzero_view(f.stream, &x, &few, &count)); /* only counts */
    CHECK(face_holds(&f, &count, (const int64_t[]){3}));
    face_close(&f);
}

/* ---- what every op refuses and allows ----------------------------------------------------------
 */

static void test_nothing_to_do(void)
{
    face f = face_open();
    um_view none, big;
    CHECK_OK(um_view_make(0, UM_F32, SHAPE(0), &none));
    um_view no_index = none;
    no_index.dtype = UM_I32;
    CHECK_OK(um_gather_view(f.stream, 0, &none, &no_index, &none));
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_ADD, &no_index, &none, &none));
    CHECK_OK(um_view_make(0, UM_F32, SHAPE((int64_t)1 << 59, 0), &big));
    CHECK_OK(um_index_add_view(f.stream, 0, &no_index, &none, &none));
    um_view y = PUT_F32(&f, SHAPE(2), 5, 6);
    CHECK_OK(um_scatter_view(f.stream, 0, UM_SCATTER_ADD, &no_index, &none, &y));
    CHECK(HOLDS_F32(&f, y, 5, 6));
    /* 2^62 indices of one and the same */
    um_view endless = PUT_I32(&f, SHAPE(1), 0);
    endless.shape[0] = (int64_t)1 << 62;
    endless.stride[0] = 0;
    um_view hot = y;
    CHECK_FAILS(um_one_hot_view(f.stream, &endless, &hot), UM_INVALID_ARGUMENT, "one_hot: ");
    face_close(&f);
}

static void test_refusals(void)
{
    face f = face_open();
    um_view x = PUT_F32(&f, SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    um_view indices = PUT_I32(&f, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    um_view y = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    um_view wrong = y;
    CHECK_FAILS(um_gather_view(f.stream, 2, &x, &indices, &y), UM_INVALID_ARGUMENT,
                "gather: axis 2 is outside f32[2,3]");
    CHECK_FAILS(um_gather_view(f.stream, 0, &x, &y, &y), UM_INVALID_ARGUMENT,
                "indices must be i32 or i64: it is f32[2,3]");
    CHECK_FAILS(um_gather_view(f.stream, 0, &x, NULL, &y), UM_INVALID_ARGUMENT,
                "gather: indices is NULL");
    CHECK_FAILS(um_gather_view(NULL, 0, &x, &indices, &y), UM_INVALID_ARGUMENT, "stream is NULL");
    CHECK_FAILS(um_gather_view(f.stream, 0, &x, &indices, &x), UM_INVALID_ARGUMENT,
                "gather: output 0 overlaps input 0");
    CHECK_FAILS(um_scatter_view(f.stream, 0, 5, &indices, &y, &x), UM_INVALID_ARGUMENT,
                "mode must be assign, add, mul, min or max (0 to 4), got 5");
    CHECK_FAILS(um_scatter_view(f.stream, 0, 0, &indices, &x, &x), UM_INVALID_ARGUMENT,
                "output 0 overlaps input 2");
    wrong.dtype = UM_I32;
    CHECK_FAILS(um_scatter_view(f.stream, 0, 0, &indices, &wrong, &x), UM_INVALID_ARGUMENT,
                "dtypes differ: y is f32[2,3], values is i32[2,3]");
    wrong = y;
    wrong.shape[0] = 1;
    CHECK_FAILS(um_scatter_view(f.stream, 0, 0, &indices, &wrong, &x), UM_INVALID_ARGUMENT,
                "wrong shape of values");
    wrong = y;
    wrong.stride[0] = 0;
    CHECK_FAILS(um_gather_view(f.stream, 0, &x, &indices, &wrong), UM_INVALID_ARGUMENT,
                "elements of the output overlap each other");
    wrong = y;
    wrong.ptr += 1000;
    CHECK_FAILS(um_gather_view(f.stream, 0, &x, &indices, &wrong), UM_INVALID_ARGUMENT,
                "is not inside one live allocation");
    CHECK(HOLDS_F32(&f, x, 1, 2, 3, 4, 5, 6));
    face_close(&f);
}

/* The whole op lets y be copied instead; the old y stays. */
static void test_scatter_out_of_place(void)
{
    face f = face_open();
    um_op op = {.id = UM_OP_SCATTER, .in_count = 3, .out_count = 1};
    op.in[0] = PUT_F32(&f, SHAPE(3), 1, 2, 3);
    op.in[1] = PUT_I32(&f, SHAPE(2), 2, 2);
    op.in[2] = PUT_F32(&f, SHAPE(2), 10, 20);
    op.out[0] = face_put(&f, UM_F32, SHAPE(3), NULL);
    op.attrs.index.mode = UM_SCATTER_ADD;
    CHECK_OK(um_enqueue(f.stream, &op));
    CHECK(HOLDS_F32(&f, op.out[0], 1, 2, 33));
    CHECK(HOLDS_F32(&f, op.in[0], 1, 2, 3));
    face_close(&f);
}

/* ---- threads, gradients ------------------------------------------------------------------------
 */

enum { MANY = 100000, ROWS = 700, WIDTH = 40 };

static void random_numbers(float *x, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

static void random_indices(int32_t *x, int64_t n, int32_t size, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (int32_t)((seed >> 8) % (uint32_t)size);
    }
}

/* One long line, joined: values meet in few and in many elements. */
static void add_many(face *f, void *bits)
{
    float *values = malloc(MANY * sizeof *values);
    int32_t *indices = malloc(MANY * sizeof *indices);
    random_numbers(values, MANY, 1);
    random_indices(indices, MANY, ROWS, 2);
    for (int i = 0; i < MANY / 3; i++) indices[i] = 5;
    um_view y = face_put(f, UM_F32, SHAPE(ROWS), NULL);
    um_view at = face_put(f, UM_I32, SHAPE(MANY), indices);
    um_view v = face_put(f, UM_F32, SHAPE(MANY), values);
    CHECK_OK(um_fill(f->stream, y.ptr, ROWS * sizeof(float), "\0\0\0\0", 4));
    CHECK_OK(um_scatter_view(f->stream, 0, UM_SCATTER_ADD, &at, &v, &y));
    face_get(f, &y, bits);
    free(values);
    free(indices);
}

static void add_rows(face *f, void *bits)
{
    enum { COUNT = 3000 };
    float *values = malloc(COUNT * WIDTH * sizeof *values);
    int32_t *indices = malloc(COUNT * sizeof *indices);
    random_numbers(values, COUNT * WIDTH, 3);
    random_indices(indices, COUNT, ROWS, 4);
    um_view y = face_put(f, UM_F32, SHAPE(ROWS, WIDTH), NULL);
    um_view at = face_put(f, UM_I32, SHAPE(COUNT), indices);
    um_view v = face_put(f, UM_F32, SHAPE(COUNT, WIDTH), values);
    CHECK_OK(um_embedding_backward(f->stream, &v, &at, &y));
    face_get(f, &y, bits);
    free(values);
    free(indices);
}

/* Many short lines, and gathers of them. */
static void add_lines(face *f, void *bits)
{
    enum { LINES = 2000, LINE = 30 };
    float *values = malloc(LINES * LINE * sizeof *values);
    int32_t *indices = malloc(LINES * LINE * sizeof *indices);
    random_numbers(values, LINES * LINE, 5);
    random_indices(indices, LINES * LINE, LINE, 6);
    um_view y = face_put(f, UM_F32, SHAPE(LINES, LINE), values);
    um_view at = face_put(f, UM_I32, SHAPE(LINES, LINE), indices);
    um_view v = face_put(f, UM_F32, SHAPE(LINES, LINE), values);
    um_view z = face_put(f, UM_F32, SHAPE(LINES, LINE), NULL);
    CHECK_OK(um_scatter_view(f->stream, 1, UM_SCATTER_ADD, &at, &v, &y));
    CHECK_OK(um_scatter_view(f->stream, 1, UM_SCATTER_ASSIGN, &at, &v, &y));
    CHECK_OK(um_gather_view(f->stream, 1, &y, &at, &z));
    face_get(f, &z, bits);
    free(values);
    free(indices);
}

static void find_nonzero(face *f, void *bits)
{
    int32_t *x = malloc(MANY * sizeof *x);
    random_indices(x, MANY, 3, 7);
    um_view v = face_put(f, UM_I32, SHAPE(MANY / 100, 100), x);
    um_view indices = face_put(f, UM_I64, SHAPE(MANY, 2), NULL);
    CHECK_OK(um_nonzero_view(f->stream, &v, &indices, NULL));
    face_get(f, &indices, bits);
    free(x);
}

static void test_same_bits_for_any_threads(void)
{
    CHECK(same_for_any_threads(add_many, ROWS * sizeof(float)));
    CHECK(same_for_any_threads(add_rows, (size_t)ROWS * WIDTH * sizeof(float)));
    CHECK(same_for_any_threads(add_lines, (size_t)2000 * 30 * sizeof(float)));
    CHECK(same_for_any_threads(find_nonzero, (size_t)MANY * 2 * sizeof(int64_t)));
}

/* A long line against the same sums done here. */
static void test_long_line(void)
{
    float *got = calloc(ROWS, sizeof *got), *values = malloc(MANY * sizeof *values);
    int32_t *indices = malloc(MANY * sizeof *indices);
    double want[ROWS] = {0};
    face f = face_open();
    add_many(&f, got);
    random_numbers(values, MANY, 1);
    random_indices(indices, MANY, ROWS, 2);
    for (int i = 0; i < MANY; i++) want[i < MANY / 3 ? 5 : indices[i]] += (double)values[i];
    int wrong = 0;
    for (int i = 0; i < ROWS; i++)
        wrong += fabs((double)got[i] - want[i]) > 1e-7 * (1 + fabs(want[i]));
    CHECK_MSG(wrong == 0, "%d", wrong);
    free(got);
    free(values);
    free(indices);
    face_close(&f);
}

/* sum(weight * embedding(table)) by central differences in f64. */
static void test_embedding_gradient(void)
{
    enum { N = 5, D = 3, I = 8 };
    double table[N * D], weight[I * D], gradient[N * D], y[I * D];
    int32_t ids[I] = {0, 3, 3, 1, 4, 0, 3, 1};
    for (int i = 0; i < N * D; i++) table[i] = sin(i);
    for (int i = 0; i < I * D; i++) weight[i] = cos(3 * i);
    face f = face_open();
    um_view vt = face_put(&f, UM_F64, SHAPE(N, D), table), vi = face_put(&f, UM_I32, SHAPE(I), ids);
    um_view vw = face_put(&f, UM_F64, SHAPE(I, D), weight),
            vg = face_put(&f, UM_F64, SHAPE(N, D), NULL);
    um_view vy = face_put(&f, UM_F64, SHAPE(I, D), NULL);
    CHECK_OK(um_embedding_backward(f.stream, &vw, &vi, &vg));
    face_get(&f, &vg, gradient);
    for (int i = 0; i < N * D; i++) {
        const double step = 1e-4;
        double loss[2] = {0, 0}, kept = table[i];
        for (int side = 0; side < 2; side++) {
            table[i] = kept + (side ? step : -step);
            CHECK_OK(um_write(f.stream, vt.ptr, table, sizeof table));
            CHECK_OK(um_embedding_forward(f.stream, &vt, &vi, &vy));
            face_get(&f, &vy, y);
            for (int j = 0; j < I * D; j++) loss[side] += weight[j] * y[j];
        }
        table[i] = kept;
        CHECK(fabs((loss[1] - loss[0]) / (2 * step) - gradient[i]) < 1e-9);
    }
    face_close(&f);
}

int main(void)
{
    TEST(test_host_indices);
    TEST(test_gather);
    TEST(test_gather_views);
    TEST(test_bad_index_reads_zero);
    TEST(test_bad_index_is_dropped);
    TEST(test_last_duplicate_wins);
    TEST(test_min_max);
    TEST(test_add_rounds_once);
    TEST(test_add_is_accurate);
    TEST(test_integers);
    TEST(test_nonzero);
    TEST(test_nothing_to_do);
    TEST(test_refusals);
    TEST(test_scatter_out_of_place);
    TEST(test_same_bits_for_any_threads);
    TEST(test_long_line);
    TEST(test_embedding_gradient);
    return TEST_RESULT();
}
