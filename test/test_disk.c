/* Bytes kept between runs (device/disk.h): what is put comes back, and nothing else ever does. */
#include "base/base.h"
#include "device/disk.h"
#include "test.h"

#include <stdlib.h>
#include <umbel/umbel.h>
#include <unistd.h>

static char folder[] = "/tmp/umbel_disk_XXXXXX";
static char inner[200];
static int files;

static um_disk *new_disk(const char *driver, int32_t places)
{
    um_disk *disk;
    CHECK_OK(um_disk_create(&(um_disk_desc){.what = "programs",
                                            .kind = UM_DEVICE_OPENCL,
                                            .name = "a/device",
                                            .driver = driver,
                                            .places = places,
                                            .max_bytes = 1000},
                            &disk));
    return disk;
}

static void put(const um_disk *disk, const char *key, const char *data)
{
    um_disk_put(disk, key, strlen(key), data, strlen(data));
}

/* data NULL: it is not there. */
static bool has(const um_disk *disk, const char *key, const char *data)
{
    um_disk_entry entry;
    if (!um_disk_get(disk, key, strlen(key), &entry)) return data == NULL;
    bool same = data && entry.size_bytes == strlen(data) &&
                memcmp(entry.data, data, (size_t)entry.size_bytes) == 0;
    um_disk_entry_release(&entry);
    return same;
}

static void what_is_put_comes_back(void)
{
    um_disk *disk = new_disk("1.0", 0), *again = new_disk("1.0", 0), *newer = new_disk("1.1", 0);
    CHECK(has(disk, "key", NULL));
    put(disk, "key", "data");
    put(disk, "", "of no key");
    put(disk, "empty", "");
    CHECK(has(disk, "key", "data") && has(again, "key", "data"));
    CHECK(has(again, "", "of no key") && has(again, "empty", "") && has(again, "ke", NULL));
    put(again, "key", "other data");
    CHECK(has(disk, "key", "other data"));
    CHECK(has(newer, "key", NULL)); /* another driver's */
    put(newer, "key", "newer");
    CHECK(has(newer, "key", "newer") && has(disk, "key", NULL));
    um_disk_release(disk);
    um_disk_release(again);
    um_disk_release(newer);
    um_disk_release(NULL);
}

static void too_large_is_not_kept(void)
{
    char large[1100];
    um_disk *disk = new_disk("1.0", 0);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    put(disk, "large", large);
    CHECK(has(disk, "large", NULL));
    large[990] = 0;
    put(disk, "large", large);
    CHECK(has(disk, "large", large));
    um_disk_release(disk);
}

static void count_file(void *user, const char *name)
{
    (void)user;
    files += name[0] != '.';
}

/* Two that meet do not drive each other out, and there are never more files than places. */
static void places_are_few(void)
{
    char key[20];
    int32_t kept = 0;
    um_disk *disk = new_disk("few", 8);
    put(disk, "a", "1");
    put(disk, "b", "2");
    CHECK(has(disk, "a", "1") && has(disk, "b", "2"));
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        put(disk, key, key);
        CHECK(has(disk, key, key));
    }
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        kept += has(disk, key, key);
    }
    CHECK_MSG(kept >= 4 && kept <= 8, "%d are kept", kept);
    um_disk_release(disk);
}

/* Every byte of the file changed, and every shorter file. */
static void what_is_damaged_is_not_there(void)
{
    char path[300];
    um_file file;
    uint8_t bytes[600];
    um_disk *disk = new_disk("1.0", 1);
    put(disk, "the key", "the data");
    snprintf(path, sizeof path, "%s/0000", inner);
    CHECK_OK(um_file_open(path, &file));
    size_t size = (size_t)file.size_bytes;
    CHECK(size > 8 && size <= sizeof bytes);
    memcpy(bytes, file.data, UM_MIN(size, sizeof bytes));
    um_file_close(&file);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x41;
        CHECK_OK(um_file_replace(path, bytes, size));
        CHECK_MSG(has(disk, "the key", NULL), "byte %d", (int)i);
        bytes[i] ^= 0x41;
        CHECK_OK(um_file_replace(path, bytes, i));
        CHECK_MSG(has(disk, "the key", NULL), "%d bytes", (int)i);
    }
    CHECK_OK(um_file_replace(path, bytes, size));
    CHECK(has(disk, "the key", "the data"));
    CHECK(unlink(path) == 0 && has(disk, "the key", NULL));
    um_disk_release(disk);
}

/* A folder that cannot be written is none; the last error is the caller's. */
static void no_folder(void)
{
    CHECK(setenv("UMBEL_CACHE_DIR", "/dev/null/x", 1) == 0);
    um_disk *disk = new_disk("1.0", 0);
    um_status before = UM_FAIL(UM_CANCELLED, "before");
    put(disk, "key", "data");
    CHECK(has(disk, "key", NULL) && um_last_error()->code == before);
    um_disk_release(disk);
}

int main(void)
{
    char command[300];
    CHECK(mkdtemp(folder) != NULL && setenv("UMBEL_CACHE_DIR", folder, 1) == 0);
    snprintf(inner, sizeof inner, "%s/programs-opencl-a_device", folder);
    TEST(what_is_put_comes_back);
    TEST(too_large_is_not_kept);
    CHECK_OK(um_os_list(inner, "", count_file, NULL));
    CHECK_MSG(files == 4, "%d files", files);
    TEST(places_are_few);
    TEST(what_is_damaged_is_not_there);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK(system(command) == 0);
    TEST(no_folder);
    return TEST_RESULT();
}
