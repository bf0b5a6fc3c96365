/* test/program.h: a program of everything: two streams, ops alone, in batches and in a graph,
 * events, copies, memory in stream order, callbacks, and all given back. For tests of devices that
 * fail. */
#ifndef UM_TEST_PROGRAM_H
#define UM_TEST_PROGRAM_H

#include "test/test.h"

#include <stdatomic.h>
#include <umbel/umbel.h>

enum { N = 8, FLOATS = N * N, BYTES = FLOATS * 4, BUFFERS = 7 };

typedef struct program {
    um_device *device;
    um_stream *a, *b;
    um_ptr buffer[BUFFERS], pooled;
    um_graph *graph;
    _Atomic int32_t calls; /* callbacks that came */
    int32_t promised;
    float result[FLOATS], copy[FLOATS];
} program;

static um_op op_of(um_op_id id, int32_t in_count, um_ptr out, um_ptr a, um_ptr b)
{
    um_op op = {.id = id, .in_count = in_count, .out_count = 1};
    const int64_t shape[2] = {N, N};
    CHECK_OK(um_view_make(a, UM_F32, 2, shape, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 2, shape, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 2, shape, &op.out[0]));
    if (id == UM_OP_MATMUL) op.attrs.matmul.alpha = 1;
    if (id == UM_OP_SOFTMAX) op.attrs.axis.axis = 1;
    if (id == UM_OP_SORT) op.attrs.sort.axis = 0;
    return op;
}

static void count_call(void *user, um_status status)
{
    (void)status;
    atomic_fetch_add(&((program *)user)->calls, 1);
}

/* ---- the program ---------------------------------------------------------------------------- */

static um_status set_up(program *p)
{
    float data[FLOATS];
    um_caps caps = {.struct_size = sizeof caps};
    for (int i = 0; i < FLOATS; i++) data[i] = (float)(i * 5 % 13 - 6) / 8;
    UM_TRY(um_device_caps(p->device, &caps));
    UM_TRY(um_stream_create(p->device, &p->a));
    UM_TRY(um_stream_create_priority(p->device, 1, &p->b));
    for (int i = 0; i < BUFFERS; i++) UM_TRY(um_alloc(p->device, BYTES, &p->buffer[i]));
    UM_TRY(um_write(p->a, p->buffer[0], data, BYTES));
    UM_TRY(um_copy(p->a, p->buffer[1], p->buffer[0], BYTES));
    UM_TRY(um_fill(p->a, p->buffer[6], BYTES, "\3\0\0", 4));
    return um_fill(p->a, p->buffer[2], BYTES, "\0\0\x80\x3f", 4);
}

/* On a: buffer 3; b goes on from there when a has come so far. */
static um_status compute(program *p)
{
    const um_ptr *x = p->buffer;
    um_event event;
    um_op product = op_of(UM_OP_MATMUL, 2, x[3], x[0], x[1]);
    um_op soft = op_of(UM_OP_SOFTMAX, 1, x[4], x[3], 0);
    um_op batch[2] = {op_of(UM_OP_ADD, 2, x[3], x[4], x[2]), op_of(UM_OP_MUL, 2, x[1], x[0], x[2])};
    um_op sort = op_of(UM_OP_SORT, 1, x[5], x[3], 0);
    const int64_t rows = N;
    um_op take = op_of(UM_OP_EMBEDDING, 2, x[4], x[3], 0); /* may find out something later */
    CHECK_OK(um_view_make(x[6], UM_I32, 1, &rows, &take.in[1]));
    UM_TRY(um_enqueue(p->a, &product));
    UM_TRY(um_enqueue(p->a, &soft));
    UM_TRY(um_enqueue_batch(p->a, 2, batch));
    UM_TRY(um_enqueue(p->a, &take));
    UM_TRY(um_record(p->a, &event));
    UM_TRY(um_wait(p->b, event));
    UM_TRY(um_enqueue(p->b, &sort));
    UM_TRY(um_alloc_async(p->b, BYTES, &p->pooled));
    UM_TRY(um_copy(p->b, p->pooled, x[5], BYTES));
    um_status status = um_stream_callback(p->b, count_call, p);
    p->promised += status == UM_OK;
    UM_TRY(status);
    UM_TRY(um_record(p->b, &event));
    status = um_query(event);
    if (status != UM_NOT_READY) UM_TRY(status);
    UM_TRY(um_wait(p->a, event));
    return um_event_synchronize(event);
}

