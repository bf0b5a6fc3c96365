/* base/alloc.c: the one door to host memory: the installed allocator, the counters that tests read
 * and the failing twin. The system's side is um_os_alloc. */
#include "base/os.h"

#include <stdatomic.h>
#include <stdlib.h>

static void *default_alloc(void *user, size_t size_bytes, size_t align_bytes)
{
    (void)user;
    return um_os_alloc(size_bytes, align_bytes);
}

static void default_free(void *user, void *ptr)
{
    (void)user;
    um_os_free(ptr);
}

static const um_allocator default_allocator = {NULL, default_alloc, default_free};

/* Changed only by um_set_allocator, while nothing is alive. */
static um_allocator allocator = {NULL, default_alloc, default_free};

/* All relaxed: these count, they order nothing. */
static _Atomic int64_t live_count, alloc_count;
/* The failing twin. 0: off. n: call n from now fails. -n: that call and all after it. */
static _Atomic int64_t fail_countdown;
static atomic_bool fail_happened;
static um_once fail_once = UM_ONCE_INIT;

static void fail_init(void)
{
    const char *text = um_env_get(UM_ENV_FAIL_ALLOC);
    long long n = text ? strtoll(text, NULL, 10) : 0;
    if (n > 0) atomic_store_explicit(&fail_countdown, -(int64_t)n, memory_order_relaxed);
}

/* Counts this call and says whether it is one that has to fail. */
static bool fail_now(void)
{
    um_call_once(&fail_once, fail_init);
    int64_t old = atomic_load_explicit(&fail_countdown, memory_order_relaxed), next;
    do {
        if (old == 0) return false;
        if (old == -1) break;
        next = old > 0 ? old - 1 : old + 1;
    } while (!atomic_compare_exchange_weak_explicit(&fail_countdown, &old, next,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (old != 1 && old != -1) return false;
    atomic_store_explicit(&fail_happened, true, memory_order_relaxed);
    return true;
}

void um_mem_fail_at(int64_t n, bool forever)
{
    um_call_once(&fail_once, fail_init); /* so that the variable does not undo this later */
    atomic_store_explicit(&fail_happened, false, memory_order_relaxed);
    n = n < 0 ? 0 : n;
    atomic_store_explicit(&fail_countdown, forever ? -n : n, memory_order_relaxed);
}

bool um_mem_failed(void) { return atomic_load_explicit(&fail_happened, memory_order_relaxed); }

int64_t um_mem_live_count(void) { return atomic_load_explicit(&live_count, memory_order_relaxed); }

int64_t um_mem_alloc_count(void)
{
    return atomic_load_explicit(&alloc_count, memory_order_relaxed);
}

um_status um_set_allocator(const um_allocator *replacement)
{
    int64_t live = um_mem_live_count();
    if (live != 0)
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "set_allocator: %lld blocks of the old allocator are alive, wanted 0",
                       (long long)live);
    if (replacement && (!replacement->alloc || !replacement->free))
        return UM_FAIL(UM_INVALID_ARGUMENT, "set_allocator: %s is NULL",
                       replacement->alloc ? "free" : "alloc");
    allocator = replacement ? *replacement : default_allocator;
    return UM_OK;
}

void *um_mem_alloc_aligned(size_t size_bytes, size_t align_bytes)
{
    atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    if (fail_now()) return NULL;
    if (align_bytes < _Alignof(max_align_t)) align_bytes = _Alignof(max_align_t);
    void *ptr = allocator.alloc(allocator.user, size_bytes ? size_bytes : 1, align_bytes);
    if (ptr) atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return ptr;
}

void *um_mem_alloc(size_t size_bytes)
{
    return um_mem_alloc_aligned(size_bytes, _Alignof(max_align_t));
}

void *um_mem_zalloc(size_t size_bytes)
{
    void *ptr = um_mem_alloc(size_bytes);
    if (ptr) memset(ptr, 0, size_bytes);
    return ptr;
}

void *um_mem_grow(void *ptr, size_t old_bytes, size_t new_bytes)
{
    void *grown = um_mem_alloc(new_bytes);
    if (!grown) return NULL;
    if (ptr) memcpy(grown, ptr, UM_MIN(old_bytes, new_bytes));
    um_mem_free(ptr);
    return grown;
}

void um_mem_free(void *ptr)
{
    if (!ptr) return;
    allocator.free(allocator.user, ptr);
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}

um_status um_vec_reserve(void **items, int64_t *capacity, int64_t count, size_t item_bytes,
                         const char *who)
{
    if (count < *capacity) return UM_OK;
    int64_t room, bytes;
    if (!um_mul_i64(*capacity, 2, &room) ||
        !um_mul_i64(UM_MAX(room, 8), (int64_t)item_bytes, &bytes) || (uint64_t)bytes > SIZE_MAX)
        return UM_FAIL(UM_OUT_OF_MEMORY, "%s: %lld items of %zu bytes do not fit in memory", who,
                       (long long)count, item_bytes);
    /* items is a T ** of the caller's behind a cast: its pointer is moved as bytes. */
    void *old;
    memcpy(&old, (const void *)items, sizeof old);
    void *grown = um_mem_grow(old, (size_t)count * item_bytes, (size_t)bytes);
    if (!grown)
        return UM_FAIL(UM_OUT_OF_MEMORY, "%s: no memory for %lld items of %zu bytes", who,
                       (long long)UM_MAX(room, 8), item_bytes);
    memcpy((void *)items, &grown, sizeof grown);
    *capacity = UM_MAX(room, 8);
    return UM_OK;
}
