/* The CPU's streams: what is queued runs in order, on one thread at a time, a worker of the pool
 * or a host thread that waits for it anyway. Called by the driver's table; runs kernels.
 *
 * A ticket is the number of records pushed so far, so recording an event costs nothing and a
 * ticket is complete when that many are popped.
 *
 * Little work is left lying until somebody waits for it, and so runs it, or asks: waking a worker
 * costs more (5 to 50 us measured), and handing an op from core to core costs 1 us where running it
 * here costs a quarter. Work worth a worker gets one at once.
 *
 * Who may drain a stream is in `state`. BUSY belongs to the thread that drains, or to the list the
 * stream is parked in while it waits for another one. QUEUED means that the stream's job is in the
 * pool; the job only tries to become BUSY, so anybody may overtake it. */
#include "backend/cpu/stream.h"

#include "backend/cpu/batch.h"
#include "backend/cpu/queue.h"

#define SPIN_NS          40000 /* a wait looks on for this long, then sleeps */
#define LINGER_NS        5000  /* a worker at an empty stream looks on for this long, then goes */
#define SPIN_PAUSES      16
#define WAKE_WEIGHT      (1 << 19) /* elements queued that are worth a worker: 100 to 300 us */
#define RECORD_WEIGHT    1024      /* ... and what any record counts for beside its elements */
#define WRITE_INLINE_MAX 4096      /* bytes a write record holds itself */

enum { STATE_BUSY = 1u, STATE_QUEUED = 2u };

typedef enum record_kind {
    RECORD_OP = 1, /* 0 is the queue's own */
    RECORD_WRITE,
    RECORD_COPY,
    RECORD_FILL,
    RECORD_WAIT,
    RECORD_BATCH,
    RECORD_CALL
} record_kind;

typedef struct op_record {
    um_cpu_record head;
    um_cpu_queued queued;
} op_record;

typedef struct batch_record {
    um_cpu_record head;
    um_cpu_batch *batch;
} batch_record;

typedef struct write_record {
    um_cpu_record head;
    um_ptr dst;
    uint64_t size_bytes;
    void *payload;   /* an allocation of its own, or NULL: data follows */
    uint64_t data[]; /* for its alignment */
} write_record;

typedef struct copy_record {
    um_cpu_record head;
    um_ptr dst, src;
    uint64_t size_bytes;
} copy_record;

typedef struct fill_record {
    um_cpu_record head;
    um_ptr dst;
    uint64_t size_bytes, pattern;
    uint32_t pattern_bytes;
} fill_record;

typedef struct wait_record {
    um_cpu_record head;
    um_backend_stream *other; /* a reference */
    uint64_t ticket;
} wait_record;

typedef struct call_record {
    um_cpu_record head;
    um_stream_fn fn;
    void *user;
} call_record;

/* Somebody who waits for a ticket: a stream that is parked, or a host thread that sleeps. */
typedef struct watch {
    struct watch *next;
    uint64_t ticket;
    um_backend_stream *parked; /* a reference; NULL: a host thread */
    bool done;                 /* host thread; under the mutex */
} watch;

struct um_backend_stream {
    um_cpu_job job;
    um_cpu_exec exec;
    um_cpu_queue queue;
    _Alignas(64) _Atomic uint32_t state;
    _Atomic int32_t refs;   /* the owner, the job in the pool, wait records, a watch */
    _Atomic int64_t weight; /* of the work that no worker was called for */
    watch park;             /* in the list of the stream that this one waits for */
    um_mutex mutex;
    um_cond cond;
    watch *watches;                /* under mutex */
    _Atomic uint64_t watch_ticket; /* no watch is below it */
    _Atomic bool failed;           /* error and failed_ticket are set, under mutex */
    uint64_t failed_ticket;        /* the first ticket that covers the failed record */
    um_error error;
};

/* ---- life ----------------------------------------------------------------------------------- */

