/* compute/compute.h: what the wrappers of the compute face share: building a um_op from a call's
 * views and enqueueing it. Included inside src/compute/ only. */
#ifndef UM_COMPUTE_COMPUTE_H
#define UM_COMPUTE_COMPUTE_H

#include "base/base.h"
#include "op/table.h"

#include <umbel/compute.h>

/* A call on its way to becoming an op. After the first failure the rest does nothing, and
 * um_call_run returns it. */
typedef struct um_call {
    um_op op;
    um_status status;
} um_call;

static inline um_call um_call_begin(um_op_id id) { return (um_call){.op.id = id}; }

/* The next input or output; `name` is the parameter's, for the message. */
static inline void um_call_input(um_call *call, const char *name, const um_view *view)
{
    if (call->status != UM_OK) return;
    if (view)
        call->op.in[call->op.in_count++] = *view;
    else
        call->status =
            UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s is NULL", um_op_name(call->op.id), name);
}

static inline void um_call_output(um_call *call, const char *name, const um_view *view)
{
    if (call->status != UM_OK) return;
    if (view)
        call->op.out[call->op.out_count++] = *view;
    else
        call->status =
            UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s is NULL", um_op_name(call->op.id), name);
}

static inline um_status um_call_run(const um_call *call, um_stream *stream)
{
    return call->status != UM_OK ? call->status : um_enqueue(stream, &call->op);
}

#endif
