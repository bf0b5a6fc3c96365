/* ir/parse.c: text as print.c writes it, back to a kernel. One pass, a line at a time; what a line
 * says is appended as it stands and judged by the verifier at the end, so only the form is checked
 * here. Nothing is allocated by a number in the text. Commas count as blanks. */
#include "ir/ir.h"

#include <stdio.h>

typedef struct parser {
    um_kernel *k;
    const char *at;   /* what comes next */
    const char *line; /* where the line begins */
    const char *word_at;
    uint32_t line_number;
    char word[72]; /* the last word; "" at the end of a line */
} parser;

UM_PRINTF(2, 3) static um_status bad(const parser *p, const char *format, ...)
{
    char what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_parse: line %u, column %lld: %s", p->line_number,
                   (long long)(p->word_at - p->line) + 1, what);
}

static um_status unwanted(const parser *p, const char *wanted)
{
    if (!p->word[0]) return bad(p, "the line ends; wanted %s", wanted);
    return bad(p, "got '%s'; wanted %s", p->word, wanted);
}

/* ---- words ---------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; }
static bool is_end(char c) { return c == '\0' || c == '\n' || c == ';'; }

static um_status next_word(parser *p)
{
    size_t n = 0;
    while (is_blank(*p->at)) p->at++;
    p->word_at = p->at;
    for (; !is_end(*p->at) && !is_blank(*p->at); p->at++) {
        if (n + 1 == sizeof p->word) return bad(p, "a word of more than %zu characters", n);
        if (*p->at < '!' || *p->at > '~') return bad(p, "a character that is none of the text's");
        p->word[n++] = *p->at;
    }
    p->word[n] = '\0';
    return UM_OK;
}

static bool word_is(const parser *p, const char *word) { return strcmp(p->word, word) == 0; }

/* To the first word of the next line that has one; none: the end of the text. */
static um_status next_line(parser *p)
{
    for (;;) {
        UM_TRY(next_word(p));
        if (p->word[0]) return UM_OK;
        while (*p->at && *p->at != '\n') p->at++;
        if (!*p->at) return UM_OK;
        p->line = ++p->at;
        p->line_number++;
    }
}

static um_status end_of_line(parser *p)
{
    UM_TRY(next_word(p));
    return p->word[0] ? unwanted(p, "the end of the line") : UM_OK;
}

/* Decimal, or hexadecimal after 0x; of the text from `digits`. */
static bool read_number(const char *digits, uint64_t limit, uint64_t *out)
{
    uint64_t base = 10, value = 0;
    if (digits[0] == '0' && digits[1] == 'x') {
        base = 16;
        digits += 2;
    }
    if (!digits[0]) return false;
    for (; *digits; digits++) {
        uint64_t digit = *digits >= '0' && *digits <= '9' ? (uint64_t)(*digits - '0')
                         : base == 16 && *digits >= 'a' && *digits <= 'f'
                             ? (uint64_t)(*digits - 'a') + 10
                             : base;
        if (digit >= base || value > (limit - digit) / base) return false;
        value = value * base + digit;
    }
    *out = value;
    return true;
}

static um_status next_number(parser *p, uint64_t limit, uint64_t *out)
{
    UM_TRY(next_word(p));
    if (read_number(p->word, limit, out)) return UM_OK;
    char wanted[48];
    snprintf(wanted, sizeof wanted, "a number up to %llu", (unsigned long long)limit);
    return unwanted(p, wanted);
}

