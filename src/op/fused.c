/* op/fused.c: programs that ride on an op, a prologue or an epilogue: where its attributes have
 * them, their rule, test inputs. map's own program, of which they are kin, is in map.c. */
#include "op/rule.h"

/* ---- where they are ------------------------------------------------------------------------- */

static const um_map_program **slot_of(um_op_id id, um_attrs *attrs, int32_t which)
{
    if (id >= UM_OP_SUM && id <= UM_OP_STD && id != UM_OP_ARGMAX && id != UM_OP_ARGMIN)
        return which == UM_PROLOGUE ? &attrs->reduce.prologue : &attrs->reduce.epilogue;
    if (which == UM_PROLOGUE) return NULL;
    switch (id) {
    case UM_OP_MAP: return &attrs->program;
    case UM_OP_MATMUL: return &attrs->matmul.epilogue;
    case UM_OP_CONV: return &attrs->conv_fused.epilogue;
    default: return NULL;
    }
}

const um_map_program *um_op_program(const um_op *op, int32_t which)
{
    um_attrs attrs = op->attrs;
    const um_map_program **slot = slot_of(op->id, &attrs, which);
    return slot ? *slot : NULL;
}

um_attrs um_op_plain_attrs(const um_op *op)
{
    um_attrs attrs = op->attrs;
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        const um_map_program **slot = slot_of(op->id, &attrs, which);
        if (slot) *slot = NULL;
    }
    return attrs;
}

static size_t bytes_of(const um_map_program *program)
{
    if (!program) return 0;
    return offsetof(um_map_program, inst) + (size_t)program->inst_count * sizeof program->inst[0];
}

size_t um_op_program_bytes(const um_op *op)
{
    size_t bytes = 0; /* a program's are a multiple of 8 */
    for (int32_t which = 0; which < UM_PROGRAMS; which++)
        bytes += bytes_of(um_op_program(op, which));
    return bytes;
}

void um_op_move_programs(um_op *op, void *to)
{
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        const um_map_program **slot = slot_of(op->id, &op->attrs, which);
        size_t bytes = slot ? bytes_of(*slot) : 0;
        if (bytes == 0) continue;
        *slot = memcpy(to, *slot, bytes);
        to = (char *)to + bytes;
    }
}

void um_sample_own_programs(um_sample *sample)
{
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        const um_map_program **slot = slot_of(sample->op.id, &sample->op.attrs, which);
        if (slot && *slot) *slot = &sample->program[which];
    }
}

bool um_rule_has_rider(const um_op *op)
{
    return op->id != UM_OP_MAP &&
           (um_op_program(op, UM_PROLOGUE) || um_op_program(op, UM_EPILOGUE));
}

int32_t um_op_own_inputs(const um_op *op)
{
    int32_t most = um_op_get_row(op->id)->in_max;
    return um_rule_has_rider(op) ? UM_MIN(most, op->in_count) : op->in_count;
}

um_dtype um_op_made_dtype(const um_op *op)
{
    const um_op_row *row = um_op_get_row(op->id);
    const um_map_program *prologue = um_op_program(op, UM_PROLOGUE);
    um_dtype dtype = prologue ? prologue->dtype : op->in[0].dtype;
    if (row->result == UM_RESULT_BOOL) return UM_BOOL;
    if (row->family == UM_FAMILY_MATMUL && (dtype == UM_I8 || dtype == UM_U8)) return UM_I32;
    return um_dtype_is_float(dtype) && dtype != UM_F64 ? UM_F32 : dtype;
}

/* ---- what they read -------------------------------------------------------------------------- */

static int32_t arity_of(um_op_id id) { return id == UM_OP_FILL ? 0 : um_op_get_row(id)->in_max; }

