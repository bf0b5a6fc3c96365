/* test/test_blas.c: the BLAS drop-in's functions, linked in: products against plain loops, what the
 * reference leaves untouched, messages without anybody's xerbla, many threads, a fork, no memory.
 * Debian's testers and a program's own xerbla: blas_test.sh. */
#include "blas/blas.h"

#include "base/base.h"
#include "base/os.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BY_ROWS = 101, BY_COLUMNS = 102, NO_TRANS = 111 };

static double random_unit(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state & ~(uint64_t)2047) * 0x1p-63;
}

/* Row-major or column-major, op(A) m x k and op(B) k x n; one precision's arrays are used. */
typedef struct product {
    bool by_rows, turns_a, turns_b, is_double;
    int32_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    double *a, *b, *c;
    float *fa, *fb, *fc;
    size_t a_count, b_count, c_count;
} product;

static int32_t lead(const product *p, bool turns, int32_t rows, int32_t cols)
{
    return (p->by_rows != turns ? cols : rows) + 3;
}

static void fill(double **x, float **fx, size_t count)
{
    *x = malloc(count * sizeof **x), *fx = malloc(count * sizeof **fx);
    for (size_t i = 0; i < count; i++) (*x)[i] = (double)((*fx)[i] = (float)random_unit());
}

static product make(int32_t m, int32_t n, int32_t k, int form)
{
    product p = {.m = m, .n = n, .k = k, .alpha = 0.5, .beta = -2};
    p.by_rows = form & 1, p.turns_a = form & 2, p.turns_b = form & 4, p.is_double = form & 8;
    p.lda = lead(&p, p.turns_a, m, k), p.ldb = lead(&p, p.turns_b, k, n);
    p.ldc = lead(&p, false, m, n);
    p.a_count = (size_t)p.lda * (size_t)UM_MAX(m, k);
    p.b_count = (size_t)p.ldb * (size_t)UM_MAX(k, n);
    p.c_count = (size_t)p.ldc * (size_t)UM_MAX(m, n);
    fill(&p.a, &p.fa, p.a_count), fill(&p.b, &p.fb, p.b_count), fill(&p.c, &p.fc, p.c_count);
    return p;
}

static void drop(product *p)
{
    free(p->a), free(p->b), free(p->c), free(p->fa), free(p->fb), free(p->fc);
}

static size_t at(const product *p, bool turns, int32_t ld, int32_t row, int32_t col)
{
    return p->by_rows != turns ? (size_t)row * (size_t)ld + (size_t)col
                               : (size_t)col * (size_t)ld + (size_t)row;
}

/* Through the C interface, or the Fortran one where columns come first. */
static void call(product *p, bool from_c)
{
    int32_t layout = p->by_rows ? BY_ROWS : BY_COLUMNS;
    int32_t ta = NO_TRANS + p->turns_a, tb = NO_TRANS + 2 * p->turns_b;
    float alpha = (float)p->alpha, beta = (float)p->beta;
    const char *fa = p->turns_a ? "t" : "N", *fb = p->turns_b ? "C" : "n";
    if (from_c && p->is_double)
        cblas_dgemm(layout, ta, tb, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb, p->beta,
                    p->c, p->ldc);
    else if (from_c)
        cblas_sgemm(layout, ta, tb, p->m, p->n, p->k, alpha, p->fa, p->lda, p->fb, p->ldb, beta,
                    p->fc, p->ldc);
    else if (p->is_double)
        dgemm_(fa, fb, &p->m, &p->n, &p->k, &p->alpha, p->a, &p->lda, p->b, &p->ldb, &p->beta, p->c,
               &p->ldc);
    else
        sgemm_(fa, fb, &p->m, &p->n, &p->k, &alpha, p->fa, &p->lda, p->fb, &p->ldb, &beta, p->fc,
               &p->ldc);
}

/* Calls and compares each element of C's memory: those of the matrix with the sum, and the others
 * with what they were. */
static void check_call(product *p, bool from_c)
{
    double *want = malloc(p->c_count * sizeof *want), eps = p->is_double ? 0x1p-52 : 0x1p-23;
    int wrong = 0;
    memcpy(want, p->c, p->c_count * sizeof *want);
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int32_t q = 0; q < p->k; q++)
                sum +=
                    p->a[at(p, p->turns_a, p->lda, i, q)] * p->b[at(p, p->turns_b, p->ldb, q, j)];
            size_t place = at(p, false, p->ldc, i, j);
            want[place] = p->alpha * sum + p->beta * p->c[place];
        }
    call(p, from_c);
    for (size_t i = 0; i < p->c_count; i++) {
        double got = p->is_double ? p->c[i] : (double)p->fc[i];
        bool is_kept = p->is_double ? got == want[i] : (float)got == (float)want[i];
        wrong += !is_kept && !(fabs(got - want[i]) <= eps * (p->k + 10) * 2);
    }
    CHECK_MSG(wrong == 0, "%d wrong: rows %d, trans %d %d, double %d, %d %d %d", wrong, p->by_rows,
              p->turns_a, p->turns_b, p->is_double, (int)p->m, (int)p->n, (int)p->k);
    free(want);
}

static void test_every_form(void)
{
    static const int32_t sizes[][3] = {{5, 7, 9}, {1, 6, 4}, {6, 1, 5}, {7, 3, 0}, {210, 150, 90}};
    for (size_t s = 0; s < UM_COUNT_OF(sizes); s++)
        for (int form = 0; form < 16; form++)
            for (int from_c = form & 1; from_c < 2; from_c++) {
                product p = make(sizes[s][0], sizes[s][1], sizes[s][2], form);
                check_call(&p, from_c);
                drop(&p);
            }
}

