/* render/dialect_metal.c: Metal Shading Language 2.3. */
#include "render/cstyle.h"

static const um_words words_metal[UM_KOP_LIMIT] = {
    [UM_KOP_GROUP_ID] = {.u = "um_group.$x"},
    [UM_KOP_GROUP_COUNT] = {.u = "um_groups.$x"},
    [UM_KOP_LOCAL_ID] = {.u = "um_local.$x"},
    [UM_KOP_LOCAL_INDEX] = {.u = "um_index"},
    [UM_KOP_SUBGROUP_SIZE] = {.u = "um_simd_size"},
    [UM_KOP_SUBGROUP_ID] = {.u = "um_simd"},
    [UM_KOP_SUBGROUP_LANE] = {.u = "um_lane"},
    [UM_KOP_MUL_HIGH] = {.s = "mulhi($0, $1)"},
    [UM_KOP_POPCOUNT] = {.s = "popcount($0)"},
    [UM_KOP_CLZ] = {.s = "clz($0)"},
    [UM_KOP_BITCAST] = {.f = "as_type<$t>($0)"},
    [UM_KOP_BARRIER] =
        {.u = "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);"},
    [UM_KOP_SUBGROUP_SHUFFLE] = {.f = "simd_shuffle($0, (ushort)$1)"},
    [UM_KOP_SUBGROUP_SHUFFLE_XOR] = {.f = "simd_shuffle_xor($0, (ushort)$i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_UP] = {.f = "simd_shuffle_up($0, (ushort)$i)"},
    [UM_KOP_SUBGROUP_SHUFFLE_DOWN] = {.f = "simd_shuffle_down($0, (ushort)$i)"},
};

#define ATOMIC(fn) "atomic_" fn "_explicit(($q atomic_$t *)&$m, $1, memory_order_relaxed)"

const um_dialect um_dialect_metal = {
    .name = "metal",
    .ops = words_metal,
    .base = um_words_c,
    UM_FORMS_C,
    .type = {[UM_F32] = "float",
             [UM_F16] = "half",
             [UM_I64] = "long",
             [UM_I32] = "int",
             [UM_I16] = "short",
             [UM_I8] = "char",
             [UM_U64] = "ulong",
             [UM_U32] = "uint",
             [UM_U16] = "ushort",
             [UM_U8] = "uchar",
             [UM_BOOL] = "bool"},
    .vector = {[UM_F32] = "float$n", [UM_F16] = "half$n", [UM_I32] = "int$n", [UM_U32] = "uint$n"},
    .head = "#include <metal_stdlib>\n"
            "using namespace metal;\n",
    .infinite = "as_type<float>($iu)",
    .infinite64 = "0",
    .i64_suffix = "l",
    .u64_suffix = "ul",
    .buffer_param = "device $s$t *$m [[buffer($i)]]",
    .scalar_words = "um_scalars.$m",
    .struct_open = "\nstruct um_$v_scalars {\n",
    .struct_item = "    $t $m;",
    .struct_close = "};\n",
    .struct_param = "constant um_$v_scalars &um_scalars [[buffer($i)]], ",
    .builtin_params = "uint3 um_group [[threadgroup_position_in_grid]], "
                      "uint3 um_groups [[threadgroups_per_grid]], "
                      "uint3 um_local [[thread_position_in_threadgroup]], "
                      "uint um_index [[thread_index_in_threadgroup]], "
                      "uint um_simd_size [[threads_per_simdgroup]], "
                      "uint um_simd [[simdgroup_index_in_threadgroup]], "
                      "uint um_lane [[thread_index_in_simdgroup]]",
    .shared_begin = "alignas(16) threadgroup $t $m[$n];",
    .function_open = "\n[[max_total_threads_per_threadgroup($n)]]\nkernel void um_$v(",
    .array_begin = "alignas(16) $t $m[$n];",
    .load_wide = "*(const $q $V *)($m + $0)",
    .store_wide = "*($q $V *)($m + $0) = $V($e);",
    .atomic = {[UM_K_ADD] = ATOMIC("fetch_add"),
               [UM_K_MIN] = ATOMIC("fetch_min"),
               [UM_K_MAX] = ATOMIC("fetch_max"),
               [UM_K_AND] = ATOMIC("fetch_and"),
               [UM_K_OR] = ATOMIC("fetch_or"),
               [UM_K_XOR] = ATOMIC("fetch_xor"),
               [UM_K_EXCHANGE] = ATOMIC("exchange")},
    .atomic_cas =
        "$t $v = $1; while (!atomic_compare_exchange_weak_explicit(($q atomic_$t *)&$m, &$v, $2, "
        "memory_order_relaxed, memory_order_relaxed) && $v == $1) {}",
    .space = {"device", "threadgroup", "thread", "thread"},
    .frag_head = um_frag_head_metal,
};
