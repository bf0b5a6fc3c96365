/* render/spirv_group.c: what the invocations of a subgroup do together, in SPIR-V: reduce, scan,
 * shuffle, ballot, and matrix fragments. */
#include "render/spirv.h"

/* ---- subgroups ------------------------------------------------------------------------------- */

void um_spirv_subgroup(um_spirv *s, um_val v)
{
    enum { ARITHMETIC = 63, BALLOT = 64, SHUFFLE = 65, RELATIVE = 66, BASIC = 61 };
    static const um_spirv_row operations[8] = {
        [UM_K_ADD] = {350, 349, 349, 0}, [UM_K_MUL] = {352, 351, 351, 0},
        [UM_K_MIN] = {355, 353, 354, 0}, [UM_K_MAX] = {358, 356, 357, 0},
        [UM_K_AND] = {0, 359, 359, 362}, [UM_K_OR] = {0, 360, 360, 363},
        [UM_K_XOR] = {0, 361, 361, 364}};
    const um_kinst *inst = &s->k->inst[v];
    uint32_t scope = um_spirv_constant(s, UM_U32, SCOPE_SUBGROUP);
    um_spirv_capability(s, BASIC);
    if (s->is_kernel) um_spirv_lacks(s, UM_UNSUPPORTED, um_kop_rows[inst->op].name);
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) {
        uint32_t id = s->value[v] + (uint32_t)lane, type = um_spirv_type(s, inst->type.dtype),
                 a = um_spirv_operand(s, inst->arg[0], lane);
        uint32_t by = um_spirv_constant(s, UM_U32, inst->imm & UINT32_MAX);
        if (inst->op == UM_KOP_SUBGROUP_REDUCE || inst->op == UM_KOP_SUBGROUP_SCAN) {
            uint32_t kind = inst->op == UM_KOP_SUBGROUP_REDUCE ? 0 : inst->imm >> 32 ? 2 : 1;
            uint32_t opcode = um_spirv_by_class(operations[inst->imm & 7], inst->type.dtype);
            um_spirv_capability(s, ARITHMETIC);
            if (!opcode) um_spirv_lacks(s, UM_UNSUPPORTED, "such a subgroup operation");
            UM_SPIRV(&s->body, opcode, type, id, scope, kind, a);
        } else if (inst->op == UM_KOP_SUBGROUP_SHUFFLE) {
            um_spirv_capability(s, SHUFFLE);
            UM_SPIRV(&s->body, 345, type, id, scope, a, um_spirv_operand(s, inst->arg[1], lane));
        } else if (inst->op == UM_KOP_SUBGROUP_SHUFFLE_XOR) {
            um_spirv_capability(s, SHUFFLE);
            UM_SPIRV(&s->body, 346, type, id, scope, a, by);
        } else {
            um_spirv_capability(s, RELATIVE);
            UM_SPIRV(&s->body, inst->op == UM_KOP_SUBGROUP_SHUFFLE_UP ? 347u : 348u, type, id,
                     scope, a, by);
        }
    }
}

void um_spirv_ballot(um_spirv *s, um_val v)
{
    enum { BALLOT = 64, BASIC = 61 };
    um_spirv_capability(s, BASIC);
    um_spirv_capability(s, BALLOT);
    if (s->is_kernel) um_spirv_lacks(s, UM_UNSUPPORTED, "subgroup_ballot");
    uint32_t u32 = um_spirv_type(s, UM_U32), whole = um_spirv_id(s);
    if (!s->four) { /* declared once */
        s->four = um_spirv_id(s);
        UM_SPIRV(&s->globals, 23, s->four, u32, 4);
    }
    uint32_t scope = um_spirv_constant(s, UM_U32, SCOPE_SUBGROUP),
             a = um_spirv_operand(s, s->k->inst[v].arg[0], 0);
    UM_SPIRV(&s->body, 339, s->four, whole, scope, a);
    for (uint32_t lane = 0; lane < 4; lane++)
        UM_SPIRV(&s->body, OP_EXTRACT, u32, s->value[v] + lane, whole, lane);
}

/* ---- fragments --------------------------------------------------------------------------------
 * A fragment is a variable with a cooperative matrix (SPV_KHR_cooperative_matrix), of the subgroup.
 * Where its elements lie is not published. The extension is of Vulkan's memory model, in which what
 * other invocations write is seen only by accesses that say that they are not private. */

enum {
    TYPE_MATRIX = 4456,
    MATRIX_LOAD,
    MATRIX_STORE,
    MATRIX_MUL_ADD,
    MATRIX_LENGTH,
    COMPOSITE = 80
};

