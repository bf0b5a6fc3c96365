/* spirv_valid LIBRARY ENVIRONMENT FILE...: SPIR-V modules through the validator (SPIRV-Tools) that
 * is in that shared library: it knows extensions that an installed spirv-val may be too old for.
 * Prints "good 1" for each, or the validator's words. Exit status 77: no such library here. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

/* From SPIRV-Tools' libspirv.h. */
typedef struct binary {
    const uint32_t *code;
    size_t count;
} binary;

typedef struct diagnostic {
    size_t line, column, index;
    char *error;
    bool is_text;
} diagnostic;

typedef struct api {
    bool (*parse_environment)(const char *, int *);
    void *(*create)(int);
    int (*validate)(void *, const binary *, diagnostic **);
} api;

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(const char *path, api *out)
{
    void *library = dlopen(path, RTLD_NOW);
    return library && find(library, "spvParseTargetEnv", &out->parse_environment) &&
           find(library, "spvContextCreate", &out->create) &&
           find(library, "spvValidate", &out->validate);
}

static bool is_valid(const api *spv, void *context, const char *path)
{
    static uint32_t words[1 << 20];
    diagnostic *wrong = NULL;
    FILE *file = fopen(path, "rb");
    size_t count = file ? fread(words, sizeof *words, sizeof words / sizeof *words, file) : 0;
    if (file) fclose(file);
    if (spv->validate(context, &(binary){words, count}, &wrong) == 0) {
        puts("good 1");
        return true;
    }
    printf("%s: word %zu: %s\n", path, wrong ? wrong->index : 0, wrong ? wrong->error : "invalid");
    return false;
}

int main(int argc, char **argv)
{
    api spv;
    int environment;
    if (argc < 3) return 2;
    if (!load(argv[1], &spv)) {
        printf("no SPIRV-Tools in %s (npm install bun-webgpu-linux-x64)\n", argv[1]);
        return SKIPPED;
    }
    if (!spv.parse_environment(argv[2], &environment)) return 2;
    void *context = spv.create(environment);
    for (int i = 3; i < argc; i++)
        if (!is_valid(&spv, context, argv[i])) return 1;
    return 0;
}
