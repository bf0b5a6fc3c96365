/* test/test_kernel.h: what the tests of the CPU kernels share: running an op in every kernel set
 * that runs here, views of arrays, distances in ulp. */
#ifndef UM_TEST_KERNEL_H
#define UM_TEST_KERNEL_H

#include "backend/cpu/kernel/table.h"
#include "test/test.h"

#include <math.h>
#include <stdlib.h>

#define F64_INF ((double)INFINITY)
#define F64_NAN ((double)NAN)

/* The kernel set under test: the base one, or the one this processor gets. */
static bool use_base_set = true;
static um_cpu_exec exec_one = {.lanes = 1};

static inline void run_all(void (*tests)(void))
{
    printf("kernel set base\n");
    tests();
    if (strcmp(um_cpu_isa_name(), "base") != 0) {
        printf("kernel set %s\n", um_cpu_isa_name());
        use_base_set = false;
        tests();
    }
    um_mem_free(exec_one.scratch);
    exec_one = (um_cpu_exec){.lanes = 1};
}

static inline um_view view_of(const void *data, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_view view;
    if (um_view_make((um_ptr)(uintptr_t)data, dtype, rank, shape, &view) != UM_OK) abort();
    return view;
}
static inline um_view view_1d(const void *data, um_dtype dtype, int64_t n)
{
    return view_of(data, dtype, 1, &n);
}
static inline um_view view_2d(const void *data, um_dtype dtype, int64_t rows, int64_t columns)
{
    return view_of(data, dtype, 2, (const int64_t[]){rows, columns});
}
/* The same elements with the last two axes exchanged. */
static inline um_view transposed(um_view v)
{
    int64_t shape = v.shape[v.rank - 1], stride = v.stride[v.rank - 1];
    v.shape[v.rank - 1] = v.shape[v.rank - 2];
    v.stride[v.rank - 1] = v.stride[v.rank - 2];
    v.shape[v.rank - 2] = shape;
    v.stride[v.rank - 2] = stride;
    return v;
}
/* The same elements backwards along an axis (dtypes of whole bytes). */
static inline um_view reversed(um_view v, int32_t axis)
{
    int64_t last = (v.shape[axis] - 1) * v.stride[axis];
    v.ptr += (um_ptr)(last * (um_dtype_bits(v.dtype) / 8));
    v.stride[axis] = -v.stride[axis];
    return v;
}

/* Checks and runs. The op must be complete: out[] with dtype, shape and memory. */
static inline um_status run_op(const um_op *op)
{
    um_status status = um_op_check(op);
    if (status != UM_OK) return status;
    const um_cpu_kernel *row =
        use_base_set ? &um_cpu_table_base[op->id] : um_cpu_kernel_find(op->id);
    return row->run(&exec_one, op);
}

/* How far `got` is from `want`, in units of the last place of a float with `digits` bits whose
 * smallest normal number is 2^min_exponent; 0 for the same NaN or infinity, huge for another. */
static inline double ulp_distance(long double got, long double want, int digits, int min_exponent)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e30;
    if (got == want) return 0;
    if (isinf(want)) return 1e30;
    long double past_largest = ldexpl(1, 2 - min_exponent); /* where infinity stands in the row */
    got = fminl(fmaxl(got, -past_largest), past_largest);
    want = fminl(fmaxl(want, -past_largest), past_largest);
    int exponent;
    (void)frexpl(want, &exponent);
    if (want == 0 || exponent - 1 < min_exponent) exponent = min_exponent + 1;
    return (double)(fabsl(got - want) / ldexpl(1, exponent - digits));
}
static inline double ulp_f32(float got, long double want)
{
    return ulp_distance((long double)got, want, 24, -126);
}
static inline double ulp_f64(double got, long double want)
{
    return ulp_distance((long double)got, want, 53, -1022);
}

/* xorshift64*: Vigna 2016. */
static inline uint64_t random_bits(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}
static inline double random_between(double low, double high)
{
    return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53;
}
static inline float f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
