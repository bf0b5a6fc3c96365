/* kernel/nonzero.c: where elements are not 0. Work-groups count those of a block each; one adds the
 * counts up; then each block writes its rows, and what is left becomes -1. */
#include "kernel/library.h"

enum { CHUNKS = 8, BLOCK = CHUNKS * UM_KGROUP };

typedef struct nonzero {
    const um_op *op;
    um_kplan *plan;
    um_kernel *k;
    um_klaunch *launch;
    int64_t blocks;
    um_val count, block_count;
    um_mem starts; /* scratch: of each block, and how many there are in all */
    um_kview x;
    um_val size[UM_MAX_RANK], place[UM_MAX_RANK];
} nonzero;

static void declare_starts(nonzero *z)
{
    uint64_t bytes = (uint64_t)(z->blocks + 1) * 4;
    z->k = z->launch->kernel;
    z->block_count = um_klaunch_scalar(z->launch, z->blocks, "blocks");
    z->starts = um_klaunch_scratch(z->launch, "starts", UM_U32, UM_KFAULT_BYTES, bytes);
}

static um_status begin_kernel(nonzero *z, const char *name)
{
    UM_TRY(um_kplan_launch(z->plan, name, UM_KGROUP, &z->launch));
    declare_starts(z);
    return UM_OK;
}

static void declare_x(nonzero *z)
{
    const um_view *x = &z->op->in[0];
    um_kwalk w = um_kwalk_apart(1, &x);
    z->count = um_klaunch_scalar(z->launch, um_view_count(x), "count");
    um_kwalk_sizes(z->launch, &w, 0, w.rank, z->size);
    z->x = um_kview_read(z->launch, &w, 0);
}

/* By its bits: both zeros of floats are 0, and nothing small is. */
static um_val is_nonzero(um_kernel *k, um_val x)
{
    um_dtype dtype = um_val_type(k, x).dtype;
    uint32_t bits = (uint32_t)um_dtype_bits(dtype), sign = um_dtype_is_float(dtype);
    if (dtype == UM_BOOL) return x;
    um_val words[2] = {0}, all;
    if (bits == 64) {
        um_val both = um_k_bitcast(k, UM_U32, 2, x);
        for (uint32_t w = 0; w < 2; w++) words[w] = um_k_extract(k, both, w);
        all = um_k_or(k, words[0], um_k_shl(k, words[1], um_k_u32(k, sign)));
    } else {
        all = um_k_shl(k, um_kvalue_bits(k, x), um_k_u32(k, 32 - bits + sign));
    }
    return um_k_ne(k, all, um_k_u32(k, 0));
}

/* Whether element e, u32 1 or 0, counts; its place is left in z->place. */
static um_val counts_at(nonzero *z, um_val e)
{
    um_kernel *k = z->k;
    um_mem var = um_kvar(k, um_k_u32(k, 0), "is_one");
    um_k_if(k, um_k_lt(k, e, z->count));
    um_kwalk_places(k, e, 0, z->op->in[0].rank, z->size, z->place);
    um_val x = um_kview_load_at(k, &z->x, z->op->in[0].rank, z->place);
    um_k_set(k, var, um_k_convert(k, UM_U32, is_nonzero(k, x)));
    um_k_end(k);
    return um_k_get(k, var);
}

/* The first element of this invocation in each chunk of its block: begins a loop over chunks. */
static um_val each_chunk(nonzero *z, um_val block)
{
    um_kernel *k = z->k;
    um_val c = um_k_for(k, um_k_u32(k, 0), um_k_u32(k, BLOCK), um_k_u32(k, UM_KGROUP));
    um_val first = um_k_add(k, um_k_mul(k, block, um_k_u32(k, BLOCK)), c);
    return um_k_add(k, first, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0));
}

static void if_first(um_kernel *k)
{
    um_k_if(k, um_k_eq(k, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), um_k_u32(k, 0)));
}

static um_status plan_counts(nonzero *z)
{
    UM_TRY(begin_kernel(z, "nonzero_count"));
    um_kernel *k = z->k;
    declare_x(z);
    um_klaunch_groups(z->launch, z->blocks);
    um_val block = um_klaunch_group_number(k);
    um_mem found = um_kvar(k, um_k_u32(k, 0), "found");
    um_k_if(k, um_k_lt(k, block, z->block_count));
    um_val one = counts_at(z, each_chunk(z, block));
    um_k_set(k, found, um_k_add(k, um_k_get(k, found), one));
    um_k_end(k);
    um_val all = um_k_group_reduce(k, UM_K_ADD, um_k_get(k, found));
    if_first(k);
    um_k_store(k, z->starts, block, all);
    um_k_end(k);
    um_k_end(k);
    return um_kernel_finish(k);
}

