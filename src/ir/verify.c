/* ir/verify.c: whether a kernel is one: structure, operands, types, immediates, sizes. That
 * barriers and the like stand in uniform flow is uniform.c's part. Every check is of one
 * instruction and what its operands are, so the whole is linear. */
#include "ir/ir.h"

#include <stdio.h>

#define SHARED_MAX_BYTES  65536 /* of all arrays; a device has its own limit */
#define PRIVATE_MAX_BYTES 65536 /* of an invocation */

typedef struct check {
    const um_kernel *k;
    um_val at;            /* the instruction looked at */
    const um_kinst *inst; /* it */
    uint32_t *block;      /* of each value: what opened the block in which it is seen; 0: kernel */
    uint8_t *closed;      /* of each instruction that opens a block: whether it is over */
} check;

static const um_ktype nothing = {0, 0}, u32 = {UM_U32, 1}, boolean = {UM_BOOL, 1};

UM_PRINTF(2, 3) static um_status bad(const check *c, const char *format, ...)
{
    char what[256], text[UM_KTEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    um_kinst_text(c->k, c->at, text);
    return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: instruction %u, %s: %s", c->k->name, c->at,
                   text, what);
}

/* ---- structure ------------------------------------------------------------------------------ */

typedef struct nest {
    uint32_t open[UM_KDEPTH_MAX]; /* IF, ELSE, FOR, LOOP */
    bool has_break[UM_KDEPTH_MAX];
    int32_t depth;
} nest;

static bool is_loop(const um_kernel *k, uint32_t i)
{
    return k->inst[i].op == UM_KOP_FOR || k->inst[i].op == UM_KOP_LOOP;
}

/* Pairs the opener at the top with the instruction that closes it. */
static um_status close_block(const check *c, nest *n, uint32_t *partner, bool by_else)
{
    if (n->depth == 0) return bad(c, "there is no open block");
    uint32_t opener = n->open[n->depth - 1];
    um_kop op = c->k->inst[opener].op;
    if (by_else && op != UM_KOP_IF)
        return bad(c, "the innermost open block is a %s's; wanted an if's", um_kop_rows[op].name);
    if (op == UM_KOP_LOOP && !n->has_break[n->depth - 1])
        return bad(c, "the loop that begins at instruction %u has no break", opener);
    partner[opener] = c->at;
    if (!by_else) partner[c->at] = opener;
    n->depth--;
    return UM_OK;
}

static um_status open_block(const check *c, nest *n)
{
    if (n->depth == UM_KDEPTH_MAX) return bad(c, "blocks nest deeper than %d", UM_KDEPTH_MAX);
    n->has_break[n->depth] = false;
    n->open[n->depth++] = c->at;
    return UM_OK;
}

/* partner: the loop's first instruction, until its end is known. */
static um_status match_break(const check *c, nest *n, uint32_t *partner)
{
    const um_kernel *k = c->k;
    int32_t loop = n->depth - 1;
    while (loop >= 0 && !is_loop(k, n->open[loop])) loop--;
    if (loop < 0) return bad(c, "it stands in no loop");
    int64_t next = (int64_t)c->at + 1;
    um_kop after = next < k->inst_count ? k->inst[next].op : UM_KOP_NONE;
    if (after != UM_KOP_END && after != UM_KOP_ELSE)
        return bad(c, "it is not the last of its block: nothing can reach what follows");
    n->has_break[loop] = true;
    partner[c->at] = n->open[loop];
    return UM_OK;
}

um_status um_kernel_match(const um_kernel *k, uint32_t *partner)
{
    nest n = {.depth = 0};
    check c = {.k = k};
    memset(partner, 0, (size_t)k->inst_count * sizeof *partner);
    for (int64_t i = 1; i < k->inst_count; i++) {
        c.at = (um_val)i;
        um_kop op = k->inst[i].op;
        if (op == UM_KOP_END || op == UM_KOP_ELSE)
            UM_TRY(close_block(&c, &n, partner, op == UM_KOP_ELSE));
        if (op == UM_KOP_BREAK) UM_TRY(match_break(&c, &n, partner));
        if (op >= UM_KOP_IF && op <= UM_KOP_LOOP) UM_TRY(open_block(&c, &n));
    }
    if (n.depth > 0) {
        c.at = n.open[n.depth - 1];
        return bad(&c, "its block is not closed");
    }
    for (int64_t i = 1; i < k->inst_count; i++)
        if (k->inst[i].op == UM_KOP_BREAK) partner[i] = partner[partner[i]];
    return UM_OK;
}

