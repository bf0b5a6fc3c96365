/* ir/expand.c: um_kernel_expand: what a target lacks, said by what it has. Here: ops across the
 * work-group through shared memory, subgroup ops of subgroups of one, asynchronous copies as loads
 * and stores. Each step is a pass of its own, in an order in which none makes what an earlier one
 * takes away. */
#include "ir/expand.h"
#include "ir/math.h"

#include <stdio.h>

/* ---- operations ----------------------------------------------------------------------------- */

static um_val join(um_kernel *k, uint32_t operation, um_val a, um_val b)
{
    return um_kernel_append(k, &(um_kinst){.op = (uint16_t)um_koperation_opcode(operation),
                                           .type = um_val_type(k, a),
                                           .arg = {a, b}});
}

static um_val identity_of(um_kernel *k, uint32_t operation, um_dtype dtype)
{
    uint64_t bits = 0;
    um_koperation_identity(operation, dtype, &bits);
    return um_k_const(k, dtype, bits);
}

/* ---- across the work-group ------------------------------------------------------------------ */

void um_expand_name(const um_kernel *k, const char *what, um_dtype dtype, char out[32])
{
    snprintf(out, 32, "%s_%s", what, um_dtype_name(dtype));
    for (uint32_t i = 2; !um_kernel_name_is_free(k, out); i++)
        snprintf(out, 32, "%s_%s_%u", what, um_dtype_name(dtype), i);
}

/* The shared array for elements of a dtype; every op leaves it free for the next behind a barrier.
 */
static um_mem scratch_of(um_expand *e, um_kernel *k, um_dtype dtype)
{
    char name[32];
    if (e->scratch[dtype]) return e->scratch[dtype];
    um_expand_name(k, "group", dtype, name);
    return e->scratch[dtype] = um_k_shared(k, name, dtype, um_kernel_invocations(k));
}

static um_mem part_of(um_expand *e, um_kernel *k, um_dtype dtype)
{
    char name[32];
    if (e->part[dtype]) return e->part[dtype];
    um_expand_name(k, "part", dtype, name);
    return e->part[dtype] = um_k_var(k, name, dtype, 1);
}

/* In a tree: the upper half onto the lower, until one is left in element 0; as the interpreter. */
static void reduce_tree(um_kernel *k, uint32_t operation, um_mem scratch, um_val index, um_val a)
{
    um_k_store(k, scratch, index, a);
    for (uint32_t left = um_kernel_invocations(k), half; left > 1; left = half) {
        half = (left + 1) / 2;
        um_k_barrier(k);
        um_k_if(k, um_k_lt(k, index, um_k_u32(k, left - half)));
        um_val upper = um_k_load(k, scratch, um_k_add(k, index, um_k_u32(k, half)));
        um_val both = join(k, operation, um_k_load(k, scratch, index), upper);
        um_k_store(k, scratch, index, both);
        um_k_end(k);
    }
}

/* Each subgroup's result to one element; the first subgroup adds them up, as many rounds as it
 * takes: its size is not known, nor whether the last subgroup is whole. */
static void reduce_subgroups(um_kernel *k, uint32_t operation, um_mem scratch, um_mem part,
                             um_val a)
{
    um_dtype dtype = um_val_type(k, a).dtype;
    um_val zero = um_k_u32(k, 0), one = um_k_u32(k, 1);
    um_val lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0);
    um_val id = um_k_builtin(k, UM_KOP_SUBGROUP_ID, 0);
    um_val size = um_k_builtin(k, UM_KOP_SUBGROUP_SIZE, 0), is_first = um_k_eq(k, lane, zero);
    um_val last = um_k_u32(k, um_kernel_invocations(k) - 1);
    um_val count = um_k_add(k, um_k_div(k, last, size), one);
    um_k_store_if(k, scratch, id, um_k_subgroup_reduce(k, (int32_t)operation, a), is_first);
    um_k_barrier(k);
    um_k_if(k, um_k_eq(k, id, zero));
    /* -0 + x is x, also where x is -0 */
    um_val identity = identity_of(k, operation, dtype);
    if (operation == UM_K_ADD && um_dtype_is_float(dtype)) identity = um_k_neg(k, identity);
    um_k_set(k, part, identity);
    um_val i = um_k_for(k, lane, count, size);
    um_k_set(k, part, join(k, operation, um_k_get(k, part), um_k_load(k, scratch, i)));
    um_k_end(k);
    um_val all = um_k_subgroup_reduce(k, (int32_t)operation, um_k_get(k, part));
    um_k_store_if(k, scratch, zero, all, is_first);
    um_k_end(k);
}

