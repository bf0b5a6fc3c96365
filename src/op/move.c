/* op/move.c: ops that only move or make elements: copy, fill, arange, linspace. Slices, transposes
 * and broadcasts are views and need no op. */
#include "op/move.h"

#include "op/rule.h"

#include <float.h>

um_status um_infer_copy(const um_op *op, um_view *out)
{
    um_overflow overflow = op->attrs.copy.overflow;
    if (overflow < UM_OVERFLOW_CONVERT || overflow > UM_OVERFLOW_SPECIAL)
        return um_rule_fail(op, "there is no overflow rule %d", (int)overflow);
    um_rule_like(out, out->dtype, &op->in[0]);
    return UM_OK;
}

static const um_limit limits[] = {
    {UM_F64, UM_OVERFLOW_SATURATE, DBL_MAX},
    {UM_F32, UM_OVERFLOW_SATURATE, (double)FLT_MAX},
    {UM_F16, UM_OVERFLOW_SATURATE, 65504},
    {UM_BF16, UM_OVERFLOW_SATURATE, 0x1.fep127},
    {UM_F8E5M2, UM_OVERFLOW_SATURATE, 57344},
    {UM_F8E4M3FN, UM_OVERFLOW_SPECIAL, 0x1.d000000000001p8},
    {UM_F8E4M3FNUZ, UM_OVERFLOW_SPECIAL, 248},
    {UM_F8E5M2FNUZ, UM_OVERFLOW_SPECIAL, 61440},
};

/* No integer is too large for bf16 and wider. */
const um_limit *um_limit_find(um_overflow rule, um_dtype to, um_dtype from)
{
    bool is_wide = to == UM_F64 || to == UM_F32 || to == UM_BF16;
    if (to == from || (is_wide && !um_dtype_is_float(from))) return NULL;
    for (size_t i = 0; i < UM_COUNT_OF(limits); i++)
        if (limits[i].dtype == to && limits[i].rule == rule) return &limits[i];
    return NULL;
}

/* The output is the caller's. */
um_status um_infer_fill(const um_op *op, um_view *out)
{
    (void)op;
    (void)out;
    return UM_OK;
}

um_status um_infer_arange(const um_op *op, um_view *out)
{
    if (out->rank != 1) return um_rule_fail_view(op, "wants an output of rank 1", "out", out);
    return UM_OK;
}

um_status um_infer_linspace(const um_op *op, um_view *out) { return um_infer_arange(op, out); }

/* ---- samples -------------------------------------------------------------------------------- */

static const um_dims shapes[] = {
    UM_SCALAR,
    UM_DIMS(0),
    UM_DIMS(1),
    UM_DIMS(17),
    UM_DIMS(257),
    UM_DIMS(3, 0, 5),
    UM_DIMS(33, 65),
    UM_DIMS(300, 257),
    UM_DIMS(2, 3, 1, 5, 7),
    UM_DIMS(2, 1, 3, 2, 1, 2, 3, 2),
};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

/* Both rules for what is too large, to every float. */
static bool sample_overflow(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const um_dims dims = UM_DIMS(17, 33);
    um_dtype to = UM_F64 + index / 2;
    if (to > UM_F8E8M0) return false;
    sample->op.attrs.copy.overflow = 1 + index % 2;
    double range = um_dtype_bits(to) > 8 ? 1e39 : 1e5;
    um_sample_input(sample, dtype, &dims, -range, range);
    um_sample_label_input(sample);
    um_sample_label(sample, " to %s overflow=%d", um_dtype_name(to), 1 + index % 2);
    return um_sample_finish(sample, to);
}

/* First the shapes, without conversion; then to every dtype, from around the ends of the formats.
 */
