/* kernel/matmul.c: the matrix product: scale * (activation(alpha * a b + beta * c + bias) +
 * residual). How products are summed: product.c. */
#include "kernel/library.h"

/* Input i is A + i. ADDED: c, bias, residual; from RIDING on, what a program reads. */
enum { OUT, A, B, ADDED, RIDING = ADDED + 3, VIEWS = 1 + UM_OP_MAX_INPUTS };

/* What of it is there is decided here: what is not read has no parameter. */
typedef struct matmul {
    const um_op *op;
    um_dtype compute;
    bool has[VIEWS];
    int32_t axes; /* of the batch; a row and a column follow */
    um_kwalk walk;
    int32_t at[VIEWS]; /* which of the walk's views */
    um_kview view[VIEWS];
    um_val base[VIEWS]; /* of the batch entry */
    um_val size[UM_MAX_RANK], alpha, beta, scale;
    bool rides;
    um_rider rider;
} matmul;

/* ---- what there is -------------------------------------------------------------------------- */

static const um_view *view_of(const um_op *op, int32_t v)
{
    return v == OUT ? &op->out[0] : &op->in[v - A];
}

/* A walk over the axes of the batch, and behind them the row and the column of each view. */
static void make_walk(matmul *m)
{
    const um_view *views[VIEWS];
    um_view outer[VIEWS];
    const um_view *outers[VIEWS];
    int32_t count = 0, last = m->op->out[0].rank - 1;
    for (int32_t v = 0; v < VIEWS; v++) {
        if (!m->has[v]) continue;
        m->at[v] = count;
        views[count] = view_of(m->op, v);
        outer[count] = *views[count];
        outer[count].rank -= 2;
        outers[count] = &outer[count];
        count++;
    }
    m->walk = um_kwalk_make(count, outers, 0);
    m->axes = m->walk.rank;
    m->walk.rank += 2;
    for (int32_t v = 0; v < count; v++) {
        m->walk.view[v] = views[v];
        m->walk.stride[v][m->axes] = views[v]->stride[last - 1];
        m->walk.stride[v][m->axes + 1] = views[v]->stride[last];
    }
}

static matmul matmul_of(const um_op *op)
{
    const um_view *a = &op->in[0];
    bool product = op->attrs.matmul.alpha != 0 && a->shape[a->rank - 1] > 0;
    matmul m = {.op = op, .compute = um_op_made_dtype(op)};
    m.has[OUT] = true;
    m.has[A] = m.has[B] = product;
    m.has[ADDED] = op->attrs.matmul.beta != 0;
    m.has[ADDED + 1] = um_op_has_input(op, 3);
    m.has[ADDED + 2] = um_op_has_input(op, 4);
    for (int32_t v = RIDING; v < VIEWS; v++) m.has[v] = um_op_has_input(op, v - A);
    m.rides = um_op_rider(op, UM_EPILOGUE, &m.rider);
    make_walk(&m);
    return m;
}

