/* backend/cpu/kernel/map_int.c: the elementwise ops on integers and bool; called by map.c. */
#include "backend/cpu/kernel/map_loops.h"

#define INT           int64_t
#define NAME(fn)      UM_PASTE(fn, i64)
#define BELOW_ZERO(x) ((x) < 0)
#define MAP_LOOP      UM_ISA_FN(um_map_i64)
#include "backend/cpu/kernel/map_int_body.h"

#define INT           uint64_t
#define NAME(fn)      UM_PASTE(fn, u64)
#define BELOW_ZERO(x) ((void)(x), false)
#define MAP_LOOP      UM_ISA_FN(um_map_u64)
#include "backend/cpu/kernel/map_int_body.h"
