/* test/face.h: for the tests of the compute face: a device with a stream, tensors on it
 * made from C arrays, and one function run with several numbers of threads. */
#ifndef UM_TEST_FACE_H
#define UM_TEST_FACE_H

#include "test.h"

#include <stdlib.h>
#include <umbel/compute.h>

#define SHAPE(...)                                                                                 \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

enum { FACE_MAX_BLOCKS = 64 };

typedef struct face {
    um_device *device;
    um_stream *stream;
    um_ptr block[FACE_MAX_BLOCKS];
    int block_count;
} face;

static inline face face_open(void)
{
    face f = {0};
    CHECK_OK(um_open("cpu", &f.device));
    CHECK_OK(um_stream_create(f.device, &f.stream));
    return f;
}

static inline void face_close(face *f)
{
    for (int i = 0; i < f->block_count; i++) CHECK_OK(um_free(f->device, f->block[i]));
    um_stream_release(f->stream);
    um_device_release(f->device);
}

static inline size_t view_bytes(const um_view *view)
{
    size_t bytes = (size_t)um_dtype_bits(view->dtype) / 8;
    for (int32_t i = 0; i < view->rank; i++) bytes *= (size_t)view->shape[i];
    return bytes;
}

/* A packed tensor; data NULL: its bytes are 0xa5. */
static inline um_view face_put(face *f, um_dtype dtype, int32_t rank, const int64_t *shape,
                               const void *data)
{
    um_view view;
    CHECK_OK(um_view_make(0, dtype, rank, shape, &view));
    size_t bytes = view_bytes(&view);
    CHECK(f->block_count < FACE_MAX_BLOCKS);
    CHECK_OK(um_alloc(f->device, bytes, &view.ptr));
    f->block[f->block_count++] = view.ptr;
    if (data)
        CHECK_OK(um_write(f->stream, view.ptr, data, bytes));
    else
        CHECK_OK(um_fill(f->stream, view.ptr, bytes, "\xa5", 1));
    return view;
}

/* A packed tensor's elements; waits. */
static inline void face_get(face *f, const um_view *view, void *data)
{
    CHECK_OK(um_read(f->stream, data, view->ptr, view_bytes(view)));
}

/* Whether a packed tensor holds these bits. */
static inline bool face_holds(face *f, const um_view *view, const void *wanted)
{
    size_t bytes = view_bytes(view);
    void *got = malloc(bytes + 1);
    face_get(f, view, got);
    bool same = memcmp(got, wanted, bytes) == 0;
    free(got);
    return same;
}

/* Runs `make`, which fills `bits` with what an op gives, with 1, 2, 3 and 8 threads; whether the
 * bits are the same. */
static inline bool same_for_any_threads(void (*make)(face *f, void *bits), size_t bytes)
{
    static const char *const threads[] = {"1", "2", "3", "8"};
    char *first = calloc(1, bytes), *now = calloc(1, bytes);
    bool same = true;
    for (int i = 0; i < 4; i++) {
        setenv("UMBEL_THREADS", threads[i], 1);
        face f = face_open();
        make(&f, i == 0 ? first : now);
        face_close(&f);
        same = same && (i == 0 || memcmp(first, now, bytes) == 0);
    }
    unsetenv("UMBEL_THREADS");
    free(first);
    free(now);
    return same;
}

#endif
