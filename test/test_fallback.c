/* Ops that a device lacks, run elsewhere: every result against the CPU's, over views of every kind;
 * nothing outside the outputs written; counting, reports, strict mode, failures. */
#include "test/fake_backend.h"

#include <stdlib.h>

FAKE(vulkan)
FAKE(cuda)

static const um_op_id only_copy[] = {UM_OP_COPY, UM_OP_NONE};

static void add_fakes(void)
{
    static const um_backend *all[] = {&fake_cuda.table, &fake_vulkan.table};
    cuda_make();
    vulkan_make();
    fake_cuda.count = fake_vulkan.count = 1;
    fake_cuda.info[0] = (um_device_info){.kind = UM_DEVICE_CUDA, .is_gpu = 1, .name = "Few"};
    fake_vulkan.info[0] = (um_device_info){.kind = UM_DEVICE_VULKAN, .is_gpu = 1, .name = "None"};
    um_registry_set_extra(all, 2);
}

static um_device *open_device(const char *spec)
{
    um_device *device = NULL;
    CHECK_OK(um_open(spec, &device));
    return device;
}

/* ---- the same op on both -------------------------------------------------------------------- */

enum { BYTES = 8192, SLOT = 2048 };

/* A device with one block of memory, filled with the same on each. */
typedef struct side {
    um_device *device;
    um_stream *stream;
    um_ptr ptr;
    uint8_t bytes[BYTES];
} side;

static um_fallback_report last; /* texts are not kept */
static char last_to[32], last_why[64];
static int reports;

static void keep_report(void *user, const um_fallback_report *report)
{
    CHECK(user == &last && report->struct_size == sizeof last);
    last = *report;
    snprintf(last_to, sizeof last_to, "%s", report->to);
    snprintf(last_why, sizeof last_why, "%s", report->why);
    reports++;
}

static void open_side(side *s, const char *spec)
{
    s->device = open_device(spec);
    CHECK_OK(um_stream_create(s->device, &s->stream));
    CHECK_OK(um_alloc(s->device, BYTES, &s->ptr));
    for (int i = 0; i < BYTES; i += 4) { /* floats of -8 .. 8, and small integers */
        float value = (float)(i * 37 % 129 - 64) / 8;
        memcpy(s->bytes + i, &value, 4);
    }
    CHECK_OK(um_write(s->stream, s->ptr, s->bytes, BYTES));
    um_device_set_fallback_callback(s->device, keep_report, &last);
}

static void close_side(side *s)
{
    CHECK_OK(um_free(s->device, s->ptr));
    um_stream_release(s->stream);
    um_device_release(s->device);
}

/* The op's pointers are offsets into the block. */
static um_status run(side *s, const um_op *op)
{
    um_op own = *op;
    for (int32_t i = 0; i < own.in_count; i++) own.in[i].ptr += s->ptr;
    for (int32_t i = 0; i < own.out_count; i++) own.out[i].ptr += s->ptr;
    um_status status = um_enqueue(s->stream, &own);
    um_error error = *um_last_error();
    CHECK_OK(um_read(s->stream, s->bytes, s->ptr, BYTES));
    return status == UM_OK ? UM_OK : um_fail_again(&error);
}

/* moved_bytes: what has to move, 0: unknown. */
static void same_on_both(const char *what, const um_op *op, uint64_t moved_bytes)
{
    side own = {0}, cpu = {0};
    open_side(&own, "cuda");
    open_side(&cpu, "cpu");
    last = (um_fallback_report){0};
    CHECK_OK(run(&own, op));
    CHECK_OK(run(&cpu, op));
    CHECK_MSG(memcmp(own.bytes, cpu.bytes, BYTES) == 0, "%s", what);
    CHECK_MSG(um_fallback_count(own.device) == 1 && um_fallback_count(cpu.device) == 0, "%s", what);
    CHECK_MSG(last.op == op->id && last.status == UM_OK && strcmp(last_to, "cpu:0") == 0, "%s",
              what);
    CHECK_MSG(moved_bytes == 0 || last.moved_bytes == moved_bytes, "%s: %llu bytes moved", what,
              (unsigned long long)last.moved_bytes);
    close_side(&own);
    close_side(&cpu);
}

