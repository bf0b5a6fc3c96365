/* Every gradient of the compute face in f64 against central differences, over packed, transposed,
 * reversed and repeated inputs: one row a layer. What an element of memory that a view repeats gets
 * is the sum over the places that show it. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <umbel/compute.h>

static um_device *device;
static um_stream *stream;

enum { MOST_INPUTS = 3, MOST_EXTRAS = 2, MOST_ELEMENTS = 256 };

typedef struct size {
    int32_t rank;
    int64_t shape[4];
} size;

/* A layer's views while it is tried. */
typedef struct views {
    um_view in[MOST_INPUTS], grad[MOST_INPUTS], y, dy, extra[MOST_EXTRAS];
} views;

/* ---- layers: y from in, grad from in, y and dy --------------------------------------------------
 */

static const um_conv_desc conv_desc = {
    .groups = 2, .stride = {2, 1}, .dilation = {1, 2}, .pad_before = {1, 1}, .pad_after = {1, 0}};
static const um_conv_desc turned_conv_desc = {
    .layout = UM_CHANNELS_LAST, .transposed = 1, .stride = {2}};

static void conv_with(const um_conv_desc *d, const views *v)
{
    CHECK_OK(um_conv_forward(stream, d, &v->in[0], &v->in[1], &v->in[2], &v->y));
}
static void conv_back_with(const um_conv_desc *d, const views *v)
{
    CHECK_OK(um_conv_backward_data(stream, d, &v->dy, &v->in[1], &v->grad[0]));
    CHECK_OK(um_conv_backward_filter(stream, d, &v->in[0], &v->dy, &v->grad[1]));
    CHECK_OK(um_conv_backward_bias(stream, d, &v->dy, &v->grad[2]));
}
static void conv(const views *v) { conv_with(&conv_desc, v); }
static void conv_back(const views *v) { conv_back_with(&conv_desc, v); }
static void turned_conv(const views *v) { conv_with(&turned_conv_desc, v); }
static void turned_conv_back(const views *v) { conv_back_with(&turned_conv_desc, v); }

static const um_pool_desc pool_desc = {
    .kernel = {3, 3}, .stride = {2, 2}, .pad_before = {1, 1}, .pad_after = {1, 1}};

static void max_pool(const views *v)
{
    CHECK_OK(um_max_pool_forward(stream, &pool_desc, &v->in[0], &v->y, &v->extra[0]));
}
static void max_pool_back(const views *v)
{
    CHECK_OK(um_max_pool_backward(stream, &pool_desc, &v->dy, &v->extra[0], &v->grad[0]));
}
static void avg_pool(const views *v)
{
    CHECK_OK(um_avg_pool_forward(stream, &pool_desc, &v->in[0], &v->y));
}
static void avg_pool_back(const views *v)
{
    CHECK_OK(um_avg_pool_backward(stream, &pool_desc, &v->dy, &v->grad[0]));
}

static void resize_with(int32_t mode, const views *v)
{
    CHECK_OK(um_resize_forward(stream, &(um_resize_desc){.mode = mode}, &v->in[0], &v->y));
}
static void resize_back_with(int32_t mode, const views *v)
{
    CHECK_OK(um_resize_backward(stream, &(um_resize_desc){.mode = mode}, &v->dy, &v->grad[0]));
}
static void nearest(const views *v) { resize_with(UM_RESIZE_NEAREST, v); }
static void nearest_back(const views *v) { resize_back_with(UM_RESIZE_NEAREST, v); }
static void linear(const views *v) { resize_with(UM_RESIZE_LINEAR, v); }
static void linear_back(const views *v) { resize_back_with(UM_RESIZE_LINEAR, v); }
static void cubic(const views *v) { resize_with(UM_RESIZE_CUBIC, v); }
static void cubic_back(const views *v) { resize_back_with(UM_RESIZE_CUBIC, v); }

