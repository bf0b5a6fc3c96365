/* backend/cpu/kernel/move.c: copy, fill, arange and linspace. A copy of one dtype moves bits; runs
 * of packed elements are memcpy, and transposes go through a tile that is read and written in whole
 * cache lines. Other copies convert piece by piece. A fill is a copy of one element everywhere. */
#include "op/move.h"
#include "backend/cpu/kernel/stream.h"
#include "backend/cpu/kernel/walk.h"

#include <math.h>

um_status UM_ISA_FN(um_run_copy)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_fill)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_arange)(um_cpu_exec *exec, const um_op *op);

enum {
    CHUNK = 1 << 16, /* elements a task */
    PIECE = 512,     /* elements converted at a time */
    TILE_OUT = 64,   /* of a transpose: elements along the output's rows */
    TILE_IN = 32     /* ... along the input's */
};

enum { OUT, IN };

typedef struct copy_plan {
    um_walk walk; /* OUT, IN */
    char *to;
    const char *from;
    um_dtype out_dtype, in_dtype;
    int64_t size;          /* bytes of an element when bits are moved, else 0 */
    const um_limit *limit; /* NULL: none */
    bool streams;
    int32_t turn; /* transpose: the axis along which the input is packed */
    int64_t blocks, blocks_a_task;
} copy_plan;

/* ---- runs ----------------------------------------------------------------------------------- */

/* Inlined with a constant size, so that each element is one load and one store. */
UM_INLINE void move_sized(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                          size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, size);
}

/* Steps in bytes. */
static void move_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     int64_t size)
{
    if (to_step == size && from_step == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: move_sized(to, to_step, from, from_step, n, 1); return;
    case 2: move_sized(to, to_step, from, from_step, n, 2); return;
    case 4: move_sized(to, to_step, from, from_step, n, 4); return;
    case 8: move_sized(to, to_step, from, from_step, n, 8); return;
    }
}

/* Values of a class. */
typedef union piece {
    float f32[PIECE];
    double f64[PIECE];
    int64_t i64[PIECE];
} piece;

static void keep_limit(const um_limit *limit, um_class class, piece *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = class == UM_CLASS_F64 ? values->f64[i] : (double)values->f32[i];
        if (!(fabs(x) >= limit->at)) continue;
        x = limit->rule == UM_OVERFLOW_SPECIAL ? (double)NAN : copysign(limit->at, x);
        if (class == UM_CLASS_F64)
            values->f64[i] = x;
        else
            values->f32[i] = (float)x;
    }
}

static void convert_run(const copy_plan *p, int64_t to, int64_t from, int64_t n)
{
    piece values;
    um_class class = um_dtype_class(p->in_dtype);
    /* Integers that f64 rounds are too large for all that has a limit. */
    if (p->limit && (class != UM_CLASS_F32 || p->out_dtype == UM_F64)) class = UM_CLASS_F64;
    int64_t to_step = um_walk_step(&p->walk, OUT), from_step = um_walk_step(&p->walk, IN);
    for (int64_t done = 0, m; done < n; done += m) {
        m = UM_MIN(n - done, PIECE);
        um_load(class, &values, p->in_dtype, p->from, from + done * from_step, from_step, m);
        if (p->limit) keep_limit(p->limit, class, &values, m);
        um_store(p->out_dtype, p->to, to + done * to_step, to_step, class, &values, m);
    }
}

static void copy_run(const copy_plan *p, int64_t to, int64_t from, int64_t n)
{
    int64_t to_step = um_walk_step(&p->walk, OUT), from_step = um_walk_step(&p->walk, IN),
            size = p->size;
    if (size == 0)
        convert_run(p, to, from, n);
    else if (p->streams && to_step == 1 && from_step == 1)
        um_stream_copy(p->to + to * size, p->from + from * size, (size_t)(n * size));
    else
        move_run(p->to + to * size, to_step * size, p->from + from * size, from_step * size, n,
                 size);
}

static void copy_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const copy_plan *p = ctx;
    int64_t first = task * CHUNK, last = UM_MIN(first + CHUNK, p->walk.total),
            axis = p->walk.rank - 1;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->walk, first, &at);
    for (int64_t n; first < last; first += n) {
        n = UM_MIN(last - first, p->walk.shape[axis] - at.index[axis]);
        copy_run(p, at.element[OUT], at.element[IN], n);
        um_walk_advance(&p->walk, &at, n);
    }
    if (p->streams) um_stream_end();
}

