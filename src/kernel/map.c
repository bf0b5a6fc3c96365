/* kernel/map.c: an element of the output from those at the same place of the inputs: elementwise
 * ops (each a program of one instruction) and programs, copy, fill, arange, linspace. An invocation
 * makes one element, or those of a 32-bit word. */
#include "op/move.h"

#include "kernel/library.h"

#include "ir/math.h"

#include <math.h>

enum { WORDS = 10 };

typedef struct map {
    const um_op *op;
    um_kernel *k;
    um_keach each;      /* its views: the output, the inputs */
    um_val word[WORDS]; /* scalars of fill, arange and linspace */
} map;

/* ---- what there is -------------------------------------------------------------------------- */

static um_map_program program_of(const um_op *op)
{
    if (op->id == UM_OP_MAP) return *op->attrs.program;
    um_map_program p = {.dtype = op->in[um_op_main_input(op->id)].dtype, .inst_count = 1};
    p.inst[0] = (um_map_inst){.op = (uint16_t)op->id, .src = {0, 1, 2}, .value = op->attrs.map.a};
    return p;
}

/* ---- a program ------------------------------------------------------------------------------ */

/* Integers wrap to the program's dtype after each step, floats do not. */
static um_val wrapped(um_kernel *k, um_dtype dtype, um_val a)
{
    um_dtype compute = um_kvalue_compute(dtype);
    if (!um_dtype_is_float(dtype)) a = um_kvalue_as(k, dtype, a);
    return um_kvalue_as(k, compute, a);
}

/* To the program's dtype and what that is computed in; a bool is 0 or 1 in any. */
static um_val loaded(um_kernel *k, um_dtype dtype, um_val a)
{
    bool is_bool = um_val_type(k, a).dtype == UM_BOOL;
    if (!is_bool) a = um_kvalue_as(k, dtype, a);
    return um_kvalue_as(k, um_kvalue_compute(dtype), a);
}

um_val um_kprogram_run(um_kernel *k, const um_map_program *p, int32_t in_count, const um_val *in)
{
    um_dtype compute = um_kvalue_compute(p->dtype);
    um_val value[UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS], made = 0;
    for (int32_t i = 0; i < in_count; i++) value[i] = loaded(k, p->dtype, in[i]);
    for (int32_t i = 0; i < p->inst_count; i++) {
        const um_map_inst *inst = &p->inst[i];
        um_val x[3] = {0};
        int32_t arity = inst->op == UM_OP_FILL ? 0 : um_op_get_row(inst->op)->in_max;
        for (int32_t a = 0; a < arity; a++) x[a] = value[inst->src[a]];
        um_op_id id = inst->op;
        if (id == UM_OP_BITWISE_NOT && p->dtype == UM_BOOL) id = UM_OP_LOGICAL_NOT;
        if (arity == 0)
            made = loaded(k, p->dtype, um_kvalue_number(k, p->dtype, inst->value));
        else
            made = um_kvalue_map(k, id, x, inst->value);
        bool truth = um_val_type(k, made).dtype == UM_BOOL;
        value[in_count + i] = truth ? um_kvalue_as(k, compute, made) : wrapped(k, p->dtype, made);
        if (!truth) made = value[in_count + i];
    }
    return made;
}

/* ---- copy, fill, arange, linspace ------------------------------------------------------------ */

static um_val from_words(um_kernel *k, um_dtype dtype, um_val low, um_val high)
{
    if (um_dtype_bits(dtype) < 64) return um_kvalue_from_bits(k, dtype, low);
    return um_k_bitcast(k, dtype, 1, um_k_vector(k, 2, (um_val[]){low, high}));
}

/* The words of fill's value. */
static uint64_t fill_bits(const um_op *op)
{
    um_dtype dtype = op->out[0].dtype;
    bool is_float = um_dtype_is_float(dtype);
    uint64_t bits = 0;
    um_class c = is_float ? UM_CLASS_F64 : dtype == UM_U64 ? UM_CLASS_U64 : UM_CLASS_I64;
    um_store(dtype, &bits, 0, 1, c, is_float ? (const void *)&op->attrs.fill.f : &op->attrs.fill.i,
             1);
    return bits;
}

/* x is two f32 whose sum is a double as good as: its parts. */
static uint64_t split_double(double x)
{
    float part[2] = {(float)x, 0};
    if (part[0] - part[0] == 0) part[1] = (float)(x - (double)part[0]);
    uint64_t bits;
    memcpy(&bits, part, sizeof bits);
    return bits;
}

