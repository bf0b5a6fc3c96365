/* The contract's rules that hold for every op, tried on every op of the table, and its rules on
 * values, by name. Those of one family alone are in its test (test_compute_gemm.c, ...). */
#include "face.h"
#include "op/table.h"

#include <math.h>

/* ---- every op -----------------------------------------------------------------------------------
 */

/* An op with a block of its own for each view. */
typedef struct placed {
    um_sample sample;
    um_op op;
    int32_t count; /* of views: the inputs, then the outputs */
    um_view *view[UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS];
    uint64_t bytes[UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS];
} placed;

static face f;

static void take_views(placed *p)
{
    um_sample_own_programs(&p->sample);
    p->op = p->sample.op;
    p->count = 0;
    for (int32_t i = 0; i < p->op.in_count; i++) p->view[p->count++] = &p->op.in[i];
    for (int32_t i = 0; i < p->op.out_count; i++) p->view[p->count++] = &p->op.out[i];
}

/* The op's first sample of the dtype where every view but optional ones has elements. */
static bool find_sample(um_op_id id, um_dtype dtype, placed *p)
{
    for (int32_t index = 0;; index++) {
        bool whole = true;
        p->sample = (um_sample){.op.id = id};
        if (!um_op_get_row(id)->sample(index, dtype, &p->sample)) return false;
        take_views(p);
        for (int32_t i = 0; i < p->count; i++) {
            bool optional = i > 0 && i < p->op.in_count && !um_op_has_input(&p->op, i);
            whole = whole && (um_view_count(p->view[i]) > 0 || optional);
        }
        if (whole) return true;
    }
}

/* Zeros in the inputs, 0xa5 in the outputs. */
static void place(placed *p)
{
    for (int32_t i = 0; i < p->count; i++) {
        int64_t count = um_view_count(p->view[i]);
        p->bytes[i] = ((uint64_t)count * (uint64_t)um_dtype_bits(p->view[i]->dtype) + 7) / 8;
        CHECK_OK(um_alloc(f.device, p->bytes[i], &p->view[i]->ptr));
        CHECK_OK(
            um_fill(f.stream, p->view[i]->ptr, p->bytes[i], i < p->op.in_count ? "\0" : "\xa5", 1));
    }
}

/* Nothing has been written; gives the blocks back. */
static void give_back(placed *p)
{
    static uint8_t got[1 << 20];
    for (int32_t i = 0; i < p->count; i++) {
        CHECK(p->bytes[i] <= sizeof got);
        CHECK_OK(um_read(f.stream, got, p->view[i]->ptr, p->bytes[i]));
        bool same = true;
        for (uint64_t k = 0; k < p->bytes[i]; k++)
            same = same && got[k] == (i < p->op.in_count ? 0 : 0xa5);
        CHECK_MSG(same, "%s wrote to view %d", um_op_name(p->op.id), (int)i);
        CHECK_OK(um_free(f.device, p->view[i]->ptr));
    }
}

static void refuse(const placed *p, const char *what, int32_t view)
{
    um_status status = um_enqueue(f.stream, &p->op);
    CHECK_MSG(status == UM_INVALID_ARGUMENT, "%s, view %d: %s gave %s", um_op_name(p->op.id),
              (int)view, what, um_status_name(status));
    CHECK(strstr(um_last_error()->message, um_op_name(p->op.id)));
}

/* A view at a time becomes something else, and then itself again. */
static void refuse_sizes(placed *p, int32_t i)
{
    um_view was = *p->view[i];
    const int64_t sizes[] = {(int64_t)1 << 62, INT64_MAX, -1, INT64_MIN};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (int32_t axis = 0; axis < was.rank; axis++) {
            p->view[i]->shape[axis] = sizes[k];
            refuse(p, "a huge or negative size", i);
            *p->view[i] = was;
        }
    const int32_t ranks[] = {-1, 9, INT32_MAX};
    for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; k++) {
        p->view[i]->rank = ranks[k];
        refuse(p, "a bad rank", i);
        *p->view[i] = was;
    }
    p->view[i]->dtype = 99;
    refuse(p, "no such dtype", i);
    *p->view[i] = was;
}

static void refuse_pointers(placed *p, int32_t i)
{
    static float host[4];
    um_ptr was = p->view[i]->ptr, gone,
           wide = UM_MAX((um_ptr)um_dtype_bits(p->view[i]->dtype) / 8, 1);
    CHECK_OK(um_alloc(f.device, p->bytes[i], &gone));
    CHECK_OK(um_free(f.device, gone));
    const um_ptr bad[] = {gone, (um_ptr)(uintptr_t)host, 0, was - wide, was + wide};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        p->view[i]->ptr = bad[k];
        refuse(p, "a freed, foreign, null or outer pointer", i);
    }
    p->view[i]->ptr = was;
}

