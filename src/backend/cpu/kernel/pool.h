/* backend/cpu/kernel/pool.h: one pooling as its bodies see it (pool_max_body.h, pool_body.h). Made
 * by pool.c. A plane is one channel of one batch entry; there are always three axes, the first ones
 * of size 1 where the tensors have fewer. Windows go down (the first two axes: whole rows are put
 * together) and across (the last one). */
#ifndef UM_CPU_POOL_H
#define UM_CPU_POOL_H

#include "backend/cpu/kernel/simd.h"
#include "op/pool.h"

enum { POOL_AXES = 3, POOL_ACROSS = POOL_AXES - 1 };

/* Steps in elements. */
typedef struct pool_side {
    void *data;
    um_dtype dtype;
    int64_t batch, channel, axis[POOL_AXES];
} pool_side;

typedef struct pool {
    um_cpu_exec *exec;
    pool_side wide, narrow, places; /* x or dx; y or dy; the i64 places, when there are any */
    bool has_places;
    um_pool_axis axis[POOL_AXES];
    int64_t planes, channels;
    int64_t wide_count, narrow_count; /* of a row: the last axis */
    int64_t rows_a_task;
    bool shared;            /* enough work for more than one thread */
    um_pool_window *across; /* the last axis's windows, in shared scratch */
    uint8_t *own;           /* lane's scratch: own + lane * own_bytes */
    size_t own_bytes;
} pool;

#endif
