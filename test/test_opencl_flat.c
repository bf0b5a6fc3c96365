/* driver_flat.h on OpenCL. */
#include "test/cl_wrap.h"
#include "test/driver_flat.h"

static int64_t live(int32_t kind) { return cl_wrap.live[kind]; }
static int64_t made(int32_t kind) { return cl_wrap.made[kind]; }
static const char *const names[CL_WRAP_KINDS] = {"contexts", "queues",   "buffers",
                                                 "events",   "programs", "kernels"};

static const driver_row driver = {"opencl:0", "opencl,cpu", CL_WRAP_KINDS, names,
                                  live,       made,         false};

int main(int argc, char **argv) { return run_flat(argc, argv); }
