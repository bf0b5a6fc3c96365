/* test/shim/shim.h: what the test program and the kernels that it compiles and loads know of each
 * other: C here, C++ there.
 *
 * An invocation runs on a stack of its own, SHIM_STACK bytes at a multiple of as many; its
 * shim_lane lies at the lowest address, so that a kernel finds it from where its stack is. It runs
 * until it has to wait for others, and shim_launch (fiber.c) goes on with the next. */
#ifndef UM_TEST_SHIM_H
#define UM_TEST_SHIM_H

#include <stdint.h>

#define SHIM_STACK ((uintptr_t)1 << 18)

enum { SHIM_RUNS, SHIM_AT_BARRIER, SHIM_AT_SUBGROUP, SHIM_DONE };
enum { SHIM_SLOT = 16 };

#ifdef __cplusplus
#define SHIM_ALIGN alignas(16)
#else
#define SHIM_ALIGN _Alignas(16)
#endif

typedef struct shim_dim3 {
    unsigned int x, y, z;
} shim_dim3;

typedef struct shim_lane {
    shim_dim3 local, size, group, groups;
    unsigned int index;          /* in the work-group */
    unsigned int lane, subgroup; /* in the subgroup, and which one */
    unsigned int width;          /* of a subgroup of the device */
    unsigned int present;        /* how many there are in this one; the last may be smaller */
    const struct shim_lane *const *team; /* these */
    /* Comes back when all of the work-group, or of the subgroup, wait at the same line. */
    void (*wait)(struct shim_lane *self, int state, int line);
    int state, line;
    /* What it gives to the others of its subgroup, by turns, since one may be one exchange ahead.
     */
    unsigned int turn;
    SHIM_ALIGN unsigned char slot[2][SHIM_SLOT];
} shim_lane;

typedef union shim_word {
    void *pointer;
    uint32_t bits;
} shim_word;

/* The kernel on the calling lane. words: buffers, then scalars. */
typedef void (*shim_kernel)(const shim_word *words);

/* A module exports shim_kernels, an array of as many as texts were put into it. */

#ifndef __cplusplus
typedef struct shim_launch_desc {
    shim_kernel kernel;
    const shim_word *words;
    uint32_t group_size[3], group_count[3], subgroup_size;
} shim_launch_desc;
/* Work-group by work-group, on the calling thread. NULL, or what invocations did that they must
 * not, until the thread's next call. */
const char *shim_launch(const shim_launch_desc *desc);
#endif

#endif