/* In place, each element onto the one 1, 2, 4, ... further. Lanes of subgroups need not follow
 * local indices on every target, so subgroups are of no use here. */
static um_val scan_tree(um_kernel *k, uint32_t operation, bool exclusive, um_mem scratch,
                        um_val index, um_val a)
{
    um_dtype dtype = um_val_type(k, a).dtype;
    um_val identity = identity_of(k, operation, dtype), one = um_k_u32(k, 1);
    um_val all = a;
    um_k_store(k, scratch, index, a);
    um_k_barrier(k);
    for (uint32_t by = 1; by < um_kernel_invocations(k); by *= 2) {
        um_val distance = um_k_u32(k, by), has = um_k_ge(k, index, distance);
        um_val from = um_k_sub(k, index, distance);
        um_val before = um_k_load_if(k, scratch, from, has, identity);
        all = um_k_select(k, has, join(k, operation, before, all), all);
        um_k_barrier(k);
        um_k_store(k, scratch, index, all);
        um_k_barrier(k);
    }
    if (!exclusive) return all;
    um_val has = um_k_ge(k, index, one), from = um_k_sub(k, index, one);
    um_val before = um_k_load_if(k, scratch, from, has, identity);
    um_k_barrier(k);
    return before;
}

static um_val expand_group(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    um_expand *e = r->pass;
    if (inst.op < UM_KOP_GROUP_BROADCAST || inst.op > UM_KOP_GROUP_SCAN)
        return um_kernel_append(k, &inst);
    um_val a = inst.arg[0], zero = um_k_u32(k, 0), result;
    um_dtype dtype = um_val_type(k, a).dtype;
    uint32_t operation = (uint32_t)inst.imm;
    bool exclusive = inst.imm >> 32 != 0;
    /* a bool as 0 or 1 */
    if (dtype == UM_BOOL) a = um_k_select(k, a, um_k_u32(k, 1), zero);
    um_dtype kept = dtype == UM_BOOL ? UM_U32 : dtype;
    um_mem scratch = scratch_of(e, k, kept);
    um_val index = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    if (inst.op == UM_KOP_GROUP_SCAN) return scan_tree(k, operation, exclusive, scratch, index, a);
    if (inst.op == UM_KOP_GROUP_BROADCAST) {
        um_val is_it = um_k_eq(k, index, um_k_u32(k, (uint32_t)inst.imm));
        um_k_store_if(k, scratch, zero, a, is_it);
    } else if (e->lacks->subgroups) {
        reduce_tree(k, operation, scratch, index, a);
    } else {
        reduce_subgroups(k, operation, scratch, part_of(e, k, kept), a);
    }
    result = um_k_load_uniform(k, scratch, zero);
    return dtype == UM_BOOL ? um_k_ne(k, result, zero) : result;
}

/* ---- subgroups of one ----------------------------------------------------------------------- */

