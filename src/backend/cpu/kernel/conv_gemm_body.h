/* backend/cpu/kernel/conv_gemm_body.h: convolution, and its gradient for the data, as products of
 * packed matrices, for one REAL type (real.h). Included by conv.c after tile_body.h.
 *
 * One matrix is the filter, [m, taps * q], packed once and shared. The other is what the taps find
 * at a block of positions, [taps * q, positions]; it is never there as a whole: a task gathers
 * CONV_K_BLOCK rows of it, sweeps them over its slivers of the filter and keeps the sums. Where the
 * channels of the made side are its innermost axis, both change places, so that rows of a tile are
 * runs in memory. An element's chain of operations depends on the shapes alone. */
#ifndef CONV_K_BLOCK
#define CONV_K_BLOCK 256
/* From here on blocks of k are added up exactly, as in gemm_body.h. */
#define CONV_EXACT_K (16 * CONV_K_BLOCK)
#define CONV_BLOCK   192 /* positions of a task, a multiple of CONV_STEP */
#define CONV_STEP    48
#define CONV_ROWS    288 /* of m, in a task */
#define CONV_TASKS   8   /* that a large product should have */
#define CONV_PACK    256
#endif
#define CONV_TILE (TILE_ROWS * TILE_COLS)

typedef struct REAL_FN(conv_gemm) {
    const conv *c;
    const conv_side *from, *made;
    bool back, turned;             /* turned: positions are a tile's rows */
    int64_t width, columns;        /* of a sliver of the filter, and of the gathered matrix */
    int64_t slivers, sliver_block; /* of the filter; of a task */
    int64_t phases[CONV_AXES], phase_count;
    int64_t block, blocks, m_blocks; /* positions of a task; how many a phase has; groups of rows */
    REAL *filter, *bias;             /* shared; bias: a tile for each sliver, or NULL */
    uint8_t *own;
    size_t own_bytes, kept_at, line_at, value_at; /* of a lane; offsets in REALs */
} REAL_FN(conv_gemm);

/* One task. */
typedef struct REAL_FN(conv_work) {
    const REAL_FN(conv_gemm) * g;
    int64_t group, k, sliver, slivers; /* k: taps * q; slivers of the filter */
    int64_t gathered_slivers;
    const REAL *filter; /* the first sliver */
    REAL *gathered, *kept, *line;
    const conv_side *made; /* with an epilogue `value`: what it is run on */
    conv_side value;
    int64_t first_made; /* where the task's first channel lies there */
    int64_t at[CONV_COLUMNS];
    int64_t even[CONV_COLUMNS / 4]; /* steps of `at` in each sliver; 0: uneven */
    conv_span span[CONV_COLUMNS];
    conv_block block;
} REAL_FN(conv_work);

/* ---- the filter ----------------------------------------------------------------------------- */

/* Taps that work together (tap_classes) are packed together. Where a class starts, counted in taps,
 * the number of its taps, and of `tap` within it. */
static void REAL_FN(conv_class)(const REAL_FN(conv_gemm) * g, const int64_t *tap, int64_t *start,
                                int64_t *count, int64_t *number)
{
    int64_t rest = g->c->taps;
    *start = *number = 0;
    *count = 1;
    for (int32_t a = 0; a < CONV_AXES; a++) {
        const conv_axis *x = &g->c->axis[a];
        int64_t classes = g->back ? tap_classes(x) : 1, which = tap[a] % classes;
        int64_t full = x->kernel / classes, more = x->kernel % classes;
        rest /= x->kernel;
        *start += *count * (which * full + UM_MIN(which, more)) * rest;
        int64_t size = full + (which < more);
        *count *= size;
        *number = *number * size + tap[a] / classes;
    }
}

