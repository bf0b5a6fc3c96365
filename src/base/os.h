/* base/os.h: threads, time, files and libraries over the system. os_posix.c implements it, with
 * os_linux.c or os_generic.c for what POSIX does not say; nothing else names the system. */
#ifndef UM_BASE_OS_H
#define UM_BASE_OS_H

#include "base/base.h"

#include <pthread.h>

typedef pthread_mutex_t um_mutex;
typedef pthread_cond_t um_cond;
typedef pthread_t um_thread;
typedef pthread_once_t um_once;
#define UM_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define UM_ONCE_INIT  PTHREAD_ONCE_INIT

um_status um_mutex_init(um_mutex *mutex);
void um_mutex_destroy(um_mutex *mutex);
void um_mutex_lock(um_mutex *mutex);
void um_mutex_unlock(um_mutex *mutex);
um_status um_cond_init(um_cond *cond);
void um_cond_destroy(um_cond *cond);
void um_cond_wait(um_cond *cond, um_mutex *mutex);
void um_cond_signal(um_cond *cond);
void um_cond_broadcast(um_cond *cond);
void um_call_once(um_once *once, void (*fn)(void));
/* Blocks all signals in the new thread; stack 512 KiB at least. */
um_status um_thread_start(um_thread *thread, void (*fn)(void *), void *arg, const char *name);
void um_thread_join(um_thread thread);

/* The default allocator: the system's heap, large blocks on huge pages where it has them. NULL on
 * failure; align_bytes is a power of two, at least sizeof(void *). */
void *um_os_alloc(size_t size_bytes, size_t align_bytes);
void um_os_free(void *ptr);

/* Processors this process may run on (affinity mask), at least 1. */
int32_t um_os_cpu_count(void);
/* Cores behind them: threads of one core count once; 0 when unknown. */
int32_t um_os_core_count(void);
/* Monotonic nanoseconds. */
int64_t um_os_now_ns(void);
/* Bytes of physical memory, total and available; 0 when unknown. */
void um_os_memory(uint64_t *total_bytes, uint64_t *free_bytes);
/* Sizes of the data caches of processor 0; 0 when unknown. */
void um_os_caches(uint64_t *l1_bytes, uint64_t *l2_bytes, uint64_t *l3_bytes);
/* The machine's instruction set, "x86_64"; "" when unknown. */
void um_os_machine(char *name, size_t name_size);
/* The processor's model name, or "CPU". */
void um_os_cpu_name(char *name, size_t name_size);

/* Gives the calling thread a name for debuggers, where the system has such. */
void um_os_name_thread(const char *name);
/* Says that a range of memory is worth huge pages. */
void um_os_want_huge(void *ptr, size_t size_bytes);

/* Copies size_bytes that may not be there, of memory that another library says is its own.
 * INVALID_ARGUMENT: they cannot be read. IO_ERROR: the system does not let us find out. */
um_status um_os_copy_unsure(void *dst, const void *src, size_t size_bytes);

/* Whether the program runs with more rights than the user who started it (setuid). */
bool um_os_is_privileged(void);

/* A hint to the core inside a spin loop. */
static inline void um_os_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- whole files, read-only (file_posix.c) --------------------------------------------------- */

typedef struct um_file {
    const uint8_t *data; /* mapped, or read where mapping is not to be had */
    uint64_t size_bytes;
    bool mapped;
} um_file;
/* NOT_FOUND, IO_ERROR (a directory, unreadable), OUT_OF_MEMORY; the message names path and the
 * system's reason. */
um_status um_file_open(const char *path, um_file *out);
void um_file_close(um_file *file);

/* Writes the file, and the folders that it lacks, so that others see the old one or the new one,
 * whole. IO_ERROR, NOT_FOUND. */
um_status um_file_replace(const char *path, const void *data, size_t size_bytes);

/* Calls fn for each file in the folder whose name ends in `suffix`, by name. NOT_FOUND, IO_ERROR.
 */
um_status um_os_list(const char *folder, const char *suffix,
                     void (*fn)(void *user, const char *name), void *user);
/* The file's absolute path, through no link. NOT_FOUND, IO_ERROR, OUT_OF_RANGE: longer than that.
 */
um_status um_os_real_path(const char *path, char *out, size_t out_size);

/* ---- libraries, loaded at run time (os_posix.c) -----------------------------------------------
 */

typedef void (*um_os_fn)(void);
/* The library at that path, its names for itself alone. IO_ERROR with the system's reason. */
um_status um_os_library_open(const char *path, void **out);
void *um_os_library_open_any(const char *const *names, size_t count); /* NULL: none is there */
um_os_fn um_os_library_find(void *library, const char *symbol);       /* NULL: not there */
void um_os_library_close(void *library);

#endif
