/* backend/vulkan/loader.c: opens the Vulkan loader and looks for devices, once; and opens a device.
 */
#include "backend/vulkan/vulkan.h"
#include "render/render.h"

#include <stdio.h>

um_vk_instance_calls um_vk;

enum { DEVICES_MAX = 16, FAMILIES_MAX = 16, EXTENSIONS_MAX = 512, GROUP_INVOCATIONS = 256 };

static struct {
    um_once once;
    um_vk_physical device[DEVICES_MAX];
    int32_t count;
    char why[200];
} found = {.once = UM_ONCE_INIT};

/* Features that are used where there are: the core version that has them, or the extension. */
enum { STORAGE_16, STORAGE_8, NARROW, TIMELINE, ADDRESS, SUBGROUP_SIZE, SUBGROUP_TYPES };
static const struct {
    uint32_t type, api;
    const char *extension;
} rows[UM_VK_MORE_FEATURES] = {
    [STORAGE_16] = {1000083000, VK_API_1_1, ""},
    [STORAGE_8] = {1000177000, VK_API_1_2, "VK_KHR_8bit_storage"},
    [NARROW] = {1000082000, VK_API_1_2, "VK_KHR_shader_float16_int8"},
    [TIMELINE] = {1000207000, VK_API_1_2, "VK_KHR_timeline_semaphore"},
    [ADDRESS] = {1000257000, VK_API_1_2, "VK_KHR_buffer_device_address"},
    [SUBGROUP_SIZE] = {1000225002, VK_API_1_3, "VK_EXT_subgroup_size_control"},
    [SUBGROUP_TYPES] = {1000175000, VK_API_1_2, "VK_KHR_shader_subgroup_extended_types"},
};

/* ---- one device -----------------------------------------------------------------------------
 */

typedef struct extensions {
    vk_extension item[EXTENSIONS_MAX];
    uint32_t count;
} extensions;

static bool has_extension(const extensions *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->item[i].name, name) == 0) return true;
    return false;
}

/* Links those that the device knows; `wanted` only where they are to be used. */
static vk_features *chain(um_vk_physical *p)
{
    void **at = &p->features.next;
    p->features.type = VK_IS_FEATURES;
    for (int i = 0; i < UM_VK_MORE_FEATURES; i++) {
        if (p->more[i].type == 0) continue;
        *at = &p->more[i];
        at = &p->more[i].next;
    }
    *at = NULL;
    return &p->features;
}

/* What the device has of the rows; of that, what is used stays. */
static void read_features(um_vk_physical *p, const extensions *all)
{
    for (int i = 0; i < UM_VK_MORE_FEATURES; i++) {
        bool core = p->properties.api_version >= rows[i].api;
        if (!core && !has_extension(all, rows[i].extension)) continue;
        p->more[i].type = rows[i].type;
        p->core |= (uint32_t)core << i;
    }
    um_vk.vkGetPhysicalDeviceFeatures2(p->handle, chain(p));
    for (uint32_t i = 0; i < UM_COUNT_OF(p->features.has); i++)
        if (i != VK_HAS_F64 && i != VK_HAS_I64 && i != VK_HAS_I16) p->features.has[i] = 0;
    for (int i = 0; i < UM_VK_MORE_FEATURES; i++) {
        uint32_t *has = p->more[i].has, second = has[1];
        memset(has + 1, 0, sizeof p->more[i].has - sizeof *has);
        if (i == NARROW) has[0] = 0; /* f16 is expanded */
        if (i == NARROW || i == SUBGROUP_SIZE) has[1] = second;
    }
    if (p->features.has[VK_HAS_F64]) p->has |= UM_VK_F64;
    if (p->features.has[VK_HAS_I64]) p->has |= UM_VK_I64;
    if (p->features.has[VK_HAS_I16] && p->more[STORAGE_16].has[0]) p->has |= UM_VK_I16;
    if (p->more[NARROW].has[1] && p->more[STORAGE_8].has[0]) p->has |= UM_VK_I8;
    if (p->more[ADDRESS].has[0]) p->has |= UM_VK_ADDRESSES;
}

/* Each is in the order f16, f32, f64. How subnormals are treated may have to be the same in all. */
static uint32_t modes_of(const vk_float_controls *c)
{
    enum { OF_EACH = 1, TOGETHER = 2 };
    uint32_t modes = 0;
    if (c->specials[1]) modes |= UM_SPIRV_SPECIALS_32;
    if (c->specials[2]) modes |= UM_SPIRV_SPECIALS_64;
    if (c->subnormals[1] && c->subnormals_apart != TOGETHER) modes |= UM_SPIRV_SUBNORMALS_32;
    if (c->subnormals[2] && c->subnormals_apart == OF_EACH) modes |= UM_SPIRV_SUBNORMALS_64;
    if (c->nearest[1] && c->rounding_apart != TOGETHER) modes |= UM_SPIRV_NEAREST_32;
    if (c->nearest[2] && c->rounding_apart == OF_EACH) modes |= UM_SPIRV_NEAREST_64;
    return modes;
}