/* Every kernel runs with subgroups of any size, so also of one invocation. */
static um_val expand_subgroup(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    switch (inst.op) {
    case UM_KOP_SUBGROUP_SIZE: return um_k_u32(k, 1);
    case UM_KOP_SUBGROUP_ID: return um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    case UM_KOP_SUBGROUP_LANE: return um_k_u32(k, 0);
    case UM_KOP_SUBGROUP_SCAN:
        if (inst.imm >> 32) return identity_of(k, (uint32_t)inst.imm, inst.type.dtype);
        return inst.arg[0];
    case UM_KOP_SUBGROUP_REDUCE:
    case UM_KOP_SUBGROUP_SHUFFLE:
    case UM_KOP_SUBGROUP_SHUFFLE_XOR:
    case UM_KOP_SUBGROUP_SHUFFLE_UP:
    case UM_KOP_SUBGROUP_SHUFFLE_DOWN: return inst.arg[0];
    case UM_KOP_SUBGROUP_BALLOT: {
        um_val zero = um_k_u32(k, 0);
        um_val bit = um_k_select(k, inst.arg[0], um_k_u32(k, 1), zero);
        return um_k_vector(k, 4, (um_val[]){bit, zero, zero, zero});
    }
    default: return um_kernel_append(k, &inst);
    }
}

static um_status can_be_alone(const um_kernel *k)
{
    if (k->subgroup_size > 1)
        return UM_FAIL(UM_UNSUPPORTED,
                       "kernel %s: it needs subgroups of %u; the target has no subgroups", k->name,
                       k->subgroup_size);
    return UM_OK;
}

/* ---- subgroups by shuffles ------------------------------------------------------------------ */

/* The value of lane `from` where there is such a lane, else this one's own. */
static um_val shuffle_if(um_kernel *k, um_val a, um_val has, um_val from, um_val lane)
{
    return um_k_subgroup_shuffle(k, a, um_k_select(k, has, from, lane));
}

/* The upper half onto the lower, as often as it takes; lane 0 has it all then. */
static um_val reduce_shuffles(um_kernel *k, uint32_t size, uint32_t operation, um_val a)
{
    uint32_t n = um_kernel_invocations(k);
    um_val lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0);
    um_val before = um_k_mul(k, um_k_builtin(k, UM_KOP_SUBGROUP_ID, 0), um_k_u32(k, size));
    um_val left =
        um_k_sub(k, um_k_u32(k, n), before); /* lanes of it are there, if less than size */
    for (uint32_t by = size / 2; by >= 1; by /= 2) {
        um_val from = um_k_add(k, lane, um_k_u32(k, by));
        if (n % size == 0) {
            um_val other = um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_XOR, a, by);
            a = join(k, operation, a, other);
        } else {
            um_val has = um_k_and(k, um_k_lt(k, from, left), um_k_lt(k, from, um_k_u32(k, size)));
            um_val other = shuffle_if(k, a, has, from, lane);
            a = um_k_select(k, has, join(k, operation, a, other), a);
        }
    }
    return um_k_subgroup_shuffle(k, a, um_k_u32(k, 0)); /* so it counts as the same in all */
}

static um_val scan_shuffles(um_kernel *k, uint32_t size, uint32_t operation, bool exclusive,
                            um_val a)
{
    um_val identity = identity_of(k, operation, um_val_type(k, a).dtype);
    um_val lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0), one = um_k_u32(k, 1), has, before;
    for (uint32_t by = 1; by < size; by *= 2) {
        um_val distance = um_k_u32(k, by);
        has = um_k_ge(k, lane, distance);
        before = shuffle_if(k, a, has, um_k_sub(k, lane, distance), lane);
        a = um_k_select(k, has, join(k, operation, before, a), a);
    }
    if (!exclusive) return a;
    has = um_k_ge(k, lane, one);
    before = shuffle_if(k, a, has, um_k_sub(k, lane, one), lane);
    return um_k_select(k, has, before, identity);
}

static um_val ballot_shuffles(um_kernel *k, uint32_t size, um_val a)
{
    um_val lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0), zero = um_k_u32(k, 0), word[4];
    um_val bit = um_k_shl(k, um_k_u32(k, 1), lane), mine = um_k_shr(k, lane, um_k_u32(k, 5));
    for (uint32_t w = 0; w < 4; w++) {
        um_val is_here = um_k_and(k, a, um_k_eq(k, mine, um_k_u32(k, w)));
        word[w] = zero;
        if (32 * w < size)
            word[w] = reduce_shuffles(k, size, UM_K_OR, um_k_select(k, is_here, bit, zero));
    }
    return um_k_vector(k, 4, word);
}

