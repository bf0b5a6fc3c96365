/* Forms by timing (device/tune.h): with a fake clock, the file that keeps them, and on device
 * interp. */
#include "base/os.h"
#include "device/kcache.h"
#include "device/tune.h"
#include "test.h"

#include <stdlib.h>
#include <umbel/umbel.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define NUMBER(x)  TEXT_OF(x)
#define HEAD                                                                                       \
    "umbel tune " NUMBER(UM_VERSION_MAJOR) "." NUMBER(UM_VERSION_MINOR) "." NUMBER(UM_VERSION_PATCH)

static char folder[] = "/tmp/umbel_tune_XXXXXX";
static char file[200];

/* A device whose forms take so long for each 2^14 elements. */
typedef struct fake {
    int64_t now, cost[5];  /* by form */
    int32_t calls, broken; /* broken: a form that fails */
    int64_t most;          /* elements */
} fake;

static um_status fake_time(void *ctx, const um_op *op, int32_t form, int64_t *ns)
{
    fake *f = ctx;
    int64_t elements = um_view_count(&op->out[0]);
    f->calls++;
    f->most = UM_MAX(f->most, elements);
    *ns = f->cost[form] * elements / (1 << 14);
    f->now += 2 * *ns;
    return form == f->broken ? UM_FAIL(UM_UNSUPPORTED, "form %d", (int)form) : UM_OK;
}

static int64_t fake_now(void *ctx) { return ((fake *)ctx)->now; }

static um_tune *new_tune(fake *f, const char *driver)
{
    um_tune *tune;
    CHECK_OK(um_tune_create(&(um_tune_desc){.kind = UM_DEVICE_CUDA,
                                            .name = "fake/device",
                                            .driver = driver,
                                            .on = true,
                                            .ctx = f,
                                            .time = fake_time,
                                            .now_ns = fake_now},
                            &tune));
    return tune;
}

static um_op product(int64_t m, int64_t n, int64_t k)
{
    um_op op = {.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(0, UM_F32, 2, (const int64_t[]){m, k}, &op.in[0]));
    CHECK_OK(um_view_make(0, UM_F32, 2, (const int64_t[]){k, n}, &op.in[1]));
    CHECK_OK(um_view_make(0, UM_F32, 2, (const int64_t[]){m, n}, &op.out[0]));
    return op;
}

static void the_fastest_is_chosen_and_kept(void)
{
    fake f = {.cost = {0, 3000, 2000, 1000, 4000}};
    um_tune *tune = new_tune(&f, "1.0");
    um_op op = product(512, 512, 512), alike = product(400, 300, 257),
          other = product(64, 512, 512);
    CHECK(um_tune_choose(tune, &op, 4) == 3);
    CHECK(f.most == 512 * 512 && f.now < UM_TUNE_BUDGET_NS);
    int32_t calls = f.calls;
    CHECK(um_tune_choose(tune, &alike, 4) == 3 && f.calls == calls); /* of its class */
    CHECK(um_tune_choose(tune, &other, 4) == 3 && f.calls > calls);
    CHECK(um_tune_choose(tune, &op, 2) == 0); /* there is no form 3 of it */
    um_tune_release(tune);
    fake none = {.broken = 1};
    tune = new_tune(&none, "1.0");
    CHECK(um_tune_choose(tune, &op, 4) == 3 && um_tune_choose(tune, &other, 4) == 3);
    CHECK(none.calls == 0);
    um_tune_release(tune);
    CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &op) == 3);
    CHECK(um_tune_find(UM_DEVICE_VULKAN, "fake/device", &op) == 0);
    /* another driver's are measured anew, and replace them */
    f.cost[4] = 10;
    tune = new_tune(&f, "2.0");
    CHECK(um_tune_choose(tune, &op, 4) == 4);
    um_tune_release(tune);
    CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &op) == 4);
    CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &other) == 0);
}

