/* The CPU backend's threads: a queue of jobs (streams with work) and the parallel loops that
 * kernels start. One pool a process, started when the first CPU device opens, stopped when the
 * last closes. Called by stream.c (jobs), kernels (um_cpu_parallel) and driver.c.
 *
 * At most `limit` workers, each started when there is work and nobody free. A worker without work
 * looks on for SPIN_NS, then sleeps: a chain of short ops meets awake workers, an idle process
 * burns nothing. */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SPIN_NS     40000
#define SPIN_PAUSES 16 /* between two looks at the clock */

/* One um_cpu_parallel call, on its caller's stack. `inside` falls as a helper's last touch. */
typedef struct parallel {
    um_cpu_task_fn fn;
    void *ctx;
    int64_t task_count;
    int32_t lanes;           /* worker numbers there are */
    int32_t joined;          /* ... and given out; under the pool's mutex */
    _Atomic int32_t inside;  /* helpers at work; release by them, acquire by the caller */
    struct parallel *next;   /* in pool->loops */
    _Atomic int64_t claimed; /* tasks given out */
} parallel;

struct um_cpu_pool {
    int32_t threads; /* UMBEL_THREADS or the processors; constant */
    int32_t refs;    /* under shared.mutex */
    um_mutex mutex;
    um_cond wake; /* workers without work */
    um_cond done; /* callers of um_cpu_parallel whose helpers are not back yet */
    /* all below under mutex */
    um_cpu_job *job_first; /* by priority, falling */
    int32_t job_count;
    parallel *loops;
    _Atomic uint32_t
        epoch; /* changes when work comes; spinning workers watch it without the mutex */
    int32_t spinning, sleeping, finishing;
    bool stopping;
    bool start_failed;  /* the system gives no more threads: make do with `started` */
    bool failure_told;  /* ... and the log knows */
    bool inline_active; /* there is no thread at all, and a submitter is running the jobs */
    int32_t started;
    um_thread thread[UM_CPU_MAX_THREADS];
};

/* The pool that every CPU device of the process shares. */
static struct {
    um_mutex mutex;
    um_cpu_pool *pool;
} shared = {UM_MUTEX_INIT, NULL};

/* Inside a task: its worker number + 1. A loop started by a task runs inline under that number. */
static _Thread_local int32_t task_worker;

/* ---- looking for work ----------------------------------------------------------------------- */

static void run_tasks(parallel *loop, int32_t worker)
{
    int32_t outer = task_worker;
    task_worker = worker + 1;
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&loop->claimed, 1, memory_order_relaxed);
        if (task >= loop->task_count) break;
        loop->fn(loop->ctx, task, worker);
    }
    task_worker = outer;
}

static bool loop_has_room(const parallel *loop)
{
    return loop->joined < loop->lanes &&
           atomic_load_explicit(&loop->claimed, memory_order_relaxed) < loop->task_count;
}

/* Called and left with the mutex held. */
static bool help_loop(um_cpu_pool *pool)
{
    parallel *loop = pool->loops;
    while (loop && !loop_has_room(loop)) loop = loop->next;
    if (!loop) return false;
    int32_t worker = loop->joined++;
    atomic_fetch_add_explicit(&loop->inside, 1, memory_order_relaxed);
    um_mutex_unlock(&pool->mutex);
    run_tasks(loop, worker);
    um_mutex_lock(&pool->mutex);
    atomic_fetch_sub_explicit(&loop->inside, 1, memory_order_release);
    if (pool->finishing > 0) um_cond_broadcast(&pool->done);
    return true;
}

/* Called and left with the mutex held. */
static bool run_job(um_cpu_pool *pool)
{
    um_cpu_job *job = pool->job_first;
    if (!job) return false;
    pool->job_first = job->next;
    pool->job_count--;
    um_mutex_unlock(&pool->mutex);
    job->fn(job);
    um_mutex_lock(&pool->mutex);
    return true;
}

static void spin_for_work(um_cpu_pool *pool, uint32_t seen)
{
    int64_t end_ns = um_os_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (atomic_load_explicit(&pool->epoch, memory_order_relaxed) != seen) return;
            um_os_pause();
        }
    } while (um_os_now_ns() < end_ns);
}

