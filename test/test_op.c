/* test/test_op.c: the op table: names, views, axes, every rule and its messages. Memory and
 * samples: test_op_check.c. */
#include "op_build.h"

#include <math.h>

#define CHECK_REFUSED(op, text)                                                                    \
    do {                                                                                           \
        um_op refused_ = (op);                                                                     \
        CHECK_FAILS(um_op_infer(&refused_), UM_INVALID_ARGUMENT, text);                            \
        CHECK_FAILS(um_op_check(&(op)), UM_INVALID_ARGUMENT, text);                                \
    } while (0)

/* ---- table, views, axes ---------------------------------------------------------------------- */

static void test_names(void)
{
    const int32_t rows = 0
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc) +1
#include <umbel/op.def>
        ;
    CHECK(um_op_count() == rows);
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        CHECK(um_op_get_row(id)->id == id);
        CHECK(um_op_find(um_op_name(id)) == id);
        CHECK(um_op_doc(id)[0] != 0);
        CHECK(um_op_get_row(id)->in_max <= UM_OP_MAX_INPUTS);
        CHECK(um_op_get_row(id)->out_count <= UM_OP_MAX_OUTPUTS);
    }
    CHECK(strcmp(um_op_name(UM_OP_MATMUL), "matmul") == 0);
    CHECK(strcmp(um_op_name(0), "none") == 0 && strcmp(um_op_name(-1), "none") == 0);
    CHECK(strcmp(um_op_doc(1000), "") == 0);
    CHECK(um_op_find("nothing") == UM_OP_NONE && um_op_find(NULL) == UM_OP_NONE);
    CHECK(um_op_get_row(0) == NULL && um_op_get_row(INT32_MAX) == NULL);
    CHECK(um_op_main_input(UM_OP_WHERE) == 1 && um_op_main_input(UM_OP_FILL) == -1);
    CHECK(um_op_main_input(UM_OP_MAP) == 0 && um_op_main_input(0) == -1);
}

static void test_views(void)
{
    um_view v;
    char text[64];
    int64_t low, high;
    const int64_t huge = (int64_t)1 << 62;
    CHECK_OK(um_view_make(64, UM_F32, SHAPE(2, 0, 3), &v));
    CHECK(is_view(&v, UM_F32, SHAPE(2, 0, 3)) && um_view_count(&v) == 0);
    CHECK(um_view_extent(&v, &low, &high) && low == 0 && high == 0);
    CHECK_OK(um_view_make(64, UM_F32, 0, NULL, &v));
    CHECK(um_view_count(&v) == 1 && um_view_is_packed(&v));
    CHECK(um_view_extent(&v, &low, &high) && low == 0 && high == 4);
    CHECK_FAILS(um_view_make(0, UM_F32, SHAPE(huge), &v), UM_INVALID_ARGUMENT, "too large");
    CHECK(v.rank == 0 && v.dtype == 0 && v.shape[0] == 0);
    CHECK_FAILS(um_view_make(0, UM_U8, SHAPE(huge, 0, 4), &v), UM_INVALID_ARGUMENT, "too large");
    CHECK_OK(um_view_make(0, UM_U8, SHAPE(INT64_MAX), &v));
    CHECK_FAILS(um_view_make(0, UM_F32, SHAPE(3, -1), &v), UM_INVALID_ARGUMENT, "negative");
    CHECK_FAILS(um_view_make(0, UM_F32, 9, NULL, &v), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_view_make(0, 99, SHAPE(3), &v), UM_INVALID_ARGUMENT, "no such dtype");
    CHECK_FAILS(um_view_make(0, UM_F32, -1, NULL, &v), UM_INVALID_ARGUMENT, "rank");
    CHECK_FAILS(um_view_make(0, UM_F32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), &v), UM_INVALID_ARGUMENT,
                "rank");
    v = view_at(0, UM_F32, SHAPE(4, 5));
    CHECK(strcmp(um_view_text(&v, text, sizeof text), "f32[4,5]") == 0);
    CHECK(strcmp(um_view_text(&v, text, 5), "f32[") == 0);
    v.stride[0] = -5;
    CHECK(um_view_extent(&v, &low, &high) && low == -60 && high == 20);
    CHECK(!um_view_is_packed(&v));
    v.stride[0] = INT64_MAX / 2;
    CHECK(!um_view_extent(&v, &low, &high));
    v = view_at(0, UM_F4E2M1, SHAPE(7));
    CHECK(um_view_extent(&v, &low, &high) && low == 0 && high == 4);
    v.stride[0] = -1;
    CHECK(um_view_extent(&v, &low, &high) && low == -3 && high == 1);
    v = (um_view){.dtype = 77, .rank = 99};
    CHECK(strcmp(um_view_text(&v, text, sizeof text), "none[rank 99]") == 0);
    CHECK(um_view_count(NULL) == 0);
}

