/* test/test_kernel_ir.c: building kernels, and their text. */
#include "kernel_ir.h"

#include <stdlib.h>

/* ---- building ------------------------------------------------------------------------------- */

static void the_example_of_the_header(void)
{
    um_kernel *k = create("scale");
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_val n = um_k_scalar(k, "n", UM_U32), s = um_k_scalar(k, "s", UM_F32);
    um_val i = um_k_global_index(k, 0);
    um_k_if(k, um_k_lt(k, i, n));
    um_k_store(k, x, i, um_k_mul(k, um_k_load(k, x, i), s));
    um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    CHECK_OK(um_kernel_finish(k));
    char *text = NULL;
    CHECK_OK(um_kernel_print(k, &text));
    const char *want = "kernel scale group 64 1 1 subgroup 0 cluster 1 1 1\n"
                       "buffer x f32 read_write\n"
                       "scalar n u32\n"
                       "scalar s f32\n"
                       "begin\n"
                       "%1 = scalar u32 n\n"
                       "%2 = scalar f32 s\n"
                       "%3 = group_id u32 0\n"
                       "%4 = local_id u32 0\n"
                       "%5 = const u32 0x40 ; 64\n"
                       "%6 = mul u32 %3, %5\n"
                       "%7 = add u32 %6, %4\n"
                       "%8 = lt bool %7, %1\n"
                       "if %8\n"
                       "    %10 = load f32 x, %7\n"
                       "    %11 = mul f32 %10, %2\n"
                       "    store x, %7, %11\n"
                       "end\n";
    CHECK_MSG(text && strcmp(text, want) == 0, "%s", text);
    um_kernel_text_free(text);
    um_k_barrier(k);
    CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, "finished kernel takes no barrier");
    um_kernel_release(k);
}

static void creating_fails(void)
{
    um_kernel *k = NULL;
    CHECK_FAILS(um_kernel_create(NULL, &k), UM_INVALID_ARGUMENT, "desc is NULL");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "a"}, NULL), UM_INVALID_ARGUMENT,
                "out is NULL");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = NULL}, &k), UM_INVALID_ARGUMENT,
                "identifier");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "9a"}, &k), UM_INVALID_ARGUMENT,
                "identifier");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "a", .group_size = {64, 17}}, &k),
                UM_INVALID_ARGUMENT, "group_size 64x17x0 is over 1024");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "a", .group_size = {1u << 31, 2}}, &k),
                UM_INVALID_ARGUMENT, "is over 1024");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "a", .cluster_size = {17}}, &k),
                UM_INVALID_ARGUMENT, "is over 16");
    CHECK_FAILS(um_kernel_create(&(um_kernel_desc){.name = "a", .subgroup_size = 24}, &k),
                UM_INVALID_ARGUMENT, "subgroup_size 24");
    CHECK(k == NULL);
    CHECK_FAILS(um_kernel_finish(NULL), UM_INVALID_ARGUMENT, "kernel is NULL");
    um_kernel_release(NULL);
}

