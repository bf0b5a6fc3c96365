/* render/dialect_c.c: the words that C and its kin share, and OpenCL C's own.
 *
 * Signed integers wrap in the IR and must not overflow in C: they are added as unsigned ones. */
#include "render/cstyle.h"

#define WRAPS(op)                                                                                  \
    .f = "($0 " op " $1)", .s = "($t)(($u)$0 " op " ($u)$1)", .u = "($t)($0 " op " $1)"
#define CALL1(fn) .f = fn "($0)"

const um_words um_words_c[UM_KOP_LIMIT] = {
    [UM_KOP_ADD] = {WRAPS("+")},
    [UM_KOP_SUB] = {WRAPS("-")},
    [UM_KOP_MUL] = {WRAPS("*")},
    [UM_KOP_DIV] = {.f = "($0 / $1)"},
    [UM_KOP_REM] = {.s = "($0 % $1)"},
    [UM_KOP_NEG] = {.f = "(-$0)", .s = "($t)(0 - ($u)$0)", .u = "($t)(0 - $0)"},
    [UM_KOP_ABS] = {.f = "fabs($0)", .s = "($0 < 0 ? ($t)(0 - ($u)$0) : $0)", .u = "$0"},
    [UM_KOP_MIN] = {.f = "fmin($0, $1)", .s = "($0 < $1 ? $0 : $1)"},
    [UM_KOP_MAX] = {.f = "fmax($0, $1)", .s = "($0 < $1 ? $1 : $0)"},
    [UM_KOP_FMA] = {.f = "fma($0, $1, $2)"},
    [UM_KOP_SQRT] = {CALL1("sqrt")},
    [UM_KOP_RSQRT] = {CALL1("rsqrt")},
    [UM_KOP_FLOOR] = {CALL1("floor")},
    [UM_KOP_CEIL] = {CALL1("ceil")},
    [UM_KOP_TRUNC] = {CALL1("trunc")},
    [UM_KOP_ROUND] = {CALL1("rint")},
    [UM_KOP_AND] = {.s = "($0 & $1)", .b = "($0 && $1)"},
    [UM_KOP_OR] = {.s = "($0 | $1)", .b = "($0 || $1)"},
    [UM_KOP_XOR] = {.s = "($0 ^ $1)", .b = "($0 != $1)"},
    [UM_KOP_NOT] = {.s = "(~$0)", .b = "(!$0)"},
    [UM_KOP_SHL] = {.s = "($t)(($u)$0 << ($1 & $w))", .u = "($0 << ($1 & $w))"},
    [UM_KOP_SHR] = {.s = "($0 >> ($1 & $w))"},
    [UM_KOP_EQ] = {.f = "($0 == $1)"},
    [UM_KOP_NE] = {.f = "($0 != $1)"},
    [UM_KOP_LT] = {.f = "($0 < $1)"},
    [UM_KOP_LE] = {.f = "($0 <= $1)"},
    [UM_KOP_GT] = {.f = "($0 > $1)"},
    [UM_KOP_GE] = {.f = "($0 >= $1)"},
    [UM_KOP_SELECT] = {.f = "($0 ? $1 : $2)"},
    [UM_KOP_CONVERT] = {.f = "($t)$0", .b = "($0 ? ($t)1 : ($t)0)"},
};

static const um_words words_opencl[UM_KOP_LIMIT] = {
    [UM_KOP_GROUP_ID] = {.u = "(uint)get_group_id($i)"},
    [UM_KOP_GROUP_COUNT] = {.u = "(uint)get_num_groups($i)"},
    [UM_KOP_LOCAL_ID] = {.u = "(uint)get_local_id($i)"},
    [UM_KOP_LOCAL_INDEX] = {.u = "(uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + "
                                 "get_local_size(1) * get_local_id(2)))"},
    [UM_KOP_MUL_HIGH] = {.s = "mul_hi($0, $1)"},
    [UM_KOP_POPCOUNT] = {.s = "popcount($0)"},
    [UM_KOP_CLZ] = {.s = "clz($0)"},
    [UM_KOP_BITCAST] = {.f = "as_$t($0)"},
    [UM_KOP_BARRIER] = {.u = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"},
};

const um_dialect um_dialect_opencl = {
    .name = "opencl",
    .ops = words_opencl,
    .base = um_words_c,
    UM_FORMS_C,
    .type = {[UM_F64] = "double",
             [UM_F32] = "float",
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
    .vector = {[UM_F64] = "double$n",
               [UM_F32] = "float$n",
               [UM_I64] = "long$n",
               [UM_I32] = "int$n",
               [UM_I16] = "short$n",
               [UM_I8] = "char$n",
               [UM_U64] = "ulong$n",
               [UM_U32] = "uint$n",
               [UM_U16] = "ushort$n",
               [UM_U8] = "uchar$n"},
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
    .atomic = {[UM_K_ADD] = "atomic_add(&$m, $1)",
               [UM_K_MIN] = "atomic_min(&$m, $1)",
               [UM_K_MAX] = "atomic_max(&$m, $1)",
               [UM_K_AND] = "atomic_and(&$m, $1)",
               [UM_K_OR] = "atomic_or(&$m, $1)",
               [UM_K_XOR] = "atomic_xor(&$m, $1)",
               [UM_K_EXCHANGE] = "atomic_xchg(&$m, $1)"},
    .atomic_cas = "const $t $v = atomic_cmpxchg(&$m, $1, $2);",
    .space = {"__global", "__local", "__private", "__private"},
};