/* Task: one sliver of one group, all taps. */
static void REAL_FN(conv_pack)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(conv_gemm) *g = ctx;
    const conv *c = g->c;
    const conv_filter *f = &c->filter;
    int64_t group = task / g->slivers, m = task % g->slivers * g->width;
    int64_t lines = UM_MIN(c->m - m, g->width), start, count, number, tap[CONV_AXES];
    REAL buffer[CONV_PACK];
    (void)lane;
    for (int64_t t = 0; t < c->taps; t++) {
        int64_t first = group * f->group + m * f->m, rest = t;
        for (int32_t a = CONV_INNER; a >= 0; a--) {
            tap[a] = rest % c->axis[a].kernel;
            rest /= c->axis[a].kernel;
            first += tap[a] * f->axis[a];
        }
        REAL_FN(conv_class)(g, tap, &start, &count, &number);
        REAL *to = g->filter + (group * c->taps + start) * g->slivers * g->width * c->q +
                   (task % g->slivers * count + number) * g->width * c->q;
        for (int64_t q = 0; q < c->q; q += CONV_PACK) REAL_FN(pack)
        (to + q * g->width, g->width, f->dtype, f->data, first + q * f->q, f->m, f->q, lines,
         UM_MIN(c->q - q, CONV_PACK), buffer);
    }
    if (!g->bias) return;
    REAL *tile = g->bias + task * CONV_TILE, bias[TILE_ROWS + TILE_COLS] = {0};
    um_load(REAL_CLASS, bias, c->bias->dtype, (const void *)(uintptr_t)c->bias->ptr,
            (group * c->m + m) * c->bias->stride[0], c->bias->stride[0], lines);
    for (int64_t i = 0; i < CONV_TILE; i++)
        tile[i] = bias[g->turned ? i % TILE_COLS : i / TILE_COLS];
}

/* ---- gathering ------------------------------------------------------------------------------ */

/* n elements, `step` apart. */
UM_INLINE void REAL_FN(conv_copy)(REAL *to, const conv_side *side, int64_t first, int64_t step,
                                  int64_t n)
{
    if (side->dtype != REAL_DTYPE) {
        um_load(REAL_CLASS, to, side->dtype, side->data, first, step, n);
        return;
    }
    const REAL *from = (const REAL *)side->data + first;
    int64_t i = 0;
    if (step == 1) {
        for (; i + REAL_LANES <= n; i += REAL_LANES)
            VREAL_FN(store)(to + i, VREAL_FN(load)(from + i));
        for (; i < n; i++) to[i] = from[i];
    } else if (step == 2) {
        for (; i < n; i++) to[i] = from[2 * i];
    } else {
        for (; i < n; i++) to[i] = from[i * step];
    }
}

/* What a tap finds in the channel whose first element is `first`. */
UM_INLINE void REAL_FN(conv_line)(const conv_side *side, int64_t first, int64_t step,
                                  const conv_span *span, int32_t spans, REAL *line)
{
    for (int32_t s = 0; s < spans; s++, span++) {
        REAL *to = line + span->column;
        for (int64_t i = 0; i < span->lead; i++) to[i] = 0;
        to += span->lead;
        REAL_FN(conv_copy)(to, side, first + span->first, step, span->count);
        to += span->count;
        for (int64_t i = 0; i < span->tail; i++) to[i] = 0;
    }
}

/* A line's slivers of `width`, each `step` from the last. */
UM_INLINE void REAL_FN(conv_deal)(REAL *to, const REAL *line, int64_t width, int64_t slivers,
                                  int64_t step)
{
    for (int64_t s = 0; s < slivers; s++)
        memcpy(to + s * step, line + s * width, (size_t)width * sizeof(REAL));
}

/* Rows [k, k + count) of the gathered matrix, packed. */
static void REAL_FN(conv_gather)(REAL_FN(conv_work) * w, int64_t k, int64_t count)
{
    const REAL_FN(conv_gemm) *g = w->g;
    const conv_side *from = g->from;
    int64_t q_count = g->c->q, end = k + count, step = count * g->columns;
    int64_t inner = w->block.reach[CONV_INNER].step * from->axis[CONV_INNER];
    REAL *to = w->gathered;
    while (k < end) {
        int64_t q = k % q_count, last = UM_MIN(q_count, q + end - k);
        find_spans(&w->block, from->axis, k / q_count, w->span);
        for (k += last - q; q < last; q++, to += g->columns) {
            REAL_FN(conv_line)
            (from, w->group * from->group + q * from->channel, inner, w->span, w->block.runs,
             w->line);
            if (g->turned)
                REAL_FN(conv_deal)(to, w->line, TILE_ROWS, w->gathered_slivers, step);
            else
                REAL_FN(conv_deal)(to, w->line, TILE_COLS, w->gathered_slivers, step);
        }
    }
}

/* ---- storing -------------------------------------------------------------------------------- */

