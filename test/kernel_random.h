/* test/kernel_random.h: kernels made at random, and running them. */
#ifndef UM_TEST_KERNEL_RANDOM_H
#define UM_TEST_KERNEL_RANDOM_H

#include "interp_util.h"
#include "ir/math.h"

enum { GROUP = 24, GROUPS = 2, OWN = 8, READ = 64, DTYPES = 8, POOL = 24 };

static um_dtype dtypes[DTYPES] = {UM_F32, UM_U32, UM_I32, UM_BOOL, UM_F16, UM_F64, UM_I64, UM_U64};

/* Only what has one result on all targets: no functions that are a target's own, no choice between
 * operands, no bits of a NaN, no value of an invocation that is not there. */
static bool random_exact;

/* The values in sight, by dtype and the logarithm of the lanes. */
typedef struct maker {
    um_kernel *k;
    um_val pool[DTYPES][3][POOL];
    int32_t count[DTYPES][3];
    um_mem in, out, own, shared, var[DTYPES][3];
    int32_t depth, budget, names;
    bool uniform, wild, uses_subgroups, has_loop;
} maker;

static uint32_t below(uint32_t n) { return random_u32() % n; }

/* A number of `dtypes`: mostly of those that every device computes on. */
static int32_t pick_dtype(void) { return (int32_t)below(below(2) ? 4 : DTYPES); }

static um_val keep(maker *m, int32_t d, int32_t l, um_val v)
{
    int32_t *count = &m->count[d][l];
    m->pool[d][l][*count < POOL ? (*count)++ : (int32_t)below(POOL)] = v;
    return v;
}

static um_val constant(maker *m, int32_t d)
{
    uint64_t bits = (uint64_t)random_u32() << 32 | random_u32();
    double small = (double)below(9);
    if (below(4)) CHECK_OK(um_convert(dtypes[d], &bits, UM_F64, &small, 1));
    if (dtypes[d] == UM_BOOL) bits &= 1;
    return um_k_const(m->k, dtypes[d], bits);
}

/* A value of dtype number d and 1 << l lanes. */
static um_val pick(maker *m, int32_t d, int32_t l)
{
    if (m->count[d][l] && below(8)) return m->pool[d][l][below((uint32_t)m->count[d][l])];
    return l ? um_k_splat(m->k, 1 << l, pick(m, d, 0)) : constant(m, d);
}

static um_val masked(maker *m, um_val v, uint32_t mask)
{
    return m->wild && below(20) == 0 ? v : um_k_and(m->k, v, um_k_u32(m->k, mask));
}

/* ---- instructions -----------------------------------------------------------------------------
 */

static uint32_t types_of(um_dtype dtype)
{
    if (dtype == UM_BOOL) return UM_KTYPES_B;
    return um_dtype_is_float(dtype) ? UM_KTYPES_F : UM_KTYPES_I;
}

static bool takes(um_kop op, um_dtype dtype)
{
    bool narrow = op == UM_KOP_MUL_HIGH || op == UM_KOP_POPCOUNT || op == UM_KOP_CLZ;
    bool loose = op == UM_KOP_MIN || op == UM_KOP_MAX || op == UM_KOP_RSQRT ||
                 (um_kop_is_math(op) && dtype != UM_F32);
    if (random_exact && loose && um_dtype_is_float(dtype)) return false;
    if (op == UM_KOP_DOT4_I8) return dtype == UM_I32;
    if (op == UM_KOP_DOT4_U8) return dtype == UM_U32;
    if (narrow) return dtype == UM_I32 || dtype == UM_U32;
    return (um_kop_rows[op].types & types_of(dtype)) != 0;
}

