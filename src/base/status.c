/* base/status.c: the status names, the version and each thread's last error, in fixed storage so
 * that recording a failure never allocates. Called from everywhere. */
#include "base/base.h"

#include <stdio.h>
#include <umbel/backend.h>

static _Thread_local um_error last_error;

const um_error *um_last_error(void) { return &last_error; }

um_status um_status_last(void) { return last_error.code; }

const char *um_version(void) { return UM_VERSION_STRING; }

const char *um_status_name(um_status status)
{
    static const char *const names[] = {
        [UM_OK] = "OK",
        [UM_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [UM_UNSUPPORTED] = "UNSUPPORTED",
        [UM_DEVICE_ERROR] = "DEVICE_ERROR",
        [UM_OUT_OF_MEMORY] = "OUT_OF_MEMORY",
        [UM_NOT_INITIALIZED] = "NOT_INITIALIZED",
        [UM_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [UM_NOT_FOUND] = "NOT_FOUND",
        [UM_NOT_READY] = "NOT_READY",
        [UM_TIMEOUT] = "TIMEOUT",
        [UM_DEVICE_LOST] = "DEVICE_LOST",
        [UM_COMPILE_FAILED] = "COMPILE_FAILED",
        [UM_ABI_MISMATCH] = "ABI_MISMATCH",
        [UM_IO_ERROR] = "IO_ERROR",
        [UM_CORRUPT_DATA] = "CORRUPT_DATA",
        [UM_CANCELLED] = "CANCELLED",
        [UM_INTERNAL] = "INTERNAL",
    };
    if (status < 0 || (size_t)status >= UM_COUNT_OF(names)) return "UNKNOWN";
    return names[status];
}

/* Bytes of the UTF-8 character that starts with `lead`; 1 for a byte that starts none. */
static size_t utf8_length(unsigned char lead)
{
    if (lead >= 0xf0) return 4;
    if (lead >= 0xe0) return 3;
    return lead >= 0xc0 ? 2 : 1;
}

/* The longest prefix of text, at most `limit` bytes, that does not end inside a character. */
static size_t whole_prefix(const char *text, size_t limit)
{
    size_t start = limit;
    while (start > 0 && limit - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0) return limit;
    size_t have = limit - (start - 1);
    return utf8_length((unsigned char)text[start - 1]) > have ? start - 1 : limit;
}

static bool is_blank(char c) { return (unsigned char)c <= ' ' || c == 0x7f; }

/* Copies text as one line: control characters become spaces, and none ends it. */
static void copy_line(char *dst, size_t dst_size, const char *text)
{
    size_t length = strlen(text);
    if (length >= dst_size) length = whole_prefix(text, dst_size - 1);
    while (length > 0 && is_blank(text[length - 1])) length--;
    for (size_t i = 0; i < length; i++) dst[i] = is_blank(text[i]) ? ' ' : text[i];
    dst[length] = '\0';
}

um_status um_fail_v(um_status code, const char *backend, const char *op, int32_t native_code,
                    const char *format, va_list args)
{
    /* Built apart: the arguments may point into the last error. One byte more than a message
     * holds, so that the cut is made by copy_line, which knows where characters end. */
    um_error error = {.code = code, .native_code = native_code};
    char text[sizeof error.message + 1];
    if (vsnprintf(text, sizeof text, format, args) < 0)
        snprintf(text, sizeof text, "%s (text lost)", um_status_name(code));
    copy_line(error.message, sizeof error.message, text);
    copy_line(error.backend, sizeof error.backend, backend ? backend : "");
    copy_line(error.op, sizeof error.op, op ? op : "");
    last_error = error;
    return code;
}

um_status um_fail(um_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    um_fail_v(code, NULL, NULL, 0, format, args);
    va_end(args);
    return code;
}

um_status um_backend_fail(um_status code, const char *backend, const char *op, int32_t native_code,
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    um_fail_v(code, backend, op, native_code, format, args);
    va_end(args);
    return code;
}

um_status um_fail_again(const um_error *error)
{
    if (error != &last_error) last_error = *error;
    return last_error.code;
}

um_status um_fail_tag(const char *backend, const char *op)
{
    if (backend && !last_error.backend[0])
        copy_line(last_error.backend, sizeof last_error.backend, backend);
    if (op && !last_error.op[0]) copy_line(last_error.op, sizeof last_error.op, op);
    return last_error.code;
}
