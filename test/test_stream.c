/* Streams, events and the CPU's thread pool: order, waits between streams, progress without help,
 * many threads at once, what idle costs. Built to be run under the thread sanitizer too. */
#include "backend/cpu/cpu.h"
#include "base/os.h"
#include "test/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <umbel/device.h>

enum { SLOW_BYTES = 16 << 20 }; /* a fill of so many takes a few milliseconds */

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

static um_ptr alloc_zeros(um_device *device, um_stream *stream, uint64_t size_bytes)
{
    um_ptr ptr = 0;
    CHECK_OK(um_alloc(device, size_bytes, &ptr));
    CHECK_OK(um_fill(stream, ptr, size_bytes, "", 1));
    return ptr;
}

/* out = a + b, all f32 [n] */
static um_op add_op(um_ptr out, um_ptr a, um_ptr b, int64_t n)
{
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(a, UM_F32, 1, &n, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 1, &n, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 1, &n, &op.out[0]));
    return op;
}

static float read_float(um_stream *stream, um_ptr ptr)
{
    float value = -1;
    CHECK_OK(um_read(stream, &value, ptr, sizeof value));
    return value;
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* x += 1, copied on and back, so that one step out of order shows. */
static void count_up(um_device *device, int count)
{
    um_stream *stream = create_stream(device);
    um_ptr x = alloc_zeros(device, stream, 12);
    float one = 1;
    CHECK_OK(um_write(stream, x + 4, &one, 4));
    um_op op = add_op(x, x, x + 4, 1);
    for (int i = 0; i < count; i++) {
        CHECK_OK(um_enqueue(stream, &op));
        CHECK_OK(um_copy(stream, x + 8, x, 4));
        CHECK_OK(um_fill(stream, x, 4, "\xff", 1));
        CHECK_OK(um_copy(stream, x, x + 8, 4));
    }
    CHECK(read_float(stream, x) == (float)count);
    CHECK_OK(um_free_async(stream, x));
    um_stream_release(stream);
}

/* More than the queue may hold: the producer has to help. */
static void overfill_queue(um_device *device)
{
    um_stream *stream = create_stream(device);
    um_ptr slow = alloc_zeros(device, stream, SLOW_BYTES), x = alloc_zeros(device, stream, 8);
    float one = 1;
    CHECK_OK(um_write(stream, x + 4, &one, 4));
    um_op op = add_op(x, x, x + 4, 1);
    for (int i = 0; i < 20; i++) CHECK_OK(um_fill(stream, slow, SLOW_BYTES, "abcdefgh", 8));
    for (int i = 0; i < 40000; i++) CHECK_OK(um_enqueue(stream, &op));
    CHECK(read_float(stream, x) == 40000);
    CHECK_OK(um_free(device, slow));
    CHECK_OK(um_free(device, x));
    um_stream_release(stream);
}

/* What a write took is the caller's again on return, queued or not, small or large. */
static void write_behind_work(um_device *device)
{
    um_stream *stream = create_stream(device);
    um_ptr slow = alloc_zeros(device, stream, SLOW_BYTES);
    static uint8_t data[100000], back[100000];
    CHECK_OK(um_fill(stream, slow, SLOW_BYTES, "\x11", 1));
    memset(data, 0x22, sizeof data);
    CHECK_OK(um_write(stream, slow, data, 100));
    CHECK_OK(um_write(stream, slow + 200, data, sizeof data - 200));
    memset(data, 0x33, sizeof data);
    CHECK_OK(um_read(stream, back, slow, sizeof back));
    CHECK(back[99] == 0x22 && back[100] == 0x11 && back[199] == 0x11 && back[200] == 0x22);
    CHECK(back[sizeof back - 1] == 0x22);
    CHECK_OK(um_free(device, slow));
    um_stream_release(stream);
}

/* An op with a program keeps a copy of it. */
static void keep_program(um_device *device)
{
    um_stream *stream = create_stream(device);
    um_ptr slow = alloc_zeros(device, stream, SLOW_BYTES), x = alloc_zeros(device, stream, 8);
    um_map_program program = {.dtype = UM_F32, .inst_count = 2};
    program.inst[0] = (um_map_inst){.op = UM_OP_FILL, .value = 2};
    program.inst[1] = (um_map_inst){.op = UM_OP_ADD, .src = {0, 1}};
    um_op op = {.id = UM_OP_MAP, .in_count = 1, .out_count = 1, .attrs = {.program = &program}};
    CHECK_OK(um_view_make(x, UM_F32, 1, (int64_t[]){1}, &op.in[0]));
    CHECK_OK(um_view_make(x + 4, UM_F32, 1, (int64_t[]){1}, &op.out[0]));
    CHECK_OK(um_fill(stream, slow, SLOW_BYTES, "\x11", 1));
    CHECK_OK(um_enqueue(stream, &op));
    memset(&program, 0xff, sizeof program);
    memset(&op, 0xff, sizeof op);
    CHECK(read_float(stream, x + 4) == 2);
    CHECK_OK(um_free(device, slow));
    um_stream_release(stream);
}

/* ---- events --------------------------------------------------------------------------------- */

/* Two streams hand a counter to and fro. */
static void ping_pong(um_device *device_a, um_device *device_b, int count)
{
    um_stream *a = create_stream(device_a), *b = create_stream(device_b);
    um_ptr x = alloc_zeros(device_a, a, 8);
    float one = 1;
    um_event event;
    CHECK_OK(um_write(a, x + 4, &one, 4));
    um_op op = add_op(x, x, x + 4, 1);
    for (int i = 0; i < count; i++) {
        CHECK_OK(um_enqueue(a, &op));
        CHECK_OK(um_record(a, &event));
        CHECK_OK(um_wait(b, event));
        if (device_a == device_b) CHECK_OK(um_enqueue(b, &op));
        CHECK_OK(um_record(b, &event));
        CHECK_OK(um_wait(a, event));
    }
    CHECK(read_float(a, x) == (float)(device_a == device_b ? 2 * count : count));
    um_stream_release(b);
    um_stream_release(a);
}

static void do_nothing(void *user, um_status status) { (void)user, (void)status; }

/* A worker holds b back for a, and both go while it has yet to turn away from a (seen by TSan). */
static void short_lives(um_device *device)
{
    um_stream *own = create_stream(device);
    um_ptr x = alloc_zeros(device, own, 4);
    for (int i = 0; i < 1000; i++) {
        um_stream *a = create_stream(device), *b = create_stream(device);
        um_event event;
        CHECK_OK(um_fill(a, x, 4, "a", 1));
        CHECK_OK(um_record(a, &event));
        CHECK_OK(um_wait(b, event));
        CHECK_OK(um_stream_callback(b, do_nothing, NULL)); /* calls a worker */
        for (volatile int spin = 0; spin < i % 256 * 400; spin++) {}
        um_stream_release(a);
        um_stream_release(b);
    }
    CHECK_OK(um_free(device, x));
    um_stream_release(own);
}

/* Nobody waits: the work goes on all the same, and the stream held back does not run early. */
static void progress_alone(um_device *device)
{
    um_stream *a = create_stream(device), *b = create_stream(device);
    um_ptr slow = alloc_zeros(device, a, SLOW_BYTES), copy = alloc_zeros(device, b, 4);
    um_event event_a, event_b;
    um_status marker = UM_FAIL(UM_CANCELLED, "marker");
    for (int i = 0; i < 4; i++) CHECK_OK(um_fill(a, slow, SLOW_BYTES, "\x40", 1));
    CHECK_OK(um_record(a, &event_a));
    CHECK_OK(um_wait(b, event_a));
    CHECK_OK(um_copy(b, copy, slow + SLOW_BYTES - 4, 4));
    CHECK_OK(um_record(b, &event_b));
    um_status status;
    while ((status = um_query(event_b)) == UM_NOT_READY) sleep_ms(1);
    CHECK(status == UM_OK && um_query(event_a) == UM_OK);
    CHECK(marker == UM_CANCELLED && um_last_error()->code == UM_CANCELLED);
    CHECK(read_float(b, copy) == 3.00392151f); /* 0x40404040 */
    um_stream_release(a);
    um_stream_release(b);
    CHECK(um_query(event_a) == UM_OK); /* its stream is gone */
    CHECK_OK(um_event_synchronize(event_b));
    CHECK_OK(um_query((um_event){0}));
    CHECK_OK(um_free(device, slow));
    CHECK_OK(um_free(device, copy));
}

/* A stream goes while another one, itself held back, has yet to wait for it. */
static void release_before_wait(um_device *device)
{
    um_stream *a = create_stream(device), *b = create_stream(device), *c = create_stream(device);
    um_ptr slow = alloc_zeros(device, a, SLOW_BYTES), quick = alloc_zeros(device, c, 4);
    um_event event;
    CHECK_OK(um_fill(a, slow, SLOW_BYTES, "a", 1));
    CHECK_OK(um_record(a, &event));
    CHECK_OK(um_wait(b, event));
    CHECK_OK(um_fill(c, quick, 4, "c", 1));
    CHECK_OK(um_record(c, &event));
    CHECK_OK(um_wait(b, event));
    um_stream_release(c);
    um_stream_release(a);
    CHECK_OK(um_synchronize(b));
    um_stream_release(b);
    um_stream_release(NULL);
    CHECK(um_stream_device(NULL) == NULL);
    CHECK_OK(um_free(device, slow));
    CHECK_OK(um_free(device, quick));
}

/* A queued op is as long as its inputs need; one that reads all of a um_op leaves the queue's
 * memory where a record ends with it (seen by ASan). */
static void short_records(um_device *device)
{
    enum { N = 300, COUNT = 7 };
    um_stream *stream = create_stream(device);
    um_ptr ptr;
    float out[COUNT];
    CHECK_OK(um_alloc(device, sizeof out, &ptr));
    um_op op = {.id = UM_OP_ARANGE, .out_count = 1, .attrs.arange = {.step = 2}};
    CHECK_OK(um_view_make(ptr, UM_F32, 1, (int64_t[]){COUNT}, &op.out[0]));
    for (int i = 0; i < N; i++) {
        op.id = i % 2 ? UM_OP_FILL : UM_OP_ARANGE;
        CHECK_OK(um_enqueue(stream, &op));
    }
    op.id = UM_OP_ARANGE;
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_read(stream, out, ptr, sizeof out));
    CHECK(out[0] == 0 && out[COUNT - 1] == 2 * (COUNT - 1));
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
}

