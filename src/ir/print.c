/* ir/print.c: a kernel as text, one instruction a line; parse.c reads it back.
 *
 *   kernel scale group 64 1 1
 *   buffer x f32 read_write
 *   scalar n u32
 *   begin
 *   %1 = scalar u32 n
 *   ...
 *   if %6
 *       %8 = load f32 x, %5
 *       store x, %5, %8
 *   end
 *
 * A value's number is its instruction's. Constants are bits; what they mean follows as a comment,
 * which runs from ';' to the end of the line. */
#include "ir/ir.h"

#include <stdio.h>

/* ---- names ---------------------------------------------------------------------------------- */

void um_ktype_text(um_ktype type, char out[16])
{
    if (type.lanes == 1 || type.dtype == UM_DTYPE_NONE)
        snprintf(out, 16, "%s", um_dtype_name(type.dtype));
    else
        snprintf(out, 16, "%sx%u", um_dtype_name(type.dtype), type.lanes);
}

/* ---- one instruction ------------------------------------------------------------------------ */

typedef struct line {
    char *out;
    size_t length;
} line;

UM_PRINTF(2, 3) static void add(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->out + l->length, UM_KTEXT_MAX - l->length, format, args);
    va_end(args);
    if (n > 0) l->length = UM_MIN(l->length + (size_t)n, UM_KTEXT_MAX - 1);
}

/* An item of a list: before the first stands a blank, before the others a comma too. */
static const char *gap(int32_t *count) { return (*count)++ ? ", " : " "; }

static void add_imm(line *l, const um_kernel *k, const um_kinst *inst, int32_t *count)
{
    static const char *const none[] = {[UM_KFIELD_SCALAR] = "no_scalar",
                                       [UM_KFIELD_MEMORY] = "no_memory",
                                       [UM_KFIELD_FRAG] = "no_fragment",
                                       [UM_KFIELD_OPERATION] = "no_operation"};
    for (const um_kfield *f = um_kinst_fields(inst); f->kind; f++) {
        uint64_t value = um_kfield_get(f, inst->imm);
        const char *name = um_kfield_name(k, f->kind, value);
        switch ((um_kfield_kind)f->kind) {
        case UM_KFIELD_BITS: add(l, " 0x%llx", (unsigned long long)value); break;
        case UM_KFIELD_NUMBER: add(l, "%s%llu", gap(count), (unsigned long long)value); break;
        case UM_KFIELD_SCALAR:
        case UM_KFIELD_OPERATION: add(l, " %s", name ? name : none[f->kind]); break;
        case UM_KFIELD_MEMORY:
        case UM_KFIELD_FRAG: add(l, "%s%s", gap(count), name ? name : none[f->kind]); break;
        case UM_KFIELD_EXCLUSIVE: add(l, "%s", value ? " exclusive" : ""); break;
        case UM_KFIELD_BY_COLUMNS: add(l, "%s", value ? " by_columns" : ""); break;
        case UM_KFIELD_NONE: break;
        }
    }
}