/* ---- types ---------------------------------------------------------------------------------- */

/* Which of UM_KTYPES_ an element type is; 8 where it is only stored. */
static uint32_t class_of(um_dtype dtype)
{
    switch (dtype) {
    case UM_F32:
    case UM_F16:
    case UM_F64: return UM_KTYPES_F;
    case UM_I32:
    case UM_U32:
    case UM_I64:
    case UM_U64: return UM_KTYPES_I;
    case UM_BOOL: return UM_KTYPES_B;
    default: return UM_KTYPES_ANY & ~(uint32_t)UM_KTYPES_NB;
    }
}

static const char *class_text(uint32_t types)
{
    switch (types) {
    case UM_KTYPES_F: return "a float with arithmetic";
    case UM_KTYPES_I: return "i32, u32, i64 or u64";
    case UM_KTYPES_N: return "a number with arithmetic";
    case UM_KTYPES_B: return "bool";
    case UM_KTYPES_IB: return "bool, i32, u32, i64 or u64";
    default: return "bool or a number with arithmetic";
    }
}

static bool is_value_type(um_ktype t)
{
    return um_dtype_valid(t.dtype) && um_dtype_bits(t.dtype) >= 8 &&
           (t.lanes == 1 || t.lanes == 2 || t.lanes == 4);
}

static um_ktype operand_type(const check *c, int32_t i) { return c->k->inst[c->inst->arg[i]].type; }

static um_status operand_is(const check *c, int32_t i, um_ktype want)
{
    char got_text[16], want_text[16];
    um_ktype got = operand_type(c, i);
    if (um_ktype_equal(got, want)) return UM_OK;
    um_ktype_text(got, got_text);
    um_ktype_text(want, want_text);
    return bad(c, "operand %%%u is %s; wanted %s", c->inst->arg[i], got_text, want_text);
}

static um_status operand_in(const check *c, int32_t i, uint32_t types)
{
    um_ktype got = operand_type(c, i);
    if ((class_of(got.dtype) & types) != 0) return UM_OK;
    return bad(c, "operand %%%u is %s; wanted %s", c->inst->arg[i], um_dtype_name(got.dtype),
               class_text(types));
}

static um_status operand_is_scalar(const check *c, int32_t i)
{
    if (operand_type(c, i).lanes == 1) return UM_OK;
    return bad(c, "operand %%%u has %u lanes; wanted 1", c->inst->arg[i], operand_type(c, i).lanes);
}

static um_status result_is(const check *c, um_ktype want)
{
    char got_text[16], want_text[16];
    if (um_ktype_equal(c->inst->type, want)) return UM_OK;
    um_ktype_text(c->inst->type, got_text);
    um_ktype_text(want, want_text);
    return bad(c, "the result is %s; wanted %s", got_text, want_text);
}

/* SAME, BOOL and SELECT. */
static um_status check_row(const check *c)
{
    const um_kop_row *row = &um_kop_rows[c->inst->op];
    int32_t first = row->rule == UM_KRULE_SELECT;
    um_ktype type = operand_type(c, first), chooser = {UM_BOOL, type.lanes};
    UM_TRY(operand_in(c, first, row->types));
    for (int32_t i = first + 1; i < row->arity; i++) UM_TRY(operand_is(c, i, type));
    if (first && operand_type(c, 0).lanes != 1) UM_TRY(operand_is(c, 0, chooser));
    if (first) UM_TRY(operand_in(c, 0, UM_KTYPES_B));
    UM_TRY(result_is(c, row->rule == UM_KRULE_BOOL ? chooser : type));
    um_kop op = c->inst->op;
    bool narrow = op == UM_KOP_MUL_HIGH || op == UM_KOP_POPCOUNT || op == UM_KOP_CLZ;
    if (narrow && type.dtype != UM_I32 && type.dtype != UM_U32)
        return bad(c, "its operands are %s; wanted i32 or u32", um_dtype_name(type.dtype));
    if (op == UM_KOP_DOT4_I8) return operand_is(c, 0, (um_ktype){UM_I32, type.lanes});
    if (op == UM_KOP_DOT4_U8) return operand_is(c, 0, (um_ktype){UM_U32, type.lanes});
    return UM_OK;
}