/* The values from outside that a program reads, as bits. */
static uint32_t values_read(const um_op *op, const um_map_program *program)
{
    uint32_t read = 0;
    for (int32_t i = 0; program && i < program->inst_count; i++) {
        const um_map_inst *inst = &program->inst[i];
        for (int32_t k = 0; k < arity_of(inst->op); k++)
            if (inst->src[k] < op->in_count) read |= (uint32_t)1 << inst->src[k];
    }
    return read;
}

bool um_op_rider(const um_op *op, int32_t which, um_rider *out)
{
    const um_map_program *program = um_op_program(op, which);
    uint8_t number[UM_OP_MAX_INPUTS] = {0};
    if (!program) return false;
    uint32_t read = values_read(op, program) | 1;
    out->in_count = 0;
    for (int32_t i = 0; i < op->in_count; i++) {
        if (!(read >> i & 1)) continue;
        number[i] = (uint8_t)out->in_count;
        out->input[out->in_count++] = i;
    }
    memcpy(&out->program, program, bytes_of(program));
    for (int32_t i = 0; i < program->inst_count; i++)
        for (int32_t k = 0; k < arity_of(program->inst[i].op); k++) {
            int32_t value = program->inst[i].src[k];
            value = value < op->in_count ? number[value] : value - op->in_count + out->in_count;
            out->program.inst[i].src[k] = (uint8_t)value;
        }
    return true;
}

/* ---- the rule ------------------------------------------------------------------------------- */

static const char *const names[] = {"prologue", "epilogue"};

/* That it reads the element, inputs behind the op's own, or earlier instructions. */
static um_status check_sources(const um_op *op, const um_map_program *program, const char *name,
                               int32_t index)
{
    int32_t own = um_op_own_inputs(op), defined = op->in_count + index;
    const um_map_inst *inst = &program->inst[index];
    for (int32_t k = 0; k < arity_of(inst->op); k++) {
        int32_t value = inst->src[k];
        if (value < defined && (value == 0 || value >= own)) continue;
        return um_rule_fail(op, "%s, instruction %d: %s reads value %d, wants 0 or %d to %d", name,
                            (int)index, um_op_name(inst->op), (int)value, (int)own,
                            (int)(defined - 1));
    }
    return UM_OK;
}

um_status um_rule_check_riders(const um_op *op)
{
    for (int32_t which = 0; which < UM_PROGRAMS && um_rule_has_rider(op); which++) {
        const um_map_program *program = um_op_program(op, which);
        if (!program) continue;
        UM_TRY(um_rule_check_program(op, program, names[which]));
        for (int32_t i = 0; i < program->inst_count; i++)
            UM_TRY(check_sources(op, program, names[which], i));
        int32_t count = 0;
        for (uint32_t read = values_read(op, program) | 1; read; read &= read - 1) count++;
        if (count > UM_MAP_MAX_INPUTS)
            return um_rule_fail(op, "%s: reads %d inputs, at most %d", names[which], (int)count,
                                UM_MAP_MAX_INPUTS);
    }
    return UM_OK;
}

um_status um_rule_check_rider_views(const um_op *op, um_view *out)
{
    if (!um_rule_has_rider(op)) return UM_OK;
    const um_view *like[] = {&op->in[0], &out[0]};
    uint32_t all = 0;
    out[0].dtype = op->out[0].dtype;
    if (!um_dtype_valid(out[0].dtype) || !(UM_DTYPES_FIB & UM_BIT(out[0].dtype)))
        return um_rule_fail(op, "no program gives %s", um_dtype_name(out[0].dtype));
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        uint32_t read = values_read(op, um_op_program(op, which));
        all |= read;
        for (int32_t i = um_op_own_inputs(op); i < op->in_count; i++) {
            if (!(read >> i & 1)) continue;
            if (!(UM_DTYPES_FIB & UM_BIT(op->in[i].dtype)))
                return um_rule_fail(op, "%s: input %d is %s: programs do not load that",
                                    names[which], (int)i, um_dtype_name(op->in[i].dtype));
            if (!um_shapes_equal(&op->in[i], like[which]))
                return um_rule_fail_views(
                    op, which ? "epilogue: shapes differ" : "prologue: shapes differ",
                    which ? "the output" : "x", like[which], "its input", &op->in[i]);
        }
    }
    for (int32_t i = um_op_own_inputs(op); i < op->in_count; i++)
        if (!(all >> i & 1)) return um_rule_fail(op, "no program reads input %d", (int)i);
    return UM_OK;
}

