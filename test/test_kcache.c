/* Plans that are kept (device/kcache.h): the same as those made anew, of every op; what a hit
 * costs; what is shared; bounds; failing memory; threads. */
#include "base/os.h"
#include "device/kcache.h"
#include "test.h"

enum { THREADS = 4 };

static um_kcache *new_cache(int32_t plans_max)
{
    um_kcache *cache;
    CHECK_OK(um_kcache_create(&(um_kcache_desc){.plans_max = plans_max}, &cache));
    return cache;
}

static um_op add_of(int64_t rows, um_ptr at)
{
    um_op op = {.id = UM_OP_ADD, .in_count = 2, .out_count = 1};
    const int64_t shape[2] = {rows, 3};
    CHECK_OK(um_view_make(at, UM_F32, 2, shape, &op.in[0]));
    CHECK_OK(um_view_make(at + 4096, UM_F32, 2, shape, &op.in[1]));
    CHECK_OK(um_view_make(at + 8192, UM_F32, 2, shape, &op.out[0]));
    return op;
}

/* ---- the same plan -------------------------------------------------------------------------- */

static bool same_binding(const um_kbinding *a, const um_kbinding *b)
{
    return a->begin == b->begin && a->size_bytes == b->size_bytes && a->scratch == b->scratch;
}

static bool same_launch(const um_klaunch *a, const um_klaunch *b)
{
    bool same = um_kernel_same(a->kernel, b->kernel) && a->buffer_count == b->buffer_count &&
                a->scalar_count == b->scalar_count &&
                memcmp(a->group_count, b->group_count, sizeof a->group_count) == 0 &&
                memcmp(a->scalar, b->scalar, (size_t)a->scalar_count * sizeof a->scalar[0]) == 0;
    for (int32_t i = 0; same && i < a->buffer_count; i++)
        same = same_binding(&a->buffer[i], &b->buffer[i]);
    return same;
}

static void compare(um_kcache *cache, const um_op *op, const char *what)
{
    um_kplan kept, made;
    CHECK_OK(um_kplan_make(op, NULL, 0, &made));
    CHECK_OK(um_kcache_plan(cache, op, 0, &kept));
    CHECK_MSG(kept.launch_count == made.launch_count && kept.scratch_bytes == made.scratch_bytes &&
                  strcmp(kept.fault, made.fault) == 0,
              "%s", what);
    for (int32_t i = 0; i < UM_MIN(kept.launch_count, made.launch_count); i++)
        CHECK_MSG(same_launch(&kept.launch[i], &made.launch[i]), "%s launch %d", what, (int)i);
    um_kcache_release_plan(&kept);
    um_kplan_release(&made);
}

/* Views from `at` on, `off` bytes past multiples of 16. backwards: the first axis; in_place: the
 * output lies on the main input. */
static bool place(um_op *op, um_ptr at, uint64_t off, bool backwards, bool in_place)
{
    char why[200];
    int32_t views = op->out_count + op->in_count;
    for (int32_t i = 0; i < views; i++, at += 1 << 24) {
        um_view *v = i < op->out_count ? &op->out[i] : &op->in[i - op->out_count];
        v->ptr = at + (um_dtype_bits(v->dtype) < 64 ? off & ~(uint64_t)3 : 0);
        if (!backwards || v->rank == 0 || v->shape[0] < 2) continue;
        v->ptr += (uint64_t)((v->shape[0] - 1) * v->stride[0] * um_dtype_bits(v->dtype) / 8 + 15) &
                  ~(uint64_t)15;
        v->stride[0] = -v->stride[0];
    }
    int32_t main_input = um_op_main_input(op->id);
    if (in_place && main_input >= 0) op->in[main_input].ptr = op->out[0].ptr;
    return um_op_check(op) == UM_OK && um_view_count(&op->out[0]) > 0 &&
           um_kplan_supports(op, why, sizeof why);
}

/* Of samples of every op and dtype: plans for these addresses, and for others when they are kept.
 */