bool um_kmatmul_supports(const um_op *op, char *why, size_t why_size)
{
    matmul m = matmul_of(op);
    if (!um_kop_fits(op, why, why_size)) return false;
    if ((m.walk.view_count + 1) * (m.walk.rank + 1) + 12 <= UM_K_MAX_SCALARS) return true;
    return um_kplan_refuse(op, why, why_size, "for so many axes of the batch");
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* What an invocation of a tile writes, elements of a row from a multiple of 4, are whole words. */
static um_kstore store_of(const um_view *out, bool in_fours)
{
    int32_t last = out->rank - 1;
    if (um_dtype_bits(out->dtype) >= 32) return UM_KSTORE_PLAIN;
    int64_t each = 32 / um_dtype_bits(out->dtype);
    bool whole =
        in_fours && out->ptr % 4 == 0 && out->stride[last] == 1 && out->shape[last] % each == 0;
    for (int32_t axis = 0; axis < last; axis++)
        whole = whole && (out->stride[axis] % each == 0 || out->shape[axis] == 1);
    return whole ? UM_KSTORE_WORDS : UM_KSTORE_ATOMIC;
}

static void declare(void *ctx, um_klaunch *launch, int32_t parts, bool in_fours)
{
    matmul *m = ctx;
    double alpha = m->op->attrs.matmul.alpha, beta = m->op->attrs.matmul.beta;
    double scale = m->op->attrs.matmul.scale;
    um_kwalk_sizes(launch, &m->walk, 0, m->axes, m->size);
    for (int32_t v = 0; v < VIEWS; v++) {
        int32_t part = v == A || v == B ? UM_KPRODUCT_FACTORS : UM_KPRODUCT_RESULT;
        m->view[v].mem = 0;
        if (!m->has[v] || !(parts & part)) continue;
        m->view[v] = v == OUT
                         ? um_kview_output(launch, &m->walk, store_of(&m->op->out[0], in_fours))
                     : v < ADDED ? um_kview_read(launch, &m->walk, m->at[v])
                                 : um_kview_input(launch, &m->walk, m->at[v], &m->view[OUT]);
    }
    if (m->has[A] && alpha != 1) m->alpha = um_klaunch_real(launch, m->compute, alpha, "alpha");
    if (m->has[ADDED] && beta != 1) m->beta = um_klaunch_real(launch, m->compute, beta, "beta");
    if (scale != 0 && scale != 1) m->scale = um_klaunch_real(launch, m->compute, scale, "scale");
}

/* ---- elements ------------------------------------------------------------------------------- */

static void begin(void *ctx, um_kernel *k, um_val batch)
{
    matmul *m = ctx;
    um_val place[UM_MAX_RANK] = {0};
    um_kwalk_places(k, batch, 0, m->axes, m->size, place);
    for (int32_t v = 0; v < VIEWS; v++)
        if (m->view[v].mem) m->base[v] = um_kview_place(k, &m->view[v], m->axes, place);
}

static um_val index_of(const matmul *m, um_kernel *k, int32_t v, um_val row, um_val column)
{
    um_val place[UM_MAX_RANK] = {0};
    place[m->axes] = row;
    place[m->axes + 1] = column;
    return um_kview_index(k, &m->view[v], m->base[v], m->axes, m->axes + 2, place);
}

static um_val operand(const matmul *m, um_kernel *k, int32_t v, um_val index, um_val in,
                      int32_t lanes)
{
    um_dtype dtype = m->view[v].dtype, to = m->op->attrs.matmul.round_to;
    um_val zero = um_k_splat(k, lanes, um_k_const(k, dtype, 0));
    um_val x = um_k_load_if(k, m->view[v].mem, index, in, zero);
    return to ? um_kvalue_as(k, to, x) : x;
}

static um_val element_a(void *ctx, um_kernel *k, um_val row, um_val depth, um_val in, int32_t lanes)
{
    return operand(ctx, k, A, index_of(ctx, k, A, row, depth), in, lanes);
}

static um_val element_b(void *ctx, um_kernel *k, um_val column, um_val depth, um_val in,
                        int32_t lanes)
{
    return operand(ctx, k, B, index_of(ctx, k, B, depth, column), in, lanes);
}

static um_val place_of(void *ctx, um_kernel *k, bool of_b, um_val place, um_val depth, um_mem *mem)
{
    const matmul *m = ctx;
    int32_t v = of_b ? B : A;
    *mem = m->view[v].mem;
    return index_of(m, k, v, of_b ? depth : place, of_b ? place : depth);
}

/* A dtype of matrix units in which all of the factors' numbers are. */
um_dtype um_kproduct_narrow(um_dtype dtype)
{
    if (dtype == UM_F16 || dtype == UM_BF16 || dtype == UM_I8) return dtype;
    if (dtype == UM_F64 || dtype == UM_F32) return dtype;
    bool small = dtype == UM_F8E4M3FN || dtype == UM_F8E4M3FNUZ || dtype == UM_F8E5M2 ||
                 dtype == UM_F8E5M2FNUZ;
    return small ? UM_F16 : UM_DTYPE_NONE;
}

/* x + y, of which one may be none: 0. */
static um_val plus(um_kernel *k, um_val x, um_val y)
{
    return x && y ? um_k_add(k, x, y) : x ? x : y;
}

static um_val times(um_kernel *k, um_val x, um_val y) { return y ? um_k_mul(k, x, y) : x; }

static um_val load(const matmul *m, um_kernel *k, int32_t v, um_val row, um_val column)
{
    return um_kview_load(k, &m->view[v], index_of(m, k, v, row, column));
}

static um_val added(const matmul *m, um_kernel *k, int32_t v, um_val row, um_val column)
{
    return m->has[v] ? um_kvalue_as(k, m->compute, load(m, k, v, row, column)) : 0;
}

static um_val run_rider(const matmul *m, um_kernel *k, um_val row, um_val column, um_val x)
{
    um_val in[UM_MAP_MAX_INPUTS] = {x};
    for (int32_t i = 1; i < m->rider.in_count; i++)
        in[i] = load(m, k, A + m->rider.input[i], row, column);
    return um_kprogram_run(k, &m->rider.program, m->rider.in_count, in);
}

static void finish(void *ctx, um_kernel *k, um_val row, um_val column, um_val sum)
{
    const matmul *m = ctx;
    um_op_id activation = m->op->attrs.matmul.activation;
    um_val x = m->has[A] ? times(k, sum, m->alpha) : 0, c = added(m, k, ADDED, row, column);
    if (c) x = plus(k, x, times(k, c, m->beta));
    x = plus(k, x, added(m, k, ADDED + 1, row, column));
    if (!x) x = um_kvalue_number(k, m->compute, 0);
    if (activation) x = um_kvalue_map(k, activation, &x, m->op->attrs.matmul.a);
    x = times(k, plus(k, x, added(m, k, ADDED + 2, row, column)), m->scale);
    if (m->rides) x = run_rider(m, k, row, column, x);
    um_kview_store(k, &m->view[OUT], index_of(m, k, OUT, row, column),
                   um_kvalue_as(k, m->op->out[0].dtype, x));
}

um_status um_kmatmul_plan(const um_op *op, um_kplan *plan)
{
    const um_view *out = &op->out[0], *a = &op->in[0], *b = &op->in[1];
    int32_t last = out->rank - 1;
    matmul m = matmul_of(op);
    um_kproduct p = {.compute = m.compute,
                     .ctx = &m,
                     .declare = declare,
                     .begin = begin,
                     .a = element_a,
                     .b = element_b,
                     .finish = finish,
                     .rows = out->shape[last - 1],
                     .columns = out->shape[last],
                     .depth = m.has[A] ? a->shape[last] : 0,
                     .a_deep = a->stride[last] == 1,
                     .b_deep = b->stride[last - 1] == 1};
    p.a_lanes = um_kwalk_lanes(a, p.a_deep ? last : last - 1);
    p.b_lanes = um_kwalk_lanes(b, p.b_deep ? last - 1 : last);
    um_dtype to = op->attrs.matmul.round_to, from = to ? to : a->dtype;
    if (a->dtype == b->dtype) p.narrow = um_kproduct_narrow(from);
    if (p.narrow == a->dtype) p.at = place_of;
    int64_t whole = 128 / um_dtype_bits(a->dtype);
    p.a_whole = um_kwalk_joins(a, p.a_deep ? last : last - 1, whole);
    p.b_whole = um_kwalk_joins(b, p.b_deep ? last - 1 : last, whole);
    p.batches = um_view_count(out) / p.rows / p.columns;
    return um_kproduct_plan("matmul", plan, &p);
}
