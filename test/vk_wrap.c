/* test/vk_wrap.c: see test/vk_wrap.h. A shared library with the real loader's name, its functions
 * made of the rows of the driver's vk.def. */
#include "test/vk_wrap.h"
#include "backend/vulkan/vk.h"

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT vk_wrap_state vk_wrap;

typedef um_os_fn (*get_fn)(vk_handle, const char *);

/* The real functions; of one device. */
static um_vk_instance_calls instance_calls;
static um_vk_calls device_calls;
static int32_t (*wait_idle)(vk_handle);
static vk_handle device_made;

/* What runs on a device that is to be lost is done first: the driver lets go of its memory. */
static bool fails(const char *name)
{
    int64_t call = atomic_fetch_add(&vk_wrap.calls, 1) + 1, at = vk_wrap.fail_at;
    bool does = call == at || (at != 0 && call > at && vk_wrap.for_good);
    if (does && call == at) vk_wrap.failed = name;
    if (does && vk_wrap.for_good && device_made) wait_idle(device_made);
    return does;
}

static void note_handles(int64_t more)
{
    vk_wrap.handles += more;
    if (more > 0) vk_wrap.made += more;
}

#define WRAP_int32_t(calls, name, parameters, arguments, more)                                     \
    static int32_t wrap_##name parameters                                                          \
    {                                                                                              \
        if (fails(#name)) return vk_wrap.code;                                                     \
        int32_t result = calls.name arguments;                                                     \
        if (result == 0) note_handles(more);                                                       \
        return result;                                                                             \
    }
#define WRAP_void(calls, name, parameters, arguments, more)                                        \
    static void wrap_##name parameters                                                             \
    {                                                                                              \
        if (strcmp(#name, "vkDestroyDevice") == 0) device_made = NULL;                             \
        calls.name arguments;                                                                      \
        note_handles(more);                                                                        \
    }
#define WRAP_uint64_t(calls, name, parameters, arguments, more)                                    \
    static uint64_t wrap_##name parameters { return calls.name arguments; }
#define WRAP_um_os_fn(calls, name, parameters, arguments, more)                                    \
    static um_os_fn wrap_##name parameters;
#define UM_VK_INSTANCE(result, name, parameters, arguments, more)                                  \
    WRAP_##result(instance_calls, name, parameters, arguments, more)
#define UM_VK_DEVICE(result, name, parameters, arguments, more)                                    \
    WRAP_##result(device_calls, name, parameters, arguments, more)
#include "backend/vulkan/vk.def"

#define GIVE(calls, which, real)                                                                   \
    if (strcmp(name, #which) == 0) {                                                               \
        um_os_fn found = real, fn = (um_os_fn)wrap_##which;                                        \
        memcpy(&calls.which, &found, sizeof found);                                                \
        return found ? fn : NULL;                                                                  \
    }

static um_os_fn wrap_vkGetDeviceProcAddr(vk_handle device, const char *name)
{
    um_os_fn idle = instance_calls.vkGetDeviceProcAddr(device, "vkDeviceWaitIdle");
    memcpy(&wait_idle, &idle, sizeof idle);
    device_made = strcmp(name, "vkDestroyDevice") == 0 ? device : device_made;
#define UM_VK_DEVICE(result, which, parameters, arguments, more)                                   \
    GIVE(device_calls, which, instance_calls.vkGetDeviceProcAddr(device, #which))
#include "backend/vulkan/vk.def"
    return NULL;
}

/* UM_VULKAN_LIBRARY is the real one's path, since its name is ours. */
EXPORT um_os_fn vkGetInstanceProcAddr(vk_handle instance, const char *name);
um_os_fn vkGetInstanceProcAddr(vk_handle instance, const char *name)
{
    static get_fn get;
    if (!get) {
        void *library = dlopen(UM_VULKAN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&get, &symbol, sizeof symbol);
    }
    if (!get || fails("vkGetInstanceProcAddr")) return NULL;
#define UM_VK_INSTANCE(result, which, parameters, arguments, more)                                 \
    GIVE(instance_calls, which, get(instance, #which))
#include "backend/vulkan/vk.def"
    return get(instance, name);
}