static void read_properties(um_vk_physical *p)
{
    vk_float_controls floats = {.type = VK_IS_FLOAT_CONTROLS};
    vk_subgroup_sizes sizes = {.type = VK_IS_SUBGROUP_SIZES};
    vk_subgroup_properties subgroup = {.type = VK_IS_SUBGROUP};
    vk_maintenance_3 sizes_max = {.type = VK_IS_MAINTENANCE_3, .next = &subgroup};
    if (p->more[SUBGROUP_SIZE].has[0] && p->more[SUBGROUP_SIZE].has[1]) subgroup.next = &sizes;
    floats.next = &sizes_max;
    p->properties.next = p->properties.api_version >= VK_API_1_2 ? (void *)&floats : &sizes_max;
    um_vk.vkGetPhysicalDeviceProperties2(p->handle, &p->properties);
    p->properties.next = NULL;
    p->modes = modes_of(&floats);
    p->allocation_max_bytes = sizes_max.allocation_max;
    bool all_types =
        !(p->has & (UM_VK_I64 | UM_VK_I16 | UM_VK_I8)) || p->more[SUBGROUP_TYPES].has[0];
    if (all_types && (subgroup.stages & VK_STAGE_COMPUTE) && (sizes.stages & VK_STAGE_COMPUTE) &&
        (subgroup.operations & VK_SUBGROUP_OPS) == VK_SUBGROUP_OPS &&
        sizes.per_group_max * subgroup.size >= GROUP_INVOCATIONS)
        p->subgroup_size = subgroup.size;
    um_vk.vkGetPhysicalDeviceMemoryProperties(p->handle, &p->memory);
}

/* A family that computes and does not draw comes first: its queues are its own. */
static bool find_family(um_vk_physical *p)
{
    vk_queue_family family[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX, best = 0;
    um_vk.vkGetPhysicalDeviceQueueFamilyProperties(p->handle, &count, family);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t good = !(family[i].flags & VK_QUEUE_COMPUTE) ? 0
                        : family[i].flags & VK_QUEUE_GRAPHICS ? 1
                                                              : 2;
        if (good <= best) continue;
        best = good;
        p->family = i;
        p->queue_count = family[i].count;
    }
    return best > 0;
}

/* Why it cannot be used; NULL: it can. */
static const char *look_at(um_vk_physical *p, extensions *all)
{
    p->properties.type = VK_IS_PROPERTIES;
    um_vk.vkGetPhysicalDeviceProperties2(p->handle, &p->properties);
    if (p->properties.api_version < VK_API_1_1) return "has Vulkan 1.0 only";
    all->count = EXTENSIONS_MAX;
    if (um_vk.vkEnumerateDeviceExtensionProperties(p->handle, NULL, &all->count, all->item) < 0)
        all->count = 0;
    read_features(p, all);
    read_properties(p);
    if (!find_family(p)) return "has no queue that computes";
    if (!p->more[TIMELINE].has[0]) return "has no timeline semaphores";
    if (p->properties.limits.group_invocations < GROUP_INVOCATIONS)
        return "has work-groups of less than 256 invocations";
    return NULL;
}

/* ---- the library ------------------------------------------------------------------------------
 */

typedef um_os_fn (*get_fn)(vk_handle, const char *);

static get_fn load(void)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                        "libMoltenVK.dylib"};
    void *library = NULL; /* it stays open */
    get_fn get = NULL;
    for (size_t i = 0; i < UM_COUNT_OF(names) && !library; i++)
        if (um_os_library_open(names[i], &library) != UM_OK) library = NULL;
    snprintf(found.why, sizeof found.why, "no Vulkan loader (libvulkan.so.1)");
    if (!library) return NULL;
    um_os_fn fn = um_os_library_find(library, "vkGetInstanceProcAddr");
    snprintf(found.why, sizeof found.why, "the Vulkan loader has no vkGetInstanceProcAddr");
    memcpy(&get, &fn, sizeof fn);
    return get;
}

static vk_handle create_instance(get_fn get)
{
    int32_t (*create)(const vk_instance_info *, const void *, vk_handle *);
    um_os_fn fn = get(NULL, "vkCreateInstance");
    vk_application_info application = {
        .type = VK_IS_APPLICATION, .name = "umbel", .engine = "umbel", .api_version = VK_API_1_3};
    vk_instance_info info = {.type = VK_IS_INSTANCE, .application = &application};
    vk_handle instance = NULL;
    snprintf(found.why, sizeof found.why, "the Vulkan loader is of Vulkan 1.0");
    if (!fn || !get(NULL, "vkEnumerateInstanceVersion")) return NULL;
    memcpy(&create, &fn, sizeof fn);
    int32_t code = create(&info, NULL, &instance);
    if (code == VK_NO_DRIVER)
        snprintf(found.why, sizeof found.why, "no Vulkan driver is installed");
    else
        snprintf(found.why, sizeof found.why, "vkCreateInstance failed: %d", (int)code);
    return code == 0 ? instance : NULL;
}

