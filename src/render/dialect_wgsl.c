/* render/dialect_wgsl.c: the WebGPU Shading Language. Its integers wrap, its constants must be
 * finite when they are seen at compile time, so infinities are made from a word that is not known
 * then. */
#include "render/cstyle.h"

#define CALL1(fn) .f = fn "($0)"

static const um_words words_wgsl[UM_KOP_LIMIT] = {
    [UM_KOP_GROUP_ID] = {.u = "um_group.$x"},
    [UM_KOP_GROUP_COUNT] = {.u = "um_groups.$x"},
    [UM_KOP_LOCAL_ID] = {.u = "um_local.$x"},
    [UM_KOP_LOCAL_INDEX] = {.u = "um_index"},
    [UM_KOP_ADD] = {.f = "($0 + $1)"},
    [UM_KOP_SUB] = {.f = "($0 - $1)"},
    [UM_KOP_MUL] = {.f = "($0 * $1)"},
    [UM_KOP_DIV] = {.f = "($0 / $1)"},
    [UM_KOP_REM] = {.f = "($0 % $1)"},
    [UM_KOP_NEG] = {.f = "(-$0)", .u = "(0u - $0)"},
    [UM_KOP_ABS] = {.f = "abs($0)"},
    [UM_KOP_MIN] = {.f = "min($0, $1)"},
    [UM_KOP_MAX] = {.f = "max($0, $1)"},
    [UM_KOP_FMA] = {.f = "fma($0, $1, $2)"},
    [UM_KOP_MUL_HIGH] = {.s = "um_mul_high_i32($0, $1)", .u = "um_mul_high_u32($0, $1)"},
    [UM_KOP_SQRT] = {CALL1("sqrt")},
    [UM_KOP_RSQRT] = {CALL1("inverseSqrt")},
    [UM_KOP_FLOOR] = {CALL1("floor")},
    [UM_KOP_CEIL] = {CALL1("ceil")},
    [UM_KOP_TRUNC] = {CALL1("trunc")},
    [UM_KOP_ROUND] = {CALL1("round")},
    [UM_KOP_AND] = {.s = "($0 & $1)"},
    [UM_KOP_OR] = {.s = "($0 | $1)"},
    [UM_KOP_XOR] = {.s = "($0 ^ $1)", .b = "($0 != $1)"},
    [UM_KOP_NOT] = {.s = "(~$0)", .b = "(!$0)"},
    [UM_KOP_SHL] = {.s = "($0 << (bitcast<u32>($1) & $wu))"},
    [UM_KOP_SHR] = {.s = "($0 >> (bitcast<u32>($1) & $wu))"},
    [UM_KOP_POPCOUNT] = {.s = "countOneBits($0)"},
    [UM_KOP_CLZ] = {.s = "countLeadingZeros($0)"},
    [UM_KOP_EQ] = {.f = "($0 == $1)"},
    [UM_KOP_NE] = {.f = "($0 != $1)"},
    [UM_KOP_LT] = {.f = "($0 < $1)"},
    [UM_KOP_LE] = {.f = "($0 <= $1)"},
    [UM_KOP_GT] = {.f = "($0 > $1)"},
    [UM_KOP_GE] = {.f = "($0 >= $1)"},
    [UM_KOP_SELECT] = {.f = "select($2, $1, $0)"},
    [UM_KOP_CONVERT] = {.f = "$t($0)"},
    [UM_KOP_BITCAST] = {.f = "bitcast<$t>($0)"},
    [UM_KOP_LOAD_UNIFORM] = {.u = "workgroupUniformLoad(&$m)"},
    [UM_KOP_BARRIER] = {.u = "storageBarrier(); workgroupBarrier();"},
};

const um_dialect um_dialect_wgsl = {
    .name = "wgsl",
    .ops = words_wgsl,
    .type = {[UM_F32] = "f32", [UM_I32] = "i32", [UM_U32] = "u32", [UM_BOOL] = "bool"},
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
    .atomic = {[UM_K_ADD] = "atomicAdd(&$m, $1)",
               [UM_K_MIN] = "atomicMin(&$m, $1)",
               [UM_K_MAX] = "atomicMax(&$m, $1)",
               [UM_K_AND] = "atomicAnd(&$m, $1)",
               [UM_K_OR] = "atomicOr(&$m, $1)",
               [UM_K_XOR] = "atomicXor(&$m, $1)",
               [UM_K_EXCHANGE] = "atomicExchange(&$m, $1)"},
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
