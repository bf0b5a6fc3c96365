/* check/oracle_index.c: reading and writing through indices, one element at a time and in order.
 */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

/* ---- which index is good ------------------------------------------------------------------------
 */

static bool is_attention(um_op_id op)
{
    return op == UM_OP_ATTENTION || op == UM_OP_ATTENTION_BACKWARD;
}

/* The input that holds indices, or -1. */
static int32_t index_input(um_op_id op)
{
    switch (op) {
    case UM_OP_EMBEDDING:
    case UM_OP_GATHER:
    case UM_OP_INDEX_SELECT:
    case UM_OP_GATHER_ND:
    case UM_OP_SCATTER:
    case UM_OP_INDEX_ADD:
    case UM_OP_SCATTER_ND:
    case UM_OP_EMBEDDING_BACKWARD: return 1;
    case UM_OP_ONE_HOT: return 0;
    default: return -1;
    }
}

static int32_t axis_of(const um_op *op)
{
    int32_t axis = op->attrs.index.axis;
    return axis < 0 ? axis + op->in[0].rank : axis;
}

static bool by_rows(const um_op *op)
{
    return op->id == UM_OP_GATHER_ND || op->id == UM_OP_SCATTER_ND;
}

/* The size that number `position` of the indices must be below. */
static int64_t limit_at(const um_op *op, int64_t position)
{
    if (op->id == UM_OP_EMBEDDING) return op->in[0].shape[0];
    if (op->id == UM_OP_EMBEDDING_BACKWARD || op->id == UM_OP_ONE_HOT) return op->attrs.index.count;
    if (!by_rows(op)) return op->in[0].shape[axis_of(op)];
    return op->in[0].shape[position % op->in[1].shape[op->in[1].rank - 1]];
}

static bool is_good(const um_op *op, const um_array *indices, int64_t position)
{
    return indices->item[position].i >= 0 && indices->item[position].i < limit_at(op, position);
}

bool um_oracle_takes_indices(um_op_id op) { return is_attention(op) || index_input(op) >= 0; }

bool um_oracle_has_bad_index(const um_op *op, const um_array *in)
{
    if (is_attention(op->id)) return um_oracle_has_bad_length(op, in);
    int32_t input = index_input(op->id);
    for (int64_t i = 0; input >= 0 && i < in[input].count; i++)
        if (!is_good(op, &in[input], i)) return true;
    return false;
}

/* ---- entries: gather's outputs, scatter's values ------------------------------------------------
 */

static void unravel(const um_array *x, int64_t position, int64_t *place)
{
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        place[d] = position % x->shape[d];
        position /= x->shape[d];
    }
}

static int64_t ravel(const um_array *x, const int64_t *place)
{
    int64_t position = 0;
    for (int32_t d = 0; d < x->rank; d++) position = position * x->shape[d] + place[d];
    return position;
}

/* The table's element that element `position` of the entries meets; -1: the index is bad. */
static int64_t partner(const um_op *op, const um_array *table, const um_array *indices,
                       const um_array *entries, int64_t position)
{
    int64_t at[UM_MAX_RANK] = {0}, to[UM_MAX_RANK];
    unravel(entries, position, at);
    if (by_rows(op) || op->id == UM_OP_EMBEDDING || op->id == UM_OP_EMBEDDING_BACKWARD) {
        int32_t rows = by_rows(op) ? indices->rank - 1 : indices->rank;
        int32_t parts = by_rows(op) ? (int32_t)indices->shape[rows] : 1;
        int64_t row = 0;
        for (int32_t d = 0; d < rows; d++) row = row * indices->shape[d] + at[d];
        for (int32_t p = 0; p < parts; p++) {
            if (!is_good(op, indices, row * parts + p)) return -1;
            to[p] = indices->item[row * parts + p].i;
        }
        for (int32_t d = rows; d < entries->rank; d++) to[parts + d - rows] = at[d];
        return ravel(table, to);
    }
    int32_t axis = axis_of(op);
    bool slices = op->id == UM_OP_INDEX_SELECT || op->id == UM_OP_INDEX_ADD;
    int64_t number = slices ? at[axis] : ravel(indices, at);
    if (!is_good(op, indices, number)) return -1;
    at[axis] = indices->item[number].i;
    return ravel(table, at);
}

/* ---- gather -------------------------------------------------------------------------------------
 */

static um_expect expect_item(um_dtype dtype, um_num value)
{
    return um_oracle_is_float(dtype) ? um_expect_near((long double)value.f, 0)
                                     : um_expect_num(value);
}

static void expect_gather(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *expect)
{
    for (int64_t i = 0; i < out->count; i++) {
        int64_t from = partner(op, &in[0], &in[1], out, i);
        expect[i] = expect_item(out->dtype, from < 0 ? (um_num){.i = 0} : in[0].item[from]);
    }
}

/* ---- scatter ------------------------------------------------------------------------------------
 */

/* What y's element is after some of its values. */
typedef struct meeting {
    um_num value; /* assign, min, max, integers */
    um_total sum;
    double product;
    int64_t count; /* with what y held */
    bool has_sign; /* of zeros: nothing but -0 was added */
} meeting;

/* In dtype's order; NaN wins, +0 is above -0. */
static bool is_above(um_dtype dtype, um_num a, um_num b)
{
    if (dtype == UM_U64) return a.u > b.u;
    if (!um_oracle_is_float(dtype)) return a.i > b.i;
    if (a.f == b.f) return signbit(b.f) && !signbit(a.f);
    return a.f > b.f;
}

