/* umbel/select.h: choosing devices: kinds by name, requests, priorities, routing, what happens when
 * a device lacks an op, and which matrix tile suits it. Opening a device by its name is in
 * umbel/device.h. Everything here may be called from any thread. */
#ifndef UMBEL_SELECT_H
#define UMBEL_SELECT_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kinds -------------------------------------------------------------------------------- */

/* The kind that a word stands for, in any case, with blanks around it; UM_DEVICE_NONE for any other
 * text and for NULL. Words: cuda, nvidia; rocm, hip, amd; metal, mtl, apple; level_zero, levelzero,
 * level-zero, l0, ze, intel; vulkan, vk; webgpu, wgpu; opencl, cl; cpu, host, reference; null. */
UM_API um_device_kind um_device_kind_parse(const char *text);
/* "cuda", "level_zero", ...; "none" for UM_DEVICE_NONE and numbers that are no kind. Never NULL. */
UM_API const char *um_device_kind_name(um_device_kind kind);

/* ---- requests ----------------------------------------------------------------------------- */

/* One device of one backend, as um_backend_describe and um_device_describe count them. */
typedef struct um_device_ref {
    int32_t backend_index, ordinal;
} um_device_ref;

/* What a program needs of a device. Zero asks for nothing. */
typedef struct um_request {
    uint32_t struct_size; /* sizeof(um_request) */
    uint32_t features;    /* UM_FEATURE_ bits that it must have */
    uint64_t
        memory_min_bytes; /* of memory in all; a device that does not know its own is refused */
    int32_t gpu_required; /* hardware, that is: no CPU, and no driver that computes on one */
    int32_t reserved;     /* 0 */
    const char *pin;      /* only this device, "cuda:1", as um_open has it but without layers; NULL:
                             UMBEL_DEVICE's, else any */
    const char *layers;   /* "validate+trace", as um_open has them; NULL: UMBEL_DEVICE's, or none */
} um_request;

/* The devices that satisfy the request, best first: by priority of their kind, then the one with
 * more memory. The CPU comes last, unless um_set_device_priority names it. Never among them, but by
 * pin: null, and a driver that computes on the CPU, unless its kind is named there. request NULL
 * asks for nothing. *count is how many there are; the first `capacity` of them are written.
 * INVALID_ARGUMENT: a NULL, a capacity below 0, a request whose struct_size is not set or that has
 * fields this library does not know. NOT_FOUND: the pin is no device. */
UM_API UM_MUST_CHECK um_status um_fallback_chain(const um_request *request, um_device_ref *list,
                                                 int32_t capacity, int32_t *count);

/* Opens the best device that satisfies the request and opens. The rest of um_fallback_chain behind
 * it becomes the device's fallback (um_device_set_fallback). NOT_FOUND: there is none; the message
 * lists each device with its reason, as far as it holds them (um_request_explain: all). Errors as
 * um_fallback_chain; or the first device's, when none of several opens. */
UM_API UM_MUST_CHECK um_status um_open_request(const um_request *request, UM_GIVE um_device **out);

/* A line for each device and for each backend without one: "cuda:0 (NVIDIA H200): lacks f64". text
 * is cut at text_size bytes, and ends with a 0. Errors as um_fallback_chain. */
UM_API UM_MUST_CHECK um_status um_request_explain(const um_request *request, char *text,
                                                  size_t text_size);

/* The best device for an op: as um_fallback_chain, but for products, convolutions and attention
 * those with tensor cores go first. Whether it has a kernel for the op is not asked (um_supports).
 * INVALID_ARGUMENT: no such op. Other errors as um_open_request. */
UM_API UM_MUST_CHECK um_status um_route(const um_request *request, um_op_id op, um_device_ref *out);

/* The order of preference: the kinds given, first is best, then the others in their own order
 * (cuda, rocm, metal, level_zero, vulkan, webgpu, opencl, cpu). It holds for um_open("auto") and
 * all of the above, in the whole process, until the next call. count 0 is the order at start.
 * INVALID_ARGUMENT: no such kind, null, or one named twice. */
UM_API UM_MUST_CHECK um_status um_set_device_priority(const um_device_kind *kinds, int32_t count);

/* "fp16", "tensor_cores", ... of one UM_FEATURE_ bit; NULL for any other number. */
UM_API const char *um_feature_name(uint32_t feature);

/* ---- when a device lacks an op -------------------------------------------------------------- */

/* um_enqueue, when the stream's device cannot run an op, moves the operands to the next device of
 * its fallback chain that can, runs it there and writes the result back: elements of the outputs
 * only, what lies between them is not touched. The call then waits for the stream, and for the
 * result; the op's own failure is what it returns, and nothing is written then. Later work of the
 * stream sees the result. Slow by nature: every one is counted and can be reported or forbidden.
 *
 * A device's chain is, until it is set, what um_fallback_chain(NULL) has behind the device: all of
 * it behind one that is not there. null's is empty, and so is the CPU's: it is always last. */

/* The devices to try, in order; the device itself is passed over. At most 16. INVALID_ARGUMENT: a
 * NULL, a count out of range. OUT_OF_RANGE: no such device. */
UM_API UM_MUST_CHECK um_status um_device_set_fallback(um_device *device, const um_device_ref *list,
                                                      int32_t count);
/* Strict: an op that the device itself lacks is UNSUPPORTED. At start what UMBEL_STRICT says: 1 is
 * strict, anything else is not. */
UM_API void um_device_set_strict(um_device *device, bool strict);
/* How many ops ran elsewhere since the device was opened. */
UM_API uint64_t um_fallback_count(um_device *device);

typedef struct um_fallback_report {
    uint32_t struct_size; /* as the library has it */
    um_op_id op;
    const char *from, *to; /* names of devices; all texts live during the call */
    const char *why;       /* why `from` cannot run it */
    uint64_t moved_bytes;  /* to the other device and back */
    um_status status;      /* how it went */
} um_fallback_report;

/* Called after each op that ran elsewhere, by the thread that enqueued it, without any lock held.
 * NULL: nobody is told. */
typedef void (*um_fallback_fn)(void *user, const um_fallback_report *report);
UM_API void um_device_set_fallback_callback(um_device *device, um_fallback_fn fn, void *user);

/* ---- matrix tiles ------------------------------------------------------------------------- */

/* The tile, m by n of the result and k deep, that suits a matrix product of m x n x k on the
 * device. Of a matmul the one that Umbel's own kernel was fastest with, where it has timed
 * row-major products of such sizes (UMBEL_TUNE); that is looked up on disk. Else with tensor cores
 * and m, n, k all multiples of 16: 128 x 128 x 32 when the smallest of them is 512 or more, else 64
 * x 64 x 16. Otherwise, by the smallest: up to 64 16 x 16 x 16, up to 512 64 x 64 x 16, else 128 x
 * 128 x 8. For kernels of the caller's own: Umbel's choose for themselves. INVALID_ARGUMENT: a
 * NULL, a size below 1, an op other than a matrix product, convolution or attention. */
UM_API UM_MUST_CHECK um_status um_recommended_tile(um_device *device, um_op_id op, int64_t m,
                                                   int64_t n, int64_t k, um_matrix_tile *out);

#ifdef __cplusplus
}
#endif
#endif
