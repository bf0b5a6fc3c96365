/* The kernels of softmax, log_softmax, rms_norm, rope, embedding and attention alone, against plain
 * f64 loops: layouts, small floats, special values, and the same bits on any number of threads. */
#include "kernel_util.h"

static const um_dtype floats[] = {UM_F32, UM_F64, UM_F16, UM_BF16};

/* Within `ulps` of the type computed in and half an ulp of the type stored, relative to the larger
 * of |want| and floor. */
static bool is_near(um_dtype dtype, double got, double want, double floor, double ulps)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want)) return got == want;
    double compute = dtype_eps(dtype == UM_F64 ? UM_F64 : UM_F32);
    if (dtype == UM_F16) floor = fmax(floor, 0x1p-14);
    return fabs(got - want) <= (ulps * compute + dtype_eps(dtype) / 2) * fmax(fabs(want), floor);
}

/* ---- softmax, log_softmax ------------------------------------------------------------------- */

/* Row-major index of element i of line `line` along the axis. */
static int64_t on_line(const um_view *x, int32_t axis, int64_t line, int64_t i)
{
    int64_t inner = 1;
    for (int32_t d = axis + 1; d < x->rank; d++) inner *= x->shape[d];
    return (line / inner * x->shape[axis] + i) * inner + line % inner;
}

static void check_softmax(um_dtype dtype, int32_t axis, layout in, layout out, double scale,
                          bool logarithm)
{
    int64_t shape[] = {3, 37, 5};
    array x = array_make(dtype, 3, shape, in), y = array_make(dtype, 3, shape, out);
    array_fill(&x, scale);
    um_op op = {.id = logarithm ? UM_OP_LOG_SOFTMAX : UM_OP_SOFTMAX, .in_count = 1, .out_count = 1};
    op.attrs.axis.axis = axis - 3;
    op.in[0] = x.view, op.out[0] = y.view;
    CHECK_OK(run_op(&op));
    int64_t n = shape[axis];
    for (int64_t line = 0; line < x.count / n; line++) {
        double max = -(double)INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            max = fmax(max, array_get(&x, on_line(&x.view, axis, line, i)));
        for (int64_t i = 0; i < n; i++)
            sum += exp(array_get(&x, on_line(&x.view, axis, line, i)) - max);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = on_line(&x.view, axis, line, i);
            double shifted = array_get(&x, at) - max, got = array_get(&y, at);
            double want = logarithm ? shifted - log(sum) : exp(shifted) / sum;
            CHECK_MSG(is_near(dtype, got, want, logarithm ? 1 : 1e-7, 8), "%s axis %d: %g, want %g",
                      um_dtype_name(dtype), axis, got, want);
        }
    }
    CHECK(margins_intact(&y));
    array_free(&x), array_free(&y);
}

static void softmax(void)
{
    for (int32_t i = 0; i < 48; i++)
        check_softmax(floats[i % 4], i / 4 % 3, (layout)(i % LAYOUTS), (layout)(i / 3 % LAYOUTS),
                      i % 5 ? 3 : 40, i >= 24);
}

/* One by one, and many at once: along the first axis. */
static void softmax_special(void)
{
    for (int32_t form = 0; form < 4; form++) {
        bool logs = form % 2, columns = form / 2;
        um_op_id id = logs ? UM_OP_LOG_SOFTMAX : UM_OP_SOFTMAX;
        int64_t shape[] = {columns ? 19 : 5, columns ? 40 : 19}, line = columns ? 1 : 19,
                step = columns ? 40 : 1;
        array x = array_make(UM_F32, 2, shape, PACKED), y = array_make(UM_F32, 2, shape, PACKED);
        array_fill(&x, 1);
        for (int64_t i = 0; i < 19; i++) array_set(&x, i * step, -(double)INFINITY); /* line 0 */
        array_set(&x, line + 17 * step, (double)NAN);
        array_set(&x, 2 * line + 3 * step, (double)INFINITY);
        array_set(&x, 3 * line + 4 * step, -(double)INFINITY);
        for (int64_t i = 0; i < 19; i++) array_set(&x, 4 * line + i * step, i == 7 ? 3e38 : -3e38);
        um_op op = {.id = id, .in_count = 1, .out_count = 1, .in = {x.view}, .out = {y.view}};
        op.attrs.axis.axis = columns ? 0 : 1;
        CHECK_OK(run_op(&op));
        for (int64_t i = 0; i < 57; i++) CHECK(isnan(array_get(&y, i / 19 * line + i % 19 * step)));
        for (int64_t i = 0; i < 19; i++)
            CHECK(isfinite(array_get(&y, 3 * line + i * step)) == (i != 4 || !logs));
        CHECK(array_get(&y, 3 * line + 4 * step) == (logs ? -(double)INFINITY : 0));
        CHECK(array_get(&y, 4 * line + 7 * step) == (logs ? 0 : 1));
        array_free(&x), array_free(&y);
    }
}

