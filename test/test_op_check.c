/* test/test_op_check.c: um_op_check's look at outputs and memory, the overlap predicates against
 * enumeration, garbage, and that every op has good samples for every dtype. */
#include "base/os.h"
#include "op_build.h"

/* ---- um_op_check: outputs and memory -----------------------------------------------------------
 */

static um_op make_neg(void)
{
    um_op op = make_op(UM_OP_NEG);
    add_input(&op, UM_F32, SHAPE(3, 4));
    op.out[0] = view_at(0x40000000, UM_F32, SHAPE(3, 4));
    return op;
}

static void test_output(void)
{
    um_op op = make_neg();
    CHECK_OK(um_op_check(&op));
    op.out[0].dtype = UM_F64;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT,
                "neg: wrong output: it is f64[3,4], the op's is f32[3,4]");
    op.out[0] = view_at(0, UM_F32, SHAPE(4, 3));
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "wrong output");
    op.out[0].rank = -7;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "output 0 needs a rank");
    op = make_neg();
    op.in[0].stride[0] = INT64_MAX / 3;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "neg: input 0 reaches further than 64 bits");
    op.in[0].stride[0] = INT64_MIN;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "input 0 reaches further than 64 bits");
    op = make_neg();
    op.in[0].stride[0] = -4;
    op.in[0].ptr = 16;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "input 0 reaches beyond the address space");
    op.in[0].ptr = 32;
    CHECK_OK(um_op_check(&op));
    op = make_neg();
    op.out[0].ptr = UINT64_MAX - 46;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "output 0 reaches beyond the address space");
    op.out[0].ptr = UINT64_MAX - 47;
    CHECK_OK(um_op_check(&op));
    /* nothing to write: no pointer matters */
    op = make_neg();
    op.in[0] = op.out[0] = view_at(UINT64_MAX, UM_F32, SHAPE(3, 0));
    op.in[0].stride[0] = INT64_MIN;
    CHECK_OK(um_op_check(&op));
}

static void test_in_place(void)
{
    um_op op = make_neg();
    op.in[0] = op.out[0];
    CHECK_OK(um_op_check(&op));
    op.in[0].ptr += 4;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT,
                "neg: output 0 overlaps input 0 and is not exactly in place");
    op.id = UM_OP_COPY;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "copy: output 0 overlaps input 0");
    op.in[0] = op.out[0];
    op.out[0].dtype = UM_I32;
    CHECK_OK(um_op_check(&op));
    op.out[0].dtype = UM_I16;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "overlaps");
    op.out[0].dtype = UM_F32;
    op.id = UM_OP_SOFTMAX;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "softmax: output 0 overlaps input 0");
    op = make_neg();
    op.out[0].stride[0] = 0;
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT,
                "neg: elements of the output overlap each other: out is f32[3,4]");
    op = make_op(UM_OP_MATMUL);
    add_input(&op, UM_F32, SHAPE(4, 4));
    add_input(&op, UM_F32, SHAPE(4, 4));
    add_input(&op, UM_F32, SHAPE(4, 4));
    op.attrs.matmul.beta = 1;
    op.out[0] = op.in[2];
    CHECK_OK(um_op_check(&op));
    op.out[0] = op.in[1];
    CHECK_FAILS(um_op_check(&op), UM_INVALID_ARGUMENT, "matmul: output 0 overlaps input 1");
}

static void test_overlap_cases(void)
{
    um_view a = view_at(0x1000, UM_F32, SHAPE(100)), b = a;
    a.stride[0] = b.stride[0] = 2;
    b.ptr += 4;
    CHECK(!um_views_overlap(&a, &b)); /* two columns of a matrix */
    b.ptr += 4;
    CHECK(um_views_overlap(&a, &b));
    b.ptr -= 3;
    CHECK(um_views_overlap(&a, &b)); /* not aligned to the elements */
    b = view_at(0x1000 + 200 * 4, UM_F32, SHAPE(100));
    CHECK(!um_views_overlap(&a, &b));
    b.stride[0] = -1;
    CHECK(um_views_overlap(&a, &b));
    b.ptr = 0x1000 - 4;
    CHECK(!um_views_overlap(&a, &b));
    a = b = view_at(0x1000, UM_F32, SHAPE(64, 128));
    a.stride[0] = b.stride[0] = 257;
    b.ptr += (um_ptr)129 * 4;
    CHECK(!um_views_overlap(&a, &b) && !um_view_self_overlaps(&a)); /* halves of a matrix */
    b.ptr -= 8;
    CHECK(um_views_overlap(&a, &b));
    a.stride[0] = 127;
    CHECK(um_view_self_overlaps(&a)); /* rows shifted by one less than their length */
    a.stride[0] = -128;
    CHECK(!um_view_self_overlaps(&a));
    a = view_at(0x1000, UM_F32, SHAPE(3, 3));
    a.stride[0] = 2;
    a.stride[1] = 3;
    CHECK(!um_view_self_overlaps(&a)); /* 0 3 6 2 5 8 4 7 10 */
    a.shape[0] = 4;
    CHECK(um_view_self_overlaps(&a)); /* and 6 9 12 */
}

