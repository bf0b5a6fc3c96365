/* device/planner.c: ops cut into parts that fit a device's limits: in halves along the axis of the
 * output that brings what is too large down most. */
#include "device/planner.h"
#include "device/device.h"
#include "op/table.h"

#include <stdio.h>

enum { CUT_AT = 64, TEXT = 200 }; /* parts of longer axes are of multiples of so many */

typedef struct walk {
    um_kcache *cache;
    um_klimits limits;
    int32_t form;
    um_kplan_fn fn; /* NULL: only whether all parts have plans */
    void *ctx;
    um_kplan *plan; /* of one part at a time */
    double bytes;   /* of the views of the op last looked at */
    char why[TEXT];
} walk;

typedef unsigned long long ull; /* for messages */

/* ---- what fits ------------------------------------------------------------------------------ */

static const um_view *view_of(const um_op *op, int32_t i)
{
    return i < op->out_count ? &op->out[i] : &op->in[i - op->out_count];
}

/* Bytes of the parameter that a view becomes. */
static double bytes_of(const um_view *view)
{
    int64_t low, high;
    if (!um_view_extent(view, &low, &high)) return 0x1p64;
    return (double)(high - low) + (double)((view->ptr + (um_ptr)low) & 15);
}

/* How many bindings it takes, in all, too much: 0 of an op whose views fit. */
static double excess_of(walk *w, const um_op *op)
{
    double excess = 0,
           limit = w->limits.binding_max_bytes ? (double)w->limits.binding_max_bytes : 0x1p64;
    w->bytes = 0;
    for (int32_t i = 0; i < op->out_count + op->in_count; i++) {
        const um_view *v = view_of(op, i);
        char text[80], why[TEXT / 2];
        double over = bytes_of(v) / limit;
        w->bytes += bytes_of(v);
        if (over > 1)
            snprintf(w->why, sizeof w->why, "%s takes %.0f bytes, a binding %llu",
                     um_view_text(v, text, sizeof text), bytes_of(v),
                     (ull)w->limits.binding_max_bytes);
        else if (!um_kwalk_fits(v, why, sizeof why)) {
            snprintf(w->why, sizeof w->why, "%s: %s", um_view_text(v, text, sizeof text), why);
            over = 1 + bytes_of(v) / 0x1p32;
        }
        if (over > 1) excess += over;
    }
    return excess;
}

/* Work-groups in rows that the device takes; there may be some more of them than before. */
static bool fold_groups(const um_klimits *l, um_klaunch *launch)
{
    uint64_t x = launch->group_count[0], y = launch->group_count[1], all = x * y;
    if (l->group_count_max[0] && x > l->group_count_max[0]) {
        x = l->group_count_max[0];
        y = (all + x - 1) / x;
    }
    launch->group_count[0] = (uint32_t)x;
    launch->group_count[1] = (uint32_t)y;
    return !l->group_count_max[1] || y <= l->group_count_max[1];
}

/* No part of an op has fewer. */
static bool buffers_fit(walk *w)
{
    int32_t most = w->limits.buffer_count_max, count = 0;
    for (int32_t i = 0; i < w->plan->launch_count; i++)
        count = UM_MAX(count, w->plan->launch[i].buffer_count);
    if (!most || count <= most) return true;
    snprintf(w->why, sizeof w->why, "a kernel takes %d buffers, the device %d", count, most);
    return false;
}

