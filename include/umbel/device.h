/* umbel/device.h: devices, memory, streams, events, and running an op.
 *
 * Devices and the registry may be used from any thread. One stream is used from one thread at a
 * time; different streams in parallel. All work is in stream order; nothing here waits for it
 * except where it says so.
 *
 * A failed asynchronous op makes its stream's state that error: every later wait, read, query and
 * enqueue on the stream returns it, with its origin, until um_stream_clear_error. Nothing hangs.
 * What a GPU had been given behind the failed op may have run on what that left (doc/ERRORS.md).
 * While a stream has failed, its events answer with that error, earlier ones too; once it is
 * cleared all of them are complete. What waits for others' work (um_free, um_free_async, an
 * allocation from the pool, um_pool_trim) leaves a stream's error to the stream, and returns a
 * failure of the waiting itself; the frees have freed even then. A stream's
 * release returns nothing, and leaves one as the thread's last error.
 */
#ifndef UMBEL_DEVICE_H
#define UMBEL_DEVICE_H

#include <umbel/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct um_device um_device;
typedef struct um_stream um_stream;

/* A point in a stream's order. Made by um_record only; copied freely; stays valid (and complete)
 * after the stream is gone. All zero is an event that is already complete. */
typedef struct um_event {
    uint64_t stream_id;
    uint64_t ticket;
} um_event;

/* ---- what there is ------------------------------------------------------------------------ */

typedef int32_t um_device_kind;
enum {
    UM_DEVICE_NONE = 0,
    UM_DEVICE_CUDA = 1,
    UM_DEVICE_ROCM = 2,
    UM_DEVICE_METAL = 3,
    UM_DEVICE_LEVEL_ZERO = 4,
    UM_DEVICE_VULKAN = 5,
    UM_DEVICE_WEBGPU = 6,
    UM_DEVICE_OPENCL = 7,
    UM_DEVICE_CPU = 8,
    UM_DEVICE_NULL = 9,
    UM_DEVICE_INTERP = 10 /* kernels, interpreted: for checking them */
};

/* What a device may have, as bits. */
enum {
    UM_FEATURE_FP16 = 1u << 0, /* kernels compute on f16, bf16, fp8 (e4m3fn and e5m2), f64 */
    UM_FEATURE_BF16 = 1u << 1,
    UM_FEATURE_FP8 = 1u << 2,
    UM_FEATURE_F64 = 1u << 3,
    UM_FEATURE_TENSOR_CORES = 1u << 4,   /* matrix units: um_caps.matrix_tiles says which shapes */
    UM_FEATURE_UNIFIED_MEMORY = 1u << 5, /* device pointers are host pointers */
    UM_FEATURE_PEER_ACCESS = 1u << 6,    /* reads another device's memory without the host */
    UM_FEATURE_CLUSTER_LAUNCH = 1u << 7, /* work-groups in clusters that share memory */
    UM_FEATURE_ASYNC_COPY = 1u << 8,     /* kernels copy to shared memory behind their own work */
    UM_FEATURE_TENSOR_MAP = 1u << 9      /* ... whole boxes of a tensor at once (TMA) */
};

typedef int32_t um_memory_kind;
enum {
    UM_MEMORY_UNKNOWN = 0,
    UM_MEMORY_HOST = 1,   /* the CPU's own */
    UM_MEMORY_DEVICE = 2, /* the device's own, behind a bus */
    UM_MEMORY_SHARED = 3  /* one memory for the CPU and the device */
};

/* What is known of a device without opening it. struct_size is set by the caller; a field past it
 * is not written. */
typedef struct um_device_info {
    uint32_t struct_size;
    um_device_kind kind;
    int32_t ordinal; /* within its backend */
    int32_t is_gpu;  /* hardware; 0 for the CPU and for a driver that computes on the CPU */
    char backend[16];
    char name[128];    /* the hardware's own name */
    char version[32];  /* compute capability "9.0", shader model, "gfx942"; CPU: "x86_64" */
    uint32_t features; /* UM_FEATURE_ bits */
    um_memory_kind memory_kind;
    uint64_t memory_total_bytes; /* 0: unknown */
} um_device_info;

/* A shape that matrix units multiply at once: m x n results over k addends. */
typedef struct um_matrix_tile {
    int32_t m, n, k;
    um_dtype input, accumulator; /* 0 where it does not matter */
} um_matrix_tile;

