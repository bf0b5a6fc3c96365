/* backend/cpu/kernel/gemm_body.h: out[m, n] = a[m, k] b[k, n], and what follows, packed and
 * blocked, for one REAL type (real.h, matmul_int.h). Included by matmul.c after tile_body.h.
 *
 * A panel of columns of B is packed once, for all k, and shared. Then blocks of rows times groups
 * of columns are made independently: for each GEMM_K_BLOCK of k the block of A is packed and swept
 * over the panel's slivers, into accumulators of the block's own that are put in their place once,
 * at the end. So an element's chain of operations depends on k alone, not on the split.
 *
 * With mc = 144, kc = 256 a block of A takes 144 KiB of the L2; the panel streams from farther out,
 * 4 bytes for 288 flops. */
#ifndef GEMM_K_BLOCK
#define GEMM_K_BLOCK     256
#define GEMM_ROW_BLOCK   144
#define GEMM_COL_BLOCK   256 /* elements of a row of a block */
#define GEMM_PACK_COLS   256
#define GEMM_PACK_ROWS   4
#define GEMM_FETCH_AHEAD 16        /* rows */
#define GEMM_PANEL       (1 << 20) /* elements of B packed at a time, where that is a whole block */
/* From here on blocks of k are added up exactly: a plain chain of them would grow too long. */
#define GEMM_EXACT_K (16 * GEMM_K_BLOCK)
#endif

typedef struct REAL_FN(gemm) {
    const product *p;
    product_at at;
    um_cpu_exec *exec;
    int32_t first_lane, lane_count; /* whose scratch holds the slivers of B */
    bool shared;                    /* lanes may help */
    bool plain;                     /* sums are stored as they are, rows in one piece */
    int64_t row_block, col_block;   /* of one task */
    int64_t col_tasks;
    int64_t panel_first, panel_count; /* columns */
    /* Offsets in a lane's scratch, in REALs: sums, a block for the program, slivers of B. */
    size_t tile_at, made_at, panel_at;
} REAL_FN(gemm);

static int64_t REAL_FN(gemm_row_block)(const product *p, bool shared)
{
    int64_t wanted = shared ? UM_MAX(um_ceil_div(p->m, 8), 24) : GEMM_ROW_BLOCK;
    return UM_MIN(um_ceil_div(UM_MIN(wanted, p->m), TILE_ROWS) * TILE_ROWS, GEMM_ROW_BLOCK);
}

static int64_t REAL_FN(gemm_panel)(const product *p)
{
    int64_t most = UM_MAX(GEMM_PANEL / p->k / GEMM_COL_BLOCK, 1) * GEMM_COL_BLOCK;
    return UM_MIN(most, um_ceil_div(p->n, TILE_COLS) * TILE_COLS);
}

static void REAL_FN(gemm_plan)(REAL_FN(gemm) * g)
{
    const product *p = g->p;
    g->plain = p->alpha == 1 && p->beta == 0 && !p->has_epilogue && p->out.dtype == REAL_DTYPE &&
               p->out.col == 1;
    g->row_block = REAL_FN(gemm_row_block)(p, g->shared);
    g->panel_count = REAL_FN(gemm_panel)(p);
    /* Few rows: more groups of columns, for the lanes to have something to do. */
    int64_t row_tasks = um_ceil_div(p->m, g->row_block);
    int64_t groups = g->shared && row_tasks < 4 ? um_ceil_div(4, row_tasks) : 1;
    int64_t group = um_ceil_div(um_ceil_div(g->panel_count, groups), TILE_COLS) * TILE_COLS;
    g->col_block = UM_MIN(UM_MAX(group, 4 * TILE_COLS), GEMM_COL_BLOCK);
    bool blocks = p->k > GEMM_K_BLOCK, exact = p->k > GEMM_EXACT_K;
    int64_t kept = blocks ? g->row_block * g->col_block * (exact ? 2 : 1) : 0;
    g->tile_at = (size_t)(g->row_block * UM_MIN(p->k, GEMM_K_BLOCK));
    g->made_at = g->tile_at + (size_t)kept;
    g->panel_at = g->made_at + (size_t)(p->rider ? g->row_block * g->col_block : 0);
}

static size_t REAL_FN(gemm_scratch_bytes)(const product *p, bool shared, int32_t lane_count)
{
    REAL_FN(gemm) g = {.p = p, .shared = shared, .lane_count = shared ? lane_count : 1};
    REAL_FN(gemm_plan)(&g);
    int64_t slivers = um_ceil_div(g.panel_count, TILE_COLS);
    int64_t panel = um_ceil_div(slivers, g.lane_count) * TILE_COLS * p->k;
    return (g.panel_at + (size_t)panel) * sizeof(REAL);
}

static REAL *REAL_FN(gemm_sliver)(const REAL_FN(gemm) * g, int64_t index)
{
    int32_t lane = g->first_lane + (int32_t)(index % g->lane_count);
    REAL *base = um_cpu_scratch(g->exec, lane);
    return base + g->panel_at + index / g->lane_count * TILE_COLS * g->p->k;
}

