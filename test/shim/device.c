/* test/shim/device.c: see device.h. */
#include "test/shim/device.h"

#include "kernel/library.h"
#include "test/shim/modules.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct um_backend_device {
    int32_t number; /* of shim_backends */
};

struct um_backend_stream {
    int32_t device;
    uint64_t ticket; /* the last one given */
    um_error error;  /* code OK: none */
};

static const struct {
    const char *name;
    um_target target;
    um_device_kind kind;
    uint32_t subgroup_size;
    const char *arch;
} rows[SHIM_DEVICES] = {
    {"shim-cuda", UM_TARGET_CUDA, UM_DEVICE_CUDA, 32, "sm_90"},
    {"shim-hip", UM_TARGET_HIP, UM_DEVICE_ROCM, 64, "gfx942"},
    {"shim-metal", UM_TARGET_METAL, UM_DEVICE_METAL, 32, "apple7"},
};

bool shim_collects;
_Atomic int64_t shim_launches, shim_uncollected;

/* ---- kernels ---------------------------------------------------------------------------------
 */

static const um_kunit *unit_of(int32_t device)
{
    return um_arch_unit(rows[device].target, rows[device].arch);
}

um_target shim_target(int32_t device) { return rows[device].target; }
uint32_t shim_subgroup(int32_t device) { return rows[device].subgroup_size; }

um_status shim_lower(int32_t device, const um_kernel *k, um_kernel **out)
{
    um_klacks lacks = um_text_lacks(rows[device].target, 0, rows[device].subgroup_size);
    um_lacks_no_unit(&lacks, unit_of(device));
    return um_kernel_lower(k, &lacks, out);
}

static _Thread_local const char *running; /* the kernel, for whoever crashes in it */

static void crash(int number)
{
    const char *words[] = {"shim: a signal (", number == SIGILL ? "a trap" : "a fault",
                           ") in kernel ", running ? running : "none", "\n"};
    for (size_t i = 0; i < UM_COUNT_OF(words); i++)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0) break;
    _Exit(1);
}

void shim_catch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < UM_COUNT_OF(numbers); i++) signal(numbers[i], crash);
}

um_status shim_run(int32_t device, const um_kernel *lowered, const um_kernel_run *run)
{
    shim_word words[UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS];
    const shim_text *text;
    int32_t n = 0;
    UM_TRY(shim_text_of(lowered, rows[device].target, &text));
    if (!text->kernel) return UM_FAIL(UM_INTERNAL, "shim: %s was not compiled", text->name);
    if (run->buffer_count != text->buffers || run->scalar_count != text->scalars)
        return UM_FAIL(UM_INVALID_ARGUMENT, "shim: %s takes %d buffers and %d scalars", text->name,
                       (int)text->buffers, (int)text->scalars);
    for (int32_t i = 0; i < run->buffer_count; i++) words[n++].pointer = run->buffers[i].data;
    for (int32_t i = 0; i < run->scalar_count; i++) words[n++].bits = run->scalars[i];
    shim_launch_desc desc = {
        .kernel = text->kernel, .words = words, .subgroup_size = rows[device].subgroup_size};
    memcpy(desc.group_size, lowered->group_size, sizeof desc.group_size);
    memcpy(desc.group_count, run->group_count, sizeof desc.group_count);
    running = text->name;
    const char *wrong = shim_launch(&desc);
    running = NULL;
    if (wrong) return UM_FAIL(UM_INVALID_ARGUMENT, "shim: %s: %s", text->name, wrong);
    shim_launches++;
    return UM_OK;
}

static bool has_f64(const um_kplan *plan)
{
    for (int32_t n = 0; n < plan->launch_count; n++)
        for (int64_t i = 1; i < plan->launch[n].kernel->inst_count; i++)
            if (plan->launch[n].kernel->inst[i].type.dtype == UM_F64) return true;
    return false;
}

static um_status collect_plan(int32_t device, const um_kplan *plan)
{
    um_status status = UM_OK;
    if (rows[device].target == UM_TARGET_METAL && has_f64(plan)) return UM_OK;
    for (int32_t n = 0; n < plan->launch_count && status == UM_OK; n++) {
        um_kernel *lowered;
        const shim_text *text;
        status = shim_lower(device, plan->launch[n].kernel, &lowered);
        if (status == UM_OK) status = shim_text_of(lowered, rows[device].target, &text);
        um_kernel_release(lowered);
    }
    return status;
}

/* Keeps the texts of the op's kernels, of all devices: each has a matrix unit of its own. */
static um_status collect(const um_op *op)
{
    um_status status = UM_OK;
    for (int32_t device = 0; device < SHIM_DEVICES && status == UM_OK; device++) {
        um_kplan plan;
        status = um_kplan_make(op, unit_of(device), 0, &plan);
        if (status == UM_OK) status = collect_plan(device, &plan);
        um_kplan_release(&plan);
    }
    return status;
}

