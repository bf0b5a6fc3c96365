/* test/test_compute_gemm.c: um_gemm and its batched forms: each rule of the contract, and every
 * layout, transposition and type against plain loops in f64. Values over shapes and views, also of
 * the epilogue: umbel check. */
#include "base/base.h"
#include "face.h"

#include <math.h>

static double random_unit(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state & ~(uint64_t)2047) * 0x1p-63;
}

/* ---- matrices: column-major or row-major, with padding ----------------------------------------
 */

typedef struct matrix {
    um_dtype dtype;
    int64_t rows, cols, ld;
    bool by_rows;
    int64_t count; /* elements of memory, up to the last one of the matrix */
    double *value; /* as stored */
    um_ptr ptr;
} matrix;

static double *item(const matrix *x, int64_t row, int64_t col)
{
    return &x->value[x->by_rows ? row * x->ld + col : col * x->ld + row];
}

static bool is_padding(const matrix *x, int64_t at)
{
    return at % x->ld >= (x->by_rows ? x->cols : x->rows);
}

static void upload(face *f, const matrix *x)
{
    char *stored = calloc((size_t)x->count + 1, 8);
    CHECK_OK(um_convert(x->dtype, stored, UM_F64, x->value, x->count));
    CHECK_OK(
        um_write(f->stream, x->ptr, stored, (uint64_t)(x->count * um_dtype_bits(x->dtype) / 8)));
    free(stored);
}

static void download(face *f, matrix *x)
{
    char *stored = calloc((size_t)x->count + 1, 8);
    CHECK_OK(
        um_read(f->stream, stored, x->ptr, (uint64_t)(x->count * um_dtype_bits(x->dtype) / 8)));
    CHECK_OK(um_convert(UM_F64, x->value, x->dtype, stored, x->count));
    free(stored);
}

/* Random numbers, as the type holds them; NaN (integers: 99) between the columns. The allocation
 * ends with the last element. */
static matrix make(face *f, um_dtype dtype, int64_t rows, int64_t cols, int64_t pad, bool by_rows)
{
    matrix x = {.dtype = dtype, .rows = rows, .cols = cols, .by_rows = by_rows};
    bool is_float = dtype < UM_I8;
    int64_t lead = by_rows ? cols : rows, lines = by_rows ? rows : cols;
    x.ld = UM_MAX(lead, 1) + pad;
    x.count = lead > 0 && lines > 0 ? (lines - 1) * x.ld + lead : 0;
    x.value = malloc((size_t)(x.count + 1) * sizeof *x.value);
    for (int64_t i = 0; i < x.count; i++) {
        x.value[i] = is_float ? random_unit() : rint(random_unit() * 127);
        if (dtype == UM_U8) x.value[i] = fabs(x.value[i]) * 2;
        if (is_padding(&x, i)) x.value[i] = is_float ? (double)NAN : 99;
    }
    x.ptr = face_put(f, dtype, SHAPE(x.count), NULL).ptr;
    upload(f, &x);
    download(f, &x);
    return x;
}

/* ---- what should come out ----------------------------------------------------------------------
 */

static double eps_of(um_dtype dtype)
{
    switch ((int)dtype) {
    case UM_F64: return 0x1p-52;
    case UM_F32: return 0x1p-23;
    case UM_F16: return 0x1p-10;
    case UM_BF16: return 0x1p-7;
    case UM_F8E4M3FN: return 0x1p-3;
    default: return 0;
    }
}

/* Whether got is alpha op(a) op(b) + beta c, and as `before` between the columns. */
static bool is_product(const um_gemm_desc *d, const matrix *a, const matrix *b, const matrix *c,
                       const matrix *before, const matrix *got)
{
    double work = eps_of(a->dtype == UM_F64 ? UM_F64 : got->dtype == UM_I32 ? 0 : UM_F32);
    for (int64_t i = 0; i < d->m; i++)
        for (int64_t j = 0; j < d->n; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < d->k; p++) {
                double x = d->trans_a ? *item(a, p, i) : *item(a, i, p);
                double y = d->trans_b ? *item(b, j, p) : *item(b, p, j);
                sum += x * y, size += fabs(x * y);
            }
            double added = d->beta != 0 ? d->beta * *item(c, i, j) : 0;
            double want = d->alpha * sum + added, bound = work * (16 * size + fabs(added)) * 2;
            bound += eps_of(got->dtype) * fabs(want) + (got->dtype == UM_I32 ? 0 : 0x1p-10 * work);
            if (got->dtype == UM_F8E4M3FN) bound += 0x1p-9;
            if (got->dtype == UM_F16) bound += 0x1p-24;
            if (!(fabs(*item(got, i, j) - want) <= bound)) {
                fprintf(stderr, "[%d,%d]: got %.9g, want %.9g\n", (int)i, (int)j, *item(got, i, j),
                        want);
                return false;
            }
        }
    for (int64_t i = 0; i < got->count; i++) {
        bool kept =
            isnan(before->value[i]) ? isnan(got->value[i]) != 0 : got->value[i] == before->value[i];
        if (is_padding(got, i) && !kept) return false;
    }
    return true;
}

