/* backend/cpu/kernel/normalize_body.h: the lines of normalize.c for one REAL type (real.h), f64
 * before f32, whose moments are in f64, too. */

#undef STATS
#undef CURSOR
#undef ROWS_OF
#define STATS   REAL_FN(stats)
#define CURSOR  REAL_FN(cursor)
#define ROWS_OF REAL_FN(rows)

/* x * scale is (hi + lo) + normal / inverse; scale, a power of two, is 1 but for deviations that
 * REAL's squares or inverses do not hold. lo is what hi lacks of the mean. */
typedef struct STATS {
    REAL scale, hi, lo, inverse;
    double var; /* of x * scale */
} STATS;

/* ---- chunks of a line
 * ---------------------------------------------------------------------------- */

typedef struct CURSOR {
    const normalize_job *job;
    const um_walk_at *line;
    um_walk_at at;
    int64_t channel, done; /* elements of the channel */
    int64_t n;             /* of the chunk */
    REAL buffer[OUT + 1][CHUNK];
} CURSOR;

UM_INLINE void REAL_FN(begin_channel)(CURSOR *c, int64_t channel)
{
    c->channel = channel;
    c->done = c->n = 0;
    UM_ISA_FN(um_walk_seek)(&c->job->inner, 0, &c->at);
}

/* The next chunk of the channel: false past the last. */
UM_INLINE bool REAL_FN(next_chunk)(CURSOR *c)
{
    const um_walk *inner = &c->job->inner;
    if (c->n > 0) um_walk_advance(inner, &c->at, c->n);
    c->done += c->n;
    if (c->done == inner->total) return false;
    c->n = UM_MIN(um_walk_inner(inner) - c->at.index[inner->rank - 1], CHUNK);
    return true;
}

UM_INLINE int64_t REAL_FN(chunk_first)(const CURSOR *c, int32_t view)
{
    return c->line->element[view] + c->channel * c->job->channel_stride[view] + c->at.element[view];
}

UM_INLINE void *REAL_FN(view_data)(const normalize_job *job, int32_t view)
{
    return (void *)(uintptr_t)job->view[view]->ptr;
}

UM_INLINE const REAL *REAL_FN(load_chunk)(CURSOR *c, int32_t view)
{
    return REAL_FN(line_load)(c->job->dtype, REAL_FN(view_data)(c->job, view),
                              REAL_FN(chunk_first)(c, view), um_walk_step(&c->job->inner, view),
                              c->n, c->buffer[view]);
}

UM_INLINE REAL *REAL_FN(open_chunk)(CURSOR *c)
{
    return REAL_FN(line_open)(c->job->dtype, REAL_FN(view_data)(c->job, OUT),
                              REAL_FN(chunk_first)(c, OUT), um_walk_step(&c->job->inner, OUT), c->n,
                              c->buffer[OUT]);
}

UM_INLINE void REAL_FN(store_chunk)(CURSOR *c, const REAL *y)
{
    REAL_FN(line_store)
    (c->job->dtype, REAL_FN(view_data)(c->job, OUT), REAL_FN(chunk_first)(c, OUT),
     um_walk_step(&c->job->inner, OUT), c->n, y);
}

/* ---- moments
 * -------------------------------------------------------------------------------------- */

UM_INLINE vf64 REAL_FN(widen)(const REAL *p)
{
#if REAL_BITS == 32
    typedef float half __attribute__((vector_size(UM_VECTOR_BYTES / 2), aligned(4), may_alias));
    return __builtin_convertvector(*(const half *)p, vf64);
#else
    return vf64_load(p);
#endif
}

/* The sums of d and d^2, d = x * scale - shift. */
UM_INLINE void REAL_FN(block_moments)(const REAL *x, int64_t n, double shift, double scale,
                                      double *out)
{
    enum { L = VF64_LANES, U = 4 };
    vf64 sum[U] = {{0}}, square[U] = {{0}}, vector_shift = vf64_set(shift);
    int64_t i = 0;
    for (; i + U * L <= n; i += U * L)
        for (int32_t u = 0; u < U; u++) {
            vf64 value = REAL_FN(widen)(x + i + u * L);
            if (scale != 1) value *= scale;
            value -= vector_shift;
            sum[u] += value;
            square[u] = vf64_fma(value, value, square[u]);
        }
    out[0] = vf64_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    out[1] = vf64_sum((square[0] + square[1]) + (square[2] + square[3]));
    double rest[2] = {0};
    for (; i < n; i++) {
        double value = (double)x[i] * scale - shift;
        rest[0] += value;
        rest[1] += value * value;
    }
    out[0] += rest[0];
    out[1] += rest[1];
}

