/* backend/vulkan/vk.h: what the driver needs of the Vulkan API, declared by ourselves: structs as
 * the Vulkan 1.3 specification lays them out, with names of ours, and its numbers. What the driver
 * never looks at is an array or missing at a struct's end. */
#ifndef UM_BACKEND_VULKAN_VK_H
#define UM_BACKEND_VULKAN_VK_H

#include "base/os.h"

typedef struct um_vk_any *vk_handle; /* instance, device, queue, command buffer */
typedef uint64_t vk_object;          /* every other handle */

/* Each struct begins with its number and what extends it. */
enum {
    VK_IS_APPLICATION = 0,
    VK_IS_INSTANCE = 1,
    VK_IS_QUEUES = 2,
    VK_IS_DEVICE = 3,
    VK_IS_SUBMIT = 4,
    VK_IS_MEMORY = 5,
    VK_IS_SEMAPHORE = 9,
    VK_IS_BUFFER = 12,
    VK_IS_MODULE = 16,
    VK_IS_CACHE = 17,
    VK_IS_STAGE = 18,
    VK_IS_PIPELINE = 29,
    VK_IS_LAYOUT = 30,
    VK_IS_SET_LAYOUT = 32,
    VK_IS_SET_POOL = 33,
    VK_IS_SET = 34,
    VK_IS_WRITE = 35,
    VK_IS_COMMAND_POOL = 39,
    VK_IS_COMMANDS = 40,
    VK_IS_BEGIN = 42,
    VK_IS_BARRIER = 46,
    VK_IS_FEATURES = 1000059000,
    VK_IS_PROPERTIES = 1000059001,
    VK_IS_MEMORY_FLAGS = 1000060000,
    VK_IS_SUBGROUP = 1000094000,
    VK_IS_MAINTENANCE_3 = 1000168000,
    VK_IS_TIMELINE = 1000207002,
    VK_IS_TIMELINE_SUBMIT = 1000207003,
    VK_IS_WAIT = 1000207004,
    VK_IS_SUBGROUP_SIZES = 1000225000,
    VK_IS_SUBGROUP_SIZE = 1000225001,
    VK_IS_ADDRESS = 1000244001
};

/* Results; those below 0 are errors. */
enum { VK_TIMEOUT = 2, VK_NO_HOST_MEMORY = -1, VK_NO_DEVICE_MEMORY = -2, VK_LOST = -4 };

enum {
    VK_QUEUE_GRAPHICS = 1,
    VK_QUEUE_COMPUTE = 2,
    VK_DEVICE_OTHER = 0,
    VK_DEVICE_INTEGRATED = 1,
    VK_DEVICE_CPU = 4,
    VK_MEMORY_LOCAL = 1,
    VK_MEMORY_VISIBLE = 2,
    VK_MEMORY_COHERENT = 4,
    VK_MEMORY_CACHED = 8,
    VK_HEAP_LOCAL = 1,
    VK_MEMORY_HAS_ADDRESS = 2,
    VK_BUFFER_COPY_FROM = 1,
    VK_BUFFER_COPY_TO = 2,
    VK_BUFFER_STORAGE = 0x20,
    VK_BUFFER_HAS_ADDRESS = 0x20000,
    VK_STAGE_COMPUTE = 0x20, /* of a shader */
    VK_AT_COMPUTE = 0x800,   /* of a queue */
    VK_AT_TRANSFER = 0x1000,
    VK_AT_HOST = 0x4000,
    VK_ACCESS_SHADER_READ = 0x20,
    VK_ACCESS_SHADER_WRITE = 0x40,
    VK_ACCESS_TRANSFER_READ = 0x800,
    VK_ACCESS_TRANSFER_WRITE = 0x1000,
    VK_ACCESS_HOST_READ = 0x2000,
    VK_BIND_COMPUTE = 1,
    VK_STORAGE_DESCRIPTOR = 7,
    VK_BEGIN_ONCE = 1,
    VK_POOL_TRANSIENT = 1,
    VK_FULL_SUBGROUPS = 2,
    VK_SUBGROUP_OPS = 0x3d, /* basic, arithmetic, ballot, shuffle, relative shuffle */
    VK_API_1_1 = 1 << 22 | 1 << 12,
    VK_API_1_2 = 1 << 22 | 2 << 12,
    VK_API_1_3 = 1 << 22 | 3 << 12
};

/* ---- instance and physical devices ------------------------------------------------------------
 */

