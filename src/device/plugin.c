/* The list of plugins: those of UMBEL_PLUGIN_PATH, by their manifests, and those loaded by path. It
 * only grows, in static storage, and nothing in it changes once it is loaded or refused. Called by
 * registry.c and spec.c; what a library hands over is checked in guard.c.
 *
 * A library is loaded without a lock held, since it may call the program's log. So two threads may
 * both load one; the second finds it there. */
#include "device/plugin.h"

#include "base/os.h"
#include "device/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <umbel/select.h>

#define PLUGINS_MAX 32

typedef struct plugin {
    um_plugin_state state; /* under the mutex, as all below while it is FOUND */
    char name[16], kind[16], version[32];
    char path[sizeof((um_plugin_info *)0)->path];
    char why[sizeof((um_plugin_info *)0)->why];
    um_status code; /* of why */
    um_backend table;
} plugin;

static struct {
    um_mutex mutex;
    int32_t count, backend_count;
    plugin item[PLUGINS_MAX];
    plugin *backend[PLUGINS_MAX]; /* of a name that is good, and its own */
} plugins = {.mutex = UM_MUTEX_INIT};

/* While a library is being loaded by this thread: what it calls must not load it again. */
static _Thread_local bool is_loading;

static void note(int32_t level, const char *format, ...) UM_PRINTF(2, 3);
static void note(int32_t level, const char *format, ...)
{
    char text[1600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    um_log_write(level, "plugin: %s", text);
    um_debug_write("plugin", "%s", text);
}

/* The scan is inside um_call_once, where nobody may be called: it leaves its lines here. */
static char scan_notes[4096];
static _Atomic bool scan_notes_wait;

static void note_later(const char *format, ...) UM_PRINTF(1, 2);
static void note_later(const char *format, ...)
{
    size_t used = strlen(scan_notes);
    va_list args;
    va_start(args, format);
    vsnprintf(scan_notes + used, sizeof scan_notes - used, format, args);
    va_end(args);
    atomic_store(&scan_notes_wait, true);
}

static void give_notes(void)
{
    if (!atomic_exchange(&scan_notes_wait, false)) return;
    for (char *line = scan_notes, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        note(UM_LOG_WARNING, "%s", line);
    }
}

/* ---- the table of one that is not there ----------------------------------------------------- */

static um_status absent_enumerate(int32_t *count, char *why, size_t why_size)
{
    *count = 0;
    if (why_size > 0) snprintf(why, why_size, "its plugin is not loaded");
    return UM_OK;
}

static um_status absent_describe(int32_t ordinal, um_device_info *out)
{
    (void)out;
    return UM_FAIL(UM_NOT_FOUND, "plugin: device %d of one that is not loaded", ordinal);
}

static um_status absent_open(int32_t ordinal, um_backend_device **out)
{
    *out = NULL;
    return UM_FAIL(UM_NOT_FOUND, "plugin: device %d of one that is not loaded", ordinal);
}

/* No device is opened through it, so no other entry is called. */
static const um_backend absent = {.struct_size = sizeof(um_backend),
                                  .struct_id = UM_STRUCT_BACKEND,
                                  .name = "absent",
                                  .enumerate = absent_enumerate,
                                  .describe = absent_describe,
                                  .open = absent_open};

/* ---- names ---------------------------------------------------------------------------------- */

/* Whether a backend may be called so; `own` may have the name already. With the mutex held. */
static um_status check_name(const char *name, const plugin *own)
{
    um_device_kind kind = um_device_kind_parse(name);
    const char *stands_for = kind ? um_device_kind_name(kind) : name;
    if (strcmp(name, "auto") == 0 || strcmp(stands_for, name) != 0)
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "plugin: the name '%s' stands for '%s' in a device spec", name,
                       kind ? stands_for : "the best device");
    bool taken = um_backend_is_built_in(name);
    for (int32_t i = 0; i < plugins.backend_count && !taken; i++)
        taken = plugins.backend[i] != own && strcmp(plugins.backend[i]->name, name) == 0;
    if (!taken) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "plugin: there is a backend '%s' already", name);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Fills `out`, of which the path is set and, by a manifest, the name. */