/* With something to write; other ops are not enqueued. */
static bool writes(const um_op *op)
{
    for (int32_t i = 0; i < op->out_count; i++)
        if (um_view_count(&op->out[i]) > 0) return true;
    return false;
}

static bool shim_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    um_kplan plan;
    bool good = um_kplan_supports(op, why, why_size);
    if (!good || !writes(op) || rows[device->number].target != UM_TARGET_METAL) return good;
    um_status status = um_kplan_make(op, unit_of(device->number), 0, &plan);
    good = status == UM_OK && !has_f64(&plan);
    if (!good)
        snprintf(why, why_size, "%s",
                 status == UM_OK ? "Metal has no f64" : um_last_error()->message);
    um_kplan_release(&plan);
    return good;
}

static um_status run_launch(int32_t device, const um_klaunch *launch, char *scratch)
{
    um_kernel_buffer buffers[UM_K_MAX_BUFFERS];
    for (int32_t i = 0; i < launch->buffer_count; i++) {
        const um_kbinding *b = &launch->buffer[i];
        buffers[i] = (um_kernel_buffer){
            b->scratch ? (void *)(scratch + b->begin) : (void *)(uintptr_t)b->begin, b->size_bytes};
    }
    um_kernel_run run = {.buffers = buffers,
                         .buffer_count = launch->buffer_count,
                         .scalars = launch->scalar,
                         .scalar_count = launch->scalar_count};
    memcpy(run.group_count, launch->group_count, sizeof run.group_count);
    um_kernel *lowered;
    UM_TRY(shim_lower(device, launch->kernel, &lowered));
    um_status status = shim_run(device, lowered, &run);
    um_kernel_release(lowered);
    return status;
}

/* Scratch is full of NaN where it has not to be 0. */
static um_status run_plan(int32_t device, const um_kplan *plan)
{
    uint32_t fault = 0;
    um_status status = UM_OK;
    char *scratch = um_mem_alloc_aligned((size_t)plan->scratch_bytes + 64, 64);
    if (!scratch) return UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for scratch");
    memset(scratch, 0xff, (size_t)plan->scratch_bytes);
    memset(scratch, 0, UM_KFAULT_BYTES);
    for (int32_t i = 0; i < plan->launch_count && status == UM_OK; i++)
        status = run_launch(device, &plan->launch[i], scratch);
    if (plan->fault[0]) memcpy(&fault, scratch, sizeof fault);
    um_mem_free(scratch);
    if (status != UM_OK) return status;
    return fault ? UM_FAIL(UM_OUT_OF_RANGE, "%s", plan->fault) : UM_OK;
}

/* ---- the backend ------------------------------------------------------------------------------
 */

static um_status shim_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 1;
    if (why_size > 0) why[0] = 0;
    return UM_OK;
}

static void *host(um_ptr ptr) { return (void *)(uintptr_t)ptr; }

static um_status shim_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    (void)device;
    bool fits = size_bytes < PTRDIFF_MAX - 16;
    void *memory = fits ? um_mem_alloc_aligned(((size_t)size_bytes + 15) / 16 * 16, 64) : NULL;
    *out = (um_ptr)(uintptr_t)memory;
    return memory ? UM_OK : UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for a buffer");
}

static void shim_free(um_backend_device *device, um_ptr ptr)
{
    (void)device;
    um_mem_free(host(ptr));
}

static void shim_close(um_backend_device *device) { um_mem_free(device); }

static um_status shim_stream_create(um_backend_device *device, um_backend_stream **out)
{
    *out = um_mem_zalloc(sizeof **out);
    if (!*out) return UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for a stream");
    (*out)->device = device->number;
    return UM_OK;
}

static void shim_stream_destroy(um_backend_stream *stream) { um_mem_free(stream); }

static um_status state(um_backend_stream *stream)
{
    return stream->error.code == UM_OK ? UM_OK : um_fail_again(&stream->error);
}

static um_status shim_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size)
{
    UM_TRY(state(stream));
    memcpy(host(dst), src, (size_t)size);
    return UM_OK;
}

static um_status shim_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size)
{
    UM_TRY(state(stream));
    memcpy(dst, host(src), (size_t)size);
    return UM_OK;
}

static um_status shim_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size)
{
    return shim_write(stream, dst, host(src), size);
}

static um_status shim_fill(um_backend_stream *stream, um_ptr dst, uint64_t size, uint64_t pattern,
                           uint32_t pattern_bytes)
{
    UM_TRY(state(stream));
    for (uint64_t i = 0; i < size; i += pattern_bytes)
        memcpy((char *)host(dst) + i, &pattern, pattern_bytes);
    return UM_OK;
}

static um_status shim_record(um_backend_stream *stream, uint64_t *ticket)
{
    *ticket = ++stream->ticket;
    return UM_OK;
}

