/* test/test_batch.c: um_enqueue_batch: what it refuses, that it then does nothing, that a batch
 * gives the bits that its ops give one by one, and which error of several its stream tells. */
#include "base/base.h"
#include "face.h"
#include "op/table.h"
#include "test/fake_backend.h"

#include <umbel/backend.h>

FAKE(cuda)

/* A view of `count` f32, `stride` elements apart. */
static um_view floats(um_ptr ptr, int64_t count, int64_t stride)
{
    return (um_view){.ptr = ptr, .dtype = UM_F32, .rank = 1, .shape = {count}, .stride = {stride}};
}

/* out = a + b */
static um_op add(um_view out, um_view a, um_view b)
{
    return (um_op){.id = UM_OP_ADD, .in_count = 2, .out_count = 1, .in = {a, b}, .out = {out}};
}

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

static void test_arguments(void)
{
    face f = face_open();
    um_ptr p = face_put(&f, UM_F32, SHAPE(64), ones).ptr;
    um_op op[2] = {add(floats(p + 16, 4, 1), floats(p, 4, 1), floats(p, 4, 1)),
                   add(floats(0, 0, 1), floats(0, 0, 1), floats(1, 0, 1))};
    CHECK_FAILS(um_enqueue_batch(NULL, 1, op), UM_INVALID_ARGUMENT, "stream is NULL");
    CHECK_FAILS(um_enqueue_batch(f.stream, 1, NULL), UM_INVALID_ARGUMENT, "ops is NULL");
    CHECK_FAILS(um_enqueue_batch(f.stream, -1, op), UM_INVALID_ARGUMENT, "a count of -1");
    CHECK_FAILS(um_enqueue_batch(f.stream, INT64_MAX, op), UM_OUT_OF_MEMORY, "no memory for");
    CHECK_OK(um_enqueue_batch(f.stream, 0, NULL));
    CHECK_OK(um_enqueue_batch(f.stream, 1, &op[1])); /* nothing to write: no pointer is looked at */
    CHECK_OK(um_enqueue_batch(f.stream, 2, op));
    um_view four = floats(p + 16, 4, 1);
    CHECK(face_holds(&f, &four, (const float[]){2, 2, 2, 2}));
    face_close(&f);
}

/* Ops of which one is refused: nothing runs. */
static void refused(face *f, um_ptr p, um_op bad, um_status code, const char *message)
{
    um_op op[3] = {add(floats(p + 64, 4, 1), floats(p, 4, 1), floats(p, 4, 1)), bad,
                   add(floats(p + 128, 4, 1), floats(p, 4, 1), floats(p, 4, 1))};
    CHECK_FAILS(um_enqueue_batch(f->stream, 3, op), code, message);
    um_view all = floats(p, 64, 1);
    CHECK(face_holds(f, &all, ones));
}

static void test_each_op_is_checked(void)
{
    face f = face_open();
    um_ptr p = face_put(&f, UM_F32, SHAPE(64), ones).ptr, gone;
    CHECK_OK(um_alloc(f.device, 64, &gone));
    CHECK_OK(um_free(f.device, gone));
    um_view a = floats(p, 4, 1), out = floats(p + 32, 4, 1);
    refused(&f, p, add(out, a, floats(p, 5, 1)), UM_INVALID_ARGUMENT,
            "um_enqueue_batch: op 1 of 3: add: ");
    refused(&f, p, add(out, a, floats(gone, 4, 1)), UM_INVALID_ARGUMENT,
            "op 1 of 3: add: input 1, f32[4] at 0x");
    refused(&f, p, add(out, a, floats(0x123450, 4, 1)), UM_INVALID_ARGUMENT,
            "is not inside one live allocation");
    refused(&f, p, add(floats(p + 244, 4, 1), a, a), UM_INVALID_ARGUMENT, "output 0, f32[4]");
    refused(&f, p, (um_op){.id = 9999}, UM_INVALID_ARGUMENT, "there is no op 9999");
    face_close(&f);
}

static void test_overlaps_between_ops(void)
{
    face f = face_open();
    um_ptr p = face_put(&f, UM_F32, SHAPE(64), ones).ptr;
    um_view a = floats(p, 4, 1);
    /* op 0 writes floats 16 .. 19, op 2 writes 32 .. 35 */
    refused(&f, p, add(floats(p + 76, 4, 1), a, a), UM_INVALID_ARGUMENT,
            "an output of op 1, f32[4] at 0x");
    refused(&f, p, add(floats(p + 64, 4, 1), a, a), UM_INVALID_ARGUMENT,
            "overlaps an output of op ");
    refused(&f, p, add(floats(p + 4, 2, 1), floats(p, 2, 0), floats(p, 2, 0)), UM_INVALID_ARGUMENT,
            "overlaps an input of op ");
    refused(&f, p, add(floats(p + 200, 4, 1), a, floats(p + 140, 4, 1)), UM_INVALID_ARGUMENT,
            "an output of op 2, f32[4] at 0x");
    refused(&f, p, add(floats(p + 20, 2, 28), floats(p, 2, 0), floats(p, 2, 0)),
            UM_INVALID_ARGUMENT, "overlaps an output of op ");
    face_close(&f);
}

