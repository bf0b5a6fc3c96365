/* test/onnx/ops_rnn.c: recurrent layers, step by step.
 * Letters: S steps, B batch, I input, H hidden. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

/* x w' + b of one step; b may be of rank 0: none. */
static um_view linear(run *r, um_view x, um_view w, um_view b)
{
    um_view y = matmul(r, x, swap_axes(r, w, 0, 1));
    return b.rank ? add(r, y, b) : y;
}

static um_view gate(run *r, um_view all, int64_t hidden, int64_t which)
{
    return all.rank ? slice(r, all, -1, which * hidden, hidden, 1) : all;
}

typedef struct layer {
    um_view w, u, wb, ub; /* [gates * H, I], [gates * H, H], [gates * H]; rank 0: none */
    um_view h, c;         /* [B, H] */
    um_view peepholes;    /* [3 * H], of an LSTM; rank 0: none */
    int64_t hidden;
    bool after; /* linear_before_reset of a GRU */
} layer;

static void rnn_step(run *r, layer *l, um_view x)
{
    l->h = m1(r, UM_OP_TANH, add(r, linear(r, x, l->w, l->wb), linear(r, l->h, l->u, l->ub)));
}

/* Gates z, r, h. */
static void gru_step(run *r, layer *l, um_view x)
{
    int64_t n = l->hidden;
    um_view from_x = linear(r, x, l->w, l->wb), from_h = linear(r, l->h, l->u, l->ub);
    um_view z = m1(r, UM_OP_SIGMOID, add(r, gate(r, from_x, n, 0), gate(r, from_h, n, 0)));
    um_view reset = m1(r, UM_OP_SIGMOID, add(r, gate(r, from_x, n, 1), gate(r, from_h, n, 1)));
    um_view candidate;
    if (l->after) {
        candidate = mul(r, reset, gate(r, from_h, n, 2));
    } else {
        um_view u = slice(r, l->u, 0, 2 * n, n, 1);
        candidate = linear(r, mul(r, reset, l->h), u, gate(r, l->ub, n, 2));
    }
    candidate = m1(r, UM_OP_TANH, add(r, gate(r, from_x, n, 2), candidate));
    /* (1 - z) * candidate + z * h */
    l->h = add(r, candidate, mul(r, z, sub(r, l->h, candidate)));
}

static um_view peek(run *r, const layer *l, um_view sum, um_view c, int64_t which)
{
    if (l->peepholes.rank) sum = add(r, sum, mul(r, gate(r, l->peepholes, l->hidden, which), c));
    return m1(r, UM_OP_SIGMOID, sum);
}

/* Gates i, o, f, c. */
static void lstm_step(run *r, layer *l, um_view x)
{
    int64_t n = l->hidden;
    um_view all = add(r, linear(r, x, l->w, l->wb), linear(r, l->h, l->u, l->ub));
    um_view i = peek(r, l, gate(r, all, n, 0), l->c, 0);
    um_view f = peek(r, l, gate(r, all, n, 2), l->c, 2);
    um_view c = mul(r, i, m1(r, UM_OP_TANH, gate(r, all, n, 3)));
    l->c = add(r, c, mul(r, f, l->c));
    um_view o = peek(r, l, gate(r, all, n, 1), l->c, 1);
    l->h = mul(r, o, m1(r, UM_OP_TANH, l->c));
}

/* Initial h (input 5) or c (6) of a direction: [directions, B, H], or [B, directions, H] by layout;
 * zeros. */
static um_view initial(run *r, int32_t i, const int64_t *shape, int64_t layout, int64_t direction)
{
    if (!has_in(r, i)) return full(r, in(r, 0).dtype, 2, shape, 0);
    int64_t axis = layout ? 1 : 0;
    return squeeze(r, slice(r, in(r, i), axis, direction, 1, 1), axis);
}

/* A direction's part of an input; rank 0: there is none. */
static um_view part(run *r, int32_t i, int64_t direction)
{
    um_view none = {0};
    return has_in(r, i) ? squeeze(r, slice(r, in(r, i), 0, direction, 1, 1), 0) : none;
}

static layer read_layer(run *r, int64_t direction)
{
    layer l = {.w = part(r, 1, direction), .u = part(r, 2, direction)};
    um_view both = part(r, 3, direction);
    l.hidden = size(&l.u, 1);
    l.after = attr_int(r, "linear_before_reset", 0) != 0;
    if (both.rank) {
        int64_t half = size(&both, 0) / 2;
        l.wb = slice(r, both, 0, 0, half, 1);
        l.ub = slice(r, both, 0, half, half, 1);
    }
    l.peepholes = part(r, 7, direction);
    return l;
}

/* x [S, B, I] to y [S, B, H]. */
static void run_layer(run *r, layer *l, um_view x, um_view y)
{
    bool lstm = strcmp(r->node->op, "LSTM") == 0, gru = strcmp(r->node->op, "GRU") == 0;
    for (int64_t t = 0; t < size(&x, 0) && !r->failed; t++) {
        um_view now = squeeze(r, slice(r, x, 0, t, 1, 1), 0);
        if (lstm)
            lstm_step(r, l, now);
        else if (gru)
            gru_step(r, l, now);
        else
            rnn_step(r, l, now);
        copy_to(r, l->h, slice(r, y, 0, t, 1, 1));
    }
}

void on_recurrent(run *r, um_op_id id)
{
    (void)id;
    int64_t layout = attr_int(r, "layout", 0);
    bool two = attr_is(r, "direction", "forward", "bidirectional");
    bool reverse = attr_is(r, "direction", "forward", "reverse");
    if (attr_find(r, "activations") || attr_find(r, "clip") || has_in(r, 4))
        run_refuse(r, "%s: other activations, clipping, lengths", r->node->op);
    um_view x = layout ? swap_axes(r, in(r, 0), 0, 1) : in(r, 0), u = in(r, 2), h[2], c[2];
    int64_t batch[] = {size(&x, 1), size(&u, 2)}, steps = size(&x, 0), directions = two ? 2 : 1;
    um_view all = fresh(r, x.dtype, 4, (const int64_t[]){steps, directions, batch[0], batch[1]});
    for (int64_t d = 0; d < directions && !r->failed; d++) {
        bool back = reverse || d == 1;
        layer l = read_layer(r, d);
        l.h = initial(r, 5, batch, layout, d);
        l.c = initial(r, 6, batch, layout, d);
        um_view y = squeeze(r, slice(r, all, 1, d, 1, 1), 1);
        run_layer(r, &l, back ? flip(r, x, 0) : x, back ? flip(r, y, 0) : y);
        h[d] = unsqueeze(r, l.h, layout ? 1 : 0);
        c[d] = unsqueeze(r, l.c, layout ? 1 : 0);
    }
    if (r->failed) return;
    /* By layout: batch, steps, direction. */
    out(r, 0, layout ? transpose(r, all, (const int64_t[]){2, 0, 1, 3}) : all);
    out(r, 1, concat(r, layout ? 1 : 0, (int32_t)directions, h));
    out(r, 2, concat(r, layout ? 1 : 0, (int32_t)directions, c));
}
