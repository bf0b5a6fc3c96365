/* ir/expand_wide.c: i64 and u64 where a target lacks them, as pairs of u32. The lower halves take
 * the values' places; the upper ones are kept beside. Buffers and arrays are seen as u32, two an
 * element; a variable gets a second one for its upper half. */
#include "ir/expand.h"

#include <stdio.h>

typedef struct pair {
    um_val lo, hi; /* u32 of some lanes */
} pair;

static bool is_wide(um_dtype dtype) { return dtype == UM_I64 || dtype == UM_U64; }

static int32_t lanes_of(const um_kernel *k, um_val v) { return um_val_type(k, v).lanes; }

static um_val word(um_kernel *k, int32_t lanes, uint32_t bits)
{
    return um_k_bits(k, UM_U32, lanes, bits);
}

static pair pair_of(um_kernel *k, int32_t lanes, uint64_t bits)
{
    return (pair){word(k, lanes, (uint32_t)bits), word(k, lanes, (uint32_t)(bits >> 32))};
}

static um_val as_i32(um_kernel *k, um_val v) { return um_k_bitcast(k, UM_I32, lanes_of(k, v), v); }
static um_val as_u32(um_kernel *k, um_val v) { return um_k_bitcast(k, UM_U32, lanes_of(k, v), v); }

