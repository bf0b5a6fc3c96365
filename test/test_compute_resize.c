/* Resizing through the compute face: known values, the rules, the gradients against central
 * differences, and the same bits for any number of threads. Every dtype and layout against the
 * oracle: umbel check resize. */
#include "backend/cpu/cpu.h"
#include "compute_util.h"

#define DIMS(...)                                                                                  \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }

static void check_resize(um_resize_desc d, int64_t in, const double *x, int64_t out,
                         const double *want)
{
    tensor a = tensor_make(DIMS(1, 1, in)), b = tensor_make(DIMS(1, 1, out));
    memcpy(a.value, x, (size_t)in * 8);
    tensor_write(&a), tensor_spoil(&b);
    CHECK_OK(um_resize_forward(stream, &d, &a.view, &b.view));
    tensor_read(&b);
    for (int64_t i = 0; i < out; i++)
        CHECK_MSG(fabs(b.value[i] - want[i]) < 1e-12 || (isnan(want[i]) && isnan(b.value[i])),
                  "mode %d, place %lld: %.17g, want %.17g", (int)d.mode, (long long)i, b.value[i],
                  want[i]);
    tensor_free(&a), tensor_free(&b);
}

/* By hand, from the rule. */
static void values(void)
{
    const double nan = (double)NAN, x[] = {1, 2, 4, 8};
    um_resize_desc nearest = {0}, linear = {.mode = UM_RESIZE_LINEAR};
    um_resize_desc cubic = {.mode = UM_RESIZE_CUBIC}, corners = {0, UM_RESIZE_LINEAR, 1};
    check_resize(nearest, 4, x, 6, (double[]){1, 1, 2, 4, 4, 8});
    check_resize(nearest, 4, x, 3, (double[]){1, 2, 4});
    check_resize(linear, 4, x, 8, (double[]){1, 1.25, 1.75, 2.5, 3.5, 5, 7, 8});
    check_resize(linear, 4, x, 2, (double[]){1.5, 6});
    check_resize(corners, 4, x, 7, (double[]){1, 1.5, 2, 3, 4, 6, 8});
    check_resize(corners, 4, x, 1, (double[]){1});
    check_resize(cubic, 4, x, 2, (double[]){1.3125, 6.1875});
    /* What is met exactly takes nothing from its neighbours, NaN not either. */
    const double y[] = {1, nan, 3};
    check_resize(linear, 3, y, 3, y);
    check_resize(cubic, 3, y, 3, y);
    check_resize(corners, 3, y, 5, (double[]){1, nan, nan, nan, 3});
}

/* ---- rules ----------------------------------------------------------------------------------- */

static um_view view(int32_t rank, const int64_t *shape)
{
    um_view v;
    CHECK_OK(um_view_make(0, UM_F32, rank, shape, &v));
    return v;
}

static void refuse(const um_resize_desc *d, um_view x, um_view y, const char *why)
{
    CHECK_FAILS(um_resize_forward(stream, d, &x, &y), UM_INVALID_ARGUMENT, why);
    CHECK_FAILS(um_resize_backward(stream, d, &y, &x), UM_INVALID_ARGUMENT, why);
}

static void rules(void)
{
    um_view x = view(DIMS(2, 3, 4, 5)), y = view(DIMS(2, 3, 6, 6)), none = view(DIMS(2, 3, 0, 5));
    refuse(&(um_resize_desc){.mode = 3}, x, y, "mode 3");
    refuse(&(um_resize_desc){.layout = 2}, x, y, "layout 2");
    refuse(NULL, x, view(DIMS(2, 4, 6, 6)), "channels differ");
    refuse(NULL, x, view(DIMS(2, 3, 6)), "caller names");
    refuse(NULL, view(DIMS(2, 3)), view(DIMS(2, 3)), "rank");
    refuse(NULL, none, y, "nothing to take from");
    int64_t large = (int64_t)1 << 31;
    refuse(NULL, view(DIMS(1, 1, large)), view(DIMS(1, 1, large)), "overflow");
    CHECK_FAILS(um_resize_forward(stream, NULL, NULL, &y), UM_INVALID_ARGUMENT, "x is NULL");
    CHECK_FAILS(um_resize_backward(stream, NULL, &y, NULL), UM_INVALID_ARGUMENT, "dx is NULL");
    CHECK_OK(um_resize_forward(stream, NULL, &x, &none));
    CHECK_OK(um_resize_backward(stream, NULL, &none, &none));
}

