/* kernel/norm.c: layer, group, batch and RMS norm, and their gradients. Of a line are kept, for x
 * times a power of two that brings its largest near SPAN, the mean in two parts and the inverse
 * root of variance and eps: normal = ((x scale - hi) - lo) inverse. So no square overflows or
 * vanishes, and a mean far from 0 does not cost the deviations their digits. Of a gradient are kept
 * also the means of g = dy w and of g normal. */
#include "kernel/lines.h"

#include <math.h>

enum { SCALE, HI, LO, INVERSE, MEAN_G, MEAN_PRODUCT, NUMBERS, FORWARD_NUMBERS = MEAN_G };
enum { SPAN_BITS = 24, SPAN = 1 << SPAN_BITS };

typedef struct norm {
    const um_op *op;
    um_kplan *plan;
    um_klayout layout;
    um_dtype compute;
    bool centred, backward, given; /* given: statistics */
    const um_view *x, *dy, *w, *b; /* NULL: none */
} norm;

/* What a line has, in a kernel. */
typedef struct line {
    um_val scale, hi, lo, inverse, var; /* var: of x scale */
} line;

/* ---- layouts -------------------------------------------------------------------------------- */

static um_klayout line_layout(const um_view *x, int32_t dims)
{
    um_klayout l = {.rank = x->rank};
    int32_t lead = x->rank - dims;
    for (int32_t i = 0; i < x->rank; i++)
        l.axis[i] = (um_kaxis){x->shape[i], 1, i, i < lead ? -1 : i - lead, i < lead ? i : -1};
    return l;
}

/* groups 0: batch_norm, whose lines are channels. */
static um_klayout channel_layout(const um_view *x, int32_t layout, int64_t groups)
{
    um_klayout l = {.rank = 0};
    int32_t channel = layout == UM_CHANNELS_LAST ? x->rank - 1 : 1;
    for (int32_t i = 0; i < x->rank; i++) {
        um_kaxis *a = &l.axis[l.rank++];
        *a = (um_kaxis){x->shape[i], 1, i, -1, i == 0 && groups > 0 ? 0 : -1};
        if (i != channel) continue;
        a->weight = 0;
        if (groups == 0) a->line = 0;
        if (groups == 0) continue;
        int64_t each = x->shape[i] / groups;
        *a = (um_kaxis){groups, each, i, 0, 1};
        l.axis[l.rank++] = (um_kaxis){each, 1, i, 0, -1};
    }
    return l;
}

static um_klayout layout_of(const um_op *op, const um_view *x)
{
    um_klayout l;
    switch (op->id) {
    case UM_OP_LAYER_NORM:
    case UM_OP_LAYER_NORM_BACKWARD: l = line_layout(x, op->attrs.norm.dims); break;
    case UM_OP_GROUP_NORM:
    case UM_OP_GROUP_NORM_BACKWARD:
        l = channel_layout(x, op->attrs.norm.layout, op->attrs.norm.groups);
        break;
    case UM_OP_BATCH_NORM:
    case UM_OP_BATCH_NORM_BACKWARD: l = channel_layout(x, op->attrs.norm.layout, 0); break;
    default: l = line_layout(x, 1); break;
    }
    um_klayout_close(&l);
    return l;
}

static norm norm_of(const um_op *op)
{
    norm n = {.op = op};
    bool is_batch = op->id == UM_OP_BATCH_NORM || op->id == UM_OP_BATCH_NORM_BACKWARD;
    n.backward = op->id == UM_OP_RMS_NORM_BACKWARD || op->id == UM_OP_LAYER_NORM_BACKWARD ||
                 op->id == UM_OP_GROUP_NORM_BACKWARD || op->id == UM_OP_BATCH_NORM_BACKWARD;
    n.centred = op->id != UM_OP_RMS_NORM && op->id != UM_OP_RMS_NORM_BACKWARD;
    n.given = is_batch && !op->attrs.norm.training;
    int32_t w = n.backward ? 2 : 1;
    n.x = &op->in[n.backward ? 1 : 0];
    if (n.backward) n.dy = &op->in[0];
    if (um_op_has_input(op, w)) n.w = &op->in[w];
    if (!n.backward && um_op_has_input(op, 2)) n.b = &op->in[2];
    n.compute = um_kvalue_compute(n.x->dtype);
    n.layout = layout_of(op, n.x);
    return n;
}

