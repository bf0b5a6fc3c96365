/* backend/vulkan/vk.h: the declarations of vk.def. */
#ifndef UM_BACKEND_VULKAN_VK_H
#define UM_BACKEND_VULKAN_VK_H

#include "base/os.h"

typedef struct um_vk_any *vk_handle; /* instance, device, queue, command buffer */
typedef uint64_t vk_object;          /* every other handle */

/* VK_IS_<NUMBER> is the `type` of an info or answer. */
#define UM_VK_NUMBERS(...) enum { __VA_ARGS__ };
#define UM_VK_TYPE(name, ...)                                                                      \
    typedef struct vk_##name {                                                                     \
        __VA_ARGS__;                                                                               \
    } vk_##name;
#define UM_VK_INFO(name, NUMBER, number, ...)                                                      \
    enum { VK_IS_##NUMBER = number };                                                              \
    UM_VK_TYPE(name, uint32_t type; const void *next; __VA_ARGS__)
#define UM_VK_ANSWER(name, NUMBER, number, ...)                                                    \
    enum { VK_IS_##NUMBER = number };                                                              \
    UM_VK_TYPE(name, uint32_t type; void *next; __VA_ARGS__)
#include "backend/vulkan/vk.def"

enum {
#define UM_VK_FEATURE(NAME, ...) VK_WITH_##NAME,
#include "backend/vulkan/vk.def"
    VK_WITHS
};

/* Of the instance; good once um_vk_devices has found a device. */
typedef struct um_vk_instance_calls {
#define UM_VK_GLOBAL(result, name, parameters, arguments, more)   result(*name) parameters;
#define UM_VK_INSTANCE(result, name, parameters, arguments, more) result(*name) parameters;
#define UM_VK_PERHAPS(result, name, parameters, arguments, more)  result(*name) parameters;
#include "backend/vulkan/vk.def"
} um_vk_instance_calls;
extern um_vk_instance_calls um_vk;

typedef struct um_vk_calls {
#define UM_VK_DEVICE(result, name, parameters, arguments, more) result(*name) parameters;
#include "backend/vulkan/vk.def"
} um_vk_calls;

/* Returns the failure of a call that gives a VkResult. */
#define UM_VK_TRY(device, call, ...)                                                               \
    do {                                                                                           \
        int32_t code_ = (device)->vk.call(__VA_ARGS__);                                            \
        if (code_ != 0) return um_vk_fail(#call, code_);                                           \
    } while (0)

#endif
