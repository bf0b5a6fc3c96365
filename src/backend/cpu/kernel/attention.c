/* backend/cpu/kernel/attention.c: attention. This file turns the op into a job and splits the work;
 * the arithmetic is in attention_body.h (few queries) and attention_block_body.h. */
#include "backend/cpu/kernel/attention.h"
#include "backend/cpu/kernel/vmath.h"

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_body.h"
#include "backend/cpu/kernel/attention_tile_body.h"

#include "backend/cpu/kernel/attention_block_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/exp_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/attention_body.h"
#include "backend/cpu/kernel/attention_tile_body.h"

#include "backend/cpu/kernel/attention_block_body.h"

um_status UM_ISA_FN(um_run_attention)(um_cpu_exec *exec, const um_op *op);

/* Multiply-adds below which one thread is enough: ~60 us row by row. */
#define ATTENTION_SHARED_WORK ((int64_t)1 << 18)
/* Queries of a head from which on packing k and v pays. */
#define ATTENTION_BLOCK_MIN 12

/* ---- the job -------------------------------------------------------------------------------- */

static const um_view *find_input(const um_op *op, int32_t index)
{
    return um_op_has_input(op, index) ? &op->in[index] : NULL;
}

attention_job UM_ISA_FN(um_attention_job)(um_cpu_exec *exec, const um_op *op, int32_t optional)
{
    const um_attention_desc *attrs = &op->attrs.attention;
    attention_job job = {.exec = exec, .q = &op->in[0], .k = &op->in[1], .v = &op->in[2]};
    job.bias = find_input(op, optional);
    job.key_lengths = find_input(op, optional + 1);
    job.query_lengths = find_input(op, optional + 2);
    job.sinks = find_input(op, optional + 3);
    job.batch = job.q->shape[0];
    job.heads = job.q->shape[1];
    job.kv_heads = job.k->shape[1];
    job.queries = job.q->shape[2];
    job.keys = job.k->shape[2];
    job.d = job.q->shape[3];
    job.dv = job.v->shape[3];
    job.group = UM_MAX(job.heads / UM_MAX(job.kv_heads, 1), 1);
    job.scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)job.d);
    job.softcap = attrs->softcap;
    job.causal = attrs->causal;
    job.window = attrs->window;
    return job;
}

void UM_ISA_FN(um_attention_split)(attention_job *job, int64_t rows, int64_t most, int64_t unit)
{
    int64_t tasks = UM_MAX(um_ceil_div(rows, most), 1);
    job->rows_a_task = um_ceil_div(um_ceil_div(rows, tasks), unit) * unit;
    job->tasks_a_head = um_ceil_div(rows, job->rows_a_task);
}

static um_status report_lengths(const um_op *op, const um_view *lengths, const char *name,
                                int64_t most)
{
    for (int64_t b = 0; lengths && b < lengths->shape[0]; b++) {
        int64_t length = attention_length(lengths, b);
        if (length < 0 || length > most)
            return UM_FAIL(UM_OUT_OF_RANGE, "%s: %s[%lld] is %lld, outside 0 to %lld",
                           um_op_name(op->id), name, (long long)b, (long long)length,
                           (long long)most);
    }
    return UM_OK;
}

um_status UM_ISA_FN(um_attention_report)(const um_op *op, const attention_job *job)
{
    UM_TRY(report_lengths(op, job->key_lengths, "key_lengths", job->keys));
    return report_lengths(op, job->query_lengths, "query_lengths", job->queries);
}

/* ---- forward -------------------------------------------------------------------------------- */

static bool in_blocks(const attention_job *job) { return job->queries >= ATTENTION_BLOCK_MIN; }

static void attend(const attention_job *job, const attention_head *at, int64_t index, int64_t rows,
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

/* Task: some queries of one head. */
static void attention_task(void *ctx, int64_t task, int32_t lane)
{
    const attention_job *job = ctx;
    int64_t head = task / job->tasks_a_head;
    int64_t index = task % job->tasks_a_head * job->rows_a_task;
    attention_head at = attention_head_of(job, head / job->heads, head % job->heads);
    attend(job, &at, index, UM_MIN(job->queries - index, job->rows_a_task),
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

um_status UM_ISA_FN(um_run_attention)(um_cpu_exec *exec, const um_op *op)
{
    attention_job job = UM_ISA_FN(um_attention_job)(exec, op, 3);
    job.out = &op->out[0];
    if (op->out_count > 1) job.lse = &op->out[1];
    int64_t heads = job.batch * job.heads;
    if (heads == 0 || job.queries == 0 || (job.dv == 0 && !job.lse)) return UM_OK;
    UM_TRY(attention_check_sizes(op, &job));
    UM_ISA_FN(um_attention_split)(&job, job.queries, ATTENTION_COLS, VF32_LANES * 2);
    UM_TRY(um_cpu_scratch_reserve(exec, scratch_bytes(&job)));
    int64_t tasks = heads * job.tasks_a_head;
    int64_t work = heads * job.queries * job.keys * (job.d + job.dv);
    if (work >= ATTENTION_SHARED_WORK)
        um_cpu_parallel(exec, tasks, attention_task, &job);
    else
        for (int64_t i = 0; i < tasks; i++) attention_task(&job, i, 0);
    return UM_ISA_FN(um_attention_report)(op, &job);
}