static um_status run_step(program *p)
{
    const um_ptr *x = p->buffer;
    const int64_t rows = N;
    um_op product = op_of(UM_OP_MATMUL, 2, x[3], x[0], x[2]);
    um_op take = op_of(UM_OP_EMBEDDING, 2, x[1], x[3], 0);
    um_op add = op_of(UM_OP_ADD, 2, x[4], p->pooled, x[2]);
    CHECK_OK(um_view_make(x[6], UM_I32, 1, &rows, &take.in[1]));
    UM_TRY(um_fill(p->a, x[4], BYTES, "x", 1));
    UM_TRY(um_enqueue(p->a, &product));
    UM_TRY(um_enqueue(p->a, &take));
    UM_TRY(um_copy(p->a, x[3], x[1], BYTES));
    return um_enqueue(p->a, &add);
}

/* Buffer 4 becomes the pooled one + 1, twice; then with a remap the same into buffer 5. */
static um_status replay(program *p)
{
    const um_remap remap = {p->buffer[4], BYTES, p->buffer[5]};
    UM_TRY(um_capture_begin(p->a));
    UM_TRY(run_step(p));
    UM_TRY(um_capture_end(p->a, &p->graph));
    for (int i = 0; i < 2; i++) UM_TRY(um_graph_launch(p->a, p->graph, NULL, 0));
    return um_graph_launch(p->a, p->graph, &remap, 1);
}

static um_status finish(program *p)
{
    um_ptr host = (um_ptr)(uintptr_t)p->copy;
    UM_TRY(um_copy_async(p->a, UM_COPY_DEVICE_TO_HOST, host, p->buffer[5], BYTES));
    UM_TRY(um_read(p->a, p->result, p->buffer[4], BYTES));
    UM_TRY(um_synchronize(p->b));
    return um_device_synchronize(p->device);
}

/* What a call of the clean-up says: the first error is kept, and the rest goes on. */
static void tell(um_error *first, um_status status)
{
    if (status != UM_OK && first->code == UM_OK) *first = *um_last_error();
}

/* A release tells by the last error alone. */
static void release(um_error *first, um_stream *stream)
{
    um_status before = UM_FAIL(UM_CANCELLED, "no failure of a release");
    um_stream_release(stream);
    if (um_last_error()->code != before) tell(first, um_last_error()->code);
}

/* Gives everything back, whatever happened. */
static um_error clean_up(program *p)
{
    um_error first = {.code = UM_OK};
    um_graph_release(p->graph);
    if (p->a && um_stream_is_capturing(p->a)) CHECK_OK(um_capture_end(p->a, NULL));
    for (int i = 0; i < BUFFERS; i++) {
        tell(&first,
             i % 2 && p->b ? um_free_async(p->b, p->buffer[i]) : um_free(p->device, p->buffer[i]));
    }
    tell(&first, um_free_async(p->a, p->pooled));
    release(&first, p->a);
    release(&first, p->b);
    tell(&first, um_pool_trim(p->device, 0));
    CHECK_MSG(p->calls == p->promised, "%d callbacks of %d", p->calls, p->promised);
    return first;
}

/* The first failure, after all was given back. */
static um_status run(um_device *device, float *result)
{
    program p = {.device = device};
    um_status status = set_up(&p);
    if (status == UM_OK) status = compute(&p);
    if (status == UM_OK) status = replay(&p);
    if (status == UM_OK) status = finish(&p);
    um_error error = *um_last_error(), last = clean_up(&p);
    if (status != UM_OK) return um_fail_again(&error);
    if (last.code != UM_OK) return um_fail_again(&last);
    CHECK(memcmp(p.result, p.copy, BYTES) == 0);
    memcpy(result, p.result, BYTES);
    return UM_OK;
}

#endif
