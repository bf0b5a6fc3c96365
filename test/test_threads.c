/* The same bits with 1, 2, 3 and 8 threads, for every op of the table: its largest sample, made
 * large enough along its first axis to be worth threads. */
#include "check/inside.h"
#include "test.h"

#include <stdlib.h>

enum {
    MOST = 400,       /* digests: ops times dtypes */
    ENOUGH = 1 << 19, /* elements */
    PERIOD = 1022     /* of the numbers in the inputs; even, for two to a byte */
};

/* ---- large samples ------------------------------------------------------------------------------
 */

static int64_t count_of(const um_op *op)
{
    int64_t count = 0;
    for (int32_t i = 0; i < op->in_count; i++) count += um_view_count(&op->in[i]);
    for (int32_t i = 0; i < op->out_count; i++) count += um_view_count(&op->out[i]);
    return count;
}

/* Of those that programs ride on, or of the others. */
static bool find_largest(um_op_id id, um_dtype dtype, bool ridden, um_sample *largest)
{
    int64_t most = -1;
    for (int32_t index = 0;; index++) {
        um_sample s = {.op.id = id};
        if (!um_op_get_row(id)->sample(index, dtype, &s)) break;
        if ((um_op_program_bytes(&s.op) > 0) != ridden || count_of(&s.op) <= most) continue;
        most = count_of(&s.op);
        *largest = s;
        um_sample_own_programs(largest);
    }
    return most > 0;
}

static void pack(um_view *v)
{
    um_view was = *v;
    CHECK_OK(um_view_make(was.ptr, was.dtype, was.rank, was.shape, v));
}

/* The first axis of the views that `which` names (bits: the inputs, then output 0) times `factor`;
 * whether that is an op, and a larger one. */
static bool grow(um_sample *s, uint32_t which, int64_t factor)
{
    um_sample grown = *s;
    um_op *op = &grown.op;
    um_sample_own_programs(&grown);
    for (int32_t i = 0; i <= op->in_count; i++) {
        um_view *v = i < op->in_count ? &op->in[i] : &op->out[0];
        if (!(which >> i & 1u) || v->rank == 0) continue;
        v->shape[0] *= factor;
        pack(v);
    }
    int64_t was = count_of(&s->op);
    if (um_op_infer(op) != UM_OK || count_of(op) <= was) return false;
    *s = grown;
    um_sample_own_programs(s);
    return true;
}

/* The most views that can grow together; again, where that is only a part of them. */
static void make_large(um_sample *s)
{
    for (int32_t round = 0; round < 4 && count_of(&s->op) < ENOUGH; round++) {
        int64_t factor = ENOUGH / count_of(&s->op) + 1;
        for (uint32_t left = 0; left < (uint32_t)1 << (s->op.in_count + 1); left++)
            if (grow(s, ~left, factor)) break;
    }
}

/* ---- running ------------------------------------------------------------------------------------
 */

static um_device *device;
static um_stream *stream;

static uint64_t bytes_of(const um_view *v)
{
    return ((uint64_t)um_view_count(v) * (uint64_t)um_dtype_bits(v->dtype) + 7) / 8;
}

static void fill_input(const um_sample *s, int32_t k, uint8_t *bytes)
{
    const um_view *v = &s->op.in[k];
    um_rng rng = um_rng_make((uint64_t)k, um_op_name(s->op.id));
    um_image image = {.bytes = bytes, .bits = um_oracle_bits(v->dtype)};
    int64_t count = um_view_count(v);
    for (int64_t i = 0; i < count && i < PERIOD; i++) {
        um_num value = um_value_make(s, k, UM_ROUND_RANDOM, &rng);
        um_image_set(&image, i, um_oracle_encode(v->dtype, value));
    }
    uint64_t size = bytes_of(v), done = (uint64_t)PERIOD * (uint64_t)image.bits / 8;
    for (uint64_t n; done < size; done += n) {
        n = UM_MIN(done, size - done);
        memcpy(bytes + done, bytes, n);
    }
}

