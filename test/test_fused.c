/* test/test_fused.c: programs that ride on an op: the bits are those of the ops one after the
 * other, the program is the caller's again after the call, and what is refused. */
#include "face.h"

#include <umbel/graph.h>

enum { MOST = 1 << 20 };

static face f;
static float numbers[MOST];

static um_view floats(int32_t rank, const int64_t *shape)
{
    return face_put(&f, UM_F32, rank, shape, numbers);
}

static void fill_numbers(void)
{
    uint32_t state = 1;
    for (int32_t i = 0; i < MOST; i++) {
        state = state * 1664525 + 1013904223;
        numbers[i] = (float)(int32_t)state / 0x1p31f;
    }
}

/* ---- the same bits -------------------------------------------------------------------------- */

/* exp(x * y) - 0.5 */
static um_map_program before_of(uint8_t in_count)
{
    um_map_program p = {.dtype = UM_F32, .inst_count = 4};
    p.inst[0] = (um_map_inst){.op = UM_OP_MUL, .src = {0, 1}};
    p.inst[1] = (um_map_inst){.op = UM_OP_EXP, .src = {in_count}};
    p.inst[2] = (um_map_inst){.op = UM_OP_FILL, .value = 0.5};
    p.inst[3] = (um_map_inst){.op = UM_OP_SUB, .src = {in_count + 1, in_count + 2}};
    return p;
}

/* tanh(x) * input `y`, of in_count inputs */
static um_map_program after_of(uint8_t y, uint8_t in_count)
{
    um_map_program p = {.dtype = UM_F32, .inst_count = 2};
    p.inst[0] = (um_map_inst){.op = UM_OP_TANH, .src = {0}};
    p.inst[1] = (um_map_inst){.op = UM_OP_MUL, .src = {in_count, y}};
    return p;
}

static um_view like(const um_view *view)
{
    return face_put(&f, view->dtype, view->rank, view->shape, NULL);
}

static um_view run_map(const um_map_program *program, const um_view *a, const um_view *b)
{
    um_op op = {.id = UM_OP_MAP, .in_count = 2, .out_count = 1, .in = {*a, *b}, .out = {like(a)}};
    op.attrs.program = program;
    CHECK_OK(um_enqueue(f.stream, &op));
    return op.out[0];
}

static void check_same(const um_view *a, const um_view *b, const char *what)
{
    size_t bytes = view_bytes(a);
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    CHECK_OK(um_read(f.stream, x, a->ptr, bytes));
    CHECK_OK(um_read(f.stream, y, b->ptr, bytes));
    CHECK_MSG(memcmp(x, y, bytes) == 0, "%s", what);
    free(x);
    free(y);
}

static void same_reduction(um_op_id id, int32_t rank, const int64_t *shape, uint32_t axes)
{
    um_view x = floats(rank, shape), y = floats(rank, shape);
    um_op bare = {.id = id, .in_count = 1, .out_count = 1, .attrs.reduce.axes = axes};
    um_map_program before = before_of(2), alone = before_of(2);
    bare.in[0] = run_map(&alone, &x, &y);
    CHECK_OK(um_op_infer(&bare));
    bare.out[0] = like(&bare.out[0]);
    CHECK_OK(um_enqueue(f.stream, &bare));
    um_view z = floats(bare.out[0].rank, bare.out[0].shape);
    um_map_program after = after_of(1, 2);
    um_view wanted = run_map(&after, &bare.out[0], &z);

    um_op fused = bare;
    before = before_of(3);
    after = after_of(2, 3);
    fused.in_count = 3;
    fused.in[0] = x, fused.in[1] = y, fused.in[2] = z;
    fused.attrs.reduce.prologue = &before;
    fused.attrs.reduce.epilogue = &after;
    fused.out[0] = like(&wanted);
    CHECK_OK(um_enqueue(f.stream, &fused));
    memset(&before, 0xff, sizeof before); /* neither is looked at again */
    memset(&after, 0xff, sizeof after);
    check_same(&wanted, &fused.out[0], um_op_name(id));
    fused.out[0] = z; /* in place */
    before = before_of(3);
    after = after_of(2, 3);
    CHECK_OK(um_enqueue(f.stream, &fused));
    check_same(&wanted, &z, "in place");
}

