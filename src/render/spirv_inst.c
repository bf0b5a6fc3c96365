/* render/spirv_inst.c: the instructions of a kernel in SPIR-V. A vector value is as many scalar
 * ones, as in cstyle.c. */
#include "render/spirv.h"

#include <stdio.h>

/* ---- opcodes by the class of the first operand ---------------------------------------------- */

/* By kind. */
static const uint16_t rows[SETS][UM_KOP_LIMIT][5] = {
#define UM_SPV_ROW(set, key, f, s, u, b) [set][key] = {0, f, s, u, b},
#include "render/spirv.def"
};

uint32_t um_spirv_row(um_spirv_set set, uint64_t key, um_dtype dtype)
{
    return rows[set][key][um_dtype_get_kind(dtype)];
}

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t um_spirv_operand(um_spirv *s, um_val v, int32_t lane)
{
    const um_kinst *inst = &s->k->inst[v];
    if (inst->op == UM_KOP_CONST) return um_spirv_constant(s, inst->type.dtype, inst->imm);
    if (inst->op == UM_KOP_SCALAR) return s->scalar[inst->imm];
    return s->value[v] + (inst->type.lanes > 1 ? (uint32_t)lane : 0);
}

static uint32_t type_of(um_spirv *s, um_val v)
{
    return um_spirv_type(s, um_val_type(s->k, v).dtype);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t memory_of(const um_kinst *inst) { return (int64_t)(inst->imm & UINT32_MAX) - 1; }

uint32_t um_spirv_element(um_spirv *s, int64_t m, uint32_t index)
{
    uint32_t memory = s->memory[m], type = s->pointer[m];
    if (s->k->mem[m].space != UM_SPACE_BUFFER)
        return UM_SPIRV_TYPED(s, OP_ACCESS_CHAIN, type, memory, index);
    if (s->is_kernel) {
        index = UM_SPIRV_NEW(s, OP_UCONVERT, UM_U64, index);
        return UM_SPIRV_TYPED(s, OP_PTR_ACCESS_CHAIN, type, memory, index);
    }
    if (s->base[m]) index = UM_SPIRV_NEW(s, OP_IADD, UM_U32, index, s->base[m]);
    uint32_t id = um_spirv_id(s), zero = um_spirv_u32(s, 0);
    UM_SPIRV(&s->body, OP_ACCESS_CHAIN, type, id, memory, zero, index);
    return id;
}

/* A pointer to element index + lane. */
static uint32_t element(um_spirv *s, const um_kinst *inst, int32_t lane)
{
    uint32_t index = um_spirv_operand(s, inst->arg[0], 0);
    if (lane > 0) index = UM_SPIRV_NEW(s, OP_IADD, UM_U32, index, um_spirv_u32(s, (uint64_t)lane));
    return um_spirv_element(s, memory_of(inst), index);
}

static uint32_t load_lane(um_spirv *s, um_val v, int32_t lane)
{
    const um_kinst *inst = &s->k->inst[v];
    return um_spirv_load(s, memory_of(inst), inst->type.dtype, element(s, inst, lane));
}

/* ---- what one opcode does not say ------------------------------------------------------------ */

/* Of an integer. */
static uint32_t absolute(um_spirv *s, um_dtype dtype, uint32_t a)
{
    if (um_dtype_get_kind(dtype) == UM_KIND_UINT) return UM_SPIRV_NEW(s, OP_COPY, dtype, a);
    uint32_t zero = um_spirv_constant(s, dtype, 0);
    uint32_t below = UM_SPIRV_NEW(s, OP_SLESS, UM_BOOL, a, zero);
    return UM_SPIRV_NEW(s, OP_SELECT, dtype, below, UM_SPIRV_NEW(s, OP_SNEGATE, dtype, a), a);
}

/* Vulkan's: the upper of two halves. */
static uint32_t mul_high(um_spirv *s, um_dtype dtype, uint32_t a, uint32_t b)
{
    uint32_t type = um_spirv_type(s, dtype), pair = UM_SPIRV_DECLARE(s, OP_TYPE_STRUCT, type, type);
    uint32_t both = UM_SPIRV_TYPED(s, um_spirv_row(CORE, UM_KOP_MUL_HIGH, dtype), pair, a, b);
    return UM_SPIRV_NEW(s, OP_EXTRACT, dtype, both, 1);
}

/* Vulkan's: by the place of the highest bit, -1 of 0. */
static uint32_t clz(um_spirv *s, um_dtype dtype, uint32_t a)
{
    uint32_t top = UM_SPIRV_NEW(s, OP_EXT, dtype, ID_EXT_SET, GLSL_FIND_UMSB, a);
    return UM_SPIRV_NEW(s, OP_ISUB, dtype, um_spirv_constant(s, dtype, 31), top);
}

static uint32_t convert(um_spirv *s, um_dtype from, um_dtype to, uint32_t a)
{
    um_dtype_kind source = um_dtype_get_kind(from), kind = um_dtype_get_kind(to);
    uint32_t opcode = um_spirv_row(CONVERT, kind, from);
    if (to == from) return UM_SPIRV_NEW(s, OP_COPY, to, a);
    if (to == UM_BOOL) return UM_SPIRV_NEW(s, opcode, to, a, um_spirv_constant(s, from, 0));
    if (from == UM_BOOL) {
        uint64_t one = 0;
        um_lanes_convert(to, &one, UM_BOOL, &(bool){true}, 1);
        uint32_t no = um_spirv_constant(s, to, 0), yes = um_spirv_constant(s, to, one);
        return UM_SPIRV_NEW(s, OP_SELECT, to, a, yes, no);
    }
    if (um_dtype_is_int(from) && um_dtype_is_int(to) && um_dtype_bits(from) == um_dtype_bits(to))
        return UM_SPIRV_NEW(s, s->is_kernel ? OP_COPY : OP_BITCAST, to, a);
    if (source == UM_KIND_UINT && kind == UM_KIND_INT && !s->is_kernel)
        return UM_SPIRV_NEW(s, OP_BITCAST, to, UM_SPIRV_NEW(s, opcode, to + (UM_U8 - UM_I8), a));
    return UM_SPIRV_NEW(s, opcode, to, a);
}

static uint32_t bitcast(um_spirv *s, um_dtype from, um_dtype to, uint32_t a)
{
    bool same = um_spirv_type(s, from) == um_spirv_type(s, to);
    return UM_SPIRV_NEW(s, same ? OP_COPY : OP_BITCAST, to, a);
}

/* ---- values by opcode ------------------------------------------------------------------------ */

/* An opcode of the tables. */
static uint32_t from_table(um_spirv *s, um_val v, um_dtype operands, um_dtype result,
                           const uint32_t *a)
{
    const um_kinst *inst = &s->k->inst[v];
    uint32_t opcode = um_spirv_row(CORE, inst->op, operands);
    uint32_t number = um_spirv_row(s->is_kernel ? OPENCL : GLSL, inst->op, operands);
    uint32_t id = um_spirv_id(s), words[8] = {um_spirv_type(s, result), id, ID_EXT_SET, number};
    int32_t arity = um_kinst_arity(inst), count = number ? 4 : 2;
    if (number) opcode = OP_EXT;
    memcpy(words + count, a, (size_t)arity * sizeof *a);
    count += arity;
    if (opcode == OP_LOGICAL_NOT && s->is_kernel) { /* IGC 1.0.12504 dies of some of them */
        opcode = OP_LOGICAL_NOT_EQUAL;
        words[count++] = um_spirv_constant(s, UM_BOOL, 1);
    }
    um_spirv_put(&s->body, opcode, count, words);
    if (!s->is_kernel && opcode >= OP_FNEGATE && opcode <= OP_FDIV && um_dtype_is_float(operands))
        UM_SPIRV(&s->decorations, OP_DECORATE, id, NO_CONTRACTION);
    if (opcode) return id;
    char what[64];
    snprintf(what, sizeof what, "%s of %s", um_kop_rows[inst->op].name, um_dtype_name(operands));
    um_spirv_lacks(s, what);
    return id;
}

/* a: the operands in that lane. */
static uint32_t lane_value(um_spirv *s, um_val v, int32_t lane, uint32_t *a)
{
    const um_kinst *inst = &s->k->inst[v];
    um_dtype result = inst->type.dtype;
    um_ktype first = um_kinst_arity(inst) > 0 ? um_val_type(s->k, inst->arg[0]) : inst->type;
    if (inst->op >= UM_KOP_GROUP_ID && inst->op <= UM_KOP_SUBGROUP_LANE)
        return um_spirv_builtin(s, inst->op, (uint32_t)inst->imm);
    switch (inst->op) {
    case UM_KOP_ABS:
        if (um_dtype_is_float(result)) break;
        return absolute(s, result, a[0]);
    case UM_KOP_MUL_HIGH:
        if (s->is_kernel) break;
        return mul_high(s, result, a[0], a[1]);
    case UM_KOP_CLZ:
        if (s->is_kernel) break;
        return clz(s, result, a[0]);
    case UM_KOP_SHL:
    case UM_KOP_SHR: { /* modulo the bits of the type */
        uint32_t mask = um_spirv_constant(s, result, (uint64_t)um_dtype_bits(result) - 1);
        a[1] = UM_SPIRV_NEW(s, OP_BITWISE_AND, result, a[1], mask);
        break;
    }
    case UM_KOP_CONVERT: return convert(s, first.dtype, result, a[0]);
    case UM_KOP_BITCAST:
        if (first.lanes != inst->type.lanes) break;
        return bitcast(s, first.dtype, result, a[0]);
    case UM_KOP_SPLAT: return a[0];
    case UM_KOP_VECTOR: return a[lane];
    case UM_KOP_EXTRACT: return um_spirv_operand(s, inst->arg[0], (int32_t)inst->imm);
    case UM_KOP_LOAD:
    case UM_KOP_LOAD_UNIFORM: return load_lane(s, v, lane);
    default: break;
    }
    return from_table(s, v, first.dtype, result, a);
}

static void walk_value(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    for (int32_t lane = 0; lane < inst->type.lanes && s->status == UM_OK; lane++) {
        uint32_t a[4];
        for (int32_t i = 0; i < um_kinst_arity(inst); i++)
            a[i] = um_spirv_operand(s, inst->arg[i], lane);
        uint32_t id = lane_value(s, v, lane, a);
        UM_SPIRV(&s->body, OP_COPY, type_of(s, v), s->value[v] + (uint32_t)lane, id);
    }
}

static void store_lanes(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    int32_t lanes = um_val_type(s->k, inst->arg[1]).lanes;
    for (int32_t lane = 0; lane < lanes; lane++) {
        uint32_t at = element(s, inst, lane);
        um_spirv_store(s, memory_of(inst), at, um_spirv_operand(s, inst->arg[1], lane));
    }
}

static void open_block(um_spirv *s, uint32_t label)
{
    UM_SPIRV(&s->body, OP_LABEL, label);
    s->block = label;
}

/* Ends the block by going to `label`; what follows is in the block `next`. */
static void branch(um_spirv *s, uint32_t label, uint32_t next)
{
    UM_SPIRV(&s->body, OP_BRANCH, label);
    open_block(s, next);
}

static void branch_if(um_spirv *s, uint32_t condition, uint32_t then, uint32_t other,
                      uint32_t merge)
{
    UM_SPIRV(&s->body, OP_SELECTION_MERGE, merge, 0);
    UM_SPIRV(&s->body, OP_BRANCH_CONDITIONAL, condition, then, other);
    open_block(s, then);
}

/* Opens a block that runs where the condition holds; gives the label behind it. */
static uint32_t begin_if(um_spirv *s, uint32_t condition)
{
    uint32_t then = um_spirv_id(s), merge = um_spirv_id(s);
    branch_if(s, condition, then, merge, merge);
    return merge;
}

static void walk_load_if(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    uint32_t before = s->block, loaded[4];
    uint32_t merge = begin_if(s, um_spirv_operand(s, inst->arg[1], 0));
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) loaded[lane] = load_lane(s, v, lane);
    uint32_t inside = s->block;
    branch(s, merge, merge);
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) {
        uint32_t id = s->value[v] + (uint32_t)lane;
        UM_SPIRV(&s->body, OP_PHI, type_of(s, v), id, loaded[lane], inside,
                 um_spirv_operand(s, inst->arg[2], lane), before);
    }
}