/* ---- a line's statistics -------------------------------------------------------------------- */

/* A power of two that brings a finite a > 0 near SPAN, and has a reciprocal. Inverse roots are
 * below 1 then, so that what x scale loses where it underflows does not grow. */
static um_val scale_for(um_kernel *k, um_val a)
{
    if (um_val_type(k, a).dtype == UM_F32) {
        um_val exponent = um_k_shr(k, um_k_bitcast(k, UM_U32, 1, a), um_k_u32(k, 23));
        exponent = um_k_max(k, exponent, um_k_u32(k, 31));
        exponent = um_k_sub(k, um_k_u32(k, 254 + SPAN_BITS), exponent);
        return um_k_bitcast(k, UM_F32, 1, um_k_shl(k, exponent, um_k_u32(k, 23)));
    }
    um_val high = um_k_extract(k, um_k_bitcast(k, UM_U32, 2, a), 1);
    um_val exponent = um_k_max(k, um_k_shr(k, high, um_k_u32(k, 20)), um_k_u32(k, 47));
    high = um_k_sub(k, um_k_u32(k, 2046 + SPAN_BITS), exponent);
    high = um_k_shl(k, high, um_k_u32(k, 20));
    return um_k_bitcast(k, UM_F64, 1, um_k_vector(k, 2, (um_val[]){um_k_u32(k, 0), high}));
}

/* sqrt(a^2 + b^2), a and b not negative. */
static um_val hypotenuse(um_kernel *k, um_dtype dtype, um_val a, um_val b)
{
    um_val first = um_k_ge(k, a, b), zero = um_kvalue_number(k, dtype, 0);
    um_val one = um_kvalue_number(k, dtype, 1);
    um_val larger = um_k_select(k, first, a, b), smaller = um_k_select(k, first, b, a);
    um_val by = um_k_select(k, um_k_eq(k, larger, zero), one, larger);
    um_val ratio = um_k_div(k, smaller, by);
    return um_k_mul(k, larger, um_k_sqrt(k, um_k_add(k, one, um_k_mul(k, ratio, ratio))));
}

static um_val largest_of(um_klines *l, const um_kview *x, um_val from)
{
    um_kernel *k = l->k;
    um_mem largest = um_klines_var(l, 0);
    um_klines_each(l);
    um_val a = um_k_abs(k, um_klines_load(l, x, from)), b = um_k_get(k, largest);
    um_k_set(k, largest, um_k_select(k, um_k_gt(k, a, b), a, b));
    um_k_end(k);
    return um_klines_max(l, largest, false);
}

/* The mean of x scale. */
static um_val mean_of(um_klines *l, const um_kview *x, um_val from, um_val scale, um_val count)
{
    um_kernel *k = l->k;
    um_ksum sum = um_klines_new_sum(l);
    um_klines_each(l);
    um_ksum_add(k, sum, um_k_mul(k, um_klines_load(l, x, from), scale));
    um_k_end(k);
    return um_k_div(k, um_klines_sum(l, sum), count);
}

