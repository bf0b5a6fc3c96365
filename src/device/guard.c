/* What a plugin hands over, checked before it is believed: its structs are copied through the
 * system, which says where memory is not there, sizes and tails by the rules of umbel/plugin.h.
 * Called by plugin.c. */
#include "base/os.h"
#include "device/plugin.h"

#include <stddef.h>
#include <stdio.h>

#define STRUCT_MAX 4096 /* no struct is larger: a struct_size beyond is a lie */

typedef struct head {
    uint32_t struct_size, struct_id;
    const void *next;
} head;

/* ---- the host's functions ------------------------------------------------------------------- */

static void host_log(int32_t level, const char *message)
{
    um_log_write(level, "%s", message ? message : "");
}

static void *host_alloc(size_t size_bytes, size_t align_bytes)
{
    bool good = align_bytes <= 4096 && (align_bytes & (align_bytes - 1)) == 0;
    return good ? um_mem_alloc_aligned(size_bytes, align_bytes) : NULL;
}

static const um_host host = {
    .struct_size = sizeof(um_host),
    .struct_id = UM_STRUCT_HOST,
    .abi = UM_PLUGIN_ABI,
    .backend_size = sizeof(um_backend),
    .version = UM_VERSION_STRING,
    .fail = um_backend_fail,
    .last_error = um_last_error,
    .log = host_log,
    .alloc = host_alloc,
    .free = um_mem_free,
    .op_name = um_op_name,
    .dtype_name = um_dtype_name,
    .convert = um_convert,
};

/* ---- structs -------------------------------------------------------------------------------- */

static um_status check_head(const head *h, uint32_t id, size_t size_min, const char *what)
{
    if (h->struct_id != id)
        return UM_FAIL(UM_ABI_MISMATCH, "%s: struct_id %u, wanted %u", what, h->struct_id, id);
    if (h->struct_size < size_min || h->struct_size > STRUCT_MAX)
        return UM_FAIL(UM_ABI_MISMATCH, "%s: struct_size %u, wanted %zu to %d", what,
                       h->struct_size, size_min, STRUCT_MAX);
    if (h->next)
        return UM_FAIL(UM_ABI_MISMATCH, "%s: next is set; no extension is known here", what);
    return UM_OK;
}

/* *out, of out_size bytes, from theirs: what they lack is zero, what is beyond ours must be. */
static um_status copy_struct(void *out, size_t out_size, size_t size_min, uint32_t id,
                             const void *theirs, const char *what)
{
    uint8_t copy[STRUCT_MAX];
    head h;
    memset(out, 0, out_size);
    if (!theirs) return UM_FAIL(UM_ABI_MISMATCH, "%s: NULL", what);
    if (um_os_copy_unsure(&h, theirs, sizeof h) != UM_OK)
        return UM_FAIL(UM_ABI_MISMATCH, "%s: %s", what, um_last_error()->message);
    UM_TRY(check_head(&h, id, size_min, what));
    if (um_os_copy_unsure(copy, theirs, h.struct_size) != UM_OK)
        return UM_FAIL(UM_ABI_MISMATCH, "%s: struct_size %u: %s", what, h.struct_size,
                       um_last_error()->message);
    if (h.struct_size > out_size && !um_is_zero(copy + out_size, h.struct_size - out_size))
        return UM_FAIL(UM_ABI_MISMATCH, "%s: of its %u bytes some past the %zu known here are set",
                       what, h.struct_size, out_size);
    memcpy(out, copy, UM_MIN(out_size, (size_t)h.struct_size));
    const uint32_t size = (uint32_t)out_size;
    memcpy(out, &size, sizeof size);
    return UM_OK;
}

/* A text that may not be there, and may not end. */
static um_status copy_text(char *out, size_t out_size, const char *theirs, const char *what)
{
    for (size_t i = 0; i < out_size; i++) {
        if (um_os_copy_unsure(out + i, theirs + i, 1) != UM_OK) {
            out[0] = 0;
            return UM_FAIL(UM_ABI_MISMATCH, "%s: %s", what, um_last_error()->message);
        }
        if (!out[i]) return UM_OK;
    }
    out[0] = 0;
    return UM_FAIL(UM_ABI_MISMATCH, "%s: no end within %zu characters", what, out_size - 1);
}

