/* backend/cpu/kernel/sort.c: sort, argsort, top-k. Elements become unsigned keys in the order
 * wanted, smallest first, with their places; lines are radix-sorted, or, where only a few are
 * wanted, those few are kept in a heap. */
#include "backend/cpu/kernel/indexed.h"
#include "backend/cpu/kernel/radix.h"

um_status UM_ISA_FN(um_run_sort)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the second is a task's least. A line from the
 * third on is sorted alone, with the scratch of all threads. */
#define SORT_SHARED ((int64_t)1 << 13)
#define SORT_TASK   ((int64_t)1 << 12)
#define LONG_LINE   ((int64_t)1 << 15)
/* A heap is used for less than one in so many. */
#define HEAP_SHARE 16

enum { X, FIRST, SECOND, VIEWS };

typedef struct sort_job {
    um_cpu_exec *exec;
    um_walk lines;                       /* x and the outputs, without the axis */
    const um_view *x, *values, *indices; /* the last two may be NULL */
    int32_t values_view, indices_view;   /* their numbers in the walk */
    int32_t axis, bits;
    bool is_float, is_signed, falls;
    int64_t n, k, lines_a_task;
} sort_job;

/* ---- keys ---------------------------------------------------------------------------------------
 */

UM_INLINE uint64_t raw_at(const void *data, int64_t element, int32_t bits)
{
    switch (bits) {
    case 8: return ((const uint8_t *)data)[element];
    case 16: return ((const uint16_t *)data)[element];
    case 32: return ((const uint32_t *)data)[element];
    default: return ((const uint64_t *)data)[element];
    }
}

static uint64_t infinity_of(um_dtype dtype)
{
    switch (dtype) {
    case UM_F16: return 0x7c00;
    case UM_BF16: return 0x7f80;
    case UM_F32: return 0x7f800000;
    default: return 0x7ff0000000000000;
    }
}

/* -0 becomes +0, NaN larger than all. */
static uint64_t float_key(uint64_t raw, uint64_t sign, uint64_t ones, uint64_t infinity)
{
    uint64_t magnitude = raw & ~sign;
    if (magnitude > infinity) return ones;
    if (magnitude == 0) return sign;
    return raw & sign ? ~raw & ones : raw | sign;
}

static uint64_t key_at(const sort_job *job, int64_t element)
{
    uint64_t sign = (uint64_t)1 << (job->bits - 1), ones = sign | (sign - 1);
    uint64_t key = raw_at((const void *)(uintptr_t)job->x->ptr, element, job->bits);
    if (job->is_float)
        key = float_key(key, sign, ones, infinity_of(job->x->dtype));
    else if (job->is_signed)
        key ^= sign;
    return job->falls ? ~key & ones : key;
}

/* ---- the k first of a line ----------------------------------------------------------------------
 */

/* Whether a comes after b. */
static bool is_later(const um_keyed *a, const um_keyed *b)
{
    return a->key > b->key || (a->key == b->key && a->value > b->value);
}

/* heap[0] is the last in order of the count items; item replaces heap[at] and sinks. */
static void heap_sink(um_keyed *heap, int64_t count, int64_t at, um_keyed item)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && is_later(&heap[child + 1], &heap[child])) child++;
        if (!is_later(&heap[child], &item)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

static void keep_first(const sort_job *job, int64_t x, um_keyed *heap)
{
    int64_t step = job->x->stride[job->axis], k = job->k;
    for (int64_t i = 0; i < k; i++) heap[i] = (um_keyed){key_at(job, x + i * step), i};
    for (int64_t at = k / 2; at-- > 0;) heap_sink(heap, k, at, heap[at]);
    for (int64_t i = k; i < job->n; i++) {
        um_keyed item = {key_at(job, x + i * step), i};
        if (item.key < heap[0].key) heap_sink(heap, k, 0, item);
    }
    for (int64_t count = k - 1; count > 0; count--) {
        um_keyed last = heap[0];
        heap_sink(heap, count, 0, heap[count]);
        heap[count] = last;
    }
}

static bool uses_heap(const sort_job *job) { return job->k < job->n / HEAP_SHARE; }

static void sort_line(const sort_job *job, int64_t x, um_keyed *items)
{
    int64_t step = job->x->stride[job->axis];
    if (uses_heap(job)) {
        keep_first(job, x, items);
        return;
    }
    for (int64_t i = 0; i < job->n; i++) items[i] = (um_keyed){key_at(job, x + i * step), i};
    UM_ISA_FN(um_radix_sort)(items, items + job->n, job->n, job->bits);
}

/* ---- lines --------------------------------------------------------------------------------------
 */

static void write_line(const sort_job *job, const um_walk_at *at, const um_keyed *items)
{
    int64_t bytes = job->bits / 8, from_step = job->x->stride[job->axis];
    if (job->values) {
        const char *from = (const char *)(uintptr_t)job->x->ptr + at->element[X] * bytes;
        char *to = (char *)(uintptr_t)job->values->ptr + at->element[job->values_view] * bytes;
        int64_t step = job->values->stride[job->axis];
        for (int64_t i = 0; i < job->k; i++)
            um_copy_run(to + i * step * bytes, 0, from + items[i].value * from_step * bytes, 0, 1,
                        bytes);
    }
    if (job->indices) {
        int64_t *to = (int64_t *)(uintptr_t)job->indices->ptr + at->element[job->indices_view];
        int64_t step = job->indices->stride[job->axis];
        for (int64_t i = 0; i < job->k; i++) to[i * step] = items[i].value;
    }
}

static void do_lines(const sort_job *job, int64_t first, int64_t end, um_keyed *items)
{
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->lines, first, &at);
    for (; first < end; first++) {
        sort_line(job, at.element[X], items);
        write_line(job, &at, items);
        um_walk_advance(&job->lines, &at, 1);
    }
}

