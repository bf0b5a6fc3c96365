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
    um_ksum sum = um_klines_new_sum(l);
    um_klines_each(l);
    um_ksum_add(k, sum, um_k_exp(k, um_k_sub(k, um_klines_load(l, x, from), top)));
    um_k_end(k);
    um_val all = um_klines_sum(l, sum);
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
    um_ksum sum = um_klines_new_sum(l);
    um_klines_each(l);
    um_val g = um_klines_load(l, dy, dy_from);
    um_ksum_add(k, sum, s->is_log ? g : um_k_mul(k, g, um_klines_load(l, x, from)));
    um_k_end(k);
    um_val all = um_klines_sum(l, sum);
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
    UM_TRY(um_klines_begin(&l, s->plan, "softmax_lines"));
    um_kview dy = {0}, x = um_kview_read(l.launch, &l.walk, 0);
    if (s->backward) dy = um_kview_read(l.launch, &l.walk, 1);
    um_knumbers n = um_knumbers_declare(l.launch, s->plan, &s->layout, s->compute);
    if (s->backward)
        measure_gradient(&l, s, &x, &dy, &n);
    else
        measure(&l, s, &x, &n);
    return um_kernel_finish(l.k);
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

static um_status plan_elements(const softmax *s)
{
    const um_op *op = s->op;
    um_kpart parts[4] = {{&op->out[0], UM_KLIKE_X},
                         {&op->in[0], UM_KLIKE_X},
                         {NULL, UM_KLIKE_NUMBER},
                         {&op->in[op->in_count - 1], UM_KLIKE_X}};
    um_kwalk w = um_klayout_walk(&s->layout, UM_KLEAD_NONE, s->backward ? 4 : 3, parts);
    um_keach each = {.walk = w};
    UM_TRY(um_keach_create(&each, s->plan, um_op_name(op->id)));
    um_keach_read(&each, 1);
    if (s->backward) um_keach_read(&each, 3);
    um_kview number = um_knumber_declare(each.launch, &w, 2);
    um_knumbers n = um_knumbers_declare(each.launch, s->plan, &s->layout, s->compute);
    um_keach_begin(&each);
    um_val line = um_kview_place(each.k, &number, w.rank, each.place);
    um_val x = um_keach_load_as(&each, 1, s->compute);
    um_val dy = s->backward ? um_keach_load_as(&each, 3, s->compute) : 0;
    um_keach_store(&each, element(each.k, s, x, dy, &n, line));
    return um_keach_finish(&each);
}

bool um_ksoftmax_supports(const um_op *op, char *why, size_t why_size)
{
    um_klayout l = layout_of(op);
    return um_klayout_fits(op, &l, LINE_NUMBERS, why, why_size);
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
