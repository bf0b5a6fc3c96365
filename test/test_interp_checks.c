/* test/test_interp_checks.c: the interpreter's checks: each on a kernel that breaks the rule,
 * beside one that keeps it; and what no run starts with. */
#include "interp_util.h"

/* A work-group of 8, of which two are run, with a subgroup of 4. Every buffer has 16 elements. */
static const char head[] = "kernel t group 8 1 1\n"
                           "buffer x f32 read_write\n"
                           "buffer h f16 read_write\n"
                           "buffer i i32 read_write\n"
                           "shared s f32 16\n"
                           "shared si i32 16\n"
                           "private p f32 4\n"
                           "var v f32\n"
                           "scalar n u32\n"
                           "frag fa a 4 4 4 f32\n"
                           "frag fb b 4 4 4 f32\n"
                           "frag fc c 4 4 4 f32\n"
                           "begin\n"
                           "%1 = local_index u32\n"
                           "%2 = group_id u32 0\n"
                           "%3 = const u32 0x0\n"
                           "%4 = const u32 0x1\n"
                           "%5 = const u32 0x2\n"
                           "%6 = const u32 0x8\n"
                           "%7 = const f32 0x3f800000\n"
                           "%8 = const i32 0x0\n"
                           "%9 = const i32 0xffffffff\n"
                           "%10 = const i32 0x80000000\n"
                           "%11 = const f16 0x3c00\n"
                           "%12 = xor u32 %1, %4\n"
                           "%13 = mul u32 %2, %6\n"
                           "%14 = add u32 %13, %1\n" /* the global index */
                           "%15 = eq bool %1, %3\n"
                           "%16 = scalar u32 n\n" /* 0 */
                           "%17 = eq bool %2, %3\n"
                           "%18 = const u32 0x4\n"
                           "%19 = mul u32 %1, %18\n";

typedef struct broken {
    const char *body;
    um_status status;
    const char *message; /* what it holds */
} broken;

