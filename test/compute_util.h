/* test/compute_util.h: tensors on the CPU device for the tests of the compute face, and what a
 * gradient should be, by central differences. */
#ifndef UM_TEST_COMPUTE_UTIL_H
#define UM_TEST_COMPUTE_UTIL_H

#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <umbel/compute.h>

static um_device *device;
static um_stream *stream;

static inline void open_device(void)
{
    if (um_open("cpu", &device) != UM_OK || um_stream_create(device, &stream) != UM_OK) {
        fprintf(stderr, "no CPU device: %s\n", um_last_error()->message);
        exit(1);
    }
}

static inline void close_device(void)
{
    um_stream_release(stream);
    um_device_release(device);
}

/* A packed f64 tensor and its values on the host. */
typedef struct tensor {
    um_view view;
    int64_t count;
    double *value;
} tensor;

static inline tensor tensor_make(int32_t rank, const int64_t *shape)
{
    tensor t = {.count = 1};
    um_ptr ptr = 0;
    for (int32_t i = 0; i < rank; i++) t.count *= shape[i];
    CHECK_OK(um_alloc(device, (uint64_t)t.count * 8, &ptr));
    CHECK_OK(um_view_make(ptr, UM_F64, rank, shape, &t.view));
    t.value = malloc((size_t)t.count * 8 + 8);
    return t;
}

static inline void tensor_free(tensor *t)
{
    CHECK_OK(um_free(device, t->view.ptr));
    free(t->value);
}

static inline void tensor_write(const tensor *t)
{
    CHECK_OK(um_write(stream, t->view.ptr, t->value, (uint64_t)t->count * 8));
}

static inline void tensor_read(const tensor *t)
{
    CHECK_OK(um_read(stream, t->value, t->view.ptr, (uint64_t)t->count * 8));
}

/* [-1, 1) */
static inline double random_unit(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state & ~(uint64_t)2047) * 0x1p-63;
}

static inline void tensor_random(const tensor *t)
{
    for (int64_t i = 0; i < t->count; i++) t->value[i] = random_unit();
    tensor_write(t);
}

/* So that what a call does not write shows. */
static inline void tensor_spoil(const tensor *t)
{
    for (int64_t i = 0; i < t->count; i++) t->value[i] = (double)NAN;
    tensor_write(t);
}

/* With loss = sum of y * seed, where run makes y: whether gradient is d loss / d x. */
static inline void check_gradient(const tensor *x, const tensor *gradient, const tensor *y,
                                  const tensor *seed, void (*run)(void *), void *ctx,
                                  const char *what)
{
    const double h = 1e-4;
    tensor_read(gradient);
    for (int64_t i = 0; i < x->count; i++) {
        double was = x->value[i], loss[2] = {0};
        for (int32_t side = 0; side < 2; side++) {
            x->value[i] = was + (side ? h : -h);
            tensor_write(x);
            run(ctx);
            tensor_read(y);
            for (int64_t j = 0; j < y->count; j++) loss[side] += y->value[j] * seed->value[j];
        }
        x->value[i] = was;
        double want = (loss[1] - loss[0]) / (2 * h), got = gradient->value[i];
        CHECK_MSG(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)), "%s, element %lld: %g, want %g",
                  what, (long long)i, got, want);
    }
    tensor_write(x);
}

#endif
