/* test/shim/fiber.c: work-groups on the host: a fiber for each invocation, one running at a time.
 *
 * A fiber is born once a thread and then runs one invocation after another: contexts of the C
 * library for its birth, setjmp and longjmp between the stacks from then on. */
#undef _FORTIFY_SOURCE /* whose longjmp does not leave a stack */
#include "test/shim/shim.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 1024, PAGE = 4096, MESSAGE = 200 };

typedef struct fiber {
    shim_lane lane; /* first */
    jmp_buf at;
    ucontext_t birth;
    struct fiber_pool *pool;
    bool born;
} fiber;
_Static_assert(sizeof(fiber) <= PAGE, "the page at the end of a stack holds it");

typedef struct fiber_pool {
    char *memory, *stacks; /* as mapped; from a multiple of SHIM_STACK */
    jmp_buf home;
    const shim_launch_desc *desc;
    const shim_lane *lane[FIBERS];
    char message[MESSAGE];
} fiber_pool;

enum { POOL_BYTES = (FIBERS + 1) * SHIM_STACK };

static pthread_key_t pool_key;
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;

static void pool_free(void *arg)
{
    fiber_pool *pool = arg;
    munmap(pool->memory, POOL_BYTES);
    free(pool);
}

static void pool_make_key(void)
{
    if (pthread_key_create(&pool_key, pool_free) != 0) abort();
}

static fiber *fiber_at(const fiber_pool *pool, uint32_t i)
{
    return (fiber *)(void *)(pool->stacks + i * SHIM_STACK);
}

/* Without the page between a fiber's struct and its stack a deep one would spoil it. */
static fiber_pool *pool_make(void)
{
    fiber_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) {
        free(pool);
        return NULL;
    }
    pool->memory = memory;
    uintptr_t past = (uintptr_t)memory % SHIM_STACK;
    pool->stacks = pool->memory + (past ? SHIM_STACK - past : 0);
    for (uint32_t i = 0; i < FIBERS; i++) {
        fiber_at(pool, i)->pool = pool;
        pool->lane[i] = &fiber_at(pool, i)->lane;
        if (mprotect(pool->stacks + i * SHIM_STACK + PAGE, PAGE, PROT_NONE) != 0) abort();
    }
    return pool;
}

/* ---- between fibers and the thread -------------------------------------------------------------
 */

static void fiber_wait(shim_lane *lane, int state, int line)
{
    fiber *self = (fiber *)lane;
    lane->state = state;
    lane->line = line;
    if (_setjmp(self->at) == 0) _longjmp(self->pool->home, 1);
}

/* A fiber's whole life. */
static void fiber_live(void)
{
    char here;
    fiber *self = (fiber *)((uintptr_t)(void *)&here / SHIM_STACK * SHIM_STACK);
    for (;;) {
        self->pool->desc->kernel(self->pool->desc->words);
        fiber_wait(&self->lane, SHIM_DONE, 0);
    }
}

/* Until it waits. */
static void fiber_resume(fiber *f)
{
    if (_setjmp(f->pool->home) != 0) return;
    if (f->born) _longjmp(f->at, 1);
    f->born = true;
    if (getcontext(&f->birth) != 0) abort();
    f->birth.uc_stack.ss_sp = (char *)f + 2 * (size_t)PAGE;
    f->birth.uc_stack.ss_size = SHIM_STACK - 2 * (size_t)PAGE;
    f->birth.uc_link = NULL;
    makecontext(&f->birth, fiber_live, 0);
    setcontext(&f->birth);
}

/* ---- work-groups ------------------------------------------------------------------------------
 */

