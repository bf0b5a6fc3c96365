/* test/test_interp_device.c: the device interp: how it is found, its streams, and a lack of memory
 * at every step of an op. What its ops compute is tested by umbel check. */
#include "test.h"

#include "base/base.h"

#include <stdlib.h>
#include <umbel/umbel.h>

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

static void only_who_names_it_gets_it(void)
{
    um_device *device = open_device("auto");
    CHECK(strncmp(um_device_name(device), "interp", 6) != 0);
    um_device_release(device);
    device = open_device("interpreter");
    CHECK(strcmp(um_device_name(device), "interp:0") == 0);
    um_caps caps = {.struct_size = sizeof caps};
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.kind == UM_DEVICE_INTERP && caps.subgroup_min == 32 && caps.subgroup_max == 32);
    um_device_release(device);
}

static void subgroup_size_is_the_users(void)
{
    static const struct {
        const char *text;
        int32_t size; /* 0: refused */
    } rows[] = {{"1", 1}, {"8", 8}, {"128", 128}, {"0", 0}, {"12", 0}, {"256", 0}, {"8x", 0}};
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++) {
        um_device *device = NULL;
        um_caps caps = {.struct_size = sizeof caps};
        setenv("UMBEL_INTERP_SUBGROUP", rows[i].text, 1);
        if (rows[i].size == 0) {
            CHECK_FAILS(um_open("interp", &device), UM_INVALID_ARGUMENT, "wanted 1, 2, 4, ... 128");
            continue;
        }
        CHECK_OK(um_open("interp", &device));
        CHECK_OK(um_device_caps(device, &caps));
        CHECK_MSG(caps.subgroup_min == rows[i].size, "%d", caps.subgroup_min);
        um_device_release(device);
    }
    unsetenv("UMBEL_INTERP_SUBGROUP");
}

/* Nothing else is asked for what it lacks: a check of it would pass for the wrong reason. */
static void nobody_helps_out(void)
{
    um_device *device = open_device("interp");
    char why[200];
    um_op op = {.id = UM_OP_ARGSORT, .in_count = 1, .out_count = 1};
    int64_t shape[1] = {(int64_t)1 << 30};
    CHECK_OK(um_view_make(64, UM_I8, 1, shape, &op.in[0]));
    CHECK_OK(um_op_infer(&op));
    CHECK(!um_supports(device, &op, why, sizeof why));
    CHECK_MSG(strstr(why, "no kernel for 2^30 elements") != NULL, "%s", why);
    um_device_release(device);
}

enum { N = 1000 };

/* y = x + x, or its sum, from the host and back. */
static um_status run_op(um_stream *stream, um_op_id id, um_ptr x, um_ptr y, float *out)
{
    um_op op = {.id = id, .in_count = id == UM_OP_ADD ? 2 : 1, .out_count = 1};
    float in[N];
    int64_t shape[1] = {N};
    for (int32_t i = 0; i < N; i++) in[i] = (float)i;
    CHECK_OK(um_view_make(x, UM_F32, 1, shape, &op.in[0]));
    if (id == UM_OP_ADD) op.in[1] = op.in[0];
    CHECK_OK(um_op_infer(&op));
    op.out[0].ptr = y;
    UM_TRY(um_write(stream, x, in, sizeof in));
    UM_TRY(um_enqueue(stream, &op));
    return um_read(stream, out, y, (uint64_t)um_view_count(&op.out[0]) * sizeof *out);
}

/* Each allocation of an op fails in turn: at once, or as the stream's error, which is cleared. Its
 * plan is kept: test_kcache.c has those of planning. */
static void fail_in_turn(um_stream *stream, um_op_id id, um_ptr x, um_ptr y, float *out)
{
    CHECK_OK(run_op(stream, id, x, y, out));
    int64_t live = um_mem_live_count();
    int32_t n = 1;
    for (bool failed = true; failed; n++) {
        um_mem_fail_at(n, n % 2);
        um_status status = run_op(stream, id, x, y, out);
        failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(status == (failed ? UM_OUT_OF_MEMORY : UM_OK), "%d: %s", n,
                  um_status_name(status));
        CHECK(um_mem_live_count() == live);
        (void)um_stream_clear_error(stream);
    }
    CHECK_MSG(n > 4, "%d allocations", n);
}

