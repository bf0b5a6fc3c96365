/* ir/fold.c: makes a kernel smaller without changing a bit of what it does: constants are computed
 * (by lanes.c, as the interpreter does), values that are there already are used again, branches on
 * constants are decided, what a variable was just set to is not read back. What then does nothing
 * is for dead.c.
 *
 * A value is there already when one with the same opcode, type, imm and operands was made in a
 * block that is still open; of loads and gets, when besides nothing may have written since: that is
 * what the clock is for. It advances with each write and at the borders of blocks that may have
 * some. */
#include "ir/rewrite.h"

typedef struct seen {
    um_val value; /* of the new kernel; 0: free */
    uint32_t time;
} seen;

typedef struct fold {
    um_rewrite *r;
    const um_kernel *from;
    um_val *partner; /* in from */
    um_val *block;   /* of each new value: what opened its block */
    uint8_t *closed; /* of each new instruction that opens a block */
    seen *table;
    uint32_t table_mask;
    uint32_t clock, block_time,
        store_time;                 /* last border; last write to a buffer or shared array */
    uint32_t *own_time;             /* last write to each memory of the invocation */
    um_val *own_value;              /* what each variable was last set to */
    um_val open[UM_KDEPTH_MAX + 1]; /* in the new kernel */
    int32_t depth;
} fold;

static const um_kinst *new_inst(const fold *f, um_val v) { return &f->r->to->inst[v]; }

static bool is_const(const fold *f, um_val v) { return new_inst(f, v)->op == UM_KOP_CONST; }

static bool is_const_of(const fold *f, um_val v, uint64_t bits)
{
    return is_const(f, v) && new_inst(f, v)->imm == bits;
}

/* ---- values that are there already ----------------------------------------------------------- */

/* Whether two of them in one place are the same. */
static bool is_repeatable(const um_kinst *inst)
{
    uint8_t rule = um_kop_rows[inst->op].rule;
    if (rule == UM_KRULE_SAME || rule == UM_KRULE_BOOL || rule == UM_KRULE_SELECT) return true;
    return (inst->op >= UM_KOP_CONST && inst->op <= UM_KOP_SUBGROUP_LANE) ||
           (inst->op >= UM_KOP_CONVERT && inst->op <= UM_KOP_EXTRACT) || inst->op == UM_KOP_LOAD ||
           inst->op == UM_KOP_LOAD_IF || inst->op == UM_KOP_GET;
}

static bool is_own(const fold *f, uint64_t mem)
{
    return f->from->mem[mem - 1].space >= UM_SPACE_PRIVATE;
}

/* From when on a value of this instruction is still right. */
static uint32_t valid_since(const fold *f, const um_kinst *inst)
{
    if (inst->op != UM_KOP_LOAD && inst->op != UM_KOP_LOAD_IF && inst->op != UM_KOP_GET) return 0;
    uint32_t written = is_own(f, inst->imm) ? f->own_time[inst->imm - 1] : f->store_time;
    return UM_MAX(written, f->block_time);
}

static bool same_inst(const um_kinst *a, const um_kinst *b)
{
    return a->op == b->op && um_ktype_equal(a->type, b->type) && a->imm == b->imm &&
           memcmp(a->arg, b->arg, sizeof a->arg) == 0;
}

static bool is_visible(const fold *f, um_val v) { return !f->closed[f->block[v]]; }

static um_val append(fold *f, const um_kinst *inst)
{
    um_val v = um_kernel_append(f->r->to, inst);
    if (v) f->block[v] = f->open[f->depth];
    return v;
}

