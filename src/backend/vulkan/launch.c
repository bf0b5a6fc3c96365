/* backend/vulkan/launch.c: an op as launches of the kernel library's plans, whose kernels become
 * SPIR-V and pipelines when they are met for the first time. */
#include "backend/vulkan/vulkan.h"
#include "render/render.h"

#include <stdio.h>

enum { PUSH_WORDS_MAX = 32, WORDS_MAX = 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS };

/* What the driver makes of a kernel. */
typedef struct program {
    _Atomic int32_t refs; /* the cache's, and one for each launch on its way */
    um_backend_device *device;
    vk_object set_layout, layout, pipeline;
    int32_t buffer_count;
    uint32_t word_count; /* what the launch gives beside buffers */
    uint8_t element_bytes[UM_K_MAX_BUFFERS];
    bool is_written[UM_K_MAX_BUFFERS];
} program;

/* ---- programs ------------------------------------------------------------------------------- */

void um_vk_program_destroy(void *ctx, void *object)
{
    program *p = object;
    (void)ctx;
    if (atomic_fetch_sub(&p->refs, 1) > 1) return;
    const um_backend_device *device = p->device;
    if (p->pipeline) device->vk.vkDestroyPipeline(device->handle, p->pipeline, NULL);
    if (p->layout) device->vk.vkDestroyPipelineLayout(device->handle, p->layout, NULL);
    if (p->set_layout) device->vk.vkDestroyDescriptorSetLayout(device->handle, p->set_layout, NULL);
    um_mem_free(p);
}

static bool words_are_pushed(const program *p) { return p->word_count <= PUSH_WORDS_MAX; }

/* How many descriptors a launch takes. */
static int32_t descriptors_of(const program *p)
{
    return p->device->by_address ? 0 : p->buffer_count + !words_are_pushed(p);
}

static um_status make_layouts(program *p)
{
    const um_backend_device *device = p->device;
    uint32_t count = (uint32_t)descriptors_of(p);
    vk_binding binding[UM_K_MAX_BUFFERS + 1];
    for (uint32_t i = 0; i < count; i++)
        binding[i] = (vk_binding){i, VK_STORAGE_DESCRIPTOR, 1, VK_STAGE_COMPUTE, NULL};
    vk_set_layout_info set = {.type = VK_IS_SET_LAYOUT, .count = count, .binding = binding};
    vk_push_range push = {VK_STAGE_COMPUTE, 0, 4 * p->word_count};
    if (!words_are_pushed(p)) push.size_bytes = device->by_address ? 8 : 0;
    vk_layout_info layout = {.type = VK_IS_LAYOUT,
                             .set_count = count > 0,
                             .set = &p->set_layout,
                             .push_count = push.size_bytes > 0,
                             .push = &push};
    if (count > 0)
        UM_VK_TRY(device, vkCreateDescriptorSetLayout, device->handle, &set, NULL, &p->set_layout);
    UM_VK_TRY(device, vkCreatePipelineLayout, device->handle, &layout, NULL, &p->layout);
    return UM_OK;
}

static void keep_pipeline(const um_backend_device *device, const um_text *text, vk_object cache)
{
    size_t size = 0;
    um_error before = *um_last_error();
    if (device->vk.vkGetPipelineCacheData(device->handle, cache, &size, NULL) != 0) return;
    uint8_t *data = um_mem_alloc(size);
    if (data && device->vk.vkGetPipelineCacheData(device->handle, cache, &size, data) == 0)
        um_disk_put(device->pipelines, text->data, (size_t)text->size, data, size);
    um_mem_free(data);
    um_fail_again(&before);
}

/* By what an earlier process made of the same words, if that is there; a VkResult. */
static int32_t create_pipeline(const vk_pipeline_info *info, const um_text *text, program *p)
{
    const um_backend_device *device = p->device;
    um_disk_entry entry;
    vk_cache_info with = {.type = VK_IS_CACHE};
    vk_object cache = 0;
    bool there = um_disk_get(device->pipelines, text->data, (size_t)text->size, &entry);
    if (there) {
        with.data = entry.data;
        with.size_bytes = (size_t)entry.size_bytes;
    }
    if (device->vk.vkCreatePipelineCache(device->handle, &with, NULL, &cache) != 0) cache = 0;
    if (there) um_disk_entry_release(&entry);
    int32_t code =
        device->vk.vkCreateComputePipelines(device->handle, cache, 1, info, NULL, &p->pipeline);
    if (code == 0 && cache && !there) keep_pipeline(device, text, cache);
    if (cache) device->vk.vkDestroyPipelineCache(device->handle, cache, NULL);
    return code;
}

