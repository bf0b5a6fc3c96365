/* device/kcache.c: plans by op, kernels by what they say. */
#include "device/kcache.h"
#include "base/os.h"

enum {
    BUCKETS = 1024, /* of each table */
    PLANS_MAX = 1024,
    REGION_SHIFT = 56, /* of addresses in plans that are kept: view i lies at i + 1 << 56 */
    NEAR_MASK = 15,    /* what of an address a plan depends on: bindings begin at multiples of 16 */
    VIEWS_MAX = UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS,
    VIEW_WORDS = 3 + 2 * UM_MAX_RANK,
    PROGRAM_WORDS = 1 + 2 * UM_MAP_MAX_INSTS,
    KEY_WORDS = 16 + UM_PROGRAMS * PROGRAM_WORDS + VIEWS_MAX * VIEW_WORDS
};

/* A kernel, which knows how many plans have it. */
struct um_kshared {
    um_kcache *cache;
    um_kernel *kernel;
    void *object; /* NULL: not compiled */
    uint64_t hash;
    int64_t users; /* plans, kept ones and others */
    um_kshared *next;
};

/* What a launch has, without the room that it does not need. */
typedef struct kept_launch {
    um_kshared *shared;
    uint32_t group_count[3];
    int32_t buffer_count, scalar_count;
    um_kbinding *buffer;
    uint32_t *scalar;
} kept_launch;

/* A plan for addresses in regions, and the key that it is found by; one block of memory. */
typedef struct kept {
    struct kept *next;          /* in the bucket */
    struct kept *newer, *older; /* by when they were used */
    uint64_t hash, *key;
    int64_t key_words;
    kept_launch *launch;
    int32_t launch_count, form, form_count;
    uint64_t scratch_bytes;
    char fault[sizeof((um_kplan *)0)->fault];
} kept;

struct um_kcache {
    um_kcache_desc desc;
    um_mutex lock;      /* of all that follows, and objects */
    um_mutex compiling; /* taken first */
    um_kshared *shared[BUCKETS];
    kept *plan[BUCKETS], *newest, *oldest;
    int64_t plan_count;
};

/* ---- keys ----------------------------------------------------------------------------------- */

static const um_view *view_of(const um_op *op, int32_t i)
{
    return i < op->out_count ? &op->out[i] : &op->in[i - op->out_count];
}

/* The first view at the same address. */
static int32_t region_of(const um_op *op, int32_t i)
{
    int32_t region = 0;
    while (view_of(op, region)->ptr != view_of(op, i)->ptr) region++;
    return region;
}

/* All that a plan depends on. What attributes have beyond those of the op's does no harm but that
 * plans are made twice. */
static int64_t make_key(const um_op *op, int32_t form, uint64_t *key)
{
    int64_t n = 0;
    const um_attrs attrs = um_op_plain_attrs(op);
    key[n++] = (uint64_t)form << 56 | (uint64_t)op->id << 32 | (uint32_t)op->in_count << 16 |
               (uint32_t)op->out_count;
    memcpy(key + n, &attrs, sizeof attrs);
    n += (int64_t)(sizeof attrs / sizeof *key);
    for (int32_t which = 0; which < UM_PROGRAMS; which++) {
        const um_map_program *p = um_op_program(op, which);
        if (!p) continue;
        key[n++] = (uint64_t)(which + 1) << 56 | (uint64_t)p->dtype << 32 | (uint32_t)p->inst_count;
        memcpy(key + n, p->inst, (size_t)p->inst_count * sizeof *p->inst);
        n += p->inst_count * (int64_t)(sizeof *p->inst / sizeof *key);
    }
    for (int32_t i = 0; i < op->out_count + op->in_count; i++) {
        const um_view *v = view_of(op, i);
        key[n++] = (uint64_t)v->dtype << 32 | (uint32_t)v->rank;
        key[n++] = (uint64_t)region_of(op, i) << REGION_SHIFT | (v->ptr & NEAR_MASK);
        size_t axes_bytes = (size_t)v->rank * sizeof *key;
        memcpy(key + n, v->shape, axes_bytes);
        memcpy(key + n + v->rank, v->stride, axes_bytes);
        n += 2 * v->rank;
    }
    return n;
}

