/* backend/cpu/kernel/normalize.c: layer, group and batch norm, the gradients of all norms and of
 * softmax. A line is what shares its statistics: some channels, each of some elements (`inner`).
 * It is gone through in chunks: once for its moments, for a gradient once more for its sums, and
 * once to write: normalize_body.h. Channels that are neighbours in memory go together, row by row:
 * normalize_across_body.h. softmax and rms_norm are in norm.c. */
#include "backend/cpu/kernel/vmath.h"
#include "backend/cpu/kernel/walk.h"

#include <math.h>
#include <stdatomic.h>

enum { X, DY, OUT, MEAN, INVERSE, OLD_MEAN, OLD_VAR, NEW_MEAN, NEW_VAR, VIEWS };
_Static_assert((int)VIEWS <= (int)UM_WALK_MAX, "a walk holds all views");

enum {
    CHUNK = 1024,          /* elements loaded at a time */
    FLUSH = 64,            /* lines whose gradients are added up plainly */
    MOST_BLOCKS = 32,      /* ... of lines with partial gradients of their own */
    TASK_WORK = 1 << 14,   /* elements: a task's least, */
    SHARED_WORK = 1 << 16, /* and an op's that more than one thread is worth */
    SUM_WIDTH = 512,       /* gradients added up across blocks at a time */
    ROWS = 64,             /* across: of a block */
    JOINED = 256           /* ... and columns joined at a time, or a group's */
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
    uint8_t *across; /* where the sums of channels go, NULL: the op goes by lines */
    uint8_t *own;    /* a worker's, or a block's where those are fewer: its sums, what they lost */
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

/* Channels are neighbours: see normalize_across_body.h. */
typedef enum across_phase {
    ACROSS_MEAN, /* f64: for a shift near it */
    ACROSS_MOMENTS,
    ACROSS_PRODUCTS,
    ACROSS_FORWARD,
    ACROSS_BACKWARD
} across_phase;

enum { HI, LO, INV, MEAN_G, MEAN_P, SLOTS };

typedef struct across_job {
    const normalize_job *job;
    across_phase phase;
    int64_t sets, rows, blocks, columns, groups; /* of a set */
    int64_t blocks_a_task;
    double *sums;
    void *slots;
    _Atomic bool far; /* a deviation that the lines must see to */
} across_job;

static bool sums_gradients(const normalize_job *job) { return job->gradient[0] != NULL; }

#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/normalize_body.h"

#include "backend/cpu/kernel/normalize_across_body.h"
#undef REAL_BITS
#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/normalize_body.h"

#include "backend/cpu/kernel/normalize_across_body.h"

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

/* ---- across -------------------------------------------------------------------------------------
 */

static void block_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const across_job *a = ctx;
    int64_t first = task * a->blocks_a_task;
    int64_t end = UM_MIN(first + a->blocks_a_task, a->sets * a->blocks);
    for (int64_t i = first; i < end; i++) {
        if (a->job->dtype == UM_F64)
            across_block_f64(a, i / a->blocks, i % a->blocks);
        else
            across_block_f32(a, i / a->blocks, i % a->blocks);
    }
}

static void run_blocks(across_job *a, across_phase phase)
{
    a->phase = phase;
    um_cpu_parallel(a->job->exec, um_ceil_div(a->sets * a->blocks, a->blocks_a_task), block_task,
                    a);
}

/* Groups of a set whose columns are joined together. */
static int64_t groups_a_task(const across_job *a) { return UM_MAX(JOINED / a->job->channels, 1); }

static void join_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    across_job *a = ctx;
    int64_t channels = a->job->channels, tasks = um_ceil_div(a->groups, groups_a_task(a));
    int64_t set = task / tasks, first = task % tasks * groups_a_task(a);
    int64_t end = UM_MIN(first + groups_a_task(a), a->groups) * channels;
    bool wide = a->job->dtype == UM_F64, good = true;
    for (int64_t c = first * channels, n; c < end; c += n) {
        n = UM_MIN(end - c, JOINED);
        if (wide)
            across_join_f64(a, set, c, n);
        else
            across_join_f32(a, set, c, n);
    }
    for (int64_t c = first * channels; c < end; c += channels) {
        if (a->phase == ACROSS_PRODUCTS && wide)
            across_means_f64(a, set, c);
        else if (a->phase == ACROSS_PRODUCTS)
            across_means_f32(a, set, c);
        else
            good = (wide ? across_stats_f64(a, set, c) : across_stats_f32(a, set, c)) && good;
    }
    if (!good) atomic_store_explicit(&a->far, true, memory_order_relaxed); /* read after the join */
}