/* Called and left with the mutex held. */
static void await_work(um_cpu_pool *pool)
{
    uint32_t seen = atomic_load_explicit(&pool->epoch, memory_order_relaxed);
    pool->spinning++;
    um_mutex_unlock(&pool->mutex);
    spin_for_work(pool, seen);
    um_mutex_lock(&pool->mutex);
    pool->spinning--;
    if (atomic_load_explicit(&pool->epoch, memory_order_relaxed) != seen) return;
    pool->sleeping++;
    um_cond_wait(&pool->wake, &pool->mutex);
    pool->sleeping--;
}

static void worker_main(void *arg)
{
    um_cpu_pool *pool = arg;
    um_mutex_lock(&pool->mutex);
    while (!pool->stopping || pool->job_first) {
        if (!run_job(pool) && !help_loop(pool)) await_work(pool);
    }
    um_mutex_unlock(&pool->mutex);
}

/* ---- bringing work -------------------------------------------------------------------------- */

static void start_workers(um_cpu_pool *pool, int32_t count)
{
    for (; count > 0 && pool->started < pool->threads && !pool->start_failed; count--) {
        um_thread *thread = &pool->thread[pool->started];
        um_error saved = *um_last_error();
        pool->start_failed = um_thread_start(thread, worker_main, pool, "umbel") != UM_OK;
        if (pool->start_failed) um_fail_again(&saved); /* fewer threads are no failure */
        pool->started += !pool->start_failed;
    }
}

/* Without any thread, the first submitter runs what is queued, one after the other. With the
 * mutex held. */
static void run_jobs_inline(um_cpu_pool *pool)
{
    if (pool->inline_active) return;
    um_error saved = *um_last_error();
    pool->inline_active = true;
    while (run_job(pool)) continue;
    pool->inline_active = false;
    um_fail_again(&saved); /* what failed is told by its stream */
}

/* Sees to it that `wanted` workers look for work. Called with the mutex held, unlocks it: a thread
 * woken earlier would only run into it. */
static void call_workers_and_unlock(um_cpu_pool *pool, int32_t wanted)
{
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_relaxed);
    int32_t missing = wanted - pool->spinning;
    int32_t signals = UM_MIN(missing, pool->sleeping);
    start_workers(pool, missing - pool->sleeping);
    if (pool->start_failed && pool->started == 0) run_jobs_inline(pool);
    bool tell = pool->start_failed && !pool->failure_told;
    pool->failure_told |= tell;
    int32_t started = pool->started;
    um_mutex_unlock(&pool->mutex);
    for (int32_t i = 0; i < signals; i++) um_cond_signal(&pool->wake);
    if (tell) um_log_write(UM_LOG_WARNING, "cpu: no more than %d threads can be started", started);
}

void um_cpu_pool_submit(um_cpu_pool *pool, um_cpu_job *job)
{
    um_mutex_lock(&pool->mutex);
    um_cpu_job **link = &pool->job_first;
    while (*link && (*link)->priority >= job->priority) link = &(*link)->next;
    job->next = *link;
    *link = job;
    pool->job_count++;
    call_workers_and_unlock(pool, pool->job_count);
}

static void loop_unlink(um_cpu_pool *pool, parallel *loop)
{
    parallel **link = &pool->loops;
    while (*link != loop) link = &(*link)->next;
    *link = loop->next;
}

static bool helpers_gone(parallel *loop)
{
    return atomic_load_explicit(&loop->inside, memory_order_acquire) == 0;
}

/* The caller's tasks are done; those of the helpers end soon, so look on before sleeping. */
static void await_helpers(um_cpu_pool *pool, parallel *loop)
{
    if (helpers_gone(loop)) return;
    int64_t end_ns = um_os_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (helpers_gone(loop)) return;
            um_os_pause();
        }
    } while (um_os_now_ns() < end_ns);
    um_mutex_lock(&pool->mutex);
    pool->finishing++;
    while (!helpers_gone(loop)) um_cond_wait(&pool->done, &pool->mutex);
    pool->finishing--;
    um_mutex_unlock(&pool->mutex);
}

static void run_parallel(um_cpu_pool *pool, parallel *loop)
{
    um_mutex_lock(&pool->mutex);
    loop->next = pool->loops;
    pool->loops = loop;
    call_workers_and_unlock(pool, pool->job_count + loop->lanes - 1);

    run_tasks(loop, 0);

    um_mutex_lock(&pool->mutex);
    loop_unlink(pool, loop);
    um_mutex_unlock(&pool->mutex);
    await_helpers(pool, loop);
}

