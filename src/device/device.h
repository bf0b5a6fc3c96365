/* device/device.h: the inside of um_device and um_stream, and what the files of this folder and the
 * tensor face share. Public calls are in umbel/device.h.
 *
 * Locks: none is held while a backend is called, and none is taken while another one is held. */
#ifndef UM_DEVICE_DEVICE_H
#define UM_DEVICE_DEVICE_H

#include "base/base.h"
#include "base/os.h"
#include "device/layer.h"
#include "device/memmap.h"

#include <stdatomic.h>
#include <umbel/backend.h>
#include <umbel/select.h>

#define UM_DEVICE_NAME_MAX   320 /* a spec is shorter, but for what "l0" stands for */
#define UM_DEVICE_KIND_COUNT (UM_DEVICE_INTERP + 1)
#define UM_SPEC_LAYERS_MAX   8

/* Memory that is free once its stream has come so far. */
typedef struct um_pending_free {
    um_event event;
    um_ptr ptr;
    uint64_t size_bytes;
} um_pending_free;

#define UM_CHAIN_MAX 16

/* How a device finds another one for what it lacks. */
typedef struct um_fallback {
    um_device_ref chain[UM_CHAIN_MAX];
    int32_t chain_count;
    bool chain_is_set; /* false: the default, not yet looked for */
    bool strict;
    um_fallback_fn fn;
    void *user;
} um_fallback;

/* A stream's way to another device. */
typedef struct um_fallback_lane {
    um_device_ref ref;
    um_device *device; /* a reference */
    um_stream *stream; /* its own */
} um_fallback_lane;

/* What um_alloc_async has to give; under the device's mutex. */
typedef struct um_pool_block um_pool_block;
enum { UM_POOL_CLASSES = 256 };
typedef struct um_pool {
    um_pool_block *idle[UM_POOL_CLASSES]; /* by size */
    uint64_t in_use_bytes, idle_bytes, in_use_high_bytes, reserved_high_bytes;
    uint64_t alloc_count, reuse_count;
} um_pool;

struct um_device {
    _Atomic int32_t refs;                 /* falls to 0 under the registry's mutex only */
    um_device *next;                      /* in the registry */
    um_driver driver;                     /* the outermost layer, or the backend */
    um_driver layers[UM_SPEC_LAYERS_MAX]; /* innermost first */
    int32_t layer_count;
    um_device_ref ref;
    um_device_info info;
    char name[UM_DEVICE_NAME_MAX];
    bool debug_dispatch; /* UMBEL_DEBUG=dispatch */

    um_mutex mutex; /* the map and the pending frees */
    um_memmap map;
    um_pending_free *pending; /* a queue, oldest first: pending_first .. pending_count - 1 */
    int64_t pending_first, pending_count, pending_capacity;
    uint64_t pending_bytes;
    um_pool pool;

    um_fallback fallback; /* under mutex */
    _Atomic uint64_t fallback_count;

    um_stream *streams; /* under the mutex in stream.c */

    um_mutex attach_mutex;
    void *attachment; /* under attach_mutex: the layer above's own, see um_device_attach */
    void (*attachment_destroy)(void *attachment);
};

struct um_stream {
    um_device *device; /* a reference, unless the stream is the device's own */
    um_backend_stream *handle;
    uint64_t id;
    bool device_owned;
    um_fallback_lane *lanes; /* of who uses the stream */
    int64_t lane_count, lane_capacity;
    struct um_graph *capture; /* what it is asked becomes a part of, or NULL */
    void *room;               /* of launches */
    size_t room_bytes;
    struct um_recording *recordings; /* of graphs launched on it */
    _Atomic uint32_t clears;         /* of its error, counted before and after */
    /* under the mutex in stream.c */
    int32_t refs; /* the owner's, and one for each call that found it by id */
    um_stream *bucket_next;
    um_stream *device_next, *device_prev;
};

/* ---- registry.c ----------------------------------------------------------------------------- */

const um_backend *um_backend_at(int32_t index); /* index is valid; loads a plugin */
const char *um_backend_name_at(int32_t index);  /* loads nothing */
bool um_backend_is_built_in(const char *name);
/* For tests: more backends, behind those of the build. `items` lives until the next call. */
void um_registry_set_extra(const um_backend *const *items, int32_t count);
/* What the backend says of its device; both numbers are valid. */
um_status um_registry_describe(int32_t backend_index, int32_t ordinal, um_device_info *out);
/* The open device with that name, with a reference for the caller, or NULL. */
um_device *um_registry_find(const char *name);
/* Adds the device, unless one of its name got there first, which is returned then. */
um_device *um_registry_add(um_device *device);
/* One reference more, unless the last one is gone: false. */
bool um_registry_retain(um_device *device);
/* Gives up a reference; true: it was the last, and the device is out of the registry. */
bool um_registry_drop(um_device *device);
/* "cpu:0 (AMD EPYC), null:0 (...), vulkan: no loader" */
void um_registry_list(char *text, size_t text_size);

/* ---- spec.c --------------------------------------------------------------------------------- */

#define UM_SPEC_PARAMS_MAX 64

