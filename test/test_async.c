/* What a stream does in its own time: copies between host and devices, callbacks, priorities, and
 * memory that comes and goes with it. */
#include "test/fake_backend.h"

#include "base/os.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

FAKE(plain) /* without optional entries; its memory is not unified */

static void add_fakes(void)
{
    static const um_backend *all[] = {&fake_plain.table};
    plain_make();
    fake_plain.table.copy_host = NULL;
    fake_plain.table.call = NULL;
    fake_plain.table.stream_create_priority = NULL;
    fake_plain.count = 1;
    fake_plain.info[0] = (um_device_info){.kind = UM_DEVICE_VULKAN};
    um_registry_set_extra(all, 1);
}

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

static um_stream *create_stream(um_device *device, int32_t priority)
{
    um_stream *stream = NULL;
    CHECK_OK(um_stream_create_priority(device, priority, &stream));
    return stream;
}

static um_ptr address(const void *host) { return (um_ptr)(uintptr_t)host; }

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

/* Holds a stream until it is opened. */
typedef struct gate {
    _Atomic bool is_open, is_reached;
    _Atomic int32_t passed;
} gate;

static void wait_at_gate(void *user, um_status status)
{
    gate *g = user;
    CHECK(status == UM_OK);
    atomic_store(&g->is_reached, true);
    while (!atomic_load(&g->is_open)) sleep_ms(1);
    atomic_fetch_add(&g->passed, 1);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* Round through all four directions, each behind the one before. */
static void check_directions(const char *spec, bool waits)
{
    um_device *device = open_device(spec);
    um_stream *stream = create_stream(device, 0);
    um_ptr a, b;
    static uint8_t in[10000], out[10000], last[10000];
    gate g = {.is_open = waits};
    memset(in, 7, sizeof in);
    memset(out, 0, sizeof out);
    memset(last, 0, sizeof last);
    CHECK_OK(um_alloc(device, sizeof in, &a));
    CHECK_OK(um_alloc(device, sizeof in, &b));
    CHECK_OK(um_stream_callback(stream, wait_at_gate, &g));
    CHECK_OK(um_copy_async(stream, UM_COPY_HOST_TO_DEVICE, a, address(in), sizeof in));
    CHECK_OK(um_copy_async(stream, UM_COPY_DEVICE_TO_DEVICE, b, a, sizeof in));
    CHECK_OK(um_copy_async(stream, UM_COPY_DEVICE_TO_HOST, address(out), b, sizeof in));
    CHECK_OK(um_copy_async(stream, UM_COPY_HOST_TO_HOST, address(last), address(out), sizeof in));
    CHECK(waits || (out[0] == 0 && last[0] == 0)); /* nothing can have happened yet */
    if (!waits) in[5] = 8;                         /* read when its turn comes */
    atomic_store(&g.is_open, true);
    CHECK_OK(um_synchronize(stream));
    CHECK(out[0] == 7 && out[9999] == 7 && memcmp(out, last, sizeof out) == 0);
    CHECK(out[5] == (waits ? 7 : 8));
    CHECK_FAILS(um_copy_async(stream, 4, a, b, 1), UM_INVALID_ARGUMENT, "no kind 4");
    CHECK_FAILS(um_copy_async(stream, UM_COPY_HOST_TO_DEVICE, a + 1, address(in), sizeof in),
                UM_INVALID_ARGUMENT, "um_copy_async: to: 10000 bytes");
    CHECK_FAILS(um_copy_async(stream, UM_COPY_DEVICE_TO_HOST, address(out), a + 1, sizeof in),
                UM_INVALID_ARGUMENT, "um_copy_async: from: 10000 bytes");
    CHECK_FAILS(um_copy_async(stream, UM_COPY_DEVICE_TO_HOST, 0, a, 1), UM_INVALID_ARGUMENT,
                "host memory at 0x0");
    CHECK_FAILS(um_copy_async(stream, UM_COPY_HOST_TO_HOST, address(out), address(out) + 5, 6),
                UM_INVALID_ARGUMENT, "overlap");
    CHECK_FAILS(um_copy_async(NULL, UM_COPY_HOST_TO_HOST, 1, 2, 1), UM_INVALID_ARGUMENT, "NULL");
    CHECK_OK(um_copy_async(stream, UM_COPY_HOST_TO_HOST, 0, 0, 0));
    CHECK_OK(um_free(device, a));
    CHECK_OK(um_free(device, b));
    um_stream_release(stream);
    um_device_release(device);
}

static void test_directions(void)
{
    check_directions("cpu", false);
    check_directions("cpu+validate", false);
    check_directions("plain", true);
    check_directions("plain+validate", true);
}

static void check_peer(const char *from, const char *to, bool of_target)
{
    um_device *source = open_device(from), *target = open_device(to);
    um_stream *stream = create_stream(of_target ? target : source, 0);
    um_ptr a, b;
    uint8_t data[1000], back[1000];
    um_stream *first = create_stream(source, 0), *second = create_stream(target, 0);
    memset(data, 9, sizeof data);
    CHECK_OK(um_alloc(source, sizeof data, &a));
    CHECK_OK(um_alloc(target, sizeof data, &b));
    CHECK_OK(um_write(first, a, data, sizeof data));
    CHECK_OK(um_synchronize(first));
    CHECK_OK(um_copy_peer(stream, target, b + 10, source, a, 900));
    CHECK_OK(um_synchronize(stream));
    CHECK_OK(um_read(second, back, b, sizeof back));
    CHECK(back[10] == 9 && back[909] == 9);
    CHECK_FAILS(um_copy_peer(stream, target, b, source, a, 1001), UM_INVALID_ARGUMENT,
                ": to: 1001 bytes");
    CHECK_FAILS(um_copy_peer(stream, target, b, source, a + 999, 2), UM_INVALID_ARGUMENT, "from");
    CHECK_FAILS(um_copy_peer(stream, NULL, b, source, a, 2), UM_INVALID_ARGUMENT, "dst_device");
    CHECK_OK(um_copy_peer(stream, target, 1, source, 2, 0));
    um_device *third = open_device("null");
    CHECK(source == target || um_copy_peer(stream, third, b, third, a, 2) == UM_INVALID_ARGUMENT);
    um_device_release(third);
    um_stream_release(first);
    um_stream_release(second);
    um_stream_release(stream);
    um_device_release(source);
    um_device_release(target);
}

static void test_peer(void)
{
    for (int of_target = 0; of_target < 2; of_target++) {
        check_peer("cpu", "cpu+validate", of_target); /* one memory for both */
        check_peer("cpu", "plain", of_target);
        check_peer("plain", "cpu+validate", of_target);
        check_peer("cpu", "cpu", of_target);
    }
}

/* ---- callbacks ------------------------------------------------------------------------------ */

typedef struct calls {
    _Atomic int32_t count;
    um_status status;
    um_device *device;
    um_stream *own, *other;
    um_ptr ptr;
} calls;

static void count_call(void *user, um_status status)
{
    calls *c = user;
    c->status = status;
    atomic_fetch_add(&c->count, 1);
}

/* What may be called, and what may not. */
static void call_back(void *user, um_status status)
{
    calls *c = user;
    um_ptr ptr;
    um_event event;
    uint8_t byte;
    CHECK(status == UM_OK);
    CHECK_FAILS(um_synchronize(c->own), UM_INVALID_ARGUMENT, "a stream's callback must not");
    CHECK_FAILS(um_device_synchronize(c->device), UM_INVALID_ARGUMENT, "callback");
    CHECK_FAILS(um_read(c->own, &byte, c->ptr, 1), UM_INVALID_ARGUMENT, "callback");
    CHECK_FAILS(um_free(c->device, c->ptr), UM_INVALID_ARGUMENT, "callback");
    CHECK_FAILS(um_stream_clear_error(c->own), UM_INVALID_ARGUMENT, "callback");
    CHECK_FAILS(um_event_synchronize((um_event){0}), UM_INVALID_ARGUMENT, "callback");
    CHECK_OK(um_alloc(c->device, 64, &ptr));
    CHECK_OK(um_fill(c->other, ptr, 64, "y", 1));
    CHECK_OK(um_copy(c->other, c->ptr, ptr, 64));
    CHECK_OK(um_free_async(c->other, ptr));
    CHECK_OK(um_record(c->other, &event));
    status = um_query(event);
    CHECK(status == UM_OK || status == UM_NOT_READY);
    atomic_fetch_add(&c->count, 1);
}

static void test_callbacks(void)
{
    static const char *const specs[] = {"cpu", "cpu+validate", "plain"};
    for (size_t i = 0; i < UM_COUNT_OF(specs); i++) {
        int64_t blocks = um_mem_live_count();
        calls c = {.device = open_device(specs[i])};
        uint8_t byte = 0;
        um_status marker = UM_FAIL(UM_CANCELLED, "marker");
        c.own = create_stream(c.device, 0);
        c.other = create_stream(c.device, 0);
        CHECK_OK(um_alloc(c.device, 64, &c.ptr));
        CHECK_OK(um_stream_callback(c.own, call_back, &c));
        while (atomic_load(&c.count) == 0) sleep_ms(1); /* it comes without anybody waiting */
        CHECK(um_last_error()->code == marker);
        CHECK_OK(um_read(c.other, &byte, c.ptr, 1));
        CHECK(byte == 'y');
        for (int k = 0; k < 1000; k++) CHECK_OK(um_stream_callback(c.own, count_call, &c));
        CHECK_OK(um_synchronize(c.own));
        CHECK(c.count == 1001 && c.status == UM_OK);
        CHECK_FAILS(um_stream_callback(c.own, NULL, NULL), UM_INVALID_ARGUMENT, "fn is NULL");
        CHECK_FAILS(um_stream_callback(NULL, count_call, &c), UM_INVALID_ARGUMENT, "stream");
        um_mem_fail_at(1, false);
        CHECK_FAILS(um_stream_callback(c.own, count_call, &c), UM_OUT_OF_MEMORY, "callback");
        um_mem_fail_at(0, false);
        CHECK_OK(um_free(c.device, c.ptr));
        um_stream_release(c.own);
        um_stream_release(c.other);
        um_device_release(c.device);
        CHECK(c.count == 1001 && um_mem_live_count() == blocks);
    }
}

/* One that was promised comes though the stream fails before; then it says so, and no more are
 * promised. */
static void test_callback_of_failed_stream(void)
{
    um_device *device = open_device("cpu");
    um_stream *stream = create_stream(device, 0);
    um_ptr ptr;
    calls c = {.count = 0};
    gate g = {.is_open = false};
    const int32_t bad = 9;
    CHECK_OK(um_alloc(device, 64, &ptr));
    CHECK_OK(um_write(stream, ptr, &bad, 4));
    um_op op = {.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(ptr + 16, UM_F32, 2, (int64_t[]){2, 1}, &op.in[0]));
    CHECK_OK(um_view_make(ptr, UM_I32, 1, (int64_t[]){1}, &op.in[1]));
    CHECK_OK(um_view_make(ptr + 32, UM_F32, 2, (int64_t[]){1, 1}, &op.out[0]));
    CHECK_OK(um_stream_callback(stream, wait_at_gate, &g));
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_stream_callback(stream, count_call, &c));
    atomic_store(&g.is_open, true);
    CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, "embedding");
    CHECK(c.count == 1 && c.status == UM_OUT_OF_RANGE);
    CHECK_FAILS(um_stream_callback(stream, count_call, &c), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_stream_clear_error(stream), UM_OUT_OF_RANGE, "embedding");
    CHECK_OK(um_stream_callback(stream, count_call, &c));
    CHECK_OK(um_synchronize(stream));
    CHECK(c.count == 2 && c.status == UM_OK);
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- priorities ----------------------------------------------------------------------------- */

