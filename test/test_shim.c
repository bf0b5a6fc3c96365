/* The CUDA, HIP and Metal text of the kernel library, compiled for the host with stand-ins for the
 * dialects' words (test/shim/) and run through the conformance driver, a fiber for each invocation
 * of a work-group. A first pass over the cases collects the texts, which are then compiled in
 * bulk; a second one runs them.
 *
 * test_shim [PATTERN]: of umbel check; "all" for every case. Skipped where there is no C++
 * compiler. */
#include "check/check.h"
#include "device/device.h"
#include "kernel_random.h"
#include "test/shim/device.h"
#include "test/shim/modules.h"

#include <sys/resource.h>
#include <sys/stat.h>

static const char *pattern = "*/1:*/mixed/*";
static bool is_usual;
static int32_t random_count = 60; /* of each device */
static um_device *device[SHIM_DEVICES];

/* Of processor time, of this process and of its compilers. */
static double seconds(void)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage used;
        if (getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &used) != 0) return 0;
        sum += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

static void on_case(void *user, const um_check_case *result)
{
    (void)user;
    if (result->outcome == UM_CHECK_FAILED)
        fprintf(stderr, "%s: %s\n", result->name, result->detail);
}

/* Whose results are what nobody wrote. */
static void collect_texts(void)
{
    double begin = seconds();
    um_check_result result;
    shim_collects = true;
    um_check_options options = {.device = device[0], .pattern = pattern, .seed = 1};
    CHECK_OK(um_check_run(&options, &result));
    shim_collects = false;
    CHECK(shim_uncollected == 0);
    printf("     kernels: %d cuda, %d hip, %d metal; %d texts in all; %.1f s of processor time\n",
           shim_count.of_target[UM_TARGET_CUDA], shim_count.of_target[UM_TARGET_HIP],
           shim_count.of_target[UM_TARGET_METAL], shim_count.texts, seconds() - begin);
}

/* ---- kernels made at random -------------------------------------------------------------------
 */

/* Number n of a device, lowered for it. */
static um_kernel *random_kernel(int32_t i, int32_t n)
{
    bool uses_subgroups;
    um_kernel *lowered = NULL;
    random_exact = true;
    random_state = (uint64_t)n + 1;
    dtypes[5] = shim_target(i) == UM_TARGET_METAL ? UM_F16 : UM_F64;
    um_kernel *k = make_kernel(false, &uses_subgroups);
    CHECK_OK(shim_lower(i, k, &lowered));
    um_kernel_release(k);
    return lowered;
}

static void collect_random(void)
{
    for (int32_t i = 0; i < SHIM_DEVICES; i++)
        for (int32_t n = 0; n < random_count; n++) {
            const shim_text *text;
            um_kernel *k = random_kernel(i, n);
            CHECK_OK(shim_text_of(k, shim_target(i), &text));
            um_kernel_release(k);
        }
}

static um_status by_shim(void *user, const um_kernel *k, const um_kernel_run *what)
{
    return shim_run(*(const int32_t *)user, k, what);
}

static void run_random(void)
{
    run_limit = 10000000;
    for (int32_t i = 0; i < SHIM_DEVICES; i++) {
        for (int32_t n = 0; n < random_count; n++) {
            output want, got;
            um_kernel *k = random_kernel(i, n);
            CHECK_OK(run(k, shim_subgroup(i), want));
            CHECK_OK(run_by(by_shim, &i, k, 0, got));
            CHECK_MSG(memcmp(want, got, sizeof want) == 0, "kernel %d for %s", (int)n,
                      um_target_name(shim_target(i)));
            um_kernel_release(k);
        }
        printf("     %-5s %d random kernels\n", um_target_name(shim_target(i)), (int)random_count);
    }
}

/* ---- what the fibers find ----------------------------------------------------------------------
 */

static shim_lane *self(void)
{
    char here;
    return (shim_lane *)((uintptr_t)(void *)&here / SHIM_STACK * SHIM_STACK);
}

static void some_leave(const shim_word *words)
{
    if (self()->index < words[0].bits) self()->wait(self(), SHIM_AT_BARRIER, 7);
}

