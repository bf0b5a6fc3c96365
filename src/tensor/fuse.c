/* tensor/fuse.c: elementwise chains as one program. A MAP node absorbs an input that nobody else
 * can see (one reference), of its own shape and dtype, and so on up the chain; constants become
 * instructions. Called by schedule.c. */
#include "tensor/tensor.h"

/* ---- what may go into a program
 * -------------------------------------------------------------------- */

bool um_node_is_map(const um_tensor *x)
{
    return x->kind == UM_NODE_OP && um_op_get_row(x->op)->family == UM_FAMILY_MAP;
}

/* The dtype a MAP node computes in. */
static um_dtype program_dtype(const um_tensor *x) { return x->in[um_op_main_input(x->op)]->dtype; }

/* Programs are for the dtypes that arithmetic is for; `where` moves the others, too. */
static bool has_program(const um_tensor *x)
{
    return um_node_is_map(x) && (UM_DTYPES_FIB & UM_BIT(program_dtype(x)));
}

bool um_fuse_is_constant(const um_tensor *node, int32_t input)
{
    const um_tensor *base = um_node_base(node->in[input]);
    return has_program(node) && base->kind == UM_NODE_OP && base->op == UM_OP_FILL;
}

static bool can_absorb(const um_tensor *node, int32_t input, um_dtype dtype)
{
    um_tensor *x = node->in[input];
    if (!has_program(x) || atomic_load_explicit(&x->refs, memory_order_relaxed) != 1) return false;
    if (program_dtype(x) != dtype || x->rank != node->rank ||
        memcmp(x->shape, node->shape, (size_t)x->rank * sizeof x->shape[0]) != 0)
        return false;
    /* a comparison's 0 or 1 only where it is asked for as a truth value */
    return x->dtype == dtype || (node->op == UM_OP_WHERE && input == 0);
}

/* How much of a program's room a node takes by itself. A constant that somebody else has run first
 * is memory by then, so such a one counts as both. */
static void own_size(const um_tensor *x, int32_t *insts, int32_t *inputs)
{
    *insts = 1;
    *inputs = x->in_count;
    for (int32_t i = 0; i < x->in_count; i++) {
        if (!um_fuse_is_constant(x, i)) continue;
        *insts += 1;
        *inputs -= !um_node_base(x->in[i])->ordered;
    }
}

void um_fuse_plan(um_tensor *root)
{
    um_tensor *members[UM_MAP_MAX_INSTS];
    int32_t count = 0, insts, inputs;
    um_dtype dtype = program_dtype(root);
    own_size(root, &insts, &inputs);
    members[count++] = root;
    for (int32_t m = 0; m < count; m++) {
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            if (!can_absorb(members[m], i, dtype)) continue;
            um_tensor *x = members[m]->in[i];
            int32_t more_insts, more_inputs;
            own_size(x, &more_insts, &more_inputs);
            if (insts + more_insts > UM_MAP_MAX_INSTS ||
                inputs - 1 + more_inputs > UM_MAP_MAX_INPUTS)
                continue;
            insts += more_insts;
            inputs += more_inputs - 1;
            x->absorbed = true;
            members[count++] = x;
        }
    }
}

/* ---- building the op
 * -------------------------------------------------------------------------------- */

/* The members of the root's program, the root first, each before what it absorbed. */
static int32_t gather_members(um_tensor *root, um_tensor **members)
{
    int32_t count = 0;
    members[count++] = root;
    for (int32_t m = 0; m < count; m++)
        for (int32_t i = 0; i < members[m]->in_count; i++)
            if (members[m]->in[i]->absorbed) members[count++] = members[m]->in[i];
    return count;
}

/* Adds x to the op's inputs, once; returns its number. */
static int32_t memory_input(um_op *op, um_tensor **memory, um_tensor *x)
{
    for (int32_t i = 0; i < op->in_count; i++)
        if (memory[i] == x) return i;
    memory[op->in_count] = x;
    return op->in_count++;
}

static void emit(um_map_program *program, um_op_id op, const uint8_t *src, double value)
{
    um_map_inst *inst = &program->inst[program->inst_count++];
    *inst = (um_map_inst){.op = (uint16_t)op, .value = value};
    if (src) memcpy(inst->src, src, sizeof inst->src);
}

static double constant_of(um_tensor *x)
{
    const um_attrs *attrs = &um_node_base(x)->u.attrs;
    if (um_dtype_is_float(x->dtype)) return attrs->fill.f;
    return x->dtype == UM_U64 ? (double)(uint64_t)attrs->fill.i : (double)attrs->fill.i;
}

void um_fuse_op(um_tensor *root, um_op *op, um_map_program *program, um_tensor **memory)
{
    um_tensor *members[UM_MAP_MAX_INSTS];
    int32_t member_count = gather_members(root, members);
    bool plain = member_count == 1;
    for (int32_t i = 0; i < root->in_count; i++) plain = plain && !um_fuse_is_constant(root, i);
    op->in_count = 0;
    if (plain) {
        op->id = root->op;
        op->attrs = root->u.attrs;
        for (int32_t i = 0; i < root->in_count; i++) memory[op->in_count++] = root->in[i];
        return;
    }
    op->id = UM_OP_MAP;
    op->attrs.program = program;
    for (int32_t m = 0; m < member_count; m++)
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            um_tensor *x = members[m]->in[i];
            if (!x->absorbed && !um_fuse_is_constant(members[m], i))
                (void)memory_input(op, memory, x);
        }
    /* producers come last among the members, so backwards is the order of computing */
    program->dtype = program_dtype(root);
    program->inst_count = 0;
    uint8_t value_of[UM_MAP_MAX_INSTS]; /* by member */
    for (int32_t m = member_count - 1; m >= 0; m--) {
        uint8_t src[3] = {0};
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            um_tensor *x = members[m]->in[i];
            if (x->absorbed) {
                int32_t k = m + 1;
                while (members[k] != x) k++;
                src[i] = value_of[k];
            } else if (um_fuse_is_constant(members[m], i)) {
                src[i] = (uint8_t)(op->in_count + program->inst_count);
                emit(program, UM_OP_FILL, NULL, constant_of(x));
            } else {
                src[i] = (uint8_t)memory_input(op, memory, x);
            }
        }
        value_of[m] = (uint8_t)(op->in_count + program->inst_count);
        emit(program, members[m]->op, src, members[m]->u.attrs.map.a);
    }
}
