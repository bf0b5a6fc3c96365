/* kernel/softmax.c: softmax, its logarithm, and their gradients. Of a line are kept its largest
 * element and the sum of exp(x - that), or its logarithm; of a gradient, the sum over the line. */
#include "kernel/lines.h"

#include <math.h>

enum { LINE_NUMBERS = 2 };

typedef struct softmax {
    const um_op *op;
    um_kplan *plan;
    um_klayout layout;
    um_dtype compute;
    bool is_log, backward;
} softmax;

static um_klayout layout_of(const um_op *op)
{
    const um_view *x = &op->in[0];
    int32_t axis = op->attrs.axis.axis + (op->attrs.axis.axis < 0 ? x->rank : 0);
    um_klayout l = {.rank = x->rank};
    for (int32_t i = 0; i < x->rank; i++)
        l.axis[i] = (um_kaxis){x->shape[i], 1, i, -1, i == axis ? -1 : i};
    um_klayout_close(&l);
    return l;
}

/* The numbers of a line, for a forward op. */
static void measure(um_klines *l, const softmax *s, const um_kview *x, const um_knumbers *n)
{
    um_kernel *k = l->k;
    um_val from = um_klines_from(l, x);
    um_mem largest = um_klines_var(l, -(double)INFINITY);
    um_klines_each(l);
    um_k_set(k, largest, um_kvalue_max(k, um_k_get(k, largest), um_klines_load(l, x, from)));
    um_k_end(k);
    um_val top = um_klines_max(l, largest, true);
    um_mem sum = um_klines_var(l, 0), lost = um_klines_var(l, 0);
    um_klines_each(l);
    um_ksum_add(k, sum, lost, um_k_exp(k, um_k_sub(k, um_klines_load(l, x, from), top)));
    um_k_end(k);
    um_val all = um_klines_sum(l, sum, lost);
    um_klines_once(l);
    um_knumbers_store(k, n, 0, l->number, top);
    um_knumbers_store(k, n, 1, l->number, s->is_log ? um_k_log(k, all) : all);
    um_k_end(k);
}

/* ... and for a gradient: x is y here. */
static void measure_gradient(um_klines *l, const softmax *s, const um_kview *x, const um_kview *dy,
                             const um_knumbers *n)
{
    um_kernel *k = l->k;
    um_val from = um_klines_from(l, x), dy_from = um_klines_from(l, dy);
    um_mem sum = um_klines_var(l, 0), lost = um_klines_var(l, 0);
    um_klines_each(l);
    um_val g = um_klines_load(l, dy, dy_from);
    um_ksum_add(k, sum, lost, s->is_log ? g : um_k_mul(k, g, um_klines_load(l, x, from)));
    um_k_end(k);
    um_val all = um_klines_sum(l, sum, lost);
    um_klines_once(l);
    um_knumbers_store(k, n, 0, l->number, all);
    um_k_end(k);
}

static um_status plan_lines(const softmax *s)
{
    const um_op *op = s->op;
    um_kpart parts[2] = {{&op->in[0], UM_KLIKE_X}, {&op->in[op->in_count - 1], UM_KLIKE_X}};
    um_klines l = {.walk = um_klayout_walk(&s->layout, UM_KLEAD_LINE, op->in_count, parts),
                   .compute = s->compute};
    um_klaunch *launch = &s->plan->launch[s->plan->launch_count++];
    UM_TRY(um_klines_begin(&l, "softmax_lines", launch));
    um_kernel *k = l.k;
    um_kview dy = {0}, x = um_kview_declare(k, launch, &l.walk, 0, UM_K_READ, UM_KSTORE_PLAIN);
    if (s->backward) dy = um_kview_declare(k, launch, &l.walk, 1, UM_K_READ, UM_KSTORE_PLAIN);
    um_knumbers n = um_knumbers_declare(k, launch, s->plan, &s->layout, s->compute);
    if (s->backward)
        measure_gradient(&l, s, &x, &dy, &n);
    else
        measure(&l, s, &x, &n);
    return um_kernel_finish(k);
}