static void check_any_lanes(um_op *op, array *out)
{
    op->out[0] = out->view;
    CHECK_MSG(same_bits_for_any_lanes(op, out), "%d", (int)op->id);
}

static void lines_on_any_threads(void)
{
    int64_t shape[] = {300, 700}, long_shape[] = {3, 100003};
    for (int32_t form = 0; form < 9; form++) {
        const int64_t *s = form / 3 == 1 ? long_shape : shape;
        array x = array_make(UM_F32, 2, s, PACKED), y = array_make(UM_F32, 2, s, PACKED);
        array_fill(&x, 5);
        um_op_id ids[] = {UM_OP_SOFTMAX, UM_OP_LOG_SOFTMAX, UM_OP_RMS_NORM};
        um_op op = {.id = ids[form % 3], .in_count = 1, .out_count = 1, .in = {x.view}};
        op.attrs.raw[0] = 0;
        if (op.id == UM_OP_RMS_NORM)
            op.attrs.norm.eps = 1e-5;
        else
            op.attrs.axis.axis = form < 6;
        check_any_lanes(&op, &y);
        array_free(&x), array_free(&y);
    }
}

/* ---- rms_norm ------------------------------------------------------------------------------- */

static void check_rms_norm(um_dtype dtype, layout in, layout out, bool weighted, double scale,
                           double eps)
{
    int64_t shape[] = {3, 2, 75}, w_shape[] = {75};
    array x = array_make(dtype, 3, shape, in), y = array_make(dtype, 3, shape, out);
    array w = array_make(dtype, 1, w_shape, in);
    array_fill(&x, scale), array_fill(&w, 1);
    um_op op = {.id = UM_OP_RMS_NORM, .in_count = weighted ? 2 : 1, .out_count = 1};
    op.attrs.norm.eps = eps;
    op.in[0] = x.view, op.in[1] = w.view, op.out[0] = y.view;
    CHECK_OK(run_op(&op));
    for (int64_t row = 0; row < 6; row++) {
        long double squares = 0;
        for (int64_t i = 0; i < 75; i++) {
            long double value = (long double)array_get(&x, row * 75 + i);
            squares += value * value;
        }
        long double root = sqrtl(squares / 75 + (long double)eps);
        for (int64_t i = 0; i < 75; i++) {
            double want = (double)((long double)array_get(&x, row * 75 + i) / root);
            if (weighted) want *= array_get(&w, i);
            double got = array_get(&y, row * 75 + i);
            CHECK_MSG(is_near(dtype, got, want, 1e-6, 8), "%s scale %g: %g, want %g",
                      um_dtype_name(dtype), scale, got, want);
        }
    }
    CHECK(margins_intact(&y));
    array_free(&x), array_free(&y), array_free(&w);
}

static void rms_norm(void)
{
    for (int32_t i = 0; i < 32; i++)
        check_rms_norm(floats[i % 4], (layout)(i / 4 % LAYOUTS), (layout)(i / 3 % LAYOUTS), i & 8,
                       2, 1e-5);
    static const double scales[] = {3e38, 1e25, 1e-19, 1e-25, 1e-38};
    for (size_t i = 0; i < UM_COUNT_OF(scales); i++) {
        check_rms_norm(UM_F32, PACKED, PACKED, true, scales[i], i == 3 ? 1e-50 : 0);
        check_rms_norm(UM_F32, PACKED, PACKED, true, scales[i], 1e-5);
        check_rms_norm(UM_F64, PACKED, PACKED, true, i < 2 ? 1e300 : 1e-300, 0);
    }
    check_rms_norm(UM_F32, PACKED, PACKED, true, 0, 1e-5);
}