/* ---- overlap against enumeration ----------------------------------------------------------------
 */

static uint32_t random_state = 12345;

static int32_t random_int(int32_t lo, int32_t hi)
{
    random_state = random_state * 1664525u + 1013904223u;
    return lo + (int32_t)((random_state >> 8) % (uint32_t)(hi - lo + 1));
}

static um_view random_view(const um_dtype *dtypes, int32_t dtype_count)
{
    um_view v = {.ptr = 1000 + (um_ptr)random_int(0, 40)};
    v.dtype = dtypes[random_int(0, dtype_count - 1)];
    v.rank = random_int(0, 4);
    for (int32_t i = 0; i < v.rank; i++) {
        v.shape[i] = random_int(0, 9) ? random_int(1, 4) : 0;
        v.stride[i] = random_int(-11, 11);
    }
    return v;
}

/* Half bytes 0..NIBBLES-1 that the view touches, from address 0, with counts; false when an element
 * touched one that was already touched. */
enum { NIBBLES = 8192 };
static bool mark(const um_view *v, uint8_t *touched)
{
    int64_t width = um_dtype_bits(v->dtype) / 4, index[UM_MAX_RANK] = {0};
    bool once = true;
    memset(touched, 0, NIBBLES);
    for (int64_t left = um_view_count(v); left > 0; left--) {
        int64_t at = (int64_t)v->ptr * 2;
        for (int32_t i = 0; i < v->rank; i++) at += index[i] * v->stride[i] * width;
        for (int64_t n = 0; n < width; n++) {
            if (touched[at + n]) once = false;
            touched[at + n] = 1;
        }
        for (int32_t i = 0; i < v->rank; i++) {
            if (++index[i] < v->shape[i]) break;
            index[i] = 0;
        }
    }
    return once;
}

static bool share_a_byte(const uint8_t *a, const uint8_t *b)
{
    for (int32_t i = 0; i < NIBBLES; i += 2)
        if ((a[i] || a[i + 1]) && (b[i] || b[i + 1])) return true;
    return false;
}

static void test_overlap_random(void)
{
    static const um_dtype dtypes[] = {UM_U8, UM_F16, UM_F32, UM_F64, UM_F4E2M1};
    static uint8_t in_a[NIBBLES], in_b[NIBBLES];
    int32_t yes = 0, no = 0, refused = 0;
    for (int32_t round = 0; round < 40000; round++) {
        um_view a = random_view(dtypes, 5), b = random_view(dtypes, 5);
        bool once = mark(&a, in_a);
        mark(&b, in_b);
        CHECK_MSG(um_view_self_overlaps(&a) == !once, "round %d", round);
        bool met = um_views_overlap(&a, &b), meet = share_a_byte(in_a, in_b);
        CHECK(met == um_views_overlap(&b, &a));
        if (a.dtype == UM_F4E2M1 && b.dtype == UM_F4E2M1) { /* may say yes to neighbours */
            CHECK_MSG(met || !meet, "round %d", round);
            refused += met && !meet;
            continue;
        }
        CHECK_MSG(met == meet, "round %d: said %d", round, met);
        yes += meet;
        no += !meet;
    }
    printf("     %d overlap, %d do not, %d of 4 bits refused for a neighbour\n", yes, no, refused);
}

/* Strides that make the search long: it must end soon, and never say "no" for "yes". */
static void test_overlap_bounded(void)
{
    um_view a = view_at(0x100000000, UM_U8, SHAPE(997, 991, 983, 977, 971, 967));
    static const int64_t strides[] = {1000003, 1000033, 1000037, 1000039, 1000081, 1000099};
    memcpy(a.stride, strides, sizeof strides);
    um_view b = a;
    b.ptr += 7;
    int64_t start = um_os_now_ns();
    CHECK(um_view_self_overlaps(&a));
    CHECK(um_views_overlap(&a, &b));
    CHECK(um_os_now_ns() - start < 1000000000);
    a = view_at(0x100000000, UM_U8, SHAPE(INT64_MAX));
    b = view_at(0x200000000, UM_U8, SHAPE(INT64_MAX));
    CHECK(um_views_overlap(&a, &b));
    CHECK(!um_view_self_overlaps(&a));
}

