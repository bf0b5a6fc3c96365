/* backend/cpu/kernel/matmul.h: one matmul op as the bodies (gemm_body.h, gemv_body.h) see it:
 * batches of out[m, n] = scale * (act(alpha * a[m, k] b[k, n] + beta * c + bias) + residual), and
 * what a program makes of that. Made by matmul.c. */
#ifndef UM_CPU_MATMUL_H
#define UM_CPU_MATMUL_H

#include "backend/cpu/cpu.h"

enum { MATMUL_BATCH_RANK = UM_MAX_RANK - 2 };

/* Element (i, j) of batch 0 is `row * i + col * j` elements from data. */
typedef struct matrix {
    void *data;
    um_dtype dtype;
    int64_t row, col;
    int64_t batch[MATMUL_BATCH_RANK]; /* strides */
} matrix;

typedef struct product {
    matrix a, b, c, out;
    matrix bias, residual; /* data is NULL where there is none */
    int64_t m, n, k;       /* 8-bit integers: k counts pairs, see matmul_int.h */
    double alpha, beta;    /* beta 0: c is not there */
    bool has_epilogue;     /* something below, or a bias or a residual */
    bool k_is_odd;         /* 8-bit integers: the last pair is half empty */
    um_dtype round_to;     /* UM_DTYPE_NONE, or what f32 operands are rounded to */
    um_op_id activation;
    double slope, scale; /* of elu and leaky_relu; 1 where nothing is scaled */
    int32_t batch_rank;
    int64_t batch_shape[MATMUL_BATCH_RANK];
    int64_t batch_count;
    /* Behind all that, over blocks of out in the cache, which then has no memory of its own but
     * that of the block: input 0 is out's element, `target` is written. */
    const um_rider *rider; /* NULL: none */
    matrix target;
    matrix more[UM_MAP_MAX_INPUTS]; /* inputs of the program, from 1 on */
} product;

/* Element (0, 0) of one batch in each matrix. */
typedef struct product_at {
    int64_t a, b, c, out, bias, residual, target;
    int64_t more[UM_MAP_MAX_INPUTS];
} product_at;

/* A line of n elements of out, from (row, col) along a row, or down a column. */
typedef struct product_line {
    const product *p;
    const product_at *at;
    int64_t row, col, n;
    bool down;
} product_line;

static inline int64_t product_line_at(const product_line *line, const matrix *x, int64_t batch_at)
{
    return batch_at + line->row * x->row + line->col * x->col;
}
static inline int64_t product_line_step(const product_line *line, const matrix *x)
{
    return line->down ? x->row : x->col;
}

#endif
