/* A program of everything, on a device that fails at call N, for every N: an error comes back (of a
 * call inside a release by um_last_error); nothing hangs or leaks, and the device can be
 * used again. The same with a device that is lost, one short of memory, and an
 * allocator that fails. */
#include "base/base.h"
#include "test/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <umbel/umbel.h>
#include <unistd.h>

enum { N = 8, FLOATS = N * N, BYTES = FLOATS * 4, BUFFERS = 6, HANG_S = 120 };

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
    UM_TRY(um_enqueue(p->a, &product));
    UM_TRY(um_enqueue(p->a, &soft));
    UM_TRY(um_enqueue_batch(p->a, 2, batch));
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

/* Buffer 4 becomes the pooled one + 1; then with a remap the same into buffer 5. */
static um_status replay(program *p)
{
    const um_ptr *x = p->buffer;
    um_op add = op_of(UM_OP_ADD, 2, x[4], p->pooled, x[2]);
    UM_TRY(um_capture_begin(p->a));
    um_status status = um_fill(p->a, x[4], BYTES, "x", 1);
    if (status == UM_OK) status = um_enqueue(p->a, &add);
    if (status == UM_OK) status = um_capture_end(p->a, &p->graph);
    UM_TRY(status);
    UM_TRY(um_graph_launch(p->a, p->graph, NULL, 0));
    return um_graph_launch(p->a, p->graph, &(um_remap){x[4], BYTES, x[5]}, 1);
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

/* ---- under it ------------------------------------------------------------------------------- */

static float wanted[FLOATS];

static void check_result(um_device *device, const char *spec)
{
    float result[FLOATS] = {0};
    um_status status = run(device, result);
    CHECK_MSG(status == UM_OK, "%s: %s", spec, um_last_error()->message);
    CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "%s: another result", spec);
}

static void test_result(void)
{
    um_device *device;
    CHECK_OK(um_open("cpu+validate", &device));
    CHECK_OK(run(device, wanted));
    CHECK(wanted[0] > 2 && wanted[0] < 3); /* a softmax's share, + 1 + 1, sorted */
    CHECK(wanted[0] <= wanted[N] && wanted[N] <= wanted[2 * N]);
    um_device_release(device);
}

/* The first call that failed, or -1. */
static int64_t failed_call(um_device *device)
{
    um_call call = {.struct_size = sizeof call};
    for (int64_t i = 0; i < um_call_count(device); i++) {
        CHECK_OK(um_call_get(device, i, &call));
        if (call.status != UM_OK && call.status != UM_NOT_READY) return i;
    }
    return -1;
}

static void test_every_call(void)
{
    int64_t refused = 0, n = 1;
    for (bool reached = true; reached; n++) {
        char spec[64];
        um_device *device;
        float result[FLOATS] = {0};
        int64_t blocks = um_mem_live_count();
        snprintf(spec, sizeof spec, "cpu+fault=call:%lld+record", (long long)n);
        CHECK_OK(um_open(spec, &device));
        um_status status = run(device, result);
        int64_t failed = failed_call(device);
        reached = failed >= 0;
        if (status != UM_OK) {
            CHECK_MSG(status == UM_DEVICE_ERROR && strstr(um_last_error()->message, "on purpose"),
                      "%s: %s", spec, um_last_error()->message);
        } else {
            CHECK_MSG(!reached, "%s: no error of call %lld", spec, (long long)failed);
            CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "%s: another result", spec);
        }
        refused += status != UM_OK;
        if (reached) check_result(device, spec); /* once more, on the same device */
        um_device_release(device);
        CHECK_MSG(um_mem_live_count() == blocks, "%s leaks", spec);
    }
    CHECK_MSG(refused >= 30, "%lld of %lld calls", (long long)refused, (long long)n);
}

static void test_lost_at_every_call(void)
{
    int64_t refused = 0;
    for (int64_t n = 1;; n++) {
        char spec[64];
        um_device *device;
        float result[FLOATS] = {0};
        int64_t blocks = um_mem_live_count();
        snprintf(spec, sizeof spec, "cpu+fault=lost:%lld+record", (long long)n);
        CHECK_OK(um_open(spec, &device));
        um_status status = run(device, result);
        bool reached = failed_call(device) >= 0;
        if (status != UM_OK) {
            CHECK_MSG(status == UM_DEVICE_LOST, "%s: %s", spec, um_last_error()->message);
            CHECK(run(device, result) == UM_DEVICE_LOST);
        } else {
            CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "%s: another result", spec);
        }
        refused += status != UM_OK;
        um_device_release(device);
        CHECK_MSG(um_mem_live_count() == blocks, "%s leaks", spec);
        if (!reached) break;
    }
    CHECK_MSG(refused >= 30, "%lld", (long long)refused);
    um_device *device;
    CHECK_OK(um_open("cpu", &device));
    check_result(device, "cpu");
    um_device_release(device);
}

static void test_little_memory(void)
{
    int refused = 0, done = 0;
    for (int bytes = 0; bytes <= (BUFFERS + 2) * BYTES; bytes += BYTES / 2) {
        char spec[64];
        um_device *device;
        float result[FLOATS] = {0};
        snprintf(spec, sizeof spec, "cpu+fault=memory:%d", bytes);
        CHECK_OK(um_open(spec, &device));
        for (int i = 0; i < 2; i++) {
            um_status status = run(device, result);
            CHECK_MSG(status == UM_OK || status == UM_OUT_OF_MEMORY, "%s: %s", spec,
                      um_last_error()->message);
            refused += status != UM_OK;
            done += status == UM_OK && memcmp(result, wanted, BYTES) == 0;
        }
        um_device_release(device);
    }
    CHECK_MSG(refused >= 10 && done >= 2, "%d refused, %d done", refused, done);
}

static void test_every_allocation(void)
{
    int64_t refused = 0;
    for (int64_t n = 1;; n++) {
        um_device *device;
        float result[FLOATS] = {0};
        int64_t blocks = um_mem_live_count();
        CHECK_OK(um_open("cpu+validate", &device));
        um_mem_fail_at(n, false);
        um_status status = run(device, result);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(status == UM_OK || status == UM_OUT_OF_MEMORY, "%s", um_last_error()->message);
        refused += status != UM_OK;
        check_result(device, "cpu+validate");
        um_device_release(device);
        CHECK_MSG(um_mem_live_count() == blocks, "allocation %lld leaks", (long long)n);
        if (!reached) break;
    }
    CHECK_MSG(refused >= 20, "%lld", (long long)refused);
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    alarm(HANG_S); /* a hang ends the test */
    TEST(test_result);
    TEST(test_every_call);
    TEST(test_lost_at_every_call);
    TEST(test_little_memory);
    TEST(test_every_allocation);
    return TEST_RESULT();
}
