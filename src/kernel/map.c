/* kernel/map.c: an element of the output from those at the same place of the inputs: elementwise
 * ops (each a program of one instruction) and programs, copy, fill, arange. An invocation makes one
 * element, or those of a 32-bit word. */
#include "kernel/library.h"

#include <stdio.h>

typedef struct map {
    const um_op *op;
    um_kernel *k;
    um_klaunch *launch;
    um_kwalk walk; /* view 0 is the output */
    um_kview out, in[UM_MAP_MAX_INPUTS];
    const um_map_program *program; /* NULL: copy, fill or arange */
    um_val count, shift, size[UM_MAX_RANK];
    um_val word[4]; /* scalars of fill and arange */
} map;

/* ---- what there is -------------------------------------------------------------------------- */

static um_map_program program_of(const um_op *op)
{
    if (op->id == UM_OP_MAP) return *op->attrs.program;
    um_map_program p = {.dtype = op->in[um_op_main_input(op->id)].dtype, .inst_count = 1};
    p.inst[0] = (um_map_inst){.op = (uint16_t)op->id, .src = {0, 1, 2}, .value = op->attrs.map.a};
    return p;
}

static bool is_move(um_op_id id)
{
    return id == UM_OP_COPY || id == UM_OP_FILL || id == UM_OP_ARANGE;
}