static pair choose(um_kernel *k, um_val condition, pair a, pair b)
{
    return (pair){um_k_select(k, condition, a.lo, b.lo), um_k_select(k, condition, a.hi, b.hi)};
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static pair add(um_kernel *k, pair a, pair b)
{
    int32_t lanes = lanes_of(k, a.lo);
    um_val lo = um_k_add(k, a.lo, b.lo), carries = um_k_lt(k, lo, a.lo);
    um_val carry = um_k_select(k, carries, word(k, lanes, 1), word(k, lanes, 0));
    return (pair){lo, um_k_add(k, um_k_add(k, a.hi, b.hi), carry)};
}

static pair sub(um_kernel *k, pair a, pair b)
{
    int32_t lanes = lanes_of(k, a.lo);
    um_val borrows = um_k_lt(k, a.lo, b.lo);
    um_val borrow = um_k_select(k, borrows, word(k, lanes, 1), word(k, lanes, 0));
    return (pair){um_k_sub(k, a.lo, b.lo), um_k_sub(k, um_k_sub(k, a.hi, b.hi), borrow)};
}

static pair negate(um_kernel *k, pair a) { return sub(k, pair_of(k, lanes_of(k, a.lo), 0), a); }

static pair mul(um_kernel *k, pair a, pair b)
{
    um_val cross = um_k_add(k, um_k_mul(k, a.lo, b.hi), um_k_mul(k, a.hi, b.lo));
    return (pair){um_k_mul(k, a.lo, b.lo), um_k_add(k, um_k_mul_high(k, a.lo, b.lo), cross)};
}

static um_val is_equal(um_kernel *k, pair a, pair b)
{
    return um_k_and(k, um_k_eq(k, a.lo, b.lo), um_k_eq(k, a.hi, b.hi));
}

static um_val is_less(um_kernel *k, pair a, pair b, bool is_signed)
{
    um_val ah = is_signed ? as_i32(k, a.hi) : a.hi, bh = is_signed ? as_i32(k, b.hi) : b.hi;
    um_val low = um_k_and(k, um_k_eq(k, a.hi, b.hi), um_k_lt(k, a.lo, b.lo));
    return um_k_or(k, um_k_lt(k, ah, bh), low);
}

static um_val is_negative(um_kernel *k, pair a)
{
    return um_k_gt(k, a.hi, word(k, lanes_of(k, a.hi), INT32_MAX));
}

static pair magnitude(um_kernel *k, pair a)
{
    return choose(k, is_negative(k, a), negate(k, a), a);
}

/* Shifts of u32 go by the distance modulo 32; by 32 or more the halves change places. */
static pair shift_left(um_kernel *k, pair a, um_val by)
{
    int32_t lanes = lanes_of(k, a.lo);
    um_val five = word(k, lanes, 31), rest = um_k_sub(k, five, um_k_and(k, by, five));
    um_val far = um_k_ne(k, um_k_and(k, by, word(k, lanes, 32)), word(k, lanes, 0));
    um_val lo = um_k_shl(k, a.lo, by);
    um_val over = um_k_shr(k, um_k_shr(k, a.lo, word(k, lanes, 1)), rest);
    pair near = {lo, um_k_or(k, um_k_shl(k, a.hi, by), over)};
    return choose(k, far, (pair){word(k, lanes, 0), lo}, near);
}

static pair shift_right(um_kernel *k, pair a, um_val by, bool is_signed)
{
    int32_t lanes = lanes_of(k, a.lo);
    um_val five = word(k, lanes, 31), rest = um_k_sub(k, five, um_k_and(k, by, five)), hi, sign;
    um_val far = um_k_ne(k, um_k_and(k, by, word(k, lanes, 32)), word(k, lanes, 0));
    um_val over = um_k_shl(k, um_k_shl(k, a.hi, word(k, lanes, 1)), rest);
    if (is_signed) {
        hi = as_u32(k, um_k_shr(k, as_i32(k, a.hi), as_i32(k, by)));
        sign = as_u32(k, um_k_shr(k, as_i32(k, a.hi), as_i32(k, five)));
    } else {
        hi = um_k_shr(k, a.hi, by);
        sign = word(k, lanes, 0);
    }
    pair near = {um_k_or(k, um_k_shr(k, a.lo, by), over), hi};
    return choose(k, far, (pair){hi, sign}, near);
}

/* ---- division ------------------------------------------------------------------------------- */

/* A variable counts as different in each invocation as soon as it is once set so: divisions only
 * share theirs with others of their level. */
static um_mem division_var(um_expand *e, um_kernel *k, um_kuniform level, int32_t lanes,
                           int32_t which)
{
    um_mem *var = &e->division[level][lanes / 2][which];
    char name[32];
    if (*var) return *var;
    snprintf(name, sizeof name, "division%u_%d_%d", level, lanes, which);
    for (uint32_t i = 2; !um_kernel_name_is_free(k, name); i++)
        snprintf(name, sizeof name, "division%u_%d_%d_%u", level, lanes, which, i);
    return *var = um_k_var(k, name, UM_U32, lanes);
}

/* By hand: bit by bit the dividend goes up into the rest, and the quotient follows it. */
static void divide(um_rewrite *r, pair a, pair b, pair *quotient, pair *remains)
{
    um_expand *e = r->pass;
    um_kernel *k = r->to;
    um_kuniform level = UM_MAX(e->level[r->at], e->flow[r->at]);
    int32_t lanes = lanes_of(k, a.lo);
    um_mem var[4];
    um_val init[4] = {a.lo, a.hi, word(k, lanes, 0), word(k, lanes, 0)};
    um_val zero = um_k_u32(k, 0), one = word(k, lanes, 1), top = word(k, lanes, 31);
    for (int32_t i = 0; i < 4; i++) {
        var[i] = division_var(e, k, level, lanes, i);
        um_k_set(k, var[i], init[i]);
    }
    um_k_for(k, zero, um_k_u32(k, 64), um_k_u32(k, 1));
    pair q = {um_k_get(k, var[0]), um_k_get(k, var[1])};
    pair rest = {um_k_get(k, var[2]), um_k_get(k, var[3])};
    um_val lost = um_k_ne(k, um_k_shr(k, rest.hi, top), word(k, lanes, 0));
    um_val next = um_k_shr(k, q.hi, top);
    rest = add(k, rest, rest);
    rest.lo = um_k_or(k, rest.lo, next);
    q = add(k, q, q);
    um_val fits = um_k_or(k, lost, um_k_not(k, is_less(k, rest, b, false)));
    rest = choose(k, fits, sub(k, rest, b), rest);
    q.lo = um_k_select(k, fits, um_k_or(k, q.lo, one), q.lo);
    um_val out[4] = {q.lo, q.hi, rest.lo, rest.hi};
    for (int32_t i = 0; i < 4; i++) um_k_set(k, var[i], out[i]);
    um_k_end(k);
    *quotient = (pair){um_k_get(k, var[0]), um_k_get(k, var[1])};
    *remains = (pair){um_k_get(k, var[2]), um_k_get(k, var[3])};
}

static pair divided(um_rewrite *r, pair a, pair b, bool is_signed, bool wants_rest)
{
    um_kernel *k = r->to;
    pair quotient, rest;
    if (!is_signed) {
        divide(r, a, b, &quotient, &rest);
        return wants_rest ? rest : quotient;
    }
    um_val turn =
        wants_rest ? is_negative(k, a) : um_k_xor(k, is_negative(k, a), is_negative(k, b));
    divide(r, magnitude(k, a), magnitude(k, b), &quotient, &rest);
    pair got = wants_rest ? rest : quotient;
    return choose(k, turn, negate(k, got), got);
}

/* ---- conversions ---------------------------------------------------------------------------- */

static um_val to_f64(um_kernel *k, pair a, bool is_signed)
{
    um_val high = um_k_convert(k, UM_F64, is_signed ? as_i32(k, a.hi) : a.hi);
    um_val scaled = um_k_mul(k, high, um_k_number(k, UM_F64, lanes_of(k, a.lo), 0x1p32));
    return um_k_add(k, scaled, um_k_convert(k, UM_F64, a.lo));
}

/* The upper 32 digits, with a last one that says whether there are more, are enough to round to
 * f32; so are 24 to round the f32 again to fewer. */
static um_val to_f32(um_kernel *k, pair a, bool is_signed, bool rounds_again)
{
    int32_t lanes = lanes_of(k, a.lo);
    um_val zero = word(k, lanes, 0), turn = is_negative(k, a), digits = word(k, lanes, 255);
    if (is_signed) a = magnitude(k, a);
    um_val below = um_k_add(k, um_k_clz(k, a.lo), word(k, lanes, 32));
    um_val n = um_k_select(k, um_k_eq(k, a.hi, zero), below, um_k_clz(k, a.hi));
    a = shift_left(k, a, n);
    um_val more = um_k_ne(k, a.lo, zero), top = a.hi, last = word(k, lanes, 1);
    if (rounds_again) {
        more = um_k_or(k, more, um_k_ne(k, um_k_and(k, top, digits), zero));
        top = um_k_and(k, top, um_k_not(k, digits));
        last = word(k, lanes, 256);
    }
    um_val f = um_k_convert(k, UM_F32, um_k_select(k, more, um_k_or(k, top, last), top));
    um_val exponent = um_k_sub(k, word(k, lanes, 127 + 32), n);
    um_val scale = um_k_bitcast(k, UM_F32, lanes, um_k_shl(k, exponent, word(k, lanes, 23)));
    f = um_k_mul(k, f, scale);
    return is_signed ? um_k_select(k, turn, um_k_neg(k, f), f) : f;
}

static um_val convert_from(um_kernel *k, um_dtype to, pair a, bool is_signed)
{
    if (to == UM_BOOL) return um_k_ne(k, um_k_or(k, a.lo, a.hi), word(k, lanes_of(k, a.lo), 0));
    if (to == UM_F64) return to_f64(k, a, is_signed);
    if (to == UM_F32) return to_f32(k, a, is_signed, false);
    if (um_dtype_is_float(to)) return um_k_convert(k, to, to_f32(k, a, is_signed, true));
    if (to == UM_I32) return as_i32(k, a.lo);
    return to == UM_U32 ? a.lo : um_k_convert(k, to, a.lo);
}

/* Truncated, saturated, NaN to 0. Halves of a float are exact. */
static pair from_float(um_kernel *k, um_val v, bool is_signed)
{
    um_ktype type = um_val_type(k, v);
    int32_t lanes = type.lanes;
    if (type.dtype != UM_F32 && type.dtype != UM_F64) v = um_k_convert(k, UM_F32, v);
    um_dtype dtype = um_val_type(k, v).dtype;
    um_val zero = um_k_number(k, dtype, lanes, 0), size = is_signed ? um_k_abs(k, v) : v;
    um_val limit = um_k_number(k, dtype, lanes, is_signed ? 0x1p63 : 0x1p64);
    um_val fits = um_k_and(k, um_k_ge(k, size, zero), um_k_lt(k, size, limit));
    um_val whole = um_k_select(k, fits, size, zero);
    um_val high = um_k_trunc(k, um_k_mul(k, whole, um_k_number(k, dtype, lanes, 0x1p-32)));
    um_val low = um_k_sub(k, whole, um_k_mul(k, high, um_k_number(k, dtype, lanes, 0x1p32)));
    pair a = {um_k_convert(k, UM_U32, low), um_k_convert(k, UM_U32, high)};
    pair most = pair_of(k, lanes, is_signed ? INT64_MAX : UINT64_MAX);
    if (is_signed) a = choose(k, um_k_lt(k, v, zero), negate(k, a), a);
    a = choose(k, um_k_ge(k, v, limit), most, a);
    if (!is_signed) return a;
    um_val below = um_k_le(k, v, um_k_number(k, dtype, lanes, -0x1p63));
    return choose(k, below, pair_of(k, lanes, (uint64_t)1 << 63), a);
}

static pair convert_to(um_kernel *k, um_val v, bool is_signed)
{
    um_ktype type = um_val_type(k, v);
    um_dtype_kind kind = um_dtype_get_kind(type.dtype);
    um_val zero = word(k, type.lanes, 0);
    if (kind == UM_KIND_FLOAT) return from_float(k, v, is_signed);
    if (kind == UM_KIND_BOOL) return (pair){um_k_select(k, v, word(k, type.lanes, 1), zero), zero};
    if (kind == UM_KIND_UINT) {
        if (type.dtype != UM_U32) v = um_k_convert(k, UM_U32, v);
        return (pair){v, zero};
    }
    if (type.dtype != UM_I32) v = um_k_convert(k, UM_I32, v);
    um_val sign = um_k_shr(k, v, um_k_splat(k, type.lanes, um_k_i32(k, 31)));
    return (pair){as_u32(k, v), as_u32(k, sign)};
}

/* ---- words ---------------------------------------------------------------------------------- */

/* lo, hi, lo, hi, ... as vectors of at most 4. */
static int32_t to_words(um_kernel *k, pair a, um_val out[2])
{
    int32_t lanes = lanes_of(k, a.lo), count = 0;
    for (int32_t i = 0; i < lanes; i += 2) {
        um_val item[4] = {0};
        for (int32_t l = i; l < UM_MIN(i + 2, lanes); l++) {
            item[2 * (l - i)] = um_k_extract(k, a.lo, (uint32_t)l);
            item[2 * (l - i) + 1] = um_k_extract(k, a.hi, (uint32_t)l);
        }
        out[count++] = um_k_vector(k, lanes == 1 ? 2 : 4, item);
    }
    return count;
}

static pair from_words(um_kernel *k, int32_t lanes, const um_val in[2])
{
    um_val lo[4], hi[4];
    for (int32_t l = 0; l < lanes; l++) {
        lo[l] = um_k_extract(k, in[l / 2], (uint32_t)(l % 2 * 2));
        hi[l] = um_k_extract(k, in[l / 2], (uint32_t)(l % 2 * 2 + 1));
    }
    return (pair){um_k_vector(k, lanes, lo), um_k_vector(k, lanes, hi)};
}

static um_val bitcast_from(um_kernel *k, um_ktype to, pair a)
{
    um_val words[2], item[4];
    to_words(k, a, words);
    if (to.dtype != UM_F64) return um_k_bitcast(k, to.dtype, to.lanes, words[0]);
    for (int32_t l = 0; l < to.lanes; l++) {
        um_val half[2] = {um_k_extract(k, a.lo, (uint32_t)l), um_k_extract(k, a.hi, (uint32_t)l)};
        item[l] = um_k_bitcast(k, UM_F64, 1, um_k_vector(k, 2, half));
    }
    return um_k_vector(k, to.lanes, item);
}

static pair bitcast_to(um_kernel *k, int32_t lanes, um_val v)
{
    um_val words[2], lo[4], hi[4];
    if (um_val_type(k, v).dtype != UM_F64) {
        words[0] = um_k_bitcast(k, UM_U32, 2 * lanes, v);
        return from_words(k, lanes, words);
    }
    for (int32_t l = 0; l < lanes; l++) {
        um_val half = um_k_bitcast(k, UM_U32, 2, um_k_extract(k, v, (uint32_t)l));
        lo[l] = um_k_extract(k, half, 0);
        hi[l] = um_k_extract(k, half, 1);
    }
    return (pair){um_k_vector(k, lanes, lo), um_k_vector(k, lanes, hi)};
}

/* ---- memory --------------------------------------------------------------------------------- */

void um_expand_wide_memories(um_rewrite *r)
{
    um_expand *e = r->pass;
    int64_t count = r->to->mem_count, values = r->from->inst_count;
    e->high = um_rewrite_room(r, values, sizeof *e->high);
    e->high_var = um_rewrite_room(r, count + 1, sizeof *e->high_var);
    e->level = um_rewrite_room(r, values, 1);
    e->flow = um_rewrite_room(r, values, 1);
    if (r->to->status == UM_OK && um_kernel_uniformity(r->from, e->level, e->flow) != UM_OK)
        um_kernel_mistake(r->to, UM_OUT_OF_MEMORY, "no memory to follow its flow");
    for (int64_t i = 0; i < count && r->to->status == UM_OK; i++) {
        um_kmem *m = &r->to->mem[i];
        char name[32];
        if (!is_wide(m->type.dtype)) continue;
        m->type.dtype = UM_U32;
        m->count *= 2;
        if (m->space != UM_SPACE_VAR) continue;
        int32_t lanes = m->type.lanes;
        snprintf(name, sizeof name, "%.20s_hi", m->name);
        for (uint32_t n = 2; !um_kernel_name_is_free(r->to, name); n++)
            snprintf(name, sizeof name, "%.18s_hi%u", r->to->mem[i].name, n);
        e->high_var[i + 1] = um_k_var(r->to, name, UM_U32, lanes); /* mem may move */
    }
}

static pair load(um_kernel *k, const um_kinst *inst)
{
    um_mem mem = (um_mem)inst->imm;
    int32_t lanes = inst->type.lanes, size = lanes == 1 ? 2 : 4;
    um_val condition = inst->op == UM_KOP_LOAD_IF ? inst->arg[1] : 0;
    um_val index = um_k_add(k, inst->arg[0], inst->arg[0]), words[2] = {0};
    if (inst->op == UM_KOP_LOAD_UNIFORM) {
        um_val lo = um_k_load_uniform(k, mem, index);
        return (pair){lo, um_k_load_uniform(k, mem, um_k_add(k, index, um_k_u32(k, 1)))};
    }
    for (int32_t i = 0; i < (lanes + 1) / 2; i++) {
        um_val at = i ? um_k_add(k, index, um_k_u32(k, 4)) : index;
        words[i] = um_expand_load(k, mem, at, condition, size);
    }
    return from_words(k, lanes, words);
}

static void store(um_kernel *k, const um_kinst *inst, pair a)
{
    um_mem mem = (um_mem)inst->imm;
    um_val condition = inst->op == UM_KOP_STORE_IF ? inst->arg[2] : 0;
    um_val index = um_k_add(k, inst->arg[0], inst->arg[0]), words[2];
    int32_t count = to_words(k, a, words);
    for (int32_t i = 0; i < count; i++) {
        um_val at = i ? um_k_add(k, index, um_k_u32(k, 4)) : index;
        um_expand_store(k, mem, at, words[i], condition);
    }
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* The instruction on both halves alike. */
static pair both(um_kernel *k, um_kinst inst, const um_val high[4], bool all)
{
    pair out;
    inst.type.dtype = UM_U32;
    out.lo = um_kernel_append(k, &inst);
    int32_t first = inst.op == UM_KOP_SELECT, last = all ? um_kinst_arity(&inst) : 1;
    for (int32_t i = first; i < last; i++) inst.arg[i] = high[i];
    out.hi = um_kernel_append(k, &inst);
    return out;
}

/* Values from values of 64 bits: rows, lanes, shuffles. */
static pair compute(um_rewrite *r, const um_kinst *inst, const um_val high[4], bool is_signed)
{
    um_kernel *k = r->to;
    pair a = {inst->arg[0], high[0]}, b = {inst->arg[1], high[1]};
    int32_t lanes = inst->type.lanes;
    switch (inst->op) {
    case UM_KOP_CONST: return pair_of(k, lanes, inst->imm);
    case UM_KOP_ADD: return add(k, a, b);
    case UM_KOP_SUB: return sub(k, a, b);
    case UM_KOP_MUL: return mul(k, a, b);
    case UM_KOP_DIV: return divided(r, a, b, is_signed, false);
    case UM_KOP_REM: return divided(r, a, b, is_signed, true);
    case UM_KOP_NEG: return negate(k, a);
    case UM_KOP_ABS: return is_signed ? magnitude(k, a) : a;
    case UM_KOP_MIN: return choose(k, is_less(k, a, b, is_signed), a, b);
    case UM_KOP_MAX: return choose(k, is_less(k, b, a, is_signed), a, b);
    case UM_KOP_SHL: return shift_left(k, a, b.lo);
    case UM_KOP_SHR: return shift_right(k, a, b.lo, is_signed);
    case UM_KOP_SUBGROUP_SHUFFLE:
    case UM_KOP_SUBGROUP_SHUFFLE_XOR:
    case UM_KOP_SUBGROUP_SHUFFLE_UP:
    case UM_KOP_SUBGROUP_SHUFFLE_DOWN: return both(k, *inst, high, false);
    case UM_KOP_AND:
    case UM_KOP_OR:
    case UM_KOP_XOR:
    case UM_KOP_NOT:
    case UM_KOP_SELECT:
    case UM_KOP_VECTOR:
    case UM_KOP_SPLAT:
    case UM_KOP_EXTRACT: return both(k, *inst, high, true);
    default:
        um_kernel_mistake(k, UM_UNSUPPORTED,
                          "instruction %u, %s, of 64 bits, which the target lacks", r->at,
                          um_kop_rows[inst->op].name);
        return (pair){0, 0};
    }
}

static um_val compare(um_kernel *k, um_kop op, pair a, pair b, bool is_signed)
{
    switch (op) {
    case UM_KOP_EQ: return is_equal(k, a, b);
    case UM_KOP_NE: return um_k_not(k, is_equal(k, a, b));
    case UM_KOP_LT: return is_less(k, a, b, is_signed);
    case UM_KOP_LE: return um_k_not(k, is_less(k, b, a, is_signed));
    case UM_KOP_GT: return is_less(k, b, a, is_signed);
    default: return um_k_not(k, is_less(k, a, b, is_signed));
    }
}

/* On memory of 64 bits. */
static pair access_wide(um_rewrite *r, const um_kinst *inst, const um_val high[4])
{
    const um_expand *e = r->pass;
    um_kernel *k = r->to;
    um_mem other = e->high_var[inst->imm];
    pair got = {0, 0};
    switch (inst->op) {
    case UM_KOP_GET: return (pair){um_k_get(k, (um_mem)inst->imm), um_k_get(k, other)};
    case UM_KOP_SET:
        um_k_set(k, (um_mem)inst->imm, inst->arg[0]);
        um_k_set(k, other, high[0]);
        return got;
    case UM_KOP_STORE:
    case UM_KOP_STORE_IF: store(k, inst, (pair){inst->arg[1], high[1]}); return got;
    case UM_KOP_LOAD_IF:
        got = load(k, inst);
        return choose(k, inst->arg[1], got, (pair){inst->arg[2], high[2]});
    default: return load(k, inst);
    }
}

um_val um_expand_wide(um_rewrite *r, um_kinst inst)
{
    um_expand *e = r->pass;
    um_kernel *k = r->to;
    const um_kinst *old = &r->from->inst[r->at];
    int32_t arity = um_kinst_arity(old), operand = inst.op == UM_KOP_SELECT;
    um_val high[4] = {0};
    for (int32_t i = 0; i < arity; i++) high[i] = e->high[old->arg[i]];
    um_dtype was = arity > operand ? um_val_type(r->from, old->arg[operand]).dtype : 0;
    bool from = is_wide(was), to = is_wide(inst.type.dtype);
    pair a = {inst.arg[0], high[0]}, b = {inst.arg[1], high[1]}, out;
    if (um_kop_imm(inst.op) == UM_KIMM_MEMORY && is_wide(r->from->mem[inst.imm - 1].type.dtype)) {
        out = access_wide(r, &inst, high);
    } else if (inst.op == UM_KOP_ASYNC_COPY &&
               is_wide(r->from->mem[(inst.imm & UINT32_MAX) - 1].type.dtype)) {
        for (int32_t i = 0; i < 2; i++) inst.arg[i] = um_k_add(k, inst.arg[i], inst.arg[i]);
        return um_kernel_append(k, &inst);
    } else if (!from && !to) {
        return um_kernel_append(k, &inst);
    } else if (um_kop_rows[inst.op].rule == UM_KRULE_BOOL) {
        return compare(k, inst.op, a, b, was == UM_I64);
    } else if (from && to && (inst.op == UM_KOP_CONVERT || inst.op == UM_KOP_BITCAST)) {
        out = a;
    } else if (inst.op == UM_KOP_CONVERT || inst.op == UM_KOP_BITCAST) {
        bool cast = inst.op == UM_KOP_BITCAST;
        if (from)
            return cast ? bitcast_from(k, inst.type, a)
                        : convert_from(k, inst.type.dtype, a, was == UM_I64);
        out = cast ? bitcast_to(k, inst.type.lanes, a.lo)
                   : convert_to(k, a.lo, inst.type.dtype == UM_I64);
    } else {
        out = compute(r, &inst, high, inst.type.dtype == UM_I64);
    }
    e->high[r->at] = out.hi;
    return out.lo;
}
