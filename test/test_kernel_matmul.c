/* The matmul kernel alone against plain f64 loops: shapes around every block size, layouts,
 * batches, alpha and beta, NaN rules, small floats, 8-bit integers, epilogues, long sums, and the
 * same bits on any number of threads. */
#include "kernel_util.h"

typedef struct job {
    um_dtype dtype, out_dtype;
    int32_t batch_rank;
    int64_t batch[6], m, n, k;
    layout a, b, c, out;
    double alpha, beta;
} job;

typedef struct operands {
    array a, b, c, out;
    um_op op;
} operands;

static array make_matrix(const job *j, um_dtype dtype, int64_t rows, int64_t cols, layout form)
{
    int64_t shape[UM_MAX_RANK];
    for (int32_t d = 0; d < j->batch_rank; d++) shape[d] = j->batch[d];
    shape[j->batch_rank] = rows;
    shape[j->batch_rank + 1] = cols;
    return array_make(dtype, j->batch_rank + 2, shape, form);
}

static operands set_up(const job *j)
{
    operands x;
    um_dtype out = j->out_dtype ? j->out_dtype : j->dtype;
    x.a = make_matrix(j, j->dtype, j->m, j->k, j->a);
    x.b = make_matrix(j, j->dtype, j->k, j->n, j->b);
    x.c = make_matrix(j, out, j->m, j->n, j->c);
    x.out = make_matrix(j, out, j->m, j->n, j->out);
    array_fill(&x.a, 1), array_fill(&x.b, 1), array_fill(&x.c, 1);
    x.op = (um_op){.id = UM_OP_MATMUL, .in_count = j->beta != 0 ? 3 : 2, .out_count = 1};
    x.op.attrs.matmul.alpha = j->alpha;
    x.op.attrs.matmul.beta = j->beta;
    x.op.in[0] = x.a.view, x.op.in[1] = x.b.view, x.op.in[2] = x.c.view, x.op.out[0] = x.out.view;
    return x;
}

static void tear_down(operands *x)
{
    array_free(&x->a), array_free(&x->b), array_free(&x->c), array_free(&x->out);
}

/* Every element within CONTRACT's bound for the sum, and half an ulp of the output's type. */
static bool is_close(const job *j, const operands *x)
{
    for (int64_t index = 0; index < x->out.count; index++) {
        int64_t col = index % j->n, row = index / j->n % j->m, batch = index / j->n / j->m;
        double sum = 0, size = 0;
        for (int64_t k = 0; k < j->k; k++) {
            double term = array_get(&x->a, (batch * j->m + row) * j->k + k) *
                          array_get(&x->b, (batch * j->k + k) * j->n + col);
            sum += term;
            size += fabs(term);
        }
        double c = j->beta != 0 ? j->beta * array_get(&x->c, index) : 0;
        double want = j->alpha * sum + c, got = array_get(&x->out, index);
        double eps = dtype_eps(j->dtype == UM_F64 ? UM_F64 : UM_F32);
        double bound =
            eps * (8 * log2((double)j->k + 2) * fabs(j->alpha) * size + 2 * fabs(want) + fabs(c)) +
            dtype_eps(x->out.view.dtype) * fabs(want) + 1e-30;
        if (!(fabs(got - want) <= bound)) {
            fprintf(stderr, "element %lld: got %g, want %g\n", (long long)index, got, want);
            return false;
        }
    }
    return margins_intact(&x->out);
}

static void check_job(const job *j)
{
    operands x = set_up(j);
    CHECK_OK(run_op(&x.op));
    CHECK_MSG(is_close(j, &x),
              "%s m=%d n=%d k=%d batch rank %d layouts %d %d %d %d alpha %g beta %g",
              um_dtype_name(j->dtype), (int)j->m, (int)j->n, (int)j->k, (int)j->batch_rank, j->a,
              j->b, j->c, j->out, j->alpha, j->beta);
    tear_down(&x);
}