/* ---- every combination -------------------------------------------------------------------------
 */

static const struct {
    um_dtype a, b, c;
} types[] = {
    {UM_F64, UM_F64, UM_F64},
    {UM_F32, UM_F32, UM_F32},
    {UM_F16, UM_F16, UM_F16},
    {UM_F16, UM_F16, UM_F32},
    {UM_BF16, UM_BF16, UM_BF16},
    {UM_BF16, UM_BF16, UM_F32},
    {UM_F8E4M3FN, UM_F8E4M3FN, UM_F32},
    {UM_F8E4M3FN, UM_F8E4M3FN, UM_F8E4M3FN},
    {UM_F8E5M2, UM_F8E5M2, UM_F16},
    {UM_F8E4M3FN, UM_F8E5M2, UM_BF16},
    {UM_F8E5M2, UM_F8E4M3FN, UM_F32},
    {UM_I8, UM_I8, UM_I32},
    {UM_U8, UM_I8, UM_I32},
    {UM_U8, UM_U8, UM_I32},
};

static void check_one(int32_t type, int32_t layout, int32_t trans_a, int32_t trans_b, int64_t m,
                      int64_t n, int64_t k, double beta)
{
    face f = face_open();
    um_dtype a_type = types[type].a, b_type = types[type].b, c_type = types[type].c;
    bool rows = layout == UM_ROW_MAJOR;
    matrix a = trans_a ? make(&f, a_type, k, m, 3, rows) : make(&f, a_type, m, k, 3, rows);
    matrix b = trans_b ? make(&f, b_type, n, k, 1, rows) : make(&f, b_type, k, n, 1, rows);
    matrix c = make(&f, c_type, m, n, 2, rows), got = make(&f, c_type, m, n, 2, rows);
    memcpy(got.value, c.value, (size_t)c.count * sizeof *c.value);
    um_gemm_desc d = {.a_type = a_type, .b_type = b_type, .c_type = c_type, .layout = layout};
    d.trans_a = trans_a, d.trans_b = trans_b, d.m = m, d.n = n, d.k = k;
    d.alpha = 2, d.beta = beta;
    d.a = a.ptr, d.b = b.ptr, d.c = c.ptr, d.lda = a.ld, d.ldb = b.ld, d.ldc = c.ld;
    CHECK_OK(um_gemm(f.stream, &d));
    got.ptr = c.ptr;
    download(&f, &got);
    CHECK_MSG(is_product(&d, &a, &b, &c, &c, &got), "%s %s %s layout %d trans %d %d, %d %d %d",
              um_dtype_name(a_type), um_dtype_name(b_type), um_dtype_name(c_type), (int)layout,
              (int)trans_a, (int)trans_b, (int)m, (int)n, (int)k);
    free(a.value), free(b.value), free(c.value), free(got.value);
    face_close(&f);
}

static void test_every_combination(void)
{
    static const int64_t sizes[][3] = {{5, 7, 9}, {1, 9, 4}, {6, 1, 300}, {1, 1, 1}, {21, 34, 17}};
    for (int32_t type = 0; type < (int32_t)UM_COUNT_OF(types); type++)
        for (int32_t i = 0; i < 18; i++) {
            const int64_t *s = sizes[(i + type) % 5];
            check_one(type, i % 2, i / 2 % 3, i / 6, s[0], s[1], s[2], i % 4 == 3 ? 0 : -1);
        }
}

/* 2 x 2, column-major, f32: a b = c without anything. */
static const float a_values[] = {1, 2, 3, 4}, b_values[] = {5, 6, 7, 8};
static const float ab_values[] = {23, 34, 31, 46};

typedef struct small {
    face f;
    um_view a, b, c;
    um_gemm_desc d;
} small;

static small small_open(void)
{
    small s = {.f = face_open()};
    s.a = face_put(&s.f, UM_F32, SHAPE(4), a_values);
    s.b = face_put(&s.f, UM_F32, SHAPE(4), b_values);
    s.c = face_put(&s.f, UM_F32, SHAPE(4), (const float[]){1, 1, 1, 1});
    s.d = (um_gemm_desc){.a_type = UM_F32, .m = 2, .n = 2, .k = 2, .alpha = 1};
    s.d.a = s.a.ptr, s.d.b = s.b.ptr, s.d.c = s.c.ptr, s.d.lda = s.d.ldb = s.d.ldc = 2;
    return s;
}

