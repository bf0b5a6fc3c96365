/* test/test_kernel_pass.c: what passes make of kernels, and that it does the same: kernels run in
 * the interpreter before and after. */
#include "interp_util.h"
#include "kernel_ir.h"
#include "kernel_random.h"

/* ---- simplify ------------------------------------------------------------------------------- */

/* What is after `begin`. */
static const char *body_of(const char *text)
{
    const char *begin = text ? strstr(text, "begin\n") : NULL;
    return begin ? begin + 6 : "";
}

/* Bodies behind the head of kernel_ir.h; what is left of them, the head's unused values gone. */
static const struct {
    const char *body, *want;
} simplified[] = {
    {"%13 = add u32 %12, %12\nstore su, %13, %13\n", "%1 = const u32 0x2 ; 2\nstore su, %1, %1\n"},
    /* made twice, in sight or not */
    {"%13 = add u32 %1, %3\n%14 = add u32 %1, %3\n%15 = mul u32 %13, %14\nstore su, %6, %15\n",
     "%1 = local_id u32 0\n%2 = scalar u32 n\n%3 = const u32 0x0 ; 0\n%4 = add u32 %1, %2\n"
     "%5 = mul u32 %4, %4\nstore su, %3, %5\n"},
    {"if %7\n%14 = neg u32 %1\nstore su, %1, %14\nelse\n%17 = neg u32 %1\nstore su, %6, %17\nend\n",
     "%1 = local_id u32 0\n%2 = scalar u32 n\n%3 = const u32 0x0 ; 0\n%4 = lt bool %1, %2\nif %4\n"
     "    %6 = neg u32 %1\n    store su, %1, %6\nelse\n    %9 = neg u32 %1\n    store su, %3, %9\n"
     "end\n"},
    /* a division that must not happen stays, if somebody sees it */
    {"%13 = div u32 %1, %6\n%14 = div u32 %12, %6\nstore su, %6, %14\n",
     "%1 = const u32 0x0 ; 0\n%2 = const u32 0x1 ; 1\n%3 = div u32 %2, %1\nstore su, %1, %3\n"},
    /* exact, and what is not */
    {"%13 = add u32 %1, %6\n%14 = mul u32 %13, %12\n%15 = sub u32 %14, %14\nstore su, %15, %14\n",
     "%1 = local_id u32 0\n%2 = const u32 0x0 ; 0\nstore su, %2, %1\n"},
    {"%13 = scalar f32 a\n%14 = const f32 0x0\n%15 = add f32 %13, %14\n%16 = sub f32 %15, %14\n"
     "%17 = mul f32 %16, %4\nstore s, %6, %17\n",
     "%1 = const u32 0x0 ; 0\n%2 = scalar f32 a\n%3 = const f32 0x0 ; 0\n%4 = add f32 %2, %3\n"
     "store s, %1, %4\n"},
    {"%13 = not bool %7\n%14 = not bool %13\n%15 = const bool 0x1\n%16 = and bool %14, %15\n"
     "store_if s, %1, %4, %16\n",
     "%1 = local_id u32 0\n%2 = scalar u32 n\n%3 = const f32 0x3f800000 ; 1\n"
     "%4 = lt bool %1, %2\nstore_if s, %1, %3, %4\n"},
    /* lanes */
    {"%13 = vector f32x4 %4, %4, %4, %4\n%14 = extract f32 2, %9\n%15 = scalar f32 a\n"
     "%16 = vector f32x2 %14, %15\n%17 = extract f32 1, %16\nstore s, %6, %17\nstore s, %6, %13\n",
     "%1 = const u32 0x0 ; 0\n%2 = const f32x4 0x3f800000 ; 1\n%3 = scalar f32 a\nstore s, %1, %3\n"
     "store s, %1, %2\n"},
    {"%13 = bitcast u32 %4\n%14 = load u32 su, %1\n%15 = bitcast f32 %14\n%16 = bitcast u32 %15\n"
     "store su, %13, %16\n",
     "%1 = local_id u32 0\n%2 = const u32 0x3f800000 ; 1065353216\n%3 = load u32 su, %1\n"
     "store su, %2, %3\n"},
    /* memory: loads of one value until it may have changed */
    {"%13 = load f32 x, %1\n%14 = load f32 x, %1\nstore w, %1, %14\n%16 = load f32 x, %1\n"
     "store s, %1, %13\nstore s, %1, %16\n",
     "%1 = local_id u32 0\n%2 = load f32 x, %1\nstore w, %1, %2\n%4 = load f32 x, %1\n"
     "store s, %1, %2\nstore s, %1, %4\n"},
    {"%13 = load u32 su, %1\nbarrier\n%15 = load u32 su, %1\n%16 = add u32 %13, %15\n"
     "store su, %1, %16\n",
     "%1 = local_id u32 0\n%2 = load u32 su, %1\nbarrier\n%4 = load u32 su, %1\n%5 = add u32 %2, "
     "%4\n"
     "store su, %1, %5\n"},
    {"set v, %4\n%14 = get f32 v\nstore s, %6, %14\n",
     "%1 = const f32 0x3f800000 ; 1\n%2 = const u32 0x0 ; 0\nstore s, %2, %1\n"},
    {"set v, %4\n%14 = for u32 %6, %3, %12\n%15 = get f32 v\n%16 = add f32 %15, %4\nset v, "
     "%16\nend\n"
     "%19 = get f32 v\nstore s, %6, %19\n",
     "%1 = scalar u32 n\n%2 = const f32 0x3f800000 ; 1\n%3 = const u32 0x0 ; 0\n"
     "%4 = const u32 0x1 ; 1\nset v, %2\n%6 = for u32 %3, %1, %4\n    %7 = get f32 v\n"
     "    %8 = add f32 %7, %2\n    set v, %8\nend\n%11 = get f32 v\nstore s, %3, %11\n"},
    /* known conditions */
    {"%13 = const bool 0x1\n%14 = const bool 0x0\nif %13\nstore s, %6, %4\nelse\nbarrier\nend\n"
     "if %14\nbarrier\nelse\nif %14\nbarrier\nend\nend\nstore_if s, %1, %4, %14\n"
     "%28 = load_if f32 s, %1, %13, %4\nstore s, %12, %28\n",
     "%1 = local_id u32 0\n%2 = const f32 0x3f800000 ; 1\n%3 = const u32 0x0 ; 0\n"
     "%4 = const u32 0x1 ; 1\nstore s, %3, %2\n%6 = load f32 s, %1\nstore s, %4, %6\n"},
    /* a loop keeps its break */
    {"%13 = const bool 0x1\nloop\nif %13\nbarrier\nbreak\nend\nend\n",
     "%1 = const bool 0x1 ; 1\nloop\n    if %1\n        barrier\n        break\n    end\nend\n"},
    /* nobody sees it */
    {"%13 = load f32 r, %1\nset v, %13\nstore p, %6, %13\nif %7\nset v4, %9\nend\n"
     "%19 = for u32 %6, %3, %12\nif %7\nbreak\nelse\nset v, %4\nend\nend\n",
     ""},
    {"%13 = atomic i32 add i, %6, %5\n%14 = load_uniform f32 s, %6\n%15 = group_reduce f32 add "
     "%4\n",
     "%1 = const i32 0x1 ; 1\n%2 = const u32 0x0 ; 0\n%3 = atomic i32 add i, %2, %1\n"
     "%4 = load_uniform f32 s, %2\n"},
};