/* Woven into each other without meeting, in place, and one input for all. */
static void test_neighbours_do_not_overlap(void)
{
    face f = face_open();
    float value[32];
    for (int i = 0; i < 32; i++) value[i] = (float)i;
    um_ptr p = face_put(&f, UM_F32, SHAPE(32), value).ptr;
    um_ptr q = face_put(&f, UM_F32, SHAPE(8), value).ptr;
    um_op op[4];
    for (int64_t i = 0; i < 4; i++) {
        um_view column = floats(p + (um_ptr)i * 4, 8, 4);
        op[i] = add(column, column, floats(q, 8, 1));
    }
    CHECK_OK(um_enqueue_batch(f.stream, 4, op));
    for (int i = 0; i < 32; i++) value[i] += (float)(i / 4);
    um_view all = floats(p, 32, 1);
    CHECK(face_holds(&f, &all, value));
    op[2].in[1] = op[3].in[0];
    CHECK_FAILS(um_enqueue_batch(f.stream, 4, op), UM_INVALID_ARGUMENT,
                "an output of op 3, f32[8] at 0x");
    CHECK(face_holds(&f, &all, value));
    face_close(&f);
}

static void test_too_many_woven_views(void)
{
    enum { COLUMNS = 1600 };
    face f = face_open();
    um_ptr p = face_put(&f, UM_F32, SHAPE(2, COLUMNS), NULL).ptr;
    um_ptr q = face_put(&f, UM_F32, SHAPE(2), ones).ptr;
    um_op *op = malloc(COLUMNS * sizeof *op);
    for (int64_t i = 0; i < COLUMNS; i++)
        op[i] = add(floats(p + (um_ptr)i * 4, 2, COLUMNS), floats(q, 2, 1), floats(q, 2, 1));
    CHECK_FAILS(um_enqueue_batch(f.stream, COLUMNS, op), UM_INVALID_ARGUMENT, "smaller batches");
    CHECK_OK(um_enqueue_batch(f.stream, COLUMNS / 2, op));
    CHECK_OK(um_enqueue_batch(f.stream, COLUMNS / 2, op + COLUMNS / 2));
    float *sum = malloc(2 * COLUMNS * sizeof *sum);
    for (int64_t i = 0; i < 2 * COLUMNS; i++) sum[i] = 2;
    um_view all = floats(p, 2 * COLUMNS, 1);
    CHECK(face_holds(&f, &all, sum));
    free(sum);
    free(op);
    face_close(&f);
}

/* y = rows of x by one index */
static um_op take_row(um_view x, um_view index, um_view y)
{
    um_op op = {.id = UM_OP_INDEX_SELECT, .in_count = 2, .out_count = 1, .in = {x, index}};
    op.out[0] = y;
    return op;
}

/* Of several that fail on the device the first, in the batch's order, is told; the others run. */
static void test_first_failure_is_told(void)
{
    enum { OPS = 40 };
    face f = face_open();
    um_view x = face_put(&f, UM_F32, SHAPE(4), ones), row[OPS];
    const int64_t index[] = {1, 7, 8};
    um_ptr at = face_put(&f, UM_I64, SHAPE(3), index).ptr;
    um_ptr y = face_put(&f, UM_F32, SHAPE(OPS), NULL).ptr;
    um_op op[OPS];
    for (int i = 0; i < OPS; i++) {
        um_view which = {.ptr = at, .dtype = UM_I64, .rank = 1, .shape = {1}, .stride = {1}};
        if (i == 20) which.ptr += 8;
        if (i > 30) which.ptr += 16;
        row[i] = floats(y + (um_ptr)i * 4, 1, 1);
        op[i] = take_row(x, which, row[i]);
    }
    CHECK_OK(um_enqueue_batch(f.stream, OPS, op));
    CHECK_FAILS(um_synchronize(f.stream), UM_OUT_OF_RANGE, "7");
    CHECK_FAILS(um_enqueue_batch(f.stream, OPS, op), UM_OUT_OF_RANGE, "7");
    CHECK(um_stream_clear_error(f.stream) == UM_OUT_OF_RANGE);
    CHECK(face_holds(&f, &row[39], (const float[]){0}));
    CHECK(face_holds(&f, &row[0], ones) && face_holds(&f, &row[30], ones));
    face_close(&f);
}

/* ---- the same bits -------------------------------------------------------------------------- */

enum { SMALL = 24, LARGE = 160, OPS = 37, OUT_FLOATS = OPS * SMALL * SMALL + 2 * LARGE * LARGE };

static um_op product(um_ptr out, um_ptr a, int64_t n)
{
    um_op op = {.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1, .attrs.matmul = {.alpha = 1}};
    CHECK_OK(um_view_make(a, UM_F32, SHAPE(n, n), &op.in[0]));
    op.in[1] = op.in[0];
    CHECK_OK(um_view_make(out, UM_F32, SHAPE(n, n), &op.out[0]));
    return op;
}

