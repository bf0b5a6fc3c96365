/* ir/emit.c: the builder's instruction calls. Each finds the result's type and appends; whether the
 * operands fit is the verifier's business. */
#include "ir/ir.h"

#include <stdio.h>

static um_ktype type(um_dtype dtype, int32_t lanes)
{
    return (um_ktype){(uint8_t)dtype, (uint8_t)lanes};
}

/* The type of an operand; none of a number that is no value. */
static um_ktype type_of(const um_kernel *k, um_val v)
{
    return k && v < k->inst_count ? k->inst[v].type : type(UM_DTYPE_NONE, 0);
}

/* Appends op with operands a, b, c, of which there are as many as its row says. */
static um_val emit(um_kernel *k, um_kop op, um_ktype result, uint64_t imm, um_val a, um_val b,
                   um_val c)
{
    return um_kernel_append(
        k, &(um_kinst){.op = (uint16_t)op, .type = result, .arg = {a, b, c}, .imm = imm});
}

static const um_ktype nothing = {0, 0}, u32 = {UM_U32, 1};

/* ---- from the rows --------------------------------------------------------------------------- */

static um_val emit_row(um_kernel *k, um_kop op, um_val a, um_val b, um_val c)
{
    um_ktype result = type_of(k, a);
    if (um_kop_rows[op].rule == UM_KRULE_BOOL) result.dtype = UM_BOOL;
    if (um_kop_rows[op].rule == UM_KRULE_SELECT) result = type_of(k, b);
    return emit(k, op, result, 0, a, b, c);
}

#define UM_KOP(id, NAME, name, arity, rule, types, flow, imm, same, doc)
#define UM_KOP1(id, NAME, name, rule, types, doc)                                                  \
    um_val um_k_##name(um_kernel *k, um_val a) { return emit_row(k, UM_KOP_##NAME, a, 0, 0); }
#define UM_KOP2(id, NAME, name, rule, types, doc)                                                  \
    um_val um_k_##name(um_kernel *k, um_val a, um_val b)                                           \
    {                                                                                              \
        return emit_row(k, UM_KOP_##NAME, a, b, 0);                                                \
    }
#define UM_KOP3(id, NAME, name, rule, types, doc)                                                  \
    um_val um_k_##name(um_kernel *k, um_val a, um_val b, um_val c)                                 \
    {                                                                                              \
        return emit_row(k, UM_KOP_##NAME, a, b, c);                                                \
    }
#include <umbel/kernel.def>

/* ---- values out of nothing ------------------------------------------------------------------- */

um_val um_k_bits(um_kernel *k, um_dtype dtype, int32_t lanes, uint64_t bits)
{
    int32_t width = um_dtype_bits(dtype);
    if (width > 0 && width < 64) bits &= ((uint64_t)1 << width) - 1;
    return emit(k, UM_KOP_CONST, type(dtype, lanes), bits, 0, 0, 0);
}

um_val um_k_number(um_kernel *k, um_dtype dtype, int32_t lanes, double value)
{
    uint64_t bits = 0;
    um_store(dtype, &bits, 0, 1, UM_CLASS_F64, &value, 1);
    return um_k_bits(k, dtype, lanes, bits);
}

um_val um_k_const(um_kernel *k, um_dtype dtype, uint64_t bits)
{
    return um_k_bits(k, dtype, 1, bits);
}

um_val um_k_f32(um_kernel *k, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return um_k_const(k, UM_F32, bits);
}

um_val um_k_i32(um_kernel *k, int32_t value) { return um_k_const(k, UM_I32, (uint32_t)value); }
um_val um_k_u32(um_kernel *k, uint32_t value) { return um_k_const(k, UM_U32, value); }
um_val um_k_bool(um_kernel *k, bool value) { return um_k_const(k, UM_BOOL, value); }

um_val um_k_builtin(um_kernel *k, um_kop op, uint32_t dim)
{
    if (op < UM_KOP_GROUP_ID || op > UM_KOP_SUBGROUP_LANE)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "um_k_builtin: opcode %d is none", op);
    return emit(k, op, u32, dim, 0, 0, 0);
}

um_val um_k_global_index(um_kernel *k, uint32_t dim)
{
    um_val group = um_k_builtin(k, UM_KOP_GROUP_ID, dim);
    um_val local = um_k_builtin(k, UM_KOP_LOCAL_ID, dim);
    um_val size = um_k_u32(k, k && dim < 3 ? k->group_size[dim] : 1);
    return um_k_add(k, um_k_mul(k, group, size), local);
}

/* ---- types and lanes ------------------------------------------------------------------------- */

um_val um_k_convert(um_kernel *k, um_dtype dtype, um_val a)
{
    return emit(k, UM_KOP_CONVERT, type(dtype, type_of(k, a).lanes), 0, a, 0, 0);
}

um_val um_k_bitcast(um_kernel *k, um_dtype dtype, int32_t lanes, um_val a)
{
    return emit(k, UM_KOP_BITCAST, type(dtype, lanes), 0, a, 0, 0);
}

um_val um_k_vector(um_kernel *k, int32_t lanes, const um_val *items)
{
    um_kinst inst = {.op = UM_KOP_VECTOR};
    if (items && lanes == 1) return items[0];
    if (!items || (lanes != 2 && lanes != 4))
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "um_k_vector: %d lanes", lanes);
    memcpy(inst.arg, items, (size_t)lanes * sizeof *items);
    inst.type = type(type_of(k, items[0]).dtype, lanes);
    return um_kernel_append(k, &inst);
}

