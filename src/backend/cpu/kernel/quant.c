/* backend/cpu/kernel/quant.c: quantize and dequantize. Lines run along the blocks' axis, else along
 * the last one, and are done a chunk at a time with a scale and a zero point for every element. */
#include "backend/cpu/kernel/walk.h"

#include <math.h>

um_status UM_ISA_FN(um_run_quant)(um_cpu_exec *exec, const um_op *op);

/* Elements of a task. */
#define QUANT_TASK ((int64_t)1 << 14)

enum { CHUNK = 256, VIEWS = 4 };

typedef union chunk {
    float f32[CHUNK];
    double f64[CHUNK];
} chunk;

typedef struct quant_job {
    const um_op *op;
    um_walk lines; /* from, to, scale, zero: without the line's axis */
    int64_t size, from_step, to_step, scale_step, zero_step; /* of a line */
    int64_t block;                                           /* elements a scale is for; 1: one */
    um_class c;                                              /* F32 or F64 */
    double low, high;                                        /* of integers */
    int64_t line_chunks, units_a_task;                       /* a unit is a chunk of a line */
} quant_job;

static const void *data_of(const um_view *view) { return (const void *)(uintptr_t)view->ptr; }

/* ---- chunks -------------------------------------------------------------------------------------
 */

/* out[i] = the value for element first + i of the line that starts at `at` of the view. */
static void load_factors(const quant_job *job, const um_view *view, int64_t at, int64_t step,
                         int64_t first, int64_t n, chunk *out)
{
    if (job->block == 1) {
        um_load(job->c, out, view->dtype, data_of(view), at + first * step, step, n);
        return;
    }
    for (int64_t i = 0; i < n;) {
        int64_t block = (first + i) / job->block;
        int64_t end = UM_MIN((block + 1) * job->block - first, n);
        chunk one;
        um_load(job->c, &one, view->dtype, data_of(view), at + block * step, 1, 1);
        for (; i < end; i++) {
            if (job->c == UM_CLASS_F64)
                out->f64[i] = one.f64[0];
            else
                out->f32[i] = one.f32[0];
        }
    }
}

/* x / scale, rounded, plus zero, within low and high; 0 for x where there is no quotient. */
static void to_integers(const quant_job *job, chunk *x, const chunk *scale, const chunk *zero,
                        int64_t n)
{
    if (job->c == UM_CLASS_F64) {
        for (int64_t i = 0; i < n; i++) {
            double q = x->f64[i] / scale->f64[i];
            q = scale->f64[i] != 0 && q == q ? rint(q) : 0;
            q += zero->f64[i];
            x->f64[i] = q < job->low ? job->low : q > job->high ? job->high : q;
        }
        return;
    }
    float low = (float)job->low, high = (float)job->high;
    for (int64_t i = 0; i < n; i++) {
        float q = x->f32[i] / scale->f32[i];
        q = scale->f32[i] != 0 && q == q ? rintf(q) : 0;
        q += zero->f32[i];
        x->f32[i] = q < low ? low : q > high ? high : q;
    }
}

/* A scale of 0 gives 0; a NaN stays one where the scale is another. */
static void to_floats(const quant_job *job, chunk *x, const chunk *scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (job->c == UM_CLASS_F64)
            x->f64[i] = scale->f64[i] != 0 ? x->f64[i] / scale->f64[i] : 0;
        else
            x->f32[i] = scale->f32[i] != 0 ? x->f32[i] / scale->f32[i] : 0;
    }
}

static void from_stored(const quant_job *job, chunk *q, const chunk *scale, const chunk *zero,
                        int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (job->c == UM_CLASS_F64)
            q->f64[i] = (q->f64[i] - zero->f64[i]) * scale->f64[i];
        else
            q->f32[i] = (q->f32[i] - zero->f32[i]) * scale->f32[i];
    }
}

