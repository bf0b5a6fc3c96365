/* op/map.c: the elementwise family: one rule for the plain rows (map) and one for fused programs
 * (program). Inputs have the output's shape; who broadcasts says so with strides of 0. */
#include "op/rule.h"

/* ---- map ------------------------------------------------------------------------------------ */

static const char *input_name(int32_t index) { return index == 0 ? "a" : index == 1 ? "b" : "c"; }

um_status um_infer_map(const um_op *op, um_view *out)
{
    int32_t main = um_op_main_input(op->id);
    const um_view *a = &op->in[main];
    for (int32_t i = 0; i < op->in_count; i++) {
        const um_view *x = &op->in[i];
        if (!um_shapes_equal(a, x))
            return um_rule_fail_views(op, "shapes differ", input_name(main), a, input_name(i), x);
        if (i < main && x->dtype != UM_BOOL)
            return um_rule_fail_view(op, "the condition must be bool", input_name(i), x);
        if (i > main && x->dtype != a->dtype)
            return um_rule_fail_views(op, "dtypes differ", input_name(main), a, input_name(i), x);
    }
    bool is_bool = um_op_get_row(op->id)->result == UM_RESULT_BOOL;
    um_rule_like(out, is_bool ? UM_BOOL : a->dtype, a);
    return UM_OK;
}

/* ---- program -------------------------------------------------------------------------------- */

static um_status check_inst(const um_op *op, const um_map_program *program, const char *whose,
                            int32_t index)
{
    const um_map_inst *inst = &program->inst[index];
    const um_op_row *row = um_op_get_row(inst->op);
    const char *name = um_op_name(inst->op), *comma = whose[0] ? ", " : "";
    bool is_fill = inst->op == UM_OP_FILL;
    if (!row || (!is_fill && (row->family != UM_FAMILY_MAP || inst->op == UM_OP_MAP)))
        return um_rule_fail(op, "%s%sinstruction %d is op %d (%s), wants an elementwise op or fill",
                            whose, comma, (int)index, (int)inst->op, name);
    if (!(row->dtypes & UM_BIT(program->dtype)))
        return um_rule_fail(op, "%s%sinstruction %d: %s does not compute in %s", whose, comma,
                            (int)index, name, um_dtype_name(program->dtype));
    int32_t arity = is_fill ? 0 : row->in_max, defined = op->in_count + index;
    for (int32_t i = 0; i < arity; i++)
        if (inst->src[i] >= defined)
            return um_rule_fail(op, "%s%sinstruction %d: %s reads value %d, only %d are defined",
                                whose, comma, (int)index, name, (int)inst->src[i], (int)defined);
    return UM_OK;
}

um_status um_rule_check_program(const um_op *op, const um_map_program *program, const char *whose)
{
    const char *colon = whose[0] ? ": " : "";
    if (!um_dtype_valid(program->dtype) || !(UM_DTYPES_FIB & UM_BIT(program->dtype)))
        return um_rule_fail(op, "%s%sno program computes in %s", whose, colon,
                            um_dtype_name(program->dtype));
    if (program->inst_count < 1 || program->inst_count > UM_MAP_MAX_INSTS)
        return um_rule_fail(op, "%s%swants 1 to %d instructions, got %d", whose, colon,
                            UM_MAP_MAX_INSTS, (int)program->inst_count);
    for (int32_t i = 0; i < program->inst_count; i++) UM_TRY(check_inst(op, program, whose, i));
    return UM_OK;
}

um_status um_infer_program(const um_op *op, um_view *out)
{
    const um_map_program *program = op->attrs.program;
    if (!program) return um_rule_fail(op, "attrs.program is NULL");
    UM_TRY(um_rule_check_program(op, program, ""));
    for (int32_t i = 0; i < op->in_count; i++) {
        if (!(UM_DTYPES_FIB & UM_BIT(op->in[i].dtype)))
            return um_rule_fail(op, "input %d is %s: programs do not load that", (int)i,
                                um_dtype_name(op->in[i].dtype));
        if (!um_shapes_equal(&op->in[0], &op->in[i]))
            return um_rule_fail_views(op, "shapes differ", "input 0", &op->in[0], "another",
                                      &op->in[i]);
    }
    if (op->in_count > 0) um_rule_like(out, out->dtype, &op->in[0]);
    return UM_OK;
}

/* ---- samples of map ------------------------------------------------------------------------- */

