/* kernel/lines.c: kernels line by line (lines.h). A line is one invocation's, or from LANES_FROM
 * elements on 32 or all of a work-group share it: each takes every so-many-eth element, and what
 * they have is joined by halving in shared memory. */
#include "kernel/lines.h"

enum { LANES_FROM = 32, GROUP_FROM = 512 };

/* ---- layouts -------------------------------------------------------------------------------- */

void um_klayout_close(um_klayout *l)
{
    l->lines = l->weights = 1;
    for (int32_t a = l->rank - 1; a >= 0; a--) {
        const um_kaxis *x = &l->axis[a];
        l->number[a] = x->line >= 0 ? l->lines : 0;
        if (x->line >= 0) l->lines *= x->size;
        if (x->weight >= 0) l->weights *= x->size;
    }
}

static int64_t stride_of(const um_klayout *l, const um_kpart *part, int32_t a)
{
    const um_kaxis *x = &l->axis[a];
    const um_view *v = part->view;
    switch (part->like) {
    case UM_KLIKE_X: return v->stride[x->full] * x->step;
    case UM_KLIKE_WEIGHT: return x->weight < 0 ? 0 : v->stride[x->weight] * x->step;
    case UM_KLIKE_LINE: return x->line < 0 ? 0 : v->stride[x->line];
    case UM_KLIKE_NUMBER: return l->number[a];
    }
    return 0;
}

um_kwalk um_klayout_walk(const um_klayout *l, um_klead lead, int32_t count, const um_kpart *parts)
{
    um_kwalk w = {.view_count = count};
    int64_t stride[UM_KVIEWS] = {0};
    for (int32_t v = 0; v < count; v++) w.view[v] = parts[v].view;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t a = 0; a < l->rank; a++) {
            const um_kaxis *x = &l->axis[a];
            bool leads = (lead == UM_KLEAD_LINE && x->line >= 0) ||
                         (lead == UM_KLEAD_WEIGHT && x->weight >= 0);
            if (leads != (pass == 0)) continue;
            for (int32_t v = 0; v < count; v++) stride[v] = stride_of(l, &parts[v], a);
            um_kwalk_add(&w, leads, x->size, stride);
        }
    return w;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int64_t product_of(const um_kwalk *w, int32_t first, int32_t end)
{
    int64_t n = 1;
    for (int32_t a = first; a < end; a++) n *= w->shape[a];
    return n;
}

/* Whether a line's elements lie nearer to each other than lines do. */
static bool is_near(const um_kwalk *w)
{
    if (w->lead == 0 || w->rank == w->lead) return true;
    int64_t inner = w->stride[0][w->rank - 1], outer = w->stride[0][w->lead - 1];
    return (inner < 0 ? -inner : inner) <= (outer < 0 ? -outer : outer);
}

um_status um_klines_begin(um_klines *l, um_kplan *plan, const char *name)
{
    l->lines = product_of(&l->walk, 0, l->walk.lead);
    l->count = product_of(&l->walk, l->walk.lead, l->walk.rank);
    l->lanes = l->count < LANES_FROM ? 1 : l->count < GROUP_FROM ? 32 : UM_KGROUP;
    uint32_t each = UM_KGROUP / l->lanes;
    bool near = is_near(&l->walk);
    l->apart = near ? 1 : each;
    UM_TRY(um_kplan_launch(plan, name, UM_KGROUP, &l->launch));
    um_klaunch *launch = l->launch;
    um_kernel *k = l->k = launch->kernel;
    um_val lines = um_klaunch_scalar(launch, l->lines, "all_lines");
    um_val count = um_klaunch_scalar(launch, l->count, "count");
    um_kwalk_sizes(launch, &l->walk, 0, l->walk.lead, l->size);
    um_kwalk_sizes(launch, &l->walk, l->walk.lead, l->walk.rank, l->size);
    um_klaunch_groups(launch, um_ceil_div(l->lines, each));
    l->local = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0);
    um_val by = um_k_u32(k, near ? l->lanes : each);
    um_val low = um_k_rem(k, l->local, by), high = um_k_div(k, l->local, by);
    l->lane = near ? low : high;
    l->number = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, each));
    l->number = um_k_add(k, l->number, near ? high : low);
    l->in = um_k_lt(k, l->number, lines);
    l->end = um_k_select(k, l->in, count, um_k_u32(k, 0));
    um_kwalk_places(k, l->number, 0, l->walk.lead, l->size, l->place);
    return UM_OK;
}

um_kwalk um_klines_lead(const um_klines *l)
{
    um_kwalk w = l->walk;
    w.rank = w.lead;
    return w;
}

um_val um_klines_from(const um_klines *l, const um_kview *v)
{
    return um_kview_place(l->k, v, l->walk.lead, l->place);
}

um_mem um_klines_var(um_klines *l, double value)
{
    return um_kvar(l->k, um_kvalue_number(l->k, l->compute, value), "part%d", (int)l->names++);
}

um_ksum um_klines_new_sum(um_klines *l)
{
    return um_ksum_new(l->k, um_kvalue_number(l->k, l->compute, 0), "sum%d", (int)l->names++);
}

void um_klines_each(um_klines *l)
{
    um_val e = um_k_for(l->k, l->lane, l->end, um_k_u32(l->k, l->lanes));
    um_kwalk_places(l->k, e, l->walk.lead, l->walk.rank, l->size, l->place);
}