static void refused(small *s, um_status code, const char *message)
{
    float before[4], after[4];
    face_get(&s->f, &s->c, before);
    CHECK_FAILS(um_gemm(s->f.stream, &s->d), code, message);
    face_get(&s->f, &s->c, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
}

static void test_beta_zero_does_not_read_c(void)
{
    small s = small_open();
    const float nans[] = {NAN, NAN, NAN, NAN};
    CHECK_OK(um_write(s.f.stream, s.d.c, nans, sizeof nans));
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &s.c, ab_values));
    um_view d = face_put(&s.f, UM_F32, SHAPE(4), NULL);
    s.d.d = d.ptr, s.d.ldd = 2, s.d.c = 0, s.d.ldc = 0; /* a separate result: no C at all */
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, ab_values));
    face_close(&s.f);
}

static void test_alpha_zero_does_not_read_a_and_b(void)
{
    small s = small_open();
    s.d.alpha = 0, s.d.beta = 3, s.d.a = s.d.b = 0;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &s.c, (const float[]){3, 3, 3, 3}));
    s.d.beta = 0;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &s.c, (const float[]){0, 0, 0, 0}));
    face_close(&s.f);
}

static void test_k_zero_scales_c(void)
{
    small s = small_open();
    s.d.k = 0, s.d.beta = 2, s.d.a = s.d.b = 0, s.d.ldb = 1;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &s.c, (const float[]){2, 2, 2, 2}));
    s.d.lda = 1;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: lda is 1, wants 2 or more");
    face_close(&s.f);
}

static void test_empty_with_null_pointers(void)
{
    small s = small_open();
    s.d.a = s.d.b = s.d.c = 0;
    s.d.m = 0;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    s.d.m = 2, s.d.n = 0;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK_OK(um_gemm_strided_batched(s.f.stream, &s.d, 5));
    CHECK_OK(um_gemm_batched(s.f.stream, &s.d, 5, NULL));
    CHECK_OK(um_gemm_grouped(s.f.stream, 1, &s.d));
    s.d.n = 2;
    CHECK_OK(um_gemm_strided_batched(s.f.stream, &s.d, 0));
    CHECK_OK(um_gemm_batched(s.f.stream, &s.d, 0, NULL));
    CHECK_OK(um_gemm_grouped(s.f.stream, 0, NULL));
    s.d.n = 0, s.d.ldc = 1;
    CHECK_FAILS(um_gemm(s.f.stream, &s.d), UM_INVALID_ARGUMENT, "ldc is 1");
    s.d.m = 0, s.d.ldc = 0;
    CHECK_FAILS(um_gemm(s.f.stream, &s.d), UM_INVALID_ARGUMENT, "ldc is 0, wants 1 or more");
    s.d.ldc = 2, s.d.a_type = UM_I32;
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, 0, NULL), UM_INVALID_ARGUMENT, "input 0 is i32");
    CHECK_FAILS(um_gemm(NULL, &s.d), UM_INVALID_ARGUMENT, "stream is NULL");
    face_close(&s.f);
}

static void test_small_leading_dimensions(void)
{
    static const struct {
        int32_t layout, trans_a, trans_b;
        int64_t lda, ldb, ldc; /* what m, n, k = 2, 3, 4 need */
    } rows[] = {
        {UM_COLUMN_MAJOR, UM_NO_TRANS, UM_NO_TRANS, 2, 4, 2},
        {UM_COLUMN_MAJOR, UM_TRANS, UM_CONJ_TRANS, 4, 3, 2},
        {UM_ROW_MAJOR, UM_NO_TRANS, UM_NO_TRANS, 4, 3, 3},
        {UM_ROW_MAJOR, UM_CONJ_TRANS, UM_TRANS, 2, 4, 3},
    };
    small s = small_open();
    um_view a = face_put(&s.f, UM_F32, SHAPE(8), NULL), b = face_put(&s.f, UM_F32, SHAPE(12), NULL);
    um_view c = face_put(&s.f, UM_F32, SHAPE(6), NULL);
    s.d.a = a.ptr, s.d.b = b.ptr, s.d.c = c.ptr, s.d.m = 2, s.d.n = 3, s.d.k = 4;
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++) {
        s.d.layout = rows[i].layout, s.d.trans_a = rows[i].trans_a, s.d.trans_b = rows[i].trans_b;
        s.d.lda = rows[i].lda, s.d.ldb = rows[i].ldb, s.d.ldc = rows[i].ldc;
        CHECK_OK(um_gemm(s.f.stream, &s.d));
        s.d.lda--;
        refused(&s, UM_INVALID_ARGUMENT, "gemm: lda is ");
        s.d.lda++, s.d.ldb--;
        refused(&s, UM_INVALID_ARGUMENT, "gemm: ldb is ");
        s.d.ldb++, s.d.ldc--;
        refused(&s, UM_INVALID_ARGUMENT, "gemm: ldc is ");
        s.d.ldc++, s.d.d = c.ptr, s.d.ldd = s.d.ldc - 1;
        refused(&s, UM_INVALID_ARGUMENT, "gemm: ldd is ");
        s.d.d = 0;
    }
    const um_gemm_epilogue epilogue = {.residual = c.ptr, .ld_residual = 2};
    s.d.epilogue = &epilogue;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: ld_residual is 2, wants 3 or more");
    face_close(&s.f);
}

