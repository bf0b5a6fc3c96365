/* test/onnx/ops_index.c: gathers and scatters, sorting, counting, one-hot. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

/* Negative indices count from the end; n may be a number or one for each of the last axis. */
static um_view wrap_indices(run *r, um_view indices, um_view n)
{
    indices = cast(r, indices, UM_I64);
    um_view negative = m2(r, UM_OP_LT, indices, put_i64(r, 0));
    return where(r, negative, add(r, indices, n), indices);
}

void on_gather(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), indices = in(r, 1);
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    int32_t rank = x.rank - 1 + indices.rank;
    if (rank > UM_MAX_RANK) run_refuse(r, "Gather: to a rank of %d", (int)rank);
    if (r->failed) return;
    int64_t shape[2 * UM_MAX_RANK], count = um_view_count(&indices);
    memcpy(shape, x.shape, (size_t)axis * 8);
    memcpy(shape + axis, indices.shape, (size_t)indices.rank * 8);
    memcpy(shape + axis + indices.rank, x.shape + axis + 1, (size_t)(x.rank - axis - 1) * 8);
    um_view flat = reshape(r, indices, 1, &count);
    flat = wrap_indices(r, flat, put_i64(r, x.shape[axis]));
    out(r, 0, reshape(r, select_rows(r, x, axis, flat), rank, shape));
}

um_view gather_along(run *r, um_view x, int32_t axis, um_view indices)
{
    um_op op = {.id = UM_OP_GATHER, .in_count = 2};
    op.attrs.index.axis = axis;
    op.in[0] = x;
    op.in[1] = wrap_indices(r, indices, put_i64(r, size(&x, axis)));
    return run_op(r, &op);
}

void on_gather_elements(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    out(r, 0, gather_along(r, x, axis, in(r, 1)));
}

static um_scatter_mode scatter_mode(run *r)
{
    static const char *const names[] = {"none", "add", "mul", "min", "max"}; /* UM_SCATTER_... */
    for (size_t i = 0; i < UM_COUNT_OF(names); i++)
        if (attr_is(r, "reduction", "none", names[i])) return (um_scatter_mode)i;
    run_refuse(r, "%s: reduction %s", r->node->op, attr_str(r, "reduction", ""));
    return UM_SCATTER_ASSIGN;
}

um_view scatter_along(run *r, um_view x, int32_t axis, um_scatter_mode mode, um_view indices,
                      um_view values)
{
    um_op op = {.id = UM_OP_SCATTER, .in_count = 3};
    op.attrs.index.axis = axis;
    op.attrs.index.mode = mode;
    op.in[0] = x;
    op.in[1] = wrap_indices(r, indices, put_i64(r, size(&x, axis)));
    op.in[2] = values;
    return run_op(r, &op);
}

void on_scatter_elements(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    out(r, 0, scatter_along(r, x, axis, scatter_mode(r), in(r, 1), in(r, 2)));
}

/* Index tuples into the first axes of x. */
static um_view wrap_tuples(run *r, um_view indices, const um_view *x)
{
    int64_t depth = size(&indices, -1);
    if (indices.rank == 0 || depth > x->rank) run_refuse(r, "%s: the tuples", r->node->op);
    return r->failed ? indices : wrap_indices(r, indices, put_ints(r, depth, x->shape));
}

void on_scatter_nd(run *r, um_op_id id)
{
    um_op op = {.id = id, .in_count = 3};
    op.attrs.index.mode = scatter_mode(r);
    op.in[0] = in(r, 0);
    op.in[1] = wrap_tuples(r, in(r, 1), &op.in[0]);
    op.in[2] = in(r, 2);
    out(r, 0, run_op(r, &op));
}

/* With batch_dims the first axes are the same in x and the indices: their own places go before the
 * tuples. */
void on_gather_nd(run *r, um_op_id id)
{
    int64_t batch = attr_int(r, "batch_dims", 0);
    um_view x = in(r, 0), indices = cast(r, in(r, 1), UM_I64), parts[UM_MAX_RANK + 1];
    int32_t last = indices.rank - 1;
    if (batch < 0 || batch > last || batch >= x.rank) run_refuse(r, "GatherND: batch_dims");
    if (r->failed) return;
    um_view own = x, place = slice(r, indices, last, 0, UM_MIN(size(&indices, last), 1), 1);
    for (int32_t d = 0; d < batch; d++) {
        parts[d] = expand_like(r, along(r, arange(r, UM_I64, size(&x, d)), d, last + 1), &place);
        own = slice(r, own, 0, 0, UM_MIN(size(&own, 0), 1), 1);
        if (own.rank > 1) own = squeeze(r, own, 0);
    }
    parts[batch] = wrap_tuples(r, indices, &own);
    um_op op = {.id = id, .in_count = 2};
    op.in[0] = x;
    op.in[1] = concat(r, last, (int32_t)batch + 1, parts);
    out(r, 0, run_op(r, &op));
}

