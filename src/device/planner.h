/* device/planner.h: ops on devices with limits, for drivers: an op whose launches a device takes is
 * one plan; any other is made in parts, each an op of its own (um_op_part), until they fit. */
#ifndef UM_DEVICE_PLANNER_H
#define UM_DEVICE_PLANNER_H

#include "device/kcache.h"

#include <umbel/device.h>

/* A plan's scratch memory has fewer bytes than its views so many times and so many more. */
enum { UM_SCRATCH_TIMES = 64, UM_SCRATCH_BYTES = 1 << 20 };

/* 0: none. A view of 2^32 elements or more is beyond the kernels of any device. */
typedef struct um_klimits {
    uint64_t binding_max_bytes;
    uint32_t group_count_max[2]; /* of the first two dimensions; a launch uses no other */
    int32_t buffer_count_max;    /* of a launch; 0: as many as there may be */
} um_klimits;
static inline um_klimits um_klimits_of(const um_caps *caps)
{
    return (um_klimits){caps->binding_max_bytes,
                        {(uint32_t)caps->group_count_max[0], (uint32_t)caps->group_count_max[1]},
                        caps->bindings_max};
}

/* Enqueues a plan, which it may change and whose owner it is not. */
typedef um_status (*um_kplan_fn)(void *ctx, const um_op *op, um_kplan *plan);

/* Of a checked op: calls fn with the plan of each part, in any order, or with a failure of its own,
 * UNSUPPORTED naming op, size and limit, with none. form: as of um_kcache_plan. OUT_OF_MEMORY; what
 * fn returns, which stops it.
 */
um_status um_planner_run(um_kcache *cache, const um_klimits *limits, const um_op *op, int32_t form,
                         um_kplan_fn fn, void *ctx);
/* Whether there are kernels for it, which writes something, within the limits; why says why not. */
bool um_planner_supports(um_kcache *cache, const um_klimits *limits, const um_op *op, char *why,
                         size_t why_size);

#endif
