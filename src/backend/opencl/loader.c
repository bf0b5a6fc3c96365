/* backend/opencl/loader.c: opens the OpenCL loader and looks for devices, once. */
#include "backend/opencl/cl.h"

#include <stdio.h>
#include <umbel/backend.h>

um_cl_calls um_cl;

enum { DEVICES_MAX = 64, PLATFORMS_MAX = 16, GROUP_INVOCATIONS = 256 };

static struct {
    um_once once;
    um_cl_device device[DEVICES_MAX];
    int32_t count;
    char why[200];
} found = {.once = UM_ONCE_INIT};

uint64_t um_cl_number(cl_any device, uint32_t what)
{
    uint64_t value = 0; /* little-endian, so that a shorter answer is in its low part */
    return um_cl.clGetDeviceInfo(device, what, sizeof value, &value, NULL) == 0 ? value : 0;
}

void um_cl_text(cl_any device, uint32_t what, char *out, size_t out_size)
{
    size_t size = 0;
    out[0] = 0;
    if (um_cl.clGetDeviceInfo(device, what, 0, NULL, &size) != 0) return;
    char *text = um_mem_zalloc(size + 1);
    if (text && um_cl.clGetDeviceInfo(device, what, size, text, NULL) == 0)
        snprintf(out, out_size, "%s", text + strspn(text, " "));
    um_mem_free(text);
}

bool um_cl_has(cl_any device, const char *extension)
{
    char all[8192];
    size_t size = strlen(extension);
    um_cl_text(device, UM_CL_DEVICE_EXTENSIONS, all, sizeof all);
    for (const char *at = all; (at = strstr(at, extension)); at += size)
        if ((at == all || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0)) return true;
    return false;
}

/* Only what can compile, has the host's byte order, and work-groups as large as kernels'. */
static void add_devices(cl_any platform)
{
    cl_any id[DEVICES_MAX];
    uint32_t count = 0;
    if (um_cl.clGetDeviceIDs(platform, UINT32_MAX, DEVICES_MAX, id, &count) != 0) return;
    for (uint32_t i = 0; i < count && i < DEVICES_MAX && found.count < DEVICES_MAX; i++) {
        if (!um_cl_number(id[i], UM_CL_DEVICE_AVAILABLE)) continue;
        if (!um_cl_number(id[i], UM_CL_DEVICE_COMPILER)) continue;
        if (!um_cl_number(id[i], UM_CL_DEVICE_LITTLE_ENDIAN)) continue;
        if (um_cl_number(id[i], UM_CL_DEVICE_GROUP_SIZE) < GROUP_INVOCATIONS) continue;
        uint64_t type = um_cl_number(id[i], UM_CL_DEVICE_TYPE);
        found.device[found.count++] = (um_cl_device){id[i], type};
    }
}

static bool load(void)
{
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so",
                                        "/System/Library/Frameworks/OpenCL.framework/OpenCL"};
    void *library = um_os_library_open_any(names, UM_COUNT_OF(names));
    snprintf(found.why, sizeof found.why, "no OpenCL loader (libOpenCL.so.1)");
    if (!library) return false;
#define UM_CL(result, name, parameters, arguments, effect)                                         \
    um_os_fn fn_##name = um_os_library_find(library, #name);                                       \
    memcpy(&um_cl.name, &fn_##name, sizeof fn_##name);                                             \
    if (!fn_##name) {                                                                              \
        snprintf(found.why, sizeof found.why, "the OpenCL loader has no " #name);                  \
        um_os_library_close(library);                                                              \
        return false;                                                                              \
    }
#include "backend/opencl/cl.def"
#undef UM_CL
    return true; /* it stays open */
}

static void look(void)
{
    cl_any platform[PLATFORMS_MAX];
    uint32_t count = 0;
    um_error saved = *um_last_error();
    if (load()) {
        if (um_cl.clGetPlatformIDs(PLATFORMS_MAX, platform, &count) != 0) count = 0;
        for (uint32_t i = 0; i < count && i < PLATFORMS_MAX; i++) add_devices(platform[i]);
        snprintf(found.why, sizeof found.why,
                 count == 0 ? "no OpenCL driver is installed" : "no driver has a usable device");
    }
    um_fail_again(&saved);
}

int32_t um_cl_devices(const um_cl_device **out, char *why, size_t why_size)
{
    um_call_once(&found.once, look);
    *out = found.device;
    if (why_size > 0) snprintf(why, why_size, "%s", found.count ? "" : found.why);
    return found.count;
}

um_status um_cl_fail(const char *call, int32_t code)
{
    um_status status = UM_DEVICE_ERROR;
    if (code == -4 || code == -5 || code == -6 || code == -61) status = UM_OUT_OF_MEMORY;
    if (code == -2) status = UM_DEVICE_LOST;
    return um_backend_fail(status, "opencl", NULL, code, "opencl: %s failed: %d", call, (int)code);
}
