/* interp/memory.c: loads, stores, variables, atomics and asynchronous copies, each first checked
 * for every active invocation (bounds, alignment, unwritten elements, races) and then done.
 *
 * What the bookkeeping costs: a byte an element of shared and private memory; 8 bytes more an
 * element of shared memory; of buffers 16 bytes a 32-bit word, in pages of 4096 words that come
 * when one of them is touched. */
#include "interp/interp.h"

#include <stdio.h>

/* ---- races ---------------------------------------------------------------------------------- */

/* Notes that `who` touches what the stamp is of. Stamps of somebody below `fresh` do not count;
 * `many` stands for more than one reader or atomic user. false: a race, and the stamp is as it was.
 */
static inline bool stamp_touch(um_stamp *stamp, uint64_t fresh, uint64_t who, uint64_t many,
                               uint32_t kind)
{
    uint64_t old = *stamp, kinds = (old & 7) | kind;
    if (old >> 3 == who) {
        *stamp = old | kind;
        return true;
    }
    if (old >> 3 < fresh) {
        *stamp = who << 3 | kind;
        return true;
    }
    *stamp = many << 3 | kinds;
    if (kinds == UM_TOUCH_READ || kinds == UM_TOUCH_ATOMIC) return true;
    *stamp = old;
    return false;
}

static inline bool touch_in_group(const um_interp *it, um_stamp *stamp, uint32_t who, uint32_t kind)
{
    uint64_t fresh = it->epoch << 16;
    return stamp_touch(stamp, fresh, fresh | who, fresh | UM_WHO_MANY, kind);
}

#define MANY_GROUPS ((uint64_t)1 << 60)

static const char *kind_name(uint64_t kinds)
{
    return kinds & UM_TOUCH_WRITE ? "a write" : kinds & UM_TOUCH_ATOMIC ? "an atomic" : "a read";
}

static void name_who(const um_interp *it, um_stamp stamp, char *text, size_t size)
{
    const uint32_t *dim = it->k->group_size;
    uint32_t who = stamp >> 3 & 0xffff;
    if (who == UM_WHO_MANY)
        snprintf(text, size, "several invocations");
    else if (who >= UM_WHO_SUBGROUP)
        snprintf(text, size, "subgroup %u", who - UM_WHO_SUBGROUP);
    else
        snprintf(text, size, "invocation (%u,%u,%u)", who % dim[0], who / dim[0] % dim[1],
                 who / dim[0] / dim[1]);
}

static void name_group(const um_interp *it, um_stamp stamp, char *text, size_t size)
{
    const uint32_t *dim = it->run->group_count;
    uint64_t number = (stamp >> 3) - 1;
    if (stamp >> 3 == MANY_GROUPS)
        snprintf(text, size, "several work-groups");
    else
        snprintf(text, size, "work-group (%u,%u,%u)", (uint32_t)(number % dim[0]),
                 (uint32_t)(number / dim[0] % dim[1]), (uint32_t)(number / dim[0] / dim[1]));
}

static um_status fail_race(um_interp *it, const um_imem *mem, uint64_t at, int32_t invocation,
                           uint32_t kind, um_stamp other, bool of_groups)
{
    char who[64];
    if (of_groups)
        name_group(it, other, who, sizeof who);
    else
        name_who(it, other, who, sizeof who);
    return um_interp_fail(it, UM_INVALID_ARGUMENT, invocation,
                          "a race on %selement %llu of %s: %s here, %s by %s %s",
                          mem->region && mem->size < 4 ? "the 32-bit word of " : "",
                          (unsigned long long)at, mem->name, kind_name(kind), kind_name(other & 7),
                          who, of_groups ? "of the launch" : "since the last barrier");
}

static um_status new_page(um_interp *it, um_shadow **page)
{
    size_t bytes = UM_SHADOW_PAGE * sizeof **page;
    *page = um_arena_alloc(&it->arena, bytes);
    if (!*page) return um_interp_fail(it, UM_OUT_OF_MEMORY, -1, "no memory");
    memset(*page, 0, bytes);
    return UM_OK;
}

/* bytes at data + offset, which are in the buffer. */
static inline um_status touch_buffer(um_interp *it, const um_imem *mem, uint64_t at, uint32_t count,
                                     uint32_t who, int32_t invocation, uint32_t kind)
{
    size_t begin = (uintptr_t)mem->data - mem->region->begin + (size_t)at * mem->size;
    size_t word = begin / 4, last = (begin + (size_t)count * mem->size - 1) / 4;
    for (; word <= last; word++) {
        um_shadow **page = &mem->region->page[word / UM_SHADOW_PAGE];
        if (!*page) UM_TRY(new_page(it, page));
        um_shadow *shadow = &(*page)[word % UM_SHADOW_PAGE];
        uint64_t element = at + (word - begin / 4) * 4 / mem->size;
        if (!touch_in_group(it, &shadow->group, who, kind))
            return fail_race(it, mem, element, invocation, kind, shadow->group, false);
        if (!stamp_touch(&shadow->launch, 1, it->group_number, MANY_GROUPS, kind))
            return fail_race(it, mem, element, invocation, kind, shadow->launch, true);
    }
    return UM_OK;
}