/* ... of a line. */
static void REAL_FN(line_moments)(CURSOR *c, double shift, double scale, double *out)
{
    double lost[2] = {0}, part[2];
    out[0] = out[1] = 0;
    for (int64_t k = 0; k < c->job->channels; k++) {
        REAL_FN(begin_channel)(c, k);
        while (REAL_FN(next_chunk)(c)) {
            const REAL *x = REAL_FN(load_chunk)(c, X);
            if (scale == 1)
                REAL_FN(block_moments)(x, c->n, shift, 1, part);
            else
                REAL_FN(block_moments)(x, c->n, shift, scale, part);
            sum_add_f64(out, lost, part, 2);
        }
    }
    sum_close_f64(out, lost, 2);
}

/* Near the mean, so that little is lost when what is left of it is taken from the squares. */
static double REAL_FN(line_shift)(CURSOR *c, double scale)
{
    double sums[2];
    if (!c->job->centred) return 0;
#if REAL_BITS == 32
    (void)sums;
    REAL_FN(begin_channel)(c, 0); /* in f64 any element of the line is near enough */
    (void)REAL_FN(next_chunk)(c);
    return (double)REAL_FN(load_chunk)(c, X)[0] * scale;
#else
    REAL_FN(line_moments)(c, 0, scale, sums);
    return sums[0] / (double)c->job->size;
#endif
}

#if REAL_BITS == 64
/* What brings the largest element near 1. */
static double line_scale(cursor_f64 *c)
{
    double max = 0;
    for (int64_t k = 0; k < c->job->channels; k++) {
        begin_channel_f64(c, k);
        while (next_chunk_f64(c)) {
            const double *x = load_chunk_f64(c, X);
            for (int64_t i = 0; i < c->n; i++) max = fabs(x[i]) > max ? fabs(x[i]) : max;
        }
    }
    if (max == 0 || isinf(max)) return 1;
    return ldexp(1, -UM_MAX(-1000, UM_MIN(ilogb(max), 1000)));
}
#endif

/* shift + rest is the mean, and root the root of variance and eps, of x * scale. */
static STATS REAL_FN(make_stats)(double scale, double shift, double rest, double root)
{
#if REAL_BITS == 32
    bool is_far = (root > 1e30 || root < 1e-30) && root > 0 && isfinite(root);
    if (is_far) scale = ldexp(1, -UM_MAX(-120, UM_MIN(ilogb(root), 120)));
    shift *= scale, rest *= scale, root *= scale; /* scale was 1 */
#endif
    STATS s = {.scale = (REAL)scale, .hi = (REAL)(shift + rest)};
    s.lo = (REAL)((shift - (double)s.hi) + rest);
    s.inverse = (REAL)(1 / root);
    return s;
}

static STATS REAL_FN(line_stats)(CURSOR *c)
{
    double n = (double)c->job->size, eps = c->job->op->attrs.norm.eps, scale = 1, sums[2];
    if (n == 0) return REAL_FN(make_stats)(1, (double)NAN, 0, (double)NAN);
    double shift = REAL_FN(line_shift)(c, 1);
    REAL_FN(line_moments)(c, shift, 1, sums);
#if REAL_BITS == 64
    bool is_far = !isfinite(sums[1]) || (sums[1] < 1e-280 && eps < 1e-280);
    if (is_far) scale = line_scale(c);
    if (scale != 1) {
        shift = line_shift_f64(c, scale);
        line_moments_f64(c, shift, scale, sums);
    }
#endif
    double rest = c->job->centred ? sums[0] / n : 0;
    double var = sums[1] / n - rest * rest;
    if (var < 0) var = 0;
    double root = scale == 1 ? sqrt(var + eps) : hypot(sqrt(var), sqrt(eps) * scale);
    STATS s = REAL_FN(make_stats)(scale, shift, rest, root);
    s.var = var / scale / scale;
    return s;
}

