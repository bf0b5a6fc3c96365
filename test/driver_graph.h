/* test/driver_graph.h: graphs on a device of a driver over a loader that counts: a launch that the
 * driver has recorded gives bit for bit what the same calls give, on any stream, also when many are
 * under way; errors that come late are neither lost nor made up; whatever is released first; and
 * once warm, nothing is made anew. Skipped where no driver is. */
#ifndef UM_TEST_DRIVER_GRAPH_H
#define UM_TEST_DRIVER_GRAPH_H

#include "base/base.h"
#include "base/os.h"
#include "test/driver_pools.h"

#include <stdlib.h>
#include <umbel/umbel.h>

/* What a test has to say of its driver; `driver` is defined by it. */
typedef struct driver_row {
    const char *device, *backends;
    int32_t kinds;
    const char *const *names;                             /* of the kinds of handles */
    int64_t (*live)(int32_t kind), (*made)(int32_t kind); /* that are alive; ever */
    uint32_t each_time, recorded; /* bits: kinds of which each launch may make some; of which what
                                     is recorded has some */
} driver_row;
static const driver_row driver;

enum { N = 64, FLOATS = 1 << 15, BYTES = FLOATS * 4, BUFFERS = 8, KINDS_MAX = 16 };

static um_device *device;

/* ---- work ----------------------------------------------------------------------------------- */

/* Buffers, of BYTES each: 0 is read only, 1 goes on from what it is, 2 has indices. */
typedef struct memory {
    um_ptr x[BUFFERS];
} memory;

static um_stream *create_stream(void)
{
    um_stream *stream = NULL;
    CHECK_OK(um_stream_create(device, &stream));
    return stream;
}

static memory make_memory(void)
{
    memory m;
    for (int i = 0; i < BUFFERS; i++) CHECK_OK(um_alloc(device, BYTES, &m.x[i]));
    return m;
}

static void free_memory(const memory *m)
{
    for (int i = 0; i < BUFFERS; i++) CHECK_OK(um_free(device, m->x[i]));
}

static void set_memory(um_stream *s, const memory *m, int seed)
{
    static float data[FLOATS];
    int32_t ids[N];
    for (int i = 0; i < FLOATS; i++) data[i] = (float)((i * 7 + seed * 5) % 23 - 11) / 4;
    for (int i = 0; i < N; i++) ids[i] = (i * 5 + seed) % N;
    for (int i = 0; i < BUFFERS; i++) CHECK_OK(um_write(s, m->x[i], data, BYTES));
    CHECK_OK(um_write(s, m->x[2], ids, sizeof ids));
}

/* Whether both have the same in all buffers. */
static bool is_same(um_stream *s, const memory *a, const memory *b)
{
    static uint8_t of_a[BYTES], of_b[BYTES];
    bool same = true;
    for (int i = 0; i < BUFFERS; i++) {
        CHECK_OK(um_read(s, of_a, a->x[i], BYTES));
        CHECK_OK(um_read(s, of_b, b->x[i], BYTES));
        same = same && memcmp(of_a, of_b, BYTES) == 0;
    }
    return same;
}

/* Of squares, or of all floats in a row. */
static um_op op_of(um_op_id id, int32_t in_count, bool square, um_ptr out, um_ptr a, um_ptr b)
{
    um_op op = {.id = id, .in_count = in_count, .out_count = 1};
    const int64_t shape[2] = {square ? N : FLOATS, N};
    const int32_t rank = square ? 2 : 1;
    CHECK_OK(um_view_make(a, UM_F32, rank, shape, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, rank, shape, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, rank, shape, &op.out[0]));
    if (id == UM_OP_MATMUL) op.attrs.matmul.alpha = 1;
    if (id == UM_OP_SOFTMAX || id == UM_OP_CUMSUM) op.attrs.axis.axis = -1;
    if (id == UM_OP_SORT) op.attrs.sort.axis = -1;
    return op;
}

static void enqueue(um_stream *s, um_op op) { CHECK_OK(um_enqueue(s, &op)); }

/* Rows of one square by the indices: what finds out late that one is bad. */
static um_op take_op(const memory *m, um_ptr out, um_ptr table)
{
    const int64_t rows = N;
    um_op op = op_of(UM_OP_EMBEDDING, 2, true, out, table, table);
    CHECK_OK(um_view_make(m->x[2], UM_I32, 1, &rows, &op.in[1]));
    return op;
}