/* A line of floats: what start and step are too small by is `scale`, a power of two. */
typedef struct line {
    double start, step, scale;
} line;

/* Of a linspace, in what the kernel computes in nothing must overflow on the way: f64 lacks a bit
 * for stop - start, f32 many. */
static line line_of(const um_op *op)
{
    line l = {op->attrs.arange.start, op->attrs.arange.step, 1};
    if (op->id == UM_OP_ARANGE) return l;
    double stop = op->attrs.linspace.stop, gaps = (double)(op->out[0].shape[0] - 1);
    l.start = op->attrs.linspace.start;
    double largest = fmax(fabs(l.start), fabs(stop));
    double limit = op->out[0].dtype == UM_F64 ? 0x1p1022 : 0x1p120;
    while (largest / l.scale > limit && !isinf(largest)) l.scale *= 2;
    l.start /= l.scale;
    l.step = gaps < 1 ? 0 : (stop / l.scale - l.start) / gaps;
    return l;
}

/* A float of the output's dtype. */
static uint64_t float_bits(const um_op *op, double x)
{
    uint64_t bits = 0;
    um_store(op->out[0].dtype, &bits, 0, 1, UM_CLASS_F64, &x, 1);
    return bits;
}

/* Words 0 and 1: fill's value, or start; 2 and 3: step; of linspace, 4 and 5: its first, 6 and 7:
 * its last element, 8 and 9: two f32 whose product is the scale. */
static int32_t move_words(const um_op *op, uint64_t word[WORDS / 2])
{
    um_dtype dtype = op->out[0].dtype;
    if (op->id == UM_OP_FILL) {
        word[0] = fill_bits(op);
        return 2;
    }
    if (op->id != UM_OP_ARANGE && op->id != UM_OP_LINSPACE) return 0;
    if (!um_dtype_is_float(dtype)) {
        word[0] = (uint64_t)op->attrs.arange.i_start;
        word[1] = (uint64_t)op->attrs.arange.i_step;
        return 4;
    }
    line l = line_of(op);
    word[0] = dtype == UM_F64 ? float_bits(op, l.start) : split_double(l.start);
    word[1] = dtype == UM_F64 ? float_bits(op, l.step) : split_double(l.step);
    if (op->id == UM_OP_ARANGE) return 4;
    word[2] = float_bits(op, op->attrs.linspace.start);
    word[3] = float_bits(op, op->attrs.linspace.stop);
    float scale[2] = {(float)fmin(l.scale, 0x1p127), (float)fmin(l.scale / 0x1p127, 0x1p127)};
    scale[1] = scale[1] < 1 ? 1 : scale[1];
    memcpy(&word[4], scale, sizeof scale);
    return l.scale == 1 ? 8 : 10;
}

/* sum[0] + sum[1] += a (b[0] + b[1]), to twice f32's digits. */
static void add_product(um_kernel *k, um_val sum[2], um_val a, const um_val b[2])
{
    um_val low, p = um_k_product(k, a, b[0], &low);
    low = um_k_fma(k, a, b[1], low);
    um_val lost;
    sum[0] = um_k_sum(k, sum[0], p, &lost);
    sum[1] = um_k_add(k, sum[1], um_k_add(k, lost, low));
}

/* start + e step, of floats that are computed in f32; e in two parts that f32 holds exactly. */
static um_val arange_f32(const map *m, um_val e)
{
    um_kernel *k = m->k;
    um_val part[4], high = um_k_convert(k, UM_F32, um_k_shr(k, e, um_k_u32(k, 16)));
    for (int32_t i = 0; i < 4; i++) part[i] = um_k_bitcast(k, UM_F32, 1, m->word[i]);
    um_val low = um_k_convert(k, UM_F32, um_k_and(k, e, um_k_u32(k, 0xffff)));
    um_val big = um_k_f32(k, 65536), steps[2];
    for (int32_t i = 0; i < 2; i++) steps[i] = um_k_mul(k, part[2 + i], big);
    add_product(k, part, low, part + 2);
    um_val near = um_k_add(k, part[0], part[1]);
    add_product(k, part, high, steps);
    um_val small = um_k_eq(k, high, um_k_f32(k, 0)); /* then 65536 steps may be too large */
    return um_k_select(k, small, near, um_k_add(k, part[0], part[1]));
}

