/* backend/cpu/kernel/attention.h: one attention op, forward or backward, as the bodies see it:
 * its tensors, and who sees whom by position. Used by attention.c and attention_grad.c.
 * Letters: B batch, H heads of q, Hkv of k and v, Sq queries, Sk keys, D and Dv head sizes. */
#ifndef UM_CPU_ATTENTION_H
#define UM_CPU_ATTENTION_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernel/simd.h"

typedef struct attention_job {
    um_cpu_exec *exec;
    const um_view *q, *k, *v;
    const um_view *bias; /* float, bool mask, or NULL; so are the next three */
    const um_view *key_lengths, *query_lengths, *sinks;
    const um_view *out, *lse;               /* lse may be NULL */
    const um_view *dout, *dq, *dk, *dv_out; /* backward only */
    const um_view *dbias, *dsinks;          /* NULL: not wanted */
    int64_t batch, heads, kv_heads, queries, keys, d, dv;
    int64_t group; /* heads of q that share one of k and v */
    double scale, softcap;
    int32_t causal;
    int64_t window;
    int64_t rows_a_task, tasks_a_head;
} attention_job;

/* One head of one sequence: how much of it there is, and by how much its queries' positions are
 * ahead of their numbers. */
typedef struct attention_head {
    int64_t b, h, kv;
    int64_t queries, keys, shift;
} attention_head;

/* Keys, or queries, [first, end); none when first >= end. */
typedef struct attention_span {
    int64_t first, end;
} attention_span;

UM_INLINE int64_t attention_length(const um_view *lengths, int64_t b)
{
    int64_t at = b * lengths->stride[0];
    if (lengths->dtype == UM_I32) return ((const int32_t *)(uintptr_t)lengths->ptr)[at];
    return ((const int64_t *)(uintptr_t)lengths->ptr)[at];
}

/* Lengths out of range count as the nearest in it. */
UM_INLINE attention_head attention_head_of(const attention_job *job, int64_t b, int64_t h)
{
    attention_head at = {b, h, h / job->group, job->queries, job->keys, 0};
    if (job->key_lengths)
        at.keys = UM_MAX(UM_MIN(attention_length(job->key_lengths, b), job->keys), 0);
    if (job->query_lengths)
        at.queries = UM_MAX(UM_MIN(attention_length(job->query_lengths, b), job->queries), 0);
    if (job->causal != UM_CAUSAL_TOP_LEFT) at.shift = at.keys - at.queries;
    return at;
}

UM_INLINE int64_t attention_at(const um_view *x, int64_t b, int64_t h)
{
    return b * x->stride[0] + h * x->stride[1];
}

UM_INLINE int64_t attention_bias_at(const um_view *bias, const attention_head *at)
{
    return attention_at(bias, bias->shape[0] == 1 ? 0 : at->b, bias->shape[1] == 1 ? 0 : at->h);
}

UM_INLINE attention_span attention_keys_of(const attention_job *job, const attention_head *at,
                                           int64_t query)
{
    attention_span span = {0, at->keys};
    if (query >= at->queries) return (attention_span){0, 0};
    if (job->causal == UM_CAUSAL_NONE && job->window == 0) return span;
    int64_t own = query + at->shift;
    if (job->window > 0 && job->window <= own) span.first = own - job->window + 1;
    span.end = UM_MAX(UM_MIN(own + 1, at->keys), 0);
    return span;
}

UM_INLINE attention_span attention_queries_of(const attention_job *job, const attention_head *at,
                                              int64_t key)
{
    attention_span span = {0, at->queries};
    if (key >= at->keys) return (attention_span){0, 0};
    if (job->causal == UM_CAUSAL_NONE && job->window == 0) return span;
    int64_t own = key - at->shift; /* of the query at the key's position */
    span.first = UM_MAX(own, 0);
    if (job->window > 0 && job->window < at->queries - own) span.end = UM_MAX(own + job->window, 0);
    return span;
}

/* Of a query the keys, of a key the queries. */
UM_INLINE attention_span attention_span_of(const attention_job *job, const attention_head *at,
                                           bool of_keys, int64_t index)
{
    return of_keys ? attention_queries_of(job, at, index) : attention_keys_of(job, at, index);
}

/* All that some of `count` from `first` on sees. */
UM_INLINE attention_span attention_reach(const attention_job *job, const attention_head *at,
                                         bool of_keys, int64_t first, int64_t count)
{
    int64_t last = UM_MIN(first + count, of_keys ? at->keys : at->queries) - 1;
    if (last < first) return (attention_span){0, 0};
    return (attention_span){attention_span_of(job, at, of_keys, first).first,
                            attention_span_of(job, at, of_keys, last).end};
}

/* Broadcast rows may be longer than any memory; below this scratch has plain arithmetic. */
UM_INLINE um_status attention_check_sizes(const um_op *op, const attention_job *job)
{
    if (UM_MAX(job->d, job->dv) <= (int64_t)1 << 40) return UM_OK;
    return UM_FAIL(UM_OUT_OF_MEMORY, "%s: no memory for heads of size %lld and %lld",
                   um_op_name(op->id), (long long)job->d, (long long)job->dv);
}

/* The views of both ops; `optional` is the first of the optional inputs. */
attention_job UM_ISA_FN(um_attention_job)(um_cpu_exec *exec, const um_op *op, int32_t optional);
/* How many rows, of `rows`, a task does: of equal size as far as slivers of `unit` allow. */
void UM_ISA_FN(um_attention_split)(attention_job *job, int64_t rows, int64_t most, int64_t unit);
/* OUT_OF_RANGE that names the first bad length; OK when there is none. */
um_status UM_ISA_FN(um_attention_report)(const um_op *op, const attention_job *job);

#endif
