/* Attention through the compute face: forward and backward against the composition written out with
 * whole matrices, gradients against central differences, each rule of the contract, and the same
 * bits for any number of threads. Every dtype and layout against the oracle: umbel check attention,
 * attention_backward. */
#include "backend/cpu/cpu.h"
#include "compute_util.h"

#define DIMS(...)                                                                                  \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }
#define INF ((double)INFINITY)

enum { MASK_NONE, MASK_BOOL, MASK_FLOAT };

typedef struct config {
    int64_t b, h, hkv, sq, sk, d, dv;
    um_attention_desc desc;
    int32_t mask, mask_b, mask_h;
    bool lengths, sinks;
} config;

/* Everything of one call, forward and backward. */
typedef struct call {
    config c;
    tensor q, k, v, mask, key_lengths, query_lengths, sinks;
    tensor out, lse, dout, dq, dk, dv, dmask, dsinks;
} call;

static void set_lengths(const tensor *t, const int64_t *lengths)
{
    memcpy(t->value, lengths, (size_t)t->count * 8);
    tensor_write(t);
}

static int64_t length_of(const tensor *t, int64_t b)
{
    int64_t length;
    memcpy(&length, &t->value[b], 8);
    return length;
}

static void set_mask(const tensor *t, int32_t kind)
{
    if (kind == MASK_FLOAT) {
        tensor_random(t);
        for (int64_t i = 0; i < t->count; i += 7) t->value[i] = -INF;
        tensor_write(t);
        return;
    }
    uint8_t *bytes = calloc((size_t)t->count + 1, 1);
    for (int64_t i = 0; i < t->count; i++) t->value[i] = bytes[i] = i % 5 != 0;
    CHECK_OK(um_write(stream, t->view.ptr, bytes, (uint64_t)t->count));
    CHECK_OK(um_synchronize(stream));
    free(bytes);
}

static call call_make(const config *c)
{
    call x = {.c = *c};
    x.q = tensor_make(DIMS(c->b, c->h, c->sq, c->d));
    x.k = tensor_make(DIMS(c->b, c->hkv, c->sk, c->d));
    x.v = tensor_make(DIMS(c->b, c->hkv, c->sk, c->dv));
    x.out = tensor_make(DIMS(c->b, c->h, c->sq, c->dv));
    x.dout = tensor_make(DIMS(c->b, c->h, c->sq, c->dv));
    x.lse = tensor_make(DIMS(c->b, c->h, c->sq));
    x.dq = tensor_make(DIMS(c->b, c->h, c->sq, c->d));
    x.dk = tensor_make(DIMS(c->b, c->hkv, c->sk, c->d));
    x.dv = tensor_make(DIMS(c->b, c->hkv, c->sk, c->dv));
    x.mask = tensor_make(DIMS(c->mask_b, c->mask_h, c->sq, c->sk));
    x.dmask = tensor_make(DIMS(c->mask_b, c->mask_h, c->sq, c->sk));
    x.key_lengths = tensor_make(DIMS(c->b));
    x.query_lengths = tensor_make(DIMS(c->b));
    x.key_lengths.view.dtype = x.query_lengths.view.dtype = UM_I64;
    x.sinks = tensor_make(DIMS(c->h));
    x.dsinks = tensor_make(DIMS(c->h));
    tensor_random(&x.q), tensor_random(&x.k), tensor_random(&x.v), tensor_random(&x.dout);
    tensor_random(&x.sinks);
    set_mask(&x.mask, c->mask);
    if (c->mask == MASK_BOOL) x.mask.view.dtype = UM_BOOL;
    int64_t keys[8], queries[8];
    for (int64_t b = 0; b < c->b; b++) keys[b] = c->sk - b * c->sk / 3, queries[b] = c->sq - b;
    set_lengths(&x.key_lengths, keys), set_lengths(&x.query_lengths, queries);
    return x;
}

static void call_free(call *x)
{
    tensor *all[] = {&x->q,     &x->k,     &x->v,     &x->mask, &x->key_lengths, &x->query_lengths,
                     &x->sinks, &x->out,   &x->lse,   &x->dout, &x->dq,          &x->dk,
                     &x->dv,    &x->dmask, &x->dsinks};
    for (size_t i = 0; i < UM_COUNT_OF(all); i++) tensor_free(all[i]);
}

static um_attention_inputs inputs_of(const call *x)
{
    um_attention_inputs in = {.q = &x->q.view, .k = &x->k.view, .v = &x->v.view};
    if (x->c.mask) in.mask = &x->mask.view;
    if (x->c.lengths) in.key_lengths = &x->key_lengths.view;
    if (x->c.lengths) in.query_lengths = &x->query_lengths.view;
    if (x->c.sinks) in.sinks = &x->sinks.view;
    return in;
}

