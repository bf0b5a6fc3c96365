/* umbel/layer.h: layers, which wrap a device when it is opened, and look at or change what passes
 * between the core and its backend: um_open("cpu+validate+trace"), outermost last.
 *
 *   validate  a backend, or the core, that breaks a rule of umbel/backend.h gets INTERNAL
 *   trace     writes each call to stderr, or appends it to the file UMBEL_TRACE. A file whose name
 *             ends with .json gets Chrome's trace format instead, for Perfetto or chrome://tracing:
 *             a device is a process, a stream a thread, an op an event with its shapes, as long as
 *             it took in its stream (where the backend can tell, else as long as the call)
 *   record    keeps each call, to be read back with what is below: unit tests of a program's own
 *             dispatch need no GPU and no mock for that
 *   fault     breaks on purpose: "cpu+fault=call:17" fails the 17th call with DEVICE_ERROR, once;
 *             "fault=lost:17" loses the device with it: that call and all later ones are
 *             DEVICE_LOST; "fault=memory:1000000" is out of memory beyond so many bytes. Several
 *             are separated by commas. Counted are the calls that return a status, from 1.
 */
#ifndef UMBEL_LAYER_H
#define UMBEL_LAYER_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The entries of umbel/backend.h. */
typedef int32_t um_call_kind;
enum {
    UM_CALL_NONE = 0,
    UM_CALL_CAPS = 1,
    UM_CALL_ALLOC = 2,
    UM_CALL_FREE = 3,
    UM_CALL_STREAM_CREATE = 4, /* of any priority */
    UM_CALL_STREAM_DESTROY = 5,
    UM_CALL_WRITE = 6,
    UM_CALL_READ = 7,
    UM_CALL_COPY = 8,
    UM_CALL_FILL = 9,
    UM_CALL_RECORD = 10,
    UM_CALL_WAIT = 11,
    UM_CALL_QUERY = 12,
    UM_CALL_SYNCHRONIZE = 13,
    UM_CALL_CLEAR_ERROR = 14,
    UM_CALL_SUPPORTS = 15,
    UM_CALL_ENQUEUE = 16,
    UM_CALL_ENQUEUE_BATCH = 17, /* one for each op of it */
    UM_CALL_COPY_HOST = 18,
    UM_CALL_CALL = 19 /* um_stream_callback */
};

/* One call. What does not apply is 0. */
typedef struct um_call {
    uint32_t struct_size; /* set by the caller of um_call_get; a field past it is not written */
    um_call_kind kind;
    um_status status;    /* what it returned; supports: OK or UNSUPPORTED */
    int32_t stream;      /* the device's streams count from 1, in the order they were made */
    um_op_id op;         /* supports, enqueue, enqueue_batch */
    um_dtype dtype;      /* ... of its first output */
    int64_t elements;    /* ... that it writes */
    uint64_t size_bytes; /* of alloc, write, read, copies, fill; of an op's views, packed */
    um_ptr ptr;          /* what is allocated, freed, written or read; an op's first output */
    int64_t batch_index, batch_count; /* enqueue_batch */
} um_call;

/* How many calls the device's record layer (the outermost, if there are several) has seen since it
 * was opened or cleared; 0 without such a layer. */
UM_API int64_t um_call_count(um_device *device);
/* Call `index`, from 0. NOT_FOUND: the device has no record layer. OUT_OF_RANGE: no such call, or
 * one that there was no memory to keep. INVALID_ARGUMENT: NULL, struct_size not set. */
UM_API UM_MUST_CHECK um_status um_call_get(um_device *device, int64_t index, um_call *out);
/* Forgets them. */
UM_API void um_call_clear(um_device *device);
/* "alloc", "enqueue", ...; "none" for a number that is no kind. Never NULL. */
UM_API const char *um_call_kind_name(um_call_kind kind);

#ifdef __cplusplus
}
#endif
#endif
