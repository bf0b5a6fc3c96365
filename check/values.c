/* check/values.c: random and special values, made from a case's name and seed. */
#include "check/inside.h"

#include <math.h>

/* ---- random numbers (Steele, Lea, Flood 2014: splitmix64) ------------------------------------ */

um_rng um_rng_make(uint64_t seed, const char *name)
{
    um_rng rng = {seed};
    for (; *name; name++) {
        rng.state ^= (uint8_t)*name;
        (void)um_rng_next(&rng);
        rng.state *= 0x100000001b3;
    }
    return rng;
}

uint64_t um_rng_next(um_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int64_t um_rng_below(um_rng *rng, int64_t n) { return (int64_t)(um_rng_next(rng) >> 1) % n; }

double um_rng_unit(um_rng *rng) { return ldexp((double)(um_rng_next(rng) >> 11), -53); }

/* ---- values ---------------------------------------------------------------------------------- */

const char *um_round_name(um_round round)
{
    static const char *const names[] = {"random", "ties", "specials", "rare", "bad_index"};
    return names[round];
}

static um_num to_dtype(um_dtype dtype, double value)
{
    return um_oracle_convert(dtype, UM_F64, (um_num){.f = value});
}

/* Uniform; where 0 is inside also near it, at all magnitudes. */
static double pick_real(double lo, double hi, um_rng *rng)
{
    double value = lo + um_rng_unit(rng) * (hi - lo);
    bool small = lo <= 0 && hi >= 0 && um_rng_below(rng, 4) == 0;
    return small ? ldexp(value, -(int)um_rng_below(rng, 40)) : value;
}

static um_num pick_int(um_dtype dtype, double lo, double hi, um_rng *rng)
{
    if (hi - lo < 0x1p53) return to_dtype(dtype, lo + floor(um_rng_unit(rng) * (hi - lo + 1)));
    return um_oracle_wrap(dtype, um_rng_next(rng));
}

static um_num pick_tie(um_dtype dtype, double lo, double hi, um_rng *rng)
{
    double value = (double)um_rng_below(rng, 9) / 2 - 2;
    if (value == 0 && um_rng_below(rng, 2)) value = -0.0;
    if (!um_oracle_is_float(dtype)) value = floor(value);
    return to_dtype(dtype, fmin(fmax(value, lo), hi));
}

static um_num special_float(um_dtype dtype, um_rng *rng)
{
    double max = um_oracle_max(dtype), tiny = um_oracle_ulp(dtype, 0), inf = (double)INFINITY;
    const double values[] = {(double)NAN, inf,     -inf,     -0.0,     0,         1,          -1,
                             0.5,         -0.5,    1.5,      2.5,      max,       -max,       tiny,
                             -tiny,       max / 2, -max / 3, tiny * 5, sqrt(max), -sqrt(max), 1e4,
                             -1e4,        88.5,    -90,      -104};
    return to_dtype(dtype, values[um_rng_below(rng, (int64_t)UM_COUNT_OF(values))]);
}

static um_num special_int(um_dtype dtype, um_rng *rng)
{
    const int64_t small[] = {0, 1, 2, -1, -2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 100};
    int64_t n = (int64_t)UM_COUNT_OF(small), i = um_rng_below(rng, n + 4);
    if (i < n) return um_oracle_wrap(dtype, (uint64_t)small[i]);
    if (i == n) return um_oracle_lowest(dtype);
    if (i == n + 1) return um_oracle_highest(dtype);
    return um_oracle_wrap(dtype, um_rng_next(rng));
}

/* An index that is none of 0 to `last`. */
static um_num bad_index(um_dtype dtype, double last, um_rng *rng)
{
    int64_t i = um_rng_below(rng, 4);
    if (i == 0) return (um_num){.i = -1};
    if (i == 1) return um_oracle_lowest(dtype);
    return i == 2 ? um_oracle_highest(dtype) : (um_num){.i = (int64_t)last + 1};
}

um_num um_value_make(const um_sample *sample, int32_t input, um_round round, um_rng *rng)
{
    const um_view *view = &sample->op.in[input];
    um_dtype dtype = view->dtype;
    double lo = sample->lo[input], hi = sample->hi[input];
    bool is_float = um_oracle_is_float(dtype);
    int64_t one_in = round == UM_ROUND_SPECIALS ? 2 : 64;
    if (sample->fill[input] == UM_FILL_BOOL) return (um_num){.i = um_rng_below(rng, 2)};
    if (sample->fill[input] == UM_FILL_INDICES) {
        bool bad = round == UM_ROUND_BAD_INDEX && um_rng_below(rng, 3) == 0;
        return bad ? bad_index(dtype, hi, rng) : pick_int(dtype, lo, hi, rng);
    }
    if (round == UM_ROUND_TIES) return pick_tie(dtype, lo, hi, rng);
    if ((round == UM_ROUND_SPECIALS || round == UM_ROUND_RARE) && um_rng_below(rng, one_in) == 0)
        return is_float ? special_float(dtype, rng) : special_int(dtype, rng);
    return is_float ? to_dtype(dtype, pick_real(lo, hi, rng)) : pick_int(dtype, lo, hi, rng);
}
