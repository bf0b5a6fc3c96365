/* render/spirv_group.c: what the invocations of a subgroup do together, in SPIR-V: reduce, scan,
 * shuffle, ballot, and matrix fragments. */
#include "render/spirv.h"

/* ---- subgroups ------------------------------------------------------------------------------- */

void um_spirv_subgroup(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    um_dtype dtype = inst->type.dtype;
    bool scans = inst->op == UM_KOP_SUBGROUP_SCAN,
         joins = scans || inst->op == UM_KOP_SUBGROUP_REDUCE;
    bool relative = inst->op >= UM_KOP_SUBGROUP_SHUFFLE_UP;
    uint32_t kind = !scans ? 0 : inst->imm >> 32 ? 2 : 1; /* reduce, exclusive scan, inclusive */
    uint32_t opcode =
        joins ? um_spirv_row(SUBGROUP, inst->imm & 7, dtype) : um_spirv_row(CORE, inst->op, dtype);
    uint32_t scope = um_spirv_u32(s, SCOPE_SUBGROUP);
    um_spirv_capability(s, CAP_GROUP);
    um_spirv_capability(s, joins      ? CAP_GROUP_ARITHMETIC
                           : relative ? CAP_GROUP_SHUFFLE_RELATIVE
                                      : CAP_GROUP_SHUFFLE);
    if (s->is_kernel || !opcode) um_spirv_lacks(s, um_kop_rows[inst->op].name);
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) {
        uint32_t id = s->value[v] + (uint32_t)lane, type = um_spirv_type(s, dtype),
                 a = um_spirv_operand(s, inst->arg[0], lane);
        uint32_t by = um_spirv_u32(s, inst->imm & UINT32_MAX);
        if (inst->op == UM_KOP_SUBGROUP_SHUFFLE) by = um_spirv_operand(s, inst->arg[1], lane);
        if (joins)
            UM_SPIRV(&s->body, opcode, type, id, scope, kind, a);
        else
            UM_SPIRV(&s->body, opcode, type, id, scope, a, by);
    }
}

void um_spirv_ballot(um_spirv *s, um_val v)
{
    um_spirv_capability(s, CAP_GROUP);
    um_spirv_capability(s, CAP_GROUP_BALLOT);
    if (s->is_kernel) um_spirv_lacks(s, "subgroup_ballot");
    uint32_t u32 = um_spirv_type(s, UM_U32), whole = um_spirv_id(s);
    uint32_t four = um_spirv_vector(s, UM_U32, 4);
    uint32_t scope = um_spirv_u32(s, SCOPE_SUBGROUP),
             a = um_spirv_operand(s, s->k->inst[v].arg[0], 0);
    UM_SPIRV(&s->body, OP_GROUP_BALLOT, four, whole, scope, a);
    for (uint32_t lane = 0; lane < 4; lane++)
        UM_SPIRV(&s->body, OP_EXTRACT, u32, s->value[v] + lane, whole, lane);
}

/* ---- fragments --------------------------------------------------------------------------------
 * A fragment is a variable with a cooperative matrix (SPV_KHR_cooperative_matrix), of the subgroup.
 * Where its elements lie is not published. The extension is of Vulkan's memory model, in which what
 * other invocations write is seen only by accesses that say that they are not private. */

static uint32_t matrix_type(um_spirv *s, int64_t i)
{
    const um_kfrag *f = &s->k->frag[i];
    for (int64_t j = 0; j < i; j++) {
        const um_kfrag *g = &s->k->frag[j];
        if (g->role == f->role && g->dtype == f->dtype && um_kfrag_rows(g) == um_kfrag_rows(f) &&
            um_kfrag_columns(g) == um_kfrag_columns(f))
            return s->matrix_type[j];
    }
    uint32_t id = um_spirv_id(s), item = um_spirv_type(s, f->dtype);
    uint32_t scope = um_spirv_u32(s, SCOPE_SUBGROUP), rows = um_spirv_u32(s, um_kfrag_rows(f));
    uint32_t columns = um_spirv_u32(s, um_kfrag_columns(f));
    uint32_t use = um_spirv_u32(s, (uint32_t)f->role - UM_K_FRAG_A);
    UM_SPIRV(&s->globals, OP_TYPE_MATRIX, id, item, scope, rows, columns, use);
    return id;
}

