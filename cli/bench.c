/* cli/bench.c: `umbel bench`: the time of each case and how far it is from what the machine can do.
 * Cases are in bench_cases.c, the machine's limits in bench_machine.c.
 */
#include "cli/bench.h"

#include "base/os.h"
#include "check/check.h"
#include "cli/cli.h"

#include <stdlib.h>

enum { MAX_SAMPLES = 15, MIN_SAMPLES = 5 };

typedef struct bench_plan {
    const char *pattern, *device_spec;
    bool as_json, quick;
    int64_t threads;
    um_device *device;
    um_stream *stream;
    um_caps caps;
    bench_machine machine;
    cli_progress progress;
    cli_json json;
} bench_plan;

typedef struct bench_result {
    double median_s, spread; /* half the range over the median */
    int32_t sample_count;
    int64_t runs_each;
} bench_result;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Fills with numbers in [-1, 1): a block of 4096 of them, over and over. */
static um_status fill_view(um_stream *stream, const um_view *view)
{
    enum { BLOCK = 4096 };
    double real[BLOCK];
    uint64_t state = 1, stored[BLOCK];
    size_t block_bytes, size_bytes;
    for (int i = 0; i < BLOCK; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        real[i] = (double)(int64_t)state / 9223372036854775808.0;
    }
    um_status status = um_convert(view->dtype, stored, UM_F64, real, BLOCK);
    if (status == UM_OK) status = um_dtype_size(view->dtype, BLOCK, &block_bytes);
    if (status == UM_OK) status = um_dtype_size(view->dtype, um_view_count(view), &size_bytes);
    for (size_t at = 0; status == UM_OK && at < size_bytes; at += block_bytes)
        status = um_write(stream, view->ptr + at, stored, UM_MIN(block_bytes, size_bytes - at));
    return status;
}

static um_status make_view(bench_plan *plan, um_view *view)
{
    size_t size_bytes;
    um_status status = um_dtype_size(view->dtype, um_view_count(view), &size_bytes);
    if (status == UM_OK) status = um_alloc(plan->device, size_bytes, &view->ptr);
    return status == UM_OK ? fill_view(plan->stream, view) : status;
}

static um_status make_views(bench_plan *plan, um_op *op)
{
    um_status status = UM_OK;
    for (int32_t k = 0; status == UM_OK && k < op->out_count; k++)
        status = make_view(plan, &op->out[k]);
    for (int32_t k = 0; status == UM_OK && k < op->in_count; k++)
        status = make_view(plan, &op->in[k]);
    return status;
}

