/* test/test_dtype.c: facts, um_convert, um_load and um_store against the oracle of oracle_dtype.h:
 * every code of every dtype of at most 16 bits to every dtype, and a dense set of wider values. */
#include "base/base.h"
#include "test.h"
#include "test/oracle_dtype.h"

#include <stdlib.h>

enum { DTYPES = 21, BATCH = 4096 };

static oracle_table tables[ORACLE_FORMATS];
static uint64_t random_state = 1;

static uint64_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state ^ random_state >> 29;
}

/* ---- what is right, for the types that are no small float ------------------------------------ */

/* Powers of two from 2^-127 to 2^127. */
static int e8m0_right(unsigned code, long double x)
{
    if (isnan(x) || isinf(x)) return code == 255;
    unsigned want = 0;
    while (want < 254 && x >= ldexpl(1.5L, (int)want - 127)) want++;
    return code == want;
}

/* Whether no neighbour of `got` is nearer to x, and none as near has an even last bit instead. */
static int between(long double got, long double below, long double above, int odd, long double x)
{
    if (!!signbit(got) != !!signbit(x)) return 0;
    long double distance = fabsl(got - x), b = fabsl(below - x), a = fabsl(above - x);
    if (distance > a || distance > b) return 0;
    return !odd || (distance < a && distance < b);
}

static int f32_right(uint32_t bits, long double x)
{
    float got;
    memcpy(&got, &bits, sizeof got);
    if (isnan(x)) return isnan(got) && (bits >> 22 & 1);
    if (fabsl(x) >= 0x1.ffffffp127L) return isinf(got) && !!signbit(got) == !!signbit(x);
    if (!isfinite(got)) return 0;
    float below = nextafterf(got, -INFINITY), above = nextafterf(got, INFINITY);
    return between((long double)got, isinf(below) ? -0x1p128L : (long double)below,
                   isinf(above) ? 0x1p128L : (long double)above, bits & 1, x);
}

static int f64_right(uint64_t bits, long double x)
{
    double got;
    memcpy(&got, &bits, sizeof got);
    if (isnan(x)) return isnan(got) && (bits >> 51 & 1);
    if (isinf(x)) return isinf(got) && !!signbit(got) == !!signbit(x);
    if (!isfinite(got)) return 0; /* no source reaches the end of f64 */
    if ((long double)got == x) return !!signbit(got) == !!signbit(x);
    long double below = (long double)nextafter(got, -(double)INFINITY);
    long double above = (long double)nextafter(got, (double)INFINITY);
    return between((long double)got, below, above, bits & 1, x);
}

/* ---- a value and what it has to become ------------------------------------------------------ */

typedef struct value {
    bool is_int;
    uint64_t bits; /* of an integer, sign extended */
    long double x;
} value;

static value from_real(double x) { return (value){.x = (long double)x}; }

static value from_i64(int64_t x)
{
    return (value){.is_int = true, .bits = (uint64_t)x, .x = (long double)x};
}

static value from_u64(uint64_t x)
{
    return (value){.is_int = true, .bits = x, .x = (long double)x};
}

static int width_of(um_dtype dtype)
{
    static const int widths[DTYPES + 1] = {0, 64, 32, 16, 16, 8,  8, 8,  8,  4,  8,
                                           8, 8,  8,  16, 32, 64, 8, 16, 32, 64, 8};
    return widths[dtype];
}

static bool is_float(um_dtype dtype) { return dtype <= UM_F8E8M0; }

static uint64_t get(um_dtype dtype, const void *data, int64_t i)
{
    const unsigned char *bytes = data;
    int width = width_of(dtype);
    if (width == 4) return bytes[i / 2] >> (i % 2 * 4) & 15;
    uint64_t bits = 0;
    for (int k = 0; k < width / 8; k++) bits |= (uint64_t)bytes[i * width / 8 + k] << 8 * k;
    return bits;
}

static void put(um_dtype dtype, void *data, int64_t i, uint64_t bits)
{
    unsigned char *bytes = data;
    int width = width_of(dtype);
    for (int k = 0; k < width / 8; k++) bytes[i * width / 8 + k] = (unsigned char)(bits >> 8 * k);
    if (width != 4) return;
    unsigned char mask = i % 2 ? 0xf0 : 0x0f;
    bytes[i / 2] = (unsigned char)((bytes[i / 2] & ~mask) | ((bits << (i % 2 * 4)) & mask));
}

static const oracle_format *format_of(um_dtype dtype)
{
    for (int i = 0; i < ORACLE_FORMATS; i++)
        if (oracle_formats[i].dtype == dtype) return &oracle_formats[i];
    return NULL;
}

