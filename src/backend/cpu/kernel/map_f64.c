/* backend/cpu/kernel/map_f64.c: the elementwise ops on f64; called by map.c. */
#include "backend/cpu/kernel/map_loops.h"
#include "backend/cpu/kernel/vmath_special.h"

UM_INLINE vf64 vf64_fma_once(vf64 a, vf64 b, vf64 c)
{
#if defined(__FMA__)
    return vf64_fma(a, b, c);
#else
    for (int i = 0; i < VF64_LANES; i++) a[i] = fma(a[i], b[i], c[i]);
    return a;
#endif
}

#define FS        double
#define FV        vf64
#define UV        vu64
#define LANES     VF64_LANES
#define F(fn)     vf64_##fn
#define WHOLE     0x1p52
#define EXP_FLOOR -800.0
#define MAP_LOOP  UM_ISA_FN(um_map_f64)
#include "backend/cpu/kernel/map_float_body.h"
