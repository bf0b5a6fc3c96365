/* test/kernel_ir.h: kernels for the tests of the IR: as text, a head that all share and a body. */
#ifndef UM_TEST_KERNEL_IR_H
#define UM_TEST_KERNEL_IR_H

#include "ir/ir.h"
#include "test.h"

/* Values 1 to 12 of every body. %1 and %7 vary, %2, %3 and %8 do not. */
static const char head[] = "kernel t group 64 1 1\n"
                           "buffer r f32 read\n"
                           "buffer w f32 write\n"
                           "buffer x f32 read_write\n"
                           "buffer i i32 read_write\n"
                           "buffer h f16 read_write\n"
                           "shared s f32 64\n"
                           "shared su u32 64\n"
                           "shared sh f16 256\n"
                           "private p f32 8\n"
                           "var v f32\n"
                           "var v4 f32x4\n"
                           "var c bool\n"
                           "scalar n u32\n"
                           "scalar a f32\n"
                           "frag fa a 16 16 16 f16\n"
                           "frag fb b 16 16 16 f16\n"
                           "frag fc c 16 16 16 f32\n"
                           "frag fi c 16 16 16 i32\n"
                           "frag fl a 16 16 8 f16\n"
                           "begin\n"
                           "%1 = local_id u32 0\n"
                           "%2 = group_id u32 0\n"
                           "%3 = scalar u32 n\n"
                           "%4 = const f32 0x3f800000 ; 1\n"
                           "%5 = const i32 0x1\n"
                           "%6 = const u32 0x0\n"
                           "%7 = lt bool %1, %3\n"
                           "%8 = lt bool %2, %3\n"
                           "%9 = splat f32x4 %4\n"
                           "%10 = convert bf16 %4\n"
                           "%11 = convert f16 %4\n"
                           "%12 = const u32 0x1\n";

static inline um_status parse_body(const char *body, um_kernel **k)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s", head, body);
    return um_kernel_parse(text, k);
}

static inline um_kernel *create(const char *name)
{
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = name, .group_size = {64}}, &k));
    return k;
}

/* Every field of the two, whatever the bytes between them. */
static inline bool same_kernel(const um_kernel *a, const um_kernel *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->inst_count == b->inst_count &&
                memcmp(a->group_size, b->group_size, sizeof a->group_size) == 0 &&
                memcmp(a->cluster_size, b->cluster_size, sizeof a->cluster_size) == 0 &&
                a->subgroup_size == b->subgroup_size && a->mem_count == b->mem_count &&
                a->scalar_count == b->scalar_count && a->frag_count == b->frag_count;
    if (!same) return false;
    for (int64_t i = 0; i < a->inst_count; i++)
        same = same && a->inst[i].op == b->inst[i].op && a->inst[i].imm == b->inst[i].imm &&
               um_ktype_equal(a->inst[i].type, b->inst[i].type) &&
               memcmp(a->inst[i].arg, b->inst[i].arg, sizeof a->inst[i].arg) == 0;
    for (int64_t i = 0; i < a->mem_count; i++)
        same = same && memcmp(&a->mem[i], &b->mem[i], sizeof a->mem[i]) == 0;
    for (int64_t i = 0; i < a->scalar_count; i++)
        same = same && memcmp(&a->scalar[i], &b->scalar[i], sizeof a->scalar[i]) == 0;
    for (int64_t i = 0; i < a->frag_count; i++)
        same = same && strcmp(a->frag[i].name, b->frag[i].name) == 0 &&
               a->frag[i].role == b->frag[i].role && a->frag[i].dtype == b->frag[i].dtype &&
               a->frag[i].m == b->frag[i].m && a->frag[i].n == b->frag[i].n &&
               a->frag[i].k == b->frag[i].k;
    return same;
}

/* print, parse: the same kernel; print again: the same text. */
static inline void check_round_trip(const um_kernel *k, const char *what)
{
    char *text = NULL, *again = NULL;
    um_kernel *back = NULL;
    CHECK_OK(um_kernel_print(k, &text));
    CHECK_MSG(text && um_kernel_parse(text, &back) == UM_OK, "%s: %s", what,
              um_last_error()->message);
    if (back) {
        CHECK_MSG(same_kernel(k, back), "%s", what);
        CHECK_OK(um_kernel_print(back, &again));
        CHECK_MSG(again && strcmp(text, again) == 0, "%s", what);
    }
    um_kernel_text_free(text);
    um_kernel_text_free(again);
    um_kernel_release(back);
}

#endif
