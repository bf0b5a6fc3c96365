/* umbel/select.h: kinds of devices by name, and which matrix tile suits a device. Opening a device
 * is in umbel/device.h. Everything here may be called from any thread. */
#ifndef UMBEL_SELECT_H
#define UMBEL_SELECT_H

#include <umbel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kinds -------------------------------------------------------------------------------- */

/* The kind that a word stands for, in any case, with blanks around it; UM_DEVICE_NONE for any other
 * text and for NULL. Words: cuda, nvidia; rocm, hip, amd; metal, mtl, apple; level_zero, levelzero,
 * level-zero, l0, ze, intel; vulkan, vk; webgpu, wgpu; opencl, cl; cpu, host, reference; null. */
UM_API um_device_kind um_device_kind_parse(const char *text);
/* "cuda", "level_zero", ...; "none" for UM_DEVICE_NONE and numbers that are no kind. Never NULL. */
UM_API const char *um_device_kind_name(um_device_kind kind);

/* ---- matrix tiles ------------------------------------------------------------------------- */

/* The tile, m by n of the result and k deep, that suits a matrix product of m x n x k on the
 * device. With tensor cores and m, n, k all multiples of 16: 128 x 128 x 32 when the smallest of
 * them is 512 or more, else 64 x 64 x 16. Otherwise, by the smallest: up to 64 16 x 16 x 16, up to
 * 512 64 x 64 x 16, else 128 x 128 x 8. For kernels of the caller's own: Umbel's choose for
 * themselves. INVALID_ARGUMENT: a NULL, a size below 1, an op other than a matrix product,
 * convolution or attention. */
UM_API UM_MUST_CHECK um_status um_recommended_tile(um_device *device, um_op_id op, int64_t m,
                                                   int64_t n, int64_t k, um_matrix_tile *out);

#ifdef __cplusplus
}
#endif
#endif
