/* backend/cpu/kernel/scatter.c: ops that write slices of a table by index: scatter, index_add,
 * scatter_nd, embedding's gradient. Values whose index is bad are dropped.
 *
 * Values are taken in the order of the indices, whoever runs them. Where a step rounds (floats, add
 * and mul) the values that meet in one slice are brought together first, added or multiplied in
 * f64 and rounded once. */
#include "backend/cpu/kernel/indexed.h"
#include "backend/cpu/kernel/radix.h"

#include <math.h>

um_status UM_ISA_FN(um_run_scatter)(um_cpu_exec *exec, const um_op *op);
um_status UM_ISA_FN(um_run_embedding_backward)(um_cpu_exec *exec, const um_op *op);

/* Elements: below the first one thread is enough, the others are a task's. */
#define SCATTER_SHARED ((int64_t)1 << 15)
#define SCATTER_TASK   ((int64_t)1 << 13)
#define SLICE_STEP     ((int64_t)1 << 10)
/* Entries of a line from which it is a job for all threads. */
#define LONG_LINE ((int64_t)1 << 15)

enum { CHUNK = 128, BLOCK = 256 }; /* elements of a slice, updates, in work at once */

typedef struct scatter_job {
    um_cpu_exec *exec;
    um_indexed x;
    um_dtype dtype;
    int32_t mode;
    bool joins; /* equal slices are brought together */
    int32_t key_bits;
    int64_t slice_step, slice_tasks; /* elements of a slice that a task does */
    int64_t line_step;               /* lines that a task does */
    /* one long line, joined: */
    um_keyed *items;
    int64_t item_count, item_step;
    int64_t line_table;
    _Atomic bool is_bad;
} scatter_job;

/* Part of a slice: n elements. Places are element numbers. */
typedef struct span {
    int64_t table, table_step;
    int64_t entry, entry_step; /* from the entry's first element */
    int64_t n;
} span;

/* ---- arithmetic ---------------------------------------------------------------------------------
 */

