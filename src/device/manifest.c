/* The manifest beside a plugin's library: lines "key = value", read without loading anything. Comes
 * from outside, so nothing in it is believed. Called by plugin.c. */
#include "device/plugin.h"

#include <stdio.h>

#define MANIFEST_MAX 4096

bool um_plugin_name_is_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    size_t length = strlen(name);
    return length >= 1 && length <= 15 && strchr(letters, name[0]) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool take_word(const char *value, char *out)
{
    if (!um_plugin_name_is_good(value)) return false;
    snprintf(out, 16, "%s", value);
    return true;
}

/* A file in the manifest's own folder. */
static bool take_file(const char *value, char *out, size_t out_size)
{
    if (!*value || value[0] == '.' || strchr(value, '/') || strlen(value) >= out_size) return false;
    snprintf(out, out_size, "%s", value);
    return true;
}

static bool take_number(const char *value, uint32_t *out)
{
    size_t length = strspn(value, "0123456789");
    if (length == 0 || length > 9 || value[length]) return false;
    *out = 0;
    for (size_t i = 0; i < length; i++) *out = *out * 10 + (uint32_t)(value[i] - '0');
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

enum { SEEN_NAME = 1, SEEN_FILE = 2, SEEN_KIND = 4, SEEN_ABI = 8, SEEN_ALL = 15 };

static const struct {
    const char *key;
    uint32_t seen;
} keys[] = {{"name", SEEN_NAME}, {"file", SEEN_FILE}, {"kind", SEEN_KIND}, {"abi", SEEN_ABI}};

static bool take(um_manifest *m, uint32_t key, const char *value)
{
    switch (key) {
    case SEEN_NAME: return take_word(value, m->name);
    case SEEN_FILE: return take_file(value, m->file, sizeof m->file);
    case SEEN_KIND: return take_word(value, m->kind);
    default: return take_number(value, &m->abi);
    }
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1])) text[--length] = 0;
    return text;
}

static um_status parse_line(um_manifest *m, char *line, int number, uint32_t *seen)
{
    line = trim(line);
    if (!*line || *line == '#') return UM_OK;
    char *equals = strchr(line, '=');
    if (!equals)
        return UM_FAIL(UM_CORRUPT_DATA, "manifest: line %d: '%.40s', wanted KEY = VALUE", number,
                       line);
    *equals = 0;
    const char *key = trim(line), *value = trim(equals + 1);
    for (size_t i = 0; i < UM_COUNT_OF(keys); i++) {
        if (strcmp(keys[i].key, key) != 0) continue;
        if (*seen & keys[i].seen)
            return UM_FAIL(UM_CORRUPT_DATA, "manifest: line %d: a second %s", number, key);
        *seen |= keys[i].seen;
        if (take(m, keys[i].seen, value)) return UM_OK;
        return UM_FAIL(UM_CORRUPT_DATA, "manifest: line %d: '%.40s' is no good %s", number, value,
                       key);
    }
    return UM_OK; /* a key of a later version */
}

um_status um_manifest_parse(const void *text, size_t size_bytes, um_manifest *out)
{
    char copy[MANIFEST_MAX + 1];
    uint32_t seen = 0;
    *out = (um_manifest){.name = ""};
    if (size_bytes > MANIFEST_MAX)
        return UM_FAIL(UM_CORRUPT_DATA, "manifest: %zu bytes, at most %d", size_bytes,
                       MANIFEST_MAX);
    if (size_bytes && memchr(text, 0, size_bytes))
        return UM_FAIL(UM_CORRUPT_DATA, "manifest: no text: it holds a byte of 0");
    if (size_bytes) memcpy(copy, text, size_bytes);
    copy[size_bytes] = 0;
    char *line = copy;
    for (int number = 1; line; number++) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        UM_TRY(parse_line(out, line, number, &seen));
        line = end ? end + 1 : NULL;
    }
    for (size_t i = 0; i < UM_COUNT_OF(keys); i++) {
        if (!(seen & keys[i].seen))
            return UM_FAIL(UM_CORRUPT_DATA, "manifest: no line says its %s", keys[i].key);
    }
    return UM_OK;
}