static um_val expand_shuffles(um_rewrite *r, um_kinst inst)
{
    const um_expand *e = r->pass;
    uint32_t size = e->lacks->shuffles, operation = (uint32_t)inst.imm;
    switch (inst.op) {
    case UM_KOP_SUBGROUP_SIZE: return um_k_u32(r->to, size);
    case UM_KOP_SUBGROUP_REDUCE: return reduce_shuffles(r->to, size, operation, inst.arg[0]);
    case UM_KOP_SUBGROUP_SCAN:
        return scan_shuffles(r->to, size, operation, inst.imm >> 32 != 0, inst.arg[0]);
    case UM_KOP_SUBGROUP_BALLOT: return ballot_shuffles(r->to, size, inst.arg[0]);
    default: return um_kernel_append(r->to, &inst);
    }
}

/* ---- asynchronous copies -------------------------------------------------------------------- */

/* 16 bytes, by 4 elements where there are so many. */
static um_val expand_async(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    if (inst.op == UM_KOP_ASYNC_COMMIT || inst.op == UM_KOP_ASYNC_WAIT) return 0;
    if (inst.op != UM_KOP_ASYNC_COPY) return um_kernel_append(k, &inst);
    um_mem to = (um_mem)inst.imm, from = (um_mem)(inst.imm >> 32);
    uint32_t count = 128 / (uint32_t)um_dtype_bits(k->mem[to - 1].type.dtype);
    uint32_t lanes = UM_MIN(count, 4);
    for (uint32_t i = 0; i < count; i += lanes) {
        um_val at = um_k_u32(k, i), out = inst.arg[0], in = inst.arg[1];
        if (i > 0) out = um_k_add(k, out, at);
        if (i > 0) in = um_k_add(k, in, at);
        um_k_store(k, to, out, um_k_load_lanes(k, from, in, (int32_t)lanes));
    }
    return 0;
}

/* ---- products of bytes ----------------------------------------------------------------------- */

static um_val expand_dot4(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    um_ktype type = inst.type;
    if (inst.op != UM_KOP_DOT4_I8 && inst.op != UM_KOP_DOT4_U8) return um_kernel_append(k, &inst);
    um_val sum = inst.arg[2], down = um_k_bits(k, type.dtype, type.lanes, 24), part[2];
    for (uint32_t byte = 0; byte < 32; byte += 8) {
        um_val up = um_k_bits(k, type.dtype, type.lanes, 24 - byte);
        for (int32_t i = 0; i < 2; i++) part[i] = um_k_shr(k, um_k_shl(k, inst.arg[i], up), down);
        sum = um_k_add(k, sum, um_k_mul(k, part[0], part[1]));
    }
    return sum;
}

/* By what is below the sign. From 2^52 on f64 has whole numbers only. */
static um_val expand_whole(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    int32_t lanes = inst.type.lanes;
    if ((inst.op != UM_KOP_TRUNC && inst.op != UM_KOP_ROUND) || inst.type.dtype != UM_F64)
        return um_kernel_append(k, &inst);
    um_val x = inst.arg[0], big = um_k_number(k, UM_F64, lanes, 0x1p52);
    um_val negative = um_k_lt(k, x, um_k_number(k, UM_F64, lanes, 0));
    um_val size = inst.arg[0] = um_k_select(k, negative, um_k_neg(k, x), x);
    um_val whole = inst.op == UM_KOP_TRUNC ? um_kernel_append(k, &inst)
                                           : um_k_sub(k, um_k_add(k, size, big), big);
    whole = um_k_select(k, um_k_lt(k, size, big), whole, size);
    whole = um_k_select(k, negative, um_k_neg(k, whole), whole);
    return um_k_select(k, um_k_eq(k, x, whole), x, whole); /* -0 is not below 0 */
}

