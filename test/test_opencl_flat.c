/* Generation on an OpenCL device for long: from one context to the next neither the driver's
 * handles nor our memory grow. Skipped where no driver is. A few short contexts; with an argument,
 * so many tokens in whole contexts. */
#include "base/base.h"
#include "test/cl_wrap.h"
#include "test/test.h"

#include <stdlib.h>
#include <umbel/umbel.h>
#include <unistd.h>

enum { SHORT = 24, FEW = 5 * SHORT, VOCABULARY = 512 };
#define MODEL (UM_SOURCE_DIR "/models/stories260K.bin")

typedef struct level {
    int64_t live[CL_WRAP_KINDS], blocks, resident_bytes;
} level;

static int64_t token_count = FEW;
static um_device *device;

static int64_t resident_bytes(void)
{
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%lld %lld", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static level level_now(void)
{
    level l = {.blocks = um_mem_live_count(), .resident_bytes = resident_bytes()};
    CHECK_OK(um_device_synchronize(device));
    for (int32_t kind = 0; kind < CL_WRAP_KINDS; kind++) l.live[kind] = cl_wrap.live[kind];
    return l;
}

/* What is most likely follows, from the beginning of a text; the same in each context. */
static int64_t run_context(um_llm *llm, int32_t length)
{
    static float logits[VOCABULARY];
    int32_t token = UM_TOKEN_BOS;
    int64_t sum = 0;
    for (int32_t position = 0; position < length; position++) {
        CHECK_OK(um_llm_eval(llm, 1, &token, position, logits));
        token = 0;
        for (int32_t i = 1; i < VOCABULARY; i++)
            if (logits[i] > logits[token]) token = i;
        sum = sum * 31 % 1000003 + token;
    }
    return sum;
}

static void check_level(const level *first, const level *now, int64_t context)
{
    for (int32_t kind = 0; kind < CL_WRAP_KINDS; kind++)
        CHECK_MSG(now->live[kind] == first->live[kind], "context %lld, kind %d: %lld, were %lld",
                  (long long)context, (int)kind, (long long)now->live[kind],
                  (long long)first->live[kind]);
    CHECK_MSG(now->blocks == first->blocks, "context %lld: %lld blocks, were %lld",
              (long long)context, (long long)now->blocks, (long long)first->blocks);
    CHECK_MSG(now->resident_bytes < first->resident_bytes + ((int64_t)8 << 20),
              "context %lld: %lld bytes, were %lld", (long long)context,
              (long long)now->resident_bytes, (long long)first->resident_bytes);
}

static void test_flat(void)
{
    um_llm *llm;
    um_llm_info info;
    CHECK_OK(um_llm_load(device, MODEL, &llm));
    um_llm_get_info(llm, &info);
    CHECK(info.vocab_size == VOCABULARY);
    int32_t length = token_count == FEW ? SHORT : info.context_length;
    int64_t contexts = token_count / length;
    int64_t text = run_context(llm, length); /* compiles, plans, allocates */
    level first = level_now(), now = first;
    for (int64_t context = 1; context < contexts; context++) {
        CHECK(run_context(llm, length) == text);
        now = level_now();
        check_level(&first, &now, context);
    }
    printf("     %lld contexts of %d tokens: %lld events made, %lld alive; %lld buffers, %lld "
           "kernels; %lld blocks; resident %.1f MiB, then %.1f\n",
           (long long)contexts, (int)length, (long long)cl_wrap.made[CL_WRAP_EVENT],
           (long long)now.live[CL_WRAP_EVENT], (long long)now.live[CL_WRAP_BUFFER],
           (long long)now.live[CL_WRAP_KERNEL], (long long)now.blocks,
           (double)first.resident_bytes / (1 << 20), (double)now.resident_bytes / (1 << 20));
    um_llm_release(llm);
}

static void test_all_is_given_back(void)
{
    um_device_release(device);
    for (int32_t kind = 0; kind < CL_WRAP_KINDS; kind++)
        CHECK_MSG(cl_wrap.live[kind] == 0 && cl_wrap.made[kind] > 0, "kind %d: %lld of %lld alive",
                  (int)kind, (long long)cl_wrap.live[kind], (long long)cl_wrap.made[kind]);
}

int main(int argc, char **argv)
{
    setenv("UMBEL_BACKENDS", "opencl,cpu", 1);
    setenv("UMBEL_STRICT", "1", 1);
    if (argc > 1) token_count = atoll(argv[1]);
    if (um_open("opencl:0", &device) != UM_OK) {
        printf("skipped: %s\n", um_last_error()->message);
        return 77;
    }
    TEST(test_flat);
    TEST(test_all_is_given_back);
    return TEST_RESULT();
}
