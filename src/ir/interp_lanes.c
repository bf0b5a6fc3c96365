/* ir/interp_lanes.c: the instructions that each invocation does on its own and without memory:
 * arithmetic, functions, conversions, lanes. */
#include "ir/interp.h"

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
#include "ir/interp_int_body.h"
#undef EVAL
#undef T
#undef U
#undef bad_division

#define EVAL               eval_i64
#define T                  int64_t
#define U                  uint64_t
#define bad_division(a, b) ((b) == 0 || ((b) == -1 && (a) == INT64_MIN))
#include "ir/interp_int_body.h"
#undef EVAL
#undef T
#undef U
#undef bad_division
#undef NEGATIVE

#define NEGATIVE(x)        0
#define bad_division(a, b) ((b) == 0)
#define EVAL               eval_u32
#define T                  uint32_t
#define U                  uint32_t
#include "ir/interp_int_body.h"
#undef EVAL
#undef T
#undef U

#define EVAL eval_u64
#define T    uint64_t
#define U    uint64_t
#include "ir/interp_int_body.h"
#undef EVAL
#undef T
#undef U
#undef bad_division
#undef NEGATIVE

#define EVAL           eval_f32
#define T              float
#define FUSED(a, b, c) fmaf(a, b, c)
#include "ir/interp_float_body.h"
#undef EVAL
#undef T
#undef FUSED

#define EVAL           eval_f64
#define T              double
#define FUSED(a, b, c) fma(a, b, c)
#include "ir/interp_float_body.h"
#undef EVAL
#undef T
#undef FUSED

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

/* ---- types, lanes, choice ----------------------------------------------------------------------
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

/* The bytes of a value's lanes, one after the other, are those of the result's. */
static void bitcast(const um_interp *it, const um_kinst *inst)
{
    um_ktype from = um_val_type(it->k, inst->arg[0]), to = inst->type;
    size_t from_size = um_element_bytes(from.dtype), to_size = um_element_bytes(to.dtype);
    for (int32_t i = it->first; i < it->last; i++) {
        char bytes[32];
        for (int32_t l = 0; l < from.lanes; l++)
            memcpy(bytes + (size_t)l * from_size,
                   um_interp_lane(it, inst->arg[0], l) + (size_t)i * from_size, from_size);
        for (int32_t l = 0; l < to.lanes; l++)
            memcpy(um_interp_lane(it, it->pc, l) + (size_t)i * to_size, bytes + (size_t)l * to_size,
                   to_size);
    }
}

static void copy_lane(const um_interp *it, int32_t to_lane, um_val from, int32_t from_lane)
{
    size_t size = um_element_bytes(um_val_type(it->k, from).dtype), at = (size_t)it->first * size;
    memcpy(um_interp_lane(it, it->pc, to_lane) + at, um_interp_lane(it, from, from_lane) + at,
           (size_t)(it->last - it->first) * size);
}

static inline void select_size(char *d, const uint8_t *choice, const char *b, const char *c,
                               int32_t first, int32_t last, size_t size)
{
    for (int32_t i = first; i < last; i++)
        memcpy(d + (size_t)i * size, (choice[i] ? b : c) + (size_t)i * size, size);
}

static void select_lanes(const um_interp *it, const um_kinst *inst)
{
    bool by_lane = um_val_type(it->k, inst->arg[0]).lanes > 1;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        const uint8_t *choice = (uint8_t *)um_interp_lane(it, inst->arg[0], by_lane ? l : 0);
        const char *b = um_interp_lane(it, inst->arg[1], l);
        const char *c = um_interp_lane(it, inst->arg[2], l);
        char *d = um_interp_lane(it, it->pc, l);
        switch (um_element_bytes(inst->type.dtype)) {
        case 1: select_size(d, choice, b, c, it->first, it->last, 1); break;
        case 2: select_size(d, choice, b, c, it->first, it->last, 2); break;
        case 4: select_size(d, choice, b, c, it->first, it->last, 4); break;
        case 8: select_size(d, choice, b, c, it->first, it->last, 8); break;
        }
    }
}

/* ---- an instruction ----------------------------------------------------------------------------
 */

static int64_t signed_at(um_dtype dtype, const char *items, int32_t i)
{
    int64_t value;
    um_load(UM_CLASS_I64, &value, dtype, items, i, 1, 1);
    return value;
}

/* Of DIV and REM of integers. */
static um_status check_division(um_interp *it, const um_kinst *inst)
{
    um_dtype dtype = inst->type.dtype;
    if (um_dtype_is_float(dtype)) return UM_OK;
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    int64_t lowest = dtype == UM_I32 ? INT32_MIN : INT64_MIN;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        const char *a = um_interp_lane(it, inst->arg[0], l);
        const char *b = um_interp_lane(it, inst->arg[1], l);
        for (int32_t i = it->first; i < it->last; i++) {
            if (!it->mask[i]) continue;
            int64_t divisor = signed_at(dtype, b, i);
            if (divisor == 0) return um_interp_fail(it, UM_INVALID_ARGUMENT, i, "a division by 0");
            if (is_signed && divisor == -1 && signed_at(dtype, a, i) == lowest)
                return um_interp_fail(it, UM_INVALID_ARGUMENT, i,
                                      "a division of the lowest value by -1");
        }
    }
    return UM_OK;
}

/* An operand's lane from it->first on, or NULL. */
static const char *operand(const um_interp *it, um_val v, int32_t lane)
{
    if (!v) return NULL;
    size_t size = um_element_bytes(um_val_type(it->k, v).dtype);
    return um_interp_lane(it, v, lane) + (size_t)it->first * size;
}

static void eval_each_lane(const um_interp *it, const um_kinst *inst)
{
    int32_t arity = um_kop_rows[inst->op].arity, n = it->last - it->first;
    um_dtype from = um_val_type(it->k, inst->arg[0]).dtype;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        char *d =
            um_interp_lane(it, it->pc, l) + (size_t)it->first * um_element_bytes(inst->type.dtype);
        const char *a = operand(it, inst->arg[0], l);
        if (inst->op == UM_KOP_CONVERT)
            um_lanes_convert(inst->type.dtype, d, from, a, n);
        else
            um_lanes_eval(inst->op, from, d, a, operand(it, arity > 1 ? inst->arg[1] : 0, l),
                          operand(it, arity > 2 ? inst->arg[2] : 0, l), n);
    }
}

um_status um_interp_lanes(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    switch (inst->op) {
    case UM_KOP_SELECT: select_lanes(it, inst); return UM_OK;
    case UM_KOP_BITCAST: bitcast(it, inst); return UM_OK;
    case UM_KOP_EXTRACT: copy_lane(it, 0, inst->arg[0], (int32_t)inst->imm); return UM_OK;
    case UM_KOP_VECTOR:
        for (int32_t l = 0; l < inst->type.lanes; l++) copy_lane(it, l, inst->arg[l], 0);
        return UM_OK;
    case UM_KOP_SPLAT:
        for (int32_t l = 0; l < inst->type.lanes; l++) copy_lane(it, l, inst->arg[0], 0);
        return UM_OK;
    case UM_KOP_DIV:
    case UM_KOP_REM: UM_TRY(check_division(it, inst)); break;
    default: break;
    }
    eval_each_lane(it, inst);
    return UM_OK;
}
