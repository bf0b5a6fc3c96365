/* test/driver_pools.h: what a driver makes for work on its way, and uses again, is as much as was
 * ever on its way at once: a matter of time. Here it is more than any test has, so that all of it
 * is there before a test counts what is made anew. */
#ifndef UM_TEST_DRIVER_POOLS_H
#define UM_TEST_DRIVER_POOLS_H

#include "test/test.h"

#include <umbel/umbel.h>

/* Small pieces of work on a stream (NULL: on a new one) and another one, in turns, behind a product
 * that takes its time. */
static void fill_pools(um_device *on, um_stream *stream)
{
    enum { SIDE = 640, PIECES = 32 };
    const int64_t four = 4, one = 1;
    const int32_t index = 3;
    um_stream *a = stream, *b;
    um_gemm_desc product = {.a_type = UM_F32, .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1};
    um_ptr ptr;
    um_event event;
    um_view x, at, y;
    product.lda = product.ldb = product.ldc = SIDE;
    if (!stream) CHECK_OK(um_stream_create(on, &a));
    CHECK_OK(um_stream_create(on, &b));
    CHECK_OK(um_alloc(on, sizeof(float) * SIDE * SIDE, &product.a));
    CHECK_OK(um_alloc(on, sizeof(float) * SIDE * SIDE, &product.c));
    CHECK_OK(um_alloc(on, 1024, &ptr));
    CHECK_OK(um_view_make(ptr, UM_F32, 1, &four, &x));
    CHECK_OK(um_view_make(ptr + 256, UM_I32, 1, &one, &at));
    CHECK_OK(um_view_make(ptr + 512, UM_F32, 1, &one, &y));
    CHECK_OK(um_fill(a, product.a, sizeof(float) * SIDE * SIDE, &(uint32_t){0}, 4));
    CHECK_OK(um_fill(a, ptr, 1024, &(uint32_t){0}, 4));
    product.b = product.a;
    for (int round = 0; round < 2; round++) { /* the first compiles */
        CHECK_OK(um_gemm(a, &product));
        for (int i = 0; i < PIECES; i++) {
            CHECK_OK(um_write(a, at.ptr, &index, sizeof index));
            CHECK_OK(um_gather_view(a, 0, &x, &at, &y));
            CHECK_OK(um_record(a, &event));
            CHECK_OK(um_wait(b, event)); /* sends off what both have */
            CHECK_OK(um_fill(b, ptr + 768, 256, "b", 1));
        }
        CHECK_OK(um_synchronize(b));
        CHECK_OK(um_synchronize(a));
    }
    CHECK_OK(um_free(on, product.a));
    CHECK_OK(um_free(on, product.c));
    CHECK_OK(um_free(on, ptr));
    if (!stream) um_stream_release(a);
    um_stream_release(b);
}

#endif
