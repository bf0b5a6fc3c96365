/* base/os_linux.c: what Linux says about the machine, from /proc, /sys and the affinity mask.
 * os_generic.c has the same functions for other systems. */
#if defined(__linux__)
#include "base/os.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The affinity mask, to be given to CPU_FREE, or NULL. The kernel refuses a mask shorter than its
 * own, so the set grows until it fits. */
static cpu_set_t *affinity(size_t *size)
{
    for (int32_t limit = 1024; limit <= 1 << 20; limit *= 2) {
        cpu_set_t *set = CPU_ALLOC(limit);
        if (!set) return NULL;
        *size = CPU_ALLOC_SIZE(limit);
        if (sched_getaffinity(0, *size, set) == 0) return set;
        bool too_short = errno == EINVAL;
        CPU_FREE(set);
        if (!too_short) return NULL;
    }
    return NULL;
}

int32_t um_os_cpu_count(void)
{
    size_t size;
    cpu_set_t *set = affinity(&size);
    int32_t count = set ? (int32_t)CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
}

void um_os_memory(uint64_t *total_bytes, uint64_t *free_bytes)
{
    *total_bytes = *free_bytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return;
    char line[128];
    unsigned long long kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1) *total_bytes = kib << 10;
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) *free_bytes = kib << 10;
    }
    fclose(file);
}

/* The first line of a small file of /sys, without its newline; "" when there is none. */
static void read_line(const char *path, char *line, size_t line_size)
{
    line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (!fgets(line, (int)line_size, file)) line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* The first processor of the list "2-3,10" that is in the mask. */
static int32_t first_sibling(const char *list, const cpu_set_t *set, size_t size)
{
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu >= 0 && cpu <= last; cpu++) {
            if (CPU_ISSET_S((size_t)cpu, size, set)) return (int32_t)cpu;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return -1;
}

int32_t um_os_core_count(void)
{
    size_t size;
    cpu_set_t *set = affinity(&size);
    int32_t count = 0;
    for (int32_t cpu = 0; set && cpu < (int32_t)size * 8; cpu++) {
        char path[96], list[256];
        if (!CPU_ISSET_S((size_t)cpu, size, set)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        read_line(path, list, sizeof list);
        count += first_sibling(list, set, size) == cpu;
    }
    CPU_FREE(set);
    return count;
}

static uint64_t parse_size(const char *text)
{
    char *end;
    uint64_t size = strtoull(text, &end, 10);
    return *end == 'K' ? size << 10 : *end == 'M' ? size << 20 : size;
}

void um_os_caches(uint64_t *l1_bytes, uint64_t *l2_bytes, uint64_t *l3_bytes)
{
    uint64_t *levels[] = {l1_bytes, l2_bytes, l3_bytes};
    *l1_bytes = *l2_bytes = *l3_bytes = 0;
    for (int index = 0; index < 8; index++) {
        static const char *const fields[] = {"level", "type", "size"};
        char text[UM_COUNT_OF(fields)][32], path[96];
        for (size_t i = 0; i < UM_COUNT_OF(fields); i++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index,
                     fields[i]);
            read_line(path, text[i], sizeof text[i]);
        }
        int level = atoi(text[0]);
        if (level < 1 || level > 3 || strcmp(text[1], "Instruction") == 0) continue;
        *levels[level - 1] = parse_size(text[2]);
    }
}

/* x86 has a "model name" line; others get the best of what they print. */
void um_os_cpu_name(char *name, size_t name_size)
{
    snprintf(name, name_size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    static const char *const keys[] = {"model name", "Model", "cpu model", "uarch", "cpu"};
    size_t best = UM_COUNT_OF(keys);
    char line[512];
    while (best > 0 && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon) continue;
        size_t key = strcspn(line, "\t:");
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        for (size_t i = 0; i < best; i++) {
            if (strlen(keys[i]) != key || memcmp(line, keys[i], key) != 0) continue;
            snprintf(name, name_size, "%.*s", (int)strcspn(value, "\n"), value);
            best = i;
        }
    }
    fclose(file);
}

void um_os_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

void um_os_want_huge(void *ptr, size_t size_bytes)
{
    int saved = errno;
    madvise(ptr, size_bytes, MADV_HUGEPAGE); /* advice: a kernel without them refuses */
    errno = saved;
}

#else
typedef int um_os_linux_is_empty;
#endif