/* Inside an allocation, whose last element is the matrix' last. */
static void test_interior_pointers(void)
{
    small s = small_open();
    um_view big = face_put(&s.f, UM_F32, SHAPE(9), (const float[]){9, 1, 2, 9, 3, 4, 9, 9, 9});
    um_view out = face_put(&s.f, UM_F32, SHAPE(9), NULL);
    s.d.a = big.ptr + 4, s.d.lda = 3;
    s.d.c = out.ptr + 16, s.d.ldc = 3;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    float got[9];
    face_get(&s.f, &out, got);
    CHECK(got[4] == 23 && got[5] == 34 && got[7] == 31 && got[8] == 46);
    CHECK(memcmp(&got[6], &got[3], 4) == 0); /* the padding is as it was */
    s.d.ldc = 4;                             /* one element too far */
    CHECK_FAILS(um_gemm(s.f.stream, &s.d), UM_INVALID_ARGUMENT,
                "is not inside one live allocation");
    s.d.ldc = 3, s.d.c += 2;
    CHECK_FAILS(um_gemm(s.f.stream, &s.d), UM_INVALID_ARGUMENT, "not at a multiple of its 4 bytes");
    face_close(&s.f);
}

static void test_freed_and_foreign_pointers(void)
{
    small s = small_open();
    static float host[4];
    um_ptr gone, c = s.d.c;
    CHECK_OK(um_alloc(s.f.device, 64, &gone));
    CHECK_OK(um_free(s.f.device, gone));
    s.d.b = gone;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: input 1, f32[2,2]");
    s.d.b = (um_ptr)(uintptr_t)host;
    refused(&s, UM_INVALID_ARGUMENT, "is not inside one live allocation");
    s.d.b = 0;
    refused(&s, UM_INVALID_ARGUMENT, "at 0x0, is not inside one live allocation");
    s.d.b = s.b.ptr, s.d.c = gone;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: output 0, f32[2,2]");
    s.d.c = c, s.d.k = 3, s.d.ldb = 3; /* a is one column too short */
    refused(&s, UM_INVALID_ARGUMENT, "matmul: input 0, f32[2,3]");
    face_close(&s.f);
}

static void test_overlaps(void)
{
    small s = small_open();
    um_view d = face_put(&s.f, UM_F32, SHAPE(8), (const float[]){1, 1, 1, 1, 1, 1, 1, 1});
    s.d.c = s.a.ptr;
    refused(&s, UM_INVALID_ARGUMENT, "output 0 overlaps input 0");
    s.d.c = s.b.ptr;
    refused(&s, UM_INVALID_ARGUMENT, "output 0 overlaps input 1");
    s.d.c = d.ptr, s.d.d = d.ptr + 4, s.d.ldd = 2, s.d.beta = 1;
    refused(&s, UM_INVALID_ARGUMENT, "output 0 overlaps input 2");
    um_gemm_epilogue epilogue = {.bias = d.ptr + 8};
    s.d.epilogue = &epilogue, s.d.beta = 0;
    refused(&s, UM_INVALID_ARGUMENT, "output 0 overlaps input 3");
    epilogue = (um_gemm_epilogue){.residual = d.ptr, .ld_residual = 2};
    refused(&s, UM_INVALID_ARGUMENT, "output 0 overlaps input 4");
    s.d.d = d.ptr, s.d.beta = 1; /* exactly C and residual */
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, (const float[]){25, 36, 33, 48, 1, 1, 1, 1}));
    s.d.d = 0, s.d.epilogue = NULL, s.d.c = d.ptr, s.d.ldc = 4; /* the other half of each line */
    s.d.a = d.ptr + 8, s.d.lda = 4;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    s.d.a -= 4;
    CHECK_FAILS(um_gemm(s.f.stream, &s.d), UM_INVALID_ARGUMENT, "output 0 overlaps input 0");
    face_close(&s.f);
}

