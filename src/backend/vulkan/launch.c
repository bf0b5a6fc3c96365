/* backend/vulkan/launch.c: an op as launches of the kernel library's plans, whose kernels become
 * SPIR-V and pipelines when they are met for the first time. */
#include "backend/vulkan/vulkan.h"
#include "render/render.h"

#include <stdio.h>

enum { PUSH_WORDS_MAX = 32, WORDS_MAX = 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS };

/* What the driver makes of a kernel. */
typedef struct program {
    um_vk_shared shared; /* by the cache, and each launch on its way */
    vk_object pipeline;
    um_kbuffers buffers;
} program;

/* ---- programs ------------------------------------------------------------------------------- */

static void destroy(um_backend_device *device, void *self)
{
    program *p = self;
    if (p->pipeline) device->vk.vkDestroyPipeline(device->handle, p->pipeline, NULL);
    um_mem_free(p);
}

um_status um_vk_layout_create(um_backend_device *device)
{
    vk_binding binding[UM_K_MAX_BUFFERS + 1];
    for (uint32_t i = 0; i < device->descriptor_count; i++)
        binding[i] = (vk_binding){i, VK_STORAGE_DESCRIPTOR, 1, VK_STAGE_COMPUTE, NULL};
    vk_set_layout_info set = {
        .type = VK_IS_SET_LAYOUT, .count = device->descriptor_count, .binding = binding};
    const vk_push_range push = {VK_STAGE_COMPUTE, 0, 4 * PUSH_WORDS_MAX};
    vk_layout_info layout = {.type = VK_IS_LAYOUT,
                             .set_count = 1,
                             .set = &device->set_layout,
                             .push_count = 1,
                             .push = &push};
    UM_VK_TRY(device, vkCreateDescriptorSetLayout, device->handle, &set, NULL, &device->set_layout);
    UM_VK_TRY(device, vkCreatePipelineLayout, device->handle, &layout, NULL, &device->layout);
    return UM_OK;
}

static void keep_pipeline(const um_backend_device *device, const um_text *text, vk_object cache)
{
    size_t size = 0;
    um_error before = *um_last_error();
    if (device->vk.vkGetPipelineCacheData(device->handle, cache, &size, NULL) != 0) return;
    uint8_t *data = um_mem_alloc(size);
    if (data && device->vk.vkGetPipelineCacheData(device->handle, cache, &size, data) == 0)
        um_disk_put(device->k.disk, text->data, (size_t)text->size, data, size);
    um_mem_free(data);
    um_fail_again(&before);
}

/* By what an earlier process made of the same words, if that is there; a VkResult. */
static int32_t create_pipeline(const um_backend_device *device, const vk_pipeline_info *info,
                               const um_text *text, vk_object *out)
{
    um_disk_entry entry;
    vk_object cache = 0;
    bool there = um_disk_get(device->k.disk, text->data, (size_t)text->size, &entry);
    vk_cache_info with = {
        .type = VK_IS_CACHE, .size_bytes = (size_t)entry.size_bytes, .data = entry.data};
    if (device->vk.vkCreatePipelineCache(device->handle, &with, NULL, &cache) != 0) cache = 0;
    if (there) um_disk_entry_release(&entry);
    int32_t code = device->vk.vkCreateComputePipelines(device->handle, cache, 1, info, NULL, out);
    if (code == 0 && cache && !there) keep_pipeline(device, text, cache);
    if (cache) device->vk.vkDestroyPipelineCache(device->handle, cache, NULL);
    return code;
}

static um_status make_pipeline(const um_backend_device *device, const um_kernel *kernel,
                               const um_text *text, vk_object *out)
{
    char entry[64], call[100];
    snprintf(entry, sizeof entry, "um_%s", kernel->name);
    snprintf(call, sizeof call, "making a pipeline of kernel %s", kernel->name);
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
                             .layout = device->layout};
    if (lanes && kernel->group_size[0] % lanes == 0) info.stage.flags = VK_FULL_SUBGROUPS;
    int32_t code =
        device->vk.vkCreateShaderModule(device->handle, &module, NULL, &info.stage.module);
    if (code == 0) code = create_pipeline(device, &info, text, out);
    if (info.stage.module)
        device->vk.vkDestroyShaderModule(device->handle, info.stage.module, NULL);
    return code == 0 ? UM_OK : um_vk_fail(call, code);
}