void um_spirv_declare_frags(um_spirv *s)
{
    if (s->k->frag_count == 0) return;
    if (s->is_kernel) um_spirv_lacks(s, "matrix fragments");
    um_spirv_capability(s, CAP_MATRIX);
    um_spirv_capability(s, CAP_MEMORY_MODEL);
    um_spirv_capability(s, CAP_DEVICE_SCOPE);
    for (int64_t i = 0; i < s->k->frag_count; i++) {
        s->matrix_type[i] = matrix_type(s, i);
        s->matrix[i] = um_spirv_variable(s, CLASS_FUNCTION, s->matrix_type[i]);
    }
}

/* Fragments are counted from 1. */
static uint32_t get_matrix(um_spirv *s, uint64_t frag)
{
    return UM_SPIRV_TYPED(s, OP_LOAD, s->matrix_type[frag - 1], s->matrix[frag - 1]);
}

static void set_matrix(um_spirv *s, uint64_t frag, uint32_t id)
{
    UM_SPIRV(&s->body, OP_STORE, s->matrix[frag - 1], id);
}

static void walk_move(um_spirv *s, const um_kinst *inst)
{
    uint64_t frag = inst->imm & INT32_MAX;
    uint32_t index = um_spirv_operand(s, inst->arg[0], 0);
    uint32_t at = um_spirv_element(s, (int64_t)(inst->imm >> 32) - 1, index);
    uint32_t by_columns = um_spirv_u32(s, inst->imm >> 31 & 1);
    uint32_t stride = um_spirv_operand(s, inst->arg[1], 0);
    if (inst->op == UM_KOP_FRAG_STORE)
        UM_SPIRV(&s->body, OP_MATRIX_STORE, at, get_matrix(s, frag), by_columns, stride,
                 ACCESS_NON_PRIVATE);
    else
        set_matrix(s, frag,
                   UM_SPIRV_TYPED(s, OP_MATRIX_LOAD, s->matrix_type[frag - 1], at, by_columns,
                                  stride, ACCESS_NON_PRIVATE));
}

static void walk_multiply(um_spirv *s, uint64_t imm)
{
    uint64_t d = imm & UINT16_MAX;
    uint32_t a = get_matrix(s, imm >> 16 & UINT16_MAX), b = get_matrix(s, imm >> 32 & UINT16_MAX);
    uint32_t c = get_matrix(s, imm >> 48);
    bool is_signed = um_dtype_get_kind(s->k->frag[d - 1].dtype) == UM_KIND_INT;
    set_matrix(s, d,
               UM_SPIRV_TYPED(s, OP_MATRIX_MUL_ADD, s->matrix_type[d - 1], a, b, c,
                              is_signed ? ALL_SIGNED : 0));
}

static uint32_t item_pointer(um_spirv *s, uint64_t i, um_val item)
{
    um_dtype dtype = s->k->frag[i].dtype;
    uint32_t id = um_spirv_id(s),
             type = um_spirv_pointer(s, CLASS_FUNCTION, um_spirv_type(s, dtype));
    UM_SPIRV(&s->body, OP_ACCESS_CHAIN, type, id, s->matrix[i], um_spirv_operand(s, item, 0));
    return id;
}

void um_spirv_frag(um_spirv *s, um_val v)
{
    const um_kinst *inst = &s->k->inst[v];
    uint64_t i = inst->imm - 1; /* of those with one fragment */
    uint32_t id = s->value[v], type = inst->type.dtype ? um_spirv_type(s, inst->type.dtype) : 0, at;
    switch (inst->op) {
    case UM_KOP_FRAG_FILL:
        at = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_CONSTRUCT, s->matrix_type[i], at,
                 um_spirv_operand(s, inst->arg[0], 0));
        set_matrix(s, i + 1, at);
        return;
    case UM_KOP_FRAG_LOAD:
    case UM_KOP_FRAG_STORE: walk_move(s, inst); return;
    case UM_KOP_FRAG_MMA: walk_multiply(s, inst->imm); return;
    case UM_KOP_FRAG_COUNT:
        UM_SPIRV(&s->body, OP_MATRIX_LENGTH, type, id, s->matrix_type[i]);
        return;
    case UM_KOP_FRAG_GET:
        UM_SPIRV(&s->body, OP_LOAD, type, id, item_pointer(s, i, inst->arg[0]));
        return;
    case UM_KOP_FRAG_SET:
        at = item_pointer(s, i, inst->arg[0]);
        UM_SPIRV(&s->body, OP_STORE, at, um_spirv_operand(s, inst->arg[1], 0));
        return;
    default: um_spirv_lacks(s, um_kop_rows[inst->op].name);
    }
}