static double max_of(double a, double b)
{
    if (a != a || b != b) return a + b;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

static double min_of(double a, double b) { return -max_of(-a, -b); }

/* y + lo takes v: add keeps in lo what y alone would round away (Knuth's TwoSum). */
static void meet_real(int32_t mode, double *y, double *lo, const double *v, int64_t n)
{
    switch (mode) {
    case UM_SCATTER_ADD:
        for (int64_t i = 0; i < n; i++) {
            double a = y[i], sum = a + v[i], part = sum - a;
            y[i] = sum;
            lo[i] += (a - (sum - part)) + (v[i] - part);
        }
        break;
    case UM_SCATTER_MUL:
        for (int64_t i = 0; i < n; i++) y[i] *= v[i];
        break;
    case UM_SCATTER_MIN:
        for (int64_t i = 0; i < n; i++) y[i] = min_of(y[i], v[i]);
        break;
    case UM_SCATTER_MAX:
        for (int64_t i = 0; i < n; i++) y[i] = max_of(y[i], v[i]);
        break;
    }
}

static void meet_int(int32_t mode, bool is_signed, uint64_t *y, const uint64_t *v, int64_t n)
{
    uint64_t flip = is_signed ? (uint64_t)1 << 63 : 0; /* signed order as unsigned */
    switch (mode) {
    case UM_SCATTER_ADD:
        for (int64_t i = 0; i < n; i++) y[i] += v[i];
        break;
    case UM_SCATTER_MUL:
        for (int64_t i = 0; i < n; i++) y[i] *= v[i];
        break;
    case UM_SCATTER_MIN:
        for (int64_t i = 0; i < n; i++) y[i] = (v[i] ^ flip) < (y[i] ^ flip) ? v[i] : y[i];
        break;
    case UM_SCATTER_MAX:
        for (int64_t i = 0; i < n; i++) y[i] = (v[i] ^ flip) > (y[i] ^ flip) ? v[i] : y[i];
        break;
    }
}

/* Where the sum is inf, lo is NaN and does not count. */
static void close_sums(double *y, const double *lo, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (lo[i] != 0 && lo[i] == lo[i]) y[i] += lo[i]; /* -0 + 0 would lose its sign */
}

/* ---- one span of a slice meets `count` entries --------------------------------------------------
 */

static void span_meets_reals(const scatter_job *job, const span *s, const um_keyed *items,
                             int64_t count)
{
    double y[CHUNK], lo[CHUNK], v[CHUNK];
    memset(lo, 0, (size_t)s->n * sizeof lo[0]);
    um_load(UM_CLASS_F64, y, job->dtype, job->x.table, s->table, s->table_step, s->n);
    for (int64_t i = 0; i < count; i++) {
        um_load(UM_CLASS_F64, v, job->dtype, job->x.entries, items[i].value + s->entry,
                s->entry_step, s->n);
        meet_real(job->mode, y, lo, v, s->n);
    }
    close_sums(y, lo, s->n);
    um_store(job->dtype, job->x.table, s->table, s->table_step, UM_CLASS_F64, y, s->n);
}

static void span_meets_ints(const scatter_job *job, const span *s, const um_keyed *items,
                            int64_t count)
{
    uint64_t y[CHUNK], v[CHUNK];
    um_class c = um_dtype_class(job->dtype);
    um_load(c, y, job->dtype, job->x.table, s->table, s->table_step, s->n);
    for (int64_t i = 0; i < count; i++) {
        um_load(c, v, job->dtype, job->x.entries, items[i].value + s->entry, s->entry_step, s->n);
        meet_int(job->mode, c == UM_CLASS_I64, y, v, s->n);
    }
    um_store(job->dtype, job->x.table, s->table, s->table_step, c, y, s->n);
}

UM_INLINE void assign_sized(const scatter_job *job, const span *s, int64_t entry, size_t size)
{
    char *to = job->x.table + s->table * (int64_t)size;
    const char *from = job->x.entries + (entry + s->entry) * (int64_t)size;
    for (int64_t i = 0; i < s->n; i++)
        memcpy(to + i * s->table_step * (int64_t)size, from + i * s->entry_step * (int64_t)size,
               size);
}

static void span_assign(const scatter_job *job, const span *s, int64_t entry)
{
    switch (job->x.element_bytes) {
    case 1: assign_sized(job, s, entry, 1); break;
    case 2: assign_sized(job, s, entry, 2); break;
    case 4: assign_sized(job, s, entry, 4); break;
    default: assign_sized(job, s, entry, 8);
    }
}

static void span_meets(const scatter_job *job, const span *s, const um_keyed *items, int64_t count)
{
    if (job->mode == UM_SCATTER_ASSIGN)
        span_assign(job, s, items[count - 1].value);
    else if (um_dtype_is_float(job->dtype))
        span_meets_reals(job, s, items, count);
    else
        span_meets_ints(job, s, items, count);
}

/* Elements [first, end) of the slice at `table` meet the entries at items[].value. */
static void slice_meets(const scatter_job *job, int64_t table, const um_keyed *items, int64_t count,
                        int64_t first, int64_t end)
{
    const um_walk *slice = &job->x.slice;
    span s = {.table = table, .n = 1};
    um_walk_at at;
    if (slice->total == 1) {
        span_meets(job, &s, items, count);
        return;
    }
    s.table_step = um_walk_step(slice, 0);
    s.entry_step = um_walk_step(slice, 1);
    UM_ISA_FN(um_walk_seek)(slice, first, &at);
    for (; first < end; first += s.n) {
        s.n = um_walk_inner(slice) - at.index[slice->rank - 1];
        s.n = UM_MIN(UM_MIN(s.n, end - first), CHUNK);
        s.table = table + at.element[0];
        s.entry = at.element[1];
        span_meets(job, &s, items, count);
        um_walk_advance(slice, &at, s.n);
    }
}

/* ---- a line: its updates in order ---------------------------------------------------------------
 */

typedef struct line {
    int64_t table, entries, indices; /* where it starts */
} line;

static line line_at(const scatter_job *job, int64_t number)
{
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->x.lines, number, &at);
    return (line){at.element[INDEXED_TABLE], at.element[INDEXED_ENTRIES],
                  at.element[INDEXED_INDICES]};
}

/* The good ones of updates [first, end) as items: the slice's number, the entry's place. */
static int64_t read_updates(scatter_job *job, const line *l, int64_t first, int64_t end,
                            um_keyed *items)
{
    const um_indexed *x = &job->x;
    const um_walk *w = &x->updates;
    int64_t count = 0, n;
    bool good = true;
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(w, first, &at);
    for (; first < end; first += n) {
        n = UM_MIN(um_walk_inner(w) - at.index[w->rank - 1], end - first);
        for (int64_t i = 0; i < n; i++) {
            int64_t place, element = at.element[INDEXED_INDICES] + l->indices;
            um_keyed *item = &items[count];
            bool found = um_indexed_find(x, element + i * um_walk_step(w, INDEXED_INDICES),
                                         &item->key, &place);
            item->value =
                l->entries + at.element[INDEXED_ENTRIES] + i * um_walk_step(w, INDEXED_ENTRIES);
            count += found;
            good = good && found;
        }
        um_walk_advance(w, &at, n);
    }
    if (!good) job->is_bad = true;
    return count;
}

