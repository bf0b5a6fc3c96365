/* cli/main.c: the `umbel` command: finds the verb and makes sure that what was printed arrived.
 * Each verb is a file of its own.
 */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} verb;

static const verb verbs[] = {
    {"generate", cli_generate, "write text with a language model"},
    {"check", cli_check, "test every op of a device against the reference"},
    {"bench", cli_bench, "measure a device's speed"},
    {"dump", cli_dump, "print an op's kernels, as IR or as a target's source"},
    {"info", cli_info, "show the devices and what they can do"},
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void show_help(FILE *file)
{
    fprintf(file, "usage: umbel VERB [options]\n\n");
    for (int i = 0; i < VERB_COUNT; i++) fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].doc);
    fprintf(file, "  %-10s %s\n", "help", "this text; umbel help VERB is umbel VERB --help");
    fprintf(file, "\n  --version  the version\n\nExit code: 0 done, 1 failed, 2 wrong usage.\n");
}

static const verb *find_verb(const char *name)
{
    for (int i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

static int run_verb(const char *name, int argc, char **argv)
{
    const verb *found = find_verb(name);
    if (!found) return cli_wrong_usage("there is no verb '%s'; see umbel --help", name);
    cli_set_verb(name);
    return found->run(argc, argv);
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    bool is_help = strcmp(word, "help") == 0;
    if (argc < 2) {
        show_help(stderr);
        return CLI_WRONG_USAGE;
    }
    if (is_help && argc > 2) {
        char help[] = "--help";
        char *help_argv[] = {argv[2], help, NULL};
        return run_verb(argv[2], 2, help_argv);
    }
    if (is_help || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        show_help(stdout);
        return CLI_DONE;
    }
    if (strcmp(word, "--version") == 0) {
        printf("umbel %s\n", um_version());
        return CLI_DONE;
    }
    return run_verb(word, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int code = run(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const char *why = errno ? strerror(errno) : "a write failed";
        code = code == CLI_WRONG_USAGE ? code : cli_fail("standard output: %s", why);
    }
    return code;
}
