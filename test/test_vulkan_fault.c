/* The Vulkan driver over a loader that fails at call N, for every N of a program of everything (and
 * of looking for devices, and opening one): each time an error or the right result, the device can
 * be used again, and no handle and no memory is left. The same with a device that is lost at call
 * N. Then the program many times on one device: nothing grows. Skipped where no driver is. */
#include "base/base.h"
#include "test/program.h"
#include "test/vk_wrap.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_S = 600, NO_DEVICE_MEMORY = -2, LOST = -4 };

static float wanted[FLOATS];

static void fail_at(int64_t call, bool for_good)
{
    vk_wrap.calls = 0;
    vk_wrap.failed = NULL;
    vk_wrap.for_good = for_good;
    vk_wrap.code = for_good ? LOST : NO_DEVICE_MEMORY;
    vk_wrap.fail_at = call;
}

static um_status open_and_run(um_device **device, float *result)
{
    UM_TRY(um_open("vulkan:0", device));
    return run(*device, result);
}

/* Looking happens once a process. */
static int look_in_child(int64_t n)
{
    um_device *device = NULL;
    fail_at(n, false);
    um_status status = um_open("vulkan:0", &device);
    bool reached = vk_wrap.failed != NULL;
    um_device_release(device);
    if (!device && status == UM_OK) return 2;
    return reached ? 0 : 1;
}

static void test_looking(void)
{
    int state = 0;
    for (int64_t n = 1; state == 0; n++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) _exit(look_in_child(n));
        CHECK(waitpid(child, &state, 0) == child);
        CHECK_MSG(state == 0 || (WIFEXITED(state) && WEXITSTATUS(state) == 1), "call %lld: %x",
                  (long long)n, (unsigned)state);
    }
}

/* The device, once what fails has failed, for the same program: the result that it gave first. */
static void check_again(um_device *device, int64_t n, const char *call)
{
    float result[FLOATS] = {0};
    fail_at(0, false);
    um_status status = run(device, result);
    CHECK_MSG(status == UM_OK, "after call %lld, %s: %s", (long long)n, call,
              um_last_error()->message);
    CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "after call %lld, %s: another result",
              (long long)n, call);
}

/* true: the program has so many calls. */
static bool fail_one(int64_t n, bool for_good, int64_t *refused)
{
    um_device *device = NULL;
    float result[FLOATS] = {0};
    int64_t blocks = um_mem_live_count(), handles = vk_wrap.handles;
    fail_at(n, for_good);
    um_status status = open_and_run(&device, result);
    const char *call = vk_wrap.failed;
    bool reached = call != NULL;
    if (!reached) call = "none";
    if (status == UM_OK)
        CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "call %lld, %s: another result", (long long)n,
                  call);
    else
        CHECK_MSG(um_last_error()->native_code == vk_wrap.code, "call %lld, %s: %s", (long long)n,
                  call, um_last_error()->message);
    *refused += status != UM_OK;
    if (device && reached && !for_good) check_again(device, n, call);
    um_device_release(device);
    fail_at(0, false);
    CHECK_MSG(um_mem_live_count() == blocks, "call %lld, %s: %lld blocks are left", (long long)n,
              call, (long long)(um_mem_live_count() - blocks));
    CHECK_MSG(vk_wrap.handles == handles, "call %lld, %s: %lld handles are left", (long long)n,
              call, (long long)(vk_wrap.handles - handles));
    return reached;
}

static void fail_each(int64_t step, bool for_good)
{
    int64_t refused = 0, n = 1, tried = 0;
    for (; fail_one(n, for_good, &refused); n += step) tried++;
    printf("     %lld of %lld calls, %lld of them refused the program\n", (long long)tried,
           (long long)n - 1, (long long)refused);
    CHECK_MSG(n > 40 && refused > tried / 3, "%lld of %lld calls", (long long)refused,
              (long long)n);
}

static void test_every_call(void) { fail_each(1, false); }
static void test_lost_at_every_call(void) { fail_each(1, true); }

/* Compiling takes long. */
static void test_calls_without_a_disk(void)
{
    CHECK(setenv("UMBEL_CACHE_DIR", "/dev/null/none", 1) == 0);
    fail_each(7, false);
}

/* Memory, pools and pipelines are used again. */
static void test_many_times(void)
{
    um_device *device;
    float result[FLOATS];
    fail_at(0, false);
    CHECK_OK(um_open("vulkan:0", &device));
    for (int i = 0; i < 20; i++) CHECK_OK(run(device, result));
    int64_t handles = vk_wrap.handles, blocks = um_mem_live_count(), made = vk_wrap.made;
    for (int i = 0; i < 200; i++) CHECK_OK(run(device, result));
    CHECK_MSG(vk_wrap.handles <= handles, "%lld handles more",
              (long long)(vk_wrap.handles - handles));
    CHECK_MSG(um_mem_live_count() <= blocks, "%lld blocks more",
              (long long)(um_mem_live_count() - blocks));
    printf("     200 times with %lld handles; %lld were made meanwhile\n",
           (long long)vk_wrap.handles, (long long)(vk_wrap.made - made));
    um_device_release(device);
}

int main(void)
{
    um_device *device;
    alarm(HANG_S); /* a hang ends the test */
    setenv("UMBEL_BACKENDS", "vulkan,cpu", 1);
    setenv("UMBEL_STRICT", "1", 1);
    setenv("UMBEL_TUNE", "off", 1);
    TEST(test_looking);
    if (um_open("vulkan:0", &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    CHECK_OK(run(device, wanted));
    um_device_release(device);
    TEST(test_every_call);
    TEST(test_lost_at_every_call);
    TEST(test_calls_without_a_disk);
    TEST(test_many_times);
    return TEST_RESULT();
}
