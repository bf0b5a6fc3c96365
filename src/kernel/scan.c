/* kernel/scan.c: cumsum, cumprod, cummax. An invocation goes along each line; along a long one a
 * work-group does, as many elements at a time as it has invocations: each joins its element with
 * those 1, 2, 4, ... before it in shared memory, then with what came before the piece. */
#include "kernel/library.h"

#include <math.h>

typedef struct scan {
    const um_op *op;
    um_kernel *k;
    um_dtype compute;
    um_kwalk walk; /* the output and the input, the axis last */
    um_kview out, in;
    bool wide;
    um_val size[UM_MAX_RANK], length, place[UM_MAX_RANK], to, from; /* of the line */
} scan;

/* Variables, or shared arrays: a value, and of a sum of floats what its roundings lost; else 0. */
typedef struct pair {
    um_mem v, lost;
} pair;

bool um_kscan_supports(const um_op *op, char *why, size_t why_size)
{
    return um_kwalk_fits(&op->out[0], why, why_size) && um_kwalk_fits(&op->in[0], why, why_size);
}

static um_kwalk walk_of(const um_op *op)
{
    const um_view *from[2] = {&op->out[0], &op->in[0]};
    um_view moved[2];
    int32_t rank = op->in[0].rank, axis = op->attrs.axis.axis;
    if (axis < 0) axis += rank;
    for (int32_t v = 0; v < 2; v++) {
        moved[v] = *from[v];
        for (int32_t d = axis; d < rank - 1; d++) {
            moved[v].shape[d] = from[v]->shape[d + 1];
            moved[v].stride[d] = from[v]->stride[d + 1];
        }
        moved[v].shape[rank - 1] = from[v]->shape[axis];
        moved[v].stride[rank - 1] = from[v]->stride[axis];
    }
    um_kwalk w = um_kwalk_apart(2, (const um_view *[]){&moved[0], &moved[1]});
    for (int32_t v = 0; v < 2; v++) w.view[v] = from[v]; /* whose ranges are bound */
    return w;
}

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

static pair declare_pair(const scan *s, const char *name, const char *lost)
{
    return (pair){um_k_var(s->k, name, s->compute, 1),
                  has_lost(s) ? um_k_var(s->k, lost, s->compute, 1) : 0};
}

static void set_pair(const scan *s, pair p, um_val v)
{
    um_k_set(s->k, p.v, v);
    if (p.lost) um_k_set(s->k, p.lost, um_kvalue_number(s->k, s->compute, 0));
}

/* p and x (lost: 0 where it has none) become one. */
static void join(const scan *s, pair p, um_val x, um_val lost)
{
    um_kernel *k = s->k;
    um_val v = um_k_get(k, p.v);
    switch (s->op->id) {
    case UM_OP_CUMSUM:
        um_ksum_add(k, p.v, p.lost, x);
        if (lost) um_k_set(k, p.lost, um_k_add(k, um_k_get(k, p.lost), lost));
        break;
    case UM_OP_CUMPROD: um_k_set(k, p.v, um_k_mul(k, v, x)); break;
    default: um_k_set(k, p.v, um_kvalue_max(k, v, x));
    }
}

static um_val load_at(scan *s, um_val j)
{
    int32_t last = s->walk.rank - 1;
    s->place[last] = j;
    um_val at = um_kview_index(s->k, &s->in, s->from, last, last + 1, s->place);
    return um_kvalue_as(s->k, s->compute, um_kview_load(s->k, &s->in, at));
}

static void store_at(scan *s, um_val j, pair p)
{
    int32_t last = s->walk.rank - 1;
    s->place[last] = j;
    um_val at = um_kview_index(s->k, &s->out, s->to, last, last + 1, s->place);
    um_val y = um_ksum_get(s->k, p.v, p.lost);
    um_kview_store(s->k, &s->out, at, um_kvalue_as(s->k, s->out.dtype, y));
}

static void go_along(scan *s)
{
    um_kernel *k = s->k;
    pair p = declare_pair(s, "so_far", "lost");
    set_pair(s, p, nothing(s));
    um_val j = um_k_for(k, um_k_u32(k, 0), s->length, um_k_u32(k, 1));
    join(s, p, load_at(s, j), 0);
    store_at(s, j, p);
    um_k_end(k);
}

