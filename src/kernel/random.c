/* kernel/random.c: random numbers and dropout. An invocation makes the elements of one call of the
 * generator: four of its 32-bit words, or two of 64 bits. Where words come from: op/random.c. */
#include "kernel/library.h"

#include "ir/math.h"

#include <math.h>

enum { WORDS = 4, NUMBERS = 4 };

typedef struct draw {
    const um_op *op;
    um_kernel *k;
    um_klaunch *launch;
    um_dtype dtype;
    bool wide;     /* 64 bits an element */
    um_kwalk walk; /* the outputs and the input */
    um_kview view[3];
    um_val size[UM_MAX_RANK], count;
    um_val number[NUMBERS]; /* of the op, of what is computed in; or words */
    um_val word[WORDS];
    um_val normal[WORDS];
} draw;

static bool is_hit_op(const um_op *op)
{
    return op->id == UM_OP_RANDOM_BERNOULLI || op->id == UM_OP_DROPOUT;
}

bool um_krandom_supports(const um_op *op, char *why, size_t why_size)
{
    if (op->id != UM_OP_RANDOM_PERMUTATION) return true;
    return um_korder_fits(op, um_view_count(&op->out[0]), why, why_size);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The words of call number `call`: Philox 4x32-10. */
static void draw_words(draw *d, um_val call)
{
    um_kernel *k = d->k;
    uint64_t seed = d->op->attrs.random.seed, offset = d->op->attrs.random.offset;
    um_val a = um_klaunch_scalar(d->launch, seed, "key0");
    um_val b = um_klaunch_scalar(d->launch, seed >> 32, "key1");
    um_val low = um_klaunch_scalar(d->launch, offset, "from0");
    um_val high = um_klaunch_scalar(d->launch, offset >> 32, "from1");
    um_val *x = d->word, next[WORDS];
    um_val first = um_k_u32(k, 0xD2511F53u), second = um_k_u32(k, 0xCD9E8D57u);
    x[0] = um_k_add(k, low, call);
    x[1] = um_k_add(k, high, um_k_convert(k, UM_U32, um_k_lt(k, x[0], low)));
    x[2] = x[3] = um_k_u32(k, 0);
    for (uint32_t round = 0; round < 10; round++) {
        um_val k0 = um_k_add(k, a, um_k_u32(k, round * 0x9E3779B9u));
        um_val k1 = um_k_add(k, b, um_k_u32(k, round * 0xBB67AE85u));
        next[0] = um_k_xor(k, um_k_xor(k, um_k_mul_high(k, second, x[2]), x[1]), k0);
        next[1] = um_k_mul(k, second, x[2]);
        next[2] = um_k_xor(k, um_k_xor(k, um_k_mul_high(k, first, x[0]), x[3]), k1);
        next[3] = um_k_mul(k, first, x[0]);
        memcpy(x, next, sizeof next);
    }
}

static um_val wide_word(const draw *d, int32_t j)
{
    return um_k_bitcast(d->k, UM_U64, 1, um_k_vector(d->k, 2, &d->word[2 * j]));
}

/* Word j, its upper `bits`, as a float (plus `more`) that holds it, times 2^-bits. */
static um_val unit(const draw *d, um_dtype compute, int32_t j, uint32_t bits, uint32_t more)
{
    um_kernel *k = d->k;
    um_val w = d->wide ? wide_word(d, j) : d->word[j];
    um_dtype dtype = d->wide ? UM_U64 : UM_U32;
    w = um_k_shr(k, w, um_k_const(k, dtype, (d->wide ? 64u : 32u) - bits));
    if (more) w = um_k_add(k, w, um_k_const(k, dtype, more));
    return um_k_mul(k, um_k_convert(k, compute, w),
                    um_kvalue_number(k, compute, ldexp(1, -(int)bits)));
}

/* ---- normal numbers: values in two parts ---------------------------------------------------- */

typedef struct parts {
    um_val high, low;
} parts;

static parts times(um_kernel *k, parts a, parts b)
{
    parts p;
    p.high = um_k_product(k, a.high, b.high, &p.low);
    um_val rest = um_k_add(k, um_k_mul(k, a.high, b.low), um_k_mul(k, a.low, b.high));
    p.low = um_k_add(k, p.low, rest);
    return p;
}

static um_val sum_of(um_kernel *k, parts a, parts b)
{
    um_val lost, s = um_k_sum(k, a.high, b.high, &lost);
    return um_k_add(k, s, um_k_add(k, lost, um_k_add(k, a.low, b.low)));
}

/* c[0] + x c[1] + ..., f32 */
static um_val poly(um_kernel *k, um_val x, const float c[4])
{
    um_val y = um_k_f32(k, c[3]);
    for (int32_t i = 2; i >= 0; i--) y = um_k_add(k, um_k_mul(k, y, x), um_k_f32(k, c[i]));
    return y;
}

/* high + low with |low| < |high| as such parts that low is what high lacks. */
static parts settled(um_kernel *k, um_val high, um_val low)
{
    um_val s = um_k_add(k, high, low);
    return (parts){s, um_k_sub(k, low, um_k_sub(k, s, high))};
}

/* Cosine and sine of an angle within an eighth of a turn. */
static void waves(um_kernel *k, parts angle, parts *c, parts *s)
{
    static const float cosine[4] = {1 / 24.f, -1 / 720.f, 1 / 40320.f, -1 / 3628800.f};
    static const float sine[4] = {-1 / 6.f, 1 / 120.f, -1 / 5040.f, 1 / 362880.f};
    if (um_val_type(k, angle.high).dtype == UM_F64) {
        *s = (parts){um_k_sin(k, angle.high), 0};
        *c = (parts){um_k_cos(k, angle.high), 0};
        s->low = um_k_mul(k, angle.low, c->high);
        c->low = um_k_neg(k, um_k_mul(k, angle.low, s->high));
        return;
    }
    um_val half = um_k_f32(k, -0.5f), one = um_k_f32(k, 1);
    parts square = times(k, angle, angle);
    um_val x = square.high, less = um_k_mul(k, x, half), top = um_k_add(k, one, less);
    um_val low = um_k_add(k, um_k_sub(k, one, top), less);
    low = um_k_add(k, low, um_k_mul(k, square.low, half));
    low = um_k_add(k, low, um_k_mul(k, um_k_mul(k, x, x), poly(k, x, cosine)));
    *c = settled(k, top, low);
    low = um_k_mul(k, um_k_mul(k, angle.high, x), poly(k, x, sine));
    *s = settled(k, angle.high, um_k_add(k, angle.low, low));
}

/* sqrt(-2 log u); the rest is what the root's rounding lost. */
static parts radius_of(um_kernel *k, um_val u)
{
    um_dtype dtype = um_val_type(k, u).dtype;
    um_val log = dtype == UM_F32 ? um_k_math(k, UM_KOP_LOG, u, 0) : um_k_log(k, u);
    um_val zero = um_kvalue_number(k, dtype, 0), lost;
    um_val square = um_k_mul(k, log, um_kvalue_number(k, dtype, -2)), r = um_k_sqrt(k, square);
    um_val p = um_k_product(k, r, r, &lost), off = um_k_sub(k, um_k_sub(k, square, p), lost);
    um_val some = um_k_gt(k, r, zero), twice = um_k_add(k, r, r);
    um_val by = um_k_select(k, some, twice, um_kvalue_number(k, dtype, 1));
    return (parts){r, um_k_select(k, some, um_k_div(k, off, by), zero)};
}

/* Numbers j and j + 1 by Box and Muller from words j and j + 1. The angle is reduced to an eighth
 * of a turn exactly; all is kept in two parts to the end. */
static void make_normal(draw *d, int32_t j)
{
    um_kernel *k = d->k;
    um_dtype compute = um_kvalue_compute(d->dtype);
    uint32_t bits = d->wide ? 53 : 24;
    double pi = d->wide ? 0x1.921fb54442d18p0 : 0x1.921fb6p0;
    double pi_low = d->wide ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25;
    parts half_pi = {um_kvalue_number(k, compute, pi), um_kvalue_number(k, compute, pi_low)};
    parts r = radius_of(k, unit(d, compute, j, bits, 1)), c, s, angle;
    um_val zero = um_kvalue_number(k, compute, 0), four = um_kvalue_number(k, compute, 4);
    um_val quarters = um_k_mul(k, unit(d, compute, j + 1, bits, 0), four);
    um_val whole = um_k_round(k, quarters);
    angle = times(k, (parts){um_k_sub(k, quarters, whole), zero}, half_pi);
    waves(k, angle, &c, &s);
    um_val turn = um_k_convert(k, UM_U32, whole), one = um_k_u32(k, 1);
    um_val odd = um_k_ne(k, um_k_and(k, turn, one), um_k_u32(k, 0));
    for (int32_t i = 0; i < 2; i++) { /* a quarter of a turn before, the sine is the cosine */
        parts from = i == 0 ? c : s, other = i == 0 ? s : c;
        parts wave = {um_k_select(k, odd, other.high, from.high),
                      um_k_select(k, odd, other.low, from.low)};
        um_val number = um_k_and(k, um_k_add(k, turn, um_k_u32(k, i == 0)), um_k_u32(k, 2));
        um_val sign =
            um_k_select(k, um_k_ne(k, number, um_k_u32(k, 0)), um_kvalue_number(k, compute, -1),
                        um_kvalue_number(k, compute, 1));
        parts z = times(k, r, wave), mean = {d->number[0], d->number[1]};
        z.high = um_k_mul(k, z.high, sign);
        z.low = um_k_mul(k, z.low, sign);
        z = times(k, z, (parts){d->number[2], d->number[3]});
        d->normal[j + i] = sum_of(k, mean, z);
    }
}

/* ---- the op's numbers ----------------------------------------------------------------------- */

/* uniform: the lower end, the span; normal: mean and deviation in two parts each; hits: words below
 * number 0 are, all of them where number 1 is not 0; dropout: number 2, what it keeps is divided
 * by. */
static void declare_numbers(draw *d)
{
    double a = d->op->attrs.random.a, b = d->op->attrs.random.b;
    um_dtype compute = um_kvalue_compute(d->dtype);
    bool is_f32 = compute == UM_F32;
    if (is_hit_op(d->op)) {
        int64_t threshold = (int64_t)ceil(a * 0x1p32);
        d->number[0] = um_klaunch_scalar(d->launch, threshold, "threshold");
        d->number[1] = um_klaunch_scalar(d->launch, threshold >> 32, "all");
        if (d->op->id == UM_OP_DROPOUT)
            d->number[2] = um_klaunch_real(d->launch, compute, 1 - a, "number2");
    } else if (d->op->id == UM_OP_RANDOM_UNIFORM) {
        d->number[0] = um_klaunch_real(d->launch, compute, a, "number0");
        d->number[1] = um_klaunch_real(d->launch, compute, b - a, "number1");
    } else if (d->op->id == UM_OP_RANDOM_NORMAL) {
        double a_low = is_f32 ? a - (double)(float)a : 0, b_low = is_f32 ? b - (double)(float)b : 0;
        d->number[0] = um_klaunch_real(d->launch, compute, a, "number0");
        d->number[1] = um_klaunch_real(d->launch, compute, a_low, "number1");
        d->number[2] = um_klaunch_real(d->launch, compute, b, "number2");
        d->number[3] = um_klaunch_real(d->launch, compute, b_low, "number3");
    }
}

/* ---- permutation: numbers in the order of wide words ----------------------------------------- */

static void declare_numbered(void *ctx, um_klaunch *launch)
{
    draw *d = ctx;
    const um_view *out = &d->op->out[0];
    um_kwalk w = um_kwalk_apart(1, &out);
    d->view[0] = um_kview_write(launch, &w, 0);
}

static void put_number(void *ctx, um_kernel *k, um_val e, um_val i, um_val rank)
{
    const draw *d = ctx;
    const um_kview *out = &d->view[0];
    (void)e;
    um_kview_store(k, out, um_kview_place(k, out, 1, &rank), um_kvalue_as(k, d->dtype, i));
}

static um_status plan_permutation(const um_op *op, um_kplan *plan)
{
    enum { PER = WORDS / 2 };
    int64_t count = um_view_count(&op->out[0]);
    draw d = {.op = op, .dtype = op->out[0].dtype};
    um_korder o = {count, count, 2, 0, &d, declare_numbered, put_number};
    UM_TRY(um_kplan_launch(plan, "random_keys", UM_KGROUP, &d.launch));
    um_klaunch *launch = d.launch;
    um_kernel *k = d.k = launch->kernel;
    um_klaunch_groups(launch, um_ceil_div(um_ceil_div(count, PER), UM_KGROUP));
    um_val keys = um_klaunch_scalar(launch, count, "count");
    um_mem mem = um_korder_declare(launch, &o);
    um_val call = um_klaunch_number(k), first = um_k_mul(k, call, um_k_u32(k, PER));
    draw_words(&d, call);
    for (int32_t j = 0; j < PER; j++) {
        um_val e = um_k_add(k, first, um_k_u32(k, (uint32_t)j));
        um_k_if(k, um_k_lt(k, e, keys));
        um_korder_store(k, mem, 2, e, &d.word[2 * j]);
        um_k_end(k);
    }
    UM_TRY(um_kernel_finish(k));
    return um_korder_plan(um_op_name(op->id), plan, &o);
}

/* ---- elements ------------------------------------------------------------------------------- */

static um_val is_hit(const draw *d, int32_t j)
{
    um_val all = um_k_ne(d->k, d->number[1], um_k_u32(d->k, 0));
    return um_k_or(d->k, um_k_lt(d->k, d->word[j], d->number[0]), all);
}

static um_val drop(const draw *d, const um_val *place, int32_t j)
{
    um_kernel *k = d->k;
    const um_kview *in = &d->view[d->op->out_count], *mask = &d->view[1];
    um_val hit = is_hit(d, j), x = um_kview_load_at(k, in, d->walk.rank, place);
    um_dtype compute = um_kvalue_compute(d->dtype);
    x = um_kvalue_as(k, compute, x);
    if (mask != in)
        um_kview_store(k, mask, um_kview_place(k, mask, d->walk.rank, place), um_k_not(k, hit));
    return um_k_select(k, hit, um_kvalue_number(k, compute, 0), um_k_div(k, x, d->number[2]));
}

static um_val made(const draw *d, const um_val *place, int32_t j)
{
    um_kernel *k = d->k;
    um_dtype dtype = d->dtype, compute = um_kvalue_compute(dtype);
    uint32_t bits = dtype == UM_F64 ? 53 : dtype == UM_F32 ? 24 : dtype == UM_F16 ? 11 : 8;
    switch (d->op->id) {
    case UM_OP_RANDOM_UNIFORM: {
        um_val u = unit(d, compute, j, bits, 0);
        return um_k_add(k, d->number[0], um_k_mul(k, u, d->number[1]));
    }
    case UM_OP_RANDOM_NORMAL: return d->normal[j];
    case UM_OP_RANDOM_BITS:
        return d->wide ? um_kvalue_as(k, dtype, um_k_bitcast(k, dtype, 1, wide_word(d, j)))
                       : um_kvalue_from_bits(k, dtype, d->word[j]);
    case UM_OP_DROPOUT: return drop(d, place, j);
    default: return is_hit(d, j);
    }
}

/* Whether all an invocation stores are whole words. */
static um_kstore store_of(const um_view *out)
{
    if (um_dtype_bits(out->dtype) >= 32) return UM_KSTORE_PLAIN;
    bool whole = um_view_is_packed(out) && out->ptr % 4 == 0;
    return whole ? UM_KSTORE_PLAIN : UM_KSTORE_ATOMIC;
}

static void declare(draw *d)
{
    const um_op *op = d->op;
    const um_view *views[3];
    int32_t count = op->out_count + op->in_count;
    for (int32_t v = 0; v < count; v++)
        views[v] = v < op->out_count ? &op->out[v] : &op->in[v - op->out_count];
    d->walk = um_kwalk_make(count, views, 0);
    d->count = um_klaunch_scalar(d->launch, um_view_count(&op->out[0]), "count");
    um_kwalk_sizes(d->launch, &d->walk, 0, d->walk.rank, d->size);
    for (int32_t v = 0; v < count; v++) {
        bool out = v < op->out_count;
        d->view[v] = um_kview_declare(d->launch, &d->walk, v, out ? UM_K_WRITE : UM_K_READ,
                                      out ? store_of(views[v]) : UM_KSTORE_PLAIN);
    }
    declare_numbers(d);
}

um_status um_krandom_plan(const um_op *op, um_kplan *plan)
{
    if (op->id == UM_OP_RANDOM_PERMUTATION) return plan_permutation(op, plan);
    draw d = {.op = op, .dtype = op->out[0].dtype};
    d.wide = um_dtype_bits(d.dtype) == 64 && !is_hit_op(op);
    int32_t per = d.wide ? WORDS / 2 : WORDS;
    UM_TRY(um_kplan_launch(plan, um_op_name(op->id), UM_KGROUP, &d.launch));
    um_kernel *k = d.k = d.launch->kernel;
    int64_t calls = um_ceil_div(um_view_count(&op->out[0]), per);
    um_klaunch_groups(d.launch, um_ceil_div(calls, UM_KGROUP));
    declare(&d);
    um_val call = um_klaunch_number(k), place[UM_MAX_RANK] = {0};
    um_k_if(k, um_k_lt(k, call, um_klaunch_scalar(d.launch, calls, "calls")));
    um_val first = um_k_mul(k, call, um_k_u32(k, (uint32_t)per));
    draw_words(&d, call);
    for (int32_t j = 0; j < per; j += 2)
        if (op->id == UM_OP_RANDOM_NORMAL) make_normal(&d, j);
    for (int32_t j = 0; j < per; j++) {
        um_val e = um_k_add(k, first, um_k_u32(k, (uint32_t)j));
        um_k_if(k, um_k_lt(k, e, d.count));
        um_kwalk_places(k, e, 0, d.walk.rank, d.size, place);
        um_val x = um_kvalue_as(k, d.dtype, made(&d, place, j));
        um_kview_store(k, &d.view[0], um_kview_place(k, &d.view[0], d.walk.rank, place), x);
        um_k_end(k);
    }
    um_k_end(k);
    return um_kernel_finish(k);
}