/* A kernel in which one declaration or call is wrong: it is kept, and nothing after it matters. */
static void first_mistake_is_kept(void)
{
    struct {
        int32_t what;
        const char *message;
    } const cases[] = {
        {0, "a buffer's name is not a C identifier"},
        {1, "there is a 'x' already"},
        {2, "a buffer's access 4 is none"},
        {3, "buffer y: elements of f4e2m1 are not of whole bytes"},
        {4, "variable y: elements of none"},
        {5, "a shared array of 0 elements"},
        {6, "scalar y is f16, not f32, i32 or u32"},
        {7, "fragment y: role 4"},
        {8, "um_k_builtin: opcode 10 is none"},
        {9, "um_k_vector: 3 lanes"},
        {10, "um_k_subgroup_shift: opcode 102 is none"},
        {11, "frag_mma: fragment 65537"},
        {12, "more than 16 buffers"},
        {13, "more than 80 scalars"},
        {14, "more than 1024 memories"},
        {15, "more than 256 fragments"},
        {16, "fragment y: role 1, 0x16x16"},
    };
    for (size_t c = 0; c < UM_COUNT_OF(cases); c++) {
        um_kernel *k = create("t");
        char name[32];
        um_val one = um_k_f32(k, 1.0f);
        um_k_buffer(k, "x", UM_F32, UM_K_READ);
        switch (cases[c].what) {
        case 0: um_k_buffer(k, "no name", UM_F32, UM_K_READ); break;
        case 1: um_k_scalar(k, "x", UM_F32); break;
        case 2: um_k_buffer(k, "y", UM_F32, 4); break;
        case 3: um_k_buffer(k, "y", UM_F4E2M1, UM_K_READ); break;
        case 4: um_k_var(k, "y", UM_F32, 3); break;
        case 5: um_k_shared(k, "y", UM_F32, 0); break;
        case 6: um_k_scalar(k, "y", UM_F16); break;
        case 7: um_k_frag(k, "y", 4, 16, 16, 16, UM_F16); break;
        case 8: um_k_builtin(k, UM_KOP_ADD, 0); break;
        case 9: um_k_vector(k, 3, (um_val[]){one, one, one}); break;
        case 10: um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE, one, 1); break;
        case 11: um_k_frag_mma(k, 65536, 1, 1, 1); break;
        case 16: um_k_frag(k, "y", UM_K_FRAG_A, 0, 16, 16, UM_F16); break;
        default:
            for (int32_t i = 0; i < 1100 && k->status == UM_OK; i++) {
                snprintf(name, sizeof name, "y%d", i);
                if (cases[c].what == 12) um_k_buffer(k, name, UM_F32, UM_K_READ);
                if (cases[c].what == 13) um_k_scalar(k, name, UM_F32);
                if (cases[c].what == 14) um_k_var(k, name, UM_F32, 1);
                if (cases[c].what == 15) um_k_frag(k, name, UM_K_FRAG_A, 16, 16, 16, UM_F16);
            }
        }
        int64_t count = k->inst_count;
        CHECK(um_k_add(k, one, one) == 0 && um_k_buffer(k, "z", UM_F32, UM_K_READ) == 0);
        CHECK(k->inst_count == count);
        um_k_end(k);
        CHECK_FAILS(um_kernel_finish(k), UM_INVALID_ARGUMENT, cases[c].message);
        CHECK(strstr(um_last_error()->message, "kernel t: ") == um_last_error()->message);
        um_kernel_release(k);
    }
    CHECK(um_k_add(NULL, 1, 1) == 0 && um_k_global_index(NULL, 0) == 0);
}