static um_status forward(call *x)
{
    um_attention_inputs in = inputs_of(x);
    tensor_spoil(&x->out), tensor_spoil(&x->lse);
    return um_attention_forward(stream, &x->c.desc, &in, &x->out.view, &x->lse.view);
}

static um_status backward(call *x)
{
    um_attention_inputs in = inputs_of(x);
    um_attention_grads grads = {.q = &x->dq.view, .k = &x->dk.view, .v = &x->dv.view};
    if (x->c.mask == MASK_FLOAT) grads.mask = &x->dmask.view;
    if (x->c.sinks) grads.sinks = &x->dsinks.view;
    tensor_spoil(&x->dq), tensor_spoil(&x->dk), tensor_spoil(&x->dv);
    tensor_spoil(&x->dmask), tensor_spoil(&x->dsinks);
    return um_attention_backward(stream, &x->c.desc, &in, &x->out.view, &x->lse.view, &x->dout.view,
                                 &grads);
}

static void read_all(call *x)
{
    tensor_read(&x->out), tensor_read(&x->lse);
    tensor_read(&x->dq), tensor_read(&x->dk), tensor_read(&x->dv);
    tensor_read(&x->dmask), tensor_read(&x->dsinks);
}

/* ---- the composition, with whole matrices ------------------------------------------------------
 */

static bool sees(const call *x, int64_t b, int64_t i, int64_t j)
{
    const config *c = &x->c;
    int64_t keys = c->lengths ? length_of(&x->key_lengths, b) : c->sk;
    int64_t queries = c->lengths ? length_of(&x->query_lengths, b) : c->sq;
    if (i >= queries || j >= keys) return false;
    int64_t at = c->desc.causal == UM_CAUSAL_TOP_LEFT ? i : i + keys - queries;
    if ((c->desc.causal || c->desc.window) && j > at) return false;
    return !c->desc.window || j > at - c->desc.window;
}

static int64_t mask_at(const config *c, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return (((c->mask_b == 1 ? 0 : b) * c->mask_h + (c->mask_h == 1 ? 0 : h)) * c->sq + i) * c->sk +
           j;
}

/* Row i of a head: p, and the slope of the softcap. Gives the log-sum-exp. */
static double softmax_row(const call *x, int64_t b, int64_t h, int64_t i, double *p, double *slope)
{
    const config *c = &x->c;
    double scale = c->desc.scale != 0 ? c->desc.scale : 1 / sqrt((double)c->d);
    const double *q = x->q.value + ((b * c->h + h) * c->sq + i) * c->d;
    const double *k = x->k.value + (b * c->hkv + h / (c->h / c->hkv)) * c->sk * c->d;
    double sum = c->sinks ? exp(x->sinks.value[h]) : 0;
    for (int64_t j = 0; j < c->sk; j++) {
        double mask = c->mask ? x->mask.value[mask_at(c, b, h, i, j)] : 0, score = 0;
        bool seen = sees(x, b, i, j);
        p[j] = slope[j] = 0;
        if (!seen || (c->mask == MASK_BOOL ? mask == 0 : mask == -INF)) continue;
        for (int64_t e = 0; e < c->d; e++) score += q[e] * k[j * c->d + e];
        score *= scale, slope[j] = scale;
        if (c->desc.softcap > 0) {
            double t = tanh(score / c->desc.softcap);
            score = c->desc.softcap * t, slope[j] = scale * (1 - t * t);
        }
        p[j] = exp(c->mask == MASK_FLOAT ? score + mask : score);
        sum += p[j];
    }
    for (int64_t j = 0; j < c->sk && sum > 0; j++) p[j] /= sum;
    return log(sum);
}

/* Adds what row i has to do with the results: matrices out, lse and the gradients in want. */
static void compose_row(const call *x, call *want, int64_t b, int64_t h, int64_t i, double *p)
{
    const config *c = &x->c;
    int64_t row = (b * c->h + h) * c->sq + i, kv = b * c->hkv + h / (c->h / c->hkv);
    double *slope = p + c->sk, *out = want->out.value + row * c->dv, mean = 0;
    const double *v = x->v.value + kv * c->sk * c->dv, *dout = x->dout.value + row * c->dv;
    want->lse.value[row] = softmax_row(x, b, h, i, p, slope);
    for (int64_t j = 0; j < c->sk; j++)
        for (int64_t e = 0; e < c->dv; e++) {
            out[e] += p[j] * v[j * c->dv + e];
            want->dv.value[(kv * c->sk + j) * c->dv + e] += p[j] * dout[e];
        }
    for (int64_t e = 0; e < c->dv; e++) mean += out[e] * dout[e];
    if (c->sinks && isfinite(want->lse.value[row]))
        want->dsinks.value[h] -= exp(x->sinks.value[h] - want->lse.value[row]) * mean;
    for (int64_t j = 0; j < c->sk; j++) {
        double ds = -mean;
        for (int64_t e = 0; e < c->dv; e++) ds += dout[e] * v[j * c->dv + e];
        ds *= p[j];
        if (c->mask == MASK_FLOAT) want->dmask.value[mask_at(c, b, h, i, j)] += ds;
        for (int64_t e = 0; e < c->d; e++) {
            int64_t q_at = row * c->d + e, k_at = (kv * c->sk + j) * c->d + e;
            want->dq.value[q_at] += ds * slope[j] * x->k.value[k_at];
            want->dk.value[k_at] += ds * slope[j] * x->q.value[q_at];
        }
    }
}