/* own becomes what this and all invocations before it have. */
static void scan_group(const scan *s, pair own, pair room, um_val i)
{
    um_kernel *k = s->k;
    for (uint32_t by = 1; by < UM_KGROUP; by *= 2) {
        um_k_store(k, room.v, i, um_k_get(k, own.v));
        if (room.lost) um_k_store(k, room.lost, i, um_k_get(k, own.lost));
        um_k_barrier(k);
        um_k_if(k, um_k_ge(k, i, um_k_u32(k, by)));
        um_val at = um_k_sub(k, i, um_k_u32(k, by));
        join(s, own, um_k_load(k, room.v, at), room.lost ? um_k_load(k, room.lost, at) : 0);
        um_k_end(k);
        um_k_barrier(k);
    }
}

static void go_along_wide(scan *s)
{
    um_kernel *k = s->k;
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), last = um_k_u32(k, UM_KGROUP - 1);
    pair before = declare_pair(s, "so_far", "lost"), own = declare_pair(s, "own", "own_lost");
    pair room = {um_k_shared(k, "room", s->compute, UM_KGROUP),
                 has_lost(s) ? um_k_shared(k, "room_lost", s->compute, UM_KGROUP) : 0};
    set_pair(s, before, nothing(s));
    um_val first = um_k_for(k, um_k_u32(k, 0), s->length, um_k_u32(k, UM_KGROUP));
    um_val j = um_k_add(k, first, i), in = um_k_lt(k, j, s->length);
    set_pair(s, own, nothing(s));
    um_k_if(k, in);
    um_k_set(k, own.v, load_at(s, j));
    um_k_end(k);
    scan_group(s, own, room, i);
    um_k_if(k, um_k_eq(k, i, last)); /* the piece, for all */
    um_k_store(k, room.v, i, um_k_get(k, own.v));
    if (room.lost) um_k_store(k, room.lost, i, um_k_get(k, own.lost));
    um_k_end(k);
    join(s, own, um_k_get(k, before.v), before.lost ? um_k_get(k, before.lost) : 0);
    um_k_if(k, in);
    store_at(s, j, own);
    um_k_end(k);
    um_k_barrier(k);
    join(s, before, um_k_load(k, room.v, last), room.lost ? um_k_load(k, room.lost, last) : 0);
    um_k_barrier(k);
    um_k_end(k);
}

um_status um_kscan_plan(const um_op *op, um_kplan *plan)
{
    enum { WIDE_FROM = 64 };
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    scan s = {.op = op, .walk = walk_of(op), .compute = um_kvalue_compute(op->in[0].dtype)};
    bool narrow = um_dtype_bits(op->out[0].dtype) < 32;
    int32_t last = s.walk.rank - 1;
    int64_t lines = um_view_count(&op->out[0]) / s.walk.shape[last];
    s.wide = s.walk.shape[last] >= WIDE_FROM;
    UM_TRY(um_kernel_create(
        &(um_kernel_desc){.name = um_op_name(op->id), .group_size = {UM_KGROUP}}, &launch->kernel));
    um_kernel *k = s.k = launch->kernel;
    um_val count = um_klaunch_scalar(k, launch, "lines", (uint32_t)lines);
    s.length = um_klaunch_scalar(k, launch, "length", (uint32_t)s.walk.shape[last]);
    um_klaunch_groups(launch, s.wide ? lines : um_ceil_div(lines, UM_KGROUP));
    um_kwalk_sizes(k, launch, &s.walk, 0, last, s.size);
    s.out = um_kview_declare(k, launch, &s.walk, 0, UM_K_WRITE,
                             narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
    s.in = um_kview_declare(k, launch, &s.walk, 1, UM_K_READ, UM_KSTORE_PLAIN);
    um_val line = s.wide ? um_klaunch_group_number(k) : um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, line, count));
    um_kwalk_places(k, line, 0, last, s.size, s.place);
    s.to = um_kview_index(k, &s.out, s.out.base, 0, last, s.place);
    s.from = um_kview_index(k, &s.in, s.in.base, 0, last, s.place);
    if (s.wide)
        go_along_wide(&s);
    else
        go_along(&s);
    um_k_end(k);
    return um_kernel_finish(k);
}