static void test_same_reductions(void)
{
    static const um_op_id ids[] = {UM_OP_SUM, UM_OP_MEAN,      UM_OP_PROD, UM_OP_REDUCE_MAX,
                                   UM_OP_L1,  UM_OP_LOGSUMEXP, UM_OP_L2,   UM_OP_STD};
    static const struct {
        int64_t shape[3];
        uint32_t axes;
    } rows[] = {{{7, 1, 140000}, 4},  {{300000, 1, 3}, 1}, {{40, 5000, 1}, 2}, {{600, 1, 1030}, 1},
                {{40, 129, 40}, 2},   {{3, 70000, 2}, 6},  {{20000, 5, 3}, 6}, {{1000, 30, 20}, 5},
                {{1 << 19, 1, 1}, 1}, {{33, 65, 3}, 7}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        f = face_open();
        for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
            same_reduction(ids[i], 3, rows[r].shape, rows[r].axes);
            for (; f.block_count > 0; f.block_count--)
                CHECK_OK(um_free(f.device, f.block[f.block_count - 1]));
        }
        face_close(&f);
    }
}

/* ---- captured ------------------------------------------------------------------------------- */

/* tanh(conv) * y, into memory of its own and onto y. */
static void same_conv(int32_t layout, int64_t kernel, int64_t groups)
{
    bool last = layout == UM_CHANNELS_LAST;
    um_view x = last ? floats(SHAPE(2, 9, 11, 6)) : floats(SHAPE(2, 6, 9, 11));
    um_view w = floats(SHAPE(8, 6 / groups, kernel, kernel)), bias = floats(SHAPE(8));
    um_op bare = {.id = UM_OP_CONV, .in_count = 3, .out_count = 1, .in = {x, w, bias}};
    um_conv_desc *d = &bare.attrs.conv_fused.desc;
    memset(&bare.attrs, 0, sizeof bare.attrs);
    d->layout = layout;
    d->groups = (int32_t)groups;
    for (int32_t i = 0; i < 2; i++) {
        d->stride[i] = d->dilation[i] = 1;
        d->pad_before[i] = d->pad_after[i] = (int32_t)kernel / 2;
    }
    CHECK_OK(um_op_infer(&bare));
    bare.out[0] = like(&bare.out[0]);
    CHECK_OK(um_enqueue(f.stream, &bare));
    um_view y = floats(4, bare.out[0].shape);
    um_map_program alone = after_of(1, 2), after = after_of(3, 4);
    um_view wanted = run_map(&alone, &bare.out[0], &y);
    um_op fused = bare;
    fused.in_count = 4;
    fused.in[3] = y;
    fused.attrs.conv_fused.epilogue = &after;
    fused.out[0] = like(&wanted);
    CHECK_OK(um_enqueue(f.stream, &fused));
    check_same(&wanted, &fused.out[0], "conv");
    fused.out[0] = y;
    CHECK_OK(um_enqueue(f.stream, &fused));
    check_same(&wanted, &y, "conv in place");
}

static void test_same_convs(void)
{
    f = face_open();
    for (int32_t layout = UM_CHANNELS_FIRST; layout <= UM_CHANNELS_LAST; layout++) {
        same_conv(layout, 3, 1);
        same_conv(layout, 3, 2);
        same_conv(layout, 1, 1);
    }
    face_close(&f);
}

static void test_capture(void)
{
    f = face_open();
    um_map_program before = {.dtype = UM_F32, .inst_count = 1}, after = before;
    before.inst[0] = (um_map_inst){.op = UM_OP_SQUARE, .src = {0}};
    after.inst[0] = (um_map_inst){.op = UM_OP_SQRT, .src = {0}};
    um_view x = face_put(&f, UM_F32, SHAPE(2), (const float[]){3, 4});
    um_op op = {.id = UM_OP_SUM, .in_count = 1, .out_count = 1, .in = {x}};
    op.attrs.reduce.prologue = &before;
    op.attrs.reduce.epilogue = &after;
    op.out[0] = face_put(&f, UM_F32, 0, NULL, NULL);
    um_graph *graph;
    CHECK_OK(um_capture_begin(f.stream));
    CHECK_OK(um_enqueue(f.stream, &op));
    CHECK_OK(um_capture_end(f.stream, &graph));
    um_view out = op.out[0];
    memset(&before, 0xff, sizeof before);
    memset(&after, 0xff, sizeof after);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(um_graph_launch(f.stream, graph, NULL, 0));
        CHECK(face_holds(&f, &out, (const float[]){5}));
    }
    um_graph_release(graph);
    face_close(&f);
}

