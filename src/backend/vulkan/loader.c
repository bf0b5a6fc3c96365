/* backend/vulkan/loader.c: opens the Vulkan loader and looks for devices, once; and opens a device.
 */
#include "backend/vulkan/vulkan.h"
#include "render/render.h"

#include <stdio.h>

um_vk_instance_calls um_vk;

#define NO_CALL "the Vulkan loader has no %s"

enum { DEVICES_MAX = 16, FAMILIES_MAX = 16, EXTENSIONS_MAX = 512, GROUP_INVOCATIONS = 256 };

static struct {
    um_once once;
    um_vk_physical device[DEVICES_MAX];
    int32_t count;
    char why[200];
    vk_extension extension[EXTENSIONS_MAX]; /* of the device that is looked at */
    uint32_t extension_count;
} found = {.once = UM_ONCE_INIT};

static const struct {
    uint32_t type, members, api;
    const char *extension;
} rows[VK_WITHS] = {
#define UM_VK_FEATURE(NAME, number, members, version, extension)                                   \
    {number, members, version, extension},
#include "backend/vulkan/vk.def"
};

/* ---- one device -----------------------------------------------------------------------------
 */

static bool has_extension(const char *name)
{
    for (uint32_t i = 0; i < found.extension_count; i++)
        if (strcmp(found.extension[i].name, name) == 0) return true;
    return false;
}

/* Links those that the device knows; `wanted` only where they are to be used. */
static vk_features *chain(um_vk_physical *p)
{
    void **at = &p->features.next;
    p->features.type = VK_IS_FEATURES;
    for (int i = 0; i < VK_WITHS; i++) {
        if (p->more[i].type == 0) continue;
        *at = &p->more[i];
        at = &p->more[i].next;
    }
    *at = NULL;
    return &p->features;
}

/* What the device has of the rows; of that, what is used stays. */
static void read_features(um_vk_physical *p)
{
    for (int i = 0; i < VK_WITHS; i++) {
        bool core = p->properties.api_version >= rows[i].api;
        if (!core && !has_extension(rows[i].extension)) continue;
        p->more[i].type = rows[i].type;
        p->core |= (uint32_t)core << i;
    }
    um_vk.vkGetPhysicalDeviceFeatures2(p->handle, chain(p));
    for (uint32_t i = 0; i < UM_COUNT_OF(p->features.has); i++)
        if (i != VK_HAS_F64 && i != VK_HAS_I64 && i != VK_HAS_I16) p->features.has[i] = 0;
    for (uint32_t i = 0; i < 4 * VK_WITHS; i++)
        if (!(rows[i / 4].members >> i % 4 & 1)) p->more[i / 4].has[i % 4] = 0;
    if (p->features.has[VK_HAS_F64]) p->types |= UM_BIT(UM_F64);
    if (p->features.has[VK_HAS_I64]) p->types |= UM_BIT(UM_I64) | UM_BIT(UM_U64);
    if (p->features.has[VK_HAS_I16] && p->more[VK_WITH_STORAGE_16].has[0])
        p->types |= UM_BIT(UM_I16) | UM_BIT(UM_U16);
    if (p->more[VK_WITH_NARROW].has[1] && p->more[VK_WITH_STORAGE_8].has[0])
        p->types |= UM_BIT(UM_I8) | UM_BIT(UM_U8);
}

/* Which modes of f16, f32 and f64, bits each, can be asked for: all may have their own, or only
 * f32, or none. */
static uint32_t modes_of(const vk_float_controls *c, bool f16)
{
    const uint32_t *const has[] = {c->specials, c->subnormals, c->nearest};
    const uint32_t apart[] = {VK_MODES_APART, c->subnormals_apart, c->rounding_apart};
    uint32_t modes = 0;
    for (int m = 0; m < 3; m++) {
        uint32_t can = (f16 && has[m][0] ? 1 : 0) | has[m][1] << 1 | has[m][2] << 2;
        if (apart[m] != VK_MODES_APART && (can & 5) != 5) can &= 2;
        if (apart[m] != VK_MODES_TOGETHER || can == 7) modes |= can << 3 * m;
    }
    return modes;
}