static um_status load(plugin *out)
{
    char wanted[sizeof out->name];
    snprintf(wanted, sizeof wanted, "%s", out->name);
    is_loading = true;
    um_status status = um_plugin_open(out->path, &out->table, out->name, out->version);
    is_loading = false;
    if (status == UM_OK && wanted[0] && strcmp(wanted, out->name) != 0)
        status = UM_FAIL(UM_ABI_MISMATCH, "its backend is '%s', by its manifest '%s'", out->name,
                         wanted);
    if (status == UM_OK) return UM_OK;
    if (wanted[0]) memcpy(out->name, wanted, sizeof wanted);
    um_error error = *um_last_error();
    return um_backend_fail(status, NULL, NULL, error.native_code, "plugin '%s': %s", out->path,
                           error.message);
}

/* With the mutex held: `p`, which was only found, becomes what `loaded` says. */
static void settle(plugin *p, const plugin *loaded, um_status status)
{
    if (status == UM_OK) {
        p->table = loaded->table;
        memcpy(p->version, loaded->version, sizeof p->version);
        p->state = UM_PLUGIN_LOADED;
    } else {
        snprintf(p->why, sizeof p->why, "%s", um_last_error()->message);
        p->code = status;
        p->state = UM_PLUGIN_REFUSED;
    }
    p->table.name = p->name;
}

static void load_found(plugin *p)
{
    um_error saved = *um_last_error();
    plugin loaded;
    um_mutex_lock(&plugins.mutex);
    bool found = p->state == UM_PLUGIN_FOUND;
    loaded = *p;
    um_mutex_unlock(&plugins.mutex);
    if (!found) return;
    um_status status = load(&loaded);
    um_mutex_lock(&plugins.mutex);
    if (p->state == UM_PLUGIN_FOUND) settle(p, &loaded, status);
    um_mutex_unlock(&plugins.mutex);
    if (status == UM_OK)
        note(UM_LOG_INFO, "loaded '%s' for %s", p->path, p->name);
    else
        note(UM_LOG_WARNING, "%s", p->why);
    um_fail_again(&saved);
}

/* ---- what UMBEL_PLUGIN_PATH has ------------------------------------------------------------- */

static void add_found(const plugin *p)
{
    if (plugins.count == PLUGINS_MAX) {
        note_later("'%s' is one too many, at most %d\n", p->path, PLUGINS_MAX);
        return;
    }
    plugin *item = &plugins.item[plugins.count++];
    *item = *p;
    item->table = absent;
    item->table.name = item->name;
    if (p->state == UM_PLUGIN_FOUND) plugins.backend[plugins.backend_count++] = item;
    if (p->state == UM_PLUGIN_REFUSED) note_later("'%s': %s\n", p->path, p->why);
}

/* p->path becomes the manifest's, then the library's. */
static um_status read_manifest(const char *folder, const char *file_name, plugin *p)
{
    um_file file;
    um_manifest manifest;
    int length = snprintf(p->path, sizeof p->path, "%s/%s", folder, file_name);
    if (length < 0 || (size_t)length >= sizeof p->path)
        return UM_FAIL(UM_OUT_OF_RANGE, "manifest: a path of %d bytes, at most %zu", length,
                       sizeof p->path - 1);
    UM_TRY(um_file_open(p->path, &file));
    um_status status = um_manifest_parse(file.data, (size_t)file.size_bytes, &manifest);
    um_file_close(&file);
    UM_TRY(status);
    memcpy(p->name, manifest.name, sizeof p->name);
    memcpy(p->kind, manifest.kind, sizeof p->kind);
    if (manifest.abi != UM_PLUGIN_ABI)
        return UM_FAIL(UM_ABI_MISMATCH, "manifest: abi %u, wanted %u", manifest.abi, UM_PLUGIN_ABI);
    UM_TRY(check_name(p->name, NULL));
    char library[sizeof p->path];
    length = snprintf(library, sizeof library, "%s/%s", folder, manifest.file);
    if (length < 0 || (size_t)length >= sizeof library)
        return UM_FAIL(UM_OUT_OF_RANGE, "manifest: a path of %d bytes, at most %zu", length,
                       sizeof library - 1);
    return um_os_real_path(library, p->path, sizeof p->path);
}

