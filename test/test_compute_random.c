/* test/test_compute_random.c: random numbers of the compute face: known answers, distributions,
 * independence of chunks and threads. Every bit against the oracle: umbel check. */
#include "face.h"

#include <math.h>

/* Known answers of Random123's philox4x32_10; those of its other two vectors need counters beyond
 * 64 bits. */
static void test_known_answers(void)
{
    face f = face_open();
    um_view y = face_put(&f, UM_U32, SHAPE(5), NULL);
    um_random_desc bits = {.kind = UM_RANDOM_BITS};
    const uint32_t wanted[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t got[5], next[5];
    CHECK_OK(um_random_view(f.stream, &bits, &y));
    face_get(&f, &y, got);
    CHECK(memcmp(got, wanted, sizeof wanted) == 0);
    bits.offset = 1;
    CHECK_OK(um_random_view(f.stream, &bits, &y));
    face_get(&f, &y, next);
    CHECK(next[0] == got[4]);
    face_close(&f);
}

/* Turned and sliced outputs hold the numbers of their row-major places. */
static void test_strided(void)
{
    face f = face_open();
    um_random_desc uniform = {.seed = 9};
    float packed[35], turned[35];
    um_view y = face_put(&f, UM_F32, SHAPE(5, 7), NULL);
    CHECK_OK(um_random_view(f.stream, &uniform, &y));
    face_get(&f, &y, packed);
    um_view t = y;
    t.stride[0] = 1;
    t.stride[1] = 5;
    CHECK_OK(um_random_view(f.stream, &uniform, &t));
    face_get(&f, &y, turned);
    for (int i = 0; i < 35; i++) CHECK(turned[i % 7 * 5 + i / 7] == packed[i]);
    face_close(&f);
}

enum { MANY = 100000 };

static void test_distributions(void)
{
    face f = face_open();
    um_view y = face_put(&f, UM_F32, SHAPE(MANY), NULL);
    float *x = malloc(MANY * sizeof *x);
    double sum = 0, squares = 0, low = 1, high = 0;
    um_random_desc desc = {.seed = 1};
    CHECK_OK(um_random_view(f.stream, &desc, &y));
    face_get(&f, &y, x);
    for (int i = 0; i < MANY; i++) {
        sum += (double)x[i];
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
    }
    CHECK(low >= 0 && low < 1e-3 && high < 1 && high > 0.999 && fabs(sum / MANY - 0.5) < 0.005);
    desc = (um_random_desc){.kind = UM_RANDOM_NORMAL, .seed = 2, .a = 3, .b = 2};
    CHECK_OK(um_random_view(f.stream, &desc, &y));
    face_get(&f, &y, x);
    sum = 0;
    for (int i = 0; i < MANY; i++) {
        sum += (double)x[i];
        squares += ((double)x[i] - 3) * ((double)x[i] - 3);
    }
    CHECK(fabs(sum / MANY - 3) < 0.03 && fabs(squares / MANY - 4) < 0.1);
    free(x);
    face_close(&f);
}

static void test_bernoulli(void)
{
    face f = face_open();
    um_view y = face_put(&f, UM_BOOL, SHAPE(1000), NULL);
    uint8_t x[1000];
    const double p[] = {0, 1, 0.25};
    for (int k = 0; k < 3; k++) {
        um_random_desc desc = {.kind = UM_RANDOM_BERNOULLI, .seed = 3, .a = p[k]};
        int count = 0;
        CHECK_OK(um_random_view(f.stream, &desc, &y));
        face_get(&f, &y, x);
        for (int i = 0; i < 1000; i++) count += x[i];
        CHECK(k < 2 ? count == 1000 * k : count > 200 && count < 300);
    }
    face_close(&f);
}

static void test_permutation(void)
{
    enum { COUNT = 5000 };
    face f = face_open();
    um_view y = face_put(&f, UM_I32, SHAPE(COUNT), NULL);
    int32_t x[COUNT];
    char seen[COUNT] = {0};
    int fixed = 0, missing = 0;
    um_random_desc desc = {.kind = UM_RANDOM_PERMUTATION, .seed = 4};
    CHECK_OK(um_random_view(f.stream, &desc, &y));
    face_get(&f, &y, x);
    for (int i = 0; i < COUNT; i++) {
        CHECK(x[i] >= 0 && x[i] < COUNT);
        seen[x[i]] = 1;
        fixed += x[i] == i;
    }
    for (int i = 0; i < COUNT; i++) missing += !seen[i];
    CHECK(missing == 0 && fixed < 10);
    face_close(&f);
}

static void test_dropout(void)
{
    face f = face_open();
    float x[100], y[100];
    uint8_t kept[100];
    for (int i = 0; i < 100; i++) x[i] = i == 50 ? NAN : (float)(i + 1);
    um_view vx = face_put(&f, UM_F32, SHAPE(100), x),
            mask = face_put(&f, UM_BOOL, SHAPE(100), NULL);
    um_view vy = face_put(&f, UM_F32, SHAPE(100), NULL);
    CHECK_OK(um_dropout_view(f.stream, 5, 0, 0.5, &vx, &vy, &mask));
    face_get(&f, &vy, y);
    face_get(&f, &mask, kept);
    int count = 0;
    for (int i = 0; i < 100; i++) {
        count += kept[i];
        if (i != 50) CHECK(y[i] == (kept[i] ? 2 * x[i] : 0));
    }
    CHECK(count > 30 && count < 70 && (kept[50] ? isnan(y[50]) : y[50] == 0));
    CHECK_OK(um_dropout_view(f.stream, 5, 0, 0.5, &vx, &vx, NULL)); /* in place */
    CHECK(face_holds(&f, &vx, y) || kept[50]);
    CHECK_OK(um_dropout_view(f.stream, 5, 0, 1, &vx, &vy, NULL));
    face_get(&f, &vy, y);
    for (int i = 0; i < 100; i++) CHECK(y[i] == 0 && !signbit(y[i]));
    face_close(&f);
}

static void test_refusals(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(4), NULL), y = face_put(&f, UM_I32, SHAPE(2, 2), NULL);
    um_random_desc desc = {.kind = 9};
    CHECK_FAILS(um_random_view(f.stream, &desc, &x), UM_INVALID_ARGUMENT, "there is no kind 9");
    CHECK_FAILS(um_random_view(f.stream, NULL, &x), UM_INVALID_ARGUMENT, "desc is NULL");
    desc.kind = UM_RANDOM_UNIFORM;
    CHECK_FAILS(um_random_view(f.stream, &desc, NULL), UM_INVALID_ARGUMENT, "y is NULL");
    CHECK_FAILS(um_random_view(f.stream, &desc, &y), UM_INVALID_ARGUMENT, "output 0 is i32");
    desc.b = (double)INFINITY;
    CHECK_FAILS(um_random_view(f.stream, &desc, &x), UM_INVALID_ARGUMENT, "must be finite");
    desc = (um_random_desc){.kind = UM_RANDOM_PERMUTATION};
    CHECK_FAILS(um_random_view(f.stream, &desc, &y), UM_INVALID_ARGUMENT, "rank 1");
    desc = (um_random_desc){.kind = UM_RANDOM_BERNOULLI, .a = (double)NAN};
    CHECK_FAILS(um_random_view(f.stream, &desc, &x), UM_INVALID_ARGUMENT, "must be 0 to 1");
    CHECK_FAILS(um_dropout_view(f.stream, 0, 0, 1.5, &x, &x, NULL), UM_INVALID_ARGUMENT,
                "dropout: the probability must be 0 to 1, got 1.5");
    face_close(&f);
}

static void draw_all(face *f, void *bits)
{
    um_view y = face_put(f, UM_F32, SHAPE(MANY), NULL), d = face_put(f, UM_F64, SHAPE(MANY), NULL);
    um_random_desc desc = {.seed = 7};
    CHECK_OK(um_random_view(f->stream, &desc, &y));
    face_get(f, &y, bits);
    desc.kind = UM_RANDOM_NORMAL;
    CHECK_OK(um_random_view(f->stream, &desc, &d));
    face_get(f, &d, (char *)bits + MANY * sizeof(float));
}

static void test_same_bits_for_any_threads(void)
{
    CHECK(same_for_any_threads(draw_all, MANY * (sizeof(float) + sizeof(double))));
}

int main(void)
{
    TEST(test_known_answers);
    TEST(test_strided);
    TEST(test_distributions);
    TEST(test_bernoulli);
    TEST(test_permutation);
    TEST(test_dropout);
    TEST(test_refusals);
    TEST(test_same_bits_for_any_threads);
    return TEST_RESULT();
}