/* Two runs of what can be recorded, with a write between them. */
static void work(um_stream *s, const memory *m)
{
    const um_ptr *x = m->x;
    const um_op batch[2] = {op_of(UM_OP_MAX, 2, true, x[5], x[0], x[1]),
                            op_of(UM_OP_SUB, 2, true, x[6], x[0], x[1])};
    CHECK_OK(um_fill(s, x[3], BYTES, "\0\0\x80\x3f", 4));
    enqueue(s, op_of(UM_OP_ADD, 2, false, x[1], x[1], x[0]));
    CHECK_OK(um_enqueue_batch(s, 2, batch));
    enqueue(s, op_of(UM_OP_MATMUL, 2, true, x[4], x[1], x[5]));
    enqueue(s, op_of(UM_OP_SOFTMAX, 1, true, x[5], x[4], 0));
    enqueue(s, take_op(m, x[4], x[5]));
    enqueue(s, op_of(UM_OP_SORT, 1, true, x[6], x[5], 0));
    enqueue(s, op_of(UM_OP_SORT, 1, false, x[7], x[1], 0)); /* with more scratch */
    enqueue(s, take_op(m, x[5], x[7]));
    CHECK_OK(um_write(s, x[3] + 256, "some bytes", 10));
    CHECK_OK(um_copy(s, x[6] + 4096, x[3], 4096));
    CHECK_OK(um_fill(s, x[4] + 3, 61, "\x11", 1));
    enqueue(s, op_of(UM_OP_CUMSUM, 1, false, x[3], x[1], 0));
    enqueue(s, op_of(UM_OP_ADD, 2, true, x[7], x[4], x[5]));
}

static um_graph *capture(um_stream *s, const memory *m)
{
    um_graph *graph = NULL;
    CHECK_OK(um_capture_begin(s));
    work(s, m);
    CHECK_OK(um_capture_end(s, &graph));
    return graph;
}

static void launch(um_stream *s, um_graph *graph) { CHECK_OK(um_graph_launch(s, graph, NULL, 0)); }

/* ---- the same numbers ----------------------------------------------------------------------- */

static void test_numbers(void)
{
    um_stream *stream = create_stream(), *other = create_stream();
    memory m = make_memory(), wanted = make_memory();
    um_graph *graph = capture(stream, &m);
    for (int turn = 0; turn < 6; turn++) {
        um_stream *s = turn % 2 ? other : stream;
        set_memory(s, &m, turn);
        set_memory(s, &wanted, turn);
        for (int i = 0; i < 2; i++) work(s, &wanted);
        for (int i = 0; i < 2; i++) launch(s, graph);
        CHECK_MSG(is_same(s, &m, &wanted), "turn %d", turn);
    }
    for (int i = 0; i < 20; i++) work(other, &wanted);
    for (int i = 0; i < 20; i++) launch(other, graph);
    CHECK(is_same(other, &m, &wanted));
    um_graph_release(graph);
    free_memory(&m);
    free_memory(&wanted);
    um_stream_release(stream);
    um_stream_release(other);
}

static void test_remaps(void)
{
    um_stream *s = create_stream();
    memory m = make_memory(), moved = make_memory(), wanted = make_memory();
    um_graph *graph = capture(s, &m);
    um_remap remap[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) remap[i] = (um_remap){m.x[i], BYTES, moved.x[i]};
    set_memory(s, &m, 1);
    set_memory(s, &moved, 2);
    for (int count = BUFFERS; count >= 0; count -= BUFFERS) {
        const memory *here = count ? &moved : &m;
        for (int turn = 0; turn < 2; turn++) CHECK_OK(um_graph_launch(s, graph, remap, count));
        set_memory(s, &wanted, count ? 2 : 1);
        for (int turn = 0; turn < 2; turn++) work(s, &wanted);
        CHECK_MSG(is_same(s, here, &wanted), "%d remaps", count);
    }
    um_graph_release(graph);
    free_memory(&m);
    free_memory(&moved);
    free_memory(&wanted);
    um_stream_release(s);
}

/* Not a whole number of patterns from the buffer's beginning; and nothing to do at all. */
static void test_odd_pieces(void)
{
    um_stream *s = create_stream();
    memory m = make_memory();
    um_graph *graph = NULL;
    uint8_t bytes[16];
    um_op none = op_of(UM_OP_ADD, 2, true, m.x[1], m.x[1], m.x[0]);
    none.in[0].shape[0] = none.in[1].shape[0] = none.out[0].shape[0] = 0;
    set_memory(s, &m, 0);
    CHECK_OK(um_capture_begin(s));
    CHECK_OK(um_fill(s, m.x[3], 32, "z", 1));
    CHECK_OK(um_fill(s, m.x[3] + 2, 8, "abcd", 4));
    enqueue(s, none);
    CHECK_OK(um_copy(s, m.x[4], m.x[3] + 1, 16));
    CHECK_OK(um_copy(s, m.x[4] + 16, m.x[3], 16));
    CHECK_OK(um_capture_end(s, &graph));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(um_fill(s, m.x[4], 64, "-", 1));
        launch(s, graph);
        CHECK_OK(um_read(s, bytes, m.x[4], 16));
        CHECK(memcmp(bytes, "zabcdabcdzzzzzzz", 16) == 0);
    }
    um_graph_release(graph);
    free_memory(&m);
    um_stream_release(s);
}

