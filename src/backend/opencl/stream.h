/* backend/opencl/stream.h: what the files of the OpenCL backend share.
 *
 *   loader.c   the library and its devices
 *   memory.c   buffers, and the addresses that stand for them
 *   stream.c   queues, tickets, waiting, failures that come later
 *   program.c  kernels, compiled once
 *   launch.c   ops as launches of them
 *   recorder.c commands for a queue: done, or noted and done again and again
 *   opencl.c   devices and the table of entries */
#ifndef UM_BACKEND_OPENCL_STREAM_H
#define UM_BACKEND_OPENCL_STREAM_H

#include "backend/opencl/cl.h"
#include "device/kdriver.h"
#include "device/memmap.h"

#include <umbel/backend.h>

struct um_backend_device {
    cl_any id, context;
    const char *build; /* options */
    um_kdriver k;      /* types: um_text_lacks' */
    um_mutex mutex;    /* of what follows, and of its streams */
    um_memmap map;     /* of buffers; addresses are our own numbers, given once and never again */
    struct um_cl_fault *unused; /* that were made, and nobody holds */
};

/* What the driver makes of a kernel. */
typedef struct um_cl_program {
    char name[64]; /* the kernel's */
    cl_any program, kernel;
    um_kbuffers buffers;
} um_cl_program;

/* What an op finds out while it runs. Held by each stream whose later work depends on it. */
typedef struct um_cl_fault {
    int32_t refs;
    uint32_t found;
    um_error error;           /* what it is then */
    struct um_cl_fault *next; /* of those that are unused */
} um_cl_fault;

/* A point in the queue, oldest first. */
typedef struct um_cl_item {
    uint64_t ticket; /* 0: nobody's */
    cl_any event;
    void *memory;       /* freed then: */
    uint64_t bytes;     /* so many */
    um_cl_fault *fault; /* looked at then */
} um_cl_item;

typedef enum um_cl_step_kind {
    UM_CL_KERNEL,
    UM_CL_COPY,
    UM_CL_FILL,
    UM_CL_FAULT, /* reads a word, and notes what it is if that is not 0 */
    UM_CL_KEEP   /* nothing to do: a buffer that steps before it use */
} um_cl_step_kind;

/* What a queue is asked to do. */
typedef struct um_cl_step {
    um_cl_step_kind kind;
    uint32_t pattern_bytes;
    cl_any kernel; /* with its arguments */
    size_t global[3], local[3];
    cl_any dst, src;
    uint64_t to, from;
    size_t size_bytes;
    uint8_t pattern[8];
    um_error *error; /* FAULT: what it is */
} um_cl_step;

/* A recorder has no queue, and none of what goes with one. */
struct um_backend_stream {
    um_backend_device *device;
    cl_any queue;
    /* Under the device's mutex, since other threads ask for tickets: */
    um_cl_item *item;
    int64_t first, count, capacity; /* items first .. count - 1 */
    uint64_t given, done;           /* tickets */
    uint64_t kept_bytes;            /* of items' memory */
    bool has_work;                  /* since the last ticket */
    um_error error;                 /* code OK: none */
    /* The owner's: */
    cl_any scratch;
    uint64_t scratch_bytes;
    bool is_recorder;
    um_cl_step *step; /* its; kernels, errors and kept buffers are each step's own */
    int64_t step_count, step_capacity;
};

/* ---- memory.c ------------------------------------------------------------------------------- */

um_status um_cl_alloc(um_backend_device *device, uint64_t size_bytes, um_ptr *out);
void um_cl_free(um_backend_device *device, um_ptr ptr);
/* The buffer of an address that is in one, and where in it. */
cl_any um_cl_find(um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes);
/* With the device's mutex held. */
cl_any um_cl_find_locked(const um_backend_device *device, um_ptr ptr, uint64_t *offset_bytes);

/* ---- stream.c ------------------------------------------------------------------------------- */

um_status um_cl_stream_create(um_backend_device *device, um_backend_stream **out);
void um_cl_stream_destroy(um_backend_stream *stream);
um_status um_cl_record(um_backend_stream *stream, uint64_t *ticket);
um_status um_cl_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket);
um_status um_cl_query(um_backend_stream *stream, uint64_t ticket);
um_status um_cl_synchronize(um_backend_stream *stream, uint64_t ticket);
um_status um_cl_clear_error(um_backend_stream *stream);
um_status um_cl_write(um_backend_stream *stream, um_ptr dst, const void *src, uint64_t size_bytes);
um_status um_cl_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes);
um_status um_cl_copy(um_backend_stream *stream, um_ptr dst, um_ptr src, uint64_t size_bytes);
um_status um_cl_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes, uint64_t pattern,
                     uint32_t pattern_bytes);
/* The stream's error, if it has one by now. */
um_status um_cl_state(um_backend_stream *stream);
/* Takes event, memory and fault (NULL: none). Without memory to keep them it waits. */
void um_cl_note(um_backend_stream *stream, um_cl_item item);
/* There is work since the last ticket; gives status. */
um_status um_cl_worked(um_backend_stream *stream, um_status status);
/* With one reference; NULL: OUT_OF_MEMORY. */
um_cl_fault *um_cl_fault_get(um_backend_device *device, const um_error *error);

/* ---- launch.c ------------------------------------------------------------------------------- */

um_status um_cl_enqueue(um_backend_stream *stream, const um_op *op);
um_status um_cl_enqueue_form(um_backend_stream *stream, const um_op *op, int32_t form);

/* ---- recorder.c ----------------------------------------------------------------------------- */

/* Does it, or notes it in a recorder, which takes its kernel and kept buffer then, and copies its
 * error. All but a FAULT also with the device's mutex held. */
um_status um_cl_run(um_backend_stream *stream, const um_cl_step *step);
um_status um_cl_recorder(um_backend_stream *stream, um_backend_stream **out);
um_status um_cl_replay(um_backend_stream *stream, um_backend_stream *recorder);
void um_cl_recorder_destroy(um_backend_stream *recorder);

/* ---- program.c ------------------------------------------------------------------------------ */

/* A um_kcache_desc's. */
um_status um_cl_program_compile(void *ctx, const um_kernel *kernel, void **object);
void um_cl_program_destroy(void *ctx, void *object);

#endif