static void visit_manifest(void *folder, const char *file_name)
{
    static plugin p; /* only the scan is here, once */
    p = (plugin){.state = UM_PLUGIN_FOUND};
    if (read_manifest(folder, file_name, &p) != UM_OK) {
        p.state = UM_PLUGIN_REFUSED;
        snprintf(p.path, sizeof p.path, "%s/%s", (const char *)folder, file_name);
        snprintf(p.why, sizeof p.why, "%.400s", um_last_error()->message);
    }
    add_found(&p);
}

static void visit_folder(const char *text, size_t length)
{
    char folder[sizeof((plugin *)0)->path];
    if (length == 0 || text[0] != '/' || length >= sizeof folder) {
        note_later("UMBEL_PLUGIN_PATH: '%.*s' is %s; left out\n", (int)UM_MIN(length, (size_t)200),
                   text, length >= sizeof folder ? "too long" : "no absolute path");
        return;
    }
    memcpy(folder, text, length);
    folder[length] = 0;
    if (um_os_list(folder, ".umbel", visit_manifest, folder) != UM_OK)
        note_later("UMBEL_PLUGIN_PATH: %s\n", um_last_error()->message);
}

static void scan(void)
{
    const char *path = um_env_get(UM_ENV_PLUGIN_PATH);
    if (!path) return;
    if (um_os_is_privileged()) {
        note_later("UMBEL_PLUGIN_PATH is left out: the program has more rights "
                   "than its user\n");
        return;
    }
    um_error saved = *um_last_error();
    while (path) {
        size_t length = strcspn(path, ":");
        visit_folder(path, length);
        path = path[length] ? path + length + 1 : NULL;
    }
    um_fail_again(&saved);
}

static void scan_once(void)
{
    static um_once once = UM_ONCE_INIT;
    um_call_once(&once, scan);
    give_notes();
}

/* ---- for the registry ----------------------------------------------------------------------- */

int32_t um_plugin_backend_count(void)
{
    scan_once();
    um_mutex_lock(&plugins.mutex);
    int32_t count = plugins.backend_count;
    um_mutex_unlock(&plugins.mutex);
    return count;
}

const char *um_plugin_backend_name(int32_t index) { return plugins.backend[index]->name; }

const um_backend *um_plugin_backend_at(int32_t index)
{
    plugin *p = plugins.backend[index];
    if (is_loading) return &absent;
    load_found(p);
    return &p->table;
}

void um_plugin_why(const um_backend *table, char *why, size_t why_size)
{
    um_mutex_lock(&plugins.mutex);
    for (int32_t i = 0; i < plugins.backend_count; i++) {
        const plugin *p = plugins.backend[i];
        if (&p->table == table && p->state == UM_PLUGIN_REFUSED)
            snprintf(why, why_size, "%s", p->why);
    }
    um_mutex_unlock(&plugins.mutex);
}

/* ---- public --------------------------------------------------------------------------------- */

/* The one from that path, or NULL. With the mutex held. */
static plugin *find_path(const char *path)
{
    for (int32_t i = 0; i < plugins.backend_count; i++) {
        if (strcmp(plugins.backend[i]->path, path) == 0) return plugins.backend[i];
    }
    return NULL;
}

/* *out: the one that is there now, loaded here or by another thread before. */
static um_status add_loaded(const plugin *loaded, plugin **out)
{
    um_status status = UM_OK;
    um_mutex_lock(&plugins.mutex);
    *out = find_path(loaded->path);
    if (*out == NULL) {
        status = check_name(loaded->name, NULL);
        if (status == UM_OK && plugins.count == PLUGINS_MAX)
            status = UM_FAIL(UM_OUT_OF_RANGE, "plugin: '%s' is one too many, at most %d",
                             loaded->path, PLUGINS_MAX);
    }
    if (*out == NULL && status == UM_OK) {
        *out = &plugins.item[plugins.count++];
        **out = *loaded;
        settle(*out, loaded, UM_OK);
        plugins.backend[plugins.backend_count++] = *out;
    }
    um_mutex_unlock(&plugins.mutex);
    return status;
}