static void test_huge_sizes(void)
{
    const int64_t huge = (int64_t)1 << 31;
    small s = small_open();
    s.d.m = s.d.n = s.d.ldc = s.d.lda = huge; /* 2^62 elements */
    refused(&s, UM_INVALID_ARGUMENT, "matmul: ");
    s.d.k = huge, s.d.n = 2, s.d.ldb = huge;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: ");
    s.d.m = s.d.k = 2, s.d.lda = INT64_MAX, s.d.ldb = 2;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: ");
    s.d.lda = 2, s.d.ldc = INT64_MAX / 4;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: ");
    s.d.ldc = 2, s.d.stride_c = INT64_MAX / 2;
    CHECK_FAILS(um_gemm_strided_batched(s.f.stream, &s.d, 5), UM_INVALID_ARGUMENT, "matmul: ");
    s.d.stride_c = 4;
    CHECK_FAILS(um_gemm_strided_batched(s.f.stream, &s.d, INT64_MAX / 4), UM_INVALID_ARGUMENT,
                "matmul: ");
    face_close(&s.f);
}

static void test_bad_arguments(void)
{
    small s = small_open();
    CHECK_FAILS(um_gemm(s.f.stream, NULL), UM_INVALID_ARGUMENT, "desc is NULL");
    CHECK_FAILS(um_gemm_batched(s.f.stream, NULL, 0, NULL), UM_INVALID_ARGUMENT, "desc is NULL");
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, 1, NULL), UM_INVALID_ARGUMENT,
                "pointers is NULL");
    CHECK_FAILS(um_gemm_strided_batched(s.f.stream, &s.d, -1), UM_INVALID_ARGUMENT, "batch of -1");
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, -1, NULL), UM_INVALID_ARGUMENT, "batch of -1");
    CHECK_FAILS(um_gemm_grouped(s.f.stream, 1, NULL), UM_INVALID_ARGUMENT, "1 products at");
    CHECK_FAILS(um_gemm_grouped(s.f.stream, -1, &s.d), UM_INVALID_ARGUMENT, "-1 products");
    s.d.m = -1;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: m, n, k are -1, 2, 2, wants 0 or more");
    s.d.m = 2, s.d.layout = 2;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: there is no layout 2");
    s.d.layout = 0, s.d.trans_b = 3;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: trans_a is 0 and trans_b 3, wants 0, 1 or 2");
    s.d.trans_b = 0, s.d.b_type = UM_F16;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: dtypes differ");
    s.d.b_type = 0, s.d.c_type = UM_F16;
    refused(&s, UM_INVALID_ARGUMENT, "a product of f32 cannot be f16");
    s.d.c_type = 0, s.d.a_type = 0;
    refused(&s, UM_INVALID_ARGUMENT, "matmul: ");
    s.d.a_type = UM_F32;
    const um_gemm_epilogue epilogue = {.bias_axis = 2};
    s.d.epilogue = &epilogue;
    refused(&s, UM_INVALID_ARGUMENT, "gemm: there is no bias_axis 2");
    const um_ptr one[] = {s.d.a};
    const um_gemm_pointers no_b = {.a = one, .c = one}, no_c = {.a = one, .b = one};
    s.d.epilogue = NULL;
    const um_gemm_pointers all = {.a = one, .b = one, .c = one};
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, INT64_MAX, &all), UM_OUT_OF_MEMORY, "no memory");
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, 1, &no_b), UM_INVALID_ARGUMENT,
                "pointers->b is NULL");
    CHECK_FAILS(um_gemm_batched(s.f.stream, &s.d, 1, &no_c), UM_INVALID_ARGUMENT,
                "pointers->c is NULL");
    face_close(&s.f);
}

/* ---- epilogue and rounding ---------------------------------------------------------------------
 */

static void test_epilogue_order(void)
{
    small s = small_open();
    um_view bias = face_put(&s.f, UM_F32, SHAPE(2), (const float[]){-30, -40});
    um_view rest = face_put(&s.f, UM_F32, SHAPE(4), (const float[]){1, 2, 3, 4});
    um_view d = face_put(&s.f, UM_F32, SHAPE(4), NULL);
    um_gemm_epilogue e = {.bias = bias.ptr, .activation = UM_OP_RELU, .scale = 0.5};
    e.residual = rest.ptr, e.ld_residual = 2;
    s.d.epilogue = &e, s.d.beta = 2, s.d.d = d.ptr, s.d.ldd = 2;
    /* ab + 2 c = 25 36 33 48; rows: -30 -40; relu; + 1 2 3 4; / 2 */
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, (const float[]){0.5f, 1, 3, 6}));
    e.bias_axis = UM_BIAS_OF_COLUMNS;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, (const float[]){0.5f, 4, 1.5f, 6}));
    /* row-major is the transposed problem: what was b comes first, and rows are columns */
    s.d.layout = UM_ROW_MAJOR, s.d.a = s.b.ptr, s.d.b = s.a.ptr, e.bias_axis = UM_BIAS_OF_ROWS;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, (const float[]){0.5f, 4, 1.5f, 6}));
    e = (um_gemm_epilogue){.activation = UM_OP_LEAKY_RELU, .a = 0.5}, s.d.alpha = -1, s.d.beta = 0;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &d, (const float[]){-11.5f, -17, -15.5f, -23}));
    face_close(&s.f);
}