static void sort_task(void *ctx, int64_t task, int32_t lane)
{
    const sort_job *job = ctx;
    int64_t first = task * job->lines_a_task;
    do_lines(job, first, UM_MIN(first + job->lines_a_task, job->lines.total),
             um_cpu_scratch(job->exec, lane));
}

/* Room for a line's items and as many again, or for a heap. */
static um_status reserve(const sort_job *job, bool is_long)
{
    int64_t items = uses_heap(job) ? job->k : job->n, bytes;
    if (!um_mul_i64(items, 2 * (int64_t)sizeof(um_keyed), &bytes))
        return UM_FAIL(UM_OUT_OF_MEMORY, "no memory to sort %lld elements", (long long)items);
    return um_cpu_scratch_reserve(job->exec,
                                  (size_t)um_ceil_div(bytes, is_long ? job->exec->lanes : 1));
}

static void add_lines(sort_job *job, const um_op *op)
{
    um_walk_begin(&job->lines, VIEWS);
    for (int32_t i = 0; i < job->x->rank; i++) {
        int64_t stride[VIEWS];
        stride[X] = job->x->stride[i];
        stride[FIRST] = op->out[0].stride[i];
        stride[SECOND] = op->out_count > 1 ? op->out[1].stride[i] : 0;
        if (i != job->axis) um_walk_add_axis(&job->lines, job->x->shape[i], stride);
    }
    um_walk_end(&job->lines);
}

um_status UM_ISA_FN(um_run_sort)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *x = &op->in[0];
    int32_t axis = op->attrs.sort.axis < 0 ? op->attrs.sort.axis + x->rank : op->attrs.sort.axis;
    bool has_values = op->id == UM_OP_SORT || op->id == UM_OP_TOPK;
    um_dtype_kind kind = um_dtype_get_kind(x->dtype);
    sort_job job = {.exec = exec, .x = x, .axis = axis, .n = x->shape[axis]};
    job.values = has_values ? &op->out[0] : NULL;
    job.indices = !has_values ? &op->out[0] : op->out_count > 1 ? &op->out[1] : NULL;
    job.values_view = FIRST;
    job.indices_view = has_values ? SECOND : FIRST;
    job.bits = um_dtype_bits(x->dtype);
    job.is_float = kind == UM_KIND_FLOAT;
    job.is_signed = kind == UM_KIND_INT;
    job.falls = op->attrs.sort.descending != 0;
    job.k = op->out[0].shape[axis];
    add_lines(&job, op);
    bool is_long = job.n >= LONG_LINE;
    UM_TRY(reserve(&job, is_long));
    job.lines_a_task = UM_MAX(SORT_TASK / job.n, 1);
    if (!is_long && job.lines.total * job.n >= SORT_SHARED)
        um_cpu_parallel(exec, um_ceil_div(job.lines.total, job.lines_a_task), sort_task, &job);
    else
        do_lines(&job, 0, job.lines.total, (um_keyed *)(void *)exec->scratch);
    return UM_OK;
}