/* level 0: where the function does its work; 1: further out (or nearer to 0); 2: ten times that. */
static const struct {
    um_dims dims;
    int32_t level;
} map_shapes[] = {
    {UM_DIMS(33, 65), 0},
    {UM_DIMS(33, 65), 1},
    {UM_DIMS(33, 65), 2},
    {UM_SCALAR, 0},
    {UM_DIMS(0), 0},
    {UM_DIMS(1), 0},
    {UM_DIMS(17), 0},
    {UM_DIMS(257), 1},
    {UM_DIMS(3, 0, 5), 0},
    {UM_DIMS(5, 7), 0},
    {UM_DIMS(129, 3), 0},
    {UM_DIMS(2, 3, 1, 5, 7), 0},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), 0},
    {UM_DIMS(300, 257), 0},
};

/* Ranges of float inputs at level 0 and 1; the last row is for every op that has none. */
static const struct float_range {
    um_op_id op;
    double lo, hi, lo_1, hi_1;
} float_ranges[] = {
    {UM_OP_EXP, -20, 20, -120, 120},     {UM_OP_EXP2, -20, 20, -160, 160},
    {UM_OP_EXPM1, -20, 20, -0.1, 0.1},   {UM_OP_LOG, -0.5, 10, 0, 1e6},
    {UM_OP_LOG1P, -1.1, 5, -0.01, 0.01}, {UM_OP_LOG2, -0.5, 10, 0, 1e6},
    {UM_OP_LOG10, -0.5, 10, 0, 1e6},     {UM_OP_SQRT, -0.5, 10, 0, 1e6},
    {UM_OP_RSQRT, -0.5, 10, 0, 1e6},     {UM_OP_SIN, -8, 8, -1e4, 1e4},
    {UM_OP_COS, -8, 8, -1e4, 1e4},       {UM_OP_TAN, -8, 8, -1e4, 1e4},
    {UM_OP_ASIN, -1, 1, -0.11, 0.11},    {UM_OP_ACOS, -1, 1, -0.11, 0.11},
    {UM_OP_SINH, -20, 20, -0.1, 0.1},    {UM_OP_COSH, -20, 20, -120, 120},
    {UM_OP_ASINH, -8, 8, -1e6, 1e6},     {UM_OP_ACOSH, 0.9, 10, 1, 1e6},
    {UM_OP_ATANH, -1, 1, -0.11, 0.11},   {UM_OP_FLOOR, -8, 8, -1e6, 1e6},
    {UM_OP_CEIL, -8, 8, -1e6, 1e6},      {UM_OP_TRUNC, -8, 8, -1e6, 1e6},
    {UM_OP_ROUND, -8, 8, -1e6, 1e6},     {UM_OP_ERF, -4, 4, -0.1, 0.1},
    {UM_OP_POW, 0.05, 8, -8, 8},         {UM_OP_HYPOT, -8, 8, -1e19, 1e19},
    {UM_OP_NONE, -8, 8, -100, 100},
};

static void add_float_input(um_sample *s, um_dtype dtype, const um_dims *dims, int32_t level)
{
    const struct float_range *range = float_ranges;
    while (range->op != s->op.id && range->op != UM_OP_NONE) range++;
    double factor = level == 2 ? 10 : 1;
    if (level == 0)
        um_sample_input(s, dtype, dims, range->lo, range->hi);
    else
        um_sample_input(s, dtype, dims, range->lo_1 * factor, range->hi_1 * factor);
}

/* Comparisons and logic, which see two equal numbers, or a 0, only when there are few numbers. */
static bool wants_ties(um_op_id op)
{
    return um_op_get_row(op)->result == UM_RESULT_BOOL || op == UM_OP_MAX || op == UM_OP_MIN;
}

/* The second input where it has another role than the first. */
static bool add_second_input(um_sample *s, um_dtype dtype, const um_dims *dims, int32_t level)
{
    bool is_float = um_dtype_is_float(dtype);
    if (s->op.id == UM_OP_POW && is_float && level == 0)
        um_sample_input(s, dtype, dims, -4, 4);
    else if (s->op.id == UM_OP_POW)
        um_sample_indices(s, dtype, dims, is_float ? -6 : -2, is_float ? 6 : 9);
    else if (s->op.id == UM_OP_SHIFT_LEFT || s->op.id == UM_OP_SHIFT_RIGHT)
        um_sample_indices(s, dtype, dims, -2, um_dtype_bits(dtype) + 2);
    else if (!is_float &&
             (s->op.id == UM_OP_DIV || s->op.id == UM_OP_REMAINDER || s->op.id == UM_OP_FMOD))
        um_sample_indices(s, dtype, dims, -7, 7);
    else
        return false;
    return true;
}

