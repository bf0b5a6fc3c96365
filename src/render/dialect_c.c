/* render/dialect_c.c: OpenCL C. */
#include "render/cstyle.h"

const um_dialect um_dialect_opencl = {
    .target = UM_TARGET_OPENCL,
    .like = UM_TARGET_OPENCL,
    .is_c = true,
    UM_FORMS_C,
    .head = "#pragma OPENCL FP_CONTRACT OFF\n"
            "#ifdef cl_khr_fp16\n"
            "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
            "#endif\n"
            "#ifdef cl_khr_fp64\n"
            "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
            "#endif\n",
    .infinite = "as_float($iu)",
    .infinite64 = "as_double($iul)",
    .i64_suffix = "l",
    .u64_suffix = "ul",
    .buffer_param = "__global $s$t *$m, ulong $mbase",
    .buffer_begin = "$m += $mbase;",
    .scalar_param = "$t $m",
    .scalar_words = "$m",
    .builtin_params = "",
    .shared_begin = "__local $t $m[$n];",
    .function_open = "\n__kernel __attribute__((reqd_work_group_size($0, $1, $2)))\nvoid um_$v(",
    .array_begin = "$t $m[$n];",
    .load_wide = "vload$n(0, $m + $0)",
    .store_wide = "vstore$n(($V)($e), 0, $m + $0);",
    .atomic_cas = "const $t $v = atomic_cmpxchg(&$m, $1, $2);",
    .space = {"__global", "__local", "__private", "__private"},
};
