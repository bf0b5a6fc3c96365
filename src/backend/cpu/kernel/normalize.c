/* backend/cpu/kernel/normalize.c: layer, group and batch norm, the gradients of all norms and of
 * softmax. A line is what shares its statistics: some channels, each of some elements (`inner`).
 * It is gone through in chunks: once for its moments, for a gradient once more for its sums, and
 * once to write. The arithmetic is in normalize_body.h. softmax and rms_norm are in norm.c. */
#include "backend/cpu/kernel/vmath.h"
#include "backend/cpu/kernel/walk.h"

#include <math.h>

enum { X, DY, OUT, MEAN, INVERSE, OLD_MEAN, OLD_VAR, NEW_MEAN, NEW_VAR, VIEWS };

enum {
    CHUNK = 1024,          /* elements loaded at a time */
    FLUSH = 64,            /* lines whose gradients are added up plainly */
    MOST_BLOCKS = 32,      /* ... of lines with partial gradients of their own */
    TASK_WORK = 1 << 14,   /* elements: a task's least, */
    SHARED_WORK = 1 << 16, /* and an op's that more than one thread is worth */
    SUM_WIDTH = 512        /* gradients added up across blocks at a time */
};

typedef struct normalize_job {
    um_cpu_exec *exec;
    const um_op *op;
    um_dtype dtype;
    bool backward, softmax;
    bool centred; /* not rms_norm */
    bool each;    /* w and b differ along a line, not by channel */
    bool given;   /* mean and var are inputs */
    const um_view *view[VIEWS];
    um_walk lines;                               /* all views */
    um_walk inner;                               /* X, DY, OUT */
    int64_t channels, channel_stride[3], groups; /* of a line; lines of a sample */
    int64_t size;                                /* of a line */
    const um_view *weight, *bias, *gradient[2];  /* NULL: not there; dw, db */
    const void *w, *b;                           /* packed, of the type computed in */
    void *partial;                               /* gradients [blocks][dw, db][weight_count] */
    int64_t blocks, weight_count, lines_a_task;
    uint8_t *own; /* each worker's, own_bytes apart: layers' sums and what they lost */
    size_t own_bytes;
} normalize_job;

/* The view's own order, whatever its strides. */
static void walk_in_order(um_walk *walk, const um_view *view)
{
    um_walk_begin(walk, 1);
    for (int32_t i = 0; i < view->rank; i++)
        um_walk_add_axis(walk, view->shape[i], &view->stride[i]);
    um_walk_end(walk);
}

static bool sums_gradients(const normalize_job *job) { return job->gradient[0] != NULL; }

#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/normalize_body.h"
#undef REAL_BITS
#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/normalize_body.h"

um_status UM_ISA_FN(um_run_normalize)(um_cpu_exec *exec, const um_op *op);

/* ---- lines --------------------------------------------------------------------------------------
 */

static int64_t stride_of(const um_view *view, int32_t axis)
{
    return view ? view->stride[axis] : 0;
}

/* One more axis of the lines; `place`: which axis of the statistics it is, -1: none. */
static void add_line_axis(normalize_job *job, int32_t axis, int64_t size, int64_t factor,
                          int32_t place)
{
    int64_t stride[VIEWS] = {0};
    for (int32_t v = 0; v <= OUT; v++) stride[v] = stride_of(job->view[v], axis) * factor;
    for (int32_t v = MEAN; v < VIEWS && place >= 0; v++) stride[v] = stride_of(job->view[v], place);
    um_walk_add_axis(&job->lines, size, stride);
}

static void add_inner_axis(normalize_job *job, int32_t axis)
{
    const um_view *const *v = job->view;
    um_walk_add_axis(&job->inner, v[X]->shape[axis],
                     (int64_t[]){v[X]->stride[axis], stride_of(v[DY], axis), v[OUT]->stride[axis]});
}

/* Lines are x's axes but first .. end - 1. */
static void lay_out_axes(normalize_job *job, int32_t first, int32_t end)
{
    const um_view *x = job->view[X];
    for (int32_t i = 0; i < x->rank; i++) {
        if (i >= first && i < end)
            add_inner_axis(job, i);
        else
            add_line_axis(job, i, x->shape[i], 1, i);
    }
    job->channels = 1;
    job->groups = 1;
}

