/* The language model as a whole: the published story, the same bits for any number of threads,
 * positions, damaged files, memory that fails. */
#include "base/base.h"
#include "test/test.h"

#include <math.h>
#include <stdlib.h>
#include <umbel/umbel.h>

#define MODEL     UM_SOURCE_DIR "/models/stories260K.bin"
#define TOKENIZER UM_SOURCE_DIR "/models/tok512.bin"
#define STORY     UM_SOURCE_DIR "/models/stories260K_greedy200.txt"
#define SCRATCH   "test_llm.tmp"

enum { VOCAB = 512, CONTEXT = 512, STEPS = 200 };

static um_device *device;
static um_llm *llm;

static void open_model(void)
{
    CHECK_OK(um_open("cpu", &device));
    CHECK_OK(um_llm_load(device, MODEL, &llm));
}

static void close_model(void)
{
    um_llm_release(llm);
    um_device_release(device);
    llm = NULL;
    device = NULL;
}

static int32_t find_largest(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static float largest_difference(const float *a, const float *b)
{
    float largest = 0;
    for (int32_t i = 0; i < VOCAB; i++) largest = fmaxf(largest, fabsf(a[i] - b[i]));
    return largest;
}

/* Greedy tokens after BOS, one at a time; returns a hash of the bits of all logits. */
static uint64_t tell_story(int32_t *tokens, int32_t steps)
{
    float logits[VOCAB];
    uint64_t hash = 0;
    tokens[0] = UM_TOKEN_BOS;
    for (int32_t i = 0; i < steps; i++) {
        CHECK_OK(um_llm_eval(llm, 1, &tokens[i], i, logits));
        hash = um_hash(logits, sizeof logits, hash);
        tokens[i + 1] = find_largest(logits);
    }
    return hash;
}

/* ---- results ------------------------------------------------------------------------------ */

static void test_info(void)
{
    um_llm_info info;
    um_llm_get_info(llm, &info);
    CHECK(info.dim == 64 && info.hidden_dim == 172 && info.layer_count == 5);
    CHECK(info.head_count == 8 && info.kv_head_count == 4 && info.vocab_size == VOCAB);
    CHECK(info.context_length == CONTEXT && info.tied_classifier);
    CHECK(info.parameter_count == 260032);
}

static void test_logits_after_bos(void)
{
    float logits[VOCAB];
    CHECK_OK(um_llm_eval(llm, 1, (const int32_t[]){UM_TOKEN_BOS}, 0, logits));
    CHECK(find_largest(logits) == 403);
    CHECK_MSG(fabsf(logits[403] - 17.0235152f) < 1e-5f, "%.7f", (double)logits[403]);
}

static void test_story(void)
{
    int32_t tokens[STEPS + 1];
    char wanted[1024] = {0}, got[1024] = {0};
    size_t size = 0;
    um_tokenizer *tokenizer;
    CHECK_OK(um_tokenizer_load(TOKENIZER, VOCAB, &tokenizer));
    tell_story(tokens, STEPS);
    for (int32_t i = 0; i < STEPS; i++) {
        const char *bytes;
        size_t length;
        CHECK_OK(um_tokenizer_decode(tokenizer, tokens[i], tokens[i + 1], &bytes, &length));
        memcpy(got + size, bytes, length);
        size += length;
    }
    got[size] = '\n';
    FILE *file = fopen(STORY, "rb");
    CHECK(file && fread(wanted, 1, sizeof wanted - 1, file) > 0);
    if (file) fclose(file);
    CHECK_MSG(strcmp(got, wanted) == 0, "%s", got);
    um_tokenizer_release(tokenizer);
}

/* Any split of the same tokens into calls gives the same logits but for rounding. */
static void test_batches(void)
{
    int32_t tokens[STEPS + 1];
    float steps[VOCAB], batch[VOCAB];
    tell_story(tokens, STEPS);
    for (int32_t count = 1; count <= 97; count += 12) {
        for (int32_t i = 0; i < count; i++)
            CHECK_OK(um_llm_eval(llm, 1, &tokens[i], i, i + 1 == count ? steps : NULL));
        CHECK_OK(um_llm_eval(llm, count, tokens, 0, batch));
        CHECK_MSG(largest_difference(steps, batch) < 1e-4f, "%d tokens", count);
        int32_t half = count / 2;
        if (half > 0) CHECK_OK(um_llm_eval(llm, half, tokens, 0, NULL));
        CHECK_OK(um_llm_eval(llm, count - half, tokens + half, half, batch));
        CHECK_MSG(largest_difference(steps, batch) < 1e-4f, "%d tokens in halves", count);
        CHECK(find_largest(batch) == tokens[count]);
    }
}

static void test_going_back(void)
{
    int32_t tokens[41];
    float first[VOCAB], again[VOCAB];
    tell_story(tokens, 40);
    CHECK_OK(um_llm_eval(llm, 1, &tokens[20], 20, first));
    CHECK_OK(um_llm_eval(llm, 1, (const int32_t[]){7}, 21, NULL));
    CHECK_OK(um_llm_eval(llm, 1, (const int32_t[]){9}, 5, NULL));
    CHECK_FAILS(um_llm_eval(llm, 1, tokens, 7, NULL), UM_INVALID_ARGUMENT, "wanted 0 to 6");
    for (int32_t i = 5; i <= 20; i++) CHECK_OK(um_llm_eval(llm, 1, &tokens[i], i, again));
    CHECK(memcmp(first, again, sizeof first) == 0);
}

static void test_whole_context(void)
{
    int32_t tokens[CONTEXT + 1];
    float all[VOCAB], last[VOCAB];
    for (int32_t i = 0; i <= CONTEXT; i++) tokens[i] = i == 0 ? UM_TOKEN_BOS : 259 + i % 250;
    CHECK_OK(um_llm_eval(llm, CONTEXT, tokens, 0, all));
    CHECK_OK(um_llm_eval(llm, CONTEXT - 1, tokens, 0, NULL));
    CHECK_OK(um_llm_eval(llm, 1, &tokens[CONTEXT - 1], CONTEXT - 1, last));
    CHECK(largest_difference(all, last) < 1e-3f);
    CHECK_FAILS(um_llm_eval(llm, 1, tokens, CONTEXT, last), UM_OUT_OF_RANGE, "at most 512");
    CHECK_FAILS(um_llm_eval(llm, CONTEXT + 1, tokens, 0, last), UM_OUT_OF_RANGE, "513 tokens");
}

static void test_wrong_arguments(void)
{
    float logits[VOCAB];
    const int32_t bos = UM_TOKEN_BOS, below = -1, above = VOCAB;
    um_llm *none;
    CHECK_OK(um_llm_eval(llm, 1, &bos, 0, NULL));
    CHECK_FAILS(um_llm_eval(llm, 0, &bos, 0, logits), UM_INVALID_ARGUMENT, "got 0 tokens");
    CHECK_FAILS(um_llm_eval(llm, -3, &bos, 0, logits), UM_INVALID_ARGUMENT, "got -3 tokens");
    CHECK_FAILS(um_llm_eval(llm, 1, NULL, 0, logits), UM_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(um_llm_eval(llm, 1, &bos, -1, logits), UM_INVALID_ARGUMENT, "position is -1");
    CHECK_FAILS(um_llm_eval(llm, 1, &bos, 2, logits), UM_INVALID_ARGUMENT, "wanted 0 to 1");
    CHECK_FAILS(um_llm_eval(llm, INT32_MAX, &bos, 1, logits), UM_OUT_OF_RANGE, "at most 512");
    CHECK_FAILS(um_llm_eval(llm, 1, &below, 1, logits), UM_OUT_OF_RANGE, "token 0 is -1");
    CHECK_FAILS(um_llm_eval(llm, 1, &above, 1, logits), UM_OUT_OF_RANGE, "wanted 0 to 511");
    CHECK_OK(um_llm_eval(llm, 1, &bos, 1, NULL)); /* none of them moved the position */
    CHECK_FAILS(um_llm_load(NULL, MODEL, &none), UM_INVALID_ARGUMENT, "device is NULL");
    CHECK(none == NULL);
    CHECK_FAILS(um_llm_load(device, MODEL, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(um_llm_eval(NULL, 1, &bos, 0, logits), UM_INVALID_ARGUMENT, "llm is NULL");
    um_llm_info info = {.dim = 1};
    um_llm_get_info(NULL, &info);
    CHECK(info.dim == 0);
    um_llm_get_info(llm, NULL);
    um_llm_release(NULL);
}

/* ---- files -------------------------------------------------------------------------------- */

/* Remembers the largest block anybody asked for. */
static size_t largest_bytes;

static void *measuring_alloc(void *user, size_t size_bytes, size_t align_bytes)
{
    (void)user;
    largest_bytes = UM_MAX(largest_bytes, size_bytes);
    void *ptr = NULL;
    size_t align = UM_MAX(align_bytes, sizeof(void *));
    return posix_memalign(&ptr, align, size_bytes) == 0 ? ptr : NULL;
}

static void measuring_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static void check_load_fails(um_status code, const char *path)
{
    um_llm *none;
    largest_bytes = 0;
    CHECK_FAILS(um_llm_load(device, path, &none), code, path);
    CHECK(none == NULL);
    CHECK_MSG(largest_bytes < 65536, "asked for %zu bytes", largest_bytes);
}

static void write_scratch(const void *data, size_t size)
{
    FILE *file = fopen(SCRATCH, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size);
    if (file) fclose(file);
}

/* With no model open. */
static void test_damaged_files(void)
{
    const int32_t huge[7] = {1 << 16, 1 << 18, 1 << 10, 1 << 12, 1 << 12, 1 << 20, 1 << 20};
    const um_allocator measuring = {NULL, measuring_alloc, measuring_free};
    CHECK_OK(um_set_allocator(&measuring));
    CHECK_OK(um_open("cpu", &device));
    check_load_fails(UM_NOT_FOUND, "no/such/model");
    check_load_fails(UM_IO_ERROR, "/");
    check_load_fails(UM_CORRUPT_DATA, TOKENIZER);
    check_load_fails(UM_CORRUPT_DATA, STORY);
    write_scratch("", 0);
    check_load_fails(UM_CORRUPT_DATA, SCRATCH);
    write_scratch(huge, sizeof huge);
    check_load_fails(UM_CORRUPT_DATA, SCRATCH);
    um_device_release(device);
    device = NULL;
    CHECK_OK(um_set_allocator(NULL));
    remove(SCRATCH);
}

/* The smallest model there can be, with a classifier of its own and weights that are NaN. */
static void test_tiny_model(void)
{
    const int32_t header[7] = {2, 1, 1, 1, 1, -3, 1};
    const int32_t bos = UM_TOKEN_BOS;
    uint8_t bytes[28 + 4 * 42];
    float logits[3] = {0};
    um_llm *tiny;
    memset(bytes, 0xFF, sizeof bytes);
    memcpy(bytes, header, sizeof header);
    write_scratch(bytes, sizeof bytes);
    CHECK_OK(um_llm_load(device, SCRATCH, &tiny));
    if (tiny) {
        CHECK_OK(um_llm_eval(tiny, 1, &bos, 0, logits));
        CHECK(isnan(logits[0]) && isnan(logits[1]) && isnan(logits[2]));
    }
    um_llm_release(tiny);
    remove(SCRATCH);
}

/* ---- threads ------------------------------------------------------------------------------ */

static void test_threads(void)
{
    uint64_t hash[3];
    int32_t tokens[STEPS + 1];
    float batch[3][VOCAB];
    for (int32_t i = 0; i < 3; i++) {
        char text[2] = {(char)('1' + i), 0};
        setenv("UMBEL_THREADS", text, 1);
        open_model();
        hash[i] = tell_story(tokens, STEPS);
        CHECK_OK(um_llm_eval(llm, STEPS, tokens, 0, batch[i]));
        close_model();
    }
    unsetenv("UMBEL_THREADS");
    CHECK(hash[0] == hash[1] && hash[0] == hash[2]);
    CHECK(memcmp(batch[0], batch[1], sizeof batch[0]) == 0);
    CHECK(memcmp(batch[0], batch[2], sizeof batch[0]) == 0);
}

/* ---- memory ------------------------------------------------------------------------------- */

static um_status use_model(um_device *on)
{
    um_llm *model = NULL;
    um_tokenizer *tokenizer = NULL;
    um_sampler *sampler = NULL;
    float logits[VOCAB];
    int32_t tokens[8], count = 8, next = 0;
    um_sampler_desc desc = {.vocab_size = VOCAB, .temperature = 1, .top_k = 40, .top_p = 0.9f};
    um_status status = um_llm_load(on, MODEL, &model);
    if (status == UM_OK) status = um_tokenizer_load(TOKENIZER, VOCAB, &tokenizer);
    if (status == UM_OK) status = um_sampler_create(&desc, &sampler);
    if (status == UM_OK) status = um_tokenizer_encode(tokenizer, "Once upon", &count, tokens);
    if (status == UM_OK) status = um_llm_eval(model, count, tokens, 0, logits);
    for (int32_t i = 0; i < 2 && status == UM_OK; i++) {
        status = um_sampler_next(sampler, logits, &next);
        if (status == UM_OK) status = um_llm_eval(model, 1, &next, count + i, logits);
    }
    um_sampler_release(sampler);
    um_tokenizer_release(tokenizer);
    um_llm_release(model);
    return status;
}

static um_status use_everything(void)
{
    um_device *own = NULL;
    um_status status = um_open("cpu", &own);
    if (status == UM_OK) status = use_model(own);
    um_device_release(own);
    return status;
}

/* A failed call may be made good: device memory is asked for again once the pool is given back. */
static bool is_expected(um_status status, bool failed)
{
    return status == UM_OK || (failed && status == UM_OUT_OF_MEMORY);
}

static void test_failing_memory(void)
{
    CHECK_OK(use_everything());
    int64_t live = um_mem_live_count();
    for (int forever = 0; forever < 2; forever++) {
        int refused = 0;
        for (int64_t n = 1;; n += forever ? 1 + n / 16 : 1) {
            um_mem_fail_at(n, forever != 0);
            um_status status = use_everything();
            bool failed = um_mem_failed();
            um_mem_fail_at(0, false);
            CHECK_MSG(um_mem_live_count() == live, "call %lld", (long long)n);
            CHECK_MSG(is_expected(status, failed), "call %lld: %s", (long long)n,
                      um_status_name(status));
            refused += status == UM_OUT_OF_MEMORY;
            if (!failed) break;
        }
        CHECK_MSG(refused > 20, "%d calls failed", refused);
    }
    CHECK_OK(use_everything());
}

/* A call that fails at any of its allocations leaves the model as it was. */
static void test_failing_eval(void)
{
    int32_t tokens[41];
    float wanted[VOCAB], got[VOCAB];
    tell_story(tokens, 40);
    CHECK_OK(um_llm_eval(llm, 1, &tokens[9], 9, NULL));
    CHECK_OK(um_llm_eval(llm, 1, &tokens[10], 10, wanted));
    for (int64_t n = 1;; n++) {
        um_mem_fail_at(n, false);
        um_status status = um_llm_eval(llm, 1, &tokens[10], 10, got);
        bool failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK_MSG(is_expected(status, failed), "call %lld: %s", (long long)n,
                  um_status_name(status));
        if (!failed) break;
        CHECK_OK(um_llm_eval(llm, 1, &tokens[10], 10, got));
        CHECK(largest_difference(wanted, got) < 1e-4f);
    }
}

int main(void)
{
    TEST(test_damaged_files);
    TEST(test_threads);
    open_model();
    if (llm) {
        TEST(test_info);
        TEST(test_logits_after_bos);
        TEST(test_story);
        TEST(test_batches);
        TEST(test_going_back);
        TEST(test_whole_context);
        TEST(test_wrong_arguments);
        TEST(test_tiny_model);
        TEST(test_failing_eval);
    }
    close_model();
    TEST(test_failing_memory);
    return TEST_RESULT();
}
