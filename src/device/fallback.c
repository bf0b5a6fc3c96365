/* Running an op elsewhere, when its device lacks it: to which device (the chain and its settings),
 * and how the operands move. Called by dispatch.c and batch.c.
 *
 * The bytes that the views span are copied as ranges, those that overlap as one: so addresses keep
 * their distances, and an output in place of an input, or woven into it, is so on the other device
 * too. Back come the elements of the outputs only: other streams may be at work on what lies
 * between them. */
#include "device/device.h"
#include "op/table.h"

#include <stdio.h>

enum { WHY_BYTES = sizeof((um_error *)0)->message, ALIGN = 64 };

/* ---- settings ------------------------------------------------------------------------------- */

um_status um_device_set_fallback(um_device *device, const um_device_ref *list, int32_t count)
{
    um_device_info info = {.struct_size = sizeof info};
    if (!device || (count > 0 && !list)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_device_set_fallback: %s is NULL",
                       device ? "list" : "device");
    }
    if (count < 0 || count > UM_CHAIN_MAX) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_device_set_fallback: %d devices, at most %d", count,
                       UM_CHAIN_MAX);
    }
    for (int32_t i = 0; i < count; i++) {
        UM_TRY(um_device_describe(list[i].backend_index, list[i].ordinal, &info));
    }
    um_mutex_lock(&device->mutex);
    device->fallback.chain_is_set = true;
    device->fallback.chain_count = count;
    if (count > 0) memcpy(device->fallback.chain, list, (size_t)count * sizeof *list);
    um_mutex_unlock(&device->mutex);
    return UM_OK;
}

void um_device_set_strict(um_device *device, bool strict)
{
    if (!device) return;
    um_mutex_lock(&device->mutex);
    device->fallback.strict = strict;
    um_mutex_unlock(&device->mutex);
}

void um_device_set_fallback_callback(um_device *device, um_fallback_fn fn, void *user)
{
    if (!device) return;
    um_mutex_lock(&device->mutex);
    device->fallback.fn = fn;
    device->fallback.user = user;
    um_mutex_unlock(&device->mutex);
}

uint64_t um_fallback_count(um_device *device)
{
    if (!device) return 0;
    return atomic_load_explicit(&device->fallback_count, memory_order_relaxed);
}

/* ---- the chain ------------------------------------------------------------------------------ */

static bool same(um_device_ref a, um_device_ref b)
{
    return a.backend_index == b.backend_index && a.ordinal == b.ordinal;
}

/* What is behind the device among all that there are. */
static um_status default_chain(um_device *device, um_fallback *out)
{
    um_device_ref list[UM_CHAIN_MAX + 1];
    int32_t count, at = 0;
    UM_TRY(um_select_any(false, list, (int32_t)UM_COUNT_OF(list), &count));
    count = UM_MIN(count, (int32_t)UM_COUNT_OF(list));
    while (at < count && !same(list[at], device->ref)) at++;
    bool alone = device->info.kind == UM_DEVICE_NULL || device->info.kind == UM_DEVICE_INTERP;
    if (at == count) at = alone ? count : -1; /* all are behind it */
    out->chain_count = UM_MAX(count - at - 1, 0);
    for (int32_t i = 0; i < out->chain_count; i++) out->chain[i] = list[at + 1 + i];
    return UM_OK;
}

/* The settings as they are now. */
static um_status look_up(um_device *device, um_fallback *out)
{
    um_mutex_lock(&device->mutex);
    *out = device->fallback;
    um_mutex_unlock(&device->mutex);
    if (out->chain_is_set || out->strict) return UM_OK;
    UM_TRY(default_chain(device, out));
    um_mutex_lock(&device->mutex);
    if (!device->fallback.chain_is_set) {
        memcpy(device->fallback.chain, out->chain, sizeof out->chain);
        device->fallback.chain_count = out->chain_count;
        device->fallback.chain_is_set = true;
    }
    um_mutex_unlock(&device->mutex);
    return UM_OK;
}

static um_status open_lane(um_fallback_lane *lane)
{
    um_spec spec = {.device = lane->ref};
    UM_TRY(um_open_spec(&spec, &lane->device));
    um_status status = um_stream_create(lane->device, &lane->stream);
    if (status != UM_OK) um_device_release(lane->device);
    return status;
}

