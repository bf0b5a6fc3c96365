/* test/onnx/ops_attention.c: attention and what goes with it.
 * Letters: B batch, H heads of q, G heads of k and v, S queries, T keys, D and E head sizes. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

/* [B, S, heads * D] as [B, heads, S, D]; of rank 4 already: as it is. */
static um_view split_heads(run *r, um_view x, int64_t heads)
{
    if (x.rank != 3) return x;
    if (heads < 1 || size(&x, 2) % heads) run_refuse(r, "%s: the heads", r->node->op);
    if (r->failed) return x;
    int64_t shape[] = {size(&x, 0), size(&x, 1), heads, size(&x, 2) / heads};
    return swap_axes(r, reshape(r, x, 4, shape), 1, 2);
}

static um_view join_heads(run *r, um_view x)
{
    um_view y = swap_axes(r, x, 1, 2);
    return reshape(r, y, 3, (const int64_t[]){size(&y, 0), size(&y, 1), size(&y, 2) * size(&y, 3)});
}

/* Each head of k or v for the queries' heads that share it, as another axis: [B, G, 1, T, D]. */
static um_view grouped(run *r, um_view x, int64_t heads)
{
    if (heads == size(&x, 1)) return x;
    int64_t groups = UM_MAX(size(&x, 1), 1);
    int64_t shape[] = {size(&x, 0), groups, heads / groups, size(&x, 2), size(&x, 3)};
    um_view y = expand(r, unsqueeze(r, x, 2), 5, shape);
    return reshape(r, y, 4, (const int64_t[]){shape[0], heads, shape[3], shape[4]});
}

/* ---- Attention ----------------------------------------------------------------------------------
 */

typedef struct attention {
    um_view q, k, v;
    um_view mask;           /* all that hides a key: [B or 1, H or 1, S, T]; rank 0: none */
    um_view given, lengths; /* as the op takes them, with `causal` */
    int32_t causal;
    double scale, softcap;
    um_dtype precision;
} attention;

/* A mask of fewer keys covers the first ones; the others are not seen. */
static um_view whole_mask(run *r, um_view mask, int64_t keys)
{
    int64_t missing = keys - size(&mask, -1);
    um_view unseen = num(r, mask.dtype, mask.dtype == UM_BOOL ? 0 : (double)-INFINITY);
    if (missing > 0) mask = pad_axis(r, mask, mask.rank - 1, 0, missing, "constant", unseen);
    while (mask.rank < 4 && !r->failed) mask = unsqueeze(r, mask, 0);
    return mask;
}

/* What one mask and another let through. */
static um_view both_masks(run *r, um_view mask, um_view seen)
{
    if (mask.rank == 0) return seen;
    if (mask.dtype == UM_BOOL) return m2(r, UM_OP_LOGICAL_AND, mask, seen);
    return where(r, seen, mask, num(r, mask.dtype, (double)-INFINITY));
}

/* Query i sees the keys up to i + offset: the past's length, or of each batch what its valid keys
 * have before the queries. */
static um_view causal_mask(run *r, int64_t queries, int64_t keys)
{
    um_view i = unsqueeze(r, arange(r, UM_I64, queries), 1), j = arange(r, UM_I64, keys), offset;
    if (has_in(r, 4)) {
        um_view past = in(r, 4);
        offset = put_i64(r, size(&past, 2));
    } else if (has_in(r, 6)) {
        offset = along(r, sub(r, in(r, 6), put_i64(r, queries)), 0, 4);
    } else {
        offset = put_i64(r, 0);
    }
    return m2(r, UM_OP_LE, j, add(r, expand(r, i, 4, (const int64_t[]){1, 1, queries, 1}), offset));
}

static um_view mask_to_scores(run *r, um_view mask, const attention *a)
{
    if (mask.rank == 0) return mask;
    int64_t shape[] = {size(&mask, 0), size(&mask, 1), size(&a->q, 2), size(&a->k, 2)};
    return expand(r, mask, 4, shape);
}

/* A past that is not all that the new keys follow leaves causal order to the mask. */
static void set_masks(run *r, attention *a)
{
    int64_t queries = size(&a->q, 2), keys = size(&a->k, 2), past = 0;
    um_view mask = {0}, given = {0};
    if (has_in(r, 3)) mask = given = whole_mask(r, in(r, 3), keys);
    if (has_in(r, 4)) past = size(&r->in[4].view, 2);
    if (attr_int(r, "is_causal", 0)) {
        mask = both_masks(r, mask, causal_mask(r, queries, keys));
        if (has_in(r, 6) || past + queries == keys)
            a->causal = UM_CAUSAL_BOTTOM_RIGHT;
        else if (past == 0)
            a->causal = UM_CAUSAL_TOP_LEFT;
        else
            given = mask;
    }
    if (has_in(r, 6)) {
        a->lengths = in(r, 6);
        um_view valid = m2(r, UM_OP_LT, arange(r, UM_I64, keys), along(r, a->lengths, 0, 4));
        mask = both_masks(r, mask, valid);
    }
    a->mask = mask_to_scores(r, mask, a);
    a->given = mask_to_scores(r, given, a);
}

