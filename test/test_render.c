/* The renderers: the text of a few kernels for each target. */
#include "kernel_random.h"
#include "render/render.h"

#include <umbel/device.h>

static um_kernel *scale(void)
{
    um_kernel *k;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "scale", .group_size = {64}}, &k));
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_val n = um_k_scalar(k, "n", UM_U32), s = um_k_scalar(k, "s", UM_F32);
    um_val i = um_k_global_index(k, 0);
    um_k_if(k, um_k_lt(k, i, n));
    um_k_store(k, x, i, um_k_mul(k, um_k_load(k, x, i), s));
    um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    return k;
}

/* One instruction of every kind that all targets have. */
static um_kernel *medley(void)
{
    um_kernel *k;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "medley", .group_size = {8, 4}}, &k));
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ),
           y = um_k_buffer(k, "float", UM_I32, UM_K_READ_WRITE);
    um_mem h = um_k_buffer(k, "hist", UM_U32, UM_K_READ_WRITE);
    um_mem tile = um_k_shared(k, "tile", UM_F32, 64), own = um_k_private(k, "own", UM_I32, 4);
    um_mem acc = um_k_var(k, "acc", UM_F32, 4);
    um_val n = um_k_scalar(k, "n", UM_U32);
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), zero = um_k_u32(k, 0), one = um_k_u32(k, 1);
    um_val four = um_k_mul(k, l, um_k_u32(k, 4)), v = um_k_load_lanes(k, x, four, 4);
    um_k_set(k, acc, um_k_load_if(k, x, four, um_k_lt(k, l, n), v));
    um_k_store(k, tile, l, um_k_extract(k, v, 2));
    um_k_barrier(k);
    um_val i = um_k_for(k, zero, um_k_u32(k, 4), one);
    um_val t = um_k_load_if(k, tile, um_k_add(k, l, i),
                            um_k_lt(k, um_k_add(k, l, i), um_k_u32(k, 32)), um_k_f32(k, -0.0f));
    um_k_set(k, acc, um_k_fma(k, um_k_splat(k, 4, t), um_k_get(k, acc), v));
    um_k_store(k, own, i, um_k_convert(k, UM_I32, um_k_max(k, t, um_k_f32(k, -1.5f))));
    um_k_end(k);
    um_k_loop(k);
    um_k_break_if(k, um_k_ge(k, um_k_load(k, own, one), um_k_i32(k, INT32_MIN)));
    um_k_end(k);
    um_val e = um_k_load(k, own, zero);
    t = um_k_load(k, tile, l);
    um_val is_inf = um_k_eq(k, t, um_k_const(k, UM_F32, 0x7f800000));
    um_val u = um_k_bitcast(k, UM_U32, 1, um_k_select(k, is_inf, um_k_f32(k, 1), t));
    u = um_k_xor(k, um_k_shl(k, u, um_k_u32(k, 35)), um_k_mul_high(k, u, n));
    um_k_atomic(k, UM_K_ADD, h, um_k_and(k, u, um_k_u32(k, 7)), one);
    um_k_if(k, um_k_not(k, um_k_eq(k, um_k_load(k, h, zero), one)));
    um_k_store_if(k, y, l, um_k_neg(k, um_k_add(k, e, um_k_abs(k, um_k_i32(k, -3)))),
                  um_k_bool(k, true));
    um_k_else(k);
    um_val parts[2] = {um_k_i32(k, 7), um_k_mul(k, e, e)};
    um_k_store(k, y, um_k_mul(k, l, um_k_u32(k, 2)), um_k_vector(k, 2, parts));
    um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    return k;
}