static void every_allocation_may_fail(void)
{
    um_device *device = open_device("interp");
    um_stream *stream = NULL, *other = NULL;
    um_ptr x, y;
    static float out[N];
    um_event event;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_stream_create(device, &other));
    CHECK_OK(um_alloc(device, sizeof out, &x));
    CHECK_OK(um_alloc(device, sizeof out, &y));
    for (int32_t i = 0; i < 2; i++) fail_in_turn(stream, i ? UM_OP_SUM : UM_OP_ADD, x, y, out);
    CHECK_OK(run_op(stream, UM_OP_SUM, x, y, out));
    CHECK(out[0] == N * (N - 1) / 2);
    CHECK_OK(run_op(stream, UM_OP_ADD, x, y, out));
    for (int32_t i = 0; i < N; i++) CHECK(out[i] == (float)(2 * i));
    CHECK_OK(um_record(stream, &event));
    CHECK_OK(um_wait(other, event));
    CHECK_OK(um_query(event));
    CHECK_OK(um_free(device, x));
    CHECK_OK(um_free(device, y));
    um_stream_release(other);
    um_stream_release(stream);
    um_device_release(device);
}

/* dx of max_pool 2x2 by 1 on [1,1,4,4], for places on the host. */
static um_status pool_backward(um_stream *stream, um_ptr memory, const int64_t places[9],
                               float dx[16])
{
    const int64_t narrow[4] = {1, 1, 3, 3}, wide[4] = {1, 1, 4, 4};
    float dy[9];
    for (int32_t i = 0; i < 9; i++) dy[i] = (float)(1 << i);
    um_op op = {.id = UM_OP_MAX_POOL_BACKWARD, .in_count = 2, .out_count = 1};
    op.attrs.pool = (um_pool_desc){.kernel = {2, 2}, .stride = {1, 1}, .dilation = {1, 1}};
    CHECK_OK(um_view_make(memory, UM_I64, 4, narrow, &op.in[1]));
    CHECK_OK(um_view_make(memory + 128, UM_F32, 4, narrow, &op.in[0]));
    CHECK_OK(um_view_make(memory + 192, UM_F32, 4, wide, &op.out[0]));
    UM_TRY(um_write(stream, memory, places, 9 * sizeof *places));
    UM_TRY(um_write(stream, memory + 128, dy, sizeof dy));
    UM_TRY(um_enqueue(stream, &op));
    UM_TRY(um_read(stream, dx, memory + 192, 16 * sizeof *dx));
    return um_synchronize(stream);
}

/* A plan of two launches, the first of which may find a fault; umbel check has few places that
 * windows can have chosen. */
static void places_are_checked_on_the_device(void)
{
    int64_t places[9] = {5, 5, 6, 5, 5, 10, 8, -1, 15};
    float dx[16];
    um_device *device = open_device("interp");
    um_stream *stream = NULL;
    um_ptr memory;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 256, &memory));
    for (int32_t stray = 0; stray < 2; stray++) {
        if (stray) places[8] = 0;
        CHECK_OK(pool_backward(stream, memory, places, dx));
        CHECK(dx[5] == 1 + 2 + 8 + 16 && dx[6] == 4 && dx[10] == 32 && dx[8] == 64);
        CHECK(dx[stray ? 0 : 15] == 256 && dx[stray ? 15 : 0] == 0 && dx[9] == 0);
    }
    for (int64_t bad = -2; bad <= 16; bad += 18) {
        places[8] = bad;
        CHECK_FAILS(pool_backward(stream, memory, places, dx), UM_OUT_OF_RANGE,
                    "an index is outside its channel of 16");
        CHECK(um_stream_clear_error(stream) == UM_OUT_OF_RANGE);
    }
    places[8] = 0;
    int64_t live = um_mem_live_count(); /* with the plan, which is kept */
    for (int32_t n = 1, failed = 1; failed; n++) {
        um_mem_fail_at(n, false);
        um_status status = pool_backward(stream, memory, places, dx);
        failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(status == (failed ? UM_OUT_OF_MEMORY : UM_OK) && um_mem_live_count() == live);
        (void)um_stream_clear_error(stream);
    }
    CHECK_OK(um_free(device, memory));
    um_stream_release(stream);
    um_device_release(device);
}

int main(void)
{
    TEST(only_who_names_it_gets_it);
    TEST(subgroup_size_is_the_users);
    TEST(nobody_helps_out);
    TEST(every_allocation_may_fail);
    TEST(places_are_checked_on_the_device);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
