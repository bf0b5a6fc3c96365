/* backend/cpu/kernel/table.c: the table of one kernel set, from rows.def. Read by kernels.c. */
#include "backend/cpu/kernel/table.h"
#include "backend/cpu/kernel/simd.h"

#define UM_ROW(OP, dtypes, run) um_status UM_ISA_FN(run)(um_cpu_exec *, const um_op *);
#define UM_ROW_IF(OP, dtypes, run, supports)                                                       \
    UM_ROW(OP, dtypes, run)                                                                        \
    bool UM_ISA_FN(supports)(const um_op *, char *, size_t);
#include "backend/cpu/kernel/rows.def"

const um_cpu_kernel UM_ISA_FN(um_cpu_table)[UM_CPU_OP_SLOTS] = {
    [UM_OP_NONE] = {UM_OP_NONE, 0, NULL, NULL},
#define UM_ROW(OP, dtypes, run) [UM_OP_##OP] = {UM_OP_##OP, (dtypes), UM_ISA_FN(run), NULL},
#define UM_ROW_IF(OP, dtypes, run, supports)                                                       \
    [UM_OP_##OP] = {UM_OP_##OP, (dtypes), UM_ISA_FN(run), UM_ISA_FN(supports)},
#include "backend/cpu/kernel/rows.def"
};
