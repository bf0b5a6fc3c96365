/* blas/gemm.c: libumbel_blas.so: sgemm_, dgemm_, cblas_sgemm and cblas_dgemm for programs that were
 * built for any other BLAS (LP64: integers of 32 bits). The caller's memory goes to the CPU's
 * matmul kernel as it is, with a thread pool of the library's own; streams and allocations have no
 * part in it. Why so, and what happens on errors: doc/design/blas-drop-in.md.
 *
 * Any number of threads may call at once: each call takes a worker (a kernel's scratch) that nobody
 * uses, and gives it back. */
#include "blas/blas.h"

#include "backend/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* A product as the Fortran interface says it: C = alpha op(A) op(B) + beta C, by columns. */
typedef struct gemm_call {
    const char *name; /* "SGEMM ": six characters, as xerbla gets it */
    um_dtype dtype;
    bool turns_a, turns_b;
    int32_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
} gemm_call;

/* ---- errors: those of the BLAS that the program has, if it has one ----------------------------
 */

/* The program's own, or another BLAS library's; absent where this library is the only one. */
extern void xerbla_(const char *name, const int32_t *info, size_t name_size) __attribute__((weak));
extern void cblas_xerbla(int32_t info, const char *name, const char *format, ...)
    __attribute__((weak));
/* What the reference's cblas_xerbla looks at. */
extern int32_t CBLAS_CallFromC __attribute__((weak)), RowMajorStrg __attribute__((weak));

/* Position `info` of name's Fortran arguments is wrong. */
static void fail(const char *name, int32_t info)
{
    if (xerbla_)
        xerbla_(name, &info, strlen(name));
    else
        fprintf(stderr, " ** On entry to %s parameter number %2d had an illegal value\n", name,
                (int)info);
}

/* The same from C, as the reference has it: xerbla is told the Fortran position, of the turned
 * problem if rows come first, and cblas_xerbla makes of it the position in C. */
static void fail_from_c(const char *name, int32_t info, bool by_rows)
{
    if (&CBLAS_CallFromC) CBLAS_CallFromC = 1;
    if (&RowMajorStrg) RowMajorStrg = by_rows;
    fail(name, info);
    if (&CBLAS_CallFromC) CBLAS_CallFromC = 0;
    if (&RowMajorStrg) RowMajorStrg = 0;
}

static void fail_setting(const char *name, int32_t info, const char *what, int32_t value)
{
    char text[64];
    snprintf(text, sizeof text, "Illegal %s setting, %d\n", what, (int)value);
    if (cblas_xerbla)
        cblas_xerbla(info, name, "%s", text);
    else
        fprintf(stderr, "Parameter %d to routine %s was incorrect\n%s", (int)info, name, text);
}

/* The first argument that the reference objects to, counted from 1, or 0. */
static int32_t first_wrong(const gemm_call *g, bool knows_a, bool knows_b)
{
    int32_t a_rows = g->turns_a ? g->k : g->m, b_rows = g->turns_b ? g->n : g->k;
    if (!knows_a) return 1;
    if (!knows_b) return 2;
    if (g->m < 0) return 3;
    if (g->n < 0) return 4;
    if (g->k < 0) return 5;
    if (g->lda < UM_MAX(1, a_rows)) return 8;
    if (g->ldb < UM_MAX(1, b_rows)) return 10;
    return g->ldc < UM_MAX(1, g->m) ? 13 : 0;
}

/* ---- workers --------------------------------------------------------------------------------- */

typedef struct worker {
    um_cpu_exec exec;
    struct worker *next;
} worker;

static struct {
    um_mutex mutex;
    /* all under mutex */
    worker *idle;
    um_cpu_pool *pool; /* NULL: none yet, none to be had, or left behind by a fork */
    bool has_started;
} state = {.mutex = UM_MUTEX_INIT};

/* A child has none of the pool's threads: it computes on its own. */
static void before_fork(void) { um_mutex_lock(&state.mutex); }
static void after_fork(void) { um_mutex_unlock(&state.mutex); }
static void in_child(void)
{
    state.pool = NULL;
    um_mutex_unlock(&state.mutex);
}

