/* tensor/fuse.c: elementwise chains as one program. A MAP node absorbs an input that nobody else
 * can see (one reference), of its own shape and dtype, and so on up the chain; constants become
 * instructions. One such input that is a reduction or product carries the program as its epilogue,
 * and a reduction carries the program of its own input as its prologue. Called by schedule.c. */
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

static bool is_unseen(const um_tensor *x)
{
    return atomic_load_explicit(&x->refs, memory_order_relaxed) == 1;
}

static bool has_shape_of(const um_tensor *x, const um_tensor *node)
{
    return x->rank == node->rank &&
           memcmp(x->shape, node->shape, (size_t)x->rank * sizeof x->shape[0]) == 0;
}

static bool can_absorb(const um_tensor *node, int32_t input, um_dtype dtype)
{
    const um_tensor *x = node->in[input];
    if (!has_program(x) || !is_unseen(x) || program_dtype(x) != dtype || !has_shape_of(x, node))
        return false;
    /* a comparison's 0 or 1 only where it is asked for as a truth value */
    return x->dtype == dtype || (node->op == UM_OP_WHERE && input == 0);
}

static bool is_reduction(const um_tensor *x)
{
    return x->kind == UM_NODE_OP && x->op >= UM_OP_SUM && x->op <= UM_OP_STD &&
           x->op != UM_OP_ARGMAX && x->op != UM_OP_ARGMIN;
}

/* Whether x can carry the program that reads it there as its epilogue. */
static bool can_carry(const um_tensor *x, const um_tensor *node, um_dtype dtype)
{
    bool carries = is_reduction(x) ||
                   (x->kind == UM_NODE_OP && (x->op == UM_OP_MATMUL || x->op == UM_OP_CONV));
    return carries && is_unseen(x) && x->dtype == dtype && has_shape_of(x, node);
}

/* Inputs that an op can have, beside its output and scratch memory. */
static int32_t inputs_max(const um_tensor *x)
{
    return UM_MIN(UM_OP_MAX_INPUTS, x->context->buffer_count_max - 2);
}

/* Inputs of a program on x, beside what x gives it. */
static int32_t room_for_epilogue(const um_tensor *x)
{
    return UM_MIN(inputs_max(x) - um_op_get_row(x->op)->in_max, UM_MAP_MAX_INPUTS - 1);
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

/* Absorbs into root's program what there is room for, of `least` to `most` inputs; carries: also
 * what can carry it. The number of inputs. */
static int32_t plan_program(um_tensor *root, int32_t least, int32_t most, bool carries)
{
    um_tensor *members[UM_MAP_MAX_INSTS];
    int32_t count = 0, insts, inputs;
    um_dtype dtype = program_dtype(root);
    own_size(root, &insts, &inputs);
    members[count++] = root;
    for (int32_t m = 0; m < count; m++) {
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            um_tensor *x = members[m]->in[i];
            if (carries && can_carry(x, root, dtype) && inputs - 1 <= room_for_epilogue(x)) {
                carries = false;
                most = room_for_epilogue(x) + 1;
                x->absorbed = true;
                continue;
            }
            if (!can_absorb(members[m], i, dtype)) continue;
            int32_t more_insts, more_inputs;
            own_size(x, &more_insts, &more_inputs);
            more_insts += insts;
            more_inputs += inputs - 1;
            if (more_insts > UM_MAP_MAX_INSTS || more_inputs < least || more_inputs > most)
                continue;
            insts = more_insts;
            inputs = more_inputs;
            x->absorbed = true;
            members[count++] = x;
        }
    }
    return inputs;
}

/* The members of the root's program, the root first, each before what it absorbed. */
static int32_t gather_members(um_tensor *root, um_tensor **members)
{
    int32_t count = 0;
    members[count++] = root;
    for (int32_t m = 0; m < count; m++)
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            um_tensor *x = members[m]->in[i];
            if (x->absorbed && um_node_is_map(x)) members[count++] = x;
        }
    return count;
}

