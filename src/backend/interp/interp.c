/* The interp backend: the kernel library (src/kernel) on the IR's interpreter (src/ir), in host
 * memory. It is slow and looks for everything that a kernel must not do, so it is the device that
 * kernels are checked on (umbel check --device interp); only who names it gets it.
 *
 * A stream does its work before a call returns. An op that fails there is its stream's error, as it
 * is on a device that does it later. */
#include "base/os.h"
#include "device/kdriver.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <umbel/backend.h>

#define INTERP_NAME "interpreter of kernels"

struct um_backend_device {
    uint32_t subgroup_size;
    um_target target; /* that kernels are expanded for; UM_TARGET_COUNT: none */
    um_kdriver k;
    um_matrix_tile tile[5];
    um_kunit unit; /* without tiles, or those */
};

struct um_backend_stream {
    const um_backend_device *device;
    uint64_t ticket; /* the last one given */
    um_error error;  /* code OK: none */
};

static um_status no_memory(const char *op, const char *what)
{
    return um_backend_fail(UM_OUT_OF_MEMORY, "interp", op, 0, "interp: no memory for %s", what);
}

/* ---- devices -------------------------------------------------------------------------------- */

static um_status interp_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 1;
    if (why_size > 0) why[0] = 0;
    return UM_OK;
}

static um_status interp_describe(int32_t ordinal, um_device_info *out)
{
    uint64_t free_bytes;
    out->kind = UM_DEVICE_INTERP;
    out->ordinal = ordinal;
    out->memory_kind = UM_MEMORY_HOST;
    snprintf(out->backend, sizeof out->backend, "interp");
    snprintf(out->name, sizeof out->name, INTERP_NAME);
    um_os_memory(&out->memory_total_bytes, &free_bytes);
    return UM_OK;
}

/* UMBEL_INTERP_SUBGROUP, or 0 where that is none of 1, 2, 4, ... 128. */
static uint32_t wanted_subgroup(const char *text)
{
    char *end;
    unsigned long size = strtoul(text, &end, 10);
    return *end || size < 1 || size > 128 || (size & (size - 1)) ? 0 : (uint32_t)size;
}

/* The target with that name, or UM_TARGET_COUNT. */
static um_target wanted_target(const char *text)
{
    um_target target = 0;
    while (target < UM_TARGET_COUNT && strcmp(text, um_target_name(target)) != 0) target++;
    return target;
}

/* "groups:7,binding:4096,buffers:8", or some of them; false: it is something else. */
static bool wanted_limits(const char *text, um_klimits *out)
{
    enum { GROUPS, BINDING, BUFFERS, NAMES };
    static const char *const names[] = {"groups:", "binding:", "buffers:"};
    for (bool more = true; more; text++) {
        int32_t which = 0;
        while (which < NAMES && strncmp(text, names[which], strlen(names[which])) != 0) which++;
        if (which == NAMES) return false;
        char *end;
        unsigned long number = strtoul(text + strlen(names[which]), &end, 10);
        if (number < 1 || number > INT32_MAX || (*end && *end != ',')) return false;
        if (which == GROUPS)
            out->group_count_max[0] = out->group_count_max[1] = (uint32_t)number;
        else if (which == BINDING)
            out->binding_max_bytes = number;
        else
            out->buffer_count_max = (int32_t)number;
        more = *end == ',';
        text = end;
    }
    return true;
}

/* The kernel as it is expanded for the device's target. */
static um_status compile(void *ctx, const um_kernel *kernel, void **object)
{
    const um_backend_device *device = ctx;
    um_klacks lacks = um_text_lacks(device->target, 0, device->subgroup_size);
    um_kernel *lowered;
    *object = NULL;
    UM_TRY(um_kernel_lower(kernel, &lacks, &lowered));
    *object = lowered;
    return UM_OK;
}

static void destroy(void *ctx, void *object)
{
    (void)ctx;
    um_kernel_release(object);
}

extern const um_backend um_backend_interp;
static um_status enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form);

static um_status open_kernels(um_backend_device *device)
{
    device->k.types = UINT32_MAX;
    return um_kdriver_open(&device->k, &(um_kdriver_desc){.backend = &um_backend_interp,
                                                          .device = device,
                                                          .driver = "",
                                                          .unit = &device->unit,
                                                          .compile = compile,
                                                          .destroy = destroy,
                                                          .enqueue = enqueue_form});
}

