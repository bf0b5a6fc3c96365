/* ir/expand_type.c: conversions of floats to integers where the target's do not saturate,
 * arithmetic on f16 in f32, and types of 8 and 16 bits that a target lacks.
 *
 * A value of a type that lacks is its bits in a u32, the upper ones 0 (a bool stays one). Memory of
 * it: variables and arrays take a u32 an element; buffers keep their layout and are seen as u16 or
 * u8, or where these lack too as u32, of which a store changes a part: one invocation owns each
 * 32-bit word, and a buffer's size has to be whole words. */
#include "ir/expand.h"

static bool in_mask(uint32_t mask, um_dtype dtype) { return mask >> dtype & 1; }

/* ---- saturation ----------------------------------------------------------------------------- */

/* The integer nearest to a float truncated; NaN: 0. The convert in it only sees what fits, and
 * makes 32 bits of it at least. */
static um_val saturate(um_kernel *k, um_dtype to, um_val a)
{
    um_ktype type = um_val_type(k, a);
    int32_t lanes = type.lanes, bits = um_dtype_bits(to);
    bool is_signed = um_dtype_get_kind(to) == UM_KIND_INT;
    double high = is_signed ? 0.5 : 1; /* 2^(bits - 1) or 2^bits, exact in f32 and f64 */
    for (int32_t i = 0; i < bits; i++) high *= 2;
    if (type.dtype != UM_F32 && type.dtype != UM_F64) a = um_k_convert(k, UM_F32, a);
    um_dtype from = um_val_type(k, a).dtype;
    um_val zero = um_k_number(k, from, lanes, 0), top = um_k_number(k, from, lanes, high);
    um_val bottom = is_signed ? um_k_number(k, from, lanes, -high) : zero;
    um_val fits = um_k_and(k, um_k_ge(k, a, bottom), um_k_lt(k, a, top));
    um_dtype wide = bits >= 32 ? to : is_signed ? UM_I32 : UM_U32;
    um_val result = um_k_convert(k, wide, um_k_select(k, fits, a, zero));
    if (wide != to) result = um_k_convert(k, to, result);
    uint64_t ones = UINT64_MAX >> (64 - bits);
    um_val most = um_k_bits(k, to, lanes, is_signed ? ones >> 1 : ones);
    result = um_k_select(k, um_k_ge(k, a, top), most, result);
    if (!is_signed) return result;
    um_val least = um_k_bits(k, to, lanes, (ones >> 1) + 1);
    return um_k_select(k, um_k_lt(k, a, bottom), least, result);
}

