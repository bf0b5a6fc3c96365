/* Graphs: that a capture does nothing, a launch all of it, with the memory it is given; what
 * neither takes; and that a warm launch allocates nothing. */
#include "test/fake_backend.h"

#include "base/os.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <umbel/graph.h>
#include <umbel/tensor.h>

FAKE(few)

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

static um_stream *create_stream(um_device *device)
{
    um_stream *stream = NULL;
    CHECK_OK(um_stream_create(device, &stream));
    return stream;
}

static um_op op_of(um_op_id id, int32_t in_count, um_ptr out, um_ptr a, um_ptr b)
{
    um_op op = {.id = id, .in_count = in_count, .out_count = 1};
    const int64_t shape[2] = {4, 4};
    CHECK_OK(um_view_make(a, UM_F32, 2, shape, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 2, shape, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 2, shape, &op.out[0]));
    if (id == UM_OP_MATMUL) op.attrs.matmul.alpha = 1;
    return op;
}

static void count_call(void *user, um_status status)
{
    (void)status;
    atomic_fetch_add((_Atomic int32_t *)user, 1);
}

/* ---- a program of everything that is noted -------------------------------------------------- */

enum { FLOATS = 16, BYTES = 64, BUFFERS = 6, NODES = 12 };

typedef struct memory {
    um_ptr in, out, middle[4]; /* BYTES each, of allocations of their own */
    float to_host[FLOATS];
    _Atomic int32_t calls;
} memory;

static void make_memory(um_device *device, memory *m)
{
    um_ptr *all[BUFFERS] = {&m->in,        &m->out,       &m->middle[0],
                            &m->middle[1], &m->middle[2], &m->middle[3]};
    for (int i = 0; i < BUFFERS; i++) CHECK_OK(um_alloc(device, BYTES, all[i]));
}

static void free_memory(um_device *device, memory *m)
{
    CHECK_OK(um_free(device, m->in));
    CHECK_OK(um_free(device, m->out));
    for (int i = 0; i < 4; i++) CHECK_OK(um_free(device, m->middle[i]));
}

static um_status run(um_stream *s, memory *m)
{
    um_map_program program = {.dtype = UM_F32, .inst_count = 1};
    program.inst[0] = (um_map_inst){.op = UM_OP_MUL, .src = {0, 0}};
    float ones[FLOATS];
    for (int i = 0; i < FLOATS; i++) ones[i] = 1;
    const float half = 0.5f;
    um_op product = op_of(UM_OP_MATMUL, 2, m->middle[0], m->in, m->in);
    um_op square = op_of(UM_OP_MAP, 1, m->middle[1], m->middle[0], 0);
    square.attrs.program = &program;
    um_op batch[2] = {op_of(UM_OP_ADD, 2, m->middle[2], m->middle[1], m->in),
                      op_of(UM_OP_SUB, 2, m->middle[3], m->middle[1], m->in)};
    um_op soft = op_of(UM_OP_SOFTMAX, 1, m->out, m->middle[2], 0);
    soft.attrs.axis.axis = -1;
    um_op nothing = op_of(UM_OP_ADD, 2, 1, 2, 3);
    nothing.in[0].shape[0] = nothing.in[1].shape[0] = nothing.out[0].shape[0] = 0;
    UM_TRY(um_fill(s, m->out, BYTES, "\xff", 1));
    UM_TRY(um_enqueue(s, &product));
    UM_TRY(um_enqueue(s, &square));
    UM_TRY(um_enqueue_batch(s, 2, batch));
    UM_TRY(um_enqueue(s, &nothing));
    UM_TRY(um_enqueue(s, &soft));
    UM_TRY(um_copy(s, m->middle[1], m->middle[3], BYTES));
    UM_TRY(um_write(s, m->middle[0], ones, sizeof ones));
    UM_TRY(um_fill(s, m->middle[0], 8, &half, 4));
    memset(ones, 0, sizeof ones); /* neither is looked at again */
    memset(&program, 0, sizeof program);
    um_op sum = op_of(UM_OP_ADD, 2, m->out, m->out, m->middle[0]);
    UM_TRY(um_enqueue(s, &sum));
    UM_TRY(um_stream_callback(s, count_call, &m->calls));
    return um_copy_async(s, UM_COPY_DEVICE_TO_HOST, (um_ptr)(uintptr_t)m->to_host, m->out, BYTES);
}

