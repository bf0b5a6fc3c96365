/* compute/move.c: what moves or makes elements: copies, fills, ranges, and the moves built of
 * copies (pad, concat, tile, flip, roll) of umbel/compute.h. */
#include "compute/compute.h"
#include "device/device.h"

/* ---- single ops ---------------------------------------------------------------------------------
 */

um_status um_copy_view(um_stream *stream, const um_view *x, const um_view *y)
{
    return um_convert_view(stream, UM_OVERFLOW_CONVERT, x, y);
}

um_status um_convert_view(um_stream *stream, um_overflow overflow, const um_view *x,
                          const um_view *y)
{
    um_view from = {0};
    um_call call = um_call_begin(UM_OP_COPY);
    call.op.attrs.copy.overflow = overflow;
    if (x && y) UM_TRY(um_view_broadcast(x, y->rank, y->shape, &from));
    um_call_input(&call, "x", x ? &from : NULL);
    um_call_output(&call, "y", y);
    return um_call_run(&call, stream);
}

um_status um_fill_view(um_stream *stream, um_number value, const um_view *y)
{
    um_call call = um_call_begin(UM_OP_FILL);
    um_call_output(&call, "y", y);
    call.op.attrs.fill.f = value.f;
    call.op.attrs.fill.i = value.i;
    return um_call_run(&call, stream);
}

um_status um_arange_view(um_stream *stream, um_number start, um_number step, const um_view *y)
{
    um_call call = um_call_begin(UM_OP_ARANGE);
    um_call_output(&call, "y", y);
    call.op.attrs.arange.start = start.f;
    call.op.attrs.arange.step = step.f;
    call.op.attrs.arange.i_start = start.i;
    call.op.attrs.arange.i_step = step.i;
    return um_call_run(&call, stream);
}

um_status um_linspace_view(um_stream *stream, double start, double stop, const um_view *y)
{
    um_call call = um_call_begin(UM_OP_LINSPACE);
    um_call_output(&call, "y", y);
    call.op.attrs.linspace.start = start;
    call.op.attrs.linspace.stop = stop;
    return um_call_run(&call, stream);
}

um_status um_flip_view(um_stream *stream, uint32_t axes, const um_view *x, const um_view *y)
{
    um_view from = {0};
    um_call call = um_call_begin(UM_OP_COPY);
    if (x) UM_TRY(um_view_flip(x, axes, &from));
    if (x && y && x->dtype != y->dtype)
        return UM_FAIL(UM_INVALID_ARGUMENT, "flip: x is %s, y is %s", um_dtype_name(x->dtype),
                       um_dtype_name(y->dtype));
    um_call_input(&call, "x", x ? &from : NULL);
    um_call_output(&call, "y", y);
    return um_call_run(&call, stream);
}

/* ---- moves of several copies --------------------------------------------------------------------
 */

/* Each is gone through twice: first every piece is checked, then every piece is run, so that a call
 * that is refused writes nothing. */
typedef struct move {
    um_stream *stream;
    const char *who;
    um_view x, y;
    bool runs;
} move;

static um_status run(const move *m, const um_op *op)
{
    um_runner runner;
    if (m->runs || !m->stream) return um_enqueue(m->stream, op);
    return um_dispatch_check(m->stream, op, &runner);
}

static um_status fill(const move *m, um_number value)
{
    um_op op = {.id = UM_OP_FILL, .out_count = 1, .out = {m->y}};
    op.attrs.fill.f = value.f;
    op.attrs.fill.i = value.i;
    return run(m, &op);
}

static um_status copy(const move *m, const um_view *from, const um_view *to)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1, .out = {*to}, .in = {*from}};
    return run(m, &op);
}

static um_status part(const um_view *view, int32_t axis, int64_t first, int64_t count, um_view *out)
{
    return um_view_slice(view, axis, first, first + count, 1, out);
}

/* Two good views of one dtype and rank; y may be written as a whole and is apart from x. */
static um_status begin(move *m, um_stream *stream, const char *who, const um_view *x,
                       const um_view *y)
{
    if (!x || !y) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s is NULL", who, x ? "y" : "x");
    *m = (move){.stream = stream, .who = who, .y = *y};
    UM_TRY(fill(m, (um_number){0}));
    UM_TRY(um_view_broadcast(x, x->rank, x->shape, &m->x));
    if (x->dtype != y->dtype || x->rank != y->rank)
        return UM_FAIL(UM_INVALID_ARGUMENT, "%s: x is %s of rank %d, y is %s of rank %d", who,
                       um_dtype_name(x->dtype), (int)x->rank, um_dtype_name(y->dtype),
                       (int)y->rank);
    if (um_view_count(y) > 0 && um_views_overlap(x, y))
        return UM_FAIL(UM_INVALID_ARGUMENT, "%s: y overlaps x", who);
    return UM_OK;
}

