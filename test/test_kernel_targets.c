/* Every op of the kernel library, for every target: each dtype's first sample is planned, its
 * kernels lowered and rendered, and of the others those of another form. What a target refuses is
 * in a list here, with the reason.
 *
 * test_kernel_targets TARGET FOLDER [all] writes one target's kernels there, for
 * kernel_targets_test.sh, which gives them to the target's own compiler; "all": every sample's.
 * test_kernel_targets largest prints the ten kernels whose text is longest on each target, with how
 * long lowering, rendering and verifying them takes, and fails where the latter two take more than
 * 5 ms together. */
#include "kernel/library.h"
#include "render/cstyle.h"
#include "render/render.h"
#include "test.h"

#include <stdlib.h>
#include <time.h>

enum { VULKAN = UM_TARGET_COUNT, KERNEL, ADDRESS, KINDS };

static const char *kind_name(int32_t kind)
{
    return kind < UM_TARGET_COUNT ? um_target_name((um_target)kind)
           : kind == VULKAN       ? "spirv"
           : kind == KERNEL       ? "spirv-kernel"
                                  : "spirv-address";
}

/* Why a target may have no words for a kernel that has f64, and what the message then says. */
static const struct refusal {
    const char *why, *text;
    uint32_t kinds; /* bits */
} refusals[] = {
    {"it has no f64", "has no type 'f64'", 1u << UM_TARGET_METAL | 1u << UM_TARGET_WGSL},
};

typedef struct tally {
    int32_t kernels, good[2][KINDS]; /* [least] */
    int32_t refused[2][KINDS][UM_COUNT_OF(refusals)];
} tally;

static tally all;

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

/* ---- files ----------------------------------------------------------------------------------- */

/* Every kernel is written under this name, whose digits then become its number, so that kernels
 * which differ by their names alone are one, and many can stand in one text. */
static const char blank_name[] = "number_00000";

static const char *folder;
static int32_t wanted = -1; /* kind; -1: all */
static bool every_sample;
static FILE *list; /* NAME and what it is, line by line */

static void put_file(const char *name, const char *data, int64_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f, "%s", path);
    if (!f) return;
    CHECK(fwrite(data, 1, (size_t)size, f) == (size_t)size);
    CHECK(fclose(f) == 0);
}

/* Whether it declares the capability Float16, an extension of OpenCL's. */
static bool wants_f16(const um_text *words)
{
    static const uint32_t capability[] = {2 << 16 | 17, 9};
    for (int64_t at = 20; at + 8 <= words->size; at += 4)
        if (memcmp(words->data + at, capability, sizeof capability) == 0) return true;
    return false;
}

/* By FNV-1a: Fowler, Noll, Vo. */
static bool is_new(const um_text *text)
{
    static uint64_t seen[1 << 16];
    static int32_t count;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < text->size; i++)
        hash = (hash ^ (uint8_t)text->data[i]) * 0x100000001b3u;
    for (int32_t i = 0; i < count; i++)
        if (seen[i] == hash) return false;
    CHECK(count < (int32_t)UM_COUNT_OF(seen));
    if (count < (int32_t)UM_COUNT_OF(seen)) seen[count++] = hash;
    return true;
}

/* What all texts of the target begin with; it goes into the file `head`. */
static const char *head_of(int32_t kind)
{
    static const um_dialect *const dialects[] = {&um_dialect_opencl, &um_dialect_cuda,
                                                 &um_dialect_hip, &um_dialect_metal};
    return kind < (int32_t)UM_COUNT_OF(dialects) ? dialects[kind]->head : "";
}

/* As NUMBER.ENVIRONMENT, for which spirv-val is to judge it, or NUMBER.text, whose lines a compiler
 * then counts from the kernel's first. */