static inline um_status fail_unwritten(um_interp *it, const um_imem *mem, uint64_t at,
                                       int32_t invocation)
{
    return um_interp_fail(it, UM_INVALID_ARGUMENT, invocation,
                          "element %llu of %s is read before it was written",
                          (unsigned long long)at, mem->name);
}

static inline um_status touch_shared(um_interp *it, const um_imem *mem, uint64_t at, uint32_t count,
                                     uint32_t who, int32_t invocation, uint32_t kind)
{
    for (uint64_t e = at; e < at + count; e++) {
        if (mem->is[e] & UM_IS_PENDING)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, invocation,
                                  "a race on element %llu of %s: %s while it is copied to; there "
                                  "was no async_wait for the batch",
                                  (unsigned long long)e, mem->name, kind_name(kind));
        if (kind != UM_TOUCH_WRITE && !mem->is[e]) return fail_unwritten(it, mem, e, invocation);
        if (!touch_in_group(it, &mem->stamp[e], who, kind))
            return fail_race(it, mem, e, invocation, kind, mem->stamp[e], false);
        mem->is[e] |= UM_IS_WRITTEN;
    }
    return UM_OK;
}

static um_status fail_range(um_interp *it, const um_imem *mem, uint64_t at, uint32_t count,
                            int32_t invocation)
{
    if (at % count != 0)
        return um_interp_fail(it, UM_INVALID_ARGUMENT, invocation,
                              "index %llu of %s is not a multiple of the %u lanes",
                              (unsigned long long)at, mem->name, count);
    return um_interp_fail(it, UM_OUT_OF_RANGE, invocation, "index %llu of %s, which has %llu%s",
                          (unsigned long long)at, mem->name, (unsigned long long)mem->count,
                          count > 1 ? ", for more than one lane" : "");
}

um_status um_interp_touch(um_interp *it, um_imem *mem, uint64_t at, uint32_t count, uint32_t who,
                          int32_t invocation, uint32_t kind)
{
    if (at + count > mem->count) return fail_range(it, mem, at, 1, invocation);
    return mem->space == UM_SPACE_BUFFER ? touch_buffer(it, mem, at, count, who, invocation, kind)
                                         : touch_shared(it, mem, at, count, who, invocation, kind);
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* The active invocations, or of these the ones where the condition holds. */
static const uint8_t *choose(um_interp *it, um_val condition)
{
    if (!condition) return it->mask;
    const uint8_t *holds = um_interp_value(it, condition);
    for (int32_t i = it->first; i < it->last; i++) it->chosen[i] = it->mask[i] & holds[i];
    return it->chosen;
}

/* Elements index[i] .. index[i] + lanes - 1 of each invocation. */
static um_status check_access(um_interp *it, um_imem *mem, const uint32_t *index, uint32_t lanes,
                              const uint8_t *mask, uint32_t kind)
{
    for (int32_t i = it->first; i < it->last; i++) {
        if (!mask[i]) continue;
        uint64_t at = index[i];
        if (at + lanes > mem->count || (at & (lanes - 1)) != 0)
            return fail_range(it, mem, at, lanes, i);
        if (mem->space == UM_SPACE_BUFFER) {
            UM_TRY(touch_buffer(it, mem, at, lanes, (uint32_t)i, i, kind));
        } else if (mem->space == UM_SPACE_SHARED) {
            UM_TRY(touch_shared(it, mem, at, lanes, (uint32_t)i, i, kind));
        } else {
            for (uint64_t e = at; e < at + lanes; e++) {
                uint8_t *is = &mem->is[e * (uint64_t)it->n + (uint64_t)i];
                if (kind == UM_TOUCH_READ && !*is) return fail_unwritten(it, mem, e, i);
                *is = UM_IS_WRITTEN;
            }
        }
    }
    return UM_OK;
}

/* Where an invocation's element lies: at * step + i * own elements in. */
typedef struct layout {
    size_t step, own;
} layout;

static layout layout_of(const um_interp *it, const um_imem *mem)
{
    return mem->space == UM_SPACE_PRIVATE ? (layout){(size_t)it->n, 1} : (layout){1, 0};
}

static inline void gather_size(const um_interp *it, char *to, const um_imem *mem,
                               const uint32_t *index, size_t lane, const uint8_t *mask, size_t size)
{
    layout at = layout_of(it, mem);
    for (int32_t i = it->first; i < it->last; i++)
        if (mask[i])
            memcpy(to + (size_t)i * size,
                   mem->data + ((index[i] + lane) * at.step + (size_t)i * at.own) * size, size);
}

static inline void scatter_size(const um_interp *it, const char *from, const um_imem *mem,
                                const uint32_t *index, size_t lane, const uint8_t *mask,
                                size_t size)
{
    layout at = layout_of(it, mem);
    for (int32_t i = it->first; i < it->last; i++)
        if (mask[i])
            memcpy(mem->data + ((index[i] + lane) * at.step + (size_t)i * at.own) * size,
                   from + (size_t)i * size, size);
}

/* A byte of a bool in a buffer may be anything. */
static void make_bools(const um_interp *it, char *lane)
{
    for (int32_t i = it->first; i < it->last; i++) lane[i] = lane[i] != 0;
}

um_status um_interp_load(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    bool is_if = inst->op == UM_KOP_LOAD_IF;
    um_imem *mem = &it->mem[inst->imm - 1];
    const uint32_t *index = um_interp_value(it, inst->arg[0]);
    const uint8_t *mask = choose(it, is_if ? inst->arg[1] : 0);
    UM_TRY(check_access(it, mem, index, inst->type.lanes, mask, UM_TOUCH_READ));
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        char *to = um_interp_lane(it, it->pc, l);
        size_t lane = (size_t)l, first = (size_t)it->first * mem->size;
        if (is_if)
            memcpy(to + first, um_interp_lane(it, inst->arg[2], l) + first,
                   (size_t)(it->last - it->first) * mem->size);
        switch (mem->size) {
        case 1: gather_size(it, to, mem, index, lane, mask, 1); break;
        case 2: gather_size(it, to, mem, index, lane, mask, 2); break;
        case 4: gather_size(it, to, mem, index, lane, mask, 4); break;
        case 8: gather_size(it, to, mem, index, lane, mask, 8); break;
        }
        if (inst->type.dtype == UM_BOOL) make_bools(it, to);
    }
    return UM_OK;
}