/* Rows of 256 or so elements out of a wide matrix: each lies in a page of its own, so the hardware
 * fetches nothing ahead. Asks for `count` elements of each of GEMM_PACK_ROWS rows. */
UM_INLINE void REAL_FN(gemm_fetch_rows)(const matrix *x, int64_t first, int64_t stride,
                                        int64_t count)
{
    if (x->dtype != REAL_DTYPE) return;
    const REAL *row = (const REAL *)x->data + first;
    for (int64_t r = 0; r < GEMM_PACK_ROWS; r++)
        for (int64_t i = 0; i < count; i += 64 / (int64_t)sizeof(REAL))
            __builtin_prefetch(row + r * stride + i, 0, 2);
}

/* Task: GEMM_PACK_COLS columns of the panel. Rows of B that lie in one piece are read in one piece.
 */
static void REAL_FN(gemm_pack_b)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(gemm) *g = ctx;
    const matrix *b = &g->p->b;
    int64_t end = UM_MIN(g->p->n, g->panel_first + g->panel_count);
    int64_t first = g->panel_first + task * GEMM_PACK_COLS;
    int64_t last = UM_MIN(end, first + GEMM_PACK_COLS);
    int64_t k_step = b->col == 1 ? GEMM_PACK_ROWS : GEMM_K_BLOCK;
    REAL buffer[GEMM_K_BLOCK];
    (void)lane;
    for (int64_t k = 0; k < g->p->k; k += k_step) {
        if (b->col == 1 && k + GEMM_FETCH_AHEAD + GEMM_PACK_ROWS <= g->p->k)
            REAL_FN(gemm_fetch_rows)
        (b, g->at.b + first + (k + GEMM_FETCH_AHEAD) * b->row, b->row, last - first);
        for (int64_t col = first; col < last; col += TILE_COLS) REAL_FN(pack_operand)
        (g->p, b, k, REAL_FN(gemm_sliver)(g, (col - g->panel_first) / TILE_COLS) + k * TILE_COLS,
         TILE_COLS, g->at.b + col * b->col + k * b->row, b->col, b->row,
         UM_MIN(last - col, TILE_COLS), UM_MIN(g->p->k - k, k_step), buffer);
    }
}

/* Columns of A that lie in one piece are read in one piece. */
static void REAL_FN(gemm_pack_a)(const REAL_FN(gemm) * g, int64_t k, int64_t row, int64_t rows,
                                 REAL *dst)
{
    const matrix *a = &g->p->a;
    int64_t count = UM_MIN(g->p->k - k, GEMM_K_BLOCK);
    int64_t step = a->row == 1 ? GEMM_PACK_ROWS : count;
    REAL buffer[GEMM_K_BLOCK];
    for (int64_t from = 0; from < count; from += step) {
        int64_t ahead = k + from + GEMM_FETCH_AHEAD;
        if (a->row == 1 && ahead + GEMM_PACK_ROWS <= g->p->k)
            REAL_FN(gemm_fetch_rows)(a, g->at.a + row + ahead * a->col, a->col, rows);
        for (int64_t i = 0; i < rows; i += TILE_ROWS) REAL_FN(pack_operand)
        (g->p, a, k + from, dst + i * count + from * TILE_ROWS, TILE_ROWS,
         g->at.a + (row + i) * a->row + (k + from) * a->col, a->row, a->col,
         UM_MIN(rows - i, TILE_ROWS), UM_MIN(count - from, step), buffer);
    }
}

/* Puts the finished sums of one register tile in their place. */
static void REAL_FN(gemm_finish)(const REAL_FN(gemm) * g, int64_t row, int64_t col, const REAL *sum)
{
    const product *p = g->p;
    int64_t cols = UM_MIN(p->n - col, TILE_COLS);
    for (int64_t i = 0; i < TILE_ROWS && row + i < p->m; i++) REAL_FN(finish)
    (&(product_line){p, &g->at, row + i, col, cols, false}, sum + i * TILE_COLS);
}

/* One register tile and one block of k. kept: the tile's sums so far; beyond GEMM_EXACT_K what
 * their rounding lost lies `lost` further on. */
static void REAL_FN(gemm_tile)(const REAL_FN(gemm) * g, int64_t k, const REAL *a, const REAL *b,
                               REAL *kept, int64_t lost, int64_t row, int64_t col)
{
    enum { SIZE = TILE_ROWS * TILE_COLS };
    const product *p = g->p;
    int64_t count = UM_MIN(p->k - k, GEMM_K_BLOCK);
    bool last = k + count == p->k;
    REAL part[SIZE];
    if (lost && k > 0) {
        REAL_FN(tile_run)(count, a, b, part, TILE_COLS, NULL);
        REAL_FN(sum_add)(kept, kept + lost, part, SIZE);
        if (!last) return;
        REAL_FN(sum_close)(kept, kept + lost, SIZE);
        REAL_FN(gemm_finish)(g, row, col, kept);
        return;
    }
    bool whole = row + TILE_ROWS <= p->m && col + TILE_COLS <= p->n;
    const REAL *sum = k > 0 ? kept : NULL;
    if (last && whole && g->plain) {
        REAL *out = (REAL *)p->out.data + g->at.out + row * p->out.row + col;
        REAL_FN(tile_run)(count, a, b, out, p->out.row, sum);
        return;
    }
    REAL *out = last ? part : kept;
    REAL_FN(tile_run)(count, a, b, out, TILE_COLS, sum);
    if (last)
        REAL_FN(gemm_finish)(g, row, col, part);
    else if (lost)
        memset(kept + lost, 0, sizeof part);
}

