/* Devices: specs, the registry, the memory map, moving bytes, dispatch, sticky errors, and the
 * whole under an allocator that fails at every call. Layers are in test_layers.c. Streams and
 * threads are in test_stream.c. */
#include "base/os.h"
#include "device/device.h"
#include "test/test.h"

#include <stdlib.h>
#include <umbel/backend.h>
#include <umbel/device.h>
#include <unistd.h>

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

/* out = a + b, all f32 [n] */
static um_op add_op(um_ptr out, um_ptr a, um_ptr b, int64_t n)
{
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(a, UM_F32, 1, &n, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 1, &n, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 1, &n, &op.out[0]));
    return op;
}

/* out [n, 2] = rows of the table [3, 2] by i32 indices [n] */
static um_op embedding_op(um_ptr out, um_ptr table, um_ptr indices, int64_t n)
{
    um_op op = {.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(table, UM_F32, 2, (int64_t[]){3, 2}, &op.in[0]));
    CHECK_OK(um_view_make(indices, UM_I32, 1, &n, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 2, (int64_t[]){n, 2}, &op.out[0]));
    return op;
}

/* ---- specs and the registry ----------------------------------------------------------------- */

static void test_backends(void)
{
    const char *name, *why;
    int32_t count;
    um_device *device;
    um_device_info info = {.struct_size = sizeof info};
    CHECK(um_backend_count() == 5);
    setenv("UMBEL_BACKENDS", "null, cpu,interp", 1);
    CHECK_OK(um_backend_describe(0, &name, &count, &why));
    CHECK(strcmp(name, "vulkan") == 0 && count == 0 && strstr(why, "UMBEL_BACKENDS"));
    CHECK_OK(um_backend_describe(1, &name, &count, &why));
    CHECK(strcmp(name, "opencl") == 0 && count == 0 && strstr(why, "UMBEL_BACKENDS"));
    CHECK_FAILS(um_open("opencl:0", &device), UM_NOT_FOUND, "UMBEL_BACKENDS");
    CHECK_OK(um_backend_describe(2, &name, &count, &why));
    CHECK(strcmp(name, "cpu") == 0 && count == 1 && why[0] == 0);
    CHECK_OK(um_device_describe(2, 0, &info));
    CHECK(info.kind == UM_DEVICE_CPU && info.name[0] && strcmp(info.backend, "cpu") == 0);
    CHECK_OK(um_backend_describe(3, NULL, NULL, NULL));
    CHECK_FAILS(um_backend_describe(5, &name, &count, &why), UM_OUT_OF_RANGE, "5 of 5");
    CHECK_FAILS(um_backend_describe(-1, NULL, NULL, NULL), UM_OUT_OF_RANGE, "-1");
    CHECK_FAILS(um_device_describe(2, 1, &info), UM_OUT_OF_RANGE, "device 1 of 1 of cpu");
    CHECK_FAILS(um_device_describe(9, 0, &info), UM_OUT_OF_RANGE, "9 of 5");
    CHECK_FAILS(um_device_describe(0, 0, NULL), UM_INVALID_ARGUMENT, "NULL");
}

static void test_specs(void)
{
    static const struct {
        const char *spec, *name;
    } good[] = {
        {"cpu", "cpu:0"},
        {"cpu:0", "cpu:0"},
        {"  CPU : 0 ", "cpu:0"},
        {"host", "cpu:0"},
        {"Reference:00", "cpu:0"},
        {"auto", "cpu:0"},
        {"null", "null:0"},
        {"cpu+validate", "cpu:0+validate"},
        {" auto + Validate + validate", "cpu:0+validate+validate"},
    };
    for (size_t i = 0; i < UM_COUNT_OF(good); i++) {
        um_device *device = open_device(good[i].spec);
        CHECK_MSG(strcmp(um_device_name(device), good[i].name) == 0, "%s", um_device_name(device));
        um_device_release(device);
    }
}

