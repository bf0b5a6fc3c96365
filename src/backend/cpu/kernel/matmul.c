/* backend/cpu/kernel/matmul.c: matmul. This file turns the op into a product, folds batches into
 * rows where strides allow, and chooses a form by shape: nothing to add up, matrix times vector
 * (gemv_body.h), or blocked product (tile_body.h, gemm_body.h). What follows the sums, epilogue and
 * all, is in product_body.h; 8-bit integers in matmul_int.h. Softmax, norms, attention: elsewhere.
 */
#include "backend/cpu/kernel/matmul.h"

#include "backend/cpu/kernel/program.h"

/* Rounds values of the class, f32, to what `to` holds. */
static void round_line(um_dtype to, um_class class, void *x, int64_t n)
{
    enum { PIECE = 256 };
    uint16_t codes[PIECE];
    char *at = x;
    for (int64_t i = 0, some; i < n; i += some, at += some * (int64_t)um_class_bytes(class)) {
        some = UM_MIN(n - i, PIECE);
        um_store(to, codes, 0, 1, class, at, some);
        um_load(class, at, to, codes, 0, 1, some);
    }
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Makes `own` the product with a block from (row, col) on, at `made`, `ld` from row to row, for its
 * out; own_at is at's. */
static void redirect(product *own, product_at *own_at, int64_t row, int64_t col, void *made,
                     int64_t ld)
{
    own->out.data = made;
    own->out.row = ld;
    own->out.col = 1;
    own_at->out = -(row * ld + col);
}

static um_view block_view(const matrix *x, int64_t first, int64_t rows, int64_t cols)
{
    int64_t bytes = um_dtype_bits(x->dtype) / 8;
    return (um_view){.ptr = (um_ptr)((uintptr_t)x->data + (uintptr_t)(first * bytes)),
                     .dtype = x->dtype,
                     .rank = 2,
                     .shape = {rows, cols},
                     .stride = {x->row, x->col}};
}

/* The program over that block. */
static void run_program(const product *p, const product_at *at, int64_t row, int64_t col,
                        int64_t rows, int64_t cols, void *made, int64_t ld)
{
    um_view out, in[UM_MAP_MAX_INPUTS];
    const um_view *views[UM_MAP_MAX_INPUTS];
    const matrix block = {.data = made, .dtype = p->out.dtype, .row = ld, .col = 1};
    um_map_plan plan;
    out =
        block_view(&p->target, at->target + row * p->target.row + col * p->target.col, rows, cols);
    for (int32_t i = 0; i < p->rider->in_count; i++) {
        const matrix *x = i == 0 ? &block : &p->more[i];
        int64_t first = i == 0 ? 0 : at->more[i] + row * x->row + col * x->col;
        in[i] = block_view(x, first, rows, cols);
        views[i] = &in[i];
    }
    UM_ISA_FN(um_map_make)(&plan, &p->rider->program, &out, p->rider->in_count, views);
    UM_ISA_FN(um_map_range)(&plan, 0, rows * cols);
}

/* ---- forms ---------------------------------------------------------------------------------- */

#define REAL_BITS 32
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/product_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/gemv_body.h"

#include "backend/cpu/kernel/gemm_body.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "backend/cpu/kernel/real.h"

#include "backend/cpu/kernel/dot_body.h"
#include "backend/cpu/kernel/pack_body.h"
#include "backend/cpu/kernel/product_body.h"
#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/gemv_body.h"

#include "backend/cpu/kernel/gemm_body.h"

#include "backend/cpu/kernel/matmul_int.h"

#include "backend/cpu/kernel/tile_body.h"

#include "backend/cpu/kernel/gemm_body.h"

um_status UM_ISA_FN(um_run_matmul)(um_cpu_exec *exec, const um_op *op);

/* Multiply-adds below which one thread is enough: 2M of a blocked product take ~50 us, 1M of a
 * matrix times vector ~70 us out of the L3. */
#define GEMM_SHARED_WORK ((int64_t)1 << 21)
#define GEMV_SHARED_WORK ((int64_t)1 << 20)
#define GEMV_TASK_WORK   ((int64_t)1 << 18)

/* ---- the op as a product -------------------------------------------------------------------- */

static matrix matrix_of(const um_view *view)
{
    matrix x = {.data = (void *)(uintptr_t)view->ptr, .dtype = view->dtype};
    int32_t r = view->rank;
    x.row = view->stride[r - 2];
    x.col = view->stride[r - 1];
    for (int32_t d = 0; d < r - 2; d++) x.batch[d] = view->stride[d];
    return x;
}

/* Whether axis d of the batches goes on where the rows end; so does a matrix that is not there. */
static bool rows_go_on(const product *p, const matrix *x, int32_t d)
{
    return x->batch[d] == x->row * p->m;
}

/* [B, m, k] times one [k, n] is [B * m, k] times it, when the rows of the batches line up. */
static bool fold_batch(product *p)
{
    int32_t d = p->batch_rank - 1;
    if (d < 0) return false;
    int64_t count = p->batch_shape[d];
    bool fits = p->b.batch[d] == 0 && rows_go_on(p, &p->a, d) && rows_go_on(p, &p->out, d) &&
                rows_go_on(p, &p->c, d) && rows_go_on(p, &p->bias, d) &&
                rows_go_on(p, &p->residual, d);
    for (int32_t i = 1; p->rider && i < p->rider->in_count; i++)
        fits = fits && rows_go_on(p, &p->more[i], d);
    if (!fits && count != 1) return false;
    p->m *= count;
    p->batch_rank = d;
    return true;
}

/* Rows and columns change places: (a b)^T = b^T a^T. */
static void turn(product *p)
{
    matrix a = p->a;
    p->a = p->b, p->b = a;
    matrix *all[] = {&p->a, &p->b, &p->c, &p->out, &p->bias, &p->residual};
    for (size_t i = 0; i < UM_COUNT_OF(all); i++) {
        int64_t row = all[i]->row;
        all[i]->row = all[i]->col, all[i]->col = row;
    }
    for (int32_t i = 1; p->rider && i < p->rider->in_count; i++) {
        int64_t row = p->more[i].row;
        p->more[i].row = p->more[i].col, p->more[i].col = row;
    }
    int64_t m = p->m;
    p->m = p->n, p->n = m;
}

/* Few rows, and b too large for the L2: b is then better packed block by block, as a is. */
static bool is_flat(int64_t rows, int64_t cols, int64_t k)
{
    return rows <= 96 && cols >= 4 * rows && cols * k > 65536;
}

/* A vector goes to the right; else rows of the output should be contiguous, unless it is flat. */
static bool wants_turn(const product *p)
{
    if (p->m == 1 || p->n == 1) return p->n != 1;
    if (is_flat(p->m, p->n, p->k)) return true;
    return p->out.col != 1 && p->out.row == 1 && !is_flat(p->n, p->m, p->k);
}

/* What follows the sums. */
static void take_epilogue(product *p, const um_op *op)
{
    if (um_op_has_input(op, 3)) p->bias = matrix_of(&op->in[3]);
    if (um_op_has_input(op, 4)) p->residual = matrix_of(&op->in[4]);
    p->activation = op->attrs.matmul.activation;
    p->slope = op->attrs.matmul.a;
    p->scale = op->attrs.matmul.scale == 0 ? 1 : op->attrs.matmul.scale;
    p->has_epilogue = p->bias.data || p->residual.data || p->activation || p->scale != 1;
}

/* From here on k counts pairs, see matmul_int.h. */
static void pair_up(product *p)
{
    p->k_is_odd = p->k % 2 != 0;
    if (p->k == 1) p->a.col = p->b.row = 0; /* may be anything */
    p->k = um_ceil_div(p->k, 2);
    p->a.col *= 2, p->b.row *= 2;
}

/* rider: NULL where there is none. */
static product product_of(const um_op *op, const um_rider *rider)
{
    const um_view *out = &op->out[0];
    int32_t r = out->rank;
    product p = {.a = matrix_of(&op->in[0]), .b = matrix_of(&op->in[1]), .out = matrix_of(out)};
    p.rider = rider;
    if (rider) p.out.dtype = um_op_made_dtype(op);
    for (int32_t i = 1; rider && i < rider->in_count; i++)
        p.more[i] = matrix_of(&op->in[rider->input[i]]);
    p.m = out->shape[r - 2];
    p.n = out->shape[r - 1];
    p.k = op->in[0].shape[r - 1];
    p.alpha = op->attrs.matmul.alpha;
    p.beta = op->in_count > 2 ? op->attrs.matmul.beta : 0;
    p.round_to = op->attrs.matmul.round_to;
    if (p.beta != 0) p.c = matrix_of(&op->in[2]);
    take_epilogue(&p, op);
    p.batch_rank = r - 2;
    for (int32_t d = 0; d < r - 2; d++) p.batch_shape[d] = out->shape[d];
    while (fold_batch(&p)) {}
    p.batch_count = 1;
    for (int32_t d = 0; d < p.batch_rank; d++) p.batch_count *= p.batch_shape[d];
    if (wants_turn(&p)) turn(&p);
    if (p.out.dtype == UM_I32) pair_up(&p);
    if (!rider) return p;
    p.target = p.out;
    p.target.dtype = out->dtype;
    p.out.col = 1;
    return p;
}

static product_at batch_at(const product *p, int64_t index)
{
    product_at at = {0};
    for (int32_t d = p->batch_rank - 1; d >= 0; d--) {
        int64_t i = index % p->batch_shape[d];
        index /= p->batch_shape[d];
        at.a += i * p->a.batch[d];
        at.b += i * p->b.batch[d];
        at.c += i * p->c.batch[d];
        at.out += i * p->out.batch[d];
        at.bias += i * p->bias.batch[d];
        at.residual += i * p->residual.batch[d];
        at.target += i * p->target.batch[d];
        for (int32_t k = 1; p->rider && k < p->rider->in_count; k++)
            at.more[k] += i * p->more[k].batch[d];
    }
    return at;
}

/* ---- the three forms, for what they compute in ------------------------------------------------
 */

typedef struct forms {
    size_t (*gemv_scratch_bytes)(const product *p);
    void (*gemv_rows)(const product *p, const product_at *at, int64_t first, int64_t end,
                      void *scratch);
    size_t (*gemm_scratch_bytes)(const product *p, bool shared, int32_t lane_count);
    void (*gemm_run)(um_cpu_exec *exec, const product *p, const product_at *at, bool shared,
                     int32_t lane);
} forms;

static const forms *forms_of(const product *p)
{
    static const forms f32 = {gemv_scratch_bytes_f32, gemv_rows_f32, gemm_scratch_bytes_f32,
                              gemm_run_f32};
    static const forms f64 = {gemv_scratch_bytes_f64, gemv_rows_f64, gemm_scratch_bytes_f64,
                              gemm_run_f64};
    static const forms bytes = {gemv_scratch_bytes_int, gemv_rows_int, gemm_scratch_bytes_int,
                                gemm_run_int};
    if (p->out.dtype == UM_I32) return &bytes;
    return p->out.dtype == UM_F64 ? &f64 : &f32;
}

static void finish_zeros(const product *p, const product_at *at, int64_t row, int64_t col,
                         int64_t n)
{
    static const double zero[64];
    product_line line = {p, at, row, col, n, false};
    if (p->out.dtype == UM_I32)
        finish_int(&line, (const uint32_t *)(const void *)zero);
    else if (p->out.dtype == UM_F64)
        finish_f64(&line, zero);
    else
        finish_f32(&line, (const float *)(const void *)zero);
}

/* Sums of nothing: a and b are not read. */
static void run_scale(const product *p)
{
    double made[64];
    product own = *p;
    for (int64_t index = 0; index < p->batch_count; index++) {
        product_at at = batch_at(p, index), own_at = at;
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0, n; j < p->n; j += n) {
                n = UM_MIN(p->n - j, 64);
                if (p->rider) redirect(&own, &own_at, i, j, made, n);
                finish_zeros(&own, &own_at, i, j, n);
                if (p->rider) run_program(p, &at, i, j, 1, n, made, n);
            }
    }
}