static void lanes_begin(fiber_pool *pool, uint32_t n, const shim_dim3 *group)
{
    const shim_launch_desc *desc = pool->desc;
    shim_dim3 size = {desc->group_size[0], desc->group_size[1], desc->group_size[2]};
    shim_dim3 groups = {desc->group_count[0], desc->group_count[1], desc->group_count[2]};
    for (uint32_t i = 0; i < n; i++) {
        shim_lane *lane = &fiber_at(pool, i)->lane;
        uint32_t width = desc->subgroup_size, first = i / width * width;
        *lane = (shim_lane){.local = {i % size.x, i / size.x % size.y, i / size.x / size.y},
                            .size = size,
                            .group = *group,
                            .groups = groups,
                            .index = i,
                            .lane = i - first,
                            .subgroup = i / width,
                            .width = width,
                            .present = first + width < n ? width : n - first,
                            .team = &pool->lane[first],
                            .wait = fiber_wait};
    }
}

static bool fail(fiber_pool *pool, const shim_lane *a, const shim_lane *b)
{
    static const char *const where[] = {"running", "at the barrier", "at the subgroup operation",
                                        "at the end"};
    const shim_lane *lane[] = {a, b};
    char text[2][64];
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "invocation %u is %s of line %d", lane[i]->index,
                 where[lane[i]->state], lane[i]->line);
    snprintf(pool->message, sizeof pool->message, "work-group (%u,%u,%u): %s, %s", a->group.x,
             a->group.y, a->group.z, text[0], text[1]);
    return false;
}

static bool alike(const shim_lane *a, const shim_lane *b)
{
    return a->state == b->state && a->line == b->line;
}

/* All wait; whoever may go on does. false: some wait for others who do not come. */
static bool lanes_release(fiber_pool *pool, uint32_t n)
{
    bool some = false;
    for (uint32_t i = 0; i < n; i++) {
        const shim_lane *lane = pool->lane[i], *first = lane->team[0];
        if (!alike(lane, first) &&
            (lane->state == SHIM_AT_SUBGROUP || first->state == SHIM_AT_SUBGROUP))
            return fail(pool, lane, first);
        some = some || lane->state == SHIM_AT_SUBGROUP;
    }
    for (uint32_t i = 1; i < n && !some; i++)
        if (!alike(pool->lane[i], pool->lane[0])) return fail(pool, pool->lane[i], pool->lane[0]);
    for (uint32_t i = 0; i < n; i++) {
        shim_lane *lane = &fiber_at(pool, i)->lane;
        if (!some || lane->state == SHIM_AT_SUBGROUP) lane->state = SHIM_RUNS;
    }
    return true;
}

/* Every second one backwards: who comes first must not matter. */
static bool run_group(fiber_pool *pool, uint32_t n, const shim_dim3 *group)
{
    bool backwards = (group->x + group->y + group->z) % 2 != 0;
    lanes_begin(pool, n, group);
    for (;;) {
        uint32_t done = 0;
        for (uint32_t i = 0; i < n; i++) {
            fiber *f = fiber_at(pool, backwards ? n - 1 - i : i);
            if (f->lane.state == SHIM_RUNS) fiber_resume(f);
            done += f->lane.state == SHIM_DONE;
        }
        if (done == n) return true;
        if (!lanes_release(pool, n)) return false;
    }
}

const char *shim_launch(const shim_launch_desc *desc)
{
    static _Thread_local char message[MESSAGE];
    uint32_t n = desc->group_size[0] * desc->group_size[1] * desc->group_size[2];
    pthread_once(&pool_once, pool_make_key);
    fiber_pool *pool = pthread_getspecific(pool_key);
    if (!pool) pool = pool_make();
    if (!pool || n > FIBERS) return "no memory for the fibers";
    pthread_setspecific(pool_key, pool);
    pool->desc = desc;
    bool good = true;
    for (uint32_t z = 0; z < desc->group_count[2] && good; z++)
        for (uint32_t y = 0; y < desc->group_count[1] && good; y++)
            for (uint32_t x = 0; x < desc->group_count[0] && good; x++)
                good = run_group(pool, n, &(shim_dim3){x, y, z});
    if (good) return NULL;
    /* some hang in the middle of a kernel: away with them */
    memcpy(message, pool->message, sizeof message);
    pthread_setspecific(pool_key, NULL);
    pool_free(pool);
    return message;
}
