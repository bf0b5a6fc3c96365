/* check/oracle_pool.c: pooling and its gradients, window by window, place by place. */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { AXES = 3 };

/* A tensor [N,C,...] of either layout as [planes][places]. */
typedef struct side {
    const um_array *array;
    int64_t size[AXES], step[AXES]; /* the last `axes` of them */
    int64_t batch, channel;         /* steps */
    int64_t count;                  /* places */
} side;

typedef struct pool {
    const um_pool_desc *desc;
    side wide, narrow;
    int32_t axes;
    int64_t planes, channels;
    um_dtype work;
} pool;

static side side_of(const um_array *array, bool last)
{
    int64_t step[UM_MAX_RANK], all = 1;
    int32_t axes = array->rank - 2;
    for (int32_t i = array->rank - 1; i >= 0; i--) {
        step[i] = all;
        all *= array->shape[i];
    }
    side s = {.array = array, .batch = step[0], .channel = step[last ? axes + 1 : 1], .count = 1};
    for (int32_t i = 0; i < axes; i++) {
        s.size[i] = array->shape[last ? 1 + i : 2 + i];
        s.step[i] = step[last ? 1 + i : 2 + i];
        s.count *= s.size[i];
    }
    return s;
}

static pool pool_of(const um_op *op, const um_array *wide, const um_array *narrow)
{
    bool last = op->attrs.pool.layout == UM_CHANNELS_LAST;
    pool p = {.desc = &op->attrs.pool, .axes = wide->rank - 2};
    p.wide = side_of(wide, last);
    p.narrow = side_of(narrow, last);
    p.channels = wide->shape[last ? wide->rank - 1 : 1];
    p.planes = wide->shape[0] * p.channels;
    if (um_oracle_is_float(wide->dtype)) p.work = um_oracle_worker(wide->dtype);
    return p;
}

static int64_t element(const pool *p, const side *s, int64_t plane, int64_t place)
{
    int64_t at = plane / p->channels * s->batch + plane % p->channels * s->channel;
    for (int32_t i = p->axes - 1; i >= 0; i--) {
        at += place % s->size[i] * s->step[i];
        place /= s->size[i];
    }
    return at;
}

/* Along one axis: whether window o holds place i of x; i may be in the padding. */
static bool holds(const pool *p, int32_t axis, int64_t o, int64_t i)
{
    const um_pool_desc *d = p->desc;
    int64_t in = p->wide.size[axis], out = p->narrow.size[axis];
    if (d->adaptive) return i * out >= o * in - (o * in % out) && i * out < (o + 1) * in;
    int64_t from = i + d->pad_before[axis] - o * d->stride[axis];
    return from >= 0 && from % d->dilation[axis] == 0 && from / d->dilation[axis] < d->kernel[axis];
}

/* Whether window `o` (a place of y) holds `place` of x. */
static bool window_holds(const pool *p, int64_t o, int64_t place)
{
    for (int32_t i = p->axes - 1; i >= 0; i--) {
        if (!holds(p, i, o % p->narrow.size[i], place % p->wide.size[i])) return false;
        o /= p->narrow.size[i];
        place /= p->wide.size[i];
    }
    return true;
}

/* What the average over window o divides by. */
static int64_t divisor(const pool *p, int64_t o)
{
    int64_t count = 1;
    for (int32_t axis = p->axes - 1; axis >= 0; axis--) {
        int64_t before = p->desc->adaptive ? 0 : p->desc->pad_before[axis];
        int64_t after = p->desc->adaptive ? 0 : p->desc->pad_after[axis], here = 0;
        if (!p->desc->count_include_pad) before = after = 0;
        for (int64_t i = -before; i < p->wide.size[axis] + after; i++)
            here += holds(p, axis, o % p->narrow.size[axis], i);
        count *= here;
        o /= p->narrow.size[axis];
    }
    return count;
}

static um_expect expect_value(um_dtype dtype, um_num value)
{
    return um_oracle_is_float(dtype) ? um_expect_near((long double)value.f, UM_ANY_ZERO)
                                     : um_expect_num(value);
}

static void largest(const pool *p, int64_t plane, int64_t o, um_expect *value, um_expect *place)
{
    um_dtype dtype = p->wide.array->dtype;
    int64_t best = -1;
    um_num held = {.f = -(double)INFINITY};
    if (!um_oracle_is_float(dtype)) held = um_oracle_lowest(dtype);
    for (int64_t i = 0; i < p->wide.count; i++) {
        if (!window_holds(p, o, i)) continue;
        um_num x = p->wide.array->item[element(p, &p->wide, plane, i)];
        long double new = um_oracle_real(dtype, x), old = um_oracle_real(dtype, held);
        if (best >= 0 && (isnan(old) || !(new > old || isnan(new)))) continue;
        best = i;
        held = x;
    }
    int64_t at = element(p, &p->narrow, plane, o);
    value[at] = expect_value(dtype, held);
    if (place) place[at] = um_expect_num((um_num){.i = best});
}

static um_expect expect_sum(const pool *p, const um_total *total, int64_t n, int64_t by)
{
    double magnitude = (double)total->magnitude, eps = um_oracle_eps(p->work);
    um_expect e = um_expect_near(um_total_get(total) / by, 0);
    e.bound = (um_oracle_sum_bound(p->work, n, total->magnitude) + eps * magnitude) / (double)by +
              (double)(n + 1) * um_oracle_ulp(p->work, 0) + UM_ANY_ZERO;
    if (um_oracle_sum_overflows(p->work, n, total->magnitude)) e.judge = UM_JUDGE_LOOSE;
    return e;
}

static um_expect mean(const pool *p, int64_t plane, int64_t o)
{
    um_total total = {0};
    int64_t n = 0, by = divisor(p, o);
    for (int64_t i = 0; i < p->wide.count; i++) {
        if (!window_holds(p, o, i)) continue;
        um_total_add(&total, (long double)p->wide.array->item[element(p, &p->wide, plane, i)].f);
        n++;
    }
    return by == 0 ? um_expect_near(0, UM_ANY_ZERO) : expect_sum(p, &total, n, by);
}

/* places: NULL for the mean's gradient. */
static um_expect given(const pool *p, const um_array *places, int64_t plane, int64_t i)
{
    um_total total = {0};
    int64_t n = 0;
    for (int64_t o = 0; o < p->narrow.count; o++) {
        int64_t at = element(p, &p->narrow, plane, o);
        if (places ? places->item[at].i != i : !window_holds(p, o, i)) continue;
        um_total_add(&total, (long double)p->narrow.array->item[at].f /
                                 (places ? 1 : (long double)divisor(p, o)));
        n++;
    }
    return expect_sum(p, &total, n, 1);
}

um_status um_oracle_pool(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *const *expect)
{
    bool forward = op->id == UM_OP_MAX_POOL || op->id == UM_OP_AVG_POOL;
    pool p = forward ? pool_of(op, &in[0], &out[0]) : pool_of(op, &out[0], &in[0]);
    const side *made = forward ? &p.narrow : &p.wide;
    for (int64_t plane = 0; plane < p.planes; plane++)
        for (int64_t i = 0; i < made->count; i++) {
            um_expect *value = &expect[0][element(&p, made, plane, i)];
            if (op->id == UM_OP_MAX_POOL)
                largest(&p, plane, i, expect[0], op->out_count > 1 ? expect[1] : NULL);
            else if (op->id == UM_OP_AVG_POOL)
                *value = mean(&p, plane, i);
            else
                *value = given(&p, op->in_count > 1 ? &in[1] : NULL, plane, i);
        }
    return UM_OK;
}
