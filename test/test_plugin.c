/* Plugins: an old one with this library, newer ones, those that lie, those that fail; manifests;
 * and UMBEL_PLUGIN_PATH. The libraries are copies of UM_VARIANTS (test/abi/variants.c), by name.
 * What the variable says is read once a process, so those tests run in children. */
#include "base/base.h"
#include "base/os.h"
#include "device/plugin.h"
#include "test/abi/plugin_v1.h"
#include "test/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <umbel/umbel.h>
#include <unistd.h>

static char folder[64];

/* ---- files ------------------------------------------------------------------------------------
 */

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    char *out = path[turn = (turn + 1) % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static void write_text(const char *name, const char *text) { write_file(name, text, strlen(text)); }

/* The path of the variant's library. */
static const char *make_variant(const char *variant)
{
    char name[64];
    um_file file;
    snprintf(name, sizeof name, "v-%s.so", variant);
    if (access(path_of(name), R_OK) == 0)
        return path_of(name); /* may be loaded: not written again */
    CHECK_OK(um_file_open(UM_VARIANTS, &file));
    write_file(name, file.data, (size_t)file.size_bytes);
    um_file_close(&file);
    return path_of(name);
}

static void make_manifest(const char *file_name, const char *backend, const char *library)
{
    char text[256];
    snprintf(text, sizeof text,
             "# made by a test\nname = %s\nfile = %s\nkind=cpu\nabi = 1\nlater = x", backend,
             library);
    write_text(file_name, text);
}

/* ---- the frozen header ------------------------------------------------------------------------
 */

/* Lies where it did. */
#define SAME(struct_name, field)                                                                   \
    CHECK_MSG(offsetof(um_##struct_name, field) == offsetof(v1_##struct_name, field),              \
              "um_" #struct_name "." #field " moved: see test/abi/plugin_v1.h")
/* Structs with a struct_size may grow, the others may not. */
#define SAME_SIZE(name)   CHECK(sizeof(um_##name) == sizeof(v1_##name))
#define GROWN(name)       CHECK(sizeof(um_##name) >= sizeof(v1_##name))
#define SAME_NUMBER(name) CHECK((int)UM_##name == (int)V1_##name)

static void test_fixed_layout(void)
{
    SAME_SIZE(op);
    SAME(op, attrs);
    SAME(op, out);
    SAME(op, in);
    SAME_SIZE(view);
    SAME(view, dtype);
    SAME(view, shape);
    SAME(view, stride);
    SAME_SIZE(error);
    SAME(error, message);
    SAME_SIZE(matrix_tile);
    SAME_NUMBER(OP_RELU);
    SAME_NUMBER(OP_ADD);
    SAME_NUMBER(F32);
    SAME_NUMBER(BOOL);
    SAME_NUMBER(DEVICE_CPU);
    SAME_NUMBER(LOG_INFO);
    CHECK(UM_PLUGIN_ABI == V1_ABI);
}

static void test_growing_layout(void)
{
    GROWN(device_info);
    SAME(device_info, backend);
    SAME(device_info, features);
    SAME(device_info, memory_total_bytes);
    GROWN(caps);
    SAME(caps, isa);
    SAME(caps, features);
    SAME(caps, version);
    SAME(caps, group_size_max);
    SAME(caps, group_shared_bytes);
    SAME(caps, matrix_tiles);
    GROWN(backend);
    SAME(backend, name);
    SAME(backend, caps);
    SAME(backend, write);
    SAME(backend, record);
    SAME(backend, clear_error);
    SAME(backend, supports);
    SAME(backend, enqueue);
    GROWN(host);
    SAME(host, version);
    SAME(host, fail);
    SAME(host, alloc);
    SAME(host, convert);
    GROWN(plugin);
    SAME(plugin, abi);
    SAME(plugin, version);
    SAME(plugin, backend);
}

/* ---- manifests --------------------------------------------------------------------------------
 */

static void test_manifest(void)
{
    um_manifest m;
    static const char good[] =
        "\n  # text\r\n name=toy\t\r\nfile = libtoy.so\nkind = cpu\n\nabi = 1\nnew = 1";
    CHECK_OK(um_manifest_parse(good, strlen(good), &m));
    CHECK(strcmp(m.name, "toy") == 0 && strcmp(m.file, "libtoy.so") == 0);
    CHECK(strcmp(m.kind, "cpu") == 0 && m.abi == 1);
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "no line says its name"},
        {"name = toy\nfile = a.so\nkind = cpu", "no line says its abi"},
        {"name = toy\nname = toy", "line 2: a second name"},
        {"\n\nname toy", "line 3: 'name toy', wanted KEY = VALUE"},
        {"name =", "no good name"},
        {"name = Toy", "no good name"},
        {"name = 1toy", "no good name"},
        {"name = a b", "no good name"},
        {"name = sixteen-letters-", "no good name"},
        {"file = ../evil.so", "no good file"},
        {"file = /lib/x.so", "no good file"},
        {"file = .so", "no good file"},
        {"abi = -1", "no good abi"},
        {"abi = 1x", "no good abi"},
        {"abi = 99999999999", "no good abi"},
        {"kind = \x7f\x01", "no good kind"},
        {"\xff\xfe\xfd", "wanted KEY = VALUE"},
    };
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++)
        CHECK_FAILS(um_manifest_parse(bad[i].text, strlen(bad[i].text), &m), UM_CORRUPT_DATA,
                    bad[i].message);
    CHECK_FAILS(um_manifest_parse("name\0= x", 8, &m), UM_CORRUPT_DATA, "byte of 0");
    static char large[5000];
    memset(large, '#', sizeof large);
    CHECK_FAILS(um_manifest_parse(large, sizeof large, &m), UM_CORRUPT_DATA, "5000 bytes");
    CHECK_FAILS(um_manifest_parse(large, 4096, &m), UM_CORRUPT_DATA, "no line says");
}

