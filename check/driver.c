/* check/driver.c: walks the op table: every row x dtype x sample x variant x round that makes
 * sense, and picks those that the pattern names. case.c runs one.
 */
#include "check/inside.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NAME_SIZE = 256,
    DETAIL_SIZE = 1024,
    BIG = 16384,
    FEW = 24,
    MAX_WORKERS = 8,
    DTYPE_END = UM_BOOL + 1
};

/* ---- names ----------------------------------------------------------------------------------- */

static bool glob(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

/* A pattern that names no op. */
static bool matches_name(const char *pattern, const char *case_name)
{
    if (!pattern || !*pattern) return true;
    return strpbrk(pattern, "*?") ? glob(pattern, case_name) : strstr(case_name, pattern) != NULL;
}

bool um_check_matches(const char *pattern, const char *op_name, const char *case_name)
{
    if (pattern && um_op_find(pattern) != UM_OP_NONE) return strcmp(pattern, op_name) == 0;
    return matches_name(pattern, case_name);
}

/* ---- which cases there are ------------------------------------------------------------------- */

static bool has_fill(const um_sample *sample, um_fill_kind fill)
{
    for (int32_t k = 0; k < sample->op.in_count; k++)
        if (sample->fill[k] == fill) return true;
    return false;
}

static int64_t count_elements(const um_op *op)
{
    int64_t count = um_view_count(&op->out[0]);
    for (int32_t k = 0; k < op->in_count; k++) count += um_view_count(&op->in[k]);
    return count;
}

static bool round_applies(const um_sample *sample, um_round round)
{
    bool special = round == UM_ROUND_SPECIALS || round == UM_ROUND_RARE;
    if (round == UM_ROUND_RANDOM) return true;
    if (round == UM_ROUND_BAD_INDEX)
        return um_oracle_takes_indices(sample->op.id) && has_fill(sample, UM_FILL_INDICES);
    return has_fill(sample, UM_FILL_VALUES) && !(special && sample->no_specials);
}

/* Scalars have nothing to transpose or to turn; ops without inputs nothing to slice. */
static bool variant_applies(const um_sample *sample, um_variant variant)
{
    const um_op *op = &sample->op;
    int32_t rank = op->out[0].rank;
    for (int32_t k = 0; k < op->in_count; k++) rank = UM_MAX(rank, op->in[k].rank);
    switch (variant) {
    case UM_VARIANT_PACKED:
    case UM_VARIANT_STRIDED_OUT: return true;
    case UM_VARIANT_SLICED: return op->in_count > 0;
    case UM_VARIANT_BROADCAST: return op->in_count > 0 && rank > 0;
    case UM_VARIANT_TRANSPOSED: return rank > 1;
    case UM_VARIANT_NEGATIVE:
    case UM_VARIANT_MIXED: return rank > 0;
    case UM_VARIANT_IN_PLACE: return um_case_in_place_input(op) >= 0;
    case UM_VARIANT_COUNT: break;
    }
    return false;
}

/* Packed views see every round. The other views take turns with plain and special values, by the
 * sample's number; past the first samples they take turns altogether. A big sample is tried with
 * plain values, packed or mixed. */
static bool case_applies(const um_op_row *row, const um_sample *sample, int32_t index,
                         um_variant variant, um_round round)
{
    um_round special = row->family == UM_FAMILY_MAP ? UM_ROUND_SPECIALS : UM_ROUND_RARE;
    if (!round_applies(sample, round) || !variant_applies(sample, variant)) return false;
    if (count_elements(&sample->op) > BIG)
        return round == UM_ROUND_RANDOM &&
               variant == ((index + row->id) % 2 ? UM_VARIANT_PACKED : UM_VARIANT_MIXED);
    if (variant == UM_VARIANT_PACKED) return true;
    if (round == UM_ROUND_BAD_INDEX) return variant == UM_VARIANT_MIXED;
    if (index >= FEW && index % (UM_VARIANT_COUNT - 1) + 1 != (int32_t)variant) return false;
    bool turn = (index + (int32_t)variant) % 2 != 0 && round_applies(sample, special);
    return round == (turn ? special : UM_ROUND_RANDOM);
}

/* ---- walking --------------------------------------------------------------------------------- */

/* What the workers share. */
typedef struct shared {
    const um_check_options *options;
    um_check_result *result;
    um_mutex lock; /* of result, done, error, and of the calls to on_case */
    um_op_id only; /* the op that the pattern names, or NONE */
    int64_t total, done;
    int32_t worker_count;
    um_error error; /* the first that ended a worker; code OK: none */
} shared;

/* Each worker walks the whole table and takes every worker_count'th case. */
typedef struct worker {
    shared *all;
    um_stream *stream; /* NULL: only counts */
    int64_t count;     /* cases seen so far */
    int32_t number;
    bool started;
    um_thread thread;
    char name[NAME_SIZE], detail[DETAIL_SIZE];
} worker;

/* Returns the error that ended another worker, if any. */
static um_status report(worker *w, um_check_outcome outcome, uint64_t digest)
{
    shared *all = w->all;
    um_mutex_lock(&all->lock);
    um_check_case result = {w->name, outcome, w->detail, ++all->done, all->total};
    all->result->passed += outcome == UM_CHECK_PASSED;
    all->result->failed += outcome == UM_CHECK_FAILED;
    all->result->skipped += outcome == UM_CHECK_SKIPPED;
    all->result->digest += digest; /* in any order */
    if (all->options->on_case) all->options->on_case(all->options->user, &result);
    um_status status = all->error.code;
    um_mutex_unlock(&all->lock);
    return status;
}

static um_status visit_case(worker *w, um_case *it, um_dtype dtype, int32_t index)
{
    snprintf(w->name, sizeof w->name, "%s/%s/%d:%s/%s/%s", it->row->name, um_dtype_name(dtype),
             (int)index, it->sample->label, um_variant_name(it->variant), um_round_name(it->round));
    if (!w->all->only && !matches_name(w->all->options->pattern, w->name)) return UM_OK;
    int64_t number = w->count++;
    if (!w->stream || number % w->all->worker_count != w->number) return UM_OK;
    um_check_outcome outcome;
    uint64_t digest = um_rng_make(0, w->name).state;
    um_status status = um_case_run(it, &outcome, w->detail, sizeof w->detail, &digest);
    return status == UM_OK ? report(w, outcome, digest) : status;
}

static um_status visit_sample(worker *w, const um_op_row *row, um_dtype dtype, int32_t index,
                              const um_sample *sample)
{
    um_case it = {.row = row,
                  .sample = sample,
                  .name = w->name,
                  .stream = w->stream,
                  .options = w->all->options,
                  .flushes = w->all->result->flushes};
    for (int v = 0; v < UM_VARIANT_COUNT; v++)
        for (int r = 0; r < UM_ROUND_COUNT; r++) {
            it.variant = (um_variant)v;
            it.round = (um_round)r;
            if (!case_applies(row, sample, index, it.variant, it.round)) continue;
            um_status status = visit_case(w, &it, dtype, index);
            if (status != UM_OK) return status;
        }
    return UM_OK;
}

static um_status visit_dtype(worker *w, const um_op_row *row, um_dtype dtype)
{
    um_status status = UM_OK;
    for (int32_t index = 0; status == UM_OK; index++) {
        um_sample sample = {.op.id = row->id};
        if (!row->sample(index, dtype, &sample)) break;
        status = visit_sample(w, row, dtype, index, &sample);
    }
    return status;
}

static um_status visit_all(worker *w)
{
    um_status status = UM_OK;
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        const um_op_row *row = um_op_get_row(id);
        if (w->all->only && w->all->only != id) continue;
        for (um_dtype dtype = 1; dtype < DTYPE_END && status == UM_OK; dtype++)
            if (row->dtypes & UM_BIT(dtype)) status = visit_dtype(w, row, dtype);
    }
    return status;
}

