/* Two devices at once, of two backends: an OpenCL device (with an argument: that backend's) and the
 * CPU. An op's memory is all of one; then everything at once on both (stress.h), with events
 * between them. Skipped where no driver is. */
#include "test/stress.h"

static const char *other = "opencl";

static void test_operands_of_two(void)
{
    um_device *device[2];
    um_stream *stream[2];
    um_ptr ptr[2];
    float ones[CELLS], sums[CELLS];
    um_event event;
    for (int i = 0; i < CELLS; i++) ones[i] = 1;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(um_open(i ? "cpu" : other, &device[i]));
        CHECK_OK(um_stream_create(device[i], &stream[i]));
        CHECK_OK(um_alloc(device[i], CELL_BYTES, &ptr[i]));
        CHECK_OK(um_write(stream[i], ptr[i], ones, CELL_BYTES));
    }
    for (int i = 0; i < 2; i++) {
        um_op op = square_op(UM_OP_ADD, 2, ptr[i], ptr[i], ptr[!i]);
        CHECK_FAILS(um_enqueue(stream[i], &op), UM_INVALID_ARGUMENT, "");
        op = square_op(UM_OP_ADD, 2, ptr[!i], ptr[i], ptr[i]);
        CHECK_FAILS(um_enqueue(stream[i], &op), UM_INVALID_ARGUMENT, "");
    }
    /* 1, 2, 4, ...: each doubles what the other gave it, through the host, in the order of events
     */
    for (int turn = 0; turn < 20; turn++) {
        int from = turn % 2, to = !from;
        um_op op = square_op(UM_OP_ADD, 2, ptr[from], ptr[from], ptr[from]);
        CHECK_OK(um_enqueue(stream[from], &op));
        CHECK_OK(um_copy_async(stream[from], UM_COPY_DEVICE_TO_HOST, (um_ptr)(uintptr_t)sums,
                               ptr[from], CELL_BYTES));
        CHECK_OK(um_record(stream[from], &event));
        CHECK_OK(um_wait(stream[to], event));
        CHECK_OK(um_copy_async(stream[to], UM_COPY_HOST_TO_DEVICE, ptr[to], (um_ptr)(uintptr_t)sums,
                               CELL_BYTES));
        CHECK_OK(um_record(stream[to], &event));
        CHECK_OK(um_wait(stream[from], event));
    }
    CHECK_OK(um_read(stream[0], sums, ptr[0], CELL_BYTES));
    for (int i = 0; i < CELLS; i++) CHECK(sums[i] == (float)(1 << 20));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(um_free(device[i], ptr[i]));
        um_stream_release(stream[i]);
        um_device_release(device[i]);
    }
}

static void test_stress(void) { run_stress(2, other, "cpu+validate+record"); }

int main(int argc, char **argv)
{
    um_device *device;
    char backends[32];
    if (argc > 1) other = argv[1];
    snprintf(backends, sizeof backends, "%s,cpu", other);
    unsetenv("UMBEL_DEVICE");
    setenv("UMBEL_BACKENDS", backends, 1);
    setenv("UMBEL_THREADS", "3", 1);
    setenv("UMBEL_STRICT", "1", 1);
    if (um_open(other, &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    um_device_release(device);
    TEST(test_operands_of_two);
    TEST(test_stress);
    return TEST_RESULT();
}
