/* interp/interp.c: um_kernel_interpret: the checks of a run, its work-groups, and control flow: the
 * invocations of a work-group go together, and a mask says for which of them an instruction is. A
 * block that nobody enters is jumped over. */
#include "interp/interp.h"

#include <stdio.h>

um_status um_interp_fail(um_interp *it, um_status code, int32_t invocation, const char *format, ...)
{
    char who[64] = "", text[256];
    const uint32_t *size = it->k->group_size;
    uint32_t i = (uint32_t)invocation;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (invocation >= 0)
        snprintf(who, sizeof who, ", invocation (%u,%u,%u)", i % size[0], i / size[0] % size[1],
                 i / size[0] / size[1]);
    return um_fail(code, "kernel %s: instruction %u (%s), work-group (%u,%u,%u)%s: %s", it->k->name,
                   it->pc, um_kop_rows[it->k->inst[it->pc].op].name, it->group[0], it->group[1],
                   it->group[2], who, text);
}

/* ---- masks and blocks ----------------------------------------------------------------------- */

/* After a change of the mask. */
static void count_active(um_interp *it)
{
    int32_t first = 0, last = it->n, active = 0;
    while (first < last && !it->mask[first]) first++;
    while (last > first && !it->mask[last - 1]) last--;
    for (int32_t i = first; i < last; i++) active += it->mask[i];
    it->first = first;
    it->last = last;
    it->active = active;
}

static um_iframe *top(um_interp *it) { return &it->frame[it->depth - 1]; }

static um_iframe *open_block(um_interp *it, bool is_loop)
{
    um_iframe *frame = &it->frame[it->depth++];
    frame->opener = it->pc;
    frame->loop = is_loop ? it->depth - 1 : it->depth > 1 ? frame[-1].loop : -1;
    memcpy(frame->saved, it->mask, (size_t)it->n);
    return frame;
}

/* Where nobody is left: on to the ELSE or END of the innermost block. */
static void skip_if_empty(um_interp *it)
{
    count_active(it);
    if (it->active == 0 && it->depth > 0) it->pc = it->partner[top(it)->opener] - 1;
}

static void do_if(um_interp *it)
{
    const uint8_t *holds = um_interp_value(it, it->k->inst[it->pc].arg[0]);
    um_iframe *frame = open_block(it, false);
    for (int32_t i = 0; i < it->n; i++) {
        frame->other[i] = it->mask[i] & !holds[i];
        it->mask[i] &= holds[i];
    }
    skip_if_empty(it);
}

static void do_else(um_interp *it)
{
    top(it)->opener = it->pc;
    memcpy(it->mask, top(it)->other, (size_t)it->n);
    skip_if_empty(it);
}

/* Leaves the innermost block, with the mask from before it but who has left the loop around it. */
static void close_block(um_interp *it)
{
    const um_iframe *frame = top(it);
    bool is_if = frame->loop != it->depth - 1;
    const uint8_t *live = is_if && frame->loop >= 0 ? it->frame[frame->loop].other : NULL;
    for (int32_t i = 0; i < it->n; i++) it->mask[i] = frame->saved[i] & (live ? live[i] : 1);
    it->depth--;
    skip_if_empty(it);
}

static void do_break(um_interp *it)
{
    uint8_t *live = it->frame[top(it)->loop].other;
    for (int32_t i = 0; i < it->n; i++) live[i] &= !it->mask[i];
    memset(it->mask, 0, (size_t)it->n);
    skip_if_empty(it);
}

static void do_loop(um_interp *it)
{
    um_iframe *frame = open_block(it, true);
    memcpy(frame->other, it->mask, (size_t)it->n);
}

/* ---- for ------------------------------------------------------------------------------------ */

/* A counter, which is i32 or u32. */
static inline int64_t counter_at(const um_interp *it, um_val v, int32_t i)
{
    uint32_t bits = ((const uint32_t *)um_interp_value(it, v))[i];
    return um_val_type(it->k, v).dtype == UM_I32 ? (int32_t)bits : (int64_t)bits;
}

