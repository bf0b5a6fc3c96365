/* Everything at once, for two seconds; see stress.h. */
#include "test/stress.h"

static void test_stress(void)
{
    setenv("UMBEL_THREADS", "3", 1);
    run_stress(2, "cpu", "cpu+validate+record");
}

int main(void)
{
    unsetenv("UMBEL_DEVICE");
    TEST(test_stress);
    return TEST_RESULT();
}
