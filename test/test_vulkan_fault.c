/* driver_fault.h's program on Vulkan, and many times on one device. Skipped where no driver is. */
#include "test/driver_fault.h"
#include "test/vk_wrap.h"

enum { NO_DEVICE_MEMORY = -2, LOST = -4 };

static void fail_at(int64_t call, bool for_good)
{
    vk_wrap.calls = 0;
    vk_wrap.failed = NULL;
    vk_wrap.for_good = for_good;
    vk_wrap.code = for_good ? LOST : NO_DEVICE_MEMORY;
    vk_wrap.fail_at = call;
}

static const char *failed(void) { return vk_wrap.failed; }
static int64_t live_handles(void) { return vk_wrap.handles; }
static int32_t code(void) { return vk_wrap.code; }

static const driver_row driver = {"vulkan:0", fail_at, failed, live_handles, code, 40, 3};

/* Compiling takes long. */
static void test_calls_without_a_disk(void)
{
    CHECK(setenv("UMBEL_CACHE_DIR", "/dev/null/none", 1) == 0);
    fail_each(3, false);
}

/* Memory, pools and pipelines are used again. */
static void test_many_times(void)
{
    um_device *device;
    float result[FLOATS];
    fail_at(0, false);
    CHECK_OK(um_open("vulkan:0", &device));
    for (int i = 0; i < 20; i++) CHECK_OK(run(device, result));
    int64_t handles = vk_wrap.handles, blocks = um_mem_live_count(), made = vk_wrap.made[0];
    for (int i = 0; i < 200; i++) CHECK_OK(run(device, result));
    CHECK_MSG(vk_wrap.handles <= handles, "%lld handles more",
              (long long)(vk_wrap.handles - handles));
    CHECK_MSG(um_mem_live_count() <= blocks, "%lld blocks more",
              (long long)(um_mem_live_count() - blocks));
    printf("     200 times with %lld handles; %lld were made meanwhile\n",
           (long long)vk_wrap.handles, (long long)(vk_wrap.made[0] - made));
    um_device_release(device);
}

int main(void)
{
    if (!open_driver("vulkan,cpu")) return 77;
    TEST(test_every_call);
    TEST(test_lost_at_every_call);
    TEST(test_calls_without_a_disk);
    TEST(test_many_times);
    return TEST_RESULT();
}