/* Damaged ones are refused or read, and never more than that. */
static void test_manifest_damage(void)
{
    um_manifest m;
    uint32_t random = 1;
    static const char good[] = "name = toy\nfile = libtoy.so\nkind = cpu\nabi = 1\n";
    for (int round = 0; round < 20000; round++) {
        char text[sizeof good];
        size_t size = sizeof good - 1;
        memcpy(text, good, sizeof good);
        for (int i = 0; i < 3; i++) {
            random = random * 1664525u + 1013904223u;
            text[(random >> 8) % size] = (char)(random >> 24);
        }
        size -= (random >> 4) % 8;
        char *exact = malloc(size); /* so that a sanitizer sees a byte too many */
        memcpy(exact, text, size);
        um_status status = um_manifest_parse(exact, size, &m);
        free(exact);
        CHECK(status == UM_OK || status == UM_CORRUPT_DATA);
        CHECK(memchr(m.name, 0, sizeof m.name) && memchr(m.file, 0, sizeof m.file));
    }
}

/* ---- one that works ---------------------------------------------------------------------------
 */

static int32_t backend_index(const char *wanted)
{
    const char *name;
    for (int32_t i = 0; i < um_backend_count(); i++)
        if (um_backend_describe(i, &name, NULL, NULL) == UM_OK && strcmp(name, wanted) == 0)
            return i;
    return -1;
}

static void run_relu(um_device *device)
{
    um_stream *stream;
    um_ptr ptr;
    float x[4] = {-1, 2, -3, 4};
    um_op op = {.id = UM_OP_RELU, .in_count = 1, .out_count = 1};
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, sizeof x, &ptr));
    CHECK_OK(um_write(stream, ptr, x, sizeof x));
    CHECK_OK(um_view_make(ptr, UM_F32, 1, (int64_t[]){4}, &op.in[0]));
    op.out[0] = op.in[0];
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_read(stream, x, ptr, sizeof x));
    CHECK(x[0] == 0 && x[1] == 2 && x[2] == 0 && x[3] == 4);
    /* What it lacks, the CPU behind it runs, unless that is forbidden. */
    int32_t y[4] = {-1, 2, -3, 4};
    op.in[0].dtype = op.out[0].dtype = UM_I32;
    um_device_set_strict(device, true);
    CHECK_FAILS(um_enqueue(stream, &op), UM_UNSUPPORTED, "relu of packed f32 only");
    um_device_set_strict(device, false);
    CHECK_OK(um_write(stream, ptr, y, sizeof y));
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_read(stream, y, ptr, sizeof y));
    CHECK(y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4 && um_fallback_count(device) == 1);
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
}

