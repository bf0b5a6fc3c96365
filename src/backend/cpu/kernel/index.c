/* backend/cpu/kernel/index.c: ops that read through indices: embedding. */
#include "backend/cpu/kernel/simd.h"

um_status UM_ISA_FN(um_run_embedding)(um_cpu_exec *exec, const um_op *op);

/* Bytes: below the first one thread is enough, the second is a task's least. */
#define EMBEDDING_SHARED_BYTES ((int64_t)1 << 20)
#define EMBEDDING_TASK_BYTES   ((int64_t)1 << 16)

typedef struct embedding_job {
    const um_view *table, *ids, *out;
    int64_t id_count, row_count; /* row_count: elements of a row */
    int64_t bytes;               /* of an element */
    bool packed;                 /* rows are in one piece on both sides */
    int64_t ids_a_task;
} embedding_job;

static int64_t id_at(const embedding_job *job, int64_t position)
{
    const um_view *ids = job->ids;
    int64_t at = 0;
    for (int32_t d = ids->rank - 1; d >= 0; d--) {
        at += position % ids->shape[d] * ids->stride[d];
        position /= ids->shape[d];
    }
    if (ids->dtype == UM_I32) return ((const int32_t *)(uintptr_t)ids->ptr)[at];
    return ((const int64_t *)(uintptr_t)ids->ptr)[at];
}

static bool id_is_good(const embedding_job *job, int64_t id)
{
    return id >= 0 && id < job->table->shape[0];
}

/* Element offsets of row element `index` in the table and in the output. */
static void row_at(const embedding_job *job, int64_t index, int64_t *from, int64_t *to)
{
    for (int32_t d = job->table->rank - 1; d > 0; d--) {
        int64_t i = index % job->table->shape[d];
        index /= job->table->shape[d];
        *from += i * job->table->stride[d];
        *to += i * job->out->stride[d - 1 + job->ids->rank];
    }
}

static int64_t out_at(const embedding_job *job, int64_t position)
{
    int64_t at = 0;
    for (int32_t d = job->ids->rank - 1; d >= 0; d--) {
        at += position % job->ids->shape[d] * job->out->stride[d];
        position /= job->ids->shape[d];
    }
    return at;
}

/* from NULL: zeros. */
static void copy_bytes(char *to, const char *from, int64_t bytes)
{
    if (from)
        memcpy(to, from, (size_t)bytes);
    else
        memset(to, 0, (size_t)bytes);
}

static void embed_one(const embedding_job *job, int64_t position)
{
    int64_t id = id_at(job, position), bytes = job->bytes;
    bool good = id_is_good(job, id);
    const char *table = (const char *)(uintptr_t)job->table->ptr;
    char *out = (char *)(uintptr_t)job->out->ptr;
    int64_t from = good ? id * job->table->stride[0] : 0, to = out_at(job, position);
    if (job->packed) {
        copy_bytes(out + to * bytes, good ? table + from * bytes : NULL, job->row_count * bytes);
        return;
    }
    for (int64_t i = 0; i < job->row_count; i++) {
        int64_t source = from, target = to;
        row_at(job, i, &source, &target);
        copy_bytes(out + target * bytes, good ? table + source * bytes : NULL, bytes);
    }
}

static void embedding_task(void *ctx, int64_t task, int32_t lane)
{
    const embedding_job *job = ctx;
    int64_t first = task * job->ids_a_task;
    int64_t end = UM_MIN(first + job->ids_a_task, job->id_count);
    (void)lane;
    for (int64_t i = first; i < end; i++) embed_one(job, i);
}

static bool rows_are_packed(const embedding_job *job)
{
    int64_t expect = 1;
    for (int32_t d = job->table->rank - 1; d > 0; d--) {
        int64_t size = job->table->shape[d];
        bool even =
            job->table->stride[d] == expect && job->out->stride[d - 1 + job->ids->rank] == expect;
        if (size != 1 && !even) return false;
        expect *= size;
    }
    return true;
}

/* The first bad id, after all rows are written. */
static um_status report(const embedding_job *job)
{
    for (int64_t i = 0; i < job->id_count; i++) {
        int64_t id = id_at(job, i);
        if (!id_is_good(job, id))
            return UM_FAIL(UM_OUT_OF_RANGE,
                           "embedding: id %lld at position %lld is outside the table of %lld rows",
                           (long long)id, (long long)i, (long long)job->table->shape[0]);
    }
    return UM_OK;
}

um_status UM_ISA_FN(um_run_embedding)(um_cpu_exec *exec, const um_op *op)
{
    embedding_job job = {.table = &op->in[0], .ids = &op->in[1], .out = &op->out[0]};
    job.id_count = um_view_count(job.ids);
    job.row_count = 1;
    for (int32_t d = 1; d < job.table->rank; d++) job.row_count *= job.table->shape[d];
    job.bytes = um_dtype_bits(job.table->dtype) / 8;
    job.packed = rows_are_packed(&job);
    if (job.id_count == 0) return UM_OK;
    int64_t row_bytes = UM_MAX(job.row_count * job.bytes, 1);
    bool shared = job.id_count * row_bytes >= EMBEDDING_SHARED_BYTES;
    job.ids_a_task = shared ? um_ceil_div(EMBEDDING_TASK_BYTES, row_bytes) : job.id_count;
    if (shared)
        um_cpu_parallel(exec, um_ceil_div(job.id_count, job.ids_a_task), embedding_task, &job);
    else
        embedding_task(&job, 0, 0);
    return report(&job);
}
