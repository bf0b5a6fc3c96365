/* test/onnx/ops_map.c: elementwise ops, casts among them. */
#include "base/base.h"
#include "handlers.h"

#include <math.h>
#include <string.h>

void on_map1(run *r, um_op_id id) { out(r, 0, m1(r, id, in(r, 0))); }
void on_map2(run *r, um_op_id id) { out(r, 0, m2(r, id, in(r, 0), in(r, 1))); }

void on_variadic(run *r, um_op_id id)
{
    um_view y = in(r, 0);
    for (int32_t i = 1; i < r->in_count; i++) y = m2(r, id, y, in(r, i));
    out(r, 0, y);
}

void on_mean(run *r, um_op_id id)
{
    on_variadic(r, id);
    out(r, 0, mulc(r, r->out[0].view, 1.0 / r->in_count));
}

void on_where(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, where(r, in(r, 0), in(r, 1), in(r, 2)));
}

void on_bit_shift(run *r, um_op_id id)
{
    id = attr_is(r, "direction", "", "LEFT") ? UM_OP_SHIFT_LEFT : UM_OP_SHIFT_RIGHT;
    on_map2(r, id);
}

void on_mod(run *r, um_op_id id)
{
    id = attr_int(r, "fmod", 0) ? UM_OP_FMOD : UM_OP_REMAINDER;
    on_map2(r, id);
}

/* The result has the base's type; the exponent may have another. */
void on_pow(run *r, um_op_id id)
{
    um_view a = in(r, 0), b = in(r, 1);
    bool int_base = um_dtype_get_kind(a.dtype) != UM_KIND_FLOAT;
    um_dtype dtype = int_base && um_dtype_get_kind(b.dtype) == UM_KIND_FLOAT ? UM_F64 : a.dtype;
    out(r, 0, cast(r, m2(r, id, cast(r, a, dtype), cast(r, b, dtype)), a.dtype));
}

void on_clip(run *r, um_op_id id)
{
    (void)id;
    um_view y = in(r, 0);
    if (r->opset < 11) {
        y = maxi(r, y, num(r, y.dtype, (double)attr_float(r, "min", -INFINITY)));
        y = mini(r, y, num(r, y.dtype, (double)attr_float(r, "max", INFINITY)));
    } else if (has_in(r, 1) && has_in(r, 2)) {
        y = m3(r, UM_OP_CLAMP, y, in(r, 1), in(r, 2));
    } else if (has_in(r, 1)) {
        y = maxi(r, y, in(r, 1));
    } else if (has_in(r, 2)) {
        y = mini(r, y, in(r, 2));
    }
    out(r, 0, y);
}

void on_is_inf(run *r, um_op_id id)
{
    um_view x = in(r, 0), y = m1(r, id, x), zero = num(r, x.dtype, 0);
    if (!attr_int(r, "detect_positive", 1))
        y = m2(r, UM_OP_LOGICAL_AND, y, m2(r, UM_OP_LT, x, zero));
    if (!attr_int(r, "detect_negative", 1))
        y = m2(r, UM_OP_LOGICAL_AND, y, m2(r, UM_OP_GT, x, zero));
    out(r, 0, y);
}

void on_binarizer(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    out(r, 0,
        cast(r, m2(r, id, x, num(r, x.dtype, (double)attr_float(r, "threshold", 0))), x.dtype));
}

/* The same bits as another type. */
void on_bit_cast(run *r, um_op_id id)
{
    (void)id;
    um_view y = pack(r, in(r, 0));
    int32_t to = (int32_t)attr_int(r, "to", 0);
    um_dtype dtype = onnx_dtype(to);
    if (um_dtype_bits(dtype) != um_dtype_bits(y.dtype) || onnx_narrow_bits(to) ||
        onnx_narrow_bits(r->in[0].type))
        run_refuse(r, "BitCast: to another size");
    y.dtype = dtype;
    out(r, 0, y);
}

/* ---- activations --------------------------------------------------------------------------------
 */

void on_elu(run *r, um_op_id id)
{
    out(r, 0, m1a(r, id, in(r, 0), (double)attr_float(r, "alpha", 1)));
}

void on_leaky_relu(run *r, um_op_id id)
{
    out(r, 0, m1a(r, id, in(r, 0), (double)attr_float(r, "alpha", 0.01f)));
}

/* alpha * elu(x / alpha) */
void on_celu(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    double alpha = (double)attr_float(r, "alpha", 1);
    um_view y = mulc(r, m1a(r, id, mulc(r, widen(r, x), 1 / alpha), 1), alpha);
    out(r, 0, cast(r, y, x.dtype));
}

void on_selu(run *r, um_op_id id)
{
    double alpha = (double)attr_float(r, "alpha", 1.67326319217681884765625f);
    double gamma = (double)attr_float(r, "gamma", 1.05070102214813232421875f);
    out(r, 0, mulc(r, m1a(r, id, in(r, 0), alpha), gamma));
}

void on_gelu(run *r, um_op_id id)
{
    if (attr_is(r, "approximate", "none", "tanh")) id = UM_OP_GELU_TANH;
    on_map1(r, id);
}

void on_hard_sigmoid(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), y = mulc(r, x, (double)attr_float(r, "alpha", 0.2f));
    y = addc(r, y, (double)attr_float(r, "beta", 0.5f));
    out(r, 0, m3(r, UM_OP_CLAMP, y, num(r, x.dtype, 0), num(r, x.dtype, 1)));
}