void um_kinst_text(const um_kernel *k, um_val v, char out[UM_KTEXT_MAX])
{
    const um_kinst *inst = &k->inst[v];
    const um_kop_row *row = inst->op < UM_KOP_LIMIT ? &um_kop_rows[inst->op] : NULL;
    line l = {.out = out};
    char type[16];
    int32_t count = 0;
    out[0] = '\0';
    if (!row || !row->name) {
        add(&l, "no_opcode_%u", inst->op);
        return;
    }
    um_ktype_text(inst->type, type);
    if (row->rule == UM_KRULE_NONE)
        add(&l, "%s", row->name);
    else
        add(&l, "%%%u = %s %s", v, row->name, type);
    add_imm(&l, k, inst, &count);
    int32_t arity = UM_MIN(um_kinst_arity(inst), 4);
    for (int32_t i = 0; i < arity; i++) add(&l, "%s%%%u", gap(&count), inst->arg[i]);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The text so far. */
typedef struct page {
    char *text;
    size_t length, capacity;
    bool failed;
} page;

static void add_line(page *p, int32_t depth, const char *format, ...) UM_PRINTF(3, 4);
static void add_line(page *p, int32_t depth, const char *format, ...)
{
    size_t indent = 4 * (size_t)depth, want = p->length + indent + UM_KTEXT_MAX + 64;
    if (p->failed) return;
    if (want > p->capacity) {
        char *grown = um_mem_grow(p->text, p->length, 2 * want);
        p->failed = !grown;
        if (!grown) return;
        p->text = grown;
        p->capacity = 2 * want;
    }
    memset(p->text + p->length, ' ', indent);
    p->length += indent;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(p->text + p->length, p->capacity - p->length - 1, format, args);
    va_end(args);
    p->length += (size_t)UM_MAX(n, 0);
    p->text[p->length++] = '\n';
    p->text[p->length] = '\0';
}

static void add_declarations(page *p, const um_kernel *k)
{
    static const char *const access[] = {"", "read", "write", "read_write"};
    static const char *const space[] = {
        [UM_SPACE_SHARED] = "shared", [UM_SPACE_PRIVATE] = "private"};
    char type[16];
    for (int64_t i = 0; i < k->mem_count; i++) {
        const um_kmem *m = &k->mem[i];
        um_ktype_text(m->type, type);
        if (m->space == UM_SPACE_BUFFER)
            add_line(p, 0, "buffer %s %s %s", m->name, type, access[m->access & 3]);
        else if (m->space == UM_SPACE_VAR)
            add_line(p, 0, "var %s %s", m->name, type);
        else
            add_line(p, 0, "%s %s %s %u", space[m->space], m->name, type, m->count);
    }
    for (int64_t i = 0; i < k->scalar_count; i++)
        add_line(p, 0, "scalar %s %s", k->scalar[i].name, um_dtype_name(k->scalar[i].dtype));
    for (int64_t i = 0; i < k->frag_count; i++) {
        const um_kfrag *f = &k->frag[i];
        add_line(p, 0, "frag %s %c %u %u %u %s", f->name, "abc"[f->role - 1], f -> m, f -> n,
                 f -> k, um_dtype_name(f->dtype));
    }
}

/* What a constant's bits mean. */
static void constant_text(const um_kinst *inst, char out[32])
{
    um_dtype dtype = inst->type.dtype;
    if (um_dtype_is_float(dtype)) {
        double value = 0;
        um_load(UM_CLASS_F64, &value, dtype, &inst->imm, 0, 1, 1);
        snprintf(out, 32, "%.*g", dtype == UM_F64 ? 17 : 9, value);
    } else if (um_dtype_get_kind(dtype) == UM_KIND_INT) {
        int64_t value = 0;
        um_load(UM_CLASS_I64, &value, dtype, &inst->imm, 0, 1, 1);
        snprintf(out, 32, "%lld", (long long)value);
    } else {
        snprintf(out, 32, "%llu", (unsigned long long)inst->imm);
    }
}

um_status um_kernel_print(const um_kernel *k, char **text)
{
    if (!k || !text)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_print: %s is NULL", k ? "text" : "kernel");
    page p = {0};
    char line_text[UM_KTEXT_MAX], value[32];
    const uint32_t *g = k->group_size, *c = k->cluster_size;
    int32_t depth = 0;
    *text = NULL;
    add_line(&p, 0, "kernel %s group %u %u %u subgroup %u cluster %u %u %u", k->name, g[0], g[1],
             g[2], k->subgroup_size, c[0], c[1], c[2]);
    add_declarations(&p, k);
    add_line(&p, 0, "begin");
    for (int64_t i = 1; i < k->inst_count; i++) {
        um_kop op = k->inst[i].op;
        if (op == UM_KOP_END || op == UM_KOP_ELSE) depth = UM_MAX(depth - 1, 0);
        um_kinst_text(k, (um_val)i, line_text);
        if (op == UM_KOP_CONST) {
            constant_text(&k->inst[i], value);
            add_line(&p, depth, "%s ; %s", line_text, value);
        } else {
            add_line(&p, depth, "%s", line_text);
        }
        if (op >= UM_KOP_IF && op <= UM_KOP_LOOP) depth = UM_MIN(depth + 1, UM_KDEPTH_MAX);
    }
    if (p.failed) {
        um_mem_free(p.text);
        return UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: no memory for its text", k->name);
    }
    *text = p.text;
    return UM_OK;
}

void um_kernel_text_free(char *text) { um_mem_free(text); }