/* Row 1 twice, row 3 never. */
static void set_ids(const views *v)
{
    const int64_t ids[] = {1, 4, 0, 1, 2, 2};
    CHECK_OK(um_write(stream, v->extra[0].ptr, ids, sizeof ids));
}
static void embedding(const views *v)
{
    set_ids(v);
    CHECK_OK(um_embedding_forward(stream, &v->in[0], &v->extra[0], &v->y));
}
static void embedding_back(const views *v)
{
    CHECK_OK(um_embedding_backward(stream, &v->dy, &v->extra[0], &v->grad[0]));
}
static void index_select(const views *v)
{
    set_ids(v);
    CHECK_OK(um_index_select_view(stream, 0, &v->in[0], &v->extra[0], &v->y));
}
static void index_select_back(const views *v)
{
    CHECK_OK(um_fill_view(stream, (um_number){0, 0}, &v->grad[0]));
    CHECK_OK(um_index_add_view(stream, 0, &v->extra[0], &v->dy, &v->grad[0]));
}

static void dropout(const views *v)
{
    CHECK_OK(um_dropout_view(stream, 7, 0, 0.3, &v->in[0], &v->y, NULL));
}
static void dropout_back(const views *v)
{
    CHECK_OK(um_dropout_view(stream, 7, 0, 0.3, &v->dy, &v->grad[0], NULL));
}

static void softmax(const views *v) { CHECK_OK(um_softmax_forward(stream, 1, &v->in[0], &v->y)); }
static void softmax_back(const views *v)
{
    CHECK_OK(um_softmax_backward(stream, 1, &v->y, &v->dy, &v->grad[0]));
}
static void log_softmax(const views *v)
{
    CHECK_OK(um_log_softmax_forward(stream, -1, &v->in[0], &v->y));
}
static void log_softmax_back(const views *v)
{
    CHECK_OK(um_log_softmax_backward(stream, -1, &v->y, &v->dy, &v->grad[0]));
}

static um_norm_views norm_views(const views *v)
{
    um_norm_views n = {.x = &v->in[0], .w = &v->in[1], .y = &v->y, .dy = &v->dy};
    n.dx = &v->grad[0], n.dw = &v->grad[1];
    if (v->in[2].dtype) n.b = &v->in[2], n.db = &v->grad[2];
    return n;
}
static void rms_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_rms_norm_forward(stream, &(um_norm_desc){.eps = 0.1}, &n));
}
static void rms_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_rms_norm_backward(stream, &(um_norm_desc){.eps = 0.1}, &n));
}
static void layer_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_layer_norm_forward(stream, &(um_norm_desc){.eps = 0.1, .dims = 2}, &n));
}
static void layer_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_layer_norm_backward(stream, &(um_norm_desc){.eps = 0.1, .dims = 2}, &n));
}

static const um_norm_desc group_desc = {.eps = 0.1, .groups = 2};
static const um_norm_desc last_group_desc = {.eps = 0.1, .groups = 2, .layout = UM_CHANNELS_LAST};

static void group_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_group_norm_forward(stream, &group_desc, &n));
}
static void group_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_group_norm_backward(stream, &group_desc, &n));
}
static void last_group_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_group_norm_forward(stream, &last_group_desc, &n));
}
static void last_group_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_group_norm_backward(stream, &last_group_desc, &n));
}
static void instance_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_instance_norm_forward(stream, &group_desc, &n));
}
static void instance_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_instance_norm_backward(stream, &group_desc, &n));
}

static const um_norm_desc batch_desc = {.eps = 0.1, .training = 1};
static const um_norm_desc given_desc = {.eps = 0.1};

