/* The null backend: has memory and streams in name and runs no op. It is the template for a new
 * backend:
 *
 *   1. Copy this folder to src/backend/<name>/ and rename `null` in it.
 *   2. Add UM_BACKEND(<name>) to src/device/backends.def, at its place in the order of preference.
 *   3. enumerate: find the driver (open its library at run time), count devices, or say why none.
 *   4. open, caps, alloc, free, stream_create, write, read, synchronize: now bytes go and come
 * back.
 *   5. copy, fill, record, wait, query, clear_error: now streams are in order; `umbel info` is
 * right.
 *   6. supports and enqueue, from one table of ops: now `umbel check --device <name>` has work.
 *
 * What every entry may rely on is in umbel/backend.h; opening "<name>+validate" checks it. */
#include "base/base.h"
#include "base/os.h"

#include <stdio.h>
#include <umbel/backend.h>

struct um_backend_device {
    um_mutex mutex;
    um_ptr next_ptr; /* addresses are never used twice, so a stale one is always noticed */
};

struct um_backend_stream {
    uint64_t ticket; /* the last one given */
};

/* ---- devices -------------------------------------------------------------------------------- */

static um_status null_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 1; /* with none: 0, and in why what was looked for and not found */
    if (why_size > 0) why[0] = 0;
    return UM_OK;
}

static um_status null_describe(int32_t ordinal, um_device_info *out)
{
    out->kind = UM_DEVICE_NULL;
    out->ordinal = ordinal;
    snprintf(out->backend, sizeof out->backend, "null");
    snprintf(out->name, sizeof out->name, "computes nothing");
    return UM_OK;
}

static um_status null_open(int32_t ordinal, um_backend_device **out)
{
    (void)ordinal;
    *out = NULL;
    um_backend_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return um_backend_fail(UM_OUT_OF_MEMORY, "null", NULL, 0, "null: no memory");
    if (um_mutex_init(&device->mutex) != UM_OK) {
        um_mem_free(device);
        return um_status_last();
    }
    device->next_ptr = (um_ptr)1 << 40;
    *out = device;
    return UM_OK;
}

static void null_close(um_backend_device *device)
{
    um_mutex_destroy(&device->mutex);
    um_mem_free(device);
}

/* A field not known stays zero. */
static um_status null_caps(um_backend_device *device, um_caps *out)
{
    (void)device;
    out->kind = UM_DEVICE_NULL;
    snprintf(out->name, sizeof out->name, "computes nothing");
    for (um_dtype dtype = UM_F64; dtype <= UM_BOOL; dtype++) out->storage |= (uint32_t)1 << dtype;
    out->arithmetic = 0; /* dtypes that kernels compute on: here is no kernel */
    out->compute_units = 1;
    out->subgroup_min = out->subgroup_max = 1;
    return UM_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Aligned to 64. An address no memory stands behind is legal: nobody but this backend uses it. */
static um_status null_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out)
{
    *out = 0;
    um_mutex_lock(&device->mutex);
    bool fits = size_bytes < ((uint64_t)1 << 62) - device->next_ptr;
    if (fits) {
        *out = device->next_ptr;
        device->next_ptr += (size_bytes + 127) & ~(uint64_t)63; /* a gap behind each */
    }
    um_mutex_unlock(&device->mutex);
    if (fits) return UM_OK;
    return um_backend_fail(UM_OUT_OF_MEMORY, "null", NULL, 0, "null: no addresses for %llu bytes",
                           (unsigned long long)size_bytes);
}

static void null_free(um_backend_device *device, um_ptr ptr) { (void)device, (void)ptr; }

/* ---- streams -------------------------------------------------------------------------------- */

static um_status null_stream_create(um_backend_device *device, um_backend_stream **out)
{
    (void)device;
    *out = um_mem_zalloc(sizeof **out);
    if (*out) return UM_OK;
    return um_backend_fail(UM_OUT_OF_MEMORY, "null", NULL, 0, "null: no memory for a stream");
}

static void null_stream_destroy(um_backend_stream *stream) { um_mem_free(stream); }

/* src is the caller's again on return, so a backend that is not done with it copies it. */
static um_status null_write(um_backend_stream *stream, um_ptr dst, const void *src,
                            uint64_t size_bytes)
{
    (void)stream, (void)dst, (void)src, (void)size_bytes;
    return UM_OK;
}

static um_status null_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes)
{
    (void)stream, (void)src;
    memset(dst, 0, (size_t)size_bytes);
    return UM_OK;
}

static um_status null_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    (void)stream, (void)dst, (void)src, (void)size_bytes;
    return UM_OK;
}

static um_status null_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes,
                           uint64_t pattern, uint32_t pattern_bytes)
{
    (void)stream, (void)dst, (void)size_bytes, (void)pattern, (void)pattern_bytes;
    return UM_OK;
}

static um_status null_record(um_backend_stream *stream, uint64_t *ticket)
{
    *ticket = ++stream->ticket;
    return UM_OK;
}

/* The work ahead is always done here, so there is nothing to hold back. */
static um_status null_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket)
{
    (void)stream, (void)other, (void)ticket;
    return UM_OK;
}

/* UM_NOT_READY is an answer, not a failure: it is returned without um_backend_fail. */
static um_status null_query(um_backend_stream *stream, uint64_t ticket)
{
    (void)stream, (void)ticket;
    return UM_OK;
}

static um_status null_synchronize(um_backend_stream *stream, uint64_t ticket)
{
    (void)stream, (void)ticket;
    return UM_OK;
}

/* A stream whose work failed keeps the first error, drops later work, and returns the error from
 * every entry above until this one. Nothing fails here. */
static um_status null_clear_error(um_backend_stream *stream)
{
    (void)stream;
    return UM_OK;
}

/* ---- ops ------------------------------------------------------------------------------------ */

/* Says why not, always. */
static bool null_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    (void)device, (void)op;
    if (why_size > 0) snprintf(why, why_size, "null computes nothing");
    return false;
}

/* The core asks supports first, so only a caller that breaks the rules gets here. */
static um_status null_enqueue(um_backend_stream *stream, const um_op *op)
{
    (void)stream;
    return um_backend_fail(UM_UNSUPPORTED, "null", um_op_name(op->id), 0,
                           "null: %s: null computes nothing", um_op_name(op->id));
}

const um_backend um_backend_null = {
    .struct_size = sizeof(um_backend),
    .struct_id = UM_STRUCT_BACKEND,
    .name = "null",
    .enumerate = null_enumerate,
    .describe = null_describe,
    .open = null_open,
    .close = null_close,
    .caps = null_caps,
    .alloc = null_alloc,
    .free = null_free,
    .stream_create = null_stream_create,
    .stream_destroy = null_stream_destroy,
    .write = null_write,
    .read = null_read,
    .copy = null_copy,
    .fill = null_fill,
    .record = null_record,
    .wait = null_wait,
    .query = null_query,
    .synchronize = null_synchronize,
    .clear_error = null_clear_error,
    .supports = null_supports,
    .enqueue = null_enqueue,
};