static void write_input(um_stream *s, um_ptr in, int seed)
{
    float data[FLOATS];
    for (int i = 0; i < FLOATS; i++) data[i] = (float)((i * 7 + seed * 5) % 11 - 5) / 4;
    CHECK_OK(um_write(s, in, data, sizeof data));
}

static void check_program(const char *spec)
{
    um_device *device = open_device(spec);
    um_stream *stream = create_stream(device), *other = create_stream(device);
    memory own = {.in = 0}, wanted = {.in = 0};
    um_graph *graph;
    make_memory(device, &own);
    make_memory(device, &wanted);
    CHECK_OK(um_fill(stream, own.out, BYTES, "\x7f", 1));
    CHECK_OK(um_capture_begin(stream));
    CHECK(um_stream_is_capturing(stream) && !um_stream_is_capturing(other));
    CHECK_OK(run(stream, &own));
    CHECK_OK(um_capture_end(stream, &graph));
    CHECK(!um_stream_is_capturing(stream) && um_graph_node_count(graph) == NODES);
    float before;
    CHECK_OK(um_read(stream, &before, own.out, 4));
    CHECK(own.calls == 0 && before == 3.39615136e38f); /* 0x7f7f7f7f */
    for (int seed = 0; seed < 5; seed++) {
        um_stream *s = seed % 2 ? other : stream;
        write_input(s, own.in, seed);
        write_input(s, wanted.in, seed);
        CHECK_OK(run(s, &wanted));
        CHECK_OK(um_graph_launch(s, graph, NULL, 0));
        CHECK_OK(um_synchronize(s));
        CHECK(own.calls == seed + 1 && wanted.calls == seed + 1);
        CHECK_MSG(memcmp(own.to_host, wanted.to_host, BYTES) == 0, "%s, input %d", spec, seed);
        CHECK(own.to_host[0] > 0.5f && own.to_host[0] < 1.5f);
    }
    CHECK(um_graph_retain(graph) == graph);
    um_graph_release(graph);
    free_memory(device, &wanted);
    um_stream_release(stream);
    CHECK_OK(um_graph_launch(other, graph, NULL, 0)); /* the capturing stream is gone */
    CHECK_OK(um_synchronize(other));
    free_memory(device, &own);
    CHECK_FAILS(um_graph_launch(other, graph, NULL, 0), UM_INVALID_ARGUMENT, "64 bytes at 0x");
    um_stream_release(other);
    um_device_release(device);
    um_graph_release(graph); /* the last one of the device */
}

static const um_op_id only_softmax[] = {UM_OP_SOFTMAX, UM_OP_NONE};

/* On a device that runs next to nothing itself, too. */
static void test_program(void)
{
    static const um_backend *all[] = {&fake_few.table};
    few_make();
    fake_few.table.call = NULL;
    fake_few.table.copy_host = NULL;
    fake_few.count = 1;
    fake_few.info[0] = (um_device_info){.kind = UM_DEVICE_VULKAN, .is_gpu = 1};
    fake_runs = only_softmax;
    um_registry_set_extra(all, 1);
    int64_t blocks = um_mem_live_count();
    check_program("cpu");
    check_program("cpu+validate");
    check_program("few");
    check_program("few+validate");
    CHECK(um_mem_live_count() == blocks);
    um_registry_set_extra(NULL, 0);
}

/* ---- other memory --------------------------------------------------------------------------- */

