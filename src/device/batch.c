/* Running many independent ops in one call: um_enqueue_batch. What is checked of one op alone is in
 * dispatch.c; here is what the ops are to each other.
 *
 * Whose memory meets whose is found by a sweep over all views, sorted by address: a view is
 * compared with those that began before it and have not ended, and of two inputs nothing is asked.
 * So n ops apart from each other cost n log n, and n where, as usual, they come in order and the
 * inputs lie elsewhere; where outputs are woven into each other (column blocks of one matrix), each
 * pair is looked at exactly, and beyond PAIRS_MAX the batch is refused. */
#include "device/device.h"
#include "op/table.h"

#include <stdlib.h>

#define PAIRS_MAX ((int64_t)1 << 20) /* about a tenth of a second */

typedef long long ll; /* for messages */

/* The bytes first .. last that a view reaches. */
typedef struct span {
    um_ptr first, last;
    const um_view *view;
    int64_t op;
    bool is_output;
} span;

/* The spans that have begun and may not have ended, of one role. */
typedef struct open_spans {
    int64_t count;
    const span **item;
} open_spans;

typedef struct sweep {
    int64_t count, pairs_left;
    span *spans;
    um_ptr out_first, out_last; /* of all outputs */
    open_spans inputs, outputs;
} sweep;

/* ---- overlaps ------------------------------------------------------------------------------- */

/* Outputs first: an input that lies beyond all of them meets none. */
static void add_span(sweep *s, const um_view *view, int64_t op, bool is_output)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high) || low == high) return;
    um_ptr first = view->ptr + (uint64_t)low, last = view->ptr + (uint64_t)high - 1;
    if (is_output) {
        s->out_first = UM_MIN(s->out_first, first);
        s->out_last = UM_MAX(s->out_last, last);
    } else if (first > s->out_last || last < s->out_first) {
        return;
    }
    s->spans[s->count++] = (span){first, last, view, op, is_output};
}

/* By address; the rest makes the order, and so the message, the same each time. */
static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    return x->view < y->view ? -1 : x->view > y->view;
}

static um_status fail_overlap(const span *a, const span *b)
{
    const span *out = a->is_output ? a : b, *other = a->is_output ? b : a;
    char text[2][128];
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "um_enqueue_batch: an output of op %lld, %s at 0x%llx, overlaps an %s of op "
                   "%lld, %s at 0x%llx",
                   (ll)out->op, um_view_text(out->view, text[0], sizeof text[0]),
                   (unsigned long long)out->view->ptr, other->is_output ? "output" : "input",
                   (ll)other->op, um_view_text(other->view, text[1], sizeof text[1]),
                   (unsigned long long)other->view->ptr);
}

/* Compares `now` with the open spans that it meets and forgets those that have ended. */
static um_status meet(sweep *s, open_spans *open, const span *now)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < open->count; i++) {
        const span *other = open->item[i];
        if (other->last < now->first) continue;
        open->item[kept++] = other;
        if (other->op == now->op) continue; /* um_op_check has looked at those */
        if (s->pairs_left-- == 0)
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "um_enqueue_batch: the ops' views are woven into each other in more "
                           "than %lld pairs; use smaller batches",
                           (ll)PAIRS_MAX);
        if (um_views_overlap(other->view, now->view)) return fail_overlap(other, now);
    }
    open->count = kept;
    return UM_OK;
}

static void sort_spans(sweep *s)
{
    for (int64_t i = 1; i < s->count; i++)
        if (compare_spans(&s->spans[i - 1], &s->spans[i]) > 0) {
            qsort(s->spans, (size_t)s->count, sizeof *s->spans, compare_spans);
            return;
        }
}

static um_status sweep_spans(sweep *s)
{
    sort_spans(s);
    for (int64_t i = 0; i < s->count; i++) {
        const span *now = &s->spans[i];
        UM_TRY(meet(s, &s->outputs, now));
        if (now->is_output) UM_TRY(meet(s, &s->inputs, now));
        open_spans *open = now->is_output ? &s->outputs : &s->inputs;
        open->item[open->count++] = now;
    }
    return UM_OK;
}

