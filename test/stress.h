/* test/stress.h: everything at once: THREADS threads with two streams each, of two devices, take
 * random steps for so many seconds: ops, batches, graphs, events of each other, waits, queries,
 * callbacks, copies, memory that comes and goes. Each stream counts what it did in its own memory,
 * and at the end that has to be there. Run by test_stress.c and test_opencl_stress.c (short, under
 * the thread sanitizer) and long_stress.c. */
#ifndef UM_TEST_STRESS_H
#define UM_TEST_STRESS_H

#include "base/os.h"
#include "test/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <umbel/umbel.h>

enum { THREADS = 8, STREAMS = 2 * THREADS, SIDE = 16, CELLS = SIDE * SIDE, CELL_BYTES = CELLS * 4 };

/* Memory of a stream: a counter and a one, then three matrices that are computed on. */
typedef struct lane {
    um_device *device;
    um_stream *stream;
    um_ptr counter, matrix[3];
    um_graph *graph; /* one step of counting, captured in the first lane of the device */
    um_ptr graph_counter;
    um_graph *own; /* counts, and computes on what the lane has: long enough to be recorded */
    int64_t counted, promised;
    _Atomic int64_t calls;
    float host[CELLS];
} lane;

typedef struct stress {
    um_device *device[2];
    um_graph *graph[2];
    um_ptr graph_counter[2];
    lane lanes[STREAMS];
    um_mutex mutex;
    um_event event[STREAMS]; /* each stream's latest; under mutex */
    _Atomic int32_t next_thread;
    _Atomic int64_t steps;
    int64_t end_ns;
} stress;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static um_op square_op(um_op_id id, int32_t in_count, um_ptr out, um_ptr a, um_ptr b)
{
    um_op op = {.id = id, .in_count = in_count, .out_count = 1};
    const int64_t shape[2] = {SIDE, SIDE};
    CHECK_OK(um_view_make(a, UM_F32, 2, shape, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 2, shape, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 2, shape, &op.out[0]));
    if (id == UM_OP_MATMUL) op.attrs.matmul.alpha = 1;
    if (id == UM_OP_SOFTMAX || id == UM_OP_CUMSUM) op.attrs.axis.axis = -1;
    if (id == UM_OP_SORT) op.attrs.sort.axis = -1;
    return op;
}

/* counter += 1 */
static um_op count_op(um_ptr counter)
{
    const int64_t one = 1;
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(counter, UM_F64, 1, &one, &op.in[0]));
    CHECK_OK(um_view_make(counter + 8, UM_F64, 1, &one, &op.in[1]));
    op.out[0] = op.in[0];
    return op;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void count_call(void *user, um_status status)
{
    CHECK(status == UM_OK);
    atomic_fetch_add(&((lane *)user)->calls, 1);
}

static void compute(lane *l, uint32_t random)
{
    static const um_op_id ids[] = {UM_OP_SOFTMAX, UM_OP_MATMUL, UM_OP_SORT,
                                   UM_OP_CUMSUM,  UM_OP_MAX,    UM_OP_TANH};
    um_op_id id = ids[random % 6];
    bool pair = id == UM_OP_MATMUL || id == UM_OP_MAX;
    um_op op = square_op(id, pair ? 2 : 1, l->matrix[2], l->matrix[0], l->matrix[1]);
    um_op back = square_op(UM_OP_TANH, 1, l->matrix[random & 1], l->matrix[2], 0);
    CHECK_OK(um_enqueue(l->stream, &op));
    CHECK_OK(um_enqueue(l->stream, &back));
}

static void compute_batch(lane *l)
{
    um_op ops[3] = {count_op(l->counter), square_op(UM_OP_TANH, 1, l->matrix[1], l->matrix[0], 0),
                    square_op(UM_OP_SOFTMAX, 1, l->matrix[2], l->matrix[0], 0)};
    CHECK_OK(um_enqueue_batch(l->stream, 3, ops));
    l->counted++;
}