/* Tickets that no record gave mean all there is, and nobody hangs. */
static void future_event(um_device *device)
{
    um_stream *a = create_stream(device), *b = create_stream(device);
    um_ptr x = alloc_zeros(device, a, 4);
    um_event event;
    float one = 1;
    CHECK_OK(um_record(a, &event));
    event.ticket += 1000;
    CHECK_OK(um_wait(b, event));
    CHECK_OK(um_fill(b, x, 4, &one, 4));
    CHECK(read_float(b, x) == 1);
    CHECK_OK(um_event_synchronize(event));
    CHECK_OK(um_query(event));
    CHECK_OK(um_free(device, x));
    um_stream_release(a);
    um_stream_release(b);
}

static void many_streams(um_device *device)
{
    enum { STREAMS = 200 };
    um_stream *stream[STREAMS];
    um_event event = {0};
    for (int i = 0; i < STREAMS; i++) stream[i] = create_stream(device);
    um_ptr x = alloc_zeros(device, stream[0], 8);
    float one = 1;
    CHECK_OK(um_write(stream[0], x + 4, &one, 4));
    um_op op = add_op(x, x, x + 4, 1);
    for (int i = 0; i < 5 * STREAMS; i++) {
        CHECK_OK(um_wait(stream[i % STREAMS], event));
        CHECK_OK(um_enqueue(stream[i % STREAMS], &op));
        CHECK_OK(um_record(stream[i % STREAMS], &event));
    }
    CHECK(um_stream_device(stream[0]) == device);
    CHECK_OK(um_device_synchronize(device));
    CHECK(um_query(event) == UM_OK);
    CHECK(read_float(stream[0], x) == 5 * STREAMS);
    for (int i = 0; i < STREAMS; i++) um_stream_release(stream[i]);
    CHECK_OK(um_free(device, x));
}

