/* test/driver_flat.h: generation for long, on a device of a driver over a loader that counts: from
 * one context to the next neither the driver's handles nor our memory grow. Skipped where no driver
 * is. A few short contexts; with an argument, so many tokens in whole contexts. */
#ifndef UM_TEST_DRIVER_FLAT_H
#define UM_TEST_DRIVER_FLAT_H

#include "base/base.h"
#include "test/driver_pools.h"

#include <stdlib.h>
#include <umbel/umbel.h>
#include <unistd.h>

enum { SHORT = 24, FEW = 5 * SHORT, VOCABULARY = 512 };
#define MODEL (UM_SOURCE_DIR "/models/stories260K.bin")

/* What a test has to say of its driver; `driver` is defined by it. */
typedef struct driver_row {
    const char *device, *backends;
    int32_t kinds;
    const char *const *names;                             /* of the kinds of handles */
    int64_t (*live)(int32_t kind), (*made)(int32_t kind); /* that are alive; ever */
    uint32_t reused; /* bits: kinds of which none is made once all is warm */
} driver_row;
static const driver_row driver;

enum { KINDS_MAX = 8 };
typedef struct level {
    int64_t live[KINDS_MAX], made[KINDS_MAX], blocks, resident_bytes;
} level;

static int64_t token_count = FEW;
static um_device *device;

static int64_t resident_bytes(void)
{
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%lld %lld", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static level level_now(void)
{
    level l = {.blocks = um_mem_live_count(), .resident_bytes = resident_bytes()};
    CHECK_OK(um_device_synchronize(device));
    for (int32_t kind = 0; kind < driver.kinds; kind++) {
        l.live[kind] = driver.live(kind);
        l.made[kind] = driver.made(kind);
    }
    return l;
}

/* What is most likely follows, from the beginning of a text; the same in each context. */
static int64_t run_context(um_llm *llm, int32_t length)
{
    static float logits[VOCABULARY];
    int32_t token = UM_TOKEN_BOS;
    int64_t sum = 0;
    for (int32_t position = 0; position < length; position++) {
        CHECK_OK(um_llm_eval(llm, 1, &token, position, logits));
        token = 0;
        for (int32_t i = 1; i < VOCABULARY; i++)
            if (logits[i] > logits[token]) token = i;
        sum = sum * 31 % 1000003 + token;
    }
    return sum;
}

static void check_level(const level *first, const level *now, int64_t context)
{
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        CHECK_MSG(now->live[kind] == first->live[kind] &&
                      (!(driver.reused >> kind & 1) || now->made[kind] == first->made[kind]),
                  "context %lld: %lld %s of %lld, were %lld of %lld", (long long)context,
                  (long long)now->live[kind], driver.names[kind], (long long)now->made[kind],
                  (long long)first->live[kind], (long long)first->made[kind]);
    CHECK_MSG(now->blocks == first->blocks, "context %lld: %lld blocks, were %lld",
              (long long)context, (long long)now->blocks, (long long)first->blocks);
    CHECK_MSG(now->resident_bytes < first->resident_bytes + ((int64_t)8 << 20),
              "context %lld: %lld bytes, were %lld", (long long)context,
              (long long)now->resident_bytes, (long long)first->resident_bytes);
}

static void test_flat(void)
{
    um_llm *llm;
    um_llm_info info;
    CHECK_OK(um_llm_load(device, MODEL, &llm));
    um_llm_get_info(llm, &info);
    CHECK(info.vocab_size == VOCABULARY);
    int32_t length = token_count == FEW ? SHORT : info.context_length;
    int64_t contexts = token_count / length;
    int64_t text = run_context(llm, length); /* compiles, plans, allocates */
    level first = level_now(), now = first;
    for (int64_t context = 1; context < contexts; context++) {
        CHECK(run_context(llm, length) == text);
        now = level_now();
        check_level(&first, &now, context);
    }
    printf("     %lld contexts of %d tokens; %lld blocks; resident %.1f MiB, then %.1f; alive:",
           (long long)contexts, (int)length, (long long)now.blocks,
           (double)first.resident_bytes / (1 << 20), (double)now.resident_bytes / (1 << 20));
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        printf(" %lld %s of %lld", (long long)now.live[kind], driver.names[kind],
               (long long)now.made[kind]);
    printf("\n");
    um_llm_release(llm);
}

/* Bytes behind work that takes its time: there is an end to how many wait in the host's memory. */
static void test_writes_ahead(void)
{
    enum { N = 640, PIECE = 1 << 20, PIECES = 500, MOST = 250 };
    static uint8_t bytes[PIECE];
    um_stream *stream;
    um_ptr ptr;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, sizeof(float) * N * N, &ptr));
    CHECK_OK(um_fill(stream, ptr, sizeof(float) * N * N, &(uint32_t){0}, 4));
    um_gemm_desc desc = {.a_type = UM_F32, .m = N, .n = N, .k = N, .alpha = 1, .a = ptr, .b = ptr};
    desc.lda = desc.ldb = desc.ldc = N;
    CHECK_OK(um_alloc(device, sizeof(float) * N * N, &desc.c));
    for (int i = 0; i < 3; i++) CHECK_OK(um_gemm(stream, &desc));
    int64_t before = resident_bytes();
    for (int i = 0; i < PIECES; i++) CHECK_OK(um_write(stream, ptr, bytes, PIECE));
    int64_t more = (resident_bytes() - before) >> 20;
    CHECK_MSG(more < MOST, "%lld MiB more", (long long)more);
    CHECK_OK(um_synchronize(stream));
    CHECK_OK(um_free(device, ptr));
    CHECK_OK(um_free(device, desc.c));
    um_stream_release(stream);
}