static void compose(const call *x, call *want)
{
    const config *c = &x->c;
    tensor *all[] = {&want->out, &want->dq, &want->dk, &want->dv, &want->dmask, &want->dsinks};
    for (size_t i = 0; i < UM_COUNT_OF(all); i++)
        memset(all[i]->value, 0, (size_t)all[i]->count * 8);
    double *p = malloc((size_t)(2 * c->sk + 1) * sizeof *p);
    for (int64_t row = 0; row < c->b * c->h * c->sq; row++)
        compose_row(x, want, row / c->sq / c->h, row / c->sq % c->h, row % c->sq, p);
    free(p);
}

static void check_near(const char *what, const tensor *got, const tensor *want)
{
    for (int64_t i = 0; i < got->count; i++) {
        double a = got->value[i], b = want->value[i];
        bool near = a == b || fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
        CHECK_MSG(near, "%s, element %lld: %.17g, want %.17g", what, (long long)i, a, b);
        if (!near) return;
    }
}

static void check_call(call *x)
{
    call want = call_make(&x->c);
    CHECK_OK(forward(x));
    CHECK_OK(backward(x));
    read_all(x);
    compose(x, &want);
    check_near("out", &x->out, &want.out), check_near("lse", &x->lse, &want.lse);
    check_near("dq", &x->dq, &want.dq), check_near("dk", &x->dk, &want.dk);
    check_near("dv", &x->dv, &want.dv);
    if (x->c.mask == MASK_FLOAT) check_near("dmask", &x->dmask, &want.dmask);
    if (x->c.sinks) check_near("dsinks", &x->dsinks, &want.dsinks);
    call_free(&want);
}

/* Every feature with and without the others, small, and beyond the sizes of tasks and blocks. */
static void composition(void)
{
    static const int64_t sizes[][4] = {{5, 7, 4, 4}, {13, 9, 3, 6}, {1, 30, 8, 5}, {40, 140, 5, 3}};
    for (int32_t i = 0; i < 96; i++) {
        const int64_t *size = sizes[i % 4];
        config c = {2, 4, i % 3 ? 2 : 4, size[0], size[1], size[2], size[3], .mask_b = 1 + i % 2};
        c.mask_h = i / 2 % 2 ? 1 : 4;
        c.mask = i / 3 % 3;
        c.lengths = i / 4 % 2, c.sinks = i / 8 % 2;
        c.desc.causal = i / 5 % 3, c.desc.window = i / 7 % 3 ? 0 : 4;
        c.desc.softcap = i / 11 % 2 ? 1.5 : 0, c.desc.scale = i / 13 % 2 ? -0.7 : 0;
        call x = call_make(&c);
        check_call(&x);
        call_free(&x);
    }
    config big = {1,
                  2,
                  1,
                  210,
                  270,
                  9,
                  13,
                  {.causal = UM_CAUSAL_BOTTOM_RIGHT},
                  .mask = MASK_FLOAT,
                  .mask_b = 1,
                  .mask_h = 1,
                  .lengths = true};
    call x = call_make(&big);
    check_call(&x);
    call_free(&x);
}

/* ---- central differences -----------------------------------------------------------------------
 */

static void run_forward(void *ctx) { CHECK_OK(forward(ctx)); }

