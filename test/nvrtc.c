/* nvrtc OPTION...: compiles standard input, CUDA C++, by NVRTC; down to machine code where an
 * option names an architecture sm_XX. Prints the compiler's log. Exit status 77: no NVRTC here. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

typedef struct api {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    const char *(*error_text)(int);
} api;

static void *open_library(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW);
    return library;
}

static int find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int load(api *out)
{
    void *library = open_library();
    return library && find(library, "nvrtcCreateProgram", &out->create) &&
           find(library, "nvrtcCompileProgram", &out->compile) &&
           find(library, "nvrtcGetProgramLogSize", &out->log_size) &&
           find(library, "nvrtcGetProgramLog", &out->log) &&
           find(library, "nvrtcGetErrorString", &out->error_text);
}

/* All of standard input, ended by a 0; NULL: no memory. */
static char *read_input(void)
{
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    while (text) {
        size_t got = fread(text + size, 1, room - size - 1, stdin);
        size += got;
        text[size] = 0;
        if (got == 0) break;
        if (room - size < room / 2) {
            char *larger = realloc(text, room *= 2);
            if (!larger) free(text);
            text = larger;
        }
    }
    return text;
}

static int compile(const api *nvrtc, const char *text, int option_count, char **option)
{
    void *program;
    size_t size = 0;
    int error = nvrtc->create(&program, text, "kernels", 0, NULL, NULL);
    if (error == 0) {
        error = nvrtc->compile(program, option_count, (const char *const *)option);
        if (nvrtc->log_size(program, &size) != 0) size = 0;
        char *log = malloc(size + 1);
        if (log && size > 0 && nvrtc->log(program, log) == 0) fputs(log, stdout);
        free(log);
    }
    if (error) printf("error: nvrtc: %s\n", nvrtc->error_text(error));
    return error != 0;
}

int main(int argc, char **argv)
{
    api nvrtc;
    if (!load(&nvrtc)) {
        puts("no libnvrtc here (CUDA toolkit)");
        return SKIPPED;
    }
    char *text = read_input();
    if (!text) return 2;
    int status = compile(&nvrtc, text, argc - 1, argv + 1);
    free(text);
    return status;
}
