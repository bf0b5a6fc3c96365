/* test/onnx/handlers.h: the handlers of ops.def, and what they share beyond run.h. */
#ifndef UM_TEST_ONNX_HANDLERS_H
#define UM_TEST_ONNX_HANDLERS_H

#include "run.h"

#define OP(name, handler, id, exact) void handler(run *r, um_op_id id_);
#include "ops.def"

/* By ONNX's rules: saturation of the 8-bit floats, wrapping of the 4- and 2-bit integers. */
um_view cast_to(run *r, um_view x, int32_t type, bool saturate);
/* before and after may be negative; mode as Pad's; fill is of rank 0. */
um_view pad_axis(run *r, um_view x, int32_t axis, int64_t before, int64_t after, const char *mode,
                 um_view fill);
/* Umbel's gather and scatter with indices that may be negative. */
um_view gather_along(run *r, um_view x, int32_t axis, um_view indices);
um_view scatter_along(run *r, um_view x, int32_t axis, um_scatter_mode mode, um_view indices,
                      um_view values);
/* Rows [found, rank] of the places that are not zero; how many is the result's shape. */
um_view places(run *r, um_view x);
/* To zero's dtype. */
um_view quantize(run *r, um_view x, um_view scale, um_view zero, int32_t axis, int64_t block);
/* Keys' cubic kernel of distances. */
um_view cubic_weights(run *r, um_view d, double a);

#endif
