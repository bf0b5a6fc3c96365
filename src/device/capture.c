/* Capturing: what a stream is asked while it captures becomes nodes of a graph; at the end the
 * ranges that they use become slots. Called by the public calls of dispatch.c, batch.c, memory.c
 * and stream.c when the stream captures. Replay is in launch.c. */
#include "device/graph.h"
#include "op/table.h"

#include <stdlib.h>

/* ---- life ----------------------------------------------------------------------------------- */

um_status um_capture_begin(um_stream *stream)
{
    if (!stream) return UM_FAIL(UM_INVALID_ARGUMENT, "um_capture_begin: stream is NULL");
    if (stream->capture || stream->device_owned) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_capture_begin: the stream %s",
                       stream->capture ? "is capturing already" : "is the tensor face's own");
    }
    um_graph *graph = um_mem_zalloc(sizeof *graph);
    if (!graph) return UM_FAIL(UM_OUT_OF_MEMORY, "um_capture_begin: no memory for a graph");
    atomic_init(&graph->refs, 1);
    atomic_init(&graph->weak, 1);
    graph->device = um_device_retain(stream->device);
    stream->capture = graph;
    return UM_OK;
}

bool um_stream_is_capturing(um_stream *stream) { return stream && stream->capture; }

um_status um_not_capturing(um_stream *stream, const char *who)
{
    if (!stream || !stream->capture) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: the stream is capturing a graph", who);
}

void um_capture_drop(um_stream *stream)
{
    um_graph_release(stream->capture);
    stream->capture = NULL;
}

um_graph *um_graph_retain(um_graph *graph)
{
    if (graph) atomic_fetch_add_explicit(&graph->refs, 1, memory_order_relaxed);
    return graph;
}

void um_graph_release(um_graph *graph)
{
    if (!graph || atomic_fetch_sub_explicit(&graph->refs, 1, memory_order_acq_rel) != 1) return;
    um_arena_release(&graph->arena);
    um_mem_free(graph->slots);
    um_device_release(graph->device);
    um_graph_weak_release(graph);
}

void um_graph_weak_release(um_graph *graph)
{
    if (atomic_fetch_sub_explicit(&graph->weak, 1, memory_order_acq_rel) == 1) um_mem_free(graph);
}

int64_t um_graph_node_count(const um_graph *graph) { return graph ? graph->node_count : 0; }

/* ---- nodes ---------------------------------------------------------------------------------- */

static um_status no_memory(void)
{
    return UM_FAIL(UM_OUT_OF_MEMORY, "capture: no memory for a graph's node");
}

/* What a failed call has taken of the arena stays taken until the graph goes. */
static void *take(um_graph *graph, size_t size_bytes)
{
    void *memory = um_arena_alloc(&graph->arena, size_bytes);
    if (memory) memset(memory, 0, size_bytes);
    return memory;
}

static um_graph_node *make_node(um_graph *graph, um_graph_kind kind, int32_t place_count)
{
    um_graph_node *node = take(graph, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->place_count = place_count;
    node->places = take(graph, (size_t)UM_MAX(place_count, 1) * sizeof *node->places);
    return node->places ? node : NULL;
}

static void append(um_graph *graph, um_graph_node *node)
{
    if (graph->last) {
        graph->last->next = node;
    } else {
        graph->first = node;
    }
    graph->last = node;
    graph->node_count++;
    graph->place_count += node->place_count;
}

static um_graph_place in_host(void) { return (um_graph_place){.slot = -1}; }

static um_graph_place in_device(um_ptr low, uint64_t size_bytes, bool is_written)
{
    return (um_graph_place){low, low + size_bytes, 0, 1, is_written};
}

static um_graph_place of_view(const um_view *view, bool is_written)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high) || low == high) return in_host();
    um_graph_place place =
        in_device(view->ptr + (uint64_t)low, (uint64_t)high - (uint64_t)low, is_written);
    place.align_bytes = UM_MAX(um_dtype_bits(view->dtype) / 8, 1);
    return place;
}

/* ---- what is noted -------------------------------------------------------------------------- */

static um_graph_node *make_op(um_graph *graph, const um_op *op, bool here)
{
    um_graph_node *node =
        make_node(graph, here ? UM_GRAPH_OP : UM_GRAPH_ELSEWHERE, op->in_count + op->out_count);
    size_t bytes = offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0];
    if (!node || !(node->op = take(graph, bytes))) return NULL;
    memcpy(node->op, op, bytes);
    size_t program_bytes = um_op_program_bytes(op);
    if (program_bytes) {
        void *programs = take(graph, program_bytes);
        if (!programs) return NULL;
        um_op_move_programs(node->op, programs);
    }
    for (int32_t i = 0; i < op->in_count; i++) node->places[i] = of_view(&op->in[i], false);
    for (int32_t i = 0; i < op->out_count; i++) {
        node->places[op->in_count + i] = of_view(&op->out[i], true);
    }
    return node;
}

um_status um_capture_ops(um_stream *stream, int64_t count, const um_op *const *ops, bool here)
{
    um_graph *graph = stream->capture;
    um_graph_node *first = NULL, **end = &first;
    for (int64_t i = 0; i < count; i++) {
        *end = make_op(graph, ops[i], here);
        if (!*end) return no_memory();
        end = &(*end)->next;
    }
    if (here && count > 1) {
        first->batch_count = count;
        graph->batch_max = UM_MAX(graph->batch_max, count);
    }
    while (first) {
        um_graph_node *next = first->next;
        first->next = NULL;
        append(graph, first);
        first = next;
    }
    return UM_OK;
}