static value meaning(um_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case UM_F64: {
        double x;
        memcpy(&x, &bits, sizeof x);
        return from_real(x);
    }
    case UM_F32: {
        uint32_t low = (uint32_t)bits;
        float x;
        memcpy(&x, &low, sizeof x);
        return from_real((double)x);
    }
    case UM_F8E8M0: return from_real(bits == 255 ? (double)NAN : ldexp(1, (int)bits - 127));
    case UM_I8: return from_i64((int64_t)bits - (bits >= 128 ? 256 : 0));
    case UM_I16: return from_i64((int64_t)bits - (bits >= 32768 ? 65536 : 0));
    case UM_I32: return from_i64((int64_t)bits - (bits >= 1u << 31 ? (int64_t)1 << 32 : 0));
    case UM_I64: return from_i64((int64_t)bits);
    case UM_BOOL: return from_u64(bits != 0);
    default: break;
    }
    const oracle_format *f = format_of(dtype);
    return f ? from_real(oracle_decode(f, (unsigned)bits)) : from_u64(bits);
}

static bool int_right(um_dtype dtype, uint64_t got, value v)
{
    int width = width_of(dtype);
    uint64_t mask = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
    if (v.is_int) return got == (v.bits & mask);
    if (isnan(v.x)) return got == 0;
    bool is_signed = dtype >= UM_I8 && dtype <= UM_I64;
    long double low = is_signed ? -ldexpl(1, width - 1) : 0;
    long double end = ldexpl(1, is_signed ? width - 1 : width), whole = truncl(v.x);
    if (whole < low) return got == (is_signed ? (uint64_t)1 << (width - 1) : 0);
    if (whole >= end) return got == (is_signed ? mask >> 1 : mask);
    return got == ((whole < 0 ? (uint64_t)(int64_t)whole : (uint64_t)whole) & mask);
}

static bool right(um_dtype dtype, uint64_t got, value v)
{
    if (dtype == UM_BOOL) return got == (v.is_int ? v.bits != 0 : v.x != 0);
    if (!is_float(dtype)) return int_right(dtype, got, v);
    if (dtype == UM_F64) return f64_right(got, v.x);
    if (dtype == UM_F32) return f32_right((uint32_t)got, v.x);
    if (dtype == UM_F8E8M0) return e8m0_right((unsigned)got, v.x);
    for (int i = 0; i < ORACLE_FORMATS; i++)
        if (oracle_formats[i].dtype == dtype)
            return oracle_small_right(&tables[i], (unsigned)got, v.x);
    return false;
}

/* Converts n packed elements to every dtype and checks each. */
static void check_to_all(um_dtype src_dtype, const void *src, int64_t n)
{
    static uint64_t dst[BATCH];
    for (um_dtype dtype = 1; dtype <= DTYPES; dtype++) {
        memset(dst, 0, sizeof dst);
        um_status status = um_convert(dtype, dst, src_dtype, src, n);
        int64_t wrong = -1;
        for (int64_t i = 0; i < n && wrong < 0; i++)
            if (!right(dtype, get(dtype, dst, i), meaning(src_dtype, get(src_dtype, src, i))))
                wrong = i;
        if (src_dtype == dtype && dtype != UM_BOOL)
            wrong = memcmp(dst, src, (size_t)(n * width_of(dtype) / 8)) ? 0 : -1;
        CHECK_MSG(status == UM_OK && wrong < 0, "%s to %s: 0x%llx gives 0x%llx",
                  um_dtype_name(src_dtype), um_dtype_name(dtype),
                  (unsigned long long)get(src_dtype, src, wrong < 0 ? 0 : wrong),
                  (unsigned long long)get(dtype, dst, wrong < 0 ? 0 : wrong));
    }
}

/* ---- conversions ---------------------------------------------------------------------------- */

static void every_code_up_to_16_bits(void)
{
    static uint64_t src[BATCH];
    for (um_dtype dtype = 1; dtype <= DTYPES; dtype++) {
        int width = width_of(dtype);
        if (width > 16) continue;
        int codes = 1 << width, n = UM_MIN(codes, BATCH);
        for (int first = 0; first < codes; first += n) {
            for (int i = 0; i < n; i++) put(dtype, src, i, (uint64_t)(first + i));
            check_to_all(dtype, src, n);
        }
    }
}

typedef struct batch {
    um_dtype dtype;
    int64_t count;
    uint64_t data[BATCH];
} batch;

static void flush(batch *b)
{
    if (b->count) check_to_all(b->dtype, b->data, b->count);
    b->count = 0;
}

