/* Kernels of the library as OpenCL C on an OpenCL device, against what the interpreter makes of
 * them: the same bits, where floats are concerned within a few ulp. Skipped where there is no such
 * device. A few kernels of each family; with an argument, every op and dtype. */
#include "check/inside.h"
#include "kernel/library.h"
#include "kernel_random.h"
#include "opencl_run.h"
#include "render/render.h"

static const struct {
    const char *op, *dtype;
} few[] = {
    {"add", "f32"},     {"exp", "f32"},      {"gelu", "f16"},          {"div", "i8"},
    {"mul", "u64"},     {"sqrt", "f64"},     {"copy", "bf16"},         {"arange", "i64"},
    {"sum", "f32"},     {"argmax", "f32"},   {"any", "bool"},          {"matmul", "f32"},
    {"matmul", "bf16"}, {"matmul", "i8"},    {"conv", "f32"},          {"max_pool", "f32"},
    {"resize", "f32"},  {"softmax", "f32"},  {"layer_norm", "f32"},    {"attention", "f32"},
    {"rope", "f32"},    {"quantize", "f32"}, {"random_normal", "f32"},
};

typedef struct tally {
    int32_t agree, near, skipped, wrong;
    int64_t worst_ulp;
} tally;

static tally all;
static bool f64_here;

/* ---- memory: each view's at a multiple of 16, of whole 16 bytes ---------------------------------
 */

static size_t bytes_of(const um_view *view)
{
    size_t size = 0;
    CHECK_OK(um_dtype_size(view->dtype, um_view_count(view), &size));
    return (size / 16 + 1) * 16;
}

static void make_views(um_view *views, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        void *memory = aligned_alloc(64, (bytes_of(&views[i]) + 63) / 64 * 64);
        CHECK(memory != NULL);
        views[i].ptr = (um_ptr)(uintptr_t)memory;
    }
}

static void free_views(um_view *views, int32_t count)
{
    for (int32_t i = 0; i < count; i++) free((void *)(uintptr_t)views[i].ptr);
}

static void *data_of(const um_view *view) { return (void *)(uintptr_t)view->ptr; }

