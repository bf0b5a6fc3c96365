/* kernel/sort.c: order by keys: sort, argsort, topk, arg_topk. A first launch makes keys of one or
 * two words, whose order as unsigned numbers is that of the elements; a second one counts, for each
 * element, those of its line that come before it, which is its place. */
#include "kernel/library.h"

#include <stdio.h>

/* ---- order ---------------------------------------------------------------------------------- */

bool um_korder_fits(const um_op *op, int64_t count, char *why, size_t why_size)
{
    if (count <= INT32_MAX - UM_KGROUP) return true;
    if (why_size > 0)
        snprintf(why, why_size, "%s: no kernel for 2^31 elements or more", um_op_name(op->id));
    return false;
}

/* Whether key `a` comes before key `b`, or may be equal; words low first. */
static um_val before(um_kernel *k, int32_t words, const um_val *a, const um_val *b, bool or_equal)
{
    um_val low = or_equal ? um_k_le(k, a[0], b[0]) : um_k_lt(k, a[0], b[0]);
    if (words == 1) return low;
    um_val same = um_k_eq(k, a[1], b[1]);
    return um_k_or(k, um_k_lt(k, a[1], b[1]), um_k_and(k, same, low));
}

static void load_key(um_kernel *k, um_mem keys, int32_t words, um_val e, um_val key[2])
{
    um_val at = words == 2 ? um_k_shl(k, e, um_k_u32(k, 1)) : e;
    key[0] = um_k_load(k, keys, at);
    if (words == 2) key[1] = um_k_load(k, keys, um_k_add(k, at, um_k_u32(k, 1)));
}

void um_korder_store(um_kernel *k, um_mem keys, int32_t words, um_val e, const um_val *key)
{
    um_val at = words == 2 ? um_k_shl(k, e, um_k_u32(k, 1)) : e;
    um_k_store(k, keys, at, key[0]);
    if (words == 2) um_k_store(k, keys, um_k_add(k, at, um_k_u32(k, 1)), key[1]);
}

um_mem um_korder_declare(um_kernel *k, um_klaunch *launch, const um_korder *o)
{
    uint64_t bytes = (uint64_t)o->count * (uint64_t)o->words * 4;
    return um_klaunch_scratch(k, launch, "keys", UM_U32, UM_KFAULT_BYTES, bytes);
}

/* var += how many keys first .. end - 1 come before `own`. */
static void count_before(um_kernel *k, um_mem keys, const um_korder *o, um_mem var, um_val first,
                         um_val end, const um_val *own, bool or_equal)
{
    um_val key[2] = {0}, j = um_k_for(k, first, end, um_k_u32(k, 1));
    load_key(k, keys, o->words, j, key);
    um_val one = um_k_convert(k, UM_U32, before(k, o->words, key, own, or_equal));
    um_k_set(k, var, um_k_add(k, um_k_get(k, var), one));
    um_k_end(k);
}