static bool launches_fit(walk *w)
{
    const um_klimits *l = &w->limits;
    for (int32_t i = 0; i < w->plan->launch_count; i++) {
        um_klaunch *launch = &w->plan->launch[i];
        if (!fold_groups(l, launch)) {
            snprintf(w->why, sizeof w->why, "a launch of %u x %u groups, the device takes %u x %u",
                     launch->group_count[0], launch->group_count[1], l->group_count_max[0],
                     l->group_count_max[1]);
            return false;
        }
        for (int32_t b = 0; b < launch->buffer_count; b++) {
            uint64_t bytes = launch->buffer[b].size_bytes;
            if (!l->binding_max_bytes || bytes <= l->binding_max_bytes) continue;
            snprintf(w->why, sizeof w->why, "a kernel wants %llu bytes%s, a binding has %llu",
                     (ull)bytes, launch->buffer[b].scratch ? " of scratch" : "",
                     (ull)l->binding_max_bytes);
            return false;
        }
    }
    return true;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Where to cut an axis in two. */
static int64_t half_of(int64_t size)
{
    int64_t half = (size + 1) / 2;
    return size > CUT_AT ? (half + CUT_AT - 1) / CUT_AT * CUT_AT : half;
}

/* The axis to cut; -1: none, or cutting does not help. */
static int32_t find_axis(walk *w, const um_op *op)
{
    double before = excess_of(w, op), best = before;
    int32_t found = -1;
    for (int32_t axis = 0; axis < op->out[0].rank; axis++) {
        um_op part;
        int64_t size = op->out[0].shape[axis];
        if (size < 2 || !um_op_part(op, axis, 0, half_of(size), &part)) continue;
        if (before == 0) return axis;
        char why[TEXT];
        memcpy(why, w->why, sizeof why); /* of the whole */
        double excess = excess_of(w, &part);
        memcpy(w->why, why, sizeof why);
        if (excess < best) found = axis, best = excess;
    }
    return found;
}

/* Whether its size alone may be why there are no kernels: there are some for an element. */
static bool is_large(const um_op *op)
{
    char why[TEXT];
    um_op small;
    memcpy(&small, op, offsetof(um_op, in) + (size_t)op->in_count * sizeof op->in[0]);
    for (int32_t axis = 0; axis < op->out[0].rank; axis++) {
        um_op part;
        if (small.out[0].shape[axis] > 1 && um_op_part(&small, axis, 0, 1, &part)) small = part;
    }
    return um_kplan_supports(&small, why, sizeof why);
}

static um_status refuse(const walk *w, const um_op *op)
{
    return UM_FAIL(UM_UNSUPPORTED, "%s: %s", um_op_name(op->id), w->why);
}

/* The plan, or what it returns when fn has had it. *fits: whether there is one. */
static um_status try_whole(walk *w, const um_op *op, bool *fits)
{
    *fits = false;
    if (excess_of(w, op) > 0) return UM_OK;
    if (!um_kplan_supports(op, w->why, sizeof w->why)) {
        return is_large(op) ? UM_OK : UM_FAIL(UM_UNSUPPORTED, "%s", w->why);
    }
    um_status status = um_kcache_plan(w->cache, op, w->form, w->plan);
    if (status == UM_OK && !buffers_fit(w)) status = refuse(w, op);
    if (status == UM_OK) *fits = launches_fit(w);
    if (*fits && w->fn) status = w->fn(w->ctx, op, w->plan);
    um_kcache_release_plan(w->plan);
    return status;
}

static um_status walk_parts(walk *w, const um_op *op)
{
    bool fits;
    um_op part;
    UM_TRY(try_whole(w, op, &fits));
    if (fits) return UM_OK;
    int32_t axis = find_axis(w, op);
    if (axis < 0) return refuse(w, op);
    int64_t size = op->out[0].shape[axis], half = half_of(size);
    if (!um_op_part(op, axis, 0, half, &part)) return refuse(w, op);
    UM_TRY(walk_parts(w, &part));
    if (!um_op_part(op, axis, half, size - half, &part)) return refuse(w, op);
    return walk_parts(w, &part);
}

um_status um_planner_run(um_kcache *cache, const um_klimits *limits, const um_op *op, int32_t form,
                         um_kplan_fn fn, void *ctx)
{
    bool fits;
    um_kplan plan;
    walk w = {cache, *limits, form, fn, ctx, .plan = &plan};
    UM_TRY(try_whole(&w, op, &fits));
    if (fits) return UM_OK;
    w.fn = NULL;
    UM_TRY(walk_parts(&w, op));
    w.fn = fn;
    return walk_parts(&w, op);
}

/* A work-group makes an element at least. */
static bool groups_fit(const um_klimits *l, const um_op *op)
{
    if (!l->group_count_max[0] || !l->group_count_max[1]) return true;
    uint64_t most = (uint64_t)l->group_count_max[0] * l->group_count_max[1];
    for (int32_t i = 0; i < op->out_count + op->in_count; i++)
        if ((uint64_t)um_view_count(view_of(op, i)) > most) return false;
    return true;
}

/* Whether that of any plan for views of so many bytes fits, as do its buffers. */
static bool scratch_fits(const um_klimits *l, double bytes)
{
    if (l->buffer_count_max && l->buffer_count_max < UM_K_MAX_BUFFERS) return false;
    return !l->binding_max_bytes ||
           bytes * UM_SCRATCH_TIMES + UM_SCRATCH_BYTES <= (double)l->binding_max_bytes;
}

bool um_planner_supports(um_kcache *cache, const um_klimits *limits, const um_op *op, char *why,
                         size_t why_size)
{
    um_kplan plan;
    walk w = {.cache = cache, .limits = *limits, .plan = &plan};
    if (excess_of(&w, op) == 0 && groups_fit(limits, op) && scratch_fits(limits, w.bytes) &&
        um_kplan_supports(op, why, why_size))
        return true;
    um_op apart = *op; /* views without a memory yet are not in place of each other */
    for (int32_t i = 0; i < op->out_count; i++)
        if (!op->out[i].ptr) apart.out[i].ptr = (um_ptr)(i + 1) << 50;
    um_error before = *um_last_error();
    bool good = walk_parts(&w, &apart) == UM_OK;
    if (!good && why_size > 0) snprintf(why, why_size, "%s", um_last_error()->message);
    um_fail_again(&before);
    return good;
}
