/* Reductions and running sums against plain loops in long double, over axes, layouts and dtypes;
 * special values; the bound on a sum's error. Of the CPU's kernels, and of the library's where they
 * do it in another way than for the small sizes of the conformance suite. */
#include "test/test_kernel.h"

#include "kernel/library.h"

#include <umbel/umbel.h>

static um_op reduce_op(um_op_id id, um_view in, uint32_t axes, bool keepdims, void *out)
{
    um_op op = {.id = id, .in_count = 1, .out_count = 1};
    op.attrs.reduce.axes = axes;
    op.attrs.reduce.keepdims = keepdims;
    op.attrs.reduce.correction = 1;
    op.in[0] = in;
    op.out[0].ptr = (um_ptr)(uintptr_t)out;
    if (um_op_infer(&op) != UM_OK) CHECK_MSG(false, "infer: %s", um_last_error()->message);
    return op;
}

/* ---- the oracle ----------------------------------------------------------------------------- */

static double element(const um_view *v, int64_t at)
{
    double x;
    um_load(UM_CLASS_F64, &x, v->dtype, (const void *)(uintptr_t)v->ptr, at, 1, 1);
    return x;
}

/* Elements of the input that go into output number `output` (row-major), in row-major order. */
static int64_t gather(const um_view *in, uint32_t axes, int64_t output, double *x)
{
    int64_t base = 0, n = 1;
    if (axes == 0) axes = 0xff;
    for (int32_t i = in->rank - 1; i >= 0; i--) {
        if (axes >> i & 1) {
            n *= in->shape[i];
        } else {
            base += output % in->shape[i] * in->stride[i];
            output /= in->shape[i];
        }
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t at = base, rest = k;
        for (int32_t i = in->rank - 1; i >= 0; i--) {
            if (!(axes >> i & 1)) continue;
            at += rest % in->shape[i] * in->stride[i];
            rest /= in->shape[i];
        }
        x[k] = element(in, at);
    }
    return n;
}

static bool is_better(um_op_id op, double x, double best)
{
    if (isnan(x)) return !isnan(best);
    return op == UM_OP_ARGMAX || op == UM_OP_REDUCE_MAX ? x > best : x < best;
}

static long double extreme(um_op_id op, const double *x, int64_t n, bool want_index)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (is_better(op, x[i], x[best])) best = i;
    return want_index ? (long double)best : (long double)x[best];
}

static long double variance(const double *x, int64_t n, double correction)
{
    long double mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) mean += (long double)x[i];
    mean /= (long double)n;
    for (int64_t i = 0; i < n; i++) sum += ((long double)x[i] - mean) * ((long double)x[i] - mean);
    return sum / fmaxl((long double)n - (long double)correction, 0);
}

static long double log_sum_exp(const double *x, int64_t n)
{
    long double top = n ? extreme(UM_OP_REDUCE_MAX, x, n, false) : -(long double)INFINITY, sum = 0;
    if (!isfinite(top)) return top;
    for (int64_t i = 0; i < n; i++) sum += expl((long double)x[i] - top);
    return top + logl(sum);
}

/* Also gives the sum of |x|, which bounds a sum's error. */
static long double oracle(um_op_id op, const double *x, int64_t n, double correction,
                          long double *size)
{
    long double sum = 0, product = 1, squares = 0;
    bool any = false, all = true;
    *size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (long double)x[i];
        *size += fabsl((long double)x[i]);
        product *= (long double)x[i];
        squares += (long double)x[i] * (long double)x[i];
        any = any || x[i] != 0;
        all = all && x[i] != 0;
    }
    switch (op) {
    case UM_OP_SUM: return sum;
    case UM_OP_MEAN: return sum / (long double)n;
    case UM_OP_PROD: return product;
    case UM_OP_ANY: return any;
    case UM_OP_ALL: return all;
    case UM_OP_L1: return *size;
    case UM_OP_L2: return sqrtl(squares);
    case UM_OP_LOGSUMEXP: return log_sum_exp(x, n);
    case UM_OP_VAR: return variance(x, n, correction);
    case UM_OP_STD: return sqrtl(variance(x, n, correction));
    default: return extreme(op, x, n, op == UM_OP_ARGMAX || op == UM_OP_ARGMIN);
    }
}