typedef struct place {
    _Atomic int32_t *next;
    int32_t at;
} place;

static void take_place(void *user, um_status status)
{
    place *p = user;
    CHECK(status == UM_OK);
    p->at = atomic_fetch_add(p->next, 1);
}

/* One worker, held up; what came meanwhile goes by priority, and by arrival within one. */
static void test_priorities(void)
{
    enum { COUNT = 5 };
    static const int32_t priority[COUNT] = {0, -1, 0, 100, 1}, wanted[COUNT] = {2, 4, 3, 0, 1};
    setenv("UMBEL_THREADS", "1", 1);
    um_device *device = open_device("cpu");
    um_stream *held = create_stream(device, 0), *stream[COUNT];
    gate g = {.is_open = false};
    _Atomic int32_t next = 0;
    place places[COUNT];
    CHECK_OK(um_stream_callback(held, wait_at_gate, &g));
    while (!atomic_load(&g.is_reached)) sleep_ms(1);
    for (int i = 0; i < COUNT; i++) {
        stream[i] = create_stream(device, priority[i]);
        places[i] = (place){&next, -1};
        CHECK_OK(um_stream_callback(stream[i], take_place, &places[i]));
    }
    atomic_store(&g.is_open, true);
    while (atomic_load(&next) < COUNT) sleep_ms(1);
    CHECK_OK(um_device_synchronize(device));
    for (int i = 0; i < COUNT; i++) {
        CHECK_MSG(places[i].at == wanted[i], "stream %d came as number %d", i, places[i].at);
        um_stream_release(stream[i]);
    }
    um_stream_release(held);
    um_device_release(device);
    unsetenv("UMBEL_THREADS");
}