static um_status refuse_size(const move *m, int32_t axis)
{
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: axis %d is %lld long in x and %lld in y", m->who,
                   (int)axis, (long long)m->x.shape[axis], (long long)m->y.shape[axis]);
}

/* ---- pad */

/* How far into y an axis of x starts, its size, and what is left behind it. */
typedef struct span {
    int64_t before, size, after;
} span;

static span span_of(const move *m, const int64_t *before, int32_t axis)
{
    int64_t size = m->x.shape[axis];
    return (span){before[axis], size, m->y.shape[axis] - size - before[axis]};
}

static um_status check_pad(const move *m, const int64_t *before, um_pad_mode mode)
{
    if (mode < UM_PAD_CONSTANT || mode > UM_PAD_WRAP)
        return UM_FAIL(UM_INVALID_ARGUMENT, "pad: there is no mode %d", (int)mode);
    if (!before && m->x.rank > 0) return UM_FAIL(UM_INVALID_ARGUMENT, "pad: before is NULL");
    for (int32_t i = 0; i < m->x.rank; i++) {
        if (before[i] < 0 || before[i] > m->y.shape[i]) return refuse_size(m, i);
        span s = span_of(m, before, i);
        int64_t most = UM_MAX(s.before, s.after), has = s.size - (mode == UM_PAD_REFLECT);
        if (s.after < 0) return refuse_size(m, i);
        if (mode == UM_PAD_EDGE) has = s.size > 0 ? INT64_MAX : 0;
        if (mode != UM_PAD_CONSTANT && most > 0 && most > has)
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "pad: axis %d wants %lld elements beyond an end, x has %lld to show",
                           (int)i, (long long)most, (long long)UM_MAX(has, 0));
    }
    return UM_OK;
}

/* What stands in for `count` elements of the band before (after) those of x, in its own memory. */
static um_status pad_source(const um_view *band, int32_t axis, span s, bool after, um_pad_mode mode,
                            um_view *out)
{
    int64_t count = after ? s.after : s.before, last = s.before + s.size - 1;
    if (mode == UM_PAD_WRAP) return part(band, axis, after ? s.before : s.size, count, out);
    if (mode == UM_PAD_REFLECT) {
        int64_t first = after ? last - 1 : 2 * s.before, stop = first - count;
        return um_view_slice(band, axis, first, stop < 0 ? INT64_MIN : stop, -1, out);
    }
    UM_TRY(part(band, axis, after ? last : s.before, 1, out));
    out->shape[axis] = count;
    out->stride[axis] = 0;
    return UM_OK;
}

/* Both ends of one axis, from what `band` has between them. */
static um_status pad_axis(const move *m, const um_view *band, int32_t axis, span s,
                          um_pad_mode mode)
{
    for (int32_t after = 0; after < 2; after++) {
        int64_t count = after ? s.after : s.before;
        um_view from, to;
        if (count == 0) continue;
        UM_TRY(pad_source(band, axis, s, after, mode, &from));
        UM_TRY(part(band, axis, after ? s.before + s.size : 0, count, &to));
        UM_TRY(copy(m, &from, &to));
    }
    return UM_OK;
}

static um_status pad(const move *m, const int64_t *before, um_pad_mode mode, um_number value)
{
    /* band[i]: y, but in axes from i on only where x is */
    um_view band[UM_MAX_RANK + 1];
    band[m->y.rank] = m->y;
    for (int32_t i = m->y.rank - 1; i >= 0; i--)
        UM_TRY(part(&band[i + 1], i, before[i], m->x.shape[i], &band[i]));
    if (mode == UM_PAD_CONSTANT) UM_TRY(fill(m, value));
    UM_TRY(copy(m, &m->x, &band[0]));
    for (int32_t i = 0; i < m->y.rank && mode != UM_PAD_CONSTANT; i++)
        UM_TRY(pad_axis(m, &band[i + 1], i, span_of(m, before, i), mode));
    return UM_OK;
}

um_status um_pad_view(um_stream *stream, um_pad_mode mode, const int64_t *before, um_number value,
                      const um_view *x, const um_view *y)
{
    move m;
    UM_TRY(begin(&m, stream, "pad", x, y));
    UM_TRY(check_pad(&m, before, mode));
    UM_TRY(pad(&m, before, mode, value));
    m.runs = true;
    return pad(&m, before, mode, value);
}

