/* backend/cpu/kernel/fold_int.c: the folds of integers and bool; called by reduce.c. */
#include "backend/cpu/kernel/fold.h"

#define INT      int64_t
#define NAME(fn) UM_PASTE(fn, i64)
#define LOWEST   INT64_MIN
#define HIGHEST  INT64_MAX
#define ABS(x)   ((x) < 0 ? (int64_t)(0 - (uint64_t)(x)) : (x))
#define LOOPS    UM_ISA_FN(um_fold_i64)
#include "backend/cpu/kernel/fold_int_body.h"

#define INT      uint64_t
#define NAME(fn) UM_PASTE(fn, u64)
#define LOWEST   0
#define HIGHEST  UINT64_MAX
#define ABS(x)   (x)
#define LOOPS    UM_ISA_FN(um_fold_u64)
#include "backend/cpu/kernel/fold_int_body.h"