static void stream_retain(um_backend_stream *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

static void stream_unref(um_backend_stream *s)
{
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1) return;
    um_cpu_queue_release(&s->queue);
    um_cpu_exec_release(&s->exec);
    um_cond_destroy(&s->cond);
    um_mutex_destroy(&s->mutex);
    um_mem_free(s);
}

/* ---- who drains ----------------------------------------------------------------------------- */

static bool claim(um_backend_stream *s)
{
    return !(atomic_fetch_or(&s->state, STATE_BUSY) & STATE_BUSY);
}

static uint64_t completed(um_backend_stream *s) { return atomic_load(&s->queue.popped); }

static bool has_work(um_backend_stream *s) { return completed(s) != atomic_load(&s->queue.pushed); }

/* Sees to it that a worker drains the stream, if there is work and nobody does. */
static void schedule(um_backend_stream *s)
{
    if (!has_work(s) || atomic_load(&s->state) != 0) return;
    if (atomic_fetch_or(&s->state, STATE_QUEUED) & STATE_QUEUED) return;
    stream_retain(s); /* the job's */
    um_cpu_pool_submit(s->exec.pool, &s->job);
}

/* The push and the look at `state`, against clearing BUSY and the look at the count in let_go: all
 * are seq_cst, so one side sees the other, and no record is left lying that should not. */
static void publish(um_backend_stream *s, int64_t weight)
{
    um_cpu_queue_push(&s->queue);
    if (atomic_load(&s->state) != 0) return;
    weight += RECORD_WEIGHT + atomic_load_explicit(&s->weight, memory_order_relaxed);
    atomic_store_explicit(&s->weight, weight, memory_order_relaxed);
    if (weight >= WAKE_WEIGHT) schedule(s);
}

static void let_go(um_backend_stream *s)
{
    atomic_store_explicit(&s->weight, 0, memory_order_relaxed);
    atomic_fetch_and(&s->state, ~(uint32_t)STATE_BUSY);
    schedule(s);
}

/* ---- errors --------------------------------------------------------------------------------- */

static bool has_failed(um_backend_stream *s)
{
    return atomic_load_explicit(&s->failed, memory_order_acquire);
}

/* The record at the head failed: the first failure stays. */
static void set_error(um_backend_stream *s, const um_error *error)
{
    if (has_failed(s)) return;
    um_mutex_lock(&s->mutex);
    s->error = *error;
    s->failed_ticket = completed(s) + 1;
    atomic_store_explicit(&s->failed, true, memory_order_release);
    um_mutex_unlock(&s->mutex);
}

/* Whether the work before the ticket failed; then with the error. */
static bool ticket_failed(um_backend_stream *s, uint64_t ticket, um_error *error)
{
    if (!has_failed(s)) return false;
    um_mutex_lock(&s->mutex);
    bool failed = has_failed(s) && s->failed_ticket <= ticket;
    if (failed) *error = s->error;
    um_mutex_unlock(&s->mutex);
    return failed;
}

/* The stream's error, as the calling thread's, or OK. */
static um_status stream_status(um_backend_stream *s)
{
    um_error error;
    return ticket_failed(s, UINT64_MAX, &error) ? um_fail_again(&error) : UM_OK;
}

/* ---- watching a ticket ---------------------------------------------------------------------- */

/* false: the ticket is complete. With s->mutex held. */
static bool add_watch(um_backend_stream *s, watch *w)
{
    w->next = s->watches;
    s->watches = w;
    if (w->ticket < atomic_load(&s->watch_ticket)) atomic_store(&s->watch_ticket, w->ticket);
    /* This look after that store, and the reverse in finish, are seq_cst: one side sees the other.
     */
    if (completed(s) < w->ticket) return true;
    s->watches = w->next;
    return false;
}

/* Takes the watches whose ticket is complete out of the list; gives the parked streams among
 * them, and wakes the threads. */
