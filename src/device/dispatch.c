/* Running an op: the checks in the order that um_enqueue promises, and who runs it. */
#include "device/device.h"
#include "op/table.h"

#include <stdio.h>

typedef unsigned long long ull; /* for messages */

#define WHY_BYTES 256

/* ---- shared with the layers ----------------------------------------------------------------- */

const char *um_op_text(const um_op *op, char *text, size_t text_size)
{
    char view[128];
    size_t used = (size_t)snprintf(text, text_size, "%s", um_op_name(op->id));
    for (int32_t i = 0; i < op->in_count && used < text_size; i++) {
        used += (size_t)snprintf(text + used, text_size - used, " %s",
                                 um_view_text(&op->in[i], view, sizeof view));
    }
    for (int32_t i = 0; i < op->out_count && used < text_size; i++) {
        used += (size_t)snprintf(text + used, text_size - used, "%s %s", i ? "" : " ->",
                                 um_view_text(&op->out[i], view, sizeof view));
    }
    return text;
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool writes_nothing(const um_op *op)
{
    for (int32_t i = 0; i < op->out_count; i++) {
        if (um_view_count(&op->out[i]) != 0) return false;
    }
    return true;
}

/* Whether the view is aligned and every byte of it in one live allocation. With device->mutex held.
 */
static bool view_is_good(um_device *device, const um_view *view)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high)) return false;
    if (low == high) return true;
    return um_view_is_aligned(view) &&
           um_memory_holds(device, view->ptr + (uint64_t)low, (uint64_t)high - (uint64_t)low);
}

static um_status bad_view(um_device *device, const um_op *op, const char *role, int32_t index)
{
    char text[128];
    const um_view *view = role[0] == 'i' ? &op->in[index] : &op->out[index];
    if (!um_view_is_aligned(view))
        return um_backend_fail(UM_INVALID_ARGUMENT, NULL, um_op_name(op->id), 0,
                               "%s: %s %d, %s at 0x%llx, is not at a multiple of its %d bytes",
                               um_op_name(op->id), role, index,
                               um_view_text(view, text, sizeof text), (ull)view->ptr,
                               um_dtype_bits(view->dtype) / 8);
    return um_backend_fail(UM_INVALID_ARGUMENT, NULL, um_op_name(op->id), 0,
                           "%s: %s %d, %s at 0x%llx, is not inside one live allocation of %s",
                           um_op_name(op->id), role, index, um_view_text(view, text, sizeof text),
                           (ull)view->ptr, device->name);
}

static um_status check_pointers(um_device *device, const um_op *op)
{
    int32_t in = 0, out = 0;
    um_mutex_lock(&device->mutex);
    while (in < op->in_count && view_is_good(device, &op->in[in])) in++;
    while (out < op->out_count && view_is_good(device, &op->out[out])) out++;
    um_mutex_unlock(&device->mutex);
    if (in < op->in_count) return bad_view(device, op, "input", in);
    if (out < op->out_count) return bad_view(device, op, "output", out);
    return UM_OK;
}

/* ---- who runs it ---------------------------------------------------------------------------- */

static void explain(um_device *device, const um_op *op, bool supported, const char *why)
{
    char text[512];
    um_op_text(op, text, sizeof text);
    if (supported) {
        um_debug_write("dispatch", "%s: runs %s", device->name, text);
    } else {
        um_debug_write("dispatch", "%s: refuses %s: %s", device->name, text, why);
    }
}

static um_status find_runner(um_stream *stream, const um_op *op, um_runner *out)
{
    char why[WHY_BYTES];
    um_device *device = stream->device;
    bool supported = um_driver_supports(device->driver, op, why, sizeof why);
    if (device->debug_dispatch) explain(device, op, supported, why);
    *out = UM_RUNS_HERE;
    return supported ? UM_OK : um_fallback_find(stream, op, why, out);
}

um_status um_dispatch_check(um_stream *stream, const um_op *op, um_runner *out)
{
    *out = UM_RUNS_NOWHERE;
    UM_TRY(um_op_check(op));
    if (writes_nothing(op)) return UM_OK;
    UM_TRY(check_pointers(stream->device, op));
    return find_runner(stream, op, out);
}

um_status um_enqueue(um_stream *stream, const um_op *op)
{
    um_runner runner;
    if (!stream || !op) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_enqueue: %s is NULL", stream ? "op" : "stream");
    }
    UM_TRY(um_dispatch_check(stream, op, &runner));
    if (runner == UM_RUNS_NOWHERE) return UM_OK;
    if (stream->capture) return um_capture_ops(stream, 1, &op, runner == UM_RUNS_HERE);
    if (runner != UM_RUNS_HERE) return um_fallback_run(stream, runner, op);
    return stream->device->driver.table->enqueue(stream->handle, op);
}

/* The op with pointers so far apart that no view meets another. */
static void part_views(um_op *op)
{
    um_ptr ptr = 0;
    for (int32_t i = 0; i < op->out_count && i < UM_OP_MAX_OUTPUTS; i++) {
        op->out[i].ptr = ptr += (um_ptr)1 << 60;
    }
    for (int32_t i = 0; i < op->in_count && i < UM_OP_MAX_INPUTS; i++) {
        op->in[i].ptr = ptr += (um_ptr)1 << 60;
    }
}

bool um_supports(um_device *device, const um_op *op, char *why, size_t why_size)
{
    char unread[WHY_BYTES];
    if (!why || why_size == 0) {
        why = unread;
        why_size = sizeof unread;
    }
    if (!device || !op) {
        snprintf(why, why_size, "%s is NULL", device ? "op" : "device");
        return false;
    }
    um_op parted = *op;
    part_views(&parted);
    um_error saved = *um_last_error();
    bool legal = um_op_check(&parted) == UM_OK;
    snprintf(why, why_size, "%s", legal ? "" : um_last_error()->message);
    bool supported =
        legal && (writes_nothing(op) || um_driver_supports(device->driver, op, why, why_size));
    um_fail_again(&saved);
    return supported;
}