static um_status shim_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    (void)ticket;
    UM_TRY(state(stream));
    if (other->error.code != UM_OK) stream->error = other->error;
    return UM_OK;
}

static um_status shim_query(um_backend_stream *stream, uint64_t ticket)
{
    (void)ticket;
    return state(stream);
}

static um_status shim_clear_error(um_backend_stream *stream)
{
    um_status status = state(stream);
    stream->error = (um_error){.code = UM_OK};
    return status;
}

static um_status shim_enqueue(um_backend_stream *stream, const um_op *op)
{
    um_kplan plan;
    UM_TRY(state(stream));
    um_status status = um_kplan_make(op, unit_of(stream->device), 0, &plan);
    if (status == UM_OK) {
        um_error before = *um_last_error();
        bool collects = shim_collects;
        if ((collects ? collect(op) : run_plan(stream->device, &plan)) != UM_OK) {
            if (collects) fprintf(stderr, "%s: %s\n", um_op_name(op->id), um_last_error()->message);
            shim_uncollected += collects;
            um_fail_tag(rows[stream->device].name, um_op_name(op->id));
            stream->error = *um_last_error();
            um_fail_again(&before); /* whoever waits for the stream meets it */
        }
    }
    um_kplan_release(&plan);
    return status;
}

static um_status device_describe(int32_t number, um_device_info *out)
{
    out->kind = rows[number].kind;
    out->memory_kind = UM_MEMORY_HOST;
    snprintf(out->backend, sizeof out->backend, "%s", rows[number].name);
    snprintf(out->name, sizeof out->name, "%s text on the host",
             um_target_name(rows[number].target));
    return UM_OK;
}

static um_status device_open(int32_t number, um_backend_device **out)
{
    *out = um_mem_zalloc(sizeof **out);
    if (!*out) return UM_FAIL(UM_OUT_OF_MEMORY, "shim: no memory for a device");
    (*out)->number = number;
    return UM_OK;
}

static um_status shim_caps(um_backend_device *device, um_caps *out)
{
    int32_t width = (int32_t)rows[device->number].subgroup_size;
    out->kind = rows[device->number].kind;
    snprintf(out->name, sizeof out->name, "%s text on the host",
             um_target_name(rows[device->number].target));
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++) out->storage |= UM_BIT(dtype);
    out->arithmetic = UM_DTYPES_FIB;
    out->compute_units = 1;
    out->subgroup_min = out->subgroup_max = width;
    out->memory_kind = UM_MEMORY_HOST;
    out->memory_total_bytes = out->memory_free_bytes = (uint64_t)1 << 32;
    out->buffer_max_bytes = out->binding_max_bytes = out->memory_total_bytes;
    for (int32_t d = 0; d < 3; d++) {
        out->group_size_max[d] = 1024;
        out->group_count_max[d] = INT32_MAX;
    }
    out->group_invocations_max = 1024;
    out->bindings_max = UM_K_MAX_BUFFERS;
    out->group_shared_bytes = 32768;
    return UM_OK;
}

#define DEVICE(n, NAME)                                                                            \
    static um_status NAME##_describe(int32_t ordinal, um_device_info *out)                         \
    {                                                                                              \
        (void)ordinal;                                                                             \
        return device_describe(n, out);                                                            \
    }                                                                                              \
    static um_status NAME##_open(int32_t ordinal, um_backend_device **out)                         \
    {                                                                                              \
        (void)ordinal;                                                                             \
        return device_open(n, out);                                                                \
    }                                                                                              \
    static const um_backend NAME = {.struct_size = sizeof(um_backend),                             \
                                    .struct_id = UM_STRUCT_BACKEND,                                \
                                    .name = "shim-" #NAME,                                         \
                                    .enumerate = shim_enumerate,                                   \
                                    .describe = NAME##_describe,                                   \
                                    .open = NAME##_open,                                           \
                                    .close = shim_close,                                           \
                                    .caps = shim_caps,                                             \
                                    .alloc = shim_alloc,                                           \
                                    .free = shim_free,                                             \
                                    .stream_create = shim_stream_create,                           \
                                    .stream_destroy = shim_stream_destroy,                         \
                                    .write = shim_write,                                           \
                                    .read = shim_read,                                             \
                                    .copy = shim_copy,                                             \
                                    .fill = shim_fill,                                             \
                                    .record = shim_record,                                         \
                                    .wait = shim_wait,                                             \
                                    .query = shim_query,                                           \
                                    .synchronize = shim_query,                                     \
                                    .clear_error = shim_clear_error,                               \
                                    .supports = shim_supports,                                     \
                                    .enqueue = shim_enqueue}
DEVICE(0, cuda);
DEVICE(1, hip);
DEVICE(2, metal);

const um_backend *const shim_backends[SHIM_DEVICES] = {&cuda, &hip, &metal};