/* Built with the frozen header: it knows none of the entries, fields and ops that came later. */
static void test_old(void)
{
    const char *path = make_variant("old"), *name, *again;
    char spec[300];
    um_device *device, *same;
    um_caps caps = {.struct_size = sizeof caps};
    um_device_info info = {.struct_size = sizeof info};
    int64_t blocks = um_mem_live_count();
    CHECK_OK(um_plugin_load(path, &name));
    CHECK(strcmp(name, "old") == 0);
    CHECK_OK(um_plugin_load(path, &again));
    CHECK(name == again && backend_index("old") == um_backend_count() - 1);
    CHECK_OK(um_device_describe(backend_index("old"), 0, &info));
    CHECK(strcmp(info.backend, "old") == 0 && strcmp(info.name, "variant old") == 0);
    CHECK_FAILS(um_device_describe(backend_index("old"), 1, &info), UM_OUT_OF_RANGE,
                "device 1 of 1");
    CHECK_OK(um_open("old+validate", &device));
    CHECK(strcmp(um_device_name(device), "old:0+validate") == 0);
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(caps.kind == UM_DEVICE_CPU && caps.arithmetic == 1u << UM_F32);
    run_relu(device);
    snprintf(spec, sizeof spec, "  %s:0+Validate ", path);
    CHECK_OK(um_open(spec, &same));
    CHECK(same == device);
    um_device_release(same);
    um_device_release(device);
    CHECK(um_mem_live_count() == blocks);
    um_plugin_info plugin = {.struct_size = sizeof plugin};
    CHECK(um_plugin_count() == 1);
    CHECK_OK(um_plugin_describe(0, &plugin));
    CHECK(plugin.state == UM_PLUGIN_LOADED && strcmp(plugin.name, "old") == 0);
    CHECK(strstr(plugin.path, "/v-old.so") && !plugin.why[0] && strcmp(plugin.version, "1.5") == 0);
    CHECK_FAILS(um_plugin_describe(1, &plugin), UM_OUT_OF_RANGE, "index 1 of 1");
    CHECK_FAILS(um_plugin_describe(0, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    plugin.struct_size = 0;
    CHECK_FAILS(um_plugin_describe(0, &plugin), UM_INVALID_ARGUMENT, "struct_size");
}

static void test_accepted(void)
{
    static const char *const variants[] = {"newer-zero", "adapts", "required", "no-ops"};
    for (size_t i = 0; i < UM_COUNT_OF(variants); i++) {
        const char *name;
        um_device *device;
        um_stream *stream;
        CHECK_OK(um_plugin_load(make_variant(variants[i]), &name));
        CHECK(strcmp(name, variants[i]) == 0);
        CHECK_OK(um_open(name, &device));
        if (i < 2) run_relu(device);
        CHECK_OK(um_stream_create(device, &stream));
        um_op op = {.id = UM_OP_RELU, .in_count = 1, .out_count = 1};
        CHECK_OK(um_view_make(0, UM_F32, 1, (int64_t[]){4}, &op.in[0]));
        op.out[0] = op.in[0];
        CHECK(um_supports(device, &op, NULL, 0) ==
              (i < 2)); /* entries that are not there are NULL */
        um_stream_release(stream);
        um_device_release(device);
    }
}

/* ---- those that are refused -------------------------------------------------------------------
 */

static const struct {
    const char *variant;
    um_status code;
    const char *message;
} refusals[] = {
    {"newer", UM_ABI_MISMATCH, "um_backend: of its 1024 bytes some past the"},
    {"huge", UM_ABI_MISMATCH, "um_backend: struct_size 4294967295, wanted"},
    {"beyond", UM_ABI_MISMATCH, "um_backend: struct_size 1024: memory: 1024 bytes at"},
    {"tiny", UM_ABI_MISMATCH, "um_backend: struct_size 15, wanted"},
    {"short", UM_ABI_MISMATCH, "um_backend: struct_size"},
    {"plugin-size", UM_ABI_MISMATCH, "um_plugin: struct_size 0, wanted"},
    {"other-id", UM_ABI_MISMATCH, "um_backend: struct_id 7, wanted 1"},
    {"next", UM_ABI_MISMATCH, "um_backend: next is set"},
    {"abi", UM_ABI_MISMATCH, "um_plugin: abi 99, wanted 1"},
    {"null-backend", UM_ABI_MISMATCH, "um_backend: NULL"},
    {"wild-backend", UM_ABI_MISMATCH, "cannot be read"},
    {"null-name", UM_ABI_MISMATCH, "um_backend: name: "},
    {"wild-name", UM_ABI_MISMATCH, "um_backend: name: "},
    {"long-name", UM_ABI_MISMATCH, "no end within 15 characters"},
    {"bad-name", UM_INVALID_ARGUMENT, "the name 'Two Words'"},
    {"taken-name", UM_INVALID_ARGUMENT, "there is a backend 'cpu' already"},
    {"alias-name", UM_INVALID_ARGUMENT, "'nvidia' stands for 'cuda'"},
    {"missing", UM_ABI_MISMATCH, "the required entry read is NULL"},
    {"no-supports", UM_ABI_MISMATCH, "enqueue without supports"},
    {"no-enqueue", UM_ABI_MISMATCH, "supports without enqueue"},
    {"fails", UM_DEVICE_ERROR, "no driver of fails"},
    {"mute", UM_OUT_OF_RANGE, "its entry fails with 6 (OUT_OF_RANGE)"},
    {"empty", UM_ABI_MISMATCH, "um_plugin: NULL"},
    {"wild", UM_ABI_MISMATCH, "um_plugin: memory: 16 bytes at 0x40 cannot be read"},
};

static void test_refused(void)
{
    int32_t backends = um_backend_count(), plugins = um_plugin_count();
    for (int round = 0; round < 2; round++) { /* nothing of the first try is left */
        for (size_t i = 0; i < UM_COUNT_OF(refusals); i++) {
            const char *name = NULL, *path = make_variant(refusals[i].variant);
            um_status status = um_plugin_load(path, &name);
            CHECK_MSG(status == refusals[i].code, "%s: %s", refusals[i].variant,
                      um_status_name(status));
            CHECK_MSG(strstr(um_last_error()->message, refusals[i].message), "%s: %s",
                      refusals[i].variant, um_last_error()->message);
            CHECK(strcmp(name, "") == 0 &&
                  (strstr(um_last_error()->message, path) || strstr(refusals[i].variant, "-name")));
        }
    }
    CHECK(um_backend_count() == backends && um_plugin_count() == plugins);
}

static void test_no_plugin(void)
{
    const char *name;
    write_text("text.so", "no library");
    CHECK_FAILS(um_plugin_load(path_of("text.so"), &name), UM_IO_ERROR, "cannot load");
    CHECK_FAILS(um_plugin_load(path_of("absent.so"), NULL), UM_NOT_FOUND, "absent.so");
    CHECK_FAILS(um_plugin_load("libm.so", &name), UM_INVALID_ARGUMENT, "no path");
    CHECK_FAILS(um_plugin_load("", &name), UM_INVALID_ARGUMENT, "no path");
    CHECK_FAILS(um_plugin_load(NULL, &name), UM_INVALID_ARGUMENT, "no path");
    um_device *device;
    CHECK_FAILS(um_open(path_of("absent.so:0"), &device), UM_NOT_FOUND, "absent.so");
    CHECK_FAILS(um_open("/", &device), UM_IO_ERROR, "cannot load");
    CHECK(device == NULL);
}

/* ---- those that lie once they are loaded ------------------------------------------------------
 */

static um_device *open_variant(const char *variant)
{
    um_device *device = NULL;
    CHECK_OK(um_plugin_load(make_variant(variant), NULL));
    CHECK_OK(um_open(variant, &device));
    return device;
}

static void check_no_device(const char *variant, const char *message)
{
    int32_t count = 77;
    const char *why;
    um_device *device;
    CHECK_OK(um_plugin_load(make_variant(variant), NULL));
    CHECK_OK(um_backend_describe(backend_index(variant), NULL, &count, &why));
    CHECK_MSG(count == 0 && strstr(why, message), "%d: %s", count, why);
    CHECK_FAILS(um_open(variant, &device), UM_NOT_FOUND, "no device");
}

static void test_liars(void)
{
    um_device *device;
    um_stream *stream;
    um_ptr ptr;
    um_caps caps = {.struct_size = sizeof caps};
    um_device_info info = {.struct_size = sizeof info};
    check_no_device("count", "1073741824 devices");
    check_no_device("negative", "-3 devices");
    check_no_device("endless", "wwwwww");
    CHECK_OK(um_plugin_load(make_variant("describe"), NULL));
    CHECK_FAILS(um_device_describe(backend_index("describe"), 0, &info), UM_ABI_MISMATCH,
                "describe wrote beyond");
    CHECK_FAILS(um_open("describe", &device), UM_ABI_MISMATCH, "describe wrote beyond");
    CHECK_OK(um_plugin_load(make_variant("nothing"), NULL));
    CHECK_FAILS(um_open("nothing", &device), UM_INTERNAL, "gives none");

    device = open_variant("texts");
    info.struct_size = sizeof info;
    CHECK_OK(um_device_describe(backend_index("texts"), 0, &info));
    CHECK(memchr(info.name, 0, sizeof info.name) && strcmp(info.backend, "texts") == 0);
    CHECK(memchr(info.version, 0, sizeof info.version) && info.ordinal == 0);
    CHECK_OK(um_device_caps(device, &caps));
    CHECK(memchr(caps.isa, 0, sizeof caps.isa) && caps.struct_size == sizeof caps);
    CHECK(caps.matrix_tile_count >= 0 && caps.matrix_tile_count <= UM_MATRIX_TILES_MAX);
    um_device_release(device);

    device = open_variant("caps");
    CHECK_FAILS(um_device_caps(device, &caps), UM_ABI_MISMATCH, "caps wrote beyond");
    um_device_release(device);
    device = open_variant("bytes");
    CHECK_FAILS(um_alloc(device, 100, &ptr), UM_INTERNAL,
                "gives 100 bytes at 0x4, wanted a multiple");
    um_device_release(device);
    CHECK_OK(um_plugin_load(make_variant("silent"), NULL));
    CHECK_OK(um_open("silent+validate", &device));
    CHECK_OK(um_alloc(device, 2, &ptr));
    CHECK_OK(um_free(device, ptr));
    CHECK_FAILS(um_alloc(device, 1, &ptr), UM_INTERNAL,
                "alloc: fails with 4 and leaves no message");
    um_device_release(device);
    device = open_variant("streams");
    CHECK_FAILS(um_stream_create(device, &stream), UM_INTERNAL, "gives none");
    um_device_release(device);
}

/* ---- from several threads ---------------------------------------------------------------------
 */

static const char *thread_path[3];

static void load_and_look(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        const char *name;
        int32_t count;
        um_plugin_info info = {.struct_size = sizeof info};
        CHECK_OK(um_plugin_load(thread_path[i], &name));
        CHECK_OK(um_backend_describe(backend_index(name), NULL, &count, NULL));
        CHECK(count == 1);
        for (int32_t k = 0; k < um_plugin_count(); k++) CHECK_OK(um_plugin_describe(k, &info));
        um_device *device;
        CHECK_OK(um_open(name, &device));
        um_device_release(device);
    }
}

static void test_threads(void)
{
    static const char *const variants[] = {"thread-a", "thread-b", "thread-c"};
    char paths[3][256];
    um_thread thread[6];
    int32_t plugins = um_plugin_count();
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", make_variant(variants[i]));
        thread_path[i] = paths[i];
    }
    for (int i = 0; i < 6; i++) CHECK_OK(um_thread_start(&thread[i], load_and_look, NULL, "test"));
    for (int i = 0; i < 6; i++) um_thread_join(thread[i]);
    CHECK(um_plugin_count() == plugins + 3);
}