static um_status do_for(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    uint32_t *counter = um_interp_value(it, it->pc);
    for (int32_t i = it->first; i < it->last; i++)
        if (it->mask[i] && counter_at(it, inst->arg[2], i) < 1)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, i, "a step of %lld, wanted at least 1",
                                  (long long)counter_at(it, inst->arg[2], i));
    um_iframe *frame = open_block(it, true);
    memcpy(counter, um_interp_value(it, inst->arg[0]), (size_t)it->n * sizeof *counter);
    for (int32_t i = 0; i < it->n; i++)
        it->mask[i] &= counter_at(it, inst->arg[0], i) < counter_at(it, inst->arg[1], i);
    memcpy(frame->other, it->mask, (size_t)it->n);
    count_active(it);
    if (it->active > 0) return UM_OK;
    it->pc = it->partner[it->pc];
    close_block(it);
    return UM_OK;
}

/* Of who has not left the loop; leaves in the mask who has another round. */
static um_status next_round(um_interp *it, um_val opener)
{
    const um_kinst *inst = &it->k->inst[opener];
    uint32_t *counter = um_interp_value(it, opener);
    int64_t highest = inst->type.dtype == UM_I32 ? INT32_MAX : UINT32_MAX;
    for (int32_t i = 0; i < it->n; i++) {
        if (!it->mask[i]) continue;
        int64_t next = counter_at(it, opener, i) + counter_at(it, inst->arg[2], i);
        if (next > highest)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, i, "the counter %lld wraps",
                                  (long long)counter_at(it, opener, i));
        counter[i] = (uint32_t)next;
        it->mask[i] = next < counter_at(it, inst->arg[1], i);
    }
    return UM_OK;
}

static um_status do_end(um_interp *it)
{
    um_iframe *frame = top(it);
    if (frame->loop != it->depth - 1) {
        close_block(it);
        return UM_OK;
    }
    memcpy(it->mask, frame->other, (size_t)it->n);
    if (it->k->inst[frame->opener].op == UM_KOP_FOR) {
        UM_TRY(next_round(it, frame->opener));
        memcpy(frame->other, it->mask, (size_t)it->n);
    }
    count_active(it);
    if (it->active > 0)
        it->pc = frame->opener;
    else
        close_block(it);
    return UM_OK;
}

/* ---- a work-group --------------------------------------------------------------------------- */

static um_status run_instruction(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    uint16_t op = inst->op;
    switch (op) {
    case UM_KOP_IF: do_if(it); return UM_OK;
    case UM_KOP_ELSE: do_else(it); return UM_OK;
    case UM_KOP_FOR: return do_for(it);
    case UM_KOP_LOOP: do_loop(it); return UM_OK;
    case UM_KOP_BREAK: do_break(it); return UM_OK;
    case UM_KOP_END: return do_end(it);
    case UM_KOP_GROUP_ID: {
        uint32_t *out = um_interp_value(it, it->pc);
        for (int32_t i = 0; i < it->n; i++) out[i] = it->group[inst->imm];
        return UM_OK;
    }
    case UM_KOP_LOAD:
    case UM_KOP_LOAD_IF: return um_interp_load(it);
    case UM_KOP_STORE:
    case UM_KOP_STORE_IF: return um_interp_store(it);
    case UM_KOP_GET: return um_interp_get(it);
    case UM_KOP_SET: return um_interp_set(it);
    case UM_KOP_ATOMIC:
    case UM_KOP_ATOMIC_CAS: return um_interp_atomic(it);
    default: break;
    }
    if (op <= UM_KOP_SUBGROUP_LANE) return UM_OK; /* written by the plan */
    if (op < UM_KOP_LOAD) return um_interp_lanes(it);
    if (op <= UM_KOP_GROUP_SCAN) return um_interp_across(it);
    return op <= UM_KOP_FRAG_COLUMN ? um_interp_frag(it) : um_interp_async(it);
}

/* An END that closes a block nobody came to also counts as a step. */
static um_status run_group(um_interp *it)
{
    um_interp_clear(it);
    memset(it->mask, 1, (size_t)it->n);
    it->depth = 0;
    count_active(it);
    it->steps = 0;
    it->epoch++;
    for (it->pc = 1; it->pc < it->k->inst_count; it->pc++) {
        if (++it->steps > it->step_limit)
            return um_interp_fail(it, UM_TIMEOUT, -1, "the limit of %llu steps",
                                  (unsigned long long)it->step_limit);
        UM_TRY(run_instruction(it));
    }
    return UM_OK;
}

