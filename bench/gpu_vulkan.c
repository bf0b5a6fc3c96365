/* bench/gpu_vulkan.c: Vulkan by hand: memory the host sees, a descriptor set, and a command buffer
 * that is recorded once and submitted again and again. The product has an invocation for each
 * element, and nothing else: what a first kernel looks like. */
#include "backend/vulkan/vulkan.h"
#include "bench/gpu.h"
#include "render/render.h"

#include <stdio.h>

enum { BUFFERS = 3, WORDS = BUFFERS + 1, TILE = 16, GROUP = 256 };

typedef struct buffer {
    vk_object handle, memory;
    float *mapped;
} buffer;

static um_backend_device opened; /* only its handle, its calls and where it came from */
static um_vk_calls vk;
static vk_handle device, queue, commands;
static vk_object commands_pool, set_pool, set_layout, layout, pipeline, semaphore;
static uint64_t submitted;
static buffer buffers[BUFFERS];
static size_t product_bytes;

static void must(int32_t code, const char *what)
{
    if (code != 0) gpu_die(what, code);
}

static void open_device(int32_t ordinal)
{
    char why[200];
    int32_t count = 0;
    if (um_vk_enumerate(&count, why, sizeof why) != UM_OK || count <= ordinal)
        gpu_die(why[0] ? why : "no such device", ordinal);
    const um_vk_physical *physical = opened.physical = um_vk_device_at(ordinal);
    printf("%s%s\n", physical->properties.name,
           physical->properties.kind == VK_DEVICE_CPU ? " (a software device)" : "");
    if (um_vk_open(&opened) != UM_OK) gpu_die("vkCreateDevice", 0);
    device = opened.handle;
    vk = opened.vk;
    vk.vkGetDeviceQueue(device, physical->family, 0, &queue);
    vk_command_pool_info pool = {.type = VK_IS_COMMAND_POOL, .family = physical->family};
    must(vk.vkCreateCommandPool(device, &pool, NULL, &commands_pool), "vkCreateCommandPool");
    vk_timeline_info timeline = {.type = VK_IS_TIMELINE, .is_timeline = 1};
    vk_semaphore_info info = {.type = VK_IS_SEMAPHORE, .next = &timeline};
    must(vk.vkCreateSemaphore(device, &info, NULL, &semaphore), "vkCreateSemaphore");
}

static void close_device(void)
{
    vk.vkDestroySemaphore(device, semaphore, NULL);
    vk.vkDestroyCommandPool(device, commands_pool, NULL);
    vk.vkDestroyDevice(device, NULL);
}

/* ---- buffers -------------------------------------------------------------------------------- */

static uint32_t memory_of(uint32_t allowed)
{
    const vk_memory_properties *all = &opened.physical->memory;
    const uint32_t seen = VK_MEMORY_VISIBLE | VK_MEMORY_COHERENT;
    for (int local = 1; local >= 0; local--) /* the device's own, where the host sees that */
        for (uint32_t i = 0; i < all->type_count; i++) {
            uint32_t flags = all->memory[i].flags;
            if ((allowed >> i & 1) && (flags & seen) == seen &&
                (!local || (flags & VK_MEMORY_LOCAL)))
                return i;
        }
    gpu_die("no memory that the host sees", 0);
    return 0;
}

static void make_buffer(int32_t i, const void *data, size_t size)
{
    buffer *b = &buffers[i];
    vk_requirements needs;
    void *mapped;
    vk_buffer_info info = {.type = VK_IS_BUFFER, .size_bytes = size, .usage = VK_BUFFER_STORAGE};
    must(vk.vkCreateBuffer(device, &info, NULL, &b->handle), "vkCreateBuffer");
    vk.vkGetBufferMemoryRequirements(device, b->handle, &needs);
    vk_memory_info memory = {.type = VK_IS_MEMORY,
                             .size_bytes = needs.size_bytes,
                             .memory = memory_of(needs.memory_bits)};
    must(vk.vkAllocateMemory(device, &memory, NULL, &b->memory), "vkAllocateMemory");
    must(vk.vkBindBufferMemory(device, b->handle, b->memory, 0), "vkBindBufferMemory");
    must(vk.vkMapMemory(device, b->memory, 0, size, 0, &mapped), "vkMapMemory");
    b->mapped = mapped;
    if (data) memcpy(mapped, data, size);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* z[row, column] of x[n, n] and y[n, n] */
static void write_product(um_kernel *k, um_mem x, um_mem y, um_mem z, um_val n)
{
    um_val column = um_k_global_index(k, 0), row = um_k_global_index(k, 1);
    um_val begin = um_k_mul(k, row, n);
    um_mem sum = um_k_var(k, "sum", UM_F32, 1);
    um_k_if(k, um_k_and(k, um_k_lt(k, row, n), um_k_lt(k, column, n)));
    um_k_set(k, sum, um_k_f32(k, 0));
    um_val i = um_k_for(k, um_k_u32(k, 0), n, um_k_u32(k, 1));
    um_val a = um_k_load(k, x, um_k_add(k, begin, i));
    um_val b = um_k_load(k, y, um_k_add(k, um_k_mul(k, i, n), column));
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), um_k_mul(k, a, b)));
    um_k_end(k);
    um_k_store(k, z, um_k_add(k, begin, column), um_k_get(k, sum));
    um_k_end(k);
}

