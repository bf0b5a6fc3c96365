/* test/test_kernel_verify.c: every error of the kernel IR's verifier, and how uniform values and
 * flow are. Kernels are text: kernel_ir.h's head and a body. */
#include "kernel_ir.h"

/* ---- the verifier --------------------------------------------------------------------------- */

static const struct {
    const char *body, *message; /* NULL: it is a kernel */
} bodies[] = {
    /* structure */
    {"", NULL},
    {"if %7\nelse\nend\nloop\nif %7\nbreak\nend\nend\n%21 = for u32 %6, %3, %12\nend\n", NULL},
    {"end\n", "13, end: there is no open block"},
    {"if %7\n", "13, if %7: its block is not closed"},
    {"else\n", "13, else: there is no open block"},
    {"loop\nelse\n", "14, else: the innermost open block is a loop's; wanted an if's"},
    {"if %7\nelse\nelse\n", "15, else: the innermost open block is a else's"},
    {"break\n", "13, break: it stands in no loop"},
    {"if %7\nbreak\nend\n", "14, break: it stands in no loop"},
    {"loop\nbreak\nbarrier\nend\n", "14, break: it is not the last of its block"},
    {"loop\nbarrier\nend\n", "13 has no break"},
    {"loop\n%14 = for u32 %6, %3, %12\nif %7\nbreak\nend\nend\nend\n", "13 has no break"},
    /* operands */
    {"%13 = add f32 %14, %4\n", "operand %14 is not defined before it"},
    {"%13 = neg f32 %13\n", "operand %13 is not defined before it"},
    {"%13 = neg f32 %0\n", "operand %0 is not defined before it"},
    {"%13 = neg f32 %4294967295\n", "operand %4294967295 is not defined before it"},
    {"barrier\n%14 = neg f32 %13\n", "operand %13, barrier, gives no value"},
    {"if %7\n%14 = neg f32 %4\nend\n%16 = neg f32 %14\n",
     "operand %14 is defined in a block that is over"},
    {"if %7\n%14 = neg f32 %4\nelse\n%16 = neg f32 %14\nend\n",
     "operand %14 is defined in a block that is over"},
    {"%13 = for u32 %6, %3, %12\nend\n%15 = neg u32 %13\n",
     "operand %13 is defined in a block that is over"},
    {"%13 = for u32 %6, %3, %12\nif %7\n%15 = neg u32 %13\nend\n%17 = neg u32 %13\nend\n", NULL},
    /* rows */
    {"%13 = mul f32 %4, %5\n",
     "kernel t: instruction 13, %13 = mul f32 %4, %5: operand %5 is i32; wanted f32"},
    {"%13 = mul i32 %4, %4\n", "the result is i32; wanted f32"},
    {"%13 = mul f32x4 %9, %4\n", "operand %4 is f32; wanted f32x4"},
    {"%13 = add bf16 %10, %10\n", "operand %10 is bf16; wanted a number with arithmetic"},
    {"%13 = add f16 %11, %11\n", NULL},
    {"%13 = add bool %7, %7\n", "operand %7 is bool; wanted a number with arithmetic"},
    {"%13 = rem f32 %4, %4\n", "operand %4 is f32; wanted i32, u32, i64 or u64"},
    {"%13 = sqrt i32 %5\n", "operand %5 is i32; wanted a float with arithmetic"},
    {"%13 = and f32 %4, %4\n", "operand %4 is f32; wanted bool, i32, u32, i64 or u64"},
    {"%13 = eq bool %10, %10\n", "operand %10 is bf16; wanted bool or a number with arithmetic"},
    {"%13 = lt bool %7, %7\n", "operand %7 is bool; wanted a number with arithmetic"},
    {"%13 = lt f32 %4, %4\n", "the result is f32; wanted bool"},
    {"%13 = lt boolx4 %9, %9\n%14 = select f32x4 %13, %9, %9\n%15 = select f32x4 %7, %9, %9\n",
     NULL},
    {"%13 = select f32 %4, %4, %4\n", "operand %4 is f32; wanted bool"},
    {"%13 = lt boolx4 %9, %9\n%14 = select f32 %13, %4, %4\n",
     "operand %13 is boolx4; wanted bool"},
    {"%13 = select bf16 %7, %10, %10\n", NULL},
    {"%13 = convert i64 %5\n%14 = popcount i64 %13\n", "its operands are i64; wanted i32 or u32"},
    {"%13 = convert i64 %5\n%14 = mul_high i64 %13, %13\n", "wanted i32 or u32"},
    {"%13 = convert i64 %5\n%14 = clz i64 %13\n", "wanted i32 or u32"},
    {"%13 = dot4_i8 u32 %6, %6, %6\n", "operand %6 is u32; wanted i32"},
    {"%13 = dot4_u8 i32 %5, %5, %5\n", "operand %5 is i32; wanted u32"},
    {"%13 = dot4_i8 i32 %5, %5, %5\n", NULL},
    /* values out of nothing, lanes */
    {"%13 = const f32x4 0x0\n%14 = const bool 0x1\n%15 = const i64 0xffffffffffffffff\n", NULL},
    {"%13 = const bool 0x2\n", "the constant has more than 1 bits"},
    {"%13 = const f16 0x10000\n", "the constant has more than 16 bits"},
    {"%13 = const f4e2m1 0x1\n", "a value has no such type"},
    {"%13 = scalar f32 n\n", "the result is f32; wanted u32"},
    {"%13 = local_id u32 3\n", "got 3; wanted less than 3"},
    {"%13 = local_id i32 0\n", "the result is i32; wanted u32"},
    {"%13 = subgroup_size f32\n", "the result is f32; wanted u32"},
    {"%13 = convert f16x4 %9\n%14 = bitcast u32x2 %13\n%15 = bitcast f16x4 %14\n", NULL},
    {"%13 = convert f16 %9\n", "the result is f16; wanted f16x4"},
    {"%13 = convert f4e2m1 %4\n", "a value has no such type"},
    {"%13 = bitcast u32 %11\n", "%11 has 16 bits, the result 32"},
    {"%13 = bitcast u8 %7\n", "bool has no bits"},
    {"%13 = vector f32x2 %4, %4\n%14 = vector f32x4 %4, %4, %4, %4\n", NULL},
    {"%13 = vector f32x2 %4, %5\n", "operand %5 is i32; wanted f32"},
    {"%13 = vector f32 %4\n", "the result has 1 lanes; wanted 2 or 4"},
    {"%13 = splat f32x4 %5\n", "operand %5 is i32; wanted f32"},
    {"%13 = splat f32 %4\n", "the result has 1 lane; wanted 2 or 4"},
    {"%13 = extract f32 3, %9\n", NULL},
    {"%13 = extract f32 4, %9\n", "got 4; wanted less than 4"},
    {"%13 = extract i32 0, %9\n", "the result is i32; wanted f32"},
    /* memory */
    {"%13 = load f32x4 r, %6\nstore w, %6, %13\n%15 = load_if f32x4 p, %6, %7, %9\n", NULL},
    {"%13 = load f32 w, %6\n", "buffer w is written only"},
    {"store r, %6, %4\n", "buffer r is read only"},
    {"store_if r, %6, %4, %7\n", "buffer r is read only"},
    {"%13 = load f32 r, %5\n", "operand %5 is i32; wanted u32"},
    {"%13 = load f32 v, %6\n", "v is a variable; wanted a buffer or an array"},
    {"%13 = load i32 r, %6\n", "r holds f32, the value is i32 of 1 lanes"},
    {"store x, %6, %5\n", "x holds f32, the value is i32 of 1 lanes"},
    {"%13 = load_if f32 r, %6, %4, %4\n", "operand %4 is f32; wanted bool"},
    {"%13 = load_if f32 r, %6, %7, %9\n", "operand %9 is f32x4; wanted f32"},
    {"store_if x, %6, %4, %4\n", "operand %4 is f32; wanted bool"},
    {"set v, %4\n%14 = get f32 v\nset v4, %9\n%16 = get f32x4 v4\n", NULL},
    {"set v, %9\n", "operand %9 is f32x4; wanted f32"},
    {"%13 = get f32 v4\n", "the result is f32; wanted f32x4"},
    {"%13 = get f32 s\n", "s is a shared array; wanted a variable"},
    {"%13 = atomic i32 max i, %6, %5\n%14 = atomic f32 add x, %6, %4\n"
     "%15 = atomic_cas u32 su, %6, %6, %12\n",
     NULL},
    {"%13 = atomic f32 max x, %6, %4\n", "x holds f32; wanted i32, u32, or for add f32"},
    {"%13 = atomic f16 add h, %6, %11\n", "h holds f16"},
    {"%13 = atomic_cas f32 x, %6, %4, %4\n", "x holds f32"},
    {"%13 = atomic i32 mul i, %6, %5\n", "operation 2 is none that it has"},
    {"%13 = atomic f32 add r, %6, %4\n", "buffer r is read only"},
    {"%13 = atomic f32 add p, %6, %4\n", "p is a buffer or an array"},
    {"%13 = atomic i32 add i, %6, %6\n", "operand %6 is u32; wanted i32"},
    {"%13 = atomic i32 add i, %5, %5\n", "operand %5 is i32; wanted u32"},
    {"%13 = atomic_cas i32 i, %6, %5, %6\n", "operand %6 is u32; wanted i32"},
    {"%13 = atomic u32 add i, %6, %5\n", "the result is u32; wanted i32"},
    {"%13 = load_uniform f32 s, %3\n", NULL},
    {"%13 = load_uniform f32 r, %3\n", "r is a buffer; wanted a shared array"},
    {"%13 = load_uniform u32 s, %3\n", "the result is u32; wanted f32"},
    {"%13 = load_uniform f32 s, %5\n", "operand %5 is i32; wanted u32"},
    /* across */
    {"%13 = subgroup_reduce bool xor %7\n%14 = group_reduce i32 and %5\n"
     "%15 = group_scan f32 add exclusive %4\n%16 = subgroup_shuffle bf16 %10, %1\n"
     "%17 = subgroup_shuffle_down f16 127, %11\n%18 = subgroup_ballot u32x4 %7\n"
     "%19 = group_broadcast bool 63, %7\n",
     NULL},
    {"%13 = subgroup_reduce f32 xor %4\n", "f32 has no operation xor"},
    {"%13 = group_reduce bool add %7\n", "bool has no operation add"},
    {"%13 = group_scan f32 exchange %4\n", "operation 8 is none that it has"},
    {"%13 = group_reduce f32 add exclusive %4\n", "operation 4294967297 is none that it has"},
    {"%13 = group_scan bool and %7\n", "operand %7 is bool; wanted a number with arithmetic"},
    {"%13 = subgroup_reduce bf16 add %10\n", "operand %10 is bf16"},
    {"%13 = subgroup_reduce f32x4 add %9\n", "operand %9 has 4 lanes; wanted 1"},
    {"%13 = subgroup_shuffle f32 %4, %5\n", "operand %5 is i32; wanted u32"},
    {"%13 = subgroup_shuffle_xor f32 128, %4\n", "got 128; wanted less than 128"},
    {"%13 = subgroup_ballot u32x4 %4\n", "operand %4 is f32; wanted bool"},
    {"%13 = subgroup_ballot u32 %7\n", "the result is u32; wanted u32x4"},
    {"%13 = group_broadcast f32 64, %4\n", "got 64; wanted less than 64"},
    {"%13 = group_reduce i32 add %4\n", "the result is i32; wanted f32"},
    /* fragments */
    {"frag_fill fc, %4\nfrag_load fa, h, %6, %3\nfrag_load fb, sh by_columns, %6, %3\n"
     "frag_mma fc, fa, fb, fc\nfrag_store fc, x, %6, %3\n%18 = frag_count u32 fc\n"
     "%19 = frag_get f32 fc, %6\nfrag_set fc, %6, %19\n%21 = frag_row u32 fc, %6\n"
     "%22 = frag_column u32 fc, %6\n",
     NULL},
    {"frag_fill fc, %11\n", "operand %11 is f16; wanted f32"},
    {"frag_load fa, r, %6, %3\n", "r holds f32, fragment fa f16"},
    {"frag_load fc, w, %6, %3\n", "buffer w is written only"},
    {"frag_store fc, r, %6, %3\n", "buffer r is read only"},
    {"frag_store fc, p, %6, %3\n", "p is a buffer or an array; wanted a buffer or a shared array"},
    {"frag_load fc, r, %5, %3\n", "operand %5 is i32; wanted u32"},
    {"frag_load fc, r, %6, %5\n", "operand %5 is i32; wanted u32"},
    {"frag_mma fc, fb, fb, fc\n", "fragment fb is a matrix B; wanted A"},
    {"frag_mma fc, fl, fb, fc\n", "fragment fl is of 16x16x8, fc of 16x16x16"},
    {"frag_mma fi, fa, fb, fi\n", "no matrix unit does i32 = f16 x f16 + i32"},
    {"frag_mma fc, fa, fb, fi\n", "no matrix unit does f32 = f16 x f16 + i32"},
    {"%13 = frag_get f16 fc, %6\n", "the result is f16; wanted f32"},
    {"%13 = frag_get f32 fc, %5\n", "operand %5 is i32; wanted u32"},
    {"frag_set fc, %6, %11\n", "operand %11 is f16; wanted f32"},
    {"frag_set fc, %5, %4\n", "operand %5 is i32; wanted u32"},
    {"%13 = frag_row i32 fc, %6\n", "the result is i32; wanted u32"},
    {"%13 = frag_column u32 fc, %5\n", "operand %5 is i32; wanted u32"},
    {"%13 = frag_count i32 fc\n", "the result is i32; wanted u32"},
    /* asynchronous copies */
    {"%13 = const u32 0x4\nasync_copy s, r, %13, %1\nasync_commit\nasync_wait 0\n", NULL},
    {"async_copy x, r, %6, %6\n", "x is a buffer; wanted a shared array"},
    {"async_copy s, s, %6, %6\n", "s is a shared array; wanted a buffer"},
    {"async_copy s, w, %6, %6\n", "buffer w is written only"},
    {"async_copy s, h, %6, %6\n", "s holds f32, h f16"},
    {"async_copy s, r, %6, %5\n", "operand %5 is i32; wanted u32"},
    {"async_copy s, r, %12, %6\n", "index 1 of f32 is not at whole 16 bytes"},
    {"async_wait 64\n", "got 64; wanted less than 64"},
    /* control */
    {"if %4\nend\n", "operand %4 is f32; wanted bool"},
    {"%13 = lt boolx4 %9, %9\nif %13\nend\n", "operand %13 is boolx4; wanted bool"},
    {"%13 = for f32 %4, %4, %4\nend\n", "it counts in i32 or u32"},
    {"%13 = for u32 %6, %5, %12\nend\n", "operand %5 is i32; wanted u32"},
    {"%13 = for u32 %6, %3, %6\nend\n", "the step is 0; wanted at least 1"},
    {"%13 = const i32 0xffffffff\n%14 = for i32 %5, %5, %13\nend\n",
     "the step is negative; wanted at least 1"},
    /* flow */
    {"if %8\nbarrier\nend\n", NULL},
    {"if %7\nbarrier\nend\n",
     "14, barrier: its flow differs from invocation to invocation; wanted the same in the whole "
     "work-group: the if at 13 <- %7 lt <- %1 local_id"},
    {"if %7\nelse\nbarrier\nend\n", "the else at 14 <- the if at 13 <- %7 lt <- %1 local_id"},
    {"if %7\nend\nbarrier\n", NULL},
    {"if %7\n%14 = load_uniform f32 s, %3\nend\n", "its flow differs from invocation"},
    {"%13 = load_uniform f32 s, %1\n",
     "its index differs from invocation to invocation; wanted the same in the whole work-group: %1 "
     "local_id"},
    {"if %7\n%14 = group_reduce f32 add %4\nend\n", "in the whole work-group"},
    {"if %7\n%14 = subgroup_reduce f32 add %4\nend\n", "in the whole subgroup"},
    {"%13 = subgroup_id u32\n%14 = lt bool %13, %12\nif %14\n%16 = subgroup_reduce f32 add %4\n"
     "end\n",
     NULL},
    {"%13 = subgroup_id u32\n%14 = lt bool %13, %12\nif %14\nfrag_fill fc, %4\nend\n", NULL},
    {"%13 = subgroup_id u32\n%14 = lt bool %13, %12\nif %14\nbarrier\nend\n",
     "differs between subgroups; wanted the same in the whole work-group: the if at 15 <- %14 lt "
     "<- %13 subgroup_id"},
    {"if %7\nfrag_fill fc, %4\nend\n", "in the whole subgroup"},
    {"%13 = for u32 %6, %3, %12\nbarrier\nend\n", NULL},
    {"%13 = for u32 %1, %3, %12\nbarrier\nend\n", "the for at 13 <- %1 local_id"},
    {"%13 = for u32 %6, %1, %12\nbarrier\nend\n", "the for at 13 <- %1 local_id"},
    {"%13 = for u32 %6, %3, %12\nbarrier\nif %7\nbreak\nend\nend\n",
     "the for at 13 <- the if at 15 <- %7 lt <- %1 local_id"},
    {"%13 = for u32 %6, %3, %12\nbarrier\nif %8\nbreak\nend\nend\n", NULL},
    {"%13 = for u32 %6, %3, %12\nif %7\nbreak\nend\nend\nbarrier\n", NULL},
    /* a loop inside: its break is not the outer one's */
    {"%13 = for u32 %6, %3, %12\nloop\nif %7\nbreak\nend\nend\nbarrier\nend\n", NULL},
    /* through a variable, and round a loop */
    {"set c, %7\n%14 = get bool c\nif %14\nbarrier\nend\n",
     "the if at 15 <- %14 get <- variable c <- %7 lt <- %1 local_id"},
    {"set c, %8\n%14 = get bool c\nif %14\nbarrier\nend\n", NULL},
    {"set c, %8\nif %7\nset c, %8\nend\n%17 = get bool c\nif %17\nbarrier\nend\n",
     "%17 get <- variable c <- the if at 14 <- %7 lt"},
    {"set c, %8\nloop\n%15 = get bool c\nif %15\nbreak\nend\nbarrier\nset c, %7\nend\n",
     "the loop at 14 <- the if at 16 <- %15 get <- variable c <- %7 lt <- %1 local_id"},
    {"store p, %6, %4\n%14 = load f32 p, %1\n%15 = lt bool %14, %4\nif %15\nbarrier\nend\n",
     "%15 lt <- %14 load <- %1 local_id"},
    /* a long way */
    {"%13 = add u32 %1, %1\n%14 = add u32 %13, %13\n%15 = add u32 %14, %14\n%16 = add u32 %15, "
     "%15\n"
     "%17 = lt bool %16, %3\nif %17\nbarrier\nend\n",
     "the if at 18 <- %17 lt <- %16 add <- %15 add <- %14 add <- ... <- %1 local_id"},
};

