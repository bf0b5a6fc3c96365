/* backend/cpu/kernel/conv_direct_body.h: convolution with one channel a group (depthwise), and its
 * gradients, for one REAL type (real.h): no matrix to multiply, so the lines that a tap finds are
 * weighted and added up as they are. Included by conv.c after conv_gemm_body.h. What a tap finds is
 * looked up once for DIRECT_CHANNELS channels. */
#ifndef DIRECT_CHANNELS
#define DIRECT_CHANNELS 16
#endif

typedef struct REAL_FN(direct) {
    const conv *c;
    const conv_side *from, *made;
    bool back;
    int64_t phases[CONV_AXES], phase_count, blocks, channels; /* blocks: of a phase, at most */
} REAL_FN(direct);

/* The filter's number for one channel of the made side at the tap that lies `at` from the first. */
UM_INLINE REAL REAL_FN(direct_weight)(const conv *c, int64_t channel, int64_t at)
{
    const conv_filter *f = &c->filter;
    REAL weight;
    um_load(REAL_CLASS, &weight, f->dtype, f->data,
            channel / c->m * f->group + channel % c->m * f->m + at, 1, 1);
    return weight;
}

/* Where tap `number` of the part lies in the filter. */
static int64_t REAL_FN(direct_tap)(const conv *c, const conv_reach *reach, int64_t number)
{
    int64_t tap[CONV_AXES], at = 0;
    split_tap(reach, number, tap);
    for (int32_t a = 0; a < CONV_AXES; a++)
        at += (reach[a].first_tap + tap[a] * reach[a].step_tap) * c->filter.axis[a];
    return at;
}

/* A span's elements: in place, or copied to line. */
UM_INLINE const REAL *REAL_FN(direct_span)(const conv_side *from, int64_t first, int64_t step,
                                           int64_t n, REAL *line)
{
    if (REAL_FN(line_is_direct)(from->dtype, step, n)) return (const REAL *)from->data + first;
    REAL_FN(conv_copy)(line, from, first, step, n);
    return line;
}

UM_INLINE void REAL_FN(direct_add)(REAL *sum, REAL weight, const REAL *x, int64_t n)
{
    int64_t i = 0;
    VREAL w = VREAL_FN(set)(weight);
    for (; i + REAL_LANES <= n; i += REAL_LANES)
        VREAL_FN(store)(sum + i, VREAL_FN(fma)(w, VREAL_FN(load)(x + i), VREAL_FN(load)(sum + i)));
    for (; i < n; i++) sum[i] = REAL_FN(fma1)(weight, x[i], sum[i]);
}

/* ---- made side from the other -----------------------------------------------------------------
 */

/* Task: a block of positions of one phase, by DIRECT_CHANNELS channels. */
static void REAL_FN(direct_task)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(direct) *g = ctx;
    const conv *c = g->c;
    int64_t phase = task / g->blocks % g->phase_count, first = task % g->blocks * CONV_COLUMNS;
    int64_t channel = task / g->blocks / g->phase_count * DIRECT_CHANNELS;
    int64_t channels = UM_MIN(g->channels - channel, DIRECT_CHANNELS), at[CONV_COLUMNS];
    REAL *sums = um_cpu_scratch(c->exec, lane), *line = sums + DIRECT_CHANNELS * CONV_COLUMNS;
    conv_span span[CONV_COLUMNS];
    conv_block b;
    for (int32_t a = CONV_INNER; a >= 0; phase /= g->phases[a], a--)
        b.reach[a] = g->back ? reach_backward(&c->axis[a], phase % g->phases[a])
                             : reach_forward(&c->axis[a]);
    int64_t positions = count_positions(b.reach), taps = count_taps(b.reach);
    if (first >= positions) return;
    find_runs(&b, first, UM_MIN(positions - first, CONV_COLUMNS));
    place_positions(&b, g->made, at);
    for (int64_t k = 0; k < channels; k++) {
        REAL bias = 0;
        if (c->bias)
            um_load(REAL_CLASS, &bias, c->bias->dtype, (const void *)(uintptr_t)c->bias->ptr,
                    (channel + k) * c->bias->stride[0], 1, 1);
        for (int64_t i = 0; i < b.count; i++) sums[k * CONV_COLUMNS + i] = bias;
    }
    int64_t step = b.reach[CONV_INNER].step * g->from->axis[CONV_INNER];
    for (int64_t t = 0; t < taps; t++) {
        int64_t tap = REAL_FN(direct_tap)(c, b.reach, t);
        find_spans(&b, g->from->axis, t, span);
        for (int64_t k = 0; k < channels; k++) {
            REAL weight = REAL_FN(direct_weight)(c, channel + k, tap);
            int64_t source = (channel + k) / c->m * g->from->group;
            for (int32_t r = 0; r < b.runs; r++) REAL_FN(direct_add)
            (sums + k * CONV_COLUMNS + span[r].column + span[r].lead, weight,
             REAL_FN(direct_span)(g->from, source + span[r].first, step, span[r].count, line),
             span[r].count);
        }
    }
    if (c->rider) {
        run_program(c, g->made, &b, channel, channels, sums, REAL_DTYPE, CONV_COLUMNS, 1);
        return;
    }
    step = b.reach[CONV_INNER].step_made * g->made->axis[CONV_INNER];
    for (int64_t k = 0; k < channels; k++) {
        int64_t target =
            (channel + k) / c->m * g->made->group + (channel + k) % c->m * g->made->channel;
        for (int32_t r = 0; r < b.runs; r++) REAL_FN(conv_store)
        (g->made, target + at[b.run[r].column], step, sums + k * CONV_COLUMNS + b.run[r].column,
         b.run[r].count);
    }
}