/* ---- rope ----------------------------------------------------------------------------------- */

typedef struct rope_case {
    um_dtype dtype, ids;
    layout in, out;
    int32_t form, dims;
    int64_t offset, size;
} rope_case;

static void check_rope(const rope_case *c)
{
    int64_t shape[] = {2, 3, 5, c->size}, id_shape[] = {5},
            pairs = (c->dims ? c->dims : c->size) / 2;
    array x = array_make(c->dtype, 4, shape, c->in), y = array_make(c->dtype, 4, shape, c->out);
    array ids = array_make(c->ids ? c->ids : UM_I32, 1, id_shape, c->in);
    array_fill(&x, 2), array_fill(&ids, 1000);
    um_op op = {.id = UM_OP_ROPE, .in_count = c->ids ? 2 : 1, .out_count = 1};
    op.attrs.rope.theta = 1e4, op.attrs.rope.offset = c->offset;
    op.attrs.rope.layout = c->form, op.attrs.rope.dims = c->dims;
    op.in[0] = x.view, op.in[1] = ids.view, op.out[0] = y.view;
    CHECK_OK(run_op(&op));
    for (int64_t row = 0; row < 30; row++) {
        double position = c->ids ? array_get(&ids, row % 5) : (double)(c->offset + row % 5);
        for (int64_t i = 0; i < c->size; i++) {
            int64_t pair = c->form == UM_ROPE_INTERLEAVED ? i / 2 : i % UM_MAX(pairs, 1);
            bool second = c->form == UM_ROPE_INTERLEAVED ? i % 2 : i >= pairs;
            int64_t other = c->form == UM_ROPE_INTERLEAVED ? i ^ 1 : second ? i - pairs : i + pairs;
            double want = array_get(&x, row * c->size + i);
            if (i < 2 * pairs) {
                double angle = position * pow(1e4, -(double)pair / (double)pairs);
                double with = array_get(&x, row * c->size + other);
                want = want * cos(angle) + (second ? with : -with) * sin(angle);
            }
            double got = array_get(&y, row * c->size + i);
            CHECK_MSG(is_near(c->dtype, got, want, 2, 2), "row %d, %d: %g, want %g", (int)row,
                      (int)i, got, want);
        }
    }
    CHECK(margins_intact(&y));
    array_free(&x), array_free(&y), array_free(&ids);
}

static void rope(void)
{
    for (int32_t i = 0; i < 48; i++) {
        static const um_dtype ids[] = {UM_DTYPE_NONE, UM_I32, UM_I64};
        rope_case c = {.dtype = floats[i % 4], .ids = ids[i % 3], .in = (layout)(i / 4 % LAYOUTS)};
        c.out = (layout)(i / 3 % LAYOUTS), c.form = i / 24, c.size = i % 5 ? 16 : 9;
        c.dims = i % 5 == 0 ? 8 : i % 5 == 1 ? 6 : 0;
        c.offset = i % 7 * 100 - 10;
        check_rope(&c);
    }
    int64_t shape[] = {8, 500, 64};
    array x = array_make(UM_F32, 3, shape, PACKED), y = array_make(UM_F32, 3, shape, PACKED);
    array_fill(&x, 1);
    um_op op = {.id = UM_OP_ROPE, .in_count = 1, .out_count = 1, .in = {x.view}};
    op.attrs.rope.theta = 5e5;
    check_any_lanes(&op, &y);
    array_free(&x), array_free(&y);
}

/* ---- embedding ------------------------------------------------------------------------------ */

