/* test/shim/device.h: devices "cuda", "hip" and "metal" for tests: the kernel library's kernels as
 * those targets' text, compiled for the host (modules.h) and run with a fiber an invocation
 * (fiber.c). Their memory is the host's, their streams do their work at once. */
#ifndef UM_TEST_SHIM_DEVICE_H
#define UM_TEST_SHIM_DEVICE_H

#include "ir/ir.h"
#include "render/render.h"

#include <umbel/backend.h>

enum { SHIM_DEVICES = 3 };
extern const um_backend *const shim_backends[SHIM_DEVICES];

/* While it is set an op is not run: the texts of its kernels are kept, those of all devices. */
extern bool shim_collects;
/* Launches that went well; ops whose texts could not be made. */
extern _Atomic int64_t shim_launches, shim_uncollected;

/* Makes one that a kernel causes say which. */
void shim_catch_crashes(void);

um_target shim_target(int32_t device);
uint32_t shim_subgroup(int32_t device); /* invocations of a subgroup */
/* The kernel as the device's renderer gets it. */
um_status shim_lower(int32_t device, const um_kernel *k, um_kernel **out);
/* Runs the text of such a kernel; its subgroup size is the device's. */
um_status shim_run(int32_t device, const um_kernel *lowered, const um_kernel_run *run);

#endif