static void REAL_FN(conv_store)(const conv_side *side, int64_t first, int64_t step,
                                const REAL *value, int64_t n)
{
    if (REAL_FN(line_is_direct)(side->dtype, step, n))
        memcpy((REAL *)side->data + first, value, (size_t)n * sizeof(REAL));
    else if (side->dtype == REAL_DTYPE)
        for (int64_t i = 0; i < n; i++) ((REAL *)side->data)[first + i * step] = value[i];
    else
        um_store(side->dtype, side->data, first, step, REAL_CLASS, value, n);
}

/* value[i] to place at[i] of a channel, in runs of even steps. */
static void REAL_FN(conv_scatter)(const conv_side *side, int64_t first, const int64_t *at,
                                  const REAL *value, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t run = UM_MIN(n - i, 2), step = run > 1 ? at[i + 1] - at[i] : 1;
        while (i + run < n && at[i + run] - at[i + run - 1] == step) run++;
        REAL_FN(conv_store)(side, first + at[i], step, value + i, run);
        i += run;
    }
}

/* Puts a finished tile in its place. f, p: slivers of the filter and of positions. */
static void REAL_FN(conv_put)(const REAL_FN(conv_work) * w, int64_t f, int64_t p, const REAL *tile)
{
    const REAL_FN(conv_gemm) *g = w->g;
    const conv_side *made = w->made;
    int64_t rows = UM_MIN(g->c->m - (w->sliver + f) * g->width, g->width);
    int64_t first = w->first_made + f * g->width * made->channel;
    const int64_t *at = w->at + p * g->columns;
    int64_t n = UM_MIN(w->block.count - p * g->columns, g->columns);
    if (g->turned)
        for (int64_t i = 0; i < n; i++) REAL_FN(conv_store)
    (made, first + at[i], made->channel, tile + i * TILE_COLS, rows);
    else for (int64_t i = 0; i < rows; i++)
        REAL_FN(conv_scatter)(made, first + i * made->channel, at, tile + i * TILE_COLS, n);
}