static void check_embedding(um_dtype dtype, um_dtype id_dtype, layout form, layout out, bool bad)
{
    int64_t t_shape[] = {7, 3, 4}, i_shape[] = {2, 3}, o_shape[] = {2, 3, 3, 4};
    array table = array_make(dtype, 3, t_shape, form), ids = array_make(id_dtype, 2, i_shape, form);
    array y = array_make(dtype, 4, o_shape, out);
    for (int64_t i = 0; i < table.count; i++)
        array_set(&table, i, (double)(dtype == UM_BOOL ? i % 2 : i));
    for (int64_t i = 0; i < 6; i++) array_set(&ids, i, (double)(i * 3 % 7));
    if (bad) array_set(&ids, 2, -1), array_set(&ids, 4, 7);
    um_op op = {.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1};
    op.in[0] = table.view, op.in[1] = ids.view, op.out[0] = y.view;
    if (bad)
        CHECK_FAILS(run_op(&op), UM_OUT_OF_RANGE,
                    "embedding: index -1, number 2 of the indices, is outside 0 to 6");
    else
        CHECK_OK(run_op(&op));
    for (int64_t i = 0; i < y.count; i++) {
        bool zero = bad && (i / 12 == 2 || i / 12 == 4);
        double want = zero ? 0 : array_get(&table, i / 12 * 3 % 7 * 12 + i % 12);
        CHECK(array_get(&y, i) == want);
    }
    CHECK(margins_intact(&y));
    array_free(&table), array_free(&ids), array_free(&y);
}

static void embedding(void)
{
    static const um_dtype dtypes[] = {UM_F32, UM_F64, UM_BF16, UM_I8, UM_BOOL, UM_U64};
    for (int32_t i = 0; i < 96; i++)
        check_embedding(dtypes[i % 6], i % 2 ? UM_I64 : UM_I32, (layout)(i / 6 % LAYOUTS),
                        (layout)(i / 24 % LAYOUTS), i % 4 == 3);
    int64_t t_shape[] = {100, 64}, i_shape[] = {9000}, o_shape[] = {9000, 64};
    array table = array_make(UM_F32, 2, t_shape, PACKED),
          ids = array_make(UM_I32, 1, i_shape, PACKED);
    array y = array_make(UM_F32, 2, o_shape, PACKED);
    array_fill(&table, 1);
    for (int64_t i = 0; i < 9000; i++) array_set(&ids, i, (double)(i * 37 % 100));
    um_op op = {.id = UM_OP_EMBEDDING, .in_count = 2, .out_count = 1, .in = {table.view, ids.view}};
    check_any_lanes(&op, &y);
    array_free(&table), array_free(&ids), array_free(&y);
}

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct attention_case {
    um_dtype dtype;
    int64_t b, h, hkv, sq, sk, d, dv;
    layout in, out;
    int32_t bias; /* 1: bool, 2: float */
    bool bias_wide;
    int32_t causal;
    int64_t window;
    double scale, softcap;
} attention_case;

typedef struct attention_set {
    array q, k, v, bias, out;
    um_op op;
} attention_set;

static attention_set attention_set_up(const attention_case *c)
{
    attention_set x;
    x.q = array_make(c->dtype, 4, (int64_t[]){c->b, c->h, c->sq, c->d}, c->in);
    x.k = array_make(c->dtype, 4, (int64_t[]){c->b, c->hkv, c->sk, c->d}, c->in);
    x.v = array_make(c->dtype, 4, (int64_t[]){c->b, c->hkv, c->sk, c->dv}, c->in);
    x.out = array_make(c->dtype, 4, (int64_t[]){c->b, c->h, c->sq, c->dv}, c->out);
    x.bias = array_make(c->bias == 1 ? UM_BOOL : c->dtype, 4,
                        (int64_t[]){c->bias_wide ? c->b : 1, c->bias_wide ? c->h : 1, c->sq, c->sk},
                        c->in);
    array_fill(&x.q, 2), array_fill(&x.k, 2), array_fill(&x.v, 2), array_fill(&x.bias, 3);
    for (int64_t i = 0; i < x.bias.count; i++) {
        if (c->bias == 1)
            array_set(&x.bias, i, i * 7 % 3 != 0);
        else if (i % 5 == 0)
            array_set(&x.bias, i, -(double)INFINITY);
    }
    x.op = (um_op){.id = UM_OP_ATTENTION, .in_count = c->bias ? 4 : 3, .out_count = 1};
    x.op.in[0] = x.q.view, x.op.in[1] = x.k.view, x.op.in[2] = x.v.view, x.op.in[3] = x.bias.view;
    x.op.out[0] = x.out.view;
    x.op.attrs.attention.scale = c->scale, x.op.attrs.attention.softcap = c->softcap;
    x.op.attrs.attention.causal = c->causal, x.op.attrs.attention.window = c->window;
    return x;
}