static void refuse_overlaps(placed *p, int32_t output)
{
    um_view *out = &p->op.out[output], was = *out;
    for (int32_t axis = 0; axis < was.rank; axis++) {
        if (was.shape[axis] < 2) continue;
        out->stride[axis] = 0;
        refuse(p, "an output that overlaps itself", p->op.in_count + output);
        *out = was;
    }
    for (int32_t k = 0; k < p->op.in_count; k++) {
        um_ptr wide = UM_MAX((um_ptr)um_dtype_bits(p->op.in[k].dtype) / 8, 1);
        if (um_view_count(&p->op.in[k]) < 2 || um_dtype_bits(was.dtype) < 8) continue;
        out->ptr = p->op.in[k].ptr + wide; /* not exactly in place */
        if (um_view_is_aligned(out)) refuse(p, "an output that overlaps an input", k);
        *out = was;
    }
    for (int32_t k = 0; k < output; k++) {
        out->ptr = p->op.out[k].ptr;
        refuse(p, "an output on another", p->op.in_count + output);
        *out = was;
    }
}

static void try_op(um_op_id id, um_dtype dtype, void (*check)(placed *p))
{
    static placed p;
    if (!find_sample(id, dtype, &p)) return;
    place(&p);
    check(&p);
    give_back(&p);
}

/* In f32, else the first dtype it has. */
static void try_every_op(void (*check)(placed *p))
{
    f = face_open();
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        um_dtype dtype = 1;
        uint32_t dtypes = um_op_get_row(id)->dtypes;
        while (!(dtypes >> dtype & 1u)) dtype++;
        try_op(id, dtypes & UM_BIT(UM_F32) ? UM_F32 : dtype, check);
    }
    face_close(&f);
}

static void check_sizes(placed *p)
{
    for (int32_t i = 0; i < p->count; i++) refuse_sizes(p, i);
}
static void test_huge_sizes_are_refused(void) { try_every_op(check_sizes); }

static void check_pointers(placed *p)
{
    for (int32_t i = 0; i < p->count; i++)
        if (p->bytes[i] > 0) refuse_pointers(p, i);
}
static void test_bad_pointers_are_refused(void) { try_every_op(check_pointers); }

static void check_overlaps(placed *p)
{
    for (int32_t i = 0; i < p->op.out_count; i++)
        if (um_view_count(&p->op.out[i]) > 0) refuse_overlaps(p, i);
}
static void test_overlaps_are_refused(void) { try_every_op(check_overlaps); }

/* Samples without anything to write, at pointers that are none. */
static void test_nothing_to_write_is_done(void)
{
    static placed p;
    int32_t found = 0;
    f = face_open();
    for (um_op_id id = 1; id <= um_op_count(); id++)
        for (int32_t index = 0;; index++) {
            int64_t written = 0;
            p.sample = (um_sample){.op.id = id};
            um_dtype dtype = um_op_get_row(id)->dtypes & UM_BIT(UM_F32) ? UM_F32 : UM_I32;
            if (!um_op_get_row(id)->sample(index, dtype, &p.sample)) break;
            take_views(&p);
            for (int32_t i = 0; i < p.op.out_count; i++) written += um_view_count(&p.op.out[i]);
            for (int32_t i = 0; i < p.count; i++) p.view[i]->ptr = UINT64_MAX;
            if (written > 0) continue;
            CHECK_OK(um_enqueue(f.stream, &p.op));
            found++;
        }
    CHECK(found > 100);
    CHECK_OK(um_synchronize(f.stream));
    face_close(&f);
}

/* ---- values -------------------------------------------------------------------------------------
 */

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* op of two numbers, or of one. */
static double binary(um_op_id op, double a, double b)
{
    double y = 0;
    face g = face_open();
    um_view va = face_put(&g, UM_F64, 0, NULL, &a), vb = face_put(&g, UM_F64, 0, NULL, &b);
    um_view vy = face_put(&g, UM_F64, 0, NULL, NULL);
    CHECK_OK(um_binary_view(g.stream, op, &va, &vb, &vy));
    face_get(&g, &vy, &y);
    face_close(&g);
    return y;
}

