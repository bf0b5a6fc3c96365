/* render/dialect_cuda.c: CUDA C++ as NVRTC takes it, and HIP C++ as hipRTC does: they differ in how
 * a subgroup is spoken of. Neither includes a header. */
#include "render/cstyle.h"

#define CALL1(fn) .f = fn "($0)"

/* NVRTC and hipRTC overload the C names for float and double. */
#define COMMON_WORDS                                                                               \
    [UM_KOP_GROUP_ID] = {.u = "blockIdx.$x"}, [UM_KOP_GROUP_COUNT] = {.u = "gridDim.$x"},          \
    [UM_KOP_LOCAL_ID] = {.u = "threadIdx.$x"},                                                     \
    [UM_KOP_LOCAL_INDEX] = {.u = "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * "        \
                                 "threadIdx.z))"},                                                 \
    [UM_KOP_MUL_HIGH] = {.s = "__mulhi($0, $1)", .u = "__umulhi($0, $1)"},                         \
    [UM_KOP_POPCOUNT] = {.s = "($t)__popc((unsigned int)$0)"},                                     \
    [UM_KOP_CLZ] = {.s = "($t)__clz((int)$0)"}, [UM_KOP_BITCAST] = {.f = "um_bits<$t>($0)"},       \
    [UM_KOP_BARRIER] = {.u = "__syncthreads();"}

static const um_words words_cuda[UM_KOP_LIMIT] = {
    COMMON_WORDS,
    [UM_KOP_SUBGROUP_SIZE] = {.u = "32u"},
    [UM_KOP_SUBGROUP_ID] = {.u = "um_local_index() / 32u"},
    [UM_KOP_SUBGROUP_LANE] = {.u = "um_local_index() % 32u"},
    [UM_KOP_SUBGROUP_SHUFFLE] = {.f = "__shfl_sync(__activemask(), $0, (int)$1)"},
    [UM_KOP_SUBGROUP_SHUFFLE_XOR] = {.f = "__shfl_xor_sync(__activemask(), $0, $i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_UP] = {.f = "__shfl_up_sync(__activemask(), $0, $i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_DOWN] = {.f = "__shfl_down_sync(__activemask(), $0, $i)"},
};

static const um_words words_hip[UM_KOP_LIMIT] = {
    COMMON_WORDS,
    [UM_KOP_SUBGROUP_SIZE] = {.u = "(unsigned int)warpSize"},
    [UM_KOP_SUBGROUP_ID] = {.u = "um_local_index() / (unsigned int)warpSize"},
    [UM_KOP_SUBGROUP_LANE] = {.u = "um_local_index() % (unsigned int)warpSize"},
    [UM_KOP_SUBGROUP_SHUFFLE] = {.f = "__shfl($0, (int)$1)"},
    [UM_KOP_SUBGROUP_SHUFFLE_XOR] = {.f = "__shfl_xor($0, $i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_UP] = {.f = "__shfl_up($0, $i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_DOWN] = {.f = "__shfl_down($0, $i)"},
};

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
    .base = um_words_c, UM_FORMS_C,                                                                \
    .type = {[UM_F64] = "double",                                                                  \
             [UM_F32] = "float",                                                                   \
             [UM_I64] = "long long",                                                               \
             [UM_I32] = "int",                                                                     \
             [UM_I16] = "short",                                                                   \
             [UM_I8] = "signed char",                                                              \
             [UM_U64] = "unsigned long long",                                                      \
             [UM_U32] = "unsigned int",                                                            \
             [UM_U16] = "unsigned short",                                                          \
             [UM_U8] = "unsigned char",                                                            \
             [UM_BOOL] = "bool"},                                                                  \
    .vector = {[UM_F32] = "float$n",  [UM_I32] = "int$n",  [UM_U32] = "uint$n",                    \
               [UM_U16] = "ushort$n", [UM_U8] = "uchar$n", [UM_I8] = "char$n"},                    \
    .head = head, .infinite = "um_bits<float>($iu)", .infinite64 = "um_bits<double>($iull)",       \
    .i64_suffix = "ll", .u64_suffix = "ull", .buffer_param = "$s$t *$m", .scalar_param = "$t $m",  \
    .scalar_words = "$m", .builtin_params = "",                                                    \
    .shared_begin = "__shared__ __align__(16) $t $m[$n];",                                         \
    .function_open = "\nextern \"C\" __global__ void __launch_bounds__($n)\num_$v(",               \
    .array_begin = "__align__(16) $t $m[$n];",                                                     \
    .load_wide = "*reinterpret_cast<const $V *>($m + $0)",                                         \
    .store_wide = "*reinterpret_cast<$V *>($m + $0) = make_$V($e);",                               \
    .atomic = {[UM_K_ADD] = "atomicAdd(&$m, $1)",      [UM_K_MIN] = "atomicMin(&$m, $1)",          \
               [UM_K_MAX] = "atomicMax(&$m, $1)",      [UM_K_AND] = "atomicAnd(&$m, $1)",          \
               [UM_K_OR] = "atomicOr(&$m, $1)",        [UM_K_XOR] = "atomicXor(&$m, $1)",          \
               [UM_K_EXCHANGE] = "atomicExch(&$m, $1)"},                                           \
    .atomic_cas = "const $t $v = atomicCAS(&$m, $1, $2);", .space = {"", "", "", ""}

const um_dialect um_dialect_cuda = {.name = "cuda",
                                    .ops = words_cuda,
                                    .frag_head = um_frag_head_cuda,
                                    .frag_places = true,
                                    .async_copies = true,
                                    COMMON_DIALECT};
const um_dialect um_dialect_hip = {.name = "hip",
                                   .ops = words_hip,
                                   .frag_head = um_frag_head_hip,
                                   .frag_places = true,
                                   COMMON_DIALECT};
