/* kernel/conv.c: convolution and its gradients as sums of products (product.c); which tensor is the
 * wide one, the narrow one, the filter: op/conv.h. Letters: N batch, C and K channels of a group's
 * wide and narrow side, T taps of the filter, P places of the side that is made.
 *
 *   made     places            channels   depth   factors
 *   narrow   n and narrow's    K          C T     wide, filter
 *   wide     n and wide's      C          K T     narrow, filter
 *   filter   C T               K          n and narrow's places   wide, narrow
 *
 * Made with strides, wide places of one residue modulo the stride meet the same taps, and the
 * others none. These phases are entries of the batch, each a sum over its own taps; only with very
 * many of them is every tap looked at.
 *
 * With one tap, no strides and no padding it is a matmul of views of the tensors.
 *
 * Each group is an entry of the batch. Where channels come first, they are the rows, and places the
 * columns; else places are rows, and along the depth channels are next to each other, not taps; so
 * that loads and stores are of what lies together. */
#include "op/conv.h"

#include "kernel/library.h"

/* RIDING: what an epilogue reads beside the sum, of the shape of what is made. */
enum { WIDE, FILTER, NARROW, BIAS, RIDING, VIEWS = RIDING + UM_MAP_MAX_INPUTS - 1 };
enum { BATCH, CHANNEL, SPACE }; /* axes of wide and narrow; filter: K, C, SPACE */
enum { PHASES_MAX = 64 };
#define OUTPUTS_MAX (((int64_t)1 << 32) - ((int64_t)1 << 16))

typedef struct conv {
    const um_op *op;
    const um_conv_desc *desc;
    um_dtype compute;
    int32_t made, axes, rank;
    bool has_bias, rides;
    um_rider rider;
    bool flipped;    /* places are rows */
    bool reads_made; /* an epilogue's input lies where the result goes */
    int64_t phases;  /* 1: none */
    um_kwalk walk[VIEWS];
    um_kview view[VIEWS];
    um_val size[VIEWS][UM_MAX_RANK]; /* of SPACE and what follows */
    um_val group, c, k;              /* the group, and channels of one */
    um_val stride[UM_CONV_MAX_AXES], dilation[UM_CONV_MAX_AXES], pad[UM_CONV_MAX_AXES];
    /* What numbers of places and taps are split by: sizes, or those of a phase, whose places are
     * stride apart from `first_place` on, and taps `tap_step` apart from `first_tap` on. */
    um_val parts[VIEWS][UM_MAX_RANK];
    um_val tap_step[UM_CONV_MAX_AXES], first_tap[UM_CONV_MAX_AXES], first_place[UM_CONV_MAX_AXES];
} conv;

/* ---- what there is -------------------------------------------------------------------------- */

/* A view's axes in this file's order. */
static um_kwalk walk_of(const um_view *view, bool last)
{
    um_kwalk w = {.view_count = 1, .rank = view->rank, .view = {view}};
    for (int32_t axis = 0; axis < view->rank; axis++) {
        int32_t from = !last || axis == 0 ? axis : axis == CHANNEL ? view->rank - 1 : axis - 1;
        w.shape[axis] = view->shape[from];
        w.stride[0][axis] = view->stride[from];
    }
    return w;
}

/* Taps that meet one place are this far apart. */
static int64_t tap_step(const conv *c, int32_t axis)
{
    int64_t a = c->desc->stride[axis], b = c->desc->dilation[axis];
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return c->desc->stride[axis] / a;
}

/* The most places, and taps, that a phase has along an axis. */
static int64_t phase_size(const conv *c, int32_t v, int32_t axis)
{
    return um_ceil_div(c->walk[v].shape[SPACE + axis],
                       v == WIDE ? c->desc->stride[axis] : tap_step(c, axis));
}

static int64_t phase_count(const conv *c)
{
    int64_t phases = 1, outputs = c->walk[WIDE].shape[BATCH] * c->walk[WIDE].shape[CHANNEL];
    for (int32_t axis = 0; c->made == WIDE && axis < c->axes; axis++) {
        phases *= c->desc->stride[axis];
        if (phases > PHASES_MAX || !um_mul_i64(outputs, phase_size(c, WIDE, axis), &outputs))
            return 1;
    }
    return outputs <= OUTPUTS_MAX / phases ? phases : 1;
}