static uint32_t matrix_type(um_spirv *s, int64_t i)
{
    const um_kfrag *f = &s->k->frag[i], *same;
    for (int64_t j = 0; j < i; j++) {
        same = &s->k->frag[j];
        if (same->role == f->role && same->dtype == f->dtype &&
            um_kfrag_rows(same) == um_kfrag_rows(f) &&
            um_kfrag_columns(same) == um_kfrag_columns(f))
            return s->matrix_type[j];
    }
    uint32_t id = um_spirv_id(s), item = um_spirv_type(s, f->dtype);
    uint32_t scope = um_spirv_constant(s, UM_U32, SCOPE_SUBGROUP), rows, columns, use;
    rows = um_spirv_constant(s, UM_U32, um_kfrag_rows(f));
    columns = um_spirv_constant(s, UM_U32, um_kfrag_columns(f));
    use = um_spirv_constant(s, UM_U32, (uint32_t)f->role - UM_K_FRAG_A);
    UM_SPIRV(&s->globals, TYPE_MATRIX, id, item, scope, rows, columns, use);
    return id;
}

void um_spirv_declare_frags(um_spirv *s)
{
    enum { COOPERATIVE_MATRIX = 6022, MEMORY_MODEL = 5345, DEVICE_SCOPE = 5346 };
    if (s->k->frag_count == 0) return;
    if (s->is_kernel) um_spirv_lacks(s, UM_UNSUPPORTED, "matrix fragments");
    um_spirv_capability(s, COOPERATIVE_MATRIX);
    um_spirv_capability(s, MEMORY_MODEL);
    um_spirv_capability(s, DEVICE_SCOPE);
    for (int64_t i = 0; i < s->k->frag_count; i++) {
        s->matrix_type[i] = matrix_type(s, i);
        s->matrix[i] = um_spirv_id(s);
        UM_SPIRV(&s->variables, 59, um_spirv_pointer(s, CLASS_FUNCTION, s->matrix_type[i]),
                 s->matrix[i], CLASS_FUNCTION);
    }
}

static uint32_t whole(um_spirv *s, uint64_t frag)
{
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->body, OP_LOAD, s->matrix_type[frag - 1], id, s->matrix[frag - 1]);
    return id;
}

static void walk_move(um_spirv *s, const um_kinst *inst)
{
    uint64_t i = (inst->imm & INT32_MAX) - 1;
    uint32_t at =
        um_spirv_element(s, (int64_t)(inst->imm >> 32) - 1, um_spirv_operand(s, inst->arg[0], 0));
    uint32_t by_columns = um_spirv_constant(s, UM_U32, inst->imm >> 31 & 1);
    uint32_t stride = um_spirv_operand(s, inst->arg[1], 0);
    if (inst->op == UM_KOP_FRAG_STORE) {
        UM_SPIRV(&s->body, MATRIX_STORE, at, whole(s, i + 1), by_columns, stride, NON_PRIVATE);
        return;
    }
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->body, MATRIX_LOAD, s->matrix_type[i], id, at, by_columns, stride, NON_PRIVATE);
    UM_SPIRV(&s->body, OP_STORE, s->matrix[i], id);
}

static void walk_multiply(um_spirv *s, uint64_t imm)
{
    enum { ALL_SIGNED = 15 };
    uint64_t d = imm & UINT16_MAX;
    uint32_t a = whole(s, imm >> 16 & UINT16_MAX), b = whole(s, imm >> 32 & UINT16_MAX);
    uint32_t c = whole(s, imm >> 48), id = um_spirv_id(s);
    bool is_signed = um_dtype_get_kind(s->k->frag[d - 1].dtype) == UM_KIND_INT;
    UM_SPIRV(&s->body, MATRIX_MUL_ADD, s->matrix_type[d - 1], id, a, b, c,
             is_signed ? ALL_SIGNED : 0);
    UM_SPIRV(&s->body, OP_STORE, s->matrix[d - 1], id);
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
        UM_SPIRV(&s->body, COMPOSITE, s->matrix_type[i], at, um_spirv_operand(s, inst->arg[0], 0));
        UM_SPIRV(&s->body, OP_STORE, s->matrix[i], at);
        return;
    case UM_KOP_FRAG_LOAD:
    case UM_KOP_FRAG_STORE: walk_move(s, inst); return;
    case UM_KOP_FRAG_MMA: walk_multiply(s, inst->imm); return;
    case UM_KOP_FRAG_COUNT: UM_SPIRV(&s->body, MATRIX_LENGTH, type, id, s->matrix_type[i]); return;
    case UM_KOP_FRAG_GET:
        at = item_pointer(s, i, inst->arg[0]);
        UM_SPIRV(&s->body, OP_LOAD, type, id, at);
        return;
    case UM_KOP_FRAG_SET:
        at = item_pointer(s, i, inst->arg[0]);
        UM_SPIRV(&s->body, OP_STORE, at, um_spirv_operand(s, inst->arg[1], 0));
        return;
    default: um_spirv_lacks(s, UM_UNSUPPORTED, um_kop_rows[inst->op].name);
    }
}