/* ---- refused -------------------------------------------------------------------------------- */

#define REFUSED(op, message) CHECK_FAILS(um_op_infer(&(op)), UM_INVALID_ARGUMENT, message)

static void test_rule(void)
{
    um_map_program p = {.dtype = UM_F32, .inst_count = 1};
    p.inst[0] = (um_map_inst){.op = UM_OP_ADD, .src = {0, 1}};
    um_op op = {.id = UM_OP_SUM, .in_count = 2, .out_count = 1};
    CHECK_OK(um_view_make(1 << 20, UM_F16, SHAPE(3, 4), &op.in[0]));
    CHECK_OK(um_view_make(2 << 20, UM_I8, SHAPE(3, 4), &op.in[1]));
    REFUSED(op, "sum: wants 1 inputs, got 2");
    op.attrs.reduce.axes = UM_AXIS(1);
    op.attrs.reduce.prologue = &p;
    REFUSED(op, "sum: no program gives none");
    op.out[0].dtype = UM_BF16;
    CHECK_OK(um_op_infer(&op));
    CHECK(op.out[0].dtype == UM_BF16 && op.out[0].rank == 1 && op.out[0].shape[0] == 3);
    op.out[0].ptr = op.in[1].ptr;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "output 0 overlaps input 1");
    op.attrs.reduce.prologue = NULL;
    op.attrs.reduce.epilogue = &p;
    REFUSED(op, "sum: epilogue: shapes differ: the output is bf16[3], its input is i8[3,4]");
    CHECK_OK(um_view_make(2 << 20, UM_I8, SHAPE(3), &op.in[1]));
    CHECK_OK(um_op_infer(&op));
    op.in[1].dtype = UM_F4E2M1;
    REFUSED(op, "sum: epilogue: input 1 is f4e2m1: programs do not load that");
    op.in[1].dtype = UM_F16;
    op.out[0].ptr = op.in[1].ptr; /* in place */
    CHECK_OK(um_op_check(&op));
    p.inst[0].src[1] = 2;
    REFUSED(op, "sum: epilogue, instruction 0: add reads value 2, only 2 are defined");
    p.inst[0].src[1] = 0;
    REFUSED(op, "sum: no program reads input 1");
    p.inst_count = 25;
    REFUSED(op, "sum: epilogue: wants 1 to 24 instructions, got 25");
    p.inst_count = 1;
    p.dtype = UM_I32;
    op.attrs.reduce.prologue = &p;
    op.in_count = 1;
    op.id = UM_OP_MEAN;
    REFUSED(op, "mean: prologue as input 0 is i32, wants one of f64 f32 f16 bf16");
    op.id = UM_OP_ARGMAX;
    REFUSED(op, "argmax: has no prologue and no epilogue");
}

/* Nine values from outside are too many for one program, not for two. */
static void test_most_inputs(void)
{
    um_map_program before = {.dtype = UM_F32, .inst_count = 8}, after = before;
    um_op op = {.id = UM_OP_SUM, .in_count = 10, .out_count = 1, .out[0].dtype = UM_F32};
    for (int32_t i = 0; i < 10; i++)
        CHECK_OK(um_view_make((um_ptr)(i + 1) << 20, UM_F32, SHAPE(4), &op.in[i]));
    for (uint8_t i = 0; i < 8; i++)
        before.inst[i] = (um_map_inst){.op = UM_OP_ADD, .src = {i ? 9 + i : 0, i + 1}};
    op.attrs.reduce.prologue = &before;
    op.attrs.reduce.keepdims = 1;
    REFUSED(op, "sum: prologue: reads 9 inputs, at most 8");
    before.inst_count = 7;
    REFUSED(op, "sum: no program reads input 8");
    after.inst_count = 1;
    after.inst[0] = (um_map_inst){.op = UM_OP_FMA, .src = {0, 8, 9}};
    op.attrs.reduce.epilogue = &after;
    op.in[8].shape[0] = op.in[9].shape[0] = 1;
    CHECK_OK(um_op_infer(&op));
    op.in_count = 11;
    REFUSED(op, "sum: wants 1 to 10 inputs, got 11");
}

int main(void)
{
    fill_numbers();
    TEST(test_same_reductions);
    TEST(test_same_convs);
    TEST(test_capture);
    TEST(test_rule);
    TEST(test_most_inputs);
    return TEST_RESULT();
}
