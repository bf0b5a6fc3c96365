/* compute/random.c: um_random_view and um_dropout_view of umbel/compute.h. The rules are in
 * op/random.c. */
#include "compute/compute.h"

static um_op_id op_of(um_random_kind kind)
{
    static const um_op_id ops[] = {
        [UM_RANDOM_UNIFORM] = UM_OP_RANDOM_UNIFORM,
        [UM_RANDOM_NORMAL] = UM_OP_RANDOM_NORMAL,
        [UM_RANDOM_BERNOULLI] = UM_OP_RANDOM_BERNOULLI,
        [UM_RANDOM_BITS] = UM_OP_RANDOM_BITS,
        [UM_RANDOM_PERMUTATION] = UM_OP_RANDOM_PERMUTATION,
    };
    return kind >= 0 && kind < (int32_t)UM_COUNT_OF(ops) ? ops[kind] : UM_OP_NONE;
}

um_status um_random_view(um_stream *stream, const um_random_desc *desc, const um_view *y)
{
    if (!desc) return UM_FAIL(UM_INVALID_ARGUMENT, "random: desc is NULL");
    um_call call = um_call_begin(op_of(desc->kind));
    if (call.op.id == UM_OP_NONE)
        return UM_FAIL(UM_INVALID_ARGUMENT, "random: there is no kind %d", (int)desc->kind);
    um_call_output(&call, "y", y);
    call.op.attrs.random.seed = desc->seed;
    call.op.attrs.random.offset = desc->offset;
    call.op.attrs.random.a = desc->a;
    call.op.attrs.random.b = desc->b;
    bool is_uniform = desc->kind == UM_RANDOM_UNIFORM, is_normal = desc->kind == UM_RANDOM_NORMAL;
    if ((is_uniform && desc->a == 0 && desc->b == 0) || (is_normal && desc->b == 0))
        call.op.attrs.random.b = 1;
    return um_call_run(&call, stream);
}

um_status um_dropout_view(um_stream *stream, uint64_t seed, uint64_t offset, double p,
                          const um_view *x, const um_view *y, const um_view *mask)
{
    um_call call = um_call_begin(UM_OP_DROPOUT);
    um_call_input(&call, "x", x);
    um_call_output(&call, "y", y);
    if (mask) um_call_output(&call, "mask", mask);
    call.op.attrs.random.seed = seed;
    call.op.attrs.random.offset = offset;
    call.op.attrs.random.a = p;
    return um_call_run(&call, stream);
}
