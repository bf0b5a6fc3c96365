/* backend/cpu/kernel/gather.c: ops that read slices of a table by index: gather, index_select,
 * gather_nd, embedding. What lies behind a bad index reads as 0. */
#include "backend/cpu/kernel/indexed.h"

um_status UM_ISA_FN(um_run_gather)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the second is a task's. */
#define GATHER_SHARED ((int64_t)1 << 17)
#define GATHER_TASK   ((int64_t)1 << 14)

typedef struct gather_job {
    um_indexed x;
    int64_t slice_step, slice_tasks; /* elements of a slice that a task does */
    int64_t line_step;               /* entries that a task does */
    _Atomic bool is_bad;
} gather_job;

/* Elements [first, end) of a slice. table NULL: zeros. */
static void copy_slice(const um_indexed *x, const char *table, char *entry, int64_t first,
                       int64_t end)
{
    static const char zeros[8];
    int64_t bytes = x->element_bytes, from_step = table ? um_walk_step(&x->slice, 0) : 0;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&x->slice, first, &at);
    while (first < end) {
        int64_t n = um_walk_inner(&x->slice) - at.index[x->slice.rank - 1];
        n = UM_MIN(n, end - first);
        um_copy_run(entry + at.element[1] * bytes, um_walk_step(&x->slice, 1),
                    table ? table + at.element[0] * bytes : zeros, from_step, n, bytes);
        um_walk_advance(&x->slice, &at, n);
        first += n;
    }
}

/* ---- tasks --------------------------------------------------------------------------------------
 */

/* n entries of one run of the lines, elements [first, end) of each slice. */
static bool gather_run(const um_indexed *x, const um_walk_at *at, int64_t n, int64_t first,
                       int64_t end)
{
    int64_t bytes = x->element_bytes;
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        uint64_t number;
        int64_t place;
        int64_t index = at->element[INDEXED_INDICES] + i * um_walk_step(&x->lines, INDEXED_INDICES);
        int64_t table = at->element[INDEXED_TABLE] + i * um_walk_step(&x->lines, INDEXED_TABLE);
        int64_t entry = at->element[INDEXED_ENTRIES] + i * um_walk_step(&x->lines, INDEXED_ENTRIES);
        bool found = um_indexed_find(x, index, &number, &place);
        const char *from = found ? x->table + (table + place) * bytes : NULL;
        good = good && found;
        if (x->slice.total == 1 && found)
            um_copy_run(x->entries + entry * bytes, 0, from, 0, 1, bytes);
        else
            copy_slice(x, from, x->entries + entry * bytes, first, end);
    }
    return good;
}

static void gather_task(void *ctx, int64_t task, int32_t lane)
{
    gather_job *job = ctx;
    const um_indexed *x = &job->x;
    int64_t first = task / job->slice_tasks * job->line_step;
    int64_t end = UM_MIN(first + job->line_step, x->lines.total);
    int64_t slice_first = task % job->slice_tasks * job->slice_step;
    int64_t slice_end = UM_MIN(slice_first + job->slice_step, x->slice.total);
    bool good = true;
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&x->lines, first, &at);
    while (first < end) {
        int64_t n = um_walk_inner(&x->lines) - at.index[x->lines.rank - 1];
        n = UM_MIN(n, end - first);
        good = gather_run(x, &at, n, slice_first, slice_end) && good;
        um_walk_advance(&x->lines, &at, n);
        first += n;
    }
    if (!good) job->is_bad = true;
}

um_status UM_ISA_FN(um_run_gather)(um_cpu_exec *exec, const um_op *op)
{
    gather_job job = {.is_bad = false};
    const um_indexed *x = &job.x;
    UM_ISA_FN(um_indexed_make)(&job.x, op, &op->in[0], &op->in[1], &op->out[0], true);
    if (x->lines.total == 0 || x->slice.total == 0) return UM_OK;
    bool shared = x->lines.total * x->slice.total >= GATHER_SHARED;
    job.slice_step = shared ? UM_MIN(x->slice.total, GATHER_TASK) : x->slice.total;
    job.line_step = shared ? UM_MAX(GATHER_TASK / job.slice_step, 1) : x->lines.total;
    job.slice_tasks = um_ceil_div(x->slice.total, job.slice_step);
    int64_t tasks = um_ceil_div(x->lines.total, job.line_step) * job.slice_tasks;
    if (shared)
        um_cpu_parallel(exec, tasks, gather_task, &job);
    else
        gather_task(&job, 0, 0);
    return job.is_bad ? UM_ISA_FN(um_indexed_report)(op, x) : UM_OK;
}