static void fill_input(const um_sample *sample, int32_t input, um_rng *rng)
{
    const um_view *view = &sample->op.in[input];
    int32_t bits = um_oracle_bits(view->dtype);
    um_image image = {.bytes = data_of(view), .size_bytes = bytes_of(view), .bits = bits};
    memset(image.bytes, 0, image.size_bytes);
    for (int64_t i = 0; i < um_view_count(view); i++) {
        um_num value = um_value_make(sample, input, UM_ROUND_RANDOM, rng);
        um_image_set(&image, i, um_oracle_encode(view->dtype, value));
    }
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* The kernel as the renderer gets it, on either; false: it failed, which is said. */
static bool run_lowered(const um_kernel *kernel, const um_kernel_run *run, bool opencl)
{
    um_klacks lacks = um_text_lacks(UM_TARGET_OPENCL, 0, 0);
    um_kernel *lowered;
    um_text text = {0};
    char name[64];
    um_status status = um_kernel_lower(kernel, &lacks, &lowered);
    if (status == UM_OK)
        status = opencl ? um_render_text(lowered, UM_TARGET_OPENCL, &text)
                        : um_kernel_interpret(lowered, run);
    CHECK_OK(status);
    snprintf(name, sizeof name, "um_%s", kernel->name);
    bool good = status == UM_OK;
    if (good && opencl) good = opencl_run(text.data, name, kernel->group_size, run);
    um_text_release(&text);
    um_kernel_release(lowered);
    return good;
}

static bool run_plan(const um_kplan *plan, char *scratch, bool opencl)
{
    bool good = true;
    memset(scratch, 0xff, (size_t)plan->scratch_bytes);
    if (plan->fault[0]) memset(scratch, 0, UM_KFAULT_BYTES);
    for (int32_t n = 0; n < plan->launch_count && good; n++) {
        const um_klaunch *launch = &plan->launch[n];
        um_kernel_buffer buffers[UM_K_MAX_BUFFERS];
        um_kernel_run run = {.buffers = buffers,
                             .buffer_count = launch->buffer_count,
                             .scalars = launch->scalar,
                             .scalar_count = launch->scalar_count};
        memcpy(run.group_count, launch->group_count, sizeof run.group_count);
        for (int32_t i = 0; i < launch->buffer_count; i++) {
            const um_kbinding *b = &launch->buffer[i];
            char *data = b->scratch ? scratch + b->begin : (char *)(uintptr_t)b->begin;
            buffers[i] = (um_kernel_buffer){data, (b->size_bytes + 3) / 4 * 4};
        }
        good = run_lowered(launch->kernel, &run, opencl);
    }
    return good;
}

/* ---- comparing ----------------------------------------------------------------------------------
 */

/* Floats in their order, as whole numbers. */
static int64_t rank_of(um_dtype dtype, uint64_t bits)
{
    uint64_t sign = (uint64_t)1 << (um_dtype_bits(dtype) - 1);
    return bits & sign ? -(int64_t)(bits & ~sign) : (int64_t)bits;
}

static bool is_nan(um_dtype dtype, uint64_t bits)
{
    double value = 0;
    CHECK_OK(um_convert(UM_F64, &value, dtype, &bits, 1));
    return value != value;
}

/* In ulp; INT64_MAX: other integers, or a NaN on one side. */
static int64_t distance(um_dtype dtype, uint64_t a, uint64_t b)
{
    if (a == b) return 0;
    if (!um_dtype_is_float(dtype)) return INT64_MAX;
    bool nan = is_nan(dtype, a), other = is_nan(dtype, b);
    if (nan || other) return nan && other ? 0 : INT64_MAX;
    int64_t ra = rank_of(dtype, a), rb = rank_of(dtype, b);
    uint64_t ulp = ra > rb ? (uint64_t)ra - (uint64_t)rb : (uint64_t)rb - (uint64_t)ra;
    return (int64_t)UM_MIN(ulp, (uint64_t)INT64_MAX);
}

static int64_t compare(const um_view *view, uint8_t *want, int64_t *where)
{
    int32_t bits = um_dtype_bits(view->dtype);
    um_image got = {.bytes = data_of(view), .size_bytes = bytes_of(view), .bits = bits};
    um_image wanted = {.bytes = want, .size_bytes = got.size_bytes, .bits = bits};
    int64_t worst = 0;
    for (int64_t i = 0; i < um_view_count(view); i++) {
        int64_t d = distance(view->dtype, um_image_get(&got, i), um_image_get(&wanted, i));
        if (d > worst) *where = i;
        worst = UM_MAX(worst, d);
    }
    return worst;
}

/* ---- ops ----------------------------------------------------------------------------------------
 */

/* Whether it has f64, or with `math` functions of f64, which are the device's own. */
static bool has_f64(const um_kplan *plan, bool math)
{
    for (int32_t n = 0; n < plan->launch_count; n++)
        for (int64_t i = 1; i < plan->launch[n].kernel->inst_count; i++) {
            const um_kinst *inst = &plan->launch[n].kernel->inst[i];
            if (inst->type.dtype == UM_F64 && (!math || um_kop_is_math(inst->op))) return true;
        }
    return false;
}

static void run_both(const um_op *op, const um_kplan *plan, const char *name)
{
    /* what differs a little may then cancel */
    int64_t near_ulp = has_f64(plan, true) ? 256 : 4;
    uint8_t *want[UM_OP_MAX_OUTPUTS];
    int64_t worst = 0, where = 0;
    char *scratch = aligned_alloc(64, ((size_t)plan->scratch_bytes / 64 + 1) * 64);
    CHECK(scratch != NULL);
    for (int32_t i = 0; i < op->out_count; i++)
        memset(data_of(&op->out[i]), 0xa5, bytes_of(&op->out[i]));
    bool good = run_plan(plan, scratch, false);
    CHECK_MSG(good, "%s: %s", name, um_last_error()->message);
    for (int32_t i = 0; i < op->out_count; i++) {
        size_t size = bytes_of(&op->out[i]);
        want[i] = malloc(size);
        CHECK(want[i] != NULL);
        memcpy(want[i], data_of(&op->out[i]), size);
        memset(data_of(&op->out[i]), 0xa5, size);
    }
    good = good && run_plan(plan, scratch, true);
    for (int32_t i = 0; i < op->out_count; i++) {
        int64_t at = 0, d = compare(&op->out[i], want[i], &at);
        if (d > worst) where = at;
        worst = UM_MAX(worst, d);
        free(want[i]);
    }
    free(scratch);
    good = good && worst <= near_ulp;
    CHECK_MSG(good, "%s: %lld ulp from the interpreter's at element %lld", name, (long long)worst,
              (long long)where);
    all.wrong += !good;
    all.agree += good && worst == 0;
    all.near += good && worst > 0;
    if (good) all.worst_ulp = UM_MAX(all.worst_ulp, worst);
}

/* false: no kernels for it, or nothing to write. */
static bool try_sample(const um_op_row *row, um_dtype dtype, um_sample *sample, int32_t index)
{
    char name[100], why[200];
    um_op *op = &sample->op;
    um_kplan plan;
    if (um_view_count(&op->out[0]) == 0 || !um_kplan_supports(op, why, sizeof why)) return false;
    snprintf(name, sizeof name, "%s/%s/%d", row->name, um_dtype_name(dtype), (int)index);
    um_rng rng = um_rng_make(1, name);
    make_views(op->in, op->in_count);
    make_views(op->out, op->out_count);
    for (int32_t i = 0; i < op->in_count; i++) fill_input(sample, i, &rng);
    CHECK_OK(um_op_check(op));
    CHECK_OK(um_kplan_make(op, NULL, 0, &plan));
    if (has_f64(&plan, false) && !f64_here)
        all.skipped++;
    else
        run_both(op, &plan, name);
    um_kplan_release(&plan);
    free_views(op->in, op->in_count);
    free_views(op->out, op->out_count);
    return true;
}

/* The first sample that has kernels; false: none. */
static bool try_op(um_op_id id, um_dtype dtype)
{
    const um_op_row *row = um_op_get_row(id);
    for (int32_t index = 0; row->dtypes & UM_BIT(dtype); index++) {
        um_sample sample = {.op.id = id};
        if (!row->sample(index, dtype, &sample)) return false;
        if (try_sample(row, dtype, &sample, index)) return true;
    }
    return false;
}

static void test_few(void)
{
    for (size_t i = 0; i < UM_COUNT_OF(few); i++)
        CHECK_MSG(try_op(um_op_find(few[i].op), um_dtype_find(few[i].dtype)), "%s/%s has no kernel",
                  few[i].op, few[i].dtype);
}

static void test_all(void)
{
    for (um_op_id id = 1; id <= um_op_count(); id++)
        for (um_dtype dtype = 1; dtype <= UM_BOOL; dtype++) try_op(id, dtype);
}

/* ---- kernels made at random -------------------------------------------------------------------
 */

static int32_t random_count = 8;

static um_status by_opencl(void *user, const um_kernel *k, const um_kernel_run *what)
{
    um_text text = {0};
    (void)user;
    um_status status = um_render_text(k, UM_TARGET_OPENCL, &text);
    if (status == UM_OK && !opencl_run(text.data, "um_t", k->group_size, what))
        status = UM_FAIL(UM_DEVICE_ERROR, "OpenCL does not run it");
    um_text_release(&text);
    return status;
}

static void test_random(void)
{
    um_klacks lacks = um_text_lacks(UM_TARGET_OPENCL, 0, 0);
    random_exact = true;
    run_limit = 10000000;
    if (!f64_here) dtypes[5] = UM_F16;
    for (int32_t n = 0; n < random_count; n++) {
        output want, got;
        bool uses_subgroups;
        um_kernel *lowered = NULL;
        random_state = (uint64_t)n + 1;
        um_kernel *k = make_kernel(false, &uses_subgroups);
        CHECK_OK(um_kernel_lower(k, &lacks, &lowered));
        CHECK_OK(run(lowered, 1, want));
        CHECK_OK(run_by(by_opencl, NULL, lowered, 1, got));
        CHECK_MSG(memcmp(want, got, sizeof want) == 0, "kernel %d", (int)n);
        um_kernel_release(lowered);
        um_kernel_release(k);
    }
    printf("     %d random kernels\n", (int)random_count);
}

int main(int argc, char **argv)
{
    const char *why;
    (void)argv;
    if (!opencl_open(&why)) {
        printf("skipped: %s\n", why);
        return 77;
    }
    f64_here = opencl_has("cl_khr_fp64");
    if (argc > 1)
        TEST(test_all);
    else
        TEST(test_few);
    if (argc > 1) random_count = 400;
    TEST(test_random);
    printf("     %d the same bits, %d within %lld ulp, %d wrong; %d skipped for want of f64\n",
           all.agree, all.near, (long long)all.worst_ulp, all.wrong, all.skipped);
    opencl_close();
    return TEST_RESULT();
}