/* ---- operands and immediates ---------------------------------------------------------------- */

static um_status check_operands(const check *c)
{
    int32_t arity = um_kinst_arity(c->inst);
    for (int32_t i = 0; i < 4; i++) {
        um_val v = c->inst->arg[i];
        if (i >= arity) {
            if (v) return bad(c, "it has operand %%%u past its %d", v, arity);
        } else if (v == 0 || v >= c->at) {
            return bad(c, "operand %%%u is not defined before it", v);
        } else if (c->k->inst[v].type.dtype == UM_DTYPE_NONE) {
            return bad(c, "operand %%%u, %s, gives no value", v,
                       um_kop_rows[c->k->inst[v].op].name);
        } else if (c->closed[c->block[v]]) {
            return bad(c, "operand %%%u is defined in a block that is over", v);
        }
    }
    return UM_OK;
}

/* The first number that a NUMBER must not reach. */
static uint64_t number_limit(const check *c)
{
    switch (c->inst->op) {
    case UM_KOP_EXTRACT: return operand_type(c, 0).lanes;
    case UM_KOP_GROUP_BROADCAST: return um_kernel_invocations(c->k);
    case UM_KOP_SUBGROUP_SHUFFLE_XOR:
    case UM_KOP_SUBGROUP_SHUFFLE_UP:
    case UM_KOP_SUBGROUP_SHUFFLE_DOWN: return 128;
    case UM_KOP_ASYNC_WAIT: return 64;
    default: return 3;
    }
}

static bool is_scan(um_kop op) { return op == UM_KOP_SUBGROUP_SCAN || op == UM_KOP_GROUP_SCAN; }

static um_status check_field(const check *c, um_kfield_kind kind, uint64_t value)
{
    const um_kernel *k = c->k;
    um_kop op = c->inst->op, never = op == UM_KOP_ATOMIC ? UM_K_MUL : UM_K_EXCHANGE;
    bool known = um_kfield_name(k, kind, value) != NULL;
    int32_t bits = c->inst->type.dtype == UM_BOOL ? 1 : um_dtype_bits(c->inst->type.dtype);
    unsigned long long got = value;
    switch (kind) {
    case UM_KFIELD_BITS:
        if (bits >= 64 || value >> bits == 0) return UM_OK;
        return bad(c, "the constant has more than %d bits", bits);
    case UM_KFIELD_NUMBER:
        if (value < number_limit(c)) return UM_OK;
        return bad(c, "got %llu; wanted less than %llu", got, (unsigned long long)number_limit(c));
    case UM_KFIELD_SCALAR:
        if (known) return UM_OK;
        return bad(c, "scalar %llu is none of the %lld", got, (long long)k->scalar_count);
    case UM_KFIELD_MEMORY:
        if (known) return UM_OK;
        return bad(c, "memory %llu is none of 1 to %lld", got, (long long)k->mem_count);
    case UM_KFIELD_FRAG:
        if (known) return UM_OK;
        return bad(c, "fragment %llu is none of 1 to %lld", got, (long long)k->frag_count);
    case UM_KFIELD_OPERATION:
        if (op != UM_KOP_ATOMIC && !is_scan(op)) got = c->inst->imm; /* there is no more */
        if (known && got == value && value != (uint64_t)never) return UM_OK;
        return bad(c, "operation %llu is none that it has", got);
    case UM_KFIELD_EXCLUSIVE:
        return value <= 1 ? UM_OK : bad(c, "operation %llu is none that it has", got << 32);
    case UM_KFIELD_BY_COLUMNS:
    case UM_KFIELD_NONE: break;
    }
    return UM_OK;
}

static um_status check_imm(const check *c)
{
    const um_kinst *inst = c->inst;
    if (um_kop_imm(inst->op) == UM_KIMM_NONE && inst->imm)
        return bad(c, "it takes no imm; got %llu", (unsigned long long)inst->imm);
    for (const um_kfield *f = um_kinst_fields(inst); f->kind; f++)
        UM_TRY(check_field(c, f->kind, um_kfield_get(f, inst->imm)));
    return UM_OK;
}