bool um_sample_map(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (index >= (int32_t)UM_COUNT_OF(map_shapes)) return false;
    const um_dims *dims = &map_shapes[index].dims;
    int32_t level = map_shapes[index].level;
    um_op_id op = sample->op.id;
    double everything = 1e30; /* cut to what the dtype holds */
    for (int32_t i = 0; i < um_op_get_row(op)->in_max; i++) {
        if (i == 0 && op == UM_OP_WHERE)
            um_sample_input(sample, UM_BOOL, dims, 0, 1);
        else if (i == 1 && add_second_input(sample, dtype, dims, level))
            continue;
        else if (level == 2 && wants_ties(op))
            um_sample_indices(sample, dtype, dims, -2, 2);
        else if (um_dtype_is_float(dtype))
            add_float_input(sample, dtype, dims, level);
        else
            um_sample_input(sample, dtype, dims, level ? -everything : -100,
                            level ? everything : 100);
    }
    if (op == UM_OP_ELU) sample->op.attrs.map.a = index % 2 ? 0.3 : 1;
    if (op == UM_OP_LEAKY_RELU) sample->op.attrs.map.a = index % 2 ? -0.5 : 0.01;
    um_sample_label_input(sample);
    if (level) um_sample_label(sample, " level=%d", (int)level);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

/* ---- samples of program --------------------------------------------------------------------- */

/* Value numbers start with the inputs. No program compares what it has rounded: that could turn
 * either way. */
static const struct program_row {
    const char *name;
    uint32_t dtypes;
    int32_t in_count;
    um_dtype in_dtype;                  /* of inputs 1, 3, ...; NONE: the program's */
    um_dtype out_dtype;                 /* NONE: the program's */
    um_map_inst inst[UM_MAP_MAX_INSTS]; /* as many as have an op */
} program_rows[] = {
    {"swiglu", UM_DTYPES_F, 2, 0, 0, {{UM_OP_SILU, {0}, 0, 0}, {UM_OP_MUL, {2, 1}, 0, 0}}},
    {"bias_gelu",
     UM_DTYPES_F,
     2,
     UM_F32,
     UM_BF16,
     {{UM_OP_ADD, {0, 1}, 0, 0},
      {UM_OP_GELU, {2}, 0, 0},
      {UM_OP_FILL, {0}, 0, 0.5},
      {UM_OP_MUL, {3, 4}, 0, 0}}},
    {"select", UM_DTYPES_FIB, 3, 0, 0, {{UM_OP_LT, {0, 1}, 0, 0}, {UM_OP_WHERE, {3, 0, 2}, 0, 0}}},
    {"not_ge",
     UM_DTYPES_FIB,
     2,
     0,
     UM_BOOL,
     {{UM_OP_GE, {0, 1}, 0, 0}, {UM_OP_LOGICAL_NOT, {2}, 0, 0}}},
    {"constant",
     UM_DTYPES_FI,
     0,
     0,
     0,
     {{UM_OP_FILL, {0}, 0, 2.75}, {UM_OP_FILL, {0}, 0, 3}, {UM_OP_MUL, {0, 1}, 0, 0}}},
    {"sum_of_8",
     UM_DTYPES_FI,
     8,
     UM_I8,
     0,
     {{UM_OP_ADD, {0, 1}, 0, 0},
      {UM_OP_ADD, {2, 8}, 0, 0},
      {UM_OP_ADD, {3, 9}, 0, 0},
      {UM_OP_ADD, {10, 4}, 0, 0},
      {UM_OP_ADD, {11, 5}, 0, 0},
      {UM_OP_ADD, {6, 12}, 0, 0},
      {UM_OP_ADD, {7, 13}, 0, 0}}},
    /* 24 instructions: exp(x) by Horner's rule, constants and steps in turn. */
    {"horner",
     UM_DTYPES_F,
     1,
     0,
     UM_F32,
     {{UM_OP_FILL, {0}, 0, 2.08767569878681e-9},
      {UM_OP_FILL, {0}, 0, 2.50521083854417e-8},
      {UM_OP_FMA, {1, 0, 2}, 0, 0},
      {UM_OP_FILL, {0}, 0, 2.75573192239859e-7},
      {UM_OP_FMA, {3, 0, 4}, 0, 0},
      {UM_OP_FILL, {0}, 0, 2.75573192239859e-6},
      {UM_OP_FMA, {5, 0, 6}, 0, 0},
      {UM_OP_FILL, {0}, 0, 2.48015873015873e-5},
      {UM_OP_FMA, {7, 0, 8}, 0, 0},
      {UM_OP_FILL, {0}, 0, 1.98412698412698e-4},
      {UM_OP_FMA, {9, 0, 10}, 0, 0},
      {UM_OP_FILL, {0}, 0, 1.38888888888889e-3},
      {UM_OP_FMA, {11, 0, 12}, 0, 0},
      {UM_OP_FILL, {0}, 0, 8.33333333333333e-3},
      {UM_OP_FMA, {13, 0, 14}, 0, 0},
      {UM_OP_FILL, {0}, 0, 4.16666666666667e-2},
      {UM_OP_FMA, {15, 0, 16}, 0, 0},
      {UM_OP_FILL, {0}, 0, 1.66666666666667e-1},
      {UM_OP_FMA, {17, 0, 18}, 0, 0},
      {UM_OP_FILL, {0}, 0, 0.5},
      {UM_OP_FMA, {19, 0, 20}, 0, 0},
      {UM_OP_FILL, {0}, 0, 1},
      {UM_OP_FMA, {21, 0, 22}, 0, 0},
      {UM_OP_FMA, {23, 0, 22}, 0, 0}}},
    {"bits",
     UM_DTYPES_I,
     2,
     UM_I16,
     UM_I64,
     {{UM_OP_FILL, {0}, 0, 3},
      {UM_OP_SHIFT_LEFT, {0, 2}, 0, 0},
      {UM_OP_BITWISE_XOR, {3, 1}, 0, 0},
      {UM_OP_BITWISE_NOT, {4}, 0, 0},
      {UM_OP_BITWISE_AND, {5, 0}, 0, 0},
      {UM_OP_FILL, {0}, 0, 100},
      {UM_OP_CLAMP, {6, 2, 7}, 0, 0},
      {UM_OP_SUB, {1, 8}, 0, 0}}},
    {"logic",
     UM_DTYPES_FIB,
     2,
     UM_BOOL,
     UM_U8,
     {{UM_OP_LOGICAL_AND, {0, 1}, 0, 0},
      {UM_OP_LOGICAL_XOR, {2, 0}, 0, 0},
      {UM_OP_MAX, {3, 2}, 0, 0}}},
    {"slopes",
     UM_DTYPES_F,
     1,
     0,
     UM_F64,
     {{UM_OP_ELU, {0}, 0, 0.5},
      {UM_OP_LEAKY_RELU, {0}, 0, 0.125},
      {UM_OP_ISNAN, {0}, 0, 0},
      {UM_OP_WHERE, {3, 1, 2}, 0, 0}}},
    {"to_int", UM_DTYPES_F, 1, 0, UM_I32, {{UM_OP_FILL, {0}, 0, 4}, {UM_OP_MUL, {0, 1}, 0, 0}}},
    {"negate", UM_DTYPES_FI, 1, 0, 0, {{UM_OP_NEG, {0}, 0, 0}}},
};

static const um_dims program_shapes[] = {UM_DIMS(5, 7),    UM_DIMS(1025),   UM_SCALAR,
                                         UM_DIMS(0),       UM_DIMS(33, 65), UM_DIMS(2, 3, 1, 5, 7),
                                         UM_DIMS(129, 257)};

/* The number'th program that computes in dtype, or NULL. */
static const struct program_row *find_program(int32_t number, um_dtype dtype)
{
    for (size_t i = 0; i < UM_COUNT_OF(program_rows); i++)
        if ((program_rows[i].dtypes & UM_BIT(dtype)) && number-- == 0) return &program_rows[i];
    return NULL;
}

bool um_sample_program(int32_t index, um_dtype dtype, um_sample *sample)
{
    const int32_t shape_count = (int32_t)UM_COUNT_OF(program_shapes);
    const struct program_row *row = find_program(index / shape_count, dtype);
    if (!row) return false;
    const um_dims *dims = &program_shapes[index % shape_count];
    for (int32_t i = 0; i < row->in_count; i++) {
        um_dtype in_dtype = i % 2 && row->in_dtype ? row->in_dtype : dtype;
        um_sample_input(sample, in_dtype, dims, -3, 3);
    }
    um_map_program *program = &sample->program[UM_EPILOGUE];
    program->dtype = dtype;
    while (program->inst_count < UM_MAP_MAX_INSTS && row->inst[program->inst_count].op) {
        program->inst[program->inst_count] = row->inst[program->inst_count];
        program->inst_count++;
    }
    sample->op.attrs.program = program;
    sample->op.out[0].rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) sample->op.out[0].shape[i] = dims->size[i];
    um_dtype out_dtype = row->out_dtype ? row->out_dtype : dtype;
    um_sample_label(sample, "%s rank=%d out=%s", row->name, (int)dims->rank,
                    um_dtype_name(out_dtype));
    return um_sample_finish(sample, out_dtype);
}