static void add(batch *b, uint64_t bits)
{
    put(b->dtype, b->data, b->count++, bits);
    if (b->count == BATCH) flush(b);
}

/* x and its neighbours in the batch's own type, with both signs. */
static void add_near(batch *b, double x)
{
    for (int step = -1; step <= 1; step++) {
        for (int sign = 0; sign < 2; sign++) {
            if (b->dtype == UM_F64) {
                double y = step ? nextafter(x, step * (double)INFINITY) : x;
                uint64_t bits;
                memcpy(&bits, &y, sizeof bits);
                add(b, bits ^ (uint64_t)sign << 63);
            } else {
                float y = step ? nextafterf((float)x, (float)step * INFINITY) : (float)x;
                uint32_t bits;
                memcpy(&bits, &y, sizeof bits);
                add(b, bits ^ (uint32_t)sign << 31);
            }
        }
    }
}

static void dense_floats(um_dtype dtype)
{
    static batch b;
    b.dtype = dtype;
    for (int f = 0; f < ORACLE_FORMATS; f++) {
        for (int i = 0; i < tables[f].count; i++) {
            add_near(&b, oracle_midpoint(&tables[f], i));
            if (i % 16 == 0) add_near(&b, tables[f].value[i]);
        }
        add_near(&b, tables[f].value[tables[f].count]);
    }
    for (int power = -1074; power < 1024; power++) {
        add_near(&b, ldexp(1, power));
        add_near(&b, ldexp(1.5, power));
    }
    for (int bits = 0; bits <= 64; bits++)
        for (double shift = -2; shift <= 2; shift += 0.5) add_near(&b, ldexp(1, bits) + shift);
    add_near(&b, 0x1.ffffffp127); /* halfway between the largest f32 and the next */
    add_near(&b, (double)FLT_MAX);
    add_near(&b, DBL_MAX);
    add_near(&b, (double)INFINITY);
    for (int i = 0; i < 30000; i++) add(&b, random_bits());
    /* quiet and signalling NaN, both signs, the payload in the lowest or the highest bit */
    for (unsigned i = 0; i < 16; i++) {
        uint64_t low = i & 1, high = i >> 1 & 1, quiet = i >> 2 & 1, sign = i >> 3;
        if (!(low | high | quiet)) continue;
        if (dtype == UM_F64)
            add(&b, sign << 63 | (uint64_t)0x7ff << 52 | quiet << 51 | high << 50 | low);
        else
            add(&b, sign << 31 | (uint64_t)0xff << 23 | quiet << 22 | high << 21 | low);
    }
    flush(&b);
}

static void dense_f64(void) { dense_floats(UM_F64); }
static void dense_f32(void) { dense_floats(UM_F32); }

/* Around every power of two, and where each float's rounding has its ties. */
static void dense_ints(void)
{
    static const um_dtype dtypes[] = {UM_I32, UM_U32, UM_I64, UM_U64};
    static batch b;
    for (size_t d = 0; d < UM_COUNT_OF(dtypes); d++) {
        b.dtype = dtypes[d];
        /* the oracle needs 64 bits of mantissa for the 64-bit integers */
        int limit = LDBL_MANT_DIG >= 64 ? 64 : 53;
        for (int i = 0; i < limit; i++) {
            for (int j = 0; j <= i; j++) {
                uint64_t x = ((uint64_t)1 << i) + ((uint64_t)1 << j);
                for (uint64_t k = 0; k < 3; k++) {
                    add(&b, x + k - 1);
                    add(&b, 0 - (x + k - 1));
                    add(&b, x / 2 * 3 + k - 1);
                }
            }
        }
        for (int i = 0; i < 10000; i++) add(&b, random_bits() >> (unsigned)(i % limit));
        flush(&b);
    }
}

static void refuses(void)
{
    float f = 1;
    CHECK_FAILS(um_convert(UM_F32, &f, 22, &f, 1), UM_INVALID_ARGUMENT, "22");
    CHECK_FAILS(um_convert(0, &f, UM_F32, &f, 1), UM_INVALID_ARGUMENT, "dtype");
    CHECK_FAILS(um_convert(UM_F32, &f, UM_F32, &f, -1), UM_INVALID_ARGUMENT, "-1");
    CHECK_FAILS(um_convert(UM_F32, NULL, UM_F64, &f, 1), UM_INVALID_ARGUMENT, "dst is NULL");
    CHECK_FAILS(um_convert(UM_F32, &f, UM_F64, NULL, 1), UM_INVALID_ARGUMENT, "src is NULL");
    CHECK_FAILS(um_convert(UM_F64, &f, UM_F32, &f, INT64_MAX), UM_INVALID_ARGUMENT, "fit");
    CHECK_OK(um_convert(UM_F32, NULL, UM_F64, NULL, 0));
    CHECK_OK(um_convert(UM_F32, &f, UM_F32, &f, 1));
    CHECK(f == 1.0f);
}