bool um_kmap_supports(const um_op *op, char *why, size_t why_size)
{
    if (!um_kwalk_fits(&op->out[0], why, why_size)) return false;
    for (int32_t i = 0; i < op->in_count; i++)
        if (!um_kwalk_fits(&op->in[i], why, why_size)) return false;
    if (op->id == UM_OP_COPY && op->attrs.copy.overflow != UM_OVERFLOW_CONVERT) {
        if (why_size > 0) snprintf(why, why_size, "copy: no kernel for attrs.copy.overflow");
        return false;
    }
    if (is_move(op->id)) return true;
    const um_map_program p = program_of(op);
    for (int32_t i = 0; i < p.inst_count; i++) {
        if (um_kvalue_supports(p.inst[i].op, p.dtype)) continue;
        if (why_size > 0)
            snprintf(why, why_size, "%s: no kernel for %s", um_op_name(p.inst[i].op),
                     um_dtype_name(p.dtype));
        return false;
    }
    return true;
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

static um_val run_program(const map *m, const um_val *in)
{
    const um_map_program *p = m->program;
    um_dtype compute = um_kvalue_compute(p->dtype);
    um_val value[UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS], made = 0;
    for (int32_t i = 0; i < m->op->in_count; i++) value[i] = loaded(m->k, p->dtype, in[i]);
    for (int32_t i = 0; i < p->inst_count; i++) {
        const um_map_inst *inst = &p->inst[i];
        um_val x[3] = {0};
        int32_t arity = inst->op == UM_OP_FILL ? 0 : um_op_get_row(inst->op)->in_max;
        for (int32_t a = 0; a < arity; a++) x[a] = value[inst->src[a]];
        um_op_id id = inst->op;
        if (id == UM_OP_BITWISE_NOT && p->dtype == UM_BOOL) id = UM_OP_LOGICAL_NOT;
        if (arity == 0)
            made = loaded(m->k, p->dtype, um_kvalue_number(m->k, p->dtype, inst->value));
        else
            made = um_kvalue_map(m->k, id, x, inst->value);
        bool truth = um_val_type(m->k, made).dtype == UM_BOOL;
        value[m->op->in_count + i] =
            truth ? um_kvalue_as(m->k, compute, made) : wrapped(m->k, p->dtype, made);
        if (!truth) made = value[m->op->in_count + i];
    }
    return um_kvalue_as(m->k, m->op->out[0].dtype, made);
}

/* ---- copy, fill, arange --------------------------------------------------------------------- */

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

/* What fill and arange have in words 0 and 1, and in 2 and 3. */
static void move_words(const um_op *op, uint64_t word[2])
{
    um_dtype dtype = op->out[0].dtype;
    word[0] = word[1] = 0;
    if (op->id == UM_OP_FILL) {
        word[0] = fill_bits(op);
    } else if (op->id == UM_OP_ARANGE && dtype == UM_F64) {
        memcpy(&word[0], &op->attrs.arange.start, 8);
        memcpy(&word[1], &op->attrs.arange.step, 8);
    } else if (op->id == UM_OP_ARANGE && um_dtype_is_float(dtype)) {
        word[0] = split_double(op->attrs.arange.start);
        word[1] = split_double(op->attrs.arange.step);
    } else if (op->id == UM_OP_ARANGE) {
        word[0] = (uint64_t)op->attrs.arange.i_start;
        word[1] = (uint64_t)op->attrs.arange.i_step;
    }
}

/* sum[0] + sum[1] += a (b[0] + b[1]), to twice f32's digits. */
static void add_product(um_kernel *k, um_val sum[2], um_val a, const um_val b[2])
{
    um_val p = um_k_mul(k, a, b[0]), low = um_k_fma(k, a, b[0], um_k_neg(k, p));
    low = um_k_fma(k, a, b[1], low);
    um_val s = um_k_add(k, sum[0], p), part = um_k_sub(k, s, sum[0]);
    um_val lost = um_k_sub(k, sum[0], um_k_sub(k, s, part));
    lost = um_k_add(k, lost, um_k_sub(k, p, part));
    sum[0] = s;
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
    if (compute == UM_F32) return um_kvalue_as(m->k, dtype, arange_f32(m, e));
    um_val start = from_words(m->k, compute, m->word[0], m->word[1]);
    um_val step = from_words(m->k, compute, m->word[2], m->word[3]);
    um_val x = um_k_mul(m->k, um_kvalue_as(m->k, compute, e), step);
    return um_kvalue_as(m->k, dtype, um_k_add(m->k, start, x));
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* An input that lies on the output is read through the output's parameter: one memory, one binding.
 */
static bool lies_on_output(const um_op *op, int32_t i)
{
    return um_views_identical(&op->in[i], &op->out[0]);
}

static void declare(map *m)
{
    const um_op *op = m->op;
    um_kstore store = um_kwalk_store(&op->out[0]);
    int64_t count = um_view_count(&op->out[0]), per = 1;
    uint64_t word[2];
    int32_t access = UM_K_WRITE;
    for (int32_t i = 0; i < op->in_count; i++)
        if (lies_on_output(op, i)) access = UM_K_READ_WRITE;
    m->count = um_klaunch_scalar(m->k, m->launch, "count", (uint32_t)count);
    um_kwalk_sizes(m->k, m->launch, &m->walk, 0, m->walk.rank, m->size);
    m->out = um_kview_declare(m->k, m->launch, &m->walk, 0, access, store);
    for (int32_t i = 0; i < op->in_count; i++) {
        m->in[i] = m->out;
        m->in[i].dtype = op->in[i].dtype;
        if (!lies_on_output(op, i))
            m->in[i] =
                um_kview_declare(m->k, m->launch, &m->walk, i + 1, UM_K_READ, UM_KSTORE_PLAIN);
    }
    if (store == UM_KSTORE_WORDS) {
        int64_t size = um_dtype_bits(op->out[0].dtype) / 8, before = (int64_t)(op->out[0].ptr & 3);
        per = 4 / size;
        m->shift = um_klaunch_scalar(m->k, m->launch, "shift", (uint32_t)(before / size));
        count += before / size;
    }
    move_words(op, word);
    for (int32_t i = 0; i < 4 && (op->id == UM_OP_FILL || op->id == UM_OP_ARANGE); i++)
        m->word[i] = um_klaunch_scalar(m->k, m->launch, (const char *[]){"w0", "w1", "w2", "w3"}[i],
                                       (uint32_t)(word[i / 2] >> 32 * (i % 2)));
    um_klaunch_groups(m->launch, um_ceil_div(um_ceil_div(count, per), UM_KGROUP));
}

static void make_element(const map *m, um_val e)
{
    um_val place[UM_MAX_RANK] = {0}, in[UM_MAP_MAX_INPUTS], value;
    int32_t rank = m->walk.rank;
    um_kwalk_places(m->k, e, 0, rank, m->size, place);
    um_val to = um_kview_index(m->k, &m->out, m->out.base, 0, rank, place);
    for (int32_t i = 0; i < m->op->in_count; i++) {
        um_val at = um_kview_index(m->k, &m->in[i], m->in[i].base, 0, rank, place);
        in[i] = um_kview_load(m->k, &m->in[i], at);
    }
    switch (m->op->id) {
    case UM_OP_COPY: value = um_kvalue_as(m->k, m->op->out[0].dtype, in[0]); break;
    case UM_OP_FILL: value = from_words(m->k, m->op->out[0].dtype, m->word[0], m->word[1]); break;
    case UM_OP_ARANGE: value = arange(m, e); break;
    default: value = run_program(m, in);
    }
    um_kview_store(m->k, &m->out, to, value);
}

static void make_body(const map *m)
{
    um_kernel *k = m->k;
    um_val number = um_klaunch_number(k), one = um_k_u32(k, 1);
    um_val per = um_k_u32(k, 32 / (uint32_t)um_dtype_bits(m->op->out[0].dtype));
    if (m->out.store == UM_KSTORE_WORDS) {
        um_val j = um_k_for(k, um_k_u32(k, 0), per, one);
        number = um_k_add(k, um_k_mul(k, number, per), um_k_sub(k, j, m->shift));
    }
    um_k_if(k, um_k_lt(k, number, m->count));
    make_element(m, number);
    um_k_end(k);
    if (m->out.store == UM_KSTORE_WORDS) um_k_end(k);
}

um_status um_kmap_plan(const um_op *op, um_kplan *plan)
{
    const um_view *views[UM_KVIEWS] = {&op->out[0]};
    um_map_program program;
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    for (int32_t i = 0; i < op->in_count; i++) views[i + 1] = &op->in[i];
    map m = {.op = op, .launch = launch, .walk = um_kwalk_make(op->in_count + 1, views, 0)};
    if (!is_move(op->id)) program = program_of(op), m.program = &program;
    UM_TRY(um_kernel_create(
        &(um_kernel_desc){.name = um_op_name(op->id), .group_size = {UM_KGROUP}}, &launch->kernel));
    m.k = launch->kernel;
    declare(&m);
    make_body(&m);
    return um_kernel_finish(m.k);
}
