/* Softmax and the norms through the compute face: values by hand, offsets and magnitudes that lose
 * what a plain sum of squares would need, running statistics, what is refused, and the same bits
 * for any number of threads. Every dtype and layout against the oracle: umbel check layer_norm, ...
 * Gradients: test_grad.c. */
#include "face.h"

#include <math.h>

static double nearly(double got, double want) { return fabs(got - want) / fmax(1e-30, fabs(want)); }

static void test_softmax(void)
{
    face f = face_open();
    float x[] = {0, logf(3), -INFINITY, -INFINITY}, y[4];
    um_view vx = face_put(&f, UM_F32, SHAPE(2, 2), x), vy = face_put(&f, UM_F32, SHAPE(2, 2), NULL);
    CHECK_OK(um_softmax_forward(f.stream, -1, &vx, &vy));
    face_get(&f, &vy, y);
    CHECK(fabsf(y[0] - 0.25f) < 1e-6f && fabsf(y[1] - 0.75f) < 1e-6f);
    CHECK(isnan(y[2]) && isnan(y[3])); /* a row of -inf */
    CHECK_OK(um_log_softmax_forward(f.stream, 1, &vx, &vy));
    face_get(&f, &vy, y);
    CHECK(fabsf(y[0] - logf(0.25f)) < 1e-6f && fabsf(y[1] - logf(0.75f)) < 1e-6f);
    CHECK(isnan(y[2]) && isnan(y[3]));
    CHECK_FAILS(um_softmax_forward(f.stream, 2, &vx, &vy), UM_INVALID_ARGUMENT,
                "axis 2 is outside");
    CHECK_FAILS(um_softmax_backward(f.stream, 0, &vx, NULL, &vy), UM_INVALID_ARGUMENT,
                "softmax_backward: dy is NULL");
    um_view wide = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    CHECK_FAILS(um_log_softmax_backward(f.stream, 0, &vx, &wide, &vy), UM_INVALID_ARGUMENT,
                "they must be alike");
    face_close(&f);
}

/* Two lines of [-1, 1] and [3, 5], of which the normal is -1 and 1. */
static void test_layer_norm(void)
{
    face f = face_open();
    float x[] = {-1, 1, 3, 5}, w[] = {2, 3}, b[] = {10, 20};
    um_view vx = face_put(&f, UM_F32, SHAPE(2, 2), x), vy = face_put(&f, UM_F32, SHAPE(2, 2), NULL);
    um_view vw = face_put(&f, UM_F32, SHAPE(2), w), vb = face_put(&f, UM_F32, SHAPE(2), b);
    um_view mean = face_put(&f, UM_F32, SHAPE(2), NULL);
    um_view inverse = face_put(&f, UM_F32, SHAPE(2), NULL);
    um_norm_views v = {.x = &vx, .y = &vy};
    CHECK_OK(um_layer_norm_forward(f.stream, NULL, &v));
    CHECK(face_holds(&f, &vy, (float[]){-1, 1, -1, 1}));
    v.b = &vb;
    CHECK_OK(um_layer_norm_forward(f.stream, NULL, &v));
    CHECK(face_holds(&f, &vy, (float[]){9, 21, 9, 21}));
    v.w = &vw, v.mean = &mean, v.inverse = &inverse;
    CHECK_OK(um_layer_norm_forward(f.stream, &(um_norm_desc){.eps = 3}, &v));
    CHECK(face_holds(&f, &vy, (float[]){9, 21.5f, 9, 21.5f}));
    CHECK(face_holds(&f, &mean, (float[]){0, 4}) &&
          face_holds(&f, &inverse, (float[]){0.5f, 0.5f}));
    v = (um_norm_views){.x = &vx, .y = &vy, .w = &vw};
    CHECK_OK(um_rms_norm_forward(f.stream, NULL, &v));
    float y[4];
    face_get(&f, &vy, y);
    CHECK(y[0] == -2 && y[1] == 3 && nearly((double)y[3], 15 / sqrt(17)) < 1e-6);
    face_close(&f);
}

