/* The CUDA, HIP and Metal text of the kernel library, compiled for the host with stand-ins for the
 * dialects' words (test/shim/) and run through the conformance driver, a fiber for each invocation
 * of a work-group. A first pass over the cases collects the texts, which are then compiled in
 * bulk; a second one runs them.
 *
 * test_shim [PATTERN]: of umbel check; "all" for every case. Skipped where there is no C++
 * compiler. */
#include "base/os.h"
#include "check/check.h"
#include "device/device.h"
#include "test.h"
#include "test/shim/device.h"
#include "test/shim/modules.h"

#include <sys/stat.h>

static const char *pattern = "*/1:*/mixed/*";
static bool is_usual;
static um_device *device[SHIM_DEVICES];

static double seconds_since(int64_t begin) { return (double)(um_os_now_ns() - begin) / 1e9; }

static void on_case(void *user, const um_check_case *result)
{
    (void)user;
    if (result->outcome == UM_CHECK_FAILED && !shim_collects)
        fprintf(stderr, "%s: %s\n", result->name, result->detail);
}

/* Whose results are what nobody wrote. */
static void collect_texts(void)
{
    int64_t begin = um_os_now_ns();
    um_check_result result;
    shim_collects = true;
    for (int32_t i = 0; i < SHIM_DEVICES; i++) {
        um_check_options options = {
            .device = device[i], .pattern = pattern, .seed = 1, .on_case = on_case};
        CHECK_OK(um_check_run(&options, &result));
    }
    shim_collects = false;
    CHECK(shim_uncollected == 0);
    printf("     kernels: %d cuda, %d hip, %d metal; %d texts in all; %.1f s\n",
           shim_count.of_target[UM_TARGET_CUDA], shim_count.of_target[UM_TARGET_HIP],
           shim_count.of_target[UM_TARGET_METAL], shim_count.texts, seconds_since(begin));
}

static void compile_texts(void)
{
    int64_t begin = um_os_now_ns();
    const char *folder = is_usual ? "shim_modules" : "shim_modules_other";
    mkdir(folder, 0777);
    CHECK_OK(shim_compile(folder));
    printf("     %d modules, %d of them compiled; %.1f s\n", shim_count.modules,
           shim_count.compiled, seconds_since(begin));
}

static void run_cases(void)
{
    for (int32_t i = 0; i < SHIM_DEVICES; i++) {
        int64_t begin = um_os_now_ns(), launches = shim_launches;
        um_check_options options = {
            .device = device[i], .pattern = pattern, .seed = 1, .on_case = on_case};
        um_check_result result;
        CHECK_OK(um_check_run(&options, &result));
        CHECK_MSG(result.failed == 0, "%lld failed", (long long)result.failed);
        CHECK(result.passed > 100 && shim_launches - launches > 100);
        printf("     %-5s %lld passed, %lld failed, %lld skipped; %lld launches; %.1f s\n",
               um_target_name(shim_target(i)), (long long)result.passed, (long long)result.failed,
               (long long)result.skipped, (long long)(shim_launches - launches),
               seconds_since(begin));
    }
}

int main(int argc, char **argv)
{
    is_usual = argc < 2;
    if (argc > 1) pattern = strcmp(argv[1], "all") == 0 ? NULL : argv[1];
    if (!UM_SHIM_CXX[0]) {
        printf("skipped: no C++ compiler here\n");
        return 77;
    }
    um_registry_set_extra(shim_backends, SHIM_DEVICES);
    for (int32_t i = 0; i < SHIM_DEVICES; i++)
        CHECK_OK(um_open(shim_backends[i]->name, &device[i]));
    TEST(collect_texts);
    TEST(compile_texts);
    if (!um_test_failures) TEST(run_cases);
    for (int32_t i = 0; i < SHIM_DEVICES; i++) um_device_release(device[i]);
    shim_release();
    return TEST_RESULT();
}