static conv conv_of(const um_op *op)
{
    um_conv_views v = um_conv_get_views(op, &op->out[0]);
    bool last = op->attrs.conv.layout == UM_CHANNELS_LAST;
    conv c = {.op = op, .desc = &op->attrs.conv, .rank = v.wide->rank, .axes = v.wide->rank - 2};
    c.compute = um_kvalue_compute(op->in[0].dtype);
    c.walk[WIDE] = walk_of(v.wide, last);
    c.walk[FILTER] = walk_of(v.filter, false);
    c.walk[NARROW] = walk_of(v.narrow, last);
    c.has_bias = op->id == UM_OP_CONV && um_op_has_input(op, 2);
    if (c.has_bias) c.walk[BIAS] = walk_of(&op->in[2], false);
    c.rides = um_op_rider(op, UM_EPILOGUE, &c.rider);
    for (int32_t i = 1; c.rides && i < c.rider.in_count; i++) {
        c.walk[RIDING + i - 1] = walk_of(&op->in[c.rider.input[i]], last);
        c.reads_made = c.reads_made || um_views_identical(&op->in[c.rider.input[i]], &op->out[0]);
    }
    c.made = &op->out[0] == v.wide ? WIDE : &op->out[0] == v.filter ? FILTER : NARROW;
    c.flipped = last && c.made != FILTER;
    c.phases = phase_count(&c);
    return c;
}

/* Places are added up in 32 bits, with a sign. */
static bool axis_fits(const conv *c, int32_t axis)
{
    int64_t pads = (int64_t)c->desc->pad_before[axis] + c->desc->pad_after[axis], padded;
    return um_add_i64(c->walk[WIDE].shape[SPACE + axis], pads, &padded) && padded < INT32_MAX;
}

