/* op/overlap.c: whether strided views touch the same memory. Called by um_op_check for every op, so
 * the common cases are decided by address ranges and by one look at sorted strides; only what is
 * left is searched.
 *
 * Both questions become one: is there an integer solution of sum(coef[k] * x[k]) == target with
 * 0 <= x[k] <= bound[k], all coef > 0? A depth-first search from the largest coefficient down, cut
 * by what the rest can still reach and by the rest's greatest common divisor, answers it. */
#include "op/rule.h"

#define MAX_TERMS (2 * UM_MAX_RANK + 2)
#define MAX_STEPS 20000 /* about 100 us; then the answer is "overlaps" */
#define MAX_REACH (INT64_MAX / 64)

typedef struct term {
    int64_t coef, bound;
} term;

typedef struct equation {
    int32_t count;
    int32_t steps_left;
    bool too_large; /* the sums could overflow */
    int64_t target;
    term terms[MAX_TERMS];        /* by falling coef */
    int64_t reach[MAX_TERMS + 1]; /* the largest sum of terms[k..] */
    int64_t divisor[MAX_TERMS];   /* greatest common divisor of coef[k..] */
} equation;

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Inserts by falling coef; equal coefs become one term. coef and bound >= 0. */
static void add_term(equation *e, int64_t coef, int64_t bound)
{
    if (coef == 0 || bound == 0) return;
    if (bound > MAX_REACH / coef) {
        e->too_large = true;
        return;
    }
    int32_t at = e->count;
    while (at > 0 && e->terms[at - 1].coef < coef) at--;
    if (at > 0 && e->terms[at - 1].coef == coef) {
        e->terms[at - 1].bound += bound;
        return;
    }
    for (int32_t i = e->count; i > at; i--) e->terms[i] = e->terms[i - 1];
    e->terms[at] = (term){coef, bound};
    e->count++;
}

static bool search(equation *e, int32_t k, int64_t target)
{
    if (target < 0 || target > e->reach[k]) return false;
    if (target == 0 || target == e->reach[k]) return true;
    if (target % e->divisor[k] != 0) return false;
    if (k == e->count - 1) return true; /* divisible and within reach */
    if (e->steps_left <= 0) return true;
    int64_t coef = e->terms[k].coef;
    int64_t rest = target - e->reach[k + 1];
    int64_t x = rest > 0 ? um_ceil_div(rest, coef) : 0;
    int64_t last = UM_MIN(target / coef, e->terms[k].bound);
    for (; x <= last; x++) {
        e->steps_left--;
        if (search(e, k + 1, target - x * coef)) return true;
        if (e->steps_left <= 0) return true;
    }
    return false;
}

/* true also where the search gives up. */
static bool has_solution(equation *e)
{
    if (e->too_large) return true;
    e->reach[e->count] = 0;
    int64_t divisor = 0;
    for (int32_t k = e->count - 1; k >= 0; k--) {
        e->reach[k] = e->reach[k + 1] + e->terms[k].coef * e->terms[k].bound;
        if (e->reach[k] > MAX_REACH) return true;
        e->divisor[k] = divisor = greatest_divisor(divisor, e->terms[k].coef);
    }
    e->steps_left = MAX_STEPS;
    return search(e, 0, e->target);
}

/* The axes that move, strides made positive, by falling stride. false: a stride of 0, or one that
 * has no positive twin. */
static bool collect_axes(const um_view *view, term *axes, int32_t *count)
{
    *count = 0;
    for (int32_t i = 0; i < view->rank; i++) {
        int64_t stride = view->stride[i], bound = view->shape[i] - 1;
        if (bound <= 0) continue;
        if (stride == 0 || stride == INT64_MIN) return false;
        stride = stride < 0 ? -stride : stride;
        int32_t at = (*count)++;
        for (; at > 0 && axes[at - 1].coef < stride; at--) axes[at] = axes[at - 1];
        axes[at] = (term){stride, bound};
    }
    return true;
}

/* Two elements are one when a step d != 0 with |d[k]| <= bound[k] has sum(d[k] * stride[k]) == 0.
 * Let axis k be the first with d[k] != 0, and d[k] > 0. */
