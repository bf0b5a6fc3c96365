/* render/arch.c: matrix tiles of processors, of those that the texts have words for. Sources: PTX
 * ISA's table of mma shapes; AMD's CDNA 2, CDNA 3, RDNA 3 and RDNA 4 ISA documents; MSL's
 * simdgroup_matrix. gfx90a's units take subnormal f16 and bf16 for 0, which CONTRACT.md rules out.
 */
#include "render/render.h"

static const um_matrix_tile sm_80[] = {{16, 8, 16, UM_F16, UM_F32},
                                       {16, 8, 16, UM_BF16, UM_F32},
                                       {16, 8, 32, UM_I8, UM_I32},
                                       {8, 8, 4, UM_F64, UM_F64}};
static const um_matrix_tile gfx90a[] = {
    {16, 16, 4, UM_F32, UM_F32}, {16, 16, 4, UM_F64, UM_F64}, {16, 16, 16, UM_I8, UM_I32}};
static const um_matrix_tile gfx942[] = {{16, 16, 16, UM_F16, UM_F32},
                                        {16, 16, 16, UM_BF16, UM_F32},
                                        {16, 16, 4, UM_F32, UM_F32},
                                        {16, 16, 4, UM_F64, UM_F64},
                                        {16, 16, 32, UM_I8, UM_I32}};
static const um_matrix_tile wmma[] = {
    {16, 16, 16, UM_F16, UM_F32}, {16, 16, 16, UM_BF16, UM_F32}, {16, 16, 16, UM_I8, UM_I32}};
static const um_matrix_tile cooperative[] = {{16, 16, 16, UM_F16, UM_F32},
                                             {16, 16, 32, UM_I8, UM_I32}};
static const um_matrix_tile apple[] = {{8, 8, 8, UM_F16, UM_F32}, {8, 8, 8, UM_F32, UM_F32}};

#define TILES(name) name, UM_COUNT_OF(name)
static const struct {
    um_target target;
    const char *arch; /* and those whose name begins so */
    um_kunit unit;
} rows[] = {{UM_TARGET_CUDA, "sm_8", {TILES(sm_80), 32, true, false, false}},
            {UM_TARGET_CUDA, "sm_9", {TILES(sm_80), 32, true, false, false}},
            {UM_TARGET_CUDA, "sm_1", {TILES(sm_80), 32, true, false, false}},
            {UM_TARGET_HIP, "gfx90a", {TILES(gfx90a), 64, false, false, false}},
            {UM_TARGET_HIP, "gfx942", {TILES(gfx942), 64, false, false, false}},
            {UM_TARGET_HIP, "gfx11", {TILES(wmma), 32, false, false, false}},
            {UM_TARGET_HIP, "gfx12", {TILES(wmma), 32, false, false, false}},
            {UM_TARGET_METAL, "apple", {TILES(apple), 32, false, false, false}}};

void um_lacks_no_unit(um_klacks *lacks, const um_kunit *unit)
{
    lacks->tiles = unit->tiles;
    lacks->tile_count = unit->tile_count;
    lacks->async_copy = !unit->async_copy;
}

const um_kunit *um_spirv_arch_unit(const char *arch)
{
    static const um_kunit unit = {TILES(cooperative), 32, false, false, true};
    return strcmp(arch, "khr") == 0 ? &unit : NULL;
}

const um_kunit *um_arch_unit(um_target target, const char *arch)
{
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++)
        if (rows[i].target == target && strncmp(arch, rows[i].arch, strlen(rows[i].arch)) == 0)
            return &rows[i].unit;
    return NULL;
}