um_status um_vk_program_compile(void *ctx, const um_kernel *kernel, void **object)
{
    um_backend_device *device = ctx;
    um_spirv_flavour flavour = device->by_address ? UM_SPIRV_VULKAN_ADDRESS : UM_SPIRV_VULKAN;
    um_klacks lacks =
        um_spirv_flavour_lacks(flavour, device->k.types, device->physical->subgroup_size);
    lacks.integers = device->physical->properties.vendor == VK_SWIFTSHADER;
    lacks.zeros = device->physical->properties.vendor == VK_LAVAPIPE;
    um_lacks_no_unit(&lacks, &device->physical->unit);
    um_kernel *lowered = NULL;
    um_text text = {0};
    program *p = um_mem_zalloc(sizeof *p);
    if (!p) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory for a kernel");
    p->shared = (um_vk_shared){1, destroy};
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK) status = um_render_spirv(lowered, flavour, device->physical->modes, &text);
    if (status == UM_OK) status = make_pipeline(device, lowered, &text, &p->pipeline);
    if (status == UM_OK) um_kbuffers_of(lowered, &p->buffers);
    um_text_release(&text);
    um_kernel_release(lowered);
    *object = p;
    if (status != UM_OK) um_vk_unref(device, p);
    return status;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Here the stream's mutex is held. */

/* A launch on its way into the open batch. */
typedef struct arguments {
    um_use use[UM_K_MAX_BUFFERS];
    vk_range range[UM_K_MAX_BUFFERS + 1];
    uint32_t word[WORDS_MAX], word_count;
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
        uint64_t before = 0, size = (b->size_bytes + 3) / 4 * 4;
        if (device->by_address) {
            a->word[n++] = (uint32_t)begin;
            a->word[n++] = (uint32_t)(begin >> 32);
        } else {
            a->range[i] = um_vk_find(device, begin, size, NULL);
            before = a->range[i].offset % align;
            a->range[i].offset -= before;
            a->range[i].size_bytes += before;
            a->word[n++] = (uint32_t)(before / p->buffers.element_bytes[i]);
        }
        a->use[i] = (um_use){begin - before, begin + size, p->buffers.is_written[i]};
    }
    memcpy(a->word + n, l->scalar, (size_t)l->scalar_count * sizeof *l->scalar);
    a->word_count = n + (uint32_t)l->scalar_count;
}

/* Words that are not pushed are in memory: by its address, or a descriptor more. */
static um_status put(um_backend_stream *stream, arguments *a, uint32_t range_count)
{
    const um_backend_device *device = stream->device;
    const um_vk_batch *batch = stream->open;
    uint32_t size = 4 * a->word_count;
    const void *pushed = a->word;
    um_ptr address;
    if (a->word_count > PUSH_WORDS_MAX) {
        UM_TRY(um_vk_stage(stream, a->word, size, &address));
        a->range[range_count++] = um_vk_find(stream->device, address, size, NULL);
        pushed = &address;
        size = sizeof address;
    }
    device->vk.vkCmdPushConstants(batch->commands, device->layout, VK_STAGE_COMPUTE, 0, size,
                                  pushed);
    if (device->by_address) return UM_OK;
    const vk_object *set = &batch->set[batch->command_count - 1];
    vk_write write = {.type = VK_IS_WRITE, /* and so many bindings */
                      .set = *set,
                      .count = range_count,
                      .descriptor = VK_STORAGE_DESCRIPTOR,
                      .range = a->range};
    device->vk.vkUpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
    device->vk.vkCmdBindDescriptorSets(batch->commands, VK_BIND_COMPUTE, device->layout, 0, 1, set,
                                       0, NULL);
    return UM_OK;
}

static um_status launch(um_backend_stream *stream, program *p, const um_klaunch *l)
{
    const um_vk_calls *vk = &stream->device->vk;
    arguments a;
    if (l->group_count[0] == 0) return UM_OK;
    UM_TRY(um_vk_begin(stream));
    UM_TRY(um_vk_keep(stream, um_vk_ref(&p->shared)));
    gather(stream, p, l, &a);
    UM_TRY(put(stream, &a, (uint32_t)l->buffer_count));
    um_vk_order(stream, l->buffer_count, a.use);
    vk_handle commands = stream->open->commands;
    vk->vkCmdBindPipeline(commands, VK_BIND_COMPUTE, p->pipeline);
    vk->vkCmdDispatch(commands, l->group_count[0], l->group_count[1], l->group_count[2]);
    return UM_OK;
}

