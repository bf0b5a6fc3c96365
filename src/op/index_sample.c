/* op/index_sample.c: test samples of the ops of index.c. Values repeat and miss some indices, so
 * that duplicates meet and elements stay. */
#include "op/rule.h"

static void sample_index_view(um_sample *sample, bool wide, const um_dims *dims, int32_t size)
{
    um_sample_indices(sample, wide ? UM_I64 : UM_I32, dims, 0, UM_MAX(size - 1, 0));
}

/* x of one row and indices; the label names row and dtype of the indices. */
static bool finish(um_sample *sample, int32_t row, bool wide)
{
    um_sample_label_input(sample);
    um_sample_label(sample, " row=%d ids=%s", (int)row, wide ? "i64" : "i32");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}

/* Kernels differ by element size and arithmetic: the first samples for every dtype, all of them for
 * a dtype of each kind. */
static bool is_past(int32_t index, int32_t count, int32_t first, um_dtype dtype)
{
    bool all =
        dtype == UM_F64 || dtype == UM_F32 || dtype == UM_F16 || dtype == UM_I8 || dtype == UM_U64;
    return index >= (all ? count : UM_MIN(count, first));
}

static double range_of(um_dtype dtype) { return um_dtype_is_float(dtype) ? 4 : 100; }

/* ---- embedding and its gradient ------------------------------------------------------------- */

static const struct embedding_row {
    um_dims table, ids;
} embedding_rows[] = {
    {UM_DIMS(10, 7), UM_SCALAR},
    {UM_DIMS(10, 7), UM_DIMS(5)},
    {UM_DIMS(1, 1), UM_DIMS(3)},
    {UM_DIMS(257, 33), UM_DIMS(2, 3, 5)},
    {UM_DIMS(65), UM_DIMS(17)},
    {UM_DIMS(5, 0), UM_DIMS(3)},
    {UM_DIMS(0, 5), UM_DIMS(0)},
    {UM_DIMS(3, 5), UM_DIMS(2, 0)},
    {UM_DIMS(7, 2, 3, 1, 2), UM_DIMS(2, 2)},
    {UM_DIMS(3, 2, 1, 2, 2, 1, 2, 3), UM_SCALAR},
    {UM_DIMS(9), UM_DIMS(2, 1, 2, 1, 2, 1, 2, 3)},
    {UM_DIMS(512, 64), UM_DIMS(129)},
};

bool um_sample_embedding(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (is_past(index, 2 * (int32_t)UM_COUNT_OF(embedding_rows), 8, dtype)) return false;
    const struct embedding_row *row = &embedding_rows[index / 2];
    um_sample_input(sample, dtype, &row->table, -100, 100);
    sample_index_view(sample, index % 2, &row->ids, row->table.size[0]);
    return finish(sample, index / 2, index % 2);
}

static um_dims join(const um_dims *a, const um_dims *b, int32_t b_first)
{
    um_dims all = *a;
    for (int32_t i = b_first; i < b->rank; i++) all.size[all.rank++] = b->size[i];
    return all;
}

bool um_sample_embedding_backward(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (is_past(index, (int32_t)UM_COUNT_OF(embedding_rows), 4, dtype)) return false;
    const struct embedding_row *row = &embedding_rows[index];
    um_dims dy = join(&row->ids, &row->table, 1);
    um_sample_input(sample, dtype, &dy, -4, 4);
    sample_index_view(sample, index % 2, &row->ids, row->table.size[0]);
    sample->op.attrs.index.count = row->table.size[0];
    return finish(sample, index, index % 2);
}

/* ---- along an axis -------------------------------------------------------------------------- */

static const struct axis_row {
    um_dims x, indices;
    int32_t axis;
} element_rows[] = {
    {UM_DIMS(10), UM_DIMS(5), 0},
    {UM_DIMS(5), UM_DIMS(33), -1},
    {UM_DIMS(1), UM_DIMS(1), 0},
    {UM_DIMS(7, 5), UM_DIMS(7, 9), 1},
    {UM_DIMS(7, 5), UM_DIMS(6, 5), 0},
    {UM_DIMS(7, 5), UM_DIMS(3, 4), -2},
    {UM_DIMS(0), UM_DIMS(0), 0},
    {UM_DIMS(3, 5), UM_DIMS(3, 0), 1},
    {UM_DIMS(3, 0), UM_DIMS(2, 0), 0},
    {UM_DIMS(9, 33, 17), UM_DIMS(9, 65, 17), 1},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_DIMS(2, 1, 3, 2, 1, 2, 5, 2), 6},
    {UM_DIMS(257, 65), UM_DIMS(129, 65), 0},
    {UM_DIMS(3), UM_DIMS(1000), 0},
    {UM_DIMS(3000), UM_DIMS(5000), 0},
};

