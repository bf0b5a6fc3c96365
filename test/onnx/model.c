/* test/onnx/model.c: protobuf messages to the structs of model.h. Field numbers are onnx.proto's.
 */
#include "base/base.h"
#include "wire.h"

#include <string.h>

enum { MAX_DEPTH = 8 }; /* of graphs in attributes of nodes of graphs */

static um_status corrupt(const char *what)
{
    return UM_FAIL(UM_CORRUPT_DATA, "onnx: %s: not what onnx.proto says", what);
}

static um_status no_memory(void) { return UM_FAIL(UM_OUT_OF_MEMORY, "onnx: no memory"); }

/* The last field with that number as a string; "" when there is none. */
static um_status get_string(onnx_arena *arena, onnx_bytes message, uint32_t number,
                            const char **out)
{
    wire_field field;
    bool bad = false;
    *out = "";
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != WIRE_BYTES) return corrupt("a string");
        *out = wire_string(arena, field.bytes);
        if (!*out) return corrupt("a string holds a zero, or there is no memory");
    }
    return UM_OK;
}

/* The last field with that number; `otherwise` when there is none. */
static um_status get_number(onnx_bytes message, uint32_t number, uint32_t kind, uint64_t otherwise,
                            uint64_t *out)
{
    wire_field field;
    bool bad = false;
    *out = otherwise;
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != kind) return corrupt("a number");
        *out = field.value;
    }
    return UM_OK;
}

/* The last field with that number as a message; *found false when there is none. */
static um_status get_message(onnx_bytes message, uint32_t number, onnx_bytes *out, bool *found)
{
    wire_field field;
    bool bad = false;
    *found = false;
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != WIRE_BYTES || !wire_is_valid(field.bytes)) return corrupt("a message");
        *out = field.bytes;
        *found = true;
    }
    return UM_OK;
}

static um_status get_strings(onnx_arena *arena, onnx_bytes message, uint32_t number,
                             const char ***out, size_t *count)
{
    wire_field field;
    bool bad = false;
    *count = 0;
    *out = onnx_alloc(arena, wire_count(message, number), sizeof **out);
    if (!*out) return no_memory();
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != WIRE_BYTES) return corrupt("a string");
        const char *text = wire_string(arena, field.bytes);
        if (!text) return corrupt("a string holds a zero, or there is no memory");
        (*out)[(*count)++] = text;
    }
    return UM_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------
 */

um_status onnx_read_tensor(onnx_arena *arena, onnx_bytes bytes, onnx_tensor *out)
{
    *out = (onnx_tensor){.message = bytes, .count = 1};
    if (!wire_is_valid(bytes)) return corrupt("a tensor");
    const uint64_t *dims;
    size_t rank;
    if (!wire_numbers(arena, bytes, 1, WIRE_VARINT, &dims, &rank)) return corrupt("a shape");
    if (rank > ONNX_MAX_RANK)
        return UM_FAIL(UM_UNSUPPORTED, "onnx: a tensor of rank %zu, at most %d are wanted", rank,
                       ONNX_MAX_RANK);
    out->rank = (int32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] > INT32_MAX) return corrupt("a size");
        out->shape[i] = (int64_t)dims[i];
        if (out->count > INT32_MAX / UM_MAX(out->shape[i], 1)) return corrupt("a shape");
        out->count *= out->shape[i];
    }
    uint64_t type, location;
    UM_TRY(get_number(bytes, 2, WIRE_VARINT, ONNX_NONE, &type));
    UM_TRY(get_number(bytes, 14, WIRE_VARINT, 0, &location));
    if (type == ONNX_NONE || type > INT32_MAX) return corrupt("an element type");
    if (location != 0) return UM_FAIL(UM_UNSUPPORTED, "onnx: data in another file");
    out->type = (int32_t)type;
    UM_TRY(get_string(arena, bytes, 8, &out->name));
    wire_field field;
    bool bad = false;
    while (wire_next(&bytes, &field, &bad)) {
        if (field.number != 9) continue;
        if (field.kind != WIRE_BYTES) return corrupt("raw data");
        out->raw = field.bytes;
        out->has_raw = true;
    }
    return UM_OK;
}