static worker *take_worker(void)
{
    um_mutex_lock(&state.mutex);
    if (!state.has_started) {
        state.has_started = true;
        bool is_safe = pthread_atfork(before_fork, after_fork, in_child) == 0;
        if (is_safe && um_cpu_pool_get(&state.pool) != UM_OK) state.pool = NULL;
    }
    worker *w = state.idle;
    if (w) state.idle = w->next;
    um_cpu_pool *pool = state.pool;
    um_mutex_unlock(&state.mutex);
    if (!w) w = um_mem_zalloc(sizeof *w);
    if (!w) return NULL;
    w->exec.pool = pool;
    w->exec.lanes = pool ? um_cpu_pool_threads(pool) : 1;
    return w;
}

static void give_worker(worker *w)
{
    um_mutex_lock(&state.mutex);
    w->next = state.idle;
    state.idle = w;
    um_mutex_unlock(&state.mutex);
}

/* ---- the product ------------------------------------------------------------------------------
 */

static um_view view_of(um_dtype dtype, const void *data, int64_t rows, int64_t cols, int64_t ld,
                       bool is_turned)
{
    um_view view = {.ptr = (um_ptr)(uintptr_t)data, .dtype = dtype, .rank = 2};
    view.shape[0] = rows, view.shape[1] = cols;
    view.stride[0] = is_turned ? ld : 1, view.stride[1] = is_turned ? 1 : ld;
    return view;
}

/* Without memory for anything: slow, but what was asked for. */
static void multiply_plainly(const gemm_call *g)
{
    static _Atomic bool has_told;
    if (!atomic_exchange(&has_told, true))
        fprintf(stderr, "umbel_blas: out of memory: products are computed without scratch\n");
    int64_t a_row = g->turns_a ? g->lda : 1, a_col = g->turns_a ? 1 : g->lda;
    int64_t b_row = g->turns_b ? g->ldb : 1, b_col = g->turns_b ? 1 : g->ldb;
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            double sum = 0, x, y, c = 0;
            for (int64_t p = 0; g->alpha != 0 && p < g->k; p++) {
                um_load(UM_CLASS_F64, &x, g->dtype, g->a, i * a_row + p * a_col, 1, 1);
                um_load(UM_CLASS_F64, &y, g->dtype, g->b, p * b_row + j * b_col, 1, 1);
                sum += x * y;
            }
            if (g->beta != 0)
                um_load(UM_CLASS_F64, &c, g->dtype, g->c, i + j * (int64_t)g->ldc, 1, 1);
            sum = g->alpha * sum + g->beta * c;
            um_store(g->dtype, g->c, i + j * (int64_t)g->ldc, 1, UM_CLASS_F64, &sum, 1);
        }
}

static void multiply(const gemm_call *g)
{
    bool is_scaled_only = g->alpha == 0 || g->k == 0;
    if (um_debug_on("blas"))
        um_debug_write("blas", "%.5s %s%s %dx%dx%d", g->name, g->turns_a ? "T" : "N",
                       g->turns_b ? "T" : "N", (int)g->m, (int)g->n, (int)g->k);
    if (g->m == 0 || g->n == 0 || (is_scaled_only && g->beta == 1)) return;
    um_op op = {.id = UM_OP_MATMUL, .in_count = 3, .out_count = 1};
    op.attrs.matmul.alpha = g->alpha;
    op.attrs.matmul.beta = g->beta;
    op.in[0] = view_of(g->dtype, g->a, g->m, g->k, g->lda, g->turns_a);
    op.in[1] = view_of(g->dtype, g->b, g->k, g->n, g->ldb, g->turns_b);
    op.in[2] = op.out[0] = view_of(g->dtype, g->c, g->m, g->n, g->ldc, false);
    worker *w = take_worker();
    bool is_done = w && um_cpu_kernel_find(UM_OP_MATMUL)->run(&w->exec, &op) == UM_OK;
    if (w) give_worker(w);
    if (!is_done) multiply_plainly(g);
}

/* ---- Fortran ----------------------------------------------------------------------------------
 */

/* N, T or C; true: one of them. */
static bool read_trans(const char *trans, bool *turns)
{
    char c = (char)(*trans & ~32); /* upper case */
    *turns = c == 'T' || c == 'C';
    return c == 'N' || *turns;
}

static void call_fortran(gemm_call *g, const char *trans_a, const char *trans_b)
{
    bool knows_a = read_trans(trans_a, &g->turns_a), knows_b = read_trans(trans_b, &g->turns_b);
    int32_t wrong = first_wrong(g, knows_a, knows_b);
    if (wrong)
        fail(g->name, wrong);
    else
        multiply(g);
}

