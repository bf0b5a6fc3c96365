/* umbel/static.h: one backend, known when the program is compiled.
 *
 * Compiled with -DUMBEL_STATIC_BACKEND=cpu the functions here call that backend's entries by name:
 * no registry, no table of entries, no layer and no fallback between the program and the backend,
 * and linked with the static library none of them is in the program. Without it the same source
 * goes the usual way (um_open, um_enqueue, ...), and chooses at run time.
 *
 * What the static way leaves out is what the registry knows: that pointers are inside live
 * allocations, that memory is not freed under work that uses it, that ranges to copy do not
 * overlap. Those are the program's to keep. Ops are checked as always (um_op_check, and whether the
 * backend runs them); -DUMBEL_STATIC_UNCHECKED leaves that out, too, for ops that are known to be
 * right. Figures: doc/design/static-dispatch.md.
 *
 * Functions mean what their namesakes of umbel/device.h mean, unless it is said here. Handles are
 * structs of one or two pointers, passed by value; all zero is none. */
#ifndef UMBEL_STATIC_H
#define UMBEL_STATIC_H

#include <umbel/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- backends that can be called so: their entries by name -----------------------------------*/

/* As the entries of um_backend of the same name are: arguments are not checked. */
UM_API um_status um_cpu_entry_open(int32_t ordinal, um_backend_device **out);
UM_API void um_cpu_entry_close(um_backend_device *device);
UM_API um_status um_cpu_entry_caps(um_backend_device *device, um_caps *out);
UM_API um_status um_cpu_entry_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out);
UM_API void um_cpu_entry_free(um_backend_device *device, um_ptr ptr);
UM_API um_status um_cpu_entry_stream_create(um_backend_device *device, um_backend_stream **out);
UM_API void um_cpu_entry_stream_destroy(um_backend_stream *stream);
UM_API um_status um_cpu_entry_write(um_backend_stream *stream, um_ptr dst, const void *src,
                                    uint64_t size_bytes);
UM_API um_status um_cpu_entry_read(um_backend_stream *stream, void *dst, um_ptr src,
                                   uint64_t size_bytes);
UM_API um_status um_cpu_entry_copy(um_backend_stream *stream, um_ptr dst, um_ptr src,
                                   uint64_t size_bytes);
UM_API um_status um_cpu_entry_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes,
                                   uint64_t pattern, uint32_t pattern_bytes);
UM_API um_status um_cpu_entry_record(um_backend_stream *stream, uint64_t *ticket);
UM_API um_status um_cpu_entry_wait(um_backend_stream *stream, um_backend_stream *other,
                                   uint64_t ticket);
UM_API um_status um_cpu_entry_query(um_backend_stream *stream, uint64_t ticket);
UM_API um_status um_cpu_entry_synchronize(um_backend_stream *stream, uint64_t ticket);
UM_API um_status um_cpu_entry_clear_error(um_backend_stream *stream);
UM_API bool um_cpu_entry_supports(um_backend_device *device, const um_op *op, char *why,
                                  size_t why_size);
UM_API um_status um_cpu_entry_enqueue(um_backend_stream *stream, const um_op *op);

/* ---- the same functions, either way ---------------------------------------------------------- */

#ifdef UMBEL_STATIC_BACKEND

#define UM_STATIC_PASTE_(backend, entry) um_##backend##_entry_##entry
#define UM_STATIC_PASTE(backend, entry)  UM_STATIC_PASTE_(backend, entry)
#define UM_STATIC_ENTRY(entry)           UM_STATIC_PASTE(UMBEL_STATIC_BACKEND, entry)

typedef struct um_static_device {
    um_backend_device *handle;
} um_static_device;
typedef struct um_static_stream {
    um_backend_stream *handle;
    um_backend_device *device;
} um_static_stream;
/* A point in a stream's order; the stream has to be alive. */
typedef struct um_static_event {
    um_backend_stream *stream;
    uint64_t ticket;
} um_static_event;

/* Device `ordinal` of the backend; the other way: the one that spec names. */
static inline um_status um_static_open(const char *spec, int32_t ordinal, um_static_device *out)
{
    (void)spec;
    return UM_STATIC_ENTRY(open)(ordinal, &out->handle);
}

