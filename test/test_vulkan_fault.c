/* driver_fault.h's program on Vulkan, and many times on one device. Skipped where no driver is. */
#include "test/driver_fault.h"
#include "test/driver_pools.h"
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
    fill_pools(device, NULL);
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

static um_op sort_of(int64_t n, const um_ptr *ptr)
{
    um_op op = {.id = UM_OP_SORT, .in_count = 1, .out_count = 2};
    CHECK_OK(um_view_make(ptr[0], UM_F32, 1, &n, &op.in[0]));
    CHECK_OK(um_view_make(ptr[1], UM_F32, 1, &n, &op.out[0]));
    CHECK_OK(um_view_make(ptr[2], UM_I64, 1, &n, &op.out[1]));
    return op;
}

/* A stream whose scratch memory has grown gives up what it had not sent off, because another one
 * failed: what it did send off still uses the old scratch, more than 16 MiB, a block of its own. */
static void test_scratch_of_a_failed_stream(void)
{
    enum { FEWER = 1500000, MORE = 1700000 };
    const int64_t one = 1;
    const int32_t far = MORE;
    um_device *device;
    um_stream *sorting, *failing;
    um_ptr ptr[3];
    um_event sent, failure;
    CHECK_OK(um_open("vulkan:0", &device));
    CHECK_OK(um_stream_create(device, &sorting));
    CHECK_OK(um_stream_create(device, &failing));
    for (int i = 0; i < 3; i++) CHECK_OK(um_alloc(device, MORE * sizeof(int64_t), &ptr[i]));
    CHECK_OK(um_fill(sorting, ptr[0], MORE * sizeof(float), "\0\0\0\0", 4));
    CHECK_OK(um_write(failing, ptr[1], &far, sizeof far));
    um_op gather = {.id = UM_OP_GATHER, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(ptr[0], UM_F32, 1, &one, &gather.in[0]));
    CHECK_OK(um_view_make(ptr[1], UM_I32, 1, &one, &gather.in[1]));
    CHECK_OK(um_view_make(ptr[2], UM_F32, 1, &one, &gather.out[0]));
    CHECK_OK(um_enqueue(failing, &gather));
    CHECK_OK(um_record(failing, &failure));
    CHECK_FAILS(um_synchronize(failing), UM_OUT_OF_RANGE, "");
    um_op fewer = sort_of(FEWER, ptr), more = sort_of(MORE, ptr);
    CHECK_OK(um_enqueue(sorting, &fewer));
    CHECK_OK(um_record(sorting, &sent));
    um_status status = um_query(sent); /* sends it off */
    CHECK(status == UM_NOT_READY);
    CHECK_OK(um_enqueue(sorting, &more));
    CHECK_OK(um_wait(sorting, failure));
    CHECK_FAILS(um_synchronize(sorting), UM_OUT_OF_RANGE, "");
    for (int i = 0; i < 3; i++) CHECK_OK(um_free(device, ptr[i]));
    um_stream_release(sorting);
    um_stream_release(failing);
    um_device_release(device);
}

/* No wait succeeds, and the device is not lost: what is on its way stays as it is, until one does.
 */
static void test_waits_that_fail(void)
{
    enum { COUNT = 1000000 };
    um_device *device;
    um_stream *stream;
    um_ptr ptr[3];
    um_event sent;
    int64_t handles = vk_wrap.handles;
    CHECK_OK(um_open("vulkan:0", &device));
    CHECK_OK(um_stream_create(device, &stream));
    for (int i = 0; i < 3; i++) CHECK_OK(um_alloc(device, COUNT * sizeof(int64_t), &ptr[i]));
    CHECK_OK(um_fill(stream, ptr[0], COUNT * sizeof(float), "\0\0\0\0", 4));
    um_op sort = sort_of(COUNT, ptr);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(um_enqueue(stream, &sort));
        CHECK_OK(um_record(stream, &sent));
        um_status status = um_query(sent); /* sends it off */
        CHECK(status == UM_NOT_READY);
        fail_at(round == 0, true);
        vk_wrap.code = NO_DEVICE_MEMORY;
        status = um_synchronize(stream);
        CHECK(status == (round == 0 ? UM_OUT_OF_MEMORY : UM_OK));
        fail_at(0, false);
        CHECK(um_stream_clear_error(stream) == status);
    }
    for (int i = 0; i < 3; i++) CHECK_OK(um_free(device, ptr[i]));
    um_stream_release(stream);
    um_device_release(device);
    CHECK(vk_wrap.handles == handles);
}

int main(void)
{
    if (!open_driver("vulkan,cpu")) return 77;
    TEST(test_every_call);
    TEST(test_lost_at_every_call);
    TEST(test_calls_without_a_disk);
    TEST(test_many_times);
    TEST(test_scratch_of_a_failed_stream);
    TEST(test_waits_that_fail);
    return TEST_RESULT();
}