static void every_error_of_the_verifier(void)
{
    for (size_t i = 0; i < UM_COUNT_OF(bodies); i++) {
        um_kernel *k = NULL;
        um_status status = parse_body(bodies[i].body, &k);
        const char *message = status == UM_OK ? "no error" : um_last_error()->message;
        if (!bodies[i].message)
            CHECK_MSG(status == UM_OK, "%s: %s", bodies[i].body, message);
        else
            CHECK_MSG(status == UM_INVALID_ARGUMENT && strstr(message, bodies[i].message),
                      "%s: got: %s\nwanted: %s", bodies[i].body, message, bodies[i].message);
        CHECK((k != NULL) == (status == UM_OK));
        if (k) check_round_trip(k, bodies[i].body);
        um_kernel_release(k);
    }
}

/* What neither the builder nor the text can say. */
static void what_only_insiders_can_build(void)
{
    static const struct {
        um_kinst inst;
        const char *message;
    } cases[] = {
        {{.op = 0}, "1, no_opcode_0: no such opcode"},
        {{.op = 29}, "no such opcode"},
        {{.op = 5000}, "1, no_opcode_5000: no such opcode"},
        {{.op = UM_KOP_BARRIER, .imm = 7}, "it takes no imm; got 7"},
        {{.op = UM_KOP_BARRIER, .arg = {1}}, "it has operand %1 past its 0"},
        {{.op = UM_KOP_BARRIER, .type = {UM_F32, 1}}, "the result is f32; wanted none"},
        {{.op = UM_KOP_GET, .type = {UM_F32, 1}}, "get f32 no_memory: memory 0 is none of 1 to 1"},
        {{.op = UM_KOP_GET, .type = {UM_F32, 1}, .imm = 2}, "memory 2 is none of 1 to 1"},
        {{.op = UM_KOP_SCALAR, .type = {UM_F32, 1}}, "f32 no_scalar: scalar 0 is none of the 0"},
        {{.op = UM_KOP_FRAG_COUNT, .type = {UM_U32, 1}, .imm = 1}, "fragment 1 is none of 1 to 0"},
        {{.op = UM_KOP_FRAG_MMA}, "fragment 0 is none of 1 to 0"},
        {{.op = UM_KOP_VECTOR, .type = {UM_F32, 9}}, "the result has 9 lanes; wanted 2 or 4"},
        {{.op = UM_KOP_CONST, .type = {UM_F32, 3}}, "a value has no such type"},
        {{.op = UM_KOP_CONST, .type = {99, 1}}, "a value has no such type"},
        {{.op = UM_KOP_CONST, .type = {UM_F32, 1}, .imm = (uint64_t)1 << 32}, "more than 32 bits"},
    };
    for (size_t i = 0; i < UM_COUNT_OF(cases); i++) {
        um_kernel *k = create("t");
        um_k_var(k, "v", UM_F32, 1);
        um_kernel_append(k, &cases[i].inst);
        CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, cases[i].message);
        um_kernel_release(k);
    }
}

