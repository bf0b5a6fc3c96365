/* backend/cpu/kernel/program.h: an elementwise program over runs of values: what map.c runs over
 * whole tensors, reduce.c in front of a fold, and all that has an epilogue behind its results. All
 * values of a tile are in L1: inputs that are not packed values of the program's class are
 * converted into slots, each instruction is one loop over the tile (map_loops.h). */
#ifndef UM_CPU_PROGRAM_H
#define UM_CPU_PROGRAM_H

#include "backend/cpu/kernel/map_loops.h"
#include "backend/cpu/kernel/walk.h"

enum {
    UM_SLOT_BYTES = 24576, /* all slots together */
    UM_PROGRAM_VALUES = UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS
};

typedef struct um_program {
    const um_map_inst *inst;
    int32_t inst_count, in_count;
    um_dtype dtype;
    um_class class;
    um_map_loop loop;
    /* Of the inputs: where element 0 of the walk is. */
    const void *data[UM_MAP_MAX_INPUTS];
    um_dtype in_dtype[UM_MAP_MAX_INPUTS];
    um_walk walk; /* view 1 + i is input i; view 0 is the caller's */
    bool rows;    /* no tile may go beyond a row of the walk */
    int64_t tile; /* the most elements of one */
    int32_t slot_count;
    int8_t arity[UM_MAP_MAX_INSTS];
    int8_t slot[UM_PROGRAM_VALUES];
    bool constant[UM_PROGRAM_VALUES]; /* the same for all elements: filled once */
} um_program;

/* Whether rows of the walk are long enough for tiles of their own. */
UM_INLINE bool um_program_has_rows(const um_walk *w)
{
    enum { ROW_MIN = 64 };
    return w->rank == 1 || um_walk_inner(w) >= ROW_MIN;
}

/* inst, inst_count, in_count, dtype, data, in_dtype and walk are set. to_slot: um_program_tile is
 * called with NULL. */
void UM_ISA_FN(um_program_make)(um_program *p, bool to_slot);
/* For tiles of at most n elements; slots: UM_SLOT_BYTES, at a multiple of 64. */
void UM_ISA_FN(um_program_begin)(const um_program *p, void *slots, int64_t n);
/* n <= tile elements from `at`, which moves past them. The last values, packed in the class: in
 * `to`, or in a slot where that is NULL. */
const void *UM_ISA_FN(um_program_tile)(const um_program *p, void *slots, um_walk_at *at, int64_t n,
                                       void *to);
/* How many of n elements the next tile may have. */
UM_INLINE int64_t um_program_most(const um_program *p, const um_walk_at *at, int64_t n)
{
    n = UM_MIN(n, p->tile);
    return p->rows ? UM_MIN(n, um_walk_inner(&p->walk) - at->index[p->walk.rank - 1]) : n;
}

/* Whether values of the dtype lie in memory as those of its class do. */
UM_INLINE bool um_is_class_dtype(um_dtype dtype)
{
    return dtype == UM_F32 || dtype == UM_F64 || dtype == UM_I64 || dtype == UM_U64;
}

/* ---- whole outputs (map.c) ------------------------------------------------------------------ */

typedef struct um_map_plan {
    um_program program; /* view 0 of its walk is the output */
    um_view out;
    bool direct, streams; /* how results are written: where they are made; past the caches */
} um_map_plan;

/* in[i] has out's shape. inst must live on. */
void UM_ISA_FN(um_map_make)(um_map_plan *p, const um_map_program *program, const um_view *out,
                            int32_t in_count, const um_view *const *in);
/* The walk is there already: made over out and the inputs, or what stands for them. */
void UM_ISA_FN(um_map_finish)(um_map_plan *p);
/* Elements first .. end - 1 of the walk. */
void UM_ISA_FN(um_map_range)(const um_map_plan *p, int64_t first, int64_t end);

#endif