static line measure(const norm *n, um_klines *l, const um_kview *x, um_val count, um_val eps_root)
{
    um_kernel *k = l->k;
    um_val from = um_klines_from(l, x), zero = um_kvalue_number(k, l->compute, 0);
    um_val top = largest_of(l, x, from);
    line s = {.hi = zero, .lo = zero};
    s.scale = scale_for(k, um_k_select(k, um_k_gt(k, top, eps_root), top, eps_root));
    if (n->centred) s.hi = mean_of(l, x, from, s.scale, count);
    um_ksum sum = um_klines_new_sum(l), squares = um_klines_new_sum(l);
    um_klines_each(l);
    um_val d = um_k_mul(k, um_klines_load(l, x, from), s.scale);
    if (n->centred) d = um_k_sub(k, d, s.hi);
    if (n->centred) um_ksum_add(k, sum, d);
    um_ksum_add(k, squares, um_k_mul(k, d, d));
    um_k_end(k);
    s.var = um_k_div(k, um_klines_sum(l, squares), count);
    if (n->centred) {
        s.lo = um_k_div(k, um_klines_sum(l, sum), count);
        s.var = um_k_sub(k, s.var, um_k_mul(k, s.lo, s.lo));
        s.var = um_k_select(k, um_k_lt(k, s.var, zero), zero, s.var);
    }
    um_val eps = um_k_mul(k, eps_root, s.scale);
    um_val root = hypotenuse(k, l->compute, um_k_sqrt(k, s.var), eps);
    um_val least = um_kvalue_number(k, l->compute, l->compute == UM_F64 ? 0x1p-1020 : 0x1p-124);
    um_val low = um_k_and(k, um_k_lt(k, root, least), um_k_gt(k, root, zero));
    root = um_k_select(k, low, least, root); /* its inverse is a number; all elements are alike */
    s.inverse = um_k_div(k, um_kvalue_number(k, l->compute, 1), root);
    return s;
}

static line take_given(um_klines *l, const um_kview *mean, const um_kview *var, um_val eps)
{
    um_kernel *k = l->k;
    um_val one = um_kvalue_number(k, l->compute, 1), zero = um_kvalue_number(k, l->compute, 0);
    line s = {.scale = one, .hi = zero, .lo = zero, .inverse = one, .var = zero};
    um_mem hi = um_klines_var(l, 0), spread = um_klines_var(l, 0);
    um_k_if(k, l->in);
    um_k_set(k, hi, um_kview_load(k, mean, um_klines_from(l, mean)));
    um_k_set(k, spread, um_kview_load(k, var, um_klines_from(l, var)));
    um_k_end(k);
    s.hi = um_k_get(k, hi);
    s.var = um_k_get(k, spread);
    s.inverse = um_k_div(k, one, um_k_sqrt(k, um_k_add(k, s.var, eps)));
    return s;
}

static um_val normal_of(um_kernel *k, const line *s, um_val x)
{
    um_val off = um_k_sub(k, um_k_sub(k, um_k_mul(k, x, s->scale), s->hi), s->lo);
    return um_k_mul(k, off, s->inverse);
}

/* ---- the kernel of lines -------------------------------------------------------------------- */

/* Its views, by their numbers in the walk. */
enum { V_X, V_DY, V_W, V_MEAN, V_INVERSE, V_OLD_MEAN, V_OLD_VAR, V_NEW_MEAN, V_NEW_VAR, V_COUNT };

static um_kpart part_of(const um_view *view, const um_view *other, um_klike like)
{
    return (um_kpart){view ? view : other, view ? like : UM_KLIKE_X};
}

static const um_view *output(const norm *n, int32_t index)
{
    return !n->backward && index < n->op->out_count ? &n->op->out[index] : NULL;
}

static const um_view *statistic(const norm *n, int32_t index)
{
    return um_op_has_input(n->op, index) ? &n->op->in[index] : NULL;
}

/* g = dy w, and g normal, of a line. */
static void sum_gradients(const norm *n, um_klines *l, const um_kview *v, const line *s, um_val *g,
                          um_val *product)
{
    um_kernel *k = l->k;
    um_ksum sum = um_klines_new_sum(l), products = um_klines_new_sum(l);
    um_val x_from = um_klines_from(l, &v[V_X]), dy_from = um_klines_from(l, &v[V_DY]);
    um_val w_from = n->w ? um_klines_from(l, &v[V_W]) : 0;
    um_klines_each(l);
    um_val normal = normal_of(k, s, um_klines_load(l, &v[V_X], x_from));
    um_val dy = um_klines_load(l, &v[V_DY], dy_from);
    if (n->w) dy = um_k_mul(k, dy, um_klines_load(l, &v[V_W], w_from));
    if (n->centred) um_ksum_add(k, sum, dy);
    um_ksum_add(k, products, um_k_mul(k, dy, normal));
    um_k_end(k);
    *g = n->centred ? um_klines_sum(l, sum) : um_kvalue_number(k, l->compute, 0);
    *product = um_klines_sum(l, products);
}