/* ---- the backend ---------------------------------------------------------------------------- */

#define ENTRY(name)                                                                                \
    {                                                                                              \
#name, offsetof(um_backend, name)                                                          \
    }
static const struct {
    const char *name;
    size_t offset;
} required[] = {
    ENTRY(enumerate), ENTRY(describe),    ENTRY(open),          ENTRY(close),          ENTRY(caps),
    ENTRY(alloc),     ENTRY(free),        ENTRY(stream_create), ENTRY(stream_destroy), ENTRY(write),
    ENTRY(read),      ENTRY(copy),        ENTRY(fill),          ENTRY(record),         ENTRY(wait),
    ENTRY(query),     ENTRY(synchronize), ENTRY(clear_error),
};
#undef ENTRY

static um_status check_entries(const um_backend *table)
{
    for (size_t i = 0; i < UM_COUNT_OF(required); i++) {
        um_os_fn fn;
        memcpy(&fn, (const uint8_t *)table + required[i].offset, sizeof fn);
        if (!fn)
            return UM_FAIL(UM_ABI_MISMATCH, "um_backend: the required entry %s is NULL",
                           required[i].name);
    }
    if (!table->supports != !table->enqueue)
        return UM_FAIL(UM_ABI_MISMATCH, "um_backend: %s without %s",
                       table->supports ? "supports" : "enqueue",
                       table->supports ? "enqueue" : "supports");
    return UM_OK;
}

static um_status take_backend(const um_backend *theirs, um_backend *table, char *name)
{
    UM_TRY(copy_struct(table, sizeof *table, offsetof(um_backend, supports), UM_STRUCT_BACKEND,
                       theirs, "um_backend"));
    UM_TRY(check_entries(table));
    UM_TRY(copy_text(name, 16, table->name, "um_backend: name"));
    if (um_plugin_name_is_good(name)) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "um_backend: the name '%s', wanted letters, digits, - and _, the first a letter",
                   name);
}

static um_status take_plugin(const um_plugin *theirs, um_backend *table, char *name, char *version)
{
    um_plugin plugin;
    const size_t size_min = offsetof(um_plugin, backend) + sizeof plugin.backend;
    UM_TRY(copy_struct(&plugin, sizeof plugin, size_min, UM_STRUCT_PLUGIN, theirs, "um_plugin"));
    if (plugin.abi != UM_PLUGIN_ABI)
        return UM_FAIL(UM_ABI_MISMATCH, "um_plugin: abi %u, wanted %u", plugin.abi, UM_PLUGIN_ABI);
    version[0] = 0;
    if (plugin.version) UM_TRY(copy_text(version, 32, plugin.version, "um_plugin: version"));
    return take_backend(plugin.backend, table, name);
}

/* What its entry returns, with a message also where it left none. */
static um_status ask(um_plugin_entry_fn entry, const um_plugin **out)
{
    um_error saved = *um_last_error();
    um_fail_again(&(um_error){.code = UM_OK});
    *out = NULL;
    um_status status = entry(&host, out);
    if (status == UM_OK) {
        um_fail_again(&saved);
        return UM_OK;
    }
    if (um_last_error()->code != status)
        return UM_FAIL(status, "its entry fails with %d (%s) and says no more", status,
                       um_status_name(status));
    return status;
}

um_status um_plugin_open(const char *path, um_backend *table, char *name, char *version)
{
    void *library;
    um_plugin_entry_fn entry = NULL;
    const um_plugin *theirs;
    UM_TRY(um_os_library_open(path, &library));
    um_os_fn found = um_os_library_find(library, UM_PLUGIN_ENTRY);
    if (!found) {
        um_os_library_close(library);
        return UM_FAIL(UM_ABI_MISMATCH, "no plugin: it exports no " UM_PLUGIN_ENTRY);
    }
    memcpy(&entry, &found, sizeof entry);
    UM_TRY(ask(entry, &theirs));
    return take_plugin(theirs, table, name, version);
}
