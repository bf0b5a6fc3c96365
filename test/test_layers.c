/* Layers: that each forwards every entry, and what each does: validate finds broken rules, trace
 * writes text and JSON, record keeps calls, fault breaks on purpose. A program under the fault
 * layer at every call is in test_fault.c. */
#include "test/fake_backend.h"

#include <ctype.h>
#include <stdlib.h>
#include <umbel/layer.h>
#include <unistd.h>

FAKE(plain) /* without optional entries */

static const um_op_id only_add[] = {UM_OP_ADD, UM_OP_NONE};

static void add_fakes(void)
{
    static const um_backend *all[] = {&fake_plain.table};
    plain_make();
    fake_plain.table.copy_host = NULL;
    fake_plain.table.call = NULL;
    fake_plain.table.stream_create_priority = NULL;
    fake_plain.count = 1;
    fake_plain.info[0] = (um_device_info){.kind = UM_DEVICE_VULKAN};
    fake_runs = only_add;
    um_registry_set_extra(all, 1);
}

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

static um_ptr address(void *host) { return (um_ptr)(uintptr_t)host; }

static um_op add_op(um_ptr out, um_ptr a, um_ptr b, int64_t n)
{
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(a, UM_F32, 1, &n, &op.in[0]));
    CHECK_OK(um_view_make(b, UM_F32, 1, &n, &op.in[1]));
    CHECK_OK(um_view_make(out, UM_F32, 1, &n, &op.out[0]));
    return op;
}

static void note_call(void *user, um_status status) { *(um_status *)user = status; }

/* Each public call that ends in an entry. */
static void use_every_entry(um_device *device)
{
    um_stream *a, *b;
    um_ptr ptr;
    um_event event;
    float bytes[20] = {1, 2, 3, 4, 10, 20, 30, 40}, back[4] = {0}, copy[4] = {0};
    um_caps caps = {.struct_size = sizeof caps};
    um_status called = UM_INTERNAL;
    CHECK_OK(um_device_caps(device, &caps));
    CHECK_OK(um_stream_create(device, &a));
    CHECK_OK(um_stream_create_priority(device, 1, &b));
    CHECK_OK(um_alloc(device, 128, &ptr));
    CHECK_OK(um_write(a, ptr, bytes, 32));
    CHECK_OK(um_copy(a, ptr + 64, ptr, 16));
    CHECK_OK(um_fill(a, ptr + 96, 16, bytes, 8));
    um_op op[2] = {add_op(ptr + 32, ptr, ptr + 16, 4), add_op(ptr + 48, ptr, ptr, 4)};
    CHECK_OK(um_enqueue(a, op));
    CHECK_OK(um_enqueue_batch(a, 2, op));
    CHECK_OK(um_copy_async(a, UM_COPY_DEVICE_TO_HOST, address(back), ptr + 32, 16));
    CHECK_OK(um_copy_async(a, UM_COPY_HOST_TO_HOST, address(copy), address(back), 16));
    CHECK_OK(um_copy_async(a, UM_COPY_HOST_TO_DEVICE, ptr + 112, address(copy), 16));
    CHECK_OK(um_stream_callback(a, note_call, &called));
    CHECK_OK(um_record(a, &event));
    CHECK_OK(um_wait(b, event));
    CHECK_OK(um_event_synchronize(event));
    CHECK_OK(um_query(event));
    CHECK_OK(um_stream_clear_error(a));
    CHECK(back[0] == 11 && copy[3] == 44 && called == UM_OK);
    CHECK_OK(um_read(a, bytes, ptr + 48, 80));
    CHECK(bytes[0] == 2 && bytes[3] == 8 && bytes[4] == 1 && bytes[16] == 11);
    CHECK_OK(um_free(device, ptr));
    um_stream_release(a);
    um_stream_release(b);
}

/* ---- forwarding ----------------------------------------------------------------------------- */

/* Every entry but the three that a layer has no need of, and those by which a backend records: a
 * layer is asked for each op. */