bool um_rule_epilogue_alone_reads(const um_op *op, int32_t index)
{
    return um_rule_has_rider(op) && index >= um_op_own_inputs(op) &&
           !(values_read(op, um_op_program(op, UM_PROLOGUE)) >> index & 1);
}

/* ---- samples -------------------------------------------------------------------------------- */

enum { FLOATS = 1, INTS = 2, BOOLS = 4, ANY = FLOATS | INTS | BOOLS };
/* Instead of value numbers: the element, inputs of the row, and from I on its instructions. */
enum { X = 0, Y = 1, Z = 2, I = 8 };

/* One program. sums: its values are not exact, as a prologue it is for ops that add up. */
typedef struct rider_row {
    int32_t kinds; /* of the dtype that it computes in; 0: there is no such program */
    int32_t in_count;
    um_dtype in_dtype; /* of the first input; NONE: the program's */
    bool sums;
    um_map_inst inst[6]; /* as many as have an op */
} rider_row;

/* out: NONE: what it would be without. */
static const struct fused_row {
    const char *name;
    um_dtype out;
    rider_row before, after;
} fused_rows[] = {
    {"x*y", 0, {FLOATS | INTS, 1, 0, false, {{UM_OP_MUL, {X, Y}, 0, 0}}}, {0}},
    {"clamp", 0, {0}, {FLOATS | INTS, 2, 0, false, {{UM_OP_CLAMP, {X, Y, Z}, 0, 0}}}},
    {"exp(x-y)",
     UM_F32,
     {FLOATS, 1, 0, true, {{UM_OP_SUB, {X, Y}, 0, 0}, {UM_OP_EXP, {I}, 0, 0}}},
     {0}},
    {"max(x,0)",
     0,
     {FLOATS | INTS, 0, 0, false, {{UM_OP_FILL, {0}, 0, 0}, {UM_OP_MAX, {X, I}, 0, 0}}},
     {FLOATS | INTS, 1, UM_I8, false, {{UM_OP_ADD, {X, Y}, 0, 0}}}},
    {"where(y,x,z)",
     UM_F64,
     {ANY, 2, UM_BOOL, false, {{UM_OP_WHERE, {Y, X, Z}, 0, 0}}},
     {FLOATS,
      1,
      UM_F32,
      false,
      {{UM_OP_FILL, {0}, 0, 0.25},
       {UM_OP_MUL, {X, I}, 0, 0},
       {UM_OP_SIGMOID, {I + 1}, 0, 0},
       {UM_OP_MUL, {I + 2, Y}, 0, 0}}}},
    {"to bf16",
     UM_BF16,
     {0},
     {FLOATS,
      2,
      UM_F16,
      false,
      {{UM_OP_TANH, {X}, 0, 0}, {UM_OP_ADD, {I, Y}, 0, 0}, {UM_OP_MUL, {I + 1, Z}, 0, 0}}}},
    {"gelu(x)+y",
     0,
     {0},
     {FLOATS, 1, 0, false, {{UM_OP_GELU, {X}, 0, 0}, {UM_OP_ADD, {I, Y}, 0, 0}}}},
    {"to bool",
     UM_BOOL,
     {0},
     {ANY, 1, UM_BOOL, false, {{UM_OP_FILL, {0}, 0, 1}, {UM_OP_LOGICAL_XOR, {Y, I}, 0, 0}}}},
    {"constant",
     UM_I16,
     {INTS, 0, 0, false, {{UM_OP_FILL, {0}, 0, 3}}},
     {INTS, 0, 0, false, {{UM_OP_FILL, {0}, 0, 300}, {UM_OP_ADD, {X, I}, 0, 0}}}},
};

