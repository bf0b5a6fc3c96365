/* check/oracle_reduce.c: reductions over axes, and running sums, products and maxima. Every output
 * element is computed on its own from the list of values it depends on.
 */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

/* ---- sums ------------------------------------------------------------------------------------ */

void um_total_add(um_total *total, long double value)
{
    if (!isfinite(value) || !isfinite(total->sum)) {
        total->sum += value;
        total->carry = 0;
        if (isfinite(value)) total->magnitude += fabsl(value);
        return;
    }
    /* Neumaier's compensated sum. */
    long double sum = total->sum + value;
    total->carry +=
        fabsl(total->sum) >= fabsl(value) ? (total->sum - sum) + value : (value - sum) + total->sum;
    total->sum = sum;
    total->magnitude += fabsl(value);
}

long double um_total_get(const um_total *total) { return total->sum + total->carry; }

double um_oracle_sum_bound(um_dtype work, int64_t n, long double magnitude)
{
    if (n < 2) return 0;
    return 8 * log2((double)n) * um_oracle_eps(work) * (double)magnitude;
}

bool um_oracle_sum_overflows(um_dtype work, int64_t n, long double magnitude)
{
    long double rounding = n < 2 ? 0 : (long double)n * (long double)um_oracle_eps(work);
    return magnitude * (1 + rounding) > (long double)um_oracle_max(work);
}

