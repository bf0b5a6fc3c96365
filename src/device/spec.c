/* Device specs: "cpu", "nvidia:1", "auto+trace". Turns the text into a backend, a device number and
 * layers; called by um_open. */
#include "device/device.h"
#include "device/plugin.h"

#include <ctype.h>
#include <stdio.h>
#include <umbel/select.h>

#define SPEC_MAX 256

static const um_layer *const layers[] = {
#define UM_LAYER(name) &um_layer_##name,
#include "device/layers.def"
#undef UM_LAYER
};

/* NOT_FOUND: "um_open: <what>; there is: cpu:0 (...), null:0 (...)". */
static um_status not_found(const char *what)
{
    char there_is[320];
    um_registry_list(there_is, sizeof there_is);
    return UM_FAIL(UM_NOT_FOUND, "um_open: %s; there is: %s", what, there_is);
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = 0;
    return text;
}

static const um_layer *find_layer(const char *name)
{
    for (size_t i = 0; i < UM_COUNT_OF(layers); i++) {
        if (strcmp(layers[i]->name, name) == 0) return layers[i];
    }
    return NULL;
}

/* Digits only, below 10^6; -1 otherwise. */
static int32_t parse_ordinal(const char *text)
{
    int32_t value = 0;
    size_t length = strlen(text);
    if (length == 0 || length > 6) return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

/* The backend with that name, or -1. */
static int32_t find_backend(const char *name)
{
    for (int32_t i = 0; i < um_backend_count(); i++) {
        if (strcmp(um_backend_name_at(i), name) == 0) return i;
    }
    return -1;
}

/* "cpu", "nvidia:1", "auto". */
static um_status parse_device(const char *text, um_spec *out)
{
    char what[2 * SPEC_MAX + 64], word[SPEC_MAX];
    out->is_auto = strcmp(text, "auto") == 0;
    if (out->is_auto) return UM_OK;
    snprintf(word, sizeof word, "%s", text);
    char *colon = strchr(word, ':');
    if (colon) *colon = 0;
    um_device_kind kind = um_device_kind_parse(word);
    const char *name = kind ? um_device_kind_name(kind) : trim(word);
    int32_t index = find_backend(name), count = 0, ordinal = 0;
    if (index < 0) {
        snprintf(what, sizeof what,
                 kind ? "\"%s\" is of kind %s, which has no backend in this build"
                      : "no device is called \"%s\"%.0s",
                 text, name);
        return not_found(what);
    }
    UM_TRY(um_backend_describe(index, NULL, &count, NULL));
    if (colon) ordinal = parse_ordinal(trim(colon + 1));
    if (ordinal < 0 || ordinal >= count) {
        snprintf(what, sizeof what, "no device \"%s\"", text);
        return not_found(what);
    }
    out->device = (um_device_ref){index, ordinal};
    return UM_OK;
}

static um_status no_layer(const char *name)
{
    char there_is[128] = "";
    for (size_t i = 0, used = 0; i < UM_COUNT_OF(layers) && used < sizeof there_is; i++) {
        used += (size_t)snprintf(there_is + used, sizeof there_is - used, "%s%s", i ? ", " : "",
                                 layers[i]->name);
    }
    return UM_FAIL(UM_NOT_FOUND, "um_open: no layer \"%s\"; there is: %s", name, there_is);
}

/* "trace", "fault=call:3" */
static um_status parse_layer(char *text, um_spec *out)
{
    char *equals = strchr(text, '=');
    if (equals) *equals = 0;
    const char *name = trim(text), *params = equals ? trim(equals + 1) : "";
    const um_layer *layer = find_layer(name);
    if (!layer) return no_layer(name);
    if (equals && !layer->params) {
        return UM_FAIL(UM_NOT_FOUND, "um_open: the layer %s takes no parameters, got \"%s\"", name,
                       params);
    }
    if (strlen(params) >= UM_SPEC_PARAMS_MAX) {
        return UM_FAIL(UM_NOT_FOUND, "um_open: %s=%s is longer than %d characters", name, params,
                       UM_SPEC_PARAMS_MAX - 1);
    }
    if (out->layer_count == UM_SPEC_LAYERS_MAX) {
        return UM_FAIL(UM_NOT_FOUND, "um_open: more than %d layers", UM_SPEC_LAYERS_MAX);
    }
    out->layers[out->layer_count].layer = layer;
    snprintf(out->layers[out->layer_count].params, UM_SPEC_PARAMS_MAX, "%s", params);
    out->layer_count++;
    return UM_OK;
}

/* "trace+validate", cut up. */
static um_status parse_layers(char *text, um_spec *out)
{
    while (text) {
        char *plus = strchr(text, '+');
        if (plus) *plus = 0;
        UM_TRY(parse_layer(text, out));
        text = plus ? plus + 1 : NULL;
    }
    return UM_OK;
}

/* In small letters. */
static um_status copy_text(const char *text, char *copy)
{
    size_t length = strlen(text);
    if (length >= SPEC_MAX) {
        return UM_FAIL(UM_NOT_FOUND, "um_open: a device name of %zu characters, at most %d", length,
                       SPEC_MAX - 1);
    }
    for (size_t i = 0; i <= length; i++) copy[i] = (char)tolower((unsigned char)text[i]);
    return UM_OK;
}

um_status um_spec_parse_layers(const char *text, um_spec *spec)
{
    char copy[SPEC_MAX];
    spec->layer_count = 0;
    UM_TRY(copy_text(text, copy));
    return parse_layers(*trim(copy) ? copy : NULL, spec);
}

um_status um_spec_parse(const char *text, um_spec *out)
{
    char copy[SPEC_MAX], by_name[SPEC_MAX];
    *out = (um_spec){0};
    if (strchr(text, '/')) {
        UM_TRY(um_plugin_spec(text, by_name, sizeof by_name));
        text = by_name;
    }
    UM_TRY(copy_text(text, copy));
    char *plus = strchr(copy, '+');
    if (plus) *plus = 0;
    UM_TRY(parse_device(trim(copy), out));
    return parse_layers(plus ? plus + 1 : NULL, out);
}
