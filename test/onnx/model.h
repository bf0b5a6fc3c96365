/* test/onnx/model.h: an ONNX model as structs, read from protobuf bytes that nothing vouches for.
 *
 * Just the parts that the operator cases use. Everything lives in an arena and is freed with it;
 * tensors' data stays where the file was read to, which must live as long. */
#ifndef UM_TEST_ONNX_MODEL_H
#define UM_TEST_ONNX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <umbel/base.h>

/* ---- memory and bytes -------------------------------------------------------------------------
 */

typedef struct onnx_arena {
    struct onnx_chunk *chunks;
} onnx_arena;

/* Zeroed and aligned; NULL: no memory. */
void *onnx_alloc(onnx_arena *arena, size_t count, size_t size);
void onnx_arena_free(onnx_arena *arena);

typedef struct onnx_bytes {
    const uint8_t *data;
    size_t size;
} onnx_bytes;

/* A file's bytes, in the arena; data NULL: it cannot be read. */
onnx_bytes onnx_read_file(onnx_arena *arena, const char *path);

/* ---- element types: TensorProto.DataType, numbers as in onnx.proto ------------------------------
 */

enum {
    ONNX_NONE = 0,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT = 1,
    ONNX_UINT4 = 21,
    ONNX_INT4 = 22,
    ONNX_UINT2 = 25,
    ONNX_INT2 = 26
};

/* What holds such elements: the same type, or i8 and u8 for the 4- and 2-bit integers, one a byte;
 * UM_DTYPE_NONE: nothing does (strings, complex numbers). */
um_dtype onnx_dtype(int32_t type);
/* The type that a dtype stands for. */
int32_t onnx_type(um_dtype dtype);
/* "f32", ..., "i4"; never NULL. */
const char *onnx_type_name(int32_t type);
/* 4 or 2 for the integers narrower than their dtype, else 0. */
int32_t onnx_narrow_bits(int32_t type);

/* ---- the model ----------------------------------------------------------------------------------
 */

enum { ONNX_MAX_RANK = 8 };

typedef struct onnx_tensor {
    const char *name;
    int32_t type;
    int32_t rank;
    int64_t shape[ONNX_MAX_RANK];
    int64_t count;
    onnx_bytes raw;     /* either this */
    onnx_bytes message; /* or the typed fields of the message itself */
    bool has_raw;
} onnx_tensor;

/* Which of the fields is meant depends on who asks; those that are not there are empty. */
typedef struct onnx_attr {
    const char *name;
    float f;
    int64_t i;
    const char *s;
    const onnx_tensor *t;
    const struct onnx_graph *g;
    const int64_t *ints;
    size_t int_count;
    const float *floats;
    size_t float_count;
} onnx_attr;

typedef struct onnx_node {
    const char *op, *domain;
    const char **in, **out; /* "": left out */
    size_t in_count, out_count;
    const onnx_attr *attrs;
    size_t attr_count;
} onnx_node;

/* A graph's input or output. */
typedef struct onnx_port {
    const char *name;
    const char *kind; /* "tensor", "sequence", "optional", "map" */
    int32_t type;     /* of a tensor's elements */
} onnx_port;

typedef struct onnx_graph {
    const onnx_node *nodes;
    size_t node_count;
    const onnx_tensor *inits;
    size_t init_count;
    const onnx_port *in, *out;
    size_t in_count, out_count;
} onnx_graph;

typedef struct onnx_model {
    onnx_graph graph;
    int64_t opset; /* of the default domain, else of the one there is */
} onnx_model;

/* CORRUPT_DATA with a message: not what onnx.proto says; UNSUPPORTED: functions, external data;
 * OUT_OF_MEMORY. */
um_status onnx_read_model(onnx_arena *arena, onnx_bytes bytes, onnx_model *out);
um_status onnx_read_tensor(onnx_arena *arena, onnx_bytes bytes, onnx_tensor *out);

/* The elements, packed as onnx_dtype says, in the arena. CORRUPT_DATA: more or fewer than the shape
 * says; UNSUPPORTED: no dtype holds them; OUT_OF_MEMORY. */
um_status onnx_tensor_data(onnx_arena *arena, const onnx_tensor *tensor, onnx_bytes *out);

#endif
