/* op/random.c: random numbers and dropout. All draw from one stream of 32-bit words per seed:
 * word j is word j mod 4 of Philox 4x32-10 with the key `seed` and the counter offset + j / 4, in
 * the low two words of the counter. */
#include "op/rule.h"

#include <math.h>

/* The output is the caller's. */
um_status um_infer_random(const um_op *op, um_view *out)
{
    (void)out;
    if (isfinite(op->attrs.random.a) && isfinite(op->attrs.random.b)) return UM_OK;
    return um_rule_fail(op, "a and b must be finite, got %g and %g", op->attrs.random.a,
                        op->attrs.random.b);
}

static um_status check_probability(const um_op *op)
{
    double p = op->attrs.random.a;
    if (p >= 0 && p <= 1) return UM_OK;
    return um_rule_fail(op, "the probability must be 0 to 1, got %g", p);
}

um_status um_infer_bernoulli(const um_op *op, um_view *out)
{
    (void)out;
    return check_probability(op);
}

um_status um_infer_permutation(const um_op *op, um_view *out)
{
    if (out->rank != 1) return um_rule_fail_view(op, "wants an output of rank 1", "out", out);
    if (out->dtype == UM_I32 && out->shape[0] > (int64_t)INT32_MAX + 1)
        return um_rule_fail_view(op, "more numbers than the dtype holds", "out", out);
    return UM_OK;
}

um_status um_infer_dropout(const um_op *op, um_view *out)
{
    UM_TRY(check_probability(op));
    um_rule_like(&out[0], op->in[0].dtype, &op->in[0]);
    if (op->out_count > 1) um_rule_like(&out[1], UM_BOOL, &op->in[0]);
    return UM_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const um_dims shapes[] = {UM_SCALAR,       UM_DIMS(1),    UM_DIMS(0),
                                 UM_DIMS(17),     UM_DIMS(5, 7), UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2),
                                 UM_DIMS(3, 259), UM_DIMS(5000)};

static void draw_from(um_sample *sample, int32_t index)
{
    static const uint64_t seeds[] = {0, 42, UINT64_MAX, 0x123456789abcdef0};
    static const uint64_t offsets[] = {0, 7, UINT64_MAX - 1, 0xfffffffe};
    sample->op.attrs.random.seed = seeds[index % 4];
    sample->op.attrs.random.offset = offsets[index / 2 % 4];
    um_sample_label(sample, "row=%d ", (int)index);
}

static void set_output(um_sample *sample, const um_dims *dims)
{
    um_view *out = &sample->op.out[0];
    out->rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) out->shape[i] = dims->size[i];
}

bool um_sample_random(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const double from[] = {0, -3, 100, 0}, to[] = {1, 5, 0.5, 1e-3};
    if (index >= 2 * (int32_t)UM_COUNT_OF(shapes)) return false;
    set_output(sample, &shapes[index / 2]);
    draw_from(sample, index);
    sample->op.attrs.random.a = from[index % 4];
    sample->op.attrs.random.b = to[index % 4];
    um_sample_label(sample, "a=%g b=%g", from[index % 4], to[index % 4]);
    return um_sample_finish(sample, dtype);
}

bool um_sample_bernoulli(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const double p[] = {0.5, 0.1, 1, 0};
    if (index >= (int32_t)UM_COUNT_OF(shapes)) return false;
    set_output(sample, &shapes[index]);
    draw_from(sample, index);
    sample->op.attrs.random.a = p[index % 4];
    um_sample_label(sample, "p=%g", p[index % 4]);
    return um_sample_finish(sample, dtype);
}

bool um_sample_permutation(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const um_dims counts[] = {UM_DIMS(0), UM_DIMS(1), UM_DIMS(2), UM_DIMS(40),
                                     UM_DIMS(3000)};
    if (index >= (int32_t)UM_COUNT_OF(counts)) return false;
    set_output(sample, &counts[index]);
    draw_from(sample, index);
    return um_sample_finish(sample, dtype);
}

bool um_sample_dropout(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const double p[] = {0.5, 0.1, 1, 0};
    if (index >= (int32_t)UM_COUNT_OF(shapes)) return false;
    um_sample_input(sample, dtype, &shapes[index], -4, 4);
    draw_from(sample, index);
    sample->op.attrs.random.a = p[index % 4];
    um_sample_label(sample, "p=%g", p[index % 4]);
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
