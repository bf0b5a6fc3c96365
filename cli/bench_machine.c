/* cli/bench_machine.c: what this machine can do at best, measured: multiply-adds from registers,
 * and moving bytes between arrays that no cache holds. `umbel bench` sets results against it.
 */
#include "base/os.h"
#include "cli/bench.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, ROUNDS = 16, MAX_THREADS = 256 };
#define ARRAY_FLOATS ((int64_t)16 << 20) /* 64 MiB an array */
#define PROBE_NS     10000000            /* short, and many: some are undisturbed */

/* ---- probes ---------------------------------------------------------------------------------- */

typedef float floats __attribute__((vector_size(16)));
typedef double doubles __attribute__((vector_size(16)));

#define PROBE probe_f32
#define TARGET
#define VECTOR       floats
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cli/bench_fma.inc"

#define PROBE probe_f64
#define TARGET
#define VECTOR       doubles
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cli/bench_fma.inc"

#if defined(__x86_64__)
#define PROBE  probe_f32_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR __m256
#define FMA    _mm256_fmadd_ps
#include "cli/bench_fma.inc"

#define PROBE  probe_f64_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR __m256d
#define FMA    _mm256_fmadd_pd
#include "cli/bench_fma.inc"
#endif

typedef struct probe {
    double (*run)(int64_t steps);
    int32_t lanes;
} probe;

static probe pick_probe(bool f64)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return f64 ? (probe){probe_f64_avx2, 4} : (probe){probe_f32_avx2, 8};
#endif
    return f64 ? (probe){probe_f64, 2} : (probe){probe_f32, 4};
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    um_thread thread;
    bool running;
    void (*fn)(struct worker *worker);
    probe probe;
    int64_t steps, first, count;
    float *a;
    const float *b, *c;
    double result;
} worker;

static void start(void *arg)
{
    worker *w = arg;
    w->fn(w);
}

/* Runs every worker, the first one on this thread; the time it took. A thread that does not start
 * is done here, too. */
static int64_t run_all(worker *workers, int32_t count)
{
    int64_t begin = um_os_now_ns();
    for (int32_t i = 1; i < count; i++)
        workers[i].running =
            um_thread_start(&workers[i].thread, start, &workers[i], "bench") == UM_OK;
    for (int32_t i = 0; i < count; i++)
        if (!workers[i].running) workers[i].fn(&workers[i]);
    for (int32_t i = 1; i < count; i++)
        if (workers[i].running) um_thread_join(workers[i].thread);
    return um_os_now_ns() - begin;
}

/* ---- peak ------------------------------------------------------------------------------------ */

static void run_probe(worker *w) { w->result = w->probe.run(w->steps); }

static double measure_peak(worker *workers, int32_t count, bool f64)
{
    probe p = pick_probe(f64);
    double best = 0;
    int64_t steps = 10000, ns = 0;
    for (int32_t i = 0; i < count; i++) workers[i] = (worker){.fn = run_probe, .probe = p};
    for (int32_t round = 0; round < ROUNDS;) {
        for (int32_t i = 0; i < count; i++) workers[i].steps = steps;
        ns = run_all(workers, count);
        if (ns < PROBE_NS) {
            steps *= 2;
            continue;
        }
        double rate = 2.0 * CHAINS * p.lanes * (double)steps * count / (double)ns * 1e9;
        best = UM_MAX(best, rate);
        round++;
    }
    return best;
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

static void run_copy(worker *w)
{
    memcpy(w->a + w->first, w->b + w->first, (size_t)w->count * sizeof *w->a);
}

static void run_triad(worker *w)
{
    for (int64_t i = w->first; i < w->first + w->count; i++) w->a[i] = w->b[i] + 3 * w->c[i];
}

static double measure_bandwidth(worker *workers, int32_t count, float *memory)
{
    double best = 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t first = ARRAY_FLOATS * i / count, end = ARRAY_FLOATS * (i + 1) / count;
        workers[i] = (worker){.first = first, .count = end - first, .a = memory};
        workers[i].b = memory + ARRAY_FLOATS;
        workers[i].c = memory + 2 * ARRAY_FLOATS;
    }
    for (int32_t round = 0; round < 2 * ROUNDS; round++) {
        bool triad = round % 2;
        for (int32_t i = 0; i < count; i++) workers[i].fn = triad ? run_triad : run_copy;
        int64_t ns = run_all(workers, count);
        double bytes = (triad ? 3.0 : 2.0) * ARRAY_FLOATS * sizeof(float);
        best = UM_MAX(best, bytes / (double)ns * 1e9);
        for (int32_t i = 0; i < count; i++) workers[i].running = false;
    }
    return best;
}

um_status bench_machine_measure(int32_t threads, bench_machine *out)
{
    int32_t count = UM_MAX(1, UM_MIN(threads, MAX_THREADS));
    worker *workers = calloc((size_t)count, sizeof *workers);
    float *memory = malloc(3 * ARRAY_FLOATS * sizeof *memory);
    *out = (bench_machine){0};
    if (!workers || !memory) {
        free(workers);
        free(memory);
        return UM_FAIL(UM_OUT_OF_MEMORY, "bench: no memory for the machine's measures");
    }
    memset(memory, 0, 3 * ARRAY_FLOATS * sizeof *memory);
    out->limit[BENCH_F32_PEAK] = measure_peak(workers, count, false);
    out->limit[BENCH_F64_PEAK] = measure_peak(workers, count, true);
    out->limit[BENCH_BANDWIDTH] = measure_bandwidth(workers, count, memory);
    free(workers);
    free(memory);
    return UM_OK;
}