/* Lines of n elements, offset + size * a pattern whose mean is 0 and deviation known. */
static void check_far(um_dtype dtype, double offset, double size, double tolerance)
{
    enum { N = 4000 };
    face f = face_open();
    double x[N], y[N], mean = 0, square = 0;
    float narrow[N];
    for (int i = 0; i < N; i++) {
        x[i] = offset + size * ((i * 37 % 101) - 50) / 50.0;
        narrow[i] = (float)x[i];
        if (dtype == UM_F32) x[i] = (double)narrow[i];
    }
    /* (x - offset) / size: nothing here overflows */
    for (int i = 0; i < N; i++) mean += ((x[i] - offset) / size) / N;
    for (int i = 0; i < N; i++) square += pow((x[i] - offset) / size - mean, 2) / N;
    um_view vx = face_put(&f, dtype, SHAPE(1, 1, N), dtype == UM_F32 ? (void *)narrow : (void *)x);
    um_view vy = face_put(&f, dtype, SHAPE(1, 1, N), NULL);
    um_view rows_x = vx, rows_y = vy; /* of eight channels */
    CHECK_OK(um_view_make(vx.ptr, dtype, SHAPE(1, N / 8, 8), &rows_x));
    CHECK_OK(um_view_make(vy.ptr, dtype, SHAPE(1, N / 8, 8), &rows_y));
    um_norm_views v = {.x = &vx, .y = &vy};
    um_norm_desc d = {.training = 1};
    for (int form = 0; form < 4; form++) {
        if (form == 0) CHECK_OK(um_layer_norm_forward(f.stream, &d, &v));
        if (form == 1) CHECK_OK(um_group_norm_forward(f.stream, &d, &v));
        if (form == 2) CHECK_OK(um_batch_norm_forward(f.stream, &d, &v));
        v.x = &rows_x, v.y = &rows_y, d.layout = UM_CHANNELS_LAST;
        if (form == 3) CHECK_OK(um_group_norm_forward(f.stream, &d, &v));
        v.x = &vx, v.y = &vy, d.layout = UM_CHANNELS_FIRST;
        face_get(&f, &vy, dtype == UM_F32 ? (void *)narrow : (void *)y);
        double worst = 0;
        for (int i = 0; i < N; i++) {
            double want = ((x[i] - offset) / size - mean) / sqrt(square);
            worst = fmax(worst, fabs((dtype == UM_F32 ? (double)narrow[i] : y[i]) - want));
        }
        CHECK_MSG(worst <= tolerance, "%s %g + %g, form %d: off by %g", um_dtype_name(dtype),
                  offset, size, form, worst);
    }
    face_close(&f);
}

static void test_far(void)
{
    check_far(UM_F32, 0, 1, 1e-6);
    check_far(UM_F32, 1e6, 1, 1e-6);
    check_far(UM_F32, -3e7, 300, 1e-6);
    check_far(UM_F32, 0, 1e30, 1e-6);
    check_far(UM_F32, 0, 3e38, 1e-6);
    check_far(UM_F32, 0, 1e-36, 1e-6);
    check_far(UM_F32, 0, 1e-42, 1e-6); /* subnormal */
    check_far(UM_F64, 1e6, 1e-6, 1e-14);
    check_far(UM_F64, 0, 1e200, 1e-14);
    check_far(UM_F64, 0, 1.7e308, 1e-14);
    check_far(UM_F64, 0, 1e-200, 1e-14);
    check_far(UM_F64, 0, 1e-310, 1e-14);
}

static void test_batch_norm(void)
{
    face f = face_open();
    float x[] = {1, 10, 3, 30}; /* [2,2]: channels 1 3 and 10 30 */
    float old_mean[] = {0, 8}, old_var[] = {1, 4};
    um_view vx = face_put(&f, UM_F32, SHAPE(2, 2), x), vy = face_put(&f, UM_F32, SHAPE(2, 2), NULL);
    um_view m = face_put(&f, UM_F32, SHAPE(2), old_mean),
            s = face_put(&f, UM_F32, SHAPE(2), old_var);
    um_view mean = face_put(&f, UM_F32, SHAPE(2), NULL);
    um_view inverse = face_put(&f, UM_F32, SHAPE(2), NULL);
    um_norm_views v = {.x = &vx, .y = &vy, .old_mean = &m, .old_var = &s};
    um_norm_desc d = {.eps = 0};
    CHECK_OK(um_batch_norm_forward(f.stream, &d, &v));
    CHECK(face_holds(&f, &vy, (float[]){1, 1, 3, 11}));
    d.training = 1, d.momentum = 0.75;
    v.mean = &mean, v.inverse = &inverse, v.new_mean = &m, v.new_var = &s; /* in place */
    CHECK_OK(um_batch_norm_forward(f.stream, &d, &v));
    CHECK(face_holds(&f, &vy, (float[]){-1, -1, 1, 1}));
    CHECK(face_holds(&f, &mean, (float[]){2, 20}));
    CHECK(face_holds(&f, &inverse, (float[]){1, 0.1f}));
    CHECK(face_holds(&f, &m, (float[]){0.5f, 11}) && face_holds(&f, &s, (float[]){1, 28}));
    v = (um_norm_views){.x = &vx, .y = &vy};
    CHECK_OK(um_batch_norm_forward(f.stream, &d, &v));
    CHECK(face_holds(&f, &vy, (float[]){-1, -1, 1, 1}));
    face_close(&f);
}