/* What carries the root's program, or NULL. */
static um_tensor *find_carrier(um_tensor *const *members, int32_t count)
{
    for (int32_t m = 0; m < count; m++)
        for (int32_t i = 0; i < members[m]->in_count; i++) {
            um_tensor *x = members[m]->in[i];
            if (x->absorbed && !um_node_is_map(x)) return x;
        }
    return NULL;
}

/* Those that go over their elements once: a program is not run again and again. */
static bool wants_prologue(const um_tensor *x)
{
    bool again = x->op == UM_OP_LOGSUMEXP || x->op == UM_OP_VAR || x->op == UM_OP_STD;
    return is_reduction(x) && !again;
}

void um_fuse_plan(um_tensor *node)
{
    um_tensor *members[UM_MAP_MAX_INSTS];
    if (um_node_is_map(node)) {
        if (node->absorbed) return;
        int32_t most = UM_MIN(UM_MAP_MAX_INPUTS, inputs_max(node) + 1); /* it has no scratch */
        int32_t inputs = plan_program(node, 0, most, has_program(node));
        um_tensor *carrier = find_carrier(members, gather_members(node, members));
        if (carrier) carrier->riding = inputs - 1;
        return;
    }
    if (!wants_prologue(node)) return;
    um_tensor *x = node->in[0];
    int32_t insts, inputs, most = UM_MIN(inputs_max(node) - node->riding, UM_MAP_MAX_INPUTS);
    node->riding = 0;
    if (!has_program(x) || !is_unseen(x) || x->dtype != program_dtype(x)) return;
    own_size(x, &insts, &inputs);
    if (inputs < 1 || inputs > most) return; /* the element has to come from somewhere */
    x->absorbed = true;
    plan_program(x, 1, most, false);
}

/* ---- building the op
 * -------------------------------------------------------------------------------- */

/* A program on its way into an op. */
typedef struct part {
    um_tensor *members[UM_MAP_MAX_INSTS];
    int32_t count;
    um_tensor *zero; /* what is value 0 whatever the op's inputs are; NULL: nothing */
    int32_t first;   /* the first of the op's inputs that it may read */
} part;

/* Adds x to the op's inputs, once; returns its number. */
static int32_t memory_input(const part *p, um_op *op, um_tensor **memory, um_tensor *x)
{
    for (int32_t i = p->first; i < op->in_count; i++)
        if (memory[i] == x) return i;
    memory[op->in_count] = x;
    return op->in_count++;
}

/* Whether that input of a member comes from memory. */
static bool is_memory(const part *p, int32_t member, int32_t input)
{
    const um_tensor *x = p->members[member]->in[input];
    return !x->absorbed && x != p->zero && !um_fuse_is_constant(p->members[member], input);
}

static um_tensor *first_memory(const part *p)
{
    for (int32_t m = 0; m < p->count; m++)
        for (int32_t i = 0; i < p->members[m]->in_count; i++)
            if (is_memory(p, m, i)) return p->members[m]->in[i];
    return NULL;
}

