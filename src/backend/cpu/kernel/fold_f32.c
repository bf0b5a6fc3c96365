/* backend/cpu/kernel/fold_f32.c: the folds of f32; called by reduce.c. */
#include "backend/cpu/kernel/fold.h"
#include "backend/cpu/kernel/vmath.h"

#define FS    float
#define FV    vf32
#define UV    vu32
#define IV    vi32
#define LANES VF32_LANES
#define F(fn) vf32_##fn
#define LOOPS UM_ISA_FN(um_fold_f32)
#include "backend/cpu/kernel/fold_float_body.h"