static void write_add(um_kernel *k, um_mem x, um_mem y, um_mem z, um_val n)
{
    um_val i = um_k_global_index(k, 0);
    um_k_if(k, um_k_lt(k, i, n));
    um_k_store(k, z, i, um_k_add(k, um_k_load(k, x, i), um_k_load(k, y, i)));
    um_k_end(k);
}

static void make_pipeline(bool is_product)
{
    um_kernel *k, *lowered = NULL;
    um_text text = {0};
    um_kernel_desc desc = {.name = "by_hand", .group_size = {GROUP, 1, 1}};
    if (is_product) desc.group_size[0] = desc.group_size[1] = TILE;
    if (um_kernel_create(&desc, &k) != UM_OK) gpu_die("um_kernel_create", 0);
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ), y = um_k_buffer(k, "y", UM_F32, UM_K_READ);
    um_mem z = um_k_buffer(k, "z", UM_F32, UM_K_WRITE);
    (is_product ? write_product : write_add)(k, x, y, z, um_k_scalar(k, "n", UM_U32));
    um_klacks lacks = um_spirv_flavour_lacks(UM_SPIRV_VULKAN, 0, 0);
    if (um_kernel_finish(k) != UM_OK || um_kernel_lower(k, &lacks, &lowered) != UM_OK ||
        um_render_spirv(lowered, UM_SPIRV_VULKAN, 0, &text) != UM_OK)
        gpu_die("a kernel", 0);
    vk_module_info module = {.type = VK_IS_MODULE,
                             .size_bytes = (size_t)text.size,
                             .words = (const uint32_t *)(const void *)text.data};
    vk_pipeline_info info = {
        .type = VK_IS_PIPELINE,
        .stage = {.type = VK_IS_STAGE, .stage = VK_STAGE_COMPUTE, .entry = "um_by_hand"},
        .layout = layout};
    must(vk.vkCreateShaderModule(device, &module, NULL, &info.stage.module),
         "vkCreateShaderModule");
    must(vk.vkCreateComputePipelines(device, 0, 1, &info, NULL, &pipeline),
         "vkCreateComputePipelines");
    vk.vkDestroyShaderModule(device, info.stage.module, NULL);
    um_text_release(&text);
    um_kernel_release(lowered);
    um_kernel_release(k);
}

static void make_layout(void)
{
    vk_binding binding[BUFFERS];
    vk_push_range push = {VK_STAGE_COMPUTE, 0, WORDS * sizeof(uint32_t)};
    for (uint32_t i = 0; i < BUFFERS; i++)
        binding[i] = (vk_binding){i, VK_STORAGE_DESCRIPTOR, 1, VK_STAGE_COMPUTE, NULL};
    vk_set_layout_info set = {.type = VK_IS_SET_LAYOUT, .count = BUFFERS, .binding = binding};
    vk_layout_info info = {
        .type = VK_IS_LAYOUT, .set_count = 1, .set = &set_layout, .push_count = 1, .push = &push};
    must(vk.vkCreateDescriptorSetLayout(device, &set, NULL, &set_layout), "a set's layout");
    must(vk.vkCreatePipelineLayout(device, &info, NULL, &layout), "vkCreatePipelineLayout");
}