static void one_lane_is_what_was_given(void)
{
    um_kernel *k = create("t");
    um_val one = um_k_f32(k, 1.0f);
    CHECK(um_k_splat(k, 1, one) == one && um_k_extract(k, one, 0) == one);
    CHECK(um_k_vector(k, 1, &one) == one && k->inst_count == 2);
    CHECK_OK(um_kernel_finish(k));
    um_kernel_release(k);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* All opcodes but those of flow, each as the builder makes it. */
static um_kernel *with_every_opcode(void)
{
    um_kernel *k = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "every_opcode",
                                                .group_size = {8, 4, 2},
                                                .subgroup_size = 32,
                                                .cluster_size = {2, 2, 1}},
                              &k));
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_mem h = um_k_buffer(k, "h", UM_F16, UM_K_READ);
    um_mem s = um_k_shared(k, "s", UM_F16, 512), q = um_k_shared(k, "q", UM_U32, 64);
    um_mem b = um_k_private(k, "b", UM_BF16, 16), v = um_k_var(k, "v", UM_F64, 2);
    um_val n = um_k_scalar(k, "n", UM_U32), a = um_k_scalar(k, "a", UM_F32);
    um_val m = um_k_scalar(k, "m", UM_I32);
    um_frag fa = um_k_frag(k, "fa", UM_K_FRAG_A, 16, 8, 4, UM_F16);
    um_frag fb = um_k_frag(k, "fb", UM_K_FRAG_B, 16, 8, 4, UM_F16);
    um_frag fc = um_k_frag(k, "fc", UM_K_FRAG_C, 16, 8, 4, UM_F32);
    um_val zero = um_k_u32(k, 0), yes = um_k_bool(k, true), four = um_k_splat(k, 4, a);
    for (um_kop op = UM_KOP_GROUP_ID; op <= UM_KOP_SUBGROUP_LANE; op++)
        um_k_builtin(k, op, op <= UM_KOP_LOCAL_ID ? 2 : 0);
    for (um_kop op = 0; op < UM_KOP_LIMIT; op++) {
        const um_kop_row *row = &um_kop_rows[op];
        if (!row->name || row->rule == UM_KRULE_GIVEN || row->rule == UM_KRULE_NONE) continue;
        um_val on = row->types & UM_KTYPES_F ? a : op == UM_KOP_DOT4_U8 ? n : m;
        um_val first = row->rule == UM_KRULE_SELECT ? yes : on;
        um_ktype type = row->rule == UM_KRULE_BOOL ? (um_ktype){UM_BOOL, 1} : um_val_type(k, on);
        um_kinst inst = {.op = (uint16_t)op, .type = type, .arg = {first, on, on}};
        for (int32_t i = row->arity; i < 3; i++) inst.arg[i] = 0;
        um_kernel_append(k, &inst);
    }
    um_k_const(k, UM_F64, 0x7ff0000000000000u), um_k_const(k, UM_F8E4M3FN, 0x7e);
    um_k_const(k, UM_I64, UINT64_MAX), um_k_const(k, UM_U64, UINT64_MAX), um_k_i32(k, -7);
    um_k_f32(k, -0.0f), um_k_const(k, UM_F32, 0x7fc00001), um_k_const(k, UM_BF16, 0xff80);
    um_k_bitcast(k, UM_U16, 4, um_k_convert(k, UM_BF16, four));
    um_k_extract(k, um_k_vector(k, 2, (um_val[]){a, a}), 1);
    um_k_load_if(k, x, zero, yes, um_k_load_lanes(k, x, zero, 4));
    um_k_store(k, b, zero, um_k_load(k, b, zero)), um_k_store_if(k, x, zero, four, yes);
    um_k_set(k, v, um_k_get(k, v)), um_k_atomic(k, UM_K_EXCHANGE, q, zero, n);
    um_k_atomic_cas(k, q, zero, n, n), um_k_atomic(k, UM_K_ADD, x, zero, a), um_k_barrier(k);
    um_k_load_uniform(k, q, zero);
    um_k_subgroup_reduce(k, UM_K_AND, yes), um_k_subgroup_scan(k, UM_K_MIN, true, a);
    um_k_subgroup_scan(k, UM_K_MAX, false, a), um_k_subgroup_shuffle(k, a, zero);
    um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_XOR, a, 1);
    um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_UP, a, 2);
    um_k_subgroup_shift(k, UM_KOP_SUBGROUP_SHUFFLE_DOWN, a, 127);
    um_k_subgroup_ballot(k, yes), um_k_group_broadcast(k, a, 63);
    um_k_group_reduce(k, UM_K_XOR, m), um_k_group_scan(k, UM_K_MUL, true, a);
    um_k_frag_fill(k, fc, a), um_k_frag_load(k, fa, h, zero, n, false);
    um_k_frag_load(k, fb, s, zero, n, true), um_k_frag_mma(k, fc, fa, fb, fc);
    um_k_frag_store(k, fc, x, zero, n, true), um_k_frag_count(k, fc);
    um_k_frag_set(k, fc, zero, um_k_frag_get(k, fc, zero));
    um_k_frag_row(k, fc, zero), um_k_frag_column(k, fc, zero);
    um_k_async_copy(k, s, zero, h, n), um_k_async_commit(k), um_k_async_wait(k, 1);
    um_val step = um_k_u32(k, 3);
    um_val i = um_k_for(k, zero, n, step);
    um_k_if(k, um_k_lt(k, i, n)), um_k_loop(k), um_k_break_if(k, yes), um_k_end(k);
    um_k_else(k), um_k_break(k), um_k_end(k), um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    return k;
}

static void text_round_trips(void)
{
    um_kernel *k = with_every_opcode();
    bool seen[UM_KOP_LIMIT] = {0};
    for (int64_t i = 0; i < k->inst_count; i++) seen[k->inst[i].op] = true;
    for (um_kop op = 0; op < UM_KOP_LIMIT; op++)
        CHECK_MSG(!um_kop_rows[op].name || seen[op], "no %s in it", um_kop_rows[op].name);
    check_round_trip(k, "every opcode");
    um_kernel_release(k);
}