static void attention_tear_down(attention_set *x)
{
    array_free(&x->q), array_free(&x->k), array_free(&x->v), array_free(&x->bias),
        array_free(&x->out);
}

/* -inf: masked */
static double score_of(const attention_case *c, const attention_set *x, int64_t row, int64_t key)
{
    int64_t i = row % c->sq, h = row / c->sq % c->h, b = row / c->sq / c->h;
    int64_t own = i + (c->causal == UM_CAUSAL_TOP_LEFT ? 0 : c->sk - c->sq);
    if ((c->causal || c->window) && key > own) return -(double)INFINITY;
    if (c->window && key <= own - c->window) return -(double)INFINITY;
    double bias = 0, dot = 0;
    if (c->bias) {
        int64_t plane = c->bias_wide ? b * c->h + h : 0;
        bias = array_get(&x->bias, (plane * c->sq + i) * c->sk + key);
        if (c->bias == 1 && bias == 0) return -(double)INFINITY;
        if (c->bias == 1) bias = 0;
        if (isinf(bias)) return bias;
    }
    int64_t kv = b * c->hkv + h / (c->h / c->hkv);
    for (int64_t e = 0; e < c->d; e++)
        dot += array_get(&x->q, row * c->d + e) * array_get(&x->k, (kv * c->sk + key) * c->d + e);
    dot *= c->scale != 0 ? c->scale : 1 / sqrt((double)c->d);
    if (c->softcap > 0) dot = c->softcap * tanh(dot / c->softcap);
    return dot + bias;
}

static void check_attention_row(const attention_case *c, const attention_set *x, int64_t row)
{
    int64_t kv = row / c->sq / c->h * c->hkv + row / c->sq % c->h / (c->h / c->hkv);
    double *p = malloc(sizeof(double) * (size_t)(c->sk + 1)), max = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < c->sk; j++) max = fmax(max, p[j] = score_of(c, x, row, j));
    for (int64_t j = 0; j < c->sk; j++)
        sum += p[j] = max == -(double)INFINITY ? 0 : exp(p[j] - max);
    for (int64_t e = 0; e < c->dv; e++) {
        double want = 0, got = array_get(&x->out, row * c->dv + e);
        for (int64_t j = 0; j < c->sk; j++)
            if (p[j] > 0) want += p[j] / sum * array_get(&x->v, (kv * c->sk + j) * c->dv + e);
        CHECK_MSG(is_near(c->dtype, got, want, 1, 32), "row %d, %d: %g, want %g", (int)row, (int)e,
                  got, want);
    }
    free(p);
}

static void check_attention(const attention_case *c)
{
    attention_set x = attention_set_up(c);
    CHECK_OK(run_op(&x.op));
    for (int64_t row = 0; row < c->b * c->h * c->sq; row++) check_attention_row(c, &x, row);
    CHECK(margins_intact(&x.out));
    attention_tear_down(&x);
}

static void attention(void)
{
    static const int64_t sizes[][2] = {{1, 1},   {1, 200}, {5, 300},  {13, 130},
                                       {33, 17}, {100, 7}, {110, 260}};
    for (int32_t i = 0; i < 14 * 12; i++) {
        attention_case c = {.dtype = floats[i % 4], .b = 2, .h = 4, .hkv = i % 3 ? 2 : 4};
        c.sq = sizes[i / 2 % 7][0], c.sk = sizes[i / 2 % 7][1];
        c.d = i % 5 ? 8 : 19, c.dv = i % 7 ? 8 : 37;
        c.in = (layout)(i % 3 ? 0 : i / 3 % LAYOUTS), c.out = (layout)(i % 5 ? 0 : i / 5 % LAYOUTS);
        c.bias = i / 14 % 3, c.bias_wide = i % 2, c.causal = i / 5 % 3, c.window = i % 11 ? 0 : 6;
        c.scale = i % 4 ? 0 : 0.3, c.softcap = i % 6 ? 0 : 4;
        check_attention(&c);
    }
}

