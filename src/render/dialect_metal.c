/* render/dialect_metal.c: Metal Shading Language 2.3. */
#include "render/cstyle.h"

const um_dialect um_dialect_metal = {
    .target = UM_TARGET_METAL,
    .like = UM_TARGET_METAL,
    .is_c = true,
    UM_FORMS_C,
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
    .atomic_cas =
        "$t $v = $1; while (!atomic_compare_exchange_weak_explicit(($q atomic_$t *)&$m, &$v, $2, "
        "memory_order_relaxed, memory_order_relaxed) && $v == $1) {}",
    .space = {"device", "threadgroup", "thread", "thread"},
    .frag_head = um_frag_head_metal,
};
