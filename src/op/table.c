/* op/table.c: the rows, their names, and um_op_infer and um_op_check: the part of the rules that
 * every op shares. What is special to an op is in its family's file. */
#include "op/rule.h"

#include <stdio.h>

static const um_op_row rows[] = {
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)        \
    {id,     #name,           UM_FAMILY_##family, in_min,                                          \
     in_max, out_count,       UM_DTYPES_##dtypes, UM_RESULT_##result,                              \
     doc,    um_infer_##rule, um_sample_##rule},
#include <umbel/op.def>
};

int32_t um_op_count(void) { return (int32_t)UM_COUNT_OF(rows); }

const um_op_row *um_op_get_row(um_op_id id)
{
    return id >= 1 && id <= um_op_count() ? &rows[id - 1] : NULL;
}

const char *um_op_name(um_op_id id)
{
    const um_op_row *row = um_op_get_row(id);
    return row ? row->name : "none";
}

const char *um_op_doc(um_op_id id)
{
    const um_op_row *row = um_op_get_row(id);
    return row ? row->doc : "";
}

um_op_id um_op_find(const char *name)
{
    for (size_t i = 0; name && i < UM_COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].id;
    return UM_OP_NONE;
}

int32_t um_op_main_input(um_op_id id)
{
    const um_op_row *row = um_op_get_row(id);
    if (!row || row->in_max == 0 || id == UM_OP_ONE_HOT) return -1;
    return id == UM_OP_WHERE ? 1 : 0;
}

/* ---- failing -------------------------------------------------------------------------------- */

um_status um_rule_fail(const um_op *op, const char *format, ...)
{
    char text[sizeof((um_error *)0)->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = um_op_name(op->id);
    (void)um_fail(UM_INVALID_ARGUMENT, "%s: %s", name, text);
    return um_fail_tag("", name);
}

um_status um_rule_fail_views(const um_op *op, const char *what, const char *a_name,
                             const um_view *a, const char *b_name, const um_view *b)
{
    char a_text[UM_VIEW_TEXT], b_text[UM_VIEW_TEXT];
    um_view_text(a, a_text, sizeof a_text);
    um_view_text(b, b_text, sizeof b_text);
    return um_rule_fail(op, "%s: %s is %s, %s is %s", what, a_name, a_text, b_name, b_text);
}

um_status um_rule_fail_view(const um_op *op, const char *what, const char *name, const um_view *v)
{
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "%s: %s is %s", what, name, um_view_text(v, text, sizeof text));
}

void um_rule_like(um_view *out, um_dtype dtype, const um_view *a)
{
    out->dtype = dtype;
    out->rank = a->rank;
    for (int32_t i = 0; i < a->rank; i++) out->shape[i] = a->shape[i];
}

/* ---- infer ---------------------------------------------------------------------------------- */

static um_status check_counts(const um_op *op, const um_op_row *row)
{
    int32_t most = um_rule_has_rider(op) ? UM_OP_MAX_INPUTS : row->in_max;
    if (op->in_count < row->in_min || op->in_count > most) {
        if (row->in_min == most)
            return um_rule_fail(op, "wants %d inputs, got %d", (int)row->in_min, (int)op->in_count);
        return um_rule_fail(op, "wants %d to %d inputs, got %d", (int)row->in_min, (int)most,
                            (int)op->in_count);
    }
    if (op->out_count < 1 || op->out_count > row->out_count)
        return um_rule_fail(op, "wants %s%d outputs, got %d", row->out_count > 1 ? "1 to " : "",
                            (int)row->out_count, (int)op->out_count);
    return UM_OK;
}

static um_status check_form(const um_op *op, const char *side, int32_t index, const um_view *view)
{
    const char *fault = um_view_fault(view);
    if (!fault) return UM_OK;
    char text[UM_VIEW_TEXT];
    return um_rule_fail(op, "%s %d %s: it is %s", side, (int)index, fault,
                        um_view_text(view, text, sizeof text));
}

static um_status check_mask(const um_op *op, const um_op_row *row, const char *side, int32_t index,
                            um_dtype dtype)
{
    if (row->dtypes & UM_BIT(dtype)) return UM_OK;
    char wanted[200] = "";
    size_t at = 0;
    for (um_dtype d = 1; um_dtype_valid(d) && at < sizeof wanted; d++)
        if (row->dtypes & UM_BIT(d))
            at += (size_t)snprintf(wanted + at, sizeof wanted - at, " %s", um_dtype_name(d));
    return um_rule_fail(op, "%s %d is %s, wants one of%s", side, (int)index, um_dtype_name(dtype),
                        wanted);
}