typedef struct matmul_job {
    um_cpu_exec *exec;
    const product *p;
    const forms *forms;
    int64_t tasks_a_batch; /* gemv: row_count rows each */
    int64_t row_count;
    int64_t batches_a_task; /* gemm of small matrices */
} matmul_job;

static void gemv_with_program(const forms *form, const product *p, const product_at *at,
                              int64_t first, int64_t end, void *scratch)
{
    enum { ROWS = 512 };
    double made[ROWS];
    product own = *p;
    product_at own_at = *at;
    for (int64_t n; first < end; first += n) {
        n = UM_MIN(end - first, ROWS);
        redirect(&own, &own_at, first, 0, made, 1);
        form->gemv_rows(&own, &own_at, first, first + n, scratch);
        run_program(p, at, first, 0, n, 1, made, 1);
    }
}

static void gemv_task(void *ctx, int64_t task, int32_t lane)
{
    const matmul_job *job = ctx;
    const product *p = job->p;
    product_at at = batch_at(p, task / job->tasks_a_batch);
    int64_t first = task % job->tasks_a_batch * job->row_count;
    int64_t end = UM_MIN(first + job->row_count, p->m);
    void *scratch = um_cpu_scratch(job->exec, lane);
    if (p->rider)
        gemv_with_program(job->forms, p, &at, first, end, scratch);
    else
        job->forms->gemv_rows(p, &at, first, end, scratch);
}

