/* check/oracle_map.c: elementwise ops on floats, and the walk over a whole MAP op or a fused
 * program. Integers are in oracle_map_int.c. Each op is a row: its definition in long double, and
 * how far a kernel may be off, in units in the last place of the dtype it computes in.
 */
#include "check/oracle.h"

#include <math.h>

/* ---- definitions ----------------------------------------------------------------------------- */

/* Operations that IEEE 754 rounds correctly are done in double: rounding that again to 24 bits or
 * fewer gives the same as rounding once (Figueroa 1995), and f64 itself needs no second one. */
static long double add(long double a, long double b)
{
    return (long double)((double)a + (double)b);
}
static long double sub(long double a, long double b)
{
    return (long double)((double)a - (double)b);
}
static long double mul(long double a, long double b)
{
    return (long double)((double)a * (double)b);
}
static long double divide(long double a, long double b)
{
    return (long double)((double)a / (double)b);
}
static long double root(long double x) { return (long double)sqrt((double)x); }
static long double square(long double x) { return (long double)((double)x * (double)x); }

static long double negate(long double x) { return -x; }
static long double sign(long double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static long double rsqrt(long double x) { return 1 / sqrtl(x); }
static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }

static long double larger(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return (long double)NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

static long double smaller(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return (long double)NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static long double relu(long double x) { return larger(x, 0); }
static long double clamp(long double x, long double low, long double high)
{
    return smaller(larger(x, low), high);
}

/* x times a factor that goes to 0 faster than x to -inf. */
static long double gate(long double x, long double factor)
{
    return x == -(long double)INFINITY ? -0.0L : x * factor;
}

static long double gelu_factor(long double x) { return erfcl(-x / sqrtl(2)) / 2; }
static long double gelu(long double x) { return gate(x, gelu_factor(x)); }
static long double gelu_tanh(long double x)
{
    const long double root_2_over_pi = 0.797884560802865355879892119868763737L;
    long double t = root_2_over_pi * (x + 0.044715L * x * x * x);
    return gate(x, 1 / (1 + expl(-2 * t))); /* (1 + tanh t) / 2 */
}
static long double silu(long double x) { return gate(x, sigmoid(x)); }
static long double softplus(long double x) { return larger(x, 0) + log1pl(expl(-fabsl(x))); }
static long double mish_factor(long double x) { return tanhl(softplus(x)); }
static long double mish(long double x) { return gate(x, mish_factor(x)); }
static long double hardswish(long double x)
{
    return isinf(x) && x > 0 ? x : gate(x, clamp(x + 3, 0, 6) / 6);
}
static long double elu(long double x, long double a) { return x > 0 ? x : a * expm1l(x); }
static long double leaky_relu(long double x, long double a) { return x >= 0 ? x : a * x; }

static long double logaddexp(long double a, long double b)
{
    if (a == b) return a + (isinf(a) ? 0 : logl(2));
    return larger(a, b) + log1pl(expl(-fabsl(a - b)));
}

static long double remainder_of(long double a, long double b)
{
    long double r = fmodl(a, b);
    if (r == 0) return copysignl(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static long double fused(long double a, long double b, long double c)
{
    return (long double)fma((double)a, (double)b, (double)c);
}

static long double fused_f32(long double a, long double b, long double c)
{
    return (long double)fmaf((float)a, (float)b, (float)c);
}

static long double pick(long double c, long double a, long double b) { return c != 0 ? a : b; }

static long double is_zero(long double x) { return x == 0; }
static long double is_nan(long double x) { return isnan(x); }
static long double is_inf(long double x) { return isinf(x) != 0; }
static long double equal(long double a, long double b) { return a == b; }
static long double unequal(long double a, long double b) { return a != b; }
static long double less(long double a, long double b) { return a < b; }
static long double less_equal(long double a, long double b) { return a <= b; }
static long double greater(long double a, long double b) { return a > b; }
static long double greater_equal(long double a, long double b) { return a >= b; }
static long double both(long double a, long double b) { return a != 0 && b != 0; }
static long double either(long double a, long double b) { return a != 0 || b != 0; }
static long double one_of(long double a, long double b) { return (a != 0) != (b != 0); }

/* ---- rows ------------------------------------------------------------------------------------ */

typedef long double (*real_fn1)(long double);
typedef long double (*real_fn2)(long double, long double);
typedef long double (*real_fn3)(long double, long double, long double);

/* A number with how far off it may be; loose: or more, by what was lost of it. */
typedef struct inexact {
    long double value;
    double err;
    bool loose;
} inexact;

typedef inexact (*composed_fn)(um_dtype work, inexact x, inexact y, inexact z);

static inexact step(um_dtype work, um_op_id op, double value, inexact a, inexact b, inexact c)
{
    const long double x[3] = {a.value, b.value, c.value};
    const double err[3] = {a.err, b.err, c.err};
    um_expect expect = um_oracle_map_float(op, work, x, err, value);
    double rounded = um_oracle_round(work, expect.want);
    double off = (double)fabsl((long double)rounded - expect.want);
    bool overflows = isinf(rounded) && isfinite(expect.want);
    return (inexact){(long double)rounded, isfinite(rounded) ? expect.bound + off : 0,
                     a.loose || b.loose || c.loose || expect.judge == UM_JUDGE_LOOSE || overflows};
}

/* Constants and ops of UM_MAP_AS. */
static inexact number(um_dtype work, double value)
{
    return (inexact){(long double)um_oracle_round(work, (long double)value), 0, false};
}

#define NOTHING              number(work, 0)
#define UM_NUM(value)        number(work, value)
#define UM_E1(name, a)       step(work, um_op_find(#name), 0, a, NOTHING, NOTHING)
#define UM_E2(name, a, b)    step(work, um_op_find(#name), 0, a, b, NOTHING)
#define UM_E3(name, a, b, c) step(work, um_op_find(#name), 0, a, b, c)
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)
#define UM_MAP_AS(id, NAME, name, arity, dtypes, result, doc, as)                                  \
    static inexact as_##name(um_dtype work, inexact x, inexact y, inexact z)                       \
    {                                                                                              \
        return (void)x, (void)y, (void)z, as;                                                      \
    }
#include <umbel/op.def>

/* ulps: 0 is exact. The contract: 2, and 4 for exp, log, tanh, sin, cos, erf, pow and their kin.
 * factor, times: the result is x times factor(x), and that factor may be off by `times` steps. */
typedef struct map_rule {
    real_fn1 f1;
    real_fn2 f2;
    real_fn3 f3;
    double ulps;
    real_fn1 factor;
    double times;
    bool takes_a, is_test;
    composed_fn composed; /* instead of all of them */
} map_rule;

static const map_rule rules[] = {
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc)
#define UM_MAP_AS(id, NAME, name, arity, dtypes, result, doc, as) [id] = {.composed = as_##name},
#include <umbel/op.def>
    [UM_OP_NEG] = {.f1 = negate},
    [UM_OP_ABS] = {.f1 = fabsl},
    [UM_OP_SIGN] = {.f1 = sign},
    [UM_OP_SQUARE] = {.f1 = square},
    [UM_OP_RELU] = {.f1 = relu},
    [UM_OP_SIGMOID] = {.f1 = sigmoid, .ulps = 4},
    [UM_OP_TANH] = {.f1 = tanhl, .ulps = 4},
    [UM_OP_EXP] = {.f1 = expl, .ulps = 4},
    [UM_OP_EXP2] = {.f1 = exp2l, .ulps = 4},
    [UM_OP_EXPM1] = {.f1 = expm1l, .ulps = 4},
    [UM_OP_LOG] = {.f1 = logl, .ulps = 4},
    [UM_OP_LOG1P] = {.f1 = log1pl, .ulps = 4},
    [UM_OP_LOG2] = {.f1 = log2l, .ulps = 4},
    [UM_OP_LOG10] = {.f1 = log10l, .ulps = 4},
    [UM_OP_SQRT] = {.f1 = root},
    [UM_OP_RSQRT] = {.f1 = rsqrt, .ulps = 2},
    [UM_OP_SIN] = {.f1 = sinl, .ulps = 4},
    [UM_OP_COS] = {.f1 = cosl, .ulps = 4},
    [UM_OP_TAN] = {.f1 = tanl, .ulps = 4},
    [UM_OP_ASIN] = {.f1 = asinl, .ulps = 2},
    [UM_OP_ACOS] = {.f1 = acosl, .ulps = 2},
    [UM_OP_ATAN] = {.f1 = atanl, .ulps = 2},
    [UM_OP_SINH] = {.f1 = sinhl, .ulps = 2},
    [UM_OP_COSH] = {.f1 = coshl, .ulps = 2},
    [UM_OP_ASINH] = {.f1 = asinhl, .ulps = 2},
    [UM_OP_ACOSH] = {.f1 = acoshl, .ulps = 2},
    [UM_OP_ATANH] = {.f1 = atanhl, .ulps = 2},
    [UM_OP_FLOOR] = {.f1 = floorl},
    [UM_OP_CEIL] = {.f1 = ceill},
    [UM_OP_TRUNC] = {.f1 = truncl},
    [UM_OP_ROUND] = {.f1 = rintl},
    [UM_OP_ERF] = {.f1 = erfl, .ulps = 4},
    [UM_OP_GELU] = {.f1 = gelu, .ulps = 4},
    [UM_OP_GELU_TANH] = {.f1 = gelu_tanh, .ulps = 4},
    [UM_OP_SILU] = {.f1 = silu, .ulps = 1, .factor = sigmoid, .times = 4},
    [UM_OP_SOFTPLUS] = {.f1 = softplus, .ulps = 5},
    [UM_OP_MISH] = {.f1 = mish, .ulps = 1, .factor = mish_factor, .times = 6},
    [UM_OP_HARDSWISH] = {.f1 = hardswish, .ulps = 3},
    [UM_OP_ELU] = {.f2 = elu, .ulps = 1, .factor = expm1l, .times = 5, .takes_a = true},
    [UM_OP_LEAKY_RELU] = {.f2 = leaky_relu, .ulps = 2, .takes_a = true},
    [UM_OP_LOGICAL_NOT] = {.f1 = is_zero, .is_test = true},
    [UM_OP_ISNAN] = {.f1 = is_nan, .is_test = true},
    [UM_OP_ISINF] = {.f1 = is_inf, .is_test = true},
    [UM_OP_ADD] = {.f2 = add},
    [UM_OP_SUB] = {.f2 = sub},
    [UM_OP_MUL] = {.f2 = mul},
    [UM_OP_DIV] = {.f2 = divide},
    [UM_OP_MAX] = {.f2 = larger},
    [UM_OP_MIN] = {.f2 = smaller},
    [UM_OP_POW] = {.f2 = powl, .ulps = 4},
    [UM_OP_ATAN2] = {.f2 = atan2l, .ulps = 2},
    [UM_OP_HYPOT] = {.f2 = hypotl, .ulps = 2},
    [UM_OP_REMAINDER] = {.f2 = remainder_of, .ulps = 1},
    [UM_OP_FMOD] = {.f2 = fmodl},
    [UM_OP_EQ] = {.f2 = equal, .is_test = true},
    [UM_OP_NE] = {.f2 = unequal, .is_test = true},
    [UM_OP_LT] = {.f2 = less, .is_test = true},
    [UM_OP_LE] = {.f2 = less_equal, .is_test = true},
    [UM_OP_GT] = {.f2 = greater, .is_test = true},
    [UM_OP_GE] = {.f2 = greater_equal, .is_test = true},
    [UM_OP_LOGICAL_AND] = {.f2 = both, .is_test = true},
    [UM_OP_LOGICAL_OR] = {.f2 = either, .is_test = true},
    [UM_OP_LOGICAL_XOR] = {.f2 = one_of, .is_test = true},
    [UM_OP_LOGADDEXP] = {.f2 = logaddexp, .ulps = 1},
    [UM_OP_WHERE] = {.f3 = pick},
    [UM_OP_CLAMP] = {.f3 = clamp},
    [UM_OP_FMA] = {.f3 = fused},
};

bool um_oracle_map_is_test(um_op_id op) { return rules[op].is_test; }

int32_t um_oracle_map_arity(um_op_id op)
{
    static const int32_t arity[] = {
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)        \
    [id] = 0,
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc) [id] = arity,
#include <umbel/op.def>
    };
    return arity[op];
}