static void walk_variable(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    int64_t m = memory_of(inst);
    for (int32_t lane = 0; lane < s->k->mem[m].type.lanes; lane++) {
        uint32_t at = s->memory[m] + (uint32_t)lane;
        if (inst->op == UM_KOP_GET)
            UM_SPIRV(&s->body, OP_LOAD, type_of(s, v), s->value[v] + (uint32_t)lane, at);
        else
            UM_SPIRV(&s->body, OP_STORE, at, um_spirv_operand(s, inst->arg[0], lane));
    }
}

static void walk_atomic(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    bool shared = s->k->mem[memory_of(inst)].space == UM_SPACE_SHARED;
    uint32_t scope = um_spirv_u32(s, shared ? SCOPE_WORKGROUP : SCOPE_DEVICE);
    uint32_t relaxed = um_spirv_u32(s, 0), at = element(s, inst, 0), type = type_of(s, v);
    uint32_t b = um_spirv_operand(s, inst->arg[1], 0);
    if (inst->op == UM_KOP_ATOMIC_CAS) {
        UM_SPIRV(&s->body, OP_ATOMIC_COMPARE_EXCHANGE, type, s->value[v], at, scope, relaxed,
                 relaxed, um_spirv_operand(s, inst->arg[2], 0), b);
        return;
    }
    uint32_t opcode = um_spirv_row(ATOMIC, inst->imm >> 32, inst->type.dtype);
    if (!opcode) um_spirv_lacks(s, "such an atomic operation");
    UM_SPIRV(&s->body, opcode, type, s->value[v], at, scope, relaxed, b);
}