bool um_sample_copy(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const um_dims convert_dims = UM_DIMS(17, 33);
    static const double ranges[] = {1e-39, 1e-6, 8, 300, 1e5, 1e10, 3e19, 1e39};
    const int32_t range_count = (int32_t)UM_COUNT_OF(ranges), to_count = UM_BOOL;
    bool convert = index >= SHAPE_COUNT;
    int32_t number = convert ? index - SHAPE_COUNT : 2;
    um_dtype to = convert ? 1 + number / range_count : dtype;
    if (!um_dtype_valid(to)) return sample_overflow(number - to_count * range_count, dtype, sample);
    double range = ranges[number % range_count];
    um_sample_input(sample, dtype, convert ? &convert_dims : &shapes[index], -range, range);
    um_sample_label_input(sample);
    um_sample_label(sample, " to %s range=%g", um_dtype_name(to), range);
    return um_sample_finish(sample, to);
}

static void set_output(um_sample *sample, const um_dims *dims)
{
    um_view *out = &sample->op.out[0];
    out->rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) out->shape[i] = dims->size[i];
}

bool um_sample_fill(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        double f;
        int64_t i;
    } values[] = {{0, 0},     {1, 1},       {-1.5, -1},         {2.71828, 127},
                  {1e5, 200}, {-0.0, -129}, {1e300, INT64_MAX}, {1e-8, INT64_MIN}};
    int32_t value_count = (int32_t)UM_COUNT_OF(values);
    if (index >= SHAPE_COUNT + value_count) return false;
    int32_t value = index < value_count ? index : 3;
    set_output(sample, index < value_count ? &shapes[3] : &shapes[index - value_count]);
    sample->op.attrs.fill.f = values[value].f;
    sample->op.attrs.fill.i = values[value].i;
    um_sample_label(sample, "rank=%d value=%g or %lld", (int)sample->op.out[0].rank,
                    values[value].f, (long long)values[value].i);
    return um_sample_finish(sample, dtype);
}

bool um_sample_arange(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        um_dims dims;
        double start, step;
        int64_t i_start, i_step;
    } rows[] = {
        {UM_DIMS(0), 0, 1, 0, 1},
        {UM_DIMS(1), 3.5, 1, 3, 1},
        {UM_DIMS(17), -2, 0.25, -8, 2},
        {UM_DIMS(257), 0, 1, 0, 1},
        {UM_DIMS(1000), 5, -0.125, 100, -7},
        {UM_DIMS(20011), 0, 0.1, 1, 3},
        {UM_DIMS(65), 7, 0, 7, 0},
        {UM_DIMS(129), 1e6, 1e3, INT64_MAX - 5, 1},
    };
    if (index >= (int32_t)UM_COUNT_OF(rows)) return false;
    set_output(sample, &rows[index].dims);
    sample->op.attrs.arange.start = rows[index].start;
    sample->op.attrs.arange.step = rows[index].step;
    sample->op.attrs.arange.i_start = rows[index].i_start;
    sample->op.attrs.arange.i_step = rows[index].i_step;
    um_sample_label(sample, "n=%d row=%d", (int)rows[index].dims.size[0], (int)index);
    return um_sample_finish(sample, dtype);
}

bool um_sample_linspace(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        um_dims dims;
        double start, stop;
    } rows[] = {
        {UM_DIMS(0), 0, 1},      {UM_DIMS(1), 3.5, -1},        {UM_DIMS(2), -0.0, 7},
        {UM_DIMS(17), -2, 0.1},  {UM_DIMS(257), 1000, -0.7},   {UM_DIMS(20011), 0, 1},
        {UM_DIMS(65), 3.3, 3.3}, {UM_DIMS(33), -1e308, 1e308}, {UM_DIMS(129), 0, 1e-320},
    };
    if (index >= (int32_t)UM_COUNT_OF(rows)) return false;
    set_output(sample, &rows[index].dims);
    sample->op.attrs.linspace.start = rows[index].start;
    sample->op.attrs.linspace.stop = rows[index].stop;
    um_sample_label(sample, "n=%d from=%g to=%g", (int)rows[index].dims.size[0], rows[index].start,
                    rows[index].stop);
    return um_sample_finish(sample, dtype);
}