static void read_properties(um_vk_physical *p)
{
    vk_float_controls floats = {.type = VK_IS_FLOAT_CONTROLS};
    vk_subgroup_sizes sizes = {.type = VK_IS_SUBGROUP_SIZES};
    vk_subgroup_properties subgroup = {.type = VK_IS_SUBGROUP};
    vk_maintenance_3 sizes_max = {.type = VK_IS_MAINTENANCE_3, .next = &subgroup};
    vk_maintenance_4 buffers = {.type = VK_IS_MAINTENANCE_4, .next = &floats, UINT64_MAX};
    if (p->more[VK_WITH_SUBGROUP_SIZES].has[0] && p->more[VK_WITH_SUBGROUP_SIZES].has[1])
        subgroup.next = &sizes;
    floats.next = &sizes_max;
    p->properties.next = p->properties.api_version >= VK_API_1_3   ? (void *)&buffers
                         : p->properties.api_version >= VK_API_1_2 ? (void *)&floats
                                                                   : &sizes_max;
    um_vk.vkGetPhysicalDeviceProperties2(p->handle, &p->properties);
    p->properties.next = NULL;
    bool f16 = p->more[VK_WITH_NARROW].has[0] && p->more[VK_WITH_STORAGE_16].has[0];
    p->modes = modes_of(&floats, f16 && floats.subnormals[0]);
    if ((p->modes & UM_SPIRV_MODES_16) == UM_SPIRV_MODES_16) p->types |= UM_BIT(UM_F16);
    p->allocation_max_bytes = UM_MIN(sizes_max.allocation_max, buffers.buffer_max);
    bool all_types = !(p->types & ~UM_BIT(UM_F64)) || p->more[VK_WITH_SUBGROUP_TYPES].has[0];
    if (all_types && (subgroup.stages & VK_STAGE_COMPUTE) && (sizes.stages & VK_STAGE_COMPUTE) &&
        (subgroup.operations & VK_SUBGROUP_OPS) == VK_SUBGROUP_OPS &&
        sizes.per_group_max * subgroup.size >= GROUP_INVOCATIONS)
        p->subgroup_size = subgroup.size;
    p->memory.type = VK_IS_MEMORY_PROPERTIES;
    um_vk.vkGetPhysicalDeviceMemoryProperties2(p->handle, &p->memory);
    p->has_budget = has_extension("VK_EXT_memory_budget");
}

/* Matrix tiles of a subgroup, of types that products have. */
static void read_tiles(um_vk_physical *p)
{
    static const um_dtype of[] = {UM_F16, UM_F32, UM_F64, UM_I8, UM_I16, UM_I32};
    const uint32_t *model = p->more[VK_WITH_MEMORY_MODEL].has;
    vk_matrix all[64];
    uint32_t count = UM_COUNT_OF(all);
    p->unit = (um_kunit){.tiles = p->tile, .subgroup = p->subgroup_size, .fma_twice = true};
    if (!p->more[VK_WITH_MATRICES].has[0] || !model[0] || !model[1] || !p->subgroup_size ||
        p->properties.limits.shared_bytes < UM_KUNIT_SHARED_BYTES ||
        !um_vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        return;
    for (uint32_t i = 0; i < count; i++) all[i] = (vk_matrix){.type = VK_IS_MATRIX};
    if (um_vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(p->handle, &count, all) < 0) return;
    for (uint32_t i = 0; i < count && p->unit.tile_count < UM_MATRIX_TILES_MAX; i++) {
        const vk_matrix *m = &all[i];
        bool known = m->a < UM_COUNT_OF(of) && m->c < UM_COUNT_OF(of) && m->a == m->b;
        if (!known || m->c != m->result || m->saturates || m->scope != VK_SCOPE_SUBGROUP) continue;
        um_matrix_tile tile = {(int32_t)m->m, (int32_t)m->n, (int32_t)m->k, of[m->a], of[m->c]};
        if (um_dtype_bits(tile.input) != 32 && !(p->types & UM_BIT(tile.input))) continue;
        p->tile[p->unit.tile_count++] = tile;
    }
}

/* A family that computes and does not draw comes first: its queues are its own. */
static bool find_family(um_vk_physical *p)
{
    vk_queue_family family[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX, best = 0;
    um_vk.vkGetPhysicalDeviceQueueFamilyProperties(p->handle, &count, family);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t good = family[i].flags & VK_QUEUE_GRAPHICS ? 1 : 2;
        if (!(family[i].flags & VK_QUEUE_COMPUTE) || good <= best) continue;
        best = good;
        p->family = i;
        p->queue_count = family[i].count;
    }
    return best > 0;
}

/* Why it cannot be used; NULL: it can. */
static const char *look_at(um_vk_physical *p)
{
    p->properties.type = VK_IS_PROPERTIES;
    um_vk.vkGetPhysicalDeviceProperties2(p->handle, &p->properties);
    if (p->properties.api_version < VK_API_1_1) return "has Vulkan 1.0 only";
    found.extension_count = EXTENSIONS_MAX;
    if (um_vk.vkEnumerateDeviceExtensionProperties(p->handle, NULL, &found.extension_count,
                                                   found.extension) < 0)
        found.extension_count = 0;
    read_features(p);
    read_properties(p);
    read_tiles(p);
    if (!find_family(p)) return "has no queue that computes";
    if (!p->more[VK_WITH_TIMELINES].has[0]) return "has no timeline semaphores";
    if (p->properties.limits.group_invocations < GROUP_INVOCATIONS)
        return "has work-groups of less than 256 invocations";
    return NULL;
}

/* ---- the library ------------------------------------------------------------------------------
 */

typedef um_os_fn (*get_fn)(vk_handle, const char *);

static vk_handle fails(const char *format, const char *name, int32_t code)
{
    snprintf(found.why, sizeof found.why, format, name, (int)code);
    return NULL;
}

/* The instance, and its functions; the library stays open. */
static vk_handle load(void)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                        "libMoltenVK.dylib"};
    const vk_application_info application = {
        .type = VK_IS_APPLICATION, .name = "umbel", .engine = "umbel", .api_version = VK_API_1_3};
    const vk_instance_info info = {.type = VK_IS_INSTANCE, .application = &application};
    vk_handle instance = NULL;
    get_fn get;
    void *library = um_os_library_open_any(names, UM_COUNT_OF(names));
    if (!library) return fails("no Vulkan loader (%s)", names[0], 0);
    um_os_fn fn = um_os_library_find(library, "vkGetInstanceProcAddr");
    memcpy(&get, &fn, sizeof fn);
    if (!fn) return fails(NO_CALL, "vkGetInstanceProcAddr", 0);