#define UM_MATRIX_TILES_MAX 32

/* What a device can do, probed, never assumed. struct_size is set by the caller; a field past it is
 * not written. 0 is "unknown" for sizes and "has no such thing" for limits. */
typedef struct um_caps {
    uint32_t struct_size;
    um_device_kind kind;
    char name[128];
    char isa[64];          /* CPU: the kernel set in use, "avx2+fma+f16c" */
    uint32_t storage;      /* bit (1u << um_dtype): buffers may hold it */
    uint32_t arithmetic;   /* bit (1u << um_dtype): kernels compute on it (narrow floats in f32) */
    int32_t compute_units; /* CPU: threads in use */
    int32_t subgroup_min, subgroup_max; /* CPU: SIMD lanes of f32 */
    uint32_t features;                  /* UM_FEATURE_ bits */
    uint64_t memory_total_bytes, memory_free_bytes;
    uint64_t buffer_max_bytes;
    uint64_t l1_bytes, l2_bytes, l3_bytes;
    char version[32]; /* as in um_device_info */
    um_memory_kind memory_kind;
    int32_t cores_physical, cores_logical; /* CPU: of those this process may run on */
    /* Limits of a kernel launch; the CPU has no work-groups. */
    int32_t group_size_max[3], group_invocations_max, group_count_max[3];
    int32_t bindings_max; /* buffers a kernel may take */
    uint64_t group_shared_bytes, binding_max_bytes;
    int32_t matrix_tile_count;
    um_matrix_tile matrix_tiles[UM_MATRIX_TILES_MAX];
} um_caps;

/* Backends compiled in, in order of preference, whether or not they have a device here; then those
 * of plugins (umbel/plugin.h). The number only grows. */
UM_API int32_t um_backend_count(void);
/* Name of backend `index`, how many devices it has, and, when it has none, why (a static or
 * thread-owned string valid until the thread's next call of it; "" otherwise). NULL outputs are
 * skipped: the name alone loads no plugin. OUT_OF_RANGE: no such index. */
UM_API UM_MUST_CHECK um_status um_backend_describe(int32_t index, const char **name,
                                                   int32_t *device_count, const char **why_none);
/* Device `ordinal` of the backend. OUT_OF_RANGE: no such one. INVALID_ARGUMENT: out is NULL or its
 * struct_size is not set. */
UM_API UM_MUST_CHECK um_status um_device_describe(int32_t backend_index, int32_t ordinal,
                                                  um_device_info *out);

/* ---- opening ------------------------------------------------------------------------------ */

/* spec: "auto" (the best device; CPU when there is nothing else; never null), or a word for a kind
 * (um_device_kind_parse) and, when it is not the first, which: "cpu", "nvidia:1"; each optionally
 * followed by layers, outermost last: "cpu+validate+trace" (umbel/layer.h). Case and surrounding
 * blanks do not matter. Instead of the word: a backend's own name, or the path of a plugin, with a
 * '/' in it: "./libtoy.so:0" (umbel/plugin.h). NULL or "": the environment's UMBEL_DEVICE, else
 * "auto".
 * Opening a device twice gives the same one again (a layered one is its own). NOT_FOUND: no such
 * backend, ordinal or layer; the message lists what there is and why the others are not. */
UM_API UM_MUST_CHECK um_status um_open(const char *spec, UM_GIVE um_device **out);
UM_API um_device *um_device_retain(UM_KEEP um_device *device);
/* The last release waits for all work. NULL is legal. */
UM_API void um_device_release(UM_TAKE um_device *device);

/* What it can do, free memory as of now. INVALID_ARGUMENT: NULL, or out->struct_size not set. */
UM_API UM_MUST_CHECK um_status um_device_caps(UM_KEEP um_device *device, um_caps *out);
/* "cpu:0", or with layers "cpu:0+trace". Lives as long as the device. */
UM_API const char *um_device_name(const um_device *device);

/* ---- memory ------------------------------------------------------------------------------- */

/* bytes 0 gives a valid unique pointer. Uninitialised; aligned to 64. OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_alloc(um_device *device, uint64_t size_bytes, um_ptr *out);
/* Waits for the device's work, then frees. 0 is legal. INVALID_ARGUMENT: not the start of a live
 * allocation. */