/* ---- errors that come late ------------------------------------------------------------------ */

static um_status write_index(um_stream *s, const memory *m, int32_t index)
{
    return um_write(s, m->x[2] + 12, &index, sizeof index);
}

static void check_good(um_stream *s, const memory *m, const memory *wanted, um_graph *graph)
{
    set_memory(s, m, 3);
    set_memory(s, wanted, 3);
    for (int i = 0; i < 3; i++) work(s, wanted);
    for (int i = 0; i < 3; i++) launch(s, graph);
    CHECK_OK(um_synchronize(s));
    CHECK(is_same(s, m, wanted));
}

/* Its second run may meet already what the first has found out. */
static um_status launch_bad(um_stream *s, um_graph *graph)
{
    um_status status = um_graph_launch(s, graph, NULL, 0);
    CHECK(status == UM_OK || status == UM_OUT_OF_RANGE);
    return status;
}

static void check_failed(um_stream *s)
{
    CHECK_FAILS(um_synchronize(s), UM_OUT_OF_RANGE, "embedding");
    CHECK(strcmp(um_last_error()->op, "embedding") == 0);
    CHECK(um_stream_clear_error(s) == UM_OUT_OF_RANGE);
    CHECK_OK(um_synchronize(s));
}

static void test_late_errors(void)
{
    um_stream *s = create_stream();
    memory m = make_memory(), wanted = make_memory();
    um_graph *graph = capture(s, &m);
    check_good(s, &m, &wanted, graph);
    CHECK_OK(write_index(s, &m, N));
    (void)launch_bad(s, graph);
    check_failed(s);
    check_good(s, &m, &wanted, graph);
    for (int bad = 0; bad < 3; bad++) { /* which of three under way is bad */
        um_status status = UM_OK;
        for (int i = 0; i < 3 && status == UM_OK; i++) {
            status = write_index(s, &m, i == bad ? -1 : 1);
            if (status == UM_OK) status = launch_bad(s, graph);
        }
        CHECK(status == UM_OK || status == UM_OUT_OF_RANGE);
        check_failed(s);
        check_good(s, &m, &wanted, graph);
    }
    um_graph_release(graph);
    um_graph *first = capture(s, &m); /* of which the first launch is bad */
    CHECK_OK(write_index(s, &m, 1 << 20));
    (void)launch_bad(s, first);
    check_failed(s);
    check_good(s, &m, &wanted, first);
    um_graph_release(first);
    free_memory(&m);
    free_memory(&wanted);
    um_stream_release(s);
}

/* A stream that waits gets the errors of what it waits for, and no others. */
static void test_errors_of_others(void)
{
    um_stream *s = create_stream(), *later = create_stream(), *before = create_stream();
    memory m = make_memory();
    um_graph *graph = capture(s, &m);
    um_event event;
    set_memory(s, &m, 0);
    launch(s, graph);
    launch(s, graph);
    CHECK_OK(um_record(s, &event));
    CHECK_OK(um_wait(before, event));
    CHECK_OK(write_index(s, &m, N));
    (void)launch_bad(s, graph);
    CHECK_OK(um_record(s, &event));
    CHECK_OK(um_wait(later, event));
    um_graph_release(graph);
    check_failed(s);
    check_failed(later);
    CHECK_OK(um_synchronize(before));
    free_memory(&m);
    um_stream_release(s);
    um_stream_release(later);
    um_stream_release(before);
}

/* ---- what goes first ------------------------------------------------------------------------ */

static void test_release_order(void)
{
    um_stream *last = create_stream();
    memory m = make_memory(), wanted = make_memory();
    for (int i = 0; i < 6; i++) {
        um_stream *s = create_stream();
        um_graph *graph = capture(s, &m), *other = capture(s, &m);
        set_memory(s, &m, i);
        set_memory(last, &wanted, i);
        for (int k = 0; k < 3; k++) work(last, &wanted);
        for (int k = 0; k < 2; k++) launch(s, graph);
        if (i % 2) um_graph_release(graph);
        if (i % 3) launch(s, other); /* and what was recorded of the other goes */
        um_stream_release(s);
        if (i % 2 == 0) um_graph_release(graph);
        if (i % 3 == 0) launch(last, other);
        CHECK_MSG(is_same(last, &m, &wanted), "turn %d", i);
        um_graph_release(other);
    }
    free_memory(&m);
    free_memory(&wanted);
    um_stream_release(last);
}