/* NaN where the reference does not look. */
static void test_what_is_not_read(void)
{
    product p = make(4, 4, 4, 0);
    for (size_t i = 0; i < p.c_count; i++) p.fc[i] = NAN;
    p.beta = 0;
    call(&p, false);
    for (int32_t i = 0; i < 16; i++) CHECK(!isnan(p.fc[at(&p, false, p.ldc, i / 4, i % 4)]));
    CHECK(isnan(p.fc[4])); /* between the columns */
    drop(&p);
    p = make(4, 4, 4, 0);
    for (size_t i = 0; i < p.a_count; i++) p.fa[i] = NAN;
    p.alpha = 0, p.beta = 2;
    call(&p, false);
    CHECK(p.fc[0] == 2 * (float)p.c[0] && p.fc[4] == (float)p.c[4]);
    const int32_t zero = 0, one = 1, four = 4;
    const float unit = 1;
    sgemm_("N", "N", &zero, &four, &four, &unit, NULL, &one, NULL, &four, &unit, NULL, &one);
    sgemm_("N", "N", &four, &four, &zero, &unit, NULL, &four, NULL, &one, &unit, NULL, &four);
    drop(&p);
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* What `run` writes to stderr. */
static void capture(void (*run)(product *p), product *p, char *text, size_t size)
{
    FILE *file = tmpfile();
    int kept = dup(2);
    fflush(stderr);
    dup2(fileno(file), 2);
    run(p);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

static void call_fortran(product *p) { call(p, false); }
static void call_c(product *p) { call(p, true); }
static void call_unknown_trans(product *p)
{
    cblas_dgemm(BY_ROWS, 7, NO_TRANS, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 1, p->c,
                p->ldc);
}
static void call_unknown_layout(product *p)
{
    cblas_sgemm(1, NO_TRANS, NO_TRANS, p->m, p->n, p->k, 1, p->fa, p->lda, p->fb, p->ldb, 1, p->fc,
                p->ldc);
}

static void test_messages(void)
{
    char text[400];
    product p = make(4, 4, 4, 0), was;
    float before = p.fc[0];
    was = p;
    p.m = -1;
    capture(call_fortran, &p, text, sizeof text);
    CHECK_MSG(strcmp(text, " ** On entry to SGEMM  parameter number  3 had an illegal value\n") ==
                  0,
              "%s", text);
    p = was, p.ldc = 3;
    capture(call_c, &p, text, sizeof text);
    CHECK_MSG(strstr(text, "SGEMM  parameter number 13") != NULL, "%s", text);
    p = was;
    capture(call_unknown_trans, &p, text, sizeof text);
    CHECK_MSG(strcmp(text, "Parameter 2 to routine cblas_dgemm was incorrect\n"
                           "Illegal TransA setting, 7\n") == 0,
              "%s", text);
    capture(call_unknown_layout, &p, text, sizeof text);
    CHECK_MSG(strstr(text, "Illegal layout setting, 1\n") != NULL, "%s", text);
    CHECK(p.fc[0] == before);
    drop(&was);
}

/* ---- threads, fork, memory ---------------------------------------------------------------------
 */

enum { THREADS = 8, ROUNDS = 20, SIDE = 130 };

static product shared; /* A and B of all threads */

static void compute(float *c)
{
    int32_t n = SIDE;
    float one = 1, zero = 0;
    sgemm_("N", "T", &n, &n, &n, &one, shared.fa, &shared.lda, shared.fb, &shared.ldb, &zero, c,
           &n);
}

static float wanted[SIDE * SIDE];

static bool is_computed(void)
{
    float *c = malloc(sizeof wanted);
    compute(c);
    bool same = memcmp(c, wanted, sizeof wanted) == 0;
    free(c);
    return same;
}

static void thread_main(void *wrong)
{
    for (int i = 0; i < ROUNDS; i++) *(int *)wrong += !is_computed();
}

static void test_threads(void)
{
    um_thread thread[THREADS];
    int wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(um_thread_start(&thread[i], thread_main, &wrong[i], "caller"));
    for (int i = 0; i < THREADS; i++) {
        um_thread_join(thread[i]);
        CHECK(wrong[i] == 0);
    }
}

/* The pool's threads are not there in the child. */
static void test_fork(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(is_computed() && is_computed() ? 0 : 1);
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    CHECK(is_computed());
}

static void call_without_memory(product *p)
{
    um_mem_fail_at(1, true);
    check_call(p, false);
    um_mem_fail_at(0, false);
}

/* In a process of its own, whose workers have no scratch yet. */
static void test_no_memory(void)
{
    char text[400];
    product p = make(30, 31, 32, 8), q = make(3, 4, 5, 4);
    capture(call_without_memory, &p, text, sizeof text);
    CHECK_MSG(strcmp(text, "umbel_blas: out of memory: products are computed without scratch\n") ==
                  0,
              "%s", text);
    capture(call_without_memory, &q, text, sizeof text);
    CHECK_MSG(text[0] == 0, "%s", text); /* said once */
    drop(&p), drop(&q);
}

int main(void)
{
    setenv("UMBEL_THREADS", "3", 1);
    TEST(test_no_memory);
    TEST(test_every_form);
    TEST(test_what_is_not_read);
    TEST(test_messages);
    shared = make(SIDE, SIDE, SIDE, 4);
    compute(wanted);
    TEST(test_threads);
    TEST(test_fork);
    drop(&shared);
    return TEST_RESULT();
}
