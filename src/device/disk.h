/* device/disk.h: bytes kept on disk between runs, for drivers: what a driver compiled, its
 * pipeline cache. Each by a key of bytes; a file each, in a folder of the device's in
 * UMBEL_CACHE_DIR. There is a fixed number of places: what is new takes the place of something old.
 */
#ifndef UM_DEVICE_DISK_H
#define UM_DEVICE_DISK_H

#include "base/os.h"

#include <umbel/backend.h>

typedef struct um_disk um_disk;

typedef struct um_disk_desc {
    const char *what; /* "programs": the folder's name begins so */
    um_device_kind kind;
    const char *name, *driver; /* the device's; all that says which driver it is: of another's files
                                  nothing is read */
    int32_t places;            /* files at most; 0: 1024 */
    uint64_t max_bytes;        /* of key and data of one; larger ones are not kept; 0: 1 MiB */
} um_disk_desc;

typedef struct um_disk_entry {
    const uint8_t *data;
    uint64_t size_bytes;
    um_file file;
} um_disk_entry;

/* Of any thread and process, like what follows. OUT_OF_MEMORY. */
um_status um_disk_create(const um_disk_desc *desc, um_disk **out);
void um_disk_release(um_disk *disk); /* NULL is legal */
/* false: it is not there, or what is there is damaged or another's; `out` is 0. The caller releases
 * it. */
bool um_disk_get(const um_disk *disk, const void *key, size_t key_bytes, um_disk_entry *out);
void um_disk_entry_release(um_disk_entry *entry);
/* What fails on the way is forgotten. */
void um_disk_put(const um_disk *disk, const void *key, size_t key_bytes, const void *data,
                 size_t size_bytes);

/* "opencl-NAME": a device in the heads of files; with `plain`, in their names. */
void um_disk_device(um_device_kind kind, const char *name, bool plain, char *out, size_t out_size);

#endif
