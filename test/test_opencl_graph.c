/* driver_graph.h on OpenCL. */
#include "test/cl_wrap.h"
#include "test/driver_graph.h"

static int64_t live(int32_t kind) { return cl_wrap.live[kind]; }
static int64_t made(int32_t kind) { return cl_wrap.made[kind]; }
static const char *const names[CL_WRAP_KINDS] = {"contexts", "queues",   "buffers",
                                                 "events",   "programs", "kernels"};

static const driver_row driver = {"opencl:0",
                                  "opencl,cpu",
                                  CL_WRAP_KINDS,
                                  names,
                                  live,
                                  made,
                                  .each_time = 1u << CL_WRAP_EVENT,
                                  .recorded = 1u << CL_WRAP_KERNEL};

int main(void) { return run_graphs(); }