static const broken cases[] = {
    {"store x, %14, %7\n", UM_OK, ""},
    /* bounds */
    {"%20 = add u32 %14, %4\nstore x, %20, %7\n", UM_OUT_OF_RANGE,
     "kernel t: instruction 21 (store), work-group (1,0,0), invocation (7,0,0): index 16 of x, "
     "which has 16"},
    {"%20 = load f32 x, %19\n", UM_OUT_OF_RANGE, "(load), work-group (0,0,0), invocation (4,0,0)"},
    {"%20 = load_if f32 x, %19, %15, %7\n", UM_OK, ""},
    {"%20 = const u32 0xfffffffe\n%21 = load f32x2 x, %20\n", UM_OUT_OF_RANGE, "4294967294"},
    {"store s, %19, %7\n", UM_OUT_OF_RANGE, "index 16 of s"},
    {"store p, %1, %7\n", UM_OUT_OF_RANGE, "index 4 of p, which has 4"},
    {"%20 = atomic i32 add i, %19, %8\n", UM_OUT_OF_RANGE, "index 16 of i"},
    {"%20 = load f32x2 x, %1\n", UM_INVALID_ARGUMENT, "index 1 of x is not a multiple of the 2"},
    /* what was never written */
    {"%20 = load f32 s, %1\n", UM_INVALID_ARGUMENT, "element 0 of s is read before it was written"},
    {"%20 = load f32 p, %3\n", UM_INVALID_ARGUMENT, "element 0 of p is read before it was written"},
    {"if %15\nset v, %7\nend\n%23 = get f32 v\n", UM_INVALID_ARGUMENT,
     "invocation (1,0,0): v is read before it was set"},
    {"%20 = and u32 %1, %4\n%21 = eq bool %20, %3\nif %21\nset v, %7\nend\n%25 = get f32 v\n",
     UM_INVALID_ARGUMENT, "invocation (1,0,0): v is read before it was set"},
    {"if %17\nstore s, %1, %7\nend\nbarrier\n%24 = load f32 s, %1\n", UM_INVALID_ARGUMENT,
     "work-group (1,0,0), invocation (0,0,0): element 0 of s is read before"},
    {"if %17\nstore p, %3, %7\nset v, %7\nend\n%24 = load f32 p, %3\n", UM_INVALID_ARGUMENT,
     "work-group (1,0,0), invocation (0,0,0): element 0 of p is read before"},
    {"if %17\nset v, %7\nfrag_fill fc, %7\nend\n%24 = frag_get f32 fc, %3\n", UM_INVALID_ARGUMENT,
     "work-group (1,0,0), invocation (0,0,0): element (0,0) of fc is used before"},
    {"%20 = atomic i32 add si, %3, %8\n", UM_INVALID_ARGUMENT, "element 0 of si is read before"},
    {"frag_store fc, x, %3, %18\n", UM_INVALID_ARGUMENT, "element (0,0) of fc is used before"},
    {"frag_mma fc, fa, fb, fc\n", UM_INVALID_ARGUMENT, "element (0,0) of fa is used before"},
    {"%20 = frag_get f32 fc, %3\n", UM_INVALID_ARGUMENT, "element (0,0) of fc is used before"},
    /* races */
    {"store s, %3, %7\n", UM_INVALID_ARGUMENT,
     "invocation (1,0,0): a race on element 0 of s: a write here, a write by invocation (0,0,0)"},
    {"store s, %1, %7\n%21 = load f32 s, %12\n", UM_INVALID_ARGUMENT,
     "a race on element 1 of s: a read here, a write by invocation (1,0,0) since the last barrier"},
    {"store s, %1, %7\nbarrier\n%22 = load f32 s, %12\n", UM_OK, ""},
    {"store s, %1, %7\nbarrier\n%22 = load f32 s, %12\nstore s, %1, %7\n", UM_INVALID_ARGUMENT,
     "a race on element 0 of s: a write here, a read by invocation (1,0,0)"},
    {"store s, %1, %7\nbarrier\n%22 = load f32 s, %3\nif %15\nstore s, %3, %7\nend\n",
     UM_INVALID_ARGUMENT, "a write here, a read by several invocations"},
    {"store s, %1, %7\n%21 = load f32 s, %1\nstore s, %1, %7\n", UM_OK, ""},
    {"if %17\nstore x, %3, %7\nend\n", UM_INVALID_ARGUMENT, "a race on element 0 of x"},
    {"store x, %14, %7\n%21 = xor u32 %14, %4\n%22 = load f32 x, %21\n", UM_INVALID_ARGUMENT,
     "a race on element 1 of x: a read here, a write by invocation (1,0,0)"},
    {"store x, %1, %7\n", UM_INVALID_ARGUMENT,
     "work-group (1,0,0), invocation (0,0,0): a race on element 0 of x: a write here, a write by "
     "work-group (0,0,0) of the launch"},
    {"%20 = load f32 x, %1\nif %17\nelse\nstore x, %1, %7\nend\n", UM_INVALID_ARGUMENT,
     "a write here, a read by several work-groups of the launch"},
    {"%20 = load f32 x, %3\n", UM_OK, ""},
    {"%20 = atomic i32 add i, %3, %9\n", UM_OK, ""},
    {"%20 = atomic i32 add i, %3, %9\n%21 = load i32 i, %3\n", UM_INVALID_ARGUMENT,
     "a race on element 0 of i: a read here, an atomic by several invocations"},
    {"%20 = atomic_cas i32 i, %3, %8, %9\nbarrier\nif %15\nstore i, %3, %8\nend\n",
     UM_INVALID_ARGUMENT, "an atomic here, a write by work-group (0,0,0) of the launch"},
    /* words shared by 16-bit elements */
    {"if %17\nstore h, %1, %11\nend\n", UM_INVALID_ARGUMENT,
     "a race on the 32-bit word of element 1 of h: a write here, a write by invocation (0,0,0)"},
    {"%20 = mul u32 %1, %5\nif %17\nstore h, %20, %11\nend\n", UM_OK, ""},
    {"%20 = load f16 h, %1\n", UM_OK, ""},
    /* arithmetic that must not be */
    {"%20 = convert i32 %1\n%21 = div i32 %9, %20\n", UM_INVALID_ARGUMENT,
     "(div), work-group (0,0,0), invocation (0,0,0): a division by 0"},
    {"%20 = rem u32 %1, %16\n", UM_INVALID_ARGUMENT, "(rem)"},
    {"%20 = div i32 %10, %9\n", UM_INVALID_ARGUMENT, "a division of the lowest value by -1"},
    {"%20 = convert i32 %1\nif %15\nelse\n%23 = div i32 %9, %20\nend\n", UM_OK, ""},
    {"%20 = for u32 %3, %4, %16\nend\n", UM_INVALID_ARGUMENT, "a step of 0, wanted at least 1"},
    {"%20 = const u32 0xfffffff0\n%21 = const u32 0xffffffff\n%22 = for u32 %20, %21, %6\nend\n",
     UM_INVALID_ARGUMENT, "the counter 4294967288 wraps"},
    {"%20 = const i32 0x7ffffffe\n%21 = const i32 0x7fffffff\n%22 = const i32 0x2\n"
     "%23 = for i32 %20, %21, %22\nend\n",
     UM_INVALID_ARGUMENT, "the counter 2147483646 wraps"},
    {"loop\n%21 = lt bool %1, %16\nif %21\nbreak\nend\nend\n", UM_TIMEOUT,
     "the limit of 1000 steps"},
    /* across invocations */
    {"%20 = subgroup_shuffle f32 %7, %18\n", UM_INVALID_ARGUMENT,
     "invocation (0,0,0): takes from lane 4 of a subgroup of 4"},
    {"%20 = subgroup_shuffle_xor f32 4, %7\n", UM_INVALID_ARGUMENT, "takes from lane 4"},
    {"%20 = subgroup_shuffle_up f32 3, %7\n%21 = subgroup_shuffle_down f32 3, %7\n", UM_OK, ""},
    /* fragments */
    {"frag_fill fc, %7\n%21 = frag_get f32 fc, %18\n", UM_OUT_OF_RANGE,
     "item 4 of fc, of which it holds 4"},
    {"%20 = convert f32 %1\nfrag_fill fc, %20\n", UM_INVALID_ARGUMENT, "is not the same as"},
    {"if %17\nfrag_load fa, x, %3, %6\nend\n", UM_OUT_OF_RANGE, "index 16 of x"},
    {"store s, %1, %7\n%21 = add u32 %1, %6\nstore s, %21, %7\nfrag_load fa, s, %3, %18\n",
     UM_INVALID_ARGUMENT, "a race on element 0 of s: a read here, a write by invocation (0,0,0)"},
    {"frag_fill fc, %7\nif %17\nfrag_store fc, x, %3, %18\nend\n", UM_INVALID_ARGUMENT,
     "a race on element 0 of x: a write here, a write by subgroup 0"},
    /* asynchronous copies */
    {"%20 = rem u32 %19, %6\nif %15\nasync_copy s, x, %3, %3\nasync_commit\nasync_wait 0\nend\n"
     "barrier\n%27 = rem u32 %1, %18\n%28 = load f32 s, %27\n",
     UM_OK, ""},
    {"if %15\nasync_copy s, x, %3, %3\nasync_commit\nend\nbarrier\n%25 = load f32 s, %3\n",
     UM_INVALID_ARGUMENT, "a race on element 0 of s: a read while it is copied to"},
    {"if %15\nasync_copy s, x, %3, %3\nasync_wait 0\nend\nbarrier\n%25 = load f32 s, %3\n",
     UM_INVALID_ARGUMENT, "while it is copied to; there was no async_wait for the batch"},
    {"if %15\nasync_copy s, x, %3, %3\nasync_commit\nasync_wait 1\n%24 = load f32 s, %3\nend\n",
     UM_INVALID_ARGUMENT, "while it is copied to"},
    {"if %15\nasync_copy s, x, %3, %3\nasync_commit\nasync_wait 0\n%24 = load f32 s, %3\nend\n",
     UM_OK, ""},
    {"if %15\nasync_copy s, x, %3, %3\nasync_commit\nasync_wait 0\nend\n%25 = load f32 s, %3\n",
     UM_INVALID_ARGUMENT, "a read here, a write by invocation (0,0,0) since the last barrier"},
    {"if %15\nasync_copy s, x, %16, %3\nasync_copy s, x, %3, %3\nend\n", UM_INVALID_ARGUMENT,
     "a write while it is copied to"},
    {"async_copy s, x, %1, %1\n", UM_INVALID_ARGUMENT, "not both at whole 16 bytes"},
    {"async_copy s, x, %19, %19\n", UM_OUT_OF_RANGE, "index 16 of"},
};