static void the_budget_is_kept(void)
{
    um_op op = product(4096, 4096, 4096);
    for (int64_t cost = 1000; cost < UM_TUNE_BUDGET_NS; cost *= 3) {
        unlink(file);
        fake f = {.cost = {0, cost, cost / 2, cost, cost}};
        um_tune *tune = new_tune(&f, "1.0");
        int32_t form = um_tune_choose(tune, &op, 4);
        bool one_fits = 2 * cost <= UM_TUNE_BUDGET_NS; /* fake_time runs it twice */
        CHECK_MSG(f.now <= UM_TUNE_BUDGET_NS || !one_fits, "%lld ns", (long long)f.now);
        CHECK(form == (3 * cost <= UM_TUNE_BUDGET_NS ? 2 : 0));
        if (form == 0) CHECK(f.calls == 1);
        um_tune_release(tune);
    }
    unlink(file);
    setenv("UMBEL_TUNE", "force", 1);
    fake f = {.cost = {0, 1000 * 1000, 500 * 1000, 1000 * 1000, 1000}};
    um_tune *tune = new_tune(&f, "1.0");
    CHECK(um_tune_choose(tune, &op, 4) == 4 && f.most == 4096 * 4096);
    CHECK(f.now > UM_TUNE_BUDGET_NS);
    um_tune_release(tune);
    f.cost[4] = UM_TUNE_BUDGET_NS;
    tune = new_tune(&f, "1.0"); /* not what is on disk */
    CHECK(um_tune_choose(tune, &op, 4) == 2);
    um_tune_release(tune);
    setenv("UMBEL_TUNE", "off", 1);
    f.calls = 0;
    tune = new_tune(&f, "1.0");
    CHECK(um_tune_choose(tune, &op, 4) == 0 && f.calls == 0);
    um_tune_release(tune);
    unsetenv("UMBEL_TUNE");
}

static void write_file(const char *text, size_t size)
{
    CHECK_OK(um_file_replace(file, text, size));
}

static void what_is_not_ours_is_ignored(void)
{
    static const char good[] =
        HEAD "\ncuda-fake/device\n1.0\n"
             "\n7\n7 \n0 x\nxx\n3 matmul f32:9.9+1 f32:9.9+1 > f32:9.9+1\n2 torn";
    static const char *const bad[] = {"",
                                      "umbel tune 0.0.9\ncuda-fake/device\n1.0\n",
                                      HEAD "\ncuda-other\n1.0\n",
                                      HEAD "\ncuda-fake/device\n1.1\n",
                                      "\x7f"
                                      "ELF",
                                      HEAD "\ncuda-fake/device"};
    um_op op = product(512, 512, 512);
    char text[400];
    for (size_t size = 0; size < sizeof good; size++) { /* torn anywhere */
        write_file(good, size);
        fake f = {.broken = 1};
        um_tune *tune = new_tune(&f, "1.0");
        bool there = size > (size_t)(strstr(good, "2 torn") - good) - 1;
        CHECK_MSG(um_tune_choose(tune, &op, 4) == (there ? 3 : 0), "%d", (int)size);
        um_tune_release(tune);
    }
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        int length = snprintf(text, sizeof text, "%s%s", bad[i],
                              "3 matmul f32:9.9+1 f32:9.9+1 > f32:9.9+1\n");
        write_file(text, (size_t)length);
        fake f = {.cost = {0, 10, 5, 10, 10}};
        um_tune *tune = new_tune(&f, "1.0");
        CHECK_MSG(um_tune_choose(tune, &op, 4) == 2, "%s", bad[i]);
        um_tune_release(tune);
        CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &op) == 2); /* and replaced */
    }
    /* nowhere to write */
    setenv("UMBEL_CACHE_DIR", "/dev/null/x", 1);
    fake f = {.cost = {0, 10, 5, 10, 10}};
    um_tune *tune = new_tune(&f, "1.0");
    CHECK(um_tune_choose(tune, &op, 4) == 2 && um_last_error()->code != UM_IO_ERROR);
    um_tune_release(tune);
    setenv("UMBEL_CACHE_DIR", folder, 1);
}

/* Two processes that time other classes lose nothing of each other's. */
static void files_are_merged(void)
{
    unlink(file);
    fake f = {.cost = {0, 10, 5, 10, 10}};
    um_tune *a = new_tune(&f, "1.0"), *b = new_tune(&f, "1.0");
    um_op one = product(512, 512, 512), two = product(64, 512, 512);
    CHECK(um_tune_choose(a, &one, 4) == 2 && um_tune_choose(b, &two, 4) == 2);
    um_tune_release(a);
    um_tune_release(b);
    CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &one) == 2);
    CHECK(um_tune_find(UM_DEVICE_CUDA, "fake/device", &two) == 2);
}

static void memory_may_fail(void)
{
    um_op op = product(512, 512, 512);
    for (int64_t n = 1, failed = 1; failed; n++) {
        unlink(file);
        int64_t live = um_mem_live_count();
        fake f = {.cost = {0, 10, 5, 10, 10}};
        um_tune *tune = NULL;
        um_mem_fail_at(n, true);
        um_status status = um_tune_create(&(um_tune_desc){.kind = UM_DEVICE_CUDA,
                                                          .name = "fake/device",
                                                          .driver = "1.0",
                                                          .on = true,
                                                          .ctx = &f,
                                                          .time = fake_time,
                                                          .now_ns = fake_now},
                                          &tune);
        if (status == UM_OK) CHECK(um_tune_choose(tune, &op, 4) == 2);
        failed = um_mem_failed();
        um_mem_fail_at(0, false);
        um_tune_release(tune);
        CHECK(um_mem_live_count() == live);
    }
}

