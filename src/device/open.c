/* um_open and the life of a device: opening a spec's backend and wrapping its layers around it,
 * references, capabilities, and what the tensor face keeps on a device. */
#include "device/device.h"

#include <stdio.h>

/* ---- building a device ---------------------------------------------------------------------- */

static void write_name(const um_spec *spec, char *name, size_t name_size)
{
    size_t used =
        (size_t)snprintf(name, name_size, "%s:%d", um_backend_name_at(spec->device.backend_index),
                         spec->device.ordinal);
    for (int32_t i = 0; i < spec->layer_count && used < name_size; i++) {
        const char *params = spec->layers[i].params;
        used += (size_t)snprintf(name + used, name_size - used, "+%s%s%s",
                                 spec->layers[i].layer->name, params[0] ? "=" : "", params);
    }
}

/* The backend's device inside its layers. device->name is set. */
static um_status open_driver(um_device *device, const um_spec *spec)
{
    um_driver driver = {.table = um_backend_at(spec->device.backend_index)};
    UM_TRY(driver.table->open(spec->device.ordinal, &driver.device));
    if (!driver.device)
        return UM_FAIL(UM_INTERNAL, "um_open: %s opens its device %d and gives none",
                       driver.table->name, spec->device.ordinal);
    for (int32_t i = 0; i < spec->layer_count; i++) {
        const um_layer *layer = spec->layers[i].layer;
        um_backend_device *wrapped;
        um_status status = layer->wrap(driver, device->name, spec->layers[i].params, &wrapped);
        if (status != UM_OK) {
            driver.table->close(driver.device);
            return status;
        }
        driver = (um_driver){layer->table, wrapped};
        device->layers[device->layer_count++] = driver;
    }
    device->driver = driver;
    return UM_OK;
}

static um_status device_create(const um_spec *spec, const char *name, um_device **out)
{
    *out = NULL;
    um_device *device = um_mem_zalloc(sizeof *device);
    if (!device) return UM_FAIL(UM_OUT_OF_MEMORY, "um_open: no memory for a device");
    snprintf(device->name, sizeof device->name, "%s", name);
    atomic_init(&device->refs, 1);
    device->ref = spec->device;
    const char *strict = um_env_get(UM_ENV_STRICT);
    device->fallback.strict = strict && strcmp(strict, "1") == 0;
    device->debug_dispatch = um_debug_on("dispatch");
    UM_TRY_OR(um_mutex_init(&device->mutex), fail_mutex);
    UM_TRY_OR(um_mutex_init(&device->attach_mutex), fail_attach_mutex);
    UM_TRY_OR(um_registry_describe(spec->device.backend_index, spec->device.ordinal, &device->info),
              fail);
    UM_TRY_OR(open_driver(device, spec), fail);
    *out = device;
    return UM_OK;
fail:
    um_mutex_destroy(&device->attach_mutex);
fail_attach_mutex:
    um_mutex_destroy(&device->mutex);
fail_mutex:
    um_mem_free(device);
    return um_status_last();
}

/* The device is out of the registry, and nobody but its own stream is left. */
static void device_destroy(um_device *device)
{
    /* An event no longer finds its stream once the device goes, so the frees below would not wait
     * for what is still queued. */
    um_error saved = *um_last_error();
    if (um_streams_synchronize(device, false) != UM_OK) um_fail_again(&saved);
    if (device->attachment) device->attachment_destroy(device->attachment);
    um_memory_release(device);
    device->driver.table->close(device->driver.device);
    um_mutex_destroy(&device->attach_mutex);
    um_mutex_destroy(&device->mutex);
    um_mem_free(device);
}

um_status um_open_spec(const um_spec *spec, um_device **out)
{
    char name[UM_DEVICE_NAME_MAX];
    *out = NULL;
    write_name(spec, name, sizeof name);
    *out = um_registry_find(name);
    if (*out) return UM_OK;
    um_device *device;
    UM_TRY(device_create(spec, name, &device));
    *out = um_registry_add(device);
    if (*out != device) device_destroy(device);
    return UM_OK;
}

um_status um_open(const char *spec_text, um_device **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_open: out is NULL");
    *out = NULL;
    um_spec spec;
    int32_t count;
    if (!spec_text || !*spec_text) spec_text = um_env_get(UM_ENV_DEVICE);
    UM_TRY(um_spec_parse(spec_text ? spec_text : "auto", &spec));
    if (spec.is_auto) UM_TRY(um_select_any(true, &spec.device, 1, &count));
    return um_open_spec(&spec, out);
}

/* ---- references ----------------------------------------------------------------------------- */

um_device *um_device_retain(um_device *device)
{
    if (device) atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
    return device;
}

void um_device_release(um_device *device)
{
    if (!device) return;
    int32_t refs = atomic_load_explicit(&device->refs, memory_order_relaxed);
    while (refs > 1) {
        if (atomic_compare_exchange_weak_explicit(&device->refs, &refs, refs - 1,
                                                  memory_order_release, memory_order_relaxed)) {
            return;
        }
    }
    if (um_registry_drop(device)) device_destroy(device);
}

/* ---- looking -------------------------------------------------------------------------------- */

um_status um_device_caps(um_device *device, um_caps *out)
{
    if (!device || !out || out->struct_size < offsetof(um_caps, name)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_device_caps: %s",
                       !device ? "device is NULL"
                       : !out  ? "out is NULL"
                               : "out->struct_size is not set");
    }
    struct {
        um_caps caps;
        uint8_t beyond[1024]; /* a backend of another version that writes here is found out */
    } room;
    memset(&room, 0, sizeof room);
    room.caps.struct_size = sizeof room.caps;
    um_status status = device->driver.table->caps(device->driver.device, &room.caps);
    if (!um_is_zero(room.beyond, sizeof room.beyond))
        status = UM_FAIL(UM_ABI_MISMATCH, "%s: caps wrote beyond the %zu bytes of um_caps",
                         device->name, sizeof room.caps);
    um_caps *caps = &room.caps;
    caps->struct_size = out->struct_size;
    caps->name[sizeof caps->name - 1] = 0;
    caps->isa[sizeof caps->isa - 1] = 0;
    caps->version[sizeof caps->version - 1] = 0;
    caps->matrix_tile_count = UM_MAX(0, UM_MIN(caps->matrix_tile_count, UM_MATRIX_TILES_MAX));
    memcpy(out, caps, UM_MIN((size_t)out->struct_size, sizeof *caps));
    return status;
}

const char *um_device_name(const um_device *device) { return device ? device->name : ""; }

/* ---- the layer above ------------------------------------------------------------------------ */

um_status um_device_attach(um_device *device, um_status (*make)(um_device *device, void **out),
                           void (*destroy)(void *attachment), void **out)
{
    um_status status = UM_OK;
    um_mutex_lock(&device->attach_mutex);
    if (!device->attachment) status = make(device, &device->attachment);
    device->attachment_destroy = destroy;
    *out = device->attachment;
    um_mutex_unlock(&device->attach_mutex);
    return status;
}