/* ---- the pool ------------------------------------------------------------------------------- */

typedef struct tally {
    um_cpu_exec *exec;
    _Atomic int32_t busy[UM_CPU_MAX_THREADS]; /* by worker number */
    _Atomic int32_t wrong;
    _Atomic int64_t sum;
    bool nested;
} tally;

static void add_up(void *ctx, int64_t task, int32_t worker)
{
    tally *t = ctx;
    bool known = worker >= 0 && worker < t->exec->lanes;
    if (!known || atomic_fetch_add(&t->busy[worker], 1) != 0) atomic_fetch_add(&t->wrong, 1);
    if (t->nested && task % 100 == 0) {
        tally inner = {.exec = t->exec};
        um_cpu_parallel(t->exec, 10, add_up, &inner);
        if (inner.sum != 55 || inner.wrong) atomic_fetch_add(&t->wrong, 1);
    }
    atomic_fetch_add(&t->sum, task + 1);
    if (known) atomic_fetch_sub(&t->busy[worker], 1);
}

static void check_parallel(um_cpu_exec *exec)
{
    for (int64_t count = 0; count < 2000; count = count * 3 / 2 + 1) {
        tally t = {.exec = exec, .nested = count % 2 == 1};
        um_cpu_parallel(exec, count, add_up, &t);
        CHECK(t.sum == count * (count + 1) / 2 && t.wrong == 0);
    }
}

