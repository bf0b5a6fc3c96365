/* Ops in parts (op/part.c, device/planner.c): on device interp with small limits they give the
 * bits that they give whole, and what cannot be cut says so. umbel check with
 * UMBEL_INTERP_LIMITS compares all ops with the reference. */
#include "device/planner.h"
#include "test.h"

#include <stdlib.h>
#include <umbel/umbel.h>

/* ---- with plans of memory that is not there ---------------------------------------------------
 */

typedef struct tally {
    um_klimits limits;
    int64_t parts, elements;
} tally;

static um_status count_part(void *ctx, const um_op *op, um_kplan *plan)
{
    tally *t = ctx;
    t->parts++;
    t->elements += um_view_count(&op->out[0]);
    for (int32_t i = 0; i < plan->launch_count; i++) {
        const um_klaunch *l = &plan->launch[i];
        for (int32_t d = 0; d < 2; d++)
            CHECK(!t->limits.group_count_max[d] ||
                  l->group_count[d] <= t->limits.group_count_max[d]);
        for (int32_t b = 0; b < l->buffer_count; b++)
            CHECK(!t->limits.binding_max_bytes ||
                  l->buffer[b].size_bytes <= t->limits.binding_max_bytes);
    }
    return UM_OK;
}

static um_op op_of(um_op_id id, int32_t inputs, um_dtype dtype, int32_t rank, const int64_t *shape)
{
    um_op op = {.id = id, .in_count = inputs, .out_count = 1};
    for (int32_t i = 0; i < inputs; i++)
        CHECK_OK(um_view_make((um_ptr)(i + 2) << 50, dtype, rank, shape, &op.in[i]));
    op.out[0].dtype = dtype;
    return op;
}

static void finish_op(um_op *op)
{
    CHECK_OK(um_op_infer(op));
    op->out[0].ptr = (um_ptr)1 << 50;
    CHECK_OK(um_op_check(op));
}

/* How many parts; 0: refused. */
static int64_t parts_of(um_klimits limits, const um_op *op)
{
    um_kcache *cache;
    tally t = {.limits = limits};
    char why[256];
    CHECK_OK(um_kcache_create(&(um_kcache_desc){0}, &cache));
    bool supported = um_planner_supports(cache, &limits, op, why, sizeof why);
    um_status status = um_planner_run(cache, &limits, op, 0, count_part, &t);
    CHECK(status == (supported ? UM_OK : UM_UNSUPPORTED));
    CHECK(t.elements == (supported ? um_view_count(&op->out[0]) : 0));
    if (!supported) CHECK_MSG(strcmp(why, um_last_error()->message) == 0, "%s", why);
    um_kcache_release(cache);
    return t.parts;
}

static void large_views_are_cut(void)
{
    const um_klimits none = {0}, webgpu = {128 << 20, {65535, 65535}, 8};
    um_op add = op_of(UM_OP_ADD, 2, UM_F32, 2, (const int64_t[]){3, (int64_t)1 << 32});
    finish_op(&add);
    int64_t parts = parts_of(none, &add);
    CHECK_MSG(parts >= 4 && parts <= 8, "%d", (int)parts);
    add = op_of(UM_OP_ADD, 2, UM_F32, 2, (const int64_t[]){1000, 100000});
    finish_op(&add);
    CHECK(parts_of(none, &add) == 1);
    CHECK(parts_of(webgpu, &add) == 4);
    um_op sum = op_of(UM_OP_SUM, 1, UM_F32, 2, (const int64_t[]){1 << 20, 1 << 14});
    sum.attrs.reduce.axes = UM_AXIS(1);
    finish_op(&sum);
    CHECK(parts_of(none, &sum) >= 4);
    um_op product = op_of(UM_OP_MATMUL, 2, UM_F32, 2, (const int64_t[]){8192, 8192});
    product.attrs.matmul.alpha = 1;
    product.in[1].stride[0] = 1; /* columns one after the other */
    product.in[1].stride[1] = 8192;
    finish_op(&product);
    CHECK(parts_of(none, &product) == 1);
    CHECK(parts_of(webgpu, &product) >= 4);
}