/* An opcode of a row that takes the dtype. */
static inline void make_row(maker *m)
{
    um_kop op;
    int32_t d = pick_dtype(), l = (int32_t)below(3);
    do op = (um_kop)below(UM_KOP_LIMIT);
    while (!um_kop_rows[op].name || um_kop_rows[op].rule > UM_KRULE_SELECT ||
           !takes(op, dtypes[d]));
    const um_kop_row *row = &um_kop_rows[op];
    um_kinst inst = {.op = (uint16_t)op, .type = {(uint8_t)dtypes[d], (uint8_t)(1 << l)}};
    for (int32_t i = 0; i < row->arity; i++) inst.arg[i] = pick(m, d, l);
    if (row->rule == UM_KRULE_SELECT) inst.arg[0] = pick(m, 3, below(2) ? l : 0);
    bool divides = (op == UM_KOP_DIV || op == UM_KOP_REM) && !um_dtype_is_float(dtypes[d]);
    if (divides && !(m->wild && below(4) == 0)) {
        um_val seven = um_k_const(m->k, dtypes[d], 7), one = um_k_const(m->k, dtypes[d], 1);
        if (l) seven = um_k_splat(m->k, 1 << l, seven), one = um_k_splat(m->k, 1 << l, one);
        inst.arg[1] = um_k_or(m->k, um_k_and(m->k, inst.arg[1], seven), one);
    }
    if (row->rule == UM_KRULE_BOOL) inst.type.dtype = UM_BOOL;
    keep(m, row->rule == UM_KRULE_BOOL ? 3 : d, l, um_kernel_append(m->k, &inst));
}

static um_val float_bits(maker *m, um_val a, int32_t l)
{
    um_val bits = um_k_bitcast(m->k, UM_U32, 1 << l, a);
    if (!random_exact) return bits;
    return um_k_select(m->k, um_k_eq(m->k, a, a), bits, um_k_splat(m->k, 1 << l, pick(m, 1, 0)));
}

static inline void make_lanes(maker *m)
{
    int32_t d = pick_dtype(), to = pick_dtype(), l = (int32_t)below(3);
    um_val item[4];
    switch (below(5)) {
    case 0: keep(m, to, l, um_k_convert(m->k, dtypes[to], pick(m, d, l))); break;
    case 1: keep(m, d, 0, um_k_extract(m->k, pick(m, d, 2), below(4))); break;
    case 2: keep(m, d, 1, um_k_splat(m->k, 2, pick(m, d, 0))); break;
    case 3: keep(m, 1, l, float_bits(m, pick(m, 0, l), l)); break;
    default:
        for (int32_t i = 0; i < 4; i++) item[i] = pick(m, d, 0);
        keep(m, d, 2, um_k_vector(m->k, 4, item));
    }
}

/* An element of this invocation's part of the output. */
static um_val own_index(maker *m)
{
    um_val base = um_k_mul(m->k, um_k_global_index(m->k, 0), um_k_u32(m->k, OWN));
    return um_k_add(m->k, base, masked(m, pick(m, 1, 0), OWN - 1));
}

static inline void make_memory(maker *m)
{
    um_kernel *k = m->k;
    int32_t d = pick_dtype(), l = (int32_t)below(3);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    switch (below(9)) {
    case 0: keep(m, 0, 0, um_k_load(k, m->in, masked(m, pick(m, 1, 0), READ - 1))); break;
    case 1: keep(m, 0, 2, um_k_load_lanes(k, m->in, masked(m, pick(m, 1, 0), READ - 4), 4)); break;
    case 2: um_k_store(k, m->out, own_index(m), pick(m, 1, 0)); break;
    case 3:
        keep(m, 1, 0, um_k_load_if(k, m->out, own_index(m), pick(m, 3, 0), pick(m, 1, 0)));
        break;
    case 4: um_k_store(k, m->own, masked(m, pick(m, 1, 0), 6), pick(m, 0, 1)); break;
    case 5: keep(m, 0, 0, um_k_load(k, m->own, masked(m, pick(m, 1, 0), 7))); break;
    case 6:
        um_k_store_if(k, m->shared, m->wild && !below(4) ? pick(m, 1, 0) : i, pick(m, 2, 0),
                      pick(m, 3, 0));
        break;
    case 7: um_k_set(k, m->var[d][l], pick(m, d, l)); break;
    default: keep(m, d, l, um_k_get(k, m->var[d][l])); break;
    }
}

