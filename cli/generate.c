/* cli/generate.c: `umbel generate`: continues a prompt with a language model. The text goes to
 * stdout token by token; device and speed to stderr at the end. */
#include "base/os.h"
#include "cli/cli.h"

#include <ctype.h>
#include <time.h>
#include <umbel/umbel.h>

enum { PATH_ROOM = 4096, PROMPT_MAX_BYTES = 16 << 20 };

typedef struct generate_options {
    const char *model, *tokenizer, *prompt, *device;
    int64_t steps, top_k;
    double temperature, top_p;
    uint64_t seed;
} generate_options;

/* What is open, and how it went. */
typedef struct generator {
    um_device *device;
    um_llm *llm;
    um_tokenizer *tokenizer;
    um_sampler *sampler;
    um_llm_info info;
    char *text;      /* a prompt from stdin */
    float *logits;   /* [vocab_size] */
    int32_t *tokens; /* [context_length] BOS and the prompt */
    int32_t prompt_count, steps, generated_count;
    int64_t prompt_ns, generate_ns;
} generator;

/* ---- opening ------------------------------------------------------------------------------ */

static bool file_exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

/* The tokenizer that lies beside the model. */
static int find_tokenizer(const char *model, char *path)
{
    static const char *const names[] = {"tok512.bin", "tokenizer.bin"};
    const char *slash = strrchr(model, '/');
    int folder = slash ? (int)(slash - model) + 1 : 0;
    for (size_t i = 0; i < UM_COUNT_OF(names); i++) {
        int length = snprintf(path, PATH_ROOM, "%.*s%s", folder, model, names[i]);
        if (length > 0 && length < PATH_ROOM && file_exists(path)) return CLI_GO;
    }
    return cli_fail("no --tokenizer given, and neither %s nor %s found beside %s", names[0],
                    names[1], model);
}

static int open_files(const generate_options *options, generator *g)
{
    char path[PATH_ROOM];
    if (um_open(options->device, &g->device) != UM_OK) return cli_fail_status();
    if (um_llm_load(g->device, options->model, &g->llm) != UM_OK) return cli_fail_status();
    um_llm_get_info(g->llm, &g->info);
    const char *tokenizer = options->tokenizer;
    if (!tokenizer) {
        int code = find_tokenizer(options->model, path);
        if (code != CLI_GO) return code;
        tokenizer = path;
    }
    if (um_tokenizer_load(tokenizer, g->info.vocab_size, &g->tokenizer) != UM_OK)
        return cli_fail_status();
    um_sampler_desc desc = {.vocab_size = g->info.vocab_size,
                            .temperature = (float)options->temperature,
                            .top_k = (int32_t)options->top_k,
                            .top_p = (float)options->top_p,
                            .seed = options->seed};
    return um_sampler_create(&desc, &g->sampler) == UM_OK ? CLI_GO : cli_fail_status();
}

/* All of stdin as text. */
static int read_stdin(char **text)
{
    size_t size = 0, room = 0;
    for (;;) {
        if (size + 1 >= room) {
            size_t more = room ? 2 * room : 4096;
            char *grown = um_mem_grow(*text, room, more);
            if (!grown) return cli_fail("--prompt: no memory for %zu bytes", more);
            *text = grown;
            room = more;
        }
        size_t got = fread(*text + size, 1, room - size - 1, stdin);
        if (got == 0) break;
        size += got;
        if (size > PROMPT_MAX_BYTES)
            return cli_fail("--prompt: more than %d bytes on standard input", PROMPT_MAX_BYTES);
    }
    (*text)[size] = 0;
    if (ferror(stdin)) return cli_fail("--prompt: cannot read standard input");
    if (strlen(*text) != size) return cli_fail("--prompt: a zero byte on standard input");
    return CLI_GO;
}

static int read_prompt(const generate_options *options, generator *g)
{
    const char *text = options->prompt;
    if (strcmp(text, "-") == 0) {
        int code = read_stdin(&g->text);
        if (code != CLI_GO) return code;
        text = g->text;
    }
    int32_t context = g->info.context_length;
    g->logits = um_mem_alloc((size_t)g->info.vocab_size * sizeof *g->logits);
    g->tokens = um_mem_alloc((size_t)context * sizeof *g->tokens);
    if (!g->logits || !g->tokens) return cli_fail("no memory for %d tokens", context);
    g->prompt_count = context;
    um_status status = um_tokenizer_encode(g->tokenizer, text, &g->prompt_count, g->tokens);
    if (status == UM_OUT_OF_RANGE)
        return cli_fail("--prompt: makes %d tokens, wanted at most the model's %d", g->prompt_count,
                        context);
    if (status != UM_OK) return cli_fail_status();
    bool whole = options->steps == 0 || options->steps > context;
    g->steps = whole ? context : (int32_t)options->steps;
    return CLI_GO;
}