static void test_axes(void)
{
    uint32_t axes;
    int32_t axis;
    CHECK(um_axes_resolve(UM_AXIS(0) | UM_AXIS(-1), 3, &axes) && axes == 5);
    CHECK(um_axes_resolve(UM_ALL_AXES, 0, &axes) && axes == 0);
    CHECK(um_axes_resolve(UM_AXIS(-8) | UM_AXIS(7), 8, &axes) && axes == 0x81);
    CHECK(!um_axes_resolve(UM_AXIS(2) | UM_AXIS(-1), 3, &axes)); /* twice */
    CHECK(!um_axes_resolve(UM_AXIS(3), 3, &axes) && !um_axes_resolve(UM_AXIS(-4), 3, &axes));
    CHECK(!um_axes_resolve(UM_AXIS(0), 0, &axes) && !um_axes_resolve(UM_AXIS(8), 8, &axes));
    CHECK(um_axis_resolve(-1, 3, &axis) && axis == 2);
    CHECK(um_axis_resolve(0, 1, &axis) && axis == 0);
    CHECK(!um_axis_resolve(0, 0, &axis) && !um_axis_resolve(-1, 0, &axis));
    CHECK(!um_axis_resolve(3, 3, &axis) && !um_axis_resolve(INT32_MIN, 3, &axis));
}

/* ---- what every op shares ---------------------------------------------------------------------
 */

static void test_counts(void)
{
    um_op op = make_op(UM_OP_ADD);
    add_input(&op, UM_F32, SHAPE(3));
    CHECK_REFUSED(op, "add: wants 2 inputs, got 1");
    CHECK(strcmp(um_last_error()->op, "add") == 0);
    op.in_count = -1;
    CHECK_REFUSED(op, "wants 2 inputs, got -1");
    op.in_count = 2000;
    CHECK_REFUSED(op, "wants 2 inputs, got 2000");
    op = make_op(UM_OP_NEG);
    add_input(&op, UM_F32, SHAPE(3));
    op.out_count = 2;
    CHECK_REFUSED(op, "neg: wants 1 outputs, got 2");
    op = make_op(UM_OP_MATMUL);
    CHECK_REFUSED(op, "matmul: wants 2 to 5 inputs, got 0");
    op.id = 0;
    CHECK_REFUSED(op, "no op 0");
    op.id = INT32_MIN;
    CHECK_REFUSED(op, "ids go from 1 to");
    CHECK_FAILS(um_op_check(NULL), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_op_infer(NULL), UM_INVALID_ARGUMENT, "NULL");
}