static void what_simplify_leaves(void)
{
    for (size_t i = 0; i < UM_COUNT_OF(simplified); i++) {
        um_kernel *k = NULL, *simple = NULL;
        char *text = NULL;
        CHECK_OK(parse_body(simplified[i].body, &k));
        if (!k) continue;
        CHECK_OK(um_kernel_simplify(k, &simple));
        if (simple) CHECK_OK(um_kernel_print(simple, &text));
        CHECK_MSG(strcmp(body_of(text), simplified[i].want) == 0, "%s\ngot:\n%s",
                  simplified[i].body, body_of(text));
        um_kernel_text_free(text);
        um_kernel_release(simple);
        um_kernel_release(k);
    }
}

static void unused_memories_go(void)
{
    um_kernel *k = NULL, *simple = NULL;
    char *text = NULL;
    CHECK_OK(parse_body("frag_fill fi, %5\nset v4, %9\n%15 = get f32x4 v4\nstore s, %6, %15\n"
                        "if %7\nset v4, %9\nend\n%20 = get f32x4 v4\nstore s, %6, %20\n",
                        &k));
    CHECK_OK(um_kernel_simplify(k, &simple));
    CHECK_OK(um_kernel_print(simple, &text));
    const char *want = "kernel t group 64 1 1 subgroup 0 cluster 1 1 1\nbuffer r f32 read\n"
                       "buffer w f32 write\nbuffer x f32 read_write\nbuffer i i32 read_write\n"
                       "buffer h f16 read_write\nshared s f32 64\nvar v4 f32x4\nscalar n u32\n"
                       "scalar a f32\nfrag fi c 16 16 16 i32\nbegin\n";
    CHECK_MSG(text && strncmp(text, want, strlen(want)) == 0, "%s", text);
    um_kernel_text_free(text);
    um_kernel_release(simple);
    um_kernel_release(k);
    k = create("t");
    CHECK_FAILS(um_kernel_simplify(k, &simple), UM_INVALID_ARGUMENT, "a pass takes a finished");
    CHECK(simple == NULL);
    um_kernel_release(k);
}

