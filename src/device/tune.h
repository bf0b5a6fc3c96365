/* device/tune.h: the fastest form of an op's kernels on a device, for drivers: found by timing when
 * a class of shapes comes up first, within a budget, and kept on disk by device and driver version.
 * A driver makes a um_tune when it opens a device and gives it to its cache (device/kcache.h). */
#ifndef UM_DEVICE_TUNE_H
#define UM_DEVICE_TUNE_H

#include "base/base.h"

#include <umbel/backend.h>

typedef struct um_tune um_tune;

#define UM_TUNE_BUDGET_NS ((int64_t)50 * 1000 * 1000)

typedef struct um_tune_desc {
    um_device_kind kind;
    const char *name, *driver; /* the device's, as in um_caps; its driver's version, "" for none */
    bool on;                   /* whether to time where UMBEL_TUNE does not say */
    void *ctx;
    /* How long form 1, 2, ... of the op takes, once what it needs is there. The op's addresses are
     * no memory of the device's. */
    um_status (*time)(void *ctx, const um_op *op, int32_t form, int64_t *ns);
    int64_t (*now_ns)(void *ctx); /* NULL: the system's */
} um_tune_desc;

/* Reads what is on disk; a file that is not ours, or an older driver's, is ignored. OUT_OF_MEMORY.
 */
um_status um_tune_create(const um_tune_desc *desc, um_tune **out);
void um_tune_release(um_tune *tune); /* NULL is legal */
/* The form for the op: what is known for its class, else what timing finds; 0: by the library's
 * rules. Of any thread. What fails on the way is forgotten. */
int32_t um_tune_choose(um_tune *tune, const um_op *op, int32_t form_count);

/* What is on disk for it, by whatever driver; 0: nothing. */
int32_t um_tune_find(um_device_kind kind, const char *name, const um_op *op);

/* A `time` for um_tune_desc, with a um_tune_device as its ctx: on memory and a stream of its own.
 */
typedef struct um_tune_device {
    const um_backend *backend;
    um_backend_device *device;
    um_status (*enqueue)(um_backend_stream *stream, const um_op *op, int32_t form);
} um_tune_device;
um_status um_tune_time(void *ctx, const um_op *op, int32_t form, int64_t *ns);

#endif