static um_view view2(um_ptr at, um_dtype dtype, int64_t rows, int64_t columns, int64_t row_stride,
                     int64_t column_stride)
{
    return (um_view){.ptr = at,
                     .dtype = dtype,
                     .rank = 2,
                     .shape = {rows, columns},
                     .stride = {row_stride, column_stride}};
}

static um_op binary(um_view out, um_view a, um_view b)
{
    return (um_op){.id = UM_OP_ADD, .in_count = 2, .out_count = 1, .in = {a, b}, .out = {out}};
}

static void check_views(void)
{
    um_view a = view2(4, UM_F32, 5, 7, 7, 1), b = view2(SLOT, UM_F32, 5, 7, 7, 1);
    um_view out = view2(2 * SLOT, UM_F32, 5, 7, 7, 1);
    um_op op = binary(out, a, b);
    same_on_both("packed", &op, 3 * 140);
    op = binary(a, a, b);
    same_on_both("in place", &op, 3 * 140);
    op = binary(out, a, a);
    same_on_both("one input twice", &op, 2 * 140);
    op = binary(view2(2 * SLOT, UM_F32, 5, 7, 10, 1), a, b);
    same_on_both("rows with gaps", &op, 2 * 140 + (4 * 10 + 7) * 4 + 140);
    op = binary(view2(2 * SLOT + 1000, UM_F32, 5, 7, -20, -2), a, b);
    same_on_both("backwards", &op, 2 * 140 + (4 * 20 + 6 * 2 + 1) * 4 + 140);
    op = binary(view2(2 * SLOT, UM_F32, 5, 7, 1, 5), a, b);
    same_on_both("turned", &op, 0);
    op = binary(view2(2 * SLOT, UM_F32, 5, 7, 2, 30), a, b);
    same_on_both("turned with gaps, packed on its way", &op, 0);
    op = binary(out, a, view2(SLOT, UM_F32, 5, 7, 0, 0));
    same_on_both("broadcast", &op, 2 * 140 + 4);
    /* Even columns from odd ones, of one matrix; and its rows in the other order. */
    op = binary(view2(8, UM_F32, 10, 7, 20, 2), view2(12, UM_F32, 10, 7, 20, 2),
                view2(12 + 9 * 80, UM_F32, 10, 7, -20, 2));
    same_on_both("woven", &op, (9 * 20 + 13 + 1) * 4 + 10 * 7 * 4);
    /* An output around both inputs, so that three ranges become one; its rows are 7 of 300. */
    op = binary(view2(500, UM_F32, 5, 7, 300, 1), view2(1000, UM_F32, 5, 7, 0, 1),
                view2(2000, UM_F32, 5, 7, 0, 1));
    same_on_both("around both", &op, (4 * 300 + 7) * 4 + 140);
    op = binary(view2(8, UM_F32, 1, 1, 3, -4), view2(12, UM_F32, 1, 1, 0, 0), a);
    op.in[1] = view2(16, UM_F32, 1, 1, 9, 9);
    same_on_both("one element", &op, 12);
}

static void test_views(void)
{
    fake_runs = NULL;
    check_views();
    fake_runs = only_copy; /* so the device itself spreads an output of many short rows */
    check_views();
}

/* ---- ops of other shapes -------------------------------------------------------------------- */