static watch *take_watches(um_backend_stream *s)
{
    watch *parked = NULL, **link = &s->watches;
    uint64_t lowest = UINT64_MAX;
    um_mutex_lock(&s->mutex);
    uint64_t now = completed(s);
    while (*link) {
        watch *w = *link;
        if (w->ticket > now) {
            lowest = UM_MIN(lowest, w->ticket);
            link = &w->next;
            continue;
        }
        *link = w->next;
        w->done = true;
        if (w->parked) {
            w->next = parked;
            parked = w;
        }
    }
    atomic_store(&s->watch_ticket, lowest);
    um_cond_broadcast(&s->cond);
    um_mutex_unlock(&s->mutex);
    return parked;
}

/* The record at the head is done. */
static void finish(um_backend_stream *s, const um_cpu_record *record)
{
    um_cpu_queue_pop(&s->queue, record);
    if (completed(s) < atomic_load(&s->watch_ticket)) return;
    watch *parked = take_watches(s);
    while (parked) {
        um_backend_stream *other = parked->parked;
        parked = parked->next;
        let_go(other);
        stream_unref(other);
    }
}

/* Hands s, which the caller drains, to the list of `other`. false: no need to wait. Once parked, s
 * may run on elsewhere and drop the wait record, and with it what kept `other` alive. */
static bool park(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    stream_retain(s);
    stream_retain(other);
    s->park = (watch){.ticket = ticket, .parked = s};
    um_mutex_lock(&other->mutex);
    bool parked = add_watch(other, &s->park);
    um_mutex_unlock(&other->mutex);
    if (parked) {
        schedule(other);
    } else {
        stream_unref(s);
    }
    stream_unref(other);
    return parked;
}

/* ---- running what is queued ----------------------------------------------------------------- */

static void *host(um_ptr ptr) { return (void *)(uintptr_t)ptr; }

static void run_op(um_backend_stream *s, const op_record *record)
{
    const um_cpu_queued *queued = &record->queued;
    if (queued->run(&s->exec, &queued->op) == UM_OK) return;
    um_fail_tag("cpu", um_op_name(queued->op.id));
    set_error(s, um_last_error());
}

static void run_fill(const fill_record *record)
{
    uint8_t *dst = host(record->dst);
    uint8_t pattern[8];
    for (uint32_t i = 0; i < 8; i++) {
        pattern[i] = (uint8_t)(record->pattern >> 8 * (i % record->pattern_bytes));
    }
    uint64_t i = 0;
    for (; i + 8 <= record->size_bytes; i += 8) memcpy(dst + i, pattern, 8);
    memcpy(dst + i, pattern, (size_t)(record->size_bytes - i));
}

/* Also after a failure. */
static void run_call(um_backend_stream *s, const call_record *record)
{
    um_error error = {.code = UM_OK};
    (void)ticket_failed(s, UINT64_MAX, &error);
    record->fn(record->user, error.code);
}

static void run_record(um_backend_stream *s, const um_cpu_record *record)
{
    const void *at = record;
    if (record->kind != RECORD_CALL && has_failed(s)) return;
    switch ((record_kind)record->kind) {
    case RECORD_OP: run_op(s, at); break;
    case RECORD_WRITE: {
        const write_record *write = at;
        memcpy(host(write->dst), write->payload ? write->payload : write->data,
               (size_t)write->size_bytes);
        break;
    }
    case RECORD_COPY: {
        const copy_record *copy = at;
        memcpy(host(copy->dst), host(copy->src), (size_t)copy->size_bytes);
        break;
    }
    case RECORD_FILL: run_fill(at); break;
    case RECORD_WAIT: {
        const wait_record *wait = at;
        um_error error;
        if (ticket_failed(wait->other, wait->ticket, &error)) set_error(s, &error);
        break;
    }
    case RECORD_BATCH:
        if (um_cpu_batch_run(((const batch_record *)at)->batch, &s->exec) != UM_OK)
            set_error(s, um_last_error());
        break;
    case RECORD_CALL: run_call(s, at); break;
    }
}