static void test_forms(void)
{
    const int64_t huge = (int64_t)1 << 62;
    um_op op = make_op(UM_OP_NEG);
    add_input(&op, UM_F32, SHAPE(3, -2));
    CHECK_REFUSED(op, "neg: input 0 has a negative size: it is f32[3,-2]");
    op.in[0] = view_at(0, UM_F32, SHAPE(huge));
    CHECK_REFUSED(op, "input 0 is too large");
    op.in[0] = view_at(0, UM_F32, SHAPE(huge, huge, 0));
    CHECK_REFUSED(op, "too large");
    op.in[0] = view_at(0, UM_F32, SHAPE(3));
    op.in[0].rank = 9;
    CHECK_REFUSED(op, "input 0 needs a rank of 0 to 8: it is f32[rank 9]");
    op.in[0].rank = -1;
    CHECK_REFUSED(op, "rank of 0 to 8");
    op.in[0] = view_at(0, 1234, SHAPE(3));
    CHECK_REFUSED(op, "input 0 has no such dtype");
    op.in[0] = view_at(0, UM_F8E5M2, SHAPE(3));
    CHECK_REFUSED(op, "neg: input 0 is f8e5m2, wants one of f64 f32 f16 bf16 i8");
    op.in[0] = view_at(0, UM_BOOL, SHAPE(3));
    CHECK_REFUSED(op, "input 0 is bool");
    /* each input fits, the result does not */
    op = make_op(UM_OP_MATMUL);
    op.out[0].dtype = UM_F32;
    add_input(&op, UM_F32, SHAPE((int64_t)1 << 40, 0));
    add_input(&op, UM_F32, SHAPE(0, (int64_t)1 << 40));
    CHECK_REFUSED(op, "matmul: output 0 is too large");
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void test_map(void)
{
    um_op op = make_op(UM_OP_ADD);
    add_input(&op, UM_F32, SHAPE(3, 4));
    add_input(&op, UM_F32, SHAPE(3, 4));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(3, 4)) && op.out[0].ptr == 0x40000000);
    CHECK_OK(um_op_check(&op));
    op.in[1].stride[0] = 0;
    op.in[0].stride[1] = -1;
    CHECK_OK(um_op_check(&op));
    op.in[1] = view_at(0, UM_F32, SHAPE(4));
    CHECK_REFUSED(op, "add: shapes differ: a is f32[3,4], b is f32[4]");
    op.in[1] = view_at(0, UM_F64, SHAPE(3, 4));
    CHECK_REFUSED(op, "add: dtypes differ: a is f32[3,4], b is f64[3,4]");
    op = make_op(UM_OP_LE);
    add_input(&op, UM_U16, SHAPE(5));
    add_input(&op, UM_U16, SHAPE(5));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_BOOL, SHAPE(5)));
    op = make_op(UM_OP_WHERE);
    add_input(&op, UM_BOOL, SHAPE(5));
    add_input(&op, UM_F8E5M2, SHAPE(5));
    add_input(&op, UM_F8E5M2, SHAPE(5));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F8E5M2, SHAPE(5)));
    op.in[2].dtype = UM_U8;
    CHECK_REFUSED(op, "where: dtypes differ: b is f8e5m2[5], c is u8[5]");
    op.in[0].dtype = UM_U8;
    CHECK_REFUSED(op, "where: the condition must be bool: a is u8[5]");
    op.in[0] = view_at(0, UM_BOOL, SHAPE(1));
    CHECK_REFUSED(op, "where: shapes differ");
}

static void test_program(void)
{
    um_map_program p = {
        .dtype = UM_F32, .inst_count = 1, .inst = {{.op = UM_OP_ADD, .src = {0, 1}}}};
    um_op op = make_op(UM_OP_MAP);
    op.out[0].dtype = UM_F16;
    add_input(&op, UM_F32, SHAPE(3));
    add_input(&op, UM_I8, SHAPE(3));
    CHECK_REFUSED(op, "map: attrs.program is NULL");
    op.attrs.program = &p;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F16, SHAPE(3)));
    CHECK_OK(um_op_check(&op));
    p.inst[0].src[1] = 2;
    CHECK_REFUSED(op, "map: instruction 0: add reads value 2, only 2 are defined");
    p.inst[0].op = UM_OP_SHIFT_LEFT;
    CHECK_REFUSED(op, "shift_left does not compute in f32");
    p.inst[0].op = UM_OP_MAP;
    CHECK_REFUSED(op, "is op 75 (map), wants an elementwise op");
    p.inst[0].op = UM_OP_SUM;
    CHECK_REFUSED(op, "(sum)");
    p.inst[0].op = 60000;
    CHECK_REFUSED(op, "is op 60000 (none)");
    p.inst[0] = (um_map_inst){.op = UM_OP_FILL, .src = {255, 255, 255}};
    CHECK_OK(um_op_infer(&op));
    p.inst_count = 0;
    CHECK_REFUSED(op, "wants 1 to 24 instructions, got 0");
    p.inst_count = 25;
    CHECK_REFUSED(op, "got 25");
    p.inst_count = 1;
    p.dtype = UM_F8E5M2;
    CHECK_REFUSED(op, "no program computes in f8e5m2");
    p.dtype = -5;
    CHECK_REFUSED(op, "no program computes in none");
    p.dtype = UM_F32;
    op.in[1].dtype = UM_F4E2M1;
    CHECK_REFUSED(op, "map: input 1 is f4e2m1");
    op.in[1] = view_at(0, UM_I8, SHAPE(4));
    CHECK_REFUSED(op, "shapes differ: input 0 is f32[3], another is i8[4]");
    op.in_count = 0;
    op.out[0] = view_at(0, UM_F4E2M1, SHAPE(4));
    CHECK_REFUSED(op, "output 0 is f4e2m1");
    op.out[0] = view_at(0, UM_F32, SHAPE(4, 2));
    CHECK_OK(um_op_check(&op));
}