static void test_bad_specs(void)
{
    static const struct {
        const char *spec, *text;
    } bad[] = {
        {"mtl", "\"mtl\" is of kind metal, which has no backend in this build; there is: "},
        {"NVIDIA:1", "\"nvidia:1\" is of kind cuda, which has no backend"},
        {"level-zero", "no backend"},
        {"cpu:1", "no device \"cpu:1\"; there is: "},
        {"cpu:x", "no device \"cpu:x\""},
        {"cpu:", "no device"},
        {"cpu:-1", "no device"},
        {"cpu:0x0", "no device"},
        {"cpu:99999999999", "no device"},
        {"foo", "no device is called \"foo\""},
        {"cpu cpu", "no device is called"},
        {"cuda nvidia", "no device is called"},
        {"auto:0", "no device is called"},
        {"+trace", "no device is called \"\""},
        {"  ", "no device is called \"\""},
        {"cpu+", "no layer \"\""},
        {"cpu+foo", "no layer \"foo\"; there is: fault, record, trace, validate"},
        {"cpu+trace=x", "the layer trace takes no parameters, got \"x\""},
        {"null+validate+validate+validate+validate+validate+validate+validate+validate+validate",
         "more than 8 layers"},
    };
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        um_device *device = (um_device *)&device;
        CHECK_FAILS(um_open(bad[i].spec, &device), UM_NOT_FOUND, bad[i].text);
        CHECK(device == NULL);
    }
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    um_device *device;
    CHECK_FAILS(um_open(text, &device), UM_NOT_FOUND, "999 characters");
    CHECK_FAILS(um_open("cpu", NULL), UM_INVALID_ARGUMENT, "NULL");
}

static void test_environment(void)
{
    setenv("UMBEL_DEVICE", "null", 1);
    um_device *device = open_device(NULL);
    CHECK(strcmp(um_device_name(device), "null:0") == 0);
    um_device_release(device);
    device = open_device("");
    CHECK(strcmp(um_device_name(device), "null:0") == 0);
    um_device_release(device);
    setenv("UMBEL_DEVICE", "rocm", 1);
    CHECK_FAILS(um_open(NULL, &device), UM_NOT_FOUND, "kind rocm, which has no backend");
    unsetenv("UMBEL_DEVICE");
    device = open_device(NULL);
    CHECK(strcmp(um_device_name(device), "cpu:0") == 0);
    um_device_release(device);
}

static void test_same_device(void)
{
    int64_t blocks = um_mem_live_count();
    um_device *a = open_device("cpu"), *b = open_device("auto"), *c = open_device("cpu+validate");
    CHECK(a == b && a != c);
    CHECK(um_device_retain(a) == a);
    um_device_release(a);
    um_device_release(a);
    um_device_release(b);
    um_device_release(c);
    um_device_release(NULL);
    CHECK(um_device_retain(NULL) == NULL);
    CHECK(um_mem_live_count() == blocks);
}

static void test_caps(void)
{
    um_device *device = open_device("cpu");
    um_caps caps = {.struct_size = sizeof caps};
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.struct_size == sizeof caps && caps.kind == UM_DEVICE_CPU);
    CHECK(caps.features & UM_FEATURE_UNIFIED_MEMORY && caps.memory_kind == UM_MEMORY_HOST);
    CHECK(caps.cores_logical >= 1 && caps.cores_physical <= caps.cores_logical);
    CHECK(caps.version[0] && caps.group_invocations_max == 0 && caps.matrix_tile_count == 0);
    CHECK(caps.compute_units >= 1 && caps.subgroup_min >= 2 && caps.isa[0] && caps.name[0]);
    CHECK(caps.storage >> UM_F4E2M1 & 1);
    memset(&caps, 0x55, sizeof caps);
    caps.struct_size = offsetof(um_caps, isa);
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.kind == UM_DEVICE_CPU && caps.isa[0] == 0x55 && caps.compute_units == 0x55555555);
    caps.struct_size = 0;
    CHECK_FAILS(um_device_caps(device, &caps), UM_INVALID_ARGUMENT, "struct_size");
    CHECK_FAILS(um_device_caps(device, NULL), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_device_caps(NULL, &caps), UM_INVALID_ARGUMENT, "NULL");
    um_device_release(device);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_map(void)
{
    enum { COUNT = 1000 };
    um_memmap map = {0};
    um_ptr base;
    uint64_t size;
    /* In an order that is neither up nor down: 7919 and 1000 have no common factor. */
    for (int64_t i = 0; i < COUNT; i++) {
        um_ptr at = 4096 + (um_ptr)(i * 7919 % COUNT) * 100;
        CHECK_OK(um_memmap_insert(&map, at, (uint64_t)(at / 100 % 7) * 10));
    }
    for (um_ptr at = 4096; at < 4096 + COUNT * 100; at += 100) {
        uint64_t want = at / 100 % 7 * 10;
        CHECK(um_memmap_find(&map, at, &base, &size) && base == at && size == want);
        CHECK(um_memmap_find(&map, at + want, &base, &size) == (want == 0));
        if (want == 0) continue;
        CHECK(um_memmap_find(&map, at + want - 1, &base, &size) && base == at);
        CHECK_FAILS(um_memmap_insert(&map, at + want - 1, 1), UM_INTERNAL, "overlap");
        CHECK_FAILS(um_memmap_insert(&map, at - 5, 6), UM_INTERNAL, "overlap");
        CHECK_FAILS(um_memmap_insert(&map, at - 5, 500), UM_INTERNAL, "overlap");
    }
    CHECK(!um_memmap_find(&map, 0, &base, &size) && base == 0 && size == 0);
    CHECK(!um_memmap_find(&map, 4095, &base, &size) && !um_memmap_find(&map, ~0ull, &base, &size));
    for (um_ptr at = 4096; at < 4096 + COUNT * 100; at += 200) {
        CHECK(um_memmap_remove(&map, at) && !um_memmap_remove(&map, at));
        CHECK(!um_memmap_find(&map, at, &base, &size));
    }
    int64_t left = 0;
    while (um_memmap_take_any(&map, &base, NULL)) left++;
    CHECK(left == COUNT / 2 && map.root == NULL);
}

