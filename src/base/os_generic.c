/* base/os_generic.c: the machine as sysconf knows it, for POSIX systems without a file of their
 * own.
 */
#if !defined(__linux__)
#include "base/os.h"

#include <stdio.h>
#include <unistd.h>

int32_t um_os_cpu_count(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
}

int32_t um_os_core_count(void) { return 0; }

void um_os_memory(uint64_t *total_bytes, uint64_t *free_bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    *total_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
    *free_bytes = 0;
}

void um_os_caches(uint64_t *l1_bytes, uint64_t *l2_bytes, uint64_t *l3_bytes)
{
    *l1_bytes = *l2_bytes = *l3_bytes = 0;
}

void um_os_cpu_name(char *name, size_t name_size) { snprintf(name, name_size, "CPU"); }

void um_os_name_thread(const char *name) { (void)name; }

void um_os_want_huge(void *ptr, size_t size_bytes)
{
    (void)ptr;
    (void)size_bytes;
}

#else
typedef int um_os_generic_is_empty;
#endif