/* The outputs as the op's rule has them, without ptr and strides. out: UM_OP_MAX_OUTPUTS views. */
static um_status infer_outputs(const um_op *op, const um_op_row *row, um_view *out)
{
    UM_TRY(check_counts(op, row));
    for (int32_t i = 0; i < op->in_count; i++) UM_TRY(check_form(op, "input", i, &op->in[i]));
    int32_t main = um_op_main_input(op->id);
    const um_map_program *prologue = um_op_program(op, UM_PROLOGUE);
    UM_TRY(um_rule_check_riders(op));
    if (prologue)
        UM_TRY(check_mask(op, row, "prologue as input", 0, prologue->dtype));
    else if (main >= 0 && main < op->in_count)
        UM_TRY(check_mask(op, row, "input", main, op->in[main].dtype));
    for (int32_t i = 0; i < op->out_count; i++) out[i] = op->out[i];
    UM_TRY(row->infer(op, out));
    UM_TRY(um_rule_check_rider_views(op, out));
    for (int32_t i = 0; i < op->out_count; i++) {
        UM_TRY(check_form(op, "output", i, &out[i]));
        if (row->result == UM_RESULT_FREE) UM_TRY(check_mask(op, row, "output", i, out[i].dtype));
    }
    return UM_OK;
}

static um_status find_row(const um_op *op, const char *who, const um_op_row **row)
{
    *row = NULL;
    if (!op) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: the op is NULL", who);
    *row = um_op_get_row(op->id);
    if (*row) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: there is no op %d, ids go from 1 to %d", who,
                   (int)op->id, (int)um_op_count());
}

um_status um_op_infer(um_op *op)
{
    const um_op_row *row;
    um_view out[UM_OP_MAX_OUTPUTS];
    UM_TRY(find_row(op, "op_infer", &row));
    UM_TRY(infer_outputs(op, row, out));
    for (int32_t i = 0; i < op->out_count; i++) {
        um_view packed = {.ptr = op->out[i].ptr};
        um_rule_like(&packed, out[i].dtype, &out[i]);
        um_view_pack(&packed);
        op->out[i] = packed;
    }
    return UM_OK;
}

/* ---- check ---------------------------------------------------------------------------------- */

static um_status check_reach(const um_op *op, const char *side, int32_t index, const um_view *view)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high))
        return um_rule_fail(op, "%s %d reaches further than 64 bits by its strides", side,
                            (int)index);
    uint64_t below = 0 - (uint64_t)low; /* low <= 0 */
    if (below > view->ptr || (high > 0 && (uint64_t)high - 1 > UINT64_MAX - view->ptr))
        return um_rule_fail(op, "%s %d reaches beyond the address space: 0x%llx %+lld bytes", side,
                            (int)index, (unsigned long long)view->ptr,
                            (long long)(below > view->ptr ? low : high));
    return UM_OK;
}

bool um_op_updates_input(const um_op *op, int32_t index)
{
    if (um_op_get_row(op->id)->family == UM_FAMILY_MAP) return true;
    if (um_rule_epilogue_alone_reads(op, index)) return true;
    switch (op->id) {
    case UM_OP_COPY:
    case UM_OP_SCATTER:
    case UM_OP_INDEX_ADD:
    case UM_OP_SCATTER_ND:
    case UM_OP_DROPOUT: return index == 0;
    case UM_OP_MATMUL: return index == 2 || index == 4;
    case UM_OP_BATCH_NORM: return index >= 3;
    default: return false;
    }
}

/* The one overlap that every kernel of the op copes with. */
static bool in_place_allowed(const um_op *op, int32_t input, const um_view *out)
{
    return um_op_updates_input(op, input) && um_views_identical(&op->in[input], out);
}

static um_status check_output_memory(const um_op *op, const um_op_row *row, int32_t index)
{
    const um_view *out = &op->out[index];
    if (um_view_self_overlaps(out))
        return um_rule_fail_view(op, "elements of the output overlap each other", "out", out);
    for (int32_t i = 0; i < index; i++)
        if (um_views_overlap(out, &op->out[i]))
            return um_rule_fail(op, "outputs %d and %d overlap", (int)i, (int)index);
    for (int32_t i = 0; i < op->in_count; i++) {
        if (in_place_allowed(op, i, out) || !um_views_overlap(out, &op->in[i])) continue;
        return um_rule_fail(op, "output %d overlaps input %d%s", (int)index, (int)i,
                            row->family == UM_FAMILY_MAP ? " and is not exactly in place" : "");
    }
    return UM_OK;
}

um_status um_op_check(const um_op *op)
{
    const um_op_row *row;
    um_view out[UM_OP_MAX_OUTPUTS];
    UM_TRY(find_row(op, "op_check", &row));
    UM_TRY(infer_outputs(op, row, out));
    int64_t written = 0;
    for (int32_t i = 0; i < op->out_count; i++) {
        UM_TRY(check_form(op, "output", i, &op->out[i]));
        if (op->out[i].dtype != out[i].dtype || !um_shapes_equal(&op->out[i], &out[i]))
            return um_rule_fail_views(op, "wrong output", "it", &op->out[i], "the op's", &out[i]);
        written |= um_view_count(&out[i]);
    }
    if (written == 0) return UM_OK;
    for (int32_t i = 0; i < op->in_count; i++) UM_TRY(check_reach(op, "input", i, &op->in[i]));
    for (int32_t i = 0; i < op->out_count; i++) UM_TRY(check_reach(op, "output", i, &op->out[i]));
    for (int32_t i = 0; i < op->out_count; i++) UM_TRY(check_output_memory(op, row, i));
    return UM_OK;
}