static void test_remaps(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *stream = create_stream(device);
    um_ptr a, b, c;
    um_graph *graph;
    float data[64], back[32];
    for (int i = 0; i < 64; i++) data[i] = (float)i;
    CHECK_OK(um_alloc(device, 256, &a));
    CHECK_OK(um_alloc(device, 256, &b));
    CHECK_OK(um_alloc(device, 256, &c));
    CHECK_OK(um_write(stream, a, data, 256));
    CHECK_OK(um_write(stream, c, data, 256));
    /* b[0..15] = a[0..15] + a[4..19] (one slot); b[32..47] = b[0..15] again */
    um_op add = op_of(UM_OP_ADD, 2, b, a, a + 16);
    CHECK_OK(um_capture_begin(stream));
    CHECK_OK(um_enqueue(stream, &add));
    CHECK_OK(um_copy(stream, b + 128, b, 64));
    CHECK_OK(um_capture_end(stream, &graph));
    CHECK_OK(um_graph_launch(stream, graph, NULL, 0));
    CHECK_OK(um_read(stream, back, b, 128));
    CHECK(back[0] == 4 && back[15] == 34);

    um_remap to_c = {a, 256, c + 64};
    CHECK_FAILS(um_graph_launch(stream, graph, &(um_remap){a, 256, c + 192}, 1),
                UM_INVALID_ARGUMENT, "80 bytes at 0x");
    CHECK_OK(um_graph_launch(stream, graph, &to_c, 1)); /* c[16 ..] */
    CHECK_OK(um_read(stream, back, b + 128, 64));
    CHECK(back[0] == 36 && back[15] == 66);
    /* Both ends elsewhere: the halves of b apart, in the other order; a as it was. */
    um_remap swap[2] = {{b, 64, c + 64}, {b + 128, 64, c}};
    CHECK_OK(um_graph_launch(stream, graph, swap, 2));
    CHECK_OK(um_read(stream, back, c, 128));
    CHECK(back[0] == 4 && back[15] == 34 && back[16] == 4 && back[31] == 34);
    CHECK_OK(um_graph_launch(stream, graph, &(um_remap){0, 64, 128}, 1)); /* of nobody */

    static const struct {
        int64_t from, size, to; /* from and to: bytes behind a, b or c */
        char from_in, to_in;
        const char *text;
    } bad[] = {
        {0, 79, 0, 'a', 'c', "cuts the 80 bytes at 0x"},
        {4, 252, 0, 'a', 'c', "cuts the 80 bytes"},
        {0, 80, 2, 'a', 'c', "no multiple of its elements' 4 bytes"},
        {0, 80, 200, 'a', 'c', "not inside one live allocation"},
        {0, 80, 20, 'a', 'b', "overlaps what the graph uses"},
        {0, 64, 100, 'b', 'b', "overlaps what the graph uses"},
        {0, 64, 40, 'b', 'a', "overlaps what the graph uses"},
        {0, 64, 1 << 20, 'b', 'b', "not inside one live allocation"},
    };
    const um_ptr base[3] = {a, b, c};
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        um_remap remap = {base[bad[i].from_in - 'a'] + (um_ptr)bad[i].from, (uint64_t)bad[i].size,
                          base[bad[i].to_in - 'a'] + (um_ptr)bad[i].to};
        CHECK_FAILS(um_graph_launch(stream, graph, &remap, 1), UM_INVALID_ARGUMENT, bad[i].text);
    }
    swap[1].from = b + 60;
    CHECK_FAILS(um_graph_launch(stream, graph, swap, 2), UM_INVALID_ARGUMENT,
                "remaps 0 and 1 overlap");
    swap[0].size_bytes = UINT64_MAX;
    CHECK_FAILS(um_graph_launch(stream, graph, swap, 1), UM_INVALID_ARGUMENT, "beyond 2^64");
    CHECK_FAILS(um_graph_launch(stream, graph, NULL, 1), UM_INVALID_ARGUMENT, "1 remaps at NULL");
    CHECK_FAILS(um_graph_launch(stream, graph, swap, -1), UM_INVALID_ARGUMENT, "-1 remaps");
    um_graph_release(graph);
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void test_refusals(void)
{
    int64_t blocks = um_mem_live_count();
    um_device *device = open_device("cpu"), *other = open_device("cpu+validate");
    um_stream *stream = create_stream(device), *foreign = create_stream(other), *tensors;
    um_ptr a, async;
    um_event event;
    um_graph *graph = NULL, *none = NULL, *empty;
    float data[FLOATS] = {0};
    CHECK_OK(um_alloc(device, 4 * BYTES, &a));
    CHECK_OK(um_record(foreign, &event));
    CHECK_FAILS(um_capture_end(stream, &graph), UM_INVALID_ARGUMENT, "is not capturing");
    CHECK_OK(um_capture_begin(stream));
    CHECK_FAILS(um_capture_begin(stream), UM_INVALID_ARGUMENT, "capturing already");
    CHECK_FAILS(um_read(stream, data, a, 4), UM_INVALID_ARGUMENT, "um_read: the stream is captur");
    CHECK_FAILS(um_synchronize(stream), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_record(stream, &event), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_wait(stream, event), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_stream_clear_error(stream), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_alloc_async(stream, 4, &async), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_free_async(stream, a), UM_INVALID_ARGUMENT, "capturing");
    CHECK_FAILS(um_copy_peer(stream, device, a, other, a, 4), UM_INVALID_ARGUMENT, "capturing");
    um_op bad = op_of(UM_OP_ADD, 2, a, a + 4, a + BYTES), good = op_of(UM_OP_ADD, 2, a, a, a);
    CHECK_FAILS(um_enqueue(stream, &bad), UM_INVALID_ARGUMENT, "overlap");
    CHECK_FAILS(um_write(stream, a, data, 5 * BYTES), UM_INVALID_ARGUMENT, "um_write");
    CHECK_OK(um_enqueue(stream, &good));
    CHECK_OK(um_device_synchronize(device));
    CHECK_OK(um_capture_end(stream, &graph));
    CHECK(um_graph_node_count(graph) == 1);
    CHECK_FAILS(um_graph_launch(foreign, graph, NULL, 0), UM_INVALID_ARGUMENT,
                "the graph is of cpu:0, the stream of cpu:0+validate");
    CHECK_OK(um_capture_begin(stream));
    CHECK_FAILS(um_graph_launch(stream, graph, NULL, 0), UM_INVALID_ARGUMENT, "capturing");
    CHECK_OK(um_capture_end(stream, &empty));
    CHECK_OK(um_graph_launch(stream, empty, NULL, 0));
    CHECK(um_graph_node_count(empty) == 0 && um_graph_node_count(NULL) == 0);
    CHECK_FAILS(um_graph_launch(NULL, graph, NULL, 0), UM_INVALID_ARGUMENT, "stream is NULL");
    CHECK_FAILS(um_graph_launch(stream, NULL, NULL, 0), UM_INVALID_ARGUMENT, "graph is NULL");
    CHECK_FAILS(um_capture_begin(NULL), UM_INVALID_ARGUMENT, "NULL");
    none = graph;
    CHECK_FAILS(um_capture_end(NULL, &none), UM_INVALID_ARGUMENT, "NULL");
    CHECK(none == NULL && !um_stream_is_capturing(NULL));
    CHECK_OK(um_tensor_stream(device, &tensors));
    CHECK_FAILS(um_capture_begin(tensors), UM_INVALID_ARGUMENT, "tensor face");
    CHECK_OK(um_capture_begin(stream));
    CHECK_OK(um_enqueue(stream, &good));
    CHECK_OK(um_capture_end(stream, NULL)); /* thrown away */
    CHECK_OK(um_capture_begin(stream));
    CHECK_OK(um_enqueue(stream, &good));
    um_stream_release(stream); /* likewise */
    um_stream_release(foreign);
    um_graph_release(empty);
    um_graph_release(NULL);
    CHECK(um_graph_retain(NULL) == NULL);
    um_device_release(device);
    um_device_release(other);
    CHECK(um_mem_live_count() > blocks); /* the graph keeps its device */
    um_graph_release(graph);
    CHECK(um_mem_live_count() == blocks);
}