static void errors_of_the_text(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "line 1, column 1: the line ends; wanted 'kernel'"},
        {"\n ; nothing\n  what", "line 3, column 3: got 'what'; wanted 'kernel'"},
        {"kernel", "line 1, column 7: um_kernel_create: the name is not a C identifier"},
        {"kernel 7", "the name is not a C identifier"},
        {"kernel t group 1 2",
         "line 1, column 19: the line ends; wanted a number up to 4294967295"},
        {"kernel t group 99999999999999999999 1 1", "wanted a number up to 4294967295"},
        {"kernel t group 2048 1 1", "group_size 2048x1x1 is over 1024"},
        {"kernel t size 1", "got 'size'; wanted 'group', 'subgroup' or 'cluster'"},
        {"kernel t", "the line ends; wanted a declaration or 'begin'"},
        {"kernel t\nbufer x f32 read", "line 2, column 1: got 'bufer'; wanted a declaration"},
        {"kernel t\nbuffer x f33 read", "line 2, column 10: got 'f33'; wanted a type"},
        {"kernel t\nbuffer x f32x3 read", "got 'f32x3'; wanted a type"},
        {"kernel t\nbuffer x f32 append", "got 'append'; wanted read, write or read_write"},
        {"kernel t\nbuffer x f32x4 read", "elements of none are not of whole bytes"},
        {"kernel t\nbuffer x f32 read now", "got 'now'; wanted the end of the line"},
        {"kernel t\nvar x f32\nvar x f32", "line 3, column 10: kernel t: there is a 'x' already"},
        {"kernel t\nshared x f32 -1", "got '-1'; wanted a number"},
        {"kernel t\nshared x f32 0x", "got '0x'; wanted a number"},
        {"kernel t\nfrag x d 1 1 1 f32", "got 'd'; wanted a role: a, b or c"},
        {"kernel t\nbegin now", "got 'now'; wanted the end of the line"},
        {"kernel t\nbegin\n%2 = const f32 0x0", "line 3, column 1: got '%2'; wanted %1"},
        {"kernel t\nbegin\n%1 const f32 0x0", "got 'const'; wanted '='"},
        {"kernel t\nbegin\n%1 = konst f32 0x0", "got 'konst'; wanted an opcode"},
        {"kernel t\nbegin\n%1 = barrier", "barrier gives no value"},
        {"kernel t\nbegin\nconst f32 0x0", "const gives a value; wanted %1 = before it"},
        {"kernel t\nbegin\n%1 = const f32 1.5", "got '1.5'; wanted a number"},
        {"kernel t\nbegin\n%1 = const f32 0x10000000000000000", "wanted a number up to"},
        {"kernel t\nbegin\n%1 = neg f32 1", "got '1'; wanted a value, as %1"},
        {"kernel t\nbegin\n%1 = neg f32", "the line ends; wanted a value"},
        {"kernel t\nbegin\n%1 = get f32 x", "got 'x'; wanted a memory's name"},
        {"kernel t\nbegin\n%1 = scalar f32 x", "got 'x'; wanted a scalar's name"},
        {"kernel t\nbegin\n%1 = frag_count u32 x", "got 'x'; wanted a fragment's name"},
        {"kernel t\nbegin\n%1 = group_reduce f32 avg %1", "got 'avg'; wanted an operation"},
        {"kernel t\nbegin\nbarrier %1", "got '%1'; wanted the end of the line"},
        {"kernel t\nbegin\n\x01", "line 3, column 1: a character that is none of the text's"},
        {"kernel t\nbegin\n\xc3\xa9", "a character that is none of the text's"},
        {"kernel t\nbegin\nif %1\nend",
         "kernel t: instruction 1, if %1: operand %1 is not defined"},
    };
    um_kernel *any = create("any"), *k;
    for (size_t i = 0; i < UM_COUNT_OF(cases); i++) {
        k = any;
        CHECK_FAILS(um_kernel_parse(cases[i].text, &k), UM_INVALID_ARGUMENT, cases[i].message);
        CHECK_MSG(k == NULL, "%s", cases[i].text);
    }
    char text[256] = "kernel ";
    memset(text + 7, 'a', 100);
    CHECK_FAILS(um_kernel_parse(text, &k), UM_INVALID_ARGUMENT,
                "a word of more than 71 characters");
    CHECK_FAILS(um_kernel_parse(NULL, &k), UM_INVALID_ARGUMENT, "text is NULL");
    CHECK_FAILS(um_kernel_parse("", NULL), UM_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(um_kernel_print(NULL, NULL), UM_INVALID_ARGUMENT, "kernel is NULL");
    um_kernel_release(any);
}

/* ---- hostile text, no memory ---------------------------------------------------------------- */

