/* The control plane: kinds, capabilities, matrix tiles, selection, fallback. */
#include "base/base.h"
#include "device/device.h"
#include "test/test.h"

#include <umbel/select.h>

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

/* ---- kinds and tiles ------------------------------------------------------------------------ */

static void test_kinds(void)
{
    static const struct {
        const char *text;
        um_device_kind kind;
    } words[] = {
        {"cuda", UM_DEVICE_CUDA},
        {" NVIDIA\n", UM_DEVICE_CUDA},
        {"rocm", UM_DEVICE_ROCM},
        {"Hip", UM_DEVICE_ROCM},
        {"amd", UM_DEVICE_ROCM},
        {"metal", UM_DEVICE_METAL},
        {"mtl", UM_DEVICE_METAL},
        {"\tapple ", UM_DEVICE_METAL},
        {"level_zero", UM_DEVICE_LEVEL_ZERO},
        {"levelzero", UM_DEVICE_LEVEL_ZERO},
        {"LEVEL-ZERO", UM_DEVICE_LEVEL_ZERO},
        {"l0", UM_DEVICE_LEVEL_ZERO},
        {"ze", UM_DEVICE_LEVEL_ZERO},
        {"intel", UM_DEVICE_LEVEL_ZERO},
        {"vulkan", UM_DEVICE_VULKAN},
        {"vk", UM_DEVICE_VULKAN},
        {"webgpu", UM_DEVICE_WEBGPU},
        {"wgpu", UM_DEVICE_WEBGPU},
        {"opencl", UM_DEVICE_OPENCL},
        {"cl", UM_DEVICE_OPENCL},
        {"cpu", UM_DEVICE_CPU},
        {"host", UM_DEVICE_CPU},
        {"  reference  ", UM_DEVICE_CPU},
        {"null", UM_DEVICE_NULL},
        {"", UM_DEVICE_NONE},
        {"  ", UM_DEVICE_NONE},
        {"cuda nvidia", UM_DEVICE_NONE},
        {"cud", UM_DEVICE_NONE},
        {"cpu:0", UM_DEVICE_NONE},
        {"none", UM_DEVICE_NONE},
        {"levelzerolevelzerolevelzero", UM_DEVICE_NONE},
        {NULL, UM_DEVICE_NONE},
    };
    for (size_t i = 0; i < UM_COUNT_OF(words); i++) {
        um_device_kind kind = um_device_kind_parse(words[i].text);
        CHECK_MSG(kind == words[i].kind, "%s: %d", words[i].text, kind);
    }
    for (um_device_kind kind = UM_DEVICE_CUDA; kind <= UM_DEVICE_NULL; kind++) {
        CHECK(um_device_kind_parse(um_device_kind_name(kind)) == kind);
    }
    CHECK(strcmp(um_device_kind_name(UM_DEVICE_LEVEL_ZERO), "level_zero") == 0);
    CHECK(strcmp(um_device_kind_name(0), "none") == 0 && !strcmp(um_device_kind_name(-5), "none"));
}

static void test_info(void)
{
    um_device_info info = {.struct_size = sizeof info};
    CHECK_OK(um_device_describe(0, 0, &info));
    CHECK(info.features & UM_FEATURE_F64 && info.features & UM_FEATURE_UNIFIED_MEMORY);
    CHECK(!(info.features & UM_FEATURE_TENSOR_CORES) && !info.is_gpu && info.version[0]);
    CHECK(info.memory_kind == UM_MEMORY_HOST && info.struct_size == sizeof info);
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(um_device_info, name);
    CHECK_OK(um_device_describe(0, 0, &info));
    CHECK(info.kind == UM_DEVICE_CPU && strcmp(info.backend, "cpu") == 0 && info.name[0] == 0x55);
    info.struct_size = 3;
    CHECK_FAILS(um_device_describe(0, 0, &info), UM_INVALID_ARGUMENT, "struct_size");
    info.struct_size = sizeof info;
}

static void check_tile(um_device *device, int64_t m, int64_t n, int64_t k, int32_t tm, int32_t tk)
{
    um_matrix_tile tile;
    CHECK_OK(um_recommended_tile(device, UM_OP_MATMUL, m, n, k, &tile));
    CHECK_MSG(tile.m == tm && tile.n == tm && tile.k == tk, "%lld %lld %lld: %d %d %d",
              (long long)m, (long long)n, (long long)k, tile.m, tile.n, tile.k);
}

static void test_tiles(void)
{
    um_device *device = open_device("cpu");
    um_matrix_tile tile;
    check_tile(device, 1, 1, 1, 16, 16);
    check_tile(device, 4096, 64, 4096, 16, 16);
    check_tile(device, 65, 4096, 4096, 64, 16);
    check_tile(device, 4096, 4096, 512, 64, 16);
    check_tile(device, 513, 513, 513, 128, 8);
    check_tile(device, (int64_t)1 << 62, (int64_t)1 << 62, (int64_t)1 << 62, 128, 8);
    CHECK_OK(um_recommended_tile(device, UM_OP_ATTENTION, 16, 16, 16, &tile));
    CHECK_OK(um_recommended_tile(device, UM_OP_CONV, 16, 16, 16, &tile));
    CHECK_FAILS(um_recommended_tile(device, UM_OP_ADD, 16, 16, 16, &tile), UM_INVALID_ARGUMENT,
                "add is no matrix product");
    CHECK_FAILS(um_recommended_tile(device, 9999, 16, 16, 16, &tile), UM_INVALID_ARGUMENT, "none");
    CHECK_FAILS(um_recommended_tile(device, UM_OP_MATMUL, 16, 0, 16, &tile), UM_INVALID_ARGUMENT,
                "16 x 0 x 16");
    CHECK_FAILS(um_recommended_tile(NULL, UM_OP_MATMUL, 1, 1, 1, &tile), UM_INVALID_ARGUMENT,
                "device is NULL");
    CHECK_FAILS(um_recommended_tile(device, UM_OP_MATMUL, 1, 1, 1, NULL), UM_INVALID_ARGUMENT,
                "out is NULL");
    um_device_release(device);
}

int main(void)
{
    TEST(test_kinds);
    TEST(test_info);
    TEST(test_tiles);
    return TEST_RESULT();
}