/* The statistics that the op is given, or a line's own. */
static STATS REAL_FN(find_stats)(CURSOR *c)
{
    const normalize_job *job = c->job;
    if (job->softmax) return (STATS){.scale = 1, .inverse = 1};
    if (!job->given) return REAL_FN(line_stats)(c);
    const REAL *mean = REAL_FN(view_data)(job, OLD_MEAN), *var = REAL_FN(view_data)(job, OLD_VAR);
    return REAL_FN(make_stats)(
        1, (double)mean[c->line->element[OLD_MEAN]], 0,
        sqrt((double)var[c->line->element[OLD_VAR]] + job->op->attrs.norm.eps));
}

/* ---- forward
 * -------------------------------------------------------------------------------------- */

/* y = normal * w + b: w and b differ by element, or are the same for all, or not there (NULL is a
 * constant at the call: a loop that asks would load what is not there, masked, which is slow). */
UM_INLINE void REAL_FN(write_normal)(const REAL *x, REAL *y, int64_t n, const STATS *s,
                                     const REAL *w, const REAL *b)
{
    REAL scale = s->scale, hi = s->hi, lo = s->lo, inverse = s->inverse;
    for (int64_t i = 0; i < n; i++) {
        REAL value = ((x[i] * scale - hi) - lo) * inverse;
        if (w) value *= w[i];
        y[i] = b ? value + b[i] : value;
    }
}

UM_INLINE void REAL_FN(write_channel)(const REAL *x, REAL *y, int64_t n, const STATS *s,
                                      const REAL *w, const REAL *b)
{
    REAL scale = s->scale, hi = s->hi, lo = s->lo, inverse = s->inverse;
    REAL w1 = w ? *w : 1, b1 = b ? *b : 0;
    if (b)
        for (int64_t i = 0; i < n; i++) y[i] = (((x[i] * scale - hi) - lo) * inverse) * w1 + b1;
    else
        for (int64_t i = 0; i < n; i++) y[i] = (((x[i] * scale - hi) - lo) * inverse) * w1;
}

/* The first parameter of a channel; `each`: of the chunk. */
UM_INLINE int64_t REAL_FN(weight_at)(const CURSOR *c, int64_t line)
{
    return c->job->each ? c->done : line % c->job->groups * c->job->channels + c->channel;
}

static void REAL_FN(write_statistics)(const CURSOR *c, const STATS *s)
{
    const normalize_job *job = c->job;
    const int64_t *at = c->line->element;
    double mean = ((double)s->hi + (double)s->lo) / (double)s->scale;
    double keep = job->op->attrs.norm.momentum;
    if (job->view[MEAN]) ((REAL *)REAL_FN(view_data)(job, MEAN))[at[MEAN]] = (REAL)mean;
    if (job->view[INVERSE])
        ((REAL *)REAL_FN(view_data)(job, INVERSE))[at[INVERSE]] = s->inverse * s->scale;
    if (!job->view[NEW_MEAN]) return;
    double old_mean = (double)((REAL *)REAL_FN(view_data)(job, OLD_MEAN))[at[OLD_MEAN]];
    double old_var = (double)((REAL *)REAL_FN(view_data)(job, OLD_VAR))[at[OLD_VAR]];
    ((REAL *)REAL_FN(view_data)(job, NEW_MEAN))[at[NEW_MEAN]] =
        (REAL)(keep * old_mean + (1 - keep) * mean);
    ((REAL *)REAL_FN(view_data)(job, NEW_VAR))[at[NEW_VAR]] =
        (REAL)(keep * old_var + (1 - keep) * s->var);
}

