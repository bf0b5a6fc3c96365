/* backend/opencl/cl.h: the OpenCL loader, opened at run time, and the devices it knows.
 * Declarations are our own; numbers are from the OpenCL 1.2 specification. */
#ifndef UM_BACKEND_OPENCL_CL_H
#define UM_BACKEND_OPENCL_CL_H

#include "base/os.h"

typedef struct um_cl_handle *cl_any; /* every handle */
typedef void (*cl_notify)(const char *, const void *, size_t, void *);
typedef void (*cl_build_notify)(cl_any, void *);

typedef struct um_cl_calls {
#define UM_CL(result, name, parameters, arguments, effect) result(*name) parameters;
#include "backend/opencl/cl.def"
#undef UM_CL
} um_cl_calls;

extern um_cl_calls um_cl; /* good once um_cl_devices has found one */

typedef struct um_cl_device {
    cl_any id;
    uint64_t type;
} um_cl_device;
enum { UM_CL_TYPE_CPU = 1 << 1, UM_CL_TYPE_GPU = 1 << 2 };

/* The usable devices of all platforms; the same list for the whole process. With none, why says
 * what is missing. */
int32_t um_cl_devices(const um_cl_device **out, char *why, size_t why_size);

/* What clGetDeviceInfo says, 0 or "" where it says nothing. */
uint64_t um_cl_number(cl_any device, uint32_t what);
void um_cl_text(cl_any device, uint32_t what, char *out, size_t out_size);
bool um_cl_has(cl_any device, const char *extension);

/* A call that returned `code`: the status it is, recorded with the code as native. */
um_status um_cl_fail(const char *call, int32_t code);

enum {
    UM_CL_DEVICE_TYPE = 0x1000,
    UM_CL_DEVICE_COMPUTE_UNITS = 0x1002,
    UM_CL_DEVICE_GROUP_SIZE = 0x1004,
    UM_CL_DEVICE_ITEM_SIZES = 0x1005,
    UM_CL_DEVICE_MAX_ALLOC = 0x1010,
    UM_CL_DEVICE_FLOAT_CONFIG = 0x101b,
    UM_CL_DEVICE_HALF_CONFIG = 0x1033,
    UM_CL_DEVICE_GLOBAL_CACHE = 0x101e,
    UM_CL_DEVICE_MEMORY = 0x101f,
    UM_CL_DEVICE_SHARED_MEMORY = 0x1023,
    UM_CL_DEVICE_LITTLE_ENDIAN = 0x1026,
    UM_CL_DEVICE_AVAILABLE = 0x1027,
    UM_CL_DEVICE_COMPILER = 0x1028,
    UM_CL_DEVICE_NAME = 0x102b,
    UM_CL_DEVICE_DRIVER = 0x102d,
    UM_CL_DEVICE_VERSION = 0x102f,
    UM_CL_DEVICE_EXTENSIONS = 0x1030,
    UM_CL_DEVICE_UNIFIED_MEMORY = 0x1035,
    UM_CL_EVENT_STATUS = 0x11d3, /* 0: complete; below: failed */
    UM_CL_BUILD_LOG = 0x1183,
    UM_CL_BINARY_SIZES = 0x1165,
    UM_CL_BINARIES = 0x1166,
    UM_CL_CORRECTLY_ROUNDED_DIVIDE = 1 << 7 /* of the float config */
};

#endif
