/* render/render.h: kernels as the text, or words, that a target's own compiler takes.
 *
 * A renderer is dumb and total: it says what each instruction says, in the target's words. What a
 * target lacks is expanded in the IR before (ir/expand.c), by its row in lacks.c. */
#ifndef UM_RENDER_RENDER_H
#define UM_RENDER_RENDER_H

#include "base/text.h"
#include "ir/ir.h"
#include "kernel/library.h"

typedef enum um_target {
    UM_TARGET_OPENCL, /* OpenCL C 1.2 */
    UM_TARGET_CUDA,   /* CUDA C++ for NVRTC */
    UM_TARGET_HIP,    /* HIP C++ for hipRTC */
    UM_TARGET_METAL,  /* Metal Shading Language 2.3 */
    UM_TARGET_WGSL,
    UM_TARGET_COUNT
} um_target;

/* "opencl", "cuda", ... */
const char *um_target_name(um_target target);

/* The text of a finished kernel. How a launch gives its arguments, in the order of the kernel's
 * declarations:
 * opencl: for each buffer `global T *`, then a ulong: the element of it that is index 0; then the
 * scalars. cuda, hip: a pointer for each buffer, then the scalars. metal: [[buffer(i)]] for each
 * buffer; the scalars as one struct of 32-bit words in the next one. wgsl: @group(0) @binding(i)
 * for each buffer; the last binding is a uniform of 32-bit words: for each buffer the element that
 * is index 0, then the scalars. Elements are f32, i32 or u32. UNSUPPORTED: an instruction or type
 * the target has no words for, named; OUT_OF_MEMORY. */
um_status um_render_text(const um_kernel *kernel, um_target target, um_text *out);

/* A SPIR-V module, 32-bit words in the host's byte order, with the entry point um_<name>.
 * vulkan: SPIR-V 1.3, Shader. Buffers are bindings 0, 1, ... of set 0. For each buffer the element
 * that is index 0, then the scalars, are 32-bit words: push constants when there are at most 32,
 * else the next binding. vulkan_address: the same without bindings. For each buffer its address in
 * two words, the low one first, then the scalars; when there are more than 32, the address of where
 * they are. In both indices of elements count as signed; fragments: capabilities
 * CooperativeMatrixKHR, VulkanMemoryModel and VulkanMemoryModelDeviceScope. kernel: SPIR-V 1.0 for
 * OpenCL environments, Physical64. Parameters as um_render_text's opencl. */
typedef enum um_spirv_flavour {
    UM_SPIRV_VULKAN,
    UM_SPIRV_KERNEL,
    UM_SPIRV_VULKAN_ADDRESS,
    UM_SPIRV_FLAVOURS
} um_spirv_flavour;
/* What arithmetic has to keep where the device can be told so: three bits each, of f16, f32 and
 * f64, for NaN, infinities and -0; for subnormals; for rounding to the nearest. Not of `kernel`. */
enum { UM_SPIRV_MODES_16 = 1 | 1 << 3 | 1 << 6, UM_SPIRV_MODES = 7 * UM_SPIRV_MODES_16 };
um_status um_render_spirv(const um_kernel *kernel, um_spirv_flavour flavour, uint32_t modes,
                          um_text *out);

/* What um_kernel_expand has to take away first, on a device that has these types, but those of
 * 32 bits (bit 1u << dtype), and subgroups of that many invocations (0: of an unknown number, or
 * none). */
um_klacks um_text_lacks(um_target target, uint32_t types, uint32_t subgroup_size);
um_klacks um_spirv_flavour_lacks(um_spirv_flavour flavour, uint32_t types, uint32_t subgroup_size);

/* The matrix unit of a processor, "sm_90", "gfx942", "apple7", as far as the target's text has
 * words for it; NULL: none. */
const um_kunit *um_arch_unit(um_target target, const char *arch);
/* "khr": of a Vulkan device with VK_KHR_cooperative_matrix, as the most have it; the driver asks
 * the device. */
const um_kunit *um_spirv_arch_unit(const char *arch);
/* Lacks without what such a device has. */
void um_lacks_no_unit(um_klacks *lacks, const um_kunit *unit);

#endif
