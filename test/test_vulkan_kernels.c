/* Kernels that no op has, by the Vulkan driver against the interpreter, bit for bit: of each
 * operation with constants on either side, which compilers like to know better; and made at random.
 * f16 as in test_vulkan_f16.c. Skipped where no driver is. */
#include "test/kernel_random.h"
#include "test/vk_wrap.h"

#include "backend/vulkan/launch.c" /* for `launch`, which takes any kernel */

#include <math.h>

enum { VALUES = 16, CONSTANTS = 6, RESULTS_MAX = 800, RANDOM_KERNELS = 40 };

extern const um_backend um_backend_vulkan;

static um_backend_device *device;
static um_backend_stream *stream;

static bool has(um_dtype dtype)
{
    return um_dtype_bits(dtype) == 32 || (device->physical->types & UM_BIT(dtype)) != 0;
}

static um_status launch_bytes(const um_kernel *k, const um_kernel_run *what, const um_ptr *ptr)
{
    void *object = NULL;
    um_klaunch l = {.group_count = {what->group_count[0], 1, 1}, .buffer_count = 2};
    for (int i = 0; i < 2; i++)
        l.buffer[i] = (um_kbinding){.begin = ptr[i], .size_bytes = what->buffers[i].size_bytes};
    UM_TRY(um_vk_program_compile(device, k, &object));
    um_mutex_lock(&stream->mutex);
    um_status status = launch(stream, object, &l);
    um_mutex_unlock(&stream->mutex);
    um_vk_unref(device, object);
    return status;
}

/* A run_fn of two buffers. */
static um_status by_device(void *user, const um_kernel *k, const um_kernel_run *what)
{
    um_ptr ptr[2];
    (void)user;
    for (int i = 0; i < 2; i++) {
        const um_kernel_buffer *b = &what->buffers[i];
        CHECK_OK(um_vk_alloc(device, b->size_bytes, &ptr[i]));
        CHECK_OK(um_vk_write(stream, ptr[i], b->data, b->size_bytes));
    }
    um_status status = launch_bytes(k, what, ptr);
    CHECK_OK(um_vk_read(stream, what->buffers[1].data, ptr[1], what->buffers[1].size_bytes));
    for (int i = 0; i < 2; i++) um_vk_free(device, ptr[i]);
    return status;
}

static void at_random(void)
{
    random_exact = true;
    run_limit = 10000000;
    dtypes[5] = has(UM_F64) ? UM_F64 : UM_F16;
    for (int n = 0; n < RANDOM_KERNELS; n++) {
        bool uses_subgroups;
        output want, got;
        random_state = (uint64_t)n + 1;
        um_kernel *k = make_kernel(false, &uses_subgroups);
        CHECK_OK(run(k, device->physical->subgroup_size, want));
        CHECK_OK(run_by(by_device, NULL, k, 0, got));
        CHECK_MSG(memcmp(want, got, sizeof want) == 0, "kernel %d", n);
        um_kernel_release(k);
    }
}

/* ---- operations with constants ----------------------------------------------------------------
 */

/* A kernel, and what its results are of. */
typedef struct table {
    um_kernel *k;
    um_dtype from, to;
    um_mem out;
    um_val index, x, constant[CONSTANTS];
    struct {
        um_kop op;
        int32_t constant;
        bool first;
    } of[RESULTS_MAX];
    uint32_t count;
} table;

/* No subnormals: not every device keeps them. */
static const double reals[VALUES] = {0,         -0.0,      1,           -1,  2,     -0.5,
                                     HUGE_VAL,  -HUGE_VAL, (double)NAN, 3.5, -3.25, 33,
                                     0x1.8p100, -0x1p30,   0x1p-20,     127};
static const int64_t whole[VALUES] = {
    0,         1,         -1,         33,        127, 128, 255,
    INT32_MAX, INT32_MIN, UINT32_MAX, 1LL << 32, -34, 5,   -(1LL << 31) - 1,
    INT64_MAX, INT64_MIN};

static uint64_t value_of(um_dtype dtype, int32_t i)
{
    uint64_t bits = (uint64_t)whole[i];
    if (um_dtype_is_float(dtype)) CHECK_OK(um_convert(dtype, &bits, UM_F64, &reals[i], 1));
    return bits;
}

static void put_word(table *t, uint32_t part, um_val word)
{
    um_val at = um_k_add(t->k, t->index, um_k_u32(t->k, (2 * t->count + part) * VALUES));
    um_k_store(t->k, t->out, at, word);
}

/* The bits, of NaN none. */
static void put_result(table *t, um_val y)
{
    um_kernel *k = t->k;
    um_dtype dtype = um_val_type(k, y).dtype;
    bool wide = um_dtype_bits(dtype) == 64;
    um_dtype word = wide ? UM_U64 : UM_U32;
    um_dtype raw = um_dtype_bits(dtype) == 16 ? UM_U16 : word;
    um_val bits = dtype == UM_BOOL ? y : um_k_bitcast(k, raw, 1, y);
    bits = um_k_convert(k, word, bits);
    if (um_dtype_is_float(dtype))
        bits = um_k_select(k, um_k_eq(k, y, y), bits, um_k_const(k, word, 1));
    put_word(t, 0, um_k_convert(k, UM_U32, bits));
    if (wide) put_word(t, 1, um_k_convert(k, UM_U32, um_k_shr(k, bits, um_k_const(k, word, 32))));
    t->count++;
}

