/* backend/cpu/kernel/random.c: random numbers and dropout. Elements are made a block at a time from
 * their row-major position alone, so who makes them does not matter. Where the words come from:
 * op/random.c. */
#include "backend/cpu/kernel/radix.h"
#include "backend/cpu/kernel/walk.h"
#include "base/philox.h"

#include <math.h>

um_status UM_ISA_FN(um_run_random)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_permutation)(um_cpu_exec *exec, const um_op *op);

/* A task is so many blocks; blocks start at multiples of BLOCK, which keeps pairs together. */
#define TASK_BLOCKS 64
enum { BLOCK = 256 };

typedef struct random_job {
    const um_op *op;
    um_walk walk; /* row-major: the outputs, then the input */
    uint64_t seed, offset;
    double a, b;
    uint64_t threshold; /* bernoulli, dropout: words below it are hits */
} random_job;

typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
    int64_t i64[BLOCK];
} block;

/* ---- words --------------------------------------------------------------------------------------
 */

static um_philox_words quad(uint64_t seed, uint64_t counter)
{
    return um_philox(seed, (um_philox_words){{(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}});
}

/* Words [first, first + count), first a multiple of 4; room for the next multiple of 4. */
static void draw_words(const random_job *job, uint64_t first, int64_t count, uint32_t *words)
{
    for (int64_t i = 0; i < count; i += 4) {
        um_philox_words four = quad(job->seed, job->offset + (first + (uint64_t)i) / 4);
        memcpy(words + i, four.w, sizeof four.w);
    }
}

/* Wide numbers take two words each, low one first. */
static void draw_wide(const random_job *job, uint64_t first, int64_t count, uint64_t *wide)
{
    uint32_t words[2 * BLOCK];
    draw_words(job, 2 * first, 2 * count, words);
    for (int64_t i = 0; i < count; i++) wide[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
}

/* ---- blocks: n elements from position `first`, a multiple of BLOCK ------------------------------
 */

/* Bits of the dtype's significand: what a uniform number of it can have below 1. */
static int32_t precision_of(um_dtype dtype)
{
    return dtype == UM_F32 ? 24 : dtype == UM_F16 ? 11 : 8;
}

static void make_uniform(const random_job *job, um_dtype dtype, int64_t first, int64_t n,
                         block *out)
{
    uint32_t words[BLOCK];
    uint64_t wide[BLOCK];
    if (dtype == UM_F64) {
        double span = job->b - job->a;
        draw_wide(job, (uint64_t)first, n, wide);
        for (int64_t i = 0; i < n; i++)
            out->f64[i] = job->a + (double)(wide[i] >> 11) * 0x1p-53 * span;
        return;
    }
    int32_t bits = precision_of(dtype);
    float unit = 1.0f / (float)(1 << bits), low = (float)job->a, span = (float)(job->b - job->a);
    draw_words(job, (uint64_t)first, n, words);
    for (int64_t i = 0; i < n; i++)
        out->f32[i] = low + (float)(words[i] >> (32 - bits)) * unit * span;
}

/* (a + a_rest) (b + b_rest), rounded once or nearly so. */
static double multiply(double a, double a_rest, double b, double b_rest)
{
    double product = a * b;
    return product + (fma(a, b, -product) + (a * b_rest + a_rest * b));
}

/* Two normal numbers by Box and Muller (1958) from u in (0, 1] and the angle 2 pi turn. What log,
 * sin and cos err is all that is lost: the angle is reduced to an eighth of a turn exactly, pi / 2
 * and the root are taken in two parts. */
static void normal_pair(double u, double turn, double *z)
{
    static const double half_pi = 0x1.921fb54442d18p0, half_pi_rest = 0x1.1a62633145c07p-54;
    double square = -2 * log(u), radius = sqrt(square);
    double radius_rest = radius > 0 ? fma(-radius, radius, square) / (2 * radius) : 0;
    double quarters = 4 * turn, whole = rint(quarters), part = quarters - whole;
    double angle = part * half_pi, rest = fma(part, half_pi, -angle) + part * half_pi_rest;
    double s = sin(angle), c = cos(angle);
    double x = multiply(radius, radius_rest, c, -rest * s);
    double y = multiply(radius, radius_rest, s, rest * c);
    switch ((int)whole & 3) {
    case 0: z[0] = x, z[1] = y; break;
    case 1: z[0] = -y, z[1] = x; break;
    case 2: z[0] = -x, z[1] = -y; break;
    default: z[0] = y, z[1] = -x;
    }
}

static void make_normal(const random_job *job, um_dtype dtype, int64_t first, int64_t n, block *out)
{
    uint32_t words[BLOCK];
    uint64_t wide[BLOCK];
    int64_t even = n + n % 2;
    if (dtype == UM_F64)
        draw_wide(job, (uint64_t)first, even, wide);
    else
        draw_words(job, (uint64_t)first, even, words);
    for (int64_t i = 0; i < even; i += 2) {
        if (dtype == UM_F64)
            normal_pair((double)((wide[i] >> 11) + 1) * 0x1p-53,
                        (double)(wide[i + 1] >> 11) * 0x1p-53, out->f64 + i);
        else
            normal_pair((double)((words[i] >> 8) + 1) * 0x1p-24,
                        (double)(words[i + 1] >> 8) * 0x1p-24, out->f64 + i);
    }
    for (int64_t i = 0; i < n; i++) out->f64[i] = job->a + job->b * out->f64[i];
}

static void make_bits(const random_job *job, um_dtype dtype, int64_t first, int64_t n, block *out)
{
    uint32_t words[BLOCK];
    uint64_t wide[BLOCK];
    if (um_dtype_bits(dtype) == 64) {
        draw_wide(job, (uint64_t)first, n, wide);
        for (int64_t i = 0; i < n; i++) out->i64[i] = (int64_t)wide[i];
        return;
    }
    draw_words(job, (uint64_t)first, n, words);
    for (int64_t i = 0; i < n; i++) out->i64[i] = words[i];
}

/* 1 where the word is a hit. */
static void make_hits(const random_job *job, int64_t first, int64_t n, block *out)
{
    uint32_t words[BLOCK];
    draw_words(job, (uint64_t)first, n, words);
    for (int64_t i = 0; i < n; i++) out->i64[i] = words[i] < job->threshold;
}

static um_class make_block(const random_job *job, int64_t first, int64_t n, block *out)
{
    um_dtype dtype = job->op->out[0].dtype;
    switch (job->op->id) {
    case UM_OP_RANDOM_UNIFORM:
        make_uniform(job, dtype, first, n, out);
        return dtype == UM_F64 ? UM_CLASS_F64 : UM_CLASS_F32;
    case UM_OP_RANDOM_NORMAL: make_normal(job, dtype, first, n, out); return UM_CLASS_F64;
    case UM_OP_RANDOM_BITS: make_bits(job, dtype, first, n, out); return UM_CLASS_I64;
    default: make_hits(job, first, n, out); return UM_CLASS_I64;
    }
}

/* ---- putting blocks in their places -------------------------------------------------------------
 */

/* n elements of one run: y = x / (1 - p) where `dropped` is 0, else 0; dropped becomes the mask. */
static void drop_run(const random_job *job, const um_walk_at *at, int64_t n, int64_t *dropped)
{
    const um_op *op = job->op;
    const um_view *x = &op->in[0], *y = &op->out[0];
    int32_t input = op->out_count;
    bool is_wide = x->dtype == UM_F64;
    float narrow_kept = (float)(1 - job->a);
    block values;
    um_load(is_wide ? UM_CLASS_F64 : UM_CLASS_F32, &values, x->dtype,
            (const void *)(uintptr_t)x->ptr, at->element[input], um_walk_step(&job->walk, input),
            n);
    for (int64_t i = 0; i < n; i++) {
        if (is_wide)
            values.f64[i] = dropped[i] ? 0 : values.f64[i] / (1 - job->a);
        else
            values.f32[i] = dropped[i] ? 0 : values.f32[i] / narrow_kept;
        dropped[i] = !dropped[i];
    }
    um_store(y->dtype, (void *)(uintptr_t)y->ptr, at->element[0], um_walk_step(&job->walk, 0),
             is_wide ? UM_CLASS_F64 : UM_CLASS_F32, &values, n);
    if (op->out_count > 1)
        um_store(UM_BOOL, (void *)(uintptr_t)op->out[1].ptr, at->element[1],
                 um_walk_step(&job->walk, 1), UM_CLASS_I64, dropped, n);
}

/* Elements [first, first + n) from the block. */
static void put_block(const random_job *job, int64_t first, int64_t n, um_class c, block *from)
{
    const um_view *y = &job->op->out[0];
    int64_t run;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->walk, first, &at);
    for (int64_t done = 0; done < n; done += run) {
        run = um_walk_inner(&job->walk) - at.index[job->walk.rank - 1];
        run = UM_MIN(run, n - done);
        if (job->op->id == UM_OP_DROPOUT)
            drop_run(job, &at, run, from->i64 + done);
        else
            um_store(y->dtype, (void *)(uintptr_t)y->ptr, at.element[0],
                     um_walk_step(&job->walk, 0), c,
                     (const char *)from + done * (int64_t)um_class_bytes(c), run);
        um_walk_advance(&job->walk, &at, run);
    }
}

static void random_task(void *ctx, int64_t task, int32_t lane)
{
    const random_job *job = ctx;
    int64_t first = task * TASK_BLOCKS * BLOCK;
    int64_t end = UM_MIN(first + TASK_BLOCKS * BLOCK, job->walk.total);
    (void)lane;
    for (; first < end; first += BLOCK) {
        block values;
        int64_t n = UM_MIN(BLOCK, end - first);
        um_class c = make_block(job, first, n, &values);
        put_block(job, first, n, c, &values);
    }
}

/* Words that are below p: every one when p is 1. */
static uint64_t threshold_of(double p) { return (uint64_t)ceil(p * 0x1p32); }

static random_job job_of(const um_op *op)
{
    random_job job = {.op = op,
                      .seed = op->attrs.random.seed,
                      .offset = op->attrs.random.offset,
                      .a = op->attrs.random.a,
                      .b = op->attrs.random.b};
    if (op->id == UM_OP_RANDOM_BERNOULLI || op->id == UM_OP_DROPOUT)
        job.threshold = threshold_of(job.a);
    return job;
}

um_status UM_ISA_FN(um_run_random)(um_cpu_exec *exec, const um_op *op)
{
    random_job job = job_of(op);
    um_walk_begin(&job.walk, op->out_count + op->in_count);
    for (int32_t i = 0; i < op->out[0].rank; i++) {
        int64_t stride[UM_WALK_MAX];
        for (int32_t k = 0; k < op->out_count; k++) stride[k] = op->out[k].stride[i];
        if (op->in_count) stride[op->out_count] = op->in[0].stride[i];
        um_walk_add_axis(&job.walk, op->out[0].shape[i], stride);
    }
    um_walk_end(&job.walk);
    int64_t tasks = um_ceil_div(job.walk.total, TASK_BLOCKS * BLOCK);
    if (tasks > 1)
        um_cpu_parallel(exec, tasks, random_task, &job);
    else
        random_task(&job, 0, 0);
    return UM_OK;
}

/* ---- permutation: 0 .. n - 1 in the order of wide random numbers, equal ones by number ----------
 */

um_status UM_ISA_FN(um_run_permutation)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *out = &op->out[0];
    random_job job = job_of(op);
    int64_t count = out->shape[0], bytes;
    if (!um_mul_i64(count, 2 * (int64_t)sizeof(um_keyed), &bytes))
        return UM_FAIL(UM_OUT_OF_MEMORY, "no memory for a permutation of %lld", (long long)count);
    UM_TRY(um_cpu_scratch_reserve(exec, (size_t)um_ceil_div(bytes, exec->lanes)));
    um_keyed *items = (um_keyed *)(void *)exec->scratch;
    for (int64_t first = 0; first < count; first += BLOCK) {
        uint64_t wide[BLOCK];
        int64_t n = UM_MIN(BLOCK, count - first);
        draw_wide(&job, (uint64_t)first, n, wide);
        for (int64_t i = 0; i < n; i++) items[first + i] = (um_keyed){wide[i], first + i};
    }
    UM_ISA_FN(um_radix_sort)(items, items + count, count, 64);
    for (int64_t i = 0; i < count; i++)
        um_store(out->dtype, (void *)(uintptr_t)out->ptr, i * out->stride[0], 1, UM_CLASS_I64,
                 &items[i].value, 1);
    return UM_OK;
}