static void gradients(void)
{
    config all[] = {
        {2, 2, 1, 4, 5, 3, 2, {.causal = UM_CAUSAL_BOTTOM_RIGHT}, MASK_FLOAT, 1, 2, true, true},
        {1, 4, 2, 13, 6, 2, 3, {.softcap = 1, .window = 4}, MASK_FLOAT, 1, 1, false, true},
        {1, 2, 2, 14, 15, 2, 2, {.causal = UM_CAUSAL_TOP_LEFT}, MASK_BOOL, 1, 1, true, false}};
    for (size_t i = 0; i < UM_COUNT_OF(all); i++) {
        call x = call_make(&all[i]);
        CHECK_OK(forward(&x));
        CHECK_OK(backward(&x));
        check_gradient(&x.q, &x.dq, &x.out, &x.dout, run_forward, &x, "dq");
        check_gradient(&x.k, &x.dk, &x.out, &x.dout, run_forward, &x, "dk");
        check_gradient(&x.v, &x.dv, &x.out, &x.dout, run_forward, &x, "dv");
        if (x.c.sinks)
            check_gradient(&x.sinks, &x.dsinks, &x.out, &x.dout, run_forward, &x, "sink");
        for (int64_t j = 0; x.c.mask == MASK_FLOAT && j < x.mask.count; j += 7)
            x.mask.value[j] = -9;
        if (x.c.mask == MASK_FLOAT) {
            tensor_write(&x.mask);
            CHECK_OK(forward(&x));
            CHECK_OK(backward(&x));
            check_gradient(&x.mask, &x.dmask, &x.out, &x.dout, run_forward, &x, "dmask");
        }
        call_free(&x);
    }
}

/* ---- the rules ---------------------------------------------------------------------------------
 */

static void set_all(const tensor *t, int64_t from, int64_t count, double value)
{
    for (int64_t i = from; i < from + count; i++) t->value[i] = value;
    tensor_write(t);
}

static bool all_are(const tensor *t, int64_t from, int64_t count, double value)
{
    for (int64_t i = from; i < from + count; i++)
        if (t->value[i] != value) return false;
    return true;
}

/* A row without a key: 0, log-sum-exp -inf or the sink, no gradient, whatever q, dout hold there.
 */
static void fully_masked_rows(void)
{
    for (int32_t i = 0; i < 4; i++) {
        config c = {1, 1, 1, i % 2 ? 20 : 3, 5, 4, 3, .mask = MASK_FLOAT, .mask_b = 1, .mask_h = 1};
        c.sinks = i / 2;
        call x = call_make(&c);
        set_all(&x.mask, 2 * c.sk, c.sk, -INF);
        set_all(&x.q, 2 * c.d, c.d, (double)NAN), set_all(&x.dout, 2 * c.dv, c.dv, (double)NAN);
        CHECK_OK(forward(&x));
        CHECK_OK(backward(&x));
        read_all(&x);
        CHECK(all_are(&x.out, 2 * c.dv, c.dv, 0));
        CHECK(x.lse.value[2] == (c.sinks ? x.sinks.value[0] : -INF));
        CHECK(all_are(&x.dq, 2 * c.d, c.d, 0) && all_are(&x.dmask, 2 * c.sk, c.sk, 0));
        for (int64_t j = 0; j < x.dk.count; j++) CHECK(isfinite(x.dk.value[j]));
        for (int64_t j = 0; j < x.dv.count; j++) CHECK(isfinite(x.dv.value[j]));
        CHECK(isfinite(x.dsinks.value[0]) == c.sinks);
        call_free(&x);
    }
}

/* No query sees the last two keys, by the mask, the lengths or position: their NaN reach nothing,
 * and their gradients are 0. */
static void masked_keys_do_not_exist(void)
{
    for (int32_t i = 0; i < 8; i++) {
        config c = {1, 2, 1, i % 2 ? 4 : 30, 40, 4, 3, .mask_b = 1, .mask_h = 1};
        if (i / 2 < 2) c.mask = i / 2 ? MASK_FLOAT : MASK_BOOL;
        c.lengths = i / 2 == 2;
        if (i / 2 == 3) c.desc.causal = UM_CAUSAL_TOP_LEFT;
        call x = call_make(&c);
        set_all(&x.k, 38 * c.d, 2 * c.d, (double)NAN),
            set_all(&x.v, 38 * c.dv, 2 * c.dv, (double)NAN);
        set_lengths(&x.key_lengths, (int64_t[]){38}), set_lengths(&x.query_lengths, &c.sq);
        uint8_t bytes[30 * 40];
        for (int64_t j = 0; j < x.mask.count; j++)
            x.mask.value[j] = bytes[j] = j % 40 < 38, x.mask.value[j] -= j % 40 < 38 ? 0 : INF;
        if (c.mask == MASK_BOOL)
            CHECK_OK(um_write(stream, x.mask.view.ptr, bytes, (uint64_t)x.mask.count));
        else
            tensor_write(&x.mask);
        CHECK_OK(forward(&x));
        CHECK_OK(backward(&x));
        read_all(&x);
        const tensor *all[] = {&x.out, &x.lse, &x.dq, &x.dk, &x.dv};
        for (size_t t = 0; t < UM_COUNT_OF(all); t++)
            for (int64_t j = 0; j < all[t]->count; j++) CHECK(isfinite(all[t]->value[j]));
        CHECK(all_are(&x.dk, 38 * c.d, 2 * c.d, 0) && all_are(&x.dv, 38 * c.dv, 2 * c.dv, 0));
        call_free(&x);
    }
}

