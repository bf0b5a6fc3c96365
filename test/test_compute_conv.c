/* Convolution through the compute face: known values, each rule of the contract, the gradients
 * against central differences, and the same bits for any number of threads. Every dtype and layout
 * against the oracle: umbel check conv. */
#include "backend/cpu/cpu.h"
#include "compute_util.h"

#define DIMS(...)                                                                                  \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }

/* ---- values ---------------------------------------------------------------------------------- */

static void set(const tensor *t, const double *value)
{
    memcpy(t->value, value, (size_t)t->count * 8);
    tensor_write(t);
}

static void check_values(const tensor *t, const double *want)
{
    tensor_read(t);
    for (int64_t i = 0; i < t->count; i++)
        CHECK_MSG(t->value[i] == want[i], "element %lld: %g, want %g", (long long)i, t->value[i],
                  want[i]);
}

/* Correlation, not convolution; the bias; the default desc. */
static void known_values(void)
{
    tensor x = tensor_make(DIMS(1, 1, 5)), w = tensor_make(DIMS(2, 1, 3));
    tensor b = tensor_make(DIMS(2)), y = tensor_make(DIMS(1, 2, 3));
    set(&x, (double[]){1, 2, 3, 4, 5});
    set(&w, (double[]){1, 10, 100, 1, 0, -1});
    set(&b, (double[]){0.5, -1});
    tensor_spoil(&y);
    CHECK_OK(um_conv_forward(stream, NULL, &x.view, &w.view, &b.view, &y.view));
    check_values(&y, (double[]){321.5, 432.5, 543.5, -3, -3, -3});
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&y);
}

static void transposed_values(void)
{
    tensor x = tensor_make(DIMS(1, 1, 3)), w = tensor_make(DIMS(1, 1, 3));
    tensor y = tensor_make(DIMS(1, 1, 7));
    um_conv_desc d = {.stride = {2}, .pad_before = {1}, .transposed = 1, .output_padding = {1}};
    set(&x, (double[]){1, 2, 3});
    set(&w, (double[]){1, 10, 100});
    tensor_spoil(&y);
    CHECK_OK(um_conv_forward(stream, &d, &x.view, &w.view, NULL, &y.view));
    check_values(&y, (double[]){10, 102, 20, 203, 30, 300, 0});
    tensor_free(&x), tensor_free(&w), tensor_free(&y);
}

