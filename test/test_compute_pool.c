/* Pooling through the compute face: known values, each rule of the contract, the gradients against
 * central differences, and the same bits for any number of threads. Every dtype and layout against
 * the oracle: umbel check max_pool, avg_pool. */
#include "backend/cpu/cpu.h"
#include "compute_util.h"

#define DIMS(...)                                                                                  \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }
#define INF ((double)INFINITY)

static void set(const tensor *t, const double *value)
{
    memcpy(t->value, value, (size_t)t->count * 8);
    tensor_write(t);
}

static void check_values(const tensor *t, const double *want)
{
    tensor_read(t);
    for (int64_t i = 0; i < t->count; i++)
        CHECK_MSG(t->value[i] == want[i] || (isnan(want[i]) && isnan(t->value[i])),
                  "element %lld: %g, want %g", (long long)i, t->value[i], want[i]);
}

static tensor make_indices(int32_t rank, const int64_t *shape)
{
    tensor t = tensor_make(rank, shape);
    t.view.dtype = UM_I64;
    return t;
}

static void check_indices(const tensor *t, const int64_t *want)
{
    tensor_read(t);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t got;
        memcpy(&got, &t->value[i], 8);
        CHECK_MSG(got == want[i], "index %lld: %lld, want %lld", (long long)i, (long long)got,
                  (long long)want[i]);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Padding is -inf, equal values give the lowest place, NaN wins and the first one's place is given.
 */
static void max_values(void)
{
    tensor x = tensor_make(DIMS(1, 1, 2, 4)), y = tensor_make(DIMS(1, 1, 2, 3));
    tensor at = make_indices(DIMS(1, 1, 2, 3));
    um_pool_desc d = {
        .kernel = {2, 2}, .stride = {1, 2}, .pad_before = {1, 1}, .pad_after = {0, 1}};
    set(&x, (double[]){-5, 3, 3, (double)NAN, -5, 3, (double)NAN, 1});
    CHECK_OK(um_max_pool_forward(stream, &d, &x.view, &y.view, &at.view));
    check_values(&y, (double[]){-5, 3, (double)NAN, -5, (double)NAN, (double)NAN});
    check_indices(&at, (int64_t[]){0, 1, 3, 0, 6, 3});
    tensor_spoil(&y);
    CHECK_OK(um_max_pool_forward(stream, &d, &x.view, &y.view, NULL));
    check_values(&y, (double[]){-5, 3, (double)NAN, -5, (double)NAN, (double)NAN});
    tensor_free(&x), tensor_free(&y), tensor_free(&at);
}

/* Wholly in padding: -inf without a place, and a mean of 0. -inf in x has its place. */
static void windows_in_padding(void)
{
    tensor x = tensor_make(DIMS(1, 1, 2)), y = tensor_make(DIMS(1, 1, 3));
    tensor at = make_indices(DIMS(1, 1, 3)), dx = tensor_make(DIMS(1, 1, 2));
    um_pool_desc d = {.kernel = {2}, .pad_before = {2}, .pad_after = {2}};
    set(&x, (double[]){-INF, -INF});
    CHECK_OK(um_max_pool_forward(stream, &d, &x.view, &y.view, &at.view));
    check_values(&y, (double[]){-INF, -INF, -INF});
    check_indices(&at, (int64_t[]){-1, 0, -1});
    set(&x, (double[]){4, 6});
    for (d.count_include_pad = 0; d.count_include_pad < 2; d.count_include_pad++) {
        CHECK_OK(um_avg_pool_forward(stream, &d, &x.view, &y.view));
        check_values(&y, (double[]){0, 5, 0});
    }
    set(&y, (double[]){7, 8, 9});
    tensor_spoil(&dx);
    CHECK_OK(um_max_pool_backward(stream, &d, &y.view, &at.view, &dx.view));
    check_values(&dx, (double[]){8, 0});
    tensor_free(&x), tensor_free(&y), tensor_free(&at), tensor_free(&dx);
}

/* The divisor counts padding when asked to, but never what lies beyond it. */
static void average_divisor(void)
{
    tensor x = tensor_make(DIMS(1, 1, 5)), y = tensor_make(DIMS(1, 1, 3));
    um_pool_desc d = {.kernel = {3}, .stride = {2}, .pad_before = {1}, .ceil_mode = 1};
    set(&x, (double[]){6, 12, 18, 24, 30});
    CHECK_OK(um_avg_pool_forward(stream, &d, &x.view, &y.view));
    check_values(&y, (double[]){9, 18, 27});
    d.count_include_pad = 1;
    CHECK_OK(um_avg_pool_forward(stream, &d, &x.view, &y.view));
    check_values(&y, (double[]){6, 18, 27});
    tensor_free(&x), tensor_free(&y);
}

/* ceil mode: 2 windows fit on 5 places, a third reaches past them; a fourth would start there. */
static void ceil_mode(void)
{
    tensor x = tensor_make(DIMS(1, 1, 5)), y = tensor_make(DIMS(1, 1, 3));
    um_pool_desc d = {.kernel = {2}, .ceil_mode = 1};
    set(&x, (double[]){1, 2, 3, 4, 5});
    CHECK_OK(um_max_pool_forward(stream, &d, &x.view, &y.view, NULL));
    check_values(&y, (double[]){2, 4, 5});
    um_view more = y.view;
    more.shape[2] = 4;
    d = (um_pool_desc){.kernel = {2}, .stride = {3}, .pad_after = {1}, .ceil_mode = 1};
    more.shape[2] = 3; /* places 0, 3, 6: the last is past x */
    CHECK_FAILS(um_max_pool_forward(stream, &d, &x.view, &more, NULL), UM_INVALID_ARGUMENT,
                "wrong output");
    tensor_free(&x), tensor_free(&y);
}

static void adaptive(void)
{
    tensor x = tensor_make(DIMS(1, 1, 5)), y = tensor_make(DIMS(1, 1, 3));
    tensor one = tensor_make(DIMS(1, 1, 1));
    um_pool_desc d = {.adaptive = 1};
    set(&x, (double[]){1, 2, 3, 4, 5});
    CHECK_OK(um_avg_pool_forward(stream, &d, &x.view, &y.view));
    check_values(&y, (double[]){1.5, 3, 4.5});
    CHECK_OK(um_avg_pool_forward(stream, &d, &x.view, &one.view));
    check_values(&one, (double[]){3});
    CHECK_OK(um_max_pool_forward(stream, &d, &x.view, &one.view, NULL));
    check_values(&one, (double[]){5});
    tensor_free(&x), tensor_free(&y), tensor_free(&one);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static um_view view(int32_t rank, const int64_t *shape)
{
    um_view v;
    CHECK_OK(um_view_make(0, UM_F32, rank, shape, &v));
    return v;
}

static void refuse(const um_pool_desc *d, um_view x, const char *why)
{
    um_view y = view(DIMS(2, 4, 4, 4));
    CHECK_FAILS(um_avg_pool_forward(stream, d, &x, &y), UM_INVALID_ARGUMENT, why);
    CHECK_FAILS(um_max_pool_forward(stream, d, &x, &y, NULL), UM_INVALID_ARGUMENT, why);
    CHECK_FAILS(um_avg_pool_backward(stream, d, &y, &x), UM_INVALID_ARGUMENT, why);
}

static void rules(void)
{
    um_view x = view(DIMS(2, 4, 8, 8)), none = view(DIMS(2, 4, 0, 8)), y = view(DIMS(2, 4, 4, 4));
    refuse(NULL, x, "kernel");
    refuse(&(um_pool_desc){.kernel = {2, 0}}, x, "kernel");
    refuse(&(um_pool_desc){.kernel = {2, 2}, .stride = {-1, 1}}, x, "stride");
    refuse(&(um_pool_desc){.kernel = {2, 2}, .dilation = {1, -1}}, x, "dilation");
    refuse(&(um_pool_desc){.kernel = {2, 2}, .pad_before = {-1}}, x, "padding");
    refuse(&(um_pool_desc){.kernel = {9, 2}}, x, "larger than the padded input");
    refuse(&(um_pool_desc){.kernel = {2, 2}, .layout = 2}, x, "layout");
    refuse(&(um_pool_desc){.adaptive = 1}, none, "empty axis");
    refuse(&(um_pool_desc){.kernel = {2, 2}}, none, "larger than the padded input");
    um_pool_desc d = {.kernel = {2, 2}};
    um_view indices = y, narrow = view(DIMS(2, 4, 4, 3));
    CHECK_FAILS(um_max_pool_forward(stream, &d, &x, &y, &indices), UM_INVALID_ARGUMENT, "output");
    CHECK_FAILS(um_max_pool_backward(stream, &d, &y, &indices, &x), UM_INVALID_ARGUMENT, "i64");
    CHECK_FAILS(um_avg_pool_backward(stream, &d, &narrow, &x), UM_INVALID_ARGUMENT,
                "dy has size 3 along axis 1, dx gives 4");
    CHECK_FAILS(um_avg_pool_forward(stream, &d, NULL, &y), UM_INVALID_ARGUMENT, "x is NULL");
    CHECK_FAILS(um_max_pool_backward(stream, &d, &y, NULL, &x), UM_INVALID_ARGUMENT, "indices is");
    x.shape[0] = y.shape[0] = 0;
    CHECK_OK(um_avg_pool_forward(stream, &d, &x, &y));
    CHECK_OK(um_avg_pool_backward(stream, &d, &y, &x));
}

/* Dropped, reported once, and nothing outside dx is touched. */
static void bad_index(void)
{
    tensor dy = tensor_make(DIMS(1, 1, 2)), dx = tensor_make(DIMS(1, 1, 4));
    tensor at = make_indices(DIMS(1, 1, 2));
    um_pool_desc d = {.kernel = {2}};
    int64_t bad[] = {4, INT64_MIN, -2};
    set(&dy, (double[]){1, 2});
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        int64_t index[] = {bad[i], 3};
        memcpy(at.value, index, sizeof index);
        tensor_write(&at);
        CHECK_OK(um_max_pool_backward(stream, &d, &dy.view, &at.view, &dx.view));
        CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, "channel of 4");
        CHECK(um_stream_clear_error(stream) == UM_OUT_OF_RANGE);
        check_values(&dx, (double[]){0, 0, 0, 2});
    }
    tensor_free(&dy), tensor_free(&dx), tensor_free(&at);
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct layer {
    um_pool_desc desc;
    bool max;
    tensor x, y;
} layer;

static void run_layer(void *ctx)
{
    layer *l = ctx;
    if (l->max)
        CHECK_OK(um_max_pool_forward(stream, &l->desc, &l->x.view, &l->y.view, NULL));
    else
        CHECK_OK(um_avg_pool_forward(stream, &l->desc, &l->x.view, &l->y.view));
}

static void check_layer(layer *l, const char *what)
{
    tensor seed = tensor_make(l->y.view.rank, l->y.view.shape);
    tensor at = make_indices(l->y.view.rank, l->y.view.shape);
    tensor dx = tensor_make(l->x.view.rank, l->x.view.shape);
    tensor_random(&l->x), tensor_random(&seed), tensor_spoil(&dx);
    if (l->max) {
        CHECK_OK(um_max_pool_forward(stream, &l->desc, &l->x.view, &l->y.view, &at.view));
        CHECK_OK(um_max_pool_backward(stream, &l->desc, &seed.view, &at.view, &dx.view));
    } else {
        CHECK_OK(um_avg_pool_backward(stream, &l->desc, &seed.view, &dx.view));
    }
    check_gradient(&l->x, &dx, &l->y, &seed, run_layer, l, what);
    tensor_free(&seed), tensor_free(&at), tensor_free(&dx);
}

static void gradient(const char *what, um_pool_desc d, int32_t rank, const int64_t *x,
                     const int64_t *y)
{
    for (int32_t i = 0; i < 4; i++) {
        d.count_include_pad = i / 2;
        layer l = {d, i % 2, tensor_make(rank, x), tensor_make(rank, y)};
        check_layer(&l, what);
        tensor_free(&l.x), tensor_free(&l.y);
    }
}

#define S(...)                                                                                     \
    (const int64_t[]) { __VA_ARGS__ }

static void gradients(void)
{
    gradient("2x2", (um_pool_desc){.kernel = {2, 2}}, 4, S(2, 2, 4, 5), S(2, 2, 2, 2));
    gradient("overlapping, padded, ceil",
             (um_pool_desc){.kernel = {3, 3},
                            .stride = {2, 1},
                            .pad_before = {1, 0},
                            .pad_after = {1, 2},
                            .ceil_mode = 1},
             4, S(1, 2, 6, 5), S(1, 2, 4, 5));
    gradient("dilation, channels last",
             (um_pool_desc){.kernel = {2, 3}, .stride = {1, 1}, .dilation = {2, 1}, .layout = 1}, 4,
             S(1, 5, 4, 2), S(1, 3, 2, 2));
    gradient("1-D", (um_pool_desc){.kernel = {4}, .stride = {1}}, 3, S(1, 2, 9), S(1, 2, 6));
    gradient("3-D", (um_pool_desc){.kernel = {2, 1, 2}, .stride = {1, 1, 2}}, 5, S(1, 1, 3, 2, 4),
             S(1, 1, 2, 2, 2));
    gradient("adaptive", (um_pool_desc){.adaptive = 1}, 4, S(1, 2, 7, 3), S(1, 2, 3, 5));
    gradient("global", (um_pool_desc){.adaptive = 1, .layout = 1}, 4, S(2, 5, 4, 3), S(2, 1, 1, 3));
}

/* ---- the same bits for any number of threads ---------------------------------------------------
 */

static void check_lanes(const um_op *op, tensor *out)
{
    static const int32_t lanes[] = {1, 2, 3, 8};
    um_cpu_pool *pool;
    CHECK_OK(um_cpu_pool_get(&pool));
    double *once = malloc((size_t)out->count * 8);
    for (size_t i = 0; i < UM_COUNT_OF(lanes); i++) {
        um_cpu_exec exec = {.pool = lanes[i] > 1 ? pool : NULL, .lanes = lanes[i]};
        tensor_spoil(out);
        CHECK_OK(um_synchronize(stream));
        CHECK_OK(um_op_check(op));
        CHECK_OK(um_cpu_kernel_find(op->id)->run(&exec, op));
        um_mem_free(exec.scratch);
        tensor_read(out);
        if (i == 0) memcpy(once, out->value, (size_t)out->count * 8);
        CHECK_MSG(memcmp(once, out->value, (size_t)out->count * 8) == 0, "%s, lanes %d",
                  um_op_name(op->id), (int)lanes[i]);
    }
    um_cpu_pool_put(pool);
    free(once);
}

static void same_bits(void)
{
    tensor x = tensor_make(DIMS(3, 17, 33, 41)), y = tensor_make(DIMS(3, 17, 17, 21));
    tensor at = make_indices(DIMS(3, 17, 17, 21));
    um_op op = {.in_count = 1, .out_count = 1};
    op.attrs.pool = (um_pool_desc){.kernel = {3, 3},
                                   .stride = {2, 2},
                                   .dilation = {1, 1},
                                   .pad_before = {1, 1},
                                   .pad_after = {1, 1}};
    tensor_random(&x);
    op.in[0] = x.view, op.out[0] = y.view, op.out[1] = at.view;
    op.id = UM_OP_AVG_POOL;
    check_lanes(&op, &y);
    op.id = UM_OP_MAX_POOL;
    op.out_count = 2;
    check_lanes(&op, &y);
    op.out_count = 1;
    op.in[0] = y.view, op.in[1] = at.view, op.out[0] = x.view;
    op.id = UM_OP_AVG_POOL_BACKWARD;
    check_lanes(&op, &x);
    op.in_count = 2;
    op.id = UM_OP_MAX_POOL_BACKWARD;
    check_lanes(&op, &x);
    tensor_free(&x), tensor_free(&y), tensor_free(&at);
}

int main(void)
{
    setenv("UMBEL_THREADS", "8", 1);
    open_device();
    TEST(max_values);
    TEST(windows_in_padding);
    TEST(average_divisor);
    TEST(ceil_mode);
    TEST(adaptive);
    TEST(rules);
    TEST(bad_index);
    TEST(gradients);
    TEST(same_bits);
    close_device();
    return TEST_RESULT();
}
