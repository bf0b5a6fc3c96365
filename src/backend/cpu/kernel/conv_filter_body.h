/* backend/cpu/kernel/conv_filter_body.h: the gradient of a convolution for its filter, as a product
 * of packed matrices, for one REAL type (real.h). Included by conv.c after conv_gemm_body.h.
 *
 * Rows are the filters of a group, columns the pairs of a channel and a tap, and what is added up
 * are the positions of the narrow side, CONV_K_BLOCK at a time: both matrices are gathered for a
 * block of positions, packed, and swept. Where that makes few tasks, each adds up a part of the
 * positions only, and the parts are added in their order at the end. */
#ifndef CONV_FILTER_ROWS
#define CONV_FILTER_ROWS 144 /* of a task; multiples of a tile's */
#define CONV_FILTER_COLS 96
#define CONV_PART        1024 /* positions that are worth a part */
#endif

typedef struct REAL_FN(conv_filter) {
    const conv *c;
    conv_side made;                 /* the filter: data and dtype */
    int64_t columns;                /* q * taps */
    int64_t row_blocks, col_blocks; /* of a group */
    int64_t parts, part;            /* how many, positions of one */
    int64_t tiles;                  /* of a task, at most */
    bool exact;                     /* sums are kept in two pieces */
    REAL *sums;                     /* shared: of each task and part, when there are parts */
    uint8_t *own;
    size_t own_bytes, b_at, line_at, kept_at; /* of a lane; offsets in REALs */
} REAL_FN(conv_filter);

/* One task and part. */
typedef struct REAL_FN(conv_sum) {
    const REAL_FN(conv_filter) * f;
    int64_t group, row, rows, col, cols, row_slivers, col_slivers;
    REAL *a, *b, *line, *kept;
    conv_span span[CONV_COLUMNS];
    conv_block block;
} REAL_FN(conv_sum);

/* ---- packing -------------------------------------------------------------------------------- */

/* A line as number `index` of the slivers of `width`. */
UM_INLINE void REAL_FN(conv_turn)(REAL *to, const REAL *line, int64_t width, int64_t index,
                                  int64_t n)
{
    to += index / width * width * n + index % width;
    for (int64_t p = 0; p < n; p++) to[p * width] = line[p];
}

/* Zeros for what the last sliver lacks. */
static void REAL_FN(conv_clear)(REAL *to, int64_t width, int64_t lines, int64_t n)
{
    if (lines % width != 0)
        memset(to + lines / width * width * n, 0, (size_t)(width * n) * sizeof(REAL));
}

/* Rows: the narrow side's channels at the block's positions. */
static void REAL_FN(conv_rows)(REAL_FN(conv_sum) * s)
{
    const conv_side *narrow = &s->f->c->narrow;
    int64_t n = s->block.count;
    for (int32_t r = 0; r < s->block.runs; r++) {
        const conv_run *run = &s->block.run[r];
        int64_t first = 0;
        for (int32_t a = 0; a < CONV_AXES; a++) first += run->index[a] * narrow->axis[a];
        s->span[r] = (conv_span){run->column, 0, run->count, 0, first};
    }
    REAL_FN(conv_clear)(s->a, TILE_ROWS, s->rows, n);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t first = s->group * narrow->group + (s->row + i) * narrow->channel;
        REAL_FN(conv_line)
        (narrow, first, narrow->axis[CONV_INNER], s->span, s->block.runs, s->line);
        REAL_FN(conv_turn)(s->a, s->line, TILE_ROWS, i, n);
    }
}