static void limits_of_sizes_and_depth(void)
{
    for (uint32_t over = 0; over < 2; over++) {
        um_kernel *k = create("t");
        um_k_shared(k, "a", UM_F32, 4095), um_k_shared(k, "b", UM_U8, 49152 + over);
        um_k_private(k, "c", UM_F64, 8192);
        if (over)
            CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, "shared arrays take 65552 bytes");
        else
            CHECK_OK(um_kernel_finish(k));
        um_kernel_release(k);
        k = create("t");
        um_val yes = um_k_bool(k, true);
        for (uint32_t i = 0; i < UM_KDEPTH_MAX + over; i++) um_k_if(k, yes);
        for (uint32_t i = 0; i < UM_KDEPTH_MAX + over; i++) um_k_end(k);
        if (over)
            CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, "blocks nest deeper than 64");
        else
            CHECK_OK(um_kernel_finish(k));
        um_kernel_release(k);
    }
    um_kernel *k = create("t");
    um_k_private(k, "c", UM_F64, 8193);
    CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, "private arrays take 65552 bytes");
    um_kernel_release(k);
}

static void partners(void)
{
    um_kernel *k = NULL;
    uint32_t partner[32];
    static const uint32_t want[] = {15, 0, 16, 15, 21, 20, 21, 18, 17}; /* from 13 on */
    CHECK_OK(parse_body("if %7\nset v, %4\nelse\nend\nloop\nif %7\nbreak\nend\nend\n", &k));
    if (!k) return;
    CHECK_OK(um_kernel_match(k, partner));
    for (uint32_t i = 1; i < k->inst_count; i++)
        CHECK_MSG(partner[i] == (i < 13 ? 0 : want[i - 13]), "%u: %u", i, partner[i]);
    um_kernel_release(k);
}