static void test_reduce(void)
{
    um_op op = make_op(UM_OP_SUM);
    add_input(&op, UM_F32, SHAPE(3, 4, 5));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, 0, NULL));
    op.attrs.reduce.axes = UM_AXIS(1) | UM_AXIS(-1);
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(3)));
    op.attrs.reduce.keepdims = 1;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(3, 1, 1)));
    op.attrs.reduce.axes = UM_AXIS(3);
    CHECK_REFUSED(op, "sum: axes 0x8 are outside x or named twice: x is f32[3,4,5]");
    op.id = UM_OP_ANY;
    op.attrs.reduce.axes = UM_AXIS(0);
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_BOOL, SHAPE(1, 4, 5)));
    op.id = UM_OP_VAR;
    op.attrs.reduce.correction = (double)NAN;
    CHECK_REFUSED(op, "var: correction must be finite");
    op.id = UM_OP_ARGMAX;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_I64, SHAPE(1, 4, 5)));
    op.attrs.reduce.axes = 3;
    CHECK_REFUSED(op, "argmax: wants one axis");
    op.attrs.reduce.keepdims = 0;
    op.attrs.reduce.axes = UM_AXIS(1);
    op.in[0] = view_at(0, UM_F32, SHAPE(3, 0));
    CHECK_REFUSED(op, "argmax: nothing to choose from along the axis: x is f32[3,0]");
    op.attrs.reduce.axes = 0;
    CHECK_REFUSED(op, "nothing to choose from");
    op.attrs.reduce.axes = UM_AXIS(0);
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_I64, SHAPE(0)));
    op = make_op(UM_OP_CUMSUM);
    add_input(&op, UM_I8, SHAPE(3, 4));
    op.attrs.axis.axis = -2;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_I8, SHAPE(3, 4)));
    op.attrs.axis.axis = 2;
    CHECK_REFUSED(op, "cumsum: axis 2 is outside x: x is i8[3,4]");
    op.attrs.axis.axis = 0;
    op.in[0].rank = 0;
    CHECK_REFUSED(op, "axis 0 is outside x: x is i8[]");
}

static void test_move(void)
{
    um_op op = make_op(UM_OP_COPY);
    add_input(&op, UM_F32, SHAPE(3, 4));
    op.out[0].dtype = UM_F4E2M1;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F4E2M1, SHAPE(3, 4)));
    op.out[0].dtype = 0;
    CHECK_REFUSED(op, "copy: output 0 has no such dtype");
    op = make_op(UM_OP_FILL);
    op.out[0] = view_at(64, UM_F8E8M0, SHAPE(3, 4));
    CHECK_OK(um_op_check(&op));
    op.out[0].rank = 1000;
    CHECK_REFUSED(op, "fill: output 0 needs a rank");
    op.out[0] = view_at(64, UM_F32, SHAPE(3, -4));
    CHECK_REFUSED(op, "fill: output 0 has a negative size: it is f32[3,-4]");
    op = make_op(UM_OP_ARANGE);
    op.out[0] = view_at(64, UM_U8, SHAPE(300));
    CHECK_OK(um_op_check(&op));
    op.out[0] = view_at(64, UM_U8, SHAPE(3, 4));
    CHECK_REFUSED(op, "arange: wants an output of rank 1: out is u8[3,4]");
    op.out[0] = view_at(64, UM_BOOL, SHAPE(3));
    CHECK_REFUSED(op, "arange: output 0 is bool, wants one of f64");
}

static void test_embedding(void)
{
    um_op op = make_op(UM_OP_EMBEDDING);
    add_input(&op, UM_BF16, SHAPE(10, 3, 4));
    add_input(&op, UM_I32, SHAPE(2, 5));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_BF16, SHAPE(2, 5, 3, 4)));
    op.in[1].dtype = UM_U32;
    CHECK_REFUSED(op, "embedding: ids must be i32 or i64: ids is u32[2,5]");
    op.in[1] = view_at(0, UM_I64, SHAPE(1, 1, 1, 1, 1, 1, 1));
    CHECK_REFUSED(op, "more than 8 dimensions");
    op.in[0].rank = 0;
    CHECK_REFUSED(op, "the table needs a rank of 1 or more");
}