/* Operands lose their low bits, sums do not. */
static void test_round_to(void)
{
    small s = small_open();
    const float fine[] = {1 + 0x1p-9f, 2, 0, 0}, ones[] = {1, 1, 0, 0};
    um_view a = face_put(&s.f, UM_F32, SHAPE(4), fine), b = face_put(&s.f, UM_F32, SHAPE(4), ones);
    s.d.a = a.ptr, s.d.b = b.ptr, s.d.trans_a = UM_TRANS, s.d.n = s.d.m = 1;
    um_view c = s.c;
    c.shape[0] = 1;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &c, (const float[]){3 + 0x1p-9f}));
    s.d.round_to = UM_F16;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &c, (const float[]){3 + 0x1p-9f}));
    s.d.round_to = UM_BF16;
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &c, (const float[]){3}));
    const float large[] = {500, 0.26f, 0, 0};
    CHECK_OK(um_write(s.f.stream, a.ptr, large, sizeof large));
    s.d.round_to = UM_F8E4M3FN; /* saturates */
    CHECK_OK(um_gemm(s.f.stream, &s.d));
    CHECK(face_holds(&s.f, &c, (const float[]){448.25f}));
    face_close(&s.f);
}

/* ---- batches -----------------------------------------------------------------------------------
 */

enum { BATCH = 4 };

/* BATCH products of 3 x 2 by 2 x 5 into a separate d; the b of all is one. */
typedef struct batch {
    face f;
    um_view a, b, c, d;
    um_gemm_desc desc;
    float want[BATCH][15];
} batch;

static batch batch_open(void)
{
    batch t = {.f = face_open()};
    float a[BATCH * 6], b[10], c[BATCH * 15];
    for (int i = 0; i < BATCH * 6; i++) a[i] = (float)(i % 11 - 5);
    for (int i = 0; i < 10; i++) b[i] = (float)(i % 7 - 3);
    for (int i = 0; i < BATCH * 15; i++) c[i] = (float)i;
    t.a = face_put(&t.f, UM_F32, SHAPE(BATCH * 6), a);
    t.b = face_put(&t.f, UM_F32, SHAPE(10), b);
    t.c = face_put(&t.f, UM_F32, SHAPE(BATCH * 15), c);
    t.d = face_put(&t.f, UM_F32, SHAPE(BATCH * 15), NULL);
    t.desc = (um_gemm_desc){.a_type = UM_F32, .m = 3, .n = 5, .k = 2, .alpha = 1, .beta = 2};
    t.desc.a = t.a.ptr, t.desc.b = t.b.ptr, t.desc.c = t.c.ptr, t.desc.d = t.d.ptr;
    t.desc.lda = 3, t.desc.ldb = 2, t.desc.ldc = t.desc.ldd = 3;
    t.desc.stride_a = 6, t.desc.stride_c = t.desc.stride_d = 15;
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < 15; j++)
            t.want[i][j] = a[i * 6 + j % 3] * b[j / 3 * 2] +
                           a[i * 6 + 3 + j % 3] * b[j / 3 * 2 + 1] + 2 * c[i * 15 + j];
    return t;
}

static void test_strided_batch(void)
{
    batch t = batch_open();
    CHECK_OK(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH));
    CHECK(face_holds(&t.f, &t.d, t.want));
    t.desc.d += 3 * 15 * 4, t.desc.c += 3 * 15 * 4, t.desc.a += 3 * 6 * 4; /* back to front */
    t.desc.stride_a = -6, t.desc.stride_c = t.desc.stride_d = -15;
    CHECK_OK(um_fill(t.f.stream, t.d.ptr, view_bytes(&t.d), "\0\0\0\0", 4));
    CHECK_OK(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH));
    CHECK(face_holds(&t.f, &t.d, t.want));
    t.desc.stride_d = 0;
    CHECK_FAILS(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH), UM_INVALID_ARGUMENT,
                "elements of the output overlap each other");
    t.desc.stride_d = -14;
    CHECK_FAILS(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH), UM_INVALID_ARGUMENT,
                "elements of the output overlap each other");
    t.desc.stride_d = 15;
    CHECK_FAILS(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH), UM_INVALID_ARGUMENT,
                "not inside one live allocation");
    face_close(&t.f);
}