static bool same_bits(const tensor *a, const tensor *b)
{
    return memcmp(a->value, b->value, (size_t)a->count * 8) == 0;
}

/* -inf in a float mask is false in a bool one. */
static void minus_infinity_masks(void)
{
    for (int64_t sq = 3; sq < 40; sq += 30) {
        config c = {1, 2, 2, sq, 33, 4, 4, .mask = MASK_BOOL, .mask_b = 1, .mask_h = 2};
        call x = call_make(&c), y = call_make(&c);
        memcpy(y.q.value, x.q.value, (size_t)x.q.count * 8), tensor_write(&y.q);
        memcpy(y.k.value, x.k.value, (size_t)x.k.count * 8), tensor_write(&y.k);
        memcpy(y.v.value, x.v.value, (size_t)x.v.count * 8), tensor_write(&y.v);
        memcpy(y.dout.value, x.dout.value, (size_t)x.dout.count * 8), tensor_write(&y.dout);
        y.c.mask = MASK_FLOAT;
        y.mask.view.dtype = UM_F64;
        for (int64_t i = 0; i < y.mask.count; i++)
            y.mask.value[i] = x.mask.value[i] != 0 ? 0 : -INF;
        tensor_write(&y.mask);
        CHECK_OK(forward(&x));
        CHECK_OK(forward(&y));
        CHECK_OK(backward(&x));
        CHECK_OK(backward(&y));
        read_all(&x), read_all(&y);
        CHECK(same_bits(&x.out, &y.out) && same_bits(&x.lse, &y.lse));
        CHECK(same_bits(&x.dq, &y.dq) && same_bits(&x.dk, &y.dk) && same_bits(&x.dv, &y.dv));
        call_free(&x), call_free(&y);
    }
}

/* Of its own lengths, each sequence gives what it gives alone, bottom-right causal, too. */
static void lengths(void)
{
    config c = {
        .b = 3, .h = 2, .hkv = 1, .sq = 16, .sk = 30, .d = 4, .dv = 3, .mask_b = 1, .mask_h = 1};
    c.desc.causal = UM_CAUSAL_BOTTOM_RIGHT, c.desc.window = 9, c.lengths = true;
    static const int64_t keys[] = {30, 0, 11}, queries[] = {16, 7, 5};
    call x = call_make(&c);
    set_lengths(&x.key_lengths, keys), set_lengths(&x.query_lengths, queries);
    CHECK_OK(forward(&x));
    tensor_read(&x.out), tensor_read(&x.lse);
    CHECK(all_are(&x.out, 2 * 16 * 3, 2 * 16 * 3, 0) && all_are(&x.lse, 32, 32, -INF));
    um_view q = x.q.view, k = x.k.view, v = x.v.view;
    tensor out = tensor_make(DIMS(1, 2, 5, 3));
    q.ptr += (um_ptr)(2 * q.stride[0] * 8), k.ptr += (um_ptr)(2 * k.stride[0] * 8);
    v.ptr += (um_ptr)(2 * v.stride[0] * 8);
    q.shape[0] = k.shape[0] = v.shape[0] = 1;
    q.shape[2] = 5, k.shape[2] = v.shape[2] = 11;
    um_attention_inputs in = {.q = &q, .k = &k, .v = &v};
    CHECK_OK(um_attention_forward(stream, &c.desc, &in, &out.view, NULL));
    tensor_read(&out);
    for (int64_t i = 0; i < out.count; i++) {
        double got = x.out.value[(4 + i / 15) * 48 + i % 15];
        CHECK_MSG(fabs(got - out.value[i]) < 1e-14, "%g, want %g", got, out.value[i]);
    }
    for (int64_t h = 4; h < 6; h++)
        CHECK(all_are(&x.out, h * 48 + 15, 33, 0) && all_are(&x.lse, h * 16 + 5, 11, -INF));
    tensor_free(&out), call_free(&x);
}