/* ---- transposes ----------------------------------------------------------------------------- */

/* rows x columns elements; the output's rows are packed, the input's columns are. */
static void turn_tile(const copy_plan *p, char *to, const char *from, int64_t rows, int64_t columns)
{
    _Alignas(64) char tile[TILE_OUT * TILE_IN * sizeof(int64_t)];
    int64_t size = p->size, inner = p->walk.rank - 1, tile_row = TILE_OUT * size;
    int64_t to_row = p->walk.stride[OUT][p->turn] * size,
            from_column = p->walk.stride[IN][inner] * size;
    for (int64_t k = 0; k < columns; k++)
        move_run(tile + k * size, tile_row, from + k * from_column, size, rows, size);
    for (int64_t i = 0; i < rows; i++) {
        if (p->streams)
            um_stream_copy(to + i * to_row, tile + i * tile_row, (size_t)(columns * size));
        else
            memcpy(to + i * to_row, tile + i * tile_row, (size_t)(columns * size));
    }
}

/* A block is TILE_IN rows of the output, whole, at one place of the other axes. */
static void turn_block(const copy_plan *p, int64_t block)
{
    const um_walk *w = &p->walk;
    int32_t inner = w->rank - 1;
    int64_t bands = um_ceil_div(w->shape[p->turn], TILE_IN);
    int64_t row = block % bands * TILE_IN, rows = UM_MIN(w->shape[p->turn] - row, TILE_IN),
            place = block / bands;
    int64_t to = row * w->stride[OUT][p->turn], from = row;
    for (int32_t axis = inner - 1; axis >= 0; axis--) {
        if (axis == p->turn) continue;
        to += place % w->shape[axis] * w->stride[OUT][axis];
        from += place % w->shape[axis] * w->stride[IN][axis];
        place /= w->shape[axis];
    }
    for (int64_t column = 0; column < w->shape[inner]; column += TILE_OUT)
        turn_tile(p, p->to + (to + column) * p->size,
                  p->from + (from + column * w->stride[IN][inner]) * p->size, rows,
                  UM_MIN(w->shape[inner] - column, TILE_OUT));
}

static void turn_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const copy_plan *p = ctx;
    int64_t last = UM_MIN((task + 1) * p->blocks_a_task, p->blocks);
    for (int64_t block = task * p->blocks_a_task; block < last; block++) turn_block(p, block);
    if (p->streams) um_stream_end();
}