static void batch_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_batch_norm_forward(stream, &batch_desc, &n));
}
static void batch_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    CHECK_OK(um_batch_norm_backward(stream, &batch_desc, &n));
}
static void given_norm(const views *v)
{
    um_norm_views n = norm_views(v);
    n.old_mean = &v->extra[0], n.old_var = &v->extra[1];
    CHECK_OK(um_fill_view(stream, (um_number){0.3, 0}, n.old_mean));
    CHECK_OK(um_fill_view(stream, (um_number){1.7, 0}, n.old_var));
    CHECK_OK(um_batch_norm_forward(stream, &given_desc, &n));
}
static void given_norm_back(const views *v)
{
    um_norm_views n = norm_views(v);
    n.old_mean = &v->extra[0], n.old_var = &v->extra[1];
    CHECK_OK(um_batch_norm_backward(stream, &given_desc, &n));
}

static const um_attention_desc attention_desc = {.causal = UM_CAUSAL_BOTTOM_RIGHT};

static void attention(const views *v)
{
    um_attention_inputs in = {.q = &v->in[0], .k = &v->in[1], .v = &v->in[2]};
    CHECK_OK(um_attention_forward(stream, &attention_desc, &in, &v->y, &v->extra[0]));
}
static void attention_back(const views *v)
{
    um_attention_inputs in = {.q = &v->in[0], .k = &v->in[1], .v = &v->in[2]};
    um_attention_grads grads = {.q = &v->grad[0], .k = &v->grad[1], .v = &v->grad[2]};
    CHECK_OK(
        um_attention_backward(stream, &attention_desc, &in, &v->y, &v->extra[0], &v->dy, &grads));
}

#define SIZE(...)                                                                                  \
    {                                                                                              \
        (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ }             \
    }

typedef struct layer {
    const char *name;
    void (*forward)(const views *v);
    void (*backward)(const views *v);
    size y, in[MOST_INPUTS];
    um_dtype extra_dtype;
    size extra[MOST_EXTRAS];
} layer;

#define LAYER(name, y, ...)                                                                        \
    {                                                                                              \
#name, name, name##_back, y, {__VA_ARGS__ }, 0,                                            \
        {                                                                                          \
            {                                                                                      \
                0, { 0 }                                                                           \
            }                                                                                      \
        }                                                                                          \
    }
#define LAYER_WITH(name, dtype, extra, y, ...)                                                     \
    {                                                                                              \
#name, name, name##_back, y, {__VA_ARGS__ }, dtype, { extra, extra }                       \
    }

static const layer layers[] = {
    LAYER(conv, SIZE(2, 6, 3, 5), SIZE(2, 4, 5, 6), SIZE(6, 2, 3, 2), SIZE(6)),
    LAYER(turned_conv, SIZE(2, 11, 3), SIZE(2, 5, 4), SIZE(4, 3, 3), SIZE(3)),
    LAYER_WITH(max_pool, UM_I64, SIZE(2, 2, 3, 3), SIZE(2, 2, 3, 3), SIZE(2, 2, 5, 5)),
    LAYER(avg_pool, SIZE(2, 2, 3, 3), SIZE(2, 2, 5, 5)),
    LAYER(nearest, SIZE(1, 2, 7, 3), SIZE(1, 2, 4, 5)),
    LAYER(linear, SIZE(1, 2, 7, 3), SIZE(1, 2, 4, 5)),
    LAYER(cubic, SIZE(1, 2, 7, 3), SIZE(1, 2, 4, 5)),
    LAYER_WITH(embedding, UM_I64, SIZE(2, 3), SIZE(2, 3, 4), SIZE(5, 4)),
    LAYER_WITH(index_select, UM_I64, SIZE(6), SIZE(6, 4), SIZE(5, 4)),
    LAYER(dropout, SIZE(4, 5), SIZE(4, 5)),
    LAYER(softmax, SIZE(2, 5, 3), SIZE(2, 5, 3)),
    LAYER(log_softmax, SIZE(2, 5, 3), SIZE(2, 5, 3)),
    LAYER(rms_norm, SIZE(3, 2, 5), SIZE(3, 2, 5), SIZE(5)),
    LAYER(layer_norm, SIZE(4, 2, 3), SIZE(4, 2, 3), SIZE(2, 3), SIZE(2, 3)),
    LAYER(group_norm, SIZE(2, 4, 3), SIZE(2, 4, 3), SIZE(4), SIZE(4)),
    LAYER(last_group_norm, SIZE(2, 3, 4), SIZE(2, 3, 4), SIZE(4), SIZE(4)),
    LAYER(instance_norm, SIZE(2, 3, 4), SIZE(2, 3, 4), SIZE(3), SIZE(3)),
    LAYER(batch_norm, SIZE(3, 2, 2, 2), SIZE(3, 2, 2, 2), SIZE(2), SIZE(2)),
    LAYER_WITH(given_norm, UM_F64, SIZE(2), SIZE(3, 2, 2, 2), SIZE(3, 2, 2, 2), SIZE(2), SIZE(2)),
    LAYER_WITH(attention, UM_F64, SIZE(1, 2, 3), SIZE(1, 2, 3, 3), SIZE(1, 2, 3, 4),
               SIZE(1, 1, 5, 4), SIZE(1, 1, 5, 3)),
};

