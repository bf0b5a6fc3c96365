/* ir/lanes_int_body.h: included once for each integer type T, with U (its unsigned twin),
 * NEGATIVE(x) (x < 0, without a warning where that never holds), bad_division(a, b) and EVAL (the
 * function's name), which end with it.
 * Division of what must not be divided gives anything: inactive invocations have such operands. */
static void EVAL(um_kop op, void *dst, const T *a, const T *b, int32_t n)
{
    const uint32_t bits = sizeof(T) * 8;
    T *d = dst;
    uint8_t *truth = dst;
    switch (op) {
    case UM_KOP_ADD: EACH(d, (T)((U)a[i] + (U)b[i]));
    case UM_KOP_SUB: EACH(d, (T)((U)a[i] - (U)b[i]));
    case UM_KOP_MUL: EACH(d, (T)((U)a[i] * (U)b[i]));
    case UM_KOP_DIV: EACH(d, (T)(bad_division(a[i], b[i]) ? 0 : a[i] / b[i]));
    case UM_KOP_REM: EACH(d, (T)(bad_division(a[i], b[i]) ? 0 : a[i] % b[i]));
    case UM_KOP_NEG: EACH(d, (T)(0 - (U)a[i]));
    case UM_KOP_ABS: EACH(d, (T)(NEGATIVE(a[i]) ? 0 - (U)a[i] : (U)a[i]));
    case UM_KOP_MIN: EACH(d, a[i] < b[i] ? a[i] : b[i]);
    case UM_KOP_MAX: EACH(d, a[i] > b[i] ? a[i] : b[i]);
    case UM_KOP_AND: EACH(d, a[i] & b[i]);
    case UM_KOP_OR: EACH(d, a[i] | b[i]);
    case UM_KOP_XOR: EACH(d, a[i] ^ b[i]);
    case UM_KOP_NOT: EACH(d, (T)~a[i]);
    case UM_KOP_SHL: EACH(d, (T)((U)a[i] << ((U)b[i] & (bits - 1))));
    case UM_KOP_SHR: EACH(d, (T)(a[i] >> ((U)b[i] & (bits - 1))));
    case UM_KOP_EQ: EACH(truth, a[i] == b[i]);
    case UM_KOP_NE: EACH(truth, a[i] != b[i]);
    case UM_KOP_LT: EACH(truth, a[i] < b[i]);
    case UM_KOP_LE: EACH(truth, a[i] <= b[i]);
    case UM_KOP_GT: EACH(truth, a[i] > b[i]);
    case UM_KOP_GE: EACH(truth, a[i] >= b[i]);
    default: return;
    }
}
#undef EVAL
#undef T
#undef U
#undef NEGATIVE
#undef bad_division
