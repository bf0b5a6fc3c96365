/* backend/cpu/kernel/exp_body.h: what a softmax is made of, for one REAL type (real.h): the largest
 * of a line, and the sum of its shifted exponentials. Included by norm.c and attention.c. */

/* The largest number of the line; NaN does not count. */
static REAL REAL_FN(line_max)(const REAL *x, int64_t n)
{
    enum { L = REAL_LANES };
    VREAL a = VREAL_FN(set)((REAL)-INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
        a = REAL_FN(vmax)(VREAL_FN(load)(x + i), a);
        b = REAL_FN(vmax)(VREAL_FN(load)(x + i + L), b);
        c = REAL_FN(vmax)(VREAL_FN(load)(x + i + 2 * L), c);
        d = REAL_FN(vmax)(VREAL_FN(load)(x + i + 3 * L), d);
    }
    for (; i + L <= n; i += L) a = REAL_FN(vmax)(VREAL_FN(load)(x + i), a);
    if (i < n) b = REAL_FN(vmax)(REAL_FN(load_rest)(x + i, n - i, (REAL)-INFINITY), b);
    REAL lane[REAL_LANES];
    VREAL_FN(store)(lane, REAL_FN(vmax)(REAL_FN(vmax)(a, b), REAL_FN(vmax)(c, d)));
    for (i = 1; i < L; i++) lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
    return lane[0];
}

/* The sum of exp(x - max); y gets the addends when it is not NULL. */
UM_INLINE REAL REAL_FN(block_exp)(const REAL *x, REAL *y, int64_t n, REAL max)
{
    enum { L = REAL_LANES };
    VREAL a = {0}, b = {0}, top = VREAL_FN(set)(max);
    int64_t i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
        VREAL e = VREAL_FN(exp)(VREAL_FN(load)(x + i) - top);
        VREAL f = VREAL_FN(exp)(VREAL_FN(load)(x + i + L) - top);
        if (y) VREAL_FN(store)(y + i, e), VREAL_FN(store)(y + i + L, f);
        a += e, b += f;
    }
    for (; i < n; i += L) {
        int64_t part = UM_MIN(n - i, L);
        VREAL e = VREAL_FN(exp)(REAL_FN(load_rest)(x + i, part, (REAL)-INFINITY) - top);
        if (y) REAL_FN(store_part)(y + i, e, part);
        a += e;
    }
    return VREAL_FN(sum)(a + b);
}