um_status um_plugin_load(const char *path, const char **name)
{
    if (name) *name = "";
    if (!path || !strchr(path, '/'))
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_plugin_load: '%.200s' is no path: it holds no '/'",
                       path ? path : "NULL");
    if (is_loading) return UM_FAIL(UM_INVALID_ARGUMENT, "um_plugin_load: called by a plugin");
    plugin loaded = {.state = UM_PLUGIN_LOADED};
    UM_TRY(um_os_real_path(path, loaded.path, sizeof loaded.path));
    scan_once();
    um_mutex_lock(&plugins.mutex);
    plugin *p = find_path(loaded.path);
    um_mutex_unlock(&plugins.mutex);
    if (p) {
        load_found(p);
    } else {
        UM_TRY(load(&loaded));
        UM_TRY(add_loaded(&loaded, &p));
        note(UM_LOG_INFO, "loaded '%s' for %s", p->path, p->name);
    }
    if (p->state != UM_PLUGIN_LOADED) return UM_FAIL(p->code, "%s", p->why);
    if (name) *name = p->name;
    return UM_OK;
}

int32_t um_plugin_count(void)
{
    scan_once();
    um_mutex_lock(&plugins.mutex);
    int32_t count = plugins.count;
    um_mutex_unlock(&plugins.mutex);
    return count;
}

um_status um_plugin_describe(int32_t index, um_plugin_info *out)
{
    if (!out || out->struct_size < offsetof(um_plugin_info, name))
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_plugin_describe: %s",
                       out ? "out->struct_size is not set" : "out is NULL");
    int32_t count = um_plugin_count();
    um_plugin_info info = {.struct_size = out->struct_size};
    bool there = index >= 0 && index < count;
    if (there) {
        um_mutex_lock(&plugins.mutex);
        const plugin *p = &plugins.item[index];
        info.state = p->state;
        memcpy(info.name, p->name, sizeof info.name);
        memcpy(info.kind, p->kind, sizeof info.kind);
        memcpy(info.version, p->version, sizeof info.version);
        memcpy(info.path, p->path, sizeof info.path);
        memcpy(info.why, p->why, sizeof info.why);
        um_mutex_unlock(&plugins.mutex);
    }
    memcpy(out, &info, UM_MIN((size_t)out->struct_size, sizeof info));
    if (there) return UM_OK;
    return UM_FAIL(UM_OUT_OF_RANGE, "um_plugin_describe: index %d of %d plugins", index, count);
}

/* ---- device specs --------------------------------------------------------------------------- */

um_status um_plugin_spec(const char *spec, char *out, size_t out_size)
{
    char path[sizeof((plugin *)0)->path];
    const char *name;
    if (um_os_is_privileged())
        return UM_FAIL(UM_NOT_FOUND,
                       "um_open: '%.200s' is a path, in a program that has more rights "
                       "than its user",
                       spec);
    spec += strspn(spec, " \t");
    const char *file = strrchr(spec, '/') + 1, *rest = file + strcspn(file, ":+");
    size_t length = (size_t)(rest - spec);
    while (length > 0 && strchr(" \t", spec[length - 1])) length--;
    if (length >= sizeof path)
        return UM_FAIL(UM_OUT_OF_RANGE, "um_open: a path of %zu bytes, at most %zu", length,
                       sizeof path - 1);
    memcpy(path, spec, length);
    path[length] = 0;
    UM_TRY(um_plugin_load(path, &name));
    int used = snprintf(out, out_size, "%s%s", name, rest);
    if (used >= 0 && (size_t)used < out_size) return UM_OK;
    return UM_FAIL(UM_NOT_FOUND, "um_open: '%.200s' is too long behind its path", spec);
}
