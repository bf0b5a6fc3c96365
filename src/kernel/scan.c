/* kernel/scan.c: cumsum, cumprod, cummax; an invocation goes along each line. */
#include "kernel/library.h"

#include <math.h>

typedef struct scan {
    const um_op *op;
    um_kernel *k;
    um_dtype compute;
    um_kwalk walk; /* the output and the input, the axis last */
    um_kview out, in;
    um_val size[UM_MAX_RANK], length;
    um_mem so_far, lost;
} scan;

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

static void begin(scan *s)
{
    um_kernel *k = s->k;
    bool is_float = um_dtype_is_float(s->compute);
    um_val start = um_kvalue_number(k, s->compute, s->op->id == UM_OP_CUMPROD);
    if (s->op->id == UM_OP_CUMMAX) start = um_kvalue_number(k, s->compute, -(double)INFINITY);
    s->so_far = um_k_var(k, "so_far", s->compute, 1);
    um_k_set(k, s->so_far, start);
    if (s->op->id != UM_OP_CUMSUM || !is_float) return;
    s->lost = um_k_var(k, "lost", s->compute, 1);
    um_k_set(k, s->lost, start);
}

static um_val step(const scan *s, um_val x)
{
    um_kernel *k = s->k;
    um_val before = um_k_get(k, s->so_far);
    switch (s->op->id) {
    case UM_OP_CUMSUM:
        um_ksum_add(k, s->so_far, s->lost, x);
        return um_ksum_get(k, s->so_far, s->lost);
    case UM_OP_CUMPROD: x = um_k_mul(k, before, x); break;
    default: x = um_kvalue_max(k, before, x);
    }
    um_k_set(k, s->so_far, x);
    return x;
}

um_status um_kscan_plan(const um_op *op, um_kplan *plan)
{
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    scan s = {.op = op, .walk = walk_of(op), .compute = um_kvalue_compute(op->in[0].dtype)};
    bool narrow = um_dtype_bits(op->out[0].dtype) < 32;
    int32_t last = s.walk.rank - 1;
    int64_t lines = um_view_count(&op->out[0]) / s.walk.shape[last];
    um_val place[UM_MAX_RANK] = {0};
    UM_TRY(um_kernel_create(
        &(um_kernel_desc){.name = um_op_name(op->id), .group_size = {UM_KGROUP}}, &launch->kernel));
    um_kernel *k = s.k = launch->kernel;
    um_val count = um_klaunch_scalar(k, launch, "lines", (uint32_t)lines);
    s.length = um_klaunch_scalar(k, launch, "length", (uint32_t)s.walk.shape[last]);
    um_klaunch_groups(launch, um_ceil_div(lines, UM_KGROUP));
    um_kwalk_sizes(k, launch, &s.walk, 0, last, s.size);
    s.out = um_kview_declare(k, launch, &s.walk, 0, UM_K_WRITE,
                             narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
    s.in = um_kview_declare(k, launch, &s.walk, 1, UM_K_READ, UM_KSTORE_PLAIN);
    um_val line = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, line, count));
    um_kwalk_places(k, line, 0, last, s.size, place);
    um_val to = um_kview_index(k, &s.out, s.out.base, 0, last, place);
    um_val from = um_kview_index(k, &s.in, s.in.base, 0, last, place);
    begin(&s);
    place[last] = um_k_for(k, um_k_u32(k, 0), s.length, um_k_u32(k, 1));
    um_val x = um_kview_load(k, &s.in, um_kview_index(k, &s.in, from, last, last + 1, place));
    um_val y = um_kvalue_as(k, op->out[0].dtype, step(&s, um_kvalue_as(k, s.compute, x)));
    um_kview_store(k, &s.out, um_kview_index(k, &s.out, to, last, last + 1, place), y);
    um_k_end(k);
    um_k_end(k);
    return um_kernel_finish(k);
}