um_status um_interp_store(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    um_imem *mem = &it->mem[inst->imm - 1];
    const uint32_t *index = um_interp_value(it, inst->arg[0]);
    const uint8_t *mask = choose(it, inst->op == UM_KOP_STORE_IF ? inst->arg[2] : 0);
    int32_t lanes = um_val_type(it->k, inst->arg[1]).lanes;
    UM_TRY(check_access(it, mem, index, (uint32_t)lanes, mask, UM_TOUCH_WRITE));
    for (int32_t l = 0; l < lanes; l++) {
        const char *from = um_interp_lane(it, inst->arg[1], l);
        size_t lane = (size_t)l;
        switch (mem->size) {
        case 1: scatter_size(it, from, mem, index, lane, mask, 1); break;
        case 2: scatter_size(it, from, mem, index, lane, mask, 2); break;
        case 4: scatter_size(it, from, mem, index, lane, mask, 4); break;
        case 8: scatter_size(it, from, mem, index, lane, mask, 8); break;
        }
    }
    return UM_OK;
}

/* ---- variables ------------------------------------------------------------------------------ */

um_status um_interp_get(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    const um_imem *var = &it->mem[inst->imm - 1];
    size_t from = (size_t)it->first * var->size, bytes = (size_t)(it->last - it->first) * var->size;
    uint8_t unwritten = 0;
    for (int32_t i = it->first; i < it->last; i++)
        unwritten |= (uint8_t)(it->mask[i] & (var->is[i] ^ 1));
    for (int32_t i = it->first; i < it->last && unwritten; i++)
        if (it->mask[i] && !var->is[i])
            return um_interp_fail(it, UM_INVALID_ARGUMENT, i, "%s is read before it was set",
                                  var->name);
    for (int32_t l = 0; l < inst->type.lanes; l++)
        memcpy(um_interp_lane(it, it->pc, l) + from,
               var->data + (size_t)l * (size_t)it->n * var->size + from, bytes);
    return UM_OK;
}

static inline void set_size(const um_interp *it, char *to, const char *from, size_t size)
{
    for (int32_t i = it->first; i < it->last; i++)
        if (it->mask[i]) memcpy(to + (size_t)i * size, from + (size_t)i * size, size);
}

um_status um_interp_set(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    um_imem *var = &it->mem[inst->imm - 1];
    for (int32_t i = it->first; i < it->last; i++) var->is[i] |= it->mask[i];
    for (int32_t l = 0; l < um_val_type(it->k, inst->arg[0]).lanes; l++) {
        char *to = var->data + (size_t)l * (size_t)it->n * var->size;
        const char *from = um_interp_lane(it, inst->arg[0], l);
        switch (var->size) {
        case 1: set_size(it, to, from, 1); break;
        case 2: set_size(it, to, from, 2); break;
        case 4: set_size(it, to, from, 4); break;
        case 8: set_size(it, to, from, 8); break;
        }
    }
    return UM_OK;
}

