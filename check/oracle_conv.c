/* check/oracle_conv.c: convolution and its gradients, every output element a sum of its own.
 *
 * Three tensors belong together: the wide one [N,C,...], the filter [K,C/G,...] and the narrow one
 * [N,K,...]; wide position i, tap t and narrow position o meet where i = o * stride - pad + t *
 * dilation. What lies in the padding is no addend; a kernel that multiplies it as a zero may make
 * NaN of it where the other factor is not finite. */
#include "check/oracle.h"

#include <math.h>

enum { AXES = 3 };

typedef struct side {
    const um_array *array;
    int64_t batch, channel, place[AXES]; /* steps in elements */
} side;

typedef struct conv {
    side wide, filter, narrow; /* filter: batch is K's step, channel C's */
    int32_t axes;
    int64_t groups, c, k, n; /* c and k: of a group */
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], pad[AXES];
    int64_t in_count, out_count, tap_count;
    um_dtype work;
} conv;

/* What one output element adds up. */
typedef struct dot {
    um_total total;
    int64_t count;
    bool padded; /* a factor that is not finite met padding */
} dot;

static side side_of(const um_array *array, int32_t axes, bool last)
{
    int64_t step[UM_MAX_RANK], all = 1;
    for (int32_t i = array->rank - 1; i >= 0; i--) {
        step[i] = all;
        all *= array->shape[i];
    }
    side s = {array, step[0], step[last ? axes + 1 : 1], {0}};
    for (int32_t i = 0; i < axes; i++) s.place[i] = step[last ? 1 + i : 2 + i];
    return s;
}

static conv conv_of(const um_op *op, const um_array *wide, const um_array *filter,
                    const um_array *narrow)
{
    const um_conv_desc *d = &op->attrs.conv;
    bool last = d->layout == UM_CHANNELS_LAST;
    conv v = {.axes = wide->rank - 2, .groups = d->groups, .n = wide->shape[0]};
    v.wide = side_of(wide, v.axes, last);
    v.filter = side_of(filter, v.axes, false);
    v.narrow = side_of(narrow, v.axes, last);
    v.c = filter->shape[1];
    v.k = filter->shape[0] / d->groups;
    v.in_count = v.out_count = v.tap_count = 1;
    for (int32_t i = 0; i < v.axes; i++) {
        v.in_count *= v.in[i] = wide->shape[last ? 1 + i : 2 + i];
        v.out_count *= v.out[i] = narrow->shape[last ? 1 + i : 2 + i];
        v.tap_count *= v.kernel[i] = filter->shape[2 + i];
        v.stride[i] = d->stride[i];
        v.dilation[i] = d->dilation[i];
        v.pad[i] = d->pad_before[i];
    }
    v.work = um_oracle_worker(wide->dtype);
    return v;
}

static void split(int64_t index, const int64_t *size, int32_t axes, int64_t *at)
{
    for (int32_t i = axes - 1; i >= 0; i--) {
        at[i] = index % size[i];
        index /= size[i];
    }
}

static int64_t place(const side *s, const int64_t *at, int32_t axes)
{
    int64_t element = 0;
    for (int32_t i = 0; i < axes; i++) element += at[i] * s->place[i];
    return element;
}

/* How a tap meets a position of one side: does it, and where on the other. */
typedef enum meeting { APART, IN_PADDING, INSIDE } meeting;

static meeting meet_wide(const conv *v, const int64_t *o, const int64_t *t, int64_t *i)
{
    meeting result = INSIDE;
    for (int32_t a = 0; a < v->axes; a++) {
        i[a] = o[a] * v->stride[a] - v->pad[a] + t[a] * v->dilation[a];
        if (i[a] < 0 || i[a] >= v->in[a]) result = IN_PADDING;
    }
    return result;
}

static meeting meet_narrow(const conv *v, const int64_t *i, const int64_t *t, int64_t *o)
{
    meeting result = INSIDE;
    for (int32_t a = 0; a < v->axes; a++) {
        int64_t steps = i[a] + v->pad[a] - t[a] * v->dilation[a];
        if (steps % v->stride[a] != 0) return APART;
        o[a] = steps / v->stride[a];
        if (o[a] < 0 || o[a] >= v->out[a]) result = IN_PADDING;
    }
    return result;
}

static void add(dot *d, meeting how, const side *at, int64_t element, const side *other,
                int64_t other_element)
{
    long double factor = (long double)at->array->item[element].f;
    if (how == IN_PADDING && !isfinite(factor)) d->padded = true;
    if (how != INSIDE) return;
    d->count++;
    um_total_add(&d->total, factor * (long double)other->array->item[other_element].f);
}

