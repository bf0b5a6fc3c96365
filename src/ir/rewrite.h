/* ir/rewrite.h: what passes share: making a kernel out of a finished one, instruction by
 * instruction. */
#ifndef UM_IR_REWRITE_H
#define UM_IR_REWRITE_H

#include "ir/ir.h"

typedef struct um_rewrite {
    const um_kernel *from;
    um_kernel *to; /* has from's name, sizes and declarations, with their numbers */
    um_val *map;   /* what a value of from is in to */
    um_val at;     /* the instruction of from that is looked at */
    void *pass;    /* the pass's own */
    um_arena room; /* what um_rewrite_room gives */
} um_rewrite;

/* Appends to `to` what takes the place of from's instruction `at`, given with its operands mapped;
 * returns what takes the place of its value. It may move `at` on over what is left out. */
typedef um_val (*um_rewrite_fn)(um_rewrite *r, um_kinst inst);

um_status um_rewrite_begin(um_rewrite *r, const um_kernel *from, void *pass);
/* Zeros for the time of the pass; where there is no memory, NULL and a mistake of `to`. */
void *um_rewrite_room(um_rewrite *r, int64_t count, size_t item_bytes);
void um_rewrite_each(um_rewrite *r, um_rewrite_fn fn);
/* Releases all but the new kernel, which it gives after it was finished. */
um_status um_rewrite_end(um_rewrite *r, um_kernel **out);
/* All three. */
um_status um_rewrite_kernel(const um_kernel *from, um_rewrite_fn fn, void *pass, um_kernel **out);

/* The memory and fragment numbers in an instruction's imm go through the two tables. */
void um_kinst_renumber(um_kinst *inst, const um_mem *mem, const um_frag *frag);

#endif
