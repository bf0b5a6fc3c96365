/* backend/cpu/kernel/pool.c: max_pool, avg_pool and their gradients: turns the op into a `pool`
 * (pool.h) and splits it into rows of the output, or planes where places decide. Convolution:
 * conv.c. */
#include "backend/cpu/kernel/pool.h"

#include <math.h>
#include <stdatomic.h>

um_status UM_ISA_FN(um_run_max_pool)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_avg_pool)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_max_pool_backward)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_avg_pool_backward)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the second is a task's least. */
#define POOL_SHARED ((int64_t)1 << 16)
#define POOL_TASK   ((int64_t)1 << 13)
#define POOL_CHUNK  256

/* max_pool_backward's. */
typedef struct give {
    const pool *p;
    atomic_bool *bad;
} give;

static int64_t plane_first(const pool *p, const pool_side *side, int64_t plane)
{
    return plane / p->channels * side->batch + plane % p->channels * side->channel;
}

/* ---- the bodies ----------------------------------------------------------------------------- */

#define MAX_VALUE     float
#define MAX_CLASS     UM_CLASS_F32
#define MAX_DTYPE     UM_F32
#define MAX_FN(name)  name##_f32
#define MAX_IS_NAN(x) ((x) != (x))
#define MAX_LOWEST(p) (-(float)INFINITY)
#include "backend/cpu/kernel/pool_max_body.h"

#define MAX_VALUE     double
#define MAX_CLASS     UM_CLASS_F64
#define MAX_DTYPE     UM_F64
#define MAX_FN(name)  name##_f64
#define MAX_IS_NAN(x) ((x) != (x))
#define MAX_LOWEST(p) (-(double)INFINITY)
#include "backend/cpu/kernel/pool_max_body.h"

#define MAX_VALUE     int64_t
#define MAX_CLASS     UM_CLASS_I64
#define MAX_DTYPE     UM_I64
#define MAX_FN(name)  name##_i64
#define MAX_IS_NAN(x) false
#define MAX_LOWEST(p) lowest_of((p)->wide.dtype)

static int64_t lowest_of(um_dtype dtype)
{
    return um_dtype_get_kind(dtype) == UM_KIND_INT ? INT64_MIN >> (64 - um_dtype_bits(dtype)) : 0;
}
#include "backend/cpu/kernel/pool_max_body.h"

#define MAX_VALUE     uint64_t
#define MAX_CLASS     UM_CLASS_U64
#define MAX_DTYPE     UM_U64
#define MAX_FN(name)  name##_u64
#define MAX_IS_NAN(x) false
#define MAX_LOWEST(p) 0
#include "backend/cpu/kernel/pool_max_body.h"

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pool_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pool_body.h"

/* ---- the op as a pool ----------------------------------------------------------------------- */

static pool_side side_of(const um_view *view, int32_t layout)
{
    pool_side s = {.data = (void *)(uintptr_t)view->ptr, .dtype = view->dtype};
    int32_t axes = view->rank - 2;
    s.batch = view->stride[0];
    s.channel = view->stride[um_channel_axis(layout, view->rank)];
    for (int32_t i = 0; i < axes; i++)
        s.axis[POOL_AXES - axes + i] = view->stride[um_space_axis(layout) + i];
    return s;
}