/* ---- in children ------------------------------------------------------------------------------
 */

/* The exit state of a child that runs fn. Its checks that fail are ours. */
static int run_child(void (*fn)(void))
{
    int state = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        um_test_failures = 0;
        fn();
        fflush(NULL);
        _exit(um_test_failures ? 1 : 0);
    }
    CHECK(child > 0 && waitpid(child, &state, 0) == child);
    return state;
}

static void load_crash(void)
{
    freopen("/dev/null", "w", stderr); /* a sanitizer's report */
    CHECK_OK(um_plugin_load(path_of("v-crash.so"), NULL));
}

static void test_crash(void)
{
    make_variant("crash");
    CHECK(run_child(load_crash) != 0); /* and we are still here */
}

static char log_text[8192];

static void keep_log(void *user, int32_t level, const char *message)
{
    (void)user;
    /* What a program's callback may do, while a plugin is being loaded, too. */
    CHECK(um_backend_count() > 0 && um_plugin_count() >= 0 && level >= UM_LOG_DEBUG);
    um_device *device = NULL;
    if (strstr(message, "hello")) CHECK(um_open("talks", &device) == UM_NOT_FOUND && !device);
    snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", message);
}

static void check_plugin(const char *name, um_plugin_state state, const char *why)
{
    um_plugin_info info = {.struct_size = sizeof info};
    bool found = false;
    for (int32_t i = 0; i < um_plugin_count() && !found; i++)
        found = um_plugin_describe(i, &info) == UM_OK &&
                (info.name[0] ? !strcmp(info.name, name) : strstr(info.path, name) != NULL);
    CHECK_MSG(found && info.state == state && strstr(info.why, why),
              "%s: found %d, state %d, why %s", name, found, info.state, info.why);
}

