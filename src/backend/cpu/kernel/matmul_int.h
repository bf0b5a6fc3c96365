/* backend/cpu/kernel/matmul_int.h: 8-bit integers for tile_body.h and gemm_body.h, and their matrix
 * times vector. Included by matmul.c in place of real.h, pack_body.h, product_body.h, gemv_body.h.
 *
 * The REAL is 32 bits and holds what lies at 2 k and 2 k + 1 as two i16; a product of two of them
 * is both products added up, which is one instruction of x86. So for the bodies k counts pairs, and
 * an operand's step along k is two elements. Sums are i32, modulo 2^32. */
#undef REAL
#undef VREAL
#undef REAL_LANES
#undef REAL_DTYPE
#undef REAL_FN
#undef VREAL_FN
#define REAL           uint32_t
#define VREAL          vpair
#define REAL_LANES     VF32_LANES
#define REAL_DTYPE     UM_I32
#define REAL_FN(name)  name##_int
#define VREAL_FN(name) vpair_##name

#define INT_PIECE     256       /* bytes of a line at a time */
#define INT_EXACT_SUM (1 << 15) /* so many products of bytes fit an i32 */
#define INT_ROWS      64        /* of a matrix times a vector at a time */

typedef uint32_t vpair __attribute__((vector_size(UM_VECTOR_BYTES)));
typedef uint32_t vpair_any __attribute__((vector_size(UM_VECTOR_BYTES), aligned(4), may_alias));

UM_INLINE vpair vpair_load(const uint32_t *p) { return *(const vpair_any *)p; }
UM_INLINE void vpair_store(uint32_t *p, vpair v) { *(vpair_any *)p = v; }
UM_INLINE vpair vpair_set(uint32_t x) { return x + (vpair){0}; }
UM_INLINE vpair vpair_fma(vpair a, vpair b, vpair c)
{
#if defined(__AVX2__)
    return c + (vpair)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return c + (vpair)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    for (int i = 0; i < REAL_LANES; i++) {
        int32_t low = (int16_t)a[i] * (int16_t)b[i];
        int32_t high = (int16_t)(a[i] >> 16) * (int16_t)(b[i] >> 16);
        c[i] += (uint32_t)low + (uint32_t)high;
    }
    return c;
#endif
}

/* Integer sums lose nothing. */
UM_INLINE void sum_add_int(uint32_t *hi, uint32_t *lo, const uint32_t *x, int64_t n)
{
    (void)lo;
    for (int64_t i = 0; i < n; i++) hi[i] += x[i];
}
UM_INLINE void sum_close_int(uint32_t *hi, const uint32_t *lo, int64_t n)
{
    (void)hi, (void)lo, (void)n;
}

/* ---- operands ------------------------------------------------------------------------------- */

static void load_bytes(int16_t *restrict dst, const matrix *x, int64_t first, int64_t stride,
                       int64_t n)
{
    const int8_t *restrict i8 = (const int8_t *)x->data + first;
    const uint8_t *restrict u8 = (const uint8_t *)x->data + first;
    if (x->dtype == UM_I8 && stride == 1)
        for (int64_t i = 0; i < n; i++) dst[i] = i8[i];
    else if (x->dtype == UM_I8)
        for (int64_t i = 0; i < n; i++) dst[i] = i8[i * stride];
    else if (stride == 1)
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i];
    else
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i * stride];
}

static uint32_t pair_of(int16_t low, int16_t high)
{
    return (uint16_t)low | (uint32_t)(uint16_t)high << 16;
}