/* Keys that a query does not see hold NaN, in k and in v. */
static void attention_hides_masked(void)
{
    for (int32_t i = 0; i < 6; i++) {
        attention_case c = {.dtype = UM_F32, .b = 1, .h = 2, .hkv = 1, .d = 8, .dv = 20};
        c.sq = i % 2 ? 3 : 40, c.sk = 50, c.bias = i / 2,
        c.causal = i < 2 ? UM_CAUSAL_BOTTOM_RIGHT : 0;
        attention_set x = attention_set_up(&c);
        int64_t key = i < 2 ? 48 : 30; /* causal: the last but one query does see it */
        for (int64_t row = 0; i >= 2 && row < c.sq; row++)
            array_set(&x.bias, row * 50 + key, i < 4 ? 0 : -(double)INFINITY);
        for (int64_t e = 0; e < 8; e++) array_set(&x.k, key * 8 + e, (double)NAN);
        for (int64_t e = 0; e < 20; e++) array_set(&x.v, key * 20 + e, (double)NAN);
        CHECK_OK(run_op(&x.op));
        for (int64_t row = 0; row < c.sq * c.h; row++)
            for (int64_t e = 0; e < 20; e++)
                CHECK(isnan(array_get(&x.out, row * 20 + e)) == (i < 2 && row % c.sq >= c.sq - 2));
        attention_tear_down(&x);
    }
}

/* No key at all, only keys that score -inf, a NaN score. */
static void attention_special(void)
{
    for (int32_t i = 0; i < 2; i++) {
        attention_case c = {
            .dtype = UM_F32, .b = 1, .h = 1, .hkv = 1, .sk = 5, .d = 4, .dv = 4, .bias = 1};
        c.sq = i ? 20 : 4;
        attention_set x = attention_set_up(&c);
        for (int64_t j = 0; j < x.bias.count; j++) array_set(&x.bias, j, j / 5 % 4 != 0);
        for (int64_t j = 0; j < x.k.count; j++) array_set(&x.k, j, j % 4 ? 0 : 3e38);
        for (int64_t j = 0; j < x.q.count; j++) array_set(&x.q, j, j / 4 % 4 == 1 ? -3e38 : 0);
        for (int64_t j = 0; j < c.sq / 4; j++) array_set(&x.q, 16 * j + 8, (double)NAN);
        CHECK_OK(run_op(&x.op));
        for (int64_t j = 0; j < x.out.count; j++) {
            double got = array_get(&x.out, j);
            int64_t kind = j / 4 % 4; /* sees none; -inf; NaN; all equal */
            CHECK(kind == 0 ? got == 0 : kind == 3 ? isfinite(got) : isnan(got));
        }
        attention_tear_down(&x);
    }
}

static void attention_on_any_threads(void)
{
    attention_case cases[] = {
        {.dtype = UM_F32, .b = 2, .h = 4, .hkv = 2, .sq = 130, .sk = 150, .d = 32, .dv = 32},
        {.dtype = UM_F64, .b = 2, .h = 4, .hkv = 2, .sq = 1, .sk = 900, .d = 32, .dv = 33}};
    for (size_t i = 0; i < UM_COUNT_OF(cases); i++) {
        cases[i].causal = UM_CAUSAL_BOTTOM_RIGHT;
        attention_set x = attention_set_up(&cases[i]);
        CHECK(same_bits_for_any_lanes(&x.op, &x.out));
        attention_tear_down(&x);
    }
}

int main(void)
{
    setenv("UMBEL_THREADS", "3", 1);
    TEST(softmax);
    TEST(softmax_special);
    TEST(lines_on_any_threads);
    TEST(rms_norm);
    TEST(rope);
    TEST(embedding);
    TEST(attention);
    TEST(attention_hides_masked);
    TEST(attention_special);
    TEST(attention_on_any_threads);
    return TEST_RESULT();
}