static void close_generator(generator *g)
{
    um_mem_free(g->text);
    um_mem_free(g->logits);
    um_mem_free(g->tokens);
    um_sampler_release(g->sampler);
    um_tokenizer_release(g->tokenizer);
    um_llm_release(g->llm);
    um_device_release(g->device);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* A control character that came as a byte token would only confuse a terminal. */
static bool is_printable(const char *bytes, size_t size)
{
    unsigned char c = (unsigned char)bytes[0];
    return size > 1 || !iscntrl(c) || isspace(c);
}

static um_status print_token(const generator *g, int32_t previous, int32_t token)
{
    const char *bytes;
    size_t size;
    um_status status = um_tokenizer_decode(g->tokenizer, previous, token, &bytes, &size);
    if (status == UM_OK && size > 0 && is_printable(bytes, size)) fwrite(bytes, 1, size, stdout);
    return status;
}

/* The prompt: evaluated at once, then shown. */
static um_status run_prompt(generator *g)
{
    int64_t start_ns = um_os_now_ns();
    int32_t count = UM_MIN(g->prompt_count, g->steps);
    um_status status = um_llm_eval(g->llm, count, g->tokens, 0, g->logits);
    g->prompt_ns = um_os_now_ns() - start_ns;
    int32_t shown = UM_MIN(g->prompt_count - 1, g->steps);
    for (int32_t i = 1; status == UM_OK && i <= shown; i++)
        status = print_token(g, g->tokens[i - 1], g->tokens[i]);
    fflush(stdout);
    return status;
}

/* Positions are counted as llama2.c counts them: each of g->steps gives the token after it. Stops
 * early where the model ends the text, and when stdout is gone (main says so). */
static um_status run_tokens(generator *g)
{
    int32_t token = g->tokens[g->prompt_count - 1], next;
    int64_t start_ns = um_os_now_ns();
    for (int32_t position = g->prompt_count; position <= g->steps; position++) {
        um_status status = um_sampler_next(g->sampler, g->logits, &next);
        if (status != UM_OK) return status;
        if (next == UM_TOKEN_BOS || next == UM_TOKEN_EOS) break;
        status = print_token(g, token, next);
        if (status != UM_OK) return status;
        if (fflush(stdout) != 0) break;
        token = next;
        if (position == g->steps) break; /* nothing to come after it */
        status = um_llm_eval(g->llm, 1, &token, position, g->logits);
        if (status != UM_OK) return status;
        g->generated_count++;
    }
    g->generate_ns = um_os_now_ns() - start_ns;
    return UM_OK;
}

static double rate(int32_t count, int64_t ns)
{
    return ns > 0 ? (double)count * 1e9 / (double)ns : 0;
}

static void show_speed(const generate_options *options, const generator *g)
{
    fprintf(stderr, "device %s, prompt %d tokens at %.1f tokens/s, generated %d at %.1f tokens/s",
            um_device_name(g->device), UM_MIN(g->prompt_count, g->steps),
            rate(UM_MIN(g->prompt_count, g->steps), g->prompt_ns), g->generated_count,
            rate(g->generated_count, g->generate_ns));
    fprintf(stderr, ", %llu ops fell back", (unsigned long long)um_fallback_count(g->device));
    if (options->temperature > 0) fprintf(stderr, ", seed %llu", (unsigned long long)options->seed);
    fputc('\n', stderr);
}

static int generate(const generate_options *options)
{
    generator g = {0};
    int code = open_files(options, &g);
    if (code == CLI_GO) code = read_prompt(options, &g);
    if (code != CLI_GO) goto done;
    um_status status = run_prompt(&g);
    if (status == UM_OK) status = run_tokens(&g);
    putchar('\n');
    code = status == UM_OK ? CLI_DONE : cli_fail_status();
    if (status == UM_OK && fflush(stdout) == 0) show_speed(options, &g);
done:
    close_generator(&g);
    return code;
}

int cli_generate(int argc, char **argv)
{
    generate_options o = {.prompt = "", .steps = 256, .temperature = 1, .top_p = 0.9};
    o.seed = (uint64_t)time(NULL);
    const cli_option options[] = {
        {.name = "MODEL",
         .kind = CLI_ARG,
         .out = &o.model,
         .required = true,
         .doc = "a llama2.c checkpoint"},
        {.name = "tokenizer",
         .kind = CLI_TEXT,
         .value = "F",
         .out = &o.tokenizer,
         .doc = "its tokenizer; default: tok512.bin or tokenizer.bin beside MODEL"},
        {.name = "prompt",
         .kind = CLI_TEXT,
         .value = "T",
         .out = &o.prompt,
         .doc = "the text to continue; - reads standard input"},
        {.name = "steps",
         .kind = CLI_INT,
         .value = "N",
         .out = &o.steps,
         .max = INT32_MAX,
         .doc = "positions, prompt included; default 256; 0: the model's whole context"},
        {.name = "temperature",
         .kind = CLI_NUMBER,
         .value = "X",
         .out = &o.temperature,
         .max = 1000,
         .doc = "0 always takes the likeliest token; default 1"},
        {.name = "top-k",
         .kind = CLI_INT,
         .value = "K",
         .out = &o.top_k,
         .max = INT32_MAX,
         .doc = "choose among the K likeliest; default 0: all"},
        {.name = "top-p",
         .kind = CLI_NUMBER,
         .value = "P",
         .out = &o.top_p,
         .max = 1,
         .doc = "choose among the likeliest that together pass P; default 0.9; 0 or 1: all"},
        {.name = "seed",
         .kind = CLI_U64,
         .value = "S",
         .out = &o.seed,
         .doc = "same seed, same text; default: the time (shown at the end)"},
        {.name = "device",
         .kind = CLI_TEXT,
         .value = "D",
         .out = &o.device,
         .doc = "auto, cpu, ...; default: UMBEL_DEVICE, else auto"},
    };
    const cli_command command = {.name = "generate",
                                 .summary = "Continue a text with a language model.",
                                 .options = options,
                                 .option_count = UM_COUNT_OF(options)};
    int code = cli_parse(&command, argc, argv);
    return code == CLI_GO ? generate(&o) : code;
}
