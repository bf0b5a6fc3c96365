/* backend/vulkan/vulkan.h: what the files of the Vulkan backend share.
 *
 *   loader.c   the library, the devices that can be used, and opening one
 *   memory.c   blocks of memory, pieces of them, and the addresses that stand for them
 *   batch.c    commands on their way: recorded, submitted, waited for, let go
 *   stream.c   tickets, failures that come later, bytes
 *   recorder.c  work that is recorded once
 *   launch.c   kernels: compiling them once, giving them arguments
 *   vulkan.c   devices and the table of entries
 *
 * Locks: streams' first, by address, then the device's. Nothing waits for the device with one held.
 */
#ifndef UM_BACKEND_VULKAN_VULKAN_H
#define UM_BACKEND_VULKAN_VULKAN_H

#include "backend/vulkan/vk.h"
#include "device/blocks.h"
#include "device/hazards.h"
#include "device/kdriver.h"

#include <stdatomic.h>
#include <umbel/backend.h>

/* ---- loader.c ------------------------------------------------------------------------------- */

typedef struct um_vk_physical {
    vk_handle handle;
    vk_properties properties;
    uint64_t allocation_max_bytes;
    uint32_t types;         /* um_kdriver's: those whose values and memory it has */
    uint32_t subgroup_size; /* that a kernel can ask for; 0: it has no use of subgroups */
    uint32_t modes;         /* of floats, um_render_spirv's */
    uint32_t family, queue_count;
    vk_memory_properties memory;
    bool has_budget; /* it says how much memory is free */
    um_kunit unit;
    um_matrix_tile tile[UM_MATRIX_TILES_MAX];
    vk_features features; /* those that are used */
    vk_more_features more[VK_WITHS];
    uint32_t core; /* bit: `more` that are there without their extension */
} um_vk_physical;

/* The same list for the whole process. With none, why says what is missing. */
um_status um_vk_enumerate(int32_t *count, char *why, size_t why_size);
const um_vk_physical *um_vk_device_at(int32_t ordinal);
um_status um_vk_open(um_backend_device *device); /* of its `physical` */
/* A call that returned `code`: the status it is, recorded with the code as native. */
um_status um_vk_fail(const char *call, int32_t code);

/* ---- memory.c ------------------------------------------------------------------------------- */

enum { UM_VK_QUEUES = 8, UM_VK_COMMANDS = 128 }; /* of a batch at most */
enum {
    UM_VK_HOST = VK_MEMORY_VISIBLE | VK_MEMORY_COHERENT,
    UM_VK_SHARED = UM_VK_HOST | VK_MEMORY_LOCAL
};

struct um_backend_device {
    const um_vk_physical *physical;
    vk_handle handle;
    um_vk_calls vk;
    bool by_address, is_mapped; /* how kernels see memory; whether the host sees the device's */
    um_kdriver k;
    vk_object set_layout, layout; /* of all kernels */
    uint32_t descriptor_count;
    vk_handle queue[UM_VK_QUEUES];
    uint32_t queue_count;
    um_mutex mutex; /* of what follows, and submitting */
    uint32_t next_queue;
    um_blocks blocks;         /* the device's, the host's */
    struct um_vk_batch *idle; /* batches to be used again */
    struct um_vk_fault *spare;
    struct um_vk_timeline *timelines; /* that no stream has */
};

/* Of those in `bits` the first type of memory that has what it must, and if one does, what is
 * better to have; -1: none has. */
int32_t um_vk_memory_type(const um_vk_physical *p, uint32_t bits, uint32_t must, uint32_t better);
void um_vk_memory_init(um_backend_device *device);
/* Of the device's memory, or of the host's, which both see. um_vk_free is for either. */
um_status um_vk_take(um_backend_device *device, uint64_t size_bytes, bool is_host, um_ptr *out);
um_status um_vk_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out);
void um_vk_free(um_backend_device *device, um_ptr ptr);
/* The buffer of an address that is in one, and where in it; where the host sees it, or NULL. `host`
 * may be NULL. */
vk_range um_vk_find(um_backend_device *device, um_ptr ptr, uint64_t size_bytes, void **host);

/* ---- batch.c -------------------------------------------------------------------------------- */

/* The head of what several need, until their batches are done. */
typedef struct um_vk_shared {
    _Atomic int32_t refs;
    void (*destroy)(um_backend_device *device, void *self);
} um_vk_shared;

/* A stream's semaphore, which later work of others may wait for; then another stream's. */
typedef struct um_vk_timeline {
    um_vk_shared shared;
    vk_object semaphore;
    uint64_t last; /* no stream has used a higher number */
    struct um_vk_timeline *next;
} um_vk_timeline;

enum { UM_VK_WORDS = 64 };

/* What an op may find out while it runs: a word of the device's memory, and what it is if that is
 * not 0. */
typedef struct um_vk_finding {
    um_ptr word;
    um_error error;
} um_vk_finding;

/* Their words, fetched. Held by each batch whose stream depends on it. */
typedef struct um_vk_fault {
    um_vk_shared shared;
    um_ptr ptr; /* UM_VK_WORDS words of the host's memory */
    void *host; /* where the host sees them */
    int32_t count;
    const um_vk_finding *findings;
    um_vk_finding own;                  /* that of one op */
    struct um_backend_stream *recorder; /* a reference: whose they are, or NULL */
    struct um_vk_fault *next;           /* to be used again */
} um_vk_fault;