static void converts_bools_in_place(void)
{
    unsigned char flags[4] = {0, 1, 2, 255};
    CHECK_OK(um_convert(UM_BOOL, flags, UM_BOOL, flags, 4));
    CHECK(memcmp(flags, "\0\1\1\1", 4) == 0);
}

static void halves_alone(void)
{
    for (unsigned code = 0; code < 65536; code++) {
        float f = um_f16_to_f32((uint16_t)code), b = um_bf16_to_f32((uint16_t)code);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bool good = right(UM_F32, bits, meaning(UM_F16, code));
        memcpy(&bits, &b, sizeof bits);
        good &= right(UM_F32, bits, meaning(UM_BF16, code));
        good &= right(UM_F16, um_f32_to_f16(f), from_real((double)f));
        good &= right(UM_BF16, um_f32_to_bf16(b), from_real((double)b));
        CHECK_MSG(good, "code 0x%x", code);
    }
    float last = um_f16_to_f32(0xffff); /* a NaN as others, with its sign */
    uint32_t bits;
    memcpy(&bits, &last, sizeof bits);
    CHECK_MSG(bits == 0xffc00000, "%08x", bits);
}

/* ---- strides -------------------------------------------------------------------------------- */

static double class_value(um_class c, const void *data, int64_t i)
{
    switch (c) {
    case UM_CLASS_F32: return (double)((const float *)data)[i];
    case UM_CLASS_F64: return ((const double *)data)[i];
    case UM_CLASS_I64: return (double)((const int64_t *)data)[i];
    case UM_CLASS_U64: return (double)((const uint64_t *)data)[i];
    }
    return (double)NAN;
}

/* Small whole numbers, which every type but the 4-bit one and e8m0 holds, so all classes agree. */
static double pattern(um_dtype dtype, int64_t i)
{
    if (dtype == UM_F8E8M0) return ldexp(1, (int)(i % 7));
    if (dtype == UM_BOOL) return (double)(i % 3 == 0);
    return (double)(i % 5 == 4 ? 6 : i % 5);
}

enum { ROOM = 4000 };

/* Stores by a stride into memory full of another pattern, which has to survive between. */
static void store_and_load(um_dtype dtype, um_class c, int64_t stride, int64_t n, size_t shift)
{
    static unsigned char memory[ROOM * 8 + 8], before[ROOM * 8 + 8];
    static uint64_t packed[ROOM], loaded[ROOM];
    int64_t first = stride < 0 ? ROOM - 1 : 3;
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (unsigned char)random_bits();
    memcpy(before, memory, sizeof memory);
    for (int64_t i = 0; i < n; i++) {
        double x = pattern(dtype, i);
        switch (c) {
        case UM_CLASS_F32: ((float *)(void *)packed)[i] = (float)x; break;
        case UM_CLASS_F64: ((double *)(void *)packed)[i] = x; break;
        case UM_CLASS_I64: ((int64_t *)(void *)packed)[i] = (int64_t)x; break;
        case UM_CLASS_U64: packed[i] = (uint64_t)x; break;
        }
    }
    um_store(dtype, memory + shift, first, stride, c, packed, n);
    um_load(c, loaded, dtype, memory + shift, first, stride, n);
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        good &= class_value(c, loaded, i) == pattern(dtype, i);
        int64_t at = first + i * stride;
        put(dtype, memory + shift, at, get(dtype, before + shift, at));
    }
    CHECK_MSG(good, "%s class %d stride %lld n %lld", um_dtype_name(dtype), (int)c,
              (long long)stride, (long long)n);
    CHECK_MSG(memcmp(memory, before, sizeof memory) == 0, "%s stride %lld n %lld wrote elsewhere",
              um_dtype_name(dtype), (long long)stride, (long long)n);
}

static void strides(void)
{
    static const int64_t steps[] = {1, -1, 2, -3, 5}, counts[] = {0, 1, 2, 7, 255, 256, 257, 513};
    for (um_dtype dtype = 1; dtype <= DTYPES; dtype++)
        for (um_class c = UM_CLASS_F32; c <= UM_CLASS_U64; c++)
            for (size_t s = 0; s < UM_COUNT_OF(steps); s++)
                for (size_t n = 0; n < UM_COUNT_OF(counts); n++)
                    store_and_load(dtype, c, steps[s], counts[n], n % 2);
}