/* ---- random kernels ------------------------------------------------------------------------- */

/* The kernel's output with subgroups of `size` is that of the other with subgroups of 8. */
static void check_same(const um_kernel *k, uint32_t size, const um_kernel *other, const char *what,
                       int32_t n)
{
    static output want, got;
    if (!other) return;
    CHECK_OK(run(k, size, want));
    CHECK_OK(run(other, size > 1 ? 8 : 32, got));
    CHECK_MSG(memcmp(want, got, sizeof got) == 0, "kernel %d, %s", n, what);
}

/* It shows what a shuffle gives where there is no lane: any value. */
static bool shows_any_value(const um_kernel *k)
{
    for (int64_t i = 1; i < k->inst_count; i++)
        if (k->inst[i].op == UM_KOP_SUBGROUP_SHUFFLE_UP ||
            k->inst[i].op == UM_KOP_SUBGROUP_SHUFFLE_DOWN)
            return true;
    return false;
}

static void random_kernels_stay_the_same(void)
{
    const um_klacks none = {.group_ops = true, .subgroups = true, .saturation = true};
    const um_klacks narrow = {.group_ops = true, .subgroups = true, .types = 1u << UM_I64};
    int64_t before = 0, after = 0, compared = 0;
    for (int32_t n = 0; n < 100; n++) {
        bool uses_subgroups;
        um_kernel *k = make_kernel(false, &uses_subgroups);
        um_kernel *simple = NULL, *again = NULL, *expanded = NULL, *both = NULL, *halves = NULL;
        CHECK_OK(um_kernel_simplify(k, &simple));
        check_same(k, 8, simple, "simplified", n);
        CHECK_OK(um_kernel_simplify(simple, &again));
        CHECK_OK(um_kernel_expand(k, &none, &expanded));
        CHECK_OK(um_kernel_simplify(expanded, &both));
        CHECK_OK(um_kernel_expand(k, &narrow, &halves));
        for (int64_t i = 1; halves && i < halves->inst_count; i++)
            CHECK(um_dtype_bits(halves->inst[i].type.dtype) < 64 ||
                  halves->inst[i].type.dtype == UM_F64);
        if (!shows_any_value(k)) {
            check_same(k, 1, halves, "without 64-bit integers", n);
            check_same(k, 1, expanded, "expanded", n);
            check_same(k, 1, both, "expanded and simplified", n);
            compared++;
        }
        CHECK(again && simple && again->inst_count <= simple->inst_count);
        before += k->inst_count;
        after += simple ? simple->inst_count : 0;
        um_kernel_release(halves);
        um_kernel_release(both);
        um_kernel_release(expanded);
        um_kernel_release(again);
        um_kernel_release(simple);
        um_kernel_release(k);
    }
    CHECK_MSG(compared > 50, "%lld", (long long)compared);
    CHECK_MSG(after < before * 3 / 4, "%lld of %lld", (long long)after, (long long)before);
}

int main(void)
{
    run_limit = 1 << 24; /* a 64-bit division is 2000 of them */
    TEST(what_simplify_leaves);
    TEST(unused_memories_go);
    TEST(random_kernels_stay_the_same);
    return TEST_RESULT();
}