/* Whether it pays to see the copy as a transpose. */
static bool find_turn(copy_plan *p)
{
    const um_walk *w = &p->walk;
    int32_t inner = w->rank - 1;
    if (p->size == 0 || w->stride[OUT][inner] != 1 || w->shape[inner] < 8) return false;
    if (w->stride[IN][inner] == 0 || w->stride[IN][inner] == 1) return false;
    for (p->turn = 0; p->turn < inner; p->turn++)
        if (w->stride[IN][p->turn] == 1 && w->shape[p->turn] >= 8) return true;
    return false;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void run_tasks(um_cpu_exec *exec, int64_t task_count, bool serial, um_cpu_task_fn fn,
                      void *ctx)
{
    if (task_count > 1 && !serial)
        um_cpu_parallel(exec, task_count, fn, ctx);
    else
        for (int64_t task = 0; task < task_count; task++) fn(ctx, task, 0);
}

static void copy_view(um_cpu_exec *exec, const um_view *out, const um_view *in,
                      um_overflow overflow)
{
    int64_t bits = um_dtype_bits(out->dtype);
    copy_plan p = {.to = (char *)(uintptr_t)out->ptr, .from = (const char *)(uintptr_t)in->ptr};
    p.out_dtype = out->dtype;
    p.in_dtype = in->dtype;
    p.limit = um_limit_find(overflow, out->dtype, in->dtype);
    p.size = out->dtype == in->dtype ? bits / 8 : 0;
    UM_ISA_FN(um_walk_make)(&p.walk, 2, (const um_view *[]){out, in});
    p.streams = p.walk.total * p.size >= UM_STREAM_BYTES &&
                um_walk_inner(&p.walk) * p.size >= UM_STREAM_RUN_BYTES;
    if (!find_turn(&p)) {
        /* Two elements of fewer than 8 bits share a byte. */
        run_tasks(exec, um_ceil_div(p.walk.total, CHUNK), bits < 8, copy_task, &p);
        return;
    }
    int64_t bands = um_ceil_div(p.walk.shape[p.turn], TILE_IN), row = um_walk_inner(&p.walk);
    p.blocks = p.walk.total / (p.walk.shape[p.turn] * row) * bands;
    p.blocks_a_task = um_ceil_div(CHUNK, TILE_IN * row);
    run_tasks(exec, um_ceil_div(p.blocks, p.blocks_a_task), false, turn_task, &p);
}

um_status UM_ISA_FN(um_run_copy)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *out = &op->out[0], *in = &op->in[0];
    bool onto_itself = in->ptr == out->ptr && in->dtype == out->dtype;
    if (um_view_count(out) > 0 && !onto_itself) copy_view(exec, out, in, op->attrs.copy.overflow);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_fill)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *out = &op->out[0];
    if (um_view_count(out) == 0) return UM_OK;
    uint64_t element = 0;
    bool is_float = um_dtype_is_float(out->dtype);
    const void *value = is_float ? (const void *)&op->attrs.fill.f : &op->attrs.fill.i;
    um_store(out->dtype, &element, 0, 1, is_float ? UM_CLASS_F64 : UM_CLASS_I64, value, 1);
    um_view one = *out;
    one.ptr = (um_ptr)(uintptr_t)&element;
    for (int32_t axis = 0; axis < one.rank; axis++) one.stride[axis] = 0;
    copy_view(exec, out, &one, UM_OVERFLOW_CONVERT);
    return UM_OK;
}

/* A line of numbers: element i is start + i * step, and, of a linspace, the last is stop. */
typedef struct range {
    const um_view *out;
    bool is_float, ends;
    double start, step, stop, scale; /* by which start and step are too small */
    uint64_t i_start, i_step;
} range;

static range range_of(const um_op *op)
{
    range r = {.out = &op->out[0], .scale = 1, .is_float = um_dtype_is_float(op->out[0].dtype)};
    r.start = op->attrs.arange.start;
    r.step = op->attrs.arange.step;
    r.i_start = (uint64_t)op->attrs.arange.i_start;
    r.i_step = (uint64_t)op->attrs.arange.i_step;
    if (op->id != UM_OP_LINSPACE) return r;
    double gaps = (double)(r.out->shape[0] - 1);
    r.start = op->attrs.linspace.start;
    r.step = 0;
    if (gaps < 1) return r;
    r.ends = true;
    r.stop = op->attrs.linspace.stop;
    if (isinf(r.stop - r.start)) r.scale = 2;
    r.start /= r.scale;
    r.step = (r.stop / r.scale - r.start) / gaps;
    return r;
}

static void arange_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const range *r = ctx;
    const um_view *out = r->out;
    union {
        double f[PIECE];
        uint64_t i[PIECE];
    } values;
    int64_t first = task * CHUNK, last = UM_MIN(first + CHUNK, out->shape[0]);
    for (int64_t n; first < last; first += n) {
        n = UM_MIN(last - first, PIECE);
        for (int64_t k = 0; k < n && r->is_float; k++)
            values.f[k] = (r->start + (double)(first + k) * r->step) * r->scale;
        for (int64_t k = 0; k < n && !r->is_float; k++)
            values.i[k] = r->i_start + (uint64_t)(first + k) * r->i_step;
        if (r->ends && first + n == out->shape[0]) values.f[n - 1] = r->stop;
        um_store(out->dtype, (void *)(uintptr_t)out->ptr, first * out->stride[0], out->stride[0],
                 r->is_float ? UM_CLASS_F64 : UM_CLASS_I64, &values, n);
    }
}

/* arange and linspace */
um_status UM_ISA_FN(um_run_arange)(um_cpu_exec *exec, const um_op *op)
{
    range r = range_of(op);
    run_tasks(exec, um_ceil_div(op->out[0].shape[0], CHUNK), false, arange_task, &r);
    return UM_OK;
}
