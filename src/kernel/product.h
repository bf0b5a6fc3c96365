/* kernel/product.h: what product.c and its form for matrix units, product_frag.c, share. */
#ifndef UM_KERNEL_PRODUCT_H
#define UM_KERNEL_PRODUCT_H

#include "kernel/library.h"

typedef struct um_product {
    const um_kproduct *p;
    um_kernel *k;
    um_klaunch *launch;
    um_val rows, columns, depth, one, zero;
    int64_t splits;
    uint32_t block,
        group;        /* rows that an invocation makes of a tile; invocations of a work-group */
    uint32_t direct;  /* rows and columns of the tile that an invocation makes by itself, or 0 */
    um_dtype factor;  /* of the parts in shared memory */
    um_mem shared[2]; /* of a and b */
    um_mem fetched[2][128]; /* what comes there next */
    /* product_frag.c; 0 without a matrix unit */
    const um_matrix_tile *tile;
    uint32_t subgroup;
    bool async; /* parts are copied to shared memory, 16 bytes at once, and not fetched */
} um_product;

enum { UM_KFRAG_ROWS = 128, UM_KFRAG_COLUMNS = 64 };

/* Takes the unit's tile that sums such products within the contract, if there is one. */
void um_kfrag_begin(um_product *s, const um_kunit *unit);
uint32_t um_kfrag_depth(const um_product *s);
/* A tile of the output, over depth begin .. end - 1, of at most `chunk`. */
void um_kfrag_make(um_product *s, um_val row, um_val column, um_val begin, um_val end,
                   int64_t chunk, um_mem partial, um_val base);

bool um_product_is_deep(const um_product *s, bool of_b);
uint32_t um_product_part_count(const um_product *s, bool of_b);
uint32_t um_product_step(const um_product *s, bool of_b);
void um_product_place(const um_product *s, bool of_b, uint32_t i, um_val *place, um_val *depth);
void um_product_new_fetched(um_product *s);
/* The next parts of a and b: of rows from `row`, columns from `column`, depth from `begin` on; what
 * is not there is 0. And into shared memory. */
void um_product_fetch(const um_product *s, um_val row, um_val column, um_val begin);
void um_product_store(const um_product *s);
um_val um_product_in(const um_product *s, bool of_b, um_val place, um_val depth);
/* An element of the sum: finished, or where there is one, to the partial sums from base on. */
void um_product_finish(const um_product *s, um_val row, um_val column, um_val value, um_mem partial,
                       um_val base);

#endif
