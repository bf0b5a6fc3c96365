/* backend/cpu/kernel/tile_body.h: the register tile of matrix products for one REAL type (real.h),
 * and the packing that feeds it. Included by matmul.c and attention.c.
 *
 * Layout (BLIS's): a sliver of A is TILE_ROWS rows, a sliver of B is TILE_COLS columns; both store,
 * for each k, that many elements next to each other, 0 where the matrix ends. */
#ifndef TILE_ROWS
#define TILE_ROWS    6
#define TILE_VECTORS 2 /* a row's */
#endif
#undef TILE_COLS
#undef TURN_SIZE
#define TILE_COLS (TILE_VECTORS * REAL_LANES)
#define TURN_SIZE                                                                                  \
    (16 / (int64_t)sizeof(REAL)) /* a square turned at once; a 16-byte vector a side */

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

/* TURN_SIZE elements of TURN_SIZE lines, turned: dst[p * width + i] = src[i * line_stride + p]. */
UM_INLINE void REAL_FN(turn_square)(REAL *dst, int64_t width, const REAL *src, int64_t line_stride)
{
#if defined(__SSE2__) && REAL_BITS == 32
    __m128 a = _mm_loadu_ps(src), b = _mm_loadu_ps(src + line_stride);
    __m128 c = _mm_loadu_ps(src + 2 * line_stride), d = _mm_loadu_ps(src + 3 * line_stride);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(dst, a), _mm_storeu_ps(dst + width, b);
    _mm_storeu_ps(dst + 2 * width, c), _mm_storeu_ps(dst + 3 * width, d);
#elif defined(__SSE2__)
    __m128d a = _mm_loadu_pd(src), b = _mm_loadu_pd(src + line_stride);
    _mm_storeu_pd(dst, _mm_unpacklo_pd(a, b)), _mm_storeu_pd(dst + width, _mm_unpackhi_pd(a, b));
#else
    for (int64_t p = 0; p < TURN_SIZE; p++)
        for (int64_t i = 0; i < TURN_SIZE; i++) dst[p * width + i] = src[i * line_stride + p];
#endif
}

/* pack for lines whose elements lie in one piece; lines >= TURN_SIZE. The last group of lines may
 * overlap the one before. */
UM_INLINE void REAL_FN(pack_turned)(REAL *dst, int64_t width, const REAL *src, int64_t line_stride,
                                    int64_t lines, int64_t len)
{
    int64_t p = 0;
    for (; p + TURN_SIZE <= len; p += TURN_SIZE)
        for (int64_t i = 0; i < lines; i += TURN_SIZE) {
            int64_t from = UM_MIN(i, lines - TURN_SIZE);
            REAL_FN(turn_square)
            (dst + p * width + from, width, src + from * line_stride + p, line_stride);
        }
    for (; p < len; p++)
        for (int64_t i = 0; i < lines; i++) dst[p * width + i] = src[i * line_stride + p];
}

/* pack for lines of REALs. */
UM_INLINE void REAL_FN(pack_direct)(REAL *dst, int64_t width, const REAL *src, int64_t line_stride,
                                    int64_t elem_stride, int64_t lines, int64_t len)
{
    if (line_stride == 1 && lines == width) {
        for (int64_t p = 0; p < len; p++)
            memcpy(dst + p * width, src + p * elem_stride, (size_t)width * sizeof(REAL));
    } else if (elem_stride == 1 && lines >= TURN_SIZE) {
        if (lines == width)
            REAL_FN(pack_turned)(dst, width, src, line_stride, width, len);
        else
            REAL_FN(pack_turned)(dst, width, src, line_stride, lines, len);
    } else {
        for (int64_t p = 0; p < len; p++, src += elem_stride)
            for (int64_t i = 0; i < lines; i++) dst[p * width + i] = src[i * line_stride];
    }
}

/* dst[p * width + i] = element p of line i, for `lines` <= width lines of len elements; lines are
 * line_stride apart, elements elem_stride. The rest of width is 0. buffer: len, for other types. */
UM_INLINE void REAL_FN(pack)(REAL *dst, int64_t width, um_dtype dtype, const void *data,
                             int64_t first, int64_t line_stride, int64_t elem_stride, int64_t lines,
                             int64_t len, REAL *buffer)
{
    if (lines < width) memset(dst, 0, (size_t)(width * len) * sizeof(REAL));
    if (dtype == REAL_DTYPE) {
        REAL_FN(pack_direct)
        (dst, width, (const REAL *)data + first, line_stride, elem_stride, lines, len);
    } else if (line_stride == 1 && elem_stride != 1) {
        for (int64_t p = 0; p < len; p++)
            um_load(REAL_CLASS, dst + p * width, dtype, data, first + p * elem_stride, 1, lines);
    } else {
        for (int64_t i = 0; i < lines; i++) {
            um_load(REAL_CLASS, buffer, dtype, data, first + i * line_stride, elem_stride, len);
            for (int64_t p = 0; p < len; p++) dst[p * width + i] = buffer[p];
        }
    }
}