/* i32 as i64 by u32: the sign is put in by arithmetic. */
static um_val expand_widening(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    int32_t lanes = inst.type.lanes;
    if (inst.op != UM_KOP_CONVERT || inst.type.dtype != UM_I64 ||
        um_val_type(k, inst.arg[0]).dtype != UM_I32)
        return um_kernel_append(k, &inst);
    um_val sign = um_k_bits(k, UM_U32, lanes, 1u << 31);
    um_val u = um_k_xor(k, um_k_bitcast(k, UM_U32, lanes, inst.arg[0]), sign);
    return um_k_sub(k, um_k_convert(k, UM_I64, u), um_k_convert(k, UM_I64, sign));
}

/* The smaller and larger by comparing. u32 to f32 by i32, of large ones half of them: what is
 * shifted out is still in the last bit, so it rounds once. */
static um_val expand_integers(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    um_val a = inst.arg[0], b = inst.arg[1];
    bool is_max = inst.op == UM_KOP_MAX, is_min = inst.op == UM_KOP_MIN;
    if ((is_min || is_max) && um_dtype_is_int(inst.type.dtype))
        return um_k_select(k, um_k_lt(k, a, b), is_max ? b : a, is_max ? a : b);
    if (inst.op != UM_KOP_CONVERT || inst.type.dtype != UM_F32 || um_val_type(k, a).dtype != UM_U32)
        return um_kernel_append(k, &inst);
    int32_t lanes = inst.type.lanes;
    um_val one = um_k_bits(k, UM_U32, lanes, 1);
    um_val large = um_k_lt(k, um_k_bits(k, UM_U32, lanes, INT32_MAX), a);
    um_val half = um_k_or(k, um_k_shr(k, a, one), um_k_and(k, a, one));
    um_val small = um_k_bitcast(k, UM_I32, lanes, um_k_select(k, large, half, a));
    um_val x = um_k_convert(k, UM_F32, small);
    return um_k_select(k, large, um_k_add(k, x, x), x);
}

/* ---- functions ------------------------------------------------------------------------------ */

static um_val expand_math(um_rewrite *r, um_kinst inst)
{
    bool has = inst.type.dtype == UM_F32 || inst.type.dtype == UM_F64;
    if (!um_kop_is_math(inst.op) || !has) return um_kernel_append(r->to, &inst);
    return um_k_math(r->to, inst.op, inst.arg[0], inst.arg[1]);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static um_val copy_each(um_rewrite *r, um_kinst inst) { return um_kernel_append(r->to, &inst); }

static um_status run_pass(const um_kernel *from, um_rewrite_fn fn, um_expand *e, um_kernel **out)
{
    um_rewrite r;
    *out = NULL;
    UM_TRY(um_rewrite_begin(&r, from, e));
    if (fn == um_expand_fragments) um_expand_fragments_begin(&r);
    if (fn == um_expand_types) um_expand_memories(&r);
    if (fn == um_expand_wide) um_expand_wide_memories(&r);
    um_rewrite_each(&r, fn);
    return um_rewrite_end(&r, out);
}

enum {
    WIDE = 1 << UM_I64 | 1 << UM_U64,
    NARROW = 1 << UM_I8 | 1 << UM_U8 | 1 << UM_I16 | 1 << UM_U16
};

/* Whether it makes sense: types of up to 16 bits, integers of 64, subgroups of a power of two. f16
 * without values has no arithmetic either. */
static um_status check_lacks(const um_kernel *k, um_klacks *lacks)
{
    for (um_dtype dtype = 1; dtype < 32; dtype++)
        if ((lacks->types & ~(uint32_t)WIDE) >> dtype & 1 &&
            (um_dtype_bits(dtype) < 8 || um_dtype_bits(dtype) > 16))
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "kernel %s: expanding %s; only 8- and 16-bit types and 64-bit integers "
                           "can lack",
                           k->name, um_dtype_name(dtype));
    if (lacks->types & WIDE) lacks->types |= WIDE;
    if (lacks->shuffles & (lacks->shuffles - 1) || lacks->shuffles > 128)
        return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: expanding to subgroups of %u", k->name,
                       lacks->shuffles);
    lacks->arithmetic |= lacks->types & 1u << UM_F16;
    if (lacks->subgroups) {
        lacks->fragments = true;
        lacks->tile_count = 0;
        return can_be_alone(k);
    }
    if (!lacks->shuffles || !k->subgroup_size || k->subgroup_size == lacks->shuffles) return UM_OK;
    return UM_FAIL(UM_UNSUPPORTED, "kernel %s: it needs subgroups of %u; the target has them of %u",
                   k->name, k->subgroup_size, lacks->shuffles);
}