static void REAL_FN(line_forward)(CURSOR *c, int64_t line)
{
    const normalize_job *job = c->job;
    STATS s = REAL_FN(find_stats)(c);
    for (int64_t k = 0; k < job->channels; k++) {
        REAL_FN(begin_channel)(c, k);
        while (REAL_FN(next_chunk)(c)) {
            const REAL *x = REAL_FN(load_chunk)(c, X), *w = job->w, *b = job->b;
            REAL *y = REAL_FN(open_chunk)(c);
            int64_t at = REAL_FN(weight_at)(c, line);
            if (job->each && w && b)
                REAL_FN(write_normal)(x, y, c->n, &s, w + at, b + at);
            else if (job->each && w)
                REAL_FN(write_normal)(x, y, c->n, &s, w + at, NULL);
            else if (job->each)
                REAL_FN(write_normal)(x, y, c->n, &s, NULL, b ? b + at : NULL);
            else
                REAL_FN(write_channel)(x, y, c->n, &s, w ? w + at : NULL, b ? b + at : NULL);
            REAL_FN(store_chunk)(c, y);
        }
    }
    REAL_FN(write_statistics)(c, &s);
}

/* ---- backward
 * ------------------------------------------------------------------------------------- */

/* The sums of g and g * normal, g = dy * w; w may be NULL. */
UM_INLINE void REAL_FN(block_sums)(const REAL *x, const REAL *dy, const REAL *w, int64_t n,
                                   const STATS *s, REAL *out)
{
    enum { L = REAL_LANES, U = 2 };
    VREAL sum[U] = {{0}}, product[U] = {{0}};
    VREAL hi = VREAL_FN(set)(s->hi), lo = VREAL_FN(set)(s->lo);
    int64_t i = 0;
    for (; i + U * L <= n; i += U * L)
        for (int32_t u = 0; u < U; u++) {
            int64_t at = i + u * L;
            VREAL normal = (VREAL_FN(load)(x + at) * s->scale - hi - lo) * s->inverse;
            VREAL g = VREAL_FN(load)(dy + at);
            if (w) g *= VREAL_FN(load)(w + at);
            sum[u] += g;
            product[u] = VREAL_FN(fma)(g, normal, product[u]);
        }
    for (; i < n; i += L) {
        int64_t part = UM_MIN(n - i, L);
        VREAL value = REAL_FN(load_rest)(x + i, part, x[i]);
        VREAL normal = (value * s->scale - hi - lo) * s->inverse;
        VREAL g = REAL_FN(load_rest)(dy + i, part, 0);
        if (w) g *= REAL_FN(load_rest)(w + i, part, w[i]);
        sum[0] += g;
        product[0] = VREAL_FN(fma)(g, normal, product[0]);
    }
    out[0] = VREAL_FN(sum)(sum[0] + sum[1]);
    out[1] = VREAL_FN(sum)(product[0] + product[1]);
}

/* Row `row` of the partial gradients: dw, then db. */
UM_INLINE REAL *REAL_FN(partial_row)(const normalize_job *job, int64_t row)
{
    return (REAL *)job->partial + row * 2 * job->weight_count;
}

/* The line's sums; a channel's own are its gradients db and dw. */
static void REAL_FN(line_sums)(CURSOR *c, int64_t line, const STATS *s, REAL *out)
{
    const normalize_job *job = c->job;
    const REAL *w = job->w;
    REAL lost[2] = {0}, part[2];
    out[0] = out[1] = 0;
    for (int64_t k = 0; k < job->channels; k++) {
        REAL sums[2] = {0}, sums_lost[2] = {0};
        REAL_FN(begin_channel)(c, k);
        while (REAL_FN(next_chunk)(c)) {
            const REAL *x = REAL_FN(load_chunk)(c, X), *dy = REAL_FN(load_chunk)(c, DY);
            REAL_FN(block_sums)(x, dy, job->each && w ? w + c->done : NULL, c->n, s, part);
            REAL_FN(sum_add)(sums, sums_lost, part, 2);
        }
        REAL_FN(sum_close)(sums, sums_lost, 2);
        int64_t at = REAL_FN(weight_at)(c, line);
        if (!job->each && job->blocks > 0) {
            REAL *row = REAL_FN(partial_row)(job, line / job->groups);
            row[at] = sums[1];
            row[job->weight_count + at] = sums[0];
        }
        if (!job->each && w) sums[0] *= w[at], sums[1] *= w[at];
        REAL_FN(sum_add)(out, lost, sums, 2);
    }
    REAL_FN(sum_close)(out, lost, 2);
}

