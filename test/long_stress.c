/* Everything at once, for a minute; see stress.h. Also to be run by hand under the thread
 * sanitizer: long_stress SECONDS. */
#include "test/stress.h"

static double seconds = 60;

static void test_stress(void) { run_stress(seconds, "cpu", "cpu+validate+record"); }

int main(int argc, char **argv)
{
    unsetenv("UMBEL_DEVICE");
    if (argc > 1) seconds = atof(argv[1]);
    TEST(test_stress);
    return TEST_RESULT();
}
