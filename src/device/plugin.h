/* device/plugin.h: backends that come as shared libraries: finding, loading and refusing them.
 * Public calls are in umbel/plugin.h. Used by registry.c and spec.c. */
#ifndef UM_DEVICE_PLUGIN_H
#define UM_DEVICE_PLUGIN_H

#include "base/base.h"

#include <umbel/plugin.h>

/* ---- plugin.c: the list -----------------------------------------------------------------------
 */

/* Plugins whose backends count among um_backend_count's, in the order in which they came. */
int32_t um_plugin_backend_count(void);
/* Loads nothing. index is valid. */
const char *um_plugin_backend_name(int32_t index);
/* Loads it when that was not done yet. A refused one has a table with no device. */
const um_backend *um_plugin_backend_at(int32_t index);
/* Why the table's plugin was refused into why; leaves it alone when it was not. */
void um_plugin_why(const um_backend *table, char *why, size_t why_size);
/* The device spec "path/to/lib.so:0+trace", whose library is loaded, as "name:0+trace". */
um_status um_plugin_spec(const char *spec, char *out, size_t out_size);

/* ---- manifest.c -------------------------------------------------------------------------------
 */

typedef struct um_manifest {
    char name[16], kind[16], file[256];
    uint32_t abi;
} um_manifest;
/* CORRUPT_DATA: what is wrong, in which line. Names are checked, abi is not. */
um_status um_manifest_parse(const void *text, size_t size_bytes, um_manifest *out);
/* Letters, digits, - and _, at most 15, the first a letter; no capitals. */
bool um_plugin_name_is_good(const char *name);

/* ---- guard.c: what a plugin hands over, checked before it is believed -------------------------
 */

/* Loads the library and asks it for its backend. The table is a copy of full size, its name (16
 * bytes) apart. version: 32 bytes. */
um_status um_plugin_open(const char *path, um_backend *table, char *name, char *version);

#endif
