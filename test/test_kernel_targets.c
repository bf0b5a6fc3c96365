/* Every op of the kernel library, for every target: each dtype's first sample is planned, its
 * kernels lowered and rendered. What a target refuses is in a list here, with the reason.
 *
 * test_kernel_targets FOLDER writes the SPIR-V modules there, for kernel_targets_test.sh. */
#include "kernel/library.h"
#include "render/render.h"
#include "test.h"

enum { VULKAN = UM_TARGET_COUNT, KERNEL, KINDS };

static const char *kind_name(int32_t kind)
{
    return kind < UM_TARGET_COUNT ? um_target_name((um_target)kind)
           : kind == VULKAN       ? "spirv"
                                  : "spirv-kernel";
}

/* Why a target may have no words for a kernel that has f64, and what the message then says. */
static const struct refusal {
    const char *why, *text;
    uint32_t kinds; /* bits */
} refusals[] = {
    {"it has no f64", "has no type 'f64'", 1u << UM_TARGET_METAL | 1u << UM_TARGET_WGSL},
    {"GLSL.std.450 has functions of f32 and f16 only", " of f64", 1u << VULKAN},
};

typedef struct tally {
    int32_t kernels, good[2][KINDS]; /* [least] */
    int32_t refused[2][KINDS][UM_COUNT_OF(refusals)];
} tally;

static tally all;
static const char *folder;

static bool has_f64(const um_kernel *k)
{
    for (int64_t i = 1; i < k->inst_count; i++)
        if (k->inst[i].type.dtype == UM_F64) return true;
    return false;
}

static int32_t find_refusal(const um_kernel *k, int32_t kind, um_status status)
{
    for (int32_t i = 0; status == UM_UNSUPPORTED && i < (int32_t)UM_COUNT_OF(refusals); i++)
        if ((refusals[i].kinds >> kind & 1) && has_f64(k) &&
            strstr(um_last_error()->message, refusals[i].text))
            return i;
    return -1;
}

/* Whether it declares the capability Float16, an extension of OpenCL's. */
static bool wants_f16(const um_text *words)
{
    static const uint32_t capability[] = {2 << 16 | 17, 9};
    for (int64_t at = 20; at + 8 <= words->size; at += 4)
        if (memcmp(words->data + at, capability, sizeof capability) == 0) return true;
    return false;
}

/* FNV-1a: Fowler, Noll, Vo. Modules that were there before are not written again: ops differ in
 * them by their names alone. */
static bool is_new(const um_text *words, int32_t kind)
{
    static uint64_t seen[1 << 14];
    static int32_t count;
    uint64_t hash = 0xcbf29ce484222325u + (uint64_t)kind;
    for (int64_t i = 0; i < words->size; i++)
        hash = (hash ^ (uint8_t)words->data[i]) * 0x100000001b3u;
    for (int32_t i = 0; i < count; i++)
        if (seen[i] == hash) return false;
    CHECK(count < (int32_t)UM_COUNT_OF(seen));
    if (count < (int32_t)UM_COUNT_OF(seen)) seen[count++] = hash;
    return true;
}

/* As NUMBER.ENVIRONMENT, the one to validate it for. */
static void put_module(const um_text *words, int32_t kind)
{
    static int32_t number;
    char path[512];
    if (!is_new(words, kind)) return;
    const char *environment = kind == VULKAN     ? "vulkan1.1"
                              : wants_f16(words) ? "spv1.0"
                                                 : "opencl1.2";
    snprintf(path, sizeof path, "%s/%d.%s", folder, number++, environment);
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f, "%s", path);
    if (!f) return;
    CHECK(fwrite(words->data, 1, (size_t)words->size, f) == (size_t)words->size);
    CHECK(fclose(f) == 0);
}

/* Helpers are defined before they are called: what is called first stands at the begin of a line
 * that is not indented. */
static void check_helpers(const char *text, const char *what, int32_t kind)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.";
    for (const char *at = text; (at = strstr(at, "um_")); at++) {
        char name[64];
        size_t size = strspn(at, letters);
        bool is_call = at[size] == '(' && (at == text || !strchr(letters, at[-1]));
        if (!is_call) continue;
        snprintf(name, sizeof name, "%.*s(", (int)size, at);
        const char *first = strstr(text, name);
        while (first > text && first[-1] != '\n') first--;
        CHECK_MSG(*first != ' ', "%s for %s: nothing defines %s)", what, kind_name(kind), name);
    }
}