/* From another lane; a itself where there is none. */
static um_val shifted(maker *m, um_val a)
{
    um_kernel *k = m->k;
    um_kop op = UM_KOP_SUBGROUP_SHUFFLE_UP + (um_kop)below(2);
    uint32_t by = below(9);
    um_val other = um_k_subgroup_shift(k, op, a, by), far = um_k_u32(k, by);
    if (!random_exact) return other;
    um_val lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0), there = um_k_ge(k, lane, far);
    if (op == UM_KOP_SUBGROUP_SHUFFLE_DOWN) {
        um_val size = um_k_builtin(k, UM_KOP_SUBGROUP_SIZE, 0);
        um_val i = um_k_add(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), far);
        there = um_k_and(k, um_k_lt(k, um_k_add(k, lane, far), size),
                         um_k_lt(k, i, um_k_u32(k, GROUP)));
    }
    return um_k_select(k, there, other, a);
}

/* Of flow that the work-group shares. */
static inline void make_together(maker *m)
{
    um_kernel *k = m->k;
    int32_t d = pick_dtype(), operation = UM_K_ADD + (int32_t)below(4);
    if (dtypes[d] == UM_BOOL) d = 1;
    if (random_exact && um_dtype_is_float(dtypes[d])) operation = UM_K_ADD + operation % 2;
    um_val a = pick(m, d, 0), last = um_k_u32(k, GROUP - 1);
    uint32_t form = below(m->uses_subgroups ? 8 : 4);
    switch (form) {
    case 0:
        um_k_barrier(k);
        keep(m, 2, 0, um_k_load(k, m->shared, um_k_min(k, pick(m, 1, 0), last)));
        um_k_barrier(k);
        break;
    case 1: keep(m, d, 0, um_k_group_reduce(k, operation, a)); break;
    case 2: keep(m, d, 0, um_k_group_scan(k, operation, below(2), a)); break;
    case 3: keep(m, d, 0, um_k_group_broadcast(k, a, below(GROUP))); break;
    case 4: keep(m, d, 0, um_k_subgroup_reduce(k, operation, a)); break;
    case 5: keep(m, d, 0, um_k_subgroup_scan(k, operation, below(2), a)); break;
    case 6: keep(m, 1, 2, um_k_subgroup_ballot(k, pick(m, 3, 0))); break;
    default: keep(m, d, 0, shifted(m, a));
    }
}

/* ---- blocks -----------------------------------------------------------------------------------
 */

static inline void make_block(maker *m);

/* What is made inside is not seen outside. */
static inline void make_inside(maker *m, bool uniform)
{
    bool was = m->uniform;
    int32_t count[DTYPES][3];
    memcpy(count, m->count, sizeof count);
    m->uniform = was && uniform;
    m->depth++;
    make_block(m);
    m->depth--;
    m->uniform = was;
    memcpy(m->count, count, sizeof count);
}

/* A loop that may be left in the middle, and is after three rounds. */
static inline void make_loop(maker *m)
{
    char name[16];
    snprintf(name, sizeof name, "round%d", m->names++);
    um_kernel *k = m->k;
    um_mem round = um_k_var(k, name, UM_U32, 1);
    um_k_set(k, round, um_k_u32(k, 0));
    um_k_loop(k);
    um_val r = um_k_get(k, round);
    um_k_break_if(k, um_k_ge(k, r, um_k_u32(k, 3)));
    um_k_set(k, round, um_k_add(k, r, um_k_u32(k, 1)));
    make_inside(m, false);
    um_k_break_if(k, pick(m, 3, 0));
    make_inside(m, false);
    um_k_end(k);
}

static inline void make_flow(maker *m)
{
    um_kernel *k = m->k;
    um_val zero = um_k_u32(k, 0), one = um_k_u32(k, 1);
    um_val same = um_k_lt(k, um_k_builtin(k, UM_KOP_GROUP_ID, 0), um_k_u32(k, below(3)));
    bool uniform = below(2);
    switch (below(4)) {
    case 0:
    case 1:
        um_k_if(k, uniform ? same : pick(m, 3, 0));
        make_inside(m, uniform);
        if (below(2)) um_k_else(k), make_inside(m, uniform);
        um_k_end(k);
        break;
    case 2: {
        um_val end = uniform ? um_k_u32(k, below(4)) : masked(m, pick(m, 1, 0), 3);
        um_k_for(k, zero, end,
                 m->wild && !below(16) ? um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0) : one);
        make_inside(m, uniform && !m->wild);
        um_k_end(k);
        break;
    }
    default: make_loop(m);
    }
}

