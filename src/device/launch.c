/* Replaying a graph: where each slot is now, whether that may be, and the nodes one after the
 * other, or what the stream's backend recorded of them. Capturing is in capture.c. */
#include "device/graph.h"
#include "op/table.h"

typedef unsigned long long ull; /* for messages */

/* One launch. All arrays are in the stream's room, which is kept from launch to launch. */
typedef struct launch {
    um_stream *stream;
    um_graph *graph;
    const um_remap *remaps;
    int32_t remap_count;
    uint64_t *shift;  /* a slot: to be added to its addresses, modulo 2^64 */
    int32_t *remap;   /* a slot: which moved it, or -1 */
    uint64_t moves;   /* 0: nothing is elsewhere than it was */
    um_op *ops;       /* of a batch, or one */
    const um_op **op; /* the same, as the backend takes them */
} launch;

/* ---- room ----------------------------------------------------------------------------------- */

static um_status get_room(launch *l)
{
    um_stream *stream = l->stream;
    size_t slots = (size_t)l->graph->slot_count, ops = (size_t)UM_MAX(l->graph->batch_max, 1);
    size_t bytes = ops * (sizeof *l->ops + sizeof *l->op) + slots * sizeof *l->shift +
                   slots * sizeof *l->remap;
    if (bytes > stream->room_bytes) {
        void *room = um_mem_alloc(bytes);
        if (!room) return UM_FAIL(UM_OUT_OF_MEMORY, "um_graph_launch: no memory to launch with");
        um_mem_free(stream->room);
        stream->room = room;
        stream->room_bytes = bytes;
    }
    l->ops = stream->room;
    l->op = (const um_op **)(void *)(l->ops + ops);
    l->shift = (uint64_t *)(void *)(l->op + ops);
    l->remap = (int32_t *)(void *)(l->shift + slots);
    return UM_OK;
}

/* ---- where everything is -------------------------------------------------------------------- */

static bool meet(um_ptr a, uint64_t a_bytes, um_ptr b, uint64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && (a <= b ? b - a < a_bytes : a - b < b_bytes);
}

static um_status check_remaps(const launch *l)
{
    if (l->remap_count < 0 || (l->remap_count > 0 && !l->remaps)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_graph_launch: %d remaps%s", l->remap_count,
                       l->remap_count > 0 ? " at NULL" : "");
    }
    for (int32_t i = 0; i < l->remap_count; i++) {
        const um_remap *a = &l->remaps[i];
        if (a->size_bytes > UINT64_MAX - a->from || a->size_bytes > UINT64_MAX - a->to) {
            return UM_FAIL(UM_INVALID_ARGUMENT, "um_graph_launch: remap %d reaches beyond 2^64", i);
        }
        for (int32_t k = 0; k < i; k++) {
            const um_remap *b = &l->remaps[k];
            if (!meet(a->from, a->size_bytes, b->from, b->size_bytes)) continue;
            return UM_FAIL(UM_INVALID_ARGUMENT,
                           "um_graph_launch: remaps %d and %d overlap, at 0x%llx and 0x%llx", k, i,
                           (ull)b->from, (ull)a->from);
        }
    }
    return UM_OK;
}

static um_status place_slot(launch *l, int32_t index)
{
    const um_graph_slot *slot = &l->graph->slots[index];
    l->shift[index] = 0;
    l->remap[index] = -1;
    for (int32_t i = 0; i < l->remap_count; i++) {
        const um_remap *r = &l->remaps[i];
        if (!meet(slot->low, slot->high - slot->low, r->from, r->size_bytes)) continue;
        if (slot->low < r->from || slot->high - r->from > r->size_bytes) {
            return UM_FAIL(
                UM_INVALID_ARGUMENT,
                "um_graph_launch: remap %d, %llu bytes at 0x%llx, cuts the %llu bytes at "
                "0x%llx that the graph uses as one",
                i, (ull)r->size_bytes, (ull)r->from, (ull)(slot->high - slot->low), (ull)slot->low);
        }
        l->shift[index] = r->to - r->from;
        l->remap[index] = i;
        l->moves |= l->shift[index];
        break;
    }
    if (l->shift[index] % (uint64_t)slot->align_bytes == 0) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "um_graph_launch: remap %d moves 0x%llx by what is no multiple of its elements' "
                   "%d bytes",
                   l->remap[index], (ull)slot->low, slot->align_bytes);
}

/* Slots that one remap moves, or none, stay as far apart as they were. */
static um_status check_apart(const launch *l, int32_t moved)
{
    const um_graph_slot *a = &l->graph->slots[moved];
    for (int32_t i = 0; i < l->graph->slot_count; i++) {
        const um_graph_slot *b = &l->graph->slots[i];
        if (l->remap[i] == l->remap[moved] || !(a->is_written || b->is_written)) continue;
        if (!meet(a->low + l->shift[moved], a->high - a->low, b->low + l->shift[i],
                  b->high - b->low)) {
            continue;
        }
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_graph_launch: remap %d moves 0x%llx to 0x%llx, which overlaps what the "
                       "graph uses at 0x%llx",
                       l->remap[moved], (ull)a->low, (ull)(a->low + l->shift[moved]),
                       (ull)(b->low + l->shift[i]));
    }
    return UM_OK;
}