/* Addresses of the map's own: none twice, none behind another's end. */
static void test_map_places(void)
{
    um_memmap map = {0};
    um_ptr last = 0, base = 4096, at;
    uint64_t size;
    int owner = 0;
    CHECK_OK(um_memmap_place(&map, 100, &owner, &base));
    CHECK(base == 4096 && um_memmap_owner(&map, 4096) == &owner);
    for (uint64_t want = 1; want < (uint64_t)1 << 40; want = want * 3 + 1) {
        base = 0;
        CHECK_OK(um_memmap_place(&map, want, &owner, &base));
        CHECK(base > last && base % 65536 == 0 && um_memmap_owner(&map, base) == &owner);
        CHECK(!um_memmap_find(&map, last = base + want, &at, &size));
        if (want % 2) CHECK(um_memmap_remove(&map, base));
    }
    base = 4096 + 50;
    CHECK_FAILS(um_memmap_place(&map, 1, &owner, &base), UM_INTERNAL, "overlap");
    while (um_memmap_take_any(&map, &base, NULL)) continue;
}

static void test_alloc(const char *spec)
{
    um_device *device = open_device(spec);
    um_ptr a, b, zero1, zero2, base;
    uint64_t size;
    CHECK_OK(um_alloc(device, 1000, &a));
    CHECK_OK(um_alloc(device, 1, &b));
    CHECK_OK(um_alloc(device, 0, &zero1));
    CHECK_OK(um_alloc(device, 0, &zero2));
    CHECK(a && b && zero1 && zero2 && zero1 != zero2 && a % 64 == 0 && b % 64 == 0);
    CHECK_OK(um_ptr_resolve(device, a + 999, &base, &size));
    CHECK(base == a && size == 1000);
    CHECK_OK(um_ptr_resolve(device, zero1, &base, &size));
    CHECK(base == zero1 && size == 0);
    CHECK_OK(um_ptr_resolve(device, b, NULL, NULL));
    CHECK_FAILS(um_ptr_resolve(device, a + 1000, &base, &size), UM_INVALID_ARGUMENT, "no live");
    CHECK_FAILS(um_ptr_resolve(device, 0, &base, &size), UM_INVALID_ARGUMENT, "no live");
    CHECK_FAILS(um_free(device, a + 1), UM_INVALID_ARGUMENT, "inside the 1000 bytes");
    CHECK_OK(um_free(device, a));
    CHECK_FAILS(um_free(device, a), UM_INVALID_ARGUMENT, "no live allocation of");
    CHECK_FAILS(um_ptr_resolve(device, a, &base, &size), UM_INVALID_ARGUMENT, "no live");
    CHECK_OK(um_free(device, zero1));
    CHECK_FAILS(um_free(device, zero1), UM_INVALID_ARGUMENT, "no live");
    CHECK_OK(um_free(device, 0));
    CHECK_OK(um_free(NULL, 0));
    CHECK_FAILS(um_free(NULL, b), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_alloc(device, UINT64_MAX, &a), UM_OUT_OF_MEMORY, "18446744073709551615 bytes");
    CHECK_FAILS(um_alloc(device, (uint64_t)1 << 62, &a), UM_OUT_OF_MEMORY, "bytes");
    CHECK(a == 0);
    CHECK_FAILS(um_alloc(NULL, 1, &a), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_alloc(device, 1, NULL), UM_INVALID_ARGUMENT, "NULL");
    um_device_release(device); /* frees b and zero2 */
}

