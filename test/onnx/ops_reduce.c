/* test/onnx/ops_reduce.c: reductions, running sums, products of matrices, softmax. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

/* Over the axes of input 1 or the attribute; none: all, or with noop_with_empty_axes none. */
static um_view reduce_by_node(run *r, um_op_id id, um_view x)
{
    ints axes = in_or_attr(r, 1, "axes");
    bool keepdims = attr_int(r, "keepdims", 1) != 0;
    uint32_t bits = axes_of(r, &axes, x.rank);
    if (axes.count == 0 && attr_int(r, "noop_with_empty_axes", 0))
        return reduce(r, id, unsqueeze(r, x, 0), 1, false);
    return reduce(r, id, x, bits, keepdims);
}

void on_reduce(run *r, um_op_id id) { out(r, 0, reduce_by_node(r, id, in(r, 0))); }

void on_reduce_log_sum(run *r, um_op_id id)
{
    out(r, 0, m1(r, UM_OP_LOG, reduce_by_node(r, id, in(r, 0))));
}

void on_reduce_sum_square(run *r, um_op_id id)
{
    out(r, 0, reduce_by_node(r, id, m1(r, UM_OP_SQUARE, in(r, 0))));
}

/* cumsum, cumprod; exclusive: what came before, without the place itself. */
void on_scan_along(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, has_in(r, 1) ? (int64_t)run_number(r, in(r, 1)) : 0, x.rank);
    bool reverse = attr_int(r, "reverse", 0) != 0;
    if (reverse) x = flip(r, x, axis);
    if (attr_int(r, "exclusive", 0)) {
        um_view first = num(r, x.dtype, id == UM_OP_CUMPROD);
        x = pad_axis(r, x, axis, 1, -1, "constant", first);
    }
    x = scan(r, id, x, axis);
    out(r, 0, reverse ? flip(r, x, axis) : x);
}

/* Before opset 13: over all axes from `axis` on. */
void on_softmax(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    int32_t axis = axis_of(r, attr_int(r, "axis", r->opset < 13 ? 1 : -1), x.rank);
    if (r->opset < 13)
        out(r, 0, reshape(r, scan(r, id, flatten(r, x, axis), 1), x.rank, x.shape));
    else
        out(r, 0, scan(r, id, x, axis));
}

void on_matmul(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, matmul(r, in(r, 0), in(r, 1)));
}

void on_gemm(run *r, um_op_id id)
{
    um_view a = in(r, 0), b = in(r, 1);
    if (attr_int(r, "transA", 0)) a = swap_axes(r, a, 0, 1);
    if (attr_int(r, "transB", 0)) b = swap_axes(r, b, 0, 1);
    um_op op = {.id = id, .in_count = 2};
    op.attrs.matmul.alpha = (double)attr_float(r, "alpha", 1);
    op.in[0] = a;
    op.in[1] = b;
    op.out[0].dtype = a.dtype;
    if (has_in(r, 2)) {
        op.in_count = 3;
        op.attrs.matmul.beta = (double)attr_float(r, "beta", 1);
        op.in[2] = expand(r, in(r, 2), 2, (const int64_t[]){size(&a, 0), size(&b, 1)});
    }
    out(r, 0, run_op(r, &op));
}

/* ---- einsum: one product over all letters, summed over those that the result lacks ------------
 */

typedef struct equation {
    char letters[UM_MAX_RANK]; /* of the product, the result's first */
    int32_t count, kept;
} equation;

static const char *skip_blanks(const char *text)
{
    while (*text == ' ') text++;
    return text;
}

/* The next letter of a term, or 0 at its end. An ellipsis stands for the axes 'A', 'B', ... of
 * which this term has `dots`. */
static char next_letter(const char **text, int32_t dots, int32_t *dot)
{
    *text = skip_blanks(*text);
    if (strncmp(*text, "...", 3) == 0) {
        if (*dot < dots) return (char)('A' + (*dot)++);
        *text = skip_blanks(*text + 3);
    }
    bool letter = **text >= 'a' && **text <= 'z';
    return letter ? *(*text)++ : 0;
}

