/* check/oracle_matmul.c: alpha * a b + beta * c, one dot product an output element. */
#include "check/oracle.h"

#include <math.h>

typedef struct product {
    int64_t m, k, n;
    um_dtype work;
    long double alpha, beta;
} product;

/* The dot product and the bound on what a kernel gets: its sum's, half a unit for each product, and
 * what underflows. */
static um_expect dot(const product *p, const um_num *a, const um_num *b)
{
    um_total total = {0};
    for (int64_t i = 0; i < p->k; i++)
        um_total_add(&total, (long double)a[i].f * (long double)b[i * p->n].f);
    double eps = um_oracle_eps(p->work), magnitude = (double)total.magnitude;
    um_expect expect = um_expect_near(um_total_get(&total), 0);
    expect.bound = um_oracle_sum_bound(p->work, p->k, total.magnitude) + eps * magnitude +
                   (double)p->k * um_oracle_ulp(p->work, 0);
    double scaled = magnitude * fmax(1, (double)fabsl(p->alpha));
    if (scaled > um_oracle_max(p->work)) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static um_expect expect_element(const product *p, const um_num *a, const um_num *b, const um_num *c)
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
        expect.bound += expect.want == added ? 0 : um_oracle_ulp(p->work, expect.want);
    }
    if (expect.judge == UM_JUDGE_NEAR && !(expect.bound > 0)) expect.bound = UM_ANY_ZERO;
    return expect;
}

um_status um_oracle_matmul(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect)
{
    const um_array *a = &in[0], *b = &in[1];
    product p = {.m = a->shape[a->rank - 2],
                 .k = a->shape[a->rank - 1],
                 .n = b->shape[b->rank - 1],
                 .work = um_oracle_worker(a->dtype),
                 .alpha = (long double)op->attrs.matmul.alpha,
                 .beta = (long double)op->attrs.matmul.beta};
    for (int64_t i = 0; i < out->count; i++) {
        int64_t column = i % p.n, row = i / p.n % p.m, batch = i / p.n / p.m;
        expect[i] = expect_element(&p, a->item + (batch * p.m + row) * p.k,
                                   b->item + batch * p.k * p.n + column,
                                   op->in_count == 3 ? &in[2].item[i] : NULL);
    }
    return UM_OK;
}