static double eps_of(um_dtype dtype)
{
    switch (dtype) {
    case UM_F64: return 0x1p-52;
    case UM_F32: return 0x1p-23;
    case UM_F16: return 0x1p-10;
    case UM_BF16: return 0x1p-7;
    default: return 0;
    }
}

/* What the contract allows: the bound of a sum in the accumulator's eps, and half an ulp of the
 * result's dtype. */
static double allowed(um_op_id op, um_dtype dtype, int64_t n, long double want, long double size)
{
    double accumulator = dtype == UM_F64 ? 0x1p-52 : 0x1p-23,
           depth = 8 * log2((double)(n < 2 ? 2 : n));
    double rounding = eps_of(dtype) * (double)fabsl(want);
    if (dtype == UM_F16) rounding = fmax(rounding, 0x1p-25); /* of the subnormal */
    switch (op) {
    case UM_OP_SUM:
    case UM_OP_L1: return depth * accumulator * (double)size + rounding;
    case UM_OP_MEAN: return depth * accumulator * (double)size / (double)(n ? n : 1) + rounding;
    case UM_OP_PROD: return (double)n * accumulator * (double)fabsl(want) + rounding;
    case UM_OP_LOGSUMEXP: return depth * accumulator + rounding * 2;
    case UM_OP_L2:
    case UM_OP_VAR:
    case UM_OP_STD: return depth * accumulator * (double)fabsl(want) + rounding;
    default: return 0;
    }
}

/* ---- every op over shapes, axes and layouts ----------------------------------------------------
 */

enum { MOST = 1 << 18 };
static double memory[MOST], result[MOST], line[MOST];

static um_stream *kernels; /* of the device interp; NULL: the CPU's run */

/* On copies of `memory` and `result` there. */
static um_status run_by_kernels(const um_op *op)
{
    um_op there = *op;
    um_ptr in, out;
    um_device *device = um_stream_device(kernels);
    CHECK_OK(um_alloc(device, sizeof memory, &in));
    CHECK_OK(um_alloc(device, sizeof result, &out));
    CHECK_OK(um_write(kernels, in, memory, sizeof memory));
    there.in[0].ptr = in + op->in[0].ptr - (um_ptr)(uintptr_t)memory;
    there.out[0].ptr = out;
    um_status status = um_enqueue(kernels, &there);
    if (status == UM_OK) status = um_read(kernels, result, out, sizeof result);
    CHECK_OK(um_free(device, in));
    CHECK_OK(um_free(device, out));
    return status;
}

static void check_reduce(um_op_id id, um_view in, uint32_t axes, bool keepdims)
{
    um_op op = reduce_op(id, in, axes, keepdims, result);
    CHECK_OK(kernels ? run_by_kernels(&op) : run_op(&op));
    int64_t outputs = um_view_count(&op.out[0]);
    for (int64_t i = 0; i < outputs; i++) {
        long double size;
        int64_t n = gather(&in, axes, i, line);
        long double want = oracle(id, line, n, 1, &size);
        double got = element(&op.out[0], i), gap = fabs(got - (double)want);
        bool right = isnan(want)
                         ? isnan(got)
                         : got == (double)want || gap <= allowed(id, in.dtype, n, want, size);
        CHECK_MSG(right, "%s %s rank %d axes %x output %d of %d: %.17g, want %.17Lg",
                  um_op_name(id), um_dtype_name(in.dtype), (int)in.rank, (unsigned)axes, (int)i,
                  (int)outputs, got, want);
        if (!right) return;
    }
}