void on_array_feature_extractor(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), indices = in(r, 1);
    int64_t count = um_view_count(&indices);
    out(r, 0, select_rows(r, x, x.rank - 1, reshape(r, indices, 1, &count)));
}

/* ---- counting -----------------------------------------------------------------------------------
 */

um_view places(run *r, um_view x)
{
    um_op op = {.id = UM_OP_NONZERO, .in_count = 1, .out_count = 2};
    op.attrs.index.count = um_view_count(&x);
    op.in[0] = x;
    um_view rows = run_op(r, &op);
    int64_t found = r->failed ? 0 : (int64_t)run_number(r, op.out[1]);
    return slice(r, rows, 0, 0, found, 1);
}

void on_nonzero(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, swap_axes(r, places(r, in(r, 0)), 0, 1));
}

void on_compress(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), kept = squeeze(r, places(r, in(r, 1)), 1);
    int32_t axis = 0;
    int64_t count = um_view_count(&x);
    if (attr_find(r, "axis"))
        axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    else
        x = reshape(r, x, 1, &count);
    out(r, 0, select_rows(r, x, axis, kept));
}

void on_one_hot(run *r, um_op_id id)
{
    um_view indices = in(r, 0), values = in(r, 2);
    int64_t depth = (int64_t)run_number(r, in(r, 1));
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), indices.rank + 1);
    um_view classes = along(r, arange(r, UM_I64, depth), axis, indices.rank + 1);
    um_view at = unsqueeze(r, wrap_indices(r, indices, put_i64(r, depth)), axis);
    um_view off = reshape(r, slice(r, values, 0, 0, 1, 1), 0, NULL);
    um_view on = reshape(r, slice(r, values, 0, 1, 1, 1), 0, NULL);
    out(r, 0, where(r, m2(r, id, at, classes), on, off));
}

/* ---- sorting ------------------------------------------------------------------------------------
 */

void on_top_k(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    um_op op = {.id = id, .in_count = 1, .out_count = 2};
    op.attrs.sort.axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    op.attrs.sort.k =
        (int64_t)(has_in(r, 1) ? run_number(r, in(r, 1)) : (double)attr_int(r, "k", 0));
    op.attrs.sort.descending = (int32_t)attr_int(r, "largest", 1);
    op.in[0] = x;
    (void)run_op(r, &op);
    out(r, 0, op.out[0]);
    out(r, 1, op.out[1]);
}

void on_arg(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", 0), x.rank);
    bool last = attr_int(r, "select_last_index", 0) != 0;
    int64_t n = size(&x, axis);
    um_view y =
        reduce(r, id, last ? flip(r, x, axis) : x, 1u << axis, attr_int(r, "keepdims", 1) != 0);
    out(r, 0, last ? sub(r, put_i64(r, n - 1), y) : y);
}

void on_hardmax(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", -1), x.rank);
    um_view best = reduce(r, id, x, 1u << axis, true);
    um_view places_of = along(r, arange(r, UM_I64, size(&x, axis)), axis, x.rank);
    out(r, 0, cast(r, m2(r, UM_OP_EQ, best, places_of), x.dtype));
}

/* Along the time axis of each sequence of the batch: the first `length` in reverse. */
void on_reverse_sequence(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    int32_t time = axis_of(r, attr_int(r, "time_axis", 0), x.rank);
    int32_t batch = axis_of(r, attr_int(r, "batch_axis", 1), x.rank);
    um_view at = along(r, arange(r, UM_I64, size(&x, time)), time, x.rank);
    um_view length = along(r, in(r, 1), batch, x.rank);
    um_view back = sub(r, addc(r, length, -1), at);
    um_view from = where(r, m2(r, UM_OP_LT, at, length), back, at);
    out(r, 0, gather_along(r, x, time, expand_like(r, from, &x)));
}

/* past [B, ..., T, ...] with updates written from write_indices[b] on. */
void on_tensor_scatter(run *r, um_op_id id)
{
    (void)id;
    um_view past = in(r, 0), update = in(r, 1);
    int32_t axis = axis_of(r, attr_int(r, "axis", -2), past.rank);
    um_view at = along(r, arange(r, UM_I64, size(&update, axis)), axis, past.rank);
    um_view start = has_in(r, 2) ? in(r, 2) : put_i64(r, 0);
    at = add(r, at, along(r, start, 0, past.rank));
    if (attr_is(r, "mode", "linear", "circular"))
        at = m2(r, UM_OP_REMAINDER, at, put_i64(r, size(&past, axis)));
    out(r, 0, scatter_along(r, past, axis, UM_SCATTER_ASSIGN, expand_like(r, at, &update), update));
}