/* ---- the opcodes whose types are their own -------------------------------------------------- */

static um_status check_builtin(const check *c)
{
    if (c->inst->op == UM_KOP_SCALAR)
        return result_is(c, (um_ktype){(uint8_t)c->k->scalar[c->inst->imm].dtype, 1});
    if (c->inst->op != UM_KOP_CONST) return result_is(c, u32);
    return is_value_type(c->inst->type) ? UM_OK : bad(c, "a value has no such type");
}

static um_status check_lanes(const check *c)
{
    um_ktype a = operand_type(c, 0), type = c->inst->type;
    if (!is_value_type(type)) return bad(c, "a value has no such type");
    switch (c->inst->op) {
    case UM_KOP_CONVERT: return result_is(c, (um_ktype){type.dtype, a.lanes});
    case UM_KOP_BITCAST:
        if (a.dtype == UM_BOOL || type.dtype == UM_BOOL) return bad(c, "bool has no bits");
        if (um_ktype_bits(a) != um_ktype_bits(type))
            return bad(c, "%%%u has %u bits, the result %u", c->inst->arg[0], um_ktype_bits(a),
                       um_ktype_bits(type));
        return UM_OK;
    case UM_KOP_EXTRACT: return result_is(c, (um_ktype){a.dtype, 1});
    default: /* VECTOR, SPLAT */
        if (type.lanes == 1) return bad(c, "the result has 1 lane; wanted 2 or 4");
        for (int32_t i = 0; i < um_kinst_arity(c->inst); i++)
            UM_TRY(operand_is(c, i, (um_ktype){type.dtype, 1}));
        return UM_OK;
    }
}

enum { BUFFER = 1 << UM_SPACE_BUFFER, SHARED = 1 << UM_SPACE_SHARED };
enum { PRIVATE = 1 << UM_SPACE_PRIVATE, VAR = 1 << UM_SPACE_VAR };

static const char *space_text(uint32_t spaces)
{
    if (spaces == VAR) return "a variable";
    if (spaces == SHARED) return "a shared array";
    if (spaces == BUFFER) return "a buffer";
    return spaces & PRIVATE ? "a buffer or an array" : "a buffer or a shared array";
}

/* Memory `mem` lies in one of these spaces, and, if a buffer, is used in such a way. */
static um_status check_memory_use(const check *c, uint64_t mem, uint32_t spaces, uint32_t access)
{
    const um_kmem *m = &c->k->mem[mem - 1];
    if (!(spaces >> m->space & 1))
        return bad(c, "%s is %s; wanted %s", m->name, space_text(1u << m->space),
                   space_text(spaces));
    if (m->space == UM_SPACE_BUFFER && (m->access & access) != access)
        return bad(c, "buffer %s is %s only", m->name, m->access == UM_K_READ ? "read" : "written");
    return UM_OK;
}

static um_status check_atomic(const check *c)
{
    uint64_t mem = c->inst->imm & UINT32_MAX, operation = c->inst->imm >> 32;
    um_ktype element = c->k->mem[mem - 1].type;
    bool cas = c->inst->op == UM_KOP_ATOMIC_CAS;
    UM_TRY(check_memory_use(c, mem, BUFFER | SHARED, UM_K_READ_WRITE));
    bool float_add = !cas && element.dtype == UM_F32 && operation == UM_K_ADD;
    if (element.dtype != UM_I32 && element.dtype != UM_U32 && !float_add)
        return bad(c, "%s holds %s; wanted i32, u32, or for add f32", c->k->mem[mem - 1].name,
                   um_dtype_name(element.dtype));
    UM_TRY(operand_is(c, 0, u32));
    UM_TRY(operand_is(c, 1, element));
    if (cas) UM_TRY(operand_is(c, 2, element));
    return result_is(c, element);
}

