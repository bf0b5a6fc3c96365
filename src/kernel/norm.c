/* kernel/norm.c: layer, group, batch and RMS norm, and their gradients. */
#include "kernel/lines.h"

#include <stdio.h>

/* ---- the family ----------------------------------------------------------------------------- */

static bool is_softmax(um_op_id id)
{
    return id == UM_OP_SOFTMAX || id == UM_OP_LOG_SOFTMAX || id == UM_OP_SOFTMAX_BACKWARD ||
           id == UM_OP_LOG_SOFTMAX_BACKWARD;
}

bool um_knorm_supports(const um_op *op, char *why, size_t why_size)
{
    if (is_softmax(op->id)) {
        for (int32_t i = 0; i < op->in_count; i++)
            if (!um_kwalk_fits(&op->in[i], why, why_size)) return false;
        return um_kwalk_fits(&op->out[0], why, why_size);
    }
    if (why_size > 0) snprintf(why, why_size, "%s: no kernel in the library", um_op_name(op->id));
    return false;
}

um_status um_knorm_plan(const um_op *op, um_kplan *plan) { return um_ksoftmax_plan(op, plan); }
