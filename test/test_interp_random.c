/* test/test_interp_random.c: kernels made at random. All of them verify. Half keep every rule:
 * these run, give the same however the work-group is cut into subgroups, and come back the same
 * from their text. The others reach anywhere and divide by anything: these fail as they may,
 * without a crash. */
#include "kernel_random.h"

static void kernels_that_keep_the_rules(void)
{
    for (int32_t n = 0; n < 120; n++) {
        output first, again;
        bool uses_subgroups;
        char *text = NULL;
        um_kernel *k = make_kernel(false, &uses_subgroups), *parsed = NULL;
        CHECK_OK(run(k, 8, first));
        for (uint32_t size = 1; size <= 128; size *= 4) {
            CHECK_OK(run(k, size, again));
            if (!uses_subgroups) CHECK_MSG(!memcmp(first, again, sizeof first), "kernel %d", n);
        }
        CHECK_OK(um_kernel_print(k, &text));
        CHECK_OK(um_kernel_parse(text ? text : "", &parsed));
        if (parsed) CHECK_OK(run(parsed, 8, again));
        CHECK_MSG(memcmp(first, again, sizeof first) == 0, "kernel %d", n);
        um_kernel_text_free(text);
        um_kernel_release(parsed);
        um_kernel_release(k);
    }
}

/* What the verifier says of uniform flow is true, so nobody is ever missing. */
static void kernels_that_break_them(void)
{
    int32_t ran = 0, failed = 0;
    for (int32_t n = 0; n < 120; n++) {
        output out;
        bool uses_subgroups;
        um_kernel *k = make_kernel(true, &uses_subgroups);
        um_status status = run(k, 1u << below(8), out);
        const char *message = um_last_error()->message;
        if (status == UM_OK) {
            ran++;
        } else {
            failed++;
            CHECK_MSG(status == UM_INVALID_ARGUMENT || status == UM_OUT_OF_RANGE ||
                          status == UM_TIMEOUT,
                      "%s", message);
            CHECK_MSG(strncmp(message, "kernel t: instruction ", 22) == 0, "%s", message);
            CHECK_MSG(!strstr(message, "not here"), "%s", message);
        }
        um_kernel_release(k);
    }
    CHECK_MSG(ran > 10 && failed > 20, "%d ran, %d failed", ran, failed);
}

int main(void)
{
    TEST(kernels_that_keep_the_rules);
    TEST(kernels_that_break_them);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