/* ---- one value ------------------------------------------------------------------------------- */

static long double evaluate(const map_rule *rule, const long double *x, double a)
{
    if (rule->f1) return rule->f1(x[0]);
    if (rule->f2) return rule->f2(x[0], rule->takes_a ? (long double)a : x[1]);
    return rule->f3(x[0], x[1], x[2]);
}

/* Of max + log1p(exp(-|a - b|)): the sum's two parts, and the rounding of the difference. */
static double logaddexp_bound(um_dtype work, long double a, long double b)
{
    if (!isfinite(a) || !isfinite(b)) return 0;
    long double off = fabsl(a - b), rest = log1pl(expl(-off));
    return 2 * um_oracle_ulp(work, larger(a, b)) + 5 * um_oracle_ulp(work, rest) +
           um_oracle_ulp(work, off) * (double)rest;
}

/* What the contract's definition loses even when every step is right to the last place. */
static double composed_bound(um_op_id op, um_dtype work, const long double *x, double a)
{
    const map_rule *rule = &rules[op];
    double size = (double)fabsl(x[0]);
    if (!isfinite(size)) return 0;
    switch (op) {
    case UM_OP_GELU: return size * um_oracle_eps(work); /* 1 + erf */
    case UM_OP_GELU_TANH: return 2 * size * um_oracle_eps(work);
    case UM_OP_ELU: return rule->times * fabs(a) * um_oracle_ulp(work, expm1l(x[0]));
    case UM_OP_LOGADDEXP: return logaddexp_bound(work, x[0], x[1]);
    default: return rule->factor ? rule->times * size * um_oracle_ulp(work, rule->factor(x[0])) : 0;
    }
}

