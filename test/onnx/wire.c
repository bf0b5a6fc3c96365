/* test/onnx/wire.c: see wire.h. Every read is checked against what is left. */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onnx_chunk {
    struct onnx_chunk *next;
};

void *onnx_alloc(onnx_arena *arena, size_t count, size_t size)
{
    const size_t head = 64; /* keeps what follows aligned */
    if (count != 0 && size > (SIZE_MAX - head) / count) return NULL;
    struct onnx_chunk *chunk = calloc(1, head + count * size);
    if (!chunk) return NULL;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return (char *)chunk + head;
}

void onnx_arena_free(onnx_arena *arena)
{
    while (arena->chunks) {
        struct onnx_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}

onnx_bytes onnx_read_file(onnx_arena *arena, const char *path)
{
    onnx_bytes none = {0}, bytes = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return none;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    uint8_t *data = size >= 0 ? onnx_alloc(arena, (size_t)size, 1) : NULL;
    if (data && fseek(file, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)size, file) == (size_t)size)
        bytes = (onnx_bytes){data, (size_t)size};
    fclose(file);
    return bytes;
}

/* ---- fields -------------------------------------------------------------------------------------
 */

static bool read_varint(onnx_bytes *left, uint64_t *out)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && left->size > 0; shift += 7) {
        uint8_t byte = *left->data;
        left->data++, left->size--;
        value |= (uint64_t)(byte & 127u) << shift;
        if (byte < 128) {
            *out = value;
            return shift < 63 || byte < 2;
        }
    }
    return false;
}

static bool read_fixed(onnx_bytes *left, size_t bytes, uint64_t *out)
{
    if (left->size < bytes) return false;
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)left->data[i] << (8 * i);
    left->data += bytes, left->size -= bytes;
    *out = value;
    return true;
}

static bool read_number(onnx_bytes *left, uint32_t kind, uint64_t *out)
{
    if (kind == WIRE_VARINT) return read_varint(left, out);
    return read_fixed(left, kind == WIRE_FIXED64 ? 8 : 4, out);
}

static bool read_field(onnx_bytes *left, wire_field *field)
{
    uint64_t key, size;
    if (!read_varint(left, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) return false;
    *field = (wire_field){.number = (uint32_t)(key >> 3), .kind = key & 7};
    if (field->kind == WIRE_VARINT || field->kind == WIRE_FIXED64 || field->kind == WIRE_FIXED32)
        return read_number(left, field->kind, &field->value);
    if (field->kind != WIRE_BYTES || !read_varint(left, &size) || size > left->size) return false;
    field->bytes = (onnx_bytes){left->data, (size_t)size};
    left->data += size, left->size -= (size_t)size;
    return true;
}

bool wire_next(onnx_bytes *left, wire_field *field, bool *corrupt)
{
    if (left->size == 0) return false;
    if (read_field(left, field)) return true;
    *corrupt = true;
    return false;
}

size_t wire_count(onnx_bytes message, uint32_t number)
{
    wire_field field;
    bool corrupt = false;
    size_t count = 0;
    while (wire_next(&message, &field, &corrupt)) count += field.number == number;
    return count;
}

bool wire_is_valid(onnx_bytes message)
{
    wire_field field;
    bool corrupt = false;
    while (wire_next(&message, &field, &corrupt)) continue;
    return !corrupt;
}

/* ---- values -------------------------------------------------------------------------------------
 */

/* Counts the numbers, and stores them where out is not NULL. */
static bool walk_numbers(onnx_bytes message, uint32_t number, uint32_t kind, uint64_t *out,
                         size_t *count)
{
    wire_field field;
    bool corrupt = false;
    size_t n = 0;
    while (wire_next(&message, &field, &corrupt)) {
        if (field.number != number) continue;
        if (field.kind == kind) {
            if (out) out[n] = field.value;
            n++;
            continue;
        }
        if (field.kind != WIRE_BYTES) return false;
        while (field.bytes.size > 0) {
            uint64_t value;
            if (!read_number(&field.bytes, kind, &value)) return false;
            if (out) out[n] = value;
            n++;
        }
    }
    *count = n;
    return !corrupt;
}

bool wire_numbers(onnx_arena *arena, onnx_bytes message, uint32_t number, uint32_t kind,
                  const uint64_t **out, size_t *count)
{
    *out = NULL;
    *count = 0;
    if (!walk_numbers(message, number, kind, NULL, count)) {
        *count = 0;
        return false;
    }
    uint64_t *numbers = onnx_alloc(arena, *count, sizeof *numbers);
    *out = numbers;
    return numbers && walk_numbers(message, number, kind, numbers, count);
}

const char *wire_string(onnx_arena *arena, onnx_bytes bytes)
{
    if (bytes.size > 0 && memchr(bytes.data, 0, bytes.size)) return NULL;
    char *text = onnx_alloc(arena, bytes.size + 1, 1);
    if (text && bytes.size > 0) memcpy(text, bytes.data, bytes.size);
    return text;
}
