/* test/opencl_run.h: runs OpenCL C text on whatever OpenCL device there is, through the loader
 * opened at run time. Declarations are our own; numbers are from the OpenCL 1.2 specification. */
#ifndef UM_TEST_OPENCL_RUN_H
#define UM_TEST_OPENCL_RUN_H

#include "test.h"

#include <umbel/kernel.h>

#include <dlfcn.h>
#include <stdlib.h>

typedef struct cl_any *cl_any; /* every handle */
#define CL_CALLS(X)                                                                                \
    X(int, clGetPlatformIDs, (uint32_t, cl_any *, uint32_t *))                                     \
    X(int, clGetDeviceIDs, (cl_any, uint64_t, uint32_t, cl_any *, uint32_t *))                     \
    X(int, clGetDeviceInfo, (cl_any, uint32_t, size_t, void *, size_t *))                          \
    X(cl_any, clCreateContext,                                                                     \
      (const intptr_t *, uint32_t, const cl_any *, void *, void *, int *))                         \
    X(cl_any, clCreateCommandQueue, (cl_any, cl_any, uint64_t, int *))                             \
    X(cl_any, clCreateProgramWithSource, (cl_any, uint32_t, const char **, const size_t *, int *)) \
    X(int, clBuildProgram, (cl_any, uint32_t, const cl_any *, const char *, void *, void *))       \
    X(int, clGetProgramBuildInfo, (cl_any, cl_any, uint32_t, size_t, void *, size_t *))            \
    X(cl_any, clCreateKernel, (cl_any, const char *, int *))                                       \
    X(cl_any, clCreateBuffer, (cl_any, uint64_t, size_t, void *, int *))                           \
    X(int, clSetKernelArg, (cl_any, uint32_t, size_t, const void *))                               \
    X(int, clEnqueueNDRangeKernel,                                                                 \
      (cl_any, cl_any, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,         \
       const cl_any *, cl_any *))                                                                  \
    X(int, clEnqueueReadBuffer,                                                                    \
      (cl_any, cl_any, uint32_t, size_t, size_t, void *, uint32_t, const cl_any *, cl_any *))      \
    X(int, clFinish, (cl_any))                                                                     \
    X(int, clReleaseMemObject, (cl_any))                                                           \
    X(int, clReleaseKernel, (cl_any))                                                              \
    X(int, clReleaseProgram, (cl_any))                                                             \
    X(int, clReleaseCommandQueue, (cl_any))                                                        \
    X(int, clReleaseContext, (cl_any))

#define CL_POINTER(result, name, args) result(*name) args;
static struct {
    cl_any device, context, queue;
    CL_CALLS(CL_POINTER)
} cl;

/* false: there is no OpenCL device here, and why. */
static bool opencl_open(const char **why)
{
    cl_any platform;
    uint32_t count = 0;
    int status = 0;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    *why = "no libOpenCL.so.1";
    if (!library) return false;
    *why = "libOpenCL.so.1 lacks a function of OpenCL 1.2";
#define CL_LOOKUP(result, name, args)                                                              \
    void *found_##name = dlsym(library, #name);                                                    \
    memcpy(&cl.name, &found_##name, sizeof cl.name);                                               \
    if (!cl.name) return false;
    CL_CALLS(CL_LOOKUP)
    *why = "no OpenCL device";
    if (cl.clGetPlatformIDs(1, &platform, &count) != 0 || count == 0) return false;
    if (cl.clGetDeviceIDs(platform, UINT32_MAX, 1, &cl.device, &count) != 0 || count == 0)
        return false;
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
    if (cl.context) cl.queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &status);
    return cl.queue != NULL;
}

static bool opencl_has(const char *extension)
{
    enum { EXTENSIONS = 0x1030 };
    static char text[1 << 14];
    if (cl.clGetDeviceInfo(cl.device, EXTENSIONS, sizeof text - 1, text, NULL) != 0) return false;
    return strstr(text, extension) != NULL;
}

static void opencl_close(void)
{
    if (cl.queue) cl.clReleaseCommandQueue(cl.queue);
    if (cl.context) cl.clReleaseContext(cl.context);
}

static cl_any opencl_build(const char *text)
{
    int status;
    cl_any program = cl.clCreateProgramWithSource(cl.context, 1, &text, NULL, &status);
    if (cl.clBuildProgram(program, 1, &cl.device, "-cl-std=CL1.2", NULL, NULL) == 0) return program;
    char log[4096] = "";
    cl.clGetProgramBuildInfo(program, cl.device, 0x1183, sizeof log - 1, log, NULL);
    fprintf(stderr, "%s\n%s\n", log, text);
    cl.clReleaseProgram(program);
    return NULL;
}

/* Runs function `name` of the text with the buffers, read and written, and scalars of run; base
 * offsets are 0. */
static bool opencl_run(const char *text, const char *name, const uint32_t group_size[3],
                       const um_kernel_run *run)
{
    int status;
    cl_any program = opencl_build(text), buffer[UM_K_MAX_BUFFERS];
    cl_any kernel = program ? cl.clCreateKernel(program, name, &status) : NULL;
    if (!kernel) return false;
    uint32_t arg = 0;
    uint64_t base = 0;
    for (int32_t i = 0; i < run->buffer_count; i++) {
        enum { READ_WRITE_COPY = 1 << 0 | 1 << 5 };
        buffer[i] = cl.clCreateBuffer(cl.context, READ_WRITE_COPY, run->buffers[i].size_bytes,
                                      run->buffers[i].data, &status);
        cl.clSetKernelArg(kernel, arg++, sizeof buffer[i], &buffer[i]);
        cl.clSetKernelArg(kernel, arg++, sizeof base, &base);
    }
    for (int32_t i = 0; i < run->scalar_count; i++)
        cl.clSetKernelArg(kernel, arg++, 4, &run->scalars[i]);
    size_t global[3], local[3];
    for (int i = 0; i < 3; i++) {
        local[i] = group_size[i];
        global[i] = local[i] * run->group_count[i];
    }
    status = cl.clEnqueueNDRangeKernel(cl.queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    for (int32_t i = 0; i < run->buffer_count; i++) {
        status |= cl.clEnqueueReadBuffer(cl.queue, buffer[i], 1, 0, run->buffers[i].size_bytes,
                                         run->buffers[i].data, 0, NULL, NULL);
        cl.clReleaseMemObject(buffer[i]);
    }
    cl.clReleaseKernel(kernel);
    cl.clReleaseProgram(program);
    return status == 0;
}

#endif
