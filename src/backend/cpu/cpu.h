/* backend/cpu/cpu.h: the CPU backend's inside: the thread pool (pool.c), streams (stream.c), the
 * driver (driver.c) and the kernels' frame (kernels.c; kernels in kernel/).
 *
 * A kernel is called once an op, on the thread that runs its stream, with checked views of live
 * memory. It splits its work with um_cpu_parallel. The split may depend on shapes only, never on
 * the number of threads: results must be the same bits for any number. */
#ifndef UM_BACKEND_CPU_H
#define UM_BACKEND_CPU_H

#include "base/base.h"
#include "base/os.h"
#include "op/table.h"

#include <umbel/backend.h>

/* ---- pool ----------------------------------------------------------------------------------- */

typedef struct um_cpu_pool um_cpu_pool;

/* threads: 0 is UMBEL_THREADS, else the affinity mask. The process shares one pool; get counts
 * references. */
um_status um_cpu_pool_get(um_cpu_pool **out);
void um_cpu_pool_put(um_cpu_pool *pool);
int32_t um_cpu_pool_threads(const um_cpu_pool *pool);

/* Hands `fn(arg)` to a worker soon. fn is called without any lock held. Never fails: `job` is
 * storage of the caller's that must live until fn has been called, and may be in the queue only
 * once at a time. */
typedef struct um_cpu_job {
    void (*fn)(struct um_cpu_job *job);
    int32_t priority; /* higher goes first; of equal ones the first to come */
    struct um_cpu_job *next;
} um_cpu_job;
void um_cpu_pool_submit(um_cpu_pool *pool, um_cpu_job *job);

/* ---- kernels -------------------------------------------------------------------------------- */

#define UM_CPU_MAX_THREADS 256

/* What a kernel gets beside its op. One per stream; a kernel runs alone on it. */
typedef struct um_cpu_exec {
    um_cpu_pool *pool; /* NULL: everything on the calling thread, as worker 0 */
    int32_t lanes;     /* how many `worker` numbers um_cpu_parallel may use: 0 .. lanes - 1 */
    struct um_cpu_exec *lane; /* batch.c's: one for each, without a pool; or NULL */
    uint8_t *scratch;         /* um_cpu_scratch_reserve */
    size_t scratch_stride_bytes, scratch_capacity_bytes;
} um_cpu_exec;

/* Calls fn(ctx, task, worker) for each task in 0 .. task_count-1, from up to exec->lanes threads
 * (the caller is one), and returns when all are done. Two calls with the same worker number never
 * run at the same time. */
typedef void (*um_cpu_task_fn)(void *ctx, int64_t task, int32_t worker);
void um_cpu_parallel(um_cpu_exec *exec, int64_t task_count, um_cpu_task_fn fn, void *ctx);

/* Gives every worker `bytes` of scratch, 64-aligned, kept from call to call (so it allocates only
 * while it grows). Contents are undefined. OUT_OF_MEMORY. */
um_status um_cpu_scratch_reserve(um_cpu_exec *exec, size_t bytes);
static inline void *um_cpu_scratch(const um_cpu_exec *exec, int32_t worker)
{
    return exec->scratch ? exec->scratch + (size_t)worker * exec->scratch_stride_bytes : NULL;
}

typedef um_status (*um_cpu_run_fn)(um_cpu_exec *exec, const um_op *op);

/* One row an op the CPU runs. supports: dtypes and forms beyond the mask (NULL: all); it writes why
 * not. */
typedef struct um_cpu_kernel {
    um_op_id op;
    uint32_t dtypes; /* main dtype, bits as in op/table.h */
    um_cpu_run_fn run;
    bool (*supports)(const um_op *op, char *why, size_t why_size);
} um_cpu_kernel;

/* The row, or NULL. The same table answers the driver's supports and enqueue. */
const um_cpu_kernel *um_cpu_kernel_find(um_op_id op);
/* Whether the CPU runs it; why not in words. */
bool um_cpu_kernel_supports(const um_op *op, char *why, size_t why_size);
/* Name of the kernel set chosen at start: "avx2+fma+f16c", "base". */
const char *um_cpu_isa_name(void);
int32_t um_cpu_simd_f32_lanes(void);

#endif