static double own_bound(um_op_id op, um_dtype work, const long double *x, double a,
                        long double want)
{
    if ((op == UM_OP_ELU && x[0] > 0) || (op == UM_OP_LEAKY_RELU && x[0] >= 0)) return 0;
    if (op == UM_OP_REMAINDER && want == 0) return UM_ANY_ZERO;
    if (rules[op].ulps == 0 || !isfinite(want)) return 0;
    double bound = composed_bound(op, work, x, a);
    return want == 0 && bound == 0 ? 0 : bound + rules[op].ulps * um_oracle_ulp(work, want);
}

/* How far the result moves when input k moves by its error. */
static double moved_by(const map_rule *rule, const long double *x, int k, double err, double a,
                       long double want)
{
    long double moved[3] = {x[0], x[1], x[2]};
    moved[k] = x[k] + (long double)err;
    long double up = fabsl(evaluate(rule, moved, a) - want);
    moved[k] = x[k] - (long double)err;
    long double down = fabsl(evaluate(rule, moved, a) - want);
    return (double)(up > down || isnan(up) ? up : down);
}

static um_expect expect_of(inexact a)
{
    um_expect expect = um_expect_near(a.value, a.err);
    if (a.loose) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static um_expect composed(const map_rule *rule, um_dtype work, const long double *x,
                          const double *err, int32_t arity)
{
    inexact in[3] = {{0}};
    for (int k = 0; k < arity; k++) in[k] = (inexact){x[k], err ? err[k] : 0, false};
    return expect_of(rule->composed(work, in[0], in[1], in[2]));
}

um_expect um_oracle_map_float(um_op_id op, um_dtype work, const long double *x, const double *err,
                              double a)
{
    static const map_rule fma_f32 = {.f3 = fused_f32};
    const map_rule *rule = op == UM_OP_FMA && work == UM_F32 ? &fma_f32 : &rules[op];
    if (rule->composed) return composed(rule, work, x, err, um_oracle_map_arity(op));
    um_expect expect = um_expect_near(evaluate(rule, x, a), 0);
    expect.bound = own_bound(op, work, x, a, expect.want);
    for (int k = 0; err && k < um_oracle_map_arity(op); k++)
        if (err[k] > 0 && isfinite(x[k]))
            expect.bound += moved_by(rule, x, k, err[k], a, expect.want);
    if (!isfinite(expect.bound)) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

/* ---- a fused program ------------------------------------------------------------------------- */

typedef struct map_state {
    inexact real[UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS];
    um_num num[UM_MAP_MAX_INPUTS + UM_MAP_MAX_INSTS];
} map_state;

static void step_float(map_state *state, const um_map_inst *inst, um_dtype dtype, int at)
{
    um_dtype work = um_oracle_worker(dtype);
    inexact x[3] = {{0}};
    long double real[3] = {0};
    if (inst->op == UM_OP_FILL) {
        state->real[at] = number(dtype, inst->value);
        return;
    }
    double err = 0;
    for (int k = 0; k < um_oracle_map_arity(inst->op); k++) {
        x[k] = state->real[inst->src[k]];
        err += x[k].err;
        real[k] = x[k].value;
    }
    state->real[at] = step(work, inst->op, inst->value, x[0], x[1], x[2]);
    /* Of exact values an exact op makes what a kernel has to the bit. */
    if (err == 0 && um_oracle_map_float(inst->op, work, real, NULL, inst->value).bound == 0)
        state->real[at].err = 0;
}

static void step_int(map_state *state, const um_map_inst *inst, um_dtype dtype, int at)
{
    um_num x[3] = {{0}};
    if (inst->op == UM_OP_FILL) {
        state->num[at] = um_oracle_convert(dtype, UM_F64, (um_num){.f = inst->value});
        return;
    }
    for (int k = 0; k < um_oracle_map_arity(inst->op); k++) x[k] = state->num[inst->src[k]];
    state->num[at] = um_oracle_map_int(inst->op, dtype, x);
}

static um_expect finish_program(const map_state *state, const um_map_program *program, um_dtype out,
                                int last)
{
    if (!um_oracle_is_float(program->dtype)) {
        um_num num = um_oracle_convert(out, program->dtype, state->num[last]);
        return um_oracle_is_float(out) ? um_expect_near((long double)num.f, 0) : um_expect_num(num);
    }
    return expect_of(state->real[last]);
}

um_expect um_oracle_program(const um_map_program *program, int32_t in_count, const um_dtype *dtype,
                            const um_num *in, double err, um_dtype out)
{
    bool is_float = um_oracle_is_float(program->dtype);
    map_state state = {.num = {{0}}};
    for (int k = 0; k < in_count; k++) {
        um_num num = um_oracle_convert(program->dtype, dtype[k], in[k]);
        state.num[k] = num;
        state.real[k].value = is_float ? (long double)num.f : 0;
    }
    state.real[0].err = err;
    int at = in_count;
    for (int i = 0; i < program->inst_count; i++, at++) {
        if (is_float)
            step_float(&state, &program->inst[i], program->dtype, at);
        else
            step_int(&state, &program->inst[i], program->dtype, at);
    }
    return finish_program(&state, program, out, at - 1);
}

/* ---- a whole op ------------------------------------------------------------------------------ */

/* Where output element `index` finds its value in an input that broadcasts to the output. */
static int64_t find_source(const um_array *in, const um_array *out, int64_t index)
{
    int64_t at = 0, step = 1;
    for (int32_t axis = out->rank - 1, own = in->rank - 1; axis >= 0; axis--, own--) {
        int64_t place = index % out->shape[axis];
        index /= out->shape[axis];
        if (own < 0) continue;
        if (in->shape[own] != 1) at += place * step;
        step *= in->shape[own];
    }
    return at;
}

static um_expect pick_num(const um_num *x, um_dtype dtype)
{
    um_num num = x[0].i ? x[1] : x[2];
    return um_oracle_is_float(dtype) ? um_expect_near((long double)num.f, 0) : um_expect_num(num);
}

static um_expect map_element(const um_op *op, const um_array *in, const um_num *x)
{
    um_dtype dtype = in[0].dtype;
    if (op->id == UM_OP_WHERE) return pick_num(x, in[1].dtype);
    if (!um_oracle_is_float(dtype)) return um_expect_num(um_oracle_map_int(op->id, dtype, x));
    long double real[3] = {0};
    for (int k = 0; k < op->in_count; k++) real[k] = (long double)x[k].f;
    um_expect expect =
        um_oracle_map_float(op->id, um_oracle_worker(dtype), real, NULL, op->attrs.map.a);
    return rules[op->id].is_test ? um_expect_num((um_num){.i = expect.want != 0}) : expect;
}

um_status um_oracle_map(const um_op *op, const um_array *in, const um_array *out, um_expect *expect)
{
    for (int64_t i = 0; i < out->count; i++) {
        um_num x[UM_MAP_MAX_INPUTS];
        um_dtype dtype[UM_MAP_MAX_INPUTS];
        for (int k = 0; k < op->in_count; k++) {
            x[k] = in[k].item[find_source(&in[k], out, i)];
            dtype[k] = in[k].dtype;
        }
        expect[i] = op->id == UM_OP_MAP ? um_oracle_program(op->attrs.program, op->in_count, dtype,
                                                            x, 0, out->dtype)
                                        : map_element(op, in, x);
    }
    return UM_OK;
}
