/* kernel/scan.c: cumsum, cumprod, cummax. An invocation goes along each line; along a long one a
 * work-group does, as many elements at a time as it has invocations: each joins its element with
 * those 1, 2, 4, ... before it in shared memory, then with what came before the piece. Few lines
 * that are longer still are several work-groups' each: a first launch leaves in scratch memory what
 * each part comes to. */
#include "kernel/library.h"

#include <math.h>
#include <stdio.h>

typedef struct scan {
    const um_op *op;
    um_kernel *k;
    um_dtype compute;
    um_kwalk walk; /* the output and the input, the axis last */
    um_kview out, in;
    bool wide;
    int64_t lines, length, parts;                           /* parts: work-groups of a line */
    um_val size[UM_MAX_RANK], place[UM_MAX_RANK], to, from; /* of the line */
    um_val begin, end, part, first_sum;                     /* of the part; of the line's sums */
} scan;

/* What nothing comes to: a zero, a one, the lowest value. */
static um_val nothing(const scan *s)
{
    double number = s->op->id == UM_OP_CUMMAX ? -(double)INFINITY : s->op->id == UM_OP_CUMPROD;
    return um_kvalue_number(s->k, s->compute, number);
}

static bool has_lost(const scan *s)
{
    return s->op->id == UM_OP_CUMSUM && um_dtype_is_float(s->compute);
}

/* Sums, also of what is none: variables, or arrays. */
static um_ksum new_state(const scan *s, const char *name)
{
    um_val none = nothing(s);
    if (has_lost(s)) return um_ksum_new(s->k, none, "%s", name);
    return (um_ksum){um_kvar(s->k, none, "%s", name), 0};
}

static void clear(const scan *s, um_ksum p)
{
    um_k_set(s->k, p.sum, nothing(s));
    if (p.lost) um_k_set(s->k, p.lost, um_kvalue_number(s->k, s->compute, 0));
}

/* p and x (lost: 0 where it has none) become one. */
static void join(const scan *s, um_ksum p, um_val x, um_val lost)
{
    um_kernel *k = s->k;
    um_val v = um_k_get(k, p.sum);
    switch (s->op->id) {
    case UM_OP_CUMSUM:
        um_ksum_add(k, p, x);
        if (lost) um_k_set(k, p.lost, um_k_add(k, um_k_get(k, p.lost), lost));
        break;
    case UM_OP_CUMPROD: um_k_set(k, p.sum, um_k_mul(k, v, x)); break;
    default: um_k_set(k, p.sum, um_kvalue_max(k, v, x));
    }
}

static um_val load_at(const scan *s, um_val j)
{
    um_val at = um_k_add(s->k, s->from, um_k_mul(s->k, j, s->in.stride[s->walk.rank - 1]));
    return um_kvalue_as(s->k, s->compute, um_kview_load(s->k, &s->in, at));
}

static void store_at(const scan *s, um_val j, um_ksum p)
{
    um_val at = um_k_add(s->k, s->to, um_k_mul(s->k, j, s->out.stride[s->walk.rank - 1]));
    um_kview_store(s->k, &s->out, at, um_kvalue_as(s->k, s->out.dtype, um_ksum_get(s->k, p)));
}

static void go_along(const scan *s)
{
    um_kernel *k = s->k;
    um_ksum p = new_state(s, "so_far");
    um_val j = um_k_for(k, s->begin, s->end, um_k_u32(k, 1));
    join(s, p, load_at(s, j), 0);
    store_at(s, j, p);
    um_k_end(k);
}

static void load_state(const scan *s, um_ksum p, um_ksum from, um_val at)
{
    um_k_set(s->k, p.sum, um_k_load(s->k, from.sum, at));
    if (p.lost) um_k_set(s->k, p.lost, um_k_load(s->k, from.lost, at));
}

static void store_state(const scan *s, um_ksum p, um_ksum to, um_val at)
{
    um_k_store(s->k, to.sum, at, um_k_get(s->k, p.sum));
    if (p.lost) um_k_store(s->k, to.lost, at, um_k_get(s->k, p.lost));
}

/* own becomes what this and all invocations before it have. */
static void scan_group(const scan *s, um_ksum own, um_ksum room, um_val i)
{
    um_kernel *k = s->k;
    for (uint32_t by = 1; by < UM_KGROUP; by *= 2) {
        store_state(s, own, room, i);
        um_k_barrier(k);
        um_k_if(k, um_k_ge(k, i, um_k_u32(k, by)));
        um_val at = um_k_sub(k, i, um_k_u32(k, by));
        join(s, own, um_k_load(k, room.sum, at), room.lost ? um_k_load(k, room.lost, at) : 0);
        um_k_end(k);
        um_k_barrier(k);
    }
}

/* p becomes what the last invocation has in own. */
static void take_last(const scan *s, um_ksum p, um_ksum own, um_ksum room, um_val i)
{
    um_kernel *k = s->k;
    um_val last = um_k_u32(k, UM_KGROUP - 1);
    um_k_if(k, um_k_eq(k, i, last));
    store_state(s, own, room, i);
    um_k_end(k);
    um_k_barrier(k);
    load_state(s, p, room, last);
    um_k_barrier(k);
}

static um_ksum declare_room(const scan *s)
{
    return (um_ksum){um_k_shared(s->k, "room", s->compute, UM_KGROUP),
                     has_lost(s) ? um_k_shared(s->k, "room_lost", s->compute, UM_KGROUP) : 0};
}