/* The instruction's value: an old one or, appended, a new one. */
static um_val value_of(fold *f, const um_kinst *inst)
{
    uint64_t key[4] = {
        (uint64_t)inst->op << 16 | (uint64_t)inst->type.dtype << 8 | inst->type.lanes, inst->imm,
        (uint64_t)inst->arg[0] << 32 | inst->arg[1], (uint64_t)inst->arg[2] << 32 | inst->arg[3]};
    uint32_t at = (uint32_t)um_hash(key, sizeof key, 0) & f->table_mask;
    for (;; at = (at + 1) & f->table_mask) {
        seen *s = &f->table[at];
        if (s->value && !same_inst(new_inst(f, s->value), inst)) continue;
        if (s->value && is_visible(f, s->value) && s->time >= valid_since(f, inst)) return s->value;
        s->value = append(f, inst);
        s->time = f->clock;
        return s->value;
    }
}

static um_val constant(fold *f, um_ktype type, uint64_t bits)
{
    int32_t width = um_dtype_bits(type.dtype);
    if (width < 64) bits &= ((uint64_t)1 << width) - 1;
    return value_of(f, &(um_kinst){.op = UM_KOP_CONST, .type = type, .imm = bits});
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Divisions that must not happen are left as they are. */
static bool is_bad_division(const fold *f, const um_kinst *inst)
{
    um_ktype type = new_inst(f, inst->arg[0])->type;
    uint64_t a = new_inst(f, inst->arg[0])->imm, b = new_inst(f, inst->arg[1])->imm;
    uint64_t ones = UINT64_MAX >> (64 - um_dtype_bits(type.dtype));
    if ((inst->op != UM_KOP_DIV && inst->op != UM_KOP_REM) || !um_dtype_is_int(type.dtype))
        return false;
    bool is_signed = um_dtype_get_kind(type.dtype) == UM_KIND_INT;
    return b == 0 || (is_signed && b == ones && a == (ones >> 1) + 1);
}

/* All lanes of a constant are one element, so one element is computed. 0: it is no constant. */
static um_val fold_constant(fold *f, const um_kinst *inst)
{
    uint8_t rule = um_kop_rows[inst->op].rule;
    int32_t arity = um_kinst_arity(inst);
    const uint64_t *in[3] = {NULL, NULL, NULL};
    uint64_t out = 0;
    if (arity == 0 || arity > 3) return 0;
    for (int32_t i = 0; i < arity; i++) {
        if (!is_const(f, inst->arg[i])) return 0;
        in[i] = &new_inst(f, inst->arg[i])->imm;
    }
    um_ktype type = new_inst(f, inst->arg[0])->type;
    if (rule == UM_KRULE_SAME || rule == UM_KRULE_BOOL) {
        if (is_bad_division(f, inst)) return 0;
        uint64_t a = *in[0], b = in[1] ? *in[1] : 0, c = in[2] ? *in[2] : 0;
        um_lanes_eval(inst->op, type.dtype, &out, &a, in[1] ? &b : NULL, in[2] ? &c : NULL, 1);
        return constant(f, inst->type, out);
    }
    uint64_t a = *in[0];
    if (inst->op == UM_KOP_CONVERT) {
        um_lanes_convert(inst->type.dtype, &out, type.dtype, &a, 1);
        return constant(f, inst->type, out);
    }
    bool as_is = inst->op == UM_KOP_SPLAT || inst->op == UM_KOP_EXTRACT ||
                 (inst->op == UM_KOP_BITCAST && inst->type.lanes == type.lanes);
    return as_is ? constant(f, inst->type, a) : 0;
}

/* ---- what is exact --------------------------------------------------------------------------- */

static um_val simplify_int(fold *f, const um_kinst *inst)
{
    um_val a = inst->arg[0], b = inst->arg[1];
    um_ktype type = inst->type;
    uint64_t ones = UINT64_MAX >> (64 - um_dtype_bits(type.dtype));
    bool left = is_const(f, a);
    um_val other = left ? b : a, number = left ? a : b;
    switch (inst->op) {
    case UM_KOP_ADD:
    case UM_KOP_OR: return is_const_of(f, number, 0) ? other : 0;
    case UM_KOP_XOR:
        if (a == b) return constant(f, type, 0);
        return is_const_of(f, number, 0) ? other : 0;
    case UM_KOP_SUB:
        if (a == b) return constant(f, type, 0);
        return is_const_of(f, b, 0) ? a : 0;
    case UM_KOP_SHL:
    case UM_KOP_SHR: return is_const_of(f, b, 0) ? a : 0;
    case UM_KOP_MUL:
        if (is_const_of(f, number, 0)) return number;
        return is_const_of(f, number, 1) ? other : 0;
    case UM_KOP_DIV: return is_const_of(f, b, 1) ? a : 0;
    case UM_KOP_REM: return is_const_of(f, b, 1) ? constant(f, type, 0) : 0;
    case UM_KOP_AND:
        if (a == b) return a;
        if (is_const_of(f, number, 0)) return number;
        return is_const_of(f, number, ones) ? other : 0;
    case UM_KOP_MIN:
    case UM_KOP_MAX: return a == b ? a : 0;
    default: return 0;
    }
}

static um_val simplify_bool(fold *f, const um_kinst *inst)
{
    um_val a = inst->arg[0], b = inst->arg[1];
    um_val other = is_const(f, a) ? b : a, known = is_const(f, a) ? a : b;
    switch (inst->op) {
    case UM_KOP_AND:
    case UM_KOP_OR:
        if (a == b) return a;
        if (!is_const(f, known)) return 0;
        return (new_inst(f, known)->imm != 0) == (inst->op == UM_KOP_AND) ? other : known;
    case UM_KOP_XOR: return is_const_of(f, known, 0) ? other : 0;
    case UM_KOP_NOT: return new_inst(f, a)->op == UM_KOP_NOT ? new_inst(f, a)->arg[0] : 0;
    default: return 0;
    }
}

/* Of floats only what holds for zeros of both signs, infinities and NaN. */
static um_val simplify_float(fold *f, const um_kinst *inst)
{
    const uint64_t one = 1;
    uint64_t bits_one = 0;
    um_val a = inst->arg[0], b = inst->arg[1];
    switch (inst->op) {
    case UM_KOP_NEG: return new_inst(f, a)->op == UM_KOP_NEG ? new_inst(f, a)->arg[0] : 0;
    case UM_KOP_SUB: return is_const_of(f, b, 0) ? a : 0;
    case UM_KOP_MUL:
    case UM_KOP_DIV:
        um_lanes_convert(inst->type.dtype, &bits_one, UM_U64, &one, 1);
        if (is_const_of(f, b, bits_one)) return a;
        return inst->op == UM_KOP_MUL && is_const_of(f, a, bits_one) ? b : 0;
    default: return 0;
    }
}

static um_val simplify_lanes(fold *f, const um_kinst *inst)
{
    const um_kinst *a = new_inst(f, inst->arg[0]);
    switch (inst->op) {
    case UM_KOP_CONVERT: return um_ktype_equal(a->type, inst->type) ? inst->arg[0] : 0;
    case UM_KOP_BITCAST:
        if (um_ktype_equal(a->type, inst->type)) return inst->arg[0];
        if (a->op != UM_KOP_BITCAST) return 0;
        if (um_ktype_equal(new_inst(f, a->arg[0])->type, inst->type)) return a->arg[0];
        return value_of(f, &(um_kinst){.op = inst->op, .type = inst->type, .arg = {a->arg[0]}});
    case UM_KOP_EXTRACT:
        if (a->op == UM_KOP_SPLAT) return a->arg[0];
        return a->op == UM_KOP_VECTOR ? a->arg[inst->imm] : 0;
    case UM_KOP_VECTOR: {
        bool same = is_const(f, inst->arg[0]);
        for (int32_t i = 1; i < inst->type.lanes; i++) same = same && inst->arg[i] == inst->arg[0];
        return same ? constant(f, inst->type, a->imm) : 0;
    }
    default: return 0;
    }
}

static um_val simplify(fold *f, const um_kinst *inst)
{
    if (inst->op == UM_KOP_SELECT) {
        if (inst->arg[1] == inst->arg[2]) return inst->arg[1];
        if (!is_const(f, inst->arg[0])) return 0;
        return inst->arg[new_inst(f, inst->arg[0])->imm ? 1 : 2];
    }
    if (inst->op >= UM_KOP_CONVERT && inst->op <= UM_KOP_EXTRACT) return simplify_lanes(f, inst);
    if (inst->op == UM_KOP_LOCAL_ID && f->from->group_size[inst->imm] == 1)
        return constant(f, inst->type, 0);
    bool compares = inst->op >= UM_KOP_EQ && inst->op <= UM_KOP_GE;
    if (compares && inst->arg[0] == inst->arg[1] &&
        um_dtype_is_int(new_inst(f, inst->arg[0])->type.dtype))
        return constant(f, inst->type,
                        inst->op == UM_KOP_EQ || inst->op == UM_KOP_LE || inst->op == UM_KOP_GE);
    if (um_kop_rows[inst->op].rule != UM_KRULE_SAME) return 0;
    if (inst->type.dtype == UM_BOOL) return simplify_bool(f, inst);
    return um_dtype_is_int(inst->type.dtype) ? simplify_int(f, inst) : simplify_float(f, inst);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A load or store whose condition is known loses it; false: it is left out, and *v its value. */
static bool decide(const fold *f, um_kinst *inst, um_val *v)
{
    int32_t condition = inst->op == UM_KOP_LOAD_IF ? 1 : 2;
    if (inst->op != UM_KOP_LOAD_IF && inst->op != UM_KOP_STORE_IF) return true;
    if (!is_const(f, inst->arg[condition])) return true;
    *v = inst->op == UM_KOP_LOAD_IF ? inst->arg[2] : 0;
    if (!new_inst(f, inst->arg[condition])->imm) return false;
    if (inst->op == UM_KOP_LOAD_IF) inst->arg[1] = 0;
    inst->arg[2] = 0;
    inst->op = inst->op == UM_KOP_LOAD_IF ? UM_KOP_LOAD : UM_KOP_STORE;
    return true;
}

static void note_write(fold *f, const um_kinst *inst)
{
    uint8_t rule = um_kop_rows[inst->op].rule;
    bool own = um_kop_imm(inst->op) == UM_KIMM_MEMORY && is_own(f, inst->imm);
    if (rule != UM_KRULE_NONE && inst->op != UM_KOP_ATOMIC && inst->op != UM_KOP_ATOMIC_CAS &&
        inst->op != UM_KOP_LOAD_UNIFORM)
        return;
    f->clock++;
    if (!own)
        f->store_time = f->clock;
    else
        f->own_time[inst->imm - 1] = f->clock;
    if (inst->op == UM_KOP_SET) f->own_value[inst->imm - 1] = inst->arg[0];
}

/* What a variable was set to, if that is certain. */
static um_val known_value(const fold *f, const um_kinst *inst)
{
    if (inst->op != UM_KOP_GET) return 0;
    um_val v = f->own_value[inst->imm - 1];
    return v && is_visible(f, v) && f->own_time[inst->imm - 1] > f->block_time ? v : 0;
}

/* ---- structure ------------------------------------------------------------------------------- */

static void border(fold *f) { f->block_time = ++f->clock; }

/* Whether a break in from's instructions first to last leaves a loop that begins before them. */
static bool breaks_out(const fold *f, um_val first, um_val last)
{
    for (um_val i = first; i <= last; i++)
        if (f->from->inst[i].op == UM_KOP_BREAK && f->partner[i] > last) return true;
    return false;
}

/* An IF whose condition is known: what it chooses stays, without the IF. Not where a break would be
 * lost: a loop must keep one. */
static bool decide_if(fold *f, const um_kinst *inst)
{
    um_val begin = f->r->at, end = f->partner[begin], middle = end;
    if (!is_const(f, inst->arg[0])) return false;
    bool chosen = new_inst(f, inst->arg[0])->imm != 0;
    if (f->from->inst[end].op == UM_KOP_ELSE) end = f->partner[end];
    if (breaks_out(f, begin, end)) return false;
    if (f->depth == UM_KDEPTH_MAX) return false;
    /* Its block is not opened in the new kernel: the values belong to the one outside. */
    f->open[f->depth + 1] = f->open[f->depth];
    f->depth++;
    if (!chosen) f->r->at = middle; /* to ELSE's block, or END */
    if (!chosen && middle == end) f->depth--;
    return true;
}

static bool is_open(const fold *f) { return f->open[f->depth] != f->open[f->depth - 1]; }

static um_val fold_else(fold *f, const um_kinst *inst)
{
    if (!is_open(f)) { /* of an IF that was decided: what comes is not chosen */
        f->r->at = f->partner[f->r->at];
        f->depth--;
        return 0;
    }
    f->closed[f->open[f->depth--]] = 1;
    border(f);
    um_val v = append(f, inst);
    f->open[++f->depth] = v;
    return v;
}

static um_val fold_structure(fold *f, const um_kinst *inst)
{
    switch (inst->op) {
    case UM_KOP_IF:
        if (decide_if(f, inst)) return 0;
        break;
    case UM_KOP_ELSE: return fold_else(f, inst);
    case UM_KOP_FOR:
    case UM_KOP_LOOP: border(f); break;
    case UM_KOP_BREAK: return append(f, inst);
    default: /* END */
        if (!is_open(f)) {
            f->depth--;
            return 0;
        }
        f->closed[f->open[f->depth--]] = 1;
        border(f);
        return append(f, inst);
    }
    um_val v = append(f, inst);
    f->open[++f->depth] = v;
    if (v) f->block[v] = v; /* the counter of a FOR is seen inside */
    return v;
}

static um_val fold_each(um_rewrite *r, um_kinst inst)
{
    fold *f = r->pass;
    um_val v = 0;
    if (inst.op >= UM_KOP_IF && inst.op <= UM_KOP_END) return fold_structure(f, &inst);
    if (!decide(f, &inst, &v)) return v;
    v = known_value(f, &inst);
    if (!v) v = fold_constant(f, &inst);
    if (!v) v = simplify(f, &inst);
    if (!v) v = is_repeatable(&inst) ? value_of(f, &inst) : append(f, &inst);
    note_write(f, &inst);
    return v;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void fold_make(fold *f)
{
    int64_t count = f->from->inst_count, memories = f->from->mem_count + 1, slots = 16;
    while (slots < 2 * count) slots *= 2;
    f->table_mask = (uint32_t)slots - 1;
    f->partner = um_rewrite_room(f->r, count, sizeof *f->partner);
    f->block = um_rewrite_room(f->r, count, sizeof *f->block);
    f->closed = um_rewrite_room(f->r, count, 1);
    f->table = um_rewrite_room(f->r, slots, sizeof *f->table);
    f->own_time = um_rewrite_room(f->r, memories, sizeof *f->own_time);
    f->own_value = um_rewrite_room(f->r, memories, sizeof *f->own_value);
}

um_status um_kernel_fold(const um_kernel *k, um_kernel **out)
{
    um_rewrite r;
    fold f = {.r = &r, .from = k, .clock = 1};
    *out = NULL;
    UM_TRY(um_rewrite_begin(&r, k, &f));
    fold_make(&f);
    if (r.to->status == UM_OK && um_kernel_match(k, f.partner) == UM_OK) /* finished, so it does */
        um_rewrite_each(&r, fold_each);
    return um_rewrite_end(&r, out);
}