/* Where a whole tile can be made in place, and the distance of its rows; else NULL. */
static REAL *REAL_FN(conv_place)(const REAL_FN(conv_work) * w, int64_t f, int64_t p, int64_t *ld)
{
    const REAL_FN(conv_gemm) *g = w->g;
    const conv_side *made = w->made;
    int64_t m = (w->sliver + f) * g->width, step = w->even[p];
    *ld = g->turned ? step : made->channel;
    if (made->dtype != REAL_DTYPE || m + g->width > g->c->m) return NULL;
    if ((g->turned ? made->channel : step) != 1 || step == 0) return NULL;
    return (REAL *)made->data + w->first_made + f * g->width * made->channel +
           w->at[p * g->columns];
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* One tile and one block of k; see gemm_tile of gemm_body.h. */
static void REAL_FN(conv_tile)(const REAL_FN(conv_work) * w, int64_t k, int64_t count, int64_t f,
                               int64_t p)
{
    const REAL_FN(conv_gemm) *g = w->g;
    bool last = k + count == w->k;
    int64_t tiles = w->slivers * w->gathered_slivers;
    int64_t ld, lost = w->k > CONV_EXACT_K ? tiles * CONV_TILE : 0;
    const REAL *filter = w->filter + (f * w->k + k) * g->width;
    const REAL *gathered = w->gathered + p * count * g->columns;
    const REAL *a = g->turned ? gathered : filter, *b = g->turned ? filter : gathered;
    REAL *kept = w->kept + (f * w->gathered_slivers + p) * CONV_TILE, part[CONV_TILE];
    const REAL *sum = k > 0 ? kept : NULL;
    if (k == 0 && g->bias) sum = g->bias + (w->group * g->slivers + w->sliver + f) * CONV_TILE;
    if (lost && k > 0) {
        REAL_FN(tile_run)(count, a, b, part, TILE_COLS, NULL);
        REAL_FN(sum_add)(kept, kept + lost, part, CONV_TILE);
        if (!last) return;
        REAL_FN(sum_close)(kept, kept + lost, CONV_TILE);
        REAL_FN(conv_put)(w, f, p, kept);
        return;
    }
    REAL *place = last ? REAL_FN(conv_place)(w, f, p, &ld) : NULL;
    if (place) {
        REAL_FN(tile_run)(count, a, b, place, ld, sum);
        return;
    }
    REAL_FN(tile_run)(count, a, b, last ? part : kept, TILE_COLS, sum);
    if (last)
        REAL_FN(conv_put)(w, f, p, part);
    else if (lost)
        memset(kept + lost, 0, sizeof part);
}

static void REAL_FN(conv_sweep)(REAL_FN(conv_work) * w)
{
    int64_t k = 0, outer = w->g->turned ? w->slivers : w->gathered_slivers;
    int64_t inner = w->g->turned ? w->gathered_slivers : w->slivers;
    do {
        int64_t count = UM_MIN(w->k - k, CONV_K_BLOCK);
        REAL_FN(conv_gather)(w, k, count);
        for (int64_t i = 0; i < outer; i++)
            for (int64_t j = 0; j < inner; j++) REAL_FN(conv_tile)
        (w, k, count, w->g->turned ? i : j, w->g->turned ? j : i);
        k += count;
    } while (k < w->k);
}

/* The step between the positions of each whole sliver. */
static void REAL_FN(conv_find_even)(REAL_FN(conv_work) * w)
{
    int64_t columns = w->g->columns;
    for (int64_t p = 0; p < w->gathered_slivers; p++) {
        const int64_t *at = w->at + p * columns;
        w->even[p] = 0;
        if ((p + 1) * columns > w->block.count) continue;
        int64_t i = 2, step = at[1] - at[0];
        while (i < columns && at[i] - at[i - 1] == step) i++;
        if (i == columns) w->even[p] = step;
    }
}

/* Where the task's results go: into the tensor, or where the epilogue reads them. */
static void REAL_FN(conv_target)(REAL_FN(conv_work) * w)
{
    const REAL_FN(conv_gemm) *g = w->g;
    int64_t rows = w->slivers * g->width;
    w->made = g->made;
    w->first_made = w->group * g->made->group + w->sliver * g->width * g->made->channel;
    place_positions(&w->block, g->made, w->at);
    if (!g->c->rider) return;
    w->made = &w->value;
    w->first_made = 0;
    w->value = (conv_side){.data = w->gathered + g->value_at,
                           .dtype = REAL_DTYPE,
                           .channel = g->turned ? 1 : g->block};
    for (int64_t i = 0; i < w->block.count; i++) w->at[i] = g->turned ? i * rows : i;
}

static void REAL_FN(conv_ride)(const REAL_FN(conv_work) * w)
{
    const conv *c = w->g->c;
    int64_t first = w->sliver * w->g->width, rows = w->slivers * w->g->width;
    run_program(c, w->g->made, &w->block, w->group * c->m + first, UM_MIN(c->m - first, rows),
                w->value.data, REAL_DTYPE, w->value.channel, w->g->turned ? rows : 1);
}

/* Task: a block of positions of one phase and group, by a block of the filter's rows. */
static void REAL_FN(conv_task)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(conv_gemm) *g = ctx;
    const conv *c = g->c;
    REAL_FN(conv_work) w;
    int64_t m_block = task % g->m_blocks, number = task / g->m_blocks;
    int64_t first = number % g->blocks * g->block, phase = number / g->blocks % g->phase_count;
    int64_t tap[CONV_AXES], start, taps, in_class;
    w.g = g;
    w.group = number / g->blocks / g->phase_count;
    for (int32_t a = CONV_INNER; a >= 0; a--) {
        w.block.reach[a] = g->back ? reach_backward(&c->axis[a], phase % g->phases[a])
                                   : reach_forward(&c->axis[a]);
        phase /= g->phases[a];
        tap[a] = w.block.reach[a].first_tap;
    }
    int64_t positions = count_positions(w.block.reach);
    if (first >= positions) return;
    find_runs(&w.block, first, UM_MIN(positions - first, g->block));
    w.k = count_taps(w.block.reach) * c->q;
    w.sliver = m_block * g->sliver_block;
    w.slivers = UM_MIN(g->slivers - w.sliver, g->sliver_block);
    w.gathered_slivers = um_ceil_div(w.block.count, g->columns);
    REAL_FN(conv_class)(g, tap, &start, &taps, &in_class);
    w.filter = g->filter + (w.group * c->taps + start) * g->slivers * g->width * c->q +
               w.sliver * w.k * g->width;
    w.gathered = (REAL *)(void *)(g->own + (size_t)lane * g->own_bytes);
    w.kept = w.gathered + g->kept_at;
    w.line = w.gathered + g->line_at;
    for (int64_t i = w.block.count; i < w.gathered_slivers * g->columns; i++) w.line[i] = 0;
    REAL_FN(conv_target)(&w);
    REAL_FN(conv_find_even)(&w);
    REAL_FN(conv_sweep)(&w);
    if (c->rider) REAL_FN(conv_ride)(&w);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Tasks of even size, enough of them for several threads. */
static void REAL_FN(conv_split)(REAL_FN(conv_gemm) * g, int64_t positions)
{
    const conv *c = g->c;
    int64_t wanted = CONV_BLOCK, outer = c->groups * g->phase_count;
    g->slivers = um_ceil_div(c->m, g->width);
    g->m_blocks = um_ceil_div(g->slivers, CONV_ROWS / g->width);
    while (c->shared && wanted > CONV_STEP &&
           outer * g->m_blocks * um_ceil_div(positions, wanted) < CONV_TASKS)
        wanted -= CONV_STEP;
    g->blocks = um_ceil_div(positions, wanted);
    g->block = um_ceil_div(um_ceil_div(positions, g->blocks), g->columns) * g->columns;
    int64_t tasks = outer * g->blocks;
    if (c->shared && tasks * g->m_blocks < CONV_TASKS)
        g->m_blocks = UM_MIN(um_ceil_div(CONV_TASKS, tasks), um_ceil_div(g->slivers, 4));
    g->sliver_block = um_ceil_div(g->slivers, g->m_blocks);
}

/* Sets the places in scratch and reserves it. */
static um_status REAL_FN(conv_reserve)(REAL_FN(conv_gemm) * g)
{
    const conv *c = g->c;
    int64_t filter, shared, k = c->taps * c->q, lanes = c->shared ? c->exec->lanes : 1;
    int64_t bias = c->bias ? c->groups * g->slivers * CONV_TILE : 0;
    int64_t kept = k > CONV_K_BLOCK ? g->sliver_block * um_ceil_div(g->block, g->columns) : 0;
    if (k > CONV_EXACT_K) kept *= 2;
    g->kept_at = (size_t)(g->block * UM_MIN(k, CONV_K_BLOCK));
    g->line_at = g->kept_at + (size_t)(kept * CONV_TILE);
    g->value_at = g->line_at + (size_t)g->block;
    int64_t value = c->rider ? g->sliver_block * g->width * g->block : 0;
    g->own_bytes = (g->value_at + (size_t)value) * sizeof(REAL);
    g->own_bytes = (g->own_bytes + 63) / 64 * 64;
    if (!um_mul_i64(k, c->groups * g->slivers * g->width, &filter) ||
        !um_mul_i64(filter + bias, sizeof(REAL), &shared) || !um_add_i64(shared, 63, &shared))
        return UM_FAIL(UM_OUT_OF_MEMORY, "conv: the filter does not fit in memory");
    shared = shared / 64 * 64;
    UM_TRY(um_cpu_scratch_reserve(c->exec, g->own_bytes + (size_t)um_ceil_div(shared, lanes)));
    g->filter = (REAL *)(void *)c->exec->scratch;
    g->bias = c->bias ? g->filter + filter : NULL;
    g->own = c->exec->scratch + shared;
    return UM_OK;
}

static um_status REAL_FN(conv_gemm_run)(const conv *c, bool to_wide)
{
    REAL_FN(conv_gemm) g = {.c = c, .back = to_wide, .phase_count = 1};
    g.from = to_wide ? &c->narrow : &c->wide;
    g.made = to_wide ? &c->wide : &c->narrow;
    g.turned = g.made->channel == 1 && g.made->axis[CONV_INNER] != 1;
    g.width = g.turned ? TILE_COLS : TILE_ROWS;
    g.columns = g.turned ? TILE_ROWS : TILE_COLS;
    int64_t positions = 1;
    for (int32_t a = 0; a < CONV_AXES; a++) {
        const conv_axis *x = &c->axis[a];
        g.phases[a] = to_wide ? phases_of(x) : 1;
        g.phase_count *= g.phases[a];
        positions *= to_wide ? um_ceil_div(x->wide, x->stride) : x->narrow;
    }
    REAL_FN(conv_split)(&g, positions);
    UM_TRY(REAL_FN(conv_reserve)(&g));
    each_task(c, c->groups * g.slivers, REAL_FN(conv_pack), &g);
    each_task(c, c->groups * g.phase_count * g.blocks * g.m_blocks, REAL_FN(conv_task), &g);
    return UM_OK;
}