/* sums: of all parts, or none. */
static void go_along_wide(const scan *s, um_ksum sums)
{
    um_kernel *k = s->k;
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_ksum before = new_state(s, "so_far"), own = new_state(s, "own"), room = declare_room(s);
    if (sums.sum) {
        um_k_if(k, um_k_lt(k, i, s->part));
        load_state(s, own, sums, um_k_add(k, s->first_sum, i));
        um_k_end(k);
        scan_group(s, own, room, i);
        take_last(s, before, own, room, i);
    }
    um_val first = um_k_for(k, s->begin, s->end, um_k_u32(k, UM_KGROUP));
    um_val j = um_k_add(k, first, i), in = um_k_lt(k, j, s->end);
    clear(s, own);
    um_k_if(k, in);
    um_k_set(k, own.sum, load_at(s, j));
    um_k_end(k);
    scan_group(s, own, room, i);
    join(s, own, um_k_get(k, before.sum), before.lost ? um_k_get(k, before.lost) : 0);
    um_k_if(k, in);
    store_at(s, j, own);
    um_k_end(k);
    take_last(s, before, own, room, i);
    um_k_end(k);
}

/* What the part comes to, for the next launch. */
static void add_up(const scan *s, um_ksum sums)
{
    um_kernel *k = s->k;
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_ksum own = new_state(s, "own");
    um_val j = um_k_for(k, um_k_add(k, s->begin, i), s->end, um_k_u32(k, UM_KGROUP));
    join(s, own, load_at(s, j), 0);
    um_k_end(k);
    scan_group(s, own, declare_room(s), i);
    um_k_if(k, um_k_eq(k, i, um_k_u32(k, UM_KGROUP - 1)));
    store_state(s, own, sums, um_k_add(k, s->first_sum, s->part));
    um_k_end(k);
}

/* A part is whole pieces. */
static void share_out(scan *s)
{
    enum { WIDE_FROM = 64, PIECES = 16, GROUPS = 256 };
    int64_t parts = UM_MIN(s->length / (UM_KGROUP * PIECES), UM_KGROUP);
    s->wide = s->length >= WIDE_FROM;
    s->parts = s->lines < GROUPS ? UM_MAX(UM_MIN(parts, 4 * GROUPS / s->lines), 1) : 1;
}

static void declare_part(scan *s, um_klaunch *launch, um_val *line)
{
    um_kernel *k = s->k;
    int64_t pieces = um_ceil_div(um_ceil_div(s->length, s->parts), UM_KGROUP);
    s->begin = um_k_u32(k, 0);
    s->end = um_klaunch_scalar(launch, s->length, "length");
    if (s->parts == 1) return;
    um_val parts = um_klaunch_scalar(launch, s->parts, "parts");
    um_val size = um_klaunch_scalar(launch, pieces * UM_KGROUP, "size");
    s->part = um_k_rem(k, *line, parts);
    *line = um_k_div(k, *line, parts);
    s->first_sum = um_k_mul(k, *line, parts);
    s->begin = um_k_mul(k, s->part, size);
    s->end = um_k_min(k, s->end, um_k_add(k, s->begin, size));
}

/* Of the parts' sums, where there are parts. */
static um_ksum declare_sums(const scan *s, um_klaunch *launch, um_kplan *plan)
{
    uint64_t size = (uint64_t)(s->lines * s->parts * um_dtype_bits(s->compute) / 8);
    uint64_t second = (size + 15) / 16 * 16;
    um_ksum sums = {0};
    if (s->parts == 1) return sums;
    plan->scratch_bytes = UM_MAX(2 * second, UM_KFAULT_BYTES);
    sums.sum = um_klaunch_scratch(launch, "sums", s->compute, 0, size);
    if (has_lost(s)) sums.lost = um_klaunch_scratch(launch, "sums_lost", s->compute, second, size);
    return sums;
}

static um_status plan_launch(scan *s, um_kplan *plan, bool adds_up)
{
    um_klaunch *launch;
    int32_t last = s->walk.rank - 1;
    char name[32];
    snprintf(name, sizeof name, "%s%s", um_op_name(s->op->id), adds_up ? "_parts" : "");
    UM_TRY(um_kplan_launch(plan, name, UM_KGROUP, &launch));
    um_kernel *k = s->k = launch->kernel;
    um_val count = um_klaunch_scalar(launch, s->lines, "lines");
    um_klaunch_groups(launch, s->wide ? s->lines * s->parts : um_ceil_div(s->lines, UM_KGROUP));
    um_kwalk_sizes(launch, &s->walk, 0, last, s->size);
    if (!adds_up) s->out = um_kview_write(launch, &s->walk, 0);
    s->in = um_kview_read(launch, &s->walk, 1);
    um_ksum sums = declare_sums(s, launch, plan);
    um_val line = s->wide ? um_klaunch_group_number(k) : um_klaunch_number(k);
    declare_part(s, launch, &line);
    um_k_if(k, um_k_lt(k, line, count));
    um_kwalk_places(k, line, 0, last, s->size, s->place);
    if (!adds_up) s->to = um_kview_place(k, &s->out, last, s->place);
    s->from = um_kview_place(k, &s->in, last, s->place);
    if (adds_up)
        add_up(s, sums);
    else if (s->wide)
        go_along_wide(s, sums);
    else
        go_along(s);
    um_k_end(k);
    return um_kernel_finish(k);
}

um_status um_kscan_plan(const um_op *op, um_kplan *plan)
{
    scan s = {.op = op, .compute = um_kvalue_compute(op->in[0].dtype)};
    const um_view *views[2] = {&op->out[0], &op->in[0]};
    s.walk = um_kwalk_behind(2, views, op->attrs.axis.axis);
    s.length = s.walk.shape[s.walk.rank - 1];
    s.lines = um_view_count(&op->out[0]) / s.length;
    share_out(&s);
    if (s.parts > 1) UM_TRY(plan_launch(&s, plan, true));
    return plan_launch(&s, plan, false);
}
