/* backend/cpu/kernel/norm_body.h: one line of softmax, log_softmax and rms_norm for one REAL type
 * (real.h). Included by norm.c. y may be x. Sums run in blocks of NORM_BLOCK, added up exactly. */
#ifndef NORM_BLOCK
#define NORM_BLOCK 2048
#endif

static REAL REAL_FN(line_exp)(const REAL *x, REAL *y, int64_t n, REAL max)
{
    REAL sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i += NORM_BLOCK) {
        REAL part = REAL_FN(block_exp)(x + i, y ? y + i : NULL, UM_MIN(n - i, NORM_BLOCK), max);
        REAL_FN(sum_add)(&sum, &lost, &part, 1);
    }
    REAL_FN(sum_close)(&sum, &lost, 1);
    return sum;
}

/* A NaN anywhere makes the sum NaN, and so the line. A line of -inf: -inf - -inf. */
static void REAL_FN(line_softmax)(const REAL *x, REAL *y, int64_t n)
{
    REAL sum = REAL_FN(line_exp)(x, y, n, REAL_FN(line_max)(x, n));
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

static void REAL_FN(line_log_softmax)(const REAL *x, REAL *y, int64_t n)
{
    REAL max = REAL_FN(line_max)(x, n);
    REAL log_sum = (REAL)log((double)REAL_FN(line_exp)(x, NULL, n, max));
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - max) - log_sum;
}

/* ---- rms_norm ------------------------------------------------------------------------------- */

/* The sum of (x / divisor)^2. */
UM_INLINE REAL REAL_FN(block_squares)(const REAL *x, int64_t n, REAL divisor)
{
    enum { L = REAL_LANES };
    VREAL a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
        VREAL p = VREAL_FN(load)(x + i), q = VREAL_FN(load)(x + i + L);
        VREAL r = VREAL_FN(load)(x + i + 2 * L), s = VREAL_FN(load)(x + i + 3 * L);
        if (divisor != 1) p /= divisor, q /= divisor, r /= divisor, s /= divisor;
        a = VREAL_FN(fma)(p, p, a), b = VREAL_FN(fma)(q, q, b);
        c = VREAL_FN(fma)(r, r, c), d = VREAL_FN(fma)(s, s, d);
    }
    for (; i < n; i += L) {
        VREAL p = i + L <= n ? VREAL_FN(load)(x + i) : REAL_FN(load_part)(x + i, n - i);
        if (divisor != 1) p /= divisor;
        a = VREAL_FN(fma)(p, p, a);
    }
    return VREAL_FN(sum)((a + b) + (c + d));
}

static REAL REAL_FN(line_squares)(const REAL *x, int64_t n, REAL divisor)
{
    REAL sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i += NORM_BLOCK) {
        int64_t count = UM_MIN(n - i, NORM_BLOCK);
        REAL part = divisor == 1 ? REAL_FN(block_squares)(x + i, count, 1)
                                 : REAL_FN(block_squares)(x + i, count, divisor);
        REAL_FN(sum_add)(&sum, &lost, &part, 1);
    }
    REAL_FN(sum_close)(&sum, &lost, 1);
    return sum;
}

static REAL REAL_FN(line_max_abs)(const REAL *x, int64_t n)
{
    REAL max = 0;
    for (int64_t i = 0; i < n; i++) {
        REAL a = x[i] < 0 ? -x[i] : x[i];
        max = a > max ? a : max;
    }
    return max;
}

/* y = x / divisor * factor * w; w may be NULL. */
UM_INLINE void REAL_FN(line_scale)(const REAL *x, REAL *y, const REAL *w, int64_t n, REAL divisor,
                                   REAL factor)
{
    for (int64_t i = 0; i < n; i++) {
        REAL value = divisor == 1 ? x[i] * factor : x[i] / divisor * factor;
        y[i] = w ? value * w[i] : value;
    }
}

/* Where squares overflow, or are too small to hold their digits, they are taken of x / d, d the
 * largest magnitude (or the root of eps): root(x) = d * sqrt(mean((x / d)^2) + eps / d^2). A large
 * root divides at once (its inverse may be no normal number); a small one in two steps (it may be
 * none itself). */
static void REAL_FN(line_rms_norm_far)(const REAL *x, REAL *y, const REAL *w, int64_t n, double eps,
                                       REAL max)
{
    REAL d = max > 1 ? max : UM_MAX(max, (REAL)sqrt(eps));
    double mean = (double)REAL_FN(line_squares)(x, n, d) / (double)n;
    double eps_root = sqrt(eps) / (double)d;
    double root = sqrt(mean + eps_root * eps_root);
    if (max > 1)
        REAL_FN(line_scale)(x, y, w, n, (REAL)((double)max * root), 1);
    else
        REAL_FN(line_scale)(x, y, w, n, d, (REAL)(1 / root));
}

static void REAL_FN(line_rms_norm)(const REAL *x, REAL *y, const REAL *w, int64_t n, double eps)
{
    const REAL small = REAL_BITS == 32 ? (REAL)1e-30 : (REAL)1e-290;
    REAL sum = REAL_FN(line_squares)(x, n, 1), max = 0;
    bool tiny = sum < small * (REAL)n && eps < (double)small;
    if (tiny || sum == (REAL)INFINITY) max = REAL_FN(line_max_abs)(x, n);
    if (max > 0 && max < (REAL)INFINITY) {
        REAL_FN(line_rms_norm_far)(x, y, w, n, eps, max);
        return;
    }
    REAL factor = (REAL)(1 / sqrt((double)sum / (double)n + eps));
    if (w)
        REAL_FN(line_scale)(x, y, w, n, 1, factor);
    else
        REAL_FN(line_scale)(x, y, NULL, n, 1, factor);
}

/* ---- lines first .. end - 1 of an op --------------------------------------------------------- */

static void REAL_FN(norm_lines)(const norm_job *job, int64_t first, int64_t end, void *scratch)
{
    const um_view *in = job->in, *out = job->out, *weight = job->weight;
    const void *x_data = (const void *)(uintptr_t)in->ptr;
    void *y_data = (void *)(uintptr_t)out->ptr;
    int64_t n = job->size;
    REAL *buffer = scratch;
    const REAL *w = NULL;
    if (weight)
        w = REAL_FN(line_load)(weight->dtype, (const void *)(uintptr_t)weight->ptr, 0,
                               weight->stride[0], n, buffer + n);
    um_walk_at at;
    UM_ISA_FN(um_walk_seek)(&job->lines, first, &at);
    for (int64_t i = first; i < end; i++, um_walk_advance(&job->lines, &at, 1)) {
        REAL *y = REAL_FN(line_open)(out->dtype, y_data, at.element[1], job->y_stride, n, buffer);
        const REAL *x = REAL_FN(line_load)(in->dtype, x_data, at.element[0], job->x_stride, n, y);
        if (job->id == UM_OP_SOFTMAX)
            REAL_FN(line_softmax)(x, y, n);
        else if (job->id == UM_OP_LOG_SOFTMAX)
            REAL_FN(line_log_softmax)(x, y, n);
        else
            REAL_FN(line_rms_norm)(x, y, w, n, job->eps);
        REAL_FN(line_store)(out->dtype, y_data, at.element[1], job->y_stride, n, y);
    }
}