static void shapes_and_layouts(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {5, 7, 3},      {6, 16, 4},   {7, 17, 5},
                                       {1, 65, 33},  {64, 1, 64},    {1, 130, 9},  {37, 41, 43},
                                       {13, 3, 300}, {150, 33, 260}, {3, 300, 20}, {1, 1, 5000}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t i = 0; i < 2 * LAYOUTS * LAYOUTS; i++) {
            job j = {.dtype = i % 2 ? UM_F64 : UM_F32, .a = (layout)(i / 2 % LAYOUTS), .alpha = 1};
            j.b = (layout)(i / 2 / LAYOUTS), j.out = (layout)(i % 3 == 2 ? LAYOUTS - 1 : i % 3);
            j.m = sizes[s][0], j.n = sizes[s][1], j.k = sizes[s][2];
            j.c = j.b, j.beta = i % 5 == 0 ? -0.5 : 0, j.alpha = i % 7 == 0 ? 2 : 1;
            check_job(&j);
        }
}

static void small_floats(void)
{
    for (int32_t i = 0; i < 8; i++) {
        job j = {.dtype = i % 2 ? UM_F16 : UM_BF16, .alpha = 1, .beta = i & 2 ? 1 : 0};
        j.m = i & 4 ? 1 : 29, j.n = 37, j.k = 301;
        j.a = (layout)(i % LAYOUTS), j.b = (layout)((i + 1) % LAYOUTS);
        j.out_dtype = i % 3 ? UM_F32 : UM_DTYPE_NONE;
        check_job(&j);
    }
}

/* Every finite code of the narrow types times one is its value, whichever way it is packed. */
static void every_narrow_value(void)
{
    enum { SIDE = 64 };
    static const um_dtype dtypes[] = {UM_F16, UM_BF16, UM_F8E4M3FN, UM_F8E4M3FNUZ, UM_F8E5M2};
    for (size_t t = 0; t < UM_COUNT_OF(dtypes); t++)
        for (int32_t side = 0; side < 2; side++) {
            int32_t bits = um_dtype_bits(dtypes[t]);
            job j = {.dtype = dtypes[t], .out_dtype = UM_F32, .alpha = 1, .n = SIDE, .k = SIDE};
            j.m = (1 << bits) / SIDE;
            if (side) j.n = j.m, j.m = SIDE;
            operands x = set_up(&j);
            array *codes = side ? &x.b : &x.a, *one = side ? &x.a : &x.b;
            for (int32_t i = 0; i < 1 << bits; i++) {
                uint8_t *at = (uint8_t *)(uintptr_t)codes->view.ptr + i * bits / 8;
                memcpy(at, &(uint16_t){(uint16_t)i}, (size_t)bits / 8);
                if (!isfinite(array_get(codes, i))) memset(at, 0, (size_t)bits / 8);
            }
            for (int32_t i = 0; i < SIDE * SIDE; i++) array_set(one, i, i / SIDE == i % SIDE);
            CHECK_OK(run_op(&x.op));
            int32_t wrong = 0;
            for (int32_t i = 0; i < 1 << bits; i++)
                wrong += array_get(&x.out, i) != array_get(codes, i);
            CHECK_MSG(wrong == 0, "%s: %d", um_dtype_name(j.dtype), wrong);
            tear_down(&x);
        }
}

static void batches(void)
{
    for (int32_t i = 0; i < 12; i++) {
        job j = {.dtype = i % 2 ? UM_F64 : UM_F32, .batch_rank = 2, .batch = {2, 3}, .alpha = 1};
        j.m = i % 3 ? 7 : 1, j.n = 9, j.k = 5, j.b = i & 4 ? REPEATED : PACKED;
        j.a = i & 8 ? TURNED : PACKED;
        check_job(&j);
    }
    job many = {.dtype = UM_F32, .batch_rank = 6, .batch = {2, 1, 2, 1, 2, 2}, .alpha = 1};
    many.m = 2, many.n = 3, many.k = 4;
    check_job(&many);
}