static int32_t kind_of(um_dtype dtype)
{
    return um_dtype_is_float(dtype) ? FLOATS : dtype == UM_BOOL ? BOOLS : INTS;
}

/* What the row's program on the op computes in; NONE: it does not suit. */
static um_dtype dtype_for(const um_op *op, int32_t which, const rider_row *row)
{
    um_attrs attrs = op->attrs;
    bool adds = op->id == UM_OP_SUM || op->id == UM_OP_MEAN || op->id == UM_OP_L1;
    um_dtype dtype = which == UM_PROLOGUE ? op->in[0].dtype : um_op_made_dtype(op);
    if (which == UM_EPILOGUE && !(row->kinds & kind_of(dtype))) dtype = UM_F32;
    if (!slot_of(op->id, &attrs, which) || !(row->kinds & kind_of(dtype))) return UM_DTYPE_NONE;
    return which == UM_EPILOGUE || !row->sums || adds ? dtype : UM_DTYPE_NONE;
}

static void add_inputs(um_sample *sample, const rider_row *row, um_dtype dtype, const um_view *like)
{
    bool product = sample->op.id == UM_OP_PROD && um_dtype_is_float(dtype);
    um_dims dims = {.rank = like->rank};
    for (int32_t i = 0; i < like->rank; i++) dims.size[i] = (int32_t)like->shape[i];
    for (int32_t i = 0; i < row->in_count; i++)
        um_sample_input(sample, i == 0 && row->in_dtype ? row->in_dtype : dtype, &dims,
                        product ? 0.9 : -2, product ? 1.1 : 2);
}

/* first: the number of the program's first input. */
static void add_program(um_sample *sample, int32_t which, const rider_row *row, um_dtype dtype,
                        int32_t first)
{
    um_map_program *program = &sample->program[which];
    int32_t in_count = sample->op.in_count;
    if (!row->kinds) return;
    *slot_of(sample->op.id, &sample->op.attrs, which) = program;
    program->dtype = dtype;
    for (size_t i = 0; i < UM_COUNT_OF(row->inst) && row->inst[i].op; i++) {
        um_map_inst inst = row->inst[i];
        for (int32_t k = 0; k < arity_of(inst.op); k++) {
            int32_t src = inst.src[k];
            inst.src[k] = (uint8_t)(src >= I ? in_count + src - I : src > 0 ? first + src - 1 : 0);
        }
        program->inst[program->inst_count++] = inst;
    }
}

bool um_sample_ride(int32_t index, um_sample *sample)
{
    um_op *op = &sample->op;
    const struct fused_row *row = fused_rows, *end = row + UM_COUNT_OF(fused_rows);
    um_dtype before = UM_DTYPE_NONE, after = UM_DTYPE_NONE;
    const um_view out = op->out[0], x = op->in[0];
    um_dtype plain = UM_DTYPES_FIB & UM_BIT(out.dtype) ? out.dtype : UM_F16;
    for (; row < end; row++) {
        before = dtype_for(op, UM_PROLOGUE, &row->before);
        after = dtype_for(op, UM_EPILOGUE, &row->after);
        if ((row->before.kinds && !before) || (row->after.kinds && !after)) continue;
        if (index-- == 0) break;
    }
    if (row == end) return false;
    while (op->in_count < um_op_get_row(op->id)->in_max) um_sample_none(sample, out.dtype);
    int32_t first = op->in_count;
    add_inputs(sample, &row->before, before, &x);
    add_inputs(sample, &row->after, after, &out);
    add_program(sample, UM_PROLOGUE, &row->before, before, first);
    add_program(sample, UM_EPILOGUE, &row->after, after, first + row->before.in_count);
    um_sample_label(sample, " %s", row->name);
    return um_sample_finish(sample, row->out ? row->out : plain);
}
