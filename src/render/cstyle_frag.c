/* render/cstyle_frag.c: the words of fragments and asynchronous copies, for cstyle.c: calls of
 * functions (words.def) that a dialect's `frag_head` defines (frag_cuda.c, ...), the same in all of
 * them. */
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