/* Elements [first, first + n) of the line at `at`. */
static void do_chunk(const quant_job *job, const um_walk_at *at, int64_t first, int64_t n)
{
    const um_op *op = job->op;
    const um_view *from = &op->in[0], *to = &op->out[0];
    chunk x, scale, zero;
    um_load(job->c, &x, from->dtype, data_of(from), at->element[0] + first * job->from_step,
            job->from_step, n);
    load_factors(job, &op->in[1], at->element[2], job->scale_step, first, n, &scale);
    if (op->in_count > 2)
        load_factors(job, &op->in[2], at->element[3], job->zero_step, first, n, &zero);
    else
        memset(&zero, 0, sizeof zero);
    if (op->id == UM_OP_DEQUANTIZE)
        from_stored(job, &x, &scale, &zero, n);
    else if (um_dtype_is_float(to->dtype))
        to_floats(job, &x, &scale, n);
    else
        to_integers(job, &x, &scale, &zero, n);
    um_store(to->dtype, (void *)(uintptr_t)to->ptr, at->element[1] + first * job->to_step,
             job->to_step, job->c, &x, n);
}

static void quant_task(void *ctx, int64_t task, int32_t lane)
{
    const quant_job *job = ctx;
    int64_t unit = task * job->units_a_task;
    int64_t end = UM_MIN(unit + job->units_a_task, job->lines.total * job->line_chunks);
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&job->lines, unit / job->line_chunks, &at);
    for (; unit < end; unit++) {
        int64_t first = unit % job->line_chunks * CHUNK;
        do_chunk(job, &at, first, UM_MIN(job->size - first, CHUNK));
        if ((unit + 1) % job->line_chunks == 0) um_walk_advance(&job->lines, &at, 1);
    }
}

/* ---- the op -------------------------------------------------------------------------------------
 */

/* Elements of scale or zero from one index of axis d to the next (with blocks: block to block). */
static int64_t factor_step(const um_op *op, const um_view *view, int32_t axis, int32_t d)
{
    if (op->attrs.quant.block > 0) return view->stride[d];
    return view->rank == 1 && d == axis ? view->stride[0] : 0;
}

static void make_lines(quant_job *job, int32_t axis)
{
    const um_op *op = job->op;
    const um_view *from = &op->in[0], *to = &op->out[0], *scale = &op->in[1];
    const um_view *zero = op->in_count > 2 ? &op->in[2] : scale;
    int32_t line = op->attrs.quant.block > 0 ? axis : from->rank - 1;
    um_walk_begin(&job->lines, VIEWS);
    for (int32_t d = 0; d < from->rank; d++) {
        int64_t stride[VIEWS] = {from->stride[d], to->stride[d], factor_step(op, scale, axis, d),
                                 factor_step(op, zero, axis, d)};
        if (d != line) {
            um_walk_add_axis(&job->lines, from->shape[d], stride);
            continue;
        }
        job->size = from->shape[d];
        job->from_step = stride[0];
        job->to_step = stride[1];
        job->scale_step = stride[2];
        job->zero_step = stride[3];
    }
    um_walk_end(&job->lines);
}

static void set_range(quant_job *job, um_dtype q)
{
    int32_t bits = job->op->attrs.quant.bits ? job->op->attrs.quant.bits : um_dtype_bits(q);
    bool is_signed = um_dtype_get_kind(q) == UM_KIND_INT;
    job->low = is_signed ? -(double)(1 << (bits - 1)) : 0;
    job->high = is_signed ? (double)(1 << (bits - 1)) - 1 : (double)(1 << bits) - 1;
}

um_status UM_ISA_FN(um_run_quant)(um_cpu_exec *exec, const um_op *op)
{
    int32_t axis = op->attrs.quant.axis;
    quant_job job = {.op = op, .size = 1, .block = UM_MAX(op->attrs.quant.block, 1)};
    if (axis < 0) axis += op->in[0].rank;
    job.c = op->in[1].dtype == UM_F64 ? UM_CLASS_F64 : UM_CLASS_F32;
    if (op->id == UM_OP_QUANTIZE) set_range(&job, op->out[0].dtype);
    make_lines(&job, axis);
    job.line_chunks = um_ceil_div(job.size, CHUNK);
    job.units_a_task = UM_MAX(QUANT_TASK / UM_MIN(job.size, CHUNK), 1);
    int64_t tasks = um_ceil_div(job.lines.total * job.line_chunks, job.units_a_task);
    if (tasks > 1)
        um_cpu_parallel(exec, tasks, quant_task, &job);
    else
        quant_task(&job, 0, 0);
    return UM_OK;
}
