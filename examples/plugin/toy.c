/* A backend outside the tree, whole: one file that includes public headers only and links nothing.
 *
 *     cc -std=c11 -O2 -fPIC -shared -I<prefix>/include toy.c -o libtoy.so
 *     umbel check --plugin ./libtoy.so                  the conformance kit
 *     UMBEL_PLUGIN_PATH=/the/folder umbel info          found by toy.umbel, its manifest
 *
 * Its device is the host: memory comes from the program's allocator, and its streams run at once,
 * so an op is done when enqueue returns. It runs six ops on f32 and refuses the others with a
 * reason. A real driver replaces the middle: what stands in the entries' comments is what it has to
 * keep to. What the entries may rely on is in umbel/backend.h: arguments, pointers, shapes and
 * overlaps were checked before. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <umbel/plugin.h>

/* The host's functions, set by the entry; the same each time. */
static const um_host *host;

#define BUFFER_MAX ((uint64_t)1 << 30)

/* Each backend says itself what these two are. */
struct um_backend_device {
    int32_t ordinal;
};
struct um_backend_stream {
    uint64_t ticket; /* the last one given */
};

/* Device pointers of this device are addresses of the host. */
static void *memory(um_ptr ptr) { return (void *)(uintptr_t)ptr; }

static um_status no_memory(const char *what)
{
    return host->fail(UM_OUT_OF_MEMORY, "toy", NULL, 0, "toy: no memory for %s", what);
}

/* ---- devices -------------------------------------------------------------------------------- */

/* Here a driver looks for its library and its devices. Finding none is no failure: UM_OK, 0, and in
 * why what was looked for. It is called often, so it remembers what it found. */
static um_status toy_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 1;
    if (why_size > 0) why[0] = 0;
    return UM_OK;
}

/* *out is zero but for struct_size, the size that the program knows: a field that was added after
 * ABI 1 is written under `if (UM_HAS(out, field))`. So it is in caps. */
static um_status toy_describe(int32_t ordinal, um_device_info *out)
{
    (void)ordinal;
    out->kind = UM_DEVICE_CPU;
    out->memory_kind = UM_MEMORY_HOST;
    out->features = UM_FEATURE_UNIFIED_MEMORY;
    snprintf(out->name, sizeof out->name, "six ops on the host");
    return UM_OK;
}

/* May be called more than once: each open device is its own. */
static um_status toy_open(int32_t ordinal, um_backend_device **out)
{
    *out = host->alloc(sizeof **out, sizeof(void *));
    if (!*out) return no_memory("a device");
    (*out)->ordinal = ordinal;
    return UM_OK;
}

static void toy_close(um_backend_device *device) { host->free(device); }

static um_status toy_caps(um_backend_device *device, um_caps *out)
{
    (void)device;
    out->kind = UM_DEVICE_CPU;
    snprintf(out->name, sizeof out->name, "six ops on the host");
    out->storage = (1u << (UM_BOOL + 1)) - 2; /* buffers hold every dtype: they are bytes */
    out->arithmetic = 1u << UM_F32;           /* ops compute on this one */
    out->compute_units = 1;
    out->buffer_max_bytes = BUFFER_MAX;
    out->subgroup_min = out->subgroup_max = 1;
    out->features = UM_FEATURE_UNIFIED_MEMORY;
    out->memory_kind = UM_MEMORY_HOST;
    return UM_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Aligned to 64; size_bytes is 1 or more. Called from any thread. */
static um_status toy_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    (void)device;
    *out = 0;
    void *ptr = size_bytes <= BUFFER_MAX ? host->alloc((size_t)size_bytes, 64) : NULL;
    if (!ptr) return no_memory("a buffer");
    *out = (um_ptr)(uintptr_t)ptr;
    return UM_OK;
}

static void toy_free(um_backend_device *device, um_ptr ptr)
{
    (void)device;
    host->free(memory(ptr));
}

/* ---- streams -------------------------------------------------------------------------------- */

static um_status toy_stream_create(um_backend_device *device, um_backend_stream **out)
{
    (void)device;
    *out = host->alloc(sizeof **out, sizeof(void *));
    if (!*out) return no_memory("a stream");
    (*out)->ticket = 0;
    return UM_OK;
}

static void toy_stream_destroy(um_backend_stream *stream) { host->free(stream); }

