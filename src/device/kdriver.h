/* device/kdriver.h: what drivers of devices that run the kernel library have alike: one um_kdriver
 * a device. */
#ifndef UM_DEVICE_KDRIVER_H
#define UM_DEVICE_KDRIVER_H

#include "device/disk.h"
#include "device/planner.h"
#include "device/tune.h"

typedef struct um_kdriver_desc {
    const um_backend *backend;
    um_backend_device *device;
    int32_t ordinal;
    const char *driver;   /* all that says which driver it is */
    const char *disk;     /* what is kept on disk, um_disk_desc's; NULL: nothing is */
    bool tune;            /* whether to time forms where UMBEL_TUNE does not say */
    const um_kunit *unit; /* a um_kcache_desc's, like these, whose ctx is the device: */
    um_status (*compile)(void *ctx, const um_kernel *kernel, void **object);
    void (*destroy)(void *ctx, void *object);
    um_status (*enqueue)(um_backend_stream *stream, const um_op *op, int32_t form);
} um_kdriver_desc;

typedef struct um_kdriver {
    /* The driver's to say, before it is opened: */
    um_klimits limits;
    uint32_t types; /* that its kernels have, but those of 32 bits: bit 1u << um_dtype */
    /* Good once it is: */
    um_device_info info;  /* as the backend describes it */
    const um_kunit *unit; /* the desc's */
    um_kcache *kernels;
    um_disk *disk; /* NULL: nothing is kept */
    um_tune *tune;
    um_tune_device timed;
} um_kdriver;

/* OUT_OF_MEMORY; to be closed then, too. */
um_status um_kdriver_open(um_kdriver *k, const um_kdriver_desc *desc);
void um_kdriver_close(um_kdriver *k); /* of one that is all 0, too */
/* What um_caps has of it, and of its info. */
void um_kdriver_caps(const um_kdriver *k, um_caps *out);
/* An entry's. An op with f64 is refused where types has none. */
bool um_kdriver_supports(const um_kdriver *k, const um_op *op, char *why, size_t why_size);
/* Enqueues the launches of a plan; object: what compile made of each one's kernel. */
typedef um_status (*um_kdriver_fn)(um_backend_stream *stream, const um_op *op, const um_kplan *plan,
                                   void *const *object);
/* um_planner_run, whose kernels are compiled before fn is called: other streams need not wait for
 * that. Its failure is the op's. */
um_status um_kdriver_run(const um_kdriver *k, const um_op *op, int32_t form, um_kdriver_fn fn,
                         um_backend_stream *stream);
/* A backend's fill, by ops of its enqueue. */
um_status um_kdriver_fill(um_backend_stream *stream,
                          um_status (*enqueue)(um_backend_stream *stream, const um_op *op),
                          um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                          uint32_t pattern_bytes);
/* What it is when the plan's fault is found. */
um_error um_kdriver_fault(const um_kdriver *k, const um_op *op, const um_kplan *plan);

/* What launches need to know of a kernel's buffers. */
typedef struct um_kbuffers {
    int32_t count;
    uint8_t element_bytes[UM_K_MAX_BUFFERS];
    bool is_written[UM_K_MAX_BUFFERS];
} um_kbuffers;
void um_kbuffers_of(const um_kernel *kernel, um_kbuffers *out);

#endif