static void test_tables(void)
{
    static const um_layer *const layers[] = {
#define UM_LAYER(name) &um_layer_##name,
#include "device/layers.def"
#undef UM_LAYER
    };
    typedef void (*any_fn)(void);
    CHECK(UM_COUNT_OF(layers) == 4);
    size_t end = offsetof(um_backend, recorder);
    for (size_t at = offsetof(um_backend, close); at < end; at += sizeof(any_fn)) {
        any_fn inner, own;
        memcpy(&inner, (const char *)&um_backend_cpu + at, sizeof inner);
        CHECK_MSG(inner != NULL, "the CPU has no entry at %zu", at);
        for (size_t i = 0; i < UM_COUNT_OF(layers); i++) {
            memcpy(&own, (const char *)layers[i]->table + at, sizeof own);
            CHECK_MSG(own != NULL, "%s has no entry at %zu", layers[i]->name, at);
        }
    }
}

static void test_forwarding(void)
{
    static const char *const specs[] = {"cpu",
                                        "cpu+record",
                                        "cpu+validate",
                                        "cpu+fault=call:1000",
                                        "cpu+trace",
                                        "plain",
                                        "plain+record+validate+fault=lost:1000,memory:1000+trace",
                                        "plain+record",
                                        "cpu+validate+record+fault=call:1000+trace+validate"};
    int64_t blocks = um_mem_live_count();
    setenv("UMBEL_TRACE", "/dev/null", 1);
    for (size_t i = 0; i < UM_COUNT_OF(specs); i++) {
        um_device *device = open_device(specs[i]);
        use_every_entry(device);
        um_device_release(device);
    }
    CHECK(um_mem_live_count() == blocks);
    unsetenv("UMBEL_TRACE");
}

/* ---- validate ------------------------------------------------------------------------------- */

/* A backend that breaks a rule, or a core that does, is found out: the entries are called past the
 * core's own checks. */
static void test_validate_finds(void)
{
    um_device *device = open_device("null+validate");
    um_driver driver = device->driver;
    um_backend_stream *stream;
    um_ptr ptr;
    CHECK_OK(driver.table->stream_create(driver.device, &stream));
    CHECK_OK(driver.table->alloc(driver.device, 64, &ptr));
    CHECK_OK(driver.table->copy(stream, ptr, ptr + 32, 32));
    CHECK_FAILS(driver.table->copy(stream, ptr, ptr + 16, 32), UM_INTERNAL,
                "validate: copy: the ranges overlap");
    CHECK_FAILS(driver.table->write(stream, ptr, "x", 1), UM_INTERNAL, "copy: the ranges overlap");
    driver.table->free(driver.device, ptr);
    driver.table->stream_destroy(stream);
    um_device_release(device);

    device = open_device("null+validate");
    driver = device->driver;
    driver.table->free(driver.device, 12345);
    CHECK_FAILS(driver.table->alloc(driver.device, 1, &ptr), UM_INTERNAL, "freed twice?");
    um_device_release(device);

    device = open_device("null+validate");
    driver = device->driver;
    CHECK_OK(driver.table->stream_create(driver.device, &stream));
    CHECK_FAILS(driver.table->query(stream, 7), UM_INTERNAL,
                "query: ticket 7, the last given is 0");
    driver.table->stream_destroy(stream);
    um_device_release(device);

    device = open_device("null+validate");
    driver = device->driver;
    CHECK_OK(driver.table->stream_create_priority(driver.device, 1, &stream));
    CHECK_FAILS(driver.table->copy_host(stream, UM_COPY_HOST_TO_DEVICE, 64, address(&stream), 4),
                UM_INTERNAL, "copy_host to: 4 bytes at 0x40 are not");
    driver.table->stream_destroy(stream);
    um_device_release(device);
}