/* Lengths out of range count as the nearest in it, and the stream says so. */
static void bad_lengths(void)
{
    config c = {2, 1, 1, 4, 6, 2, 2, .mask_b = 1, .mask_h = 1, .lengths = true};
    static const struct {
        int64_t keys[2], queries[2], nearest[2][2];
        const char *text;
    } bad[] = {{{7, 6}, {4, 4}, {{6, 6}, {4, 4}}, "key_lengths[0] is 7, outside 0 to 6"},
               {{6, INT64_MIN}, {4, 4}, {{6, 0}, {4, 4}}, "key_lengths[1]"},
               {{6, 3}, {4, -1}, {{6, 3}, {4, 0}}, "query_lengths[1] is -1, outside 0 to 4"}};
    for (size_t i = 0; i < UM_COUNT_OF(bad); i++) {
        call x = call_make(&c);
        set_lengths(&x.key_lengths, bad[i].keys), set_lengths(&x.query_lengths, bad[i].queries);
        CHECK_OK(forward(&x));
        CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, bad[i].text);
        CHECK(um_stream_clear_error(stream) == UM_OUT_OF_RANGE);
        tensor_read(&x.out);
        double got[16];
        memcpy(got, x.out.value, sizeof got);
        CHECK_OK(backward(&x));
        CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_RANGE, bad[i].text);
        CHECK(um_stream_clear_error(stream) == UM_OUT_OF_RANGE);
        set_lengths(&x.key_lengths, bad[i].nearest[0]);
        set_lengths(&x.query_lengths, bad[i].nearest[1]);
        CHECK_OK(forward(&x));
        tensor_read(&x.out);
        CHECK(memcmp(got, x.out.value, sizeof got) == 0);
        call_free(&x);
    }
}

/* A sink is a key whose value is 0: as with one more key. */
static void sink_is_a_key_without_value(void)
{
    for (int64_t sq = 2; sq < 40; sq += 30) {
        config c = {1, 2, 2, sq, 7, 3, 4, .mask_b = 1, .mask_h = 2, .sinks = true};
        config more = {1, 2, 2, sq, 8, 3, 4, .mask = MASK_FLOAT, .mask_b = 1, .mask_h = 2};
        call x = call_make(&c), y = call_make(&more);
        set_all(&y.mask, 0, y.mask.count, 0);
        for (int64_t h = 0; h < 2; h++) {
            memcpy(y.k.value + h * 24, x.k.value + h * 21, 21 * 8);
            memcpy(y.v.value + h * 32, x.v.value + h * 28, 28 * 8);
            for (int64_t i = 0; i < 3; i++) y.k.value[h * 24 + 21 + i] = 0;
            for (int64_t i = 0; i < 4; i++) y.v.value[h * 32 + 28 + i] = 0;
            for (int64_t i = 0; i < sq; i++) y.mask.value[(h * sq + i) * 8 + 7] = x.sinks.value[h];
        }
        memcpy(y.q.value, x.q.value, (size_t)x.q.count * 8);
        tensor_write(&y.q), tensor_write(&y.k), tensor_write(&y.v), tensor_write(&y.mask);
        CHECK_OK(forward(&x));
        CHECK_OK(forward(&y));
        read_all(&x), read_all(&y);
        check_near("out", &x.out, &y.out), check_near("lse", &x.lse, &y.lse);
        call_free(&x), call_free(&y);
    }
}

/* Shared heads of k and v are as heads that are written out, and get their gradients' sum. */
static void grouped_heads(void)
{
    for (int64_t sq = 3; sq < 40; sq += 30) {
        config c = {1, 6, 2, sq, 21, 3, 4, .mask_b = 1, .mask_h = 1};
        config wide = {1, 6, 6, sq, 21, 3, 4, .mask_b = 1, .mask_h = 1};
        call x = call_make(&c), y = call_make(&wide);
        memcpy(y.q.value, x.q.value, (size_t)x.q.count * 8);
        memcpy(y.dout.value, x.dout.value, (size_t)x.dout.count * 8);
        for (int64_t h = 0; h < 6; h++) {
            memcpy(y.k.value + h * 63, x.k.value + h / 3 * 63, 63 * 8);
            memcpy(y.v.value + h * 84, x.v.value + h / 3 * 84, 84 * 8);
        }
        tensor_write(&y.q), tensor_write(&y.k), tensor_write(&y.v), tensor_write(&y.dout);
        CHECK_OK(forward(&x));
        CHECK_OK(forward(&y));
        CHECK_OK(backward(&x));
        CHECK_OK(backward(&y));
        read_all(&x), read_all(&y);
        CHECK(same_bits(&x.out, &y.out) && same_bits(&x.lse, &y.lse) && same_bits(&x.dq, &y.dq));
        for (int64_t i = 0; i < 2 * 63; i++) {
            const double *heads = y.dk.value + i / 63 * 3 * 63 + i % 63;
            CHECK(fabs(x.dk.value[i] - (heads[0] + heads[63] + heads[126])) < 1e-13);
        }
        call_free(&x), call_free(&y);
    }
}

