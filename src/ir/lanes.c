/* ir/lanes.c: what opcodes of arithmetic, functions and conversions give, many elements at a time:
 * for constants (fold.c), and for the interpreter (src/interp). */
#include "ir/ir.h"

#include <math.h>

/* ---- integers, floats -------------------------------------------------------------------------
 */

#define EACH(d, value)                                                                             \
    for (int32_t i = 0; i < n; i++) (d)[i] = (value);                                              \
    return

#define EVAL               eval_i32
#define T                  int32_t
#define U                  uint32_t
#define NEGATIVE(x)        ((x) < 0)
#define bad_division(a, b) ((b) == 0 || ((b) == -1 && (a) == INT32_MIN))
#include "ir/lanes_int_body.h"

#define EVAL               eval_i64
#define T                  int64_t
#define U                  uint64_t
#define NEGATIVE(x)        ((x) < 0)
#define bad_division(a, b) ((b) == 0 || ((b) == -1 && (a) == INT64_MIN))
#include "ir/lanes_int_body.h"

#define EVAL               eval_u32
#define T                  uint32_t
#define U                  uint32_t
#define NEGATIVE(x)        0
#define bad_division(a, b) ((b) == 0)
#include "ir/lanes_int_body.h"

#define EVAL               eval_u64
#define T                  uint64_t
#define U                  uint64_t
#define NEGATIVE(x)        0
#define bad_division(a, b) ((b) == 0)
#include "ir/lanes_int_body.h"

#define EVAL           eval_f32
#define T              float
#define FUSED(a, b, c) fmaf(a, b, c)
#include "ir/lanes_float_body.h"

#define EVAL           eval_f64
#define T              double
#define FUSED(a, b, c) fma(a, b, c)
#include "ir/lanes_float_body.h"

/* The sum of the four products of bytes. */
static inline uint32_t dot4_i8(uint32_t a, uint32_t b)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < 32; i += 8) sum += (int8_t)(a >> i & 255) * (int8_t)(b >> i & 255);
    return (uint32_t)sum;
}

static inline uint32_t dot4_u8(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
    return sum;
}

static inline uint32_t high_i32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32);
}

static inline uint32_t high_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* What only i32 and u32 have. false: not one of these. */
static bool eval_bits32(um_kop op, um_dtype dtype, uint32_t *d, const uint32_t *a,
                        const uint32_t *b, const uint32_t *c, int32_t n)
{
    bool is_signed = dtype == UM_I32;
    switch (op) {
    case UM_KOP_MUL_HIGH:
        for (int32_t i = 0; i < n; i++)
            d[i] = is_signed ? high_i32(a[i], b[i]) : high_u32(a[i], b[i]);
        return true;
    case UM_KOP_POPCOUNT:
        for (int32_t i = 0; i < n; i++) d[i] = (uint32_t)__builtin_popcount(a[i]);
        return true;
    case UM_KOP_CLZ:
        for (int32_t i = 0; i < n; i++) d[i] = a[i] ? (uint32_t)__builtin_clz(a[i]) : 32;
        return true;
    case UM_KOP_DOT4_I8:
        for (int32_t i = 0; i < n; i++) d[i] = c[i] + dot4_i8(a[i], b[i]);
        return true;
    case UM_KOP_DOT4_U8:
        for (int32_t i = 0; i < n; i++) d[i] = c[i] + dot4_u8(a[i], b[i]);
        return true;
    default: return false;
    }
}

static void eval_bool(um_kop op, uint8_t *d, const uint8_t *a, const uint8_t *b, int32_t n)
{
    switch (op) {
    case UM_KOP_AND: EACH(d, a[i] & b[i]);
    case UM_KOP_OR: EACH(d, a[i] | b[i]);
    case UM_KOP_XOR:
    case UM_KOP_NE: EACH(d, a[i] ^ b[i]);
    case UM_KOP_EQ: EACH(d, (uint8_t)(a[i] == b[i]));
    case UM_KOP_NOT: EACH(d, (uint8_t)!a[i]);
    default: return;
    }
}

/* ---- f16, by way of f32 ------------------------------------------------------------------------
 */

enum { CHUNK = 128 };