static void test_instance_norm(void)
{
    face f = face_open();
    float x[] = {1, 3, 10, 30, 5, 7, -1, 1};
    um_view vx = face_put(&f, UM_F32, SHAPE(2, 2, 2), x);
    um_view vy = face_put(&f, UM_F32, SHAPE(2, 2, 2), NULL), turned;
    um_norm_views v = {.x = &vx, .y = &vy};
    CHECK_OK(um_instance_norm_forward(f.stream, NULL, &v));
    CHECK(face_holds(&f, &vy, (float[]){-1, 1, -1, 1, -1, 1, -1, 1}));
    CHECK_OK(um_view_permute(&vx, (int32_t[]){0, 2, 1}, &turned));
    v.x = &turned; /* the same as [N, places, C] */
    CHECK_OK(um_instance_norm_forward(f.stream, &(um_norm_desc){.layout = UM_CHANNELS_LAST}, &v));
    CHECK(face_holds(&f, &vy, (float[]){-1, -1, 1, 1, -1, -1, 1, 1}));
    face_close(&f);
}

static void test_refusals(void)
{
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(2, 3), NULL),
            y = face_put(&f, UM_F32, SHAPE(2, 3), NULL);
    um_view w = face_put(&f, UM_F32, SHAPE(2), NULL), d64 = face_put(&f, UM_F64, SHAPE(3), NULL);
    um_view c = face_put(&f, UM_F32, SHAPE(3), NULL), e = face_put(&f, UM_F32, SHAPE(3), NULL);
    um_norm_views v = {.x = &x, .y = &y};
    um_norm_desc d = {.eps = -1};
    CHECK_FAILS(um_layer_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "eps");
    d = (um_norm_desc){.dims = 3};
    CHECK_FAILS(um_layer_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT,
                "dims must be 1 to x's rank, 2, got 3");
    d = (um_norm_desc){.groups = 2};
    CHECK_FAILS(um_group_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT,
                "groups must divide the 3 channels, got 2");
    d = (um_norm_desc){.layout = 2};
    CHECK_FAILS(um_batch_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "layout 2");
    CHECK_FAILS(um_batch_norm_forward(f.stream, NULL, &v), UM_INVALID_ARGUMENT,
                "wants mean and var");
    d = (um_norm_desc){.training = 1, .momentum = 2};
    CHECK_FAILS(um_batch_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "momentum");
    d.momentum = 0.5, v.old_mean = &c;
    CHECK_FAILS(um_batch_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "got one of them");
    v.old_var = &e;
    CHECK_FAILS(um_batch_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "5 outputs");
    v.new_mean = &c, v.new_var = &e;
    CHECK_FAILS(um_batch_norm_forward(f.stream, &d, &v), UM_INVALID_ARGUMENT, "mean is NULL");
    v = (um_norm_views){.x = &x, .y = &y, .w = &w};
    CHECK_FAILS(um_layer_norm_forward(f.stream, NULL, &v), UM_INVALID_ARGUMENT,
                "w is f32[2], wanted is f32[3]");
    v.w = &d64;
    CHECK_FAILS(um_layer_norm_forward(f.stream, NULL, &v), UM_INVALID_ARGUMENT, "w is f64[3]");
    v = (um_norm_views){.x = &x, .dy = &y, .dx = &x};
    CHECK_FAILS(um_layer_norm_backward(f.stream, NULL, &v), UM_INVALID_ARGUMENT, "overlaps input");
    v.dx = NULL;
    CHECK_FAILS(um_layer_norm_backward(f.stream, NULL, &v), UM_INVALID_ARGUMENT, "dx is NULL");
    v = (um_norm_views){.x = &x, .dy = &y, .dx = &x, .db = &c};
    CHECK_FAILS(um_layer_norm_backward(f.stream, NULL, &v), UM_INVALID_ARGUMENT, "dw is NULL");
    CHECK_FAILS(um_rms_norm_forward(f.stream, NULL, NULL), UM_INVALID_ARGUMENT, "views are NULL");
    face_close(&f);
}