static void put_kernel(um_text *out, int32_t kind, const char *what)
{
    static int32_t number;
    char name[64], digits[16];
    if (!is_new(out)) return;
    snprintf(digits, sizeof digits, "%05d", ++number);
    for (int64_t i = 0; i + (int64_t)sizeof blank_name - 1 <= out->size; i++)
        if (memcmp(out->data + i, blank_name, sizeof blank_name - 1) == 0)
            memcpy(out->data + i + sizeof blank_name - 6, digits, 5);
    snprintf(name, sizeof name, "%s.%s", digits,
             kind < VULKAN    ? "text"
             : kind != KERNEL ? "vulkan1.1"
             : wants_f16(out) ? "spv1.0"
                              : "opencl1.2");
    fprintf(list, "%s %s\n", name, what);
    size_t head = strlen(head_of(kind));
    if (head > 0) {
        CHECK(strncmp(out->data, head_of(kind), head) == 0);
        um_text numbered = {0};
        um_text_print(&numbered, "#line 1 \"%s, number_%s\"\n", what, digits);
        um_text_put(&numbered, out->data + head, (size_t)out->size - head);
        put_file(name, numbered.data, numbered.size);
        um_text_release(&numbered);
    } else {
        put_file(name, out->data, out->size);
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

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

static um_status lower_for(const um_kernel *k, int32_t kind, int32_t least, um_kernel **out)
{
    uint32_t types = least ? 0 : UINT32_MAX, size = least ? 0 : 32;
    um_spirv_flavour flavour = (um_spirv_flavour)(kind - UM_TARGET_COUNT);
    um_klacks lacks = kind < UM_TARGET_COUNT ? um_text_lacks((um_target)kind, types, size)
                                             : um_spirv_flavour_lacks(flavour, types, size);
    return um_kernel_lower(k, &lacks, out);
}

static um_status render_as(const um_kernel *lowered, int32_t kind, um_text *out)
{
    if (kind < UM_TARGET_COUNT) return um_render_text(lowered, (um_target)kind, out);
    return um_render_spirv(lowered, (um_spirv_flavour)(kind - UM_TARGET_COUNT),
                           kind == ADDRESS ? UM_SPIRV_MODES : 0, out);
}

static um_status lower_and_render(const um_kernel *k, int32_t kind, int32_t least, um_text *out)
{
    um_kernel *lowered;
    um_status status = lower_for(k, kind, least, &lowered);
    if (status == UM_OK && folder) memcpy(lowered->name, blank_name, sizeof blank_name);
    if (status == UM_OK) status = render_as(lowered, kind, out);
    um_kernel_release(lowered);
    return status;
}

/* ---- the largest ----------------------------------------------------------------------------- */

enum { LARGEST = 10, ROUNDS = 5 };

typedef struct large {
    char what[160];
    int64_t size;
    double lower, render, verify; /* ms of processor time, the median of some rounds */
} large;

static bool wants_largest;
static large largest[KINDS][LARGEST];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms)
{
    qsort(ms, ROUNDS, sizeof *ms, by_value);
    return ms[ROUNDS / 2];
}

static double now_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

static void measure(const um_kernel *k, int32_t kind, large *l)
{
    double lower[ROUNDS], render[ROUNDS], verify[ROUNDS];
    for (int32_t i = 0; i < ROUNDS; i++) {
        um_text out = {0};
        um_kernel *lowered;
        double begin = now_ms();
        CHECK_OK(lower_for(k, kind, 0, &lowered));
        lower[i] = now_ms() - begin;
        CHECK_OK(render_as(lowered, kind, &out));
        render[i] = now_ms() - begin - lower[i];
        CHECK_OK(um_kernel_verify(lowered));
        verify[i] = now_ms() - begin - lower[i] - render[i];
        um_text_release(&out);
        um_kernel_release(lowered);
    }
    l->lower = median(lower);
    l->render = median(render);
    l->verify = median(verify);
}

/* Where it belongs among the largest of its target, if it does. */
static void note_size(const um_kernel *k, int32_t kind, int64_t size, const char *what)
{
    large *l = largest[kind];
    int32_t at = LARGEST;
    while (at > 0 && l[at - 1].size < size) at--;
    if (at == LARGEST) return;
    memmove(l + at + 1, l + at, (size_t)(LARGEST - 1 - at) * sizeof *l);
    l[at] = (large){.size = size};
    snprintf(l[at].what, sizeof l[at].what, "%.100s, %.48s", what, k->name);
    measure(k, kind, &l[at]);
}

static void show_largest(void)
{
    printf("%-14s %9s %8s %8s %8s  ms of: lower, render, verify\n", "target", "bytes", "", "", "");
    for (int32_t kind = 0; kind < KINDS; kind++)
        for (const large *l = largest[kind]; l < largest[kind] + LARGEST; l++) {
            bool slow = l->render + l->verify > 5;
            printf("%-14s %9lld %8.2f %8.2f %8.2f  %s%s\n", kind_name(kind), (long long)l->size,
                   l->lower, l->render, l->verify, l->what, slow ? "  SLOW" : "");
            CHECK_MSG(!slow, "%s", l->what);
        }
}

/* ---- every kernel ---------------------------------------------------------------------------- */

static void try_kernel(const um_kernel *k, const char *what)
{
    all.kernels++;
    for (int32_t kind = 0; kind < KINDS; kind++)
        for (int32_t least = 0; least < 2 && (wanted < 0 || kind == wanted); least++) {
            um_text out = {0};
            um_status status = lower_and_render(k, kind, least, &out);
            int32_t refusal = find_refusal(k, kind, status);
            CHECK_MSG(status == UM_OK || refusal >= 0, "%s for %s: %s", what, kind_name(kind),
                      um_last_error()->message);
            if (status == UM_OK)
                all.good[least][kind]++;
            else if (refusal >= 0)
                all.refused[least][kind][refusal]++;
            if (status == UM_OK && wants_largest && !least) note_size(k, kind, out.size, what);
            if (status == UM_OK && kind < VULKAN) check_helpers(out.data, what, kind);
            if (status == UM_OK && folder) put_kernel(&out, kind, what);
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

/* What makes kernels of one op and dtype different forms, as opposed to more axes or other views:
 * the work-group, what they keep in shared and private memory, and barriers. */
static uint64_t form_of(const um_kernel *k, um_op_id op, um_dtype dtype)
{
    uint64_t hash = um_hash(k->name, strlen(k->name), (uint64_t)op << 8 | (uint64_t)dtype);
    hash = um_hash(k->group_size, sizeof k->group_size, hash);
    for (int64_t i = 0; i < k->mem_count; i++) {
        const um_kmem *m = &k->mem[i];
        uint64_t kept[] = {m->space, m->type.dtype, m->type.lanes, m->count};
        if (m->space == UM_SPACE_SHARED || m->space == UM_SPACE_PRIVATE)
            hash = um_hash(kept, sizeof kept, hash);
    }
    for (int64_t i = 1; i < k->inst_count; i++)
        if (k->inst[i].op == UM_KOP_BARRIER) hash = um_hash("barrier", 7, hash);
    return hash;
}

/* The kernels of the first sample, and of others those of a form that was not there; or all. */
static bool is_wanted(const um_kernel *k, const um_op *op, um_dtype dtype, bool is_first)
{
    static uint64_t forms[1 << 14];
    static int32_t count;
    uint64_t form = form_of(k, op->id, dtype);
    int32_t at = 0;
    while (at < count && forms[at] != form) at++;
    if (at < count) return is_first || every_sample;
    CHECK(count < (int32_t)UM_COUNT_OF(forms));
    if (count < (int32_t)UM_COUNT_OF(forms)) forms[count++] = form;
    return true;
}

static void try_plan(const um_op *op, int32_t form, um_dtype dtype, bool is_first, int32_t *forms)
{
    static um_kplan plan;
    char what[100];
    CHECK_OK(um_kplan_make(op, NULL, form, &plan));
    for (int32_t i = 0; i < plan.launch_count; i++) {
        const um_kernel *k = plan.launch[i].kernel;
        snprintf(what, sizeof what, "%s/%s launch %d", um_op_name(op->id), um_dtype_name(dtype),
                 (int)i + 1);
        if (is_wanted(k, op, dtype, is_first)) try_kernel(k, what);
    }
    *forms = plan.form_count;
    um_kplan_release(&plan);
}

static void try_op(const um_op_row *row, um_dtype dtype)
{
    bool is_first = true;
    for (int32_t index = 0;; index++) {
        um_sample sample = {.op.id = row->id};
        int32_t forms;
        if (!row->sample(index, dtype, &sample)) return;
        if (!place(&sample.op)) continue;
        try_plan(&sample.op, 0, dtype, is_first, &forms);
        for (int32_t form = 1; form <= forms && forms > 1; form++)
            try_plan(&sample.op, form, dtype, false, &forms);
        is_first = false;
    }
}

static void test_all(void)
{
    for (um_op_id id = 1; id <= um_op_count(); id++)
        for (um_dtype dtype = 1; dtype <= UM_BOOL; dtype++)
            if (um_op_get_row(id)->dtypes & UM_BIT(dtype)) try_op(um_op_get_row(id), dtype);
    printf("     %d kernels\n", all.kernels);
    for (int32_t kind = 0; kind < KINDS; kind++) {
        if (wanted >= 0 && kind != wanted) continue;
        printf("     %-12s %d rendered, %d for the least device", kind_name(kind),
               all.good[0][kind], all.good[1][kind]);
        for (size_t i = 0; i < UM_COUNT_OF(refusals); i++)
            if (all.refused[0][kind][i] + all.refused[1][kind][i] > 0)
                printf("; %d and %d refused: %s", all.refused[0][kind][i], all.refused[1][kind][i],
                       refusals[i].why);
        printf("\n");
    }
}

static bool parse(int argc, char **argv)
{
    wants_largest = argc == 2 && strcmp(argv[1], "largest") == 0;
    if (argc == 1 || wants_largest) return true;
    for (int32_t kind = 0; argc > 2 && kind < KINDS; kind++)
        if (strcmp(argv[1], kind_name(kind)) == 0) wanted = kind;
    every_sample = argc > 3 && strcmp(argv[3], "all") == 0;
    folder = argc > 2 ? argv[2] : "";
    return wanted >= 0 && argc <= (every_sample ? 4 : 3);
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: %s [largest | TARGET FOLDER [all]]\n", argv[0]);
        return 2;
    }
    if (folder) {
        char path[512];
        snprintf(path, sizeof path, "%s/list", folder);
        if (!(list = fopen(path, "w"))) return perror(path), 2;
        put_file("head", head_of(wanted), (int64_t)strlen(head_of(wanted)));
    }
    TEST(test_all);
    if (list) CHECK(fclose(list) == 0);
    if (wants_largest) TEST(show_largest);
    return TEST_RESULT();
}
