/* device/trace_json.h: files in Chrome's trace format (JSON, "Trace Event Format"), as Perfetto and
 * chrome://tracing read it. Used by the trace layer. */
#ifndef UM_DEVICE_TRACE_JSON_H
#define UM_DEVICE_TRACE_JSON_H

#include "base/base.h"

typedef struct um_trace_file um_trace_file;

/* One file for all who name it, in the whole process; complete JSON whenever the last of them has
 * closed it. A file that is such a one already goes on, any other is begun anew. IO_ERROR. */
um_status um_trace_file_open(const char *path, um_trace_file **out);
/* false: something could not be written. */
bool um_trace_file_close(um_trace_file *file);

/* What happened from start to end on a thread (a stream, 0 the host) of a process (a device). args:
 * what goes between the braces, "\"a\":1", or "". */
typedef struct um_trace_event {
    const char *name, *category, *args;
    int32_t process, thread;
    int64_t start_ns, end_ns;
} um_trace_event;
void um_trace_file_event(um_trace_file *file, const um_trace_event *event);
/* The name that is shown for a thread of it, or with thread -1 for the process. */
void um_trace_file_name(um_trace_file *file, int32_t process, int32_t thread, const char *name);

/* text with JSON's escapes, cut where it does not fit; returns out. */
const char *um_json_escape(const char *text, char *out, size_t out_size);

#endif