static void set_path(const char *value) { CHECK(setenv("UMBEL_PLUGIN_PATH", value, 1) == 0); }

static void use_path(void)
{
    char value[512];
    int32_t count;
    const char *why;
    um_device *device;
    um_set_log(keep_log, NULL, UM_LOG_INFO);
    snprintf(value, sizeof value, "relative/folder:%s/absent::%s/set:.", folder, folder);
    set_path(value);
    um_status marker = UM_FAIL(UM_CANCELLED, "marker");
    CHECK(um_plugin_count() == 8 && um_backend_count() == 8 && marker == UM_CANCELLED);
    CHECK(um_last_error()->code == UM_CANCELLED);
    CHECK(strstr(log_text, "'relative/folder' is no absolute path; left out"));
    CHECK(strstr(log_text, "'' is no absolute path") &&
          strstr(log_text, "'.' is no absolute path"));
    CHECK(strstr(log_text, "absent"));
    /* Enumeration loads nothing: names are known, and nothing more. */
    CHECK(backend_index("talks") == 7 && backend_index("mute") == 5);
    check_plugin("talks", UM_PLUGIN_FOUND, "");
    check_plugin("mute", UM_PLUGIN_FOUND, "");
    check_plugin("b-garbage.umbel", UM_PLUGIN_REFUSED, "wanted KEY = VALUE");
    check_plugin("future", UM_PLUGIN_REFUSED, "abi 99, wanted 1");
    check_plugin("gone", UM_PLUGIN_REFUSED, "v-gone.so");
    CHECK_OK(um_open("cpu", &device)); /* nor does opening another device */
    um_device_release(device);
    check_plugin("talks", UM_PLUGIN_FOUND, "");
    CHECK(!strstr(log_text, "hello"));
    CHECK_OK(um_open("talks", &device));
    um_device_release(device);
    check_plugin("talks", UM_PLUGIN_LOADED, "");
    CHECK(strstr(log_text, "hello from a plugin"));
    CHECK_OK(um_backend_describe(backend_index("mute"), NULL, &count, &why));
    CHECK(count == 0 && strstr(why, "its entry fails with 6"));
    CHECK_FAILS(um_open("other", &device), UM_NOT_FOUND, "other");
    check_plugin("other", UM_PLUGIN_REFUSED, "'somebody-else', by its manifest 'other'");
    CHECK_FAILS(um_plugin_load(path_of("set/v-mute.so"), NULL), UM_OUT_OF_RANGE, "its entry fails");
    CHECK(um_plugin_count() == 8);
}

