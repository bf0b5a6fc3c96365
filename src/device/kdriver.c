/* What drivers of the kernel library have alike; see kdriver.h. */
#include "device/kdriver.h"

#include <stdio.h>

um_status um_kdriver_open(um_kdriver *k, const um_kdriver_desc *desc)
{
    k->info = (um_device_info){.struct_size = sizeof k->info};
    UM_TRY(desc->backend->describe(desc->ordinal, &k->info));
    k->unit = desc->unit;
    k->timed = (um_tune_device){desc->backend, desc->device, desc->enqueue};
    if (desc->disk)
        UM_TRY(um_disk_create(&(um_disk_desc){.what = desc->disk,
                                              .kind = k->info.kind,
                                              .name = k->info.name,
                                              .driver = desc->driver},
                              &k->disk));
    UM_TRY(um_tune_create(&(um_tune_desc){.kind = k->info.kind,
                                          .name = k->info.name,
                                          .driver = desc->driver,
                                          .on = desc->tune,
                                          .ctx = &k->timed,
                                          .time = um_tune_time},
                          &k->tune));
    return um_kcache_create(&(um_kcache_desc){.unit = desc->unit,
                                              .ctx = desc->device,
                                              .tune = k->tune,
                                              .compile = desc->compile,
                                              .destroy = desc->destroy},
                            &k->kernels);
}

void um_kdriver_close(um_kdriver *k)
{
    um_kcache_release(k->kernels);
    um_tune_release(k->tune);
    um_disk_release(k->disk);
}

void um_kdriver_caps(const um_kdriver *k, um_caps *out)
{
    const um_device_info *info = &k->info;
    out->kind = info->kind;
    memcpy(out->name, info->name, sizeof out->name);
    memcpy(out->version, info->version, sizeof out->version);
    out->features = info->features;
    out->memory_kind = info->memory_kind;
    out->memory_total_bytes = info->memory_total_bytes;
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++) out->storage |= UM_BIT(dtype);
    if (!(k->types & UM_BIT(UM_F64))) out->storage &= ~(uint32_t)UM_BIT(UM_F64);
    out->arithmetic = UM_DTYPES_FIB & out->storage;
    out->binding_max_bytes = k->limits.binding_max_bytes;
    out->bindings_max = UM_K_MAX_BUFFERS;
    if (k->limits.buffer_count_max) out->bindings_max = k->limits.buffer_count_max;
    out->matrix_tile_count = k->unit ? k->unit->tile_count : 0;
    for (int32_t i = 0; i < out->matrix_tile_count; i++) out->matrix_tiles[i] = k->unit->tiles[i];
    for (int32_t d = 0; d < 3; d++)
        out->group_count_max[d] =
            (int32_t)UM_MIN(k->limits.group_count_max[UM_MIN(d, 1)], (uint32_t)INT32_MAX);
}

static bool is_wide(const um_op *op)
{
    bool wide = false;
    for (int32_t i = 0; i < op->in_count; i++) wide = wide || op->in[i].dtype == UM_F64;
    for (int32_t i = 0; i < op->out_count; i++) wide = wide || op->out[i].dtype == UM_F64;
    return wide;
}

bool um_kdriver_supports(const um_kdriver *k, const um_op *op, char *why, size_t why_size)
{
    if ((k->types & UM_BIT(UM_F64)) || !is_wide(op))
        return um_planner_supports(k->kernels, &k->limits, op, why, why_size);
    if (why_size > 0) snprintf(why, why_size, "%s: the device has no f64", um_op_name(op->id));
    return false;
}

typedef struct run {
    um_kdriver_fn fn;
    um_backend_stream *stream;
} run;

static um_status compile_and_run(void *ctx, const um_op *op, um_kplan *plan)
{
    const run *r = ctx;
    void *object[UM_KPLAN_LAUNCHES];
    for (int32_t i = 0; i < plan->launch_count; i++)
        UM_TRY(um_kcache_compiled(&plan->launch[i], &object[i]));
    return r->fn(r->stream, op, plan, object);
}

um_status um_kdriver_run(const um_kdriver *k, const um_op *op, int32_t form, um_kdriver_fn fn,
                         um_backend_stream *stream)
{
    run r = {fn, stream};
    um_status status = um_planner_run(k->kernels, &k->limits, op, form, compile_and_run, &r);
    return status == UM_OK ? UM_OK : um_fail_tag(k->info.backend, um_op_name(op->id));
}

/* By the largest whole part of the pattern that lies as its type has to, each for itself. */
um_status um_kdriver_fill(um_backend_stream *stream,
                          um_status (*enqueue)(um_backend_stream *stream, const um_op *op),
                          um_ptr dst, uint64_t size_bytes, uint64_t pattern, uint32_t pattern_bytes)
{
    static const um_dtype of_bytes[] = {[1] = UM_U8, [2] = UM_U16, [4] = UM_U32, [8] = UM_U64};
    uint32_t part = pattern_bytes;
    while (dst % part != 0) part /= 2;
    um_op op = {.id = UM_OP_FILL, .out_count = 1};
    op.out[0] = (um_view){.dtype = of_bytes[part], .rank = 1};
    op.out[0].shape[0] = (int64_t)(size_bytes / pattern_bytes);
    op.out[0].stride[0] = pattern_bytes / part;
    for (uint32_t at = 0; at < pattern_bytes; at += part) {
        op.out[0].ptr = dst + at;
        op.attrs.fill.i = (int64_t)(pattern >> 8 * at & (UINT64_MAX >> (64 - 8 * part)));
        UM_TRY(enqueue(stream, &op));
    }
    return UM_OK;
}

um_error um_kdriver_fault(const um_kdriver *k, const um_op *op, const um_kplan *plan)
{
    um_error error = {.code = UM_OUT_OF_RANGE};
    snprintf(error.backend, sizeof error.backend, "%s", k->info.backend);
    snprintf(error.op, sizeof error.op, "%s", um_op_name(op->id));
    snprintf(error.message, sizeof error.message, "%s", plan->fault);
    return error;
}

void um_kbuffers_of(const um_kernel *kernel, um_kbuffers *out)
{
    out->count = 0;
    for (int32_t m = 0; m < kernel->mem_count; m++) {
        if (kernel->mem[m].space != UM_SPACE_BUFFER) continue;
        out->element_bytes[out->count] = (uint8_t)(um_ktype_bits(kernel->mem[m].type) / 8);
        out->is_written[out->count++] = kernel->mem[m].access != UM_K_READ;
    }
}