/* ---- memory, threads ------------------------------------------------------------------------ */

static um_status capture_and_launch(um_stream *stream, memory *m)
{
    um_graph *graph = NULL;
    UM_TRY(um_capture_begin(stream));
    um_status status = run(stream, m);
    um_error error = *um_last_error();
    um_status ended = um_capture_end(stream, status == UM_OK ? &graph : NULL);
    if (status != UM_OK) return um_fail_again(&error);
    if (ended == UM_OK) ended = um_graph_launch(stream, graph, NULL, 0);
    um_graph_release(graph);
    return ended;
}

static void test_out_of_memory(void)
{
    int64_t blocks = um_mem_live_count();
    um_device *device = open_device("cpu");
    memory m = {.in = 0};
    make_memory(device, &m);
    int64_t refused = 0;
    for (int64_t n = 1;; n++) {
        um_stream *stream = create_stream(device);
        write_input(stream, m.in, 1);
        um_mem_fail_at(n, false);
        um_status status = capture_and_launch(stream, &m);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        um_status later = um_stream_clear_error(stream); /* a kernel may be the one without */
        CHECK_MSG((status != UM_OK ? status : later) == (reached ? UM_OUT_OF_MEMORY : UM_OK), "%s",
                  um_last_error()->message);
        CHECK_OK(capture_and_launch(stream, &m));
        CHECK_OK(um_synchronize(stream));
        um_stream_release(stream);
        refused += status != UM_OK;
        if (!reached) break;
    }
    CHECK_MSG(refused >= 5, "%lld", (long long)refused);
    free_memory(device, &m);
    um_device_release(device);
    CHECK(um_mem_live_count() == blocks);
}