/* Columns: what the taps find in the wide side. Column j is channel j / taps, tap j % taps. */
static void REAL_FN(conv_cols)(REAL_FN(conv_sum) * s)
{
    const conv_side *wide = &s->f->c->wide;
    int64_t taps = s->f->c->taps, n = s->block.count;
    int64_t step = s->block.reach[CONV_INNER].step * wide->axis[CONV_INNER];
    REAL_FN(conv_clear)(s->b, TILE_COLS, s->cols, n);
    for (int64_t t = 0; t < UM_MIN(taps, s->cols); t++) {
        int64_t tap = (s->col + t) % taps;
        find_spans(&s->block, wide->axis, tap, s->span);
        for (int64_t j = t; j < s->cols; j += taps) {
            int64_t channel = (s->col + j) / taps;
            REAL_FN(conv_line)
            (wide, s->group * wide->group + channel * wide->channel, step, s->span, s->block.runs,
             s->line);
            REAL_FN(conv_turn)(s->b, s->line, TILE_COLS, j, n);
        }
    }
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Puts a finished tile in its place. */
static void REAL_FN(conv_filter_put)(const REAL_FN(conv_sum) * s, int64_t i, int64_t j,
                                     const REAL *tile)
{
    const conv *c = s->f->c;
    int64_t row = s->row + i * TILE_ROWS, rows = UM_MIN(s->row + s->rows - row, TILE_ROWS);
    int64_t col = s->col + j * TILE_COLS, cols = UM_MIN(s->col + s->cols - col, TILE_COLS);
    int64_t at[TILE_COLS];
    for (int64_t k = 0; k < cols; k++) {
        int64_t tap = (col + k) % c->taps;
        at[k] = (col + k) / c->taps * c->filter.q;
        for (int32_t a = CONV_INNER; a >= 0; a--) {
            at[k] += tap % c->axis[a].kernel * c->filter.axis[a];
            tap /= c->axis[a].kernel;
        }
    }
    for (int64_t k = 0; k < rows; k++) REAL_FN(conv_scatter)
    (&s->f->made, s->group * c->filter.group + (row + k) * c->filter.m, at, tile + k * TILE_COLS,
     cols);
}

/* The block's share of one tile. */
static void REAL_FN(conv_filter_tile)(const REAL_FN(conv_sum) * s, bool first, bool last, int64_t i,
                                      int64_t j)
{
    int64_t n = s->block.count, lost = s->f->exact ? s->f->tiles * CONV_TILE : 0;
    const REAL *a = s->a + i * n * TILE_ROWS, *b = s->b + j * n * TILE_COLS;
    REAL *kept = s->kept + (j * s->row_slivers + i) * CONV_TILE, part[CONV_TILE];
    if (first || !lost) {
        REAL_FN(tile_run)(n, a, b, kept, TILE_COLS, first ? NULL : kept);
        if (lost) memset(kept + lost, 0, sizeof part);
    } else {
        REAL_FN(tile_run)(n, a, b, part, TILE_COLS, NULL);
        REAL_FN(sum_add)(kept, kept + lost, part, CONV_TILE);
    }
    if (!last || s->f->parts > 1) return;
    if (lost) REAL_FN(sum_close)(kept, kept + lost, CONV_TILE);
    REAL_FN(conv_filter_put)(s, i, j, kept);
}

static void REAL_FN(conv_sum_begin)(REAL_FN(conv_sum) * s, const REAL_FN(conv_filter) * f,
                                    int64_t task)
{
    s->f = f;
    s->col = task % f->col_blocks * CONV_FILTER_COLS;
    s->row = task / f->col_blocks % f->row_blocks * CONV_FILTER_ROWS;
    s->group = task / f->col_blocks / f->row_blocks;
    s->rows = UM_MIN(f->c->m - s->row, CONV_FILTER_ROWS);
    s->cols = UM_MIN(f->columns - s->col, CONV_FILTER_COLS);
    s->row_slivers = um_ceil_div(s->rows, TILE_ROWS);
    s->col_slivers = um_ceil_div(s->cols, TILE_COLS);
}

/* Task: a block of rows by a block of columns of one group, over one part of the positions. */
static void REAL_FN(conv_filter_task)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(conv_filter) *f = ctx;
    const conv *c = f->c;
    int64_t part = task % f->parts, begin = part * f->part;
    int64_t end = UM_MIN(begin + f->part, c->positions);
    REAL_FN(conv_sum) s;
    REAL_FN(conv_sum_begin)(&s, f, task / f->parts);
    s.a = (REAL *)(void *)(f->own + (size_t)lane * f->own_bytes);
    s.b = s.a + f->b_at;
    s.line = s.a + f->line_at;
    s.kept = f->parts > 1 ? f->sums + task * f->tiles * 2 * CONV_TILE : s.a + f->kept_at;
    for (int32_t a = 0; a < CONV_AXES; a++) s.block.reach[a] = reach_forward(&c->axis[a]);
    for (int64_t at = begin; at == begin || at < end; at += CONV_K_BLOCK) {
        int64_t n = UM_MIN(end - at, CONV_K_BLOCK);
        find_runs(&s.block, at, n);
        REAL_FN(conv_rows)(&s);
        REAL_FN(conv_cols)(&s);
        for (int64_t j = 0; j < s.col_slivers; j++)
            for (int64_t i = 0; i < s.row_slivers; i++) REAL_FN(conv_filter_tile)
        (&s, at == begin, at + n >= end, i, j);
    }
}