static void test_path(void)
{
    CHECK(mkdir(path_of("set"), 0700) == 0);
    static const char *const variants[] = {"talks", "mute", "other-manifest"};
    for (size_t i = 0; i < UM_COUNT_OF(variants); i++) {
        char to[128];
        snprintf(to, sizeof to, "%s/set/v-%s.so", folder, variants[i]);
        CHECK(rename(make_variant(variants[i]), to) == 0);
    }
    make_manifest("set/c-talks.umbel", "talks", "v-talks.so");
    make_manifest("set/a-mute.umbel", "mute", "v-mute.so");
    make_manifest("set/b-other.umbel", "other", "v-other-manifest.so");
    make_manifest("set/d-again.umbel", "talks", "v-talks.so");
    make_manifest("set/e-cpu.umbel", "cpu", "v-talks.so");
    make_manifest("set/f-gone.umbel", "gone", "v-gone.so");
    make_manifest("set/not-a-manifest.text", "x", "v-talks.so");
    write_text("set/b-garbage.umbel", "\x7f"
                                      "ELF nonsense\n");
    write_text("set/g-future.umbel", "name = future\nfile = v-talks.so\nkind = cpu\nabi = 99\n");
    CHECK(run_child(use_path) == 0);
}

/* The list has room for 32; more are left out with a line. */
static void use_many(void)
{
    char value[256];
    um_set_log(keep_log, NULL, UM_LOG_INFO);
    snprintf(value, sizeof value, "%s/many", folder);
    set_path(value);
    CHECK(um_plugin_count() == 32);
    CHECK(strstr(log_text, "one too many"));
    CHECK_FAILS(um_plugin_load(make_variant("late"), NULL), UM_OUT_OF_RANGE, "one too many");
}

