/* The control plane: kinds, capabilities, matrix tiles, selection. */
#include "base/base.h"
#include "device/device.h"
#include "test/fake_backend.h"

#include <stdlib.h>

FAKE(cuda)
FAKE(level_zero)
FAKE(metal)
FAKE(opencl)

enum { HALF = UM_FEATURE_FP16 | UM_FEATURE_BF16 };

/* Two CUDA devices (the second larger and with tensor cores), one GPU and one software device of
 * Level Zero, no Metal, an OpenCL device that computes on the CPU. */
static void add_fakes(void)
{
    static const um_backend *all[] = {&fake_opencl.table, &fake_level_zero.table, &fake_metal.table,
                                      &fake_cuda.table};
    opencl_make();
    level_zero_make();
    metal_make();
    cuda_make();
    fake_cuda.count = 2;
    fake_cuda.info[0] = (um_device_info){.kind = UM_DEVICE_CUDA,
                                         .is_gpu = 1,
                                         .name = "Small",
                                         .features = HALF | UM_FEATURE_F64,
                                         .memory_total_bytes = 4000};
    fake_cuda.info[1] = (um_device_info){.kind = UM_DEVICE_CUDA,
                                         .is_gpu = 1,
                                         .name = "Large",
                                         .features = HALF,
                                         .memory_total_bytes = 8000};
    fake_level_zero.count = 2;
    fake_level_zero.info[0] = (um_device_info){.kind = UM_DEVICE_LEVEL_ZERO, .name = "Soft"};
    fake_level_zero.info[1] = (um_device_info){.kind = UM_DEVICE_LEVEL_ZERO,
                                               .is_gpu = 1,
                                               .name = "Arc",
                                               .features = HALF | UM_FEATURE_TENSOR_CORES,
                                               .memory_total_bytes = 6000};
    fake_metal.count = 0;
    fake_metal.why_none = "no Metal here";
    fake_opencl.count = 1;
    fake_opencl.info[0] = (um_device_info){.kind = UM_DEVICE_OPENCL, .name = "PoCL"};
    um_registry_set_extra(all, (int32_t)UM_COUNT_OF(all));
}

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

enum { CPU = 2 }; /* behind vulkan and opencl */

static void test_info(void)
{
    um_device_info info = {.struct_size = sizeof info};
    CHECK_OK(um_device_describe(CPU, 0, &info));
    CHECK(info.features & UM_FEATURE_F64 && info.features & UM_FEATURE_UNIFIED_MEMORY);
    CHECK(!(info.features & UM_FEATURE_TENSOR_CORES) && !info.is_gpu && info.version[0]);
    CHECK(info.memory_kind == UM_MEMORY_HOST && info.struct_size == sizeof info);
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(um_device_info, name);
    CHECK_OK(um_device_describe(CPU, 0, &info));
    CHECK(info.kind == UM_DEVICE_CPU && strcmp(info.backend, "cpu") == 0 && info.name[0] == 0x55);
    info.struct_size = 3;
    CHECK_FAILS(um_device_describe(CPU, 0, &info), UM_INVALID_ARGUMENT, "struct_size");
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

static void test_tensor_core_tiles(void)
{
    fake_cuda.info[0].features |= UM_FEATURE_TENSOR_CORES;
    um_device *device = open_device("nvidia");
    CHECK(strcmp(um_device_name(device), "cuda:0") == 0);
    check_tile(device, 512, 512, 512, 128, 32);
    check_tile(device, 512, 496, 512, 64, 16);
    check_tile(device, 16, 16, 16, 64, 16);
    check_tile(device, 16, 16, 8, 16, 16);
    check_tile(device, 1040, 1041, 1040, 128, 8);
    check_tile(device, 1040, 1040, 1040, 128, 32);
    um_device_release(device);
    fake_cuda.info[0].features &= ~(uint32_t)UM_FEATURE_TENSOR_CORES;
}

/* ---- selection ------------------------------------------------------------------------------ */

static const char *ref_name(um_device_ref ref, char *text, size_t text_size)
{
    snprintf(text, text_size, "%s:%d", um_backend_at(ref.backend_index)->name, ref.ordinal);
    return text;
}

/* "cuda:1 cuda:0 cpu:0" */
static void check_chain(const um_request *request, const char *wanted)
{
    um_device_ref list[16];
    char text[256] = "", name[32];
    int32_t count;
    CHECK_OK(um_fallback_chain(request, list, 16, &count));
    for (int32_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                 ref_name(list[i], name, sizeof name));
    }
    CHECK_MSG(strcmp(text, wanted) == 0, "got '%s', wanted '%s'", text, wanted);
}

static um_request request_of(uint32_t features, bool gpu_required, uint64_t memory_min_bytes)
{
    return (um_request){.struct_size = sizeof(um_request),
                        .features = features,
                        .gpu_required = gpu_required,
                        .memory_min_bytes = memory_min_bytes};
}