/* ---- concat */

static um_status concat(move *m, int32_t axis, int32_t count, const um_view *x)
{
    int64_t at = 0;
    for (int32_t k = 0; k < count; k++) {
        um_view to;
        if (x[k].shape[axis] > m->y.shape[axis] - at) return refuse_size(m, axis);
        UM_TRY(part(&m->y, axis, at, x[k].shape[axis], &to));
        UM_TRY(copy(m, &x[k], &to));
        at += x[k].shape[axis];
    }
    if (at == m->y.shape[axis]) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "concat: axis %d is %lld long in y, all x have %lld",
                   (int)axis, (long long)m->y.shape[axis], (long long)at);
}

um_status um_concat_view(um_stream *stream, int32_t axis, int32_t count, const um_view *x,
                         const um_view *y)
{
    move m;
    int32_t a;
    if (count < 1)
        return UM_FAIL(UM_INVALID_ARGUMENT, "concat: got %d views, wants 1 or more", (int)count);
    for (int32_t k = 0; k < count; k++) UM_TRY(begin(&m, stream, "concat", x ? &x[k] : NULL, y));
    if (!um_axis_resolve(axis, y->rank, &a))
        return UM_FAIL(UM_INVALID_ARGUMENT, "concat: axis %d is outside rank %d", (int)axis,
                       (int)y->rank);
    UM_TRY(concat(&m, a, count, x));
    m.runs = true;
    return concat(&m, a, count, x);
}

/* ---- tile */

/* x once, then along each axis what is there once more, twice as much each time. */
static um_status tile(const move *m)
{
    um_view band[UM_MAX_RANK + 1];
    band[m->y.rank] = m->y;
    for (int32_t i = m->y.rank - 1; i >= 0; i--)
        UM_TRY(part(&band[i + 1], i, 0, m->x.shape[i], &band[i]));
    UM_TRY(copy(m, &m->x, &band[0]));
    for (int32_t i = 0; i < m->y.rank; i++) {
        int64_t all = m->y.shape[i], n;
        for (int64_t done = m->x.shape[i]; done < all; done += n) {
            um_view from, to;
            n = UM_MIN(done, all - done);
            UM_TRY(part(&band[i + 1], i, 0, n, &from));
            UM_TRY(part(&band[i + 1], i, done, n, &to));
            UM_TRY(copy(m, &from, &to));
        }
    }
    return UM_OK;
}

um_status um_tile_view(um_stream *stream, const um_view *x, const um_view *y)
{
    move m;
    UM_TRY(begin(&m, stream, "tile", x, y));
    for (int32_t i = 0; i < y->rank; i++) {
        int64_t size = m.x.shape[i];
        if (size > 0 ? y->shape[i] % size != 0 : y->shape[i] != 0) return refuse_size(&m, i);
    }
    if (um_view_count(y) == 0) return UM_OK;
    UM_TRY(tile(&m));
    m.runs = true;
    return tile(&m);
}

/* ---- roll */

static um_status roll(const move *m, int32_t axis, int64_t shift)
{
    int64_t n = m->x.shape[axis], rest = n - shift;
    um_view from, to;
    UM_TRY(part(&m->x, axis, 0, rest, &from));
    UM_TRY(part(&m->y, axis, shift, rest, &to));
    UM_TRY(copy(m, &from, &to));
    UM_TRY(part(&m->x, axis, rest, shift, &from));
    UM_TRY(part(&m->y, axis, 0, shift, &to));
    return copy(m, &from, &to);
}

um_status um_roll_view(um_stream *stream, int32_t axis, int64_t shift, const um_view *x,
                       const um_view *y)
{
    move m;
    int32_t a;
    UM_TRY(begin(&m, stream, "roll", x, y));
    if (!um_axis_resolve(axis, y->rank, &a))
        return UM_FAIL(UM_INVALID_ARGUMENT, "roll: axis %d is outside rank %d", (int)axis,
                       (int)y->rank);
    for (int32_t i = 0; i < y->rank; i++)
        if (x->shape[i] != y->shape[i]) return refuse_size(&m, i);
    if (um_view_count(y) == 0) return UM_OK;
    int64_t n = y->shape[a], forward = shift % n;
    if (forward < 0) forward += n;
    UM_TRY(roll(&m, a, forward));
    m.runs = true;
    return roll(&m, a, forward);
}
