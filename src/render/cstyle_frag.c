/* render/cstyle_frag.c: the words of fragments and asynchronous copies, for cstyle.c: calls of
 * functions that a dialect's `frag_head` defines (frag_cuda.c, ...), the same in all of them. */
#include "render/cstyle.h"

static const char *letter(const um_kfrag *f)
{
    return f->role == 1 ? "a" : f->role == 2 ? "b" : "c";
}

bool um_cstyle_is_frag(um_kop op) { return op >= UM_KOP_FRAG_FILL && op <= UM_KOP_ASYNC_WAIT; }

const char *um_cstyle_frag_head(const um_kernel *k, const um_dialect *d, um_text *out)
{
    bool has = false;
    for (int64_t v = 1; v < k->inst_count; v++) {
        um_kop op = k->inst[v].op;
        bool place = op == UM_KOP_FRAG_ROW || op == UM_KOP_FRAG_COLUMN;
        bool copy = op >= UM_KOP_ASYNC_COPY && op <= UM_KOP_ASYNC_WAIT;
        if (!um_cstyle_is_frag(op)) continue;
        if (!d->frag_head || (place && !d->frag_places) || (copy && !d->async_copies))
            return um_kop_rows[op].name;
        has = true;
    }
    for (int32_t i = 0; has && d->frag_head[i]; i++)
        um_text_put(out, d->frag_head[i], strlen(d->frag_head[i]));
    return NULL;
}

void um_cstyle_declare_frags(const um_kernel *k, um_text *out)
{
    for (int64_t i = 0; i < k->frag_count; i++) {
        const um_kfrag *f = &k->frag[i];
        um_text_print(out, "    um_frag<um_%s, um_%s, %u, %u, %u> %s_;\n", letter(f),
                      um_dtype_name(f->dtype), f->m, f->n, f->k, f->name);
    }
}

static const char *frag_name(const um_kernel *k, uint64_t frag) { return k->frag[frag - 1].name; }

static const char *mem_name(const um_kernel *k, uint64_t mem) { return k->mem[mem - 1].name; }

static void put_move(const um_kernel *k, const um_kinst *inst, um_cstyle_arg *arg, um_text *out)
{
    uint64_t mem = inst->imm >> 32;
    bool by_columns = inst->imm >> 31 & 1, is_load = inst->op == UM_KOP_FRAG_LOAD;
    bool shared = k->mem[mem - 1].space == UM_SPACE_SHARED;
    um_text_print(out, "um_frag_%s<%s%s>(%s_, %s_ + %s, %s);", is_load ? "load" : "store",
                  by_columns ? "true" : "false",
                  !is_load ? ""
                  : shared ? ", true"
                           : ", false",
                  frag_name(k, inst->imm & INT32_MAX), mem_name(k, mem), arg[0], arg[1]);
}

/* A statement, or of those with a value the expression. */
void um_cstyle_frag(const um_kernel *k, const um_kinst *inst, um_cstyle_arg *arg, um_text *out)
{
    uint64_t low = inst->imm & UINT32_MAX, high = inst->imm >> 32;
    const char *name = um_kop_imm(inst->op) == UM_KIMM_FRAG ? frag_name(k, inst->imm) : "";
    switch (inst->op) {
    case UM_KOP_FRAG_FILL: um_text_print(out, "um_frag_fill(%s_, %s);", name, arg[0]); return;
    case UM_KOP_FRAG_LOAD:
    case UM_KOP_FRAG_STORE: put_move(k, inst, arg, out); return;
    case UM_KOP_FRAG_MMA:
        um_text_print(out, "um_frag_mma(%s_, %s_, %s_, %s_);", frag_name(k, low & UINT16_MAX),
                      frag_name(k, low >> 16), frag_name(k, high & UINT16_MAX),
                      frag_name(k, high >> 16));
        return;
    case UM_KOP_FRAG_COUNT: um_text_print(out, "%s_.count", name); return;
    case UM_KOP_FRAG_GET: um_text_print(out, "um_frag_get(%s_, %s)", name, arg[0]); return;
    case UM_KOP_FRAG_SET:
        um_text_print(out, "um_frag_set(%s_, %s, %s);", name, arg[0], arg[1]);
        return;
    case UM_KOP_FRAG_ROW: um_text_print(out, "um_frag_row(%s_, %s)", name, arg[0]); return;
    case UM_KOP_FRAG_COLUMN: um_text_print(out, "um_frag_column(%s_, %s)", name, arg[0]); return;
    case UM_KOP_ASYNC_COPY:
        um_text_print(out, "um_async_copy(%s_ + %s, %s_ + %s);", mem_name(k, low), arg[0],
                      mem_name(k, high), arg[1]);
        return;
    case UM_KOP_ASYNC_COMMIT: um_text_print(out, "um_async_commit();"); return;
    default: um_text_print(out, "um_async_wait<%llu>();", (unsigned long long)inst->imm);
    }
}