static void parallel_thread(void *pool)
{
    um_cpu_exec exec = {.pool = pool, .lanes = um_cpu_pool_threads(pool)};
    for (int i = 0; i < 50; i++) check_parallel(&exec);
}

static void test_parallel(void)
{
    um_cpu_pool *pool;
    um_thread thread[3];
    setenv("UMBEL_THREADS", "3", 1);
    CHECK_OK(um_cpu_pool_get(&pool));
    CHECK(um_cpu_pool_threads(pool) == 3);
    um_cpu_exec alone = {.lanes = 1}, one = {.pool = pool, .lanes = 1};
    check_parallel(&alone);
    check_parallel(&one);
    for (int i = 0; i < 3; i++) CHECK_OK(um_thread_start(&thread[i], parallel_thread, pool, "t"));
    parallel_thread(pool);
    for (int i = 0; i < 3; i++) um_thread_join(thread[i]);
    um_cpu_pool_put(pool);
    um_cpu_pool_put(NULL);
}

static void test_scratch(void)
{
    um_cpu_exec exec = {.lanes = 3};
    int64_t blocks = um_mem_live_count();
    CHECK_OK(um_cpu_scratch_reserve(&exec, 100));
    for (int32_t i = 0; i < 3; i++) {
        uint8_t *at = um_cpu_scratch(&exec, i);
        CHECK((uintptr_t)at % 64 == 0);
        memset(at, i, 100);
    }
    CHECK(*(uint8_t *)um_cpu_scratch(&exec, 1) == 1);
    uint8_t *first = exec.scratch;
    CHECK_OK(um_cpu_scratch_reserve(&exec, 128));
    CHECK_OK(um_cpu_scratch_reserve(&exec, 10));
    CHECK(exec.scratch == first);
    CHECK_FAILS(um_cpu_scratch_reserve(&exec, SIZE_MAX), UM_OUT_OF_MEMORY, "scratch");
    CHECK_FAILS(um_cpu_scratch_reserve(&exec, SIZE_MAX / 2), UM_OUT_OF_MEMORY, "scratch");
    um_mem_fail_at(1, false);
    CHECK_FAILS(um_cpu_scratch_reserve(&exec, 1 << 20), UM_OUT_OF_MEMORY, "scratch");
    um_mem_fail_at(0, false);
    CHECK(exec.scratch == first && um_mem_live_count() == blocks + 1);
    um_mem_free(exec.scratch);
}