um_status um_korder_plan(const char *name, um_kplan *plan, const um_korder *o)
{
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    um_val own[2] = {0};
    plan->scratch_bytes = UM_KFAULT_BYTES + (uint64_t)o->count * (uint64_t)o->words * 4;
    UM_TRY(um_kernel_create(&(um_kernel_desc){.name = name, .group_size = {UM_KGROUP}},
                            &launch->kernel));
    um_kernel *k = launch->kernel;
    um_val count = um_klaunch_scalar(k, launch, "count", (uint32_t)o->count);
    um_val length = um_klaunch_scalar(k, launch, "length", (uint32_t)o->length);
    um_klaunch_groups(launch, um_ceil_div(o->count, UM_KGROUP));
    um_mem keys = um_korder_declare(k, launch, o);
    o->declare(o->ctx, k, launch);
    um_val e = um_klaunch_number(k);
    um_k_if(k, um_k_lt(k, e, count));
    um_val i = um_k_rem(k, e, length), first = um_k_sub(k, e, i);
    um_mem var = um_k_var(k, "before", UM_U32, 1);
    um_k_set(k, var, um_k_u32(k, 0));
    load_key(k, keys, o->words, e, own);
    count_before(k, keys, o, var, first, e, own, true);
    um_val next = um_k_add(k, e, um_k_u32(k, 1));
    count_before(k, keys, o, var, next, um_k_add(k, first, length), own, false);
    o->put(o->ctx, k, e, i, um_k_get(k, var));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* ---- keys of elements ----------------------------------------------------------------------- */

/* Of a float's words, low first, of which `key` is the highest: a NaN is the largest, zeros are
 * equal. exponent: the bits of infinity in the highest. */
static void order_float(um_kernel *k, int32_t words, uint32_t exponent, um_val *key)
{
    um_val zero = um_k_u32(k, 0), ones = um_k_u32(k, UINT32_MAX), top = um_k_u32(k, 0x80000000u);
    um_val high = key[words - 1], size = um_k_and(k, high, um_k_not(k, top));
    um_val negative = um_k_ge(k, high, top), is_zero = um_k_eq(k, size, zero);
    um_val infinite = um_k_u32(k, exponent), is_nan = um_k_gt(k, size, infinite);
    if (words == 2) {
        um_val some = um_k_ne(k, key[0], zero);
        is_nan = um_k_or(k, is_nan, um_k_and(k, um_k_eq(k, size, infinite), some));
        is_zero = um_k_and(k, is_zero, um_k_not(k, some));
        key[0] = um_k_xor(k, key[0], um_k_select(k, negative, ones, zero));
        key[0] = um_k_select(k, is_nan, ones, um_k_select(k, is_zero, zero, key[0]));
    }
    high = um_k_xor(k, high, um_k_select(k, negative, ones, top));
    high = um_k_select(k, is_zero, top, high);
    key[words - 1] = um_k_select(k, is_nan, ones, high);
}

static int32_t words_of(um_dtype dtype) { return um_dtype_bits(dtype) == 64 ? 2 : 1; }

static void key_of(um_kernel *k, um_val x, bool falls, um_val key[2])
{
    um_dtype compute = um_kvalue_compute(um_val_type(k, x).dtype);
    int32_t words = words_of(compute);
    x = um_kvalue_as(k, compute, x);
    if (words == 2) {
        um_val both = um_k_bitcast(k, UM_U32, 2, x);
        for (uint32_t w = 0; w < 2; w++) key[w] = um_k_extract(k, both, w);
    } else {
        key[0] = um_kvalue_bits(k, x);
    }
    if (um_dtype_is_float(compute))
        order_float(k, words, words == 2 ? 0x7ff00000u : 0x7f800000u, key);
    else if (um_dtype_get_kind(compute) == UM_KIND_INT)
        key[words - 1] = um_k_xor(k, key[words - 1], um_k_u32(k, 0x80000000u));
    for (int32_t w = 0; w < words && falls; w++) key[w] = um_k_not(k, key[w]);
}

/* ---- the ops -------------------------------------------------------------------------------- */

typedef struct sort {
    const um_op *op;
    um_kwalk walk; /* the outputs, then the input, the axis last */
    um_kview view[3];
    um_val size[UM_MAX_RANK], limit;
} sort;

bool um_ksort_supports(const um_op *op, char *why, size_t why_size)
{
    for (int32_t i = 0; i < op->out_count; i++)
        if (!um_kwalk_fits(&op->out[i], why, why_size)) return false;
    if (!um_kwalk_fits(&op->in[0], why, why_size)) return false;
    return um_korder_fits(op, um_view_count(&op->in[0]), why, why_size);
}

static const um_view *view_of(const um_op *op, int32_t v)
{
    return v < op->out_count ? &op->out[v] : &op->in[0];
}

static um_kwalk walk_of(const um_op *op)
{
    um_view moved[3];
    const um_view *views[3] = {NULL};
    int32_t rank = op->in[0].rank, axis = op->attrs.sort.axis, count = op->out_count + 1;
    if (axis < 0) axis += rank;
    for (int32_t v = 0; v < count; v++) {
        moved[v] = op->in[0];
        for (int32_t d = 0; d < rank; d++) {
            int32_t from = d == rank - 1 ? axis : d + (d >= axis);
            moved[v].shape[d] = op->in[0].shape[from];
            moved[v].stride[d] = view_of(op, v)->stride[from];
        }
        views[v] = &moved[v];
    }
    um_kwalk w = um_kwalk_apart(count, views);
    for (int32_t v = 0; v < count; v++) w.view[v] = view_of(op, v); /* whose ranges are bound */
    return w;
}

static void declare_input(sort *s, um_kernel *k, um_klaunch *launch)
{
    int32_t in = s->op->out_count;
    s->view[in] = um_kview_declare(k, launch, &s->walk, in, UM_K_READ, UM_KSTORE_PLAIN);
}

static bool has_values(const um_op *op) { return op->id == UM_OP_SORT || op->id == UM_OP_TOPK; }

static void declare(void *ctx, um_kernel *k, um_klaunch *launch)
{
    sort *s = ctx;
    um_kwalk_sizes(k, launch, &s->walk, 0, s->walk.rank, s->size);
    if (has_values(s->op)) declare_input(s, k, launch);
    for (int32_t v = 0; v < s->op->out_count; v++) {
        bool narrow = um_dtype_bits(s->op->out[v].dtype) < 32;
        s->view[v] = um_kview_declare(k, launch, &s->walk, v, UM_K_WRITE,
                                      narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
    }
    bool cuts = s->op->id == UM_OP_TOPK || s->op->id == UM_OP_ARG_TOPK;
    s->limit = cuts ? um_klaunch_scalar(k, launch, "k", (uint32_t)s->op->attrs.sort.k) : 0;
}

static um_val load_at(const sort *s, um_kernel *k, const um_val *place)
{
    const um_kview *in = &s->view[s->op->out_count];
    return um_kview_load(k, in, um_kview_index(k, in, in->base, 0, s->walk.rank, place));
}

static void put(void *ctx, um_kernel *k, um_val e, um_val i, um_val rank)
{
    const sort *s = ctx;
    um_val place[UM_MAX_RANK] = {0}, where = um_k_convert(k, UM_I64, i);
    if (s->limit) um_k_if(k, um_k_lt(k, rank, s->limit));
    um_kwalk_places(k, e, 0, s->walk.rank, s->size, place);
    um_val x = has_values(s->op) ? load_at(s, k, place) : where;
    place[s->walk.rank - 1] = rank;
    for (int32_t v = 0; v < s->op->out_count; v++) {
        const um_kview *out = &s->view[v];
        um_val to = um_kview_index(k, out, out->base, 0, s->walk.rank, place);
        um_kview_store(k, out, to, v == 0 ? x : where);
    }
    if (s->limit) um_k_end(k);
}

static um_status plan_keys(sort *s, um_kplan *plan, const um_korder *o)
{
    um_klaunch *launch = &plan->launch[plan->launch_count++];
    um_val place[UM_MAX_RANK] = {0}, key[2] = {0};
    UM_TRY(um_kernel_create(&(um_kernel_desc){.name = "sort_keys", .group_size = {UM_KGROUP}},
                            &launch->kernel));
    um_kernel *k = launch->kernel;
    um_keach each = um_keach_declare(k, launch, &s->op->in[0], UM_KSTORE_PLAIN);
    um_kwalk_sizes(k, launch, &s->walk, 0, s->walk.rank, s->size);
    declare_input(s, k, launch);
    um_mem keys = um_korder_declare(k, launch, o);
    um_val e = um_keach_begin(k, &each);
    um_kwalk_places(k, e, 0, s->walk.rank, s->size, place);
    key_of(k, load_at(s, k, place), s->op->attrs.sort.descending != 0, key);
    um_korder_store(k, keys, o->words, e, key);
    um_keach_end(k, &each);
    return um_kernel_finish(k);
}

um_status um_ksort_plan(const um_op *op, um_kplan *plan)
{
    sort s = {.op = op, .walk = walk_of(op)};
    um_korder o = {.count = um_view_count(&op->in[0]),
                   .length = s.walk.shape[s.walk.rank - 1],
                   .words = words_of(um_kvalue_compute(op->in[0].dtype)),
                   .ctx = &s,
                   .declare = declare,
                   .put = put};
    UM_TRY(plan_keys(&s, plan, &o));
    return um_korder_plan(um_op_name(op->id), plan, &o);
}
