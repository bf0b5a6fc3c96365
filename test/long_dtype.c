/* test/long_dtype.c: every one of the 2^32 f32 values to every float of at most 16 bits. Rounding
 * keeps order, so the floats that have to become one code are a run: the oracle finds each run's
 * last by the midpoint, and the conversion has to give that code on all of it. Not in the default
 * run: about a minute and a half of processor time. */
#include "base/os.h"
#include "test.h"
#include "test/oracle_dtype.h"

enum { LONG_BATCH = 1 << 14, LONG_INF = 0x7f800000, LONG_END = 0x7fffffff };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Converts the n floats whose bits start at first, with that sign bit; NULL when it fails. The
 * codes are valid until the thread's next call. */
static const uint16_t *convert_run(um_dtype dtype, uint32_t first, uint32_t n, uint32_t sign)
{
    static _Thread_local uint32_t src[LONG_BATCH];
    static _Thread_local uint16_t codes[LONG_BATCH];
    static _Thread_local uint8_t bytes[LONG_BATCH];
    int32_t width = um_dtype_bits(dtype);
    for (uint32_t i = 0; i < n; i++) src[i] = (first + i) | sign;
    void *dst = width == 16 ? (void *)codes : bytes;
    if (um_convert(dtype, dst, UM_F32, src, n) != UM_OK) return NULL;
    for (uint32_t i = 0; i < n && width == 8; i++) codes[i] = bytes[i];
    for (uint32_t i = 0; i < n && width == 4; i++) codes[i] = bytes[i / 2] >> i % 2 * 4 & 15;
    return codes;
}

/* Whether all the floats from first to last, with that sign bit, become `code`. */
static bool run_becomes(um_dtype dtype, uint32_t first, uint32_t last, uint32_t sign, unsigned code)
{
    while (first <= last) {
        uint32_t n = UM_MIN(last - first + 1, (uint32_t)LONG_BATCH), differences = 0;
        const uint16_t *codes = convert_run(dtype, first, n, sign);
        if (!codes) return false;
        for (uint32_t i = 0; i < n; i++) differences |= codes[i] ^ code;
        if (differences) return false;
        first += n;
    }
    return true;
}

/* The bits of the last float >= 0 that becomes a code not above `code`. */
static uint32_t run_end(const oracle_table *t, int code)
{
    bool last = code == (oracle_has_inf(t) ? t->count : t->count - 1);
    if (last) return LONG_INF;
    double half = oracle_midpoint(t, code);
    float end = (float)half;
    bool past = (double)end > half || ((double)end == half && code % 2 == 1);
    return past ? bits_of(nextafterf(end, 0)) : bits_of(end);
}

static bool all_numbers(const oracle_table *t, uint32_t sign)
{
    unsigned sign_code = sign ? 1u << (t->format->exp_bits + t->format->man_bits) : 0;
    uint32_t first = 0;
    for (int code = 0; first <= LONG_INF; code++) {
        uint32_t last = run_end(t, code);
        unsigned want = (unsigned)code | sign_code;
        if (t->format->style == ORACLE_FNUZ && code == 0) want = 0;
        if (last >= first && !run_becomes(t->format->dtype, first, last, sign, want)) return false;
        first = last + 1;
    }
    return true;
}

static bool all_nans(const oracle_table *t, uint32_t sign)
{
    for (uint32_t first = LONG_INF + 1; first <= LONG_END; first += LONG_BATCH) {
        uint32_t n = UM_MIN(LONG_END - first + 1, (uint32_t)LONG_BATCH);
        const uint16_t *codes = convert_run(t->format->dtype, first, n, sign);
        if (!codes) return false;
        for (uint32_t i = 0; i < n; i++)
            if (!oracle_small_right(t, codes[i], (long double)NAN)) return false;
    }
    return true;
}

typedef struct half_job {
    const oracle_table *table;
    uint32_t sign;
    bool good;
} half_job;

static void run_half(void *arg)
{
    half_job *job = arg;
    job->good = all_numbers(job->table, job->sign) && all_nans(job->table, job->sign);
}

/* e8m0 takes the nearest power of two by runs of its own: up to 1.5 times one, that one. */
static bool all_e8m0(void)
{
    uint32_t first = 0;
    for (int code = 0; code <= 254; code++) {
        float end = code == 254 ? FLT_MAX : nextafterf((float)ldexp(1.5, code - 127), 0);
        if (!run_becomes(UM_F8E8M0, first, bits_of(end), 0, (unsigned)code)) return false;
        first = bits_of(end) + 1;
    }
    return run_becomes(UM_F8E8M0, LONG_INF, LONG_END, 0, 255) &&
           run_becomes(UM_F8E8M0, 0, LONG_INF - 1, 0x80000000, 0) &&
           run_becomes(UM_F8E8M0, LONG_INF, LONG_END, 0x80000000, 255);
}

int main(void)
{
    static oracle_table table;
    for (int i = 0; i < ORACLE_FORMATS; i++) {
        oracle_fill(&table, &oracle_formats[i]);
        half_job minus = {&table, 0x80000000, false}, plus = {&table, 0, false};
        um_thread thread;
        CHECK_OK(um_thread_start(&thread, run_half, &minus, "minus"));
        run_half(&plus);
        um_thread_join(thread);
        CHECK_MSG(plus.good, "f32 >= 0 to %s", um_dtype_name(oracle_formats[i].dtype));
        CHECK_MSG(minus.good, "f32 < 0 to %s", um_dtype_name(oracle_formats[i].dtype));
        printf("f32 to %s: all 2^32\n", um_dtype_name(oracle_formats[i].dtype));
        fflush(stdout);
    }
    CHECK_MSG(all_e8m0(), "f32 to f8e8m0");
    return TEST_RESULT();
}
