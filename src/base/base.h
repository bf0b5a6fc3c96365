/* base/base.h: what every other folder stands on: failing, host memory, checked sizes, environment,
 * log, classes of dtypes. Threads and time are in base/os.h. Nothing here knows an op or a device.
 */
#ifndef UM_BASE_BASE_H
#define UM_BASE_BASE_H

#include <stdarg.h>
#include <string.h>
#include <umbel/base.h>

/* ---- failing (status.c) ------------------------------------------------------------------- */

/* Records the calling thread's last error and returns code. */
um_status um_fail(um_status code, const char *format, ...) UM_PRINTF(2, 3);
um_status um_fail_v(um_status code, const char *backend, const char *op, int32_t native_code,
                    const char *format, va_list args);
/* Makes *error the thread's last error (an asynchronous failure reaching its reader); returns its
 * code. */
um_status um_fail_again(const um_error *error);
/* Of what keeps the first of its failures (code OK: none): keeps one more; is it again. */
static inline void um_error_keep(um_error *first, const um_error *error)
{
    if (first->code == UM_OK) *first = *error;
}
static inline um_status um_error_status(const um_error *first)
{
    return first->code == UM_OK ? UM_OK : um_fail_again(first);
}
/* Fills the op and backend fields of the last error where they are still empty; returns its code.
 */
um_status um_fail_tag(const char *backend, const char *op);
/* The code of the last error. */
um_status um_status_last(void);

#define UM_FAIL(code, ...) um_fail((code), __VA_ARGS__)
#define UM_TRY(expression)                                                                         \
    do {                                                                                           \
        um_status try_status_ = (expression);                                                      \
        if (try_status_ != UM_OK) return try_status_;                                              \
    } while (0)
#define UM_TRY_OR(expression, label)                                                               \
    do {                                                                                           \
        if ((expression) != UM_OK) goto label;                                                     \
    } while (0)

#define UM_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define UM_MIN(a, b)       ((a) < (b) ? (a) : (b))
#define UM_MAX(a, b)       ((a) > (b) ? (a) : (b))

/* ---- host memory (alloc.c) ---------------------------------------------------------------- */

void *um_mem_alloc(
    size_t size_bytes); /* aligned for any C type; NULL on failure; size 0 gives a unique pointer */
void *um_mem_zalloc(size_t size_bytes); /* zeroed */
void *um_mem_alloc_aligned(size_t size_bytes, size_t align_bytes);
/* A larger block with the first old_bytes copied; on failure NULL and ptr stays good. ptr may be
 * NULL. */
void *um_mem_grow(void *ptr, size_t old_bytes, size_t new_bytes);
void um_mem_free(void *ptr);      /* any of the above; NULL is legal */
int64_t um_mem_live_count(void);  /* blocks alive now */
int64_t um_mem_alloc_count(void); /* calls so far, failed ones too */
/* The failing twin: call `n` from now (1 is the next) fails, and with `forever` all after it; 0
 * switches it off. UMBEL_FAIL_ALLOC=n does the same for a whole process, counted from the first
 * call. */
void um_mem_fail_at(int64_t n, bool forever);
/* Whether the failing twin has failed a call since um_mem_fail_at. */
bool um_mem_failed(void);

/* Makes room for one element more in a growing array of `item` sized elements. */
um_status um_vec_reserve(void **items, int64_t *capacity, int64_t count, size_t item_bytes,
                         const char *who);

typedef struct um_arena_block um_arena_block;
/* Bump allocator; zero-initialised is empty. Blocks are kept by reset and given back by release. */
typedef struct um_arena {
    um_arena_block *first, *current;
} um_arena;
void *um_arena_alloc(um_arena *arena, size_t size_bytes); /* aligned to 64; NULL: out of memory */
void um_arena_reset(um_arena *arena);
void um_arena_release(um_arena *arena);

/* ---- checked sizes ------------------------------------------------------------------------ */

/* true and *out set when the result fits. */
static inline bool um_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool um_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool um_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline int64_t um_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
} /* a >= 0, b > 0 */

static inline bool um_is_zero(const uint8_t *bytes, size_t size_bytes)
{
    size_t i = 0;
    while (i < size_bytes && bytes[i] == 0) i++;
    return i == size_bytes;
}

/* ---- environment (env.c, rows in env.def) -------------------------------------------------- */

typedef enum um_env {
#define UM_ENV(NAME, doc) UM_ENV_##NAME,
#include "base/env.def"
#undef UM_ENV
    UM_ENV_COUNT
} um_env;
/* The variable's text, or NULL when it is not set or empty. */
const char *um_env_get(um_env variable);
/* Whether the word is in a list with commas; NULL is the empty list. */
bool um_list_has(const char *list, const char *word);
/* The folder for what is kept between runs (which may not be there): UMBEL_CACHE_DIR, else umbel in
 * XDG_CACHE_HOME or ~/.cache. false: none, or the program has more rights than its user. */
bool um_env_cache_dir(char *out, size_t out_size);
/* Rows, for help texts and docs. */
const char *um_env_name(um_env variable);
const char *um_env_doc(um_env variable);

/* ---- log (log.c) -------------------------------------------------------------------------- */

void um_log_write(int32_t level, const char *format, ...) UM_PRINTF(2, 3);
bool um_log_wanted(int32_t level);
/* Whether UMBEL_DEBUG's comma-separated list holds `topic`; its lines go to stderr and to the log.
 */
bool um_debug_on(const char *topic);
void um_debug_write(const char *topic, const char *format, ...) UM_PRINTF(2, 3);

/* ---- hash --------------------------------------------------------------------------------- */

uint64_t um_hash(const void *data, size_t size_bytes, uint64_t seed);

/* ---- classes: what kernels compute in (dtype.c) --------------------------------------------- */

/* Every dtype loads exactly into its class: f64 -> F64; other floats -> F32; u64 -> U64; other
 * integers, bool -> I64. */
typedef enum um_class { UM_CLASS_F32, UM_CLASS_F64, UM_CLASS_I64, UM_CLASS_U64 } um_class;
um_class um_dtype_class(um_dtype dtype);
static inline size_t um_class_bytes(um_class c) { return c == UM_CLASS_F32 ? 4 : 8; }
bool um_dtype_valid(um_dtype dtype);
static inline bool um_dtype_is_float(um_dtype d) { return d >= UM_F64 && d <= UM_F8E8M0; }

/* dst[i], packed, of class c = element first + i * stride of src, for i < n. Any dtype to any
 * class; where the class cannot hold the value, um_convert's rules. */
void um_load(um_class c, void *dst, um_dtype dtype, const void *src, int64_t first, int64_t stride,
             int64_t n);
/* Element first + i * stride of dst = src[i], of class c, by um_convert's rules; integers to
 * narrower integers wrap. */
void um_store(um_dtype dtype, void *dst, int64_t first, int64_t stride, um_class c, const void *src,
              int64_t n);

/* One value, bits in the low end. */
float um_f16_to_f32(uint16_t bits);
uint16_t um_f32_to_f16(float value);
float um_bf16_to_f32(uint16_t bits);
uint16_t um_f32_to_bf16(float value);

#endif