/* A sum and a scan of the work-group, as memory and barriers. */
static um_kernel *sums(void)
{
    um_kernel *k, *expanded = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "sums", .group_size = {24}}, &k));
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_val i = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), a = um_k_load(k, x, i);
    um_val sum = um_k_group_reduce(k, UM_K_ADD, a);
    um_k_if(k, um_k_gt(k, sum, um_k_f32(k, 1)));
    um_k_store(k, x, i, um_k_group_scan(k, UM_K_MAX, true, um_k_div(k, a, sum)));
    um_k_end(k);
    CHECK_OK(um_kernel_finish(k));
    um_klacks lacks = {.group_ops = true, .subgroups = true};
    CHECK_OK(um_kernel_expand(k, &lacks, &expanded));
    um_kernel_release(k);
    CHECK_OK(um_kernel_simplify(expanded, &k));
    um_kernel_release(expanded);
    return k;
}

/* A product by a matrix unit that the target has, with a copy to shared memory; for others, arrays.
 */
static um_kernel *product(int32_t kind)
{
    static const um_matrix_tile tiles[] = {[UM_TARGET_CUDA] = {16, 8, 16, UM_F16, UM_F32},
                                           [UM_TARGET_HIP] = {16, 16, 16, UM_F16, UM_F32},
                                           [UM_TARGET_METAL] = {8, 8, 8, UM_F16, UM_F32}};
    bool has = kind == UM_TARGET_CUDA || kind == UM_TARGET_HIP || kind == UM_TARGET_METAL;
    um_matrix_tile t = tiles[has ? kind : UM_TARGET_CUDA];
    uint32_t m = (uint32_t)t.m, n = (uint32_t)t.n, d = (uint32_t)t.k;
    uint32_t group = has ? 32 : 1;
    um_kernel *k, *lowered = NULL;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "product", .group_size = {group}}, &k));
    um_mem a = um_k_buffer(k, "a", UM_F16, UM_K_READ), b = um_k_buffer(k, "b", UM_F16, UM_K_READ);
    um_mem c = um_k_buffer(k, "c", UM_F32, UM_K_READ_WRITE);
    um_mem part = um_k_shared(k, "part", UM_F16, m * d);
    um_frag fa = um_k_frag(k, "fa", UM_K_FRAG_A, m, n, d, UM_F16);
    um_frag fb = um_k_frag(k, "fb", UM_K_FRAG_B, m, n, d, UM_F16);
    um_frag fc = um_k_frag(k, "fc", UM_K_FRAG_C, m, n, d, UM_F32);
    um_val l = um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0), zero = um_k_u32(k, 0);
    um_val first = um_k_mul(k, l, um_k_u32(k, 8)), deep = um_k_u32(k, d);
    um_val at = um_k_for(k, first, um_k_u32(k, m * d), um_k_u32(k, 8 * group));
    um_k_async_copy(k, part, at, a, at);
    um_k_end(k);
    um_k_async_commit(k);
    um_k_async_wait(k, 0);
    um_k_barrier(k);
    um_k_frag_fill(k, fc, um_k_f32(k, 0));
    um_k_frag_load(k, fa, part, zero, deep, false);
    um_k_frag_load(k, fb, b, zero, deep, true);
    um_k_frag_mma(k, fc, fa, fb, fc);
    um_val i = um_k_for(k, zero, um_k_frag_count(k, fc), um_k_u32(k, 1)), x = um_k_f32(k, 2);
    if (kind != UM_TARGET_METAL) x = um_k_convert(k, UM_F32, um_k_frag_row(k, fc, i));
    if (kind != UM_TARGET_METAL)
        x = um_k_add(k, x, um_k_convert(k, UM_F32, um_k_frag_column(k, fc, i)));
    um_k_frag_set(k, fc, i, um_k_add(k, um_k_frag_get(k, fc, i), x));
    um_k_end(k);
    um_k_frag_store(k, fc, c, zero, um_k_u32(k, n), false);
    CHECK_OK(um_kernel_finish(k));
    um_klacks lacks = um_text_lacks((um_target)kind, 0, 32);
    lacks.tiles = &t;
    lacks.tile_count = has;
    lacks.async_copy = kind != UM_TARGET_CUDA;
    CHECK_OK(um_kernel_lower(k, &lacks, &lowered));
    um_kernel_release(k);
    return lowered;
}

