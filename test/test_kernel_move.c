/* copy, fill and arange: every pair of dtypes against um_convert, views of every kind against plain
 * loops. */
#include "test/test_kernel.h"

static um_op copy_op(um_view out, um_view in)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = in;
    op.out[0] = out;
    return op;
}

/* Element i as bits, 4-bit dtypes too. */
static uint64_t element_bits(um_dtype dtype, const void *data, int64_t i)
{
    int bits = um_dtype_bits(dtype);
    uint64_t x = 0;
    const uint8_t *bytes = data;
    if (bits < 8) return (uint64_t)(bytes[i / 2] >> (i % 2 * 4)) & 15;
    memcpy(&x, bytes + i * (bits / 8), (size_t)bits / 8);
    return x;
}

static void test_every_conversion(void)
{
    enum { N = 1201 };
    static uint64_t source[N], strided[3 * N], packed[N], want[N];
    for (um_dtype in = UM_F64; in <= UM_BOOL; in++) {
        for (int i = 0; i < N; i++) {
            double x = random_between(-300, 300) * (i % 5 ? 1 : 1e-3);
            um_store(in, source, i, 1, UM_CLASS_F64, &x, 1);
        }
        for (um_dtype out = UM_F64; out <= UM_BOOL; out++) {
            memset(strided, 0, sizeof strided);
            CHECK_OK(um_convert(out, want, in, source, N));
            um_op op = copy_op(view_1d(packed, out, N), view_1d(source, in, N));
            CHECK_OK(run_op(&op));
            op.out[0] = view_1d(strided, out, N);
            op.out[0].stride[0] = 3;
            CHECK_OK(run_op(&op));
            bool right = true;
            for (int i = 0; i < N; i++)
                right = right && element_bits(out, packed, i) == element_bits(out, want, i) &&
                        element_bits(out, strided, 3 * i) == element_bits(out, want, i);
            CHECK_MSG(right, "%s to %s", um_dtype_name(in), um_dtype_name(out));
        }
    }
}

/* NaN payloads and all the other bits of one dtype come through. */
static void test_bits_are_kept(void)
{
    uint32_t in[] = {0x7f800001u, 0xffc12345u, 0x80000000u, 1u}, out[4];
    um_op op = copy_op(view_1d(out, UM_F32, 4), view_1d(in, UM_F32, 4));
    CHECK_OK(run_op(&op));
    CHECK(memcmp(in, out, sizeof in) == 0);
    uint8_t all[256], moved[256];
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    for (um_dtype dtype = UM_F8E4M3FN; dtype <= UM_F8E8M0; dtype++) {
        if (dtype == UM_F4E2M1) continue;
        memset(moved, 0, sizeof moved);
        op =
            copy_op(reversed(view_1d(moved, dtype, 256), 0), reversed(view_1d(all, dtype, 256), 0));
        CHECK_OK(run_op(&op));
        CHECK_MSG(memcmp(all, moved, 256) == 0, "%s", um_dtype_name(dtype));
    }
    float same[3] = {1, 2, 3};
    op = copy_op(view_1d(same, UM_F32, 3), view_1d(same, UM_F32, 3));
    CHECK_OK(run_op(&op));
    CHECK(same[2] == 3);
    op = copy_op(view_1d(same, UM_I32, 3), view_1d(same, UM_F32, 3)); /* in place, of equal size */
    CHECK_OK(run_op(&op));
    int32_t two;
    memcpy(&two, &same[1], sizeof two);
    CHECK(two == 2);
}

/* ---- views ---------------------------------------------------------------------------------- */

static int64_t offset_of(const um_view *v, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t axis = 0; axis < v->rank; axis++) at += index[axis] * v->stride[axis];
    return at;
}

static bool views_equal(const um_view *a, const um_view *b)
{
    int64_t n = um_view_count(a), index[UM_MAX_RANK];
    int64_t size = um_dtype_bits(a->dtype) / 8;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        for (int32_t axis = a->rank - 1; axis >= 0; axis--) {
            index[axis] = rest % a->shape[axis];
            rest /= a->shape[axis];
        }
        const char *x = (const char *)(uintptr_t)a->ptr + offset_of(a, index) * size;
        const char *y = (const char *)(uintptr_t)b->ptr + offset_of(b, index) * size;
        if (memcmp(x, y, (size_t)size) != 0) return false;
    }
    return true;
}

enum { BIG = 1 << 20 };

static void check_permutation(um_dtype dtype, const int64_t *shape, const int *order, int32_t flip,
                              const void *from, void *to)
{
    um_view in = view_of(from, dtype, 3, shape), turned = in;
    for (int axis = 0; axis < 3; axis++) {
        turned.shape[axis] = in.shape[order[axis]];
        turned.stride[axis] = in.stride[order[axis]];
    }
    if (flip >= 0 && um_view_count(&in) > 0) turned = reversed(turned, flip);
    um_op op = copy_op(view_of(to, dtype, 3, turned.shape), turned);
    memset(to, 0xa5, BIG);
    CHECK_OK(run_op(&op));
    CHECK_MSG(views_equal(&op.out[0], &turned), "%s %dx%dx%d order %d%d%d flip %d",
              um_dtype_name(dtype), (int)shape[0], (int)shape[1], (int)shape[2], order[0], order[1],
              order[2], (int)flip);
    size_t used = (size_t)um_view_count(&turned) * (size_t)um_dtype_bits(dtype) / 8;
    if (used < BIG) CHECK(((uint8_t *)to)[used] == 0xa5);
}

