/* cli/plugins.c: plugins for `umbel info` and `umbel check --plugin`. A library that is not known
 * yet is first loaded in a child process, so that one that crashes or hangs is reported, not
 * suffered.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <umbel/umbel.h>
#include <unistd.h>

enum { PROBE_SECONDS = 20, CRASHES_MAX = 64 };

/* Why the plugin at that index cannot be loaded here; "" while nothing is known against it. */
static char crash_why[CRASHES_MAX][160];

/* ---- in the child ---------------------------------------------------------------------------- */

/* Whatever comes of it: only that it comes to an end counts. */
static void touch_device(int32_t backend, int32_t ordinal)
{
    char spec[64];
    um_device *device = NULL;
    um_device_info info = {.struct_size = sizeof info};
    um_caps caps = {.struct_size = sizeof caps};
    if (um_device_describe(backend, ordinal, &info) != UM_OK) return;
    snprintf(spec, sizeof spec, "%s:%d", info.backend, ordinal);
    if (um_open(spec, &device) == UM_OK && um_device_caps(device, &caps) == UM_OK)
        um_device_release(device);
}

static void touch_plugin(const char *path)
{
    const char *name, *other;
    int32_t count = 0;
    if (um_plugin_load(path, &name) != UM_OK) return;
    for (int32_t i = 0; i < um_backend_count(); i++) {
        if (um_backend_describe(i, &other, NULL, NULL) != UM_OK || strcmp(name, other) != 0)
            continue;
        if (um_backend_describe(i, NULL, &count, NULL) != UM_OK) continue;
        for (int32_t k = 0; k < count; k++) touch_device(i, k);
    }
}

/* What a library prints when it is loaded is not our output. */
static void silence(void)
{
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0) return;
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
}

/* ---- here ------------------------------------------------------------------------------------ */

/* "" when a child that loads it and opens its devices ends as it should. */
static void probe(const char *path, char *why, size_t why_size)
{
    int state = 0;
    why[0] = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return; /* no child to be had: then without */
    if (child == 0) {
        silence();
        alarm(PROBE_SECONDS);
        touch_plugin(path);
        _exit(0);
    }
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM)
        snprintf(why, why_size, "a child process that loads it does not end within %d s",
                 PROBE_SECONDS);
    else if (WIFSIGNALED(state))
        snprintf(why, why_size, "a child process that loads it dies of signal %d (%s)",
                 WTERMSIG(state), strsignal(WTERMSIG(state)));
    else if (WEXITSTATUS(state) != 0)
        snprintf(why, why_size, "a child process that loads it ends with exit code %d",
                 WEXITSTATUS(state));
}

static bool get_plugin(int32_t index, um_plugin_info *info)
{
    *info = (um_plugin_info){.struct_size = sizeof *info};
    return index < CRASHES_MAX && um_plugin_describe(index, info) == UM_OK;
}

const char *cli_plugin_crash(const char *backend)
{
    um_plugin_info info;
    for (int32_t i = 0; get_plugin(i, &info); i++) {
        if (info.state != UM_PLUGIN_FOUND || strcmp(info.name, backend) != 0) continue;
        if (!crash_why[i][0]) probe(info.path, crash_why[i], sizeof crash_why[i]);
        if (crash_why[i][0]) return crash_why[i];
    }
    return NULL;
}

int cli_plugin_use(const char *path, const char **name)
{
    char why[160];
    probe(path, why, sizeof why);
    if (why[0]) return cli_fail("plugin '%s': %s", path, why);
    return um_plugin_load(path, name) == UM_OK ? CLI_GO : cli_fail_status();
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* What became of it, and why when it is not in use. */
static const char *outcome(int32_t index, const um_plugin_info *info, const char **why)
{
    *why = crash_why[index][0] ? crash_why[index] : info->why;
    if (**why) return "refused";
    return info->state == UM_PLUGIN_LOADED ? "loaded" : "found";
}

void cli_plugins_show(void)
{
    um_plugin_info info;
    const char *why;
    for (int32_t i = 0; get_plugin(i, &info); i++) {
        const char *state = outcome(i, &info, &why);
        printf("plugin %s%s%s, %s: %s\n", info.name[0] ? info.name : "(no name)",
               info.version[0] ? " " : "", info.version, state, info.path);
        if (*why) printf("  %s\n", why);
    }
}

void cli_plugins_json(cli_json *json)
{
    um_plugin_info info;
    const char *why;
    cli_json_open(json, "plugins", '[');
    for (int32_t i = 0; get_plugin(i, &info); i++) {
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "name", info.name);
        cli_json_text(json, "state", outcome(i, &info, &why));
        cli_json_text(json, "kind", info.kind);
        cli_json_text(json, "version", info.version);
        cli_json_text(json, "path", info.path);
        cli_json_text(json, "why", why);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
}