_Static_assert(sizeof(um_attrs) % 8 == 0 && sizeof(um_attrs) / 8 <= 14, "KEY_WORDS");
_Static_assert(sizeof(um_map_inst) == 16, "KEY_WORDS");

/* The op as if its views lay in regions. */
static um_op regional(const um_op *op)
{
    um_op made;
    memcpy(&made, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    for (int32_t i = 0; i < op->out_count + op->in_count; i++) {
        um_view *v = i < op->out_count ? &made.out[i] : &made.in[i - op->out_count];
        v->ptr = ((uint64_t)region_of(op, i) + 1) << REGION_SHIFT | (v->ptr & NEAR_MASK);
    }
    return made;
}

/* A binding of a kept plan, in the op's memory. It may begin before its region. */
static um_kbinding bound(const um_op *op, um_kbinding b)
{
    if (b.scratch) return b;
    uint64_t region = (b.begin + ((uint64_t)1 << (REGION_SHIFT - 1))) >> REGION_SHIFT;
    b.begin +=
        (view_of(op, (int32_t)region - 1)->ptr & ~(um_ptr)NEAR_MASK) - (region << REGION_SHIFT);
    return b;
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* One plan less has it; the lock is held. Gives what nobody has any more. */
static um_kshared *drop(um_kshared *s)
{
    if (--s->users > 0) return NULL;
    um_kshared **at = &s->cache->shared[s->hash % BUCKETS];
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    return s;
}

static void destroy(um_kshared *s)
{
    if (!s) return;
    if (s->object) s->cache->desc.destroy(s->cache->desc.ctx, s->object);
    um_kernel_release(s->kernel);
    um_mem_free(s);
}

static void release(um_kshared *shared)
{
    um_kcache *c = shared->cache;
    um_mutex_lock(&c->lock);
    um_kshared *dead = drop(shared);
    um_mutex_unlock(&c->lock);
    destroy(dead);
}

/* Puts the one kernel with that text in the place of a launch's own. */
static um_status share(um_kcache *c, um_klaunch *launch)
{
    uint64_t hash = um_kernel_hash(launch->kernel);
    um_kshared *made = um_mem_zalloc(sizeof *made), *found;
    if (!made) return UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: no memory", launch->kernel->name);
    um_mutex_lock(&c->lock);
    um_kshared **bucket = &c->shared[hash % BUCKETS];
    for (found = *bucket; found; found = found->next)
        if (found->hash == hash && um_kernel_same(found->kernel, launch->kernel)) break;
    if (!found) {
        *made = (um_kshared){.cache = c, .kernel = launch->kernel, .hash = hash, .next = *bucket};
        *bucket = found = made;
    }
    found->users++;
    um_mutex_unlock(&c->lock);
    if (found != made) {
        um_kernel_release(launch->kernel);
        um_mem_free(made);
    }
    launch->shared = found;
    launch->kernel = found->kernel;
    return UM_OK;
}

/* Launches in a row may have the same kernel. */
static um_status share_all(um_kcache *c, um_kplan *plan)
{
    for (int32_t i = 0, next; i < plan->launch_count; i = next) {
        const um_kernel *own = plan->launch[i].kernel;
        UM_TRY(share(c, &plan->launch[i]));
        um_mutex_lock(&c->lock);
        for (next = i + 1; next < plan->launch_count && plan->launch[next].kernel == own; next++) {
            plan->launch[next].kernel = plan->launch[i].kernel;
            plan->launch[next].shared = plan->launch[i].shared;
            plan->launch[i].shared->users++;
        }
        um_mutex_unlock(&c->lock);
    }
    return UM_OK;
}

um_status um_kcache_compiled(um_klaunch *launch, void **object)
{
    um_kshared *s = launch->shared;
    um_kcache *c = s->cache;
    um_status status = UM_OK;
    um_mutex_lock(&c->lock);
    *object = s->object;
    um_mutex_unlock(&c->lock);
    if (*object) return UM_OK;
    um_mutex_lock(&c->compiling);
    if (!s->object) { /* only written by who holds compiling */
        status = c->desc.compile(c->desc.ctx, s->kernel, object);
        um_mutex_lock(&c->lock);
        if (status == UM_OK) s->object = *object;
        um_mutex_unlock(&c->lock);
    }
    *object = s->object;
    um_mutex_unlock(&c->compiling);
    return status;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void unlink_age(um_kcache *c, kept *p)
{
    *(p->newer ? &p->newer->older : &c->newest) = p->older;
    *(p->older ? &p->older->newer : &c->oldest) = p->newer;
}

static void link_newest(um_kcache *c, kept *p)
{
    p->newer = NULL;
    p->older = c->newest;
    *(p->older ? &p->older->newer : &c->oldest) = p;
    c->newest = p;
}

static kept *find(const um_kcache *c, uint64_t hash, const uint64_t *key, int64_t key_words)
{
    kept *p = c->plan[hash % BUCKETS];
    while (p && (p->hash != hash || p->key_words != key_words ||
                 memcmp(p->key, key, (size_t)key_words * sizeof *key) != 0))
        p = p->next;
    return p;
}

/* The lock is held. */
static void use(um_kcache *c, kept *p, const um_op *op, um_kplan *out)
{
    unlink_age(c, p);
    link_newest(c, p);
    out->form = p->form;
    out->form_count = p->form_count;
    out->scratch_bytes = p->scratch_bytes;
    memcpy(out->fault, p->fault, sizeof p->fault);
    out->launch_count = p->launch_count;
    for (int32_t i = 0; i < p->launch_count; i++) {
        const kept_launch *from = &p->launch[i];
        um_klaunch *to = &out->launch[i];
        to->shared = from->shared;
        to->shared->users++;
        to->kernel = to->shared->kernel;
        memcpy(to->group_count, from->group_count, sizeof to->group_count);
        to->buffer_count = from->buffer_count;
        to->scalar_count = from->scalar_count;
        for (int32_t b = 0; b < from->buffer_count; b++) to->buffer[b] = bound(op, from->buffer[b]);
        memcpy(to->scalar, from->scalar, (size_t)from->scalar_count * sizeof *from->scalar);
    }
}

/* Of a plan whose kernels are shared. NULL: no memory. */
static kept *keep(const um_kplan *plan, uint64_t hash, const uint64_t *key, int64_t key_words)
{
    int64_t buffers = 0, scalars = 0;
    size_t launches = (size_t)plan->launch_count;
    for (size_t i = 0; i < launches; i++) {
        buffers += plan->launch[i].buffer_count;
        scalars += plan->launch[i].scalar_count;
    }
    size_t key_bytes = (size_t)key_words * sizeof *key,
           launch_bytes = launches * sizeof(kept_launch);
    size_t buffer_bytes = (size_t)buffers * sizeof(um_kbinding);
    kept *p = um_mem_alloc(sizeof *p + key_bytes + launch_bytes + buffer_bytes +
                           (size_t)scalars * sizeof(uint32_t));
    if (!p) return NULL;
    *p = (kept){.hash = hash,
                .key = (uint64_t *)(p + 1),
                .key_words = key_words,
                .launch_count = plan->launch_count,
                .form = plan->form,
                .form_count = plan->form_count,
                .scratch_bytes = plan->scratch_bytes};
    memcpy(p->key, key, key_bytes);
    memcpy(p->fault, plan->fault, sizeof p->fault);
    p->launch = (kept_launch *)(p->key + key_words);
    um_kbinding *buffer = (um_kbinding *)(p->launch + launches);
    uint32_t *scalar = (uint32_t *)(buffer + buffers);
    for (size_t i = 0; i < launches; i++) {
        const um_klaunch *l = &plan->launch[i];
        p->launch[i] = (kept_launch){.shared = l->shared,
                                     .buffer_count = l->buffer_count,
                                     .scalar_count = l->scalar_count,
                                     .buffer = buffer,
                                     .scalar = scalar};
        memcpy(p->launch[i].group_count, l->group_count, sizeof l->group_count);
        memcpy(buffer, l->buffer, (size_t)l->buffer_count * sizeof *buffer);
        memcpy(scalar, l->scalar, (size_t)l->scalar_count * sizeof *scalar);
        buffer += l->buffer_count;
        scalar += l->scalar_count;
    }
    return p;
}

/* The plan not used for longest, out of the cache; the lock is held. */
static kept *take_oldest(um_kcache *c)
{
    kept *p = c->oldest, **at = &c->plan[p->hash % BUCKETS];
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    unlink_age(c, p);
    c->plan_count--;
    return p;
}

static void forget(kept *p)
{
    if (!p) return;
    for (int32_t i = 0; i < p->launch_count; i++) release(p->launch[i].shared);
    um_mem_free(p);
}

/* Gives the cache a plan, unless another thread was first. Returns what is to be forgotten: the
 * plan itself, or one that had to make room. */
static kept *insert(um_kcache *c, kept *p)
{
    um_mutex_lock(&c->lock);
    kept *gone = p, **bucket = &c->plan[p->hash % BUCKETS];
    for (int32_t i = 0; i < p->launch_count; i++) p->launch[i].shared->users++;
    if (!find(c, p->hash, p->key, p->key_words)) {
        gone = c->plan_count == c->desc.plans_max ? take_oldest(c) : NULL;
        p->next = *bucket;
        *bucket = p;
        link_newest(c, p);
        c->plan_count++;
    }
    um_mutex_unlock(&c->lock);
    return gone;
}

/* A new plan; of form 0, the form that is chosen. */
static um_status make(um_kcache *c, const um_op *op, int32_t form, um_kplan *out)
{
    um_op made = regional(op);
    UM_TRY(um_kplan_make(&made, c->desc.unit, form, out));
    if (form == 0 && out->form_count > 1 && c->desc.tune)
        form = um_tune_choose(c->desc.tune, op, out->form_count);
    if (form != out->form) {
        um_kplan_release(out);
        UM_TRY(um_kplan_make(&made, c->desc.unit, form, out));
    }
    return share_all(c, out);
}

um_status um_kcache_plan(um_kcache *c, const um_op *op, int32_t form, um_kplan *out)
{
    uint64_t key[KEY_WORDS];
    int64_t key_words = make_key(op, form, key);
    uint64_t hash = um_hash(key, (size_t)key_words * sizeof *key, 0);
    out->launch_count = 0;
    um_mutex_lock(&c->lock);
    kept *p = find(c, hash, key, key_words);
    if (p) use(c, p, op, out);
    um_mutex_unlock(&c->lock);
    if (p) return UM_OK;
    UM_TRY(make(c, op, form, out));
    p = keep(out, hash, key, key_words);
    if (!p) return UM_FAIL(UM_OUT_OF_MEMORY, "%s: no memory for a plan", um_op_name(op->id));
    forget(insert(c, p));
    for (int32_t i = 0; i < out->launch_count; i++)
        for (int32_t b = 0; b < out->launch[i].buffer_count; b++)
            out->launch[i].buffer[b] = bound(op, out->launch[i].buffer[b]);
    return UM_OK;
}

/* Of a plan that failed before its kernels were shared, those are its own. */
void um_kcache_release_plan(um_kplan *plan)
{
    for (int32_t i = 0; i < plan->launch_count; i++) {
        um_klaunch *l = &plan->launch[i];
        if (l->shared)
            release(l->shared);
        else if (i == 0 || plan->launch[i - 1].shared || l->kernel != plan->launch[i - 1].kernel)
            um_kernel_release(l->kernel);
    }
    plan->launch_count = 0;
}

um_status um_kcache_create(const um_kcache_desc *desc, um_kcache **out)
{
    *out = NULL;
    um_kcache *c = um_mem_zalloc(sizeof *c);
    if (!c) return UM_FAIL(UM_OUT_OF_MEMORY, "kernel cache: no memory");
    c->desc = *desc;
    if (c->desc.plans_max == 0) c->desc.plans_max = PLANS_MAX;
    UM_TRY_OR(um_mutex_init(&c->lock), no_lock);
    UM_TRY_OR(um_mutex_init(&c->compiling), no_compiling);
    *out = c;
    return UM_OK;
no_compiling:
    um_mutex_destroy(&c->lock);
no_lock:
    um_mem_free(c);
    return um_status_last();
}

void um_kcache_release(um_kcache *cache)
{
    if (!cache) return;
    while (cache->oldest) forget(take_oldest(cache));
    um_mutex_destroy(&cache->compiling);
    um_mutex_destroy(&cache->lock);
    um_mem_free(cache);
}
