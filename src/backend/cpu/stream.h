/* backend/cpu/stream.h: the CPU's streams as the driver (driver.c) uses them, beside the entries
 * that umbel/static.h has; all have the meaning of umbel/backend.h. */
#ifndef UM_BACKEND_CPU_STREAM_H
#define UM_BACKEND_CPU_STREAM_H

#include "backend/cpu/cpu.h"

#include <umbel/static.h>

um_status um_cpu_stream_create(um_cpu_pool *pool, int32_t priority, um_backend_stream **out);
um_status um_cpu_stream_copy_host(um_backend_stream *stream, um_copy_kind kind, um_ptr dst,
                                  um_ptr src, uint64_t size_bytes);
um_status um_cpu_stream_call(um_backend_stream *stream, um_stream_fn fn, void *user);
um_status um_cpu_stream_enqueue_batch(um_backend_stream *stream, int64_t count,
                                      const um_op *const *ops);

#endif
