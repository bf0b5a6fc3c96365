/* ir/expand.h: what the files of um_kernel_expand share: expand.c (what goes across invocations,
 * asynchronous copies), expand_frag.c (matrix fragments), expand_type.c (conversions and types that
 * a target lacks), small_float.c, expand_wide.c (64-bit integers).
 */
#ifndef UM_IR_EXPAND_H
#define UM_IR_EXPAND_H

#include "ir/rewrite.h"

typedef struct um_expand {
    const um_klacks *lacks;
    um_mem scratch[32]; /* by dtype: a shared array with an element an invocation */
    um_mem part[32];    /* by dtype: a variable */
    /* expand_frag.c */
    um_mem items[256];  /* of each fragment that is expanded, its array; 0 of the others */
    um_mem product[32]; /* by dtype: a variable */
    /* expand_wide.c */
    um_val *high;             /* upper half of each value of the old kernel */
    um_mem *high_var;         /* of each variable */
    uint8_t *level, *flow;    /* um_kuniform of each value, and of the flow it stands in */
    um_mem division[3][3][4]; /* variables of a division, by level and lanes / 2 */
} um_expand;

/* Where the condition holds; 0: always. */
static inline void um_expand_store(um_kernel *k, um_mem mem, um_val at, um_val v, um_val condition)
{
    if (condition)
        um_k_store_if(k, mem, at, v, condition);
    else
        um_k_store(k, mem, at, v);
}
/* Elsewhere zeros. */
static inline um_val um_expand_load(um_kernel *k, um_mem mem, um_val at, um_val condition,
                                    int32_t lanes)
{
    if (!condition) return um_k_load_lanes(k, mem, at, lanes);
    return um_k_load_if(k, mem, at, condition, um_k_bits(k, k->mem[mem - 1].type.dtype, lanes, 0));
}

/* A free name for something of the dtype. */
void um_expand_name(const um_kernel *k, const char *what, um_dtype dtype, char out[32]);

um_val um_expand_fragments(um_rewrite *r, um_kinst inst);
void um_expand_fragments_begin(um_rewrite *r);

um_val um_expand_saturation(um_rewrite *r, um_kinst inst);
um_val um_expand_arithmetic(um_rewrite *r, um_kinst inst);
um_val um_expand_lanes(um_rewrite *r, um_kinst inst);
um_val um_expand_types(um_rewrite *r, um_kinst inst);
/* The declarations of the new kernel, before um_expand_types. */
void um_expand_memories(um_rewrite *r);

um_val um_expand_wide(um_rewrite *r, um_kinst inst);
void um_expand_wide_memories(um_rewrite *r);

/* f32 values to the bits of a small float type, in u32 of as many lanes, and back; as CONVERT. */
um_val um_expand_narrow(um_kernel *k, um_dtype dtype, um_val value);
um_val um_expand_widen(um_kernel *k, um_dtype dtype, um_val bits);

#endif
