/* test/onnx/ops_signal.c: windows, Fourier transforms; and what fits nowhere else. */
#include "base/base.h"
#include "handlers.h"

#include <string.h>

static const double PI = 3.14159265358979323846;

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) */
static void out_cosine_window(run *r, double a, double b, double c)
{
    int64_t n = (int64_t)run_number(r, in(r, 0));
    bool periodic = attr_int(r, "periodic", 1) != 0;
    double period = (double)(periodic ? n : n - 1);
    um_view angle = mulc(r, arange(r, UM_F64, n), 2 * PI / period);
    um_view y = addc(r, mulc(r, m1(r, UM_OP_COS, angle), -b), a);
    y = add(r, y, mulc(r, m1(r, UM_OP_COS, mulc(r, angle, 2)), c));
    out(r, 0, cast(r, y, onnx_dtype((int32_t)attr_int(r, "output_datatype", ONNX_FLOAT))));
}

void on_hann_window(run *r, um_op_id id)
{
    (void)id;
    out_cosine_window(r, 0.5, 0.5, 0);
}

void on_hamming_window(run *r, um_op_id id)
{
    (void)id;
    out_cosine_window(r, 25.0 / 46, 21.0 / 46, 0);
}

void on_blackman_window(run *r, um_op_id id)
{
    (void)id;
    out_cosine_window(r, 0.42, 0.5, 0.08);
}

/* Triangles over the spectrum's bins j: from each mel's lower edge up to its centre and down again.
 * The edges are equal steps of the mel scale, 2595 log10(1 + f / 700). */
void on_mel_weight_matrix(run *r, um_op_id id)
{
    (void)id;
    int64_t mels = (int64_t)run_number(r, in(r, 0)), n = (int64_t)run_number(r, in(r, 1));
    if (mels < 0 || n < 0) run_refuse(r, "MelWeightMatrix: the sizes");
    um_view ends[2], one = num(r, UM_F64, 1);
    for (int32_t i = 0; i < 2; i++) {
        um_view hertz = reshape(r, cast(r, in(r, 3 + i), UM_F64), 0, NULL);
        ends[i] = mulc(r, m1(r, UM_OP_LOG10, addc(r, mulc(r, hertz, 1.0 / 700), 1)), 2595);
    }
    um_view step = mulc(r, sub(r, ends[1], ends[0]), 1 / (double)(mels + 2));
    um_view edge = add(r, mul(r, arange(r, UM_F64, mels + 2), step), ends[0]);
    edge = m2(r, UM_OP_POW, num(r, UM_F64, 10), mulc(r, edge, 1.0 / 2595));
    edge = mulc(r, addc(r, edge, -1), 700 * (double)(n + 1));
    edge = m1(r, UM_OP_FLOOR, quo(r, edge, reshape(r, cast(r, in(r, 2), UM_F64), 0, NULL)));
    um_view low = slice(r, edge, 0, 0, mels, 1), centre = slice(r, edge, 0, 1, mels, 1);
    um_view high = slice(r, edge, 0, 2, mels, 1);
    um_view j = unsqueeze(r, arange(r, UM_F64, n / 2 + 1), 1);
    um_view up = quo(r, sub(r, j, low), maxi(r, sub(r, centre, low), one));
    um_view down = quo(r, sub(r, high, j), maxi(r, sub(r, high, centre), one));
    up = where(r, m2(r, UM_OP_EQ, low, centre), one, up);
    um_view rising = m2(r, UM_OP_LOGICAL_AND, m2(r, UM_OP_GE, j, low), m2(r, UM_OP_LE, j, centre));
    um_view falling =
        m2(r, UM_OP_LOGICAL_AND, m2(r, UM_OP_GE, j, centre), m2(r, UM_OP_LT, j, high));
    um_view y = where(r, falling, down, where(r, rising, up, num(r, UM_F64, 0)));
    out(r, 0, cast(r, y, onnx_dtype((int32_t)attr_int(r, "output_datatype", ONNX_FLOAT))));
}

/* cos or sin of 2 pi i j / n, [rows, columns]; whole turns are taken off as integers. */
static um_view turns_table(run *r, um_op_id id, int64_t rows, int64_t columns, int64_t n,
                           um_dtype dtype)
{
    um_view i = unsqueeze(r, arange(r, UM_I64, rows), 1), j = arange(r, UM_I64, columns);
    um_view turn = m2(r, UM_OP_REMAINDER, mul(r, i, j), put_i64(r, n));
    return cast(r, m1(r, id, mulc(r, cast(r, turn, UM_F64), 2 * PI / (double)UM_MAX(n, 1))), dtype);
}

/* re and im [..., n] to the sums over n of (re + i im) exp(-+ 2 pi i k n / N), stacked last. */
static um_view fourier(run *r, um_view re, um_view im, int64_t n, int64_t bins, bool inverse)
{
    um_view c = turns_table(r, UM_OP_COS, size(&re, -1), bins, n, re.dtype);
    um_view s = turns_table(r, UM_OP_SIN, size(&re, -1), bins, n, re.dtype);
    if (inverse) {
        c = mulc(r, c, 1 / (double)UM_MAX(n, 1));
        s = mulc(r, s, -1 / (double)UM_MAX(n, 1));
    }
    um_view parts[2] = {matmul(r, re, c), m1(r, UM_OP_NEG, matmul(r, re, s))};
    if (im.rank) {
        parts[0] = add(r, parts[0], matmul(r, im, s));
        parts[1] = add(r, parts[1], matmul(r, im, c));
    }
    for (int32_t i = 0; i < 2; i++) parts[i] = unsqueeze(r, parts[i], parts[i].rank);
    return concat(r, parts[0].rank - 1, 2, parts);
}

