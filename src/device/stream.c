/* Streams and events: the public calls, and the table of live streams in which an event finds its
 * own. The order of the work itself is the backend's. */
#include "device/device.h"

#define BUCKETS 64

/* Live streams by id. Ids are never reused, so an event of a gone stream finds nothing. A stream
 * leaves the table when its last reference goes, which is under the mutex. */
static struct {
    um_mutex mutex;
    uint64_t last_id;
    um_stream *bucket[BUCKETS];
} streams = {.mutex = UM_MUTEX_INIT};

static um_stream **bucket_of(uint64_t id) { return &streams.bucket[id % BUCKETS]; }

/* ---- the table ------------------------------------------------------------------------------ */

static void table_add(um_stream *stream)
{
    um_device *device = stream->device;
    um_mutex_lock(&streams.mutex);
    stream->id = ++streams.last_id;
    um_stream **bucket = bucket_of(stream->id);
    stream->bucket_next = *bucket;
    *bucket = stream;
    stream->device_next = device->streams;
    if (device->streams) device->streams->device_prev = stream;
    device->streams = stream;
    um_mutex_unlock(&streams.mutex);
}

/* With the mutex held. */
static void table_remove(um_stream *stream)
{
    um_stream **link = bucket_of(stream->id);
    while (*link != stream) link = &(*link)->bucket_next;
    *link = stream->bucket_next;
    if (stream->device_next) stream->device_next->device_prev = stream->device_prev;
    if (stream->device_prev) {
        stream->device_prev->device_next = stream->device_next;
    } else {
        stream->device->streams = stream->device_next;
    }
}

static void stream_unref(um_stream *stream)
{
    um_mutex_lock(&streams.mutex);
    bool last = --stream->refs == 0;
    if (last) table_remove(stream);
    um_mutex_unlock(&streams.mutex);
    if (!last) return;
    um_recordings_drop(stream, true);
    stream->device->driver.table->stream_destroy(stream->handle);
    um_fallback_release(stream);
    um_mem_free(stream->room);
    if (!stream->device_owned) um_device_release(stream->device);
    um_mem_free(stream);
}

/* The event's stream, it and its device held until unpin; NULL: gone. */
static um_stream *pin(um_event event)
{
    um_mutex_lock(&streams.mutex);
    um_stream *stream = *bucket_of(event.stream_id);
    while (stream && stream->id != event.stream_id) stream = stream->bucket_next;
    if (stream && !um_registry_retain(stream->device)) stream = NULL;
    if (stream) stream->refs++;
    um_mutex_unlock(&streams.mutex);
    return stream;
}

static void unpin(um_stream *stream)
{
    um_device *device = stream->device;
    stream_unref(stream);
    um_device_release(device);
}

/* ---- life ----------------------------------------------------------------------------------- */

um_status um_stream_open(um_device *device, int32_t priority, bool device_owned, um_stream **out)
{
    *out = NULL;
    um_stream *stream = um_mem_zalloc(sizeof *stream);
    if (!stream) return UM_FAIL(UM_OUT_OF_MEMORY, "um_stream_create: no memory");
    um_status status = um_driver_stream_create(device->driver, priority, &stream->handle);
    if (status == UM_OK && !stream->handle)
        status = UM_FAIL(UM_INTERNAL, "um_stream_create: %s makes a stream and gives none",
                         device->name);
    if (status != UM_OK) {
        um_mem_free(stream);
        return status;
    }
    stream->device = device_owned ? device : um_device_retain(device);
    stream->device_owned = device_owned;
    stream->refs = 1;
    table_add(stream);
    *out = stream;
    return UM_OK;
}

um_status um_stream_create_priority(um_device *device, int32_t priority, um_stream **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_stream_create: out is NULL");
    *out = NULL;
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_stream_create: device is NULL");
    return um_stream_open(device, priority, false, out);
}

um_status um_stream_create(um_device *device, um_stream **out)
{
    return um_stream_create_priority(device, 0, out);
}

um_device *um_stream_device(um_stream *stream) { return stream ? stream->device : NULL; }

/* ---- callbacks ------------------------------------------------------------------------------ */

static _Thread_local bool in_callback;

bool um_in_callback(void) { return in_callback; }

typedef struct callback {
    um_stream_fn fn;
    void *user;
} callback;

um_status um_may_wait(const char *who)
{
    if (!in_callback) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: it waits, which a stream's callback must not", who);
}

static void run_callback(void *user, um_status status)
{
    callback own = *(callback *)user;
    um_error saved = *um_last_error();
    um_mem_free(user);
    in_callback = true;
    own.fn(own.user, status);
    in_callback = false;
    um_fail_again(&saved); /* the thread may be in a call of its own */
}

um_status um_stream_callback(um_stream *stream, um_stream_fn fn, void *user)
{
    if (!stream || !fn) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_stream_callback: %s is NULL",
                       stream ? "fn" : "stream");
    }
    if (stream->capture) return um_capture_call(stream, fn, user);
    callback *own = um_mem_alloc(sizeof *own);
    if (!own) return UM_FAIL(UM_OUT_OF_MEMORY, "um_stream_callback: no memory to note it");
    *own = (callback){fn, user};
    const um_backend *table = stream->device->driver.table;
    um_status status = table->call ? UM_OK : um_may_wait("um_stream_callback");
    if (status == UM_OK) status = um_table_call(table, stream->handle, run_callback, own);
    if (status != UM_OK) um_mem_free(own);
    return status;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static um_status no_stream(const char *who)
{
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: stream is NULL", who);
}