static void interp_close(um_backend_device *device)
{
    um_kdriver_close(&device->k);
    um_mem_free(device);
}

/* UMBEL_INTERP_TILES, "16x8x16", for each type; false: another form, or none of the library's. A
 * target without subgroups has no tiles. */
static bool want_tiles(um_backend_device *device, const char *text)
{
    static const um_dtype types[][2] = {
        {UM_F16, UM_F32}, {UM_BF16, UM_F32}, {UM_F32, UM_F32}, {UM_F64, UM_F64}, {UM_I8, UM_I32}};
    int m, n, k, end = 0;
    um_target target = device->target;
    bool alone = target != UM_TARGET_COUNT && um_text_lacks(target, 0, 1).subgroups;
    if (sscanf(text, "%2dx%2dx%2d%n", &m, &n, &k, &end) != 3 || text[end]) return false;
    if ((m != 8 && m != 16 && m != 32) || (n != 8 && n != 16)) return false;
    if (k != 4 && k != 8 && k != 16 && k != 32) return false;
    for (size_t i = 0; i < UM_COUNT_OF(types); i++)
        device->tile[i] = (um_matrix_tile){m, n, k, types[i][0], types[i][1]};
    device->unit = (um_kunit){.tiles = device->tile,
                              .tile_count = alone ? 0 : UM_COUNT_OF(types),
                              .subgroup = device->subgroup_size,
                              .async_copy = true};
    return true;
}

static um_status interp_open(int32_t ordinal, um_backend_device **out)
{
    (void)ordinal;
    *out = NULL;
    const char *text = um_env_get(UM_ENV_INTERP_SUBGROUP);
    uint32_t size = text ? wanted_subgroup(text) : 32;
    if (size == 0)
        return um_backend_fail(UM_INVALID_ARGUMENT, "interp", NULL, 0,
                               "interp: %s is %s, wanted 1, 2, 4, ... 128",
                               um_env_name(UM_ENV_INTERP_SUBGROUP), text);
    const char *as = um_env_get(UM_ENV_INTERP_AS);
    um_target target = as ? wanted_target(as) : UM_TARGET_COUNT;
    if (as && target == UM_TARGET_COUNT)
        return um_backend_fail(UM_INVALID_ARGUMENT, "interp", NULL, 0,
                               "interp: %s is %s, wanted opencl, cuda, hip, metal or wgsl",
                               um_env_name(UM_ENV_INTERP_AS), as);
    um_klimits limits = {UINT64_MAX, {INT32_MAX, INT32_MAX}, UM_K_MAX_BUFFERS};
    const char *wanted = um_env_get(UM_ENV_INTERP_LIMITS);
    if (wanted && !wanted_limits(wanted, &limits))
        return um_backend_fail(UM_INVALID_ARGUMENT, "interp", NULL, 0,
                               "interp: %s is %s, wanted groups:N, binding:N, buffers:N",
                               um_env_name(UM_ENV_INTERP_LIMITS), wanted);
    um_backend_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return no_memory(NULL, "a device");
    device->subgroup_size = size;
    device->target = target;
    device->k.limits = limits;
    const char *tiles = um_env_get(UM_ENV_INTERP_TILES);
    if (tiles && !want_tiles(device, tiles)) {
        um_mem_free(device);
        return um_backend_fail(UM_INVALID_ARGUMENT, "interp", NULL, 0,
                               "interp: %s is %s, wanted MxNxK: M 8, 16 or 32, N 8 or 16, K 4, 8, "
                               "16 or 32",
                               um_env_name(UM_ENV_INTERP_TILES), tiles);
    }
    device->unit.fma_twice = as != NULL; /* not of all targets, but tried on each */
    um_status status = open_kernels(device);
    if (status != UM_OK) {
        interp_close(device);
        return status;
    }
    *out = device;
    return UM_OK;
}

