/* check/device.c: what a device has to do beside ops: memory, bytes, order, events, failures. Each
 * is a case "device/NAME". Called by driver.c; ops are in case.c.
 */
#include "check/inside.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <umbel/graph.h>

enum { ROOM = 1 << 14, ROUNDS = 40, WAIT_S = 20 };

/* One case at work. */
typedef struct probe {
    um_device *device;
    um_stream *stream, *other;
    um_ptr block, second; /* ROOM bytes each */
    uint8_t *want, *got;  /* of ROOM bytes */
    um_rng rng;
    char *detail;
    size_t detail_size;
    bool skip;
} probe;

/* ---- saying what is wrong -------------------------------------------------------------------- */

static bool wrong(probe *p, const char *format, ...) UM_PRINTF(2, 3);
static bool wrong(probe *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->detail, p->detail_size, format, args);
    va_end(args);
    return false;
}

/* A call that has to be OK. */
static bool ok(probe *p, um_status status, const char *call)
{
    if (status == UM_OK) return true;
    return wrong(p, "%s: %s: %s", call, um_status_name(status), um_last_error()->message);
}
#define OK(call)                                                                                   \
    if (!ok(p, call, #call)) return false

static bool same(probe *p, const uint8_t *want, size_t size_bytes, const char *what)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (p->got[i] != want[i])
            return wrong(p, "%s: byte %zu of %zu: got 0x%02x, wanted 0x%02x", what, i, size_bytes,
                         p->got[i], want[i]);
    }
    return true;
}

static void fill_random(probe *p, uint8_t *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) bytes[i] = (uint8_t)um_rng_next(&p->rng);
}

/* Random bytes in `want` and in the block. */
static bool start(probe *p, um_ptr block)
{
    fill_random(p, p->want, ROOM);
    OK(um_write(p->stream, block, p->want, ROOM));
    return true;
}

static bool block_is(probe *p, um_ptr block, const char *what)
{
    memset(p->got, 0, ROOM);
    OK(um_read(p->stream, p->got, block, ROOM));
    return same(p, p->want, ROOM, what);
}