static void store_at(um_klines *l, const um_kview *v, um_val value)
{
    um_kview_store(l->k, v, um_klines_from(l, v), value);
}

/* keep old + (1 - keep) fresh; both may lie in the same place. */
static void store_running(um_klines *l, const um_kview *old, const um_kview *new, um_val keep,
                          um_val rest, um_val fresh)
{
    um_kernel *k = l->k;
    um_val before = um_kview_load(k, old, um_klines_from(l, old));
    store_at(l, new, um_k_add(k, um_k_mul(k, keep, before), um_k_mul(k, rest, fresh)));
}

/* The outputs that there are of each line. */
static void store_outputs(const norm *n, um_klines *l, const um_kview *v, const line *s)
{
    um_kernel *k = l->k;
    um_val mean = um_k_div(k, um_k_add(k, s->hi, s->lo), s->scale);
    if (output(n, 1)) store_at(l, &v[V_MEAN], mean);
    if (output(n, 2)) store_at(l, &v[V_INVERSE], um_k_mul(k, s->inverse, s->scale));
    if (!output(n, 4)) return;
    double keep = n->op->attrs.norm.momentum;
    um_val old = um_klaunch_real(l->launch, l->compute, keep, "keep");
    um_val rest = um_klaunch_real(l->launch, l->compute, 1 - keep, "rest");
    um_val var = um_k_div(k, um_k_div(k, s->var, s->scale), s->scale);
    store_running(l, &v[V_OLD_MEAN], &v[V_NEW_MEAN], old, rest, mean);
    store_running(l, &v[V_OLD_VAR], &v[V_NEW_VAR], old, rest, var);
}

static void declare_views(const norm *n, um_klines *l, um_kview *v)
{
    um_kwalk lead = um_klines_lead(l);
    bool running = output(n, 4) != NULL;
    const bool has[V_COUNT] = {!n->given || (n->backward && n->op->out_count > 1),
                               n->backward && !n->given,
                               n->w && n->backward && !n->given,
                               output(n, 1) != NULL,
                               output(n, 2) != NULL,
                               n->given || running,
                               n->given || running,
                               running,
                               running};
    for (int32_t i = 0; i < V_COUNT; i++) {
        bool of_line = i >= V_MEAN, out = i == V_MEAN || i == V_INVERSE || i >= V_NEW_MEAN;
        if (has[i])
            v[i] = (out ? um_kview_write : um_kview_read)(l->launch, of_line ? &lead : &l->walk, i);
    }
}