/* What a device spec says: the device, and the layers, innermost first. */
typedef struct um_spec {
    um_device_ref device;
    bool is_auto; /* device is not set */
    int32_t layer_count;
    struct {
        const um_layer *layer;
        char params[UM_SPEC_PARAMS_MAX]; /* "call:3" of "fault=call:3"; "" */
    } layers[UM_SPEC_LAYERS_MAX];
} um_spec;
/* NOT_FOUND, with a message that lists what there is. */
um_status um_spec_parse(const char *text, um_spec *out);
/* "validate+trace" instead of what layers *spec has; "" is none. */
um_status um_spec_parse_layers(const char *text, um_spec *spec);

/* ---- open.c --------------------------------------------------------------------------------- */

/* um_open of a spec that is not auto. */
um_status um_open_spec(const um_spec *spec, um_device **out);

/* ---- select.c ------------------------------------------------------------------------------- */

/* um_fallback_chain of a request for nothing, whatever UMBEL_DEVICE says. NOT_FOUND with must_find,
 * when there is none. */
um_status um_select_any(bool must_find, um_device_ref *list, int32_t capacity, int32_t *count);

/* ---- dispatch.c ----------------------------------------------------------------------------- */

/* Who runs an op: nobody, for it writes nothing; the device; or, from 0, a lane of the stream. */
typedef int32_t um_runner;
enum { UM_RUNS_NOWHERE = -2, UM_RUNS_HERE = -1 };

/* All that um_enqueue checks. The pointers of an op that runs nowhere were not looked at. */
um_status um_dispatch_check(um_stream *stream, const um_op *op, um_runner *out);

/* ---- fallback.c ----------------------------------------------------------------------------- */

/* Which of the stream's lanes leads to a device that runs the op, which the stream's own refuses
 * for `why`. UNSUPPORTED: none, or strict. */
um_status um_fallback_find(um_stream *stream, const um_op *op, const char *why, um_runner *out);
/* Runs it there and waits; see umbel/select.h. */
um_status um_fallback_run(um_stream *stream, um_runner lane, const um_op *op);
/* With the stream. */
void um_fallback_release(um_stream *stream);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* Whether all bytes first .. first + size_bytes - 1 are in one live allocation. With device->mutex
 * held. */
bool um_memory_holds(um_device *device, um_ptr first, uint64_t size_bytes);
/* Frees what is pending and done; with `wait` all of it. Its errors are um_event_settle's. */
um_status um_memory_reclaim(um_device *device, bool wait);
/* um_free_async without an event: done for other streams only when the stream has no work at all.
 * May be called while another thread uses the stream. */
um_status um_free_behind(um_stream *stream, um_ptr ptr);
/* Everything still allocated. The device has no stream any more. */
void um_memory_release(um_device *device);

/* ---- pool.c --------------------------------------------------------------------------------- */

/* The block, of um_memmap_owner, is idle once `freed` is done. */
void um_pool_take_back(um_device *device, um_pool_block *block, um_event freed);
/* Frees idle blocks, waiting for their streams, until the pool has no more than that. Its errors
 * are um_event_settle's. */
um_status um_pool_shrink(um_device *device, uint64_t keep_bytes);
/* When the pool keeps too much: frees what nobody uses, or with `wait` may use. */
um_status um_pool_tidy(um_device *device, bool wait);
/* A block (or NULL) whose memory is gone. */
void um_pool_forget(um_pool_block *block);

/* ---- capture.c: for a stream that captures --------------------------------------------------- */

/* What was asked has been checked. here: by the device itself; then several are a batch. */
um_status um_capture_ops(um_stream *stream, int64_t count, const um_op *const *ops, bool here);
um_status um_capture_copy(um_stream *stream, um_copy_kind kind, um_ptr dst, um_ptr src,
                          uint64_t size_bytes);
um_status um_capture_fill(um_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                          uint32_t pattern_bytes);
um_status um_capture_write(um_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes);
um_status um_capture_call(um_stream *stream, um_stream_fn fn, void *user);
/* INVALID_ARGUMENT: it does capture. */
um_status um_not_capturing(um_stream *stream, const char *who);
/* Throws away what it has. */
void um_capture_drop(um_stream *stream);
/* What is recorded of graphs for the stream: all, or of those that are gone. */
void um_recordings_drop(um_stream *stream, bool all);

/* ---- stream.c ------------------------------------------------------------------------------- */

um_status um_stream_open(um_device *device, int32_t priority, bool device_owned, um_stream **out);
/* Whether the thread is in a stream's callback, which must not wait. */
bool um_in_callback(void);
/* INVALID_ARGUMENT: it is. */
um_status um_may_wait(const char *who);
/* *done: whether the event's work is, or its stream gone; with `wait` it is. The error of a stream
 * that failed is left to it to tell; a failure of the asking itself is returned. */
um_status um_event_settle(um_event event, bool wait, bool *done);
/* Waits for all streams of the device. The error of one that has failed; with own_only of the
 * waiting itself, as um_event_settle. */
um_status um_streams_synchronize(um_device *device, bool own_only);

/* ---- for the tensor face (open.c) ------------------------------------------------------------ */

/* The one object that the layer above keeps on a device: made at the first call, destroyed when the
 * device goes, before its memory. It holds no reference to the device; a stream of its own comes
 * from um_stream_open with device_owned. */
um_status um_device_attach(um_device *device, um_status (*make)(um_device *device, void **out),
                           void (*destroy)(void *attachment), void **out);

#endif