/* dx = (g - mean_g - normal * mean_product) * inverse, without means where mean is NULL. w1: where
 * w is NULL. */
UM_INLINE void REAL_FN(write_gradient)(const REAL *x, const REAL *dy, REAL *dx, int64_t n,
                                       const STATS *s, const REAL *w, REAL w1, const REAL *mean)
{
    REAL scale = s->scale, hi = s->hi, lo = s->lo, inverse = s->inverse;
    for (int64_t i = 0; i < n && !mean; i++) dx[i] = dy[i] * (w ? w[i] : w1) * inverse * scale;
    if (!mean) return;
    REAL mean_g = mean[0], mean_product = mean[1];
    for (int64_t i = 0; i < n; i++) {
        REAL normal = (x[i] * scale - hi - lo) * inverse;
        REAL g = dy[i] * (w ? w[i] : w1);
        dx[i] = (g - mean_g - normal * mean_product) * inverse * scale;
    }
}

UM_INLINE void REAL_FN(add_gradients)(const REAL *x, const REAL *dy, int64_t n, const STATS *s,
                                      REAL *dw, REAL *db)
{
    REAL scale = s->scale, hi = s->hi, lo = s->lo, inverse = s->inverse;
    for (int64_t i = 0; i < n; i++) {
        dw[i] += dy[i] * ((x[i] * scale - hi - lo) * inverse);
        db[i] += dy[i];
    }
}

/* dx = dy - exp(y) * sum(dy), y being the log_softmax. */
UM_INLINE void REAL_FN(write_log_softmax)(const REAL *y, const REAL *dy, REAL *dx, int64_t n,
                                          REAL sum)
{
    enum { L = REAL_LANES };
    for (int64_t i = 0; i < n; i += L) {
        int64_t part = UM_MIN(n - i, L);
        VREAL e = VREAL_FN(exp)(REAL_FN(load_rest)(y + i, part, 0));
        REAL_FN(store_part)(dx + i, REAL_FN(load_rest)(dy + i, part, 0) - e * sum, part);
    }
}

