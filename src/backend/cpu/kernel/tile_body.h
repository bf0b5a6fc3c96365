/* backend/cpu/kernel/tile_body.h: the register tile of matrix products for one REAL type (real.h,
 * matmul_int.h). Included by matmul.c, conv.c, attention.c and attention_grad.c.
 *
 * Layout (BLIS's): a sliver of A is TILE_ROWS rows, a sliver of B is TILE_COLS columns; both store,
 * for each k, that many elements next to each other, 0 where the matrix ends. */
#ifndef TILE_ROWS
#define TILE_ROWS    6
#define TILE_VECTORS 2 /* a row's */
#endif
#undef TILE_COLS
#define TILE_COLS (TILE_VECTORS * REAL_LANES)

/* Named, not an array: gcc 12 spills an array of accumulators (26 against 74 GFLOP/s). */
typedef struct REAL_FN(tile) {
    VREAL c00, c01, c10, c11, c20, c21, c30, c31, c40, c41, c50, c51;
} REAL_FN(tile);

UM_INLINE void REAL_FN(tile_step)(REAL_FN(tile) * t, const REAL *a, const REAL *b)
{
    VREAL b0 = VREAL_FN(load)(b), b1 = VREAL_FN(load)(b + REAL_LANES);
    VREAL x = VREAL_FN(set)(a[0]), y = VREAL_FN(set)(a[1]);
    t->c00 = VREAL_FN(fma)(x, b0, t->c00), t->c01 = VREAL_FN(fma)(x, b1, t->c01);
    t->c10 = VREAL_FN(fma)(y, b0, t->c10), t->c11 = VREAL_FN(fma)(y, b1, t->c11);
    x = VREAL_FN(set)(a[2]), y = VREAL_FN(set)(a[3]);
    t->c20 = VREAL_FN(fma)(x, b0, t->c20), t->c21 = VREAL_FN(fma)(x, b1, t->c21);
    t->c30 = VREAL_FN(fma)(y, b0, t->c30), t->c31 = VREAL_FN(fma)(y, b1, t->c31);
    x = VREAL_FN(set)(a[4]), y = VREAL_FN(set)(a[5]);
    t->c40 = VREAL_FN(fma)(x, b0, t->c40), t->c41 = VREAL_FN(fma)(x, b1, t->c41);
    t->c50 = VREAL_FN(fma)(y, b0, t->c50), t->c51 = VREAL_FN(fma)(y, b1, t->c51);
}

/* Row r of the tile. */
UM_INLINE void REAL_FN(tile_row)(REAL *out, VREAL v0, VREAL v1, const REAL *sum, int64_t r)
{
    if (sum) {
        v0 += VREAL_FN(load)(sum + r * TILE_COLS);
        v1 += VREAL_FN(load)(sum + r * TILE_COLS + REAL_LANES);
    }
    VREAL_FN(store)(out, v0);
    VREAL_FN(store)(out + REAL_LANES, v1);
}

/* out[i * ld + j] = the product of one sliver of A and one of B over k, + sum[i * TILE_COLS + j]
 * when there is a sum. */
static void REAL_FN(tile_run)(int64_t k, const REAL *a, const REAL *b, REAL *out, int64_t ld,
                              const REAL *sum)
{
    enum { A = TILE_ROWS, B = TILE_COLS };
    REAL_FN(tile) t = {0};
    int64_t p = 0;
    for (; p + 4 <= k; p += 4, a += 4 * A, b += 4 * B) {
        REAL_FN(tile_step)(&t, a, b);
        REAL_FN(tile_step)(&t, a + A, b + B);
        REAL_FN(tile_step)(&t, a + 2 * A, b + 2 * B);
        REAL_FN(tile_step)(&t, a + 3 * A, b + 3 * B);
    }
    for (; p < k; p++, a += A, b += B) REAL_FN(tile_step)(&t, a, b);
    REAL_FN(tile_row)(out, t.c00, t.c01, sum, 0);
    REAL_FN(tile_row)(out + ld, t.c10, t.c11, sum, 1);
    REAL_FN(tile_row)(out + 2 * ld, t.c20, t.c21, sum, 2);
    REAL_FN(tile_row)(out + 3 * ld, t.c30, t.c31, sum, 3);
    REAL_FN(tile_row)(out + 4 * ld, t.c40, t.c41, sum, 4);
    REAL_FN(tile_row)(out + 5 * ld, t.c50, t.c51, sum, 5);
}
