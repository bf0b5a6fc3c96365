/* The parts of the language model that need no device: checkpoint reader, tokenizer, sampler. */
#include "base/philox.h"
#include "llm/checkpoint.h"
#include "test/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL      UM_SOURCE_DIR "/models/stories260K.bin"
#define TOKENIZER  UM_SOURCE_DIR "/models/tok512.bin"
#define SCRATCH    "test_llm_text.tmp"
#define VOCAB_SIZE 512

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t n)
{
    return (uint32_t)(um_philox_uniform(7, random_state++) * n);
}

static void write_file(const void *data, size_t size)
{
    FILE *file = fopen(SCRATCH, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size);
    if (file) fclose(file);
}

/* ---- philox ------------------------------------------------------------------------------- */

static void test_philox_known_answers(void)
{
    const struct {
        uint64_t key;
        um_philox_words counter, wanted;
    } cases[] = {
        {0, {{0, 0, 0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {UINT64_MAX,
         {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {0x299f31d0a4093822,
         {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < UM_COUNT_OF(cases); i++) {
        um_philox_words got = um_philox(cases[i].key, cases[i].counter);
        CHECK_MSG(memcmp(&got, &cases[i].wanted, sizeof got) == 0, "case %zu", i);
    }
}

/* ---- checkpoint --------------------------------------------------------------------------- */

static uint8_t *model_bytes;
static size_t model_size;

static um_status open_scratch(um_checkpoint *checkpoint)
{
    um_status status = um_checkpoint_open(SCRATCH, checkpoint);
    um_checkpoint_close(checkpoint);
    return status;
}

static void test_checkpoint_reads(void)
{
    um_checkpoint c;
    CHECK_OK(um_checkpoint_open(MODEL, &c));
    um_llm_info info = c.info;
    CHECK(info.dim == 64 && info.hidden_dim == 172 && info.layer_count == 5);
    CHECK(info.head_count == 8 && info.kv_head_count == 4 && info.vocab_size == VOCAB_SIZE);
    CHECK(info.context_length == 512 && info.tied_classifier && c.classifier == c.embedding);
    CHECK_MSG(info.parameter_count == 260032, "%lld", (long long)info.parameter_count);
    CHECK((const uint8_t *)(c.norm_final + info.dim + 512 * 8) == c.file.data + c.file.size_bytes);
    um_checkpoint_close(&c);
    um_checkpoint_close(&c);
}

static void test_checkpoint_other_size(void)
{
    um_checkpoint c;
    const size_t sizes[] = {0, 1, 4, 27, 28, 29, 1000, 131100, 132380, 1056536, 1056539};
    for (size_t i = 0; i < UM_COUNT_OF(sizes); i++) {
        write_file(model_bytes, sizes[i]);
        CHECK_FAILS(open_scratch(&c), UM_CORRUPT_DATA, "wanted");
    }
    write_file(model_bytes, model_size + 1);
    CHECK_FAILS(open_scratch(&c), UM_CORRUPT_DATA, "got 1056541 bytes, wanted 1056540");
    CHECK_FAILS(um_checkpoint_open("no/such/file", &c), UM_NOT_FOUND, "no/such/file");
    CHECK_FAILS(um_checkpoint_open("/", &c), UM_IO_ERROR, "/");
    CHECK_FAILS(um_checkpoint_open(NULL, &c), UM_INVALID_ARGUMENT, "NULL");
}

static void check_header_field(int field, int32_t value, const char *text)
{
    um_checkpoint c;
    uint8_t *damaged = malloc(model_size);
    memcpy(damaged, model_bytes, model_size);
    memcpy(damaged + 4 * field, &value, 4);
    write_file(damaged, model_size);
    CHECK_FAILS(open_scratch(&c), UM_CORRUPT_DATA, text);
    free(damaged);
}

static void test_checkpoint_header_fields(void)
{
    for (int field = 0; field < 7; field++) {
        check_header_field(field, 0, "is 0, wanted 1 to");
        check_header_field(field, INT32_MAX, "wanted 1 to");
        check_header_field(field, INT32_MIN, "wanted 1 to");
        if (field != 5) check_header_field(field, -1, "is -1, wanted 1 to");
    }
    check_header_field(5, -512, "wanted 1187612 by its header"); /* a classifier of its own */
    check_header_field(3, 7, "wanted an even size a head");
    check_header_field(3, 64, "wanted an even size a head");
    check_header_field(4, 3, "wanted a multiple");
    check_header_field(4, 16, "wanted a multiple");
    check_header_field(0, 1 << 16, "by its header");
}

/* Random bits of the header flipped: refused, or a file of exactly this size by luck. */
static void test_checkpoint_header_bits(void)
{
    um_checkpoint c;
    write_file(model_bytes, model_size);
    FILE *file = fopen(SCRATCH, "r+b");
    CHECK(file != NULL);
    for (int round = 0; file && round < 10000; round++) {
        uint8_t header[28];
        memcpy(header, model_bytes, sizeof header);
        for (uint32_t flips = 1 + random_below(6); flips-- > 0;)
            header[random_below(28)] ^= (uint8_t)(1u << random_below(8));
        rewind(file);
        CHECK(fwrite(header, 1, sizeof header, file) == sizeof header && fflush(file) == 0);
        um_status status = open_scratch(&c);
        CHECK(status == UM_CORRUPT_DATA || status == UM_OK);
    }
    if (file) fclose(file);
}

/* ---- tokenizer ---------------------------------------------------------------------------- */

static um_tokenizer *load_tokenizer(void)
{
    um_tokenizer *tokenizer;
    CHECK_OK(um_tokenizer_load(TOKENIZER, VOCAB_SIZE, &tokenizer));
    return tokenizer;
}

static void check_encoding(um_tokenizer *tokenizer, const char *text, int32_t wanted_count,
                           const int32_t *wanted)
{
    int32_t tokens[64], count = 64;
    CHECK_OK(um_tokenizer_encode(tokenizer, text, &count, tokens));
    CHECK_MSG(count == wanted_count, "'%s' makes %d tokens", text, count);
    CHECK_MSG(memcmp(tokens, wanted, (size_t)wanted_count * sizeof *wanted) == 0, "'%s'", text);
}

static void test_encode_known(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    check_encoding(tokenizer, "", 1, (const int32_t[]){1});
    check_encoding(tokenizer, "Once upon", 3, (const int32_t[]){1, 403, 407});
    check_encoding(tokenizer, "\xFF", 3, (const int32_t[]){1, 410, 0xFF + 3});
    check_encoding(tokenizer, "\n", 3, (const int32_t[]){1, 410, '\n' + 3});
    check_encoding(tokenizer, "\xF0\x9F\x8C\xBC", 6,
                   (const int32_t[]){1, 410, 0xF0 + 3, 0x9F + 3, 0x8C + 3, 0xBC + 3});
    um_tokenizer_release(tokenizer);
}

static void test_encode_room(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    int32_t tokens[3] = {-7, -7, -7}, count = 2;
    CHECK_FAILS(um_tokenizer_encode(tokenizer, "Once upon", &count, tokens), UM_OUT_OF_RANGE,
                "makes 3 tokens, wanted at most 2");
    CHECK(count == 3 && tokens[0] == 1 && tokens[1] == 403 && tokens[2] == -7);
    count = 0;
    CHECK_FAILS(um_tokenizer_encode(tokenizer, "Once", &count, NULL), UM_OUT_OF_RANGE, "2 tokens");
    CHECK(count == 2);
    const char *bytes;
    size_t size;
    CHECK_FAILS(um_tokenizer_encode(NULL, "", &count, tokens), UM_INVALID_ARGUMENT, "tokenizer is");
    CHECK_FAILS(um_tokenizer_encode(tokenizer, NULL, &count, tokens), UM_INVALID_ARGUMENT, "text");
    CHECK_FAILS(um_tokenizer_encode(tokenizer, "", NULL, tokens), UM_INVALID_ARGUMENT, "count");
    CHECK_FAILS(um_tokenizer_encode(tokenizer, "", &count, NULL), UM_INVALID_ARGUMENT, "tokens is");
    CHECK_FAILS(um_tokenizer_decode(NULL, 1, 5, &bytes, &size), UM_INVALID_ARGUMENT,
                "tokenizer is");
    CHECK_FAILS(um_tokenizer_decode(tokenizer, 1, 5, NULL, &size), UM_INVALID_ARGUMENT, "bytes is");
    CHECK_FAILS(um_tokenizer_decode(tokenizer, 1, 5, &bytes, NULL), UM_INVALID_ARGUMENT, "size_");
    CHECK_FAILS(um_tokenizer_load(TOKENIZER, VOCAB_SIZE, NULL), UM_INVALID_ARGUMENT, "out is NULL");
    um_tokenizer_release(tokenizer);
}

/* The bytes of all tokens after BOS, without the blank that encode puts in front. */
static size_t decode_all(const um_tokenizer *tokenizer, int32_t count, const int32_t *tokens,
                         char *text)
{
    size_t size = 0;
    for (int32_t i = 1; i < count; i++) {
        const char *bytes;
        size_t size_bytes;
        CHECK_OK(um_tokenizer_decode(tokenizer, tokens[i - 1], tokens[i], &bytes, &size_bytes));
        memcpy(text + size, bytes, size_bytes);
        size += size_bytes;
    }
    return size;
}

static void check_round_trip(um_tokenizer *tokenizer, const char *text)
{
    size_t size = strlen(text);
    int32_t count = (int32_t)size + 2;
    int32_t *tokens = malloc((size_t)count * sizeof *tokens);
    char *decoded = malloc(8 * size + 8);
    CHECK_OK(um_tokenizer_encode(tokenizer, text, &count, tokens));
    CHECK(decode_all(tokenizer, count, tokens, decoded) == size);
    CHECK_MSG(memcmp(decoded, text, size) == 0, "'%.60s'", text);
    free(tokens);
    free(decoded);
}

static void fill_random_text(char *text, uint32_t size, uint32_t style)
{
    static const char letters[] = "aeiou tthh  sndrlm.,!\n";
    for (uint32_t i = 0; i < size; i++)
        text[i] = style == 0 ? letters[random_below(sizeof letters - 1)]
                             : (char)(1 + random_below(style == 1 ? 127 : 255));
    text[size] = 0;
}

static void test_encode_round_trips(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    static const char *const texts[] = {
        "Once upon a time, there was a little girl named Lily.",
        " two  blanks ",
        "na\xC3\xAFve caf\xC3\xA9 \xE2\x84\xA2 \xF0\x9F\x8C\xBC",
        "cut \xE2\x84",
        "\x80\x80\x80\x80\x80\x80 only continuations",
        "\xFE\xFF\xC0\xC0",
        "<0x41> is text here <s> </s> <unk>",
    };
    for (size_t i = 0; i < UM_COUNT_OF(texts); i++) check_round_trip(tokenizer, texts[i]);
    char text[301];
    for (uint32_t round = 0; round < 600; round++) {
        fill_random_text(text, random_below(300), round % 3);
        check_round_trip(tokenizer, text);
    }
    um_tokenizer_release(tokenizer);
}

/* The oracle: every pair looked at again for every merge, from the file's bytes. */
typedef struct oracle {
    const uint8_t *piece[VOCAB_SIZE];
    int32_t length[VOCAB_SIZE];
    float score[VOCAB_SIZE];
} oracle;

static void load_oracle(const uint8_t *file, oracle *o)
{
    const uint8_t *at = file + 4;
    for (int32_t token = 0; token < VOCAB_SIZE; token++) {
        memcpy(&o->score[token], at, 4);
        memcpy(&o->length[token], at + 4, 4);
        o->piece[token] = at + 8;
        at += 8 + o->length[token];
    }
}

static int32_t oracle_find(const oracle *o, const uint8_t *bytes, int32_t length)
{
    for (int32_t token = 0; token < VOCAB_SIZE; token++)
        if (o->length[token] == length && memcmp(o->piece[token], bytes, (size_t)length) == 0)
            return token;
    return -1;
}

static int32_t oracle_find_pair(const oracle *o, int32_t a, int32_t b)
{
    uint8_t pair[64];
    memcpy(pair, o->piece[a], (size_t)o->length[a]);
    memcpy(pair + o->length[a], o->piece[b], (size_t)o->length[b]);
    return oracle_find(o, pair, o->length[a] + o->length[b]);
}

static int32_t oracle_merge(const oracle *o, int32_t *tokens, int32_t count)
{
    for (;;) {
        int32_t best = -1, merged = -1;
        for (int32_t i = 1; i + 1 < count; i++) {
            int32_t pair = oracle_find_pair(o, tokens[i], tokens[i + 1]);
            if (pair >= 0 && (best < 0 || o->score[pair] > o->score[merged])) {
                best = i;
                merged = pair;
            }
        }
        if (best < 0) return count;
        tokens[best] = merged;
        for (int32_t i = best + 1; i + 1 < count; i++) tokens[i] = tokens[i + 1];
        count--;
    }
}

/* ASCII text only. */
static int32_t oracle_encode(const oracle *o, const char *text, int32_t *tokens)
{
    int32_t count = 0;
    tokens[count++] = UM_TOKEN_BOS;
    if (*text) tokens[count++] = oracle_find(o, (const uint8_t *)" ", 1);
    for (; *text; text++) {
        int32_t token = oracle_find(o, (const uint8_t *)text, 1);
        tokens[count++] = token >= 0 ? token : (uint8_t)*text + 3;
    }
    return oracle_merge(o, tokens, count);
}

static void test_encode_against_oracle(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    um_file file;
    CHECK_OK(um_file_open(TOKENIZER, &file));
    oracle o;
    load_oracle(file.data, &o);
    char text[61];
    int32_t wanted[64], got[64];
    for (uint32_t round = 0; round < 300; round++) {
        fill_random_text(text, random_below(60), round % 2);
        int32_t wanted_count = oracle_encode(&o, text, wanted), count = 64;
        CHECK_OK(um_tokenizer_encode(tokenizer, text, &count, got));
        CHECK_MSG(count == wanted_count && memcmp(got, wanted, (size_t)count * sizeof *got) == 0,
                  "'%s'", text);
    }
    um_file_close(&file);
    um_tokenizer_release(tokenizer);
}

static void test_encode_long_text(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    enum { SIZE = 400000 };
    char *text = malloc(SIZE + 1);
    fill_random_text(text, SIZE, 0);
    int64_t start = um_os_now_ns();
    check_round_trip(tokenizer, text);
    CHECK_MSG(um_os_now_ns() - start < INT64_C(5000000000), "more than 5 s for 400 KB");
    free(text);
    um_tokenizer_release(tokenizer);
}

static void test_decode(void)
{
    um_tokenizer *tokenizer = load_tokenizer();
    const char *bytes;
    size_t size;
    CHECK_OK(um_tokenizer_decode(tokenizer, 5, 403, &bytes, &size));
    CHECK(size == 5 && memcmp(bytes, " Once", 5) == 0);
    CHECK_OK(um_tokenizer_decode(tokenizer, UM_TOKEN_BOS, 403, &bytes, &size));
    CHECK(size == 4 && memcmp(bytes, "Once", 4) == 0);
    for (int32_t byte = 0; byte < 256; byte++) {
        CHECK_OK(um_tokenizer_decode(tokenizer, UM_TOKEN_BOS, byte + 3, &bytes, &size));
        CHECK(size == 1 && (uint8_t)bytes[0] == byte);
    }
    CHECK_FAILS(um_tokenizer_decode(tokenizer, 1, -1, &bytes, &size), UM_OUT_OF_RANGE, "token -1");
    CHECK_FAILS(um_tokenizer_decode(tokenizer, 1, 512, &bytes, &size), UM_OUT_OF_RANGE, "to 511");
    CHECK(size == 0);
    um_tokenizer_release(tokenizer);
}

static void test_tokenizer_damaged(void)
{
    um_tokenizer *tokenizer;
    um_file file;
    CHECK_OK(um_file_open(TOKENIZER, &file));
    size_t size = (size_t)file.size_bytes;
    uint8_t *bytes = calloc(1, size + 1);
    memcpy(bytes, file.data, size);
    um_file_close(&file);
    CHECK_FAILS(um_tokenizer_load(TOKENIZER, 511, &tokenizer), UM_CORRUPT_DATA, "after token 510");
    CHECK_FAILS(um_tokenizer_load(TOKENIZER, 513, &tokenizer), UM_CORRUPT_DATA, "after 512 tokens");
    CHECK_FAILS(um_tokenizer_load(TOKENIZER, INT32_MAX, &tokenizer), UM_CORRUPT_DATA, "6227 bytes");
    CHECK_FAILS(um_tokenizer_load(TOKENIZER, 0, &tokenizer), UM_INVALID_ARGUMENT, "vocab_size 0");
    CHECK_FAILS(um_tokenizer_load(MODEL, 512, &tokenizer), UM_CORRUPT_DATA, "tokenizer");
    CHECK_FAILS(um_tokenizer_load("/", 512, &tokenizer), UM_IO_ERROR, "/");
    CHECK_FAILS(um_tokenizer_load("no/such", 512, &tokenizer), UM_NOT_FOUND, "no/such");
    for (size_t cut = 0; cut < size; cut += cut < 300 || cut > size - 40 ? 1 : 37) {
        write_file(bytes, cut);
        CHECK_FAILS(um_tokenizer_load(SCRATCH, 512, &tokenizer), UM_CORRUPT_DATA, "tokenizer");
    }
    write_file(bytes, size + 1);
    CHECK_FAILS(um_tokenizer_load(SCRATCH, 512, &tokenizer), UM_CORRUPT_DATA, "got 1 bytes after");
    for (int round = 0; round < 2000; round++) {
        size_t at = random_below((uint32_t)size);
        uint8_t kept = bytes[at];
        bytes[at] = (uint8_t)random_below(256);
        write_file(bytes, size);
        if (um_tokenizer_load(SCRATCH, 512, &tokenizer) == UM_OK) {
            check_round_trip(tokenizer, "a");
            um_tokenizer_release(tokenizer);
        }
        bytes[at] = kept;
    }
    free(bytes);
}

/* ---- sampler ------------------------------------------------------------------------------ */

static int32_t sample(um_sampler_desc desc, const float *logits)
{
    um_sampler *sampler;
    int32_t token = -1;
    CHECK_OK(um_sampler_create(&desc, &sampler));
    CHECK_OK(um_sampler_next(sampler, logits, &token));
    um_sampler_release(sampler);
    return token;
}

/* counts[token] over `rounds` choices. */
static void count_choices(um_sampler_desc desc, const float *logits, int32_t rounds,
                          int32_t *counts)
{
    um_sampler *sampler;
    memset(counts, 0, (size_t)desc.vocab_size * sizeof *counts);
    CHECK_OK(um_sampler_create(&desc, &sampler));
    for (int32_t i = 0; i < rounds; i++) {
        int32_t token = -1;
        CHECK_OK(um_sampler_next(sampler, logits, &token));
        CHECK(token >= 0 && token < desc.vocab_size);
        if (token >= 0 && token < desc.vocab_size) counts[token]++;
    }
    um_sampler_release(sampler);
}

static void test_sampler_greedy(void)
{
    const float logits[] = {1, 5, 5, -INFINITY, 2};
    CHECK(sample((um_sampler_desc){.vocab_size = 5}, logits) == 1);
    for (uint64_t seed = 0; seed < 50; seed++) {
        um_sampler_desc desc = {.vocab_size = 5, .temperature = 3, .top_k = 1, .seed = seed};
        CHECK(sample(desc, logits) == 1);
        desc = (um_sampler_desc){.vocab_size = 5, .temperature = 1, .top_p = 1e-6f, .seed = seed};
        CHECK(sample(desc, logits) == 1);
        desc = (um_sampler_desc){.vocab_size = 1, .temperature = 1, .seed = seed};
        CHECK(sample(desc, logits) == 0);
    }
}

static void test_sampler_frequencies(void)
{
    enum { ROUNDS = 20000 };
    const float logits[] = {logf(0.125f), logf(0.5f), logf(0.125f), logf(0.25f)};
    int32_t counts[4];
    count_choices((um_sampler_desc){.vocab_size = 4, .temperature = 1}, logits, ROUNDS, counts);
    CHECK(abs(counts[1] - ROUNDS / 2) < 400 && abs(counts[3] - ROUNDS / 4) < 400);
    CHECK(abs(counts[0] - ROUNDS / 8) < 400 && abs(counts[2] - ROUNDS / 8) < 400);
    count_choices((um_sampler_desc){.vocab_size = 4, .temperature = 1, .top_k = 2}, logits, ROUNDS,
                  counts);
    CHECK(counts[0] == 0 && counts[2] == 0 && abs(counts[1] - ROUNDS * 2 / 3) < 400);
    count_choices((um_sampler_desc){.vocab_size = 4, .temperature = 1, .top_p = 0.8f}, logits,
                  ROUNDS, counts); /* 0.5 + 0.25 fall short: the lower of the equals comes in */
    CHECK(counts[2] == 0 && abs(counts[1] - ROUNDS * 4 / 7) < 400 && counts[0] > 0);
    count_choices((um_sampler_desc){.vocab_size = 4, .temperature = 1, .top_k = 2, .top_p = 0.6f},
                  logits, ROUNDS, counts); /* 2/3 of the two */
    CHECK(counts[1] == ROUNDS);
    count_choices((um_sampler_desc){.vocab_size = 4, .temperature = 0.5f}, logits, ROUNDS, counts);
    CHECK(abs(counts[1] - ROUNDS * 8 / 11) < 400); /* squares: 16 : 4 : 1 : 1 of 22 */
}

static void test_sampler_extremes(void)
{
    const float infinite[] = {0, INFINITY, -INFINITY, INFINITY}, lowest[] = {-INFINITY, -INFINITY};
    const float wide[] = {-3e38f, 3e38f, 0};
    int32_t counts[4];
    um_sampler_desc desc = {.vocab_size = 4, .temperature = 1, .top_p = 0.9f};
    count_choices(desc, infinite, 200, counts);
    CHECK(counts[0] == 0 && counts[2] == 0 && counts[1] > 0 && counts[3] > 0);
    count_choices((um_sampler_desc){.vocab_size = 2, .temperature = 1}, lowest, 200, counts);
    CHECK(counts[0] > 0 && counts[1] > 0);
    count_choices((um_sampler_desc){.vocab_size = 3, .temperature = 1e-38f}, wide, 20, counts);
    CHECK(counts[1] == 20);
    count_choices((um_sampler_desc){.vocab_size = 3, .temperature = 3e38f, .top_k = 9}, wide, 200,
                  counts);
    CHECK(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
}

static void test_sampler_seed(void)
{
    float logits[100];
    for (int i = 0; i < 100; i++) logits[i] = (float)random_below(1000) / 250;
    int32_t a[100], b[100], c[100];
    um_sampler_desc desc = {.vocab_size = 100, .temperature = 1, .top_p = 0.9f, .seed = 42};
    count_choices(desc, logits, 50, a);
    count_choices(desc, logits, 50, b);
    desc.seed = UINT64_C(42) << 32;
    count_choices(desc, logits, 50, c);
    CHECK(memcmp(a, b, sizeof a) == 0 && memcmp(a, c, sizeof a) != 0);
}

static void check_refused(um_sampler_desc desc, const char *text)
{
    um_sampler *sampler;
    CHECK_FAILS(um_sampler_create(&desc, &sampler), UM_INVALID_ARGUMENT, text);
    CHECK(sampler == NULL);
}

static void test_sampler_refuses(void)
{
    um_sampler *sampler;
    check_refused((um_sampler_desc){.vocab_size = 0}, "vocab_size is 0");
    check_refused((um_sampler_desc){.vocab_size = 4, .temperature = -1}, "temperature is -1");
    check_refused((um_sampler_desc){.vocab_size = 4, .temperature = NAN}, "temperature");
    check_refused((um_sampler_desc){.vocab_size = 4, .temperature = INFINITY}, "temperature");
    check_refused((um_sampler_desc){.vocab_size = 4, .top_k = -1}, "top_k is -1");
    check_refused((um_sampler_desc){.vocab_size = 4, .top_p = 1.5f}, "top_p is 1.5");
    check_refused((um_sampler_desc){.vocab_size = 4, .top_p = NAN}, "top_p");
    CHECK_FAILS(um_sampler_create(NULL, &sampler), UM_INVALID_ARGUMENT, "NULL");
    const float logits[] = {1, 2, NAN, 3};
    int32_t token = -1;
    CHECK_OK(um_sampler_create(&(um_sampler_desc){.vocab_size = 4}, &sampler));
    CHECK_FAILS(um_sampler_next(sampler, logits, &token), UM_INVALID_ARGUMENT, "logit 2 of 4");
    CHECK_FAILS(um_sampler_next(sampler, NULL, &token), UM_INVALID_ARGUMENT, "logits is NULL");
    CHECK_FAILS(um_sampler_next(sampler, logits, NULL), UM_INVALID_ARGUMENT, "token is NULL");
    CHECK_FAILS(um_sampler_next(NULL, logits, &token), UM_INVALID_ARGUMENT, "sampler is NULL");
    CHECK_FAILS(um_sampler_create(&(um_sampler_desc){.vocab_size = 4}, NULL), UM_INVALID_ARGUMENT,
                "out is NULL");
    um_sampler_release(sampler);
}

/* ---- memory ------------------------------------------------------------------------------- */

static um_status use_everything(void)
{
    um_tokenizer *tokenizer = NULL;
    um_sampler *sampler = NULL;
    int32_t tokens[16], count = 16, token;
    float logits[] = {1, 2, 3};
    um_sampler_desc desc = {.vocab_size = 3, .temperature = 1, .top_k = 2, .top_p = 0.9f};
    um_status status = um_tokenizer_load(TOKENIZER, VOCAB_SIZE, &tokenizer);
    if (status == UM_OK) status = um_tokenizer_encode(tokenizer, "Once upon", &count, tokens);
    if (status == UM_OK) status = um_sampler_create(&desc, &sampler);
    if (status == UM_OK) status = um_sampler_next(sampler, logits, &token);
    um_sampler_release(sampler);
    um_tokenizer_release(tokenizer);
    return status;
}

static void test_failing_memory(void)
{
    int64_t live = um_mem_live_count();
    for (int forever = 0; forever < 2; forever++) {
        for (int64_t n = 1;; n++) {
            um_mem_fail_at(n, forever != 0);
            um_status status = use_everything();
            bool failed = um_mem_failed();
            um_mem_fail_at(0, false);
            CHECK(um_mem_live_count() == live);
            CHECK_MSG(status == (failed ? UM_OUT_OF_MEMORY : UM_OK), "call %lld", (long long)n);
            if (!failed) break;
        }
    }
    CHECK_OK(use_everything());
}

int main(void)
{
    um_file file;
    CHECK_OK(um_file_open(MODEL, &file));
    model_size = (size_t)file.size_bytes;
    model_bytes = calloc(1, model_size + 1);
    memcpy(model_bytes, file.data, model_size);
    um_file_close(&file);
    TEST(test_philox_known_answers);
    TEST(test_checkpoint_reads);
    TEST(test_checkpoint_other_size);
    TEST(test_checkpoint_header_fields);
    TEST(test_checkpoint_header_bits);
    TEST(test_encode_known);
    TEST(test_encode_room);
    TEST(test_encode_round_trips);
    TEST(test_encode_against_oracle);
    TEST(test_encode_long_text);
    TEST(test_decode);
    TEST(test_tokenizer_damaged);
    TEST(test_sampler_greedy);
    TEST(test_sampler_frequencies);
    TEST(test_sampler_extremes);
    TEST(test_sampler_seed);
    TEST(test_sampler_refuses);
    TEST(test_failing_memory);
    free(model_bytes);
    remove(SCRATCH);
    return TEST_RESULT();
}