/* Small products with two large ones and a map program between them. */
static void mixed(face *f, float *out, bool as_batch)
{
    float *data = malloc((OUT_FLOATS + 64) * sizeof *data);
    for (int64_t i = 0; i < OUT_FLOATS + 64; i++) data[i] = (float)(i * 7919 % 1013) / 500 - 1;
    um_ptr in = face_put(f, UM_F32, SHAPE(OUT_FLOATS + 64), data).ptr;
    um_view y = face_put(f, UM_F32, SHAPE(OUT_FLOATS), NULL);
    um_map_program negate = {.dtype = UM_F32, .inst_count = 1, .inst = {{.op = UM_OP_NEG}}};
    um_op op[OPS + 2];
    um_ptr at = y.ptr;
    for (int i = 0; i < OPS + 2; i++) {
        int64_t n = i == 10 || i == 20 ? LARGE : SMALL;
        op[i] = product(at, in + (um_ptr)i * 4, n);
        if (i == 15)
            op[i] = (um_op){.id = UM_OP_MAP,
                            .in_count = 1,
                            .out_count = 1,
                            .attrs.program = &negate,
                            .in = {op[i].in[0]},
                            .out = {op[i].out[0]}};
        at += (um_ptr)(n * n) * 4;
    }
    if (as_batch)
        CHECK_OK(um_enqueue_batch(f->stream, OPS + 2, op));
    else
        for (int i = 0; i < OPS + 2; i++) CHECK_OK(um_enqueue(f->stream, &op[i]));
    negate.inst_count = 99; /* it was copied */
    face_get(f, &y, out);
    free(data);
}

static void mixed_batch(face *f, void *bits) { mixed(f, bits, true); }

static void test_same_bits(void)
{
    CHECK(same_for_any_threads(mixed_batch, OUT_FLOATS * sizeof(float)));
    float *batch = malloc(OUT_FLOATS * sizeof *batch), *alone = malloc(OUT_FLOATS * sizeof *alone);
    face f = face_open();
    mixed(&f, batch, true);
    mixed(&f, alone, false);
    CHECK(memcmp(batch, alone, OUT_FLOATS * sizeof *batch) == 0);
    face_close(&f);
    free(batch);
    free(alone);
}

/* ---- layers, other backends, no memory ------------------------------------------------------- */

static um_status small_batch(const char *spec, float *sum)
{
    um_device *device;
    um_stream *stream = NULL;
    um_ptr p = 0;
    UM_TRY(um_open(spec, &device));
    um_status status = um_stream_create(device, &stream);
    if (status == UM_OK) status = um_alloc(device, sizeof ones, &p);
    if (status == UM_OK) status = um_write(stream, p, ones, sizeof ones);
    um_op op[3];
    for (int i = 0; i < 3; i++)
        op[i] = add(floats(p + 64 + (um_ptr)i * 16, 4, 1), floats(p, 4, 1), floats(p, 4, 1));
    if (status == UM_OK) status = um_enqueue_batch(stream, 3, op);
    if (status == UM_OK) status = um_read(stream, sum, p + 96, sizeof *sum);
    um_stream_release(stream);
    if (p) CHECK_OK(um_free(device, p));
    um_device_release(device);
    return status;
}

static void test_layers(void)
{
    float sum = 0;
    CHECK_OK(small_batch("cpu+validate+trace", &sum));
    CHECK(sum == 2);
    /* a backend without batches: the core calls enqueue for each */
    static const um_backend *fakes[] = {&fake_cuda.table};
    static const um_op_id runs[] = {UM_OP_ADD, UM_OP_NONE};
    cuda_make();
    fake_cuda.count = 1;
    fake_cuda.info[0] = (um_device_info){.kind = UM_DEVICE_CUDA};
    fake_runs = runs;
    um_registry_set_extra(fakes, 1);
    CHECK_OK(small_batch("cuda+validate", &sum));
    CHECK_MSG(sum == 2 && fake_enqueues == 3, "%g, %d", (double)sum, fake_enqueues);
    um_registry_set_extra(NULL, 0);
}

static void test_no_memory(void)
{
    int refusals = 0;
    for (int64_t n = 1;; n++) {
        float sum = 0;
        int64_t blocks = um_mem_live_count();
        um_mem_fail_at(n, false);
        um_status status = small_batch("cpu", &sum);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(um_mem_live_count() == blocks, "leak at call %lld", (long long)n);
        CHECK(status == UM_OK ? sum == 2 : status == UM_OUT_OF_MEMORY);
        refusals += status != UM_OK;
        if (!reached) break;
    }
    CHECK_MSG(refusals >= 10, "%d", refusals);
}

int main(void)
{
    setenv("UMBEL_TRACE", "/dev/null", 1);
    TEST(test_arguments);
    TEST(test_each_op_is_checked);
    TEST(test_overlaps_between_ops);
    TEST(test_neighbours_do_not_overlap);
    TEST(test_too_many_woven_views);
    TEST(test_first_failure_is_told);
    TEST(test_same_bits);
    TEST(test_layers);
    TEST(test_no_memory);
    return TEST_RESULT();
}