/* ---- tensors ------------------------------------------------------------------------------------
 */

typedef enum form { PACKED, TURNED, REVERSED, REPEATED, FORMS } form;

/* A block of f64 and a view of it. */
typedef struct block {
    um_ptr ptr;
    um_view view;
    int64_t count; /* of the block */
    double value[MOST_ELEMENTS];
} block;

static um_ptr take(uint64_t bytes)
{
    um_ptr ptr = 0;
    CHECK_OK(um_alloc(device, bytes, &ptr));
    return ptr;
}

static void block_make(block *b, const size *s, form f)
{
    int64_t shape[4];
    int32_t axes[4], rank = s->rank;
    bool turned = f == TURNED, repeats = f == REPEATED;
    for (int32_t i = 0; i < rank; i++) {
        axes[i] = turned ? rank - 1 - i : i;
        shape[i] = s->shape[axes[i]];
        if (repeats && shape[i] > 1) {
            shape[i] = 1; /* the first axis that can */
            repeats = false;
        }
    }
    CHECK_OK(um_view_make(0, UM_F64, rank, shape, &b->view));
    b->count = um_view_count(&b->view);
    CHECK(b->count <= MOST_ELEMENTS);
    b->ptr = b->view.ptr = take((uint64_t)b->count * 8);
    CHECK_OK(um_view_permute(&b->view, axes, &b->view));
    CHECK_OK(um_view_broadcast(&b->view, rank, s->shape, &b->view));
    if (f == REVERSED) CHECK_OK(um_view_flip(&b->view, UM_ALL_AXES, &b->view));
}

static void block_free(const block *b) { CHECK_OK(um_free(device, b->ptr)); }

static void block_write(const block *b)
{
    CHECK_OK(um_write(stream, b->ptr, b->value, (uint64_t)b->count * 8));
}

static void block_read(block *b)
{
    CHECK_OK(um_read(stream, b->value, b->ptr, (uint64_t)b->count * 8));
}

/* Where in the block row-major element i of the view is. */
static int64_t place_of(const block *b, int64_t i)
{
    int64_t place = (int64_t)(b->view.ptr - b->ptr) / 8;
    for (int32_t axis = b->view.rank - 1; axis >= 0; axis--) {
        place += i % b->view.shape[axis] * b->view.stride[axis];
        i /= b->view.shape[axis];
    }
    return place;
}

/* Different numbers in [-1, 1), no two of them near each other. */
static void block_random(block *b, int32_t seed)
{
    for (int64_t i = 0; i < b->count; i++)
        b->value[i] = (double)((i * 101 + seed * 37) % 257) / 128.5 - 1;
    block_write(b);
}

/* ---- the check ----------------------------------------------------------------------------------
 */