static int32_t warnings;

static void count_warning(void *user, int32_t level, const char *message)
{
    (void)user;
    if (level == UM_LOG_WARNING && strstr(message, "UMBEL_THREADS")) warnings++;
}

static int32_t threads_with(const char *text)
{
    um_caps caps = {.struct_size = sizeof caps};
    setenv("UMBEL_THREADS", text, 1);
    um_device *device = open_device("cpu");
    CHECK_OK(um_device_caps(device, &caps));
    um_device_release(device);
    return caps.compute_units;
}

static void test_thread_count(void)
{
    static const char *const bad[] = {"0", "-1", "abc", "2x", "1.5", " ", "-99999999999999999999"};
    int32_t all = um_os_cpu_count();
    um_set_log(count_warning, NULL, UM_LOG_WARNING);
    CHECK(threads_with("") == all && threads_with("5") == 5 && threads_with("1") == 1);
    CHECK(threads_with("100000") == UM_CPU_MAX_THREADS);
    CHECK(threads_with("99999999999999999999") == UM_CPU_MAX_THREADS);
    CHECK(warnings == 0);
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        CHECK_MSG(threads_with(bad[i]) == all && warnings == (int32_t)i + 1, "'%s'", bad[i]);
    }
    um_set_log(NULL, NULL, 0);
}

/* With no memory left to start a thread, the caller's own does the work. */
static void test_no_threads(void)
{
    setenv("UMBEL_THREADS", "2", 1);
    um_device *device = open_device("cpu");
    um_stream *stream = create_stream(device);
    um_ptr ptr;
    um_event event;
    uint8_t last = 0;
    um_status marker = UM_FAIL(UM_CANCELLED, "marker");
    CHECK_OK(um_alloc(device, 64, &ptr));
    um_mem_fail_at(1, true);
    CHECK_OK(um_fill(stream, ptr, 64, "x", 1));
    CHECK_OK(um_record(stream, &event));
    CHECK_OK(um_query(event));
    CHECK(um_mem_failed()); /* so starting a thread takes an allocation, which failed */
    um_mem_fail_at(0, false);
    CHECK(marker == UM_CANCELLED && um_last_error()->code == UM_CANCELLED);
    CHECK_OK(um_read(stream, &last, ptr + 63, 1));
    CHECK(last == 'x');
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- everything at once --------------------------------------------------------------------- */

enum { STRESS_THREADS = 4, STRESS_ROUNDS = 3000 };

typedef struct stress {
    um_device *device;
    um_mutex mutex;
    um_event event[STRESS_THREADS]; /* each thread's latest; under mutex */
    _Atomic int32_t next_thread;
} stress;

static um_event swap_event(stress *s, int32_t own, um_event event, uint32_t other)
{
    um_mutex_lock(&s->mutex);
    s->event[own] = event;
    um_event taken = s->event[other % STRESS_THREADS];
    um_mutex_unlock(&s->mutex);
    return taken;
}

/* Counts up in a stream of its own, which waits for the others' events now and then. */
static void stress_thread(void *arg)
{
    stress *s = arg;
    int32_t own = atomic_fetch_add(&s->next_thread, 1);
    uint32_t random = (uint32_t)own * 7919 + 1;
    um_stream *stream = create_stream(s->device);
    um_ptr x = alloc_zeros(s->device, stream, 8);
    float one = 1;
    um_event event;
    CHECK_OK(um_write(stream, x + 4, &one, 4));
    um_op op = add_op(x, x, x + 4, 1);
    for (int i = 0; i < STRESS_ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        CHECK_OK(um_enqueue(stream, &op));
        CHECK_OK(um_record(stream, &event));
        um_event other = swap_event(s, own, event, random >> 20);
        um_ptr temporary;
        switch (random >> 28) {
        case 0: CHECK_OK(um_wait(stream, other)); break;
        case 1: CHECK_OK(um_event_synchronize(other)); break;
        case 2: {
            um_status status = um_query(other);
            CHECK(status == UM_OK || status == UM_NOT_READY);
            break;
        }
        case 3: CHECK(read_float(stream, x) == (float)(i + 1)); break;
        case 4:
            CHECK_OK(um_alloc(s->device, 64, &temporary));
            CHECK_OK(um_fill(stream, temporary, 64, "x", 1));
            CHECK_OK(um_free_async(stream, temporary));
            break;
        case 5:
            if (random >> 24 == 0x50) CHECK_OK(um_device_synchronize(s->device));
            break;
        default: break;
        }
    }
    CHECK(read_float(stream, x) == STRESS_ROUNDS);
    um_stream_release(stream);
    CHECK_OK(um_free(s->device, x));
}

static void run_stress(um_device *device)
{
    um_thread thread[STRESS_THREADS];
    stress s = {.device = device};
    CHECK_OK(um_mutex_init(&s.mutex));
    for (int i = 0; i < STRESS_THREADS; i++) {
        CHECK_OK(um_thread_start(&thread[i], stress_thread, &s, "stress"));
    }
    for (int i = 0; i < STRESS_THREADS; i++) um_thread_join(thread[i]);
    um_mutex_destroy(&s.mutex);
}

static void open_and_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        um_device *device = open_device(i % 3 ? "cpu" : "cpu+validate");
        count_up(device, 2);
        um_device_release(device);
    }
}