/* x with its axes at their letters' places, and 1 elsewhere; repeated letters are a diagonal. */
static um_view by_letters(run *r, um_view x, const char **text, const equation *e)
{
    um_view y = {.ptr = x.ptr, .dtype = x.dtype, .rank = e->count};
    const char *probe = *text;
    int32_t plain = 0, dot = 0, axis = 0;
    while (next_letter(&probe, 0, &dot)) plain++;
    for (int32_t d = 0; d < e->count; d++) y.shape[d] = 1;
    char letter;
    while ((letter = next_letter(text, x.rank - plain, &dot)) != 0 && !r->failed) {
        const char *place = memchr(e->letters, letter, (size_t)e->count);
        if (!place || axis == x.rank) run_refuse(r, "Einsum: the letters of a term");
        if (r->failed) break;
        int32_t d = (int32_t)(place - e->letters);
        if (y.shape[d] != 1 && x.shape[axis] != 1 && y.shape[d] != x.shape[axis])
            run_refuse(r, "Einsum: sizes of %c differ", letter);
        y.shape[d] = x.shape[axis];
        y.stride[d] += x.stride[axis++];
    }
    return y;
}

static void add_letters(run *r, equation *e, const char **text, int32_t dots)
{
    int32_t dot = 0;
    char letter;
    while ((letter = next_letter(text, dots, &dot)) != 0 && !r->failed) {
        if (memchr(e->letters, letter, (size_t)e->count)) continue;
        if (e->count == UM_MAX_RANK) run_refuse(r, "Einsum: over %d letters", UM_MAX_RANK);
        if (!r->failed) e->letters[e->count++] = letter;
    }
}

/* How many axes the ellipsis of a term stands for: what its letters leave of the rank. */
static int32_t count_dots(const char **text, int32_t rank)
{
    bool has_dots = false;
    int32_t plain = 0;
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        has_dots = has_dots || **text == '.';
        plain += **text >= 'a' && **text <= 'z';
    }
    return has_dots ? UM_MAX(rank - plain, 0) : 0;
}

/* Without ->: the ellipsis, then the letters that occur once, in alphabetical order. */
static const char *implied_result(const char *text, char *room)
{
    size_t count = 0;
    if (strstr(text, "...")) count = 3, memcpy(room, "...", 3);
    for (char letter = 'a'; letter <= 'z'; letter++) {
        const char *at = strchr(text, letter);
        if (at && !strchr(at + 1, letter)) room[count++] = letter;
    }
    room[count] = 0;
    return room;
}

void on_einsum(run *r, um_op_id id)
{
    const char *text = attr_str(r, "equation", ""), *result = strstr(text, "->");
    char implied[32];
    equation e = {0};
    int32_t dots = 0;
    const char *term = text;
    for (int32_t i = 0; i < r->in_count && !r->failed; i++, term += *term == ',') {
        int32_t here = count_dots(&term, in(r, i).rank);
        dots = UM_MAX(dots, here);
    }
    if (r->failed) return;
    term = result ? result + 2 : implied_result(text, implied);
    add_letters(r, &e, &term, dots);
    e.kept = e.count;
    term = text;
    for (int32_t i = 0; i < r->in_count; i++, term += *term == ',') add_letters(r, &e, &term, dots);
    um_view y = num(r, in(r, 0).dtype, 1);
    term = text;
    for (int32_t i = 0; i < r->in_count && !r->failed; i++, term += *term == ',') {
        um_view x = by_letters(r, in(r, i), &term, &e);
        y = i == 0 ? x : mul(r, y, x);
    }
    uint32_t summed = 0;
    for (int32_t d = e.kept; d < e.count; d++) summed |= 1u << d;
    out(r, 0, summed ? reduce(r, id, y, summed, false) : y);
}