/* What has no elements, or is not to be read. */
static void nothing_and_unread(void)
{
    job empty = {.dtype = UM_F32, .m = 0, .n = 3, .k = 2, .alpha = 1};
    check_job(&empty);
    for (int32_t i = 0; i < 4; i++) { /* k = 0 or alpha = 0, with and without c */
        job j = {.dtype = UM_F32, .m = 5, .n = 70, .k = i & 1 ? 0 : 4, .alpha = i & 1 ? 1 : 0};
        j.beta = i & 2 ? 2 : 0;
        operands x = set_up(&j);
        for (int64_t e = 0; e < x.a.count; e++) array_set(&x.a, e, (double)NAN);
        CHECK_OK(run_op(&x.op));
        for (int64_t e = 0; e < x.out.count; e++)
            CHECK(array_get(&x.out, e) == j.beta * array_get(&x.c, e));
        tear_down(&x);
    }
    job plain = {.dtype = UM_F64, .m = 5, .n = 7, .k = 4, .alpha = 1};
    operands x = set_up(&plain);
    x.op.in_count = 3; /* beta is 0: c is there and not read */
    for (int64_t e = 0; e < x.c.count; e++) array_set(&x.c, e, (double)NAN);
    CHECK_OK(run_op(&x.op));
    CHECK(is_close(&plain, &x));
    tear_down(&x);
}

/* c may be the output. */
static void in_place(void)
{
    static const int64_t sizes[][3] = {{70, 1, 9}, {1, 70, 9}, {45, 50, 300}, {1, 100, 300}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t form = 0; form < 2; form++) {
            job j = {.dtype = UM_F32, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2]};
            j.alpha = 1, j.beta = 1, j.b = form ? TURNED : PACKED, j.a = j.b;
            operands x = set_up(&j);
            memcpy(x.out.base, x.c.base, x.c.size_bytes);
            x.op.in[2] = x.out.view;
            CHECK_OK(run_op(&x.op));
            CHECK(is_close(&j, &x));
            tear_down(&x);
        }
}

/* The epilogue in the matmul gives the bits that its steps give one by one, with the residual where
 * the output is. */
static void epilogue_in_place(void)
{
    static const int64_t sizes[][3] = {{70, 1, 9}, {1, 70, 300}, {45, 50, 300}, {150, 33, 5}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t form = 0; form < 2; form++) {
            job j = {.dtype = UM_F32, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2]};
            j.alpha = 1, j.b = form ? TURNED : PACKED, j.a = j.b;
            operands x = set_up(&j);
            array bias = make_matrix(&j, UM_F32, j.m, j.n, PACKED);
            array want = make_matrix(&j, UM_F32, j.m, j.n, PACKED);
            array_fill(&bias, 1);
            bias.view.stride[s % 2] = 0;
            CHECK_OK(run_op(&x.op));
            for (int64_t i = 0; i < x.out.count; i++) {
                float sum = (float)(array_get(&x.out, i) + array_get(&bias, i));
                float act = sum > 0 ? sum : 0;
                array_set(&want, i, (double)((act + (float)array_get(&x.c, i)) * 3));
                array_set(&x.out, i, array_get(&x.c, i));
            }
            x.op.in[2] = um_view_none(UM_F32), x.op.in[3] = bias.view, x.op.in[4] = x.out.view;
            x.op.in_count = 5;
            x.op.attrs.matmul.activation = UM_OP_RELU, x.op.attrs.matmul.scale = 3;
            CHECK_OK(run_op(&x.op));
            int64_t wrong = 0;
            for (int64_t i = 0; i < x.out.count; i++)
                wrong += array_get(&x.out, i) != array_get(&want, i);
            CHECK_MSG(wrong == 0, "m=%d n=%d: %d", (int)j.m, (int)j.n, (int)wrong);
            array_free(&bias), array_free(&want), tear_down(&x);
        }
}

/* The largest products, so many that i32 wraps; and every pair of signs. */
static void bytes_wrap(void)
{
    static const int64_t sizes[][3] = {{7, 17, 70001}, {1, 3, 40000}, {5, 1, 66001}, {2, 2, 1}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t signs = 0; signs < 8; signs++) {
            job j = {.dtype = signs & 1 ? UM_U8 : UM_I8, .out_dtype = UM_I32, .alpha = -3};
            j.m = sizes[s][0], j.n = sizes[s][1], j.k = sizes[s][2], j.b = signs & 4 ? TURNED : 0;
            j.a = j.b;
            operands x = set_up(&j);
            double a = signs & 1 ? 255 : -128, b = signs & 2 ? 255 : -128;
            array_free(&x.b);
            x.b = make_matrix(&j, signs & 2 ? UM_U8 : UM_I8, j.k, j.n, j.b);
            x.op.in[1] = x.b.view;
            for (int64_t i = 0; i < x.a.count; i++) array_set(&x.a, i, a);
            for (int64_t i = 0; i < x.b.count; i++) array_set(&x.b, i, b);
            CHECK_OK(run_op(&x.op));
            int32_t want = (int32_t)(uint32_t)(-3 * (int64_t)(a * b) * j.k);
            for (int64_t i = 0; i < x.out.count; i++) CHECK(array_get(&x.out, i) == want);
            tear_down(&x);
        }
}

