/* interp/plan.c: what a run needs before its first work-group: where values lie, memories with
 * what is known of their elements, fragments, masks. All of it is in the run's arena. */
#include "interp/interp.h"

/* Fragments of all subgroups: the verifier has limits for all else. */
#define FRAG_BYTES_MAX ((uint64_t)1 << 30)

static um_status no_memory(const um_interp *it)
{
    return UM_FAIL(UM_OUT_OF_MEMORY, "um_kernel_interpret: kernel %s: no memory", it->k->name);
}

/* Sets *out to room for count items, zeroed. */
static bool take(um_interp *it, void *out, uint64_t count, size_t size)
{
    if (count > SIZE_MAX / 2 / size) return false;
    void *room = um_arena_alloc(&it->arena, (size_t)count * size);
    if (!room) return false;
    memset(room, 0, (size_t)count * size);
    memcpy(out, &room, sizeof room);
    return true;
}

/* ---- values ------------------------------------------------------------------------------------
 */

/* What is the same in every work-group and round of a loop: written once. */
static bool is_constant(uint16_t op)
{
    return op == UM_KOP_CONST || op == UM_KOP_SCALAR ||
           (op >= UM_KOP_GROUP_COUNT && op <= UM_KOP_SUBGROUP_LANE);
}

static size_t value_bytes(const um_interp *it, const um_kinst *inst)
{
    if (inst->type.dtype == UM_DTYPE_NONE) return 0;
    return inst->type.lanes * um_lane_bytes(it, inst->type.dtype);
}

/* Values of a block lie on a stack, and their room is used again behind it. Constants lie in front
 * of it. Two passes, because their size comes first. */
static um_status place_values(um_interp *it)
{
    const um_kernel *k = it->k;
    size_t constants = 0, size_bytes = 0, open[UM_KDEPTH_MAX], top;
    int32_t depth = 0;
    if (!take(it, &it->value_at, (uint64_t)k->inst_count, sizeof *it->value_at))
        return no_memory(it);
    for (int64_t v = 1; v < k->inst_count; v++) {
        if (!is_constant(k->inst[v].op)) continue;
        it->value_at[v] = constants;
        constants += value_bytes(it, &k->inst[v]);
    }
    top = size_bytes = constants;
    for (int64_t v = 1; v < k->inst_count; v++) {
        uint16_t op = k->inst[v].op;
        if (op == UM_KOP_IF || op == UM_KOP_FOR || op == UM_KOP_LOOP) open[depth++] = top;
        if (op == UM_KOP_ELSE) top = open[depth - 1];
        if (op == UM_KOP_END) top = open[--depth];
        if (is_constant(op)) continue;
        it->value_at[v] = top;
        top += value_bytes(it, &k->inst[v]);
        size_bytes = UM_MAX(size_bytes, top);
    }
    return take(it, &it->values, size_bytes, 1) ? UM_OK : no_memory(it);
}

static uint32_t constant_u32(const um_interp *it, const um_kinst *inst, uint32_t i)
{
    const uint32_t *size = it->k->group_size;
    switch (inst->op) {
    case UM_KOP_SCALAR: return it->run->scalars[inst->imm];
    case UM_KOP_GROUP_COUNT: return it->run->group_count[inst->imm];
    case UM_KOP_LOCAL_INDEX: return i;
    case UM_KOP_LOCAL_ID:
        return inst->imm == 0   ? i % size[0]
               : inst->imm == 1 ? i / size[0] % size[1]
                                : i / size[0] / size[1];
    case UM_KOP_SUBGROUP_SIZE: return (uint32_t)it->subgroup;
    case UM_KOP_SUBGROUP_ID: return i / (uint32_t)it->subgroup;
    case UM_KOP_SUBGROUP_LANE: return i % (uint32_t)it->subgroup;
    default: return 0;
    }
}

static void write_constant(const um_interp *it, um_val v)
{
    const um_kinst *inst = &it->k->inst[v];
    size_t size = um_element_bytes(inst->type.dtype);
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        char *to = um_interp_lane(it, v, l);
        for (int32_t i = 0; i < it->n; i++) {
            uint64_t bits =
                inst->op == UM_KOP_CONST ? inst->imm : constant_u32(it, inst, (uint32_t)i);
            if (inst->type.dtype == UM_BOOL) bits = bits != 0;
            memcpy(to + (size_t)i * size, &bits, size);
        }
    }
}

/* ---- memories ----------------------------------------------------------------------------------
 */

static int32_t find_region(um_interp *it, uintptr_t begin, uintptr_t end)
{
    for (int32_t r = 0; r < it->region_count; r++)
        if (begin < it->region[r].end && it->region[r].begin < end) return r;
    return -1;
}

/* One region around [begin, end) and all that it touches. */
static void add_region(um_interp *it, uintptr_t begin, uintptr_t end)
{
    int32_t r;
    while ((r = find_region(it, begin, end)) >= 0) {
        begin = UM_MIN(begin, it->region[r].begin);
        end = UM_MAX(end, it->region[r].end);
        it->region[r] = it->region[--it->region_count];
    }
    it->region[it->region_count++] = (um_region){begin, end, NULL};
}