static void wait_for_it(void *user, um_status status)
{
    CHECK(status == UM_OK);
    while (!atomic_load((_Atomic bool *)user)) um_os_pause();
}

/* Ops, copies and fills; a remap as well. */
static void test_warm_launch(void)
{
    setenv("UMBEL_THREADS", "1", 1);
    um_device *device = open_device("cpu");
    um_stream *stream = create_stream(device);
    um_graph *graph;
    um_ptr a, b;
    CHECK_OK(um_alloc(device, 4 * BYTES, &a));
    CHECK_OK(um_alloc(device, 4 * BYTES, &b));
    CHECK_OK(um_capture_begin(stream));
    um_op op = op_of(UM_OP_ADD, 2, a, a, a + BYTES);
    CHECK_OK(um_fill(stream, a, 2 * BYTES, "\0\0\x80\x3f", 4)); /* ones */
    for (int i = 0; i < 50; i++) CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_copy(stream, a + 2 * BYTES, a, BYTES));
    CHECK_OK(um_capture_end(stream, &graph));
    um_remap remap = {a, 4 * BYTES, b};
    _Atomic bool go = false;
    CHECK_OK(um_stream_callback(stream, wait_for_it, &go)); /* so that the queue grows */
    for (int i = 0; i < 8; i++) CHECK_OK(um_graph_launch(stream, graph, &remap, 1));
    atomic_store(&go, true);
    CHECK_OK(um_synchronize(stream));
    int64_t calls = um_mem_alloc_count();
    for (int i = 0; i < 20; i++) {
        CHECK_OK(um_graph_launch(stream, graph, i % 2 ? &remap : NULL, i % 2));
        if (i % 4 == 3) CHECK_OK(um_synchronize(stream));
    }
    CHECK_MSG(um_mem_alloc_count() == calls, "%lld", (long long)(um_mem_alloc_count() - calls));
    float back;
    CHECK_OK(um_read(stream, &back, b + 2 * BYTES, 4));
    CHECK(back == 51);
    um_graph_release(graph);
    um_stream_release(stream);
    um_device_release(device);
    unsetenv("UMBEL_THREADS");
}

typedef struct runner {
    um_device *device;
    um_graph *graph;
    um_ptr a, b;
} runner;

static void launch_many(void *arg)
{
    runner *r = arg;
    um_stream *stream = create_stream(r->device);
    float back;
    um_remap remap = {r->a, 2 * BYTES, r->b};
    for (int i = 0; i < 200; i++) CHECK_OK(um_graph_launch(stream, r->graph, &remap, 1));
    CHECK_OK(um_read(stream, &back, r->b, 4));
    CHECK(back == 2);
    um_stream_release(stream);
}