/* The last axis cut or filled up with zeros. */
static um_view fit(run *r, um_view x, int64_t n)
{
    return pad_axis(r, x, x.rank - 1, 0, n - size(&x, -1), "constant", num(r, x.dtype, 0));
}

/* The half that a real signal's spectrum leaves out: the conjugates, backwards. */
static void complete(run *r, um_view *re, um_view *im, int64_t n)
{
    int64_t missing = n - size(re, -1);
    if (missing < 1) return;
    um_view more = flip(r, slice(r, *re, -1, 1, missing, 1), -1);
    *re = concat(r, re->rank - 1, 2, (const um_view[]){*re, more});
    more = m1(r, UM_OP_NEG, flip(r, slice(r, *im, -1, 1, missing, 1), -1));
    *im = concat(r, im->rank - 1, 2, (const um_view[]){*im, more});
}

void on_dft(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), none = {0};
    int64_t at = r->opset < 20 ? attr_int(r, "axis", 1) : -2;
    if (has_in(r, 2)) at = (int64_t)run_number(r, in(r, 2));
    int32_t axis = axis_of(r, at, x.rank), last = x.rank - 1;
    bool inverse = attr_int(r, "inverse", 0) != 0, onesided = attr_int(r, "onesided", 0) != 0;
    bool is_real = size(&x, last) == 1, to_real = inverse && onesided;
    int64_t n = to_real ? 2 * (size(&x, axis) - 1) : size(&x, axis);
    if (has_in(r, 1)) n = (int64_t)run_number(r, in(r, 1));
    if (axis == last || (to_real && is_real) || n < 1) run_refuse(r, "DFT: the axes");
    if (r->failed) return;
    /* The transformed axis last, the complex one apart. */
    um_view re = swap_axes(r, squeeze(r, slice(r, x, last, 0, 1, 1), last), axis, -1), im = none;
    if (!is_real) im = swap_axes(r, squeeze(r, slice(r, x, last, 1, 1, 1), last), axis, -1);
    if (to_real) {
        re = fit(r, re, UM_MIN(size(&re, -1), n / 2 + 1));
        im = fit(r, im, UM_MIN(size(&im, -1), n / 2 + 1));
        complete(r, &re, &im, n);
    }
    re = fit(r, re, n);
    if (im.rank) im = fit(r, im, n);
    um_view y = fourier(r, re, im, n, onesided && !inverse ? n / 2 + 1 : n, inverse);
    if (to_real) y = slice(r, y, -1, 0, 1, 1);
    out(r, 0, swap_axes(r, y, axis, y.rank - 2));
}

/* Frames are a window on the signal whose rows overlap. */
void on_stft(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0), none = {0};
    int64_t step = (int64_t)run_number(r, in(r, 1)), n = 0;
    if (has_in(r, 3)) n = (int64_t)run_number(r, in(r, 3));
    if (has_in(r, 2) && n == 0) {
        um_view window = in(r, 2);
        n = size(&window, 0);
    }
    if (x.rank == 3 && size(&x, 2) == 1) x = squeeze(r, x, 2);
    if (x.rank != 2 || step < 1 || n < 1 || n > size(&x, 1)) run_refuse(r, "STFT: the frames");
    if (r->failed) return;
    um_view frames = x;
    frames.rank = 3;
    frames.shape[1] = (size(&x, 1) - n) / step + 1;
    frames.stride[1] = step * x.stride[1];
    frames.shape[2] = n;
    frames.stride[2] = x.stride[1];
    um_view windowed = has_in(r, 2) ? mul(r, frames, in(r, 2)) : frames;
    int64_t bins = attr_int(r, "onesided", 1) ? n / 2 + 1 : n;
    out(r, 0, fourier(r, windowed, none, n, bins, false));
}

/* Up to 3 by 3, along the first row. */
static um_view determinant(run *r, um_view x)
{
    int64_t n = size(&x, -1);
    um_view sum = num(r, x.dtype, 0);
    if (n == 1) return squeeze(r, squeeze(r, x, x.rank - 1), x.rank - 2);
    for (int64_t i = 0; i < n && !r->failed; i++) {
        um_view head = slice(r, slice(r, x, -2, 0, 1, 1), -1, i, 1, 1);
        head = squeeze(r, squeeze(r, head, x.rank - 1), x.rank - 2);
        um_view rows = slice(r, x, -2, 1, n - 1, 1), minor[2];
        minor[0] = slice(r, rows, -1, 0, i, 1);
        minor[1] = slice(r, rows, -1, i + 1, n - 1 - i, 1);
        um_view term = mul(r, head, determinant(r, concat(r, x.rank - 1, 2, minor)));
        sum = i % 2 ? sub(r, sum, term) : add(r, sum, term);
    }
    return sum;
}

void on_det(run *r, um_op_id id)
{
    (void)id;
    um_view x = in(r, 0);
    if (x.rank < 2 || size(&x, -1) != size(&x, -2) || size(&x, -1) < 1 || size(&x, -1) > 3)
        run_refuse(r, "Det: other than 1 to 3 rows");
    out(r, 0, determinant(r, x));
}

/* At inference, and of ratio 0, everything stays. */
void on_dropout(run *r, um_op_id id)
{
    um_view x = in(r, 0);
    bool training = has_in(r, 2) && run_number(r, in(r, 2)) != 0;
    double ratio = has_in(r, 1) ? run_number(r, in(r, 1)) : 0.5;
    if (training && ratio != 0) run_refuse(r, "the random numbers of another generator");
    um_op op = {.id = id, .in_count = 1, .out_count = 2};
    op.in[0] = x;
    (void)run_op(r, &op);
    out(r, 0, op.out[0]);
    out(r, 1, op.out[1]);
}
