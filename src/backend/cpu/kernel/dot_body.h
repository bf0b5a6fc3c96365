/* backend/cpu/kernel/dot_body.h: four dot products at once, for one REAL type (real.h). Included by
 * matmul.c and attention.c. */

/* out[r] = sum of row[r][i] * x[i] */
UM_INLINE void REAL_FN(dot4)(const REAL *const row[4], const REAL *x, int64_t n, REAL *out)
{
    enum { L = REAL_LANES };
    const REAL *r0 = row[0], *r1 = row[1], *r2 = row[2], *r3 = row[3];
    VREAL a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
    int64_t i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
        VREAL x0 = VREAL_FN(load)(x + i), x1 = VREAL_FN(load)(x + i + L);
        a0 = VREAL_FN(fma)(VREAL_FN(load)(r0 + i), x0, a0);
        a1 = VREAL_FN(fma)(VREAL_FN(load)(r1 + i), x0, a1);
        a2 = VREAL_FN(fma)(VREAL_FN(load)(r2 + i), x0, a2);
        a3 = VREAL_FN(fma)(VREAL_FN(load)(r3 + i), x0, a3);
        b0 = VREAL_FN(fma)(VREAL_FN(load)(r0 + i + L), x1, b0);
        b1 = VREAL_FN(fma)(VREAL_FN(load)(r1 + i + L), x1, b1);
        b2 = VREAL_FN(fma)(VREAL_FN(load)(r2 + i + L), x1, b2);
        b3 = VREAL_FN(fma)(VREAL_FN(load)(r3 + i + L), x1, b3);
    }
    if (i + L <= n) {
        VREAL x0 = VREAL_FN(load)(x + i);
        a0 = VREAL_FN(fma)(VREAL_FN(load)(r0 + i), x0, a0);
        a1 = VREAL_FN(fma)(VREAL_FN(load)(r1 + i), x0, a1);
        a2 = VREAL_FN(fma)(VREAL_FN(load)(r2 + i), x0, a2);
        a3 = VREAL_FN(fma)(VREAL_FN(load)(r3 + i), x0, a3);
        i += L;
    }
    if (i < n) {
        VREAL x0 = REAL_FN(load_part)(x + i, n - i);
        b0 = VREAL_FN(fma)(REAL_FN(load_part)(r0 + i, n - i), x0, b0);
        b1 = VREAL_FN(fma)(REAL_FN(load_part)(r1 + i, n - i), x0, b1);
        b2 = VREAL_FN(fma)(REAL_FN(load_part)(r2 + i, n - i), x0, b2);
        b3 = VREAL_FN(fma)(REAL_FN(load_part)(r3 + i, n - i), x0, b3);
    }
    REAL_FN(sum4)(a0 + b0, a1 + b1, a2 + b2, a3 + b3, out);
}