static void test_same_plans(void)
{
    int32_t compared[4] = {0};
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        um_kcache *cache = new_cache(0);
        const um_op_row *row = um_op_get_row(id);
        for (um_dtype dtype = 1; dtype <= UM_BOOL; dtype++) {
            if (!(row->dtypes & UM_BIT(dtype))) continue;
            for (int32_t index = 0; index < 8; index++)
                for (int32_t way = 0; way < 4; way++) {
                    char what[100];
                    um_sample sample = {.op.id = id};
                    if (!row->sample(index, dtype, &sample)) break;
                    snprintf(what, sizeof what, "%s/%s %s way %d", row->name, um_dtype_name(dtype),
                             sample.label, (int)way);
                    um_op op = sample.op;
                    if (!place(&op, 1 << 28, 4 * (uint64_t)way, way == 2, way == 3)) continue;
                    compare(cache, &op, what);
                    op = sample.op;
                    if (!place(&op, 7ull << 40, 4 * (uint64_t)way, way == 2, way == 3)) continue;
                    compare(cache, &op, what);
                    compared[way]++;
                }
        }
        um_kcache_release(cache);
    }
    printf("     %d, %d, %d backwards, %d in place\n", compared[0], compared[1], compared[2],
           compared[3]);
    for (int32_t way = 0; way < 4; way++) CHECK(compared[way] > 100);
}

/* ---- what is shared ------------------------------------------------------------------------- */

static void test_hit(void)
{
    um_kcache *cache = new_cache(0);
    um_op first = add_of(5, 1 << 20), moved = add_of(5, 1 << 24), other = add_of(6, 1 << 20);
    um_kplan a, b, c;
    CHECK_OK(um_kcache_plan(cache, &first, 0, &a));
    int64_t calls = um_mem_alloc_count();
    CHECK_OK(um_kcache_plan(cache, &moved, 0, &b));
    CHECK(um_mem_alloc_count() == calls);
    CHECK(a.launch[0].kernel == b.launch[0].kernel);
    CHECK(b.launch[0].buffer[0].begin == moved.out[0].ptr);
    CHECK(b.form == 0 && b.form_count == 1);
    CHECK_OK(um_kcache_plan(cache, &other, 0, &c));
    CHECK(c.launch[0].kernel == a.launch[0].kernel);
    other.id = UM_OP_MUL;
    um_kcache_release_plan(&c);
    CHECK_OK(um_kcache_plan(cache, &other, 0, &c));
    CHECK(c.launch[0].kernel != a.launch[0].kernel);
    um_kcache_release_plan(&a);
    um_kcache_release_plan(&b);
    um_kcache_release_plan(&c);
    um_kcache_release(cache);
}

static void test_bound(void)
{
    int64_t live = um_mem_live_count(), full = 0;
    um_kcache *cache = new_cache(4);
    um_op oldest = add_of(1, 1 << 20);
    um_kplan held, plan;
    CHECK_OK(um_kcache_plan(cache, &oldest, 0, &held));
    for (int32_t rows = 2; rows < 40; rows++) {
        um_op op = add_of(rows, 1 << 20);
        CHECK_OK(um_kcache_plan(cache, &op, 0, &plan));
        um_kcache_release_plan(&plan);
        if (rows == 5) full = um_mem_live_count();
        if (rows >= 5) CHECK(um_mem_live_count() == full);
    }
    int64_t calls = um_mem_alloc_count();
    um_op last = add_of(36, 1 << 20), gone = add_of(35, 1 << 20);
    CHECK_OK(um_kcache_plan(cache, &last, 0, &plan)); /* now the newest */
    um_kcache_release_plan(&plan);
    CHECK(um_mem_alloc_count() == calls);
    CHECK_OK(um_kcache_plan(cache, &gone, 0, &plan));
    um_kcache_release_plan(&plan);
    CHECK(um_mem_alloc_count() > calls);
    calls = um_mem_alloc_count();
    CHECK_OK(um_kcache_plan(cache, &last, 0, &plan)); /* 37 went */
    um_kcache_release_plan(&plan);
    CHECK(um_mem_alloc_count() == calls);
    um_kcache_release_plan(&held);
    um_kcache_release(cache);
    CHECK(um_mem_live_count() == live);
}