/* Its streams are gone and its memory is freed. */
static inline void um_static_close(um_static_device device)
{
    if (device.handle) UM_STATIC_ENTRY(close)(device.handle);
}

/* out->struct_size is sizeof *out. */
static inline um_status um_static_caps(um_static_device device, um_caps *out)
{
    return UM_STATIC_ENTRY(caps)(device.handle, out);
}

static inline um_status um_static_alloc(um_static_device device, uint64_t size_bytes, um_ptr *out)
{
    return UM_STATIC_ENTRY(alloc)(device.handle, size_bytes ? size_bytes : 1, out);
}

/* No work uses it: wait for that first. */
static inline void um_static_free(um_static_device device, um_ptr ptr)
{
    if (ptr) UM_STATIC_ENTRY(free)(device.handle, ptr);
}

static inline um_status um_static_stream_create(um_static_device device, um_static_stream *out)
{
    out->device = device.handle;
    return UM_STATIC_ENTRY(stream_create)(device.handle, &out->handle);
}

static inline void um_static_stream_release(um_static_stream stream)
{
    if (stream.handle) UM_STATIC_ENTRY(stream_destroy)(stream.handle);
}

static inline um_status um_static_write(um_static_stream stream, um_ptr dst, const void *src,
                                        uint64_t size_bytes)
{
    return size_bytes ? UM_STATIC_ENTRY(write)(stream.handle, dst, src, size_bytes) : UM_OK;
}

static inline um_status um_static_read(um_static_stream stream, void *dst, um_ptr src,
                                       uint64_t size_bytes)
{
    return size_bytes ? UM_STATIC_ENTRY(read)(stream.handle, dst, src, size_bytes)
                      : UM_STATIC_ENTRY(synchronize)(stream.handle, UINT64_MAX);
}

static inline um_status um_static_copy(um_static_stream stream, um_ptr dst, um_ptr src,
                                       uint64_t size_bytes)
{
    return size_bytes ? UM_STATIC_ENTRY(copy)(stream.handle, dst, src, size_bytes) : UM_OK;
}