static void fill_memory(um_dtype dtype, um_op_id id)
{
    for (int64_t i = 0; i < MOST * 8 / UM_MAX(um_dtype_bits(dtype), 8) && i < MOST; i++) {
        double x = id == UM_OP_PROD ? random_between(0.99, 1.01) : random_between(-4, 4);
        if (id == UM_OP_ANY || id == UM_OP_ALL) x = random_between(0, 1) < 0.5;
        if (!um_dtype_is_float(dtype)) x = floor(fabs(x));
        um_store(dtype, memory, i, 1, UM_CLASS_F64, &x, 1);
    }
}

static const int64_t shapes[][3] = {{1, 1, 1},    {3, 4, 5},    {1, 1, 1000},
                                    {1, 1000, 1}, {2, 65, 33},  {40, 3, 7},
                                    {1, 7, 1100}, {1, 1100, 7}, {2, 1, 2100}};

/* Dtypes that f32 and i32 stand for leave the last, larger shapes out. */
static void check_layouts(um_op_id id, um_dtype dtype)
{
    bool full = dtype == UM_F32 || dtype == UM_I32;
    size_t shape_count = UM_COUNT_OF(shapes) - (full ? 0 : 3);
    bool one_axis = id == UM_OP_ARGMAX || id == UM_OP_ARGMIN;
    fill_memory(dtype, id);
    for (size_t s = 0; s < shape_count; s++) {
        um_view plain = view_of(memory, dtype, 3, shapes[s]);
        for (uint32_t axes = 0; axes < 8; axes++) {
            if (one_axis && (axes & (axes - 1))) continue;
            check_reduce(id, plain, axes, s % 2);
            check_reduce(id, transposed(plain), axes, s % 2);
            um_view strided = plain;
            if (um_view_count(&plain) * 2 <= MOST / 2)
                strided.stride[0] *= 2, strided.stride[1] *= 2, strided.stride[2] = 2;
            check_reduce(id, reversed(strided, (int32_t)(axes % 3)), axes, s % 2);
            strided.stride[1] = 0;
            check_reduce(id, strided, axes, s % 2);
        }
    }
}

static void test_every_op(void)
{
    for (um_op_id id = UM_OP_SUM; id <= UM_OP_STD; id++) {
        check_layouts(id, UM_F32);
        check_layouts(id, UM_F64);
        if (id != UM_OP_PROD) check_layouts(id, UM_F16);
        if (um_op_get_row(id)->dtypes & UM_BIT(UM_I32) && id != UM_OP_PROD) {
            check_layouts(id, UM_I32);
            check_layouts(id, UM_U64);
        }
        if (um_op_get_row(id)->dtypes & UM_BIT(UM_BOOL)) check_layouts(id, UM_BOOL);
    }
}