static void test_no_memory(void)
{
    um_op op = add_of(5, 1 << 20);
    int32_t failed = 0;
    for (int64_t n = 1;; n++) {
        int64_t live = um_mem_live_count();
        um_kcache *cache = NULL;
        um_kplan plan = {0};
        um_mem_fail_at(n, false);
        um_status status = um_kcache_create(&(um_kcache_desc){0}, &cache);
        if (status == UM_OK) {
            status = um_kcache_plan(cache, &op, 0, &plan);
            um_kcache_release_plan(&plan);
        }
        bool done = !um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(status == (done ? UM_OK : UM_OUT_OF_MEMORY));
        if (cache) { /* as good as new */
            CHECK_OK(um_kcache_plan(cache, &op, 0, &plan));
            um_kcache_release_plan(&plan);
        }
        um_kcache_release(cache);
        CHECK(um_mem_live_count() == live);
        failed += !done;
        if (done) break;
    }
    CHECK(failed > 5);
}

/* ---- threads and drivers -------------------------------------------------------------------- */

static _Atomic int32_t made, destroyed, to_fail;
static int32_t context;

static um_status compile(void *ctx, const um_kernel *kernel, void **object)
{
    *object = NULL;
    if (to_fail > 0) {
        to_fail--;
        return UM_FAIL(UM_UNSUPPORTED, "kernel %s: no", kernel->name);
    }
    made++;
    *object = ctx;
    return UM_OK;
}

static void destroy(void *ctx, void *object)
{
    CHECK(ctx == object);
    destroyed++;
}

static void plan_much(void *arg)
{
    for (int32_t i = 0; i < 400; i++) {
        um_kplan plan;
        void *object;
        um_op op = add_of(1 + i * 7 % 23, 1 << 20);
        if (i % 3 == 0) op.id = UM_OP_MUL;
        CHECK_OK(um_kcache_plan(arg, &op, 0, &plan));
        CHECK_OK(um_kcache_compiled(&plan.launch[0], &object));
        CHECK(object == &context);
        um_kcache_release_plan(&plan);
    }
}

static void test_threads(void)
{
    um_kcache *cache;
    um_thread threads[THREADS];
    um_kplan plan, held[2];
    void *object;
    CHECK_OK(um_kcache_create(
        &(um_kcache_desc){.plans_max = 8, .ctx = &context, .compile = compile, .destroy = destroy},
        &cache));
    um_op op = add_of(1, 1 << 20);
    to_fail = 1;
    CHECK_OK(um_kcache_plan(cache, &op, 0, &plan));
    CHECK_FAILS(um_kcache_compiled(&plan.launch[0], &object), UM_UNSUPPORTED, "no");
    um_kcache_release_plan(&plan);
    CHECK_OK(um_kcache_plan(cache, &op, 0, &held[0])); /* so that no kernel goes */
    op.id = UM_OP_MUL;
    CHECK_OK(um_kcache_plan(cache, &op, 0, &held[1]));
    for (int32_t i = 0; i < THREADS; i++)
        CHECK_OK(um_thread_start(&threads[i], plan_much, cache, "plan"));
    for (int32_t i = 0; i < THREADS; i++) um_thread_join(threads[i]);
    CHECK(made == 2 && destroyed == 0);
    um_kcache_release_plan(&held[0]);
    um_kcache_release_plan(&held[1]);
    um_kcache_release(cache);
    CHECK(destroyed == 2);
}

int main(void)
{
    TEST(test_same_plans);
    TEST(test_hit);
    TEST(test_bound);
    TEST(test_no_memory);
    TEST(test_threads);
    return TEST_RESULT();
}
