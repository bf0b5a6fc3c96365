/* umbel/base.h: status codes, the thread's last error, allocator and log hooks, dtypes.
 *
 * Everything here may be called from any thread, before or after anything else. Nothing in Umbel
 * prints, exits, aborts or asserts on any input; every failure is a um_status with a message.
 */
#ifndef UMBEL_BASE_H
#define UMBEL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UM_VERSION_MAJOR  0
#define UM_VERSION_MINOR  1
#define UM_VERSION_PATCH  0
#define UM_VERSION_STRING "0.1.0"

#if defined(_WIN32) && defined(UM_SHARED)
#ifdef UM_BUILDING
#define UM_API __declspec(dllexport)
#else
#define UM_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define UM_API __attribute__((visibility("default")))
#else
#define UM_API
#endif

#if defined(__GNUC__)
#define UM_MUST_CHECK                      __attribute__((warn_unused_result))
#define UM_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))
#else
#define UM_MUST_CHECK
#define UM_PRINTF(format_index, first_arg)
#endif

/* Ownership, read by people and by binding generators; they expand to nothing.
 * UM_TAKE: the callee now owns this reference, also when it fails. UM_KEEP: borrowed for the call.
 * UM_GIVE: the caller owns what is returned. */
#define UM_TAKE
#define UM_KEEP
#define UM_GIVE

/* ---- status ------------------------------------------------------------------------------- */

/* Numbers are pinned for ever; new codes are appended. */
typedef int32_t um_status;
enum {
    UM_OK = 0,
    UM_INVALID_ARGUMENT = 1, /* the call is wrong: shapes, dtypes, sizes, pointers, overlap */
    UM_UNSUPPORTED = 2,      /* legal, but no device in reach can do it */
    UM_DEVICE_ERROR = 3,
    UM_OUT_OF_MEMORY = 4, /* everything stays usable; recoverable */
    UM_NOT_INITIALIZED = 5,
    UM_OUT_OF_RANGE = 6, /* an index outside its tensor */
    UM_NOT_FOUND = 7,    /* no such device, file, name */
    UM_NOT_READY = 8,    /* work is still under way (um_query) */
    UM_TIMEOUT = 9,
    UM_DEVICE_LOST = 10,
    UM_COMPILE_FAILED = 11,
    UM_ABI_MISMATCH = 12,
    UM_IO_ERROR = 13,
    UM_CORRUPT_DATA = 14,
    UM_CANCELLED = 15,
    UM_INTERNAL = 16
};

/* Everything known about a failure. Fixed storage: recording one never allocates. */
typedef struct um_error {
    um_status code;
    int32_t native_code; /* the driver's or the system's own number (errno, VkResult), else 0 */
    char op[32];         /* the op's name, or "" */
    char backend[16];    /* "cpu", "vulkan", ..., or "" */
    char message[464];   /* who, what, got, wanted; one line, no newline at the end */
} um_error;

/* The calling thread's last failure. Never NULL; code UM_OK and an empty message when nothing
 * failed yet. A successful call leaves it as it is. Valid until this thread's next failing call. */
UM_API const um_error *um_last_error(void);

/* "OK", "INVALID_ARGUMENT", ...; "UNKNOWN" for a number that is no status. Never NULL. */
UM_API const char *um_status_name(um_status status);

/* "0.1.0". The library's, as linked at run time; UM_VERSION_STRING is the header's. */
UM_API const char *um_version(void);

/* ---- host memory -------------------------------------------------------------------------- */

/* Both functions must be callable from any thread. alloc returns size bytes aligned to align (a
 * power of two, at most 4096) or NULL; size is never 0. free gets what alloc gave, never NULL. */
typedef struct um_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size_bytes, size_t align_bytes);
    void (*free)(void *user, void *ptr);
} um_allocator;

/* Replaces the allocator of the whole library; NULL restores the default. To be called while
 * nothing made by the library is alive: INVALID_ARGUMENT otherwise, or when a function is NULL. */
UM_API UM_MUST_CHECK um_status um_set_allocator(const um_allocator *allocator);

/* ---- log ---------------------------------------------------------------------------------- */

enum { UM_LOG_DEBUG = 0, UM_LOG_INFO = 1, UM_LOG_WARNING = 2, UM_LOG_ERROR = 3 };

typedef void (*um_log_fn)(void *user, int32_t level, const char *message);

/* Messages of level >= min_level go to fn, from whichever thread has one, never with a lock held
 * that the callback could need. NULL (the default) is silence: then only what an environment
 * variable asks for (UMBEL_DEBUG) is written, to stderr. */
UM_API void um_set_log(um_log_fn fn, void *user, int32_t min_level);

/* ---- dtypes ------------------------------------------------------------------------------- */

/* Numbers are pinned; the rows are in umbel/dtype.def. */
typedef int32_t um_dtype;
enum {
    UM_DTYPE_NONE = 0,
#define UM_DTYPE(id, NAME, name, bits, kind) UM_##NAME = id,
#include <umbel/dtype.def>
#undef UM_DTYPE
};

typedef int32_t um_dtype_kind;
enum { UM_KIND_NONE = 0, UM_KIND_FLOAT = 1, UM_KIND_INT = 2, UM_KIND_UINT = 3, UM_KIND_BOOL = 4 };

/* "f32", "bf16", "f8e4m3fn", ...; "none" for a number that is no dtype. Never NULL. */
UM_API const char *um_dtype_name(um_dtype dtype);

/* The dtype with that name (case-insensitive), or UM_DTYPE_NONE. */
UM_API um_dtype um_dtype_find(const char *name);

/* Bits of one stored element: 64, 32, 16, 8, or 4 (two to a byte, the first in the low half). The
 * 6-bit floats are stored one to a byte, in its low bits. 0 for no dtype. */
UM_API int32_t um_dtype_bits(um_dtype dtype);

/* UM_KIND_FLOAT, ...; UM_KIND_NONE for a number that is no dtype. */
UM_API um_dtype_kind um_dtype_get_kind(um_dtype dtype);

/* Bytes that `count` packed elements take, rounded up to whole bytes.
 * INVALID_ARGUMENT: no such dtype, count < 0, or the size does not fit. */
UM_API UM_MUST_CHECK um_status um_dtype_size(um_dtype dtype, int64_t count, size_t *size_bytes);

/* Converts `count` packed elements in host memory. Rounds to nearest, ties to even; subnormals
 * kept; too large: inf where the type has one, else saturates (all FP4, FP6 and E4M3 types,
 * E5M2FNUZ saturate); NaN stays NaN, or the type's largest value where it has none (FP4, FP6).
 * Float to int truncates and saturates, NaN to 0. To bool: x != 0. e8m0 is a power of two: rounds
 * to the nearest (a tie goes up), 0 and below give its smallest, NaN and inf its NaN. Nothing is
 * rounded twice. The ranges must not overlap unless dtypes and pointers are equal.
 * INVALID_ARGUMENT: no such dtype, count < 0, NULL with count > 0. */
UM_API UM_MUST_CHECK um_status um_convert(um_dtype dst_dtype, void *dst, um_dtype src_dtype,
                                          const void *src, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
