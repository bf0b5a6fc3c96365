/* umbel/graph.h: a sequence of work, checked and noted once, replayed many times. For loops that do
 * the same again and again: a model's decoding steps, a training step.
 *
 *     um_capture_begin(stream);  ... the calls of one step ...  um_capture_end(stream, &graph);
 *     for (...) um_graph_launch(stream, graph, NULL, 0);
 *
 * A launch enqueues the work as it was noted: it asks no op's rules again and, once warm, allocates
 * nothing. On backends that can record (vulkan: command buffers, opencl: kernels with their
 * arguments) the first launch on a stream does, and later ones cost a submission, however many ops
 * there are; what a remap moves is enqueued op by op. Other memory than at capture time is given by
 * ranges, old to new: the capturing code stays as it is, and needs no numbered arguments; a loop
 * names only what changes, such as the buffer of this step's tokens. What changes in shape (a cache
 * that grows) is a new graph, or an op that reads its length from memory.
 */
#ifndef UMBEL_GRAPH_H
#define UMBEL_GRAPH_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct um_graph um_graph;

/* From now on the calls below are checked as ever, on this stream, and noted instead of done:
 * um_enqueue, um_enqueue_batch and all that is made of them, um_copy, um_fill, um_write (with the
 * bytes), um_copy_async (host memory is looked at in each launch), um_stream_callback (called in
 * each launch). A call that fails notes nothing, and the capture goes on. Others that take the
 * stream are INVALID_ARGUMENT: they wait, or mean a moment in its order. INVALID_ARGUMENT: it is
 * capturing already, or it is the tensor face's. A stream that has failed captures like any other.
 * An op that runs on another device (umbel/select.h) does so in each launch, which waits for it. */
UM_API UM_MUST_CHECK um_status um_capture_begin(um_stream *stream);
/* The graph, ready to be launched from any thread; the stream is as before. out NULL: it is thrown
 * away, as um_stream_release does too. INVALID_ARGUMENT: not capturing. OUT_OF_MEMORY: the capture
 * is lost. */
UM_API UM_MUST_CHECK um_status um_capture_end(um_stream *stream, UM_GIVE um_graph **out);
UM_API bool um_stream_is_capturing(um_stream *stream);

/* Memory at [from, from + size_bytes) is at `to` instead. */
typedef struct um_remap {
    um_ptr from;
    uint64_t size_bytes;
    um_ptr to;
} um_remap;

/* Enqueues the graph's work. Every range that the graph uses lies as a whole in one remap, or apart
 * from all of them. Before any work: the memory is checked to be alive; memory that is written is
 * apart from all the rest, as it was; addresses change by multiples of their elements' bytes.
 * INVALID_ARGUMENT: one of that is not so, two remaps overlap, or the stream is of another device.
 * Another failure (OUT_OF_MEMORY, the stream's error) may come after part of the work. */
UM_API UM_MUST_CHECK um_status um_graph_launch(um_stream *stream, um_graph *graph,
                                               const um_remap *remaps, int32_t remap_count);
/* How many pieces of work it has: ops, copies, fills, writes, callbacks. */
UM_API int64_t um_graph_node_count(const um_graph *graph);
UM_API um_graph *um_graph_retain(UM_KEEP um_graph *graph);
/* NULL is legal; launches under way keep what they need. */
UM_API void um_graph_release(UM_TAKE um_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
