/* backend/cpu/kernel/gemv_body.h: out[m, 1] = a[m, k] b[k, 1], and what follows, for one REAL type
 * (real.h). Included by matmul.c; this is the hot path of a language model that makes one token.
 * Any split of the rows gives the same bits. */

/* Rows of `a` with k contiguous are dotted four at a time, in blocks of GEMV_DOT_BLOCK. Columns
 * with m contiguous are added, GEMV_COLUMNS rows of the result at a time. Both keep each chain of
 * additions at 256 or less and add up the blocks exactly. */
#ifndef GEMV_DOT_BLOCK
#define GEMV_DOT_BLOCK    2048
#define GEMV_COLUMN_BLOCK 256
#define GEMV_VECTORS      8
#endif

UM_INLINE int64_t REAL_FN(gemv_row_at)(const product *p, int64_t a_at, int64_t row, int64_t k)
{
    return a_at + UM_MIN(row, p->m - 1) * p->a.row + k * p->a.col;
}

/* Copies of n elements of four rows, for what cannot be read in place. */
static void REAL_FN(gemv_copy)(const product *p, int64_t a_at, int64_t first, int64_t k, int64_t n,
                               REAL *buffer, const REAL *row[4])
{
    for (int64_t i = 0; i < 4; i++) {
        REAL *copy = buffer + i * GEMV_DOT_BLOCK;
        REAL_FN(operand_load)
        (p, &p->a, REAL_FN(gemv_row_at)(p, a_at, first + i, k), p->a.col, n, copy);
        row[i] = copy;
    }
}

/* sum[r] of rows first + r, r < count <= 64; buffer: 4 * GEMV_DOT_BLOCK. */
static void REAL_FN(gemv_dot)(const product *p, int64_t a_at, int64_t first, int64_t count,
                              const REAL *x, REAL *buffer, REAL *sum)
{
    REAL lo[64], part[4];
    bool direct = REAL_FN(operand_is_direct)(p, &p->a, p->a.col, p->k);
    if (p->k > GEMV_DOT_BLOCK) memset(lo, 0, sizeof lo);
    for (int64_t r = 0; r < count; r += 4)
        for (int64_t k0 = 0; k0 < p->k; k0 += GEMV_DOT_BLOCK) {
            int64_t n = UM_MIN(p->k - k0, GEMV_DOT_BLOCK);
            const REAL *row[4];
            if (direct)
                for (int64_t i = 0; i < 4; i++)
                    row[i] =
                        (const REAL *)p->a.data + REAL_FN(gemv_row_at)(p, a_at, first + r + i, k0);
            else
                REAL_FN(gemv_copy)(p, a_at, first + r, k0, n, buffer, row);
            REAL_FN(dot4)(row, x + k0, n, k0 ? part : sum + r);
            if (k0) REAL_FN(sum_add)(sum + r, lo + r, part, 4);
        }
    if (p->k > GEMV_DOT_BLOCK) REAL_FN(sum_close)(sum, lo, count);
}

/* out[i] = sum over k of x[k] * column[k * stride + i], GEMV_VECTORS vectors wide */
UM_INLINE void REAL_FN(axpy8)(const REAL *column, int64_t stride, const REAL *x, int64_t n,
                              REAL *out)
{
    enum { L = REAL_LANES };
    VREAL s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t k = 0; k < n; k++, column += stride) {
        VREAL xk = VREAL_FN(set)(x[k]);
        s0 = VREAL_FN(fma)(xk, VREAL_FN(load)(column), s0);
        s1 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + L), s1);
        s2 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 2 * L), s2);
        s3 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 3 * L), s3);
        s4 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 4 * L), s4);
        s5 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 5 * L), s5);
        s6 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 6 * L), s6);
        s7 = VREAL_FN(fma)(xk, VREAL_FN(load)(column + 7 * L), s7);
    }
    VREAL_FN(store)(out, s0), VREAL_FN(store)(out + L, s1);
    VREAL_FN(store)(out + 2 * L, s2), VREAL_FN(store)(out + 3 * L, s3);
    VREAL_FN(store)(out + 4 * L, s4), VREAL_FN(store)(out + 5 * L, s5);
    VREAL_FN(store)(out + 6 * L, s6), VREAL_FN(store)(out + 7 * L, s7);
}