static um_status get_lane(um_stream *stream, um_device_ref ref, int32_t *out)
{
    for (*out = 0; *out < stream->lane_count; ++*out) {
        if (same(stream->lanes[*out].ref, ref)) return UM_OK;
    }
    void *lanes = stream->lanes;
    um_status status = um_vec_reserve(&lanes, &stream->lane_capacity, stream->lane_count,
                                      sizeof *stream->lanes, "um_enqueue");
    stream->lanes = lanes;
    UM_TRY(status);
    um_fallback_lane lane = {.ref = ref};
    UM_TRY(open_lane(&lane));
    stream->lanes[stream->lane_count++] = lane;
    return UM_OK;
}

void um_fallback_release(um_stream *stream)
{
    for (int64_t i = 0; i < stream->lane_count; i++) {
        um_stream_release(stream->lanes[i].stream);
        um_device_release(stream->lanes[i].device);
    }
    um_mem_free(stream->lanes);
}

um_status um_fallback_find(um_stream *stream, const um_op *op, const char *why, um_runner *out)
{
    um_device *device = stream->device;
    um_fallback settings;
    char text[WHY_BYTES], other[256];
    UM_TRY(look_up(device, &settings));
    size_t used = (size_t)snprintf(text, sizeof text, "%s cannot run it: %s", device->name, why);
    for (int32_t i = 0; i < settings.chain_count && !settings.strict; i++) {
        if (same(settings.chain[i], device->ref)) continue;
        um_status status = get_lane(stream, settings.chain[i], out);
        if (status == UM_OUT_OF_MEMORY) return status;
        if (status == UM_OK &&
            um_driver_supports(stream->lanes[*out].device->driver, op, other, sizeof other)) {
            return UM_OK;
        }
        if (used >= sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "; nor can %s: %s",
                                 um_backend_name_at(settings.chain[i].backend_index),
                                 status == UM_OK ? other : um_last_error()->message);
    }
    return um_backend_fail(UM_UNSUPPORTED, device->info.backend, um_op_name(op->id), 0, "%s: %s%s",
                           um_op_name(op->id), text,
                           settings.strict ? "; strict: no other device may" : "");
}

/* ---- moving --------------------------------------------------------------------------------- */

typedef struct range {
    um_ptr low, high; /* here; high is past the end */
    um_ptr there;     /* 0 until there is memory */
    uint8_t *host;    /* the same bytes on their way */
    bool read;        /* whether they have to be there before the op */
} range;

typedef struct move {
    um_stream *stream;
    const um_fallback_lane *lane;
    range ranges[UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS];
    int32_t count;
    uint64_t moved_bytes;
} move;

static bool view_bytes(const um_view *view, um_ptr *low, um_ptr *high)
{
    int64_t first, last;
    if (!um_view_extent(view, &first, &last) || first == last) return false;
    *low = view->ptr + (uint64_t)first;
    *high = view->ptr + (uint64_t)last;
    return true;
}

/* With what it overlaps it becomes one. */
static void add_range(move *m, um_ptr low, um_ptr high, bool read)
{
    for (int32_t i = 0; i < m->count; i++) {
        range *r = &m->ranges[i];
        if (high <= r->low || r->high <= low) continue;
        low = UM_MIN(low, r->low);
        high = UM_MAX(high, r->high);
        read = true; /* of two views; one of them may be an input */
        *r = m->ranges[--m->count];
        i = -1;
    }
    m->ranges[m->count++] = (range){.low = low, .high = high, .read = read};
}

static void find_ranges(move *m, const um_op *op)
{
    um_ptr low, high;
    for (int32_t i = 0; i < op->in_count; i++) {
        if (view_bytes(&op->in[i], &low, &high)) add_range(m, low, high, true);
    }
    for (int32_t i = 0; i < op->out_count; i++) {
        const um_view *out = &op->out[i];
        bool whole = um_view_is_packed(out) && um_dtype_bits(out->dtype) >= 8;
        if (view_bytes(out, &low, &high)) add_range(m, low, high, !whole);
    }
}

static const range *range_of(const move *m, um_ptr low)
{
    const range *r = m->ranges;
    while (low < r->low || low >= r->high) r++;
    return r;
}

static um_status make_room(move *m, range *r)
{
    uint64_t size = r->high - r->low;
    um_ptr block;
    r->host = um_mem_alloc((size_t)size);
    if (!r->host) {
        return UM_FAIL(UM_OUT_OF_MEMORY, "um_enqueue: no memory to move %llu bytes",
                       (unsigned long long)size);
    }
    UM_TRY(um_alloc(m->lane->device, size + ALIGN, &block));
    r->there = block + r->low % ALIGN; /* as aligned as here */
    return UM_OK;
}

