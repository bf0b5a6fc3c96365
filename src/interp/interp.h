/* interp/interp.h: what the files of the interpreter share.
 *
 *   interp.c   checks of a run, the work-groups, control flow with masks
 *   plan.c     where values and memories lie
 *   lanes.c    what is done lane by lane: arithmetic, functions, conversions
 *   memory.c   loads, stores, atomics, asynchronous copies, and their checks
 *   group.c    what goes across invocations; matrix fragments are in frag.c
 *
 * An instruction is run for the invocations of a work-group at once. A value is an array of its
 * packed elements for each of its lanes, with one element an invocation; what inactive invocations
 * have in it is rubbish that nobody sees. */
#ifndef UM_INTERP_INTERP_H
#define UM_INTERP_INTERP_H

#include "ir/ir.h"

/* Kinds of access, as bits; what two invocations, or work-groups, may both do to an element without
 * a barrier between is read it, or use it atomically. */
enum { UM_TOUCH_READ = 1, UM_TOUCH_WRITE = 2, UM_TOUCH_ATOMIC = 4 };

/* Who touched an element last, and how: who << 3 | kinds. */
typedef uint64_t um_stamp;

/* Of a 32-bit word of a buffer: in the work-group, who being epoch << 16 | invocation; and in the
 * launch, who being the work-group's number + 1. Epochs end at barriers and grow from one
 * work-group to the next, so that stamps of old ones need no clearing. */
typedef struct um_shadow {
    um_stamp group, launch;
} um_shadow;

enum {
    UM_SHADOW_PAGE = 4096,  /* words; a page comes when one of them is touched: 64 KiB */
    UM_WHO_SUBGROUP = 1024, /* and the subgroup's number: a fragment's load or store */
    UM_WHO_MANY = 0xffff
};

/* Buffers that overlap share one. */
typedef struct um_region {
    uintptr_t begin, end;
    um_shadow **page;
} um_region;

enum { UM_IS_WRITTEN = 1, UM_IS_PENDING = 2 /* an asynchronous copy writes it */ };

/* um_kernel.mem[i] in a launch. */
typedef struct um_imem {
    const char *name;
    um_space space;
    uint32_t size; /* bytes of an element */
    uint64_t count;
    char *data;        /* private arrays and variables: invocations side by side */
    uint8_t *is;       /* UM_IS_...; as data; not of buffers */
    um_stamp *stamp;   /* shared arrays */
    um_region *region; /* buffers */
} um_imem;

typedef struct um_ifrag {
    uint32_t rows, columns, size;
    char *data; /* row by row, for each subgroup */
    uint8_t *is;
} um_ifrag;

/* An open block. */
typedef struct um_iframe {
    um_val opener;  /* IF, ELSE, FOR or LOOP */
    int32_t loop;   /* the innermost open loop, perhaps this; -1: none */
    uint8_t *saved; /* the mask outside */
    uint8_t *other; /* loops: who has not left it; IF: who goes to ELSE */
} um_iframe;

typedef struct um_icopy {
    um_mem shared;
    uint32_t index, count, who, batch;
} um_icopy;

typedef struct um_interp {
    const um_kernel *k;
    const um_kernel_run *run;
    um_arena arena;
    int32_t n;        /* invocations of a work-group */
    int32_t subgroup; /* of a subgroup */
    um_val *partner;  /* um_kernel_match */
    size_t *value_at; /* of each value */
    char *values;
    um_imem *mem;
    um_ifrag *frag;
    um_region *region;
    int32_t region_count;
    char *scratch; /* for n elements, or three fragments as classes hold them */

    uint8_t *mask;       /* who is active; this and what follows of a work-group */
    int32_t first, last; /* none is outside these: first <= i < last */
    int32_t active;      /* how many are */
    uint8_t *chosen;     /* active ones that a condition chose */
    um_iframe frame[UM_KDEPTH_MAX];
    int32_t depth;
    um_val pc;
    uint32_t group[3];
    uint64_t group_number; /* + 1 */
    uint64_t epoch;
    uint64_t steps, step_limit;

    um_icopy *copy; /* that are not done */
    int64_t copy_count, copy_capacity;
    uint32_t *batches; /* of each invocation: committed ones */
} um_interp;

/* Elements of lane 0 of a value are here, of lane l at + l * n elements, both padded to 16 bytes.
 */
static inline void *um_interp_value(const um_interp *it, um_val v)
{
    return it->values + it->value_at[v];
}
static inline size_t um_lane_bytes(const um_interp *it, um_dtype dtype)
{
    return ((size_t)it->n * um_element_bytes(dtype) + 15) / 16 * 16;
}
static inline char *um_interp_lane(const um_interp *it, um_val v, int32_t lane)
{
    const um_ktype type = um_val_type(it->k, v);
    return it->values + it->value_at[v] + (size_t)lane * um_lane_bytes(it, type.dtype);
}

/* Fails at the instruction at pc: "kernel k: instruction 7 (load), work-group (0,0,0), invocation
 * (3,0,0): ..."; invocation < 0: none in particular. */
um_status um_interp_fail(um_interp *it, um_status code, int32_t invocation, const char *format, ...)
    UM_PRINTF(4, 5);

/* plan.c: everything from arena to scratch, from a run that was checked. */
um_status um_interp_plan(um_interp *it);
/* Shared and private memory of a new work-group. */
void um_interp_clear(um_interp *it);

/* lanes.c: the instruction at pc. */
um_status um_interp_lanes(um_interp *it);

/* memory.c: each runs the instruction at pc. */
um_status um_interp_load(um_interp *it);
um_status um_interp_store(um_interp *it);
um_status um_interp_get(um_interp *it);
um_status um_interp_set(um_interp *it);
um_status um_interp_atomic(um_interp *it);
um_status um_interp_async(um_interp *it);
/* Checks and notes that `who` (an invocation or UM_WHO_SUBGROUP + a subgroup) touches elements
 * at .. at + count - 1 of a buffer or shared array; invocation: for messages. */
um_status um_interp_touch(um_interp *it, um_imem *mem, uint64_t at, uint32_t count, uint32_t who,
                          int32_t invocation, uint32_t kind);

/* group.c, frag.c. */
um_status um_interp_across(um_interp *it);
um_status um_interp_frag(um_interp *it);
/* Calls fn for each subgroup that is here, invocations lo to hi - 1; fails where a part of one is.
 */
um_status um_interp_subgroups(um_interp *it,
                              um_status (*fn)(um_interp *it, int32_t lo, int32_t hi));

#endif
