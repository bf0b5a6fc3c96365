/* device/disk.c: a file holds a head (whose it is), three numbers, a key and its data. A key has
 * two places to be in, so that two that meet in one need not drive each other out. */
#include "device/disk.h"

#include <stdio.h>
#include <umbel/select.h>

enum { NAME = 192, HEAD = 600, PATH = 1024, PLACES = 1024, MAX_BYTES = 1 << 20 };

struct um_disk {
    um_disk_desc desc; /* but for its texts */
    char folder[PATH]; /* "": none */
    char head[HEAD];
    size_t head_bytes;
};

typedef struct numbers {
    uint64_t key_bytes, size_bytes, hash; /* of both */
} numbers;

void um_disk_device(um_device_kind kind, const char *name, bool plain, char *out, size_t out_size)
{
    snprintf(out, out_size, "%s-%.150s", um_device_kind_name(kind), name);
    for (char *c = out; plain && *c; c++) {
        bool keep = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                    (*c >= '0' && *c <= '9') || *c == '-' || *c == '.';
        if (!keep) *c = '_';
    }
}

um_status um_disk_create(const um_disk_desc *desc, um_disk **out)
{
    char name[NAME], dir[PATH - NAME - 64];
    *out = NULL;
    um_disk *s = um_mem_zalloc(sizeof *s);
    if (!s) return UM_FAIL(UM_OUT_OF_MEMORY, "disk: no memory");
    s->desc = *desc;
    if (s->desc.places == 0) s->desc.places = PLACES;
    if (s->desc.max_bytes == 0) s->desc.max_bytes = MAX_BYTES;
    um_disk_device(desc->kind, desc->name, false, name, sizeof name);
    snprintf(s->head, sizeof s->head, "umbel %.30s %d.%d.%d\n%s\n%.300s\n", desc->what,
             UM_VERSION_MAJOR, UM_VERSION_MINOR, UM_VERSION_PATCH, name, desc->driver);
    s->head_bytes = strlen(s->head);
    um_disk_device(desc->kind, desc->name, true, name, sizeof name);
    if (um_env_cache_dir(dir, sizeof dir))
        snprintf(s->folder, sizeof s->folder, "%s/%.30s-%s", dir, desc->what, name);
    *out = s;
    return UM_OK;
}

void um_disk_release(um_disk *disk) { um_mem_free(disk); }

/* The key's first or second place. */
static void set_path(const um_disk *s, uint64_t hash, int32_t which, char path[PATH + 16])
{
    uint64_t place = (which ? hash >> 32 : hash & UINT32_MAX) % (uint64_t)s->desc.places;
    snprintf(path, PATH + 16, "%s/%04x", s->folder, (unsigned)place);
}

static uint64_t hash_of(const void *key, size_t key_bytes, const void *data, size_t size_bytes)
{
    return um_hash(data, size_bytes, um_hash(key, key_bytes, 1));
}

/* true: a file of this disk's. */
static bool is_ours(const um_disk *s, const um_file *file, numbers *out)
{
    uint64_t before = s->head_bytes + sizeof *out;
    if (file->size_bytes < before || memcmp(file->data, s->head, s->head_bytes) != 0) return false;
    memcpy(out, file->data + s->head_bytes, sizeof *out);
    uint64_t rest = file->size_bytes - before;
    return out->key_bytes <= rest && out->size_bytes == rest - out->key_bytes;
}

static bool get_at(const um_disk *s, const char *path, const void *key, size_t key_bytes,
                   um_disk_entry *out)
{
    numbers n;
    if (um_file_open(path, &out->file) != UM_OK) return false;
    if (is_ours(s, &out->file, &n) && n.key_bytes == key_bytes) {
        const uint8_t *at = out->file.data + s->head_bytes + sizeof n;
        out->data = at + key_bytes;
        out->size_bytes = n.size_bytes;
        if (memcmp(at, key, key_bytes) == 0 &&
            hash_of(at, key_bytes, out->data, (size_t)n.size_bytes) == n.hash)
            return true;
    }
    um_file_close(&out->file);
    return false;
}

bool um_disk_get(const um_disk *s, const void *key, size_t key_bytes, um_disk_entry *out)
{
    char path[PATH + 16];
    um_error before = *um_last_error();
    bool found = false;
    uint64_t hash = um_hash(key, key_bytes, 0);
    for (int32_t which = 0; which < 2 && s->folder[0] && !found; which++) {
        set_path(s, hash, which, path);
        found = get_at(s, path, key, key_bytes, out);
    }
    um_fail_again(&before);
    if (!found) *out = (um_disk_entry){0};
    return found;
}

void um_disk_entry_release(um_disk_entry *entry) { um_file_close(&entry->file); }

/* Whether there is something of ours, of another key. */
static bool is_taken(const um_disk *s, const char *path, const void *key, size_t key_bytes)
{
    um_file file;
    numbers n;
    if (um_file_open(path, &file) != UM_OK) return false;
    bool taken = is_ours(s, &file, &n) &&
                 (n.key_bytes != key_bytes ||
                  memcmp(file.data + s->head_bytes + sizeof n, key, key_bytes) != 0);
    um_file_close(&file);
    return taken;
}

/* The first place that is free; with none, one that the key decides. */
static void choose_path(const um_disk *s, const void *key, size_t key_bytes, char path[PATH + 16])
{
    uint64_t hash = um_hash(key, key_bytes, 0);
    for (int32_t which = 0; which < 2; which++) {
        set_path(s, hash, which, path);
        if (!is_taken(s, path, key, key_bytes)) return;
    }
    set_path(s, hash, (int32_t)(hash >> 20 & 1), path);
}

void um_disk_put(const um_disk *s, const void *key, size_t key_bytes, const void *data,
                 size_t size_bytes)
{
    char path[PATH + 16];
    um_error before = *um_last_error();
    if (!s->folder[0] || size_bytes > s->desc.max_bytes ||
        key_bytes > s->desc.max_bytes - size_bytes)
        return;
    numbers n = {key_bytes, size_bytes, hash_of(key, key_bytes, data, size_bytes)};
    size_t total = s->head_bytes + sizeof n + key_bytes + size_bytes;
    uint8_t *all = um_mem_alloc(total), *at = all;
    if (all) {
        memcpy(at, s->head, s->head_bytes);
        memcpy(at += s->head_bytes, &n, sizeof n);
        memcpy(at += sizeof n, key, key_bytes);
        memcpy(at + key_bytes, data, size_bytes);
        choose_path(s, key, key_bytes, path);
        (void)um_file_replace(path, all, total); /* without it the next process compiles again */
    }
    um_mem_free(all);
    um_fail_again(&before);
}
