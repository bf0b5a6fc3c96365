/* What the Vulkan driver makes of answers that no device here gives (test/vk_wrap.h). Such kernels
 * are not run: no driver here takes them. Skipped where no driver is. */
#include "test/test.h"
#include "test/vk_wrap.h"

#include <stdlib.h>
#include <umbel/umbel.h>

static bool has_tile(const um_caps *caps, um_matrix_tile wanted)
{
    bool has = false;
    for (int32_t i = 0; i < caps->matrix_tile_count; i++) {
        const um_matrix_tile *t = &caps->matrix_tiles[i];
        has |= t->m == wanted.m && t->n == wanted.n && t->k == wanted.k &&
               t->input == wanted.input && t->accumulator == wanted.accumulator;
    }
    return has;
}

static um_device *device;

static void test_little_shared_memory(void)
{
    um_caps caps = {.struct_size = sizeof caps};
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.group_shared_bytes == vk_wrap.shared_bytes);
    CHECK(caps.matrix_tile_count == 0 && !(caps.features & UM_FEATURE_TENSOR_CORES));
}

static void test_matrices_and_budget(void)
{
    um_caps caps = {.struct_size = sizeof caps};
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(vk_wrap.matrices_asked && (caps.features & UM_FEATURE_TENSOR_CORES));
    CHECK(has_tile(&caps, (um_matrix_tile){16, 8, 32, UM_I8, UM_I32}));
    CHECK(has_tile(&caps, (um_matrix_tile){8, 8, 4, UM_F32, UM_F32}));
    bool f16 = (caps.features & UM_FEATURE_FP16) != 0;
    CHECK(has_tile(&caps, (um_matrix_tile){16, 16, 16, UM_F16, UM_F32}) == f16);
    CHECK_MSG(caps.matrix_tile_count == (f16 ? 4 : 2), "%d tiles", (int)caps.matrix_tile_count);
    CHECK_MSG(caps.memory_free_bytes == 2 << 20, "%llu bytes are free",
              (unsigned long long)caps.memory_free_bytes);
}

/* Bytes go there and back by way of the host's memory. */
static void test_memory_apart(void)
{
    enum { BYTES = 1000003 };
    static uint8_t out[BYTES], back[BYTES];
    um_caps caps = {.struct_size = sizeof caps};
    um_ptr ptr;
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.memory_kind == UM_MEMORY_DEVICE && caps.buffer_max_bytes == VK_WRAP_BUFFER_MAX);
    CHECK_FAILS(um_alloc(device, VK_WRAP_BUFFER_MAX + 1, &ptr), UM_OUT_OF_MEMORY, "at most");
    for (int i = 0; i < BYTES; i++) out[i] = (uint8_t)(i * 7 + i / 256);
    CHECK_OK(um_alloc(device, BYTES, &ptr));
    CHECK(vk_wrap.allocated[0] >= BYTES && vk_wrap.allocated[1] == 0);
    um_stream *stream;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_write(stream, ptr, out, BYTES));
    CHECK_OK(um_read(stream, back, ptr, BYTES));
    CHECK(memcmp(back, out, BYTES) == 0 && vk_wrap.allocated[1] >= BYTES);
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
}

/* The host reads as f64 what is there; a tensor of f64 is refused. */
static void test_no_f64(void)
{
    const int64_t x[] = {INT64_MAX, -3, ((int64_t)1 << 53) - 1};
    um_caps caps = {.struct_size = sizeof caps};
    double out[3];
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(!(caps.features & UM_FEATURE_F64) && !(caps.storage & (1u << UM_F64)));
    um_tensor *t = um_from_host(device, UM_I64, 1, (int64_t[]){3}, x);
    CHECK_OK(um_read_f64(t, out, 3));
    CHECK(out[0] == 0x1p63 && out[1] == -3 && out[2] == 0x1p53 - 1);
    um_tensor *wide = um_neg(um_cast(t, UM_F64));
    CHECK_FAILS(um_read_f64(wide, out, 3), UM_UNSUPPORTED, "no f64");
    um_release(wide);
}

/* Argument: a device with too little shared memory for kernels that use a matrix unit, and no f64.
 */
int main(int argc, char **argv)
{
    (void)argv;
    setenv("UMBEL_BACKENDS", "vulkan", 1);
    setenv("UMBEL_VULKAN", "gpu", 1);
    vk_wrap.pretends = vk_wrap.keeps_f16 = true;
    vk_wrap.shared_bytes = argc > 1 ? 32768 : 65536;
    vk_wrap.without_f64 = argc > 1;
    if (um_open("vulkan:0", &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    if (argc > 1)
        TEST(test_little_shared_memory);
    else
        TEST(test_matrices_and_budget);
    TEST(test_memory_apart);
    if (argc > 1) TEST(test_no_f64);
    um_device_release(device);
    return TEST_RESULT();
}