static pool pool_of(um_cpu_exec *exec, const um_op *op, const um_view *wide, const um_view *narrow)
{
    int32_t layout = op->attrs.pool.layout, axes = wide->rank - 2;
    pool p = {.exec = exec, .wide = side_of(wide, layout), .narrow = side_of(narrow, layout)};
    p.channels = wide->shape[um_channel_axis(layout, wide->rank)];
    p.planes = wide->shape[0] * p.channels;
    for (int32_t i = 0; i < POOL_AXES; i++)
        p.axis[i] = (um_pool_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    for (int32_t i = 0; i < axes; i++)
        p.axis[POOL_AXES - axes + i] = um_pool_get_axis(op, wide, narrow, i);
    p.wide_count = p.axis[POOL_ACROSS].in;
    p.narrow_count = p.axis[POOL_ACROSS].out;
    p.shared = um_view_count(wide) + um_view_count(narrow) >= POOL_SHARED;
    p.rows_a_task = um_ceil_div(POOL_TASK, UM_MAX(p.wide_count, p.narrow_count));
    return p;
}

/* Scratch for the windows across, and `wide` and `narrow` numbers of 8 bytes a place of a row for
 * each lane. */
static um_status reserve(pool *p, int64_t wide, int64_t narrow)
{
    int64_t own, more, windows, lanes = p->shared ? p->exec->lanes : 1;
    if (!um_mul_i64(p->wide_count, 8 * wide, &own) ||
        !um_mul_i64(p->narrow_count, 8 * narrow, &more) || !um_add_i64(own, more, &own) ||
        !um_mul_i64(p->narrow_count, sizeof(um_pool_window), &windows) ||
        !um_add_i64(own, windows / lanes + 256, &more))
        return UM_FAIL(UM_OUT_OF_MEMORY, "pool: rows of %lld and %lld do not fit in memory",
                       (long long)p->wide_count, (long long)p->narrow_count);
    UM_TRY(um_cpu_scratch_reserve(p->exec, (size_t)more));
    p->own_bytes = ((size_t)own + 63) / 64 * 64;
    p->across = (um_pool_window *)(void *)p->exec->scratch;
    p->own = p->exec->scratch + ((size_t)windows + 63) / 64 * 64;
    for (int64_t i = 0; i < p->narrow_count; i++)
        p->across[i] = um_pool_get_window(&p->axis[POOL_ACROSS], i);
    return UM_OK;
}

static void each_task(const pool *p, int64_t count, um_cpu_task_fn fn, const void *ctx)
{
    void *writable = (void *)(uintptr_t)ctx; /* tasks only read it */
    if (p->shared)
        um_cpu_parallel(p->exec, count, fn, writable);
    else
        for (int64_t i = 0; i < count; i++) fn(writable, i, 0);
}

static void each_row(const pool *p, int64_t rows, um_cpu_task_fn fn)
{
    each_task(p, um_ceil_div(p->planes * rows, p->rows_a_task), fn, p);
}

um_status UM_ISA_FN(um_run_max_pool)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    pool p = pool_of(exec, op, &op->in[0], &op->out[0]);
    p.has_places = op->out_count > 1;
    if (p.has_places) p.places = side_of(&op->out[1], op->attrs.pool.layout);
    UM_TRY(reserve(&p, 3, 2));
    um_cpu_task_fn fn = NULL;
    switch (um_dtype_class(p.wide.dtype)) {
    case UM_CLASS_F32: fn = max_task_f32; break;
    case UM_CLASS_F64: fn = max_task_f64; break;
    case UM_CLASS_I64: fn = max_task_i64; break;
    case UM_CLASS_U64: fn = max_task_u64; break;
    }
    each_row(&p, p.axis[0].out * p.axis[1].out, fn);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_avg_pool)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    pool p = pool_of(exec, op, &op->in[0], &op->out[0]);
    UM_TRY(reserve(&p, 3, 1));
    each_row(&p, p.axis[0].out * p.axis[1].out,
             p.wide.dtype == UM_F64 ? avg_task_f64 : avg_task_f32);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_avg_pool_backward)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    pool p = pool_of(exec, op, &op->out[0], &op->in[0]);
    UM_TRY(reserve(&p, 2, 3));
    each_row(&p, p.axis[0].in * p.axis[1].in,
             p.wide.dtype == UM_F64 ? spread_task_f64 : spread_task_f32);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_max_pool_backward)(um_cpu_exec *exec, const um_op *op)
{
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    pool p = pool_of(exec, op, &op->out[0], &op->in[0]);
    p.places = side_of(&op->in[1], op->attrs.pool.layout);
    UM_TRY(reserve(&p, 2 * p.axis[0].in * p.axis[1].in, 0));
    atomic_bool bad = false;
    give g = {&p, &bad};
    each_task(&p, p.planes, p.wide.dtype == UM_F64 ? give_task_f64 : give_task_f32, &g);
    if (!bad) return UM_OK;
    return UM_FAIL(UM_OUT_OF_RANGE, "max_pool_backward: an index is outside its channel of %lld",
                   (long long)(p.axis[0].in * p.axis[1].in * p.wide_count));
}