static um_status interp_caps(um_backend_device *device, um_caps *out)
{
    um_kdriver_caps(&device->k, out);
    out->compute_units = 1;
    out->subgroup_min = out->subgroup_max = (int32_t)device->subgroup_size;
    um_os_memory(&out->memory_total_bytes, &out->memory_free_bytes);
    out->buffer_max_bytes = out->memory_total_bytes;
    out->binding_max_bytes = UM_MIN(out->binding_max_bytes, out->memory_total_bytes);
    for (int32_t d = 0; d < 3; d++) out->group_size_max[d] = 1024;
    out->group_invocations_max = 1024;
    if (device->unit.tile_count) out->features |= UM_FEATURE_TENSOR_CORES | UM_FEATURE_ASYNC_COPY;
    out->group_shared_bytes = 65536;
    return UM_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Of whole 16 bytes, because atomics take whole words. */
static um_status interp_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    (void)device;
    void *memory = NULL;
    *out = 0;
    if (size_bytes < PTRDIFF_MAX - 16)
        memory = um_mem_alloc_aligned(((size_t)size_bytes + 15) / 16 * 16, 64);
    if (!memory) return no_memory(NULL, "a buffer");
    *out = (um_ptr)(uintptr_t)memory;
    return UM_OK;
}

static void *host(um_ptr ptr) { return (void *)(uintptr_t)ptr; }

static void interp_free(um_backend_device *device, um_ptr ptr)
{
    (void)device;
    um_mem_free(host(ptr));
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status interp_stream_create(um_backend_device *device, um_backend_stream **out)
{
    *out = um_mem_zalloc(sizeof **out);
    if (!*out) return no_memory(NULL, "a stream");
    (*out)->device = device;
    return UM_OK;
}

static void interp_stream_destroy(um_backend_stream *stream) { um_mem_free(stream); }

/* What every entry begins with: a stream that failed does nothing more. */
static um_status state(um_backend_stream *stream) { return um_error_status(&stream->error); }

static um_status interp_write(um_backend_stream *stream, um_ptr dst, const void *src,
                              uint64_t size_bytes)
{
    UM_TRY(state(stream));
    memcpy(host(dst), src, (size_t)size_bytes);
    return UM_OK;
}

static um_status interp_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(state(stream));
    memcpy(dst, host(src), (size_t)size_bytes);
    return UM_OK;
}

static um_status interp_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(state(stream));
    memcpy(host(dst), host(src), (size_t)size_bytes);
    return UM_OK;
}

static um_status interp_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes,
                             uint64_t pattern, uint32_t pattern_bytes)
{
    UM_TRY(state(stream));
    char *to = host(dst);
    for (uint64_t i = 0; i < size_bytes; i += pattern_bytes)
        memcpy(to + i, &pattern, pattern_bytes);
    return UM_OK;
}

static um_status interp_record(um_backend_stream *stream, uint64_t *ticket)
{
    *ticket = ++stream->ticket;
    return UM_OK;
}

/* The work ahead is done; if it failed, so does what waits for it. */
static um_status interp_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    (void)ticket;
    UM_TRY(state(stream));
    if (other->error.code != UM_OK) stream->error = other->error;
    return UM_OK;
}

static um_status interp_query(um_backend_stream *stream, uint64_t ticket)
{
    (void)ticket;
    return state(stream);
}

static um_status interp_clear_error(um_backend_stream *stream)
{
    um_status status = state(stream);
    stream->error = (um_error){.code = UM_OK};
    return status;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static bool interp_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    return um_kdriver_supports(&device->k, op, why, why_size);
}

/* What a device with these limits would not do. */
static um_status check_limits(const um_klimits *limits, const um_klaunch *launch)
{
    bool good = launch->group_count[2] == 1 && launch->buffer_count <= limits->buffer_count_max;
    for (int32_t d = 0; d < 2; d++)
        good = good && launch->group_count[d] <= limits->group_count_max[d];
    for (int32_t b = 0; b < launch->buffer_count; b++)
        good = good && launch->buffer[b].size_bytes <= limits->binding_max_bytes;
    if (good) return UM_OK;
    return UM_FAIL(UM_INTERNAL, "kernel %s: a launch is over the device's limits",
                   launch->kernel->name);
}