/* What a batch needs until it is done. */
typedef struct um_vk_held {
    void *shared;       /* a reference; NULL: */
    um_ptr memory;      /* to be freed */
    um_vk_fault *fault; /* the same as shared, if it is one */
} um_vk_held;

typedef struct um_vk_batch {
    struct um_vk_batch *next; /* the one after it, or unused */
    uint64_t number;          /* what the stream's semaphore is when it is done */
    vk_object pool;
    vk_handle commands;
    vk_object sets, set[UM_VK_COMMANDS]; /* 0 where kernels see memory by address */
    int32_t command_count;
    um_vk_held *held;
    int64_t held_count, held_capacity;
    uint64_t staged_bytes;
    vk_object wait; /* 0: for nobody */
    uint64_t wait_value;
    vk_handle replayed; /* commands recorded before, behind its own; NULL: none */
} um_vk_batch;

struct um_backend_stream {
    um_vk_shared shared; /* a recorder's: its owner's, and of batches that replay it */
    um_backend_device *device;
    vk_handle queue;
    um_vk_timeline *timeline;
    um_mutex mutex;                     /* of what follows, since other threads ask for tickets */
    um_vk_batch *open, *first, *newest; /* recorded into; submitted, oldest first */
    uint64_t last;                      /* the highest number a batch has had */
    uint64_t batch_count, staged_bytes; /* of those submitted; of all that are not done */
    um_error error;                     /* code OK: none */
    um_hazards hazards;
    um_ptr scratch;
    uint64_t scratch_bytes;
    /* Of a recorder, whose batches stay as they are, to be submitted again and again: */
    bool records;
    um_vk_finding *finding;
    int64_t finding_count, finding_capacity;
    um_block_list places; /* that its commands use */
};

/* All with the stream's mutex held. begin, before each command: there is an open batch, with room
 * for it; or the stream's error is returned. */
um_status um_vk_begin(um_backend_stream *stream);
/* A barrier, if a command of these uses needs one. */
void um_vk_order(um_backend_stream *stream, int32_t count, const um_use *use);
/* Commands, in order. */
void um_vk_copy_bytes(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes);
void um_vk_fill_words(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint32_t word);
/* For the open batch, which takes it, also with a failure. */
um_status um_vk_keep(um_backend_stream *stream, um_vk_held held);
/* The host's memory, for the open batch: a copy of the bytes. */
um_status um_vk_stage(um_backend_stream *stream, const void *bytes, uint64_t size_bytes,
                      um_ptr *out);
/* Submits the open batch; a failure becomes the stream's. */
um_status um_vk_flush(um_backend_stream *stream);
/* Lets go of what is done: as the device says; as a call says that waited and gave `code`. */
void um_vk_settle(um_backend_stream *stream);
void um_vk_settle_to(um_backend_stream *stream, uint64_t value, int32_t code);
/* Throws the open batch away. */
void um_vk_discard(um_backend_stream *stream);
/* A batch of which nothing runs any more, with what it held. */
void um_vk_give_batch(um_backend_device *device, um_vk_batch *batch);

/* Of a device and a um_vk_shared, NULL is legal; and one reference more, for a batch. */
void um_vk_unref(void *device, void *shared);
um_vk_held um_vk_ref(um_vk_shared *shared);
void um_vk_batches_release(um_backend_device *device);

/* ---- stream.c ------------------------------------------------------------------------------- */

um_status um_vk_stream_create(um_backend_device *device, um_backend_stream **out);
void um_vk_stream_destroy(um_backend_stream *stream);
void um_vk_timelines_release(um_backend_device *device);
um_status um_vk_record(um_backend_stream *stream, uint64_t *ticket);
um_status um_vk_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket);
um_status um_vk_query(um_backend_stream *stream, uint64_t ticket);
um_status um_vk_synchronize(um_backend_stream *stream, uint64_t ticket);
um_status um_vk_clear_error(um_backend_stream *stream);
um_status um_vk_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes);
um_status um_vk_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes);
um_status um_vk_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes);
um_status um_vk_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                     uint32_t pattern_bytes);
/* The stream's error, if it has one by now; before, where what is on its way takes much of the
 * host's memory, waits for some. */
um_status um_vk_make_room(um_backend_stream *stream);

/* ---- recorder.c ----------------------------------------------------------------------------- */

um_status um_vk_recorder(um_backend_stream *stream, um_backend_stream **out);
/* What is found for one more op, in the recorder's scratch. */
um_status um_vk_collect(um_backend_stream *recorder, const um_error *error);
/* What a command of its uses; a failure becomes its error. */
void um_vk_note(um_backend_stream *recorder, int32_t count, const um_use *use);
um_status um_vk_replay(um_backend_stream *stream, um_backend_stream *recorder);

/* ---- launch.c ------------------------------------------------------------------------------- */

um_status um_vk_enqueue(um_backend_stream *stream, const um_op *op);
um_status um_vk_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form);
um_status um_vk_layout_create(um_backend_device *device);
/* Copies the words of findings, which are next to each other, to the host, where they are looked at
 * when that is done. recorder: whose they are; NULL: one, which is copied. */
um_status um_vk_fetch(um_backend_stream *stream, int32_t count, const um_vk_finding *findings,
                      um_backend_stream *recorder);
void um_vk_faults_release(um_backend_device *device); /* those that are spare */
/* A um_kcache_desc's; what it makes is a um_vk_shared. */
um_status um_vk_program_compile(void *ctx, const um_kernel *kernel, void **object);

#endif