static um_status run_gemv(um_cpu_exec *exec, const product *p)
{
    matmul_job job = {.exec = exec, .p = p, .forms = forms_of(p), .row_count = p->m};
    size_t bytes = job.forms->gemv_scratch_bytes(p);
    if (bytes) UM_TRY(um_cpu_scratch_reserve(exec, bytes));
    bool shared = p->batch_count * p->m * p->k >= GEMV_SHARED_WORK;
    if (shared) job.row_count = um_ceil_div(UM_MAX(GEMV_TASK_WORK / p->k, 1), 64) * 64;
    job.tasks_a_batch = um_ceil_div(p->m, job.row_count);
    int64_t tasks = p->batch_count * job.tasks_a_batch;
    if (shared)
        um_cpu_parallel(exec, tasks, gemv_task, &job);
    else
        for (int64_t i = 0; i < tasks; i++) gemv_task(&job, i, 0);
    return UM_OK;
}

static void gemm_one(const matmul_job *job, int64_t index, bool shared, int32_t lane)
{
    product_at at = batch_at(job->p, index);
    job->forms->gemm_run(job->exec, job->p, &at, shared, lane);
}

static void gemm_task(void *ctx, int64_t task, int32_t lane)
{
    const matmul_job *job = ctx;
    int64_t first = task * job->batches_a_task;
    int64_t end = UM_MIN(first + job->batches_a_task, job->p->batch_count);
    for (int64_t i = first; i < end; i++) gemm_one(job, i, false, lane);
}