/* ---- the pool ------------------------------------------------------------------------------- */

static um_pool_stats stats_of(um_device *device)
{
    um_pool_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(um_pool_get_stats(device, &stats));
    return stats;
}

/* Its own stream may have a block again at once; another one when its work is done. */
static void test_pool_order(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *a = create_stream(device, 0), *b = create_stream(device, 0);
    um_ptr first, second, third, base;
    uint64_t size;
    gate g = {.is_open = false};
    CHECK_OK(um_alloc_async(a, 1000, &first));
    CHECK(first % 64 == 0);
    CHECK_OK(um_ptr_resolve(device, first + 999, &base, &size));
    CHECK(base == first && size == 1000);
    CHECK_OK(um_stream_callback(a, wait_at_gate, &g));
    CHECK_OK(um_fill(a, first, 1000, "a", 1));
    CHECK_OK(um_free_async(a, first));
    CHECK_FAILS(um_ptr_resolve(device, first, &base, &size), UM_INVALID_ARGUMENT, "no live");
    CHECK_FAILS(um_free_async(a, first), UM_INVALID_ARGUMENT, "no live allocation");
    CHECK_FAILS(um_fill(a, first, 1, "x", 1), UM_INVALID_ARGUMENT, "um_fill");
    CHECK_OK(um_alloc_async(b, 900, &second)); /* while a is held up */
    CHECK(second != first);
    CHECK_OK(um_alloc_async(a, 900, &third));
    CHECK(third == first && atomic_load(&g.passed) == 0);
    CHECK_FAILS(um_fill(a, third, 901, "x", 1), UM_INVALID_ARGUMENT, "um_fill: 901 bytes");
    CHECK_FAILS(um_free_async(a, third + 1), UM_INVALID_ARGUMENT, "not their start");
    CHECK_OK(um_free_async(a, third));
    atomic_store(&g.is_open, true);
    CHECK_OK(um_synchronize(a));
    CHECK_OK(um_alloc_async(b, 1000, &third));
    CHECK(third == first);
    CHECK_OK(um_free(device, third));
    CHECK_OK(um_alloc_async(a, 1000, &third));
    CHECK(third == first);
    CHECK_OK(um_free_async(b, second));
    um_stream_release(b); /* a stream that is gone has no work left */
    CHECK_OK(um_alloc_async(a, 1000, &first));
    CHECK(first == second);
    um_pool_stats stats = stats_of(device);
    CHECK(stats.alloc_count == 6 && stats.reuse_count == 4 && stats.in_use_bytes == 2 * 1024);
    um_stream_release(a);
    um_device_release(device); /* with two blocks that nobody gave back */
}