um_status um_ops_check_independent(int64_t count, const um_op *const *ops)
{
    int64_t views = 0;
    for (int64_t i = 0; i < count; i++) views += ops[i]->in_count + ops[i]->out_count;
    um_status status = UM_OUT_OF_MEMORY;
    sweep s = {.pairs_left = PAIRS_MAX, .out_first = UINT64_MAX};
    s.spans = um_mem_alloc((size_t)views * sizeof *s.spans);
    s.inputs.item = um_mem_alloc((size_t)views * sizeof *s.inputs.item);
    s.outputs.item = um_mem_alloc((size_t)views * sizeof *s.outputs.item);
    if (!s.spans || !s.inputs.item || !s.outputs.item) {
        (void)UM_FAIL(status, "um_enqueue_batch: no memory to compare %lld views", (ll)views);
        goto done;
    }
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < ops[i]->out_count; k++) add_span(&s, &ops[i]->out[k], i, true);
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < ops[i]->in_count; k++) add_span(&s, &ops[i]->in[k], i, false);
    status = sweep_spans(&s);
done:
    um_mem_free(s.outputs.item);
    um_mem_free(s.inputs.item);
    um_mem_free(s.spans);
    return status;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* The last error, with the op's place before it. */
static um_status fail_at(int64_t index, int64_t count)
{
    um_error error = *um_last_error();
    return um_backend_fail(error.code, error.backend, error.op, error.native_code,
                           "um_enqueue_batch: op %lld of %lld: %s", (ll)index, (ll)count,
                           error.message);
}

static um_status run_here(um_stream *stream, int64_t count, const um_op *const *ops)
{
    if (count == 0) return UM_OK;
    if (stream->capture) return um_capture_ops(stream, count, ops, true);
    const um_backend *table = stream->device->driver.table;
    if (count == 1) return table->enqueue(stream->handle, ops[0]);
    return um_table_enqueue_batch(table, stream->handle, count, ops);
}

/* work: room for count ops. Those that write something go to its front: first those that run here.
 */
static um_status enqueue_checked(um_stream *stream, int64_t count, const um_op *ops,
                                 const um_op **work)
{
    int64_t here = 0, there = count; /* the latter from the end */
    for (int64_t i = 0; i < count; i++) {
        um_runner runner;
        if (um_dispatch_check(stream, &ops[i], &runner) != UM_OK) return fail_at(i, count);
        if (runner == UM_RUNS_HERE) work[here++] = &ops[i];
        if (runner >= 0) work[--there] = &ops[i];
    }
    int64_t moved = count - there;
    memmove(work + here, work + there, (size_t)moved * sizeof *work);
    if (here + moved > 1) UM_TRY(um_ops_check_independent(here + moved, work));
    UM_TRY(run_here(stream, here, work));
    for (int64_t i = 0; i < moved; i++) UM_TRY(um_enqueue(stream, work[here + i]));
    return UM_OK;
}

um_status um_enqueue_batch(um_stream *stream, int64_t count, const um_op *ops)
{
    if (!stream || (!ops && count > 0))
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_enqueue_batch: %s is NULL",
                       stream ? "ops" : "stream");
    if (count < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_enqueue_batch: a count of %lld", (ll)count);
    if (count == 0) return UM_OK;
    int64_t bytes;
    const um_op **work = NULL;
    if (um_mul_i64(count, (int64_t)sizeof *work, &bytes)) work = um_mem_alloc((size_t)bytes);
    if (!work)
        return UM_FAIL(UM_OUT_OF_MEMORY, "um_enqueue_batch: no memory for %lld ops", (ll)count);
    um_status status = enqueue_checked(stream, count, ops, work);
    um_mem_free(work);
    return status;
}