um_val um_k_splat(um_kernel *k, int32_t lanes, um_val a)
{
    if (lanes == 1) return a;
    return emit(k, UM_KOP_SPLAT, type(type_of(k, a).dtype, lanes), 0, a, 0, 0);
}

um_val um_k_extract(um_kernel *k, um_val a, uint32_t lane)
{
    if (type_of(k, a).lanes == 1 && lane == 0) return a;
    return emit(k, UM_KOP_EXTRACT, type(type_of(k, a).dtype, 1), lane, a, 0, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static um_ktype element_of(const um_kernel *k, um_mem mem)
{
    return k && mem >= 1 && mem <= k->mem_count ? k->mem[mem - 1].type : nothing;
}

um_val um_k_load(um_kernel *k, um_mem mem, um_val index)
{
    return um_k_load_lanes(k, mem, index, 1);
}

um_val um_k_load_lanes(um_kernel *k, um_mem mem, um_val index, int32_t lanes)
{
    return emit(k, UM_KOP_LOAD, type(element_of(k, mem).dtype, lanes), mem, index, 0, 0);
}

um_val um_k_load_if(um_kernel *k, um_mem mem, um_val index, um_val condition, um_val other)
{
    return emit(k, UM_KOP_LOAD_IF, type_of(k, other), mem, index, condition, other);
}

void um_k_store(um_kernel *k, um_mem mem, um_val index, um_val value)
{
    emit(k, UM_KOP_STORE, nothing, mem, index, value, 0);
}

void um_k_store_if(um_kernel *k, um_mem mem, um_val index, um_val value, um_val condition)
{
    emit(k, UM_KOP_STORE_IF, nothing, mem, index, value, condition);
}

um_val um_k_get(um_kernel *k, um_mem var)
{
    return emit(k, UM_KOP_GET, element_of(k, var), var, 0, 0, 0);
}

void um_k_set(um_kernel *k, um_mem var, um_val value)
{
    emit(k, UM_KOP_SET, nothing, var, value, 0, 0);
}

um_val um_k_atomic(um_kernel *k, int32_t operation, um_mem mem, um_val index, um_val value)
{
    uint64_t imm = (uint64_t)(uint32_t)operation << 32 | mem;
    return emit(k, UM_KOP_ATOMIC, element_of(k, mem), imm, index, value, 0);
}

um_val um_k_atomic_cas(um_kernel *k, um_mem mem, um_val index, um_val expected, um_val value)
{
    return emit(k, UM_KOP_ATOMIC_CAS, element_of(k, mem), mem, index, expected, value);
}

void um_k_barrier(um_kernel *k) { emit(k, UM_KOP_BARRIER, nothing, 0, 0, 0, 0); }

um_val um_k_load_uniform(um_kernel *k, um_mem shared, um_val index)
{
    return emit(k, UM_KOP_LOAD_UNIFORM, element_of(k, shared), shared, index, 0, 0);
}

/* ---- across invocations ---------------------------------------------------------------------- */

um_val um_k_subgroup_reduce(um_kernel *k, int32_t operation, um_val a)
{
    return emit(k, UM_KOP_SUBGROUP_REDUCE, type_of(k, a), (uint32_t)operation, a, 0, 0);
}

um_val um_k_subgroup_scan(um_kernel *k, int32_t operation, bool exclusive, um_val a)
{
    uint64_t imm = (uint64_t)exclusive << 32 | (uint32_t)operation;
    return emit(k, UM_KOP_SUBGROUP_SCAN, type_of(k, a), imm, a, 0, 0);
}

um_val um_k_subgroup_shuffle(um_kernel *k, um_val a, um_val lane)
{
    return emit(k, UM_KOP_SUBGROUP_SHUFFLE, type_of(k, a), 0, a, lane, 0);
}

um_val um_k_subgroup_shift(um_kernel *k, um_kop op, um_val a, uint32_t by)
{
    if (op < UM_KOP_SUBGROUP_SHUFFLE_XOR || op > UM_KOP_SUBGROUP_SHUFFLE_DOWN)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "um_k_subgroup_shift: opcode %d is none",
                                 op);
    return emit(k, op, type_of(k, a), by, a, 0, 0);
}

um_val um_k_subgroup_ballot(um_kernel *k, um_val a)
{
    return emit(k, UM_KOP_SUBGROUP_BALLOT, type(UM_U32, 4), 0, a, 0, 0);
}

um_val um_k_group_broadcast(um_kernel *k, um_val a, uint32_t local_index)
{
    return emit(k, UM_KOP_GROUP_BROADCAST, type_of(k, a), local_index, a, 0, 0);
}

um_val um_k_group_reduce(um_kernel *k, int32_t operation, um_val a)
{
    return emit(k, UM_KOP_GROUP_REDUCE, type_of(k, a), (uint32_t)operation, a, 0, 0);
}

um_val um_k_group_scan(um_kernel *k, int32_t operation, bool exclusive, um_val a)
{
    uint64_t imm = (uint64_t)exclusive << 32 | (uint32_t)operation;
    return emit(k, UM_KOP_GROUP_SCAN, type_of(k, a), imm, a, 0, 0);
}

/* ---- fragments, asynchronous copies ---------------------------------------------------------- */

static uint64_t frag_memory(um_frag frag, um_mem mem, bool by_columns)
{
    return (uint64_t)mem << 32 | (uint64_t)by_columns << 31 | frag;
}

void um_k_frag_fill(um_kernel *k, um_frag frag, um_val a)
{
    emit(k, UM_KOP_FRAG_FILL, nothing, frag, a, 0, 0);
}

void um_k_frag_load(um_kernel *k, um_frag frag, um_mem mem, um_val index, um_val stride,
                    bool by_columns)
{
    emit(k, UM_KOP_FRAG_LOAD, nothing, frag_memory(frag, mem, by_columns), index, stride, 0);
}

void um_k_frag_store(um_kernel *k, um_frag frag, um_mem mem, um_val index, um_val stride,
                     bool by_columns)
{
    emit(k, UM_KOP_FRAG_STORE, nothing, frag_memory(frag, mem, by_columns), index, stride, 0);
}

void um_k_frag_mma(um_kernel *k, um_frag d, um_frag a, um_frag b, um_frag c)
{
    if ((d | a | b | c) > UINT16_MAX) {
        um_kernel_mistake(k, UM_INVALID_ARGUMENT, "frag_mma: fragment %u", d | a | b | c);
        return;
    }
    uint64_t imm = (uint64_t)c << 48 | (uint64_t)b << 32 | (uint64_t)a << 16 | d;
    emit(k, UM_KOP_FRAG_MMA, nothing, imm, 0, 0, 0);
}

um_val um_k_frag_count(um_kernel *k, um_frag frag)
{
    return emit(k, UM_KOP_FRAG_COUNT, u32, frag, 0, 0, 0);
}

um_val um_k_frag_get(um_kernel *k, um_frag frag, um_val item)
{
    um_dtype dtype = k && frag >= 1 && frag <= k->frag_count ? k->frag[frag - 1].dtype : 0;
    return emit(k, UM_KOP_FRAG_GET, type(dtype, 1), frag, item, 0, 0);
}

void um_k_frag_set(um_kernel *k, um_frag frag, um_val item, um_val value)
{
    emit(k, UM_KOP_FRAG_SET, nothing, frag, item, value, 0);
}

um_val um_k_frag_row(um_kernel *k, um_frag frag, um_val item)
{
    return emit(k, UM_KOP_FRAG_ROW, u32, frag, item, 0, 0);
}

um_val um_k_frag_column(um_kernel *k, um_frag frag, um_val item)
{
    return emit(k, UM_KOP_FRAG_COLUMN, u32, frag, item, 0, 0);
}

void um_k_async_copy(um_kernel *k, um_mem shared, um_val shared_index, um_mem buffer,
                     um_val buffer_index)
{
    uint64_t imm = (uint64_t)buffer << 32 | shared;
    emit(k, UM_KOP_ASYNC_COPY, nothing, imm, shared_index, buffer_index, 0);
}

void um_k_async_commit(um_kernel *k) { emit(k, UM_KOP_ASYNC_COMMIT, nothing, 0, 0, 0, 0); }

void um_k_async_wait(um_kernel *k, uint32_t batches_left)
{
    emit(k, UM_KOP_ASYNC_WAIT, nothing, batches_left, 0, 0, 0);
}

/* ---- control flow ---------------------------------------------------------------------------- */

void um_k_if(um_kernel *k, um_val condition) { emit(k, UM_KOP_IF, nothing, 0, condition, 0, 0); }
void um_k_else(um_kernel *k) { emit(k, UM_KOP_ELSE, nothing, 0, 0, 0, 0); }

um_val um_k_for(um_kernel *k, um_val begin, um_val end, um_val step)
{
    return emit(k, UM_KOP_FOR, type_of(k, begin), 0, begin, end, step);
}

void um_k_loop(um_kernel *k) { emit(k, UM_KOP_LOOP, nothing, 0, 0, 0, 0); }
void um_k_break(um_kernel *k) { emit(k, UM_KOP_BREAK, nothing, 0, 0, 0, 0); }

void um_k_break_if(um_kernel *k, um_val condition)
{
    um_k_if(k, condition);
    um_k_break(k);
    um_k_end(k);
}

void um_k_end(um_kernel *k) { emit(k, UM_KOP_END, nothing, 0, 0, 0, 0); }
