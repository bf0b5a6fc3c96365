/* tensor/ops.c: elementwise ops, casts, reductions and scans as nodes. */
#include "tensor/tensor.h"

/* ---- elementwise ------------------------------------------------------------------------------
 */

/* The common shape of the inputs by NumPy's rules. */
static um_status broadcast(const char *who, int32_t count, um_tensor *const *x, int32_t *rank,
                           int64_t *shape)
{
    *rank = 0;
    for (int32_t i = 0; i < count; i++) *rank = UM_MAX(*rank, x[i]->rank);
    for (int32_t axis = 0; axis < *rank; axis++) shape[axis] = 1;
    for (int32_t i = 0; i < count; i++) {
        int32_t lead = *rank - x[i]->rank;
        for (int32_t axis = 0; axis < x[i]->rank; axis++) {
            int64_t size = x[i]->shape[axis], *common = &shape[lead + axis];
            if (size == *common || size == 1) continue;
            if (*common == 1) {
                *common = size;
                continue;
            }
            char text[96];
            um_view view;
            um_node_shape_view(x[i], &view);
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "%s: shapes do not broadcast: argument %d is %s, wanted %lld or 1 at "
                           "axis %d, got %lld",
                           who, i, um_view_text(&view, text, sizeof text), (long long)*common, axis,
                           (long long)size);
        }
    }
    return UM_OK;
}

static bool has_shape(const um_tensor *x, int32_t rank, const int64_t *shape)
{
    return x->rank == rank && memcmp(x->shape, shape, (size_t)rank * sizeof *shape) == 0;
}

/* Brings inputs first .. count-1 to one dtype, and all to one shape; x is updated in place. On
 * failure the inputs stay whole. */
static um_status unify(const char *who, int32_t count, um_tensor **x, int32_t first)
{
    um_dtype dtype = x[first]->dtype;
    for (int32_t i = first + 1; i < count; i++) UM_TRY(um_promote(who, dtype, x[i]->dtype, &dtype));
    int32_t rank;
    int64_t shape[UM_MAX_RANK];
    UM_TRY(broadcast(who, count, x, &rank, shape));
    for (int32_t i = 0; i < count; i++) {
        if (i >= first && x[i]->dtype != dtype) x[i] = um_cast(x[i], dtype);
        if (!has_shape(x[i], rank, shape)) x[i] = um_expand(x[i], rank, shape);
    }
    return UM_OK; /* a failed cast or expand is an error tensor and shows in the op */
}

static um_tensor *map(um_op_id op, double a, int32_t count, um_tensor **x)
{
    um_tensor *error = um_node_refuse(um_op_name(op), count, x);
    if (error) return error;
    if (count > 1 && unify(um_op_name(op), count, x, um_op_main_input(op)) != UM_OK)
        return um_node_fail(count, x);
    um_attrs attrs = {.map = {.a = a}};
    return um_node_op(op, &attrs, UM_DTYPE_NONE, count, x);
}

static double default_slope(um_op_id op)
{
    return op == UM_OP_ELU ? 1 : op == UM_OP_LEAKY_RELU ? 0.01 : 0;
}

/* One public function a row of the table: a list of parameters for each arity, the body is map. */
#define PARAMS_1 um_tensor *a
#define PARAMS_2 um_tensor *a, um_tensor *b
#define PARAMS_3 um_tensor *a, um_tensor *b, um_tensor *c
#define ARGS_1   a
#define ARGS_2   a, b
#define ARGS_3   a, b, c
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)                                         \
    um_tensor *um_##name(PARAMS_##arity)                                                           \
    {                                                                                              \
        return map(id, default_slope(id), arity, (um_tensor *[]){ARGS_##arity});                   \
    }
#include <umbel/op.def>

um_tensor *um_elu_with(um_tensor *x, double a) { return map(UM_OP_ELU, a, 1, &x); }
um_tensor *um_leaky_relu_with(um_tensor *x, double a) { return map(UM_OP_LEAKY_RELU, a, 1, &x); }

um_tensor *um_cast(um_tensor *x, um_dtype dtype)
{
    if (x && x->kind != UM_NODE_ERROR && x->dtype == dtype) return x;
    return um_node_op(UM_OP_COPY, NULL, dtype, 1, &x);
}

/* ---- reductions and scans ---------------------------------------------------------------------
 */

static um_tensor *reduce(um_op_id op, um_tensor *x, uint32_t axes, bool keepdims, double correction)
{
    um_attrs attrs = {.reduce = {.axes = axes, .keepdims = keepdims, .correction = correction}};
    return um_node_op(op, &attrs, UM_DTYPE_NONE, 1, &x);
}

static um_tensor *scan(um_op_id op, um_tensor *x, int32_t axis)
{
    um_attrs attrs = {.axis = {.axis = axis}};
    return um_node_op(op, &attrs, UM_DTYPE_NONE, 1, &x);
}

um_tensor *um_sum(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_SUM, x, axes, keepdims, 0);
}
um_tensor *um_mean(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_MEAN, x, axes, keepdims, 0);
}
um_tensor *um_prod(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_PROD, x, axes, keepdims, 0);
}
um_tensor *um_reduce_max(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_REDUCE_MAX, x, axes, keepdims, 0);
}
um_tensor *um_reduce_min(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_REDUCE_MIN, x, axes, keepdims, 0);
}
um_tensor *um_any(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_ANY, x, axes, keepdims, 0);
}
um_tensor *um_all(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_ALL, x, axes, keepdims, 0);
}
um_tensor *um_argmax(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_ARGMAX, x, axes, keepdims, 0);
}
um_tensor *um_argmin(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_ARGMIN, x, axes, keepdims, 0);
}
um_tensor *um_logsumexp(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_LOGSUMEXP, x, axes, keepdims, 0);
}
um_tensor *um_l1(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_L1, x, axes, keepdims, 0);
}
um_tensor *um_l2(um_tensor *x, uint32_t axes, bool keepdims)
{
    return reduce(UM_OP_L2, x, axes, keepdims, 0);
}
um_tensor *um_var(um_tensor *x, uint32_t axes, bool keepdims, double correction)
{
    return reduce(UM_OP_VAR, x, axes, keepdims, correction);
}
um_tensor *um_std(um_tensor *x, uint32_t axes, bool keepdims, double correction)
{
    return reduce(UM_OP_STD, x, axes, keepdims, correction);
}
um_tensor *um_cumsum(um_tensor *x, int32_t axis) { return scan(UM_OP_CUMSUM, x, axis); }
um_tensor *um_cumprod(um_tensor *x, int32_t axis) { return scan(UM_OP_CUMPROD, x, axis); }
um_tensor *um_cummax(um_tensor *x, int32_t axis) { return scan(UM_OP_CUMMAX, x, axis); }