um_status um_kernel_expand(const um_kernel *k, const um_klacks *target, um_kernel **out)
{
    um_klacks all = *target, *lacks = &all;
    *out = NULL;
    UM_TRY(check_lacks(k, lacks));
    const struct {
        bool wanted;
        um_rewrite_fn fn;
    } passes[] = {{lacks->group_ops, expand_group},
                  {lacks->fragments && k->frag_count > 0, um_expand_fragments},
                  {lacks->subgroups, expand_subgroup},
                  {lacks->shuffles != 0 && !lacks->subgroups, expand_shuffles},
                  {lacks->async_copy, expand_async},
                  {lacks->saturation || (lacks->types & NARROW) != 0, um_expand_saturation},
                  {lacks->dot4, expand_dot4},
                  {lacks->whole, expand_whole}, /* those of functions need none of it */
                  {lacks->arithmetic != 0, um_expand_arithmetic},
                  {lacks->math, expand_math},

                  {(lacks->types & WIDE) != 0, um_expand_wide},
                  {(lacks->types & ~(uint32_t)WIDE) != 0, um_expand_types},
                  {lacks->lane_bitcasts, um_expand_lanes},
                  {lacks->widening, expand_widening},
                  {lacks->integers, expand_integers}};
    um_expand e = {.lacks = lacks};
    um_kernel *last = NULL, *next;
    for (size_t i = 0; i < UM_COUNT_OF(passes); i++) {
        if (!passes[i].wanted) continue;
        um_status status = run_pass(last ? last : k, passes[i].fn, &e, &next);
        um_kernel_release(last);
        UM_TRY(status);
        last = next;
    }
    *out = last;
    return last ? UM_OK : um_rewrite_kernel(k, copy_each, NULL, out);
}

/* A constant 0.0 as what no compiler knows to be 0: a count of work-groups is below 2^31. */
static um_val hide_zero(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    um_dtype dtype = inst.type.dtype;
    int32_t bits = um_dtype_bits(dtype);
    bool is_real = inst.op == UM_KOP_CONST && um_dtype_is_float(dtype);
    if (!is_real || (inst.imm & ~((uint64_t)1 << (bits - 1))) != 0)
        return um_kernel_append(k, &inst);
    um_dtype word = bits == 64 ? UM_U64 : UM_U32; /* 16 bits have no arithmetic */
    um_val zero = um_k_shr(k, um_k_builtin(k, UM_KOP_GROUP_COUNT, 0), um_k_u32(k, 31));
    zero = um_k_or(k, um_k_convert(k, word, zero), um_k_const(k, word, inst.imm));
    if (bits == 16) zero = um_k_convert(k, UM_U16, zero);
    return um_k_splat(k, inst.type.lanes, um_k_bitcast(k, dtype, 1, zero));
}

um_status um_kernel_lower(const um_kernel *k, const um_klacks *lacks, um_kernel **out)
{
    um_kernel *simple, *expanded = NULL;
    *out = NULL;
    UM_TRY(um_kernel_simplify(k, &simple));
    um_status status = um_kernel_expand(simple, lacks, &expanded);
    if (status == UM_OK) status = um_kernel_simplify(expanded, out);
    um_kernel_release(simple);
    um_kernel_release(expanded);
    if (status != UM_OK || !lacks->zeros) return status;
    um_kernel *plain = *out; /* constants are known only now */
    status = um_rewrite_kernel(plain, hide_zero, NULL, out);
    um_kernel_release(plain);
    return status;
}