/* Fetches a piece of what comes next while a tile is being made: [from, end) of `count` REALs. */
UM_INLINE void REAL_FN(gemm_prefetch)(const REAL *next, int64_t from, int64_t end)
{
    for (int64_t i = from; i < end; i += 64 / (int64_t)sizeof(REAL)) __builtin_prefetch(next + i);
}

/* One block of k of one task. */
static void REAL_FN(gemm_sweep)(const REAL_FN(gemm) * g, int64_t k, int64_t row, int64_t rows,
                                int64_t col, int64_t cols, const REAL *a, REAL *kept)
{
    int64_t count = UM_MIN(g->p->k - k, GEMM_K_BLOCK);
    int64_t lost = g->p->k > GEMM_EXACT_K ? g->row_block * g->col_block : 0;
    int64_t share = um_ceil_div(count * TILE_COLS, um_ceil_div(rows, TILE_ROWS));
    for (int64_t j = 0; j < cols; j += TILE_COLS) {
        int64_t index = (col - g->panel_first + j) / TILE_COLS;
        const REAL *b = REAL_FN(gemm_sliver)(g, index) + k * TILE_COLS;
        const REAL *next =
            j + TILE_COLS < cols ? REAL_FN(gemm_sliver)(g, index + 1) + k * TILE_COLS : b;
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
            REAL_FN(gemm_prefetch)(next, i / TILE_ROWS * share, (i / TILE_ROWS + 1) * share);
            REAL_FN(gemm_tile)
            (g, k, a + i * count, b, kept + j * g->row_block + i * TILE_COLS, lost, row + i,
             col + j);
        }
    }
}

/* A block of the product, in its place. */
static void REAL_FN(gemm_make)(const REAL_FN(gemm) * g, int64_t row, int64_t rows, int64_t col,
                               int64_t cols, REAL *scratch)
{
    REAL *kept = scratch + g->tile_at;
    for (int64_t k = 0; k < g->p->k; k += GEMM_K_BLOCK) {
        REAL_FN(gemm_pack_a)(g, k, row, rows, scratch);
        REAL_FN(gemm_sweep)(g, k, row, rows, col, cols, scratch, kept);
    }
}

/* Task: row_block rows by col_block columns. */
static void REAL_FN(gemm_block)(void *ctx, int64_t task, int32_t lane)
{
    const REAL_FN(gemm) *g = ctx;
    const product *p = g->p;
    int64_t row = task / g->col_tasks * g->row_block;
    int64_t col = g->panel_first + task % g->col_tasks * g->col_block;
    int64_t rows = UM_MIN(p->m - row, g->row_block);
    int64_t cols = UM_MIN(UM_MIN(p->n, g->panel_first + g->panel_count) - col, g->col_block);
    REAL *scratch = um_cpu_scratch(g->exec, lane);
    if (!p->rider) {
        REAL_FN(gemm_make)(g, row, rows, col, cols, scratch);
        return;
    }
    REAL_FN(gemm) own = *g;
    product part = *p;
    own.p = &part;
    redirect(&part, &own.at, row, col, scratch + g->made_at, cols);
    REAL_FN(gemm_make)(&own, row, rows, col, cols, scratch);
    run_program(p, &g->at, row, col, rows, cols, scratch + g->made_at, cols);
}

static void REAL_FN(gemm_each)(REAL_FN(gemm) * g, int64_t count, um_cpu_task_fn fn)
{
    if (g->shared)
        um_cpu_parallel(g->exec, count, fn, g);
    else
        for (int64_t i = 0; i < count; i++) fn(g, i, g->first_lane);
}

/* One product; shared: by all lanes, else by this lane alone. */
static void REAL_FN(gemm_run)(um_cpu_exec *exec, const product *p, const product_at *at,
                              bool shared, int32_t lane)
{
    REAL_FN(gemm) g = {.p = p, .at = *at, .exec = exec, .shared = shared};
    g.first_lane = shared ? 0 : lane;
    g.lane_count = shared ? exec->lanes : 1;
    REAL_FN(gemm_plan)(&g);
    int64_t row_tasks = um_ceil_div(p->m, g.row_block);
    for (; g.panel_first < p->n; g.panel_first += g.panel_count) {
        int64_t cols = UM_MIN(p->n - g.panel_first, g.panel_count);
        g.col_tasks = um_ceil_div(cols, g.col_block);
        REAL_FN(gemm_each)(&g, um_ceil_div(cols, GEMM_PACK_COLS), REAL_FN(gemm_pack_b));
        REAL_FN(gemm_each)(&g, row_tasks * g.col_tasks, REAL_FN(gemm_block));
    }
}
