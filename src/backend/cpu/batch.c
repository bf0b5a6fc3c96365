/* Ops as a stream's queue holds them, and batches of independent ops; see batch.h.
 *
 * An op worth a parallel loop of its own gets all lanes. Of the small ones each lane takes whole
 * ops, run by an exec without a pool: a kernel's split depends on shapes only, so the bits are the
 * same either way. */
#include "backend/cpu/batch.h"

#define SMALL_WEIGHT  (1 << 18) /* below, an op stays on one lane: about 50 us */
#define SHARED_WEIGHT (1 << 16) /* small ops of so much together are worth other lanes */
#define OP_WEIGHT     1024      /* what any op counts for beside its elements */

struct um_cpu_batch {
    int64_t count, large_count;
    int64_t weight, small_weight;
    /* under mutex while ops run side by side */
    um_mutex mutex;
    int64_t failed; /* the first op that did, in the batch's order; count: none */
    um_error error;
    um_cpu_exec *exec;
    struct {
        um_cpu_queued *queued;
        int64_t index; /* in the batch's order */
    } op[];            /* the large ones first */
};

/* ---- one op --------------------------------------------------------------------------------- */

static size_t op_bytes(const um_op *op)
{
    return offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0];
}

um_status um_cpu_queued_bytes(const um_op *op, size_t *bytes)
{
    *bytes = offsetof(um_cpu_queued, op) + op_bytes(op) + um_op_program_bytes(op);
    if (um_cpu_kernel_find(op->id)) return UM_OK;
    return um_backend_fail(UM_UNSUPPORTED, "cpu", um_op_name(op->id), 0, "cpu: no kernel for %s",
                           um_op_name(op->id));
}

/* Strides that no element uses may be anything, and kernels calculate with them: 0 where that could
 * overflow. */
static void drop_unused_strides(um_view *view)
{
    enum { HARMLESS = 1 << 24 };
    bool empty = false;
    for (int32_t i = 0; i < view->rank; i++) empty |= view->shape[i] == 0;
    for (int32_t i = 0; i < view->rank; i++) {
        bool large = view->stride[i] > HARMLESS || view->stride[i] < -HARMLESS;
        if (empty || (large && view->shape[i] == 1)) view->stride[i] = 0;
    }
}

void um_cpu_queued_copy(um_cpu_queued *queued, const um_op *op)
{
    queued->run = um_cpu_kernel_find(op->id)->run;
    memcpy(&queued->op, op, op_bytes(op));
    for (int32_t i = 0; i < op->in_count; i++) drop_unused_strides(&queued->op.in[i]);
    for (int32_t i = 0; i < op->out_count; i++) drop_unused_strides(&queued->op.out[i]);
    um_op_move_programs(&queued->op, (uint8_t *)&queued->op + op_bytes(op));
}

int64_t um_cpu_op_weight(const um_op *op)
{
    double weight = 0;
    for (int32_t i = 0; i < op->in_count; i++) weight += (double)um_view_count(&op->in[i]);
    for (int32_t i = 0; i < op->out_count; i++) weight += (double)um_view_count(&op->out[i]);
    if (op->id == UM_OP_MATMUL) {
        weight +=
            (double)um_view_count(&op->out[0]) / 8 * (double)op->in[0].shape[op->in[0].rank - 1];
    } else if (op->id == UM_OP_ATTENTION || op->id == UM_OP_ATTENTION_BACKWARD) {
        double pairs = (double)um_view_count(&op->in[0]) * (double)op->in[1].shape[2];
        weight += op->id == UM_OP_ATTENTION ? pairs / 4 : pairs;
    }
    return (int64_t)UM_MIN(weight, (double)INT32_MAX);
}