/* ---- uniformity ----------------------------------------------------------------------------- */

static void levels_of_values(void)
{
    const um_kuniform G = UM_UNIFORM_GROUP, S = UM_UNIFORM_SUBGROUP, V = UM_VARYING;
    const struct {
        const char *body; /* its last value */
        um_kuniform level;
    } cases[] = {
        {"%13 = group_count u32 0\n", G},
        {"%13 = subgroup_size u32\n", G},
        {"%13 = subgroup_id u32\n", S},
        {"%13 = subgroup_lane u32\n", V},
        {"%13 = local_index u32\n", V},
        {"%13 = load f32 r, %3\n", G},
        {"%13 = load f32 r, %1\n", V},
        {"%13 = load f32 x, %3\n", V},
        {"%13 = load f32 s, %3\n", V},
        {"%13 = load_if f32 r, %3, %8, %4\n", G},
        {"%13 = load_if f32 r, %3, %7, %4\n", V},
        {"store p, %6, %4\n%14 = load f32 p, %3\n", G},
        {"%13 = load f32 r, %1\nstore p, %6, %13\n%15 = load f32 p, %3\n", V},
        {"store_if p, %6, %4, %7\n%14 = load f32 p, %3\n", V},
        {"store p, %1, %4\n%14 = load f32 p, %3\n", V},
        {"%13 = load_uniform f32 s, %3\n", G},
        {"%13 = atomic i32 add i, %6, %5\n", V},
        {"%13 = atomic_cas i32 i, %6, %5, %5\n", V},
        {"%13 = select u32 %7, %3, %3\n", V},
        {"%13 = select u32 %8, %3, %6\n", G},
        {"%13 = vector u32x2 %3, %1\n%14 = extract u32 0, %13\n", V},
        {"%13 = subgroup_reduce u32 add %1\n", S},
        {"%13 = subgroup_reduce u32 add %3\n", S},
        {"%13 = subgroup_ballot u32x4 %7\n", S},
        {"%13 = subgroup_scan u32 add %3\n", V},
        {"%13 = subgroup_shuffle u32 %1, %3\n", S},
        {"%13 = subgroup_shuffle u32 %1, %1\n", V},
        {"%13 = subgroup_shuffle u32 %3, %1\n", G},
        {"%13 = subgroup_id u32\n%14 = subgroup_shuffle u32 %13, %1\n", S},
        {"%13 = subgroup_shuffle_xor u32 1, %3\n", V},
        {"%13 = group_reduce u32 add %1\n", G},
        {"%13 = group_broadcast u32 0, %1\n", G},
        {"%13 = group_scan u32 add %3\n", V},
        {"%13 = frag_count u32 fc\n", V},
        {"%13 = for u32 %6, %3, %12\n%14 = add u32 %13, %13\nend\n", G},
        {"%13 = for u32 %1, %3, %12\n%14 = add u32 %13, %13\nend\n", V},
        {"%13 = for u32 %6, %3, %12\n%14 = add u32 %13, %13\nif %7\nbreak\nend\nend\n", V},
        {"set v, %4\n%14 = get f32 v\n", G},
        {"if %7\nset v, %4\nend\n%16 = get f32 v\n", V},
        {"loop\nset v, %4\nif %7\nbreak\nend\nend\n%19 = get f32 v\n", V},
        {"loop\nset v, %4\nif %8\nbreak\nend\nend\n%19 = get f32 v\n", G},
    };
    uint8_t value[64], flow[64];
    for (size_t c = 0; c < UM_COUNT_OF(cases); c++) {
        um_kernel *k = NULL;
        CHECK_OK(parse_body(cases[c].body, &k));
        if (!k) continue;
        int64_t last = k->inst_count - 1;
        CHECK_OK(um_kernel_uniformity(k, value, flow));
        while (k->inst[last].type.dtype == UM_DTYPE_NONE) last--;
        CHECK_MSG(value[last] == cases[c].level, "%s: %d", cases[c].body, value[last]);
        um_kernel_release(k);
    }
}

static void levels_of_flow(void)
{
    um_kernel *k = NULL;
    uint8_t value[64], flow[64];
    static const uint8_t want[] = {0, 0, 0, 0, 2, 2, 2, 0, 0}; /* from 13 on */
    CHECK_OK(parse_body("if %8\nset v, %4\nend\n%16 = for u32 %6, %3, %12\nif %7\nbreak\nend\nend\n"
                        "set v, %4\n",
                        &k));
    if (!k) return;
    CHECK_OK(um_kernel_uniformity(k, value, flow));
    for (uint32_t i = 13; i < k->inst_count; i++)
        CHECK_MSG(flow[i] == want[i - 13], "%u: %u", i, flow[i]);
    um_kernel_release(k);
}

int main(void)
{
    TEST(every_error_of_the_verifier);
    TEST(what_only_insiders_can_build);
    TEST(limits_of_sizes_and_depth);
    TEST(partners);
    TEST(levels_of_values);
    TEST(levels_of_flow);
    return TEST_RESULT();
}