static um_status check_memory(const check *c)
{
    const uint32_t arrays = BUFFER | SHARED | PRIVATE;
    um_kop op = c->inst->op;
    if (op == UM_KOP_BARRIER) return UM_OK;
    if (op == UM_KOP_ATOMIC || op == UM_KOP_ATOMIC_CAS) return check_atomic(c);
    um_ktype element = c->k->mem[c->inst->imm - 1].type, type = c->inst->type;
    if (op == UM_KOP_GET || op == UM_KOP_SET) {
        UM_TRY(check_memory_use(c, c->inst->imm, VAR, 0));
        return op == UM_KOP_GET ? result_is(c, element) : operand_is(c, 0, element);
    }
    if (op == UM_KOP_LOAD_UNIFORM) {
        UM_TRY(check_memory_use(c, c->inst->imm, SHARED, 0));
        UM_TRY(result_is(c, element));
        return operand_is(c, 0, u32);
    }
    bool load = op == UM_KOP_LOAD || op == UM_KOP_LOAD_IF;
    UM_TRY(check_memory_use(c, c->inst->imm, arrays, load ? UM_K_READ : UM_K_WRITE));
    UM_TRY(operand_is(c, 0, u32));
    if (!load) type = operand_type(c, 1);
    if (type.dtype != element.dtype || !is_value_type(type))
        return bad(c, "%s holds %s, the value is %s of %u lanes", c->k->mem[c->inst->imm - 1].name,
                   um_dtype_name(element.dtype), um_dtype_name(type.dtype), type.lanes);
    if (op == UM_KOP_STORE_IF) return operand_is(c, 2, boolean);
    if (op != UM_KOP_LOAD_IF) return UM_OK;
    UM_TRY(operand_is(c, 1, boolean));
    return operand_is(c, 2, type);
}

/* Whether the operation of a reduction is one of the element type. */
static bool operation_has(uint32_t operation, um_dtype dtype)
{
    if (dtype == UM_BOOL) return operation >= UM_K_AND && operation <= UM_K_XOR;
    return !um_dtype_is_float(dtype) || operation <= UM_K_MAX;
}

static um_status check_across(const check *c)
{
    um_ktype a = operand_type(c, 0);
    uint32_t operation = (uint32_t)c->inst->imm;
    UM_TRY(operand_is_scalar(c, 0));
    if (um_kop_rows[c->inst->op].types != UM_KTYPES_ANY)
        UM_TRY(operand_in(c, 0, um_kop_rows[c->inst->op].types));
    if (um_kop_imm(c->inst->op) == UM_KIMM_OPERATION && !operation_has(operation, a.dtype))
        return bad(c, "%s has no operation %s", um_dtype_name(a.dtype),
                   um_kfield_name(c->k, UM_KFIELD_OPERATION, operation));
    if (c->inst->op == UM_KOP_SUBGROUP_SHUFFLE) UM_TRY(operand_is(c, 1, u32));
    if (c->inst->op == UM_KOP_SUBGROUP_BALLOT) return result_is(c, (um_ktype){UM_U32, 4});
    return result_is(c, a);
}

/* What matrix units multiply, and what they add it up in. */
static bool mma_has(um_dtype factor, um_dtype sum)
{
    switch (factor) {
    case UM_F16: return sum == UM_F16 || sum == UM_F32;
    case UM_I8:
    case UM_U8: return sum == UM_I32;
    case UM_F64: return sum == UM_F64;
    case UM_F32:
    case UM_BF16:
    case UM_F8E4M3FN:
    case UM_F8E4M3FNUZ:
    case UM_F8E5M2:
    case UM_F8E5M2FNUZ: return sum == UM_F32;
    default: return false;
    }
}

static um_status check_mma(const check *c)
{
    static const uint8_t role[4] = {UM_K_FRAG_C, UM_K_FRAG_A, UM_K_FRAG_B, UM_K_FRAG_C};
    const um_kfrag *f[4];
    for (int32_t i = 0; i < 4; i++) {
        f[i] = &c->k->frag[(c->inst->imm >> 16 * i & UINT16_MAX) - 1];
        if (f[i]->role != role[i])
            return bad(c, "fragment %s is a matrix %c; wanted %c", f[i]->name,
                       "ABC"[f[i]->role - 1], "ABC"[role[i] - 1]);
        if (f[i]->m != f[0]->m || f[i]->n != f[0]->n || f[i]->k != f[0]->k)
            return bad(c, "fragment %s is of %ux%ux%u, %s of %ux%ux%u", f[i]->name, f[i]->m,
                       f[i]->n, f[i]->k, f[0]->name, f[0]->m, f[0]->n, f[0]->k);
    }
    if (f[1]->dtype != f[2]->dtype || f[3]->dtype != f[0]->dtype ||
        !mma_has(f[1]->dtype, f[3]->dtype))
        return bad(c, "no matrix unit does %s = %s x %s + %s", um_dtype_name(f[0]->dtype),
                   um_dtype_name(f[1]->dtype), um_dtype_name(f[2]->dtype),
                   um_dtype_name(f[3]->dtype));
    return UM_OK;
}

