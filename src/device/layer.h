/* device/layer.h: a layer is a backend table whose device wraps another one. It forwards every
 * entry and looks at what passes. Used by open.c. */
#ifndef UM_DEVICE_LAYER_H
#define UM_DEVICE_LAYER_H

#include "base/base.h"

#include <umbel/backend.h>

/* A backend device together with the table that speaks to it. */
typedef struct um_driver {
    const um_backend *table;
    um_backend_device *device;
} um_driver;

typedef struct um_layer {
    const char *name;
    /* enumerate, describe and open are NULL: a layer has no devices of its own. */
    const um_backend *table;
    /* On success *out owns `inner`, and its close closes it. name is the whole device's, and lives
     * as long. params are what stands behind the layer's name and '=', "" when nothing does;
     * NOT_FOUND: not understood. */
    um_status (*wrap)(um_driver inner, const char *name, const char *params,
                      um_backend_device **out);
    const char *params; /* what they may be, for people; NULL: there are none */
} um_layer;

#define UM_LAYER(name) extern const um_layer um_layer_##name;
#include "device/layers.def"
#undef UM_LAYER

/* "add f32[4] f32[4] -> f32[4]" into text; returns text. */
const char *um_op_text(const um_op *op, char *text, size_t text_size);

/* INVALID_ARGUMENT: an output of one op overlaps a view of another (batch.c). */
um_status um_ops_check_independent(int64_t count, const um_op *const *ops);

/* ---- optional.c: entries, or what does instead where there is none --------------------------- */

/* Whether the driver runs the op itself. why (may be NULL) gets the reason if not, else "". */
bool um_driver_supports(um_driver driver, const um_op *op, char *why, size_t why_size);
/* One by one. */
um_status um_table_enqueue_batch(const um_backend *table, um_backend_stream *stream, int64_t count,
                                 const um_op *const *ops);
/* Of no priority. */
um_status um_driver_stream_create(um_driver driver, int32_t priority, um_backend_stream **out);
/* After waiting. */
um_status um_table_call(const um_backend *table, um_backend_stream *stream, um_stream_fn fn,
                        void *user);
/* By write, read or a call. */
um_status um_table_copy_host(const um_backend *table, um_backend_stream *stream, um_copy_kind kind,
                             um_ptr dst, um_ptr src, uint64_t size_bytes);

#endif
