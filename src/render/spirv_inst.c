/* render/spirv_inst.c: the instructions of a kernel in SPIR-V. A vector value is as many scalar
 * ones, as in cstyle.c. */
#include "render/spirv.h"

#include <stdio.h>

enum {
    OP_EXT = 12,
    OP_COPY = 83,
    OP_LOGICAL_NOT_EQUAL = 165,
    OP_LOGICAL_NOT = 168,
    OP_SELECT = 169,
    OP_SELECTION_MERGE = 247,
    OP_BRANCH_CONDITIONAL = 250
};

/* ---- opcodes by the class of the first operand ---------------------------------------------- */

static const um_spirv_row rows[UM_KOP_LIMIT] = {
    [UM_KOP_ADD] = {129, 128, 128, 0},    [UM_KOP_SUB] = {131, 130, 130, 0},
    [UM_KOP_MUL] = {133, 132, 132, 0},    [UM_KOP_DIV] = {136, 135, 134, 0},
    [UM_KOP_REM] = {0, 138, 137, 0},      [UM_KOP_NEG] = {127, 126, 126, 0},
    [UM_KOP_AND] = {0, 199, 199, 167},    [UM_KOP_OR] = {0, 197, 197, 166},
    [UM_KOP_XOR] = {0, 198, 198, 165},    [UM_KOP_NOT] = {0, 200, 200, 168},
    [UM_KOP_EQ] = {180, 170, 170, 164},   [UM_KOP_NE] = {183, 171, 171, 165},
    [UM_KOP_LT] = {184, 177, 176, 0},     [UM_KOP_LE] = {188, 179, 178, 0},
    [UM_KOP_GT] = {186, 173, 172, 0},     [UM_KOP_GE] = {190, 175, 174, 0},
    [UM_KOP_POPCOUNT] = {0, 205, 205, 0},
};

/* Of GLSL.std.450 and OpenCL.std; 0: none. F: of floats alone. Functions are in the IR (ir/math.h).
 */
#define F(vulkan, kernel)                                                                          \
    {                                                                                              \
        {vulkan, 0, 0, 0}, { kernel, 0, 0, 0 }                                                     \
    }
static const struct {
    um_spirv_row vulkan, kernel;
} ext_rows[UM_KOP_LIMIT] = {
    [UM_KOP_ABS] = F(4, 23),
    [UM_KOP_MUL_HIGH] = {{0, 0, 0, 0}, {0, 160, 203, 0}},
    [UM_KOP_POPCOUNT] = {{0, 0, 0, 0}, {0, 166, 166, 0}},
    [UM_KOP_CLZ] = {{0, 0, 0, 0}, {0, 151, 151, 0}},
    [UM_KOP_MIN] = {{37, 39, 38, 0}, {28, 158, 159, 0}},
    [UM_KOP_MAX] = {{40, 42, 41, 0}, {27, 156, 157, 0}},
    [UM_KOP_FMA] = F(50, 26),
    [UM_KOP_SQRT] = F(31, 61),
    [UM_KOP_RSQRT] = F(32, 56),
    [UM_KOP_FLOOR] = F(8, 25),
    [UM_KOP_CEIL] = F(9, 12),
    [UM_KOP_TRUNC] = F(3, 66),
    [UM_KOP_ROUND] = F(2, 53),
};