static void test_chains(void)
{
    um_request r = request_of(0, false, 0);
    check_chain(NULL, "cuda:1 cuda:0 level_zero:1 cpu:0");
    check_chain(&r, "cuda:1 cuda:0 level_zero:1 cpu:0");
    r.gpu_required = 1;
    check_chain(&r, "cuda:1 cuda:0 level_zero:1");
    r.memory_min_bytes = 6000;
    check_chain(&r, "cuda:1 level_zero:1");
    r.memory_min_bytes++;
    check_chain(&r, "cuda:1");
    r = request_of(UM_FEATURE_F64, false, 0);
    check_chain(&r, "cuda:0 cpu:0");
    r = request_of(UM_FEATURE_TENSOR_CORES, false, 0);
    check_chain(&r, "level_zero:1");
    r = request_of(UM_FEATURE_UNIFIED_MEMORY, false, 0);
    check_chain(&r, "cpu:0");
    r = request_of(UM_FEATURE_PEER_ACCESS, false, 0);
    check_chain(&r, "");
    r = request_of(0, false, 0);
    r.pin = " NVIDIA ";
    check_chain(&r, "cuda:0");
    r.pin = "l0"; /* the software device, by name */
    check_chain(&r, "level_zero:0");
    r.features = UM_FEATURE_FP16;
    check_chain(&r, "");
    r = request_of(0, false, 0);
    r.pin = "null";
    check_chain(&r, "null:0");
    um_device_ref one;
    int32_t count = 0;
    CHECK_OK(um_fallback_chain(NULL, &one, 1, &count));
    CHECK(count == 4 && one.ordinal == 1);
    CHECK_OK(um_fallback_chain(NULL, NULL, 0, &count));
    CHECK_FAILS(um_fallback_chain(NULL, &one, -1, &count), UM_INVALID_ARGUMENT, "room for -1");
}

static void test_priorities(void)
{
    um_device_kind order[] = {UM_DEVICE_OPENCL, UM_DEVICE_LEVEL_ZERO};
    CHECK_OK(um_set_device_priority(order, 2));
    check_chain(NULL, "opencl:0 level_zero:1 level_zero:0 cuda:1 cuda:0 cpu:0");
    order[0] = UM_DEVICE_CPU;
    CHECK_OK(um_set_device_priority(order, 1));
    check_chain(NULL, "cpu:0 cuda:1 cuda:0 level_zero:1");
    um_device *device = open_device("auto");
    CHECK(strcmp(um_device_name(device), "cpu:0") == 0);
    um_device_release(device);
    order[1] = UM_DEVICE_CPU;
    CHECK_FAILS(um_set_device_priority(order, 2), UM_INVALID_ARGUMENT, "cpu, is named twice");
    order[0] = UM_DEVICE_NULL;
    CHECK_FAILS(um_set_device_priority(order, 1), UM_INVALID_ARGUMENT, "cannot be preferred");
    order[0] = 99;
    CHECK_FAILS(um_set_device_priority(order, 1), UM_INVALID_ARGUMENT, "kind 99");
    CHECK_FAILS(um_set_device_priority(NULL, 1), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_set_device_priority(order, -1), UM_INVALID_ARGUMENT, "-1 kinds");
    check_chain(NULL, "cpu:0 cuda:1 cuda:0 level_zero:1"); /* as before the failures */
    CHECK_OK(um_set_device_priority(NULL, 0));
    check_chain(NULL, "cuda:1 cuda:0 level_zero:1 cpu:0");
}

static void check_route(um_op_id op, const char *wanted)
{
    um_device_ref ref;
    char name[32];
    CHECK_OK(um_route(NULL, op, &ref));
    CHECK_MSG(strcmp(ref_name(ref, name, sizeof name), wanted) == 0, "%s: %s", um_op_name(op),
              name);
}

static void test_routes(void)
{
    check_route(UM_OP_MATMUL, "level_zero:1");
    check_route(UM_OP_CONV, "level_zero:1");
    check_route(UM_OP_ATTENTION, "level_zero:1");
    check_route(UM_OP_ADD, "cuda:1");
    check_route(UM_OP_SOFTMAX, "cuda:1");
    um_device_ref ref;
    um_request r = request_of(UM_FEATURE_PEER_ACCESS, false, 0);
    CHECK_FAILS(um_route(NULL, 9999, &ref), UM_INVALID_ARGUMENT, "no op 9999");
    CHECK_FAILS(um_route(NULL, UM_OP_ADD, NULL), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_route(&r, UM_OP_ADD, &ref), UM_NOT_FOUND, "lacks peer_access");
}

static void check_opens(const um_request *request, const char *wanted)
{
    um_device *device = NULL;
    CHECK_OK(um_open_request(request, &device));
    CHECK_MSG(strcmp(um_device_name(device), wanted) == 0, "%s", um_device_name(device));
    um_device_release(device);
}