/* ---- forms -------------------------------------------------------------------------------------
 */

/* Each form of a product gives the same numbers, and interp finds one of them. */
static void forms_compute_the_same(void)
{
    enum { M = 70, N = 66, K = 600 };
    static float in[M * K + K * N], out[5][M * N];
    /* square tiles, tall ones, one an invocation, and the first two over the whole depth */
    static const int32_t tile_rows[] = {64, 128, 8, 64, 128};
    um_device *device;
    um_stream *stream;
    um_ptr memory;
    um_matrix_tile tile;
    for (int32_t i = 0; i < (int32_t)UM_COUNT_OF(in); i++) in[i] = (float)(i * 7 % 31 - 15) / 8;
    setenv("UMBEL_TUNE", "on", 1);
    um_kplan plan;
    um_op op = product(M, N, K);
    op.attrs.matmul.alpha = 1;
    CHECK_OK(um_kplan_make(&op, NULL, 0, &plan));
    CHECK(plan.form_count == 5 && plan.launch_count == 2);
    um_kplan_release(&plan);
    for (int32_t form = 1; form <= 5; form++) {
        CHECK_OK(um_kplan_make(&op, NULL, form, &plan));
        CHECK(plan.launch_count == (form < 3 ? 2 : 1));
        um_kplan_release(&plan);
    }
    CHECK_OK(um_open("interp", &device));
    CHECK_OK(um_recommended_tile(device, UM_OP_MATMUL, M, N, K, &tile));
    CHECK(tile.m == 64 && tile.k == 16);
    char path[300];
    snprintf(path, sizeof path, "%s/tune-interp-interpreter_of_kernels", folder);
    for (int32_t form = 1; form <= 5; form++) {
        char text[200];
        int length = snprintf(text, sizeof text,
                              HEAD "\ninterp-interpreter of kernels\n\n"
                                   "%d matmul f32:7.10+1 f32:10.7+1 > f32:7.7+1\n",
                              (int)form);
        um_device_release(device);
        CHECK_OK(um_file_replace(path, text, (size_t)length));
        CHECK_OK(um_open("interp", &device));
        CHECK_OK(um_stream_create(device, &stream));
        CHECK_OK(um_alloc(device, sizeof in + sizeof out[0], &memory));
        op.in[0].ptr = memory;
        op.in[1].ptr = memory + sizeof(float) * M * K;
        op.out[0].ptr = memory + sizeof in;
        CHECK_OK(um_write(stream, memory, in, sizeof in));
        CHECK_OK(um_enqueue(stream, &op));
        CHECK_OK(um_read(stream, out[form - 1], op.out[0].ptr, sizeof out[0]));
        CHECK_OK(um_recommended_tile(device, UM_OP_MATMUL, M, N, K, &tile));
        CHECK(tile.m == tile_rows[form - 1] && tile.n == UM_MIN(tile.m, 64) && tile.k == 16);
        um_stream_release(stream);
        CHECK_OK(um_free(device, memory));
        for (int32_t i = 0; i < M * N; i++) CHECK(out[form - 1][i] == out[0][i]); /* exact sums */
    }
    um_device_release(device);
    unlink(path);
    setenv("UMBEL_TUNE", "force", 1);
    CHECK_OK(um_open("interp", &device));
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, sizeof in + sizeof out[0], &memory));
    op = product(M, N, 20);
    op.attrs.matmul.alpha = 1;
    op.in[0].ptr = memory;
    op.in[1].ptr = memory + 64 * 1024;
    op.out[0].ptr = memory + sizeof in;
    CHECK_OK(um_write(stream, memory, in, sizeof in));
    CHECK_OK(um_enqueue(stream, &op));
    CHECK_OK(um_synchronize(stream));
    int32_t found = um_tune_find(UM_DEVICE_INTERP, "interpreter of kernels", &op);
    CHECK_MSG(found >= 1 && found <= 3, "%d", (int)found);
    um_stream_release(stream);
    CHECK_OK(um_free(device, memory));
    um_device_release(device);
    unlink(path);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    setenv("UMBEL_CACHE_DIR", folder, 1);
    unsetenv("UMBEL_TUNE");
    snprintf(file, sizeof file, "%s/tune-cuda-fake_device", folder);
    TEST(the_fastest_is_chosen_and_kept);
    TEST(the_budget_is_kept);
    TEST(what_is_not_ours_is_ignored);
    TEST(files_are_merged);
    TEST(memory_may_fail);
    TEST(forms_compute_the_same);
    unlink(file);
    CHECK(rmdir(folder) == 0);
    return TEST_RESULT();
}