static void test_matmul(void)
{
    um_op op = make_op(UM_OP_MATMUL);
    op.out[0].dtype = UM_F32;
    add_input(&op, UM_F32, SHAPE(64, 128));
    add_input(&op, UM_F32, SHAPE(96, 32));
    CHECK_REFUSED(op, "matmul: inner sizes differ: a is f32[64,128], b is f32[96,32]");
    op.in[1] = view_at(0x20000000, UM_F32, SHAPE(128, 32));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(64, 32)));
    CHECK_OK(um_op_check(&op));
    op.attrs.matmul.beta = 1;
    CHECK_REFUSED(op, "matmul: beta is 1 and there is no c");
    add_input(&op, UM_F32, SHAPE(64, 33));
    CHECK_REFUSED(op, "matmul: c is not like the output: c is f32[64,33], out is f32[64,32]");
    op.in[2] = view_at(0x30000000, UM_F16, SHAPE(64, 32));
    CHECK_REFUSED(op, "c is not like the output");
    op.in[2].dtype = UM_F32;
    CHECK_OK(um_op_check(&op));
    op.in[0].dtype = UM_F16;
    CHECK_REFUSED(op, "matmul: dtypes differ");
    op.in[1].dtype = UM_F16;
    CHECK_OK(um_op_check(&op));
    op.out[0].dtype = UM_BF16;
    CHECK_REFUSED(op, "matmul: a product of f16 cannot be bf16");
    op.in_count = 2;
    op.attrs.matmul.beta = 0;
    op.out[0].dtype = UM_F16;
    op.in[0] = view_at(0, UM_F16, SHAPE(2, 3, 4));
    op.in[1] = view_at(0, UM_F16, SHAPE(3, 4, 5));
    CHECK_REFUSED(op, "matmul: batch sizes differ");
    op.in[1] = view_at(0, UM_F16, SHAPE(4, 5));
    CHECK_REFUSED(op, "matmul: ranks differ");
    op.in[0] = view_at(0, UM_F16, SHAPE(4));
    CHECK_REFUSED(op, "matmul: wants a rank of 2 or more");
}

/* a [4, 8] and b [8, 3] of these dtypes, with an output of that one. */
static um_op make_product(um_dtype a, um_dtype b, um_dtype out)
{
    um_op op = make_op(UM_OP_MATMUL);
    op.out[0].dtype = out;
    op.attrs.matmul.alpha = 1;
    add_input(&op, a, SHAPE(4, 8));
    add_input(&op, b, SHAPE(8, 3));
    return op;
}

static void test_matmul_dtypes(void)
{
    static const struct {
        um_dtype a, b;
        uint32_t outs;
    } rows[] = {
        {UM_F64, UM_F64, UM_BIT(UM_F64)},
        {UM_F32, UM_F32, UM_BIT(UM_F32)},
        {UM_F16, UM_F16, UM_BIT(UM_F16) | UM_BIT(UM_F32)},
        {UM_BF16, UM_BF16, UM_BIT(UM_BF16) | UM_BIT(UM_F32)},
        {UM_F16, UM_BF16, 0},
        {UM_F32, UM_F16, 0},
        {UM_F8E4M3FN, UM_F8E4M3FN,
         UM_BIT(UM_F8E4M3FN) | UM_BIT(UM_F16) | UM_BIT(UM_BF16) | UM_BIT(UM_F32)},
        {UM_F8E4M3FN, UM_F8E5M2, UM_BIT(UM_F16) | UM_BIT(UM_BF16) | UM_BIT(UM_F32)},
        {UM_F8E5M2FNUZ, UM_F8E4M3FNUZ, UM_BIT(UM_F16) | UM_BIT(UM_BF16) | UM_BIT(UM_F32)},
        {UM_F8E4M3FN, UM_F16, 0},
        {UM_I8, UM_I8, UM_BIT(UM_I32)},
        {UM_U8, UM_I8, UM_BIT(UM_I32)},
        {UM_U8, UM_U8, UM_BIT(UM_I32)},
        {UM_I8, UM_I16, 0},
        {UM_I32, UM_I32, 0},
        {UM_F4E2M1, UM_F4E2M1, 0},
    };
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++)
        for (um_dtype out = UM_F64; out <= UM_BOOL; out++) {
            um_op op = make_product(rows[i].a, rows[i].b, out);
            bool good = um_op_infer(&op) == UM_OK;
            CHECK_MSG(good == (rows[i].outs >> out & 1), "%s %s -> %s", um_dtype_name(rows[i].a),
                      um_dtype_name(rows[i].b), um_dtype_name(out));
        }
}

