/* backend/cpu/kernel/map_f32.c: the elementwise ops on f32; called by map.c. */
#include "backend/cpu/kernel/map_loops.h"
#include "backend/cpu/kernel/vmath_special.h"

UM_INLINE vf32 vf32_fma_once(vf32 a, vf32 b, vf32 c)
{
#if defined(__FMA__)
    return vf32_fma(a, b, c);
#else
    for (int i = 0; i < VF32_LANES; i++) a[i] = fmaf(a[i], b[i], c[i]);
    return a;
#endif
}

#define FS        float
#define FV        vf32
#define UV        vu32
#define LANES     VF32_LANES
#define F(fn)     vf32_##fn
#define WHOLE     0x1p23f
#define EXP_FLOOR -120.0f
#define MAP_LOOP  UM_ISA_FN(um_map_f32)
#include "backend/cpu/kernel/map_float_body.h"