/* The stream's own, as large as any op needed: its work is in order. An older one goes when that is
 * done. */
static um_status prepare_scratch(um_backend_stream *stream, const um_kplan *plan)
{
    if (plan->scratch_bytes > stream->scratch_bytes) {
        uint64_t rounded = (plan->scratch_bytes + 65535) / 65536 * 65536;
        um_vk_held held = {0};
        UM_TRY(um_vk_begin(stream));
        UM_TRY(um_vk_alloc(stream->device, rounded, &held.memory));
        UM_TRY(um_vk_keep(stream, held));
        stream->open->held[stream->open->held_count - 1].memory = stream->scratch;
        stream->scratch = held.memory;
        stream->scratch_bytes = rounded;
    }
    if (!plan->fault[0]) return UM_OK;
    UM_TRY(um_vk_begin(stream));
    um_vk_fill_words(stream, stream->scratch, UM_KFAULT_BYTES, 0);
    return UM_OK;
}

static void give_fault(um_backend_device *device, void *self)
{
    um_vk_fault *fault = self;
    um_vk_unref(device, fault->recorder);
    um_mutex_lock(&device->mutex);
    fault->next = device->spare;
    device->spare = fault;
    um_mutex_unlock(&device->mutex);
}

/* One used before, if there is one. */
static um_status take_fault(um_backend_device *device, um_vk_fault **out)
{
    um_mutex_lock(&device->mutex);
    um_vk_fault *fault = *out = device->spare;
    if (fault) device->spare = fault->next;
    um_mutex_unlock(&device->mutex);
    if (fault) return UM_OK;
    *out = fault = um_mem_zalloc(sizeof *fault);
    if (!fault) return UM_FAIL(UM_OUT_OF_MEMORY, "vulkan: no memory to note what an op finds out");
    uint64_t size = UM_VK_WORDS * sizeof(uint32_t);
    um_status status = um_vk_take(device, size, true, &fault->ptr);
    if (status == UM_OK)
        um_vk_find(device, fault->ptr, size, &fault->host);
    else
        um_mem_free(fault);
    return status;
}

void um_vk_faults_release(um_backend_device *device)
{
    for (um_vk_fault *fault; (fault = device->spare) != NULL;) {
        device->spare = fault->next;
        um_mem_free(fault);
    }
}

um_status um_vk_fetch(um_backend_stream *stream, int32_t count, const um_vk_finding *findings,
                      um_backend_stream *recorder)
{
    um_vk_fault *fault;
    uint64_t size = (uint64_t)count * sizeof(uint32_t);
    UM_TRY(um_vk_begin(stream));
    UM_TRY(take_fault(stream->device, &fault));
    fault->shared = (um_vk_shared){1, give_fault};
    fault->count = count;
    fault->own = findings[0];
    fault->findings = recorder ? findings : &fault->own;
    fault->recorder = recorder;
    if (recorder) um_vk_ref(&recorder->shared);
    memset(fault->host, 0, size);
    UM_TRY(um_vk_keep(stream, (um_vk_held){.shared = fault, .fault = fault}));
    um_vk_copy_bytes(stream, fault->ptr, findings[0].word, size);
    return UM_OK;
}

static um_status fetch_fault(um_backend_stream *stream, const um_op *op, const um_kplan *plan)
{
    if (!plan->fault[0]) return UM_OK;
    um_vk_finding one = {stream->scratch, um_kdriver_fault(&stream->device->k, op, plan)};
    return stream->records ? um_vk_collect(stream, &one.error) : um_vk_fetch(stream, 1, &one, NULL);
}

static um_status enqueue_plan(um_backend_stream *stream, const um_op *op, const um_kplan *plan,
                              void *const *object)
{
    um_mutex_lock(&stream->mutex);
    um_status status = prepare_scratch(stream, plan);
    for (int32_t i = 0; i < plan->launch_count && status == UM_OK; i++)
        status = launch(stream, object[i], &plan->launch[i]);
    if (status == UM_OK) status = fetch_fault(stream, op, plan);
    um_mutex_unlock(&stream->mutex);
    return status;
}

um_status um_vk_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form)
{
    UM_TRY(um_vk_make_room(stream));
    return um_kdriver_run(&stream->device->k, op, form, enqueue_plan, stream);
}

um_status um_vk_enqueue(um_backend_stream *stream, const um_op *op)
{
    return um_vk_enqueue_form(stream, op, 0);
}