static void lay_out_channels(normalize_job *job, int32_t layout, int64_t groups)
{
    const um_view *x = job->view[X];
    int32_t axis = layout == UM_CHANNELS_LAST ? x->rank - 1 : 1;
    bool is_batch = groups == 0;
    job->groups = is_batch ? x->shape[axis] : groups;
    job->channels = is_batch ? 1 : x->shape[axis] / groups;
    if (!is_batch) add_line_axis(job, 0, x->shape[0], 1, 0);
    add_line_axis(job, axis, job->groups, job->channels, is_batch ? 0 : 1);
    for (int32_t i = is_batch ? 0 : 1; i < x->rank; i++)
        if (i != axis) add_inner_axis(job, i);
    for (int32_t v = 0; v <= OUT; v++) job->channel_stride[v] = stride_of(job->view[v], axis);
}

static void lay_out(normalize_job *job)
{
    const um_op *op = job->op;
    int32_t rank = job->view[X]->rank, axis = op->attrs.axis.axis;
    um_walk_begin(&job->lines, VIEWS);
    um_walk_begin(&job->inner, OUT + 1);
    switch (op->id) {
    case UM_OP_RMS_NORM_BACKWARD: lay_out_axes(job, rank - 1, rank); break;
    case UM_OP_LAYER_NORM:
    case UM_OP_LAYER_NORM_BACKWARD: lay_out_axes(job, rank - op->attrs.norm.dims, rank); break;
    case UM_OP_GROUP_NORM:
    case UM_OP_GROUP_NORM_BACKWARD:
        lay_out_channels(job, op->attrs.norm.layout, op->attrs.norm.groups);
        break;
    case UM_OP_BATCH_NORM:
    case UM_OP_BATCH_NORM_BACKWARD: lay_out_channels(job, op->attrs.norm.layout, 0); break;
    default:
        axis = axis < 0 ? axis + rank : axis;
        lay_out_axes(job, axis, axis + 1);
        break;
    }
    um_walk_end(&job->lines);
    um_walk_end(&job->inner);
    job->size = job->channels * job->inner.total;
    if (job->size == 0) job->channels = 0; /* no chunks to look for */
}

/* ---- the op -------------------------------------------------------------------------------------
 */

static const um_view *input(const um_op *op, int32_t index)
{
    return um_op_has_input(op, index) ? &op->in[index] : NULL;
}

static void take_views(normalize_job *job)
{
    const um_op *op = job->op;
    const um_view **v = job->view;
    v[OUT] = &op->out[0];
    if (!job->backward) {
        v[X] = &op->in[0];
        job->weight = input(op, 1);
        job->bias = input(op, 2);
        if (op->out_count > 1) v[MEAN] = &op->out[1];
        if (op->out_count > 2) v[INVERSE] = &op->out[2];
        if (op->out_count > 4) v[NEW_MEAN] = &op->out[3], v[NEW_VAR] = &op->out[4];
    } else {
        v[X] = &op->in[job->softmax ? 0 : 1];
        v[DY] = &op->in[job->softmax ? 1 : 0];
        job->weight = input(op, 2);
        for (int32_t i = 1; i < op->out_count; i++) job->gradient[i - 1] = &op->out[i];
    }
    if (op->id == UM_OP_BATCH_NORM || op->id == UM_OP_BATCH_NORM_BACKWARD) {
        v[OLD_MEAN] = input(op, 3);
        v[OLD_VAR] = input(op, 4);
        job->given = !op->attrs.norm.training;
    }
}

static normalize_job job_of(um_cpu_exec *exec, const um_op *op)
{
    normalize_job job = {.exec = exec, .op = op, .dtype = op->in[0].dtype};
    job.softmax = op->id == UM_OP_SOFTMAX_BACKWARD || op->id == UM_OP_LOG_SOFTMAX_BACKWARD;
    job.backward =
        op->id != UM_OP_LAYER_NORM && op->id != UM_OP_GROUP_NORM && op->id != UM_OP_BATCH_NORM;
    job.centred = op->id != UM_OP_RMS_NORM_BACKWARD;
    job.each = op->id == UM_OP_LAYER_NORM || op->id == UM_OP_LAYER_NORM_BACKWARD ||
               op->id == UM_OP_RMS_NORM_BACKWARD;
    take_views(&job);
    lay_out(&job);
    return job;
}

