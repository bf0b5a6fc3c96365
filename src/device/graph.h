/* device/graph.h: graphs inside: what capture.c notes and launch.c replays. */
#ifndef UM_DEVICE_GRAPH_H
#define UM_DEVICE_GRAPH_H

#include "device/device.h"

#include <umbel/graph.h>

enum { UM_GRAPH_PLACES_MAX = UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS };

/* An address range that a node uses; slot: which of the graph's it is part of. */
typedef struct um_graph_place {
    um_ptr low, high; /* high is past the end */
    int32_t slot, align_bytes;
    bool is_written;
} um_graph_place;

typedef enum um_graph_kind {
    UM_GRAPH_OP,
    UM_GRAPH_ELSEWHERE, /* an op that the device lacks */
    UM_GRAPH_COPY,
    UM_GRAPH_COPY_HOST,
    UM_GRAPH_FILL,
    UM_GRAPH_WRITE,
    UM_GRAPH_CALL
} um_graph_kind;

typedef struct um_graph_node {
    struct um_graph_node *next;
    um_graph_kind kind;
    int32_t place_count;
    int64_t batch_count;    /* OP: the first of so many that are enqueued as one; else 0 */
    int64_t run_count;      /* the first of so many that a backend can record; else 0 */
    um_graph_place *places; /* OP: of the inputs, then of the outputs, slot -1: empty. Else of dst
                               and src, slot -1: in the host */
    um_op *op;              /* cut behind its last input; its program is the graph's */
    um_copy_kind copy_kind;
    um_ptr dst, src;
    uint64_t size_bytes, pattern;
    uint32_t pattern_bytes;
    const void *data;
    um_stream_fn fn;
    void *user;
} um_graph_node;

/* Ranges that overlap are one slot: they move together. */
typedef struct um_graph_slot {
    um_ptr low, high;
    int32_t align_bytes;
    bool is_written;
} um_graph_slot;

struct um_graph {
    _Atomic int32_t refs, weak; /* once refs is 0 nothing else is good; weak: while there are refs,
                                   and of each recording */
    um_device *device;          /* a reference */
    um_arena arena;             /* the nodes and all they have */
    um_graph_node *first, *last;
    int64_t node_count, place_count, batch_max;
    um_graph_slot *slots; /* by address */
    int32_t slot_count;
};

/* A run of nodes as a stream's backend recorded it. */
typedef struct um_recording {
    struct um_recording *next;
    um_graph *graph; /* a weak reference */
    const um_graph_node *first, *last;
    um_backend_stream *recorder;
    bool refused; /* it cannot record that */
} um_recording;

void um_graph_weak_release(um_graph *graph);

#endif
