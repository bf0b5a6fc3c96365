/* cli/check.c: `umbel check`: the conformance driver (check/) for people and for programs. */
#include "check/check.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* Cases skipped for one reason. */
typedef struct skip_group {
    char reason[200];
    int64_t count;
    struct skip_group *next;
} skip_group;

typedef struct check_view {
    const char *device, *plugin; /* plugin: its path, or NULL */
    uint64_t seed;
    bool verbose, as_json;
    cli_json json;
    cli_progress progress;
    skip_group *skips; /* the last one made first */
} check_view;

static void count_skip(check_view *view, const char *reason)
{
    skip_group *group = view->skips;
    while (group && strncmp(group->reason, reason, sizeof group->reason - 1) != 0)
        group = group->next;
    if (!group) {
        group = calloc(1, sizeof *group);
        if (!group) return; /* the total still counts it */
        snprintf(group->reason, sizeof group->reason, "%s", reason);
        group->next = view->skips;
        view->skips = group;
    }
    group->count++;
}

static void free_skips(skip_group *group)
{
    while (group) {
        skip_group *next = group->next;
        free(group);
        group = next;
    }
}

static const char *outcome_name(um_check_outcome outcome)
{
    static const char *const names[] = {"passed", "failed", "skipped"};
    return names[outcome];
}

/* The command that runs this one case again. */
static void write_command(const check_view *view, const char *name, char *text, size_t size)
{
    snprintf(text, size, "umbel check '%s'%s%s%s --device %s --seed %llu", name,
             view->plugin ? " --plugin '" : "", view->plugin ? view->plugin : "",
             view->plugin ? "'" : "", view->device, (unsigned long long)view->seed);
}

static void show_case(check_view *view, const um_check_case *result)
{
    char command[1024];
    bool failed = result->outcome == UM_CHECK_FAILED;
    if (!failed && !view->verbose) return;
    cli_progress_clear(&view->progress);
    printf("%-7s %s\n", outcome_name(result->outcome), result->name);
    if (result->detail[0]) printf("        %s\n", result->detail);
    if (!failed) return;
    write_command(view, result->name, command, sizeof command);
    printf("        again: %s\n", command);
}

static void json_case(check_view *view, const um_check_case *result)
{
    char command[1024];
    if (result->outcome != UM_CHECK_FAILED && !view->verbose) return;
    write_command(view, result->name, command, sizeof command);
    cli_json_open(&view->json, NULL, '{');
    cli_json_text(&view->json, "name", result->name);
    cli_json_text(&view->json, "outcome", outcome_name(result->outcome));
    cli_json_text(&view->json, "detail", result->detail);
    cli_json_text(&view->json, "command", command);
    cli_json_close(&view->json, '}');
}

static void on_case(void *user, const um_check_case *result)
{
    check_view *view = user;
    if (result->outcome == UM_CHECK_SKIPPED) count_skip(view, result->detail);
    if (view->as_json)
        json_case(view, result);
    else
        show_case(view, result);
    cli_progress_update(&view->progress, result->done, result->total, result->name);
}

static void show_end(const check_view *view, const um_check_result *result)
{
    for (const skip_group *group = view->skips; group; group = group->next)
        printf("skipped %lld: %s\n", (long long)group->count, group->reason);
    if (result->flushes)
        printf("the device takes subnormal numbers of f32 for 0; it was tried without them\n");
    printf("%lld passed, %lld failed, %lld skipped\n", (long long)result->passed,
           (long long)result->failed, (long long)result->skipped);
}

static void json_end(check_view *view, const um_check_result *result)
{
    char digest[17];
    cli_json *json = &view->json;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)result->digest);
    cli_json_close(json, ']');
    cli_json_open(json, "skips", '[');
    for (const skip_group *group = view->skips; group; group = group->next) {
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "reason", group->reason);
        cli_json_int(json, "count", group->count);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
    cli_json_int(json, "passed", result->passed);
    cli_json_int(json, "failed", result->failed);
    cli_json_int(json, "skipped", result->skipped);
    cli_json_text(json, "digest", digest);
    cli_json_bool(json, "flushes", result->flushes);
    cli_json_close(json, '}');
}

static int run_check(check_view *view, um_device *device, const char *pattern)
{
    um_check_options options = {
        .device = device, .pattern = pattern, .seed = view->seed, .on_case = on_case, .user = view};
    um_check_result result;
    if (view->as_json) {
        view->json = (cli_json){.file = stdout};
        cli_json_open(&view->json, NULL, '{');
        cli_json_text(&view->json, "device", view->device);
        cli_json_u64(&view->json, "seed", view->seed);
        cli_json_open(&view->json, "cases", '[');
    }
    um_status status = um_check_run(&options, &result);
    cli_progress_clear(&view->progress);
    if (view->as_json)
        json_end(view, &result);
    else if (status == UM_OK)
        show_end(view, &result);
    if (status != UM_OK) return cli_fail_status();
    return result.failed ? CLI_FAILED : CLI_DONE;
}

int cli_check(int argc, char **argv)
{
    const char *pattern = NULL, *spec = NULL, *name;
    char by_plugin[64];
    check_view view = {.seed = 1};
    const cli_option options[] = {
        {.name = "PATTERN",
         .kind = CLI_ARG,
         .out = &pattern,
         .doc = "an op, a glob over case names ('*/f16/*'), or part of one; default: all"},
        {.name = "device",
         .kind = CLI_TEXT,
         .value = "D",
         .out = &spec,
         .doc = "auto, cpu, cpu:0, ..., with layers: cpu+validate; default: UMBEL_DEVICE or auto"},
        {.name = "plugin",
         .kind = CLI_TEXT,
         .value = "PATH",
         .out = &view.plugin,
         .doc =
             "a backend's library; without --device its first device is checked, and its keeping "
             "to the rules of umbel/backend.h (NAME+validate)"},
        {.name = "seed",
         .kind = CLI_U64,
         .value = "S",
         .out = &view.seed,
         .doc = "for the inputs' values; default: 1"},
        {.name = "verbose",
         .letter = 'v',
         .kind = CLI_FLAG,
         .out = &view.verbose,
         .doc = "list every case"},
        {.name = "json", .kind = CLI_FLAG, .out = &view.as_json, .doc = "for programs"},
    };
    const cli_command command = {
        .name = "check",
        .summary = "Test every op of a device against the reference.",
        .details =
            "A case is op/dtype/sample:label/variant/round, or device/NAME for what a device "
            "does beside ops. Each failure prints the command that repeats it.\n",
        .options = options,
        .option_count = 6};
    int code = cli_parse(&command, argc, argv);
    if (code != CLI_GO) return code;
    if (view.plugin) {
        code = cli_plugin_use(view.plugin, &name);
        if (code != CLI_GO) return code;
        snprintf(by_plugin, sizeof by_plugin, "%s+validate", name);
        if (!spec) spec = by_plugin;
    }
    um_device *device;
    if (um_open(spec, &device) != UM_OK) return cli_fail_status();
    view.device = um_device_name(device);
    um_caps caps = {.struct_size = sizeof caps};
    if (um_device_caps(device, &caps) != UM_OK) {
        code = cli_fail_status();
        goto done;
    }
    if (caps.kind == UM_DEVICE_NULL) {
        code = cli_fail("%s computes nothing, so there is nothing to check", view.device);
        goto done;
    }
    cli_progress_start(&view.progress);
    code = run_check(&view, device, pattern);
    free_skips(view.skips);
done:
    um_device_release(device);
    return code;
}
