/* test/op_build.h: making ops for the tests of the op table. */
#ifndef UM_TEST_OP_BUILD_H
#define UM_TEST_OP_BUILD_H

#include "op/table.h"
#include "test.h"

#define SHAPE(...)                                                                                 \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* Row-major at ptr; sizes are taken as they are, also bad ones. */
static inline um_view view_at(um_ptr ptr, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_view v = {.ptr = ptr, .dtype = dtype, .rank = rank};
    uint64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        v.shape[i] = shape[i];
        v.stride[i] = (int64_t)stride;
        stride *= (uint64_t)UM_MAX(shape[i], 1);
    }
    return v;
}

static inline um_op make_op(um_op_id id)
{
    um_op op = {.id = id, .out_count = 1};
    op.out[0].ptr = 0x40000000;
    return op;
}

static inline void add_input(um_op *op, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_ptr ptr = 0x1000000u * (um_ptr)(op->in_count + 1);
    op->in[op->in_count++] = view_at(ptr, dtype, rank, shape);
}

/* Whether the output was inferred as this. */
static inline bool is_view(const um_view *v, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_view wanted = view_at(v->ptr, dtype, rank, shape);
    return memcmp(v, &wanted, sizeof wanted) == 0;
}

static inline um_op make_attention(void)
{
    um_op op = make_op(UM_OP_ATTENTION);
    add_input(&op, UM_F32, SHAPE(2, 6, 5, 8));
    add_input(&op, UM_F32, SHAPE(2, 3, 7, 8));
    add_input(&op, UM_F32, SHAPE(2, 3, 7, 9));
    return op;
}

#endif
