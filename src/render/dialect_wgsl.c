/* render/dialect_wgsl.c: the WebGPU Shading Language. Its integers wrap, its constants must be
 * finite when they are seen at compile time, so infinities are made from a word that is not known
 * then. */
#include "render/cstyle.h"

const um_dialect um_dialect_wgsl = {
    .target = UM_TARGET_WGSL,
    .like = UM_TARGET_WGSL,
    .head = "var<private> um_zero: u32 = 0u;\n"
            "fn um_mul_high_u32(a: u32, b: u32) -> u32\n"
            "{\n"
            "    let low = (a & 65535u) * (b & 65535u);\n"
            "    let middle = (a >> 16u) * (b & 65535u) + (low >> 16u);\n"
            "    let other = (a & 65535u) * (b >> 16u) + (middle & 65535u);\n"
            "    return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);\n"
            "}\n"
            "fn um_mul_high_i32(a: i32, b: i32) -> i32\n"
            "{\n"
            "    let high = bitcast<i32>(um_mul_high_u32(bitcast<u32>(a), bitcast<u32>(b)));\n"
            "    return high - select(0, b, a < 0) - select(0, a, b < 0);\n"
            "}\n",
    .infinite = "bitcast<f32>($iu | um_zero)",
    .infinite64 = "0",
    .f32_suffix = "f",
    .u32_suffix = "u",
    .i64_suffix = "",
    .u64_suffix = "",
    .buffer_before = "@group(0) @binding($i) var<storage, $q> $m: array<$t>;",
    .scalar_words = "um_scalars.$m",
    .struct_open = "struct um_scalar_words {\n",
    .struct_base = "    $mbase: u32,",
    .struct_item = "    $m: $t,",
    .struct_close = "};\n@group(0) @binding($i) var<uniform> um_scalars: um_scalar_words;\n",
    .builtin_params = "@builtin(workgroup_id) um_group: vec3<u32>, @builtin(num_workgroups) "
                      "um_groups: vec3<u32>, "
                      "@builtin(local_invocation_id) um_local: vec3<u32>, "
                      "@builtin(local_invocation_index) um_index: u32",
    .shared_before = "var<workgroup> $m: array<$t, $n>;",
    .function_open = "\n@compute @workgroup_size($0, $1, $2)\nfn um_$v(",
    .var_begin = "var $m: $t;",
    .array_begin = "var $m: array<$t, $n>;",
    .value = "let $v: $t = $e;",
    .later = "var $v: $t = $e;",
    .assign = "$v = $e;",
    .element = "$m[$0]",
    .buffer_element = "$m[um_scalars.$mbase + $0]",
    .atomic_cas =
        "var $v: $t; loop { let r = atomicCompareExchangeWeak(&$m, $1, $2); $v = r.old_value; "
        "if (r.exchanged || $v != $1) { break; } }",
    .atomic_load = "atomicLoad(&$m)",
    .atomic_store = "atomicStore(&$m, $1);",
    .atomic_type = "atomic<$t>",
    .space = {"", "", "", ""},
    .if_open = "if ($0) {",
    .for_open = "for (var $v: $t = $0; $v < $1; $v += $2) {",
    .loop_open = "loop {",
};