/* `count` rows from `first` on; buffer: GEMV_COLUMN_BLOCK * width, for what cannot be read in
 * place. */
static void REAL_FN(gemv_axpy)(const product *p, int64_t a_at, int64_t first, int64_t count,
                               const REAL *x, REAL *buffer, REAL *sum)
{
    enum { WIDTH = GEMV_VECTORS * REAL_LANES };
    REAL lo[WIDTH] = {0}, part[WIDTH];
    bool direct = REAL_FN(operand_is_direct)(p, &p->a, 1, count) && count == WIDTH;
    for (int64_t k0 = 0; k0 < p->k; k0 += GEMV_COLUMN_BLOCK) {
        int64_t n = UM_MIN(p->k - k0, GEMV_COLUMN_BLOCK), at = a_at + first + k0 * p->a.col;
        if (!direct) {
            memset(buffer, 0, (size_t)(n * WIDTH) * sizeof(REAL));
            for (int64_t k = 0; k < n; k++) REAL_FN(operand_load)
            (p, &p->a, at + k * p->a.col, 1, count, buffer + k * WIDTH);
        }
        REAL *to = k0 ? part : sum;
        if (direct)
            REAL_FN(axpy8)((const REAL *)p->a.data + at, p->a.col, x + k0, n, to);
        else
            REAL_FN(axpy8)(buffer, WIDTH, x + k0, n, to);
        if (k0) REAL_FN(sum_add)(sum, lo, part, WIDTH);
    }
    if (p->k > GEMV_COLUMN_BLOCK) REAL_FN(sum_close)(sum, lo, WIDTH);
}

static bool REAL_FN(gemv_wants_axpy)(const product *p) { return p->a.row == 1 && p->a.col != 1; }

static size_t REAL_FN(gemv_scratch_bytes)(const product *p)
{
    enum { WIDTH = GEMV_VECTORS * REAL_LANES };
    int64_t x = REAL_FN(operand_is_direct)(p, &p->b, p->b.row, p->k) ? 0 : p->k;
    int64_t buffer = 4 * GEMV_DOT_BLOCK;
    if (REAL_FN(gemv_wants_axpy)(p))
        buffer = UM_MIN(p->k, GEMV_COLUMN_BLOCK) * WIDTH;
    else if (REAL_FN(operand_is_direct)(p, &p->a, p->a.col, p->k))
        buffer = 0;
    return (size_t)(x + buffer) * sizeof(REAL);
}

/* Rows first .. end - 1 of one batch. */
static void REAL_FN(gemv_rows)(const product *p, const product_at *at, int64_t first, int64_t end,
                               void *scratch)
{
    enum { WIDTH = GEMV_VECTORS * REAL_LANES };
    const REAL *x = (const REAL *)p->b.data + at->b;
    REAL *buffer = scratch, sum[64];
    if (!REAL_FN(operand_is_direct)(p, &p->b, p->b.row, p->k)) {
        x = buffer;
        REAL_FN(operand_load)(p, &p->b, at->b, p->b.row, p->k, buffer);
        buffer += p->k;
    }
    bool axpy = REAL_FN(gemv_wants_axpy)(p);
    int64_t width = axpy ? WIDTH : 64;
    for (int64_t r = first; r < end; r += width) {
        /* A last, short group of columns starts early instead, where there is room: the same values
         * again. (Not where c or residual may be the output.) */
        bool early = axpy && p->beta == 0 && !p->residual.data && end - first >= width;
        int64_t from = early ? UM_MIN(r, end - width) : r;
        int64_t n = UM_MIN(end - from, width);
        if (axpy)
            REAL_FN(gemv_axpy)(p, at->a, from, n, x, buffer, sum);
        else
            REAL_FN(gemv_dot)(p, at->a, from, n, x, buffer, sum);
        REAL_FN(finish)(&(product_line){p, at, from, 0, n, true}, sum);
    }
}