um_val um_expand_saturation(um_rewrite *r, um_kinst inst)
{
    const um_expand *e = r->pass;
    um_dtype to = inst.type.dtype;
    bool wanted = inst.op == UM_KOP_CONVERT && um_dtype_is_int(to) &&
                  um_dtype_is_float(um_val_type(r->to, inst.arg[0]).dtype);
    bool halves = um_dtype_bits(to) == 64 && in_mask(e->lacks->types, to); /* expand_wide.c does */
    return wanted && !halves ? saturate(r->to, to, inst.arg[0]) : um_kernel_append(r->to, &inst);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* On f16 in f32: of +, -, *, / and sqrt the same bits, as f32 has more than twice the digits. */
um_val um_expand_arithmetic(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    const um_expand *e = r->pass;
    const um_kop_row *row = &um_kop_rows[inst.op];
    um_dtype dtype = row->arity > 0 ? um_val_type(k, inst.arg[0]).dtype : UM_DTYPE_NONE;
    bool computes = row->types != UM_KTYPES_ANY && (row->types & UM_KTYPES_F) != 0;
    if (!computes || !in_mask(e->lacks->arithmetic, dtype)) return um_kernel_append(k, &inst);
    if (dtype != UM_F16)
        return um_kernel_mistake(k, UM_UNSUPPORTED, "%s of %s: the target has no such arithmetic",
                                 row->name, um_dtype_name(dtype));
    for (int32_t i = 0; i < row->arity; i++) inst.arg[i] = um_k_convert(k, UM_F32, inst.arg[i]);
    bool back = inst.type.dtype == UM_F16;
    if (back) inst.type.dtype = UM_F32;
    um_val result = um_kernel_append(k, &inst);
    return back ? um_k_convert(k, UM_F16, result) : result;
}

/* ---- conversions ---------------------------------------------------------------------------- */

/* f64 to the f32 that, rounded to fewer digits, is what the f64 would be: the lower of the two
 * around it in magnitude, with the last bit set where it is not exact. */
static um_val odd_from_f64(um_kernel *k, um_val a)
{
    int32_t lanes = um_val_type(k, a).lanes;
    um_val near = um_k_convert(k, UM_F32, a), back = um_k_convert(k, UM_F64, near);
    um_val bits = um_k_bitcast(k, UM_U32, lanes, near), one = um_k_bits(k, UM_U32, lanes, 1);
    um_val above = um_k_gt(k, um_k_abs(k, back), um_k_abs(k, a));
    um_val lower = um_k_select(k, above, um_k_sub(k, bits, one), bits);
    um_val inexact = um_k_or(k, above, um_k_lt(k, um_k_abs(k, back), um_k_abs(k, a)));
    um_val odd = um_k_select(k, inexact, um_k_or(k, lower, one), lower);
    return um_k_bitcast(k, UM_F32, lanes, odd);
}

/* Integers likewise: f32 holds 24 digits, so of larger ones the lowest go into the last that is
 * left, 8 at a time. The lowest of all, its own |a|, is exact. */
static um_val odd_from_int(um_kernel *k, um_val a)
{
    um_ktype type = um_val_type(k, a);
    um_val zero = um_k_bits(k, type.dtype, type.lanes, 0);
    for (int32_t s = 8; s <= um_dtype_bits(type.dtype) - 24; s += 8) {
        um_val low = um_k_bits(k, type.dtype, type.lanes, ((uint64_t)1 << s) - 1);
        um_val most = um_k_bits(k, type.dtype, type.lanes, (uint64_t)1 << (16 + s));
        um_val last = um_k_bits(k, type.dtype, type.lanes, (uint64_t)1 << s);
        um_val high = um_k_and(k, a, um_k_not(k, low));
        um_val rest = um_k_ne(k, um_k_and(k, a, low), zero);
        um_val odd = um_k_select(k, rest, um_k_or(k, high, last), high);
        a = um_k_select(k, um_k_gt(k, um_k_abs(k, a), most), odd, a);
    }
    return um_k_convert(k, UM_F32, a);
}

/* A value of type `was`, perhaps as its bits, as one that the target computes with. */
static um_val widen(const um_expand *e, um_kernel *k, um_val v, um_dtype was)
{
    int32_t lanes = um_val_type(k, v).lanes, bits = um_dtype_bits(was);
    if (was == UM_BOOL || !in_mask(e->lacks->types, was)) return v;
    if (um_dtype_is_float(was)) return um_expand_widen(k, was, v);
    if (um_dtype_get_kind(was) == UM_KIND_UINT) return v;
    um_val up = um_k_bits(k, UM_I32, lanes, (uint64_t)(32 - bits));
    return um_k_shr(k, um_k_shl(k, um_k_bitcast(k, UM_I32, lanes, v), up), up);
}

static um_val narrow_int(um_kernel *k, um_dtype to, um_val v)
{
    int32_t bits = um_dtype_bits(to), lanes = um_val_type(k, v).lanes;
    if (um_val_type(k, v).dtype == UM_I32)
        v = um_k_bitcast(k, UM_U32, lanes, v);
    else
        v = um_k_convert(k, UM_U32, v);
    return um_k_and(k, v, um_k_bits(k, UM_U32, lanes, UINT32_MAX >> (32 - bits)));
}

static um_val narrow_float(um_kernel *k, um_dtype to, um_val v)
{
    um_dtype from = um_val_type(k, v).dtype;
    if (from == UM_F64)
        v = odd_from_f64(k, v);
    else if (um_dtype_is_int(from) && um_dtype_bits(from) >= 32)
        v = odd_from_int(k, v);
    else if (from != UM_F32)
        v = um_k_convert(k, UM_F32, v);
    return um_expand_narrow(k, to, v);
}

static um_val convert(const um_expand *e, um_kernel *k, um_val v, um_dtype was, um_dtype to)
{
    v = widen(e, k, v, was);
    if (to == UM_BOOL || !in_mask(e->lacks->types, to))
        return um_val_type(k, v).dtype == to ? v : um_k_convert(k, to, v);
    return um_dtype_is_float(to) ? narrow_float(k, to, v) : narrow_int(k, to, v);
}

/* ---- bits ----------------------------------------------------------------------------------- */

/* The words of a value, the first lane lowest; one where it has less than 32 bits. */
static int32_t to_words(const um_expand *e, um_kernel *k, um_val v, um_dtype was, um_val *word)
{
    int32_t bits = um_dtype_bits(was), lanes = um_val_type(k, v).lanes, count = bits * lanes / 32;
    if (bits >= 32) {
        v = um_k_bitcast(k, UM_U32, count, v);
        for (int32_t i = 0; i < count; i++) word[i] = um_k_extract(k, v, (uint32_t)i);
        return count;
    }
    for (int32_t i = 0; i < lanes; i++) {
        um_val item = um_k_extract(k, v, (uint32_t)i);
        if (!in_mask(e->lacks->types, was)) { /* several of it make a word */
            um_val items[4] = {item, item, item, item};
            item = um_k_bitcast(k, UM_U32, 1, um_k_vector(k, 32 / bits, items));
            item = um_k_and(k, item, um_k_u32(k, UINT32_MAX >> (32 - bits)));
        }
        int32_t at = i * bits % 32;
        um_val moved = at ? um_k_shl(k, item, um_k_u32(k, (uint32_t)at)) : item;
        um_val *to = &word[i * bits / 32];
        *to = at ? um_k_or(k, *to, moved) : moved;
    }
    return UM_MAX(count, 1);
}

static um_val from_words(const um_expand *e, um_kernel *k, um_ktype type, const um_val *word)
{
    int32_t bits = um_dtype_bits(type.dtype), count = bits * type.lanes / 32;
    um_val item[4];
    if (bits >= 32) return um_k_bitcast(k, type.dtype, type.lanes, um_k_vector(k, count, word));
    for (int32_t i = 0; i < type.lanes; i++) {
        int32_t at = i * bits % 32;
        um_val w = word[i * bits / 32];
        if (at) w = um_k_shr(k, w, um_k_u32(k, (uint32_t)at));
        if (in_mask(e->lacks->types, type.dtype))
            item[i] = um_k_and(k, w, um_k_u32(k, UINT32_MAX >> (32 - bits)));
        else
            item[i] = um_k_extract(k, um_k_bitcast(k, type.dtype, 32 / bits, w), 0);
    }
    return um_k_vector(k, type.lanes, item);
}

/* ---- bitcasts that change the lanes --------------------------------------------------------- */

static um_dtype uint_of(int32_t bits)
{
    return bits == 8 ? UM_U8 : bits == 16 ? UM_U16 : bits == 32 ? UM_U32 : UM_U64;
}

/* Lanes cut into narrower ones, or put together to wider ones, by shifts. */
um_val um_expand_lanes(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    um_ktype from = um_val_type(k, inst.arg[0]), to = inst.type;
    if (inst.op != UM_KOP_BITCAST || from.lanes == to.lanes) return um_kernel_append(k, &inst);
    int32_t bits = um_dtype_bits(from.dtype), wanted = um_dtype_bits(to.dtype);
    um_dtype wide = UM_MAX(bits, wanted) == 64 ? UM_U64 : UM_U32;
    um_val v = um_k_bitcast(k, uint_of(bits), from.lanes, inst.arg[0]), item[4] = {0};
    v = um_k_convert(k, wide, v);
    for (int32_t at = 0; at < bits * from.lanes; at += UM_MIN(bits, wanted)) {
        um_val part = um_k_extract(k, v, (uint32_t)(at / bits)), *out = &item[at / wanted];
        uint64_t down = (uint64_t)(at % bits), up = (uint64_t)(at % wanted);
        if (down) part = um_k_shr(k, part, um_k_const(k, wide, down));
        if (up) part = um_k_shl(k, part, um_k_const(k, wide, up));
        *out = *out ? um_k_or(k, *out, part) : part;
    }
    v = um_k_convert(k, uint_of(wanted), um_k_vector(k, to.lanes, item));
    return um_k_bitcast(k, to.dtype, to.lanes, v);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* What a buffer of a lacking type is seen as. */
static um_dtype storage_of(uint32_t mask, um_dtype dtype)
{
    um_dtype same = um_dtype_bits(dtype) == 16 ? UM_U16 : UM_U8;
    return in_mask(mask, same) ? UM_U32 : same;
}

/* Whether fragments or copies move elements of a memory. */
static bool moves_raw(const um_kernel *k, um_mem mem)
{
    for (int64_t i = 1; i < k->inst_count; i++) {
        um_kimm kind = um_kop_imm(k->inst[i].op);
        if (kind != UM_KIMM_COPY && kind != UM_KIMM_FRAG_AT) continue;
        for (const um_kfield *f = um_kinst_fields(&k->inst[i]); f->kind; f++)
            if (f->kind == UM_KFIELD_MEMORY && um_kfield_get(f, k->inst[i].imm) == mem) return true;
    }
    return false;
}

void um_expand_memories(um_rewrite *r)
{
    const um_expand *e = r->pass;
    uint32_t mask = e->lacks->types;
    for (int64_t i = 0; i < r->to->mem_count; i++) {
        um_kmem *m = &r->to->mem[i];
        um_dtype was = m->type.dtype;
        if (!in_mask(mask, was) || (was == UM_BOOL && m->space == UM_SPACE_VAR)) continue;
        bool buffer = m->space == UM_SPACE_BUFFER;
        bool packed = buffer || (m->space == UM_SPACE_SHARED && moves_raw(r->from, (um_mem)i + 1));
        m->type.dtype = (uint8_t)(packed ? storage_of(mask, was) : UM_U32);
        if (buffer && m->type.dtype == UM_U32 && m->access == UM_K_WRITE)
            m->access = UM_K_READ_WRITE;
    }
}

static um_val index_of_word(um_kernel *k, um_val index, int32_t per)
{
    return um_k_shr(k, index, um_k_u32(k, per == 4 ? 2 : 1));
}

/* The bit in its word at which element index lies. */
static um_val place_in_word(um_kernel *k, um_val index, int32_t per)
{
    um_val in = um_k_and(k, index, um_k_u32(k, (uint32_t)per - 1));
    return um_k_shl(k, in, um_k_u32(k, per == 4 ? 3 : 4));
}

/* `lanes` elements of a buffer that is seen as words, as bits. */
static um_val load_parts(um_kernel *k, um_mem mem, um_val index, um_val condition, int32_t bits,
                         int32_t lanes)
{
    int32_t per = 32 / bits, count = UM_MAX(lanes / per, 1);
    um_val loaded = um_expand_load(k, mem, index_of_word(k, index, per), condition, count), item[4];
    um_val mask = um_k_u32(k, UINT32_MAX >> (32 - bits));
    if (lanes < per) loaded = um_k_shr(k, loaded, place_in_word(k, index, per));
    for (int32_t i = 0; i < lanes; i++) {
        um_val w = um_k_extract(k, loaded, (uint32_t)(i / per));
        if (i % per) w = um_k_shr(k, w, um_k_u32(k, (uint32_t)(i % per * bits)));
        item[i] = um_k_and(k, w, mask);
    }
    return um_k_vector(k, lanes, item);
}

static void store_parts(um_kernel *k, um_mem mem, um_val index, um_val condition, int32_t bits,
                        um_val v)
{
    int32_t lanes = um_val_type(k, v).lanes, per = 32 / bits, count = UM_MAX(lanes / per, 1);
    um_val word[2] = {0}, at = index_of_word(k, index, per);
    for (int32_t i = 0; i < lanes; i++) {
        um_val item = um_k_extract(k, v, (uint32_t)i), *to = &word[i / per];
        if (i % per) item = um_k_shl(k, item, um_k_u32(k, (uint32_t)(i % per * bits)));
        *to = i % per ? um_k_or(k, *to, item) : item;
    }
    if (lanes < per) { /* the others in the word stay */
        um_val place = place_in_word(k, index, per);
        um_val mask = um_k_shl(k, um_k_u32(k, UINT32_MAX >> (32 - bits * lanes)), place);
        um_val rest = um_k_and(k, um_expand_load(k, mem, at, condition, 1), um_k_not(k, mask));
        word[0] = um_k_or(k, rest, um_k_shl(k, word[0], place));
    }
    um_expand_store(k, mem, at, um_k_vector(k, count, word), condition);
}

static um_val load(um_rewrite *r, const um_kinst *inst, um_dtype was)
{
    um_kernel *k = r->to;
    um_mem mem = (um_mem)inst->imm;
    const um_kmem *m = &k->mem[mem - 1];
    um_val condition = inst->op == UM_KOP_LOAD_IF ? inst->arg[1] : 0, index = inst->arg[0], v;
    int32_t lanes = inst->type.lanes;
    if (inst->op == UM_KOP_LOAD_UNIFORM) {
        v = um_k_load_uniform(k, mem, index);
    } else if (m->space == UM_SPACE_BUFFER && m->type.dtype == UM_U32) {
        v = load_parts(k, mem, index, condition, um_dtype_bits(was), lanes);
    } else {
        v = condition
                ? um_k_load_if(k, mem, index, condition, um_k_bits(k, m->type.dtype, lanes, 0))
                : um_k_load_lanes(k, mem, index, lanes);
        if (m->type.dtype != UM_U32) v = um_k_convert(k, UM_U32, v);
    }
    if (was == UM_BOOL) v = um_k_ne(k, v, um_k_bits(k, UM_U32, lanes, 0));
    return condition ? um_k_select(k, condition, v, inst->arg[2]) : v;
}

static um_val store(um_rewrite *r, const um_kinst *inst, um_dtype was)
{
    um_kernel *k = r->to;
    um_mem mem = (um_mem)inst->imm;
    const um_kmem *m = &k->mem[mem - 1];
    um_val condition = inst->op == UM_KOP_STORE_IF ? inst->arg[2] : 0, v = inst->arg[1];
    int32_t lanes = um_val_type(k, v).lanes;
    if (was == UM_BOOL)
        v = um_k_select(k, v, um_k_bits(k, UM_U32, lanes, 1), um_k_bits(k, UM_U32, lanes, 0));
    if (m->space == UM_SPACE_BUFFER && m->type.dtype == UM_U32) {
        store_parts(k, mem, inst->arg[0], condition, um_dtype_bits(was), v);
        return 0;
    }
    if (m->type.dtype != UM_U32) v = um_k_convert(k, m->type.dtype, v);
    um_expand_store(k, mem, inst->arg[0], v, condition);
    return 0;
}

/* ---- types ---------------------------------------------------------------------------------- */

/* Fragments and copies move elements of 8 and 16 bits as they are; in values there are none. */
static bool cannot_be(const um_rewrite *r, const um_kinst *inst)
{
    const um_expand *e = r->pass;
    uint32_t mask = e->lacks->types;
    um_kimm kind = um_kop_imm(inst->op);
    if (kind == UM_KIMM_COPY) {
        um_dtype dtype = r->from->mem[(inst->imm & UINT32_MAX) - 1].type.dtype;
        return in_mask(mask, dtype) && storage_of(mask, dtype) == UM_U32;
    }
    if (kind != UM_KIMM_FRAG && kind != UM_KIMM_FRAG_AT) return false;
    um_dtype dtype = r->from->frag[(inst->imm & INT32_MAX) - 1].dtype;
    bool of_value =
        inst->op == UM_KOP_FRAG_FILL || inst->op == UM_KOP_FRAG_GET || inst->op == UM_KOP_FRAG_SET;
    return in_mask(mask, dtype) &&
           (of_value || (kind == UM_KIMM_FRAG_AT && storage_of(mask, dtype) == UM_U32));
}

um_val um_expand_types(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    const um_expand *e = r->pass;
    uint32_t mask = e->lacks->types;
    const um_kinst *old = &r->from->inst[r->at];
    um_dtype was = um_kinst_arity(old) > 0 ? um_val_type(r->from, old->arg[0]).dtype : 0;
    um_val word[4];
    if (cannot_be(r, &inst))
        return um_kernel_mistake(k, UM_UNSUPPORTED,
                                 "instruction %u, %s, of a type that the target lacks", r->at,
                                 um_kop_rows[inst.op].name);
    if (um_kop_imm(inst.op) == UM_KIMM_MEMORY && inst.op != UM_KOP_GET && inst.op != UM_KOP_SET) {
        um_dtype element = r->from->mem[inst.imm - 1].type.dtype;
        bool stores = um_kop_rows[inst.op].rule == UM_KRULE_NONE;
        if (in_mask(mask, element))
            return stores ? store(r, &inst, element) : load(r, &inst, element);
    }
    bool to = in_mask(mask, inst.type.dtype), from = in_mask(mask, was);
    if (inst.op == UM_KOP_CONVERT && (to || from))
        return convert(e, k, inst.arg[0], was, inst.type.dtype);
    if (inst.op == UM_KOP_BITCAST && (to || from)) {
        to_words(e, k, inst.arg[0], was, word);
        return from_words(e, k, inst.type, word);
    }
    if (to && inst.type.dtype != UM_BOOL) inst.type.dtype = UM_U32;
    return um_kernel_append(k, &inst);
}