static int64_t place_of(const um_indexed *x, uint64_t number)
{
    int64_t place = 0;
    for (int32_t p = x->parts - 1; p > 0; p--) {
        place += (int64_t)(number % (uint64_t)x->size[p]) * x->stride[p];
        number /= (uint64_t)x->size[p];
    }
    return x->parts ? place + (int64_t)number * x->stride[0] : 0;
}

/* Items with one key that follow each other meet their slice together. */
static void meet_items(const scatter_job *job, int64_t table, const um_keyed *items, int64_t count,
                       int64_t slice_first, int64_t slice_end)
{
    int64_t next;
    for (int64_t first = 0; first < count; first = next) {
        next = first + 1;
        while (next < count && items[next].key == items[first].key) next++;
        slice_meets(job, table + place_of(&job->x, items[first].key), items + first, next - first,
                    slice_first, slice_end);
    }
}

/* In order, a block at a time. */
static void meet_line(scatter_job *job, const line *l, int64_t slice_first, int64_t slice_end)
{
    um_keyed items[BLOCK];
    int64_t updates = job->x.updates.total;
    for (int64_t first = 0; first < updates; first += BLOCK) {
        int64_t count = read_updates(job, l, first, UM_MIN(first + BLOCK, updates), items);
        meet_items(job, l->table, items, count, slice_first, slice_end);
    }
}

static void join_line(scatter_job *job, const line *l, um_keyed *items, int64_t slice_first,
                      int64_t slice_end)
{
    int64_t updates = job->x.updates.total;
    int64_t count = read_updates(job, l, 0, updates, items);
    UM_ISA_FN(um_radix_sort)(items, items + updates, count, job->key_bits);
    meet_items(job, l->table, items, count, slice_first, slice_end);
}

static void lines_task(void *ctx, int64_t task, int32_t lane)
{
    scatter_job *job = ctx;
    int64_t slice_first = task % job->slice_tasks * job->slice_step;
    int64_t slice_end = UM_MIN(slice_first + job->slice_step, job->x.slice.total);
    int64_t first = task / job->slice_tasks * job->line_step;
    int64_t end = UM_MIN(first + job->line_step, job->x.lines.total);
    for (int64_t number = first; number < end; number++) {
        line l = line_at(job, number);
        if (job->joins)
            join_line(job, &l, um_cpu_scratch(job->exec, lane), slice_first, slice_end);
        else
            meet_line(job, &l, slice_first, slice_end);
    }
}

/* ---- long lines: sorted once, then shared by ranges of items ------------------------------------
 */