static void test_matmul_epilogue(void)
{
    um_op op = make_product(UM_F16, UM_F16, UM_F16);
    op.in[op.in_count++] = um_view_none(UM_F16);
    add_input(&op, UM_F32, SHAPE(4, 3)); /* bias */
    add_input(&op, UM_F16, SHAPE(4, 3)); /* residual */
    op.in[3].stride[0] = 0;
    op.attrs.matmul.activation = UM_OP_GELU;
    op.attrs.matmul.scale = 2;
    CHECK_OK(um_op_infer(&op));
    CHECK_OK(um_op_check(&op));
    op.out[0].ptr = op.in[4].ptr; /* in place */
    CHECK_OK(um_op_check(&op));
    op.out[0].ptr = op.in[3].ptr;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "output 0 overlaps input 3");
    op.out[0].ptr = 0x40000000;
    op.in[4].dtype = UM_BF16;
    CHECK_REFUSED(op, "residual is not like the output: residual is bf16[4,3], out is f16[4,3]");
    op.in[4].dtype = UM_F16;
    op.in[3].shape[0] = 1;
    CHECK_REFUSED(op, "bias is not like the output: bias is f32[1,3]");
    op.in[3].shape[0] = 4;
    op.attrs.matmul.beta = 1;
    CHECK_REFUSED(op, "beta is 1 and there is no c");
    op.attrs.matmul.beta = 0;
    op.attrs.matmul.activation = UM_OP_ADD;
    CHECK_REFUSED(op, "activation must be an elementwise op of one float, got 46 (add)");
    op.attrs.matmul.activation = UM_OP_ISNAN;
    CHECK_REFUSED(op, "got 44 (isnan)");
    op.attrs.matmul.activation = -7;
    CHECK_REFUSED(op, "got -7 (none)");
    op.attrs.matmul.activation = 0;
    op.attrs.matmul.round_to = UM_BF16;
    CHECK_REFUSED(op, "round_to is for operands of f32, not of f16");
    op = make_product(UM_F32, UM_F32, UM_F32);
    op.attrs.matmul.round_to = UM_I8;
    CHECK_REFUSED(op, "round_to must be f16, bf16, an fp8 or 0, got i8");
    op = make_product(UM_I8, UM_U8, UM_I32);
    op.attrs.matmul.alpha = 0.5;
    CHECK_REFUSED(op, "alpha and beta of i8 must be integers, got 0.5 and 0");
    op.attrs.matmul.alpha = 1e16;
    CHECK_REFUSED(op, "got 1e+16 and 0");
    op.attrs.matmul.alpha = 3;
    op.attrs.matmul.scale = 2;
    CHECK_REFUSED(op, "a product of i8 has no activation and no scale");
}

static void test_norm(void)
{
    um_op op = make_op(UM_OP_SOFTMAX);
    add_input(&op, UM_F32, SHAPE(3, 5));
    op.attrs.axis.axis = -3;
    CHECK_REFUSED(op, "softmax: axis -3 is outside x");
    op.in[0].dtype = UM_I32;
    CHECK_REFUSED(op, "softmax: input 0 is i32, wants one of f64 f32 f16 bf16");
    op = make_op(UM_OP_RMS_NORM);
    add_input(&op, UM_F32, SHAPE(3, 5));
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(3, 5)));
    add_input(&op, UM_F32, SHAPE(3));
    CHECK_REFUSED(op, "rms_norm: w must be as long as x's last axis: x is f32[3,5], w is f32[3]");
    op.in[1] = view_at(0, UM_F64, SHAPE(5));
    CHECK_REFUSED(op, "rms_norm: dtypes differ");
    op.in[1].dtype = UM_F32;
    CHECK_OK(um_op_infer(&op));
    op.attrs.norm.eps = -1;
    CHECK_REFUSED(op, "eps must be finite and not negative, got -1");
    op.attrs.norm.eps = (double)INFINITY;
    CHECK_REFUSED(op, "eps must be finite");
    op.in[0].rank = 0;
    CHECK_REFUSED(op, "rms_norm: x needs a rank of 1");
}