static uint32_t next_random(void)
{
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Some random damage: a byte, a word of the same text copied elsewhere, a line gone or doubled. */
static void damage(char *text, size_t room)
{
    size_t n = strlen(text), at = next_random() % n, from = next_random() % n;
    size_t take = next_random() % 12 + 1;
    switch (next_random() % 4) {
    case 0: text[at] = (char)(next_random() % 255 + 1); break;
    case 1: text[at] = (char)('0' + next_random() % 10); break;
    case 2:
        if (at + take < n && from + take < n) memmove(text + at, text + from, take);
        break;
    default: {
        char *start = text + at, *end;
        while (start > text && start[-1] != '\n') start--;
        end = strchr(start, '\n');
        if (!end) break;
        size_t line = (size_t)(++end - start), rest = n - (size_t)(end - text) + 1;
        if (next_random() % 2 && n + line < room)
            memmove(end + line, end, rest), memcpy(end, start, line);
        else
            memmove(start, end, rest);
    }
    }
}

/* Whatever is a kernel goes through the passes, or is refused. */
static void check_passes(const um_kernel *k)
{
    static const um_klacks lacks[] = {
        {.group_ops = true, .subgroups = true, .async_copy = true},
        {.group_ops = true,
         .shuffles = 32,
         .math = true,
         .saturation = true,
         .types = 1u << UM_F16 | 1u << UM_U16 | 1u << UM_BF16 | 1u << UM_I64 | 1u << UM_F8E4M3FN}};
    um_kernel *other = NULL;
    CHECK_OK(um_kernel_simplify(k, &other));
    um_kernel_release(other);
    for (size_t i = 0; i < UM_COUNT_OF(lacks); i++) {
        um_status status = um_kernel_expand(k, &lacks[i], &other);
        const char *message = um_last_error()->message;
        bool good = status == UM_OK || status == UM_UNSUPPORTED || strstr(message, "arrays take");
        CHECK_MSG(good, "%s", message);
        um_kernel_release(other);
    }
}

static void damaged_text_never_hurts(void)
{
    um_kernel *k = with_every_opcode();
    char *whole = NULL, *other = NULL, *text = malloc(16384);
    int32_t good = 0, tries = 20000;
    CHECK_OK(um_kernel_print(k, &whole));
    um_kernel_release(k);
    CHECK_OK(parse_body("if %8\nbarrier\nset v, %4\nelse\nset v4, %9\nend\nloop\nif %7\nbreak\n"
                        "end\nstore_if x, %6, %4, %7\nend\n%25 = get f32 v\n",
                        &k));
    CHECK_OK(um_kernel_print(k, &other));
    um_kernel_release(k);
    for (int32_t t = 0; whole && other && text && t < tries; t++) {
        snprintf(text, 16384, "%s", t % 2 ? whole : other);
        for (uint32_t n = next_random() % 3 + 1; n > 0 && text[0]; n--) damage(text, 16384);
        k = NULL;
        if (um_kernel_parse(text, &k) == UM_OK) {
            good++;
            check_round_trip(k, text);
            check_passes(k);
        }
        um_kernel_release(k);
    }
    CHECK_MSG(good > tries / 50 && good < tries, "%d", good);
    um_kernel_text_free(whole);
    um_kernel_text_free(other);
    free(text);
}

static void no_memory(void)
{
    char text[4096];
    int64_t live = um_mem_live_count();
    snprintf(text, sizeof text, "%sif %%8\nbarrier\nend\n", head);
    for (int64_t n = 1;; n++) {
        um_kernel *k = NULL;
        char *printed = NULL;
        um_mem_fail_at(n, n % 2);
        um_status status = um_kernel_parse(text, &k);
        if (status == UM_OK) status = um_kernel_print(k, &printed);
        bool failed = um_mem_failed();
        um_mem_fail_at(0, false);
        CHECK(status == (failed ? UM_OUT_OF_MEMORY : UM_OK));
        um_kernel_text_free(printed);
        um_kernel_release(k);
        CHECK(um_mem_live_count() == live);
        if (!failed) break;
        CHECK(n < 100);
    }
}

int main(void)
{
    TEST(the_example_of_the_header);
    TEST(creating_fails);
    TEST(first_mistake_is_kept);
    TEST(one_lane_is_what_was_given);
    TEST(text_round_trips);
    TEST(errors_of_the_text);
    TEST(damaged_text_never_hurts);
    TEST(no_memory);
    return TEST_RESULT();
}