/* A window's last key is the query's own: bottom-right with and without `causal`. */
static void window_without_causal(void)
{
    config c = {1, 1, 1, 3, 5, 2, 5, {.window = 2}, .mask_b = 1, .mask_h = 1};
    call x = call_make(&c);
    set_all(&x.q, 0, x.q.count, 0);
    set_all(&x.v, 0, 25, 0);
    for (int64_t j = 0; j < 5; j++) x.v.value[j * 6] = 1; /* out shows the weights */
    tensor_write(&x.v);
    static const double want[] = {0, .5, .5, 0, 0, 0, 0, .5, .5, 0, 0, 0, 0, .5, .5};
    for (x.c.desc.causal = 0; x.c.desc.causal < 2; x.c.desc.causal++) {
        CHECK_OK(forward(&x));
        tensor_read(&x.out);
        CHECK(memcmp(x.out.value, want, sizeof want) == 0);
    }
    static const double corner[] = {1, 0, 0, 0, 0, .5, .5, 0, 0, 0, 0, .5, .5, 0, 0};
    x.c.desc.causal = UM_CAUSAL_TOP_LEFT;
    CHECK_OK(forward(&x));
    tensor_read(&x.out);
    CHECK(memcmp(x.out.value, corner, sizeof corner) == 0);
    call_free(&x);
}

/* No keys, no queries, no values. */
static void empty_axes(void)
{
    config none = {1, 2, 1, 20, 0, 3, 4, .mask_b = 1, .mask_h = 1};
    call x = call_make(&none);
    CHECK_OK(forward(&x));
    CHECK_OK(backward(&x));
    read_all(&x);
    CHECK(all_are(&x.out, 0, x.out.count, 0) && all_are(&x.lse, 0, x.lse.count, -INF));
    CHECK(all_are(&x.dq, 0, x.dq.count, 0));
    call_free(&x);
    config silent = {1, 2, 1, 0, 5, 3, 4, .mask_b = 1, .mask_h = 1};
    x = call_make(&silent);
    CHECK_OK(forward(&x));
    CHECK_OK(backward(&x));
    read_all(&x);
    CHECK(all_are(&x.dk, 0, x.dk.count, 0) && all_are(&x.dv, 0, x.dv.count, 0));
    call_free(&x);
    for (int64_t sq = 2; sq < 40; sq += 30) {
        config narrow = {1, 1, 1, sq, 5, 3, 0, .mask_b = 1, .mask_h = 1};
        x = call_make(&narrow);
        set_all(&x.q, 0, x.q.count, 0);
        CHECK_OK(forward(&x));
        tensor_read(&x.lse);
        for (int64_t i = 0; i < sq; i++) CHECK(fabs(x.lse.value[i] - log(5)) < 1e-15);
        call_free(&x);
    }
}

/* Heads that no memory could hold, of one number that stands for all. */
static void endless_heads(void)
{
    config c = {1, 1, 1, 1, 1, 1, 1, .mask_b = 1, .mask_h = 1};
    call x = call_make(&c);
    um_view q = x.q.view, k = x.k.view;
    q.shape[3] = k.shape[3] = (int64_t)1 << 59;
    q.stride[3] = k.stride[3] = 0;
    um_attention_inputs in = {.q = &q, .k = &k, .v = &x.v.view};
    CHECK_OK(um_attention_forward(stream, NULL, &in, &x.out.view, NULL));
    CHECK_FAILS(um_synchronize(stream), UM_OUT_OF_MEMORY, "attention: no memory for heads of size");
    CHECK(um_stream_clear_error(stream) == UM_OUT_OF_MEMORY);
    call_free(&x);
}

