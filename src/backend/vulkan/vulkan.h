/* backend/vulkan/vulkan.h: what the files of the Vulkan backend share.
 *
 *   loader.c   the library, the devices that can be used, and opening one
 *   memory.c   blocks of memory, pieces of them, and the addresses that stand for them
 *   batch.c    commands on their way: recorded, submitted, waited for, let go
 *   stream.c   tickets, failures that come later, bytes
 *   launch.c   kernels: compiling them once, giving them arguments
 *   vulkan.c   devices and the table of entries
 *
 * Locks: a stream's first, then the device's, then a queue's. Nothing waits for the device with one
 * held. */
#ifndef UM_BACKEND_VULKAN_VULKAN_H
#define UM_BACKEND_VULKAN_VULKAN_H

#include "backend/vulkan/vk.h"
#include "device/disk.h"
#include "device/planner.h"
#include "device/tune.h"

#include <stdatomic.h>
#include <umbel/backend.h>

/* ---- loader.c ------------------------------------------------------------------------------- */

/* What a device has, beyond what it must. */
enum {
    UM_VK_F64 = 1 << 0,
    UM_VK_I64 = 1 << 1,
    UM_VK_I16 = 1 << 2, /* values and memory */
    UM_VK_I8 = 1 << 3,
    UM_VK_ADDRESSES = 1 << 4,
};

enum { UM_VK_MORE_FEATURES = 7 };
typedef struct um_vk_physical {
    vk_handle handle;
    vk_properties properties;
    uint64_t allocation_max_bytes;
    uint32_t has;
    uint32_t subgroup_size; /* that a kernel can ask for; 0: it has no use of subgroups */
    uint32_t modes;         /* of floats, um_render_spirv's */
    uint32_t family, queue_count;
    vk_memory_properties memory;
    vk_features features; /* those that are used */
    vk_more_features more[UM_VK_MORE_FEATURES];
    uint32_t core; /* bit: `more` that are there without their extension */
} um_vk_physical;

/* The same list for the whole process. With none, why says what is missing. */
int32_t um_vk_devices(const um_vk_physical **out, char *why, size_t why_size);
um_status um_vk_open(const um_vk_physical *physical, vk_handle *device, um_vk_calls *calls);
/* A call that returned `code`: the status it is, recorded with the code as native. */
um_status um_vk_fail(const char *call, int32_t code);

/* ---- memory.c ------------------------------------------------------------------------------- */

typedef struct um_vk_piece {
    uint64_t offset, size_bytes;
    bool used;
} um_vk_piece;

/* One buffer over memory of its own. Addresses are the device's where it has such; else our own
 * numbers, given once and never again. */
typedef struct um_vk_block {
    struct um_vk_block *next; /* of staging memory that waits for use */
    um_ptr base;
    uint64_t size_bytes;
    vk_object buffer, memory;
    uint8_t *mapped;    /* NULL: the host does not see it */
    um_vk_piece *piece; /* by offset, all of the block */
    int64_t count, capacity;
} um_vk_block;

typedef struct um_vk_queue {
    vk_handle handle;
    um_mutex mutex; /* of submitting */
} um_vk_queue;

enum { UM_VK_QUEUES = 8, UM_VK_FAULTS = 1024 };

struct um_backend_device {
    const um_vk_physical *physical;
    vk_handle handle;
    um_vk_calls vk;
    bool by_address, is_mapped; /* how kernels see memory; whether the host sees the device's */
    uint32_t types;             /* um_spirv_flavour_lacks' */
    um_disk *pipelines;         /* kept between runs */
    um_klimits limits;
    um_kcache *kernels;
    um_tune *tune;
    um_tune_device timed;
    um_vk_queue queue[UM_VK_QUEUES];
    uint32_t queue_count;
    um_mutex mutex; /* of what follows */
    uint32_t next_queue;
    um_vk_block **block; /* by address */
    int64_t block_count, block_capacity;
    um_ptr next_base;
    um_vk_block *staging; /* unused */
    uint64_t staging_bytes;
    struct um_vk_batch *idle; /* batches to be used again */
    um_vk_block *fault_words;
    int32_t fault_free_count;
    uint16_t fault_free[UM_VK_FAULTS];
};

um_status um_vk_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out);
void um_vk_free(um_backend_device *device, um_ptr ptr);
/* The block of an address that is in one, and where in it. */
const um_vk_block *um_vk_find(um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes);
/* Memory that the host sees: at least so much, to be given back. */
um_status um_vk_staging_take(um_backend_device *device, uint64_t size_bytes, um_vk_block **out);
void um_vk_staging_give(um_backend_device *device, um_vk_block *block);
/* All of it, when the device goes. */
void um_vk_memory_release(um_backend_device *device);

