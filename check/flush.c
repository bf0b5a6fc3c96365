/* check/flush.c: devices that take subnormal numbers of f32 for 0. Many processors' graphics units
 * do, and their drivers say so at most; so it is tried. Called by driver.c and case.c. */
#include "check/inside.h"

#include <math.h>

#define LEAST 0x1p-126f /* normal number of f32, and of bf16 */
#define LARGE 0x1p60

static bool is_concerned(um_dtype dtype) { return dtype == UM_F32 || dtype == UM_BF16; }

static um_op_family family_of(const um_sample *sample)
{
    return um_op_get_row(sample->op.id)->family;
}

/* 2^-126 / 2. One write: what a second one brings into a buffer, oclgrind takes for unwritten. */
static um_status try_half(um_stream *stream, um_ptr room, float *result)
{
    const float given[32] = {[0] = LEAST, [16] = 0.5f};
    um_op op = {.id = UM_OP_MUL, .in_count = 2, .out_count = 1};
    for (uint64_t i = 0; i < 2; i++)
        UM_TRY(um_view_make(room + 64 * i, UM_F32, 0, NULL, &op.in[i]));
    UM_TRY(um_view_make(room + 128, UM_F32, 0, NULL, &op.out[0]));
    if (!um_supports(um_stream_device(stream), &op, NULL, 0)) return UM_OK;
    UM_TRY(um_write(stream, room, given, sizeof given));
    UM_TRY(um_enqueue(stream, &op));
    return um_read(stream, result, room + 128, sizeof *result);
}

bool um_device_flushes(um_device *device)
{
    um_caps caps = {.struct_size = sizeof caps};
    um_stream *stream = NULL;
    um_ptr room = 0;
    float result = 1;
    um_error before = *um_last_error();
    um_status status = um_device_caps(device, &caps);
    bool may = status == UM_OK && caps.kind < UM_DEVICE_CPU; /* what runs on the CPU does not */
    if (may) status = um_stream_create(device, &stream);
    if (may && status == UM_OK) status = um_alloc(device, 192, &room);
    if (may && status == UM_OK) status = try_half(stream, room, &result);
    um_stream_release(stream);
    if (um_free(device, room) != UM_OK) may = false;
    um_fail_again(&before);
    return may && status == UM_OK && result == 0;
}

/* Where many numbers make one, what is lost times a large one may be seen: there are none of those.
 * Norms multiply by what came of a line, and then by a weight: so neither are there small ones, of
 * which something would be lost before an infinite weight, nor those whose exponential is lost. */
um_num um_value_flushed(const um_sample *sample, um_dtype dtype, um_round round, um_num value)
{
    bool line = round == UM_ROUND_SPECIALS && family_of(sample) == UM_FAMILY_NORM;
    double least = line ? 1 / LARGE : (double)LEAST;
    if (dtype == UM_F8E8M0 && value.f < (double)LEAST) value.f = (double)LEAST; /* it has no 0 */
    if (!is_concerned(dtype)) return value;
    if ((line || round == UM_ROUND_RARE) && isfinite(value.f) && fabs(value.f) > LARGE)
        value.f = copysign(LARGE, value.f);
    if (line && value.f < -87 && value.f >= -104) value.f = -87;
    if (fabs(value.f) < least) value.f = copysign(0, value.f);
    return value;
}

/* A 0 in place of a subnormal number; of attention also what differs because an exponential was
 * lost, whatever it would have been multiplied by: NaN where that is an infinity. */
bool um_expect_flushed(const um_sample *sample, const um_expect *expect, um_dtype dtype, um_num got)
{
    bool near = expect->judge == UM_JUDGE_NEAR || expect->judge == UM_JUDGE_LOOSE;
    bool product = family_of(sample) == UM_FAMILY_ATTENTION;
    if (!near || !(product || is_concerned(dtype))) return false;
    if (product && isinf(expect->want)) return isnan(got.f);
    double least = (double)LEAST * (product ? LARGE : 1);
    return (product || got.f == 0) && fabs((double)expect->want - got.f) - expect->bound < least;
}