/* Task: adds up the parts of one block of rows by columns. */
static void REAL_FN(conv_filter_close)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(conv_filter) *f = ctx;
    int64_t size = f->tiles * CONV_TILE;
    REAL *sum = f->sums + task * f->parts * 2 * size;
    REAL_FN(conv_sum) s;
    (void)lane;
    REAL_FN(conv_sum_begin)(&s, f, task);
    for (int64_t t = 0; t < s.row_slivers * s.col_slivers; t++) {
        REAL *hi = sum + t * CONV_TILE, *lo = hi + size;
        for (int64_t p = 1; p < f->parts; p++) {
            REAL_FN(sum_add)(hi, lo, hi + p * 2 * size, CONV_TILE);
            for (int64_t i = 0; i < CONV_TILE; i++) lo[i] += lo[p * 2 * size + i];
        }
        REAL_FN(sum_close)(hi, lo, CONV_TILE);
        REAL_FN(conv_filter_put)(&s, t % s.row_slivers, t / s.row_slivers, hi);
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static um_status REAL_FN(conv_filter_reserve)(REAL_FN(conv_filter) * f, int64_t tasks)
{
    const conv *c = f->c;
    int64_t rows = um_ceil_div(UM_MIN(c->m, CONV_FILTER_ROWS), TILE_ROWS) * TILE_ROWS;
    int64_t cols = um_ceil_div(UM_MIN(f->columns, CONV_FILTER_COLS), TILE_COLS) * TILE_COLS;
    f->tiles = rows * cols / CONV_TILE;
    f->exact = c->positions > CONV_EXACT_K || f->parts > 1;
    f->b_at = (size_t)(rows * CONV_K_BLOCK);
    f->line_at = f->b_at + (size_t)(cols * CONV_K_BLOCK);
    f->kept_at = f->line_at + CONV_K_BLOCK;
    size_t kept = f->parts > 1 ? 0 : (size_t)(rows * cols * (f->exact ? 2 : 1));
    f->own_bytes = ((f->kept_at + kept) * sizeof(REAL) + 63) / 64 * 64;
    int64_t sums = f->parts > 1 ? tasks * f->parts * rows * cols * 2 : 0; /* few tasks */
    int64_t shared = (sums * (int64_t)sizeof(REAL) + 63) / 64 * 64;
    int64_t lanes = c->shared ? c->exec->lanes : 1;
    UM_TRY(um_cpu_scratch_reserve(c->exec, f->own_bytes + (size_t)um_ceil_div(shared, lanes)));
    f->sums = (REAL *)(void *)c->exec->scratch;
    f->own = c->exec->scratch + shared;
    return UM_OK;
}

static um_status REAL_FN(conv_filter_run)(const conv *c)
{
    REAL_FN(conv_filter) f = {.c = c, .columns = c->q * c->taps, .parts = 1};
    f.made = (conv_side){.data = c->filter.data, .dtype = c->filter.dtype};
    f.row_blocks = um_ceil_div(c->m, CONV_FILTER_ROWS);
    f.col_blocks = um_ceil_div(f.columns, CONV_FILTER_COLS);
    int64_t tasks = c->groups * f.row_blocks * f.col_blocks;
    if (c->shared && tasks < CONV_TASKS)
        f.parts = UM_MIN(um_ceil_div(CONV_TASKS, tasks), um_ceil_div(c->positions, CONV_PART));
    f.part = um_ceil_div(um_ceil_div(c->positions, f.parts), CONV_K_BLOCK) * CONV_K_BLOCK;
    f.parts = UM_MAX(um_ceil_div(c->positions, UM_MAX(f.part, 1)), 1);
    UM_TRY(REAL_FN(conv_filter_reserve)(&f, tasks));
    each_task(c, tasks * f.parts, REAL_FN(conv_filter_task), &f);
    if (f.parts > 1) each_task(c, tasks, REAL_FN(conv_filter_close), &f);
    return UM_OK;
}