static uint64_t digest_of(const um_view *v, uint8_t *bytes)
{
    uint64_t digest = 0, size = bytes_of(v);
    CHECK_OK(um_read(stream, bytes, v->ptr, size));
    memset(bytes + size, 0, 8); /* there is room */
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

/* A digest of all that the op writes. */
static uint64_t run_sample(um_sample *s)
{
    um_op *op = &s->op;
    uint64_t digest = 0;
    uint8_t *bytes = NULL;
    for (int32_t i = 0; i < op->in_count; i++) {
        bytes = realloc(bytes, bytes_of(&op->in[i]) + 8);
        fill_input(s, i, bytes);
        CHECK_OK(um_alloc(device, bytes_of(&op->in[i]), &op->in[i].ptr));
        CHECK_OK(um_write(stream, op->in[i].ptr, bytes, bytes_of(&op->in[i])));
    }
    for (int32_t i = 0; i < op->out_count; i++) {
        uint64_t size = bytes_of(&op->out[i]);
        CHECK_OK(um_alloc(device, size, &op->out[i].ptr));
        CHECK_OK(um_fill(stream, op->out[i].ptr, size, "\xa5", 1));
    }
    um_status status = um_enqueue(stream, op);
    if (status == UM_OK) status = um_synchronize(stream);
    CHECK_MSG(status == UM_OK, "%s: %s", um_op_name(op->id), um_last_error()->message);
    for (int32_t i = 0; i < op->out_count; i++) {
        bytes = realloc(bytes, bytes_of(&op->out[i]) + 8);
        digest = digest * 31 + digest_of(&op->out[i], bytes);
    }
    for (int32_t i = 0; i < op->in_count; i++) CHECK_OK(um_free(device, op->in[i].ptr));
    for (int32_t i = 0; i < op->out_count; i++) CHECK_OK(um_free(device, op->out[i].ptr));
    free(bytes);
    return digest;
}

typedef struct result {
    um_op_id id;
    um_dtype dtype;
    int64_t elements;
    uint64_t digest;
} result;

static int32_t run_every_op(const char *threads, result *results)
{
    static um_sample s;
    int32_t count = 0;
    setenv("UMBEL_THREADS", threads, 1);
    CHECK_OK(um_open("cpu", &device));
    CHECK_OK(um_stream_create(device, &stream));
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        uint32_t dtypes = um_op_get_row(id)->dtypes;
        um_dtype dtype = 1;
        while (!(dtypes >> dtype & 1u)) dtype++;
        if (dtypes & UM_BIT(UM_F32)) dtype = UM_F32;
        for (int ridden = 0; ridden < 2; ridden++) {
            if (!find_largest(id, dtype, ridden, &s)) continue;
            make_large(&s);
            results[count] = (result){.id = id, .dtype = dtype, .elements = count_of(&s.op)};
            results[count++].digest = run_sample(&s);
        }
    }
    um_stream_release(stream);
    um_device_release(device);
    unsetenv("UMBEL_THREADS");
    return count;
}

static void test_same_bits(void)
{
    static const char *const threads[] = {"1", "2", "3", "8"};
    static result first[MOST], now[MOST];
    int32_t count = run_every_op(threads[0], first), small = 0;
    CHECK(count > um_op_count() && count <= MOST);
    bool has[MOST] = {false};
    for (int32_t i = 0; i < count; i++) has[first[i].id] = true;
    for (um_op_id id = 1; id <= um_op_count(); id++) CHECK_MSG(has[id], "no %s", um_op_name(id));
    for (int32_t i = 0; i < count; i++) small += first[i].elements < ENOUGH / 2;
    CHECK_MSG(small == 0, "%d ops could not be made large", (int)small);
    for (int32_t t = 1; t < 4; t++) {
        CHECK(run_every_op(threads[t], now) == count);
        for (int32_t i = 0; i < count; i++)
            CHECK_MSG(first[i].digest == now[i].digest, "%s %s: other bits with %s threads",
                      um_op_name(now[i].id), um_dtype_name(now[i].dtype), threads[t]);
    }
}

int main(void)
{
    TEST(test_same_bits);
    return TEST_RESULT();
}