typedef struct trial {
    const layer *layer;
    form form;
    int32_t in_count;
    block in[MOST_INPUTS], grad[MOST_INPUTS], y, dy;
    views v;
} trial;

static void trial_make(trial *t)
{
    form out = t->form == REPEATED ? PACKED : t->form;
    const layer *l = t->layer;
    while (t->in_count < MOST_INPUTS && l->in[t->in_count].rank > 0) t->in_count++;
    for (int32_t k = 0; k < t->in_count; k++) {
        block_make(&t->in[k], &l->in[k], t->form);
        block_make(&t->grad[k], &l->in[k], out);
        block_random(&t->in[k], k);
        t->v.in[k] = t->in[k].view, t->v.grad[k] = t->grad[k].view;
    }
    block_make(&t->y, &l->y, out);
    block_make(&t->dy, &l->y, t->form);
    block_random(&t->dy, 5);
    t->v.y = t->y.view, t->v.dy = t->dy.view;
    for (int32_t k = 0; k < MOST_EXTRAS && l->extra_dtype; k++) {
        um_view *extra = &t->v.extra[k];
        CHECK_OK(um_view_make(0, l->extra_dtype, l->extra[k].rank, l->extra[k].shape, extra));
        extra->ptr = take((uint64_t)um_view_count(extra) * 8);
    }
}

static void trial_free(const trial *t)
{
    for (int32_t k = 0; k < t->in_count; k++) block_free(&t->in[k]), block_free(&t->grad[k]);
    block_free(&t->y), block_free(&t->dy);
    for (int32_t k = 0; k < MOST_EXTRAS && t->layer->extra_dtype; k++)
        CHECK_OK(um_free(device, t->v.extra[k].ptr));
}

/* The sum of y * dy. */
static double loss_of(trial *t)
{
    double loss = 0;
    t->layer->forward(&t->v);
    block_read(&t->y);
    for (int64_t i = 0; i < um_view_count(&t->v.y); i++)
        loss += t->y.value[place_of(&t->y, i)] * t->dy.value[place_of(&t->dy, i)];
    return loss;
}

static void check_element(trial *t, int32_t k, int64_t place, double got)
{
    const double h = 1e-4;
    double *value = &t->in[k].value[place], was = *value, loss[2];
    for (int32_t side = 0; side < 2; side++) {
        *value = was + (side ? h : -h);
        block_write(&t->in[k]);
        loss[side] = loss_of(t);
    }
    *value = was;
    block_write(&t->in[k]);
    double want = (loss[1] - loss[0]) / (2 * h);
    CHECK_MSG(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)),
              "%s, form %d, input %d, %lld: %g, want %g", t->layer->name, (int)t->form, (int)k,
              (long long)place, got, want);
}

static void check_input(trial *t, int32_t k)
{
    double gradient[MOST_ELEMENTS] = {0};
    block_read(&t->grad[k]);
    for (int64_t i = 0; i < um_view_count(&t->v.in[k]); i++)
        gradient[place_of(&t->in[k], i)] += t->grad[k].value[place_of(&t->grad[k], i)];
    for (int64_t place = 0; place < t->in[k].count; place++)
        check_element(t, k, place, gradient[place]);
}

static void test_gradients(void)
{
    static trial t;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        for (int32_t f = 0; f < FORMS; f++) {
            t = (trial){.layer = &layers[i], .form = (form)f};
            trial_make(&t);
            t.layer->forward(&t.v);
            t.layer->backward(&t.v);
            for (int32_t k = 0; k < t.in_count; k++) check_input(&t, k);
            trial_free(&t);
        }
}

int main(void)
{
    CHECK_OK(um_open("cpu", &device));
    CHECK_OK(um_stream_create(device, &stream));
    TEST(test_gradients);
    um_stream_release(stream);
    um_device_release(device);
    return TEST_RESULT();
}