static void test_ops(void)
{
    fake_runs = NULL;
    um_op op = {.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1, .attrs.matmul = {.alpha = 1}};
    op.in[0] = view2(0, UM_F32, 6, 9, 9, 1);
    op.in[1] = view2(SLOT, UM_F32, 9, 5, 1, 9);
    op.out[0] = view2(2 * SLOT, UM_F32, 6, 5, 8, 1);
    same_on_both("matmul", &op, 0);

    op = (um_op){.id = UM_OP_MAX_POOL, .in_count = 1, .out_count = 2};
    op.attrs.pool = (um_pool_desc){.kernel = {2}, .stride = {2}, .dilation = {1}};
    op.in[0] = (um_view){.dtype = UM_F32, .rank = 3, .shape = {2, 3, 8}, .stride = {24, 8, 1}};
    op.out[0] = op.out[1] = (um_view){
        .ptr = SLOT, .dtype = UM_F32, .rank = 3, .shape = {2, 3, 4}, .stride = {40, 10, 2}};
    op.out[1].ptr = 2 * SLOT;
    op.out[1].dtype = UM_I64;
    same_on_both("two outputs", &op, 0);

    um_map_program program = {.dtype = UM_F32, .inst_count = 1};
    program.inst[0] = (um_map_inst){.op = UM_OP_MUL, .src = {0, 0}};
    op = (um_op){.id = UM_OP_MAP, .in_count = 1, .out_count = 1, .attrs.program = &program};
    op.in[0] = view2(0, UM_F32, 3, 4, 4, 1);
    op.out[0] = view2(SLOT, UM_F32, 3, 4, 4, 1);
    same_on_both("a program", &op, 96);

    /* f64 between f32, in a range that begins at 4: the other device has them as aligned as here.
     */
    op = (um_op){.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = (um_view){.ptr = 4, .dtype = UM_F32, .rank = 1, .shape = {8}, .stride = {4}};
    op.out[0] = (um_view){.ptr = 8, .dtype = UM_F64, .rank = 1, .shape = {8}, .stride = {2}};
    same_on_both("two dtypes woven", &op, 7 * 16 + 12 + 64);

    op = (um_op){.id = UM_OP_ARANGE, .out_count = 1, .attrs.arange = {.start = 3, .step = -1}};
    op.out[0] = (um_view){.ptr = 64, .dtype = UM_F16, .rank = 1, .shape = {9}, .stride = {-3}};
    same_on_both("no input", &op, (8 * 3 + 1) * 2 + 18);

    op = (um_op){.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    for (int odd = 0; odd < 2; odd++) { /* half bytes: the neighbours stay */
        op.in[0] = view2(0, UM_F4E2M1, 4, 3, 3, 1);
        op.out[0] = view2(SLOT, UM_F4E2M1, 4, 3, 8 + odd, 1);
        same_on_both("half bytes", &op, 0);
        op.out[0] = view2(SLOT + 100, UM_F4E2M1, 4, 3, -7, -2);
        same_on_both("half bytes backwards", &op, 0);
    }
}

/* A batch of which one op runs at home. */
static void test_batch(void)
{
    fake_runs = only_copy;
    um_device *device = open_device("cuda");
    um_stream *stream;
    um_ptr ptr;
    float data[16] = {1, 2, 3, 4, 5, 6, 7, 8}, back[16];
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, sizeof data, &ptr));
    CHECK_OK(um_write(stream, ptr, data, sizeof data));
    um_view in = view2(ptr, UM_F32, 1, 4, 4, 1);
    um_op ops[4] = {binary(view2(ptr + 32, UM_F32, 1, 4, 4, 1), in, in),
                    {0},
                    binary(view2(ptr + 48, UM_F32, 1, 0, 4, 1), in, in),
                    {0}};
    ops[1] = (um_op){.id = UM_OP_COPY, .in_count = 1, .out_count = 1, .in = {in}};
    ops[1].out[0] = view2(ptr + 16, UM_F32, 1, 4, 4, 1);
    ops[2].in[0].shape[1] = ops[2].in[1].shape[1] = 0;
    ops[3] = (um_op){.id = UM_OP_NEG, .in_count = 1, .out_count = 1, .in = {in}};
    ops[3].out[0] = view2(ptr + 48, UM_F32, 1, 4, 4, 1);
    CHECK_OK(um_enqueue_batch(stream, 4, ops));
    CHECK_OK(um_read(stream, back, ptr, sizeof back));
    const float wanted[16] = {1, 2, 3, 4, 1, 2, 3, 4, 2, 4, 6, 8, -1, -2, -3, -4};
    CHECK(memcmp(back, wanted, sizeof back) == 0 && um_fallback_count(device) == 2);
    ops[3].out[0].ptr = ptr + 32; /* two that move, into the same place */
    CHECK_FAILS(um_enqueue_batch(stream, 4, ops), UM_INVALID_ARGUMENT, "overlaps");
    um_device_set_strict(device, true);
    CHECK_FAILS(um_enqueue_batch(stream, 4, ops), UM_UNSUPPORTED, "op 0 of 4: add: cuda:0 cannot");
    CHECK(um_fallback_count(device) == 2);
    CHECK_OK(um_free(device, ptr));
    um_stream_release(stream);
    um_device_release(device);
}