static void walk_barrier(um_spirv *s)
{
    uint32_t scope = um_spirv_u32(s, SCOPE_WORKGROUP);
    uint32_t buffers = s->is_kernel ? CROSS_WORKGROUP_MEMORY : UNIFORM_MEMORY;
    uint32_t more = s->k->frag_count > 0 ? AVAILABLE_VISIBLE : 0; /* of Vulkan's memory model */
    uint32_t semantics = um_spirv_u32(s, ACQUIRE_RELEASE | WORKGROUP_MEMORY | buffers | more);
    UM_SPIRV(&s->body, OP_CONTROL_BARRIER, scope, scope, semantics);
}

/* ---- control flow ---------------------------------------------------------------------------- */

static um_spirv_flow *push_flow(um_spirv *s, um_val v)
{
    um_spirv_flow *flow = &s->flow[s->flow_count++];
    *flow = (um_spirv_flow){
        .inst = v, .head = um_spirv_id(s), .next = um_spirv_id(s), .merge = um_spirv_id(s)};
    return flow;
}

static void walk_if(um_spirv *s, um_val v)
{
    um_spirv_flow *flow = push_flow(s, v);
    uint32_t condition = um_spirv_operand(s, s->k->inst[v].arg[0], 0);
    branch_if(s, condition, flow->head, flow->next, flow->merge);
}

