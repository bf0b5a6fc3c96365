/* umbel/backend.h: what a backend provides. For people who write one; src/backend/null is the
 * commented template.
 *
 * The core checks arguments, pointers, overlaps and ranges before it calls any entry, tracks
 * allocations and streams, and never calls with a lock of its own held. Entries that return
 * um_status record their failure with um_backend_fail. A NULL optional entry means the device
 * cannot do it.
 */
#ifndef UMBEL_BACKEND_H
#define UMBEL_BACKEND_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UM_STRUCT_BACKEND 1u

typedef struct um_backend_device um_backend_device; /* each backend's own */
typedef struct um_backend_stream um_backend_stream;

typedef struct um_backend {
    uint32_t struct_size;
    uint32_t struct_id; /* UM_STRUCT_BACKEND */
    const void *next;
    const char *name; /* lower case, at most 15 characters */

    /* How many devices there are here. With none: UM_OK, *count = 0 and the reason in why. */
    um_status (*enumerate)(int32_t *count, char *why, size_t why_size);
    /* *out, here and of caps, is zero but for struct_size: fields past that size do not exist. */
    um_status (*describe)(int32_t ordinal, um_device_info *out);
    um_status (*open)(int32_t ordinal, um_backend_device **out);
    void (*close)(um_backend_device *device); /* no stream is alive */
    um_status (*caps)(um_backend_device *device, um_caps *out);

    um_status (*alloc)(um_backend_device *device, uint64_t size_bytes, um_ptr *out); /* size >= 1 */
    void (*free)(um_backend_device *device, um_ptr ptr); /* no work uses it */

    um_status (*stream_create)(um_backend_device *device, um_backend_stream **out);
    void (*stream_destroy)(um_backend_stream *stream); /* waits for its work */

    um_status (*write)(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes);
    um_status (*read)(um_backend_stream *stream, void *dst, um_ptr src,
                      uint64_t size_bytes); /* waits */
    um_status (*copy)(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes);
    um_status (*fill)(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                      uint32_t pattern_bytes);

    /* Tickets are 1 or more and never go down within a stream (without work between two records
     * they may be equal); a ticket is complete when all work before its record is. Of a stream that
     * has failed too: its query tells. */
    um_status (*record)(um_backend_stream *stream, uint64_t *ticket);
    /* Holds the stream back until `other`, of the same device, reaches the ticket. The core waits
     * on the host for streams of different backends or devices. */
    um_status (*wait)(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket);
    /* OK, NOT_READY, or the stream's error. UINT64_MAX, here and below: all the work it has now. */
    um_status (*query)(um_backend_stream *stream, uint64_t ticket);
    /* Waits; then as query. A stream that has failed drops its work first. */
    um_status (*synchronize)(um_backend_stream *stream, uint64_t ticket);
    um_status (*clear_error)(
        um_backend_stream *stream); /* idle stream: gives its error and forgets it */

    /* Optional: native ops. Both read one table, so they cannot disagree. supports writes why not.
     * enqueue returns before the op has run and keeps no pointer into *op. */
    bool (*supports)(um_backend_device *device, const um_op *op, char *why, size_t why_size);
    um_status (*enqueue)(um_backend_stream *stream, const um_op *op);

    /* Optional: all of the ops, or with a failure none. No op's output overlaps another op's output
     * or input, so they may run in any order and side by side. count is 2 or more. NULL: the core
     * calls enqueue for each. */
    um_status (*enqueue_batch)(um_backend_stream *stream, int64_t count, const um_op *const *ops);

    /* Optional: a stream that goes before those of a lower priority where not all can go at once. 0
     * is stream_create's. NULL: all are equal. */
    um_status (*stream_create_priority)(um_backend_device *device, int32_t priority,
                                        um_backend_stream **out);
    /* Optional: in stream order, of memory that either side may have in the host (an address as a
     * um_ptr), and that stays there until it is done. Returns before. size >= 1; the ranges do not
     * overlap. NULL: the core uses write, which takes a copy, or read, which waits. */
    um_status (*copy_host)(um_backend_stream *stream, um_copy_kind kind, um_ptr dst, um_ptr src,
                           uint64_t size_bytes);
    /* Optional: calls fn(user, status), from any thread and with no lock held, when the work before
     * is done: with UM_OK, or with the error that the stream has by then. Exactly once if it
     * returns UM_OK, else never. NULL: the core waits for the stream and calls. */
    um_status (*call)(um_backend_stream *stream, um_stream_fn fn, void *user);

    /* Optional, both or none: work that a stream does again and again (a graph's). recorder gives a
     * stream whose enqueue, enqueue_batch, copy and fill are noted instead of done; of it nothing
     * else is asked but stream_destroy, also while what it has noted is under way. UNSUPPORTED,
     * here and of what it is asked: it cannot be noted, and is asked of the stream each time. */
    um_status (*recorder)(um_backend_stream *stream, um_backend_stream **out);
    /* All that its recorder has noted, behind the stream's other work, as if it were asked for
     * again; that all may also be under way from before. NOT_READY: nothing is done, and what is
     * noted cannot be used any more; it is noted anew. */
    um_status (*replay)(um_backend_stream *stream, um_backend_stream *recorder);
} um_backend;

/* Records a failure as the calling thread's last error and returns code. backend and op may be
 * NULL. */
UM_API um_status um_backend_fail(um_status code, const char *backend, const char *op,
                                 int32_t native_code, const char *format, ...) UM_PRINTF(5, 6);

#ifdef __cplusplus
}
#endif
#endif