static inline void make_block(maker *m)
{
    for (uint32_t n = 2 + below(8); n > 0 && m->budget > 0; n--, m->budget--) {
        uint32_t what = below(10);
        if (what < 4)
            make_row(m);
        else if (what < 5)
            make_lanes(m);
        else if (what < 7)
            make_memory(m);
        else if (what < 8 && m->uniform)
            make_together(m);
        else if (m->depth < 4)
            make_flow(m);
    }
}

/* Memories, all of them written, and a few values to begin with. */
static inline void make_head(maker *m)
{
    um_kernel *k = m->k;
    char name[16];
    m->in = um_k_buffer(k, "r", UM_F32, UM_K_READ);
    m->out = um_k_buffer(k, "w", UM_U32, UM_K_READ_WRITE);
    m->own = um_k_private(k, "own", UM_F32, 8);
    m->shared = um_k_shared(k, "shared_array", UM_I32, GROUP);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    for (int32_t d = 0; d < DTYPES; d++)
        for (int32_t l = 0; l < 3; l++) {
            snprintf(name, sizeof name, "v%d_%d", d, l);
            m->var[d][l] = um_k_var(k, name, dtypes[d], 1 << l);
            um_k_set(k, m->var[d][l], pick(m, d, l));
        }
    um_val j = um_k_for(k, um_k_u32(k, 0), um_k_u32(k, 8), um_k_u32(k, 1));
    um_k_store(k, m->own, j, um_k_convert(k, UM_F32, j));
    um_k_end(k);
    um_k_store(k, m->shared, i, um_k_i32(k, 5));
    for (int32_t d = 0; d < DTYPES; d++) {
        um_val x = um_k_add(k, um_k_mul(k, um_k_global_index(k, 0), um_k_u32(k, below(9))), i);
        bool truth = dtypes[d] == UM_BOOL;
        keep(m, d, 0,
             truth ? um_k_lt(k, i, um_k_u32(k, below(24))) : um_k_convert(k, dtypes[d], x));
    }
}

static inline um_kernel *make_kernel(bool wild, bool *uses_subgroups)
{
    maker m = {.k = kernel_make(GROUP), .wild = wild, .uniform = true, .budget = 80};
    m.uses_subgroups = below(2);
    make_head(&m);
    while (m.budget > 0) make_block(&m);
    um_val base = um_k_mul(m.k, um_k_global_index(m.k, 0), um_k_u32(m.k, OWN));
    for (uint32_t i = 0; i < 4; i++)
        um_k_store(m.k, m.out, um_k_add(m.k, base, um_k_u32(m.k, i)), pick(&m, 1, 0));
    *uses_subgroups = m.uses_subgroups;
    CHECK_OK(um_kernel_finish(m.k));
    return m.k;
}

/* ---- running ----------------------------------------------------------------------------------
 */

static uint64_t run_limit = 20000;
typedef uint32_t output[GROUPS * GROUP * OWN];

typedef um_status (*run_fn)(void *user, const um_kernel *k, const um_kernel_run *what);

static inline um_status run_by(run_fn how, void *user, const um_kernel *k, uint32_t subgroup_size,
                               output out)
{
    static _Alignas(16) float in[READ];
    static _Alignas(16) output memory;
    for (size_t i = 0; i < READ; i++) in[i] = (float)i - 30.5f;
    memset(memory, 0x5a, sizeof memory);
    um_kernel_buffer buffers[2] = {{in, sizeof in}, {memory, sizeof memory}};
    um_kernel_run what = {.group_count = {GROUPS, 1, 1},
                          .subgroup_size = subgroup_size,
                          .buffers = buffers,
                          .buffer_count = 2,
                          .step_limit = run_limit};
    um_status status = how(user, k, &what);
    memcpy(out, memory, sizeof memory);
    return status;
}

static inline um_status by_interpreter(void *user, const um_kernel *k, const um_kernel_run *what)
{
    (void)user;
    return um_kernel_interpret(k, what);
}

static inline um_status run(const um_kernel *k, uint32_t subgroup_size, output out)
{
    return run_by(by_interpreter, NULL, k, subgroup_size, out);
}

#endif