/* ---- batch.c -------------------------------------------------------------------------------- */

/* A stream's semaphore, which later work of others may wait for. */
typedef struct um_vk_timeline {
    _Atomic int32_t refs;
    vk_object semaphore;
} um_vk_timeline;

/* What an op finds out while it runs. Held by each batch whose stream depends on it. */
typedef struct um_vk_fault {
    _Atomic int32_t refs;
    uint16_t word;  /* of fault_words */
    um_error error; /* what it is if the word is not 0 */
} um_vk_fault;

/* What a batch needs until it is done. */
typedef enum um_vk_hold {
    UM_VK_HOLDS_PROGRAM,
    UM_VK_HOLDS_FAULT,
    UM_VK_HOLDS_TIMELINE,
    UM_VK_HOLDS_STAGING,
    UM_VK_HOLDS_MEMORY
} um_vk_hold;
typedef struct um_vk_held {
    um_vk_hold what;
    void *object;
    um_ptr memory;
} um_vk_held;

enum { UM_VK_WAITS = 8, UM_VK_USES = 64 };

typedef struct um_vk_batch {
    struct um_vk_batch *next; /* the one after it, or unused */
    uint64_t number;          /* what the stream's semaphore is when it is done */
    vk_object pool, sets;     /* sets: 0 where kernels see memory by address */
    vk_handle commands;
    int32_t command_count, descriptor_count;
    um_vk_held *held;
    int64_t held_count, held_capacity;
    um_vk_block *staging; /* held; used up to: */
    uint64_t staging_used, staged_bytes;
    int32_t wait_count;
    vk_object wait[UM_VK_WAITS];
    uint64_t wait_value[UM_VK_WAITS];
} um_vk_batch;

/* A range that commands since the last barrier read or write. */
typedef struct um_vk_use {
    um_ptr begin, end;
    bool written;
} um_vk_use;

struct um_backend_stream {
    um_backend_device *device;
    um_vk_queue *queue;
    um_vk_timeline *timeline;
    um_mutex mutex;                     /* of what follows, since other threads ask for tickets */
    um_vk_batch *open, *first, *newest; /* recorded into; submitted, oldest first */
    uint64_t last;                      /* the highest number a batch has had */
    um_error error;                     /* code OK: none */
    um_vk_use use[UM_VK_USES];
    int32_t use_count;
    um_ptr scratch;
    uint64_t scratch_bytes;
};

/* All with the stream's mutex held. begin, before each command: there is an open batch, with room
 * for it and so many descriptors. */
um_status um_vk_begin(um_backend_stream *stream, int32_t descriptors);
/* A barrier, if the uses, in one command, meet those before. */
void um_vk_order(um_backend_stream *stream, int32_t count, const um_vk_use *use);
/* For the open batch, which takes it, also with a failure. */
um_status um_vk_keep(um_backend_stream *stream, um_vk_held held);
/* Staging memory of the open batch. */
um_status um_vk_stage(um_backend_stream *stream, uint64_t size_bytes, const um_vk_block **block,
                      uint64_t *offset);
/* Submits the open batch; a failure becomes the stream's. */
um_status um_vk_flush(um_backend_stream *stream);
/* Lets go of what is done: as the device says; as the caller knows of a call that gave `code`. */
void um_vk_settle(um_backend_stream *stream);
void um_vk_settle_to(um_backend_stream *stream, uint64_t value, const char *call, int32_t code);
/* Throws the open batch away. */
void um_vk_discard(um_backend_stream *stream);
/* Keeps the first error. */
void um_vk_become(um_backend_stream *stream, const um_error *error);
void um_vk_batches_release(um_backend_device *device);

/* Without. Waits until the stream's semaphore has the value; a VkResult. */
int32_t um_vk_await(um_backend_device *device, const um_vk_timeline *timeline, uint64_t value);
um_status um_vk_timeline_create(um_backend_device *device, um_vk_timeline **out);
void um_vk_timeline_unref(um_backend_device *device, um_vk_timeline *timeline);
void um_vk_fault_unref(um_backend_device *device, um_vk_fault *fault);

/* ---- stream.c ------------------------------------------------------------------------------- */

um_status um_vk_stream_create(um_backend_device *device, um_backend_stream **out);
void um_vk_stream_destroy(um_backend_stream *stream);
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
/* The stream's error, if it has one by now. */
um_status um_vk_state(um_backend_stream *stream);

/* ---- launch.c ------------------------------------------------------------------------------- */

um_status um_vk_enqueue(um_backend_stream *stream, const um_op *op);
um_status um_vk_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form);
/* A um_kcache_desc's. */
um_status um_vk_program_compile(void *ctx, const um_kernel *kernel, void **object);
void um_vk_program_destroy(void *ctx, void *object);

#endif