static void test_pointer_batch(void)
{
    batch t = batch_open();
    um_ptr a[BATCH], b[BATCH], c[BATCH], d[BATCH];
    static const int order[] = {2, 0, 3, 1};
    for (int i = 0; i < BATCH; i++) {
        a[i] = t.a.ptr + (um_ptr)order[i] * 24, b[i] = t.b.ptr;
        c[i] = t.c.ptr + (um_ptr)order[i] * 60, d[i] = t.d.ptr + (um_ptr)order[i] * 60;
    }
    um_gemm_pointers p = {.a = a, .b = b, .c = c, .d = d};
    t.desc.a = t.desc.b = t.desc.c = t.desc.d = 0;
    CHECK_OK(um_gemm_batched(t.f.stream, &t.desc, BATCH, &p));
    CHECK(face_holds(&t.f, &t.d, t.want));
    p.d = NULL;
    CHECK_OK(um_gemm_batched(t.f.stream, &t.desc, BATCH, &p));
    CHECK(face_holds(&t.f, &t.c, t.want));
    c[3] = c[2]; /* two products into one matrix: none runs */
    CHECK_FAILS(um_gemm_batched(t.f.stream, &t.desc, BATCH, &p), UM_INVALID_ARGUMENT,
                "overlaps an output of op ");
    c[3] = b[1] = t.c.ptr;
    CHECK_FAILS(um_gemm_batched(t.f.stream, &t.desc, 2, &p), UM_INVALID_ARGUMENT, "overlap");
    b[1] = 64;
    CHECK_FAILS(um_gemm_batched(t.f.stream, &t.desc, 2, &p), UM_INVALID_ARGUMENT,
                "op 1 of 2: matmul: input 1");
    CHECK(face_holds(&t.f, &t.c, t.want));
    t.desc.alpha = 0, t.desc.beta = 1, p.a = p.b = NULL; /* a and b are not read */
    CHECK_OK(um_gemm_batched(t.f.stream, &t.desc, 3, &p));
    CHECK(face_holds(&t.f, &t.c, t.want));
    face_close(&t.f);
}

/* Bias and residual for each product, and one for all. */
static void test_batch_epilogues(void)
{
    batch t = batch_open();
    float number[BATCH * 15];
    for (int i = 0; i < BATCH * 15; i++) number[i] = (float)(i * i % 17);
    um_ptr p = face_put(&t.f, UM_F32, SHAPE(BATCH * 15), number).ptr;
    um_gemm_epilogue e = {.bias = p, .stride_bias = 3, .residual = p, .ld_residual = 3};
    e.stride_residual = 15;
    t.desc.epilogue = &e;
    float want[BATCH][15];
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < 15; j++)
            want[i][j] = t.want[i][j] + number[i * 3 + j % 3] + number[i * 15 + j];
    CHECK_OK(um_gemm_strided_batched(t.f.stream, &t.desc, BATCH));
    CHECK(face_holds(&t.f, &t.d, want));
    um_ptr a[BATCH], b[BATCH], c[BATCH], d[BATCH], bias[BATCH];
    for (int i = 0; i < BATCH; i++) {
        a[i] = t.a.ptr + (um_ptr)i * 24, b[i] = t.b.ptr, c[i] = t.c.ptr + (um_ptr)i * 60;
        d[i] = t.d.ptr + (um_ptr)i * 60, bias[i] = p + (um_ptr)i * 12;
        for (int j = 0; j < 15; j++) want[i][j] += number[j] - number[i * 15 + j];
    }
    const um_gemm_pointers all = {.a = a, .b = b, .c = c, .d = d, .bias = bias};
    CHECK_OK(um_gemm_batched(t.f.stream, &t.desc, BATCH, &all));
    CHECK(face_holds(&t.f, &t.d, want));
    face_close(&t.f);
}