static void meet(meeting *m, int32_t mode, um_dtype dtype, um_num value)
{
    bool is_float = um_oracle_is_float(dtype);
    m->count++;
    if (is_float) {
        um_total_add(&m->sum, (long double)value.f);
        m->has_sign = m->has_sign && value.f == 0 && signbit(value.f);
        m->product *= value.f;
    }
    switch (mode) {
    case UM_SCATTER_ASSIGN: m->value = value; break;
    case UM_SCATTER_ADD:
        if (!is_float) m->value = um_oracle_wrap(dtype, m->value.u + value.u);
        break;
    case UM_SCATTER_MUL:
        if (!is_float) m->value = um_oracle_wrap(dtype, m->value.u * value.u);
        break;
    default:
        if (is_float && (isnan(m->value.f) || isnan(value.f)))
            m->value.f = (double)NAN;
        else if (is_above(dtype, value, m->value) == (mode == UM_SCATTER_MAX))
            m->value = value;
    }
}

static um_expect expect_meeting(const meeting *m, int32_t mode, um_dtype dtype)
{
    bool rounds = mode == UM_SCATTER_ADD || mode == UM_SCATTER_MUL;
    if (!um_oracle_is_float(dtype) || !rounds || m->count == 1) return expect_item(dtype, m->value);
    double eps = um_oracle_eps(UM_F64);
    if (mode == UM_SCATTER_MUL)
        return um_expect_near((long double)m->product,
                              (double)m->count *
                                  (eps * fabs(m->product) + um_oracle_ulp(UM_F64, 0)));
    if (m->has_sign) return um_expect_near(-0.0L, 0);
    um_expect expect = um_expect_near(um_total_get(&m->sum),
                                      um_oracle_sum_bound(UM_F64, m->count, m->sum.magnitude));
    if (um_oracle_sum_overflows(UM_F64, m->count, m->sum.magnitude)) expect.judge = UM_JUDGE_LOOSE;
    return expect;
}

static um_status expect_scatter(const um_op *op, const um_array *y, const um_array *indices,
                                const um_array *values, const um_array *out, um_expect *expect)
{
    int32_t mode = op->attrs.index.mode;
    if (op->id == UM_OP_INDEX_ADD || op->id == UM_OP_EMBEDDING_BACKWARD) mode = UM_SCATTER_ADD;
    meeting *all = calloc((size_t)out->count + 1, sizeof *all);
    if (!all) return UM_OUT_OF_MEMORY;
    for (int64_t i = 0; i < out->count; i++) {
        um_num start = y ? y->item[i] : (um_num){.i = 0};
        all[i] = (meeting){.value = start, .product = 1};
        if (um_oracle_is_float(out->dtype)) {
            um_total_add(&all[i].sum, (long double)start.f);
            all[i].has_sign = start.f == 0 && signbit(start.f);
            all[i].product = start.f;
        }
        all[i].count = 1;
    }
    for (int64_t i = 0; i < values->count && out->count > 0; i++) {
        int64_t to = partner(op, out, indices, values, i);
        if (to >= 0) meet(&all[to], mode, out->dtype, values->item[i]);
    }
    for (int64_t i = 0; i < out->count; i++) expect[i] = expect_meeting(&all[i], mode, out->dtype);
    free(all);
    return UM_OK;
}

/* ---- positions ----------------------------------------------------------------------------------
 */

static void expect_one_hot(const um_array *indices, const um_array *out, um_expect *expect)
{
    int64_t depth = out->shape[out->rank - 1];
    for (int64_t i = 0; i < out->count; i++) {
        um_num one = {.i = indices->item[i / depth].i == i % depth};
        expect[i] = expect_item(out->dtype, um_oracle_convert(out->dtype, UM_I64, one));
    }
}

static void expect_nonzero(const um_array *x, const um_array *out, um_expect *const *expect,
                           bool counts)
{
    int64_t count = 0, place[UM_MAX_RANK] = {0};
    for (int64_t i = 0; i < out->count; i++) expect[0][i] = um_expect_num((um_num){.i = -1});
    for (int64_t i = 0; i < x->count; i++) {
        if (um_oracle_real(x->dtype, x->item[i]) == 0) continue;
        unravel(x, i, place);
        for (int32_t d = 0; d < x->rank && count < out->shape[0]; d++)
            expect[0][count * x->rank + d] = um_expect_num((um_num){.i = place[d]});
        count++;
    }
    if (counts) expect[1][0] = um_expect_num((um_num){.i = count});
}

um_status um_oracle_index(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *const *expect)
{
    switch (op->id) {
    case UM_OP_SCATTER:
    case UM_OP_INDEX_ADD:
    case UM_OP_SCATTER_ND: return expect_scatter(op, &in[0], &in[1], &in[2], out, expect[0]);
    case UM_OP_EMBEDDING_BACKWARD: return expect_scatter(op, NULL, &in[1], &in[0], out, expect[0]);
    case UM_OP_ONE_HOT: expect_one_hot(&in[0], out, expect[0]); break;
    case UM_OP_NONZERO: expect_nonzero(&in[0], out, expect, op->out_count > 1); break;
    default: expect_gather(op, in, out, expect[0]);
    }
    return UM_OK;
}
