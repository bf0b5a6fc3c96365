/* test/onnx/ops_sets.c: what picks and counts by sorting and comparing: Unique, NonMaxSuppression,
 * TfIdfVectorizer. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

static um_view order_of(run *r, um_view x, bool descending)
{
    um_op op = {.id = UM_OP_ARGSORT, .in_count = 1};
    op.attrs.sort.descending = descending;
    op.in[0] = x;
    return run_op(r, &op);
}

/* ---- Unique: rows that are equal lie together once sorted ---------------------------------------
 */

/* The order of rows [n, m], first column first: stable sorts from the last column to it. */
static um_view order_rows(run *r, um_view rows)
{
    um_view order = arange(r, UM_I64, size(&rows, 0));
    for (int64_t i = size(&rows, 1); i-- > 0 && !r->failed;) {
        um_view column = squeeze(r, slice(r, rows, 1, i, 1, 1), 1);
        order = select_rows(r, order, 0, order_of(r, select_rows(r, column, 0, order), false));
    }
    return order;
}

/* y with y[places] = values */
static um_view put_at(run *r, um_view y, um_view at, um_view values, um_scatter_mode mode)
{
    return scatter_along(r, y, 0, mode, at, expand_like(r, values, &at));
}

void on_unique(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    bool whole = !attr_find(r, "axis");
    int32_t axis = whole ? 0 : axis_of(r, attr_int(r, "axis", 0), x.rank);
    int64_t total = um_view_count(&x);
    if (whole) x = reshape(r, x, 1, &total);
    int64_t n = size(&x, axis);
    if (n == 0) run_refuse(r, "Unique: of nothing");
    if (r->failed) return;
    um_view rows = flatten(r, x.rank > 1 ? swap_axes(r, x, 0, axis) : x, 1);
    um_view order = order_rows(r, rows), sorted = select_rows(r, rows, 0, order);
    um_view changes =
        m2(r, UM_OP_NE, slice(r, sorted, 0, 1, n - 1, 1), slice(r, sorted, 0, 0, n - 1, 1));
    um_view starts[2] = {num(r, UM_BOOL, 1), reduce(r, UM_OP_ANY, changes, 1u << 1, false)};
    starts[0] = unsqueeze(r, starts[0], 0);
    um_view start = concat(r, 0, 2, starts);
    /* Which group each sorted row is of; where each group is first met, as stable sorting keeps. */
    um_view group = addc(r, scan(r, UM_OP_CUMSUM, cast(r, start, UM_I64), 0), -1);
    um_view first = select_rows(r, order, 0, squeeze(r, places(r, start), 1));
    int64_t count = size(&first, 0);
    um_view zeros = full(r, UM_I64, 1, &count, 0), whole_zeros = full(r, UM_I64, 1, &n, 0);
    um_view counts = put_at(r, zeros, group, put_i64(r, 1), UM_SCATTER_ADD);
    um_view inverse = put_at(r, whole_zeros, order, group, UM_SCATTER_ASSIGN);
    if (!attr_int(r, "sorted", 1)) {
        um_view met = order_of(r, first, false);
        um_view rank = put_at(r, zeros, met, arange(r, UM_I64, count), UM_SCATTER_ASSIGN);
        first = select_rows(r, first, 0, met);
        counts = select_rows(r, counts, 0, met);
        inverse = select_rows(r, rank, 0, inverse);
    }
    out(r, 0, select_rows(r, x, axis, first));
    out(r, 1, first);
    out(r, 2, inverse);
    out(r, 3, counts);
}

/* ---- NonMaxSuppression --------------------------------------------------------------------------
 */

/* Boxes [B, 4] as their lower and upper ends of one axis, [B]. */
static void box_ends(run *r, um_view boxes, int64_t axis, um_view *low, um_view *high)
{
    um_view a = squeeze(r, slice(r, boxes, 1, axis, 1, 1), 1);
    um_view b = squeeze(r, slice(r, boxes, 1, axis + 2, 1, 1), 1);
    if (attr_int(r, "center_point_box", 0)) {
        um_view half = mulc(r, b, 0.5);
        *low = sub(r, a, half);
        *high = add(r, a, half);
    } else {
        *low = mini(r, a, b);
        *high = maxi(r, a, b);
    }
}

/* The share of each pair's intersection in its union, [B, B]. */
static um_view overlaps(run *r, um_view boxes)
{
    um_view common = num(r, boxes.dtype, 1), area = common, zero = num(r, boxes.dtype, 0);
    for (int64_t axis = 0; axis < 2; axis++) {
        um_view low, high;
        box_ends(r, boxes, axis, &low, &high);
        um_view last = mini(r, unsqueeze(r, high, 1), high);
        um_view first = maxi(r, unsqueeze(r, low, 1), low);
        common = mul(r, common, maxi(r, sub(r, last, first), zero));
        area = mul(r, area, sub(r, high, low));
    }
    um_view both = sub(r, add(r, unsqueeze(r, area, 1), area), common);
    return where(r, m2(r, UM_OP_GT, both, zero), quo(r, common, both), zero);
}