static um_val arange(const map *m, um_val e)
{
    um_dtype dtype = m->op->out[0].dtype, compute = um_kvalue_compute(dtype);
    if (compute == UM_F32) return arange_f32(m, e);
    um_val start = from_words(m->k, compute, m->word[0], m->word[1]);
    um_val step = from_words(m->k, compute, m->word[2], m->word[3]);
    um_val x = um_k_mul(m->k, um_kvalue_as(m->k, compute, e), step);
    return um_k_add(m->k, start, x);
}

static um_val linspace(const map *m, um_val e)
{
    um_kernel *k = m->k;
    um_dtype dtype = m->op->out[0].dtype;
    um_val x = arange(m, e), last = um_k_sub(k, m->each.count, um_k_u32(k, 1));
    for (int32_t i = 8; i < WORDS && m->word[i]; i++) {
        um_val scale = um_k_bitcast(k, UM_F32, 1, m->word[i]);
        x = um_k_mul(k, x, um_kvalue_as(k, um_kvalue_compute(dtype), scale));
    }
    um_val first = from_words(k, dtype, m->word[4], m->word[5]);
    um_val end = from_words(k, dtype, m->word[6], m->word[7]);
    x = um_k_select(k, um_k_eq(k, e, last), end, um_kvalue_as(k, dtype, x));
    return um_k_select(k, um_k_eq(k, e, um_k_u32(k, 0)), first, x);
}

/* By the rule for what is too large. Integers are too large long before f32 rounds them. */
static um_val copy(const map *m, um_val x)
{
    um_kernel *k = m->k;
    um_dtype from = m->op->in[0].dtype, to = m->op->out[0].dtype;
    const um_limit *limit = um_limit_find(m->op->attrs.copy.overflow, to, from);
    if (!limit) return um_kvalue_as(k, to, x);
    um_dtype compute = from == UM_F64 || to == UM_F64 ? UM_F64 : UM_F32;
    x = um_kvalue_as(k, compute, x);
    um_val at = um_kvalue_number(k, compute, limit->at), size = um_k_abs(k, x);
    bool rounded = compute == UM_F32 && (double)(float)limit->at < limit->at;
    um_val over = rounded ? um_k_gt(k, size, at) : um_k_ge(k, size, at);
    um_val below = um_k_lt(k, x, um_kvalue_number(k, compute, 0));
    um_val made = um_kvalue_number(k, compute, (double)NAN);
    if (limit->rule == UM_OVERFLOW_SATURATE) made = um_k_select(k, below, um_k_neg(k, at), at);
    return um_kvalue_as(k, to, um_k_select(k, over, made, x));
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static um_val element(const map *m)
{
    um_val in[UM_MAP_MAX_INPUTS], e = m->each.number;
    um_dtype dtype = m->op->out[0].dtype;
    for (int32_t i = 0; i < m->op->in_count; i++) in[i] = um_keach_load(&m->each, i + 1);
    um_map_program program;
    switch (m->op->id) {
    case UM_OP_COPY: return copy(m, in[0]);
    case UM_OP_FILL: return from_words(m->k, dtype, m->word[0], m->word[1]);
    case UM_OP_ARANGE: return arange(m, e);
    case UM_OP_LINSPACE: return linspace(m, e);
    default: program = program_of(m->op);
    }
    return um_kprogram_run(m->k, &program, m->op->in_count, in);
}

um_status um_kmap_plan(const um_op *op, um_kplan *plan)
{
    const um_view *views[UM_KVIEWS] = {&op->out[0]};
    uint64_t word[WORDS / 2] = {0};
    for (int32_t i = 0; i < op->in_count; i++) views[i + 1] = &op->in[i];
    map m = {.op = op, .each.walk = um_kwalk_make(op->in_count + 1, views, 0)};
    UM_TRY(um_keach_create(&m.each, plan, um_op_name(op->id)));
    m.k = m.each.k;
    for (int32_t i = 0; i < op->in_count; i++) um_keach_read(&m.each, i + 1);
    int32_t words = move_words(op, word);
    for (int32_t i = 0; i < words; i++)
        m.word[i] = um_klaunch_scalar(m.each.launch, (int64_t)(word[i / 2] >> 32 * (i % 2)),
                                      "word%d", (int)i);
    um_keach_begin(&m.each);
    um_keach_store(&m.each, element(&m));
    return um_keach_finish(&m.each);
}