static um_status make_pipeline(const um_kernel *kernel, const um_text *text, program *p)
{
    const um_backend_device *device = p->device;
    char entry[64];
    snprintf(entry, sizeof entry, "um_%s", kernel->name);
    uint32_t lanes = device->physical->subgroup_size;
    vk_subgroup_size size = {.type = VK_IS_SUBGROUP_SIZE, .size = lanes};
    vk_module_info module = {.type = VK_IS_MODULE,
                             .size_bytes = (size_t)text->size,
                             .words = (const uint32_t *)(const void *)text->data};
    vk_pipeline_info info = {.type = VK_IS_PIPELINE,
                             .stage = {.type = VK_IS_STAGE,
                                       .next = lanes ? &size : NULL,
                                       .stage = VK_STAGE_COMPUTE,
                                       .entry = entry},
                             .layout = p->layout};
    if (lanes && kernel->group_size[0] % lanes == 0) info.stage.flags = VK_FULL_SUBGROUPS;
    int32_t code =
        device->vk.vkCreateShaderModule(device->handle, &module, NULL, &info.stage.module);
    if (code == 0) code = create_pipeline(&info, text, p);
    if (info.stage.module)
        device->vk.vkDestroyShaderModule(device->handle, info.stage.module, NULL);
    if (code == 0) return UM_OK;
    um_vk_fail("vkCreateComputePipelines", code);
    return um_backend_fail(um_status_last(), "vulkan", NULL, code,
                           "vulkan: the driver makes no pipeline of kernel %s: %d", kernel->name,
                           (int)code);
}

um_status um_vk_program_compile(void *ctx, const um_kernel *kernel, void **object)
{
    um_backend_device *device = ctx;
    um_spirv_flavour flavour = device->by_address ? UM_SPIRV_VULKAN_ADDRESS : UM_SPIRV_VULKAN;
    um_klacks lacks =
        um_spirv_flavour_lacks(flavour, device->types, device->physical->subgroup_size);
    um_kernel *lowered = NULL;
    um_text text = {0};
    program *p = um_mem_zalloc(sizeof *p);
    if (!p) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a kernel");
    p->refs = 1;
    p->device = device;
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK) status = um_render_spirv(lowered, flavour, device->physical->modes, &text);
    for (int32_t m = 0; status == UM_OK && m < lowered->mem_count; m++) {
        if (lowered->mem[m].space != UM_SPACE_BUFFER) continue;
        p->element_bytes[p->buffer_count] = (uint8_t)(um_ktype_bits(lowered->mem[m].type) / 8);
        p->is_written[p->buffer_count++] = lowered->mem[m].access != UM_K_READ;
    }
    if (status == UM_OK) {
        uint32_t base_words = device->by_address ? 2 : 1;
        p->word_count = base_words * (uint32_t)p->buffer_count + (uint32_t)lowered->scalar_count;
        status = make_layouts(p);
    }
    if (status == UM_OK) status = make_pipeline(lowered, &text, p);
    um_text_release(&text);
    um_kernel_release(lowered);
    if (status == UM_OK)
        *object = p;
    else
        um_vk_program_destroy(ctx, p);
    return status;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Here the stream's mutex is held. */

/* A launch on its way into the open batch. */
typedef struct arguments {
    um_vk_use use[UM_K_MAX_BUFFERS];
    vk_range range[UM_K_MAX_BUFFERS + 1];
    uint32_t word[WORDS_MAX];
} arguments;

/* A descriptor's range begins at what the device asks for; how many elements before the buffer is a
 * word. Memory ends at a multiple of 256 bytes or later. */