/* Of boxes by falling score, those that no kept one before them overlaps too much: bool [B]. */
static um_view keep_boxes(run *r, um_view boxes, um_view keep, um_view threshold)
{
    int64_t n = size(&boxes, 0);
    um_view bad = m2(r, UM_OP_GT, overlaps(r, boxes), threshold), at = arange(r, UM_I64, n);
    for (int64_t i = 0; i < n && !r->failed; i++) {
        um_view drop = squeeze(r, slice(r, bad, 0, i, 1, 1), 0);
        drop = m2(r, UM_OP_LOGICAL_AND, drop, m2(r, UM_OP_GT, at, put_i64(r, i)));
        drop = m2(r, UM_OP_LOGICAL_AND, drop, slice(r, keep, 0, i, 1, 1));
        keep = m2(r, UM_OP_LOGICAL_AND, keep, m1(r, UM_OP_LOGICAL_NOT, drop));
    }
    return keep;
}

/* Rows (batch, class, box). */
static um_view suppress(run *r, int64_t batch, int64_t class_, int64_t most)
{
    um_view boxes = squeeze(r, slice(r, in(r, 0), 0, batch, 1, 1), 0);
    um_view scores = squeeze(r, slice(r, in(r, 1), 0, batch, 1, 1), 0);
    scores = squeeze(r, slice(r, scores, 0, class_, 1, 1), 0);
    um_view order = order_of(r, scores, true);
    scores = select_rows(r, scores, 0, order);
    um_view keep = full(r, UM_BOOL, 1, scores.shape, 1), zero = num(r, boxes.dtype, 0);
    if (has_in(r, 4)) keep = m2(r, UM_OP_GT, scores, reshape(r, in(r, 4), 0, NULL));
    um_view threshold = has_in(r, 3) ? reshape(r, in(r, 3), 0, NULL) : zero;
    keep = keep_boxes(r, select_rows(r, boxes, 0, order), keep, threshold);
    um_view kept = squeeze(r, places(r, keep), 1);
    kept = select_rows(r, order, 0, slice(r, kept, 0, 0, UM_MIN(size(&kept, 0), most), 1));
    um_view columns[3] = {put_i64(r, batch), put_i64(r, class_), kept};
    for (int32_t i = 0; i < 3; i++) columns[i] = unsqueeze(r, expand_like(r, columns[i], &kept), 1);
    return concat(r, 1, 3, columns);
}

void on_non_max_suppression(run *r, um_op_id id)
{
    (void)id;
    um_view scores = in(r, 1);
    int64_t most = has_in(r, 2) ? (int64_t)run_number(r, in(r, 2)) : 0;
    um_view all = full(r, UM_I64, 2, (const int64_t[]){0, 3}, 0);
    for (int64_t batch = 0; batch < size(&scores, 0) && !r->failed; batch++)
        for (int64_t class_ = 0; class_ < size(&scores, 1) && !r->failed; class_++)
            all = concat(r, 0, 2, (const um_view[]){all, suppress(r, batch, class_, most)});
    out(r, 0, all);
}

/* ---- TfIdfVectorizer ----------------------------------------------------------------------------
 */

/* How often a gram of `length` numbers is in x [rows, L], its members 1 to max_skip + 1 apart:
 * [rows, 1]. */
static um_view count_gram(run *r, um_view x, const int64_t *gram, int64_t length, int64_t skips)
{
    int64_t l = size(&x, 1);
    um_view count = full(r, UM_F32, 2, (const int64_t[]){size(&x, 0), 1}, 0);
    for (int64_t apart = 1; apart <= skips + 1 && !r->failed; apart++) {
        int64_t starts = l - (length - 1) * apart;
        if (starts < 1 || (length == 1 && apart > 1)) break;
        um_view met = num(r, UM_BOOL, 1);
        for (int64_t i = 0; i < length; i++) {
            um_view at = slice(r, x, 1, i * apart, starts, 1);
            met = m2(r, UM_OP_LOGICAL_AND, met, m2(r, UM_OP_EQ, at, put_i64(r, gram[i])));
        }
        count = add(r, count, reduce(r, UM_OP_SUM, cast(r, met, UM_F32), 1u << 1, true));
    }
    return count;
}

void on_tf_idf(run *r, um_op_id id)
{
    (void)id;
    um_view x = cast(r, in(r, 0), UM_I64), shaped = x.rank == 1 ? unsqueeze(r, x, 0) : x;
    ints pool = attr_ints(r, "pool_int64s"), starts = attr_ints(r, "ngram_counts");
    ints column = attr_ints(r, "ngram_indexes");
    int64_t columns = 0, gram = 0;
    if (!attr_is(r, "mode", "", "TF") || pool.count == 0)
        run_refuse(r, "TfIdfVectorizer: weights, or text");
    for (int64_t i = 0; i < column.count; i++) columns = UM_MAX(columns, column.at[i] + 1);
    um_view y = full(r, UM_F32, 2, (const int64_t[]){size(&shaped, 0), columns}, 0);
    for (int64_t g = 0; g < starts.count && !r->failed; g++) {
        int64_t end = g + 1 < starts.count ? starts.at[g + 1] : pool.count, length = g + 1;
        bool counts = length >= attr_int(r, "min_gram_length", 1) &&
                      length <= attr_int(r, "max_gram_length", 1);
        for (int64_t at = starts.at[g]; at + length <= end && !r->failed; at += length, gram++) {
            if (at < 0 || end > pool.count || gram >= column.count)
                run_refuse(r, "TfIdfVectorizer: the pool");
            if (r->failed || !counts) continue;
            um_view count =
                count_gram(r, shaped, pool.at + at, length, attr_int(r, "max_skip_count", 0));
            copy_to(r, count, slice(r, y, 1, column.at[gram], 1, 1));
        }
    }
    out(r, 0, x.rank == 1 ? squeeze(r, y, 0) : y);
}
