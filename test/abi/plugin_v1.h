/* The plugin interface as of UM_PLUGIN_ABI 1, frozen: what a plugin built long ago was built with.
 * Written out once more on purpose, in names of its own, so that test_plugin.c can compare it with
 * the present headers. test/abi/variants.c is built with it alone.
 *
 * Until a release has this ABI, a change that is meant is made here as well. After it, never: then
 * UM_PLUGIN_ABI is raised and this file stays as it is. */
#ifndef UM_TEST_PLUGIN_V1_H
#define UM_TEST_PLUGIN_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    V1_OK = 0,
    V1_UNSUPPORTED = 2,
    V1_DEVICE_ERROR = 3,
    V1_OUT_OF_MEMORY = 4,
    V1_OUT_OF_RANGE = 6
};
enum {
    V1_F32 = 2,
    V1_BOOL = 21,
    V1_OP_RELU = 5,
    V1_OP_ADD = 46,
    V1_DEVICE_CPU = 8,
    V1_LOG_INFO = 1
};
enum { V1_ABI = 1, V1_STRUCT_BACKEND = 1, V1_STRUCT_HOST = 2, V1_STRUCT_PLUGIN = 3 };

typedef struct v1_error {
    int32_t code, native_code;
    char op[32], backend[16], message[464];
} v1_error;

typedef struct v1_view {
    uint64_t ptr;
    int32_t dtype, rank;
    int64_t shape[8], stride[8];
} v1_view;

typedef struct v1_op {
    int32_t id, in_count, out_count, reserved;
    int64_t attrs[10];
    v1_view out[5];
    v1_view in[10];
} v1_op;

typedef struct v1_device_info {
    uint32_t struct_size;
    int32_t kind, ordinal, is_gpu;
    char backend[16], name[128], version[32];
    uint32_t features;
    int32_t memory_kind;
    uint64_t memory_total_bytes;
} v1_device_info;

typedef struct v1_matrix_tile {
    int32_t m, n, k, input, accumulator;
} v1_matrix_tile;

typedef struct v1_caps {
    uint32_t struct_size;
    int32_t kind;
    char name[128], isa[64];
    uint32_t storage, arithmetic;
    int32_t compute_units, subgroup_min, subgroup_max;
    uint32_t features;
    uint64_t memory_total_bytes, memory_free_bytes, buffer_max_bytes, l1_bytes, l2_bytes, l3_bytes;
    char version[32];
    int32_t memory_kind, cores_physical, cores_logical;
    int32_t group_size_max[3], group_invocations_max, group_count_max[3], bindings_max;
    uint64_t group_shared_bytes, binding_max_bytes;
    int32_t matrix_tile_count;
    v1_matrix_tile matrix_tiles[32];
} v1_caps;

typedef struct v1_device v1_device;
typedef struct v1_stream v1_stream;

typedef struct v1_backend {
    uint32_t struct_size, struct_id;
    const void *next;
    const char *name;
    int32_t (*enumerate)(int32_t *count, char *why, size_t why_size);
    int32_t (*describe)(int32_t ordinal, v1_device_info *out);
    int32_t (*open)(int32_t ordinal, v1_device **out);
    void (*close)(v1_device *device);
    int32_t (*caps)(v1_device *device, v1_caps *out);
    int32_t (*alloc)(v1_device *device, uint64_t size_bytes, uint64_t *out);
    void (*free)(v1_device *device, uint64_t ptr);
    int32_t (*stream_create)(v1_device *device, v1_stream **out);
    void (*stream_destroy)(v1_stream *stream);
    int32_t (*write)(v1_stream *stream, uint64_t dst, const void *src, uint64_t size_bytes);
    int32_t (*read)(v1_stream *stream, void *dst, uint64_t src, uint64_t size_bytes);
    int32_t (*copy)(v1_stream *stream, uint64_t dst, uint64_t src, uint64_t size_bytes);
    int32_t (*fill)(v1_stream *stream, uint64_t dst, uint64_t size_bytes, uint64_t pattern,
                    uint32_t pattern_bytes);
    int32_t (*record)(v1_stream *stream, uint64_t *ticket);
    int32_t (*wait)(v1_stream *stream, v1_stream *other, uint64_t ticket);
    int32_t (*query)(v1_stream *stream, uint64_t ticket);
    int32_t (*synchronize)(v1_stream *stream, uint64_t ticket);
    int32_t (*clear_error)(v1_stream *stream);
    bool (*supports)(v1_device *device, const v1_op *op, char *why, size_t why_size);
    int32_t (*enqueue)(v1_stream *stream, const v1_op *op);
} v1_backend;

typedef struct v1_host {
    uint32_t struct_size, struct_id;
    const void *next;
    uint32_t abi, backend_size;
    const char *version;
    int32_t (*fail)(int32_t code, const char *backend, const char *op, int32_t native_code,
                    const char *format, ...);
    const v1_error *(*last_error)(void);
    void (*log)(int32_t level, const char *message);
    void *(*alloc)(size_t size_bytes, size_t align_bytes);
    void (*free)(void *ptr);
    const char *(*op_name)(int32_t id);
    const char *(*dtype_name)(int32_t dtype);
    int32_t (*convert)(int32_t dst_dtype, void *dst, int32_t src_dtype, const void *src,
                       int64_t count);
} v1_host;

typedef struct v1_plugin {
    uint32_t struct_size, struct_id;
    const void *next;
    uint32_t abi, reserved;
    const char *version;
    const v1_backend *backend;
} v1_plugin;

#endif
