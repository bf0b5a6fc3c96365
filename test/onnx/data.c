/* test/onnx/data.c: the element types, and a tensor's elements out of its many forms. */
#include "base/base.h"
#include "wire.h"

#include <string.h>

/* Rows by number. field: which typed field of TensorProto holds such elements: 4 float_data, 5
 * int32_data, 7 int64_data, 10 double_data, 11 uint64_data. */
static const struct {
    int32_t type;
    um_dtype dtype;
    const char *name;
    int32_t bits; /* of an element of raw data */
    uint32_t field;
} types[] = {
    {1, UM_F32, "f32", 32, 4},
    {2, UM_U8, "u8", 8, 5},
    {3, UM_I8, "i8", 8, 5},
    {4, UM_U16, "u16", 16, 5},
    {5, UM_I16, "i16", 16, 5},
    {6, UM_I32, "i32", 32, 5},
    {ONNX_INT64, UM_I64, "i64", 64, 7},
    {ONNX_STRING, UM_DTYPE_NONE, "string", 0, 0},
    {ONNX_BOOL, UM_BOOL, "bool", 8, 5},
    {10, UM_F16, "f16", 16, 5},
    {11, UM_F64, "f64", 64, 10},
    {12, UM_U32, "u32", 32, 11},
    {13, UM_U64, "u64", 64, 11},
    {14, UM_DTYPE_NONE, "c64", 0, 0},
    {15, UM_DTYPE_NONE, "c128", 0, 0},
    {16, UM_BF16, "bf16", 16, 5},
    {17, UM_F8E4M3FN, "f8e4m3fn", 8, 5},
    {18, UM_F8E4M3FNUZ, "f8e4m3fnuz", 8, 5},
    {19, UM_F8E5M2, "f8e5m2", 8, 5},
    {20, UM_F8E5M2FNUZ, "f8e5m2fnuz", 8, 5},
    {ONNX_UINT4, UM_U8, "u4", 4, 5},
    {ONNX_INT4, UM_I8, "i4", 4, 5},
    {23, UM_F4E2M1, "f4e2m1", 4, 5},
    {24, UM_F8E8M0, "f8e8m0", 8, 5},
    {ONNX_UINT2, UM_U8, "u2", 2, 5},
    {ONNX_INT2, UM_I8, "i2", 2, 5},
};

um_dtype onnx_dtype(int32_t type)
{
    for (size_t i = 0; i < UM_COUNT_OF(types); i++)
        if (types[i].type == type) return types[i].dtype;
    return UM_DTYPE_NONE;
}

int32_t onnx_type(um_dtype dtype)
{
    for (size_t i = 0; i < UM_COUNT_OF(types); i++)
        if (types[i].dtype == dtype) return types[i].type; /* i8 stands before i4 and i2 */
    return ONNX_NONE;
}

const char *onnx_type_name(int32_t type)
{
    for (size_t i = 0; i < UM_COUNT_OF(types); i++)
        if (types[i].type == type) return types[i].name;
    return "no type";
}

int32_t onnx_narrow_bits(int32_t type)
{
    bool four = type == ONNX_INT4 || type == ONNX_UINT4;
    bool two = type == ONNX_INT2 || type == ONNX_UINT2;
    return four ? 4 : two ? 2 : 0;
}

static um_status wrong_size(const onnx_tensor *tensor, size_t got, size_t want)
{
    return UM_FAIL(UM_CORRUPT_DATA,
                   "onnx: tensor %s has %zu bytes or elements, its shape wants %zu", tensor->name,
                   got, want);
}

/* The raw form of the typed fields. */
static um_status raw_from_fields(onnx_arena *arena, const onnx_tensor *tensor, size_t row,
                                 onnx_bytes *out)
{
    uint32_t field = types[row].field;
    uint32_t kind = field == 4 ? WIRE_FIXED32 : field == 10 ? WIRE_FIXED64 : WIRE_VARINT;
    const uint64_t *words;
    size_t count, bytes = UM_MAX((size_t)types[row].bits / 8, 1);
    if (!wire_numbers(arena, tensor->message, field, kind, &words, &count))
        return UM_FAIL(UM_CORRUPT_DATA, "onnx: tensor %s: its numbers cannot be read",
                       tensor->name);
    uint8_t *data = onnx_alloc(arena, count, bytes);
    if (!data) return UM_FAIL(UM_OUT_OF_MEMORY, "onnx: no memory for %zu numbers", count);
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < bytes; b++) data[i * bytes + b] = (uint8_t)(words[i] >> (8 * b));
    *out = (onnx_bytes){data, count * bytes};
    return UM_OK;
}

/* Integers of 4 and 2 bits, the first in the low bits, to one a byte. */
static um_status spread(onnx_arena *arena, onnx_bytes raw, int32_t bits, bool is_signed,
                        int64_t count, onnx_bytes *out)
{
    uint8_t *data = onnx_alloc(arena, (size_t)count, 1);
    if (!data) return UM_FAIL(UM_OUT_OF_MEMORY, "onnx: no memory");
    uint32_t sign = 1u << (bits - 1), mask = (1u << bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        uint32_t value = (uint32_t)raw.data[i * bits / 8] >> (i * bits % 8) & mask;
        data[i] = (uint8_t)(is_signed ? (value ^ sign) - sign : value);
    }
    *out = (onnx_bytes){data, (size_t)count};
    return UM_OK;
}

um_status onnx_tensor_data(onnx_arena *arena, const onnx_tensor *tensor, onnx_bytes *out)
{
    *out = (onnx_bytes){0};
    size_t row = 0;
    while (row < UM_COUNT_OF(types) && types[row].type != tensor->type) row++;
    if (row == UM_COUNT_OF(types) || types[row].dtype == UM_DTYPE_NONE)
        return UM_FAIL(UM_UNSUPPORTED, "onnx: tensor %s: no dtype for %s (%d)", tensor->name,
                       onnx_type_name(tensor->type), (int)tensor->type);
    onnx_bytes raw = tensor->raw;
    if (!tensor->has_raw) UM_TRY(raw_from_fields(arena, tensor, row, &raw));
    size_t want = ((size_t)tensor->count * (size_t)types[row].bits + 7) / 8;
    if (raw.size != want) return wrong_size(tensor, raw.size, want);
    int32_t narrow = onnx_narrow_bits(tensor->type);
    if (narrow) return spread(arena, raw, narrow, types[row].dtype == UM_I8, tensor->count, out);
    *out = raw;
    return UM_OK;
}
