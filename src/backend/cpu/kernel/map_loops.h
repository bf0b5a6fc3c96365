/* backend/cpu/kernel/map_loops.h: one elementwise op over packed values of one class: what map.c
 * strings together. map_f32.c, map_f64.c and map_int.c define them. */
#ifndef UM_CPU_MAP_LOOPS_H
#define UM_CPU_MAP_LOOPS_H

#include "backend/cpu/kernel/simd.h"

/* dst[i] = op(src[0][i], ...) for i < n; dst may be a source. value: attrs.map.a of the ops that
 * have one. Integers are not yet wrapped to a narrower dtype. An op that the class does not have
 * leaves dst as it is. */
typedef void (*um_map_loop)(um_op_id op, void *dst, const void *const *src, double value,
                            int64_t n);

void UM_ISA_FN(um_map_f32)(um_op_id, void *, const void *const *, double, int64_t);
void UM_ISA_FN(um_map_f64)(um_op_id, void *, const void *const *, double, int64_t);
void UM_ISA_FN(um_map_i64)(um_op_id, void *, const void *const *, double, int64_t);
void UM_ISA_FN(um_map_u64)(um_op_id, void *, const void *const *, double, int64_t);

#endif