static void walk_else(um_spirv *s, um_val v)
{
    um_spirv_flow *flow = &s->flow[s->flow_count - 1];
    branch(s, flow->merge, flow->next);
    flow->inst = v;
}

static void begin_loop(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    uint32_t before = s->block;
    um_spirv_flow *flow = push_flow(s, v);
    branch(s, flow->head, flow->head);
    if (inst->op == UM_KOP_FOR) {
        flow->counter = s->value[v];
        flow->following = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_PHI, type_of(s, v), flow->counter,
                 um_spirv_operand(s, inst->arg[0], 0), before, flow->following, flow->next);
    }
    uint32_t test = um_spirv_id(s), body = um_spirv_id(s);
    UM_SPIRV(&s->body, OP_LOOP_MERGE, flow->merge, flow->next, 0);
    branch(s, test, test);
    if (inst->op == UM_KOP_LOOP) {
        branch(s, body, body);
        return;
    }
    uint32_t end = um_spirv_operand(s, inst->arg[1], 0);
    uint32_t less = um_spirv_row(CORE, UM_KOP_LT, inst->type.dtype);
    uint32_t goes_on = UM_SPIRV_NEW(s, less, UM_BOOL, flow->counter, end);
    UM_SPIRV(&s->body, OP_BRANCH_CONDITIONAL, goes_on, body, flow->merge);
    open_block(s, body);
}

