/* test/test_op.c: the op table: rules and their messages, overlap predicates against enumeration,
 * samples, garbage. */
#include "op/table.h"
#include "test.h"

#include <stdlib.h>

/* ---- samples -------------------------------------------------------------------------------- */

/* Pointers far apart, 64 bytes aligned. */
static void place(um_op *op)
{
    um_ptr at = 4096;
    um_view *views[UM_OP_MAX_INPUTS + UM_OP_MAX_OUTPUTS];
    int32_t count = 0;
    for (int32_t i = 0; i < op->in_count; i++) views[count++] = &op->in[i];
    for (int32_t i = 0; i < op->out_count; i++) views[count++] = &op->out[i];
    for (int32_t i = 0; i < count; i++) {
        views[i]->ptr = at;
        at += ((um_ptr)um_view_count(views[i]) * 8 + 127) / 64 * 64;
    }
}

static int32_t sample_elements;

static int32_t check_samples(const um_op_row *row, um_dtype dtype)
{
    static um_sample sample;
    int32_t index = 0;
    for (;; index++) {
        memset(&sample, 0, sizeof sample);
        sample.op.id = row->id;
        if (!row->sample(index, dtype, &sample)) break;
        place(&sample.op);
        um_status status = um_op_check(&sample.op);
        CHECK_MSG(status == UM_OK, "%s %s sample %d (%s): %s", row->name, um_dtype_name(dtype),
                  index, sample.label, um_last_error()->message);
        CHECK_MSG(strlen(sample.label) < sizeof sample.label - 1, "%s", sample.label);
        int32_t main = um_op_main_input(row->id);
        if (main >= 0 && main < sample.op.in_count) CHECK(sample.op.in[main].dtype == dtype);
        for (int32_t i = 0; i < sample.op.in_count; i++) {
            CHECK_MSG(sample.lo[i] <= sample.hi[i], "%s %s: %g > %g", row->name,
                      um_dtype_name(dtype), sample.lo[i], sample.hi[i]);
            sample_elements += (int32_t)um_view_count(&sample.op.in[i]);
        }
    }
    return index;
}

static void test_samples(void)
{
    int32_t total = 0;
    for (um_op_id id = 1; id <= um_op_count(); id++) {
        const um_op_row *row = um_op_get_row(id);
        for (um_dtype d = 1; um_dtype_valid(d); d++) {
            if (!(row->dtypes & UM_BIT(d))) continue;
            int32_t count = check_samples(row, d);
            CHECK_MSG(count > 0, "%s %s has no sample", row->name, um_dtype_name(d));
            total += count;
        }
    }
    printf("     %d samples, %d input elements\n", total, sample_elements);
}

int main(void)
{
    TEST(test_samples);
    return TEST_RESULT();
}
