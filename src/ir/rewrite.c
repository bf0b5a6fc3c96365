/* ir/rewrite.c: the loop that every pass is, and copying declarations. */
#include "ir/rewrite.h"

static bool copy_items(void **to, int64_t *to_count, int64_t *capacity, const void *from,
                       int64_t count, size_t item_bytes)
{
    void *items = um_mem_alloc((size_t)UM_MAX(count, 1) * item_bytes);
    if (!items) return false;
    if (count) memcpy(items, from, (size_t)count * item_bytes);
    memcpy((void *)to, &items, sizeof items);
    *to_count = count;
    *capacity = UM_MAX(count, 1);
    return true;
}

#define COPY_ITEMS(name)                                                                           \
    copy_items((void **)&k->name, &k->name##_count, &k->name##_capacity, from->name,               \
               from->name##_count, sizeof *k->name)

um_status um_rewrite_begin(um_rewrite *r, const um_kernel *from, void *pass)
{
    if (!from->finished)
        return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: a pass takes a finished kernel",
                       from->name);
    um_kernel_desc desc = {.name = from->name, .subgroup_size = from->subgroup_size};
    memcpy(desc.group_size, from->group_size, sizeof desc.group_size);
    memcpy(desc.cluster_size, from->cluster_size, sizeof desc.cluster_size);
    *r = (um_rewrite){.from = from, .pass = pass};
    UM_TRY(um_kernel_create(&desc, &r->to));
    um_kernel *k = r->to;
    r->map = um_rewrite_room(r, from->inst_count, sizeof *r->map);
    if (!COPY_ITEMS(mem) || !COPY_ITEMS(scalar) || !COPY_ITEMS(frag))
        um_kernel_mistake(k, UM_OUT_OF_MEMORY, "no memory to rewrite it");
    return UM_OK;
}

void *um_rewrite_room(um_rewrite *r, int64_t count, size_t item_bytes)
{
    size_t bytes = (size_t)count * item_bytes;
    void *room = um_arena_alloc(&r->room, bytes);
    if (room)
        memset(room, 0, bytes);
    else
        um_kernel_mistake(r->to, UM_OUT_OF_MEMORY, "no memory to rewrite it");
    return room;
}

void um_rewrite_each(um_rewrite *r, um_rewrite_fn fn)
{
    for (r->at = 1; r->at < r->from->inst_count && r->to->status == UM_OK; r->at++) {
        um_kinst inst = r->from->inst[r->at];
        um_val at = r->at;
        for (int32_t i = 0; i < um_kinst_arity(&inst); i++) inst.arg[i] = r->map[inst.arg[i]];
        r->map[at] = fn(r, inst);
    }
}

um_status um_rewrite_end(um_rewrite *r, um_kernel **out)
{
    um_arena_release(&r->room);
    *out = NULL;
    if (um_kernel_finish(r->to) != UM_OK) {
        um_kernel_release(r->to);
        return um_status_last();
    }
    *out = r->to;
    return UM_OK;
}

um_status um_rewrite_kernel(const um_kernel *from, um_rewrite_fn fn, void *pass, um_kernel **out)
{
    um_rewrite r;
    *out = NULL;
    UM_TRY(um_rewrite_begin(&r, from, pass));
    um_rewrite_each(&r, fn);
    return um_rewrite_end(&r, out);
}

void um_kinst_renumber(um_kinst *inst, const um_mem *mem, const um_frag *frag)
{
    for (const um_kfield *f = um_kinst_fields(inst); f->kind; f++) {
        uint64_t was = um_kfield_get(f, inst->imm), is = was;
        if (f->kind == UM_KFIELD_MEMORY) is = mem[was];
        if (f->kind == UM_KFIELD_FRAG) is = frag[was];
        inst->imm += (is - was) << f->shift;
    }
}