static bool find_calls(get_fn get, vk_handle instance)
{
#define UM_VK_INSTANCE(result, name, parameters, arguments, more)                                  \
    um_os_fn fn_##name = get(instance, #name);                                                     \
    memcpy(&um_vk.name, &fn_##name, sizeof fn_##name);                                             \
    if (!fn_##name) {                                                                              \
        snprintf(found.why, sizeof found.why, "the Vulkan loader has no " #name);                  \
        return false;                                                                              \
    }
#include "backend/vulkan/vk.def"
    return true;
}

static void look(void)
{
    vk_handle handle[DEVICES_MAX], instance;
    uint32_t count = DEVICES_MAX;
    um_error saved = *um_last_error();
    get_fn get = load();
    extensions *all = um_mem_alloc(sizeof *all);
    if (get && all && (instance = create_instance(get)) != NULL && find_calls(get, instance)) {
        if (um_vk.vkEnumeratePhysicalDevices(instance, &count, handle) < 0) count = 0;
        snprintf(found.why, sizeof found.why, "no Vulkan driver has a device");
        for (uint32_t i = 0; i < count; i++) {
            um_vk_physical *p = &found.device[found.count];
            *p = (um_vk_physical){.handle = handle[i]};
            const char *why = look_at(p, all);
            if (why)
                snprintf(found.why, sizeof found.why, "%.100s %s", p->properties.name, why);
            else
                found.count++;
        }
    }
    um_mem_free(all);
    um_fail_again(&saved);
}

int32_t um_vk_devices(const um_vk_physical **out, char *why, size_t why_size)
{
    um_call_once(&found.once, look);
    *out = found.device;
    if (why_size > 0) snprintf(why, why_size, "%s", found.count ? "" : found.why);
    return found.count;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static um_os_fn find_later(vk_handle device, const char *name)
{
    char extended[64];
    um_os_fn fn = um_vk.vkGetDeviceProcAddr(device, name);
    snprintf(extended, sizeof extended, "%sKHR", name);
    return fn ? fn : um_vk.vkGetDeviceProcAddr(device, extended);
}

static void find_device_calls(vk_handle device, um_vk_calls *calls)
{
    um_os_fn fn;
#define UM_VK_DEVICE(result, name, parameters, arguments, more)                                    \
    fn = um_vk.vkGetDeviceProcAddr(device, #name);                                                 \
    memcpy(&calls->name, &fn, sizeof fn);
#define UM_VK_LATER(result, name, parameters, arguments, more)                                     \
    fn = find_later(device, #name);                                                                \
    memcpy(&calls->name, &fn, sizeof fn);
#include "backend/vulkan/vk.def"
}

um_status um_vk_open(const um_vk_physical *physical, vk_handle *device, um_vk_calls *calls)
{
    um_vk_physical p = *physical; /* whose features are linked anew */
    const char *extension[UM_VK_MORE_FEATURES];
    float priority[UM_VK_QUEUES] = {0};
    vk_queues_info queues = {.type = VK_IS_QUEUES,
                             .family = p.family,
                             .count = UM_MIN(p.queue_count, (uint32_t)UM_VK_QUEUES),
                             .priority = priority};
    vk_device_info info = {.type = VK_IS_DEVICE,
                           .next = chain(&p),
                           .queues_count = 1,
                           .queues = &queues,
                           .extension = extension};
    for (int i = 0; i < UM_VK_MORE_FEATURES; i++)
        if (p.more[i].type && !(p.core >> i & 1))
            extension[info.extension_count++] = rows[i].extension;
    int32_t code = um_vk.vkCreateDevice(p.handle, &info, NULL, device);
    if (code != 0) {
        *device = NULL;
        return um_vk_fail("vkCreateDevice", code);
    }
    find_device_calls(*device, calls);
    return UM_OK;
}

um_status um_vk_fail(const char *call, int32_t code)
{
    um_status status = UM_DEVICE_ERROR;
    if (code == VK_NO_HOST_MEMORY || code == VK_NO_DEVICE_MEMORY) status = UM_OUT_OF_MEMORY;
    if (code == VK_LOST) status = UM_DEVICE_LOST;
    return um_backend_fail(status, "vulkan", NULL, code, "vulkan: %s failed: %d", call, (int)code);
}
