/* test/cl_wrap.h: an OpenCL loader in the place of the real one, which it calls: counts calls and
 * handles, and fails where it is told to. A test is linked with it, and then the driver's
 * dlopen("libOpenCL.so.1") gives it as well. */
#ifndef UM_TEST_CL_WRAP_H
#define UM_TEST_CL_WRAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CL_WRAP_CODE = -9876 }; /* of calls that fail on purpose */

typedef enum cl_wrap_kind {
    CL_WRAP_CONTEXT,
    CL_WRAP_QUEUE,
    CL_WRAP_BUFFER,
    CL_WRAP_EVENT,
    CL_WRAP_PROGRAM,
    CL_WRAP_KERNEL,
    CL_WRAP_KINDS
} cl_wrap_kind;

typedef struct cl_wrap_state {
    _Atomic int64_t calls, live[CL_WRAP_KINDS], made[CL_WRAP_KINDS];
    _Atomic int64_t fail_at; /* the call that fails, counted from 1; 0: none does */
    _Atomic bool for_good;   /* ... and all after it, as of a device that is lost */
    /* Nothing that was enqueued is done, as far as one can see, before somebody waits. */
    _Atomic bool slow, busy;
    _Atomic bool as_gpu;        /* the device says that it is one */
    const char *_Atomic failed; /* the first call that did */
} cl_wrap_state;

extern cl_wrap_state cl_wrap;

#endif