static um_status run_gemm(um_cpu_exec *exec, const product *p)
{
    int64_t work = p->m * p->n * p->k;
    bool shared = work >= GEMM_SHARED_WORK;
    matmul_job job = {.exec = exec, .p = p, .forms = forms_of(p)};
    UM_TRY(um_cpu_scratch_reserve(exec, job.forms->gemm_scratch_bytes(p, shared, exec->lanes)));
    job.batches_a_task = um_ceil_div(GEMM_SHARED_WORK / 4, work);
    if (shared)
        for (int64_t i = 0; i < p->batch_count; i++) gemm_one(&job, i, true, 0);
    else if (p->batch_count * work >= GEMM_SHARED_WORK)
        um_cpu_parallel(exec, um_ceil_div(p->batch_count, job.batches_a_task), gemm_task, &job);
    else
        for (int64_t i = 0; i < p->batch_count; i++) gemm_one(&job, i, false, 0);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_matmul)(um_cpu_exec *exec, const um_op *op)
{
    um_rider rider;
    bool rides = um_op_rider(op, UM_EPILOGUE, &rider);
    product p = product_of(op, rides ? &rider : NULL);
    if (p.m == 0 || p.n == 0 || p.batch_count == 0) return UM_OK;
    if (p.k == 0 || p.alpha == 0) {
        run_scale(&p);
        return UM_OK;
    }
    return p.n == 1 ? run_gemv(exec, &p) : run_gemm(exec, &p);
}