static double unary(um_op_id op, double x)
{
    double y = 0;
    face g = face_open();
    um_view vx = face_put(&g, UM_F64, 0, NULL, &x), vy = face_put(&g, UM_F64, 0, NULL, NULL);
    CHECK_OK(um_unary_view(g.stream, op, 0, &vx, &vy));
    face_get(&g, &vy, &y);
    face_close(&g);
    return y;
}

static double clamp(double x, double lo, double hi)
{
    double y = 0;
    face g = face_open();
    um_view vx = face_put(&g, UM_F64, 0, NULL, &x), vy = face_put(&g, UM_F64, 0, NULL, NULL);
    um_operand in[] = {{.view = &vx}, {.number.f = lo}, {.number.f = hi}};
    CHECK_OK(um_map_view(g.stream, UM_OP_CLAMP, 3, in, &vy));
    face_get(&g, &vy, &y);
    face_close(&g);
    return y;
}

/* Three numbers to one. */
static double reduce(um_op_id op, double a, double b, double c)
{
    double y = 0;
    face g = face_open();
    um_view x = face_put(&g, UM_F64, SHAPE(3), (double[]){a, b, c});
    um_view vy = face_put(&g, UM_F64, 0, NULL, NULL);
    CHECK_OK(um_reduce_view(g.stream, op, UM_ALL_AXES, 1, &x, &vy));
    face_get(&g, &vy, &y);
    face_close(&g);
    return y;
}

static int64_t find(um_op_id op, double a, double b, double c)
{
    int64_t y = -1;
    face g = face_open();
    um_view x = face_put(&g, UM_F64, SHAPE(3), (double[]){a, b, c});
    um_view vy = face_put(&g, UM_I64, 0, NULL, NULL);
    CHECK_OK(um_reduce_view(g.stream, op, UM_AXIS(0), 0, &x, &vy));
    face_get(&g, &vy, &y);
    face_close(&g);
    return y;
}

static const double nan_ = (double)NAN, inf = (double)INFINITY;

static void test_nan_propagates(void)
{
    CHECK(isnan(binary(UM_OP_MAX, nan_, 1)) && isnan(binary(UM_OP_MAX, 1, nan_)));
    CHECK(isnan(binary(UM_OP_MIN, nan_, 1)) && isnan(binary(UM_OP_MIN, 1, nan_)));
    CHECK(isnan(unary(UM_OP_RELU, nan_)) && isnan(unary(UM_OP_SIGN, nan_)));
    CHECK(isnan(clamp(nan_, 0, 1)) && isnan(clamp(0, nan_, 1)) && isnan(clamp(0, 0, nan_)));
    CHECK(isnan(reduce(UM_OP_REDUCE_MAX, 1, nan_, 2)) &&
          isnan(reduce(UM_OP_REDUCE_MIN, nan_, 1, 2)));
}

static void test_cummax_is_nan_from_the_first_on(void)
{
    double y[4];
    face g = face_open();
    um_view x = face_put(&g, UM_F64, SHAPE(4), (double[]){1, nan_, 5, inf});
    um_view vy = face_put(&g, UM_F64, SHAPE(4), NULL);
    CHECK_OK(um_scan_view(g.stream, UM_OP_CUMMAX, 0, &x, &vy));
    face_get(&g, &vy, y);
    CHECK(y[0] == 1 && isnan(y[1]) && isnan(y[2]) && isnan(y[3]));
    face_close(&g);
}

static void test_zeros_have_signs(void)
{
    CHECK(same(binary(UM_OP_MAX, -0.0, 0), 0) && same(binary(UM_OP_MAX, 0, -0.0), 0));
    CHECK(same(binary(UM_OP_MIN, -0.0, 0), -0.0) && same(binary(UM_OP_MIN, 0, -0.0), -0.0));
    CHECK(same(reduce(UM_OP_REDUCE_MAX, -0.0, 0, -0.0), 0));
    CHECK(same(reduce(UM_OP_REDUCE_MIN, 0, -0.0, 0), -0.0));
    CHECK(same(unary(UM_OP_RELU, -0.0), 0) && same(unary(UM_OP_NEG, 0), -0.0));
}

static void test_first_nan_and_lowest_index_win(void)
{
    CHECK(find(UM_OP_ARGMAX, inf, nan_, nan_) == 1 && find(UM_OP_ARGMIN, -inf, 0, nan_) == 2);
    CHECK(find(UM_OP_ARGMAX, 1, 2, 2) == 1 && find(UM_OP_ARGMIN, 0, -0.0, 0) == 0);
    CHECK(find(UM_OP_ARGMAX, -inf, -inf, -inf) == 0);
}

