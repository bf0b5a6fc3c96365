/* check/oracle_normalize.c: layer, group and batch norm, the gradients of all norms and of softmax.
 * Every element knows its line, which shares statistics, and its parameter; the rest is sums over
 * those. */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

/* Sums over the elements of a line or of a parameter. */
typedef struct sums {
    um_total x, square, g, product; /* of x, (x - mean)^2, g = dy * w, g * normal */
    int64_t count;
    double g_size, product_size; /* sums of the magnitudes */
    double reach;                /* the largest |normal| */
    bool odd;                    /* something is not finite, or large enough to become so */
} sums;

typedef struct layout {
    const um_op *op;
    int64_t line_size;                /* rms_norm, layer_norm, softmax */
    int64_t channels, places, groups; /* channels > 0: group_norm, batch_norm (groups 0) */
    bool last, centred;
    um_dtype work;
    int64_t lines, parameters;
    sums *line, *parameter;
} layout;

static int64_t channel_of(const layout *l, int64_t i)
{
    return l->last ? i % l->channels : i / l->places % l->channels;
}

static int64_t line_of(const layout *l, int64_t i)
{
    if (l->channels == 0) return i / l->line_size;
    int64_t channel = channel_of(l, i);
    if (l->groups == 0) return channel;
    return i / (l->channels * l->places) * l->groups + channel / (l->channels / l->groups);
}

static int64_t parameter_of(const layout *l, int64_t i)
{
    return l->channels == 0 ? i % l->line_size : channel_of(l, i);
}

static layout make_layout(const um_op *op, const um_array *x)
{
    layout l = {.op = op, .line_size = 1, .places = 1, .work = um_oracle_worker(x->dtype)};
    bool is_group = op->id == UM_OP_GROUP_NORM || op->id == UM_OP_GROUP_NORM_BACKWARD;
    bool is_batch = op->id == UM_OP_BATCH_NORM || op->id == UM_OP_BATCH_NORM_BACKWARD;
    bool is_layer = op->id == UM_OP_LAYER_NORM || op->id == UM_OP_LAYER_NORM_BACKWARD;
    l.centred = op->id != UM_OP_RMS_NORM_BACKWARD;
    if (is_group || is_batch) {
        l.last = op->attrs.norm.layout == UM_CHANNELS_LAST;
        int32_t axis = l.last ? x->rank - 1 : 1;
        l.channels = l.parameters = x->shape[axis];
        for (int32_t i = 1; i < x->rank; i++)
            if (i != axis) l.places *= x->shape[i];
        l.groups = is_group ? op->attrs.norm.groups : 0;
        l.lines = is_group ? x->shape[0] * l.groups : l.channels;
        return l;
    }
    int32_t dims = is_layer ? op->attrs.norm.dims : 1;
    l.lines = 1;
    for (int32_t i = 0; i < x->rank; i++)
        *(i < x->rank - dims ? &l.lines : &l.line_size) *= x->shape[i];
    l.parameters = l.line_size;
    return l;
}

static double sum_bound(const layout *l, int64_t n) { return um_oracle_sum_bound(l->work, n, 1); }

/* What mean and var are, of a line or as given. */
typedef struct moments {
    long double mean, var, inverse;
    double off; /* relative error of inverse, and of normal beside 1 */
} moments;

static moments moments_of(const layout *l, const um_array *in, int64_t line)
{
    const um_op *op = l->op;
    const sums *s = &l->line[line];
    moments m = {.mean = um_total_get(&s->x) / s->count,
                 .var = um_total_get(&s->square) / s->count};
    bool is_batch = op->id == UM_OP_BATCH_NORM || op->id == UM_OP_BATCH_NORM_BACKWARD;
    if (is_batch && !op->attrs.norm.training) {
        m.mean = (long double)in[3].item[line].f;
        m.var = (long double)in[4].item[line].f;
    }
    if (!l->centred) m.mean = 0;
    m.inverse = 1 / sqrtl(m.var + (long double)op->attrs.norm.eps);
    m.off = sum_bound(l, s->count) + 8 * um_oracle_eps(l->work);
    return m;
}

static um_status begin(layout *l, const um_array *x)
{
    l->line = calloc((size_t)l->lines + 1, sizeof *l->line);
    l->parameter = calloc((size_t)l->parameters + 1, sizeof *l->parameter);
    if (!l->line || !l->parameter) return UM_OUT_OF_MEMORY;
    for (int64_t i = 0; i < x->count; i++) {
        sums *s = &l->line[line_of(l, i)];
        um_total_add(&s->x, (long double)x->item[i].f);
        s->count++;
    }
    for (int64_t i = 0; i < x->count; i++) {
        sums *s = &l->line[line_of(l, i)];
        long double d = (long double)x->item[i].f;
        if (l->centred) d -= um_total_get(&s->x) / s->count;
        um_total_add(&s->square, d * d);
    }
    return UM_OK;
}

static void end(layout *l)
{
    free(l->line);
    free(l->parameter);
}

/* ---- forward
 * ------------------------------------------------------------------------------------- */