/* The first node that uses a slot, for a message. */
static const char *user_of(const um_graph *graph, int32_t slot, int64_t *number)
{
    static const char *const kinds[] = {[UM_GRAPH_COPY] = "copy",
                                        [UM_GRAPH_COPY_HOST] = "copy_async",
                                        [UM_GRAPH_FILL] = "fill",
                                        [UM_GRAPH_WRITE] = "write"};
    *number = 0;
    for (const um_graph_node *node = graph->first; node; node = node->next, ++*number)
        for (int32_t i = 0; i < node->place_count; i++)
            if (node->places[i].slot == slot)
                return node->op ? um_op_name(node->op->id) : kinds[node->kind];
    return "";
}

static um_status check_memory(const launch *l)
{
    um_device *device = l->stream->device;
    int32_t i = 0;
    um_mutex_lock(&device->mutex);
    for (; i < l->graph->slot_count; i++) {
        const um_graph_slot *slot = &l->graph->slots[i];
        if (!um_memory_holds(device, slot->low + l->shift[i], slot->high - slot->low)) break;
    }
    um_mutex_unlock(&device->mutex);
    if (i == l->graph->slot_count) return UM_OK;
    const um_graph_slot *slot = &l->graph->slots[i];
    int64_t number;
    const char *user = user_of(l->graph, i, &number);
    return UM_FAIL(
        UM_INVALID_ARGUMENT,
        "um_graph_launch: %llu bytes at 0x%llx, of node %lld, %s, are not inside one live "
        "allocation of %s",
        (ull)(slot->high - slot->low), (ull)(slot->low + l->shift[i]), (long long)number, user,
        device->name);
}

static um_status place_slots(launch *l)
{
    UM_TRY(check_remaps(l));
    for (int32_t i = 0; i < l->graph->slot_count; i++) UM_TRY(place_slot(l, i));
    UM_TRY(check_memory(l));
    for (int32_t i = 0; i < l->graph->slot_count; i++) {
        if (l->remap[i] >= 0) UM_TRY(check_apart(l, i));
    }
    return UM_OK;
}

/* ---- the nodes ------------------------------------------------------------------------------ */

static uint64_t shift_of(const launch *l, const um_graph_node *node, int32_t place)
{
    int32_t slot = node->places[place].slot;
    return slot >= 0 ? l->shift[slot] : 0;
}

static bool is_moved(const launch *l, const um_graph_node *node)
{
    uint64_t any = 0;
    for (int32_t i = 0; i < node->place_count; i++) any |= shift_of(l, node, i);
    return any != 0;
}