static void test_rope(void)
{
    um_op op = make_op(UM_OP_ROPE);
    add_input(&op, UM_F32, SHAPE(2, 7, 10));
    CHECK_REFUSED(op, "rope: theta must be finite and above 0, got 0");
    op.attrs.rope.theta = 10000;
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(2, 7, 10)));
    op.attrs.rope.dims = 5;
    CHECK_REFUSED(op, "rope: dims must be even and at most 10, got 5");
    op.attrs.rope.dims = 12;
    CHECK_REFUSED(op, "at most 10, got 12");
    op.attrs.rope.dims = -2;
    CHECK_REFUSED(op, "got -2");
    op.attrs.rope.dims = 4;
    op.attrs.rope.layout = 2;
    CHECK_REFUSED(op, "rope: there is no layout 2");
    op.attrs.rope.layout = UM_ROPE_HALF_SPLIT;
    op.attrs.rope.offset = INT64_MAX - 6;
    CHECK_REFUSED(op, "rope: positions overflow");
    add_input(&op, UM_I64, SHAPE(7));
    CHECK_OK(um_op_infer(&op));
    op.in[1].shape[0] = 2;
    CHECK_REFUSED(op, "rope: ids must be one a row: x is f32[2,7,10], ids is i64[2]");
    op.in[1].dtype = UM_F32;
    CHECK_REFUSED(op, "rope: ids must be i32 or i64");
    op.in_count = 1;
    op.attrs.rope.dims = 0;
    op.in[0] = view_at(0, UM_F32, SHAPE(7, 9));
    CHECK_REFUSED(op, "rope: dims must be even");
    op.in[0].rank = 1;
    CHECK_REFUSED(op, "rope: x needs a rank of 2");
}

static void test_attention(void)
{
    um_op op = make_attention();
    CHECK_OK(um_op_infer(&op));
    CHECK(is_view(&op.out[0], UM_F32, SHAPE(2, 6, 5, 9)));
    add_input(&op, UM_BOOL, SHAPE(1, 6, 5, 7));
    CHECK_OK(um_op_infer(&op));
    op.in[3].shape[1] = 3;
    CHECK_REFUSED(op, "attention: the bias must be [2 or 1,6 or 1,5,7], it is bool[1,3,5,7]");
    op.in[3] = view_at(0, UM_F16, SHAPE(2, 1, 5, 7));
    CHECK_REFUSED(op, "attention: the bias must be bool or of q's dtype");
    static const struct {
        int32_t input, axis;
        const char *text;
    } wrong[] = {
        {1, 0, "batch sizes differ: q is f32[2,6,5,8], k is f32[10,3,7,8]"},
        {2, 1, "heads or keys differ"},
        {2, 2, "heads or keys differ"},
        {0, 3, "head sizes differ"},
        {0, 1, "q's heads are no multiple of k's"},
    };
    for (size_t i = 0; i < UM_COUNT_OF(wrong); i++) {
        op = make_attention();
        op.in[wrong[i].input].shape[wrong[i].axis] = 10;
        CHECK_REFUSED(op, wrong[i].text);
    }
    op = make_attention();
    op.in[1].shape[1] = op.in[2].shape[1] = 0;
    CHECK_REFUSED(op, "no multiple");
    op.in[0].shape[1] = 0;
    CHECK_OK(um_op_infer(&op));
    op.in[2].dtype = UM_F64;
    CHECK_REFUSED(op, "dtypes differ");
    op.in[1].rank = 3;
    CHECK_REFUSED(op, "wants a rank of 4: k is f32[2,0,7]");
    op = make_attention();
    op.attrs.attention.scale = (double)NAN;
    CHECK_REFUSED(op, "scale must be finite");
    op.attrs.attention.scale = 0;
    op.attrs.attention.softcap = -1;
    CHECK_REFUSED(op, "softcap must be finite and not negative");
    op.attrs.attention.softcap = 0;
    op.attrs.attention.causal = 3;
    CHECK_REFUSED(op, "there is no causal mode 3");
    op.attrs.attention.causal = 0;
    op.attrs.attention.window = -1;
    CHECK_REFUSED(op, "window must not be negative");
}

int main(void)
{
    TEST(test_names);
    TEST(test_views);
    TEST(test_axes);
    TEST(test_counts);
    TEST(test_forms);
    TEST(test_map);
    TEST(test_program);
    TEST(test_reduce);
    TEST(test_move);
    TEST(test_embedding);
    TEST(test_matmul);
    TEST(test_matmul_dtypes);
    TEST(test_matmul_epilogue);
    TEST(test_norm);
    TEST(test_rope);
    TEST(test_attention);
    return TEST_RESULT();
}
