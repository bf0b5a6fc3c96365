/* render/dialect_cuda.c: CUDA C++ as NVRTC takes it, and HIP C++ as hipRTC does: they differ in how
 * a subgroup is spoken of. Neither includes a header. */
#include "render/cstyle.h"

/* CUDA contracts by default: the driver compiles with --fmad=false. */
static const char head[] =
    "template <class T, class S> __device__ inline T um_bits(S from)\n"
    "{\n"
    "    union { S from; T to; } bits;\n"
    "    bits.from = from;\n"
    "    return bits.to;\n"
    "}\n"
    "__device__ inline unsigned int um_local_index()\n"
    "{\n"
    "    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
    "}\n";

#define COMMON_DIALECT                                                                             \
    .like = UM_TARGET_CUDA, .is_c = true, UM_FORMS_C, .head = head,                                \
    .infinite = "um_bits<float>($iu)", .infinite64 = "um_bits<double>($iull)", .i64_suffix = "ll", \
    .u64_suffix = "ull", .buffer_param = "$s$t *$m", .scalar_param = "$t $m",                      \
    .scalar_words = "$m", .builtin_params = "",                                                    \
    .shared_begin = "__shared__ __align__(16) $t $m[$n];",                                         \
    .function_open = "\nextern \"C\" __global__ void __launch_bounds__($n)\num_$v(",               \
    .array_begin = "__align__(16) $t $m[$n];",                                                     \
    .load_wide = "*reinterpret_cast<const $V *>($m + $0)",                                         \
    .store_wide = "*reinterpret_cast<$V *>($m + $0) = make_$V($e);",                               \
    .atomic_cas = "const $t $v = atomicCAS(&$m, $1, $2);", .space = {"", "", "", ""}

const um_dialect um_dialect_cuda = {.target = UM_TARGET_CUDA,
                                    .frag_head = um_frag_head_cuda,
                                    .frag_places = true,
                                    .async_copies = true,
                                    COMMON_DIALECT};
const um_dialect um_dialect_hip = {
    .target = UM_TARGET_HIP, .frag_head = um_frag_head_hip, .frag_places = true, COMMON_DIALECT};