/* The first item at or after `at` whose key is not that of the item before it. */
static int64_t next_slice(const scatter_job *job, int64_t at)
{
    int64_t low = UM_MIN(at, job->item_count), high = job->item_count;
    if (low == 0) return 0;
    uint64_t key = job->items[low - 1].key;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (job->items[middle].key > key)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void items_task(void *ctx, int64_t task, int32_t lane)
{
    const scatter_job *job = ctx;
    int64_t slice_first = task % job->slice_tasks * job->slice_step;
    int64_t slice_end = UM_MIN(slice_first + job->slice_step, job->x.slice.total);
    int64_t first = task / job->slice_tasks * job->item_step;
    int64_t end = next_slice(job, first + job->item_step);
    first = next_slice(job, first);
    (void)lane;
    meet_items(job, job->line_table, job->items + first, end - first, slice_first, slice_end);
}

static void run_long_line(scatter_job *job, int64_t number)
{
    line l = line_at(job, number);
    job->items = (um_keyed *)(void *)job->exec->scratch;
    job->line_table = l.table;
    job->item_count = read_updates(job, &l, 0, job->x.updates.total, job->items);
    UM_ISA_FN(um_radix_sort)
    (job->items, job->items + job->x.updates.total, job->item_count, job->key_bits);
    job->item_step = UM_MAX(SCATTER_TASK / job->slice_step, 1);
    int64_t tasks = um_ceil_div(job->item_count, job->item_step) * job->slice_tasks;
    um_cpu_parallel(job->exec, tasks, items_task, job);
}

/* ---- the op -------------------------------------------------------------------------------------
 */

static um_status reserve(um_cpu_exec *exec, int64_t updates, int64_t sharers)
{
    int64_t bytes;
    if (!um_mul_i64(updates, 2 * (int64_t)sizeof(um_keyed), &bytes))
        return UM_FAIL(UM_OUT_OF_MEMORY, "no memory for %lld indices", (long long)updates);
    return um_cpu_scratch_reserve(exec, (size_t)um_ceil_div(bytes, sharers));
}

/* A line is done by one thread for a range of its slices; where entries are joined and there are
 * many, they are sorted once and then shared. */
static um_status run_lines(scatter_job *job)
{
    const um_indexed *x = &job->x;
    int64_t updates = x->updates.total;
    job->slice_step = UM_MIN(x->slice.total, SLICE_STEP);
    job->slice_tasks = um_ceil_div(x->slice.total, job->slice_step);
    if (job->joins && updates >= LONG_LINE) {
        UM_TRY(reserve(job->exec, updates, job->exec->lanes));
        for (int64_t i = 0; i < x->lines.total; i++) run_long_line(job, i);
        return UM_OK;
    }
    if (job->joins) UM_TRY(reserve(job->exec, updates, 1));
    job->line_step = UM_MAX(SCATTER_TASK / (updates * job->slice_step), 1);
    int64_t tasks = um_ceil_div(x->lines.total, job->line_step) * job->slice_tasks;
    if (tasks > 1 && x->lines.total * updates * x->slice.total >= SCATTER_SHARED)
        um_cpu_parallel(job->exec, tasks, lines_task, job);
    else
        for (int64_t i = 0; i < tasks; i++) lines_task(job, i, 0);
    return UM_OK;
}

static um_status run_updates(um_cpu_exec *exec, const um_op *op, const um_view *indices,
                             const um_view *values, int32_t mode)
{
    const um_view *y = &op->out[0];
    bool rounds = um_dtype_is_float(y->dtype) && (mode == UM_SCATTER_ADD || mode == UM_SCATTER_MUL);
    scatter_job job = {.exec = exec, .dtype = y->dtype, .mode = mode, .joins = rounds};
    const um_indexed *x = &job.x;
    uint64_t slices = 1;
    UM_ISA_FN(um_indexed_make)(&job.x, op, y, indices, values, false);
    for (int32_t p = 0; p < x->parts; p++) slices *= (uint64_t)x->size[p];
    job.key_bits = um_bits_below(slices);
    if (x->lines.total == 0 || x->updates.total == 0 || x->slice.total == 0) return UM_OK;
    UM_TRY(run_lines(&job));
    return job.is_bad ? UM_ISA_FN(um_indexed_report)(op, x) : UM_OK;
}

/* ---- what y holds before --------------------------------------------------------------------- */

typedef struct start_job {
    um_walk walk; /* y and what it starts from */
    char *y;
    const char *from;
    int64_t bytes;
} start_job;

static void start_task(void *ctx, int64_t task, int32_t lane)
{
    const start_job *job = ctx;
    int64_t first = task * SCATTER_TASK, end = UM_MIN(first + SCATTER_TASK, job->walk.total), n;
    um_walk_at at;
    (void)lane;
    UM_ISA_FN(um_walk_seek)(&job->walk, first, &at);
    for (; first < end; first += n) {
        n = UM_MIN(um_walk_inner(&job->walk) - at.index[job->walk.rank - 1], end - first);
        um_copy_run(job->y + at.element[0] * job->bytes, um_walk_step(&job->walk, 0),
                    job->from + at.element[1] * job->bytes, um_walk_step(&job->walk, 1), n,
                    job->bytes);
        um_walk_advance(&job->walk, &at, n);
    }
}

static void start_from(um_cpu_exec *exec, const um_view *y, const um_view *from)
{
    start_job job = {.y = (char *)(uintptr_t)y->ptr,
                     .from = (const char *)(uintptr_t)from->ptr,
                     .bytes = um_dtype_bits(y->dtype) / 8};
    UM_ISA_FN(um_walk_make)(&job.walk, 2, (const um_view *const[]){y, from});
    int64_t tasks = um_ceil_div(job.walk.total, SCATTER_TASK);
    if (job.walk.total >= SCATTER_SHARED)
        um_cpu_parallel(exec, tasks, start_task, &job);
    else
        for (int64_t i = 0; i < tasks; i++) start_task(&job, i, 0);
}

um_status UM_ISA_FN(um_run_scatter)(um_cpu_exec *exec, const um_op *op)
{
    const um_view *y = &op->out[0];
    if (op->in[0].ptr != y->ptr) start_from(exec, y, &op->in[0]); /* else exactly in place */
    int32_t mode = op->id == UM_OP_INDEX_ADD ? UM_SCATTER_ADD : op->attrs.index.mode;
    return run_updates(exec, op, &op->in[1], &op->in[2], mode);
}

um_status UM_ISA_FN(um_run_embedding_backward)(um_cpu_exec *exec, const um_op *op)
{
    static const double zero;
    um_view zeros = op->out[0];
    zeros.ptr = (um_ptr)(uintptr_t)&zero;
    memset(zeros.stride, 0, sizeof zeros.stride);
    start_from(exec, &op->out[0], &zeros);
    return run_updates(exec, op, &op->in[1], &op->in[0], UM_SCATTER_ADD);
}
