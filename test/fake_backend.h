/* test/fake_backend.h: backends of any kind, with any devices, on the CPU's memory and streams, for
 * tests of what the core does with several devices. They run the ops that fake_runs lists. */
#ifndef UM_TEST_FAKE_BACKEND_H
#define UM_TEST_FAKE_BACKEND_H

#include "device/device.h"
#include "test/test.h"

extern const um_backend um_backend_cpu;

enum { FAKE_DEVICES_MAX = 3 };

static const um_op_id *fake_runs; /* ends with UM_OP_NONE; NULL: nothing */
static int fake_enqueues;

typedef struct fake {
    um_backend table;
    int32_t count;
    const char *why_none;
    bool fails_to_open;
    um_device_info info[FAKE_DEVICES_MAX];
} fake;

/* NAME: an identifier; makes fake_NAME, a fake whose table is filled by fake_make. */
#define FAKE(NAME)                                                                                 \
    static fake fake_##NAME;                                                                       \
    static um_status NAME##_enumerate(int32_t *count, char *why, size_t why_size)                  \
    {                                                                                              \
        *count = fake_##NAME.count;                                                                \
        snprintf(why, why_size, "%s", fake_##NAME.count ? "" : fake_##NAME.why_none);              \
        return UM_OK;                                                                              \
    }                                                                                              \
    static um_status NAME##_describe(int32_t ordinal, um_device_info *out)                         \
    {                                                                                              \
        *out = fake_##NAME.info[ordinal];                                                          \
        out->ordinal = ordinal;                                                                    \
        out->struct_size = sizeof *out;                                                            \
        snprintf(out->backend, sizeof out->backend, "%s", #NAME);                                  \
        return UM_OK;                                                                              \
    }                                                                                              \
    static um_status NAME##_open(int32_t ordinal, um_backend_device **out)                         \
    {                                                                                              \
        (void)ordinal;                                                                             \
        *out = NULL;                                                                               \
        if (!fake_##NAME.fails_to_open) return um_backend_cpu.open(0, out);                        \
        return um_backend_fail(UM_DEVICE_ERROR, #NAME, NULL, 7, #NAME ": in use elsewhere");       \
    }                                                                                              \
    static um_status NAME##_caps(um_backend_device *device, um_caps *out)                          \
    {                                                                                              \
        um_status status = um_backend_cpu.caps(device, out);                                       \
        out->kind = fake_##NAME.info[0].kind;                                                      \
        out->features = fake_##NAME.info[0].features;                                              \
        return status;                                                                             \
    }                                                                                              \
    static void NAME##_make(void)                                                                  \
    {                                                                                              \
        fake_##NAME.table = um_backend_cpu;                                                        \
        fake_##NAME.table.name = #NAME;                                                            \
        fake_##NAME.table.enumerate = NAME##_enumerate;                                            \
        fake_##NAME.table.describe = NAME##_describe;                                              \
        fake_##NAME.table.open = NAME##_open;                                                      \
        fake_##NAME.table.caps = NAME##_caps;                                                      \
        fake_##NAME.table.supports = fake_supports;                                                \
        fake_##NAME.table.enqueue = fake_enqueue;                                                  \
        fake_##NAME.table.enqueue_batch = NULL;                                                    \
    }

static bool fake_supports(um_backend_device *device, const um_op *op, char *why, size_t why_size)
{
    (void)device;
    for (int i = 0; fake_runs && fake_runs[i]; i++) {
        if (fake_runs[i] == op->id) return true;
    }
    if (why_size > 0) snprintf(why, why_size, "a fake has no %s", um_op_name(op->id));
    return false;
}

static um_status fake_enqueue(um_backend_stream *stream, const um_op *op)
{
    CHECK_MSG(fake_supports(NULL, op, NULL, 0), "%s came without being asked for",
              um_op_name(op->id));
    fake_enqueues++;
    return um_backend_cpu.enqueue(stream, op);
}

#endif
