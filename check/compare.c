/* check/compare.c: judges one result by what the oracle expects. */
#include "check/oracle.h"

#include <math.h>
#include <stdio.h>

um_expect um_expect_num(um_num num) { return (um_expect){.num = num, .judge = UM_JUDGE_EXACT}; }

um_expect um_expect_near(long double want, double bound)
{
    return (um_expect){.want = want, .bound = bound, .judge = UM_JUDGE_NEAR};
}

/* A float's interval of right results, rounded to the dtype. */
static void get_range(const um_expect *expect, um_dtype dtype, double *low, double *high)
{
    bool fuzzy = isfinite(expect->want) && expect->bound > 0;
    long double bound = fuzzy ? (long double)expect->bound : 0;
    *low = um_oracle_round(dtype, expect->want - bound);
    *high = fuzzy ? um_oracle_round(dtype, expect->want + bound) : *low;
}

static bool accepts_float(const um_expect *expect, um_dtype dtype, double got)
{
    double low, high;
    get_range(expect, dtype, &low, &high);
    if (isnan(low)) return isnan(got);
    if (isnan(got) || got < low || got > high) return false;
    return got != 0 || expect->bound > 0 || signbit(got) == signbit(low);
}

/* An integer made from a float that is only known within a bound. */
static bool accepts_int(const um_expect *expect, um_dtype dtype, um_num got)
{
    um_num low = {.f = (double)(expect->want - (long double)expect->bound)};
    um_num high = {.f = (double)(expect->want + (long double)expect->bound)};
    low = um_oracle_convert(dtype, UM_F64, low);
    high = um_oracle_convert(dtype, UM_F64, high);
    long double value = um_oracle_real(dtype, got);
    if (dtype == UM_BOOL) return got.u == low.u || got.u == high.u;
    return value >= um_oracle_real(dtype, low) && value <= um_oracle_real(dtype, high);
}

bool um_expect_accepts(const um_expect *expect, um_dtype dtype, um_num got)
{
    bool is_float = um_oracle_is_float(dtype);
    switch (expect->judge) {
    case UM_JUDGE_EXACT: return got.u == expect->num.u;
    case UM_JUDGE_ANY: return true;
    case UM_JUDGE_LOOSE:
        if (!is_float || !isfinite(got.f) || isnan(expect->bound)) return true;
        break;
    case UM_JUDGE_NEAR: break;
    }
    return is_float ? accepts_float(expect, dtype, got.f) : accepts_int(expect, dtype, got);
}

const char *um_num_text(um_dtype dtype, um_num value, char *text, size_t size)
{
    if (um_oracle_is_float(dtype))
        snprintf(text, size, "%.*g", dtype == UM_F64 ? 17 : 9, value.f);
    else if (dtype == UM_U64)
        snprintf(text, size, "%llu", (unsigned long long)value.u);
    else
        snprintf(text, size, "%lld", (long long)value.i);
    return text;
}

const char *um_expect_text(const um_expect *expect, um_dtype dtype, char *text, size_t size)
{
    if (expect->judge == UM_JUDGE_EXACT) return um_num_text(dtype, expect->num, text, size);
    if (!(expect->bound > 0))
        snprintf(text, size, "%.17Lg", expect->want);
    else
        snprintf(text, size, "%.17Lg within %.3g", expect->want, expect->bound);
    return text;
}