static um_status free_views(bench_plan *plan, const um_op *op)
{
    um_status status = UM_OK;
    for (int32_t k = 0; k < op->out_count; k++) {
        um_status one = um_free(plan->device, op->out[k].ptr);
        if (status == UM_OK) status = one;
    }
    for (int32_t k = 0; k < op->in_count; k++) {
        um_status one = um_free(plan->device, op->in[k].ptr);
        if (status == UM_OK) status = one;
    }
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static um_status time_runs(bench_plan *plan, const um_op *op, int64_t runs, double *seconds)
{
    int64_t begin = um_os_now_ns();
    um_status status = UM_OK;
    for (int64_t i = 0; status == UM_OK && i < runs; i++) status = um_enqueue(plan->stream, op);
    if (status == UM_OK) status = um_synchronize(plan->stream);
    *seconds = (double)(um_os_now_ns() - begin) / 1e9;
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Warms up, finds how many runs fill a sample, then takes samples while half a second lasts. */
static um_status measure(bench_plan *plan, const um_op *op, bench_result *out)
{
    double sample_s = plan->quick ? 0.005 : 0.02, once = 0, total = 0, samples[MAX_SAMPLES];
    *out = (bench_result){.runs_each = 1};
    um_status status = time_runs(plan, op, 1, &once);
    for (once = 0; status == UM_OK && once < sample_s;) {
        status = time_runs(plan, op, out->runs_each, &once);
        if (once < sample_s) out->runs_each *= once < sample_s / 4 ? 4 : 2;
    }
    int32_t n = 0;
    while (status == UM_OK && n < MAX_SAMPLES && (n < MIN_SAMPLES || total < 25 * sample_s)) {
        status = time_runs(plan, op, out->runs_each, &samples[n]);
        total += samples[n++];
    }
    if (status != UM_OK) return status;
    qsort(samples, (size_t)n, sizeof *samples, compare_doubles);
    out->median_s = samples[n / 2] / (double)out->runs_each;
    out->spread = (samples[n - 1] - samples[0]) / 2 / samples[n / 2];
    out->sample_count = n;
    return UM_OK;
}

static um_status run_case(bench_plan *plan, bench_case *it, bench_result *result)
{
    um_status status = make_views(plan, &it->op);
    if (status == UM_OK) status = measure(plan, &it->op, result);
    um_status freed = free_views(plan, &it->op);
    return status == UM_OK ? freed : status;
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *limit_unit(bench_limit limit)
{
    return limit == BENCH_BANDWIDTH ? "GB/s" : "GFLOP/s";
}

static const char *time_text(double seconds, char *text, size_t size)
{
    if (seconds < 1e-3)
        snprintf(text, size, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, size, "%.2f ms", seconds * 1e3);
    else
        snprintf(text, size, "%.2f s", seconds);
    return text;
}

static void show_head(const bench_plan *plan)
{
    printf("%s: %s, %d threads\n", um_device_name(plan->device), plan->caps.name,
           plan->caps.compute_units);
    if (plan->machine.limit[BENCH_BANDWIDTH] > 0)
        printf("this machine: %.1f GFLOP/s f32, %.1f GFLOP/s f64, %.1f GB/s\n",
               plan->machine.limit[BENCH_F32_PEAK] / 1e9, plan->machine.limit[BENCH_F64_PEAK] / 1e9,
               plan->machine.limit[BENCH_BANDWIDTH] / 1e9);
    printf("\n%-34s %12s %7s %17s %9s\n", "case", "time", "+-", "rate", "of best");
}

static void show_result(const bench_plan *plan, const bench_case *it, const bench_result *result)
{
    char time[32];
    double rate = it->work / result->median_s, best = plan->machine.limit[it->limit];
    printf("%-34s %12s %6.1f%% %9.1f %-7s", it->name,
           time_text(result->median_s, time, sizeof time), result->spread * 100, rate / 1e9,
           limit_unit(it->limit));
    if (best > 0) printf(" %7.1f%%", rate / best * 100);
    putchar('\n');
    fflush(stdout);
}

static void json_head(bench_plan *plan)
{
    cli_json *json = &plan->json;
    *json = (cli_json){.file = stdout};
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "device", um_device_name(plan->device));
    cli_json_text(json, "name", plan->caps.name);
    cli_json_text(json, "isa", plan->caps.isa);
    cli_json_int(json, "threads", plan->caps.compute_units);
    cli_json_number(json, "peak_f32_flops", plan->machine.limit[BENCH_F32_PEAK]);
    cli_json_number(json, "peak_f64_flops", plan->machine.limit[BENCH_F64_PEAK]);
    cli_json_number(json, "bandwidth_bytes", plan->machine.limit[BENCH_BANDWIDTH]);
    cli_json_open(json, "cases", '[');
}

/* result NULL: refused, for the reason. */
static void json_result(bench_plan *plan, const bench_case *it, const bench_result *result,
                        const char *why)
{
    cli_json *json = &plan->json;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "name", it->name);
    if (result) {
        double rate = it->work / result->median_s, best = plan->machine.limit[it->limit];
        cli_json_number(json, "seconds", result->median_s);
        cli_json_number(json, "spread", result->spread);
        cli_json_int(json, "samples", result->sample_count);
        cli_json_int(json, "runs_per_sample", result->runs_each);
        cli_json_number(json, "rate", rate / 1e9);
        cli_json_text(json, "unit", limit_unit(it->limit));
        if (best > 0) cli_json_number(json, "of_best", rate / best);
    } else {
        cli_json_text(json, "refused", why);
    }
    cli_json_close(json, '}');
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool is_wanted(const bench_plan *plan, const bench_case *it)
{
    return um_check_matches(plan->pattern, um_op_name(it->op.id), it->name);
}

static int32_t count_wanted(const bench_plan *plan)
{
    bench_case it;
    int32_t count = 0;
    for (int32_t i = 0; bench_get_case(i, &it); i++) count += is_wanted(plan, &it);
    return count;
}

static um_status visit_case(bench_plan *plan, bench_case *it)
{
    char why[256];
    bench_result result = {0};
    if (!um_supports(plan->device, &it->op, why, sizeof why)) {
        cli_progress_clear(&plan->progress);
        if (plan->as_json)
            json_result(plan, it, NULL, why);
        else
            printf("%-34s refused: %s\n", it->name, why);
        return UM_OK;
    }
    um_status status = run_case(plan, it, &result);
    cli_progress_clear(&plan->progress);
    if (status != UM_OK) return status;
    if (plan->as_json)
        json_result(plan, it, &result, NULL);
    else
        show_result(plan, it, &result);
    return UM_OK;
}

static um_status visit_cases(bench_plan *plan, int32_t total)
{
    bench_case it;
    um_status status = UM_OK;
    int32_t done = 0;
    if (plan->as_json)
        json_head(plan);
    else
        show_head(plan);
    for (int32_t i = 0; status == UM_OK && bench_get_case(i, &it); i++) {
        if (!is_wanted(plan, &it)) continue;
        cli_progress_update(&plan->progress, done++, total, it.name);
        status = visit_case(plan, &it);
    }
    if (plan->as_json) {
        cli_json_close(&plan->json, ']');
        cli_json_close(&plan->json, '}');
    }
    return status;
}

static um_status run_bench(bench_plan *plan, int32_t total)
{
    plan->caps = (um_caps){.struct_size = sizeof plan->caps};
    um_status status = um_open(plan->device_spec, &plan->device);
    if (status == UM_OK) status = um_device_caps(plan->device, &plan->caps);
    if (status == UM_OK) status = um_stream_create(plan->device, &plan->stream);
    cli_progress_start(&plan->progress);
    cli_progress_update(&plan->progress, 0, total, "this machine's limits");
    if (status == UM_OK && plan->caps.kind == UM_DEVICE_CPU)
        status = bench_machine_measure(plan->caps.compute_units, &plan->machine);
    cli_progress_clear(&plan->progress);
    if (status == UM_OK) status = visit_cases(plan, total);
    um_stream_release(plan->stream);
    um_device_release(plan->device);
    return status;
}

static int start_bench(bench_plan *plan)
{
    int32_t total = count_wanted(plan);
    if (total == 0) return cli_fail("no case matches '%s'", plan->pattern);
    if (plan->threads > 0) {
        char threads[16];
        snprintf(threads, sizeof threads, "%d", (int)plan->threads);
        if (setenv("UMBEL_THREADS", threads, 1) != 0) return cli_fail("no memory");
    }
    return run_bench(plan, total) == UM_OK ? CLI_DONE : cli_fail_status();
}

int cli_bench(int argc, char **argv)
{
    bench_plan plan = {0};
    const cli_option options[] = {
        {.name = "PATTERN",
         .kind = CLI_ARG,
         .out = &plan.pattern,
         .doc = "an op, a glob over case names ('*/f64/*'), or part of one; default: all"},
        {.name = "device",
         .kind = CLI_TEXT,
         .value = "D",
         .out = &plan.device_spec,
         .doc = "auto, cpu, cpu:0, ...; default: UMBEL_DEVICE or auto"},
        {.name = "threads",
         .kind = CLI_INT,
         .value = "N",
         .out = &plan.threads,
         .min = 1,
         .max = 256,
         .doc = "of the CPU; default: UMBEL_THREADS or all processors"},
        {.name = "quick", .kind = CLI_FLAG, .out = &plan.quick, .doc = "shorter samples"},
        {.name = "json", .kind = CLI_FLAG, .out = &plan.as_json, .doc = "for programs"},
    };
    const cli_command command = {
        .name = "bench",
        .summary = "Measure a device's speed.",
        .details = "Times are medians of 5 to 15 samples of 20 ms or more; +- is half the range. "
                   "Percentages are\nof multiply-adds from registers, or of copying between large "
                   "arrays, measured at the start\nwith as many threads.\n",
        .options = options,
        .option_count = 5};
    int code = cli_parse(&command, argc, argv);
    return code == CLI_GO ? start_bench(&plan) : code;
}