static void test_clamp_with_lo_above_hi_gives_hi(void)
{
    CHECK(clamp(0, 3, 1) == 1 && clamp(2, 3, 1) == 1 && clamp(9, 3, 1) == 1);
}

static void test_infinities_are_ordinary(void)
{
    CHECK(reduce(UM_OP_LOGSUMEXP, inf, 2, 3) == inf);
    CHECK(reduce(UM_OP_LOGSUMEXP, -inf, -inf, -inf) == -inf);
    CHECK(binary(UM_OP_LOGADDEXP, -inf, -inf) == -inf && binary(UM_OP_LOGADDEXP, inf, 1) == inf);
    CHECK(binary(UM_OP_POW, nan_, 0) == 1 && binary(UM_OP_POW, inf, 0) == 1);
    CHECK(unary(UM_OP_SILU, inf) == inf && unary(UM_OP_GELU, -inf) == 0);
    CHECK(unary(UM_OP_TANH, 1e300) == 1 && unary(UM_OP_ELU, inf) == inf);
}

/* exp(inf - inf) is NaN, and so the sum. */
static void test_softmax_of_infinities(void)
{
    double y[6];
    face g = face_open();
    um_view x = face_put(&g, UM_F64, SHAPE(3, 2), (double[]){inf, 1, -inf, 1, -inf, -inf});
    um_view vy = face_put(&g, UM_F64, SHAPE(3, 2), NULL);
    CHECK_OK(um_softmax_forward(g.stream, 1, &x, &vy));
    face_get(&g, &vy, y);
    CHECK(isnan(y[0]) && isnan(y[1]) && y[2] == 0 && y[3] == 1 && isnan(y[4]) && isnan(y[5]));
    face_close(&g);
}

static void test_reductions_of_nothing(void)
{
    static const struct {
        um_op_id op;
        double want;
    } rows[] = {
        {UM_OP_SUM, 0},
        {UM_OP_PROD, 1},
        {UM_OP_REDUCE_MAX, -HUGE_VAL},
        {UM_OP_REDUCE_MIN, HUGE_VAL},
        {UM_OP_L1, 0},
        {UM_OP_L2, 0},
        {UM_OP_LOGSUMEXP, -HUGE_VAL},
    };
    face g = face_open();
    double got[2];
    um_view x = face_put(&g, UM_F64, SHAPE(2, 0), NULL), y = face_put(&g, UM_F64, SHAPE(2), NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_OK(um_reduce_view(g.stream, rows[i].op, UM_AXIS(1), 0, &x, &y));
        face_get(&g, &y, got);
        CHECK_MSG(same(got[0], rows[i].want) && same(got[1], rows[i].want), "%s: %g",
                  um_op_name(rows[i].op), got[0]);
    }
    static const um_op_id nans[] = {UM_OP_MEAN, UM_OP_VAR, UM_OP_STD};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(um_reduce_view(g.stream, nans[i], UM_AXIS(1), 0, &x, &y));
        face_get(&g, &y, got);
        CHECK(isnan(got[0]) && isnan(got[1]));
    }
    um_view bytes = face_put(&g, UM_I8, SHAPE(2, 0), NULL),
            ends = face_put(&g, UM_I8, SHAPE(2), NULL);
    CHECK_OK(um_reduce_view(g.stream, UM_OP_REDUCE_MAX, UM_AXIS(1), 0, &bytes, &ends));
    CHECK(face_holds(&g, &ends, (int8_t[]){-128, -128}));
    um_view flags = face_put(&g, UM_BOOL, SHAPE(2), NULL),
            best = face_put(&g, UM_I64, SHAPE(2), NULL);
    CHECK_OK(um_reduce_view(g.stream, UM_OP_ANY, UM_AXIS(1), 0, &x, &flags));
    CHECK(face_holds(&g, &flags, (uint8_t[]){0, 0}));
    CHECK_OK(um_reduce_view(g.stream, UM_OP_ALL, UM_AXIS(1), 0, &x, &flags));
    CHECK(face_holds(&g, &flags, (uint8_t[]){1, 1}));
    CHECK_FAILS(um_reduce_view(g.stream, UM_OP_ARGMAX, UM_AXIS(1), 0, &x, &best),
                UM_INVALID_ARGUMENT, "argmax: nothing to choose from");
    face_close(&g);
}

