/* An elementwise op is one row: those of more_ops.def, with which this build was configured, run on
 * the CPU and the interpreter through both faces, and every target has words for them. That their
 * results are right in every odd case is `umbel check`'s to say, by the tests beside this one. */
#include "kernel/library.h"
#include "render/render.h"
#include "test.h"

#include <math.h>
#include <umbel/umbel.h>

enum { N = 37 };

static float data[3][N];

static float softsign(float x) { return x / (1 + fabsf(x)); }
static float lerp(float x, float y, float z) { return fmaf(z, y - x, x); }

static void test_names(void)
{
    CHECK(um_op_find("softsign") == UM_OP_SOFTSIGN && um_op_find("lerp") == UM_OP_LERP);
    CHECK(um_op_count() == UM_OP_LERP);
    CHECK(strcmp(um_op_doc(UM_OP_SOFTSIGN), "x / (1 + |x|)") == 0);
}

/* Both in one fused program, by the functions that the rows made. */
static void run_tensors(um_device *device)
{
    const int64_t shape[1] = {N};
    um_tensor *in[3];
    float got[N];
    for (int i = 0; i < 3; i++) in[i] = um_from_host(device, UM_F32, 1, shape, data[i]);
    um_tensor *out = um_softsign(um_lerp(in[0], in[1], in[2]));
    CHECK_OK(um_read_f32(out, got, N));
    um_release(out);
    for (int i = 0; i < N; i++) CHECK(got[i] == softsign(lerp(data[0][i], data[1][i], data[2][i])));
}

static void run_compute(um_device *device)
{
    um_stream *stream;
    um_ptr x;
    um_view view;
    float got[N];
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, sizeof got, &x));
    CHECK_OK(um_write(stream, x, data[0], sizeof got));
    CHECK_OK(um_view_make(x, UM_F32, 1, (const int64_t[]){N}, &view));
    CHECK_OK(um_unary_view(stream, UM_OP_SOFTSIGN, 0, &view, &view));
    CHECK_OK(um_read(stream, got, x, sizeof got));
    for (int i = 0; i < N; i++) CHECK(got[i] == softsign(data[0][i]));
    CHECK_OK(um_free(device, x));
    um_stream_release(stream);
}

static void test_devices(void)
{
    static const char *const specs[] = {"cpu", "interp"};
    for (int i = 0; i < 3 * N; i++) data[i / N][i % N] = (float)(i * 29 % 64 - 32) / 8;
    for (int i = 0; i < 2; i++) {
        um_device *device;
        CHECK_OK(um_open(specs[i], &device));
        run_tensors(device);
        run_compute(device);
        um_device_release(device);
    }
}

static void render(const um_kernel *kernel, int32_t target)
{
    bool is_text = target < UM_TARGET_COUNT;
    um_spirv_flavour flavour = target == UM_TARGET_COUNT ? UM_SPIRV_VULKAN : UM_SPIRV_KERNEL;
    um_klacks lacks =
        is_text ? um_text_lacks((um_target)target, 0, 0) : um_spirv_flavour_lacks(flavour, 0, 0);
    um_kernel *lowered;
    um_text out = {0};
    CHECK_OK(um_kernel_lower(kernel, &lacks, &lowered));
    CHECK_OK(is_text ? um_render_text(lowered, (um_target)target, &out)
                     : um_render_spirv(lowered, flavour, 0, &out));
    CHECK(out.size > 200);
    um_text_release(&out);
    um_kernel_release(lowered);
}

static void test_targets(void)
{
    for (um_op_id id = UM_OP_SOFTSIGN; id <= UM_OP_LERP; id++) {
        const int64_t shape[1] = {N};
        um_kplan plan;
        um_op op = {.id = id, .in_count = um_op_get_row(id)->in_max, .out_count = 1};
        for (int32_t i = 0; i < op.in_count; i++)
            CHECK_OK(um_view_make((um_ptr)(4096 * (i + 2)), UM_F16, 1, shape, &op.in[i]));
        CHECK_OK(um_view_make(4096, UM_F16, 1, shape, &op.out[0]));
        CHECK_OK(um_kplan_make(&op, NULL, 0, &plan));
        for (int32_t target = 0; target <= UM_TARGET_COUNT + 1; target++)
            render(plan.launch[0].kernel, target);
        um_kplan_release(&plan);
    }
}

int main(void)
{
    TEST(test_names);
    TEST(test_devices);
    TEST(test_targets);
    return TEST_RESULT();
}
