/* test/interp_util.h: for the tests of the interpreter: making a kernel and running it. */
#ifndef UM_TEST_INTERP_UTIL_H
#define UM_TEST_INTERP_UTIL_H

#include "ir/ir.h"
#include "test.h"

static inline um_kernel *kernel_make(uint32_t group_size)
{
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "t", .group_size = {group_size}}, &k));
    return k;
}

static inline um_status run_kernel(const um_kernel *k, uint32_t groups, uint32_t subgroup_size,
                                   int32_t buffer_count, const um_kernel_buffer *buffers,
                                   int32_t scalar_count, const uint32_t *scalars)
{
    um_kernel_run run = {.group_count = {groups, 1, 1},
                         .subgroup_size = subgroup_size,
                         .buffers = buffers,
                         .buffer_count = buffer_count,
                         .scalars = scalars,
                         .scalar_count = scalar_count};
    return um_kernel_interpret(k, &run);
}

static inline um_status run_and_release(um_kernel *k, uint32_t groups, uint32_t subgroup_size,
                                        int32_t buffer_count, const um_kernel_buffer *buffers,
                                        int32_t scalar_count, const uint32_t *scalars)
{
    um_status status = um_kernel_finish(k);
    if (status == UM_OK)
        status = run_kernel(k, groups, subgroup_size, buffer_count, buffers, scalar_count, scalars);
    um_kernel_release(k);
    return status;
}

static uint64_t random_state = 1; /* whoever sets it begins a sequence of his own */

static inline uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

#endif