static void test_threads(void)
{
    enum { THREADS = 4 };
    runner r[THREADS];
    um_thread thread[THREADS];
    um_device *device = open_device("cpu");
    um_stream *stream = create_stream(device);
    um_graph *graph;
    um_ptr a;
    CHECK_OK(um_alloc(device, 2 * BYTES, &a));
    um_op op = op_of(UM_OP_ADD, 2, a, a + BYTES, a + BYTES);
    CHECK_OK(um_capture_begin(stream));
    CHECK_OK(um_fill(stream, a + BYTES, BYTES, "\0\0\x80\x3f", 4));
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_capture_end(stream, &graph));
    for (int i = 0; i < THREADS; i++) {
        r[i] = (runner){device, graph, a, 0};
        CHECK_OK(um_alloc(device, 2 * BYTES, &r[i].b));
        CHECK_OK(um_thread_start(&thread[i], launch_many, &r[i], "graph"));
    }
    for (int i = 0; i < THREADS; i++) um_thread_join(thread[i]);
    um_graph_release(graph);
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- backends that record ------------------------------------------------------------------- */

static int recorders_asked;

static um_status record_refused(um_backend_stream *stream, um_backend_stream **out)
{
    (void)stream;
    recorders_asked++;
    *out = NULL;
    return UM_FAIL(UM_UNSUPPORTED, "it records nothing");
}

static um_status record_nothing(um_backend_stream *stream, um_backend_stream **out)
{
    (void)stream;
    *out = NULL;
    return UM_OK;
}

static um_status replay_nothing(um_backend_stream *stream, um_backend_stream *recorder)
{
    (void)stream, (void)recorder;
    return UM_OK;
}

/* One that refuses is asked once a stream, and does it all op by op; one that lies is told. */
static void test_recorders(void)
{
    static const um_op_id runs[] = {UM_OP_ADD, UM_OP_NONE};
    static const um_backend *const table[] = {&fake_few.table};
    fake_runs = runs;
    few_make();
    fake_few.count = 1;
    fake_few.table.recorder = record_refused;
    fake_few.table.replay = replay_nothing;
    um_registry_set_extra(table, 1);
    um_device *device = open_device("few");
    um_stream *stream = create_stream(device);
    um_ptr x, one;
    um_graph *graph;
    float result[FLOATS], ones[FLOATS];
    for (int i = 0; i < FLOATS; i++) ones[i] = 1;
    CHECK_OK(um_alloc(device, BYTES, &x));
    CHECK_OK(um_alloc(device, BYTES, &one));
    CHECK_OK(um_write(stream, x, ones, BYTES));
    CHECK_OK(um_write(stream, one, ones, BYTES));
    um_op add = op_of(UM_OP_ADD, 2, x, x, one);
    CHECK_OK(um_capture_begin(stream));
    for (int i = 0; i < 5; i++) CHECK_OK(um_enqueue(stream, &add));
    CHECK_OK(um_capture_end(stream, &graph));
    um_status marker = UM_FAIL(UM_CANCELLED, "marker");
    for (int i = 0; i < 3; i++) CHECK_OK(um_graph_launch(stream, graph, NULL, 0));
    CHECK(um_last_error()->code == marker);
    CHECK_OK(um_read(stream, result, x, BYTES));
    CHECK_MSG(result[0] == 16 && recorders_asked == 1, "%g, asked %d times", (double)result[0],
              recorders_asked);
    um_stream *other = create_stream(device);
    fake_few.table.recorder = record_nothing;
    CHECK_FAILS(um_graph_launch(other, graph, NULL, 0), UM_INTERNAL, "gives none");
    fake_few.table.replay = NULL;
    CHECK_OK(um_graph_launch(other, graph, NULL, 0));
    um_stream_release(other);
    um_graph_release(graph);
    CHECK_OK(um_free(device, x));
    CHECK_OK(um_free(device, one));
    um_stream_release(stream);
    um_device_release(device);
    um_registry_set_extra(NULL, 0);
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    int64_t blocks = um_mem_live_count();
    TEST(test_program);
    TEST(test_remaps);
    TEST(test_out_of_memory);
    TEST(test_warm_launch);
    TEST(test_threads);
    TEST(test_refusals);
    TEST(test_recorders);
    CHECK(um_mem_live_count() == blocks);
    return TEST_RESULT();
}