UM_API UM_MUST_CHECK um_status um_free(um_device *device, um_ptr ptr);
/* Frees once the work now in the stream is done; the pointer is dead for the caller at once. Any
 * pointer, of um_alloc too; what um_alloc_async gave goes back to the pool. */
UM_API UM_MUST_CHECK um_status um_free_async(um_stream *stream, um_ptr ptr);
/* From the device's pool, for work of this stream: memory that the stream gave back before is
 * handed out again although its work is not done; what other streams gave back, once it is. For
 * other streams' work um_wait first. As um_alloc otherwise; um_free is legal too. The pool gives
 * memory back to the device when it has 256 MiB more idle than in use (in a free what nobody uses
 * any more; um_alloc_async waits for the rest before it makes the pool larger), when um_alloc or
 * um_alloc_async would be out of memory, and by um_pool_trim. */
UM_API UM_MUST_CHECK um_status um_alloc_async(um_stream *stream, uint64_t size_bytes, um_ptr *out);

/* A device's pool. Sizes are as rounded for it: at most a quarter more than was asked for, and 256
 * bytes at least. struct_size is set by the caller; a field past it is not written. */
typedef struct um_pool_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t in_use_bytes;                           /* handed out now */
    uint64_t reserved_bytes;                         /* ... and idle */
    uint64_t in_use_high_bytes, reserved_high_bytes; /* the most there ever was */
    uint64_t alloc_count, reuse_count; /* blocks handed out, and those that were idle before */
} um_pool_stats;
UM_API UM_MUST_CHECK um_status um_pool_get_stats(um_device *device, um_pool_stats *out);
/* Gives idle blocks back, the largest first, until no more than keep_bytes are reserved; waits for
 * the streams that used them. */
UM_API UM_MUST_CHECK um_status um_pool_trim(um_device *device, uint64_t keep_bytes);
/* The allocation that holds ptr (interior pointers too): its start and size. INVALID_ARGUMENT: none
 * does. */
UM_API UM_MUST_CHECK um_status um_ptr_resolve(um_device *device, um_ptr ptr, um_ptr *base,
                                              uint64_t *size_bytes);

/* In stream order. Ranges are checked against the allocations (INVALID_ARGUMENT). size 0 is legal
 * with any pointer. */
/* Host to device; `src` may be reused on return. */
UM_API UM_MUST_CHECK um_status um_write(um_stream *stream, um_ptr dst, const void *src,
                                        uint64_t size_bytes);
/* Device to host; waits for the stream. */
UM_API UM_MUST_CHECK um_status um_read(um_stream *stream, void *dst, um_ptr src,
                                       uint64_t size_bytes);
/* Within the device; ranges must not overlap. */
UM_API UM_MUST_CHECK um_status um_copy(um_stream *stream, um_ptr dst, um_ptr src,
                                       uint64_t size_bytes);
/* Repeats a pattern of 1, 2, 4 or 8 bytes; size must be a multiple of it. */
UM_API UM_MUST_CHECK um_status um_fill(um_stream *stream, um_ptr dst, uint64_t size_bytes,
                                       const void *pattern, uint32_t pattern_bytes);

typedef int32_t um_copy_kind;
enum {
    UM_COPY_DEVICE_TO_DEVICE = 0, /* the stream's device, as um_copy */
    UM_COPY_HOST_TO_DEVICE = 1,
    UM_COPY_DEVICE_TO_HOST = 2,
    UM_COPY_HOST_TO_HOST = 3
};
/* In stream order, without waiting. Of the host a um_ptr is the address; that memory stays valid,
 * and what is read of it unchanged, until the stream has come so far. A device that cannot do so
 * takes a copy (host to device) or waits (device to host). Ranges must not overlap; device memory
 * is checked as by um_copy, host memory cannot be. INVALID_ARGUMENT: also NULL, and no such kind.
 */
UM_API UM_MUST_CHECK um_status um_copy_async(um_stream *stream, um_copy_kind kind, um_ptr dst,
                                             um_ptr src, uint64_t size_bytes);
/* From one device's memory to another's, in the order of the stream, which is of either. Does not
 * wait where both have unified memory; otherwise the bytes go through the host, and the call
 * returns when they are there. Work of other streams is not waited for (um_wait), and the other
 * device's memory must not be freed before the stream has come so far. */