/* The device's own cases, which are no op's; without a stream they are only counted. */
static um_status visit_device(worker *w)
{
    um_status status = UM_OK;
    const char *name;
    for (int32_t i = 0; status == UM_OK && (name = um_device_case_name(i)); i++) {
        um_check_outcome outcome;
        if (w->all->only || !matches_name(w->all->options->pattern, name)) continue;
        if (!w->stream) {
            w->all->total++;
            continue;
        }
        snprintf(w->name, sizeof w->name, "%s", name);
        status = um_device_case_run(i, w->all->options, &outcome, w->detail, sizeof w->detail);
        if (status == UM_OK) status = report(w, outcome, 0);
    }
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static void work(void *arg)
{
    worker *w = arg;
    um_status status = um_stream_create(w->all->options->device, &w->stream);
    if (status == UM_OK && w->number == 0) status = visit_device(w);
    if (status == UM_OK) status = visit_all(w);
    um_stream_release(w->stream);
    um_mutex_lock(&w->all->lock);
    if (status != UM_OK && w->all->error.code == UM_OK) {
        w->all->error = *um_last_error();
        w->all->error.code = status;
    }
    um_mutex_unlock(&w->all->lock);
}

/* The first worker is this thread; one whose thread does not start is done here, too. */
static void run_workers(worker *workers, int32_t count)
{
    for (int32_t i = 1; i < count; i++)
        workers[i].started =
            um_thread_start(&workers[i].thread, work, &workers[i], "check") == UM_OK;
    for (int32_t i = 0; i < count; i++)
        if (!workers[i].started) work(&workers[i]);
    for (int32_t i = 1; i < count; i++)
        if (workers[i].started) um_thread_join(workers[i].thread);
}

um_status um_check_run(const um_check_options *options, um_check_result *out)
{
    *out = (um_check_result){.flushes = um_device_flushes(options->device)};
    shared all = {.options = options, .result = out};
    if (options->pattern) all.only = um_op_find(options->pattern);
    all.worker_count = UM_MIN(um_os_cpu_count(), MAX_WORKERS);
    worker *workers = calloc(MAX_WORKERS, sizeof *workers);
    if (!workers) return UM_FAIL(UM_OUT_OF_MEMORY, "check: no memory");
    for (int32_t i = 0; i < all.worker_count; i++) workers[i] = (worker){.all = &all, .number = i};
    um_status status = visit_all(&workers[0]);
    all.total = workers[0].count;
    if (status == UM_OK) status = visit_device(&workers[0]);
    workers[0].count = 0;
    if (status == UM_OK && all.total == 0)
        status = UM_FAIL(UM_NOT_FOUND, "check: no case matches '%s'", options->pattern);
    if (status == UM_OK) status = um_mutex_init(&all.lock);
    if (status == UM_OK) {
        run_workers(workers, all.worker_count);
        um_mutex_destroy(&all.lock);
        if (all.error.code != UM_OK) status = um_fail_again(&all.error);
    }
    free(workers);
    return status;
}
