/* test/oracle_dtype.h: what every dtype conversion has to give, from the definitions of the
 * formats: decoding by ldexp, encoding by a search for the nearest value in a table of all of them.
 * Shares nothing with src/base. Values are long double, so that 64-bit integers are exact where it
 * has 64 bits of mantissa. Included by test_dtype.c and long_dtype.c. */
#ifndef UM_TEST_ORACLE_DTYPE_H
#define UM_TEST_ORACLE_DTYPE_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <umbel/base.h>

typedef enum oracle_style {
    ORACLE_IEEE,  /* highest exponent: inf and NaN */
    ORACLE_FN,    /* no inf; all ones is NaN */
    ORACLE_FNUZ,  /* no inf, no -0; its code is NaN */
    ORACLE_FINITE /* neither */
} oracle_style;

typedef struct oracle_format {
    um_dtype dtype;
    int exp_bits, man_bits, bias;
    oracle_style style;
} oracle_format;

static const oracle_format oracle_formats[] = {
    {UM_F16, 5, 10, 15, ORACLE_IEEE},    {UM_BF16, 8, 7, 127, ORACLE_IEEE},
    {UM_F8E4M3FN, 4, 3, 7, ORACLE_FN},   {UM_F8E4M3FNUZ, 4, 3, 8, ORACLE_FNUZ},
    {UM_F8E5M2, 5, 2, 15, ORACLE_IEEE},  {UM_F8E5M2FNUZ, 5, 2, 16, ORACLE_FNUZ},
    {UM_F4E2M1, 2, 1, 1, ORACLE_FINITE}, {UM_F6E2M3, 2, 3, 1, ORACLE_FINITE},
    {UM_F6E3M2, 3, 2, 3, ORACLE_FINITE},
};
enum { ORACLE_FORMATS = sizeof oracle_formats / sizeof oracle_formats[0] };

static double oracle_decode(const oracle_format *f, unsigned code)
{
    unsigned sign = code >> (f->exp_bits + f->man_bits) & 1;
    unsigned exponent = code >> f->man_bits & ((1u << f->exp_bits) - 1);
    unsigned mantissa = code & ((1u << f->man_bits) - 1);
    unsigned top = (1u << f->exp_bits) - 1, ones = (1u << f->man_bits) - 1;
    if (f->style == ORACLE_IEEE && exponent == top)
        return mantissa ? (double)NAN : sign ? -(double)INFINITY : (double)INFINITY;
    if (f->style == ORACLE_FN && exponent == top && mantissa == ones) return (double)NAN;
    if (f->style == ORACLE_FNUZ && sign && !exponent && !mantissa) return (double)NAN;
    int power = (exponent ? (int)exponent : 1) - f->bias - f->man_bits;
    double magnitude = ldexp(mantissa + (exponent ? ldexp(1, f->man_bits) : 0), power);
    return sign ? -magnitude : magnitude;
}

/* All values >= 0 in the order of their codes, and one more, which rounding may reach. */
typedef struct oracle_table {
    const oracle_format *format;
    int count; /* finite ones; value[count] is the next if the format went on */
    double value[32768 + 1];
} oracle_table;

static void oracle_fill(oracle_table *t, const oracle_format *f)
{
    t->format = f;
    t->count = 0;
    int codes = 1 << (f->exp_bits + f->man_bits);
    while (t->count < codes && isfinite(oracle_decode(f, (unsigned)t->count))) {
        t->value[t->count] = oracle_decode(f, (unsigned)t->count);
        t->count++;
    }
    t->value[t->count] = 2 * t->value[t->count - 1] - t->value[t->count - 2];
}

static double oracle_midpoint(const oracle_table *t, int low)
{
    return (t->value[low] + t->value[low + 1]) / 2;
}

static int oracle_has_inf(const oracle_table *t) { return t->format->style == ORACLE_IEEE; }

/* The code of a magnitude that is not NaN. */
static int oracle_nearest(const oracle_table *t, long double magnitude)
{
    int low = 0, high = t->count;
    if (magnitude >= (long double)t->value[high]) low = high;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if ((long double)t->value[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    if (low < t->count) {
        long double half = (long double)oracle_midpoint(t, low);
        low += magnitude > half || (magnitude == half && low % 2 == 1);
    }
    if (low < t->count) return low;
    return oracle_has_inf(t) ? t->count : t->count - 1;
}

static int oracle_small_right(const oracle_table *t, unsigned code, long double x)
{
    const oracle_format *f = t->format;
    unsigned sign_bit = 1u << (f->exp_bits + f->man_bits);
    if (isnan(x)) {
        if (f->style == ORACLE_FINITE) return code == (unsigned)t->count - 1;
        int quiet = f->style != ORACLE_IEEE || (code >> (f->man_bits - 1) & 1);
        return code < 2 * sign_bit && quiet && isnan(oracle_decode(f, code));
    }
    unsigned want = (unsigned)oracle_nearest(t, fabsl(x));
    if (signbit(x) && !(f->style == ORACLE_FNUZ && want == 0)) want |= sign_bit;
    return code == want;
}

#endif