um_status um_synchronize(um_stream *stream)
{
    if (!stream) return no_stream("um_synchronize");
    UM_TRY(um_may_wait("um_synchronize"));
    UM_TRY(um_not_capturing(stream, "um_synchronize"));
    UM_TRY(stream->device->driver.table->synchronize(stream->handle, UINT64_MAX));
    return um_memory_reclaim(stream->device, false);
}

/* Waits for the ticket, of which the driver said `status` before, when stream->clears was `clears`.
 * A stream that failed fails again, and tells its error itself, unless somebody is clearing it; any
 * other failure was the asking's own. */
static um_status settle(um_stream *stream, uint64_t ticket, um_status status, uint32_t clears,
                        const um_error *saved)
{
    const um_backend *table = stream->device->driver.table;
    if (status == UM_NOT_READY) status = table->synchronize(stream->handle, ticket);
    if (status == UM_OK) return UM_OK;
    bool is_well = table->synchronize(stream->handle, ticket) == UM_OK;
    if (is_well && clears % 2 == 0 && atomic_load(&stream->clears) == clears) return status;
    um_fail_again(saved);
    return UM_OK;
}

/* Nobody is told but by um_last_error. */
void um_stream_release(um_stream *stream)
{
    if (!stream) return;
    um_capture_drop(stream);
    um_error saved = *um_last_error();
    uint32_t clears = atomic_load(&stream->clears);
    um_status status = stream->device->driver.table->synchronize(stream->handle, UINT64_MAX);
    (void)settle(stream, UINT64_MAX, status, clears, &saved);
    stream_unref(stream);
}

um_status um_streams_synchronize(um_device *device, bool own_only)
{
    um_status status = UM_OK;
    um_mutex_lock(&streams.mutex);
    um_stream *stream = device->streams;
    if (stream) stream->refs++;
    um_mutex_unlock(&streams.mutex);
    while (stream) {
        um_error saved = *um_last_error();
        uint32_t clears = atomic_load(&stream->clears);
        um_status own = device->driver.table->synchronize(stream->handle, UINT64_MAX);
        if (own != UM_OK && own_only) own = settle(stream, UINT64_MAX, own, clears, &saved);
        if (own != UM_OK) status = own;
        um_mutex_lock(&streams.mutex);
        um_stream *next = stream->device_next;
        if (next) next->refs++;
        um_mutex_unlock(&streams.mutex);
        stream_unref(stream);
        stream = next;
    }
    return status;
}

um_status um_device_synchronize(um_device *device)
{
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_device_synchronize: device is NULL");
    UM_TRY(um_may_wait("um_device_synchronize"));
    UM_TRY(um_streams_synchronize(device, false));
    return um_memory_reclaim(device, false);
}

um_status um_stream_clear_error(um_stream *stream)
{
    if (!stream) return no_stream("um_stream_clear_error");
    UM_TRY(um_may_wait("um_stream_clear_error"));
    UM_TRY(um_not_capturing(stream, "um_stream_clear_error"));
    const um_backend *table = stream->device->driver.table;
    um_status waited = table->synchronize(stream->handle, UINT64_MAX);
    atomic_fetch_add(&stream->clears, 1); /* odd while it is cleared */
    um_status status = table->clear_error(stream->handle);
    atomic_fetch_add(&stream->clears, 1);
    return status == UM_OK ? waited : status;
}

/* ---- events --------------------------------------------------------------------------------- */

um_status um_record(um_stream *stream, um_event *out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_record: out is NULL");
    *out = (um_event){0};
    if (!stream) return no_stream("um_record");
    UM_TRY(um_not_capturing(stream, "um_record"));
    uint64_t ticket;
    UM_TRY(stream->device->driver.table->record(stream->handle, &ticket));
    *out = (um_event){stream->id, ticket};
    return UM_OK;
}

um_status um_wait(um_stream *stream, um_event event)
{
    if (!stream) return no_stream("um_wait");
    UM_TRY(um_not_capturing(stream, "um_wait"));
    if (event.stream_id == stream->id) return UM_OK; /* a stream is in order already */
    um_stream *other = pin(event);
    if (!other) return UM_OK;
    const um_backend *table = other->device->driver.table;
    um_status status = UM_OK;
    if (other->device == stream->device) {
        status = table->wait(stream->handle, other->handle, event.ticket);
    } else {
        status = um_may_wait("um_wait");
        if (status == UM_OK) status = table->synchronize(other->handle, event.ticket);
    }
    unpin(other);
    return status;
}

um_status um_query(um_event event)
{
    um_stream *stream = pin(event);
    if (!stream) return UM_OK;
    um_status status = stream->device->driver.table->query(stream->handle, event.ticket);
    unpin(stream);
    return status;
}

um_status um_event_synchronize(um_event event)
{
    UM_TRY(um_may_wait("um_event_synchronize"));
    um_stream *stream = pin(event);
    if (!stream) return UM_OK;
    um_status status = stream->device->driver.table->synchronize(stream->handle, event.ticket);
    unpin(stream);
    return status;
}

um_status um_event_settle(um_event event, bool wait, bool *done)
{
    um_stream *stream = pin(event);
    *done = true;
    if (!stream) return UM_OK;
    um_error saved = *um_last_error();
    uint32_t clears = atomic_load(&stream->clears);
    um_status status = stream->device->driver.table->query(stream->handle, event.ticket);
    *done = wait || status != UM_NOT_READY;
    /* A failed stream drops what is left of its work; this waits for that. */
    status = *done ? settle(stream, event.ticket, status, clears, &saved) : UM_OK;
    unpin(stream);
    return status;
}