/* The node's op with addresses of now: itself, or a copy in ops[index]. */
static const um_op *turn(const launch *l, const um_graph_node *node, int64_t index)
{
    const um_op *op = node->op;
    if (!is_moved(l, node)) return op;
    um_op *own = &l->ops[index];
    memcpy(own, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    for (int32_t i = 0; i < op->in_count; i++) own->in[i].ptr += shift_of(l, node, i);
    for (int32_t i = 0; i < op->out_count; i++) {
        own->out[i].ptr += shift_of(l, node, op->in_count + i);
    }
    return own;
}

static um_status run_elsewhere(const launch *l, const um_graph_node *node)
{
    um_runner runner;
    const um_op *op = turn(l, node, 0);
    UM_TRY(um_fallback_find(l->stream, op, "as when it was captured", &runner));
    return um_fallback_run(l->stream, runner, op);
}

/* Moves on to the last node of a batch. */
static um_status run_batch(const launch *l, um_backend_stream *handle, const um_graph_node **node)
{
    int64_t count = (*node)->batch_count;
    l->op[0] = turn(l, *node, 0);
    for (int64_t i = 1; i < count; i++) {
        *node = (*node)->next;
        l->op[i] = turn(l, *node, i);
    }
    return um_table_enqueue_batch(l->stream->device->driver.table, handle, count, l->op);
}

/* On the stream, or its recorder. */
static um_status run_node(const launch *l, um_backend_stream *handle, const um_graph_node **at)
{
    const um_graph_node *node = *at;
    const um_backend *table = l->stream->device->driver.table;
    switch (node->kind) {
    case UM_GRAPH_OP:
        return node->batch_count > 0 ? run_batch(l, handle, at)
                                     : table->enqueue(handle, turn(l, node, 0));
    case UM_GRAPH_ELSEWHERE: return run_elsewhere(l, node);
    case UM_GRAPH_COPY:
        return table->copy(handle, node->dst + shift_of(l, node, 0),
                           node->src + shift_of(l, node, 1), node->size_bytes);
    case UM_GRAPH_COPY_HOST:
        return um_table_copy_host(table, handle, node->copy_kind, node->dst + shift_of(l, node, 0),
                                  node->src + shift_of(l, node, 1), node->size_bytes);
    case UM_GRAPH_FILL:
        return table->fill(handle, node->dst + shift_of(l, node, 0), node->size_bytes,
                           node->pattern, node->pattern_bytes);
    case UM_GRAPH_WRITE:
        return table->write(handle, node->dst + shift_of(l, node, 0), node->data, node->size_bytes);
    case UM_GRAPH_CALL: return um_stream_callback(l->stream, node->fn, node->user);
    }
    return UM_OK;
}

/* ---- recordings ----------------------------------------------------------------------------- */

static void release_recorder(const um_stream *stream, um_recording *r)
{
    if (r->recorder) stream->device->driver.table->stream_destroy(r->recorder);
    r->recorder = NULL;
}

void um_recordings_drop(um_stream *stream, bool all)
{
    for (um_recording *r, **at = &stream->recordings; (r = *at) != NULL;) {
        if (!all && atomic_load(&r->graph->refs) > 0) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        release_recorder(stream, r);
        um_graph_weak_release(r->graph);
        um_mem_free(r);
    }
}

static um_status get_recording(const launch *l, const um_graph_node *first, um_recording **out)
{
    um_stream *stream = l->stream;
    um_recording *r = stream->recordings;
    while (r && (r->graph != l->graph || r->first != first)) r = r->next;
    *out = r;
    if (r) return UM_OK;
    *out = r = um_mem_zalloc(sizeof *r);
    if (!r) return UM_FAIL(UM_OUT_OF_MEMORY, "um_graph_launch: no memory for a recording");
    atomic_fetch_add_explicit(&l->graph->weak, 1, memory_order_relaxed);
    *r = (um_recording){.next = stream->recordings, .graph = l->graph, .first = first};
    r->last = first;
    for (int64_t i = 1; i < first->run_count; i++) r->last = r->last->next;
    stream->recordings = r;
    return UM_OK;
}

static um_status record_run(const launch *l, um_recording *r)
{
    const um_backend *table = l->stream->device->driver.table;
    um_status status = table->recorder(l->stream->handle, &r->recorder);
    if (status == UM_OK && !r->recorder)
        status = UM_FAIL(UM_INTERNAL, "%s makes a recorder and gives none", table->name);
    const um_graph_node *end = r->last->next;
    for (const um_graph_node *node = r->first; status == UM_OK && node != end; node = node->next)
        status = run_node(l, r->recorder, &node);
    if (status != UM_OK) release_recorder(l->stream, r);
    r->refused = status == UM_UNSUPPORTED;
    return status;
}

/* The run that begins with the node; moves on to its last. NOT_READY: it is to be done node by
 * node. */
static um_status replay_run(const launch *l, const um_graph_node **node)
{
    const um_backend *table = l->stream->device->driver.table;
    um_error before = *um_last_error();
    um_recording *r;
    UM_TRY(get_recording(l, *node, &r));
    um_status status = UM_NOT_READY;
    for (int tries = 0; tries < 2 && status == UM_NOT_READY && !r->refused; tries++) {
        if (tries > 0) release_recorder(l->stream, r);
        status = r->recorder ? UM_OK : record_run(l, r);
        if (status == UM_OK) status = table->replay(l->stream->handle, r->recorder);
    }
    if (status == UM_OK) *node = r->last;
    if (!r->refused) return status;
    um_fail_again(&before);
    return UM_NOT_READY;
}

/* Whether the backend records, and the run is where it was. */
static bool can_replay(const launch *l, const um_graph_node *node)
{
    const um_backend *table = l->stream->device->driver.table;
    int64_t count = table->recorder && table->replay ? node->run_count : 0;
    if (count == 0) return false;
    for (; l->moves && count > 0; count--, node = node->next)
        if (is_moved(l, node)) return false;
    return true;
}

um_status um_graph_launch(um_stream *stream, um_graph *graph, const um_remap *remaps,
                          int32_t remap_count)
{
    if (!stream || !graph) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_graph_launch: %s is NULL",
                       stream ? "graph" : "stream");
    }
    UM_TRY(um_not_capturing(stream, "um_graph_launch"));
    if (stream->device != graph->device) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_graph_launch: the graph is of %s, the stream of %s",
                       graph->device->name, stream->device->name);
    }
    launch l = {.stream = stream, .graph = graph, .remaps = remaps, .remap_count = remap_count};
    UM_TRY(get_room(&l));
    UM_TRY(place_slots(&l));
    um_recordings_drop(stream, false);
    for (const um_graph_node *node = graph->first; node; node = node->next) {
        um_status status = can_replay(&l, node) ? replay_run(&l, &node) : UM_NOT_READY;
        if (status == UM_NOT_READY) status = run_node(&l, stream->handle, &node);
        UM_TRY(status);
    }
    return UM_OK;
}
