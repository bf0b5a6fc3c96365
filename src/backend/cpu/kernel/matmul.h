/* backend/cpu/kernel/matmul.h: one matmul op as the bodies (gemm_body.h, gemv_body.h) see it:
 * batches of out[m, n] = alpha * a[m, k] b[k, n] + beta * c[m, n]. Made by matmul.c. */
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
    int64_t m, n, k;
    double alpha, beta; /* beta 0: c is not there */
    int32_t batch_rank;
    int64_t batch_shape[MATMUL_BATCH_RANK];
    int64_t batch_count;
} product;

/* Element (0, 0) of one batch in each matrix. */
typedef struct product_at {
    int64_t a, b, c, out;
} product_at;

#endif