/* A launch is of whole rows of work-groups, whose last invocations must not wrap around to the
 * first elements. */
static void numbers_of_invocations_fit(void)
{
    static const struct {
        int64_t less, parts;
    } rows[] = {{1 << 25, 1}, {1 << 20, 2}};
    for (size_t i = 0; i < UM_COUNT_OF(rows); i++) {
        const int64_t shape[1] = {((int64_t)1 << 32) - rows[i].less};
        um_op op = {.id = UM_OP_FILL, .out_count = 1};
        CHECK_OK(um_view_make(64, UM_I8, 1, shape, &op.out[0]));
        CHECK(parts_of((um_klimits){0}, &op) == rows[i].parts);
    }
}

static void what_cannot_be_cut_says_so(void)
{
    um_op sum = op_of(UM_OP_SUM, 1, UM_F32, 1, (const int64_t[]){(int64_t)1 << 33});
    finish_op(&sum);
    CHECK(parts_of((um_klimits){0}, &sum) == 0);
    CHECK(strstr(um_last_error()->message, "sum: f32[8589934592]: ") != NULL);
    CHECK(strstr(um_last_error()->message, "2^32 elements") != NULL);
    sum = op_of(UM_OP_SUM, 1, UM_F32, 1, (const int64_t[]){1000});
    finish_op(&sum);
    CHECK(parts_of((um_klimits){.binding_max_bytes = 2000}, &sum) == 0);
    CHECK(strstr(um_last_error()->message, "f32[1000] takes 4000 bytes, a binding 2000") != NULL);
    um_op rows = op_of(UM_OP_CUMSUM, 1, UM_F32, 2, (const int64_t[]){1, 1000});
    rows.attrs.axis.axis = 1;
    finish_op(&rows);
    CHECK(parts_of((um_klimits){.binding_max_bytes = 2000}, &rows) == 0);
    /* the kernels' own limit: lines apart fit, one line does not */
    um_op order = op_of(UM_OP_ARGSORT, 1, UM_I8, 2, (const int64_t[]){8, 1 << 28});
    order.attrs.sort.axis = 1;
    finish_op(&order);
    CHECK(parts_of((um_klimits){0}, &order) > 1);
    order = op_of(UM_OP_ARGSORT, 1, UM_I8, 1, (const int64_t[]){1 << 30});
    finish_op(&order);
    CHECK(parts_of((um_klimits){0}, &order) == 0);
    CHECK(strstr(um_last_error()->message, "no kernel for 2^30 elements") != NULL);
}

static void more_buffers_than_a_device_takes_are_refused(void)
{
    um_map_program program = {.dtype = UM_F32, .inst_count = 7};
    for (uint8_t i = 0; i < 7; i++)
        program.inst[i] = (um_map_inst){.op = UM_OP_ADD, .src = {i ? 7 + i : 0, i + 1}};
    um_op map = op_of(UM_OP_MAP, 8, UM_F32, 1, (const int64_t[]){1000});
    map.attrs.program = &program;
    finish_op(&map);
    CHECK(parts_of((um_klimits){.buffer_count_max = 9}, &map) == 1);
    CHECK(parts_of((um_klimits){.buffer_count_max = 8}, &map) == 0);
    CHECK(strcmp(um_last_error()->message, "map: a kernel takes 9 buffers, the device 8") == 0);
    map.in[7].ptr = map.in[6].ptr; /* how many views, not memories, counts */
    CHECK(parts_of((um_klimits){.buffer_count_max = 8}, &map) == 0);
    map.out[0].ptr = map.in[0].ptr; /* but in place it is one view */
    CHECK(parts_of((um_klimits){.buffer_count_max = 8}, &map) == 1);
}