static um_status lower_and_render(const um_kernel *k, int32_t kind, int32_t least, um_text *out)
{
    uint32_t types = least ? 0 : UINT32_MAX, size = least ? 0 : 32;
    um_spirv_flavour flavour = kind == VULKAN ? UM_SPIRV_VULKAN : UM_SPIRV_KERNEL;
    bool is_text = kind < UM_TARGET_COUNT;
    um_klacks lacks = is_text ? um_text_lacks((um_target)kind, types, size)
                              : um_spirv_flavour_lacks(flavour, types, size);
    um_kernel *lowered;
    um_status status = um_kernel_lower(k, &lacks, &lowered);
    if (status == UM_OK)
        status = is_text ? um_render_text(lowered, (um_target)kind, out)
                         : um_render_spirv(lowered, flavour, out);
    um_kernel_release(lowered);
    return status;
}

static void try_kernel(const um_kernel *k, const char *what)
{
    all.kernels++;
    for (int32_t kind = 0; kind < KINDS; kind++)
        for (int32_t least = 0; least < 2; least++) {
            um_text out = {0};
            um_status status = lower_and_render(k, kind, least, &out);
            int32_t refusal = find_refusal(k, kind, status);
            CHECK_MSG(status == UM_OK || refusal >= 0, "%s for %s: %s", what, kind_name(kind),
                      um_last_error()->message);
            if (status == UM_OK)
                all.good[least][kind]++;
            else if (refusal >= 0)
                all.refused[least][kind][refusal]++;
            if (status == UM_OK && kind < VULKAN) check_helpers(out.data, what, kind);
            if (status == UM_OK && folder && kind >= VULKAN) put_module(&out, kind);
            um_text_release(&out);
        }
}

/* Gives the views memory that is not there; false: nothing to write, or no kernel. */
static bool place(um_op *op)
{
    char why[200];
    um_ptr at = 4096;
    for (int32_t i = 0; i < op->in_count; i++, at += 1 << 24) op->in[i].ptr = at;
    for (int32_t i = 0; i < op->out_count; i++, at += 1 << 24) op->out[i].ptr = at;
    CHECK_OK(um_op_check(op));
    return um_view_count(&op->out[0]) > 0 && um_kplan_supports(op, why, sizeof why);
}

/* The first sample that has kernels. */
static void try_op(const um_op_row *row, um_dtype dtype)
{
    char what[100];
    for (int32_t index = 0;; index++) {
        um_sample sample = {.op.id = row->id};
        um_kplan plan;
        if (!row->sample(index, dtype, &sample)) return;
        if (!place(&sample.op)) continue;
        CHECK_OK(um_kplan_make(&sample.op, &plan));
        for (int32_t i = 0; i < plan.launch_count; i++) {
            snprintf(what, sizeof what, "%s/%s launch %d", row->name, um_dtype_name(dtype),
                     (int)i + 1);
            try_kernel(plan.launch[i].kernel, what);
        }
        um_kplan_release(&plan);
        return;
    }
}

static void test_all(void)
{
    for (um_op_id id = 1; id <= um_op_count(); id++)
        for (um_dtype dtype = 1; dtype <= UM_BOOL; dtype++)
            if (um_op_get_row(id)->dtypes & UM_BIT(dtype)) try_op(um_op_get_row(id), dtype);
    printf("     %d kernels\n", all.kernels);
    for (int32_t kind = 0; kind < KINDS; kind++) {
        printf("     %-12s %d rendered, %d for the least device", kind_name(kind),
               all.good[0][kind], all.good[1][kind]);
        for (size_t i = 0; i < UM_COUNT_OF(refusals); i++)
            if (all.refused[0][kind][i] + all.refused[1][kind][i] > 0)
                printf("; %d and %d refused: %s", all.refused[0][kind][i], all.refused[1][kind][i],
                       refusals[i].why);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : NULL;
    TEST(test_all);
    return TEST_RESULT();
}
