/* The registry: the backends of this build and of plugins, what devices they have, and which
 * devices are open. How a spec is read is in spec.c, how a device is opened in open.c. */
#include "device/device.h"
#include "device/plugin.h"

#include <stdio.h>

#define UM_BACKEND(name) extern const um_backend um_backend_##name;
#include "device/backends.def"
#undef UM_BACKEND

static const um_backend *const backends[] = {
#define UM_BACKEND(name) &um_backend_##name,
#include "device/backends.def"
#undef UM_BACKEND
};

/* Open devices. The list holds no reference: a device leaves it when its last one goes. */
static struct {
    um_mutex mutex;
    um_device *first;
} registry = {UM_MUTEX_INIT, NULL};

enum { WHY_BYTES = sizeof((um_error *)0)->message, DEVICES_MAX = 4096 };

/* ---- backends ------------------------------------------------------------------------------- */

enum { BUILT_IN = UM_COUNT_OF(backends) };

/* What a test adds; written before any other thread looks. */
static struct {
    const um_backend *const *items;
    int32_t count;
} extra;

void um_registry_set_extra(const um_backend *const *items, int32_t count)
{
    extra.items = items;
    extra.count = count;
}

/* The build's, a test's, the plugins'. */
int32_t um_backend_count(void) { return BUILT_IN + extra.count + um_plugin_backend_count(); }

const um_backend *um_backend_at(int32_t index)
{
    if (index < BUILT_IN) return backends[index];
    index -= BUILT_IN;
    return index < extra.count ? extra.items[index] : um_plugin_backend_at(index - extra.count);
}

const char *um_backend_name_at(int32_t index)
{
    bool is_plugin = index >= BUILT_IN + extra.count;
    return is_plugin ? um_plugin_backend_name(index - BUILT_IN - extra.count)
                     : um_backend_at(index)->name;
}

bool um_backend_is_built_in(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < BUILT_IN; i++) found = found || strcmp(backends[i]->name, name) == 0;
    return found;
}

/* Whether UMBEL_BACKENDS lets it be asked; those of plugins and tests are not meant. */
static bool is_wanted(const um_backend *backend)
{
    const char *list = um_env_get(UM_ENV_BACKENDS);
    size_t size = strlen(backend->name), own = 0;
    while (own < BUILT_IN && backends[own] != backend) own++;
    if (own == BUILT_IN) return true;
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, backend->name, size) == 0 && strchr(", ", at[size])) return true;
    }
    return !list;
}

/* A backend that fails to look has no device; why says what it met. */
static int32_t device_count(const um_backend *backend, char *why, size_t why_size)
{
    int32_t count = 0;
    um_error saved = *um_last_error();
    why[0] = 0;
    if (!is_wanted(backend)) {
        snprintf(why, why_size, "%s leaves it out", um_env_name(UM_ENV_BACKENDS));
        return 0;
    }
    if (backend->enumerate(&count, why, why_size) != UM_OK) {
        snprintf(why, why_size, "%s", um_last_error()->message);
        um_fail_again(&saved);
        count = 0;
    }
    why[why_size - 1] = 0;
    if (count < 0 || count > DEVICES_MAX) {
        snprintf(why, why_size, "it says that it has %d devices, wanted 0 to %d", count,
                 DEVICES_MAX);
        count = 0;
    }
    if (count == 0) um_plugin_why(backend, why, why_size);
    return count;
}

um_status um_backend_describe(int32_t index, const char **name, int32_t *count,
                              const char **why_none)
{
    static _Thread_local char why[WHY_BYTES];
    if (name) *name = "";
    if (count) *count = 0;
    if (why_none) *why_none = "";
    if (index < 0 || index >= um_backend_count()) {
        return UM_FAIL(UM_OUT_OF_RANGE, "um_backend_describe: index %d of %d backends", index,
                       um_backend_count());
    }
    if (name) *name = um_backend_name_at(index);
    if (!count && !why_none) return UM_OK;
    int32_t found = device_count(um_backend_at(index), why, sizeof why);
    if (count) *count = found;
    if (why_none && found == 0) *why_none = why;
    return UM_OK;
}

/* The backend writes into a larger room than it is told of, so that one that writes beyond is found
 * out. */
