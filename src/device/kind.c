/* Kinds of devices by name, and the matrix tile that suits a device. Called by spec.c and from
 * outside. */
#include "device/device.h"
#include "device/tune.h"
#include "kernel/library.h"
#include "op/table.h"

#include <ctype.h>
#include <stdio.h>
#include <umbel/select.h>

static const struct {
    um_device_kind kind;
    const char *name, *words;
} kinds[] = {
#define UM_KIND(KIND, name, words) {UM_DEVICE_##KIND, name, words},
#include "device/kinds.def"
#undef UM_KIND
};

#define WORD_MAX 16

um_device_kind um_device_kind_parse(const char *text)
{
    char padded[WORD_MAX + 3] = " ";
    size_t length = 0;
    if (!text) return UM_DEVICE_NONE;
    while (isspace((unsigned char)*text)) text++;
    for (; text[length] && !isspace((unsigned char)text[length]); length++) {
        if (length == WORD_MAX) return UM_DEVICE_NONE;
        padded[length + 1] = (char)tolower((unsigned char)text[length]);
    }
    for (const char *rest = text + length; *rest; rest++) {
        if (!isspace((unsigned char)*rest)) return UM_DEVICE_NONE;
    }
    if (length == 0) return UM_DEVICE_NONE;
    padded[length + 1] = ' ';
    for (size_t i = 0; i < UM_COUNT_OF(kinds); i++) {
        if (strstr(kinds[i].words, padded)) return kinds[i].kind;
    }
    return UM_DEVICE_NONE;
}

const char *um_device_kind_name(um_device_kind kind)
{
    for (size_t i = 0; i < UM_COUNT_OF(kinds); i++) {
        if (kinds[i].kind == kind) return kinds[i].name;
    }
    return "none";
}

/* ---- matrix tiles --------------------------------------------------------------------------- */

static void tile_by_rule(bool tensor_cores, int64_t m, int64_t n, int64_t k, um_matrix_tile *out)
{
    static const um_matrix_tile cores_large = {.m = 128, .n = 128, .k = 32};
    static const um_matrix_tile medium = {.m = 64, .n = 64, .k = 16};
    static const um_matrix_tile small = {.m = 16, .n = 16, .k = 16};
    static const um_matrix_tile large = {.m = 128, .n = 128, .k = 8};
    int64_t least = UM_MIN(UM_MIN(m, n), k);
    if (tensor_cores && m % 16 == 0 && n % 16 == 0 && k % 16 == 0) {
        *out = least >= 512 ? cores_large : medium;
    } else {
        *out = least <= 64 ? small : least <= 512 ? medium : large;
    }
}

/* The tile of the form that was the fastest for such a product; false: nobody has timed it. */
static bool tile_by_times(const um_caps *caps, int64_t m, int64_t n, int64_t k, um_matrix_tile *out)
{
    static const um_dtype dtypes[] = {UM_F32, UM_F16, UM_BF16};
    um_op op = {.id = UM_OP_MATMUL, .in_count = 2, .out_count = 1};
    const int64_t shape[3][2] = {{m, k}, {k, n}, {m, n}};
    for (size_t i = 0; i < UM_COUNT_OF(dtypes); i++) {
        if (um_view_make(0, dtypes[i], 2, shape[0], &op.in[0]) != UM_OK ||
            um_view_make(0, dtypes[i], 2, shape[1], &op.in[1]) != UM_OK ||
            um_view_make(0, dtypes[i], 2, shape[2], &op.out[0]) != UM_OK)
            return false;
        int32_t tile[3], form = um_tune_find(caps->kind, caps->name, &op);
        if (form == 0) continue;
        um_kproduct_tile(form, tile);
        *out = (um_matrix_tile){.m = tile[0], .n = tile[1], .k = tile[2]};
        return true;
    }
    return false;
}

um_status um_recommended_tile(um_device *device, um_op_id op, int64_t m, int64_t n, int64_t k,
                              um_matrix_tile *out)
{
    const um_op_row *row = um_op_get_row(op);
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "um_recommended_tile: out is NULL");
    *out = (um_matrix_tile){0};
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "um_recommended_tile: device is NULL");
    if (!row || !um_op_is_product(row)) {
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_recommended_tile: %s is no matrix product",
                       um_op_name(op));
    }
    if (m < 1 || n < 1 || k < 1) {
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_recommended_tile: %lld x %lld x %lld, wanted sizes of 1 or more",
                       (long long)m, (long long)n, (long long)k);
    }
    um_caps caps = {.struct_size = sizeof caps};
    UM_TRY(um_device_caps(device, &caps));
    if (op == UM_OP_MATMUL && tile_by_times(&caps, m, n, k, out)) return UM_OK;
    tile_by_rule((caps.features & UM_FEATURE_TENSOR_CORES) != 0, m, n, k, out);
    return UM_OK;
}
