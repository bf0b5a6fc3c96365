/* interp/group.c: reduce, scan, shuffle, ballot, broadcast: across the invocations of a subgroup
 * or work-group. Sums are taken in pairs, as devices do. */
#include "interp/interp.h"

um_status um_interp_subgroups(um_interp *it, um_status (*fn)(um_interp *it, int32_t lo, int32_t hi))
{
    for (int32_t lo = 0; lo < it->n; lo += it->subgroup) {
        int32_t hi = UM_MIN(lo + it->subgroup, it->n), here = 0, missing = lo;
        for (int32_t i = lo; i < hi; i++) {
            here += it->mask[i];
            if (!it->mask[i]) missing = i;
        }
        if (here == 0) continue;
        if (here < hi - lo)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, missing,
                                  "not here, but %d of the %d invocations of subgroup %d are", here,
                                  hi - lo, lo / it->subgroup);
        UM_TRY(fn(it, lo, hi));
    }
    return UM_OK;
}

/* ---- reduce and scan of n elements ---------------------------------------------------------- */

/* Leaves the result in items[0]. */
static void reduce(um_kop op, um_dtype dtype, char *items, int32_t n)
{
    size_t size = um_element_bytes(dtype);
    while (n > 1) {
        int32_t half = (n + 1) / 2;
        um_lanes_eval(op, dtype, items, items, items + (size_t)half * size, NULL, n - half);
        n = half;
    }
}

/* Each of out[0 .. n - 1] from items up to it, or (exclusive) up to the one before. Items are lost.
 */
static void scan(uint32_t operation, bool exclusive, um_dtype dtype, char *out, char *items,
                 int32_t n)
{
    size_t size = um_element_bytes(dtype);
    um_kop op = um_koperation_opcode(operation);
    for (int32_t by = 1; by < n; by *= 2) {
        memcpy(out, items, (size_t)n * size);
        um_lanes_eval(op, dtype, items + (size_t)by * size, out, out + (size_t)by * size, NULL,
                      n - by);
    }
    if (!exclusive) {
        memcpy(out, items, (size_t)n * size);
        return;
    }
    memcpy(out + size, items, (size_t)(n - 1) * size);
    um_koperation_identity(operation, dtype, out);
}

/* The instruction at pc over invocations lo to hi - 1, which are all here. */
static void combine(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    um_dtype dtype = inst->type.dtype;
    size_t size = um_element_bytes(dtype), from = (size_t)lo * size, n = (size_t)(hi - lo);
    bool is_scan = inst->op == UM_KOP_SUBGROUP_SCAN || inst->op == UM_KOP_GROUP_SCAN;
    uint32_t operation = (uint32_t)inst->imm;
    char *items = it->scratch, *out = (char *)um_interp_value(it, it->pc) + from;
    memcpy(items, (char *)um_interp_value(it, inst->arg[0]) + from, n * size);
    if (is_scan) {
        scan(operation, inst->imm >> 32 != 0, dtype, out, items, hi - lo);
        return;
    }
    reduce(um_koperation_opcode(operation), dtype, items, hi - lo);
    for (size_t i = 0; i < n; i++) memcpy(out + i * size, items, size);
}

static um_status combine_subgroup(um_interp *it, int32_t lo, int32_t hi)
{
    combine(it, lo, hi);
    return UM_OK;
}

/* ---- shuffles ------------------------------------------------------------------------------- */

/* Which lane of its subgroup invocation lo + lane takes the value of; -1: any value. */
static int64_t source_lane(const um_interp *it, const um_kinst *inst, int32_t lo, int64_t lane,
                           int64_t count)
{
    int64_t by = (uint32_t)inst->imm;
    switch (inst->op) {
    case UM_KOP_SUBGROUP_SHUFFLE:
        return ((const uint32_t *)um_interp_value(it, inst->arg[1]))[lo + lane];
    case UM_KOP_SUBGROUP_SHUFFLE_XOR: return lane ^ by;
    case UM_KOP_SUBGROUP_SHUFFLE_UP: return lane - by < 0 ? -1 : lane - by;
    default: return lane + by >= count ? -1 : lane + by;
    }
}

/* "Any value" is one that shows: all bits set. */
static um_status shuffle(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    size_t size = um_element_bytes(inst->type.dtype);
    char *out = um_interp_value(it, it->pc);
    const char *items = um_interp_value(it, inst->arg[0]);
    for (int32_t i = lo; i < hi; i++) {
        int64_t from = source_lane(it, inst, lo, i - lo, hi - lo);
        if (from >= hi - lo)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, i,
                                  "takes from lane %lld of a subgroup of %d", (long long)from,
                                  hi - lo);
        if (from >= 0)
            memcpy(out + (size_t)i * size, items + (size_t)(lo + from) * size, size);
        else
            memset(out + (size_t)i * size, inst->type.dtype == UM_BOOL ? 1 : 0xff, size);
    }
    return UM_OK;
}

static um_status ballot(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    const uint8_t *holds = um_interp_value(it, inst->arg[0]);
    uint32_t word[4] = {0};
    for (int32_t i = lo; i < hi; i++) word[(i - lo) / 32] |= (uint32_t)holds[i] << (i - lo) % 32;
    for (int32_t l = 0; l < 4; l++) {
        uint32_t *to = (uint32_t *)(void *)um_interp_lane(it, it->pc, l);
        for (int32_t i = lo; i < hi; i++) to[i] = word[l];
    }
    return UM_OK;
}

/* ---- the work-group ------------------------------------------------------------------------- */

static void broadcast(um_interp *it, const um_kinst *inst)
{
    size_t size = um_element_bytes(inst->type.dtype), from = (size_t)inst->imm * size;
    const char *value = (char *)um_interp_value(it, inst->arg[0]) + from;
    char *out = um_interp_value(it, it->pc);
    for (size_t i = 0; i < (size_t)it->n; i++) memcpy(out + i * size, value, size);
}

/* Barriers and group ops need everybody. */
static um_status across_group(um_interp *it, const um_kinst *inst)
{
    int32_t missing = 0;
    while (missing < it->n && it->mask[missing]) missing++;
    if (missing < it->n)
        return um_interp_fail(it, UM_INVALID_ARGUMENT, missing,
                              "not here, but %d of the %d invocations are", it->active, it->n);
    switch (inst->op) {
    case UM_KOP_BARRIER: it->epoch++; break;
    case UM_KOP_LOAD_UNIFORM:
        it->epoch++;
        UM_TRY(um_interp_load(it));
        it->epoch++;
        break;
    case UM_KOP_GROUP_BROADCAST: broadcast(it, inst); break;
    default: combine(it, 0, it->n);
    }
    return UM_OK;
}

um_status um_interp_across(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    switch (inst->op) {
    case UM_KOP_SUBGROUP_REDUCE:
    case UM_KOP_SUBGROUP_SCAN: return um_interp_subgroups(it, combine_subgroup);
    case UM_KOP_SUBGROUP_SHUFFLE:
    case UM_KOP_SUBGROUP_SHUFFLE_XOR:
    case UM_KOP_SUBGROUP_SHUFFLE_UP:
    case UM_KOP_SUBGROUP_SHUFFLE_DOWN: return um_interp_subgroups(it, shuffle);
    case UM_KOP_SUBGROUP_BALLOT: return um_interp_subgroups(it, ballot);
    default: return across_group(it, inst);
    }
}
