#include "base/text.h"

#include <stdio.h>

static bool reserve(um_text *text, size_t more)
{
    if (text->status != UM_OK) return false;
    size_t wanted = (size_t)text->size + more + 1;
    if (wanted <= (size_t)text->capacity) return true;
    size_t capacity = UM_MAX(wanted, (size_t)text->capacity * 2);
    char *data = um_mem_grow(text->data, (size_t)text->size, capacity);
    if (!data) {
        text->status = UM_FAIL(UM_OUT_OF_MEMORY, "no memory for %zu bytes of text", capacity);
        return false;
    }
    text->data = data;
    text->capacity = (int64_t)capacity;
    return true;
}

void um_text_put(um_text *text, const char *data, size_t size)
{
    if (size == 0 || !reserve(text, size)) return;
    memcpy(text->data + text->size, data, size);
    text->size += (int64_t)size;
    text->data[text->size] = 0;
}

void um_text_print(um_text *text, const char *format, ...)
{
    char line[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(line, sizeof line, format, args);
    if (length < (int)sizeof line) {
        um_text_put(text, line, (size_t)length);
    } else if (reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
        text->size += length;
    }
    va_end(again);
    va_end(args);
}

void um_text_release(um_text *text)
{
    um_mem_free(text->data);
    *text = (um_text){0};
}