static bool steps_cancel(const term *axes, int32_t count, int32_t k, int64_t rest_reach)
{
    equation e = {.target = rest_reach - axes[k].coef};
    add_term(&e, axes[k].coef, axes[k].bound - 1);
    for (int32_t j = k + 1; j < count; j++)
        add_term(&e, axes[j].coef, 2 * UM_MIN(axes[j].bound, MAX_REACH));
    return has_solution(&e);
}

bool um_view_self_overlaps(const um_view *view)
{
    term axes[UM_MAX_RANK];
    int32_t count;
    for (int32_t i = 0; i < view->rank; i++)
        if (view->shape[i] == 0) return false;
    if (!collect_axes(view, axes, &count)) return true;
    int64_t rest_reach = 0; /* of the axes with smaller strides */
    for (int32_t k = count - 1; k >= 0; k--) {
        if (axes[k].coef <= rest_reach && steps_cancel(axes, count, k, rest_reach)) return true;
        int64_t reach;
        if (!um_mul_i64(axes[k].coef, axes[k].bound, &reach)) return true;
        if (!um_add_i64(rest_reach, reach, &rest_reach)) return true;
    }
    return false;
}

/* A view as the set of starts ptr + low + (0 .. reach), each `width` long, in a common unit. */
typedef struct comb {
    int64_t scale; /* units an element stride counts */
    int64_t width;
    int64_t low, reach;
} comb;

/* Adds the view's axes, as seen from the lowest start. */
static void add_axes(equation *e, const um_view *view, comb *c)
{
    for (int32_t i = 0; i < view->rank; i++) {
        int64_t bound = view->shape[i] - 1, stride = view->stride[i];
        if (bound == 0 || stride == 0) continue;
        if (stride > MAX_REACH / c->scale || stride < -MAX_REACH / c->scale) e->too_large = true;
        if (e->too_large) return;
        int64_t coef = (stride < 0 ? -stride : stride) * c->scale;
        add_term(e, coef, bound);
        if (e->too_large) return;
        c->reach += coef * bound;
        if (stride < 0) c->low -= coef * bound;
    }
}

/* Elements of a start at low_a + I, of b at low_b + J, and meet where low_a + I + u == low_b + J +
 * v with u and v inside an element. With J and v counted from their other ends every term is
 * positive.
 */
static bool combs_meet(const um_view *a, comb ca, const um_view *b, comb cb, int64_t b_minus_a)
{
    equation e = {0};
    add_axes(&e, a, &ca);
    add_axes(&e, b, &cb);
    add_term(&e, 1, ca.width - 1);
    add_term(&e, 1, cb.width - 1);
    if (e.too_large || b_minus_a > MAX_REACH || b_minus_a < -MAX_REACH) return true;
    e.target = b_minus_a + cb.low - ca.low + cb.reach + cb.width - 1;
    return has_solution(&e);
}

bool um_views_overlap(const um_view *a, const um_view *b)
{
    int64_t low_a, high_a, low_b, high_b;
    if (!um_view_extent(a, &low_a, &high_a) || !um_view_extent(b, &low_b, &high_b)) return true;
    if (low_a == high_a || low_b == high_b) return false;
    /* How far b's range starts behind a's, modulo 2^64. */
    uint64_t behind = (b->ptr + (uint64_t)low_b) - (a->ptr + (uint64_t)low_a);
    if (behind >= (uint64_t)high_a - (uint64_t)low_a &&
        0 - behind >= (uint64_t)high_b - (uint64_t)low_b)
        return false;

    int64_t bits_a = um_dtype_bits(a->dtype), bits_b = um_dtype_bits(b->dtype);
    int64_t distance = (int64_t)(b->ptr - a->ptr);
    comb whole = {.scale = 1, .width = 1}; /* in elements */
    if (bits_a == bits_b && bits_a >= 8 && distance % (bits_a / 8) == 0)
        return combs_meet(a, whole, b, whole, distance / (bits_a / 8));
    int64_t unit_bits = UM_MIN(bits_a, bits_b) < 8 ? 4 : 8;
    comb ca = {.scale = bits_a / unit_bits, .width = bits_a / unit_bits};
    comb cb = {.scale = bits_b / unit_bits, .width = bits_b / unit_bits};
    if (bits_a < 8 && bits_b < 8) { /* the other half of a's byte counts too, on either side */
        ca.low = -1;
        ca.width = 3;
    }
    if (distance > MAX_REACH || distance < -MAX_REACH) return true;
    return combs_meet(a, ca, b, cb, distance * (8 / unit_bits));
}