static um_status check_frag(const check *c)
{
    if (c->inst->op == UM_KOP_FRAG_MMA) return check_mma(c);
    const um_kfrag *f = &c->k->frag[(c->inst->imm & INT32_MAX) - 1];
    um_ktype element = {f->dtype, 1};
    switch (c->inst->op) {
    case UM_KOP_FRAG_FILL: return operand_is(c, 0, element);
    case UM_KOP_FRAG_COUNT: return result_is(c, u32);
    case UM_KOP_FRAG_SET: UM_TRY(operand_is(c, 1, element)); return operand_is(c, 0, u32);
    case UM_KOP_FRAG_GET: UM_TRY(result_is(c, element)); return operand_is(c, 0, u32);
    case UM_KOP_FRAG_ROW:
    case UM_KOP_FRAG_COLUMN: UM_TRY(result_is(c, u32)); return operand_is(c, 0, u32);
    default: break;
    }
    uint64_t mem = c->inst->imm >> 32;
    bool load = c->inst->op == UM_KOP_FRAG_LOAD;
    UM_TRY(check_memory_use(c, mem, BUFFER | SHARED, load ? UM_K_READ : UM_K_WRITE));
    um_dtype held = c->k->mem[mem - 1].type.dtype; /* also its bits as an unsigned integer */
    if (held != f->dtype &&
        (um_dtype_get_kind(held) != UM_KIND_UINT || um_dtype_bits(held) != um_dtype_bits(f->dtype)))
        return bad(c, "%s holds %s, fragment %s %s", c->k->mem[mem - 1].name,
                   um_dtype_name(c->k->mem[mem - 1].type.dtype), f->name, um_dtype_name(f->dtype));
    UM_TRY(operand_is(c, 0, u32));
    return operand_is(c, 1, u32);
}

static um_status check_async(const check *c)
{
    if (c->inst->op != UM_KOP_ASYNC_COPY) return UM_OK;
    uint64_t to = c->inst->imm & UINT32_MAX, from = c->inst->imm >> 32;
    um_dtype dtype = c->k->mem[to - 1].type.dtype;
    UM_TRY(check_memory_use(c, to, SHARED, 0));
    UM_TRY(check_memory_use(c, from, BUFFER, UM_K_READ));
    if (c->k->mem[from - 1].type.dtype != dtype)
        return bad(c, "%s holds %s, %s %s", c->k->mem[to - 1].name, um_dtype_name(dtype),
                   c->k->mem[from - 1].name, um_dtype_name(c->k->mem[from - 1].type.dtype));
    for (int32_t i = 0; i < 2; i++) {
        UM_TRY(operand_is(c, i, u32));
        const um_kinst *index = &c->k->inst[c->inst->arg[i]];
        uint64_t bytes = (uint64_t)um_dtype_bits(dtype) / 8;
        if (index->op == UM_KOP_CONST && index->imm * bytes % 16 != 0)
            return bad(c, "index %llu of %s is not at whole 16 bytes",
                       (unsigned long long)index->imm, um_dtype_name(dtype));
    }
    return UM_OK;
}

static um_status check_control(const check *c)
{
    if (c->inst->op == UM_KOP_IF) return operand_is(c, 0, boolean);
    if (c->inst->op != UM_KOP_FOR) return UM_OK;
    um_ktype type = c->inst->type;
    if (type.lanes != 1 || (type.dtype != UM_I32 && type.dtype != UM_U32))
        return bad(c, "it counts in i32 or u32");
    for (int32_t i = 0; i < 3; i++) UM_TRY(operand_is(c, i, type));
    const um_kinst *step = &c->k->inst[c->inst->arg[2]];
    bool negative = type.dtype == UM_I32 && step->imm >> 31 != 0;
    if (step->op == UM_KOP_CONST && (step->imm == 0 || negative))
        return bad(c, "the step is %s; wanted at least 1", negative ? "negative" : "0");
    return UM_OK;
}

