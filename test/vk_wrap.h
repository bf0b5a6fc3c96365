/* test/vk_wrap.h: a Vulkan loader in the place of the real one, which it calls: counts calls and
 * handles, and fails where it is told to. A test is linked with it, and then the driver's
 * dlopen("libvulkan.so.1") gives it as well. */
#ifndef UM_TEST_VK_WRAP_H
#define UM_TEST_VK_WRAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VK_WRAP_BUFFER_MAX ((uint64_t)96 << 20)

typedef struct vk_wrap_state {
    _Atomic int64_t calls;            /* of functions that may fail */
    _Atomic int64_t handles;          /* alive */
    _Atomic int64_t live[2], made[2]; /* of them, and ever: of kernels the second */
    _Atomic int64_t fail_at;          /* the call that fails, counted from 1; 0: none does */
    _Atomic int32_t code;             /* with that result */
    _Atomic bool for_good;            /* ... and all after it, as of a device that is lost */
    const char *_Atomic failed;       /* the first call that did */
    /* The devices say that they have cooperative matrices, of the shapes in vk_wrap.c, that of each
     * heap 3 of 5 MiB are in use, that buffers are not larger than VK_WRAP_BUFFER_MAX, and that the
     * host does not see the device's memory; without_f64: that they have no f64. */
    _Atomic bool pretends, matrices_asked; /* when the device was made: for no more than is used */
    _Atomic bool without_f64;
    _Atomic bool keeps_f16;        /* they say that they keep the subnormals of f16 */
    uint32_t shared_bytes;         /* that it says it has, then */
    _Atomic uint64_t allocated[2]; /* of the device's memory, the host's, then */
} vk_wrap_state;

extern vk_wrap_state vk_wrap;

#endif
