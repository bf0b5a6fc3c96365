/* op/index.c: ops that read through indices: embedding. What the indices hold is seen only on the
 * device; the kernel reports one that is out of range. */
#include "op/rule.h"

um_status um_infer_embedding(const um_op *op, um_view *out)
{
    const um_view *table = &op->in[0], *ids = &op->in[1];
    if (table->rank < 1)
        return um_rule_fail_view(op, "the table needs a rank of 1 or more", "table", table);
    if (!um_dtype_is_index(ids->dtype))
        return um_rule_fail_view(op, "ids must be i32 or i64", "ids", ids);
    if (ids->rank + table->rank - 1 > UM_MAX_RANK)
        return um_rule_fail_views(op, "the result has more than 8 dimensions", "table", table,
                                  "ids", ids);
    um_rule_like(out, table->dtype, ids);
    for (int32_t i = 1; i < table->rank; i++) out->shape[out->rank++] = table->shape[i];
    return UM_OK;
}

bool um_sample_embedding(int32_t index, um_dtype dtype, um_sample *sample)
{
    static const struct {
        um_dims table, ids;
    } rows[] = {
        {UM_DIMS(10, 7), UM_SCALAR},
        {UM_DIMS(10, 7), UM_DIMS(5)},
        {UM_DIMS(1, 1), UM_DIMS(3)},
        {UM_DIMS(257, 33), UM_DIMS(2, 3, 5)},
        {UM_DIMS(65), UM_DIMS(17)},
        {UM_DIMS(5, 0), UM_DIMS(3)},
        {UM_DIMS(0, 5), UM_DIMS(0)},
        {UM_DIMS(3, 5), UM_DIMS(2, 0)},
        {UM_DIMS(7, 2, 3, 1, 2), UM_DIMS(2, 2)},
        {UM_DIMS(3, 2, 1, 2, 2, 1, 2, 3), UM_SCALAR},
        {UM_DIMS(9), UM_DIMS(2, 1, 2, 1, 2, 1, 2, 3)},
        {UM_DIMS(512, 64), UM_DIMS(129)},
    };
    if (index >= 2 * (int32_t)UM_COUNT_OF(rows)) return false;
    const um_dims *table = &rows[index / 2].table;
    um_sample_input(sample, dtype, table, -100, 100);
    um_sample_indices(sample, index % 2 ? UM_I64 : UM_I32, &rows[index / 2].ids, 0,
                      UM_MAX(table->size[0] - 1, 0));
    um_sample_label_input(sample);
    um_sample_label(sample, " row=%d ids=%s", index / 2, index % 2 ? "i64" : "i32");
    return um_sample_finish(sample, UM_DTYPE_NONE);
}