/* The gradient of an empty y is 0, and its pointer may be NULL. */
static void empty(void)
{
    tensor dx = tensor_make(DIMS(1, 1, 4));
    um_view dy;
    CHECK_OK(um_view_make(0, UM_F64, DIMS(1, 1, 0), &dy));
    tensor_spoil(&dx);
    CHECK_OK(um_resize_backward(stream, NULL, &dy, &dx.view));
    tensor_read(&dx);
    for (int64_t i = 0; i < dx.count; i++) CHECK(dx.value[i] == 0);
    tensor_free(&dx);
}

/* ---- gradients, threads -----------------------------------------------------------------------
 */

typedef struct layer {
    um_resize_desc desc;
    tensor x, y;
} layer;

static void run_layer(void *ctx)
{
    layer *l = ctx;
    CHECK_OK(um_resize_forward(stream, &l->desc, &l->x.view, &l->y.view));
}

static void gradient(um_resize_desc d, int32_t rank, const int64_t *x, const int64_t *y)
{
    layer l = {d, tensor_make(rank, x), tensor_make(rank, y)};
    tensor seed = tensor_make(rank, y), dx = tensor_make(rank, x);
    tensor_random(&l.x), tensor_random(&seed), tensor_spoil(&dx);
    CHECK_OK(um_resize_backward(stream, &d, &seed.view, &dx.view));
    check_gradient(&l.x, &dx, &l.y, &seed, run_layer, &l, "resize");
    tensor_free(&l.x), tensor_free(&l.y), tensor_free(&seed), tensor_free(&dx);
}

static void gradients(void)
{
    for (int32_t i = 0; i < 6; i++) {
        um_resize_desc d = {.mode = i / 2, .align_corners = i % 2};
        gradient(d, 3, (int64_t[]){1, 2, 4}, (int64_t[]){1, 2, 7});
        gradient(d, 4, (int64_t[]){1, 2, 3, 5}, (int64_t[]){1, 2, 7, 2});
        gradient(d, 5, (int64_t[]){1, 1, 3, 2, 4}, (int64_t[]){1, 1, 2, 5, 3});
        d.layout = UM_CHANNELS_LAST;
        gradient(d, 4, (int64_t[]){2, 3, 4, 2}, (int64_t[]){2, 5, 3, 2});
    }
}

static void check_lanes(um_op_id id, const um_resize_desc *d, tensor *in, tensor *out)
{
    static const int32_t lanes[] = {1, 2, 3, 8};
    um_op op = {.id = id, .in_count = 1, .out_count = 1, .attrs.resize = *d};
    op.in[0] = in->view, op.out[0] = out->view;
    um_cpu_pool *pool;
    CHECK_OK(um_cpu_pool_get(&pool));
    double *once = malloc((size_t)out->count * 8);
    for (size_t i = 0; i < UM_COUNT_OF(lanes); i++) {
        um_cpu_exec exec = {.pool = lanes[i] > 1 ? pool : NULL, .lanes = lanes[i]};
        tensor_spoil(out);
        CHECK_OK(um_synchronize(stream));
        CHECK_OK(um_cpu_kernel_find(id)->run(&exec, &op));
        um_mem_free(exec.scratch);
        tensor_read(out);
        if (i == 0) memcpy(once, out->value, (size_t)out->count * 8);
        CHECK_MSG(memcmp(once, out->value, (size_t)out->count * 8) == 0, "%s, lanes %d",
                  um_op_name(id), (int)lanes[i]);
    }
    um_cpu_pool_put(pool);
    free(once);
}

static void same_bits(void)
{
    tensor x = tensor_make(DIMS(3, 17, 33, 41)), y = tensor_make(DIMS(3, 17, 47, 29));
    for (int32_t mode = 0; mode < 3; mode++) {
        um_resize_desc d = {.mode = mode};
        tensor_random(&x);
        check_lanes(UM_OP_RESIZE, &d, &x, &y);
        check_lanes(UM_OP_RESIZE_BACKWARD, &d, &y, &x);
    }
    tensor_free(&x), tensor_free(&y);
}

int main(void)
{
    setenv("UMBEL_THREADS", "8", 1);
    open_device();
    TEST(values);
    TEST(rules);
    TEST(empty);
    TEST(gradients);
    TEST(same_bits);
    close_device();
    return TEST_RESULT();
}
