/* backend/cpu/kernel/map.c: every elementwise op, single or fused. A single op is a program of one
 * instruction. A program runs over tiles small enough that all its values stay in L1: inputs that
 * are not packed values of the program's class are converted into slots, each instruction is one
 * loop over the tile (map_loops.h), and the last value is converted out, or written by its
 * instruction where the output is packed. */
#include "backend/cpu/kernel/map_loops.h"
#include "backend/cpu/kernel/stream.h"
#include "backend/cpu/kernel/walk.h"

um_status UM_ISA_FN(um_run_map)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_program)(um_cpu_exec *exec, const um_op *op);

enum {
    CHUNK = 1 << 15,    /* elements a task */
    SLOT_BYTES = 24576, /* all slots together */
    TILE_MAX = 8192,    /* elements */
    ROW_MIN = 64,       /* shorter rows share tiles */
    PIECE = 64,
    VALUE_MAX = UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS,
    DIRECT = -1 /* instead of a slot: the tensor's own memory */
};

typedef struct map_plan {
    const um_op *op;
    const um_map_inst *inst;
    int32_t inst_count;
    um_dtype dtype;
    um_class class;
    um_map_loop loop;
    um_walk walk; /* view 0 is the output, then the inputs */
    bool rows;    /* no tile goes beyond a row of the walk */
    bool streams;
    int32_t slot_count;
    int64_t tile;
    int8_t arity[UM_MAP_MAX_INSTS];
    int8_t slot[VALUE_MAX];
    bool constant[VALUE_MAX]; /* the same for all elements: filled once a task */
} map_plan;

/* ---- plan ----------------------------------------------------------------------------------- */

static bool is_class_dtype(um_dtype dtype)
{
    return dtype == UM_F32 || dtype == UM_F64 || dtype == UM_I64 || dtype == UM_U64;
}

/* Whether tiles can use the view's memory as it is. */
static bool is_direct(const map_plan *p, const um_view *view, int32_t index)
{
    return p->rows && view->dtype == p->dtype && is_class_dtype(p->dtype) &&
           um_walk_step(&p->walk, index) == 1;
}

static bool is_one_value(const um_walk *w, int32_t view)
{
    for (int32_t axis = 0; axis < w->rank; axis++)
        if (w->stride[view][axis] != 0) return false;
    return true;
}

static int8_t take_slot(map_plan *p, uint32_t *taken)
{
    int8_t slot = 0;
    while (*taken >> slot & 1) slot++;
    *taken |= 1u << slot;
    p->slot_count = UM_MAX(p->slot_count, slot + 1);
    return slot;
}

static void find_last_uses(const map_plan *p, int32_t *last_use)
{
    int32_t in_count = p->op->in_count;
    for (int32_t v = 0; v < in_count; v++) last_use[v] = 0;
    for (int32_t i = 0; i < p->inst_count; i++) {
        last_use[in_count + i] = i;
        for (int32_t k = 0; k < p->arity[i]; k++) last_use[p->inst[i].src[k]] = i;
    }
}

static void release_slots(const map_plan *p, const int32_t *last_use, int32_t inst, uint32_t *taken)
{
    for (int32_t v = 0; v <= p->op->in_count + inst; v++)
        if (last_use[v] == inst && p->slot[v] != DIRECT && !p->constant[v])
            *taken &= ~(1u << p->slot[v]);
}

/* A slot for each value that needs one; slots of values that nobody will read again are used again.
 */
static void assign_slots(map_plan *p)
{
    int32_t in_count = p->op->in_count, last_use[VALUE_MAX];
    uint32_t taken = 0;
    find_last_uses(p, last_use);
    for (int32_t i = 0; i < p->inst_count; i++) {
        p->constant[in_count + i] = p->inst[i].op == UM_OP_FILL;
        if (p->constant[in_count + i]) p->slot[in_count + i] = take_slot(p, &taken);
    }
    for (int32_t v = 0; v < in_count; v++) {
        p->constant[v] = is_one_value(&p->walk, v + 1) && p->walk.total > 1;
        bool direct = !p->constant[v] && is_direct(p, &p->op->in[v], v + 1);
        p->slot[v] = direct ? DIRECT : take_slot(p, &taken);
    }
    for (int32_t i = 0; i < p->inst_count; i++) {
        int32_t v = in_count + i;
        bool last = i == p->inst_count - 1;
        if (i > 0) release_slots(p, last_use, i - 1, &taken);
        if (p->constant[v]) continue;
        bool direct = last && !p->streams && is_direct(p, &p->op->out[0], 0);
        p->slot[v] = direct ? DIRECT : take_slot(p, &taken);
    }
}

/* Large results that are not written over an input, which would be in the cache. */
static bool should_stream(const map_plan *p)
{
    const um_op *op = p->op;
    if (!is_direct(p, &op->out[0], 0)) return false;
    int64_t bytes = (int64_t)um_class_bytes(p->class);
    if (p->walk.total * bytes < UM_STREAM_BYTES) return false;
    if (um_walk_inner(&p->walk) * bytes < UM_STREAM_RUN_BYTES) return false;
    for (int32_t i = 0; i < op->in_count; i++)
        if (op->in[i].ptr == op->out[0].ptr) return false;
    return true;
}

