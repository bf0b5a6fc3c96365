/* test/vk_wrap.c: see test/vk_wrap.h. A shared library with the real loader's name, its functions
 * made of the rows of the driver's vk.def. */
#include "test/vk_wrap.h"
#include "backend/vulkan/vk.h"

#include <dlfcn.h>
#include <stdio.h>

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

static void note_handles(const char *name, int64_t more)
{
    int of_kernel = strstr(name, "Pipeline") || strstr(name, "ShaderModule");
    vk_wrap.handles += more;
    vk_wrap.live[of_kernel] += more;
    vk_wrap.made[of_kernel] += more > 0 ? more : 0;
}

#define WRAP_int32_t(calls, name, parameters, arguments, more)                                     \
    static int32_t wrap_##name parameters                                                          \
    {                                                                                              \
        if (fails(#name)) return vk_wrap.code;                                                     \
        int32_t result = calls.name arguments;                                                     \
        if (result == 0) note_handles(#name, more);                                                \
        return result;                                                                             \
    }
#define WRAP_void(calls, name, parameters, arguments, more)                                        \
    static void wrap_##name parameters                                                             \
    {                                                                                              \
        if (strcmp(#name, "vkDestroyDevice") == 0) device_made = NULL;                             \
        calls.name arguments;                                                                      \
        note_handles(#name, more);                                                                 \
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

static um_os_fn instead_of(const char *name, um_os_fn fn);

#define GIVE(calls, which, real)                                                                   \
    if (strcmp(name, #which) == 0) {                                                               \
        um_os_fn found = real, fn = (um_os_fn)wrap_##which;                                        \
        memcpy(&calls.which, &found, sizeof found);                                                \
        return found ? instead_of(name, fn) : NULL;                                                \
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

/* ---- what no device here has ------------------------------------------------------------------
 */

enum { MATRIX_FEATURES = 1000506000 };
static const char *const more_extensions[] = {"VK_EXT_memory_budget", "VK_KHR_cooperative_matrix"};

/* Components by their numbers: 0, 1, 2 f16, f32, f64; 3, 4, 5 i8, i16, i32; 7 u8. */
static const vk_matrix matrices[] = {
    {VK_IS_MATRIX, NULL, 16, 16, 16, 0, 0, 1, 1, 0, VK_SCOPE_SUBGROUP},
    {VK_IS_MATRIX, NULL, 16, 16, 16, 0, 0, 0, 0, 0, VK_SCOPE_SUBGROUP},
    {VK_IS_MATRIX, NULL, 16, 8, 32, 3, 3, 5, 5, 0, VK_SCOPE_SUBGROUP},
    {VK_IS_MATRIX, NULL, 16, 8, 32, 3, 3, 5, 5, 1, VK_SCOPE_SUBGROUP}, /* saturates */
    {VK_IS_MATRIX, NULL, 16, 8, 32, 7, 3, 5, 5, 0, VK_SCOPE_SUBGROUP}, /* two types of factors */
    {VK_IS_MATRIX, NULL, 64, 8, 32, 3, 3, 5, 5, 0, 2},                 /* of the work-group */
    {VK_IS_MATRIX, NULL, 8, 8, 4, 1, 1, 1, 1, 0, VK_SCOPE_SUBGROUP}};

static vk_more_features *find_struct(const void *chain, uint32_t type)
{
    vk_more_features *at = (vk_more_features *)(uintptr_t)chain;
    while (at && at->type != type) at = at->next;
    return at;
}

static int32_t pretend_extensions(vk_handle physical, const char *layer, uint32_t *count,
                                  vk_extension *out)
{
    int32_t code = wrap_vkEnumerateDeviceExtensionProperties(physical, layer, count, out);
    for (size_t i = 0; code == 0 && i < UM_COUNT_OF(more_extensions); i++)
        snprintf(out[(*count)++].name, sizeof out->name, "%s", more_extensions[i]);
    return code;
}

static void pretend_features(vk_handle physical, vk_features *out)
{
    wrap_vkGetPhysicalDeviceFeatures2(physical, out);
    vk_more_features *matrix = find_struct(out, MATRIX_FEATURES);
    if (matrix) matrix->has[0] = matrix->has[1] = 1;
    if (vk_wrap.without_f64) out->has[VK_HAS_F64] = 0;
}

static void keep_f16(vk_handle physical, vk_properties *out)
{
    wrap_vkGetPhysicalDeviceProperties2(physical, out);
    vk_float_controls *floats = (void *)find_struct(out->next, VK_IS_FLOAT_CONTROLS);
    if (floats && vk_wrap.keeps_f16) floats->subnormals[0] = 1;
}

static void pretend_properties(vk_handle physical, vk_properties *out)
{
    keep_f16(physical, out);
    out->limits.shared_bytes = vk_wrap.shared_bytes;
    vk_maintenance_4 *buffers = (void *)find_struct(out->next, VK_IS_MAINTENANCE_4);
    if (buffers) buffers->buffer_max = VK_WRAP_BUFFER_MAX;
}

/* The first type, which here both see, becomes one for the device and one for the host. */
static void pretend_memory(vk_handle physical, vk_memory_properties *out)
{
    wrap_vkGetPhysicalDeviceMemoryProperties2(physical, out);
    out->type_count = 2;
    out->memory[1] = out->memory[0];
    out->memory[0].flags = VK_MEMORY_LOCAL;
    out->memory[1].flags &= ~(uint32_t)VK_MEMORY_LOCAL;
    vk_memory_budget *budget = out->next;
    for (int i = 0; budget && i < 16; i++) {
        budget->budget_bytes[i] = 5 << 20;
        budget->used_bytes[i] = 3 << 20;
    }
}

static void pretend_requirements(vk_handle device, vk_object buffer, vk_requirements *out)
{
    wrap_vkGetBufferMemoryRequirements(device, buffer, out);
    out->memory_bits = 3;
}

static int32_t pretend_allocate(vk_handle device, const vk_memory_info *info, const void *host,
                                vk_object *out)
{
    vk_memory_info real = *info;
    vk_wrap.allocated[real.memory] += real.size_bytes;
    real.memory = 0;
    return wrap_vkAllocateMemory(device, &real, host, out);
}

static int32_t pretend_matrices(vk_handle physical, uint32_t *count, vk_matrix *out)
{
    (void)physical;
    *count = UM_COUNT_OF(matrices);
    memcpy(out, matrices, sizeof matrices);
    return 0;
}

/* The real driver is not asked for it. */
static int32_t pretend_device(vk_handle physical, const vk_device_info *info, const void *host,
                              vk_handle *out)
{
    const char *extension[64];
    vk_device_info less = *info;
    less.extension = extension;
    less.extension_count = 0;
    for (uint32_t i = 0; i < info->extension_count; i++)
        if (strcmp(info->extension[i], more_extensions[1]) != 0)
            extension[less.extension_count++] = info->extension[i];
    vk_more_features *at = (vk_more_features *)(uintptr_t)info->next;
    while (at->next && ((vk_more_features *)at->next)->type != MATRIX_FEATURES) at = at->next;
    vk_more_features *matrix = at->next;
    if (matrix) at->next = matrix->next;
    vk_wrap.matrices_asked = matrix && matrix->has[0] && !matrix->has[1] &&
                             less.extension_count + 1 == info->extension_count;
    return wrap_vkCreateDevice(physical, &less, host, out);
}

static const struct {
    const char *name;
    um_os_fn fn;
} pretended[] = {
    {"vkEnumerateDeviceExtensionProperties", (um_os_fn)pretend_extensions},
    {"vkGetPhysicalDeviceFeatures2", (um_os_fn)pretend_features},
    {"vkGetPhysicalDeviceProperties2", (um_os_fn)pretend_properties},
    {"vkGetPhysicalDeviceMemoryProperties2", (um_os_fn)pretend_memory},
    {"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", (um_os_fn)pretend_matrices},
    {"vkCreateDevice", (um_os_fn)pretend_device},
    {"vkGetBufferMemoryRequirements", (um_os_fn)pretend_requirements},
    {"vkAllocateMemory", (um_os_fn)pretend_allocate},
};

static um_os_fn instead_of(const char *name, um_os_fn fn)
{
    for (size_t i = 0; vk_wrap.pretends && i < UM_COUNT_OF(pretended); i++)
        if (strcmp(name, pretended[i].name) == 0) return pretended[i].fn;
    bool is_asked = vk_wrap.keeps_f16 && strcmp(name, "vkGetPhysicalDeviceProperties2") == 0;
    return is_asked ? (um_os_fn)keep_f16 : fn;
}

/* UM_LIBRARY is the real one's path, since its name is ours. */
EXPORT um_os_fn vkGetInstanceProcAddr(vk_handle instance, const char *name);
um_os_fn vkGetInstanceProcAddr(vk_handle instance, const char *name)
{
    static get_fn get;
    if (!get) {
        void *library = dlopen(UM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&get, &symbol, sizeof symbol);
    }
    if (!get || fails("vkGetInstanceProcAddr")) return NULL;
#define UM_VK_INSTANCE(result, which, parameters, arguments, more)                                 \
    GIVE(instance_calls, which, get(instance, #which))
#include "backend/vulkan/vk.def"
    return instead_of(name, get(instance, name));
}