/* src is the caller's again on return: a device that copies later keeps the bytes till then. */
static um_status toy_write(um_backend_stream *stream, um_ptr dst, const void *src,
                           uint64_t size_bytes)
{
    (void)stream;
    memcpy(memory(dst), src, (size_t)size_bytes);
    return UM_OK;
}

/* Waits for the stream, then copies. */
static um_status toy_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    (void)stream;
    memcpy(dst, memory(src), (size_t)size_bytes);
    return UM_OK;
}

static um_status toy_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    (void)stream;
    memcpy(memory(dst), memory(src), (size_t)size_bytes);
    return UM_OK;
}

/* pattern_bytes is 1, 2, 4 or 8, and divides size_bytes; the pattern's first byte is the lowest. */
static um_status toy_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes,
                          uint64_t pattern, uint32_t pattern_bytes)
{
    (void)stream;
    uint8_t *bytes = memory(dst);
    for (uint64_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)(pattern >> 8 * (i % pattern_bytes));
    return UM_OK;
}

/* A ticket stands for the work before it. All work is done at once, so every ticket is complete. */
static um_status toy_record(um_backend_stream *stream, uint64_t *ticket)
{
    *ticket = ++stream->ticket;
    return UM_OK;
}

static um_status toy_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    (void)stream, (void)other, (void)ticket;
    return UM_OK;
}

/* An asynchronous device answers UM_NOT_READY (without host->fail) while work is under way. */
static um_status toy_query(um_backend_stream *stream, uint64_t ticket)
{
    (void)stream, (void)ticket;
    return UM_OK;
}

static um_status toy_synchronize(um_backend_stream *stream, uint64_t ticket)
{
    (void)stream, (void)ticket;
    return UM_OK;
}

/* A stream whose work failed keeps the first error, drops the work behind it and returns the error
 * from every entry above, until this one. The six ops cannot fail. */
static um_status toy_clear_error(um_backend_stream *stream)
{
    (void)stream;
    return UM_OK;
}

/* ---- views ---------------------------------------------------------------------------------- */

/* The element of a view at an index. Strides count elements, and may be 0 or negative. */
static float *at(const um_view *view, const int64_t *index)
{
    int64_t offset = 0;
    for (int32_t d = 0; d < view->rank; d++) offset += index[d] * view->stride[d];
    return (float *)memory(view->ptr) + offset;
}

