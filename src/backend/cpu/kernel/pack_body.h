/* backend/cpu/kernel/pack_body.h: packing the slivers that tile_body.h takes, for one REAL type
 * (real.h). Included by matmul.c, conv.c, attention.c and attention_grad.c. */
#include "backend/cpu/kernel/narrow.h"

#undef TURN_SIZE
#define TURN_SIZE                                                                                  \
    (16 / (int64_t)sizeof(REAL)) /* a square turned at once; a 16-byte vector a side */

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

/* n elements, `first` + i * stride, of any float dtype into dst. */
static void REAL_FN(line_read)(REAL *dst, um_dtype dtype, const void *data, int64_t first,
                               int64_t stride, int64_t n)
{
    int64_t done = 0;
#if REAL_BITS == 32
    const char *at = (const char *)data + first * (um_dtype_bits(dtype) / 8);
    if (stride == 1) done = narrow_load(dst, dtype, at, n);
#endif
    if (done < n)
        um_load(REAL_CLASS, dst + done, dtype, data, first + done * stride, stride, n - done);
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
            REAL_FN(line_read)(dst + p * width, dtype, data, first + p * elem_stride, 1, lines);
    } else {
        for (int64_t i = 0; i < lines; i++) {
            REAL_FN(line_read)(buffer, dtype, data, first + i * line_stride, elem_stride, len);
            for (int64_t p = 0; p < len; p++) dst[p * width + i] = buffer[p];
        }
    }
}