static um_status take_plan(void *ctx, const um_op *op, um_kplan *plan)
{
    const um_klimits *limits = ctx;
    uint64_t bytes = 0;
    for (int32_t i = 0; i < op->in_count + op->out_count; i++) {
        int64_t low = 0, high = 0;
        const um_view *view = i < op->in_count ? &op->in[i] : &op->out[i - op->in_count];
        if (um_view_extent(view, &low, &high)) bytes += (uint64_t)(high - low);
    }
    CHECK_MSG(plan->scratch_bytes < UM_SCRATCH_TIMES * bytes + UM_SCRATCH_BYTES, "%s",
              um_op_name(op->id));
    for (int32_t i = 0; i < plan->launch_count; i++) {
        const um_klaunch *launch = &plan->launch[i];
        bool good = !limits->buffer_count_max || launch->buffer_count <= limits->buffer_count_max;
        for (int32_t b = 0; b < launch->buffer_count && limits->binding_max_bytes; b++)
            good = good && launch->buffer[b].size_bytes <= limits->binding_max_bytes;
        CHECK_MSG(good, "%s", um_op_name(op->id));
    }
    return UM_OK;
}

static void what_is_supported_has_plans(um_kcache *cache, const um_sample *sample)
{
    um_op op = sample->op;
    for (int32_t i = 0; i < op.in_count; i++)
        if (!um_view_is_none(&op.in[i])) op.in[i].ptr = (um_ptr)(i + 8) << 50;
    for (int32_t i = 0; i < op.out_count; i++) op.out[i].ptr = (um_ptr)(i + 1) << 50;
    if (um_view_count(&op.out[0]) == 0 || um_op_check(&op) != UM_OK) return;
    for (int32_t count = 2; count < 9; count++) {
        um_klimits limits = {.buffer_count_max = count};
        char why[256] = "";
        if (count == 2) limits = (um_klimits){.binding_max_bytes = 4096};
        bool supported = um_planner_supports(cache, &limits, &op, why, sizeof why);
        um_status status = um_planner_run(cache, &limits, &op, 0, take_plan, &limits);
        CHECK_MSG(status == (supported ? UM_OK : UM_UNSUPPORTED), "%s %s, %d buffers: %s",
                  um_op_name(op.id), sample->label, (int)count, um_last_error()->message);
    }
}

static void small_limits_are_enough_or_refused_before(void)
{
    um_kcache *cache;
    CHECK_OK(um_kcache_create(&(um_kcache_desc){0}, &cache));
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        um_sample sample = {.op.id = id};
        for (int32_t i = 0; um_op_get_row(id)->sample(i, UM_F32, &sample); i++) {
            what_is_supported_has_plans(cache, &sample);
            sample = (um_sample){.op.id = id};
        }
    }
    um_kcache_release(cache);
}

static void what_writes_nothing_is_supported(void)
{
    um_device *device;
    um_op product = op_of(UM_OP_MATMUL, 2, UM_F32, 2, (const int64_t[]){0, 0});
    finish_op(&product);
    setenv("UMBEL_INTERP_LIMITS", "buffers:2", 1);
    CHECK_OK(um_open("interp", &device));
    char why[80] = "?";
    CHECK(um_supports(device, &product, why, sizeof why) && strcmp(why, "") == 0);
    um_device_release(device);
    unsetenv("UMBEL_INTERP_LIMITS");
}

static void groups_are_folded(void)
{
    um_op add = op_of(UM_OP_ADD, 2, UM_F32, 1, (const int64_t[]){256 * 40});
    finish_op(&add);
    CHECK(parts_of((um_klimits){0, {7, 7}, 0}, &add) == 1); /* 7 x 6 */
    CHECK(parts_of((um_klimits){0, {6, 6}, 0}, &add) == 2);
    CHECK(parts_of((um_klimits){0, {1, 1}, 0}, &add) == 40 + 24);
}

