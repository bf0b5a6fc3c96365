/* kernel/quant.c: quantize and dequantize; an invocation for each element, or for those of a word.
 */
#include "kernel/library.h"

#include <math.h>
#include <stdio.h>

enum { TO, FROM, SCALE, ZERO };

typedef struct quant {
    const um_op *op;
    um_kernel *k;
    um_klaunch *launch;
    um_dtype compute; /* f32, f64 */
    int32_t axis;
    um_kwalk walk; /* the views above, all of the elements' shape */
    um_kview view[ZERO + 1];
    um_val size[UM_MAX_RANK], block;
} quant;

static const um_view *view_of(const um_op *op, int32_t v)
{
    return v == TO ? &op->out[0] : &op->in[v - FROM];
}

bool um_kquant_supports(const um_op *op, char *why, size_t why_size)
{
    bool fits = true;
    for (int32_t v = 0; fits && v <= op->in_count; v++)
        fits = um_kwalk_fits(view_of(op, v), why, why_size);
    return fits;
}

/* A scale or zero point as a view of the elements' shape: with blocks its axis counts blocks. */
static um_view spread(const quant *q, const um_view *factor)
{
    um_view s = q->op->out[0];
    bool blocks = q->op->attrs.quant.block > 0;
    for (int32_t d = 0; d < s.rank; d++) {
        bool moves = factor->rank == 1 && d == q->axis;
        s.stride[d] = blocks ? factor->stride[d] : moves ? factor->stride[0] : 0;
    }
    return s;
}

static void declare(quant *q)
{
    const um_op *op = q->op;
    const um_view *views[ZERO + 1] = {view_of(op, TO), view_of(op, FROM)};
    um_view factor[ZERO + 1];
    int32_t count = op->in_count + 1;
    for (int32_t v = SCALE; v < count; v++) {
        factor[v] = spread(q, view_of(op, v));
        views[v] = &factor[v];
    }
    bool blocks = op->attrs.quant.block > 0;
    q->walk = blocks ? um_kwalk_apart(count, views) : um_kwalk_make(count, views, 0);
    um_kwalk_sizes(q->k, q->launch, &q->walk, 0, q->walk.rank, q->size);
    if (blocks)
        q->block = um_klaunch_scalar(
            q->k, q->launch, "block",
            (uint32_t)UM_MIN(op->attrs.quant.block, UM_MAX(op->in[0].shape[q->axis], 1)));
    for (int32_t v = 0; v < count; v++) {
        q->walk.view[v] = view_of(op, v); /* whose ranges are bound */
        um_kstore store = v == TO ? um_kwalk_store(&op->out[0]) : UM_KSTORE_PLAIN;
        q->view[v] =
            um_kview_declare(q->k, q->launch, &q->walk, v, v == TO ? UM_K_WRITE : UM_K_READ, store);
    }
}

static um_val load(const quant *q, int32_t v, const um_val *place)
{
    um_val at = um_kview_index(q->k, &q->view[v], q->view[v].base, 0, q->walk.rank, place);
    return um_kvalue_as(q->k, q->compute, um_kview_load(q->k, &q->view[v], at));
}

/* Rounded, moved to the zero point (0: none) and within the dtype, or 4 bits of it. */
static um_val to_integer(const quant *q, um_val x, um_val zero)
{
    um_kernel *k = q->k;
    um_dtype dtype = q->op->out[0].dtype;
    int32_t bits = q->op->attrs.quant.bits ? q->op->attrs.quant.bits : um_dtype_bits(dtype);
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    double span = (double)(1 << bits), low = is_signed ? -span / 2 : 0;
    um_val least = um_kvalue_number(k, q->compute, low);
    um_val most = um_kvalue_number(k, q->compute, low + span - 1);
    um_val none = um_kvalue_number(k, q->compute, 0);
    x = um_k_select(k, um_k_eq(k, x, x), um_k_round(k, x), none);
    if (zero) x = um_k_add(k, x, zero);
    x = um_k_select(k, um_k_lt(k, x, least), least, x);
    return um_k_select(k, um_k_gt(k, x, most), most, x);
}

static um_val made(const quant *q, const um_val *place)
{
    um_kernel *k = q->k;
    um_val x = load(q, FROM, place), spread_place[UM_MAX_RANK];
    memcpy(spread_place, place, sizeof spread_place);
    if (q->block) spread_place[q->axis] = um_k_div(k, place[q->axis], q->block);
    um_val scale = load(q, SCALE, spread_place);
    um_val zero = q->op->in_count > 2 ? load(q, ZERO, spread_place) : 0;
    if (q->op->id == UM_OP_DEQUANTIZE) return um_k_mul(k, zero ? um_k_sub(k, x, zero) : x, scale);
    um_val none = um_kvalue_number(k, q->compute, 0);
    x = um_k_select(k, um_k_eq(k, scale, none), none, um_k_div(k, x, scale));
    return um_dtype_is_float(q->op->out[0].dtype) ? x : to_integer(q, x, zero);
}

um_status um_kquant_plan(const um_op *op, um_kplan *plan)
{
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    quant q = {.op = op, .launch = launch, .axis = op->attrs.quant.axis};
    if (q.axis < 0) q.axis += op->in[0].rank;
    q.compute = op->in[1].dtype == UM_F64 ? UM_F64 : UM_F32;
    UM_TRY(um_kernel_create(
        &(um_kernel_desc){.name = um_op_name(op->id), .group_size = {UM_KGROUP}}, &launch->kernel));
    um_kernel *k = q.k = launch->kernel;
    um_val place[UM_MAX_RANK] = {0};
    um_keach each = um_keach_declare(k, launch, &op->out[0], um_kwalk_store(&op->out[0]));
    declare(&q);
    um_kwalk_places(k, um_keach_begin(k, &each), 0, q.walk.rank, q.size, place);
    um_val to = um_kview_index(k, &q.view[TO], q.view[TO].base, 0, q.walk.rank, place);
    um_kview_store(k, &q.view[TO], to, um_kvalue_as(k, op->out[0].dtype, made(&q, place)));
    um_keach_end(k, &each);
    return um_kernel_finish(k);
}