static void test_groups_of_unlike_products(void)
{
    batch t = batch_open();
    um_gemm_desc desc[3] = {t.desc, t.desc, t.desc};
    um_view bytes = face_put(&t.f, UM_I8, SHAPE(2), (const int8_t[]){-128, 127});
    um_view out = face_put(&t.f, UM_I32, SHAPE(1), NULL);
    desc[1].a += 24, desc[1].c += 60, desc[1].d += 60, desc[1].n = 2;
    desc[2] = (um_gemm_desc){.a_type = UM_I8, .m = 1, .n = 1, .k = 2, .alpha = 1};
    desc[2].a = desc[2].b = bytes.ptr, desc[2].c = out.ptr;
    desc[2].lda = 1, desc[2].ldb = 2, desc[2].ldc = 1;
    CHECK_OK(um_gemm_grouped(t.f.stream, 3, desc));
    float got[BATCH * 15];
    face_get(&t.f, &t.d, got);
    CHECK(memcmp(got, t.want, 21 * sizeof got[0]) == 0);
    CHECK(face_holds(&t.f, &out, (const int32_t[]){128 * 128 + 127 * 127}));
    desc[2].ldb = 1;
    CHECK_FAILS(um_gemm_grouped(t.f.stream, 3, desc), UM_INVALID_ARGUMENT, "ldb is 1, wants 2");
    desc[2].ldb = 2, desc[1].a = desc[0].d; /* reads what another one writes */
    CHECK_FAILS(um_gemm_grouped(t.f.stream, 3, desc), UM_INVALID_ARGUMENT, "overlaps an input");
    face_close(&t.f);
}

/* ---- the same bits -----------------------------------------------------------------------------
 */

enum { SIDE = 150, SMALL = 20, COUNT = 30, BITS = SIDE * SIDE + 2 * COUNT * SMALL * SMALL };

static void make_bits(face *f, void *bits)
{
    float *data = malloc(SIDE * SIDE * sizeof *data);
    for (int i = 0; i < SIDE * SIDE; i++) data[i] = (float)(i * 7919 % 1013) / 500 - 1;
    um_ptr x = face_put(f, UM_F32, SHAPE(SIDE * SIDE), data).ptr;
    um_view y = face_put(f, UM_F32, SHAPE(BITS), NULL);
    um_gemm_epilogue e = {.bias = x, .activation = UM_OP_GELU};
    um_gemm_desc d = {.a_type = UM_F32, .round_to = UM_BF16, .alpha = 1, .epilogue = &e};
    d.m = d.n = d.k = d.lda = d.ldb = d.ldc = SIDE;
    d.a = d.b = x, d.c = y.ptr;
    CHECK_OK(um_gemm(f->stream, &d));
    d.m = d.n = d.k = d.lda = d.ldb = d.ldc = SMALL;
    d.c += SIDE * SIDE * 4;
    d.stride_a = 37, d.stride_c = SMALL * SMALL;
    CHECK_OK(um_gemm_strided_batched(f->stream, &d, COUNT));
    um_ptr a[COUNT], b[COUNT], c[COUNT];
    for (um_ptr i = 0; i < COUNT; i++) {
        a[i] = x + i * 100, b[i] = x + i * 4;
        c[i] = d.c + (COUNT + i) * SMALL * SMALL * 4;
    }
    CHECK_OK(um_gemm_batched(f->stream, &d, COUNT, &(um_gemm_pointers){.a = a, .b = b, .c = c}));
    face_get(f, &y, bits);
    free(data);
}

static void test_same_bits(void) { CHECK(same_for_any_threads(make_bits, BITS * sizeof(float))); }

static void test_no_memory(void)
{
    batch t = batch_open();
    um_ptr a[2] = {t.a.ptr, t.a.ptr + 24}, b[2] = {t.b.ptr, t.b.ptr};
    um_ptr d[2] = {t.d.ptr, t.d.ptr + 60};
    const um_gemm_pointers p = {.a = a, .b = b, .c = d};
    int refusals = 0;
    t.desc.beta = 0;
    for (int64_t n = 1;; n++) {
        um_mem_fail_at(n, false);
        um_status status = um_gemm_batched(t.f.stream, &t.desc, 2, &p);
        bool reached = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(status == UM_OK || status == UM_OUT_OF_MEMORY);
        refusals += status != UM_OK;
        if (!reached) break;
    }
    CHECK_OK(um_synchronize(t.f.stream));
    CHECK_MSG(refusals >= 4, "%d", refusals);
    face_close(&t.f);
}

int main(void)
{
    TEST(test_every_combination);
    TEST(test_beta_zero_does_not_read_c);
    TEST(test_alpha_zero_does_not_read_a_and_b);
    TEST(test_k_zero_scales_c);
    TEST(test_empty_with_null_pointers);
    TEST(test_small_leading_dimensions);
    TEST(test_interior_pointers);
    TEST(test_freed_and_foreign_pointers);
    TEST(test_overlaps);
    TEST(test_huge_sizes);
    TEST(test_bad_arguments);
    TEST(test_epilogue_order);
    TEST(test_round_to);
    TEST(test_strided_batch);
    TEST(test_pointer_batch);
    TEST(test_batch_epilogues);
    TEST(test_groups_of_unlike_products);
    TEST(test_same_bits);
    TEST(test_no_memory);
    return TEST_RESULT();
}
