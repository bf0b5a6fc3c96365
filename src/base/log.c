/* base/log.c: the log callback, silent until one is set, and the topics of UMBEL_DEBUG, which go to
 * stderr as well. Nothing else in the library writes to a standard stream. */
#include "base/os.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

static um_mutex log_mutex = UM_MUTEX_INIT; /* guards log_fn and log_user */
static um_log_fn log_fn;
static void *log_user;
/* Relaxed: a hint that keeps the silent path free of locks; the mutex decides. */
static _Atomic int32_t log_level = INT32_MAX;

static char debug_topics[256]; /* written once, by debug_init */
static um_once debug_once = UM_ONCE_INIT;

void um_set_log(um_log_fn fn, void *user, int32_t min_level)
{
    um_mutex_lock(&log_mutex);
    log_fn = fn;
    log_user = user;
    atomic_store_explicit(&log_level, fn ? min_level : INT32_MAX, memory_order_relaxed);
    um_mutex_unlock(&log_mutex);
}

bool um_log_wanted(int32_t level)
{
    return level >= atomic_load_explicit(&log_level, memory_order_relaxed);
}

static void send(int32_t level, const char *message)
{
    um_mutex_lock(&log_mutex);
    um_log_fn fn = um_log_wanted(level) ? log_fn : NULL;
    void *user = log_user;
    um_mutex_unlock(&log_mutex);
    if (fn) fn(user, level, message);
}

void um_log_write(int32_t level, const char *format, ...)
{
    if (!um_log_wanted(level)) return;
    char message[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= 0) send(level, message);
}

static void debug_init(void)
{
    const char *text = um_env_get(UM_ENV_DEBUG);
    if (text) snprintf(debug_topics, sizeof debug_topics, "%s", text);
}

bool um_debug_on(const char *topic)
{
    um_call_once(&debug_once, debug_init);
    return um_list_has(debug_topics, topic);
}

void um_debug_write(const char *topic, const char *format, ...)
{
    if (!um_debug_on(topic)) return;
    char message[1024];
    int head = snprintf(message, sizeof message, "%s: ", topic);
    if (head < 0 || (size_t)head >= sizeof message) return;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message + head, sizeof message - (size_t)head, format, args);
    va_end(args);
    if (length < 0) return;
    fprintf(stderr, "umbel: %s\n", message); /* one call: lines of several threads stay whole */
    if (um_log_wanted(UM_LOG_DEBUG)) send(UM_LOG_DEBUG, message);
}