static um_status move_there(move *m)
{
    for (int32_t i = 0; i < m->count; i++) {
        range *r = &m->ranges[i];
        uint64_t size = r->high - r->low;
        UM_TRY(make_room(m, r));
        if (!r->read) continue;
        UM_TRY(um_read(m->stream, r->host, r->low, size));
        UM_TRY(um_write(m->lane->stream, r->there, r->host, size));
        m->moved_bytes += size;
    }
    return UM_OK;
}

static void turn(const move *m, um_view *views, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        um_ptr low, high;
        if (!view_bytes(&views[i], &low, &high)) continue;
        const range *r = range_of(m, low);
        views[i].ptr = views[i].ptr - r->low + r->there;
    }
}

static um_status run_there(const move *m, const um_op *op)
{
    um_op there; /* *op may end behind its last input */
    memcpy(&there, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    turn(m, there.in, there.in_count);
    turn(m, there.out, there.out_count);
    um_driver driver = m->lane->device->driver;
    UM_TRY(driver.table->enqueue(m->lane->stream->handle, &there));
    return um_synchronize(m->lane->stream);
}

/* ---- the way back --------------------------------------------------------------------------- */

/* A view as rows of `run` elements without gaps, and the axes over them, widest stride first. */
typedef struct rows {
    int64_t run, count, first; /* first: of the lowest row, relative to element (0, 0, ...) */
    int32_t rank;
    int64_t shape[UM_MAX_RANK], stride[UM_MAX_RANK];
} rows;

static void find_rows(const um_view *view, rows *out)
{
    *out = (rows){.run = 1, .count = 1};
    for (int32_t i = 0; i < view->rank; i++) {
        int64_t stride = view->stride[i], size = view->shape[i];
        if (size == 1) continue;
        if (stride < 0) out->first += stride * (size - 1);
        stride = stride < 0 ? -stride : stride;
        int32_t at = out->rank++;
        for (; at > 0 && out->stride[at - 1] < stride; at--) {
            out->stride[at] = out->stride[at - 1];
            out->shape[at] = out->shape[at - 1];
        }
        out->stride[at] = stride;
        out->shape[at] = size;
    }
    while (out->rank > 0 && out->stride[out->rank - 1] == out->run) {
        out->run *= out->shape[--out->rank];
    }
    for (int32_t i = 0; i < out->rank; i++) out->count *= out->shape[i];
}

/* Where row `index` begins, in elements. */
static int64_t row_start(const rows *r, int64_t index)
{
    int64_t start = r->first;
    for (int32_t i = r->rank - 1; i >= 0; i--) {
        start += index % r->shape[i] * r->stride[i];
        index /= r->shape[i];
    }
    return start;
}

/* Half bytes beside a row go back as they came. */
static um_status write_rows(move *m, const um_view *view, const range *r, const rows *all)
{
    int64_t bits = um_dtype_bits(view->dtype);
    for (int64_t i = 0; i < all->count; i++) {
        int64_t start = row_start(all, i), end = start + all->run;
        int64_t low = bits >= 8 ? start * (bits / 8) : start / 2 - (start % 2 < 0);
        int64_t high = bits >= 8 ? end * (bits / 8) : end / 2 + (end % 2 > 0);
        um_ptr at = view->ptr + (uint64_t)low;
        uint64_t size = (uint64_t)(high - low);
        UM_TRY(um_write(m->stream, at, r->host + (at - r->low), size));
        m->moved_bytes += size;
    }
    return UM_OK;
}

/* From packed rows at `block` into the view. all->rank is below UM_MAX_RANK. */
static um_op spread_op(const um_view *view, const rows *all, um_ptr block)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    int64_t first_bytes = all->first * (um_dtype_bits(view->dtype) / 8), packed = 1;
    op.in[0] = (um_view){.ptr = block, .dtype = view->dtype, .rank = all->rank + 1};
    op.out[0] = op.in[0];
    op.out[0].ptr = view->ptr + (uint64_t)first_bytes;
    for (int32_t i = all->rank; i >= 0; i--) {
        op.in[0].shape[i] = op.out[0].shape[i] = i == all->rank ? all->run : all->shape[i];
        op.in[0].stride[i] = packed;
        op.out[0].stride[i] = i == all->rank ? 1 : all->stride[i];
        packed *= op.in[0].shape[i];
    }
    return op;
}

