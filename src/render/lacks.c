/* render/lacks.c: what targets have no words for, and um_kernel_expand says by what they have. */
#include "render/render.h"

enum {
    BIT_F16 = 1 << UM_F16,
    BIT_BOOL = 1 << UM_BOOL,
    WIDE = 1 << UM_I64 | 1 << UM_U64,
    INTS = 1 << UM_I8 | 1 << UM_I16 | 1 << UM_U8 | 1 << UM_U16,
    SMALL = 1 << UM_BF16 | 1 << UM_F8E4M3FN | 1 << UM_F8E4M3FNUZ | 1 << UM_F8E5M2 |
            1 << UM_F8E5M2FNUZ | 1 << UM_F6E2M3 | 1 << UM_F6E3M2 | 1 << UM_F8E8M0
};

static const char *const target_names[UM_TARGET_COUNT] = {"opencl", "cuda", "hip", "metal", "wgsl"};

const char *um_target_name(um_target target)
{
    return (uint32_t)target < UM_TARGET_COUNT ? target_names[target] : "none";
}

typedef struct row {
    uint32_t never, perhaps; /* types: that have no words; that are up to the device */
    enum { ALONE, BY_SHUFFLES, WHOLE } subgroups;
} row;

static const row text_rows[UM_TARGET_COUNT] = {
    [UM_TARGET_OPENCL] = {SMALL | BIT_BOOL, BIT_F16, ALONE},
    [UM_TARGET_CUDA] = {SMALL | BIT_F16, 0, BY_SHUFFLES},
    [UM_TARGET_HIP] = {SMALL | BIT_F16, 0, BY_SHUFFLES},
    [UM_TARGET_METAL] = {SMALL, 0, BY_SHUFFLES},
    [UM_TARGET_WGSL] = {SMALL | BIT_F16 | INTS | BIT_BOOL | WIDE, 0, ALONE}};

static const row spirv_rows[] = {
    [UM_SPIRV_VULKAN] = {SMALL | BIT_BOOL, BIT_F16 | INTS | WIDE, WHOLE},
    [UM_SPIRV_VULKAN_ADDRESS] = {SMALL | BIT_BOOL, BIT_F16 | INTS | WIDE, WHOLE},
    [UM_SPIRV_KERNEL] = {SMALL | BIT_BOOL, BIT_F16, ALONE}};

static um_klacks lacks_of(const row *r, uint32_t types, uint32_t subgroup_size)
{
    uint32_t lacking = r->never | (r->perhaps & ~types);
    /* halves of a wide sum are no sums, but they can be shuffled */
    bool shuffles = r->subgroups == BY_SHUFFLES || (lacking & WIDE) != 0;
    return (um_klacks){.group_ops = true,
                       .fragments = true,
                       .async_copy = true,
                       .math = true,
                       .lane_bitcasts = true,
                       .saturation = true,
                       .dot4 = true,
                       .subgroups = r->subgroups == ALONE || subgroup_size == 0,
                       .shuffles = shuffles ? subgroup_size : 0,
                       .types = lacking};
}

um_klacks um_text_lacks(um_target target, uint32_t types, uint32_t subgroup_size)
{
    return lacks_of(&text_rows[target], types, subgroup_size);
}

um_klacks um_spirv_flavour_lacks(um_spirv_flavour flavour, uint32_t types, uint32_t subgroup_size)
{
    um_klacks lacks = lacks_of(&spirv_rows[flavour], types, subgroup_size);
    /* lavapipe's vectors of 512 bits; what Mesa (22.3) makes of comparisons */
    lacks.whole = lacks.widening = flavour != UM_SPIRV_KERNEL;
    return lacks;
}
