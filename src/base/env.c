/* base/env.c: every environment variable the library reads, by its row in env.def. */
#include "base/base.h"

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

const char *um_env_get(um_env variable)
{
    const char *text = getenv(rows[variable].name);
    return text && text[0] ? text : NULL;
}
