/* ir/dead.c: leaves out what nobody can see. What has an effect is live, and what a live
 * instruction needs: its operands, the block it stands in, whatever is written to the memory of the
 * invocation that it reads, and of a loop its breaks. */
#include "ir/rewrite.h"

typedef struct sweep {
    const um_kernel *k;
    uint8_t *live;
    um_val *block;  /* of each instruction: the opener of the block it stands in */
    um_val *if_of;  /* of each ELSE: its IF; of each END: what it ends, IF for a pair */
    um_val *next;   /* of writes to one memory, of breaks of one loop: a list */
    um_val *writes; /* its first, of each memory */
    um_val *breaks; /* its first, of each loop */
    um_val *queue;
    int64_t queue_count;
    um_mem *mem; /* new numbers */
    um_frag *frag;
} sweep;

static bool is_own(const um_kernel *k, const um_kinst *inst)
{
    return um_kop_imm(inst->op) == UM_KIMM_MEMORY &&
           k->mem[inst->imm - 1].space >= UM_SPACE_PRIVATE;
}

static bool has_effect(const um_kernel *k, const um_kinst *inst)
{
    if (inst->op == UM_KOP_ATOMIC || inst->op == UM_KOP_ATOMIC_CAS ||
        inst->op == UM_KOP_LOAD_UNIFORM)
        return true;
    if (um_kop_rows[inst->op].rule != UM_KRULE_NONE || inst->op >= UM_KOP_IF) return false;
    return !is_own(k, inst);
}

static void mark(sweep *s, um_val v)
{
    if (v == 0 || s->live[v]) return;
    s->live[v] = 1;
    s->queue[s->queue_count++] = v;
}

static void mark_list(sweep *s, um_val *first)
{
    for (um_val v = *first; v; v = s->next[v]) mark(s, v);
    *first = 0; /* once is enough */
}

static void push_list(sweep *s, um_val *first, um_val v)
{
    s->next[v] = *first;
    *first = v;
}

/* Blocks, lists, and what is live by itself. */
static void survey(sweep *s)
{
    um_val open[UM_KDEPTH_MAX + 1] = {0}, whole[UM_KDEPTH_MAX + 1] = {0};
    int32_t depth = 0, loop;
    for (um_val i = 1; i < s->k->inst_count; i++) {
        const um_kinst *inst = &s->k->inst[i];
        if (inst->op == UM_KOP_END || inst->op == UM_KOP_ELSE) s->if_of[i] = whole[depth--];
        s->block[i] = open[depth];
        if (inst->op == UM_KOP_ELSE) open[++depth] = i;
        if (inst->op == UM_KOP_IF || inst->op == UM_KOP_FOR || inst->op == UM_KOP_LOOP) {
            whole[++depth] = i;
            open[depth] = i;
        }
        if (inst->op == UM_KOP_BREAK) {
            for (loop = depth; s->k->inst[open[loop]].op == UM_KOP_IF ||
                               s->k->inst[open[loop]].op == UM_KOP_ELSE;)
                loop--;
            push_list(s, &s->breaks[open[loop]], i);
        }
        if (um_kop_rows[inst->op].rule == UM_KRULE_NONE && is_own(s->k, inst))
            push_list(s, &s->writes[inst->imm], i);
        if (has_effect(s->k, inst)) mark(s, i);
    }
}

static void spread(sweep *s)
{
    while (s->queue_count > 0) {
        um_val v = s->queue[--s->queue_count];
        const um_kinst *inst = &s->k->inst[v];
        for (int32_t i = 0; i < um_kinst_arity(inst); i++) mark(s, inst->arg[i]);
        mark(s, s->block[v]);
        mark(s, s->if_of[v]);
        if (inst->op == UM_KOP_FOR || inst->op == UM_KOP_LOOP) mark_list(s, &s->breaks[v]);
        if (um_kop_rows[inst->op].rule != UM_KRULE_NONE && is_own(s->k, inst))
            mark_list(s, &s->writes[inst->imm]);
    }
}

static bool is_kept(const sweep *s, um_val v)
{
    return s->live[s->k->inst[v].op == UM_KOP_END ? s->if_of[v] : v];
}

/* New numbers of what is used; the new kernel's declarations move up. */
static void renumber(sweep *s, um_kernel *to)
{
    um_mem mems = 0;
    um_frag frags = 0;
    for (um_val i = 1; i < s->k->inst_count; i++) {
        if (!is_kept(s, i)) continue;
        const um_kinst *inst = &s->k->inst[i];
        for (const um_kfield *f = um_kinst_fields(inst); f->kind; f++) {
            uint64_t number = um_kfield_get(f, inst->imm);
            if (f->kind == UM_KFIELD_MEMORY) s->mem[number] = 1;
            if (f->kind == UM_KFIELD_FRAG) s->frag[number] = 1;
        }
    }
    for (int64_t m = 1; m <= s->k->mem_count; m++) {
        if (!s->mem[m] && s->k->mem[m - 1].space != UM_SPACE_BUFFER) continue;
        to->mem[mems] = s->k->mem[m - 1];
        s->mem[m] = ++mems;
    }
    for (int64_t f = 1; f <= s->k->frag_count; f++) {
        if (!s->frag[f]) continue;
        to->frag[frags] = s->k->frag[f - 1];
        s->frag[f] = ++frags;
    }
    to->mem_count = mems;
    to->frag_count = frags;
}

static um_val sweep_each(um_rewrite *r, um_kinst inst)
{
    sweep *s = r->pass;
    if (!is_kept(s, r->at)) return 0;
    um_kinst_renumber(&inst, s->mem, s->frag);
    return um_kernel_append(r->to, &inst);
}

static void sweep_make(sweep *s, um_rewrite *r)
{
    int64_t count = s->k->inst_count, mems = s->k->mem_count + 1, frags = s->k->frag_count + 1;
    s->live = um_rewrite_room(r, count, 1);
    s->block = um_rewrite_room(r, count, sizeof *s->block);
    s->if_of = um_rewrite_room(r, count, sizeof *s->if_of);
    s->next = um_rewrite_room(r, count, sizeof *s->next);
    s->breaks = um_rewrite_room(r, count, sizeof *s->breaks);
    s->queue = um_rewrite_room(r, count, sizeof *s->queue);
    s->writes = um_rewrite_room(r, mems, sizeof *s->writes);
    s->mem = um_rewrite_room(r, mems, sizeof *s->mem);
    s->frag = um_rewrite_room(r, frags, sizeof *s->frag);
}

um_status um_kernel_sweep(const um_kernel *k, um_kernel **out)
{
    um_rewrite r;
    sweep s = {.k = k};
    *out = NULL;
    UM_TRY(um_rewrite_begin(&r, k, &s));
    sweep_make(&s, &r);
    if (r.to->status == UM_OK) {
        survey(&s);
        spread(&s);
        renumber(&s, r.to);
        um_rewrite_each(&r, sweep_each);
    }
    return um_rewrite_end(&r, out);
}

um_status um_kernel_simplify(const um_kernel *k, um_kernel **out)
{
    um_kernel *folded;
    *out = NULL;
    UM_TRY(um_kernel_fold(k, &folded));
    um_status status = um_kernel_sweep(folded, out);
    um_kernel_release(folded);
    return status;
}