static um_status run_case(const char *body)
{
    char text[4096];
    um_kernel *k = NULL;
    _Alignas(16) float x[16] = {0};
    _Alignas(16) uint16_t h[16] = {0};
    _Alignas(16) int32_t i[16] = {0};
    um_kernel_buffer buffers[3] = {{x, sizeof x}, {h, sizeof h}, {i, sizeof i}};
    uint32_t n = 0;
    snprintf(text, sizeof text, "%s%s", head, body);
    um_status status = um_kernel_parse(text, &k);
    CHECK_MSG(status == UM_OK, "%s: %s", body, um_last_error()->message);
    if (status != UM_OK) return UM_INTERNAL;
    um_kernel_run run = {.group_count = {2, 1, 1},
                         .subgroup_size = 4,
                         .buffers = buffers,
                         .buffer_count = 3,
                         .scalars = &n,
                         .scalar_count = 1,
                         .step_limit = 1000};
    status = um_kernel_interpret(k, &run);
    um_kernel_release(k);
    return status;
}

static void every_check_fires(void)
{
    for (size_t c = 0; c < UM_COUNT_OF(cases); c++) {
        um_status status = run_case(cases[c].body);
        const char *message = status == UM_OK ? "" : um_last_error()->message;
        CHECK_MSG(status == cases[c].status, "%s: %s %s", cases[c].body, um_status_name(status),
                  message);
        CHECK_MSG(strstr(message, cases[c].message) != NULL, "%s: %s", cases[c].body, message);
    }
}

