/* Moves through the compute face: views of views, and pad, concat, tile, flip, roll against plain
 * loops over host memory. Copies of every dtype against the oracle: umbel check copy. */
#include "face.h"

#include <math.h>

/* ---- views of views ---------------------------------------------------------------------------
 */

static um_view plain(um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_view v;
    CHECK_OK(um_view_make(0x1000, dtype, rank, shape, &v));
    return v;
}

static void test_slice(void)
{
    um_view x = plain(UM_F32, SHAPE(4, 10)), y;
    CHECK_OK(um_view_slice(&x, 1, 2, 9, 3, &y));
    CHECK(y.ptr == 0x1000 + 8 && y.shape[1] == 3 && y.stride[1] == 3 && y.stride[0] == 10);
    CHECK_OK(um_view_slice(&x, -1, -1, INT64_MIN, -2, &y));
    CHECK(y.ptr == 0x1000 + 36 && y.shape[1] == 5 && y.stride[1] == -2);
    CHECK_OK(um_view_slice(&x, 0, 3, 1, 1, &y));
    CHECK(y.shape[0] == 0 && y.shape[1] == 10);
    CHECK_OK(um_view_slice(&x, 0, 1, INT64_MAX, INT64_MAX, &x)); /* onto itself */
    CHECK(x.shape[0] == 1 && x.ptr == 0x1000 + 40);
    CHECK_FAILS(um_view_slice(&x, 2, 0, 1, 1, &y), UM_INVALID_ARGUMENT, "axis 2 is outside rank 2");
    CHECK_FAILS(um_view_slice(&x, 0, 0, 1, 0, &y), UM_INVALID_ARGUMENT, "step is 0");
    CHECK_FAILS(um_view_slice(NULL, 0, 0, 1, 1, &y), UM_INVALID_ARGUMENT, "x is NULL");
    CHECK_FAILS(um_view_slice(&x, 0, 0, 1, 1, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    um_view far = plain(UM_F32, SHAPE(4)), half = plain(UM_F4E2M1, SHAPE(4));
    far.stride[0] = INT64_MAX / 2;
    CHECK_FAILS(um_view_slice(&far, 0, 3, 4, 1, &y), UM_INVALID_ARGUMENT, "overflows");
    CHECK_FAILS(um_view_slice(&far, 0, 2, 3, 1, &y), UM_INVALID_ARGUMENT, "address space");
    CHECK_FAILS(um_view_slice(&half, 0, 1, 4, 1, &y), UM_INVALID_ARGUMENT, "middle of a byte");
    CHECK(y.rank == 0 && y.dtype == UM_DTYPE_NONE);
    CHECK_OK(um_view_slice(&half, 0, 2, 4, 1, &y));
    CHECK(y.ptr == 0x1001);
    far.rank = 9;
    CHECK_FAILS(um_view_slice(&far, 0, 2, 3, 1, &y), UM_INVALID_ARGUMENT, "rank of 0 to 8");
}

static void test_other_views(void)
{
    um_view x = plain(UM_I16, SHAPE(2, 3, 4)), y;
    CHECK_OK(um_view_permute(&x, (int32_t[]){2, 0, -2}, &y));
    CHECK(y.shape[0] == 4 && y.shape[1] == 2 && y.shape[2] == 3 && y.stride[0] == 1 &&
          y.stride[1] == 12 && y.stride[2] == 4);
    CHECK_FAILS(um_view_permute(&x, (int32_t[]){2, 0, 0}, &y), UM_INVALID_ARGUMENT, "each of 3");
    CHECK_FAILS(um_view_permute(&x, NULL, &y), UM_INVALID_ARGUMENT, "axes is NULL");
    CHECK_OK(um_view_flip(&x, UM_AXIS(0) | UM_AXIS(-1), &y));
    CHECK(y.ptr == 0x1000 + 2 * 15 && y.stride[0] == -12 && y.stride[1] == 4 && y.stride[2] == -1);
    CHECK_OK(um_view_flip(&y, UM_AXIS(0) | UM_AXIS(2), &y));
    CHECK(memcmp(&x, &y, sizeof x) == 0);
    CHECK_FAILS(um_view_flip(&x, UM_AXIS(3), &y), UM_INVALID_ARGUMENT, "do not fit rank 3");
    x = plain(UM_I16, SHAPE(3, 1));
    CHECK_OK(um_view_broadcast(&x, SHAPE(2, 3, 4), &y));
    CHECK(y.stride[0] == 0 && y.stride[1] == 1 && y.stride[2] == 0 && y.shape[2] == 4);
    CHECK_OK(um_view_broadcast(&x, SHAPE(3, 0), &y));
    CHECK_FAILS(um_view_broadcast(&x, SHAPE(2, 4), &y), UM_INVALID_ARGUMENT,
                "i16[3,1] does not broadcast to i16[2,4]");
    CHECK_FAILS(um_view_broadcast(&x, SHAPE(3), &y), UM_INVALID_ARGUMENT, "does not broadcast");
    CHECK_FAILS(um_view_broadcast(&x, SHAPE(3, -1), &y), UM_INVALID_ARGUMENT, "negative size");
}

/* ---- moves against loops ----------------------------------------------------------------------
 */

enum { ROWS = 3, COLUMNS = 5, MOST = 400 };

static int32_t element(int64_t row, int64_t column) { return (int32_t)(100 * row + column); }

static um_view put_x(face *f)
{
    int32_t x[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = element(i / COLUMNS, i % COLUMNS);
    return face_put(f, UM_I32, SHAPE(ROWS, COLUMNS), x);
}

/* Which of n elements place i shows, -1: none. */
static int64_t shown(um_pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == UM_PAD_EDGE) return i < 0 ? 0 : n - 1;
    if (mode == UM_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    return mode == UM_PAD_WRAP ? (i + n) % n : -1;
}

static void check_pad(um_pad_mode mode, int64_t top, int64_t bottom, int64_t left, int64_t right)
{
    face f = face_open();
    int64_t rows = top + ROWS + bottom, columns = left + COLUMNS + right;
    int32_t want[MOST];
    um_view x = put_x(&f), y = face_put(&f, UM_I32, SHAPE(rows, columns), NULL);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int64_t row = shown(mode, i - top, ROWS), column = shown(mode, j - left, COLUMNS);
            want[i * columns + j] = row < 0 || column < 0 ? -7 : element(row, column);
        }
    CHECK_OK(um_pad_view(f.stream, mode, (int64_t[]){top, left}, (um_number){-7, -7}, &x, &y));
    CHECK_MSG(face_holds(&f, &y, want), "mode %d: %d %d %d %d", (int)mode, (int)top, (int)bottom,
              (int)left, (int)right);
    face_close(&f);
}

static void test_pad(void)
{
    for (um_pad_mode mode = UM_PAD_CONSTANT; mode <= UM_PAD_WRAP; mode++) {
        check_pad(mode, 0, 0, 0, 0);
        check_pad(mode, 2, 1, 4, 3);
        check_pad(mode, 0, 2, 0, 4);
        check_pad(mode, 1, 0, 1, 0);
    }
    check_pad(UM_PAD_WRAP, 3, 3, 5, 5);
    check_pad(UM_PAD_EDGE, 7, 0, 0, 9);
    face f = face_open();
    um_view x = put_x(&f), y = face_put(&f, UM_I32, SHAPE(6, 5), NULL), none = x, kept = y;
    const um_number zero = {0, 0};
    CHECK_FAILS(um_pad_view(f.stream, UM_PAD_REFLECT, (int64_t[]){3, 0}, zero, &x, &y),
                UM_INVALID_ARGUMENT, "axis 0 wants 3 elements beyond an end, x has 2 to show");
    CHECK_FAILS(um_pad_view(f.stream, 4, (int64_t[]){1, 0}, zero, &x, &y), UM_INVALID_ARGUMENT,
                "no mode 4");
    CHECK_FAILS(um_pad_view(f.stream, 0, (int64_t[]){4, 0}, zero, &x, &y), UM_INVALID_ARGUMENT,
                "axis 0 is 3 long in x and 6 in y");
    CHECK_FAILS(um_pad_view(f.stream, 0, (int64_t[]){-1, 0}, zero, &x, &y), UM_INVALID_ARGUMENT,
                "axis 0");
    CHECK_FAILS(um_pad_view(f.stream, 0, NULL, zero, &x, &y), UM_INVALID_ARGUMENT,
                "before is NULL");
    none.shape[0] = 0;
    CHECK_FAILS(um_pad_view(f.stream, UM_PAD_EDGE, (int64_t[]){1, 0}, zero, &none, &y),
                UM_INVALID_ARGUMENT, "x has 0 to show");
    kept.ptr += 4; /* reaches beyond its allocation: nothing is written */
    CHECK_FAILS(um_pad_view(f.stream, 0, (int64_t[]){1, 0}, zero, &x, &kept), UM_INVALID_ARGUMENT,
                "not inside one live allocation");
    kept = y, kept.shape[0] = 3;
    CHECK_FAILS(um_pad_view(f.stream, 0, (int64_t[]){0, 0}, zero, &kept, &y), UM_INVALID_ARGUMENT,
                "pad: y overlaps x");
    none = x, none.ptr = 64;
    CHECK_FAILS(um_pad_view(f.stream, 0, (int64_t[]){1, 0}, zero, &none, &y), UM_INVALID_ARGUMENT,
                "input 0");
    int32_t was[30];
    memset(was, 0xa5, sizeof was);
    CHECK(face_holds(&f, &y, was));
    face_close(&f);
}

static void test_tile(void)
{
    face f = face_open();
    int32_t want[9 * 20];
    um_view x = put_x(&f), y = face_put(&f, UM_I32, SHAPE(9, 20), NULL), bad = x;
    for (int i = 0; i < 9 * 20; i++) want[i] = element(i / 20 % ROWS, i % 20 % COLUMNS);
    CHECK_OK(um_tile_view(f.stream, &x, &y));
    CHECK(face_holds(&f, &y, want));
    CHECK_FAILS(um_tile_view(f.stream, &y, &x), UM_INVALID_ARGUMENT, "tile: axis 0 is 9 long in x");
    bad.dtype = UM_F32;
    CHECK_FAILS(um_tile_view(f.stream, &bad, &y), UM_INVALID_ARGUMENT,
                "x is f32 of rank 2, y is i32");
    bad = x, bad.rank = 9;
    CHECK_FAILS(um_tile_view(f.stream, &bad, &y), UM_INVALID_ARGUMENT, "rank of 0 to 8");
    CHECK_FAILS(um_tile_view(f.stream, NULL, &y), UM_INVALID_ARGUMENT, "tile: x is NULL");
    face_close(&f);
}

static void test_concat(void)
{
    face f = face_open();
    um_view x[3] = {put_x(&f), put_x(&f), put_x(&f)}, y = face_put(&f, UM_I32, SHAPE(3, 8), NULL);
    CHECK_OK(um_view_slice(&x[0], 1, 4, 1, -1, &x[0])); /* columns 4 3 2 */
    CHECK_OK(um_view_slice(&x[1], 1, 0, 0, 1, &x[1]));  /* none */
    int32_t want[24];
    for (int i = 0; i < 24; i++) want[i] = element(i / 8, i % 8 < 3 ? 4 - i % 8 : i % 8 - 3);
    CHECK_OK(um_concat_view(f.stream, -1, 3, x, &y));
    CHECK(face_holds(&f, &y, want));
    CHECK_FAILS(um_concat_view(f.stream, 1, 2, x, &y), UM_INVALID_ARGUMENT,
                "8 long in y, all x have 3");
    CHECK_FAILS(um_concat_view(f.stream, 0, 1, x, &y), UM_INVALID_ARGUMENT, "wrong output");
    CHECK_FAILS(um_concat_view(f.stream, 2, 3, x, &y), UM_INVALID_ARGUMENT, "outside rank 2");
    CHECK_FAILS(um_concat_view(f.stream, 0, 0, x, &y), UM_INVALID_ARGUMENT, "got 0 views");
    CHECK_FAILS(um_concat_view(f.stream, 0, 3, NULL, &y), UM_INVALID_ARGUMENT, "x is NULL");
    x[1].dtype = UM_F32;
    CHECK_FAILS(um_concat_view(f.stream, 1, 3, x, &y), UM_INVALID_ARGUMENT, "x is f32");
    CHECK(face_holds(&f, &y, want));
    face_close(&f);
}

static void test_flip_and_roll(void)
{
    face f = face_open();
    int32_t want[ROWS * COLUMNS];
    um_view x = put_x(&f), y = face_put(&f, UM_I32, SHAPE(ROWS, COLUMNS), NULL);
    for (int i = 0; i < 15; i++) want[i] = element(i / 5, 4 - i % 5);
    CHECK_OK(um_flip_view(f.stream, UM_AXIS(1), &x, &y));
    CHECK(face_holds(&f, &y, want));
    CHECK_FAILS(um_flip_view(f.stream, UM_AXIS(1), &x, &x), UM_INVALID_ARGUMENT, "overlaps");
    for (int64_t shift = -12; shift <= 12; shift += 3) {
        for (int i = 0; i < 15; i++) want[i] = element(i / 5, (i % 5 - shift + 50) % 5);
        CHECK_OK(um_roll_view(f.stream, 1, shift, &x, &y));
        CHECK(face_holds(&f, &y, want));
    }
    CHECK_FAILS(um_roll_view(f.stream, 0, 1, &x, &x), UM_INVALID_ARGUMENT, "roll: y overlaps x");
    CHECK_FAILS(um_roll_view(f.stream, 2, 1, &x, &y), UM_INVALID_ARGUMENT, "axis 2");
    face_close(&f);
}

static void test_copy_and_ranges(void)
{
    face f = face_open();
    float x[] = {1.5f, -2, 300};
    um_view vx = face_put(&f, UM_F32, SHAPE(3), x), vy = face_put(&f, UM_I8, SHAPE(2, 3), NULL);
    CHECK_OK(um_copy_view(f.stream, &vx, &vy));
    CHECK(face_holds(&f, &vy, (int8_t[]){1, -2, 127, 1, -2, 127}));
    CHECK_FAILS(um_copy_view(f.stream, &vy, &vx), UM_INVALID_ARGUMENT, "does not broadcast");
    CHECK_FAILS(um_copy_view(f.stream, NULL, &vx), UM_INVALID_ARGUMENT, "copy: x is NULL");
    um_view i = face_put(&f, UM_I32, SHAPE(4), NULL), d = face_put(&f, UM_F64, SHAPE(4), NULL);
    CHECK_OK(um_arange_view(f.stream, (um_number){.i = 3}, (um_number){.i = -2}, &i));
    CHECK(face_holds(&f, &i, (int32_t[]){3, 1, -1, -3}));
    CHECK_OK(um_arange_view(f.stream, (um_number){.f = 0.5}, (um_number){.f = 0.25}, &d));
    CHECK(face_holds(&f, &d, (double[]){0.5, 0.75, 1, 1.25}));
    CHECK_OK(um_fill_view(f.stream, (um_number){.i = -9}, &i));
    CHECK(face_holds(&f, &i, (int32_t[]){-9, -9, -9, -9}));
    face_close(&f);
}

/* E4M3's largest is 448, and 464 lies half way to what would follow it: to even, downwards. */
static void test_overflow(void)
{
    face f = face_open();
    const float data[] = {448, 464, 464.001f, -1e9f, INFINITY, NAN};
    um_view x = face_put(&f, UM_F32, SHAPE(6), data), y = face_put(&f, UM_F8E4M3FN, SHAPE(6), NULL);
    um_view z = face_put(&f, UM_F8E5M2, SHAPE(6), NULL), h = face_put(&f, UM_F16, SHAPE(6), NULL);
    CHECK_OK(um_copy_view(f.stream, &x, &y));
    CHECK(face_holds(&f, &y, (uint8_t[]){0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0x7f}));
    CHECK_OK(um_convert_view(f.stream, UM_OVERFLOW_SATURATE, &x, &y));
    CHECK(face_holds(&f, &y, (uint8_t[]){0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0x7f}));
    CHECK_OK(um_convert_view(f.stream, UM_OVERFLOW_SPECIAL, &x, &y));
    CHECK(face_holds(&f, &y, (uint8_t[]){0x7e, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f}));
    CHECK_OK(um_convert_view(f.stream, UM_OVERFLOW_SPECIAL, &x, &z));
    CHECK(face_holds(&f, &z, (uint8_t[]){0x5f, 0x5f, 0x5f, 0xfc, 0x7c, 0x7e}));
    CHECK_OK(um_convert_view(f.stream, UM_OVERFLOW_SATURATE, &x, &z));
    CHECK(face_holds(&f, &z, (uint8_t[]){0x5f, 0x5f, 0x5f, 0xfb, 0x7b, 0x7e}));
    CHECK_OK(um_convert_view(f.stream, UM_OVERFLOW_SATURATE, &x, &h));
    CHECK(face_holds(&f, &h, (uint16_t[]){0x5f00, 0x5f40, 0x5f40, 0xfbff, 0x7bff, 0x7e00}));
    CHECK_FAILS(um_convert_view(f.stream, 3, &x, &h), UM_INVALID_ARGUMENT, "no overflow rule 3");
    face_close(&f);
}

/* The last is stop, though 0.1 + 9 * ((0.3 - 0.1) / 9) is not 0.3. */
static void test_linspace(void)
{
    face f = face_open();
    double y[10], step = (0.3 - 0.1) / 9;
    um_view v = face_put(&f, UM_F64, SHAPE(10), NULL), one,
            i = face_put(&f, UM_I32, SHAPE(4), NULL);
    CHECK_OK(um_linspace_view(f.stream, 0.1, 0.3, &v));
    face_get(&f, &v, y);
    for (int k = 0; k < 9; k++) CHECK(y[k] == 0.1 + k * step);
    CHECK(y[9] == 0.3);
    CHECK_OK(um_linspace_view(f.stream, -1e308, 1e308, &v));
    face_get(&f, &v, y);
    for (int k = 0; k < 10; k++) CHECK(fabs(y[k] - (k - 4.5) / 4.5 * 1e308) < 1e294);
    CHECK_OK(um_view_slice(&v, 0, 0, 1, 1, &one));
    CHECK_OK(um_linspace_view(f.stream, 5, 7, &one));
    CHECK(face_holds(&f, &one, (double[]){5}));
    CHECK_FAILS(um_linspace_view(f.stream, 5, 7, &i), UM_INVALID_ARGUMENT, "output 0 is i32");
    face_close(&f);
}

int main(void)
{
    TEST(test_slice);
    TEST(test_other_views);
    TEST(test_pad);
    TEST(test_tile);
    TEST(test_concat);
    TEST(test_flip_and_roll);
    TEST(test_copy_and_ranges);
    TEST(test_overflow);
    TEST(test_linspace);
    return TEST_RESULT();
}
