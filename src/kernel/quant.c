/* kernel/quant.c: quantize and dequantize; an invocation for each element, or for those of a word.
 */
#include "kernel/library.h"

enum { TO, FROM, SCALE, ZERO };

typedef struct quant {
    const um_op *op;
    um_dtype compute; /* f32, f64 */
    int32_t axis;
    um_keach each; /* the views above, all of the elements' shape */
    um_val block;  /* 0: no blocks */
} quant;

static const um_view *view_of(const um_op *op, int32_t v)
{
    return v == TO ? &op->out[0] : &op->in[v - FROM];
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

static um_kwalk walk_of(const quant *q)
{
    const um_op *op = q->op;
    const um_view *views[ZERO + 1] = {view_of(op, TO), view_of(op, FROM)};
    um_view factor[ZERO + 1];
    int32_t count = op->in_count + 1;
    for (int32_t v = SCALE; v < count; v++) {
        factor[v] = spread(q, view_of(op, v));
        views[v] = &factor[v];
    }
    um_kwalk w =
        op->attrs.quant.block > 0 ? um_kwalk_apart(count, views) : um_kwalk_make(count, views, 0);
    for (int32_t v = SCALE; v < count; v++) w.view[v] = view_of(op, v); /* whose ranges are bound */
    return w;
}

/* Rounded, moved to the zero point (0: none) and within the dtype, or 4 bits of it. */
static um_val to_integer(const quant *q, um_val x, um_val zero)
{
    um_kernel *k = q->each.k;
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

static um_val made(const quant *q)
{
    um_keach factors = q->each; /* at the place of the block */
    um_kernel *k = factors.k;
    um_val x = um_keach_load_as(&q->each, FROM, q->compute), *along = &factors.place[q->axis];
    if (q->block) *along = um_k_div(k, *along, q->block);
    um_val scale = um_keach_load_as(&factors, SCALE, q->compute);
    um_val zero = q->op->in_count > 2 ? um_keach_load_as(&factors, ZERO, q->compute) : 0;
    if (q->op->id == UM_OP_DEQUANTIZE) return um_k_mul(k, zero ? um_k_sub(k, x, zero) : x, scale);
    um_val none = um_kvalue_number(k, q->compute, 0);
    x = um_k_select(k, um_k_eq(k, scale, none), none, um_k_div(k, x, scale));
    return um_dtype_is_float(q->op->out[0].dtype) ? x : to_integer(q, x, zero);
}

um_status um_kquant_plan(const um_op *op, um_kplan *plan)
{
    quant q = {.op = op, .axis = op->attrs.quant.axis};
    int64_t block = op->attrs.quant.block;
    if (q.axis < 0) q.axis += op->in[0].rank;
    q.compute = op->in[1].dtype == UM_F64 ? UM_F64 : UM_F32;
    q.each.walk = walk_of(&q);
    UM_TRY(um_keach_create(&q.each, plan, um_op_name(op->id)));
    block = UM_MIN(block, UM_MAX(op->in[0].shape[q.axis], 1));
    if (block > 0) q.block = um_klaunch_scalar(q.each.launch, block, "block");
    for (int32_t v = FROM; v <= op->in_count; v++) um_keach_read(&q.each, v);
    um_keach_begin(&q.each);
    um_keach_store(&q.each, made(&q));
    return um_keach_finish(&q.each);
}
