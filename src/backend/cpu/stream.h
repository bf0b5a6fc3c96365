/* backend/cpu/stream.h: the CPU's streams as the driver (driver.c) uses them; the entries have the
 * meaning of umbel/backend.h. */
#ifndef UM_BACKEND_CPU_STREAM_H
#define UM_BACKEND_CPU_STREAM_H

#include "backend/cpu/cpu.h"

um_status um_cpu_stream_create(um_cpu_pool *pool, int32_t priority, um_backend_stream **out);
void um_cpu_stream_destroy(um_backend_stream *stream);
um_status um_cpu_stream_write(um_backend_stream *stream, um_ptr dst, const void *src,
                              uint64_t size_bytes);
um_status um_cpu_stream_read(um_backend_stream *stream, void *dst, um_ptr src, uint64_t size_bytes);
um_status um_cpu_stream_copy(um_backend_stream *stream, um_ptr dst, um_ptr src,
                             uint64_t size_bytes);
um_status um_cpu_stream_copy_host(um_backend_stream *stream, um_copy_kind kind, um_ptr dst,
                                  um_ptr src, uint64_t size_bytes);
um_status um_cpu_stream_call(um_backend_stream *stream, um_stream_fn fn, void *user);
um_status um_cpu_stream_fill(um_backend_stream *stream, um_ptr dst, uint64_t size_bytes,
                             uint64_t pattern, uint32_t pattern_bytes);
um_status um_cpu_stream_record(um_backend_stream *stream, uint64_t *ticket);
um_status um_cpu_stream_wait(um_backend_stream *stream, um_backend_stream *other, uint64_t ticket);
um_status um_cpu_stream_query(um_backend_stream *stream, uint64_t ticket);
um_status um_cpu_stream_synchronize(um_backend_stream *stream, uint64_t ticket);
um_status um_cpu_stream_clear_error(um_backend_stream *stream);
um_status um_cpu_stream_enqueue(um_backend_stream *stream, const um_op *op);
um_status um_cpu_stream_enqueue_batch(um_backend_stream *stream, int64_t count,
                                      const um_op *const *ops);

#endif