UM_API UM_MUST_CHECK um_status um_copy_peer(um_stream *stream, um_device *dst_device, um_ptr dst,
                                            um_device *src_device, um_ptr src, uint64_t size_bytes);

/* ---- streams and events ------------------------------------------------------------------- */

/* An empty queue, which runs what it gets in order. It keeps its device alive. OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_stream_create(um_device *device, UM_GIVE um_stream **out);
/* Where not all streams can go at once, those of higher priority go first. 0 is um_stream_create's;
 * the CPU knows -2 to 2, and takes what is beyond for the nearest. A device may not know any. */
UM_API UM_MUST_CHECK um_status um_stream_create_priority(um_device *device, int32_t priority,
                                                         UM_GIVE um_stream **out);
/* Waits for its work. NULL is legal. */
UM_API void um_stream_release(UM_TAKE um_stream *stream);
UM_API um_device *um_stream_device(um_stream *stream);

/* The point behind all that the stream has now. Does not wait. */
UM_API UM_MUST_CHECK um_status um_record(um_stream *stream, um_event *out);
/* Later work of the stream starts after the event, of any stream of any device. Does not block the
 * caller when both are of one device. If the work before the event failed, the stream fails with
 * that error (of another device: the call returns it). */
UM_API UM_MUST_CHECK um_status um_wait(um_stream *stream, um_event event);
/* OK: complete. NOT_READY. Or the error of its stream. Makes no sound: NOT_READY leaves the last
 * error as it was. */
UM_API UM_MUST_CHECK um_status um_query(um_event event);
UM_API UM_MUST_CHECK um_status um_event_synchronize(um_event event);
UM_API UM_MUST_CHECK um_status um_synchronize(um_stream *stream);
UM_API UM_MUST_CHECK um_status um_device_synchronize(um_device *device);
/* Waits, returns the stream's error (or OK) and makes the stream usable again. */
UM_API um_status um_stream_clear_error(um_stream *stream);

/* Called once the work that the stream has now is done, from any thread, with no lock of Umbel
 * held: with UM_OK, or with the error that the stream has by then. It may call anything that does
 * not wait: um_alloc, um_free_async, um_enqueue and um_record on streams that no other thread uses
 * then, but not on its own. Calls that wait fail in it with INVALID_ARGUMENT, and it must not
 * release a stream or a device. */
typedef void (*um_stream_fn)(void *user, um_status status);
/* When it returns OK, fn is called exactly once; otherwise never. Does not wait, unless the device
 * knows no other way. INVALID_ARGUMENT: a NULL. OUT_OF_MEMORY, or the stream's error. */
UM_API UM_MUST_CHECK um_status um_stream_callback(um_stream *stream, um_stream_fn fn, void *user);

/* ---- running an op ------------------------------------------------------------------------ */

/* Checks the op (um_op_check), checks every pointer against the device's live allocations, finds
 * who can run it and returns before it has run; an op that this device lacks may run on another one
 * (umbel/select.h), and has then run on return. The op is copied. An op with nothing to write
 * returns OK before any pointer is looked at. INVALID_ARGUMENT, UNSUPPORTED (the message says who
 * refused and why), OUT_OF_MEMORY, or the stream's error. */
UM_API UM_MUST_CHECK um_status um_enqueue(um_stream *stream, const um_op *op);

/* `count` ops that do not depend on each other, in one call, which the device may run side by side.
 * Each is checked as um_enqueue does; an output that overlaps another op's output or input is
 * INVALID_ARGUMENT, and so is a batch of more than a million pairs of views woven into each other
 * (1448 column blocks of one matrix are the most). After a failure none of the ops runs; only a
 * backend without batches of its own may have begun when its memory ends (OUT_OF_MEMORY). Those of
 * the ops that the device lacks run elsewhere one by one, after the others were enqueued. */
UM_API UM_MUST_CHECK um_status um_enqueue_batch(um_stream *stream, int64_t count, const um_op *ops);

/* Whether the device itself runs the op. Silent and cheap: the last error stays as it was; `why`
 * (may be NULL, why_size bytes) gets the reason for a refusal, else "". Pointers are not looked at.
 * An op that writes no element is nothing to run: true. */
UM_API bool um_supports(um_device *device, const um_op *op, char *why, size_t why_size);

#ifdef __cplusplus
}
#endif
#endif