static void normalize_task(void *ctx, int64_t task, int32_t worker)
{
    const normalize_job *job = ctx;
    int64_t first = task * job->lines_a_task;
    int64_t end = UM_MIN(first + job->lines_a_task, job->lines.total);
    if (job->dtype == UM_F64)
        normalize_lines_f64(job, task, first, end, worker);
    else
        normalize_lines_f32(job, task, first, end, worker);
}

static void gradient_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const normalize_job *job = ctx;
    int64_t first = task * SUM_WIDTH, n = UM_MIN(job->weight_count - first, SUM_WIDTH);
    for (int32_t which = 0; which < 2; which++) {
        if (job->dtype == UM_F64)
            sum_blocks_f64(job, which, first, n);
        else
            sum_blocks_f32(job, which, first, n);
    }
}

/* How many lines a task takes, and how many rows of partial gradients there are: by shape alone. */
static void split(normalize_job *job)
{
    int64_t lines = job->lines.total, size = UM_MAX(job->size, 1);
    bool shared = lines > 1 && job->size >= SHARED_WORK / lines;
    job->lines_a_task = shared ? um_ceil_div(TASK_WORK, size) : lines;
    if (!sums_gradients(job)) return;
    job->weight_count = um_view_count(job->gradient[0]);
    if (job->size == 0 || lines == 0) return;
    if (job->each) {
        int64_t least = um_ceil_div(lines, MOST_BLOCKS);
        if (shared) job->lines_a_task = UM_MAX(job->lines_a_task, least);
        job->blocks = um_ceil_div(lines, job->lines_a_task);
    } else {
        job->blocks = lines / job->groups;
    }
}

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Room for the parameters as they are computed with, the partial gradients, and each worker's. */
static um_status reserve(normalize_job *job, size_t real)
{
    int64_t count = job->weight_count;
    if (job->weight) count = um_view_count(job->weight);
    if (job->bias) count = UM_MAX(count, um_view_count(job->bias));
    size_t vector = round_up((size_t)count * real);
    size_t partial = round_up((size_t)job->blocks * 2 * (size_t)job->weight_count * real);
    bool keeps = job->each && sums_gradients(job) && job->blocks > 0;
    job->own_bytes = keeps ? round_up(4 * (size_t)job->weight_count * real) : 0;
    size_t shared = 2 * vector + partial, lanes = (size_t)job->exec->lanes;
    UM_TRY(um_cpu_scratch_reserve(job->exec, round_up(shared / lanes + 64) + job->own_bytes));
    uint8_t *scratch = job->exec->scratch;
    job->partial = scratch + 2 * vector;
    job->own = scratch + shared;
    if (job->dtype == UM_F64) {
        job->w = load_parameter_f64(job->weight, scratch);
        job->b = load_parameter_f64(job->bias, scratch + vector);
    } else {
        job->w = load_parameter_f32(job->weight, scratch);
        job->b = load_parameter_f32(job->bias, scratch + vector);
    }
    return UM_OK;
}

um_status UM_ISA_FN(um_run_normalize)(um_cpu_exec *exec, const um_op *op)
{
    normalize_job job = job_of(exec, op);
    split(&job);
    UM_TRY(reserve(&job, job.dtype == UM_F64 ? sizeof(double) : sizeof(float)));
    bool has_lines = job.lines.total > 0 && (job.size > 0 || job.view[MEAN]);
    if (has_lines)
        um_cpu_parallel(exec, um_ceil_div(job.lines.total, job.lines_a_task), normalize_task, &job);
    if (sums_gradients(&job))
        um_cpu_parallel(exec, um_ceil_div(job.weight_count, SUM_WIDTH), gradient_task, &job);
    return UM_OK;
}