static um_status run_launch(const um_backend_stream *stream, um_klaunch *launch, char *scratch)
{
    const um_backend_device *device = stream->device;
    UM_TRY(check_limits(&device->k.limits, launch));
    um_kernel_buffer buffers[UM_K_MAX_BUFFERS];
    for (int32_t i = 0; i < launch->buffer_count; i++) {
        const um_kbinding *b = &launch->buffer[i];
        void *data = b->scratch ? (void *)(scratch + b->begin) : host(b->begin);
        buffers[i] = (um_kernel_buffer){data, b->size_bytes};
    }
    um_kernel_run run = {.subgroup_size = launch->kernel->subgroup_size
                                              ? launch->kernel->subgroup_size
                                              : device->subgroup_size,
                         .buffers = buffers,
                         .buffer_count = launch->buffer_count,
                         .scalars = launch->scalar,
                         .scalar_count = launch->scalar_count};
    memcpy(run.group_count, launch->group_count, sizeof run.group_count);
    if (device->target == UM_TARGET_COUNT) return um_kernel_interpret(launch->kernel, &run);
    /* it may see small elements as words; allocations are of whole ones */
    for (int32_t i = 0; i < run.buffer_count; i++)
        buffers[i].size_bytes = (buffers[i].size_bytes + 3) / 4 * 4;
    void *lowered;
    UM_TRY(um_kcache_compiled(launch, &lowered));
    return um_kernel_interpret(lowered, &run);
}

/* Scratch is full of NaN where it has not to be 0. */
static um_status run_plan(const um_backend_stream *stream, um_kplan *plan, char *scratch)
{
    uint32_t fault = 0;
    if (scratch) {
        memset(scratch, 0xff, (size_t)plan->scratch_bytes);
        if (plan->fault[0]) memset(scratch, 0, UM_KFAULT_BYTES);
    }
    for (int32_t i = 0; i < plan->launch_count; i++)
        UM_TRY(run_launch(stream, &plan->launch[i], scratch));
    if (plan->fault[0]) memcpy(&fault, scratch, sizeof fault);
    return fault ? UM_FAIL(UM_OUT_OF_RANGE, "%s", plan->fault) : UM_OK;
}

/* The first part that fails gives the stream its error; each is run, as each of an op's launches is
 * on a device that does them later. */
static um_status enqueue_plan(void *ctx, const um_op *op, um_kplan *plan)
{
    um_backend_stream *stream = ctx;
    char *scratch = NULL;
    if (plan->scratch_bytes > 0) {
        if (plan->scratch_bytes < PTRDIFF_MAX)
            scratch = um_mem_alloc_aligned((size_t)plan->scratch_bytes, 64);
        if (!scratch) return no_memory(um_op_name(op->id), "scratch");
    }
    um_error before = *um_last_error();
    if (run_plan(stream, plan, scratch) != UM_OK) {
        um_fail_tag("interp", um_op_name(op->id));
        um_error_keep(&stream->error, um_last_error());
        um_fail_again(&before); /* whoever waits for the stream meets it */
    }
    um_mem_free(scratch);
    return UM_OK;
}

static um_status enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form)
{
    UM_TRY(state(stream));
    const um_kdriver *k = &stream->device->k; /* not um_kdriver_run: a kernel may stay as it is */
    if (um_planner_run(k->kernels, &k->limits, op, form, enqueue_plan, stream) == UM_OK)
        return UM_OK;
    return um_fail_tag("interp", um_op_name(op->id));
}

static um_status interp_enqueue(um_backend_stream *stream, const um_op *op)
{
    return enqueue_form(stream, op, 0);
}

const um_backend um_backend_interp = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "interp",
    .enumerate = interp_enumerate,
    .describe = interp_describe,
    .open = interp_open,
    .close = interp_close,
    .caps = interp_caps,
    .alloc = interp_alloc,
    .free = interp_free,
    .stream_create = interp_stream_create,
    .stream_destroy = interp_stream_destroy,
    .write = interp_write,
    .read = interp_read,
    .copy = interp_copy,
    .fill = interp_fill,
    .record = interp_record,
    .wait = interp_wait,
    .query = interp_query,
    .synchronize = interp_query,
    .clear_error = interp_clear_error,
    .supports = interp_supports,
    .enqueue = interp_enqueue,
};