void sgemm_(const char *trans_a, const char *trans_b, const int32_t *m, const int32_t *n,
            const int32_t *k, const float *alpha, const float *a, const int32_t *lda,
            const float *b, const int32_t *ldb, const float *beta, float *c, const int32_t *ldc)
{
    gemm_call g = {.name = "SGEMM ", .dtype = UM_F32, .m = *m, .n = *n, .k = *k};
    g.alpha = (double)*alpha, g.beta = (double)*beta;
    g.a = a, g.b = b, g.c = c, g.lda = *lda, g.ldb = *ldb, g.ldc = *ldc;
    call_fortran(&g, trans_a, trans_b);
}

void dgemm_(const char *trans_a, const char *trans_b, const int32_t *m, const int32_t *n,
            const int32_t *k, const double *alpha, const double *a, const int32_t *lda,
            const double *b, const int32_t *ldb, const double *beta, double *c, const int32_t *ldc)
{
    gemm_call g = {.name = "DGEMM ", .dtype = UM_F64, .m = *m, .n = *n, .k = *k};
    g.alpha = *alpha, g.beta = *beta;
    g.a = a, g.b = b, g.c = c, g.lda = *lda, g.ldb = *ldb, g.ldc = *ldc;
    call_fortran(&g, trans_a, trans_b);
}

/* ---- C ----------------------------------------------------------------------------------------
 */

enum { ROW_MAJOR = 101, COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113 };

/* By rows it is the turned problem: C^T = op(B)^T op(A)^T, by columns. */
static void turn(gemm_call *g)
{
    gemm_call was = *g;
    g->m = was.n, g->n = was.m;
    g->a = was.b, g->lda = was.ldb, g->turns_a = was.turns_b;
    g->b = was.a, g->ldb = was.lda, g->turns_b = was.turns_a;
}

static void call_c(gemm_call *g, const char *c_name, int32_t layout, int32_t trans_a,
                   int32_t trans_b)
{
    if (layout != ROW_MAJOR && layout != COL_MAJOR) {
        fail_setting(c_name, 1, "layout", layout);
        return;
    }
    bool knows_a = trans_a >= NO_TRANS && trans_a <= CONJ_TRANS;
    bool knows_b = trans_b >= NO_TRANS && trans_b <= CONJ_TRANS;
    if (!knows_a || !knows_b) {
        fail_setting(c_name, knows_a ? 3 : 2, knows_a ? "TransB" : "TransA",
                     knows_a ? trans_b : trans_a);
        return;
    }
    g->turns_a = trans_a != NO_TRANS, g->turns_b = trans_b != NO_TRANS;
    if (layout == ROW_MAJOR) turn(g);
    int32_t wrong = first_wrong(g, true, true);
    if (wrong)
        fail_from_c(g->name, wrong, layout == ROW_MAJOR);
    else
        multiply(g);
}

void cblas_sgemm(int32_t layout, int32_t trans_a, int32_t trans_b, int32_t m, int32_t n, int32_t k,
                 float alpha, const float *a, int32_t lda, const float *b, int32_t ldb, float beta,
                 float *c, int32_t ldc)
{
    gemm_call g = {.name = "SGEMM ", .dtype = UM_F32, .m = m, .n = n, .k = k};
    g.alpha = (double)alpha, g.beta = (double)beta;
    g.a = a, g.b = b, g.c = c, g.lda = lda, g.ldb = ldb, g.ldc = ldc;
    call_c(&g, "cblas_sgemm", layout, trans_a, trans_b);
}

void cblas_dgemm(int32_t layout, int32_t trans_a, int32_t trans_b, int32_t m, int32_t n, int32_t k,
                 double alpha, const double *a, int32_t lda, const double *b, int32_t ldb,
                 double beta, double *c, int32_t ldc)
{
    gemm_call g = {.name = "DGEMM ", .dtype = UM_F64, .m = m, .n = n, .k = k};
    g.alpha = alpha, g.beta = beta;
    g.a = a, g.b = b, g.c = c, g.lda = lda, g.ldb = ldb, g.ldc = ldc;
    call_c(&g, "cblas_dgemm", layout, trans_a, trans_b);
}