static um_status place_buffers(um_interp *it)
{
    const um_kernel_buffer *buffer = it->run->buffers;
    int32_t count = it->run->buffer_count;
    if (!take(it, &it->region, (uint64_t)count, sizeof *it->region)) return no_memory(it);
    for (int32_t b = 0; b < count; b++) {
        uintptr_t begin = (uintptr_t)buffer[b].data;
        if (buffer[b].size_bytes) add_region(it, begin, begin + (size_t)buffer[b].size_bytes);
    }
    for (int32_t r = 0; r < it->region_count; r++) {
        um_region *region = &it->region[r];
        uint64_t words = (region->end - region->begin + 3) / 4;
        if (!take(it, &region->page, words / UM_SHADOW_PAGE + 1, sizeof *region->page))
            return no_memory(it);
    }
    for (int64_t m = 0, b = 0; m < it->k->mem_count; m++) {
        um_imem *mem = &it->mem[m];
        if (mem->space != UM_SPACE_BUFFER) continue;
        uintptr_t begin = (uintptr_t)buffer[b].data;
        mem->data = buffer[b].data;
        mem->count = buffer[b].size_bytes / mem->size;
        if (mem->count) mem->region = &it->region[find_region(it, begin, begin + 1)];
        b++;
    }
    return UM_OK;
}

/* Elements of a memory that is not a buffer, with those of each invocation. */
static uint64_t local_count(const um_interp *it, const um_kmem *mem)
{
    uint64_t count = mem->space == UM_SPACE_VAR ? mem->type.lanes : mem->count;
    return mem->space == UM_SPACE_SHARED ? count : count * (uint64_t)it->n;
}

static um_status place_memories(um_interp *it)
{
    const um_kernel *k = it->k;
    if (!take(it, &it->mem, (uint64_t)k->mem_count, sizeof *it->mem)) return no_memory(it);
    for (int64_t m = 0; m < k->mem_count; m++) {
        const um_kmem *from = &k->mem[m];
        um_imem *mem = &it->mem[m];
        *mem = (um_imem){.name = from->name,
                         .space = from->space,
                         .size = um_element_bytes(from->type.dtype),
                         .count = from->count};
        if (mem->space == UM_SPACE_BUFFER) continue;
        uint64_t count = local_count(it, from);
        bool ok = take(it, &mem->data, count, mem->size) && take(it, &mem->is, count, 1);
        if (ok && mem->space == UM_SPACE_SHARED)
            ok = take(it, &mem->stamp, count, sizeof(um_stamp));
        if (!ok) return no_memory(it);
    }
    return place_buffers(it);
}

static um_status place_fragments(um_interp *it)
{
    const um_kernel *k = it->k;
    uint64_t subgroups = (uint64_t)um_ceil_div(it->n, it->subgroup);
    uint64_t largest = (uint64_t)it->n, bytes = 0;
    if (!take(it, &it->frag, (uint64_t)k->frag_count, sizeof *it->frag)) return no_memory(it);
    for (int64_t f = 0; f < k->frag_count; f++) {
        const um_kfrag *from = &k->frag[f];
        um_ifrag *frag = &it->frag[f];
        frag->rows = from->role == UM_K_FRAG_B ? from->k : from->m;
        frag->columns = from->role == UM_K_FRAG_A ? from->k : from->n;
        frag->size = um_element_bytes(from->dtype);
        uint64_t count = (uint64_t)frag->rows * frag->columns;
        largest = UM_MAX(largest, 3 * count);
        bytes += count * subgroups * frag->size;
        if (bytes > FRAG_BYTES_MAX)
            return UM_FAIL(UM_OUT_OF_MEMORY,
                           "um_kernel_interpret: kernel %s: its fragments need more than 1 GiB",
                           k->name);
        if (!take(it, &frag->data, count * subgroups, frag->size) ||
            !take(it, &frag->is, count * subgroups, 1))
            return no_memory(it);
    }
    return take(it, &it->scratch, largest, 8) ? UM_OK : no_memory(it);
}

void um_interp_clear(um_interp *it)
{
    for (int64_t m = 0; m < it->k->mem_count; m++)
        if (it->mem[m].is) memset(it->mem[m].is, 0, (size_t)local_count(it, &it->k->mem[m]));
    uint64_t subgroups = (uint64_t)um_ceil_div(it->n, it->subgroup);
    for (int64_t f = 0; f < it->k->frag_count; f++)
        memset(it->frag[f].is, 0, it->frag[f].rows * it->frag[f].columns * (size_t)subgroups);
    memset(it->batches, 0, (size_t)it->n * sizeof *it->batches);
    it->copy_count = 0;
}

/* ---- masks, and all of it ----------------------------------------------------------------------
 */

um_status um_interp_plan(um_interp *it)
{
    const um_kernel *k = it->k;
    size_t n = (size_t)it->n;
    uint8_t *masks;
    if (!take(it, &it->partner, (uint64_t)k->inst_count, sizeof *it->partner) ||
        !take(it, &masks, n, 2 * UM_KDEPTH_MAX) || !take(it, &it->mask, n, 1) ||
        !take(it, &it->chosen, n, 1) || !take(it, &it->batches, n, sizeof *it->batches))
        return no_memory(it);
    for (size_t d = 0; d < UM_KDEPTH_MAX; d++) {
        it->frame[d].saved = masks + 2 * d * n;
        it->frame[d].other = masks + (2 * d + 1) * n;
    }
    UM_TRY(um_kernel_match(k, it->partner));
    UM_TRY(place_values(it));
    UM_TRY(place_memories(it));
    UM_TRY(place_fragments(it));
    for (int64_t v = 1; v < k->inst_count; v++)
        if (is_constant(k->inst[v].op)) write_constant(it, (um_val)v);
    return UM_OK;
}
