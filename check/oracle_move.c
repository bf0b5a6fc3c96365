/* check/oracle_move.c: copies, constants and ranges. Also picks the family of an
 * op. */
#include "check/oracle.h"

#include <math.h>

static um_expect expect_value(um_dtype dtype, um_num value)
{
    return um_oracle_is_float(dtype) ? um_expect_near((long double)value.f, 0)
                                     : um_expect_num(value);
}

static um_expect expect_copy(const um_op *op, um_dtype to, um_dtype from, um_num value)
{
    um_overflow overflow = op->attrs.copy.overflow;
    if (overflow == UM_OVERFLOW_CONVERT || !um_oracle_is_float(to) || to == from)
        return expect_value(to, um_oracle_convert(to, from, value));
    long double real = um_oracle_real(from, value);
    return um_expect_near((long double)um_oracle_round_over(to, real, overflow), 0);
}

static um_expect expect_fill(const um_op *op, um_dtype dtype)
{
    um_num value = {.i = op->attrs.fill.i};
    if (um_oracle_is_float(dtype)) return um_expect_near((long double)op->attrs.fill.f, 0);
    return um_expect_num(um_oracle_convert(dtype, UM_I64, value));
}

/* Floats: two roundings of a double. */
static um_expect expect_arange(const um_op *op, um_dtype dtype, int64_t i)
{
    if (!um_oracle_is_float(dtype))
        return um_expect_num(um_oracle_wrap(dtype, (uint64_t)op->attrs.arange.i_start +
                                                       (uint64_t)i * op->attrs.arange.i_step));
    long double moved = (long double)op->attrs.arange.step * i;
    long double want = (long double)op->attrs.arange.start + moved;
    double bound = um_oracle_ulp(UM_F64, moved) + um_oracle_ulp(UM_F64, want);
    return um_expect_near(want, i == 0 ? 0 : bound);
}

/* As arange, but for the step, which is itself rounded twice, to a subnormal maybe. */
static um_expect expect_linspace(const um_op *op, int64_t i, int64_t n)
{
    long double start = (long double)op->attrs.linspace.start;
    long double stop = (long double)op->attrs.linspace.stop;
    if (i == 0) return um_expect_near(start, UM_ANY_ZERO);
    if (i == n - 1) return um_expect_near(stop, 0);
    long double step = (stop - start) / (n - 1), want = start + step * i;
    double off = 3 * um_oracle_ulp(UM_F64, fmaxl(fabsl(start), fabsl(stop)) / (n - 1)) * (double)i;
    return um_expect_near(want,
                          off + um_oracle_ulp(UM_F64, step * i) + um_oracle_ulp(UM_F64, want));
}

um_status um_oracle_move(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect)
{
    for (int64_t i = 0; i < out->count; i++) {
        if (op->id == UM_OP_FILL)
            expect[i] = expect_fill(op, out->dtype);
        else if (op->id == UM_OP_ARANGE)
            expect[i] = expect_arange(op, out->dtype, i);
        else if (op->id == UM_OP_LINSPACE)
            expect[i] = expect_linspace(op, i, out->count);
        else
            expect[i] = expect_copy(op, out->dtype, in[0].dtype, in[0].item[i]);
    }
    return UM_OK;
}

um_status um_oracle_run(const um_op *op, const um_array *in, const um_array *out,
                        um_expect *const *expect)
{
    if (um_oracle_is_fused(op)) return um_oracle_fused(op, in, out, expect[0]);
    switch (op->id) {
    case UM_OP_COPY:
    case UM_OP_FILL:
    case UM_OP_ARANGE:
    case UM_OP_LINSPACE: return um_oracle_move(op, in, out, expect[0]);
    case UM_OP_CUMSUM:
    case UM_OP_CUMPROD:
    case UM_OP_CUMMAX: return um_oracle_scan(op, in, out, expect[0]);
    case UM_OP_EMBEDDING:
    case UM_OP_GATHER:
    case UM_OP_INDEX_SELECT:
    case UM_OP_GATHER_ND:
    case UM_OP_SCATTER:
    case UM_OP_INDEX_ADD:
    case UM_OP_SCATTER_ND:
    case UM_OP_EMBEDDING_BACKWARD:
    case UM_OP_ONE_HOT:
    case UM_OP_NONZERO: return um_oracle_index(op, in, out, expect);
    case UM_OP_SORT:
    case UM_OP_ARGSORT:
    case UM_OP_TOPK:
    case UM_OP_ARG_TOPK: return um_oracle_sort(op, in, out, expect);
    case UM_OP_RANDOM_UNIFORM:
    case UM_OP_RANDOM_NORMAL:
    case UM_OP_RANDOM_BITS:
    case UM_OP_RANDOM_BERNOULLI:
    case UM_OP_RANDOM_PERMUTATION:
    case UM_OP_DROPOUT: return um_oracle_random(op, in, out, expect);
    case UM_OP_QUANTIZE:
    case UM_OP_DEQUANTIZE: return um_oracle_quant(op, in, out, expect);
    case UM_OP_MATMUL: return um_oracle_matmul(op, in, out, expect[0]);
    case UM_OP_SOFTMAX:
    case UM_OP_LOG_SOFTMAX:
    case UM_OP_RMS_NORM:
    case UM_OP_ROPE: return um_oracle_norm(op, in, out, expect[0]);
    case UM_OP_ATTENTION:
    case UM_OP_ATTENTION_BACKWARD: return um_oracle_attention(op, in, out, expect);
    case UM_OP_SOFTMAX_BACKWARD:
    case UM_OP_LOG_SOFTMAX_BACKWARD:
    case UM_OP_RMS_NORM_BACKWARD:
    case UM_OP_LAYER_NORM:
    case UM_OP_LAYER_NORM_BACKWARD:
    case UM_OP_GROUP_NORM:
    case UM_OP_GROUP_NORM_BACKWARD:
    case UM_OP_BATCH_NORM:
    case UM_OP_BATCH_NORM_BACKWARD: return um_oracle_normalize(op, in, out, expect);
    case UM_OP_CONV:
    case UM_OP_CONV_BACKWARD_DATA:
    case UM_OP_CONV_BACKWARD_FILTER: return um_oracle_conv(op, in, out, expect[0]);
    case UM_OP_RESIZE:
    case UM_OP_RESIZE_BACKWARD: return um_oracle_resize(op, in, out, expect[0]);
    case UM_OP_MAX_POOL:
    case UM_OP_AVG_POOL:
    case UM_OP_MAX_POOL_BACKWARD:
    case UM_OP_AVG_POOL_BACKWARD: return um_oracle_pool(op, in, out, expect);
    default: break;
    }
    bool reduces = op->id >= UM_OP_SUM && op->id <= UM_OP_STD;
    return reduces ? um_oracle_reduce(op, in, out, expect[0])
                   : um_oracle_map(op, in, out, expect[0]);
}