static void walk_end(um_spirv *s)
{
    const um_spirv_flow flow = s->flow[--s->flow_count];
    const um_kinst *inst = &s->k->inst[flow.inst];
    if (inst->op == UM_KOP_IF) branch(s, flow.merge, flow.next); /* an else with nothing in it */
    if (inst->op == UM_KOP_IF || inst->op == UM_KOP_ELSE) {
        branch(s, flow.merge, flow.merge);
        return;
    }
    branch(s, flow.next, flow.next);
    if (inst->op == UM_KOP_FOR)
        UM_SPIRV(&s->body, OP_IADD, um_spirv_type(s, inst->type.dtype), flow.following,
                 flow.counter, um_spirv_operand(s, inst->arg[2], 0));
    branch(s, flow.head, flow.merge);
}

/* Leaves the innermost loop; what is written behind it is never reached. */
static void walk_break(um_spirv *s)
{
    int32_t i = s->flow_count - 1;
    while (i > 0 && s->k->inst[s->flow[i].inst].op != UM_KOP_FOR &&
           s->k->inst[s->flow[i].inst].op != UM_KOP_LOOP)
        i--;
    branch(s, s->flow[i].merge, um_spirv_id(s));
}

/* ---- one instruction ------------------------------------------------------------------------ */

void um_spirv_walk(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    s->value[v] = s->next_id;
    s->next_id += inst->type.dtype ? inst->type.lanes : 0;
    switch (inst->op) {
    case UM_KOP_NONE:
    case UM_KOP_CONST:
    case UM_KOP_SCALAR: return;
    case UM_KOP_LOAD_IF: walk_load_if(s, v); return;
    case UM_KOP_LOAD_UNIFORM:
        walk_barrier(s);
        walk_value(s, v);
        walk_barrier(s);
        return;
    case UM_KOP_STORE: store_lanes(s, v); return;
    case UM_KOP_STORE_IF: {
        uint32_t merge = begin_if(s, um_spirv_operand(s, inst->arg[2], 0));
        store_lanes(s, v);
        branch(s, merge, merge);
        return;
    }
    case UM_KOP_GET:
    case UM_KOP_SET: walk_variable(s, v); return;
    case UM_KOP_ATOMIC:
    case UM_KOP_ATOMIC_CAS: walk_atomic(s, v); return;
    case UM_KOP_BARRIER: walk_barrier(s); return;
    case UM_KOP_SUBGROUP_BALLOT: um_spirv_ballot(s, v); return;
    case UM_KOP_IF: walk_if(s, v); return;
    case UM_KOP_ELSE: walk_else(s, v); return;
    case UM_KOP_FOR:
    case UM_KOP_LOOP: begin_loop(s, v); return;
    case UM_KOP_BREAK: walk_break(s); return;
    case UM_KOP_END: walk_end(s); return;
    default:
        if (inst->op >= UM_KOP_SUBGROUP_REDUCE && inst->op <= UM_KOP_SUBGROUP_SHUFFLE_DOWN)
            um_spirv_subgroup(s, v);
        else if (inst->op >= UM_KOP_FRAG_FILL && inst->op <= UM_KOP_FRAG_COLUMN)
            um_spirv_frag(s, v);
        else if (inst->type.dtype)
            walk_value(s, v);
        else
            um_spirv_lacks(s, um_kop_rows[inst->op].name);
    }
}