typedef struct vk_application_info {
    uint32_t type;
    const void *next;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api_version;
} vk_application_info;

typedef struct vk_instance_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const vk_application_info *application;
    uint32_t layer_count;
    const char *const *layer;
    uint32_t extension_count;
    const char *const *extension;
} vk_instance_info;

typedef struct vk_extension {
    char name[256];
    uint32_t version;
} vk_extension;

/* Of a device, and what extends them: yes or no each. */
typedef struct vk_features {
    uint32_t type;
    void *next;
    uint32_t has[55];
} vk_features;
enum { VK_HAS_F64 = 39, VK_HAS_I64 = 40, VK_HAS_I16 = 41 };
typedef struct vk_more_features {
    uint32_t type;
    void *next;
    uint32_t has[4];
} vk_more_features;

typedef struct vk_limits {
    uint32_t image[5], texel, uniform_range, storage_range, push_bytes, allocations, samplers;
    uint64_t granularity, sparse_bytes;
    uint32_t sets, stage_samplers, stage_uniform, stage_storage, stage_other[4];
    uint32_t set_samplers, set_uniform[2], set_storage, set_other[4], vertex[22];
    uint32_t shared_bytes, group_count[3], group_invocations, group_size[3];
    uint32_t bits[5];
    float sampler[2];
    uint32_t viewports[3];
    float viewport_bounds[2];
    uint32_t viewport_bits;
    size_t map_alignment;
    uint64_t texel_alignment, uniform_alignment, storage_alignment;
    uint32_t rest[35];
    uint64_t copy_alignment[2], atom;
} vk_limits;

typedef struct vk_properties {
    uint32_t type;
    void *next;
    uint32_t api_version, driver_version, vendor, device, kind;
    char name[256];
    uint8_t uuid[16]; /* of its pipeline caches */
    vk_limits limits;
    uint32_t sparse[5];
} vk_properties;

typedef struct vk_subgroup_properties {
    uint32_t type;
    void *next;
    uint32_t size, stages, operations, quads;
} vk_subgroup_properties;

typedef struct vk_subgroup_sizes {
    uint32_t type;
    void *next;
    uint32_t min, max, per_group_max, stages;
} vk_subgroup_sizes;

typedef struct vk_maintenance_3 {
    uint32_t type;
    void *next;
    uint32_t set_descriptors;
    uint64_t allocation_max;
} vk_maintenance_3;

typedef struct vk_memory_properties {
    uint32_t type_count;
    struct {
        uint32_t flags, heap;
    } memory[32];
    uint32_t heap_count;
    struct {
        uint64_t size_bytes;
        uint32_t flags;
    } heap[16];
} vk_memory_properties;

typedef struct vk_queue_family {
    uint32_t flags, count, timestamp_bits, granularity[3];
} vk_queue_family;

/* ---- devices, queues, memory --------------------------------------------------------------------
 */

typedef struct vk_queues_info {
    uint32_t type;
    const void *next;
    uint32_t flags, family, count;
    const float *priority;
} vk_queues_info;

typedef struct vk_device_info {
    uint32_t type;
    const void *next; /* vk_features */
    uint32_t flags, queues_count;
    const vk_queues_info *queues;
    uint32_t layer_count;
    const char *const *layer;
    uint32_t extension_count;
    const char *const *extension;
    const void *features;
} vk_device_info;

typedef struct vk_timeline_info {
    uint32_t type;
    const void *next;
    uint32_t is_timeline;
    uint64_t value;
} vk_timeline_info;

typedef struct vk_semaphore_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
} vk_semaphore_info;

typedef struct vk_wait_info {
    uint32_t type;
    const void *next;
    uint32_t flags, count;
    const vk_object *semaphore;
    const uint64_t *value;
} vk_wait_info;

typedef struct vk_timeline_submit {
    uint32_t type;
    const void *next;
    uint32_t wait_count;
    const uint64_t *wait;
    uint32_t signal_count;
    const uint64_t *signal;
} vk_timeline_submit;

typedef struct vk_submit_info {
    uint32_t type;
    const void *next;
    uint32_t wait_count;
    const vk_object *wait;
    const uint32_t *wait_at;
    uint32_t commands_count;
    const vk_handle *commands;
    uint32_t signal_count;
    const vk_object *signal;
} vk_submit_info;

typedef struct vk_memory_flags {
    uint32_t type;
    const void *next;
    uint32_t flags, devices;
} vk_memory_flags;

