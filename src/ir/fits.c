/* ir/fits.c: whether a device can run a kernel as it is, by its um_caps. */
#include "ir/ir.h"

#include <stdio.h>
#include <umbel/device.h>

UM_PRINTF(2, 3) static um_status refuse(const um_kernel *k, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return UM_FAIL(UM_UNSUPPORTED, "kernel %s: %s", k->name, what);
}

static um_status fits_group(const um_kernel *k, const um_caps *caps)
{
    const uint32_t *size = k->group_size, *cluster = k->cluster_size;
    int64_t all = (int64_t)size[0] * size[1] * size[2];
    for (int32_t i = 0; i < 3; i++)
        if (size[i] > (uint32_t)caps->group_size_max[i])
            return refuse(k, "work-groups of %u along dimension %d; the device has %d at most",
                          size[i], i, caps->group_size_max[i]);
    if (all > caps->group_invocations_max)
        return refuse(k, "work-groups of %lld invocations; the device has %d at most",
                      (long long)all, caps->group_invocations_max);
    if (k->subgroup_size && ((int64_t)k->subgroup_size < caps->subgroup_min ||
                             (int64_t)k->subgroup_size > caps->subgroup_max))
        return refuse(k, "subgroups of %u; the device has %d to %d", k->subgroup_size,
                      caps->subgroup_min, caps->subgroup_max);
    if (cluster[0] * cluster[1] * cluster[2] > 1 && !(caps->features & UM_FEATURE_CLUSTER_LAUNCH))
        return refuse(k, "work-groups in clusters; the device has none");
    return UM_OK;
}

static um_status fits_memory(const um_kernel *k, const um_caps *caps)
{
    int32_t buffers = 0;
    uint64_t shared = um_kernel_bytes(k, UM_SPACE_SHARED);
    for (int64_t i = 0; i < k->mem_count; i++) {
        const um_kmem *m = &k->mem[i];
        buffers += m->space == UM_SPACE_BUFFER;
        if (m->space != UM_SPACE_VAR && !(caps->storage >> m->type.dtype & 1))
            return refuse(k, "%s holds %s, which the device does not store", m->name,
                          um_dtype_name(m->type.dtype));
    }
    if (buffers > caps->bindings_max)
        return refuse(k, "%d buffers; the device takes %d at most", buffers, caps->bindings_max);
    if (shared > caps->group_shared_bytes)
        return refuse(k, "%llu shared bytes; the device has %llu", (unsigned long long)shared,
                      (unsigned long long)caps->group_shared_bytes);
    return UM_OK;
}

bool um_ktiles_hold(const um_matrix_tile *tiles, int32_t count, const um_kfrag *f)
{
    for (const um_matrix_tile *t = tiles; t < tiles + count; t++) {
        um_dtype want = f->role == UM_K_FRAG_C ? t->accumulator : t->input;
        if (t->m == (int64_t)f->m && t->n == (int64_t)f->n && t->k == (int64_t)f->k &&
            (!want || want == f->dtype))
            return true;
    }
    return false;
}

static um_status fits_fragments(const um_kernel *k, const um_caps *caps)
{
    for (int64_t i = 0; i < k->frag_count; i++)
        if (!um_ktiles_hold(caps->matrix_tiles, caps->matrix_tile_count, &k->frag[i]))
            return refuse(k, "fragment %s, %ux%ux%u of %s, is none of the device's matrix tiles",
                          k->frag[i].name, k->frag[i].m, k->frag[i].n, k->frag[i].k,
                          um_dtype_name(k->frag[i].dtype));
    return UM_OK;
}

um_status um_kernel_fits(const um_kernel *k, const um_caps *caps)
{
    UM_TRY(fits_group(k, caps));
    UM_TRY(fits_memory(k, caps));
    UM_TRY(fits_fragments(k, caps));
    for (int64_t i = 1; i < k->inst_count; i++) {
        const um_kinst *inst = &k->inst[i];
        const um_kop_row *row = &um_kop_rows[inst->op];
        bool subgroup = (inst->op >= UM_KOP_SUBGROUP_SIZE && inst->op <= UM_KOP_SUBGROUP_LANE) ||
                        (inst->op >= UM_KOP_SUBGROUP_REDUCE && inst->op <= UM_KOP_SUBGROUP_BALLOT);
        if (subgroup && caps->subgroup_max == 0)
            return refuse(k, "instruction %lld, %s: the device has no subgroups", (long long)i,
                          row->name);
        if (inst->op == UM_KOP_ASYNC_COPY && !(caps->features & UM_FEATURE_ASYNC_COPY))
            return refuse(k, "instruction %lld, %s: the device has no such copies", (long long)i,
                          row->name);
        if (!(row->types & UM_KTYPES_N) || row->types == UM_KTYPES_ANY) continue;
        um_dtype dtype = um_val_type(k, inst->arg[0]).dtype;
        bool always = dtype == UM_F32 || dtype == UM_I32 || dtype == UM_U32 || dtype == UM_BOOL;
        if (!always && !(caps->arithmetic >> dtype & 1))
            return refuse(k, "instruction %lld, %s: the device does not compute in %s",
                          (long long)i, row->name, um_dtype_name(dtype));
    }
    return UM_OK;
}
