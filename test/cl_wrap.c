/* test/cl_wrap.c: see test/cl_wrap.h. A shared library with the real loader's name, its functions
 * made of the rows of the driver's cl.def. */
#include "test/cl_wrap.h"
#include "backend/opencl/cl.h"

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT cl_wrap_state cl_wrap;

static void *library;

/* UM_LIBRARY is the real one's path, since its name is ours. */
__attribute__((constructor)) static void load(void)
{
    library = dlopen(UM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

static bool fails(const char *name)
{
    int64_t call = atomic_fetch_add(&cl_wrap.calls, 1) + 1, at = cl_wrap.fail_at;
    bool does = call == at || (at != 0 && call > at && cl_wrap.for_good);
    if (does && call == at) cl_wrap.failed = name;
    return does || !library;
}

/* What fails does nothing, but that handles are released all the same. What waits for a lost device
 * waits for the real one, so that it is done with memory that the driver then lets go. */
static bool works(const char *name)
{
    bool waits = strcmp(name, "clFinish") == 0 || strcmp(name, "clWaitForEvents") == 0;
    return library && (strncmp(name, "clRelease", 9) == 0 || (waits && cl_wrap.for_good));
}

static void makes(cl_wrap_kind kind)
{
    cl_wrap.live[kind]++;
    cl_wrap.made[kind]++;
}

static void tell_EVENT(uint32_t what, void *out)
{
    int32_t running = 1;
    if (what == UM_CL_EVENT_STATUS && cl_wrap.slow && cl_wrap.busy)
        memcpy(out, &running, sizeof running);
}

static void tell_DEVICE(uint32_t what, void *out)
{
    uint64_t gpu = UM_CL_TYPE_GPU;
    if (what == UM_CL_DEVICE_TYPE && cl_wrap.as_gpu) memcpy(out, &gpu, sizeof gpu);
}

#define UM_CL_MAKES(kind) makes(CL_WRAP_##kind)
#define UM_CL_DROPS(kind) cl_wrap.live[CL_WRAP_##kind]--
#define UM_CL_WORK                                                                                 \
    cl_wrap.busy = true;                                                                           \
    if (event) makes(CL_WRAP_EVENT)
#define UM_CL_WAITS(whether)                                                                       \
    if (whether) cl_wrap.busy = false
#define UM_CL_TELLS(of) tell_##of(what, out)
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&call, &symbol, sizeof symbol);                                                     \
    } while (0)

#define WRAP_int32_t(name, parameters, arguments, effect)                                          \
    EXPORT int32_t name parameters;                                                                \
    int32_t name parameters                                                                        \
    {                                                                                              \
        int32_t(*call) parameters;                                                                 \
        bool failing = fails(#name);                                                               \
        if (failing && !works(#name)) return CL_WRAP_CODE;                                         \
        FIND(name);                                                                                \
        int32_t code = call arguments;                                                             \
        if (code == 0) {                                                                           \
            effect;                                                                                \
        }                                                                                          \
        return failing ? CL_WRAP_CODE : code;                                                      \
    }
#define WRAP_cl_any(name, parameters, arguments, effect)                                           \
    EXPORT cl_any name parameters;                                                                 \
    cl_any name parameters                                                                         \
    {                                                                                              \
        cl_any(*call) parameters;                                                                  \
        *code = CL_WRAP_CODE;                                                                      \
        if (fails(#name)) return NULL;                                                             \
        FIND(name);                                                                                \
        cl_any made = call arguments;                                                              \
        if (made) {                                                                                \
            effect;                                                                                \
        }                                                                                          \
        return made;                                                                               \
    }
#define UM_CL(result, name, parameters, arguments, effect)                                         \
    WRAP_##result(name, parameters, arguments, effect)
#include "backend/opencl/cl.def"