static um_status check_types(const check *c)
{
    um_kop op = c->inst->op;
    uint8_t rule = um_kop_rows[op].rule;
    if (rule == UM_KRULE_SAME || rule == UM_KRULE_BOOL || rule == UM_KRULE_SELECT)
        return check_row(c);
    if (rule == UM_KRULE_NONE) UM_TRY(result_is(c, nothing));
    if (op <= UM_KOP_SUBGROUP_LANE) return check_builtin(c);
    if (op <= UM_KOP_EXTRACT) return check_lanes(c);
    if (op <= UM_KOP_LOAD_UNIFORM) return check_memory(c);
    if (op <= UM_KOP_GROUP_SCAN) return check_across(c);
    if (op <= UM_KOP_FRAG_COLUMN) return check_frag(c);
    if (op <= UM_KOP_ASYNC_WAIT) return check_async(c);
    return check_control(c);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static um_status check_instruction(const check *c)
{
    um_kop op = c->inst->op;
    if (op <= 0 || op >= UM_KOP_LIMIT || !um_kop_rows[op].name) return bad(c, "no such opcode");
    if (op == UM_KOP_VECTOR && c->inst->type.lanes != 2 && c->inst->type.lanes != 4)
        return bad(c, "the result has %u lanes; wanted 2 or 4", c->inst->type.lanes);
    UM_TRY(check_operands(c));
    UM_TRY(check_imm(c));
    return check_types(c);
}

/* Blocks were matched. */
static um_status check_instructions(check *c)
{
    uint32_t open[UM_KDEPTH_MAX + 1] = {0};
    int32_t depth = 0;
    for (int64_t i = 1; i < c->k->inst_count; i++) {
        c->at = (um_val)i;
        c->inst = &c->k->inst[i];
        um_kop op = c->inst->op;
        UM_TRY(check_instruction(c));
        if (op == UM_KOP_ELSE || op == UM_KOP_END) c->closed[open[depth--]] = 1;
        if (op >= UM_KOP_IF && op <= UM_KOP_LOOP) open[++depth] = c->at;
        c->block[i] = open[depth];
    }
    return UM_OK;
}

uint64_t um_kernel_bytes(const um_kernel *k, um_space space)
{
    uint64_t bytes = 0; /* at most 1024 arrays of 2^24 elements */
    for (int64_t i = 0; i < k->mem_count; i++) {
        if (k->mem[i].space != space) continue;
        uint64_t size = (uint64_t)k->mem[i].count * um_ktype_bits(k->mem[i].type) / 8;
        bytes += (size + 15) / 16 * 16;
    }
    return bytes;
}

static um_status check_sizes(const um_kernel *k, um_space space, const char *what, uint64_t limit)
{
    uint64_t bytes = um_kernel_bytes(k, space);
    if (bytes <= limit) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: %s arrays take %llu bytes; wanted at most %llu",
                   k->name, what, (unsigned long long)bytes, (unsigned long long)limit);
}

um_status um_kernel_verify(const um_kernel *k)
{
    UM_TRY(check_sizes(k, UM_SPACE_SHARED, "shared", SHARED_MAX_BYTES));
    UM_TRY(check_sizes(k, UM_SPACE_PRIVATE, "private", PRIVATE_MAX_BYTES));
    size_t count = (size_t)k->inst_count;
    uint32_t *block = um_mem_zalloc(count * sizeof *block);
    uint8_t *closed = um_mem_zalloc(count);
    um_status status;
    if (!block || !closed) {
        status = UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: no memory to verify it", k->name);
        goto done;
    }
    check c = {.k = k, .block = block, .closed = closed};
    UM_TRY_OR(status = um_kernel_match(k, block), done);
    memset(block, 0, count * sizeof *block);
    UM_TRY_OR(status = check_instructions(&c), done);
    status = um_kernel_check_flow(k);
done:
    um_mem_free(block);
    um_mem_free(closed);
    return status;
}
