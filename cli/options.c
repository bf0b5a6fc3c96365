/* cli/options.c: the option parser, help texts and messages of every verb. Tables of cli_option say
 * what there is; no verb looks at argv itself.
 */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *current_verb = "";

void cli_set_verb(const char *verb) { current_verb = verb; }

static void write_message(const char *format, va_list args)
{
    fflush(stdout);
    fprintf(stderr, "umbel%s%s: ", *current_verb ? " " : "", current_verb);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int cli_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message(format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_wrong_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message(format, args);
    va_end(args);
    return CLI_WRONG_USAGE;
}

int cli_fail_status(void)
{
    const um_error *error = um_last_error();
    return cli_fail("%s (%s)", error->message, um_status_name(error->code));
}

/* ---- help ----------------------------------------------------------------------------------- */

static void show_option(const cli_option *option)
{
    char left[64];
    if (option->kind == CLI_ARG)
        snprintf(left, sizeof left, "%s", option->name);
    else if (option->letter)
        snprintf(left, sizeof left, "-%c, --%s%s%s", option->letter, option->name,
                 option->value ? " " : "", option->value ? option->value : "");
    else
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
    printf("  %-20s  %s\n", left, option->doc);
}

static void show_help(const cli_command *command)
{
    printf("usage: umbel %s", command->name);
    for (int32_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &command->options[i];
        if (option->kind == CLI_ARG) printf(option->required ? " %s" : " [%s]", option->name);
    }
    printf(" [options]\n\n%s\n\n", command->summary);
    for (int32_t i = 0; i < command->option_count; i++) show_option(&command->options[i]);
    printf("  %-20s  %s\n", "-h, --help", "this text");
    if (command->details) printf("\n%s", command->details);
}

/* ---- parsing -------------------------------------------------------------------------------- */

static bool in_range(const cli_option *option, double value)
{
    return (option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max);
}

static bool parse_int(const cli_option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || !in_range(option, (double)value)) return false;
    *(int64_t *)option->out = value;
    return true;
}

static bool parse_u64(const cli_option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-')) return false;
    *(uint64_t *)option->out = value;
    return true;
}

static bool parse_number(const cli_option *option, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || !in_range(option, value)) return false;
    *(double *)option->out = value;
    return true;
}

static int refuse_value(const cli_option *option, const char *text)
{
    const char *wanted = option->kind == CLI_NUMBER ? "a number"
                         : option->kind == CLI_U64  ? "a whole number from 0"
                                                    : "a whole number";
    if (option->min == 0 && option->max == 0)
        return cli_wrong_usage("--%s: got '%s', wanted %s", option->name, text, wanted);
    return cli_wrong_usage("--%s: got '%s', wanted %s from %g to %g", option->name, text, wanted,
                           option->min, option->max);
}

static int set_value(const cli_option *option, const char *text)
{
    bool good = true;
    switch (option->kind) {
    case CLI_FLAG: *(bool *)option->out = true; break;
    case CLI_TEXT:
    case CLI_ARG: *(const char **)option->out = text; break;
    case CLI_INT: good = parse_int(option, text); break;
    case CLI_U64: good = parse_u64(option, text); break;
    case CLI_NUMBER: good = parse_number(option, text); break;
    }
    return good ? CLI_GO : refuse_value(option, text);
}

/* The option that `word` ("--steps", "--steps=3", "-v") names, or NULL; *value is what follows '='.
 */
static const cli_option *find_option(const cli_command *command, const char *word,
                                     const char **value)
{
    size_t length = strcspn(word, "=");
    *value = word[length] ? word + length + 1 : NULL;
    for (int32_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &command->options[i];
        if (option->kind == CLI_ARG) continue;
        if (option->letter && word[1] == option->letter && length == 2) return option;
        if (word[1] == '-' && length - 2 == strlen(option->name) &&
            strncmp(word + 2, option->name, length - 2) == 0)
            return option;
    }
    return NULL;
}

/* Handles the option at argv[*i]; moves *i onto its value when that is a word of its own. */
static int take_option(const cli_command *command, int argc, char **argv, int *i)
{
    const char *value;
    const cli_option *option = find_option(command, argv[*i], &value);
    if (!option)
        return cli_wrong_usage("there is no option '%s'; see umbel %s --help", argv[*i],
                               command->name);
    if (option->kind == CLI_FLAG) {
        if (value) return cli_wrong_usage("--%s takes no value", option->name);
    } else if (!value) {
        if (*i + 1 == argc)
            return cli_wrong_usage("--%s needs a value: --%s %s", option->name, option->name,
                                   option->value);
        value = argv[++*i];
    }
    return set_value(option, value);
}

/* The n-th argument's row, or NULL. */
static const cli_option *find_argument(const cli_command *command, int32_t n)
{
    for (int32_t i = 0; i < command->option_count; i++)
        if (command->options[i].kind == CLI_ARG && n-- == 0) return &command->options[i];
    return NULL;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

int cli_parse(const cli_command *command, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        show_help(command);
        return CLI_DONE;
    }
    bool options_over = false;
    int32_t argument_count = 0;
    for (int i = 1; i < argc; i++) {
        int code = CLI_GO;
        if (!options_over && strcmp(argv[i], "--") == 0) {
            options_over = true;
        } else if (!options_over && argv[i][0] == '-' && argv[i][1]) {
            code = take_option(command, argc, argv, &i);
        } else {
            const cli_option *argument = find_argument(command, argument_count++);
            if (!argument)
                return cli_wrong_usage("'%s' is one argument too many; see umbel %s --help",
                                       argv[i], command->name);
            code = set_value(argument, argv[i]);
        }
        if (code != CLI_GO) return code;
    }
    const cli_option *missing = find_argument(command, argument_count);
    if (missing && missing->required)
        return cli_wrong_usage("%s is missing; see umbel %s --help", missing->name, command->name);
    return CLI_GO;
}
