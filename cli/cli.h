/* cli/cli.h: what the verbs of the `umbel` command share: option parsing, messages, JSON, progress.
 * main.c calls a verb; one file a verb. Results go to stdout, everything else to stderr.
 */
#ifndef UM_CLI_H
#define UM_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <umbel/base.h>

/* ---- verbs: argv[0] is the verb's name; they return the exit code --------------------------- */

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_WRONG_USAGE = 2 };

int cli_bench(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_dump(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_info(int argc, char **argv);

/* ---- options (options.c) -------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,   /* bool *out: true when given */
    CLI_TEXT,   /* const char **out */
    CLI_INT,    /* int64_t *out, within [min, max] */
    CLI_U64,    /* uint64_t *out */
    CLI_NUMBER, /* double *out, finite, within [min, max] */
    CLI_ARG     /* const char **out: the next argument that is no option */
} cli_kind;

/* One option or argument. *out holds the default and stays as it is when the option is not given.
 */
typedef struct cli_option {
    const char
        *name;   /* without the dashes: "steps"; CLI_ARG: the word in the usage line, "MODEL" */
    char letter; /* 'v' allows -v; 0: none */
    cli_kind kind;
    const char *value; /* the value's name in the help, "N"; NULL for flags and arguments */
    void *out;
    double min, max; /* both 0: any */
    bool required;   /* arguments only */
    const char *doc;
} cli_option;

typedef struct cli_command {
    const char *name;    /* "generate" */
    const char *summary; /* one line, also shown by `umbel --help` */
    const char *details; /* paragraphs under the options, ends in a newline; NULL: none */
    const cli_option *options;
    int32_t option_count;
} cli_command;

/* Parses argv[1..]. CLI_GO: go on. Else the exit code to return: CLI_DONE after --help was shown,
 * CLI_WRONG_USAGE after a message. Options may stand anywhere; "--" ends them; --name=value is
 * --name value. */
enum { CLI_GO = -1 };
int cli_parse(const cli_command *command, int argc, char **argv);

/* ---- messages (options.c): one line on stderr, "umbel VERB: ..." ----------------------------- */

/* Sets the verb that messages name. */
void cli_set_verb(const char *verb);
/* Both return the exit code they mean. */
int cli_fail(const char *format, ...) UM_PRINTF(1, 2);        /* CLI_FAILED */
int cli_wrong_usage(const char *format, ...) UM_PRINTF(1, 2); /* CLI_WRONG_USAGE */
/* The thread's last error as a message; returns CLI_FAILED. */
int cli_fail_status(void);

/* ---- JSON (json.c): members and items in call order; key NULL inside an array ---------------- */

typedef struct cli_json {
    FILE *file;
    int32_t depth;
    bool filled; /* the open object or array has something in it already */
} cli_json;

void cli_json_open(cli_json *json, const char *key, char bracket);      /* '{' or '[' */
void cli_json_close(cli_json *json, char bracket);                      /* '}' or ']' */
void cli_json_text(cli_json *json, const char *key, const char *value); /* NULL gives null */
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_u64(cli_json *json, const char *key, uint64_t value);
void cli_json_bool(cli_json *json, const char *key, bool value);
void cli_json_number(cli_json *json, const char *key, double value); /* NaN and inf give null */

/* ---- progress (progress.c): a bar on stderr when it is a terminal, else nothing -------------- */

typedef struct cli_progress {
    bool on;
    int64_t last_ns;
} cli_progress;

void cli_progress_start(cli_progress *progress);
/* At most ten times a second; `what` names the present step. */
void cli_progress_update(cli_progress *progress, int64_t done, int64_t total, const char *what);
/* Wipes the bar; also before a line is printed between updates. */
void cli_progress_clear(cli_progress *progress);

/* ---- plugins (plugins.c) --------------------------------------------------------------------- */

/* Why the backend, of a plugin that nobody loaded yet, must not be: a child process that loads it
 * does not live. NULL: nothing is known against it. */
const char *cli_plugin_crash(const char *backend);
/* Loads the plugin at that path, after a child process did. CLI_GO, else the exit code. */
int cli_plugin_use(const char *path, const char **name);
/* Every plugin, where it is, and why it was refused. */
void cli_plugins_show(void);
void cli_plugins_json(cli_json *json);

#endif