static void test_open_race(void)
{
    um_thread thread[3];
    int64_t blocks = um_mem_live_count();
    setenv("UMBEL_THREADS", "2", 1);
    for (int i = 0; i < 3; i++) CHECK_OK(um_thread_start(&thread[i], open_and_close, NULL, "t"));
    for (int i = 0; i < 3; i++) um_thread_join(thread[i]);
    CHECK(um_mem_live_count() == blocks);
}

/* ---- idle ----------------------------------------------------------------------------------- */

static void test_idle(void)
{
    setenv("UMBEL_THREADS", "3", 1);
    um_device *device = open_device("cpu");
    um_cpu_pool *pool;
    CHECK_OK(um_cpu_pool_get(&pool));
    um_cpu_exec exec = {.pool = pool, .lanes = 3};
    check_parallel(&exec);
    count_up(device, 100);
    sleep_ms(20);
    clock_t before = clock();
    sleep_ms(200);
    double used_ms = (double)(clock() - before) * 1e3 / CLOCKS_PER_SEC;
    CHECK_MSG(used_ms < 10, "%.1f ms of processor time in 200 ms", used_ms);
    um_cpu_pool_put(pool);
    um_device_release(device);
}

static void run_with_threads(const char *threads)
{
    setenv("UMBEL_THREADS", threads, 1);
    int64_t blocks = um_mem_live_count();
    um_device *device = open_device("cpu"), *checked = open_device("cpu+validate");
    count_up(device, 3000);
    count_up(checked, 300);
    overfill_queue(device);
    write_behind_work(device);
    keep_program(device);
    ping_pong(device, device, 2000);
    ping_pong(checked, checked, 200);
    ping_pong(device, checked, 200);
    short_lives(device);
    progress_alone(device);
    for (int i = 0; i < 10; i++) release_before_wait(device);
    short_records(device);
    future_event(device);
    many_streams(device);
    run_stress(device);
    um_device_release(checked);
    um_device_release(device);
    CHECK_MSG(um_mem_live_count() == blocks, "%s threads", threads);
}

static void test_one_thread(void) { run_with_threads("1"); }
static void test_two_threads(void) { run_with_threads("2"); }
static void test_three_threads(void) { run_with_threads("3"); }

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    TEST(test_parallel);
    TEST(test_scratch);
    TEST(test_thread_count);
    TEST(test_no_threads);
    TEST(test_one_thread);
    TEST(test_two_threads);
    TEST(test_three_threads);
    TEST(test_open_race);
    TEST(test_idle);
    return TEST_RESULT();
}