/* ---- atomics -------------------------------------------------------------------------------- */

um_status um_interp_atomic(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    bool is_cas = inst->op == UM_KOP_ATOMIC_CAS;
    uint32_t operation = (uint32_t)(inst->imm >> 32);
    um_imem *mem = &it->mem[(uint32_t)inst->imm - 1];
    size_t size = mem->size;
    const uint32_t *index = um_interp_value(it, inst->arg[0]);
    const char *b = um_interp_value(it, inst->arg[1]);
    const char *c = is_cas ? um_interp_value(it, inst->arg[2]) : b;
    char *out = um_interp_value(it, it->pc);
    UM_TRY(check_access(it, mem, index, 1, it->mask, UM_TOUCH_ATOMIC));
    for (int32_t i = it->first; i < it->last; i++) {
        if (!it->mask[i]) continue;
        char *element = mem->data + index[i] * size;
        memcpy(out + (size_t)i * size, element, size);
        if (is_cas) {
            if (memcmp(element, b + (size_t)i * size, size) == 0)
                memcpy(element, c + (size_t)i * size, size);
        } else if (operation == UM_K_EXCHANGE) {
            memcpy(element, b + (size_t)i * size, size);
        } else {
            um_lanes_eval(um_koperation_opcode(operation), inst->type.dtype, element, element,
                          b + (size_t)i * size, NULL, 1);
        }
    }
    return UM_OK;
}

/* ---- asynchronous copies --------------------------------------------------------------------- */

/* The bytes are copied at once; until the invocation waits for the batch, whoever touches them
 * makes a race, and after that others until a barrier, as with a store made at the wait. */

static um_status copy_for(um_interp *it, um_imem *shared, um_imem *buffer, uint32_t to,
                          uint32_t from, int32_t i)
{
    uint32_t count = 16 / shared->size;
    if (to % count != 0 || from % count != 0)
        return um_interp_fail(it, UM_INVALID_ARGUMENT, i,
                              "element %u of %s to element %u of %s: not both at whole 16 bytes",
                              from, buffer->name, to, shared->name);
    UM_TRY(um_interp_touch(it, buffer, from, count, (uint32_t)i, i, UM_TOUCH_READ));
    UM_TRY(um_interp_touch(it, shared, to, count, (uint32_t)i, i, UM_TOUCH_WRITE));
    if (um_vec_reserve((void **)&it->copy, &it->copy_capacity, it->copy_count, sizeof *it->copy,
                       "um_kernel_interpret") != UM_OK)
        return um_interp_fail(it, UM_OUT_OF_MEMORY, -1, "no memory");
    it->copy[it->copy_count++] = (um_icopy){.shared = (um_mem)(shared - it->mem),
                                            .index = to,
                                            .count = count,
                                            .who = (uint32_t)i,
                                            .batch = it->batches[i]};
    memset(shared->is + to, UM_IS_WRITTEN | UM_IS_PENDING, count);
    memcpy(shared->data + (size_t)to * shared->size, buffer->data + (size_t)from * shared->size,
           16);
    return UM_OK;
}

static um_status async_copy(um_interp *it, const um_kinst *inst)
{
    um_imem *shared = &it->mem[(uint32_t)inst->imm - 1], *buffer = &it->mem[(inst->imm >> 32) - 1];
    const uint32_t *to = um_interp_value(it, inst->arg[0]);
    const uint32_t *from = um_interp_value(it, inst->arg[1]);
    for (int32_t i = it->first; i < it->last; i++)
        if (it->mask[i]) UM_TRY(copy_for(it, shared, buffer, to[i], from[i], i));
    return UM_OK;
}

static um_status async_wait(um_interp *it, uint64_t batches_left)
{
    int64_t kept = 0;
    for (int64_t j = 0; j < it->copy_count; j++) {
        um_icopy copy = it->copy[j];
        um_imem *shared = &it->mem[copy.shared];
        if (!it->mask[copy.who] || copy.batch + batches_left >= it->batches[copy.who]) {
            it->copy[kept++] = copy;
            continue;
        }
        memset(shared->is + copy.index, UM_IS_WRITTEN, copy.count);
        UM_TRY(um_interp_touch(it, shared, copy.index, copy.count, copy.who, (int32_t)copy.who,
                               UM_TOUCH_WRITE));
    }
    it->copy_count = kept;
    return UM_OK;
}

um_status um_interp_async(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    if (inst->op == UM_KOP_ASYNC_COPY) return async_copy(it, inst);
    if (inst->op == UM_KOP_ASYNC_WAIT) return async_wait(it, inst->imm);
    for (int32_t i = it->first; i < it->last; i++) it->batches[i] += it->mask[i];
    return UM_OK;
}
