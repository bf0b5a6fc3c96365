/* check/check.h: the conformance driver: every op of the table over dtypes, sizes, views and
 * values, against the oracle. `umbel check` and the tests call it.
 *
 * A case is op/dtype/sample:label/variant/round, for example
 * "add/f32/3:f32[5,7] f32[5,7]/sliced/specials". Its inputs depend on the name and the seed alone.
 * What a device has to do beside ops are cases "device/memory", "device/events", ...
 */
#ifndef UM_CHECK_CHECK_H
#define UM_CHECK_CHECK_H

#include <umbel/device.h>

typedef enum um_check_outcome {
    UM_CHECK_PASSED,
    UM_CHECK_FAILED,
    UM_CHECK_SKIPPED
} um_check_outcome;

typedef struct um_check_case {
    const char *name;
    um_check_outcome outcome;
    const char *detail;  /* failed: what, got, wanted, bound, element; skipped: why; else "" */
    int64_t done, total; /* cases so far with this one, and in all */
} um_check_case;

typedef struct um_check_options {
    um_device *device;
    /* An op's name, a glob over case names (* and ?), or part of one. NULL or "": every case. */
    const char *pattern;
    uint64_t seed;
    /* May be NULL. Called from several threads, one at a time. */
    void (*on_case)(void *user, const um_check_case *result);
    /* For the driver's own tests, may be NULL: called when an op has run, before its results are
     * read. A um_check that cannot fail would be worthless. */
    void (*after_run)(void *user, um_stream *stream, const um_op *op);
    void *user;
} um_check_options;

typedef struct um_check_result {
    int64_t passed, failed, skipped;
    uint64_t digest; /* of every output bit: equal for equal device, pattern and seed */
    /* The device takes subnormal numbers of f32 for 0: it was given none, and a 0 in place of one
     * is no failure. */
    bool flushes;
} um_check_result;

/* Runs the cases, on every processor, each thread with a stream of its own. NOT_FOUND: no case has
 * such a name. OUT_OF_MEMORY. Failed cases are no error of the call. */
um_status um_check_run(const um_check_options *options, um_check_result *out);

/* Whether the pattern picks the case. */
bool um_check_matches(const char *pattern, const char *op_name, const char *case_name);

#endif