/* The scores after the product (0), the softcap (1), the mask (2) or the softmax (3). */
static um_view scores_after(run *r, const attention *a, int64_t stage)
{
    um_view k = grouped(r, a->k, size(&a->q, 1));
    um_view s = matmul(r, mulc(r, a->q, a->scale), swap_axes(r, k, 2, 3));
    if (stage >= 1 && a->softcap > 0)
        s = mulc(r, m1(r, UM_OP_TANH, mulc(r, s, 1 / a->softcap)), a->softcap);
    if (stage >= 2 && a->mask.rank) {
        um_view unseen = num(r, s.dtype, (double)-INFINITY);
        if (a->mask.dtype == UM_BOOL)
            s = where(r, a->mask, s, unseen);
        else
            s = add(r, s, a->mask);
    }
    if (stage < 3) return s;
    /* A row that sees nothing gives 0, as in the op. */
    um_view best = reduce(r, UM_OP_REDUCE_MAX, s, 1u << 3, true);
    um_view empty = m2(r, UM_OP_EQ, best, num(r, s.dtype, (double)-INFINITY));
    s = scan(r, UM_OP_SOFTMAX, cast(r, s, a->precision), 3);
    return cast(r, where(r, empty, num(r, s.dtype, 0), s), a->q.dtype);
}

/* The op itself. What it has a word for, causal order and the keys' lengths, is not in its mask. */
static um_view attend(run *r, const attention *a)
{
    um_attention_desc desc = {.scale = a->scale, .softcap = a->softcap, .causal = a->causal};
    um_attention_inputs inputs = {.q = &a->q, .k = &a->k, .v = &a->v};
    if (a->given.rank) inputs.mask = &a->given;
    if (a->lengths.rank) inputs.key_lengths = &a->lengths;
    int64_t shape[] = {size(&a->q, 0), size(&a->q, 1), size(&a->q, 2), size(&a->v, 3)};
    um_view y = fresh(r, a->q.dtype, 4, shape);
    if (!r->failed) run_ok(r, um_attention_forward(r->stream, &desc, &inputs, &y, NULL));
    return y;
}

void on_attention(run *r, um_op_id id)
{
    (void)id;
    int64_t q_heads = attr_int(r, "q_num_heads", 0), heads = attr_int(r, "kv_num_heads", 0);
    um_view q = in(r, 0);
    attention a = {.q = split_heads(r, q, q_heads), .k = split_heads(r, in(r, 1), heads)};
    a.v = split_heads(r, in(r, 2), heads);
    if (has_in(r, 4)) a.k = concat(r, 2, 2, (const um_view[]){in(r, 4), a.k});
    if (has_in(r, 5)) a.v = concat(r, 2, 2, (const um_view[]){in(r, 5), a.v});
    set_masks(r, &a);
    a.scale = (double)attr_float(r, "scale", 0);
    if (a.scale == 0) a.scale = 1 / sqrt((double)UM_MAX(size(&a.q, 3), 1));
    a.softcap = (double)attr_float(r, "softcap", 0);
    a.precision = onnx_dtype((int32_t)attr_int(r, "softmax_precision", onnx_type(q.dtype)));
    um_view y = attend(r, &a);
    out(r, 0, q.rank == 3 ? join_heads(r, y) : y);
    out(r, 1, a.k);
    out(r, 2, a.v);
    if (wants_out(r, 3)) out(r, 3, scores_after(r, &a, attr_int(r, "qk_matmul_output_mode", 0)));
}

/* Scores and probabilities may pass through graphs of the model. */
void on_flex_attention(run *r, um_op_id id)
{
    (void)id;
    const onnx_attr *score_mod = attr_find(r, "score_mod"), *prob_mod = attr_find(r, "prob_mod");
    attention a = {.q = in(r, 0), .k = in(r, 1), .v = in(r, 2), .precision = in(r, 0).dtype};
    a.scale = (double)attr_float(r, "scale", 0);
    if (a.scale == 0) a.scale = 1 / sqrt((double)UM_MAX(size(&a.q, 3), 1));
    if (!score_mod && !prob_mod) {
        out(r, 0, attend(r, &a));
        return;
    }
    value s = {.view = scores_after(r, &a, 0), .type = onnx_type(a.q.dtype)}, y = s;
    if (score_mod && score_mod->g) run_graph(r, score_mod->g, &s, 1, &y, 1);
    s = (value){scan(r, UM_OP_SOFTMAX, y.view, 3), y.type};
    y = s;
    if (prob_mod && prob_mod->g) run_graph(r, prob_mod->g, &s, 1, &y, 1);
    out(r, 0, matmul(r, cast(r, y.view, a.q.dtype), grouped(r, a.v, size(&a.q, 1))));
}

