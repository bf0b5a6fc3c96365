/* cli/info.c: `umbel info`: every device, what it can do, and for each backend without a device
 * why.
 */
#include "cli/cli.h"

#include <string.h>
#include <umbel/umbel.h>

enum { DTYPE_END = 32 }; /* the capability masks have 32 bits */

static const char *memory_name(um_memory_kind kind)
{
    static const char *const names[] = {"unknown", "host", "device", "shared"};
    return kind >= 0 && kind <= UM_MEMORY_SHARED ? names[kind] : "unknown";
}

/* "fp16 f64" of a mask. */
static const char *features_text(uint32_t mask, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t bit = 1; um_feature_name(bit) && used < size; bit <<= 1) {
        if (!(mask & bit)) continue;
        int n = snprintf(text + used, size - used, "%s%s", used ? " " : "", um_feature_name(bit));
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* "f64 f32 f16" of a mask. */
static const char *mask_text(uint32_t mask, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int32_t d = 1; d < DTYPE_END; d++) {
        if (!(mask >> d & 1u) || used >= size) continue;
        int n = snprintf(text + used, size - used, "%s%s", used ? " " : "", um_dtype_name(d));
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static const char *bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    if (bytes)
        snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    else
        snprintf(text, size, "unknown");
    return text;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void show_bytes(const char *label, uint64_t bytes)
{
    char text[32];
    printf("  %-16s %s\n", label, bytes_text(bytes, text, sizeof text));
}

/* What only a device that launches kernels in work-groups has. */
static void show_launch(const um_caps *caps)
{
    printf("  %-16s %d of %d x %d x %d, %d x %d x %d of them\n", "work-groups",
           caps->group_invocations_max, caps->group_size_max[0], caps->group_size_max[1],
           caps->group_size_max[2], caps->group_count_max[0], caps->group_count_max[1],
           caps->group_count_max[2]);
    show_bytes("shared memory", caps->group_shared_bytes);
    printf("  %-16s %d\n", "bindings", caps->bindings_max);
    show_bytes("largest binding", caps->binding_max_bytes);
    for (int32_t i = 0; i < caps->matrix_tile_count; i++) {
        const um_matrix_tile *tile = &caps->matrix_tiles[i];
        printf("  %-16s %d x %d x %d of %s into %s\n", i ? "" : "matrix tiles", tile->m, tile->n,
               tile->k, um_dtype_name(tile->input), um_dtype_name(tile->accumulator));
    }
}

static void show_caps(const um_caps *caps)
{
    char text[256];
    printf("  %-16s %s\n", "kind", um_device_kind_name(caps->kind));
    if (caps->version[0]) printf("  %-16s %s\n", "version", caps->version);
    if (caps->isa[0]) printf("  %-16s %s\n", "kernel set", caps->isa);
    printf("  %-16s %d\n", "compute units", caps->compute_units);
    if (caps->cores_logical)
        printf("  %-16s %d, processors %d\n", "cores", caps->cores_physical, caps->cores_logical);
    printf("  %-16s %d to %d\n", "subgroup lanes", caps->subgroup_min, caps->subgroup_max);
    show_bytes("memory", caps->memory_total_bytes);
    show_bytes("memory free", caps->memory_free_bytes);
    show_bytes("largest buffer", caps->buffer_max_bytes);
    printf("  %-16s %s\n", "memory kind", memory_name(caps->memory_kind));
    show_bytes("L1 data cache", caps->l1_bytes);
    show_bytes("L2 cache", caps->l2_bytes);
    show_bytes("L3 cache", caps->l3_bytes);
    if (caps->group_invocations_max) show_launch(caps);
    features_text(caps->features, text, sizeof text);
    printf("  %-16s %s\n", "features", text[0] ? text : "none");
    mask_text(caps->arithmetic, text, sizeof text);
    printf("  %-16s %s\n", "computes on", text[0] ? text : "nothing");
    mask_text(caps->storage & ~caps->arithmetic, text, sizeof text);
    if (text[0]) printf("  %-16s %s\n", "stores, too", text);
}

/* ---- both ------------------------------------------------------------------------------------ */

static um_status get_caps(const char *backend, int32_t ordinal, um_caps *caps)
{
    char spec[32];
    um_device *device = NULL;
    snprintf(spec, sizeof spec, "%s:%d", backend, ordinal);
    *caps = (um_caps){.struct_size = sizeof *caps};
    um_status status = um_open(spec, &device);
    if (status == UM_OK) status = um_device_caps(device, caps);
    um_device_release(device);
    return status;
}

static void show_device(const um_device_info *info)
{
    um_caps caps;
    bool software = info->kind < UM_DEVICE_CPU && !info->is_gpu;
    printf("%s:%d  %s%s\n", info->backend, info->ordinal, info->name,
           software ? ", software device" : "");
    if (get_caps(info->backend, info->ordinal, &caps) == UM_OK)
        show_caps(&caps);
    else
        printf("  does not open: %s\n", um_last_error()->message);
    putchar('\n');
}

static void json_mask(cli_json *json, const char *key, uint32_t mask)
{
    cli_json_open(json, key, '[');
    for (int32_t d = 1; d < DTYPE_END; d++)
        if (mask >> d & 1u) cli_json_text(json, NULL, um_dtype_name(d));
    cli_json_close(json, ']');
}

static void json_sizes(cli_json *json, const char *key, const int32_t *sizes)
{
    cli_json_open(json, key, '[');
    for (int i = 0; i < 3; i++) cli_json_int(json, NULL, sizes[i]);
    cli_json_close(json, ']');
}

static void json_launch(cli_json *json, const um_caps *caps)
{
    json_sizes(json, "group_size_max", caps->group_size_max);
    json_sizes(json, "group_count_max", caps->group_count_max);
    cli_json_int(json, "group_invocations_max", caps->group_invocations_max);
    cli_json_u64(json, "group_shared_bytes", caps->group_shared_bytes);
    cli_json_int(json, "bindings_max", caps->bindings_max);
    cli_json_u64(json, "binding_max_bytes", caps->binding_max_bytes);
    cli_json_open(json, "matrix_tiles", '[');
    for (int32_t i = 0; i < caps->matrix_tile_count; i++) {
        const um_matrix_tile *tile = &caps->matrix_tiles[i];
        cli_json_open(json, NULL, '{');
        cli_json_int(json, "m", tile->m);
        cli_json_int(json, "n", tile->n);
        cli_json_int(json, "k", tile->k);
        cli_json_text(json, "input", um_dtype_name(tile->input));
        cli_json_text(json, "accumulator", um_dtype_name(tile->accumulator));
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
}

static void json_caps(cli_json *json, const um_caps *caps)
{
    cli_json_text(json, "version", caps->version);
    cli_json_text(json, "memory_kind", memory_name(caps->memory_kind));
    cli_json_int(json, "cores_physical", caps->cores_physical);
    cli_json_int(json, "cores_logical", caps->cores_logical);
    cli_json_open(json, "features", '[');
    for (uint32_t bit = 1; um_feature_name(bit); bit <<= 1)
        if (caps->features & bit) cli_json_text(json, NULL, um_feature_name(bit));
    cli_json_close(json, ']');
    json_launch(json, caps);
    cli_json_text(json, "isa", caps->isa);
    cli_json_int(json, "compute_units", caps->compute_units);
    cli_json_int(json, "subgroup_min", caps->subgroup_min);
    cli_json_int(json, "subgroup_max", caps->subgroup_max);
    cli_json_u64(json, "memory_total_bytes", caps->memory_total_bytes);
    cli_json_u64(json, "memory_free_bytes", caps->memory_free_bytes);
    cli_json_u64(json, "buffer_max_bytes", caps->buffer_max_bytes);
    cli_json_u64(json, "l1_bytes", caps->l1_bytes);
    cli_json_u64(json, "l2_bytes", caps->l2_bytes);
    cli_json_u64(json, "l3_bytes", caps->l3_bytes);
    json_mask(json, "storage", caps->storage);
    json_mask(json, "arithmetic", caps->arithmetic);
}

static void json_device(cli_json *json, const um_device_info *info)
{
    um_caps caps;
    cli_json_open(json, NULL, '{');
    cli_json_int(json, "ordinal", info->ordinal);
    cli_json_text(json, "name", info->name);
    cli_json_text(json, "kind", um_device_kind_name(info->kind));
    if (get_caps(info->backend, info->ordinal, &caps) == UM_OK)
        json_caps(json, &caps);
    else
        cli_json_text(json, "error", um_last_error()->message);
    cli_json_close(json, '}');
}

/* um_backend_describe, for a plugin's backend only if it can be loaded. */
static um_status find_devices(int32_t index, const char **name, int32_t *count, const char **why)
{
    um_status status = um_backend_describe(index, name, NULL, NULL);
    if (status == UM_OK) *why = cli_plugin_crash(*name);
    return status != UM_OK || *why ? status : um_backend_describe(index, NULL, count, why);
}

static um_status show_backend(int32_t index)
{
    const char *name, *why;
    int32_t count = 0;
    um_status status = find_devices(index, &name, &count, &why);
    if (status == UM_OK && count == 0) printf("%s: no device: %s\n", name, why);
    for (int32_t i = 0; status == UM_OK && i < count; i++) {
        um_device_info info = {.struct_size = sizeof info};
        status = um_device_describe(index, i, &info);
        if (status == UM_OK) show_device(&info);
    }
    return status;
}

static um_status json_backend(cli_json *json, int32_t index)
{
    const char *name, *why;
    int32_t count = 0;
    um_status status = find_devices(index, &name, &count, &why);
    if (status != UM_OK) return status;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "name", name);
    cli_json_text(json, "why_none", count ? NULL : why);
    cli_json_open(json, "devices", '[');
    for (int32_t i = 0; status == UM_OK && i < count; i++) {
        um_device_info info = {.struct_size = sizeof info};
        status = um_device_describe(index, i, &info);
        if (status == UM_OK) json_device(json, &info);
    }
    cli_json_close(json, ']');
    cli_json_close(json, '}');
    return status;
}

/* ---- backends that this build does not have -------------------------------------------------- */

/* Every name a device spec may use. */
static const char *const all_backends[] = {
#define UM_KIND(KIND, name, words) name,
#include "device/kinds.def"
#undef UM_KIND
};

static bool is_built(const char *wanted)
{
    for (int32_t i = 0; i < um_backend_count(); i++) {
        const char *name;
        if (um_backend_describe(i, &name, NULL, NULL) == UM_OK && strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

static const char *const not_built = "not in this build";

static um_status show_all(void)
{
    um_status status = UM_OK;
    printf("umbel %s\n\n", um_version());
    for (int32_t i = 0; status == UM_OK && i < um_backend_count(); i++) status = show_backend(i);
    for (size_t i = 0; i < sizeof all_backends / sizeof *all_backends; i++)
        if (!is_built(all_backends[i])) printf("%s: no device: %s\n", all_backends[i], not_built);
    cli_plugins_show();
    return status;
}

static um_status json_all(void)
{
    um_status status = UM_OK;
    cli_json json = {.file = stdout};
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "version", um_version());
    cli_json_open(&json, "backends", '[');
    for (int32_t i = 0; status == UM_OK && i < um_backend_count(); i++)
        status = json_backend(&json, i);
    for (size_t i = 0; i < sizeof all_backends / sizeof *all_backends; i++) {
        if (is_built(all_backends[i])) continue;
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "name", all_backends[i]);
        cli_json_text(&json, "why_none", not_built);
        cli_json_open(&json, "devices", '[');
        cli_json_close(&json, ']');
        cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
    cli_plugins_json(&json);
    cli_json_close(&json, '}');
    return status;
}

int cli_info(int argc, char **argv)
{
    bool as_json = false;
    const cli_option options[] = {
        {.name = "json", .kind = CLI_FLAG, .out = &as_json, .doc = "for programs"},
    };
    const cli_command command = {.name = "info",
                                 .summary = "Show the devices and what they can do.",
                                 .options = options,
                                 .option_count = 1};
    int code = cli_parse(&command, argc, argv);
    if (code != CLI_GO) return code;
    return (as_json ? json_all() : show_all()) == UM_OK ? CLI_DONE : cli_fail_status();
}