static void gather(um_backend_stream *stream, const program *p, const um_klaunch *l, arguments *a)
{
    um_backend_device *device = stream->device;
    uint64_t align = device->physical->properties.limits.storage_alignment;
    uint32_t n = 0;
    for (int32_t i = 0; i < l->buffer_count; i++) {
        const um_kbinding *b = &l->buffer[i];
        um_ptr begin = b->scratch ? stream->scratch + b->begin : b->begin;
        uint64_t offset, before = 0, size = (b->size_bytes + 3) / 4 * 4;
        if (device->by_address) {
            a->word[n++] = (uint32_t)begin;
            a->word[n++] = (uint32_t)(begin >> 32);
        } else {
            const um_vk_block *block = um_vk_find(device, begin, &offset);
            before = offset % align;
            size += before;
            a->range[i] = (vk_range){block->buffer, offset - before, size};
            a->word[n++] = (uint32_t)(before / p->element_bytes[i]);
        }
        a->use[i] = (um_vk_use){begin - before, begin - before + size, p->is_written[i]};
    }
    memcpy(a->word + n, l->scalar, (size_t)l->scalar_count * sizeof *l->scalar);
}

static um_status bind_ranges(um_backend_stream *stream, const program *p, const arguments *a)
{
    const um_backend_device *device = stream->device;
    um_vk_batch *batch = stream->open;
    vk_write write[UM_K_MAX_BUFFERS + 1];
    vk_object set;
    vk_set_info info = {
        .type = VK_IS_SET, .pool = batch->sets, .count = 1, .layout = &p->set_layout};
    UM_VK_TRY(device, vkAllocateDescriptorSets, device->handle, &info, &set);
    int32_t count = descriptors_of(p);
    for (int32_t i = 0; i < count; i++)
        write[i] = (vk_write){.type = VK_IS_WRITE,
                              .set = set,
                              .binding = (uint32_t)i,
                              .count = 1,
                              .descriptor = VK_STORAGE_DESCRIPTOR,
                              .range = &a->range[i]};
    device->vk.vkUpdateDescriptorSets(device->handle, (uint32_t)count, write, 0, NULL);
    device->vk.vkCmdBindDescriptorSets(batch->commands, VK_BIND_COMPUTE, p->layout, 0, 1, &set, 0,
                                       NULL);
    return UM_OK;
}

/* The words: pushed, or in memory, by a descriptor more or by its address. */
static um_status put_words(um_backend_stream *stream, const program *p, arguments *a)
{
    const um_vk_calls *vk = &stream->device->vk;
    uint32_t size = 4 * p->word_count;
    const void *pushed = a->word;
    const um_vk_block *block;
    um_ptr address;
    uint64_t offset;
    if (!words_are_pushed(p)) {
        UM_TRY(um_vk_stage(stream, size, &block, &offset));
        memcpy(block->mapped + offset, a->word, size);
        a->range[p->buffer_count] = (vk_range){block->buffer, offset, size};
        address = block->base + offset;
        pushed = &address;
        size = stream->device->by_address ? sizeof address : 0;
    }
    if (size > 0)
        vk->vkCmdPushConstants(stream->open->commands, p->layout, VK_STAGE_COMPUTE, 0, size,
                               pushed);
    return UM_OK;
}

static um_status launch(um_backend_stream *stream, program *p, const um_klaunch *l)
{
    const um_vk_calls *vk = &stream->device->vk;
    arguments a;
    for (int i = 0; i < 3; i++)
        if (l->group_count[i] == 0) return UM_OK;
    UM_TRY(um_vk_begin(stream, descriptors_of(p)));
    atomic_fetch_add(&p->refs, 1);
    UM_TRY(um_vk_keep(stream, (um_vk_held){.what = UM_VK_HOLDS_PROGRAM, .object = p}));
    gather(stream, p, l, &a);
    UM_TRY(put_words(stream, p, &a));
    if (descriptors_of(p) > 0) UM_TRY(bind_ranges(stream, p, &a));
    um_vk_order(stream, l->buffer_count, a.use);
    vk_handle commands = stream->open->commands;
    vk->vkCmdBindPipeline(commands, VK_BIND_COMPUTE, p->pipeline);
    vk->vkCmdDispatch(commands, l->group_count[0], l->group_count[1], l->group_count[2]);
    return UM_OK;
}

