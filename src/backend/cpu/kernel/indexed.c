/* backend/cpu/kernel/indexed.c: see indexed.h. */
#include "backend/cpu/kernel/indexed.h"

static void add_part(um_indexed *x, const um_view *table, int32_t axis)
{
    x->size[x->parts] = table->shape[axis];
    x->stride[x->parts++] = table->stride[axis];
}

static void add_entry_axis(um_walk *walk, int64_t size, int64_t table, int64_t entries,
                           int64_t indices)
{
    int64_t stride[INDEXED_VIEWS];
    stride[INDEXED_TABLE] = table;
    stride[INDEXED_ENTRIES] = entries;
    stride[INDEXED_INDICES] = indices;
    um_walk_add_axis(walk, size, stride);
}

static void add_slice_axis(um_indexed *x, const um_view *table, int32_t axis, int64_t entries)
{
    um_walk_add_axis(&x->slice, table->shape[axis], (int64_t[]){table->stride[axis], entries});
}

/* gather, scatter: an index an element. */
static void make_elements(um_indexed *x, const um_view *table, const um_view *entries, int32_t axis,
                          um_walk *updates)
{
    const um_view *indices = x->indices;
    for (int32_t i = 0; i < indices->rank; i++) {
        bool indexed = i == axis;
        add_entry_axis(indexed ? updates : &x->lines, indices->shape[i],
                       indexed ? 0 : table->stride[i], entries->stride[i], indices->stride[i]);
    }
    add_part(x, table, axis);
}

/* index_select, index_add: an index a slice along the axis. */
static void make_slices(um_indexed *x, const um_view *table, const um_view *entries, int32_t axis,
                        um_walk *updates)
{
    add_entry_axis(updates, x->indices->shape[0], 0, entries->stride[axis], x->indices->stride[0]);
    for (int32_t i = 0; i < table->rank; i++)
        if (i != axis) add_slice_axis(x, table, i, entries->stride[i]);
    add_part(x, table, axis);
}

/* gather_nd, scatter_nd, embedding and its gradient: the first `parts` axes of the table, by
 * indices whose first `rows` axes the entries have, too. */
static void make_rows(um_indexed *x, const um_view *table, const um_view *entries, int32_t rows,
                      int32_t parts, um_walk *updates)
{
    for (int32_t i = 0; i < rows; i++)
        add_entry_axis(updates, x->indices->shape[i], 0, entries->stride[i], x->indices->stride[i]);
    for (int32_t i = 0; i < parts; i++) add_part(x, table, i);
    for (int32_t i = parts; i < table->rank; i++)
        add_slice_axis(x, table, i, entries->stride[rows + i - parts]);
}

void UM_ISA_FN(um_indexed_make)(um_indexed *x, const um_op *op, const um_view *table,
                                const um_view *indices, const um_view *entries, bool is_gather)
{
    *x = (um_indexed){.indices = indices,
                      .table = (char *)(uintptr_t)table->ptr,
                      .entries = (char *)(uintptr_t)entries->ptr,
                      .element_bytes = um_dtype_bits(table->dtype) / 8};
    um_walk_begin(&x->lines, INDEXED_VIEWS);
    um_walk_begin(&x->updates, INDEXED_VIEWS);
    um_walk_begin(&x->slice, 2);
    um_walk *updates = is_gather ? &x->lines : &x->updates;
    int32_t axis =
        op->attrs.index.axis < 0 ? op->attrs.index.axis + table->rank : op->attrs.index.axis;
    int32_t last = indices->rank - 1;
    if (op->id == UM_OP_GATHER || op->id == UM_OP_SCATTER) {
        make_elements(x, table, entries, axis, updates);
    } else if (op->id == UM_OP_INDEX_SELECT || op->id == UM_OP_INDEX_ADD) {
        make_slices(x, table, entries, axis, updates);
    } else if (op->id == UM_OP_GATHER_ND || op->id == UM_OP_SCATTER_ND) {
        x->part_step = indices->stride[last];
        make_rows(x, table, entries, last, (int32_t)indices->shape[last], updates);
    } else {
        make_rows(x, table, entries, indices->rank, 1, updates);
    }
    um_walk_end(&x->lines);
    um_walk_end(&x->updates);
    um_walk_end(&x->slice);
}

um_status UM_ISA_FN(um_indexed_report)(const um_op *op, const um_indexed *x)
{
    const um_view *indices = x->indices;
    int64_t count = um_view_count(indices);
    for (int64_t position = 0; position < count; position++) {
        int64_t rest = position, element = 0;
        for (int32_t d = indices->rank - 1; d >= 0; d--) {
            element += rest % indices->shape[d] * indices->stride[d];
            rest /= indices->shape[d];
        }
        int64_t size = x->size[position % x->parts];
        int64_t index = um_index_at(indices, element);
        if (index < 0 || index >= size)
            return UM_FAIL(
                UM_OUT_OF_RANGE, "%s: index %lld, number %lld of the indices, is outside 0 to %lld",
                um_op_name(op->id), (long long)index, (long long)position, (long long)size - 1);
    }
    return UM_OK;
}