UM_INLINE void REAL_FN(write_softmax)(const REAL *y, const REAL *dy, REAL *dx, int64_t n, REAL sum)
{
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

static void REAL_FN(line_softmax)(CURSOR *c, const REAL *sums)
{
    bool is_log = c->job->op->id == UM_OP_LOG_SOFTMAX_BACKWARD;
    REAL_FN(begin_channel)(c, 0);
    while (REAL_FN(next_chunk)(c)) {
        const REAL *y = REAL_FN(load_chunk)(c, X), *dy = REAL_FN(load_chunk)(c, DY);
        REAL *dx = REAL_FN(open_chunk)(c);
        if (is_log)
            REAL_FN(write_log_softmax)(y, dy, dx, c->n, sums[0]);
        else
            REAL_FN(write_softmax)(y, dy, dx, c->n, sums[1]);
        REAL_FN(store_chunk)(c, dx);
    }
}

/* acc: a layer's dw and db so far, or NULL. */
static void REAL_FN(line_backward)(CURSOR *c, int64_t line, REAL *acc)
{
    const normalize_job *job = c->job;
    STATS s = REAL_FN(find_stats)(c);
    REAL mean[2] = {0};
    if (!job->given || job->blocks > 0) REAL_FN(line_sums)(c, line, &s, mean);
    if (job->softmax) {
        REAL_FN(line_softmax)(c, mean);
        return;
    }
    mean[0] = job->centred ? mean[0] / (REAL)job->size : 0;
    mean[1] /= (REAL)job->size;
    for (int64_t k = 0; k < job->channels; k++) {
        REAL_FN(begin_channel)(c, k);
        while (REAL_FN(next_chunk)(c)) {
            const REAL *x = REAL_FN(load_chunk)(c, X), *dy = REAL_FN(load_chunk)(c, DY);
            const REAL *w = job->w ? (const REAL *)job->w + REAL_FN(weight_at)(c, line) : NULL;
            REAL *dx = REAL_FN(open_chunk)(c);
            REAL_FN(write_gradient)
            (x, dy, dx, c->n, &s, job->each ? w : NULL, w ? *w : 1, job->given ? NULL : mean);
            if (acc)
                REAL_FN(add_gradients)(x, dy, c->n, &s, acc + c->done, acc + job->size + c->done);
            REAL_FN(store_chunk)(c, dx);
        }
    }
}

/* ---- lines, gradients
 * ------------------------------------------------------------------------------ */

/* Lines first .. end - 1. A layer's gradients are added up plainly for FLUSH lines, then exactly.
 */
static void REAL_FN(normalize_lines)(const normalize_job *job, int64_t task, int64_t first,
                                     int64_t end, int32_t worker)
{
    um_walk_at line;
    CURSOR c;
    c.job = job;
    c.line = &line;
    int64_t n = 2 * job->weight_count;
    REAL *acc = NULL, *row = NULL;
    if (job->own_bytes > 0) {
        int64_t owner = job->blocks <= job->exec->lanes ? task : worker;
        acc = (REAL *)(void *)(job->own + (size_t)owner * job->own_bytes);
        row = REAL_FN(partial_row)(job, task);
        memset(acc, 0, 2 * (size_t)n * sizeof(REAL));
        memset(row, 0, (size_t)n * sizeof(REAL));
    }
    UM_ISA_FN(um_walk_seek)(&job->lines, first, &line);
    for (int64_t i = first; i < end; i++) {
        if (job->backward)
            REAL_FN(line_backward)(&c, i, acc);
        else
            REAL_FN(line_forward)(&c, i);
        if (acc && ((i - first) % FLUSH == FLUSH - 1 || i == end - 1)) {
            REAL_FN(sum_add)(row, acc + n, acc, n);
            memset(acc, 0, (size_t)n * sizeof(REAL));
        }
        um_walk_advance(&job->lines, &line, 1);
    }
    if (acc) REAL_FN(sum_close)(row, acc + n, n);
}

/* Elements first .. first + n - 1 of dw (which = 0) or db, of all blocks. */
static void REAL_FN(sum_blocks)(const normalize_job *job, int32_t which, int64_t first, int64_t n)
{
    REAL sum[SUM_WIDTH] = {0}, lost[SUM_WIDTH] = {0};
    const um_view *out = job->gradient[which];
    if (!out) return;
    for (int64_t block = 0; block < job->blocks; block++) REAL_FN(sum_add)
    (sum, lost, REAL_FN(partial_row)(job, block) + which * job->weight_count + first, n);
    REAL_FN(sum_close)(sum, lost, n);
    um_walk walk;
    um_walk_at at;
    walk_in_order(&walk, out);
    UM_ISA_FN(um_walk_seek)(&walk, first, &at);
    for (int64_t done = 0, run; done < n; done += run) {
        run = UM_MIN(n - done, um_walk_inner(&walk) - at.index[walk.rank - 1]);
        um_store(out->dtype, (void *)(uintptr_t)out->ptr, at.element[0], um_walk_step(&walk, 0),
                 REAL_CLASS, sum + done, run);
        um_walk_advance(&walk, &at, run);
    }
}

/* A parameter as packed REALs: itself, or a copy in buffer; NULL stays NULL. */
static const REAL *REAL_FN(load_parameter)(const um_view *view, void *buffer)
{
    if (!view) return NULL;
    REAL *copy = buffer;
    const void *data = (const void *)(uintptr_t)view->ptr;
    um_walk walk;
    um_walk_at at;
    walk_in_order(&walk, view);
    if (walk.rank == 1 && REAL_FN(line_is_direct)(view->dtype, walk.stride[0][0], walk.total))
        return data;
    UM_ISA_FN(um_walk_seek)(&walk, 0, &at);
    for (int64_t done = 0, n = um_walk_inner(&walk); done < walk.total; done += n) {
        um_load(REAL_CLASS, copy + done, view->dtype, data, at.element[0], um_walk_step(&walk, 0),
                n);
        um_walk_advance(&walk, &at, n);
    }
    return copy;
}