#define LOAD(name, must)                                                                           \
    if ((fn = get(instance, #name)) == NULL && (must)) return fails(NO_CALL, #name, 0);            \
    memcpy(&um_vk.name, &fn, sizeof fn);
#define UM_VK_GLOBAL(result, name, parameters, arguments, more) LOAD(name, true)
#include "backend/vulkan/vk.def"
    int32_t code = um_vk.vkCreateInstance(&info, NULL, &instance);
    if (code == VK_NO_DRIVER) return fails("no Vulkan driver is installed", "", 0);
    if (code != 0) return fails("%s failed: %d", "vkCreateInstance", code);
#define UM_VK_PERHAPS(result, name, parameters, arguments, more)  LOAD(name, false)
#define UM_VK_INSTANCE(result, name, parameters, arguments, more) LOAD(name, true)
#include "backend/vulkan/vk.def"
    return instance;
}

static void look(void)
{
    um_error saved = *um_last_error();
    vk_handle handle[DEVICES_MAX], instance = load();
    uint32_t count = DEVICES_MAX;
    if (!instance || um_vk.vkEnumeratePhysicalDevices(instance, &count, handle) < 0) count = 0;
    if (instance) fails("no Vulkan driver has a device", "", 0);
    for (uint32_t i = 0; i < count; i++) {
        um_vk_physical *p = &found.device[found.count];
        *p = (um_vk_physical){.handle = handle[i]};
        const char *why = look_at(p);
        if (why)
            snprintf(found.why, sizeof found.why, "%.100s %s", p->properties.name, why);
        else
            found.count++;
    }
    um_fail_again(&saved);
}

um_status um_vk_enumerate(int32_t *count, char *why, size_t why_size)
{
    um_call_once(&found.once, look);
    if (why_size > 0) snprintf(why, why_size, "%s", found.count ? "" : found.why);
    *count = found.count;
    return UM_OK;
}

const um_vk_physical *um_vk_device_at(int32_t ordinal) { return &found.device[ordinal]; }

/* ---- opening ----------------------------------------------------------------------------------
 */

static um_os_fn find_call(vk_handle device, const char *name)
{
    char extended[64];
    um_os_fn fn = um_vk.vkGetDeviceProcAddr(device, name);
    snprintf(extended, sizeof extended, "%sKHR", name);
    return fn ? fn : um_vk.vkGetDeviceProcAddr(device, extended);
}

um_status um_vk_open(um_backend_device *device)
{
    um_vk_physical p = *device->physical; /* whose features are linked anew */
    const char *extension[VK_WITHS];
    const float priority[UM_VK_QUEUES] = {0};
    vk_queues_info queues = {.type = VK_IS_QUEUES,
                             .family = p.family,
                             .count = UM_MIN(p.queue_count, (uint32_t)UM_VK_QUEUES),
                             .priority = priority};
    vk_device_info info = {.type = VK_IS_DEVICE,
                           .next = chain(&p),
                           .queues_count = 1,
                           .queues = &queues,
                           .extension = extension};
    for (int i = 0; i < VK_WITHS; i++)
        if (p.more[i].type && !(p.core >> i & 1))
            extension[info.extension_count++] = rows[i].extension;
    um_os_fn fn;
    vk_handle handle;
    int32_t code = um_vk.vkCreateDevice(p.handle, &info, NULL, &handle);
    if (code != 0) return um_vk_fail("vkCreateDevice", code);
    device->handle = handle;
#define UM_VK_DEVICE(result, name, parameters, arguments, more)                                    \
    fn = find_call(device->handle, #name);                                                         \
    memcpy(&device->vk.name, &fn, sizeof fn);
#include "backend/vulkan/vk.def"
    for (; device->queue_count < queues.count; device->queue_count++)
        device->vk.vkGetDeviceQueue(device->handle, p.family, device->queue_count,
                                    &device->queue[device->queue_count]);
    return UM_OK;
}

um_status um_vk_fail(const char *call, int32_t code)
{
    um_status status = code == VK_LOST ? UM_DEVICE_LOST : UM_DEVICE_ERROR;
    if (code == VK_NO_HOST_MEMORY || code == VK_NO_DEVICE_MEMORY || code == VK_TOO_MANY)
        status = UM_OUT_OF_MEMORY;
    return um_backend_fail(status, "vulkan", NULL, code, "vulkan: %s failed: %d", call, (int)code);
}