/* A number a thousand times, without a thousand numbers. */
static void test_stride_zero_input(void)
{
    face g = face_open();
    float got[2];
    um_view x = face_put(&g, UM_F32, SHAPE(2, 1), (float[]){3, -2}), wide;
    um_view y = face_put(&g, UM_F32, SHAPE(2), NULL);
    CHECK_OK(um_view_broadcast(&x, SHAPE(2, 1000), &wide));
    CHECK_OK(um_reduce_view(g.stream, UM_OP_SUM, UM_AXIS(1), 0, &wide, &y));
    face_get(&g, &y, got);
    CHECK(got[0] == 3000 && got[1] == -2000);
    CHECK_FAILS(um_copy_view(g.stream, &wide, &wide), UM_INVALID_ARGUMENT, "overlap each other");
    face_close(&g);
}

/* Where no element uses a stride it may be anything: an axis of one place, an empty view. */
static void test_unused_strides(void)
{
    static const int64_t strides[] = {INT64_MIN, INT64_MAX};
    face g = face_open();
    um_view x = face_put(&g, UM_F32, SHAPE(1, 3), (float[]){3, 1, 2}), shut = x;
    um_view one = face_put(&g, UM_F32, SHAPE(3), NULL), y = face_put(&g, UM_F32, SHAPE(1, 3), NULL);
    um_view none = face_put(&g, UM_F32, SHAPE(0, 4, 3), NULL);
    for (int i = 0; i < 2; i++) {
        x.stride[0] = shut.stride[0] = none.stride[0] = none.stride[1] = strides[i];
        shut.stride[1] = strides[1 - i];
        shut.shape[1] = 1;
        y.shape[1] = 3;
        CHECK_OK(um_reduce_view(g.stream, UM_OP_SUM, UM_AXIS(0), 0, &x, &one));
        CHECK(face_holds(&g, &one, (float[]){3, 1, 2}));
        CHECK_OK(um_scan_view(g.stream, UM_OP_CUMSUM, 0, &x, &y));
        CHECK(face_holds(&g, &y, (float[]){3, 1, 2}));
        CHECK_OK(um_softmax_forward(g.stream, 0, &x, &y));
        CHECK(face_holds(&g, &y, (float[]){1, 1, 1}));
        CHECK_OK(um_reduce_view(g.stream, UM_OP_SUM, UM_AXIS(0) | UM_AXIS(1), 0, &none, &one));
        CHECK(face_holds(&g, &one, (float[]){0, 0, 0}));
        y.shape[1] = 1;
        CHECK_OK(um_sort_view(g.stream, 1, false, &shut, &y, NULL));
        CHECK(face_holds(&g, &y, (float[]){3}));
    }
    face_close(&g);
}

/* An op that fails on the device leaves an error that stays until it is cleared, and hurts nothing.
 */
static void test_index_out_of_range_on_the_device(void)
{
    face g = face_open();
    um_view x = face_put(&g, UM_F32, SHAPE(3), (float[]){1, 2, 3}),
            y = face_put(&g, UM_F32, SHAPE(4), NULL);
    um_view ids = face_put(&g, UM_I64, SHAPE(4), (int64_t[]){2, -1, 3, 0});
    CHECK_OK(um_index_select_view(g.stream, 0, &x, &ids, &y));
    CHECK(um_synchronize(g.stream) == UM_OUT_OF_RANGE);
    CHECK(um_fill_view(g.stream, (um_number){0, 0}, &x) == UM_OUT_OF_RANGE);
    CHECK(um_stream_clear_error(g.stream) == UM_OUT_OF_RANGE);
    CHECK(face_holds(&g, &y, (float[]){3, 0, 0, 1}) && face_holds(&g, &x, (float[]){1, 2, 3}));
    face_close(&g);
}

int main(void)
{
    TEST(test_huge_sizes_are_refused);
    TEST(test_bad_pointers_are_refused);
    TEST(test_overlaps_are_refused);
    TEST(test_nothing_to_write_is_done);
    TEST(test_nan_propagates);
    TEST(test_cummax_is_nan_from_the_first_on);
    TEST(test_zeros_have_signs);
    TEST(test_first_nan_and_lowest_index_win);
    TEST(test_clamp_with_lo_above_hi_gives_hi);
    TEST(test_infinities_are_ordinary);
    TEST(test_softmax_of_infinities);
    TEST(test_reductions_of_nothing);
    TEST(test_stride_zero_input);
    TEST(test_unused_strides);
    TEST(test_index_out_of_range_on_the_device);
    return TEST_RESULT();
}