bool um_kconv_supports(const um_op *op, char *why, size_t why_size)
{
    conv c = conv_of(op);
    int32_t views = 3 + (c.rides ? c.rider.in_count - 1 : 0);
    if (views * (c.rank + 1) + (c.phases > 1 ? 9 : 6) * c.axes + 12 > UM_K_MAX_SCALARS)
        return um_kplan_refuse(op, why, why_size, "for so many inputs of the epilogue");
    for (int32_t axis = 0; axis < c.axes; axis++)
        if (!axis_fits(&c, axis))
            return um_kplan_refuse(op, why, why_size, "for padded sizes of 2^31");
    return true;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static int64_t place_count(const um_kwalk *w)
{
    int64_t count = 1;
    for (int32_t axis = SPACE; axis < w->rank; axis++) count *= w->shape[axis];
    return count;
}

/* How an invocation of a tile, which makes 4 columns from a multiple of 4, can write words. */
static um_kstore store_of(const conv *c, bool in_fours)
{
    const um_kwalk *w = &c->walk[c->made];
    const um_view *out = w->view[0];
    if (um_dtype_bits(out->dtype) >= 32) return UM_KSTORE_PLAIN;
    int64_t each = 32 / um_dtype_bits(out->dtype);
    bool packed = in_fours && out->ptr % 4 == 0 && um_view_is_packed(out);
    int64_t row = c->flipped ? w->shape[CHANNEL] / c->desc->groups : place_count(w);
    bool apart = c->phases > 1 && !c->flipped; /* columns are */
    return packed && !apart && row % each == 0 ? UM_KSTORE_WORDS : UM_KSTORE_ATOMIC;
}

/* Names are unique in a kernel: those of a view's parameters have its number. */
static void declare_view(conv *c, um_klaunch *launch, int32_t v, um_kstore store)
{
    um_kwalk w = c->walk[v];
    bool made = v == c->made;
    w.view[v] = w.view[0];
    memmove(w.stride[v], w.stride[0], sizeof w.stride[v]);
    int32_t access = !made ? UM_K_READ : c->reads_made ? UM_K_READ_WRITE : UM_K_WRITE;
    c->view[v] = um_kview_declare(launch, &w, v, access, made ? store : UM_KSTORE_PLAIN);
}

static bool lies_on_made(const conv *c, int32_t v)
{
    return um_views_identical(c->walk[v].view[0], &c->op->out[0]);
}

static void declare_riding(conv *c, um_klaunch *launch)
{
    for (int32_t v = RIDING; v < RIDING + c->rider.in_count - 1; v++) {
        c->view[v] = c->view[c->made];
        c->view[v].dtype = c->walk[v].view[0]->dtype;
        if (!lies_on_made(c, v)) declare_view(c, launch, v, UM_KSTORE_PLAIN);
    }
}

static void declare(void *ctx, um_klaunch *launch, int32_t parts, bool in_fours)
{
    conv *c = ctx;
    for (int32_t v = 0; v < 3 + c->has_bias; v++) {
        int32_t part = v == c->made || v == BIAS ? UM_KPRODUCT_RESULT : UM_KPRODUCT_FACTORS;
        for (int32_t axis = SPACE; axis < c->walk[v].rank; axis++)
            c->size[v][axis] =
                um_klaunch_scalar(launch, c->walk[v].shape[axis], "size%d_%d", (int)v, (int)axis);
        if (parts & part) declare_view(c, launch, v, store_of(c, in_fours));
    }
    if (c->rides && parts & UM_KPRODUCT_RESULT) declare_riding(c, launch);
    c->c = um_klaunch_scalar(launch, c->walk[FILTER].shape[1], "c");
    c->k = um_klaunch_scalar(launch, c->walk[FILTER].shape[0] / c->desc->groups, "k");
    for (int axis = 0; axis < c->axes; axis++) {
        c->stride[axis] = um_klaunch_scalar(launch, c->desc->stride[axis], "step%d", axis);
        c->dilation[axis] = um_klaunch_scalar(launch, c->desc->dilation[axis], "dilation%d", axis);
        c->pad[axis] = um_klaunch_scalar(launch, c->desc->pad_before[axis], "pad%d", axis);
    }
    memcpy(c->parts, c->size, sizeof c->parts);
    for (int axis = 0; axis < c->axes && c->phases > 1; axis++) {
        int64_t places = phase_size(c, WIDE, axis), taps = phase_size(c, FILTER, axis);
        c->parts[WIDE][SPACE + axis] = um_klaunch_scalar(launch, places, "places%d", axis);
        c->parts[FILTER][SPACE + axis] = um_klaunch_scalar(launch, taps, "taps%d", axis);
        c->tap_step[axis] = um_klaunch_scalar(launch, tap_step(c, axis), "tap_step%d", axis);
    }
}

/* ---- places --------------------------------------------------------------------------------- */

/* The batch entry or channel, and the spatial place, of number e. */
static void split(const conv *c, um_kernel *k, int32_t v, um_val e, um_val *first, um_val *place)
{
    um_val places[UM_MAX_RANK] = {0};
    if (c->flipped && v == FILTER) {
        um_val channels = c->made == WIDE ? c->k : c->c;
        *first = um_k_rem(k, e, channels);
        um_kwalk_places(k, um_k_div(k, e, channels), SPACE, c->rank, c->parts[v], places);
    } else {
        um_kwalk_places(k, e, SPACE - 1, c->rank, c->parts[v], places);
        *first = places[SPACE - 1];
    }
    for (int32_t axis = 0; axis < c->axes; axis++) {
        um_val at = place[axis] = places[SPACE + axis];
        if (c->phases == 1 || v == NARROW) continue;
        at = um_k_mul(k, at, v == WIDE ? c->stride[axis] : c->tap_step[axis]);
        place[axis] = um_k_add(k, at, v == WIDE ? c->first_place[axis] : c->first_tap[axis]);
    }
}

/* Some phases have a place, or a tap, less than others. */
static void stay_within(const conv *c, um_kernel *k, int32_t v, const um_val *place, um_val *in)
{
    for (int32_t axis = 0; axis < c->axes && c->phases > 1; axis++)
        *in = um_k_and(k, *in, um_k_lt(k, place[axis], c->size[v][SPACE + axis]));
}

static um_val load(const conv *c, um_kernel *k, int32_t v, um_val batch, um_val channel,
                   const um_val *place, um_val in, int32_t lanes)
{
    um_val at[UM_MAX_RANK] = {batch, channel};
    for (int32_t axis = 0; axis < c->axes; axis++) at[SPACE + axis] = place[axis];
    um_val index = um_kview_place(k, &c->view[v], c->rank, at);
    um_val zero = um_k_splat(k, lanes, um_k_const(k, c->view[v].dtype, 0));
    return um_k_load_if(k, c->view[v].mem, index, in, zero);
}

/* The channel in the whole tensor of one in the group. */
static um_val channel_of(const conv *c, um_kernel *k, um_val of_group, um_val channel)
{
    return um_k_add(k, um_k_mul(k, c->group, of_group), channel);
}

/* Narrow place o and tap t meet wide place i; `in` becomes false where that is in the padding. */
static void meet_wide(const conv *c, um_kernel *k, const um_val *o, const um_val *t, um_val *i,
                      um_val *in)
{
    for (int32_t axis = 0; axis < c->axes; axis++) {
        um_val at = um_k_add(k, um_k_mul(k, o[axis], c->stride[axis]),
                             um_k_mul(k, t[axis], c->dilation[axis]));
        i[axis] = um_k_sub(k, at, c->pad[axis]); /* below 0: large */
        *in = um_k_and(k, *in, um_k_lt(k, i[axis], c->size[WIDE][SPACE + axis]));
    }
}

static void meet_narrow(const conv *c, um_kernel *k, const um_val *i, const um_val *t, um_val *o,
                        um_val *in)
{
    for (int32_t axis = 0; axis < c->axes; axis++) {
        um_val at = um_k_add(k, i[axis], c->pad[axis]);
        um_val by = um_k_mul(k, t[axis], c->dilation[axis]), steps = um_k_sub(k, at, by);
        o[axis] = um_k_div(k, steps, c->stride[axis]);
        um_val whole = um_k_eq(k, um_k_mul(k, o[axis], c->stride[axis]), steps);
        um_val good = um_k_and(k, um_k_ge(k, at, by), whole);
        good = um_k_and(k, good, um_k_lt(k, o[axis], c->size[NARROW][SPACE + axis]));
        *in = um_k_and(k, *in, good);
    }
}

/* ---- factors -------------------------------------------------------------------------------- */

/* Of the filter, for a channel of the side that is made; depth: the other's channel and a tap. */
static um_val from_filter(const conv *c, um_kernel *k, um_val channel, um_val depth, um_val in)
{
    um_val other, tap[UM_CONV_MAX_AXES];
    split(c, k, FILTER, depth, &other, tap);
    bool narrow = c->made == NARROW;
    stay_within(c, k, FILTER, tap, &in);
    um_val kk = channel_of(c, k, c->k, narrow ? channel : other);
    return load(c, k, FILTER, kk, narrow ? other : channel, tap, in, 1);
}

/* Of the other side, for a place of the side that is made. */
static um_val from_side(const conv *c, um_kernel *k, um_val place, um_val depth, um_val in,
                        int32_t lanes)
{
    um_val n, channel, at[UM_CONV_MAX_AXES], tap[UM_CONV_MAX_AXES], to[UM_CONV_MAX_AXES];
    split(c, k, c->made, place, &n, at);
    split(c, k, FILTER, depth, &channel, tap);
    if (c->made == NARROW) {
        meet_wide(c, k, at, tap, to, &in);
        return load(c, k, WIDE, n, channel_of(c, k, c->c, channel), to, in, lanes);
    }
    stay_within(c, k, FILTER, tap, &in);
    meet_narrow(c, k, at, tap, to, &in);
    return load(c, k, NARROW, n, channel_of(c, k, c->k, channel), to, in, lanes);
}

/* Of the narrow side, for filter number `channel`; depth: a place of it. */
static um_val from_narrow(const conv *c, um_kernel *k, um_val channel, um_val depth, um_val in)
{
    um_val n, o[UM_CONV_MAX_AXES];
    split(c, k, NARROW, depth, &n, o);
    return load(c, k, NARROW, n, channel_of(c, k, c->k, channel), o, in, 1);
}

static um_val from_wide(const conv *c, um_kernel *k, um_val place, um_val depth, um_val in)
{
    um_val n, channel, o[UM_CONV_MAX_AXES], tap[UM_CONV_MAX_AXES], i[UM_CONV_MAX_AXES];
    split(c, k, FILTER, place, &channel, tap);
    split(c, k, NARROW, depth, &n, o);
    meet_wide(c, k, o, tap, i, &in);
    return load(c, k, WIDE, n, channel_of(c, k, c->c, channel), i, in, 1);
}

static um_val of_channel(void *ctx, um_kernel *k, um_val channel, um_val depth, um_val in,
                         int32_t lanes)
{
    (void)lanes;
    const conv *c = ctx;
    return c->made == FILTER ? from_narrow(c, k, channel, depth, in)
                             : from_filter(c, k, channel, depth, in);
}

static um_val of_place(void *ctx, um_kernel *k, um_val place, um_val depth, um_val in,
                       int32_t lanes)
{
    const conv *c = ctx;
    return c->made == FILTER ? from_wide(c, k, place, depth, in)
                             : from_side(c, k, place, depth, in, lanes);
}

/* Of a wide place with strides, most taps meet no narrow place. */
static um_val meets(void *ctx, um_kernel *k, um_val row, um_val column, um_val depth)
{
    const conv *c = ctx;
    um_val first, i[UM_CONV_MAX_AXES], tap[UM_CONV_MAX_AXES], o[UM_CONV_MAX_AXES];
    um_val in = um_k_bool(k, true);
    split(c, k, WIDE, c->flipped ? row : column, &first, i);
    split(c, k, FILTER, depth, &first, tap);
    meet_narrow(c, k, i, tap, o, &in);
    return in;
}

/* ---- one tap: a product of matrices --------------------------------------------------------- */

enum { PLACES_FEW = 32 }; /* of a batch entry: below, places of all entries make better tiles */

static bool has_one_tap(const conv *c)
{
    for (int32_t i = 0; i < c->axes; i++)
        if (c->walk[FILTER].shape[SPACE + i] != 1 || c->desc->stride[i] != 1 ||
            c->desc->pad_before[i] != 0 || c->desc->pad_after[i] != 0)
            return false;
    return true;
}

/* The wide or narrow side as [batch, group, channel, place]; *joins: the batch goes on along the
 * places. false: places are not evenly apart. */
static bool side_matrix(const conv *c, int32_t v, um_view *m, bool *joins)
{
    const um_kwalk *w = &c->walk[v];
    int64_t step = w->stride[0][BATCH], next = step, each = w->shape[CHANNEL] / c->desc->groups;
    bool first = true;
    *m = *w->view[0];
    for (int32_t axis = w->rank - 1; axis >= SPACE; axis--) {
        if (w->shape[axis] == 1) continue;
        if (!first && w->stride[0][axis] != next) return false;
        if (first) step = w->stride[0][axis];
        next = w->stride[0][axis] * w->shape[axis];
        first = false;
    }
    int64_t shape[] = {w->shape[BATCH], c->desc->groups, each, place_count(w)};
    int64_t stride[] = {w->stride[0][BATCH], each * w->stride[0][CHANNEL], w->stride[0][CHANNEL],
                        step};
    *joins = *joins && (shape[0] == 1 || stride[0] == next);
    m->rank = 4;
    memcpy(m->shape, shape, sizeof shape);
    memcpy(m->stride, stride, sizeof stride);
    return true;
}

static um_view turned(um_view m)
{
    int64_t shape = m.shape[2], stride = m.stride[2];
    m.shape[2] = m.shape[3], m.stride[2] = m.stride[3];
    m.shape[3] = shape, m.stride[3] = stride;
    return m;
}

/* A view of [channel ...] as [batch, group, channel, inner]. */
static um_view constant_matrix(const conv *c, int32_t v, int64_t batch, int64_t inner)
{
    const um_kwalk *w = &c->walk[v];
    um_view m = *w->view[0];
    int64_t each = w->shape[0] / c->desc->groups;
    m.rank = 4;
    m.shape[0] = batch, m.shape[1] = c->desc->groups, m.shape[2] = each, m.shape[3] = inner;
    m.stride[0] = 0, m.stride[1] = each * w->stride[0][0], m.stride[2] = w->stride[0][0];
    m.stride[3] = w->rank > 1 ? w->stride[0][1] : 0;
    return m;
}

/* The epilogue as the matmul's, which has five inputs of its own; its others are there by then. */
static void give_program(const conv *c, um_op *matmul, um_map_program *program)
{
    int32_t own = matmul->in_count - (c->rider.in_count - 1);
    *program = c->rider.program;
    for (int32_t i = 0; i < program->inst_count; i++) {
        um_map_inst *inst = &program->inst[i];
        for (size_t k = 0; k < UM_COUNT_OF(inst->src); k++)
            if (inst->src[k] > 0) inst->src[k] = (uint8_t)(inst->src[k] + own - 1);
    }
    matmul->attrs.matmul.epilogue = program;
}

/* The op as a matmul, perhaps with that program: false where it is none, or better is not. */
static bool is_matmul(const conv *c, um_op *out, um_map_program *program)
{
    um_view side[VIEWS] = {0};
    bool joins = true, to_filter = c->made == FILTER;
    int32_t end = RIDING + (c->rides ? c->rider.in_count - 1 : 0);
    if (!has_one_tap(c) || um_view_count(&c->op->out[0]) == 0) return false;
    for (int32_t v = 0; v < end; v++)
        if (v != FILTER && v != BIAS && !side_matrix(c, v, &side[v], &joins)) return false;
    int64_t batch = side[WIDE].shape[0], places = side[WIDE].shape[3];
    if (!joins && (to_filter || places < PLACES_FEW)) return false;
    if (joins) places *= batch, batch = 1;
    for (int32_t v = 0; v < end; v++) side[v].shape[0] = batch, side[v].shape[3] = places;
    um_view filter = constant_matrix(c, FILTER, batch, c->walk[FILTER].shape[1]);
    um_view a = to_filter ? side[NARROW] : c->made == WIDE ? turned(filter) : filter;
    um_view b = to_filter ? turned(side[WIDE]) : side[c->made == WIDE ? NARROW : WIDE];
    um_view made = to_filter ? filter : side[c->made];
    *out = (um_op){.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1};
    out->attrs.matmul.alpha = 1;
    out->in[0] = c->flipped ? turned(b) : a;
    out->in[1] = c->flipped ? turned(a) : b;
    out->out[0] = c->flipped ? turned(made) : made;
    if (c->has_bias || c->rides)
        while (out->in_count < 5) out->in[out->in_count++] = um_view_none(a.dtype);
    if (c->has_bias) {
        um_view bias = constant_matrix(c, BIAS, batch, places);
        out->in[3] = c->flipped ? turned(bias) : bias;
    }
    for (int32_t v = RIDING; v < end; v++)
        out->in[out->in_count++] = c->flipped ? turned(side[v]) : side[v];
    if (c->rides) give_program(c, out, program);
    return um_kmatmul_supports(out, NULL, 0);
}

/* ---- the op --------------------------------------------------------------------------------- */

/* The first tap that meets the wide places of a phase (the residue of the place with its padding),
 * or, where there is none, one behind the last. */
static um_val find_tap(const conv *c, um_kernel *k, int32_t axis, um_val phase)
{
    um_val kernel = c->size[FILTER][SPACE + axis], one = um_k_u32(k, 1);
    um_mem found = um_kvar(k, kernel, "first_tap%d", (int)axis);
    um_val t = um_k_for(k, um_k_u32(k, 0), um_k_min(k, kernel, c->stride[axis]), one);
    um_val at = um_k_rem(k, um_k_mul(k, t, c->dilation[axis]), c->stride[axis]);
    um_val first = um_k_min(k, um_k_get(k, found), t);
    um_k_set(k, found, um_k_select(k, um_k_eq(k, at, phase), first, um_k_get(k, found)));
    um_k_end(k);
    return um_k_get(k, found);
}

static void begin(void *ctx, um_kernel *k, um_val batch)
{
    conv *c = ctx;
    c->group = batch;
    if (c->phases == 1) return;
    um_val phase[1 + UM_CONV_MAX_AXES] = {0}, size[1 + UM_CONV_MAX_AXES] = {0};
    for (int32_t axis = 0; axis < c->axes; axis++) size[1 + axis] = c->stride[axis];
    um_kwalk_places(k, batch, 0, 1 + c->axes, size, phase);
    c->group = phase[0];
    for (int32_t axis = 0; axis < c->axes; axis++) {
        um_val over = um_k_rem(k, c->pad[axis], c->stride[axis]);
        um_val place = um_k_sub(k, um_k_add(k, phase[1 + axis], c->stride[axis]), over);
        c->first_place[axis] = um_k_rem(k, place, c->stride[axis]);
        c->first_tap[axis] = find_tap(c, k, axis, phase[1 + axis]);
    }
}

static um_val run_rider(const conv *c, um_kernel *k, const um_val *at, um_val sum)
{
    um_val in[UM_MAP_MAX_INPUTS] = {sum};
    for (int32_t i = 1; i < c->rider.in_count; i++)
        in[i] = um_kview_load_at(k, &c->view[RIDING + i - 1], c->rank, at);
    return um_kprogram_run(k, &c->rider.program, c->rider.in_count, in);
}

static void finish(void *ctx, um_kernel *k, um_val row, um_val column, um_val sum)
{
    const conv *c = ctx;
    um_val place = c->flipped ? row : column, channel = c->flipped ? column : row;
    um_val at[UM_MAX_RANK] = {0}, first;
    split(c, k, c->made, place, &first, at + SPACE);
    channel = channel_of(c, k, c->made == WIDE ? c->c : c->k, channel);
    at[0] = c->made == FILTER ? channel : first;
    at[1] = c->made == FILTER ? first : channel;
    if (c->has_bias) {
        um_val bias = um_kview_load_at(k, &c->view[BIAS], 1, &channel);
        sum = um_k_add(k, sum, um_kvalue_as(k, c->compute, bias));
    }
    const um_kview *out = &c->view[c->made];
    um_val in = um_k_bool(k, true);
    stay_within(c, k, c->made, at + SPACE, &in);
    if (c->phases > 1) um_k_if(k, in);
    if (c->rides) sum = run_rider(c, k, at, sum);
    um_kview_store(k, out, um_kview_place(k, out, c->rank, at), um_kvalue_as(k, out->dtype, sum));
    if (c->phases > 1) um_k_end(k);
}

/* Channels of the other side that can be loaded at once along the depth. */
static int32_t lanes_of(const conv *c)
{
    const um_view *other = c->walk[c->made == WIDE ? NARROW : WIDE].view[0];
    int64_t channels = other->shape[other->rank - 1] / c->desc->groups;
    return c->flipped && channels % 4 == 0 ? um_kwalk_lanes(other, other->rank - 1) : 1;
}

um_status um_kconv_plan(const um_op *op, um_kplan *plan)
{
    conv c = conv_of(op);
    um_op product;
    um_map_program program;
    if (is_matmul(&c, &product, &program)) return um_kmatmul_plan(&product, plan);
    const um_kwalk *made = &c.walk[c.made], *filter = &c.walk[FILTER], *narrow = &c.walk[NARROW];
    int64_t groups = c.desc->groups, k_group = filter->shape[0] / groups, depth = 0;
    bool empty = false, to_filter = c.made == FILTER, strided = false;
    for (int32_t v = 0; v < 3; v++) empty = empty || um_view_count(c.walk[v].view[0]) == 0;
    int64_t channels = c.made == WIDE ? filter->shape[1] : k_group;
    int64_t places = to_filter ? filter->shape[1] : made->shape[BATCH], taps = 1;
    for (int32_t axis = 0; axis < c.axes; axis++) {
        bool whole = c.phases == 1;
        places *= whole ? made->shape[SPACE + axis] : phase_size(&c, WIDE, axis);
        taps *= whole ? filter->shape[SPACE + axis] : phase_size(&c, FILTER, axis);
        strided = strided || c.desc->stride[axis] > 1;
    }
    if (!empty)
        depth = to_filter ? narrow->shape[BATCH] * place_count(narrow)
                          : taps * (c.made == WIDE ? k_group : filter->shape[1]);
    um_kproduct p = {.batches = groups * c.phases,
                     .rows = c.flipped ? places : channels,
                     .columns = c.flipped ? channels : places,
                     .depth = depth,
                     .compute = c.compute,
                     .narrow = um_kproduct_narrow(filter->view[0]->dtype),
                     .ctx = &c,
                     .declare = declare,
                     .begin = begin,
                     .a = c.flipped ? of_place : of_channel,
                     .b = c.flipped ? of_channel : of_place,
                     .finish = finish,
                     .meets = c.made == WIDE && strided && c.phases == 1 ? meets : NULL,
                     .a_deep = true,
                     .a_lanes = lanes_of(&c),
                     .b_lanes = 1,
                     .b_deep = c.flipped || to_filter};
    return um_kproduct_plan(um_op_name(op->id), plan, &p);
}