static um_status plan_lines(const norm *n)
{
    const um_op *op = n->op;
    double eps = op->attrs.norm.eps;
    um_kpart parts[V_COUNT] = {{n->x, UM_KLIKE_X},
                               part_of(n->dy, n->x, UM_KLIKE_X),
                               part_of(n->w, n->x, UM_KLIKE_WEIGHT),
                               part_of(output(n, 1), n->x, UM_KLIKE_LINE),
                               part_of(output(n, 2), n->x, UM_KLIKE_LINE),
                               part_of(statistic(n, 3), n->x, UM_KLIKE_LINE),
                               part_of(statistic(n, 4), n->x, UM_KLIKE_LINE),
                               part_of(output(n, 3), n->x, UM_KLIKE_LINE),
                               part_of(output(n, 4), n->x, UM_KLIKE_LINE)};
    um_klines l = {.walk = um_klayout_walk(&n->layout, UM_KLEAD_LINE, V_COUNT, parts),
                   .compute = n->compute};
    UM_TRY(um_klines_begin(&l, n->plan, "norm_lines"));
    um_kernel *k = l.k;
    um_klaunch *launch = l.launch;
    um_kview v[V_COUNT] = {{0}};
    declare_views(n, &l, v);
    um_knumbers numbers = um_knumbers_declare(launch, n->plan, &n->layout, n->compute);
    um_val count = um_klaunch_real(launch, n->compute, (double)l.count, "divisor"), mean[2];
    um_val e = um_klaunch_real(launch, n->compute, n->given ? eps : sqrt(eps), "eps");
    line s = n->given ? take_given(&l, &v[V_OLD_MEAN], &v[V_OLD_VAR], e)
                      : measure(n, &l, &v[V_X], count, e);
    mean[0] = mean[1] = um_kvalue_number(k, n->compute, 0);
    if (n->backward && !n->given) {
        sum_gradients(n, &l, v, &s, &mean[0], &mean[1]);
        for (int32_t i = 0; i < 2; i++) mean[i] = um_k_div(k, mean[i], count);
    }
    um_klines_once(&l);
    um_val number[NUMBERS] = {s.scale, s.hi, s.lo, s.inverse, mean[0], mean[1]};
    for (uint32_t i = 0; i < (n->backward ? NUMBERS : FORWARD_NUMBERS); i++)
        um_knumbers_store(k, &numbers, i, l.number, number[i]);
    store_outputs(n, &l, v, &s);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- elements ------------------------------------------------------------------------------- */

static line load_line(um_kernel *k, const um_knumbers *n, um_val number)
{
    return (line){.scale = um_knumbers_load(k, n, SCALE, number),
                  .hi = um_knumbers_load(k, n, HI, number),
                  .lo = um_knumbers_load(k, n, LO, number),
                  .inverse = um_knumbers_load(k, n, INVERSE, number)};
}

enum { E_OUT, E_NUMBER, E_X, E_DY, E_W, E_B, E_COUNT };

/* y; or dx. value: 0 for what is not there. */
static um_val element(um_kernel *k, const norm *n, const um_knumbers *numbers, um_val number,
                      const um_val value[E_COUNT])
{
    line s = load_line(k, numbers, number);
    um_val g = value[E_DY], w = value[E_W], b = value[E_B];
    um_val normal = normal_of(k, &s, value[E_X]);
    if (!n->backward) {
        um_val y = w ? um_k_mul(k, normal, w) : normal;
        return b ? um_k_add(k, y, b) : y;
    }
    if (w) g = um_k_mul(k, g, w);
    if (!n->given) {
        um_val product = um_knumbers_load(k, numbers, MEAN_PRODUCT, number);
        g = um_k_sub(k, g, um_knumbers_load(k, numbers, MEAN_G, number));
        g = um_k_sub(k, g, um_k_mul(k, normal, product));
    }
    um_val all = um_k_mul(k, s.inverse, s.scale), tiny, huge; /* may be no number, nor 0 */
    tiny = um_kvalue_number(k, n->compute, n->compute == UM_F64 ? 0x1p-1015 : 0x1p-120);
    huge = um_kvalue_number(k, n->compute, n->compute == UM_F64 ? 0x1p1000 : 0x1p120);
    um_val good = um_k_and(k, um_k_ge(k, all, tiny), um_k_le(k, all, huge));
    um_val in_steps = um_k_mul(k, um_k_mul(k, g, s.scale), s.inverse);
    return um_k_select(k, good, um_k_mul(k, g, all), in_steps);
}

static um_status plan_elements(const norm *n)
{
    const um_view *out = &n->op->out[0];
    um_kpart parts[E_COUNT] = {{out, UM_KLIKE_X},
                               {NULL, UM_KLIKE_NUMBER},
                               {n->x, UM_KLIKE_X},
                               part_of(n->dy, n->x, UM_KLIKE_X),
                               part_of(n->w, n->x, UM_KLIKE_WEIGHT),
                               part_of(n->b, n->x, UM_KLIKE_WEIGHT)};
    const bool has[E_COUNT] = {false, false, true, n->dy != NULL, n->w != NULL, n->b != NULL};
    um_keach each = {.walk = um_klayout_walk(&n->layout, UM_KLEAD_NONE, E_COUNT, parts)};
    um_val value[E_COUNT] = {0};
    UM_TRY(um_keach_create(&each, n->plan, um_op_name(n->op->id)));
    for (int32_t i = 0; i < E_COUNT; i++)
        if (has[i]) um_keach_read(&each, i);
    um_kview number = um_knumber_declare(each.launch, &each.walk, E_NUMBER);
    um_knumbers numbers = um_knumbers_declare(each.launch, n->plan, &n->layout, n->compute);
    um_keach_begin(&each);
    for (int32_t i = 0; i < E_COUNT; i++)
        if (has[i]) value[i] = um_keach_load_as(&each, i, n->compute);
    um_val row = um_kview_place(each.k, &number, each.walk.rank, each.place);
    um_keach_store(&each, element(each.k, n, &numbers, row, value));
    return um_keach_finish(&each);
}

/* ---- gradients of parameters ---------------------------------------------------------------- */

enum { P_X, P_DY, P_NUMBER, P_DW, P_DB, P_COUNT };

static um_status plan_parameters(const norm *n)
{
    const um_op *op = n->op;
    const um_view *dw = &op->out[1], *db = op->out_count > 2 ? &op->out[2] : NULL;
    um_kpart parts[P_COUNT] = {{n->x, UM_KLIKE_X},
                               {n->dy, UM_KLIKE_X},
                               {NULL, UM_KLIKE_NUMBER},
                               {dw, UM_KLIKE_WEIGHT},
                               part_of(db, n->x, UM_KLIKE_WEIGHT)};
    um_klines l = {.walk = um_klayout_walk(&n->layout, UM_KLEAD_WEIGHT, P_COUNT, parts),
                   .compute = n->compute};
    UM_TRY(um_klines_begin(&l, n->plan, "norm_parameters"));
    um_kernel *k = l.k;
    um_klaunch *launch = l.launch;
    um_kwalk lead = um_klines_lead(&l);
    um_kview x = um_kview_read(launch, &l.walk, P_X), dy = um_kview_read(launch, &l.walk, P_DY);
    um_kview to = um_kview_write(launch, &lead, P_DW), to_db = {0};
    if (db) to_db = um_kview_write(launch, &lead, P_DB);
    um_kview number = um_knumber_declare(launch, &l.walk, P_NUMBER);
    um_knumbers numbers = um_knumbers_declare(launch, n->plan, &n->layout, n->compute);
    um_ksum sum = um_klines_new_sum(&l), products = um_klines_new_sum(&l);
    um_val x_from = um_klines_from(&l, &x), dy_from = um_klines_from(&l, &dy);
    um_klines_each(&l);
    um_val line_number = um_kview_place(k, &number, l.walk.rank, l.place);
    line s = load_line(k, &numbers, line_number);
    um_val g = um_klines_load(&l, &dy, dy_from);
    um_val normal = normal_of(k, &s, um_klines_load(&l, &x, x_from));
    um_ksum_add(k, products, um_k_mul(k, g, normal));
    if (db) um_ksum_add(k, sum, g);
    um_k_end(k);
    um_val product = um_klines_sum(&l, products);
    um_val all = db ? um_klines_sum(&l, sum) : 0;
    um_klines_once(&l);
    store_at(&l, &to, um_kvalue_as(k, dw->dtype, product));
    if (db) store_at(&l, &to_db, um_kvalue_as(k, db->dtype, all));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- the family ----------------------------------------------------------------------------- */

static bool is_softmax(um_op_id id)
{
    return id == UM_OP_SOFTMAX || id == UM_OP_LOG_SOFTMAX || id == UM_OP_SOFTMAX_BACKWARD ||
           id == UM_OP_LOG_SOFTMAX_BACKWARD;
}

bool um_knorm_supports(const um_op *op, char *why, size_t why_size)
{
    if (op->id == UM_OP_ROPE) return true;
    if (is_softmax(op->id)) return um_ksoftmax_supports(op, why, why_size);
    norm n = norm_of(op);
    return um_klayout_fits(op, &n.layout, NUMBERS, why, why_size);
}

um_status um_knorm_plan(const um_op *op, um_kplan *plan)
{
    if (is_softmax(op->id)) return um_ksoftmax_plan(op, plan);
    if (op->id == UM_OP_ROPE) return um_krope_plan(op, plan);
    norm n = norm_of(op);
    n.plan = plan;
    um_kplan_numbers(plan, &n.layout, n.compute, n.backward ? NUMBERS : FORWARD_NUMBERS);
    if (n.layout.lines > 0) UM_TRY(plan_lines(&n));
    if (um_view_count(&op->out[0]) > 0) UM_TRY(plan_elements(&n));
    if (n.backward && op->out_count > 1 && n.layout.weights > 0) return plan_parameters(&n);
    return UM_OK;
}