bool um_sample_gather(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (is_past(index, (int32_t)UM_COUNT_OF(element_rows), 5, dtype)) return false;
    const struct axis_row *row = &element_rows[index];
    int32_t axis = row->axis < 0 ? row->axis + row->x.rank : row->axis;
    um_sample_input(sample, dtype, &row->x, -100, 100);
    sample_index_view(sample, index % 2, &row->indices, row->x.size[axis]);
    sample->op.attrs.index.axis = row->axis;
    return finish(sample, index, index % 2);
}

static const int32_t modes[] = {UM_SCATTER_ASSIGN, UM_SCATTER_ADD, UM_SCATTER_MUL, UM_SCATTER_MIN,
                                UM_SCATTER_MAX};

/* Modes of bool: those that have neither add nor mul. */
static bool pick_mode(um_sample *sample, um_dtype dtype, int32_t choice)
{
    int32_t mode = modes[choice];
    bool counts = mode == UM_SCATTER_ADD || mode == UM_SCATTER_MUL;
    if (dtype == UM_BOOL && counts) mode = UM_SCATTER_ASSIGN;
    sample->op.attrs.index.mode = mode;
    um_sample_label(sample, "mode=%d ", (int)mode);
    return mode == UM_SCATTER_MUL && um_dtype_is_float(dtype);
}

static void sample_values(um_sample *sample, um_dtype dtype, const um_dims *dims, bool near_one)
{
    double range = range_of(dtype);
    if (near_one)
        um_sample_input(sample, dtype, dims, 0.9, 1.1);
    else
        um_sample_input(sample, dtype, dims, -range, range);
}

bool um_sample_scatter(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t mode_count = (int32_t)UM_COUNT_OF(modes);
    if (is_past(index, mode_count * (int32_t)UM_COUNT_OF(element_rows), 10, dtype)) return false;
    const struct axis_row *row = &element_rows[index / mode_count];
    int32_t axis = row->axis < 0 ? row->axis + row->x.rank : row->axis;
    bool near_one = pick_mode(sample, dtype, index % mode_count);
    sample_values(sample, dtype, &row->x, near_one);
    sample_index_view(sample, index % 2, &row->indices, row->x.size[axis]);
    sample_values(sample, dtype, &row->indices, near_one);
    sample->op.attrs.index.axis = row->axis;
    return finish(sample, index / mode_count, index % 2);
}

static const struct slice_row {
    um_dims x;
    int32_t count, axis;
} slice_rows[] = {
    {UM_DIMS(10, 7), 5, 0},    {UM_DIMS(10, 7), 33, 1},
    {UM_DIMS(5), 17, 0},       {UM_DIMS(1), 1, -1},
    {UM_DIMS(3, 5), 0, 0},     {UM_DIMS(0, 5), 0, 0},
    {UM_DIMS(4, 5, 6), 9, -2}, {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), 5, 3},
    {UM_DIMS(33, 300), 65, 0}, {UM_DIMS(7, 11), 1000, 0},
};

static void sample_slices(um_sample *sample, um_dtype dtype, int32_t index, um_dims *slices)
{
    const struct slice_row *row = &slice_rows[index];
    int32_t axis = row->axis < 0 ? row->axis + row->x.rank : row->axis;
    um_dims count = UM_DIMS(0);
    count.size[0] = row->count;
    um_sample_input(sample, dtype, &row->x, -range_of(dtype), range_of(dtype));
    sample_index_view(sample, index % 2, &count, row->x.size[axis]);
    sample->op.attrs.index.axis = row->axis;
    *slices = row->x;
    slices->size[axis] = row->count;
}

bool um_sample_index_select(int32_t index, um_dtype dtype, um_sample *sample)
{
    um_dims slices;
    if (is_past(index, (int32_t)UM_COUNT_OF(slice_rows), 3, dtype)) return false;
    sample_slices(sample, dtype, index, &slices);
    return finish(sample, index, index % 2);
}