/* ---- nothing anew --------------------------------------------------------------------------- */

typedef struct level {
    int64_t allocs, live[KINDS_MAX], made[KINDS_MAX];
} level;

static level level_now(void)
{
    level l = {.allocs = um_mem_alloc_count()};
    for (int32_t kind = 0; kind < driver.kinds; kind++) {
        l.live[kind] = driver.live(kind);
        l.made[kind] = driver.made(kind);
    }
    return l;
}

static void launch_warm(um_stream *s, um_graph *graph, int count)
{
    for (int i = 0; i < count; i++) {
        launch(s, graph);
        CHECK_OK(um_synchronize(s));
    }
}

static void test_warm(void)
{
    um_stream *s = create_stream();
    memory m = make_memory();
    um_graph *graph = NULL;
    set_memory(s, &m, 0);
    CHECK_OK(um_capture_begin(s));
    for (int i = 0; i < 10; i++) {
        enqueue(s, op_of(UM_OP_ADD, 2, true, m.x[1], m.x[1], m.x[0]));
        enqueue(s, op_of(UM_OP_SORT, 1, true, m.x[6], m.x[1], 0));
        enqueue(s, take_op(&m, m.x[4], m.x[6]));
        CHECK_OK(um_copy(s, m.x[3], m.x[4], 4096));
    }
    CHECK_OK(um_capture_end(s, &graph));
    fill_pools(device, s);
    level cold = level_now();
    launch_warm(s, graph, 4);
    level first = level_now();
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        CHECK_MSG(!(driver.recorded >> kind & 1) || first.live[kind] >= cold.live[kind] + 30,
                  "%lld %s, were %lld", (long long)first.live[kind], driver.names[kind],
                  (long long)cold.live[kind]);
    launch_warm(s, graph, 20);
    level now = level_now();
    CHECK_MSG(now.allocs == first.allocs, "%lld", (long long)(now.allocs - first.allocs));
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        CHECK_MSG(now.live[kind] == first.live[kind] &&
                      (driver.each_time >> kind & 1 || now.made[kind] == first.made[kind]),
                  "%lld %s of %lld, were %lld of %lld", (long long)now.live[kind],
                  driver.names[kind], (long long)now.made[kind], (long long)first.live[kind],
                  (long long)first.made[kind]);
    um_graph_release(graph);
    free_memory(&m);
    um_stream_release(s);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void launch_many(void *arg)
{
    um_stream *s = create_stream();
    const memory *m = arg;
    um_graph *graph = capture(s, m);
    for (int i = 0; i < 40; i++) {
        launch(s, graph);
        if (i % 8 == 7) CHECK_OK(um_synchronize(s));
    }
    um_graph_release(graph);
    um_stream_release(s);
}

static void test_threads(void)
{
    enum { THREADS = 3 };
    um_thread thread[THREADS];
    memory m[THREADS], wanted = make_memory();
    um_stream *s = create_stream();
    set_memory(s, &wanted, 4);
    for (int i = 0; i < 40; i++) work(s, &wanted);
    for (int i = 0; i < THREADS; i++) {
        m[i] = make_memory();
        set_memory(s, &m[i], 4);
    }
    CHECK_OK(um_synchronize(s));
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(um_thread_start(&thread[i], launch_many, &m[i], "graph"));
    for (int i = 0; i < THREADS; i++) {
        um_thread_join(thread[i]);
        CHECK_MSG(is_same(s, &m[i], &wanted), "thread %d", i);
        free_memory(&m[i]);
    }
    free_memory(&wanted);
    um_stream_release(s);
}

static void test_all_is_given_back(void)
{
    um_device_release(device);
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        CHECK_MSG(driver.live(kind) == 0, "%lld %s of %lld alive", (long long)driver.live(kind),
                  driver.names[kind], (long long)driver.made(kind));
}

static int run_graphs(void)
{
    setenv("UMBEL_BACKENDS", driver.backends, 1);
    setenv("UMBEL_STRICT", "1", 1);
    int64_t blocks = um_mem_live_count();
    if (um_open(driver.device, &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    TEST(test_numbers);
    TEST(test_remaps);
    TEST(test_odd_pieces);
    TEST(test_late_errors);
    TEST(test_errors_of_others);
    TEST(test_release_order);
    TEST(test_warm);
    TEST(test_threads);
    TEST(test_all_is_given_back);
    CHECK_MSG(um_mem_live_count() == blocks, "%lld", (long long)(um_mem_live_count() - blocks));
    return TEST_RESULT();
}

#endif
