/* check/oracle_dtype.c: the oracle's own reading of every dtype, from the definitions: exponent
 * bits, mantissa bits, bias, and which special values the format has. Nothing of src/base is used.
 */
#include "check/oracle.h"

#include <math.h>
#include <string.h>

typedef enum special {
    INF_NAN,  /* IEEE 754: the top exponent holds inf and NaN */
    NAN_ONES, /* FN: only S.1..1 is NaN, no inf */
    NAN_80,   /* FNUZ: only "-0" is NaN, no inf */
    NONE,     /* OCP FP4, FP6: numbers only */
    POWER     /* OCP E8M0: 2^(bits - 127), 0xff is NaN */
} special;

typedef struct float_format {
    int exp_bits, man_bits, bias;
    special special;
    double max;
} float_format;

static const float_format *get_format(um_dtype dtype)
{
    static const float_format formats[] = {
        [UM_F64] = {11, 52, 1023, INF_NAN, 0x1.fffffffffffffp1023},
        [UM_F32] = {8, 23, 127, INF_NAN, 0x1.fffffep127},
        [UM_F16] = {5, 10, 15, INF_NAN, 65504},
        [UM_BF16] = {8, 7, 127, INF_NAN, 0x1.fep127},
        [UM_F8E4M3FN] = {4, 3, 7, NAN_ONES, 448},
        [UM_F8E4M3FNUZ] = {4, 3, 8, NAN_80, 240},
        [UM_F8E5M2] = {5, 2, 15, INF_NAN, 57344},
        [UM_F8E5M2FNUZ] = {5, 2, 16, NAN_80, 57344},
        [UM_F4E2M1] = {2, 1, 1, NONE, 6},
        [UM_F6E2M3] = {2, 3, 1, NONE, 7.5},
        [UM_F6E3M2] = {3, 2, 3, NONE, 28},
        [UM_F8E8M0] = {8, 0, 127, POWER, 0x1p127},
    };
    return &formats[dtype];
}