static void test_open_request(void)
{
    um_device *device;
    um_request r = request_of(UM_FEATURE_FP16, true, 0);
    check_opens(NULL, "cuda:1");
    r.layers = "Validate + validate";
    check_opens(&r, "cuda:1+validate+validate");
    setenv("UMBEL_DEVICE", "cpu+trace", 1);
    CHECK_FAILS(um_open_request(&r, &device), UM_NOT_FOUND, "cpu:0");
    r = request_of(UM_FEATURE_FP16, false, 0);
    r.layers = "";
    check_opens(&r, "cpu:0");
    setenv("UMBEL_DEVICE", "auto+validate", 1);
    check_opens(NULL, "cuda:1+validate");
    unsetenv("UMBEL_DEVICE");
    fake_cuda.fails_to_open = true;
    check_opens(NULL, "level_zero:1");
    r.pin = "cuda";
    CHECK_FAILS(um_open_request(&r, &device), UM_DEVICE_ERROR, "cuda: in use elsewhere");
    fake_cuda.fails_to_open = false;
    device = open_device("auto");
    CHECK(strcmp(um_device_name(device), "cuda:1") == 0);
    um_device_release(device);
}

static void test_refusals(void)
{
    um_device *device = (um_device *)&device;
    char text[1024];
    um_request r = request_of(UM_FEATURE_FP16 | UM_FEATURE_PEER_ACCESS, true, 7000);
    CHECK_FAILS(um_open_request(&r, &device), UM_NOT_FOUND,
                "no device satisfies it: cuda:1 (Large): lacks peer_access; cuda:0 (Small): lacks");
    CHECK(device == NULL);
    CHECK_OK(um_request_explain(&r, text, sizeof text));
    CHECK_MSG(strstr(text, "level_zero:0 (Soft): computes on the CPU, so"), "%s", text);
    CHECK(strstr(text, "cpu:0 (") && strstr(text, "): is no GPU"));
    CHECK(strstr(text, "metal: no device: no Metal here") != NULL);
    CHECK(strstr(text, "null:0 (") && strstr(text, "computes nothing"));
    r.features = UM_FEATURE_FP16;
    CHECK_OK(um_request_explain(&r, text, sizeof text));
    CHECK_MSG(strncmp(text, "cuda:1 (Large): fits\n", 21) == 0, "%s", text);
    CHECK(strstr(text, "cuda:0 (Small): has 4000 bytes of memory, wanted 7000\n") != NULL);
    r.features = 0;
    r.pin = "level_zero:1";
    CHECK_FAILS(um_open_request(&r, &device), UM_NOT_FOUND, "cuda:1 (Large): is not the one asked");
    CHECK_OK(um_request_explain(NULL, text, 10));
    CHECK(strlen(text) == 9);
    CHECK_FAILS(um_request_explain(NULL, NULL, 10), UM_INVALID_ARGUMENT, "no room");
    CHECK_FAILS(um_open_request(NULL, NULL), UM_INVALID_ARGUMENT, "NULL");
    r.pin = "level_zero:9";
    CHECK_FAILS(um_open_request(&r, &device), UM_NOT_FOUND, "no device \"level_zero:9\"");
    r.pin = "cpu+trace";
    CHECK_FAILS(um_open_request(&r, &device), UM_INVALID_ARGUMENT, "layers in the pin");
    r.pin = NULL;
    r.layers = "cuda";
    CHECK_FAILS(um_open_request(&r, &device), UM_NOT_FOUND, "no layer \"cuda\"");
    r.features = 1u << 20;
    CHECK_FAILS(um_open_request(&r, &device), UM_INVALID_ARGUMENT, "no feature bit 20");
    r = request_of(0, false, 0);
    r.reserved = 1; /* what a later header may have made of it */
    CHECK_FAILS(um_open_request(&r, &device), UM_INVALID_ARGUMENT, "reserved is 1");
    r = (um_request){0};
    CHECK_FAILS(um_open_request(&r, &device), UM_INVALID_ARGUMENT, "struct_size");
    /* A longer request of a later header, and a shorter one of an earlier. */
    struct {
        um_request request;
        int32_t more[2];
    } later = {.request = request_of(0, false, 0)};
    later.request.struct_size = sizeof later;
    check_opens(&later.request, "cuda:1");
    later.more[1] = 1;
    CHECK_FAILS(um_open_request(&later.request, &device), UM_INVALID_ARGUMENT, "beyond");
    later.request = request_of(UM_FEATURE_F64, false, 7000);
    later.request.struct_size = offsetof(um_request, memory_min_bytes);
    check_opens(&later.request, "cuda:0");
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    unsetenv("UMBEL_STRICT");
    TEST(test_kinds);
    TEST(test_info);
    TEST(test_tiles);
    add_fakes();
    TEST(test_tensor_core_tiles);
    TEST(test_chains);
    TEST(test_priorities);
    TEST(test_routes);
    TEST(test_open_request);
    TEST(test_refusals);
    return TEST_RESULT();
}