/* ---- garbage --------------------------------------------------------------------------------- */

static int64_t random_i64(void)
{
    static const int64_t ends[] = {0, 1, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 62, 7, 2};
    if (random_int(0, 3)) return random_int(-3, 9);
    if (random_int(0, 1)) return ends[random_int(0, 7)];
    uint64_t bits = 0;
    for (int32_t i = 0; i < 4; i++) bits = bits << 16 | (uint64_t)random_int(0, 0xffff);
    return (int64_t)bits;
}

/* Mostly sensible fields, so that garbage gets past the first checks. */
static um_view garbage_view(void)
{
    um_view v = {
        .ptr = (um_ptr)random_i64(), .dtype = random_int(-1, 25), .rank = random_int(-1, 9)};
    if (random_int(0, 2)) v.dtype = UM_F32;
    if (random_int(0, 1)) v.rank = 2;
    if (!random_int(0, 20)) v.rank = (int32_t)random_i64();
    for (int32_t i = 0; i < UM_MAX_RANK; i++) {
        v.shape[i] = random_int(0, 1) ? 4 : random_i64();
        v.stride[i] = random_i64();
    }
    return v;
}

static void garbage_op(um_op *op, um_map_program *program)
{
    op->id = random_int(-1, um_op_count() + 2);
    const um_op_row *row = um_op_get_row(op->id);
    op->in_count = row && random_int(0, 9) ? row->in_max : (int32_t)random_i64();
    op->out_count = random_int(0, 9) ? 1 : (int32_t)random_i64();
    for (int32_t i = 0; i < 4; i++) op->attrs.raw[i] = random_i64();
    program->dtype = random_int(-2, 25);
    program->inst_count = random_int(-1, 26);
    for (int32_t i = 0; i < UM_MAP_MAX_INSTS; i++) {
        program->inst[i].op = (uint16_t)random_int(0, um_op_count() + 4);
        for (int32_t k = 0; k < 3; k++) program->inst[i].src[k] = (uint8_t)random_int(0, 9);
    }
    const um_map_program *any = random_int(0, 9) ? program : NULL;
    if (op->id == UM_OP_MAP) op->attrs.program = any;
    if (row && row->family == UM_FAMILY_REDUCE) {
        op->attrs.reduce.prologue = random_int(0, 1) ? any : NULL;
        op->attrs.reduce.epilogue = random_int(0, 1) ? any : NULL;
    }
    if (op->id == UM_OP_MATMUL) op->attrs.matmul.epilogue = random_int(0, 1) ? any : NULL;
    if (op->id == UM_OP_CONV) op->attrs.conv_fused.epilogue = random_int(0, 1) ? any : NULL;
    for (int32_t i = 0; i < UM_OP_MAX_INPUTS; i++) op->in[i] = garbage_view();
    for (int32_t i = 0; i < UM_OP_MAX_OUTPUTS; i++) op->out[i] = garbage_view();
    for (int32_t i = 1; i < UM_OP_MAX_INPUTS; i++)
        if (random_int(0, 2)) op->in[i] = op->in[0];
}

/* An op that fails, or is only looked at, stays as it is, byte for byte. */
static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

static void test_garbage(void)
{
    static um_op op;
    static um_map_program program;
    int32_t inferred = 0, complete = 0;
    for (int32_t round = 0; round < 100000; round++) {
        garbage_op(&op, &program);
        um_op before = op;
        bool good = um_op_check(&op) == UM_OK;
        complete += good;
        CHECK(same_bytes(&before, &op, sizeof op));
        if (um_op_infer(&op) == UM_OK) {
            inferred++;
            good = um_op_check(&op) == UM_OK;
            complete += good;
        } else {
            CHECK(!good && same_bytes(&before, &op, sizeof op));
        }
    }
    printf("     %d inferred, %d complete\n", inferred, complete);
    CHECK(inferred > 100);
}

/* ---- samples -------------------------------------------------------------------------------- */

