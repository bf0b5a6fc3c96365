/* test/kernel_util.h: host tensors of any layout and the running of one CPU kernel on them, for
 * test_kernel_matmul.c and test_kernel_nn.c. */
#ifndef UM_TEST_KERNEL_UTIL_H
#define UM_TEST_KERNEL_UTIL_H

#include "backend/cpu/cpu.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

typedef enum layout {
    PACKED,
    TURNED,   /* column-major */
    GAPS,     /* every second element */
    REVERSED, /* negative strides */
    LAYOUTS,
    REPEATED /* every axis but the last two has stride 0 (inputs only) */
} layout;

/* Memory around the view is filled with a pattern that check_margins looks at. */
typedef struct array {
    um_view view;
    uint8_t *base;
    size_t size_bytes;
    int64_t count;
} array;

enum { MARGIN = 64, PATTERN = 0xa5 };

static inline array array_make(um_dtype dtype, int32_t rank, const int64_t *shape, layout form)
{
    array x = {.view = {.dtype = dtype, .rank = rank}, .count = 1};
    int64_t step = form == GAPS ? 2 : 1, span = step, first = 0;
    for (int32_t i = 0; i < rank; i++) {
        int32_t axis = form == TURNED ? i : rank - 1 - i;
        x.view.shape[axis] = shape[axis];
        x.view.stride[axis] = form == REPEATED && axis < rank - 2 ? 0 : span;
        x.count *= shape[axis];
        if (x.view.stride[axis]) span *= UM_MAX(shape[axis], 1);
        if (form == REVERSED) {
            first += (shape[axis] - 1) * x.view.stride[axis];
            x.view.stride[axis] = -x.view.stride[axis];
        }
    }
    size_t bytes = (size_t)um_dtype_bits(dtype) / 8;
    x.size_bytes = (size_t)span * bytes + 2 * MARGIN;
    x.base = malloc(x.size_bytes);
    memset(x.base, PATTERN, x.size_bytes);
    x.view.ptr = (um_ptr)(uintptr_t)x.base + MARGIN + (um_ptr)(UM_MAX(first, 0) * (int64_t)bytes);
    return x;
}

static inline void array_free(array *x)
{
    free(x->base);
    x->base = NULL;
}

/* Where row-major element `index` is, in elements from view.ptr. */
static inline int64_t array_at(const array *x, int64_t index)
{
    int64_t at = 0;
    for (int32_t d = x->view.rank - 1; d >= 0; d--) {
        at += index % x->view.shape[d] * x->view.stride[d];
        index /= x->view.shape[d];
    }
    return at;
}

static inline double array_get(const array *x, int64_t index)
{
    double value = 0;
    um_class c = um_dtype_class(x->view.dtype);
    if (c == UM_CLASS_F32) {
        float narrow;
        um_load(c, &narrow, x->view.dtype, (void *)(uintptr_t)x->view.ptr, array_at(x, index), 1,
                1);
        value = (double)narrow;
    } else if (c == UM_CLASS_F64) {
        um_load(c, &value, x->view.dtype, (void *)(uintptr_t)x->view.ptr, array_at(x, index), 1, 1);
    } else {
        int64_t whole;
        um_load(c, &whole, x->view.dtype, (void *)(uintptr_t)x->view.ptr, array_at(x, index), 1, 1);
        value = (double)whole;
    }
    return value;
}

static inline void array_set(array *x, int64_t index, double value)
{
    if (um_dtype_is_float(x->view.dtype)) {
        um_store(x->view.dtype, (void *)(uintptr_t)x->view.ptr, array_at(x, index), 1, UM_CLASS_F64,
                 &value, 1);
    } else {
        int64_t whole = (int64_t)value;
        um_store(x->view.dtype, (void *)(uintptr_t)x->view.ptr, array_at(x, index), 1, UM_CLASS_I64,
                 &whole, 1);
    }
}

static uint64_t random_state = 1;
static inline double random_unit(void) /* [-1, 1) */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(random_state & ~(uint64_t)2047) * 0x1p-63;
}

static inline void array_fill(array *x, double scale)
{
    for (int64_t i = 0; i < x->count; i++) array_set(x, i, scale * random_unit());
}

static inline bool margins_intact(const array *x)
{
    for (size_t i = 0; i < MARGIN; i++)
        if (x->base[i] != PATTERN || x->base[x->size_bytes - 1 - i] != PATTERN) return false;
    return true;
}

static inline double dtype_eps(um_dtype dtype)
{
    return dtype == UM_F64   ? 0x1p-52
           : dtype == UM_F32 ? 0x1p-23
           : dtype == UM_F16 ? 0x1p-10
                             : 0x1p-7;
}

/* On the calling thread alone. */
static inline um_status run_op(const um_op *op)
{
    static um_cpu_exec exec = {.lanes = 1};
    const um_cpu_kernel *kernel = um_cpu_kernel_find(op->id);
    if (!kernel) return UM_FAIL(UM_UNSUPPORTED, "no kernel");
    return kernel->run(&exec, op);
}

/* Runs op with 1, 2 and 3 lanes; whether out[0] has the same bits each time. */
static inline bool same_bits_for_any_lanes(const um_op *op, const array *out)
{
    bool same = true;
    uint8_t *first = malloc(out->size_bytes);
    CHECK_OK(run_op(op));
    memcpy(first, out->base, out->size_bytes);
    um_cpu_pool *pool;
    if (um_cpu_pool_get(&pool) != UM_OK) same = false;
    for (int32_t lanes = 2; same && lanes <= UM_MIN(3, um_cpu_pool_threads(pool)); lanes++) {
        um_cpu_exec exec = {.pool = pool, .lanes = lanes};
        memset(out->base + MARGIN, 0, out->size_bytes - 2 * MARGIN);
        CHECK_OK(um_cpu_kernel_find(op->id)->run(&exec, op));
        for (int64_t i = 0; i < out->count; i++) {
            size_t bytes = (size_t)um_dtype_bits(out->view.dtype) / 8;
            const uint8_t *now =
                (const uint8_t *)(uintptr_t)out->view.ptr + array_at(out, i) * (int64_t)bytes;
            same = same && memcmp(now, first + (now - out->base), bytes) == 0;
        }
        um_mem_free(exec.scratch);
    }
    um_cpu_pool_put(pool);
    free(first);
    return same;
}

#endif
