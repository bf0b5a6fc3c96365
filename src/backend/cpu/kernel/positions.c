/* backend/cpu/kernel/positions.c: from an index to a row with a 1 (one_hot), and from what is not 0
 * to its index (nonzero). */
#include "backend/cpu/kernel/indexed.h"

um_status UM_ISA_FN(um_run_one_hot)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_nonzero)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the second is a task's least. */
#define POSITIONS_SHARED ((int64_t)1 << 16)
#define POSITIONS_TASK   ((int64_t)1 << 14)

/* ---- one_hot ------------------------------------------------------------------------------------
 */

typedef struct one_hot_job {
    um_walk walk; /* indices and rows */
    const um_view *indices, *out;
    int64_t depth, step, bytes; /* of a row: size, elements between neighbours, of an element */
    int64_t rows_a_task;
    char one[8];
    _Atomic bool is_bad;
} one_hot_job;

/* Whether the index was good. */
static bool write_row(const one_hot_job *job, int64_t index, char *row)
{
    static const char zeros[8];
    um_copy_run(row, job->step, zeros, 0, job->depth, job->bytes);
    if (index < 0 || index >= job->depth) return false;
    memcpy(row + index * job->step * job->bytes, job->one, (size_t)job->bytes);
    return true;
}

static void one_hot_task(void *ctx, int64_t task, int32_t lane)
{
    one_hot_job *job = ctx;
    int64_t first = task * job->rows_a_task;
    int64_t end = UM_MIN(first + job->rows_a_task, job->walk.total);
    bool good = true;
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&job->walk, first, &at);
    for (; first < end; first++) {
        char *row = (char *)(uintptr_t)job->out->ptr + at.element[1] * job->bytes;
        good = write_row(job, um_index_at(job->indices, at.element[0]), row) && good;
        um_walk_advance(&job->walk, &at, 1);
    }
    if (!good) job->is_bad = true;
}

static um_status report_bad_index(const one_hot_job *job)
{
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->walk, 0, &at);
    for (int64_t i = 0; i < job->walk.total; i++) {
        int64_t index = um_index_at(job->indices, at.element[0]);
        if (index < 0 || index >= job->depth)
            return UM_FAIL(UM_OUT_OF_RANGE,
                           "one_hot: index %lld, number %lld of the indices, is outside 0 to %lld",
                           (long long)index, (long long)i, (long long)job->depth - 1);
        um_walk_advance(&job->walk, &at, 1);
    }
    return UM_OK;
}

um_status UM_ISA_FN(um_run_one_hot)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *indices = &op->in[0], *out = &op->out[0];
    int64_t value = 1;
    one_hot_job job = {.indices = indices,
                       .out = out,
                       .depth = out->shape[indices->rank],
                       .step = out->stride[indices->rank],
                       .bytes = um_dtype_bits(out->dtype) / 8};
    if (um_view_count(out) == 0) return UM_OK;
    um_store(out->dtype, job.one, 0, 1, UM_CLASS_I64, &value, 1);
    um_walk_begin(&job.walk, 2);
    for (int32_t i = 0; i < indices->rank; i++)
        um_walk_add_axis(&job.walk, indices->shape[i],
                         (int64_t[]){indices->stride[i], out->stride[i]});
    um_walk_end(&job.walk);
    job.rows_a_task = UM_MAX(POSITIONS_TASK / job.depth, 1);
    int64_t tasks = um_ceil_div(job.walk.total, job.rows_a_task);
    if (job.walk.total * job.depth >= POSITIONS_SHARED)
        um_cpu_parallel(exec, tasks, one_hot_task, &job);
    else
        for (int64_t i = 0; i < tasks; i++) one_hot_task(&job, i, 0);
    return job.is_bad ? report_bad_index(&job) : UM_OK;
}

/* ---- nonzero: counted a block at a time, then written from where each block starts --------------
 */

enum { MAX_BLOCKS = 1024 };

typedef struct nonzero_job {
    um_walk walk; /* x in row-major order */
    const um_view *x, *out;
    int64_t block_step;
    int64_t start[MAX_BLOCKS + 1]; /* counts, then the number of the block's first */
} nonzero_job;

/* Floats: both zeros are 0. */
static bool is_nonzero(const um_view *x, int64_t element)
{
    const char *data = (const char *)(uintptr_t)x->ptr;
    int32_t bits = um_dtype_bits(x->dtype);
    uint64_t value = 0;
    switch (bits) {
    case 8: value = ((const uint8_t *)data)[element]; break;
    case 16: value = ((const uint16_t *)(const void *)data)[element]; break;
    case 32: value = ((const uint32_t *)(const void *)data)[element]; break;
    default: value = ((const uint64_t *)(const void *)data)[element];
    }
    return (um_dtype_is_float(x->dtype) ? value << (65 - bits) : value) != 0;
}

static void count_block(void *ctx, int64_t block, int32_t lane)
{
    nonzero_job *job = ctx;
    int64_t first = block * job->block_step, count = 0;
    int64_t end = UM_MIN(first + job->block_step, job->walk.total);
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&job->walk, first, &at);
    for (; first < end; first++) {
        count += is_nonzero(job->x, at.element[0]);
        um_walk_advance(&job->walk, &at, 1);
    }
    job->start[block] = count;
}

/* The coordinates of row-major position `position` of x (-1: a row of -1) as row `row`. */
static void write_position(const nonzero_job *job, int64_t row, int64_t position)
{
    int64_t *to = (int64_t *)(uintptr_t)job->out->ptr + row * job->out->stride[0];
    for (int32_t d = job->x->rank - 1; d >= 0; d--) {
        to[d * job->out->stride[1]] = position < 0 ? -1 : position % job->x->shape[d];
        if (position > 0) position /= job->x->shape[d];
    }
}

static void write_block(void *ctx, int64_t block, int32_t lane)
{
    const nonzero_job *job = ctx;
    int64_t first = block * job->block_step, row = job->start[block];
    int64_t end = UM_MIN(first + job->block_step, job->walk.total);
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&job->walk, first, &at);
    for (; first < end && row < job->out->shape[0]; first++) {
        if (is_nonzero(job->x, at.element[0])) write_position(job, row++, first);
        um_walk_advance(&job->walk, &at, 1);
    }
}

static int64_t sum_counts(nonzero_job *job, int64_t blocks)
{
    int64_t total = 0;
    for (int64_t block = 0; block < blocks; block++) {
        int64_t count = job->start[block];
        job->start[block] = total;
        total += count;
    }
    return total;
}

um_status UM_ISA_FN(um_run_nonzero)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *x = &op->in[0], *out = &op->out[0];
    nonzero_job job = {.x = x, .out = out};
    um_walk_begin(&job.walk, 1);
    for (int32_t i = 0; i < x->rank; i++) um_walk_add_axis(&job.walk, x->shape[i], &x->stride[i]);
    um_walk_end(&job.walk);
    job.block_step = UM_MAX(POSITIONS_TASK, um_ceil_div(job.walk.total, MAX_BLOCKS));
    int64_t blocks = um_ceil_div(job.walk.total, job.block_step);
    um_cpu_parallel(exec, blocks, count_block, &job);
    int64_t count = sum_counts(&job, blocks);
    um_cpu_parallel(exec, blocks, write_block, &job);
    for (int64_t row = count; row < out->shape[0]; row++) write_position(&job, row, -1);
    if (op->out_count > 1) *(int64_t *)(uintptr_t)op->out[1].ptr = count;
    return UM_OK;
}
