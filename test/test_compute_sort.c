/* test/test_compute_sort.c: sort and top-k of the compute face: each rule of the contract for them.
 * Values over shapes, views and dtypes: umbel check. */
#include "face.h"

#include <math.h>

static void test_sort(void)
{
    face f = face_open();
    const float data[] = {3, NAN, -0.0f, 1, 0, -INFINITY, 1};
    um_view x = face_put(&f, UM_F32, SHAPE(7), data);
    um_view values = face_put(&f, UM_F32, SHAPE(7), NULL);
    um_view indices = face_put(&f, UM_I64, SHAPE(7), NULL);
    float got[7];
    CHECK_OK(um_sort_view(f.stream, 0, false, &x, &values, &indices));
    CHECK(face_holds(&f, &indices, (const int64_t[]){5, 2, 4, 3, 6, 0, 1}));
    face_get(&f, &values, got);
    CHECK(got[0] == -INFINITY && signbit(got[1]) && !signbit(got[2]) && got[5] == 3);
    CHECK(isnan(got[6]));
    CHECK_OK(um_sort_view(f.stream, -1, true, &x, NULL, &indices)); /* equals keep their order */
    CHECK(face_holds(&f, &indices, (const int64_t[]){1, 0, 3, 6, 2, 4, 5}));
    CHECK_OK(um_sort_view(f.stream, 0, true, &x, &values, NULL));
    face_get(&f, &values, got);
    CHECK(isnan(got[0]) && got[1] == 3 && got[6] == -INFINITY);
    face_close(&f);
}

static void test_topk(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_I16, SHAPE(2, 4), (const int16_t[]){5, -7, 5, 9, 0, 0, -1, 0});
    um_view values = face_put(&f, UM_I16, SHAPE(2, 2), NULL);
    um_view indices = face_put(&f, UM_I64, SHAPE(2, 2), NULL);
    CHECK_OK(um_topk_view(f.stream, 1, false, &x, &values, &indices));
    CHECK(face_holds(&f, &values, (const int16_t[]){9, 5, 0, 0}));
    CHECK(face_holds(&f, &indices, (const int64_t[]){3, 0, 0, 1}));
    CHECK_OK(um_topk_view(f.stream, 1, true, &x, NULL, &indices));
    CHECK(face_holds(&f, &indices, (const int64_t[]){1, 0, 2, 0}));
    um_view wide = face_put(&f, UM_I16, SHAPE(2, 5), NULL);
    CHECK_FAILS(um_topk_view(f.stream, 1, true, &x, &wide, NULL), UM_INVALID_ARGUMENT,
                "topk: k is 5, wants 0 to the size of axis 1 of i16[2,4]");
    CHECK_FAILS(um_topk_view(f.stream, 2, true, &x, &values, NULL), UM_INVALID_ARGUMENT,
                "topk: axis 2 is outside x: x is i16[2,4]");
    CHECK_FAILS(um_sort_view(f.stream, 0, true, &x, NULL, NULL), UM_INVALID_ARGUMENT,
                "sort: values is NULL");
    CHECK_FAILS(um_sort_view(f.stream, 0, true, &x, &x, NULL), UM_INVALID_ARGUMENT,
                "output 0 overlaps input 0");
    face_close(&f);
}

static void test_nothing_to_do(void)
{
    face f = face_open();
    um_view none, places;
    CHECK_OK(um_view_make(0, UM_F32, SHAPE(3, 0), &none));
    CHECK_OK(um_view_make(0, UM_I64, SHAPE(3, 0), &places));
    CHECK_OK(um_sort_view(f.stream, 0, false, &none, &none, &places));
    CHECK_OK(um_sort_view(f.stream, 1, false, &none, &none, NULL));
    CHECK_OK(um_topk_view(f.stream, 1, false, &none, NULL, &places));
    face_close(&f);
}

/* Few different values, so that only stability decides between most. */
enum { MANY = 100000, KEPT = 1000 };

static void sort_many(face *f, void *bits)
{
    uint32_t seed = 1;
    float *x = malloc(MANY * sizeof *x);
    for (int i = 0; i < MANY; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 20) - 2000;
    }
    um_view v = face_put(f, UM_F32, SHAPE(MANY), x);
    um_view places = face_put(f, UM_I64, SHAPE(MANY), NULL);
    um_view rows = v, kept = face_put(f, UM_I64, SHAPE(MANY / 1000, 10), NULL);
    rows.rank = 2;
    rows.shape[0] = MANY / 1000;
    rows.shape[1] = 1000;
    rows.stride[0] = 1000;
    rows.stride[1] = 1;
    CHECK_OK(um_sort_view(f->stream, 0, true, &v, NULL, &places));
    face_get(f, &places, bits);
    const int64_t *place = bits;
    int wrong = 0;
    for (int i = 1; i < MANY; i++) {
        float a = x[place[i - 1]], b = x[place[i]];
        wrong += a < b || (a == b && place[i - 1] > place[i]);
    }
    CHECK_MSG(wrong == 0, "%d", wrong);
    CHECK_OK(um_topk_view(f->stream, 1, false, &rows, NULL, &kept));
    face_get(f, &kept, (int64_t *)bits + MANY);
    kept = face_put(f, UM_I64, SHAPE(KEPT), NULL);
    CHECK_OK(um_topk_view(f->stream, 0, false, &v, NULL, &kept));
    CHECK(face_holds(f, &kept, bits)); /* by a heap what the sort gave */
    free(x);
}

static void test_same_bits_for_any_threads(void)
{
    CHECK(same_for_any_threads(sort_many, (MANY + MANY / 100) * sizeof(int64_t)));
}

int main(void)
{
    TEST(test_sort);
    TEST(test_topk);
    TEST(test_nothing_to_do);
    TEST(test_same_bits_for_any_threads);
    return TEST_RESULT();
}