static void drop_record(const um_cpu_record *record)
{
    const void *at = record;
    if (record->kind == RECORD_WRITE) um_mem_free(((const write_record *)at)->payload);
    if (record->kind == RECORD_BATCH) um_mem_free(((const batch_record *)at)->batch);
    if (record->kind == RECORD_WAIT) stream_unref(((const wait_record *)at)->other);
}

/* Whether the record has to wait, in which case the stream is no longer the caller's. */
static bool held_back(um_backend_stream *s, const um_cpu_record *record)
{
    if (record->kind != RECORD_WAIT) return false;
    const wait_record *wait = (const void *)record;
    return completed(wait->other) < wait->ticket && park(s, wait->other, wait->ticket);
}

/* The next record, or NULL. While the owner is busy queuing ops, the next one comes within a
 * microsecond or two, and one that finds the stream being drained costs him nothing but the push.
 */
static um_cpu_record *next_record(um_backend_stream *s, int64_t linger_ns)
{
    um_cpu_record *record = um_cpu_queue_peek(&s->queue);
    if (record || linger_ns == 0) return record;
    int64_t end_ns = um_os_now_ns() + linger_ns;
    do {
        for (int i = 0; i < SPIN_PAUSES && !record; i++) {
            um_os_pause();
            record = um_cpu_queue_peek(&s->queue);
        }
    } while (!record && um_os_now_ns() < end_ns);
    return record;
}

/* Runs records until the ticket is complete, none is left or one has to wait. The caller has
 * claimed the stream, and holds a reference. After a failure records are dropped, not run. */
static void drain(um_backend_stream *s, uint64_t ticket, int64_t linger_ns)
{
    um_cpu_record *record;
    while (completed(s) < ticket && (record = next_record(s, linger_ns))) {
        if (!has_failed(s) && held_back(s, record)) return;
        run_record(s, record);
        drop_record(record);
        finish(s, record);
    }
    let_go(s);
}

static void run_job(um_cpu_job *job)
{
    um_backend_stream *s = (um_backend_stream *)(void *)job; /* its first member */
    atomic_fetch_and(&s->state, ~(uint32_t)STATE_QUEUED);
    if (claim(s)) drain(s, UINT64_MAX, LINGER_NS);
    stream_unref(s);
}

/* ---- waiting on the host -------------------------------------------------------------------- */

/* true: complete. false: the stream is free to claim, or it takes long. */
static bool spin_for_ticket(um_backend_stream *s, uint64_t ticket)
{
    int64_t end_ns = um_os_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (completed(s) >= ticket) return true;
            um_os_pause();
        }
    } while (um_os_now_ns() < end_ns && (atomic_load(&s->state) & STATE_BUSY));
    return false;
}

static void sleep_for_ticket(um_backend_stream *s, uint64_t ticket)
{
    watch w = {.ticket = ticket};
    um_mutex_lock(&s->mutex);
    if (add_watch(s, &w)) {
        while (!w.done) um_cond_wait(&s->cond, &s->mutex);
    }
    um_mutex_unlock(&s->mutex);
}

/* Runs the work itself when nobody does: that saves waking a worker, and waking this thread. */
static void wait_for_ticket(um_backend_stream *s, uint64_t ticket)
{
    while (completed(s) < ticket) {
        if (claim(s)) {
            drain(s, ticket, 0);
        } else if (!spin_for_ticket(s, ticket) && (atomic_load(&s->state) & STATE_BUSY)) {
            sleep_for_ticket(s, ticket);
        }
    }
}

/* A ticket that record cannot have given would never come: it is as good as the last one. */
static uint64_t known_ticket(um_backend_stream *s, uint64_t ticket)
{
    uint64_t last = atomic_load(&s->queue.pushed);
    return UM_MIN(ticket, last);
}

um_status um_cpu_entry_synchronize(um_backend_stream *s, uint64_t ticket)
{
    wait_for_ticket(s, known_ticket(s, ticket));
    return stream_status(s);
}

/* ---- what work weighs ----------------------------------------------------------------------- */