/* The verifier refuses these; the interpreter looks for itself. */
static void divergence_is_seen(void)
{
    for (int32_t c = 0; c < 3; c++) {
        um_kernel *k = kernel_make(8);
        um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), one = um_k_f32(k, 1);
        um_k_if(k, um_k_ne(k, i, um_k_u32(k, 3)));
        if (c == 0) um_k_barrier(k);
        if (c == 1) um_k_group_reduce(k, UM_K_ADD, one);
        if (c == 2) um_k_subgroup_reduce(k, UM_K_ADD, one);
        um_k_end(k);
        CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, "its flow differs");
        k->finished = true;
        um_kernel_run run = {.group_count = {1, 1, 1}, .subgroup_size = 4};
        CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT,
                    "invocation (3,0,0): not here, but ");
        um_kernel_release(k);
    }
}

static void wrong_runs_are_refused(void)
{
    _Alignas(16) float x[20];
    um_kernel *k = kernel_make(8);
    um_mem mem = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_val n = um_k_scalar(k, "n", UM_U32), i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_k_store_if(k, mem, i, um_k_f32(k, 1), um_k_lt(k, i, n));
    um_kernel_buffer buffer = {x, sizeof x};
    uint32_t scalar = 8;
    um_kernel_run good = {.group_count = {1, 1, 1},
                          .buffers = &buffer,
                          .buffer_count = 1,
                          .scalars = &scalar,
                          .scalar_count = 1},
                  run = good;
    CHECK_FAILS(um_kernel_interpret(NULL, &run), UM_INVALID_ARGUMENT, "kernel is NULL");
    CHECK_FAILS(um_kernel_interpret(k, NULL), UM_INVALID_ARGUMENT, "run is NULL");
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "is not finished");
    CHECK_OK(um_kernel_finish(k));
    CHECK_OK(um_kernel_interpret(k, &run));
    run.buffer_count = 2;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "buffers 2, wanted 1");
    run = good, run.buffers = NULL;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "buffers is NULL");
    run = good, run.scalar_count = 0;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "scalars 0, wanted 1");
    run = good, run.scalars = NULL;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "scalars is NULL");
    run = good, run.subgroup_size = 12;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "subgroup_size 12");
    run = good, run.subgroup_size = 256;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "subgroup_size 256");
    run = good, buffer.data = NULL;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "the data of x is NULL");
    buffer.data = x + 1;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "wanted a multiple of 16");
    buffer = (um_kernel_buffer){x, UINT64_MAX};
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "more than there are");
    buffer = (um_kernel_buffer){NULL, 0}, scalar = 0;
    CHECK_OK(um_kernel_interpret(k, &run));
    scalar = 8;
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_OUT_OF_RANGE, "index 0 of x, which has 0");
    run.group_count[1] = 0;
    CHECK_OK(um_kernel_interpret(k, &run));
    um_kernel_release(k);

    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "t", .subgroup_size = 16}, &k));
    CHECK_OK(um_kernel_finish(k));
    run = (um_kernel_run){.group_count = {1, 1, 1}, .subgroup_size = 32};
    CHECK_FAILS(um_kernel_interpret(k, &run), UM_INVALID_ARGUMENT, "subgroup_size 32, wanted 16");
    run.subgroup_size = 0;
    CHECK_OK(um_kernel_interpret(k, &run));
    um_kernel_release(k);
}

/* One memory under two names is still one. */
static void races_through_two_parameters(void)
{
    _Alignas(16) float x[16] = {0};
    um_kernel *k = kernel_make(8);
    um_mem a = um_k_buffer(k, "a", UM_F32, UM_K_READ), b = um_k_buffer(k, "b", UM_F32, UM_K_WRITE);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_k_store(k, b, i, um_k_load(k, a, i));
    CHECK_OK(um_kernel_finish(k));
    um_kernel_buffer buffers[2] = {{x, 32}, {x + 8, 32}};
    CHECK_OK(run_kernel(k, 1, 0, 2, buffers, 0, NULL));
    buffers[1].data = x;
    CHECK_OK(run_kernel(k, 1, 0, 2, buffers, 0, NULL));
    buffers[1].data = x + 4;
    CHECK_FAILS(run_kernel(k, 1, 0, 2, buffers, 0, NULL), UM_INVALID_ARGUMENT,
                "a race on element 0 of b: a write here, a read by invocation (4,0,0)");
    um_kernel_release(k);
}

int main(void)
{
    TEST(every_check_fires);
    TEST(divergence_is_seen);
    TEST(wrong_runs_are_refused);
    TEST(races_through_two_parameters);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