uint32_t um_spirv_by_class(um_spirv_row row, um_dtype dtype)
{
    switch (um_dtype_get_kind(dtype)) {
    case UM_KIND_FLOAT: return row.f;
    case UM_KIND_INT: return row.s;
    case UM_KIND_UINT: return row.u;
    default: return row.b;
    }
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

static uint32_t select(um_spirv *s, um_dtype dtype, uint32_t condition, uint32_t a, uint32_t b)
{
    return UM_SPIRV_NEW(s, OP_SELECT, dtype, condition, a, b);
}

/* Lane `lane` of value v becomes what `id` is. */
static void name_value(um_spirv *s, um_val v, int32_t lane, uint32_t id)
{
    UM_SPIRV(&s->body, OP_COPY, type_of(s, v), s->value[v] + (uint32_t)lane, id);
}

/* ---- what one opcode does not say
 * ---------------------------------------------------------------- */

/* b modulo the bits of the type. */
static uint32_t shift(um_spirv *s, um_kop op, um_dtype dtype, uint32_t a, uint32_t b)
{
    uint32_t mask = um_spirv_constant(s, dtype, (uint64_t)um_dtype_bits(dtype) - 1);
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    return UM_SPIRV_NEW(s,
                        op == UM_KOP_SHL ? 196
                        : is_signed      ? 195
                                         : 194,
                        dtype, a, UM_SPIRV_NEW(s, 199, dtype, b, mask));
}

/* Of an integer. */
static uint32_t absolute(um_spirv *s, um_dtype dtype, uint32_t a)
{
    enum { SIGNED_LESS = 177, NEGATE = 126 };
    if (um_dtype_get_kind(dtype) == UM_KIND_UINT) return UM_SPIRV_NEW(s, OP_COPY, dtype, a);
    uint32_t zero = um_spirv_constant(s, dtype, 0);
    uint32_t below = UM_SPIRV_NEW(s, SIGNED_LESS, UM_BOOL, a, zero);
    return select(s, dtype, below, UM_SPIRV_NEW(s, NEGATE, dtype, a), a);
}

/* Vulkan's: the upper of two halves. */
static uint32_t mul_high(um_spirv *s, um_dtype dtype, uint32_t a, uint32_t b)
{
    enum { UMUL_EXTENDED = 151, SMUL_EXTENDED = 152 };
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    uint32_t type = um_spirv_type(s, dtype), pair = um_spirv_id(s), both = um_spirv_id(s);
    UM_SPIRV(&s->globals, 30, pair, type, type);
    UM_SPIRV(&s->body, is_signed ? SMUL_EXTENDED : UMUL_EXTENDED, pair, both, a, b);
    return UM_SPIRV_NEW(s, OP_EXTRACT, dtype, both, 1);
}

/* Vulkan's: by the place of the highest bit, -1 of 0. */
static uint32_t clz(um_spirv *s, um_dtype dtype, uint32_t a)
{
    enum { FIND_UMSB = 75, ISUB = 130 };
    uint32_t top = UM_SPIRV_NEW(s, OP_EXT, dtype, s->ext_set, FIND_UMSB, a);
    return UM_SPIRV_NEW(s, ISUB, dtype, um_spirv_constant(s, dtype, 31), top);
}

static uint32_t convert(um_spirv *s, um_dtype from, um_dtype to, uint32_t a)
{
    um_dtype_kind source = um_dtype_get_kind(from), kind = um_dtype_get_kind(to);
    uint64_t one = 1;
    if (to == UM_F32) one = 0x3f800000;
    if (to == UM_F64) one = 0x3ff0000000000000;
    if (to == UM_F16) one = 0x3c00;
    if (to == from) return UM_SPIRV_NEW(s, OP_COPY, to, a);
    if (to == UM_BOOL)
        return UM_SPIRV_NEW(s, source == UM_KIND_FLOAT ? 183 : 171, UM_BOOL, a,
                            um_spirv_constant(s, from, 0));
    if (from == UM_BOOL)
        return select(s, to, a, um_spirv_constant(s, to, one), um_spirv_constant(s, to, 0));
    if (source == UM_KIND_FLOAT && kind == UM_KIND_FLOAT) return UM_SPIRV_NEW(s, 115, to, a);
    if (source == UM_KIND_FLOAT) return UM_SPIRV_NEW(s, kind == UM_KIND_INT ? 110 : 109, to, a);
    if (kind == UM_KIND_FLOAT) return UM_SPIRV_NEW(s, source == UM_KIND_INT ? 111 : 112, to, a);
    if (um_dtype_bits(from) == um_dtype_bits(to))
        return UM_SPIRV_NEW(s, s->is_kernel ? OP_COPY : OP_BITCAST, to, a);
    if (source == UM_KIND_INT || s->is_kernel || kind == UM_KIND_UINT)
        return UM_SPIRV_NEW(s, source == UM_KIND_INT ? 114 : OP_UCONVERT, to, a);
    return UM_SPIRV_NEW(s, OP_BITCAST, to, UM_SPIRV_NEW(s, OP_UCONVERT, to + (UM_U8 - UM_I8), a));
}

static uint32_t bitcast(um_spirv *s, um_dtype from, um_dtype to, uint32_t a)
{
    bool same = um_spirv_type(s, from) == um_spirv_type(s, to);
    return UM_SPIRV_NEW(s, same ? OP_COPY : OP_BITCAST, to, a);
}

/* ---- values by opcode
 * ---------------------------------------------------------------------------- */

/* An opcode of the tables. */
static uint32_t from_table(um_spirv *s, um_val v, um_dtype operands, um_dtype result,
                           const uint32_t *a)
{
    const um_kinst *inst = &s->k->inst[v];
    enum { NO_CONTRACTION = 42 };
    uint32_t opcode = um_spirv_by_class(rows[inst->op], operands),
             arity = (uint32_t)um_kinst_arity(inst);
    uint32_t number = um_spirv_by_class(
        s->is_kernel ? ext_rows[inst->op].kernel : ext_rows[inst->op].vulkan, operands);
    uint32_t id = um_spirv_id(s), words[7] = {um_spirv_type(s, result), id, s->ext_set, number};
    if (number) {
        memcpy(words + 4, a, arity * sizeof *a);
        um_spirv_put(&s->body, OP_EXT, 4 + (int32_t)arity, words);
    } else if (opcode) {
        memcpy(words + 2, a, arity * sizeof *a);
        if (opcode == OP_LOGICAL_NOT && s->is_kernel) { /* IGC 1.0.12504 dies of some of them */
            opcode = OP_LOGICAL_NOT_EQUAL;
            words[2 + arity++] = um_spirv_constant(s, UM_BOOL, 1);
        }
        um_spirv_put(&s->body, opcode, 2 + (int32_t)arity, words);
        if (!s->is_kernel && opcode >= 127 && opcode <= 136 &&
            um_dtype_get_kind(operands) == UM_KIND_FLOAT)
            UM_SPIRV(&s->decorations, OP_DECORATE, id, NO_CONTRACTION);
    } else {
        char what[64];
        snprintf(what, sizeof what, "%s of %s", um_kop_rows[inst->op].name,
                 um_dtype_name(operands));
        um_spirv_lacks(s, UM_UNSUPPORTED, what);
    }
    return id;
}

static uint32_t lane_value(um_spirv *s, um_val v, const uint32_t *a)
{
    const um_kinst *inst = &s->k->inst[v];
    um_dtype result = inst->type.dtype;
    um_dtype first = um_kinst_arity(inst) > 0 ? um_val_type(s->k, inst->arg[0]).dtype : result;
    switch (inst->op) {
    case UM_KOP_GROUP_ID:
    case UM_KOP_GROUP_COUNT:
    case UM_KOP_LOCAL_ID:
    case UM_KOP_LOCAL_INDEX:
    case UM_KOP_SUBGROUP_SIZE:
    case UM_KOP_SUBGROUP_ID:
    case UM_KOP_SUBGROUP_LANE: return um_spirv_builtin(s, inst->op, (uint32_t)inst->imm);
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
    case UM_KOP_SHR: return shift(s, inst->op, result, a[0], a[1]);
    case UM_KOP_SELECT: return select(s, result, a[0], a[1], a[2]);
    case UM_KOP_CONVERT: return convert(s, first, result, a[0]);
    case UM_KOP_SPLAT: return a[0];
    default: break;
    }
    return from_table(s, v, first, result, a);
}

static void walk_value(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    int32_t arity = inst->op == UM_KOP_VECTOR ? 0 : um_kinst_arity(inst);
    for (int32_t lane = 0; lane < inst->type.lanes && s->status == UM_OK; lane++) {
        uint32_t a[4], id;
        for (int32_t i = 0; i < arity; i++) a[i] = um_spirv_operand(s, inst->arg[i], lane);
        if (inst->op == UM_KOP_VECTOR)
            id = um_spirv_operand(s, inst->arg[lane], 0);
        else if (inst->op == UM_KOP_EXTRACT)
            id = um_spirv_operand(s, inst->arg[0], (int32_t)inst->imm);
        else if (inst->op == UM_KOP_BITCAST &&
                 um_val_type(s->k, inst->arg[0]).lanes == inst->type.lanes)
            id = bitcast(s, um_val_type(s->k, inst->arg[0]).dtype, inst->type.dtype, a[0]);
        else
            id = lane_value(s, v, a);
        name_value(s, v, lane, id);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t memory_of(const um_kinst *inst) { return (int64_t)(inst->imm & UINT32_MAX) - 1; }

uint32_t um_spirv_element(um_spirv *s, int64_t m, uint32_t index)
{
    bool is_buffer = s->k->mem[m].space == UM_SPACE_BUFFER;
    if (is_buffer && s->is_kernel) {
        uint32_t wide = UM_SPIRV_NEW(s, OP_UCONVERT, UM_U64, index), id = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_PTR_ACCESS_CHAIN, s->pointer[m], id, s->memory[m], wide);
        return id;
    }
    if (is_buffer) {
        if (s->base[m]) index = UM_SPIRV_NEW(s, OP_IADD, UM_U32, index, s->base[m]);
        uint32_t id = um_spirv_id(s), zero = um_spirv_constant(s, UM_U32, 0);
        UM_SPIRV(&s->body, OP_ACCESS_CHAIN, s->pointer[m], id, s->memory[m], zero, index);
        return id;
    }
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->body, OP_ACCESS_CHAIN, s->pointer[m], id, s->memory[m], index);
    return id;
}

/* A pointer to element index + lane. */
static uint32_t element(um_spirv *s, const um_kinst *inst, int32_t lane)
{
    uint32_t index = um_spirv_operand(s, inst->arg[0], 0);
    if (lane > 0)
        index =
            UM_SPIRV_NEW(s, OP_IADD, UM_U32, index, um_spirv_constant(s, UM_U32, (uint64_t)lane));
    return um_spirv_element(s, memory_of(inst), index);
}

static uint32_t load_lane(um_spirv *s, um_val v, int32_t lane)
{
    const um_kinst *inst = &s->k->inst[v];
    return um_spirv_load(s, memory_of(inst), inst->type.dtype, element(s, inst, lane));
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

/* Opens a block that runs where the condition holds; gives the label behind it. */
static uint32_t begin_if(um_spirv *s, uint32_t condition)
{
    uint32_t then = um_spirv_id(s), merge = um_spirv_id(s);
    UM_SPIRV(&s->body, OP_SELECTION_MERGE, merge, 0);
    UM_SPIRV(&s->body, OP_BRANCH_CONDITIONAL, condition, then, merge);
    open_block(s, then);
    return merge;
}

static void end_if(um_spirv *s, uint32_t merge)
{
    UM_SPIRV(&s->body, OP_BRANCH, merge);
    open_block(s, merge);
}

static void walk_load_if(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    uint32_t before = s->block, loaded[4];
    uint32_t merge = begin_if(s, um_spirv_operand(s, inst->arg[1], 0));
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) loaded[lane] = load_lane(s, v, lane);
    uint32_t inside = s->block;
    end_if(s, merge);
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) {
        uint32_t type = um_spirv_type(s, inst->type.dtype),
                 other = um_spirv_operand(s, inst->arg[2], lane);
        UM_SPIRV(&s->body, 245, type, s->value[v] + (uint32_t)lane, loaded[lane], inside, other,
                 before);
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
    static const um_spirv_row operations[9] = {
        [UM_K_ADD] = {0, 234, 234, 0},       [UM_K_MIN] = {0, 236, 237, 0},
        [UM_K_MAX] = {0, 238, 239, 0},       [UM_K_AND] = {0, 240, 240, 0},
        [UM_K_OR] = {0, 241, 241, 0},        [UM_K_XOR] = {0, 242, 242, 0},
        [UM_K_EXCHANGE] = {229, 229, 229, 0}};
    const um_kinst *inst = &s->k->inst[v];
    bool shared = s->k->mem[memory_of(inst)].space == UM_SPACE_SHARED;
    uint32_t scope = um_spirv_constant(s, UM_U32, shared ? SCOPE_WORKGROUP : SCOPE_DEVICE);
    uint32_t relaxed = um_spirv_constant(s, UM_U32, 0), at = element(s, inst, 0),
             type = type_of(s, v);
    uint32_t b = um_spirv_operand(s, inst->arg[1], 0);
    if (inst->op == UM_KOP_ATOMIC_CAS) {
        uint32_t value = um_spirv_operand(s, inst->arg[2], 0);
        UM_SPIRV(&s->body, 230, type, s->value[v], at, scope, relaxed, relaxed, value, b);
        return;
    }
    uint32_t operation = (uint32_t)(inst->imm >> 32);
    uint32_t opcode =
        operation < 9 ? um_spirv_by_class(operations[operation], inst->type.dtype) : 0;
    if (!opcode) um_spirv_lacks(s, UM_UNSUPPORTED, "such an atomic operation");
    UM_SPIRV(&s->body, opcode, type, s->value[v], at, scope, relaxed, b);
}

static void walk_barrier(um_spirv *s)
{
    enum {
        CONTROL_BARRIER = 224,
        ACQUIRE_RELEASE = 8,
        UNIFORM = 0x40,
        WORKGROUP = 0x100,
        CROSS = 0x200,
        AVAILABLE_VISIBLE = 0x6000 /* of Vulkan's memory model */
    };
    uint32_t scope = um_spirv_constant(s, UM_U32, SCOPE_WORKGROUP);
    uint32_t more = s->k->frag_count > 0 ? AVAILABLE_VISIBLE : 0;
    uint32_t memory = um_spirv_constant(
        s, UM_U32, ACQUIRE_RELEASE | WORKGROUP | (s->is_kernel ? CROSS : UNIFORM) | more);
    UM_SPIRV(&s->body, CONTROL_BARRIER, scope, scope, memory);
}

/* ---- control flow ---------------------------------------------------------------------------- */

static um_spirv_flow *push_flow(um_spirv *s, um_val v)
{
    if (um_vec_reserve((void **)&s->flow, &s->flow_capacity, s->flow_count, sizeof *s->flow,
                       "um_render_spirv") != UM_OK) {
        um_spirv_lacks(s, UM_OUT_OF_MEMORY, "no memory");
        return NULL;
    }
    um_spirv_flow *flow = &s->flow[s->flow_count++];
    *flow = (um_spirv_flow){
        .inst = v, .head = um_spirv_id(s), .next = um_spirv_id(s), .merge = um_spirv_id(s)};
    return flow;
}

static void walk_if(um_spirv *s, um_val v)
{
    enum { NONE = 0 };
    um_spirv_flow *flow = push_flow(s, v);
    if (!flow) return;
    uint32_t condition = um_spirv_operand(s, s->k->inst[v].arg[0], 0);
    UM_SPIRV(&s->body, OP_SELECTION_MERGE, flow->merge, NONE);
    UM_SPIRV(&s->body, OP_BRANCH_CONDITIONAL, condition, flow->head, flow->next);
    open_block(s, flow->head);
}

static void begin_loop(um_spirv *s, um_val v)
{
    enum { LOOP_MERGE = 246, PHI = 245 };
    const um_kinst *inst = &s->k->inst[v];
    bool counts = inst->op == UM_KOP_FOR;
    uint32_t before = s->block;
    um_spirv_flow *flow = push_flow(s, v);
    if (!flow) return;
    UM_SPIRV(&s->body, OP_BRANCH, flow->head);
    open_block(s, flow->head);
    if (counts) {
        flow->counter = s->value[v];
        flow->following = um_spirv_id(s);
        UM_SPIRV(&s->body, PHI, type_of(s, v), flow->counter, um_spirv_operand(s, inst->arg[0], 0),
                 before, flow->following, flow->next);
    }
    uint32_t test = um_spirv_id(s), body = um_spirv_id(s);
    UM_SPIRV(&s->body, LOOP_MERGE, flow->merge, flow->next, 0);
    UM_SPIRV(&s->body, OP_BRANCH, test);
    open_block(s, test);
    if (counts) {
        bool is_signed = inst->type.dtype == UM_I32;
        uint32_t goes_on = UM_SPIRV_NEW(s, is_signed ? 177 : 176, UM_BOOL, flow->counter,
                                        um_spirv_operand(s, inst->arg[1], 0));
        UM_SPIRV(&s->body, OP_BRANCH_CONDITIONAL, goes_on, body, flow->merge);
    } else {
        UM_SPIRV(&s->body, OP_BRANCH, body);
    }
    open_block(s, body);
}

static void walk_end(um_spirv *s)
{
    const um_spirv_flow flow = s->flow[--s->flow_count];
    const um_kinst *inst = &s->k->inst[flow.inst];
    if (inst->op == UM_KOP_IF) { /* an else with nothing in it */
        UM_SPIRV(&s->body, OP_BRANCH, flow.merge);
        open_block(s, flow.next);
    }
    if (inst->op == UM_KOP_IF || inst->op == UM_KOP_ELSE) {
        end_if(s, flow.merge);
        return;
    }
    UM_SPIRV(&s->body, OP_BRANCH, flow.next);
    open_block(s, flow.next);
    if (inst->op == UM_KOP_FOR)
        UM_SPIRV(&s->body, OP_IADD, um_spirv_type(s, inst->type.dtype), flow.following,
                 flow.counter, um_spirv_operand(s, inst->arg[2], 0));
    UM_SPIRV(&s->body, OP_BRANCH, flow.head);
    open_block(s, flow.merge);
}

/* Leaves the innermost loop; what is written behind it is never reached. */
static void walk_break(um_spirv *s)
{
    int64_t i = s->flow_count - 1;
    while (i > 0 && s->k->inst[s->flow[i].inst].op != UM_KOP_FOR &&
           s->k->inst[s->flow[i].inst].op != UM_KOP_LOOP)
        i--;
    UM_SPIRV(&s->body, OP_BRANCH, s->flow[i].merge);
    open_block(s, um_spirv_id(s));
}

static void walk_flow(um_spirv *s, um_val v)
{
    switch (s->k->inst[v].op) {
    case UM_KOP_IF: walk_if(s, v); return;
    case UM_KOP_ELSE: {
        um_spirv_flow *flow = &s->flow[s->flow_count - 1];
        UM_SPIRV(&s->body, OP_BRANCH, flow->merge);
        open_block(s, flow->next);
        flow->inst = v;
        return;
    }
    case UM_KOP_BREAK: walk_break(s); return;
    case UM_KOP_END: walk_end(s); return;
    default: begin_loop(s, v);
    }
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
    case UM_KOP_LOAD:
        for (int32_t lane = 0; lane < inst->type.lanes; lane++)
            name_value(s, v, lane, load_lane(s, v, lane));
        return;
    case UM_KOP_LOAD_IF: walk_load_if(s, v); return;
    case UM_KOP_LOAD_UNIFORM:
        walk_barrier(s);
        name_value(s, v, 0, load_lane(s, v, 0));
        walk_barrier(s);
        return;
    case UM_KOP_STORE: store_lanes(s, v); return;
    case UM_KOP_STORE_IF: {
        uint32_t merge = begin_if(s, um_spirv_operand(s, inst->arg[2], 0));
        store_lanes(s, v);
        end_if(s, merge);
        return;
    }
    case UM_KOP_GET:
    case UM_KOP_SET: walk_variable(s, v); return;
    case UM_KOP_ATOMIC:
    case UM_KOP_ATOMIC_CAS: walk_atomic(s, v); return;
    case UM_KOP_BARRIER: walk_barrier(s); return;
    case UM_KOP_SUBGROUP_REDUCE:
    case UM_KOP_SUBGROUP_SCAN:
    case UM_KOP_SUBGROUP_SHUFFLE:
    case UM_KOP_SUBGROUP_SHUFFLE_XOR:
    case UM_KOP_SUBGROUP_SHUFFLE_UP:
    case UM_KOP_SUBGROUP_SHUFFLE_DOWN: um_spirv_subgroup(s, v); return;
    case UM_KOP_SUBGROUP_BALLOT: um_spirv_ballot(s, v); return;
    case UM_KOP_IF:
    case UM_KOP_ELSE:
    case UM_KOP_FOR:
    case UM_KOP_LOOP:
    case UM_KOP_BREAK:
    case UM_KOP_END: walk_flow(s, v); return;
    default:
        if (inst->op >= UM_KOP_FRAG_FILL && inst->op <= UM_KOP_FRAG_COLUMN)
            um_spirv_frag(s, v);
        else if (inst->type.dtype)
            walk_value(s, v);
        else
            um_spirv_lacks(s, UM_UNSUPPORTED, um_kop_rows[inst->op].name);
    }
}