static void test_memory(void)
{
    int64_t blocks = um_mem_live_count();
    test_alloc("cpu");
    test_alloc("null");
    test_alloc("cpu+validate");
    CHECK(um_mem_live_count() == blocks);
}

static void test_bytes(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *stream;
    um_ptr a, b;
    uint8_t out[64];
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 64, &a));
    CHECK_OK(um_alloc(device, 64, &b));
    CHECK_OK(um_fill(stream, a, 64, "\x01\x02", 2));
    CHECK_OK(um_fill(stream, a + 1, 6, "\x07\x08", 2));
    CHECK_OK(um_fill(stream, a + 33, 16, "abcdefgh", 8));
    CHECK_OK(um_fill(stream, a + 50, 12, "wxyz", 4));
    CHECK_OK(um_fill(stream, a + 63, 1, "!", 1));
    CHECK_OK(um_copy(stream, b, a, 64));
    CHECK_OK(um_write(stream, b + 10, "host", 4));
    CHECK_OK(um_copy(stream, b, b + 10, 10));
    CHECK_OK(um_read(stream, out, b, 64));
    CHECK(memcmp(out, "host\x01\x02\x01\x02\x01\x02host\x01\x02", 16) == 0);
    CHECK(memcmp(out + 31,
                 "\x02\x01"
                 "abcdefghabcdefgh\x02wxyzwxyzwxyz\x01!",
                 33) == 0);
    CHECK_OK(um_read(stream, out, a, 8));
    CHECK(memcmp(out, "\x01\x07\x08\x07\x08\x07\x08\x02", 8) == 0);
    um_stream_release(stream);
    um_device_release(device);
}

static void test_bad_ranges(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *stream;
    um_ptr a;
    uint8_t bytes[128] = {0};
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 64, &a));
    CHECK_FAILS(um_write(stream, a, bytes, 65), UM_INVALID_ARGUMENT, "um_write: 65 bytes at");
    CHECK_FAILS(um_write(stream, a + 64, bytes, 1), UM_INVALID_ARGUMENT, "not inside one live");
    CHECK_FAILS(um_write(stream, a, NULL, 1), UM_INVALID_ARGUMENT, "src is NULL");
    CHECK_FAILS(um_read(stream, bytes, a - 1, 2), UM_INVALID_ARGUMENT, "um_read");
    CHECK_FAILS(um_read(stream, bytes, a, UINT64_MAX), UM_INVALID_ARGUMENT, "um_read");
    CHECK_FAILS(um_read(stream, NULL, a, 1), UM_INVALID_ARGUMENT, "dst is NULL");
    CHECK_FAILS(um_copy(stream, a, a + 8, 9), UM_INVALID_ARGUMENT, "overlap");
    CHECK_FAILS(um_copy(stream, a, a, 1), UM_INVALID_ARGUMENT, "overlap");
    CHECK_FAILS(um_copy(stream, a, a + 60, 8), UM_INVALID_ARGUMENT, "um_copy: from: 8 bytes");
    CHECK_FAILS(um_copy(stream, 8, a, 8), UM_INVALID_ARGUMENT, "um_copy: to: 8 bytes");
    CHECK_FAILS(um_fill(stream, a, 6, bytes, 3), UM_INVALID_ARGUMENT, "a pattern of 3 bytes");
    CHECK_FAILS(um_fill(stream, a, 6, bytes, 0), UM_INVALID_ARGUMENT, "a pattern of 0 bytes");
    CHECK_FAILS(um_fill(stream, a, 6, bytes, 4), UM_INVALID_ARGUMENT, "no multiple");
    CHECK_FAILS(um_fill(stream, a, 8, NULL, 4), UM_INVALID_ARGUMENT, "pattern is NULL");
    CHECK_FAILS(um_fill(stream, a, 72, bytes, 4), UM_INVALID_ARGUMENT, "um_fill: 72 bytes");
    CHECK_FAILS(um_write(NULL, a, bytes, 1), UM_INVALID_ARGUMENT, "stream is NULL");
    /* Nothing to move: any pointer will do. */
    CHECK_OK(um_write(stream, 1, NULL, 0));
    CHECK_OK(um_read(stream, NULL, 2, 0));
    CHECK_OK(um_copy(stream, 3, 3, 0));
    CHECK_OK(um_fill(stream, 4, 0, NULL, 8));
    CHECK_OK(um_copy(stream, a, a + 32, 32));
    um_stream_release(stream);
    um_device_release(device);
}

