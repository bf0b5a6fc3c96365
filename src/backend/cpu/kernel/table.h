/* backend/cpu/kernel/table.h: what kernels.c sees of the kernels: one table a kernel set, indexed
 * by op id (an op without a kernel has an all-zero row). The rows are in rows.def. */
#ifndef UM_CPU_KERNEL_TABLE_H
#define UM_CPU_KERNEL_TABLE_H

#include "backend/cpu/cpu.h"

enum {
    UM_CPU_OP_SLOTS = 1
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc) +1
#include <umbel/op.def>
};

extern const um_cpu_kernel um_cpu_table_base[UM_CPU_OP_SLOTS];
extern const um_cpu_kernel um_cpu_table_avx2[UM_CPU_OP_SLOTS]; /* where UM_HAVE_AVX2 is defined */

#endif
