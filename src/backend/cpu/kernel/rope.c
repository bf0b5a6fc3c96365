/* backend/cpu/kernel/rope.c: rotary position embedding. Angles, sines and cosines are made in f64,
 * once a position, and used for every row (head, batch) at that position. */
#include "backend/cpu/kernel/vmath.h"
#include "backend/cpu/kernel/walk.h"

typedef struct rope_job {
    um_cpu_exec *exec;
    const um_op *op;
    const double *frequency; /* theta^(-2i / dims), i < pairs */
    um_walk rows;            /* all axes but the last two; view 0 is x, view 1 y */
    int64_t pairs, size;
    int64_t positions_a_task;
} rope_job;

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/rope_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/rope_body.h"

um_status UM_ISA_FN(um_run_rope)(um_cpu_exec *exec, const um_op *op);

/* In units of a turned pair; a position's sines cost as much as ROPE_SINES of them. */
#define ROPE_SHARED_WORK ((int64_t)1 << 16)
#define ROPE_TASK_WORK   ((int64_t)1 << 13)
#define ROPE_SINES       32

static void rope_task(void *ctx, int64_t task, int32_t lane)
{
    const rope_job *job = ctx;
    const um_view *x = &job->op->in[0];
    int64_t first = task * job->positions_a_task;
    int64_t end = UM_MIN(first + job->positions_a_task, x->shape[x->rank - 2]);
    char *scratch = um_cpu_scratch(job->exec, lane);
    scratch += (size_t)job->pairs * sizeof(double); /* lane 0: the frequencies */
    if (x->dtype == UM_F64)
        rope_positions_f64(job, first, end, (double *)(void *)scratch);
    else
        rope_positions_f32(job, first, end, (float *)(void *)scratch);
}

um_status UM_ISA_FN(um_run_rope)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *x = &op->in[0], *y = &op->out[0];
    rope_job job = {.exec = exec, .op = op, .size = x->shape[x->rank - 1]};
    int64_t positions = x->shape[x->rank - 2];
    job.pairs = (op->attrs.rope.dims ? op->attrs.rope.dims : job.size) / 2;
    um_walk_begin(&job.rows, 2);
    for (int32_t d = 0; d < x->rank - 2; d++)
        um_walk_add_axis(&job.rows, x->shape[d], (int64_t[]){x->stride[d], y->stride[d]});
    um_walk_end(&job.rows);
    if (job.rows.total == 0 || positions == 0 || job.size == 0) return UM_OK;
    size_t real = x->dtype == UM_F64 ? sizeof(double) : sizeof(float);
    size_t bytes =
        (size_t)job.pairs * sizeof(double) + (size_t)(2 * job.pairs + 2 * job.size) * real;
    UM_TRY(um_cpu_scratch_reserve(exec, bytes));
    double *frequency = um_cpu_scratch(exec, 0);
    for (int64_t i = 0; i < job.pairs; i++)
        frequency[i] = pow(op->attrs.rope.theta, (double)-i / (double)job.pairs);
    job.frequency = frequency;
    int64_t work = UM_MAX(job.pairs, 1) * (job.rows.total + ROPE_SINES); /* of a position */
    bool shared = work * positions >= ROPE_SHARED_WORK;
    job.positions_a_task = shared ? um_ceil_div(ROPE_TASK_WORK, work) : positions;
    int64_t tasks = um_ceil_div(positions, job.positions_a_task);
    if (shared)
        um_cpu_parallel(exec, tasks, rope_task, &job);
    else
        rope_task(&job, 0, 0);
    return UM_OK;
}