static um_status get_tensors(onnx_arena *arena, onnx_bytes message, uint32_t number,
                             const onnx_tensor **out, size_t *count)
{
    wire_field field;
    bool bad = false;
    *count = 0;
    onnx_tensor *tensors = onnx_alloc(arena, wire_count(message, number), sizeof *tensors);
    if (!tensors) return no_memory();
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != WIRE_BYTES) return corrupt("a tensor");
        UM_TRY(onnx_read_tensor(arena, field.bytes, &tensors[(*count)++]));
    }
    *out = tensors;
    return UM_OK;
}

/* ---- nodes and graphs ---------------------------------------------------------------------------
 */

static um_status read_graph(onnx_arena *arena, onnx_bytes bytes, int32_t depth, onnx_graph *out);

static um_status read_attr_lists(onnx_arena *arena, onnx_bytes bytes, onnx_attr *out)
{
    const uint64_t *words;
    if (!wire_numbers(arena, bytes, 8, WIRE_VARINT, &words, &out->int_count))
        return corrupt("an attribute's integers");
    out->ints = (const int64_t *)words;
    if (!wire_numbers(arena, bytes, 7, WIRE_FIXED32, &words, &out->float_count))
        return corrupt("an attribute's floats");
    float *floats = onnx_alloc(arena, out->float_count, sizeof *floats);
    if (!floats) return no_memory();
    for (size_t i = 0; i < out->float_count; i++) {
        uint32_t bits = (uint32_t)words[i];
        memcpy(&floats[i], &bits, 4);
    }
    out->floats = floats;
    return UM_OK;
}

static um_status read_attr(onnx_arena *arena, onnx_bytes bytes, int32_t depth, onnx_attr *out)
{
    *out = (onnx_attr){0};
    if (!wire_is_valid(bytes)) return corrupt("an attribute");
    UM_TRY(get_string(arena, bytes, 1, &out->name));
    UM_TRY(get_string(arena, bytes, 4, &out->s));
    uint64_t number;
    UM_TRY(get_number(bytes, 2, WIRE_FIXED32, 0, &number));
    uint32_t bits = (uint32_t)number;
    memcpy(&out->f, &bits, 4);
    UM_TRY(get_number(bytes, 3, WIRE_VARINT, 0, &number));
    out->i = (int64_t)number;
    UM_TRY(read_attr_lists(arena, bytes, out));
    onnx_bytes message;
    bool found;
    UM_TRY(get_message(bytes, 5, &message, &found));
    if (found) {
        onnx_tensor *tensor = onnx_alloc(arena, 1, sizeof *tensor);
        if (!tensor) return no_memory();
        UM_TRY(onnx_read_tensor(arena, message, tensor));
        out->t = tensor;
    }
    UM_TRY(get_message(bytes, 6, &message, &found));
    if (found) {
        onnx_graph *graph = onnx_alloc(arena, 1, sizeof *graph);
        if (!graph) return no_memory();
        UM_TRY(read_graph(arena, message, depth + 1, graph));
        out->g = graph;
    }
    return UM_OK;
}

static um_status read_node(onnx_arena *arena, onnx_bytes bytes, int32_t depth, onnx_node *out)
{
    *out = (onnx_node){0};
    if (!wire_is_valid(bytes)) return corrupt("a node");
    UM_TRY(get_strings(arena, bytes, 1, &out->in, &out->in_count));
    UM_TRY(get_strings(arena, bytes, 2, &out->out, &out->out_count));
    UM_TRY(get_string(arena, bytes, 4, &out->op));
    UM_TRY(get_string(arena, bytes, 7, &out->domain));
    onnx_attr *attrs = onnx_alloc(arena, wire_count(bytes, 5), sizeof *attrs);
    if (!attrs) return no_memory();
    wire_field field;
    bool bad = false;
    while (wire_next(&bytes, &field, &bad)) {
        if (field.number != 5) continue;
        if (field.kind != WIRE_BYTES) return corrupt("an attribute");
        UM_TRY(read_attr(arena, field.bytes, depth, &attrs[out->attr_count++]));
    }
    out->attrs = attrs;
    return UM_OK;
}