/* ---- trace ---------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    static char text[1 << 18];
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = 0;
    return text;
}

static int64_t count_of(const char *path, const char *part)
{
    int64_t count = 0;
    for (const char *at = read_file(path); (at = strstr(at, part)); at++) count++;
    return count;
}

static void make_path(char *path, const char *suffix)
{
    char name[] = "/tmp/umbel_traceXXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    close(fd);
    unlink(name);
    snprintf(path, 64, "%s%s", name, suffix);
    setenv("UMBEL_TRACE", path, 1);
}

static void test_trace_text(void)
{
    char path[64];
    make_path(path, "");
    um_device *device = open_device("cpu+validate+trace");
    use_every_entry(device);
    um_device_release(device);
    CHECK(count_of(path, " cpu:0+validate+trace ") == count_of(path, "\n"));
    CHECK(count_of(path, ": add f32[4] f32[4] -> f32[4] -> OK\n") == 3); /* two of the batch */
    CHECK(count_of(path, ": 2 ops, from add f32[4]") == 1);
    CHECK(count_of(path, "alloc 128 bytes: 0x") == 1 && count_of(path, " close -> OK\n") == 1);
    CHECK(count_of(path, ", device to host -> OK") == 1 && count_of(path, "host to host") == 1);
    device = open_device("null+trace");
    um_device_release(device);
    CHECK(count_of(path, "null:0+trace ") == 2); /* appended */
    unlink(path);

    setenv("UMBEL_TRACE", "/dev/null/trace", 1);
    int64_t blocks = um_mem_live_count();
    CHECK_FAILS(um_open("cpu+validate+trace", &device), UM_IO_ERROR, "/dev/null/trace");
    CHECK(um_last_error()->native_code != 0 && device == NULL);
    setenv("UMBEL_TRACE", "/dev/null/trace.json", 1);
    CHECK_FAILS(um_open("cpu+validate+trace", &device), UM_IO_ERROR, "/dev/null/trace.json");
    CHECK(um_last_error()->native_code != 0 && device == NULL);
    CHECK(um_mem_live_count() == blocks);
    unsetenv("UMBEL_TRACE");
}

/* The end of the JSON value at text, or NULL. */
static const char *skip_value(const char *text);

static const char *skip_blanks(const char *text)
{
    while (isspace((unsigned char)*text)) text++;
    return text;
}

static const char *skip_string(const char *text)
{
    if (*text++ != '"') return NULL;
    for (; *text != '"'; text++) {
        if ((unsigned char)*text < 0x20) return NULL;
        if (*text == '\\' && *++text == 'u') text += 4;
    }
    return text + 1;
}

static const char *skip_items(const char *text, char end)
{
    text = skip_blanks(text + 1);
    if (*text == end) return text + 1;
    for (;;) {
        if (end == '}') {
            text = skip_string(skip_blanks(text));
            text = text ? skip_blanks(text) : NULL;
            if (!text || *text++ != ':') return NULL;
        }
        text = skip_value(text);
        if (!text) return NULL;
        text = skip_blanks(text);
        if (*text == end) return text + 1;
        if (*text++ != ',') return NULL;
    }
}

static const char *skip_value(const char *text)
{
    text = skip_blanks(text);
    if (*text == '{') return skip_items(text, '}');
    if (*text == '[') return skip_items(text, ']');
    if (*text == '"') return skip_string(text);
    char *end;
    (void)strtod(text, &end);
    return end == text ? NULL : end;
}

static bool is_json(const char *path)
{
    const char *end = skip_value(read_file(path));
    return end && *skip_blanks(end) == 0;
}

static void test_trace_json(void)
{
    char path[64];
    make_path(path, ".json");
    um_device *device = open_device("cpu+trace"), *other = open_device("plain+trace");
    use_every_entry(device);
    use_every_entry(other);
    um_device_release(device);
    CHECK(!is_json(path)); /* one is still open */
    um_device_release(other);
    CHECK_MSG(is_json(path), "%s", read_file(path));
    CHECK(count_of(path, "\"process_name\"") == 2 && count_of(path, "\"name\":\"stream 2\"}") == 2);
    CHECK(count_of(path, "{\"name\":\"add\",\"cat\":\"op\",\"ph\":\"X\",\"ts\":") == 2);
    CHECK(count_of(path, "{\"name\":\"enqueue_batch\",\"cat\":\"op\"") == 2);
    CHECK(count_of(path, "\"what\":\"add f32[4] f32[4] -> f32[4]\",\"status\":\"OK\"}") == 2);
    CHECK(count_of(path, "\"dur\":-") == 0);
    int64_t events = count_of(path, "\"ph\":\"X\"");
    device = open_device("cpu+trace"); /* goes on where it ended */
    um_device_release(device);
    CHECK(is_json(path) && count_of(path, "\"ph\":\"X\"") == events + 2);
    FILE *file = fopen(path, "w");
    fputs("[something else", file);
    fclose(file);
    device = open_device("cpu+trace");
    um_device_release(device);
    CHECK(is_json(path) && count_of(path, "\"ph\":\"X\"") == 2);
    unlink(path);
    unsetenv("UMBEL_TRACE");
}