/* ---- rotary embedding ---------------------------------------------------------------------------
 */

/* [B, S, D/2] from the caches, rows by position where there are positions; as [B, 1, S, D/2]. */
static um_view turns(run *r, int32_t i)
{
    um_view table = in(r, i);
    if (has_in(r, 3)) {
        um_view ids = in(r, 3);
        int64_t count = um_view_count(&ids);
        int64_t shape[] = {size(&ids, 0), size(&ids, 1), size(&table, 1)};
        table = reshape(r, select_rows(r, table, 0, reshape(r, ids, 1, &count)), 3, shape);
    }
    return unsqueeze(r, table, 1);
}

void on_rotary_embedding(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), y = split_heads(r, x, attr_int(r, "num_heads", 0));
    um_view c = turns(r, 1), s = turns(r, 2);
    int64_t dims = attr_int(r, "rotary_embedding_dim", 0), half = (dims ? dims : size(&y, 3)) / 2;
    bool pairs = attr_int(r, "interleaved", 0) != 0;
    um_view turned = fresh(r, y.dtype, y.rank, y.shape);
    copy_to(r, y, turned);
    um_view a = slice(r, y, 3, 0, half, pairs ? 2 : 1);
    um_view b = slice(r, y, 3, pairs ? 1 : half, half, pairs ? 2 : 1);
    copy_to(r, sub(r, mul(r, a, c), mul(r, b, s)), slice(r, turned, 3, 0, half, pairs ? 2 : 1));
    copy_to(r, add(r, mul(r, a, s), mul(r, b, c)),
            slice(r, turned, 3, pairs ? 1 : half, half, pairs ? 2 : 1));
    out(r, 0, x.rank == 3 ? join_heads(r, turned) : turned);
}

/* ---- linear attention: a state [B, G, D, E] that each step decays, corrects and reads ----------
 */

typedef struct linear_step {
    um_view q, k, v, decay, beta; /* of one step, in f32: [B, H or G, 1, D]; rank 0: none */
} linear_step;

static um_view step_of(run *r, um_view x, int64_t t)
{
    return x.rank ? slice(r, x, 2, t, 1, 1) : x;
}

/* decay and beta: one a head, or one for each of its elements. */
static um_view optional_heads(run *r, int32_t i, int64_t heads)
{
    um_view none = {0};
    return has_in(r, i)
               ? split_heads(r, cast(r, in(r, i), UM_F32), UM_MIN(heads, size(&r->in[i].view, 2)))
               : none;
}

static um_view advance(run *r, um_view state, const linear_step *s)
{
    um_view v = s->v, k = swap_axes(r, s->k, 2, 3); /* [B, G, D, 1] */
    if (s->decay.rank) state = mul(r, state, swap_axes(r, m1(r, UM_OP_EXP, s->decay), 2, 3));
    if (s->beta.rank) v = mul(r, s->beta, sub(r, v, matmul(r, s->k, state)));
    return add(r, state, matmul(r, k, v));
}

void on_linear_attention(run *r, um_op_id id)
{
    (void)id;
    um_view q = in(r, 0);
    int64_t heads = attr_int(r, "kv_num_heads", 1), q_heads = attr_int(r, "q_num_heads", 1);
    linear_step all = {.q = split_heads(r, cast(r, q, UM_F32), q_heads),
                       .k = split_heads(r, cast(r, in(r, 1), UM_F32), heads),
                       .v = split_heads(r, cast(r, in(r, 2), UM_F32), heads),
                       .decay = optional_heads(r, 4, heads),
                       .beta = optional_heads(r, 5, heads)};
    if (has_in(r, 6)) run_refuse(r, "LinearAttention: an erase gate");
    double scale = (double)attr_float(r, "scale", 0);
    if (scale == 0) scale = 1 / sqrt((double)UM_MAX(size(&all.q, 3), 1));
    int64_t steps = size(&all.q, 2), d = size(&all.k, 3), e = size(&all.v, 3);
    um_view state = has_in(r, 3) ? cast(r, in(r, 3), UM_F32)
                                 : full(r, UM_F32, 4, (int64_t[]){size(&q, 0), heads, d, e}, 0);
    um_view y = fresh(r, UM_F32, 4, (int64_t[]){size(&q, 0), q_heads, steps, e});
    for (int64_t t = 0; t < steps && !r->failed; t++) {
        linear_step s = {step_of(r, all.q, t), step_of(r, all.k, t), step_of(r, all.v, t),
                         step_of(r, all.decay, t), step_of(r, all.beta, t)};
        state = advance(r, state, &s);
        um_view read = matmul(r, s.q, grouped(r, state, q_heads));
        copy_to(r, mulc(r, read, scale), slice(r, y, 2, t, 1, 1));
    }
    out(r, 0, cast(r, join_heads(r, y), q.dtype));
    out(r, 1, cast(r, state, has_in(r, 3) ? in(r, 3).dtype : q.dtype));
}
