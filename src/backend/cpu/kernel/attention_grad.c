/* backend/cpu/kernel/attention_grad.c: the gradients of attention. This file turns the op into a
 * job and splits the work; the arithmetic is in attention_grad_body.h. */
#include "backend/cpu/kernel/attention.h"
#include "backend/cpu/kernel/vmath.h"

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_tile_body.h"

#include "backend/cpu/kernel/attention_grad_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_tile_body.h"

#include "backend/cpu/kernel/attention_grad_body.h"

um_status UM_ISA_FN(um_run_attention_backward)(um_cpu_exec *exec, const um_op *op);

/* Pairs of a query and a key, times D + Dv, below which one thread is enough. */
#define GRAD_SHARED_WORK ((int64_t)1 << 16)

/* A task's part of one head's rows. */
typedef struct grad_part {
    int64_t b, h, first, count;
} grad_part;

static grad_part part_of(const attention_job *job, int64_t task, int64_t heads, int64_t rows)
{
    int64_t head = task / job->tasks_a_head;
    int64_t first = task % job->tasks_a_head * job->rows_a_task;
    return (grad_part){head / heads, head % heads, first, UM_MIN(rows - first, job->rows_a_task)};
}

static void queries_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    void *scratch = um_cpu_scratch(job->exec, lane);
    grad_part p = part_of(job, task, job->heads, job->queries);
    if (job->q->dtype == UM_F64)
        grad_queries_f64(job, p.b, p.h, p.first, p.count, scratch);
    else
        grad_queries_f32(job, p.b, p.h, p.first, p.count, scratch);
}

static void keys_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    void *scratch = um_cpu_scratch(job->exec, lane);
    grad_part p = part_of(job, task, job->kv_heads, job->keys);
    if (job->q->dtype == UM_F64)
        grad_keys_f64(job, p.b, p.h, p.first, p.count, scratch);
    else
        grad_keys_f32(job, p.b, p.h, p.first, p.count, scratch);
}

/* All keys of some queries' bias, a block after the other. */
static void bias_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    void *scratch = um_cpu_scratch(job->exec, lane);
    grad_part p = part_of(job, task, job->dbias->shape[1], job->queries);
    for (int64_t first = 0; first < job->keys; first += ATTENTION_ROWS) {
        int64_t n = UM_MIN(job->keys - first, ATTENTION_ROWS);
        if (job->q->dtype == UM_F64)
            grad_bias_f64(job, p.b, p.h, p.first, p.count, first, n, scratch);
        else
            grad_bias_f32(job, p.b, p.h, p.first, p.count, first, n, scratch);
    }
}

static void sink_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    void *scratch = um_cpu_scratch(job->exec, lane);
    if (job->q->dtype == UM_F64)
        grad_sink_f64(job, task, scratch);
    else
        grad_sink_f32(job, task, scratch);
}

static void run_tasks(attention_job *job, int64_t tasks, um_cpu_task_fn fn)
{
    int64_t pairs = job->batch * job->heads * job->queries * job->keys;
    if (pairs * (job->d + job->dv) >= GRAD_SHARED_WORK)
        um_cpu_parallel(job->exec, tasks, fn, job);
    else
        for (int64_t i = 0; i < tasks; i++) fn(job, i, 0);
}

static void run_rows(attention_job *job, int64_t heads, int64_t rows, um_cpu_task_fn fn)
{
    if (heads == 0 || rows == 0) return;
    UM_ISA_FN(um_attention_split)(job, rows, ATTENTION_COLS, VF32_LANES * 2);
    run_tasks(job, heads * job->tasks_a_head, fn);
}

static attention_job make_job(um_cpu_exec *exec, const um_op *op)
{
    attention_job job = UM_ISA_FN(um_attention_job)(exec, op, 6);
    job.out = &op->in[3];
    job.dout = &op->in[4];
    job.lse = &op->in[5];
    job.dq = &op->out[0];
    job.dk = &op->out[1];
    job.dv_out = &op->out[2];
    if (op->out_count > 3 && !um_view_is_none(&op->out[3])) job.dbias = &op->out[3];
    if (op->out_count > 4 && !um_view_is_none(&op->out[4])) job.dsinks = &op->out[4];
    return job;
}

um_status UM_ISA_FN(um_run_attention_backward)(um_cpu_exec *exec, const um_op *op)
{
    attention_job job = make_job(exec, op);
    grad_f32 g32;
    grad_f64 g64;
    bool wide = job.q->dtype == UM_F64;
    UM_TRY(attention_check_sizes(op, &job));
    UM_TRY(um_cpu_scratch_reserve(exec, wide ? grad_layout_f64(&job, NULL, &g64) * sizeof(double)
                                             : grad_layout_f32(&job, NULL, &g32) * sizeof(float)));
    run_rows(&job, job.batch * job.heads, job.queries, queries_task);
    run_rows(&job, job.batch * job.kv_heads, job.keys, keys_task);
    if (job.dbias)
        run_rows(&job, job.dbias->shape[0] * job.dbias->shape[1], job.queries, bias_task);
    if (job.dsinks) run_tasks(&job, job.heads, sink_task);
    return UM_ISA_FN(um_attention_report)(op, &job);
}