um_status um_capture_copy(um_stream *stream, um_copy_kind kind, um_ptr dst, um_ptr src,
                          uint64_t size_bytes)
{
    um_graph *graph = stream->capture;
    bool to_host = kind == UM_COPY_DEVICE_TO_HOST || kind == UM_COPY_HOST_TO_HOST;
    bool from_host = kind == UM_COPY_HOST_TO_DEVICE || kind == UM_COPY_HOST_TO_HOST;
    um_graph_node *node =
        make_node(graph, kind == UM_COPY_DEVICE_TO_DEVICE ? UM_GRAPH_COPY : UM_GRAPH_COPY_HOST, 2);
    if (!node) return no_memory();
    node->copy_kind = kind;
    node->dst = dst;
    node->src = src;
    node->size_bytes = size_bytes;
    node->places[0] = to_host ? in_host() : in_device(dst, size_bytes, true);
    node->places[1] = from_host ? in_host() : in_device(src, size_bytes, false);
    append(graph, node);
    return UM_OK;
}

um_status um_capture_fill(um_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                          uint32_t pattern_bytes)
{
    um_graph_node *node = make_node(stream->capture, UM_GRAPH_FILL, 1);
    if (!node) return no_memory();
    node->dst = dst;
    node->size_bytes = size_bytes;
    node->pattern = pattern;
    node->pattern_bytes = pattern_bytes;
    node->places[0] = in_device(dst, size_bytes, true);
    append(stream->capture, node);
    return UM_OK;
}

um_status um_capture_write(um_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes)
{
    um_graph_node *node = make_node(stream->capture, UM_GRAPH_WRITE, 1);
    void *data = node ? um_arena_alloc(&stream->capture->arena, (size_t)size_bytes) : NULL;
    if (!data) return no_memory();
    memcpy(data, src, (size_t)size_bytes);
    node->dst = dst;
    node->size_bytes = size_bytes;
    node->data = data;
    node->places[0] = in_device(dst, size_bytes, true);
    append(stream->capture, node);
    return UM_OK;
}

um_status um_capture_call(um_stream *stream, um_stream_fn fn, void *user)
{
    um_graph_node *node = make_node(stream->capture, UM_GRAPH_CALL, 0);
    if (!node) return no_memory();
    node->fn = fn;
    node->user = user;
    append(stream->capture, node);
    return UM_OK;
}

/* ---- slots ---------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const um_graph_slot *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* Every place as a slot of its own. */
static int32_t list_places(const um_graph *graph, um_graph_slot *slots)
{
    int32_t count = 0;
    for (const um_graph_node *node = graph->first; node; node = node->next) {
        for (int32_t i = 0; i < node->place_count; i++) {
            const um_graph_place *p = &node->places[i];
            if (p->slot < 0) continue;
            slots[count++] = (um_graph_slot){p->low, p->high, p->align_bytes, p->is_written};
        }
    }
    return count;
}

static int32_t merge(um_graph_slot *slots, int32_t count)
{
    int32_t kept = 0;
    qsort(slots, (size_t)count, sizeof *slots, by_address);
    for (int32_t i = 0; i < count; i++) {
        um_graph_slot *last = kept > 0 ? &slots[kept - 1] : NULL;
        if (!last || slots[i].low >= last->high) {
            slots[kept++] = slots[i];
            continue;
        }
        last->high = UM_MAX(last->high, slots[i].high);
        last->align_bytes = UM_MAX(last->align_bytes, slots[i].align_bytes);
        last->is_written |= slots[i].is_written;
    }
    return kept;
}

/* The last one that begins at or before low. */
static int32_t find_slot(const um_graph *graph, um_ptr low)
{
    int32_t first = 0, end = graph->slot_count;
    while (end - first > 1) {
        int32_t middle = first + (end - first) / 2;
        if (graph->slots[middle].low <= low) {
            first = middle;
        } else {
            end = middle;
        }
    }
    return first;
}

static um_status make_slots(um_graph *graph)
{
    if (graph->place_count == 0) return UM_OK;
    if (graph->place_count > INT32_MAX) {
        return UM_FAIL(UM_OUT_OF_MEMORY, "um_capture_end: %lld views are too many",
                       (long long)graph->place_count);
    }
    graph->slots = um_mem_alloc((size_t)graph->place_count * sizeof *graph->slots);
    if (!graph->slots) return UM_FAIL(UM_OUT_OF_MEMORY, "um_capture_end: no memory for slots");
    graph->slot_count = merge(graph->slots, list_places(graph, graph->slots));
    for (um_graph_node *node = graph->first; node; node = node->next) {
        for (int32_t i = 0; i < node->place_count; i++) {
            um_graph_place *p = &node->places[i];
            if (p->slot >= 0) p->slot = find_slot(graph, p->low);
        }
    }
    return UM_OK;
}

/* Shorter ones would be submissions of their own for little. */
static void mark_runs(um_graph *graph)
{
    enum { RUN_MIN = 4 };
    um_graph_node *first = NULL;
    int64_t count = 0;
    for (um_graph_node *node = graph->first; node; node = node->next) {
        um_graph_kind kind = node->kind;
        bool in_run = kind == UM_GRAPH_OP || kind == UM_GRAPH_COPY || kind == UM_GRAPH_FILL;
        count = in_run ? count + 1 : 0;
        if (count == 1) first = node;
        if (count >= RUN_MIN) first->run_count = count;
    }
}

um_status um_capture_end(um_stream *stream, um_graph **out)
{
    if (out) *out = NULL;
    if (!stream || !stream->capture) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_capture_end: %s",
                       stream ? "the stream is not capturing" : "stream is NULL");
    }
    um_graph *graph = stream->capture;
    stream->capture = NULL;
    um_status status = out ? make_slots(graph) : UM_OK;
    if (out && status == UM_OK) {
        mark_runs(graph);
        *out = graph;
    } else {
        um_graph_release(graph);
    }
    return status;
}