/* ---- on the device -----------------------------------------------------------------------------
 */

enum { ROOM = 1 << 16 };

/* The op on a device with those limits (NULL: none), its views in a memory of numbers. false: it
 * cannot be cut so small. */
static bool run_on(const char *limits, const um_sample *sample, unsigned char *result)
{
    um_device *device;
    um_stream *stream;
    um_ptr memory;
    um_op op = sample->op;
    static float numbers[ROOM / sizeof(float)];
    for (int32_t i = 0; i < ROOM / (int32_t)sizeof(float); i++)
        numbers[i] = (float)(i * 37 % 101) / 16;
    if (limits)
        setenv("UMBEL_INTERP_LIMITS", limits, 1);
    else
        unsetenv("UMBEL_INTERP_LIMITS");
    CHECK_OK(um_open("interp", &device));
    CHECK_OK(um_stream_create(device, &stream));
    CHECK_OK(um_alloc(device, 8 * ROOM, &memory));
    for (int32_t i = 0; i < 8; i++)
        CHECK_OK(um_write(stream, memory + (um_ptr)i * ROOM, numbers, ROOM));
    for (int32_t i = 0; i < op.in_count; i++) op.in[i].ptr = memory + (um_ptr)(i + 1) * ROOM;
    op.out[0].ptr = memory;
    op.out_count = 1;
    bool supported = um_supports(device, &op, NULL, 0);
    CHECK(um_enqueue(stream, &op) == (supported ? UM_OK : UM_UNSUPPORTED));
    CHECK_OK(um_read(stream, result, memory, ROOM));
    um_stream_release(stream);
    CHECK_OK(um_free(device, memory));
    um_device_release(device);
    return supported;
}

static void parts_give_the_same_bits(void)
{
    static const um_op_id ops[] = {UM_OP_ADD,       UM_OP_COPY,     UM_OP_SUM,  UM_OP_CUMSUM,
                                   UM_OP_SOFTMAX,   UM_OP_RMS_NORM, UM_OP_SORT, UM_OP_LAYER_NORM,
                                   UM_OP_ATTENTION, UM_OP_MAX_POOL, UM_OP_CONV, UM_OP_RESIZE,
                                   UM_OP_MATMUL};
    static unsigned char whole[ROOM], parts[ROOM];
    setenv("UMBEL_STRICT", "1", 1);
    for (size_t i = 0; i < UM_COUNT_OF(ops); i++) {
        int32_t compared = 0;
        for (int32_t index = 0; index < 16; index++) {
            um_sample sample = {.op.id = ops[i]};
            if (!um_op_get_row(ops[i])->sample(index, UM_F32, &sample)) break;
            bool small = um_view_count(&sample.op.out[0]) > 1;
            for (int32_t v = 0; v < sample.op.in_count; v++)
                small = small && um_view_count(&sample.op.in[v]) <= ROOM / 8 &&
                        (sample.op.in[v].dtype == UM_F32 || um_view_is_none(&sample.op.in[v]));
            if (!small) continue;
            const char *limits = ops[i] == UM_OP_ATTENTION ? "groups:6" : "groups:2";
            if (!run_on(NULL, &sample, whole) || !run_on(limits, &sample, parts)) continue;
            CHECK_MSG(memcmp(whole, parts, ROOM) == 0, "%s %s", um_op_name(ops[i]), sample.label);
            compared++;
        }
        CHECK_MSG(compared > 0, "%s", um_op_name(ops[i]));
    }
}

int main(void)
{
    TEST(large_views_are_cut);
    TEST(numbers_of_invocations_fit);
    TEST(what_cannot_be_cut_says_so);
    TEST(more_buffers_than_a_device_takes_are_refused);
    TEST(small_limits_are_enough_or_refused_before);
    TEST(what_writes_nothing_is_supported);
    TEST(groups_are_folded);
    TEST(parts_give_the_same_bits);
    return TEST_RESULT();
}