bool um_sample_index_add(int32_t index, um_dtype dtype, um_sample *sample)
{
    um_dims slices;
    if (is_past(index, (int32_t)UM_COUNT_OF(slice_rows), 3, dtype)) return false;
    sample_slices(sample, dtype, index, &slices);
    sample_values(sample, dtype, &slices, false);
    return finish(sample, index, index % 2);
}

/* ---- by rows of indices: all parts of an index are below the smallest size --------------------
 */

static const struct nd_row {
    um_dims x, indices;
    int32_t below;
} nd_rows[] = {
    {UM_DIMS(5), UM_DIMS(7, 1), 5},
    {UM_DIMS(3, 4, 5), UM_DIMS(9, 2), 3},
    {UM_DIMS(3, 4, 5), UM_DIMS(2, 3), 3},
    {UM_DIMS(3, 4, 5), UM_DIMS(1), 3},
    {UM_DIMS(3, 4), UM_DIMS(3, 0), 0},
    {UM_DIMS(3, 0), UM_DIMS(5, 1), 3},
    {UM_DIMS(0, 3), UM_DIMS(0, 2), 0},
    {UM_DIMS(9, 8, 7), UM_DIMS(2, 3, 5, 2), 8},
    {UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2), UM_DIMS(3, 5), 1},
    {UM_DIMS(40, 300), UM_DIMS(50, 1), 40},
    {UM_DIMS(7, 9), UM_DIMS(1000, 2), 7},
};

static void sample_nd(um_sample *sample, um_dtype dtype, const struct nd_row *row, bool near_one,
                      bool wide)
{
    sample_values(sample, dtype, &row->x, near_one);
    sample_index_view(sample, wide, &row->indices, row->below);
}

bool um_sample_gather_nd(int32_t index, um_dtype dtype, um_sample *sample)
{
    if (is_past(index, (int32_t)UM_COUNT_OF(nd_rows), 3, dtype)) return false;
    sample_nd(sample, dtype, &nd_rows[index], false, index % 2);
    return finish(sample, index, index % 2);
}

bool um_sample_scatter_nd(int32_t index, um_dtype dtype, um_sample *sample)
{
    int32_t mode_count = (int32_t)UM_COUNT_OF(modes);
    if (is_past(index, mode_count * (int32_t)UM_COUNT_OF(nd_rows), 10, dtype)) return false;
    const struct nd_row *row = &nd_rows[index / mode_count];
    bool near_one = pick_mode(sample, dtype, index % mode_count);
    int32_t last = row->indices.rank - 1;
    um_dims rows = row->indices;
    rows.rank = last;
    um_dims slices = join(&rows, &row->x, row->indices.size[last]);
    sample_nd(sample, dtype, row, near_one, index % 2);
    sample_values(sample, dtype, &slices, near_one);
    return finish(sample, index / mode_count, index % 2);
}

/* ---- positions ------------------------------------------------------------------------------ */

static const um_dims position_dims[] = {
    UM_SCALAR,     UM_DIMS(0),       UM_DIMS(1),       UM_DIMS(17),
    UM_DIMS(5, 7), UM_DIMS(3, 0, 5), UM_DIMS(33, 129), UM_DIMS(2, 1, 3, 2, 1, 2, 3)};

bool um_sample_one_hot(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const int32_t depths[] = {1, 7, 0, 65};
    if (is_past(index, (int32_t)UM_COUNT_OF(position_dims), 5, dtype)) return false;
    int32_t depth = depths[index % 4];
    sample_index_view(sample, index % 2, &position_dims[index], depth);
    sample->op.attrs.index.count = depth;
    um_sample_label_input(sample);
    um_sample_label(sample, " depth=%d", (int)depth);
    return um_sample_finish(sample, dtype);
}

/* Room for all, for some and for none. */
bool um_sample_nonzero(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const int32_t rooms[] = {5000, 3, 0};
    int32_t room_count = (int32_t)UM_COUNT_OF(rooms);
    if (is_past(index, room_count * (int32_t)UM_COUNT_OF(position_dims), 15, dtype)) return false;
    const um_dims *dims = &position_dims[index / room_count];
    int32_t room = rooms[index % room_count];
    um_sample_indices(sample, dtype, dims, 0, dtype == UM_BOOL ? 1 : 2);
    sample->op.attrs.index.count = room;
    um_sample_label_input(sample);
    um_sample_label(sample, " room=%d", (int)room);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