/* One of everything that the kernels above have not, to ask each target whether it has words. */
static um_kernel *one_op(um_kop op)
{
    const um_kop_row *row = &um_kop_rows[op];
    um_kernel *k;
    if (!row->name || row->rule == UM_KRULE_GIVEN || row->rule == UM_KRULE_NONE) return NULL;
    um_dtype dtype = row->types & UM_KTYPES_F   ? UM_F32
                     : row->types & UM_KTYPES_I ? UM_U32
                                                : UM_BOOL;
    if (op == UM_KOP_DOT4_I8) dtype = UM_I32;
    CHECK_OK(um_kernel_create(&(um_kernel_desc){.name = "one"}, &k));
    um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
    um_val zero = um_k_u32(k, 0), a = um_k_convert(k, dtype, um_k_load(k, x, zero));
    um_kinst inst = {.op = (uint16_t)op, .type = um_val_type(k, a)};
    for (int32_t i = 0; i < row->arity; i++) inst.arg[i] = a;
    if (row->rule == UM_KRULE_BOOL) inst.type.dtype = UM_BOOL;
    if (row->rule == UM_KRULE_SELECT) inst.arg[0] = um_k_convert(k, UM_BOOL, a);
    um_k_store(k, x, zero, um_k_convert(k, UM_F32, um_kernel_append(k, &inst)));
    CHECK_OK(um_kernel_finish(k));
    return k;
}

static const char *const spirv_kinds[] = {"vulkan.spv", "kernel.spv", "address.spv"};

static um_status render(const um_kernel *k, int32_t kind, um_text *out)
{
    if (kind < UM_TARGET_COUNT) return um_render_text(k, (um_target)kind, out);
    return um_render_spirv(k, (um_spirv_flavour)(kind - UM_TARGET_COUNT), 0, out);
}

static const char *kind_name(int32_t kind)
{
    return kind < UM_TARGET_COUNT ? um_target_name((um_target)kind)
                                  : spirv_kinds[kind - UM_TARGET_COUNT];
}

enum { KINDS = UM_TARGET_COUNT + UM_SPIRV_FLAVOURS };

/* Writes the text into the folder, for the compilers of render_test.sh to look at. */
static void put_file(const char *folder, const char *kernel, int32_t kind, const um_text *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, kernel, kind_name(kind));
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    if (!f) return;
    CHECK(fwrite(text->data, 1, (size_t)text->size, f) == (size_t)text->size);
    CHECK(fclose(f) == 0);
}