static bool divides(const table *t, um_kop op)
{
    return (op == UM_KOP_DIV || op == UM_KOP_REM) && !um_dtype_is_float(t->to);
}

static void add_op(table *t, um_kop op, int32_t i, bool first)
{
    const um_kop_row *row = &um_kop_rows[op];
    um_kinst inst = {.op = (uint16_t)op, .type = {(uint8_t)t->to, 1}};
    if (row->rule == UM_KRULE_BOOL) inst.type.dtype = UM_BOOL;
    inst.arg[0] = first ? t->constant[i] : t->x;
    inst.arg[1] = first ? t->x : t->constant[i];
    if (divides(t, op) && (first || whole[i] == 0 || whole[i] == -1)) return;
    t->of[t->count].op = op;
    t->of[t->count].constant = i;
    t->of[t->count].first = first;
    put_result(t, um_kernel_append(t->k, &inst));
}

static void check_table(table *t)
{
    static _Alignas(16) char in[VALUES * 8];
    static _Alignas(16) uint32_t want[2 * RESULTS_MAX * VALUES], got[2 * RESULTS_MAX * VALUES];
    size_t each = (size_t)um_dtype_bits(t->from) / 8, size = 8 * (size_t)t->count * VALUES;
    for (int32_t i = 0; i < VALUES; i++) {
        uint64_t bits = value_of(t->from, i);
        memcpy(in + (size_t)i * each, &bits, each);
    }
    um_kernel_buffer first[] = {{in, VALUES * each}, {want, size}};
    um_kernel_buffer second[] = {{in, VALUES * each}, {got, size}};
    CHECK_OK(run_kernel(t->k, 1, 1, 2, first, 0, NULL));
    CHECK_OK(by_device(
        NULL, t->k,
        &(um_kernel_run){.group_count = {1, 1, 1}, .buffers = second, .buffer_count = 2}));
    for (uint32_t i = 0; i < 2 * t->count * VALUES; i++) {
        uint32_t n = i / VALUES / 2;
        CHECK_MSG(want[i] == got[i], "%s as %s, value %u %s constant %d (%s): %x, wanted %x",
                  um_dtype_name(t->from), um_dtype_name(t->to), i % VALUES,
                  um_kop_rows[t->of[n].op].name, (int)t->of[n].constant,
                  t->of[n].first ? "first" : "second", got[i], want[i]);
    }
}

static void of_constants(um_dtype from, um_dtype to)
{
    static table t;
    t = (table){.k = kernel_make(VALUES), .from = from, .to = to};
    um_mem in = um_k_buffer(t.k, "x", from, UM_K_READ);
    t.out = um_k_buffer(t.k, "y", UM_U32, UM_K_WRITE);
    t.index = um_k_builtin(t.k, UM_KOP_LOCAL_INDEX, 0);
    t.x = um_k_convert(t.k, to, um_k_load(t.k, in, t.index));
    for (int32_t i = 0; i < CONSTANTS; i++) t.constant[i] = um_k_const(t.k, to, value_of(to, i));
    for (int op = UM_KOP_ADD; op < UM_KOP_SELECT; op++) {
        const um_kop_row *row = &um_kop_rows[op];
        if (!row->name || row->arity != 2 || row->rule > UM_KRULE_BOOL || !takes(op, to)) continue;
        for (int32_t i = 0; i < 2 * CONSTANTS; i++) add_op(&t, op, i / 2, i % 2);
    }
    CHECK_OK(um_kernel_finish(t.k));
    check_table(&t);
    um_kernel_release(t.k);
}

static void with_constants(void)
{
    static const um_dtype ints[] = {UM_I8, UM_U8, UM_I16, UM_U16, UM_I32, UM_U32, UM_I64, UM_U64};
    static const um_dtype floats[] = {UM_F16, UM_F32, UM_F64};
    random_exact = true;
    for (size_t to = 4; to < UM_COUNT_OF(ints); to++)
        for (size_t from = 0; from <= to; from++) of_constants(ints[from], ints[to]);
    for (size_t i = 0; i < UM_COUNT_OF(floats); i++)
        if (has(floats[i])) of_constants(floats[i], floats[i]);
}

static bool open_device(void)
{
    char why[200];
    int32_t count;
    vk_wrap.keeps_f16 = true; /* see test_vulkan_f16.c */
    if (um_vk_enumerate(&count, why, sizeof why) != UM_OK || count == 0) {
        printf("skipped: %s\n", why);
        return false;
    }
    CHECK_OK(um_backend_vulkan.open(0, &device));
    CHECK_OK(um_vk_stream_create(device, &stream));
    printf("     %s\n", device->physical->properties.name);
    return true;
}

int main(void)
{
    if (!open_device()) return 77;
    TEST(with_constants);
    TEST(at_random);
    um_vk_stream_destroy(stream);
    um_backend_vulkan.close(device);
    return TEST_RESULT();
}