/* Many short rows go as one packed block that the device itself spreads. */
static um_status write_packed(move *m, const um_view *view, const range *r, const rows *all)
{
    int64_t bytes = um_dtype_bits(view->dtype) / 8, row = all->run * bytes;
    uint64_t size = (uint64_t)(row * all->count);
    um_ptr block = 0;
    uint8_t *packed = um_mem_alloc((size_t)size);
    if (!packed) return UM_FAIL(UM_OUT_OF_MEMORY, "um_enqueue: no memory to move an output");
    for (int64_t i = 0; i < all->count; i++) {
        um_ptr at = view->ptr + (uint64_t)(row_start(all, i) * bytes);
        memcpy(packed + i * row, r->host + (at - r->low), (size_t)row);
    }
    um_status status = um_alloc(m->stream->device, size, &block);
    um_op copy = spread_op(view, all, block);
    if (status == UM_OK) status = um_write(m->stream, block, packed, size);
    if (status == UM_OK)
        status = m->stream->device->driver.table->enqueue(m->stream->handle, &copy);
    um_error error = *um_last_error();
    if (block && um_free_async(m->stream, block) != UM_OK) um_fail_again(&error);
    um_mem_free(packed);
    m->moved_bytes += size;
    return status;
}

static bool device_can_copy(um_device *device, um_dtype dtype)
{
    um_op copy = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    copy.in[0] = copy.out[0] = (um_view){.dtype = dtype, .rank = 1, .shape = {1}, .stride = {1}};
    return um_driver_supports(device->driver, &copy, NULL, 0);
}

static um_status move_back(move *m, const um_op *op)
{
    enum { FEW_ROWS = 32 };
    for (int32_t i = 0; i < op->out_count; i++) {
        const um_view *out = &op->out[i];
        um_ptr low, high;
        rows all;
        if (!view_bytes(out, &low, &high)) continue;
        range *r = &m->ranges[range_of(m, low) - m->ranges];
        UM_TRY(um_read(m->lane->stream, r->host + (low - r->low), r->there + (low - r->low),
                       high - low));
        find_rows(out, &all);
        bool packed = all.count > FEW_ROWS && all.rank < UM_MAX_RANK &&
                      um_dtype_bits(out->dtype) >= 8 &&
                      device_can_copy(m->stream->device, out->dtype);
        UM_TRY(packed ? write_packed(m, out, r, &all) : write_rows(m, out, r, &all));
    }
    return UM_OK;
}

static void clean_up(move *m)
{
    um_error saved = *um_last_error();
    (void)um_stream_clear_error(m->lane->stream);
    for (int32_t i = 0; i < m->count; i++) {
        range *r = &m->ranges[i];
        um_mem_free(r->host);
        if (r->there && um_free_async(m->lane->stream, r->there - r->low % ALIGN) != UM_OK)
            continue;
    }
    um_fail_again(&saved);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void report(um_device *device, const move *m, const um_op *op, um_status status)
{
    char why[256];
    um_error saved = *um_last_error();
    (void)um_driver_supports(device->driver, op, why, sizeof why);
    um_fallback_report told = {.struct_size = sizeof told,
                               .op = op->id,
                               .from = device->name,
                               .to = m->lane->device->name,
                               .why = why,
                               .moved_bytes = m->moved_bytes,
                               .status = status};
    um_mutex_lock(&device->mutex);
    um_fallback_fn fn = device->fallback.fn;
    void *user = device->fallback.user;
    um_mutex_unlock(&device->mutex);
    if (device->debug_dispatch) {
        um_debug_write("dispatch", "%s: %s ran on %s, %llu bytes moved -> %s", told.from,
                       um_op_name(op->id), told.to, (unsigned long long)told.moved_bytes,
                       um_status_name(status));
    }
    if (fn) fn(user, &told);
    um_fail_again(&saved);
}

um_status um_fallback_run(um_stream *stream, um_runner lane, const um_op *op)
{
    move m = {.stream = stream, .lane = &stream->lanes[lane]};
    find_ranges(&m, op);
    um_status status = move_there(&m);
    if (status == UM_OK) status = run_there(&m, op);
    if (status == UM_OK) status = move_back(&m, op);
    clean_up(&m);
    atomic_fetch_add_explicit(&stream->device->fallback_count, 1, memory_order_relaxed);
    report(stream->device, &m, op, status);
    return status;
}
