/* test/onnx/compare.c: runs a case and compares: shapes and types equal; integers and what only
 * moves to the bit; other floats within 1e-3 of the value and 1e-7; a NaN is as good as another. */
#include "base/base.h"
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 512 };
static const double RELATIVE = 1e-3, ABSOLUTE = 1e-7;

static bool read_value(run *r, const char *dir, const char *name, const char *kind, int32_t i,
                       onnx_tensor *out)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_%d.pb", dir, name, kind, (int)i);
    onnx_bytes bytes = onnx_read_file(r->arena, path);
    if (!bytes.data) run_refuse(r, "no %s_%d.pb", kind, (int)i);
    return !r->failed && run_ok(r, onnx_read_tensor(r->arena, bytes, out));
}

/* ---- comparing ----------------------------------------------------------------------------------
 */

typedef struct both {
    const uint8_t *got, *want;        /* packed, of one dtype */
    const double *got_f64, *want_f64; /* of floats */
    int64_t count;
    size_t bytes; /* of an element; 0: half a byte */
    bool exact;
} both;

static bool same(const both *b, int64_t i)
{
    if (b->got_f64) {
        double got = b->got_f64[i], want = b->want_f64[i];
        if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
        if (b->bytes == 0) return got == want && !signbit(got) == !signbit(want);
        if (!b->exact && isinf(want)) return got == want;
        if (!b->exact) return fabs(got - want) <= ABSOLUTE + RELATIVE * fabs(want);
    }
    return memcmp(b->got + (size_t)i * b->bytes, b->want + (size_t)i * b->bytes, b->bytes) == 0;
}

static bool to_f64(run *r, um_dtype dtype, const uint8_t *data, int64_t count, const double **out)
{
    double *numbers = onnx_alloc(r->arena, (size_t)count, sizeof *numbers);
    *out = numbers;
    if (!numbers) run_refuse(r, "no memory");
    return numbers && run_ok(r, um_convert(UM_F64, numbers, dtype, data, count));
}

static void say_shapes(verdict *v, const um_view *got, const onnx_tensor *want)
{
    int length = snprintf(v->detail, sizeof v->detail, "got [");
    for (int32_t d = 0; d < got->rank + want->rank && length < RUN_WHY - 32; d++) {
        int64_t n = d < got->rank ? got->shape[d] : want->shape[d - got->rank];
        length += snprintf(v->detail + length, 32, "%s%lld", d == got->rank ? "], want [" : " ",
                           (long long)n);
    }
}

static bool compare_values(run *r, const value *got, const onnx_tensor *want, verdict *v)
{
    onnx_bytes bytes;
    um_dtype dtype = got->view.dtype;
    both b = {.count = want->count, .bytes = (size_t)um_dtype_bits(dtype) / 8, .exact = r->exact};
    if (!run_ok(r, onnx_tensor_data(r->arena, want, &bytes))) return false;
    uint8_t *data = onnx_alloc(r->arena, bytes.size, 1);
    if (!data) run_refuse(r, "no memory");
    if (r->failed) return false;
    read_packed(r, got->view, data, bytes.size);
    b.got = data;
    b.want = bytes.data;
    bool is_float = um_dtype_get_kind(dtype) == UM_KIND_FLOAT;
    if (is_float && !r->failed &&
        (!to_f64(r, dtype, data, b.count, &b.got_f64) ||
         !to_f64(r, dtype, bytes.data, b.count, &b.want_f64)))
        return false;
    int64_t wrong = 0, first = 0;
    for (int64_t i = b.count; i-- > 0 && !r->failed;)
        if (!same(&b, i)) wrong++, first = i;
    if (wrong == 0 || r->failed) return !r->failed;
    run_refuse(r, "wrong values");
    if (is_float)
        snprintf(v->detail, sizeof v->detail, "%lld of %lld, first at %lld: got %.9g, want %.9g",
                 (long long)wrong, (long long)b.count, (long long)first, b.got_f64[first],
                 b.want_f64[first]);
    else
        snprintf(v->detail, sizeof v->detail, "%lld of %lld, first at %lld: byte %u, want %u",
                 (long long)wrong, (long long)b.count, (long long)first,
                 b.got[(size_t)first * b.bytes], b.want[(size_t)first * b.bytes]);
    return false;
}

bool compare(run *r, const value *got, const onnx_tensor *want, verdict *v)
{
    if (got->type != want->type) {
        run_refuse(r, "wrong type");
        snprintf(v->detail, sizeof v->detail, "got %s, want %s", onnx_type_name(got->type),
                 onnx_type_name(want->type));
        return false;
    }
    if (got->view.rank != want->rank ||
        memcmp(got->view.shape, want->shape, sizeof want->shape[0] * (size_t)want->rank) != 0) {
        run_refuse(r, "wrong shape");
        say_shapes(v, &got->view, want);
        return false;
    }
    return compare_values(r, got, want, v);
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* Tensors that a dtype holds are all that goes in and out. */
static bool takes_ports(run *r, const onnx_port *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(ports[i].kind, "tensor") != 0)
            run_refuse(r, "%s values", ports[i].kind);
        else if (onnx_dtype(ports[i].type) == UM_DTYPE_NONE)
            run_refuse(r, "%s tensors", onnx_type_name(ports[i].type));
    }
    return !r->failed;
}

static void run_model(run *r, const char *dir, const char *name, verdict *v)
{
    char path[PATH_SIZE];
    onnx_model model;
    value inputs[RUN_MAX_IN] = {0}, outputs[RUN_MAX_OUT];
    onnx_tensor tensor;
    snprintf(path, sizeof path, "%s/%s/model.onnx", dir, name);
    onnx_bytes bytes = onnx_read_file(r->arena, path);
    if (!bytes.data) run_refuse(r, "no model.onnx");
    if (r->failed || !run_ok(r, onnx_read_model(r->arena, bytes, &model))) return;
    const onnx_graph *graph = &model.graph;
    r->opset = model.opset;
    if (graph->in_count > RUN_MAX_IN || graph->out_count > RUN_MAX_OUT)
        run_refuse(r, "%zu inputs, %zu outputs", graph->in_count, graph->out_count);
    if (r->failed || !takes_ports(r, graph->in, graph->in_count) ||
        !takes_ports(r, graph->out, graph->out_count))
        return;
    for (size_t i = 0; i < graph->in_count; i++)
        if (read_value(r, dir, name, "input", (int32_t)i, &tensor))
            inputs[i] = run_load(r, &tensor);
    run_graph(r, graph, inputs, (int32_t)graph->in_count, outputs, (int32_t)graph->out_count);
    for (size_t i = 0; i < graph->out_count && !r->failed; i++)
        if (read_value(r, dir, name, "output", (int32_t)i, &tensor))
            compare(r, &outputs[i], &tensor, v);
}

verdict run_case(um_device *device, um_stream *stream, const char *dir, const char *name)
{
    run r;
    verdict v = {0};
    onnx_arena arena = {0};
    run_open(&r, device, stream, &arena);
    run_model(&r, dir, name, &v);
    if (r.failed) memcpy(v.why, r.why, sizeof v.why);
    run_close(&r);
    onnx_arena_free(&arena);
    return v;
}