static void launch(lane *l, uint32_t random)
{
    l->counted++;
    if (random & 1) {
        CHECK_OK(um_graph_launch(l->stream, l->own, NULL, 0));
        return;
    }
    um_remap remap = {l->graph_counter, 16, l->counter};
    CHECK_OK(um_graph_launch(l->stream, l->graph, &remap, 1));
}

/* Memory of the pool: used, copied from, given back, also behind another stream. */
static void come_and_go(lane *l, uint32_t random)
{
    um_ptr ptr, other;
    uint64_t size = CELL_BYTES << random % 4;
    CHECK_OK(um_alloc_async(l->stream, size, &ptr));
    CHECK_OK(um_fill(l->stream, ptr, size, "\0\0\0\x3f", 4));
    CHECK_OK(um_copy(l->stream, l->matrix[0], ptr, CELL_BYTES));
    if (random & 16) CHECK_OK(um_alloc(l->device, size, &other));
    if (random & 16) CHECK_OK(um_free_async(l->stream, other));
    if ((random & 224) == 0) CHECK_OK(um_pool_trim(l->device, 0));
    CHECK_OK((random & 256) && (random & 512) ? um_free(l->device, ptr)
                                              : um_free_async(l->stream, ptr));
}

static void copy_host(lane *l, uint32_t random)
{
    um_ptr host = (um_ptr)(uintptr_t)l->host;
    if (random & 1) {
        CHECK_OK(um_copy_async(l->stream, UM_COPY_DEVICE_TO_HOST, host, l->matrix[1], CELL_BYTES));
    } else {
        CHECK_OK(um_copy_async(l->stream, UM_COPY_HOST_TO_DEVICE, l->matrix[0], host, CELL_BYTES));
    }
}

static um_event trade_event(stress *s, int32_t own, uint32_t random)
{
    um_event event;
    CHECK_OK(um_record(s->lanes[own].stream, &event));
    um_mutex_lock(&s->mutex);
    s->event[own] = event;
    um_event taken = s->event[random % STREAMS];
    um_mutex_unlock(&s->mutex);
    return taken;
}

static void check_counter(lane *l)
{
    double value = -1;
    CHECK_OK(um_read(l->stream, &value, l->counter, sizeof value));
    CHECK_MSG(value == (double)l->counted, "%g, wanted %lld", value, (long long)l->counted);
    CHECK(atomic_load(&l->calls) == l->promised);
}

static void use_events(stress *s, int32_t own, uint32_t random)
{
    um_event other = trade_event(s, own, random >> 4);
    lane *l = &s->lanes[own];
    um_status status;
    switch (random & 3) {
    case 0:
    case 1: CHECK_OK(um_wait(l->stream, other)); break;
    case 2: CHECK_OK(um_event_synchronize(other)); break;
    default:
        status = um_query(other);
        CHECK(status == UM_OK || status == UM_NOT_READY);
        break;
    }
}

/* A stream more, for a moment. */
static void short_stream(lane *l)
{
    um_stream *stream;
    um_event event;
    CHECK_OK(um_record(l->stream, &event));
    CHECK_OK(um_stream_create_priority(l->device, 1, &stream));
    CHECK_OK(um_wait(stream, event));
    um_stream_release(stream);
}

static void step(stress *s, int32_t own, uint32_t random)
{
    lane *l = &s->lanes[own];
    um_op count = count_op(l->counter);
    CHECK_OK(um_enqueue(l->stream, &count));
    l->counted++;
    switch (random % 13) {
    case 0:
    case 1:
    case 2: compute(l, random / 13); break;
    case 3: compute_batch(l); break;
    case 4: launch(l, random / 13); break;
    case 5:
    case 6: come_and_go(l, random / 13); break;
    case 7: copy_host(l, random / 13); break;
    case 8:
        CHECK_OK(um_stream_callback(l->stream, count_call, l));
        l->promised++;
        break;
    case 9:
    case 10: use_events(s, own, random / 13); break;
    case 11: check_counter(l); break;
    default:
        if (random / 13 % 16 == 0) CHECK_OK(um_device_synchronize(l->device));
        if (random / 13 % 16 == 1) short_stream(l);
        if (random / 13 % 256 == 2) um_call_clear(l->device); /* else it is gigabytes */
        break;
    }
}