static void test_many(void)
{
    CHECK(mkdir(path_of("many"), 0700) == 0);
    for (int i = 0; i < 40; i++) {
        char file_name[64];
        snprintf(file_name, sizeof file_name, "many/%d.umbel", i);
        write_text(file_name, "junk");
    }
    CHECK(run_child(use_many) == 0);
}

/* ---- reading memory that may not be there ------------------------------------------------------
 */

static void test_copy_unsure(void)
{
    uint8_t from[2000], to[2000];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 7);
    CHECK_OK(um_os_copy_unsure(to, from, sizeof from));
    CHECK(memcmp(from, to, sizeof from) == 0);
    CHECK_FAILS(um_os_copy_unsure(to, (const void *)(uintptr_t)8, 100), UM_INVALID_ARGUMENT,
                "cannot be read");
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/umbel-plugin-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    unsetenv("UMBEL_PLUGIN_PATH");
    TEST(test_path);
    TEST(test_many);
    TEST(test_fixed_layout);
    TEST(test_growing_layout);
    TEST(test_manifest);
    TEST(test_manifest_damage);
    TEST(test_copy_unsure);
    TEST(test_old);
    TEST(test_accepted);
    TEST(test_refused);
    TEST(test_no_plugin);
    TEST(test_liars);
    TEST(test_threads);
    TEST(test_crash);
    remove_folder();
    return TEST_RESULT();
}