/* The stream's own, as large as any op needed: its work is in order. */
static um_status prepare_scratch(um_backend_stream *stream, uint64_t size_bytes)
{
    uint64_t offset, rounded = (size_bytes + 65535) / 65536 * 65536;
    um_ptr made;
    if (size_bytes == 0) return UM_OK;
    UM_TRY(um_vk_begin(stream, 0));
    if (size_bytes > stream->scratch_bytes) {
        UM_TRY(um_vk_alloc(stream->device, rounded, &made));
        um_vk_held old = {.what = UM_VK_HOLDS_MEMORY, .memory = stream->scratch};
        stream->scratch = made;
        stream->scratch_bytes = rounded;
        if (old.memory) UM_TRY(um_vk_keep(stream, old));
    }
    const um_vk_block *block = um_vk_find(stream->device, stream->scratch, &offset);
    um_vk_use use = {stream->scratch, stream->scratch + UM_KFAULT_BYTES, true};
    um_vk_order(stream, 1, &use);
    stream->device->vk.vkCmdFillBuffer(stream->open->commands, block->buffer, offset,
                                       UM_KFAULT_BYTES, 0);
    return UM_OK;
}

static um_status take_fault(um_backend_device *device, const um_op *op, const um_kplan *plan,
                            um_vk_fault **out)
{
    um_vk_fault *fault = um_mem_zalloc(sizeof *fault);
    *out = NULL;
    if (!fault) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory to note what an op finds out");
    um_mutex_lock(&device->mutex);
    bool any = device->fault_free_count > 0;
    if (any) fault->word = device->fault_free[--device->fault_free_count];
    um_mutex_unlock(&device->mutex);
    if (!any) {
        um_mem_free(fault);
        return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: too many ops that may fail are on their way");
    }
    fault->refs = 1;
    fault->error.code = UM_OUT_OF_RANGE;
    snprintf(fault->error.backend, sizeof fault->error.backend, "vulkan");
    snprintf(fault->error.op, sizeof fault->error.op, "%s", um_op_name(op->id));
    snprintf(fault->error.message, sizeof fault->error.message, "%s", plan->fault);
    *out = fault;
    return UM_OK;
}

/* The op's word is copied behind it, and looked at when its batch is done. */
static um_status fetch_fault(um_backend_stream *stream, const um_op *op, const um_kplan *plan)
{
    um_backend_device *device = stream->device;
    um_vk_fault *fault;
    vk_copy region = {.size_bytes = sizeof(uint32_t)};
    if (!plan->fault[0]) return UM_OK;
    UM_TRY(um_vk_begin(stream, 0));
    UM_TRY(take_fault(device, op, plan, &fault));
    UM_TRY(um_vk_keep(stream, (um_vk_held){.what = UM_VK_HOLDS_FAULT, .object = fault}));
    const um_vk_block *block = um_vk_find(device, stream->scratch, &region.from);
    region.to = fault->word * sizeof(uint32_t);
    um_vk_use use = {stream->scratch, stream->scratch + region.size_bytes, false};
    um_vk_order(stream, 1, &use);
    device->vk.vkCmdCopyBuffer(stream->open->commands, block->buffer, device->fault_words->buffer,
                               1, &region);
    return UM_OK;
}

/* Kernels are compiled first: who asks for the stream's state need not wait for that. */
static um_status enqueue_plan(void *ctx, const um_op *op, um_kplan *plan)
{
    um_backend_stream *stream = ctx;
    void *object[UM_KPLAN_LAUNCHES];
    for (int32_t i = 0; i < plan->launch_count; i++)
        UM_TRY(um_kcache_compiled(&plan->launch[i], &object[i]));
    um_mutex_lock(&stream->mutex);
    um_status status = stream->error.code == UM_OK ? UM_OK : um_fail_again(&stream->error);
    if (status == UM_OK) status = prepare_scratch(stream, plan->scratch_bytes);
    for (int32_t i = 0; i < plan->launch_count && status == UM_OK; i++)
        status = launch(stream, object[i], &plan->launch[i]);
    if (status == UM_OK) status = fetch_fault(stream, op, plan);
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form)
{
    const um_backend_device *device = stream->device;
    UM_TRY(um_vk_state(stream));
    um_status status =
        um_planner_run(device->kernels, &device->limits, op, form, enqueue_plan, stream);
    return status == UM_OK ? UM_OK : um_fail_tag("vulkan", um_op_name(op->id));
}

um_status um_vk_enqueue(um_backend_stream *stream, const um_op *op)
{
    return um_vk_enqueue_form(stream, op, 0);
}
