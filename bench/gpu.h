/* bench/gpu.h: what `gpu` compares a device with: the same API, driven by hand. */
#ifndef UM_BENCH_GPU_H
#define UM_BENCH_GPU_H

#include "base/base.h"
#include "base/os.h"

#include <umbel/umbel.h>

typedef struct gpu_peer {
    const char *backend; /* of the device's spec */
    const char *api;
    const char *product; /* whose; NULL: there is none here */
    /* Device number `ordinal` of the backend's; prints what it is. */
    void (*open)(int32_t ordinal);
    void (*close)(void);
    /* z = x y of f32[n, n]: in memory of the peer's, once and waited for, and back. */
    void (*begin_product)(int64_t n, const float *x, const float *y);
    void (*run_product)(void);
    void (*end_product)(float *z);
    /* z = x + y of one element each, once and waited for. */
    void (*begin_call)(void);
    void (*run_call)(void);
    void (*end_call)(void);
} gpu_peer;

extern gpu_peer gpu_opencl, gpu_vulkan;

/* Ends the program with a line. */
void gpu_die(const char *what, int code);

#endif