static void stride_zero_repeats(void)
{
    static float out[300];
    uint16_t half = um_f32_to_f16(3);
    um_load(UM_CLASS_F32, out, UM_F16, &half, 0, 0, 300);
    for (int i = 0; i < 300; i++) CHECK(out[i] == 3.0f);
}

/* Views of 4-bit tensors may start before their pointer's byte. */
static void halves_of_bytes(void)
{
    uint8_t bytes[3] = {0x21, 0x43, 0x65};
    float out[6], want[6] = {4, 3, 2, 1.5f, 1, 0.5f};
    um_load(UM_CLASS_F32, out, UM_F4E2M1, bytes + 1, 3, -1, 6);
    CHECK(memcmp(out, want, sizeof want) == 0);
    uint8_t one = 0xff;
    CHECK_OK(um_convert(UM_F4E2M1, &one, UM_F32, out, 1));
    CHECK(one == 0xf6);
    uint8_t copy = 0xff;
    CHECK_OK(um_convert(UM_F4E2M1, &copy, UM_F4E2M1, bytes, 1));
    CHECK(copy == 0xf1);
}

/* ---- facts ---------------------------------------------------------------------------------- */

static void facts(void)
{
    CHECK(strcmp(um_dtype_name(UM_F8E4M3FNUZ), "f8e4m3fnuz") == 0);
    CHECK(strcmp(um_dtype_name(UM_BOOL), "bool") == 0);
    CHECK(strcmp(um_dtype_name(0), "none") == 0 && strcmp(um_dtype_name(22), "none") == 0);
    CHECK(strcmp(um_dtype_name(-1), "none") == 0 && um_dtype_bits(INT32_MIN) == 0);
    CHECK(um_dtype_find("BF16") == UM_BF16 && um_dtype_find("f8E5m2") == UM_F8E5M2);
    CHECK(um_dtype_find("f8e5m2x") == 0 && um_dtype_find("") == 0 && um_dtype_find(NULL) == 0);
    CHECK(um_dtype_find("none") == UM_DTYPE_NONE);
    for (um_dtype dtype = 1; dtype <= DTYPES; dtype++) {
        CHECK(um_dtype_find(um_dtype_name(dtype)) == dtype);
        CHECK(um_dtype_bits(dtype) == width_of(dtype));
        CHECK((um_dtype_get_kind(dtype) == UM_KIND_FLOAT) == um_dtype_is_float(dtype));
    }
    CHECK(um_dtype_get_kind(UM_I8) == UM_KIND_INT && um_dtype_get_kind(UM_U8) == UM_KIND_UINT);
    CHECK(um_dtype_get_kind(UM_BOOL) == UM_KIND_BOOL && um_dtype_get_kind(99) == UM_KIND_NONE);
    CHECK(um_dtype_class(UM_F64) == UM_CLASS_F64 && um_dtype_class(UM_F4E2M1) == UM_CLASS_F32);
    CHECK(um_dtype_class(UM_U64) == UM_CLASS_U64 && um_dtype_class(UM_BOOL) == UM_CLASS_I64);
}

static void sizes(void)
{
    size_t size = 99;
    CHECK_OK(um_dtype_size(UM_F4E2M1, 5, &size));
    CHECK(size == 3);
    CHECK_OK(um_dtype_size(UM_F4E2M1, INT64_MAX, &size));
    CHECK(size == (size_t)1 << 62);
    CHECK_OK(um_dtype_size(UM_F6E2M3, 5, &size));
    CHECK(size == 5);
    CHECK_OK(um_dtype_size(UM_F64, 0, &size));
    CHECK(size == 0);
    CHECK_FAILS(um_dtype_size(UM_F16, INT64_MAX, &size), UM_INVALID_ARGUMENT, "f16");
    CHECK_FAILS(um_dtype_size(UM_F16, -1, &size), UM_INVALID_ARGUMENT, "-1");
    CHECK_FAILS(um_dtype_size(77, 1, &size), UM_INVALID_ARGUMENT, "77");
    CHECK_FAILS(um_dtype_size(UM_F16, 1, NULL), UM_INVALID_ARGUMENT, "NULL");
}

int main(void)
{
    for (int i = 0; i < ORACLE_FORMATS; i++) oracle_fill(&tables[i], &oracle_formats[i]);
    TEST(facts);
    TEST(sizes);
    TEST(refuses);
    TEST(converts_bools_in_place);
    TEST(halves_alone);
    TEST(every_code_up_to_16_bits);
    TEST(dense_f64);
    TEST(dense_f32);
    TEST(dense_ints);
    TEST(strides);
    TEST(stride_zero_repeats);
    TEST(halves_of_bytes);
    return TEST_RESULT();
}