typedef struct vk_memory_info {
    uint32_t type;
    const void *next;
    uint64_t size_bytes;
    uint32_t memory;
} vk_memory_info;

typedef struct vk_buffer_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint64_t size_bytes;
    uint32_t usage, is_shared, family_count;
    const uint32_t *family;
} vk_buffer_info;

typedef struct vk_requirements {
    uint64_t size_bytes, alignment;
    uint32_t memory_bits;
} vk_requirements;

typedef struct vk_address_info {
    uint32_t type;
    const void *next;
    vk_object buffer;
} vk_address_info;

/* ---- pipelines ----------------------------------------------------------------------------------
 */

typedef struct vk_module_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t size_bytes;
    const uint32_t *words;
} vk_module_info;

typedef struct vk_binding {
    uint32_t number, descriptor, count, stages;
    const vk_object *samplers;
} vk_binding;

typedef struct vk_set_layout_info {
    uint32_t type;
    const void *next;
    uint32_t flags, count;
    const vk_binding *binding;
} vk_set_layout_info;

typedef struct vk_push_range {
    uint32_t stages, offset, size_bytes;
} vk_push_range;

typedef struct vk_layout_info {
    uint32_t type;
    const void *next;
    uint32_t flags, set_count;
    const vk_object *set;
    uint32_t push_count;
    const vk_push_range *push;
} vk_layout_info;

typedef struct vk_subgroup_size {
    uint32_t type;
    const void *next;
    uint32_t size;
} vk_subgroup_size;

typedef struct vk_pipeline_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    struct {
        uint32_t type;
        const void *next; /* vk_subgroup_size */
        uint32_t flags, stage;
        vk_object module;
        const char *entry;
        const void *constants;
    } stage;
    vk_object layout, base;
    int32_t base_index;
} vk_pipeline_info;

typedef struct vk_cache_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t size_bytes;
    const void *data;
} vk_cache_info;

/* ---- descriptors and commands -------------------------------------------------------------------
 */

typedef struct vk_pool_size {
    uint32_t descriptor, count;
} vk_pool_size;

typedef struct vk_set_pool_info {
    uint32_t type;
    const void *next;
    uint32_t flags, sets_max, size_count;
    const vk_pool_size *size;
} vk_set_pool_info;

typedef struct vk_set_info {
    uint32_t type;
    const void *next;
    vk_object pool;
    uint32_t count;
    const vk_object *layout;
} vk_set_info;

typedef struct vk_range {
    vk_object buffer;
    uint64_t offset, size_bytes;
} vk_range;

typedef struct vk_write {
    uint32_t type;
    const void *next;
    vk_object set;
    uint32_t binding, element, count, descriptor;
    const void *image;
    const vk_range *range;
    const void *texel;
} vk_write;

typedef struct vk_command_pool_info {
    uint32_t type;
    const void *next;
    uint32_t flags, family;
} vk_command_pool_info;

typedef struct vk_commands_info {
    uint32_t type;
    const void *next;
    vk_object pool;
    uint32_t is_secondary, count;
} vk_commands_info;

typedef struct vk_begin_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const void *inherited;
} vk_begin_info;

typedef struct vk_barrier {
    uint32_t type;
    const void *next;
    uint32_t from, to;
} vk_barrier;

typedef struct vk_copy {
    uint64_t from, to, size_bytes;
} vk_copy;

/* ---- what is called -----------------------------------------------------------------------------
 */

/* Of the instance; good once um_vk_devices has found a device. */
typedef struct um_vk_instance_calls {
#define UM_VK_INSTANCE(result, name, parameters) result(*name) parameters;
#define UM_VK_DEVICE(result, name, parameters)
#define UM_VK_LATER(result, name, parameters)
#include "backend/vulkan/vk.def"
#undef UM_VK_INSTANCE
#undef UM_VK_DEVICE
#undef UM_VK_LATER
} um_vk_instance_calls;
extern um_vk_instance_calls um_vk;

typedef struct um_vk_calls {
#define UM_VK_INSTANCE(result, name, parameters)
#define UM_VK_DEVICE(result, name, parameters) result(*name) parameters;
#define UM_VK_LATER(result, name, parameters)  result(*name) parameters;
#include "backend/vulkan/vk.def"
#undef UM_VK_INSTANCE
#undef UM_VK_DEVICE
#undef UM_VK_LATER
} um_vk_calls;

#endif