/* Infinite values are ordinary; an infinity of one filter stays out of another. */
static void infinities(void)
{
    tensor x = tensor_make(DIMS(1, 1, 3)), w = tensor_make(DIMS(2, 1, 1));
    tensor y = tensor_make(DIMS(1, 2, 3));
    set(&x, (double[]){1, -(double)INFINITY, 3});
    set(&w, (double[]){2, 1});
    tensor_spoil(&y);
    CHECK_OK(um_conv_forward(stream, NULL, &x.view, &w.view, NULL, &y.view));
    check_values(&y, (double[]){2, -(double)INFINITY, 6, 1, -(double)INFINITY, 3});
    tensor_free(&x), tensor_free(&w), tensor_free(&y);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* The views of one call; no memory behind them. */
static um_view view(int32_t rank, const int64_t *shape)
{
    um_view v;
    CHECK_OK(um_view_make(0, UM_F32, rank, shape, &v));
    return v;
}

static void refuse(const um_conv_desc *d, um_view x, um_view w, const char *why)
{
    um_view y = view(DIMS(2, 6, 6, 6));
    CHECK_FAILS(um_conv_forward(stream, d, &x, &w, NULL, &y), UM_INVALID_ARGUMENT, why);
}

static void bad_attributes(void)
{
    um_view x = view(DIMS(2, 4, 8, 8)), w = view(DIMS(6, 4, 3, 3));
    refuse(&(um_conv_desc){.stride = {-1, 1}}, x, w, "stride");
    refuse(&(um_conv_desc){.dilation = {1, -2}}, x, w, "dilation");
    refuse(&(um_conv_desc){.pad_after = {0, -1}}, x, w, "padding");
    refuse(&(um_conv_desc){.groups = -1}, x, w, "groups");
    refuse(&(um_conv_desc){.groups = 3}, x, w, "3 groups do not divide 4 channels and 6 filters");
    refuse(&(um_conv_desc){.groups = 4}, x, w, "4 groups do not divide");
    refuse(&(um_conv_desc){.groups = 2}, x, w, "channels differ");
    refuse(&(um_conv_desc){.layout = 7}, x, w, "layout 7");
    refuse(&(um_conv_desc){.output_padding = {1}}, x, w, "output padding");
    refuse(&(um_conv_desc){.output_padding = {1}, .transposed = 1}, x, w, "output padding");
    refuse(NULL, view(DIMS(2, 4)), view(DIMS(6, 4)), "rank");
    refuse(NULL, view(DIMS(2, 4, 8)), w, "ranks differ");
    refuse(NULL, x, view(DIMS(6, 4, 0, 3)), "size 0");
}

static void bad_shapes(void)
{
    um_view x = view(DIMS(2, 4, 8, 8)), w = view(DIMS(6, 4, 3, 9));
    refuse(NULL, x, w, "larger than the padded input");
    refuse(&(um_conv_desc){.dilation = {4, 1}}, x, view(DIMS(6, 4, 3, 3)),
           "larger than the padded");
    refuse(NULL, x, view(DIMS(6, 5, 3, 3)),
           "channels differ: x is f32[2,4,8,8], w is f32[6,5,3,3]");
    int64_t huge = (int64_t)1 << 60;
    refuse(&(um_conv_desc){.dilation = {INT32_MAX}}, view(DIMS(1, 1, huge, 1)),
           view(DIMS(1, 1, huge, 1)), "overflow");
    um_view y = view(DIMS(2, 6, 6, 7)), dx = view(DIMS(2, 4, 9, 8)), bias = view(DIMS(5));
    um_view good = view(DIMS(2, 6, 6, 6));
    w = view(DIMS(6, 4, 3, 3));
    CHECK_FAILS(um_conv_forward(stream, NULL, &x, &w, NULL, &y), UM_INVALID_ARGUMENT, "output");
    CHECK_FAILS(um_conv_forward(stream, NULL, &x, &w, &bias, &good), UM_INVALID_ARGUMENT, "bias");
    CHECK_FAILS(um_conv_backward_data(stream, NULL, &good, &w, &dx), UM_INVALID_ARGUMENT,
                "dy has size 6 along axis 0, dx and the filter give 7");
    um_view dw = view(DIMS(6, 4, 3, 2));
    CHECK_FAILS(um_conv_backward_filter(stream, NULL, &x, &good, &dw), UM_INVALID_ARGUMENT,
                "along axis 1");
    CHECK_FAILS(um_conv_backward_data(stream, NULL, &good, &w, &bias), UM_INVALID_ARGUMENT,
                "caller names");
    um_view half = w;
    half.dtype = UM_F16;
    refuse(NULL, x, half, "dtypes differ");
}

static void nulls(void)
{
    um_view x = view(DIMS(2, 4, 8, 8)), w = view(DIMS(6, 4, 3, 3)), line = view(DIMS(2, 4, 8));
    um_view y = view(DIMS(2, 6, 6, 6));
    CHECK_FAILS(um_conv_forward(stream, NULL, NULL, &w, NULL, &y), UM_INVALID_ARGUMENT,
                "x is NULL");
    CHECK_FAILS(um_conv_forward(stream, NULL, &x, &w, NULL, NULL), UM_INVALID_ARGUMENT,
                "y is NULL");
    CHECK_FAILS(um_conv_backward_data(stream, NULL, &y, NULL, &x), UM_INVALID_ARGUMENT,
                "w is NULL");
    CHECK_FAILS(um_conv_backward_filter(stream, NULL, &x, NULL, &w), UM_INVALID_ARGUMENT, "dy is");
    CHECK_FAILS(um_conv_backward_bias(stream, NULL, &y, NULL), UM_INVALID_ARGUMENT,
                "dbias is NULL");
    CHECK_FAILS(um_conv_backward_bias(stream, NULL, &(um_view){.dtype = UM_F32, .rank = 1}, &y),
                UM_INVALID_ARGUMENT, "rank");
    CHECK_FAILS(um_conv_forward(NULL, NULL, &x, &w, NULL, &y), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_conv2d_forward(stream, NULL, &line, &w, NULL, &y), UM_INVALID_ARGUMENT,
                "rank 3, wants 4");
    x.ptr = 1 << 20, w.ptr = 2 << 20, y.ptr = 3 << 20;
    CHECK_FAILS(um_conv_forward(stream, NULL, &x, &w, NULL, &y), UM_INVALID_ARGUMENT, "allocation");
}

/* Nothing to write: OK before a pointer is looked at. */
static void empty(void)
{
    um_view x = view(DIMS(0, 4, 8, 8)), w = view(DIMS(6, 4, 3, 3)), y = view(DIMS(0, 6, 6, 6));
    CHECK_OK(um_conv_forward(stream, NULL, &x, &w, NULL, &y));
    CHECK_OK(um_conv_backward_data(stream, NULL, &y, &w, &x));
    um_view none = view(DIMS(2, 6, 6, 6)), no_filter = view(DIMS(0, 4, 3, 3));
    none.shape[1] = 0;
    x.shape[0] = 2;
    CHECK_OK(um_conv_forward(stream, NULL, &x, &no_filter, NULL, &none));
    CHECK_OK(um_conv_backward_filter(stream, NULL, &x, &none, &no_filter));
}

/* Without channels the output is the bias; without a batch the gradients are 0. */
static void sums_of_nothing(void)
{
    um_view x = view(DIMS(1, 0, 4)), w = view(DIMS(2, 0, 3));
    tensor b = tensor_make(DIMS(2)), y = tensor_make(DIMS(1, 2, 2)),
           dw = tensor_make(DIMS(2, 1, 3));
    x.dtype = w.dtype = UM_F64;
    set(&b, (double[]){3, -4});
    tensor_spoil(&y);
    CHECK_OK(um_conv_forward(stream, NULL, &x, &w, &b.view, &y.view));
    check_values(&y, (double[]){3, 3, -4, -4});
    um_view no_x = view(DIMS(0, 1, 4)), no_dy = view(DIMS(0, 2, 2));
    no_x.dtype = no_dy.dtype = UM_F64;
    tensor_spoil(&dw);
    CHECK_OK(um_conv_backward_filter(stream, NULL, &no_x, &no_dy, &dw.view));
    check_values(&dw, (double[6]){0});
    tensor_free(&b), tensor_free(&y), tensor_free(&dw);
}

static void overlap(void)
{
    tensor x = tensor_make(DIMS(1, 1, 4)), w = tensor_make(DIMS(1, 1, 1));
    CHECK_FAILS(um_conv_forward(stream, NULL, &x.view, &w.view, NULL, &x.view), UM_INVALID_ARGUMENT,
                "overlaps input 0");
    tensor_free(&x), tensor_free(&w);
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct layer {
    um_conv_desc desc;
    tensor x, w, b, y;
} layer;

static void run_layer(void *ctx)
{
    layer *l = ctx;
    CHECK_OK(um_conv_forward(stream, &l->desc, &l->x.view, &l->w.view, &l->b.view, &l->y.view));
}

static void check_layer(layer *l, const char *what)
{
    tensor seed = tensor_make(l->y.view.rank, l->y.view.shape);
    tensor dx = tensor_make(l->x.view.rank, l->x.view.shape);
    tensor dw = tensor_make(l->w.view.rank, l->w.view.shape);
    tensor db = tensor_make(1, l->b.view.shape);
    tensor_random(&l->x), tensor_random(&l->w), tensor_random(&l->b), tensor_random(&seed);
    tensor_spoil(&dx), tensor_spoil(&dw), tensor_spoil(&db);
    CHECK_OK(um_conv_backward_data(stream, &l->desc, &seed.view, &l->w.view, &dx.view));
    CHECK_OK(um_conv_backward_filter(stream, &l->desc, &l->x.view, &seed.view, &dw.view));
    CHECK_OK(um_conv_backward_bias(stream, &l->desc, &seed.view, &db.view));
    check_gradient(&l->x, &dx, &l->y, &seed, run_layer, l, what);
    check_gradient(&l->w, &dw, &l->y, &seed, run_layer, l, what);
    check_gradient(&l->b, &db, &l->y, &seed, run_layer, l, what);
    tensor_free(&seed), tensor_free(&dx), tensor_free(&dw), tensor_free(&db);
}

/* x and y as channels-first shapes. */
static void gradient(const char *what, um_conv_desc d, int32_t rank, const int64_t *x,
                     const int64_t *w, const int64_t *y)
{
    for (d.layout = 0; d.layout < 2; d.layout++) {
        int64_t xs[5] = {x[0]}, ys[5] = {y[0]};
        int32_t channel = d.layout ? rank - 1 : 1;
        for (int32_t i = 2; i < rank; i++) {
            xs[d.layout ? i - 1 : i] = x[i];
            ys[d.layout ? i - 1 : i] = y[i];
        }
        xs[channel] = x[1];
        ys[channel] = y[1];
        layer l = {d, tensor_make(rank, xs), tensor_make(rank, w), tensor_make(1, &y[1]),
                   tensor_make(rank, ys)};
        check_layer(&l, what);
        tensor_free(&l.x), tensor_free(&l.w), tensor_free(&l.b), tensor_free(&l.y);
    }
}

#define S(...)                                                                                     \
    (const int64_t[]) { __VA_ARGS__ }

static void gradients(void)
{
    gradient("plain", (um_conv_desc){.pad_before = {1, 1}, .pad_after = {1, 1}}, 4, S(2, 2, 4, 5),
             S(3, 2, 3, 3), S(2, 3, 4, 5));
    gradient("stride, asymmetric padding",
             (um_conv_desc){.stride = {2, 3}, .pad_before = {1, 0}, .pad_after = {0, 2}}, 4,
             S(1, 2, 6, 7), S(2, 2, 3, 2), S(1, 2, 3, 3));
    gradient("dilation, groups",
             (um_conv_desc){.groups = 2, .dilation = {2, 1}, .pad_before = {2}, .pad_after = {1}},
             4, S(1, 4, 5, 4), S(4, 2, 3, 2), S(1, 4, 4, 3));
    gradient("depthwise", (um_conv_desc){.groups = 3, .stride = {2, 1}, .pad_before = {1, 1}}, 4,
             S(2, 3, 5, 4), S(3, 1, 3, 3), S(2, 3, 2, 3));
    gradient("1-D, stride 4, dilation 2", (um_conv_desc){.stride = {4}, .dilation = {2}}, 3,
             S(1, 2, 13), S(2, 2, 4), S(1, 2, 2));
    gradient("3-D", (um_conv_desc){.stride = {1, 2, 1}, .pad_after = {1, 0, 1}}, 5,
             S(1, 2, 2, 5, 3), S(2, 2, 2, 2, 3), S(1, 2, 2, 2, 2));
    gradient("transposed",
             (um_conv_desc){
                 .transposed = 1, .stride = {2, 3}, .pad_before = {1, 0}, .output_padding = {1, 2}},
             4, S(1, 2, 3, 2), S(2, 3, 3, 2), S(1, 3, 7, 7));
    gradient("transposed groups", (um_conv_desc){.transposed = 1, .groups = 2, .dilation = {1, 2}},
             4, S(2, 4, 3, 2), S(4, 1, 2, 2), S(2, 2, 4, 4));
}

/* ---- the same bits for any number of threads ---------------------------------------------------
 */

static void run_lanes(const um_op *op, int32_t lanes, um_cpu_pool *pool)
{
    um_cpu_exec exec = {.pool = lanes > 1 ? pool : NULL, .lanes = lanes};
    CHECK_OK(um_op_check(op));
    CHECK_OK(um_cpu_kernel_find(op->id)->run(&exec, op));
    um_mem_free(exec.scratch);
}

static void check_lanes(um_op_id id, int32_t groups, tensor *a, tensor *b, tensor *out)
{
    static const int32_t lanes[] = {2, 3, 8};
    um_op op = {.id = id, .in_count = 2, .out_count = 1};
    op.attrs.conv = (um_conv_desc){.groups = groups,
                                   .stride = {2, 1},
                                   .dilation = {1, 1},
                                   .pad_before = {1, 1},
                                   .pad_after = {1, 1}};
    op.in[0] = a->view, op.in[1] = b->view, op.out[0] = out->view;
    um_cpu_pool *pool;
    CHECK_OK(um_cpu_pool_get(&pool));
    run_lanes(&op, 1, pool);
    tensor_read(out);
    void *once = malloc((size_t)out->count * 8);
    memcpy(once, out->value, (size_t)out->count * 8);
    for (size_t i = 0; i < UM_COUNT_OF(lanes); i++) {
        tensor_spoil(out);
        CHECK_OK(um_synchronize(stream));
        run_lanes(&op, lanes[i], pool);
        tensor_read(out);
        CHECK_MSG(memcmp(once, out->value, (size_t)out->count * 8) == 0, "%s, groups %d, lanes %d",
                  um_op_name(id), (int)groups, (int)lanes[i]);
    }
    um_cpu_pool_put(pool);
    free(once);
}

static void same_bits(void)
{
    for (int32_t groups = 1; groups <= 64; groups *= 8) {
        tensor x = tensor_make(DIMS(2, 64, 29, 31)), w = tensor_make(DIMS(64, 64 / groups, 3, 3));
        tensor y = tensor_make(DIMS(2, 64, 15, 31));
        tensor_random(&x), tensor_random(&w), tensor_random(&y);
        check_lanes(UM_OP_CONV_BACKWARD_FILTER, groups, &x, &y, &w);
        tensor_random(&w);
        check_lanes(UM_OP_CONV, groups, &x, &w, &y);
        check_lanes(UM_OP_CONV_BACKWARD_DATA, groups, &y, &w, &x);
        tensor_free(&x), tensor_free(&w), tensor_free(&y);
    }
}

int main(void)
{
    setenv("UMBEL_THREADS", "8", 1);
    open_device();
    TEST(known_values);
    TEST(transposed_values);
    TEST(infinities);
    TEST(bad_attributes);
    TEST(bad_shapes);
    TEST(nulls);
    TEST(empty);
    TEST(sums_of_nothing);
    TEST(overlap);
    TEST(gradients);
    TEST(same_bits);
    close_device();
    return TEST_RESULT();
}
