/* base/env.c: every environment variable the library reads, by its row in env.def. */
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *doc;
} rows[UM_ENV_COUNT] = {
#define UM_ENV(NAME, doc) {"UMBEL_" #NAME, doc},
#include "base/env.def"
#undef UM_ENV
};

const char *um_env_name(um_env variable) { return rows[variable].name; }

const char *um_env_doc(um_env variable) { return rows[variable].doc; }

bool um_env_cache_dir(char *out, size_t out_size)
{
    const char *own = um_env_get(UM_ENV_CACHE_DIR), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    if (um_os_is_privileged()) return false;
    if (own)
        length = snprintf(out, out_size, "%s", own);
    else if (xdg && xdg[0] == '/')
        length = snprintf(out, out_size, "%s/umbel", xdg);
    else if (home && home[0] == '/')
        length = snprintf(out, out_size, "%s/.cache/umbel", home);
    return length > 0 && (size_t)length < out_size;
}

const char *um_env_get(um_env variable)
{
    const char *text = getenv(rows[variable].name);
    return text && text[0] ? text : NULL;
}

bool um_list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && *at;) {
        size_t item = strcspn(at, ",");
        if (item > 0 && item == length && memcmp(at, word, length) == 0) return true;
        at += item + (at[item] == ',');
    }
    return false;
}