static void short_stream(um_stream *other, um_ptr ptr)
{
    um_stream *stream;
    um_event event;
    CHECK_OK(um_stream_create(device, &stream));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(um_fill(stream, ptr, 1024, "s", 1));
        CHECK_OK(um_record(stream, &event));
        CHECK_OK(um_wait(other, event));
        CHECK_OK(um_fill(other, ptr, 1024, "o", 1));
        CHECK_OK(um_record(other, &event));
    }
    CHECK_OK(um_synchronize(other));
    um_stream_release(stream);
}

/* Streams that others wait for go as soon as that is done. */
static void test_streams_come_and_go(void)
{
    um_stream *other;
    um_ptr ptr;
    CHECK_OK(um_stream_create(device, &other));
    CHECK_OK(um_alloc(device, 1024, &ptr));
    for (int i = 0; i < 5; i++) short_stream(other, ptr);
    level first = level_now();
    for (int i = 0; i < 300; i++) short_stream(other, ptr);
    level now = level_now();
    check_level(&first, &now, 0);
    CHECK_OK(um_free(device, ptr));
    um_stream_release(other);
}

/* Many small ops, and nobody waits: there is an end to what is kept for them. */
static void test_ops_ahead(void)
{
    enum { OPS = 150000, MOST = 80 };
    const int64_t count = 64;
    um_stream *stream;
    um_ptr ptr;
    um_view x, y;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 1024, &ptr));
    CHECK_OK(um_fill(stream, ptr, 1024, &(uint32_t){0}, 4));
    CHECK_OK(um_view_make(ptr, UM_F32, 1, &count, &x));
    CHECK_OK(um_view_make(ptr + 256, UM_F32, 1, &count, &y));
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1, .in = {x, y}, .out = {x}};
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_synchronize(stream));
    int64_t before = resident_bytes();
    for (int i = 0; i < OPS; i++) CHECK_OK(um_enqueue(stream, &op));
    int64_t more = (resident_bytes() - before) >> 20;
    CHECK_MSG(more < MOST, "%lld MiB more", (long long)more);
    CHECK_OK(um_synchronize(stream));
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
}

/* Whoever only goes on and never waits meets it, too. */
static void test_late_error(void)
{
    static const int32_t index = 9;
    const int64_t four = 4, one = 1;
    um_stream *stream;
    um_ptr ptr;
    um_view x, at, y;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 1024, &ptr));
    CHECK_OK(um_view_make(ptr, UM_F32, 1, &four, &x));
    CHECK_OK(um_view_make(ptr + 256, UM_I32, 1, &one, &at));
    CHECK_OK(um_view_make(ptr + 512, UM_F32, 1, &one, &y));
    CHECK_OK(um_fill(stream, ptr, 1024, &(uint32_t){0}, 4));
    CHECK_OK(um_write(stream, at.ptr, &index, sizeof index));
    CHECK_OK(um_gather_view(stream, 0, &x, &at, &y));
    um_status status = UM_OK;
    for (int i = 0; i < 1000000 && status == UM_OK; i++)
        status = um_fill(stream, ptr, 1024, &(uint32_t){0}, 4);
    CHECK(status == UM_OUT_OF_RANGE);
    CHECK(um_stream_clear_error(stream) == UM_OUT_OF_RANGE);
    CHECK_OK(um_fill(stream, ptr, 1024, &(uint32_t){0}, 4));
    CHECK_OK(um_synchronize(stream));
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
}

static void test_all_is_given_back(void)
{
    um_device_release(device);
    for (int32_t kind = 0; kind < driver.kinds; kind++)
        CHECK_MSG(driver.live(kind) == 0 && driver.made(kind) > 0, "%lld %s of %lld alive",
                  (long long)driver.live(kind), driver.names[kind], (long long)driver.made(kind));
}

static int run_flat(int argc, char **argv)
{
    setenv("UMBEL_BACKENDS", driver.backends, 1);
    setenv("UMBEL_STRICT", "1", 1);
    if (argc > 1) token_count = atoll(argv[1]);
    if (um_open(driver.device, &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    fill_pools(device, NULL);
    TEST(test_flat);
    TEST(test_writes_ahead);
    TEST(test_streams_come_and_go);
    TEST(test_ops_ahead);
    TEST(test_late_error);
    TEST(test_all_is_given_back);
    return TEST_RESULT();
}

#endif