static vk_object make_set(void)
{
    vk_object set;
    vk_range range[BUFFERS];
    vk_write write[BUFFERS];
    vk_pool_size size = {VK_STORAGE_DESCRIPTOR, BUFFERS};
    vk_set_pool_info sets = {.type = VK_IS_SET_POOL, .sets_max = 1, .size_count = 1, .size = &size};
    must(vk.vkCreateDescriptorPool(device, &sets, NULL, &set_pool), "vkCreateDescriptorPool");
    vk_set_info info = {.type = VK_IS_SET, .pool = set_pool, .count = 1, .layout = &set_layout};
    must(vk.vkAllocateDescriptorSets(device, &info, &set), "vkAllocateDescriptorSets");
    for (uint32_t i = 0; i < BUFFERS; i++) {
        range[i] = (vk_range){buffers[i].handle, 0, UINT64_MAX}; /* the whole */
        write[i] = (vk_write){.type = VK_IS_WRITE,
                              .set = set,
                              .binding = i,
                              .count = 1,
                              .descriptor = VK_STORAGE_DESCRIPTOR,
                              .range = &range[i]};
    }
    vk.vkUpdateDescriptorSets(device, BUFFERS, write, 0, NULL);
    return set;
}

/* Of buffers that are there. */
static void record(bool is_product, uint32_t n)
{
    uint32_t words[WORDS] = {0, 0, 0, n}, groups = is_product ? (n + TILE - 1) / TILE : 1;
    vk_commands_info info = {.type = VK_IS_COMMANDS, .pool = commands_pool, .count = 1};
    vk_begin_info begin = {.type = VK_IS_BEGIN};
    vk_barrier to_host = {.type = VK_IS_BARRIER, .from = VK_ACCESS_WRITE, .to = VK_ACCESS_READ};
    make_layout();
    make_pipeline(is_product);
    vk_object set = make_set();
    must(vk.vkAllocateCommandBuffers(device, &info, &commands), "vkAllocateCommandBuffers");
    must(vk.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    vk.vkCmdBindPipeline(commands, VK_BIND_COMPUTE, pipeline);
    vk.vkCmdBindDescriptorSets(commands, VK_BIND_COMPUTE, layout, 0, 1, &set, 0, NULL);
    vk.vkCmdPushConstants(commands, layout, VK_STAGE_COMPUTE, 0, sizeof words, words);
    vk.vkCmdDispatch(commands, groups, groups, 1);
    vk.vkCmdPipelineBarrier(commands, VK_AT_COMPUTE, VK_AT_HOST, 0, 1, &to_host, 0, NULL, 0, NULL);
    must(vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

static void run(void)
{
    submitted++;
    vk_timeline_submit values = {
        .type = VK_IS_TIMELINE_SUBMIT, .signal_count = 1, .signal = &submitted};
    vk_submit_info info = {.type = VK_IS_SUBMIT,
                           .next = &values,
                           .commands_count = 1,
                           .commands = &commands,
                           .signal_count = 1,
                           .signal = &semaphore};
    vk_wait_info wait = {
        .type = VK_IS_WAIT, .count = 1, .semaphore = &semaphore, .value = &submitted};
    must(vk.vkQueueSubmit(queue, 1, &info, 0), "vkQueueSubmit");
    must(vk.vkWaitSemaphores(device, &wait, UINT64_MAX), "vkWaitSemaphores");
}

static void release(void)
{
    must(vk.vkResetCommandPool(device, commands_pool, 0), "vkResetCommandPool");
    vk.vkDestroyDescriptorPool(device, set_pool, NULL);
    vk.vkDestroyPipeline(device, pipeline, NULL);
    vk.vkDestroyPipelineLayout(device, layout, NULL);
    vk.vkDestroyDescriptorSetLayout(device, set_layout, NULL);
    for (int32_t i = 0; i < BUFFERS; i++) {
        vk.vkDestroyBuffer(device, buffers[i].handle, NULL);
        vk.vkFreeMemory(device, buffers[i].memory, NULL);
    }
}

/* ---- the peer ------------------------------------------------------------------------------- */

static void begin_product(int64_t n, const float *x, const float *y)
{
    product_bytes = (size_t)(n * n) * sizeof *x;
    make_buffer(0, x, product_bytes);
    make_buffer(1, y, product_bytes);
    make_buffer(2, NULL, product_bytes);
    record(true, (uint32_t)n);
}

static void end_product(float *z)
{
    memcpy(z, buffers[2].mapped, product_bytes);
    release();
}

static void begin_call(void)
{
    for (int32_t i = 0; i < BUFFERS; i++) make_buffer(i, NULL, 64);
    record(false, 1);
}

gpu_peer gpu_vulkan = {.backend = "vulkan",
                       .api = "Vulkan",
                       .product = "one by one",
                       .open = open_device,
                       .close = close_device,
                       .begin_product = begin_product,
                       .run_product = run,
                       .end_product = end_product,
                       .begin_call = begin_call,
                       .run_call = run,
                       .end_call = release};