/* A sum as an expectation. */
static um_expect expect_sum(const um_total *total, um_dtype work, int64_t n)
{
    um_expect expect = um_expect_near(um_total_get(total),
                                      um_oracle_sum_bound(work, n, total->magnitude) + UM_ANY_ZERO);
    if (um_oracle_sum_overflows(work, n, total->magnitude)) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

/* ---- one list of floats ---------------------------------------------------------------------- */

/* The values that one output element depends on. */
typedef struct list {
    um_dtype dtype, work;
    int64_t n;
    const um_num *item;
    double correction;
} list;

static um_expect sum_of(const list *x, bool absolute)
{
    um_total total = {0};
    for (int64_t i = 0; i < x->n; i++)
        um_total_add(&total, (long double)(absolute ? fabs(x->item[i].f) : x->item[i].f));
    return expect_sum(&total, x->work, x->n);
}

static um_expect mean_of(const list *x)
{
    um_expect expect = sum_of(x, false);
    if (x->n == 0) return um_expect_near((long double)NAN, 0);
    expect.want /= x->n;
    expect.bound = expect.bound / (double)x->n + um_oracle_ulp(x->work, expect.want);
    return expect;
}

/* A product as it grows: growth and shrinkage are the products of the sizes above and below 1. */
typedef struct factors {
    long double product, growth, shrinkage;
    int64_t n;
} factors;

static void multiply(factors *f, double value)
{
    long double size = (long double)fabs(value);
    f->n++;
    f->product *= (long double)value;
    if (size > 1 && isfinite(size)) f->growth *= size;
    if (size < 1 && size > 0) f->shrinkage *= size;
}

/* n - 1 roundings of half a unit; what underflows on the way may be multiplied up again. Where a
 * partial product may overflow, or underflow and meet an infinity, the order decides. */
static um_expect expect_product(const factors *f, um_dtype work)
{
    double bound = UM_ANY_ZERO, tiny = um_oracle_ulp(work, 0);
    if (f->n > 1 && isfinite(f->product))
        bound += (double)f->n *
                 (um_oracle_eps(work) * (double)fabsl(f->product) + tiny * (double)f->growth);
    um_expect expect = um_expect_near(f->product, bound);
    bool vanishes = f->shrinkage < (long double)tiny && !isfinite(f->product);
    if (f->growth > (long double)um_oracle_max(work) || vanishes) expect.judge = UM_JUDGE_ANY;
    return expect;
}

static um_expect product_of(const list *x)
{
    factors f = {1, 1, 1, 0};
    for (int64_t i = 0; i < x->n; i++) multiply(&f, x->item[i].f);
    return expect_product(&f, x->work);
}

static double largest_of(const list *x, double sign)
{
    double best = -sign * (double)INFINITY;
    for (int64_t i = 0; i < x->n; i++) {
        double value = x->item[i].f;
        if (isnan(value)) return value;
        bool more = sign * value > sign * best;
        if (more || (value == best && signbit(best) != signbit(value) &&
                     (signbit(value) != 0) == (sign < 0)))
            best = value;
    }
    return best;
}

static um_expect logsumexp_of(const list *x)
{
    long double top = (long double)largest_of(x, 1);
    if (!isfinite(top)) return um_expect_near(top, 0);
    um_total total = {0};
    for (int64_t i = 0; i < x->n; i++) um_total_add(&total, expl((long double)x->item[i].f - top));
    long double log_sum = logl(um_total_get(&total)), want = top + log_sum;
    double eps = um_oracle_eps(x->work);
    /* The sum's relative error (its terms': 4 ulp of exp and the rounding of x - top, which weighs
     * log n at most), then log's 4 ulp, then the last addition. */
    double bound = um_oracle_sum_bound(x->work, x->n, 1) + (5 + (double)log_sum) * eps +
                   4 * um_oracle_ulp(x->work, log_sum) + um_oracle_ulp(x->work, want);
    return um_expect_near(want, x->n == 1 ? 0 : bound);
}

static um_expect l2_of(const list *x)
{
    um_total total = {0};
    for (int64_t i = 0; i < x->n; i++)
        um_total_add(&total, (long double)x->item[i].f * (long double)x->item[i].f);
    long double want = sqrtl(um_total_get(&total));
    if (!isfinite(want) || want == 0) return um_expect_near(want, 0);
    double relative = um_oracle_sum_bound(x->work, x->n, 1) / 2 + 3 * um_oracle_eps(x->work);
    return um_expect_near(want, relative * (double)want + um_oracle_ulp(x->work, 0));
}

/* Two passes; *overflows when a partial result may leave the dtype. */
static um_expect variance_of(const list *x, bool *overflows)
{
    um_total total = {0}, squares = {0};
    if (x->n == 0) return um_expect_near((long double)NAN, 0); /* like the mean */
    for (int64_t i = 0; i < x->n; i++) um_total_add(&total, (long double)x->item[i].f);
    long double mean = um_total_get(&total) / x->n;
    for (int64_t i = 0; i < x->n; i++) {
        long double off = (long double)x->item[i].f - mean;
        um_total_add(&squares, off * off);
    }
    long double divisor = (long double)x->n - (long double)x->correction;
    long double sum = um_total_get(&squares), want = sum / divisor;
    double eps = um_oracle_eps(x->work);
    /* A mean that is off by d adds n d^2 to the sum. */
    double d = um_oracle_sum_bound(x->work, x->n, total.magnitude) / (double)x->n +
               um_oracle_ulp(x->work, mean);
    double relative = um_oracle_sum_bound(x->work, x->n, 1) + 6 * eps;
    double bound = (relative * (double)sum + (double)x->n * d * d) / fabs((double)divisor) +
                   um_oracle_ulp(x->work, 0);
    long double max = (long double)um_oracle_max(x->work);
    *overflows = total.magnitude > max || sum > max;
    if (x->n == 1) bound = 0; /* the mean is x itself */
    return um_expect_near(want, isfinite(want) && divisor != 0 ? bound + UM_ANY_ZERO : 0);
}

static um_expect var_of(const list *x, bool root)
{
    bool overflows = false;
    um_expect expect = variance_of(x, &overflows);
    if (root) {
        long double low = expect.want - (long double)expect.bound;
        long double high = sqrtl(expect.want + (long double)expect.bound);
        expect.want = sqrtl(expect.want);
        low = sqrtl(low > 0 ? low : 0);
        if (expect.bound > 0)
            expect.bound = (double)fmaxl(high - expect.want, expect.want - low) +
                           2 * um_oracle_ulp(x->work, expect.want);
    }
    if (overflows) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static um_expect reduce_float(um_op_id op, const list *x)
{
    switch (op) {
    case UM_OP_SUM: return sum_of(x, false);
    case UM_OP_MEAN: return mean_of(x);
    case UM_OP_PROD: return product_of(x);
    case UM_OP_REDUCE_MAX: return um_expect_near((long double)largest_of(x, 1), 0);
    case UM_OP_REDUCE_MIN: return um_expect_near((long double)largest_of(x, -1), 0);
    case UM_OP_LOGSUMEXP: return logsumexp_of(x);
    case UM_OP_L1: return sum_of(x, true);
    case UM_OP_L2: return l2_of(x);
    default: return var_of(x, op == UM_OP_STD);
    }
}

/* ---- one list of integers, and what needs no arithmetic -------------------------------------- */

static um_expect reduce_int(um_op_id op, const list *x)
{
    um_num one[2];
    um_op_id step = op == UM_OP_PROD         ? UM_OP_MUL
                    : op == UM_OP_REDUCE_MAX ? UM_OP_MAX
                    : op == UM_OP_REDUCE_MIN ? UM_OP_MIN
                                             : UM_OP_ADD;
    um_num result = op == UM_OP_REDUCE_MAX   ? um_oracle_lowest(x->dtype)
                    : op == UM_OP_REDUCE_MIN ? um_oracle_highest(x->dtype)
                                             : (um_num){.i = op == UM_OP_PROD};
    for (int64_t i = 0; i < x->n; i++) {
        one[0] = result;
        one[1] = op == UM_OP_L1 ? um_oracle_map_int(UM_OP_ABS, x->dtype, &x->item[i]) : x->item[i];
        result = um_oracle_map_int(step, x->dtype, one);
    }
    return um_expect_num(result);
}

static um_expect reduce_test(um_op_id op, const list *x)
{
    bool all = op == UM_OP_ALL, result = all;
    for (int64_t i = 0; i < x->n; i++) {
        bool set = um_oracle_real(x->dtype, x->item[i]) != 0;
        result = all ? result && set : result || set;
    }
    return um_expect_num((um_num){.i = result});
}

static um_expect reduce_index(um_op_id op, const list *x)
{
    int64_t best = 0;
    for (int64_t i = 0; i < x->n; i++) {
        long double value = um_oracle_real(x->dtype, x->item[i]);
        long double held = um_oracle_real(x->dtype, x->item[best]);
        if (isnan(held)) break;
        if (isnan(value) || (op == UM_OP_ARGMAX ? value > held : value < held)) best = i;
    }
    return um_expect_num((um_num){.i = best});
}

static um_expect reduce_list(um_op_id op, const list *x)
{
    if (op == UM_OP_ANY || op == UM_OP_ALL) return reduce_test(op, x);
    if (op == UM_OP_ARGMAX || op == UM_OP_ARGMIN) return reduce_index(op, x);
    return um_oracle_is_float(x->dtype) ? reduce_float(op, x) : reduce_int(op, x);
}

/* ---- whole ops ------------------------------------------------------------------------------- */

/* The axes of attrs.reduce as bits 0 .. rank - 1. */
static uint32_t plain_axes(uint32_t axes, int32_t rank)
{
    uint32_t plain = 0;
    for (int32_t i = 0; i < rank; i++)
        if (axes == 0 || axes & UM_AXIS(i) || axes & UM_AXIS(i - rank)) plain |= UM_AXIS(i);
    return plain;
}

/* Offset of place `index` in the row-major order of x's axes that are in `axes`. */
static int64_t place_in(const um_array *x, uint32_t axes, int64_t index)
{
    int64_t at = 0, step = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        if (axes & UM_AXIS(i)) {
            at += index % x->shape[i] * step;
            index /= x->shape[i];
        }
        step *= x->shape[i];
    }
    return at;
}

um_status um_oracle_reduce(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect)
{
    const um_array *x = &in[0];
    uint32_t axes = plain_axes(op->attrs.reduce.axes, x->rank);
    int64_t n = 1;
    for (int32_t i = 0; i < x->rank; i++)
        if (axes & UM_AXIS(i)) n *= x->shape[i];
    um_num *item = malloc((size_t)(n + 1) * sizeof *item);
    if (!item) return UM_OUT_OF_MEMORY;
    list values = {x->dtype, x->dtype, n, item, op->attrs.reduce.correction};
    if (um_oracle_is_float(x->dtype)) values.work = um_oracle_worker(x->dtype);
    for (int64_t o = 0; o < out->count; o++) {
        int64_t base = n > 0 ? place_in(x, ~axes, o) : 0;
        for (int64_t i = 0; i < n; i++) item[i] = x->item[base + place_in(x, axes, i)];
        expect[o] = reduce_list(op->id, &values);
    }
    free(item);
    return UM_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct running {
    um_total total;
    factors factors;
    double max;
    um_num num; /* integers */
} running;

static um_expect scan_float(running *r, um_op_id op, um_dtype work, double value, int64_t n)
{
    list pair = {UM_F64, work, 2, (um_num[]){{.f = r->max}, {.f = value}}, 0};
    if (op == UM_OP_CUMSUM) {
        um_total_add(&r->total, (long double)value);
        return expect_sum(&r->total, work, n);
    }
    if (op == UM_OP_CUMPROD) {
        multiply(&r->factors, value);
        return expect_product(&r->factors, work);
    }
    r->max = largest_of(&pair, 1);
    return um_expect_near((long double)r->max, 0);
}

static um_expect scan_int(running *r, um_op_id op, um_dtype dtype, um_num value)
{
    um_num pair[2] = {r->num, value};
    um_op_id step = op == UM_OP_CUMSUM ? UM_OP_ADD : op == UM_OP_CUMPROD ? UM_OP_MUL : UM_OP_MAX;
    r->num = um_oracle_map_int(step, dtype, pair);
    return um_expect_num(r->num);
}

um_status um_oracle_scan(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect)
{
    const um_array *x = &in[0];
    int32_t axis = op->attrs.axis.axis;
    int64_t step = 1, length;
    if (axis < 0) axis += x->rank;
    for (int32_t i = axis + 1; i < x->rank; i++) step *= x->shape[i];
    length = x->shape[axis];
    for (int64_t start = 0; start < out->count; start++) {
        if (start / step % length != 0) continue;
        running r = {.factors = {1, 1, 1, 0}, .max = -(double)INFINITY};
        r.num = op->id == UM_OP_CUMMAX && !um_oracle_is_float(x->dtype)
                    ? um_oracle_lowest(x->dtype)
                    : (um_num){.i = op->id == UM_OP_CUMPROD};
        for (int64_t i = 0; i < length; i++) {
            int64_t at = start + i * step;
            expect[at] =
                um_oracle_is_float(x->dtype)
                    ? scan_float(&r, op->id, um_oracle_worker(x->dtype), x->item[at].f, i + 1)
                    : scan_int(&r, op->id, x->dtype, x->item[at]);
        }
    }
    return UM_OK;
}
