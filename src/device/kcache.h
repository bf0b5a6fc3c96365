/* device/kcache.h: plans that are made once, for drivers: a device has a cache, which gives each op
 * its plan. Why it is keyed as it is: doc/design/plans-by-shape.md.
 *
 * Two levels. An op whose shapes, strides, dtypes and attributes were there before gets the plan of
 * then with its own addresses: no kernel is built and no memory taken. Any other op is planned
 * anew; of its kernels those whose text is there already are shared, with what the driver compiled
 * of them. */
#ifndef UM_DEVICE_KCACHE_H
#define UM_DEVICE_KCACHE_H

#include "device/tune.h"
#include "kernel/library.h"

typedef struct um_kcache um_kcache;

typedef struct um_kcache_desc {
    const um_kunit *unit; /* the device's matrix unit; NULL: none */
    int32_t plans_max;    /* then those not used for longest go; 0: 1024 */
    void *ctx;
    /* What a driver makes of a kernel, once; called by one thread at a time. */
    um_status (*compile)(void *ctx, const um_kernel *kernel, void **object);
    void (*destroy)(void *ctx, void *object);
    um_tune *tune; /* chooses the form of an op that has several; NULL: 0 */
} um_kcache_desc;

/* Of several threads, like what follows. OUT_OF_MEMORY. */
um_status um_kcache_create(const um_kcache_desc *desc, um_kcache **out);
void um_kcache_release(um_kcache *cache); /* no plan of it is alive; NULL is legal */
/* As um_kplan_make, but that form 0 is the chosen one; and released by: */
um_status um_kcache_plan(um_kcache *cache, const um_op *op, int32_t form, um_kplan *out);
void um_kcache_release_plan(um_kplan *plan);
/* What compile made of the launch's kernel: now, if nobody asked before. Of a plan from a cache
 * that has a compile. A failure is not kept. */
um_status um_kcache_compiled(um_klaunch *launch, void **object);

#endif