/* ---- a batch -------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static um_status batch_bytes(int64_t count, const um_op *const *ops, size_t *head, size_t *all)
{
    um_cpu_batch *none = NULL;
    *head = *all = aligned(sizeof *none + (size_t)count * sizeof none->op[0]);
    for (int64_t i = 0; i < count; i++) {
        size_t bytes;
        UM_TRY(um_cpu_queued_bytes(ops[i], &bytes));
        *all += aligned(bytes);
    }
    return UM_OK;
}

um_status um_cpu_batch_make(int64_t count, const um_op *const *ops, um_cpu_batch **out)
{
    *out = NULL;
    size_t head, all;
    UM_TRY(batch_bytes(count, ops, &head, &all));
    um_cpu_batch *batch = um_mem_alloc(all);
    if (!batch)
        return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0, "cpu: no memory to queue %lld ops",
                               (long long)count);
    memset(batch, 0, sizeof *batch);
    batch->count = count;
    uint8_t *at = (uint8_t *)batch + head;
    int64_t small = count; /* the small ones, from the end */
    for (int64_t i = 0; i < count; i++) {
        int64_t weight = um_cpu_op_weight(ops[i]) + OP_WEIGHT;
        bool is_large = weight >= SMALL_WEIGHT;
        int64_t place = is_large ? batch->large_count++ : --small;
        batch->weight += weight;
        batch->small_weight += is_large ? 0 : weight;
        batch->op[place].queued = (um_cpu_queued *)(void *)at;
        batch->op[place].index = i;
        um_cpu_queued_copy(batch->op[place].queued, ops[i]);
        size_t bytes;
        (void)um_cpu_queued_bytes(ops[i], &bytes);
        at += aligned(bytes);
    }
    *out = batch;
    return UM_OK;
}

int64_t um_cpu_batch_weight(const um_cpu_batch *batch) { return batch->weight; }

static void run_one(um_cpu_batch *batch, int64_t place, um_cpu_exec *exec)
{
    const um_cpu_queued *queued = batch->op[place].queued;
    if (queued->run(exec, &queued->op) == UM_OK) return;
    um_fail_tag("cpu", um_op_name(queued->op.id));
    um_mutex_lock(&batch->mutex);
    if (batch->op[place].index < batch->failed) {
        batch->failed = batch->op[place].index;
        batch->error = *um_last_error();
    }
    um_mutex_unlock(&batch->mutex);
}

/* The small ones lie in reverse. */
static void small_task(void *ctx, int64_t task, int32_t lane)
{
    um_cpu_batch *batch = ctx;
    run_one(batch, batch->count - 1 - task, &batch->exec->lane[lane]);
}

um_status um_cpu_batch_run(um_cpu_batch *batch, um_cpu_exec *exec)
{
    UM_TRY(um_mutex_init(&batch->mutex));
    int64_t small_count = batch->count - batch->large_count;
    batch->exec = exec;
    batch->failed = batch->count;
    for (int64_t i = 0; i < batch->large_count; i++) run_one(batch, i, exec);
    if (batch->small_weight >= SHARED_WEIGHT)
        um_cpu_parallel(exec, small_count, small_task, batch);
    else
        for (int64_t i = 0; i < small_count; i++) run_one(batch, batch->count - 1 - i, exec);
    um_mutex_destroy(&batch->mutex);
    return batch->failed < batch->count ? um_fail_again(&batch->error) : UM_OK;
}

/* ---- lanes ---------------------------------------------------------------------------------- */

um_status um_cpu_exec_split(um_cpu_exec *exec)
{
    if (exec->lane) return UM_OK;
    exec->lane = um_mem_zalloc((size_t)exec->lanes * sizeof *exec->lane);
    if (!exec->lane)
        return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0, "cpu: no memory for %d lanes",
                               (int)exec->lanes);
    for (int32_t i = 0; i < exec->lanes; i++) exec->lane[i].lanes = 1;
    return UM_OK;
}

void um_cpu_exec_release(um_cpu_exec *exec)
{
    for (int32_t i = 0; exec->lane && i < exec->lanes; i++) um_mem_free(exec->lane[i].scratch);
    um_mem_free(exec->lane);
    um_mem_free(exec->scratch);
}