static um_status run_groups(um_interp *it)
{
    const uint32_t *count = it->run->group_count;
    for (uint32_t z = 0; z < count[2]; z++)
        for (uint32_t y = 0; y < count[1]; y++)
            for (uint32_t x = 0; x < count[0]; x++) {
                memcpy(it->group, (uint32_t[3]){x, y, z}, sizeof it->group);
                it->group_number++;
                UM_TRY(run_group(it));
            }
    return UM_OK;
}

/* ---- the run -------------------------------------------------------------------------------- */

static um_status refuse(const um_kernel *k, const char *what, long long got, long long wanted)
{
    return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_interpret: kernel %s: %s %lld, wanted %lld",
                   k->name, what, got, wanted);
}

static um_status check_buffers(const um_kernel *k, const um_kernel_run *run)
{
    int32_t b = 0;
    for (int64_t m = 0; m < k->mem_count; m++) b += k->mem[m].space == UM_SPACE_BUFFER;
    if (run->buffer_count != b) return refuse(k, "buffers", run->buffer_count, b);
    if (b > 0 && !run->buffers)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_interpret: kernel %s: buffers is NULL",
                       k->name);
    b = 0;
    for (int64_t m = 0; m < k->mem_count; m++) {
        if (k->mem[m].space != UM_SPACE_BUFFER) continue;
        const um_kernel_buffer *buffer = &run->buffers[b++];
        uintptr_t at = (uintptr_t)buffer->data;
        if (buffer->size_bytes > 0 && !buffer->data)
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "um_kernel_interpret: kernel %s: the data of %s is NULL, its size %llu",
                           k->name, k->mem[m].name, (unsigned long long)buffer->size_bytes);
        if (buffer->size_bytes > PTRDIFF_MAX || at > UINTPTR_MAX - (size_t)buffer->size_bytes)
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "um_kernel_interpret: kernel %s: %s has %llu bytes, more than there are",
                           k->name, k->mem[m].name, (unsigned long long)buffer->size_bytes);
        if (at % 16 != 0)
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "um_kernel_interpret: kernel %s: the data of %s is at %p, wanted a "
                           "multiple of 16",
                           k->name, k->mem[m].name, buffer->data);
    }
    return UM_OK;
}

static um_status check_run(const um_kernel *k, const um_kernel_run *run)
{
    if (!k || !run)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_interpret: %s is NULL",
                       k ? "run" : "kernel");
    if (!k->finished)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_interpret: kernel %s is not finished",
                       k->name);
    uint32_t size = run->subgroup_size;
    if (size > 128 || (size & (size - 1)) != 0)
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_kernel_interpret: kernel %s: subgroup_size %u is no power of two up to "
                       "128",
                       k->name, size);
    if (size && k->subgroup_size && size != k->subgroup_size)
        return refuse(k, "subgroup_size", size, k->subgroup_size);
    if (run->scalar_count != k->scalar_count)
        return refuse(k, "scalars", run->scalar_count, k->scalar_count);
    if (k->scalar_count > 0 && !run->scalars)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_interpret: kernel %s: scalars is NULL",
                       k->name);
    return check_buffers(k, run);
}

um_status um_kernel_interpret(const um_kernel *kernel, const um_kernel_run *run)
{
    UM_TRY(check_run(kernel, run));
    const uint32_t *size = kernel->group_size, *count = run->group_count;
    if (count[0] == 0 || count[1] == 0 || count[2] == 0) return UM_OK;
    uint32_t subgroup = run->subgroup_size ? run->subgroup_size : kernel->subgroup_size;
    um_interp it = {.k = kernel,
                    .run = run,
                    .n = (int32_t)(size[0] * size[1] * size[2]),
                    .subgroup = subgroup ? (int32_t)subgroup : 32,
                    .step_limit = run->step_limit ? run->step_limit : (uint64_t)1 << 32};
    um_status status = um_interp_plan(&it);
    if (status == UM_OK) status = run_groups(&it);
    um_arena_release(&it.arena);
    um_mem_free(it.copy);
    return status;
}