void on_thresholded_relu(run *r, um_op_id id)
{
    um_view x = in(r, 0), alpha = num(r, x.dtype, (double)attr_float(r, "alpha", 1));
    out(r, 0, where(r, m2(r, id, x, alpha), x, num(r, x.dtype, 0)));
}

/* x < -lambd: x + bias; x > lambd: x - bias; else 0 */
void on_shrink(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), y = num(r, x.dtype, 0);
    double bias = (double)attr_float(r, "bias", 0), lambd = (double)attr_float(r, "lambd", 0.5f);
    y = where(r, m2(r, UM_OP_GT, x, num(r, x.dtype, lambd)), addc(r, x, -bias), y);
    out(r, 0, where(r, m2(r, UM_OP_LT, x, num(r, x.dtype, -lambd)), addc(r, x, bias), y));
}

void on_softsign(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    out(r, 0, quo(r, x, addc(r, m1(r, id, x), 1)));
}

void on_prelu(run *r, um_op_id id)
{
    um_view x = in(r, 0), slope = expand_like(r, in(r, 1), &x);
    out(r, 0, where(r, m2(r, id, x, num(r, x.dtype, 0)), mul(r, slope, x), x));
}

static um_view swish(run *r, um_view x, double alpha)
{
    if (alpha == 1) return m1(r, UM_OP_SILU, x);
    return mul(r, x, m1(r, UM_OP_SIGMOID, mulc(r, x, alpha)));
}

void on_swish(run *r, um_op_id id)
{
    (void)id;
    out(r, 0, swish(r, in(r, 0), (double)attr_float(r, "alpha", 1)));
}

void on_swiglu(run *r, um_op_id id)
{
    (void)id;
    um_view gate = swish(r, in(r, 0), (double)attr_float(r, "alpha", 1));
    out(r, 0, mul(r, gate, in(r, 1)));
}

/* ---- casts --------------------------------------------------------------------------------------
 */

/* Umbel's overflow rule for what ONNX says by an attribute of the 8-bit floats. */
static um_view cast_small_float(run *r, um_view x, um_dtype dtype, bool saturate)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1};
    op.attrs.copy.overflow = saturate ? UM_OVERFLOW_SATURATE : UM_OVERFLOW_SPECIAL;
    op.in[0] = x;
    op.out[0].dtype = dtype;
    return run_op(r, &op);
}

/* Integers of few bits wrap, as their wider kin do. */
static um_view cast_narrow_int(run *r, um_view x, int32_t type)
{
    int32_t bits = onnx_narrow_bits(type);
    um_dtype dtype = onnx_dtype(type);
    um_view y = cast(r, x, UM_I32);
    um_view shift = num(r, UM_I32, 32 - bits);
    y = m2(r, UM_OP_SHIFT_LEFT, y, shift);
    if (dtype == UM_U8) {
        y = m2(r, UM_OP_SHIFT_RIGHT, cast(r, y, UM_U32), cast(r, shift, UM_U32));
        return cast(r, y, dtype);
    }
    return cast(r, m2(r, UM_OP_SHIFT_RIGHT, y, shift), dtype);
}

/* The power of two above, below or nearest: log2 is exact enough on the log's integers only, so the
 * candidate is put right by comparing. */
static um_view cast_power(run *r, um_view x, const char *round_mode)
{
    um_view wide = cast(r, x, UM_F64);
    um_view floor = m1(r, UM_OP_EXP2, m1(r, UM_OP_FLOOR, m1(r, UM_OP_LOG2, wide)));
    um_view twice = mulc(r, floor, 2);
    floor = where(r, m2(r, UM_OP_LE, twice, wide), twice, floor);
    if (strcmp(round_mode, "up") == 0)
        floor = where(r, m2(r, UM_OP_LT, floor, wide), mulc(r, floor, 2), floor);
    return cast(r, strcmp(round_mode, "nearest") == 0 ? wide : floor, UM_F8E8M0);
}

um_view cast_to(run *r, um_view x, int32_t type, bool saturate)
{
    um_dtype dtype = onnx_dtype(type);
    if (dtype == UM_DTYPE_NONE) run_refuse(r, "%s tensors", onnx_type_name(type));
    if (onnx_narrow_bits(type)) return cast_narrow_int(r, x, type);
    /* A type without NaN: ONNX gives -0 for it, Umbel the largest. */
    if (dtype == UM_F4E2M1) x = where(r, m1(r, UM_OP_ISNAN, x), num(r, x.dtype, -0.0), x);
    if (dtype == UM_F8E8M0) return cast_power(r, x, attr_str(r, "round_mode", "up"));
    if (dtype >= UM_F8E4M3FN && dtype <= UM_F8E5M2FNUZ)
        return cast_small_float(r, x, dtype, saturate);
    return cast(r, x, dtype);
}

static void cast_out(run *r, int32_t type)
{
    um_view y = cast_to(r, in(r, 0), type, attr_int(r, "saturate", 1) != 0);
    r->out[0] = (value){y, type};
}

void on_cast(run *r, um_op_id id)
{
    (void)id;
    cast_out(r, (int32_t)attr_int(r, "to", 0));
}

void on_cast_like(run *r, um_op_id id)
{
    (void)id;
    (void)in(r, 1);
    cast_out(r, r->in[1].type);
}
