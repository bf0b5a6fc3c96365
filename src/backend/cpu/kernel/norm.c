/* backend/cpu/kernel/norm.c: softmax, log_softmax and rms_norm: ops that turn each line along an
 * axis into another by way of its sums. The arithmetic is in norm_body.h, and of many lines at once
 * in norm_columns_body.h; rope is in rope.c. */
#include "backend/cpu/kernel/vmath.h"
#include "backend/cpu/kernel/walk.h"

typedef struct norm_job {
    um_cpu_exec *exec;
    um_op_id id;
    const um_view *in, *out, *weight; /* weight: rms_norm, may be NULL */
    double eps;
    um_walk lines;                    /* view 0 is in, view 1 out */
    int64_t size, x_stride, y_stride; /* of a line */
    int64_t lines_a_task;
    int64_t width; /* lines at once, of `inner` next to each other; 0: one by one */
    int64_t inner, pieces;
} norm_job;

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/norm_body.h"
#include "backend/cpu/kernel/norm_columns_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/norm_body.h"
#include "backend/cpu/kernel/norm_columns_body.h"

um_status UM_ISA_FN(um_run_softmax)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_rms_norm)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough (~50 us), the second is a task's least. */
#define NORM_SHARED_WORK ((int64_t)1 << 17)
#define NORM_TASK_WORK   ((int64_t)1 << 14)
/* Of lines at once: what stays in L2, the least (16 of 4096 elements take twice the time of 64) and
 * the most of them, and whole vectors of any type. */
#define NORM_WIDE_BYTES ((int64_t)1 << 18)
#define NORM_WIDE_MIN   64
#define NORM_WIDE_MAX   256
#define NORM_WIDE_UNIT  16

static void norm_task(void *ctx, int64_t task, int32_t lane)
{
    const norm_job *job = ctx;
    int64_t first = task * job->lines_a_task;
    int64_t end = UM_MIN(first + job->lines_a_task, job->lines.total);
    void *scratch = um_cpu_scratch(job->exec, lane);
    if (job->in->dtype == UM_F64)
        norm_lines_f64(job, first, end, scratch);
    else
        norm_lines_f32(job, first, end, scratch);
}

/* Task: `width` lines. */
static void columns_task(void *ctx, int64_t task, int32_t lane)
{
    const norm_job *job = ctx;
    int64_t first = task % job->pieces * job->width;
    int64_t count = UM_MIN(job->inner - first, job->width);
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->lines, task / job->pieces * job->inner + first, &at);
    void *scratch = um_cpu_scratch(job->exec, lane);
    if (job->in->dtype == UM_F64)
        norm_columns_f64(job, at.element[0], at.element[1], count, scratch);
    else
        norm_columns_f32(job, at.element[0], at.element[1], count, scratch);
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* How many lines to take at once: 0 where a line's elements are next to each other. */
static int64_t find_width(const norm_job *job)
{
    int64_t inner = um_walk_inner(&job->lines), across = um_walk_step(&job->lines, 0);
    int64_t bytes = job->in->dtype == UM_F64 ? 8 : 4;
    if (job->id == UM_OP_RMS_NORM || inner < NORM_WIDE_UNIT) return 0;
    if (magnitude(across) >= magnitude(job->x_stride)) return 0;
    int64_t width = NORM_WIDE_BYTES / UM_MIN(bytes * job->size, NORM_WIDE_BYTES);
    width = UM_MIN(UM_MAX(width, NORM_WIDE_MIN), UM_MIN(NORM_WIDE_MAX, inner));
    return um_ceil_div(width, NORM_WIDE_UNIT) * NORM_WIDE_UNIT;
}

static um_status run_columns(norm_job *job)
{
    job->inner = um_walk_inner(&job->lines);
    job->pieces = um_ceil_div(job->inner, job->width);
    bool wide = job->in->dtype == UM_F64;
    UM_TRY(
        um_cpu_scratch_reserve(job->exec, wide ? columns_bytes_f64(job) : columns_bytes_f32(job)));
    int64_t tasks = job->lines.total / job->inner * job->pieces;
    if (job->lines.total * job->size >= NORM_SHARED_WORK)
        um_cpu_parallel(job->exec, tasks, columns_task, job);
    else
        for (int64_t i = 0; i < tasks; i++) columns_task(job, i, 0);
    return UM_OK;
}

static bool is_direct(const um_view *view, int64_t stride, um_dtype dtype)
{
    return view->dtype == dtype && stride == 1;
}

/* A line of the output and the weight, where they cannot be used in place. */
static size_t scratch_bytes(const norm_job *job)
{
    um_dtype dtype = job->in->dtype == UM_F64 ? UM_F64 : UM_F32;
    bool plain = is_direct(job->out, job->y_stride, dtype) &&
                 (!job->weight || is_direct(job->weight, job->weight->stride[0], dtype));
    return plain ? 0 : (size_t)job->size * 2 * (dtype == UM_F64 ? sizeof(double) : sizeof(float));
}

/* All axes but one. */
static void walk_lines(um_walk *lines, const um_view *in, const um_view *out, int32_t axis)
{
    um_walk_begin(lines, 2);
    for (int32_t d = 0; d < in->rank; d++)
        if (d != axis)
            um_walk_add_axis(lines, in->shape[d], (int64_t[]){in->stride[d], out->stride[d]});
    um_walk_end(lines);
}

static um_status run_lines(um_cpu_exec *exec, const um_op *op, int32_t axis, norm_job *job)
{
    job->exec = exec;
    job->id = op->id;
    job->in = &op->in[0];
    job->out = &op->out[0];
    job->size = job->in->shape[axis];
    job->x_stride = job->in->stride[axis];
    job->y_stride = job->out->stride[axis];
    walk_lines(&job->lines, job->in, job->out, axis);
    if (job->lines.total == 0 || job->size == 0) return UM_OK;
    job->width = find_width(job);
    if (job->width) return run_columns(job);
    size_t bytes = scratch_bytes(job);
    if (bytes) UM_TRY(um_cpu_scratch_reserve(exec, bytes));
    bool shared = job->lines.total * job->size >= NORM_SHARED_WORK;
    job->lines_a_task = shared ? um_ceil_div(NORM_TASK_WORK, job->size) : job->lines.total;
    if (shared)
        um_cpu_parallel(exec, um_ceil_div(job->lines.total, job->lines_a_task), norm_task, job);
    else
        norm_task(job, 0, 0);
    return UM_OK;
}

/* softmax and log_softmax */
um_status UM_ISA_FN(um_run_softmax)(um_cpu_exec *exec, const um_op *op)
{
    int32_t axis = op->attrs.axis.axis;
    norm_job job = {0};
    return run_lines(exec, op, axis < 0 ? axis + op->in[0].rank : axis, &job);
}

um_status UM_ISA_FN(um_run_rms_norm)(um_cpu_exec *exec, const um_op *op)
{
    norm_job job = {.weight = op->in_count > 1 ? &op->in[1] : NULL, .eps = op->attrs.norm.eps};
    return run_lines(exec, op, op->in[0].rank - 1, &job);
}