/* Pointers far apart, 64 bytes aligned. */
static void place(um_op *op)
{
    um_ptr at = 4096;
    um_view *views[UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS];
    int32_t count = 0;
    for (int32_t i = 0; i < op->in_count; i++) views[count++] = &op->in[i];
    for (int32_t i = 0; i < op->out_count; i++) views[count++] = &op->out[i];
    for (int32_t i = 0; i < count; i++) {
        views[i]->ptr = at;
        at += ((um_ptr)um_view_count(views[i]) * 8 + 127) / 64 * 64;
    }
}

static int32_t sample_elements;

static int32_t check_samples(const um_op_row *row, um_dtype dtype)
{
    static um_sample sample;
    int32_t index = 0;
    for (;; index++) {
        memset(&sample, 0, sizeof sample);
        sample.op.id = row->id;
        if (!row->sample(index, dtype, &sample)) break;
        place(&sample.op);
        um_status status = um_op_check(&sample.op);
        CHECK_MSG(status == UM_OK, "%s %s sample %d (%s): %s", row->name, um_dtype_name(dtype),
                  index, sample.label, um_last_error()->message);
        CHECK_MSG(strlen(sample.label) < sizeof sample.label - 1, "%s", sample.label);
        int32_t main = um_op_main_input(row->id);
        if (main >= 0 && main < sample.op.in_count) CHECK(sample.op.in[main].dtype == dtype);
        for (int32_t i = 0; i < sample.op.in_count; i++) {
            CHECK_MSG(sample.lo[i] <= sample.hi[i], "%s %s: %g > %g", row->name,
                      um_dtype_name(dtype), sample.lo[i], sample.hi[i]);
            sample_elements += (int32_t)um_view_count(&sample.op.in[i]);
        }
    }
    return index;
}

static void test_samples(void)
{
    int32_t total = 0;
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        const um_op_row *row = um_op_get_row(id);
        for (um_dtype d = 1; um_dtype_valid(d); d++) {
            if (!(row->dtypes & UM_BIT(d))) continue;
            int32_t count = check_samples(row, d);
            CHECK_MSG(count > 0, "%s %s has no sample", row->name, um_dtype_name(d));
            total += count;
        }
    }
    printf("     %d samples, %d input elements\n", total, sample_elements);
}

/* ---- speed ------------------------------------------------------------------------------------
 */

/* The best of some batches: other programs run too. */
static void time_check(const char *what, const um_op *op)
{
    enum { BATCHES = 50, ROUNDS = 500 };
    int64_t best = INT64_MAX;
    for (int32_t batch = 0; batch < BATCHES; batch++) {
        int64_t start = um_os_now_ns();
        for (int32_t i = 0; i < ROUNDS; i++) CHECK_OK(um_op_check(op));
        best = UM_MIN(best, um_os_now_ns() - start);
    }
    printf("     um_op_check %-24s %4lld ns\n", what, (long long)(best / ROUNDS));
    CHECK(best / ROUNDS < 50000);
}

static void test_speed(void)
{
    um_op op = make_neg();
    time_check("neg [3,4]", &op);
    op = make_op(UM_OP_ADD);
    add_input(&op, UM_F32, SHAPE(2, 3, 4, 5));
    add_input(&op, UM_F32, SHAPE(2, 3, 4, 5));
    CHECK_OK(um_op_infer(&op));
    time_check("add [2,3,4,5]", &op);
    op.out[0] = op.in[0];
    time_check("add [2,3,4,5] in place", &op);
    op.in[0].stride[0] = op.out[0].stride[0] = 1000;
    op.in[0].stride[3] = op.out[0].stride[3] = 2;
    op.in[0].stride[2] = op.out[0].stride[2] = 10;
    op.in[0].stride[1] = op.out[0].stride[1] = 40;
    op.in[1] = op.in[0];
    op.in[1].ptr += 4;
    time_check("add, interleaved", &op);
    op = make_op(UM_OP_MATMUL);
    op.out[0].dtype = UM_F32;
    add_input(&op, UM_F32, SHAPE(64, 64));
    add_input(&op, UM_F32, SHAPE(64, 64));
    CHECK_OK(um_op_infer(&op));
    time_check("matmul [64,64]", &op);
    op = make_attention();
    CHECK_OK(um_op_infer(&op));
    time_check("attention", &op);
}

int main(void)
{
    TEST(test_output);
    TEST(test_in_place);
    TEST(test_overlap_cases);
    TEST(test_overlap_random);
    TEST(test_overlap_bounded);
    TEST(test_garbage);
    TEST(test_samples);
    TEST(test_speed);
    return TEST_RESULT();
}