static dot narrow_element(const conv *v, int64_t n, int64_t k, const int64_t *o)
{
    dot d = {.count = 0};
    int64_t t[AXES], i[AXES];
    for (int64_t tap = 0; tap < v->tap_count; tap++) {
        split(tap, v->kernel, v->axes, t);
        meeting how = meet_wide(v, o, t, i);
        for (int64_t c = 0; c < v->c; c++)
            add(&d, how, &v->filter,
                k * v->filter.batch + c * v->filter.channel + place(&v->filter, t, v->axes),
                &v->wide,
                n * v->wide.batch + (k / v->k * v->c + c) * v->wide.channel +
                    place(&v->wide, i, v->axes));
    }
    return d;
}

static dot wide_element(const conv *v, int64_t n, int64_t channel, const int64_t *i)
{
    dot d = {.count = 0};
    int64_t t[AXES], o[AXES], group = channel / v->c;
    for (int64_t tap = 0; tap < v->tap_count; tap++) {
        split(tap, v->kernel, v->axes, t);
        meeting how = meet_narrow(v, i, t, o);
        for (int64_t k = group * v->k; how != APART && k < (group + 1) * v->k; k++)
            add(&d, how, &v->filter,
                k * v->filter.batch + channel % v->c * v->filter.channel +
                    place(&v->filter, t, v->axes),
                &v->narrow,
                n * v->narrow.batch + k * v->narrow.channel + place(&v->narrow, o, v->axes));
    }
    return d;
}

static dot filter_element(const conv *v, int64_t k, int64_t c, const int64_t *t)
{
    dot d = {.count = 0};
    int64_t o[AXES], i[AXES];
    for (int64_t position = 0; position < v->out_count; position++) {
        split(position, v->out, v->axes, o);
        meeting how = meet_wide(v, o, t, i);
        for (int64_t n = 0; n < v->n; n++)
            add(&d, how, &v->narrow,
                n * v->narrow.batch + k * v->narrow.channel + place(&v->narrow, o, v->axes),
                &v->wide,
                n * v->wide.batch + (k / v->k * v->c + c) * v->wide.channel +
                    place(&v->wide, i, v->axes));
    }
    return d;
}

/* The bound of a dot product: its sum's, half a unit for each product, what underflows, and the
 * addition of the bias. */
static um_expect expect_dot(const conv *v, const dot *d, const um_num *bias)
{
    double magnitude = (double)d->total.magnitude;
    um_expect expect = um_expect_near(um_total_get(&d->total), 0);
    expect.bound = um_oracle_sum_bound(v->work, d->count, d->total.magnitude) +
                   um_oracle_eps(v->work) * magnitude +
                   (double)d->count * um_oracle_ulp(v->work, 0) + UM_ANY_ZERO;
    if (bias) {
        magnitude += fabs(bias->f);
        if (d->count) expect.bound += um_oracle_eps(v->work) * fabs(bias->f);
        expect.want += (long double)bias->f;
        if (d->count && isfinite(expect.want)) expect.bound += um_oracle_ulp(v->work, expect.want);
    }
    if (um_oracle_sum_overflows(v->work, d->count + 1, (long double)magnitude) || d->padded)
        expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

um_status um_oracle_conv(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect)
{
    bool turned = op->attrs.conv.transposed, to_filter = op->id == UM_OP_CONV_BACKWARD_FILTER;
    bool to_wide = op->id == UM_OP_CONV ? turned : !turned;
    const um_array *other = to_filter ? &in[1] : out;
    conv v = to_filter ? conv_of(op, turned ? other : &in[0], out, turned ? &in[0] : other)
                       : conv_of(op, to_wide ? other : &in[0], &in[1], to_wide ? &in[0] : other);
    const side *s = to_filter ? &v.filter : to_wide ? &v.wide : &v.narrow;
    const int64_t *size = to_filter ? v.kernel : to_wide ? v.in : v.out;
    int64_t places = to_filter ? v.tap_count : to_wide ? v.in_count : v.out_count;
    int64_t channels = to_filter ? v.c : v.groups * (to_wide ? v.c : v.k);
    for (int64_t index = 0; index < out->count; index++) {
        int64_t at[AXES], channel = index / places % channels, batch = index / places / channels;
        split(index % places, size, v.axes, at);
        dot d = to_filter ? filter_element(&v, batch, channel, at)
                : to_wide ? wide_element(&v, batch, channel, at)
                          : narrow_element(&v, batch, channel, at);
        int64_t element = batch * s->batch + channel * s->channel + place(s, at, v.axes);
        expect[element] = expect_dot(&v, &d, op->in_count == 3 ? &in[2].item[channel] : NULL);
    }
    return UM_OK;
}
