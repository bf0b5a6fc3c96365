/* render/cstyle.c: the one walker behind every C-like target. See cstyle.h for the dialects. */
#include "render/cstyle.h"

#include <math.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 96, DTYPE_LIMIT = 22 };

typedef struct walker {
    const um_kernel *k;
    const um_dialect *d;
    um_text *out;
    int32_t depth;
    um_status status;
    uint64_t atomics;           /* memories that atomics touch, bit m - 1 */
    um_text expression, memory; /* what words_of's members of that name are made in */
} walker;

/* What the placeholders stand for. */
typedef struct words_of {
    char arg[4][NAME_MAX_BYTES];
    const char *type, *source, *unsigned_type, *memory, *space, *name, *expression;
    uint64_t imm, count;
    int32_t bits;
    char vector[32], mangled[40], own_name[NAME_MAX_BYTES];
    char named[4][40];
    bool by_columns, shared;
} words_of;

/* ---- words ----------------------------------------------------------------------------------- */

/* What languages say. C is no target; its words are of its kin. */
enum { UM_TARGET_C = UM_TARGET_COUNT, LANGUAGES };
/* By the kind of the first operand. */
#define UM_WORDS(language, op, f, s, u, b) [UM_TARGET_##language][UM_KOP_##op] = {0, f, s, u, b},
static const char *const op_table[LANGUAGES][UM_KOP_LIMIT][5] = {
#include "render/words.def"
};
#define UM_ATOMIC_WORDS(language, operation, words)                                                \
    [UM_TARGET_##language][UM_K_##operation] = words,
static const char *const atomic_table[LANGUAGES][9] = {
#include "render/words.def"
};
#define UM_TYPE_WORDS(language, dtype, type, vector)                                               \
    [UM_TARGET_##language][UM_##dtype] = {type, vector},
static const struct {
    const char *type, *vector;
} type_table[LANGUAGES][DTYPE_LIMIT] = {
#include "render/words.def"
};

static const char *words_by_kind(um_target language, um_kop op, um_dtype dtype)
{
    const char *const *by = op_table[language][op];
    int32_t kind = um_dtype_get_kind(dtype);
    while (kind > 0 && !by[kind]) kind--;
    return by[kind];
}

/* The words of an opcode for operands of that type, or NULL. */
static const char *op_words(const um_dialect *d, um_kop op, um_dtype dtype)
{
    const char *words = words_by_kind(d->target, op, dtype);
    if (!words) words = words_by_kind(d->like, op, dtype);
    return words || !d->is_c ? words : words_by_kind((um_target)UM_TARGET_C, op, dtype);
}

/* ---- templates ------------------------------------------------------------------------------- */

static void lacks(walker *w, const char *what, const char *name)
{
    if (w->status != UM_OK) return;
    w->status = UM_FAIL(UM_UNSUPPORTED, "kernel %s: %s has no %s '%s'", w->k->name,
                        um_target_name(w->d->target), what, name);
}

static const char *unsigned_of(const um_dialect *d, um_dtype dtype)
{
    static const um_dtype by_bits[] = {UM_U8, UM_U16, UM_U32, UM_U64};
    int32_t bits = um_dtype_bits(dtype);
    return type_table[d->like][by_bits[bits == 8 ? 0 : bits == 16 ? 1 : bits == 64 ? 3 : 2]].type;
}

static void put(um_text *out, const char *text) { um_text_put(out, text, strlen(text)); }

static void put_place(um_text *out, char place, const words_of *x)
{
    switch (place) {
    case '0':
    case '1':
    case '2':
    case '3': put(out, x->arg[place - '0']); break;
    case 't': put(out, x->type); break;
    case 's': put(out, x->source); break;
    case 'u': put(out, x->unsigned_type); break;
    case 'v': put(out, x->name); break;
    case 'm': put(out, x->memory); break;
    case 'q': put(out, x->space); break;
    case 'e': put(out, x->expression); break;
    case 'V': put(out, x->vector); break;
    case 'a':
    case 'b':
    case 'c':
    case 'd': put(out, x->named[place - 'a']); break;
    case 'y': put(out, x->by_columns ? "true" : "false"); break;
    case 'h': put(out, x->shared ? "true" : "false"); break;
    case 'i': um_text_print(out, "%llu", (unsigned long long)x->imm); break;
    case 'n': um_text_print(out, "%llu", (unsigned long long)x->count); break;
    case 'w': um_text_print(out, "%d", x->bits - 1); break;
    case 'x': um_text_put(out, &"xyz"[x->imm % 3], 1); break;
    default: um_text_put(out, &place, 1);
    }
}

static void expand(um_text *out, const char *words, const words_of *x)
{
    for (; words && *words; words++) {
        if (*words == '$' && words[1])
            put_place(out, *++words, x);
        else
            um_text_put(out, words, 1);
    }
}

/* Into a text of the walker's, until it is made anew. */
static const char *expanded(walker *w, um_text *text, const char *words, const words_of *x)
{
    text->size = 0;
    expand(text, words, x);
    if (text->status != UM_OK) w->status = text->status;
    return text->size > 0 && text->data ? text->data : "";
}

/* A short one, into text. */
static void expand_short(walker *w, const char *words, const words_of *x, char *text, size_t size)
{
    snprintf(text, size, "%s", expanded(w, &w->expression, words, x));
}

/* The template as a line of its own, indented. */
static void line(walker *w, const char *words, const words_of *x)
{
    for (int32_t i = 0; i < w->depth; i++) put(w->out, "    ");
    expand(w->out, words, x);
    put(w->out, "\n");
}

/* ---- operands -------------------------------------------------------------------------------- */

/* No language has a word that ends so. */
static void name_memory(words_of *x, const char *name)
{
    snprintf(x->mangled, sizeof x->mangled, "%s_", name);
    x->memory = x->mangled;
}

static const char *type_name(walker *w, um_dtype dtype)
{
    const char *name = dtype < DTYPE_LIMIT ? type_table[w->d->like][dtype].type : NULL;
    if (!name) lacks(w, "type", um_dtype_name(dtype));
    return name ? name : "";
}

/* A float constant: short where decimal digits say it exactly, else from its bits, which no
 * compiler's parser changes. */
static void float_text(walker *w, um_dtype dtype, uint64_t bits, char *text, size_t size)
{
    uint32_t word = (uint32_t)bits;
    float f;
    double value;
    memcpy(&f, &word, sizeof f);
    memcpy(&value, &bits, sizeof value);
    if (dtype == UM_F32) value = (double)f;
    if (dtype == UM_F16) { /* as f32, converted */
        char wide[64];
        f = um_f16_to_f32((uint16_t)bits);
        memcpy(&word, &f, sizeof word);
        float_text(w, UM_F32, word, wide, sizeof wide);
        snprintf(text, size, "((%s)%s)", type_name(w, dtype), wide);
        return;
    }
    bool normal =
        value == 0 ? !signbit(value) : isfinite(value) && fabs(value) > 1e-30 && fabs(value) < 1e30;
    if (normal) {
        int used = snprintf(text, size, dtype == UM_F32 ? "%s%.9g" : "%s%.17g",
                            value < 0 ? "(" : "", value);
        const char *point = strpbrk(text, ".e") ? "" : ".0";
        snprintf(text + used, size - (size_t)used, "%s%s%s", point,
                 dtype == UM_F32 ? w->d->f32_suffix : "", value < 0 ? ")" : "");
        return;
    }
    const char *words = dtype == UM_F32 ? w->d->infinite : w->d->infinite64;
    expand_short(w, words, &(words_of){.imm = bits}, text, size);
}

static void const_text(walker *w, const um_kinst *inst, char *text, size_t size)
{
    const um_dialect *d = w->d;
    int32_t bits = um_dtype_bits(inst->type.dtype);
    int64_t value = (int64_t)(inst->imm << (64 - bits)) >> (64 - bits);
    switch (um_dtype_get_kind(inst->type.dtype)) {
    case UM_KIND_FLOAT: float_text(w, inst->type.dtype, inst->imm, text, size); break;
    case UM_KIND_BOOL: snprintf(text, size, "%s", inst->imm ? "true" : "false"); break;
    case UM_KIND_UINT:
        snprintf(text, size, "%llu%s", (unsigned long long)inst->imm,
                 bits == 64 ? d->u64_suffix : d->u32_suffix);
        break;
    case UM_KIND_INT: {
        const char *suffix = bits == 64 ? d->i64_suffix : "";
        bool lowest = bits >= 32 && value == INT64_MIN >> (64 - bits);
        if (lowest)
            snprintf(text, size, "(-%lld%s - 1)", -(long long)(value + 1), suffix);
        else
            snprintf(text, size, value < 0 ? "(%lld%s)" : "%lld%s", (long long)value, suffix);
        break;
    }
    default: text[0] = 0;
    }
}

static void name_value(char text[NAME_MAX_BYTES], const um_kinst *inst, um_val v, int32_t lane)
{
    if (inst->type.lanes > 1)
        snprintf(text, NAME_MAX_BYTES, "v%u_%d", v, lane);
    else
        snprintf(text, NAME_MAX_BYTES, "v%u", v);
}

/* Lane `lane` of value v: its literal or its variable. */
static void operand(walker *w, um_val v, int32_t lane, char text[NAME_MAX_BYTES])
{
    const um_kinst *inst = &w->k->inst[v];
    if (inst->op == UM_KOP_CONST)
        const_text(w, inst, text, NAME_MAX_BYTES);
    else if (inst->op == UM_KOP_SCALAR) {
        words_of x = {0};
        name_memory(&x, w->k->scalar[inst->imm].name);
        expand_short(w, w->d->scalar_words, &x, text, NAME_MAX_BYTES);
    } else
        name_value(text, inst, v, lane);
}

static void fill_types(walker *w, words_of *x, um_dtype dtype)
{
    x->type = type_name(w, dtype);
    x->bits = um_dtype_bits(dtype);
    const char *u = unsigned_of(w->d, dtype);
    x->unsigned_type = u ? u : "";
}

/* Everything an instruction's words may name, for one lane. */
static void fill(walker *w, um_val v, int32_t lane, words_of *x)
{
    const um_kinst *inst = &w->k->inst[v];
    int32_t arity = um_kinst_arity(inst);
    *x = (words_of){.imm = inst->imm, .type = "", .source = "", .unsigned_type = ""};
    x->name = x->own_name;
    name_value(x->own_name, inst, v, lane);
    for (int32_t i = 0; i < arity; i++) operand(w, inst->arg[i], lane, x->arg[i]);
    if (inst->type.dtype) fill_types(w, x, inst->type.dtype);
    if (arity > 0) x->source = type_name(w, um_val_type(w->k, inst->arg[0]).dtype);
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* v = words, through the dialect's declaration. */
static void declare(walker *w, const char *form, const char *words, words_of *x)
{
    x->expression = expanded(w, &w->expression, words, x);
    line(w, form, x);
}

/* The words for each lane; NULL: there are none for the opcode. */
static void declare_lanes(walker *w, um_val v, const char *words)
{
    const um_kinst *inst = &w->k->inst[v];
    words_of x;
    if (!words) lacks(w, "words for", um_kop_rows[inst->op].name);
    for (int32_t lane = 0; lane < inst->type.lanes && w->status == UM_OK; lane++) {
        fill(w, v, lane, &x);
        if (inst->op == UM_KOP_VECTOR) operand(w, inst->arg[lane], 0, x.arg[0]);
        if (inst->op == UM_KOP_EXTRACT) operand(w, inst->arg[0], (int32_t)inst->imm, x.arg[0]);
        declare(w, w->d->value, words, &x);
    }
}

/* An opcode that is an expression of its operands, lane by lane. */
static void walk_value(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    bool cast = inst->op == UM_KOP_BITCAST, converts = inst->op == UM_KOP_CONVERT;
    um_ktype type = inst->type;
    if (um_kop_rows[inst->op].rule == UM_KRULE_BOOL || cast || converts)
        type = um_val_type(w->k, inst->arg[0]);
    const char *words = op_words(w->d, inst->op, type.dtype);
    if (cast && type.lanes != inst->type.lanes) words = NULL;
    if (converts && inst->type.dtype == UM_BOOL)
        words = w->d == &um_dialect_wgsl ? "bool($0)"
                : type.dtype == UM_BOOL  ? "$0"
                                         : "($0 != ($s)0)";
    declare_lanes(w, v, words);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const um_kmem *memory_of(const walker *w, const um_kinst *inst)
{
    return &w->k->mem[(inst->imm & UINT32_MAX) - 1];
}

static bool is_atomic(const walker *w, const um_kinst *inst)
{
    return w->d->atomic_type && w->atomics >> ((inst->imm & UINT32_MAX) - 1) & 1;
}

/* What the words of a memory access may name, for one lane. */
static void fill_memory(walker *w, um_val v, int32_t lane, words_of *x)
{
    const um_kinst *inst = &w->k->inst[v];
    const um_kmem *mem = memory_of(w, inst);
    fill(w, v, lane, x);
    fill_types(w, x, mem->type.dtype);
    name_memory(x, mem->name);
    x->space = w->d->space[mem->space];
    if (lane > 0 && inst->op != UM_KOP_GET && inst->op != UM_KOP_SET) {
        char index[NAME_MAX_BYTES];
        snprintf(index, sizeof index, "%.80s + %d%s", x->arg[0], lane, w->d->u32_suffix);
        memcpy(x->arg[0], index, sizeof index);
    }
}

static const char *element_words(const walker *w, const um_kmem *mem)
{
    return mem->space == UM_SPACE_BUFFER && w->d->buffer_element ? w->d->buffer_element
                                                                 : w->d->element;
}

/* fill_memory, and $m is the element itself. */
static void fill_element(walker *w, um_val v, int32_t lane, words_of *x)
{
    fill_memory(w, v, lane, x);
    x->memory = expanded(w, &w->memory, element_words(w, memory_of(w, &w->k->inst[v])), x);
}

static void load_lane(walker *w, um_val v, int32_t lane, const char *form)
{
    words_of x;
    fill_element(w, v, lane, &x);
    declare(w, form, is_atomic(w, &w->k->inst[v]) ? w->d->atomic_load : "$m", &x);
}

/* "float4", or false: no wide access of that. */
static bool vector_name(walker *w, um_ktype type, char text[32])
{
    const char *form = type_table[w->d->like][type.dtype].vector;
    if (!form || type.lanes == 1) return false;
    words_of x = {.count = type.lanes};
    expand_short(w, form, &x, text, 32);
    return true;
}

/* In one access, and its lanes by `form`: values, or assigned to. */
static void load_wide(walker *w, um_val v, const char *vector, const char *form)
{
    words_of x;
    int32_t lanes = w->k->inst[v].type.lanes;
    fill_memory(w, v, 0, &x);
    snprintf(x.own_name, sizeof x.own_name, "v%u", v);
    snprintf(x.vector, sizeof x.vector, "%s", vector);
    x.count = (uint64_t)lanes;
    x.expression = expanded(w, &w->expression, w->d->load_wide, &x);
    const char *type = x.type;
    x.type = x.vector;
    line(w, w->d->value, &x);
    x.type = type;
    for (int32_t lane = 0; lane < lanes; lane++) {
        char item[NAME_MAX_BYTES];
        snprintf(item, sizeof item, "v%u.%c", v, "xyzw"[lane]);
        name_value(x.own_name, &w->k->inst[v], v, lane);
        x.expression = item;
        line(w, form, &x);
    }
}

/* Value v from its memory. */
static void put_load(walker *w, um_val v, const char *form)
{
    const um_kinst *inst = &w->k->inst[v];
    char vector[32];
    if (!is_atomic(w, inst) && vector_name(w, inst->type, vector)) {
        load_wide(w, v, vector, form);
        return;
    }
    for (int32_t lane = 0; lane < inst->type.lanes && w->status == UM_OK; lane++)
        load_lane(w, v, lane, form);
}

static void walk_load_if(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    words_of x;
    for (int32_t lane = 0; lane < inst->type.lanes; lane++) {
        fill(w, v, lane, &x);
        declare(w, w->d->later, "$2", &x);
    }
    memcpy(x.arg[0], x.arg[1], sizeof x.arg[0]);
    line(w, w->d->if_open, &x);
    w->depth++;
    put_load(w, v, w->d->assign);
    w->depth--;
    line(w, "}", &x);
}

/* Between barriers; or by words of its own, which have the second one in them. */
static void walk_load_uniform(walker *w, um_val v)
{
    words_of x;
    const char *words = op_words(w->d, UM_KOP_LOAD_UNIFORM, UM_U32);
    const char *barrier = op_words(w->d, UM_KOP_BARRIER, UM_U32);
    fill_element(w, v, 0, &x);
    line(w, barrier, &x);
    declare(w, w->d->value, words ? words : "$m", &x);
    if (!words) line(w, barrier, &x);
}

/* element = operand 1, lane by lane or in one. */
static void put_store(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    um_ktype type = um_val_type(w->k, inst->arg[1]);
    words_of x;
    char vector[32], items[4 * NAME_MAX_BYTES];
    if (is_atomic(w, inst) || !vector_name(w, type, vector)) {
        for (int32_t lane = 0; lane < type.lanes && w->status == UM_OK; lane++) {
            fill_element(w, v, lane, &x);
            line(w, is_atomic(w, inst) ? w->d->atomic_store : "$m = $1;", &x);
        }
        return;
    }
    fill_memory(w, v, 0, &x);
    for (int32_t lane = 0, size = 0; lane < type.lanes; lane++) {
        operand(w, inst->arg[1], lane, x.arg[1]);
        size +=
            snprintf(items + size, sizeof items - (size_t)size, "%s%s", lane ? ", " : "", x.arg[1]);
    }
    memcpy(x.vector, vector, sizeof vector);
    x.count = type.lanes;
    x.expression = items;
    line(w, w->d->store_wide, &x);
}

static void walk_store(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    words_of x = {0};
    if (inst->op == UM_KOP_STORE) {
        put_store(w, v);
        return;
    }
    operand(w, inst->arg[2], 0, x.arg[0]);
    line(w, w->d->if_open, &x);
    w->depth++;
    put_store(w, v);
    w->depth--;
    line(w, "}", &x);
}

static void variable_name(const um_kmem *mem, int32_t lane, char text[NAME_MAX_BYTES])
{
    if (mem->type.lanes > 1)
        snprintf(text, NAME_MAX_BYTES, "%s_%d_", mem->name, lane);
    else
        snprintf(text, NAME_MAX_BYTES, "%s_", mem->name);
}

static void walk_variable(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    const um_kmem *mem = memory_of(w, inst);
    words_of x;
    char variable[NAME_MAX_BYTES];
    for (int32_t lane = 0; lane < mem->type.lanes; lane++) {
        fill(w, v, lane, &x);
        variable_name(mem, lane, variable);
        if (inst->op == UM_KOP_GET) {
            memcpy(x.arg[0], variable, sizeof variable);
            declare(w, w->d->value, "$0", &x);
        } else {
            x.name = variable;
            declare(w, w->d->assign, "$0", &x);
        }
    }
}

static void walk_atomic(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    uint32_t operation = (uint32_t)(inst->imm >> 32);
    words_of x;
    const char *words = inst->op == UM_KOP_ATOMIC_CAS ? w->d->atomic_cas
                        : operation < 9               ? atomic_table[w->d->like][operation]
                                                      : NULL;
    if (!words) lacks(w, "words for", um_kop_rows[inst->op].name);
    if (w->status != UM_OK) return;
    fill_element(w, v, 0, &x);
    if (inst->op == UM_KOP_ATOMIC_CAS)
        line(w, words, &x);
    else
        declare(w, w->d->value, words, &x);
}

/* ---- control flow ---------------------------------------------------------------------------- */

static void walk_flow(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    words_of x;
    fill(w, v, 0, &x);
    if (inst->op == UM_KOP_END || inst->op == UM_KOP_ELSE) w->depth--;
    switch (inst->op) {
    case UM_KOP_IF: line(w, w->d->if_open, &x); break;
    case UM_KOP_ELSE: line(w, "} else {", &x); break;
    case UM_KOP_FOR: line(w, w->d->for_open, &x); break;
    case UM_KOP_LOOP: line(w, w->d->loop_open, &x); break;
    case UM_KOP_BREAK: line(w, "break;", &x); break;
    case UM_KOP_END: line(w, "}", &x); break;
    default: line(w, op_words(w->d, inst->op, UM_U32), &x);
    }
    w->depth += inst->op >= UM_KOP_IF && inst->op <= UM_KOP_LOOP;
}

static void walk_frag(walker *w, um_val v)
{
    const um_kinst *inst = &w->k->inst[v];
    const um_kfield *fields = um_kinst_fields(inst);
    words_of x;
    fill(w, v, 0, &x);
    for (int32_t i = 0; fields[i].kind; i++) {
        uint64_t number = um_kfield_get(&fields[i], inst->imm);
        const char *name = um_kfield_name(w->k, fields[i].kind, number);
        if (name) snprintf(x.named[i], sizeof x.named[i], "%s_", name);
        if (fields[i].kind == UM_KFIELD_MEMORY)
            x.shared = w->k->mem[number - 1].space == UM_SPACE_SHARED;
        if (fields[i].kind == UM_KFIELD_BY_COLUMNS) x.by_columns = number;
    }
    declare(w, inst->type.dtype ? w->d->value : "$e", op_words(w->d, inst->op, UM_U32), &x);
}

static void walk(walker *w, um_val v)
{
    switch (w->k->inst[v].op) {
    case UM_KOP_NONE:
    case UM_KOP_CONST:
    case UM_KOP_SCALAR: return;
    case UM_KOP_VECTOR: /* other names for what there is */
    case UM_KOP_SPLAT:
    case UM_KOP_EXTRACT: declare_lanes(w, v, "$0"); return;
    case UM_KOP_LOAD: put_load(w, v, w->d->value); return;
    case UM_KOP_LOAD_IF: walk_load_if(w, v); return;
    case UM_KOP_LOAD_UNIFORM: walk_load_uniform(w, v); return;
    case UM_KOP_STORE:
    case UM_KOP_STORE_IF: walk_store(w, v); return;
    case UM_KOP_GET:
    case UM_KOP_SET: walk_variable(w, v); return;
    case UM_KOP_ATOMIC:
    case UM_KOP_ATOMIC_CAS: walk_atomic(w, v); return;
    case UM_KOP_IF:
    case UM_KOP_ELSE:
    case UM_KOP_FOR:
    case UM_KOP_LOOP:
    case UM_KOP_BREAK:
    case UM_KOP_END:
    case UM_KOP_BARRIER: walk_flow(w, v); return;
    default: (um_cstyle_is_frag(w->k->inst[v].op) ? walk_frag : walk_value)(w, v);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* One line a memory of that space, by the words. */
static void declare_memories(walker *w, um_space space, const char *words, const char *separator)
{
    for (int64_t i = 0, buffer = 0; words && i < w->k->mem_count; i++) {
        const um_kmem *mem = &w->k->mem[i];
        words_of x = {.count = mem->count, .imm = (uint64_t)buffer};
        buffer += mem->space == UM_SPACE_BUFFER;
        if (mem->space != space) continue;
        fill_types(w, &x, mem->type.dtype);
        if (w->d->atomic_type && w->atomics >> i & 1) {
            expand_short(w, w->d->atomic_type, &x, x.vector, sizeof x.vector);
            x.type = x.vector;
        }
        x.space = mem->access == UM_K_READ ? "read" : "read_write";
        x.source = mem->access == UM_K_READ ? "const " : "";
        for (int32_t lane = 0; lane < mem->type.lanes; lane++) {
            variable_name(mem, lane, x.arg[0]);
            x.memory = x.arg[0];
            for (int32_t d = 0; d < w->depth; d++) put(w->out, "    ");
            expand(w->out, words, &x);
            put(w->out, separator);
        }
    }
}

static void declare_scalars(walker *w, const char *words, const char *separator)
{
    for (int64_t i = 0; words && i < w->k->scalar_count; i++) {
        words_of x = {.type = type_name(w, w->k->scalar[i].dtype)};
        name_memory(&x, w->k->scalar[i].name);
        expand(w->out, words, &x);
        put(w->out, separator);
    }
}

static void find_atomics(walker *w)
{
    for (int64_t i = 0; i < w->k->inst_count; i++) {
        const um_kinst *inst = &w->k->inst[i];
        if (inst->op == UM_KOP_ATOMIC || inst->op == UM_KOP_ATOMIC_CAS)
            w->atomics |= UINT64_C(1) << (((inst->imm & UINT32_MAX) - 1) & 63);
    }
}

/* The parameter list, without the comma behind its last one. */
static void put_params(walker *w)
{
    words_of x = {.imm = (uint64_t)um_kernel_buffers(w->k), .name = w->k->name};
    int64_t start = w->out->size;
    declare_memories(w, UM_SPACE_BUFFER, w->d->buffer_param, ", ");
    declare_scalars(w, w->d->scalar_param, ", ");
    if (w->d->struct_param && w->k->scalar_count > 0) expand(w->out, w->d->struct_param, &x);
    expand(w->out, w->d->builtin_params, &x);
    um_text *out = w->out;
    if (out->status == UM_OK && out->size >= start + 2 &&
        memcmp(out->data + out->size - 2, ", ", 2) == 0)
        out->data[out->size -= 2] = 0;
}

static void put_function(walker *w)
{
    const um_dialect *d = w->d;
    const um_kernel *k = w->k;
    words_of x = {.name = k->name, .imm = (uint64_t)um_kernel_buffers(k)};
    x.count = (uint64_t)k->group_size[0] * k->group_size[1] * k->group_size[2];
    for (int32_t i = 0; i < 3; i++) snprintf(x.arg[i], sizeof x.arg[i], "%u", k->group_size[i]);
    put(w->out, d->head);
    const char *missing = um_cstyle_frag_head(k, d, w->out);
    if (missing) lacks(w, "words for", missing);
    if (d->struct_open && (k->scalar_count > 0 || d->struct_base)) {
        expand(w->out, d->struct_open, &x);
        declare_memories(w, UM_SPACE_BUFFER, d->struct_base, "\n");
        declare_scalars(w, d->struct_item, "\n");
        expand(w->out, d->struct_close, &x);
    }
    declare_memories(w, UM_SPACE_BUFFER, d->buffer_before, "\n");
    declare_memories(w, UM_SPACE_SHARED, d->shared_before, "\n");
    expand(w->out, d->function_open, &x);
    put_params(w);
    put(w->out, ")\n{\n");
    w->depth = 1;
    declare_memories(w, UM_SPACE_BUFFER, d->buffer_begin, "\n");
    declare_memories(w, UM_SPACE_SHARED, d->shared_begin, "\n");
    declare_memories(w, UM_SPACE_PRIVATE, d->array_begin, "\n");
    declare_memories(w, UM_SPACE_VAR, d->var_begin, "\n");
    um_cstyle_declare_frags(k, w->out);
    for (int64_t v = 1; v < k->inst_count && w->status == UM_OK; v++) walk(w, (um_val)v);
    put(w->out, "}\n");
}

um_status um_render_text(const um_kernel *kernel, um_target target, um_text *out)
{
    static const um_dialect *const dialects[UM_TARGET_COUNT] = {
        &um_dialect_opencl, &um_dialect_cuda, &um_dialect_hip, &um_dialect_metal, &um_dialect_wgsl};
    if (!kernel || !out || (uint32_t)target >= UM_TARGET_COUNT || !kernel->finished)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_render_text: %s",
                       !kernel            ? "kernel is NULL"
                       : !out             ? "out is NULL"
                       : kernel->finished ? "no such target"
                                          : "the kernel is not finished");
    walker w = {.k = kernel, .d = dialects[target], .out = out};
    if (kernel->mem_count > 64) lacks(&w, "room for more than 64 memories of", kernel->name);
    find_atomics(&w);
    if (w.status == UM_OK) put_function(&w);
    um_text_release(&w.expression);
    um_text_release(&w.memory);
    return w.status != UM_OK ? w.status : out->status;
}
