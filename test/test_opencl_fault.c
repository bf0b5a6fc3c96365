/* driver_fault.h's program on OpenCL, also without programs kept on disk. Skipped where no driver
 * is. */
#include "test/cl_wrap.h"
#include "test/driver_fault.h"

static void fail_at(int64_t call, bool for_good)
{
    cl_wrap.calls = 0;
    cl_wrap.failed = NULL;
    cl_wrap.for_good = for_good;
    cl_wrap.fail_at = call;
}

static int64_t live_handles(void)
{
    int64_t live = 0;
    for (int32_t kind = 0; kind < CL_WRAP_KINDS; kind++) live += cl_wrap.live[kind];
    return live;
}

static const char *failed(void) { return cl_wrap.failed; }
static int32_t code(void) { return CL_WRAP_CODE; }

static const driver_row driver = {"opencl:0", fail_at, failed, live_handles, code, 100, 2};

/* Compiling takes long. */
static void test_calls_without_a_disk(void)
{
    CHECK(setenv("UMBEL_CACHE_DIR", "/dev/null/none", 1) == 0);
    fail_each(7, false);
}

int main(void)
{
    cl_wrap.slow = cl_wrap.as_gpu = true;
    if (!open_driver("opencl,cpu")) return 77;
    TEST(test_every_call);
    TEST(test_lost_at_every_call);
    TEST(test_calls_without_a_disk);
    return TEST_RESULT();
}
