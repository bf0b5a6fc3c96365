/* test/driver_fault.h: a driver over a loader that fails at call N, for every N of a program of
 * everything (and of looking for devices, and opening one): each time an error or the right result,
 * the device can be used again, and no handle and no memory is left. The same with a device that is
 * lost at call N. */
#ifndef UM_TEST_DRIVER_FAULT_H
#define UM_TEST_DRIVER_FAULT_H

#include "base/base.h"
#include "test/program.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_S = 600 };

/* What a test has to say of its driver; `driver` is defined by it. */
typedef struct driver_row {
    const char *device;
    void (*fail_at)(int64_t call, bool for_good); /* 0: never */
    const char *(*failed)(void);                  /* the call that has; NULL: none yet */
    int64_t (*handles)(void);                     /* that are alive */
    int32_t (*code)(void);                        /* what the failing call gives */
    int64_t calls_min, refused_part; /* the program has more calls; of them 1 / part refuse it */
} driver_row;
static const driver_row driver;

static float wanted[FLOATS];

static um_status open_and_run(um_device **device, float *result)
{
    UM_TRY(um_open(driver.device, device));
    return run(*device, result);
}

/* Looking happens once a process. */
static int look_in_child(int64_t n)
{
    um_device *device = NULL;
    driver.fail_at(n, false);
    um_status status = um_open(driver.device, &device);
    bool reached = driver.failed() != NULL;
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
    driver.fail_at(0, false);
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
    int64_t blocks = um_mem_live_count(), handles = driver.handles();
    driver.fail_at(n, for_good);
    um_status status = open_and_run(&device, result);
    const char *call = driver.failed();
    bool reached = call != NULL;
    if (!reached) call = "none";
    if (status == UM_OK)
        CHECK_MSG(memcmp(result, wanted, BYTES) == 0, "call %lld, %s: another result", (long long)n,
                  call);
    else
        CHECK_MSG(um_last_error()->native_code == driver.code(), "call %lld, %s: %s", (long long)n,
                  call, um_last_error()->message);
    *refused += status != UM_OK;
    if (device && reached && !for_good) check_again(device, n, call);
    um_device_release(device);
    driver.fail_at(0, false);
    CHECK_MSG(um_mem_live_count() == blocks, "call %lld, %s: %lld blocks are left", (long long)n,
              call, (long long)(um_mem_live_count() - blocks));
    CHECK_MSG(driver.handles() == handles, "call %lld, %s: %lld handles are left", (long long)n,
              call, (long long)(driver.handles() - handles));
    return reached;
}

static void fail_each(int64_t step, bool for_good)
{
    int64_t refused = 0, n = 1, tried = 0;
    for (; fail_one(n, for_good, &refused); n += step) tried++;
    printf("     %lld of %lld calls, %lld of them refused the program\n", (long long)tried,
           (long long)n - 1, (long long)refused);
    CHECK_MSG(n > driver.calls_min && refused > tried / driver.refused_part, "%lld of %lld calls",
              (long long)refused, (long long)n);
}

static void test_every_call(void) { fail_each(1, false); }
static void test_lost_at_every_call(void) { fail_each(1, true); }

/* The environment, and what looking does. false: there is no such device; it was said. */
static bool open_driver(const char *backends)
{
    um_device *device;
    alarm(HANG_S); /* a hang ends the test */
    setenv("UMBEL_BACKENDS", backends, 1);
    setenv("UMBEL_STRICT", "1", 1);
    setenv("UMBEL_TUNE", "off", 1);
    TEST(test_looking);
    if (um_open(driver.device, &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return false;
    }
    CHECK_OK(run(device, wanted));
    um_device_release(device);
    return true;
}

#endif