/* The text is what the golden file says; SPIR-V is shown by its validator, not here. */
static void compare(const char *kernel, int32_t kind, const um_text *text)
{
    static char golden[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/test/golden/%s.%s", UM_SOURCE_DIR, kernel, kind_name(kind));
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(golden, 1, sizeof golden, f) : 0;
    if (f) fclose(f);
    CHECK_MSG(size == (size_t)text->size && memcmp(golden, text->data, size) == 0,
              "%s: if the change is meant: test_render test/golden", path);
}

static const char *folder;

static void check_text(const um_kernel *k, int32_t kind)
{
    um_text text = {0};
    CHECK_OK(render(k, kind, &text));
    if (folder)
        put_file(folder, k->name, kind, &text);
    else if (kind < UM_TARGET_COUNT)
        compare(k->name, kind, &text);
    um_text_release(&text);
}

static void test_golden(void)
{
    um_kernel *kernels[] = {scale(), medley(), sums()};
    for (size_t i = 0; i < UM_COUNT_OF(kernels); i++) {
        for (int32_t kind = 0; kind < KINDS; kind++) check_text(kernels[i], kind);
        um_kernel_release(kernels[i]);
    }
    for (int32_t kind = 0; kind < UM_TARGET_COUNT; kind++) {
        um_kernel *k = product(kind);
        if (k) check_text(k, kind);
        um_kernel_release(k);
    }
}

/* Every opcode has words, or a refusal that names it. */
static void test_total(void)
{
    int32_t refused[KINDS] = {0};
    for (um_kop op = 1; op < UM_KOP_LIMIT; op++) {
        um_kernel *k = one_op(op);
        for (int32_t kind = 0; k && kind < KINDS; kind++) {
            um_text text = {0};
            um_status status = render(k, kind, &text);
            refused[kind] += status != UM_OK;
            CHECK(status == UM_OK || status == UM_UNSUPPORTED);
            CHECK(status == UM_OK || strstr(um_last_error()->message, um_kop_rows[op].name));
            um_text_release(&text);
        }
        um_kernel_release(k);
    }
    /* What um_kernel_expand says otherwise for every target: dot4, of both signs; functions. */
    int32_t never = 2 + UM_KOP_ATAN2 - UM_KOP_EXP + 1;
    for (int32_t kind = 0; kind < KINDS; kind++)
        CHECK_MSG(refused[kind] == never, "%s refuses %d opcodes", kind_name(kind), refused[kind]);
}

/* Expanded for the target, on a device that has only what it must or all that it may. */
static um_status render_expanded(const um_kernel *k, int32_t kind, bool least)
{
    um_text text = {0};
    um_kernel *expanded = NULL, *simple = NULL;
    uint32_t types = least ? 0 : UINT32_MAX, size = least ? 0 : 32;
    um_klacks lacks =
        kind < UM_TARGET_COUNT
            ? um_text_lacks((um_target)kind, types, size)
            : um_spirv_flavour_lacks((um_spirv_flavour)(kind - UM_TARGET_COUNT), types, size);
    um_status status = um_kernel_expand(k, &lacks, &expanded);
    CHECK_OK(status);
    if (status == UM_OK) status = um_kernel_simplify(expanded, &simple);
    if (status == UM_OK) status = render(simple, kind, &text);
    um_text_release(&text);
    um_kernel_release(expanded);
    um_kernel_release(simple);
    return status;
}

static bool has_type(const um_kernel *k, um_dtype dtype)
{
    for (int64_t i = 1; i < k->inst_count; i++)
        if (k->inst[i].type.dtype == dtype) return true;
    return false;
}

/* After expanding there are words for everything, but f64 in WGSL and Metal. */
static void test_expanded(void)
{
    for (int32_t kind = 0; kind < KINDS; kind++)
        for (int32_t least = 0; least < 2; least++) {
            for (um_kop op = 1; op < UM_KOP_LIMIT; op++) {
                um_kernel *k = one_op(op);
                if (k) CHECK_OK(render_expanded(k, kind, least));
                um_kernel_release(k);
            }
            for (int32_t n = 0; n < 20; n++) {
                bool uses_subgroups;
                um_kernel *k = make_kernel(false, &uses_subgroups);
                um_status status = render_expanded(k, kind, least);
                bool good =
                    status == UM_OK ||
                    ((kind == UM_TARGET_WGSL || kind == UM_TARGET_METAL) && has_type(k, UM_F64));
                CHECK_MSG(good, "%s: %s", kind_name(kind), um_last_error()->message);
                um_kernel_release(k);
            }
        }
}

static void test_memory_fails(void)
{
    um_kernel *k = medley();
    int64_t live = um_mem_live_count();
    for (int32_t kind = 0; kind < KINDS; kind++) {
        bool failed = true;
        for (int64_t n = 1; failed; n++) {
            um_text text = {0};
            um_mem_fail_at(n, true);
            um_status status = render(k, kind, &text);
            failed = um_mem_failed();
            um_mem_fail_at(0, false);
            CHECK(status == (failed ? UM_OUT_OF_MEMORY : UM_OK));
            um_text_release(&text);
            CHECK(um_mem_live_count() == live);
        }
    }
    um_kernel_release(k);
}

/* With a folder as argument: the texts go there. */
int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : NULL;
    TEST(test_golden);
    TEST(test_total);
    TEST(test_expanded);
    TEST(test_memory_fails);
    return TEST_RESULT();
}