/* Enough for chunks that are joined, and for threads if there were any. */
static void test_long(void)
{
    static const um_op_id ops[] = {UM_OP_SUM,       UM_OP_REDUCE_MAX, UM_OP_L2,  UM_OP_VAR,
                                   UM_OP_LOGSUMEXP, UM_OP_ARGMIN,     UM_OP_MEAN};
    for (size_t i = 0; i < UM_COUNT_OF(ops); i++) {
        fill_memory(UM_F64, ops[i]);
        check_reduce(ops[i], view_1d(memory, UM_F64, 200003), 0, false);
        check_reduce(ops[i], view_2d(memory, UM_F64, 1700, 120), UM_AXIS(0), false);
        check_reduce(ops[i], view_2d(memory, UM_F64, 43, 523), UM_AXIS(0), false); /* rows apart */
        fill_memory(UM_F32, ops[i]);
        check_reduce(ops[i], view_1d(memory, UM_F32, 200003), 0, false);
        check_reduce(ops[i], view_2d(memory, UM_F32, 43, 1101), UM_AXIS(0), false);
        check_reduce(ops[i], view_2d(memory, UM_F32, 2, 100000), UM_AXIS(1), true);
        check_reduce(ops[i], view_2d(memory, UM_F32, 100000, 2), UM_AXIS(0), true);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

static double reduce_f32(um_op_id id, int64_t n, const float *x)
{
    double out[1] = {0};
    um_op op = reduce_op(id, view_1d(x, UM_F32, n), 0, false, out);
    CHECK_OK(run_op(&op));
    return element(&op.out[0], 0);
}

static void test_special(void)
{
    const float inf = INFINITY, nan = NAN;
    CHECK(reduce_f32(UM_OP_LOGSUMEXP, 3, (float[]){inf, 2, 3}) == F64_INF);
    CHECK(reduce_f32(UM_OP_LOGSUMEXP, 2, (float[]){-inf, -inf}) == -F64_INF);
    CHECK(reduce_f32(UM_OP_LOGSUMEXP, 2, (float[]){-inf, 1}) == 1);
    CHECK(isnan(reduce_f32(UM_OP_LOGSUMEXP, 2, (float[]){nan, inf})));
    CHECK(fabs(reduce_f32(UM_OP_LOGSUMEXP, 2, (float[]){1000, 1000}) - 1000.6931) < 1e-3);
    CHECK(isnan(reduce_f32(UM_OP_REDUCE_MAX, 3, (float[]){1, nan, 3})));
    CHECK(isnan(reduce_f32(UM_OP_REDUCE_MIN, 3, (float[]){nan, 1, 3})));
    CHECK(!signbit(reduce_f32(UM_OP_REDUCE_MAX, 2, (float[]){-0.0f, 0})));
    CHECK(!signbit(reduce_f32(UM_OP_REDUCE_MAX, 2, (float[]){0, -0.0f})));
    CHECK(signbit(reduce_f32(UM_OP_REDUCE_MIN, 2, (float[]){0, -0.0f})));
    CHECK(reduce_f32(UM_OP_REDUCE_MAX, 2, (float[]){-inf, -inf}) == -F64_INF);
    CHECK(reduce_f32(UM_OP_ARGMAX, 4, (float[]){1, nan, 3, nan}) == 1);
    CHECK(reduce_f32(UM_OP_ARGMIN, 4, (float[]){1, 0, nan, -1}) == 2);
    CHECK(reduce_f32(UM_OP_ARGMAX, 4, (float[]){-0.0f, 0, 0, -1}) == 0);
    CHECK(reduce_f32(UM_OP_ARGMAX, 2, (float[]){-inf, -inf}) == 0);
    CHECK(reduce_f32(UM_OP_ANY, 2, (float[]){0, nan}) == 1);
    CHECK(reduce_f32(UM_OP_ALL, 2, (float[]){-0.0f, nan}) == 0);
    CHECK(isnan(reduce_f32(UM_OP_SUM, 2, (float[]){inf, -inf})));
    CHECK(isnan(reduce_f32(UM_OP_VAR, 1, (float[]){5})));
    CHECK(reduce_f32(UM_OP_VAR, 3, (float[]){1e6f, 1e6f + 1, 1e6f + 2}) == 1);
}

static void test_l2_range(void)
{
    CHECK(fabs(reduce_f32(UM_OP_L2, 2, (float[]){3e30f, 4e30f}) / 5e30 - 1) < 1e-6);
    CHECK(fabs(reduce_f32(UM_OP_L2, 2, (float[]){3e-30f, 4e-30f}) / 5e-30 - 1) < 1e-6);
    CHECK(fabs(reduce_f32(UM_OP_L2, 2, (float[]){3e-44f, 4e-44f}) / 5e-44 - 1) <
          0.05); /* subnormal */
    CHECK(reduce_f32(UM_OP_L2, 2, (float[]){0, 0}) == 0);
    CHECK(reduce_f32(UM_OP_L2, 2, (float[]){(float)-INFINITY, 1}) == F64_INF);
    CHECK(isnan(reduce_f32(UM_OP_L2, 2, (float[]){(float)NAN, 1e30f})));
    const double x[2] = {3e200, 4e200};
    double y;
    um_op op = reduce_op(UM_OP_L2, view_1d(x, UM_F64, 2), 0, false, &y);
    CHECK_OK(run_op(&op));
    CHECK(fabs(y / 5e200 - 1) < 1e-15);
}

static double reduce_nothing(um_op_id id, um_dtype dtype)
{
    uint64_t out = 0x5555555555555555u;
    um_op op = reduce_op(id, view_1d(NULL, dtype, 0), 0, false, &out);
    CHECK_OK(run_op(&op));
    return element(&op.out[0], 0);
}

static void test_empty(void)
{
    CHECK(reduce_nothing(UM_OP_SUM, UM_F32) == 0 && reduce_nothing(UM_OP_SUM, UM_I8) == 0);
    CHECK(reduce_nothing(UM_OP_PROD, UM_F64) == 1 && reduce_nothing(UM_OP_PROD, UM_U16) == 1);
    CHECK(isnan(reduce_nothing(UM_OP_MEAN, UM_F16)) && isnan(reduce_nothing(UM_OP_VAR, UM_F32)));
    CHECK(reduce_nothing(UM_OP_REDUCE_MAX, UM_BF16) == -F64_INF &&
          reduce_nothing(UM_OP_REDUCE_MIN, UM_F64) == F64_INF);
    CHECK(reduce_nothing(UM_OP_REDUCE_MAX, UM_I8) == -128 &&
          reduce_nothing(UM_OP_REDUCE_MIN, UM_I8) == 127);
    CHECK(reduce_nothing(UM_OP_REDUCE_MAX, UM_U32) == 0 &&
          reduce_nothing(UM_OP_REDUCE_MIN, UM_U32) == 4294967295.0);
    CHECK(reduce_nothing(UM_OP_REDUCE_MAX, UM_I64) == -0x1p63 &&
          reduce_nothing(UM_OP_REDUCE_MIN, UM_U64) == 0x1p64);
    CHECK(reduce_nothing(UM_OP_REDUCE_MAX, UM_BOOL) == 0 &&
          reduce_nothing(UM_OP_REDUCE_MIN, UM_BOOL) == 1);
    CHECK(reduce_nothing(UM_OP_ANY, UM_F32) == 0 && reduce_nothing(UM_OP_ALL, UM_F32) == 1);
    CHECK(reduce_nothing(UM_OP_LOGSUMEXP, UM_F32) == -F64_INF);
    CHECK(reduce_nothing(UM_OP_L1, UM_I32) == 0 && reduce_nothing(UM_OP_L2, UM_F32) == 0);
    double out[6] = {9, 9, 9, 9, 9, 9};
    const int64_t shape[3] = {2, 0, 3};
    um_op op = reduce_op(UM_OP_PROD, view_of(NULL, UM_F64, 3, shape), UM_AXIS(1), false, out);
    CHECK_OK(run_op(&op));
    for (int i = 0; i < 6; i++) CHECK(out[i] == 1);
}

static void test_integers_wrap(void)
{
    const int8_t x[3] = {100, 100, -128};
    int8_t y;
    um_op op = reduce_op(UM_OP_SUM, view_1d(x, UM_I8, 2), 0, false, &y);
    CHECK_OK(run_op(&op));
    CHECK(y == -56);
    op = reduce_op(UM_OP_L1, view_1d(x + 2, UM_I8, 1), 0, false, &y);
    CHECK_OK(run_op(&op));
    CHECK(y == -128);
    op = reduce_op(UM_OP_PROD, view_1d(x, UM_I8, 2), 0, false, &y);
    CHECK_OK(run_op(&op));
    CHECK(y == 16); /* 10000 mod 256 */
    const uint64_t big[2] = {UINT64_MAX, 5};
    uint64_t sum, top;
    op = reduce_op(UM_OP_SUM, view_1d(big, UM_U64, 2), 0, false, &sum);
    CHECK_OK(run_op(&op));
    op = reduce_op(UM_OP_REDUCE_MAX, view_1d(big, UM_U64, 2), 0, false, &top);
    CHECK_OK(run_op(&op));
    CHECK(sum == 4 && top == UINT64_MAX);
}

/* ---- running sums ---------------------------------------------------------------------------- */

static void check_scan(um_op_id id, um_view in, int32_t axis)
{
    um_op op = {.id = id, .in_count = 1, .out_count = 1, .attrs.axis.axis = axis};
    op.in[0] = in;
    op.out[0].ptr = (um_ptr)(uintptr_t)result;
    CHECK_OK(um_op_infer(&op));
    CHECK_OK(kernels ? run_by_kernels(&op) : run_op(&op));
    int64_t n = in.shape[axis], others = n ? um_view_count(&in) / n : 0;
    for (int64_t i = 0; i < others; i++) {
        (void)gather(&in, UM_AXIS(axis), i, line);
        int64_t place = i, at = 0;
        for (int32_t k = in.rank - 1; k >= 0; k--) {
            if (k == axis) continue;
            at += place % in.shape[k] * op.out[0].stride[k];
            place /= in.shape[k];
        }
        long double so_far = id == UM_OP_CUMPROD  ? 1
                             : id == UM_OP_CUMMAX ? -(long double)INFINITY
                                                  : 0,
                    size = 0;
        for (int64_t k = 0; k < n; k++) {
            long double x = (long double)line[k];
            so_far = id == UM_OP_CUMSUM          ? so_far + x
                     : id == UM_OP_CUMPROD       ? so_far * x
                     : isnan(so_far) || isnan(x) ? (long double)NAN
                                                 : fmaxl(so_far, x);
            size += fabsl(x);
            double got = element(&op.out[0], at + k * op.out[0].stride[axis]);
            um_op_id like = id == UM_OP_CUMSUM    ? UM_OP_SUM
                            : id == UM_OP_CUMPROD ? UM_OP_PROD
                                                  : UM_OP_REDUCE_MAX;
            bool right = isnan(so_far) ? isnan(got)
                                       : fabs(got - (double)so_far) <=
                                             allowed(like, in.dtype, k + 1, so_far, size);
            CHECK_MSG(right, "%s %s axis %d element %d: %g, want %Lg", um_op_name(id),
                      um_dtype_name(in.dtype), (int)axis, (int)k, got, so_far);
            if (!right) return;
        }
    }
}

static void test_scans(void)
{
    static const um_dtype dtypes[] = {UM_F32, UM_F64, UM_BF16, UM_I32, UM_U64};
    for (um_op_id id = UM_OP_CUMSUM; id <= UM_OP_CUMMAX; id++)
        for (size_t d = 0; d < UM_COUNT_OF(dtypes); d++) {
            if (id == UM_OP_CUMPROD && !um_dtype_is_float(dtypes[d])) continue;
            fill_memory(dtypes[d], id == UM_OP_CUMPROD ? UM_OP_PROD : UM_OP_SUM);
            for (size_t s = 0; s < UM_COUNT_OF(shapes); s++)
                for (int32_t axis = 0; axis < 3; axis++) {
                    um_view plain = view_of(memory, dtypes[d], 3, shapes[s]);
                    check_scan(id, plain, axis);
                    check_scan(id, reversed(transposed(plain), axis), axis);
                }
        }
    const float x[5] = {1, NAN, 2, -0.0f, 0};
    float y[5];
    um_op op = {.id = UM_OP_CUMMAX, .in_count = 1, .out_count = 1};
    op.in[0] = view_1d(x, UM_F32, 3);
    op.out[0] = view_1d(y, UM_F32, 3);
    CHECK_OK(run_op(&op));
    CHECK(y[0] == 1 && isnan(y[1]) && isnan(y[2]));
    op.in[0] = view_1d(x + 3, UM_F32, 2);
    op.out[0] = view_1d(y, UM_F32, 2);
    CHECK_OK(run_op(&op));
    CHECK(signbit(y[0]) && !signbit(y[1]));
    const float far[4] = {INFINITY, 1, -INFINITY, 1};
    op.id = UM_OP_CUMSUM;
    op.in[0] = view_1d(far, UM_F32, 4);
    op.out[0] = view_1d(y, UM_F32, 4);
    CHECK_OK(run_op(&op));
    CHECK(y[0] == INFINITY && y[1] == INFINITY && isnan(y[2]) && isnan(y[3]));
}

/* ---- the library's kernels ------------------------------------------------------------------- */

/* Stages, and outputs that lie nearer to each other than what goes into one. */
static void test_kernels(void)
{
    static const um_dtype dtypes[] = {UM_F32, UM_F64, UM_BF16, UM_I32, UM_U64, UM_BOOL};
    um_device *device;
    CHECK_OK(um_open("interp", &device));
    CHECK_OK(um_stream_create(device, &kernels));
    for (um_op_id id = UM_OP_SUM; id <= UM_OP_STD; id++)
        for (size_t i = 0; i < UM_COUNT_OF(dtypes); i++) {
            um_dtype dtype = dtypes[i];
            if (!(um_op_get_row(id)->dtypes & UM_BIT(dtype))) continue;
            fill_memory(dtype, id);
            check_reduce(id, view_1d(memory, dtype, 8191), 0, false);
            check_reduce(id, view_1d(memory, dtype, 8192), 0, false);
            check_reduce(id, view_1d(memory, dtype, 12289), 0, true);
            check_reduce(id, reversed(view_2d(memory, dtype, 3, 8195), 1), UM_AXIS(1), false);
            check_reduce(id, view_2d(memory, dtype, 67, 33), UM_AXIS(0), false);
            check_reduce(id, view_2d(memory, dtype, 521, 37), UM_AXIS(0), true);
            check_reduce(id, view_of(memory, dtype, 3, (const int64_t[]){3, 257, 40}), UM_AXIS(1),
                         false);
        }
    for (um_op_id id = UM_OP_CUMSUM; id <= UM_OP_CUMMAX; id++)
        for (size_t i = 0; i < UM_COUNT_OF(dtypes); i++) {
            um_dtype dtype = dtypes[i];
            if (!(um_op_get_row(id)->dtypes & UM_BIT(dtype))) continue;
            if (id == UM_OP_CUMPROD && !um_dtype_is_float(dtype)) continue;
            fill_memory(dtype, id == UM_OP_CUMPROD ? UM_OP_PROD : UM_OP_SUM);
            check_scan(id, view_1d(memory, dtype, 8191), 0);
            check_scan(id, view_1d(memory, dtype, 12289), 0);
            check_scan(id, reversed(view_2d(memory, dtype, 3, 8195), 1), 1);
            check_scan(id, transposed(view_2d(memory, dtype, 8192, 2)), 1);
        }
    um_stream_release(kernels);
    um_device_release(device);
    kernels = NULL;
}

static void check_launches(um_op_id id, um_view in, uint32_t axes, int32_t want)
{
    um_kplan plan;
    um_op op = reduce_op(id, in, axes, false, result);
    CHECK_OK(um_kplan_make(&op, NULL, 0, &plan));
    CHECK_MSG(plan.launch_count == want, "%d launches", (int)plan.launch_count);
    um_kplan_release(&plan);
}

static void test_stages(void)
{
    check_launches(UM_OP_SUM, view_1d(memory, UM_F32, 8191), 0, 1);
    check_launches(UM_OP_SUM, view_1d(memory, UM_F32, 8192), 0, 2);
    check_launches(UM_OP_VAR, view_1d(memory, UM_F32, 8192), 0, 4);
    check_launches(UM_OP_L2, view_2d(memory, UM_F32, 521, 37), UM_AXIS(0), 3);
    check_launches(UM_OP_SUM, view_2d(memory, UM_F32, 521, 37), UM_AXIS(1), 1);
}

static void tests(void)
{
    TEST(test_every_op);
    TEST(test_long);
    TEST(test_special);
    TEST(test_l2_range);
    TEST(test_empty);
    TEST(test_integers_wrap);
    TEST(test_scans);
    if (!use_base_set) return; /* once */
    TEST(test_kernels);
    TEST(test_stages);
}

int main(void)
{
    run_all(tests);
    return TEST_RESULT();
}