static void stress_thread(void *arg)
{
    stress *s = arg;
    int32_t own = atomic_fetch_add(&s->next_thread, 1);
    uint32_t random = (uint32_t)own * 7919 + 1;
    int64_t steps = 0;
    for (; um_os_now_ns() < s->end_ns; steps++) {
        step(s, own + (steps & 1 ? THREADS : 0), next_random(&random));
    }
    atomic_fetch_add(&s->steps, steps);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void capture_own(lane *l)
{
    CHECK_OK(um_capture_begin(l->stream));
    compute(l, 1);
    compute_batch(l);
    l->counted--; /* not yet */
    CHECK_OK(um_copy(l->stream, l->matrix[0], l->matrix[2], CELL_BYTES));
    CHECK_OK(um_capture_end(l->stream, &l->own));
}

static void make_lane(stress *s, int32_t index)
{
    lane *l = &s->lanes[index];
    const double start[2] = {0, 1};
    l->device = s->device[index % 2];
    CHECK_OK(um_stream_create_priority(l->device, index % 3 - 1, &l->stream));
    CHECK_OK(um_alloc(l->device, sizeof start, &l->counter));
    CHECK_OK(um_write(l->stream, l->counter, start, sizeof start));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(um_alloc(l->device, CELL_BYTES, &l->matrix[i]));
        CHECK_OK(um_fill(l->stream, l->matrix[i], CELL_BYTES, "\0\0\0\x3f", 4));
    }
    if (!s->graph[index % 2]) {
        um_op count = count_op(l->counter);
        CHECK_OK(um_capture_begin(l->stream));
        CHECK_OK(um_enqueue(l->stream, &count));
        CHECK_OK(um_capture_end(l->stream, &s->graph[index % 2]));
        s->graph_counter[index % 2] = l->counter;
    }
    l->graph = s->graph[index % 2];
    l->graph_counter = s->graph_counter[index % 2];
    capture_own(l);
}

static void run_stress(double seconds, const char *first, const char *second)
{
    static stress s;
    um_thread thread[THREADS];
    int64_t blocks = um_mem_live_count();
    memset(&s, 0, sizeof s);
    CHECK_OK(um_mutex_init(&s.mutex));
    CHECK_OK(um_open(first, &s.device[0]));
    CHECK_OK(um_open(second, &s.device[1]));
    for (int32_t i = 0; i < STREAMS; i++) make_lane(&s, i);
    s.end_ns = um_os_now_ns() + (int64_t)(seconds * 1e9);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(um_thread_start(&thread[i], stress_thread, &s, "stress"));
    }
    for (int i = 0; i < THREADS; i++) um_thread_join(thread[i]);
    for (int32_t i = 0; i < STREAMS; i++) {
        check_counter(&s.lanes[i]);
        if (i % 4) um_graph_release(s.lanes[i].own); /* before its stream, or behind it */
        um_stream_release(s.lanes[i].stream);
        if (i % 4 == 0) um_graph_release(s.lanes[i].own);
    }
    um_pool_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(um_pool_get_stats(s.device[0], &stats));
    CHECK(stats.in_use_bytes == 0);
    printf("%lld steps, %llu of %llu pool blocks used again\n", (long long)s.steps,
           (unsigned long long)stats.reuse_count, (unsigned long long)stats.alloc_count);
    for (int i = 0; i < 2; i++) {
        um_graph_release(s.graph[i]);
        um_device_release(s.device[i]);
    }
    um_mutex_destroy(&s.mutex);
    CHECK(um_mem_live_count() == blocks);
}

#endif