static void test_free_async(void)
{
    int64_t blocks = um_mem_live_count();
    um_device *device = open_device("cpu+validate");
    um_stream *stream;
    um_ptr ptr[100], base;
    uint64_t size;
    CHECK_OK(um_stream_create(device, &stream));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) CHECK_OK(um_alloc(device, 1 << 16, &ptr[i]));
        for (int i = 0; i < 100; i++) {
            CHECK_OK(um_fill(stream, ptr[i], 1 << 16, "\x7f", 1));
            CHECK_OK(um_free_async(stream, ptr[i]));
            CHECK(um_ptr_resolve(device, ptr[i], &base, &size) == UM_INVALID_ARGUMENT);
            CHECK(um_free_async(stream, ptr[i]) == UM_INVALID_ARGUMENT);
        }
    }
    CHECK_OK(um_free_async(stream, 0));
    CHECK_OK(um_synchronize(stream));
    CHECK(device->pending_first == device->pending_count);
    CHECK_OK(um_alloc(device, 100, &ptr[0]));
    CHECK_FAILS(um_free_async(stream, ptr[0] + 4), UM_INVALID_ARGUMENT, "not their start");
    CHECK_OK(um_free_async(stream, ptr[0]));
    /* When memory is short, what waits to be freed is enough. */
    um_status marker = UM_FAIL(UM_CANCELLED, "marker");
    um_mem_fail_at(1, false);
    CHECK_OK(um_alloc(device, 100, &ptr[0]));
    CHECK(um_mem_failed() && device->pending_first == device->pending_count);
    um_mem_fail_at(0, false);
    CHECK(marker == UM_CANCELLED && um_last_error()->code == UM_CANCELLED);
    um_stream_release(stream);
    um_device_release(device);
    CHECK(um_mem_live_count() == blocks);
}

/* ---- running ops ---------------------------------------------------------------------------- */

static void test_enqueue(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *stream;
    um_ptr ptr;
    float in[8] = {1, 2, 3, 4, 10, 20, 30, 40}, out[4];
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 64, &ptr));
    CHECK_OK(um_write(stream, ptr, in, sizeof in));
    um_op op = add_op(ptr + 32, ptr, ptr + 16, 4);
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_read(stream, out, ptr + 32, sizeof out));
    CHECK(out[0] == 11 && out[3] == 44);

    op = add_op(ptr + 52, ptr, ptr + 16, 4);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "add: output 0, f32[4] at 0x");
    CHECK(strcmp(um_last_error()->op, "add") == 0);
    op = add_op(ptr + 32, ptr - 4, ptr + 16, 4);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "add: input 0, f32[4] at 0x");
    op = add_op(ptr + 32, ptr, 0, 4);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "input 1");
    op = add_op(ptr + 32, ptr, ptr + 16, 4);
    op.in[0].stride[0] = -1; /* from ptr downwards: outside */
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "input 0");
    op = add_op(ptr + 32, ptr + 2, ptr + 16, 3);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "multiple of its 4 bytes");
    op = add_op(ptr + 31, ptr, ptr + 16, 3);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "output 0, f32[3] at 0x");
    op = add_op(1, 2, 3, 0); /* nothing to write */
    CHECK_OK(um_enqueue(stream, &op));
    op = add_op(ptr + 8, ptr, ptr + 16, 4);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "overlap");
    CHECK_FAILS(um_enqueue(NULL, &op), UM_INVALID_ARGUMENT, "stream is NULL");
    CHECK_FAILS(um_enqueue(stream, NULL), UM_INVALID_ARGUMENT, "op is NULL");
    CHECK_OK(um_free(device, ptr));
    op = add_op(ptr + 32, ptr, ptr + 16, 4);
    CHECK_FAILS(um_enqueue(stream, &op), UM_INVALID_ARGUMENT, "live allocation");
    um_stream_release(stream);
    um_device_release(device);
}