/* Counts become starts, and the last of them what there is in all. */
static um_status plan_starts(nonzero *z)
{
    UM_TRY(begin_kernel(z, "nonzero_starts"));
    um_kernel *k = z->k;
    um_kview total;
    if (z->op->out_count > 1) {
        const um_view *out = &z->op->out[1];
        um_kwalk w = um_kwalk_apart(1, &out);
        total = um_kview_write(z->launch, &w, 0);
    }
    um_klaunch_groups(z->launch, 1);
    um_val zero = um_k_u32(k, 0);
    um_mem sum = um_kvar(k, zero, "sum");
    um_val first = um_k_for(k, zero, z->block_count, um_k_u32(k, UM_KGROUP));
    um_val b = um_k_add(k, first, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0));
    um_val in = um_k_lt(k, b, z->block_count);
    um_val own = um_k_load_if(k, z->starts, b, in, zero);
    um_val before = um_k_group_scan(k, UM_K_ADD, true, own);
    um_val all = um_k_group_reduce(k, UM_K_ADD, own);
    um_k_store_if(k, z->starts, b, um_k_add(k, um_k_get(k, sum), before), in);
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), all));
    um_k_end(k);
    if_first(k);
    um_k_store(k, z->starts, z->block_count, um_k_get(k, sum));
    if (z->op->out_count > 1)
        um_kview_store(k, &total, total.base, um_k_convert(k, UM_I64, um_k_get(k, sum)));
    um_k_end(k);
    return um_kernel_finish(k);
}

/* The output as view 1. */
static um_kview declare_rows(nonzero *z)
{
    um_kwalk w = {.view_count = 2, .rank = 2};
    w.view[1] = &z->op->out[0];
    memcpy(w.stride[1], z->op->out[0].stride, sizeof w.stride[1]);
    return um_kview_write(z->launch, &w, 1);
}

static um_status plan_rows(nonzero *z)
{
    UM_TRY(begin_kernel(z, "nonzero_rows"));
    um_kernel *k = z->k;
    declare_x(z);
    um_kview out = declare_rows(z);
    um_val rows = um_klaunch_scalar(z->launch, z->op->out[0].shape[0], "rows");
    um_klaunch_groups(z->launch, z->blocks);
    um_val block = um_klaunch_group_number(k);
    um_mem next = um_k_var(k, "next", UM_U32, 1);
    um_k_if(k, um_k_lt(k, block, z->block_count));
    um_k_set(k, next, um_k_load(k, z->starts, block));
    um_val e = each_chunk(z, block), one = counts_at(z, e);
    um_val before = um_k_group_scan(k, UM_K_ADD, true, one);
    um_val all = um_k_group_reduce(k, UM_K_ADD, one);
    um_val row = um_k_add(k, um_k_get(k, next), before), place[UM_MAX_RANK] = {0};
    um_val is_one = um_k_ne(k, one, um_k_u32(k, 0));
    um_k_if(k, um_k_and(k, is_one, um_k_lt(k, row, rows)));
    um_kwalk_places(k, e, 0, z->op->in[0].rank, z->size, place);
    for (int32_t d = 0; d < z->op->in[0].rank; d++) {
        um_val at[2] = {row, um_k_u32(k, (uint32_t)d)};
        um_kview_store(k, &out, um_kview_place(k, &out, 2, at), um_k_convert(k, UM_I64, place[d]));
    }
    um_k_end(k);
    um_k_set(k, next, um_k_add(k, um_k_get(k, next), all));
    um_k_end(k);
    um_k_end(k);
    return um_kernel_finish(k);
}

static um_status plan_rest(nonzero *z)
{
    const um_view *rows = &z->op->out[0];
    um_keach each = {.walk = um_kwalk_apart(1, &rows)};
    UM_TRY(um_keach_create(&each, z->plan, "nonzero_rest"));
    um_kernel *k = each.k;
    z->launch = each.launch;
    declare_starts(z);
    um_val total = um_k_load(k, z->starts, z->block_count);
    um_keach_begin(&each);
    um_k_if(k, um_k_ge(k, each.place[0], total));
    um_keach_store(&each, um_k_const(k, UM_I64, UINT64_MAX));
    um_k_end(k);
    return um_keach_finish(&each);
}

um_status um_knonzero_plan(const um_op *op, um_kplan *plan)
{
    nonzero z = {.op = op, .plan = plan};
    z.blocks = um_ceil_div(um_view_count(&op->in[0]), BLOCK);
    plan->scratch_bytes = UM_KFAULT_BYTES + (uint64_t)(z.blocks + 1) * 4;
    if (z.blocks > 0) UM_TRY(plan_counts(&z));
    UM_TRY(plan_starts(&z));
    if (um_view_count(&op->out[0]) == 0) return UM_OK;
    if (z.blocks > 0) UM_TRY(plan_rows(&z));
    return plan_rest(&z);
}
