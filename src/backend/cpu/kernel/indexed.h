/* backend/cpu/kernel/indexed.h: gather, scatter and their kin in one form. Entries (what a gather
 * writes, a scatter's values) meet slices of a table (what a gather reads, a scatter's y); indices
 * say which. Made by indexed.c, run by gather.c and scatter.c. */
#ifndef UM_CPU_INDEXED_H
#define UM_CPU_INDEXED_H

#include "backend/cpu/kernel/walk.h"

enum { INDEXED_TABLE, INDEXED_ENTRIES, INDEXED_INDICES, INDEXED_VIEWS };

/* One entry: an element of lines (which moves in all three), one of updates (which stays in the
 * table), and an index of `parts` numbers that names a slice of the table. */
typedef struct um_indexed {
    um_walk lines, updates; /* views as above */
    um_walk slice;          /* views TABLE and ENTRIES */
    int32_t parts;
    int64_t part_step;                              /* elements between an index's numbers */
    int64_t size[UM_MAX_RANK], stride[UM_MAX_RANK]; /* of the table's axes they stand for */
    const um_view *indices;
    char *table, *entries;
    int64_t element_bytes;
} um_indexed;

/* Gathers have every entry in `lines`, in the indices' row-major order, one of updates. */
void UM_ISA_FN(um_indexed_make)(um_indexed *x, const um_op *op, const um_view *table,
                                const um_view *indices, const um_view *entries, bool is_gather);
/* OUT_OF_RANGE that names the first bad index; OK when there is none. */
um_status UM_ISA_FN(um_indexed_report)(const um_op *op, const um_indexed *x);

UM_INLINE int64_t um_index_at(const um_view *indices, int64_t element)
{
    if (indices->dtype == UM_I32) return ((const int32_t *)(uintptr_t)indices->ptr)[element];
    return ((const int64_t *)(uintptr_t)indices->ptr)[element];
}

/* The slice's number, row-major, and its place in the table, for the index at `element` of the
 * indices; false: out of range. */
UM_INLINE bool um_indexed_find(const um_indexed *x, int64_t element, uint64_t *number,
                               int64_t *place)
{
    *number = 0;
    *place = 0;
    for (int32_t p = 0; p < x->parts; p++) {
        int64_t i = um_index_at(x->indices, element + p * x->part_step);
        if (i < 0 || i >= x->size[p]) return false;
        *number = *number * (uint64_t)x->size[p] + (uint64_t)i;
        *place += i * x->stride[p];
    }
    return true;
}

UM_INLINE void um_copy_sized(char *to, int64_t to_step, const char *from, int64_t from_step,
                             int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
}

/* n elements of `bytes` bytes, steps in elements. */
UM_INLINE void um_copy_run(char *to, int64_t to_step, const char *from, int64_t from_step,
                           int64_t n, int64_t bytes)
{
    if (to_step == 1 && from_step == 1 && n > 1)
        memcpy(to, from, (size_t)(n * bytes));
    else if (bytes == 1)
        um_copy_sized(to, to_step, from, from_step, n, 1);
    else if (bytes == 2)
        um_copy_sized(to, to_step, from, from_step, n, 2);
    else if (bytes == 4)
        um_copy_sized(to, to_step, from, from_step, n, 4);
    else
        um_copy_sized(to, to_step, from, from_step, n, 8);
}

#endif