static void test_supports(void)
{
    um_device *device = open_device("cpu");
    char why[100];
    um_op op = add_op(0, 0, 0, 4);
    um_status before = UM_FAIL(UM_CANCELLED, "marker");
    CHECK(um_supports(device, &op, why, sizeof why) && why[0] == 0);
    CHECK(um_supports(device, &op, NULL, 0));
    op.in[1].shape[0] = 5;
    CHECK(!um_supports(device, &op, why, sizeof why) && strstr(why, "add"));
    op = add_op(0, 0, 0, 4);
    op.id = 9999;
    CHECK(!um_supports(device, &op, why, 10) && why[0] && strlen(why) < 10);
    CHECK(!um_supports(NULL, &op, why, sizeof why) && !um_supports(device, NULL, NULL, 0));
    CHECK(before == UM_CANCELLED && um_last_error()->code == UM_CANCELLED);
    um_device_release(device);
}

typedef struct failing {
    um_device *device;
    _Atomic bool is_done;
} failing;

/* Fails and is cleared, over and over. */
static void keep_failing(void *arg)
{
    failing *f = arg;
    um_stream *stream;
    um_ptr ptr;
    const int32_t bad[2] = {1, 3};
    CHECK_OK(um_stream_create(f->device, &stream));
    CHECK_OK(um_alloc(f->device, 256, &ptr));
    um_op op = embedding_op(ptr + 128, ptr, ptr + 64, 2);
    for (int i = 0; i < 3000; i++) {
        CHECK_OK(um_write(stream, ptr + 64, bad, sizeof bad));
        CHECK_OK(um_enqueue(stream, &op));
        CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, "embedding");
        CHECK_FAILS(um_stream_clear_error(stream), UM_OUT_OF_RANGE, "embedding");
    }
    CHECK_OK(um_free(f->device, ptr));
    um_stream_release(stream);
    atomic_store(&f->is_done, true);
}

/* What waits for a stream of another thread's meets its errors, and leaves them to it. */
static void test_free_beside_failures(void)
{
    failing f = {.device = open_device("cpu")};
    um_thread thread;
    um_stream *stream;
    um_ptr ptr;
    CHECK_OK(um_stream_create(f.device, &stream));
    CHECK_OK(um_thread_start(&thread, keep_failing, &f, "failing"));
    while (!atomic_load(&f.is_done)) {
        CHECK_OK(um_alloc(f.device, 64, &ptr));
        CHECK_OK(um_free(f.device, ptr));
        CHECK_OK(um_alloc_async(stream, 64, &ptr));
        CHECK_OK(um_free_async(stream, ptr));
    }
    um_thread_join(thread);
    um_stream_release(stream);
    um_device_release(f.device);
}

/* A bad index makes the stream fail; it says so until told to forget. */
static void test_sticky_error(void)
{
    um_device *device = open_device("cpu+validate");
    um_stream *stream, *other;
    um_ptr ptr;
    um_event before, after;
    float data[16] = {1, 2, 3, 4, 5, 6};
    const int32_t good[2] = {2, 0}, bad[2] = {1, 3};
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_stream_create(device, &other));
    CHECK_OK(um_alloc(device, 256, &ptr));
    CHECK_OK(um_write(stream, ptr, data, sizeof data));
    CHECK_OK(um_write(stream, ptr + 64, bad, sizeof bad));
    CHECK_OK(um_write(stream, ptr + 72, good, sizeof good));
    CHECK_OK(um_record(stream, &before));
    um_op op = embedding_op(ptr + 128, ptr, ptr + 64, 2);
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_record(stream, &after));
    CHECK_FAILS(um_event_synchronize(after), UM_OUT_OF_RANGE, "embedding");
    CHECK(strcmp(um_last_error()->op, "embedding") == 0);
    CHECK(strcmp(um_last_error()->backend, "cpu") == 0);
    CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_query(after), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_enqueue(stream, &op), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_read(stream, data, ptr, 4), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_write(stream, ptr, data, 4), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_fill(stream, ptr, 4, data, 4), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_device_synchronize(device), UM_OUT_OF_RANGE, "embedding");
    /* A stream that waits for the failed work has failed too; one that waits for earlier work has
     * not. */
    CHECK_OK(um_wait(other, before));
    CHECK_OK(um_synchronize(other));
    CHECK_OK(um_wait(other, after));
    CHECK_FAILS(um_synchronize(other), UM_OUT_OF_RANGE, "embedding");
    CHECK_FAILS(um_stream_clear_error(other), UM_OUT_OF_RANGE, "embedding");
    CHECK_OK(um_synchronize(other));
    CHECK_FAILS(um_stream_clear_error(stream), UM_OUT_OF_RANGE, "embedding");
    CHECK_OK(um_stream_clear_error(stream));
    CHECK_OK(um_query(after));
    op = embedding_op(ptr + 128, ptr, ptr + 72, 2);
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_read(stream, data, ptr + 128, 16));
    CHECK(data[0] == 5 && data[1] == 6 && data[2] == 1 && data[3] == 2);
    um_stream_release(stream);
    um_stream_release(other);
    um_device_release(device);
}