/* A place and a length: small, odd, or any. */
static void pick_range(probe *p, size_t *at, size_t *size)
{
    *at = (size_t)um_rng_below(&p->rng, ROOM / 2);
    *size = (size_t)um_rng_below(&p->rng, um_rng_below(&p->rng, 2) ? 17 : ROOM / 2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool use_blocks(probe *p, um_ptr *block, const uint64_t *sizes, int count)
{
    for (int i = 0; i < count; i++) {
        OK(um_alloc(p->device, sizes[i], &block[i]));
        if (block[i] == 0 || block[i] % 64 != 0)
            return wrong(p, "alloc of %llu bytes gives 0x%llx, wanted a multiple of 64",
                         (unsigned long long)sizes[i], (unsigned long long)block[i]);
        uint8_t value = (uint8_t)(i + 1);
        OK(um_fill(p->stream, block[i], sizes[i], &value, 1));
    }
    for (int i = 0; i < count; i++) {
        size_t size = (size_t)UM_MIN(sizes[i], ROOM);
        memset(p->want, i + 1, size);
        OK(um_read(p->stream, p->got, block[i], size));
        if (!same(p, p->want, size, "blocks side by side")) return false;
    }
    return true;
}

static bool check_memory(probe *p)
{
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 4095, 4097, 1 << 20, 3, 0};
    um_ptr block[UM_COUNT_OF(sizes)] = {0};
    bool good = use_blocks(p, block, sizes, (int)UM_COUNT_OF(sizes));
    for (size_t i = 0; i < UM_COUNT_OF(sizes); i++) {
        um_status status = um_free(p->device, block[i]);
        good = good && ok(p, status, "um_free");
    }
    return good;
}

/* More than there is: said so, and all goes on. */
static bool check_too_much(probe *p)
{
    um_ptr none;
    um_status status = um_alloc(p->device, (uint64_t)1 << 62, &none);
    if (status != UM_OUT_OF_MEMORY)
        return wrong(p, "an allocation of 2^62 bytes: %s, wanted OUT_OF_MEMORY",
                     um_status_name(status));
    return start(p, p->block) && block_is(p, p->block, "after that");
}

static bool check_free_async(probe *p)
{
    for (int round = 0; round < ROUNDS; round++) {
        um_ptr ptr;
        uint8_t value = (uint8_t)round;
        OK(um_alloc(p->device, ROOM, &ptr));
        OK(um_fill(p->stream, ptr, ROOM, &value, 1));
        OK(um_copy(p->stream, p->block, ptr, ROOM));
        OK(um_free_async(p->stream, ptr));
    }
    memset(p->want, ROUNDS - 1, ROOM);
    return block_is(p, p->block, "copied from memory that is freed behind it");
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool check_write(probe *p)
{
    if (!start(p, p->block)) return false;
    for (int round = 0; round < ROUNDS; round++) {
        size_t at, size;
        pick_range(p, &at, &size);
        fill_random(p, p->want + at, size);
        memcpy(p->got, p->want + at, size);
        OK(um_write(p->stream, p->block + at, p->got, size));
        memset(p->got, 0xee, size); /* the source is the caller's again */
    }
    return block_is(p, p->block, "written at any place");
}

static bool check_read(probe *p)
{
    if (!start(p, p->block)) return false;
    for (int round = 0; round < ROUNDS; round++) {
        size_t at, size;
        pick_range(p, &at, &size);
        OK(um_read(p->stream, p->got, p->block + at, size));
        if (!same(p, p->want + at, size, "read from any place")) return false;
    }
    return true;
}

static bool check_fill(probe *p)
{
    if (!start(p, p->block)) return false;
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t pattern[8];
        uint32_t bytes = 1u << um_rng_below(&p->rng, 4);
        size_t at, size;
        pick_range(p, &at, &size);
        size -= size % bytes;
        fill_random(p, pattern, sizeof pattern);
        for (size_t i = 0; i < size; i++) p->want[at + i] = pattern[i % bytes];
        OK(um_fill(p->stream, p->block + at, size, pattern, bytes));
    }
    return block_is(p, p->block, "filled at any place");
}

static bool check_copy(probe *p)
{
    if (!start(p, p->second) || !start(p, p->block)) return false;
    for (int round = 0; round < ROUNDS; round++) {
        size_t from, to, size, rest;
        pick_range(p, &from, &size);
        pick_range(p, &to, &rest);
        if ((from > to ? from - to : to - from) < size) continue;
        memcpy(p->want + to, p->want + from, size);
        OK(um_copy(p->stream, p->block + to, p->block + from, size));
    }
    OK(um_copy(p->stream, p->second, p->block, ROOM));
    return block_is(p, p->block, "copied within") && block_is(p, p->second, "copied out");
}

static bool check_copy_async(probe *p)
{
    fill_random(p, p->want, ROOM);
    memset(p->got, 0, ROOM);
    OK(um_copy_async(p->stream, UM_COPY_HOST_TO_DEVICE, p->block, (uintptr_t)p->want, ROOM));
    OK(um_copy_async(p->stream, UM_COPY_DEVICE_TO_DEVICE, p->second, p->block, ROOM));
    OK(um_copy_async(p->stream, UM_COPY_DEVICE_TO_HOST, (uintptr_t)p->got, p->second, ROOM));
    OK(um_synchronize(p->stream));
    return same(p, p->want, ROOM, "there and back");
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool check_order(probe *p)
{
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t value = (uint8_t)round, later = 0xee;
        OK(um_fill(p->stream, p->block, ROOM, &value, 1));
        OK(um_copy(p->stream, p->second, p->block, ROOM));
        OK(um_fill(p->stream, p->block, ROOM, &later, 1));
        memset(p->want, value, ROOM);
        if (!block_is(p, p->second, "copied before the source changed")) return false;
    }
    return true;
}

static bool check_events(probe *p)
{
    for (int round = 0; round < ROUNDS; round++) {
        um_event filled, copied;
        uint8_t value = (uint8_t)round;
        OK(um_fill(p->stream, p->block, ROOM, &value, 1));
        OK(um_record(p->stream, &filled));
        OK(um_wait(p->other, filled));
        OK(um_copy(p->other, p->second, p->block, ROOM));
        OK(um_record(p->other, &copied));
        OK(um_wait(p->stream, copied));
        memset(p->want, value, ROOM);
        if (!block_is(p, p->second, "copied by a stream that waited")) return false;
        OK(um_event_synchronize(copied));
        OK(um_query(filled));
        OK(um_query(copied));
    }
    return true;
}

static void count_call(void *user, um_status status)
{
    _Atomic int32_t *calls = user;
    *calls += status == UM_OK ? 1 : 1000;
}

static bool check_callback(probe *p)
{
    _Atomic int32_t calls = 0;
    int64_t end_ns = um_os_now_ns() + WAIT_S * (int64_t)1000000000;
    uint8_t value = 9;
    OK(um_fill(p->stream, p->block, ROOM, &value, 1));
    OK(um_stream_callback(p->stream, count_call, &calls));
    OK(um_synchronize(p->stream));
    while (calls == 0 && um_os_now_ns() < end_ns) um_os_pause();
    if (calls == 1) return true;
    return wrong(p, "a callback came %d times, wanted once with OK", (int)calls);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { TURN = 256, MARK = 5 };

/* A launch turns the block by TURN bytes and marks its begin. */
static bool capture_turn(probe *p, um_graph **out)
{
    OK(um_capture_begin(p->stream));
    OK(um_copy(p->stream, p->second, p->block, ROOM));
    OK(um_copy(p->stream, p->block + TURN, p->second, ROOM - TURN));
    OK(um_copy(p->stream, p->block, p->second + ROOM - TURN, TURN));
    OK(um_fill(p->stream, p->block + 3, MARK, "m", 1));
    OK(um_fill(p->stream, p->block + 16, 16, "pattern!", 8));
    OK(um_capture_end(p->stream, out));
    return true;
}

static void turn(uint8_t *bytes)
{
    uint8_t last[TURN];
    memcpy(last, bytes + ROOM - TURN, TURN);
    memmove(bytes + TURN, bytes, ROOM - TURN);
    memcpy(bytes, last, TURN);
    memset(bytes + 3, 'm', MARK);
    memcpy(bytes + 16, "pattern!pattern!", 16);
}

/* Behind each other, then from one stream to the other. */
static bool launch_turns(probe *p, um_graph *graph)
{
    um_stream *const stream[] = {p->stream, p->other};
    for (int round = 0; round < ROUNDS; round++) {
        um_event done;
        um_stream *own = stream[round / 5 % 2];
        OK(um_graph_launch(own, graph, NULL, 0));
        turn(p->want);
        if (round % 5 < 4) continue;
        OK(um_record(own, &done));
        OK(um_wait(stream[(round / 5 + 1) % 2], done));
    }
    return block_is(p, p->block, "turned by a graph");
}

static bool check_graph(probe *p)
{
    um_graph *graph = NULL;
    bool good = start(p, p->block) && capture_turn(p, &graph) && launch_turns(p, graph);
    if (um_stream_is_capturing(p->stream)) good = ok(p, um_capture_end(p->stream, NULL), "end");
    um_graph_release(graph);
    return good;
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, FEW_BYTES = 256 };

/* One thread, with a stream of its own on the device of all. */
typedef struct busy {
    um_device *device;
    int32_t number;
    um_thread thread;
    bool started, good;
    char text[sizeof((um_error *)0)->message];
} busy;

static bool work_once(busy *b, um_stream *stream, uint8_t value)
{
    uint8_t got[FEW_BYTES];
    um_ptr ptr = 0;
    um_event done;
    bool good = um_alloc(b->device, FEW_BYTES, &ptr) == UM_OK &&
                um_fill(stream, ptr, FEW_BYTES, &value, 1) == UM_OK &&
                um_record(stream, &done) == UM_OK && um_event_synchronize(done) == UM_OK &&
                um_read(stream, got, ptr, FEW_BYTES) == UM_OK;
    if (!good)
        snprintf(b->text, sizeof b->text, "%s", um_last_error()->message);
    else if (got[0] != value || memcmp(got, got + 1, FEW_BYTES - 1) != 0)
        snprintf(b->text, sizeof b->text, "thread %d reads what another one wrote", (int)b->number);
    if (ptr && um_free_async(stream, ptr) != UM_OK) good = false;
    return good && !b->text[0];
}

static void be_busy(void *arg)
{
    busy *b = arg;
    um_stream *stream = NULL;
    b->good = um_stream_create(b->device, &stream) == UM_OK;
    if (!b->good) snprintf(b->text, sizeof b->text, "%s", um_last_error()->message);
    for (int i = 0; i < ROUNDS && b->good; i++)
        b->good = work_once(b, stream, (uint8_t)(b->number * ROUNDS + i));
    um_stream_release(stream);
}

static bool check_threads(probe *p)
{
    busy all[THREADS];
    bool good = true;
    for (int32_t i = 0; i < THREADS; i++) {
        all[i] = (busy){.device = p->device, .number = i};
        all[i].started = um_thread_start(&all[i].thread, be_busy, &all[i], "check") == UM_OK;
        if (!all[i].started) be_busy(&all[i]);
    }
    for (int32_t i = 0; i < THREADS; i++) {
        if (all[i].started) um_thread_join(all[i].thread);
        if (good && !all[i].good) good = wrong(p, "%s", all[i].text);
    }
    return good;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Row 9 of a table of 4. */
static bool bad_op(probe *p, um_op *op)
{
    const int64_t table[2] = {4, 2}, ids[1] = {1}, out[2] = {1, 2};
    const int32_t bad = 9;
    *op = (um_op){.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1};
    OK(um_view_make(p->block, UM_F32, 2, table, &op->in[0]));
    OK(um_view_make(p->block + 1024, UM_I32, 1, ids, &op->in[1]));
    OK(um_view_make(p->block + 2048, UM_F32, 2, out, &op->out[0]));
    p->skip = !um_supports(p->device, op, p->detail, p->detail_size);
    if (p->skip) return false;
    OK(um_write(p->stream, p->block + 1024, &bad, sizeof bad));
    return true;
}

static bool is_status(probe *p, um_status got, um_status wanted, const char *when)
{
    if (got == wanted) return true;
    return wrong(p, "%s: %s, wanted %s", when, um_status_name(got), um_status_name(wanted));
}

/* An op that fails on the device stops its stream, and no other, until that is cleared. */
static bool check_sticky(probe *p)
{
    um_op op;
    um_event event;
    if (!bad_op(p, &op)) return false;
    OK(um_enqueue(p->stream, &op));
    OK(um_record(p->stream, &event));
    if (!is_status(p, um_synchronize(p->stream), UM_OUT_OF_RANGE, "waiting for a bad index") ||
        !is_status(p, um_synchronize(p->stream), UM_OUT_OF_RANGE, "waiting once more") ||
        !is_status(p, um_query(event), UM_OUT_OF_RANGE, "asking behind it") ||
        !is_status(p, um_read(p->stream, p->got, p->block, 4), UM_OUT_OF_RANGE, "reading") ||
        !is_status(p, um_synchronize(p->other), UM_OK, "another stream") ||
        !is_status(p, um_stream_clear_error(p->stream), UM_OUT_OF_RANGE, "clearing") ||
        !is_status(p, um_synchronize(p->stream), UM_OK, "after clearing"))
        return false;
    return start(p, p->block) && block_is(p, p->block, "after clearing");
}

static bool capture_op(probe *p, const um_op *op, um_graph **out)
{
    OK(um_capture_begin(p->stream));
    for (int i = 0; i < 3; i++) OK(um_fill(p->stream, p->block + 2048, 8, "x", 1));
    OK(um_enqueue(p->stream, op));
    OK(um_capture_end(p->stream, out));
    return true;
}

/* A stream that has failed says so at any call. */
static bool launch_with(probe *p, um_graph *graph, int32_t index)
{
    um_status status = um_write(p->stream, p->block + 1024, &index, sizeof index);
    if (status == UM_OK) status = um_graph_launch(p->stream, graph, NULL, 0);
    return status == UM_OUT_OF_RANGE || ok(p, status, "um_graph_launch");
}

/* What launches find out comes, whatever launches come behind; cleared, all goes on. */
static bool launch_failing(probe *p, um_graph *graph)
{
    for (int round = 0; round < 3; round++) {
        if (!start(p, p->block) || !launch_with(p, graph, round) ||
            !is_status(p, um_synchronize(p->stream), UM_OK, "good indices"))
            return false;
        memcpy(p->want + 1024, &round, sizeof round);
        memcpy(p->want + 2048, p->want + 8 * round, 8);
        if (!block_is(p, p->block, "a row by a graph")) return false;
        if (!launch_with(p, graph, 9) || !launch_with(p, graph, 1) ||
            !is_status(p, um_synchronize(p->stream), UM_OUT_OF_RANGE, "a bad index before") ||
            !is_status(p, um_stream_clear_error(p->stream), UM_OUT_OF_RANGE, "clearing"))
            return false;
    }
    return true;
}

static bool check_graph_sticky(probe *p)
{
    um_op op;
    um_graph *graph = NULL;
    if (!bad_op(p, &op)) return false;
    bool good = capture_op(p, &op, &graph) && launch_failing(p, graph);
    if (um_stream_is_capturing(p->stream)) good = ok(p, um_capture_end(p->stream, NULL), "end");
    um_graph_release(graph);
    return good;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*check)(probe *p);
} cases[] = {
    {"device/memory", check_memory},
    {"device/too_much", check_too_much},
    {"device/free_async", check_free_async},
    {"device/write", check_write},
    {"device/read", check_read},
    {"device/fill", check_fill},
    {"device/copy", check_copy},
    {"device/copy_async", check_copy_async},
    {"device/order", check_order},
    {"device/events", check_events},
    {"device/callback", check_callback},
    {"device/graph", check_graph},
    {"device/threads", check_threads},
    {"device/sticky", check_sticky},
    {"device/graph_sticky", check_graph_sticky},
};

const char *um_device_case_name(int32_t index)
{
    return index < (int32_t)UM_COUNT_OF(cases) ? cases[index].name : NULL;
}

static bool prepare(probe *p)
{
    OK(um_stream_create(p->device, &p->stream));
    OK(um_stream_create(p->device, &p->other));
    OK(um_alloc(p->device, ROOM, &p->block));
    OK(um_alloc(p->device, ROOM, &p->second));
    return true;
}

/* Whatever the case did; a device that is broken by then has been told about. */
static void clean_up(probe *p)
{
    um_status unheard = p->stream ? um_stream_clear_error(p->stream) : UM_OK;
    um_stream_release(p->stream);
    um_stream_release(p->other);
    if (p->block) unheard = um_free(p->device, p->block);
    if (p->second) unheard = um_free(p->device, p->second);
    (void)unheard;
}

um_status um_device_case_run(int32_t index, const um_check_options *options,
                             um_check_outcome *outcome, char *detail, size_t detail_size)
{
    probe p = {.device = options->device,
               .rng = um_rng_make(options->seed, cases[index].name),
               .detail = detail,
               .detail_size = detail_size};
    *outcome = UM_CHECK_FAILED;
    detail[0] = 0;
    p.want = malloc(2 * ROOM);
    if (!p.want) return UM_FAIL(UM_OUT_OF_MEMORY, "check: no memory");
    p.got = p.want + ROOM;
    if (prepare(&p) && cases[index].check(&p)) *outcome = UM_CHECK_PASSED;
    if (p.skip) *outcome = UM_CHECK_SKIPPED;
    clean_up(&p);
    free(p.want);
    return UM_OK;
}