/* A NaN or inf in a row or column reaches that row or column and nothing else. */
static void special_values(void)
{
    static const int64_t sizes[][3] = {{5, 19, 7}, {9, 1, 70}, {1, 66, 20}, {20, 20, 600}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t form = 0; form < 2; form++) {
            job j = {.dtype = UM_F32, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2]};
            j.alpha = 1, j.b = form ? TURNED : PACKED;
            operands x = set_up(&j);
            int64_t row = j.m / 2, col = j.n / 2;
            array_set(&x.a, row * j.k + 1, (double)INFINITY);
            array_set(&x.b, 2 * j.n + col, (double)NAN);
            CHECK_OK(run_op(&x.op));
            for (int64_t i = 0; i < x.out.count; i++) {
                double got = array_get(&x.out, i), b = array_get(&x.b, j.n + i % j.n);
                if (i % j.n == col)
                    CHECK(isnan(got));
                else if (i / j.n == row)
                    CHECK(isinf(got) && (got > 0) == (b > 0));
                else
                    CHECK(isfinite(got));
            }
            tear_down(&x);
        }
}

/* Equal addends drive every rounding the same way: the worst case for long chains. */
static void long_sums(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1000003}, {2, 3, 300007}, {1, 64, 100003},
                                       {3, 2, 4099},    {2, 2, 257},    {2, 2, 255}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t form = 0; form < 2; form++) {
            job j = {.dtype = UM_F32, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2]};
            j.alpha = 1, j.b = form ? TURNED : PACKED;
            operands x = set_up(&j);
            for (int64_t i = 0; i < x.a.count; i++) array_set(&x.a, i, 0.1);
            for (int64_t i = 0; i < x.b.count; i++) array_set(&x.b, i, 0.7);
            CHECK_OK(run_op(&x.op));
            CHECK_MSG(is_close(&j, &x), "k=%lld", (long long)j.k);
            tear_down(&x);
        }
}

static void any_threads(void)
{
    static const int64_t sizes[][3] = {{200, 130, 300}, {30, 2000, 100},  {3000, 1, 600},
                                       {1, 2500, 700},  {100, 100, 5000}, {500, 9, 700}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int32_t form = 0; form < 2; form++) {
            static const um_dtype dtypes[] = {UM_F32, UM_F64, UM_I8, UM_F8E5M2};
            job j = {.dtype = dtypes[(s + 2 * (form != 0)) % 4], .m = sizes[s][0]};
            j.n = sizes[s][1], j.k = sizes[s][2], j.alpha = 1, j.b = form ? TURNED : PACKED;
            if (j.dtype == UM_I8) j.out_dtype = UM_I32;
            operands x = set_up(&j);
            CHECK(same_bits_for_any_lanes(&x.op, &x.out));
            tear_down(&x);
        }
    job batch = {
        .dtype = UM_F32, .batch_rank = 1, .batch = {100}, .m = 30, .n = 30, .k = 40, .alpha = 1};
    operands x = set_up(&batch);
    CHECK(same_bits_for_any_lanes(&x.op, &x.out));
    CHECK(is_close(&batch, &x));
    tear_down(&x);
}

int main(void)
{
    setenv("UMBEL_THREADS", "3", 1);
    TEST(shapes_and_layouts);
    TEST(small_floats);
    TEST(every_narrow_value);
    TEST(batches);
    TEST(nothing_and_unread);
    TEST(in_place);
    TEST(epilogue_in_place);
    TEST(bytes_wrap);
    TEST(special_values);
    TEST(long_sums);
    TEST(any_threads);
    return TEST_RESULT();
}