um_val um_klines_load(const um_klines *l, const um_kview *v, um_val from)
{
    um_val at = um_kview_index(l->k, v, from, l->walk.lead, l->walk.rank, l->place);
    return um_kvalue_as(l->k, l->compute, um_kview_load(l->k, v, at));
}

void um_klines_once(const um_klines *l)
{
    um_kernel *k = l->k;
    um_k_if(k, um_k_and(k, l->in, um_k_eq(k, l->lane, um_k_u32(k, 0))));
}

/* ---- what invocations have together --------------------------------------------------------- */

static void share(um_klines *l, int32_t room, um_mem var)
{
    if (!l->room[room])
        l->room[room] = um_k_shared(l->k, room ? "room1" : "room0", l->compute, UM_KGROUP);
    um_k_store(l->k, l->room[room], l->local, um_k_get(l->k, var));
}

/* The index of the invocation that is so many lanes on. */
static um_val lane_on(const um_klines *l, uint32_t lanes)
{
    return um_k_add(l->k, l->local, um_k_u32(l->k, lanes * l->apart));
}

static um_val first_lane(const um_klines *l)
{
    um_kernel *k = l->k;
    return um_k_sub(k, l->local, um_k_mul(k, l->lane, um_k_u32(k, l->apart)));
}

um_val um_klines_sum(um_klines *l, um_ksum s)
{
    um_kernel *k = l->k;
    if (l->lanes == 1) return um_ksum_get(k, s);
    share(l, 0, s.sum);
    share(l, 1, s.lost);
    for (uint32_t half = l->lanes / 2; half > 0; half /= 2) {
        um_k_barrier(k);
        um_k_if(k, um_k_lt(k, l->lane, um_k_u32(k, half)));
        um_val other = lane_on(l, half);
        um_ksum_add(k, s, um_k_load(k, l->room[0], other));
        um_k_set(k, s.lost, um_k_add(k, um_k_get(k, s.lost), um_k_load(k, l->room[1], other)));
        share(l, 0, s.sum);
        share(l, 1, s.lost);
        um_k_end(k);
    }
    um_k_barrier(k);
    um_val first = first_lane(l);
    um_k_set(k, s.sum, um_k_load(k, l->room[0], first));
    um_k_set(k, s.lost, um_k_load(k, l->room[1], first));
    um_k_barrier(k); /* before the next writes there */
    return um_ksum_get(k, s);
}

um_val um_klines_max(um_klines *l, um_mem largest, bool with_nan)
{
    um_kernel *k = l->k;
    if (l->lanes == 1) return um_k_get(k, largest);
    share(l, 0, largest);
    for (uint32_t half = l->lanes / 2; half > 0; half /= 2) {
        um_k_barrier(k);
        um_k_if(k, um_k_lt(k, l->lane, um_k_u32(k, half)));
        um_val a = um_k_get(k, largest), b = um_k_load(k, l->room[0], lane_on(l, half));
        um_k_set(k, largest,
                 with_nan ? um_kvalue_max(k, a, b) : um_k_select(k, um_k_gt(k, b, a), b, a));
        share(l, 0, largest);
        um_k_end(k);
    }
    um_k_barrier(k);
    um_val all = um_k_load(k, l->room[0], first_lane(l));
    um_k_barrier(k);
    return all;
}

/* ---- numbers of lines ----------------------------------------------------------------------- */

bool um_klayout_fits(const um_op *op, const um_klayout *l, int32_t count, char *why,
                     size_t why_size)
{
    return l->lines * count <= UINT32_MAX ||
           um_kplan_refuse(op, why, why_size, "for so many lines");
}

void um_kplan_numbers(um_kplan *plan, const um_klayout *l, um_dtype compute, int32_t count)
{
    uint64_t size = (uint64_t)um_dtype_bits(compute) / 8;
    plan->scratch_bytes = UM_MAX((uint64_t)(l->lines * count) * size, UM_KFAULT_BYTES);
}

um_knumbers um_knumbers_declare(um_klaunch *launch, const um_kplan *plan, const um_klayout *l,
                                um_dtype compute)
{
    um_knumbers n = {um_klaunch_scratch(launch, "numbers", compute, 0, plan->scratch_bytes), 0};
    n.lines = um_klaunch_scalar(launch, l->lines, "lines");
    return n;
}

static um_val index_of(um_kernel *k, const um_knumbers *n, uint32_t which, um_val line)
{
    return um_k_add(k, um_k_mul(k, um_k_u32(k, which), n->lines), line);
}

um_val um_knumbers_load(um_kernel *k, const um_knumbers *n, uint32_t which, um_val line)
{
    return um_k_load(k, n->mem, index_of(k, n, which, line));
}

void um_knumbers_store(um_kernel *k, const um_knumbers *n, uint32_t which, um_val line, um_val x)
{
    um_k_store(k, n->mem, index_of(k, n, which, line), x);
}

um_kview um_knumber_declare(um_klaunch *launch, const um_kwalk *w, int32_t index)
{
    um_kview v = {.base = um_k_u32(launch->kernel, 0)};
    for (int32_t axis = 0; axis < w->rank; axis++)
        v.stride[axis] = um_klaunch_scalar(launch, w->stride[index][axis], "line_stride%d", axis);
    return v;
}