static int64_t bytes_weight(uint64_t size_bytes)
{
    return (int64_t)(UM_MIN(size_bytes, INT32_MAX) / 16);
}

/* ---- the entries ---------------------------------------------------------------------------- */

um_status um_cpu_stream_create(um_cpu_pool *pool, int32_t priority, um_backend_stream **out)
{
    *out = NULL;
    um_backend_stream *s = um_mem_alloc_aligned(sizeof *s, _Alignof(um_backend_stream));
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "cpu: no memory for a stream");
    memset(s, 0, sizeof *s);
    UM_TRY_OR(um_mutex_init(&s->mutex), fail_mutex);
    UM_TRY_OR(um_cond_init(&s->cond), fail_cond);
    UM_TRY_OR(um_cpu_queue_init(&s->queue), fail_queue);
    s->job.fn = run_job;
    s->job.priority = priority;
    s->exec = (um_cpu_exec){.pool = pool, .lanes = um_cpu_pool_threads(pool)};
    atomic_init(&s->watch_ticket, UINT64_MAX);
    atomic_init(&s->refs, 1);
    *out = s;
    return UM_OK;
fail_queue:
    um_cond_destroy(&s->cond);
fail_cond:
    um_mutex_destroy(&s->mutex);
fail_mutex:
    um_mem_free(s);
    return um_status_last();
}

void um_cpu_entry_stream_destroy(um_backend_stream *s)
{
    wait_for_ticket(s, atomic_load(&s->queue.pushed));
    stream_unref(s);
}

/* Room for a record. The stream's error comes first; a queue that is far ahead is emptied. */
static um_status reserve(um_backend_stream *s, record_kind kind, size_t size_bytes, void **out)
{
    *out = NULL;
    UM_TRY(stream_status(s));
    if (um_cpu_queue_is_full(&s->queue, size_bytes)) {
        UM_TRY(um_cpu_entry_synchronize(s, UINT64_MAX));
    }
    *out = um_cpu_queue_reserve(&s->queue, (uint32_t)kind, size_bytes);
    if (!*out) return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0, "cpu: no memory to queue");
    return UM_OK;
}

static um_status queue_write(um_backend_stream *s, um_ptr dst, const void *src, uint64_t size_bytes)
{
    bool inside = size_bytes <= WRITE_INLINE_MAX;
    void *payload = inside ? NULL : um_mem_alloc((size_t)size_bytes);
    if (!inside && !payload) {
        return um_backend_fail(UM_OUT_OF_MEMORY, "cpu", NULL, 0,
                               "um_write: no memory to keep %llu bytes until their turn",
                               (unsigned long long)size_bytes);
    }
    void *at;
    size_t bytes = sizeof(write_record) + (inside ? (size_t)size_bytes : 0);
    um_status status = reserve(s, RECORD_WRITE, bytes, &at);
    if (status != UM_OK) {
        um_mem_free(payload);
        return status;
    }
    write_record *record = at;
    record->dst = dst;
    record->size_bytes = size_bytes;
    record->payload = payload;
    memcpy(inside ? record->data : payload, src, (size_t)size_bytes);
    publish(s, bytes_weight(size_bytes));
    return UM_OK;
}

um_status um_cpu_entry_write(um_backend_stream *s, um_ptr dst, const void *src, uint64_t size_bytes)
{
    UM_TRY(stream_status(s));
    if (has_work(s)) return queue_write(s, dst, src, size_bytes);
    memcpy(host(dst), src, (size_t)size_bytes);
    return UM_OK;
}

um_status um_cpu_entry_read(um_backend_stream *s, void *dst, um_ptr src, uint64_t size_bytes)
{
    UM_TRY(um_cpu_entry_synchronize(s, UINT64_MAX));
    memcpy(dst, host(src), (size_t)size_bytes);
    return UM_OK;
}

