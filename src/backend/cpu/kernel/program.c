/* backend/cpu/kernel/program.c: see program.h. */
#include "backend/cpu/kernel/program.h"

enum {
    TILE_MAX = 8192, /* elements */
    PIECE = 64,
    DIRECT = -1 /* instead of a slot: the tensor's own memory, or where the caller says */
};

/* ---- plan ----------------------------------------------------------------------------------- */

/* Whether tiles can use the input's memory as it is. */
static bool is_direct(const um_program *p, int32_t input)
{
    return p->rows && p->in_dtype[input] == p->dtype && um_is_class_dtype(p->dtype) &&
           um_walk_step(&p->walk, input + 1) == 1;
}

static bool is_one_value(const um_walk *w, int32_t view)
{
    for (int32_t axis = 0; axis < w->rank; axis++)
        if (w->stride[view][axis] != 0) return false;
    return true;
}

static int8_t take_slot(um_program *p, uint32_t *taken)
{
    int8_t slot = 0;
    while (*taken >> slot & 1) slot++;
    *taken |= 1u << slot;
    p->slot_count = UM_MAX(p->slot_count, slot + 1);
    return slot;
}

static void find_last_uses(const um_program *p, int32_t *last_use)
{
    int32_t in_count = p->in_count;
    for (int32_t v = 0; v < in_count; v++) last_use[v] = 0;
    for (int32_t i = 0; i < p->inst_count; i++) {
        last_use[in_count + i] = i;
        for (int32_t k = 0; k < p->arity[i]; k++) last_use[p->inst[i].src[k]] = i;
    }
}

static void release_slots(const um_program *p, const int32_t *last_use, int32_t inst,
                          uint32_t *taken)
{
    for (int32_t v = 0; v <= p->in_count + inst; v++)
        if (last_use[v] == inst && p->slot[v] != DIRECT && !p->constant[v])
            *taken &= ~(1u << p->slot[v]);
}

/* A slot for each value that needs one; slots of values that nobody will read again are used again.
 */
static void assign_slots(um_program *p, bool to_slot)
{
    int32_t in_count = p->in_count, last_use[UM_PROGRAM_VALUES];
    uint32_t taken = 0;
    find_last_uses(p, last_use);
    for (int32_t i = 0; i < p->inst_count; i++) {
        p->constant[in_count + i] = p->inst[i].op == UM_OP_FILL;
        if (p->constant[in_count + i]) p->slot[in_count + i] = take_slot(p, &taken);
    }
    for (int32_t v = 0; v < in_count; v++) {
        p->constant[v] = is_one_value(&p->walk, v + 1) && p->walk.total > 1;
        bool direct = !p->constant[v] && is_direct(p, v);
        p->slot[v] = direct ? DIRECT : take_slot(p, &taken);
    }
    for (int32_t i = 0; i < p->inst_count; i++) {
        int32_t v = in_count + i;
        bool last = i == p->inst_count - 1;
        if (i > 0) release_slots(p, last_use, i - 1, &taken);
        if (p->constant[v]) continue;
        p->slot[v] = last && !to_slot ? DIRECT : take_slot(p, &taken);
    }
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

void UM_ISA_FN(um_program_make)(um_program *p, bool to_slot)
{
    for (int32_t i = 0; i < p->inst_count; i++)
        p->arity[i] =
            p->inst[i].op == UM_OP_FILL ? 0 : (int8_t)um_op_get_row(p->inst[i].op)->in_max;
    p->class = um_dtype_class(p->dtype);
    p->loop = class_loop(p->class);
    p->rows = um_program_has_rows(&p->walk);
    p->slot_count = 0;
    assign_slots(p, to_slot);
    p->tile = TILE_MAX;
    if (p->slot_count > 0)
        p->tile = UM_SLOT_BYTES / (p->slot_count * (int64_t)um_class_bytes(p->class)) / 16 * 16;
}

/* ---- run ------------------------------------------------------------------------------------ */

/* n elements of input i, as values of the program's dtype. A dtype that is no class of its own,
 * other than bool's 0 and 1, needs the step through it: f32 1e9 into an i16 program is 32767, not
 * what wrapping would make of it. */
static void load_input(const um_program *p, int32_t i, void *dst, int64_t first, int64_t n)
{
    um_dtype dtype = p->in_dtype[i];
    int64_t step = um_walk_step(&p->walk, i + 1);
    const void *from = p->data[i];
    if (dtype == p->dtype || dtype == UM_BOOL || um_is_class_dtype(p->dtype)) {
        um_load(p->class, dst, dtype, from, first, step, n);
        return;
    }
    int64_t own[PIECE], converted[PIECE];
    char *to = dst;
    for (int64_t done = 0, m; done < n; done += m) {
        m = UM_MIN(n - done, PIECE);
        um_class class = um_dtype_class(dtype);
        um_load(class, own, dtype, from, first + done * step, step, m);
        um_store(p->dtype, converted, 0, 1, class, own, m);
        um_load(p->class, to + done * (int64_t)um_class_bytes(p->class), p->dtype, converted, 0, 1,
                m);
    }
}

static void *slot_memory(const um_program *p, void *slots, int32_t value)
{
    return (char *)slots + (size_t)(p->slot[value] * p->tile) * um_class_bytes(p->class);
}

void UM_ISA_FN(um_program_begin)(const um_program *p, void *slots, int64_t n)
{
    int32_t in_count = p->in_count;
    n = UM_MIN(n, p->tile);
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
static void load_tile(const um_program *p, void *slots, um_walk_at *at, int64_t n)
{
    int64_t bytes = (int64_t)um_class_bytes(p->class), axis = p->walk.rank - 1;
    for (int64_t done = 0, run; done < n; done += run) {
        run = UM_MIN(n - done, p->walk.shape[axis] - at->index[axis]);
        for (int32_t v = 0; v < p->in_count; v++)
            if (p->slot[v] != DIRECT && !p->constant[v])
                load_input(p, v, (char *)slot_memory(p, slots, v) + done * bytes,
                           at->element[v + 1], run);
        um_walk_advance(&p->walk, at, run);
    }
}

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

const void *UM_ISA_FN(um_program_tile)(const um_program *p, void *slots, um_walk_at *at, int64_t n,
                                       void *to)
{
    const void *values[UM_PROGRAM_VALUES];
    int32_t in_count = p->in_count, value = in_count;
    int64_t bytes = (int64_t)um_class_bytes(p->class);
    for (int32_t v = 0; v < in_count; v++)
        values[v] = p->slot[v] != DIRECT ? slot_memory(p, slots, v)
                                         : (const char *)p->data[v] + at->element[v + 1] * bytes;
    load_tile(p, slots, at, n);
    for (int32_t i = 0; i < p->inst_count; i++, value++) {
        const um_map_inst *inst = &p->inst[i];
        void *dst = p->slot[value] != DIRECT ? slot_memory(p, slots, value) : to;
        values[value] = dst;
        if (p->constant[value]) continue;
        const void *src[3] = {NULL, NULL, NULL};
        for (int32_t k = 0; k < p->arity[i]; k++) src[k] = values[inst->src[k]];
        p->loop(inst->op, dst, src, inst->value, n);
        if (p->class == UM_CLASS_I64) wrap(p->dtype, dst, n);
    }
    if (to && values[value - 1] != to) /* a constant */
        return memcpy(to, values[value - 1], (size_t)(n * bytes));
    return values[value - 1];
}