static void test_permutations(void)
{
    static const int64_t shapes[][3] = {{0, 3, 4},   {1, 1, 1},   {2, 3, 5},    {8, 8, 8},
                                        {1, 65, 33}, {3, 31, 70}, {64, 2, 100}, {1, 300, 257}};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const um_dtype dtypes[] = {UM_F64, UM_F32, UM_BF16, UM_U8};
    uint8_t *from = malloc(BIG), *to = malloc(BIG + 1);
    if (from && to) {
        for (int i = 0; i < BIG; i++) from[i] = (uint8_t)random_bits();
        for (size_t s = 0; s < UM_COUNT_OF(shapes); s++)
            for (size_t o = 0; o < UM_COUNT_OF(orders); o++)
                for (size_t d = 0; d < UM_COUNT_OF(dtypes); d++)
                    check_permutation(dtypes[d], shapes[s], orders[o], (int32_t)(s + o) % 4 - 1,
                                      from, to);
    }
    free(from);
    free(to);
}

/* Large enough for streaming stores, and not aligned to a line. */
static void test_large(void)
{
    enum { ROWS = 1501, COLUMNS = 1600 };
    size_t bytes = (size_t)ROWS * COLUMNS * 4;
    float *from = malloc(bytes), *to = malloc(bytes + 4);
    if (from && to) {
        for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) from[i] = (float)i;
        um_op op =
            copy_op(view_2d(to + 1, UM_F32, ROWS, COLUMNS), view_2d(from, UM_F32, ROWS, COLUMNS));
        CHECK_OK(run_op(&op));
        CHECK(memcmp(to + 1, from, bytes) == 0);
        op.in[0] = transposed(view_2d(from, UM_F32, COLUMNS, ROWS));
        CHECK_OK(run_op(&op));
        CHECK(views_equal(&op.out[0], &op.in[0]));
    }
    free(from);
    free(to);
}

/* ---- fill, arange --------------------------------------------------------------------------- */

static void test_fill(void)
{
    enum { ROWS = 37, COLUMNS = 41, N = ROWS * COLUMNS };
    static uint64_t memory[N + 1], want[1];
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++) {
        bool is_float = um_dtype_is_float(dtype);
        um_op op = {.id = UM_OP_FILL, .out_count = 1};
        double f = 1.5;
        int64_t i = 77;
        if (is_float)
            op.attrs.fill.f = f;
        else
            op.attrs.fill.i = i;
        memset(memory, 0, sizeof memory);
        op.out[0] = view_2d(memory, dtype, ROWS, COLUMNS);
        CHECK_OK(run_op(&op));
        want[0] = 0;
        um_store(dtype, want, 0, 1, is_float ? UM_CLASS_F64 : UM_CLASS_I64,
                 is_float ? (void *)&f : &i, 1);
        bool right = true;
        for (int k = 0; k < N; k++)
            right = right && element_bits(dtype, memory, k) == element_bits(dtype, want, 0);
        CHECK_MSG(right && element_bits(dtype, memory, N) == 0, "%s", um_dtype_name(dtype));
        op.out[0] =
            transposed(view_2d(memory, dtype, COLUMNS, ROWS)); /* strided, and with another value */
        op.attrs.fill.f = 0;
        op.attrs.fill.i = 0;
        CHECK_OK(run_op(&op));
        for (int k = 0; k < N && dtype != UM_F8E8M0; k++)
            right = right && element_bits(dtype, memory, k) == 0;
        CHECK_MSG(right, "%s transposed", um_dtype_name(dtype));
    }
}

static void test_arange(void)
{
    enum { N = 70001 };
    static double d[N];
    static float f[N];
    static uint8_t u[N];
    um_op op = {.id = UM_OP_ARANGE, .out_count = 1};
    op.attrs.arange.start = 0.1;
    op.attrs.arange.step = 0.3;
    op.out[0] = reversed(view_1d(d, UM_F64, N), 0);
    CHECK_OK(run_op(&op));
    op.out[0] = view_1d(f, UM_F32, N);
    CHECK_OK(run_op(&op));
    bool right = true;
    for (int i = 0; i < N; i++)
        right = right && d[N - 1 - i] == 0.1 + i * 0.3 && f[i] == (float)(0.1 + i * 0.3);
    CHECK(right);
    op.attrs.arange.i_start = 250;
    op.attrs.arange.i_step = -3;
    op.out[0] = view_1d(u, UM_U8, N);
    CHECK_OK(run_op(&op));
    for (int i = 0; i < N; i++) right = right && u[i] == (uint8_t)(250 - 3 * i);
    CHECK(right);
    op.out[0] = view_1d(u, UM_U8, 0);
    CHECK_OK(run_op(&op));
}

static void tests(void)
{
    TEST(test_every_conversion);
    TEST(test_bits_are_kept);
    TEST(test_permutations);
    TEST(test_large);
    TEST(test_fill);
    TEST(test_arange);
}

int main(void)
{
    run_all(tests);
    return TEST_RESULT();
}
