/* backend/cpu/batch.h: ops as they wait in a stream's queue, and many of them run as one. Used by
 * stream.c only. */
#ifndef UM_BACKEND_CPU_BATCH_H
#define UM_BACKEND_CPU_BATCH_H

#include "backend/cpu/cpu.h"

/* An op of its own, with the kernel that runs it. */
typedef struct um_cpu_queued {
    um_cpu_run_fn run;
    um_op op; /* cut behind the last input; then the map program, if there is one */
} um_cpu_queued;

/* UNSUPPORTED: no kernel runs the op. */
um_status um_cpu_queued_bytes(const um_op *op, size_t *bytes);
/* Into as many bytes, of um_cpu_queued's alignment. */
void um_cpu_queued_copy(um_cpu_queued *queued, const um_op *op);
/* What the op is worth: the elements it touches, and for each 8 multiplications of a product one
 * more. */
int64_t um_cpu_op_weight(const um_op *op);

/* Independent ops in one block; um_mem_free frees it. */
typedef struct um_cpu_batch um_cpu_batch;
um_status um_cpu_batch_make(int64_t count, const um_op *const *ops, um_cpu_batch **out);
int64_t um_cpu_batch_weight(const um_cpu_batch *batch);
/* Runs all ops, each large one by all lanes, then the small ones side by side. The error is that of
 * the first op in the batch's order that failed. exec has lanes (um_cpu_exec_split). */
um_status um_cpu_batch_run(um_cpu_batch *batch, um_cpu_exec *exec);

/* Gives each lane of exec an exec of its own; once. OUT_OF_MEMORY. */
um_status um_cpu_exec_split(um_cpu_exec *exec);
/* The scratch, and the lanes'. */
void um_cpu_exec_release(um_cpu_exec *exec);

#endif
