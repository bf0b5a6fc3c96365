/* backend/cpu/kernel/fold_f64.c: the folds of f64; called by reduce.c. */
#include "backend/cpu/kernel/fold.h"
#include "backend/cpu/kernel/vmath.h"

#define FS    double
#define FV    vf64
#define UV    vu64
#define IV    vi64
#define LANES VF64_LANES
#define F(fn) vf64_##fn
#define LOOPS UM_ISA_FN(um_fold_f64)
#include "backend/cpu/kernel/fold_float_body.h"
