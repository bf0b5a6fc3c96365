/* check/oracle_sort.c: sort and top-k by comparing values as real numbers, ties by place. */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

typedef struct entry {
    um_num item;
    long double value;
    int64_t place;
    bool falls;
} entry;

/* NaN is the largest. */
static int compare_values(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return !!isnan(a) - !!isnan(b);
    return (a > b) - (a < b);
}

static int compare(const void *a_entry, const void *b_entry)
{
    const entry *a = a_entry, *b = b_entry;
    int order = compare_values(a->value, b->value);
    if (order) return a->falls ? -order : order;
    return a->place < b->place ? -1 : 1;
}

static um_expect expect_item(um_dtype dtype, um_num item)
{
    return um_oracle_is_float(dtype) ? um_expect_near((long double)item.f, 0) : um_expect_num(item);
}

um_status um_oracle_sort(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *const *expect)
{
    const um_array *x = &in[0];
    int32_t axis = op->attrs.sort.axis < 0 ? op->attrs.sort.axis + x->rank : op->attrs.sort.axis;
    int64_t n = x->shape[axis], k = out[0].shape[axis], inner = 1;
    bool has_values = op->id == UM_OP_SORT || op->id == UM_OP_TOPK;
    for (int32_t i = axis + 1; i < x->rank; i++) inner *= x->shape[i];
    entry *line = malloc(((size_t)n + 1) * sizeof *line);
    if (!line) return UM_OUT_OF_MEMORY;
    for (int64_t number = 0; k > 0 && number < out[0].count / k; number++) {
        int64_t outer = number / inner, column = number % inner;
        for (int64_t i = 0; i < n; i++) {
            um_num item = x->item[(outer * n + i) * inner + column];
            line[i] =
                (entry){item, um_oracle_real(x->dtype, item), i, op->attrs.sort.descending != 0};
        }
        qsort(line, (size_t)n, sizeof *line, compare);
        for (int64_t i = 0; i < k; i++) {
            int64_t at = (outer * k + i) * inner + column;
            um_expect place = um_expect_num((um_num){.i = line[i].place});
            expect[0][at] = has_values ? expect_item(x->dtype, line[i].item) : place;
            if (op->out_count > 1) expect[1][at] = place;
        }
    }
    free(line);
    return UM_OK;
}