/* ---- record --------------------------------------------------------------------------------- */

/* The `nth` call of the kind, from 1. */
static um_call find_call(um_device *device, um_call_kind kind, int nth)
{
    um_call call = {.struct_size = sizeof call};
    for (int64_t i = 0; i < um_call_count(device); i++) {
        CHECK_OK(um_call_get(device, i, &call));
        if (call.kind == kind && --nth == 0) return call;
    }
    CHECK_MSG(false, "no %s", um_call_kind_name(kind));
    return (um_call){0};
}

static void test_record(void)
{
    um_device *device = open_device("cpu+record+validate");
    use_every_entry(device);
    for (um_call_kind kind = UM_CALL_CAPS; kind <= UM_CALL_CALL; kind++) {
        um_call call = find_call(device, kind, 1);
        CHECK_MSG(call.kind == kind && call.status == UM_OK, "%s", um_call_kind_name(kind));
    }
    um_call alloc = find_call(device, UM_CALL_ALLOC, 1), call;
    CHECK(alloc.size_bytes == 128 && alloc.ptr % 64 == 0 && alloc.stream == 0);
    call = find_call(device, UM_CALL_FREE, 1);
    CHECK(call.ptr == alloc.ptr);
    call = find_call(device, UM_CALL_ENQUEUE, 1);
    CHECK(call.op == UM_OP_ADD && call.dtype == UM_F32 && call.elements == 4 && call.stream == 1);
    CHECK(call.size_bytes == 48 && call.ptr == alloc.ptr + 32);
    call = find_call(device, UM_CALL_ENQUEUE_BATCH, 2);
    CHECK(call.op == UM_OP_ADD && call.batch_index == 1 && call.batch_count == 2);
    CHECK(call.ptr == alloc.ptr + 48 && call.stream == 1);
    call = find_call(device, UM_CALL_WRITE, 1);
    CHECK(call.size_bytes == 32 && call.ptr == alloc.ptr && call.stream == 1);
    call = find_call(device, UM_CALL_WAIT, 1);
    CHECK(call.stream == 2);
    um_call_clear(device);
    CHECK(um_call_count(device) == 0);
    um_op op = add_op(0, 0, 0, 1);
    CHECK(um_supports(device, &op, NULL, 0));
    call = find_call(device, UM_CALL_SUPPORTS, 1);
    CHECK(call.op == UM_OP_ADD && call.elements == 1);
    CHECK_FAILS(um_call_get(device, 99, &call), UM_OUT_OF_RANGE, "call 99 of ");
    CHECK_FAILS(um_call_get(device, -1, &call), UM_OUT_OF_RANGE, "call -1");
    CHECK_FAILS(um_call_get(device, 0, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(um_call_get(NULL, 0, &call), UM_INVALID_ARGUMENT, "device is NULL");
    call.struct_size = 0;
    CHECK_FAILS(um_call_get(device, 0, &call), UM_INVALID_ARGUMENT, "struct_size");
    call = (um_call){.struct_size = offsetof(um_call, status), .status = 77};
    CHECK_OK(um_call_get(device, 0, &call));
    CHECK(call.kind != UM_CALL_NONE && call.status == 77);
    um_device_release(device);

    device = open_device("cpu");
    CHECK(um_call_count(device) == 0 && um_call_count(NULL) == 0);
    CHECK_FAILS(um_call_get(device, 0, &call), UM_NOT_FOUND, "cpu:0 has no record layer");
    um_call_clear(device);
    um_device_release(device);
    CHECK(strcmp(um_call_kind_name(UM_CALL_ENQUEUE_BATCH), "enqueue_batch") == 0);
    CHECK(strcmp(um_call_kind_name(UM_CALL_CALL), "call") == 0);
    CHECK(strcmp(um_call_kind_name(99), "none") == 0 && !strcmp(um_call_kind_name(-1), "none"));
}

/* What null refuses is recorded as asked and refused; it never reaches enqueue. */
static void test_record_of_null(void)
{
    um_device *device = open_device("null+record");
    um_stream *stream;
    um_ptr ptr;
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 64, &ptr));
    um_op op = add_op(ptr, ptr, ptr, 4);
    CHECK(um_enqueue(stream, &op) == UM_UNSUPPORTED);
    um_call call = find_call(device, UM_CALL_SUPPORTS, 1);
    CHECK(call.status == UM_UNSUPPORTED && call.op == UM_OP_ADD && call.elements == 4);
    call = (um_call){.struct_size = sizeof call};
    for (int64_t i = 0; i < um_call_count(device); i++) {
        CHECK_OK(um_call_get(device, i, &call));
        CHECK(call.kind != UM_CALL_ENQUEUE);
    }
    um_mem_fail_at(1, true); /* no memory to keep calls: they are counted all the same */
    for (int i = 0; i < 100; i++) CHECK_OK(um_synchronize(stream));
    um_mem_fail_at(0, false);
    CHECK(um_call_count(device) >= 100);
    CHECK_FAILS(um_call_get(device, um_call_count(device) - 1, &call), UM_OUT_OF_RANGE, "call");
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- fault ---------------------------------------------------------------------------------- */

static void test_fault(void)
{
    um_device *device;
    um_stream *stream;
    um_ptr a, b;
    static const char *const bad[] = {
        "cpu+fault",       "cpu+fault=",       "cpu+fault=call:0",
        "cpu+fault=call:", "cpu+fault=call:x", "cpu+fault=call:1,",
        "cpu+fault=all:1", "cpu+fault=lost:0", "cpu+fault=call:99999999999999999999"};
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        CHECK_FAILS(um_open(bad[i], &device), UM_NOT_FOUND, "wanted call:N, lost:N, memory:BYTES");
    }
    device = open_device(" CPU + Fault = call:2 "); /* stream_create is 1 */
    CHECK(strcmp(um_device_name(device), "cpu:0+fault=call:2") == 0);
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_FAILS(um_alloc(device, 64, &a), UM_DEVICE_ERROR, "alloc: call 2 fails on purpose");
    CHECK_OK(um_alloc(device, 64, &a));
    CHECK_OK(um_fill(stream, a, 64, "x", 1));
    um_stream_release(stream);
    um_device_release(device);

    device = open_device("cpu+fault=lost:3");
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 64, &a));
    CHECK_FAILS(um_fill(stream, a, 64, "x", 1), UM_DEVICE_LOST, "fill: the device is lost");
    CHECK_FAILS(um_synchronize(stream), UM_DEVICE_LOST, "since call 3");
    CHECK_FAILS(um_alloc(device, 64, &b), UM_DEVICE_LOST, "alloc");
    CHECK_OK(um_free(device, a));
    um_stream_release(stream);
    um_device_release(device);

    device = open_device("cpu+fault=memory:1000,call:100");
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 600, &a));
    CHECK_FAILS(um_alloc(device, 401, &b), UM_OUT_OF_MEMORY, "401 bytes more than the 1000");
    CHECK_OK(um_alloc(device, 400, &b));
    CHECK_OK(um_free(device, a));
    CHECK_OK(um_alloc(device, 600, &a));
    CHECK_OK(um_fill(stream, a, 600, "x", 1));
    CHECK_OK(um_free_async(stream, a)); /* there is enough once that has happened */
    CHECK_OK(um_alloc(device, 500, &a));
    um_stream_release(stream);
    um_device_release(device);
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    unsetenv("UMBEL_TRACE");
    add_fakes();
    int64_t blocks = um_mem_live_count();
    TEST(test_tables);
    TEST(test_forwarding);
    TEST(test_validate_finds);
    TEST(test_trace_text);
    TEST(test_trace_json);
    TEST(test_record);
    TEST(test_record_of_null);
    TEST(test_fault);
    CHECK(um_mem_live_count() == blocks);
    return TEST_RESULT();
}