/* ---- an allocator that fails at call N ------------------------------------------------------- */

/* A small program; the first failure ends it, and is returned. */
static um_status small_program(const char *spec)
{
    um_device *device = NULL;
    um_stream *a = NULL, *b = NULL;
    um_ptr ptr[3] = {0};
    um_event event;
    float data[4] = {1, 2, 3, 4}, sum[4];
    um_status status = um_open(spec, &device);
    if (status == UM_OK) status = um_stream_create(device, &a);
    if (status == UM_OK) status = um_stream_create(device, &b);
    for (int i = 0; i < 3 && status == UM_OK; i++) status = um_alloc(device, 16, &ptr[i]);
    if (status == UM_OK) status = um_write(a, ptr[0], data, 16);
    if (status == UM_OK) status = um_copy(a, ptr[1], ptr[0], 16);
    if (status == UM_OK) status = um_record(a, &event);
    if (status == UM_OK) status = um_wait(b, event);
    um_op op = add_op(ptr[2], ptr[0], ptr[1], 4);
    for (int i = 0; i < 100 && status == UM_OK; i++) status = um_enqueue(b, &op);
    if (status == UM_OK) status = um_read(b, sum, ptr[2], 16);
    if (status == UM_OK) CHECK(sum[3] == 8);
    if (status == UM_OK) status = um_free_async(b, ptr[1]);
    if (status == UM_OK) status = um_free(device, ptr[0]);
    um_stream_release(a);
    um_stream_release(b);
    um_device_release(device);
    return status;
}

static void fail_at_every_call(const char *spec, bool forever)
{
    int64_t blocks = um_mem_live_count(), calls = 0, refused = 0;
    for (;; calls++) {
        um_mem_fail_at(calls + 1, forever);
        um_status status = small_program(spec);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(um_mem_live_count() == blocks, "%s: %lld blocks leak at call %lld", spec,
                  (long long)(um_mem_live_count() - blocks), (long long)calls + 1);
        CHECK_MSG(status == UM_OK || status == UM_OUT_OF_MEMORY, "%s: %s", spec,
                  um_last_error()->message);
        refused += status == UM_OUT_OF_MEMORY;
        if (!reached) break;
    }
    CHECK_MSG(refused >= 8, "%s: %lld calls, %lld refused", spec, (long long)calls,
              (long long)refused);
}

static void test_failing_allocator(void)
{
    static const char *const specs[] = {"cpu", "cpu+validate"};
    for (size_t i = 0; i < UM_COUNT_OF(specs); i++) {
        fail_at_every_call(specs[i], false);
        fail_at_every_call(specs[i], true);
    }
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    unsetenv("UMBEL_TRACE");
    TEST(test_backends);
    TEST(test_specs);
    TEST(test_bad_specs);
    TEST(test_environment);
    TEST(test_same_device);
    TEST(test_caps);
    TEST(test_map);
    TEST(test_map_places);
    TEST(test_memory);
    TEST(test_bytes);
    TEST(test_bad_ranges);
    TEST(test_free_async);
    TEST(test_enqueue);
    TEST(test_supports);
    TEST(test_sticky_error);
    TEST(test_free_beside_failures);
    TEST(test_failing_allocator);
    return TEST_RESULT();
}
