/* test/onnx/wire.h: the fields of a protobuf message (the wire format of
 * protobuf.dev/programming-guides/encoding). */
#ifndef UM_TEST_ONNX_WIRE_H
#define UM_TEST_ONNX_WIRE_H

#include "model.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct wire_field {
    uint32_t number;
    uint32_t kind;
    uint64_t value;   /* varint, fixed */
    onnx_bytes bytes; /* WIRE_BYTES */
} wire_field;

/* The next field of what is left; false at the end, and with *corrupt set when there is no telling
 * what comes next. */
bool wire_next(onnx_bytes *left, wire_field *field, bool *corrupt);
/* How often the message has a field; the message is one that wire_next can walk. */
size_t wire_count(onnx_bytes message, uint32_t number);
/* Whether wire_next reaches the end. */
bool wire_is_valid(onnx_bytes message);

/* All numbers of a repeated field of varints (WIRE_VARINT) or of fixed size, packed and single
 * ones, as 64-bit words. false: corrupt, or no memory (then *count is not 0). */
bool wire_numbers(onnx_arena *arena, onnx_bytes message, uint32_t number, uint32_t kind,
                  const uint64_t **out, size_t *count);
/* The bytes with a zero after them. NULL: one is among them, or no memory. */
const char *wire_string(onnx_arena *arena, onnx_bytes bytes);

#endif
