/* f16 by the device. No Vulkan driver here says that it keeps the subnormals of f16, so the loader
 * (test/vk_wrap.h) says it of them all; lavapipe does keep them. Skipped where no driver has f16.
 * Argument: the cases (umbel check); without it the first sample of each op. */
#include "check/check.h"
#include "test/test.h"
#include "test/vk_wrap.h"

#include <stdlib.h>
#include <umbel/umbel.h>

static const char *pattern = "*/f16/0:*/mixed/*";

static void on_case(void *user, const um_check_case *result)
{
    (void)user;
    if (result->outcome == UM_CHECK_FAILED)
        fprintf(stderr, "%s: %s\n", result->name, result->detail);
}

static void test_cases(um_device *device)
{
    um_check_options options = {
        .device = device, .pattern = pattern, .seed = 1, .on_case = on_case};
    um_check_result result;
    CHECK_OK(um_check_run(&options, &result));
    CHECK_MSG(result.failed == 0, "%lld failed", (long long)result.failed);
    CHECK(result.passed > 0 && result.skipped == 0);
    printf("     %lld passed, %lld failed, %lld skipped\n", (long long)result.passed,
           (long long)result.failed, (long long)result.skipped);
}

int main(int argc, char **argv)
{
    um_caps caps = {.struct_size = sizeof caps};
    um_device *device;
    setenv("UMBEL_BACKENDS", "vulkan", 1);
    vk_wrap.keeps_f16 = true;
    if (argc > 1) pattern = argv[1];
    if (um_open("vulkan:0", &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    CHECK_OK(um_device_caps(device, &caps));
    if (caps.features & UM_FEATURE_FP16) {
        test_cases(device);
    } else {
        printf("skipped: no f16 here\n");
    }
    um_device_release(device);
    return caps.features & UM_FEATURE_FP16 ? TEST_RESULT() : 77;
}