static um_map_loop class_loop(um_class class)
{
    switch (class) {
    case UM_CLASS_F32: return UM_ISA_FN(um_map_f32);
    case UM_CLASS_F64: return UM_ISA_FN(um_map_f64);
    case UM_CLASS_I64: return UM_ISA_FN(um_map_i64);
    case UM_CLASS_U64: return UM_ISA_FN(um_map_u64);
    }
    return NULL;
}

static void make_plan(map_plan *p, const um_op *op, const um_map_inst *inst, int32_t inst_count,
                      um_dtype dtype)
{
    p->op = op;
    p->inst = inst;
    p->inst_count = inst_count;
    p->dtype = dtype;
    for (int32_t i = 0; i < inst_count; i++)
        p->arity[i] = inst[i].op == UM_OP_FILL ? 0 : (int8_t)um_op_get_row(inst[i].op)->in_max;
    const um_view *views[UM_WALK_MAX] = {&p->op->out[0]};
    for (int32_t i = 0; i < p->op->in_count; i++) views[i + 1] = &p->op->in[i];
    UM_ISA_FN(um_walk_make)(&p->walk, p->op->in_count + 1, views);
    p->class = um_dtype_class(p->dtype);
    p->loop = class_loop(p->class);
    p->rows = p->walk.rank == 1 || um_walk_inner(&p->walk) >= ROW_MIN;
    p->streams = should_stream(p);
    p->slot_count = 0;
    assign_slots(p);
    p->tile = TILE_MAX;
    if (p->slot_count > 0)
        p->tile = SLOT_BYTES / (p->slot_count * (int64_t)um_class_bytes(p->class)) / 16 * 16;
}

/* ---- in and out ----------------------------------------------------------------------------- */

/* n elements of input i, as values of the program's dtype. A dtype that is no class of its own,
 * other than bool's 0 and 1, needs the step through it: f32 1e9 into an i16 program is 32767, not
 * what wrapping would make of it. */
static void load_input(const map_plan *p, int32_t i, void *dst, int64_t first, int64_t n)
{
    const um_view *x = &p->op->in[i];
    int64_t step = um_walk_step(&p->walk, i + 1);
    const void *from = (const void *)(uintptr_t)x->ptr;
    if (x->dtype == p->dtype || x->dtype == UM_BOOL || is_class_dtype(p->dtype)) {
        um_load(p->class, dst, x->dtype, from, first, step, n);
        return;
    }
    int64_t own[PIECE], converted[PIECE];
    char *to = dst;
    for (int64_t done = 0, m; done < n; done += m) {
        m = UM_MIN(n - done, PIECE);
        um_class class = um_dtype_class(x->dtype);
        um_load(class, own, x->dtype, from, first + done * step, step, m);
        um_store(p->dtype, converted, 0, 1, class, own, m);
        um_load(p->class, to + done * (int64_t)um_class_bytes(p->class), p->dtype, converted, 0, 1,
                m);
    }
}

static void *slot_memory(const map_plan *p, uint8_t *slots, int32_t value)
{
    return slots + (size_t)(p->slot[value] * p->tile) * um_class_bytes(p->class);
}

static void fill_constants(const map_plan *p, uint8_t *slots, int64_t n)
{
    int32_t in_count = p->op->in_count;
    for (int32_t v = 0; v < in_count; v++)
        if (p->constant[v]) load_input(p, v, slot_memory(p, slots, v), 0, n);
    for (int32_t i = 0; i < p->inst_count; i++) {
        if (!p->constant[in_count + i]) continue;
        uint64_t one = 0;
        um_store(p->dtype, &one, 0, 1, UM_CLASS_F64, &p->inst[i].value, 1);
        um_load(p->class, slot_memory(p, slots, in_count + i), p->dtype, &one, 0, 0, n);
    }
}

/* The tile's inputs into their slots; moves `at` past the tile. */
static void load_tile(const map_plan *p, uint8_t *slots, um_walk_at *at, int64_t n)
{
    int64_t bytes = (int64_t)um_class_bytes(p->class), axis = p->walk.rank - 1;
    for (int64_t done = 0, run; done < n; done += run) {
        run = UM_MIN(n - done, p->walk.shape[axis] - at->index[axis]);
        for (int32_t v = 0; v < p->op->in_count; v++)
            if (p->slot[v] != DIRECT && !p->constant[v])
                load_input(p, v, (char *)slot_memory(p, slots, v) + done * bytes,
                           at->element[v + 1], run);
        um_walk_advance(&p->walk, at, run);
    }
}

