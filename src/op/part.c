/* op/part.c: parts of ops: which axes of an output can be made apart, and the op that makes a part.
 * For devices that cannot take an op whole (device/planner.c). */
#include "op/table.h"

enum { WHOLE = -1 };

/* Which axis of each view goes with an axis of the first output; outputs come first. */
typedef struct axes {
    int32_t out[UM_OP_MAX_OUTPUTS], in[UM_OP_MAX_INPUTS];
} axes;

static int32_t counted(int32_t axis, int32_t rank) { return axis < 0 ? axis + rank : axis; }

static axes all_of(int32_t axis)
{
    axes a;
    for (int32_t i = 0; i < UM_OP_MAX_OUTPUTS; i++) a.out[i] = axis;
    for (int32_t i = 0; i < UM_OP_MAX_INPUTS; i++) a.in[i] = axis;
    return a;
}

static bool part_reduce(const um_op *op, int32_t axis, axes *a)
{
    uint32_t gone;
    int32_t in = 0, kept = -1;
    if (!um_axes_resolve(op->attrs.reduce.axes, op->in[0].rank, &gone) || gone == 0) return false;
    for (; in < op->in[0].rank; in++) {
        if (op->attrs.reduce.keepdims || !(gone & UM_AXIS(in))) kept++;
        if (kept == axis) break;
    }
    a->in[0] = in;
    um_rider r;
    if (um_op_rider(op, UM_PROLOGUE, &r))
        for (int32_t i = 0; i < r.in_count; i++) a->in[r.input[i]] = in;
    return !(gone & UM_AXIS(in));
}

static bool part_matmul(const um_op *op, int32_t axis, axes *a)
{
    int32_t last = op->out[0].rank - 1;
    if (axis == last) a->in[0] = WHOLE;
    if (axis == last - 1) a->in[1] = WHOLE;
    return true;
}

/* A batch, or a head where it has keys of its own or all have the same. */
static bool part_attention(const um_op *op, int32_t axis, axes *a)
{
    int64_t heads = op->in[0].shape[1], kv_heads = op->in[1].shape[1];
    if (op->id != UM_OP_ATTENTION || axis > 1) return false;
    if (axis == 0) {
        a->in[6] = WHOLE;
        return true;
    }
    if (kv_heads == 1) a->in[1] = a->in[2] = WHOLE;
    a->in[4] = a->in[5] = WHOLE;
    a->in[6] = 0;
    return kv_heads == 1 || kv_heads == heads;
}

/* Lines along the last axes, with weights that all share. */
static bool part_norm(const um_op *op, int32_t axis, axes *a)
{
    int32_t rank = op->out[0].rank, lines = rank - 1;
    switch (op->id) {
    case UM_OP_SOFTMAX:
    case UM_OP_LOG_SOFTMAX:
    case UM_OP_SOFTMAX_BACKWARD:
    case UM_OP_LOG_SOFTMAX_BACKWARD: return axis != counted(op->attrs.axis.axis, rank);
    case UM_OP_RMS_NORM: break;
    case UM_OP_LAYER_NORM: lines = rank - op->attrs.norm.dims; break;
    case UM_OP_GROUP_NORM: lines = 1; break;
    case UM_OP_ROPE: lines = rank - 2; break;
    default: return false; /* sums over all lines */
    }
    a->in[1] = a->in[2] = WHOLE;
    return axis < lines;
}

static bool part_index(const um_op *op, int32_t axis, axes *a)
{
    int32_t at = counted(op->attrs.index.axis, op->in[0].rank), ids = op->in[1].rank;
    switch (op->id) {
    case UM_OP_EMBEDDING:
        a->in[0] = axis < ids ? WHOLE : axis - ids + 1;
        a->in[1] = axis < ids ? axis : WHOLE;
        return true;
    case UM_OP_GATHER:
        if (axis == at) a->in[0] = WHOLE;
        return true;
    case UM_OP_INDEX_SELECT:
        a->in[0] = axis == at ? WHOLE : axis;
        a->in[1] = axis == at ? 0 : WHOLE;
        return true;
    default: return false; /* what is written depends on the indices */
    }
}