/* ---- who may, and what goes wrong ----------------------------------------------------------- */

static void test_chain(void)
{
    um_view a = view2(0, UM_F32, 2, 2, 2, 1);
    um_op op = binary(view2(SLOT, UM_F32, 2, 2, 2, 1), a, a), empty = op;
    empty.in[0].shape[0] = empty.in[1].shape[0] = empty.out[0].shape[0] = 0;
    fake_runs = NULL;
    side own = {0};
    open_side(&own, "cuda");
    reports = 0;
    CHECK_OK(run(&own, &op)); /* past vulkan, which cannot either */
    CHECK_OK(run(&own, &empty));
    CHECK(reports == 1 && strcmp(last_to, "cpu:0") == 0);
    CHECK_MSG(strcmp(last_why, "a fake has no add") == 0, "%s", last_why);
    CHECK(!um_supports(own.device, &op, NULL, 0));
    const int32_t vulkan = um_backend_count() - 1, cpu = 2; /* behind vulkan and opencl */
    CHECK_OK(um_device_set_fallback(own.device, &(um_device_ref){vulkan, 0}, 1));
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED,
                "add: cuda:0 cannot run it: a fake has no add; nor can vulkan: a fake has no add");
    CHECK_OK(um_device_set_fallback(own.device, NULL, 0));
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED, "cuda:0 cannot run it: a fake has no add");
    CHECK_OK(um_device_set_fallback(own.device, (um_device_ref[]){{vulkan, 0}, {cpu, 0}}, 2));
    fake_vulkan.fails_to_open = true; /* it is open in the stream, so this does not matter */
    CHECK_OK(run(&own, &op));
    um_device_set_strict(own.device, true);
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED, "strict: no other device may");
    CHECK_OK(run(&own, &empty));
    um_device_set_strict(own.device, false);
    um_device_set_fallback_callback(own.device, NULL, NULL);
    CHECK_OK(run(&own, &op));
    CHECK(um_fallback_count(own.device) == 3 && reports == 2);
    close_side(&own);
    fake_vulkan.fails_to_open = false;

    um_device_ref ref = {99, 0};
    um_device *device = open_device("cuda");
    CHECK_FAILS(um_device_set_fallback(device, &ref, 1), UM_OUT_OF_RANGE, "index 99");
    CHECK_FAILS(um_device_set_fallback(device, &ref, 17), UM_INVALID_ARGUMENT, "at most 16");
    CHECK_FAILS(um_device_set_fallback(device, NULL, 1), UM_INVALID_ARGUMENT, "list is NULL");
    CHECK_FAILS(um_device_set_fallback(NULL, &ref, 1), UM_INVALID_ARGUMENT, "device is NULL");
    CHECK(um_fallback_count(NULL) == 0);
    um_device_release(device);
}

/* A request for a GPU is no permission to compute on the CPU. */
static void test_request_chain(void)
{
    um_view a = view2(0, UM_F32, 2, 2, 2, 1);
    um_op op = binary(view2(SLOT, UM_F32, 2, 2, 2, 1), a, a);
    um_request request = {.struct_size = sizeof request, .gpu_required = 1};
    um_device *device;
    CHECK_OK(um_open_request(&request, &device));
    side own = {0};
    open_side(&own, "cuda");
    CHECK(own.device == device);
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED, "nor can vulkan");
    close_side(&own);
    um_device_release(device);
}

static void test_strict_environment(void)
{
    um_view a = view2(0, UM_F32, 2, 2, 2, 1);
    um_op op = binary(view2(SLOT, UM_F32, 2, 2, 2, 1), a, a);
    for (int strict = 0; strict < 2; strict++) {
        side own = {0};
        setenv("UMBEL_STRICT", strict ? "1" : "0", 1);
        open_side(&own, "cuda");
        um_status status = run(&own, &op);
        CHECK(status == (strict ? UM_UNSUPPORTED : UM_OK));
        close_side(&own);
    }
    unsetenv("UMBEL_STRICT");
}