void um_cpu_parallel(um_cpu_exec *exec, int64_t task_count, um_cpu_task_fn fn, void *ctx)
{
    int32_t lanes = (int32_t)UM_MIN((int64_t)exec->lanes, task_count);
    if (!exec->pool || lanes <= 1 || task_worker) {
        int32_t worker = exec->pool && task_worker ? task_worker - 1 : 0;
        for (int64_t i = 0; i < task_count; i++) fn(ctx, i, worker);
        return;
    }
    parallel loop = {.fn = fn, .ctx = ctx, .task_count = task_count, .lanes = lanes, .joined = 1};
    run_parallel(exec->pool, &loop);
}

/* ---- scratch -------------------------------------------------------------------------------- */

um_status um_cpu_scratch_reserve(um_cpu_exec *exec, size_t bytes)
{
    size_t stride, total;
    if (__builtin_add_overflow(bytes, (size_t)63, &stride) ||
        __builtin_mul_overflow(stride & ~(size_t)63, (size_t)exec->lanes, &total)) {
        return UM_FAIL(UM_OUT_OF_MEMORY, "cpu: scratch of %zu bytes for %d threads", bytes,
                       exec->lanes);
    }
    if (total > exec->scratch_capacity_bytes) {
        uint8_t *scratch = um_mem_alloc_aligned(total, 64);
        if (!scratch) {
            return UM_FAIL(UM_OUT_OF_MEMORY, "cpu: no memory for %zu bytes of scratch", total);
        }
        um_mem_free(exec->scratch);
        exec->scratch = scratch;
        exec->scratch_capacity_bytes = total;
    }
    exec->scratch_stride_bytes = stride & ~(size_t)63;
    return UM_OK;
}

/* ---- the pool's life ------------------------------------------------------------------------ */

static int32_t threads_wanted(void)
{
    int32_t count = UM_MIN(um_os_cpu_count(), UM_CPU_MAX_THREADS);
    const char *text = um_env_get(UM_ENV_THREADS);
    if (!text) return count;
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1) {
        um_log_write(UM_LOG_WARNING, "cpu: UMBEL_THREADS is '%s', not a number from 1 up; using %d",
                     text, count);
        return count;
    }
    return (int32_t)UM_MIN(value, (long)UM_CPU_MAX_THREADS);
}

static um_status pool_create(int32_t threads, um_cpu_pool **out)
{
    *out = NULL;
    um_cpu_pool *pool = um_mem_zalloc(sizeof *pool);
    if (!pool) return UM_FAIL(UM_OUT_OF_MEMORY, "cpu: no memory for the thread pool");
    UM_TRY_OR(um_mutex_init(&pool->mutex), fail_mutex);
    UM_TRY_OR(um_cond_init(&pool->wake), fail_wake);
    UM_TRY_OR(um_cond_init(&pool->done), fail_done);
    pool->threads = threads;
    *out = pool;
    return UM_OK;
fail_done:
    um_cond_destroy(&pool->wake);
fail_wake:
    um_mutex_destroy(&pool->mutex);
fail_mutex:
    um_mem_free(pool);
    return um_status_last();
}

static void pool_destroy(um_cpu_pool *pool)
{
    um_mutex_lock(&pool->mutex);
    pool->stopping = true;
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_relaxed);
    um_cond_broadcast(&pool->wake);
    um_mutex_unlock(&pool->mutex);
    for (int32_t i = 0; i < pool->started; i++) um_thread_join(pool->thread[i]);
    um_cond_destroy(&pool->done);
    um_cond_destroy(&pool->wake);
    um_mutex_destroy(&pool->mutex);
    um_mem_free(pool);
}

um_status um_cpu_pool_get(um_cpu_pool **out)
{
    um_status status = UM_OK;
    int32_t threads = threads_wanted(); /* may log, so not under the mutex */
    um_mutex_lock(&shared.mutex);
    if (!shared.pool) status = pool_create(threads, &shared.pool);
    if (shared.pool) shared.pool->refs++;
    *out = shared.pool;
    um_mutex_unlock(&shared.mutex);
    return status;
}

void um_cpu_pool_put(um_cpu_pool *pool)
{
    if (!pool) return;
    um_mutex_lock(&shared.mutex);
    bool last = --pool->refs == 0;
    if (last) shared.pool = NULL;
    um_mutex_unlock(&shared.mutex);
    if (last) pool_destroy(pool);
}

int32_t um_cpu_pool_threads(const um_cpu_pool *pool) { return pool->threads; }