/* An element of the output, of x (y of a gradient), dy and the line's numbers. */
static um_val element(um_kernel *k, const softmax *s, um_val x, um_val dy, const um_knumbers *n,
                      um_val line)
{
    um_val first = um_knumbers_load(k, n, 0, line);
    if (s->backward && s->is_log) return um_k_sub(k, dy, um_k_mul(k, um_k_exp(k, x), first));
    if (s->backward) return um_k_mul(k, x, um_k_sub(k, dy, first));
    um_val second = um_knumbers_load(k, n, 1, line), off = um_k_sub(k, x, first);
    return s->is_log ? um_k_sub(k, off, second) : um_k_div(k, um_k_exp(k, off), second);
}

static um_val load(um_kernel *k, um_dtype compute, const um_kview *v, int32_t rank,
                   const um_val *place)
{
    um_val at = um_kview_index(k, v, v->base, 0, rank, place);
    return um_kvalue_as(k, compute, um_kview_load(k, v, at));
}

static um_status plan_elements(const softmax *s)
{
    const um_op *op = s->op;
    um_kpart parts[4] = {{&op->out[0], UM_KLIKE_X},
                         {&op->in[0], UM_KLIKE_X},
                         {NULL, UM_KLIKE_NUMBER},
                         {&op->in[op->in_count - 1], UM_KLIKE_X}};
    um_kwalk w = um_klayout_walk(&s->layout, UM_KLEAD_NONE, s->backward ? 4 : 3, parts);
    um_klaunch *launch = &s->plan->launch[s->plan->launch_count++];
    UM_TRY(um_kernel_create(
        &(um_kernel_desc){.name = um_op_name(op->id), .group_size = {UM_KGROUP}}, &launch->kernel));
    um_kernel *k = launch->kernel;
    um_val size[UM_KAXES] = {0}, place[UM_KAXES] = {0};
    um_kstore store = um_kwalk_store(&op->out[0]);
    um_keach each = um_keach_declare(k, launch, &op->out[0], store);
    um_kwalk_sizes(k, launch, &w, 0, w.rank, size);
    um_kview out = um_kview_declare(k, launch, &w, 0, UM_K_WRITE, store), dy = {0};
    um_kview x = um_kview_declare(k, launch, &w, 1, UM_K_READ, UM_KSTORE_PLAIN);
    if (s->backward) dy = um_kview_declare(k, launch, &w, 3, UM_K_READ, UM_KSTORE_PLAIN);
    um_kview number = um_knumber_declare(k, launch, &w, 2);
    um_knumbers n = um_knumbers_declare(k, launch, s->plan, &s->layout, s->compute);
    um_kwalk_places(k, um_keach_begin(k, &each), 0, w.rank, size, place);
    um_val line = um_kview_index(k, &number, number.base, 0, w.rank, place);
    um_val value = load(k, s->compute, &x, w.rank, place), g = 0;
    if (s->backward) g = load(k, s->compute, &dy, w.rank, place);
    value = um_kvalue_as(k, op->out[0].dtype, element(k, s, value, g, &n, line));
    um_kview_store(k, &out, um_kview_index(k, &out, out.base, 0, w.rank, place), value);
    um_keach_end(k, &each);
    return um_kernel_finish(k);
}

bool um_ksoftmax_supports(const um_op *op, char *why, size_t why_size)
{
    um_klayout l = layout_of(op);
    return um_klayout_fits(&l, LINE_NUMBERS, why, why_size);
}

um_status um_ksoftmax_plan(const um_op *op, um_kplan *plan)
{
    softmax s = {.op = op, .plan = plan, .layout = layout_of(op)};
    s.compute = um_kvalue_compute(op->in[0].dtype);
    s.is_log = op->id == UM_OP_LOG_SOFTMAX || op->id == UM_OP_LOG_SOFTMAX_BACKWARD;
    s.backward = op->in_count == 2;
    um_kplan_numbers(plan, &s.layout, s.compute, LINE_NUMBERS);
    UM_TRY(plan_lines(&s));
    return plan_elements(&s);
}