/* The next index in row-major order; false behind the last one. */
static bool next(const um_view *view, int64_t *index)
{
    for (int32_t d = view->rank - 1; d >= 0; d--) {
        if (++index[d] < view->shape[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- ops: what each does, by umbel/op.def --------------------------------------------------- */

/* max(x, 0): NaN stays, and -0 gives 0 */
static float relu(float x) { return x > 0 || isnan(x) ? x : 0; }

/* Elementwise ops have inputs of the output's shape; broadcast ones have strides of 0. */
static void run_map(const um_op *op)
{
    int64_t index[UM_MAX_RANK] = {0};
    do {
        const float a = *at(&op->in[0], index);
        float *y = at(&op->out[0], index);
        switch (op->id) {
        case UM_OP_ADD: *y = a + *at(&op->in[1], index); break;
        case UM_OP_MUL: *y = a * *at(&op->in[1], index); break;
        case UM_OP_RELU: *y = relu(a); break;
        default: *y = a; break; /* copy */
        }
    } while (next(&op->out[0], index));
}

static void run_fill(const um_op *op)
{
    int64_t index[UM_MAX_RANK] = {0};
    do *at(&op->out[0], index) = (float)op->attrs.fill.f;
    while (next(&op->out[0], index));
}

/* y = alpha a b + beta c over the last two axes, the others in step. c is the third input, if there
 * is one (of y's shape), and read only when beta is not 0; a and b are not read when alpha is 0. */
static void run_matmul(const um_op *op)
{
    const um_view *a = &op->in[0], *b = &op->in[1], *y = &op->out[0];
    const int32_t row = y->rank - 2, column = y->rank - 1;
    const double alpha = op->attrs.matmul.alpha, beta = op->attrs.matmul.beta;
    const int64_t k = alpha != 0 ? a->shape[column] : 0;
    int64_t index[UM_MAX_RANK] = {0};
    do {
        int64_t ia[UM_MAX_RANK], ib[UM_MAX_RANK];
        memcpy(ia, index, sizeof ia);
        memcpy(ib, index, sizeof ib);
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            ia[column] = ib[row] = i;
            sum += (double)*at(a, ia) * (double)*at(b, ib);
        }
        sum = k > 0 ? alpha * sum : 0;
        if (op->in_count > 2 && op->in[2].rank == y->rank && beta != 0)
            sum += beta * (double)*at(&op->in[2], index);
        *at(y, index) = (float)sum;
    } while (next(y, index));
}

/* ---- the table of ops, which supports and enqueue both read, so that they cannot disagree --- */

/* What an op may have at most: later versions add inputs and attributes, which this file does not
 * know and so must not pass over. */
static const struct {
    um_op_id id;
    void (*run)(const um_op *op);
    int32_t in_count_max;
    size_t attrs_bytes;
} kernels[] = {
    {UM_OP_ADD, run_map, 2, 0},
    {UM_OP_MUL, run_map, 2, 0},
    {UM_OP_RELU, run_map, 1, 0},
    {UM_OP_COPY, run_map, 1, 0},
    {UM_OP_FILL, run_fill, 0, 2 * sizeof(int64_t)},
    {UM_OP_MATMUL, run_matmul, 3, 2 * sizeof(double)},
};

static bool all_f32(const um_op *op)
{
    for (int32_t i = 0; i < op->in_count; i++)
        if (op->in[i].dtype != UM_F32) return false;
    return op->out[0].dtype == UM_F32;
}

/* NULL: it runs. */
static const char *why_not(const um_op *op)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (kernels[i].id != op->id) continue;
        if (!all_f32(op)) return "it computes in f32 only";
        bool known = op->in_count <= kernels[i].in_count_max && op->out_count == 1 &&
                     um_attrs_end_at(op, kernels[i].attrs_bytes);
        return known ? NULL : "it does not know all of the op's inputs and attributes";
    }
    return "it runs add, mul, relu, copy, fill and matmul only";
}

/* Why not, in words: that is what people see. Pointers are not to be looked at here. */
static bool toy_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    (void)device;
    const char *reason = why_not(op);
    if (why_size > 0) snprintf(why, why_size, "%s", reason ? reason : "");
    return !reason;
}

/* Returns before the op has run, on a real device: then *op is the caller's again, so it is copied.
 */
static um_status toy_enqueue(um_backend_stream *stream, const um_op *op)
{
    (void)stream;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (kernels[i].id != op->id) continue;
        kernels[i].run(op);
        return UM_OK;
    }
    return host->fail(UM_UNSUPPORTED, "toy", host->op_name(op->id), 0, "toy: no kernel for %s",
                      host->op_name(op->id));
}

/* ---- the entry ------------------------------------------------------------------------------ */

static um_backend backend = {
    .struct_size = sizeof backend,
    .struct_id = UM_STRUCT_BACKEND,
    .name = "toy",
    .enumerate = toy_enumerate,
    .describe = toy_describe,
    .open = toy_open,
    .close = toy_close,
    .caps = toy_caps,
    .alloc = toy_alloc,
    .free = toy_free,
    .stream_create = toy_stream_create,
    .stream_destroy = toy_stream_destroy,
    .write = toy_write,
    .read = toy_read,
    .copy = toy_copy,
    .fill = toy_fill,
    .record = toy_record,
    .wait = toy_wait,
    .query = toy_query,
    .synchronize = toy_synchronize,
    .clear_error = toy_clear_error,
    .supports = toy_supports,
    .enqueue = toy_enqueue,
};

static const um_plugin plugin = {
    .struct_size = sizeof plugin,
    .struct_id = UM_STRUCT_PLUGIN,
    .abi = UM_PLUGIN_ABI,
    .version = "1.0",
    .backend = &backend,
};

UM_PLUGIN_EXPORT um_status um_plugin_entry(const um_host *given, const um_plugin **out);
UM_PLUGIN_EXPORT um_status um_plugin_entry(const um_host *given, const um_plugin **out)
{
    /* An older program than this file: it lacks a function, or speaks of something else. */
    if (given->abi != UM_PLUGIN_ABI || !UM_HAS(given, convert)) return UM_ABI_MISMATCH;
    host = given;
    *out = &plugin;
    return UM_OK;
}