/* Its own block, though one that is not done yet lies before it. */
static void test_pool_prefers_own(void)
{
    um_device *device = open_device("cpu");
    um_stream *a = create_stream(device, 0), *b = create_stream(device, 0);
    um_ptr own, other, again;
    gate g = {.is_open = false};
    CHECK_OK(um_alloc_async(a, 1000, &own));
    CHECK_OK(um_alloc_async(b, 1000, &other));
    CHECK_OK(um_stream_callback(b, wait_at_gate, &g));
    CHECK_OK(um_free_async(a, own));
    CHECK_OK(um_free_async(b, other));
    CHECK_OK(um_alloc_async(a, 1000, &again));
    CHECK(again == own && atomic_load(&g.passed) == 0);
    atomic_store(&g.is_open, true);
    um_stream_release(a);
    um_stream_release(b);
    um_device_release(device);
}

static void test_pool_stats(void)
{
    enum { COUNT = 100 };
    int64_t blocks = um_mem_live_count();
    um_device *device = open_device("cpu");
    um_stream *stream = create_stream(device, 0);
    um_ptr ptr[COUNT], zero;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) CHECK_OK(um_alloc_async(stream, 100000, &ptr[i]));
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(um_fill(stream, ptr[i], 100000, "x", 1));
            CHECK_OK(um_free_async(stream, ptr[i]));
        }
    }
    um_pool_stats stats = stats_of(device);
    CHECK(stats.in_use_bytes == 0 && stats.reserved_bytes == stats.reserved_high_bytes);
    CHECK(stats.in_use_high_bytes == stats.reserved_high_bytes);
    CHECK(stats.reserved_bytes >= COUNT * 100000 && stats.reserved_bytes <= COUNT * 125064);
    CHECK(stats.alloc_count == 3 * COUNT && stats.reuse_count == 2 * COUNT);
    int64_t warm = um_mem_alloc_count();
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(um_alloc_async(stream, 100000, &ptr[0]));
        CHECK_OK(um_free_async(stream, ptr[0]));
    }
    CHECK(um_mem_alloc_count() == warm);
    CHECK_OK(um_pool_trim(device, stats.reserved_bytes / 2));
    CHECK(stats_of(device).reserved_bytes <= stats.reserved_bytes / 2);
    CHECK(stats_of(device).reserved_bytes > stats.reserved_bytes / 2 - 125064);
    CHECK_OK(um_alloc_async(stream, 0, &zero));
    CHECK_OK(um_pool_trim(device, 0));
    CHECK(stats_of(device).reserved_bytes == stats_of(device).in_use_bytes);
    CHECK(zero != 0 && stats_of(device).in_use_bytes == 256);
    CHECK_OK(um_free_async(stream, zero));
    CHECK(stats_of(device).reserved_high_bytes == stats.reserved_high_bytes);

    CHECK_FAILS(um_alloc_async(stream, UINT64_MAX, &zero), UM_OUT_OF_MEMORY, "bytes");
    CHECK_FAILS(um_alloc_async(stream, (uint64_t)1 << 60, &zero), UM_OUT_OF_MEMORY, "bytes");
    CHECK_FAILS(um_alloc_async(NULL, 1, &zero), UM_INVALID_ARGUMENT, "stream is NULL");
    CHECK_FAILS(um_alloc_async(stream, 1, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(um_pool_trim(NULL, 0), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_pool_get_stats(device, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    stats.struct_size = 0;
    CHECK_FAILS(um_pool_get_stats(device, &stats), UM_INVALID_ARGUMENT, "struct_size");
    um_stream_release(stream);
    um_device_release(device);
    CHECK(um_mem_live_count() == blocks);
}

/* What is idle is given back before anybody is out of memory, and when it is too much. */
static void test_pool_gives_back(void)
{
    um_device *device = open_device("cpu+fault=memory:1000000");
    um_stream *stream = create_stream(device, 0);
    um_ptr ptr, other;
    CHECK_OK(um_alloc_async(stream, 800000, &ptr));
    CHECK_FAILS(um_alloc(device, 400000, &other), UM_OUT_OF_MEMORY, "allowed");
    CHECK_OK(um_free_async(stream, ptr));
    CHECK_OK(um_alloc(device, 400000, &other));
    CHECK(stats_of(device).reserved_bytes == 0);
    CHECK_OK(um_free(device, other));
    CHECK_OK(um_alloc_async(stream, 500000, &ptr));
    CHECK_OK(um_free_async(stream, ptr));
    CHECK_OK(um_alloc_async(stream, 900000, &ptr)); /* another size */
    um_stream_release(stream);
    um_device_release(device);

    device = open_device("cpu");
    stream = create_stream(device, 0);
    um_ptr many[5];
    for (int i = 0; i < 5; i++) CHECK_OK(um_alloc_async(stream, 100 << 20, &many[i]));
    for (int i = 0; i < 5; i++) CHECK_OK(um_free_async(stream, many[i]));
    CHECK(stats_of(device).reserved_high_bytes >= 500 << 20);
    CHECK(stats_of(device).reserved_bytes <= (256 << 20) + (126 << 20));
    um_stream_release(stream);
    um_device_release(device);
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    add_fakes();
    int64_t blocks = um_mem_live_count();
    TEST(test_directions);
    TEST(test_peer);
    TEST(test_callbacks);
    TEST(test_callback_of_failed_stream);
    TEST(test_priorities);
    TEST(test_pool_order);
    TEST(test_pool_prefers_own);
    TEST(test_pool_stats);
    TEST(test_pool_gives_back);
    CHECK(um_mem_live_count() == blocks);
    return TEST_RESULT();
}