/* dst[p * width + i] = pair p of line i, as pack_body.h's pack; elem_stride is a pair's. */
static void pack_operand_int(const product *p, const matrix *x, int64_t k, uint32_t *dst,
                             int64_t width, int64_t first, int64_t line_stride, int64_t elem_stride,
                             int64_t lines, int64_t len, uint32_t *buffer)
{
    int16_t low[INT_PIECE], high[INT_PIECE] = {0};
    int64_t step = elem_stride / 2;
    int64_t whole = p->k_is_odd && k + len == p->k ? len - 1 : len; /* pairs */
    (void)buffer;
    if (lines < width) memset(dst, 0, (size_t)(width * len) * sizeof *dst);
    if (line_stride == 1 && step != 1) {
        for (int64_t q = 0; q < len; q++) {
            load_bytes(low, x, first + q * elem_stride, 1, lines);
            if (q < whole)
                load_bytes(high, x, first + q * elem_stride + step, 1, lines);
            else
                memset(high, 0, sizeof high);
            for (int64_t i = 0; i < lines; i++) dst[q * width + i] = pair_of(low[i], high[i]);
        }
        return;
    }
    for (int64_t i = 0; i < lines; i++)
        for (int64_t q = 0, n; q < len; q += n) {
            n = UM_MIN(len - q, INT_PIECE / 2);
            int64_t bytes = 2 * n - (q + n > whole), at = first + i * line_stride + 2 * q * step;
            low[2 * n - 1] = 0;
            load_bytes(low, x, at, step, bytes);
            for (int64_t j = 0; j < n; j++)
                dst[(q + j) * width + i] = pair_of(low[2 * j], low[2 * j + 1]);
        }
}

/* ---- results -------------------------------------------------------------------------------- */

static const uint32_t *line_of(const product_line *line, const matrix *x, int64_t batch_at,
                               int64_t *step)
{
    *step = product_line_step(line, x);
    return (const uint32_t *)x->data + product_line_at(line, x, batch_at);
}

static void finish_int(const product_line *line, const uint32_t *acc)
{
    const product *p = line->p;
    const product_at *at = line->at;
    uint32_t alpha = (uint32_t)(int64_t)p->alpha, beta = (uint32_t)(int64_t)p->beta;
    int64_t step = product_line_step(line, &p->out), c_step = 0, bias_step = 0, residual_step = 0;
    uint32_t *out = (uint32_t *)p->out.data + product_line_at(line, &p->out, at->out);
    const uint32_t *c = p->beta != 0 ? line_of(line, &p->c, at->c, &c_step) : NULL;
    const uint32_t *bias = p->bias.data ? line_of(line, &p->bias, at->bias, &bias_step) : NULL;
    const uint32_t *residual =
        p->residual.data ? line_of(line, &p->residual, at->residual, &residual_step) : NULL;
    for (int64_t i = 0; i < line->n; i++) {
        uint32_t x = alpha * acc[i];
        if (c) x += beta * c[i * c_step];
        if (bias) x += bias[i * bias_step];
        if (residual) x += residual[i * residual_step];
        out[i * step] = x;
    }
}

/* ---- matrix times vector -------------------------------------------------------------------- */

static size_t gemv_scratch_bytes_int(const product *p)
{
    int64_t k = 2 * p->k;
    return (size_t)(2 * k) * sizeof(int16_t); /* the vector and a row */
}

static uint32_t dot_int(const int16_t *restrict a, const int16_t *restrict x, int64_t n)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i += INT_EXACT_SUM) {
        int32_t part = 0;
        int64_t end = UM_MIN(n, i + INT_EXACT_SUM);
        for (int64_t j = i; j < end; j++) part += a[j] * x[j];
        sum += (uint32_t)part;
    }
    return sum;
}

static void axpy_int(uint32_t *restrict sum, const int16_t *restrict a, int16_t x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) sum[i] += (uint32_t)(a[i] * x);
}

/* Rows first .. end - 1 of one batch. Steps along k are two elements, see above. */
static void gemv_rows_int(const product *p, const product_at *at, int64_t first, int64_t end,
                          void *scratch)
{
    int64_t k = 2 * p->k - p->k_is_odd, step = p->a.col / 2;
    int16_t *x = scratch, *row = x + 2 * p->k;
    bool columns = p->a.row == 1 && step != 1;
    load_bytes(x, &p->b, at->b, p->b.row / 2, k);
    for (int64_t r = first; r < end; r += INT_ROWS) {
        int64_t n = UM_MIN(end - r, INT_ROWS), from = at->a + r * p->a.row;
        uint32_t sum[INT_ROWS] = {0};
        int16_t column[INT_ROWS];
        for (int64_t j = 0; columns && j < k; j++) {
            load_bytes(column, &p->a, from + j * step, 1, n);
            axpy_int(sum, column, x[j], n);
        }
        for (int64_t i = 0; !columns && i < n; i++) {
            load_bytes(row, &p->a, from + i * p->a.row, step, k);
            sum[i] = dot_int(row, x, k);
        }
        finish_int(&(product_line){p, at, r, 0, n, true}, sum);
    }
}
