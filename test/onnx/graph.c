/* test/onnx/graph.c: node by node through a graph, and the ops that are about names and graphs:
 * Constant, If, Loop, Scan. Their bodies' trip counts and conditions are for the host. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

enum { MAX_TRIPS = 1000 };

typedef struct scope {
    struct scope *outer;
    const char **names;
    value *values;
    size_t count;
} scope;

static const value *find_value(const scope *s, const char *name)
{
    for (; s; s = s->outer)
        for (size_t i = s->count; i-- > 0;)
            if (strcmp(s->names[i], name) == 0) return &s->values[i];
    return NULL;
}

static void bind(scope *s, const char *name, value v)
{
    s->names[s->count] = name;
    s->values[s->count++] = v;
}

value run_load(run *r, const onnx_tensor *tensor)
{
    onnx_bytes data;
    value none = {0};
    if (r->failed || !run_ok(r, onnx_tensor_data(r->arena, tensor, &data))) return none;
    return (value){put(r, onnx_dtype(tensor->type), tensor->rank, tensor->shape, data.data),
                   tensor->type};
}

/* ---- one node -----------------------------------------------------------------------------------
 */

static void run_node(run *r, const onnx_node *node)
{
    r->node = node;
    if (node->in_count > RUN_MAX_IN || node->out_count > RUN_MAX_OUT) {
        run_refuse(r, "%s: %zu inputs, %zu outputs", node->op, node->in_count, node->out_count);
        return;
    }
    const onnx_op *op = onnx_find_op(node->op);
    if (!op || !op->handle) {
        if (op)
            run_refuse(r, "%s", op->reason);
        else
            run_refuse(r, "needs op %s", node->op);
        return;
    }
    r->in_count = (int32_t)node->in_count;
    r->out_count = (int32_t)node->out_count;
    memset(r->in, 0, sizeof r->in);
    memset(r->out, 0, sizeof r->out);
    for (int32_t i = 0; i < r->in_count; i++) {
        const value *v = node->in[i][0] ? find_value(r->scope, node->in[i]) : NULL;
        if (v)
            r->in[i] = *v;
        else if (node->in[i][0])
            run_refuse(r, "%s: nothing is called %s", node->op, node->in[i]);
    }
    if (r->failed) return;
    r->exact = r->exact && op->exact;
    op->handle(r, op->id);
    for (int32_t i = 0; i < r->out_count && !r->failed; i++)
        if (node->out[i][0]) bind(r->scope, node->out[i], r->out[i]);
}

static size_t count_names(const onnx_graph *graph)
{
    size_t count = graph->in_count + graph->init_count;
    for (size_t i = 0; i < graph->node_count; i++) count += graph->nodes[i].out_count;
    return count;
}

static void run_in_scope(run *r, const onnx_graph *graph, const value *inputs, int32_t in_count,
                         value *outputs, int32_t out_count)
{
    scope *s = r->scope;
    for (size_t i = 0; i < graph->init_count; i++)
        bind(s, graph->inits[i].name, run_load(r, &graph->inits[i]));
    for (int32_t i = 0; i < in_count && (size_t)i < graph->in_count; i++)
        bind(s, graph->in[i].name, inputs[i]);
    for (size_t i = 0; i < graph->node_count && !r->failed; i++) run_node(r, &graph->nodes[i]);
    for (int32_t i = 0; i < out_count && (size_t)i < graph->out_count; i++) {
        const value *v = r->failed ? NULL : find_value(s, graph->out[i].name);
        if (v)
            outputs[i] = *v;
        else
            run_refuse(r, "no node makes output %s", graph->out[i].name);
    }
}