/* pattern_bytes: 1, 2, 4 or 8, and divides size_bytes. */
static inline um_status um_static_fill(um_static_stream stream, um_ptr dst, uint64_t size_bytes,
                                       const void *pattern, uint32_t pattern_bytes)
{
    const unsigned char *bytes = (const unsigned char *)pattern;
    uint64_t value = 0;
    if (!size_bytes) return UM_OK;
    for (uint32_t i = 0; i < pattern_bytes; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return UM_STATIC_ENTRY(fill)(stream.handle, dst, size_bytes, value, pattern_bytes);
}

static inline um_status um_static_record(um_static_stream stream, um_static_event *out)
{
    out->stream = stream.handle;
    return UM_STATIC_ENTRY(record)(stream.handle, &out->ticket);
}

static inline um_status um_static_wait(um_static_stream stream, um_static_event event)
{
    return event.stream && event.stream != stream.handle
               ? UM_STATIC_ENTRY(wait)(stream.handle, event.stream, event.ticket)
               : UM_OK;
}

static inline um_status um_static_query(um_static_event event)
{
    return event.stream ? UM_STATIC_ENTRY(query)(event.stream, event.ticket) : UM_OK;
}

static inline um_status um_static_event_synchronize(um_static_event event)
{
    return event.stream ? UM_STATIC_ENTRY(synchronize)(event.stream, event.ticket) : UM_OK;
}

static inline um_status um_static_synchronize(um_static_stream stream)
{
    return UM_STATIC_ENTRY(synchronize)(stream.handle, UINT64_MAX);
}

static inline um_status um_static_clear_error(um_static_stream stream)
{
    (void)UM_STATIC_ENTRY(synchronize)(stream.handle, UINT64_MAX);
    return UM_STATIC_ENTRY(clear_error)(stream.handle);
}

static inline bool um_static_supports(um_static_device device, const um_op *op, char *why,
                                      size_t why_size)
{
    return UM_STATIC_ENTRY(supports)(device.handle, op, why, why_size);
}

/* Whether an op has nothing to write: such a one reaches no backend. */
static inline bool um_static_is_empty(const um_op *op)
{
    int32_t empty = 0;
    for (int32_t i = 0; i < op->out_count; i++) {
        bool none = false;
        for (int32_t d = 0; d < op->out[i].rank; d++) none = none || op->out[i].shape[d] == 0;
        empty += none;
    }
    return empty == op->out_count;
}

static inline um_status um_static_enqueue(um_static_stream stream, const um_op *op)
{
#ifndef UMBEL_STATIC_UNCHECKED
    char why[128];
    um_status status = um_op_check(op);
    if (status != UM_OK) return status;
    if (um_static_is_empty(op)) return UM_OK;
    if (!UM_STATIC_ENTRY(supports)(stream.device, op, why, sizeof why))
        return um_backend_fail(UM_UNSUPPORTED, NULL, um_op_name(op->id), 0, "%s: %s",
                               um_op_name(op->id), why);
#else
    if (um_static_is_empty(op)) return UM_OK;
#endif
    return UM_STATIC_ENTRY(enqueue)(stream.handle, op);
}

#else /* chosen at run time */

typedef struct um_static_device {
    um_device *handle;
} um_static_device;
typedef struct um_static_stream {
    um_stream *handle;
} um_static_stream;
typedef struct um_static_event {
    um_event event;
} um_static_event;

static inline um_status um_static_open(const char *spec, int32_t ordinal, um_static_device *out)
{
    (void)ordinal;
    return um_open(spec, &out->handle);
}

static inline void um_static_close(um_static_device device) { um_device_release(device.handle); }

static inline um_status um_static_caps(um_static_device device, um_caps *out)
{
    return um_device_caps(device.handle, out);
}

static inline um_status um_static_alloc(um_static_device device, uint64_t size_bytes, um_ptr *out)
{
    return um_alloc(device.handle, size_bytes, out);
}

static inline void um_static_free(um_static_device device, um_ptr ptr)
{
    um_status status = um_free(device.handle, ptr); /* fails for a wrong pointer only */
    (void)status;
}

static inline um_status um_static_stream_create(um_static_device device, um_static_stream *out)
{
    return um_stream_create(device.handle, &out->handle);
}

static inline void um_static_stream_release(um_static_stream stream)
{
    um_stream_release(stream.handle);
}

static inline um_status um_static_write(um_static_stream stream, um_ptr dst, const void *src,
                                        uint64_t size_bytes)
{
    return um_write(stream.handle, dst, src, size_bytes);
}

static inline um_status um_static_read(um_static_stream stream, void *dst, um_ptr src,
                                       uint64_t size_bytes)
{
    return um_read(stream.handle, dst, src, size_bytes);
}

static inline um_status um_static_copy(um_static_stream stream, um_ptr dst, um_ptr src,
                                       uint64_t size_bytes)
{
    return um_copy(stream.handle, dst, src, size_bytes);
}

static inline um_status um_static_fill(um_static_stream stream, um_ptr dst, uint64_t size_bytes,
                                       const void *pattern, uint32_t pattern_bytes)
{
    return um_fill(stream.handle, dst, size_bytes, pattern, pattern_bytes);
}

static inline um_status um_static_record(um_static_stream stream, um_static_event *out)
{
    return um_record(stream.handle, &out->event);
}

static inline um_status um_static_wait(um_static_stream stream, um_static_event event)
{
    return um_wait(stream.handle, event.event);
}

static inline um_status um_static_query(um_static_event event) { return um_query(event.event); }

static inline um_status um_static_event_synchronize(um_static_event event)
{
    return um_event_synchronize(event.event);
}

static inline um_status um_static_synchronize(um_static_stream stream)
{
    return um_synchronize(stream.handle);
}

static inline um_status um_static_clear_error(um_static_stream stream)
{
    return um_stream_clear_error(stream.handle);
}

static inline bool um_static_supports(um_static_device device, const um_op *op, char *why,
                                      size_t why_size)
{
    return um_supports(device.handle, op, why, why_size);
}

static inline um_status um_static_enqueue(um_static_stream stream, const um_op *op)
{
    return um_enqueue(stream.handle, op);
}

#endif

#ifdef __cplusplus
}
#endif
#endif