/* Images, and channels where they do not meet. */
static bool part_spatial(const um_op *op, int32_t layout, bool channels, int32_t axis)
{
    int32_t channel = layout == UM_CHANNELS_LAST ? op->out[0].rank - 1 : 1;
    return axis == 0 || (channels && axis == channel);
}

static bool part_conv(const um_op *op, int32_t axis, axes *a)
{
    a->in[1] = a->in[2] = WHOLE;
    return op->id != UM_OP_CONV_BACKWARD_FILTER &&
           part_spatial(op, op->attrs.conv.layout, false, axis);
}

static bool part_quant(const um_op *op, int32_t axis, axes *a)
{
    int32_t along = counted(op->attrs.quant.axis, op->in[0].rank);
    bool blocks = op->attrs.quant.block > 0, one = op->in[1].rank == 0;
    if (one || (!blocks && axis != along)) a->in[1] = a->in[2] = WHOLE;
    if (!one && !blocks && axis == along) a->in[1] = a->in[2] = 0;
    return !blocks || axis != along;
}

/* false: its elements along the axis cannot be made apart. */
static bool find_axes(const um_op *op, int32_t axis, axes *a)
{
    const um_op_row *row = um_op_get_row(op->id);
    int32_t rank = op->out[0].rank;
    *a = all_of(axis);
    switch (row->family) {
    case UM_FAMILY_MAP: return true;
    case UM_FAMILY_MOVE: return op->id == UM_OP_COPY || op->id == UM_OP_FILL;
    case UM_FAMILY_REDUCE:
        if (op->id <= UM_OP_STD) return part_reduce(op, axis, a);
        return axis != counted(op->attrs.axis.axis, rank);
    case UM_FAMILY_INDEX: return op->in_count == 2 && part_index(op, axis, a);
    case UM_FAMILY_MATMUL: return part_matmul(op, axis, a);
    case UM_FAMILY_NORM: return part_norm(op, axis, a);
    case UM_FAMILY_ATTENTION: return part_attention(op, axis, a);
    case UM_FAMILY_CONV: return part_conv(op, axis, a);
    case UM_FAMILY_POOL: return part_spatial(op, op->attrs.pool.layout, true, axis);
    case UM_FAMILY_RESIZE: return part_spatial(op, op->attrs.resize.layout, true, axis);
    case UM_FAMILY_SORT: return axis != counted(op->attrs.sort.axis, rank);
    case UM_FAMILY_QUANT: return part_quant(op, axis, a);
    case UM_FAMILY_RANDOM: return false; /* numbered through */
    }
    return false;
}

/* A view of one element there, or none, is whole. false: it would begin inside a byte. */
static bool cut(um_view *view, int32_t axis, int64_t size, int64_t begin, int64_t count)
{
    if (axis == WHOLE || um_view_is_none(view)) return true;
    if (view->shape[axis] == 1 && size != 1) return true;
    int64_t bits = begin * view->stride[axis] * um_dtype_bits(view->dtype);
    view->ptr += (um_ptr)(bits / 8);
    view->shape[axis] = count;
    return bits % 8 == 0;
}

bool um_op_part(const um_op *op, int32_t axis, int64_t begin, int64_t count, um_op *part)
{
    axes a;
    int64_t size = op->out[0].shape[axis];
    bool good = find_axes(op, axis, &a);
    memcpy(part, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    for (int32_t i = 0; good && i < op->out_count; i++)
        good = cut(&part->out[i], a.out[i], size, begin, count);
    for (int32_t i = 0; good && i < op->in_count; i++)
        good = cut(&part->in[i], a.in[i], size, begin, count);
    return good;
}