void run_graph(run *r, const onnx_graph *graph, const value *inputs, int32_t in_count,
               value *outputs, int32_t out_count)
{
    memset(outputs, 0, (size_t)out_count * sizeof *outputs);
    if (r->failed) return;
    run outside = *r;
    size_t room = count_names(graph);
    scope inner = {.outer = r->scope,
                   .names = onnx_alloc(r->arena, room, sizeof *inner.names),
                   .values = onnx_alloc(r->arena, room, sizeof *inner.values)};
    if (!inner.names || !inner.values) {
        run_refuse(r, "no memory");
        return;
    }
    r->scope = &inner;
    run_in_scope(r, graph, inputs, in_count, outputs, out_count);
    /* What the caller had, but for what a run adds up. */
    r->scope = outside.scope;
    r->node = outside.node;
    memcpy(r->in, outside.in, sizeof r->in);
    memcpy(r->out, outside.out, sizeof r->out);
    r->in_count = outside.in_count;
    r->out_count = outside.out_count;
}

/* ---- ops ----------------------------------------------------------------------------------------
 */

void on_constant(run *r, um_op_id id)
{
    (void)id;
    const onnx_attr *attr = r->node->attr_count == 1 ? &r->node->attrs[0] : NULL;
    const char *name = attr ? attr->name : "";
    int64_t count = 0;
    if (strcmp(name, "value") == 0 && attr->t) {
        r->out[0] = run_load(r, attr->t);
    } else if (strcmp(name, "value_int") == 0) {
        out(r, 0, put_i64(r, attr->i));
    } else if (strcmp(name, "value_ints") == 0) {
        out(r, 0, put_ints(r, (int64_t)attr->int_count, attr->ints));
    } else if (strcmp(name, "value_float") == 0) {
        out(r, 0, put(r, UM_F32, 0, NULL, &attr->f));
    } else if (strcmp(name, "value_floats") == 0) {
        count = (int64_t)attr->float_count;
        out(r, 0, put(r, UM_F32, 1, &count, attr->floats));
    } else {
        run_refuse(r, "Constant: no tensor (%s)", name);
    }
}

static const onnx_graph *body_of(run *r, const char *name)
{
    const onnx_attr *attr = attr_find(r, name);
    if (attr && attr->g) return attr->g;
    run_refuse(r, "%s: no graph %s", r->node->op, name);
    return NULL;
}

void on_if(run *r, um_op_id id)
{
    (void)id;
    bool yes = run_number(r, in(r, 0)) != 0;
    const onnx_graph *branch = body_of(r, yes ? "then_branch" : "else_branch");
    value outputs[RUN_MAX_OUT];
    if (r->failed) return;
    run_graph(r, branch, NULL, 0, outputs, r->out_count);
    memcpy(r->out, outputs, sizeof outputs[0] * (size_t)r->out_count);
}

/* Adds one step's result to a scan output: a new leading axis. */
static void collect(run *r, value *all, value step)
{
    um_view parts[2] = {all->view, unsqueeze(r, step.view, 0)};
    if (r->failed) return;
    *all = (value){all->type == ONNX_NONE ? parts[1] : concat(r, 0, 2, parts), step.type};
}