um_status um_cpu_entry_copy(um_backend_stream *s, um_ptr dst, um_ptr src, uint64_t size_bytes)
{
    void *at;
    UM_TRY(reserve(s, RECORD_COPY, sizeof(copy_record), &at));
    copy_record *record = at;
    record->dst = dst;
    record->src = src;
    record->size_bytes = size_bytes;
    publish(s, bytes_weight(size_bytes));
    return UM_OK;
}

/* Here all memory is the host's. */
um_status um_cpu_stream_copy_host(um_backend_stream *s, um_copy_kind kind, um_ptr dst, um_ptr src,
                                  uint64_t size_bytes)
{
    (void)kind;
    return um_cpu_entry_copy(s, dst, src, size_bytes);
}

um_status um_cpu_stream_call(um_backend_stream *s, um_stream_fn fn, void *user)
{
    void *at;
    UM_TRY(reserve(s, RECORD_CALL, sizeof(call_record), &at));
    call_record *record = at;
    record->fn = fn;
    record->user = user;
    publish(s, WAKE_WEIGHT); /* it must come, though nobody waits */
    return UM_OK;
}

um_status um_cpu_entry_fill(um_backend_stream *s, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                            uint32_t pattern_bytes)
{
    void *at;
    UM_TRY(reserve(s, RECORD_FILL, sizeof(fill_record), &at));
    fill_record *record = at;
    record->dst = dst;
    record->size_bytes = size_bytes;
    record->pattern = pattern;
    record->pattern_bytes = pattern_bytes;
    publish(s, bytes_weight(size_bytes));
    return UM_OK;
}

um_status um_cpu_entry_record(um_backend_stream *s, uint64_t *ticket)
{
    *ticket = atomic_load(&s->queue.pushed);
    return UM_OK;
}

um_status um_cpu_entry_wait(um_backend_stream *s, um_backend_stream *other, uint64_t ticket)
{
    um_error error;
    if (other == s) return UM_OK;
    ticket = known_ticket(other, ticket);
    if (completed(other) >= ticket && !ticket_failed(other, ticket, &error))
        return stream_status(s);
    void *at;
    UM_TRY(reserve(s, RECORD_WAIT, sizeof(wait_record), &at));
    wait_record *record = at;
    record->other = other;
    record->ticket = ticket;
    stream_retain(other);
    publish(s, 0);
    return UM_OK;
}

um_status um_cpu_entry_query(um_backend_stream *s, uint64_t ticket)
{
    UM_TRY(stream_status(s));
    ticket = known_ticket(s, ticket);
    if (completed(s) < ticket) schedule(s); /* whoever asks wants it done */
    return completed(s) < ticket ? UM_NOT_READY : UM_OK;
}

um_status um_cpu_entry_clear_error(um_backend_stream *s)
{
    um_status status = stream_status(s);
    um_mutex_lock(&s->mutex);
    atomic_store_explicit(&s->failed, false, memory_order_release);
    um_mutex_unlock(&s->mutex);
    return status;
}

um_status um_cpu_entry_enqueue(um_backend_stream *s, const um_op *op)
{
    size_t bytes;
    void *at;
    UM_TRY(um_cpu_queued_bytes(op, &bytes));
    UM_TRY(reserve(s, RECORD_OP, offsetof(op_record, queued) + bytes, &at));
    um_cpu_queued_copy(&((op_record *)at)->queued, op);
    publish(s, um_cpu_op_weight(op));
    return UM_OK;
}

um_status um_cpu_stream_enqueue_batch(um_backend_stream *s, int64_t count, const um_op *const *ops)
{
    um_cpu_batch *batch;
    void *at;
    UM_TRY(um_cpu_exec_split(&s->exec));
    UM_TRY(um_cpu_batch_make(count, ops, &batch));
    um_status status = reserve(s, RECORD_BATCH, sizeof(batch_record), &at);
    if (status != UM_OK) {
        um_mem_free(batch);
        return status;
    }
    ((batch_record *)at)->batch = batch;
    publish(s, um_cpu_batch_weight(batch));
    return UM_OK;
}