/* Products are exact in double, and so are the sums that f16 can hold. */
static void fma_f16(void *d, const void *a, const void *b, const void *c, int32_t n)
{
    double x[CHUNK], y[CHUNK], z[CHUNK];
    for (int32_t at = 0; at < n; at += CHUNK) {
        int32_t some = UM_MIN(n - at, CHUNK);
        um_load(UM_CLASS_F64, x, UM_F16, a, at, 1, some);
        um_load(UM_CLASS_F64, y, UM_F16, b, at, 1, some);
        um_load(UM_CLASS_F64, z, UM_F16, c, at, 1, some);
        for (int32_t i = 0; i < some; i++) x[i] = x[i] * y[i] + z[i];
        um_store(UM_F16, d, at, 1, UM_CLASS_F64, x, some);
    }
}

/* f32 has more than twice the digits: its results round to those of f16. */
static void eval_f16(um_kop op, void *d, const void *a, const void *b, const void *c, int32_t n)
{
    bool is_truth = um_kop_rows[op].rule == UM_KRULE_BOOL;
    float x[CHUNK], y[CHUNK];
    if (op == UM_KOP_FMA) {
        fma_f16(d, a, b, c, n);
        return;
    }
    for (int32_t at = 0; at < n; at += CHUNK) {
        int32_t some = UM_MIN(n - at, CHUNK);
        um_load(UM_CLASS_F32, x, UM_F16, a, at, 1, some);
        if (b) um_load(UM_CLASS_F32, y, UM_F16, b, at, 1, some);
        eval_f32(op, is_truth ? (void *)((char *)d + at) : x, x, y, y, some);
        if (!is_truth) um_store(UM_F16, d, at, 1, UM_CLASS_F32, x, some);
    }
}

void um_lanes_eval(um_kop op, um_dtype dtype, void *d, const void *a, const void *b, const void *c,
                   int32_t n)
{
    switch (dtype) {
    case UM_F32: eval_f32(op, d, a, b, c, n); return;
    case UM_F64: eval_f64(op, d, a, b, c, n); return;
    case UM_F16: eval_f16(op, d, a, b, c, n); return;
    case UM_I32:
        if (!eval_bits32(op, dtype, d, a, b, c, n)) eval_i32(op, d, a, b, n);
        return;
    case UM_U32:
        if (!eval_bits32(op, dtype, d, a, b, c, n)) eval_u32(op, d, a, b, n);
        return;
    case UM_I64: eval_i64(op, d, a, b, n); return;
    case UM_U64: eval_u64(op, d, a, b, n); return;
    case UM_BOOL: eval_bool(op, d, a, b, n); return;
    default: return;
    }
}

/* ---- types ----------------------------------------------------------------------
 */

void um_lanes_convert(um_dtype to, void *d, um_dtype from, const void *a, int32_t n)
{
    um_class c = um_dtype_class(from);
    uint64_t chunk[CHUNK];
    if (from == to) {
        memcpy(d, a, (size_t)n * um_element_bytes(to));
        return;
    }
    for (int32_t at = 0; at < n; at += CHUNK) {
        int32_t some = UM_MIN(n - at, CHUNK);
        um_load(c, chunk, from, a, at, 1, some);
        um_store(to, d, at, 1, c, chunk, some);
    }
}

/* ---- operations ------------------------------------------------------------------------------ */

um_kop um_koperation_opcode(uint32_t operation)
{
    static const um_kop opcode[] = {
        [UM_K_ADD] = UM_KOP_ADD, [UM_K_MUL] = UM_KOP_MUL, [UM_K_MIN] = UM_KOP_MIN,
        [UM_K_MAX] = UM_KOP_MAX, [UM_K_AND] = UM_KOP_AND, [UM_K_OR] = UM_KOP_OR,
        [UM_K_XOR] = UM_KOP_XOR};
    return operation < UM_COUNT_OF(opcode) ? opcode[operation] : UM_KOP_NONE;
}

void um_koperation_identity(uint32_t operation, um_dtype dtype, void *out)
{
    double inf = (double)__builtin_inff();
    int64_t whole = operation == UM_K_MUL ? 1 : operation == UM_K_AND ? -1 : 0;
    if (operation == UM_K_MIN || operation == UM_K_MAX) {
        double end = operation == UM_K_MIN ? inf : -inf;
        um_store(dtype, out, 0, 1, UM_CLASS_F64, &end, 1); /* saturates */
    } else {
        um_store(dtype, out, 0, 1, UM_CLASS_I64, &whole, 1);
    }
}