/* Inputs: trip count, condition, carried values; the body gives condition, carried, scanned. */
void on_loop(run *r, um_op_id id)
{
    (void)id;
    const onnx_graph *body = body_of(r, "body");
    int64_t trips = has_in(r, 0) ? (int64_t)run_number(r, in(r, 0)) : MAX_TRIPS + 1;
    bool go = has_in(r, 1) ? run_number(r, in(r, 1)) != 0 : true;
    int32_t carried = r->in_count - 2, scanned = r->out_count - carried;
    if (r->failed || carried < 0 || scanned < 0) return;
    value state[RUN_MAX_IN + 2] = {0}, next[RUN_MAX_OUT + 1], all[RUN_MAX_OUT] = {0};
    if (carried > RUN_MAX_OUT) run_refuse(r, "Loop: too many values");
    for (int32_t i = 0; i < carried; i++) state[i + 2] = r->in[i + 2];
    for (int64_t trip = 0; go && trip < trips && !r->failed; trip++) {
        if (trip == MAX_TRIPS) run_refuse(r, "Loop: more than %d trips", MAX_TRIPS);
        state[0] = (value){put_i64(r, trip), ONNX_INT64};
        state[1] = (value){num(r, UM_BOOL, 1), ONNX_BOOL};
        run_graph(r, body, state, carried + 2, next, 1 + r->out_count);
        go = !r->failed && run_number(r, next[0].view) != 0;
        for (int32_t i = 0; i < carried; i++) state[i + 2] = next[i + 1];
        for (int32_t i = 0; i < scanned; i++) collect(r, &all[i], next[1 + carried + i]);
    }
    for (int32_t i = 0; i < carried; i++) r->out[i] = state[i + 2];
    for (int32_t i = 0; i < scanned; i++) {
        r->out[carried + i] = all[i];
        if (all[i].type == ONNX_NONE) run_refuse(r, "Loop: nothing to scan");
    }
}

/* Along the leading axis, forwards: carried values, then scanned ones. */
static void scan_once(run *r, const onnx_graph *body, const value *inputs, int32_t count,
                      int32_t carried, value *outputs)
{
    value state[RUN_MAX_IN] = {0}, next[RUN_MAX_OUT];
    for (int32_t i = 0; i < carried; i++) outputs[i] = inputs[i];
    for (int32_t i = carried; i < r->out_count; i++) outputs[i] = (value){0};
    int64_t trips = size(&inputs[carried].view, 0);
    for (int64_t trip = 0; trip < trips && !r->failed; trip++) {
        for (int32_t i = 0; i < carried; i++) state[i] = outputs[i];
        for (int32_t i = carried; i < count; i++)
            state[i] =
                (value){squeeze(r, slice(r, inputs[i].view, 0, trip, 1, 1), 0), inputs[i].type};
        run_graph(r, body, state, count, next, r->out_count);
        for (int32_t i = 0; i < carried; i++) outputs[i] = next[i];
        for (int32_t i = carried; i < r->out_count; i++) collect(r, &outputs[i], next[i]);
    }
}

/* Opset 8: everything has a batch in front, and lengths come before all. */
static void scan_batches(run *r, const onnx_graph *body, int32_t carried)
{
    value inputs[RUN_MAX_IN] = {0}, outputs[RUN_MAX_OUT];
    int32_t count = r->in_count - 1;
    if (has_in(r, 0)) run_refuse(r, "Scan: lengths");
    um_view first = in(r, 1);
    for (int64_t b = 0; b < size(&first, 0) && !r->failed; b++) {
        for (int32_t i = 0; i < count; i++)
            inputs[i] =
                (value){squeeze(r, slice(r, in(r, i + 1), 0, b, 1, 1), 0), r->in[i + 1].type};
        scan_once(r, body, inputs, count, carried, outputs);
        for (int32_t i = 0; i < r->out_count; i++) collect(r, &r->out[i], outputs[i]);
    }
}

void on_scan(run *r, um_op_id id)
{
    (void)id;
    static const char *const others[] = {"scan_input_axes", "scan_input_directions",
                                         "scan_output_axes", "scan_output_directions",
                                         "directions"};
    for (size_t i = 0; i < UM_COUNT_OF(others); i++)
        if (attr_find(r, others[i])) run_refuse(r, "Scan: %s", others[i]);
    const onnx_graph *body = body_of(r, "body");
    int64_t scanned = attr_int(r, "num_scan_inputs", 1);
    int64_t carried = r->in_count - (r->opset < 9) - scanned;
    if (scanned < 1 || carried < 0 || carried > r->out_count) run_refuse(r, "Scan: the inputs");
    if (r->failed) return;
    if (r->opset < 9)
        scan_batches(r, body, (int32_t)carried);
    else
        scan_once(r, body, r->in, r->in_count, (int32_t)carried, r->out);
}
