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

#define UM_DEVICE_NAME_MAX 128

/* Memory that is free once its stream has come so far. */
typedef struct um_pending_free {
    um_event event;
    um_ptr ptr;
    uint64_t size_bytes;
} um_pending_free;

struct um_device {
    _Atomic int32_t refs; /* falls to 0 under the registry's mutex only */
    um_device *next;      /* in the registry */
    um_driver driver;     /* the outermost layer, or the backend */
    um_device_info info;
    char name[UM_DEVICE_NAME_MAX];
    bool debug_dispatch; /* UMBEL_DEBUG=dispatch */

    um_mutex mutex; /* the map and the pending frees */
    um_memmap map;
    um_pending_free *pending; /* a queue, oldest first: pending_first .. pending_count - 1 */
    int64_t pending_first, pending_count, pending_capacity;
    uint64_t pending_bytes;

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
    /* under the mutex in stream.c */
    int32_t refs; /* the owner's, and one for each call that found it by id */
    um_stream *bucket_next;
    um_stream *device_next, *device_prev;
};

/* ---- registry.c ----------------------------------------------------------------------------- */

const um_backend *um_backend_at(int32_t index); /* index is valid */
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

#define UM_SPEC_LAYERS_MAX 8

/* What a device spec says: the backend's index, its device, and the layers, innermost first. */
typedef struct um_spec {
    int32_t backend_index, ordinal, layer_count;
    const um_layer *layers[UM_SPEC_LAYERS_MAX];
} um_spec;
/* NOT_FOUND, with a message that lists what there is. */
um_status um_spec_parse(const char *text, um_spec *out);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* Whether all bytes first .. first + size_bytes - 1 are in one live allocation. With device->mutex
 * held. */
bool um_memory_holds(um_device *device, um_ptr first, uint64_t size_bytes);
/* Frees what is pending and done; with `wait` all of it. */
void um_memory_reclaim(um_device *device, bool wait);
/* Everything still allocated. The device has no stream any more. */
void um_memory_release(um_device *device);

/* ---- dispatch.c ----------------------------------------------------------------------------- */

/* All that um_enqueue checks; is_empty: the op writes nothing, and the pointers were not looked at.
 */
um_status um_dispatch_check(um_device *device, const um_op *op, bool *is_empty);

/* ---- stream.c ------------------------------------------------------------------------------- */

um_status um_stream_open(um_device *device, bool device_owned, um_stream **out);
/* Whether the event's work is done, or its stream gone; with `wait` it is. Leaves the last error
 * alone. */
bool um_event_is_done(um_event event, bool wait);
/* Waits for all streams of the device; the error of one that has failed. */
um_status um_streams_synchronize(um_device *device);

/* ---- for the tensor face (open.c) ------------------------------------------------------------ */

/* The one object that the layer above keeps on a device: made at the first call, destroyed when the
 * device goes, before its memory. It holds no reference to the device; a stream of its own comes
 * from um_stream_open with device_owned. */
um_status um_device_attach(um_device *device, um_status (*make)(um_device *device, void **out),
                           void (*destroy)(void *attachment), void **out);

#endif
