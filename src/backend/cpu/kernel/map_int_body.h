/* backend/cpu/kernel/map_int_body.h: what each elementwise op is for integers and bool (0 and 1),
 * and its loop. Included by map_int.c for int64_t and for uint64_t, with INT, NAME(fn)  the type;
 * fn ending in its name BELOW_ZERO(x)  x < 0, or false for the unsigned MAP_LOOP       the function
 * to define Sums and products are taken in uint64_t, where they wrap. A new op is a row in op.def
 * and one function here. */

#define OP(name) NAME(op_##name)

UM_INLINE INT OP(neg)(INT x) { return (INT)(0 - (uint64_t)x); }
UM_INLINE INT OP(abs)(INT x) { return BELOW_ZERO(x) ? OP(neg)(x) : x; }
UM_INLINE INT OP(sign)(INT x) { return BELOW_ZERO(x) ? (INT)-1 : x != 0; }
UM_INLINE INT OP(square)(INT x) { return (INT)((uint64_t)x * (uint64_t)x); }
UM_INLINE INT OP(relu)(INT x) { return BELOW_ZERO(x) ? 0 : x; }
UM_INLINE INT OP(floor)(INT x) { return x; }
UM_INLINE INT OP(ceil)(INT x) { return x; }
UM_INLINE INT OP(trunc)(INT x) { return x; }
UM_INLINE INT OP(round)(INT x) { return x; }
UM_INLINE INT OP(logical_not)(INT x) { return x == 0; }
UM_INLINE INT OP(bitwise_not)(INT x) { return ~x; }
UM_INLINE INT OP(isnan)(INT x) { return (void)x, 0; }
UM_INLINE INT OP(isinf)(INT x) { return (void)x, 0; }

UM_INLINE INT OP(add)(INT a, INT b) { return (INT)((uint64_t)a + (uint64_t)b); }
UM_INLINE INT OP(sub)(INT a, INT b) { return (INT)((uint64_t)a - (uint64_t)b); }
UM_INLINE INT OP(mul)(INT a, INT b) { return (INT)((uint64_t)a * (uint64_t)b); }
UM_INLINE INT OP(div)(INT a, INT b)
{
    if (b == 0) return 0;
    if (BELOW_ZERO(b) && b == (INT)-1) return OP(neg)(a); /* the one that would overflow */
    return a / b;
}
UM_INLINE INT OP(fmod)(INT a, INT b)
{
    if (b == 0 || (BELOW_ZERO(b) && b == (INT)-1)) return 0;
    return a % b;
}
UM_INLINE INT OP(remainder)(INT a, INT b)
{
    INT m = OP(fmod)(a, b);
    return m != 0 && BELOW_ZERO(m) != BELOW_ZERO(b) ? m + b : m;
}
UM_INLINE INT OP(max)(INT a, INT b) { return a > b ? a : b; }
UM_INLINE INT OP(min)(INT a, INT b) { return a < b ? a : b; }
UM_INLINE INT OP(pow)(INT a, INT b)
{
    if (BELOW_ZERO(b)) return a == 1 ? 1 : a == (INT)-1 ? (b % 2 == 0 ? 1 : (INT)-1) : 0;
    uint64_t power = 1, factor = (uint64_t)a;
    for (uint64_t rest = (uint64_t)b; rest; rest >>= 1, factor *= factor)
        if (rest & 1) power *= factor;
    return (INT)power;
}
UM_INLINE INT OP(eq)(INT a, INT b) { return a == b; }
UM_INLINE INT OP(ne)(INT a, INT b) { return a != b; }
UM_INLINE INT OP(lt)(INT a, INT b) { return a < b; }
UM_INLINE INT OP(le)(INT a, INT b) { return a <= b; }
UM_INLINE INT OP(gt)(INT a, INT b) { return a > b; }
UM_INLINE INT OP(ge)(INT a, INT b) { return a >= b; }
UM_INLINE INT OP(logical_and)(INT a, INT b) { return (a != 0) & (b != 0); }
UM_INLINE INT OP(logical_or)(INT a, INT b) { return (a != 0) | (b != 0); }
UM_INLINE INT OP(logical_xor)(INT a, INT b) { return (a != 0) ^ (b != 0); }
UM_INLINE INT OP(bitwise_and)(INT a, INT b) { return a & b; }
UM_INLINE INT OP(bitwise_or)(INT a, INT b) { return a | b; }
UM_INLINE INT OP(bitwise_xor)(INT a, INT b) { return a ^ b; }
/* Between the dtype's bits and 64 the shifted-out rest is what wrapping or the sign makes of it. */
UM_INLINE INT OP(shift_left)(INT a, INT b)
{
    return (uint64_t)b < 64 ? (INT)((uint64_t)a << ((uint64_t)b & 63)) : 0;
}
UM_INLINE INT OP(shift_right)(INT a, INT b)
{
    if ((uint64_t)b < 64) return a >> ((uint64_t)b & 63);
    return BELOW_ZERO(a) ? (INT)-1 : 0;
}

UM_INLINE INT OP(where)(INT c, INT a, INT b) { return c != 0 ? a : b; }
UM_INLINE INT OP(clamp)(INT x, INT low, INT high) { return OP(min)(OP(max)(x, low), high); }

/* ---- loops ---------------------------------------------------------------------------------- */

UM_INLINE void NAME(each_1)(INT *dst, const INT *const *src, int64_t n, INT (*fn)(INT))
{
    const INT *a = src[0];
    for (int64_t i = 0; i < n; i++) dst[i] = fn(a[i]);
}
UM_INLINE void NAME(each_2)(INT *dst, const INT *const *src, int64_t n, INT (*fn)(INT, INT))
{
    const INT *a = src[0], *b = src[1];
    for (int64_t i = 0; i < n; i++) dst[i] = fn(a[i], b[i]);
}
UM_INLINE void NAME(each_3)(INT *dst, const INT *const *src, int64_t n, INT (*fn)(INT, INT, INT))
{
    const INT *a = src[0], *b = src[1], *c = src[2];
    for (int64_t i = 0; i < n; i++) dst[i] = fn(a[i], b[i], c[i]);
}

#define CASE_I(id, arity, fn)                                                                      \
    case id:                                                                                       \
        NAME(each_##arity)(out, in, n, fn);                                                        \
        break;
#define CASE_IB(id, arity, fn)  CASE_I(id, arity, fn)
#define CASE_FI(id, arity, fn)  CASE_I(id, arity, fn)
#define CASE_FIB(id, arity, fn) CASE_I(id, arity, fn)
#define CASE_ALL(id, arity, fn) CASE_I(id, arity, fn)
#define CASE_F(id, arity, fn)

void MAP_LOOP(um_op_id op, void *dst, const void *const *src, double value, int64_t n)
{
    (void)value; /* no integer op has an attribute */
    INT *out = dst;
    const INT *in[3] = {src[0], src[1], src[2]};
    switch (op) {
#define UM_OP(id, NAME, name, family, rule, in_min, in_max, out_count, dtypes, result, doc)
#define UM_MAP(id, NAME, name, arity, dtypes, result, doc) CASE_##dtypes(id, arity, OP(name))
#include <umbel/op.def>
    }
}

#undef OP
#undef CASE_I
#undef CASE_IB
#undef CASE_FI
#undef CASE_FIB
#undef CASE_ALL
#undef CASE_F
#undef INT
#undef NAME
#undef BELOW_ZERO
#undef MAP_LOOP