static void add_inputs(const part *p, um_op *op, um_tensor **memory)
{
    for (int32_t m = 0; m < p->count; m++)
        for (int32_t i = 0; i < p->members[m]->in_count; i++)
            if (is_memory(p, m, i)) (void)memory_input(p, op, memory, p->members[m]->in[i]);
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

/* All inputs of the op are there. Producers come last among the members, so backwards is the order
 * of computing. */
static void emit_program(const part *p, um_op *op, um_tensor **memory, um_map_program *program)
{
    uint8_t value_of[UM_MAP_MAX_INSTS]; /* by member */
    program->dtype = program_dtype(p->members[0]);
    program->inst_count = 0;
    for (int32_t m = p->count - 1; m >= 0; m--) {
        um_tensor *node = p->members[m];
        uint8_t src[3] = {0};
        for (int32_t i = 0; i < node->in_count; i++) {
            um_tensor *x = node->in[i];
            if (x == p->zero) {
                src[i] = 0;
            } else if (x->absorbed) {
                int32_t k = m + 1;
                while (p->members[k] != x) k++;
                src[i] = value_of[k];
            } else if (um_fuse_is_constant(node, i)) {
                src[i] = (uint8_t)(op->in_count + program->inst_count);
                emit(program, UM_OP_FILL, NULL, constant_of(x));
            } else {
                src[i] = (uint8_t)memory_input(p, op, memory, x);
            }
        }
        value_of[m] = (uint8_t)(op->in_count + program->inst_count);
        emit(program, node->op, src, node->u.attrs.map.a);
    }
}

static void plain_op(const um_tensor *node, um_op *op, um_tensor **memory)
{
    op->id = node->op;
    op->attrs = node->u.attrs;
    op->in_count = node->in_count;
    for (int32_t i = 0; i < node->in_count; i++) memory[i] = node->in[i];
}

/* Whether a MAP node is its op and nothing more. */
static bool is_plain(um_tensor *root, const part *p)
{
    bool plain = p->count == 1 && !p->zero;
    for (int32_t i = 0; i < root->in_count; i++) plain = plain && !um_fuse_is_constant(root, i);
    return plain;
}

/* The op of what carries a program, its optional inputs that are not there as none. */
static void carrier_op(um_tensor *carrier, um_op *op, um_tensor **memory)
{
    plain_op(carrier, op, memory);
    while (op->in_count < um_op_get_row(op->id)->in_max) memory[op->in_count++] = NULL;
}

static void set_programs(um_op *op, const um_map_program *before, const um_map_program *after)
{
    if (op->id == UM_OP_MATMUL) {
        op->attrs.matmul.epilogue = after;
    } else if (op->id == UM_OP_CONV) {
        op->attrs.conv_fused.epilogue = after;
    } else {
        op->attrs.reduce.prologue = before;
        op->attrs.reduce.epilogue = after;
    }
}

int32_t um_fuse_op(um_tensor *root, um_op *op, um_map_program *program, um_tensor **memory)
{
    part before = {.count = 0}, after = {.count = 0};
    um_tensor *carrier = root;
    if (um_node_is_map(root)) {
        after.count = gather_members(root, after.members);
        carrier = after.zero = find_carrier(after.members, after.count);
    }
    if (!carrier) {
        plain_op(root, op, memory);
        if (is_plain(root, &after)) return 0;
        op->id = UM_OP_MAP;
        op->attrs.program = &program[UM_EPILOGUE];
        op->in_count = 0;
        add_inputs(&after, op, memory);
        emit_program(&after, op, memory, &program[UM_EPILOGUE]);
        return 0;
    }
    bool has_before = is_reduction(carrier) && carrier->in[0]->absorbed;
    if (!has_before && after.count == 0) {
        plain_op(root, op, memory);
        return op->in_count;
    }
    carrier_op(carrier, op, memory);
    before.first = after.first = op->in_count;
    if (has_before) {
        before.count = gather_members(carrier->in[0], before.members);
        memory[0] = before.zero = first_memory(&before);
        add_inputs(&before, op, memory);
    }
    int32_t own = op->in_count;
    after.first = own;
    if (after.count) add_inputs(&after, op, memory);
    if (has_before) emit_program(&before, op, memory, &program[UM_PROLOGUE]);
    if (after.count) emit_program(&after, op, memory, &program[UM_EPILOGUE]);
    set_programs(op, has_before ? &program[UM_PROLOGUE] : NULL,
                 after.count ? &program[UM_EPILOGUE] : NULL);
    return own;
}

void um_fuse_part(um_tensor *root, um_tensor **out)
{
    um_tensor *members[UM_MAP_MAX_INSTS], *x = root->in[0];
    if (um_node_is_map(root)) x = find_carrier(members, gather_members(root, members));
    x->absorbed = false;
    *out = x;
}
