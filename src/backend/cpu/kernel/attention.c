/* backend/cpu/kernel/attention.c: attention. This file turns the op into a job, says which keys a
 * query sees by position, and splits the work; the arithmetic is in attention_body.h. */
#include "backend/cpu/kernel/attention.h"
#include "backend/cpu/kernel/vmath.h"

/* The keys that some query of first .. last sees by position. */
static key_range visible_keys(const attention_job *job, int64_t first, int64_t last)
{
    key_range range = {0, job->keys};
    if (job->causal == UM_CAUSAL_NONE && job->window == 0) return range;
    int64_t shift = job->causal == UM_CAUSAL_TOP_LEFT ? 0 : job->keys - job->queries;
    int64_t own = first + shift;
    if (job->window > 0 && job->window <= own) range.first = own - job->window + 1;
    range.end = UM_MAX(UM_MIN(last + shift + 1, job->keys), 0);
    return range;
}

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_body.h"

um_status UM_ISA_FN(um_run_attention)(um_cpu_exec *exec, const um_op *op);

/* Multiply-adds below which one thread is enough: ~60 us row by row. */
#define ATTENTION_SHARED_WORK ((int64_t)1 << 18)
/* Queries of a head from which on packing k and v pays. */
#define ATTENTION_BLOCK_MIN 12

static head_at find_head(const attention_job *job, int64_t b, int64_t h)
{
    int64_t kv = h / job->group;
    const um_view *bias = job->bias;
    head_at at = {
        .q = b * job->q->stride[0] + h * job->q->stride[1],
        .k = b * job->k->stride[0] + kv * job->k->stride[1],
        .v = b * job->v->stride[0] + kv * job->v->stride[1],
        .out = b * job->out->stride[0] + h * job->out->stride[1],
    };
    if (bias && bias->shape[0] != 1) at.bias += b * bias->stride[0];
    if (bias && bias->shape[1] != 1) at.bias += h * bias->stride[1];
    return at;
}

static bool in_blocks(const attention_job *job) { return job->queries >= ATTENTION_BLOCK_MIN; }

static void attend(const attention_job *job, const head_at *at, int64_t index, int64_t rows,
                   void *scratch)
{
    bool wide = job->q->dtype == UM_F64;
    if (in_blocks(job)) {
        if (wide)
            attend_block_f64(job, at, index, rows, scratch);
        else
            attend_block_f32(job, at, index, rows, scratch);
        return;
    }
    for (int64_t i = index; i < index + rows; i++) {
        if (wide)
            attend_row_f64(job, at, i, scratch);
        else
            attend_row_f32(job, at, i, scratch);
    }
}

/* Task: up to ATTENTION_QUERIES queries of one head. */
static void attention_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    int64_t head = task / job->tasks_a_head;
    int64_t index = task % job->tasks_a_head * job->queries_a_task;
    head_at at = find_head(job, head / job->heads, head % job->heads);
    attend(job, &at, index, UM_MIN(job->queries - index, job->queries_a_task),
           um_cpu_scratch(job->exec, lane));
}

static size_t scratch_bytes(const attention_job *job)
{
    bool wide = job->q->dtype == UM_F64;
    if (!in_blocks(job)) return wide ? row_scratch_f64(job) : row_scratch_f32(job);
    if (wide) {
        block_f64 b;
        return block_layout_f64(job, NULL, &b) * sizeof(double);
    }
    block_f32 b;
    return block_layout_f32(job, NULL, &b) * sizeof(float);
}

static attention_job job_of(um_cpu_exec *exec, const um_op *op)
{
    attention_job job = {.exec = exec, .q = &op->in[0], .k = &op->in[1], .v = &op->in[2]};
    if (op->in_count > 3) job.bias = &op->in[3];
    job.out = &op->out[0];
    job.heads = job.q->shape[1];
    job.queries = job.q->shape[2];
    job.keys = job.k->shape[2];
    job.d = job.q->shape[3];
    job.dv = job.v->shape[3];
    job.group = job.heads / UM_MAX(job.k->shape[1], 1);
    job.scale = op->attrs.attention.scale;
    if (job.scale == 0) job.scale = 1 / sqrt((double)job.d);
    job.softcap = op->attrs.attention.softcap;
    job.causal = op->attrs.attention.causal;
    job.window = op->attrs.attention.window;
    job.queries_a_task = UM_MIN(job.queries, ATTENTION_QUERIES);
    return job;
}

um_status UM_ISA_FN(um_run_attention)(um_cpu_exec *exec, const um_op *op)
{
    attention_job job = job_of(exec, op);
    int64_t heads = job.q->shape[0] * job.heads;
    if (heads == 0 || job.queries == 0 || job.dv == 0) return UM_OK;
    UM_TRY(um_cpu_scratch_reserve(exec, scratch_bytes(&job)));
    job.tasks_a_head = um_ceil_div(job.queries, job.queries_a_task);
    int64_t tasks = heads * job.tasks_a_head;
    int64_t work = heads * job.queries * job.keys * (job.d + job.dv);
    if (work >= ATTENTION_SHARED_WORK)
        um_cpu_parallel(exec, tasks, attention_task, &job);
    else
        for (int64_t i = 0; i < tasks; i++) attention_task(&job, i, 0);
    return UM_OK;
}