static void join_blocks(across_job *a)
{
    int64_t tasks = um_ceil_div(a->groups, groups_a_task(a));
    um_cpu_parallel(a->job->exec, a->sets * tasks, join_task, a);
}

/* Whether the op is one for rows of channels. */
static bool is_across(const normalize_job *job)
{
    if (job->softmax || job->each || job->channel_stride[X] != 1 || job->channel_stride[OUT] != 1)
        return false;
    if (job->view[DY] && job->channel_stride[DY] != 1) return false;
    return job->groups * job->channels >= 8 && job->inner.total >= 8 &&
           um_walk_step(&job->inner, X) != 1;
}

static across_job across_of(const normalize_job *job)
{
    across_job a = {.job = job, .groups = job->groups, .rows = job->inner.total};
    a.columns = job->groups * job->channels;
    a.sets = job->lines.total / job->groups;
    a.blocks = um_ceil_div(a.rows, ROWS);
    a.blocks_a_task = um_ceil_div(TASK_WORK, ROWS * a.columns);
    return a;
}

static size_t across_bytes(const normalize_job *job, size_t real)
{
    if (!is_across(job) || job->lines.total == 0) return 0;
    across_job a = across_of(job);
    size_t columns = (size_t)(a.sets * a.columns);
    return round_up(columns * (size_t)a.blocks * 2 * sizeof(double)) +
           round_up(columns * SLOTS * real);
}

/* false: some deviation is out of the range of this form, and nothing is written yet. */
static bool run_across(normalize_job *job, uint8_t *scratch)
{
    across_job a = across_of(job);
    bool wide = job->dtype == UM_F64;
    a.sums = (double *)(void *)scratch;
    a.slots = scratch + round_up((size_t)(a.sets * a.columns * a.blocks) * 2 * sizeof(double));
    for (int64_t set = 0; set < a.sets; set++)
        wide ? across_start_f64(&a, set) : across_start_f32(&a, set);
    for (int32_t phase = wide ? ACROSS_MEAN : ACROSS_MOMENTS; phase <= ACROSS_MOMENTS; phase++) {
        if (job->given) break;
        run_blocks(&a, (across_phase)phase);
        join_blocks(&a);
    }
    if (atomic_load_explicit(&a.far, memory_order_relaxed)) return false;
    if (!job->backward) {
        for (int64_t set = 0; set < a.sets; set++)
            wide ? across_write_f64(&a, set) : across_write_f32(&a, set);
        run_blocks(&a, ACROSS_FORWARD);
        return true;
    }
    if (!job->given || job->blocks > 0) {
        run_blocks(&a, ACROSS_PRODUCTS);
        join_blocks(&a);
    }
    run_blocks(&a, ACROSS_BACKWARD);
    return true;
}

/* ---- running
 * ------------------------------------------------------------------------------------- */

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
    size_t across = across_bytes(job, real);
    size_t shared = 2 * vector + partial + across, lanes = (size_t)job->exec->lanes;
    size_t owners = (size_t)UM_MIN(job->blocks, job->exec->lanes);
    size_t bytes = shared + owners * job->own_bytes;
    UM_TRY(um_cpu_scratch_reserve(job->exec, round_up(bytes / lanes + 64)));
    uint8_t *scratch = job->exec->scratch;
    job->partial = scratch + 2 * vector;
    job->across = across > 0 ? scratch + 2 * vector + partial : NULL;
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
    bool done = has_lines && job.across && run_across(&job, job.across);
    if (has_lines && !done)
        um_cpu_parallel(exec, um_ceil_div(job.lines.total, job.lines_a_task), normalize_task, &job);
    if (sums_gradients(&job))
        um_cpu_parallel(exec, um_ceil_div(job.weight_count, SUM_WIDTH), gradient_task, &job);
    return UM_OK;
}