static const um_array *input(const um_op *op, const um_array *in, int32_t index)
{
    return index < op->in_count && in[index].count > 0 ? &in[index] : NULL;
}

static um_expect forward_element(const layout *l, const um_array *in, int64_t i)
{
    const um_array *w = input(l->op, in, 1), *b = input(l->op, in, 2);
    moments m = moments_of(l, in, line_of(l, i));
    int64_t p = parameter_of(l, i);
    long double weight = w ? (long double)w->item[p].f : 1;
    long double bias = b ? (long double)b->item[p].f : 0;
    long double gap = (long double)in[0].item[i].f - m.mean, normal = gap * m.inverse;
    long double product = normal * weight, want = product + bias;
    double bound = m.off * (double)((1 + fabsl(normal)) * fabsl(weight)) +
                   um_oracle_eps(l->work) * (double)(fabsl(product) + fabsl(want)) +
                   (1 + (double)fabsl(weight)) * um_oracle_ulp(l->work, 0);
    um_expect expect = um_expect_near(want, bound);
    long double largest = fmaxl(fmaxl(fabsl(product), fabsl(normal)), fabsl(gap));
    bool overflows = largest > (long double)um_oracle_max(l->work) / 2;
    bool vanishes = isinf(weight) && fabsl(normal) < (long double)m.off;
    if (overflows || vanishes) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

/* mean, inverse, and the running mean and var. */
static um_expect statistic(const layout *l, const um_array *in, int32_t output, int64_t line)
{
    moments m = moments_of(l, in, line);
    long double keep = (long double)l->op->attrs.norm.momentum;
    double deviation = (double)sqrtl(m.var), eps = um_oracle_eps(l->work);
    double mean_bound = 2 * eps * (double)fabsl(m.mean) + m.off * deviation;
    um_expect expect;
    if (output == 1) expect = um_expect_near(m.mean, mean_bound);
    if (output == 2) expect = um_expect_near(m.inverse, m.off * (double)m.inverse);
    if (output >= 3) {
        long double old = (long double)in[output].item[line].f * keep;
        long double new = (1 - keep) * (output == 3 ? m.mean : m.var);
        double off = output == 3 ? mean_bound : m.off * (double)m.var;
        expect = um_expect_near(old + new, off + 2 * eps * (double)(fabsl(old) + fabsl(new)));
        if (fabsl(new) > (long double)um_oracle_max(l->work) / 8) expect.judge = UM_JUDGE_LOOSE;
    }
    if (!isfinite(expect.want)) expect.judge = UM_JUDGE_LOOSE; /* NaN for inf, too */
    return expect;
}

static um_status forward(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *const *expect)
{
    layout l = make_layout(op, &in[0]);
    um_status status = begin(&l, &in[0]);
    for (int64_t i = 0; status == UM_OK && i < out[0].count; i++)
        expect[0][i] = forward_element(&l, in, i);
    for (int32_t k = 1; status == UM_OK && k < op->out_count; k++)
        for (int64_t i = 0; i < out[k].count; i++) expect[k][i] = statistic(&l, in, k, i);
    end(&l);
    return status;
}

/* ---- backward
 * ------------------------------------------------------------------------------------- */

static long double weighted(const layout *l, const um_array *in, int64_t i)
{
    const um_array *w = input(l->op, in, 2);
    long double dy = (long double)in[0].item[i].f;
    return w ? dy * (long double)w->item[parameter_of(l, i)].f : dy;
}

static void add(sums *s, const layout *l, long double g, long double normal)
{
    long double limit = (long double)um_oracle_max(l->work) / 1024;
    um_total_add(&s->g, g);
    um_total_add(&s->product, g * normal);
    s->g_size += (double)fabsl(g);
    s->product_size += (double)fabsl(g * normal);
    s->reach = fmax(s->reach, (double)fabsl(normal));
    if (!isfinite(g) || !(fabsl(g) < limit) || !(fabsl(g * normal) < limit)) s->odd = true;
}

static um_expect backward_element(const layout *l, const um_array *in, int64_t i)
{
    int64_t line = line_of(l, i);
    const sums *s = &l->line[line];
    moments m = moments_of(l, in, line);
    long double g = weighted(l, in, i), mean = 0, product = 0;
    long double normal = ((long double)in[1].item[i].f - m.mean) * m.inverse;
    bool given = l->op->id == UM_OP_BATCH_NORM_BACKWARD && !l->op->attrs.norm.training;
    if (l->centred && !given) mean = um_total_get(&s->g) / s->count;
    if (!given) product = um_total_get(&s->product) / s->count;
    long double want = (given ? g : g - mean - normal * product) * m.inverse;
    double size = given ? 0 : s->g_size / (double)s->count;
    double product_size = given ? 0 : s->product_size / (double)s->count;
    double reach = 1 + (double)fabsl(normal);
    double off = (double)fabsl(g);
    if (!given) off += size + reach * (3 * product_size + size);
    double bound =
        m.off * (double)m.inverse * off + 4 * um_oracle_ulp(l->work, 0) * (1 + (double)m.inverse);
    um_expect expect = um_expect_near(want, bound);
    if (s->odd || !(fabsl(want) < (long double)um_oracle_max(l->work) / 2))
        expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

/* dw, db */
static um_expect parameter_gradient(const layout *l, int32_t output, const sums *s)
{
    double off = sum_bound(l, s->count) + sum_bound(l, l->op->in[0].shape[0] + l->line_size) +
                 16 * um_oracle_eps(l->work);
    um_expect expect =
        output == 1 ? um_expect_near(um_total_get(&s->product), off * (s->product_size + s->g_size))
                    : um_expect_near(um_total_get(&s->g), off * s->g_size);
    if (s->count == 0) expect.bound = 0;
    if (s->count > 0)
        expect.bound += ((double)s->count * 2 + s->g_size) * um_oracle_ulp(l->work, 0);
    if (s->odd) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static um_status backward(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *const *expect)
{
    layout l = make_layout(op, &in[1]);
    um_status status = begin(&l, &in[1]);
    for (int64_t i = 0; status == UM_OK && i < in[1].count; i++) {
        moments m = moments_of(&l, in, line_of(&l, i));
        long double gap = (long double)in[1].item[i].f - m.mean, normal = gap * m.inverse;
        sums *line = &l.line[line_of(&l, i)], *parameter = &l.parameter[parameter_of(&l, i)];
        add(line, &l, weighted(&l, in, i), normal);
        add(parameter, &l, (long double)in[0].item[i].f, normal);
        parameter->count++;
        bool far = !(fabsl(gap) < (long double)um_oracle_max(l.work) / 2);
        parameter->odd = parameter->odd || far;
        line->odd = line->odd || parameter->odd;
    }
    for (int64_t i = 0; status == UM_OK && i < out[0].count; i++)
        expect[0][i] = backward_element(&l, in, i);
    for (int32_t k = 1; status == UM_OK && k < op->out_count; k++)
        for (int64_t i = 0; i < out[k].count; i++)
            expect[k][i] = parameter_gradient(&l, k, &l.parameter[i]);
    end(&l);
    return status;
}

/* ---- softmax
 * --------------------------------------------------------------------------------------- */

/* n values, `step` apart. */
static void softmax_line(const um_op *op, const um_num *y, const um_num *dy, int64_t n,
                         int64_t step, um_dtype work, um_expect *expect)
{
    bool is_log = op->id == UM_OP_LOG_SOFTMAX_BACKWARD;
    um_total total = {0};
    bool odd = false;
    for (int64_t i = 0; i < n; i++) {
        long double g = (long double)dy[i * step].f, p = is_log ? 1 : (long double)y[i * step].f;
        um_total_add(&total, g * p);
        odd = odd || !(fabsl(g * p) < (long double)um_oracle_max(work) / 1024);
    }
    long double sum = um_total_get(&total);
    double off = um_oracle_sum_bound(work, n, total.magnitude) +
                 um_oracle_eps(work) * (double)total.magnitude + (double)n * um_oracle_ulp(work, 0);
    for (int64_t i = 0; i < n; i++) {
        long double g = (long double)dy[i * step].f, p = (long double)y[i * step].f;
        long double e = is_log ? expl(p) : p, want = is_log ? g - e * sum : p * (g - sum);
        double bound =
            (double)fabsl(e) * (off + 8 * um_oracle_eps(work) * (double)(fabsl(sum) + fabsl(g))) +
            um_oracle_eps(work) * (double)fabsl(want) +
            2 * um_oracle_ulp(work, 0) * (double)(1 + fabsl(sum));
        um_expect one = um_expect_near(want, bound);
        bool large =
            !((1 + fabsl(e)) * (fabsl(g) + fabsl(sum) + 1) < (long double)um_oracle_max(work) / 2);
        if (odd || large || !isfinite(g) || !isfinite(p)) one.judge = UM_JUDGE_LOOSE;
        expect[i * step] = one;
    }
}

static void softmax_backward(const um_op *op, const um_array *y, const um_array *dy,
                             um_expect *expect)
{
    int32_t axis = op->attrs.axis.axis;
    int64_t step = 1;
    if (axis < 0) axis += y->rank;
    for (int32_t i = axis + 1; i < y->rank; i++) step *= y->shape[i];
    for (int64_t i = 0; i < y->count; i++)
        if (i / step % y->shape[axis] == 0)
            softmax_line(op, y->item + i, dy->item + i, y->shape[axis], step,
                         um_oracle_worker(y->dtype), expect + i);
}

um_status um_oracle_normalize(const um_op *op, const um_array *in, const um_array *out,
                              um_expect *const *expect)
{
    switch (op->id) {
    case UM_OP_SOFTMAX_BACKWARD:
    case UM_OP_LOG_SOFTMAX_BACKWARD: softmax_backward(op, &in[0], &in[1], expect[0]); return UM_OK;
    case UM_OP_LAYER_NORM:
    case UM_OP_GROUP_NORM:
    case UM_OP_BATCH_NORM: return forward(op, in, out, expect);
    default: return backward(op, in, out, expect);
    }
}
