/* backend/cpu/kernel/reduce.h: how a reduction is laid out, for reduce.c and reduce_arg.c. Outputs
 * are handled in groups that lie next to each other, and the elements that go into them in chunks.
 */
#ifndef UM_CPU_REDUCE_H
#define UM_CPU_REDUCE_H

#include "backend/cpu/kernel/fold.h"
#include "backend/cpu/kernel/program.h"

enum {
    UM_REDUCE_CHUNK =
        64 * 1024,        /* elements of one output in a chunk, when groups are single outputs */
    UM_REDUCE_ROWS = 512, /* ... when they are wide */
    UM_REDUCE_WIDTH_BYTES = 4096 /* values of a wide group, or of one output folded at once */
};

typedef struct um_reduce_plan {
    const um_op *op;
    um_dtype dtype; /* of what is reduced: x's, or the prologue's */
    um_class class;
    int64_t bytes; /* of a value in its class */
    int64_t block; /* values in UM_REDUCE_WIDTH_BYTES */
    const um_fold_loops *loops;
    um_walk kept;    /* OUT, IN and the programs' inputs: the axes that stay */
    um_walk reduced; /* IN and maybe more: the axes that go */
    bool wide; /* a group is `width` outputs along the innermost kept axis, else a single output */
    int64_t width, pieces; /* groups along that axis */
    int64_t groups, chunk, chunks;
    um_dtype made; /* of the results, before an epilogue and the output's dtype */
    bool has_prologue, has_epilogue;
    um_rider before, after;
    /* The prologue over elements as they are numbered here: those of `reduced` or, in wide groups,
     * rows of the innermost kept axis for each of them. data is that of the first group. */
    um_program prologue;
    um_map_plan
        epilogue; /* over `kept`; input 0 is `made`, packed, from where its data is set to */
} um_reduce_plan;

/* A group: its first elements of output and input, its place in `kept`, and how many outputs it
 * has.
 */
typedef struct um_reduce_group {
    int64_t out, in, first, n;
    int64_t element[UM_MAP_MAX_INPUTS]; /* of the prologue's inputs */
} um_reduce_group;

/* ordered: the reduced elements are numbered row-major, as argmax wants; else in the order of
 * memory. */
void UM_ISA_FN(um_reduce_make)(um_reduce_plan *p, const um_op *op, bool ordered);
um_reduce_group UM_ISA_FN(um_reduce_find)(const um_reduce_plan *p, int64_t group);

/* n elements of the reduced axes for output 0 of the group, or one of them for each of its outputs,
 * packed in the class: where they are, or in buffer (WIDTH_BYTES of it). */
const void *UM_ISA_FN(um_reduce_along)(const um_reduce_plan *p, const um_reduce_group *g,
                                       um_walk_at *at, int64_t n, void *buffer);
const void *UM_ISA_FN(um_reduce_across)(const um_reduce_plan *p, const um_reduce_group *g,
                                        um_walk_at *at, void *buffer);
/* The same for UM_FOLD_ROWS elements of each output, *step values apart: where they are, or NULL,
 * when they do not lie so. */
const void *UM_ISA_FN(um_reduce_rows)(const um_reduce_plan *p, const um_reduce_group *g,
                                      um_walk_at *at, int64_t *step);

/* Whether rows of a packed x like that are folded so. */
bool UM_ISA_FN(um_reduce_by_eight)(const um_reduce_plan *p);

/* Calls fn for tasks of whole groups, first .. end - 1, of a size worth a thread. */
typedef void (*um_reduce_fn)(um_cpu_exec *exec, const um_reduce_plan *p, int64_t first,
                             int64_t end);
void UM_ISA_FN(um_reduce_groups)(um_cpu_exec *exec, const um_reduce_plan *p, um_reduce_fn fn);

#endif
