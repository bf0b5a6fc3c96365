/* check/oracle_matmul.c: scale * (act(alpha * a b + beta * c + bias) + residual), one dot product
 * an output element; of 8-bit integers modulo 2^32.
 */
#include "check/oracle.h"

#include <math.h>

typedef struct product {
    const um_op *op;
    int64_t m, k, n;
    um_dtype work, a, b;
    long double alpha, beta;
} product;

/* An operand's value; f32 may have to be rounded first. */
static long double operand(const product *p, um_dtype dtype, um_num value)
{
    um_dtype to = p->op->attrs.matmul.round_to;
    return (long double)(to ? um_oracle_convert(to, dtype, value).f : value.f);
}

/* The dot product and the bound on what a kernel gets: its sum's, half a unit for each product, and
 * what underflows. */
static um_expect dot(const product *p, const um_num *a, const um_num *b)
{
    um_total total = {0};
    for (int64_t i = 0; i < p->k; i++)
        um_total_add(&total, operand(p, p->a, a[i]) * operand(p, p->b, b[i * p->n]));
    double eps = um_oracle_eps(p->work), magnitude = (double)total.magnitude;
    um_expect expect = um_expect_near(um_total_get(&total), 0);
    expect.bound = um_oracle_sum_bound(p->work, p->k, total.magnitude) + eps * magnitude +
                   (double)p->k * um_oracle_ulp(p->work, 0);
    if (um_oracle_sum_overflows(p->work, p->k, total.magnitude * fmaxl(1, fabsl(p->alpha))))
        expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

/* A kernel has inf where `x`, one of its steps, is finite. */
static bool overflows(const product *p, long double x)
{
    return isfinite(x) && fabsl(x) > (long double)um_oracle_max(p->work);
}

/* expect + x, in one more rounding. */
static void add(const product *p, um_expect *expect, long double x)
{
    expect->want += x;
    expect->bound += um_oracle_ulp(p->work, expect->want);
    if (overflows(p, expect->want) && expect->judge == UM_JUDGE_NEAR)
        expect->judge = UM_JUDGE_LOOSE;
}

/* Of an inf that only a kernel may have met it makes some finite number. */

static void activate(const product *p, um_expect *expect)
{
    um_op_id id = p->op->attrs.matmul.activation;
    const long double x[3] = {expect->want};
    const double err[3] = {expect->bound};
    if (id == UM_OP_NONE) return;
    um_expect after = um_oracle_map_float(id, p->work, x, err, p->op->attrs.matmul.a);
    if (expect->judge == UM_JUDGE_LOOSE) after.judge = UM_JUDGE_ANY;
    *expect = after;
}

static um_expect sums(const product *p, const um_num *a, const um_num *b, const um_num *c)
{
    um_expect expect = um_expect_near(0, UM_ANY_ZERO);
    double eps = um_oracle_eps(p->work);
    if (p->alpha != 0 && p->k > 0) {
        expect = dot(p, a, b);
        expect.want *= p->alpha;
        expect.bound *= (double)fabsl(p->alpha);
        if (p->alpha != 1)
            expect.bound += eps * (double)fabsl(expect.want) + um_oracle_ulp(p->work, 0);
    }
    if (p->beta != 0 && c) {
        long double added = p->beta * (long double)c->f;
        if (expect.want != 0) expect.bound += eps * (double)fabsl(added);
        expect.bound += p->beta == 1 ? 0 : um_oracle_ulp(p->work, added);
        expect.want += added;
        if (overflows(p, added) || overflows(p, expect.want)) expect.judge = UM_JUDGE_LOOSE;
        expect.bound += expect.want == added ? 0 : um_oracle_ulp(p->work, expect.want);
    }
    return expect;
}

static um_expect float_element(const product *p, const um_num *a, const um_num *b, const um_num *c,
                               const um_num *bias, const um_num *residual)
{
    um_expect expect = sums(p, a, b, c);
    double scale = p->op->attrs.matmul.scale;
    if (bias) add(p, &expect, (long double)bias->f);
    activate(p, &expect);
    if (residual) add(p, &expect, (long double)residual->f);
    if (scale != 0 && scale != 1) {
        expect.want *= (long double)scale;
        expect.bound = expect.bound * fabs(scale) + um_oracle_ulp(p->work, expect.want);
    }
    if (expect.judge == UM_JUDGE_NEAR && !(expect.bound > 0)) expect.bound = UM_ANY_ZERO;
    return expect;
}

static um_expect int_element(const product *p, const um_num *a, const um_num *b, const um_num *c,
                             const um_num *bias, const um_num *residual)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->k; i++) sum += (uint64_t)(a[i].i * b[i * p->n].i);
    sum *= (uint64_t)(int64_t)p->alpha;
    if (c) sum += (uint64_t)(int64_t)p->beta * (uint64_t)c->i;
    if (bias) sum += (uint64_t)bias->i;
    if (residual) sum += (uint64_t)residual->i;
    return um_expect_num(um_oracle_wrap(UM_I32, sum));
}

/* Element i of an optional input, or NULL. */
static const um_num *optional(const um_op *op, const um_array *in, int32_t index, int64_t i)
{
    return index < op->in_count && in[index].rank != 1 ? &in[index].item[i] : NULL;
}

um_status um_oracle_matmul(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect)
{
    const um_array *a = &in[0], *b = &in[1];
    product p = {.op = op,
                 .m = a->shape[a->rank - 2],
                 .k = a->shape[a->rank - 1],
                 .n = b->shape[b->rank - 1],
                 .work = um_oracle_worker(a->dtype),
                 .a = a->dtype,
                 .b = b->dtype,
                 .alpha = (long double)op->attrs.matmul.alpha,
                 .beta = (long double)op->attrs.matmul.beta};
    for (int64_t i = 0; i < out->count; i++) {
        int64_t column = i % p.n, row = i / p.n % p.m, batch = i / p.n / p.m;
        const um_num *a_row = a->item + (batch * p.m + row) * p.k;
        const um_num *b_column = b->item + batch * p.k * p.n + column;
        const um_num *c = optional(op, in, 2, i), *bias = optional(op, in, 3, i);
        const um_num *residual = optional(op, in, 4, i);
        expect[i] = out->dtype == UM_I32 ? int_element(&p, a_row, b_column, c, bias, residual)
                                         : float_element(&p, a_row, b_column, c, bias, residual);
    }
    return UM_OK;
}