static void store_tile(const map_plan *p, const void *values, um_walk_at *at, int64_t n)
{
    const um_view *out = &p->op->out[0];
    char *to = (char *)(uintptr_t)out->ptr;
    int64_t bytes = (int64_t)um_class_bytes(p->class), axis = p->walk.rank - 1;
    if (p->streams) {
        um_stream_copy(to + at->element[0] * bytes, values, (size_t)(n * bytes));
        return;
    }
    for (int64_t done = 0, run; done < n; done += run) {
        run = UM_MIN(n - done, p->walk.shape[axis] - at->index[axis]);
        um_store(out->dtype, to, at->element[0], um_walk_step(&p->walk, 0), p->class,
                 (const char *)values + done * bytes, run);
        um_walk_advance(&p->walk, at, run);
    }
}

/* ---- run ------------------------------------------------------------------------------------ */

/* Integer values are kept in 64 bits; this gives them the value they have in their dtype. */
static void wrap(um_dtype dtype, int64_t *x, int64_t n)
{
    switch (dtype) {
    case UM_I8:
        for (int64_t i = 0; i < n; i++) x[i] = (int8_t)x[i];
        return;
    case UM_I16:
        for (int64_t i = 0; i < n; i++) x[i] = (int16_t)x[i];
        return;
    case UM_I32:
        for (int64_t i = 0; i < n; i++) x[i] = (int32_t)x[i];
        return;
    case UM_U8:
        for (int64_t i = 0; i < n; i++) x[i] &= 0xff;
        return;
    case UM_U16:
        for (int64_t i = 0; i < n; i++) x[i] &= 0xffff;
        return;
    case UM_U32:
        for (int64_t i = 0; i < n; i++) x[i] &= 0xffffffff;
        return;
    case UM_BOOL:
        for (int64_t i = 0; i < n; i++) x[i] &= 1;
        return;
    default: return;
    }
}

static void run_tile(const map_plan *p, uint8_t *slots, um_walk_at *at, int64_t n)
{
    int32_t in_count = p->op->in_count, value = in_count;
    size_t bytes = um_class_bytes(p->class);
    um_walk_at start = *at;
    load_tile(p, slots, at, n);
    const void *values[VALUE_MAX];
    for (int32_t v = 0; v < in_count; v++)
        values[v] = p->slot[v] != DIRECT ? slot_memory(p, slots, v)
                                         : (const char *)(uintptr_t)p->op->in[v].ptr +
                                               start.element[v + 1] * (int64_t)bytes;
    for (int32_t i = 0; i < p->inst_count; i++, value++) {
        const um_map_inst *inst = &p->inst[i];
        void *dst = p->slot[value] != DIRECT
                        ? slot_memory(p, slots, value)
                        : (char *)(uintptr_t)p->op->out[0].ptr + start.element[0] * (int64_t)bytes;
        values[value] = dst;
        if (p->constant[value]) continue;
        const void *src[3] = {NULL, NULL, NULL};
        for (int32_t k = 0; k < p->arity[i]; k++) src[k] = values[inst->src[k]];
        p->loop(inst->op, dst, src, inst->value, n);
        if (p->class == UM_CLASS_I64) wrap(p->dtype, dst, n);
    }
    if (p->slot[value - 1] != DIRECT) store_tile(p, values[value - 1], &start, n);
}

static void run_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const map_plan *p = ctx;
    _Alignas(64) uint8_t slots[SLOT_BYTES];
    int64_t first = task * CHUNK, last = UM_MIN(first + CHUNK, p->walk.total);
    fill_constants(p, slots, UM_MIN(p->tile, last - first));
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&p->walk, first, &at);
    for (int64_t n; first < last; first += n) {
        n = UM_MIN(p->tile, last - first);
        if (p->rows) n = UM_MIN(n, um_walk_inner(&p->walk) - at.index[p->walk.rank - 1]);
        run_tile(p, slots, &at, n);
    }
    if (p->streams) um_stream_end();
}

/* The plan is not cleared: that would take longer than a small op. */
static um_status run_insts(um_cpu_exec *exec, const um_op *op, const um_map_inst *inst,
                           int32_t inst_count, um_dtype dtype)
{
    map_plan plan;
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    make_plan(&plan, op, inst, inst_count, dtype);
    int64_t task_count = um_ceil_div(plan.walk.total, CHUNK);
    if (task_count == 1 || um_dtype_bits(op->out[0].dtype) < 8) /* two elements share a byte */
        for (int64_t task = 0; task < task_count; task++) run_task(&plan, task, 0);
    else
        um_cpu_parallel(exec, task_count, run_task, &plan);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_map)(um_cpu_exec *exec, const um_op *op)
{
    um_map_inst inst = {.op = (uint16_t)op->id, .src = {0, 1, 2}, .value = op->attrs.map.a};
    return run_insts(exec, op, &inst, 1, op->in[um_op_main_input(op->id)].dtype);
}

um_status UM_ISA_FN(um_run_program)(um_cpu_exec *exec, const um_op *op)
{
    const um_map_program *program = op->attrs.program;
    return run_insts(exec, op, program->inst, program->inst_count, program->dtype);
}
