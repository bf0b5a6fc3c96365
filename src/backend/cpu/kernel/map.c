/* backend/cpu/kernel/map.c: every elementwise op, single or fused, as a program (program.h) over
 * the whole output. A single op is a program of one instruction. */
#include "backend/cpu/kernel/program.h"
#include "backend/cpu/kernel/stream.h"

um_status UM_ISA_FN(um_run_map)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_program)(um_cpu_exec *exec, const um_op *op);

enum { CHUNK = 1 << 15 }; /* elements a task */

/* ---- plan ----------------------------------------------------------------------------------- */

/* Whether tiles can be made in the output itself: its values are those of the class. */
static bool is_direct(const um_map_plan *p, um_class class)
{
    const um_walk *walk = &p->program.walk;
    return um_program_has_rows(walk) && um_is_class_dtype(p->out.dtype) &&
           um_dtype_class(p->out.dtype) == class && um_walk_step(walk, 0) == 1;
}

/* Large results that are not written over an input, which would be in the cache. */
static bool should_stream(const um_map_plan *p, um_class class)
{
    const um_walk *walk = &p->program.walk;
    int64_t bytes = (int64_t)um_class_bytes(class);
    if (walk->total * bytes < UM_STREAM_BYTES) return false;
    if (um_walk_inner(walk) * bytes < UM_STREAM_RUN_BYTES) return false;
    for (int32_t i = 0; i < p->program.in_count; i++)
        if (p->program.data[i] == (const void *)(uintptr_t)p->out.ptr) return false;
    return true;
}

void UM_ISA_FN(um_map_finish)(um_map_plan *p)
{
    um_class class = um_dtype_class(p->program.dtype);
    bool direct = is_direct(p, class);
    p->streams = direct && should_stream(p, class);
    p->direct = direct && !p->streams;
    UM_ISA_FN(um_program_make)(&p->program, !p->direct);
}

void UM_ISA_FN(um_map_make)(um_map_plan *p, const um_map_program *program, const um_view *out,
                            int32_t in_count, const um_view *const *in)
{
    const um_view *views[1 + UM_MAP_MAX_INPUTS] = {out};
    p->out = *out;
    p->program.inst = program->inst;
    p->program.inst_count = program->inst_count;
    p->program.dtype = program->dtype;
    p->program.in_count = in_count;
    for (int32_t i = 0; i < in_count; i++) {
        views[i + 1] = in[i];
        p->program.data[i] = (const void *)(uintptr_t)in[i]->ptr;
        p->program.in_dtype[i] = in[i]->dtype;
    }
    UM_ISA_FN(um_walk_make)(&p->program.walk, in_count + 1, views);
    UM_ISA_FN(um_map_finish)(p);
}

/* ---- run ------------------------------------------------------------------------------------ */

static void store_tile(const um_map_plan *p, const void *values, um_walk_at *at, int64_t n)
{
    const um_walk *walk = &p->program.walk;
    char *to = (char *)(uintptr_t)p->out.ptr;
    int64_t bytes = (int64_t)um_class_bytes(p->program.class), axis = walk->rank - 1;
    if (p->streams) {
        um_stream_copy(to + at->element[0] * bytes, values, (size_t)(n * bytes));
        return;
    }
    for (int64_t done = 0, run; done < n; done += run) {
        run = UM_MIN(n - done, walk->shape[axis] - at->index[axis]);
        um_store(p->out.dtype, to, at->element[0], um_walk_step(walk, 0), p->program.class,
                 (const char *)values + done * bytes, run);
        um_walk_advance(walk, at, run);
    }
}

void UM_ISA_FN(um_map_range)(const um_map_plan *p, int64_t first, int64_t end)
{
    const um_program *program = &p->program;
    _Alignas(64) uint8_t slots[UM_SLOT_BYTES];
    int64_t bytes = (int64_t)um_class_bytes(program->class);
    um_walk_at at;
    UM_ISA_FN(um_program_begin)(program, slots, end - first);
    UM_ISA_FN(um_walk_seek)(&program->walk, first, &at);
    for (int64_t n; first < end; first += n) {
        um_walk_at start = at;
        n = um_program_most(program, &at, end - first);
        char *to = p->direct ? (char *)(uintptr_t)p->out.ptr + at.element[0] * bytes : NULL;
        const void *values = UM_ISA_FN(um_program_tile)(program, slots, &at, n, to);
        if (!p->direct) store_tile(p, values, &start, n);
    }
    if (p->streams) um_stream_end();
}

static void run_task(void *ctx, int64_t task, int32_t worker)
{
    (void)worker;
    const um_map_plan *p = ctx;
    int64_t first = task * CHUNK;
    UM_ISA_FN(um_map_range)(p, first, UM_MIN(first + CHUNK, p->program.walk.total));
}

/* The plan is not cleared: that would take longer than a small op. */
static um_status run(um_cpu_exec *exec, const um_op *op, const um_map_program *program)
{
    um_map_plan plan;
    const um_view *in[UM_MAP_MAX_INPUTS];
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    for (int32_t i = 0; i < op->in_count; i++) in[i] = &op->in[i];
    UM_ISA_FN(um_map_make)(&plan, program, &op->out[0], op->in_count, in);
    int64_t task_count = um_ceil_div(plan.program.walk.total, CHUNK);
    if (task_count == 1 || um_dtype_bits(op->out[0].dtype) < 8) /* two elements share a byte */
        for (int64_t task = 0; task < task_count; task++) run_task(&plan, task, 0);
    else
        um_cpu_parallel(exec, task_count, run_task, &plan);
    return UM_OK;
}

um_status UM_ISA_FN(um_run_map)(um_cpu_exec *exec, const um_op *op)
{
    um_map_program program; /* the rest of it stays unset */
    program.dtype = op->in[um_op_main_input(op->id)].dtype;
    program.inst_count = 1;
    program.inst[0] =
        (um_map_inst){.op = (uint16_t)op->id, .src = {0, 1, 2}, .value = op->attrs.map.a};
    return run(exec, op, &program);
}

um_status UM_ISA_FN(um_run_program)(um_cpu_exec *exec, const um_op *op)
{
    return run(exec, op, op->attrs.program);
}
