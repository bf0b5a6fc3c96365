/* check/oracle_norm.c: softmax and its logarithm, RMS norm, rotary embedding. */
#include "check/oracle.h"

#include <math.h>

/* ---- softmax --------------------------------------------------------------------------------- */

/* n values, `step` apart. */
typedef struct row {
    const um_num *x;
    um_expect *expect;
    int64_t n, step;
    um_dtype work;
} row;

/* max(x) with NaN for NaN, and the sum of exp(x - max). */
static void measure(const row *r, long double *top, long double *sum)
{
    um_total total = {0};
    *top = -(long double)INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        long double x = (long double)r->x[i * r->step].f;
        if (isnan(x) || x > *top) *top = x;
        if (isnan(x)) break;
    }
    for (int64_t i = 0; i < r->n; i++)
        um_total_add(&total, expl((long double)r->x[i * r->step].f - *top));
    *sum = um_total_get(&total);
}

/* Relative error of the sum of exponentials: its own, 4 ulp of exp, and the rounding of x - max,
 * which a term's weight keeps below log n. */
static double sum_error(const row *r, long double sum)
{
    return um_oracle_sum_bound(r->work, r->n, 1) + (5 + (double)logl(sum)) * um_oracle_eps(r->work);
}

static um_expect softmax_element(const row *r, long double x, long double top, long double sum)
{
    long double shifted = x - top, want = expl(shifted) / sum;
    double eps = um_oracle_eps(r->work);
    if (!isfinite(shifted) || isnan(want)) return um_expect_near(want, 0);
    double own = (5 + (double)fabsl(shifted)) * eps;
    double bound = (sum_error(r, sum) + own) * (double)want + 2 * um_oracle_ulp(r->work, 0);
    return um_expect_near(want, r->n == 1 ? 0 : bound);
}

static um_expect log_softmax_element(const row *r, long double x, long double top, long double sum)
{
    long double shifted = x - top, log_sum = logl(sum), want = shifted - log_sum;
    if (!isfinite(want) || r->n == 1) return um_expect_near(want, UM_ANY_ZERO);
    double bound = sum_error(r, sum) + 4 * um_oracle_ulp(r->work, log_sum) +
                   um_oracle_ulp(r->work, shifted) + um_oracle_ulp(r->work, want);
    return um_expect_near(want, bound);
}

static void softmax_row(um_op_id op, const row *r)
{
    long double top, sum;
    measure(r, &top, &sum);
    for (int64_t i = 0; i < r->n; i++) {
        long double x = (long double)r->x[i * r->step].f;
        r->expect[i * r->step] = op == UM_OP_SOFTMAX ? softmax_element(r, x, top, sum)
                                                     : log_softmax_element(r, x, top, sum);
    }
}

static void softmax(const um_op *op, const um_array *x, um_expect *expect)
{
    int32_t axis = op->attrs.axis.axis;
    row r = {.step = 1, .work = um_oracle_worker(x->dtype)};
    if (axis < 0) axis += x->rank;
    for (int32_t i = axis + 1; i < x->rank; i++) r.step *= x->shape[i];
    r.n = x->shape[axis];
    for (int64_t start = 0; start < x->count; start++) {
        if (start / r.step % r.n != 0) continue;
        r.x = x->item + start;
        r.expect = expect + start;
        softmax_row(op->id, &r);
    }
}

/* ---- rms_norm -------------------------------------------------------------------------------- */

static void rms_norm(const um_op *op, const um_array *x, const um_array *w, um_expect *expect)
{
    int64_t n = x->shape[x->rank - 1];
    um_dtype work = um_oracle_worker(x->dtype);
    for (int64_t start = 0; start < x->count; start += n) {
        um_total squares = {0};
        for (int64_t i = 0; i < n; i++) {
            long double value = (long double)x->item[start + i].f;
            um_total_add(&squares, value * value);
        }
        long double mean = um_total_get(&squares) / n + (long double)op->attrs.norm.eps;
        double relative = um_oracle_sum_bound(work, n, 1) / 2 + 5 * um_oracle_eps(work);
        for (int64_t i = 0; i < n; i++) {
            long double weight = w ? (long double)w->item[i].f : 1;
            long double scaled = (long double)x->item[start + i].f / sqrtl(mean);
            long double want = scaled * weight;
            double bound = relative * (double)fabsl(want) +
                           (1 + (double)fabsl(weight)) * um_oracle_ulp(work, 0);
            expect[start + i] = um_expect_near(want, bound);
            /* An infinity times a quotient that may have underflowed. */
            if (isinf(weight) && fabsl(scaled) < (long double)um_oracle_ulp(work, 0))
                expect[start + i].judge = UM_JUDGE_LOOSE;
        }
    }
}

/* ---- rope ------------------------------------------------------------------------------------ */

typedef struct turn {
    int64_t size, dims;
    int32_t layout;
    double theta;
    um_dtype work;
} turn;

/* Turns the row x at `position`. A kernel may have the angle to a few units of its own size. */
static void turn_row(const turn *t, const um_num *x, long double position, um_expect *expect)
{
    for (int64_t i = t->dims; i < t->size; i++) expect[i] = um_expect_near((long double)x[i].f, 0);
    for (int64_t pair = 0; pair < t->dims / 2; pair++) {
        bool split = t->layout == UM_ROPE_HALF_SPLIT;
        int64_t first = split ? pair : 2 * pair;
        int64_t second = split ? pair + t->dims / 2 : first + 1;
        long double a = (long double)x[first].f, b = (long double)x[second].f;
        long double angle =
            position * powl((long double)t->theta, -2.0L * pair / (long double)t->dims);
        long double c = cosl(angle), s = sinl(angle);
        double off = um_oracle_eps(t->work) * (4 + 2 * (double)fabsl(angle));
        double bound = (double)(fabsl(a) + fabsl(b)) * off + 2 * um_oracle_ulp(t->work, 0);
        expect[first] = um_expect_near(a * c - b * s, bound);
        expect[second] = um_expect_near(a * s + b * c, bound);
    }
}

static void rope(const um_op *op, const um_array *x, const um_array *ids, um_expect *expect)
{
    turn t = {.size = x->shape[x->rank - 1],
              .dims = op->attrs.rope.dims,
              .layout = op->attrs.rope.layout,
              .theta = op->attrs.rope.theta,
              .work = um_oracle_worker(x->dtype)};
    if (t.dims == 0) t.dims = t.size;
    if (x->count == 0) return;
    for (int64_t i = 0; i < x->count / t.size; i++) {
        int64_t s = i % x->shape[x->rank - 2];
        int64_t position = ids ? ids->item[s].i : op->attrs.rope.offset + s;
        turn_row(&t, x->item + i * t.size, (long double)position, expect + i * t.size);
    }
}

um_status um_oracle_norm(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect)
{
    const um_array *second = op->in_count == 2 ? &in[1] : NULL;
    (void)out;
    if (op->id == UM_OP_RMS_NORM)
        rms_norm(op, &in[0], second, expect);
    else if (op->id == UM_OP_ROPE)
        rope(op, &in[0], second, expect);
    else
        softmax(op, &in[0], expect);
    return UM_OK;
}
