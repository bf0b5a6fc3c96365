/* A program of everything, on a device that fails at call N, for every N: an error comes back (of a
 * call inside a release by um_last_error); nothing hangs or leaks, and the device can be
 * used again. The same with a device that is lost, one short of memory, and an
 * allocator that fails. */
#include "base/base.h"
#include "test/program.h"

#include <stdlib.h>
#include <unistd.h>

enum { HANG_S = 120 };

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