static um_status next_u32(parser *p, uint32_t *out)
{
    uint64_t value = 0;
    UM_TRY(next_number(p, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return UM_OK;
}

static um_status next_type(parser *p, um_ktype *out)
{
    char name[sizeof p->word];
    UM_TRY(next_word(p));
    memcpy(name, p->word, sizeof name);
    size_t n = strlen(name);
    bool vector = n > 2 && name[n - 2] == 'x' && (name[n - 1] == '2' || name[n - 1] == '4');
    out->lanes = vector ? (uint8_t)(name[n - 1] - '0') : 1;
    if (vector) name[n - 2] = '\0';
    out->dtype = (uint8_t)um_dtype_find(name);
    return out->dtype == UM_DTYPE_NONE ? unwanted(p, "a type") : UM_OK;
}

/* The place of the word in a list of words. */
static um_status next_choice(parser *p, const char *const *words, int32_t count, const char *wanted,
                             int32_t *out)
{
    UM_TRY(next_word(p));
    for (*out = 0; *out < count; ++*out)
        if (word_is(p, words[*out])) return UM_OK;
    return unwanted(p, wanted);
}

/* ---- declarations --------------------------------------------------------------------------- */

static um_status next_sizes(parser *p, uint32_t out[3])
{
    for (int32_t i = 0; i < 3; i++) UM_TRY(next_u32(p, &out[i]));
    return UM_OK;
}

static um_status parse_head(parser *p)
{
    char name[sizeof p->word];
    um_kernel_desc desc = {.name = name};
    UM_TRY(next_line(p));
    if (!word_is(p, "kernel")) return unwanted(p, "'kernel'");
    UM_TRY(next_word(p));
    memcpy(name, p->word, sizeof name);
    for (;;) {
        UM_TRY(next_word(p));
        if (!p->word[0])
            break;
        else if (word_is(p, "group"))
            UM_TRY(next_sizes(p, desc.group_size));
        else if (word_is(p, "subgroup"))
            UM_TRY(next_u32(p, &desc.subgroup_size));
        else if (word_is(p, "cluster"))
            UM_TRY(next_sizes(p, desc.cluster_size));
        else
            return unwanted(p, "'group', 'subgroup' or 'cluster'");
    }
    if (um_kernel_create(&desc, &p->k) == UM_OK) return UM_OK;
    if (um_status_last() == UM_OUT_OF_MEMORY) return UM_OUT_OF_MEMORY;
    um_error error = *um_last_error();
    return bad(p, "%s", error.message);
}

static um_status parse_frag(parser *p, const char *name)
{
    static const char *const roles[] = {"a", "b", "c"};
    int32_t role;
    uint32_t size[3];
    um_ktype type;
    UM_TRY(next_choice(p, roles, 3, "a role: a, b or c", &role));
    UM_TRY(next_sizes(p, size));
    UM_TRY(next_type(p, &type));
    um_k_frag(p->k, name, role + 1, size[0], size[1], size[2], type.lanes == 1 ? type.dtype : 0);
    return UM_OK;
}

static um_status parse_buffer(parser *p, const char *name, um_dtype dtype)
{
    static const char *const words[] = {"read", "write", "read_write"};
    int32_t access;
    UM_TRY(next_choice(p, words, 3, "read, write or read_write", &access));
    um_k_buffer(p->k, name, dtype, access + 1);
    return UM_OK;
}

/* The line's first word is known. */
static um_status parse_declaration(parser *p)
{
    static const char *const kinds[] = {"buffer", "shared", "private", "var", "scalar", "frag"};
    char name[sizeof p->word];
    um_ktype type;
    uint32_t count = 0;
    size_t kind = 0;
    while (kind < UM_COUNT_OF(kinds) && !word_is(p, kinds[kind])) kind++;
    if (kind == UM_COUNT_OF(kinds)) return unwanted(p, "a declaration or 'begin'");
    UM_TRY(next_word(p));
    memcpy(name, p->word, sizeof name);
    if (kind == 5) {
        UM_TRY(parse_frag(p, name));
    } else {
        UM_TRY(next_type(p, &type));
        um_dtype scalar = type.lanes == 1 ? type.dtype : UM_DTYPE_NONE;
        if (kind == 0) UM_TRY(parse_buffer(p, name, scalar));
        if (kind == 1 || kind == 2) UM_TRY(next_u32(p, &count));
        if (kind == 1) um_k_shared(p->k, name, scalar, count);
        if (kind == 2) um_k_private(p->k, name, scalar, count);
        if (kind == 3) um_k_var(p->k, name, type.dtype, type.lanes);
        if (kind == 4) um_kernel_declare_scalar(p->k, name, scalar);
    }
    UM_TRY(end_of_line(p));
    if (p->k->status == UM_OUT_OF_MEMORY) return um_fail_again(&p->k->error);
    return p->k->status == UM_OK ? UM_OK : bad(p, "%s", p->k->error.message);
}

/* ---- instructions --------------------------------------------------------------------------- */

/* The number of what has the next word for a name. */
static um_status next_name(parser *p, um_kfield_kind kind, uint64_t *out)
{
    static const char *const wanted[] = {[UM_KFIELD_SCALAR] = "a scalar's name",
                                         [UM_KFIELD_MEMORY] = "a memory's name",
                                         [UM_KFIELD_FRAG] = "a fragment's name",
                                         [UM_KFIELD_OPERATION] =
                                             "an operation: add, mul, min, ..."};
    const char *name;
    UM_TRY(next_word(p));
    for (*out = kind != UM_KFIELD_SCALAR; (name = um_kfield_name(p->k, kind, *out)); ++*out)
        if (word_is(p, name)) return UM_OK;
    return unwanted(p, wanted[kind]);
}

/* Whether the next word is this one; it is taken then. */
static bool next_is(parser *p, const char *word)
{
    parser before = *p;
    if (next_word(p) == UM_OK && word_is(p, word)) return true;
    *p = before;
    return false;
}

static um_status parse_imm(parser *p, um_kinst *inst)
{
    for (const um_kfield *f = um_kinst_fields(inst); f->kind; f++) {
        uint64_t value = 0;
        switch ((um_kfield_kind)f->kind) {
        case UM_KFIELD_BITS: UM_TRY(next_number(p, UINT64_MAX, &value)); break;
        case UM_KFIELD_NUMBER: UM_TRY(next_number(p, UINT32_MAX, &value)); break;
        case UM_KFIELD_EXCLUSIVE: value = next_is(p, "exclusive"); break;
        case UM_KFIELD_BY_COLUMNS: value = next_is(p, "by_columns"); break;
        case UM_KFIELD_SCALAR:
        case UM_KFIELD_MEMORY:
        case UM_KFIELD_FRAG:
        case UM_KFIELD_OPERATION: UM_TRY(next_name(p, f->kind, &value)); break;
        case UM_KFIELD_NONE: break;
        }
        inst->imm |= value << f->shift;
    }
    return UM_OK;
}

/* The line's first word is known. */
static um_status parse_instruction(parser *p)
{
    uint64_t number = 0;
    um_kinst inst = {0};
    char wanted[32];
    bool named = p->word[0] == '%';
    snprintf(wanted, sizeof wanted, "%%%lld", (long long)p->k->inst_count);
    if (named) {
        if (!word_is(p, wanted)) return unwanted(p, wanted);
        UM_TRY(next_word(p));
        if (!word_is(p, "=")) return unwanted(p, "'='");
        UM_TRY(next_word(p));
    }
    for (inst.op = 1; inst.op < UM_KOP_LIMIT; inst.op++)
        if (um_kop_rows[inst.op].name && word_is(p, um_kop_rows[inst.op].name)) break;
    if (inst.op == UM_KOP_LIMIT) return unwanted(p, "an opcode");
    bool gives = um_kop_rows[inst.op].rule != UM_KRULE_NONE;
    if (gives && !named) return bad(p, "%s gives a value; wanted %s = before it", p->word, wanted);
    if (!gives && named) return bad(p, "%s gives no value", p->word);
    if (gives) UM_TRY(next_type(p, &inst.type));
    UM_TRY(parse_imm(p, &inst));
    for (int32_t i = 0; i < um_kinst_arity(&inst); i++) {
        UM_TRY(next_word(p));
        if (p->word[0] != '%' || !read_number(p->word + 1, UINT32_MAX, &number))
            return unwanted(p, "a value, as %1");
        inst.arg[i] = (um_val)number;
    }
    UM_TRY(end_of_line(p));
    um_kernel_append(p->k, &inst);
    return p->k->status == UM_OK ? UM_OK : um_fail_again(&p->k->error);
}

static um_status parse(parser *p)
{
    UM_TRY(parse_head(p));
    UM_TRY(next_line(p));
    while (!word_is(p, "begin")) {
        UM_TRY(parse_declaration(p));
        UM_TRY(next_line(p));
    }
    UM_TRY(end_of_line(p));
    UM_TRY(next_line(p));
    while (p->word[0]) {
        UM_TRY(parse_instruction(p));
        UM_TRY(next_line(p));
    }
    return um_kernel_finish(p->k);
}

um_status um_kernel_parse(const char *text, um_kernel **out)
{
    if (!text || !out)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_parse: %s is NULL", text ? "out" : "text");
    parser p = {.at = text, .line = text, .word_at = text, .line_number = 1};
    *out = NULL;
    um_status status = parse(&p);
    if (status != UM_OK) {
        um_kernel_release(p.k);
        return status;
    }
    *out = p.k;
    return UM_OK;
}
