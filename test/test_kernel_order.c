/* test/test_kernel_order.c: lines that are longer than a tile of the kernel library's sort, and
 * gradients whose indices are many or all the same, on the device interp. */
#include "test.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <umbel/umbel.h>

enum { LONG = 100003 };

static um_device *device;
static um_stream *stream;

/* Runs the op on host memory; bytes: of each input and output. */
static void run(um_op *op, void *const *in, void *const *out)
{
    for (int32_t i = 0; i < op->in_count + op->out_count; i++) {
        bool is_out = i >= op->in_count;
        um_view *view = is_out ? &op->out[i - op->in_count] : &op->in[i];
        size_t bytes = (size_t)(um_view_count(view) * um_dtype_bits(view->dtype) / 8);
        CHECK_OK(um_alloc(device, bytes, &view->ptr));
        if (!is_out) CHECK_OK(um_write(stream, view->ptr, in[i], bytes));
    }
    CHECK_OK(um_enqueue(stream, op));
    for (int32_t i = 0; i < op->in_count + op->out_count; i++) {
        bool is_out = i >= op->in_count;
        um_view *view = is_out ? &op->out[i - op->in_count] : &op->in[i];
        size_t bytes = (size_t)(um_view_count(view) * um_dtype_bits(view->dtype) / 8);
        if (is_out) CHECK_OK(um_read(stream, out[i - op->in_count], view->ptr, bytes));
        CHECK_OK(um_free(device, view->ptr));
    }
}

static uint32_t draw(uint32_t below)
{
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* Few values, so many are equal; NaN and zeros of both signs among them. */
static double some_value(void)
{
    uint32_t n = draw(4000);
    return n == 0 ? (double)NAN : n == 1 ? -0.0 : (double)n / 16 - 100;
}

/* What comes first: NaN is the largest, zeros are equal, and equal ones stay in order. */
static const double *keys;
static bool falls;
static int compare(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    double x = keys[i], y = keys[j];
    int order = isnan(x) || isnan(y) ? !!isnan(x) - !!isnan(y) : (x > y) - (x < y);
    if (falls) order = -order;
    return order ? order : (i > j) - (i < j);
}

/* The first k of each line, by the device and by qsort. */
static void sorts(um_dtype dtype, int64_t lines, int64_t length, int64_t k, bool falling)
{
    size_t count = (size_t)(lines * length), outs = (size_t)(lines * k);
    double *x = malloc(count * sizeof *x), *narrow = malloc(count * sizeof *narrow);
    double *y = malloc(outs * sizeof *y);
    int64_t *where = malloc(outs * sizeof *where), *want = malloc((size_t)length * sizeof *want);
    for (size_t i = 0; i < count; i++) x[i] = some_value();
    CHECK_OK(um_convert(dtype, narrow, UM_F64, x, (int64_t)count));
    um_op op = {.id = UM_OP_TOPK, .in_count = 1, .out_count = 2};
    op.attrs.sort.axis = 1;
    op.attrs.sort.descending = falling;
    op.attrs.sort.k = k;
    CHECK_OK(um_view_make(0, dtype, 2, (const int64_t[]){lines, length}, &op.in[0]));
    CHECK_OK(um_op_infer(&op));
    run(&op, (void *[]){narrow}, (void *[]){y, where});
    int64_t wrong = 0;
    for (int64_t line = 0; line < lines; line++) {
        keys = x + line * length;
        falls = falling;
        for (int64_t i = 0; i < length; i++) want[i] = i;
        qsort(want, (size_t)length, sizeof *want, compare);
        for (int64_t r = 0; r < k; r++) {
            size_t bytes = (size_t)um_dtype_bits(dtype) / 8, at = (size_t)(line * k + r);
            const char *from = (const char *)narrow + (size_t)(line * length + want[r]) * bytes;
            wrong += where[at] != want[r] || memcmp((char *)y + at * bytes, from, bytes) != 0;
        }
    }
    CHECK_MSG(wrong == 0, "%s[%lld,%lld]: %lld of the first %lld are wrong", um_dtype_name(dtype),
              (long long)lines, (long long)length, (long long)wrong, (long long)k);
    free(x);
    free(narrow);
    free(y);
    free(where);
    free(want);
}

static void test_long_lines(void)
{
    sorts(UM_F32, 1, LONG, LONG, false);
    sorts(UM_F32, 3, 2049, 2049, true);
    sorts(UM_F32, 3, 5003, 10, true);
    sorts(UM_F64, 2, 4099, 4099, false);
    sorts(UM_F64, 2, 1537, 600, true); /* more than a tile has */
    sorts(UM_F32, 1, 2048, 1, false);
    sorts(UM_F32, 700, 3, 3, false); /* some in a tile, the last of which is not full */
}

/* Gradients of small whole numbers, whose sums are exact. */
static void adds_up(int32_t rows, int32_t count, bool same)
{
    enum { WIDTH = 3 };
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    float *dy = malloc((size_t)count * WIDTH * sizeof *dy);
    float *y = malloc((size_t)rows * WIDTH * sizeof *y);
    double *want = calloc((size_t)rows * WIDTH, sizeof *want);
    for (int32_t i = 0; i < count; i++) {
        ids[i] = same ? rows - 1 : (int32_t)draw((uint32_t)rows);
        for (int32_t j = 0; j < WIDTH; j++) {
            dy[i * WIDTH + j] = (float)draw(200) - 100;
            want[ids[i] * WIDTH + j] += (double)dy[i * WIDTH + j];
        }
    }
    um_op op = {.id = UM_OP_EMBEDDING_BACKWARD, .in_count = 2, .out_count = 1};
    op.attrs.index.count = rows;
    CHECK_OK(um_view_make(0, UM_F32, 2, (const int64_t[]){count, WIDTH}, &op.in[0]));
    CHECK_OK(um_view_make(0, UM_I32, 1, (const int64_t[]){count}, &op.in[1]));
    CHECK_OK(um_op_infer(&op));
    run(&op, (void *[]){dy, ids}, (void *[]){y});
    int32_t wrong = 0;
    for (int32_t i = 0; i < rows * WIDTH; i++) wrong += (double)y[i] != want[i];
    CHECK_MSG(wrong == 0, "%d rows, %d indices: %d sums are wrong", rows, count, wrong);
    free(ids);
    free(dy);
    free(y);
    free(want);
}

static void test_gradients(void)
{
    adds_up(1000, 4096, false);
    adds_up(7, 3001, true);
    adds_up(1, 1025, true);
}

int main(void)
{
    CHECK_OK(um_open("interp", &device));
    CHECK_OK(um_stream_create(device, &stream));
    TEST(test_long_lines);
    TEST(test_gradients);
    um_stream_release(stream);
    um_device_release(device);
    return TEST_RESULT();
}