/* Gradients of parameters without a line, and of lines without an element. */
static void test_nothing(void)
{
    face f = face_open();
    float dw[3];
    um_view none = face_put(&f, UM_F32, SHAPE(0, 3), NULL),
            flat = face_put(&f, UM_F32, SHAPE(2, 0), NULL);
    um_view w = face_put(&f, UM_F32, SHAPE(3), NULL), b = face_put(&f, UM_F32, SHAPE(3), NULL);
    um_view mean = face_put(&f, UM_F32, SHAPE(2), NULL);
    um_norm_views v = {.x = &none, .dy = &none, .dx = &none, .dw = &w, .db = &b};
    um_norm_desc d = {.training = 1};
    for (int form = 0; form < 3; form++) {
        CHECK_OK(um_fill_view(f.stream, (um_number){.f = 5}, &w));
        if (form == 0) CHECK_OK(um_layer_norm_backward(f.stream, &d, &v));
        if (form == 1) CHECK_OK(um_group_norm_backward(f.stream, &d, &v));
        if (form == 2) CHECK_OK(um_batch_norm_backward(f.stream, &d, &v));
        face_get(&f, &w, dw);
        CHECK(dw[0] == 0 && dw[1] == 0 && dw[2] == 0);
    }
    v = (um_norm_views){.x = &flat, .y = &flat, .mean = &mean};
    CHECK_OK(um_layer_norm_forward(f.stream, NULL, &v));
    face_get(&f, &mean, dw);
    CHECK(isnan(dw[0]) && isnan(dw[1]));
    /* 2^40 samples without a place */
    int64_t many[] = {(int64_t)1 << 40, 3, 0};
    CHECK_OK(um_view_make(0, UM_F32, 3, many, &none));
    v = (um_norm_views){.x = &none, .dy = &none, .dx = &none, .dw = &w, .db = &b};
    CHECK_OK(um_group_norm_backward(f.stream, NULL, &v));
    face_get(&f, &b, dw);
    CHECK(dw[0] == 0 && dw[2] == 0);
    face_close(&f);
}

/* ---- threads ------------------------------------------------------------------------------------
 */

enum { ROWS = 700, COLUMNS = 300, COUNT = ROWS * COLUMNS };

static void run_norms(face *f, void *bits)
{
    float *x = malloc(COUNT * sizeof *x);
    um_view v[2], out = face_put(f, UM_F32, SHAPE(ROWS, COLUMNS), NULL);
    um_view dw = face_put(f, UM_F32, SHAPE(COLUMNS), NULL), db = dw;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < COUNT; i++) x[i] = (float)((i + k) * 7919LL % 10007) / 1000;
        v[k] = face_put(f, UM_F32, SHAPE(ROWS, COLUMNS), x);
    }
    db = face_put(f, UM_F32, SHAPE(COLUMNS), NULL);
    free(x);
    um_norm_views n = {.x = &v[0], .dy = &v[1], .dx = &out, .dw = &dw, .db = &db};
    um_norm_desc d = {.eps = 1e-5, .groups = 20, .training = 1};
    char *to = bits;
    for (int form = 0; form < 3; form++) {
        if (form == 0) CHECK_OK(um_layer_norm_backward(f->stream, &d, &n));
        if (form == 1) CHECK_OK(um_group_norm_backward(f->stream, &d, &n));
        if (form == 2) CHECK_OK(um_batch_norm_backward(f->stream, &d, &n));
        face_get(f, &out, to), to += COUNT * 4;
        face_get(f, &dw, to), to += COLUMNS * 4;
        face_get(f, &db, to), to += COLUMNS * 4;
    }
}

static void test_same_bits_for_any_threads(void)
{
    CHECK(same_for_any_threads(run_norms, 3 * (COUNT + 2 * COLUMNS) * 4));
}

int main(void)
{
    TEST(test_softmax);
    TEST(test_layer_norm);
    TEST(test_far);
    TEST(test_batch_norm);
    TEST(test_instance_norm);
    TEST(test_refusals);
    TEST(test_nothing);
    TEST(test_same_bits_for_any_threads);
    return TEST_RESULT();
}