static void refusals(void)
{
    config c = {2, 2, 1, 3, 5, 4, 4, {.causal = 0}, MASK_BOOL, 1, 1, true, true};
    call x = call_make(&c);
    um_attention_inputs in = inputs_of(&x), bad = in;
    um_attention_grads grads = {.q = &x.dq.view, .k = &x.dk.view, .v = &x.dv.view};
    um_view *out = &x.out.view, *lse = &x.lse.view, wrong;
#define FAILS_FORWARD(text)                                                                        \
    CHECK_FAILS(um_attention_forward(stream, NULL, &bad, out, lse), UM_INVALID_ARGUMENT, text)
    CHECK_FAILS(um_attention_forward(stream, NULL, NULL, out, lse), UM_INVALID_ARGUMENT,
                "attention: the inputs are NULL");
    bad.k = NULL;
    FAILS_FORWARD("attention: k is NULL");
    CHECK_FAILS(um_attention_forward(stream, NULL, &in, NULL, lse), UM_INVALID_ARGUMENT,
                "attention: out is NULL");
    bad = in, bad.sinks = &x.key_lengths.view;
    FAILS_FORWARD("sinks must be f32 or of q's dtype");
    wrong = x.sinks.view, wrong.shape[0] = 1, bad.sinks = &wrong;
    FAILS_FORWARD("sinks must be one a head: q is f64[2,2,3,4], sinks is f64[1]");
    bad = in, bad.key_lengths = &x.sinks.view;
    FAILS_FORWARD("lengths must be i32 or i64: key_lengths is f64[2]");
    wrong = x.query_lengths.view, wrong.shape[0] = 1, bad = in, bad.query_lengths = &wrong;
    FAILS_FORWARD("lengths must be one a sequence: q is f64[2,2,3,4], query_lengths is i64[1]");
    bad = in, wrong = x.lse.view, wrong.dtype = UM_F32, lse = &wrong;
    FAILS_FORWARD("wrong output: it is f32[2,2,3], the op's is f64[2,2,3]");
#define FAILS_BACKWARD(lse, text)                                                                  \
    CHECK_FAILS(um_attention_backward(stream, NULL, &in, out, lse, &x.dout.view, &grads),          \
                UM_INVALID_ARGUMENT, text)
    FAILS_BACKWARD(&wrong, "it is not what the forward op gives: log-sum-exp is f32[2,2,3], that");
    FAILS_BACKWARD(NULL, "attention_backward: lse is NULL");
    grads.mask = &x.dmask.view;
    FAILS_BACKWARD(&x.lse.view, "wrong output: it is f64[1,1,3,5], the op's is f64[0]");
    grads.mask = NULL, grads.v = NULL;
    FAILS_BACKWARD(&x.lse.view, "the gradient of v is NULL");
    CHECK_FAILS(um_attention_backward(stream, NULL, &in, out, lse, &x.dout.view, NULL),
                UM_INVALID_ARGUMENT, "the gradients are NULL");
    call_free(&x);
}

/* ---- the same bits for any number of threads ---------------------------------------------------
 */

static void check_lanes(const um_op *op, const tensor *out)
{
    static const int32_t lanes[] = {1, 2, 3, 8};
    um_cpu_pool *pool;
    CHECK_OK(um_cpu_pool_get(&pool));
    double *once = malloc((size_t)out->count * 8 + 8);
    for (size_t i = 0; i < UM_COUNT_OF(lanes); i++) {
        um_cpu_exec exec = {.pool = lanes[i] > 1 ? pool : NULL, .lanes = lanes[i]};
        tensor_spoil(out);
        CHECK_OK(um_synchronize(stream));
        CHECK_OK(um_op_check(op));
        CHECK_OK(um_cpu_kernel_find(op->id)->run(&exec, op));
        um_mem_free(exec.scratch);
        tensor_read(out);
        if (i == 0) memcpy(once, out->value, (size_t)out->count * 8);
        CHECK_MSG(memcmp(once, out->value, (size_t)out->count * 8) == 0, "%s, lanes %d",
                  um_op_name(op->id), (int)lanes[i]);
    }
    um_cpu_pool_put(pool);
    free(once);
}

static void any_number_of_threads(void)
{
    config c = {2, 4, 2, 210, 140, 8, 8, {.causal = 1}, MASK_FLOAT, 1, 1, true, true};
    call x = call_make(&c);
    um_op op = {.id = UM_OP_ATTENTION, .in_count = 7, .out_count = 2, .attrs.attention = c.desc};
    const tensor *in[] = {&x.q,   &x.k,    &x.v,           &x.out,           &x.dout,
                          &x.lse, &x.mask, &x.key_lengths, &x.query_lengths, &x.sinks};
    const tensor *out[] = {&x.dq, &x.dk, &x.dv, &x.dmask, &x.dsinks};
    for (int32_t i = 0; i < 7; i++) op.in[i] = in[i < 3 ? i : i + 3]->view;
    op.out[0] = x.out.view, op.out[1] = x.lse.view;
    check_lanes(&op, &x.out), check_lanes(&op, &x.lse);
    op.id = UM_OP_ATTENTION_BACKWARD, op.in_count = 10, op.out_count = 5;
    for (int32_t i = 0; i < 10; i++) op.in[i] = in[i]->view;
    for (int32_t i = 0; i < 5; i++) op.out[i] = out[i]->view;
    for (int32_t i = 0; i < 5; i++) check_lanes(&op, out[i]);
    call_free(&x);
}

int main(void)
{
    setenv("UMBEL_THREADS", "8", 1);
    open_device();
    TEST(composition);
    TEST(gradients);
    TEST(fully_masked_rows);
    TEST(masked_keys_do_not_exist);
    TEST(minus_infinity_masks);
    TEST(lengths);
    TEST(bad_lengths);
    TEST(sink_is_a_key_without_value);
    TEST(grouped_heads);
    TEST(window_without_causal);
    TEST(empty_axes);
    TEST(endless_heads);
    TEST(refusals);
    TEST(any_number_of_threads);
    close_device();
    return TEST_RESULT();
}