/* ValueInfoProto: a name and a TypeProto, of which one member says the kind. */
static um_status read_port(onnx_arena *arena, onnx_bytes bytes, onnx_port *out)
{
    static const struct {
        uint32_t number;
        const char *kind;
    } kinds[] = {{1, "tensor"}, {4, "sequence"}, {5, "map"}, {9, "optional"}};
    *out = (onnx_port){.kind = "tensor"};
    if (!wire_is_valid(bytes)) return corrupt("an input or output");
    UM_TRY(get_string(arena, bytes, 1, &out->name));
    onnx_bytes type, member;
    bool found;
    UM_TRY(get_message(bytes, 2, &type, &found));
    if (!found) return UM_OK;
    for (size_t i = 0; i < UM_COUNT_OF(kinds); i++) {
        UM_TRY(get_message(type, kinds[i].number, &member, &found));
        if (!found) continue;
        out->kind = kinds[i].kind;
        uint64_t number = ONNX_NONE;
        if (i == 0) UM_TRY(get_number(member, 1, WIRE_VARINT, ONNX_NONE, &number));
        out->type = (int32_t)UM_MIN(number, INT32_MAX);
    }
    return UM_OK;
}

static um_status get_ports(onnx_arena *arena, onnx_bytes message, uint32_t number,
                           const onnx_port **out, size_t *count)
{
    wire_field field;
    bool bad = false;
    *count = 0;
    onnx_port *ports = onnx_alloc(arena, wire_count(message, number), sizeof *ports);
    if (!ports) return no_memory();
    while (wire_next(&message, &field, &bad)) {
        if (field.number != number) continue;
        if (field.kind != WIRE_BYTES) return corrupt("an input or output");
        UM_TRY(read_port(arena, field.bytes, &ports[(*count)++]));
    }
    *out = ports;
    return UM_OK;
}

static um_status read_graph(onnx_arena *arena, onnx_bytes bytes, int32_t depth, onnx_graph *out)
{
    *out = (onnx_graph){0};
    if (depth > MAX_DEPTH || !wire_is_valid(bytes)) return corrupt("a graph");
    UM_TRY(get_tensors(arena, bytes, 5, &out->inits, &out->init_count));
    UM_TRY(get_ports(arena, bytes, 11, &out->in, &out->in_count));
    UM_TRY(get_ports(arena, bytes, 12, &out->out, &out->out_count));
    onnx_node *nodes = onnx_alloc(arena, wire_count(bytes, 1), sizeof *nodes);
    if (!nodes) return no_memory();
    wire_field field;
    bool bad = false;
    while (wire_next(&bytes, &field, &bad)) {
        if (field.number != 1) continue;
        if (field.kind != WIRE_BYTES) return corrupt("a node");
        UM_TRY(read_node(arena, field.bytes, depth, &nodes[out->node_count++]));
    }
    out->nodes = nodes;
    return UM_OK;
}

um_status onnx_read_model(onnx_arena *arena, onnx_bytes bytes, onnx_model *out)
{
    *out = (onnx_model){0};
    onnx_bytes graph;
    bool found;
    if (!wire_is_valid(bytes)) return corrupt("the model");
    if (wire_count(bytes, 25) > 0) return UM_FAIL(UM_UNSUPPORTED, "onnx: functions of the model");
    wire_field field;
    bool bad = false;
    for (onnx_bytes left = bytes; wire_next(&left, &field, &bad);) {
        if (field.number != 8) continue;
        if (field.kind != WIRE_BYTES || !wire_is_valid(field.bytes)) return corrupt("an opset");
        const char *domain;
        uint64_t version;
        UM_TRY(get_string(arena, field.bytes, 1, &domain));
        UM_TRY(get_number(field.bytes, 2, WIRE_VARINT, 0, &version));
        if (version > INT32_MAX) return corrupt("an opset's version");
        if (out->opset == 0 || !*domain) out->opset = (int64_t)version;
    }
    UM_TRY(get_message(bytes, 7, &graph, &found));
    if (!found) return corrupt("there is no graph; the model");
    return read_graph(arena, graph, 0, &out->graph);
}