/* The op's own failure is the call's, nothing is written, and the stream goes on. */
static void test_failing_op(void)
{
    side own = {0}, before = {0};
    int32_t index[2] = {1, 77};
    um_op op = {.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1};
    op.in[0] = view2(0, UM_F32, 3, 2, 2, 1);
    op.in[1] = (um_view){.ptr = SLOT, .dtype = UM_I32, .rank = 1, .shape = {2}, .stride = {1}};
    op.out[0] = view2(2 * SLOT, UM_F32, 2, 2, 2, 1);
    open_side(&own, "cuda");
    open_side(&before, "cuda");
    CHECK_OK(um_write(own.stream, own.ptr + SLOT, index, sizeof index));
    memcpy(before.bytes + SLOT, index, sizeof index);
    CHECK_FAILS(run(&own, &op), UM_OUT_OF_RANGE, "embedding");
    CHECK(last.status == UM_OUT_OF_RANGE && memcmp(own.bytes, before.bytes, BYTES) == 0);
    index[1] = 2;
    CHECK_OK(um_write(own.stream, own.ptr + SLOT, index, sizeof index));
    CHECK_OK(run(&own, &op));
    CHECK(memcmp(own.bytes + 2 * SLOT, own.bytes + 8, 8) == 0);
    CHECK(memcmp(own.bytes + 2 * SLOT + 8, own.bytes + 16, 8) == 0);
    close_side(&own);
    close_side(&before);
}

static void test_out_of_memory(void)
{
    um_view a = view2(0, UM_F32, 50, 2, 4, 2);
    um_op op = binary(view2(SLOT, UM_F32, 50, 2, 5, 2), a, a);
    int64_t blocks = um_mem_live_count(), refused = 0;
    fake_runs = only_copy;
    for (int64_t n = 1;; n++) {
        side own = {0};
        open_side(&own, "cuda");
        um_mem_fail_at(n, false);
        um_status status = um_enqueue(own.stream, &(um_op){.id = UM_OP_COPY});
        CHECK(status == UM_INVALID_ARGUMENT);
        status = run(&own, &op);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(status == UM_OK || status == UM_OUT_OF_MEMORY, "%s", um_last_error()->message);
        CHECK_OK(run(&own, &op));
        refused += status != UM_OK;
        close_side(&own);
        CHECK_MSG(um_mem_live_count() == blocks, "call %lld leaks", (long long)n);
        if (!reached) break;
    }
    CHECK_MSG(refused >= 5, "%lld", (long long)refused);
}

/* null runs nothing, and nothing runs for it. */
static void test_null(void)
{
    um_view a = view2(0, UM_F32, 2, 2, 2, 1);
    um_op op = binary(view2(SLOT, UM_F32, 2, 2, 2, 1), a, a);
    side own = {0};
    open_side(&own, "null");
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED, "add: null:0 cannot run it: null computes nothing");
    op.id = UM_OP_MATMUL;
    op.attrs.matmul.alpha = 1;
    CHECK_FAILS(run(&own, &op), UM_UNSUPPORTED, "matmul: null:0 cannot run it");
    CHECK_OK(um_enqueue_batch(own.stream, 0, NULL));
    op.in[0].shape[0] = op.out[0].shape[0] = 0;
    CHECK_OK(run(&own, &op));
    CHECK_OK(um_enqueue_batch(own.stream, 1, &op));
    CHECK(um_fallback_count(own.device) == 0);
    close_side(&own);
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    unsetenv("UMBEL_STRICT");
    add_fakes();
    int64_t blocks = um_mem_live_count();
    TEST(test_views);
    TEST(test_ops);
    TEST(test_batch);
    TEST(test_chain);
    TEST(test_request_chain);
    TEST(test_strict_environment);
    TEST(test_failing_op);
    TEST(test_out_of_memory);
    TEST(test_null);
    CHECK(um_mem_live_count() == blocks);
    return TEST_RESULT();
}