static um_status REAL_FN(direct_run)(const conv *c, bool to_wide)
{
    REAL_FN(direct) g = {.c = c, .back = to_wide, .phase_count = 1};
    g.from = to_wide ? &c->narrow : &c->wide;
    g.made = to_wide ? &c->wide : &c->narrow;
    g.channels = c->groups * c->m;
    int64_t positions = 1;
    for (int32_t a = 0; a < CONV_AXES; a++) {
        const conv_axis *x = &c->axis[a];
        g.phases[a] = to_wide ? phases_of(x) : 1;
        g.phase_count *= g.phases[a];
        positions *= to_wide ? um_ceil_div(x->wide, x->stride) : x->narrow;
    }
    g.blocks = um_ceil_div(positions, CONV_COLUMNS);
    UM_TRY(um_cpu_scratch_reserve(c->exec, (DIRECT_CHANNELS + 1) * CONV_COLUMNS * sizeof(REAL)));
    each_task(c, um_ceil_div(g.channels, DIRECT_CHANNELS) * g.phase_count * g.blocks,
              REAL_FN(direct_task), &g);
    return UM_OK;
}

/* ---- the filter -------------------------------------------------------------------------------
 */

UM_INLINE REAL REAL_FN(direct_dot)(const REAL *x, const REAL *y, int64_t n)
{
    int64_t i = 0;
    VREAL sum = {0};
    for (; i + REAL_LANES <= n; i += REAL_LANES)
        sum = VREAL_FN(fma)(VREAL_FN(load)(x + i), VREAL_FN(load)(y + i), sum);
    REAL rest = VREAL_FN(sum)(sum);
    for (; i < n; i++) rest = REAL_FN(fma1)(x[i], y[i], rest);
    return rest;
}

/* Task: all taps of DIRECT_CHANNELS filters, each a sum over all positions, kept in two pieces. */
static void REAL_FN(direct_filter_task)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(direct) *g = ctx;
    const conv *c = g->c;
    int64_t channel = task * DIRECT_CHANNELS, step = 0;
    int64_t channels = UM_MIN(g->channels - channel, DIRECT_CHANNELS), at[CONV_COLUMNS];
    REAL *hi = (REAL *)(void *)um_cpu_scratch(c->exec, lane), *lo = hi + channels * c->taps;
    REAL *lines = lo + channels * c->taps, *line = lines + DIRECT_CHANNELS * CONV_COLUMNS;
    conv_span span[CONV_COLUMNS];
    conv_block b;
    for (int32_t a = 0; a < CONV_AXES; a++) b.reach[a] = reach_forward(&c->axis[a]);
    step = b.reach[CONV_INNER].step * c->wide.axis[CONV_INNER];
    memset(hi, 0, (size_t)(2 * channels * c->taps) * sizeof *hi);
    for (int64_t first = 0; first < c->positions; first += CONV_COLUMNS) {
        find_runs(&b, first, UM_MIN(c->positions - first, CONV_COLUMNS));
        place_positions(&b, &c->narrow, at);
        for (int64_t k = 0; k < channels; k++)
            for (int32_t r = 0; r < b.runs; r++) REAL_FN(conv_copy)
        (lines + k * CONV_COLUMNS + b.run[r].column, &c->narrow,
         (channel + k) / c->m * c->narrow.group + (channel + k) % c->m * c->narrow.channel +
             at[b.run[r].column],
         c->narrow.axis[CONV_INNER], b.run[r].count);
        for (int64_t t = 0; t < c->taps; t++) {
            find_spans(&b, c->wide.axis, t, span);
            for (int64_t k = 0; k < channels; k++)
                for (int32_t r = 0; r < b.runs; r++) {
                    int64_t n = span[r].count, source = (channel + k) / c->m * c->wide.group;
                    const REAL *x =
                        REAL_FN(direct_span)(&c->wide, source + span[r].first, step, n, line);
                    REAL dot = REAL_FN(direct_dot)(
                        x, lines + k * CONV_COLUMNS + span[r].column + span[r].lead, n);
                    REAL_FN(sum_add)(hi + k * c->taps + t, lo + k * c->taps + t, &dot, 1);
                }
        }
    }
    REAL_FN(sum_close)(hi, lo, channels * c->taps);
    for (int64_t i = 0; i < channels * c->taps; i++) {
        int64_t k = channel + i / c->taps, tap = REAL_FN(direct_tap)(c, b.reach, i % c->taps);
        um_store(c->filter.dtype, c->filter.data,
                 k / c->m * c->filter.group + k % c->m * c->filter.m + tap, 1, REAL_CLASS, hi + i,
                 1);
    }
}

static um_status REAL_FN(direct_filter_run)(const conv *c)
{
    REAL_FN(direct) g = {.c = c, .channels = c->groups * c->m};
    int64_t numbers;
    if (!um_mul_i64(c->taps, 2 * DIRECT_CHANNELS, &numbers) || numbers > INT64_MAX / 16)
        return UM_FAIL(UM_OUT_OF_MEMORY, "conv: the filter does not fit in memory");
    numbers += (DIRECT_CHANNELS + 1) * CONV_COLUMNS;
    UM_TRY(um_cpu_scratch_reserve(c->exec, (size_t)numbers * sizeof(REAL)));
    each_task(c, um_ceil_div(g.channels, DIRECT_CHANNELS), REAL_FN(direct_filter_task), &g);
    return UM_OK;
}
