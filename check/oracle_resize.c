/* check/oracle_resize.c: a tensor at other sizes, each place a weighted sum, and its gradient. The
 * weights are made here from the rule of um_resize_desc, in long double. */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { AXES = 3, TAPS = 4 };

typedef struct resize {
    const um_resize_desc *desc;
    int32_t axes;
    int64_t channels, in[AXES], out[AXES];
    um_dtype work;
} resize;

static resize resize_of(const um_op *op, const um_array *x, const um_array *y)
{
    bool last = op->attrs.resize.layout == UM_CHANNELS_LAST;
    resize r = {.desc = &op->attrs.resize, .axes = x->rank - 2};
    r.channels = x->shape[last ? x->rank - 1 : 1];
    for (int32_t i = 0; i < r.axes; i++) {
        r.in[i] = x->shape[last ? 1 + i : 2 + i];
        r.out[i] = y->shape[last ? 1 + i : 2 + i];
    }
    r.work = um_oracle_worker(x->dtype);
    return r;
}

static long double cubic(long double d)
{
    const long double a = -0.75L;
    d = fabsl(d);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* Along one axis: places of x that place o of y takes from, and weights. */
static int32_t taps_of(const resize *r, int32_t axis, int64_t o, int64_t *place,
                       long double *weight)
{
    int64_t in = r->in[axis], out = r->out[axis], first;
    long double s;
    if (r->desc->mode == UM_RESIZE_NEAREST) {
        place[0] = o * in / out;
        weight[0] = 1;
        return 1;
    }
    if (r->desc->align_corners)
        s = out > 1 ? (long double)(o * (in - 1)) / (out - 1) : 0;
    else
        s = (long double)((2 * o + 1) * in - out) / (2 * out);
    if (r->desc->mode == UM_RESIZE_LINEAR) s = fminl(fmaxl(s, 0), in - 1);
    first = (int64_t)floorl(s);
    int32_t count = 0;
    for (int64_t i = first - 1; i <= first + 2; i++) {
        long double d = s - i;
        weight[count] = r->desc->mode == UM_RESIZE_CUBIC ? cubic(d) : 1 - fminl(fabsl(d), 1);
        if (fabsl(weight[count]) < 1e-15L) continue; /* as good as met exactly */
        place[count++] = i < 0 ? 0 : i >= in ? in - 1 : i;
    }
    return count;
}

/* Element of [plane][places] in an array of either layout. */
static int64_t element(const resize *r, const int64_t *size, int64_t plane, const int64_t *at)
{
    int64_t place = 0, count = 1;
    for (int32_t i = 0; i < r->axes; i++) {
        place = place * size[i] + at[i];
        count *= size[i];
    }
    if (r->desc->layout == UM_CHANNELS_FIRST) return plane * count + place;
    return (plane / r->channels * count + place) * r->channels + plane % r->channels;
}

/* What takes part in the sum of an output element; whole: the values without their weights, which
 * may overflow where the sum does not. */
typedef struct part {
    um_total total;
    long double whole;
    int64_t count;
} part;

/* Each tap of place o of y: into y's sum, or from y into x's sums. */
static void visit(const resize *r, int64_t plane, const int64_t *o, const um_array *in, bool back,
                  part *sums)
{
    int64_t place[AXES][TAPS], at[AXES];
    long double weight[AXES][TAPS];
    int32_t taps[AXES], all = 1;
    for (int32_t i = 0; i < r->axes; i++) all *= taps[i] = taps_of(r, i, o[i], place[i], weight[i]);
    for (int32_t k = 0; k < all; k++) {
        long double w = 1;
        for (int32_t i = r->axes - 1, rest = k; i >= 0; rest /= taps[i], i--) {
            at[i] = place[i][rest % taps[i]];
            w *= weight[i][rest % taps[i]];
        }
        int64_t x = element(r, r->in, plane, at), y = element(r, r->out, plane, o);
        long double value = (long double)in->item[back ? y : x].f;
        part *sum = &sums[back ? x : y];
        um_total_add(&sum->total, w * value);
        sum->whole += fabsl(value);
        sum->count++;
    }
}

static void split(int64_t index, const int64_t *size, int32_t axes, int64_t *at)
{
    for (int32_t i = axes - 1; i >= 0; i--) {
        at[i] = index % size[i];
        index /= size[i];
    }
}

static um_expect expect_part(const resize *r, const part *sum)
{
    /* Weights are rounded, and multiplied, an axis at a time. */
    double magnitude = (double)sum->total.magnitude, eps = um_oracle_eps(r->work);
    um_expect e = um_expect_near(um_total_get(&sum->total), 0);
    e.bound = um_oracle_sum_bound(r->work, sum->count, sum->total.magnitude) +
              16 * eps * magnitude + (double)(sum->count + 1) * 4 * um_oracle_ulp(r->work, 0) +
              UM_ANY_ZERO;
    if (2 * sum->whole > (long double)um_oracle_max(r->work)) e.judge = UM_JUDGE_LOOSE;
    return e;
}

um_status um_oracle_resize(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect)
{
    bool back = op->id == UM_OP_RESIZE_BACKWARD;
    resize r = back ? resize_of(op, out, in) : resize_of(op, in, out);
    int64_t places = 1, at[AXES], planes = (back ? in : out)->shape[0] * r.channels;
    for (int32_t i = 0; i < r.axes; i++) places *= r.out[i];
    part *sums = calloc((size_t)out->count + 1, sizeof *sums);
    if (!sums) return UM_OUT_OF_MEMORY;
    for (int64_t index = 0; index < planes * places; index++) {
        split(index % places, r.out, r.axes, at);
        visit(&r, index / places, at, in, back, sums);
    }
    for (int64_t i = 0; i < out->count; i++) expect[i] = expect_part(&r, &sums[i]);
    free(sums);
    return UM_OK;
}