static void two_barriers(const shim_word *words)
{
    self()->wait(self(), SHIM_AT_BARRIER, self()->index < words[0].bits ? 8 : 9);
}

static void part_of_subgroup(const shim_word *words)
{
    self()->wait(self(), self()->index < words[0].bits ? SHIM_AT_SUBGROUP : SHIM_AT_BARRIER, 5);
}

static const char *launch(shim_kernel kernel, uint32_t bits)
{
    shim_word word = {.bits = bits};
    return shim_launch(&(shim_launch_desc){.kernel = kernel,
                                           .words = &word,
                                           .group_size = {24, 2, 1},
                                           .group_count = {2, 1, 1},
                                           .subgroup_size = 32});
}

/* The good ones between show that a launch that failed leaves nothing behind. */
static void fibers_that_go_apart(void)
{
    const struct {
        shim_kernel kernel;
        uint32_t bits;
        const char *wrong;
    } rows[] = {
        {some_leave, 47, "(0,0,0): invocation 47 is at the end of line 0, invocation 0 is at the"},
        {some_leave, 48, NULL},
        {some_leave, 0, NULL},
        {two_barriers, 1, "invocation 1 is at the barrier of line 9, invocation 0 is at the"},
        {two_barriers, 48, NULL},
        {part_of_subgroup, 33, "invocation 33 is at the barrier of line 5, invocation 32 is at"},
        {part_of_subgroup, 48, NULL},
    };
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++) {
        const char *wrong = launch(rows[i].kernel, rows[i].bits);
        CHECK_MSG(!wrong == !rows[i].wrong, "row %zu: %s", i, wrong ? wrong : "nothing");
        if (wrong && rows[i].wrong) CHECK_MSG(strstr(wrong, rows[i].wrong), "%s", wrong);
    }
}

/* ---- all ---------------------------------------------------------------------------------------
 */

static void compile_texts(void)
{
    double begin = seconds();
    const char *folder = is_usual ? "shim_modules" : "shim_modules_other";
    mkdir(folder, 0777);
    CHECK_OK(shim_compile(folder));
    printf("     %d modules, %d of them compiled; %.1f s of processor time\n", shim_count.modules,
           shim_count.compiled, seconds() - begin);
}

static void run_cases(void)
{
    const int64_t wanted = is_usual ? 100 : 20;
    for (int32_t i = 0; i < SHIM_DEVICES; i++) {
        double begin = seconds();
        int64_t launches = shim_launches;
        um_check_options options = {
            .device = device[i], .pattern = pattern, .seed = 1, .on_case = on_case};
        um_check_result result;
        CHECK_OK(um_check_run(&options, &result));
        CHECK_MSG(result.failed == 0, "%lld failed", (long long)result.failed);
        CHECK(result.passed > wanted && shim_launches - launches > wanted);
        printf("     %-5s %lld passed, %lld failed, %lld skipped; %lld launches; %.1f s of "
               "processor time\n",
               um_target_name(shim_target(i)), (long long)result.passed, (long long)result.failed,
               (long long)result.skipped, (long long)(shim_launches - launches), seconds() - begin);
    }
}

int main(int argc, char **argv)
{
    is_usual = argc < 2;
    if (!is_usual) random_count = 400;
    if (argc > 1) pattern = strcmp(argv[1], "all") == 0 ? NULL : argv[1];
    if (!UM_SHIM_CXX[0]) {
        printf("skipped: no C++ compiler here\n");
        return 77;
    }
    shim_catch_crashes();
    um_registry_set_extra(shim_backends, SHIM_DEVICES);
    for (int32_t i = 0; i < SHIM_DEVICES; i++)
        CHECK_OK(um_open(shim_backends[i]->name, &device[i]));
    TEST(fibers_that_go_apart);
    TEST(collect_texts);
    TEST(collect_random);
    TEST(compile_texts);
    if (!um_test_failures) TEST(run_random);
    if (!um_test_failures) TEST(run_cases);
    for (int32_t i = 0; i < SHIM_DEVICES; i++) um_device_release(device[i]);
    shim_release();
    return TEST_RESULT();
}
