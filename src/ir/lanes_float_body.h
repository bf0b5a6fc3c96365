/* ir/lanes_float_body.h: included for T float and double, with EVAL (the function's name) and
 * FUSED(a, b, c), which end with it. Functions are computed in double and rounded to T. */
static void EVAL(um_kop op, void *dst, const T *a, const T *b, const T *c, int32_t n)
{
    T *d = dst;
    uint8_t *truth = dst;
    switch (op) {
    case UM_KOP_ADD: EACH(d, a[i] + b[i]);
    case UM_KOP_SUB: EACH(d, a[i] - b[i]);
    case UM_KOP_MUL: EACH(d, a[i] * b[i]);
    case UM_KOP_DIV: EACH(d, a[i] / b[i]);
    case UM_KOP_NEG: EACH(d, -a[i]);
    case UM_KOP_ABS: EACH(d, (T)fabs((double)a[i]));
    case UM_KOP_MIN: EACH(d, a[i] < b[i] ? a[i] : b[i]);
    case UM_KOP_MAX: EACH(d, a[i] > b[i] ? a[i] : b[i]);
    case UM_KOP_FMA: EACH(d, FUSED(a[i], b[i], c[i]));
    case UM_KOP_SQRT: EACH(d, (T)sqrt((double)a[i])); /* rounding twice is harmless here */
    case UM_KOP_RSQRT: EACH(d, (T)(1 / sqrt((double)a[i])));
    case UM_KOP_FLOOR: EACH(d, (T)floor((double)a[i]));
    case UM_KOP_CEIL: EACH(d, (T)ceil((double)a[i]));
    case UM_KOP_TRUNC: EACH(d, (T)trunc((double)a[i]));
    case UM_KOP_ROUND: EACH(d, (T)rint((double)a[i]));
    case UM_KOP_EQ: EACH(truth, a[i] == b[i]);
    case UM_KOP_NE: EACH(truth, a[i] != b[i]);
    case UM_KOP_LT: EACH(truth, a[i] < b[i]);
    case UM_KOP_LE: EACH(truth, a[i] <= b[i]);
    case UM_KOP_GT: EACH(truth, a[i] > b[i]);
    case UM_KOP_GE: EACH(truth, a[i] >= b[i]);
    case UM_KOP_EXP: EACH(d, (T)exp((double)a[i]));
    case UM_KOP_EXP2: EACH(d, (T)exp2((double)a[i]));
    case UM_KOP_EXPM1: EACH(d, (T)expm1((double)a[i]));
    case UM_KOP_LOG: EACH(d, (T)log((double)a[i]));
    case UM_KOP_LOG2: EACH(d, (T)log2((double)a[i]));
    case UM_KOP_LOG10: EACH(d, (T)log10((double)a[i]));
    case UM_KOP_LOG1P: EACH(d, (T)log1p((double)a[i]));
    case UM_KOP_SIN: EACH(d, (T)sin((double)a[i]));
    case UM_KOP_COS: EACH(d, (T)cos((double)a[i]));
    case UM_KOP_TAN: EACH(d, (T)tan((double)a[i]));
    case UM_KOP_ASIN: EACH(d, (T)asin((double)a[i]));
    case UM_KOP_ACOS: EACH(d, (T)acos((double)a[i]));
    case UM_KOP_ATAN: EACH(d, (T)atan((double)a[i]));
    case UM_KOP_SINH: EACH(d, (T)sinh((double)a[i]));
    case UM_KOP_COSH: EACH(d, (T)cosh((double)a[i]));
    case UM_KOP_TANH: EACH(d, (T)tanh((double)a[i]));
    case UM_KOP_ASINH: EACH(d, (T)asinh((double)a[i]));
    case UM_KOP_ACOSH: EACH(d, (T)acosh((double)a[i]));
    case UM_KOP_ATANH: EACH(d, (T)atanh((double)a[i]));
    case UM_KOP_ERF: EACH(d, (T)erf((double)a[i]));
    case UM_KOP_POW: EACH(d, (T)pow((double)a[i], (double)b[i]));
    case UM_KOP_ATAN2: EACH(d, (T)atan2((double)a[i], (double)b[i]));
    default: return;
    }
}
#undef EVAL
#undef T
#undef FUSED