/* 2^exp; the usual exponents without a call. */
static double power_of_2(int exp)
{
    double value = 0;
    uint64_t bits = (uint64_t)(exp + 1023) << 52;
    if (exp < -1022 || exp > 1023) return ldexp(1, exp);
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool um_oracle_is_float(um_dtype dtype) { return dtype >= UM_F64 && dtype <= UM_F8E8M0; }

int32_t um_oracle_bits(um_dtype dtype)
{
    static const int32_t bits[] = {
        [UM_F64] = 64,     [UM_F32] = 32,       [UM_F16] = 16,   [UM_BF16] = 16,
        [UM_F8E4M3FN] = 8, [UM_F8E4M3FNUZ] = 8, [UM_F8E5M2] = 8, [UM_F8E5M2FNUZ] = 8,
        [UM_F4E2M1] = 4,   [UM_F6E2M3] = 8,     [UM_F6E3M2] = 8, [UM_F8E8M0] = 8,
        [UM_I8] = 8,       [UM_I16] = 16,       [UM_I32] = 32,   [UM_I64] = 64,
        [UM_U8] = 8,       [UM_U16] = 16,       [UM_U32] = 32,   [UM_U64] = 64,
        [UM_BOOL] = 8};
    return bits[dtype];
}

um_dtype um_oracle_worker(um_dtype dtype) { return dtype == UM_F64 ? UM_F64 : UM_F32; }

/* ---- floats ---------------------------------------------------------------------------------- */

static double decode_float(const float_format *f, uint64_t bits)
{
    if (f->special == POWER) return bits == 0xff ? (double)NAN : ldexp(1, (int)bits - f->bias);
    if (f->special == NONE && bits >> (1 + f->exp_bits + f->man_bits))
        return (double)NAN; /* too many bits */
    uint64_t man_ones = ((uint64_t)1 << f->man_bits) - 1;
    uint64_t exp_ones = ((uint64_t)1 << f->exp_bits) - 1;
    uint64_t man = bits & man_ones;
    uint64_t exp = bits >> f->man_bits & exp_ones;
    bool negative = bits >> (f->man_bits + f->exp_bits) & 1;
    if (f->special == INF_NAN && exp == exp_ones)
        return man ? (double)NAN : (double)(negative ? -INFINITY : INFINITY);
    if (f->special == NAN_ONES && exp == exp_ones && man == man_ones) return (double)NAN;
    if (f->special == NAN_80 && negative && !exp && !man) return (double)NAN;
    double size =
        exp ? (double)(man | (man_ones + 1)) * power_of_2((int)exp - f->bias - f->man_bits)
            : ldexp((double)man, 1 - f->bias - f->man_bits);
    return negative ? -size : size;
}

static uint64_t nan_bits(const float_format *f)
{
    switch (f->special) {
    case INF_NAN: return (((uint64_t)2 << f->exp_bits) - 1) << (f->man_bits - 1);
    case NAN_ONES: return ((uint64_t)1 << (f->man_bits + f->exp_bits)) - 1;
    case NAN_80: return (uint64_t)1 << (f->man_bits + f->exp_bits);
    case NONE: break; /* rounding made it a number */
    case POWER: return 0xff;
    }
    return 0;
}

static uint64_t encode_float(const float_format *f, double value)
{
    if (isnan(value)) return nan_bits(f);
    if (f->special == POWER) return (uint64_t)(ilogb(value) + f->bias);
    uint64_t sign = signbit(value) ? (uint64_t)1 << (f->man_bits + f->exp_bits) : 0;
    double size = fabs(value);
    if (isinf(size)) return sign | (((uint64_t)1 << f->exp_bits) - 1) << f->man_bits;
    if (size == 0) return f->special == NAN_80 ? 0 : sign;
    int exp = ilogb(size);
    if (exp < 1 - f->bias) return sign | (uint64_t)ldexp(size, f->bias - 1 + f->man_bits);
    return sign | (((uint64_t)(exp + f->bias - 1) << f->man_bits) +
                   (uint64_t)ldexp(size, f->man_bits - exp));
}

double um_oracle_max(um_dtype dtype) { return get_format(dtype)->max; }

double um_oracle_ulp(um_dtype dtype, long double value)
{
    const float_format *f = get_format(dtype);
    int exp = 1 - f->bias;
    long double size = fabsl(value);
    if (size > (long double)f->max) size = (long double)f->max;
    if (size > 0 && ilogbl(size) > exp) exp = ilogbl(size); /* not for NaN */
    return power_of_2(exp - f->man_bits);
}

double um_oracle_eps(um_dtype dtype) { return um_oracle_ulp(dtype, 1); }

static double round_power(long double value)
{
    if (isnan(value) || isinf(value)) return (double)NAN;
    if (value <= 0) return 0x1p-127;
    int exp = ilogbl(value);
    if (ldexpl(value, -exp) >= 1.5L) exp++;
    return ldexp(1, exp < -127 ? -127 : exp > 127 ? 127 : exp);
}

/* |value|, not NaN, to the nearest multiple of the step that the format has there. */
static double round_size(const float_format *f, long double size)
{
    if (size > 2 * (long double)f->max) return (double)INFINITY;
    int exp = 1 - f->bias;
    if (size > 0 && ilogbl(size) > exp) exp = ilogbl(size);
    long double step = (long double)power_of_2(exp - f->man_bits);
    long double rounded = rintl(size / step) * step;
    return rounded > (long double)f->max ? (double)INFINITY : (double)rounded;
}

double um_oracle_round(um_dtype dtype, long double value)
{
    const float_format *f = get_format(dtype);
    if (dtype == UM_F64) return (double)value; /* the compiler's own, also rounded once */
    if (dtype == UM_F32) return (double)(float)value;
    if (f->special == POWER) return round_power(value);
    if (isnan(value)) return f->special == NONE ? f->max : (double)NAN;
    double size = round_size(f, fabsl(value));
    if (isinf(size) && f->special != INF_NAN) size = f->max;
    if (size == 0 && f->special == NAN_80) return 0;
    return signbit(value) ? -size : size;
}

double um_oracle_round_over(um_dtype dtype, long double value, um_overflow overflow)
{
    const float_format *f = get_format(dtype);
    double own = um_oracle_round(dtype, value);
    if (isnan(value) || f->special == POWER || f->special == NONE) return own;
    bool over = dtype == UM_F64   ? isinf(own)
                : dtype == UM_F32 ? isinf((float)value)
                                  : isinf(round_size(f, fabsl(value)));
    if (!over || overflow == UM_OVERFLOW_CONVERT) return own;
    double limit = overflow == UM_OVERFLOW_SATURATE ? f->max
                   : f->special == INF_NAN          ? (double)INFINITY
                                                    : (double)NAN;
    return signbit(value) ? -limit : limit;
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Bits that hold the value: of a bool only one. */
static int int_bits(um_dtype dtype) { return dtype == UM_BOOL ? 1 : um_oracle_bits(dtype); }

static bool is_signed(um_dtype dtype) { return dtype >= UM_I8 && dtype <= UM_I64; }

um_num um_oracle_wrap(um_dtype dtype, uint64_t bits)
{
    int spare = 64 - int_bits(dtype);
    uint64_t kept = bits << spare >> spare;
    uint64_t sign = (uint64_t)1 << (63 - spare);
    if (is_signed(dtype) && kept & sign) kept |= ~(sign - 1);
    return (um_num){.u = kept};
}

um_num um_oracle_lowest(um_dtype dtype)
{
    return um_oracle_wrap(dtype, is_signed(dtype) ? (uint64_t)1 << (int_bits(dtype) - 1) : 0);
}

um_num um_oracle_highest(um_dtype dtype)
{
    return um_oracle_wrap(dtype, ~(uint64_t)0 >> (64 - int_bits(dtype) + is_signed(dtype)));
}

/* Truncates and saturates; NaN gives 0. */
static um_num int_from_real(um_dtype dtype, long double value)
{
    if (dtype == UM_BOOL) return (um_num){.i = value != 0};
    if (isnan(value)) return (um_num){.i = 0};
    um_num lowest = um_oracle_lowest(dtype), highest = um_oracle_highest(dtype);
    if (value <= um_oracle_real(dtype, lowest)) return lowest;
    if (value >= um_oracle_real(dtype, highest)) return highest;
    return dtype == UM_U64 ? (um_num){.u = (uint64_t)value} : (um_num){.i = (int64_t)value};
}

/* ---- any dtype ------------------------------------------------------------------------------- */

um_num um_oracle_decode(um_dtype dtype, uint64_t bits)
{
    if (um_oracle_is_float(dtype)) return (um_num){.f = decode_float(get_format(dtype), bits)};
    if (dtype == UM_BOOL) return (um_num){.i = (int64_t)bits};
    return um_oracle_wrap(dtype, bits);
}

uint64_t um_oracle_encode(um_dtype dtype, um_num value)
{
    if (um_oracle_is_float(dtype)) return encode_float(get_format(dtype), value.f);
    int spare = 64 - um_oracle_bits(dtype);
    return value.u << spare >> spare;
}

long double um_oracle_real(um_dtype dtype, um_num value)
{
    if (um_oracle_is_float(dtype)) return (long double)value.f;
    return dtype == UM_U64 ? (long double)value.u : (long double)value.i;
}

um_num um_oracle_convert(um_dtype to, um_dtype from, um_num value)
{
    if (um_oracle_is_float(to))
        return (um_num){.f = um_oracle_round(to, um_oracle_real(from, value))};
    if (um_oracle_is_float(from)) return int_from_real(to, um_oracle_real(from, value));
    return to == UM_BOOL ? (um_num){.i = value.u != 0} : um_oracle_wrap(to, value.u);
}