um_status um_registry_describe(int32_t backend_index, int32_t ordinal, um_device_info *out)
{
    const um_backend *backend = um_backend_at(backend_index);
    struct {
        um_device_info info;
        uint8_t beyond[1024];
    } room;
    memset(&room, 0, sizeof room);
    room.info.struct_size = sizeof room.info;
    *out = room.info;
    UM_TRY(backend->describe(ordinal, &room.info));
    if (!um_is_zero(room.beyond, sizeof room.beyond))
        return UM_FAIL(UM_ABI_MISMATCH, "%s: describe wrote beyond the %zu bytes of um_device_info",
                       backend->name, sizeof room.info);
    *out = room.info;
    out->struct_size = sizeof *out;
    out->ordinal = ordinal;
    snprintf(out->backend, sizeof out->backend, "%s", backend->name);
    out->name[sizeof out->name - 1] = 0;
    out->version[sizeof out->version - 1] = 0;
    return UM_OK;
}

um_status um_device_describe(int32_t backend_index, int32_t ordinal, um_device_info *out)
{
    char why[WHY_BYTES];
    um_device_info info;
    if (!out || out->struct_size < sizeof out->struct_size) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_device_describe: %s",
                       out ? "out->struct_size is not set" : "out is NULL");
    }
    uint32_t size = out->struct_size;
    memset(out, 0, UM_MIN((size_t)size, sizeof info));
    out->struct_size = size;
    if (backend_index < 0 || backend_index >= um_backend_count()) {
        return UM_FAIL(UM_OUT_OF_RANGE, "um_device_describe: index %d of %d backends",
                       backend_index, um_backend_count());
    }
    const um_backend *backend = um_backend_at(backend_index);
    int32_t count = device_count(backend, why, sizeof why);
    if (ordinal < 0 || ordinal >= count) {
        return UM_FAIL(UM_OUT_OF_RANGE, "um_device_describe: device %d of %d of %s", ordinal, count,
                       backend->name);
    }
    UM_TRY(um_registry_describe(backend_index, ordinal, &info));
    info.struct_size = size;
    memcpy(out, &info, UM_MIN((size_t)size, sizeof info));
    return UM_OK;
}

static size_t list_backend(int32_t index, char *text, size_t text_size)
{
    const um_backend *backend = um_backend_at(index);
    char why[WHY_BYTES];
    size_t used = 0;
    int32_t count = device_count(backend, why, sizeof why);
    if (count == 0) return (size_t)snprintf(text, text_size, "%s (none: %s)", backend->name, why);
    for (int32_t i = 0; i < count && used < text_size; i++) {
        um_device_info info;
        um_error saved = *um_last_error();
        if (um_registry_describe(index, i, &info) != UM_OK) um_fail_again(&saved);
        used += (size_t)snprintf(text + used, text_size - used, "%s%s:%d (%s)", i ? ", " : "",
                                 backend->name, i, info.name);
    }
    return used;
}

void um_registry_list(char *text, size_t text_size)
{
    size_t used = 0;
    for (int32_t i = 0; i < um_backend_count() && used < text_size; i++) {
        used += (size_t)snprintf(text + used, text_size - used, "%s", i ? ", " : "");
        if (used < text_size) used += list_backend(i, text + used, text_size - used);
    }
}

/* ---- open devices --------------------------------------------------------------------------- */

/* With the registry's mutex held. */
static um_device *find_open(const char *name)
{
    for (um_device *device = registry.first; device; device = device->next) {
        if (strcmp(device->name, name) != 0) continue;
        atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
        return device;
    }
    return NULL;
}

um_device *um_registry_find(const char *name)
{
    um_mutex_lock(&registry.mutex);
    um_device *device = find_open(name);
    um_mutex_unlock(&registry.mutex);
    return device;
}

um_device *um_registry_add(um_device *device)
{
    um_mutex_lock(&registry.mutex);
    um_device *other = find_open(device->name);
    if (!other) {
        device->next = registry.first;
        registry.first = device;
    }
    um_mutex_unlock(&registry.mutex);
    return other ? other : device;
}

bool um_registry_retain(um_device *device)
{
    int32_t refs = atomic_load_explicit(&device->refs, memory_order_relaxed);
    while (refs > 0) {
        if (atomic_compare_exchange_weak_explicit(&device->refs, &refs, refs + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool um_registry_drop(um_device *device)
{
    um_mutex_lock(&registry.mutex);
    bool last = atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel) == 1;
    um_device **link = &registry.first;
    while (last && *link && *link != device) link = &(*link)->next;
    if (last && *link) *link = device->next;
    um_mutex_unlock(&registry.mutex);
    return last;
}
